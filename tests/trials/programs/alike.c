/*
 * alike FOLDER a|b
 *
 * The endpoint b exposes memory, and makes no progress. The endpoint a says, when it is enabled and knows b, that all peers are as it is, and has its device read
 * that memory. It prints "read N bytes". Where devices read for no endpoint, it ends with FI_ENODATA as every failed call does.
 */
#include "efa.h"

#include <stdbool.h>

#include <rdma/fi_rma.h>

enum { EXPOSED = 5000, HOMOGENEOUS_PEERS = -251265017 };

struct exposed {
	uint64_t address, key;
};

static uint8_t memory[EXPOSED];

static uint8_t pattern(size_t at)
{
	return (uint8_t)mixed(at);
}

static FILE *opened(const char *folder, const char *name, const char *mode)
{
	char file[PATH_MAX];

	snprintf(file, sizeof file, "%s/%s", folder, name);
	return fopen(file, mode);
}

/* What b exposes is in the file when b's address is published. */
static void expose(struct node *node, const char *folder)
{
	struct exposed exposed = { (uintptr_t)memory, fi_mr_key(node->mr) };
	FILE *out = opened(folder, "exposed", "wb");

	for (size_t at = 0; at < EXPOSED; at++)
		memory[at] = pattern(at);
	if (!out || fwrite(&exposed, sizeof exposed, 1, out) != 1 || fclose(out))
		expect("expose", -errno);
}

static void read_all(struct node *node, const char *folder, fi_addr_t peer)
{
	struct fi_context2 context;
	struct fi_cq_tagged_entry entry;
	struct exposed exposed;
	double deadline = now_s() + 10;
	FILE *in = opened(folder, "exposed", "rb");
	ssize_t got;

	if (!in || fread(&exposed, sizeof exposed, 1, in) != 1 || fclose(in))
		expect("what b exposes", -EIO);
	expect("fi_read", fi_read(node->ep, memory, EXPOSED, fi_mr_desc(node->mr), peer, exposed.address, exposed.key, &context));
	while ((got = fi_cq_read(node->cq, &entry, 1)) == -FI_EAGAIN)
		if (now_s() > deadline)
			expect("a read without progress of the peer", -FI_ETIMEDOUT);
	expect("fi_cq_read", got);
	for (size_t at = 0; at < EXPOSED; at++)
		if (memory[at] != pattern(at))
			expect("what was read", -FI_EIO);
	printf("read %d bytes\n", EXPOSED);
}

int main(int argc, char **argv)
{
	struct node node = { 0 };
	bool alike = true;
	fi_addr_t peer;

	if (argc != 3)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	efa_select(&node, efa_hints("efa", FI_MSG | FI_RMA));
	node_make(&node, FI_WAIT_NONE);
	expect("fi_mr_reg", fi_mr_reg(node.domain, memory, EXPOSED, FI_READ | FI_REMOTE_READ, 0, 0, 0, &node.mr, NULL));
	if (!strcmp(argv[2], "a")) {
		node_publish(&node, argv[1], "a");
		/* b has put the address of a's port into its vector by then, without which its device refuses a's. */
		peer = node_meet(&node, argv[1], "b");
		expect("fi_setopt", fi_setopt(&node.ep->fid, FI_OPT_ENDPOINT, HOMOGENEOUS_PEERS, &alike, sizeof alike));
		read_all(&node, argv[1], peer);
		node_publish(&node, argv[1], "done");
	} else {
		node_meet(&node, argv[1], "a");
		expose(&node, argv[1]);
		node_publish(&node, argv[1], "b");
		node_meet(&node, argv[1], "done");
	}
	node_end(&node);
	fi_freeinfo(node.info);
	return 0;
}
