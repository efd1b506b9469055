/* Messages of reliable datagrams. */
#include "kofi_test.h"

/* Lengths on each path: one frame, several, pulled by the receiver. */
static const size_t kt_lengths[] = { 0, 1, 4096, 4097, 16384, 16385, KT_BUFFER };

static bool kt_exchange(struct kt_pair *pair, size_t len, bool is_late)
{
	struct fi_cq_tagged_entry entry;
	u8 seed = len % 251;
	bool ok = true;

	kt_fill(pair->from, len, seed);
	memset(pair->to, 0, KT_BUFFER);
	if (!is_late)
		ok = fi_recvfrom(pair->ep[1], pair->to, KT_BUFFER, NULL, FI_ADDR_UNSPEC, pair->to) == 0;
	ok = ok && fi_sendto(pair->ep[0], pair->from, len, NULL, pair->addr[1], pair->from) == 0;
	if (is_late)
		ok = ok && fi_recvfrom(pair->ep[1], pair->to, KT_BUFFER, NULL, FI_ADDR_UNSPEC, pair->to) == 0;
	ok = ok && kt_done(pair->cq[1], pair->to, &entry) && entry.len == len && entry.flags & FI_RECV;
	ok = ok && kt_done(pair->cq[0], pair->from, &entry) && entry.flags & FI_SEND;
	return ok && kt_is_filled(pair->to, len, seed);
}

static void kt_pieces(struct kt_pair *pair)
{
	struct kvec out[5], in[3];
	struct fi_msg msg = { .msg_iov = out, .iov_count = 4, .addr = pair->addr[1], .context = out, .data = 0x1234567890abcdef };
	struct fi_msg recv = { .msg_iov = in, .iov_count = 3, .addr = FI_ADDR_UNSPEC, .context = in };
	struct fi_cq_tagged_entry entry;
	int at;

	for (at = 0; at < 5; at++)
		out[at] = (struct kvec){ pair->from + at * 1000, 1000 };
	in[0] = (struct kvec){ pair->to, 1 };
	in[1] = (struct kvec){ pair->to + 1, 2999 };
	in[2] = (struct kvec){ pair->to + 3000, 2000 };
	kt_fill(pair->from, 5000, 3);
	memset(pair->to, 0, 5000);
	KT(fi_recvv(pair->ep[1], in, NULL, 3, FI_ADDR_UNSPEC, in) == 0 &&
		   fi_sendv(pair->ep[0], out, NULL, 4, pair->addr[1], out) == 0 && kt_done(pair->cq[0], out, NULL) &&
		   kt_done(pair->cq[1], in, &entry) && entry.len == 4000 && kt_is_filled(pair->to, 4000, 3),
	   "fi_sendv and fi_recvv take several kvecs, cut differently");
	KT(fi_sendv(pair->ep[0], out, NULL, 5, pair->addr[1], out) == -FI_EINVAL, "more pieces than iov_limit are refused");
	memset(pair->to, 0, 5000);
	KT(fi_recvmsg(pair->ep[1], &recv, FI_COMPLETION) == 0 && fi_sendmsg(pair->ep[0], &msg, FI_REMOTE_CQ_DATA) == 0 &&
		   kt_done(pair->cq[0], out, NULL) && kt_done(pair->cq[1], in, &entry) &&
		   kt_is_filled(pair->to, 4000, 3),
	   "fi_sendmsg and fi_recvmsg do as well");
	KT(entry.flags & FI_REMOTE_CQ_DATA && entry.data == msg.data, "immediate data arrives with the message");
	KT(fi_recv(pair->ep[1], pair->to, 8, NULL, FI_ADDR_UNSPEC, in) == 0 &&
		   fi_senddata(pair->ep[0], pair->from, 8, NULL, 42, pair->addr[1], out) == 0 &&
		   kt_done(pair->cq[0], out, NULL) && kt_done(pair->cq[1], in, &entry) && entry.data == 42,
	   "fi_senddata sends it, too");
}

static void kt_injected(struct kt_pair *pair)
{
	struct fi_cq_tagged_entry entry;

	kt_fill(pair->from, 64, 9);
	KT(fi_inject(pair->ep[0], pair->from, 64, pair->addr[1]) == 0, "fi_inject takes a short message");
	memset(pair->from, 0, 64);
	KT(fi_recv(pair->ep[1], pair->to, 64, NULL, FI_ADDR_UNSPEC, pair->to) == 0 &&
		   kt_done(pair->cq[1], pair->to, &entry) && kt_is_filled(pair->to, 64, 9),
	   "whose buffer is free at once");
	KT(fi_cq_read(pair->cq[0], &entry, 1) == -FI_EAGAIN, "and which has no completion");
	KT(fi_inject(pair->ep[0], pair->from, pair->info->tx_attr->inject_size + 1, pair->addr[1]) == -FI_EMSGSIZE,
	   "a long message is not injected");
}

static void kt_failing(struct kt_pair *pair)
{
	struct fi_cq_err_entry error = {};
	struct kt_name nowhere = kt_name("nowhere");
	fi_addr_t lost = FI_ADDR_UNSPEC;

	KT(fi_recv(pair->ep[1], pair->to, 10, NULL, FI_ADDR_UNSPEC, pair->to) == 0 &&
		   fi_send(pair->ep[0], pair->from, 100, NULL, pair->addr[1], pair->from) == 0 &&
		   kt_error(pair->cq[1], &error) == FI_ETRUNC && error.op_context == pair->to,
	   "a message that is longer than its receive is an error of the receive");
	KT(error.len == 10 && error.olen == 90, "which says what fitted, and what did not");
	KT(kt_done(pair->cq[0], pair->from, NULL), "and none of the send");
	KT(fi_recv(pair->ep[1], pair->to, 10, NULL, FI_ADDR_UNSPEC, &error) == 0 && fi_cancel(&pair->ep[1]->fid, &error) == 0 &&
		   kt_error(pair->cq[1], NULL) == FI_ECANCELED,
	   "a receive is cancelled");
	KT(fi_cancel(&pair->ep[1]->fid, &error) == -FI_ENOENT, "what does not wait is not cancelled");
	KT(fi_send(pair->ep[0], pair->from, 1, NULL, 12345, NULL) == -FI_EINVAL, "a peer that was not inserted is refused");
	KT(fi_send(pair->ep[0], NULL, 1, NULL, pair->addr[1], NULL) == -FI_EINVAL, "no memory is refused where bytes are named");
	KT(fi_av_insert(pair->av, nowhere.bytes, 1, &lost, 0, NULL) == 1 &&
		   fi_send(pair->ep[0], pair->from, 1, NULL, lost, NULL) == 0 &&
		   kt_error(pair->cq[0], NULL) == FI_ECONNREFUSED,
	   "a message to an address that no endpoint has is an error");
}

void kt_messages(void)
{
	struct fi_cq_tagged_entry entry;
	struct kt_pair pair;
	fi_addr_t from = 0;
	bool early = true, late = true;
	int at;

	KT(kt_open(&pair, FI_MSG | FI_SOURCE | FI_DIRECTED_RECV) == 0, "endpoints for messages are opened");
	for (at = 0; at < ARRAY_SIZE(kt_lengths); at++) {
		early = kt_exchange(&pair, kt_lengths[at], false) && early;
		late = kt_exchange(&pair, kt_lengths[at], true) && late;
	}
	KT(early, "messages of all lengths arrive in receives that wait for them");
	KT(late, "messages of all lengths arrive in receives that come later");
	kt_pieces(&pair);
	kt_injected(&pair);
	KT(fi_recv(pair.ep[1], pair.to, 8, NULL, FI_ADDR_UNSPEC, NULL) == 0 &&
		   fi_send(pair.ep[0], pair.from, 8, NULL, pair.addr[1], NULL) == 0 && kt_done(pair.cq[0], NULL, NULL) &&
		   fi_cq_sreadfrom(pair.cq[1], &entry, 1, &from, NULL, KT_LONG) == 1 && from == pair.addr[0],
	   "fi_cq_sreadfrom says where a message came from");
	KT(fi_recv(pair.ep[1], pair.to, 8, NULL, pair.addr[1], pair.ep) == 0 &&
		   fi_recv(pair.ep[1], pair.to + 8, 8, NULL, pair.addr[0], pair.cq) == 0 &&
		   fi_send(pair.ep[0], pair.from, 8, NULL, pair.addr[1], NULL) == 0 && kt_done(pair.cq[0], NULL, NULL) &&
		   kt_done(pair.cq[1], pair.cq, NULL),
	   "a receive that names its source takes no other message");
	KT(fi_send(pair.ep[1], pair.from, 8, NULL, pair.addr[1], pair.av) == 0 && kt_done(pair.cq[1], pair.ep, NULL) &&
		   kt_done(pair.cq[1], pair.av, NULL),
	   "an endpoint sends to itself");
	kt_failing(&pair);
	KT(fi_recv(pair.ep[1], pair.to, 8, NULL, FI_ADDR_UNSPEC, NULL) == 0 &&
		   fi_send(pair.ep[0], pair.from, KT_BUFFER, NULL, pair.addr[1], NULL) == 0 && kt_close(&pair) == 0,
	   "endpoints with operations outstanding are closed");
}
