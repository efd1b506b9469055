/*
 * withdrawn FOLDER a|b
 *
 * The endpoint a announces a long message out of memory that it has registered for reads of peers, and closes the registration before b has matched the message. That is a mistake of
 * the application: this message fails, at both ends. Nothing else does: a short message that follows it arrives, and after the failure they exchange another long one.
 *
 * Each prints "failed alone: ERROR".
 */
#include <stdbool.h>

#include "efa.h"

#include <rdma/fi_tagged.h>

enum { LONG = 2 << 20, SHORT = 100, HOMOGENEOUS_PEERS = -251265017 };
enum { WITHDRAWN = 1, FOLLOWS, ANSWER, ANOTHER };

static struct fi_context2 contexts[ANOTHER + 1];
static uint8_t memory[LONG];

/* Waits for the end of the operation with a number; returns its error. */
static int end_of(struct node *node, int number)
{
	static int is_over[ANOTHER + 1], error_of[ANOTHER + 1];
	double deadline = now_s() + PATIENCE_S;

	while (!is_over[number]) {
		struct fi_cq_tagged_entry entry;
		struct fi_cq_err_entry error = { 0 };
		ssize_t got = fi_cq_read(node->cq, &entry, 1);
		struct fi_context2 *context = entry.op_context;

		if (got == -FI_EAVAIL) {
			expect("fi_cq_readerr", fi_cq_readerr(node->cq, &error, 0));
			context = error.op_context;
			error_of[context - contexts] = error.err;
		} else if (got != 1) {
			expect("fi_cq_read", got == -FI_EAGAIN ? 0 : got);
			if (now_s() > deadline)
				expect("the end of an operation", -FI_ETIMEDOUT);
			continue;
		}
		is_over[context - contexts] = 1;
	}
	return error_of[number];
}

static void must_end_well(struct node *node, int number)
{
	expect("an operation that is not the one", -end_of(node, number));
}

static void must_fail(struct node *node, int number)
{
	int error = end_of(node, number);

	if (!error)
		expect("a message out of memory that was withdrawn", -FI_EOTHER);
	printf("failed alone: %s\n", fi_strerror(error));
}

static void post(struct node *node, fi_addr_t to, int number, size_t len, void *desc)
{
	expect("fi_tsend", fi_tsend(node->ep, memory, len, desc, to, (uint64_t)number, &contexts[number]));
}

static void take(struct node *node, int number)
{
	expect("fi_trecv", fi_trecv(node->ep, memory, LONG, NULL, FI_ADDR_UNSPEC, (uint64_t)number, 0, &contexts[number]));
}

static void withdraw(struct node *node, fi_addr_t peer)
{
	expect("fi_mr_reg", fi_mr_reg(node->domain, memory, LONG, FI_SEND | FI_REMOTE_READ, 0, 0, 0, &node->mr, NULL));
	post(node, peer, WITHDRAWN, LONG, fi_mr_desc(node->mr));
	expect("fi_close", fi_close(&node->mr->fid));
	take(node, ANSWER);
	post(node, peer, FOLLOWS, SHORT, NULL);
	must_end_well(node, FOLLOWS);
	must_end_well(node, ANSWER);
	must_fail(node, WITHDRAWN);
	post(node, peer, ANOTHER, LONG, NULL);
	must_end_well(node, ANOTHER);
}

static void receive(struct node *node, fi_addr_t peer)
{
	/* The registration is closed when this is here. */
	take(node, FOLLOWS);
	must_end_well(node, FOLLOWS);
	take(node, WITHDRAWN);
	must_fail(node, WITHDRAWN);
	take(node, ANOTHER);
	post(node, peer, ANSWER, SHORT, NULL);
	must_end_well(node, ANSWER);
	must_end_well(node, ANOTHER);
}

int main(int argc, char **argv)
{
	struct fi_info *hints = efa_hints("efa", FI_MSG | FI_TAGGED);
	struct node node = { 0 };
	bool alike = true;

	if (argc != 3)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	hints->domain_attr->mr_mode &= ~FI_MR_LOCAL;
	efa_select(&node, hints);
	node_make(&node, FI_WAIT_NONE);
	/* The devices are known to read before the first handshake. */
	expect("fi_setopt", fi_setopt(&node.ep->fid, FI_OPT_ENDPOINT, HOMOGENEOUS_PEERS, &alike, sizeof alike));
	if (!strcmp(argv[2], "a")) {
		node_publish(&node, argv[1], "a");
		withdraw(&node, node_meet(&node, argv[1], "b"));
	} else {
		node_publish(&node, argv[1], "b");
		receive(&node, node_meet(&node, argv[1], "a"));
	}
	expect("fi_close", fi_close(&node.ep->fid));
	return 0;
}
