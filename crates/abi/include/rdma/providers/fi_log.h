/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* rdma/providers/fi_log.h: written by `cargo xtask headers`; change crates/abi/src or crates/abi/headers instead. */

#ifndef FI_LOG_H
#define FI_LOG_H

#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Part of the library that a message of the log comes from. */
enum fi_log_subsys {
    FI_LOG_CORE = 0,
    FI_LOG_FABRIC = 1,
    FI_LOG_DOMAIN = 2,
    FI_LOG_EP_CTRL = 3,
    FI_LOG_EP_DATA = 4,
    FI_LOG_AV = 5,
    FI_LOG_CQ = 6,
    FI_LOG_EQ = 7,
    FI_LOG_MR = 8,
    FI_LOG_CNTR = 9
};

/* Weight of a message of the log. */
enum fi_log_level {
    FI_LOG_WARN = 0,
    FI_LOG_TRACE = 1,
    FI_LOG_INFO = 2,
    FI_LOG_DEBUG = 3
};

/* Whether such a message would be shown. Source: fi_provider(3). */
int fi_log_enabled(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys);

/* The same for a message that comes often: true at most once in a while, whose end showtime keeps. */
int fi_log_ready(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
                 uint64_t *showtime);

/* Writes a message to the log, formatted as by printf(3). Source: fi_provider(3). */
void fi_log(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys, const char *func,
            int line, const char *fmt, ...) FI_FORMAT_PRINTF(6, 7);

/* Logs if that is shown, and leaves errno as it is. */
#define FI_LOG(prov, level, subsystem, ...)                                        \
    do {                                                                           \
        const int fi_log_errno_ = errno;                                           \
        if (fi_log_enabled(prov, level, subsystem))                                \
            fi_log(prov, level, subsystem, __func__, __LINE__, __VA_ARGS__);       \
        errno = fi_log_errno_;                                                     \
    } while (0)

/* Logs from time to time only. */
#define FI_LOG_SPARSE(prov, level, subsystem, ...)                                 \
    do {                                                                           \
        static uint64_t fi_log_showtime_;                                          \
        const int fi_log_errno_ = errno;                                           \
        if (fi_log_ready(prov, level, subsystem, &fi_log_showtime_))               \
            fi_log(prov, level, subsystem, __func__, __LINE__, __VA_ARGS__);       \
        errno = fi_log_errno_;                                                     \
    } while (0)

#define FI_WARN(prov, subsystem, ...) FI_LOG(prov, FI_LOG_WARN, subsystem, __VA_ARGS__)
#define FI_TRACE(prov, subsystem, ...) FI_LOG(prov, FI_LOG_TRACE, subsystem, __VA_ARGS__)
#define FI_INFO(prov, subsystem, ...) FI_LOG(prov, FI_LOG_INFO, subsystem, __VA_ARGS__)
#define FI_WARN_SPARSE(prov, subsystem, ...) FI_LOG_SPARSE(prov, FI_LOG_WARN, subsystem, __VA_ARGS__)

/* A warning that is shown once in the life of the process. */
#define FI_WARN_ONCE(prov, subsystem, ...)                                         \
    do {                                                                           \
        static int fi_log_done_;                                                   \
        if (!fi_log_done_ && fi_log_enabled(prov, FI_LOG_WARN, subsystem)) {       \
            fi_log_done_ = 1;                                                      \
            FI_WARN(prov, subsystem, __VA_ARGS__);                                 \
        }                                                                          \
    } while (0)

/* Messages that a release build leaves out. */
#if defined(ENABLE_DEBUG) && ENABLE_DEBUG
#define FI_DBG(prov, subsystem, ...) FI_LOG(prov, FI_LOG_DEBUG, subsystem, __VA_ARGS__)
#define FI_DBG_TRACE(prov, subsystem, ...) FI_LOG(prov, FI_LOG_TRACE, subsystem, __VA_ARGS__)
#else
#define FI_DBG(prov, subsystem, ...) do { } while (0)
#define FI_DBG_TRACE(prov, subsystem, ...) do { } while (0)
#endif

#ifdef __cplusplus
}
#endif

#endif /* FI_LOG_H */
