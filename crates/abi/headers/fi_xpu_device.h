#include <rdma/fi_errno.h>
#include <rdma/fi_xpu.h>

/*
 * What code on an accelerator calls on objects that were exported to it (fi_ep_export_xpu and its like), compiled by CUDA,
 * HIP, SYCL or a C compiler. The exported object says in prov_id which provider has made it. No provider has code for
 * accelerators yet, so every call fails. Source: fi_xpu(3).
 *
 * scope says which threads make the call together, from FI_XPU_WORK_ITEM to FI_XPU_DEVICE. Peers are given by what
 * fi_av_lookup2 copies, regions by what fi_mr_get_xpu_desc copies.
 */

#if defined(__CUDACC__) || (defined(__HIP_DEVICE_COMPILE__) && __HIP_DEVICE_COMPILE__)
#define FI_XPU_FUNC __device__ static inline
#else
#define FI_XPU_FUNC static inline
#endif

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#endif

/* Sends a message. Source: fi_xpu(3). */
FI_XPU_FUNC int fi_xpu_send(struct fid_xpu_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
                            void *dest_addr, void *context, uint64_t flags, int scope)
{
    return -FI_ENOSYS;
}

/* Posts a buffer for a message. Source: fi_xpu(3). */
FI_XPU_FUNC int fi_xpu_recv(struct fid_xpu_ep *ep, void *buf, size_t len, void *desc, void *src_addr,
                            void *context, uint64_t flags, int scope)
{
    return -FI_ENOSYS;
}

/* Sends a tagged message. Source: fi_xpu(3). */
FI_XPU_FUNC int fi_xpu_tsend(struct fid_xpu_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
                             void *dest_addr, uint64_t tag, void *context, uint64_t flags, int scope)
{
    return -FI_ENOSYS;
}

/* Posts a buffer for a tagged message. Source: fi_xpu(3). */
FI_XPU_FUNC int fi_xpu_trecv(struct fid_xpu_ep *ep, void *buf, size_t len, void *desc, void *src_addr,
                             uint64_t tag, uint64_t ignore, void *context, uint64_t flags, int scope)
{
    return -FI_ENOSYS;
}

/* Writes to the memory of a peer. Source: fi_xpu(3). */
FI_XPU_FUNC int fi_xpu_write(struct fid_xpu_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
                             void *dest_addr, uint64_t addr, uint64_t key, void *context, uint64_t flags,
                             int scope)
{
    return -FI_ENOSYS;
}

/* Reads from the memory of a peer. Source: fi_xpu(3). */
FI_XPU_FUNC int fi_xpu_read(struct fid_xpu_ep *ep, void *buf, size_t len, void *desc, void *src_addr,
                            uint64_t addr, uint64_t key, void *context, uint64_t flags, int scope)
{
    return -FI_ENOSYS;
}

/* Changes memory of a peer atomically. Source: fi_xpu(3). */
FI_XPU_FUNC int fi_xpu_atomic(struct fid_xpu_ep *ep, const void *buf, size_t count, void *desc,
                              void *dest_addr, uint64_t addr, uint64_t key, int datatype, int op,
                              void *context, uint64_t flags, int scope)
{
    return -FI_ENOSYS;
}

/* Changes memory of a peer atomically and fetches what was there. Source: fi_xpu(3). */
FI_XPU_FUNC int fi_xpu_fetch_atomic(struct fid_xpu_ep *ep, const void *buf, size_t count, void *desc,
                                    void *result, void *result_desc, void *dest_addr, uint64_t addr,
                                    uint64_t key, int datatype, int op, void *context, uint64_t flags,
                                    int scope)
{
    return -FI_ENOSYS;
}

/* Changes memory of a peer if it compares, and fetches what was there. Source: fi_xpu(3). */
FI_XPU_FUNC int fi_xpu_compare_atomic(struct fid_xpu_ep *ep, const void *buf, size_t count, void *desc,
                                      const void *compare, void *compare_desc, void *result,
                                      void *result_desc, void *dest_addr, uint64_t addr, uint64_t key,
                                      int datatype, int op, void *context, uint64_t flags, int scope)
{
    return -FI_ENOSYS;
}

/* The count of successes. Source: fi_xpu(3). */
FI_XPU_FUNC uint64_t fi_xpu_cntr_read(struct fid_xpu_cntr *cntr, int scope)
{
    return 0;
}

/* The count of errors. Source: fi_xpu(3). */
FI_XPU_FUNC uint64_t fi_xpu_cntr_readerr(struct fid_xpu_cntr *cntr, int scope)
{
    return 0;
}

/* Waits for the count to reach threshold. Source: fi_xpu(3). */
FI_XPU_FUNC void fi_xpu_cntr_wait(struct fid_xpu_cntr *cntr, uint64_t threshold, int timeout, int scope)
{
}

/* Adds to the count of successes. Source: fi_xpu(3). */
FI_XPU_FUNC int fi_xpu_cntr_add(struct fid_xpu_cntr *cntr, uint64_t value, int scope)
{
    return -FI_ENOSYS;
}

/* Sets the count of successes. Source: fi_xpu(3). */
FI_XPU_FUNC int fi_xpu_cntr_set(struct fid_xpu_cntr *cntr, uint64_t value, int scope)
{
    return -FI_ENOSYS;
}

/* Adds to the count of errors. Source: fi_xpu(3). */
FI_XPU_FUNC int fi_xpu_cntr_adderr(struct fid_xpu_cntr *cntr, uint64_t value, int scope)
{
    return -FI_ENOSYS;
}

/* Sets the count of errors. Source: fi_xpu(3). */
FI_XPU_FUNC int fi_xpu_cntr_seterr(struct fid_xpu_cntr *cntr, uint64_t value, int scope)
{
    return -FI_ENOSYS;
}

/* Takes completions. Source: fi_xpu(3). */
FI_XPU_FUNC int64_t fi_xpu_cq_read(struct fid_xpu_cq *cq, void *buf, size_t count, int scope)
{
    return -FI_ENOSYS;
}

/* Takes completions and their sources. Source: fi_xpu(3). */
FI_XPU_FUNC int64_t fi_xpu_cq_readfrom(struct fid_xpu_cq *cq, void *buf, size_t count, void *src_addr,
                                       int scope)
{
    return -FI_ENOSYS;
}

/* Takes one completion in error. Source: fi_xpu(3). */
FI_XPU_FUNC int64_t fi_xpu_cq_readerr(struct fid_xpu_cq *cq, void *buf, uint64_t flags, int scope)
{
    return -FI_ENOSYS;
}

/* Takes completions when there are as many as threshold says. Source: fi_xpu(3). */
FI_XPU_FUNC int64_t fi_xpu_cq_sread(struct fid_xpu_cq *cq, void *buf, size_t count, uint64_t threshold,
                                    int scope)
{
    return -FI_ENOSYS;
}

/* Takes completions and their sources when there are as many as threshold says. Source: fi_xpu(3). */
FI_XPU_FUNC int64_t fi_xpu_cq_sreadfrom(struct fid_xpu_cq *cq, void *buf, size_t count, void *src_addr,
                                        uint64_t threshold, int scope)
{
    return -FI_ENOSYS;
}

#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
