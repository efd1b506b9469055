/* For libfabric's headers in the kernel, whose pieces of its own memory are struct kvec. */
#ifndef KOFI_COMPAT_UIO_H
#define KOFI_COMPAT_UIO_H
#include <linux/uio.h>
#define iovec kvec
#endif
