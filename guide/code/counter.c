/*
 * Counting instead of reading completions: an endpoint whose sends and receives are only counted.
 *
 * counter [PROVIDER]
 */
#include "node.h"

enum { COUNT = 100, PATIENCE_MS = 20000 };

int main(int argc, char **argv)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av_attr = { .type = FI_AV_UNSPEC };
	static struct operation operations[2 * COUNT];
	char address[ADDRESS_MAX], out = 'x', in[COUNT];
	size_t len = sizeof address;
	struct fid_cntr *sent, *received;
	struct node node;

	alarm(WATCHDOG_S);
	node.info = choose(argc > 1 ? argv[1] : "tcp", FI_TAGGED);
	CHECK(fi_fabric(node.info->fabric_attr, &node.fabric, NULL));
	CHECK(fi_domain(node.fabric, node.info, &node.domain, NULL));
	CHECK(fi_av_open(node.domain, &av_attr, &node.av, NULL));
	CHECK(fi_cq_open(node.domain, &cq_attr, &node.cq, NULL));
	CHECK(fi_endpoint(node.domain, node.info, &node.ep, NULL));
	CHECK(fi_ep_bind(node.ep, &node.av->fid, 0));
	/* ANCHOR: bind */
	CHECK(fi_cntr_open(node.domain, &attr, &sent, NULL));
	CHECK(fi_cntr_open(node.domain, &attr, &received, NULL));
	CHECK(fi_ep_bind(node.ep, &sent->fid, FI_SEND));
	CHECK(fi_ep_bind(node.ep, &received->fid, FI_RECV));
	/* The queue is for failures, and for operations that ask for a completion by FI_COMPLETION. */
	CHECK(fi_ep_bind(node.ep, &node.cq->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION));
	/* ANCHOR_END: bind */
	CHECK(fi_enable(node.ep));
	CHECK(fi_getname(&node.ep->fid, address, &len));
	EXPECT(fi_av_insert(node.av, address, 1, &node.peer, 0, NULL) == 1);

	for (int i = 0; i < COUNT; i++) {
		post_receive(&node, &in[i], 1, 0, &operations[2 * i]);
		post_send(&node, &out, 1, 0, &operations[2 * i + 1]);
	}
	/* ANCHOR: wait */
	/* -FI_EAVAIL here would mean that an operation has failed: which one is in the queue. */
	CHECK(fi_cntr_wait(received, COUNT, PATIENCE_MS));
	CHECK(fi_cntr_wait(sent, COUNT, PATIENCE_MS));
	EXPECT(fi_cntr_read(received) == COUNT && fi_cntr_readerr(received) == 0);
	/* ANCHOR_END: wait */
	/* No completion was written for any of them. */
	EXPECT(fi_cq_read(node.cq, NULL, 0) == -FI_EAGAIN);
	CHECK(fi_close(&node.ep->fid));
	CHECK(fi_close(&sent->fid));
	CHECK(fi_close(&received->fid));
	CHECK(fi_close(&node.cq->fid));
	CHECK(fi_close(&node.av->fid));
	CHECK(fi_close(&node.domain->fid));
	CHECK(fi_close(&node.fabric->fid));
	fi_freeinfo(node.info);
	return EXIT_SUCCESS;
}
