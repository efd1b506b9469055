/* For libfabric's headers in the kernel. */
#include <linux/types.h>
