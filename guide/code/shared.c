/*
 * Two endpoints that take their receive buffers from one context.
 *
 * shared [PROVIDER]
 */
#include "node.h"

enum { ENDPOINTS = 2 };

int main(int argc, char **argv)
{
	struct operation receive[ENDPOINTS], send[ENDPOINTS];
	struct fid_ep *srx, *eps[ENDPOINTS];
	struct fi_info *hints, *info;
	char out = 'x', in[ENDPOINTS] = { 0 };
	char address[ADDRESS_MAX];
	struct node node;
	ssize_t result;

	alarm(WATCHDOG_S);
	open_node(&node, argc > 1 ? argv[1] : "tcp", FI_TAGGED, FI_WAIT_UNSPEC);
	/* ANCHOR: open */
	/* Asks again, for endpoints that have no receive context of their own. */
	hints = fi_dupinfo(node.info);
	EXPECT(hints);
	hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	CHECK(fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, hints, &info));
	CHECK(fi_srx_context(node.domain, info->rx_attr, &srx, NULL));
	for (int i = 0; i < ENDPOINTS; i++) {
		CHECK(fi_endpoint(node.domain, info, &eps[i], NULL));
		CHECK(fi_ep_bind(eps[i], &node.av->fid, 0));
		CHECK(fi_ep_bind(eps[i], &srx->fid, 0));
		CHECK(fi_ep_bind(eps[i], &node.cq->fid, FI_TRANSMIT | FI_RECV));
		CHECK(fi_enable(eps[i]));
	}
	/* ANCHOR_END: open */
	/* ANCHOR: receive */
	/* Posted on the context: whichever endpoint gets a message takes the next one. */
	for (int i = 0; i < ENDPOINTS; i++) {
		receive[i].done = 0;
		CHECK(fi_trecv(srx, &in[i], 1, NULL, FI_ADDR_UNSPEC, 0, 0, &receive[i].context));
	}
	/* ANCHOR_END: receive */
	for (int i = 0; i < ENDPOINTS; i++) {
		size_t len = sizeof address;

		CHECK(fi_getname(&eps[i]->fid, address, &len));
		EXPECT(fi_av_insert(node.av, address, 1, &node.peer, 0, NULL) == 1);
		send[i].done = 0;
		while ((result = fi_tsend(node.ep, &out, 1, NULL, node.peer, 0, &send[i].context)) == -FI_EAGAIN)
			progress(&node, 0);
		CHECK(result);
	}
	for (int i = 0; i < ENDPOINTS; i++) {
		finish(&node, &send[i]);
		finish(&node, &receive[i]);
		EXPECT(in[i] == 'x');
	}
	for (int i = 0; i < ENDPOINTS; i++)
		CHECK(fi_close(&eps[i]->fid));
	CHECK(fi_close(&srx->fid));
	fi_freeinfo(info);
	fi_freeinfo(hints);
	close_node(&node);
	return EXIT_SUCCESS;
}
