/* Tagged messages. */
#include "kofi_test.h"

void kt_tagged(void)
{
	struct fi_cq_tagged_entry entry;
	struct fi_msg_tagged peek = { .addr = FI_ADDR_UNSPEC, .tag = 5, .context = &peek };
	struct fi_msg_tagged miss = { .addr = FI_ADDR_UNSPEC, .tag = 6, .context = &miss };
	struct kt_pair pair;

	KT(kt_open(&pair, FI_TAGGED) == 0, "endpoints for tagged messages are opened");
	KT(fi_trecv(pair.ep[1], pair.to, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &pair.ep[0]) == 0 &&
		   fi_trecv(pair.ep[1], pair.to + 8, 8, NULL, FI_ADDR_UNSPEC, 0xf2, 0xf0, &pair.ep[1]) == 0 &&
		   fi_tsend(pair.ep[0], pair.from, 8, NULL, pair.addr[1], 0x32, NULL) == 0 &&
		   kt_done(pair.cq[0], NULL, NULL) && kt_done(pair.cq[1], &pair.ep[1], &entry) && entry.tag == 0x32,
	   "a tagged message goes to the receive whose tag it has, but for the bits that are ignored");
	KT(fi_tinject(pair.ep[0], pair.from, 8, pair.addr[1], 1) == 0 && kt_done(pair.cq[1], &pair.ep[0], NULL),
	   "and another one to the other receive");
	KT(fi_tsend(pair.ep[0], pair.from, 8, NULL, pair.addr[1], 5, NULL) == 0 && kt_done(pair.cq[0], NULL, NULL), "a message waits");
	while (fi_trecvmsg(pair.ep[1], &peek, FI_PEEK) == 0 && fi_cq_sread(pair.cq[1], &entry, 1, NULL, KT_LONG) != 1) {
		struct fi_cq_err_entry error = {};

		fi_cq_error(pair.cq[1], &error, 0);
		msleep(1);
	}
	KT(entry.op_context == &peek && entry.len == 8 && entry.tag == 5, "FI_PEEK finds it and leaves it");
	KT(fi_trecvmsg(pair.ep[1], &miss, FI_PEEK) == 0 && kt_error(pair.cq[1], NULL) == FI_ENOMSG,
	   "FI_PEEK of a tag that no message has says so");
	KT(fi_trecv(pair.ep[1], pair.to, 8, NULL, FI_ADDR_UNSPEC, 5, 0, NULL) == 0 && kt_done(pair.cq[1], NULL, NULL),
	   "what was looked at is received");
	KT(kt_close(&pair) == 0, "all is closed");
}
