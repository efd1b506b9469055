/* kofi_test.ko: what the interface promises, one line of TAP in the log for each promise, when it is loaded. */
#include "kofi_test.h"

char *kt_provider_name = "kofi_loop";
module_param_named(provider, kt_provider_name, charp, 0444);
MODULE_PARM_DESC(provider, "the provider that is tested");

static unsigned int kt_count, kt_failed;

void kt_report(bool ok, const char *what, const char *file, int line)
{
	kt_count++;
	if (ok) {
		pr_info("kofi_test: ok %u - %s\n", kt_count, what);
	} else {
		kt_failed++;
		pr_err("kofi_test: not ok %u - %s (%s:%d)\n", kt_count, what, file, line);
	}
}

static int __init kofi_test_init(void)
{
	/* A provider without reliable datagrams is asked for what connections have. */
	if (!strcmp(kt_provider_name, "kofi_verbs")) {
		kt_verbs();
		kt_connections();
		goto out;
	}
	kt_providers();
	kt_infos();
	kt_objects();
	kt_messages();
	kt_tagged();
	kt_queues();
	kt_closing_datagrams();
	kt_counters();
	kt_access();
	kt_atomics();
	kt_connections();
	kt_limits();
	kt_again();
out:
	pr_info("kofi_test: 1..%u\n", kt_count);
	return kt_failed ? -EIO : 0;
}

static void __exit kofi_test_exit(void)
{
}

module_init(kofi_test_init);
module_exit(kofi_test_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Tests of the kOFI interface");
