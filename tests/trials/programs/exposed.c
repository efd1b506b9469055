/*
 * exposed PROVIDER FOLDER
 *
 * An endpoint with memory that peers may read and write by a key that is easy to guess. It makes progress until the file
 * "stop" appears in the folder, and then reports whether the memory is as it was.
 */
#include <rdma/fi_rma.h>

#include "node.h"

enum { KEY = 7, SIZE = 64 };

int main(int argc, char **argv)
{
	struct fid_mr *mr;
	struct node node = { 0 };
	char stop[PATH_MAX];
	unsigned char memory[SIZE];
	int wrong = 0;

	if (argc != 3)
		return EXIT_FAILURE;
	memset(memory, 'x', sizeof memory);
	node_open_with(&node, argv[1], FI_RMA | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_TAGGED);
	expect("fi_mr_reg", fi_mr_reg(node.domain, memory, sizeof memory, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0,
				      &mr, NULL));
	node_publish(&node, argv[2], "exposed");
	snprintf(stop, sizeof stop, "%s/stop", argv[2]);
	while (access(stop, F_OK))
		fi_cq_read(node.cq, NULL, 0);
	for (size_t i = 0; i < sizeof memory; i++)
		wrong += memory[i] != 'x';
	printf("%d bytes changed\n", wrong);
	expect("fi_close mr", fi_close(&mr->fid));
	node_close(&node);
	return EXIT_SUCCESS;
}
