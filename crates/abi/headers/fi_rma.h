#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

@definitions rma.rs

@calls calls/rma.rs
