/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* rdma/fi_xpu.h: written by `cargo xtask headers`; change crates/abi/src or crates/abi/headers instead. */

#ifndef FI_XPU_H
#define FI_XPU_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fi_ops_xpu_ctx;
struct fi_xpu_attr;
struct fi_xpu_ctx_attr;
struct fi_xpu_ops;
struct fid;
struct fid_xpu;
struct fid_xpu_cntr;
struct fid_xpu_cq;
struct fid_xpu_ctx;
struct fid_xpu_ep;

/* Which threads of an accelerator make a call together. */
#define FI_XPU_WORK_ITEM 0
#define FI_XPU_SUBGROUP 1
#define FI_XPU_WORK_GROUP 2
#define FI_XPU_DEVICE 3

/* Flags of fi_xpu_ops.alloc: the memory can be handed on as a dma-buf. */
#define FI_XPU_ALLOC_DMABUF (1ULL << 0)

/* Flags of fi_xpu_ops.import: the memory is that of a PCIe device; it is to be mapped on the accelerator. */
#define FI_XPU_IMPORT_IOMEMORY (1ULL << 0)
#define FI_XPU_IMPORT_DEVICEMAP (1ULL << 1)

/* What a context can export, the bits of fi_xpu_ctx_attr.caps. */
#define FI_XPU_CAP_EP (1ULL << 0)
#define FI_XPU_CAP_CQ (1ULL << 1)
#define FI_XPU_CAP_CNTR (1ULL << 2)

/* Which provider has exported an object, for the code on the accelerator. */
enum fi_xpu_provider {
    FI_XPU_PROV_EFA = 1
};

/* Memory of an accelerator, as the application provides it. Source: fi_xpu(3). */
struct fi_xpu_ops {
    size_t size;
    int (*alloc)(uint64_t device, uint64_t size, uint64_t alignment, uint64_t flags, void **addr, int *fd,
            uint64_t *offset);
    int (*import)(uint64_t device, void *host_addr, uint64_t size, uint64_t flags, void **dev_addr);
    void (*free)(uint64_t device, void *addr);
};

/* How to open a context of an accelerator. Source: fi_xpu(3). */
struct fi_xpu_attr {
    enum fi_hmem_iface iface;
    uint64_t device;
    struct fi_xpu_ops *ops;
};

/* What a context offers. Source: fi_xpu(3). */
struct fi_xpu_ctx_attr {
    uint64_t caps;
    size_t av_addr_size;
    size_t mr_desc_size;
};

/* Operations of a context of an accelerator. Source: fi_xpu(3). */
struct fi_ops_xpu_ctx {
    size_t size;
    int (*query)(struct fid_xpu_ctx *ctx, struct fi_xpu_ctx_attr *attr);
};

/* A context of an accelerator. Source: fi_xpu(3). */
struct fid_xpu_ctx {
    struct fid fid;
    struct fi_ops_xpu_ctx *ops;
};

/* What every exported object begins with; its provider fills it in. Source: fi_xpu(3). */
struct fid_xpu {
    uint32_t fclass;
    uint32_t prov_id;
    uint64_t prov_ctx;
};

/* An exported endpoint. Source: fi_xpu(3). */
struct fid_xpu_ep {
    struct fid_xpu fid;
};

/* An exported completion queue. Source: fi_xpu(3). */
struct fid_xpu_cq {
    struct fid_xpu fid;
};

/* An exported counter. Source: fi_xpu(3). */
struct fid_xpu_cntr {
    struct fid_xpu fid;
};

/* Opens a context of an accelerator. Source: fi_xpu(3). */
static inline int fi_xpu_ctx(struct fid_domain *domain, struct fi_xpu_attr *attr, struct fid_xpu_ctx **ctx,
        void *context)
{
    if (!FI_CHECK_OP(domain->ops, struct fi_ops_domain, xpu_ctx))
        return -FI_ENOSYS;
    return domain->ops->xpu_ctx(domain, attr, ctx, context);
}

/* Queries what a context offers. Source: fi_xpu(3). */
static inline int fi_xpu_ctx_query(struct fid_xpu_ctx *ctx, struct fi_xpu_ctx_attr *attr)
{
    return ctx->ops->query(ctx, attr);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_XPU_H */
