/* The same again and again. */
#include "kofi_test.h"

void kt_again(void)
{
	struct kt_pair pair;
	bool ok = true;
	int round;

	for (round = 0; round < 50; round++) {
		ok = kt_open(&pair, FI_MSG | FI_RMA) == 0 && ok;
		ok = ok && fi_send(pair.ep[0], pair.from, 5000, NULL, pair.addr[1], NULL) == 0;
		/* In every other round the message is under way when its endpoints go. */
		if (round % 2)
			ok = ok && fi_recv(pair.ep[1], pair.to, 5000, NULL, FI_ADDR_UNSPEC, NULL) == 0 &&
			     kt_done(pair.cq[1], NULL, NULL);
		ok = kt_close(&pair) == 0 && ok;
	}
	KT(ok, "fifty pairs of endpoints come, talk and go");
}
