/*
 * unready FOLDER a|b closed|lost
 *
 * On a network where no receiver is ready, the endpoint a sends messages of several packets to b out of memory that it has registered, and waits until the device can do no more.
 *
 * With closed it takes the memory away and closes the endpoint, which touches none of it: a prints "closed". With lost it has its device read memory of b, which fails so that b
 * is given up (the network does not answer reads); each of the messages ends by an error then, though no device has refused them: a prints "ended N".
 */
#include <stdbool.h>
#include <sys/mman.h>

#include "efa.h"

#include <rdma/fi_rma.h>

enum { MESSAGES = 40, LONG = 60000, RNR_RETRY = -(0xefa << 16), HOMOGENEOUS_PEERS = -251265017 };

static struct fi_context2 contexts[MESSAGES + 1];

static void path_of(char path[PATH_MAX], const char *folder)
{
	snprintf(path, PATH_MAX, "%s/over", folder);
}

/* Tells the other endpoint that all is over, which stays until then. */
static void tell(const char *folder)
{
	char path[PATH_MAX];
	FILE *file;

	path_of(path, folder);
	file = fopen(path, "w");
	if (!file || fclose(file))
		expect(path, -errno);
}

static void await_end(const char *folder)
{
	double deadline = now_s() + PATIENCE_S;
	char path[PATH_MAX];

	path_of(path, folder);
	while (access(path, F_OK)) {
		if (now_s() > deadline)
			expect("the end", -FI_ETIMEDOUT);
		usleep(1000);
	}
}

/* Waits until the device of this process has ended all that it has to send. */
static void await_device(void)
{
	double deadline = now_s() + PATIENCE_S;

	if (objects("request") < 0)
		expect("softnic_objects", -FI_ENOSYS);
	while (objects("request"))
		if (now_s() > deadline)
			expect("the device", -FI_ETIMEDOUT);
}

/* Waits for the ends of operations, which all fail. */
static void await_failures(struct node *node, int count)
{
	double deadline = now_s() + PATIENCE_S;

	for (int ended = 0; ended < count;) {
		struct fi_cq_tagged_entry entry;
		struct fi_cq_err_entry error = { 0 };
		ssize_t got = fi_cq_read(node->cq, &entry, 1);

		if (got == -FI_EAVAIL) {
			expect("fi_cq_readerr", fi_cq_readerr(node->cq, &error, 0));
			ended++;
		} else if (got != -FI_EAGAIN) {
			expect("an operation with a peer that takes nothing", got < 0 ? got : -FI_EOTHER);
		}
		if (now_s() > deadline) {
			printf("ended %d only\n", ended);
			expect("the ends", -FI_ETIMEDOUT);
		}
	}
	printf("ended %d\n", count);
}

static void play(struct node *node, fi_addr_t peer, int is_closed)
{
	uint8_t *memory = mmap(NULL, LONG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool alike = true;
	void *desc;

	if (memory == MAP_FAILED)
		expect("mmap", -errno);
	expect("fi_mr_reg", fi_mr_reg(node->domain, memory, LONG, FI_SEND | FI_READ, 0, 0, 0, &node->mr, NULL));
	desc = fi_mr_desc(node->mr);
	expect("fi_setopt", fi_setopt(&node->ep->fid, FI_OPT_ENDPOINT, HOMOGENEOUS_PEERS, &alike, sizeof alike));
	for (int message = 0; message < MESSAGES; message++)
		expect("fi_send", fi_send(node->ep, memory, LONG, desc, peer, &contexts[message]));
	await_device();
	if (is_closed) {
		expect("munmap", munmap(memory, LONG) ? -errno : 0);
		expect("fi_close", fi_close(&node->ep->fid));
		printf("closed\n");
		return;
	}
	expect("fi_read", fi_read(node->ep, memory, 100, desc, peer, 4096, 1, &contexts[MESSAGES]));
	await_failures(node, MESSAGES + 1);
	expect("fi_close", fi_close(&node->ep->fid));
}

int main(int argc, char **argv)
{
	struct fi_info *hints = efa_hints("efa", FI_MSG | FI_RMA);
	struct node node = { 0 };
	size_t times = 1;

	if (argc != 4)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	hints->domain_attr->mr_mode &= ~FI_MR_LOCAL;
	efa_select(&node, hints);
	node_prepare(&node, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	expect("fi_setopt", fi_setopt(&node.ep->fid, FI_OPT_ENDPOINT, RNR_RETRY, &times, sizeof times));
	node_enable(&node);
	if (!strcmp(argv[2], "a")) {
		play(&node, node_meet(&node, argv[1], "b"), !strcmp(argv[3], "closed"));
		tell(argv[1]);
	} else {
		node_publish(&node, argv[1], "b");
		await_end(argv[1]);
	}
	return 0;
}
