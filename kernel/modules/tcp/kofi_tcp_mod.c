/* Entry points of kofi_tcp.ko; the rest is Rust. */
#include "krt_shim.h"
#include "tcp_socket.h"
#include <kofi.h>

int kofi_tcp_rs_init(void);
size_t kofi_tcp_rs_exit(void);
int kofi_tcp_rs_getinfo(uint32_t version, const char *node, const int service, uint64_t flags, struct fi_info *hints,
			 struct fi_info **info);
int kofi_tcp_rs_freeinfo(struct fi_info *info);
int kofi_tcp_rs_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);

static struct kofi_provider kofi_tcp = {
	.name = "kofi_tcp",
	.version = FI_VERSION(1, 0),
	.getinfo = kofi_tcp_rs_getinfo,
	.freeinfo = kofi_tcp_rs_freeinfo,
	.fabric = kofi_tcp_rs_fabric,
};

static void kofi_tcp_end(void)
{
	size_t left = kofi_tcp_rs_exit();

	krt_stop();
	WARN(left, "kofi_tcp: %zu allocations are left\n", left);
}

static int __init kofi_tcp_init(void)
{
	int status = krt_start();

	if (status)
		return status;
	status = kofi_tcp_rs_init();
	if (!status)
		status = kofi_provider_register(KOFI_VERSION, &kofi_tcp);
	if (status)
		kofi_tcp_end();
	return status;
}

static void __exit kofi_tcp_exit(void)
{
	/* The module's count is zero, so nothing of it is open. */
	WARN_ON(kofi_provider_deregister(&kofi_tcp));
	/* A callback of a socket that was closed just now may still be on its way out. */
	synchronize_rcu();
	kofi_tcp_end();
}

module_init(kofi_tcp_init);
module_exit(kofi_tcp_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("kOFI provider of endpoints over TCP");
