/*
 * overtaken FOLDER a|b [long|injected|fenced]
 *
 * In each round the endpoint a writes to memory of b, by several writes that say nothing of when they are complete, and sends b a message when they are. The message
 * finds the memory written. With long it is one write of all. With injected it may come first; the writes are injected out of memory that is registered and whose descriptor they have, each second one to two places of b, and a
 * overwrites that memory after each call, of which b sees nothing. With fenced a reads the memory back after such writes, behind a fence, and finds them there. b prints "saw N rounds".
 */
#include "efa.h"

#include <rdma/fi_rma.h>

enum { ROUNDS = 60, WRITES = 16, LENGTH = 4064, WHOLE = WRITES * LENGTH, OVERWRITTEN = 0xee };

struct exposed {
	uint64_t address, key;
};

static uint8_t memory[WHOLE];
static int injects, fences, writes_at_once;
static struct fi_context2 contexts[WRITES];

static void write_all(struct node *node, fi_addr_t peer, const struct exposed *there)
{
	void *desc = fi_mr_desc(node->mr);

	for (int at = 0; at < WRITES; at++) {
		struct iovec local = { memory + at * LENGTH, LENGTH };
		struct fi_rma_iov remote = { there->address + (uint64_t)at * LENGTH, LENGTH, there->key };
		struct fi_msg_rma msg = { &local, &desc, 1, peer, &remote, 1, &contexts[at], 0 };

		expect("fi_writemsg", fi_writemsg(node->ep, &msg, at + 1 < WRITES ? FI_MORE : 0));
	}
	node_await(node, WRITES);
}

static void write_at_once(struct node *node, fi_addr_t peer, const struct exposed *there)
{
	expect("fi_write", fi_write(node->ep, memory, WHOLE, fi_mr_desc(node->mr), peer, there->address, there->key, &contexts[0]));
	node_await(node, 1);
}

/* Injects what is written: each second write to the two halves of its place, the last one first. */
static void inject_all(struct node *node, fi_addr_t peer, const struct exposed *there, int round)
{
	void *desc = fi_mr_desc(node->mr);

	if (node->info->tx_attr->inject_size < LENGTH)
		expect("inject_size", -FI_EMSGSIZE);
	for (int at = 0; at < WRITES; at++) {
		uint64_t place = there->address + (uint64_t)at * LENGTH;
		struct iovec local = { memory, LENGTH };
		struct fi_rma_iov whole = { place, LENGTH, there->key };
		struct fi_rma_iov halves[] = { { place + LENGTH / 2, LENGTH / 2, there->key }, { place, LENGTH / 2, there->key } };
		struct fi_msg_rma msg = { &local, &desc, 1, peer, at % 2 ? halves : &whole, at % 2 ? 2 : 1, &contexts[at], 0 };

		double deadline = now_s() + PATIENCE_S;
		ssize_t code;

		do {
			memset(memory, round, LENGTH);
			code = fi_writemsg(node->ep, &msg, FI_INJECT | FI_COMPLETION);
			memset(memory, OVERWRITTEN, LENGTH);
			if (code == -FI_EAGAIN)
				fi_cq_read(node->cq, NULL, 0);
		} while (code == -FI_EAGAIN && now_s() < deadline);
		expect("fi_writemsg", code);
	}
	node_await(node, WRITES);
}

/* Reads back what was written, behind a fence. */
static void read_fenced(struct node *node, fi_addr_t peer, const struct exposed *there, int round)
{
	void *desc = fi_mr_desc(node->mr);
	struct iovec local = { memory, WHOLE };
	struct fi_rma_iov remote = { there->address, WHOLE, there->key };
	struct fi_msg_rma msg = { &local, &desc, 1, peer, &remote, 1, &contexts[0], 0 };

	expect("fi_readmsg", fi_readmsg(node->ep, &msg, FI_FENCE | FI_COMPLETION));
	node_await(node, 1);
	for (int at = 0; at < WHOLE; at++)
		if (memory[at] != round) {
			printf("round %d: byte %d is still of round %d\n", round, at, memory[at]);
			exit(3);
		}
}

static void play_a(struct node *node, fi_addr_t peer)
{
	struct exposed there;

	expect("fi_recv", fi_recv(node->ep, &there, sizeof there, NULL, FI_ADDR_UNSPEC, &contexts[0]));
	node_await(node, 1);
	for (int round = 1; round <= ROUNDS; round++) {
		memset(memory, round, WHOLE);
		if (injects)
			inject_all(node, peer, &there, round);
		else if (writes_at_once)
			write_at_once(node, peer, &there);
		else
			write_all(node, peer, &there);
		if (fences)
			read_fenced(node, peer, &there, round);
		expect("fi_send", fi_send(node->ep, memory, 1, fi_mr_desc(node->mr), peer, &contexts[0]));
		expect("fi_recv", fi_recv(node->ep, memory, 1, fi_mr_desc(node->mr), FI_ADDR_UNSPEC, &contexts[1]));
		node_await(node, 2);
	}
}

/* Waits until all is of a round. What is injected is complete before it is there. */
static void await_round(struct node *node, int round)
{
	double deadline = now_s() + PATIENCE_S;

	for (int at = 0; at < WHOLE; at++)
		while (*(volatile uint8_t *)&memory[at] != round) {
			if (memory[at] == OVERWRITTEN) {
				printf("round %d: byte %d was read after the call\n", round, at);
				exit(3);
			}
			fi_cq_read(node->cq, NULL, 0);
			if (now_s() > deadline)
				expect("what is injected", -FI_ETIMEDOUT);
		}
}

static void play_b(struct node *node, fi_addr_t peer)
{
	struct exposed here = { (uintptr_t)memory, fi_mr_key(node->mr) };
	uint8_t message;

	expect("fi_send", fi_send(node->ep, &here, sizeof here, NULL, peer, &contexts[0]));
	node_await(node, 1);
	for (int round = 1; round <= ROUNDS; round++) {
		expect("fi_recv", fi_recv(node->ep, &message, 1, NULL, FI_ADDR_UNSPEC, &contexts[0]));
		node_await(node, 1);
		if (injects)
			await_round(node, round);
		for (int at = 0; at < WHOLE; at++)
			if (memory[at] != round) {
				printf("round %d: byte %d is of round %d\n", round, at, memory[at]);
				exit(3);
			}
		expect("fi_send", fi_send(node->ep, &message, 1, NULL, peer, &contexts[0]));
		node_await(node, 1);
	}
	printf("saw %d rounds\n", ROUNDS);
}

int main(int argc, char **argv)
{
	struct node node = { 0 };
	struct fi_info *hints = efa_hints("efa", FI_MSG | FI_RMA);
	uint64_t access = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_SEND | FI_RECV;
	int is_a;
	fi_addr_t peer;

	if (argc < 3 || argc > 4)
		return 2;
	fences = argc > 3 && !strcmp(argv[3], "fenced");
	injects = fences || (argc > 3 && !strcmp(argv[3], "injected"));
	writes_at_once = argc > 3 && !strcmp(argv[3], "long");
	setvbuf(stdout, NULL, _IOLBF, 0);
	is_a = !strcmp(argv[2], "a");
	hints->domain_attr->mr_mode &= ~FI_MR_LOCAL;
	efa_select(&node, hints);
	node_make(&node, FI_WAIT_NONE);
	expect("fi_mr_reg", fi_mr_reg(node.domain, memory, WHOLE, access, 0, 0, 0, &node.mr, NULL));
	node_publish(&node, argv[1], argv[2]);
	peer = node_meet(&node, argv[1], is_a ? "b" : "a");
	if (is_a)
		play_a(&node, peer);
	else
		play_b(&node, peer);
	node_end(&node);
	fi_freeinfo(node.info);
	return 0;
}
