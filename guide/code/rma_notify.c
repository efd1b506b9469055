/*
 * One process writes blocks into the memory of another, which learns of each block by the data that comes with the write.
 *
 * rma_notify [PROVIDER]
 */
#include "node.h"

enum { BLOCKS = 16, BLOCK = 4096 };

/* ANCHOR: place */
/* What a process has to know of memory that it writes to. */
struct place {
	uint64_t base; /* the address of the first byte, as the owner's provider counts */
	uint64_t key;
};
/* ANCHOR_END: place */

static unsigned char content(int block, int i)
{
	return (unsigned char)(block * 37 + i);
}

/* ANCHOR: owner */
/* Waits until a write with data has arrived, and returns the data. */
static uint64_t notified(struct node *node)
{
	struct fi_cq_tagged_entry entry;
	ssize_t count;

	do
		count = fi_cq_sread(node->cq, &entry, 1, NULL, 1000);
	while (count == -FI_EAGAIN || count == -FI_EINTR);
	CHECK(count);
	EXPECT(entry.flags & FI_REMOTE_CQ_DATA);
	EXPECT(entry.flags & FI_REMOTE_WRITE);
	return entry.data;
}

static void owner(struct node *node, int channel)
{
	static unsigned char memory[BLOCKS][BLOCK];
	int is_virtual = !!(node->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR);
	struct place place;
	struct fid_mr *mr;

	CHECK(fi_mr_reg(node->domain, memory, sizeof memory, FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL));
	place.base = is_virtual ? (uint64_t)(uintptr_t)memory : 0;
	place.key = fi_mr_key(mr);
	EXPECT(write(channel, &place, sizeof place) == sizeof place);

	for (int count = 0; count < BLOCKS; count++) {
		uint64_t block = notified(node);

		EXPECT(block < BLOCKS);
		/* The block that the completion names is whole. Of others nothing is known yet. */
		for (int i = 0; i < BLOCK; i++)
			EXPECT(memory[block][i] == content((int)block, i));
	}
	printf("%d blocks have arrived\n", BLOCKS);
	/* No access may be under way any more when a region is closed: all were announced. */
	CHECK(fi_close(&mr->fid));
}
/* ANCHOR_END: owner */

/* ANCHOR: writer */
static void writer(struct node *node, int channel)
{
	static unsigned char memory[BLOCKS][BLOCK];
	static struct operation writes[BLOCKS];
	struct place place;
	struct fid_mr *mr;

	EXPECT(read(channel, &place, sizeof place) == sizeof place);
	/* The own memory is registered for providers with FI_MR_LOCAL; others ignore the descriptor. */
	CHECK(fi_mr_reg(node->domain, memory, sizeof memory, FI_WRITE, 0, 2, 0, &mr, NULL));

	for (int block = 0; block < BLOCKS; block++) {
		ssize_t result;

		for (int i = 0; i < BLOCK; i++)
			memory[block][i] = content(block, i);
		while ((result = fi_writedata(node->ep, memory[block], BLOCK, fi_mr_desc(mr), block, node->peer,
					      place.base + (uint64_t)block * BLOCK, place.key,
					      &writes[block].context)) == -FI_EAGAIN)
			progress(node, 0);
		CHECK(result);
	}
	for (int block = 0; block < BLOCKS; block++)
		finish(node, &writes[block]);
	CHECK(fi_close(&mr->fid));
}
/* ANCHOR_END: writer */

int main(int argc, char **argv)
{
	struct node node;
	int channel;
	pid_t child = split(&channel);

	open_node(&node, argc > 1 ? argv[1] : "tcp", FI_MSG | FI_RMA, FI_WAIT_UNSPEC);
	meet(&node, channel);
	if (child)
		owner(&node, channel);
	else
		writer(&node, channel);
	close_node(&node);
	if (child)
		join(child);
	return EXIT_SUCCESS;
}
