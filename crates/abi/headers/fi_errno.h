#include <errno.h>

@definitions errno.rs

/* Spells an error number, positive or negative. Source: fi_errno(3). */
const char *fi_strerror(int errnum);
