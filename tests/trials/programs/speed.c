/*
 * speed PROVIDER FOLDER server|client latency|rate|write|read|atomic SIZES COUNT [safe]
 *
 * One process asks, the other serves, and the client prints a row for each size (numbers with commas between them):
 *
 *     BYTES MICROSECONDS MEGABYTES_PER_SECOND
 *
 * - latency: a tagged message goes to and fro, or over udp a datagram; the time is that of one way. With one size only, the rows are followed by
 *   lines "quantile PERCENT MICROSECONDS", of half the time of single rounds.
 * - rate: windows of tagged messages, each window acknowledged by one message.
 * - write, read, atomic: windows of accesses to the server's memory; atomic is a fetched sum of 8 bytes, whatever the size.
 *
 * It promises FI_THREAD_DOMAIN, as MPI libraries do; "safe" asks for FI_THREAD_SAFE instead.
 *
 * COUNT is the number of rounds or operations up to 8 KiB; of longer ones there are fewer.
 */
#include "node.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

enum { WINDOW = 64, FULL_COUNT_BYTES = 8192, LEAST_COUNT = 128, KEY = 7, TAG_DATA = 1, TAG_ACK = 2 };

struct player {
	struct node node;
	struct fid_mr *region;
	fi_addr_t other;
	size_t largest;
	int is_datagram;
	unsigned char *out, *in;
	uint64_t results[WINDOW];
	struct fi_context sends[WINDOW], receives[WINDOW], ack_out, ack_in;
	long sent, received;
};

/* Takes what has completed. Sends, accesses and receives are counted apart. */
static void progress(struct player *me)
{
	struct fi_cq_tagged_entry entries[16];
	ssize_t got = fi_cq_read(me->node.cq, entries, 16);
	struct fi_cq_err_entry failed = { 0 };

	if (got == -FI_EAGAIN)
		return;
	if (got == -FI_EAVAIL) {
		expect("fi_cq_readerr", fi_cq_readerr(me->node.cq, &failed, 0));
		expect("completion", -failed.err);
	}
	expect("fi_cq_read", got);
	for (ssize_t i = 0; i < got; i++)
		if (entries[i].flags & FI_RECV)
			me->received++;
		else
			me->sent++;
}

static void wait_for(struct player *me, const long *count, long wanted)
{
	while (*count < wanted)
		progress(me);
}

#define POST(me, call)                                            \
	do {                                                      \
		ssize_t posted_;                                  \
		while ((posted_ = (call)) == -FI_EAGAIN)          \
			progress(me);                             \
		expect(#call, posted_);                           \
	} while (0)

static void post_send(struct player *me, size_t len, uint64_t tag, struct fi_context *context)
{
	if (me->is_datagram)
		POST(me, fi_send(me->node.ep, me->out, len, NULL, me->other, context));
	else
		POST(me, fi_tsend(me->node.ep, me->out, len, NULL, me->other, tag, context));
}

static void post_receive(struct player *me, size_t len, uint64_t tag, struct fi_context *context)
{
	if (me->is_datagram)
		POST(me, fi_recv(me->node.ep, me->in, len, NULL, FI_ADDR_UNSPEC, context));
	else
		POST(me, fi_trecv(me->node.ep, me->in, len, NULL, me->other, tag, 0, context));
}

static long scaled_count(size_t bytes, long count)
{
	long fewer = bytes > FULL_COUNT_BYTES ? (long)((double)count * FULL_COUNT_BYTES / (double)bytes) : count;

	return fewer < LEAST_COUNT ? LEAST_COUNT : fewer;
}

static int compare(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

static void print_quantiles(double *times_us, long count)
{
	static const double percents[] = { 0,  1,  2,  5,  10, 20, 30, 40, 50, 60,
					   70, 80, 90, 95, 98, 99, 99.5, 99.9, 99.99 };

	qsort(times_us, (size_t)count, sizeof *times_us, compare);
	for (size_t i = 0; i < sizeof percents / sizeof *percents; i++)
		printf("quantile %g %.3f\n", percents[i], times_us[(long)((double)(count - 1) * percents[i] / 100)]);
}

/* One round; the client begins it. */
static void round_trip(struct player *me, size_t bytes, int asks)
{
	long sent = me->sent, received = me->received;

	post_receive(me, bytes, TAG_DATA, &me->receives[0]);
	if (asks)
		post_send(me, bytes, TAG_DATA, &me->sends[0]);
	wait_for(me, &me->received, received + 1);
	if (!asks)
		post_send(me, bytes, TAG_DATA, &me->sends[0]);
	wait_for(me, &me->sent, sent + 1);
}

static double latency(struct player *me, size_t bytes, long rounds, int asks, int prints)
{
	double *times_us = calloc((size_t)rounds, sizeof *times_us), start, total;

	for (long i = 0; i < rounds / 10; i++)
		round_trip(me, bytes, asks);
	/* The time of single rounds is looked at in a game of its own: looking costs as much as a short message. */
	start = now_s();
	for (long i = 0; i < rounds; i++)
		round_trip(me, bytes, asks);
	total = now_s() - start;
	for (long i = 0; prints && i < rounds; i++) {
		start = now_s();
		round_trip(me, bytes, asks);
		times_us[i] = (now_s() - start) * 1e6 / 2;
	}
	if (prints && asks)
		print_quantiles(times_us, rounds);
	free(times_us);
	return total / (double)rounds / 2;
}

static void window_out(struct player *me, size_t bytes)
{
	long sent = me->sent, received = me->received;

	post_receive(me, 0, TAG_ACK, &me->ack_in);
	for (int i = 0; i < WINDOW; i++)
		post_send(me, bytes, TAG_DATA, &me->sends[i]);
	wait_for(me, &me->sent, sent + WINDOW);
	wait_for(me, &me->received, received + 1);
}

static void window_in(struct player *me, size_t bytes)
{
	long sent = me->sent, received = me->received;

	for (int i = 0; i < WINDOW; i++)
		post_receive(me, bytes, TAG_DATA, &me->receives[i]);
	wait_for(me, &me->received, received + WINDOW);
	post_send(me, 0, TAG_ACK, &me->ack_out);
	wait_for(me, &me->sent, sent + 1);
}

static double rate(struct player *me, size_t bytes, long count, int asks)
{
	void (*const window)(struct player *, size_t) = asks ? window_out : window_in;
	long windows = (count + WINDOW - 1) / WINDOW;
	double start;

	for (long i = 0; i < windows / 10 + 1; i++)
		window(me, bytes);
	start = now_s();
	for (long i = 0; i < windows; i++)
		window(me, bytes);
	return (now_s() - start) / (double)(windows * WINDOW);
}

static void post_access(struct player *me, const char *work, size_t bytes, int i)
{
	struct fid_ep *ep = me->node.ep;

	if (*work == 'w')
		POST(me, fi_write(ep, me->out, bytes, NULL, me->other, 0, KEY, &me->sends[i]));
	else if (*work == 'r')
		POST(me, fi_read(ep, me->out, bytes, NULL, me->other, 0, KEY, &me->sends[i]));
	else
		POST(me, fi_fetch_atomic(ep, me->out, 1, NULL, &me->results[i], NULL, me->other, 0, KEY, FI_UINT64,
					 FI_SUM, &me->sends[i]));
}

static void access_window(struct player *me, const char *work, size_t bytes)
{
	long sent = me->sent;

	for (int i = 0; i < WINDOW; i++)
		post_access(me, work, bytes, i);
	wait_for(me, &me->sent, sent + WINDOW);
}

static double access_rate(struct player *me, const char *work, size_t bytes, long count, int asks)
{
	long windows = (count + WINDOW - 1) / WINDOW;
	double start;

	if (!asks) {
		round_trip(me, 0, 0);
		return 0;
	}
	for (long i = 0; i < windows / 10 + 1; i++)
		access_window(me, work, bytes);
	start = now_s();
	for (long i = 0; i < windows; i++)
		access_window(me, work, bytes);
	start = (now_s() - start) / (double)(windows * WINDOW);
	round_trip(me, 0, 1);
	return start;
}

static void play(struct player *me, const char *work, size_t bytes, long count, int asks, int prints)
{
	double seconds;

	count = scaled_count(bytes, count);
	if (!strcmp(work, "latency"))
		seconds = latency(me, bytes, count, asks, prints);
	else if (!strcmp(work, "rate"))
		seconds = rate(me, bytes, count, asks);
	else
		seconds = access_rate(me, work, bytes, count, asks);
	if (asks)
		printf("%zu %.4f %.3f\n", bytes, seconds * 1e6, (double)bytes / seconds / 1e6);
}

static void open_player(struct player *me, const char *provider, const char *folder, const char *work, int asks)
{
	int accesses = strcmp(work, "latency") && strcmp(work, "rate");
	uint64_t caps = is_datagram(provider) ? FI_MSG : FI_TAGGED | FI_DIRECTED_RECV;

	if (accesses)
		caps |= *work == 'a' ? FI_ATOMIC : FI_RMA;
	me->is_datagram = is_datagram(provider);
	node_open_with(&me->node, provider, caps);
	me->out = calloc(1, me->largest);
	me->in = calloc(1, me->largest);
	if (accesses)
		expect("fi_mr_reg", fi_mr_reg(me->node.domain, me->in, me->largest, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY,
					      0, &me->region, NULL));
	node_publish(&me->node, folder, asks ? "client" : "server");
	me->other = node_meet(&me->node, folder, asks ? "server" : "client");
}

int main(int argc, char **argv)
{
	static struct player me;
	int asks, sizes = 0;

	if (argc < 7 || argc > 8 || (argc == 8 && strcmp(argv[7], "safe")))
		return 1;
	node_threading = argc == 8 ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
	asks = !strcmp(argv[3], "client");
	for (char *at = argv[5]; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL, sizes++) {
		size_t bytes = strtoul(at, NULL, 10);

		me.largest = bytes > me.largest ? bytes : me.largest;
	}
	me.largest = me.largest < 4096 ? 4096 : me.largest;
	open_player(&me, argv[1], argv[2], argv[4], asks);
	for (char *at = argv[5]; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		play(&me, argv[4], strtoul(at, NULL, 10), atol(argv[6]), asks, sizes == 1);
	/* Closing sees to it that the last message arrives. */
	if (me.region)
		expect("fi_close region", fi_close(&me.region->fid));
	node_end(&me.node);
	return 0;
}
