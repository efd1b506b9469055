/*
 * crowd PROVIDER THREADS PROCESSES messages|writes|reads BYTES COUNT
 *
 * PROCESSES processes in a ring, each with one endpoint and one queue, which all of its THREADS threads use at once (FI_THREAD_SAFE), as
 * an MPI library does for MPI_THREAD_MULTIPLE. Each thread has one operation under way, COUNT times:
 *
 * - messages: it sends to the process on the right and receives from the one on the left.
 * - writes, reads: it accesses the memory of the process on the right, and waits until a write is there (FI_DELIVERY_COMPLETE).
 *
 * All data is checked. Prints how long an operation takes, in microseconds: the time until the last thread is through, divided by the
 * operations of all threads.
 */
#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "node.h"

#include <rdma/fi_rma.h>

enum { THREADS_MAX = 64, PROCESSES_MAX = 64, BATCH = 8, KEY = 7 };

/* What the processes share. */
struct course {
	int ready, through;
	double begin[PROCESSES_MAX], end[PROCESSES_MAX];
};

struct operation {
	struct fi_context2 context;
	int is_done;
};

struct runner {
	pthread_t thread;
	int number;
	unsigned char *out, *in;
	struct operation send, receive;
};

static struct node node;
static struct course *course;
static struct fid_mr *region;
static unsigned char *memory;
static fi_addr_t right;
static size_t bytes;
static long count;
static int rank, processes, threads;
static const char *work;

/* What byte `at` of an operation is. */
static unsigned char pattern(int from, int thread, long turn, size_t at)
{
	return (unsigned char)(from * 31 + thread * 7 + turn + (long)at);
}

/* Takes what has completed, of whichever thread. */
static void progress(void)
{
	struct fi_cq_tagged_entry entries[BATCH];
	struct fi_cq_err_entry failed = { 0 };
	ssize_t got = fi_cq_read(node.cq, entries, BATCH);

	if (got == -FI_EAGAIN)
		return;
	if (got == -FI_EAVAIL) {
		expect("fi_cq_readerr", fi_cq_readerr(node.cq, &failed, 0));
		expect("completion", -failed.err);
	}
	expect("fi_cq_read", got);
	for (ssize_t i = 0; i < got; i++)
		__atomic_store_n(&((struct operation *)entries[i].op_context)->is_done, 1, __ATOMIC_RELEASE);
}

static void wait_for(struct operation *operation)
{
	while (!__atomic_load_n(&operation->is_done, __ATOMIC_ACQUIRE))
		progress();
	operation->is_done = 0;
}

#define POST(call)                                       \
	do {                                             \
		ssize_t posted_;                         \
		while ((posted_ = (call)) == -FI_EAGAIN) \
			progress();                      \
		expect(#call, posted_);                  \
	} while (0)

static void check(const unsigned char *found, int from, int thread, long turn)
{
	for (size_t at = 0; at < bytes; at++)
		if (found[at] != pattern(from, thread, turn, at)) {
			printf("rank %d, thread %d, turn %ld: byte %zu is wrong\n", rank, thread, turn, at);
			_exit(3);
		}
}

static void exchange(struct runner *me, long turn)
{
	POST(fi_trecv(node.ep, me->in, bytes, NULL, FI_ADDR_UNSPEC, (uint64_t)me->number, 0, &me->receive.context));
	POST(fi_tsend(node.ep, me->out, bytes, NULL, right, (uint64_t)me->number, &me->send.context));
	wait_for(&me->receive);
	wait_for(&me->send);
	check(me->in, (rank + processes - 1) % processes, me->number, turn);
}

/* Accesses the part of the other's memory that belongs to this thread. */
static void access_memory(struct runner *me, long turn)
{
	struct iovec local = { .iov_base = *work == 'w' ? me->out : me->in, .iov_len = bytes };
	struct fi_rma_iov remote = { .addr = (size_t)me->number * bytes, .len = bytes, .key = KEY };
	struct fi_msg_rma message = { .msg_iov = &local, .iov_count = 1, .addr = right, .rma_iov = &remote,
				      .rma_iov_count = 1, .context = &me->send.context };

	if (*work == 'w')
		POST(fi_writemsg(node.ep, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE));
	else
		POST(fi_readmsg(node.ep, &message, FI_COMPLETION));
	wait_for(&me->send);
	if (*work == 'r')
		check(me->in, (rank + 1) % processes, me->number, 0);
	(void)turn;
}

static void *run(void *argument)
{
	struct runner *me = argument;

	me->out = malloc(bytes);
	me->in = malloc(bytes);
	for (long turn = 0; turn < count; turn++) {
		for (size_t at = 0; at < bytes; at++)
			me->out[at] = pattern(rank, me->number, turn, at);
		if (*work == 'm')
			exchange(me, turn);
		else
			access_memory(me, turn);
	}
	return NULL;
}

static void meet(const char *provider, const char *folder)
{
	char name[32];
	size_t len = (size_t)threads * bytes;

	node_threading = FI_THREAD_SAFE;
	node_open_with(&node, provider, *work == 'm' ? FI_TAGGED : FI_TAGGED | FI_RMA);
	memory = malloc(len);
	for (size_t at = 0; at < len; at++)
		memory[at] = pattern(rank, (int)(at / bytes), 0, at % bytes);
	if (*work != 'm')
		expect("fi_mr_reg", fi_mr_reg(node.domain, memory, len, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &region,
					      NULL));
	snprintf(name, sizeof name, "%d", rank);
	node_publish(&node, folder, name);
	snprintf(name, sizeof name, "%d", (rank + 1) % processes);
	right = node_meet(&node, folder, name);
}

/* Waits until all processes have come here, and lets their operations go on. */
static void gather(int *arrived)
{
	__atomic_add_fetch(arrived, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(arrived, __ATOMIC_ACQUIRE) < processes)
		progress();
}

static void join_the_crowd(const char *provider, const char *folder)
{
	static struct runner runners[THREADS_MAX];

	if (!freopen("/dev/null", "w", stdout))
		expect("freopen", -errno);
	meet(provider, folder);
	gather(&course->ready);
	course->begin[rank] = now_s();
	for (int i = 0; i < threads; i++) {
		runners[i].number = i;
		expect("pthread_create", -pthread_create(&runners[i].thread, NULL, run, &runners[i]));
	}
	for (int i = 0; i < threads; i++)
		pthread_join(runners[i].thread, NULL);
	course->end[rank] = now_s();
	gather(&course->through);
	if (*work == 'w')
		for (int i = 0; i < threads; i++)
			check(memory + (size_t)i * bytes, (rank + processes - 1) % processes, i, count - 1);
	if (region)
		expect("fi_close region", fi_close(&region->fid));
	node_end(&node);
}

int main(int argc, char **argv)
{
	char folder[] = "/tmp/crowd-XXXXXX", clean[64];
	int failed = 0, status;
	double begin, end;

	if (argc != 7)
		return 1;
	threads = atoi(argv[2]);
	processes = atoi(argv[3]);
	work = argv[4];
	bytes = strtoul(argv[5], NULL, 10);
	count = atol(argv[6]);
	if (threads < 1 || threads > THREADS_MAX || processes < 2 || processes > PROCESSES_MAX || !bytes || count < 1)
		return 1;
	course = mmap(NULL, sizeof *course, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (course == MAP_FAILED || !mkdtemp(folder))
		return 2;
	for (rank = 0; rank < processes; rank++)
		if (!fork()) {
			join_the_crowd(argv[1], folder);
			_exit(0);
		}
	while (wait(&status) > 0)
		failed |= status;
	for (int i = 0; i < processes; i++) {
		snprintf(clean, sizeof clean, "%s/%d", folder, i);
		unlink(clean);
	}
	rmdir(folder);
	begin = course->begin[0];
	end = course->end[0];
	for (int i = 1; i < processes; i++) {
		begin = course->begin[i] < begin ? course->begin[i] : begin;
		end = course->end[i] > end ? course->end[i] : end;
	}
	if (failed)
		return 1;
	printf("%d threads in each of %d processes, %s of %zu bytes, microseconds: %.3f\n", threads, processes, work, bytes,
	       (end - begin) * 1e6 / ((double)count * threads * processes));
	return 0;
}
