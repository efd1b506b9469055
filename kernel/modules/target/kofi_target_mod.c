/*
 * kofi_target.ko: exports a disk to initiators of a fabric (docs/protocol/kofi-blk.md).
 *
 *   insmod kofi_target.ko node=NODE file=PATH        a file or a block device
 *   insmod kofi_target.ko node=NODE memory=64        64 MiB of memory
 *
 * One thread listens and has the connections; /sys/module/kofi_target/parameters/listening says whether it does.
 */
#include "krt_shim.h"
#include <linux/kthread.h>
#include <linux/wait.h>
#include "kofi_target.h"

static char *provider = "";
module_param(provider, charp, 0444);
MODULE_PARM_DESC(provider, "the provider; any if it is empty");
static char *node = "kofi_target";
module_param(node, charp, 0444);
MODULE_PARM_DESC(node, "the node to listen at");
static int service = KOFI_BLK_SERVICE;
module_param(service, int, 0444);
MODULE_PARM_DESC(service, "the service at the node");
static char *file = "";
module_param(file, charp, 0444);
MODULE_PARM_DESC(file, "the file or block device to export");
static unsigned int memory;
module_param(memory, uint, 0444);
MODULE_PARM_DESC(memory, "MiB of memory to export instead");
static bool read_only;
module_param(read_only, bool, 0444);
MODULE_PARM_DESC(read_only, "refuse writes");
static unsigned int block = 512;
module_param(block, uint, 0444);
MODULE_PARM_DESC(block, "size of a block, 512 to 4096");
static unsigned int depth = 128;
module_param(depth, uint, 0444);
MODULE_PARM_DESC(depth, "most requests under way on a connection, up to 1024");
static unsigned int longest = 128 << 10;
module_param(longest, uint, 0444);
MODULE_PARM_DESC(longest, "longest read or write in bytes, a power of two, 4096 to 1048576");
static unsigned int inline_data = 4096;
module_param(inline_data, uint, 0444);
MODULE_PARM_DESC(inline_data, "most bytes of data that a write's request may carry, up to 16384");
static unsigned int connections = 8;
module_param(connections, uint, 0444);
MODULE_PARM_DESC(connections, "most connections at a time, up to 64");
bool target_mute;
module_param_named(mute, target_mute, bool, 0644);
MODULE_PARM_DESC(mute, "do not answer requests, for tests of time limits");

static unsigned int fails;
module_param(fails, uint, 0644);
MODULE_PARM_DESC(fails, "how many connections are refused as if there were no memory, for tests");

#define SESSIONS 64

static struct target_disk disk;
static struct target_fabric on;
static struct fid_pep *pep;
static struct target_session *sessions[SESSIONS];
static struct task_struct *thread;
static bool listening = true;
/* Whether the thread listens, and what waits until it does not. */
static bool is_up;
static DECLARE_WAIT_QUEUE_HEAD(went_down);

/* An event with the data of the peer. */
union target_event {
	struct fi_eq_cm_entry cm;
	u8 bytes[sizeof(struct fi_eq_cm_entry) + KOFI_BLK_HANDSHAKE];
};

static int listening_set(const char *text, const struct kernel_param *param)
{
	int status = param_set_bool(text, param);

	if (status || !thread)
		return status;
	/* The thread may wait for an event. */
	send_sig(SIGINT, thread, 1);
	if (listening)
		return 0;
	/* So that no connection outlives a 0, however soon a 1 follows. */
	return wait_event_killable(went_down, !READ_ONCE(is_up));
}

static const struct kernel_param_ops listening_ops = {
	.set = listening_set,
	.get = param_get_bool,
};
module_param_cb(listening, &listening_ops, &listening, 0644);
MODULE_PARM_DESC(listening, "listen; when this becomes 0, all connections are ended at once");

static int target_listen(void)
{
	int status = fi_passive_ep(on.fabric, on.info, &pep, NULL);

	if (!status)
		status = fi_pep_bind(pep, &on.eq->fid, 0);
	if (!status)
		status = fi_listen(pep);
	if (status && pep) {
		fi_close(&pep->fid);
		pep = NULL;
	}
	return status;
}

static void target_close(int at)
{
	target_session_close(sessions[at]);
	sessions[at] = NULL;
}

static void target_silence(void)
{
	int at;

	if (pep)
		WARN_ON(fi_close(&pep->fid));
	pep = NULL;
	for (at = 0; at < SESSIONS; at++)
		if (sessions[at])
			target_close(at);
}

static void target_refuse(struct fi_info *request, int reason)
{
	u8 refusal[KOFI_BLK_REFUSAL];

	kofi_target_rs_refusal(reason, refusal);
	fi_reject(pep, request->handle, refusal, sizeof(refusal));
}

/* Finds a place for a connection of an initiator, whose earlier one is ended first. */
static int target_place(const u8 *initiator)
{
	unsigned int at, place = connections;

	for (at = 0; at < connections; at++) {
		if (sessions[at] && target_session_is(sessions[at], initiator))
			target_close(at);
		if (!sessions[at])
			place = min(place, at);
	}
	return place < connections ? place : -ENOSPC;
}

static void target_asked(struct fi_info *request, const u8 *data, size_t len)
{
	struct kofi_blk_disk about = disk.about;
	struct target_session *session = ERR_PTR(-ENOMEM);
	bool is_taken = false;
	u8 initiator[16];
	int reason, place;

	reason = kofi_target_rs_hello(data, len, &about, initiator);
	place = reason ? -EPROTO : target_place(initiator);
	if (place < 0) {
		target_refuse(request, reason ?: KOFI_BLK_REASON_FULL);
		return;
	}
	if (fails)
		fails--;
	else
		session = target_session_open(&on, &disk, request, &about, initiator, &is_taken);
	if (IS_ERR(session)) {
		pr_info("kofi_target: a connection fails (%ld)\n", PTR_ERR(session));
		/* One that no endpoint has taken would wait here, and its initiator for its time limit. */
		if (!is_taken)
			target_refuse(request, KOFI_BLK_REASON_FULL);
		return;
	}
	sessions[place] = session;
}

static void target_ended(const struct fid *fid)
{
	int at;

	for (at = 0; at < SESSIONS; at++)
		if (sessions[at] && target_session_has(sessions[at], fid))
			target_close(at);
}

static void target_read(void)
{
	union target_event event;
	struct fi_eq_err_entry error = {};
	uint32_t kind = 0;
	ssize_t size = fi_eq_sread(on.eq, &kind, &event, sizeof(event), 1000, 0);

	if (size == -FI_EINTR) {
		flush_signals(current);
	} else if (size == -FI_EAVAIL) {
		if (fi_eq_error(on.eq, &error, 0) > 0)
			target_ended(error.fid);
	} else if (size >= (ssize_t)sizeof(event.cm) && kind == FI_CONNREQ) {
		target_asked(event.cm.info, event.cm.data, size - sizeof(event.cm));
		fi_freeinfo(event.cm.info);
	} else if (size >= (ssize_t)sizeof(event.cm) && kind == FI_SHUTDOWN) {
		target_ended(event.cm.fid);
	}
}

/* Closes what has failed. */
static void target_tidy(void)
{
	int at;

	for (at = 0; at < SESSIONS; at++)
		if (sessions[at] && target_session_is_ending(sessions[at]))
			target_close(at);
}

static int target_main(void *unused)
{
	allow_signal(SIGINT);
	while (!kthread_should_stop()) {
		int status = 0;

		if (READ_ONCE(listening) && !pep)
			status = target_listen();
		else if (!READ_ONCE(listening) && pep)
			target_silence();
		WRITE_ONCE(is_up, pep);
		wake_up(&went_down);
		if (status)
			pr_err("kofi_target: cannot listen at %s (%d)\n", node, status);
		target_read();
		target_tidy();
	}
	target_silence();
	WRITE_ONCE(is_up, false);
	wake_up(&went_down);
	return 0;
}

static int target_open_fabric(void)
{
	struct fi_eq_attr eq = { .size = 1024, .wait_obj = FI_WAIT_UNSPEC };
	struct fi_info *hints = fi_allocinfo();
	int status;

	if (!hints)
		return -ENOMEM;
	hints->ep_attr->type = FI_EP_MSG;
	hints->caps = FI_MSG | FI_RMA;
	hints->mode = FI_RX_CQ_DATA;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ALLOCATED;
	hints->tx_attr->inject_size = KOFI_BLK_RESPONSE;
	hints->fabric_attr->prov_name = *provider ? provider : NULL;
	status = fi_getinfo(KOFI_VERSION, node, service, FI_SOURCE, hints, &on.info);
	hints->fabric_attr->prov_name = NULL;
	fi_freeinfo(hints);
	if (!status)
		status = fi_fabric(on.info->fabric_attr, &on.fabric, NULL);
	if (!status)
		status = fi_eq_open(on.fabric, &eq, &on.eq, NULL);
	if (!status)
		status = fi_domain(on.fabric, on.info, &on.domain, NULL);
	return status;
}

static void target_release(void)
{
	if (on.domain)
		WARN_ON(fi_close(&on.domain->fid));
	if (on.eq)
		WARN_ON(fi_close(&on.eq->fid));
	if (on.fabric)
		WARN_ON(fi_close(&on.fabric->fid));
	if (on.info)
		fi_freeinfo(on.info);
	if (on.workers)
		destroy_workqueue(on.workers);
	target_disk_close(&disk);
}

static int __init kofi_target_init(void)
{
	int status = kofi_target_rs_init(sizeof(struct kofi_blk_disk), sizeof(struct kofi_blk_order));

	if (status || !connections || connections > SESSIONS)
		return status ?: -EINVAL;
	disk.about.longest = longest;
	disk.about.inline_data = min(inline_data, longest);
	on.workers = alloc_workqueue("kofi_target", WQ_MEM_RECLAIM, 0);
	status = on.workers ? target_open_fabric() : -ENOMEM;
	if (!status) {
		/*
		 * A slot has at most two operations under way: the answer to a request, and the access for the next one; where reads are answered
		 * together with their data that answer, too. A post that finds the queue full is made again.
		 */
		disk.about.depth = min3(depth, (u32)on.info->tx_attr->size / 2, (u32)on.info->rx_attr->size / 2);
		status = target_disk_open(&disk, file, memory, read_only, block);
	}
	/* Bound before the module is there, so that initiators find it. */
	if (!status)
		status = target_listen();
	if (!status) {
		struct task_struct *started = kthread_run(target_main, NULL, "kofi_target");

		status = PTR_ERR_OR_ZERO(started);
		thread = status ? NULL : started;
	}
	if (!status)
		return 0;
	target_silence();
	target_release();
	return status;
}

static void __exit kofi_target_exit(void)
{
	struct task_struct *started = thread;

	/* A write of the parameter finds no thread any more. */
	kernel_param_lock(THIS_MODULE);
	thread = NULL;
	kernel_param_unlock(THIS_MODULE);
	send_sig(SIGINT, started, 1);
	kthread_stop(started);
	target_release();
}

module_init(kofi_target_init);
module_exit(kofi_target_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Exports a disk over a kOFI fabric");
