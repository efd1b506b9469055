/*
 * One-sided MPI on memory of the program's own and on memory of the library: put, get, accumulate, fetch-and-op and
 * compare-and-swap under fences, locks and post-start-complete-wait, every result checked.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { LARGEST = 1 << 15, INCREMENTS = 20, TICKETS = 25 };

static int rank, size;

/* What is put at element `at` in a round: no two ranks put the same. */
static long value(int from, int round, int at)
{
	return from * 1000003L + round * 101L + at;
}

static long count_wrong(const long *data, int count, int from, int round)
{
	long wrong = 0;

	for (int at = 0; at < count; at++)
		wrong += data[at] != value(from, round, at);
	return wrong;
}

/* Between two fences each rank puts into its right neighbour and then gets that back, in sizes up to 256 kB. */
static long fences(MPI_Win win, long *memory, long *local)
{
	int right = (rank + 1) % size, left = (rank + size - 1) % size, round = 0;
	long wrong = 0;

	MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
	for (int count = 1; count <= LARGEST; count *= 8, round++) {
		for (int at = 0; at < count; at++)
			local[at] = value(rank, round, at);
		MPI_Put(local, count, MPI_LONG, right, 0, count, MPI_LONG, win);
		MPI_Win_fence(0, win);
		wrong += count_wrong(memory, count, left, round);
		for (int at = 0; at < count; at++)
			local[at] = -1;
		MPI_Get(local, count, MPI_LONG, right, 0, count, MPI_LONG, win);
		MPI_Win_fence(0, win);
		wrong += count_wrong(local, count, rank, round);
	}
	/* All add to every element of rank 0. */
	if (rank == 0)
		for (int at = 0; at < 1000; at++)
			memory[at] = at;
	for (int at = 0; at < 1000; at++)
		local[at] = rank + 1;
	MPI_Win_fence(0, win);
	MPI_Accumulate(local, 1000, MPI_LONG, 0, 0, 1000, MPI_LONG, MPI_SUM, win);
	MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
	if (rank == 0)
		for (int at = 0; at < 1000; at++)
			wrong += memory[at] != at + (long)size * (size + 1) / 2;
	return wrong;
}

/* Under exclusive locks a counter is read, increased and written back; nothing gets lost. */
static long locks(MPI_Win win, long *memory)
{
	long seen = 0;

	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
	memory[0] = 0;
	MPI_Win_unlock(rank, win);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int turn = 0; turn < INCREMENTS; turn++) {
		int target = turn % size;

		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
		MPI_Get(&seen, 1, MPI_LONG, target, 0, 1, MPI_LONG, win);
		MPI_Win_flush(target, win);
		seen++;
		MPI_Put(&seen, 1, MPI_LONG, target, 0, 1, MPI_LONG, win);
		MPI_Win_unlock(target, win);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
	seen = memory[0];
	MPI_Win_unlock(rank, win);
	return seen != (long)size * (INCREMENTS / size + (rank < INCREMENTS % size));
}

/* All take tickets of rank 0 by fetch-and-op. */
static long tickets(MPI_Win win, long *memory)
{
	long one = 1, ticket, taken = 0, all = 0, wrong = 0, last = -1;

	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
	memory[0] = 0;
	MPI_Win_unlock(rank, win);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, win);
	for (int turn = 0; turn < TICKETS; turn++) {
		MPI_Fetch_and_op(&one, &ticket, MPI_LONG, 0, 0, MPI_SUM, win);
		MPI_Win_flush(0, win);
		wrong += ticket <= last;
		last = ticket;
		taken += ticket;
	}
	MPI_Win_unlock_all(win);
	MPI_Allreduce(&taken, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	return wrong + (all != (long)size * TICKETS * (size * TICKETS - 1L) / 2);
}

/* Each rank but 0 swaps its number at rank 0 for the next one, when it is its turn. */
static long swaps(MPI_Win win, long *memory)
{
	long found = -1, next = rank + 1, mine = rank;

	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
	memory[0] = 1;
	MPI_Win_unlock(rank, win);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, win);
	while (rank != 0 && found != mine) {
		MPI_Compare_and_swap(&next, &mine, &found, MPI_LONG, 0, 0, win);
		MPI_Win_flush(0, win);
	}
	MPI_Win_unlock_all(win);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
	MPI_Get(&found, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
	MPI_Win_unlock(0, win);
	return found != size;
}

/* Each rank lets its left neighbour put, and puts into its right one. */
static long epochs(MPI_Win win, long *memory, long *local)
{
	int right = (rank + 1) % size, left = (rank + size - 1) % size;
	MPI_Group world, sources, targets;
	long wrong = 0;

	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_incl(world, 1, &left, &sources);
	MPI_Group_incl(world, 1, &right, &targets);
	for (int round = 0; round < 10; round++) {
		int count = 1 << round;

		for (int at = 0; at < count; at++)
			local[at] = value(rank, round, at);
		MPI_Win_post(sources, 0, win);
		MPI_Win_start(targets, 0, win);
		MPI_Put(local, count, MPI_LONG, right, 0, count, MPI_LONG, win);
		MPI_Win_complete(win);
		MPI_Win_wait(win);
		wrong += count_wrong(memory, count, left, round);
	}
	MPI_Group_free(&sources);
	MPI_Group_free(&targets);
	MPI_Group_free(&world);
	return wrong;
}

/* Open MPI 4.1 crashes, over any transport, when it swaps in memory that it allocated, or in the rank's own. */
static long window(MPI_Win win, long *memory, int with_swaps)
{
	long *local = calloc(LARGEST, sizeof *local);
	long wrong = fences(win, memory, local);

	wrong += locks(win, memory);
	wrong += tickets(win, memory);
	MPI_Barrier(MPI_COMM_WORLD);
	if (with_swaps)
		wrong += swaps(win, memory);
	MPI_Barrier(MPI_COMM_WORLD);
	wrong += epochs(win, memory, local);
	MPI_Win_free(&win);
	free(local);
	return wrong;
}

int main(int argc, char **argv)
{
	long wrong, all = 0, *own, *given;
	MPI_Aint bytes = LARGEST * sizeof(long);
	MPI_Win win;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	own = calloc(1, bytes);
	MPI_Win_create(own, bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	wrong = window(win, own, 1);
	MPI_Win_allocate(bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &given, &win);
	wrong += window(win, given, 0);
	MPI_Reduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("windows of %d: %ld wrong\n", size, all);
	MPI_Finalize();
	free(own);
	return all ? EXIT_FAILURE : EXIT_SUCCESS;
}
