/*
 * A window of operations: many sends under way, and as many receives posted.
 *
 * stream [PROVIDER]
 */
#include "node.h"

enum { WINDOW = 16, COUNT = 10000, LENGTH = 1024, TAG = 1 };

/* ANCHOR: slot */
/* A buffer and its operation, which live and are free together. */
struct slot {
	struct operation operation;
	char buffer[LENGTH];
};
/* ANCHOR_END: slot */

/* ANCHOR: sender */
static void sender(struct node *node)
{
	static struct slot slots[WINDOW];

	for (int i = 0; i < COUNT; i++) {
		struct slot *slot = &slots[i % WINDOW];

		/* The oldest one is most likely done; if not, there is nothing better to do than to wait for it. */
		if (i >= WINDOW)
			finish(node, &slot->operation);
		memcpy(slot->buffer, &i, sizeof i);
		post_send(node, slot->buffer, LENGTH, TAG, &slot->operation);
	}
	for (int i = 0; i < WINDOW; i++)
		finish(node, &slots[i].operation);
}
/* ANCHOR_END: sender */

/* ANCHOR: receiver */
static void receiver(struct node *node)
{
	static struct slot slots[WINDOW];
	int number;

	for (int i = 0; i < WINDOW; i++)
		post_receive(node, slots[i].buffer, LENGTH, TAG, &slots[i].operation);
	for (int i = 0; i < COUNT; i++) {
		struct slot *slot = &slots[i % WINDOW];

		/* Receives are matched in the order in which they were posted; they may complete in another. */
		finish(node, &slot->operation);
		memcpy(&number, slot->buffer, sizeof number);
		EXPECT(number == i);
		if (i + WINDOW < COUNT)
			post_receive(node, slot->buffer, LENGTH, TAG, &slot->operation);
	}
	printf("%d messages\n", COUNT);
}
/* ANCHOR_END: receiver */

int main(int argc, char **argv)
{
	struct node node;
	int channel;
	pid_t child = split(&channel);

	open_node(&node, argc > 1 ? argv[1] : "tcp", FI_TAGGED, FI_WAIT_UNSPEC);
	meet(&node, channel);
	if (child)
		receiver(&node);
	else
		sender(&node);
	close_node(&node);
	if (child)
		join(child);
	return EXIT_SUCCESS;
}
