/* What a device with scalable reliable datagrams promises, between processes. The first argument chooses; standard output has counts for the test. */
#include "srd.h"

enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, HALF = BUFFER / 2 };

/* The n-th message: its length, and its bytes. */
static uint32_t length(uint32_t n)
{
    return 4 + n * 37 % 4000;
}

static void fill(uint8_t *to, uint32_t n)
{
    memcpy(to, &n, 4);
    for (uint32_t i = 4; i < length(n); i++)
        to[i] = (uint8_t)(n * 31 + i);
}

static void check_message(const uint8_t *from, uint32_t n)
{
    uint32_t said;
    memcpy(&said, from, 4);
    CHECK(said == n);
    for (uint32_t i = 4; i < length(n); i++)
        CHECK(from[i] == (uint8_t)(n * 31 + i));
}

enum { BURST = 50, ROUNDS = 10, PLACE = 4096 };

/* Bursts of messages both ways: each arrives once and whole, in whatever order. */
static void pingpong(int socket, int is_first)
{
    struct end end = open_end(ALL, 8, 0);
    struct name peer = exchange(socket, &end);
    struct ibv_ah *ah = destination(&end, &peer);
    unsigned reordered = 0, failed = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint8_t seen[BURST] = {0};
        uint32_t last = 0;
        for (uint32_t n = 0; n < BURST; n++) {
            receive_into(&end, 1000 + n, n * PLACE, PLACE);
            fill(end.buffer + HALF + n * PLACE, round * BURST + n);
        }
        /* Without this the peer may have posted nothing yet, and retries mix the order. */
        uint8_t over = 1;
        tell(socket, &over, 1);
        hear(socket, &over, 1);
        for (uint32_t n = 0; n < BURST; n++)
            send_from(&end, ah, peer.qpn, QKEY, round * BURST + n, end.mr->lkey, HALF + n * PLACE, length(round * BURST + n));
        for (unsigned sent = 0, received = 0; sent < BURST || received < BURST;) {
            struct ibv_wc wc = completion(&end);
            if (wc.wr_id < 1000) {
                CHECK(wc.status == IBV_WC_SUCCESS || wc.vendor_err == 13);
                failed += wc.status != IBV_WC_SUCCESS;
                sent++;
                continue;
            }
            CHECK(wc.status == IBV_WC_SUCCESS && wc.src_qp == peer.qpn && wc.wc_flags == IBV_WC_WITH_IMM);
            uint32_t n = be32toh(wc.imm_data);
            CHECK(n / BURST == round && wc.byte_len == length(n) && !seen[n % BURST]++);
            check_message(end.buffer + (wc.wr_id - 1000) * PLACE, n);
            reordered += n < last;
            last = n;
            received++;
        }
        tell(socket, &over, 1);
        hear(socket, &over, 1);
    }
    if (is_first)
        printf("reordered %u failed %u\n", reordered, failed);
    CHECK(!ibv_destroy_ah(ah));
    close_end(&end);
}

/* Reads of the peer's memory, allowed and forbidden ones. */
static void reads(int socket, int is_first)
{
    struct end end = open_end(ALL, 8, 0);
    for (size_t i = 0; i < BUFFER; i++)
        end.buffer[i] = (uint8_t)(i * 7 + (size_t)is_first);
    struct ibv_mr *closed = ibv_reg_mr(end.pd, end.buffer, 4096, IBV_ACCESS_LOCAL_WRITE);
    uint32_t closed_key = closed->rkey;
    struct name peer = exchange(socket, &end);
    tell(socket, &closed_key, sizeof closed_key);
    hear(socket, &closed_key, sizeof closed_key);
    uint8_t over = 0;
    if (is_first) {
        struct ibv_ah *ah = destination(&end, &peer);
        read_into(&end, ah, &peer, peer.rkey, peer.addr, 0, 64);
        ends_with(&end, 14); /* the peer has no address handle of this side yet */
        tell(socket, &over, 1);
        hear(socket, &over, 1);
        read_into(&end, ah, &peer, peer.rkey, peer.addr + 5, 3, 300001);
        ends_with(&end, 0);
        for (size_t i = 0; i < 300001; i++)
            CHECK(end.buffer[3 + i] == (uint8_t)((i + 5) * 7));
        CHECK(end.buffer[2] == (uint8_t)(2 * 7 + 1) && end.buffer[300004] == (uint8_t)(300004 * 7 + 1));
        read_into(&end, ah, &peer, peer.rkey, peer.addr, 0, 0);
        ends_with(&end, 0);
        read_into(&end, ah, &peer, peer.rkey + 77, peer.addr, 0, 64);
        ends_with(&end, 7);
        read_into(&end, ah, &peer, peer.rkey, peer.addr + BUFFER - 63, 0, 64);
        ends_with(&end, 7);
        read_into(&end, ah, &peer, closed_key, peer.addr, 0, 64);
        ends_with(&end, 7);
        tell(socket, &over, 1);
        CHECK(!ibv_destroy_ah(ah));
    } else {
        hear(socket, &over, 1);
        struct ibv_ah *ah = destination(&end, &peer);
        tell(socket, &over, 1);
        hear(socket, &over, 1);
        CHECK(!ibv_destroy_ah(ah));
    }
    CHECK(!ibv_dereg_mr(closed));
    close_end(&end);
}

#ifdef HAS_WRITE
static void write_from(struct end *end, struct ibv_ah *ah, const struct name *peer, uint32_t rkey, uint64_t addr, int64_t data,
                       uint32_t len)
{
    ibv_wr_start(end->qpx);
    end->qpx->wr_id = 1;
    end->qpx->wr_flags = IBV_SEND_SIGNALED;
    if (data < 0)
        ibv_wr_rdma_write(end->qpx, rkey, addr);
    else
        ibv_wr_rdma_write_imm(end->qpx, rkey, addr, htobe32((uint32_t)data));
    ibv_wr_set_ud_addr(end->qpx, ah, peer->qpn, QKEY);
    ibv_wr_set_sge(end->qpx, end->mr->lkey, (uintptr_t)end->buffer, len);
    CHECK(!ibv_wr_complete(end->qpx));
}

static void received_write(struct end *end, uint32_t data, uint64_t id)
{
    struct ibv_wc wc = completion(end);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && be32toh(wc.imm_data) == data);
    CHECK(is_unsolicited || wc.wr_id == id);
    for (size_t i = 0; i < 200001; i++)
        CHECK(end->buffer[7 + i] == (uint8_t)(i * 7 + 1));
}

/* Writes of the peer's memory, allowed and forbidden ones, told and untold. */
static void writes(int socket, int is_first)
{
    struct end end = open_end(ALL | IBV_ACCESS_REMOTE_WRITE, 1, 0);
    for (size_t i = 0; i < BUFFER; i++)
        end.buffer[i] = (uint8_t)(i * 7 + (size_t)is_first);
    struct ibv_mr *closed = ibv_reg_mr(end.pd, end.buffer, 4096, ALL);
    uint32_t closed_key = closed->rkey;
    struct name peer = exchange(socket, &end);
    struct ibv_ah *ah = destination(&end, &peer);
    tell(socket, &closed_key, sizeof closed_key);
    hear(socket, &closed_key, sizeof closed_key);
    uint8_t over = 0;
    if (is_first) {
        write_from(&end, ah, &peer, peer.rkey, peer.addr + 7, -1, 200001);
        ends_with(&end, 0);
        write_from(&end, ah, &peer, peer.rkey, peer.addr + BUFFER - 63, -1, 64);
        ends_with(&end, 7);
        write_from(&end, ah, &peer, closed_key, peer.addr, -1, 64);
        ends_with(&end, 7);
        write_from(&end, ah, &peer, peer.rkey, peer.addr + 7, 41, 200001);
        ends_with(&end, is_unsolicited ? 0 : 10); /* nothing is posted, and one retry is all */
        tell(socket, &over, 1);
        hear(socket, &over, 1);
        write_from(&end, ah, &peer, peer.rkey, peer.addr + 7, 42, 200001);
        ends_with(&end, 0);
        hear(socket, &over, 1);
    } else {
        hear(socket, &over, 1);
        if (is_unsolicited)
            received_write(&end, 41, 0);
        else
            receive_into(&end, 9, HALF, 8);
        tell(socket, &over, 1);
        received_write(&end, 42, 9);
        CHECK(end.buffer[6] == 6 * 7 && end.buffer[200008] == (uint8_t)(200008 * 7));
        tell(socket, &over, 1);
    }
    CHECK(!ibv_destroy_ah(ah) && !ibv_dereg_mr(closed));
    close_end(&end);
}

static void unsolicited(int socket, int is_first)
{
    is_unsolicited = 1;
    writes(socket, is_first);
}
#endif

/* Each cause of failure once. */
static void errors(int socket, int is_first)
{
    struct end end = open_end(ALL, is_first ? 1 : 8, 0);
    struct name peer = exchange(socket, &end);
    uint8_t over = 0;
    if (is_first) {
        struct ibv_ah *ah = destination(&end, &peer);
        struct name nowhere = peer;
        nowhere.gid.raw[12] = 77;
        struct ibv_ah *away = destination(&end, &nowhere);
        send_from(&end, ah, peer.qpn, QKEY, 1, end.mr->lkey + 99, 0, 8);
        ends_with(&end, 5);
        send_from(&end, ah, peer.qpn, QKEY, 1, end.mr->lkey, BUFFER - 7, 8);
        ends_with(&end, 5);
        send_from(&end, ah, peer.qpn, QKEY, 1, end.mr->lkey, 0, RECEIVE + 1);
        ends_with(&end, 6);
        send_from(&end, ah, peer.qpn + 1, QKEY, 1, end.mr->lkey, 0, 8);
        ends_with(&end, 9);
        send_from(&end, ah, peer.qpn, QKEY + 1, 1, end.mr->lkey, 0, 8);
        ends_with(&end, 9);
        send_from(&end, away, peer.qpn, QKEY, 1, end.mr->lkey, 0, 8);
        ends_with(&end, 15);
        send_from(&end, ah, peer.qpn, QKEY, 1, end.mr->lkey, 0, 8);
        ends_with(&end, 10); /* nothing is posted, and one retry is all */
        tell(socket, &over, 1);
        hear(socket, &over, 1);
        send_from(&end, ah, peer.qpn, QKEY, 1, end.mr->lkey, 0, 101);
        ends_with(&end, 11);
        send_from(&end, ah, peer.qpn, QKEY, 1, end.mr->lkey, 0, 100);
        ends_with(&end, 0);
        tell(socket, &over, 1);
        hear(socket, &over, 1);
        send_from(&end, ah, peer.qpn, QKEY, 1, end.mr->lkey, 0, 8);
        ends_with(&end, 9);
        tell(socket, &over, 1);
        CHECK(!ibv_destroy_ah(ah) && !ibv_destroy_ah(away));
    } else {
        hear(socket, &over, 1);
        receive_into(&end, 5, 0, 100);
        tell(socket, &over, 1);
        hear(socket, &over, 1);
        struct ibv_wc wc = completion(&end);
        CHECK(wc.wr_id == 5 && wc.byte_len == 100 && wc.slid == 0xffff);
        receive_into(&end, 6, 0, 100);
        receive_into(&end, 7, 0, 100);
        to_state(&end, IBV_QPS_ERR, 8);
        for (unsigned id = 6; id <= 7; id++) {
            wc = completion(&end);
            CHECK(wc.wr_id == id && wc.status == IBV_WC_WR_FLUSH_ERR);
        }
        tell(socket, &over, 1);
        hear(socket, &over, 1);
    }
    close_end(&end);
}

/* The second process dies while messages wait for its receives: all fail, and the device goes on. */
static void killed(int socket, int is_first)
{
    struct end end = open_end(ALL, 8, 0);
    struct name peer = exchange(socket, &end);
    if (!is_first) {
        receive_into(&end, 1, 0, 100);
        completion(&end);
        kill(getpid(), SIGKILL);
    }
    struct ibv_ah *ah = destination(&end, &peer);
    unsigned succeeded = 0;
    for (unsigned n = 0; n < 32; n++)
        send_from(&end, ah, peer.qpn, QKEY, n, end.mr->lkey, 0, 64);
    for (unsigned n = 0; n < 32; n++) {
        struct ibv_wc wc = completion(&end);
        CHECK(wc.status == IBV_WC_SUCCESS || wc.vendor_err == 9);
        succeeded += wc.status == IBV_WC_SUCCESS;
    }
    CHECK(succeeded <= 1);
    receive_into(&end, 100, 0, 100);
    struct ibv_ah *own = destination(&end, &end.name);
    send_from(&end, own, end.qp->qp_num, QKEY, 99, end.mr->lkey, 512, 10);
    for (unsigned n = 0; n < 2; n++)
        CHECK(completion(&end).status == IBV_WC_SUCCESS);
    CHECK(!ibv_destroy_ah(ah) && !ibv_destroy_ah(own));
    close_end(&end);
}

/* Waits for every message by the descriptor of a completion channel. */
static void events(int socket, int is_first)
{
    struct end end = open_end(ALL, 8, 1);
    struct name peer = exchange(socket, &end);
    struct ibv_ah *ah = destination(&end, &peer);
    unsigned received = 0, sent = 0, got = 0, woken = 0;
    enum { MESSAGES = 40 };
    for (unsigned n = 0; n < MESSAGES; n++)
        receive_into(&end, 1000 + n, n * 64, 64);
    CHECK(!ibv_req_notify_cq(end.cq, 0));
    if (is_first)
        send_from(&end, ah, peer.qpn, QKEY, sent++, end.mr->lkey, HALF, 64);
    while (received < MESSAGES || got < MESSAGES) {
        struct ibv_cq *cq;
        void *context;
        struct ibv_wc wc;
        CHECK(!ibv_get_cq_event(end.channel, &cq, &context) && cq == end.cq);
        woken++;
        CHECK(!ibv_req_notify_cq(end.cq, 0));
        while (ibv_poll_cq(end.cq, 1, &wc) == 1) {
            CHECK(wc.status == IBV_WC_SUCCESS);
            if (wc.wr_id < 1000) {
                got++;
                continue;
            }
            received++;
            if (sent < MESSAGES)
                send_from(&end, ah, peer.qpn, QKEY, sent++, end.mr->lkey, HALF, 64);
        }
    }
    CHECK(woken > 0);
    ibv_ack_cq_events(end.cq, woken);
    CHECK(!ibv_destroy_ah(ah));
    close_end(&end);
}

static void watched(void)
{
    alarm(120); /* SIGALRM ends a process that hangs */
}

typedef void play(int socket, int is_first);

/* Plays with a second process, which is another program: it may be on another host. */
static int pair(play *play, const char *name, int is_killed)
{
    int sockets[2], status;
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        char number[12];
        snprintf(number, sizeof number, "%d", sockets[1]);
        close(sockets[0]);
        setenv("SOFTNIC_HOST", "1", 1);
        execl("/proc/self/exe", "srd", name, number, (char *)0);
        exit(127);
    }
    close(sockets[1]);
    watched();
    play(sockets[0], 1);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(is_killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0);
    return 0;
}

/* Says what there is: each device with its capabilities, its longest message and its address. */
static int devices(void)
{
    int count;
    struct ibv_device **devices = ibv_get_device_list(&count);
    for (int i = 0; i < count; i++) {
        struct ibv_context *context = ibv_open_device(devices[i]);
        CHECK(context);
        struct efadv_device_attr efa;
        struct ibv_port_attr port;
        union ibv_gid gid;
        CHECK(!efadv_query_device(context, &efa, sizeof efa) && !ibv_query_port(context, 1, &port) && !ibv_query_gid(context, 1, 0, &gid));
        printf("%s caps %u longest %u host %u nic %u\n", ibv_get_device_name(devices[i]), efa.device_caps, port.max_msg_sz,
               gid.raw[10], gid.raw[13]);
        CHECK(!ibv_close_device(context));
    }
    ibv_free_device_list(devices);
    return 0;
}

/* Says which numbers queue pairs have that are made one after the other. */
static int numbers(void)
{
    for (int i = 0; i < 3; i++) {
        struct end end = open_end(ALL, 8, 0);
        printf("%u\n", end.name.qpn);
        close_end(&end);
    }
    return 0;
}

/* Sends until a message fails, and says why it did. */
static void until_error(int socket, int is_first)
{
    struct end end = open_end(ALL, 8, 0);
    struct name peer = exchange(socket, &end);
    for (uint64_t n = 0; !is_first; n++) {
        struct ibv_wc wc;
        uint8_t over;
        receive_into(&end, n, 0, 64);
        while (n >= 16 && !ibv_poll_cq(end.cq, 1, &wc))
            if (recv(socket, &over, 1, MSG_DONTWAIT) == 0)
                exit(0);
    }
    struct ibv_ah *ah = destination(&end, &peer);
    for (;;) {
        send_from(&end, ah, peer.qpn, QKEY, 1, end.mr->lkey, 0, 64);
        struct ibv_wc wc = completion(&end);
        if (wc.status != IBV_WC_SUCCESS) {
            printf("status %u\n", wc.vendor_err);
            exit(0);
        }
    }
}

/* Four processes, each of which sends to all others; a fifth one makes the queue pairs known. */
static int many(void)
{
    enum { PROCESSES = 4 };
    int sockets[PROCESSES][2], status;
    struct name names[PROCESSES];
    for (int self = 0; self < PROCESSES; self++) {
        CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets[self]));
        pid_t child = fork();
        CHECK(child >= 0);
        watched();
        if (child)
            continue;
        struct end end = open_end(ALL, 8, 0);
        for (unsigned n = 0; n < 100; n++)
            receive_into(&end, 1000 + n, n * 64, 64);
        tell(sockets[self][1], &end.name, sizeof end.name);
        hear(sockets[self][1], names, sizeof names);
        uint32_t counts[PROCESSES] = {0};
        for (int peer = 0; peer < PROCESSES; peer++)
            for (unsigned n = 0; n < 25; n++)
                send_from(&end, destination(&end, &names[peer]), names[peer].qpn, QKEY, (uint64_t)self, end.mr->lkey, HALF, 64);
        for (unsigned done = 0; done < 200; done++) {
            struct ibv_wc wc = completion(&end);
            CHECK(wc.status == IBV_WC_SUCCESS);
            if (wc.wr_id >= 1000)
                counts[be32toh(wc.imm_data)]++;
        }
        for (int peer = 0; peer < PROCESSES; peer++)
            CHECK(counts[peer] == 25);
        uint8_t over = 1;
        tell(sockets[self][1], &over, 1);
        hear(sockets[self][1], &over, 1);
        exit(0);
    }
    uint8_t over;
    for (int self = 0; self < PROCESSES; self++)
        hear(sockets[self][0], &names[self], sizeof names[self]);
    for (int self = 0; self < PROCESSES; self++)
        tell(sockets[self][0], names, sizeof names);
    for (int self = 0; self < PROCESSES; self++)
        hear(sockets[self][0], &over, 1);
    for (int self = 0; self < PROCESSES; self++)
        tell(sockets[self][0], &over, 1);
    for (int self = 0; self < PROCESSES; self++)
        CHECK(wait(&status) > 0 && status == 0);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        play *play;
        int is_killed;
    } plays[] = {
        {"pingpong", pingpong, 0}, {"reads", reads, 0}, {"errors", errors, 0},
#ifdef HAS_WRITE
        {"writes", writes, 0}, {"unsolicited", unsolicited, 0},
#endif
        {"killed", killed, 1}, {"events", events, 0}, {"until-error", until_error, 0},
    };
    CHECK(argc >= 2);
    for (size_t i = 0; i < sizeof plays / sizeof *plays; i++) {
        if (strcmp(argv[1], plays[i].name))
            continue;
        if (argc == 2)
            return pair(plays[i].play, plays[i].name, plays[i].is_killed);
        watched();
        plays[i].play(atoi(argv[2]), 0);
        return 0;
    }
    if (!strcmp(argv[1], "many"))
        return many();
    if (!strcmp(argv[1], "devices"))
        return devices();
    if (!strcmp(argv[1], "numbers"))
        return numbers();
    fprintf(stderr, "no %s\n", argv[1]);
    return 2;
}
