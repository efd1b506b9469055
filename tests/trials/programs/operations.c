/*
 * Operations to be counted: two endpoints of one process and one thread play COUNT of them. An instruction count of the
 * process with more of them less one with fewer is what they cost, both sides taken together.
 *
 *     operations PROVIDER WORK COUNT [SIZE]
 *
 * pingpong  tagged messages of SIZE bytes, one under way
 * rate      the same, 64 posted and then 64 completed; COUNT is a multiple of that
 * write     writes of SIZE bytes to the memory of the other, one under way
 * read      reads of SIZE bytes from the memory of the other, one under way
 * poll      reads of a completion queue that find nothing, of either endpoint in turn, after each has heard of the other
 *
 * SIZE is 8 unless it is said, and at most 64 KiB.
 *
 * Time passes by looks at the clock, here and in the library: what is done now and then is done as often on any machine.
 */
#include <rdma/fi_rma.h>

#include "node.h"

enum { WINDOW = 64, KEY = 7, LONGEST = 65536, LOOK_NS = 1000, TICK_NS = 4000000, SECOND_NS = 1000000000 };

/* Takes the place of the system's. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
	static long looks = SECOND_NS / LOOK_NS;
	long now_ns = ++looks * LOOK_NS;

	if (clock == CLOCK_MONOTONIC_COARSE)
		now_ns -= now_ns % TICK_NS;
	now->tv_sec = now_ns / SECOND_NS;
	now->tv_nsec = now_ns % SECOND_NS;
	return 0;
}

/* What is sent: numbered, so that it can be told from what came before. */
union buffer {
	uint64_t number;
	char bytes[LONGEST];
};

/* Bytes of each message, write or read. */
static size_t size = sizeof(uint64_t);

struct player {
	struct node node;
	fi_addr_t peer;
	struct fid_mr *region;
	union buffer sent[WINDOW], received[WINDOW], exposed;
	struct fi_context send_contexts[WINDOW], receive_contexts[WINDOW];
	/* Operations that are not complete. */
	long pending;
};

static void player_open(struct player *player, const char *provider)
{
	node_open_with(&player->node, provider, FI_TAGGED | FI_RMA);
	expect("fi_mr_reg", fi_mr_reg(player->node.domain, &player->exposed, sizeof(player->exposed),
				      FI_REMOTE_WRITE | FI_REMOTE_READ, 0, KEY, 0, &player->region, NULL));
}

static void player_close(struct player *player)
{
	expect("fi_close region", fi_close(&player->region->fid));
	node_close(&player->node);
}

static void player_poll(struct player *player)
{
	struct fi_cq_tagged_entry entries[WINDOW];
	ssize_t count = fi_cq_read(player->node.cq, entries, WINDOW);

	if (count == -FI_EAGAIN)
		return;
	expect("fi_cq_read", count);
	player->pending -= count;
}

static void finish(struct player *one, struct player *other)
{
	while (one->pending || other->pending) {
		player_poll(one);
		player_poll(other);
	}
}

static void post_receives(struct player *player, long count)
{
	for (long i = 0; i < count; i++)
		expect("fi_trecv", fi_trecv(player->node.ep, &player->received[i], size, NULL, player->peer,
					    (uint64_t)i, 0, &player->receive_contexts[i]));
	player->pending += count;
}

/* The receiver has posted its receives, and there is room for as many messages. */
static void post_sends(struct player *player, long count)
{
	for (long i = 0; i < count; i++)
		expect("fi_tsend", fi_tsend(player->node.ep, &player->sent[i], size, NULL, player->peer,
					    (uint64_t)i, &player->send_contexts[i]));
	player->pending += count;
}

/* Sends `count` messages at once, and checks that the last one has come. */
static void messages(struct player *from, struct player *to, long count)
{
	uint64_t number = ++from->sent[count - 1].number;

	post_receives(to, count);
	post_sends(from, count);
	finish(from, to);
	if (to->received[count - 1].number != number)
		expect("message", -FI_EIO);
}

static void writes(struct player *from, struct player *to)
{
	from->sent[0].number++;
	from->pending++;
	expect("fi_write", fi_write(from->node.ep, from->sent, size, NULL, from->peer, 0, KEY, from->send_contexts));
	finish(from, to);
	/* What is complete may still be on its way. */
	while (to->exposed.number != from->sent[0].number) {
		player_poll(from);
		player_poll(to);
	}
}

static void reads(struct player *from, struct player *to)
{
	to->exposed.number++;
	from->pending++;
	expect("fi_read", fi_read(from->node.ep, from->received, size, NULL, from->peer, 0, KEY, from->receive_contexts));
	finish(from, to);
	if (from->received[0].number != to->exposed.number)
		expect("read", -FI_EIO);
}

static int play(const char *work, struct player *players, long count)
{
	if (!strcmp(work, "pingpong"))
		for (long i = 0; i < count; i++)
			messages(&players[i % 2], &players[1 - i % 2], 1);
	else if (!strcmp(work, "rate"))
		for (long i = 0; i < count; i += WINDOW)
			messages(&players[0], &players[1], WINDOW);
	else if (!strcmp(work, "write"))
		for (long i = 0; i < count; i++)
			writes(&players[0], &players[1]);
	else if (!strcmp(work, "read"))
		for (long i = 0; i < count; i++)
			reads(&players[0], &players[1]);
	else if (!strcmp(work, "poll"))
		for (long i = 0; i < count; i++)
			player_poll(&players[i % 2]);
	else
		return 2;
	return 0;
}

int main(int argc, char **argv)
{
	static struct player players[2];
	long count = argc >= 4 ? atol(argv[3]) : 0;
	int result;

	if (argc > 4)
		size = (size_t)atol(argv[4]);
	if (count <= 0 || size < sizeof(uint64_t) || size > LONGEST)
		return 2;
	for (int i = 0; i < 2; i++)
		player_open(&players[i], argv[1]);
	for (int i = 0; i < 2; i++)
		players[i].peer = node_insert_node(&players[i].node, &players[1 - i].node);
	for (int i = 0; i < 2; i++)
		messages(&players[i], &players[1 - i], 1);
	result = play(argv[2], players, count);
	for (int i = 0; i < 2; i++)
		player_close(&players[i]);
	return result;
}
