/*
 * Questions and answers over datagrams, which may be lost: a question without an answer is asked again.
 *
 * datagram [PROVIDER]
 */
#include <poll.h>

#include "node.h"

enum { QUESTIONS = 100, AGAIN_MS = 20 };

static struct fi_info *choose_datagrams(const char *provider)
{
	struct fi_info *hints = fi_allocinfo(), *info;

	EXPECT(hints);
	/* ANCHOR: hints */
	hints->caps = FI_MSG;
	hints->ep_attr->type = FI_EP_DGRAM;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	/* ANCHOR_END: hints */
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->fabric_attr->prov_name = strdup(provider);
	CHECK(fi_getinfo(FI_VERSION(1, 20), "127.0.0.1", NULL, FI_SOURCE, hints, &info));
	fi_freeinfo(hints);
	return info;
}

static void receive_number(struct node *node, int *number, struct operation *receive)
{
	receive->done = 0;
	CHECK(fi_recv(node->ep, number, sizeof *number, NULL, FI_ADDR_UNSPEC, &receive->context));
}

static void send_number(struct node *node, const int *number, struct operation *send)
{
	ssize_t result;

	send->done = 0;
	while ((result = fi_send(node->ep, number, sizeof *number, NULL, node->peer, &send->context)) == -FI_EAGAIN)
		progress(node, 0);
	CHECK(result);
	/* It has left: more than that a completion never means here. */
	finish(node, send);
}

/* ANCHOR: ask */
static void ask(struct node *node)
{
	struct operation send, receive;
	int answer, attempts = 0;

	receive_number(node, &answer, &receive);
	for (int question = 0; question < QUESTIONS; attempts++) {
		send_number(node, &question, &send);
		progress(node, AGAIN_MS);
		/* All answers that are there. One to a question that was asked twice comes twice. */
		while (receive.done) {
			if (answer == question)
				question++;
			receive_number(node, &answer, &receive);
			progress(node, 0);
		}
	}
	printf("%d answers after %d attempts\n", QUESTIONS, attempts);
	EXPECT(attempts > QUESTIONS);
	/* Closing the endpoint ends the last receive. */
}
/* ANCHOR_END: ask */

/* Answers until the other side closes the channel; now and then not, as if a message had been lost. */
static void answer(struct node *node, int channel)
{
	struct pollfd closed = { .fd = channel, .events = POLLIN };
	struct operation send, receive;
	int number, count = 0;

	receive_number(node, &number, &receive);
	while (!poll(&closed, 1, 0)) {
		progress(node, AGAIN_MS);
		if (receive.done) {
			if (++count % 10)
				send_number(node, &number, &send);
			receive_number(node, &number, &receive);
		}
	}
}

int main(int argc, char **argv)
{
	struct node node;
	int channel;
	pid_t child = split(&channel);

	open_offer(&node, choose_datagrams(argc > 1 ? argv[1] : "udp"), FI_WAIT_UNSPEC);
	meet(&node, channel);
	if (child)
		ask(&node);
	else
		answer(&node, channel);
	close(channel);
	close_node(&node);
	if (child)
		join(child);
	return EXIT_SUCCESS;
}
