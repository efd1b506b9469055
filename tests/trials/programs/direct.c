/*
 * direct KIND FOLDER a|b ROUNDS SEED [sleep] [mortal]
 *
 * Two endpoints of EFA, of KIND rdm (fabric efa-direct) or dgram, send each other messages of any length that a device takes,
 * in rounds: each side sends BATCH messages and receives as many. The wire has no order, so a message says which one it is, by
 * what is in it or, where it has completion data, by that. Each is received once, whole, from the other endpoint.
 *
 * With sleep the program sleeps on its queue. With mortal the other one may be killed at any time: an operation towards it fails then,
 * the program closes all that it has opened, and prints "gone: ERROR: REASON".
 *
 * It prints how many messages and bytes it received, "received N messages, M bytes".
 */
#include "efa.h"

#include <rdma/fi_rma.h>

enum { BATCH = 16, POSTED = 4 * BATCH, MIN_MARKED = 16, SENDS = BATCH, PROBE = 0x7fffffff };

struct slot {
	struct fi_context2 context;
	char *buffer;
	int busy;
};

struct party {
	struct node node;
	size_t prefix, longest, room;
	char *memory;
	void *desc;
	fi_addr_t peer;
	struct slot receives[POSTED], sends[SENDS];
	/* Of this round and of the next one, which the peer may have begun. */
	char seen[2][BATCH];
	int arrived[2];
	uint32_t round;
	uint64_t messages, bytes, random;
	int sleeps, mortal, id;
};

static uint8_t pattern(int sender, uint32_t round, uint32_t index, size_t at)
{
	return (uint8_t)(mixed(round * 64u + index * 2u + (unsigned)sender) + at * 7);
}

/* Lengths: short ones that go inline, those around the limits, and any. */
static size_t length(struct party *me, int is_marked)
{
	static const size_t edges[] = { 0, 1, 31, 32, 33, 64 };
	uint64_t drawn = mixed(me->random++);
	size_t len = drawn % 3 ? (drawn >> 8) % (me->longest + 1)
			       : drawn & 4 ? me->longest - (drawn >> 8) % 2 : edges[(drawn >> 8) % 6];

	return is_marked && len < MIN_MARKED ? MIN_MARKED : len;
}

static void wrong(const char *what, uint64_t got, uint64_t wanted)
{
	printf("wrong %s: %llu, not %llu\n", what, (unsigned long long)got, (unsigned long long)wanted);
	exit(3);
}

static void finish(struct party *me)
{
	printf("received %llu messages, %llu bytes\n", (unsigned long long)me->messages,
	       (unsigned long long)me->bytes);
	expect("fi_close", fi_close(&me->node.ep->fid));
	expect("fi_close", fi_close(&me->node.mr->fid));
	expect("fi_close", fi_close(&me->node.cq->fid));
	expect("fi_close", fi_close(&me->node.av->fid));
	expect("fi_close", fi_close(&me->node.domain->fid));
	expect("fi_close", fi_close(&me->node.fabric->fid));
	fi_freeinfo(me->node.info);
	free(me->memory);
}

static void post(struct party *me, struct slot *slot)
{
	expect("fi_recv", fi_recv(me->node.ep, slot->buffer, me->room, me->desc, FI_ADDR_UNSPEC, &slot->context));
}

static void check(struct party *me, const struct fi_cq_data_entry *entry, fi_addr_t from)
{
	struct slot *slot = (struct slot *)entry->op_context;
	const uint8_t *text = (const uint8_t *)slot->buffer + me->prefix;
	size_t len = entry->len - me->prefix;
	uint32_t mark[4], round, index;
	int sender = !me->id, next;

	if (entry->len < me->prefix || len > me->longest)
		wrong("length", entry->len, me->longest);
	if (me->mortal && entry->flags & FI_REMOTE_CQ_DATA && entry->data == PROBE)
		return post(me, slot);
	if (entry->flags & FI_REMOTE_CQ_DATA) {
		round = (uint32_t)entry->data >> 8;
		index = (uint32_t)entry->data & 0xff;
	} else {
		if (len < sizeof mark)
			wrong("length of a message without data", len, sizeof mark);
		memcpy(mark, text, sizeof mark);
		round = mark[0];
		index = mark[1];
		if (mark[2] != len)
			wrong("length in a message", len, mark[2]);
	}
	next = round != me->round;
	if (round != me->round && round != me->round + 1)
		wrong("round", round, me->round);
	if (index >= BATCH || me->seen[next][index])
		wrong("message, or one that came twice", index, BATCH);
	for (size_t at = entry->flags & FI_REMOTE_CQ_DATA ? 0 : sizeof mark; at < len; at++)
		if (text[at] != pattern(sender, round, index, at))
			wrong("byte", text[at], pattern(sender, round, index, at));
	if (from != me->peer)
		wrong("source", from, me->peer);
	me->seen[next][index] = 1;
	me->arrived[next]++;
	me->messages++;
	me->bytes += len;
	/* What is left over from this message is no part of the next. */
	memset(slot->buffer, 0xee, me->room);
	post(me, slot);
}

static void failed(struct party *me)
{
	struct fi_cq_err_entry error = { 0 };
	const char *reason;

	expect("fi_cq_readerr", fi_cq_readerr(me->node.cq, &error, 0));
	reason = fi_cq_strerror(me->node.cq, error.prov_errno, error.err_data, NULL, 0);
	printf("%s: %d (%s): %s\n", me->mortal ? "gone" : "failed", error.err, fi_strerror(error.err), reason);
	if (!me->mortal)
		exit(4);
	finish(me);
	exit(0);
}

static void progress(struct party *me)
{
	struct fi_cq_data_entry entries[4];
	fi_addr_t from[4];
	ssize_t got = me->sleeps ? fi_cq_sreadfrom(me->node.cq, entries, 4, from, NULL, 1000)
				 : fi_cq_readfrom(me->node.cq, entries, 4, from);

	if (got == -FI_EAVAIL)
		return failed(me);
	if (got == -FI_EAGAIN)
		return;
	expect("fi_cq_readfrom", got);
	for (ssize_t at = 0; at < got; at++) {
		struct slot *slot = entries[at].op_context;

		if (slot >= me->receives && slot < me->receives + POSTED)
			check(me, &entries[at], from[at]);
		else
			slot->busy = 0;
	}
}

static void send_one(struct party *me, uint32_t index)
{
	struct slot *slot = &me->sends[index % SENDS];
	int has_data = index % 2;
	size_t len = length(me, !has_data);
	uint8_t *text = (uint8_t *)slot->buffer + me->prefix;
	uint32_t mark[4] = { me->round, index, (uint32_t)len, 0 };
	double deadline = now_s() + PATIENCE_S;
	ssize_t sent;

	while (slot->busy && now_s() < deadline)
		progress(me);
	for (size_t at = 0; at < len; at++)
		text[at] = pattern(me->id, me->round, index, at);
	if (!has_data)
		memcpy(text, mark, sizeof mark);
	do {
		sent = has_data ? fi_senddata(me->node.ep, slot->buffer, me->prefix + len, me->desc,
					      (uint64_t)me->round << 8 | index, me->peer, &slot->context)
				: fi_send(me->node.ep, slot->buffer, me->prefix + len, me->desc, me->peer,
					  &slot->context);
		if (sent == -FI_EAGAIN)
			progress(me);
	} while (sent == -FI_EAGAIN && now_s() < deadline);
	expect("fi_send", sent);
	slot->busy = 1;
}

static int is_sending(const struct party *me)
{
	for (int at = 0; at < SENDS; at++)
		if (me->sends[at].busy)
			return 1;
	return 0;
}

/* Asks whether the other one is still there: it receives that, and does nothing. */
static void probe(struct party *me)
{
	struct slot *slot = &me->sends[0];
	ssize_t sent = fi_senddata(me->node.ep, slot->buffer, me->prefix, me->desc, PROBE, me->peer, &slot->context);

	if (sent != -FI_EAGAIN) {
		expect("fi_senddata", sent);
		slot->busy = 1;
	}
}

static void play(struct party *me)
{
	double deadline = now_s() + PATIENCE_S, asked = 0;

	for (uint32_t index = 0; index < BATCH; index++)
		send_one(me, index);
	while (me->arrived[0] < BATCH || (is_sending(me) && !me->mortal)) {
		if (me->mortal && !is_sending(me) && now_s() > asked + 0.01) {
			asked = now_s();
			probe(me);
		}
		progress(me);
		if (now_s() > deadline) {
			printf("round %u: %d messages arrived, %s\n", me->round, me->arrived[0],
			       is_sending(me) ? "sends do not end" : "sends have ended");
			exit(5);
		}
	}
	memcpy(me->seen[0], me->seen[1], BATCH);
	memset(me->seen[1], 0, BATCH);
	me->arrived[0] = me->arrived[1];
	me->arrived[1] = 0;
	me->round++;
}

static void offer(struct party *me, const char *kind)
{
	int is_datagram = !strcmp(kind, "dgram");
	struct fi_info *hints = efa_hints(is_datagram ? "efa" : "efa-direct", FI_MSG | FI_SOURCE);

	if (is_datagram) {
		hints->ep_attr->type = FI_EP_DGRAM;
		hints->mode |= FI_MSG_PREFIX;
	}
	efa_select(&me->node, hints);
	/* Neither queue has to be as long as the device can make it. */
	me->node.info->tx_attr->size = 2 * SENDS;
	me->node.info->rx_attr->size = POSTED;
}

static void open_all(struct party *me, const char *kind)
{
	struct node *node = &me->node;
	size_t slots = POSTED + SENDS;

	offer(me, kind);
	me->prefix = node->info->ep_attr->msg_prefix_size;
	me->longest = node->info->ep_attr->max_msg_size;
	me->room = me->prefix + me->longest;
	node_make_as(node, FI_CQ_FORMAT_DATA, me->sleeps ? FI_WAIT_FD : FI_WAIT_NONE);
	me->memory = calloc(slots, me->room);
	expect("fi_mr_reg", fi_mr_reg(node->domain, me->memory, slots * me->room, FI_SEND | FI_RECV, 0, 0, 0, &node->mr,
				      NULL));
	me->desc = fi_mr_desc(node->mr);
	for (size_t at = 0; at < slots; at++) {
		struct slot *slot = at < POSTED ? &me->receives[at] : &me->sends[at - POSTED];

		slot->buffer = me->memory + at * me->room;
		if (at < POSTED)
			post(me, slot);
	}
}

static void say_ready(const char *folder, const char *name)
{
	char file[PATH_MAX];
	FILE *out;

	snprintf(file, sizeof file, "%s/%s.ready", folder, name);
	out = fopen(file, "wb");
	if (!out || fclose(out))
		expect("ready", -errno);
}

static void await_ready(const char *folder, const char *name)
{
	char file[PATH_MAX];
	double deadline = now_s() + PATIENCE_S;

	snprintf(file, sizeof file, "%s/%s.ready", folder, name);
	while (access(file, F_OK)) {
		if (now_s() > deadline)
			expect("the other one", -FI_ETIMEDOUT);
		usleep(1000);
	}
}

int main(int argc, char **argv)
{
	static struct party me;
	const char *other;
	long rounds;

	if (argc < 6)
		return 2;
	for (int at = 6; at < argc; at++) {
		me.sleeps |= !strcmp(argv[at], "sleep");
		me.mortal |= !strcmp(argv[at], "mortal");
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	me.id = !strcmp(argv[3], "b");
	other = me.id ? "a" : "b";
	rounds = strtol(argv[4], NULL, 10);
	me.random = strtoull(argv[5], NULL, 10) * 1000003u + (unsigned)me.id;
	open_all(&me, argv[1]);
	node_publish(&me.node, argv[2], argv[3]);
	me.peer = node_meet(&me.node, argv[2], other);
	/* A message that comes before its source is known would have none. */
	say_ready(argv[2], argv[3]);
	await_ready(argv[2], other);
	while (me.round < rounds)
		play(&me);
	finish(&me);
	return 0;
}
