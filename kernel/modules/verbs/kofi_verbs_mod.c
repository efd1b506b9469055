/* Entry points of kofi_verbs.ko; the rest is Rust. */
#include "krt_shim.h"
#include "verbs_core.h"
#include <kofi.h>

int kofi_verbs_rs_init(void);
size_t kofi_verbs_rs_exit(void);
int kofi_verbs_rs_getinfo(uint32_t version, const char *node, const int service, uint64_t flags, struct fi_info *hints,
			 struct fi_info **info);
int kofi_verbs_rs_freeinfo(struct fi_info *info);
int kofi_verbs_rs_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);

static struct kofi_provider kofi_verbs = {
	.name = "kofi_verbs",
	.version = FI_VERSION(1, 0),
	.getinfo = kofi_verbs_rs_getinfo,
	.freeinfo = kofi_verbs_rs_freeinfo,
	.fabric = kofi_verbs_rs_fabric,
};

static void kofi_verbs_end(void)
{
	size_t left;

	kv_stop();
	left = kofi_verbs_rs_exit();
	krt_stop();
	WARN(left, "kofi_verbs: %zu allocations are left\n", left);
}

static int __init kofi_verbs_init(void)
{
	int status = krt_start();

	if (status)
		return status;
	status = kv_start();
	if (status) {
		krt_stop();
		return status;
	}
	status = kofi_verbs_rs_init();
	if (!status)
		status = kofi_provider_register(KOFI_VERSION, &kofi_verbs);
	if (status)
		kofi_verbs_end();
	return status;
}

static void __exit kofi_verbs_exit(void)
{
	/* The module's count is zero, so nothing of it is open. */
	WARN_ON(kofi_provider_deregister(&kofi_verbs));
	/* The handler of a completion that came just now may still be on its way out. */
	synchronize_rcu();
	kofi_verbs_end();
}

module_init(kofi_verbs_init);
module_exit(kofi_verbs_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("kOFI provider of endpoints over RDMA devices");
