/*
 * doorman rdm|msg FOLDER [BACKLOG]
 *
 * Sleeps at an endpoint of tcp until the file "stop" appears in the folder, looking up now and then: at a reliable datagram endpoint, or
 * at a passive endpoint that takes BACKLOG requests at a time. Of those it reads none before the file "open" appears; then it
 * prints "asked DATA" for each, and rejects it with the data "seen".
 */
#include <arpa/inet.h>
#include <rdma/fi_eq.h>

#include "node.h"

enum { GLANCE_MS = 50, DATA_MAX = 256 };

struct doorman {
	struct node node;
	struct fid_pep *pep;
	struct fid_eq *eq;
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

static void open_door(struct doorman *me, int backlog)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_info *hints = fi_allocinfo();
	struct sockaddr_in at;
	size_t len = sizeof at;

	hints->ep_attr->type = FI_EP_MSG;
	hints->caps = FI_MSG;
	hints->fabric_attr->prov_name = strdup("tcp");
	expect("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", NULL, FI_SOURCE, hints, &me->node.info));
	fi_freeinfo(hints);
	expect("fi_fabric", fi_fabric(me->node.info->fabric_attr, &me->node.fabric, NULL));
	expect("fi_eq_open", fi_eq_open(me->node.fabric, &attr, &me->eq, NULL));
	expect("fi_passive_ep", fi_passive_ep(me->node.fabric, me->node.info, &me->pep, NULL));
	expect("fi_pep_bind", fi_pep_bind(me->pep, &me->eq->fid, 0));
	if (backlog)
		expect("fi_control", fi_control(&me->pep->fid, FI_BACKLOG, &backlog));
	expect("fi_listen", fi_listen(me->pep));
	expect("fi_getname", fi_getname(&me->pep->fid, &at, &len));
	printf("address fi_sockaddr_in://127.0.0.1:%u\n", ntohs(at.sin_port));
}

/* A look at the queue drives the listener and leaves what is there. */
static void look(struct doorman *me)
{
	char bytes[sizeof(struct fi_eq_cm_entry) + DATA_MAX];
	uint32_t event;

	if (fi_eq_sread(me->eq, &event, bytes, sizeof bytes, GLANCE_MS, FI_PEEK) > 0)
		usleep(GLANCE_MS * 1000);
}

static void answer(struct doorman *me)
{
	struct { struct fi_eq_cm_entry entry; char data[DATA_MAX]; } asked = { 0 };
	uint32_t event;
	ssize_t len = fi_eq_sread(me->eq, &event, &asked, sizeof asked - 1, GLANCE_MS, 0);

	if (len < 0 || event != FI_CONNREQ)
		return;
	printf("asked %s\n", asked.data);
	/* One that has left cannot be told. */
	fi_reject(me->pep, asked.entry.info->handle, "seen", 4);
	fi_freeinfo(asked.entry.info);
}

static void watch_requests(struct doorman *me, int backlog)
{
	open_door(me, backlog);
	while (!is_there(me, "stop"))
		is_there(me, "open") ? answer(me) : look(me);
	expect("fi_close", fi_close(&me->pep->fid));
	expect("fi_close", fi_close(&me->eq->fid));
	expect("fi_close", fi_close(&me->node.fabric->fid));
	fi_freeinfo(me->node.info);
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
