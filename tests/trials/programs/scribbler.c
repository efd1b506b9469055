/*
 * scribbler FOLDER SEED
 *
 * Becomes a peer of the shm endpoint that is called "answerer" in the folder, as any program does, and then fills the memory
 * that it shares with that endpoint with random words, now and then all of it, while it goes on sending.
 * It ends by exiting without closing anything. Exit code 0: it reached the endpoint and scribbled.
 */
#include "node.h"

enum { WRITES = 2000, SENDS = 200, LARGEST = 3000, PIECES_MAX = 16 };

struct piece {
	volatile unsigned char *start;
	size_t len;
};

static uint64_t state;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* The shared memory of this process that has no name in any folder: that of its pairs. */
static int find(struct piece *pieces, int room)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[PATH_MAX];
	int found = 0;

	while (maps && found < room && fgets(line, sizeof line, maps)) {
		unsigned long start, end;
		char rights[8];

		if (sscanf(line, "%lx-%lx %7s", &start, &end, rights) == 3 && rights[1] == 'w' && rights[3] == 's' &&
		    strstr(line, "memfd:"))
			pieces[found++] = (struct piece){ (void *)start, end - start };
	}
	if (maps)
		fclose(maps);
	return found;
}

static void scribble(struct piece *pieces, int count)
{
	for (int i = 0; i < WRITES; i++) {
		struct piece *piece = &pieces[draw() % (unsigned)count];
		uint64_t word = draw() % 4 ? draw() % 256 : draw();
		/* The words at the beginning say most. */
		size_t room = draw() % 2 ? piece->len : piece->len < 16384 ? piece->len : 16384;
		size_t at = draw() % (room / sizeof word) * sizeof word;

		*(volatile uint64_t *)(piece->start + at) = word;
	}
}

int main(int argc, char **argv)
{
	static unsigned char out[LARGEST];
	struct fi_context context[SENDS];
	struct piece pieces[PIECES_MAX];
	struct node node = { 0 };
	fi_addr_t peer;
	int count, scribbled = 0;

	if (argc != 3)
		return EXIT_FAILURE;
	state = strtoull(argv[2], NULL, 10) | 1;
	node_open(&node, "shm");
	peer = node_meet(&node, argv[1], "answerer");
	for (int i = 0; i < SENDS; i++) {
		/* The other side may have ended the pair long ago: all results are welcome. */
		fi_tsend(node.ep, out, draw() % LARGEST, NULL, peer, 77 + draw() % 3, &context[i]);
		fi_cq_read(node.cq, NULL, 0);
		/* Looked for anew each time, since a pair that was found broken is given up and another takes its place. */
		count = find(pieces, PIECES_MAX);
		if (count)
			scribble(pieces, count);
		scribbled += count;
	}
	printf("scribbled %d times\n", scribbled);
	_exit(scribbled ? EXIT_SUCCESS : EXIT_FAILURE);
}
