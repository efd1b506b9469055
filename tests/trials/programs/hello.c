/* Every rank reports its number and the libfabric that it runs on; rank 0 counts the reports. */
#define _GNU_SOURCE
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The file from which this process has loaded libfabric. */
static void loaded_library(char path[PATH_MAX])
{
	char line[PATH_MAX + 128];
	FILE *maps = fopen("/proc/self/maps", "r");

	snprintf(path, PATH_MAX, "none");
	while (maps && fgets(line, sizeof line, maps)) {
		char *file = strchr(line, '/');
		if (file && strstr(file, "libfabric.so")) {
			file[strcspn(file, "\n")] = '\0';
			snprintf(path, PATH_MAX, "%s", file);
			break;
		}
	}
	if (maps)
		fclose(maps);
}

int main(int argc, char **argv)
{
	int rank, size, heard = 0, one = 1;
	char path[PATH_MAX];

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	loaded_library(path);
	printf("rank %d of %d on %s\n", rank, size, path);
	MPI_Reduce(&one, &heard, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("heard of %d ranks\n", heard);
	MPI_Finalize();
	return rank == 0 && heard != size ? EXIT_FAILURE : EXIT_SUCCESS;
}
