/*
 * What an endpoint lacks before it can be enabled, and what cannot be closed while it is there.
 *
 * endpoints [PROVIDER]
 */
#include "node.h"

int main(int argc, char **argv)
{
	struct fid_ep *ep;
	struct node node;

	alarm(WATCHDOG_S);
	open_node(&node, argc > 1 ? argv[1] : "tcp", FI_TAGGED, FI_WAIT_UNSPEC);
	/* ANCHOR: enable */
	CHECK(fi_endpoint(node.domain, node.info, &ep, NULL));
	CHECK(fi_ep_bind(ep, &node.av->fid, 0));
	EXPECT(fi_enable(ep) == -FI_ENOCQ);
	/* A queue for each direction; here it is one. */
	CHECK(fi_ep_bind(ep, &node.cq->fid, FI_TRANSMIT | FI_RECV));
	CHECK(fi_enable(ep));
	/* ANCHOR_END: enable */
	/* ANCHOR: close */
	/* Still used, by two endpoints. */
	EXPECT(fi_close(&node.cq->fid) == -FI_EBUSY);
	CHECK(fi_close(&ep->fid));
	/* ANCHOR_END: close */
	close_node(&node);
	return EXIT_SUCCESS;
}
