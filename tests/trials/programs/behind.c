/*
 * behind FOLDER a|b
 *
 * What the endpoint a reads of b behind a fence. a has sent b more messages than that keeps, and behind them an atomic that sets a number; b takes one of the messages,
 * waits for a while, in which a reads the number if nothing holds that back, and takes the others. a prints what it read.
 */
#include "efa.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

enum { MESSAGES = 100, LENGTH = 1024, KEPT = 32 * LENGTH, POLLS = 200000 };

struct exposed {
	uint64_t address, key;
};

static uint64_t number;
static uint8_t memory[LENGTH], bytes[MESSAGES][LENGTH];
static struct fid_mr *number_mr;
static struct fi_context2 contexts[MESSAGES];

/* Tells the other end where the number is, and learns where its is. */
static struct exposed exchange(struct node *node, fi_addr_t peer)
{
	struct exposed here = { (uintptr_t)&number, fi_mr_key(number_mr) }, there;

	expect("fi_recv", fi_recv(node->ep, &there, sizeof there, NULL, FI_ADDR_UNSPEC, &contexts[0]));
	expect("fi_send", fi_send(node->ep, &here, sizeof here, NULL, peer, &contexts[1]));
	node_await(node, 2);
	return there;
}

static void read_number(struct node *node, fi_addr_t peer, struct exposed there, uint64_t flags)
{
	struct iovec local = { memory, sizeof number };
	struct fi_rma_iov remote = { there.address, sizeof number, there.key };
	void *desc = fi_mr_desc(node->mr);
	struct fi_msg_rma msg = { &local, &desc, 1, peer, &remote, 1, &contexts[0], 0 };

	expect("fi_readmsg", fi_readmsg(node->ep, &msg, flags | FI_COMPLETION));
}

static void send_and_read(struct node *node, const char *folder, fi_addr_t peer, struct exposed there)
{
	uint64_t one = 1, found;

	for (int at = 0; at < MESSAGES; at++)
		expect("fi_send", fi_send(node->ep, bytes[at], LENGTH, NULL, peer, &contexts[at]));
	node_await(node, MESSAGES);
	memcpy(memory, &one, sizeof one);
	expect("fi_atomic", fi_atomic(node->ep, memory, 1, fi_mr_desc(node->mr), peer, there.address, there.key, FI_UINT64,
				      FI_ATOMIC_WRITE, &contexts[0]));
	node_await(node, 1);
	read_number(node, peer, there, FI_FENCE);
	/* It is posted at the next progress, behind the atomic. */
	for (int poll = 0; poll < POLLS; poll++)
		if (node_complete(node))
			expect("a fence that waits", -FI_EOTHER);
	node_publish(node, folder, "fenced");
	node_await(node, 1);
	memcpy(&found, memory, sizeof found);
	printf("the number is %d\n", (int)found);
	node_publish(node, folder, "over");
}

static void take_messages(struct node *node, const char *folder)
{
	node_await_file(node, folder, "fenced");
	expect("fi_recv", fi_recv(node->ep, bytes[0], LENGTH, NULL, FI_ADDR_UNSPEC, &contexts[0]));
	node_await(node, 1);
	for (int poll = 0; poll < POLLS && !node_has(folder, "over"); poll++)
		fi_cq_read(node->cq, NULL, 0);
	for (int at = 1; at < MESSAGES; at++)
		expect("fi_recv", fi_recv(node->ep, bytes[at], LENGTH, NULL, FI_ADDR_UNSPEC, &contexts[at]));
	node_await(node, MESSAGES - 1);
	node_await_file(node, folder, "over");
}

int main(int argc, char **argv)
{
	uint64_t access = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	struct fi_info *hints = efa_hints("efa", FI_MSG | FI_RMA | FI_ATOMIC);
	struct node node = { 0 };
	struct exposed there;
	fi_addr_t peer;
	int is_a;

	if (argc != 3)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	is_a = !strcmp(argv[2], "a");
	hints->domain_attr->mr_mode &= ~FI_MR_LOCAL;
	efa_select(&node, hints);
	node.info->rx_attr->total_buffered_recv = KEPT;
	node_make(&node, FI_WAIT_NONE);
	expect("fi_mr_reg", fi_mr_reg(node.domain, memory, LENGTH, access, 0, 0, 0, &node.mr, NULL));
	expect("fi_mr_reg", fi_mr_reg(node.domain, &number, sizeof number, access, 0, 0, 0, &number_mr, NULL));
	node_publish(&node, argv[1], argv[2]);
	peer = node_meet(&node, argv[1], is_a ? "b" : "a");
	there = exchange(&node, peer);
	if (is_a) {
		/* Now it is known what the device can do with b. */
		read_number(&node, peer, there, 0);
		node_await(&node, 1);
		node_publish(&node, argv[1], "met");
	} else {
		node_await_file(&node, argv[1], "met");
	}
	is_a ? send_and_read(&node, argv[1], peer, there) : take_messages(&node, argv[1]);
	return 0;
}
