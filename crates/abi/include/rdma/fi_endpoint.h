/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* rdma/fi_endpoint.h: written by `cargo xtask headers`; change crates/abi/src or crates/abi/headers instead. */

#ifndef FI_ENDPOINT_H
#define FI_ENDPOINT_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fi_msg;
struct fi_ops_atomic;
struct fi_ops_cm;
struct fi_ops_collective;
struct fi_ops_ep;
struct fi_ops_msg;
struct fi_ops_rma;
struct fi_ops_tagged;
struct fi_rx_attr;
struct fi_tx_attr;
struct fid;
struct fid_ep;
struct fid_pep;
struct fid_stx;
struct fid_xpu_ep;

/* Levels of fi_getopt and fi_setopt. */
#define FI_OPT_ENDPOINT 0

/* Options of level FI_OPT_ENDPOINT. */
#define FI_OPT_MIN_MULTI_RECV 0
#define FI_OPT_CM_DATA_SIZE 1
#define FI_OPT_BUFFERED_MIN 2
#define FI_OPT_BUFFERED_LIMIT 3
#define FI_OPT_SEND_BUF_SIZE 4
#define FI_OPT_RECV_BUF_SIZE 5
#define FI_OPT_TX_SIZE 6
#define FI_OPT_RX_SIZE 7
#define FI_OPT_FI_HMEM_P2P 8
#define FI_OPT_XPU_TRIGGER 9
#define FI_OPT_CUDA_API_PERMITTED 10
#define FI_OPT_SHARED_MEMORY_PERMITTED 11
#define FI_OPT_MAX_MSG_SIZE 12
#define FI_OPT_MAX_TAGGED_SIZE 13
#define FI_OPT_MAX_RMA_SIZE 14
#define FI_OPT_MAX_ATOMIC_SIZE 15
#define FI_OPT_INJECT_MSG_SIZE 16
#define FI_OPT_INJECT_TAGGED_SIZE 17
#define FI_OPT_INJECT_RMA_SIZE 18
#define FI_OPT_INJECT_ATOMIC_SIZE 19
#define FI_OPT_FIREWALL_ADDR 20

/* Values of FI_OPT_FI_HMEM_P2P. */
#define FI_HMEM_P2P_ENABLED 0
#define FI_HMEM_P2P_REQUIRED 1
#define FI_HMEM_P2P_PREFERRED 2
#define FI_HMEM_P2P_DISABLED 3

/*
 * An active endpoint, a scalable one, or one of its contexts.
 *
 * Tables of capabilities that the endpoint lacks may be null. Source: fi_endpoint(3).
 */
struct fid_ep {
    struct fid fid;
    struct fi_ops_ep *ops;
    struct fi_ops_cm *cm;
    struct fi_ops_msg *msg;
    struct fi_ops_rma *rma;
    struct fi_ops_tagged *tagged;
    struct fi_ops_atomic *atomic;
    struct fi_ops_collective *collective;
};

/* A passive endpoint, which listens. Source: fi_endpoint(3). */
struct fid_pep {
    struct fid fid;
    struct fi_ops_ep *ops;
    struct fi_ops_cm *cm;
};

/* A shared transmit context. Source: fi_endpoint(3). */
struct fid_stx {
    struct fid fid;
    struct fi_ops_ep *ops;
};

/* An untagged message. Source: fi_msg(3). */
struct fi_msg {
    const struct iovec *msg_iov;
    void **desc;
    size_t iov_count;
    fi_addr_t addr;
    void *context;
    uint64_t data;
};

/* Operations of endpoints and contexts beside data transfer. Source: fi_endpoint(3). */
struct fi_ops_ep {
    size_t size;
    ssize_t (*cancel)(fid_t fid, void *context);
    int (*getopt)(fid_t fid, int level, int optname, void *optval, size_t *optlen);
    int (*setopt)(fid_t fid, int level, int optname, const void *optval, size_t optlen);
    int (*tx_ctx)(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **tx_ep,
            void *context);
    int (*rx_ctx)(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **rx_ep,
            void *context);
    ssize_t (*rx_size_left)(struct fid_ep *ep);
    ssize_t (*tx_size_left)(struct fid_ep *ep);
    int (*export_xpu)(struct fid_ep *ep, uint64_t flags, struct fid_xpu_ep *xpu_ep);
};

/* Untagged transfers. Source: fi_msg(3). */
struct fi_ops_msg {
    size_t size;
    ssize_t (*recv)(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr, void *context);
    ssize_t (*recvv)(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
            fi_addr_t src_addr, void *context);
    ssize_t (*recvmsg)(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags);
    ssize_t (*send)(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest_addr,
            void *context);
    ssize_t (*sendv)(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
            fi_addr_t dest_addr, void *context);
    ssize_t (*sendmsg)(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags);
    ssize_t (*inject)(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr);
    ssize_t (*senddata)(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
            fi_addr_t dest_addr, void *context);
    ssize_t (*injectdata)(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest_addr);
};

/* Opens a passive endpoint. Source: fi_endpoint(3). */
static inline int fi_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
        void *context)
{
    return fabric->ops->passive_ep(fabric, info, pep, context);
}

/* Opens an endpoint, disabled. Source: fi_endpoint(3). */
static inline int fi_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
        void *context)
{
    return domain->ops->endpoint(domain, info, ep, context);
}

/* Opens a scalable endpoint. Source: fi_endpoint(3). */
static inline int fi_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
        void *context)
{
    return domain->ops->scalable_ep(domain, info, sep, context);
}

/* Opens a transmit context of a scalable endpoint. Source: fi_endpoint(3). */
static inline int fi_tx_context(struct fid_ep *ep, int idx, struct fi_tx_attr *attr, struct fid_ep **tx_ep,
        void *context)
{
    return ep->ops->tx_ctx(ep, idx, attr, tx_ep, context);
}

/* Opens a receive context of a scalable endpoint. Source: fi_endpoint(3). */
static inline int fi_rx_context(struct fid_ep *ep, int idx, struct fi_rx_attr *attr, struct fid_ep **rx_ep,
        void *context)
{
    return ep->ops->rx_ctx(ep, idx, attr, rx_ep, context);
}

/* How many receives fit, deprecated. Source: fi_endpoint(3). */
static inline ssize_t fi_rx_size_left(struct fid_ep *ep)
{
    return ep->ops->rx_size_left(ep);
}

/* How many sends fit, deprecated. Source: fi_endpoint(3). */
static inline ssize_t fi_tx_size_left(struct fid_ep *ep)
{
    return ep->ops->tx_size_left(ep);
}

/* Exports an enabled endpoint to code on an accelerator. Source: fi_xpu(3). */
static inline int fi_ep_export_xpu(struct fid_ep *ep, uint64_t flags, struct fid_xpu_ep *xpu_ep)
{
    if (!FI_CHECK_OP(ep->ops, struct fi_ops_ep, export_xpu))
        return -FI_ENOSYS;
    return ep->ops->export_xpu(ep, flags, xpu_ep);
}

/* Opens a shared transmit context. Source: fi_endpoint(3). */
static inline int fi_stx_context(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
        void *context)
{
    return domain->ops->stx_ctx(domain, attr, stx, context);
}

/* Opens a shared receive context. Source: fi_endpoint(3). */
static inline int fi_srx_context(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **rx_ep,
        void *context)
{
    return domain->ops->srx_ctx(domain, attr, rx_ep, context);
}

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

/* Posts a receive. Source: fi_msg(3). */
static inline ssize_t fi_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
        void *context)
{
    return ep->msg->recv(ep, buf, len, desc, src_addr, context);
}

/* Posts a receive into several buffers. Source: fi_msg(3). */
static inline ssize_t fi_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
        fi_addr_t src_addr, void *context)
{
    return ep->msg->recvv(ep, iov, desc, count, src_addr, context);
}

/* Posts a receive with flags. Source: fi_msg(3). */
static inline ssize_t fi_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    return ep->msg->recvmsg(ep, msg, flags);
}

/* Sends a message. Source: fi_msg(3). */
static inline ssize_t fi_send(struct fid_ep *ep, const void *buf, size_t len, void *desc,
        fi_addr_t dest_addr, void *context)
{
    return ep->msg->send(ep, buf, len, desc, dest_addr, context);
}

/* Sends a message from several buffers. Source: fi_msg(3). */
static inline ssize_t fi_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
        fi_addr_t dest_addr, void *context)
{
    return ep->msg->sendv(ep, iov, desc, count, dest_addr, context);
}

/* Sends a message with flags. Source: fi_msg(3). */
static inline ssize_t fi_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    return ep->msg->sendmsg(ep, msg, flags);
}

/* Sends a small message; the buffer is free on return and there is no completion. Source: fi_msg(3). */
static inline ssize_t fi_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr)
{
    return ep->msg->inject(ep, buf, len, dest_addr);
}

/* Sends a message with data for the completion of the peer. Source: fi_msg(3). */
static inline ssize_t fi_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
        fi_addr_t dest_addr, void *context)
{
    return ep->msg->senddata(ep, buf, len, desc, data, dest_addr, context);
}

/* Injects a message with data for the completion of the peer. Source: fi_msg(3). */
static inline ssize_t fi_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
        fi_addr_t dest_addr)
{
    return ep->msg->injectdata(ep, buf, len, data, dest_addr);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_ENDPOINT_H */
