/*
 * orderly FOLDER a|b ROUNDS SEED [sleep] [mortal] [delivery] [access] [refused] [long] [solicited]
 *
 * Two endpoints of the fabric efa send each other messages of any length, with and without tags and completion data, in rounds: each side
 * sends BATCH messages and receives as many, in the order in which they were sent. With delivery sends end only when the message is in its
 * buffer. With access each side also writes the other's memory, from several places to several, reads it back, and counts in it by atomics of each kind, in order, and of any length. With
 * refused it begins with reads and a write of memory that there is not, which fail. With long many messages and accesses are longer, up to 8 MiB.
 * With solicited, writes of the other one with data use up receives of the endpoint of b, if devices carry them out.
 *
 * With sleep the program sleeps on its queue. With mortal the other one may be killed at any time: an operation towards it fails then,
 * and so does a receive from it alone that is posted then. The program closes all that it has opened, and prints "gone: ERROR: REASON".
 *
 * It prints how much it received, "received N messages, M bytes".
 */
#include "efa.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

enum { BATCH = 8, LONGEST = 8 << 20, WINDOW = 1 << 18, POSTED = 2 * BATCH, ORDERED = 8, PLACES = 2048 };

struct slot {
	struct fi_context2 context;
	char *buffer;
	int busy, is_tagged;
	/* Which message of its kind a receive takes: they match in the order in which receives were posted. */
	uint64_t number;
};

struct party {
	struct node node;
	char *memory, *window, *scratch;
	uint64_t *counter, *fetched;
	void *desc;
	fi_addr_t peer;
	struct slot receives[2][POSTED], sends[BATCH], access, ordered[ORDERED];
	/* How many messages of each kind arrived, with tags and without. */
	uint64_t arrived[2], posted[2], messages, bytes, written, window_at, window_key;
	uint32_t round;
	int sleeps, mortal, delivers, reaches, refused, expects_refusal, solicits, id;
};

struct place { uint64_t addr, key; };

static uint64_t seed;
static int has_long;

/* How long the memory is that the other one writes and reads. */
static size_t window_len(void)
{
	return has_long ? LONGEST : WINDOW;
}

/* What sender and receiver both know of a message of this kind by its number. */
static uint64_t fate(int sender, int kind, uint64_t number)
{
	return mixed(seed * 1000003u + number * 8u + (unsigned)(2 * kind + sender) + 77);
}

static size_t length(uint64_t fate)
{
	static const size_t edges[] = { 0, 1, 16, 8759, 8760, 8761, 8904, 8928, 16384, 65536, 65537 };

	static const size_t long_edges[] = { (1 << 20) - 1, 1 << 20, (1 << 20) + 1, LONGEST - 1, LONGEST };

	if (has_long && fate % 3 == 0)
		return fate & 1 << 7 ? (fate >> 8) % LONGEST : long_edges[(fate >> 8) % (sizeof long_edges / sizeof *long_edges)];
	switch (fate % 8) {
	case 0: return edges[(fate >> 8) % (sizeof edges / sizeof *edges)];
	case 1: return (fate >> 8) % (1 << 20);
	case 2: case 3: return (fate >> 8) % 100000;
	case 4: return (fate >> 8) % 20000;
	default: return (fate >> 8) % 5000;
	}
}

static uint8_t pattern(uint64_t fate, size_t at)
{
	return (uint8_t)((fate >> 32) + at * 7 + (at >> 8));
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
	ssize_t posted = slot->is_tagged
		? fi_trecv(me->node.ep, slot->buffer, LONGEST, me->desc, me->peer, 0, ~0ull, &slot->context)
		: fi_recv(me->node.ep, slot->buffer, LONGEST, me->desc, me->peer, &slot->context);

	expect("fi_recv", posted);
	slot->number = me->posted[slot->is_tagged]++;
}

static void check(struct party *me, struct slot *slot, const struct fi_cq_tagged_entry *entry)
{
	uint64_t number = slot->number;
	uint64_t drawn = fate(!me->id, slot->is_tagged, number);
	size_t len = length(drawn);

	if (entry->len != len)
		wrong(slot->is_tagged ? "length of a tagged message" : "length", entry->len, len);
	if (slot->is_tagged && entry->tag != number)
		wrong("tag", entry->tag, number);
	if (!(entry->flags & FI_REMOTE_CQ_DATA) != !(drawn & 1 << 6))
		wrong("flags", entry->flags, drawn & 1 << 6);
	if (entry->flags & FI_REMOTE_CQ_DATA && entry->data != (uint32_t)number)
		wrong("completion data", entry->data, number);
	for (size_t at = 0; at < len; at++)
		if ((uint8_t)slot->buffer[at] != pattern(drawn, at))
			wrong("byte", (uint8_t)slot->buffer[at], pattern(drawn, at));
	me->arrived[slot->is_tagged]++;
	me->messages++;
	me->bytes += len;
	memset(slot->buffer, 0xee, len);
	post(me, slot);
}

/* A receive from the other one alone, which is gone, fails too. */
static void expect_nothing_more(struct party *me)
{
	static struct slot last;
	struct fi_cq_tagged_entry entry;
	double deadline = now_s() + PATIENCE_S;

	expect("fi_recv", fi_recv(me->node.ep, me->scratch, 1, me->desc, me->peer, &last.context));
	while (now_s() < deadline) {
		struct fi_cq_err_entry error = { 0 };

		if (fi_cq_read(me->node.cq, &entry, 1) != -FI_EAVAIL)
			continue;
		expect("fi_cq_readerr", fi_cq_readerr(me->node.cq, &error, 0));
		if (error.op_context == &last)
			return;
	}
	printf("a receive from a peer that is gone does not end\n");
	exit(6);
}

static void failed(struct party *me)
{
	struct fi_cq_err_entry error = { 0 };
	const char *reason;

	expect("fi_cq_readerr", fi_cq_readerr(me->node.cq, &error, 0));
	if (me->expects_refusal && error.op_context == &me->access) {
		/* A device tells one error for all; an endpoint says that there is no such key, or that it is not for that memory. */
		if (error.err != FI_EINVAL && error.err != FI_ENOKEY && error.err != FI_EACCES)
			wrong("error of an access that is refused", (uint64_t)error.err, FI_EINVAL);
		me->expects_refusal = me->access.busy = 0;
		return;
	}
	reason = fi_cq_strerror(me->node.cq, error.prov_errno, error.err_data, NULL, 0);
	printf("%s: %d (%s): %s\n", me->mortal ? "gone" : "failed", error.err, fi_strerror(error.err), reason);
	if (!me->mortal)
		exit(4);
	expect_nothing_more(me);
	finish(me);
	exit(0);
}

static void progress(struct party *me)
{
	struct fi_cq_tagged_entry entries[4];
	ssize_t got = me->sleeps ? fi_cq_sread(me->node.cq, entries, 4, NULL, 1000)
				 : fi_cq_read(me->node.cq, entries, 4);

	if (got == -FI_EAVAIL)
		return failed(me);
	if (got == -FI_EAGAIN)
		return;
	expect("fi_cq_read", got);
	for (ssize_t at = 0; at < got; at++) {
		struct slot *slot = entries[at].op_context;

		if (entries[at].flags & FI_REMOTE_WRITE) {
			if (entries[at].data != (uint32_t)me->written)
				wrong("data of a write", entries[at].data, me->written);
			me->written++;
		} else if (slot >= me->receives[0] && slot < me->receives[2]) {
			check(me, slot, &entries[at]);
		} else {
			slot->busy = 0;
		}
	}
}

static void await_end(struct party *me, struct slot *slot, const char *what)
{
	double deadline = now_s() + PATIENCE_S;

	while (slot->busy) {
		progress(me);
		if (now_s() > deadline) {
			printf("round %u: %s does not end\n", me->round, what);
			exit(5);
		}
	}
}

static void send_one(struct party *me, uint32_t index)
{
	struct slot *slot = &me->sends[index];
	int is_tagged = index % 2;
	uint64_t number = (uint64_t)me->round * (BATCH / 2) + index / 2;
	uint64_t drawn = fate(me->id, is_tagged, number);
	size_t len = length(drawn);
	struct iovec iov = { slot->buffer, len };
	uint64_t flags = FI_COMPLETION | (me->delivers ? FI_DELIVERY_COMPLETE : 0) | (drawn & 1 << 6 ? FI_REMOTE_CQ_DATA : 0);
	struct fi_msg msg = { &iov, &me->desc, 1, me->peer, &slot->context, (uint32_t)number };
	struct fi_msg_tagged tagged = { &iov, &me->desc, 1, me->peer, number, 0, &slot->context, (uint32_t)number };
	double deadline = now_s() + PATIENCE_S;
	ssize_t sent;

	await_end(me, slot, "a send");
	for (size_t at = 0; at < len; at++)
		slot->buffer[at] = (char)pattern(drawn, at);
	do {
		sent = is_tagged ? fi_tsendmsg(me->node.ep, &tagged, flags) : fi_sendmsg(me->node.ep, &msg, flags);
		if (sent == -FI_EAGAIN)
			progress(me);
	} while (sent == -FI_EAGAIN && now_s() < deadline);
	expect("fi_sendmsg", sent);
	slot->busy = 1;
}

/* Starts an access until it is taken, and waits for its end. */
#define ACCESS(me, call) do { \
	ssize_t started; \
	double until = now_s() + PATIENCE_S; \
	while ((started = (call)) == -FI_EAGAIN && now_s() < until) \
		progress(me); \
	expect(#call, started); \
	(me)->access.busy = 1; \
	await_end(me, &(me)->access, #call); \
} while (0)

/* Checks what an atomic has brought back. */
static void expect_fetched(struct party *me, int at, const char *what, uint64_t wanted)
{
	if (me->fetched[at] != wanted)
		wrong(what, me->fetched[at], wanted);
}

/* Counts in the other one's memory: by an atomic that brings nothing back, one that does, one that compares, and one from two places into two. */
static void count_there(struct party *me)
{
	uint64_t at = me->window_at + window_len(), key = me->window_key, round = me->round;
	uint64_t *operands = (uint64_t *)me->scratch;
	void *desc[] = { me->desc, me->desc };
	struct fi_ioc from[] = { { operands, 1 }, { operands + 8, 2 } }, into[] = { { me->fetched, 2 }, { me->fetched + 8, 1 } };
	struct fi_rma_ioc counter = { at, 1, key }, counters = { at + 16, 3, key };
	struct fi_msg_atomic plain = { from, desc, 1, me->peer, &counter, 1, FI_UINT64, FI_SUM, &me->access.context, 0 };
	struct fi_msg_atomic pieces = { from, desc, 2, me->peer, &counters, 1, FI_UINT64, FI_SUM, &me->access.context, 0 };

	operands[0] = operands[8] = operands[9] = 1;
	ACCESS(me, fi_atomicmsg(me->node.ep, &plain, FI_COMPLETION | FI_DELIVERY_COMPLETE));
	ACCESS(me, fi_fetch_atomic(me->node.ep, operands, 1, me->desc, me->fetched, me->desc, me->peer, at, key, FI_UINT64, FI_SUM,
				   &me->access.context));
	expect_fetched(me, 0, "count", 2 * round + 1);
	ACCESS(me, fi_fetch_atomicmsg(me->node.ep, &pieces, into, desc, 2, FI_COMPLETION));
	expect_fetched(me, 0, "first of three counts", round);
	expect_fetched(me, 1, "second of three counts", round);
	expect_fetched(me, 8, "third of three counts", round);
	operands[0] = round + 1;
	operands[1] = round;
	ACCESS(me, fi_compare_atomic(me->node.ep, operands, 1, me->desc, operands + 1, me->desc, me->fetched, me->desc, me->peer, at + 8, key,
				     FI_UINT64, FI_CSWAP, &me->access.context));
	expect_fetched(me, 0, "count that is compared", round);
}

/* Counts in two places by one atomic, if this end sends such ones. */
static void count_in_two_places(struct party *me)
{
	uint64_t at = me->window_at + window_len(), key = me->window_key, *operands = (uint64_t *)me->scratch;
	struct fi_ioc from = { operands, 2 }, into = { me->fetched, 2 };
	struct fi_rma_ioc counters[] = { { at + 56, 1, key }, { at + 80, 1, key } };
	struct fi_msg_atomic both = { &from, &me->desc, 1, me->peer, counters, 2, FI_UINT64, FI_SUM, &me->access.context, 0 };

	if (me->node.info->tx_attr->rma_iov_limit < 2)
		return;
	operands[0] = 1;
	operands[1] = 3;
	ACCESS(me, fi_fetch_atomicmsg(me->node.ep, &both, &into, &me->desc, 1, FI_COMPLETION));
	expect_fetched(me, 0, "first of two counts", me->round);
	expect_fetched(me, 1, "second of two counts", 3 * me->round);
}

/* Starts an atomic that writes one number, and does not wait for its end. */
static void begin_writing(struct party *me, struct slot *slot, uint64_t *number, uint64_t at)
{
	double until = now_s() + PATIENCE_S;
	ssize_t started;

	do {
		started = fi_atomic(me->node.ep, number, 1, me->desc, me->peer, at, me->window_key, FI_UINT64, FI_ATOMIC_WRITE, &slot->context);
		if (started == -FI_EAGAIN)
			progress(me);
	} while (started == -FI_EAGAIN && now_s() < until);
	expect("fi_atomic", started);
	slot->busy = 1;
}

/* Writes numbers to one place, one after the other, and finds the last one there: atomics are carried out in their order. */
static void write_in_order(struct party *me)
{
	uint64_t at = me->window_at + window_len() + 48;
	uint64_t *numbers = (uint64_t *)me->scratch;

	for (int index = 0; index < ORDERED; index++) {
		numbers[index] = (uint64_t)me->round * ORDERED + (unsigned)index;
		begin_writing(me, &me->ordered[index], &numbers[index], at);
	}
	ACCESS(me, fi_fetch_atomic(me->node.ep, numbers, 1, me->desc, me->fetched, me->desc, me->peer, at, me->window_key, FI_UINT64,
				   FI_ATOMIC_READ, &me->access.context));
	expect_fetched(me, 0, "last of the numbers that were written", numbers[ORDERED - 1]);
	for (int index = 0; index < ORDERED; index++)
		await_end(me, &me->ordered[index], "an atomic");
}

/* As many elements as one atomic may have: writes them, and reads, adds to and compares them. */
static void count_many(struct party *me)
{
	uint64_t *operands = (uint64_t *)me->scratch, *compared = operands + PLACES, at = me->window_at, key = me->window_key;
	struct fi_ioc from = { operands, 0 };
	struct fi_rma_ioc into = { at, 0, key };
	struct fi_msg_atomic all = { &from, &me->desc, 1, me->peer, &into, 1, FI_UINT64, FI_ATOMIC_WRITE, &me->access.context, 0 };
	size_t count, half;

	expect("fi_fetch_atomicvalid", fi_fetch_atomicvalid(me->node.ep, FI_UINT64, FI_SUM, &count));
	expect("fi_compare_atomicvalid", fi_compare_atomicvalid(me->node.ep, FI_UINT64, FI_CSWAP, &half));
	if (count > PLACES || half > count)
		wrong("number of elements", count, PLACES);
	for (size_t index = 0; index < count; index++)
		operands[index] = me->round + index;
	from.count = into.count = count;
	ACCESS(me, fi_atomicmsg(me->node.ep, &all, FI_COMPLETION | FI_DELIVERY_COMPLETE));
	ACCESS(me, fi_fetch_atomic(me->node.ep, operands, count, me->desc, me->fetched, me->desc, me->peer, at, key, FI_UINT64, FI_SUM,
				   &me->access.context));
	for (size_t index = 0; index < count; index++)
		expect_fetched(me, (int)index, "one of many that were written", me->round + index);
	for (size_t index = 0; index < half; index++) {
		compared[index] = 2 * (me->round + index);
		operands[index] = index;
	}
	ACCESS(me, fi_compare_atomic(me->node.ep, operands, half, me->desc, compared, me->desc, me->fetched, me->desc, me->peer, at, key,
				     FI_UINT64, FI_CSWAP, &me->access.context));
	ACCESS(me, fi_fetch_atomic(me->node.ep, operands, count, me->desc, me->fetched, me->desc, me->peer, at, key, FI_UINT64, FI_ATOMIC_READ,
				   &me->access.context));
	for (size_t index = 0; index < count; index++)
		expect_fetched(me, (int)index, "one of many", index < half ? index : 2 * (me->round + index));
}

/* How many bytes an access of this round has: none in the first one of all. */
static size_t access_length(struct party *me, uint64_t drawn)
{
	if (me->round == 0)
		return 0;
	if (has_long && me->round == 1)
		return LONGEST;
	return 1 + drawn % (drawn & 1 << 9 ? window_len() : 9000);
}

/* Writes the other one's window, reads it back, and counts there. */
static void reach(struct party *me)
{
	uint64_t drawn = fate(me->id, 2, me->round), at_window, middle, cut;
	size_t len = access_length(me, drawn), offset = (window_len() - len) / 2;
	int pieces = len > 0 && drawn & 1 << 10 ? 2 : 1;
	void *desc[] = { me->desc, me->desc };

	middle = pieces == 2 ? mixed(drawn) % len : len;
	cut = pieces == 2 ? mixed(drawn + 1) % len : len;
	at_window = me->window_at + offset;

	struct iovec iov[] = { { me->scratch, middle }, { me->scratch + middle, len - middle } };
	struct fi_rma_iov target[] = { { at_window, cut, me->window_key }, { at_window + cut, len - cut, me->window_key } };
	struct fi_msg_rma msg = { iov, desc, pieces, me->peer, target, pieces, &me->access.context, me->round };

	for (size_t at = 0; at < len; at++)
		me->scratch[at] = (char)pattern(drawn, at);
	ACCESS(me, fi_writemsg(me->node.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE | FI_REMOTE_CQ_DATA));
	memset(me->scratch, 0, len);
	ACCESS(me, fi_readmsg(me->node.ep, &msg, FI_COMPLETION));
	for (size_t at = 0; at < len; at++)
		if ((uint8_t)me->scratch[at] != pattern(drawn, at))
			wrong("byte that was written and read", (uint8_t)me->scratch[at], pattern(drawn, at));
	count_there(me);
	count_in_two_places(me);
	write_in_order(me);
	count_many(me);
}

/* Reads and writes what the other one has not. Neither changes anything else. */
static void be_refused(struct party *me)
{
	struct iovec iov = { me->scratch, 9000 };
	struct fi_rma_iov target = { me->window_at, 9000, me->window_key ^ 0x5555 };
	struct fi_msg_rma msg = { &iov, &me->desc, 1, me->peer, &target, 1, &me->access.context, 0 };

	me->expects_refusal = 1;
	ACCESS(me, fi_readmsg(me->node.ep, &msg, FI_COMPLETION));
	if (me->expects_refusal)
		wrong("read of memory that there is not", 0, FI_EINVAL);
	target.key = me->window_key;
	target.addr += (uint64_t)1 << 40;
	me->expects_refusal = 1;
	ACCESS(me, fi_readmsg(me->node.ep, &msg, FI_COMPLETION));
	if (me->expects_refusal)
		wrong("read beyond the memory", 0, FI_EINVAL);
	/* Longer than a packet, so that it is announced where a device does not write by itself. */
	iov.iov_len = target.len = WINDOW;
	me->expects_refusal = 1;
	ACCESS(me, fi_writemsg(me->node.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE));
	if (me->expects_refusal)
		wrong("write beyond the memory", 0, FI_EINVAL);
}

static void play(struct party *me)
{
	double deadline = now_s() + PATIENCE_S;
	uint64_t wanted = (uint64_t)(me->round + 1) * (BATCH / 2);

	for (uint32_t index = 0; index < BATCH; index++)
		send_one(me, index);
	if (me->refused && me->round == 0)
		be_refused(me);
	if (me->reaches)
		reach(me);
	while (me->arrived[0] < wanted || me->arrived[1] < wanted || (me->reaches && me->written <= me->round)) {
		progress(me);
		if (now_s() > deadline) {
			printf("round %u: %llu and %llu messages arrived, and %llu writes\n", me->round,
			       (unsigned long long)me->arrived[0], (unsigned long long)me->arrived[1],
			       (unsigned long long)me->written);
			exit(5);
		}
	}
	me->round++;
}

static void offer(struct party *me)
{
	const uint64_t atomics = FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;
	struct fi_info *hints = efa_hints("efa", FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | (me->reaches ? FI_RMA | FI_ATOMIC : 0));

	hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS | (me->reaches ? atomics : 0);
	efa_select(&me->node, hints);
}

static void open_all(struct party *me)
{
	struct node *node = &me->node;
	size_t buffers = 2 * POSTED + BATCH, len = buffers * LONGEST + 2 * window_len() + 4 * PLACES * sizeof(uint64_t);
	uint64_t access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

	offer(me);
	node_prepare(node, FI_CQ_FORMAT_TAGGED, me->sleeps ? FI_WAIT_FD : FI_WAIT_NONE);
	if (me->solicits && me->id)
		expect("fi_setopt", fi_setopt(&node->ep->fid, FI_OPT_ENDPOINT, USE_UNSOLICITED_WRITE_RECV, &(bool){ false }, sizeof(bool)));
	node_enable(node);
	me->memory = calloc(1, len);
	expect("fi_mr_reg", fi_mr_reg(node->domain, me->memory, len, access, 0, 0, 0, &node->mr, NULL));
	me->desc = fi_mr_desc(node->mr);
	me->window = me->memory + buffers * LONGEST;
	me->counter = (uint64_t *)(me->window + window_len());
	me->fetched = me->counter + 64;
	me->scratch = (char *)(me->fetched + PLACES);
	for (size_t at = 0; at < buffers; at++) {
		struct slot *slot = at < 2 * POSTED ? &me->receives[at % 2][at / 2] : &me->sends[at - 2 * POSTED];

		slot->buffer = me->memory + at * LONGEST;
		slot->is_tagged = at % 2;
	}
}

/* Tells the other one where the window is. */
static void exchange(struct party *me, const char *folder, const char *name, const char *other)
{
	struct place mine = { (uintptr_t)me->window, fi_mr_key(me->node.mr) }, theirs;
	char file[PATH_MAX], part[PATH_MAX + 8];
	double deadline = now_s() + PATIENCE_S;
	FILE *stream;

	snprintf(file, sizeof file, "%s/%s.window", folder, name);
	snprintf(part, sizeof part, "%s.part", file);
	stream = fopen(part, "wb");
	if (!stream || fwrite(&mine, sizeof mine, 1, stream) != 1 || fclose(stream) || rename(part, file))
		expect("window", -errno);
	snprintf(file, sizeof file, "%s/%s.window", folder, other);
	while (!(stream = fopen(file, "rb"))) {
		if (now_s() > deadline)
			expect("the other one", -FI_ETIMEDOUT);
		usleep(1000);
	}
	if (fread(&theirs, sizeof theirs, 1, stream) != 1)
		expect("window", -FI_EIO);
	fclose(stream);
	me->window_at = theirs.addr;
	me->window_key = theirs.key;
}

static void say_done(const char *folder, const char *name)
{
	char file[PATH_MAX];
	FILE *out;

	snprintf(file, sizeof file, "%s/%s.done", folder, name);
	out = fopen(file, "wb");
	if (!out || fclose(out))
		expect("done", -errno);
}

static int is_done(const char *folder, const char *name)
{
	char file[PATH_MAX];

	snprintf(file, sizeof file, "%s/%s.done", folder, name);
	return !access(file, F_OK);
}

int main(int argc, char **argv)
{
	static struct party me;
	const char *other;
	long rounds;

	if (argc < 5)
		return 2;
	for (int at = 5; at < argc; at++) {
		me.sleeps |= !strcmp(argv[at], "sleep");
		me.mortal |= !strcmp(argv[at], "mortal");
		me.delivers |= !strcmp(argv[at], "delivery");
		me.reaches |= !strcmp(argv[at], "access");
		me.refused |= !strcmp(argv[at], "refused");
		me.solicits |= !strcmp(argv[at], "solicited");
		has_long |= !strcmp(argv[at], "long");
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	me.id = !strcmp(argv[2], "b");
	other = me.id ? "a" : "b";
	rounds = strtol(argv[3], NULL, 10);
	seed = strtoull(argv[4], NULL, 10);
	open_all(&me);
	node_publish(&me.node, argv[1], argv[2]);
	me.peer = node_meet(&me.node, argv[1], other);
	exchange(&me, argv[1], argv[2], other);
	for (int at = 0; at < 2 * POSTED; at++)
		post(&me, &me.receives[at % 2][at / 2]);
	while (me.round < rounds)
		play(&me);
	for (int at = 0; at < BATCH; at++)
		await_end(&me, &me.sends[at], "a send");
	/* The other one may still need this end: what was sent is answered until it has all. */
	say_done(argv[1], argv[2]);
	for (double deadline = now_s() + PATIENCE_S; !is_done(argv[1], other) && now_s() < deadline;)
		progress(&me);
	finish(&me);
	return 0;
}
