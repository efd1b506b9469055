/*
 * What the programs on endpoints of EFA share: how one is asked for, and how what happens is drawn from numbers that both sides know.
 */
#include "node.h"

#include <dlfcn.h>
#include <stdbool.h>

/* FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV and FI_OPT_INJECT_RMA_SIZE, which not all headers know. */
enum { USE_UNSOLICITED_WRITE_RECV = -(0xefa << 16) + 8, INJECT_RMA_SIZE = 18 };

/* How many objects of a kind the device has, as it says itself. */
static inline int objects(const char *kind)
{
	int (*count)(const char *) = (int (*)(const char *))(uintptr_t)dlsym(RTLD_DEFAULT, "softnic_objects");

	return count ? count(kind) : -1;
}

static inline uint64_t mixed(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* What OLD_MODE asks for: FI_MR_BASIC, or nothing, which the interface before 1.5 took for it. */
static inline int old_mode(void)
{
	const char *mode = getenv("OLD_MODE");

	return !mode ? -1 : strcmp(mode, "basic") ? 0 : FI_MR_BASIC;
}

/* Hints for reliable datagrams of this fabric, to be completed by the program. */
static inline struct fi_info *efa_hints(const char *fabric, uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo();

	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = caps;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	if (old_mode() >= 0)
		hints->domain_attr->mr_mode = old_mode();
	hints->fabric_attr->prov_name = strdup("efa");
	hints->fabric_attr->name = strdup(fabric);
	return hints;
}

/* Takes the first endpoint that is offered for the hints, which are freed. */
static inline void efa_select(struct node *node, struct fi_info *hints)
{
	uint32_t version = old_mode() == 0 ? FI_VERSION(1, 4) : FI_VERSION(1, 17);

	expect("fi_getinfo", fi_getinfo(version, NULL, NULL, 0, hints, &node->info));
	fi_freeinfo(hints);
}
