/*
 * doorman rdm|msg FOLDER [BACKLOG]
 *
 * Sleeps at an endpoint of tcp until the file "stop" appears in the folder, looking up now and then: at a reliable datagram endpoint, or
 * at a passive endpoint that takes BACKLOG requests at a time. Of those it reads none before the file "open" appears; then it
 * prints "asked DATA" for each, and rejects it with the data "seen".
 */
#include "node.h"
#include "listener.h"

enum { GLANCE_MS = 50 };

struct doorman {
	struct node node;
	struct listener listener;
	const char *folder;
};

static int is_there(const struct doorman *me, const char *name)
{
	char file[PATH_MAX];

	snprintf(file, sizeof file, "%s/%s", me->folder, name);
	return !access(file, F_OK);
}

static void watch_messages(struct doorman *me)
{
	struct fi_cq_tagged_entry entry;

	while (!is_there(me, "stop"))
		if (fi_cq_sread(me->node.cq, &entry, 1, NULL, GLANCE_MS) > 0)
			printf("message\n");
}

/* A look at the queue drives the listener and leaves what is there. */
static void look(struct doorman *me)
{
	char bytes[sizeof(struct fi_eq_cm_entry) + REQUEST_DATA_MAX];
	uint32_t event;

	if (fi_eq_sread(me->listener.eq, &event, bytes, sizeof bytes, GLANCE_MS, FI_PEEK) > 0)
		usleep(GLANCE_MS * 1000);
}

static void answer(struct doorman *me)
{
	char data[REQUEST_DATA_MAX];

	if (listener_reject(&me->listener, GLANCE_MS, data))
		printf("asked %s\n", data);
}

static void watch_requests(struct doorman *me, int backlog)
{
	listener_open(&me->listener, backlog);
	while (!is_there(me, "stop"))
		is_there(me, "open") ? answer(me) : look(me);
	listener_close(&me->listener);
}

int main(int argc, char **argv)
{
	static struct doorman me;

	if (argc != 3 && argc != 4)
		return EXIT_FAILURE;
	setvbuf(stdout, NULL, _IOLBF, 0);
	me.folder = argv[2];
	if (!strcmp(argv[1], "msg")) {
		watch_requests(&me, argc == 4 ? atoi(argv[3]) : 0);
		return EXIT_SUCCESS;
	}
	node_open_as(&me.node, "tcp", FI_TAGGED, FI_WAIT_UNSPEC);
	node_publish(&me.node, me.folder, "doorman");
	watch_messages(&me);
	node_close(&me.node);
	return EXIT_SUCCESS;
}
