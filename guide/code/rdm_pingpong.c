/*
 * Two processes throw a tagged message to and fro.
 *
 * rdm_pingpong [PROVIDER]
 */
#include "node.h"

enum { ROUNDS = 1000 };
enum { TAG_PING = 1, TAG_PONG = 2 };

/* ANCHOR: play */
static void ping(struct node *node)
{
	struct operation send, receive;
	long ball = 0, answer;

	for (int round = 0; round < ROUNDS; round++) {
		/* The receive first: then the answer goes straight into its buffer. */
		post_receive(node, &answer, sizeof answer, TAG_PONG, &receive);
		post_send(node, &ball, sizeof ball, TAG_PING, &send);
		finish(node, &receive);
		EXPECT(receive.len == sizeof answer && answer == ball + 1);
		/* Only now may the ball be written again. */
		finish(node, &send);
		ball = answer;
	}
	printf("%d messages went there and back\n", ROUNDS);
}

static void pong(struct node *node)
{
	struct operation send, receive;
	long ball;

	for (int round = 0; round < ROUNDS; round++) {
		post_receive(node, &ball, sizeof ball, TAG_PING, &receive);
		finish(node, &receive);
		ball++;
		post_send(node, &ball, sizeof ball, TAG_PONG, &send);
		finish(node, &send);
	}
}
/* ANCHOR_END: play */

/* ANCHOR: main */
int main(int argc, char **argv)
{
	struct node node;
	int channel;
	pid_t child = split(&channel);

	open_node(&node, argc > 1 ? argv[1] : "tcp", FI_TAGGED, FI_WAIT_UNSPEC);
	meet(&node, channel);
	if (child)
		ping(&node);
	else
		pong(&node);
	close_node(&node);
	if (child)
		join(child);
	return EXIT_SUCCESS;
}
/* ANCHOR_END: main */
