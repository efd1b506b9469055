/*
 * phoenix PROVIDER FOLDER PORT steady|first|second
 *
 * The first is killed in mid-transfer, and the second takes its place at the same port. To the steady one that is the same address:
 * what was under way to the first ends in error, and a message to the second arrives. The second sees nothing of what was sent to
 * the first.
 */
#include "node.h"

enum { MESSAGE = 1 << 20, WINDOW = 4, WARM = 8, TAG_OLD = 1, TAG_NEW = 2, TAG_NEVER_SENT = 3 };

struct player {
	struct node node;
	fi_addr_t other;
	struct fi_context sends[WINDOW], receive, out, in;
	int idle[WINDOW], sends_pending, receive_pending, sent, failed;
	char *data, word[8];
};

static const char NEWS[] = "rebirth";

/* Opens the endpoint at a port, or at any if there is none. */
static void open_at(struct node *node, const char *provider, const char *port)
{
	struct fi_info *hints = fi_allocinfo();

	setvbuf(stdout, NULL, _IOLBF, 0);
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_TAGGED | FI_DIRECTED_RECV;
	hints->mode = FI_CONTEXT;
	hints->fabric_attr->prov_name = strdup(provider);
	expect("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", port, FI_SOURCE, hints, &node->info));
	fi_freeinfo(hints);
	node_make(node, FI_WAIT_NONE);
}

/* Takes one completion, if there is one; returns whether there was, and its error. */
static int take(struct player *me, struct fi_cq_tagged_entry *entry, int *error)
{
	struct fi_cq_err_entry failed = { 0 };
	ssize_t result = fi_cq_read(me->node.cq, entry, 1);

	*error = 0;
	if (result == -FI_EAVAIL) {
		expect("fi_cq_readerr", fi_cq_readerr(me->node.cq, &failed, 0));
		entry->op_context = failed.op_context;
		*error = failed.err;
		return 1;
	}
	if (result != -FI_EAGAIN)
		expect("fi_cq_read", result);
	return result == 1;
}

static struct fi_cq_tagged_entry next(struct player *me)
{
	struct fi_cq_tagged_entry entry = { 0 };
	double deadline = now_s() + PATIENCE_S;
	int error;

	while (!take(me, &entry, &error))
		if (now_s() > deadline)
			expect("fi_cq_read", -FI_ETIMEDOUT);
	expect("completion", -error);
	return entry;
}

static void post_send(struct player *me, const void *data, size_t len, uint64_t tag)
{
	double deadline = now_s() + PATIENCE_S;
	ssize_t result;

	while ((result = fi_tsend(me->node.ep, data, len, NULL, me->other, tag, &me->out)) == -FI_EAGAIN) {
		fi_cq_read(me->node.cq, NULL, 0);
		if (now_s() > deadline)
			expect("fi_tsend", -FI_ETIMEDOUT);
	}
	expect("fi_tsend", result);
}

/* Counts what became of what was under way to the first. */
static void collect(struct player *me)
{
	struct fi_cq_tagged_entry entry;
	int error;

	if (!take(me, &entry, &error))
		return;
	if (entry.op_context == &me->receive) {
		me->receive_pending = 0;
		printf("receive ended: %d (%s)\n", error, fi_strerror(error));
		return;
	}
	me->idle[(struct fi_context *)entry.op_context - me->sends] = 1;
	me->sends_pending--;
	me->sent += !error;
	me->failed += !!error;
}

static void stream(struct player *me)
{
	for (int i = 0; i < WINDOW && !me->failed; i++) {
		ssize_t result;

		if (!me->idle[i])
			continue;
		result = fi_tsend(me->node.ep, me->data, MESSAGE, NULL, me->other, TAG_OLD, &me->sends[i]);
		if (result == -FI_EAGAIN)
			return;
		expect("fi_tsend", result);
		me->idle[i] = 0;
		me->sends_pending++;
	}
}

static void steady(struct player *me, const char *folder)
{
	double deadline = now_s() + PATIENCE_S;
	int asked = 0;

	me->other = node_meet(&me->node, folder, "first");
	memset(me->idle, 1, sizeof me->idle);
	expect("fi_trecv", fi_trecv(me->node.ep, me->word, sizeof me->word, NULL, me->other, TAG_NEVER_SENT, 0,
				    &me->receive));
	me->receive_pending = 1;
	while (!me->failed || me->sends_pending || me->receive_pending) {
		stream(me);
		collect(me);
		if (!asked && me->sent >= WARM && me->sends_pending) {
			printf("transferring\n");
			asked = 1;
		}
		if (now_s() > deadline)
			expect("the end of the first", -FI_ETIMEDOUT);
	}
	printf("nothing pending, %d sends failed\n", me->failed);
	if (node_meet(&me->node, folder, "second") != me->other)
		printf("another address\n");
	expect("fi_trecv", fi_trecv(me->node.ep, me->word, sizeof me->word, NULL, me->other, TAG_NEW, 0, &me->in));
	post_send(me, NEWS, sizeof NEWS, TAG_NEW);
	next(me);
	next(me);
	printf("answered: %s\n", me->word);
}

static void receive_for_ever(struct player *me)
{
	for (;;) {
		expect("fi_trecv", fi_trecv(me->node.ep, me->data, MESSAGE, NULL, FI_ADDR_UNSPEC, TAG_OLD, 0, &me->in));
		next(me);
	}
}

/* Whatever comes at all is taken; it has to be the news. */
static void second(struct player *me)
{
	struct fi_cq_tagged_entry got;

	expect("fi_trecv", fi_trecv(me->node.ep, me->data, MESSAGE, NULL, FI_ADDR_UNSPEC, 0, ~0ULL, &me->in));
	got = next(me);
	printf("received tag %ld: %zu bytes\n", (long)got.tag, got.len);
	post_send(me, me->data, got.len, got.tag);
	next(me);
}

int main(int argc, char **argv)
{
	static struct player me;
	int is_steady;

	if (argc != 5)
		return EXIT_FAILURE;
	is_steady = !strcmp(argv[4], "steady");
	me.data = calloc(1, MESSAGE);
	open_at(&me.node, argv[1], is_steady ? NULL : argv[3]);
	node_publish(&me.node, argv[2], argv[4]);
	if (is_steady) {
		steady(&me, argv[2]);
	} else {
		me.other = node_meet(&me.node, argv[2], "steady");
		if (!strcmp(argv[4], "first"))
			receive_for_ever(&me);
		second(&me);
	}
	node_close(&me.node);
	free(me.data);
	return EXIT_SUCCESS;
}
