#include <rdma/fi_endpoint.h>

@definitions cm.rs

@calls calls/cm.rs

/* Sets the address of an endpoint before it is enabled or listens. Source: fi_cm(3). */
static inline int fi_setname(fid_t fid, void *addr, size_t addrlen)
{
    return ((struct fid_ep *) fid)->cm->setname(fid, addr, addrlen);
}

/* Copies the address of an endpoint; addrlen is the room before and the length after. Source: fi_cm(3). */
static inline int fi_getname(fid_t fid, void *addr, size_t *addrlen)
{
    return ((struct fid_ep *) fid)->cm->getname(fid, addr, addrlen);
}

/* The address of a group, for sends to it. Source: fi_cm(3). */
static inline fi_addr_t fi_mc_addr(struct fid_mc *mc)
{
    return mc->fi_addr;
}
