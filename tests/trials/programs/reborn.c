/*
 * reborn FOLDER SEED steady
 * reborn FOLDER SEED LIFE ROUNDS [leaves]
 *
 * The steady one has an endpoint of the fabric efa and talks with one peer after the other. Each is a process of its own, a life: it may be
 * killed at any time, or leave by closing all after some rounds without a word; the next one begins at once, and may have the number of its
 * queue pair. The life that comes to the end of its rounds says so and ends the steady one too; it must not be killed any more then.
 *
 * Both send each other messages of any length whose bytes tell the life, the sender and the number, and write, read and count in each other's
 * memory, each life in a place of its own. Every operation of the steady one ends, once: with what it should, or by an error when its peer is
 * gone or leaves, and once it is gone, further ones with that peer fail. No life receives anything that was for another one.
 *
 * After each life nothing is left of it on the device, and at the end nothing at all, descriptors included. It prints "lives N gone N reused N",
 * where reused counts lives with the queue pair's number of their predecessor.
 */
#include "efa.h"

#include <dirent.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

enum { BATCH = 6, POSTED = 12, LONGEST = 150000, LIVES = 32, PLACE = 24 << 10, AHEAD = 8, END = 0x7fffffff };

/* What a life tells the steady one, and the other way round. */
struct card { char address[32]; uint64_t window, key; };

struct slot {
	struct fi_context2 context;
	char *buffer;
	int busy, receives;
	uint64_t number;
};

struct party {
	struct node node;
	char *memory, *window;
	struct slot sends[BATCH], receives[POSTED], access;
	struct card other;
	fi_addr_t peer;
	/* How many messages arrived, receives were posted and messages sent; which one was the last word; how many were lost with the peer. */
	uint64_t arrived, posted, sent, last, round, lost;
	uint32_t life;
	int steady, gone, over, cancels;
	char reason[256];
};

static uint64_t seed;

/* What both know of the message with this number, or of the access of a round. */
static uint64_t fate(int from_steady, uint32_t life, uint64_t number)
{
	return mixed(seed * 1000003u + number * 64u + life * 2u + (unsigned)from_steady + 0x9e3779b97f4a7c15u);
}

static size_t length(uint64_t fate)
{
	switch (fate % 8) {
	case 0: return 0;
	case 1: return (fate >> 8) % LONGEST;
	case 2: case 3: return (fate >> 8) % 40000;
	default: return (fate >> 8) % 3000;
	}
}

static uint8_t pattern(uint64_t fate, size_t at)
{
	return (uint8_t)((fate >> 32) + at * 11 + (at >> 8));
}

static void wrong(const struct party *me, const char *what, uint64_t got, uint64_t wanted)
{
	printf("life %u: wrong %s: %llu, not %llu\n", me->life, what, (unsigned long long)got,
	       (unsigned long long)wanted);
	exit(3);
}

static int descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;

	if (!folder)
		exit(2);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static const char *const KINDS[] = { "qp", "cq", "mr", "channel", "pd", "context", "ah" };

struct counts { int of[7]; };

static struct counts counted(void)
{
	struct counts counts;

	for (int at = 0; at < 7; at++)
		counts.of[at] = objects(KINDS[at]);
	return counts;
}

/* Address handles may stay as long as the endpoint: one for each port of a peer. */
static void expect_no_more(const struct party *me, const struct counts *before, int handles)
{
	struct counts now = counted();

	for (int at = 0; at < 7; at++)
		if (now.of[at] != before->of[at] && !(at == 6 && now.of[at] <= handles))
			wrong(me, KINDS[at], (uint64_t)now.of[at], (uint64_t)before->of[at]);
}

static void open_all(struct party *me)
{
	struct node *node = &me->node;
	size_t len = (size_t)(BATCH + POSTED) * LONGEST + PLACE;

	efa_select(node, efa_hints("efa", FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_RMA | FI_ATOMIC));
	node_make(node, FI_WAIT_NONE);
	me->memory = calloc(1, len);
	me->window = calloc(LIVES, PLACE);
	if (!me->memory || !me->window)
		exit(2);
	for (int at = 0; at < BATCH + POSTED; at++) {
		struct slot *slot = at < BATCH ? &me->sends[at] : &me->receives[at - BATCH];

		slot->buffer = me->memory + (size_t)at * LONGEST;
		slot->receives = at >= BATCH;
	}
	me->access.buffer = me->memory + (size_t)(BATCH + POSTED) * LONGEST;
	expect("fi_mr_reg", fi_mr_reg(node->domain, me->window, (size_t)LIVES * PLACE, FI_REMOTE_READ | FI_REMOTE_WRITE,
				      0, 0, 0, &node->mr, NULL));
}

static void close_all(struct party *me)
{
	node_end(&me->node);
	fi_freeinfo(me->node.info);
	free(me->memory);
	free(me->window);
}

static void name_of(char *file, const char *folder, int number)
{
	snprintf(file, PATH_MAX, number < 0 ? "%s/steady" : "%s/life-%d", folder, number);
}

static void publish(struct party *me, const char *folder, int number)
{
	struct card card = { .window = (uintptr_t)me->window, .key = fi_mr_key(me->node.mr) };
	size_t len = sizeof card.address;
	char file[PATH_MAX], part[PATH_MAX + 8];
	FILE *out;

	expect("fi_getname", fi_getname(&me->node.ep->fid, card.address, &len));
	name_of(file, folder, number);
	snprintf(part, sizeof part, "%s.part", file);
	out = fopen(part, "wb");
	if (!out || fwrite(&card, sizeof card, 1, out) != 1 || fclose(out) || rename(part, file))
		expect("publish", -errno);
}

/* Reads the card of a life, or of the steady one; returns whether it is there. */
static int read_card(const char *folder, int number, struct card *card)
{
	char file[PATH_MAX];
	FILE *in;

	name_of(file, folder, number);
	in = fopen(file, "rb");
	if (!in)
		return 0;
	if (fread(card, sizeof *card, 1, in) != 1)
		exit(2);
	fclose(in);
	return 1;
}

static void check_message(struct party *me, struct slot *slot, const struct fi_cq_tagged_entry *entry)
{
	uint64_t number = (uint32_t)entry->tag, drawn = fate(!me->steady, me->life, number);
	size_t len = length(drawn);

	if (entry->tag >> 32 != me->life)
		wrong(me, "life that a message is for", entry->tag >> 32, me->life);
	if (number == END) {
		me->last = slot->number;
		return;
	}
	/* Messages match receives in the order in which both were posted; a long one may end after a short one. What a life had announced and not
	   sent is lost with it, and those behind match earlier receives then. */
	if (number < slot->number || (!me->steady && number != slot->number))
		wrong(me, "number", number, slot->number);
	if (number - slot->number > me->lost)
		me->lost = number - slot->number;
	if (entry->len != len)
		wrong(me, "length", entry->len, len);
	for (size_t at = 0; at < len; at++)
		if ((uint8_t)slot->buffer[at] != pattern(drawn, at))
			wrong(me, "byte", (uint8_t)slot->buffer[at], pattern(drawn, at));
	memset(slot->buffer, 0xee, len);
	me->arrived++;
}

/* Takes what ended. An error is the end of the peer: only the steady one may see that. */
static void progress(struct party *me)
{
	struct fi_cq_tagged_entry entry = { 0 };
	struct fi_cq_err_entry error = { 0 };
	ssize_t got = fi_cq_read(me->node.cq, &entry, 1);
	struct slot *slot = entry.op_context;

	if (got == -FI_EAGAIN)
		return;
	if (got == -FI_EAVAIL) {
		expect("fi_cq_readerr", fi_cq_readerr(me->node.cq, &error, 0));
		snprintf(me->reason, sizeof me->reason, "%s: %s", fi_strerror(error.err),
			 fi_cq_strerror(me->node.cq, error.prov_errno, error.err_data, NULL, 0));
		if (me->cancels && error.err == FI_ECANCELED) {
			((struct slot *)error.op_context)->busy = 0;
			return;
		}
		if (!me->steady) {
			slot = error.op_context;
			printf("life %u: %s %llu failed in round %llu: %s\n", me->life,
			       slot == &me->access ? "access" : slot->receives ? "receive" : "send",
			       (unsigned long long)slot->number, (unsigned long long)me->round, me->reason);
			exit(4);
		}
		me->gone = 1;
		slot = error.op_context;
	} else {
		expect("fi_cq_read", got);
	}
	if (!slot || !slot->busy)
		wrong(me, "end of an operation that was not under way", slot ? slot->number : 0, 0);
	slot->busy = 0;
	if (got == 1 && slot->receives)
		check_message(me, slot, &entry);
	me->over = me->arrived == me->last;
}

/* Starts an operation as soon as there is room; a peer that is gone lets it fail at once or later. */
#define START(me, slot, call) do { \
	double until = now_s() + PATIENCE_S; \
	ssize_t started; \
	(slot)->busy = 1; \
	while ((started = (call)) == -FI_EAGAIN && !(me)->gone) { \
		progress(me); \
		if (now_s() > until) \
			expect(#call, -FI_ETIMEDOUT); \
	} \
	if (started < 0) { \
		(slot)->busy = 0; \
		if (!(me)->steady) \
			expect(#call, started); \
		(me)->gone = 1; \
	} \
} while (0)

static void post_receives(struct party *me)
{
	uint64_t tag = (uint64_t)me->life << 32, any = me->steady ? UINT32_MAX : UINT64_MAX;

	for (int at = 0; at < POSTED && !me->gone; at++) {
		struct slot *slot = &me->receives[at];

		/* A life takes whatever comes, to see what is for another one. */
		if (slot->busy)
			continue;
		slot->number = me->posted++;
		START(me, slot, fi_trecv(me->node.ep, slot->buffer, LONGEST, NULL,
					 me->steady ? me->peer : FI_ADDR_UNSPEC, tag, any, &slot->context));
	}
}

static void await_end(struct party *me, struct slot *slot, const char *what)
{
	double deadline = now_s() + PATIENCE_S;

	while (slot->busy) {
		progress(me);
		if (now_s() > deadline) {
			printf("life %u, round %llu: %s does not end\n", me->life, (unsigned long long)me->round, what);
			exit(5);
		}
	}
}

static void send_next(struct party *me)
{
	struct slot *slot = &me->sends[me->sent % BATCH];
	uint64_t drawn = fate(me->steady, me->life, me->sent);
	size_t len = length(drawn);
	struct iovec iov = { slot->buffer, len };
	struct fi_msg_tagged msg = { &iov, NULL, 1, me->peer, (uint64_t)me->life << 32 | me->sent, 0, &slot->context, 0 };

	await_end(me, slot, "a send");
	if (me->gone)
		return;
	for (size_t at = 0; at < len; at++)
		slot->buffer[at] = (char)pattern(drawn, at);
	slot->number = me->sent++;
	START(me, slot, fi_tsendmsg(me->node.ep, &msg, FI_COMPLETION | (drawn & 1 << 7 ? FI_DELIVERY_COMPLETE : 0)));
}

/* Writes into this life's place of the other one's memory, reads it back, and counts there. */
static void reach(struct party *me)
{
	struct slot *slot = &me->access;
	uint64_t drawn = fate(me->steady, me->life, me->round + 1000000), place = me->other.window + (uint64_t)me->life * PLACE;
	size_t len = 1 + drawn % (PLACE - 64);
	struct iovec iov = { slot->buffer, len };
	struct fi_rma_iov target = { place + 64, len, me->other.key };
	struct fi_msg_rma msg = { &iov, NULL, 1, me->peer, &target, 1, &slot->context, 0 };
	uint64_t one = 1, *fetched = (uint64_t *)slot->buffer + 1;

	for (size_t at = 0; at < len; at++)
		slot->buffer[at] = (char)pattern(drawn, at);
	START(me, slot, fi_writemsg(me->node.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE));
	await_end(me, slot, "a write");
	if (me->gone)
		return;
	memset(slot->buffer, 0, len);
	START(me, slot, fi_read(me->node.ep, slot->buffer, len, NULL, me->peer, target.addr, target.key, &slot->context));
	await_end(me, slot, "a read");
	for (size_t at = 0; at < len && !me->gone; at++)
		if ((uint8_t)slot->buffer[at] != pattern(drawn, at))
			wrong(me, "byte that was written and read", (uint8_t)slot->buffer[at], pattern(drawn, at));
	if (me->gone)
		return;
	memcpy(slot->buffer, &one, sizeof one);
	START(me, slot, fi_fetch_atomic(me->node.ep, slot->buffer, 1, NULL, fetched, NULL, me->peer, place, me->other.key,
					FI_UINT64, FI_SUM, &slot->context));
	await_end(me, slot, "an atomic");
	if (!me->gone && *fetched != me->round)
		wrong(me, "count", *fetched, me->round);
}

static void play(struct party *me)
{
	double deadline = now_s() + PATIENCE_S;

	for (int at = 0; at < BATCH && !me->gone; at++)
		send_next(me);
	if (!me->gone)
		reach(me);
	while (!me->gone && !me->over && me->arrived < (me->round + 1) * BATCH) {
		post_receives(me);
		progress(me);
		if (now_s() > deadline) {
			printf("life %u, round %llu: only %llu messages arrived\n", me->life,
			       (unsigned long long)me->round, (unsigned long long)me->arrived);
			exit(5);
		}
	}
	me->round++;
}

static void await_sends(struct party *me)
{
	for (int at = 0; at < BATCH; at++)
		await_end(me, &me->sends[at], "a send");
}

/* Says that this was the last round, and waits until the other one has said so, too. */
static void part(struct party *me)
{
	struct slot *slot = &me->sends[0];
	double deadline = now_s() + PATIENCE_S;

	await_sends(me);
	START(me, slot, fi_tsend(me->node.ep, slot->buffer, 0, NULL, me->peer, (uint64_t)me->life << 32 | END, &slot->context));
	await_end(me, slot, "the last send");
	while (!me->over && !me->gone) {
		post_receives(me);
		progress(me);
		if (now_s() > deadline)
			expect("the other one's last word", -FI_ETIMEDOUT);
	}
}

/* Waits for the card of the next life; those that were killed too early have none. */
static void meet_next(struct party *me, const char *folder, uint32_t next)
{
	double deadline = now_s() + PATIENCE_S;

	for (uint32_t at = 0;; at = (at + 1) % AHEAD) {
		progress(me);
		if (read_card(folder, (int)(next + at), &me->other)) {
			me->life = next + at;
			break;
		}
		if (now_s() > deadline)
			expect("the next life", -FI_ETIMEDOUT);
		usleep(200);
	}
	if (me->life >= LIVES)
		exit(2);
	me->peer = node_insert(&me->node, me->other.address);
	me->arrived = me->posted = me->sent = me->round = me->lost = 0;
	me->last = UINT64_MAX;
	me->gone = me->over = 0;
}

static void cancel_receives(struct party *me)
{
	me->cancels = 1;
	for (int at = 0; at < POSTED; at++)
		if (me->receives[at].busy) {
			int done = fi_cancel(&me->node.ep->fid, &me->receives[at].context);

			/* What has ended already is reported yet. */
			expect("fi_cancel", done == -FI_ENOENT ? 0 : done);
		}
	for (int at = 0; at < POSTED; at++)
		await_end(me, &me->receives[at], "a receive that was cancelled");
	me->cancels = 0;
}

/* After the end of a life everything with it has ended, and what is begun then fails. Only receives that were posted after its end are still there.
   A life that leaves takes back what it had announced before its queue pair is gone: until then, sends to it still arrive. */
static void bury(struct party *me)
{
	struct slot *slot = &me->sends[0];
	double deadline = now_s() + PATIENCE_S;

	await_sends(me);
	cancel_receives(me);
	me->gone = 0;
	while (!me->gone) {
		START(me, slot, fi_tsend(me->node.ep, slot->buffer, 8, NULL, me->peer, END, &slot->context));
		await_end(me, slot, "a send to a life that is gone");
		if (now_s() > deadline)
			wrong(me, "send to a life that is gone", 0, 1);
	}
}

/* A sum of the place of a life. */
static uint64_t place_sum(const struct party *me, uint32_t life)
{
	uint64_t sum = 0;

	for (size_t at = 0; at < PLACE; at++)
		sum = mixed(sum + (uint8_t)me->window[(size_t)life * PLACE + at] + 1);
	return sum;
}

static void be_steady(struct party *me, const char *folder)
{
	struct counts before = { 0 }, open;
	unsigned lives = 0, gone = 0, reused = 0;
	uint64_t sums[LIVES] = { 0 };
	uint16_t last_qpn = 0;
	uint32_t last_connid = 0, next = 0;
	int before_fds;

	me->steady = 1;
	/* What the first use makes for the rest of the process is no leak. */
	open_all(me);
	close_all(me);
	expect_no_more(me, &before, 0);
	before_fds = descriptors();
	open_all(me);
	open = counted();
	if (open.of[0] != 1)
		wrong(me, "number of queue pairs", (uint64_t)open.of[0], 1);
	publish(me, folder, -1);
	do {
		uint16_t qpn;
		uint32_t connid;
		struct fid_mr *mr;

		meet_next(me, folder, next);
		memcpy(&qpn, me->other.address + 16, sizeof qpn);
		memcpy(&connid, me->other.address + 20, sizeof connid);
		if (lives && qpn == last_qpn && connid == last_connid)
			wrong(me, "connid", connid, 0);
		reused += lives && qpn == last_qpn;
		last_qpn = qpn;
		last_connid = connid;
		next = me->life + 1;
		lives++;
		expect("fi_mr_reg", fi_mr_reg(me->node.domain, me->memory, LONGEST, FI_SEND | FI_RECV, 0, 0, 0, &mr, NULL));
		post_receives(me);
		while (!me->gone && !me->over)
			play(me);
		if (me->gone) {
			gone++;
			printf("life %u gone in round %llu: %s\n", me->life, (unsigned long long)me->round, me->reason);
			bury(me);
		} else {
			part(me);
			cancel_receives(me);
			if (me->lost && !me->gone)
				wrong(me, "number of lost messages", me->lost, 0);
			me->over = 1;
			me->gone = 0;
		}
		expect("fi_close region", fi_close(&mr->fid));
		expect("fi_av_remove", fi_av_remove(me->node.av, &me->peer, 1, 0));
		expect_no_more(me, &open, open.of[6] + 1);
		sums[me->life] = place_sum(me, me->life);
	} while (!me->over);
	/* Nothing of a life that was gone has been written later. */
	for (uint32_t life = 0; life < LIVES; life++)
		if (sums[life] && sums[life] != place_sum(me, life))
			wrong(me, "place of a life that is gone", place_sum(me, life), sums[life]);
	close_all(me);
	expect_no_more(me, &before, 0);
	if (descriptors() != before_fds)
		wrong(me, "number of descriptors", (uint64_t)descriptors(), (uint64_t)before_fds);
	printf("lives %u gone %u reused %u\n", lives, gone, reused);
}

/* Leaves after the rounds: with a word and all that is under way ended, or without. */
static void live(struct party *me, const char *folder, long rounds, int leaves)
{
	double deadline = now_s() + PATIENCE_S;
	struct counts none = { 0 };

	me->last = UINT64_MAX;
	open_all(me);
	while (!read_card(folder, -1, &me->other)) {
		if (now_s() > deadline)
			expect("the steady one", -FI_ETIMEDOUT);
		usleep(200);
	}
	me->peer = node_insert(&me->node, me->other.address);
	publish(me, folder, (int)me->life);
	post_receives(me);
	while ((long)me->round < rounds)
		play(me);
	if (!leaves) {
		part(me);
		cancel_receives(me);
	} else {
		send_next(me);
	}
	close_all(me);
	expect_no_more(me, &none, 0);
	printf("life %u has left\n", me->life);
}

int main(int argc, char **argv)
{
	static struct party me;

	if (argc < 4)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	seed = strtoull(argv[2], NULL, 10);
	if (!strcmp(argv[3], "steady")) {
		be_steady(&me, argv[1]);
		return 0;
	}
	me.life = (uint32_t)strtoul(argv[3], NULL, 10);
	if (argc < 5 || me.life >= LIVES)
		return 2;
	live(&me, argv[1], strtol(argv[4], NULL, 10), argc > 5);
	return 0;
}
