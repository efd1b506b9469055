/*
 * volley PROVIDER FOLDER asker|answerer|newcomer [open]
 *
 * A message goes to and fro, in sizes from nothing to a megabyte, and both sides check it, until the file "stop" appears
 * in the folder. The asker keeps the number of rounds in the file "rounds", so that others see it advance. An answerer that
 * is "open" also has a receive for a message that never comes, from any peer, and memory that any peer may read and write: it
 * prints the key. A newcomer sends the answerer one byte that it has not asked for, and goes.
 */
#include "node.h"

#include <rdma/fi_rma.h>

enum { LARGEST = 1 << 20, TAG_BALL = 1, TAG_STOP = 2, TAG_NEVER = 3, TAG_NEW = 4, KEY = 7, FIRST_ROUNDS = 50 };

struct player {
	struct node node;
	fi_addr_t other;
	unsigned char *out, *in;
	long wrong;
};

static unsigned char element(long round, size_t i)
{
	return (unsigned char)((unsigned long)round * 31 + i * 7 + (i >> 8));
}

static size_t size_of(long round)
{
	static const size_t sizes[] = { 0, 1, 8, 100, 1000, 4096, 10000, 65536, 100000, LARGEST };

	return sizes[(unsigned long)round % (sizeof sizes / sizeof *sizes)];
}

static struct fi_cq_tagged_entry completion(struct player *me)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry failed = { 0 };
	double deadline = now_s() + PATIENCE_S;
	ssize_t result;

	while ((result = fi_cq_read(me->node.cq, &entry, 1)) == -FI_EAGAIN)
		if (now_s() > deadline)
			expect("fi_cq_read", -FI_ETIMEDOUT);
	if (result == -FI_EAVAIL) {
		expect("fi_cq_readerr", fi_cq_readerr(me->node.cq, &failed, 0));
		expect("completion", -failed.err);
	}
	expect("fi_cq_read", result);
	return entry;
}

/* Sends one message, or waits until one can be sent. */
static void post_send(struct player *me, size_t len, uint64_t tag, struct fi_context *context)
{
	double deadline = now_s() + PATIENCE_S;
	ssize_t result;

	while ((result = fi_tsend(me->node.ep, me->out, len, NULL, me->other, tag, context)) == -FI_EAGAIN) {
		fi_cq_read(me->node.cq, NULL, 0);
		if (now_s() > deadline)
			expect("fi_tsend", -FI_ETIMEDOUT);
	}
	expect("fi_tsend", result);
}

static void post_receive(struct player *me, struct fi_context *context)
{
	/* Any tag: the ball or the end. */
	expect("fi_trecv", fi_trecv(me->node.ep, me->in, LARGEST, NULL, me->other, 0, ~0ULL, context));
}

static void check(struct player *me, struct fi_cq_tagged_entry *entry, long round)
{
	size_t len = size_of(round);

	me->wrong += entry->len != len;
	for (size_t i = 0; i < len; i++)
		me->wrong += me->in[i] != element(round, i);
}

/* One send and one receive end, in either order; the receive is returned. */
static struct fi_cq_tagged_entry exchange(struct player *me)
{
	struct fi_cq_tagged_entry one = completion(me), other = completion(me);

	return one.flags & FI_RECV ? one : other;
}

static void record(const char *folder, long round)
{
	char file[PATH_MAX], unfinished[PATH_MAX];
	FILE *out;

	snprintf(file, sizeof file, "%s/rounds", folder);
	snprintf(unfinished, sizeof unfinished, "%s/rounds.new", folder);
	out = fopen(unfinished, "w");
	if (!out || fprintf(out, "%ld\n", round) < 0 || fclose(out) || rename(unfinished, file))
		expect("record", -errno);
}

static long ask(struct player *me, const char *folder)
{
	struct fi_context out, in;
	char stop[PATH_MAX];
	long round = 0;

	snprintf(stop, sizeof stop, "%s/stop", folder);
	while (round < FIRST_ROUNDS || access(stop, F_OK)) {
		struct fi_cq_tagged_entry received;

		for (size_t i = 0; i < size_of(round); i++)
			me->out[i] = element(round, i);
		post_receive(me, &in);
		post_send(me, size_of(round), TAG_BALL, &out);
		received = exchange(me);
		check(me, &received, round++);
		if (round % FIRST_ROUNDS == 0)
			record(folder, round);
	}
	post_receive(me, &in);
	post_send(me, 0, TAG_STOP, &out);
	exchange(me);
	return round;
}

static long answer(struct player *me)
{
	struct fi_context out, in;

	for (long round = 0;; round++) {
		struct fi_cq_tagged_entry received;

		post_receive(me, &in);
		received = completion(me);
		if (received.tag != TAG_STOP)
			check(me, &received, round);
		memcpy(me->out, me->in, received.len);
		post_send(me, received.len, received.tag, &out);
		completion(me);
		if (received.tag == TAG_STOP)
			return round;
	}
}

/* What any peer may try to use. */
static void open_up(struct player *me)
{
	static struct fi_context never;
	static unsigned char memory[LARGEST];

	expect("fi_trecv", fi_trecv(me->node.ep, memory, sizeof memory, NULL, FI_ADDR_UNSPEC, TAG_NEVER, 0, &never));
	expect("fi_mr_reg", fi_mr_reg(me->node.domain, memory, sizeof memory, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0,
				      &me->node.mr, NULL));
	printf("key %llu\n", (unsigned long long)fi_mr_key(me->node.mr));
}

int main(int argc, char **argv)
{
	struct player me = { 0 };
	int is_asker, is_new;
	long rounds = 0;

	if (argc != 4 && argc != 5)
		return EXIT_FAILURE;
	is_asker = !strcmp(argv[3], "asker");
	is_new = !strcmp(argv[3], "newcomer");
	me.out = calloc(1, LARGEST);
	me.in = calloc(1, LARGEST);
	node_open_with(&me.node, argv[1], FI_TAGGED | FI_DIRECTED_RECV | (argc == 5 ? FI_RMA : 0));
	if (argc == 5)
		open_up(&me);
	node_publish(&me.node, argv[2], argv[3]);
	me.other = node_meet(&me.node, argv[2], is_asker || is_new ? "answerer" : "asker");
	if (is_new) {
		struct fi_context context;

		post_send(&me, 1, TAG_NEW, &context);
		completion(&me);
	} else {
		rounds = is_asker ? ask(&me, argv[2]) : answer(&me);
	}
	printf("%ld rounds, %ld wrong\n", rounds, me.wrong);
	node_close(&me.node);
	free(me.out);
	free(me.in);
	return me.wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
