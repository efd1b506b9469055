/*
 * A provider in a file of its own, reduced to what a library asks first: its offers, and a fabric.
 *
 * cc -shared -fPIC guide.c -o libguide-fi.so -lfabric
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

/* ANCHOR: fabric */
static int close_fabric(struct fid *fid)
{
	free(fid);
	return 0;
}

static struct fi_ops fabric_fid_ops = { .size = sizeof(struct fi_ops), .close = close_fabric };

static int open_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context)
{
	(void)fabric, (void)info, (void)domain, (void)context;
	return -FI_ENOSYS;
}

/* A whole provider fills all of it. */
static struct fi_ops_fabric fabric_ops = { .size = sizeof(struct fi_ops_fabric), .domain = open_domain };

static int open_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	struct fid_fabric *opened;

	if (strcmp(attr->name, "the only one"))
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
/* ANCHOR_END: fabric */

/* ANCHOR: getinfo */
static int getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		   const struct fi_info *hints, struct fi_info **info)
{
	struct fi_info *offer;

	(void)version, (void)service, (void)flags;
	/* What is asked for and is not there. */
	if (node || (hints && hints->caps & ~(uint64_t)(FI_MSG | FI_SEND | FI_RECV)))
		return -FI_ENODATA;
	if (hints && hints->ep_attr && hints->ep_attr->type != FI_EP_UNSPEC && hints->ep_attr->type != FI_EP_RDM)
		return -FI_ENODATA;
	offer = fi_allocinfo();
	if (!offer)
		return -FI_ENOMEM;
	offer->caps = FI_MSG | FI_SEND | FI_RECV;
	offer->addr_format = FI_ADDR_STR;
	offer->ep_attr->type = FI_EP_RDM;
	/* The application frees them with the offer. The library adds the provider's name. */
	offer->domain_attr->name = strdup("card");
	offer->fabric_attr->name = strdup("the only one");
	*info = offer;
	return 0;
}
/* ANCHOR_END: getinfo */

/* ANCHOR: provider */
static void cleanup(void)
{
	/* The last call: what fi_prov_ini has made is freed here. */
}

static struct fi_provider provider = {
	.version = FI_VERSION(1, 0),
	.fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
	.name = "guide",
	.getinfo = getinfo,
	.fabric = open_fabric,
	.cleanup = cleanup,
};

/* The only symbol that the file exports. */
FI_EXT_INI
{
	return &provider;
}
/* ANCHOR_END: provider */
