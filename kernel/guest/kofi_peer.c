/*
 * The peer of kofi_pingpong.ko in user space: over a connection of the provider tcp, or another one, it throws a message to and fro, and
 * checks it.
 *
 *   kofi_peer listen|connect NODE SERVICE SIZE ROUNDS [PROVIDER]
 *
 * It runs on any libfabric since 1.17.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

/* Milliseconds after which a step is given up. */
#define LIMIT 20000

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_eq *eq;
static struct fid_cq *cq;
static struct fid_pep *pep;
static struct fid_ep *ep;

static void check(long result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "kofi_peer: %s: %s\n", what, fi_strerror((int)-result));
	exit(1);
}

static void open_all(const char *node, const char *service, int listens, const char *provider)
{
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_UNSPEC };
	struct fi_info *hints = fi_allocinfo();

	hints->ep_attr->type = FI_EP_MSG;
	hints->caps = FI_MSG;
	hints->addr_format = FI_SOCKADDR_IN;
	hints->mode = FI_RX_CQ_DATA;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup(provider);
	check(fi_getinfo(FI_VERSION(1, 17), node, service, listens ? FI_SOURCE : 0, hints, &info), "fi_getinfo");
	fi_freeinfo(hints);
	check(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
	check(fi_eq_open(fabric, &eq_attr, &eq, NULL), "fi_eq_open");
	check(fi_domain(fabric, info, &domain, NULL), "fi_domain");
	check(fi_cq_open(domain, &cq_attr, &cq, NULL), "fi_cq_open");
}

static void open_endpoint(struct fi_info *of)
{
	check(fi_endpoint(domain, of, &ep, NULL), "fi_endpoint");
	check(fi_ep_bind(ep, &eq->fid, 0), "fi_ep_bind");
	check(fi_ep_bind(ep, &cq->fid, FI_SEND | FI_RECV), "fi_ep_bind");
	check(fi_enable(ep), "fi_enable");
}

static void await(uint32_t wanted, struct fi_eq_cm_entry *entry)
{
	struct fi_eq_err_entry error = { 0 };
	uint32_t event = 0;
	ssize_t size = fi_eq_sread(eq, &event, entry, sizeof(*entry), LIMIT, 0);

	if (size == -FI_EAVAIL && fi_eq_readerr(eq, &error, 0) > 0)
		check(-error.err, "event");
	check(size, "fi_eq_sread");
	check(event == wanted ? 0 : -FI_EOTHER, "another event came");
}

static void meet(int listens)
{
	struct fi_eq_cm_entry entry;

	if (listens) {
		check(fi_passive_ep(fabric, info, &pep, NULL), "fi_passive_ep");
		check(fi_pep_bind(pep, &eq->fid, 0), "fi_pep_bind");
		check(fi_listen(pep), "fi_listen");
		await(FI_CONNREQ, &entry);
		open_endpoint(entry.info);
		check(fi_accept(ep, NULL, 0), "fi_accept");
		fi_freeinfo(entry.info);
	} else {
		open_endpoint(info);
		check(fi_connect(ep, info->dest_addr, NULL, 0), "fi_connect");
	}
	await(FI_CONNECTED, &entry);
}

static void complete(int count, size_t size)
{
	struct fi_cq_err_entry error = { 0 };
	struct fi_cq_msg_entry entry;
	ssize_t read;

	while (count-- > 0) {
		read = fi_cq_sread(cq, &entry, 1, NULL, LIMIT);
		if (read == -FI_EAVAIL && fi_cq_readerr(cq, &error, 0) == 1)
			check(-error.err, "completion");
		check(read, "fi_cq_sread");
		check(entry.flags & FI_RECV && entry.len != size ? -FI_EMSGSIZE : 0, "length");
	}
}

/* Registers a buffer where the provider asks for that. */
static void *registered(unsigned char *buffer, size_t size, struct fid_mr **mr)
{
	*mr = NULL;
	if (!(info->domain_attr->mr_mode & FI_MR_LOCAL))
		return NULL;
	check(fi_mr_reg(domain, buffer, size, FI_SEND | FI_RECV, 0, 0, 0, mr, NULL), "fi_mr_reg");
	return fi_mr_desc(*mr);
}

static void play(int listens, size_t size, int rounds)
{
	unsigned char *in = malloc(size), *out = malloc(size);
	struct fid_mr *in_mr, *out_mr;
	void *in_desc = registered(in, size, &in_mr), *out_desc = registered(out, size, &out_mr);
	int round;

	for (round = 0; round < rounds; round++) {
		check(fi_recv(ep, in, size, in_desc, 0, NULL), "fi_recv");
		if (listens) {
			complete(1, size);
			check(fi_send(ep, in, size, in_desc, 0, NULL), "fi_send");
			complete(1, size);
			continue;
		}
		memset(out, round, size);
		memset(in, ~round, size);
		check(fi_send(ep, out, size, out_desc, 0, NULL), "fi_send");
		complete(2, size);
		check(memcmp(in, out, size) ? -FI_EIO : 0, "what came back differs");
	}
	fi_close(&ep->fid);
	if (in_mr)
		fi_close(&in_mr->fid);
	if (out_mr)
		fi_close(&out_mr->fid);
	free(in);
	free(out);
}

int main(int argc, char **argv)
{
	int listens, rounds;
	uint32_t version = fi_version();
	size_t size;

	if (argc != 6 && argc != 7)
		return 2;
	listens = !strcmp(argv[1], "listen");
	size = strtoul(argv[4], NULL, 0);
	rounds = atoi(argv[5]);
	open_all(argv[2], argv[3], listens, argc == 7 ? argv[6] : "tcp");
	meet(listens);
	play(listens, size, rounds);
	if (pep)
		fi_close(&pep->fid);
	fi_close(&cq->fid);
	fi_close(&domain->fid);
	fi_close(&eq->fid);
	fi_close(&fabric->fid);
	printf("kofi_peer: libfabric %u.%u, %s, provider %s, version %u.%u: %d rounds of %zu bytes\n", FI_MAJOR(version), FI_MINOR(version),
	       argv[1], info->fabric_attr->prov_name, FI_MAJOR(info->fabric_attr->prov_version), FI_MINOR(info->fabric_attr->prov_version), rounds, size);
	fi_freeinfo(info);
	return 0;
}
