/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* rdma/fi_profile.h: written by `cargo xtask headers`; change crates/abi/src or crates/abi/headers instead. */

#ifndef FI_PROFILE_H
#define FI_PROFILE_H

#include <rdma/fi_domain.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fi_profile_desc;
struct fi_profile_ops;
struct fid;
struct fid_profile;

/* Variables. */
#define FI_VAR_UNEXP_MSG_CNT 0
#define FI_VAR_UNEXP_MSG_QUEUE 1
#define FI_VAR_MSG_QUEUE_CNT 2
#define FI_VAR_CONNECTION_CNT 3
#define FI_VAR_CONN_REQUEST 4
#define FI_VAR_CONN_ACCEPT 5
#define FI_VAR_CONN_REJECT 6
#define FI_VAR_OFI_MEM 7

/* Events. */
#define FI_EVENT_UNEXP_MSG_RECVD 0
#define FI_EVENT_UNEXP_MSG_MATCHED 1

/* How the type of a variable is given. */
enum fi_profile_type {
    fi_primitive_type = 0,
    fi_defined_type = 1
};

/* Description of a variable or an event. Source: fi_profile(3). */
struct fi_profile_desc {
    uint32_t id;
    enum fi_profile_type datatype_sel;
    union {
        enum fi_datatype primitive;
        enum fi_type defined;
    } datatype;
    uint64_t flags;
    size_t size;
    const char *name;
    const char *desc;
};

/* An opened profile. Source: fi_profile(3). */
struct fid_profile {
    struct fid fid;
    struct fi_profile_ops *ops;
};

/* Operations of a profile. Source: fi_profile(3). */
struct fi_profile_ops {
    size_t size;
    void (*reset)(struct fid_profile *prof_fid, uint64_t flags);
    ssize_t (*query_vars)(struct fid_profile *prof_fid, struct fi_profile_desc *varlist, size_t *count);
    ssize_t (*query_events)(struct fid_profile *prof_fid, struct fi_profile_desc *eventlist, size_t *count);
    ssize_t (*read_var)(struct fid_profile *prof_fid, uint32_t var_id, void *data, size_t *size);
    int (*reg_callback)(struct fid_profile *prof_fid, uint32_t event_id, int (*callback)(
            struct fid_profile *prof_fid, struct fi_profile_desc *event, void *param, size_t size,
            void *context), void *context);
    void (*start_reads)(struct fid_profile *prof_fid, uint64_t flags);
    void (*end_reads)(struct fid_profile *prof_fid, uint64_t flags);
};

/* Opens the profile of an endpoint or a domain. Source: fi_profile(3). */
static inline int fi_profile_open(struct fid *fid, uint64_t flags, struct fid_profile **prof_fid, void *context)
{
    void *table = NULL;
    int result = fi_open_ops(fid, "fi_profile_ops", flags, &table, context);

    /* The library hands out the address of the member ops. */
    if (result == 0)
        *prof_fid = (struct fid_profile *) (void *) ((char *) table - offsetof(struct fid_profile, ops));
    return result;
}

/* Closes a profile. Source: fi_profile(3). */
static inline int fi_profile_close(struct fid_profile *prof_fid)
{
    return fi_close(&prof_fid->fid);
}

/* Sets the variables back. Source: fi_profile(3). */
static inline void fi_profile_reset(struct fid_profile *prof_fid, uint64_t flags)
{
    prof_fid->ops->reset(prof_fid, flags);
}

/* Lists variables; count is the room before and their number after. Source: fi_profile(3). */
static inline ssize_t fi_profile_query_vars(struct fid_profile *prof_fid, struct fi_profile_desc *varlist,
                                            size_t *count)
{
    return prof_fid->ops->query_vars(prof_fid, varlist, count);
}

/* Lists events; count is the room before and their number after. Source: fi_profile(3). */
static inline ssize_t fi_profile_query_events(struct fid_profile *prof_fid, struct fi_profile_desc *eventlist,
                                              size_t *count)
{
    return prof_fid->ops->query_events(prof_fid, eventlist, count);
}

/* Reads a variable of 64 bits; 0, or an error. Source: fi_profile(3). */
static inline ssize_t fi_profile_read_u64(struct fid_profile *prof_fid, uint32_t var_id, uint64_t *data)
{
    size_t room = sizeof *data;
    ssize_t length = prof_fid->ops->read_var(prof_fid, var_id, data, &room);

    return length < 0 ? length : 0;
}

/* Asks to be called on an event. Source: fi_profile(3). */
static inline int fi_profile_register_callback(struct fid_profile *prof_fid, uint32_t event_id,
                                               int (*callback)(struct fid_profile *prof_fid,
                                                               struct fi_profile_desc *event, void *param,
                                                               size_t size, void *context),
                                               void *context)
{
    return prof_fid->ops->reg_callback(prof_fid, event_id, callback, context);
}

/* Begins a series of reads that belong together. Source: fi_profile(3). */
static inline void fi_profile_start_reads(struct fid_profile *prof_fid, uint64_t flags)
{
    prof_fid->ops->start_reads(prof_fid, flags);
}

/* Ends such a series. Source: fi_profile(3). */
static inline void fi_profile_end_reads(struct fid_profile *prof_fid, uint64_t flags)
{
    prof_fid->ops->end_reads(prof_fid, flags);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_PROFILE_H */
