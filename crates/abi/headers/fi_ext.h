#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>
#include <stdbool.h>

@definitions ext.rs

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
