/* Counters, and completions that are asked for. */
#include "kofi_test.h"

void kt_counters(void)
{
	struct fi_cq_tagged_entry entry;
	struct fid_cntr *cntr = NULL;
	struct fid_ep *ep = NULL;
	struct kt_pair pair;
	struct fi_msg msg = {};

	KT(kt_open(&pair, FI_MSG) == 0, "endpoints are opened");
	KT(fi_cntr_open(pair.domain, NULL, &cntr, NULL) == 0 && fi_cntr_read(cntr) == 0, "a counter begins at zero");
	if (!cntr || fi_endpoint(pair.domain, pair.info, &ep, NULL))
		return;
	fi_ep_bind(ep, &pair.cq[0]->fid, FI_SEND | FI_RECV | FI_SELECTIVE_COMPLETION);
	fi_ep_bind(ep, &pair.av->fid, 0);
	KT(fi_ep_bind(ep, &cntr->fid, FI_SEND) == 0 && fi_enable(ep) == 0, "a counter is bound for sends");
	KT(fi_send(ep, pair.from, 8, NULL, pair.addr[1], NULL) == 0 && fi_cntr_wait(cntr, 1, KT_LONG) == 0 &&
		   fi_cntr_read(cntr) == 1,
	   "it counts a send, and wakes what waits for that");
	KT(fi_cq_read(pair.cq[0], &entry, 1) == -FI_EAGAIN, "with FI_SELECTIVE_COMPLETION no completion is written unasked");
	msg.addr = pair.addr[1];
	msg.context = &msg;
	KT(fi_sendmsg(ep, &msg, FI_COMPLETION) == 0 && kt_done(pair.cq[0], &msg, NULL) && fi_cntr_wait(cntr, 2, KT_LONG) == 0,
	   "and one is with FI_COMPLETION");
	KT(fi_cntr_wait(cntr, 3, 10) == -FI_ETIMEDOUT, "fi_cntr_wait waits as long as it is told");
	KT(fi_cntr_add(cntr, 5) == 0 && fi_cntr_read(cntr) == 7 && fi_cntr_set(cntr, 1) == 0 && fi_cntr_read(cntr) == 1,
	   "a counter is added to and set");
	KT(fi_close(&cntr->fid) == -FI_EBUSY, "a counter that is bound is not closed");
	fi_close(&ep->fid);
	KT(fi_close(&cntr->fid) == 0, "a counter is closed");
	KT(kt_close(&pair) == 0, "all is closed");
}
