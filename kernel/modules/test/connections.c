/* Endpoints with connections. */
#include "kofi_test.h"

ssize_t kt_wait(struct fid_eq *eq, u32 *kind, struct kt_event *event)
{
	memset(event, 0, sizeof(*event));
	*kind = ~0;
	return fi_eq_sread(eq, kind, event, sizeof(*event), KT_LONG, 0);
}

static struct fid_ep *kt_active(struct kt_msg *msg, struct fi_info *info)
{
	struct fid_ep *ep = NULL;

	if (fi_endpoint(msg->domain, info, &ep, NULL))
		return NULL;
	fi_ep_bind(ep, &msg->eq->fid, 0);
	fi_ep_bind(ep, &msg->cq->fid, FI_SEND | FI_RECV);
	return ep;
}

static int kt_listen(struct kt_msg *msg)
{
	struct fi_eq_attr eq = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC };
	int status;

	memset(msg, 0, sizeof(*msg));
	msg->info = kt_info(FI_EP_MSG, FI_MSG);
	if (!msg->info)
		return -ENODATA;
	status = fi_fabric(msg->info->fabric_attr, &msg->fabric, NULL);
	if (!status)
		status = fi_eq_open(msg->fabric, &eq, &msg->eq, NULL);
	if (!status)
		status = fi_eq_open(msg->fabric, &eq, &msg->listen_eq, NULL);
	if (!status)
		status = fi_domain(msg->fabric, msg->info, &msg->domain, NULL);
	if (!status)
		status = fi_cq_open(msg->domain, &cq, &msg->cq, NULL);
	if (!status)
		status = fi_passive_ep(msg->fabric, msg->info, &msg->pep, NULL);
	return status;
}

static void kt_rejected(struct kt_msg *msg, char *server)
{
	struct fi_eq_err_entry error = {};
	struct kt_event event;
	struct fid_ep *ep = kt_active(msg, msg->info);
	struct fi_info *request;
	int refused;
	u32 kind;

	if (!ep)
		return;
	KT(fi_connect(ep, server, "please", 7) == 0 && kt_wait(msg->listen_eq, &kind, &event) > 0 && kind == FI_CONNREQ,
	   "a second request comes");
	request = event.cm.info;
	if (!request)
		return;
	KT(fi_reject(msg->pep, request->handle, "no", 3) == 0, "it is rejected");
	KT(kt_wait(msg->eq, &kind, &event) == -FI_EAVAIL && fi_eq_error(msg->eq, &error, 0) > 0 &&
		   error.err == FI_ECONNREFUSED && error.fid == &ep->fid,
	   "the peer reads that as an error");
	KT(error.err_data_size == 3 && !strcmp(error.err_data, "no"), "with the data of the rejection");
	KT(fi_reject(msg->pep, request->handle, NULL, 0) == -FI_EINVAL, "a request is rejected once");
	fi_freeinfo(request);
	fi_close(&ep->fid);
	ep = kt_active(msg, msg->info);
	/* In the call, or later. */
	refused = ep ? fi_connect(ep, kt_name("nowhere").bytes, NULL, 0) : 0;
	if (!refused && kt_wait(msg->eq, &kind, &event) == -FI_EAVAIL && fi_eq_error(msg->eq, &error, 0) > 0)
		refused = -error.err;
	KT(refused == -FI_ECONNREFUSED, "where no endpoint listens a connection is refused");
	fi_close(&ep->fid);
}

static void kt_connected(struct kt_msg *msg, char *server)
{
	struct fi_cq_err_entry given_back = {};
	struct fi_cq_tagged_entry entry;
	struct kt_event event;
	struct fid_ep *client = kt_active(msg, msg->info), *peer, *twin = NULL;
	u8 *from = kzalloc(8192, GFP_KERNEL), *to = kzalloc(8192, GFP_KERNEL);
	bool ok;
	u32 kind, first, second;

	if (!client || !from || !to)
		return;
	KT(fi_send(client, from, 8, NULL, 0, NULL) == -FI_EOPBADSTATE, "an endpoint that is not enabled does not send");
	KT(fi_enable(client) == 0 && fi_send(client, from, 8, NULL, 0, NULL) == -FI_ENOTCONN, "nor one without a connection");
	KT(fi_connect(client, server, "hello", 6) == 0, "fi_connect asks for a connection");
	KT(fi_connect(client, server, NULL, 0) == -FI_EISCONN, "once");
	KT(kt_wait(msg->listen_eq, &kind, &event) == sizeof(event.cm) + 6 && kind == FI_CONNREQ &&
		   event.cm.fid == &msg->pep->fid && event.cm.info,
	   "fi_eq_sread returns the request");
	KT(!strcmp((char *)event.cm.data, "hello"), "with the data of the peer");
	peer = kt_active(msg, event.cm.info);
	KT(peer, "an endpoint is opened for it");
	KT(fi_endpoint(msg->domain, event.cm.info, &twin, NULL) == -FI_EINVAL, "and not a second one");
	fi_freeinfo(event.cm.info);
	if (!peer)
		return;
	KT(fi_recv(peer, to, 8192, NULL, 0, to) == -FI_EOPBADSTATE && fi_accept(peer, "welcome", 8) == 0, "fi_accept accepts it");
	ok = kt_wait(msg->eq, &first, &event) > 0;
	if (event.cm.fid == &client->fid)
		KT(!strcmp((char *)event.cm.data, "welcome"), "the peer gets the data of the acceptance");
	ok = kt_wait(msg->eq, &second, &event) > 0 && ok;
	if (event.cm.fid == &client->fid)
		KT(!strcmp((char *)event.cm.data, "welcome"), "the peer gets the data of the acceptance");
	KT(ok && first == FI_CONNECTED && second == FI_CONNECTED, "both ends are told that the connection stands");
	kt_fill(from, 8192, 4);
	KT(fi_recv(peer, to, 8192, NULL, 0, to) == 0 && fi_send(client, from, 8192, NULL, 0, from) == 0 &&
		   fi_cq_sread(msg->cq, &entry, 1, NULL, KT_LONG) == 1 && fi_cq_sread(msg->cq, &entry, 1, NULL, KT_LONG) == 1 &&
		   kt_is_filled(to, 8192, 4),
	   "messages pass the connection");
	KT(fi_recv(client, to, 8, NULL, 0, &kind) == 0 && fi_inject(peer, from, 8, 0) == 0 && kt_done(msg->cq, &kind, NULL),
	   "in both directions");
	KT(fi_recv(client, to, 8, NULL, 0, &first) == 0 && fi_shutdown(peer, 0) == 0, "fi_shutdown ends it");
	ok = kt_wait(msg->eq, &first, &event) > 0;
	ok = kt_wait(msg->eq, &second, &event) > 0 && ok;
	KT(ok && first == FI_SHUTDOWN && second == FI_SHUTDOWN, "both ends are told");
	KT(kt_error(msg->cq, &given_back) == FI_ECANCELED && given_back.op_context == &first, "a receive that waits is given back");
	KT(fi_send(client, from, 8, NULL, 0, NULL) == -FI_ENOTCONN, "after that it does not send");
	KT(fi_close(&client->fid) == 0 && fi_close(&peer->fid) == 0, "both are closed");
	kfree(from);
	kfree(to);
}

bool kt_join(struct kt_msg *msg, char *server, struct fid_ep **client, struct fid_ep **peer)
{
	struct kt_event event;
	bool ok;
	u32 kind;

	*client = kt_active(msg, msg->info);
	ok = *client && fi_connect(*client, server, NULL, 0) == 0 && kt_wait(msg->listen_eq, &kind, &event) > 0;
	if (!ok)
		return false;
	*peer = kt_active(msg, event.cm.info);
	fi_freeinfo(event.cm.info);
	ok = *peer && fi_accept(*peer, NULL, 0) == 0;
	return ok && kt_wait(msg->eq, &kind, &event) > 0 && kt_wait(msg->eq, &kind, &event) > 0;
}

static void kt_vanished(struct kt_msg *msg, char *server)
{
	struct fid_ep *client = NULL, *peer = NULL;
	struct kt_event event;
	bool ok;
	u32 kind;

	ok = kt_join(msg, server, &client, &peer);
	if (!peer)
		return;
	fi_close(&peer->fid);
	KT(ok && kt_wait(msg->eq, &kind, &event) > 0 && kind == FI_SHUTDOWN && event.cm.fid == &client->fid,
	   "an endpoint that is closed ends its connection");
	fi_close(&client->fid);
	client = kt_active(msg, msg->info);
	ok = fi_connect(client, server, NULL, 0) == 0;
	fi_close(&msg->pep->fid);
	msg->pep = NULL;
	KT(ok && kt_wait(msg->eq, &kind, &event) == -FI_EAVAIL, "a passive endpoint that is closed refuses the endpoint that asked");
	fi_close(&client->fid);
	KT(fi_eq_read(msg->eq, &kind, &event, sizeof(event), 0) == -FI_EAGAIN, "events of closed endpoints are dropped");
}

void kt_connections(void)
{
	struct fi_info *rdm = kt_info(FI_EP_RDM, FI_MSG);
	struct kt_msg msg;
	struct kt_event event;
	struct fid_pep *pep = NULL;
	char server[64];
	size_t len = sizeof(server), room = 0, size = sizeof(room);
	u32 kind;

	KT(kt_listen(&msg) == 0, "a passive endpoint is opened");
	if (!msg.pep)
		return;
	KT(!rdm || fi_passive_ep(msg.fabric, rdm, &pep, NULL) == -FI_EOPNOTSUPP, "reliable datagrams have none");
	fi_freeinfo(rdm);
	KT(fi_listen(msg.pep) == -FI_ENOEQ, "it does not listen without an event queue");
	KT(fi_pep_bind(msg.pep, &msg.listen_eq->fid, 0) == 0 && fi_listen(msg.pep) == 0, "with one it listens");
	KT(fi_getname(&msg.pep->fid, server, &len) == 0, "and has an address");
	KT(fi_getopt(&msg.pep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &room, &size) == 0 && room >= 55,
	   "it says how much data goes with a connection");
	KT(fi_eq_read(msg.eq, &kind, &event, sizeof(event), 0) == -FI_EAGAIN, "an empty event queue says so");
	KT(fi_eq_sread(msg.eq, &kind, &event, sizeof(event), 10, 0) == -FI_EAGAIN, "fi_eq_sread waits as long as it is told");
	kt_connected(&msg, server);
	kt_rejected(&msg, server);
	kt_closing_connections(&msg, server);
	kt_vanished(&msg, server);
	KT(fi_close(&msg.cq->fid) == 0 && fi_close(&msg.domain->fid) == 0 && fi_close(&msg.eq->fid) == 0 &&
		   fi_close(&msg.listen_eq->fid) == 0 && fi_close(&msg.fabric->fid) == 0,
	   "all is closed");
	fi_freeinfo(msg.info);
}
