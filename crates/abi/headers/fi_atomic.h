#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

@definitions atomic.rs

@calls calls/atomic.rs
