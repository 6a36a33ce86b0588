/* An MPI program whose last rank ends as the first argument says. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank, value = 1, sum;
    const char *how = argc > 1 ? argv[1] : "well";
    if (!strcmp(how, "parallel") && !strcmp(argv[2], "1")) { usleep(300000); return 0; }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 50; i++) {
        volatile double x = 0;
        for (int j = 1; j < 200000; j++) x += 1.0 / j;
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    int last; MPI_Comm_size(MPI_COMM_WORLD, &last); last = rank == last - 1;
    if (last && !strcmp(how, "abort")) MPI_Abort(MPI_COMM_WORLD, 7);
    if (last && !strcmp(how, "exit")) { fprintf(stderr, "solver error: no convergence\n"); exit(3); }
    if (last && !strcmp(how, "leave")) exit(0);
    if (last && !strcmp(how, "segv")) { int *volatile p = 0; *p = 1; }
    if (last && !strcmp(how, "hang")) for (;;) sleep(1);
    MPI_Finalize();
    return 0;
}
