/*
 * unattended FOLDER a|b messages|overrun|parts|refused
 *
 * The endpoint b does not make progress until a is done with its sends, which end all the same. With messages these are of all lengths that are
 * sent before the receiver asks for them, and b receives them then. With overrun there are more than b's device has receives for, and a has said
 * that it sees to that itself and that none is to be tried again: some end with FI_ENORX. With parts it has said so too, and waits for each message to be
 * at b (FI_TRANSMIT_COMPLETE); these are of several packets, none ends with an error, and b receives them
 * though a makes no progress any more. With refused, which wants a network where no receiver is ready, all messages end with FI_ENORX, though a waits for
 * receipts (FI_DELIVERY_COMPLETE), and a keeps no memory for them.
 *
 * a prints "sent N, M refused", b "received N".
 */
#include <malloc.h>

#include "efa.h"

enum { LONGEST = 65536, OVERRUN = 1100, REFUSED = 20000, RNR_RETRY = -(0xefa << 16) };

static const size_t lengths[] = { 0, 8760, 8761, 20000, LONGEST - 1, LONGEST };

enum { MESSAGES = sizeof lengths / sizeof *lengths, FIRST_OF_PARTS = 2 };

static uint8_t bytes[LONGEST];

static void fill(int message)
{
	for (size_t at = 0; at < lengths[message]; at++)
		bytes[at] = (uint8_t)(mixed((unsigned)message) + at * 7);
}

/* Waits for one completion; returns the error of an operation that failed. */
static int ended(struct node *node)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = { 0 };
	double deadline = now_s() + PATIENCE_S;
	ssize_t got;

	while ((got = fi_cq_read(node->cq, &entry, 1)) == -FI_EAGAIN)
		if (now_s() > deadline)
			expect("completion", -FI_ETIMEDOUT);
	if (got == -FI_EAVAIL) {
		expect("fi_cq_readerr", fi_cq_readerr(node->cq, &error, 0));
		return error.err;
	}
	expect("fi_cq_read", got);
	return 0;
}

static void send_all(struct node *node, fi_addr_t peer, int first, int count, size_t only)
{
	static struct fi_context2 contexts[REFUSED];
	int under_way = 0, refused = 0;

	for (int message = first; message < count || under_way; ) {
		ssize_t code = -FI_EAGAIN;

		if (message < count) {
			size_t len = only;

			/* Each message has the buffer alone. */
			if (!only && !under_way)
				fill(message), len = lengths[message];
			if (only || !under_way)
				code = fi_send(node->ep, bytes, len, NULL, peer, &contexts[message]);
		}
		if (!code) {
			message++;
			under_way++;
		} else if (code != -FI_EAGAIN) {
			expect("fi_send", code);
		} else {
			int error = ended(node);

			if (error && error != FI_ENORX)
				expect("a send", -error);
			refused += error != 0;
			under_way--;
		}
	}
	printf("sent %d, %d refused\n", count - first, refused);
}

static void receive_all(struct node *node, int first)
{
	static uint8_t buffers[MESSAGES][LONGEST];
	static struct fi_context2 contexts[MESSAGES];

	for (int message = first; message < MESSAGES; message++)
		expect("fi_recv", fi_recv(node->ep, buffers[message], LONGEST, NULL, FI_ADDR_UNSPEC, &contexts[message]));
	for (int message = first; message < MESSAGES; message++)
		if (ended(node))
			expect("a receive", -FI_EIO);
	for (int message = first; message < MESSAGES; message++) {
		fill(message);
		if (memcmp(bytes, buffers[message], lengths[message]))
			expect("what was received", -FI_EIO);
	}
	printf("received %d\n", MESSAGES - first);
}

static size_t in_use(void)
{
	struct mallinfo2 heap = mallinfo2();

	return heap.uordblks + heap.hblkhd;
}

/* Sends messages that are all refused, and compares how much memory is in use when half of them are and when all are. */
static void waste(struct node *node, fi_addr_t peer)
{
	size_t before, after;

	send_all(node, peer, 0, REFUSED, 32);
	before = in_use();
	send_all(node, peer, 0, REFUSED, 32);
	after = in_use();
	printf("%ld bytes more\n", (long)(after - before));
	if (after > before + REFUSED * 32)
		expect("memory for messages that were refused", -FI_ENOMEM);
}

/* As node_make; sends are not tried again if that is said. */
static void make(struct node *node, int never_again)
{
	size_t times = 0;

	node_prepare(node, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	if (never_again)
		expect("fi_setopt", fi_setopt(&node->ep->fid, FI_OPT_ENDPOINT, RNR_RETRY, &times, sizeof times));
	node_enable(node);
}

int main(int argc, char **argv)
{
	struct fi_info *hints = efa_hints("efa", FI_MSG);
	struct node node = { 0 };
	int overruns, is_refused, is_careless, first;

	if (argc != 4)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	overruns = !strcmp(argv[3], "overrun");
	is_refused = !strcmp(argv[3], "refused");
	first = strcmp(argv[3], "parts") ? 0 : FIRST_OF_PARTS;
	is_careless = overruns || is_refused || first;
	hints->domain_attr->mr_mode = 0;
	if (is_careless)
		hints->domain_attr->resource_mgmt = FI_RM_DISABLED;
	expect("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &node.info));
	fi_freeinfo(hints);
	if (is_refused)
		node.info->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	if (first)
		node.info->tx_attr->op_flags = FI_TRANSMIT_COMPLETE;
	make(&node, is_careless);
	if (!strcmp(argv[2], "a")) {
		fi_addr_t peer = node_meet(&node, argv[1], "b");

		if (is_refused)
			waste(&node, peer);
		else
			send_all(&node, peer, first, overruns ? OVERRUN : MESSAGES, overruns ? 32 : 0);
		node_publish(&node, argv[1], "a");
		if (!overruns && !is_refused)
			node_meet(&node, argv[1], "received");
	} else {
		node_publish(&node, argv[1], "b");
		node_meet(&node, argv[1], "a");
		if (!overruns && !is_refused)
			receive_all(&node, first);
		node_publish(&node, argv[1], "received");
	}
	node_end(&node);
	fi_freeinfo(node.info);
	return 0;
}
