/* Atomics. */
#include "kofi_test.h"

void kt_atomics(void)
{
	struct fi_atomic_attr attr = {};
	struct fid_mr *mr = NULL;
	struct kt_pair pair;
	u64 *number, *operand, *found, *compare;

	KT(kt_open(&pair, FI_MSG | FI_ATOMIC) == 0, "endpoints for atomics are opened");
	number = (u64 *)pair.to;
	operand = (u64 *)pair.from;
	found = operand + 1;
	compare = operand + 2;
	KT(fi_mr_reg(pair.domain, pair.to, 64, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL) == 0, "memory is registered");
	if (!mr)
		return;
	*number = 40;
	*operand = 2;
	KT(fi_fetch_atomic(pair.ep[0], operand, 1, NULL, found, NULL, pair.addr[1], 0, 1, FI_UINT64, FI_SUM, &pair) == 0 &&
		   kt_done(pair.cq[0], &pair, NULL) && *found == 40 && *number == 42,
	   "a sum is fetched and made");
	*compare = 42;
	*operand = 7;
	KT(fi_compare_atomic(pair.ep[0], operand, 1, NULL, compare, NULL, found, NULL, pair.addr[1], 0, 1, FI_UINT64, FI_CSWAP,
			     &pair) == 0 &&
		   kt_done(pair.cq[0], &pair, NULL) && *found == 42 && *number == 7,
	   "what is as expected is exchanged");
	KT(fi_compare_atomic(pair.ep[0], operand, 1, NULL, compare, NULL, found, NULL, pair.addr[1], 0, 1, FI_UINT64, FI_CSWAP,
			     &pair) == 0 &&
		   kt_done(pair.cq[0], &pair, NULL) && *found == 7 && *number == 7,
	   "what is not stays");
	*operand = 8;
	KT(fi_atomic(pair.ep[0], operand, 1, NULL, pair.addr[1], 8, 1, FI_UINT64, FI_BOR, &pair) == 0 &&
		   kt_done(pair.cq[0], &pair, NULL) &&
		   fi_fetch_atomic(pair.ep[0], operand, 1, NULL, found, NULL, pair.addr[1], 8, 1, FI_UINT64, FI_ATOMIC_READ,
				   &pair) == 0 &&
		   kt_done(pair.cq[0], &pair, NULL) && *found == 8,
	   "what an atomic made the next one reads");
	KT(fi_query_atomic(pair.domain, FI_DOUBLE, FI_SUM, &attr, 0) == 0 && attr.size == 8 && attr.count > 1,
	   "sums of floating-point numbers are offered");
	KT(fi_query_atomic(pair.domain, FI_DOUBLE, FI_BXOR, &attr, 0) == -FI_EOPNOTSUPP, "their bits are not");
	KT(fi_close(&mr->fid) == 0 && kt_close(&pair) == 0, "all is closed");
}
