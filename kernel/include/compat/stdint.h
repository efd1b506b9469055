/* For libfabric's headers in the kernel: its integers. */
#include <linux/types.h>
#ifndef UINT64_MAX
#define UINT64_MAX U64_MAX
#endif
