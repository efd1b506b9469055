/* kofi_hold.ko: keeps a fabric open for as long as it is loaded, so that its provider is in use. */
#include <kofi.h>

static struct fid_fabric *fabric;

static int __init kofi_hold_init(void)
{
	struct fi_info *info;
	int status = fi_getinfo(KOFI_VERSION, NULL, 0, 0, NULL, &info);

	if (status)
		return status;
	status = fi_fabric(info->fabric_attr, &fabric, NULL);
	fi_freeinfo(info);
	return status;
}

static void __exit kofi_hold_exit(void)
{
	fi_close(&fabric->fid);
}

module_init(kofi_hold_init);
module_exit(kofi_hold_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Keeps a kOFI fabric open");
