/*
 * The owner of memory waits for its peer outside of libfabric, which only automatic progress allows.
 *
 * auto_progress [PROVIDER]
 */
#include "node.h"

/* ANCHOR: owner */
static void owner(struct node *node, int channel)
{
	static long memory;
	uint64_t place[2];
	struct fid_mr *mr;
	char letter;

	CHECK(fi_mr_reg(node->domain, &memory, sizeof memory, FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL));
	place[0] = node->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)&memory : 0;
	place[1] = fi_mr_key(mr);
	EXPECT(write(channel, place, sizeof place) == sizeof place);
	/* No call of libfabric until the peer is done. With manual progress nothing would arrive. */
	EXPECT(read(channel, &letter, 1) == 1);
	EXPECT(memory == 4711);
	CHECK(fi_close(&mr->fid));
}
/* ANCHOR_END: owner */

static void writer(struct node *node, int channel)
{
	static long value = 4711;
	static struct operation operation;
	struct iovec iov = { .iov_base = &value, .iov_len = sizeof value };
	struct fi_rma_iov place = { .len = sizeof value };
	struct fi_msg_rma message = {
		.msg_iov = &iov,
		.iov_count = 1,
		.addr = node->peer,
		.rma_iov = &place,
		.rma_iov_count = 1,
		.context = &operation.context,
	};
	uint64_t told[2];
	ssize_t result;

	EXPECT(read(channel, told, sizeof told) == sizeof told);
	place.addr = told[0];
	place.key = told[1];
	while ((result = fi_writemsg(node->ep, &message, FI_DELIVERY_COMPLETE)) == -FI_EAGAIN)
		progress(node, 0);
	CHECK(result);
	finish(node, &operation);
	EXPECT(write(channel, "!", 1) == 1);
}

int main(int argc, char **argv)
{
	const char *provider = argc > 1 ? argv[1] : "tcp";
	struct fi_info *hints, *info;
	struct node node;
	int channel;
	pid_t child = split(&channel);

	/* ANCHOR: ask */
	hints = choose(provider, FI_MSG | FI_RMA);
	hints->domain_attr->progress = FI_PROGRESS_AUTO;
	/* Besides our thread there may be one of the provider. */
	hints->domain_attr->threading = FI_THREAD_SAFE;
	CHECK(fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, hints, &info));
	EXPECT(info->domain_attr->progress == FI_PROGRESS_AUTO);
	/* ANCHOR_END: ask */
	fi_freeinfo(hints);
	open_offer(&node, info, FI_WAIT_UNSPEC);
	meet(&node, channel);
	if (child)
		owner(&node, channel);
	else
		writer(&node, channel);
	close_node(&node);
	if (child)
		join(child);
	return EXIT_SUCCESS;
}
