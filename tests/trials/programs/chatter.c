/*
 * chatter PROVIDER FOLDER PEERS LEN
 *
 * PEERS peers at a time send the endpoint that is called "answerer" in the folder messages of LEN bytes that it has not asked for, as
 * many as it takes without a pause. They leave without closing anything, and others follow them. Prints "busy" after the first of them, and
 * goes on until it is ended.
 */
#include <sys/wait.h>

#include "node.h"

enum { PEERS_MAX = 8, MESSAGES = 20000, DEPTH = 64, TAG_UNWANTED = 5 };

static const double PAUSE_S = 0.05;

struct chatter {
	struct node node;
	fi_addr_t peer;
	struct fi_context context[DEPTH];
	int sent, completed;
};

static void collect(struct chatter *me)
{
	struct fi_cq_tagged_entry entries[DEPTH];
	ssize_t count = fi_cq_read(me->node.cq, entries, DEPTH);

	if (count > 0)
		me->completed += (int)count;
}

/* Sends one more message, if there is room for it; returns how many were sent. */
static int send_one(struct chatter *me, const void *out, size_t len)
{
	collect(me);
	if (me->sent - me->completed == DEPTH ||
	    fi_tsend(me->node.ep, out, len, NULL, me->peer, TAG_UNWANTED, &me->context[me->sent % DEPTH]))
		return 0;
	me->sent++;
	return 1;
}

static void chat(const char *provider, const char *folder, int peers, size_t len)
{
	static struct chatter chatters[PEERS_MAX];
	void *out = calloc(1, len + 1);
	double deadline;
	int sent = 0;

	for (int i = 0; i < peers; i++) {
		node_open(&chatters[i].node, provider);
		chatters[i].peer = node_meet(&chatters[i].node, folder, "answerer");
	}
	deadline = now_s() + PAUSE_S;
	while (sent < MESSAGES && now_s() < deadline) {
		int more = 0;

		for (int i = 0; i < peers; i++)
			more += send_one(&chatters[i], out, len);
		if (more)
			deadline = now_s() + PAUSE_S;
		sent += more;
	}
	_exit(sent ? EXIT_SUCCESS : EXIT_FAILURE);
}

int main(int argc, char **argv)
{
	int status, peers = argc == 5 ? atoi(argv[3]) : 0;

	if (peers < 1 || peers > PEERS_MAX)
		return EXIT_FAILURE;
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (;;) {
		pid_t child = fork();

		if (!child)
			chat(argv[1], argv[2], peers, (size_t)atol(argv[4]));
		if (child < 0 || waitpid(child, &status, 0) < 0 || status)
			return EXIT_FAILURE;
		printf("busy\n");
	}
}
