/* For libfabric's headers in the kernel, where no descriptor is waited on. */
struct pollfd;
