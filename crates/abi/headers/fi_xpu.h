#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

@definitions xpu.rs

@calls calls/xpu.rs
