/*
 * named_ops FABRIC
 *
 * Opens the tables of functions that fi_efa(7) names on a domain and a fabric of efa, calls what tells of a region and of features, and prints what came
 * of each: "TABLE: CODE" and "FUNCTION: VALUE".
 */
#include "efa.h"

#include <rdma/fi_ext_efa.h>

static void *opened(struct fid *fid, const char *name)
{
	void *table = NULL;
	int code = fi_open_ops(fid, name, 0, &table, NULL);

	printf("%s: %d\n", name, code);
	return code ? NULL : table;
}

static void ask_of_region(struct node *node, struct fi_efa_ops_domain *ops)
{
	static char memory[4096];
	struct fi_efa_mr_attr attr = { 0 };

	expect("fi_mr_reg", fi_mr_reg(node->domain, memory, sizeof memory, FI_SEND | FI_RECV, 0, 0, 0, &node->mr, NULL));
	printf("query_mr: %d\n", ops->query_mr(node->mr, &attr));
	expect("fi_close", fi_close(&node->mr->fid));
}

int main(int argc, char **argv)
{
	struct node node = { 0 };
	struct fi_efa_ops_domain *regions;
	struct fi_efa_feature_ops *features;

	if (argc != 2)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	efa_select(&node, efa_hints(argv[1], FI_MSG));
	expect("fi_fabric", fi_fabric(node.info->fabric_attr, &node.fabric, NULL));
	expect("fi_domain", fi_domain(node.fabric, node.info, &node.domain, NULL));
	regions = opened(&node.domain->fid, FI_EFA_DOMAIN_OPS);
	if (regions)
		ask_of_region(&node, regions);
	opened(&node.domain->fid, FI_EFA_GDA_OPS);
	features = opened(&node.fabric->fid, FI_EFA_FEATURE_OPS);
	if (features)
		printf("mixed_hmem_iov: %d\n", features->query("mixed_hmem_iov"));
	opened(&node.domain->fid, "no such table");
	expect("fi_close", fi_close(&node.domain->fid));
	expect("fi_close", fi_close(&node.fabric->fid));
	fi_freeinfo(node.info);
	return 0;
}
