/*
 * One reliable datagram endpoint and what belongs to it, for the programs of the fault trials.
 *
 * Two nodes meet through files of a folder: each writes its address there under its own name and waits for the
 * other's. What fails is printed as "CALL: -N (text)" and ends the program with exit code N.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

enum { ADDRESS_MAX = 512, PATIENCE_S = 60 };

struct node {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
};

static inline void expect(const char *call, ssize_t result)
{
	if (result >= 0)
		return;
	printf("%s: %zd (%s)\n", call, result, fi_strerror((int)-result));
	exit((int)-result);
}

static inline double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* How many bytes of memory the process has resident. */
static inline long resident(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long size = 0, pages = 0;

	if (!file || fscanf(file, "%ld %ld", &size, &pages) != 2)
		exit(2);
	fclose(file);
	return pages * sysconf(_SC_PAGESIZE);
}

/* The provider udp itself has nothing but datagram endpoints; the reliable ones have a name of their own. */
static inline int is_datagram(const char *provider)
{
	return !strcmp(provider, "udp");
}

/* What the program promises about its threads, fi_domain(3) "Threading Models". */
static enum fi_threading node_threading;

/* How many bytes of messages that no receive takes an endpoint keeps, fi_endpoint(3) "total_buffered_recv"; 0 for its own choice. */
static size_t node_buffered;

static inline void node_select(struct node *node, const char *provider, uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo();
	int has_ports = !strncmp(provider, "tcp", 3) || !strncmp(provider, "udp", 3);

	hints->ep_attr->type = is_datagram(provider) ? FI_EP_DGRAM : FI_EP_RDM;
	hints->caps = caps;
	hints->mode = FI_CONTEXT;
	hints->domain_attr->threading = node_threading;
	hints->fabric_attr->prov_name = strdup(provider);
	expect("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), has_ports ? "127.0.0.1" : NULL, NULL,
					has_ports ? FI_SOURCE : 0, hints, &node->info));
	fi_freeinfo(hints);
}

/* Opens what belongs to the endpoint that was selected, with a completion queue of this format. */
/* Opens all up to the endpoint, which takes options as long as it is not enabled. */
static inline void node_prepare(struct node *node, enum fi_cq_format format, enum fi_wait_obj wait)
{
	struct fi_cq_attr cq_attr = { .format = format, .wait_obj = wait };
	struct fi_av_attr av_attr = { .type = FI_AV_UNSPEC };

	/* What node_end looks at, whether or not the program registers memory. */
	node->mr = NULL;
	expect("fi_fabric", fi_fabric(node->info->fabric_attr, &node->fabric, NULL));
	expect("fi_domain", fi_domain(node->fabric, node->info, &node->domain, NULL));
	expect("fi_av_open", fi_av_open(node->domain, &av_attr, &node->av, NULL));
	expect("fi_cq_open", fi_cq_open(node->domain, &cq_attr, &node->cq, NULL));
	expect("fi_endpoint", fi_endpoint(node->domain, node->info, &node->ep, NULL));
}

static inline void node_enable(struct node *node)
{
	expect("fi_ep_bind", fi_ep_bind(node->ep, &node->av->fid, 0));
	expect("fi_ep_bind", fi_ep_bind(node->ep, &node->cq->fid, FI_TRANSMIT | FI_RECV));
	expect("fi_enable", fi_enable(node->ep));
}

static inline void node_make_as(struct node *node, enum fi_cq_format format, enum fi_wait_obj wait)
{
	node_prepare(node, format, wait);
	node_enable(node);
}

static inline void node_make(struct node *node, enum fi_wait_obj wait)
{
	node_make_as(node, FI_CQ_FORMAT_TAGGED, wait);
}

static inline void node_open_as(struct node *node, const char *provider, uint64_t caps, enum fi_wait_obj wait)
{
	/* The lines of a program that is ended by force count too. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	node_select(node, provider, caps);
	node->info->rx_attr->total_buffered_recv = node_buffered;
	node_make(node, wait);
}

static inline void node_open_with(struct node *node, const char *provider, uint64_t caps)
{
	node_open_as(node, provider, caps, FI_WAIT_NONE);
}

static inline void node_open(struct node *node, const char *provider)
{
	node_open_with(node, provider, FI_TAGGED | FI_DIRECTED_RECV);
}

static inline void node_end(struct node *node)
{
	expect("fi_close endpoint", fi_close(&node->ep->fid));
	/* What peers still read is in use until then. */
	if (node->mr)
		expect("fi_close mr", fi_close(&node->mr->fid));
	expect("fi_close cq", fi_close(&node->cq->fid));
	expect("fi_close av", fi_close(&node->av->fid));
	expect("fi_close domain", fi_close(&node->domain->fid));
	expect("fi_close fabric", fi_close(&node->fabric->fid));
}

static inline void node_close(struct node *node)
{
	node_end(node);
	fi_freeinfo(node->info);
	printf("closed\n");
}

static inline fi_addr_t node_insert(struct node *node, const void *address)
{
	fi_addr_t peer = FI_ADDR_NOTAVAIL;

	if (fi_av_insert(node->av, address, 1, &peer, 0, NULL) != 1)
		expect("fi_av_insert", -FI_EADDRNOTAVAIL);
	return peer;
}

/* Returns the address at `node` of another one in this process. */
static inline fi_addr_t node_insert_node(struct node *node, const struct node *other)
{
	char address[ADDRESS_MAX];
	size_t len = sizeof address;

	expect("fi_getname", fi_getname(&other->ep->fid, address, &len));
	return node_insert(node, address);
}

/* Makes the address of this node known in the folder. The file appears with all of its content. */
static inline void node_publish(struct node *node, const char *folder, const char *name)
{
	char address[ADDRESS_MAX], text[ADDRESS_MAX], file[PATH_MAX], unfinished[PATH_MAX];
	size_t len = sizeof address, text_len = sizeof text;
	FILE *out;

	memset(address, 0, sizeof address);
	expect("fi_getname", fi_getname(&node->ep->fid, address, &len));
	printf("address %s\n", fi_av_straddr(node->av, address, text, &text_len));
	snprintf(file, sizeof file, "%s/%s", folder, name);
	snprintf(unfinished, sizeof unfinished, "%s/%s.new", folder, name);
	out = fopen(unfinished, "wb");
	if (!out || fwrite(address, 1, sizeof address, out) != sizeof address || fclose(out) ||
	    rename(unfinished, file))
		expect("publish", -errno);
}

/* Waits until the other node has made its address known. */
static inline fi_addr_t node_meet(struct node *node, const char *folder, const char *name)
{
	char address[ADDRESS_MAX], file[PATH_MAX];
	double deadline = now_s() + PATIENCE_S;
	FILE *in;

	snprintf(file, sizeof file, "%s/%s", folder, name);
	while (!(in = fopen(file, "rb"))) {
		if (now_s() > deadline)
			expect("meet", -FI_ETIMEDOUT);
		usleep(1000);
	}
	if (fread(address, 1, sizeof address, in) != sizeof address)
		expect("meet", -FI_EIO);
	fclose(in);
	return node_insert(node, address);
}

/* Whether a node has made something known under this name in the folder. */
static inline int node_has(const char *folder, const char *name)
{
	char file[PATH_MAX];

	snprintf(file, sizeof file, "%s/%s", folder, name);
	return !access(file, F_OK);
}

/* Waits until another node has made something known, and makes progress meanwhile. */
static inline void node_await_file(struct node *node, const char *folder, const char *name)
{
	double deadline = now_s() + PATIENCE_S;

	while (!node_has(folder, name)) {
		fi_cq_read(node->cq, NULL, 0);
		if (now_s() > deadline)
			expect(name, -FI_ETIMEDOUT);
	}
}

/* Reads one completion of a queue with tags, if there is one. */
static inline int node_complete(struct node *node)
{
	struct fi_cq_tagged_entry entry;
	ssize_t got = fi_cq_read(node->cq, &entry, 1);

	if (got != -FI_EAGAIN)
		expect("fi_cq_read", got);
	return got == 1;
}

static inline void node_await(struct node *node, int count)
{
	double deadline = now_s() + PATIENCE_S;

	while (count) {
		count -= node_complete(node);
		if (now_s() > deadline)
			expect("completions", -FI_ETIMEDOUT);
	}
}
