/*
 * What completions say, with an endpoint that sends to itself.
 *
 * completions [PROVIDER]
 */
#include "node.h"

/* ANCHOR: truncated */
/* A message that does not fit: the receive completes in error. */
static void too_long(struct node *node)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry failed = { 0 };
	char small[4], large[64] = { 0 };
	struct operation send, receive;
	ssize_t count;
	int failures = 0;

	post_receive(node, small, sizeof small, 1, &receive);
	post_send(node, large, sizeof large, 1, &send);
	/* Two operations end: one as it should. */
	for (int ended = 0; ended < 2;) {
		count = fi_cq_read(node->cq, &entry, 1);
		if (count == 1) {
			EXPECT(entry.op_context == &send);
			ended++;
		} else if (count == -FI_EAVAIL) {
			CHECK(fi_cq_readerr(node->cq, &failed, 0));
			EXPECT(failed.op_context == &receive);
			EXPECT(failed.err == FI_ETRUNC);
			/* How many bytes did not fit, if the provider says. */
			EXPECT(!failed.olen || failed.olen == sizeof large - sizeof small);
			failures++;
			ended++;
		} else {
			EXPECT(count == -FI_EAGAIN);
		}
	}
	EXPECT(failures == 1);
}
/* ANCHOR_END: truncated */

/* ANCHOR: level */
/* Completes when the message is in the peer's buffer, and not before. */
static void delivered(struct node *node)
{
	char out = 'x', in = 0;
	struct operation send = { 0 }, receive;
	struct iovec iov = { .iov_base = &out, .iov_len = 1 };
	struct fi_msg_tagged message = {
		.msg_iov = &iov,
		.iov_count = 1,
		.addr = node->peer,
		.tag = 2,
		.context = &send.context,
	};
	ssize_t result;

	post_receive(node, &in, 1, 2, &receive);
	while ((result = fi_tsendmsg(node->ep, &message, FI_DELIVERY_COMPLETE)) == -FI_EAGAIN)
		progress(node, 0);
	CHECK(result);
	finish(node, &send);
	/* The peer is this process, so it can be seen. */
	EXPECT(in == 'x');
	finish(node, &receive);
}
/* ANCHOR_END: level */

/* ANCHOR: inject */
/* The buffer is free when the call returns, and there is no completion. */
static void injected(struct node *node)
{
	struct operation receive;
	long in = 0;
	ssize_t result;

	EXPECT(sizeof in <= node->info->tx_attr->inject_size);
	post_receive(node, &in, sizeof in, 3, &receive);
	do {
		long out = 4711;

		result = fi_tinject(node->ep, &out, sizeof out, node->peer, 3);
		if (result == -FI_EAGAIN)
			progress(node, 0);
	} while (result == -FI_EAGAIN);
	CHECK(result);
	finish(node, &receive);
	EXPECT(in == 4711);
}
/* ANCHOR_END: inject */

/* ANCHOR: cancel */
/* A receive for which no message comes. Its completion says what became of it. */
static void cancelled(struct node *node)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry failed = { 0 };
	struct operation receive;
	ssize_t count;
	char in;

	post_receive(node, &in, 1, 4, &receive);
	CHECK(fi_cancel(&node->ep->fid, &receive.context));
	do
		count = fi_cq_read(node->cq, &entry, 1);
	while (count == -FI_EAGAIN);
	EXPECT(count == -FI_EAVAIL);
	CHECK(fi_cq_readerr(node->cq, &failed, 0));
	/* Only now are the buffer and the context ours again. */
	EXPECT(failed.op_context == &receive && failed.err == FI_ECANCELED);
}
/* ANCHOR_END: cancel */

int main(int argc, char **argv)
{
	struct node node;
	char address[ADDRESS_MAX];
	size_t len = sizeof address;

	alarm(WATCHDOG_S);
	open_node(&node, argc > 1 ? argv[1] : "tcp", FI_TAGGED, FI_WAIT_UNSPEC);
	CHECK(fi_getname(&node.ep->fid, address, &len));
	EXPECT(fi_av_insert(node.av, address, 1, &node.peer, 0, NULL) == 1);
	too_long(&node);
	delivered(&node);
	injected(&node);
	cancelled(&node);
	close_node(&node);
	return EXIT_SUCCESS;
}
