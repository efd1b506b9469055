/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* rdma/fi_eq.h: written by `cargo xtask headers`; change crates/abi/src or crates/abi/headers instead. */

#ifndef FI_EQ_H
#define FI_EQ_H

#include <poll.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fi_cntr_attr;
struct fi_cq_attr;
struct fi_cq_data_entry;
struct fi_cq_entry;
struct fi_cq_err_entry;
struct fi_cq_msg_entry;
struct fi_cq_tagged_entry;
struct fi_eq_attr;
struct fi_eq_cm_entry;
struct fi_eq_entry;
struct fi_eq_err_entry;
struct fi_info;
struct fi_mutex_cond;
struct fi_ops_cntr;
struct fi_ops_cq;
struct fi_ops_eq;
struct fi_ops_poll;
struct fi_ops_wait;
struct fi_poll_attr;
struct fi_wait_attr;
struct fi_wait_pollfd;
struct fid;
struct fid_cntr;
struct fid_cq;
struct fid_eq;
struct fid_poll;
struct fid_wait;
struct fid_xpu_cntr;
struct fid_xpu_cq;
struct fid_xpu_ctx;

/* Events of an event queue. */
#define FI_NOTIFY 0
#define FI_CONNREQ 1
#define FI_CONNECTED 2
#define FI_SHUTDOWN 3
#define FI_MR_COMPLETE 4
#define FI_AV_COMPLETE 5
#define FI_JOIN_COMPLETE 6

/* What a thread can sleep on. */
enum fi_wait_obj {
    FI_WAIT_NONE = 0,
    FI_WAIT_UNSPEC = 1,
    FI_WAIT_SET = 2,
    FI_WAIT_FD = 3,
    FI_WAIT_MUTEX_COND = 4,
    FI_WAIT_YIELD = 5,
    FI_WAIT_POLLFD = 6
};

/* Which entry structure a completion queue is read with. */
enum fi_cq_format {
    FI_CQ_FORMAT_UNSPEC = 0,
    FI_CQ_FORMAT_CONTEXT = 1,
    FI_CQ_FORMAT_MSG = 2,
    FI_CQ_FORMAT_DATA = 3,
    FI_CQ_FORMAT_TAGGED = 4
};

/* What the condition of a blocking read means. */
enum fi_cq_wait_cond {
    FI_CQ_COND_NONE = 0,
    FI_CQ_COND_THRESHOLD = 1
};

/* What a counter counts. */
enum fi_cntr_events {
    FI_CNTR_EVENTS_COMP = 0,
    FI_CNTR_EVENTS_BYTES = 1
};

/* How to open an event queue. Source: fi_eq(3). */
struct fi_eq_attr {
    size_t size;
    uint64_t flags;
    enum fi_wait_obj wait_obj;
    int signaling_vector;
    struct fid_wait *wait_set;
};

/* Event that an asynchronous control operation has completed. Source: fi_eq(3). */
struct fi_eq_entry {
    fid_t fid;
    void *context;
    uint64_t data;
};

/* Event that a control operation has failed. Source: fi_eq(3). */
struct fi_eq_err_entry {
    fid_t fid;
    void *context;
    uint64_t data;
    int err;
    int prov_errno;
    void *err_data;
    size_t err_data_size;
};

/* Event of connection management; the data of the peer follow it. Source: fi_eq(3). */
struct fi_eq_cm_entry {
    fid_t fid;
    struct fi_info *info;
    __extension__ uint8_t data[];
};

/* An event queue. Source: fi_eq(3). */
struct fid_eq {
    struct fid fid;
    struct fi_ops_eq *ops;
};

/* Operations of an event queue. Source: fi_eq(3). */
struct fi_ops_eq {
    size_t size;
    ssize_t (*read)(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags);
    ssize_t (*readerr)(struct fid_eq *eq, struct fi_eq_err_entry *buf, uint64_t flags);
    ssize_t (*write)(struct fid_eq *eq, uint32_t event, const void *buf, size_t len, uint64_t flags);
    ssize_t (*sread)(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, int timeout, uint64_t flags);
    const char *(*strerror)(struct fid_eq *eq, int prov_errno, const void *err_data, char *buf, size_t len);
};

/* The wait object of FI_WAIT_MUTEX_COND. Source: fi_eq(3). */
struct fi_mutex_cond {
    pthread_mutex_t *mutex;
    pthread_cond_t *cond;
};

/* The wait object of FI_WAIT_POLLFD. Source: fi_eq(3). */
struct fi_wait_pollfd {
    uint64_t change_index;
    size_t nfds;
    struct pollfd *fd;
};

/* How to open a wait set. Source: fi_poll(3). */
struct fi_wait_attr {
    enum fi_wait_obj wait_obj;
    uint64_t flags;
};

/* A wait set, deprecated. Source: fi_poll(3). */
struct fid_wait {
    struct fid fid;
    struct fi_ops_wait *ops;
};

/* Operations of a wait set, deprecated. Source: fi_poll(3). */
struct fi_ops_wait {
    size_t size;
    int (*wait)(struct fid_wait *waitset, int timeout);
};

/* How to open a poll set. Source: fi_poll(3). */
struct fi_poll_attr {
    uint64_t flags;
};

/* A poll set, deprecated. Source: fi_poll(3). */
struct fid_poll {
    struct fid fid;
    struct fi_ops_poll *ops;
};

/* Operations of a poll set, deprecated. Source: fi_poll(3). */
struct fi_ops_poll {
    size_t size;
    int (*poll)(struct fid_poll *pollset, void **context, int count);
    int (*poll_add)(struct fid_poll *pollset, struct fid *event_fid, uint64_t flags);
    int (*poll_del)(struct fid_poll *pollset, struct fid *event_fid, uint64_t flags);
};

/* How to open a completion queue. Source: fi_cq(3). */
struct fi_cq_attr {
    size_t size;
    uint64_t flags;
    enum fi_cq_format format;
    enum fi_wait_obj wait_obj;
    int signaling_vector;
    enum fi_cq_wait_cond wait_cond;
    struct fid_wait *wait_set;
    /* Only there under the flag FI_XPU: structures of applications built before 2.7 end ahead of it. */
    struct fid_xpu_ctx *xpu_ctx;
};

/* Completion in FI_CQ_FORMAT_CONTEXT. Source: fi_cq(3). */
struct fi_cq_entry {
    void *op_context;
};

/* Completion in FI_CQ_FORMAT_MSG. Source: fi_cq(3). */
struct fi_cq_msg_entry {
    void *op_context;
    uint64_t flags;
    size_t len;
};

/* Completion in FI_CQ_FORMAT_DATA. Source: fi_cq(3). */
struct fi_cq_data_entry {
    void *op_context;
    uint64_t flags;
    size_t len;
    void *buf;
    uint64_t data;
};

/* Completion in FI_CQ_FORMAT_TAGGED. Source: fi_cq(3). */
struct fi_cq_tagged_entry {
    void *op_context;
    uint64_t flags;
    size_t len;
    void *buf;
    uint64_t data;
    uint64_t tag;
};

/* Completion in error. Applications before API 1.5 have no err_data_size, those before 1.20 no src_addr. Source: fi_cq(3). */
struct fi_cq_err_entry {
    void *op_context;
    uint64_t flags;
    size_t len;
    void *buf;
    uint64_t data;
    uint64_t tag;
    size_t olen;
    int err;
    int prov_errno;
    void *err_data;
    size_t err_data_size;
    fi_addr_t src_addr;
};

/* A completion queue. Source: fi_cq(3). */
struct fid_cq {
    struct fid fid;
    struct fi_ops_cq *ops;
};

/* Operations of a completion queue. Source: fi_cq(3). */
struct fi_ops_cq {
    size_t size;
    ssize_t (*read)(struct fid_cq *cq, void *buf, size_t count);
    ssize_t (*readfrom)(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr);
    ssize_t (*readerr)(struct fid_cq *cq, struct fi_cq_err_entry *buf, uint64_t flags);
    ssize_t (*sread)(struct fid_cq *cq, void *buf, size_t count, const void *cond, int timeout);
    ssize_t (*sreadfrom)(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr, const void *cond,
            int timeout);
    int (*signal)(struct fid_cq *cq);
    const char *(*strerror)(struct fid_cq *cq, int prov_errno, const void *err_data, char *buf, size_t len);
    int (*export_xpu)(struct fid_cq *cq, uint64_t flags, struct fid_xpu_cq *xpu_cq);
};

/* How to open a counter. Source: fi_cntr(3). */
struct fi_cntr_attr {
    enum fi_cntr_events events;
    enum fi_wait_obj wait_obj;
    struct fid_wait *wait_set;
    uint64_t flags;
    /* Only there under the flag FI_XPU: structures of applications built before 2.7 end ahead of it. */
    struct fid_xpu_ctx *xpu_ctx;
};

/* A counter of completions. Source: fi_cntr(3). */
struct fid_cntr {
    struct fid fid;
    struct fi_ops_cntr *ops;
};

/* Operations of a counter. Source: fi_cntr(3). */
struct fi_ops_cntr {
    size_t size;
    uint64_t (*read)(struct fid_cntr *cntr);
    uint64_t (*readerr)(struct fid_cntr *cntr);
    int (*add)(struct fid_cntr *cntr, uint64_t value);
    int (*set)(struct fid_cntr *cntr, uint64_t value);
    int (*wait)(struct fid_cntr *cntr, uint64_t threshold, int timeout);
    int (*adderr)(struct fid_cntr *cntr, uint64_t value);
    int (*seterr)(struct fid_cntr *cntr, uint64_t value);
    int (*export_xpu)(struct fid_cntr *cntr, uint64_t flags, struct fid_xpu_cntr *xpu_cntr);
};

/* Whether a thread may sleep on the wait objects of these queues: 0, or -FI_EAGAIN. Source: fi_poll(3). */
static inline int fi_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    return fabric->ops->trywait(fabric, fids, count);
}

/* Sleeps on a wait set, deprecated. Source: fi_poll(3). */
static inline int fi_wait(struct fid_wait *waitset, int timeout)
{
    return waitset->ops->wait(waitset, timeout);
}

/* Lists the contexts of objects with news, deprecated. Source: fi_poll(3). */
static inline int fi_poll(struct fid_poll *pollset, void **context, int count)
{
    return pollset->ops->poll(pollset, context, count);
}

/* Adds an object to a poll set, deprecated. Source: fi_poll(3). */
static inline int fi_poll_add(struct fid_poll *pollset, struct fid *event_fid, uint64_t flags)
{
    return pollset->ops->poll_add(pollset, event_fid, flags);
}

/* Removes an object from a poll set, deprecated. Source: fi_poll(3). */
static inline int fi_poll_del(struct fid_poll *pollset, struct fid *event_fid, uint64_t flags)
{
    return pollset->ops->poll_del(pollset, event_fid, flags);
}

/* Opens an event queue. Source: fi_eq(3). */
static inline int fi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
        void *context)
{
    return fabric->ops->eq_open(fabric, attr, eq, context);
}

/* Takes one event, or returns -FI_EAGAIN or -FI_EAVAIL. Source: fi_eq(3). */
static inline ssize_t fi_eq_read(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
    return eq->ops->read(eq, event, buf, len, flags);
}

/* Takes one event in error. Source: fi_eq(3). */
static inline ssize_t fi_eq_readerr(struct fid_eq *eq, struct fi_eq_err_entry *buf, uint64_t flags)
{
    return eq->ops->readerr(eq, buf, flags);
}

/* Adds an event of the caller. Source: fi_eq(3). */
static inline ssize_t fi_eq_write(struct fid_eq *eq, uint32_t event, const void *buf, size_t len,
        uint64_t flags)
{
    return eq->ops->write(eq, event, buf, len, flags);
}

/* Takes one event, waiting up to timeout milliseconds. Source: fi_eq(3). */
static inline ssize_t fi_eq_sread(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, int timeout,
        uint64_t flags)
{
    return eq->ops->sread(eq, event, buf, len, timeout, flags);
}

/* Spells an error of the provider. Source: fi_eq(3). */
static inline const char *fi_eq_strerror(struct fid_eq *eq, int prov_errno, const void *err_data, char *buf,
        size_t len)
{
    return eq->ops->strerror(eq, prov_errno, err_data, buf, len);
}

/* Takes up to count completions, or returns -FI_EAGAIN or -FI_EAVAIL. Source: fi_cq(3). */
static inline ssize_t fi_cq_read(struct fid_cq *cq, void *buf, size_t count)
{
    return cq->ops->read(cq, buf, count);
}

/* Takes completions and the names of their senders. Source: fi_cq(3). */
static inline ssize_t fi_cq_readfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr)
{
    return cq->ops->readfrom(cq, buf, count, src_addr);
}

/* Takes completions, waiting up to timeout milliseconds. Source: fi_cq(3). */
static inline ssize_t fi_cq_sread(struct fid_cq *cq, void *buf, size_t count, const void *cond, int timeout)
{
    return cq->ops->sread(cq, buf, count, cond, timeout);
}

/* Takes completions and the names of their senders, waiting up to timeout milliseconds. Source: fi_cq(3). */
static inline ssize_t fi_cq_sreadfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr,
        const void *cond, int timeout)
{
    return cq->ops->sreadfrom(cq, buf, count, src_addr, cond, timeout);
}

/* Wakes a thread that waits. Source: fi_cq(3). */
static inline int fi_cq_signal(struct fid_cq *cq)
{
    return cq->ops->signal(cq);
}

/* Spells an error of the provider. Source: fi_cq(3). */
static inline const char *fi_cq_strerror(struct fid_cq *cq, int prov_errno, const void *err_data, char *buf,
        size_t len)
{
    return cq->ops->strerror(cq, prov_errno, err_data, buf, len);
}

/* Exports a queue to code on an accelerator. Source: fi_xpu(3). */
static inline int fi_cq_export_xpu(struct fid_cq *cq, uint64_t flags, struct fid_xpu_cq *xpu_cq)
{
    if (!FI_CHECK_OP(cq->ops, struct fi_ops_cq, export_xpu))
        return -FI_ENOSYS;
    return cq->ops->export_xpu(cq, flags, xpu_cq);
}

/* Takes one completion in error; providers before 1.20 leave its source as it is. Source: fi_cq(3). */
static inline ssize_t fi_cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *buf, uint64_t flags)
{
    if (buf != NULL)
        buf->src_addr = FI_ADDR_NOTAVAIL;
    return cq->ops->readerr(cq, buf, flags);
}

/* The count of successes. Source: fi_cntr(3). */
static inline uint64_t fi_cntr_read(struct fid_cntr *cntr)
{
    return cntr->ops->read(cntr);
}

/* The count of errors. Source: fi_cntr(3). */
static inline uint64_t fi_cntr_readerr(struct fid_cntr *cntr)
{
    return cntr->ops->readerr(cntr);
}

/* Adds to the count of successes. Source: fi_cntr(3). */
static inline int fi_cntr_add(struct fid_cntr *cntr, uint64_t value)
{
    return cntr->ops->add(cntr, value);
}

/* Adds to the count of errors. Source: fi_cntr(3). */
static inline int fi_cntr_adderr(struct fid_cntr *cntr, uint64_t value)
{
    if (!FI_CHECK_OP(cntr->ops, struct fi_ops_cntr, adderr))
        return -FI_ENOSYS;
    return cntr->ops->adderr(cntr, value);
}

/* Sets the count of successes. Source: fi_cntr(3). */
static inline int fi_cntr_set(struct fid_cntr *cntr, uint64_t value)
{
    return cntr->ops->set(cntr, value);
}

/* Sets the count of errors. Source: fi_cntr(3). */
static inline int fi_cntr_seterr(struct fid_cntr *cntr, uint64_t value)
{
    if (!FI_CHECK_OP(cntr->ops, struct fi_ops_cntr, seterr))
        return -FI_ENOSYS;
    return cntr->ops->seterr(cntr, value);
}

/* Waits up to timeout milliseconds for the count to reach threshold. Source: fi_cntr(3). */
static inline int fi_cntr_wait(struct fid_cntr *cntr, uint64_t threshold, int timeout)
{
    return cntr->ops->wait(cntr, threshold, timeout);
}

/* Exports a counter to code on an accelerator. Source: fi_xpu(3). */
static inline int fi_cntr_export_xpu(struct fid_cntr *cntr, uint64_t flags, struct fid_xpu_cntr *xpu_cntr)
{
    if (!FI_CHECK_OP(cntr->ops, struct fi_ops_cntr, export_xpu))
        return -FI_ENOSYS;
    return cntr->ops->export_xpu(cntr, flags, xpu_cntr);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_EQ_H */
