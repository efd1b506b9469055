/*
 * limits WORK BYTES COUNT CPU CPU
 *
 * What the machine itself can do between two processes, one bound to each processor, with no library between them. It prints
 *
 *     BYTES MICROSECONDS MEGABYTES_PER_SECOND
 *
 * - line: one cache line goes to and fro through shared memory; the time is that of one way, whatever BYTES.
 * - lines: cache lines, each with a message, from one process to the other through a ring of them, as fast as both can.
 * - copy: memcpy(3) of BYTES that are in the cache, by one process.
 * - read: one process reads BYTES of the other's memory (process_vm_readv(2)) into its own.
 * - both: each copies one half of every BYTES, the reader the front, the owner the back.
 * - ping: BYTES to and fro through a TCP connection, both sides spinning on a non-blocking socket; one way.
 * - stream: BYTES a call through a TCP connection, one way only.
 * - window: 64 times BYTES and their headers through a TCP connection, in pieces of at most 16 KiB, answered by 8 bytes; a 64th of
 *   the time.
 * - duplex: BYTES both ways at once through a TCP connection, from 64 buffers a side into 64 others.
 * - datagram: BYTES to and fro between two UDP sockets that know each other's address, spinning likewise; one way.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINES = 256, CREDIT = 32, WINDOW = 64, HEADER = 24, PIECE = 16384, BUFFERS = 64 };

struct cell {
	_Alignas(64) atomic_long turn;
	long words[7];
};

struct shared {
	_Alignas(64) atomic_long ball;
	_Alignas(64) atomic_long taken;
	struct cell ring[LINES];
	_Alignas(64) atomic_int stage;
	_Alignas(64) char *theirs, *ours;
};

struct work {
	struct shared *shared;
	size_t bytes;
	long count;
	pid_t first, second;
	int sockets[2], datagrams[2];
	struct sockaddr_in places[2];
	char *from, *to;
};

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void bind_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set))
		fail("sched_setaffinity");
}

/* Both sides reach a stage before either goes on. */
static void meet(struct work *work, int stage)
{
	atomic_fetch_add(&work->shared->stage, 1);
	while (atomic_load(&work->shared->stage) < 2 * stage)
		;
}

static void line(struct work *work, int begins)
{
	atomic_long *ball = &work->shared->ball;

	for (long i = 0; i < work->count; i++) {
		if (begins)
			atomic_store_explicit(ball, 2 * i + 1, memory_order_release);
		while (atomic_load_explicit(ball, memory_order_acquire) < 2 * i + 1 + begins)
			;
		if (!begins)
			atomic_store_explicit(ball, 2 * i + 2, memory_order_release);
	}
}

static void send_line(struct shared *shared, long turn)
{
	struct cell *cell = &shared->ring[turn % LINES];

	while (turn >= atomic_load_explicit(&shared->taken, memory_order_acquire) + LINES)
		;
	for (int i = 0; i < 7; i++)
		cell->words[i] = turn + i;
	atomic_store_explicit(&cell->turn, turn + 1, memory_order_release);
}

static long take_line(struct shared *shared, long turn)
{
	struct cell *cell = &shared->ring[turn % LINES];
	long sum = 0;

	__builtin_prefetch(&shared->ring[(turn + 2) % LINES]);
	while (atomic_load_explicit(&cell->turn, memory_order_acquire) != turn + 1)
		;
	for (int i = 0; i < 7; i++)
		sum += cell->words[i];
	if ((turn + 1) % CREDIT == 0)
		atomic_store_explicit(&shared->taken, turn + 1, memory_order_release);
	return sum;
}

/* Turns go on where the last round ended. */
static void lines(struct work *work, int begins)
{
	static long first;
	volatile long sink = 0;

	for (long i = first; i < first + work->count; i++)
		if (begins)
			send_line(work->shared, i);
		else
			sink += take_line(work->shared, i);
	first += work->count;
}

static void copy(struct work *work, int begins)
{
	for (long i = 0; begins && i < work->count; i++) {
		memcpy(work->to, work->from, work->bytes);
		atomic_signal_fence(memory_order_seq_cst);
	}
}

/* The first process reads the front, the second writes the back; `front` of every `bytes`. */
static void pull(struct work *work, int begins, size_t front)
{
	size_t len = begins ? front : work->bytes - front, offset = begins ? 0 : front;

	for (long i = 0; len && i < work->count; i++) {
		struct iovec reader = { work->shared->ours + offset, len }, owner = { work->shared->theirs + offset, len };
		ssize_t done = begins ? process_vm_readv(work->second, &reader, 1, &owner, 1, 0)
				      : process_vm_writev(work->first, &owner, 1, &reader, 1, 0);

		if (done != (ssize_t)len)
			fail("process_vm");
	}
}

static void give(int to, const char *bytes, size_t len)
{
	for (ssize_t sent; len; bytes += sent, len -= (size_t)sent) {
		sent = send(to, bytes, len, MSG_NOSIGNAL);
		if (sent < 0 && errno != EAGAIN)
			fail("send");
		sent = sent < 0 ? 0 : sent;
	}
}

static void take(int from, char *bytes, size_t len)
{
	for (ssize_t got; len; bytes += got, len -= (size_t)got) {
		got = recv(from, bytes, len, MSG_DONTWAIT);
		if (got == 0 || (got < 0 && errno != EAGAIN))
			fail("recv");
		got = got < 0 ? 0 : got;
	}
}

static void ping(struct work *work, int begins)
{
	int mine = work->sockets[!begins];

	for (long i = 0; i < work->count; i++) {
		if (begins)
			give(mine, work->from, work->bytes);
		take(mine, work->to, work->bytes);
		if (!begins)
			give(mine, work->from, work->bytes);
	}
}

static void throw_datagram(struct work *work, int mine)
{
	struct sockaddr *to = (struct sockaddr *)&work->places[!mine];

	while (sendto(work->datagrams[mine], work->from, work->bytes, 0, to, sizeof work->places[0]) < 0)
		if (errno != EAGAIN)
			fail("sendto");
}

static void catch_datagram(struct work *work, int mine)
{
	while (recvfrom(work->datagrams[mine], work->to, work->bytes, 0, NULL, NULL) < 0)
		if (errno != EAGAIN)
			fail("recvfrom");
}

static void datagram(struct work *work, int begins)
{
	int mine = !begins;

	for (long i = 0; i < work->count; i++) {
		if (begins)
			throw_datagram(work, mine);
		catch_datagram(work, mine);
		if (!begins)
			throw_datagram(work, mine);
	}
}

static void stream(struct work *work, int begins)
{
	int mine = work->sockets[!begins];

	for (long i = 0; i < work->count; i++)
		if (begins)
			give(mine, work->from, work->bytes);
		else
			take(mine, work->to, work->bytes);
	if (begins)
		take(mine, work->to, 1);
	else
		give(mine, work->from, 1);
}

static void window(struct work *work, int begins)
{
	int mine = work->sockets[!begins];
	size_t piece;

	for (long i = 0; i < work->count; i++) {
		for (size_t left = WINDOW * (work->bytes + HEADER); left; left -= piece) {
			piece = left < PIECE ? left : PIECE;
			if (begins)
				give(mine, work->from, piece);
			else
				take(mine, work->to, piece);
		}
		if (begins)
			take(mine, work->to, 8);
		else
			give(mine, work->from, 8);
	}
}

/* Moves what the socket takes or has of one buffer after the other; returns how far that is. */
static size_t part(ssize_t moved, size_t done)
{
	if (moved < 0 && errno != EAGAIN)
		fail("duplex");
	return moved < 0 ? done : done + (size_t)moved;
}

static void duplex(struct work *work, int begins)
{
	int mine = work->sockets[!begins];
	size_t total = (size_t)work->count * work->bytes, given = 0, taken = 0;

	while (given < total || taken < total) {
		size_t out = given % work->bytes, in = taken % work->bytes;
		char *from = work->from + given / work->bytes % BUFFERS * work->bytes + out;
		char *to = work->to + taken / work->bytes % BUFFERS * work->bytes + in;

		if (given < total)
			given = part(send(mine, from, work->bytes - out, MSG_NOSIGNAL | MSG_DONTWAIT), given);
		if (taken < total)
			taken = part(recv(mine, to, work->bytes - in, MSG_DONTWAIT), taken);
	}
}

static void connect_pair(int sockets[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof at;
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	if (listener < 0 || bind(listener, (struct sockaddr *)&at, len) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&at, &len))
		fail("listen");
	sockets[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (sockets[0] < 0 || connect(sockets[0], (struct sockaddr *)&at, len))
		fail("connect");
	sockets[1] = accept(listener, NULL, NULL);
	for (int i = 0; i < 2; i++)
		if (setsockopt(sockets[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on))
			fail("TCP_NODELAY");
	close(listener);
}

static void open_datagrams(struct work *work)
{
	for (int i = 0; i < 2; i++) {
		struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		socklen_t len = sizeof at;

		work->datagrams[i] = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
		if (work->datagrams[i] < 0 || bind(work->datagrams[i], (struct sockaddr *)&at, len) ||
		    getsockname(work->datagrams[i], (struct sockaddr *)&work->places[i], &len))
			fail("datagrams");
	}
}

static void play(struct work *work, const char *name, int begins)
{
	if (!strcmp(name, "line"))
		line(work, begins);
	else if (!strcmp(name, "lines"))
		lines(work, begins);
	else if (!strcmp(name, "copy"))
		copy(work, begins);
	else if (!strcmp(name, "read"))
		pull(work, begins, work->bytes);
	else if (!strcmp(name, "both"))
		pull(work, begins, work->bytes / 2);
	else if (!strcmp(name, "ping"))
		ping(work, begins);
	else if (!strcmp(name, "stream"))
		stream(work, begins);
	else if (!strcmp(name, "window"))
		window(work, begins);
	else if (!strcmp(name, "duplex"))
		duplex(work, begins);
	else if (!strcmp(name, "datagram"))
		datagram(work, begins);
	else
		exit(2);
}

/* Plays once to warm up, and once for the clock; returns the seconds of one round. */
static double measure(struct work *work, const char *name, int begins)
{
	long count = work->count;
	double start;

	work->count = count / 10 + 1;
	meet(work, 2);
	play(work, name, begins);
	work->count = count;
	meet(work, 3);
	atomic_store(&work->shared->ball, 0);
	meet(work, 4);
	start = now_s();
	play(work, name, begins);
	meet(work, 5);
	return (now_s() - start) / (double)count;
}

static char *touched(size_t bytes)
{
	char *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);

	if (!memory)
		fail("aligned_alloc");
	return memset(memory, 1, bytes);
}

int main(int argc, char **argv)
{
	struct work work = { 0 };
	int is_first;
	double seconds;
	size_t buffers, room;

	if (argc != 6)
		return 2;
	work.bytes = strtoul(argv[2], NULL, 10);
	work.count = atol(argv[3]);
	room = work.bytes < PIECE ? PIECE : work.bytes;
	work.shared = mmap(NULL, sizeof *work.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (work.shared == MAP_FAILED)
		fail("mmap");
	connect_pair(work.sockets);
	open_datagrams(&work);
	work.first = getpid();
	work.second = fork();
	is_first = work.second != 0;
	if (!is_first && prctl(PR_SET_PDEATHSIG, SIGKILL))
		fail("prctl");
	/* The second lets the first one, its parent, read its memory; the other way it may be forbidden without this. */
	if (is_first)
		prctl(PR_SET_PTRACER, work.second);
	bind_to(atoi(argv[is_first ? 4 : 5]));
	buffers = strcmp(argv[1], "duplex") ? 1 : BUFFERS;
	work.from = touched(buffers * room);
	work.to = touched(buffers * room);
	if (is_first)
		work.shared->ours = work.to;
	else
		work.shared->theirs = work.from;
	meet(&work, 1);
	seconds = measure(&work, argv[1], is_first);
	if (!is_first)
		_exit(0);
	if (!strcmp(argv[1], "line") || !strcmp(argv[1], "ping") || !strcmp(argv[1], "datagram"))
		seconds /= 2;
	if (!strcmp(argv[1], "window"))
		seconds /= WINDOW;
	printf("%zu %.4f %.3f\n", work.bytes, seconds * 1e6, (double)work.bytes / seconds / 1e6);
	return waitpid(work.second, NULL, 0) == work.second ? 0 : 1;
}
