/*
 * Many addresses: inserts COUNT of them into an address vector, one call for all. Prints how long that took, or how many
 * bytes of memory each has cost.
 *
 *     addresses PROVIDER COUNT seconds|bytes
 */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "node.h"

enum { PORTS = 50000 };

int main(int argc, char **argv)
{
	long count = argc == 4 ? atol(argv[2]) : 0, before;
	struct sockaddr_in *addresses = calloc((size_t)count + 1, sizeof(*addresses));
	fi_addr_t *peers = calloc((size_t)count + 1, sizeof(*peers));
	struct node node = { 0 };
	double start;

	if (count <= 0 || !addresses || !peers)
		return 2;
	for (long i = 0; i < count; i++) {
		addresses[i].sin_family = AF_INET;
		addresses[i].sin_port = htons((uint16_t)(1000 + i % PORTS));
		addresses[i].sin_addr.s_addr = htonl((uint32_t)(0x0a000001 + i / PORTS));
		peers[i] = FI_ADDR_NOTAVAIL;
	}
	node_open(&node, argv[1]);
	before = resident();
	start = now_s();
	if (fi_av_insert(node.av, addresses, (size_t)count, peers, 0, NULL) != count) {
		printf("not all were inserted\n");
		return 1;
	}
	if (!strcmp(argv[3], "bytes"))
		printf("bytes %.1f\n", (double)(resident() - before) / (double)count);
	else
		printf("seconds %.6f\n", now_s() - start);
	return 0;
}
