/*
 * kofi_blk.ko: a disk of a target as /dev/kofi0 (docs/protocol/kofi-blk.md).
 *
 *   insmod kofi_blk.ko node=NODE
 *
 * Loading waits for the target up to the time limit. After that, while there is no connection, requests wait for one until they fail.
 */
#include "krt_shim.h"
#include <linux/kthread.h>
#include <linux/random.h>
#include "kofi_blk_mod.h"

static char *provider = "";
module_param(provider, charp, 0444);
MODULE_PARM_DESC(provider, "the provider; any if it is empty");
static char *node = "kofi_target";
module_param(node, charp, 0444);
MODULE_PARM_DESC(node, "the node of the target");
static int service = KOFI_BLK_SERVICE;
module_param(service, int, 0444);
MODULE_PARM_DESC(service, "the service at the node");
static unsigned int depth = 64;
module_param(depth, uint, 0444);
MODULE_PARM_DESC(depth, "most requests under way, 1 to 1024");
static unsigned int longest = 128 << 10;
module_param(longest, uint, 0444);
MODULE_PARM_DESC(longest, "longest read or write in bytes, a power of two, 4096 to 1048576");
static unsigned int timeout = 10000;
module_param(timeout, uint, 0444);
MODULE_PARM_DESC(timeout, "milliseconds after which a request that is not answered fails, 100 to 600000");
static unsigned int backoff = 100;
module_param(backoff, uint, 0444);
MODULE_PARM_DESC(backoff, "milliseconds before it connects again, doubled with each attempt");
static unsigned int backoff_max = 5000;
module_param(backoff_max, uint, 0444);
MODULE_PARM_DESC(backoff_max, "most milliseconds before it connects again");

static struct blk_device device;

/* Waits for the first connection. */
static int blk_wait_ready(struct blk_device *dev)
{
	unsigned long until = jiffies + msecs_to_jiffies(dev->settings.timeout);

	while (time_before(jiffies, until)) {
		bool is_ready;

		mutex_lock(&dev->lock);
		is_ready = dev->phase == BLK_READY;
		mutex_unlock(&dev->lock);
		if (is_ready)
			return 0;
		if (schedule_timeout_interruptible(HZ / 20) && signal_pending(current))
			return -EINTR;
	}
	return -ETIMEDOUT;
}

static void blk_stop(struct blk_device *dev)
{
	if (dev->thread) {
		send_sig(SIGINT, dev->thread, 1);
		kthread_stop(dev->thread);
	}
	blk_link_close(dev);
	blk_memory_free(dev);
}

static bool blk_settings_are_meant(void)
{
	return depth && depth <= KOFI_BLK_DEPTH_MAX && is_power_of_2(longest) && longest >= KOFI_BLK_LONGEST_MIN &&
	       longest <= KOFI_BLK_LONGEST_MAX && timeout >= 100 && timeout <= 600000 && backoff && backoff <= backoff_max &&
	       backoff_max <= 600000;
}

static int __init kofi_blk_init(void)
{
	struct blk_device *dev = &device;
	int status = kofi_blk_rs_init(sizeof(struct kofi_blk_disk), sizeof(struct kofi_blk_response));

	if (status || !blk_settings_are_meant())
		return status ?: -EINVAL;
	dev->settings = (struct blk_settings){
		.provider = provider,
		.node = node,
		.service = service,
		.depth = depth,
		.longest = longest,
		.timeout = timeout,
		.backoff = backoff,
		.backoff_max = backoff_max,
	};
	mutex_init(&dev->lock);
	INIT_LIST_HEAD(&dev->sent);
	INIT_LIST_HEAD(&dev->parked);
	get_random_bytes(dev->initiator, sizeof(dev->initiator));
	status = blk_link_open(dev) ?: blk_memory(dev);
	if (!status) {
		struct task_struct *thread = kthread_run(blk_link_main, dev, "kofi_blk");

		status = PTR_ERR_OR_ZERO(thread);
		dev->thread = status ? NULL : thread;
	}
	if (!status)
		status = blk_wait_ready(dev);
	if (!status)
		status = blk_disk_add(dev);
	if (status)
		blk_stop(dev);
	return status;
}

static void __exit kofi_blk_exit(void)
{
	/* What is still written is, or fails in time; then the thread has nothing to end. */
	blk_disk_remove(&device);
	blk_stop(&device);
}

module_init(kofi_blk_init);
module_exit(kofi_blk_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("A block device over a kOFI fabric");
