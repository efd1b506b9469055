/*
 * mute FOLDER a|b asked|refused
 *
 * a is an endpoint of the fabric efa, b one of efa-direct, which takes the first packet of a, answers nothing, and closes. With asked that packet is a question for
 * what b's device can do, before a write; with refused b has sent a read of memory that there is not, whose refusal waits for the same, and what
 * a sends then waits behind it. Either operation of a fails, and it prints "failed: ERROR".
 */
#include "efa.h"
#include "efa_packets.h"

#include <rdma/fi_rma.h>

static void say_closed(const char *folder)
{
	char file[PATH_MAX];
	FILE *out;

	snprintf(file, sizeof file, "%s/b.closed", folder);
	out = fopen(file, "wb");
	if (!out || fclose(out))
		expect("closed", -errno);
}

static void await_failure(struct node *node)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = { 0 };
	double deadline = now_s() + PATIENCE_S;
	ssize_t got;

	while ((got = fi_cq_read(node->cq, &entry, 1)) == -FI_EAGAIN)
		if (now_s() > deadline)
			expect("the end of an operation", -FI_ETIMEDOUT);
	if (got != -FI_EAVAIL)
		expect("an operation that cannot go well", -FI_EOTHER);
	expect("fi_cq_readerr", fi_cq_readerr(node->cq, &error, 0));
	printf("failed: %d (%s)\n", error.err, fi_strerror(error.err));
}

static void be_left_alone(struct node *node, const char *folder, int refused)
{
	static char buffer[64];
	struct fi_context2 context;
	fi_addr_t peer;

	efa_select(node, efa_hints("efa", FI_MSG | FI_TAGGED | FI_RMA));
	node_make(node, FI_WAIT_NONE);
	node_publish(node, folder, "a");
	peer = node_meet(node, folder, "b");
	if (refused) {
		node_await_file(node, folder, "b.closed");
		expect("fi_tsend", fi_tsend(node->ep, buffer, sizeof buffer, NULL, peer, 1, &context));
	} else {
		expect("fi_write", fi_write(node->ep, buffer, sizeof buffer, NULL, peer, 0, 1, &context));
	}
	await_failure(node);
	node_close(node);
}

static void ask_for_memory(struct node *node, struct packet *packet, fi_addr_t peer)
{
	struct request request = {
		.kind = SHORT_READ, .len = 8, .credits = 8, .target_count = 1, .targets = { { (uint64_t)1 << 46, 8, (uint64_t)1 << 31 } },
	};
	struct sender sender = { .flags = HAS_ADDRESS, .address_len = 36 };
	static struct fi_context2 context;
	size_t len = sizeof sender.address;

	expect("fi_getname", fi_getname(&node->ep->fid, sender.address, &len));
	put_read(packet, &sender, &request);
	expect("fi_send", fi_send(node->ep, packet->bytes, packet->len, fi_mr_desc(node->mr), peer, &context));
}

static void stay_mute(struct node *node, const char *folder, int refused)
{
	struct packet *packets = calloc(2, sizeof *packets);
	struct fi_context2 context;
	fi_addr_t peer;

	efa_select(node, efa_hints("efa-direct", FI_MSG | FI_SOURCE));
	node_make(node, FI_WAIT_NONE);
	expect("fi_mr_reg", fi_mr_reg(node->domain, packets, 2 * sizeof *packets, FI_SEND | FI_RECV, 0, 0, 0, &node->mr, NULL));
	expect("fi_recv", fi_recv(node->ep, packets[0].bytes, PACKET_MAX, fi_mr_desc(node->mr), FI_ADDR_UNSPEC, &context));
	node_publish(node, folder, "b");
	peer = node_meet(node, folder, "a");
	if (refused)
		ask_for_memory(node, &packets[1], peer);
	node_await(node, refused ? 2 : 1);
	node_close(node);
	free(packets);
	say_closed(folder);
}

int main(int argc, char **argv)
{
	static struct node node;
	int refused;

	if (argc < 4)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	refused = !strcmp(argv[3], "refused");
	if (!strcmp(argv[2], "a"))
		be_left_alone(&node, argv[1], refused);
	else
		stay_mute(&node, argv[1], refused);
	return 0;
}
