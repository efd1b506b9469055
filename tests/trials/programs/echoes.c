/*
 * echoes FOLDER PROVIDER...
 *
 * One process serves several endpoints: it returns every message to the peer of that endpoint, which is a volley asker. Each
 * endpoint meets its peer in the folder FOLDER/PROVIDER, where it is called "answerer". The program ends when every
 * peer has sent the tag that says so. Meanwhile it also listens at a passive endpoint of tcp, whose address it prints last, and
 * rejects what asks for a connection there.
 */
#include "node.h"
#include "listener.h"

enum { LARGEST = 1 << 20, TAG_STOP = 2, ENDPOINTS_MAX = 8, BUFFERED = 1 << 20 };

enum state { RECEIVES, ANSWERS, SENDS, STOPPED };

struct echo {
	struct node node;
	fi_addr_t peer;
	struct fi_context context;
	enum state state;
	unsigned char *memory;
	size_t len;
	uint64_t tag;
};

static void receive(struct echo *echo)
{
	expect("fi_trecv", fi_trecv(echo->node.ep, echo->memory, LARGEST, NULL, echo->peer, 0, ~0ULL, &echo->context));
	echo->state = RECEIVES;
}

/* Posts the answer; if there is no room now, the next turn tries again. */
static void answer(struct echo *echo)
{
	ssize_t result = fi_tsend(echo->node.ep, echo->memory, echo->len, NULL, echo->peer, echo->tag, &echo->context);

	if (result == -FI_EAGAIN)
		return;
	expect("fi_tsend", result);
	echo->state = SENDS;
}

static void completed(struct echo *echo, const struct fi_cq_tagged_entry *entry)
{
	if (echo->state == RECEIVES) {
		echo->len = entry->len;
		echo->tag = entry->tag;
		echo->state = ANSWERS;
	} else if (echo->tag == TAG_STOP) {
		echo->state = STOPPED;
	} else {
		receive(echo);
	}
}

static void turn(struct echo *echo)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry failed = { 0 };
	ssize_t result = fi_cq_read(echo->node.cq, &entry, 1);

	if (result == -FI_EAVAIL) {
		expect("fi_cq_readerr", fi_cq_readerr(echo->node.cq, &failed, 0));
		expect("completion", -failed.err);
	}
	if (result == 1)
		completed(echo, &entry);
	else if (result != -FI_EAGAIN)
		expect("fi_cq_read", result);
	if (echo->state == ANSWERS)
		answer(echo);
}

static void start(struct echo *echo, const char *folder, const char *provider)
{
	char meeting[PATH_MAX / 2];

	snprintf(meeting, sizeof meeting, "%s/%s", folder, provider);
	echo->memory = calloc(1, LARGEST);
	node_open(&echo->node, provider);
	node_publish(&echo->node, meeting, "answerer");
	echo->peer = node_meet(&echo->node, meeting, "asker");
	receive(echo);
}

int main(int argc, char **argv)
{
	static struct echo echoes[ENDPOINTS_MAX];
	char data[REQUEST_DATA_MAX];
	struct listener listener;
	int count = argc - 2, stopped = 0;

	node_buffered = BUFFERED;
	if (count < 1 || count > ENDPOINTS_MAX)
		return EXIT_FAILURE;
	for (int i = 0; i < count; i++)
		start(&echoes[i], argv[1], argv[2 + i]);
	listener_open(&listener, 0);
	while (stopped < count) {
		stopped = 0;
		listener_reject(&listener, 0, data);
		for (int i = 0; i < count; i++) {
			turn(&echoes[i]);
			stopped += echoes[i].state == STOPPED;
		}
	}
	listener_close(&listener);
	for (int i = 0; i < count; i++) {
		node_close(&echoes[i].node);
		free(echoes[i].memory);
	}
	return EXIT_SUCCESS;
}
