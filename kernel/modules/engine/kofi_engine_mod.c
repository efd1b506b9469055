/* Entry points of kofi_engine.ko; the rest is Rust. */
#include "krt_shim.h"

static unsigned int seeds = 10;
module_param(seeds, uint, 0444);
MODULE_PARM_DESC(seeds, "number of seeds that are tried for each path");

int kofi_engine_rs_init(unsigned int seeds);

static int __init kofi_engine_init(void)
{
	int status = krt_start();

	if (status)
		return status;
	status = kofi_engine_rs_init(seeds);
	if (status)
		krt_stop();
	return status;
}

static void __exit kofi_engine_exit(void)
{
	krt_stop();
}

module_init(kofi_engine_init);
module_exit(kofi_engine_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("oxifabric's messaging engine under random operations");
