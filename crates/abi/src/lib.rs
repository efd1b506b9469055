//! The C ABI of libfabric: repr(C) mirror of rdma/*.h.
