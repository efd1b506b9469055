/*
 * A connection of kofi_target.ko.
 *
 * A request takes a slot, which has a buffer for its data. What the fabric has to do is posted by the thread that found the slot ready for
 * it; the disk is asked by a worker. A slot is with one of: the list of free slots, the fabric, a worker. So no two threads have it.
 */
#include "kofi_target.h"

enum slot_step {
	/* The data of a write is read from the initiator. */
	SLOT_FETCH,
	/* The disk does its part. */
	SLOT_CARRY_OUT,
	/* The data of a read is written to the initiator. */
	SLOT_PUT,
	SLOT_ANSWER,
};

struct target_slot {
	struct target_session *session;
	struct list_head free;
	struct delayed_work work;
	enum slot_step step;
	/* Of a read that is answered together with its data: the data and the answer, as far as they are not through. */
	atomic_t parts;
	struct kofi_blk_order order;
	int error;
	void *buffer;
	/* The receive that has the data of a write, until the disk has it. */
	struct target_receive *receive;
};

/* A place for a request that arrives, with the data that it may carry. */
struct target_receive {
	struct list_head arrived;
	size_t len;
	u8 bytes[];
};

struct target_session {
	struct target_fabric *on;
	struct target_disk *disk;
	/* As the initiator was told. */
	struct kofi_blk_disk about;
	u8 initiator[16];
	struct fid_cq *cq;
	struct fid_ep *ep;
	/* What is sent after a write arrives after its data. */
	bool is_ordered;
	/* Nothing is started any more. */
	bool ending;
	/* Protects the two lists. */
	spinlock_t lock;
	struct list_head free;
	struct list_head arrived;
	struct target_slot *slots;
	/* The posted receives, side by side: each has room for a request and the data that it may carry. */
	u8 *receives;
	size_t receive_size;
	u32 receive_count;
	/* For the callback: longer than what a kernel that clears its variables should have on its stack. */
	struct fi_cq_msg_entry ended[8];
};

static struct target_receive *session_receive(const struct target_session *session, u32 at)
{
	return (struct target_receive *)(session->receives + at * session->receive_size);
}

bool target_session_is(const struct target_session *session, const u8 *initiator)
{
	return !memcmp(session->initiator, initiator, sizeof(session->initiator));
}

bool target_session_has(const struct target_session *session, const struct fid *fid)
{
	return &session->ep->fid == fid;
}

bool target_session_is_ending(const struct target_session *session)
{
	return READ_ONCE(session->ending);
}

/* Ends the connection; the thread of the module reads that as an event, and closes the session. */
static void session_fail(struct target_session *session, const char *why, int error)
{
	if (xchg(&session->ending, true))
		return;
	pr_info("kofi_target: a connection is ended: %s (%d)\n", why, error);
	fi_shutdown(session->ep, 0);
}

static int slot_fetch(struct target_slot *slot)
{
	const struct kofi_blk_order *order = &slot->order;

	return fi_read(slot->session->ep, slot->buffer, order->job.len, NULL, 0, order->addr, order->key, slot);
}

static int slot_put(struct target_slot *slot)
{
	const struct kofi_blk_order *order = &slot->order;
	struct kvec from = { .iov_base = slot->buffer, .iov_len = order->job.len };
	struct fi_rma_iov to = { .addr = order->addr, .len = order->job.len, .key = order->key };
	struct fi_msg_rma msg = {
		.msg_iov = &from,
		.iov_count = 1,
		.rma_iov = &to,
		.rma_iov_count = 1,
		.context = slot,
	};

	/* The response must not come before the data is there. */
	return fi_writemsg(slot->session->ep, &msg, FI_TRANSMIT_COMPLETE | FI_COMPLETION);
}

static int slot_answer(struct target_slot *slot)
{
	u8 response[KOFI_BLK_RESPONSE];

	kofi_target_rs_response(&slot->order, slot->error, response);
	return fi_inject(slot->session->ep, response, sizeof(response), 0);
}

static void session_start(struct target_session *session);

static int slot_post(struct target_slot *slot, enum slot_step step)
{
	switch (step) {
	case SLOT_FETCH:
		return slot_fetch(slot);
	case SLOT_PUT:
		return slot_put(slot);
	default:
		return slot_answer(slot);
	}
}

/* Gives a slot back when the last of its parts is through. */
static void slot_release(struct target_slot *slot)
{
	struct target_session *session = slot->session;

	if (!atomic_dec_and_test(&slot->parts))
		return;
	spin_lock(&session->lock);
	list_add(&slot->free, &session->free);
	spin_unlock(&session->lock);
	session_start(session);
}

/* Posts the data of a read whose answer is posted next. The completion of the data ends a part of the slot then, and nothing else. */
static int slot_put_ahead(struct target_slot *slot)
{
	int status;

	slot->step = SLOT_ANSWER;
	atomic_set(&slot->parts, 2);
	status = slot_put(slot);
	if (status) {
		slot->step = SLOT_PUT;
		atomic_set(&slot->parts, 1);
	}
	return status;
}

static int receive_post(struct target_session *session, struct target_receive *receive)
{
	size_t room = KOFI_BLK_REQUEST + session->about.inline_data;

	return fi_recv(session->ep, receive->bytes, room, NULL, 0, receive);
}

/* Has the disk do its part; then its receive is posted again. Returns the error of its post. */
static int slot_carry_out(struct target_slot *slot)
{
	struct target_session *session = slot->session;
	struct target_receive *receive = slot->receive;
	void *data = receive ? receive->bytes + KOFI_BLK_REQUEST : slot->buffer;

	slot->error = target_disk_carry_out(session->disk, &slot->order.job, data);
	slot->step = slot->order.job.op == KOFI_BLK_READ && !slot->error ? SLOT_PUT : SLOT_ANSWER;
	atomic_set(&slot->parts, 1);
	slot->receive = NULL;
	return receive ? receive_post(session, receive) : 0;
}

/*
 * Posts what comes next; in a worker, also asks the disk. Leaves the slot to the fabric, to a worker, or free. Once an access is posted, its
 * completion may come before the call returns: then another thread has the slot.
 */
static void slot_run(struct target_slot *slot, bool may_wait)
{
	struct target_session *session = slot->session;
	enum slot_step step;
	int status = 0;

	if (READ_ONCE(session->ending) || READ_ONCE(target_mute))
		return;
	if (slot->step == SLOT_CARRY_OUT) {
		if (!may_wait) {
			queue_delayed_work(session->on->workers, &slot->work, 0);
			return;
		}
		status = slot_carry_out(slot);
		if (status) {
			session_fail(session, "a receive is not posted", status);
			return;
		}
	}
	if (slot->step == SLOT_PUT && session->is_ordered)
		status = slot_put_ahead(slot);
	step = slot->step;
	if (!status)
		status = slot_post(slot, step);
	if (status == -FI_EAGAIN) {
		queue_delayed_work(session->on->workers, &slot->work, 1);
	} else if (status) {
		session_fail(session, "a post fails", status);
	} else if (step == SLOT_ANSWER) {
		slot_release(slot);
	}
}

static void slot_work(struct work_struct *work)
{
	slot_run(container_of(to_delayed_work(work), struct target_slot, work), true);
}

/* Gives a slot the request that a receive took, which is posted again unless it has the data. */
static void slot_begin(struct target_slot *slot, struct target_receive *receive)
{
	struct target_session *session = slot->session;
	int status = kofi_target_rs_request(receive->bytes, receive->len, &session->about, &slot->order);

	slot->receive = !status && slot->order.status == KOFI_BLK_DONE && slot->order.job.is_inline ? receive : NULL;
	if (!status && !slot->receive)
		status = receive_post(session, receive);
	if (status) {
		session_fail(session, "a request is none", status);
		return;
	}
	slot->error = 0;
	atomic_set(&slot->parts, 1);
	if (slot->order.status != KOFI_BLK_DONE || slot->order.job.op == KOFI_BLK_NOTHING)
		slot->step = SLOT_ANSWER;
	else if (slot->order.job.op == KOFI_BLK_WRITE && !slot->receive)
		slot->step = SLOT_FETCH;
	else
		slot->step = SLOT_CARRY_OUT;
	/* An answer frees the slot and starts the next request: by a worker, so that this does not recur. */
	if (slot->step == SLOT_ANSWER)
		queue_delayed_work(session->on->workers, &slot->work, 0);
	else
		slot_run(slot, false);
}

/* Gives requests that have arrived slots, as long as there are both. */
static void session_start(struct target_session *session)
{
	while (!READ_ONCE(session->ending)) {
		struct target_receive *receive;
		struct target_slot *slot;

		spin_lock(&session->lock);
		slot = list_first_entry_or_null(&session->free, struct target_slot, free);
		receive = list_first_entry_or_null(&session->arrived, struct target_receive, arrived);
		if (slot && receive) {
			list_del(&slot->free);
			list_del(&receive->arrived);
		}
		spin_unlock(&session->lock);
		if (!slot || !receive)
			return;
		slot_begin(slot, receive);
	}
}

/* Takes the end of an access to the initiator's memory. */
static void slot_moved(struct target_slot *slot)
{
	if (slot->step == SLOT_ANSWER) {
		slot_release(slot);
		return;
	}
	slot->step = slot->step == SLOT_FETCH ? SLOT_CARRY_OUT : SLOT_ANSWER;
	slot_run(slot, false);
}

static void session_ended(struct target_session *session, const struct fi_cq_msg_entry *entry)
{
	struct target_receive *receive = entry->op_context;

	/* A write that brings data takes a receive over RDMA, and no message comes with it. */
	if (entry->flags & FI_REMOTE_WRITE) {
		session_fail(session, "the initiator writes with data", -EPROTO);
		return;
	}
	if (!(entry->flags & FI_RECV)) {
		slot_moved(entry->op_context);
		return;
	}
	receive->len = entry->len;
	spin_lock(&session->lock);
	list_add_tail(&receive->arrived, &session->arrived);
	spin_unlock(&session->lock);
	session_start(session);
}

/* Ends the connection for the error that is next in the queue. */
static void session_failed(struct target_session *session, struct fid_cq *cq)
{
	struct fi_cq_err_entry error = {};

	session_fail(session, "an operation fails", fi_cq_error(cq, &error, 0) > 0 ? -error.err : -EIO);
}

static void session_completions(struct fid_cq *cq, void *arg)
{
	struct target_session *session = arg;
	struct fi_cq_msg_entry *entries = session->ended;
	ssize_t count, at;

	while (!READ_ONCE(session->ending)) {
		count = fi_cq_read(cq, entries, ARRAY_SIZE(session->ended));
		if (count == -FI_EAGAIN)
			return;
		if (count < 0) {
			session_failed(session, cq);
			return;
		}
		for (at = 0; at < count; at++)
			session_ended(session, &entries[at]);
	}
}

static int session_memory(struct target_session *session)
{
	u32 at, depth = session->about.depth;

	session->receive_count = 2 * depth;
	session->slots = kvcalloc(depth, sizeof(*session->slots), GFP_KERNEL);
	session->receive_size = ALIGN(sizeof(struct target_receive) + KOFI_BLK_REQUEST + session->about.inline_data, 64);
	session->receives = kvcalloc(session->receive_count, session->receive_size, GFP_KERNEL);
	if (!session->slots || !session->receives)
		return -ENOMEM;
	for (at = 0; at < depth; at++) {
		struct target_slot *slot = &session->slots[at];

		slot->session = session;
		INIT_DELAYED_WORK(&slot->work, slot_work);
		slot->buffer = kvmalloc(session->about.longest, GFP_KERNEL);
		if (!slot->buffer)
			return -ENOMEM;
		list_add(&slot->free, &session->free);
	}
	return 0;
}

static int session_accept(struct target_session *session, struct fi_info *request, bool *is_taken)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE };
	struct target_fabric *on = session->on;
	u8 welcome[KOFI_BLK_WELCOME];
	u32 at;
	int status;

	attr.size = session->receive_count + 4 * session->about.depth;
	/* As a reliable queue pair of a device has it. */
	session->is_ordered = request->ep_attr->protocol == FI_PROTO_RDMA_CM_IB_RC;
	status = fi_cq_open(on->domain, &attr, &session->cq, NULL);
	if (!status)
		status = kofi_cq_set_callback(session->cq, session_completions, session);
	if (!status) {
		*is_taken = true;
		status = fi_endpoint(on->domain, request, &session->ep, session);
	}
	if (!status)
		status = fi_ep_bind(session->ep, &on->eq->fid, 0);
	if (!status)
		status = fi_ep_bind(session->ep, &session->cq->fid, FI_SEND | FI_RECV);
	kofi_target_rs_welcome(&session->about, welcome);
	if (!status)
		status = fi_accept(session->ep, welcome, sizeof(welcome));
	for (at = 0; !status && at < session->receive_count; at++)
		status = receive_post(session, session_receive(session, at));
	return status;
}

struct target_session *target_session_open(struct target_fabric *on, struct target_disk *disk, struct fi_info *request,
					   const struct kofi_blk_disk *about, const u8 *initiator, bool *is_taken)
{
	struct target_session *session = kzalloc(sizeof(*session), GFP_KERNEL);
	int status;

	if (!session)
		return ERR_PTR(-ENOMEM);
	session->on = on;
	session->disk = disk;
	session->about = *about;
	memcpy(session->initiator, initiator, sizeof(session->initiator));
	spin_lock_init(&session->lock);
	INIT_LIST_HEAD(&session->free);
	INIT_LIST_HEAD(&session->arrived);
	status = session_memory(session);
	if (!status)
		status = session_accept(session, request, is_taken);
	if (!status)
		return session;
	target_session_close(session);
	return ERR_PTR(status);
}

static void session_cancel_work(struct target_session *session)
{
	u32 at;

	for (at = 0; session->slots && at < session->about.depth; at++)
		if (session->slots[at].session)
			cancel_delayed_work_sync(&session->slots[at].work);
}

void target_session_close(struct target_session *session)
{
	u32 at;

	if (session->ep && !xchg(&session->ending, true))
		fi_shutdown(session->ep, 0);
	WRITE_ONCE(session->ending, true);
	if (session->cq)
		kofi_cq_set_callback(session->cq, NULL, NULL);
	/* A worker that began before the end may have queued the work of another slot, which was looked at already; that one does nothing. */
	session_cancel_work(session);
	session_cancel_work(session);
	/* Once the endpoint is closed, the fabric touches no buffer. */
	if (session->ep)
		WARN_ON(fi_close(&session->ep->fid));
	if (session->cq)
		WARN_ON(fi_close(&session->cq->fid));
	for (at = 0; session->slots && at < session->about.depth; at++)
		kvfree(session->slots[at].buffer);
	kvfree(session->slots);
	kvfree(session->receives);
	kfree(session);
}
