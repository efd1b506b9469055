/*
 * One large buffer for many messages.
 *
 * multi_recv [PROVIDER]
 */
#include "node.h"

enum { COUNT = 10, BUFFER = 4096, SMALLEST = 64 };

int main(int argc, char **argv)
{
	struct node node;
	struct operation send, receive = { 0 };
	char address[ADDRESS_MAX], message[SMALLEST] = "hello";
	size_t len = sizeof address, least = SMALLEST;
	static char buffer[BUFFER];
	struct iovec iov = { .iov_base = buffer, .iov_len = sizeof buffer };
	struct fi_msg posted = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &receive.context };
	struct fi_cq_tagged_entry entry;
	int received = 0, sent = 0;
	ssize_t result, count;

	alarm(WATCHDOG_S);
	open_node(&node, argc > 1 ? argv[1] : "tcp", FI_MSG | FI_MULTI_RECV, FI_WAIT_UNSPEC);
	CHECK(fi_getname(&node.ep->fid, address, &len));
	EXPECT(fi_av_insert(node.av, address, 1, &node.peer, 0, NULL) == 1);
	/* ANCHOR: post */
	/* The provider lets go of the buffer when fewer bytes than this are left. */
	CHECK(fi_setopt(&node.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least));
	CHECK(fi_recvmsg(node.ep, &posted, FI_MULTI_RECV));
	/* ANCHOR_END: post */
	for (int i = 0; i < COUNT; i++) {
		while ((result = fi_send(node.ep, message, sizeof message, NULL, node.peer, &send.context)) ==
		       -FI_EAGAIN)
			fi_cq_read(node.cq, NULL, 0); /* makes progress and takes nothing */
		CHECK(result);
		/* One context serves one operation at a time: wait for this send. */
		for (send.done = 0; !send.done || received <= i;) {
			count = fi_cq_sread(node.cq, &entry, 1, NULL, 1000);
			if (count == -FI_EAGAIN)
				continue;
			CHECK(count);
			/* ANCHOR: take */
			if (entry.flags & FI_RECV) {
				/* Where in the buffer this message is. It stays ours until we post the buffer again. */
				EXPECT(!memcmp(entry.buf, message, entry.len));
				EXPECT((char *)entry.buf >= buffer && (char *)entry.buf < buffer + BUFFER);
				received++;
				/* FI_MULTI_RECV in the flags: that was the last message of this buffer. */
				EXPECT(!(entry.flags & FI_MULTI_RECV));
			}
			/* ANCHOR_END: take */
			else {
				send.done = 1;
				sent++;
			}
		}
	}
	EXPECT(received == COUNT && sent == COUNT);
	close_node(&node);
	return EXIT_SUCCESS;
}
