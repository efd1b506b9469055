/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* rdma/fi_cm.h: written by `cargo xtask headers`; change crates/abi/src or crates/abi/headers instead. */

#ifndef FI_CM_H
#define FI_CM_H

#include <rdma/fi_endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fi_ops_cm;
struct fid;
struct fid_ep;
struct fid_mc;
struct fid_pep;

/* Names and connections of endpoints. Source: fi_cm(3). */
struct fi_ops_cm {
    size_t size;
    int (*setname)(fid_t fid, void *addr, size_t addrlen);
    int (*getname)(fid_t fid, void *addr, size_t *addrlen);
    int (*getpeer)(struct fid_ep *ep, void *addr, size_t *addrlen);
    int (*connect)(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen);
    int (*listen)(struct fid_pep *pep);
    int (*accept)(struct fid_ep *ep, const void *param, size_t paramlen);
    int (*reject)(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen);
    int (*shutdown)(struct fid_ep *ep, uint64_t flags);
    int (*join)(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc, void *context);
};

/* A multicast or collective group. Source: fi_cm(3), fi_collective(3). */
struct fid_mc {
    struct fid fid;
    fi_addr_t fi_addr;
};

/* Copies the address of the connected peer. Source: fi_cm(3). */
static inline int fi_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen)
{
    return ep->cm->getpeer(ep, addr, addrlen);
}

/* Begins to listen for connections. Source: fi_cm(3). */
static inline int fi_listen(struct fid_pep *pep)
{
    return pep->cm->listen(pep);
}

/* Asks for a connection; the answer comes as an event. Source: fi_cm(3). */
static inline int fi_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen)
{
    return ep->cm->connect(ep, addr, param, paramlen);
}

/* Accepts the request that the endpoint was opened from. Source: fi_cm(3). */
static inline int fi_accept(struct fid_ep *ep, const void *param, size_t paramlen)
{
    return ep->cm->accept(ep, param, paramlen);
}

/* Rejects a request. Source: fi_cm(3). */
static inline int fi_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen)
{
    return pep->cm->reject(pep, handle, param, paramlen);
}

/* Ends a connection. Source: fi_cm(3). */
static inline int fi_shutdown(struct fid_ep *ep, uint64_t flags)
{
    return ep->cm->shutdown(ep, flags);
}

/* Joins a multicast or collective group; the end of it comes as an event. Source: fi_cm(3). */
static inline int fi_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
        void *context)
{
    if (!FI_CHECK_OP(ep->cm, struct fi_ops_cm, join))
        return -FI_ENOSYS;
    return ep->cm->join(ep, addr, flags, mc, context);
}

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

#ifdef __cplusplus
}
#endif

#endif /* FI_CM_H */
