/*
 * callers UID NAME WHAT COUNT
 *
 * Attacks the shm endpoint of this name as the user UID, by its socket alone (docs/protocol/shm.md): what it sends is made here by
 * hand. Prints what happened, one line each, and "done" at last; what holds connections then waits until it is ended.
 *
 *   descriptors   COUNT callers with more descriptors than there should be, in four kinds of packets
 *   silent        COUNT callers that say nothing and stay
 *   flood         callers that leave at once, until this program is ended
 *   claim         one caller that says that its name is that of the endpoint's peer, which the variable PEER names
 *   claims        COUNT of those, which stay
 *   memory        hellos with memory that must not be mapped: huge pages, not sealed, too short, read-only
 *   handshake     one caller that shakes hands as it should; prints the abilities in the answer
 *   peers         COUNT callers with a name of their own each, that shake hands as they should and leave
 *
 * "descriptors" and "peers" of no COUNT go on until this program is ended, like a flood.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { CELLS = 256, RING = 131072, HEAD = 8192, MOST_FILES = 200, HELLO = 1, ACCEPT = 2, READY = 3, REFUSE = 4 };

static const char *endpoint;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* The size of a pair's memory, section 3.3. */
static size_t memory_size(void)
{
	size_t lane = 128 + CELLS * 64 + RING;

	return (HEAD + 2 * lane + 4095) / 4096 * 4096;
}

static int memory(unsigned int flags, size_t size, int seals)
{
	int file = memfd_create("caller", flags | MFD_ALLOW_SEALING);

	if (file < 0)
		return -1;
	/* Huge pages may be there, or not. */
	if (ftruncate(file, (off_t)size) || (fallocate(file, 0, 0, (off_t)size) && !(flags & MFD_HUGETLB)))
		fail("memory");
	if (seals && fcntl(file, F_ADD_SEALS, seals))
		fail("seals");
	return file;
}

static int good_memory(void)
{
	return memory(0, memory_size(), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

/* Connects, waiting for room in the backlog. */
static int call(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int length = snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "oxifabric-shm:%s", endpoint);
	int caller = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	if (caller < 0)
		fail("socket");
	if (connect(caller, (struct sockaddr *)&at, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)))
		fail("connect");
	return caller;
}

/* Sends a packet with some descriptors. A callee that has hung up already has done what it should. */
static void say(int caller, const void *bytes, size_t len, const int *files, size_t count)
{
	struct iovec piece = { (void *)bytes, len };
	union { char bytes[CMSG_SPACE(MOST_FILES * sizeof(int))]; struct cmsghdr header; } control = { 0 };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };

	if (count) {
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(&control.header), files, count * sizeof(int));
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
	}
	while (sendmsg(caller, &message, MSG_NOSIGNAL) < 0) {
		if (errno == EPIPE || errno == ECONNRESET)
			return;
		/* Too many descriptors of this user are under way: the callee has yet to take, or drop, some. */
		if (errno != ETOOMANYREFS)
			fail("sendmsg");
		usleep(100);
	}
}

static size_t put_text(unsigned char *to, const char *text)
{
	*to = (unsigned char)strlen(text);
	memcpy(to + 1, text, *to);
	return 1 + (size_t)*to;
}

/* The fields that all packets begin with, section 2.2. */
static void begin(unsigned char *bytes, uint16_t kind)
{
	uint16_t version = 3;

	memcpy(bytes, "oxif-shm", 8);
	memcpy(bytes + 8, &version, 2);
	memcpy(bytes + 10, &kind, 2);
}

static size_t hello(unsigned char *bytes, const char *from)
{
	uint32_t ability = 0, cells = CELLS, ring = RING;
	uint64_t incarnation = 0x5151515151515151, probe = (uintptr_t)&endpoint;
	size_t len = 40;

	begin(bytes, HELLO);
	memcpy(bytes + 12, &ability, 4);
	memcpy(bytes + 16, &incarnation, 8);
	memcpy(bytes + 24, &probe, 8);
	memcpy(bytes + 32, &cells, 4);
	memcpy(bytes + 36, &ring, 4);
	len += put_text(bytes + len, from);
	return len + put_text(bytes + len, endpoint);
}

static void shake_hands(int caller, const char *from, const int *files, size_t count)
{
	unsigned char bytes[1024];

	say(caller, bytes, hello(bytes, from), files, count);
}

/* Waits for an answer and prints it. */
static int hear(int caller, const char *about, int patience_ms)
{
	struct pollfd asked = { .fd = caller, .events = POLLIN };
	unsigned char bytes[1024] = { 0 };
	uint16_t kind, cause;
	uint32_t ability;
	ssize_t len;

	if (poll(&asked, 1, patience_ms) < 1) {
		printf("%s: no answer\n", about);
		return -1;
	}
	len = recv(caller, bytes, sizeof bytes, 0);
	if (len < 0 && errno == ECONNRESET)
		len = recv(caller, bytes, sizeof bytes, 0);
	memcpy(&kind, bytes + 10, 2);
	memcpy(&cause, bytes + 12, 2);
	memcpy(&ability, bytes + 12, 4);
	if (len <= 0)
		printf("%s: hung up\n", about);
	else if (kind == REFUSE)
		printf("%s: refused, cause %u\n", about, cause);
	else
		printf("%s: kind %u, abilities %u\n", about, kind, ability);
	return len <= 0 ? -1 : kind;
}

static void send_descriptors(long count)
{
	int files[MOST_FILES];
	size_t many[] = { 2, 3, MOST_FILES, 2 };

	for (int i = 0; i < MOST_FILES; i++)
		files[i] = i ? STDERR_FILENO : good_memory();
	for (long i = 0; !count || i < count; i++) {
		int caller = call();

		/* The first three shake_hands, the last kind of packet is empty. */
		if (i % 4 == 3)
			say(caller, "", 0, files, many[i % 4]);
		else
			shake_hands(caller, "hoarder", files, many[i % 4]);
		close(caller);
	}
}

static void hold(void)
{
	printf("done\n");
	for (;;)
		pause();
}

static void be_silent(long count)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		fail("getrlimit");
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		fail("setrlimit");
	for (long i = 0; i < count; i++)
		call();
	hold();
}

static void offer_bad_memory(void)
{
	int huge = memory(MFD_HUGETLB, 2 << 20, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	int loose = memory(0, memory_size(), 0), brief = memory(0, 4096, F_SEAL_SHRINK);
	int good = good_memory(), files[4] = { huge, loose, brief, -1 };
	const char *names[] = { "huge", "loose", "short", "read-only" };
	char path[64];

	snprintf(path, sizeof path, "/proc/self/fd/%d", good);
	files[3] = open(path, O_RDONLY);
	for (int i = 0; i < 4; i++) {
		int caller = call();

		if (files[i] < 0) {
			printf("%s: impossible\n", names[i]);
			continue;
		}
		shake_hands(caller, names[i], &files[i], 1);
		hear(caller, names[i], 30000);
		close(caller);
	}
}

/* Opens a pair as a peer of this name, and leaves. */
static void visit(const char *name, int file)
{
	unsigned char ready[16] = { 0 };
	int caller = call();

	shake_hands(caller, name, &file, 1);
	begin(ready, READY);
	say(caller, ready, 16, NULL, 0);
	close(caller);
}

int main(int argc, char **argv)
{
	long count = argc == 5 ? atol(argv[4]) : 0;
	const char *what = argc == 5 ? argv[3] : "";
	uid_t user;
	int file;

	if (argc != 5)
		return EXIT_FAILURE;
	setvbuf(stdout, NULL, _IOLBF, 0);
	endpoint = argv[2];
	user = (uid_t)atol(argv[1]);
	/* It is not to win by taking the processor. */
	if (nice(19) == -1)
		fail("nice");
	if (user != geteuid() && (setgroups(0, NULL) || setgid((gid_t)user) || setuid(user)))
		fail("setuid");
	if (!count && (!strcmp(what, "descriptors") || !strcmp(what, "peers")))
		printf("done\n");
	if (!strcmp(what, "descriptors"))
		send_descriptors(count);
	else if (!strcmp(what, "silent"))
		be_silent(count);
	else if (!strcmp(what, "memory"))
		offer_bad_memory();
	else if (!strcmp(what, "flood"))
		for (printf("done\n");;)
			close(call());
	file = good_memory();
	if (!strcmp(what, "claims")) {
		for (long i = 0; i < count; i++)
			shake_hands(call(), getenv("PEER"), &file, 1);
		hold();
	}
	for (long i = 0; (!count || i < count) && !strcmp(what, "peers"); i++) {
		char name[32];

		snprintf(name, sizeof name, "visitor-%ld", i);
		visit(name, file);
	}
	if (!strcmp(what, "claim") || !strcmp(what, "handshake")) {
		int caller = call();

		shake_hands(caller, strcmp(what, "claim") ? "guest" : getenv("PEER"), &file, 1);
		hear(caller, what, (int)count);
	}
	printf("done\n");
	return EXIT_SUCCESS;
}
