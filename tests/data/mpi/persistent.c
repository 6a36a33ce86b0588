/* What MPI 4 added: persistent collectives, partitioned messages, and with the argument `session` no
   MPI_Init. Rank 1 is late by 30 ms before each. Prints a sum that must not change. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STARTS = 4, PARTS = 2 };
static int rank, size;
static void late(void) { if (rank == 1) usleep(30000); }

int main(int argc, char **argv)
{
    int by_session = argc > 1 && !strcmp(argv[1], "session");
    double out[64], in[64], total = 0, all = 0;
    MPI_Session session;
    MPI_Comm comm;
    MPI_Request sums, barrier, part;
    if (by_session) {
        MPI_Group group;
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
        MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
        MPI_Comm_create_from_group(group, "tests", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
        MPI_Group_free(&group);
    } else {
        MPI_Init(&argc, &argv);
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    }
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < 64; i++) out[i] = rank + i;

    MPI_Allreduce_init(out, in, 64, MPI_DOUBLE, MPI_SUM, comm, MPI_INFO_NULL, &sums);
    MPI_Barrier_init(comm, MPI_INFO_NULL, &barrier);
    for (int i = 0; i < STARTS; i++) {
        late(); MPI_Start(&sums); MPI_Wait(&sums, MPI_STATUS_IGNORE); total += in[i];
        late(); MPI_Start(&barrier); MPI_Wait(&barrier, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&sums);
    MPI_Request_free(&barrier);

    if (size > 1 && rank < 2) {
        int other = 1 - rank;
        if (rank == 1) MPI_Psend_init(out, PARTS, 32, MPI_DOUBLE, other, 0, comm, MPI_INFO_NULL, &part);
        else MPI_Precv_init(in, PARTS, 32, MPI_DOUBLE, other, 0, comm, MPI_INFO_NULL, &part);
        for (int i = 0; i < STARTS; i++) {
            MPI_Start(&part);
            late();
            if (rank == 1) for (int at = 0; at < PARTS; at++) MPI_Pready(at, part);
            MPI_Wait(&part, MPI_STATUS_IGNORE);
            if (rank == 0) total += in[i];
        }
        MPI_Request_free(&part);
    }
    MPI_Allreduce(&total, &all, 1, MPI_DOUBLE, MPI_SUM, comm);
    if (rank == 0) printf("sum %.3f\n", all);
    MPI_Comm_free(&comm);
    if (by_session) MPI_Session_finalize(&session);
    else MPI_Finalize();
    return 0;
}
