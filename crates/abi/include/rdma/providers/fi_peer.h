/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* rdma/providers/fi_peer.h: written by `cargo xtask headers`; change crates/abi/src or crates/abi/headers instead. */

#ifndef FI_PEER_H
#define FI_PEER_H

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fi_av_attr;
struct fi_cq_err_entry;
struct fi_cq_tagged_entry;
struct fi_info;
struct fi_ops_av_owner;
struct fi_ops_av_set_owner;
struct fi_ops_cntr_owner;
struct fi_ops_cq_owner;
struct fi_ops_srx_owner;
struct fi_ops_srx_peer;
struct fi_ops_transfer_peer;
struct fi_peer_av_context;
struct fi_peer_av_set_context;
struct fi_peer_cntr_context;
struct fi_peer_cq_context;
struct fi_peer_domain_context;
struct fi_peer_eq_context;
struct fi_peer_match_attr;
struct fi_peer_rx_entry;
struct fi_peer_srx_context;
struct fi_peer_transfer_context;
struct fid;
struct fid_domain;
struct fid_ep;
struct fid_eq;
struct fid_peer_av;
struct fid_peer_av_set;
struct fid_peer_cntr;
struct fid_peer_cq;
struct fid_peer_srx;

/* What the owner of an address vector answers its peers. Source: fi_peer(3). */
struct fi_ops_av_owner {
    size_t size;
    int (*query)(struct fid_peer_av *av, struct fi_av_attr *attr);
    fi_addr_t (*ep_addr)(struct fid_peer_av *av, struct fid_ep *ep);
};

/* An address vector, for peers of its owner. Source: fi_peer(3). */
struct fid_peer_av {
    struct fid fid;
    struct fi_ops_av_owner *owner_ops;
};

/* Context of fi_av_open in a peer. Source: fi_peer(3). */
struct fi_peer_av_context {
    size_t size;
    struct fid_peer_av *av;
};

/* What the owner of a set of addresses answers its peers. Source: fi_peer(3). */
struct fi_ops_av_set_owner {
    size_t size;
    int (*members)(struct fid_peer_av_set *av, fi_addr_t *addr, size_t *count);
};

/* A set of addresses, for peers of its owner. Source: fi_peer(3). */
struct fid_peer_av_set {
    struct fid fid;
    struct fi_ops_av_set_owner *owner_ops;
};

/* Context of fi_av_set in a peer. Source: fi_peer(3). */
struct fi_peer_av_set_context {
    size_t size;
    struct fid_peer_av_set *av_set;
};

/* How a peer reports to the owner of a completion queue. Source: fi_peer(3). */
struct fi_ops_cq_owner {
    size_t size;
    ssize_t (*write)(struct fid_peer_cq *cq, void *context, uint64_t flags, size_t len, void *buf,
            uint64_t data, uint64_t tag, fi_addr_t src);
    ssize_t (*writeerr)(struct fid_peer_cq *cq, const struct fi_cq_err_entry *err_entry);
};

/* A completion queue, for peers of its owner. Source: fi_peer(3). */
struct fid_peer_cq {
    struct fid fid;
    struct fi_ops_cq_owner *owner_ops;
};

/* Context of fi_cq_open in a peer. Source: fi_peer(3). */
struct fi_peer_cq_context {
    size_t size;
    struct fid_peer_cq *cq;
};

/* How a peer reports to the owner of a counter. Source: fi_peer(3). */
struct fi_ops_cntr_owner {
    size_t size;
    void (*inc)(struct fid_peer_cntr *cntr);
    void (*incerr)(struct fid_peer_cntr *cntr);
};

/* A counter, for peers of its owner. Source: fi_peer(3). */
struct fid_peer_cntr {
    struct fid fid;
    struct fi_ops_cntr_owner *owner_ops;
};

/* Context of fi_cntr_open in a peer. Source: fi_peer(3). */
struct fi_peer_cntr_context {
    size_t size;
    struct fid_peer_cntr *cntr;
};

/* Context of fi_domain2 in a peer. Source: fi_peer(3). */
struct fi_peer_domain_context {
    size_t size;
    struct fid_domain *domain;
};

/* Context of fi_eq_open in a peer. Source: fi_peer(3). */
struct fi_peer_eq_context {
    size_t size;
    struct fid_eq *eq;
};

/* A receive, or a message that waits for one, in a receive context that peers share. Source: fi_peer(3). */
struct fi_peer_rx_entry {
    struct fid_peer_srx *srx;
    fi_addr_t addr;
    size_t msg_size;
    uint64_t tag;
    uint64_t cq_data;
    uint64_t flags;
    void *context;
    size_t count;
    void **desc;
    void *peer_context;
    void *owner_context;
    struct iovec *iov;
};

/* The message for which a peer asks the owner. Source: fi_peer(3). */
struct fi_peer_match_attr {
    fi_addr_t addr;
    size_t msg_size;
    uint64_t tag;
};

/* How a peer asks the owner of a receive context for receives. Source: fi_peer(3). */
struct fi_ops_srx_owner {
    size_t size;
    int (*get_msg)(struct fid_peer_srx *srx, struct fi_peer_match_attr *attr,
            struct fi_peer_rx_entry **entry);
    int (*get_tag)(struct fid_peer_srx *srx, struct fi_peer_match_attr *attr,
            struct fi_peer_rx_entry **entry);
    int (*queue_msg)(struct fi_peer_rx_entry *entry);
    int (*queue_tag)(struct fi_peer_rx_entry *entry);
    void (*foreach_unspec_addr)(struct fid_peer_srx *srx, fi_addr_t (*get_addr)(
            struct fi_peer_rx_entry *entry));
    void (*free_entry)(struct fi_peer_rx_entry *entry);
};

/* How the owner of a receive context hands waiting messages back to the peer. Source: fi_peer(3). */
struct fi_ops_srx_peer {
    size_t size;
    int (*start_msg)(struct fi_peer_rx_entry *entry);
    int (*start_tag)(struct fi_peer_rx_entry *entry);
    int (*discard_msg)(struct fi_peer_rx_entry *entry);
    int (*discard_tag)(struct fi_peer_rx_entry *entry);
};

/* A shared receive context, for peers of its owner. Source: fi_peer(3). */
struct fid_peer_srx {
    struct fid_ep ep_fid;
    struct fi_ops_srx_owner *owner_ops;
    struct fi_ops_srx_peer *peer_ops;
};

/* Context of fi_srx_context in a peer. Source: fi_peer(3). */
struct fi_peer_srx_context {
    size_t size;
    struct fid_peer_srx *srx;
};

/* How transfers end that one provider has started for another. Source: fi_peer(3). */
struct fi_ops_transfer_peer {
    size_t size;
    ssize_t (*complete)(struct fid_ep *ep, struct fi_cq_tagged_entry *buf, fi_addr_t src_addr);
    ssize_t (*comperr)(struct fid_ep *ep, struct fi_cq_err_entry *buf);
};

/* Context of fi_endpoint2 in a provider whose transfers go through a peer. Source: fi_peer(3). */
struct fi_peer_transfer_context {
    size_t size;
    struct fi_info *info;
    struct fid_ep *ep;
    struct fi_ops_transfer_peer *peer_ops;
};

#ifdef __cplusplus
}
#endif

#endif /* FI_PEER_H */
