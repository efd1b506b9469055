/*
 * kofi_pingpong.ko: two endpoints with a connection send a message to and fro, and check its data. Both may be in this kernel, or one
 * of them elsewhere:
 *
 *   insmod kofi_pingpong.ko listen=a connect=a             both ends here
 *   insmod kofi_pingpong.ko listen=NODE service=N          waits for a peer
 *   insmod kofi_pingpong.ko connect=NODE service=N         asks one
 *
 * What came of it is in /sys/kernel/debug/kofi_pingpong.
 */
#include <linux/completion.h>
#include <linux/debugfs.h>
#include <linux/kthread.h>
#include <linux/slab.h>
#include <kofi.h>

static char *provider = "";
module_param(provider, charp, 0444);
MODULE_PARM_DESC(provider, "the provider; any if it is empty");
static char *listen = "";
module_param(listen, charp, 0444);
MODULE_PARM_DESC(listen, "the node to wait at for a connection");
static char *connect = "";
module_param(connect, charp, 0444);
MODULE_PARM_DESC(connect, "the node to connect to");
static int service = 47592;
module_param(service, int, 0444);
MODULE_PARM_DESC(service, "the service at the node");
static unsigned int size = 64;
module_param(size, uint, 0444);
MODULE_PARM_DESC(size, "bytes of the message");
static unsigned int rounds = 1000;
module_param(rounds, uint, 0444);
MODULE_PARM_DESC(rounds, "how often it goes to and fro");
static int timeout = 10000;
module_param(timeout, int, 0444);
MODULE_PARM_DESC(timeout, "milliseconds after which a step is given up");

/* One end. */
struct end {
	bool listens;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct fid_pep *pep;
	struct fid_ep *ep;
	u8 *in, *out;
	int status;
	unsigned int played;
	u64 ns;
	struct completion ready, ended;
};

static struct end ends[2];
static struct dentry *result;

static int end_open(struct end *end)
{
	struct fi_eq_attr eq = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_UNSPEC };
	struct fi_info *hints = fi_allocinfo();
	int status;

	end->in = kvzalloc(size, GFP_KERNEL);
	end->out = kvzalloc(size, GFP_KERNEL);
	if (!hints || !end->in || !end->out)
		return -ENOMEM;
	hints->ep_attr->type = FI_EP_MSG;
	hints->caps = FI_MSG;
	hints->fabric_attr->prov_name = *provider ? provider : NULL;
	status = fi_getinfo(KOFI_VERSION, end->listens ? listen : connect, service, end->listens ? FI_SOURCE : 0, hints,
			    &end->info);
	hints->fabric_attr->prov_name = NULL;
	fi_freeinfo(hints);
	if (!status)
		status = fi_fabric(end->info->fabric_attr, &end->fabric, NULL);
	if (!status)
		status = fi_eq_open(end->fabric, &eq, &end->eq, NULL);
	if (!status)
		status = fi_domain(end->fabric, end->info, &end->domain, NULL);
	if (!status)
		status = fi_cq_open(end->domain, &cq, &end->cq, NULL);
	return status;
}

static int end_event(struct end *end, uint32_t wanted, struct fi_eq_cm_entry *entry)
{
	struct fi_eq_err_entry error = {};
	uint32_t event = 0;
	ssize_t read = fi_eq_sread(end->eq, &event, entry, sizeof(*entry), timeout, 0);

	if (read == -FI_EAVAIL)
		return fi_eq_error(end->eq, &error, 0) > 0 ? -error.err : -EIO;
	if (read < 0)
		return read == -FI_EAGAIN ? -ETIMEDOUT : read;
	return event == wanted ? 0 : -EPROTO;
}

static int end_endpoint(struct end *end, struct fi_info *info)
{
	int status = fi_endpoint(end->domain, info, &end->ep, NULL);

	if (!status)
		status = fi_ep_bind(end->ep, &end->eq->fid, 0);
	if (!status)
		status = fi_ep_bind(end->ep, &end->cq->fid, FI_SEND | FI_RECV);
	return status;
}

static int end_meet(struct end *end)
{
	struct fi_eq_cm_entry entry = {};
	int status;

	if (end->listens) {
		status = fi_passive_ep(end->fabric, end->info, &end->pep, NULL);
		if (!status)
			status = fi_pep_bind(end->pep, &end->eq->fid, 0);
		if (!status)
			status = fi_listen(end->pep);
		complete(&end->ready);
		if (!status)
			status = end_event(end, FI_CONNREQ, &entry);
		if (!status)
			status = end_endpoint(end, entry.info);
		if (!status)
			status = fi_accept(end->ep, NULL, 0);
		fi_freeinfo(entry.info);
	} else {
		status = end_endpoint(end, end->info);
		if (!status)
			status = fi_connect(end->ep, end->info->dest_addr, NULL, 0);
	}
	return status ?: end_event(end, FI_CONNECTED, &entry);
}

/* Waits for a send and a receive, in whatever order. */
static int end_wait(struct end *end, int count)
{
	struct fi_cq_err_entry error = {};
	struct fi_cq_msg_entry entry;
	ssize_t read;

	while (count-- > 0) {
		read = fi_cq_sread(end->cq, &entry, 1, NULL, timeout);
		if (read == -FI_EAVAIL)
			return fi_cq_error(end->cq, &error, 0) > 0 ? -error.err : -EIO;
		if (read != 1)
			return read == -FI_EAGAIN ? -ETIMEDOUT : read;
		if (entry.flags & FI_RECV && entry.len != size)
			return -EMSGSIZE;
	}
	return 0;
}

static int end_round(struct end *end, unsigned int round)
{
	int status;

	/* The side that connects has posted its receive before it sends; the other one sends what it received. */
	if (end->listens) {
		status = fi_recv(end->ep, end->in, size, NULL, 0, NULL) ?: end_wait(end, 1);
		return status ?: fi_send(end->ep, end->in, size, NULL, 0, NULL) ?: end_wait(end, 1);
	}
	memset(end->out, round, size);
	memset(end->in, ~round, size);
	status = fi_recv(end->ep, end->in, size, NULL, 0, NULL);
	if (!status)
		status = fi_send(end->ep, end->out, size, NULL, 0, NULL);
	if (!status)
		status = end_wait(end, 2);
	if (!status && memcmp(end->in, end->out, size))
		status = -EBADMSG;
	return status;
}

static void end_close(struct end *end)
{
	if (end->ep)
		fi_close(&end->ep->fid);
	if (end->pep)
		fi_close(&end->pep->fid);
	if (end->cq)
		fi_close(&end->cq->fid);
	if (end->domain)
		fi_close(&end->domain->fid);
	if (end->eq)
		fi_close(&end->eq->fid);
	if (end->fabric)
		fi_close(&end->fabric->fid);
	fi_freeinfo(end->info);
	kvfree(end->in);
	kvfree(end->out);
}

static int end_main(void *of)
{
	struct end *end = of;
	ktime_t begin;

	end->status = end_open(end) ?: end_meet(end);
	complete(&end->ready);
	begin = ktime_get();
	while (!end->status && end->played < rounds) {
		end->status = end_round(end, end->played);
		end->played += !end->status;
	}
	end->ns = ktime_to_ns(ktime_sub(ktime_get(), begin));
	/*
	 * The peer may still read its last completion: both close when the module goes, which it does after this, when no code of
	 * its runs here any more.
	 */
	kthread_complete_and_exit(&end->ended, 0);
}

static int result_show(struct seq_file *file, void *unused)
{
	int at;

	for (at = 0; at < 2; at++) {
		struct end *end = &ends[at];

		if (*(at ? connect : listen))
			seq_printf(file, "%s %d rounds %u of %u size %u ns %llu\n", at ? "connect" : "listen", end->status,
				   end->played, rounds, size, end->ns);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(result);

/* Starts an end; the one that listens is ready for the other one when this returns. */
static void end_start(struct end *end, bool listens)
{
	struct task_struct *thread;

	end->listens = listens;
	init_completion(&end->ready);
	init_completion(&end->ended);
	thread = kthread_run(end_main, end, "kofi_%s", listens ? "listen" : "connect");
	if (IS_ERR(thread)) {
		end->status = PTR_ERR(thread);
		complete(&end->ended);
		return;
	}
	wait_for_completion(&end->ready);
}

static int __init kofi_pingpong_init(void)
{
	if ((!*listen && !*connect) || !size)
		return -EINVAL;
	result = debugfs_create_file("kofi_pingpong", 0444, NULL, NULL, &result_fops);
	if (*listen)
		end_start(&ends[0], true);
	if (*connect)
		end_start(&ends[1], false);
	return 0;
}

static void __exit kofi_pingpong_exit(void)
{
	int at;

	for (at = 0; at < 2; at++)
		if (*(at ? connect : listen))
			wait_for_completion(&ends[at].ended);
	for (at = 0; at < 2; at++)
		end_close(&ends[at]);
	debugfs_remove(result);
}

module_init(kofi_pingpong_init);
module_exit(kofi_pingpong_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Ping-pong over a kOFI connection");
