/*
 * misuse PROVIDER [none]
 *
 * Makes one mistake after the other, each in one call, and prints "MISTAKE: RESULT". Every one has to be refused, and the log is
 * expected to say why. With "none" it makes no mistake: it opens an endpoint, reads its queue and closes it.
 */
#include <rdma/fi_rma.h>

#include "node.h"

static void refused(const char *mistake, ssize_t result)
{
	printf("%s: %s\n", mistake, result < 0 ? fi_strerror((int)-result) : "NOT REFUSED");
	fflush(stdout);
}

static struct fid_ep *endpoint(struct node *node)
{
	struct fid_ep *ep;

	expect("fi_endpoint", fi_endpoint(node->domain, node->info, &ep, NULL));
	return ep;
}

static void names(struct node *node, const char *provider)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	struct fid_fabric *fabric;
	struct fid_ep *ep;
	fi_addr_t peer;

	hints->fabric_attr->prov_name = strdup(provider);
	hints->mode = FI_CONTEXT;
	refused("unknown node", fi_getinfo(FI_VERSION(1, 17), "no.such.host.invalid", "7", 0, hints, &info));
	refused("unknown node in a vector", fi_av_insertsvc(node->av, "no.such.host.invalid", "7", &peer, 0, NULL));
	refused("unknown provider", fi_fabric(&(struct fi_fabric_attr){ .prov_name = "tpc", .name = "127.0.0.0/8" }, &fabric, NULL));
	refused("newer version", fi_getinfo(FI_VERSION(99, 0), NULL, NULL, 0, hints, &info));
	hints->caps = FI_MULTICAST;
	refused("nothing fits", fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	hints->caps = FI_TAGGED;
	expect("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), "192.0.2.7", NULL, FI_SOURCE, hints, &info));
	refused("address of another host", fi_endpoint(node->domain, info, &ep, NULL));
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* What the endpoint cannot do, and objects that cannot be opened. */
static void limits(struct node *node)
{
	struct fi_cq_attr cq_attr = { .format = 77 };
	struct fid_ep *ep = endpoint(node);
	struct fid_cq *cq;
	struct fid_mr *mr, *again;
	static char text[1 << 17];

	refused("no such format", fi_cq_open(node->domain, &cq_attr, &cq, NULL));
	expect("fi_mr_reg", fi_mr_reg(node->domain, text, 8, FI_REMOTE_READ, 0, 5, 0, &mr, NULL));
	refused("key in use", fi_mr_reg(node->domain, text, 8, FI_REMOTE_READ, 0, 5, 0, &again, NULL));
	expect("fi_close", fi_close(&mr->fid));
	refused("too long to inject", fi_tinject(node->ep, text, sizeof text, 0, 0));
	expect("fi_close", fi_close(&ep->fid));
	node->info->caps &= ~FI_RMA;
	node->info->tx_attr->caps &= ~FI_RMA;
	node->info->rx_attr->caps &= ~FI_RMA;
	ep = endpoint(node);
	refused("capability not asked for", fi_write(ep, text, 8, NULL, 0, 0, 5, NULL));
	expect("fi_close", fi_close(&ep->fid));
}

static void bindings(struct node *node)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED };
	struct fid_ep *ep = endpoint(node);
	struct fid_domain *other;
	struct fid_cq *foreign;
	char text[] = "early";

	refused("send before enable", fi_tsend(ep, text, sizeof text, NULL, 0, 0, NULL));
	refused("receive before enable", fi_trecv(ep, text, sizeof text, NULL, 0, 0, 0, NULL));
	refused("inject before enable", fi_tinject(ep, text, sizeof text, 0, 0));
	refused("write before enable", fi_write(ep, text, sizeof text, NULL, 0, 0, 0, NULL));
	refused("no queue", fi_enable(ep));
	refused("queue without flags", fi_ep_bind(ep, &node->cq->fid, 0));
	expect("fi_domain", fi_domain(node->fabric, node->info, &other, NULL));
	expect("fi_cq_open", fi_cq_open(other, &cq_attr, &foreign, NULL));
	refused("queue of another domain", fi_ep_bind(ep, &foreign->fid, FI_RECV));
	expect("fi_ep_bind", fi_ep_bind(ep, &node->cq->fid, FI_TRANSMIT));
	refused("no queue for receives", fi_enable(ep));
	expect("fi_ep_bind", fi_ep_bind(ep, &node->cq->fid, FI_RECV));
	refused("no vector", fi_enable(ep));
	expect("fi_close", fi_close(&ep->fid));
	expect("fi_close", fi_close(&foreign->fid));
	expect("fi_close", fi_close(&other->fid));
}

static void peers(struct node *node)
{
	char zeroes[ADDRESS_MAX] = { 0 }, text[] = "to no peer";
	char name[ADDRESS_MAX] = { 0 };
	size_t len = sizeof name;
	fi_addr_t peer = 0;

	refused("no address", fi_av_insert(node->av, zeroes, 1, &peer, 0, NULL) == 1 ? 0 : -FI_EADDRNOTAVAIL);
	refused("failed insertion", fi_tsend(node->ep, text, sizeof text, NULL, peer, 0, NULL));
	refused("no such peer", fi_tsend(node->ep, text, sizeof text, NULL, 77, 0, NULL));
	refused("no such source", fi_trecv(node->ep, text, sizeof text, NULL, 77, 0, 0, NULL));
	expect("fi_getname", fi_getname(&node->ep->fid, name, &len));
	peer = node_insert(node, name);
	expect("fi_av_remove", fi_av_remove(node->av, &peer, 1, 0));
	refused("removed peer", fi_tinject(node->ep, text, sizeof text, peer, 0));
	refused("queue in use", fi_close(&node->cq->fid));
}

int main(int argc, char **argv)
{
	const char *provider = argc > 1 ? argv[1] : "tcp";
	struct node node = { 0 };

	node_open_with(&node, provider, FI_TAGGED | FI_RMA | FI_DIRECTED_RECV);
	if (argc > 2) {
		struct fi_cq_tagged_entry entry;

		fi_cq_read(node.cq, &entry, 1);
	} else {
		if (!strncmp(provider, "tcp", 3))
			names(&node, provider);
		bindings(&node);
		peers(&node);
		limits(&node);
	}
	node_close(&node);
	return 0;
}
