/*
 * retired FOLDER a|b medium|long|short
 *
 * The endpoint a sends messages out of memory that it has registered, more of several packets than its device takes, or such as the peer has to ask for. With short
 * the second half of them are of one packet, and wait behind the others. Before they have ended
 * it closes the region and takes the memory away. That is a mistake of the application: each of these ends, those that were not sent by an error, and none of that memory is read
 * any more. The endpoint b makes no progress until then, and from then on until a knows of all ends.
 *
 * a prints "ended N, F failed".
 */
#include <sys/mman.h>

#include "efa.h"

enum { MESSAGES = 200, SHORT = 100, MEDIUM = 60000, LONG = 200000 };

static struct fi_context2 contexts[MESSAGES];

/* Counts operations that have ended since the last call, and those of them that have failed. */
static int ended(struct node *node, int *failed)
{
	struct fi_cq_tagged_entry entry;
	int count = 0;
	ssize_t got;

	while ((got = fi_cq_read(node->cq, &entry, 1)) != -FI_EAGAIN) {
		if (got == -FI_EAVAIL) {
			struct fi_cq_err_entry error = { 0 };

			expect("fi_cq_readerr", fi_cq_readerr(node->cq, &error, 0));
			++*failed;
		} else if (got != 1) {
			expect("fi_cq_read", got);
		}
		count++;
	}
	return count;
}

static void send_all(struct node *node, const char *folder, int messages, size_t length, size_t last)
{
	fi_addr_t peer = node_meet(node, folder, "b");
	uint8_t *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	double deadline = now_s() + PATIENCE_S;
	int over = 0, failed = 0;
	struct fid_mr *mr;

	if (memory == MAP_FAILED)
		expect("mmap", -errno);
	expect("fi_mr_reg", fi_mr_reg(node->domain, memory, length, FI_SEND, 0, 0, 0, &mr, NULL));
	for (int message = 0; message < messages; message++) {
		size_t sent = message < messages / 2 ? length : last;

		expect("fi_send", fi_send(node->ep, memory, sent, fi_mr_desc(mr), peer, &contexts[message]));
	}
	expect("fi_close", fi_close(&mr->fid));
	expect("munmap", munmap(memory, length) ? -errno : 0);
	node_publish(node, folder, "a");
	while ((over += ended(node, &failed)) < messages)
		if (now_s() > deadline)
			expect("the ends of sends", -FI_ETIMEDOUT);
	printf("ended %d, %d failed\n", over, failed);
	node_publish(node, folder, "over");
}

static void receive_all(struct node *node, const char *folder, int messages)
{
	static uint8_t buffer[LONG];
	double deadline = now_s() + PATIENCE_S;
	int failed = 0;
	struct fid_mr *mr;

	expect("fi_mr_reg", fi_mr_reg(node->domain, buffer, sizeof buffer, FI_RECV, 0, 1, 0, &mr, NULL));
	for (int message = 0; message < messages; message++)
		expect("fi_recv", fi_recv(node->ep, buffer, sizeof buffer, fi_mr_desc(mr), FI_ADDR_UNSPEC, &contexts[message]));
	node_publish(node, folder, "b");
	node_meet(node, folder, "a");
	while (!node_has(folder, "over")) {
		ended(node, &failed);
		if (now_s() > deadline)
			expect("the other end", -FI_ETIMEDOUT);
	}
}

int main(int argc, char **argv)
{
	struct fi_info *hints = efa_hints("efa", FI_MSG);
	struct node node = { 0 };
	int is_long, is_short;

	if (argc != 4)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	is_long = !strcmp(argv[3], "long");
	is_short = !strcmp(argv[3], "short");
	efa_select(&node, hints);
	node_make(&node, FI_WAIT_NONE);
	if (!strcmp(argv[2], "a"))
		send_all(&node, argv[1], is_long ? 3 : MESSAGES, is_long ? LONG : MEDIUM, is_long ? LONG : is_short ? SHORT : MEDIUM);
	else
		receive_all(&node, argv[1], is_long ? 3 : MESSAGES);
	return 0;
}
