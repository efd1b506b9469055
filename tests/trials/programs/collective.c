/* Four processes that do collectives over one provider, and one that dies: collective PROVIDER. Prints what it checked;
 * exits with 0 if all was right. */

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS 4
#define MANY 100000

#define CHECK(what)                                                                                \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			printf("rank %d, line %d: %s\n", rank, __LINE__, #what);                   \
			fflush(stdout);                                                            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

struct shared {
	atomic_int named;
	/* How many have done what the one that dies has a part in. */
	atomic_int done;
	char names[RANKS][256];
	size_t lengths[RANKS];
};

static struct shared *shared;
static int rank;
static struct fid_ep *ep;
static struct fid_cq *cq;
static struct fid_eq *eq;
static struct fid_av *av;

static void open_all(const char *provider)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
	fi_addr_t addr;
	int is_tcp = !strcmp(provider, "tcp");

	hints->caps = FI_MSG | FI_COLLECTIVE;
	hints->ep_attr->type = FI_EP_RDM;
	hints->fabric_attr->prov_name = strdup(provider);
	CHECK(!fi_getinfo(FI_VERSION(1, 17), is_tcp ? "127.0.0.1" : NULL, NULL,
			  is_tcp ? FI_SOURCE : 0, hints, &info));
	CHECK(!fi_fabric(info->fabric_attr, &fabric, NULL));
	CHECK(!fi_domain(fabric, info, &domain, NULL));
	CHECK(!fi_eq_open(fabric, &eq_attr, &eq, NULL));
	CHECK(!fi_cq_open(domain, &cq_attr, &cq, NULL));
	CHECK(!fi_av_open(domain, &av_attr, &av, NULL));
	CHECK(!fi_endpoint(domain, info, &ep, NULL));
	CHECK(!fi_ep_bind(ep, &eq->fid, 0));
	CHECK(!fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	CHECK(!fi_ep_bind(ep, &av->fid, 0));
	CHECK(!fi_enable(ep));
	shared->lengths[rank] = sizeof(shared->names[rank]);
	CHECK(!fi_getname(&ep->fid, shared->names[rank], &shared->lengths[rank]));
	atomic_fetch_add(&shared->named, 1);
	while (atomic_load(&shared->named) < RANKS)
		usleep(100);
	for (int at = 0; at < RANKS; at++) {
		CHECK(fi_av_insert(av, shared->names[at], 1, &addr, 0, NULL) == 1);
		CHECK(addr == (fi_addr_t)at);
	}
}

/* Waits for `count` completions; returns 0, or the error of one. */
static int wait_for(int count)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};

	while (count > 0) {
		ssize_t got = fi_cq_read(cq, &entry, 1);
		if (got == 1) {
			CHECK(entry.flags & FI_COLLECTIVE);
			count--;
		} else if (got == -FI_EAVAIL) {
			CHECK(fi_cq_readerr(cq, &error, 0) == 1);
			CHECK(error.flags & FI_COLLECTIVE);
			return error.err;
		} else {
			CHECK(got == -FI_EAGAIN);
		}
	}
	return 0;
}

static struct fid_mc *join(fi_addr_t start, uint64_t stride)
{
	struct fi_av_set_attr attr = {
		.start_addr = start, .end_addr = RANKS - 1, .stride = stride};
	struct fid_av_set *set;
	struct fid_mc *mc;
	struct fi_eq_entry entry;
	fi_addr_t addr;
	uint32_t event;
	ssize_t got;

	CHECK(!fi_av_set(av, &attr, &set, NULL));
	CHECK(!fi_av_set_addr(set, &addr));
	CHECK(!fi_join_collective(ep, addr, set, 0, &mc, &rank));
	do {
		fi_cq_read(cq, NULL, 0);
		got = fi_eq_read(eq, &event, &entry, sizeof(entry), 0);
	} while (got == -FI_EAGAIN);
	CHECK(got == sizeof(entry) && event == FI_JOIN_COMPLETE);
	CHECK(entry.fid == &mc->fid && entry.context == &rank);
	CHECK(!fi_close(&set->fid));
	return mc;
}

/* Every collective on a group of `size`, of which this is number `me`; all are under way at once. */
static void all_of_them(fi_addr_t to, int size, int me, fi_addr_t root, int root_at, size_t count)
{
	static uint32_t mine[RANKS * MANY], cast[MANY], all[4][RANKS * MANY], one[4][MANY];

	for (int at = 0; at < size; at++)
		for (size_t i = 0; i < count; i++)
			mine[at * count + i] = 1000 * me + 10 * at + i;
	for (size_t i = 0; i < count; i++)
		cast[i] = me == root_at ? 7 * i + 1 : 0;
	CHECK(!fi_broadcast(ep, cast, count, NULL, to, root, FI_UINT32, 0, NULL));
	CHECK(!fi_alltoall(ep, mine, count, NULL, all[0], NULL, to, FI_UINT32, 0, NULL));
	CHECK(!fi_allgather(ep, mine, count, NULL, all[1], NULL, to, FI_UINT32, 0, NULL));
	CHECK(!fi_gather(ep, mine, count, NULL, all[2], NULL, to, root, FI_UINT32, 0, NULL));
	CHECK(!fi_allreduce(ep, mine, count, NULL, one[0], NULL, to, FI_UINT32, FI_SUM, 0, NULL));
	CHECK(!fi_reduce(ep, mine, count, NULL, one[1], NULL, to, root, FI_UINT32, FI_MAX, 0, NULL));
	CHECK(!fi_reduce_scatter(ep, mine, count, NULL, one[2], NULL, to, FI_UINT32, FI_SUM, 0, NULL));
	CHECK(!fi_scatter(ep, mine, count, NULL, one[3], NULL, to, root, FI_UINT32, 0, NULL));
	CHECK(!fi_barrier(ep, to, NULL));
	CHECK(wait_for(9) == 0);
	for (size_t i = 0; i < count; i++) {
		uint32_t ranks = 1000 * size * (size - 1) / 2;
		CHECK(cast[i] == 7 * i + 1);
		CHECK(one[0][i] == ranks + size * i);
		CHECK(me != root_at || one[1][i] == 1000 * (size - 1) + i);
		CHECK(one[2][i] == ranks + size * (10 * me + i));
		CHECK(one[3][i] == 1000 * root_at + 10 * me + i);
		for (int at = 0; at < size; at++) {
			CHECK(all[0][at * count + i] == 1000 * at + 10 * me + i);
			CHECK(all[1][at * count + i] == 1000 * at + i);
			CHECK(me != root_at || all[2][at * count + i] == 1000 * at + i);
		}
	}
}

static void play(const char *provider)
{
	struct fid_mc *world, *odd;
	int failed;

	open_all(provider);
	world = join(0, 1);
	for (size_t count = 1; count <= MANY; count *= 10)
		all_of_them(fi_mc_addr(world), RANKS, rank, 2, 2, count);
	if (rank % 2) {
		odd = join(1, 2);
		all_of_them(fi_mc_addr(odd), RANKS / 2, rank / 2, 3, 1, 100);
		CHECK(!fi_close(&odd->fid));
	}
	/*
	 * One dies, whose part the others await without end. Its own part may be over while another still waits for an answer that
	 * it owes: it goes on until all are done.
	 */
	atomic_fetch_add(&shared->done, 1);
	while (rank == 1 && atomic_load(&shared->done) < RANKS)
		fi_cq_read(cq, NULL, 0);
	if (rank == 1)
		raise(SIGKILL);
	failed = fi_barrier(ep, fi_mc_addr(world), NULL);
	CHECK(failed || wait_for(1));
	CHECK(fi_close(&ep->fid) == -FI_EBUSY);
	CHECK(!fi_close(&world->fid));
	CHECK(!fi_close(&ep->fid));
	_exit(0);
}

int main(int argc, char **argv)
{
	pid_t children[RANKS];
	int status, bad = argc != 2;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (bad || shared == MAP_FAILED)
		return 2;
	for (rank = 0; rank < RANKS; rank++) {
		children[rank] = fork();
		if (children[rank] < 0)
			return 2;
		if (children[rank] == 0)
			play(argv[1]);
	}
	for (int at = 0; at < RANKS; at++) {
		int killed;
		waitpid(children[at], &status, 0);
		killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
		if (at == 1 ? !killed : !WIFEXITED(status) || WEXITSTATUS(status)) {
			printf("rank %d ended with %#x\n", at, status);
			bad = 1;
		}
	}
	if (!bad)
		printf("collectives of %d processes over %s\n", RANKS, argv[1]);
	return bad;
}
