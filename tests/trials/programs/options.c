/*
 * options FABRIC MINOR [unsolicited | named]
 *
 * Reads and sets the options of an endpoint of efa that only this provider has, as an application with version 1.MINOR of the interface, and
 * prints what came of each: "get OPTION: CODE VALUE" and "set OPTION VALUE: CODE". With unsolicited it does so with
 * that option only, before and after the endpoint is enabled, with named before and after it says its address, which is compared then.
 */
#include "efa.h"

enum { RNR_RETRY = -(0xefa << 16), EMULATED_READ, EMULATED_WRITE, EMULATED_ATOMICS, USE_DEVICE_RDMA, SENDRECV_IN_ORDER,
       WRITE_IN_ORDER, HOMOGENEOUS_PEERS, UNSOLICITED };

static const char *const names[] = { "rnr retry", "emulated read", "emulated write", "emulated atomics", "use device rdma",
				     "sends in order", "writes in order", "peers are alike", "unsolicited" };

static void get(struct fid_ep *ep, int option)
{
	uint64_t value = 0;
	size_t len = sizeof value;
	int code = fi_getopt(&ep->fid, FI_OPT_ENDPOINT, option, &value, &len);

	printf("get %s: %d %d\n", names[option - RNR_RETRY], code, code ? 0 : (int)value);
}

static void set(struct fid_ep *ep, int option, uint64_t value, size_t len)
{
	int code = fi_setopt(&ep->fid, FI_OPT_ENDPOINT, option, &value, len);

	printf("set %s %d: %d\n", names[option - RNR_RETRY], (int)value, code);
}

static void unsolicited(struct node *node)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_DATA };
	struct fi_av_attr av = { .type = FI_AV_TABLE };

	get(node->ep, UNSOLICITED);
	set(node->ep, UNSOLICITED, 1, 8);
	for (int wanted = 1; wanted >= 0; wanted--)
		set(node->ep, UNSOLICITED, (uint64_t)wanted, 1);
	expect("fi_cq_open", fi_cq_open(node->domain, &cq, &node->cq, NULL));
	expect("fi_av_open", fi_av_open(node->domain, &av, &node->av, NULL));
	node_enable(node);
	set(node->ep, UNSOLICITED, 1, 1);
	node_close(node);
}

static void named(struct node *node)
{
	char before[64] = { 0 }, after[64] = { 0 };
	size_t len = sizeof before;

	set(node->ep, UNSOLICITED, 0, 1);
	set(node->ep, UNSOLICITED, 1, 1);
	expect("fi_getname", fi_getname(&node->ep->fid, before, &len));
	set(node->ep, UNSOLICITED, 0, 1);
	set(node->ep, UNSOLICITED, 1, 1);
	len = sizeof after;
	expect("fi_getname", fi_getname(&node->ep->fid, after, &len));
	printf("the address is %s\n", memcmp(before, after, sizeof before) ? "another one" : "the same");
	expect("fi_close", fi_close(&node->ep->fid));
	expect("fi_close", fi_close(&node->domain->fid));
	expect("fi_close", fi_close(&node->fabric->fid));
	fi_freeinfo(node->info);
}

int main(int argc, char **argv)
{
	struct fi_info *hints;
	struct node node = { 0 };

	if (argc != 3 && argc != 4)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	hints = efa_hints(argv[1], FI_MSG);
	expect("fi_getinfo", fi_getinfo(FI_VERSION(1, atoi(argv[2])), NULL, NULL, 0, hints, &node.info));
	fi_freeinfo(hints);
	expect("fi_fabric", fi_fabric(node.info->fabric_attr, &node.fabric, NULL));
	expect("fi_domain", fi_domain(node.fabric, node.info, &node.domain, NULL));
	expect("fi_endpoint", fi_endpoint(node.domain, node.info, &node.ep, NULL));
	if (argc == 4) {
		(strcmp(argv[3], "named") ? unsolicited : named)(&node);
		return 0;
	}
	for (int option = RNR_RETRY; option <= EMULATED_ATOMICS; option++)
		get(node.ep, option);
	for (int wanted = 1; wanted >= 0; wanted--) {
		set(node.ep, USE_DEVICE_RDMA, (uint64_t)wanted, 1);
		get(node.ep, EMULATED_READ);
	}
	set(node.ep, USE_DEVICE_RDMA, 1, 8);
	set(node.ep, SENDRECV_IN_ORDER, 1, 1);
	set(node.ep, WRITE_IN_ORDER, 0, 1);
	set(node.ep, WRITE_IN_ORDER, 1, 1);
	set(node.ep, HOMOGENEOUS_PEERS, 1, 1);
	get(node.ep, HOMOGENEOUS_PEERS);
	set(node.ep, HOMOGENEOUS_PEERS, 0, 1);
	set(node.ep, RNR_RETRY, 3, 8);
	set(node.ep, RNR_RETRY, 3, 1);
	set(node.ep, EMULATED_READ, 1, 1);
	expect("fi_close", fi_close(&node.ep->fid));
	expect("fi_close", fi_close(&node.domain->fid));
	expect("fi_close", fi_close(&node.fabric->fid));
	fi_freeinfo(node.info);
	return 0;
}
