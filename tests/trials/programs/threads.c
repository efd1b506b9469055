/*
 * MPI_THREAD_MULTIPLE: each thread sends round a ring of its own and draws tickets from a window of all, at once with the
 * others. With the argument "messages" the window is left out.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 3, ROUNDS = 20, LARGEST = 1 << 14, TICKETS = 20 };

static int rank, size, with_window;
static MPI_Win window;

struct worker {
	pthread_t thread;
	int number;
	long wrong, taken;
};

static void ring(struct worker *me, long *out, long *in)
{
	int right = (rank + 1) % size, left = (rank + size - 1) % size;

	for (int round = 0; round < ROUNDS; round++) {
		int count = 1 << (round % 15), tag = me->number * ROUNDS + round;
		MPI_Request requests[2];

		for (int at = 0; at < count; at++)
			out[at] = rank * 7919L + tag + at;
		MPI_Irecv(in, count, MPI_LONG, left, tag, MPI_COMM_WORLD, &requests[0]);
		MPI_Isend(out, count, MPI_LONG, right, tag, MPI_COMM_WORLD, &requests[1]);
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
		for (int at = 0; at < count; at++)
			me->wrong += in[at] != left * 7919L + tag + at;
	}
}

static void draw(struct worker *me)
{
	long one = 1, ticket;

	for (int turn = 0; turn < TICKETS; turn++) {
		MPI_Fetch_and_op(&one, &ticket, MPI_LONG, 0, 0, MPI_SUM, window);
		MPI_Win_flush(0, window);
		me->taken += ticket;
	}
}

static void *work(void *argument)
{
	struct worker *me = argument;
	long *out = calloc(LARGEST, sizeof *out), *in = calloc(LARGEST, sizeof *in);

	ring(me, out, in);
	if (with_window)
		draw(me);
	free(out);
	free(in);
	return NULL;
}

static long run(void)
{
	struct worker workers[THREADS] = {0};
	long wrong = 0, taken = 0, all = 0, tickets = (long)size * THREADS * TICKETS;

	for (int number = 0; number < THREADS; number++) {
		workers[number].number = number;
		pthread_create(&workers[number].thread, NULL, work, &workers[number]);
	}
	for (int number = 0; number < THREADS; number++) {
		pthread_join(workers[number].thread, NULL);
		wrong += workers[number].wrong;
		taken += workers[number].taken;
	}
	MPI_Allreduce(&taken, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	if (with_window)
		wrong += all != tickets * (tickets - 1) / 2;
	return wrong;
}

int main(int argc, char **argv)
{
	long wrong, all = 0, counter = 0;
	int level;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	with_window = argc < 2 || strcmp(argv[1], "messages");
	if (with_window) {
		MPI_Win_create(&counter, sizeof counter, sizeof counter, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
		MPI_Win_lock_all(0, window);
	}
	wrong = run() + (level != MPI_THREAD_MULTIPLE);
	if (with_window) {
		MPI_Win_unlock_all(window);
		MPI_Win_free(&window);
	}
	MPI_Reduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("threads of %d: %ld wrong\n", size, all);
	MPI_Finalize();
	return all ? EXIT_FAILURE : EXIT_SUCCESS;
}
