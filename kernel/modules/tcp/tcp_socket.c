/* Sockets of kofi_tcp.ko as its Rust code sees them: calls that never wait, and a task that is queued when there is something to do. */
#include <linux/inetdevice.h>
#include <linux/net.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <net/sock.h>
#include <net/tcp.h>
#include "tcp_socket.h"

struct ktcp {
	struct socket *sock;
	/* What is queued when something has happened; read under sk_callback_lock. */
	const void *owner;
	atomic_t happened;
	/* The callbacks that TCP has by itself. */
	void (*data_ready)(struct sock *sk);
	void (*write_space)(struct sock *sk);
	void (*state_change)(struct sock *sk);
	void (*error_report)(struct sock *sk);
};

/* Called by TCP, also in interrupts. Sockets that were not accepted yet have the listener's callbacks, and no user data. */
static void ktcp_happened(struct sock *sk)
{
	struct ktcp *of;

	read_lock_bh(&sk->sk_callback_lock);
	rcu_read_lock();
	of = rcu_dereference_sk_user_data(sk);
	if (of) {
		atomic_set_release(&of->happened, 1);
		kofi_tcp_rs_wake(of->owner);
	}
	rcu_read_unlock();
	read_unlock_bh(&sk->sk_callback_lock);
}

static void ktcp_write_space(struct sock *sk)
{
	if (!sk_stream_is_writeable(sk))
		return;
	if (sk->sk_socket)
		clear_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
	ktcp_happened(sk);
}

/* `like` has the callbacks of its own that a socket which it has accepted began with. */
static struct ktcp *ktcp_new(struct socket *sock, const void *owner, const struct ktcp *like)
{
	struct ktcp *of = kzalloc(sizeof(*of), GFP_KERNEL | __GFP_NOFAIL);
	struct sock *sk = sock->sk;

	of->sock = sock;
	of->owner = owner;
	atomic_set(&of->happened, 1);
	/* A disk may lie on top: memory is not got by writing to it. */
	sk->sk_allocation = GFP_NOIO;
	write_lock_bh(&sk->sk_callback_lock);
	of->data_ready = like ? like->data_ready : sk->sk_data_ready;
	of->write_space = like ? like->write_space : sk->sk_write_space;
	of->state_change = like ? like->state_change : sk->sk_state_change;
	of->error_report = like ? like->error_report : sk->sk_error_report;
	__rcu_assign_sk_user_data_with_flags(sk, of, SK_USER_DATA_NOCOPY);
	sk->sk_data_ready = ktcp_happened;
	sk->sk_write_space = ktcp_write_space;
	sk->sk_state_change = ktcp_happened;
	sk->sk_error_report = ktcp_happened;
	write_unlock_bh(&sk->sk_callback_lock);
	return of;
}

/*
 * Has a socket hold its network namespace, as those of programs do and those that a kernel makes do not. The kernel stops the timers of a socket that
 * does not when it is closed: what was lost on the way, data or the end, would never be sent again, and the socket would wait for its
 * acknowledgement for ever. Sockets that it accepts inherit this.
 */
static void ktcp_hold_net(struct sock *sk)
{
	struct net *net = sock_net(sk);

	sk->sk_net_refcnt = 1;
	get_net_track(net, &sk->ns_tracker, GFP_KERNEL);
	sock_inuse_add(net, 1);
}

struct ktcp *ktcp_open(const void *owner, int *status)
{
	struct socket *sock;

	*status = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (*status)
		return NULL;
	ktcp_hold_net(sock->sk);
	return ktcp_new(sock, owner, NULL);
}

void ktcp_close(struct ktcp *of)
{
	struct sock *sk = of->sock->sk;

	write_lock_bh(&sk->sk_callback_lock);
	rcu_assign_sk_user_data(sk, NULL);
	sk->sk_data_ready = of->data_ready;
	sk->sk_write_space = of->write_space;
	sk->sk_state_change = of->state_change;
	sk->sk_error_report = of->error_report;
	write_unlock_bh(&sk->sk_callback_lock);
	sock_release(of->sock);
	kfree(of);
}

void ktcp_set_owner(struct ktcp *of, const void *owner)
{
	struct sock *sk = of->sock->sk;

	write_lock_bh(&sk->sk_callback_lock);
	of->owner = owner;
	write_unlock_bh(&sk->sk_callback_lock);
	atomic_set(&of->happened, 1);
	kofi_tcp_rs_wake(owner);
}

bool ktcp_take_happened(struct ktcp *of)
{
	return atomic_read(&of->happened) && atomic_xchg(&of->happened, 0);
}

void ktcp_let_happen(struct ktcp *of)
{
	atomic_set(&of->happened, 1);
}

static struct sockaddr_in ktcp_address(u32 host, u16 port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(host),
		.sin_port = htons(port),
	};
}

int ktcp_bind(struct ktcp *of, u32 host, u16 port)
{
	struct sockaddr_in at = ktcp_address(host, port);
	struct sock *sk = of->sock->sk;

	if (port) {
		/* Connections of an earlier owner may linger. */
		sock_set_reuseaddr(sk);
	}
	return kernel_bind(of->sock, (struct sockaddr *)&at, sizeof(at));
}

int ktcp_listen(struct ktcp *of, int backlog)
{
	int status = kernel_listen(of->sock, backlog);

	/* From now on, so that a later owner gets the address although connections linger. */
	if (!status)
		sock_set_reuseaddr(of->sock->sk);
	return status;
}

int ktcp_connect(struct ktcp *of, u32 host, u16 port)
{
	struct sockaddr_in at = ktcp_address(host, port);

	return kernel_connect(of->sock, (struct sockaddr *)&at, sizeof(at), O_NONBLOCK);
}

struct ktcp *ktcp_accept(struct ktcp *of, const void *owner, int *status)
{
	struct socket *sock;

	*status = kernel_accept(of->sock, &sock, O_NONBLOCK);
	return *status ? NULL : ktcp_new(sock, owner, of);
}

static int ktcp_read_name(int len, const struct sockaddr_in *at, u32 *host, u16 *port)
{
	if (len < 0)
		return len;
	*host = ntohl(at->sin_addr.s_addr);
	*port = ntohs(at->sin_port);
	return 0;
}

int ktcp_name(struct ktcp *of, u32 *host, u16 *port)
{
	struct sockaddr_in at = {};

	return ktcp_read_name(kernel_getsockname(of->sock, (struct sockaddr *)&at), &at, host, port);
}

int ktcp_peer(struct ktcp *of, u32 *host, u16 *port)
{
	struct sockaddr_in at = {};

	return ktcp_read_name(kernel_getpeername(of->sock, (struct sockaddr *)&at), &at, host, port);
}

void ktcp_prepare(struct ktcp *of, int silent_s)
{
	struct sock *sk = of->sock->sk;

	tcp_sock_set_nodelay(sk);
	sock_set_keepalive(sk);
	tcp_sock_set_keepidle(sk, max(silent_s / 2, 1));
	tcp_sock_set_keepintvl(sk, max(silent_s / 8, 1));
	tcp_sock_set_keepcnt(sk, 4);
}

/* Returns zero when the socket is connected, 1 while it is not, or a negative error number. */
int ktcp_connected(struct ktcp *of)
{
	struct sock *sk = of->sock->sk;
	int error = sock_error(sk);

	if (error)
		return error;
	switch (READ_ONCE(sk->sk_state)) {
	case TCP_SYN_SENT:
	case TCP_SYN_RECV:
		return 1;
	case TCP_CLOSE:
		return -ECONNRESET;
	default:
		return 0;
	}
}

ssize_t ktcp_send(struct ktcp *of, struct kvec *pieces, size_t count, size_t len)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct sock *sk = of->sock->sk;
	ssize_t status;

	lock_sock(sk);
	status = kernel_sendmsg_locked(sk, &msg, pieces, count, len);
	release_sock(sk);
	return status;
}

/* Where a read puts what it takes: pieces of which some are full. */
struct ktcp_sink {
	struct sock *from;
	struct kvec *at;
	size_t left;
};

/* Called by TCP with data in its order; returns how much was taken, or an error if that is nothing. */
static int ktcp_take(read_descriptor_t *desc, struct sk_buff *skb, unsigned int offset, size_t len)
{
	struct ktcp_sink *sink = desc->arg.data;
	size_t taken = 0;

	while (taken < len && sink->left) {
		struct kvec *at = sink->at;
		size_t part = min3(len - taken, at->iov_len, sink->left);

		if (skb_copy_bits(skb, offset + taken, at->iov_base, part))
			return taken ?: -EFAULT;
		at->iov_base += part;
		at->iov_len -= part;
		sink->left -= part;
		taken += part;
		if (!at->iov_len)
			sink->at++;
	}
	/* Behind the last one TCP need not look. */
	desc->count = skb_queue_is_last(&sink->from->sk_receive_queue, skb) ? 0 : sink->left;
	return taken;
}

/* Returns what a read gets that finds no data. */
static ssize_t ktcp_nothing(struct sock *sk)
{
	int error = sock_flag(sk, SOCK_DONE) ? 0 : sock_error(sk);

	if (error)
		return error;
	if (sk->sk_shutdown & RCV_SHUTDOWN || sock_flag(sk, SOCK_DONE))
		return 0;
	return sk->sk_state == TCP_CLOSE ? -ENOTCONN : -EAGAIN;
}

/* Returns whether what comes next is urgent data: tcp_read_sock does not go past it, and no peer has a use for it. */
static bool ktcp_is_urgent(struct sock *sk)
{
	return tcp_sk(sk)->urg_data && tcp_sk(sk)->urg_seq == tcp_sk(sk)->copied_seq;
}

/* The pieces are used up by this. Without the steps of recvmsg, which take as long as to copy some KiB. */
ssize_t ktcp_recv(struct ktcp *of, struct kvec *pieces, size_t count, size_t len)
{
	struct sock *sk = of->sock->sk;
	struct ktcp_sink sink = { .from = sk, .at = pieces, .left = len };
	read_descriptor_t desc = { .arg.data = &sink, .count = len };
	ssize_t status;

	lock_sock(sk);
	status = tcp_read_sock(sk, &desc, ktcp_take);
	/* What is before it ends with the connection: a reader that got some would wait for more. */
	if (ktcp_is_urgent(sk))
		status = -EPROTO;
	else if (!status)
		status = ktcp_nothing(sk);
	release_sock(sk);
	return status;
}

void ktcp_shut_writing(struct ktcp *of)
{
	kernel_sock_shutdown(of->sock, SHUT_WR);
}

bool ktcp_is_closed_by_peer(struct ktcp *of)
{
	struct sock *sk = of->sock->sk;

	return READ_ONCE(sk->sk_shutdown) & RCV_SHUTDOWN || READ_ONCE(sk->sk_state) == TCP_CLOSE;
}

size_t ktcp_unread(struct ktcp *of)
{
	struct sock *sk = of->sock->sk;
	int count;

	lock_sock(sk);
	count = tcp_inq(sk);
	release_sock(sk);
	return max(count, 0);
}

struct ktcp_timer {
	struct timer_list timer;
	const void *owner;
};

static void ktcp_timer_fires(struct timer_list *timer)
{
	struct ktcp_timer *of = from_timer(of, timer, timer);

	kofi_tcp_rs_wake(of->owner);
}

struct ktcp_timer *ktcp_timer_new(const void *owner)
{
	struct ktcp_timer *of = kzalloc(sizeof(*of), GFP_KERNEL | __GFP_NOFAIL);

	timer_setup(&of->timer, ktcp_timer_fires, 0);
	of->owner = owner;
	return of;
}

void ktcp_timer_set(struct ktcp_timer *of, u32 ms)
{
	mod_timer(&of->timer, jiffies + msecs_to_jiffies(ms) + 1);
}

void ktcp_timer_free(struct ktcp_timer *of)
{
	del_timer_sync(&of->timer);
	kfree(of);
}

u64 ktcp_now(void)
{
	return ktime_get_ns();
}

u32 ktcp_random(void)
{
	return get_random_u32();
}

/* Returns an address of this host at which others reach it; that of the loopback interface when there is no other; or zero. */
u32 ktcp_host(void)
{
	const struct in_ifaddr *address;
	struct in_device *of_device;
	struct net_device *device;
	u32 best = 0;

	rcu_read_lock();
	for_each_netdev_rcu(&init_net, device) {
		of_device = __in_dev_get_rcu(device);
		if (!of_device || !(device->flags & IFF_UP))
			continue;
		in_dev_for_each_ifa_rcu(address, of_device) {
			if (!best || ipv4_is_loopback(htonl(best)))
				best = ntohl(address->ifa_local);
		}
	}
	rcu_read_unlock();
	return best;
}

/* What peers cause goes to the log at a bounded rate. */
void ktcp_warn(const char *text, size_t len)
{
	if (net_ratelimit())
		pr_warn("kofi_tcp: %.*s\n", (int)len, text);
}
