/*
 * reach FOLDER a|b ROUNDS SEED [solicited]
 *
 * Two endpoints of efa-direct write and read each other's memory. In each round both write some bytes to the other's memory with completion
 * data, and check what was written to their own; both read some bytes that the other has made ready, and check these. A message says that a round is over.
 *
 * With solicited, what the other one writes with data uses up receives of b, which says so when it asks for its endpoint.
 *
 * It prints "reached N rounds". Where no offer has reads and writes, it ends with FI_ENODATA as every failed call does.
 */
#include "efa.h"

#include <rdma/fi_rma.h>

/* Places in the memory: what the other one writes, what is written there, what is read, and what was made ready, of which there are two. */
enum { ROOM = 1 << 16, OVER = 8, HALF = ROOM, READ = 2 * ROOM, MADE = 3 * ROOM, WHOLE = 5 * ROOM };

struct exposed {
	uint64_t address, key;
};

struct party {
	struct node node;
	struct exposed peer_memory;
	fi_addr_t peer;
	uint8_t *memory;
	void *desc;
	struct fi_context2 written, was_read, sent, received[OVER];
	int pending, overs;
	uint64_t told, seed;
	int id, solicits;
};

/* Both sides know what a side does in a round. */
static size_t length(const struct party *me, int side, uint64_t round, int is_read)
{
	return 1 + mixed(me->seed * 1009 + round * 4 + (unsigned)side * 2 + (unsigned)is_read) % (ROOM - 1);
}

static uint8_t pattern(int side, uint64_t round, int is_read, size_t at)
{
	return (uint8_t)(mixed(round * 4 + (unsigned)side * 2 + (unsigned)is_read) + at * 13);
}

static void fill(uint8_t *place, int side, uint64_t round, int is_read, size_t len)
{
	for (size_t at = 0; at < len; at++)
		place[at] = pattern(side, round, is_read, at);
}

static void check(const char *what, const uint8_t *place, int side, uint64_t round, int is_read, size_t len)
{
	for (size_t at = 0; at < len; at++)
		if (place[at] != pattern(side, round, is_read, at)) {
			printf("round %llu: byte %zu %s is wrong\n", (unsigned long long)round, at, what);
			exit(3);
		}
}

static size_t made(uint64_t round)
{
	return MADE + round % 2 * ROOM;
}

static void listen(struct party *me, struct fi_context2 *context)
{
	expect("fi_recv", fi_recv(me->node.ep, me->memory, 8, me->desc, FI_ADDR_UNSPEC, context));
}

static void progress(struct party *me)
{
	struct fi_cq_data_entry entry;
	struct fi_cq_err_entry error = { 0 };
	ssize_t got = fi_cq_read(me->node.cq, &entry, 1);

	if (got == -FI_EAGAIN)
		return;
	if (got == -FI_EAVAIL) {
		expect("fi_cq_readerr", fi_cq_readerr(me->node.cq, &error, 0));
		printf("failed: %d: %s\n", error.err,
		       fi_cq_strerror(me->node.cq, error.prov_errno, error.err_data, NULL, 0));
		exit(4);
	}
	expect("fi_cq_read", got);
	if (entry.flags & FI_REMOTE_WRITE) {
		me->told = entry.data;
		if (me->solicits != !!entry.op_context) {
			printf("a write used up %s\n", entry.op_context ? "a receive" : "no receive");
			exit(5);
		}
		if (me->solicits)
			listen(me, entry.op_context);
	} else if (entry.flags & FI_RECV) {
		me->overs++;
		listen(me, entry.op_context);
	} else {
		me->pending--;
	}
}

static void until(struct party *me, const char *what, const int *pending, const uint64_t *told, uint64_t round)
{
	double deadline = now_s() + PATIENCE_S;

	while ((pending && *pending) || (told && *told != round)) {
		progress(me);
		if (now_s() > deadline)
			expect(what, -FI_ETIMEDOUT);
	}
}

static void play(struct party *me, uint64_t round)
{
	struct node *node = &me->node;
	struct exposed *there = &me->peer_memory;
	size_t out = length(me, me->id, round, 0), in = length(me, !me->id, round, 0);
	size_t asked = length(me, me->id, round, 1);
	double deadline = now_s() + PATIENCE_S;

	fill(me->memory + HALF, me->id, round, 0, out);
	expect("fi_writedata", fi_writedata(node->ep, me->memory + HALF, out, me->desc, round, me->peer, there->address,
					    there->key, &me->written));
	memset(me->memory + READ, 0xee, ROOM);
	expect("fi_read", fi_read(node->ep, me->memory + READ, asked, me->desc, me->peer, there->address + made(round),
				  there->key, &me->was_read));
	me->pending += 2;
	until(me, "write and read", &me->pending, NULL, 0);
	until(me, "the other one's write", NULL, &me->told, round);
	check("that was written", me->memory, !me->id, round, 0, in);
	check("that was read", me->memory + READ, !me->id, round, 1, asked);
	/* The other one has read, and has seen what was written, when it says so. It may begin the next round then. */
	fill(me->memory + made(round + 1), me->id, round + 1, 1, ROOM);
	expect("fi_send", fi_send(node->ep, me->memory + HALF, 8, me->desc, me->peer, &me->sent));
	me->pending++;
	until(me, "send", &me->pending, NULL, 0);
	while (me->overs < (int)round) {
		progress(me);
		if (now_s() > deadline)
			expect("the end of the round", -FI_ETIMEDOUT);
	}
}

static void open_all(struct party *me)
{
	struct node *node = &me->node;
	struct fi_info *hints;
	int code;

	hints = efa_hints("efa-direct", FI_MSG | FI_RMA);
	if (me->solicits)
		hints->mode |= FI_RX_CQ_DATA;
	efa_select(node, hints);
	node_prepare(node, FI_CQ_FORMAT_DATA, FI_WAIT_NONE);
	/* An application without receives for them cannot have them used up. */
	code = fi_setopt(&node->ep->fid, FI_OPT_ENDPOINT, USE_UNSOLICITED_WRITE_RECV, &(bool){ false }, sizeof(bool));
	if (code != (me->solicits ? 0 : -FI_EOPNOTSUPP))
		expect("fi_setopt", code ? code : -FI_EOTHER);
	node_enable(node);
	me->memory = calloc(1, WHOLE);
	expect("fi_mr_reg", fi_mr_reg(node->domain, me->memory, WHOLE,
				      FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0,
				      &node->mr, NULL));
	me->desc = fi_mr_desc(node->mr);
	fill(me->memory + made(1), me->id, 1, 1, ROOM);
	for (int at = 0; at < OVER; at++)
		listen(me, &me->received[at]);
}

/* Reads and writes nothing, which a device does, too, and asks how much of a write may be injected. */
static void reach_nothing(struct party *me)
{
	struct exposed *there = &me->peer_memory;
	size_t inject = 1, len = sizeof inject;

	expect("fi_getopt", fi_getopt(&me->node.ep->fid, FI_OPT_ENDPOINT, INJECT_RMA_SIZE, &inject, &len));
	expect("fi_read", fi_read(me->node.ep, me->memory, 0, me->desc, me->peer, there->address, there->key, &me->was_read));
	expect("fi_write", fi_write(me->node.ep, NULL, 0, NULL, me->peer, there->address, there->key, &me->written));
	me->pending += 2;
	until(me, "write and read of nothing", &me->pending, NULL, 0);
	if (inject) {
		printf("%zu bytes of a write may be injected\n", inject);
		exit(6);
	}
}

/* Makes own memory known, and waits for that of the other one: then its address is in the vector, too. */
static void expose(struct party *me, const char *folder, const char *name, const char *other)
{
	struct exposed mine = { (uintptr_t)me->memory, fi_mr_key(me->node.mr) };
	char file[PATH_MAX], unfinished[PATH_MAX];
	double deadline = now_s() + PATIENCE_S;
	FILE *stream;

	snprintf(file, sizeof file, "%s/%s.memory", folder, name);
	snprintf(unfinished, sizeof unfinished, "%s/%s.unfinished", folder, name);
	stream = fopen(unfinished, "wb");
	if (!stream || fwrite(&mine, sizeof mine, 1, stream) != 1 || fclose(stream) || rename(unfinished, file))
		expect("expose", -errno);
	snprintf(file, sizeof file, "%s/%s.memory", folder, other);
	while (!(stream = fopen(file, "rb"))) {
		if (now_s() > deadline)
			expect("the other one", -FI_ETIMEDOUT);
		usleep(1000);
	}
	if (fread(&me->peer_memory, sizeof me->peer_memory, 1, stream) != 1)
		expect("the other one", -FI_EIO);
	fclose(stream);
}

int main(int argc, char **argv)
{
	static struct party me;
	const char *other;
	uint64_t rounds;

	if (argc < 5)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	me.id = !strcmp(argv[2], "b");
	me.solicits = me.id && argc > 5 && !strcmp(argv[5], "solicited");
	other = me.id ? "a" : "b";
	rounds = strtoull(argv[3], NULL, 10);
	me.seed = strtoull(argv[4], NULL, 10);
	open_all(&me);
	node_publish(&me.node, argv[1], argv[2]);
	me.peer = node_meet(&me.node, argv[1], other);
	expose(&me, argv[1], argv[2], other);
	reach_nothing(&me);
	for (uint64_t round = 1; round <= rounds; round++)
		play(&me, round);
	printf("reached %llu rounds\n", (unsigned long long)rounds);
	node_close(&me.node);
	free(me.memory);
	return 0;
}
