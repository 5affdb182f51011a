/* mpi.c - ranks as processes under MPI, and the world of the job. */
#include "comm/transport.h"

#include <stdio.h>
#include <stdlib.h>

/* What launchers tell the processes that they start: a name, and whether it holds the number of ranks. */
static const struct {
    const char *name;
    bool is_size;
} launcher[] = {
    {"OMPI_COMM_WORLD_SIZE", true}, {"PMI_SIZE", true},     {"SLURM_STEP_NUM_TASKS", true},
    {"MV2_COMM_WORLD_SIZE", true},  {"PMIX_RANK", false},   {"PMI_RANK", false},
    {"SLURM_PROCID", false},        {"PALS_RANKID", false},
};

/* Ranks that a launcher promises; 1 when one is there that does not say; 0 without a launcher. */
static int promised_ranks(void)
{
    int ranks = 0;
    for (size_t i = 0; i < sizeof launcher / sizeof *launcher; i++) {
        const char *value = getenv(launcher[i].name);
        int n = !value ? 0 : launcher[i].is_size ? atoi(value) : 1;
        ranks = n > ranks ? n : ranks;
    }
    return ranks;
}

#ifndef ZT_MPI
zt_status zt_comm_world(int *argc, char ***argv, zt_comm **out)
{
    (void)argc;
    (void)argv;
    int n = promised_ranks();
    if (n > 1)
        return ZT_FAIL(
            ZT_ERR_CONFIG,
            "the launcher started %d ranks, but this program was built without MPI: each "
            "would train alone; build with -DZT_MPI=ON",
            n);
    return zt_comm_self(out);
}
#else
#include <mpi.h>

enum { BYE = ZT_TAGS }; /* the tag by which a rank says that it has ended */

static zt_status check(const zt_comm *c, int rc, const char *op, const char *what, int peer)
{
    if (rc == MPI_SUCCESS) return ZT_OK;
    char text[MPI_MAX_ERROR_STRING];
    int n = 0;
    (void)MPI_Error_string(rc, text, &n);
    return ZT_FAIL(ZT_ERR_COMM, "rank %d, %s%s%s: MPI failed to %s rank %d: %.*s", c->rank, op,
                   c->label[0] ? ", " : "", c->label, what, peer, n, text);
}

/* MPI_Request is a pointer in Open MPI and a number in MPICH; a message has room for either. */
_Static_assert(sizeof(MPI_Request) <= sizeof(void *), "a request fits");

static zt_status start(zt_comm *c, zt_message *m)
{
    MPI_Request r;
    int rc = m->is_send
                 ? MPI_Isend(m->data, (int)m->bytes, MPI_BYTE, m->peer, m->tag, MPI_COMM_WORLD, &r)
                 : MPI_Irecv(m->data, (int)m->bytes, MPI_BYTE, m->peer, m->tag, MPI_COMM_WORLD, &r);
    memcpy(&m->handle, &r, sizeof r);
    return check(c, rc, m->op, m->is_send ? "start sending to" : "start receiving from", m->peer);
}

static zt_status test(zt_comm *c, zt_message *m)
{
    MPI_Request r;
    MPI_Status s;
    int flag = 0, got = 0;
    memcpy(&r, &m->handle, sizeof r);
    int rc = MPI_Test(&r, &flag, &s);
    memcpy(&m->handle, &r, sizeof r);
    int class = MPI_SUCCESS;
    m->done = flag != 0 || rc != MPI_SUCCESS; /* an error ends a request, too */
    if (rc != MPI_SUCCESS) (void)MPI_Error_class(rc, &class);
    if (class == MPI_ERR_TRUNCATE) return zt_comm_wrong_size(c, m, 0);
    ZT_TRY(check(c, rc, m->op, m->is_send ? "send to" : "receive from", m->peer));
    if (m->done && !m->is_send && MPI_Get_count(&s, MPI_BYTE, &got) == MPI_SUCCESS &&
        (size_t)got != m->bytes)
        return zt_comm_wrong_size(c, m, (size_t)got);
    return ZT_OK;
}

/* What is being sent stays under way until MPI ends; a receive is called off if nothing has come yet. */
static void drop(zt_comm *c, zt_message *m)
{
    (void)c;
    MPI_Request r;
    memcpy(&r, &m->handle, sizeof r);
    if (!m->is_send) (void)MPI_Cancel(&r);
    (void)MPI_Request_free(&r);
}

static int gone(zt_comm *c, int peer, bool *has_failed)
{
    (void)c;
    (void)has_failed; /* the launcher ends the job when a process dies */
    int flag = 0;
    int rc = MPI_Iprobe(peer, BYE, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    return rc == MPI_SUCCESS && flag ? peer : -1;
}

/* Says so to all, waits until all have said it, and ends MPI. */
static void destroy(zt_comm *c)
{
    MPI_Request *r = zt_calloc(2 * (size_t)c->size, sizeof *r);
    int n = 0, all = 0;
    for (int p = 0; r && p < c->size; p++) {
        if (p == c->rank) continue;
        (void)MPI_Isend(NULL, 0, MPI_BYTE, p, BYE, MPI_COMM_WORLD, &r[n++]);
        (void)MPI_Irecv(NULL, 0, MPI_BYTE, p, BYE, MPI_COMM_WORLD, &r[n++]);
    }
    for (unsigned round = 0; n > 0 && !all; round++) {
        if (MPI_Testall(n, r, &all, MPI_STATUSES_IGNORE) != MPI_SUCCESS) break;
        zt_comm_pause(round);
    }
    zt_free(r);
    (void)MPI_Finalize();
}

static void abort_job(zt_comm *c, int exit_code)
{
    (void)c;
    (void)MPI_Abort(MPI_COMM_WORLD, exit_code);
}

static const zt_transport mpi = {start, test, drop, destroy, abort_job, gone};

/* The lowest rank of each rank's host. */
static zt_status find_hosts(zt_comm *c)
{
    MPI_Comm host;
    int lowest = c->rank, all = 0, *node = zt_calloc((size_t)c->size, sizeof *node);
    if (!node) return ZT_NOMEM();
    int rc =
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, c->rank, MPI_INFO_NULL, &host);
    if (rc == MPI_SUCCESS) rc = MPI_Allreduce(&lowest, &all, 1, MPI_INT, MPI_MIN, host);
    if (rc == MPI_SUCCESS) rc = MPI_Allgather(&all, 1, MPI_INT, node, 1, MPI_INT, MPI_COMM_WORLD);
    if (rc == MPI_SUCCESS) rc = MPI_Comm_free(&host);
    if (rc == MPI_SUCCESS) zt_comm_set_nodes(c, node);
    zt_free(node);
    return check(c, rc, "start", "learn who shares a host with", c->rank);
}

zt_status zt_comm_world(int *argc, char ***argv, zt_comm **out)
{
    const int promised = promised_ranks();
    if (promised == 0) /* started by hand: one rank, and no daemons of MPI */
        return zt_comm_self(out);
    int provided, rank, size;
    if (MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        return ZT_FAIL(ZT_ERR_COMM, "MPI does not start");
    (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (promised > 1 && size == 1) {
        (void)MPI_Finalize();
        return ZT_FAIL(
            ZT_ERR_CONFIG,
            "the launcher started %d ranks, but MPI knows of one: each would train alone; "
            "use the mpirun of the MPI that this program was built with, or srun --mpi=pmix",
            promised);
    }
    ZT_TRY(zt_comm_make(&mpi, NULL, rank, size, out));
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int n = 0;
    (void)MPI_Get_library_version(version, &n);
    (void)snprintf((*out)->name, ZT_NAME, "MPI (%.*s)", (int)strcspn(version, ",\n"), version);
    return find_hosts(*out);
}
#endif
