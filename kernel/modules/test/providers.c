/* Registration of providers. */
#include "kofi_test.h"

static int kt_opened;

static int kt_getinfo(uint32_t version, const char *node, const int service, uint64_t flags, struct fi_info *hints,
		      struct fi_info **info)
{
	struct fi_info *offer = fi_allocinfo();

	if (!offer)
		return -FI_ENOMEM;
	offer->caps = FI_MSG | FI_SEND | FI_RECV;
	offer->ep_attr->type = FI_EP_DGRAM;
	offer->fabric_attr->name = kstrdup("kt", GFP_KERNEL);
	*info = offer;
	return 0;
}

static int kt_freeinfo(struct fi_info *info)
{
	fi_freeinfo(info);
	return 0;
}

static int kt_fabric_close(struct fid *fid)
{
	kt_opened--;
	return 0;
}

static struct fi_ops kt_fabric_ops = { .size = sizeof(struct fi_ops), .close = kt_fabric_close };
static struct fid_fabric kt_the_fabric;

static int kt_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	kt_opened++;
	kt_the_fabric.fid.fclass = FI_CLASS_FABRIC;
	kt_the_fabric.fid.ops = &kt_fabric_ops;
	*fabric = &kt_the_fabric;
	return 0;
}

static struct kofi_provider kt_provider = {
	.name = "kt",
	.version = FI_VERSION(1, 0),
	.getinfo = kt_getinfo,
	.freeinfo = kt_freeinfo,
	.fabric = kt_fabric,
};

void kt_providers(void)
{
	struct kofi_provider empty = { .name = "empty" }, twin = kt_provider;
	struct fi_info *info = NULL;
	struct fid_fabric *fabric = NULL;

	KT(kofi_version() == KOFI_VERSION, "kofi_version is that of the header");
	KT(kofi_provider_register(FI_VERSION(1, 20), &kt_provider) == -FI_ENOSYS,
	   "a provider of another major version is refused");
	KT(kofi_provider_register(FI_VERSION(2, 99), &kt_provider) == -FI_ENOSYS, "a provider of a later version is refused");
	KT(kofi_provider_register(KOFI_VERSION, NULL) == -FI_EINVAL, "no provider cannot be registered");
	KT(kofi_provider_register(KOFI_VERSION, &empty) == -FI_EINVAL, "a provider without calls cannot be registered");
	KT(kofi_provider_deregister(&kt_provider) == -FI_ENOENT, "what is not registered cannot be deregistered");
	KT(kofi_provider_register(KOFI_VERSION, &kt_provider) == 0, "a provider in C is registered");
	KT(kofi_provider_register(KOFI_VERSION, &kt_provider) == -FI_EALREADY, "it is not registered twice");
	KT(kofi_provider_register(KOFI_VERSION, &twin) == -FI_EALREADY, "nor is another one of its name");

	info = kt_info(FI_EP_DGRAM, FI_MSG);
	KT(info && !strcmp(info->fabric_attr->prov_name, "kt"), "its offer is found by the hints that fit it");
	if (!info)
		return;
	KT(fi_fabric(info->fabric_attr, &fabric, NULL) == 0 && kt_opened == 1, "its fabric is opened by it");
	KT(kofi_provider_deregister(&kt_provider) == -FI_EBUSY, "a provider with an open fabric is not deregistered");
	KT(fi_close(&fabric->fid) == 0 && kt_opened == 0, "its fabric is closed by it");
	KT(kofi_provider_deregister(&kt_provider) == 0, "a provider without fabrics is deregistered");
	KT(fi_fabric(info->fabric_attr, &fabric, NULL) == -FI_ENODEV, "the offer of a provider that is gone opens nothing");
	fi_freeinfo(info);
	info = kt_info(FI_EP_DGRAM, FI_MSG);
	KT(!info, "and getinfo does not return it any more");
}
