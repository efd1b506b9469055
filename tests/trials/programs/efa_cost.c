/*
 * efa_cost tagged|write|read SIZE COUNT [PAUSE_US]
 * efa_cost memory INSERTED MET
 *
 * What reliable datagrams of the fabric efa cost, for docs/performance.md: two endpoints in one process, whose operations follow each other with
 * pauses in which only the device works, so that few polls find nothing. Under callgrind, with threads apart, the difference of two runs with another
 * COUNT is what an operation costs at both ends. With memory it prints what the heap holds for an endpoint, for each address that was
 * inserted, and for each peer with which a message was exchanged in both directions, after that peer has been closed.
 */
#include "efa.h"

#include <malloc.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

enum { ALL = FI_SEND | FI_RECV };

struct end {
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_av *av;
	fi_addr_t peer;
};

static struct node shared;
static struct fi_context2 contexts[4];
static long polls, pause_us = 8000;

static void make(struct end *end)
{
	struct fi_cq_attr queue = { .format = FI_CQ_FORMAT_TAGGED, .size = 1024 };
	struct fi_av_attr vector = { .type = FI_AV_TABLE };

	expect("fi_endpoint", fi_endpoint(shared.domain, shared.info, &end->ep, NULL));
	expect("fi_cq_open", fi_cq_open(shared.domain, &queue, &end->cq, NULL));
	expect("fi_av_open", fi_av_open(shared.domain, &vector, &end->av, NULL));
	expect("fi_ep_bind", fi_ep_bind(end->ep, &end->cq->fid, ALL));
	expect("fi_ep_bind", fi_ep_bind(end->ep, &end->av->fid, 0));
	expect("fi_enable", fi_enable(end->ep));
}

static void unmake(struct end *end)
{
	expect("fi_close", fi_close(&end->ep->fid));
	expect("fi_close", fi_close(&end->cq->fid));
	expect("fi_close", fi_close(&end->av->fid));
}

static void meet(struct end *from, struct end *to)
{
	unsigned char name[64];
	size_t len = sizeof name;

	expect("fi_getname", fi_getname(&to->ep->fid, name, &len));
	if (fi_av_insert(from->av, name, 1, &from->peer, 0, NULL) != 1)
		expect("fi_av_insert", -FI_EINVAL);
}

static long poll_once(struct end *end)
{
	struct fi_cq_tagged_entry entries[16];
	ssize_t got = fi_cq_read(end->cq, entries, 16);

	polls++;
	if (got == -FI_EAGAIN)
		return 0;
	if (got < 0)
		expect("fi_cq_read", got);
	return got;
}

static long start(struct end *end, char kind, char *at, char *there, size_t size, void *desc, uint64_t key)
{
	if (kind == 't')
		return fi_tsend(end->ep, at, size, desc, end->peer, 5, &contexts[0]);
	if (kind == 'w')
		return fi_write(end->ep, at, size, desc, end->peer, (uintptr_t)there, key, &contexts[0]);
	return fi_read(end->ep, at, size, desc, end->peer, (uintptr_t)there, key, &contexts[0]);
}

static void operate(char kind, size_t size, long count)
{
	struct end ends[2];
	char *memory = calloc(2, size + 4096), *there = memory + size;
	uint64_t access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	void *desc;

	make(&ends[0]);
	make(&ends[1]);
	meet(&ends[0], &ends[1]);
	meet(&ends[1], &ends[0]);
	expect("fi_mr_reg", fi_mr_reg(shared.domain, memory, 2 * size, access, 0, 0, 0, &shared.mr, NULL));
	desc = fi_mr_desc(shared.mr);
	for (long at = 0; at < count; at++) {
		/* Messages go to and fro. */
		struct end *from = &ends[kind == 't' && at % 2], *to = from == ends ? &ends[1] : ends;
		long sends = 1, receives = kind == 't', started;

		if (kind == 't')
			expect("fi_trecv", fi_trecv(to->ep, there, size, desc, to->peer, 5, 0, &contexts[1]));
		while ((started = start(from, kind, memory, there, size, desc, fi_mr_key(shared.mr))) == -FI_EAGAIN) {
			poll_once(from);
			poll_once(to);
			usleep(1000);
		}
		expect("start", started);
		while (sends > 0 || receives > 0) {
			usleep((useconds_t)pause_us);
			receives -= poll_once(to);
			sends -= poll_once(from);
		}
	}
	printf("polls %ld\n", polls);
}

static long used(void)
{
	struct mallinfo2 heap = mallinfo2();

	return (long)(heap.uordblks + heap.hblkhd);
}

static void insert_many(struct end *end, int count)
{
	unsigned char name[64], *all;
	fi_addr_t *addresses = calloc((size_t)count, sizeof *addresses);
	size_t len = sizeof name;
	long before;
	int inserted;

	expect("fi_getname", fi_getname(&end->ep->fid, name, &len));
	all = calloc((size_t)count, len);
	for (int at = 0; at < count; at++) {
		uint16_t pair = (uint16_t)(at + 20000);

		memcpy(all + (size_t)at * len, name, len);
		memcpy(all + (size_t)at * len + 16, &pair, sizeof pair);
		all[(size_t)at * len + 20] ^= 1;
	}
	before = used();
	inserted = fi_av_insert(end->av, all, (size_t)count, addresses, 0, NULL);
	printf("%d inserted, %ld bytes each\n", inserted, inserted > 0 ? (used() - before) / inserted : 0);
}

static void exchange(struct end *end, struct end *other, char *memory, void *desc)
{
	long wanted = 4;

	meet(end, other);
	meet(other, end);
	expect("fi_trecv", fi_trecv(end->ep, memory, 64, desc, FI_ADDR_UNSPEC, 1, 0, &contexts[0]));
	expect("fi_trecv", fi_trecv(other->ep, memory + 64, 64, desc, FI_ADDR_UNSPEC, 1, 0, &contexts[1]));
	expect("fi_tsend", fi_tsend(other->ep, memory + 128, 64, desc, other->peer, 1, &contexts[2]));
	expect("fi_tsend", fi_tsend(end->ep, memory + 192, 64, desc, end->peer, 1, &contexts[3]));
	while (wanted > 0) {
		wanted -= poll_once(end);
		wanted -= poll_once(other);
		usleep(200);
	}
	/* Handshakes follow. */
	for (int at = 0; at < 20; at++) {
		poll_once(end);
		poll_once(other);
		usleep(500);
	}
}

static void remember(int inserted, int met)
{
	struct end steady, other;
	long before = used(), first = 0;
	char *memory = calloc(1, 4096);

	make(&steady);
	printf("an endpoint: %ld bytes\n", used() - before);
	insert_many(&steady, inserted);
	expect("fi_mr_reg", fi_mr_reg(shared.domain, memory, 4096, ALL, 0, 0, 0, &shared.mr, NULL));
	for (int at = 0; at < met; at++) {
		make(&other);
		exchange(&steady, &other, memory, fi_mr_desc(shared.mr));
		unmake(&other);
		/* What is made once is there after some. */
		if (at == met / 4)
			first = used();
	}
	if (met > 4)
		printf("%d met, %ld bytes each\n", met, (used() - first) / (met - 1 - met / 4));
}

int main(int argc, char **argv)
{
	struct fi_info *hints;

	if (argc < 4)
		return 2;
	if (argc > 4)
		pause_us = strtol(argv[4], NULL, 10);
	hints = efa_hints("efa", FI_TAGGED | FI_MSG | FI_RMA);
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	expect("fi_getinfo", fi_getinfo(FI_VERSION(1, 21), NULL, NULL, 0, hints, &shared.info));
	expect("fi_fabric", fi_fabric(shared.info->fabric_attr, &shared.fabric, NULL));
	expect("fi_domain", fi_domain(shared.fabric, shared.info, &shared.domain, NULL));
	if (!strcmp(argv[1], "memory"))
		remember(atoi(argv[2]), atoi(argv[3]));
	else
		operate(argv[1][0], strtoul(argv[2], NULL, 10), strtol(argv[3], NULL, 10));
	fflush(stdout);
	/* What is left goes with the process: only what operations cost is looked at. */
	_exit(0);
}
