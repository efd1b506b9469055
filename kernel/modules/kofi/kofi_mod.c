/* Entry points and exports of kofi.ko; the rest is Rust. */
#include "krt_shim.h"
#include <kofi.h>

int kofi_rs_init(void);
size_t kofi_rs_exit(void);
int kofi_rs_register(unsigned int version, struct kofi_provider *provider);
int kofi_rs_deregister(struct kofi_provider *provider);
int kofi_rs_getinfo(uint32_t version, const char *node, int service, uint64_t flags, struct fi_info *hints,
		    struct fi_info **info);
void kofi_rs_freeinfo(struct fi_info *info);
struct fi_info *kofi_rs_dupinfo(const struct fi_info *info);
int kofi_rs_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
bool kofi_module_get(struct module *module);
void kofi_module_put(struct module *module);

bool kofi_module_get(struct module *module)
{
	return try_module_get(module);
}

void kofi_module_put(struct module *module)
{
	module_put(module);
}

int kofi_provider_register_owned(unsigned int version, struct kofi_provider *provider, struct module *owner)
{
	if (provider)
		provider->owner = owner;
	return kofi_rs_register(version, provider);
}
EXPORT_SYMBOL(kofi_provider_register_owned);

int kofi_provider_deregister(struct kofi_provider *provider)
{
	return kofi_rs_deregister(provider);
}
EXPORT_SYMBOL(kofi_provider_deregister);

int kofi_getinfo(uint32_t version, const char *node, int service, uint64_t flags, struct fi_info *hints,
		 struct fi_info **info)
{
	return kofi_rs_getinfo(version, node, service, flags, hints, info);
}
EXPORT_SYMBOL(kofi_getinfo);

void kofi_freeinfo(struct fi_info *info)
{
	kofi_rs_freeinfo(info);
}
EXPORT_SYMBOL(kofi_freeinfo);

struct fi_info *kofi_dupinfo(const struct fi_info *info)
{
	return kofi_rs_dupinfo(info);
}
EXPORT_SYMBOL(kofi_dupinfo);

int kofi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	return kofi_rs_fabric(attr, fabric, context);
}
EXPORT_SYMBOL(kofi_fabric);

uint32_t kofi_version(void)
{
	return KOFI_VERSION;
}
EXPORT_SYMBOL(kofi_version);

/* Not counted with the module's own: a consumer replaces pieces of a list by what it got from kmalloc. */
void *kofi_alloc(size_t size)
{
	return kvzalloc(size, GFP_KERNEL);
}
EXPORT_SYMBOL(kofi_alloc);

void kofi_free(void *memory)
{
	kvfree(memory);
}
EXPORT_SYMBOL(kofi_free);

static int __init kofi_init(void)
{
	int status = krt_start();

	if (status)
		return status;
	status = kofi_rs_init();
	if (status)
		krt_stop();
	return status;
}

static void __exit kofi_exit(void)
{
	size_t left = kofi_rs_exit();

	krt_stop();
	WARN(left, "kofi: %zu allocations are left\n", left);
}

module_init(kofi_init);
module_exit(kofi_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("kOFI: the providers of the fabric interface");
