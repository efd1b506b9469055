#include <poll.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

@definitions eq.rs eq/wait.rs eq/cq.rs eq/cntr.rs

@calls calls/eq.rs

@calls calls/cq.rs

/* Takes one completion in error; providers before 1.20 leave its source as it is. Source: fi_cq(3). */
static inline ssize_t fi_cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *buf, uint64_t flags)
{
    if (buf != NULL)
        buf->src_addr = FI_ADDR_NOTAVAIL;
    return cq->ops->readerr(cq, buf, flags);
}

@calls calls/cntr.rs
