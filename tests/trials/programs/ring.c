/* A message goes round all ranks, each of which adds its number to every element, in sizes from one element to a megabyte. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { LARGEST = 1 << 17, ROUNDS = 20 };

static long wrong_elements(const long *data, int count, long expected)
{
	long wrong = 0;

	for (int i = 0; i < count; i++)
		wrong += data[i] != expected + i;
	return wrong;
}

/* One turn: rank 0 starts it and gets it back. */
static void turn(long *data, int count, int rank, int size)
{
	int to = (rank + 1) % size, from = (rank + size - 1) % size;

	if (rank == 0)
		MPI_Send(data, count, MPI_LONG, to, count, MPI_COMM_WORLD);
	MPI_Recv(data, count, MPI_LONG, from, count, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (rank == 0)
		return;
	for (int i = 0; i < count; i++)
		data[i] += rank;
	MPI_Send(data, count, MPI_LONG, to, count, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	int rank, size;
	long wrong = 0;
	long *data = calloc(LARGEST, sizeof *data);

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int count = 1; count <= LARGEST; count *= 8) {
		for (int round = 0; round < ROUNDS; round++) {
			for (int i = 0; i < count; i++)
				data[i] = round + i;
			turn(data, count, rank, size);
			if (rank == 0)
				wrong += wrong_elements(data, count, round + (long)size * (size - 1) / 2);
		}
	}
	if (rank == 0)
		printf("ring of %d: %ld wrong\n", size, wrong);
	MPI_Finalize();
	free(data);
	return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
