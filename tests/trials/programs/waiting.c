/*
 * Messages that wait for their receives: one endpoint sends COUNT tagged messages to another of the same process, which
 * then posts the receives, the last message's first. Prints how long the receives took.
 *
 *     waiting PROVIDER COUNT
 */
#include "node.h"

enum { BATCH = 16 };

/* Reads completions of both, and returns how many the receiver had. */
static long turn(struct node *from, struct node *to)
{
	struct fi_cq_tagged_entry entries[BATCH];
	ssize_t sent = fi_cq_read(from->cq, entries, BATCH);
	ssize_t received = fi_cq_read(to->cq, entries, BATCH);

	if (sent != -FI_EAGAIN)
		expect("fi_cq_read", sent);
	if (received == -FI_EAGAIN)
		return 0;
	expect("fi_cq_read", received);
	return received;
}

static void check(long number, long long got)
{
	if (got == number)
		return;
	printf("message %ld has %lld in it\n", number, got);
	exit(1);
}

int main(int argc, char **argv)
{
	long count = argc == 3 ? atol(argv[2]) : 0, done = 0;
	long long *bodies = calloc((size_t)count + 1, sizeof(*bodies));
	struct fi_context *contexts = calloc((size_t)count + 1, sizeof(*contexts));
	struct node from = { 0 }, to = { 0 };
	fi_addr_t peer;
	double start;
	ssize_t result;

	if (count <= 0 || !bodies || !contexts)
		return 2;
	/* With directed receives the C library's tcp holds no more than 64 messages. */
	node_open_with(&to, argv[1], FI_TAGGED);
	node_open_with(&from, argv[1], FI_TAGGED);
	peer = node_insert_node(&from, &to);

	for (long i = 0; i < count; i++) {
		long long body = i;

		while ((result = fi_tinject(from.ep, &body, sizeof(body), peer, (uint64_t)i)) == -FI_EAGAIN)
			turn(&from, &to);
		expect("fi_tinject", result);
		if (i % BATCH == 0)
			turn(&from, &to);
	}
	/* A library may leave them in the network until there are receives; what it takes in, it takes in now. */
	for (int i = 0; i < 1000; i++)
		turn(&from, &to);

	start = now_s();
	for (long i = count - 1; i >= 0; i--) {
		while ((result = fi_trecv(to.ep, &bodies[i], sizeof(*bodies), NULL, FI_ADDR_UNSPEC, (uint64_t)i, 0,
					  &contexts[i])) == -FI_EAGAIN)
			done += turn(&from, &to);
		expect("fi_trecv", result);
		done += turn(&from, &to);
	}
	while (done < count)
		done += turn(&from, &to);
	printf("seconds %.6f\n", now_s() - start);
	for (long i = 0; i < count; i++)
		check(i, bodies[i]);
	return 0;
}
