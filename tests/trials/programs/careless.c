/*
 * careless PROVIDER
 *
 * Calls with counts and lengths that cannot be meant. Every list ends at the end of the memory that may be read, so that a call that
 * believes the count ends the program. Prints "CALL RESULT" for each call; those that have to fail fail with an error number.
 */
#include <stdint.h>
#include <sys/mman.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

#include "node.h"

static int believed;

static void refused(const char *call, ssize_t result)
{
	printf("%s %zd\n", call, result);
	if (result >= 0 || result < -FI_ERRNO_MAX) {
		printf("BELIEVED %s\n", call);
		believed++;
	}
}

/* Bytes behind which nothing may be read. */
static void *at_the_end(const void *bytes, size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || mprotect(memory + page, page, PROT_NONE))
		expect("mmap", -errno);
	return memcpy(memory + page - len, bytes, len);
}

/* The name of this endpoint, no longer than it is. */
static void *own_name(struct node *node, size_t *len)
{
	char name[ADDRESS_MAX] = { 0 };

	*len = sizeof name;
	expect("fi_getname", fi_getname(&node->ep->fid, name, len));
	return at_the_end(name, *len);
}

static void vectors(struct node *node, size_t count)
{
	size_t len;
	void *name = own_name(node, &len);
	fi_addr_t *peers = at_the_end(&(fi_addr_t){ 0 }, sizeof(fi_addr_t));

	refused("fi_av_insert", fi_av_insert(node->av, name, count, peers, 0, NULL));
	refused("fi_av_remove", fi_av_remove(node->av, peers, count, 0));
	refused("fi_av_insertsym", fi_av_insertsym(node->av, "127.0.0.1", count, "1", 2, peers, 0, NULL));
	refused("fi_av_insertsym services", fi_av_insertsym(node->av, "127.0.0.1", 2, "1", count, peers, 0, NULL));
}

static void messages(struct node *node, size_t count, fi_addr_t peer)
{
	static char bytes[8];
	struct iovec piece = { bytes, 1 };
	struct iovec *iov = at_the_end(&piece, sizeof piece);
	struct fi_context context;
	struct fi_msg msg = { .msg_iov = iov, .iov_count = count, .addr = peer, .context = &context };
	struct fi_msg_tagged tagged = { .msg_iov = iov, .iov_count = count, .addr = peer, .context = &context };

	refused("fi_sendv", fi_sendv(node->ep, iov, NULL, count, peer, &context));
	refused("fi_recvv", fi_recvv(node->ep, iov, NULL, count, peer, &context));
	refused("fi_sendmsg", fi_sendmsg(node->ep, &msg, 0));
	refused("fi_recvmsg", fi_recvmsg(node->ep, &msg, 0));
	refused("fi_tsendv", fi_tsendv(node->ep, iov, NULL, count, peer, 1, &context));
	refused("fi_trecvv", fi_trecvv(node->ep, iov, NULL, count, peer, 1, 0, &context));
	refused("fi_tsendmsg", fi_tsendmsg(node->ep, &tagged, 0));
	refused("fi_trecvmsg", fi_trecvmsg(node->ep, &tagged, 0));
	refused("fi_send", fi_send(node->ep, bytes, SIZE_MAX, NULL, peer, &context));
	refused("fi_recv", fi_recv(node->ep, bytes, SIZE_MAX, NULL, peer, &context));
	refused("fi_inject", fi_inject(node->ep, bytes, count, peer));
	refused("fi_tinject", fi_tinject(node->ep, bytes, count, peer, 1));
}

static void accesses(struct node *node, size_t count, fi_addr_t peer)
{
	static uint64_t words[8];
	struct iovec piece = { words, 1 };
	struct iovec *iov = at_the_end(&piece, sizeof piece);
	struct fi_ioc number = { words, 1 };
	struct fi_ioc *ioc = at_the_end(&number, sizeof number);
	struct fi_rma_iov place = { 0, 1, 1 };
	struct fi_rma_iov *there = at_the_end(&place, sizeof place);
	struct fi_rma_ioc element = { 0, 1, 1 };
	struct fi_rma_ioc *elements = at_the_end(&element, sizeof element);
	struct fi_context context;
	struct fi_msg_rma msg = { .msg_iov = iov, .iov_count = count, .addr = peer,
				  .rma_iov = there, .rma_iov_count = 1, .context = &context };
	struct fi_msg_atomic atomic = { .msg_iov = ioc, .iov_count = count, .addr = peer, .rma_iov = elements,
					.rma_iov_count = 1, .datatype = FI_UINT64, .op = FI_SUM, .context = &context };

	refused("fi_readv", fi_readv(node->ep, iov, NULL, count, peer, 0, 1, &context));
	refused("fi_writev", fi_writev(node->ep, iov, NULL, count, peer, 0, 1, &context));
	refused("fi_readmsg", fi_readmsg(node->ep, &msg, 0));
	refused("fi_writemsg", fi_writemsg(node->ep, &msg, 0));
	msg.iov_count = 1;
	msg.rma_iov_count = count;
	refused("fi_readmsg remote", fi_readmsg(node->ep, &msg, 0));
	refused("fi_writemsg remote", fi_writemsg(node->ep, &msg, 0));
	refused("fi_write", fi_write(node->ep, words, SIZE_MAX, NULL, peer, 0, 1, &context));
	refused("fi_inject_write", fi_inject_write(node->ep, words, count, peer, 0, 1));
	refused("fi_atomic", fi_atomic(node->ep, words, count, NULL, peer, 0, 1, FI_UINT64, FI_SUM, &context));
	refused("fi_atomicv", fi_atomicv(node->ep, ioc, NULL, count, peer, 0, 1, FI_UINT64, FI_SUM, &context));
	refused("fi_atomicmsg", fi_atomicmsg(node->ep, &atomic, 0));
	atomic.iov_count = 1;
	refused("fi_fetch_atomicmsg results", fi_fetch_atomicmsg(node->ep, &atomic, ioc, NULL, count, 0));
	refused("fi_compare_atomicmsg compared",
		fi_compare_atomicmsg(node->ep, &atomic, ioc, NULL, count, ioc, NULL, 1, 0));
	atomic.rma_iov_count = count;
	refused("fi_atomicmsg remote", fi_atomicmsg(node->ep, &atomic, 0));
}

static void regions(struct node *node, size_t count)
{
	static char bytes[64];
	struct iovec piece = { bytes, sizeof bytes };
	struct iovec *iov = at_the_end(&piece, sizeof piece);
	struct fid_mr *region;

	refused("fi_mr_regv", fi_mr_regv(node->domain, iov, count, FI_REMOTE_READ, 0, 77, 0, &region, NULL));
	refused("fi_mr_reg", fi_mr_reg(node->domain, bytes, SIZE_MAX, FI_REMOTE_READ, 0, 77, 0, &region, NULL));
	expect("fi_mr_reg", fi_mr_reg(node->domain, bytes, sizeof bytes, FI_REMOTE_READ, 0, 78, 0, &region, NULL));
	refused("fi_mr_refresh", fi_mr_refresh(region, iov, count, 0));
	expect("fi_close", fi_close(&region->fid));
}

static void objects(struct node *node, size_t count)
{
	struct fi_eq_attr eq_attr = { .flags = FI_WRITE, .wait_obj = FI_WAIT_NONE };
	struct fi_poll_attr poll_attr = { 0 };
	struct fi_info *hints = fi_dupinfo(node->info), *found = NULL;
	void *word = at_the_end(&(uint64_t){ 0 }, sizeof(uint64_t));
	struct fid_poll *set;
	struct fid_eq *eq;
	size_t len;

	refused("fi_setopt", fi_setopt(&node->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, word, count));
	refused("fi_setopt size", fi_setopt(&node->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, word, 0));
	refused("fi_setname", fi_setname(&node->ep->fid, own_name(node, &len), count));
	expect("fi_eq_open", fi_eq_open(node->fabric, &eq_attr, &eq, NULL));
	refused("fi_eq_write", fi_eq_write(eq, FI_NOTIFY, word, count, 0));
	expect("fi_close", fi_close(&eq->fid));
	refused("fi_trywait", fi_trywait(node->fabric, word, -1));
	if (!fi_poll_open(node->domain, &poll_attr, &set)) {
		refused("fi_poll", fi_poll(set, word, -1));
		expect("fi_close", fi_close(&set->fid));
	}
	free(hints->src_addr);
	hints->src_addr = own_name(node, &len);
	hints->src_addrlen = count;
	refused("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &found));
	hints->src_addr = NULL;
	fi_freeinfo(hints);
}

/* Numbers that are wishes, and are cut down: the call succeeds, or fails for want of memory. */
static void wishes(struct node *node)
{
	struct fi_cq_attr cq_attr = { .size = SIZE_MAX, .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av_attr = { .count = SIZE_MAX };
	struct fi_eq_attr eq_attr = { .size = SIZE_MAX, .wait_obj = FI_WAIT_NONE };
	struct fi_cq_tagged_entry entries[1];
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_eq *eq;

	refused("fi_cq_read of nothing", fi_cq_read(node->cq, entries, SIZE_MAX));
	if (!fi_cq_open(node->domain, &cq_attr, &cq, NULL))
		expect("fi_close", fi_close(&cq->fid));
	if (!fi_av_open(node->domain, &av_attr, &av, NULL))
		expect("fi_close", fi_close(&av->fid));
	if (!fi_eq_open(node->fabric, &eq_attr, &eq, NULL))
		expect("fi_close", fi_close(&eq->fid));
}

int main(int argc, char **argv)
{
	const size_t counts[] = { SIZE_MAX, SIZE_MAX / 2, (size_t)1 << 40, (size_t)1 << 32 };
	struct node node;
	size_t len;

	if (argc != 2)
		return 2;
	node_open_with(&node, argv[1], FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC);
	fi_addr_t self = node_insert(&node, own_name(&node, &len));
	for (size_t at = 0; at < sizeof counts / sizeof *counts; at++) {
		vectors(&node, counts[at]);
		messages(&node, counts[at], self);
		accesses(&node, counts[at], self);
		regions(&node, counts[at]);
		objects(&node, counts[at]);
	}
	wishes(&node);
	printf("%d believed\n", believed);
	node_close(&node);
	return 0;
}
