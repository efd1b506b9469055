/*
 * refused PORT
 *
 * Sends to a port of the loopback interface without a listener, and prints the error that the send completes in.
 */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "node.h"

static void print_error(struct node *node)
{
	struct fi_cq_err_entry failed = { 0 };
	char cause[512] = "";

	expect("fi_cq_readerr", fi_cq_readerr(node->cq, &failed, 0));
	fi_cq_strerror(node->cq, failed.prov_errno, failed.err_data, cause, sizeof cause);
	printf("error %d: %s\n", failed.err, cause);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	struct fi_cq_tagged_entry entry;
	struct fi_context context;
	struct node node = { 0 };
	double deadline = now_s() + PATIENCE_S;
	fi_addr_t peer;
	ssize_t result;

	if (argc != 2)
		return EXIT_FAILURE;
	node_open(&node, "tcp");
	address.sin_port = htons((uint16_t)atoi(argv[1]));
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	peer = node_insert(&node, &address);
	do {
		result = fi_tsend(node.ep, "x", 1, NULL, peer, 1, &context);
		if (result == -FI_EAGAIN)
			fi_cq_read(node.cq, &entry, 0);
	} while (result == -FI_EAGAIN && now_s() < deadline);
	expect("fi_tsend", result);
	do
		result = fi_cq_read(node.cq, &entry, 1);
	while (result == -FI_EAGAIN && now_s() < deadline);
	if (result != -FI_EAVAIL)
		expect("fi_cq_read", result ? result : -FI_EOTHER);
	print_error(&node);
	node_close(&node);
	return EXIT_SUCCESS;
}
