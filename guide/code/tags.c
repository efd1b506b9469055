/*
 * Which tagged message a receive takes, its source, and a look at what has arrived.
 *
 * tags [PROVIDER]
 */
#include "node.h"

int main(int argc, char **argv)
{
	struct operation send[2] = { 0 };
	struct fi_cq_tagged_entry entry;
	char address[ADDRESS_MAX];
	size_t len = sizeof address;
	char in[2] = { 0 };
	fi_addr_t from;
	struct node node;
	ssize_t count, result;

	alarm(WATCHDOG_S);
	open_node(&node, argc > 1 ? argv[1] : "tcp", FI_TAGGED | FI_SOURCE, FI_WAIT_UNSPEC);
	CHECK(fi_getname(&node.ep->fid, address, &len));
	EXPECT(fi_av_insert(node.av, address, 1, &node.peer, 0, NULL) == 1);
	/* ANCHOR: tags */
	/* The upper half says what a message is, the lower half which client it is of. */
	const uint64_t question = 1ULL << 32, client = 0xffffffff;
	struct operation any = { 0 }, seventh = { 0 };

	post_send(&node, "a", 1, question | 4, &send[0]);
	post_send(&node, "b", 1, question | 7, &send[1]);
	/* Bits that are ignored do not count: the first takes questions of every client, and gets the earliest. */
	CHECK(fi_trecv(node.ep, &in[0], 1, NULL, FI_ADDR_UNSPEC, question, client, &any.context));
	CHECK(fi_trecv(node.ep, &in[1], 1, NULL, FI_ADDR_UNSPEC, question | 7, 0, &seventh.context));
	/* ANCHOR_END: tags */
	/* ANCHOR: source */
	while (!any.done || !seventh.done || !send[0].done || !send[1].done) {
		count = fi_cq_readfrom(node.cq, &entry, 1, &from);
		if (count == -FI_EAGAIN)
			continue;
		CHECK(count);
		((struct operation *)entry.op_context)->done = 1;
		if (entry.flags & FI_RECV)
			/* FI_ADDR_NOTAVAIL would mean: a peer that is not in the address vector. */
			EXPECT(from == node.peer);
	}
	/* ANCHOR_END: source */
	EXPECT(in[0] == 'a' && in[1] == 'b');
	/* ANCHOR: peek */
	/* Is there a message with tag 9? None was sent. */
	struct operation look = { 0 };
	struct fi_cq_err_entry none = { 0 };
	struct fi_msg_tagged wanted = { .addr = FI_ADDR_UNSPEC, .tag = 9, .context = &look.context };

	while ((result = fi_trecvmsg(node.ep, &wanted, FI_PEEK)) == -FI_EAGAIN)
		progress(&node, 0);
	CHECK(result);
	do
		count = fi_cq_read(node.cq, &entry, 1);
	while (count == -FI_EAGAIN);
	/* A completion would have its length and tag; the error says that there is none now. */
	EXPECT(count == -FI_EAVAIL);
	CHECK(fi_cq_readerr(node.cq, &none, 0));
	EXPECT(none.op_context == &look && none.err == FI_ENOMSG);
	/* ANCHOR_END: peek */
	close_node(&node);
	return EXIT_SUCCESS;
}
