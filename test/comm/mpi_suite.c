/* mpi_suite.c - the suite under mpirun; with an argument rank N-1 dies as the argument says: "kill", "exit" or "error". */
#include "suite.h"

#include <signal.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    zt_comm *c = NULL;
    zt_status status = zt_comm_world(&argc, &argv, &c);
    if (status == ZT_OK) status = whole_suite(c, NULL);
    if (status == ZT_OK && argc > 1) {
        zt_comm_set_label(c, "step 3");
        if (zt_comm_rank(c) == zt_comm_size(c) - 1) {
            if (strcmp(argv[1], "kill") == 0) (void)raise(SIGKILL);
            _exit(3);
        }
        status = zt_comm_barrier(c);
    }
    if (status != ZT_OK) {
        (void)fprintf(stderr, "%s\n", zt_error_message());
        zt_comm_abort(c, 1);
        return 1;
    }
    if (zt_comm_rank(c) == 0) (void)printf("%d ranks: passed\n", zt_comm_size(c));
    zt_comm_destroy(&c);
    return 0;
}
