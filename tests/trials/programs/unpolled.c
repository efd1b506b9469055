/*
 * unpolled PROVIDER SIZE
 *
 * Two endpoints of one process send each other windows of messages of SIZE bytes, and write windows into each other's memory; then one of them
 * does not poll any more, and the other one's writes end all the same.
 *
 * Prints "ended" or, where they do not end within a minute, how many are pending.
 */
#include <rdma/fi_rma.h>

#include "node.h"

enum { WINDOW = 16, KEY = 7, TOGETHER = 2000, ALONE = 50 };

static size_t size;

struct player {
	struct node node;
	fi_addr_t peer;
	struct fid_mr *region;
	char *sent, *received, *exposed;
	struct fi_context contexts[2 * WINDOW];
	int pending;
};

static void player_open(struct player *player, const char *provider)
{
	node_open_with(&player->node, provider, FI_TAGGED | FI_RMA);
	player->sent = calloc(WINDOW, size);
	player->received = calloc(WINDOW, size);
	player->exposed = calloc(WINDOW, size);
	if (!player->sent || !player->received || !player->exposed)
		expect("calloc", -FI_ENOMEM);
	expect("fi_mr_reg", fi_mr_reg(player->node.domain, player->exposed, WINDOW * size, FI_REMOTE_WRITE, 0, KEY, 0,
				      &player->region, NULL));
}

static void player_poll(struct player *player)
{
	struct fi_cq_tagged_entry entries[WINDOW];
	ssize_t count = fi_cq_read(player->node.cq, entries, WINDOW);

	if (count == -FI_EAGAIN)
		return;
	expect("fi_cq_read", count);
	player->pending -= (int)count;
}

/* Waits until neither has anything pending; only the first polls if it is `alone`. */
static void players_finish(struct player *players, int alone)
{
	static double deadline;

	if (!deadline)
		deadline = now_s() + PATIENCE_S;
	while (players[0].pending || players[1].pending) {
		player_poll(&players[0]);
		if (!alone)
			player_poll(&players[1]);
		if (now_s() > deadline) {
			printf("%d pending\n", players[0].pending);
			exit(1);
		}
	}
}

static void player_send(struct player *player, struct player *other)
{
	for (int at = 0; at < WINDOW; at++) {
		expect("fi_trecv", fi_trecv(other->node.ep, other->received + (size_t)at * size, size, NULL, other->peer,
					    (uint64_t)at, 0, &other->contexts[WINDOW + at]));
		expect("fi_tsend", fi_tsend(player->node.ep, player->sent + (size_t)at * size, size, NULL, player->peer,
					    (uint64_t)at, &player->contexts[at]));
		player->pending++;
		other->pending++;
	}
}

static void player_write(struct player *player)
{
	for (int at = 0; at < WINDOW; at++) {
		expect("fi_write", fi_write(player->node.ep, player->sent + (size_t)at * size, size, NULL, player->peer,
					    (uint64_t)at * size, KEY, &player->contexts[at]));
		player->pending++;
	}
}

static void play_together(struct player *players)
{
	for (int round = 0; round < TOGETHER; round++) {
		player_send(&players[round % 2], &players[1 - round % 2]);
		players_finish(players, 0);
		player_write(&players[0]);
		player_write(&players[1]);
		players_finish(players, 0);
	}
}

static void play_alone(struct player *players)
{
	for (int round = 0; round < ALONE; round++) {
		player_write(&players[0]);
		players_finish(players, 1);
	}
}

int main(int argc, char **argv)
{
	static struct player players[2];

	if (argc != 3 || !(size = (size_t)atol(argv[2])))
		return 2;
	for (int i = 0; i < 2; i++)
		player_open(&players[i], argv[1]);
	for (int i = 0; i < 2; i++)
		players[i].peer = node_insert_node(&players[i].node, &players[1 - i].node);
	play_together(players);
	play_alone(players);
	puts("ended");
	/* What was sent by frames still goes into memory that both have. */
	play_together(players);
	for (int i = 0; i < 2; i++) {
		expect("fi_close region", fi_close(&players[i].region->fid));
		node_close(&players[i].node);
		free(players[i].sent);
		free(players[i].received);
		free(players[i].exposed);
	}
	return 0;
}
