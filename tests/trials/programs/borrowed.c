/*
 * borrowed PROVIDER
 *
 * What the library believes of its environment: prints with whose rights the program runs, the providers that it is offered, and
 * the parameters that are set. Opens and closes an endpoint, so that hooks and the log have something to do.
 */
#include "node.h"

int main(int argc, char **argv)
{
	struct fi_info *list, *entry;
	struct fi_param *params;
	struct node node;
	int count;

	if (argc != 2)
		return 2;
	printf("user %d with the rights of %d\n", (int)getuid(), (int)geteuid());
	expect("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, NULL, &list));
	for (entry = list; entry; entry = entry->next)
		printf("provider %s\n", entry->fabric_attr->prov_name);
	fi_freeinfo(list);
	expect("fi_getparams", fi_getparams(&params, &count));
	for (int at = 0; at < count; at++)
		if (params[at].value)
			printf("set %s\n", params[at].name);
	fi_freeparams(params);
	node_open(&node, argv[1]);
	node_close(&node);
	return 0;
}
