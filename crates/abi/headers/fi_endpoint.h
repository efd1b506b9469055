#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

@definitions endpoint.rs

@calls calls/endpoint.rs

/* Opens an endpoint with flags. Source: fi_endpoint(3). */
static inline int fi_endpoint2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, uint64_t flags,
                               void *context)
{
    if (flags == 0)
        return fi_endpoint(domain, info, ep, context);
    if (!FI_CHECK_OP(domain->ops, struct fi_ops_domain, endpoint2))
        return -FI_ENOSYS;
    return domain->ops->endpoint2(domain, info, ep, flags, context);
}

/* Binds a queue, a counter, an address vector or a shared context to an endpoint. Source: fi_endpoint(3). */
static inline int fi_ep_bind(struct fid_ep *ep, struct fid *bfid, uint64_t flags)
{
    return fi_bind(&ep->fid, bfid, flags);
}

/* Binds an event queue to a passive endpoint. Source: fi_endpoint(3). */
static inline int fi_pep_bind(struct fid_pep *pep, struct fid *bfid, uint64_t flags)
{
    return fi_bind(&pep->fid, bfid, flags);
}

/* Binds an address vector to a scalable endpoint. Source: fi_endpoint(3). */
static inline int fi_scalable_ep_bind(struct fid_ep *sep, struct fid *bfid, uint64_t flags)
{
    return fi_bind(&sep->fid, bfid, flags);
}

/* Enables an endpoint for transfers. Source: fi_endpoint(3). */
static inline int fi_enable(struct fid_ep *ep)
{
    return fi_control(&ep->fid, FI_ENABLE, NULL);
}

/* Cancels the operation of that context; its completion is then FI_ECANCELED. Source: fi_endpoint(3). */
static inline ssize_t fi_cancel(fid_t fid, void *context)
{
    return ((struct fid_ep *) fid)->ops->cancel(fid, context);
}

/* Sets an option, one of those that begin with FI_OPT_. Source: fi_endpoint(3). */
static inline int fi_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
    return ((struct fid_ep *) fid)->ops->setopt(fid, level, optname, optval, optlen);
}

/* Reads an option; optlen is the room before and the length after. Source: fi_endpoint(3). */
static inline int fi_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
    return ((struct fid_ep *) fid)->ops->getopt(fid, level, optname, optval, optlen);
}

/* Makes a second handle of an endpoint, with other flags. Source: fi_endpoint(3). */
static inline int fi_ep_alias(struct fid_ep *ep, struct fid_ep **alias_ep, uint64_t flags)
{
    struct fid *alias = NULL;
    int result = fi_alias(&ep->fid, &alias, flags);

    if (result == 0)
        *alias_ep = (struct fid_ep *) alias;
    return result;
}

@calls calls/msg.rs
