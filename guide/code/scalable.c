/*
 * A scalable endpoint: one address, several contexts to send from and to receive in.
 *
 * scalable [PROVIDER]
 */
#include "node.h"

enum { CONTEXTS = 2, CONTEXT_BITS = 4 };

int main(int argc, char **argv)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC };
	struct fi_av_attr av_attr = { .type = FI_AV_UNSPEC, .rx_ctx_bits = CONTEXT_BITS };
	struct fid_ep *sep, *tx[CONTEXTS], *rx[CONTEXTS];
	struct operation send, receive[CONTEXTS];
	char address[ADDRESS_MAX], out = 'x', in[CONTEXTS] = { 0 };
	size_t len = sizeof address;
	struct node node = { 0 };

	alarm(WATCHDOG_S);
	node.info = choose(argc > 1 ? argv[1] : "tcp", FI_TAGGED | FI_NAMED_RX_CTX);
	CHECK(fi_fabric(node.info->fabric_attr, &node.fabric, NULL));
	CHECK(fi_domain(node.fabric, node.info, &node.domain, NULL));
	CHECK(fi_av_open(node.domain, &av_attr, &node.av, NULL));
	CHECK(fi_cq_open(node.domain, &cq_attr, &node.cq, NULL));
	/* ANCHOR: open */
	node.info->ep_attr->tx_ctx_cnt = CONTEXTS;
	node.info->ep_attr->rx_ctx_cnt = CONTEXTS;
	CHECK(fi_scalable_ep(node.domain, node.info, &sep, NULL));
	CHECK(fi_scalable_ep_bind(sep, &node.av->fid, 0));
	for (int i = 0; i < CONTEXTS; i++) {
		CHECK(fi_tx_context(sep, i, NULL, &tx[i], NULL));
		CHECK(fi_rx_context(sep, i, NULL, &rx[i], NULL));
		/* One queue serves all here. A program with threads would give each its own. */
		CHECK(fi_ep_bind(tx[i], &node.cq->fid, FI_TRANSMIT));
		CHECK(fi_ep_bind(rx[i], &node.cq->fid, FI_RECV));
		CHECK(fi_enable(tx[i]));
		CHECK(fi_enable(rx[i]));
	}
	CHECK(fi_enable(sep));
	/* ANCHOR_END: open */
	CHECK(fi_getname(&sep->fid, address, &len));
	EXPECT(fi_av_insert(node.av, address, 1, &node.peer, 0, NULL) == 1);
	/* ANCHOR: send */
	for (int i = 0; i < CONTEXTS; i++) {
		/* One peer, whose contexts have numbers in the upper bits of its address. */
		fi_addr_t to = fi_rx_addr(node.peer, i, CONTEXT_BITS);

		receive[i].done = send.done = 0;
		CHECK(fi_trecv(rx[i], &in[i], 1, NULL, FI_ADDR_UNSPEC, 0, 0, &receive[i].context));
		CHECK(fi_tsend(tx[i], &out, 1, NULL, to, 0, &send.context));
		finish(&node, &send);
		finish(&node, &receive[i]);
		EXPECT(in[i] == 'x');
	}
	/* ANCHOR_END: send */
	for (int i = 0; i < CONTEXTS; i++) {
		CHECK(fi_close(&tx[i]->fid));
		CHECK(fi_close(&rx[i]->fid));
	}
	CHECK(fi_close(&sep->fid));
	CHECK(fi_close(&node.cq->fid));
	CHECK(fi_close(&node.av->fid));
	CHECK(fi_close(&node.domain->fid));
	CHECK(fi_close(&node.fabric->fid));
	fi_freeinfo(node.info);
	return EXIT_SUCCESS;
}
