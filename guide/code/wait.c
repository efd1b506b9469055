/*
 * One process sleeps until a message or a line from a pipe is there, whichever is first; the other sends both.
 *
 * wait [PROVIDER]
 */
#include <poll.h>

#include "node.h"

enum { COUNT = 200 };

/* ANCHOR: loop */
static void listen_to_both(struct node *node, int lines)
{
	struct fid *queues[] = { &node->cq->fid };
	struct pollfd watched[2] = { { .events = POLLIN }, { .fd = lines, .events = POLLIN } };
	int messages = 0, bytes = 0;
	struct operation receive;
	char letter, line[64];
	ssize_t len;

	CHECK(fi_control(&node->cq->fid, FI_GETWAIT, &watched[0].fd));
	post_receive(node, &letter, 1, 0, &receive);
	while (messages < COUNT || bytes < COUNT) {
		/* May we sleep? Only poll(2) after FI_SUCCESS is sure to wake up. */
		int result = fi_trywait(node->fabric, queues, 1);

		if (result != -FI_EAGAIN)
			CHECK(result);
		EXPECT(poll(watched, 2, result == FI_SUCCESS ? -1 : 0) >= 0);
		if (watched[1].revents) {
			len = read(lines, line, sizeof line);
			EXPECT(len >= 0);
			bytes += (int)len;
			/* An end of the pipe would be readable for ever. */
			if (!len)
				watched[1].fd = -1;
		}
		/* Whatever the descriptor said: read the queue until it is empty. */
		while (progress(node, 0), receive.done) {
			EXPECT(letter == (char)messages);
			messages++;
			post_receive(node, &letter, 1, 0, &receive);
		}
	}
	printf("%d messages and %d bytes\n", messages, bytes);
	CHECK(fi_cancel(&node->ep->fid, &receive.context));
}
/* ANCHOR_END: loop */

static void speak_twice(struct node *node, int lines)
{
	struct operation send;

	for (int i = 0; i < COUNT; i++) {
		char letter = (char)i;

		EXPECT(write(lines, ".", 1) == 1);
		post_send(node, &letter, 1, 0, &send);
		finish(node, &send);
	}
}

int main(int argc, char **argv)
{
	struct node node;
	int channel, lines[2];
	pid_t child;

	EXPECT(!pipe(lines));
	child = split(&channel);
	close(lines[child ? 1 : 0]);
	open_node(&node, argc > 1 ? argv[1] : "tcp", FI_TAGGED, FI_WAIT_FD);
	meet(&node, channel);
	if (child)
		listen_to_both(&node, lines[0]);
	else
		speak_twice(&node, lines[1]);
	close_node(&node);
	if (child)
		join(child);
	return EXIT_SUCCESS;
}
