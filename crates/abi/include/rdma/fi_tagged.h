/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* rdma/fi_tagged.h: written by `cargo xtask headers`; change crates/abi/src or crates/abi/headers instead. */

#ifndef FI_TAGGED_H
#define FI_TAGGED_H

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fi_msg_tagged;
struct fi_ops_tagged;
struct fid_ep;

/* Ignores the tag of a message in the format FI_TAG_MPI. */
#define FI_MPI_IGNORE_TAG 0xffffffffULL

/* Ignores the payload identifier of a message in the format FI_TAG_MPI. */
#define FI_MPI_IGNORE_PAYLOAD (0xffULL << 32)

/* A tagged message. Source: fi_tagged(3). */
struct fi_msg_tagged {
    const struct iovec *msg_iov;
    void **desc;
    size_t iov_count;
    fi_addr_t addr;
    uint64_t tag;
    uint64_t ignore;
    void *context;
    uint64_t data;
};

/* Tagged transfers. Source: fi_tagged(3). */
struct fi_ops_tagged {
    size_t size;
    ssize_t (*recv)(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr, uint64_t tag,
            uint64_t ignore, void *context);
    ssize_t (*recvv)(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
            fi_addr_t src_addr, uint64_t tag, uint64_t ignore, void *context);
    ssize_t (*recvmsg)(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags);
    ssize_t (*send)(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest_addr,
            uint64_t tag, void *context);
    ssize_t (*sendv)(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
            fi_addr_t dest_addr, uint64_t tag, void *context);
    ssize_t (*sendmsg)(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags);
    ssize_t (*inject)(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr, uint64_t tag);
    ssize_t (*senddata)(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
            fi_addr_t dest_addr, uint64_t tag, void *context);
    ssize_t (*injectdata)(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest_addr,
            uint64_t tag);
};

/* A tag in the format FI_TAG_MPI. Source: fi_tagged(3). */
static inline uint64_t fi_tag_mpi(int tag, uint8_t payload_id)
{
    return (uint32_t) tag | ((uint64_t) payload_id << 32);
}

/* Posts a receive for a tag. Source: fi_tagged(3). */
static inline ssize_t fi_trecv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
        uint64_t tag, uint64_t ignore, void *context)
{
    return ep->tagged->recv(ep, buf, len, desc, src_addr, tag, ignore, context);
}

/* Posts a receive for a tag into several buffers. Source: fi_tagged(3). */
static inline ssize_t fi_trecvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
        fi_addr_t src_addr, uint64_t tag, uint64_t ignore, void *context)
{
    return ep->tagged->recvv(ep, iov, desc, count, src_addr, tag, ignore, context);
}

/* Posts a receive for a tag with flags; also peeks, claims and discards. Source: fi_tagged(3). */
static inline ssize_t fi_trecvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    return ep->tagged->recvmsg(ep, msg, flags);
}

/* Sends a tagged message. Source: fi_tagged(3). */
static inline ssize_t fi_tsend(struct fid_ep *ep, const void *buf, size_t len, void *desc,
        fi_addr_t dest_addr, uint64_t tag, void *context)
{
    return ep->tagged->send(ep, buf, len, desc, dest_addr, tag, context);
}

/* Sends a tagged message from several buffers. Source: fi_tagged(3). */
static inline ssize_t fi_tsendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
        fi_addr_t dest_addr, uint64_t tag, void *context)
{
    return ep->tagged->sendv(ep, iov, desc, count, dest_addr, tag, context);
}

/* Sends a tagged message with flags. Source: fi_tagged(3). */
static inline ssize_t fi_tsendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    return ep->tagged->sendmsg(ep, msg, flags);
}

/* Sends a small tagged message; the buffer is free on return and there is no completion. Source: fi_tagged(3). */
static inline ssize_t fi_tinject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr,
        uint64_t tag)
{
    return ep->tagged->inject(ep, buf, len, dest_addr, tag);
}

/* Sends a tagged message with data for the completion of the peer. Source: fi_tagged(3). */
static inline ssize_t fi_tsenddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
        fi_addr_t dest_addr, uint64_t tag, void *context)
{
    return ep->tagged->senddata(ep, buf, len, desc, data, dest_addr, tag, context);
}

/* Injects a tagged message with data for the completion of the peer. Source: fi_tagged(3). */
static inline ssize_t fi_tinjectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
        fi_addr_t dest_addr, uint64_t tag)
{
    return ep->tagged->injectdata(ep, buf, len, data, dest_addr, tag);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_TAGGED_H */
