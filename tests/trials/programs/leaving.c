/*
 * leaving PROVIDER FOLDER receiver|sender LEVEL COUNT SIZE
 *
 * Does a message arrive whose sender ended by _exit as soon as it read the completion? The sender sends COUNT messages of SIZE
 * bytes at LEVEL (transmit or delivery), reads as many completions, and ends without closing anything. The receiver, which
 * knows it as a peer and polls all the time, prints "arrived N".
 */
#include "node.h"

enum { TAG = 5, LINGER_S = 10 };

static struct node node;

/* Reads a completion; whether there was one. */
static int ended(void)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry failed = { 0 };
	ssize_t got = fi_cq_read(node.cq, &entry, 1);

	if (got == -FI_EAVAIL) {
		expect("fi_cq_readerr", fi_cq_readerr(node.cq, &failed, 0));
		return -1;
	}
	if (got != -FI_EAGAIN)
		expect("fi_cq_read", got);
	return got == 1;
}

static void send_and_leave(const char *folder, uint64_t level, long count, size_t size)
{
	fi_addr_t to = node_meet(&node, folder, "receiver");
	struct fi_context *contexts = calloc((size_t)count, sizeof *contexts);
	unsigned char *body = malloc(size);
	double deadline = now_s() + PATIENCE_S;
	long sent = 0, over = 0;

	memset(body, 0x5a, size);
	while (over < count) {
		struct iovec piece = { body, size };
		struct fi_msg_tagged message = {
			.msg_iov = &piece, .iov_count = 1, .addr = to, .tag = TAG, .context = &contexts[sent],
		};
		ssize_t begun = sent < count ? fi_tsendmsg(node.ep, &message, level) : -FI_EAGAIN;

		if (begun == 0) {
			sent++;
			continue;
		}
		if (begun != -FI_EAGAIN)
			expect("fi_tsendmsg", begun);
		switch (ended()) {
		case 1:
			over++;
			break;
		case -1:
			expect("send", -FI_EIO);
		}
		if (now_s() > deadline)
			expect("send", -FI_ETIMEDOUT);
	}
	_exit(0);
}

/* Whether the sender has ended: the file appears when it has. */
static int is_gone(const char *folder)
{
	char file[PATH_MAX];

	snprintf(file, sizeof file, "%s/gone", folder);
	return access(file, F_OK) == 0;
}

static void receive(const char *folder, long count, size_t size)
{
	struct fi_context context;
	unsigned char *body = malloc(size);
	double deadline = now_s() + PATIENCE_S, gone_at = 0;
	long arrived = 0;

	for (; arrived < count; arrived++) {
		memset(body, 0, size);
		expect("fi_trecv", fi_trecv(node.ep, body, size, NULL, FI_ADDR_UNSPEC, TAG, 0, &context));
		while (ended() != 1) {
			if (!gone_at && is_gone(folder))
				gone_at = now_s();
			if (now_s() > deadline || (gone_at && now_s() > gone_at + LINGER_S))
				goto over;
		}
		for (size_t at = 0; at < size; at++)
			if (body[at] != 0x5a)
				expect("content", -FI_EIO);
	}
	/* The sender may still wait for an acknowledgement. */
	while (!is_gone(folder) && now_s() < deadline)
		expect("late completion", -ended());
over:
	printf("arrived %ld\n", arrived);
	/* Receives that are left end with their endpoint. */
	_exit(0);
}

int main(int argc, char **argv)
{
	uint64_t level;

	if (argc != 7)
		return 2;
	level = strcmp(argv[4], "transmit") ? FI_DELIVERY_COMPLETE : FI_TRANSMIT_COMPLETE;
	node_open(&node, argv[1]);
	node_publish(&node, argv[2], argv[3]);
	if (!strcmp(argv[3], "sender"))
		send_and_leave(argv[2], level, atol(argv[5]), strtoul(argv[6], NULL, 10));
	receive(argv[2], atol(argv[5]), strtoul(argv[6], NULL, 10));
	return 0;
}
