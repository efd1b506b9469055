/* One end of scalable reliable datagrams, over libibverbs and libefa as they are installed; what does not hold ends the process with a word. */
#pragma once

#include <infiniband/efadv.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define QKEY 0x11111111
#define CHECK(holds) \
    do { \
        if (!(holds)) { \
            fprintf(stderr, "%s:%d: %s does not hold (errno %d)\n", __FILE__, __LINE__, #holds, errno); \
            exit(1); \
        } \
    } while (0)

#include <errno.h>

enum { BUFFER = 1 << 20, DEPTH = 256, RECEIVE = 8928 };

/* What a peer has to know. */
struct name {
    union ibv_gid gid;
    uint32_t qpn, rkey;
    uint64_t addr;
};

struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_qp_ex *qpx;
    struct ibv_mr *mr;
    uint8_t *buffer;
    struct name name;
};

static inline void to_state(struct end *end, enum ibv_qp_state state, int rnr_retry)
{
    struct ibv_qp_attr attr = {.qp_state = state, .qkey = QKEY, .port_num = 1, .rnr_retry = rnr_retry};
    int mask = IBV_QP_STATE;
    if (state == IBV_QPS_INIT)
        mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
    if (state == IBV_QPS_RTS)
        mask |= IBV_QP_SQ_PSN | (rnr_retry < 8 ? IBV_QP_RNR_RETRY : 0);
    CHECK(!ibv_modify_qp(end->qp, &attr, mask));
}

#ifdef HAS_WRITE
/* Whether queue pairs take writes with immediate data without a receive. */
static int is_unsolicited;
#endif

/* Opens the first device. With a retry count of 8 the device's own is kept. */
static inline struct end open_end(int access, int rnr_retry, int with_channel)
{
    struct end end = {0};
    struct ibv_device **devices = ibv_get_device_list(NULL);
    CHECK(devices && devices[0]);
    CHECK((end.context = ibv_open_device(devices[0])));
    ibv_free_device_list(devices);
    CHECK((end.pd = ibv_alloc_pd(end.context)));
    if (with_channel)
        CHECK((end.channel = ibv_create_comp_channel(end.context)));
    CHECK((end.cq = ibv_create_cq(end.context, 4 * DEPTH, NULL, end.channel, 0)));
    struct ibv_qp_init_attr_ex attr = {
        .send_cq = end.cq,
        .recv_cq = end.cq,
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 32},
        .qp_type = IBV_QPT_DRIVER,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = end.pd,
        .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ,
    };
    struct efadv_qp_init_attr efa = {.driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD};
#ifdef HAS_WRITE
    attr.send_ops_flags |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    if (is_unsolicited)
        efa.flags |= EFADV_QP_FLAGS_UNSOLICITED_WRITE_RECV;
#endif
    CHECK((end.qp = efadv_create_qp_ex(end.context, &attr, &efa, sizeof efa)));
    end.qpx = ibv_qp_to_qp_ex(end.qp);
    to_state(&end, IBV_QPS_INIT, rnr_retry);
    to_state(&end, IBV_QPS_RTR, rnr_retry);
    to_state(&end, IBV_QPS_RTS, rnr_retry);
    CHECK((end.buffer = calloc(1, BUFFER)));
    CHECK((end.mr = ibv_reg_mr(end.pd, end.buffer, BUFFER, access)));
    CHECK(!ibv_query_gid(end.context, 1, 0, &end.name.gid));
    end.name.qpn = end.qp->qp_num;
    end.name.rkey = end.mr->rkey;
    end.name.addr = (uintptr_t)end.buffer;
    return end;
}

static inline void close_end(struct end *end)
{
    CHECK(!ibv_destroy_qp(end->qp));
    CHECK(!ibv_destroy_cq(end->cq));
    CHECK(!ibv_dereg_mr(end->mr));
    CHECK(!end->channel || !ibv_destroy_comp_channel(end->channel));
    CHECK(!ibv_dealloc_pd(end->pd));
    CHECK(!ibv_close_device(end->context));
    free(end->buffer);
}

static inline struct ibv_ah *destination(struct end *end, const struct name *peer)
{
    struct ibv_ah_attr attr = {.grh.dgid = peer->gid, .is_global = 1, .port_num = 1};
    struct ibv_ah *ah = ibv_create_ah(end->pd, &attr);
    CHECK(ah);
    return ah;
}

static inline void receive_into(struct end *end, uint64_t id, size_t offset, uint32_t len)
{
    struct ibv_sge sge = {(uintptr_t)end->buffer + offset, len, end->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;
    CHECK(!ibv_post_recv(end->qp, &wr, &bad));
}

static inline void send_from(struct end *end, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey, uint64_t id, uint32_t lkey,
                             size_t offset, uint32_t len)
{
    ibv_wr_start(end->qpx);
    end->qpx->wr_id = id;
    end->qpx->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send_imm(end->qpx, htobe32((uint32_t)id));
    ibv_wr_set_ud_addr(end->qpx, ah, qpn, qkey);
    ibv_wr_set_sge(end->qpx, lkey, (uintptr_t)end->buffer + offset, len);
    CHECK(!ibv_wr_complete(end->qpx));
}

static inline void read_into(struct end *end, struct ibv_ah *ah, const struct name *peer, uint32_t rkey, uint64_t addr,
                             size_t offset, uint32_t len)
{
    ibv_wr_start(end->qpx);
    end->qpx->wr_id = 1;
    end->qpx->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_read(end->qpx, rkey, addr);
    ibv_wr_set_ud_addr(end->qpx, ah, peer->qpn, QKEY);
    ibv_wr_set_sge(end->qpx, end->mr->lkey, (uintptr_t)end->buffer + offset, len);
    CHECK(!ibv_wr_complete(end->qpx));
}

/* Waits for a completion. The watchdog of the process bounds it. */
static inline struct ibv_wc completion(struct end *end)
{
    struct ibv_wc wc;
    int got;
    while (!(got = ibv_poll_cq(end->cq, 1, &wc)))
        usleep(10);
    CHECK(got == 1);
    return wc;
}

/* Waits for the end of a send or read, and checks which status of efa_io_comp_status it has. */
static inline void ends_with(struct end *end, unsigned status)
{
    struct ibv_wc wc = completion(end);
    if (wc.vendor_err != status)
        fprintf(stderr, "status %u instead of %u\n", wc.vendor_err, status);
    CHECK(wc.vendor_err == status && (wc.status == IBV_WC_SUCCESS) == (status == 0));
}

static inline void tell(int socket, const void *data, size_t len)
{
    CHECK(write(socket, data, len) == (ssize_t)len);
}

static inline void hear(int socket, void *data, size_t len)
{
    CHECK(recv(socket, data, len, MSG_WAITALL) == (ssize_t)len);
}

static inline struct name exchange(int socket, struct end *end)
{
    struct name peer;
    tell(socket, &end->name, sizeof end->name);
    hear(socket, &peer, sizeof peer);
    return peer;
}
