#include <rdma/fi_domain.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

@definitions profile.rs

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
