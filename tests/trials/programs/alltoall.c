/* Every rank sends every other its own block, in sizes from one element to half a megabyte; every rank checks every block. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { LARGEST = 1 << 16, ROUNDS = 5, MOST_RANKS = 64 };

/* What rank `from` sends to rank `to` at this place. */
static long element(int from, int to, int i, int round)
{
	return ((long)from * MOST_RANKS + to) * 2 * LARGEST + i + round;
}

static long exchanged(long *out, long *in, int count, int rank, int size, int round)
{
	long wrong = 0;

	for (int to = 0; to < size; to++)
		for (int i = 0; i < count; i++)
			out[to * count + i] = element(rank, to, i, round);
	MPI_Alltoall(out, count, MPI_LONG, in, count, MPI_LONG, MPI_COMM_WORLD);
	for (int from = 0; from < size; from++)
		for (int i = 0; i < count; i++)
			wrong += in[from * count + i] != element(from, rank, i, round);
	return wrong;
}

int main(int argc, char **argv)
{
	int rank, size;
	long wrong = 0, all_wrong = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	long *out = calloc((size_t)size * LARGEST, sizeof *out);
	long *in = calloc((size_t)size * LARGEST, sizeof *in);
	for (int count = 1; count <= LARGEST; count *= 4)
		for (int round = 0; round < ROUNDS; round++)
			wrong += exchanged(out, in, count, rank, size, round);
	MPI_Reduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("alltoall of %d: %ld wrong\n", size, all_wrong);
	MPI_Finalize();
	free(out);
	free(in);
	return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
