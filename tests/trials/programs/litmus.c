/*
 * litmus PROVIDER FOLDER origin|target|third ROUNDS
 *
 * When is a write over that is counted? In each round the origin injects a write of the round's number into the target's memory,
 * waits until its counter has counted that, and tells the third party by a message. The third party asks the target's memory
 * for the number, and answers the origin. The target only makes progress. The third party prints "stale N", how many
 * numbers were older than the round.
 *
 * No endpoint asks for a level of completion.
 */
#include "node.h"

#include <rdma/fi_rma.h>

enum { KEY = 7, TAG_TOLD = 1, TAG_SEEN = 2, TAG_OVER = 3 };

struct party {
	struct node node;
	struct fid_cntr *writes;
	struct fid_mr *region;
	uint64_t number;
	struct fi_context context;
	long ended;
};

static void progress(struct party *me)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry failed = { 0 };
	ssize_t got = fi_cq_read(me->node.cq, &entry, 1);

	if (got == -FI_EAVAIL) {
		expect("fi_cq_readerr", fi_cq_readerr(me->node.cq, &failed, 0));
		expect("completion", -failed.err);
	}
	if (got > 0)
		me->ended++;
	else if (got != -FI_EAGAIN)
		expect("fi_cq_read", got);
}

/* Begins what `call` begins, with an operation that writes a completion, and waits for that. */
#define COMPLETE(me, call)                                                        \
	do {                                                                      \
		double deadline_ = now_s() + PATIENCE_S;                          \
		long before_ = (me)->ended;                                       \
		ssize_t begun_;                                                   \
		while ((begun_ = (call)) == -FI_EAGAIN && now_s() < deadline_)    \
			progress(me);                                             \
		expect(#call, begun_);                                            \
		while ((me)->ended == before_) {                                  \
			progress(me);                                             \
			if (now_s() > deadline_)                                  \
				expect(#call, -FI_ETIMEDOUT);                     \
		}                                                                 \
	} while (0)

static void tell(struct party *me, fi_addr_t to, uint64_t tag)
{
	COMPLETE(me, fi_tsend(me->node.ep, NULL, 0, NULL, to, tag, &me->context));
}

static void hear(struct party *me, fi_addr_t from, uint64_t tag)
{
	COMPLETE(me, fi_trecv(me->node.ep, NULL, 0, NULL, from, tag, 0, &me->context));
}

static uint64_t base_of(const struct party *me, uint64_t place)
{
	return me->node.info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC) ? place : 0;
}

/* Where the target's number is, which is written beside its address. */
static uint64_t find(const char *folder)
{
	char file[PATH_MAX];
	unsigned long long place = 0;
	FILE *in;

	snprintf(file, sizeof file, "%s/place", folder);
	in = fopen(file, "r");
	if (!in || fscanf(in, "%llu", &place) != 1)
		expect("place", -FI_EIO);
	fclose(in);
	return place;
}

static void be_origin(struct party *me, const char *folder, long rounds)
{
	fi_addr_t target = node_meet(&me->node, folder, "target"), third = node_meet(&me->node, folder, "third");
	uint64_t base = base_of(me, find(folder));
	double deadline;

	for (uint64_t round = 1; round <= (uint64_t)rounds; round++) {
		deadline = now_s() + PATIENCE_S;
		while (fi_inject_write(me->node.ep, &round, sizeof round, target, base, KEY) == -FI_EAGAIN)
			progress(me);
		while (fi_cntr_read(me->writes) < round)
			if (now_s() > deadline)
				expect("fi_cntr_read", -FI_ETIMEDOUT);
		tell(me, third, TAG_TOLD);
		hear(me, third, TAG_SEEN);
	}
	tell(me, target, TAG_OVER);
}

static void be_third(struct party *me, const char *folder, long rounds)
{
	fi_addr_t target = node_meet(&me->node, folder, "target"), origin = node_meet(&me->node, folder, "origin");
	uint64_t base = base_of(me, find(folder));
	long stale = 0;

	for (uint64_t round = 1; round <= (uint64_t)rounds; round++) {
		hear(me, origin, TAG_TOLD);
		COMPLETE(me, fi_read(me->node.ep, &me->number, sizeof me->number, NULL, target, base, KEY,
				    &me->context));
		stale += me->number < round;
		tell(me, origin, TAG_SEEN);
	}
	printf("stale %ld\n", stale);
}

static void be_target(struct party *me, const char *folder)
{
	hear(me, node_meet(&me->node, folder, "origin"), TAG_OVER);
}

/* Publishes where the number is, before the address. */
static void expose(struct party *me, const char *folder)
{
	char file[PATH_MAX];
	FILE *out;

	expect("fi_mr_reg", fi_mr_reg(me->node.domain, &me->number, sizeof me->number, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY,
				      0, &me->region, NULL));
	snprintf(file, sizeof file, "%s/place", folder);
	out = fopen(file, "w");
	if (!out || fprintf(out, "%llu\n", (unsigned long long)(uintptr_t)&me->number) < 0 || fclose(out))
		expect("publish", -errno);
}

int main(int argc, char **argv)
{
	static struct party me;
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP };
	struct node *node = &me.node;

	if (argc != 5)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	node_select(node, argv[1], FI_TAGGED | FI_DIRECTED_RECV | FI_RMA);
	node_make(node, FI_WAIT_NONE);
	/* Another endpoint than the one of `node_make`, for a counter is bound before an endpoint is enabled. */
	expect("fi_close", fi_close(&node->ep->fid));
	expect("fi_cntr_open", fi_cntr_open(node->domain, &attr, &me.writes, NULL));
	expect("fi_endpoint", fi_endpoint(node->domain, node->info, &node->ep, NULL));
	expect("fi_ep_bind", fi_ep_bind(node->ep, &node->av->fid, 0));
	expect("fi_ep_bind", fi_ep_bind(node->ep, &node->cq->fid, FI_TRANSMIT | FI_RECV));
	expect("fi_ep_bind", fi_ep_bind(node->ep, &me.writes->fid, FI_WRITE));
	expect("fi_enable", fi_enable(node->ep));
	if (!strcmp(argv[3], "target"))
		expose(&me, argv[2]);
	node_publish(node, argv[2], argv[3]);
	if (!strcmp(argv[3], "origin"))
		be_origin(&me, argv[2], atol(argv[4]));
	else if (!strcmp(argv[3], "third"))
		be_third(&me, argv[2], atol(argv[4]));
	else
		be_target(&me, argv[2]);
	if (me.region)
		expect("fi_close region", fi_close(&me.region->fid));
	expect("fi_close endpoint", fi_close(&node->ep->fid));
	expect("fi_close counter", fi_close(&me.writes->fid));
	expect("fi_close cq", fi_close(&node->cq->fid));
	expect("fi_close av", fi_close(&node->av->fid));
	expect("fi_close domain", fi_close(&node->domain->fid));
	expect("fi_close fabric", fi_close(&node->fabric->fid));
	fi_freeinfo(node->info);
	return 0;
}
