/*
 * shaken PROVIDER order|break|datagrams
 *
 * Two endpoints of one process, under the faults of FI_OXI_FAULTS.
 *
 * order:     messages of many lengths arrive whole and in order, and each operation completes once.
 * break:     sends fail when connections break, each ends once, and what is sent afterwards arrives, in order.
 * datagrams: how many of a thousand arrive.
 */
#include "node.h"

enum { COUNT = 1000, WINDOW = 32, LARGEST = 300000, TAG = 1, IDLE_POLLS = 1000 };

struct end {
	struct node node;
	fi_addr_t other;
	struct fi_context contexts[COUNT];
	/* How often each operation has ended, and how many have, well and in error. */
	int ended[COUNT];
	long good, bad;
};

static struct end a, b;
static unsigned char out[WINDOW][LARGEST], in[WINDOW][LARGEST];

static size_t size_of(long i)
{
	static const size_t sizes[] = { 8, 64, 1000, 5000, 20000, 70000, LARGEST };

	return sizes[(unsigned long)i % (sizeof sizes / sizeof *sizes)];
}

static void fill(unsigned char *at, long i, size_t len)
{
	for (size_t k = 0; k < len; k++)
		at[k] = (unsigned char)((size_t)i * 31 + k * 7 + (k >> 8));
	memcpy(at, &i, sizeof i);
}

static void fail(const char *what, long i)
{
	printf("%s: %ld\n", what, i);
	exit(EXIT_FAILURE);
}

/* Reads one completion; returns the number of its operation, or -1 if there is none. */
static long next(struct end *end, struct fi_cq_tagged_entry *entry, int *error)
{
	struct fi_cq_err_entry failed = { 0 };
	ssize_t result = fi_cq_read(end->node.cq, entry, 1);
	void *context = entry->op_context;
	long i;

	if (result == -FI_EAGAIN)
		return -1;
	*error = 0;
	if (result == -FI_EAVAIL) {
		expect("fi_cq_readerr", fi_cq_readerr(end->node.cq, &failed, 0));
		context = failed.op_context;
		*error = failed.err;
	} else {
		expect("fi_cq_read", result);
	}
	i = (struct fi_context *)context - end->contexts;
	if (end->ended[i]++)
		fail("ended twice", i);
	if (*error)
		end->bad++;
	else
		end->good++;
	return i;
}

/* Takes what has arrived in the order of the messages. */
static void check_arrival(long i, const struct fi_cq_tagged_entry *entry)
{
	static unsigned char expected[LARGEST];

	if (entry->len != size_of(i))
		fail("wrong length", i);
	fill(expected, i, entry->len);
	if (memcmp(expected, in[i % WINDOW], entry->len))
		fail("wrong message", i);
}

static void poll_both(void (*arrived)(long, const struct fi_cq_tagged_entry *))
{
	struct fi_cq_tagged_entry entry = { 0 };
	int error;
	long i;

	next(&a, &entry, &error);
	i = next(&b, &entry, &error);
	if (i >= 0 && !error)
		arrived(i, &entry);
}

static void receive(long i)
{
	expect("fi_trecv", fi_trecv(b.node.ep, in[i % WINDOW], LARGEST, NULL, FI_ADDR_UNSPEC, TAG, 0, &b.contexts[i]));
}

static void send_one(long i, size_t len, void (*arrived)(long, const struct fi_cq_tagged_entry *))
{
	double deadline = now_s() + PATIENCE_S;
	ssize_t result;

	fill(out[i % WINDOW], i, len);
	while ((result = fi_tsend(a.node.ep, out[i % WINDOW], len, NULL, a.other, TAG, &a.contexts[i])) == -FI_EAGAIN) {
		poll_both(arrived);
		if (now_s() > deadline)
			fail("cannot send", i);
	}
	expect("fi_tsend", result);
}

static void wait_until(const int *done, void (*arrived)(long, const struct fi_cq_tagged_entry *))
{
	double deadline = now_s() + PATIENCE_S;

	while (!*done) {
		poll_both(arrived);
		if (now_s() > deadline)
			fail("never ended, good", a.good + b.good);
	}
}

static void play_order(void)
{
	for (long i = 0; i < COUNT; i++) {
		if (i >= WINDOW) {
			wait_until(&a.ended[i - WINDOW], check_arrival);
			wait_until(&b.ended[i - WINDOW], check_arrival);
		}
		receive(i);
		send_one(i, size_of(i), check_arrival);
	}
	for (long i = 0; i < COUNT; i++) {
		wait_until(&a.ended[i], check_arrival);
		wait_until(&b.ended[i], check_arrival);
	}
	for (int i = 0; i < IDLE_POLLS; i++)
		poll_both(check_arrival);
	printf("%ld sent, %ld received, %ld failed\n", a.good, b.good, a.bad + b.bad);
}

/* The receives that are posted, and the last message that has arrived. */
static long posted, newest = -1, after_failure;

static void take(long i, const struct fi_cq_tagged_entry *entry)
{
	long number;

	memcpy(&number, in[i % WINDOW], sizeof number);
	if (entry->len != sizeof number || number <= newest)
		fail("doubled or overtaken", number);
	newest = number;
	after_failure += a.bad > 0;
}

static void play_break(void)
{
	for (long i = 0; i < COUNT; i++) {
		/* A message may be lost with its connection: no more receives are used than messages are sent. */
		for (; posted < COUNT && posted - (b.good + b.bad) < WINDOW; posted++)
			receive(posted);
		if (i >= WINDOW)
			wait_until(&a.ended[i - WINDOW], take);
		send_one(i, sizeof i, take);
	}
	for (long i = 0; i < COUNT; i++)
		wait_until(&a.ended[i], take);
	for (int i = 0; i < IDLE_POLLS; i++)
		poll_both(take);
	if (!a.bad || !after_failure)
		fail("nothing broke or nothing went on, failed", a.bad);
	printf("%ld failed, it went on\n", a.bad);
}

static void play_datagrams(void)
{
	struct fi_cq_tagged_entry entry = { 0 };
	static struct fi_context receives[2 * WINDOW], send;
	long arrived = 0, sent = 0;

	for (int i = 0; i < 2 * WINDOW; i++)
		expect("fi_recv", fi_recv(b.node.ep, in[0], 64, NULL, FI_ADDR_UNSPEC, &receives[i]));
	for (long i = 0; i < COUNT; i++) {
		ssize_t result;

		while ((result = fi_send(a.node.ep, &i, sizeof i, NULL, a.other, &send)) == -FI_EAGAIN)
			fi_cq_read(a.node.cq, NULL, 0);
		expect("fi_send", result);
		while ((result = fi_cq_read(a.node.cq, &entry, 1)) == -FI_EAGAIN)
			;
		expect("fi_cq_read", result);
		sent++;
		/* What was sent to this machine has arrived. */
		while ((result = fi_cq_read(b.node.cq, &entry, 1)) == 1) {
			arrived++;
			expect("fi_recv", fi_recv(b.node.ep, in[0], 64, NULL, FI_ADDR_UNSPEC, entry.op_context));
		}
		if (result != -FI_EAGAIN)
			expect("fi_cq_read", result);
	}
	printf("%ld sent, %ld arrived\n", sent, arrived);
}

static void open_both(const char *provider, uint64_t caps)
{
	node_open_with(&a.node, provider, caps);
	node_open_with(&b.node, provider, caps);
	a.other = node_insert_node(&a.node, &b.node);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return EXIT_FAILURE;
	open_both(argv[1], is_datagram(argv[1]) ? FI_MSG : FI_TAGGED);
	if (!strcmp(argv[2], "order"))
		play_order();
	else if (!strcmp(argv[2], "break"))
		play_break();
	else
		play_datagrams();
	node_close(&a.node);
	node_close(&b.node);
	return EXIT_SUCCESS;
}
