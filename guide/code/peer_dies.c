/*
 * A peer is ended by force. What is pending towards it completes in error.
 *
 * peer_dies [PROVIDER]
 */
#include <signal.h>

#include "node.h"

enum { LENGTH = 16 << 20 };

/* ANCHOR: survive */
/* Takes the next completion, and returns the error of its operation or 0. */
static int outcome(struct node *node)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry failed = { 0 };
	ssize_t count;

	do
		count = fi_cq_sread(node->cq, &entry, 1, NULL, 1000);
	while (count == -FI_EAGAIN || count == -FI_EINTR);
	if (count != -FI_EAVAIL) {
		CHECK(count);
		return 0;
	}
	CHECK(fi_cq_readerr(node->cq, &failed, 0));
	return failed.err;
}

static void survive(struct node *node, pid_t peer)
{
	char *message = calloc(1, LENGTH);
	struct operation send = { 0 };
	ssize_t result;
	int err;

	EXPECT(message);
	/* Too long to be kept anywhere: it waits for a receive, which will never be posted. */
	while ((result = fi_tsend(node->ep, message, LENGTH, NULL, node->peer, 2, &send.context)) == -FI_EAGAIN)
		progress(node, 0);
	CHECK(result);
	EXPECT(!kill(peer, SIGKILL));
	err = outcome(node);
	printf("the send ended: %s\n", fi_strerror(err));
	EXPECT(err);
	/* A completion, if one in error: the buffer is ours again. */
	free(message);
}
/* ANCHOR_END: survive */

int main(int argc, char **argv)
{
	struct operation hello;
	struct node node;
	int channel, status;
	char letter = 0;
	pid_t child = split(&channel);

	open_node(&node, argc > 1 ? argv[1] : "tcp", FI_TAGGED, FI_WAIT_UNSPEC);
	meet(&node, channel);
	if (!child) {
		post_send(&node, &letter, 1, 1, &hello);
		finish(&node, &hello);
		/* Makes progress until it is killed. */
		for (;;)
			fi_cq_sread(node.cq, NULL, 0, NULL, 1000);
	}
	post_receive(&node, &letter, 1, 1, &hello);
	finish(&node, &hello);
	survive(&node, child);
	EXPECT(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	close_node(&node);
	return EXIT_SUCCESS;
}
