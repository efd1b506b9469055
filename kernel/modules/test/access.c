/* Remote memory access. */
#include "kofi_test.h"

#define KT_KEY 77

static void kt_transfers(struct kt_pair *pair, u64 key)
{
	struct kvec pieces[2] = { { pair->from, 1000 }, { pair->from + 1000, 24 } };
	struct fi_rma_iov targets[2] = { { 2048, 512, key }, { 8192, 512, key } };
	struct fi_msg_rma msg = {
		.msg_iov = pieces, .iov_count = 2, .addr = pair->addr[1], .rma_iov = targets, .rma_iov_count = 2,
		.context = &msg, .data = 99,
	};
	struct fi_cq_tagged_entry entry;

	kt_fill(pair->from, KT_BUFFER, 1);
	KT(fi_write(pair->ep[0], pair->from, 512, NULL, pair->addr[1], 100, key, pair) == 0 &&
		   kt_done(pair->cq[0], pair, &entry) && entry.flags & FI_WRITE,
	   "fi_write completes");
	memset(pair->from, 0, 512);
	KT(fi_read(pair->ep[0], pair->from, 512, NULL, pair->addr[1], 100, key, pair) == 0 &&
		   kt_done(pair->cq[0], pair, &entry) && entry.flags & FI_READ && kt_is_filled(pair->from, 512, 1),
	   "fi_read brings what was written");
	KT(kt_is_filled(pair->to + 100, 512, 1), "which is where the offset says");
	kt_fill(pair->from, KT_BUFFER, 2);
	KT(fi_write(pair->ep[0], pair->from, KT_BUFFER, NULL, pair->addr[1], 0, key, pair) == 0 &&
		   kt_done(pair->cq[0], pair, NULL),
	   "a long write completes");
	memset(pair->from, 0, KT_BUFFER);
	KT(fi_read(pair->ep[0], pair->from, KT_BUFFER, NULL, pair->addr[1], 0, key, pair) == 0 &&
		   kt_done(pair->cq[0], pair, NULL) && kt_is_filled(pair->from, KT_BUFFER, 2),
	   "a long read brings it");
	kt_fill(pair->from, 1024, 3);
	KT(fi_writemsg(pair->ep[0], &msg, FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE) == 0 && kt_done(pair->cq[0], &msg, NULL) &&
		   !memcmp(pair->to + 2048, pair->from, 512) && !memcmp(pair->to + 8192, pair->from + 512, 512),
	   "fi_writemsg writes kvecs to several places, and is over when they are written");
	KT(kt_done(pair->cq[1], NULL, &entry) && entry.flags & FI_REMOTE_WRITE && entry.data == 99,
	   "the peer gets its immediate data");
	memset(pair->from, 0, 1024);
	KT(fi_readmsg(pair->ep[0], &msg, FI_COMPLETION) == 0 && kt_done(pair->cq[0], &msg, NULL) &&
		   kt_is_filled(pair->from, 1024, 3),
	   "fi_readmsg reads from several places into kvecs");
	KT(fi_inject_write(pair->ep[0], pair->from, 8, pair->addr[1], 0, key) == 0, "fi_inject_write takes a short write");
}

static void kt_refused(struct kt_pair *pair, u64 key, u64 read_only)
{
	u64 end = KT_BUFFER - 8;

	KT(fi_read(pair->ep[0], pair->from, 8, NULL, pair->addr[1], 0, key + 1000, pair) == 0 &&
		   kt_error(pair->cq[0], NULL) == FI_ENOKEY,
	   "a read with a wrong key fails");
	KT(fi_read(pair->ep[0], pair->from, 9, NULL, pair->addr[1], end, key, pair) == 0 &&
		   kt_error(pair->cq[0], NULL) == FI_EACCES,
	   "a read beyond the region fails");
	KT(fi_read(pair->ep[0], pair->from, 8, NULL, pair->addr[1], ~0ULL - 3, key, pair) == 0 &&
		   kt_error(pair->cq[0], NULL) == FI_EACCES,
	   "a read whose end overflows fails");
	KT(fi_read(pair->ep[0], pair->from, 8, NULL, pair->addr[1], end, key, pair) == 0 && kt_done(pair->cq[0], pair, NULL),
	   "a read up to the end of the region does not");
	KT(fi_read(pair->ep[0], pair->from, 8, NULL, pair->addr[1], 0, read_only, pair) == 0 && kt_done(pair->cq[0], pair, NULL),
	   "what is registered for reads is read");
	pair->to[0] = 1;
	KT(fi_writemsg(pair->ep[0], &(struct fi_msg_rma){
			       .msg_iov = &(struct kvec){ pair->from, 1 }, .iov_count = 1, .addr = pair->addr[1],
			       .rma_iov = &(struct fi_rma_iov){ 0, 1, read_only }, .rma_iov_count = 1 },
		       FI_DELIVERY_COMPLETE) == 0 &&
		   kt_error(pair->cq[0], NULL) == FI_EACCES && pair->to[0] == 1,
	   "and not written");
}

void kt_access(void)
{
	u64 both = FI_REMOTE_READ | FI_REMOTE_WRITE;
	struct fid_mr *mr = NULL, *twin = NULL, *read_only = NULL;
	struct kt_pair pair;

	KT(kt_open(&pair, FI_MSG | FI_RMA) == 0, "endpoints for remote memory access are opened");
	KT(fi_mr_reg(pair.domain, pair.to, KT_BUFFER, both, 0, KT_KEY, 0, &mr, NULL) == 0, "memory is registered");
	if (!mr)
		return;
	KT(fi_mr_key(mr) == KT_KEY && fi_mr_desc(mr), "and has the key that was asked for, and a descriptor");
	KT(fi_mr_reg(pair.domain, pair.to, 8, both, 0, KT_KEY, 0, &twin, NULL) == -FI_ENOKEY, "a key is of one region");
	KT(fi_mr_reg(pair.domain, pair.to, 8, FI_MULTI_RECV, 0, 5, 0, &twin, NULL) == -FI_EINVAL,
	   "what is no access cannot be registered for");
	KT(fi_mr_reg(pair.domain, pair.to, 8, FI_REMOTE_READ, 0, KT_KEY + 1, 0, &read_only, NULL) == 0, "part of it for reads only");
	KT(fi_close(&pair.domain->fid) == -FI_EBUSY, "a domain with a region is not closed");
	KT(fi_send(pair.ep[0], pair.from, 8, fi_mr_desc(mr), pair.addr[1], NULL) == 0 &&
		   fi_recv(pair.ep[1], pair.to, 8, fi_mr_desc(mr), FI_ADDR_UNSPEC, NULL) == 0 &&
		   kt_done(pair.cq[0], NULL, NULL) && kt_done(pair.cq[1], NULL, NULL),
	   "messages take descriptors");
	kt_transfers(&pair, KT_KEY);
	kt_refused(&pair, KT_KEY, KT_KEY + 1);
	KT(read_only && fi_close(&read_only->fid) == 0, "a registration is closed");
	KT(fi_close(&mr->fid) == 0, "the other one, too");
	KT(fi_read(pair.ep[0], pair.from, 8, NULL, pair.addr[1], 0, KT_KEY, &pair) == 0 &&
		   kt_error(pair.cq[0], NULL) == FI_ENOKEY,
	   "after that its key is wrong");
	KT(kt_close(&pair) == 0, "all is closed");
}
