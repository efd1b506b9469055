/* An external provider that layers over others: it finds them with flags that providers have among themselves, as FLAGS says,
   and offers what they offer. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

static int open_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	(void) attr;
	(void) fabric;
	(void) context;
	return -FI_ENOSYS;
}

static int getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		   const struct fi_info *hints, struct fi_info **info)
{
	struct fi_info *below = fi_allocinfo();
	struct fi_info *found;
	int result;

	if (!below)
		return -FI_ENOMEM;
	(void) hints;
	below->mode = ~0ULL;
	below->fabric_attr->prov_name = strdup("^ofi_lift");
	result = fi_getinfo(version, node, service, flags | (FLAGS), below, info);
	fi_freeinfo(below);
	for (found = result ? NULL : *info; found; found = found->next)
		fprintf(stderr, "lift saw %s\n", found->fabric_attr->prov_name);
	return result;
}

static struct fi_provider provider = {
	.version = FI_VERSION(1, 0),
	.fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
	.name = "ofi_lift",
	.getinfo = getinfo,
	.fabric = open_fabric,
};

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void)
{
	return &provider;
}
