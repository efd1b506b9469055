/*
 * Two processes connect and throw a message to and fro.
 *
 * msg_pingpong [PROVIDER]
 */
#include <sys/socket.h>
#include <sys/wait.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include "check.h"

enum { ROUNDS = 1000, ADDRESS_MAX = 256, PATIENCE_MS = 20000 };

/* ANCHOR: side */
/* What one side of a connection needs. */
struct side {
	struct fid_fabric *fabric;
	struct fid_eq *eq;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_ep *ep;
};
/* ANCHOR_END: side */

struct operation {
	struct fi_context2 context;
	int done;
};

/* ANCHOR: getinfo */
static struct fi_info *choose(const char *provider)
{
	struct fi_info *hints = fi_allocinfo(), *info;

	EXPECT(hints);
	hints->caps = FI_MSG;
	hints->ep_attr->type = FI_EP_MSG;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->fabric_attr->prov_name = strdup(provider);
	/* FI_SOURCE: the node is our own. Without a service the provider chooses the port. */
	CHECK(fi_getinfo(FI_VERSION(1, 20), "127.0.0.1", NULL, FI_SOURCE, hints, &info));
	fi_freeinfo(hints);
	return info;
}
/* ANCHOR_END: getinfo */

/* ANCHOR: event */
/* Waits for an event of this kind. Its parts beyond the fixed ones are the data that the peer sent along. */
static struct fi_info *await(struct fid_eq *eq, uint32_t wanted)
{
	struct fi_eq_cm_entry entry;
	struct fi_eq_err_entry failed = { 0 };
	uint32_t event;
	ssize_t len = fi_eq_sread(eq, &event, &entry, sizeof entry, PATIENCE_MS, 0);

	if (len == -FI_EAVAIL) {
		CHECK(fi_eq_readerr(eq, &failed, 0));
		fprintf(stderr, "no connection: %s\n", fi_strerror(failed.err));
		exit(EXIT_FAILURE);
	}
	CHECK(len);
	EXPECT(event == wanted);
	return entry.info;
}
/* ANCHOR_END: event */

/* ANCHOR: endpoint */
static void open_fabric(struct side *side, struct fi_info *info)
{
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_UNSPEC };

	CHECK(fi_fabric(info->fabric_attr, &side->fabric, NULL));
	CHECK(fi_eq_open(side->fabric, &eq_attr, &side->eq, NULL));
}

/* Opens an endpoint for the connection that the info describes. */
static void open_endpoint(struct side *side, struct fi_info *info)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_UNSPEC };

	CHECK(fi_domain(side->fabric, info, &side->domain, NULL));
	CHECK(fi_cq_open(side->domain, &cq_attr, &side->cq, NULL));
	CHECK(fi_endpoint(side->domain, info, &side->ep, NULL));
	CHECK(fi_ep_bind(side->ep, &side->eq->fid, 0));
	CHECK(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV));
	CHECK(fi_enable(side->ep));
}
/* ANCHOR_END: endpoint */

static void close_side(struct side *side)
{
	CHECK(fi_close(&side->ep->fid));
	CHECK(fi_close(&side->cq->fid));
	CHECK(fi_close(&side->domain->fid));
	CHECK(fi_close(&side->eq->fid));
	CHECK(fi_close(&side->fabric->fid));
}

static void finish(struct side *side, struct operation *operation)
{
	struct fi_cq_msg_entry entry;
	struct fi_cq_err_entry failed = { 0 };

	while (!operation->done) {
		ssize_t count = fi_cq_sread(side->cq, &entry, 1, NULL, 1000);

		if (count == 1) {
			((struct operation *)entry.op_context)->done = 1;
		} else if (count == -FI_EAVAIL) {
			CHECK(fi_cq_readerr(side->cq, &failed, 0));
			fprintf(stderr, "an operation failed: %s\n", fi_strerror(failed.err));
			exit(EXIT_FAILURE);
		} else if (count != -FI_EAGAIN && count != -FI_EINTR) {
			CHECK(count);
		}
	}
}

static void post_receive(struct side *side, long *ball, struct operation *operation)
{
	operation->done = 0;
	CHECK(fi_recv(side->ep, ball, sizeof *ball, NULL, 0, &operation->context));
}

static void post_send(struct side *side, long *ball, struct operation *operation)
{
	operation->done = 0;
	CHECK(fi_send(side->ep, ball, sizeof *ball, NULL, 0, &operation->context));
}

/* ANCHOR: server */
static void server(const char *provider, int channel)
{
	struct fi_info *info = choose(provider), *request;
	struct operation send, receive;
	char address[ADDRESS_MAX];
	size_t len = sizeof address;
	struct fid_pep *pep;
	struct side side;
	long ball;

	open_fabric(&side, info);
	CHECK(fi_passive_ep(side.fabric, info, &pep, NULL));
	CHECK(fi_pep_bind(pep, &side.eq->fid, 0));
	CHECK(fi_listen(pep));
	/* The port is known once it listens. */
	CHECK(fi_getname(&pep->fid, address, &len));
	EXPECT(write(channel, address, len) == (ssize_t)len);

	request = await(side.eq, FI_CONNREQ);
	open_endpoint(&side, request);
	fi_freeinfo(request);
	/* Before the connection stands: the first message may come with it. */
	post_receive(&side, &ball, &receive);
	CHECK(fi_accept(side.ep, NULL, 0));
	await(side.eq, FI_CONNECTED);

	for (int round = 1; round <= ROUNDS; round++) {
		finish(&side, &receive);
		ball++;
		post_send(&side, &ball, &send);
		finish(&side, &send);
		if (round < ROUNDS)
			post_receive(&side, &ball, &receive);
	}
	/* The client ends the connection when it has the last answer. */
	await(side.eq, FI_SHUTDOWN);
	CHECK(fi_close(&pep->fid));
	close_side(&side);
	fi_freeinfo(info);
}
/* ANCHOR_END: server */

/* ANCHOR: client */
static void client(const char *provider, int channel)
{
	struct fi_info *info = choose(provider);
	struct operation send, receive;
	char address[ADDRESS_MAX];
	long ball = 0, answer;
	struct side side;

	EXPECT(read(channel, address, sizeof address) > 0);
	open_fabric(&side, info);
	open_endpoint(&side, info);
	CHECK(fi_connect(side.ep, address, NULL, 0));
	await(side.eq, FI_CONNECTED);

	for (int round = 0; round < ROUNDS; round++) {
		post_receive(&side, &answer, &receive);
		post_send(&side, &ball, &send);
		finish(&side, &send);
		finish(&side, &receive);
		EXPECT(answer == ball + 1);
		ball = answer;
	}
	printf("%d messages went there and back\n", ROUNDS);
	CHECK(fi_shutdown(side.ep, 0));
	close_side(&side);
	fi_freeinfo(info);
}
/* ANCHOR_END: client */

int main(int argc, char **argv)
{
	const char *provider = argc > 1 ? argv[1] : "tcp";
	int channel[2], status;
	pid_t child;

	EXPECT(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, channel));
	child = fork();
	EXPECT(child >= 0);
	alarm(WATCHDOG_S);
	if (!child) {
		server(provider, channel[1]);
		return EXIT_SUCCESS;
	}
	client(provider, channel[0]);
	EXPECT(waitpid(child, &status, 0) == child);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
	return EXIT_SUCCESS;
}
