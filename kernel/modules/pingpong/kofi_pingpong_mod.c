/*
 * kofi_pingpong.ko: two endpoints with a connection throw a message to and fro, and check its data. Both may be in this kernel, or one
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
struct player {
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

static struct player players[2];
static struct dentry *result;

static int player_open(struct player *player)
{
	struct fi_eq_attr eq = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_UNSPEC };
	struct fi_info *hints = fi_allocinfo();
	int status;

	player->in = kvzalloc(size, GFP_KERNEL);
	player->out = kvzalloc(size, GFP_KERNEL);
	if (!hints || !player->in || !player->out)
		return -ENOMEM;
	hints->ep_attr->type = FI_EP_MSG;
	hints->caps = FI_MSG;
	hints->fabric_attr->prov_name = *provider ? provider : NULL;
	status = fi_getinfo(KOFI_VERSION, player->listens ? listen : connect, service, player->listens ? FI_SOURCE : 0, hints,
			    &player->info);
	hints->fabric_attr->prov_name = NULL;
	fi_freeinfo(hints);
	if (!status)
		status = fi_fabric(player->info->fabric_attr, &player->fabric, NULL);
	if (!status)
		status = fi_eq_open(player->fabric, &eq, &player->eq, NULL);
	if (!status)
		status = fi_domain(player->fabric, player->info, &player->domain, NULL);
	if (!status)
		status = fi_cq_open(player->domain, &cq, &player->cq, NULL);
	return status;
}

static int player_event(struct player *player, uint32_t wanted, struct fi_eq_cm_entry *entry)
{
	struct fi_eq_err_entry error = {};
	uint32_t event = 0;
	ssize_t read = fi_eq_sread(player->eq, &event, entry, sizeof(*entry), timeout, 0);

	if (read == -FI_EAVAIL)
		return fi_eq_error(player->eq, &error, 0) > 0 ? -error.err : -EIO;
	if (read < 0)
		return read == -FI_EAGAIN ? -ETIMEDOUT : read;
	return event == wanted ? 0 : -EPROTO;
}

static int player_endpoint(struct player *player, struct fi_info *info)
{
	int status = fi_endpoint(player->domain, info, &player->ep, NULL);

	if (!status)
		status = fi_ep_bind(player->ep, &player->eq->fid, 0);
	if (!status)
		status = fi_ep_bind(player->ep, &player->cq->fid, FI_SEND | FI_RECV);
	return status;
}

static int player_meet(struct player *player)
{
	struct fi_eq_cm_entry entry = {};
	int status;

	if (player->listens) {
		status = fi_passive_ep(player->fabric, player->info, &player->pep, NULL);
		if (!status)
			status = fi_pep_bind(player->pep, &player->eq->fid, 0);
		if (!status)
			status = fi_listen(player->pep);
		complete(&player->ready);
		if (!status)
			status = player_event(player, FI_CONNREQ, &entry);
		if (!status)
			status = player_endpoint(player, entry.info);
		if (!status)
			status = fi_accept(player->ep, NULL, 0);
		fi_freeinfo(entry.info);
	} else {
		status = player_endpoint(player, player->info);
		if (!status)
			status = fi_connect(player->ep, player->info->dest_addr, NULL, 0);
	}
	return status ?: player_event(player, FI_CONNECTED, &entry);
}

/* Waits for a send and a receive, in whatever order. */
static int player_wait(struct player *player, int count)
{
	struct fi_cq_err_entry error = {};
	struct fi_cq_msg_entry entry;
	ssize_t read;

	while (count-- > 0) {
		read = fi_cq_sread(player->cq, &entry, 1, NULL, timeout);
		if (read == -FI_EAVAIL)
			return fi_cq_error(player->cq, &error, 0) > 0 ? -error.err : -EIO;
		if (read != 1)
			return read == -FI_EAGAIN ? -ETIMEDOUT : read;
		if (entry.flags & FI_RECV && entry.len != size)
			return -EMSGSIZE;
	}
	return 0;
}

static int player_round(struct player *player, unsigned int round)
{
	int status;

	/* The side that connects has posted its receive before it sends; the other one sends what it received. */
	if (player->listens) {
		status = fi_recv(player->ep, player->in, size, NULL, 0, NULL) ?: player_wait(player, 1);
		return status ?: fi_send(player->ep, player->in, size, NULL, 0, NULL) ?: player_wait(player, 1);
	}
	memset(player->out, round, size);
	memset(player->in, ~round, size);
	status = fi_recv(player->ep, player->in, size, NULL, 0, NULL);
	if (!status)
		status = fi_send(player->ep, player->out, size, NULL, 0, NULL);
	if (!status)
		status = player_wait(player, 2);
	if (!status && memcmp(player->in, player->out, size))
		status = -EBADMSG;
	return status;
}

static void player_close(struct player *player)
{
	if (player->ep)
		fi_close(&player->ep->fid);
	if (player->pep)
		fi_close(&player->pep->fid);
	if (player->cq)
		fi_close(&player->cq->fid);
	if (player->domain)
		fi_close(&player->domain->fid);
	if (player->eq)
		fi_close(&player->eq->fid);
	if (player->fabric)
		fi_close(&player->fabric->fid);
	fi_freeinfo(player->info);
	kvfree(player->in);
	kvfree(player->out);
}

static int player_main(void *of)
{
	struct player *player = of;
	ktime_t begin;

	player->status = player_open(player) ?: player_meet(player);
	complete(&player->ready);
	begin = ktime_get();
	while (!player->status && player->played < rounds) {
		player->status = player_round(player, player->played);
		player->played += !player->status;
	}
	player->ns = ktime_to_ns(ktime_sub(ktime_get(), begin));
	/*
	 * The peer may still read its last completion: both close when the module goes, which it does after this, when no code of
	 * its runs here any more.
	 */
	kthread_complete_and_exit(&player->ended, 0);
}

static int result_show(struct seq_file *file, void *unused)
{
	int at;

	for (at = 0; at < 2; at++) {
		struct player *player = &players[at];

		if (*(at ? connect : listen))
			seq_printf(file, "%s %d rounds %u of %u size %u ns %llu\n", at ? "connect" : "listen", player->status,
				   player->played, rounds, size, player->ns);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(result);

/* Starts an end; the one that listens is ready for the other one when this returns. */
static void player_start(struct player *player, bool listens)
{
	struct task_struct *thread;

	player->listens = listens;
	init_completion(&player->ready);
	init_completion(&player->ended);
	thread = kthread_run(player_main, player, "kofi_%s", listens ? "listen" : "connect");
	if (IS_ERR(thread)) {
		player->status = PTR_ERR(thread);
		complete(&player->ended);
		return;
	}
	wait_for_completion(&player->ready);
}

static int __init kofi_pingpong_init(void)
{
	if ((!*listen && !*connect) || !size)
		return -EINVAL;
	result = debugfs_create_file("kofi_pingpong", 0444, NULL, NULL, &result_fops);
	if (*listen)
		player_start(&players[0], true);
	if (*connect)
		player_start(&players[1], false);
	return 0;
}

static void __exit kofi_pingpong_exit(void)
{
	int at;

	for (at = 0; at < 2; at++)
		if (*(at ? connect : listen))
			wait_for_completion(&players[at].ended);
	for (at = 0; at < 2; at++)
		player_close(&players[at]);
	debugfs_remove(result);
}

module_init(kofi_pingpong_init);
module_exit(kofi_pingpong_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Ping-pong over a kOFI connection");
