/* Requests on their way: sent, parked, answered, failed. */
#include "kofi_blk_mod.h"

/* The number of a request that is not sent: no target is told of it. */
#define BLK_NOT_SENT U64_MAX

static bool blk_is_late(const struct blk_device *dev, const struct blk_slot *slot)
{
	unsigned long limit = msecs_to_jiffies(dev->settings.timeout);

	return time_after_eq(jiffies, slot->deadline) ||
	       (dev->failing && time_after_eq(jiffies, dev->failing_since + limit));
}

void blk_break(struct blk_device *dev, const char *why, int error)
{
	lockdep_assert_held(&dev->lock);
	if (dev->phase == BLK_DOWN || dev->broken)
		return;
	dev->broken = true;
	if (!dev->failing) {
		dev->failing = true;
		dev->failing_since = jiffies;
	}
	if (dev->phase == BLK_READY)
		pr_info("kofi_blk: the connection is lost: %s (%d)\n", why, error);
	else if (error != dev->told)
		pr_info("kofi_blk: no connection: %s (%d)\n", why, error);
	dev->told = error;
}

/* Sends a write together with its data; the slot is in use until that has left, which a completion says. */
static int blk_send_data(struct blk_device *dev, struct blk_slot *slot, u64 id, u8 flags)
{
	u8 *message = slot->buffer - KOFI_BLK_REQUEST;
	int status = kofi_blk_rs_request(slot->op, flags | KOFI_BLK_INLINE, slot->len, id, blk_rq_pos(slot->rq), 0, 0, message);

	if (!status)
		status = fi_send(dev->link.ep, message, KOFI_BLK_REQUEST + slot->len, NULL, 0, slot);
	slot->is_leaving = !status;
	return status;
}

static int blk_send_alone(struct blk_device *dev, struct blk_slot *slot, u64 id, u8 flags)
{
	u8 message[KOFI_BLK_REQUEST];
	sector_t sector = slot->op != KOFI_BLK_FLUSH ? blk_rq_pos(slot->rq) : 0;
	int status = kofi_blk_rs_request(slot->op, flags, slot->len, id, sector, slot->addr, fi_mr_key(slot->mr), message);

	return status ?: fi_inject(dev->link.ep, message, sizeof(message), 0);
}

/* Sends a request: -FI_EAGAIN when there is no room for now. */
static int blk_send(struct blk_device *dev, struct blk_slot *slot)
{
	u64 id = dev->next_id << 16 | (slot - dev->slots);
	u8 flags = slot->rq->cmd_flags & REQ_FUA ? KOFI_BLK_DURABLE : 0;
	bool has_data = slot->op == KOFI_BLK_WRITE && slot->len <= dev->inline_data;
	int status = has_data ? blk_send_data(dev, slot, id, flags) : blk_send_alone(dev, slot, id, flags);

	if (status)
		return status;
	dev->next_id++;
	slot->id = id;
	list_move_tail(&slot->list, &dev->sent);
	return 0;
}

void blk_send_parked(struct blk_device *dev)
{
	struct blk_slot *slot, *next;

	lockdep_assert_held(&dev->lock);
	if (dev->phase != BLK_READY || dev->broken)
		return;
	list_for_each_entry_safe(slot, next, &dev->parked, list) {
		int status = blk_send(dev, slot);

		if (status == -FI_EAGAIN)
			return;
		if (status) {
			blk_break(dev, "a request is not sent", status);
			return;
		}
	}
}

bool blk_submit(struct blk_device *dev, struct blk_slot *slot)
{
	bool is_late;

	mutex_lock(&dev->lock);
	slot->deadline = jiffies + msecs_to_jiffies(dev->settings.timeout);
	slot->id = BLK_NOT_SENT;
	is_late = blk_is_late(dev, slot);
	if (!is_late) {
		list_add_tail(&slot->list, &dev->parked);
		blk_send_parked(dev);
	}
	mutex_unlock(&dev->lock);
	return !is_late;
}

int blk_probe(struct blk_device *dev)
{
	u8 message[KOFI_BLK_REQUEST];
	int status;

	lockdep_assert_held(&dev->lock);
	dev->probe_id = dev->next_id++ << 16 | U16_MAX;
	status = kofi_blk_rs_request(KOFI_BLK_NOTHING, 0, 0, dev->probe_id, 0, 0, 0, message);
	return status ?: fi_inject(dev->link.ep, message, sizeof(message), 0);
}

void blk_park_sent(struct blk_device *dev)
{
	struct blk_slot *slot;

	lockdep_assert_held(&dev->lock);
	list_for_each_entry(slot, &dev->sent, list) {
		slot->id = BLK_NOT_SENT;
		slot->is_leaving = false;
		slot->is_answered = false;
	}
	/* Before what came later. */
	list_splice_init(&dev->sent, &dev->parked);
}

bool blk_has_late_sent(struct blk_device *dev)
{
	struct blk_slot *slot;

	lockdep_assert_held(&dev->lock);
	list_for_each_entry(slot, &dev->sent, list)
		if (blk_is_late(dev, slot))
			return true;
	return false;
}

void blk_fail_parked(struct blk_device *dev, bool all)
{
	struct blk_slot *slot, *next;
	LIST_HEAD(late);

	mutex_lock(&dev->lock);
	list_for_each_entry_safe(slot, next, &dev->parked, list)
		if (all || blk_is_late(dev, slot))
			list_move_tail(&slot->list, &late);
	mutex_unlock(&dev->lock);
	list_for_each_entry_safe(slot, next, &late, list) {
		list_del_init(&slot->list);
		blk_end(dev, slot, BLK_STS_IOERR);
	}
}

static blk_status_t blk_status_of(const struct kofi_blk_response *response)
{
	switch (response->status) {
	case KOFI_BLK_DONE:
		return BLK_STS_OK;
	case KOFI_BLK_REFUSED:
		return BLK_STS_NOTSUPP;
	case KOFI_BLK_NO_SPACE:
		return BLK_STS_NOSPC;
	default:
		return BLK_STS_IOERR;
	}
}

/* Takes a request out of the list once it is answered and its message has left; otherwise NULL. */
static struct blk_slot *blk_take(struct blk_slot *slot)
{
	if (!slot->is_answered || slot->is_leaving)
		return NULL;
	slot->is_answered = false;
	list_del_init(&slot->list);
	return slot;
}

/* Takes the request that a response ends out of the list; NULL for the sign of life, for a request whose data has not left yet, and when there is none. */
static struct blk_slot *blk_answered(struct blk_device *dev, const struct kofi_blk_response *response)
{
	u32 tag = response->id & U16_MAX;
	struct blk_slot *slot;

	if (dev->phase == BLK_PROBING && kofi_blk_rs_ends(response, dev->probe_id, 0)) {
		dev->phase = BLK_READY;
		dev->failing = false;
		dev->told = 0;
		pr_info("kofi_blk: connected to %s\n", dev->settings.node);
		blk_send_parked(dev);
		return NULL;
	}
	slot = tag < dev->settings.depth ? &dev->slots[tag] : NULL;
	/* A slot that is in no list has ended, and keeps its last number. */
	if (slot && !list_empty(&slot->list) && !slot->is_answered && kofi_blk_rs_ends(response, slot->id, slot->len)) {
		slot->status = blk_status_of(response);
		slot->is_answered = true;
		return blk_take(slot);
	}
	blk_break(dev, "a response to no request", -EPROTO);
	return NULL;
}

static void blk_response(struct blk_device *dev, const u8 *receive, size_t len)
{
	struct kofi_blk_response response;
	struct blk_slot *slot = NULL;
	int status = kofi_blk_rs_response(receive, len, &response);

	mutex_lock(&dev->lock);
	if (status)
		blk_break(dev, "a response is none", status);
	else if (!dev->broken)
		slot = blk_answered(dev, &response);
	mutex_unlock(&dev->lock);
	if (slot)
		blk_end(dev, slot, slot->status);
}

/* The message of a slot has left. */
static void blk_left(struct blk_device *dev, struct blk_slot *slot)
{
	mutex_lock(&dev->lock);
	slot->is_leaving = false;
	slot = blk_take(slot);
	mutex_unlock(&dev->lock);
	if (slot)
		blk_end(dev, slot, slot->status);
}

int blk_receive_post(struct blk_device *dev, u8 *receive)
{
	return fi_recv(dev->link.ep, receive, KOFI_BLK_RESPONSE, NULL, 0, receive);
}

/* Takes an error out of the queue, and returns it. */
static int blk_failed(struct fid_cq *cq)
{
	struct fi_cq_err_entry error = {};

	return fi_cq_error(cq, &error, 0) > 0 ? -error.err : -EIO;
}

void blk_completions(struct fid_cq *cq, void *arg)
{
	struct blk_device *dev = arg;
	struct fi_cq_msg_entry *entries = dev->link.ended;
	ssize_t count, at;
	int status = 0;

	while (!READ_ONCE(dev->broken)) {
		count = fi_cq_read(cq, entries, ARRAY_SIZE(dev->link.ended));
		if (count == -FI_EAGAIN)
			break;
		if (count < 0)
			status = blk_failed(cq);
		for (at = 0; !status && at < count; at++) {
			/* A write that brings data takes a receive over RDMA, and no message comes with it. */
			if (entries[at].flags & FI_REMOTE_WRITE) {
				status = -EPROTO;
				break;
			}
			if (entries[at].flags & FI_SEND) {
				blk_left(dev, entries[at].op_context);
				continue;
			}
			blk_response(dev, entries[at].op_context, entries[at].len);
			status = blk_receive_post(dev, entries[at].op_context);
		}
		mutex_lock(&dev->lock);
		if (status)
			blk_break(dev, "an operation fails", status);
		blk_send_parked(dev);
		mutex_unlock(&dev->lock);
		if (status)
			break;
	}
}
