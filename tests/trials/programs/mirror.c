/* Opens what the provider "mirror" offers and sends one event through its queue. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>

#define CHECK(call) check(#call, (call))

static void check(const char *call, long code)
{
	if (code < 0) {
		printf("%s: %ld\n", call, code);
		exit(1);
	}
}

int main(void)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_NONE };
	struct fid_fabric *fabric;
	struct fid_eq *eq;
	uint32_t event = 0;
	char said[16] = "hello", heard[16] = "";

	hints->fabric_attr->prov_name = strdup("mirror");
	CHECK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	printf("lanes %zu version %x api %x\n", info->ep_attr->tx_ctx_cnt, info->fabric_attr->prov_version,
	       info->fabric_attr->api_version);
	CHECK(fi_fabric(info->fabric_attr, &fabric, NULL));
	printf("fabric api %x\n", fabric->api_version);
	CHECK(fi_eq_open(fabric, &attr, &eq, NULL));
	CHECK(fi_eq_write(eq, 7, said, sizeof said, 0));
	CHECK(fi_eq_read(eq, &event, heard, sizeof heard, 0));
	printf("event %u %s\n", event, heard);
	CHECK(fi_close(&eq->fid));
	CHECK(fi_close(&fabric->fid));
	fi_freeinfo(info);
	fi_freeinfo(hints);
	return 0;
}
