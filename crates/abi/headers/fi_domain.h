#include <rdma/fabric.h>
#include <rdma/fi_eq.h>
#include <string.h>

@definitions domain.rs domain/av.rs domain/mr.rs domain/op.rs

@calls calls/domain.rs

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

@calls calls/av.rs

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
