#include <rdma/fi_domain.h>
#include <stdbool.h>

/*
 * What the efa provider has beside the common interface: tables that fi_open_ops gives on its objects. Source: fi_efa(7).
 */

/* Names of the tables; the first two are those of a domain, the third is that of a fabric or a domain. */
#define FI_EFA_DOMAIN_OPS "efa domain ops"
#define FI_EFA_GDA_OPS "efa gda ops"
#define FI_EFA_FEATURE_OPS "efa feature ops"

/* Flag of transfers: many small accesses to remote memory matter more than the time of each. */
#define FI_EFA_WR_HIGH_PPS (1ULL << 60)

/* Which members of fi_efa_mr_attr are set, in ic_id_validity. */
enum {
    FI_EFA_MR_ATTR_RECV_IC_ID = 1 << 0,
    FI_EFA_MR_ATTR_RDMA_READ_IC_ID = 1 << 1,
    FI_EFA_MR_ATTR_RDMA_RECV_IC_ID = 1 << 2
};

/* The paths by which the device reaches a memory region. */
struct fi_efa_mr_attr {
    uint16_t ic_id_validity;
    uint16_t recv_ic_id;
    uint16_t rdma_read_ic_id;
    uint16_t rdma_recv_ic_id;
};

/* Bits of fi_efa_wq_attr.caps. */
enum fi_efa_wq_caps {
    FI_EFA_WQ_CAPS_64_BIT_REQ_ID = 1 << 0
};

/* A queue of the device for work, as code that drives it by itself sees it. */
struct fi_efa_wq_attr {
    uint8_t *buffer;
    uint32_t entry_size;
    uint32_t num_entries;
    uint32_t *doorbell;
    uint32_t max_batch;
    uint16_t caps;
};

/* A queue of the device for completions, as code that reads it by itself sees it. */
struct fi_efa_cq_attr {
    uint8_t *buffer;
    uint32_t entry_size;
    uint32_t num_entries;
};

/* Flags of fi_efa_cq_init_attr: the queue lies in memory of the caller, given as a dma-buf. */
enum {
    FI_EFA_CQ_INIT_FLAGS_EXT_MEM_DMABUF = 1 << 0
};

/* Where a completion queue is to lie. */
struct fi_efa_cq_init_attr {
    uint64_t flags;
    struct {
        uint8_t *buffer;
        uint64_t length;
        uint64_t offset;
        uint32_t fd;
    } ext_mem_dmabuf;
};

/* How memory is named, in fi_efa_memory_location.type. */
enum fi_efa_memory_location_type {
    FI_EFA_MEMORY_LOCATION_VA,
    FI_EFA_MEMORY_LOCATION_DMABUF
};

/* Memory of the caller: an address, or a place in a dma-buf. */
struct fi_efa_memory_location {
    uint8_t *ptr;
    struct {
        uint64_t offset;
        int32_t fd;
        uint32_t reserved;
    } dmabuf;
    uint8_t type;
    uint8_t reserved[7];
};

/* Flags of fi_efa_comp_cntr_init_attr: which counts lie in memory of the caller. */
enum {
    FI_EFA_COMP_CNTR_INIT_WITH_COMP_EXTERNAL_MEM = 1 << 0,
    FI_EFA_COMP_CNTR_INIT_WITH_ERR_EXTERNAL_MEM = 1 << 1
};

/* Where a counter of the device is to lie. */
struct fi_efa_comp_cntr_init_attr {
    uint64_t comp_mask;
    uint32_t flags;
    uint32_t reserved;
    struct fi_efa_memory_location comp_cntr_ext_mem;
    struct fi_efa_memory_location err_cntr_ext_mem;
};

/* The table FI_EFA_DOMAIN_OPS. */
struct fi_efa_ops_domain {
    /* Tells by which paths the device reaches a region. */
    int (*query_mr)(struct fid_mr *mr, struct fi_efa_mr_attr *mr_attr);
};

/* The table FI_EFA_GDA_OPS: for code on an accelerator that drives the device by itself. */
struct fi_efa_ops_gda {
    /* Tells the device's address of a peer. */
    int (*query_addr)(struct fid_ep *ep_fid, fi_addr_t addr, uint16_t *ahn, uint16_t *remote_qpn,
                      uint32_t *remote_qkey);
    /* Tells where the queues of an endpoint lie. */
    int (*query_qp_wqs)(struct fid_ep *ep_fid, struct fi_efa_wq_attr *sq_attr, struct fi_efa_wq_attr *rq_attr);
    /* Tells where a completion queue lies. */
    int (*query_cq)(struct fid_cq *cq_fid, struct fi_efa_cq_attr *cq_attr);
    /* Opens a completion queue in memory of the caller. */
    int (*cq_open_ext)(struct fid_domain *domain_fid, struct fi_cq_attr *attr,
                       struct fi_efa_cq_init_attr *efa_cq_init_attr, struct fid_cq **cq_fid, void *context);
    /* The device's key of a region, for local access. */
    uint64_t (*get_mr_lkey)(struct fid_mr *mr);
    /* Opens a counter in memory of the caller. */
    int (*cntr_open_ext)(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr, void *context,
                         struct fi_efa_comp_cntr_init_attr *efa_attr);
};

/* The table FI_EFA_FEATURE_OPS. */
struct fi_efa_feature_ops {
    /* Tells whether the provider has what goes by that name. */
    bool (*query)(const char *feature);
};
