/* Many operations at once: what a sender is held up by, and that nothing is lost. */
#include "kofi_test.h"

#define KT_MANY 600

void kt_limits(void)
{
	struct fi_cq_tagged_entry entry;
	struct kt_pair pair;
	int sent = 0, refused = 0, received = 0, posted = 0, done = 0, ordered = 0, idle = 0;

	KT(kt_open(&pair, FI_MSG) == 0, "endpoints are opened");
	/* Longer than a frame, and in all longer than what sockets hold, so that they wait at the sender. */
	while (sent < KT_MANY && !refused) {
		pair.from[sent * 8] = sent;
		if (fi_send(pair.ep[0], pair.from + sent * 8, 50000, NULL, pair.addr[1], NULL) == 0)
			sent++;
		else
			refused++;
	}
	while (fi_cq_read(pair.cq[0], &entry, 1) == 1)
		done++;
	KT(refused && sent - done <= pair.info->tx_attr->size, "a sender whose messages no receive takes is told to try again");
	while (received < sent && idle < KT_LONG) {
		if (posted < sent && fi_recv(pair.ep[1], pair.to + posted * 8, 50000, NULL, FI_ADDR_UNSPEC, (void *)(long)posted) == 0)
			posted++;
		while (fi_cq_read(pair.cq[0], &entry, 1) == 1)
			done++;
		if (fi_cq_sread(pair.cq[1], &entry, 1, NULL, 1) == 1) {
			ordered += (long)entry.op_context == received;
			received++;
			idle = 0;
		} else {
			idle++;
		}
	}
	KT(received == sent, "all that were sent arrive");
	KT(ordered == sent, "in the order in which they were sent");
	while (done < sent && kt_done(pair.cq[0], NULL, NULL))
		done++;
	KT(done == sent, "and all sends complete");
	for (posted = 0; posted < KT_MANY; posted++)
		if (fi_recv(pair.ep[1], pair.to, 8, NULL, FI_ADDR_UNSPEC, NULL))
			break;
	KT(posted == pair.info->rx_attr->size, "as many receives are posted as the attributes say");
	KT(kt_close(&pair) == 0, "all is closed, with receives posted");
}
