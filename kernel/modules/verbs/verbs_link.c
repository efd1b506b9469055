/* Connections of rdma_cm. Their queues of work are in verbs_queues.c. */
#include <linux/net.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <rdma/ib_cm.h>
#include "verbs_parts.h"

/* Most requests for connections that wait for a listener's owner to take them. */
#define KV_WAITING 64
/* Milliseconds until an address, or a route, counts as not to be found. */
#define KV_RESOLVE 2000

/*
 * Calls something of rdma_cm that allocates: a disk that is to write memory out may wait for the connection, so that nothing is written out
 * for it.
 */
#define KV_NOIO(call) ({ unsigned int kv_saved = memalloc_noio_save(); typeof(call) kv_is = (call); memalloc_noio_restore(kv_saved); kv_is; })

struct kv_note {
	struct list_head list;
	struct kv_event event;
	/* Of a request: the connection that it asks for. */
	struct kv_link *link;
};

void kv_wake(struct kv_link *of)
{
	unsigned long flags;

	spin_lock_irqsave(&of->lock, flags);
	if (of->owner)
		kofi_verbs_rs_wake(of->owner);
	spin_unlock_irqrestore(&of->lock, flags);
}

static struct kv_link *kv_link_new(struct rdma_cm_id *id, const void *owner)
{
	struct kv_link *of = kzalloc(sizeof(*of), GFP_NOIO);

	if (!of)
		return NULL;
	spin_lock_init(&of->lock);
	INIT_LIST_HEAD(&of->notes);
	of->id = id;
	of->owner = owner;
	return of;
}

static const void *kv_data(struct rdma_cm_id *id, struct rdma_cm_event *event, u8 *len)
{
	*len = 0;
	switch (event->event) {
	case RDMA_CM_EVENT_REJECTED:
		return rdma_consumer_reject_data(id, event, len);
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_ESTABLISHED:
		*len = event->param.conn.private_data_len;
		return event->param.conn.private_data;
	default:
		return NULL;
	}
}

/* Takes an event; in a thread of rdma_cm's. What it returns for a request other than zero ends the new connection. */
static int kv_happened(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	bool is_request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
	struct kv_link *of = id->context;
	struct kv_note *note = kzalloc(sizeof(*note), GFP_NOIO | __GFP_NOFAIL);
	unsigned long flags;
	const void *data;
	bool is_taken;
	u8 len;

	data = kv_data(id, event, &len);
	note->event.kind = event->event;
	note->event.status = event->status;
	if (data) {
		note->event.len = min_t(u32, len, KV_EVENT_DATA);
		memcpy(note->event.data, data, note->event.len);
	}
	if (is_request) {
		note->link = kv_link_new(id, NULL);
		if (!note->link) {
			kfree(note);
			return -ENOMEM;
		}
		note->link->reads_in = event->param.conn.responder_resources;
		note->link->reads_out = event->param.conn.initiator_depth;
	}
	spin_lock_irqsave(&of->lock, flags);
	is_taken = !is_request || of->waiting < KV_WAITING;
	if (is_taken) {
		of->waiting += is_request;
		if (is_request)
			id->context = note->link;
		list_add_tail(&note->list, &of->notes);
		if (of->owner)
			kofi_verbs_rs_wake(of->owner);
	}
	spin_unlock_irqrestore(&of->lock, flags);
	if (is_taken)
		return 0;
	kfree(note->link);
	kfree(note);
	return -ENOBUFS;
}

struct kv_link *kv_link_open(const void *owner, int *status)
{
	struct kv_link *of = kv_link_new(NULL, owner);
	struct rdma_cm_id *id;

	*status = -ENOMEM;
	if (!of)
		return NULL;
	id = KV_NOIO(rdma_create_id(&init_net, kv_happened, of, RDMA_PS_TCP, IB_QPT_RC));
	*status = PTR_ERR_OR_ZERO(id);
	if (*status) {
		kfree(of);
		return NULL;
	}
	of->id = id;
	return of;
}

/* Takes the first note of a link out. */
static struct kv_note *kv_note(struct kv_link *of)
{
	struct kv_note *note;
	unsigned long flags;

	spin_lock_irqsave(&of->lock, flags);
	note = list_first_entry_or_null(&of->notes, struct kv_note, list);
	if (note) {
		list_del(&note->list);
		of->waiting -= note->link != NULL;
	}
	spin_unlock_irqrestore(&of->lock, flags);
	return note;
}

void kv_link_close(struct kv_link *of)
{
	unsigned int saved = memalloc_noio_save();
	struct kv_note *note;

	kv_link_set_owner(of, NULL);
	kv_queues_close(of);
	/* No event comes after this. */
	rdma_destroy_id(of->id);
	memalloc_noio_restore(saved);
	while ((note = kv_note(of))) {
		if (note->link)
			kv_link_close(note->link);
		kfree(note);
	}
	/* A completion may be on its way out of the handler still. */
	kfree_rcu(of, rcu);
}

void kv_link_set_owner(struct kv_link *of, const void *owner)
{
	unsigned long flags;

	spin_lock_irqsave(&of->lock, flags);
	of->owner = owner;
	if (owner)
		kofi_verbs_rs_wake(owner);
	spin_unlock_irqrestore(&of->lock, flags);
}

static struct sockaddr_in kv_address(u32 host, u16 port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(host),
		.sin_port = htons(port),
	};
}

static void kv_read_name(const struct sockaddr_storage *from, u32 *host, u16 *port)
{
	const struct sockaddr_in *at = (const struct sockaddr_in *)from;

	*host = from->ss_family == AF_INET ? ntohl(at->sin_addr.s_addr) : 0;
	*port = from->ss_family == AF_INET ? ntohs(at->sin_port) : 0;
}

int kv_link_bind(struct kv_link *of, u32 host, u16 port)
{
	struct sockaddr_in at = kv_address(host, port);

	if (port)
		rdma_set_reuseaddr(of->id, 1);
	return KV_NOIO(rdma_bind_addr(of->id, (struct sockaddr *)&at));
}

int kv_link_listen(struct kv_link *of, int backlog)
{
	return KV_NOIO(rdma_listen(of->id, backlog));
}

void kv_link_name(struct kv_link *of, u32 *host, u16 *port)
{
	kv_read_name(&of->id->route.addr.src_addr, host, port);
}

void kv_link_peer(struct kv_link *of, u32 *host, u16 *port)
{
	kv_read_name(&of->id->route.addr.dst_addr, host, port);
}

int kv_link_resolve(struct kv_link *of, u32 host, u16 port)
{
	struct sockaddr_in to = kv_address(host, port);

	return KV_NOIO(rdma_resolve_addr(of->id, NULL, (struct sockaddr *)&to, KV_RESOLVE));
}

int kv_link_route(struct kv_link *of)
{
	return KV_NOIO(rdma_resolve_route(of->id, KV_RESOLVE));
}

/* What all connections have. Messages wait as long as the peer has no receive for them. */
static struct rdma_conn_param kv_param(struct kv_link *of, const u8 *data, u8 len)
{
	const struct ib_device_attr *attrs = &of->id->device->attrs;

	return (struct rdma_conn_param){
		.private_data = data,
		.private_data_len = len,
		.responder_resources = min(attrs->max_qp_rd_atom, U8_MAX),
		.initiator_depth = min(attrs->max_qp_init_rd_atom, U8_MAX),
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
}

int kv_link_connect(struct kv_link *of, const u8 *data, u8 len)
{
	struct rdma_conn_param param = kv_param(of, data, len);

	return KV_NOIO(rdma_connect(of->id, &param));
}

int kv_link_accept(struct kv_link *of, const u8 *data, u8 len)
{
	struct rdma_conn_param param = kv_param(of, data, len);
	int status;

	param.responder_resources = min(param.responder_resources, of->reads_in);
	param.initiator_depth = min(param.initiator_depth, of->reads_out);
	rdma_lock_handler(of->id);
	status = KV_NOIO(rdma_accept(of->id, &param));
	rdma_unlock_handler(of->id);
	return status;
}

int kv_link_reject(struct kv_link *of, const u8 *data, u8 len)
{
	return KV_NOIO(rdma_reject(of->id, data, len, IB_CM_REJ_CONSUMER_DEFINED));
}

/* A message has come over the connection: it stands, whether the peer's last word on that arrives or not. From any context. */
void kv_link_established(struct kv_link *of)
{
	rdma_notify(of->id, IB_EVENT_COMM_EST);
}

/* Ends the connection; what is outstanding ends, also where there was none yet. */
void kv_link_disconnect(struct kv_link *of)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	KV_NOIO(rdma_disconnect(of->id));
	if (of->cq)
		KV_NOIO(ib_modify_qp(of->id->qp, &attr, IB_QP_STATE));
}

/* Takes a request for a connection out; null when there is none. */
struct kv_link *kv_link_arrival(struct kv_link *of, struct kv_event *event)
{
	struct kv_link *link = NULL;
	struct kv_note *note;

	while (!link && (note = kv_note(of))) {
		link = note->link;
		*event = note->event;
		kfree(note);
	}
	return link;
}

bool kv_link_event(struct kv_link *of, struct kv_event *event)
{
	struct kv_note *note = kv_note(of);

	if (!note)
		return false;
	*event = note->event;
	if (note->link)
		kv_link_close(note->link);
	kfree(note);
	return true;
}

/* What peers cause goes to the log at a bounded rate. */
void kv_warn(const char *text, size_t len)
{
	if (net_ratelimit())
		pr_warn("kofi_verbs: %.*s\n", (int)len, text);
}
