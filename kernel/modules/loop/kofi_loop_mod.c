/* Entry points of kofi_loop.ko; the rest is Rust. */
#include "krt_shim.h"
#include <kofi.h>

int kofi_loop_rs_init(void);
size_t kofi_loop_rs_exit(void);
int kofi_loop_rs_getinfo(uint32_t version, const char *node, const int service, uint64_t flags, struct fi_info *hints,
			 struct fi_info **info);
int kofi_loop_rs_freeinfo(struct fi_info *info);
int kofi_loop_rs_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);

static struct kofi_provider kofi_loop = {
	.name = "kofi_loop",
	.version = FI_VERSION(1, 0),
	.getinfo = kofi_loop_rs_getinfo,
	.freeinfo = kofi_loop_rs_freeinfo,
	.fabric = kofi_loop_rs_fabric,
};

static void kofi_loop_end(void)
{
	size_t left = kofi_loop_rs_exit();

	krt_stop();
	WARN(left, "kofi_loop: %zu allocations are left\n", left);
}

static int __init kofi_loop_init(void)
{
	int status = krt_start();

	if (status)
		return status;
	status = kofi_loop_rs_init();
	if (!status)
		status = kofi_provider_register(KOFI_VERSION, &kofi_loop);
	if (status)
		kofi_loop_end();
	return status;
}

static void __exit kofi_loop_exit(void)
{
	/* The module's count is zero, so nothing of it is open. */
	WARN_ON(kofi_provider_deregister(&kofi_loop));
	kofi_loop_end();
}

module_init(kofi_loop_init);
module_exit(kofi_loop_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("kOFI provider of endpoints of one kernel");
