/* Endpoints without an engine: connected queue pairs of a device. */
#include <linux/in.h>
#include <linux/inet.h>
#include <linux/vmalloc.h>
#include "kofi_test.h"

static const u64 kt_modes = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ALLOCATED;

static struct fi_info *kt_verbs_info(u64 caps, u64 mode, int mr_mode, const char *node)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;

	if (!hints)
		return NULL;
	hints->ep_attr->type = FI_EP_MSG;
	hints->caps = caps;
	hints->mode = mode;
	hints->domain_attr->mr_mode = mr_mode;
	hints->fabric_attr->prov_name = kstrdup(kt_provider_name, GFP_KERNEL);
	if (fi_getinfo(KOFI_VERSION, node, 0, FI_SOURCE, hints, &info))
		info = NULL;
	fi_freeinfo(hints);
	return info;
}

static void kt_verbs_infos(void)
{
	struct fi_info *info = kt_verbs_info(FI_MSG | FI_RMA, FI_RX_CQ_DATA, kt_modes, NULL);
	const struct sockaddr_in *at;

	KT(info && !info->next && info->ep_attr->protocol == FI_PROTO_RDMA_CM_IB_RC && !strcmp(info->domain_attr->name, "rxe0"),
	   "a device is offered as a domain");
	if (!info)
		return;
	at = info->src_addr;
	KT(info->src_addrlen == sizeof(*at) && at->sin_addr.s_addr == in_aton("10.0.0.1"), "at its address");
	KT(info->domain_attr->mr_mode == (FI_MR_VIRT_ADDR | FI_MR_PROV_KEY) && info->rx_attr->mode == FI_RX_CQ_DATA &&
		   info->domain_attr->cq_data_size == 4 && info->tx_attr->rma_iov_limit == 1,
	   "with the modes and limits of devices");
	KT(!(info->caps & (FI_TAGGED | FI_ATOMIC | FI_DIRECTED_RECV)), "and nothing that it cannot do");
	fi_freeinfo(info);
	KT(!kt_verbs_info(FI_MSG | FI_RMA, 0, kt_modes, NULL) && !kt_verbs_info(FI_MSG | FI_RMA, FI_RX_CQ_DATA, FI_MR_ALLOCATED, NULL),
	   "remote memory is not for those that do not know the modes");
	info = kt_verbs_info(FI_MSG, 0, 0, NULL);
	KT(info && !info->domain_attr->mr_mode && !info->rx_attr->mode, "messages are");
	fi_freeinfo(info);
	KT(!kt_verbs_info(FI_MSG, 0, 0, "127.0.0.1"), "an address of no device is offered nothing");
}

/* Reads an event; returns whether it is this one. */
static bool kt_event(struct fid_eq *eq, u32 wanted, struct fi_eq_cm_entry *entry)
{
	u32 kind = ~0;

	return fi_eq_sread(eq, &kind, entry, sizeof(*entry), KT_LONG, 0) == sizeof(*entry) && kind == wanted;
}

static int kt_end(struct kt_pair *pair, int at, struct fi_info *info)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC };

	return fi_cq_open(pair->domain, &attr, &pair->cq[at], NULL) ?:
	       fi_endpoint(pair->domain, info, &pair->ep[at], NULL) ?:
	       fi_ep_bind(pair->ep[at], &pair->eq->fid, 0) ?:
	       fi_ep_bind(pair->ep[at], &pair->cq[at]->fid, FI_SEND | FI_RECV) ?:
	       fi_enable(pair->ep[at]);
}

static int kt_meet(struct kt_pair *pair, struct fid_pep *pep)
{
	struct fi_eq_cm_entry entry;
	struct sockaddr_in at;
	size_t len = sizeof(at);
	int status = fi_pep_bind(pep, &pair->eq->fid, 0) ?: fi_listen(pep) ?: fi_getname(&pep->fid, &at, &len);

	status = status ?: kt_end(pair, 0, pair->info) ?: fi_connect(pair->ep[0], &at, NULL, 0);
	if (status)
		return status;
	if (!kt_event(pair->eq, FI_CONNREQ, &entry))
		return -EPROTO;
	status = kt_end(pair, 1, entry.info) ?: fi_accept(pair->ep[1], NULL, 0);
	fi_freeinfo(entry.info);
	if (status)
		return status;
	return kt_event(pair->eq, FI_CONNECTED, &entry) && kt_event(pair->eq, FI_CONNECTED, &entry) ? 0 : -EPROTO;
}

/* Opens two endpoints with a connection. */
static int kt_open_msg(struct kt_pair *pair)
{
	struct fi_eq_attr eq = { .wait_obj = FI_WAIT_UNSPEC };
	struct fid_pep *pep = NULL;
	int status;

	memset(pair, 0, sizeof(*pair));
	pair->from = vzalloc(KT_BUFFER);
	pair->to = vzalloc(KT_BUFFER);
	pair->info = kt_verbs_info(FI_MSG | FI_RMA, FI_RX_CQ_DATA, kt_modes, NULL);
	if (!pair->info || !pair->from || !pair->to)
		return -ENOMEM;
	status = fi_fabric(pair->info->fabric_attr, &pair->fabric, NULL) ?: fi_eq_open(pair->fabric, &eq, &pair->eq, NULL) ?:
		 fi_domain(pair->fabric, pair->info, &pair->domain, NULL) ?:
		 fi_passive_ep(pair->fabric, pair->info, &pep, NULL) ?: kt_meet(pair, pep);
	if (pep)
		fi_close(&pep->fid);
	return status;
}

/* Whether both ends are told that the connection is over. */
static bool kt_both_shut(struct kt_pair *pair)
{
	struct fi_eq_cm_entry entry;

	return kt_event(pair->eq, FI_SHUTDOWN, &entry) && kt_event(pair->eq, FI_SHUTDOWN, &entry);
}

static void kt_verbs_messages(void)
{
	struct fi_cq_tagged_entry entry;
	struct kvec pieces[2];
	struct kt_pair pair;
	int at, status;
	bool ok = true;

	KT(kt_open_msg(&pair) == 0, "two endpoints are connected");
	if (!pair.ep[1])
		return;
	kt_fill(pair.from, KT_BUFFER, 1);
	KT(fi_recv(pair.ep[1], pair.to, 60000, NULL, 0, &at) == 0 && fi_send(pair.ep[0], pair.from, 50000, NULL, 0, pair.from) == 0 &&
		   kt_done(pair.cq[1], &at, &entry) && entry.len == 50000 && entry.flags == (FI_MSG | FI_RECV) &&
		   kt_done(pair.cq[0], pair.from, &entry) && entry.flags == (FI_MSG | FI_SEND) && kt_is_filled(pair.to, 50000, 1),
	   "a message is received, with its length");
	KT(fi_senddata(pair.ep[1], pair.from, 0, NULL, 0x12345678, 0, &pair) == 0 && fi_recv(pair.ep[0], pair.to, 8, NULL, 0, &at) == 0 &&
		   kt_done(pair.cq[0], &at, &entry) && entry.len == 0 && entry.data == 0x12345678 &&
		   entry.flags == (FI_MSG | FI_RECV | FI_REMOTE_CQ_DATA) && kt_done(pair.cq[1], &pair, NULL),
	   "an empty one, with data, waits for its receive");
	pieces[0] = (struct kvec){ pair.from, 100 };
	pieces[1] = (struct kvec){ pair.from + 5000, 100 };
	memset(pair.to, 0, 256);
	KT(fi_recv(pair.ep[1], pair.to, 256, NULL, 0, &at) == 0 && fi_sendv(pair.ep[0], pieces, NULL, 2, 0, &ok) == 0 &&
		   kt_done(pair.cq[1], &at, &entry) && entry.len == 200 && !memcmp(pair.to, pair.from, 100) &&
		   !memcmp(pair.to + 100, pair.from + 5000, 100) && kt_done(pair.cq[0], &ok, NULL),
	   "pieces are gathered");
	for (at = 0; ok && at < 40; at++) {
		pair.from[0] = at;
		ok = fi_recv(pair.ep[1], pair.to + at, 1, NULL, 0, pair.to + at) == 0 && fi_inject(pair.ep[0], pair.from, 1, 0) == 0;
	}
	for (at = 0; ok && at < 40; at++)
		ok = kt_done(pair.cq[1], pair.to + at, NULL) && pair.to[at] == at;
	KT(ok, "injected messages are copied, and come in order");
	for (at = 0, status = 0; !status && at < 1000; at++)
		status = fi_recv(pair.ep[1], pair.to, 8, NULL, 0, NULL);
	KT(status == -FI_EAGAIN && at == pair.info->rx_attr->size + 1, "as many receives are posted as the attributes say");
	status = fi_inject(pair.ep[0], pair.from, 9, 0) ?: kt_error(pair.cq[1], NULL);
	/* The software device says that the work failed, and not at what. */
	KT((status == FI_ETRUNC || status == FI_EIO) && kt_both_shut(&pair),
	   "a message that is longer than its receive ends the connection");
	for (at = 1, ok = true; ok && at < pair.info->rx_attr->size; at++)
		ok = kt_error(pair.cq[1], NULL) == FI_ECANCELED;
	KT(ok, "and the other receives are given back");
	KT(kt_close(&pair) == 0, "all is closed");
}

static void kt_verbs_access(void)
{
	u64 both = FI_REMOTE_READ | FI_REMOTE_WRITE, key, to;
	struct fid_mr *mr = NULL, *read_only = NULL, *large = NULL;
	struct fi_cq_tagged_entry entry;
	struct kt_pair pair;
	void *much;

	KT(kt_open_msg(&pair) == 0, "two more are connected");
	if (!pair.ep[1])
		return;
	to = (uintptr_t)pair.to;
	KT(fi_mr_reg(pair.domain, pair.to, KT_BUFFER, both, 0, 77, 0, &mr, NULL) == 0, "memory of vmalloc is registered");
	if (!mr)
		return;
	key = fi_mr_key(mr);
	KT(fi_mr_reg(pair.domain, pair.from, 100, FI_REMOTE_READ, 0, 77, 0, &read_only, NULL) == 0 && fi_mr_key(read_only) != key,
	   "each registration has a key of the device's");
	much = vzalloc(4 << 20);
	KT(much && fi_mr_reg(pair.domain, much, 4 << 20, both, 0, 0, 0, &large, NULL) == -FI_EINVAL, "more than a device takes at once is refused");
	vfree(much);
	KT(fi_close(&pair.domain->fid) == -FI_EBUSY, "a domain with a registration is not closed");
	kt_fill(pair.from, KT_BUFFER, 3);
	KT(fi_write(pair.ep[0], pair.from, 60000, NULL, 0, to + 100, key, &pair) == 0 && kt_done(pair.cq[0], &pair, &entry) &&
		   entry.flags == (FI_RMA | FI_WRITE) && kt_is_filled(pair.to + 100, 60000, 3),
	   "a write is there when it has completed");
	memset(pair.from, 0, KT_BUFFER);
	KT(fi_read(pair.ep[0], pair.from, 60000, NULL, 0, to + 100, key, &pair) == 0 && kt_done(pair.cq[0], &pair, &entry) &&
		   entry.flags == (FI_RMA | FI_READ) && kt_is_filled(pair.from, 60000, 3),
	   "a read brings it");
	KT(fi_recv(pair.ep[1], pair.from + 100000, 8, NULL, 0, &key) == 0 &&
		   fi_writedata(pair.ep[0], pair.from, 8, NULL, 99, 0, to, key, &pair) == 0 && kt_done(pair.cq[1], &key, &entry) &&
		   entry.flags == (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA) && entry.data == 99 && entry.len == 8 &&
		   kt_done(pair.cq[0], &pair, NULL) && !memcmp(pair.to, pair.from, 8),
	   "a write with data takes a receive, and says so");
	KT(fi_inject_write(pair.ep[0], pair.from, 8, 0, to + 8, key) == 0 &&
		   fi_read(pair.ep[0], pair.from + 8, 8, NULL, 0, to + 8, key, &pair) == 0 && kt_done(pair.cq[0], &pair, NULL) &&
		   !memcmp(pair.from, pair.from + 8, 8),
	   "an injected write comes before a later read");
	KT(fi_read(pair.ep[0], pair.to, 8, NULL, 0, (uintptr_t)pair.from, fi_mr_key(read_only), &pair) == 0 &&
		   kt_done(pair.cq[0], &pair, NULL),
	   "what is registered for reads is read");
	KT(fi_recv(pair.ep[1], pair.from, 8, NULL, 0, &to) == 0 &&
		   fi_write(pair.ep[0], pair.to, 8, NULL, 0, (uintptr_t)pair.from, fi_mr_key(read_only), &pair) == 0 &&
		   kt_error(pair.cq[0], NULL) == FI_EACCES && kt_both_shut(&pair) && kt_error(pair.cq[1], NULL) == FI_ECANCELED,
	   "a write there ends the connection");
	KT(fi_close(&mr->fid) == 0 && fi_close(&read_only->fid) == 0 && kt_close(&pair) == 0, "all is closed");
	KT(kt_open_msg(&pair) == 0 && fi_read(pair.ep[0], pair.from, 8, NULL, 0, (uintptr_t)pair.to, key, &pair) == 0 &&
		   kt_error(pair.cq[0], NULL) == FI_EACCES && kt_both_shut(&pair) && kt_close(&pair) == 0,
	   "a key of a registration that has ended reaches nothing");
}

void kt_verbs(void)
{
	kt_verbs_infos();
	kt_verbs_messages();
	kt_verbs_access();
}
