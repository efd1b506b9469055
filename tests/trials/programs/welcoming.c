/*
 * welcoming FOLDER a|b SEED [aloof]
 *
 * Two endpoints of the fabric efa play rounds: each writes the other's window, sends it a message, and finds what the other one wrote and sent. Meanwhile each
 * has to do with intruders (intruder.c) that make themselves known in the folder: it takes their messages, which have the highest bit of a tag, and
 * begins operations of all kinds with those that it knows, every other one. What these bring is not to be relied on, but each ends, once, and nothing is
 * written beyond its buffer. With aloof it has nothing to do with them.
 *
 * It plays until the intruders of both are done, and prints "played N rounds" and "intruders N, operations N, of which N failed, messages N, of which N failed".
 */
#include "efa.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

enum { OPERATIONS = 16, WELCOMES = 8, KNOWN = 6, ROOM = 100000, GUARD = 64, WINDOW = 20000, MESSAGE = 90000, LOOK_EVERY = 32, FAILURES_MAX = 40 };

enum kind { TAGGED, UNTAGGED, WRITE, READ, ATOMIC, FETCH, COMPARE, KINDS };

struct operation {
	struct fi_context2 context;
	uint8_t *buffer;
	size_t len;
	int busy, known;
	enum kind kind;
};

/* An intruder that is in the address vector. */
struct known { fi_addr_t addr; int operations, failures; };

struct place { uint64_t addr, key; };

struct party {
	struct node node;
	const char *folder, *name, *other;
	fi_addr_t peer;
	void *desc;
	struct fid_mr *mr;
	uint8_t *memory, *windows;
	struct place there;
	struct operation sent, received, written, operations[OPERATIONS], welcomes[WELCOMES];
	struct known known[KNOWN];
	uint64_t random, round, looks, data;
	unsigned next, met, begun, failed, messages, unwelcome, of_kind[KINDS];
	int id, is_over, is_aloof;
};

static uint64_t seed;

static uint64_t below(struct party *me, uint64_t bound)
{
	return mixed(me->random++ * 0x9e3779b97f4a7c15u) % bound;
}

static uint8_t pattern(uint64_t round, int sender, size_t at)
{
	return (uint8_t)(mixed(seed * 1000003u + round * 2u + (unsigned)sender) + at * 7 + (at >> 8));
}

static size_t message_length(uint64_t round, int sender)
{
	uint64_t drawn = mixed(seed + round * 4u + (unsigned)sender);

	return drawn % 4 ? drawn / 4 % 9000 : drawn / 4 % MESSAGE;
}

static void wrong(const struct party *me, const char *what, uint64_t got, uint64_t wanted)
{
	printf("round %llu: wrong %s: %llu, not %llu\n", (unsigned long long)me->round, what, (unsigned long long)got, (unsigned long long)wanted);
	exit(3);
}

static void set_guard(struct operation *operation, size_t len)
{
	operation->len = len;
	memset(operation->buffer + len, 0xa5, GUARD);
}

static void check_guard(const struct party *me, const struct operation *operation)
{
	for (size_t at = 0; at < GUARD; at++)
		if (operation->buffer[operation->len + at] != 0xa5)
			wrong(me, "byte behind a buffer", operation->buffer[operation->len + at], 0xa5);
}

static int is_of_intruders(const struct party *me, const struct operation *operation)
{
	return operation >= me->operations && operation < me->welcomes + WELCOMES;
}

/* Notes the end of an operation; those with the other one go well. */
static void ended(struct party *me, struct operation *operation, int error)
{
	if (!operation || !operation->busy)
		wrong(me, "end of an operation that was not under way", (uint64_t)error, 0);
	operation->busy = 0;
	check_guard(me, operation);
	if (operation->known >= 0) {
		me->known[operation->known].operations--;
		me->known[operation->known].failures += error != 0;
		me->failed += error != 0;
	} else if (is_of_intruders(me, operation)) {
		me->messages++;
		me->unwelcome += error != 0;
	}
}

static void failed(struct party *me)
{
	struct fi_cq_err_entry error = { 0 };
	struct operation *operation;

	expect("fi_cq_readerr", fi_cq_readerr(me->node.cq, &error, 0));
	operation = error.op_context;
	if (!operation || !is_of_intruders(me, operation)) {
		printf("failed: %d (%s): %s\n", error.err, fi_strerror(error.err),
		       fi_cq_strerror(me->node.cq, error.prov_errno, error.err_data, NULL, 0));
		exit(4);
	}
	ended(me, operation, error.err);
}

static void progress(struct party *me)
{
	struct fi_cq_tagged_entry entry;
	ssize_t got = fi_cq_read(me->node.cq, &entry, 1);

	if (got == -FI_EAGAIN)
		return;
	if (got == -FI_EAVAIL)
		return failed(me);
	expect("fi_cq_read", got);
	if (entry.op_context == &me->received) {
		if (entry.len != message_length(me->round, !me->id))
			wrong(me, "length", entry.len, message_length(me->round, !me->id));
		me->data = entry.flags & FI_REMOTE_CQ_DATA ? entry.data : 0;
	}
	ended(me, entry.op_context, 0);
}

static void welcome(struct party *me, struct operation *operation)
{
	uint64_t ours = (uint64_t)1 << 63;

	operation->busy = 1;
	set_guard(operation, below(me, 3) ? below(me, ROOM) : below(me, 9000));
	expect("fi_trecv", fi_trecv(me->node.ep, operation->buffer, operation->len, me->desc, FI_ADDR_UNSPEC, ours, ~ours, &operation->context));
}

/* Begins an operation with an intruder that is known. */
static void begin(struct party *me, struct operation *operation, int known)
{
	fi_addr_t to = me->known[known].addr;
	uint64_t addr = (uint64_t)1 << 44, key = (uint64_t)1 << 31 | below(me, 1000);
	size_t len = below(me, 2) ? below(me, 9000) : below(me, ROOM);
	uint8_t *buffer = operation->buffer;
	struct iovec iov = { buffer, len };
	struct fi_msg_tagged tagged = { &iov, &me->desc, 1, to, 5, 0, &operation->context, 6 };
	struct fi_rma_iov target = { addr, len, key };
	struct fi_msg_rma write = { &iov, &me->desc, 1, to, &target, 1, &operation->context, 6 };
	uint64_t flags = FI_COMPLETION | (below(me, 2) ? FI_DELIVERY_COMPLETE : 0) | (below(me, 2) ? FI_REMOTE_CQ_DATA : 0);
	ssize_t begun;

	operation->kind = (enum kind)below(me, KINDS);
	set_guard(operation, len);
	switch (operation->kind) {
	case TAGGED: begun = fi_tsendmsg(me->node.ep, &tagged, flags); break;
	case UNTAGGED: begun = fi_send(me->node.ep, buffer, len, me->desc, to, &operation->context); break;
	case WRITE: begun = fi_writemsg(me->node.ep, &write, flags); break;
	case READ: begun = fi_read(me->node.ep, buffer, len, me->desc, to, addr, key, &operation->context); break;
	case ATOMIC: begun = fi_atomic(me->node.ep, buffer, 1, me->desc, to, addr, key, FI_UINT64, FI_SUM, &operation->context); break;
	case FETCH:
		set_guard(operation, 16);
		begun = fi_fetch_atomic(me->node.ep, buffer, 1, me->desc, buffer + 8, me->desc, to, addr, key, FI_UINT64, FI_SUM, &operation->context);
		break;
	default:
		set_guard(operation, 24);
		begun = fi_compare_atomic(me->node.ep, buffer, 1, me->desc, buffer + 8, me->desc, buffer + 16, me->desc, to, addr, key, FI_UINT64,
					  FI_CSWAP, &operation->context);
	}
	/* One that is gone is an error at once. */
	if (begun)
		return;
	me->begun++;
	me->of_kind[operation->kind]++;
	me->known[known].operations++;
	operation->known = known;
	operation->busy = 1;
}

static int is_there(const struct party *me, unsigned intruder, char name[64])
{
	snprintf(name, 64, "%s.intruder.%u", me->name, intruder);
	return node_has(me->folder, name);
}

/* Takes the newest intruder, but only every other one, in the place of one with which nothing is under way. */
static void meet_intruder(struct party *me)
{
	struct known *known = &me->known[below(me, KNOWN)];
	char name[64];

	if (known->operations || !is_there(me, me->next, name))
		return;
	while (is_there(me, me->next + 2, name))
		me->next += 2;
	is_there(me, me->next, name);
	if (known->addr != FI_ADDR_NOTAVAIL)
		expect("fi_av_remove", fi_av_remove(me->node.av, &known->addr, 1, 0));
	known->addr = node_meet(&me->node, me->folder, name);
	known->failures = 0;
	me->next += 2;
	me->met++;
}

static void deal_with_intruders(struct party *me)
{
	int known = (int)below(me, KNOWN);
	struct operation *operation = &me->operations[below(me, OPERATIONS)], *receive = &me->welcomes[below(me, WELCOMES)];

	if (me->looks++ % LOOK_EVERY == 0)
		meet_intruder(me);
	if (!receive->busy)
		welcome(me, receive);
	if (!operation->busy && me->known[known].addr != FI_ADDR_NOTAVAIL && me->known[known].failures < FAILURES_MAX)
		begin(me, operation, known);
}

static void await_end(struct party *me, struct operation *operation, const char *what)
{
	double deadline = now_s() + PATIENCE_S;

	while (operation->busy) {
		if (!me->is_aloof)
			deal_with_intruders(me);
		progress(me);
		if (now_s() > deadline)
			wrong(me, what, 0, 1);
	}
}

#define START(me, operation, call) do { \
	double until = now_s() + PATIENCE_S; \
	ssize_t started; \
	while ((started = (call)) == -FI_EAGAIN && now_s() < until) \
		progress(me); \
	expect(#call, started); \
	(operation)->busy = 1; \
} while (0)

static void write_window(struct party *me)
{
	struct operation *operation = &me->written;
	size_t at_window = me->round % 2 * WINDOW;
	struct iovec iov = { operation->buffer, WINDOW };
	struct fi_rma_iov target = { me->there.addr + at_window, WINDOW, me->there.key };
	struct fi_msg_rma msg = { &iov, &me->desc, 1, me->peer, &target, 1, &operation->context, 0 };

	set_guard(operation, WINDOW);
	for (size_t at = 0; at < WINDOW; at++)
		operation->buffer[at] = pattern(me->round, me->id, at + 1);
	START(me, operation, fi_writemsg(me->node.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE));
	await_end(me, operation, "write that does not end");
}

static void send_message(struct party *me, int is_last)
{
	struct operation *operation = &me->sent;
	size_t len = message_length(me->round, me->id);

	set_guard(operation, len);
	for (size_t at = 0; at < len; at++)
		operation->buffer[at] = pattern(me->round, me->id, at);
	START(me, operation, fi_tsenddata(me->node.ep, operation->buffer, len, me->desc, (uint64_t)is_last, me->peer, me->round, &operation->context));
}

static void check(struct party *me)
{
	const uint8_t *window = me->windows + me->round % 2 * WINDOW, *message = me->received.buffer;

	for (size_t at = 0; at < message_length(me->round, !me->id); at++)
		if (message[at] != pattern(me->round, !me->id, at))
			wrong(me, "byte of a message", message[at], pattern(me->round, !me->id, at));
	for (size_t at = 0; at < WINDOW; at++)
		if (window[at] != pattern(me->round, !me->id, at + 1))
			wrong(me, "byte of the window", window[at], pattern(me->round, !me->id, at + 1));
}

static int intruders_are_done(const struct party *me)
{
	return node_has(me->folder, "a.intruder.done") && node_has(me->folder, "b.intruder.done");
}

static void play(struct party *me)
{
	struct operation *receive = &me->received;
	int is_last = me->id == 0 && intruders_are_done(me);

	set_guard(receive, MESSAGE);
	START(me, receive, fi_trecv(me->node.ep, receive->buffer, MESSAGE, me->desc, me->peer, me->round, 0, &receive->context));
	write_window(me);
	send_message(me, is_last);
	await_end(me, &me->sent, "send that does not end");
	await_end(me, receive, "receive that does not end");
	check(me);
	me->is_over = me->id == 0 ? is_last : me->data == 1;
	me->round++;
}

/* All intruders are gone: what was under way with them ends. */
static void part(struct party *me)
{
	double deadline = now_s() + PATIENCE_S;

	for (int at = 0; at < OPERATIONS; at++)
		while (me->operations[at].busy) {
			progress(me);
			if (now_s() > deadline)
				wrong(me, "operation with an intruder that is gone, by its kind", me->operations[at].kind, KINDS);
		}
	for (int at = 0; at < WELCOMES; at++)
		if (me->welcomes[at].busy)
			fi_cancel(&me->node.ep->fid, &me->welcomes[at].context);
	for (int at = 0; at < WELCOMES; at++)
		while (me->welcomes[at].busy) {
			progress(me);
			if (now_s() > deadline)
				wrong(me, "receive from intruders that are gone", (uint64_t)at, WELCOMES);
		}
}

static void open_all(struct party *me)
{
	struct node *node = &me->node;
	size_t places = OPERATIONS + WELCOMES + 3, len = places * (ROOM + GUARD);
	struct operation *own[] = { &me->sent, &me->received, &me->written };

	efa_select(node, efa_hints("efa", FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_RMA | FI_ATOMIC));
	node_make(node, FI_WAIT_NONE);
	me->memory = calloc(1, len);
	me->windows = calloc(2, WINDOW);
	/* Operations with intruders tell the key of a region that holds nothing else that peers may reach. */
	expect("fi_mr_reg", fi_mr_reg(node->domain, me->memory, len, FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0, 0, 0, &me->mr, NULL));
	expect("fi_mr_reg", fi_mr_reg(node->domain, me->windows, 2 * WINDOW, FI_REMOTE_WRITE, 0, 0, 0, &node->mr, NULL));
	me->desc = fi_mr_desc(me->mr);
	for (size_t at = 0; at < places; at++) {
		struct operation *operation = at < OPERATIONS ? &me->operations[at]
					    : at < OPERATIONS + WELCOMES ? &me->welcomes[at - OPERATIONS] : own[at - OPERATIONS - WELCOMES];

		operation->buffer = me->memory + at * (ROOM + GUARD);
		operation->known = -1;
	}
	for (int at = 0; at < KNOWN; at++)
		me->known[at].addr = FI_ADDR_NOTAVAIL;
}

/* Tells the other one where the windows are. */
static void exchange(struct party *me)
{
	struct place mine = { (uintptr_t)me->windows, fi_mr_key(me->node.mr) };
	char file[PATH_MAX], part[PATH_MAX + 8], window[32];
	FILE *stream;

	snprintf(file, sizeof file, "%s/%s.window", me->folder, me->name);
	snprintf(part, sizeof part, "%s.part", file);
	stream = fopen(part, "wb");
	if (!stream || fwrite(&mine, sizeof mine, 1, stream) != 1 || fclose(stream) || rename(part, file))
		expect("window", -errno);
	snprintf(window, sizeof window, "%s.window", me->other);
	node_await_file(&me->node, me->folder, window);
	snprintf(file, sizeof file, "%s/%s", me->folder, window);
	stream = fopen(file, "rb");
	if (!stream || fread(&me->there, sizeof me->there, 1, stream) != 1 || fclose(stream))
		expect("window", -FI_EIO);
}

int main(int argc, char **argv)
{
	static struct party me;

	if (argc < 4)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	me.folder = argv[1];
	me.name = argv[2];
	me.id = !strcmp(argv[2], "b");
	me.other = me.id ? "a" : "b";
	me.is_aloof = argc > 4 && !strcmp(argv[4], "aloof");
	seed = strtoull(argv[3], NULL, 10);
	me.random = seed << 32 | (uint64_t)me.id << 31;
	open_all(&me);
	node_publish(&me.node, me.folder, me.name);
	me.peer = node_meet(&me.node, me.folder, me.other);
	exchange(&me);
	while (!me.is_over)
		play(&me);
	part(&me);
	printf("played %llu rounds\nintruders %u, operations %u, of which %u failed, messages %u, of which %u failed\n",
	       (unsigned long long)me.round, me.met, me.begun, me.failed, me.messages, me.unwelcome);
	for (int kind = 0; kind < KINDS; kind++)
		if (me.of_kind[kind])
			printf("began %d: %u\n", kind, me.of_kind[kind]);
	expect("fi_close region", fi_close(&me.mr->fid));
	node_end(&me.node);
	fi_freeinfo(me.node.info);
	free(me.memory);
	free(me.windows);
	return 0;
}
