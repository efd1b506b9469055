/*
 * Updates a number in memory of a peer, here of the endpoint itself.
 *
 * atomic [PROVIDER]
 */
#include <rdma/fi_atomic.h>

#include "node.h"

int main(int argc, char **argv)
{
	static uint64_t counter = 7, one = 1, before;
	struct operation adding = { 0 };
	char address[ADDRESS_MAX];
	size_t len = sizeof address, count = 0;
	uint64_t at, key;
	struct fid_mr *mr, *local;
	struct node node;
	ssize_t result;

	alarm(WATCHDOG_S);
	open_node(&node, argc > 1 ? argv[1] : "tcp", FI_MSG | FI_ATOMIC, FI_WAIT_UNSPEC);
	CHECK(fi_getname(&node.ep->fid, address, &len));
	EXPECT(fi_av_insert(node.av, address, 1, &node.peer, 0, NULL) == 1);
	CHECK(fi_mr_reg(node.domain, &counter, sizeof counter, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL));
	CHECK(fi_mr_reg(node.domain, &before, sizeof before, FI_READ, 0, 2, 0, &local, NULL));
	at = node.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)&counter : 0;
	key = fi_mr_key(mr);
	/* ANCHOR: fetch */
	/* Not every provider has every operation on every datatype. */
	CHECK(fi_fetch_atomicvalid(node.ep, FI_UINT64, FI_SUM, &count));
	EXPECT(count >= 1);
	while ((result = fi_fetch_atomic(node.ep, &one, 1, NULL, &before, fi_mr_desc(local), node.peer, at, key,
					 FI_UINT64, FI_SUM, &adding.context)) == -FI_EAGAIN)
		progress(&node, 0);
	CHECK(result);
	finish(&node, &adding);
	EXPECT(before == 7);
	/* ANCHOR_END: fetch */
	CHECK(fi_close(&local->fid));
	CHECK(fi_close(&mr->fid));
	EXPECT(counter == 8);
	close_node(&node);
	return EXIT_SUCCESS;
}
