/*
 * A reliable datagram endpoint with what belongs to it, and operations on it; for one thread.
 *
 * Two processes meet over a socket pair, through which each tells the other its address.
 */
#ifndef NODE_H
#define NODE_H

#include <sys/socket.h>
#include <sys/wait.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "check.h"

enum { ADDRESS_MAX = 256 };

/* ANCHOR: node */
struct node {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	fi_addr_t peer;
};
/* ANCHOR_END: node */

/* ANCHOR: operation */
/* One operation. It has to stay where it is until it is done: the provider and the completion point to it. */
struct operation {
	struct fi_context2 context; /* the provider's, while the operation is under way */
	int done;
	size_t len;
	uint64_t data;
};
/* ANCHOR_END: operation */

/* ANCHOR: getinfo */
static inline struct fi_info *choose(const char *provider, uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo(), *info;

	EXPECT(hints);
	hints->caps = caps;
	/* Two messages to one peer are matched in the order in which they were sent. */
	hints->tx_attr->msg_order = FI_ORDER_SAS;
	hints->rx_attr->msg_order = FI_ORDER_SAS;
	hints->ep_attr->type = FI_EP_RDM;
	/* We pass a struct fi_context2 to every operation, so a provider may ask for that. */
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	/* What we do for registered memory, if a provider asks for it. */
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup(provider);
	/* Over an IP network, only within this host. */
	if (strcmp(provider, "shm"))
		CHECK(fi_getinfo(FI_VERSION(1, 20), "127.0.0.1", NULL, FI_SOURCE, hints, &info));
	else
		CHECK(fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, hints, &info));
	fi_freeinfo(hints);
	return info;
}
/* ANCHOR_END: getinfo */

/* ANCHOR: open */
/* Opens an endpoint of this offer, and what it needs. The offer is the node's from now on. */
static inline void open_offer(struct node *node, struct fi_info *info, enum fi_wait_obj wait_obj)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = wait_obj };
	struct fi_av_attr av_attr = { .type = FI_AV_UNSPEC };

	node->info = info;
	CHECK(fi_fabric(node->info->fabric_attr, &node->fabric, NULL));
	CHECK(fi_domain(node->fabric, node->info, &node->domain, NULL));
	CHECK(fi_av_open(node->domain, &av_attr, &node->av, NULL));
	CHECK(fi_cq_open(node->domain, &cq_attr, &node->cq, NULL));
	CHECK(fi_endpoint(node->domain, node->info, &node->ep, NULL));
	CHECK(fi_ep_bind(node->ep, &node->av->fid, 0));
	CHECK(fi_ep_bind(node->ep, &node->cq->fid, FI_TRANSMIT | FI_RECV));
	CHECK(fi_enable(node->ep));
}

static inline void open_node(struct node *node, const char *provider, uint64_t caps, enum fi_wait_obj wait_obj)
{
	open_offer(node, choose(provider, caps), wait_obj);
}
/* ANCHOR_END: open */

/* ANCHOR: close */
static inline void close_node(struct node *node)
{
	CHECK(fi_close(&node->ep->fid));
	CHECK(fi_close(&node->cq->fid));
	CHECK(fi_close(&node->av->fid));
	CHECK(fi_close(&node->domain->fid));
	CHECK(fi_close(&node->fabric->fid));
	fi_freeinfo(node->info);
}
/* ANCHOR_END: close */

/* ANCHOR: meet */
/* Tells the other process the address of this endpoint, and learns that of the other's. */
static inline void meet(struct node *node, int channel)
{
	char address[ADDRESS_MAX];
	size_t len = sizeof address;

	CHECK(fi_getname(&node->ep->fid, address, &len));
	EXPECT(write(channel, address, len) == (ssize_t)len);
	EXPECT(read(channel, address, sizeof address) > 0);
	/* fi_av_insert returns how many addresses it has taken. */
	EXPECT(fi_av_insert(node->av, address, 1, &node->peer, 0, NULL) == 1);
}
/* ANCHOR_END: meet */

/* ANCHOR: progress */
/* Takes one completion, if there is one within the time, and notes it in its operation. */
static inline void progress(struct node *node, int timeout_ms)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry failed = { 0 };
	struct operation *operation;
	ssize_t count = fi_cq_sread(node->cq, &entry, 1, NULL, timeout_ms);

	if (count == 1) {
		operation = entry.op_context;
		operation->done = 1;
		operation->len = entry.len;
		operation->data = entry.data;
	} else if (count == -FI_EAVAIL) {
		CHECK(fi_cq_readerr(node->cq, &failed, 0));
		fprintf(stderr, "an operation failed: %s (%s)\n", fi_strerror(failed.err),
			fi_cq_strerror(node->cq, failed.prov_errno, failed.err_data, NULL, 0));
		exit(EXIT_FAILURE);
	} else if (count != -FI_EAGAIN && count != -FI_EINTR) {
		CHECK(count);
	}
}

static inline void finish(struct node *node, struct operation *operation)
{
	while (!operation->done)
		progress(node, 1000);
}
/* ANCHOR_END: progress */

/* ANCHOR: post */
static inline void post_receive(struct node *node, void *buf, size_t len, uint64_t tag, struct operation *operation)
{
	ssize_t result;

	operation->done = 0;
	while ((result = fi_trecv(node->ep, buf, len, NULL, FI_ADDR_UNSPEC, tag, 0,
				  &operation->context)) == -FI_EAGAIN)
		progress(node, 0);
	CHECK(result);
}

static inline void post_send(struct node *node, const void *buf, size_t len, uint64_t tag, struct operation *operation)
{
	ssize_t result;

	operation->done = 0;
	while ((result = fi_tsend(node->ep, buf, len, NULL, node->peer, tag, &operation->context)) == -FI_EAGAIN)
		progress(node, 0);
	CHECK(result);
}
/* ANCHOR_END: post */

/* ANCHOR: family */
/* Makes two processes of this one. Returns a child's id to the parent, 0 to the child, and to each its end of a channel. */
static inline pid_t split(int *channel)
{
	int ends[2];
	pid_t child;

	EXPECT(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
	child = fork();
	EXPECT(child >= 0);
	*channel = ends[child ? 0 : 1];
	close(ends[child ? 1 : 0]);
	alarm(WATCHDOG_S);
	return child;
}

static inline void join(pid_t child)
{
	int status;

	EXPECT(waitpid(child, &status, 0) == child);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
}
/* ANCHOR_END: family */

#endif
