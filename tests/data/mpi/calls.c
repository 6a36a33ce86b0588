/* Every class of MPI call, with known waits: rank 1 is late by 30 ms before each. Prints a sum that
   must not change when the calls are looked into. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int rank, size;
static void late(void) { if (rank == 1) usleep(30000); }

int main(int argc, char **argv)
{
    double out[64], in[64 * 8], sum = 0;
    MPI_Request requests[2];
    MPI_Status status;
    int provided, flag = 0, index;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    memset(in, 0, sizeof in);
    for (int i = 0; i < 64; i++) out[i] = rank + i;
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Comm pair, copy;
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair);
    MPI_Comm_dup(pair, &copy);
    MPI_Pcontrol(1);

    late(); MPI_Allreduce(out, in, 64, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); sum += in[3];
    late(); MPI_Barrier(copy);
    late(); MPI_Bcast(in, 64, MPI_DOUBLE, 1, MPI_COMM_WORLD); sum += in[1];
    late(); MPI_Alltoall(out, 8, MPI_DOUBLE, in, 8, MPI_DOUBLE, MPI_COMM_WORLD); sum += in[2];
    late(); MPI_Gather(rank ? out : MPI_IN_PLACE, 8, rank ? MPI_DOUBLE : MPI_DATATYPE_NULL, in, 8, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Iallreduce(out, in, 64, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, requests);
    late(); MPI_Wait(requests, MPI_STATUS_IGNORE); sum += in[5];

    MPI_Irecv(in, 64, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, requests);
    late(); MPI_Isend(out, 64, MPI_DOUBLE, next, 5, MPI_COMM_WORLD, requests + 1);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE); sum += in[7];
    late(); MPI_Sendrecv(out, 64, MPI_DOUBLE, next, 1, in, 64, MPI_DOUBLE, before, 1, MPI_COMM_WORLD, &status);
    sum += in[9] + status.MPI_SOURCE;
    late(); if (rank == 1) MPI_Ssend(out, 64, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD);
    if (rank == 0) { MPI_Probe(1, 2, MPI_COMM_WORLD, &status); MPI_Recv(in, 64, MPI_DOUBLE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE); sum += in[0]; }
    MPI_Send_init(out, 64, MPI_DOUBLE, next, 3, MPI_COMM_WORLD, requests);
    MPI_Recv_init(in, 64, MPI_DOUBLE, before, 3, MPI_COMM_WORLD, requests + 1);
    for (int i = 0; i < 2; i++) {
        late(); MPI_Startall(2, requests);
        MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
        while (!flag) MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
        flag = 0; sum += in[11];
    }
    MPI_Request_free(requests); MPI_Request_free(requests + 1);

    double *window; MPI_Win win;
    MPI_Win_allocate(64 * sizeof(double), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
    MPI_Win_fence(0, win);
    late(); MPI_Put(out, 64, MPI_DOUBLE, next, 0, 64, MPI_DOUBLE, win);
    MPI_Win_fence(0, win); sum += window[4];
    MPI_Win_free(&win);

    MPI_File file;
    if (argc > 1 && MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) == MPI_SUCCESS) {
        MPI_File_write_at_all(file, rank * 512, out, 64, MPI_DOUBLE, &status);
        MPI_File_read_at_all(file, next * 512, in, 64, MPI_DOUBLE, &status); sum += in[6];
        MPI_File_close(&file);
    }
    MPI_Pcontrol(0);
    usleep(50000);
    MPI_Comm_free(&copy); MPI_Comm_free(&pair);
    double all = 0;
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("sum %.3f\n", all);
    MPI_Finalize();
    return 0;
}
