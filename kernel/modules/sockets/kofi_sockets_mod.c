/*
 * kofi_sockets.ko: two threads send a message to and fro over kernel sockets alone, as a measure for kofi_pingpong.ko: one line in the
 * log, when it is loaded.
 */
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <net/sock.h>
#include <net/tcp.h>

static unsigned int size = 64;
module_param(size, uint, 0444);
MODULE_PARM_DESC(size, "bytes of the message");
static unsigned int rounds = 1000;
module_param(rounds, uint, 0444);
MODULE_PARM_DESC(rounds, "how often it goes to and fro");

struct end {
	struct socket *sock;
	bool begins, plays;
	int status;
	struct completion ended;
};

static int play_one(struct end *end, void *bytes, bool sends)
{
	struct kvec piece = { bytes, size };
	struct msghdr msg = { .msg_flags = sends ? MSG_NOSIGNAL : MSG_WAITALL };
	int count = sends ? kernel_sendmsg(end->sock, &msg, &piece, 1, size) :
			    kernel_recvmsg(end->sock, &msg, &piece, 1, size, MSG_WAITALL);

	return count == size ? 0 : count < 0 ? count : -EIO;
}

static int play(void *of)
{
	struct end *end = of;
	u8 *out = kvzalloc(size, GFP_KERNEL), *in = kvzalloc(size, GFP_KERNEL);
	unsigned int round;

	end->status = out && in ? 0 : -ENOMEM;
	for (round = 0; round < rounds && !end->status; round++) {
		if (!end->begins) {
			end->status = play_one(end, in, false) ?: play_one(end, in, true);
			continue;
		}
		memset(out, round, size);
		memset(in, ~round, size);
		end->status = play_one(end, out, true) ?: play_one(end, in, false);
		if (!end->status && memcmp(in, out, size))
			end->status = -EBADMSG;
	}
	kvfree(in);
	kvfree(out);
	kthread_complete_and_exit(&end->ended, 0);
}

/* Connects two sockets over the loopback interface. */
static int meet(struct end ends[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct socket *listener;
	int status = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &listener);

	if (status)
		return status;
	status = kernel_bind(listener, (struct sockaddr *)&at, sizeof(at)) ?: kernel_listen(listener, 1);
	if (!status)
		status = min(kernel_getsockname(listener, (struct sockaddr *)&at), 0);
	if (!status)
		status = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &ends[0].sock);
	if (!status)
		status = kernel_connect(ends[0].sock, (struct sockaddr *)&at, sizeof(at), 0);
	if (!status)
		status = kernel_accept(listener, &ends[1].sock, 0);
	sock_release(listener);
	return status;
}

static int __init kofi_sockets_init(void)
{
	static struct end ends[2];
	ktime_t begin;
	int at, status = size ? meet(ends) : -EINVAL;

	ends[0].begins = true;
	begin = ktime_get();
	for (at = 0; at < 2 && !status; at++) {
		struct task_struct *thread;

		/* As connections of kofi_tcp. */
		tcp_sock_set_nodelay(ends[at].sock->sk);
		init_completion(&ends[at].ended);
		thread = kthread_run(play, &ends[at], "kofi_sockets");
		status = PTR_ERR_OR_ZERO(thread);
		ends[at].plays = !status;
	}
	/* Where one of them could not begin, the other one sees the end of its connection. */
	if (status && ends[0].sock)
		kernel_sock_shutdown(ends[0].sock, SHUT_RDWR);
	for (at = 0; at < 2; at++)
		if (ends[at].plays)
			wait_for_completion(&ends[at].ended);
	status = status ?: ends[0].status ?: ends[1].status;
	if (!status)
		pr_info("kofi_sockets: rounds %u size %u ns %llu\n", rounds, size, ktime_to_ns(ktime_sub(ktime_get(), begin)));
	for (at = 0; at < 2; at++)
		if (ends[at].sock)
			sock_release(ends[at].sock);
	return status;
}

static void __exit kofi_sockets_exit(void)
{
}

module_init(kofi_sockets_init);
module_exit(kofi_sockets_exit);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Ping-pong over kernel sockets, to measure by");
