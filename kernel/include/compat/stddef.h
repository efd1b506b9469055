/* For libfabric's headers in the kernel. */
#include <linux/stddef.h>
