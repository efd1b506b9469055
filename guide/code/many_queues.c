/*
 * Many queues and few of them with something in them: a poll set says which to read.
 *
 * many_queues [PROVIDER]
 */
#include "node.h"

enum { QUEUES = 8 };

int main(int argc, char **argv)
{
	struct fi_poll_attr poll_attr = { 0 };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE };
	struct operation send = { 0 }, receive;
	struct fid_cq *queues[QUEUES];
	struct fi_cq_tagged_entry entry;
	char address[ADDRESS_MAX], out = 'x', in = 0;
	size_t len = sizeof address;
	struct fid_poll *set;
	struct fid_ep *ep;
	struct node node;
	int numbers[QUEUES], ended = 0;
	ssize_t result;

	alarm(WATCHDOG_S);
	open_node(&node, argc > 1 ? argv[1] : "tcp", FI_TAGGED, FI_WAIT_UNSPEC);
	/* ANCHOR: open */
	CHECK(fi_poll_open(node.domain, &poll_attr, &set));
	for (int i = 0; i < QUEUES; i++) {
		numbers[i] = i;
		/* What fi_poll returns for a queue is its context. */
		CHECK(fi_cq_open(node.domain, &cq_attr, &queues[i], &numbers[i]));
		CHECK(fi_poll_add(set, &queues[i]->fid, 0));
	}
	/* ANCHOR_END: open */
	CHECK(fi_endpoint(node.domain, node.info, &ep, NULL));
	CHECK(fi_ep_bind(ep, &node.av->fid, 0));
	CHECK(fi_ep_bind(ep, &queues[5]->fid, FI_TRANSMIT));
	CHECK(fi_ep_bind(ep, &queues[6]->fid, FI_RECV));
	CHECK(fi_enable(ep));
	CHECK(fi_getname(&ep->fid, address, &len));
	EXPECT(fi_av_insert(node.av, address, 1, &node.peer, 0, NULL) == 1);
	CHECK(fi_trecv(ep, &in, 1, NULL, FI_ADDR_UNSPEC, 0, 0, &receive.context));
	while ((result = fi_tsend(ep, &out, 1, NULL, node.peer, 0, &send.context)) == -FI_EAGAIN)
		fi_cq_read(queues[5], NULL, 0); /* makes progress and takes nothing */
	CHECK(result);
	/* ANCHOR: poll */
	while (ended < 2) {
		void *ready[QUEUES];
		int count = (int)CHECK(fi_poll(set, ready, QUEUES));

		for (int i = 0; i < count; i++) {
			int number = *(int *)ready[i];

			/* It may have nothing after all: fi_poll also drives the endpoints of its queues. */
			EXPECT(number == 5 || number == 6);
			if (fi_cq_read(queues[number], &entry, 1) == 1)
				ended++;
		}
	}
	/* ANCHOR_END: poll */
	CHECK(fi_close(&ep->fid));
	for (int i = 0; i < QUEUES; i++) {
		CHECK(fi_poll_del(set, &queues[i]->fid, 0));
		CHECK(fi_close(&queues[i]->fid));
	}
	CHECK(fi_close(&set->fid));
	close_node(&node);
	return EXIT_SUCCESS;
}
