/* Further calls, each with a result that is checked; rank 1 is late by 30 ms before each. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static int rank, good = 1;
static void late(void)
{
    if (rank == 1) usleep(30000);
}
static void expect(int value, int wanted)
{
    good = good && value == wanted;
}
int main(int argc, char **argv)
{
    int size, sum, all[8] = {0}, counts[8], places[8], done = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < size; i++) counts[i] = 1, places[i] = i;
    MPI_Request request;
    int one = rank + 1;
    late();
    MPI_Igatherv(&one, 1, MPI_INT, all, counts, places, MPI_INT, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == 0) expect(all[size - 1], size);
    late();
    MPI_Iscatterv(all, counts, places, MPI_INT, &sum, 1, MPI_INT, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(sum, one);
    MPI_Iscan(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    while (!done) MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(sum, (rank + 1) * (rank + 2) / 2);
    MPI_Comm copy, group_comm, ring;
    MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    late();
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copy);
    expect(sum, size * (size + 1) / 2);
    MPI_Group group;
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Comm_create_group(MPI_COMM_WORLD, group, 5, &group_comm);
    MPI_Bcast(&sum, 1, MPI_INT, 0, group_comm);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, (int[]){1}, 0, &ring);
    MPI_Ineighbor_allgather(&one, 1, MPI_INT, all, 1, MPI_INT, ring, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(all[0], (rank + size - 1) % size + 1);
    MPI_File file;
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_iwrite_at(file, rank * sizeof one, &one, 1, MPI_INT, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_File_read_at_all_begin(file, rank * sizeof one, &sum, 1, MPI_INT);
    MPI_File_read_at_all_end(file, &sum, MPI_STATUS_IGNORE);
    expect(sum, one);
    MPI_File_close(&file);
    MPI_Group_free(&group);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&group_comm);
    MPI_Comm_free(&ring);
    MPI_Reduce(&good, &sum, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%s\n", sum ? "all as expected" : "WRONG");
    MPI_Finalize();
    return 0;
}
