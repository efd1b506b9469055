/*
 * Opens the fabric of a provider's first offer.
 *
 * fabric [PROVIDER]
 */
#include <rdma/fabric.h>

#include "check.h"

int main(int argc, char **argv)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fid_fabric *fabric;

	alarm(WATCHDOG_S);
	EXPECT(hints);
	hints->fabric_attr->prov_name = strdup(argc > 1 ? argv[1] : "tcp");
	/* ANCHOR: open */
	CHECK(fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, hints, &info));
	CHECK(fi_fabric(info->fabric_attr, &fabric, NULL));
	printf("%s: %s\n", info->fabric_attr->prov_name, info->fabric_attr->name);
	/* ANCHOR_END: open */
	CHECK(fi_close(&fabric->fid));
	fi_freeinfo(info);
	fi_freeinfo(hints);
	return EXIT_SUCCESS;
}
