/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* rdma/fi_domain.h: written by `cargo xtask headers`; change crates/abi/src or crates/abi/headers instead. */

#ifndef FI_DOMAIN_H
#define FI_DOMAIN_H

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fi_atomic_attr;
struct fi_av_attr;
struct fi_av_set_attr;
struct fi_cntr_attr;
struct fi_collective_attr;
struct fi_cq_attr;
struct fi_hmem_override_ops;
struct fi_info;
struct fi_mr_attr;
struct fi_mr_auth_key;
struct fi_mr_dmabuf;
struct fi_mr_modify;
struct fi_ops_av;
struct fi_ops_domain;
struct fi_ops_mr;
struct fi_poll_attr;
struct fi_rx_attr;
struct fi_tx_attr;
struct fi_xpu_attr;
struct fid;
struct fid_av;
struct fid_av_set;
struct fid_cntr;
struct fid_cq;
struct fid_domain;
struct fid_ep;
struct fid_mr;
struct fid_poll;
struct fid_stx;
struct fid_xpu_ctx;

/* Flag of fi_domain_bind: completed registrations are reported to the event queue. */
#define FI_REG_MR (1ULL << 59)

/* Flags of address vectors and of their sets. */
#define FI_SYMMETRIC (1ULL << 59)
#define FI_SYNC_ERR (1ULL << 58)
#define FI_UNIVERSE (1ULL << 57)
#define FI_BARRIER_SET (1ULL << 40)
#define FI_BROADCAST_SET (1ULL << 41)
#define FI_ALLTOALL_SET (1ULL << 42)
#define FI_ALLREDUCE_SET (1ULL << 43)
#define FI_ALLGATHER_SET (1ULL << 44)
#define FI_REDUCE_SCATTER_SET (1ULL << 45)
#define FI_REDUCE_SET (1ULL << 46)
#define FI_SCATTER_SET (1ULL << 47)
#define FI_GATHER_SET (1ULL << 48)

/* Flags of registration. */
#define FI_MR_DMABUF (1ULL << 40)
#define FI_MR_SINGLE_USE (1ULL << 41)
#define FI_HMEM_HOST_ALLOC (1ULL << 45)
#define FI_HMEM_DEVICE_ONLY (1ULL << 46)

/* Owner of the memory of a region: the system or a kind of device. */
enum fi_hmem_iface {
    FI_HMEM_SYSTEM = 0,
    FI_HMEM_CUDA = 1,
    FI_HMEM_ROCR = 2,
    FI_HMEM_ZE = 3,
    FI_HMEM_NEURON = 4,
    FI_HMEM_SYNAPSEAI = 5
};

/* Name under which fi_set_ops takes fi_hmem_override_ops. */
#define FI_SET_OPS_HMEM_OVERRIDE "hmem_override_ops"

/* Where the datatypes and operations begin that only collectives have. */
#define FI_COLLECTIVE_OFFSET 256

/* Type of the elements that an atomic or a collective works on. */
enum fi_datatype {
    FI_INT8 = 0,
    FI_UINT8 = 1,
    FI_INT16 = 2,
    FI_UINT16 = 3,
    FI_INT32 = 4,
    FI_UINT32 = 5,
    FI_INT64 = 6,
    FI_UINT64 = 7,
    FI_FLOAT = 8,
    FI_DOUBLE = 9,
    FI_FLOAT_COMPLEX = 10,
    FI_DOUBLE_COMPLEX = 11,
    FI_LONG_DOUBLE = 12,
    FI_LONG_DOUBLE_COMPLEX = 13,
    FI_INT128 = 14,
    FI_UINT128 = 15,
    FI_FLOAT16 = 16,
    FI_BFLOAT16 = 17,
    FI_FLOAT8_E4M3 = 18,
    FI_FLOAT8_E5M2 = 19,
    FI_VOID = 256
};

/* What an atomic or a reduction does to each element. */
enum fi_op {
    FI_MIN = 0,
    FI_MAX = 1,
    FI_SUM = 2,
    FI_PROD = 3,
    FI_LOR = 4,
    FI_LAND = 5,
    FI_BOR = 6,
    FI_BAND = 7,
    FI_LXOR = 8,
    FI_BXOR = 9,
    FI_ATOMIC_READ = 10,
    FI_ATOMIC_WRITE = 11,
    FI_CSWAP = 12,
    FI_CSWAP_NE = 13,
    FI_CSWAP_LE = 14,
    FI_CSWAP_LT = 15,
    FI_CSWAP_GE = 16,
    FI_CSWAP_GT = 17,
    FI_MSWAP = 18,
    FI_DIFF = 19,
    FI_NOOP = 256
};

/* A collective operation. */
enum fi_collective_op {
    FI_BARRIER = 0,
    FI_BROADCAST = 1,
    FI_ALLTOALL = 2,
    FI_ALLREDUCE = 3,
    FI_ALLGATHER = 4,
    FI_REDUCE_SCATTER = 5,
    FI_REDUCE = 6,
    FI_SCATTER = 7,
    FI_GATHER = 8
};

/* An opened domain. Source: fi_domain(3). */
struct fid_domain {
    struct fid fid;
    struct fi_ops_domain *ops;
    struct fi_ops_mr *mr;
};

/* Operations of a domain that open its objects. Source: fi_domain(3). */
struct fi_ops_domain {
    size_t size;
    int (*av_open)(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context);
    int (*cq_open)(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context);
    int (*endpoint)(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
    int (*scalable_ep)(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep, void *context);
    int (*cntr_open)(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
            void *context);
    int (*poll_open)(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **pollset);
    int (*stx_ctx)(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx, void *context);
    int (*srx_ctx)(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **rx_ep, void *context);
    int (*query_atomic)(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
            struct fi_atomic_attr *attr, uint64_t flags);
    int (*query_collective)(struct fid_domain *domain, enum fi_collective_op coll,
            struct fi_collective_attr *attr, uint64_t flags);
    int (*endpoint2)(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, uint64_t flags,
            void *context);
    int (*xpu_ctx)(struct fid_domain *domain, struct fi_xpu_attr *attr, struct fid_xpu_ctx **ctx,
            void *context);
};

/* Operations of a domain that register memory. Source: fi_mr(3). */
struct fi_ops_mr {
    size_t size;
    int (*reg)(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
            uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context);
    int (*regv)(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset,
            uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context);
    int (*regattr)(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **mr);
};

/* How to open an address vector. Source: fi_av(3). */
struct fi_av_attr {
    enum fi_av_type type;
    int rx_ctx_bits;
    size_t count;
    size_t ep_per_node;
    const char *name;
    void *map_addr;
    uint64_t flags;
};

/* An address vector. Source: fi_av(3). */
struct fid_av {
    struct fid fid;
    struct fi_ops_av *ops;
};

/* Operations of an address vector. Source: fi_av(3). */
struct fi_ops_av {
    size_t size;
    int (*insert)(struct fid_av *av, const void *addr, size_t count, fi_addr_t *fi_addr, uint64_t flags,
            void *context);
    int (*insertsvc)(struct fid_av *av, const char *node, const char *service, fi_addr_t *fi_addr,
            uint64_t flags, void *context);
    int (*insertsym)(struct fid_av *av, const char *node, size_t nodecnt, const char *service, size_t svccnt,
            fi_addr_t *fi_addr, uint64_t flags, void *context);
    int (*remove)(struct fid_av *av, fi_addr_t *fi_addr, size_t count, uint64_t flags);
    int (*lookup)(struct fid_av *av, fi_addr_t fi_addr, void *addr, size_t *addrlen);
    const char *(*straddr)(struct fid_av *av, const void *addr, char *buf, size_t *len);
    int (*av_set)(struct fid_av *av, struct fi_av_set_attr *attr, struct fid_av_set **av_set, void *context);
    int (*insert_auth_key)(struct fid_av *av, const void *auth_key, size_t auth_key_size, fi_addr_t *fi_addr,
            uint64_t flags);
    int (*lookup_auth_key)(struct fid_av *av, fi_addr_t fi_addr, void *auth_key, size_t *auth_key_size);
    int (*set_user_id)(struct fid_av *av, fi_addr_t fi_addr, fi_addr_t user_id, uint64_t flags);
    int (*lookup2)(struct fid_av *av, fi_addr_t fi_addr, void *buf, size_t *len, uint64_t flags,
            struct fid_xpu_ctx *ctx);
};

/* How to open a set of addresses. Source: fi_av_set(3). */
struct fi_av_set_attr {
    size_t count;
    fi_addr_t start_addr;
    fi_addr_t end_addr;
    uint64_t stride;
    size_t comm_key_size;
    uint8_t *comm_key;
    uint64_t flags;
};

/* A memory region. Source: fi_mr(3). */
struct fid_mr {
    struct fid fid;
    void *mem_desc;
    uint64_t key;
};

/* Full description of a registration. Source: fi_mr(3). */
struct fi_mr_attr {
    /* Memory to register; under FI_MR_DMABUF it points to fi_mr_dmabuf instead. */
    union {
        const struct iovec *mr_iov;
        const struct fi_mr_dmabuf *dmabuf;
    };
    size_t iov_count;
    uint64_t access;
    uint64_t offset;
    uint64_t requested_key;
    void *context;
    size_t auth_key_size;
    uint8_t *auth_key;
    enum fi_hmem_iface iface;
    union {
        uint64_t reserved;
        int cuda;
        int ze;
        int neuron;
        int synapseai;
        int rocr;
    } device;
    void *hmem_data;
    size_t page_size;
    const struct fid_mr *base_mr;
    size_t sub_mr_cnt;
};

/* Memory named by a dma-buf file descriptor. Source: fi_mr(3). */
struct fi_mr_dmabuf {
    int fd;
    uint64_t offset;
    size_t len;
    void *base_addr;
};

/* Authorization of a region for one peer. Source: fi_mr(3). */
struct fi_mr_auth_key {
    struct fid_av *av;
    fi_addr_t src_addr;
};

/* Argument of FI_REFRESH. Source: fi_mr(3). */
struct fi_mr_modify {
    uint64_t flags;
    struct fi_mr_attr attr;
};

/* Copies between host and device memory that the caller supplies. Source: fi_mr(3). */
struct fi_hmem_override_ops {
    size_t size;
    ssize_t (*copy_from_hmem_iov)(void *dest, size_t size, enum fi_hmem_iface iface, uint64_t device,
            const struct iovec *hmem_iov, size_t hmem_iov_count, uint64_t hmem_iov_offset);
    ssize_t (*copy_to_hmem_iov)(enum fi_hmem_iface iface, uint64_t device, const struct iovec *hmem_iov,
            size_t hmem_iov_count, uint64_t hmem_iov_offset, const void *src, size_t size);
};

/* Opens a domain. Source: fi_domain(3). */
static inline int fi_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
        void *context)
{
    return fabric->ops->domain(fabric, info, domain, context);
}

/* Opens a completion queue. Source: fi_cq(3). */
static inline int fi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
        void *context)
{
    return domain->ops->cq_open(domain, attr, cq, context);
}

/* Opens a counter. Source: fi_cntr(3). */
static inline int fi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
        void *context)
{
    return domain->ops->cntr_open(domain, attr, cntr, context);
}

/* Opens a wait set, deprecated. Source: fi_poll(3). */
static inline int fi_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr,
        struct fid_wait **waitset)
{
    return fabric->ops->wait_open(fabric, attr, waitset);
}

/* Opens a poll set, deprecated. Source: fi_poll(3). */
static inline int fi_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr,
        struct fid_poll **pollset)
{
    return domain->ops->poll_open(domain, attr, pollset);
}

/* Opens an address vector. Source: fi_av(3). */
static inline int fi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
        void *context)
{
    return domain->ops->av_open(domain, attr, av, context);
}

/* Opens a domain with flags. Source: fi_domain(3). */
static inline int fi_domain2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                             uint64_t flags, void *context)
{
    if (flags == 0)
        return fi_domain(fabric, info, domain, context);
    if (!FI_CHECK_OP(fabric->ops, struct fi_ops_fabric, domain2))
        return -FI_ENOSYS;
    return fabric->ops->domain2(fabric, info, domain, flags, context);
}

/* Binds an event queue to a domain. Source: fi_domain(3). */
static inline int fi_domain_bind(struct fid_domain *domain, struct fid *fid, uint64_t flags)
{
    return fi_bind(&domain->fid, fid, flags);
}

/* Inserts count addresses and writes their names to fi_addr; returns how many went in. Source: fi_av(3). */
static inline int fi_av_insert(struct fid_av *av, const void *addr, size_t count, fi_addr_t *fi_addr,
        uint64_t flags, void *context)
{
    return av->ops->insert(av, addr, count, fi_addr, flags, context);
}

/* Inserts the address of a node and a service. Source: fi_av(3). */
static inline int fi_av_insertsvc(struct fid_av *av, const char *node, const char *service,
        fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    return av->ops->insertsvc(av, node, service, fi_addr, flags, context);
}

/* Inserts a range of nodes and services, counted up by their names. Source: fi_av(3). */
static inline int fi_av_insertsym(struct fid_av *av, const char *node, size_t nodecnt, const char *service,
        size_t svccnt, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    return av->ops->insertsym(av, node, nodecnt, service, svccnt, fi_addr, flags, context);
}

/* Removes addresses. Source: fi_av(3). */
static inline int fi_av_remove(struct fid_av *av, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
    return av->ops->remove(av, fi_addr, count, flags);
}

/* Copies the address behind a name; addrlen is its room before and its length after. Source: fi_av(3). */
static inline int fi_av_lookup(struct fid_av *av, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
    return av->ops->lookup(av, fi_addr, addr, addrlen);
}

/* Spells an address in buf; len is its room before and its need after. Source: fi_av(3). */
static inline const char *fi_av_straddr(struct fid_av *av, const void *addr, char *buf, size_t *len)
{
    return av->ops->straddr(av, addr, buf, len);
}

/* Inserts an authorization key. Source: fi_av(3). */
static inline int fi_av_insert_auth_key(struct fid_av *av, const void *auth_key, size_t auth_key_size,
        fi_addr_t *fi_addr, uint64_t flags)
{
    if (!FI_CHECK_OP(av->ops, struct fi_ops_av, insert_auth_key))
        return -FI_ENOSYS;
    return av->ops->insert_auth_key(av, auth_key, auth_key_size, fi_addr, flags);
}

/* Copies the authorization key behind a name. Source: fi_av(3). */
static inline int fi_av_lookup_auth_key(struct fid_av *av, fi_addr_t addr, void *auth_key,
        size_t *auth_key_size)
{
    if (!FI_CHECK_OP(av->ops, struct fi_ops_av, lookup_auth_key))
        return -FI_ENOSYS;
    return av->ops->lookup_auth_key(av, addr, auth_key, auth_key_size);
}

/* Gives a peer the name that completions shall carry. Source: fi_av(3). */
static inline int fi_av_set_user_id(struct fid_av *av, fi_addr_t fi_addr, fi_addr_t user_id, uint64_t flags)
{
    if (!FI_CHECK_OP(av->ops, struct fi_ops_av, set_user_id))
        return -FI_ENOSYS;
    return av->ops->set_user_id(av, fi_addr, user_id, flags);
}

/* Copies the address behind a name in the form that code on an accelerator takes. Source: fi_av(3). */
static inline int fi_av_lookup2(struct fid_av *av, fi_addr_t fi_addr, void *buf, size_t *len, uint64_t flags,
        struct fid_xpu_ctx *ctx)
{
    if (!FI_CHECK_OP(av->ops, struct fi_ops_av, lookup2))
        return -FI_ENOSYS;
    return av->ops->lookup2(av, fi_addr, buf, len, flags, ctx);
}

/* Binds an event queue to an address vector, deprecated. Source: fi_av(3). */
static inline int fi_av_bind(struct fid_av *av, struct fid *fid, uint64_t flags)
{
    return fi_bind(&av->fid, fid, flags);
}

/* The address of one receive context of a scalable endpoint. Source: fi_av(3). */
static inline fi_addr_t fi_rx_addr(fi_addr_t fi_addr, int rx_index, int rx_ctx_bits)
{
    return fi_addr | ((uint64_t) rx_index << (64 - rx_ctx_bits));
}

/* The address of a peer within a group. Source: fi_av(3). */
static inline fi_addr_t fi_group_addr(fi_addr_t fi_addr, uint32_t group_id)
{
    return fi_addr | ((uint64_t) group_id << 32);
}

/* Registers one run of memory. Source: fi_mr(3). */
static inline int fi_mr_reg(struct fid_domain *domain, const void *buf, size_t len, uint64_t acs,
                            uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
                            void *context)
{
    return domain->mr->reg(&domain->fid, buf, len, acs, offset, requested_key, flags, mr, context);
}

/* Registers several runs of memory as one region. Source: fi_mr(3). */
static inline int fi_mr_regv(struct fid_domain *domain, const struct iovec *iov, size_t count, uint64_t acs,
                             uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
                             void *context)
{
    return domain->mr->regv(&domain->fid, iov, count, acs, offset, requested_key, flags, mr, context);
}

/* Registers memory by its full description. Source: fi_mr(3). */
static inline int fi_mr_regattr(struct fid_domain *domain, const struct fi_mr_attr *attr, uint64_t flags,
                                struct fid_mr **mr)
{
    return domain->mr->regattr(&domain->fid, attr, flags, mr);
}

/* The local descriptor of a region. Source: fi_mr(3). */
static inline void *fi_mr_desc(struct fid_mr *mr)
{
    return mr->mem_desc;
}

/* The key that peers use, or FI_KEY_NOTAVAIL. Source: fi_mr(3). */
static inline uint64_t fi_mr_key(struct fid_mr *mr)
{
    return mr->key;
}

/* Copies the raw key of a region, for keys wider than 64 bits. Source: fi_mr(3). */
static inline int fi_mr_raw_attr(struct fid_mr *mr, uint64_t *base_addr, uint8_t *raw_key, size_t *key_size,
                                 uint64_t flags)
{
    struct fi_mr_raw_attr request;

    request.key_size = key_size;
    request.raw_key = raw_key;
    request.base_addr = base_addr;
    request.flags = flags;
    return fi_control(&mr->fid, FI_GET_RAW_MR, &request);
}

/* Maps the raw key of a peer to a 64-bit one. Source: fi_mr(3). */
static inline int fi_mr_map_raw(struct fid_domain *domain, uint64_t base_addr, uint8_t *raw_key, size_t key_size,
                                uint64_t *key, uint64_t flags)
{
    struct fi_mr_map_raw request;

    request.key = key;
    request.key_size = key_size;
    request.raw_key = raw_key;
    request.base_addr = base_addr;
    request.flags = flags;
    return fi_control(&domain->fid, FI_MAP_RAW_MR, &request);
}

/* Gives a mapped key back. Source: fi_mr(3). */
static inline int fi_mr_unmap_key(struct fid_domain *domain, uint64_t key)
{
    return fi_control(&domain->fid, FI_UNMAP_KEY, &key);
}

/* Copies a descriptor for code on an accelerator; len is its room before and its length after. Source: fi_mr(3). */
static inline int fi_mr_get_xpu_desc(struct fid_mr *mr, void *buf, size_t *len, uint64_t flags,
                                     struct fid_xpu_ctx *ctx)
{
    struct fi_mr_xpu_desc request;

    request.ctx = ctx;
    request.flags = flags;
    request.len = len;
    request.buf = buf;
    return fi_control(&mr->fid, FI_GET_MR_XPU_DESC, &request);
}

/* Binds an endpoint or a counter to a region. Source: fi_mr(3). */
static inline int fi_mr_bind(struct fid_mr *mr, struct fid *bfid, uint64_t flags)
{
    return fi_bind(&mr->fid, bfid, flags);
}

/* Tells the provider that pages of a region have changed. Source: fi_mr(3). */
static inline int fi_mr_refresh(struct fid_mr *mr, const struct iovec *iov, size_t count, uint64_t flags)
{
    struct fi_mr_modify request;

    memset(&request, 0, sizeof request);
    request.attr.iov_count = count;
    request.attr.mr_iov = iov;
    request.flags = flags;
    return fi_control(&mr->fid, FI_REFRESH, &request);
}

/* Enables a region that was bound. Source: fi_mr(3). */
static inline int fi_mr_enable(struct fid_mr *mr)
{
    return fi_control(&mr->fid, FI_ENABLE, NULL);
}

/* The device number of a Level Zero region. Source: fi_mr(3). */
static inline int fi_hmem_ze_device(int driver_index, int device_index)
{
    return device_index | (driver_index << 16);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_DOMAIN_H */
