/*
 * A program of some release: FABRIC_1.MINOR is its newest symbol version, API what it asks for; both are macros of its
 * compilation. It declares for itself what the headers of that release did. Every structure that it passes ends where its
 * memory does, so that whatever looks behind it faults.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FI_TAGGED (1ULL << 3)
#define FI_RECV (1ULL << 10)
#define FI_SEND (1ULL << 11)
#define FI_XPU (1ULL << 44)
#define FI_ENABLE 6
#define FI_GET_MR_XPU_DESC 21
#define FI_EP_RDM 3
#define FI_AV_MAP 1
#define FI_CQ_FORMAT_TAGGED 4
#define FI_EINVAL 22
#define FI_EAGAIN 11
#define FI_ENOSYS 38
#define FI_ECANCELED 125
#define FI_EBADFLAGS 260
#define FI_EAVAIL 259

struct fi_tx_attr {
    uint64_t caps, mode, op_flags, msg_order, comp_order;
    size_t inject_size, size, iov_limit, rma_iov_limit;
#if MINOR >= 3
    uint32_t tclass;
#endif
};
struct fi_rx_attr {
    uint64_t caps, mode, op_flags, msg_order, comp_order;
    size_t total_buffered_recv, size, iov_limit;
};
struct fi_ep_attr {
    int type;
    uint32_t protocol, protocol_version;
    size_t max_msg_size, msg_prefix_size, max_order_raw_size, max_order_war_size, max_order_waw_size;
    uint64_t mem_tag_format;
    size_t tx_ctx_cnt, rx_ctx_cnt;
#if MINOR >= 1
    size_t auth_key_size;
    uint8_t *auth_key;
#endif
#if MINOR >= 10
    void *xpu_ctx;
#endif
};
struct fi_domain_attr {
    void *domain;
    char *name;
    int threading, control_progress, data_progress, resource_mgmt, av_type, mr_mode;
    size_t mr_key_size, cq_data_size, cq_cnt, ep_cnt, tx_ctx_cnt, rx_ctx_cnt;
    size_t max_ep_tx_ctx, max_ep_rx_ctx, max_ep_stx_ctx, max_ep_srx_ctx;
#if MINOR >= 1
    size_t cntr_cnt, mr_iov_limit;
    uint64_t caps, mode;
    uint8_t *auth_key;
    size_t auth_key_size, max_err_data, mr_cnt;
#endif
#if MINOR >= 3
    uint32_t tclass;
#endif
#if MINOR >= 7
    size_t max_ep_auth_key;
#endif
#if MINOR >= 8
    uint32_t max_group_id;
#endif
#if MINOR >= 9
    uint64_t max_cntr_value, max_err_cntr_value;
#endif
#if MINOR >= 10
    size_t max_xpu_ctx_cnt;
#endif
};
struct fi_fabric_attr {
    void *fabric;
    char *name, *prov_name;
    uint32_t prov_version;
#if MINOR >= 1
    uint32_t api_version;
#endif
};
struct fi_info {
    struct fi_info *next;
    uint64_t caps, mode;
    uint32_t addr_format;
    size_t src_addrlen, dest_addrlen;
    void *src_addr, *dest_addr, *handle;
    struct fi_tx_attr *tx_attr;
    struct fi_rx_attr *rx_attr;
    struct fi_ep_attr *ep_attr;
    struct fi_domain_attr *domain_attr;
    struct fi_fabric_attr *fabric_attr;
#if MINOR >= 2
    void *nic;
#endif
};
struct fi_av_attr {
    int type, rx_ctx_bits;
    size_t count, ep_per_node;
    const char *name;
    void *map_addr;
    uint64_t flags;
};
struct fi_cq_attr {
    size_t size;
    uint64_t flags;
    int format, wait_obj, signaling_vector, wait_cond;
    void *wait_set;
#if MINOR >= 10
    void *xpu_ctx;
#endif
};
struct fi_cntr_attr {
    int events, wait_obj;
    void *wait_set;
    uint64_t flags;
#if MINOR >= 10
    void *xpu_ctx;
#endif
};
struct fi_cq_err_entry {
    void *op_context;
    uint64_t flags;
    size_t len;
    void *buf;
    uint64_t data, tag;
    size_t olen;
    int err, prov_errno;
    void *err_data;
#if MINOR >= 1
    size_t err_data_size;
#endif
#if MINOR >= 7
    uint64_t src_addr;
#endif
};

struct fid;
struct fi_ops {
    size_t size;
    int (*close)(struct fid *);
    int (*bind)(struct fid *, struct fid *, uint64_t);
    int (*control)(struct fid *, int, void *);
};
struct fid {
    size_t fclass;
    void *context;
    struct fi_ops *ops;
};
/* Any object: its operations follow, a table of functions behind the size of that table. */
struct table {
    size_t size;
    void *op[12];
};
struct object {
    struct fid fid;
    struct table *ops;
    struct table *more[6];
};
#define CALL(type, table, place, ...) (((type(*)()) (table)->op[place])(__VA_ARGS__))

int fi_getinfo(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **);
void fi_freeinfo(struct fi_info *);
struct fi_info *fi_dupinfo(const struct fi_info *);
int fi_fabric(struct fi_fabric_attr *, struct object **, void *);
uint32_t fi_version(void);
#if MINOR >= 4
char *fi_tostr_r(char *, size_t, const void *, int);
#endif
#if MINOR >= 8
int fi_fabric2(struct fi_info *, struct object **, uint64_t, void *);
#endif

_Static_assert(sizeof(struct fi_info) == INFO_SIZE, "fi_info of this release");
_Static_assert(sizeof(struct fi_ep_attr) == EP_SIZE, "fi_ep_attr of this release");
_Static_assert(sizeof(struct fi_domain_attr) == DOMAIN_SIZE, "fi_domain_attr of this release");
_Static_assert(sizeof(struct fi_cq_attr) == CQ_SIZE, "fi_cq_attr of this release");
_Static_assert(sizeof(struct fi_cntr_attr) == CNTR_SIZE, "fi_cntr_attr of this release");

#define EXPECT(condition)                                              \
    do {                                                               \
        if (!(condition)) {                                            \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);    \
            exit(1);                                                   \
        }                                                              \
    } while (0)

/* Memory of that size, filled from `from` or with zeros, behind which there is none. */
static void *last(const void *from, size_t size)
{
    size_t page = (size_t) sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    EXPECT(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0);
    if (from)
        memcpy(pages + page - size, from, size);
    return pages + page - size;
}

/* An entry of this release's own memory. */
static struct fi_info *moved(const struct fi_info *from)
{
    struct fi_info *info = last(from, sizeof *info);

    info->next = NULL;
    info->tx_attr = last(info->tx_attr, sizeof *info->tx_attr);
    info->rx_attr = last(info->rx_attr, sizeof *info->rx_attr);
    info->ep_attr = last(info->ep_attr, sizeof *info->ep_attr);
    info->domain_attr = last(info->domain_attr, sizeof *info->domain_attr);
    info->fabric_attr = last(info->fabric_attr, sizeof *info->fabric_attr);
    return info;
}

/* A receive that is cancelled: the queue says so in an entry of this release. */
static void cancel_a_receive(struct object *ep, struct object *cq)
{
    struct fi_cq_err_entry *entry = last(NULL, sizeof *entry);
    char buffer[8], completion[64];
    struct table *tagged = ep->more[3];
    ssize_t count;

    EXPECT(CALL(ssize_t, tagged, 0, ep, buffer, sizeof buffer, NULL, -1ULL, 7ULL, 0ULL, &buffer) == 0);
    EXPECT(CALL(ssize_t, ep->ops, 0, &ep->fid, &buffer) == 0);
    do
        count = CALL(ssize_t, cq->ops, 0, cq, completion, (size_t) 1);
    while (count == -FI_EAGAIN);
    EXPECT(count == -FI_EAVAIL);
    EXPECT(CALL(ssize_t, cq->ops, 2, cq, entry, 0ULL) == 1);
    EXPECT(entry->err == FI_ECANCELED && entry->op_context == &buffer);
}

#if MINOR >= 10
/* What 2.7 added: its inline functions do not look whether a table reaches that far. */
static void ask_for_accelerators(struct object *domain, struct object *av, struct object *cq, struct object *cntr,
                                 struct object *ep)
{
    struct fi_cq_attr *cq_attr = last(NULL, sizeof *cq_attr);
    struct fi_cntr_attr *cntr_attr = last(NULL, sizeof *cntr_attr);
    struct object *none = NULL, *mr = NULL;
    uint64_t own, exported[2];
    char address[128];
    size_t length = sizeof address;

    EXPECT(CALL(int, domain->ops, 11, domain, exported, &none, NULL) == -FI_ENOSYS);
    EXPECT(CALL(int, ep->ops, 7, ep, 0ULL, exported) == -FI_ENOSYS);
    EXPECT(CALL(int, cq->ops, 7, cq, 0ULL, exported) == -FI_ENOSYS);
    EXPECT(CALL(int, cntr->ops, 7, cntr, 0ULL, exported) == -FI_ENOSYS);
    cq_attr->flags = FI_XPU;
    EXPECT(CALL(int, domain->ops, 1, domain, cq_attr, &none, NULL) == -FI_EINVAL);
    cntr_attr->flags = FI_XPU;
    EXPECT(CALL(int, domain->ops, 4, domain, cntr_attr, &none, NULL) == -FI_EBADFLAGS);
    /* fi_getname, fi_av_insert: the own address. */
    EXPECT(CALL(int, ep->more[0], 1, &ep->fid, address, &length) == 0);
    EXPECT(CALL(int, av->ops, 0, av, address, (size_t) 1, &own, 0ULL, NULL) == 1);
    EXPECT(CALL(int, av->ops, 10, av, own, address, &length, 0ULL, NULL) == 0 && length > 0);
    EXPECT(CALL(int, av->ops, 10, av, own, address, &length, FI_XPU, NULL) == -FI_ENOSYS);
    EXPECT(CALL(int, domain->more[0], 0, &domain->fid, address, sizeof address, FI_SEND, 0ULL, 0ULL, 0ULL, &mr, NULL) == 0);
    EXPECT(mr->fid.ops->control(&mr->fid, FI_GET_MR_XPU_DESC, exported) == -FI_ENOSYS);
    EXPECT(mr->fid.ops->close(&mr->fid) == 0);
}
#endif

int main(int count, char **names)
{
    struct fi_info *hints = fi_dupinfo(NULL), *list = NULL, *info, *copy;
    struct fi_av_attr av_attr = {.type = FI_AV_MAP};
    struct fi_cq_attr *cq_attr = last(NULL, sizeof *cq_attr);
    struct fi_cntr_attr *cntr_attr = last(NULL, sizeof *cntr_attr);
    struct object *fabric, *domain, *av, *cq, *cntr, *ep;

    EXPECT(count == 2 && fi_version() >= API && hints);
    hints->caps = FI_TAGGED;
    hints->mode = ~0ULL;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup(names[1]);
    EXPECT(fi_getinfo(API, "127.0.0.1", NULL, 0, moved(hints), &list) == 0 && list);
    EXPECT(strcmp(list->fabric_attr->prov_name, names[1]) == 0);
    copy = fi_dupinfo(moved(list));
    EXPECT(copy && copy->caps == list->caps && copy->tx_attr->size == list->tx_attr->size);
    EXPECT(strcmp(copy->domain_attr->name, list->domain_attr->name) == 0);
    info = moved(copy);
#if MINOR >= 4
    {
        char text[64];
        EXPECT(fi_tostr_r(text, sizeof text, &info->ep_attr->type, 1) == text && strcmp(text, "FI_EP_RDM") == 0);
    }
#endif
#if MINOR >= 8
    EXPECT(fi_fabric2(info, &fabric, 0, NULL) == 0 && fabric->fid.ops->close(&fabric->fid) == 0);
#endif
    EXPECT(fi_fabric(info->fabric_attr, &fabric, NULL) == 0);
    EXPECT(CALL(int, fabric->ops, 0, fabric, info, &domain, NULL) == 0);
    EXPECT(CALL(int, domain->ops, 0, domain, &av_attr, &av, NULL) == 0);
    cq_attr->format = FI_CQ_FORMAT_TAGGED;
    EXPECT(CALL(int, domain->ops, 1, domain, cq_attr, &cq, NULL) == 0);
    EXPECT(CALL(int, domain->ops, 4, domain, cntr_attr, &cntr, NULL) == 0);
    EXPECT(CALL(int, domain->ops, 2, domain, info, &ep, NULL) == 0);
    EXPECT(ep->fid.ops->bind(&ep->fid, &av->fid, 0) == 0);
    EXPECT(ep->fid.ops->bind(&ep->fid, &cq->fid, FI_SEND | FI_RECV) == 0);
    EXPECT(ep->fid.ops->bind(&ep->fid, &cntr->fid, FI_RECV) == 0);
    EXPECT(ep->fid.ops->control(&ep->fid, FI_ENABLE, NULL) == 0);
    cancel_a_receive(ep, cq);
#if MINOR >= 10
    ask_for_accelerators(domain, av, cq, cntr, ep);
#endif
    EXPECT(ep->fid.ops->close(&ep->fid) == 0 && cntr->fid.ops->close(&cntr->fid) == 0);
    EXPECT(cq->fid.ops->close(&cq->fid) == 0 && av->fid.ops->close(&av->fid) == 0);
    EXPECT(domain->fid.ops->close(&domain->fid) == 0 && fabric->fid.ops->close(&fabric->fid) == 0);
    fi_freeinfo(copy);
    fi_freeinfo(list);
    fi_freeinfo(hints);
    return 0;
}
