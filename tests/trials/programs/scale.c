/*
 * What grows with the number of peers, and what it costs to have a fabric at all. The last word printed is the figure.
 *
 *     scale PROVIDER MEASURE COUNT
 *
 * Of an endpoint with COUNT peers, which are endpoints of a second process:
 * inserted   bytes of memory a peer whose address is in the address vector
 * connected  the same when a message of 8 bytes has gone to each and one has come back
 * active     the same after 64 messages of 1 KiB to each and back, 8 in a row
 * connect    microseconds a peer until the first message has gone to each and one has come back
 * poll       nanoseconds of processor time of a read of the completion queue that finds nothing, with all connected and silent
 * sleep      the share of a second's wait for a completion that the processor works, with all connected and silent
 *
 * Of a domain with COUNT endpoints beside the one whose completion queue is read; theirs is not:
 * beside     nanoseconds of processor time of a read that finds nothing
 * leave      microseconds of processor time from a message that one of them sends, the first to its peer, to its arrival; the reads between are
 *            those of that queue and of the peer's. The mean of 16.
 *
 * Without peers, the mean of COUNT:
 * open       microseconds to open and close fabric, domain, address vector, completion queue and endpoint
 * getinfo    microseconds of a call of fi_getinfo; with COUNT 1 that is the first one of a process
 *
 * Memory is what the process has resident; buffers of sockets, which the system has, are not in it.
 */
#include <sys/socket.h>
#include <sys/wait.h>

#include "node.h"

enum { IN_A_ROW = 8, ROUNDS = 8, AT_ONCE = 128, BODY = 1024, SHORT = 8, BATCH = 64, SETTLE = 10000 };

/* ---- The other process: endpoints that answer each message with one as long. ---- */

struct slot {
	struct fi_context context;
	struct fid_ep *ep;
	size_t len;
	int answers;
	char body[BODY];
};

struct crowd {
	struct node node;
	struct fid_ep **eps;
	struct slot *slots;
	/* Slots whose answer the library had no room for. */
	struct slot **late;
	long count, late_count;
	fi_addr_t asker;
};

static void crowd_open(struct crowd *crowd, const char *provider, long count)
{
	struct node *node = &crowd->node;

	crowd->count = count;
	crowd->eps = calloc((size_t)count, sizeof(*crowd->eps));
	crowd->slots = calloc((size_t)count * IN_A_ROW, sizeof(*crowd->slots));
	crowd->late = calloc((size_t)count * IN_A_ROW, sizeof(*crowd->late));
	if (!crowd->eps || !crowd->slots || !crowd->late)
		expect("calloc", -FI_ENOMEM);
	node_open_with(node, provider, FI_TAGGED);
	crowd->eps[0] = node->ep;
	for (long i = 1; i < count; i++) {
		expect("fi_endpoint", fi_endpoint(node->domain, node->info, &crowd->eps[i], NULL));
		expect("fi_ep_bind", fi_ep_bind(crowd->eps[i], &node->av->fid, 0));
		expect("fi_ep_bind", fi_ep_bind(crowd->eps[i], &node->cq->fid, FI_TRANSMIT | FI_RECV));
		expect("fi_enable", fi_enable(crowd->eps[i]));
	}
}

static void crowd_close(struct crowd *crowd)
{
	for (long i = 1; i < crowd->count; i++)
		expect("fi_close endpoint", fi_close(&crowd->eps[i]->fid));
	node_close(&crowd->node);
}

static void slot_receive(struct slot *slot)
{
	slot->answers = 0;
	expect("fi_trecv", fi_trecv(slot->ep, slot->body, BODY, NULL, FI_ADDR_UNSPEC, 0, ~0ULL, &slot->context));
}

/* Returns whether the library took it. */
static int slot_answer(struct slot *slot, fi_addr_t asker)
{
	ssize_t result = fi_tsend(slot->ep, slot->body, slot->len, NULL, asker, 0, &slot->context);

	if (result == -FI_EAGAIN)
		return 0;
	expect("fi_tsend", result);
	slot->answers = 1;
	return 1;
}

static ssize_t crowd_turn(struct crowd *crowd)
{
	struct fi_cq_tagged_entry entries[BATCH];
	ssize_t count;

	while (crowd->late_count && slot_answer(crowd->late[crowd->late_count - 1], crowd->asker))
		crowd->late_count--;
	count = fi_cq_read(crowd->node.cq, entries, BATCH);
	if (count == -FI_EAGAIN)
		return 0;
	expect("fi_cq_read", count);
	for (ssize_t i = 0; i < count; i++) {
		struct slot *slot = entries[i].op_context;

		if (slot->answers) {
			slot_receive(slot);
			continue;
		}
		slot->len = entries[i].len;
		if (!slot_answer(slot, crowd->asker))
			crowd->late[crowd->late_count++] = slot;
	}
	return count;
}

static void read_all(int socket, void *bytes, size_t len)
{
	if (recv(socket, bytes, len, MSG_WAITALL) != (ssize_t)len)
		exit(3);
}

static void write_all(int socket, const void *bytes, size_t len)
{
	if (send(socket, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
		exit(3);
}

/* Answers until a word comes; then is silent until the socket is closed. */
static void crowd_main(const char *provider, long count, int socket)
{
	static struct crowd crowd;
	char address[ADDRESS_MAX] = { 0 }, word;
	int vain = 0;

	crowd_open(&crowd, provider, count);
	for (long i = 0; i < count; i++) {
		size_t len = sizeof(address);

		expect("fi_getname", fi_getname(&crowd.eps[i]->fid, address, &len));
		write_all(socket, address, sizeof(address));
	}
	read_all(socket, address, sizeof(address));
	crowd.asker = node_insert(&crowd.node, address);
	for (long i = 0; i < count * IN_A_ROW; i++) {
		crowd.slots[i].ep = crowd.eps[i / IN_A_ROW];
		slot_receive(&crowd.slots[i]);
	}
	write_all(socket, "r", 1);
	while (vain < BATCH || recv(socket, &word, 1, MSG_DONTWAIT) < 0)
		vain = crowd_turn(&crowd) ? 0 : vain % BATCH + 1;
	write_all(socket, "s", 1);
	while (recv(socket, &word, 1, 0) > 0)
		;
	crowd_close(&crowd);
	exit(0);
}

/* ---- This process: one endpoint that asks. ---- */

struct asker {
	struct node node;
	long count;
	fi_addr_t *peers;
	int socket;
	pid_t crowd;
	struct fi_context contexts[AT_ONCE], answer_contexts[AT_ONCE];
	char bodies[AT_ONCE][BODY], answers[AT_ONCE][BODY];
	/* What is not complete of each. */
	int pending[AT_ONCE];
};

static void asker_turn(struct asker *asker)
{
	struct fi_cq_tagged_entry entries[BATCH];
	ssize_t count = fi_cq_read(asker->node.cq, entries, BATCH);

	if (count == -FI_EAGAIN)
		return;
	expect("fi_cq_read", count);
	for (ssize_t i = 0; i < count; i++) {
		struct fi_context *context = entries[i].op_context;
		int is_answer = context >= asker->answer_contexts && context < asker->answer_contexts + AT_ONCE;

		asker->pending[context - (is_answer ? asker->answer_contexts : asker->contexts)]--;
	}
}

/* Sends a message to a peer and expects the answer, with what is no longer in use of the `place`-th. */
static void ask(struct asker *asker, int place, fi_addr_t peer, size_t len)
{
	ssize_t result;

	while (asker->pending[place])
		asker_turn(asker);
	while ((result = fi_trecv(asker->node.ep, asker->answers[place], BODY, NULL, FI_ADDR_UNSPEC, 0, 0,
				  &asker->answer_contexts[place])) == -FI_EAGAIN)
		asker_turn(asker);
	expect("fi_trecv", result);
	while ((result = fi_tsend(asker->node.ep, asker->bodies[place], len, NULL, peer, 0, &asker->contexts[place])) ==
	       -FI_EAGAIN)
		asker_turn(asker);
	expect("fi_tsend", result);
	asker->pending[place] = 2;
}

/* Asks each peer so often, and waits for all answers. */
static void ask_all(struct asker *asker, size_t len, int in_a_row, int rounds)
{
	long asked = 0;

	for (int round = 0; round < rounds; round++)
		for (long i = 0; i < asker->count; i++)
			for (int j = 0; j < in_a_row; j++)
				ask(asker, (int)(asked++ % AT_ONCE), asker->peers[i], len);
	for (int place = 0; place < AT_ONCE; place++)
		while (asker->pending[place])
			asker_turn(asker);
}

static void asker_open(struct asker *asker, const char *provider, long count, enum fi_wait_obj wait)
{
	int sockets[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		expect("socketpair", -errno);
	asker->crowd = fork();
	if (asker->crowd == 0) {
		close(sockets[0]);
		crowd_main(provider, count, sockets[1]);
	}
	close(sockets[1]);
	asker->socket = sockets[0];
	asker->count = count;
	node_open_as(&asker->node, provider, FI_TAGGED, wait);
}

/* Inserts the peers' addresses, and returns how much memory that took. */
static long asker_meet(struct asker *asker)
{
	char address[ADDRESS_MAX] = { 0 }, (*addresses)[ADDRESS_MAX] = malloc((size_t)asker->count * ADDRESS_MAX), word;
	size_t len = sizeof(address);
	long before;

	asker->peers = malloc((size_t)asker->count * sizeof(*asker->peers));
	if (!addresses || !asker->peers)
		expect("malloc", -FI_ENOMEM);
	memset(asker->peers, 0xff, (size_t)asker->count * sizeof(*asker->peers));
	memset(asker->bodies, 1, sizeof(asker->bodies));
	memset(asker->answers, 1, sizeof(asker->answers));
	for (long i = 0; i < asker->count; i++)
		read_all(asker->socket, addresses[i], ADDRESS_MAX);
	expect("fi_getname", fi_getname(&asker->node.ep->fid, address, &len));
	write_all(asker->socket, address, sizeof(address));
	read_all(asker->socket, &word, 1);

	before = resident();
	for (long i = 0; i < asker->count; i++)
		asker->peers[i] = node_insert(&asker->node, addresses[i]);
	before = resident() - before;
	free(addresses);
	return before;
}

/* All peers fall silent. */
static void asker_hush(struct asker *asker)
{
	char word;

	for (int i = 0; i < SETTLE; i++)
		asker_turn(asker);
	write_all(asker->socket, "s", 1);
	read_all(asker->socket, &word, 1);
	for (int i = 0; i < SETTLE; i++)
		asker_turn(asker);
}

static void asker_close(struct asker *asker)
{
	int status;

	node_close(&asker->node);
	close(asker->socket);
	if (waitpid(asker->crowd, &status, 0) != asker->crowd || status)
		expect("the other process", -FI_EOTHER);
}

static double processor_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double poll_ns(struct asker *asker)
{
	double start = processor_s(), worked;
	long polls = 0;

	do {
		for (int i = 0; i < BATCH; i++)
			asker_turn(asker);
		polls += BATCH;
	} while ((worked = processor_s() - start) < 0.2);
	return worked * 1e9 / (double)polls;
}

static double sleep_share(struct asker *asker)
{
	double start = now_s(), worked = processor_s(), slept;

	do {
		struct fi_cq_tagged_entry entry;
		int left_ms = (int)((1 - (now_s() - start)) * 1000) + 1;
		ssize_t result = fi_cq_sread(asker->node.cq, &entry, 1, NULL, left_ms);

		if (result != -FI_EAGAIN)
			expect("fi_cq_sread", result < 0 ? result : -FI_EOTHER);
	} while ((slept = now_s() - start) < 1);
	return (processor_s() - worked) / slept;
}

static int with_peers(const char *provider, const char *measure, long count)
{
	static struct asker asker;
	int sleeps = !strcmp(measure, "sleep");
	long base, inserted, connected;
	double start, figure;

	asker_open(&asker, provider, count, sleeps ? FI_WAIT_UNSPEC : FI_WAIT_NONE);
	inserted = asker_meet(&asker);
	base = resident() - inserted;
	start = now_s();
	ask_all(&asker, SHORT, 1, 1);
	figure = now_s() - start;
	connected = resident() - base;
	if (!strcmp(measure, "inserted")) {
		figure = (double)inserted / (double)count;
	} else if (!strcmp(measure, "connected")) {
		figure = (double)connected / (double)count;
	} else if (!strcmp(measure, "connect")) {
		figure = figure * 1e6 / (double)count;
	} else if (!strcmp(measure, "active")) {
		ask_all(&asker, BODY, IN_A_ROW, ROUNDS);
		figure = (double)(resident() - base) / (double)count;
	}
	asker_hush(&asker);
	if (sleeps)
		figure = sleep_share(&asker);
	else if (!strcmp(measure, "poll"))
		figure = poll_ns(&asker);
	asker_close(&asker);
	printf("%s %.6g\n", measure, figure);
	return 0;
}

static int alone(const char *provider, const char *measure, long count)
{
	struct node node = { 0 };
	int opens = !strcmp(measure, "open");
	double start, spent;

	if (opens)
		node_select(&node, provider, FI_TAGGED);
	start = now_s();
	for (long i = 0; i < count; i++) {
		if (opens) {
			node_make(&node, FI_WAIT_NONE);
			node_end(&node);
		} else {
			node_select(&node, provider, FI_TAGGED);
			fi_freeinfo(node.info);
		}
	}
	spent = now_s() - start;
	printf("%s %.6g\n", measure, spent * 1e6 / (double)count);
	return 0;
}

/* ---- Endpoints beside the one that is polled. ---- */

enum { LEAVING = 16 };

static void read_nothing(const struct node *node)
{
	ssize_t result = fi_cq_read(node->cq, NULL, 0);

	if (result != -FI_EAGAIN)
		expect("fi_cq_read", result < 0 ? result : -FI_EOTHER);
}

static double vain_ns(const struct node *node)
{
	double start = processor_s(), worked;
	long polls = 0;

	do {
		for (int i = 0; i < BATCH; i++)
			read_nothing(node);
		polls += BATCH;
	} while ((worked = processor_s() - start) < 0.2);
	return worked * 1e9 / (double)polls;
}

/* How long a message of an endpoint that is not polled takes to an endpoint of another domain. */
static double leave_us(struct node *node, struct fid_ep *from, const char *provider)
{
	static char byte, sent;
	static struct fi_context sending;
	struct fi_context context;
	struct fi_cq_tagged_entry entry;
	struct node there = { 0 };
	double start;
	ssize_t result;
	fi_addr_t to;

	node_open_with(&there, provider, FI_TAGGED);
	to = node_insert_node(node, &there);
	expect("fi_trecv", fi_trecv(there.ep, &byte, 1, NULL, FI_ADDR_UNSPEC, 0, 0, &context));
	start = processor_s();
	/* Not injected: that would come again until the peer has answered, which nothing polls yet. */
	while ((result = fi_tsend(from, &sent, 1, NULL, to, 0, &sending)) == -FI_EAGAIN)
		read_nothing(node);
	expect("fi_tsend", result);
	while ((result = fi_cq_read(there.cq, &entry, 1)) == -FI_EAGAIN)
		read_nothing(node);
	expect("fi_cq_read", result);
	start = processor_s() - start;
	node_end(&there);
	fi_freeinfo(there.info);
	return start * 1e6;
}

static int beside(const char *provider, const char *measure, long count)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE };
	struct fid_ep **eps = calloc((size_t)count, sizeof(*eps));
	struct node node = { 0 };
	struct fid_cq *unread;
	double figure = 0;

	if (!eps)
		expect("calloc", -FI_ENOMEM);
	node_open_with(&node, provider, FI_TAGGED);
	expect("fi_cq_open", fi_cq_open(node.domain, &attr, &unread, NULL));
	for (long i = 0; i < count; i++) {
		expect("fi_endpoint", fi_endpoint(node.domain, node.info, &eps[i], NULL));
		expect("fi_ep_bind", fi_ep_bind(eps[i], &node.av->fid, 0));
		expect("fi_ep_bind", fi_ep_bind(eps[i], &unread->fid, FI_TRANSMIT | FI_RECV));
		expect("fi_enable", fi_enable(eps[i]));
	}
	if (!strcmp(measure, "beside"))
		figure = vain_ns(&node);
	else
		for (int i = 0; i < LEAVING; i++)
			figure += leave_us(&node, eps[i * count / LEAVING], provider) / LEAVING;
	for (long i = 0; i < count; i++)
		expect("fi_close endpoint", fi_close(&eps[i]->fid));
	expect("fi_close cq", fi_close(&unread->fid));
	node_end(&node);
	fi_freeinfo(node.info);
	free(eps);
	printf("%s %.6g\n", measure, figure);
	return 0;
}

int main(int argc, char **argv)
{
	long count = argc == 4 ? atol(argv[3]) : 0;

	if (count <= 0)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(argv[2], "open") || !strcmp(argv[2], "getinfo"))
		return alone(argv[1], argv[2], count);
	if (!strcmp(argv[2], "beside") || !strcmp(argv[2], "leave"))
		return beside(argv[1], argv[2], count);
	return with_peers(argv[1], argv[2], count);
}
