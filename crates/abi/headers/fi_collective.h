#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>

@definitions collective.rs

@calls calls/collective.rs

/* A barrier with flags. Source: fi_collective(3). */
static inline ssize_t fi_barrier2(struct fid_ep *ep, fi_addr_t coll_addr, uint64_t flags, void *context)
{
    if (flags == 0)
        return fi_barrier(ep, coll_addr, context);
    if (!FI_CHECK_OP(ep->collective, struct fi_ops_collective, barrier2))
        return -FI_ENOSYS;
    return ep->collective->barrier2(ep, coll_addr, flags, context);
}

/* Joins the collective group of a set; the end of it comes as an event. Source: fi_collective(3). */
static inline int fi_join_collective(struct fid_ep *ep, fi_addr_t coll_addr, const struct fid_av_set *set,
                                     uint64_t flags, struct fid_mc **mc, void *context)
{
    struct fi_collective_addr group;

    group.set = set;
    group.coll_addr = coll_addr;
    return fi_join(ep, &group, flags | FI_COLLECTIVE, mc, context);
}
