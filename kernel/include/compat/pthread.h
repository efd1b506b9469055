/* For libfabric's headers in the kernel, which has none of these: they are pointed to by wait objects that it does not offer. */
#ifndef KOFI_COMPAT_PTHREAD_H
#define KOFI_COMPAT_PTHREAD_H
typedef struct kofi_no_mutex pthread_mutex_t;
typedef struct kofi_no_cond pthread_cond_t;
#endif
