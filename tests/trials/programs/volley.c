/*
 * volley PROVIDER FOLDER asker|answerer|both|newcomer [open]
 *
 * A message goes to and fro, in sizes from nothing to a megabyte, and both sides check it, until the file "stop" appears
 * in the folder. The asker keeps the number of rounds in the file "rounds", so that others see it advance. "both" are an asker and an
 * answerer in one process and one thread, which waits for nothing but them: its processor time is that of the rounds, however many other
 * programs run. An answerer that is "open" also has a receive for a message that never comes, from any peer, and memory that any peer may
 * read and write: it prints the key. A newcomer sends the answerer one byte that it has not asked for, and goes.
 */
#include <fcntl.h>

#include "node.h"

#include <rdma/fi_rma.h>

enum { LARGEST = 1 << 20, TAG_BALL = 1, TAG_STOP = 2, TAG_NEVER = 3, TAG_NEW = 4, KEY = 7, FIRST_ROUNDS = 50 };

struct player {
	struct node node;
	fi_addr_t other;
	unsigned char *out, *in;
	long round, wrong;
};

/* What an answerer does next. */
enum answer { WAIT_FOR_BALL, SEND_BALL, WAIT_FOR_SEND, OVER };

struct answerer {
	struct player player;
	enum answer next;
	struct fi_cq_tagged_entry ball;
	struct fi_context out, in;
};

/* The answerer of this process beside its asker. */
static struct answerer *beside;

static void answer_some(struct answerer *me);

static unsigned char element(long round, size_t i)
{
	return (unsigned char)((unsigned long)round * 31 + i * 7 + (i >> 8));
}

static size_t size_of(long round)
{
	static const size_t sizes[] = { 0, 1, 8, 100, 1000, 4096, 10000, 65536, 100000, LARGEST };

	return sizes[(unsigned long)round % (sizeof sizes / sizeof *sizes)];
}

/* Returns whether there was a completion. */
static int completed(struct player *me, struct fi_cq_tagged_entry *entry)
{
	struct fi_cq_err_entry failed = { 0 };
	ssize_t result = fi_cq_read(me->node.cq, entry, 1);

	if (result == -FI_EAGAIN)
		return 0;
	if (result == -FI_EAVAIL) {
		expect("fi_cq_readerr", fi_cq_readerr(me->node.cq, &failed, 0));
		expect("completion", -failed.err);
	}
	expect("fi_cq_read", result);
	return 1;
}

/* Lets the other side of this process play, and gives up after a while. */
static void wait_on(const char *call, double deadline)
{
	if (beside)
		answer_some(beside);
	if (now_s() > deadline)
		expect(call, -FI_ETIMEDOUT);
}

static struct fi_cq_tagged_entry completion(struct player *me)
{
	struct fi_cq_tagged_entry entry;
	double deadline = now_s() + PATIENCE_S;

	while (!completed(me, &entry))
		wait_on("fi_cq_read", deadline);
	return entry;
}

/* Returns whether the message could be sent. */
static int try_send(struct player *me, size_t len, uint64_t tag, struct fi_context *context)
{
	ssize_t result = fi_tsend(me->node.ep, me->out, len, NULL, me->other, tag, context);

	if (result != -FI_EAGAIN) {
		expect("fi_tsend", result);
		return 1;
	}
	fi_cq_read(me->node.cq, NULL, 0);
	return 0;
}

/* Sends one message, or waits until one can be sent. */
static void post_send(struct player *me, size_t len, uint64_t tag, struct fi_context *context)
{
	double deadline = now_s() + PATIENCE_S;

	while (!try_send(me, len, tag, context))
		wait_on("fi_tsend", deadline);
}

static void post_receive(struct player *me, struct fi_context *context)
{
	/* Any tag: the ball or the end. */
	expect("fi_trecv", fi_trecv(me->node.ep, me->in, LARGEST, NULL, me->other, 0, ~0ULL, context));
}

static void check(struct player *me, struct fi_cq_tagged_entry *entry)
{
	size_t len = size_of(me->round);

	me->wrong += entry->len != len;
	for (size_t i = 0; i < len; i++)
		me->wrong += me->in[i] != element(me->round, i);
	me->round++;
}

/* One send and one receive end, in either order; the receive is returned. */
static struct fi_cq_tagged_entry exchange(struct player *me)
{
	struct fi_cq_tagged_entry one = completion(me), other = completion(me);

	return one.flags & FI_RECV ? one : other;
}

/* The file is opened once: there may be no descriptor left later. */
static int open_record(const char *folder)
{
	char file[PATH_MAX];
	int rounds;

	snprintf(file, sizeof file, "%s/rounds", folder);
	rounds = open(file, O_WRONLY | O_CREAT, 0600);
	if (rounds < 0)
		expect("open", -errno);
	return rounds;
}

/* Others read all of the number or the one before it. */
static void record(int rounds, long round)
{
	char text[32];
	int len = snprintf(text, sizeof text, "%020ld\n", round);

	if (pwrite(rounds, text, (size_t)len, 0) != len)
		expect("record", -errno);
}

static void ask(struct player *me, const char *folder)
{
	struct fi_context out, in;
	char stop[PATH_MAX];
	int rounds = open_record(folder);

	snprintf(stop, sizeof stop, "%s/stop", folder);
	while (me->round < FIRST_ROUNDS || access(stop, F_OK)) {
		struct fi_cq_tagged_entry received;

		for (size_t i = 0; i < size_of(me->round); i++)
			me->out[i] = element(me->round, i);
		post_receive(me, &in);
		post_send(me, size_of(me->round), TAG_BALL, &out);
		received = exchange(me);
		check(me, &received);
		if (me->round % FIRST_ROUNDS == 0)
			record(rounds, me->round);
	}
	close(rounds);
	post_receive(me, &in);
	post_send(me, 0, TAG_STOP, &out);
	exchange(me);
}

static void begin_to_answer(struct answerer *me)
{
	post_receive(&me->player, &me->in);
	me->next = WAIT_FOR_BALL;
}

/* Does what an answerer can do now, without waiting. */
static void answer_some(struct answerer *me)
{
	struct player *player = &me->player;
	struct fi_cq_tagged_entry sent;

	if (me->next == WAIT_FOR_BALL && completed(player, &me->ball)) {
		if (me->ball.tag != TAG_STOP)
			check(player, &me->ball);
		memcpy(player->out, player->in, me->ball.len);
		me->next = SEND_BALL;
	}
	if (me->next == SEND_BALL && try_send(player, me->ball.len, me->ball.tag, &me->out))
		me->next = WAIT_FOR_SEND;
	if (me->next == WAIT_FOR_SEND && completed(player, &sent)) {
		if (me->ball.tag == TAG_STOP)
			me->next = OVER;
		else
			begin_to_answer(me);
	}
}

static void answer(struct answerer *me)
{
	while (me->next != OVER) {
		double deadline = now_s() + PATIENCE_S;
		enum answer next = me->next;

		while (me->next == next) {
			answer_some(me);
			if (now_s() > deadline)
				expect("answer", -FI_ETIMEDOUT);
		}
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

static void open_player(struct player *me, char **argv, const char *role, int is_open)
{
	me->out = calloc(1, LARGEST);
	me->in = calloc(1, LARGEST);
	node_open_with(&me->node, argv[1], FI_TAGGED | FI_DIRECTED_RECV | (is_open ? FI_RMA : 0));
	if (is_open)
		open_up(me);
	node_publish(&me->node, argv[2], role);
}

static int close_player(struct player *me)
{
	printf("%ld rounds, %ld wrong\n", me->round, me->wrong);
	node_close(&me->node);
	free(me->out);
	free(me->in);
	return me->wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}

static void connect_and_go(struct player *me)
{
	struct fi_context context;

	post_send(me, 1, TAG_NEW, &context);
	completion(me);
}

int main(int argc, char **argv)
{
	static struct player asker;
	static struct answerer answerer;
	int is_open = argc == 5, result = EXIT_SUCCESS;
	const char *role = argv[3];

	if (argc != 4 && argc != 5)
		return EXIT_FAILURE;
	int both = !strcmp(role, "both"), answers = both || !strcmp(role, "answerer"), asks = both || !answers;

	if (answers)
		open_player(&answerer.player, argv, "answerer", is_open);
	if (asks)
		open_player(&asker, argv, both ? "asker" : role, 0);
	if (answers) {
		answerer.player.other = node_meet(&answerer.player.node, argv[2], "asker");
		begin_to_answer(&answerer);
	}
	if (asks) {
		asker.other = node_meet(&asker.node, argv[2], "answerer");
		beside = both ? &answerer : NULL;
		if (!strcmp(role, "newcomer"))
			connect_and_go(&asker);
		else
			ask(&asker, argv[2]);
		beside = NULL;
	}
	if (answers)
		answer(&answerer);
	if (asks)
		result |= close_player(&asker);
	if (answers)
		result |= close_player(&answerer.player);
	return result;
}
