/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* rdma/providers/fi_prov.h: written by `cargo xtask headers`; change crates/abi/src or crates/abi/headers instead. */

#ifndef FI_PROV_H
#define FI_PROV_H

#include <rdma/fabric.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How the file name of an external provider ends, without and with the kind of file. Source: fi_provider(3). */
#define FI_LIB_EXTENSION "fi"

/* Begins the definition of the entry point of an external provider, whose body follows. Source: fi_provider(3). */
#if defined(__GNUC__) && !defined(__clang__)
#define FI_EXT_INI __attribute__((visibility("default"), externally_visible)) struct fi_provider *fi_prov_ini(void)
#else
#define FI_EXT_INI __attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void)
#endif

struct fi_context;
struct fi_fabric_attr;
struct fi_info;
struct fi_provider;
struct fid_fabric;

/* How the file name of an external provider ends. Source: fi_provider(3). */
#define FI_LIB_SUFFIX "fi.so"

/* What an external provider hands to the library from fi_prov_ini. Source: fi_provider(3). */
struct fi_provider {
    uint32_t version;
    uint32_t fi_version;
    struct fi_context context;
    const char *name;
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
            const struct fi_info *hints, struct fi_info **info);
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    void (*cleanup)(void);
};

/* Declares a configuration variable, with a help text formatted as by printf(3). Source: fi_provider(3). */
int fi_param_define(const struct fi_provider *provider, const char *param_name, enum fi_param_type type,
                    const char *help_string_fmt, ...);

/* Reads a configuration variable into a value of its type. Source: fi_provider(3). */
int fi_param_get(struct fi_provider *provider, const char *param_name, void *value);

/* Reads a variable of type FI_PARAM_STRING. Source: fi_provider(3). */
static inline int fi_param_get_str(struct fi_provider *provider, const char *param_name, char **value)
{
    return fi_param_get(provider, param_name, value);
}

/* Reads a variable of type FI_PARAM_INT. Source: fi_provider(3). */
static inline int fi_param_get_int(struct fi_provider *provider, const char *param_name, int *value)
{
    return fi_param_get(provider, param_name, value);
}

/* Reads a variable of type FI_PARAM_BOOL, as 0 or 1. Source: fi_provider(3). */
static inline int fi_param_get_bool(struct fi_provider *provider, const char *param_name, int *value)
{
    return fi_param_get(provider, param_name, value);
}

/* Reads a variable of type FI_PARAM_SIZE_T. Source: fi_provider(3). */
static inline int fi_param_get_size_t(struct fi_provider *provider, const char *param_name, size_t *value)
{
    return fi_param_get(provider, param_name, value);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_PROV_H */
