/* The thread of kofi_blk.ko: connects, and connects again; ends what takes too long. */
#include <linux/kthread.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include "kofi_blk_mod.h"

/* An event with the data of the peer. */
union blk_event {
	struct fi_eq_cm_entry cm;
	u8 bytes[sizeof(struct fi_eq_cm_entry) + KOFI_BLK_HANDSHAKE];
};

int blk_link_open(struct blk_device *dev)
{
	struct fi_eq_attr eq = { .wait_obj = FI_WAIT_UNSPEC };
	const struct blk_settings *settings = &dev->settings;
	struct fi_info *hints = fi_allocinfo();
	struct blk_link *link = &dev->link;
	int status;

	if (!hints)
		return -ENOMEM;
	hints->ep_attr->type = FI_EP_MSG;
	hints->caps = FI_MSG | FI_RMA;
	hints->mode = FI_RX_CQ_DATA;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ALLOCATED;
	hints->tx_attr->inject_size = KOFI_BLK_REQUEST;
	hints->fabric_attr->prov_name = *settings->provider ? (char *)settings->provider : NULL;
	status = fi_getinfo(KOFI_VERSION, settings->node, settings->service, 0, hints, &link->info);
	hints->fabric_attr->prov_name = NULL;
	fi_freeinfo(hints);
	if (!status)
		status = fi_fabric(link->info->fabric_attr, &link->fabric, NULL);
	if (!status)
		status = fi_eq_open(link->fabric, &eq, &link->eq, NULL);
	if (!status)
		status = fi_domain(link->fabric, link->info, &link->domain, NULL);
	if (status)
		return status;
	dev->settings.depth = min3(settings->depth, (u32)link->info->tx_attr->size / 2, (u32)link->info->rx_attr->size / 2);
	link->receive_count = dev->settings.depth + 1;
	link->receives = kvcalloc(link->receive_count, sizeof(*link->receives), GFP_KERNEL);
	return link->receives ? 0 : -ENOMEM;
}

/* Closes the connection: after that, no target touches the buffers. */
static void link_disconnect(struct blk_device *dev)
{
	struct blk_link *link = &dev->link;
	u32 at;

	if (link->cq)
		kofi_cq_set_callback(link->cq, NULL, NULL);
	if (link->ep)
		WARN_ON(fi_close(&link->ep->fid));
	for (at = 0; dev->slots && at < dev->settings.depth; at++) {
		if (dev->slots[at].mr)
			WARN_ON(fi_close(&dev->slots[at].mr->fid));
		dev->slots[at].mr = NULL;
	}
	if (link->cq)
		WARN_ON(fi_close(&link->cq->fid));
	link->ep = NULL;
	link->cq = NULL;
}

void blk_link_close(struct blk_device *dev)
{
	struct blk_link *link = &dev->link;

	link_disconnect(dev);
	if (link->domain)
		WARN_ON(fi_close(&link->domain->fid));
	if (link->eq)
		WARN_ON(fi_close(&link->eq->fid));
	if (link->fabric)
		WARN_ON(fi_close(&link->fabric->fid));
	if (link->info)
		fi_freeinfo(link->info);
	kvfree(link->receives);
}

/* Registers the buffer of each slot: a device takes no more than some pages at once, and a target reaches no other buffer by its key. */
static int link_register(struct blk_device *dev)
{
	u64 access = FI_REMOTE_READ | FI_REMOTE_WRITE;
	bool is_virtual = dev->link.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
	int status = 0;
	u32 at;

	for (at = 0; !status && at < dev->settings.depth; at++) {
		struct blk_slot *slot = dev->slots + at;

		slot->addr = is_virtual ? (uintptr_t)slot->buffer : 0;
		status = fi_mr_reg(dev->link.domain, slot->buffer, dev->settings.longest, access, 0, at + 1, 0, &slot->mr, NULL);
	}
	return status;
}

static int link_connect(struct blk_device *dev)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE };
	struct blk_link *link = &dev->link;
	u8 hello[KOFI_BLK_HELLO];
	int status;

	/* Receives that are posted, and requests, of which those with data complete with an entry. */
	cq.size = link->receive_count + 2 * dev->settings.depth;
	status = fi_cq_open(link->domain, &cq, &link->cq, NULL);
	if (!status)
		status = link_register(dev);
	if (!status)
		status = fi_endpoint(link->domain, link->info, &link->ep, NULL);
	if (!status)
		status = fi_ep_bind(link->ep, &link->eq->fid, 0);
	if (!status)
		status = fi_ep_bind(link->ep, &link->cq->fid, FI_SEND | FI_RECV);
	if (status)
		return status;
	kofi_blk_rs_hello(dev->initiator, dev->settings.depth, dev->settings.longest, hello);
	return fi_connect(link->ep, link->info->dest_addr, hello, sizeof(hello));
}

/* Whether a target has the disk that the block layer knows. */
static bool link_is_same(const struct kofi_blk_disk *was, const struct kofi_blk_disk *is)
{
	return is->content == was->content && is->capacity == was->capacity && is->block == was->block &&
	       is->features == was->features && is->depth >= was->depth && is->longest >= was->longest;
}

static int link_welcomed(struct blk_device *dev, const u8 *data, size_t len)
{
	struct kofi_blk_disk disk;
	u32 at;
	int status = kofi_blk_rs_welcome(data, len, &disk);

	if (status)
		return status;
	if (disk.depth > dev->settings.depth || disk.longest > dev->settings.longest)
		return -EPROTO;
	if (dev->is_known && !link_is_same(&dev->disk, &disk))
		return -ESTALE;
	if (!dev->is_known)
		dev->disk = disk;
	dev->inline_data = disk.inline_data;
	for (at = 0; !status && at < dev->link.receive_count; at++)
		status = blk_receive_post(dev, dev->link.receives[at]);
	if (!status)
		status = kofi_cq_set_callback(dev->link.cq, blk_completions, dev);
	if (status)
		return status;
	mutex_lock(&dev->lock);
	dev->is_known = true;
	dev->phase = BLK_PROBING;
	status = blk_probe(dev);
	mutex_unlock(&dev->lock);
	return status;
}

/* Reads why there is no connection; a target that refuses says its reason. */
static int link_refused(struct blk_device *dev)
{
	struct fi_eq_err_entry error = {};
	int reason;

	if (fi_eq_error(dev->link.eq, &error, 0) <= 0)
		return -EIO;
	reason = error.err_data ? kofi_blk_rs_refusal(error.err_data, error.err_data_size) : 0;
	if (reason > 0)
		pr_info("kofi_blk: the target refuses, for reason %d\n", reason);
	return -error.err;
}

/* Waits for an event up to `ms`, and does what it asks for. Returns an error when the connection is of no use. */
static int link_event(struct blk_device *dev, int ms)
{
	union blk_event event;
	uint32_t kind = 0;
	ssize_t size = fi_eq_sread(dev->link.eq, &kind, &event, sizeof(event), ms, 0);

	if (size == -FI_EINTR)
		flush_signals(current);
	if (size == -FI_EAVAIL)
		return link_refused(dev);
	if (size < (ssize_t)sizeof(event.cm))
		return 0;
	if (kind == FI_CONNECTED)
		return link_welcomed(dev, event.cm.data, size - sizeof(event.cm));
	return -ECONNRESET;
}

/* Closes a connection that is of no use, and gives up what has no time left. */
static void link_down(struct blk_device *dev)
{
	mutex_lock(&dev->lock);
	/* No request is posted from here on. */
	dev->phase = BLK_DOWN;
	mutex_unlock(&dev->lock);
	link_disconnect(dev);
	mutex_lock(&dev->lock);
	dev->broken = false;
	blk_park_sent(dev);
	mutex_unlock(&dev->lock);
}

/* How long the thread may sleep: a tenth of the time limit, so that nothing is late by more. */
static unsigned int link_tick(const struct blk_device *dev)
{
	return clamp(dev->settings.timeout / 10, 10U, 1000U);
}

/* What is done now and then while there is a connection. */
static void link_watch(struct blk_device *dev)
{
	mutex_lock(&dev->lock);
	if (dev->phase == BLK_READY && blk_has_late_sent(dev))
		blk_break(dev, "a request is not answered in time", -ETIMEDOUT);
	blk_send_parked(dev);
	mutex_unlock(&dev->lock);
}

/* Connects until it succeeds, or has not for `timeout`, from one attempt to the end of the connection. */
static void link_try(struct blk_device *dev)
{
	unsigned long began = jiffies, limit = msecs_to_jiffies(dev->settings.timeout);
	int status;

	mutex_lock(&dev->lock);
	dev->phase = BLK_CONNECTING;
	mutex_unlock(&dev->lock);
	status = link_connect(dev);
	while (!kthread_should_stop()) {
		bool is_broken, is_ready;

		if (!status)
			status = link_event(dev, link_tick(dev));
		link_watch(dev);
		mutex_lock(&dev->lock);
		is_ready = dev->phase == BLK_READY;
		if (!status && !is_ready && time_after(jiffies, began + limit))
			status = -ETIMEDOUT;
		if (status)
			blk_break(dev, is_ready ? "the target has ended it" : "the target cannot be used", status);
		is_broken = dev->broken;
		mutex_unlock(&dev->lock);
		if (is_broken)
			break;
		blk_fail_parked(dev, false);
	}
	link_down(dev);
}

int blk_link_main(void *of)
{
	struct blk_device *dev = of;
	unsigned int wait = dev->settings.backoff;

	allow_signal(SIGINT);
	while (!kthread_should_stop()) {
		unsigned long until;
		bool was_ready;

		link_try(dev);
		mutex_lock(&dev->lock);
		was_ready = time_before(jiffies, dev->failing_since + msecs_to_jiffies(link_tick(dev)));
		mutex_unlock(&dev->lock);
		wait = was_ready ? dev->settings.backoff : min(2 * wait, dev->settings.backoff_max);
		until = jiffies + msecs_to_jiffies(wait);
		while (!kthread_should_stop() && time_before(jiffies, until)) {
			blk_fail_parked(dev, false);
			schedule_timeout_interruptible(min_t(long, until - jiffies, msecs_to_jiffies(link_tick(dev))));
			flush_signals(current);
		}
		blk_fail_parked(dev, false);
	}
	blk_fail_parked(dev, true);
	return 0;
}
