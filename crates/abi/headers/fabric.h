#include <rdma/fi_errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define FI_VERSION(major, minor) (((major) << 16) | (minor))
#define FI_MAJOR(version) ((version) >> 16)
#define FI_MINOR(version) ((version) & 0xffff)
#define FI_VERSION_GE(left, right) ((left) >= (right))
#define FI_VERSION_LT(left, right) ((left) < (right))

/* Lets the compiler check the arguments of a format, whose place and whose first argument's place are given. */
#if defined(__GNUC__)
#define FI_FORMAT_PRINTF(format, arguments) __attribute__((__format__(__printf__, format, arguments)))
#else
#define FI_FORMAT_PRINTF(format, arguments)
#endif

/* Whether a table is there, reaches as far as an operation that was added later, and has it. */
#define FI_CHECK_OP(table, type, operation) \
    ((table) && (table)->size > offsetof(type, operation) && (table)->operation)

@definitions fabric.rs fabric/flags.rs fabric/kinds.rs fabric/info.rs fabric/nic.rs

/* Names of older releases: flags that mean nothing any more, and an endpoint type that there never was. */
#define FI_VARIABLE_MSG 0ULL
#define FI_NOTIFY_FLAGS_ONLY 0ULL
#define FI_RESTRICTED_COMP 0ULL
#define FI_EP_SOCK_STREAM FI_EP_UNSPEC

/* The API version of the library, as FI_VERSION makes it. Source: fi_version(3). */
uint32_t fi_version(void);

/* Lists what there is to communicate with, restricted by the hints. Source: fi_getinfo(3). */
int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
               const struct fi_info *hints, struct fi_info **info);

/* Releases a list of offers and all that it points to. Source: fi_getinfo(3). */
void fi_freeinfo(struct fi_info *info);

/* Copies one offer; a copy of NULL is an empty one with all attributes. Source: fi_getinfo(3). */
struct fi_info *fi_dupinfo(const struct fi_info *info);

/* Makes an empty description, for hints. Source: fi_getinfo(3). */
static inline struct fi_info *fi_allocinfo(void)
{
    return fi_dupinfo(NULL);
}

/* Opens a fabric. Source: fi_fabric(3). */
int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);

/* Opens the fabric of an offer, with flags. Source: fi_fabric(3). */
int fi_fabric2(struct fi_info *info, struct fid_fabric **fabric, uint64_t flags, void *context);

/* Opens an object of the library itself by its name. Source: fi_control(3). */
int fi_open(uint32_t version, const char *name, void *attr, size_t attr_len, uint64_t flags,
            struct fid **fid, void *context);

/* Spells a value; the text is valid until the thread's next call. Source: fi_getinfo(3). */
char *fi_tostr(const void *data, enum fi_type datatype);

/* Spells a value in a buffer of the caller. Source: fi_getinfo(3). */
char *fi_tostr_r(char *buf, size_t len, const void *data, enum fi_type datatype);

/* Lists the configuration variables of the library and its providers. Source: fi_provider(3). */
int fi_getparams(struct fi_param **params, int *count);

/* Releases a list of configuration variables. Source: fi_provider(3). */
void fi_freeparams(struct fi_param *params);

@calls calls/fabric.rs

/* Makes a second handle of an object, with other flags. Source: fi_endpoint(3). */
static inline int fi_alias(struct fid *fid, struct fid **alias_fid, uint64_t flags)
{
    struct fi_alias request;

    request.fid = alias_fid;
    request.flags = flags;
    return fi_control(fid, FI_ALIAS, &request);
}

/* Reads a named value of an object into val. Source: fi_control(3). */
static inline int fi_get_val(struct fid *fid, int name, void *val)
{
    struct fi_fid_var request;

    request.name = name;
    request.val = val;
    return fi_control(fid, FI_GET_VAL, &request);
}

/* Sets a named value of an object from val. Source: fi_control(3). */
static inline int fi_set_val(struct fid *fid, int name, void *val)
{
    struct fi_fid_var request;

    request.name = name;
    request.val = val;
    return fi_control(fid, FI_SET_VAL, &request);
}

/* The traffic class that asks for a DSCP value. Source: fi_endpoint(3). */
static inline uint32_t fi_tc_dscp_set(uint8_t dscp)
{
    return FI_TC_DSCP | (uint32_t) dscp;
}

/* The DSCP value in a traffic class, 0 if it holds none. Source: fi_endpoint(3). */
static inline uint8_t fi_tc_dscp_get(uint32_t tclass)
{
    return (uint8_t) ((tclass & FI_TC_DSCP) ? (tclass & 0xff) : 0);
}
