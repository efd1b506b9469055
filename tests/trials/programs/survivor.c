/*
 * survivor PROVIDER FOLDER survivor|victim stream|offer
 *
 * The victim is killed in mid-transfer. The survivor then expects every operation that is still pending towards it to
 * complete in error, and to close everything.
 *
 * stream: megabyte messages run from the survivor to the victim, which receives them.
 * offer:  one long message for which the victim posts no receive.
 * In both, the survivor also waits for a message that the victim never sends.
 */
#include "node.h"

enum {
	WINDOW = 4,
	MESSAGE = 1 << 20,
	OFFER = 64 << 20,
	/* Messages that have arrived when the survivor asks for the kill. */
	WARM = 16,
	TAG_DATA = 1,
	TAG_NEVER_SENT = 2,
	TAG_NEVER_RECEIVED = 3,
};

struct survivor {
	struct node node;
	fi_addr_t victim;
	struct fi_context sends[WINDOW];
	struct fi_context receive;
	int idle[WINDOW];
	int sends_pending, receive_pending;
	int sent, send_errors;
	char *data;
};

static void count(struct survivor *me, void *context, int error)
{
	if (context == &me->receive) {
		me->receive_pending = 0;
		printf("receive ended: %d (%s)\n", error, fi_strerror(error));
		return;
	}
	me->idle[(struct fi_context *)context - me->sends] = 1;
	me->sends_pending--;
	if (!error) {
		me->sent++;
		return;
	}
	me->send_errors++;
	printf("send ended: %d (%s)\n", error, fi_strerror(error));
}

static void collect(struct survivor *me)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry failed = { 0 };
	ssize_t result = fi_cq_read(me->node.cq, &entry, 1);

	if (result == 1) {
		count(me, entry.op_context, 0);
	} else if (result == -FI_EAVAIL) {
		expect("fi_cq_readerr", fi_cq_readerr(me->node.cq, &failed, 0));
		count(me, failed.op_context, failed.err);
	} else if (result != -FI_EAGAIN) {
		expect("fi_cq_read", result);
	}
}

/* Posts one send from a free place of the window; 0 if none could be posted now. */
static int post_send(struct survivor *me, size_t len, uint64_t tag)
{
	for (int i = 0; i < WINDOW; i++) {
		ssize_t result;

		if (!me->idle[i])
			continue;
		result = fi_tsend(me->node.ep, me->data, len, NULL, me->victim, tag, &me->sends[i]);
		if (result == -FI_EAGAIN)
			return 0;
		if (result) {
			me->send_errors++;
			printf("send refused: %zd (%s)\n", -result, fi_strerror((int)-result));
			return 0;
		}
		me->idle[i] = 0;
		me->sends_pending++;
		return 1;
	}
	return 0;
}

static void expect_failure(struct survivor *me)
{
	double deadline = now_s() + PATIENCE_S;

	while (me->sends_pending || me->receive_pending) {
		collect(me);
		if (now_s() > deadline) {
			printf("still pending: %d sends, %d receives\n", me->sends_pending, me->receive_pending);
			exit(EXIT_FAILURE);
		}
	}
	printf("nothing pending, %d sends failed\n", me->send_errors);
}

static void survive(struct survivor *me, int is_stream)
{
	int asked = 0;
	double deadline;

	for (int i = 0; i < WINDOW; i++)
		me->idle[i] = 1;
	expect("fi_trecv", fi_trecv(me->node.ep, me->data, 8, NULL, me->victim, TAG_NEVER_SENT, 0, &me->receive));
	me->receive_pending = 1;
	deadline = now_s() + PATIENCE_S;
	while (!me->send_errors && now_s() < deadline) {
		if (is_stream || me->sent + me->sends_pending < WARM)
			post_send(me, MESSAGE, TAG_DATA);
		else if (me->sent == WARM && !me->sends_pending)
			post_send(me, OFFER, TAG_NEVER_RECEIVED);
		collect(me);
		if (!asked && me->sent >= WARM && me->sends_pending) {
			printf("transferring\n");
			deadline = now_s() + PATIENCE_S;
			asked = 1;
		}
	}
	expect_failure(me);
}

static void receive_for_ever(struct survivor *me)
{
	struct fi_cq_tagged_entry entry;
	struct fi_context contexts[WINDOW];
	ssize_t result;

	for (int i = 0; i < WINDOW; i++)
		expect("fi_trecv", fi_trecv(me->node.ep, me->data + (size_t)i * MESSAGE, MESSAGE, NULL,
					    FI_ADDR_UNSPEC, TAG_DATA, 0, &contexts[i]));
	for (;;) {
		result = fi_cq_read(me->node.cq, &entry, 1);
		if (result == 1) {
			struct fi_context *context = entry.op_context;
			char *buffer = me->data + (size_t)(context - contexts) * MESSAGE;

			expect("fi_trecv", fi_trecv(me->node.ep, buffer, MESSAGE, NULL, FI_ADDR_UNSPEC,
						    TAG_DATA, 0, context));
		} else if (result != -FI_EAGAIN) {
			expect("fi_cq_read", result);
		}
	}
}

int main(int argc, char **argv)
{
	static struct survivor me;

	if (argc != 5)
		return EXIT_FAILURE;
	me.data = calloc(1, OFFER);
	node_open(&me.node, argv[1]);
	node_publish(&me.node, argv[2], argv[3]);
	if (!strcmp(argv[3], "victim")) {
		me.victim = node_meet(&me.node, argv[2], "survivor");
		receive_for_ever(&me);
	}
	me.victim = node_meet(&me.node, argv[2], "victim");
	survive(&me, !strcmp(argv[4], "stream"));
	node_close(&me.node);
	free(me.data);
	return EXIT_SUCCESS;
}
