/* bench_comm.c - both collectives beside MPI's own, in one run and in turn:
 *     mpirun -n 2 bench_comm [MiB, default 64] [rounds, default 15]
 * GB/s is the bytes of the whole buffer by the time of the slowest rank; median and best of the rounds. Reductions are
 * measured as the engine uses them: bf16 and fp16 into fp32 as well. */
#include "comm/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#if defined(__has_include)
#if __has_include(<mpi.h>)
#include <mpi.h>
#define HAS_MPI 1
#endif
#endif

typedef struct {
    zt_comm *comm;
    size_t bytes;
    char *whole, *mine, *work;
} bench;

typedef zt_status bench_fn(const bench *b);

static zt_status gather(const bench *b)
{
    const int64_t count = (int64_t)b->bytes / zt_comm_size(b->comm) / 4;
    zt_request *r = NULL;
    ZT_TRY(zt_all_gather_start(b->comm, b->mine, b->whole, count, ZT_F32, &r));
    return zt_wait(b->comm, &r);
}

static zt_status reduce(const bench *b, zt_dtype type)
{
    const int64_t count = (int64_t)b->bytes / zt_comm_size(b->comm) / (int64_t)zt_dtype_bytes(type);
    zt_request *r = NULL;
    ZT_TRY(zt_reduce_scatter_start(b->comm, b->whole, b->mine, count, type, ZT_F32, false, b->work,
                                   &r));
    return zt_wait(b->comm, &r);
}

static zt_status reduce_f32(const bench *b)
{
    return reduce(b, ZT_F32);
}

static zt_status reduce_bf16(const bench *b)
{
    return reduce(b, ZT_BF16);
}

static zt_status reduce_f16(const bench *b)
{
    return reduce(b, ZT_F16);
}

#ifdef HAS_MPI
static zt_status gather_mpi(const bench *b)
{
    const int count = (int)(b->bytes / 4) / zt_comm_size(b->comm);
    int rc = MPI_Allgather(b->mine, count, MPI_FLOAT, b->whole, count, MPI_FLOAT, MPI_COMM_WORLD);
    return rc == MPI_SUCCESS ? ZT_OK : ZT_FAIL(ZT_ERR_COMM, "MPI_Allgather failed");
}

static zt_status reduce_mpi(const bench *b)
{
    const int count = (int)(b->bytes / 4) / zt_comm_size(b->comm);
    int rc = MPI_Reduce_scatter_block(b->whole, b->mine, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return rc == MPI_SUCCESS ? ZT_OK : ZT_FAIL(ZT_ERR_COMM, "MPI_Reduce_scatter_block failed");
}
#endif

static const struct {
    const char *name;
    bench_fn *fn;
    bool is_mpi;
} rows[] = {
    {"all_gather fp32", gather, false},
#ifdef HAS_MPI
    {"MPI_Allgather", gather_mpi, true},
#endif
    {"reduce_scatter fp32", reduce_f32, false},
#ifdef HAS_MPI
    {"MPI_Reduce_scatter", reduce_mpi, true},
#endif
    {"reduce_scatter bf16>fp32", reduce_bf16, false},
    {"reduce_scatter fp16>fp32", reduce_f16, false},
};
enum { ROWS = sizeof rows / sizeof *rows, ROUNDS = 1000 };

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Touched, and on huge pages where the system gives them: a fresh page costs more than the copy. */
static char *room(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    (void)madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 0, bytes);
    return p;
}

static zt_status measure(const bench *b, int rounds, bool has_mpi)
{
    static double seconds[ROWS][ROUNDS];
    for (int i = -2; i < rounds; i++) /* two to warm up */
        for (int k = 0; k < ROWS; k++) {
            if (rows[k].is_mpi && !has_mpi) continue;
            ZT_TRY(zt_comm_barrier(b->comm));
            double start = zt_now();
            ZT_TRY(rows[k].fn(b));
            int64_t ns = (int64_t)((zt_now() - start) * 1e9);
            ZT_TRY(zt_all_reduce_max_i64(b->comm, &ns, 1));
            if (i >= 0) seconds[k][i] = (double)ns * 1e-9;
        }
    if (zt_comm_rank(b->comm) != 0) return ZT_OK;
    (void)printf("%d ranks, %s, %zu MiB, %d rounds\n%-26s %8s %8s  GB/s\n", zt_comm_size(b->comm),
                 zt_comm_transport(b->comm), b->bytes >> 20, rounds, "", "median", "best");
    for (int k = 0; k < ROWS; k++) {
        if (rows[k].is_mpi && !has_mpi) continue;
        qsort(seconds[k], (size_t)rounds, sizeof **seconds, by_value);
        (void)printf("%-26s %8.2f %8.2f\n", rows[k].name,
                     (double)b->bytes * 1e-9 / seconds[k][rounds / 2],
                     (double)b->bytes * 1e-9 / seconds[k][0]);
    }
    return ZT_OK;
}

int main(int argc, char **argv)
{
    zt_comm *comm = NULL;
    zt_status status = zt_comm_world(&argc, &argv, &comm);
    if (status == ZT_OK) {
        const int mib = argc > 1 ? atoi(argv[1]) : 64, rounds = argc > 2 ? atoi(argv[2]) : 15;
        bench b = {.comm = comm, .bytes = (size_t)(mib > 0 ? mib : 64) << 20};
        b.whole = room(b.bytes);
        b.mine = room(2 * b.bytes); /* a 16-bit buffer doubles as it becomes fp32 */
        b.work = room(b.bytes);
        status = b.whole && b.mine && b.work ? ZT_OK : ZT_NOMEM();
        const bool has_mpi = strncmp(zt_comm_transport(comm), "MPI", 3) == 0;
        if (status == ZT_OK)
            status = measure(&b, rounds > 0 && rounds < ROUNDS ? rounds : 15, has_mpi);
    }
    if (status != ZT_OK) {
        (void)fprintf(stderr, "%s\n", zt_error_message());
        if (comm) zt_comm_abort(comm, 1);
    }
    zt_comm_destroy(&comm);
    return status == ZT_OK ? 0 : 1;
}
