/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* rdma/fi_cxi_ext.h: written by `cargo xtask headers`; change crates/abi/src or crates/abi/headers instead. */

#ifndef FI_CXI_EXT_H
#define FI_CXI_EXT_H

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <stdbool.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What the cxi provider has beside the common interface. Source: fi_cxi(7).
 */

/* Its options of fi_control, fi_getopt and fi_setopt; behind each is the type of its value. */
#define FI_PROV_SPECIFIC_CXI (0xccc << 16)

enum {
    FI_OPT_CXI_SET_TCLASS = -FI_PROV_SPECIFIC_CXI, /* uint32_t */
    FI_OPT_CXI_SET_MSG_ORDER,                      /* uint64_t */
    FI_OPT_CXI_NIC_REFRESH_ATTR,                   /* none: reads the attributes of a NIC anew */
    FI_OPT_CXI_SET_MR_MATCH_EVENTS,                /* bool */
    FI_OPT_CXI_GET_MR_MATCH_EVENTS,                /* bool */
    FI_OPT_CXI_SET_OPTIMIZED_MRS,                  /* bool */
    FI_OPT_CXI_GET_OPTIMIZED_MRS,                  /* bool */
    FI_OPT_CXI_SET_PROV_KEY_CACHE,                 /* bool */
    FI_OPT_CXI_GET_PROV_KEY_CACHE,                 /* bool */
    FI_OPT_CXI_SET_RNR_MAX_RETRY_TIME,             /* uint64_t */
    FI_OPT_CXI_SET_RX_MATCH_MODE_OVERRIDE,         /* string */
    FI_OPT_CXI_GET_RX_MATCH_MODE_OVERRIDE,         /* string */
    FI_OPT_CXI_SET_REQ_BUF_SIZE_OVERRIDE,          /* size_t */
    FI_OPT_CXI_GET_REQ_BUF_SIZE_OVERRIDE,          /* size_t */
    FI_OPT_CXI_GET_RNR_APPEND_RETRY_ATTEMPTS       /* uint64_t */
};

/* Flag of counters: reads return what the host knows, and ask the device for news without waiting. */
#define FI_CXI_CNTR_CACHED (1ULL << 32)
/* The value of FI_CNTR_EVENTS_BYTES. */
#define FI_CXI_CNTR_EVENTS_BYTES 1

/* Flag of completions: the message was cut off, and the length is what was kept. */
#define FI_CXI_TRUNC (1ULL << 56)

/* Flags of atomics: as an operation of PCIe; of collectives: the data are reduced already. */
#define FI_CXI_PCIE_AMO (1ULL << 57)
#define FI_CXI_PRE_REDUCED (1ULL << 57)

/* Flags of transfers: at a high rate; without repetition; with the counter written back after deferred work. */
#define FI_CXI_HRP (1ULL << 60)
#define FI_CXI_UNRELIABLE (1ULL << 61)
#define FI_CXI_CNTR_WB (1ULL << 62)
/* Deprecated. */
#define FI_CXI_WEAK_FENCE (1ULL << 63)

/* Attributes of a NIC, in fi_info.nic->prov_attr; those that are constant only tell. */
#define FI_CXI_NIC_ATTR_VER 1U

struct cxip_nic_attr {
    uint32_t version;
    const unsigned int addr;
    const unsigned int default_rgroup_id;
    const unsigned int default_vni;
};

/* The authorization key of a domain or an endpoint: a service of the device, and a network of that service. */
struct cxi_auth_key {
    uint32_t svc_id;
    uint16_t vni;
};

/* Names of the table of a domain; a later one has more of its operations. */
#define FI_CXI_DOM_OPS_1 "dom_ops_v1"
#define FI_CXI_DOM_OPS_2 "dom_ops_v2"
#define FI_CXI_DOM_OPS_3 "dom_ops_v3"
#define FI_CXI_DOM_OPS_4 "dom_ops_v4"
#define FI_CXI_DOM_OPS_5 "dom_ops_v5"
#define FI_CXI_DOM_OPS_6 "dom_ops_v6"

struct fi_cxi_dom_ops {
    /* Reads a counter of the device and the time of that. */
    int (*cntr_read)(struct fid *fid, unsigned int cntr, uint64_t *value, struct timespec *ts);
    /* Tells where in the network the NIC is. */
    int (*topology)(struct fid *fid, unsigned int *group_id, unsigned int *switch_id, unsigned int *port_id);
    /* Allows endpoints that are opened later to take descriptors of local memory from the application. */
    int (*enable_hybrid_mr_desc)(struct fid *fid, bool enable);
    /* Lists messages that wait for a receive; ux_count is how many there are, the result how many are listed. */
    size_t (*ep_get_unexp_msgs)(struct fid_ep *fid_ep, struct fi_cq_tagged_entry *entry, size_t count,
                                fi_addr_t *src_addr, size_t *ux_count);
    /* Tells how much deferred work the device takes. */
    int (*get_dwq_depth)(struct fid *fid, size_t *depth);
    /* Deprecated: FI_OPT_CXI_SET_MR_MATCH_EVENTS and FI_OPT_CXI_SET_OPTIMIZED_MRS. */
    int (*enable_mr_match_events)(struct fid *fid, bool enable);
    int (*enable_optimized_mrs)(struct fid *fid, bool enable);
};

/* The table of a counter. */
#define FI_CXI_COUNTER_OPS "cxi_counter_ops"

struct fi_cxi_cntr_ops {
    /* Lets the device write the counter to memory of the caller. */
    int (*set_wb_buffer)(struct fid *fid, void *buf, size_t len);
    /* Gives the registers by which the counter is changed. */
    int (*get_mmio_addr)(struct fid *fid, void **addr, size_t *len);
};

/* The largest counts of successes and of errors: both are in one word. */
#define FI_CXI_CNTR_SUCCESS_MAX ((1ULL << 48) - 1)
#define FI_CXI_CNTR_FAILURE_MAX ((1ULL << 7) - 1)

/* The count of successes in what the device wrote. */
static inline uint64_t fi_cxi_cntr_wb_read(const void *wb_buf)
{
    return *(const uint64_t *) wb_buf & FI_CXI_CNTR_SUCCESS_MAX;
}

/* The count of errors in what the device wrote. */
static inline uint64_t fi_cxi_cntr_wb_readerr(const void *wb_buf)
{
    return (*(const uint64_t *) wb_buf >> 48) & FI_CXI_CNTR_FAILURE_MAX;
}

/* What the device writes for a count of successes without errors. */
static inline int fi_cxi_gen_cntr_success(uint64_t value, uint64_t *cxi_value)
{
    if (value <= FI_CXI_CNTR_SUCCESS_MAX) {
        *cxi_value = value | 1ULL << 63;
        return FI_SUCCESS;
    }
    return -FI_EINVAL;
}

/* Registers of a counter, each in a line of its own: adds successes, adds errors, sets either back. */
static inline void *fi_cxi_get_cntr_add_addr(void *cntr_mmio)
{
    return cntr_mmio;
}

static inline void *fi_cxi_get_cntr_adderr_addr(void *cntr_mmio)
{
    return (char *) cntr_mmio + 64;
}

static inline void *fi_cxi_get_cntr_reset_addr(void *cntr_mmio)
{
    return (char *) cntr_mmio + 128;
}

static inline void *fi_cxi_get_cntr_reseterr_addr(void *cntr_mmio)
{
    return (char *) cntr_mmio + 192;
}

/* Adds successes. */
static inline int fi_cxi_cntr_add(void *cntr_mmio, uint64_t value)
{
    if (value <= FI_CXI_CNTR_SUCCESS_MAX) {
        *(uint64_t *) fi_cxi_get_cntr_add_addr(cntr_mmio) = value;
        return FI_SUCCESS;
    }
    return -FI_EINVAL;
}

/* Adds errors. */
static inline int fi_cxi_cntr_adderr(void *cntr_mmio, uint64_t value)
{
    if (value <= FI_CXI_CNTR_FAILURE_MAX) {
        *(uint64_t *) fi_cxi_get_cntr_adderr_addr(cntr_mmio) = value;
        return FI_SUCCESS;
    }
    return -FI_EINVAL;
}

/* Sets the count of successes to zero, the only value that the device takes. */
static inline int fi_cxi_cntr_set(void *cntr_mmio, uint64_t value)
{
    if (value == 0) {
        *(uint64_t *) fi_cxi_get_cntr_reset_addr(cntr_mmio) = 0;
        return FI_SUCCESS;
    }
    return -FI_EINVAL;
}

/* Sets the count of errors to zero, the only value that the device takes. */
static inline int fi_cxi_cntr_seterr(void *cntr_mmio, uint64_t value)
{
    if (value == 0) {
        *(uint64_t *) fi_cxi_get_cntr_reseterr_addr(cntr_mmio) = 0;
        return FI_SUCCESS;
    }
    return -FI_EINVAL;
}

/* How the multicast tree of a group is made, in the communication key of a set of addresses. */
enum cxip_comm_key_type {
    COMM_KEY_NONE = 0,
    COMM_KEY_MULTICAST,
    COMM_KEY_UNICAST,
    COMM_KEY_RANK,
    COMM_KEY_MAX
};

/* A tree that exists: the place of its root in the set, and its address. */
struct cxip_coll_mcast_key {
    uint32_t hwroot_idx;
    uint32_t mcast_addr;
};

/* A tree that the provider imitates with messages. */
struct cxip_coll_unicast_key {
    uint32_t hwroot_idx;
    uint32_t mcast_addr;
};

/* A member of a group within one process, for tests; rx_discard keeps its receives from being reported. */
struct cxip_coll_rank_key {
    uint32_t hwroot_idx;
    uint32_t rank;
    bool rx_discard;
};

/* The communication key of a set of addresses. */
struct cxip_comm_key {
    enum cxip_comm_key_type keytype;
    union {
        struct cxip_coll_mcast_key mcast;
        struct cxip_coll_unicast_key ucast;
        struct cxip_coll_rank_key rank;
    };
};

/* Operations of collectives beside those of fi_op. */
typedef unsigned int cxip_coll_op_t;

enum cxip_coll_op {
    FI_CXI_MINMAXLOC = 32,
    FI_CXI_REPSUM,
    FI_CXI_OP_LAST
};

/* Elements of FI_CXI_MINMAXLOC: extremes, and where they are. */
struct cxip_coll_intminmax {
    int64_t minval;
    uint64_t minidx;
    int64_t maxval;
    uint64_t maxidx;
};

struct cxip_coll_fltminmax {
    double minval;
    uint64_t minidx;
    double maxval;
    uint64_t maxidx;
};

/* Room for data that are reduced already. */
struct cxip_coll_accumulator {
    uint8_t accum[64];
};

/* Errors of the provider, of reductions and of joining a group. */
enum cxip_coll_prov_errno {
    FI_CXI_ERRNO_RED_FIRST = 1024,
    FI_CXI_ERRNO_RED_FLT_OVERFLOW = 1024,
    FI_CXI_ERRNO_RED_FLT_INVALID = 1025,
    FI_CXI_ERRNO_RED_INT_OVERFLOW = 1026,
    FI_CXI_ERRNO_RED_CONTR_OVERFLOW = 1027,
    FI_CXI_ERRNO_RED_OP_MISMATCH = 1028,
    FI_CXI_ERRNO_RED_MC_FAILURE = 1029,
    FI_CXI_COLL_RC_RDMA_FAILURE = 1030,
    FI_CXI_COLL_RC_RDMA_DATA_FAILURE = 1031,
    FI_CXI_ERRNO_RED_OTHER = 1032,
    FI_CXI_ERRNO_RED_LAST = 1033,
    FI_CXI_ERRNO_JOIN_FIRST = 2048,
    FI_CXI_ERRNO_JOIN_MCAST_INUSE = 2048,
    FI_CXI_ERRNO_JOIN_HWROOT_INUSE = 2049,
    FI_CXI_ERRNO_JOIN_MCAST_INVALID = 2050,
    FI_CXI_ERRNO_JOIN_HWROOT_INVALID = 2051,
    FI_CXI_ERRNO_JOIN_CURL_FAILED = 2052,
    FI_CXI_ERRNO_JOIN_CURL_TIMEOUT = 2053,
    FI_CXI_ERRNO_JOIN_SERVER_ERR = 2054,
    FI_CXI_ERRNO_JOIN_FAIL_PTE = 2055,
    FI_CXI_ERRNO_JOIN_OTHER = 2056,
    FI_CXI_ERRNO_JOIN_FAIL_RDMA = 2057,
    FI_CXI_ERRNO_JOIN_LAST = 2091
};

#ifdef __cplusplus
}
#endif

#endif /* FI_CXI_EXT_H */
