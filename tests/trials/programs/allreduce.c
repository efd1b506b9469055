/* Sums and maxima over all ranks, in sizes from one element to two megabytes; every rank checks every element. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { LARGEST = 1 << 18, ROUNDS = 5 };

static long reduced(MPI_Op op, const long *mine, long *all, int count, int size, int round)
{
	long wrong = 0;
	long ranks = (long)size * (size - 1) / 2;

	MPI_Allreduce(mine, all, count, MPI_LONG, op, MPI_COMM_WORLD);
	for (int i = 0; i < count; i++) {
		long base = i + round;
		long expected = op == MPI_SUM ? base * size + ranks : base + size - 1;
		wrong += all[i] != expected;
	}
	return wrong;
}

int main(int argc, char **argv)
{
	int rank, size;
	long wrong = 0, all_wrong = 0;
	long *mine = calloc(LARGEST, sizeof *mine), *all = calloc(LARGEST, sizeof *all);

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int count = 1; count <= LARGEST; count *= 8) {
		for (int round = 0; round < ROUNDS; round++) {
			for (int i = 0; i < count; i++)
				mine[i] = i + round + rank;
			wrong += reduced(MPI_SUM, mine, all, count, size, round);
			wrong += reduced(MPI_MAX, mine, all, count, size, round);
		}
	}
	MPI_Reduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("allreduce of %d: %ld wrong\n", size, all_wrong);
	MPI_Finalize();
	free(mine);
	free(all);
	return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
