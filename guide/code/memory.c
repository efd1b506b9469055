/*
 * Registered memory that works under every mode that this program says it knows.
 *
 * memory [PROVIDER]
 */
#include "node.h"

/* ANCHOR: register */
/* Registers memory and finds out what a peer has to be told. */
static struct fid_mr *expose(struct node *node, void *memory, size_t len, uint64_t *base, uint64_t *key)
{
	int mode = node->info->domain_attr->mr_mode;
	struct iovec iov = { .iov_base = memory, .iov_len = len };
	struct fi_mr_attr attr = {
		.mr_iov = &iov,
		.iov_count = 1,
		.access = FI_REMOTE_READ | FI_REMOTE_WRITE,
		/* A wish, and one that has to differ between regions; without meaning under FI_MR_PROV_KEY. */
		.requested_key = 42,
	};
	struct fid_mr *mr;

	CHECK(fi_mr_regattr(node->domain, &attr, 0, &mr));
	/* Under FI_MR_ENDPOINT the region would have to be bound to the endpoint and enabled here. */
	*base = mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)memory : 0;
	*key = fi_mr_key(mr);
	EXPECT(*key != FI_KEY_NOTAVAIL);
	return mr;
}
/* ANCHOR_END: register */

int main(int argc, char **argv)
{
	struct node node;
	char address[ADDRESS_MAX];
	size_t len = sizeof address;
	static long theirs[4] = { 1, 2, 3, 4 }, ours[2];
	struct fid_mr *mr, *local;
	struct operation reading = { 0 };
	uint64_t base, key;
	ssize_t result;

	alarm(WATCHDOG_S);
	open_node(&node, argc > 1 ? argv[1] : "tcp", FI_MSG | FI_RMA, FI_WAIT_UNSPEC);
	CHECK(fi_getname(&node.ep->fid, address, &len));
	EXPECT(fi_av_insert(node.av, address, 1, &node.peer, 0, NULL) == 1);
	mr = expose(&node, theirs, sizeof theirs, &base, &key);
	CHECK(fi_mr_reg(node.domain, ours, sizeof ours, FI_READ, 0, 43, 0, &local, NULL));
	/* ANCHOR: read */
	/* The third and fourth number: the address is the base and an offset in bytes. */
	while ((result = fi_read(node.ep, ours, sizeof ours, fi_mr_desc(local), node.peer, base + 2 * sizeof *theirs,
				 key, &reading.context)) == -FI_EAGAIN)
		progress(&node, 0);
	CHECK(result);
	finish(&node, &reading);
	EXPECT(ours[0] == 3 && ours[1] == 4);
	/* ANCHOR_END: read */
	CHECK(fi_close(&local->fid));
	CHECK(fi_close(&mr->fid));
	close_node(&node);
	return EXIT_SUCCESS;
}
