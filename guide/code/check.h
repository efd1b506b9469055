/* What all C programs of this guide share: calls that must succeed, and a watchdog. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

/* ANCHOR: check */
/* Ends the program if a call of libfabric failed, and says which and why. */
#define CHECK(call) check(#call, (call))

static inline ssize_t check(const char *call, ssize_t result)
{
	if (result < 0) {
		fprintf(stderr, "%s: %s\n", call, fi_strerror((int)-result));
		exit(EXIT_FAILURE);
	}
	return result;
}
/* ANCHOR_END: check */

/* Ends the program if something is not as the guide says. */
#define EXPECT(condition) expect(#condition, !!(condition))

static inline void expect(const char *condition, int holds)
{
	if (!holds) {
		fprintf(stderr, "expected: %s\n", condition);
		exit(EXIT_FAILURE);
	}
}

/* After this time the kernel ends a program that waits for something that never comes. */
enum { WATCHDOG_S = 50 };

#endif
