/*
 * defect PROVIDER FOLDER sender|receiver
 *
 * What a panic of the library does to a program (FI_OXI_FAULTS=panic=1): the sender meets it in a call of its own, the receiver on
 * the thread that makes progress, which has to answer the sender while the program makes no call.
 */
#include "node.h"

enum { LENGTH = 1 << 20 };

static char memory[LENGTH];

static void await_end(struct node *node)
{
	struct fi_cq_tagged_entry entry;
	double deadline = now_s() + PATIENCE_S;

	struct fi_cq_err_entry failed = { 0 };
	ssize_t result;

	while ((result = fi_cq_read(node->cq, &entry, 1)) == -FI_EAGAIN)
		if (now_s() > deadline)
			expect("fi_cq_read", -FI_ETIMEDOUT);
	if (result == -FI_EAVAIL) {
		expect("fi_cq_readerr", fi_cq_readerr(node->cq, &failed, 0));
		expect("completion", -failed.err);
	}
	expect("fi_cq_read", result);
	printf("ended\n");
}

int main(int argc, char **argv)
{
	struct node node;
	struct fi_context context;
	struct iovec iov = { memory, LENGTH };
	struct fi_msg_tagged msg = { .msg_iov = &iov, .iov_count = 1, .tag = 1, .context = &context };
	ssize_t result;

	if (argc != 4)
		return 2;
	node_open(&node, argv[1]);
	node_publish(&node, argv[2], argv[3]);
	if (!strcmp(argv[3], "sender")) {
		msg.addr = node_meet(&node, argv[2], "receiver");
		while ((result = fi_tsendmsg(node.ep, &msg, FI_DELIVERY_COMPLETE)) == -FI_EAGAIN)
			fi_cq_read(node.cq, NULL, 0);
		expect("fi_tsendmsg", result);
		await_end(&node);
	} else {
		expect("fi_trecv", fi_trecv(node.ep, memory, LENGTH, NULL, FI_ADDR_UNSPEC, 1, 0, &context));
		printf("waiting\n");
		for (;;)
			pause();
	}
	return 0;
}
