/* An external provider: its only object is an event queue that gives back what is written into it. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#ifndef NAME
#define NAME "mirror"
#endif
#ifndef VERSION
#define VERSION FI_VERSION(1, 0)
#endif

static struct fi_provider provider;

struct queue {
	struct fid_eq eq;
	uint32_t event;
	char data[64];
	size_t len;
};

static int queue_close(struct fid *fid)
{
	free(fid);
	return 0;
}

static ssize_t queue_write(struct fid_eq *eq, uint32_t event, const void *buf, size_t len, uint64_t flags)
{
	struct queue *queue = (struct queue *) eq;

	if (flags || len > sizeof queue->data)
		return -FI_EINVAL;
	queue->event = event;
	queue->len = len;
	memcpy(queue->data, buf, len);
	return (ssize_t) len;
}

static ssize_t queue_read(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	struct queue *queue = (struct queue *) eq;
	size_t taken = queue->len;

	if (flags || !taken)
		return -FI_EAGAIN;
	if (len < taken)
		return -FI_ETOOSMALL;
	*event = queue->event;
	memcpy(buf, queue->data, taken);
	queue->len = 0;
	return (ssize_t) taken;
}

static struct fi_ops queue_fid_ops = { .size = sizeof(struct fi_ops), .close = queue_close };
static struct fi_ops_eq queue_ops = { .size = sizeof(struct fi_ops_eq), .read = queue_read, .write = queue_write };

static int eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context)
{
	struct queue *queue = calloc(1, sizeof *queue);

	(void) fabric;
	(void) attr;
	if (!queue)
		return -FI_ENOMEM;
	queue->eq.fid.fclass = FI_CLASS_EQ;
	queue->eq.fid.context = context;
	queue->eq.fid.ops = &queue_fid_ops;
	queue->eq.ops = &queue_ops;
	*eq = &queue->eq;
	return 0;
}

static int fabric_close(struct fid *fid)
{
	free(fid);
	return 0;
}

static struct fi_ops fabric_fid_ops = { .size = sizeof(struct fi_ops), .close = fabric_close };
static struct fi_ops_fabric fabric_ops = { .size = sizeof(struct fi_ops_fabric), .eq_open = eq_open };

static int open_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	struct fid_fabric *opened;

	if (strcmp(attr->name, "hall"))
		return -FI_ENODATA;
	opened = calloc(1, sizeof *opened);
	if (!opened)
		return -FI_ENOMEM;
	opened->fid.fclass = FI_CLASS_FABRIC;
	opened->fid.context = context;
	opened->fid.ops = &fabric_fid_ops;
	opened->ops = &fabric_ops;
	*fabric = opened;
	return 0;
}

/* Allocates with the sizes of the headers at hand, which are older and smaller than those of the library. */
static int getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		   const struct fi_info *hints, struct fi_info **info)
{
	struct fi_info *made = calloc(1, sizeof *made);
	size_t lanes = 1;

	(void) node;
	(void) service;
	(void) flags;
	FI_INFO(&provider, FI_LOG_CORE, "asked for API %u.%u\n", FI_MAJOR(version), FI_MINOR(version));
	if (hints && hints->caps & FI_ATOMIC) {
		free(made);
		return -FI_ENODATA;
	}
	fi_param_get_size_t(&provider, "lanes", &lanes);
	made->caps = FI_MSG;
	made->addr_format = FI_ADDR_STR;
	made->tx_attr = calloc(1, sizeof *made->tx_attr);
	made->rx_attr = calloc(1, sizeof *made->rx_attr);
	made->ep_attr = calloc(1, sizeof *made->ep_attr);
	made->domain_attr = calloc(1, sizeof *made->domain_attr);
	made->fabric_attr = calloc(1, sizeof *made->fabric_attr);
	made->ep_attr->type = FI_EP_RDM;
	made->ep_attr->tx_ctx_cnt = lanes;
	made->domain_attr->name = strdup("corridor");
	made->fabric_attr->name = strdup("hall");
	*info = made;
	return 0;
}

static void cleanup(void)
{
	fprintf(stderr, NAME " cleans up\n");
}

static struct fi_provider provider = {
	.version = VERSION,
	.fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
	.name = NAME,
	.getinfo = getinfo,
	.fabric = open_fabric,
	.cleanup = cleanup,
};

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void)
{
	fi_param_define(&provider, "lanes", FI_PARAM_SIZE_T, "How many %s there are", "lanes");
	return &provider;
}
