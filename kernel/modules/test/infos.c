/* fi_getinfo over all providers. */
#include "kofi_test.h"

static int kt_query(struct fi_info *hints, struct fi_info **info)
{
	*info = NULL;
	return fi_getinfo(KOFI_VERSION, NULL, 0, 0, hints, info);
}

void kt_infos(void)
{
	struct fi_info *hints = fi_allocinfo(), *info, *copy;
	bool is_loop = !strcmp(kt_provider_name, "kofi_loop");
	struct kt_name here, there;
	int kinds = 0;

	KT(hints && hints->ep_attr && hints->domain_attr && hints->fabric_attr, "fi_allocinfo has all attributes");
	if (!hints)
		return;
	KT(kt_query(NULL, &info) == 0, "getinfo without hints finds offers");
	for (copy = info; copy; copy = copy->next)
		kinds |= 1 << copy->ep_attr->type;
	KT(kinds & 1 << FI_EP_RDM && kinds & 1 << FI_EP_MSG, "there are RDM and MSG");
	fi_freeinfo(info);

	hints->fabric_attr->prov_name = kstrdup(kt_provider_name, GFP_KERNEL);
	hints->ep_attr->type = FI_EP_MSG;
	KT(kt_query(hints, &info) == 0 && info->ep_attr->type == FI_EP_MSG && !info->next,
	   "hints of a kind of endpoint leave offers of this kind");
	fi_freeinfo(info);

	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG;
	KT(kt_query(hints, &info) == 0 && !(info->caps & FI_RMA), "capabilities that were not asked for are not given");
	copy = fi_dupinfo(info);
	KT(copy && copy != info && copy->ep_attr != info->ep_attr && copy->caps == info->caps &&
		   !strcmp(copy->fabric_attr->prov_name, kt_provider_name),
	   "fi_dupinfo copies an entry with all that it points to");
	fi_freeinfo(copy);
	fi_freeinfo(info);

	/* The harness looks for the reason in the log. */
	hints->caps = FI_MSG | FI_MULTICAST;
	KT(kt_query(hints, &info) == -FI_ENODATA, "hints that nothing fits find nothing");
	hints->caps = FI_MSG;
	kfree(hints->fabric_attr->prov_name);
	hints->fabric_attr->prov_name = kstrdup("nothing", GFP_KERNEL);
	KT(kt_query(hints, &info) == -FI_ENODATA, "a provider that is not there finds nothing");
	kfree(hints->fabric_attr->prov_name);
	hints->fabric_attr->prov_name = kstrdup(kt_provider_name, GFP_KERNEL);
	KT(kt_query(hints, &info) == 0 && !strcmp(info->fabric_attr->prov_name, kt_provider_name), "one that is there is found by its name");
	fi_freeinfo(info);
	KT(fi_getinfo(FI_VERSION(3, 0), NULL, 0, 0, hints, &info) == -FI_ENOSYS, "a later version of the API is refused");
	hints->ep_attr->type = 99;
	KT(kt_query(hints, &info) == -FI_EINVAL, "hints that cannot be are refused");
	hints->ep_attr->type = FI_EP_RDM;
	here = kt_name(is_loop ? "here:7" : "here");
	there = kt_name(is_loop ? "there:47601" : "there");
	KT(fi_getinfo(KOFI_VERSION, is_loop ? "here" : "127.0.0.1", is_loop ? 7 : 47601, FI_SOURCE, hints, &info) == 0 &&
		   info->src_addrlen == here.len && !memcmp(info->src_addr, here.bytes, here.len),
	   "node and service with FI_SOURCE are the address of the endpoint");
	fi_freeinfo(info);
	KT(fi_getinfo(KOFI_VERSION, is_loop ? "there" : "127.0.0.1", 47601, 0, hints, &info) == 0 &&
		   info->dest_addrlen == there.len && !memcmp(info->dest_addr, there.bytes, there.len) &&
		   (!info->src_addr || memcmp(info->src_addr, there.bytes, info->src_addrlen)),
	   "without it they are the address of the peer");
	fi_freeinfo(info);
	fi_freeinfo(hints);
}
