/*
 * A peer that means no good to an endpoint of kofi_tcp, for tests in a guest:
 *
 *   kofi_hostile HOST PORT request    says something else than a request for a connection; sees the connection closed
 *   kofi_hostile HOST PORT header     gets a connection, and sends what is no frame
 *   kofi_hostile HOST PORT length     gets a connection, and sends a frame that is shorter than its header
 *   kofi_hostile HOST PORT urgent     gets a connection, and sends a byte of urgent data within a frame
 *   kofi_hostile HOST PORT half       gets a connection, and closes it in the middle of a frame
 *   kofi_hostile HOST PORT reset      as half, and has it reset
 *   kofi_hostile HOST PORT flood      opens connections without requests, and gets one all the same
 *
 * The bytes are those of docs/protocol/tcp.md, sections 2 and 4.
 */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define SILENT 200

static int dial(const char *host, const char *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
	struct timeval limit = { .tv_sec = 20 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	inet_pton(AF_INET, host, &at.sin_addr);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at))) {
		perror("connect");
		exit(1);
	}
	return fd;
}

static void put(int fd, const void *bytes, size_t len)
{
	if (send(fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len) {
		perror("send");
		exit(1);
	}
}

/* Asks for a connection, and waits until it is accepted. */
static void shake_hands(int fd)
{
	uint64_t same_order = 1;
	uint8_t message[32] = { 3, 0 };

	memcpy(message + 24, &same_order, 8);
	put(fd, message, sizeof(message));
	if (recv(fd, message, sizeof(message), MSG_WAITALL) != sizeof(message) || message[1] != 1) {
		fprintf(stderr, "no response\n");
		exit(1);
	}
}

/* Sends the header of a message, whatever is to follow. */
static void announce(int fd, uint8_t version, uint64_t size)
{
	uint8_t header[16] = { version, 0, 0, 0, 0, 0, 16, 0 };

	memcpy(header + 8, &size, 8);
	put(fd, header, sizeof(header));
}

int main(int argc, char **argv)
{
	struct linger at_once = { .l_onoff = 1 };
	const char *mode = argc == 4 ? argv[3] : "";
	uint8_t bytes[64];
	int at, fd;

	if (!strcmp(mode, "flood"))
		for (at = 0; at < SILENT; at++)
			dial(argv[1], argv[2]);
	memset(bytes, 0xee, sizeof(bytes));
	fd = argc == 4 ? dial(argv[1], argv[2]) : -1;
	if (!strcmp(mode, "request")) {
		put(fd, bytes, sizeof(bytes));
		/* It is closed or reset; otherwise the time limit passes. */
		return recv(fd, bytes, sizeof(bytes), 0) > 0;
	}
	shake_hands(fd);
	if (!strcmp(mode, "header")) {
		announce(fd, 9, 80);
		return recv(fd, bytes, sizeof(bytes), 0) > 0;
	}
	if (!strcmp(mode, "length")) {
		announce(fd, 3, 3);
		return recv(fd, bytes, sizeof(bytes), 0) > 0;
	}
	if (!strcmp(mode, "urgent")) {
		announce(fd, 3, 16 + 64);
		put(fd, bytes, 10);
		if (send(fd, bytes, 1, MSG_OOB | MSG_NOSIGNAL) != 1)
			return 1;
		return recv(fd, bytes, sizeof(bytes), 0) > 0;
	}
	if (!strcmp(mode, "half") || !strcmp(mode, "reset")) {
		announce(fd, 3, 16 + 64);
		put(fd, bytes, 10);
	}
	if (!strcmp(mode, "reset"))
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(fd);
	return 0;
}
