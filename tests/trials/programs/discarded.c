/*
 * discarded FOLDER a|b sent|asked
 *
 * The endpoint a sends more messages than b's device takes while b makes no progress, and posts a receive. When some are sent it takes the memory of all away, and closes the
 * endpoint. From then on b makes progress. That is against the man page, but programs do it: closing touches none of that memory. With asked there are messages
 * among them whose data b asks for then. Without, b receives at least those that a knows to be sent.
 *
 * a prints "sent N" and "closed", b "received N of N" at least.
 */
#include <sys/mman.h>

#include "efa.h"

enum { MESSAGES = 400, SENT = 50, INJECTED = 8, SHORT = 100, LONG = 60000, ASKED = 200000 };

static struct fi_context2 contexts[MESSAGES + INJECTED + 1];

static size_t length(int message, int has_asked)
{
	return message % 2 ? LONG : has_asked && message % 4 == 2 ? ASKED : SHORT;
}

/* Returns how many operations have ended well since the last call. */
static int ended(struct node *node)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = { 0 };
	int count = 0;
	ssize_t got;

	while ((got = fi_cq_read(node->cq, &entry, 1)) == 1)
		count++;
	if (got == -FI_EAVAIL)
		expect("fi_cq_readerr", fi_cq_readerr(node->cq, &error, 0));
	return count;
}

/* Opens a file of the folder; NULL if it does not exist. */
static FILE *opened(const char *folder, const char *name, const char *mode)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	file = fopen(path, mode);
	if (!file && errno != ENOENT)
		expect(name, -errno);
	return file;
}

static void write_number(const char *folder, const char *name, int number)
{
	FILE *file = opened(folder, name, "w");

	if (!file || fprintf(file, "%d", number) < 0 || fclose(file))
		expect(name, -FI_EIO);
}

static void leave(struct node *node, const char *folder, int has_asked)
{
	fi_addr_t peer = node_meet(node, folder, "b");
	uint8_t *memory = mmap(NULL, ASKED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	double deadline = now_s() + PATIENCE_S;
	int sent = 0;

	if (memory == MAP_FAILED)
		expect("mmap", -errno);
	expect("fi_recv", fi_recv(node->ep, memory, ASKED, NULL, FI_ADDR_UNSPEC, &contexts[0]));
	for (int message = 0; message < INJECTED; message++)
		expect("fi_inject", fi_inject(node->ep, memory, SHORT, peer));
	for (int message = 0; message < MESSAGES; message++)
		expect("fi_send", fi_send(node->ep, memory, length(message, has_asked), NULL, peer, &contexts[message + 1]));
	while ((sent += ended(node)) < SENT)
		if (now_s() > deadline)
			expect("sends", -FI_ETIMEDOUT);
	if (sent == MESSAGES)
		expect("more messages than the device takes", -FI_EOTHER);
	sent += INJECTED;
	printf("sent %d\n", sent);
	write_number(folder, "number", sent);
	node_publish(node, folder, "a");
	expect("munmap", munmap(memory, ASKED) ? -errno : 0);
	expect("fi_close", fi_close(&node->ep->fid));
	printf("closed\n");
	write_number(folder, "closed", 1);
}

static int is_there(const char *folder, const char *name)
{
	FILE *file = opened(folder, name, "r");

	return file && !fclose(file);
}

static void receive_all(struct node *node, const char *folder, int has_asked)
{
	static uint8_t buffer[ASKED];
	double deadline = now_s() + PATIENCE_S;
	int received = 0, sent;
	FILE *number;

	for (int message = 0; message < MESSAGES + INJECTED; message++)
		expect("fi_recv", fi_recv(node->ep, buffer, ASKED, NULL, FI_ADDR_UNSPEC, &contexts[message]));
	node_publish(node, folder, "b");
	node_meet(node, folder, "a");
	number = opened(folder, "number", "r");
	if (!number || fscanf(number, "%d", &sent) != 1)
		expect("the number of messages", -FI_EIO);
	fclose(number);
	for (int is_over = 0; !is_over; ) {
		is_over = has_asked ? is_there(folder, "closed") : received >= sent;
		received += ended(node);
		if (now_s() > deadline)
			expect("messages", -FI_ETIMEDOUT);
	}
	printf("received %d of %d\n", received, sent);
}

int main(int argc, char **argv)
{
	struct fi_info *hints = efa_hints("efa", FI_MSG);
	struct node node = { 0 };
	int has_asked;

	if (argc != 4)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	has_asked = !strcmp(argv[3], "asked");
	hints->domain_attr->mr_mode = 0;
	efa_select(&node, hints);
	node_make(&node, FI_WAIT_NONE);
	if (!strcmp(argv[2], "a"))
		leave(&node, argv[1], has_asked);
	else
		receive_all(&node, argv[1], has_asked);
	return 0;
}
