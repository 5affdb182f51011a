/* mpi_suite.c - the suite under mpirun; with an argument, a job in which the last rank goes wrong in that way. */
#include "suite.h"

#include <signal.h>
#include <unistd.h>

static zt_status die(zt_comm *c, bool by_signal)
{
    ZT_TRY(zt_comm_barrier(c));
    zt_comm_set_label(c, "step 3");
    if (zt_comm_rank(c) == zt_comm_size(c) - 1) {
        if (by_signal) (void)raise(SIGKILL);
        _exit(3);
    }
    return zt_comm_barrier(c);
}

static zt_status killed(zt_comm *c)
{
    return die(c, true);
}

static zt_status exits(zt_comm *c)
{
    return die(c, false);
}

static zt_status fails(zt_comm *c)
{
    ZT_TRY(zt_comm_barrier(c));
    if (zt_comm_rank(c) == zt_comm_size(c) - 1)
        return ZT_FAIL(ZT_ERR_NUMERIC, "rank %d has had enough", zt_comm_rank(c));
    return zt_comm_barrier(c);
}

static zt_status counts_differ(zt_comm *c)
{
    return call_other(c, OTHER_COUNT);
}

static zt_status calls_differ(zt_comm *c)
{
    zt_comm_set_checks(c, true);
    return call_other(c, OTHER_OP);
}

/* All agree to fail while much is under way: the job ends in order. */
static zt_status agreed(zt_comm *c)
{
    enum { COUNT = 8 << 20 };
    static float mine[COUNT];
    float *all = calloc((size_t)zt_comm_size(c), sizeof mine);
    zt_request *r = NULL;
    CHECK(all);
    ZT_TRY(zt_all_gather_start(c, mine, all, COUNT, ZT_F32, &r));
    const bool last = zt_comm_rank(c) == zt_comm_size(c) - 1;
    zt_status status = zt_comm_agree(c, last ? ZT_FAIL(ZT_ERR_IO, "the disk is full") : ZT_OK);
    CHECK(status != ZT_OK && zt_comm_speaker(c) == zt_comm_size(c) - 1);
    (void)printf("%s\n", zt_error_message());
    zt_comm_destroy(&c);
    free(all);
    exit(0);
}

static zt_status passes(zt_comm *c)
{
    ZT_TRY(whole_suite(c, NULL));
    zt_comm_set_checks(c, true);
    return whole_suite(c, NULL);
}

static const struct {
    const char *name;
    zt_status (*fn)(zt_comm *c);
} ways[] = {
    {"", passes},           {"kill", killed},          {"exit", exits},         {"error", fails},
    {"leave", leave_early}, {"counts", counts_differ}, {"calls", calls_differ}, {"agreed", agreed},
};

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    zt_comm *c = NULL;
    zt_status status = zt_comm_world(&argc, &argv, &c);
    for (size_t i = 0; i < sizeof ways / sizeof *ways && status == ZT_OK; i++)
        if (strcmp(ways[i].name, way) == 0) status = ways[i].fn(c);
    if (status != ZT_OK) {
        (void)fprintf(stderr, "%s\n", zt_error_message());
        (void)usleep(500000); /* for the peers' own words */
        zt_comm_abort(c, 1);
        return 1;
    }
    if (zt_comm_rank(c) == 0) (void)printf("%d ranks: passed\n", zt_comm_size(c));
    zt_comm_destroy(&c);
    return 0;
}
