/* What opens and closes in which order. */
#include "kofi_test.h"

static void kt_enabling(struct kt_pair *pair)
{
	struct fi_cq_attr fd = { .wait_obj = FI_WAIT_FD };
	struct fid_cq *cq = NULL;
	struct fid_ep *ep = NULL;
	u8 byte = 0;

	KT(fi_cq_open(pair->domain, &fd, &cq, NULL) == -FI_ENOSYS, "descriptors to wait on there are not");
	if (fi_endpoint(pair->domain, pair->info, &ep, NULL))
		return;
	KT(fi_enable(ep) == -FI_ENOCQ, "an endpoint without a queue is not enabled");
	KT(fi_ep_bind(ep, &pair->cq[0]->fid, FI_RECV) == 0 &&
		   fi_ep_bind(ep, &pair->cq[0]->fid, FI_SEND | FI_RECV) == -FI_EINVAL &&
		   fi_ep_bind(ep, &pair->cq[0]->fid, FI_SEND) == 0,
	   "a bind that is refused for receives has bound nothing for sends");
	KT(fi_ep_bind(ep, &pair->cq[1]->fid, FI_SEND) == -FI_EINVAL, "and no second one for the same");
	KT(fi_ep_bind(ep, &pair->cq[1]->fid, 0) == -FI_EBADFLAGS, "a queue is bound for something");
	KT(fi_enable(ep) == -FI_ENOAV, "reliable datagrams need an address vector");
	KT(fi_send(ep, &byte, 1, NULL, pair->addr[0], NULL) == -FI_EOPBADSTATE, "an endpoint that is not enabled does not send");
	KT(fi_ep_bind(ep, &pair->av->fid, 0) == 0 && fi_enable(ep) == 0, "with both it is enabled");
	KT(fi_enable(ep) == -FI_EOPBADSTATE, "it is enabled once");
	KT(fi_close(&ep->fid) == 0, "an endpoint is closed");
}

static void kt_names(struct kt_pair *pair)
{
	char name[64] = "", same[64] = "", short_name[4];
	struct kt_name mine = kt_name("mine");
	size_t len = sizeof(short_name);
	fi_addr_t missing = 77;
	struct fid_ep *ep = NULL, *twin = NULL;

	KT(fi_getname(&pair->ep[0]->fid, short_name, &len) == -FI_ETOOSMALL && len > sizeof(short_name),
	   "a name that does not fit is cut off, and its length told");
	len = sizeof(name);
	KT(fi_av_lookup(pair->av, pair->addr[0], name, &len) == 0 && !fi_getname(&pair->ep[0]->fid, same, &len) &&
		   !memcmp(name, same, len),
	   "the address vector returns the address that was inserted");
	KT(fi_av_remove(pair->av, &missing, 1, 0) == -FI_EINVAL, "an address that was not inserted is not removed");
	if (fi_endpoint(pair->domain, pair->info, &ep, NULL) || fi_endpoint(pair->domain, pair->info, &twin, NULL))
		return;
	KT(fi_setname(&ep->fid, "elsewhere", 10) == -FI_EINVAL, "a name of another provider is refused");
	KT(fi_setname(&ep->fid, mine.bytes, mine.len) == 0, "an endpoint is bound to an address");
	len = sizeof(name);
	KT(fi_getname(&ep->fid, name, &len) == 0 && len == mine.len && !memcmp(name, mine.bytes, len), "and has it");
	fi_setname(&twin->fid, mine.bytes, mine.len);
	fi_ep_bind(ep, &pair->cq[0]->fid, FI_SEND | FI_RECV);
	fi_ep_bind(ep, &pair->av->fid, 0);
	fi_ep_bind(twin, &pair->cq[0]->fid, FI_SEND | FI_RECV);
	fi_ep_bind(twin, &pair->av->fid, 0);
	KT(fi_enable(ep) == 0 && fi_enable(twin) == -FI_EADDRINUSE, "an address is that of one endpoint");
	fi_close(&ep->fid);
	KT(fi_enable(twin) == 0, "it is free again when that is closed");
	fi_close(&twin->fid);
}

void kt_objects(void)
{
	struct kt_pair pair;

	KT(kt_open(&pair, FI_MSG) == 0, "fabric, domain, queues, address vector, two endpoints are opened");
	KT(pair.fabric->fid.fclass == FI_CLASS_FABRIC && pair.domain->fid.fclass == FI_CLASS_DOMAIN &&
		   pair.ep[0]->fid.fclass == FI_CLASS_EP && pair.cq[0]->fid.fclass == FI_CLASS_CQ,
	   "handles have the class of their object");
	KT(fi_close(&pair.fabric->fid) == -FI_EBUSY, "a fabric with a domain is not closed");
	KT(fi_close(&pair.domain->fid) == -FI_EBUSY, "a domain with endpoints is not closed");
	KT(fi_close(&pair.cq[0]->fid) == -FI_EBUSY, "a queue that is bound is not closed");
	KT(fi_close(&pair.av->fid) == -FI_EBUSY, "an address vector that is bound is not closed");
	KT(!pair.ep[0]->rma && !pair.ep[0]->tagged, "an endpoint has no calls that were not asked for");
	kt_enabling(&pair);
	kt_names(&pair);
	KT(kt_close(&pair) == 0, "in the order from the endpoints up all are closed");
}
