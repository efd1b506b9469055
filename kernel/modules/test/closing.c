/* Endpoints that are closed by what a queue calls. */
#include "kofi_test.h"

/* How often, and how many messages are under way then. */
#define KT_ROUNDS 8
#define KT_UNDER_WAY 16

struct kt_closer {
	/* What is closed at the first message that arrives. */
	struct fid_ep *ep[2];
	struct completion closed;
	int status;
};

static void kt_closes(struct fid_cq *cq, void *arg)
{
	struct fi_cq_tagged_entry entry;
	struct kt_closer *closer = arg;
	struct fi_cq_err_entry error;
	ssize_t read;
	int at;

	for (;;) {
		read = fi_cq_read(cq, &entry, 1);
		if (read == -FI_EAVAIL && fi_cq_error(cq, &error, 0) == 1)
			continue;
		if (read != 1)
			return;
		if (!closer->ep[0] || !(entry.flags & FI_RECV))
			continue;
		for (at = 0; at < 2; at++)
			closer->status = closer->status ?: closer->ep[at] ? fi_close(&closer->ep[at]->fid) : 0;
		closer->ep[0] = NULL;
		complete(&closer->closed);
	}
}

static int kt_closer_set(struct kt_closer *closer, struct fid_cq *cq, struct fid_ep *first, struct fid_ep *second)
{
	memset(closer, 0, sizeof(*closer));
	init_completion(&closer->closed);
	closer->ep[0] = first;
	closer->ep[1] = second;
	return kofi_cq_set_callback(cq, kt_closes, closer);
}

static bool kt_has_closed(struct kt_closer *closer)
{
	return wait_for_completion_timeout(&closer->closed, msecs_to_jiffies(KT_LONG)) && !closer->status;
}

static int kt_receives(struct fid_ep *ep, u8 *to)
{
	int at, status = 0;

	for (at = 0; !status && at < KT_UNDER_WAY; at++)
		status = fi_recv(ep, to, 8, NULL, FI_ADDR_UNSPEC, NULL);
	return status;
}

static bool kt_datagrams_close(void)
{
	struct kt_closer closer = { .ep = { NULL } };
	struct kt_pair pair;
	bool ok, is_set;
	int at;

	is_set = kt_open(&pair, FI_MSG) == 0 && kt_closer_set(&closer, pair.cq[1], pair.ep[1], NULL) == 0;
	ok = is_set && kt_receives(pair.ep[1], pair.to) == 0;
	/* What becomes of the later ones is not said; no completion of theirs may be lost to the end of their endpoint. */
	for (at = 0; ok && at < KT_UNDER_WAY; at++)
		fi_send(pair.ep[0], pair.from, 8, NULL, pair.addr[1], NULL);
	ok = ok && kt_has_closed(&closer);
	if (is_set) {
		ok = kofi_cq_set_callback(pair.cq[1], NULL, NULL) == 0 && ok;
		pair.ep[1] = closer.ep[0];
	}
	return kt_close(&pair) == 0 && ok;
}

/* One end of a connection, or both, are closed by the queue that has the completions of both. */
static bool kt_connection_closes(struct kt_msg *msg, char *server, bool are_both, u8 *buffer)
{
	struct fid_ep *client = NULL, *peer = NULL;
	struct kt_closer closer = { .ep = { NULL } };
	struct kt_event event;
	int at, status = 0;
	bool ok, is_open;
	u32 kind;

	if (!kt_join(msg, server, &client, &peer))
		return false;
	closer.ep[0] = peer;
	ok = kt_receives(peer, buffer) == 0 && kt_receives(client, buffer) == 0;
	/* An endpoint that is closed while another thread calls it is an error of the consumer: the sender is only closed when it has sent. */
	if (ok && !are_both)
		ok = kt_closer_set(&closer, msg->cq, peer, NULL) == 0;
	for (at = 0; ok && !status && at < KT_UNDER_WAY; at++)
		status = fi_send(client, buffer + 8, 8, NULL, 0, NULL);
	if (ok && are_both)
		ok = kt_closer_set(&closer, msg->cq, peer, client) == 0;
	ok = ok && kt_has_closed(&closer);
	if (ok && !are_both)
		ok = kt_wait(msg->eq, &kind, &event) > 0 && kind == FI_SHUTDOWN && event.cm.fid == &client->fid;
	ok = kofi_cq_set_callback(msg->cq, NULL, NULL) == 0 && ok;
	/* What the callback has not closed. */
	is_open = closer.ep[0];
	if (is_open)
		ok = fi_close(&peer->fid) == 0 && ok;
	if (is_open || !are_both)
		ok = fi_close(&client->fid) == 0 && ok;
	return ok;
}

void kt_closing_datagrams(void)
{
	bool ok = true;
	int at;

	for (at = 0; ok && at < KT_ROUNDS; at++)
		ok = kt_datagrams_close();
	KT(ok, "an endpoint is closed by what its queue calls, with receives posted, while messages come");
}

void kt_closing_connections(struct kt_msg *msg, char *server)
{
	u8 *buffer = kzalloc(16, GFP_KERNEL);
	bool ok = buffer;
	int at;

	for (at = 0; ok && at < KT_ROUNDS; at++)
		ok = kt_connection_closes(msg, server, false, buffer);
	KT(ok, "an endpoint with a connection is closed by what its queue calls, and its peer is told");
	for (at = 0; ok && at < KT_ROUNDS; at++)
		ok = kt_connection_closes(msg, server, true, buffer);
	KT(ok, "so are both ends of a connection");
	kfree(buffer);
}
