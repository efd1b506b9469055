/*
 * settling FOLDER a|b
 *
 * The endpoint a injects a write into memory of b, and reads behind a fence what b has there. b has met a, makes no progress then, and ends
 * without a word when a waits. What waits behind the fence ends by an error: a prints "failed: " and its reason.
 */
#include "efa.h"

#include <rdma/fi_rma.h>

enum { LENGTH = 64, POLLS = 100000 };

struct exposed {
	uint64_t address, key;
};

static uint8_t memory[LENGTH];
static struct fi_context2 contexts[2];

static void play_a(struct node *node, const char *folder, fi_addr_t peer)
{
	double deadline = now_s() + PATIENCE_S;
	struct fi_cq_err_entry error = { 0 };
	struct fi_cq_tagged_entry entry;
	struct exposed there;
	ssize_t got;

	expect("fi_recv", fi_recv(node->ep, &there, sizeof there, NULL, FI_ADDR_UNSPEC, &contexts[0]));
	node_await(node, 1);
	/* Now it is known what the device can do with b. */
	expect("fi_read", fi_read(node->ep, memory, LENGTH, fi_mr_desc(node->mr), peer, there.address, there.key, &contexts[0]));
	node_await(node, 1);
	node_publish(node, folder, "met");
	node_meet(node, folder, "quiet");

	struct iovec local = { memory, LENGTH };
	struct fi_rma_iov remote = { there.address, LENGTH, there.key };
	void *desc = fi_mr_desc(node->mr);
	struct fi_msg_rma msg = { &local, &desc, 1, peer, &remote, 1, &contexts[0], 0 };

	expect("fi_inject_write", fi_inject_write(node->ep, memory, 8, peer, there.address, there.key));
	expect("fi_readmsg", fi_readmsg(node->ep, &msg, FI_FENCE | FI_COMPLETION));
	for (int poll = 0; poll < POLLS; poll++)
		if (fi_cq_read(node->cq, &entry, 1) != -FI_EAGAIN)
			expect("a fence that waits", -FI_EOTHER);
	node_publish(node, folder, "waits");
	while ((got = fi_cq_read(node->cq, &entry, 1)) == -FI_EAGAIN)
		if (now_s() > deadline)
			expect("the end of what is fenced", -FI_ETIMEDOUT);
	if (got != -FI_EAVAIL)
		expect("an error", got < 0 ? got : -FI_EOTHER);
	expect("fi_cq_readerr", fi_cq_readerr(node->cq, &error, 0));
	printf("failed: %s\n", fi_strerror(error.err));
}

static void play_b(struct node *node, const char *folder, fi_addr_t peer)
{
	struct exposed here = { (uintptr_t)memory, fi_mr_key(node->mr) };

	expect("fi_send", fi_send(node->ep, &here, sizeof here, NULL, peer, &contexts[0]));
	node_await(node, 1);
	node_await_file(node, folder, "met");
	node_publish(node, folder, "quiet");
	node_meet(node, folder, "waits");
	_exit(0);
}

int main(int argc, char **argv)
{
	uint64_t access = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	struct fi_info *hints = efa_hints("efa", FI_MSG | FI_RMA);
	struct node node = { 0 };
	fi_addr_t peer;
	int is_a;

	if (argc != 3)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	is_a = !strcmp(argv[2], "a");
	hints->domain_attr->mr_mode &= ~FI_MR_LOCAL;
	efa_select(&node, hints);
	node_make(&node, FI_WAIT_NONE);
	expect("fi_mr_reg", fi_mr_reg(node.domain, memory, LENGTH, access, 0, 0, 0, &node.mr, NULL));
	node_publish(&node, argv[1], argv[2]);
	peer = node_meet(&node, argv[1], is_a ? "b" : "a");
	(is_a ? play_a : play_b)(&node, argv[1], peer);
	return 0;
}
