/*
 * What fi_getinfo takes and returns.
 *
 * hints [PROVIDER]
 */
#include "node.h"

/* ANCHOR: list */
static void list(void)
{
	struct fi_info *info, *one;

	/* Without hints: everything there is, best first. */
	CHECK(fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, NULL, &info));
	for (one = info; one; one = one->next)
		printf("%s %s %s\n", one->fabric_attr->prov_name, one->domain_attr->name,
		       fi_tostr(&one->ep_attr->type, FI_TYPE_EP_TYPE));
	fi_freeinfo(info);
}
/* ANCHOR_END: list */

/* ANCHOR: narrow */
static struct fi_info *narrow(const char *provider)
{
	struct fi_info *hints = fi_allocinfo(), *info;

	EXPECT(hints);
	/* Needed: tagged messages, and to know the source of each. */
	hints->caps = FI_TAGGED | FI_SOURCE;
	hints->ep_attr->type = FI_EP_RDM;
	/* Needed: messages of a megabyte. */
	hints->ep_attr->max_msg_size = 1 << 20;
	/* Needed: two messages to one peer arrive in the order in which they were sent. */
	hints->tx_attr->msg_order = FI_ORDER_SAS;
	hints->rx_attr->msg_order = FI_ORDER_SAS;
	/* Offered: what this program does for a provider that asks. */
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	/* Promised: only one thread at a time is in this domain. */
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->fabric_attr->prov_name = strdup(provider);
	CHECK(fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, hints, &info));
	fi_freeinfo(hints);
	return info;
}
/* ANCHOR_END: narrow */

/* ANCHOR: obey */
/* What the chosen offer asks of the program. */
static void obey(struct fi_info *info)
{
	uint64_t mode = info->mode;
	int mr_mode = info->domain_attr->mr_mode;

	printf("every operation brings room for the provider: %s\n",
	       mode & (FI_CONTEXT | FI_CONTEXT2) ? "yes" : "no");
	printf("memory of sends and receives is registered: %s\n", mr_mode & FI_MR_LOCAL ? "yes" : "no");
	printf("a remote address is a virtual address: %s\n", mr_mode & FI_MR_VIRT_ADDR ? "yes" : "no");
	printf("the provider chooses keys: %s\n", mr_mode & FI_MR_PROV_KEY ? "yes" : "no");
}
/* ANCHOR_END: obey */

/* ANCHOR: missed */
/* No provider of this library has remote memory access and multicast at once. */
static void miss(void)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	int result;

	EXPECT(hints);
	hints->caps = FI_MULTICAST | FI_RMA;
	hints->ep_attr->type = FI_EP_DGRAM;
	result = fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, hints, &info);
	EXPECT(result == -FI_ENODATA && !info);
	fi_freeinfo(hints);
}
/* ANCHOR_END: missed */

int main(int argc, char **argv)
{
	struct fi_info *info;

	alarm(WATCHDOG_S);
	list();
	info = narrow(argc > 1 ? argv[1] : "tcp");
	obey(info);
	miss();
	fi_freeinfo(info);
	return EXIT_SUCCESS;
}
