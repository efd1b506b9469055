/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* rdma/fi_ext.h: written by `cargo xtask headers`; change crates/abi/src or crates/abi/headers instead. */

#ifndef FI_EXT_H
#define FI_EXT_H

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fi_fid_export;
struct fi_ops_log;
struct fi_ops_mem_monitor;
struct fi_ops_mem_notify;
struct fi_provider;
struct fid;
struct fid_logging;
struct fid_mem_monitor;

/* Codes of providers for their own options, which are negative. */
#define FI_PROV_SPECIFIC_EFA (0xefa << 16)
#define FI_PROV_SPECIFIC_TCP (0x7cb << 16)

/* Options of the efa provider. */
#define FI_OPT_EFA_RNR_RETRY (-251265024)
#define FI_OPT_EFA_EMULATED_READ (-251265023)
#define FI_OPT_EFA_EMULATED_WRITE (-251265022)
#define FI_OPT_EFA_EMULATED_ATOMICS (-251265021)
#define FI_OPT_EFA_USE_DEVICE_RDMA (-251265020)
#define FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES (-251265019)
#define FI_OPT_EFA_WRITE_IN_ORDER_ALIGNED_128_BYTES (-251265018)
#define FI_OPT_EFA_HOMOGENEOUS_PEERS (-251265017)
#define FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV (-251265016)

/* Flag of fi_ops_log: the library has already applied its filter of providers. */
#define FI_LOG_PROV_FILTERED (1ULL << 0)

/* Argument of FI_EXPORT_FID. Source: fi_control(3). */
struct fi_fid_export {
    struct fid **fid;
    uint64_t flags;
    void *context;
};

/* A memory monitor, which tells when mappings of memory change. Source: fi_mr(3). */
struct fid_mem_monitor {
    struct fid fid;
    struct fi_ops_mem_monitor *export_ops;
    struct fi_ops_mem_notify *import_ops;
};

/* The operations of a memory monitor that the library exports. Source: fi_mr(3). */
struct fi_ops_mem_monitor {
    size_t size;
    int (*start)(struct fid_mem_monitor *monitor);
    void (*stop)(struct fid_mem_monitor *monitor);
    int (*subscribe)(struct fid_mem_monitor *monitor, const void *addr, size_t len);
    void (*unsubscribe)(struct fid_mem_monitor *monitor, const void *addr, size_t len);
    bool (*valid)(struct fid_mem_monitor *monitor, const void *addr, size_t len);
};

/* Notice that a mapping has gone, given to the library. Source: fi_mr(3). */
struct fi_ops_mem_notify {
    size_t size;
    void (*notify)(struct fid_mem_monitor *monitor, const void *addr, size_t len);
};

/* The logging object of the caller. Source: fi_control(3). */
struct fid_logging {
    struct fid fid;
    struct fi_ops_log *ops;
};

/* Logging that the caller supplies in place of the library's own. Source: fi_control(3). */
struct fi_ops_log {
    size_t size;
    int (*enabled)(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
            uint64_t flags);
    int (*ready)(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
            uint64_t flags, uint64_t *showtime);
    void (*log)(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
            const char *func, int line, const char *msg);
};

/* Makes a handle of an object for another owner. Source: fi_control(3). */
static inline int fi_export_fid(struct fid *fid, uint64_t flags, struct fid **expfid, void *context)
{
    struct fi_fid_export request;

    request.context = context;
    request.flags = flags;
    request.fid = expfid;
    return fi_control(fid, FI_EXPORT_FID, &request);
}

/* Lends an object to another. Source: fi_control(3). */
static inline int fi_import_fid(struct fid *fid, struct fid *expfid, uint64_t flags)
{
    return fi_bind(fid, expfid, flags);
}

/* Lends an object to that part of the library which has this name. Source: fi_control(3). */
static inline int fi_import(uint32_t version, const char *name, void *attr, size_t attr_len, uint64_t flags,
                            struct fid *fid, void *context)
{
    struct fid *part = NULL;
    int result = fi_open(version, name, attr, attr_len, flags, &part, context);

    if (result == FI_SUCCESS) {
        result = fi_import_fid(part, fid, flags);
        fi_close(part);
    }
    return result;
}

/* Lets the library log through an object of the caller. Source: fi_control(3). */
static inline int fi_import_log(uint32_t version, uint64_t flags, struct fid_logging *log_fid)
{
    log_fid->ops->size = sizeof *log_fid->ops;
    log_fid->fid.fclass = FI_CLASS_LOG;
    return fi_import(version, "logging", NULL, 0, flags, &log_fid->fid, log_fid);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_EXT_H */
