/* Devices, and what the endpoints of a domain share. Memory is in verbs_memory.c. */
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <rdma/ib_cache.h>
#include "verbs_parts.h"

int kv_fails;
module_param_named(fails, kv_fails, int, 0644);
MODULE_PARM_DESC(fails, "how often the queue pair of a domain, which registers memory, is not made ready after an error, for tests");

/* The devices that are there. */
struct kv_known {
	struct list_head list;
	struct ib_device *device;
};

static LIST_HEAD(kv_known);
static DEFINE_MUTEX(kv_known_lock);

static int kv_added(struct ib_device *device)
{
	struct kv_known *known = kzalloc(sizeof(*known), GFP_KERNEL);

	if (!known)
		return -ENOMEM;
	known->device = device;
	mutex_lock(&kv_known_lock);
	list_add_tail(&known->list, &kv_known);
	mutex_unlock(&kv_known_lock);
	return 0;
}

static void kv_removed(struct ib_device *device, void *data)
{
	struct kv_known *known, *next;

	mutex_lock(&kv_known_lock);
	list_for_each_entry_safe(known, next, &kv_known, list) {
		if (known->device == device) {
			list_del(&known->list);
			kfree(known);
		}
	}
	mutex_unlock(&kv_known_lock);
}

static struct ib_client kv_client = {
	.name = KBUILD_MODNAME,
	.add = kv_added,
	.remove = kv_removed,
};

int kv_start(void)
{
	return ib_register_client(&kv_client);
}

void kv_stop(void)
{
	ib_unregister_client(&kv_client);
}

/* Returns the IPv4 address of an entry of a port's table; zero if it is none, or one of another network namespace than the first. */
static u32 kv_address_of(const struct ib_gid_attr *gid)
{
	const struct in6_addr *address = (const struct in6_addr *)gid->gid.raw;
	struct net_device *device;
	bool is_ours;

	if (!ipv6_addr_v4mapped(address))
		return 0;
	rcu_read_lock();
	device = rdma_read_gid_attr_ndev_rcu(gid);
	is_ours = !IS_ERR(device) && net_eq(dev_net(device), &init_net);
	rcu_read_unlock();
	return is_ours ? ntohl(address->s6_addr32[3]) : 0;
}

/* Returns an IPv4 address of a port that is up, or zero. */
static u32 kv_host(struct ib_device *device, u32 port)
{
	const struct ib_gid_attr *gid;
	struct ib_port_attr attr;
	u32 host = 0;
	int at;

	if (ib_query_port(device, port, &attr) || attr.state != IB_PORT_ACTIVE)
		return 0;
	for (at = 0; !host && at < attr.gid_tbl_len; at++) {
		gid = rdma_get_gid_attr(device, port, at);
		if (IS_ERR(gid))
			continue;
		host = kv_address_of(gid);
		rdma_put_gid_attr(gid);
	}
	return host;
}

static bool kv_describe(struct ib_device *device, struct kv_device *to)
{
	const struct ib_device_attr *attrs = &device->attrs;
	struct ib_port_attr attr;
	u32 port;

	memset(to, 0, sizeof(*to));
	rdma_for_each_port (device, port) {
		to->host = kv_host(device, port);
		if (to->host && !ib_query_port(device, port, &attr))
			break;
	}
	if (!to->host)
		return false;
	strscpy(to->name, dev_name(&device->dev), sizeof(to->name));
	/* One queue of completions has what both queues of work end with. */
	to->depth = min(attrs->max_qp_wr, attrs->max_cqe / 2);
	to->pieces = min(attrs->max_send_sge, attrs->max_recv_sge);
	to->read_pieces = attrs->max_sge_rd ? min_t(u32, attrs->max_sge_rd, to->pieces) : to->pieces;
	/* Without them memory is not registered. */
	if (attrs->device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS) {
		to->regions = attrs->max_mr;
		to->region_pages = attrs->max_fast_reg_page_list_len;
	}
	to->queue_pairs = attrs->max_qp;
	to->queues = attrs->max_cq;
	to->longest = attr.max_msg_sz;
	return true;
}

size_t kv_devices(struct kv_device *to, size_t space)
{
	struct kv_known *known;
	size_t count = 0;

	mutex_lock(&kv_known_lock);
	list_for_each_entry(known, &kv_known, list) {
		if (count < space && kv_describe(known->device, to + count))
			count++;
	}
	mutex_unlock(&kv_known_lock);
	return count;
}

/* Finds a device, which stays until it is put. */
static struct ib_device *kv_find(const char *name, size_t len)
{
	struct ib_device *device = NULL;
	struct kv_known *known;

	mutex_lock(&kv_known_lock);
	list_for_each_entry(known, &kv_known, list) {
		const char *is = dev_name(&known->device->dev);

		if (strlen(is) == len && !memcmp(is, name, len) && ib_device_try_get(known->device)) {
			device = known->device;
			break;
		}
	}
	mutex_unlock(&kv_known_lock);
	return device;
}

/* Describes the way from a port to itself. */
static int kv_self(struct kv_domain *of, const struct ib_port_attr *port, struct rdma_ah_attr *way)
{
	const struct ib_gid_attr *gid;
	struct net_device *device;
	int at, status = -ENODEV;

	way->type = rdma_ah_find_type(of->device, of->port);
	rdma_ah_set_port_num(way, of->port);
	if (way->type == RDMA_AH_ATTR_TYPE_IB) {
		rdma_ah_set_dlid(way, port->lid);
		return 0;
	}
	for (at = 0; status && at < port->gid_tbl_len; at++) {
		gid = rdma_get_gid_attr(of->device, of->port, at);
		if (IS_ERR(gid))
			continue;
		rdma_ah_set_grh(way, (union ib_gid *)&gid->gid, 0, at, 1, 0);
		rcu_read_lock();
		device = rdma_read_gid_attr_ndev_rcu(gid);
		if (!IS_ERR(device)) {
			ether_addr_copy(way->roce.dmac, device->dev_addr);
			status = 0;
		}
		rcu_read_unlock();
		rdma_put_gid_attr(gid);
	}
	return status;
}

static int kv_domain_connect(struct kv_domain *of)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RESET };
	struct ib_port_attr port;
	int status = ib_query_port(of->device, of->port, &port);

	if (!status)
		status = ib_modify_qp(of->qp, &attr, IB_QP_STATE);
	if (!status && kv_fails > 0) {
		kv_fails--;
		status = -EIO;
	}
	if (status)
		return status;
	attr.qp_state = IB_QPS_INIT;
	attr.port_num = of->port;
	status = ib_modify_qp(of->qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	if (!status)
		status = kv_self(of, &port, &attr.ah_attr);
	if (status)
		return status;
	attr.qp_state = IB_QPS_RTR;
	attr.path_mtu = port.active_mtu;
	attr.dest_qp_num = of->qp->qp_num;
	attr.min_rnr_timer = 12;
	status = ib_modify_qp(of->qp, &attr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
						     IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	if (status)
		return status;
	attr.qp_state = IB_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	return ib_modify_qp(of->qp, &attr, IB_QP_STATE | IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY | IB_QP_SQ_PSN |
						   IB_QP_MAX_QP_RD_ATOMIC);
}

/* Connects the queue pair of a domain with itself, also again after an error. */
int kv_domain_ready(struct kv_domain *of)
{
	int status = kv_domain_connect(of);

	of->is_ready = !status;
	return status;
}

static int kv_domain_make(struct kv_domain *of)
{
	struct ib_qp_init_attr init = {
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.cap = { .max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	u32 port;

	rdma_for_each_port (of->device, port) {
		if (kv_host(of->device, port)) {
			of->port = port;
			break;
		}
	}
	if (!of->port)
		return -ENODEV;
	of->pd = ib_alloc_pd(of->device, 0);
	if (IS_ERR(of->pd))
		return PTR_ERR(of->pd);
	if (!(of->device->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS))
		return 0;
	of->cq = ib_alloc_cq(of->device, NULL, 8, 0, IB_POLL_WORKQUEUE);
	if (IS_ERR(of->cq))
		return PTR_ERR(of->cq);
	init.send_cq = of->cq;
	init.recv_cq = of->cq;
	init.port_num = of->port;
	of->qp = ib_create_qp(of->pd, &init);
	return IS_ERR(of->qp) ? PTR_ERR(of->qp) : kv_domain_ready(of);
}

struct kv_domain *kv_domain_open(const char *name, size_t len, int *status)
{
	struct kv_domain *of = kzalloc(sizeof(*of), GFP_NOIO);
	unsigned int saved;

	*status = -ENOMEM;
	if (!of)
		return NULL;
	mutex_init(&of->lock);
	of->device = kv_find(name, len);
	*status = -ENODEV;
	if (of->device) {
		saved = memalloc_noio_save();
		*status = kv_domain_make(of);
		memalloc_noio_restore(saved);
	}
	if (!*status)
		return of;
	kv_domain_close(of);
	return NULL;
}

void kv_domain_close(struct kv_domain *of)
{
	unsigned int saved = memalloc_noio_save();

	if (!IS_ERR_OR_NULL(of->qp))
		ib_destroy_qp(of->qp);
	if (!IS_ERR_OR_NULL(of->cq))
		ib_free_cq(of->cq);
	if (!IS_ERR_OR_NULL(of->pd))
		ib_dealloc_pd(of->pd);
	if (of->device)
		ib_device_put(of->device);
	kfree(of);
	memalloc_noio_restore(saved);
}
