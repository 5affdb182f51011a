/* suite.h - what every way of talking must do; run by threads as ranks and under MPI. Integer-valued floats make sums
 * exact, so that results are compared bit by bit. */
#ifndef ZT_TEST_COMM_H
#define ZT_TEST_COMM_H
#include "comm/comm.h"
#include "harness.h"

/* In a rank's thread a failed check must become a status: cmocka's jumps belong to the main thread. */
#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) return ZT_FAIL(ZT_ERR_ARG, "line %d: %s does not hold", __LINE__, #x);           \
    } while (0)

static const int64_t counts[] = {0, 1, 5, 17, 4096, 10007};
static const zt_dtype comm_types[] = {ZT_F32, ZT_BF16, ZT_F16};

/* Element i of rank r's buffer: a small whole number. */
static inline float whole(int r, int64_t i)
{
    return (float)((r * 7 + i * 3) % 23 - 11);
}

static inline zt_status all_gathers(zt_comm *c)
{
    const int n = zt_comm_size(c), me = zt_comm_rank(c);
    for (int k = 0; k < 6; k++)
        for (int t = 0; t < 3; t++)
            for (int in_place = 0; in_place < 2; in_place++) {
                const int64_t count = counts[k];
                const size_t size = zt_dtype_bytes(comm_types[t]);
                char *recv = calloc((size_t)(n * count) + 1, size),
                     *send = malloc((size_t)(count + 1) * size);
                char *mine = in_place ? recv + (size_t)(me * count) * size : send;
                zt_request *r = NULL;
                for (int64_t i = 0; i < count; i++)
                    zt_store_f32(mine, comm_types[t], i, whole(me, i));
                ZT_TRY(zt_all_gather_start(c, mine, recv, count, comm_types[t], &r));
                ZT_TRY(zt_wait(c, &r));
                CHECK(r == NULL);
                for (int64_t i = 0; i < n * count; i++)
                    CHECK(zt_load_f32(recv, comm_types[t], i) ==
                          whole((int)(i / count), i % count));
                free(recv);
                free(send);
            }
    return ZT_OK;
}

/* Against a loop in the order of ranks, also with values whose sum depends on the order. */
static inline zt_status reduce_scatters(zt_comm *c)
{
    const int n = zt_comm_size(c), me = zt_comm_rank(c);
    for (int k = 0; k < 6; k++)
        for (int t = 0; t < 3; t++)
            for (int variant = 0; variant < 4;
                 variant++) { /* plain, in place, to fp32, added in fp32 */
                const int64_t count = counts[k];
                const zt_dtype type = comm_types[t], to = variant >= 2 ? ZT_F32 : type;
                const size_t size = zt_dtype_bytes(type);
                char *send = malloc((size_t)(n * count + 1) * size),
                     *recv = malloc((size_t)(count + 1) * 4);
                void *work = malloc(zt_reduce_scatter_work(c, count, type) + 1);
                zt_rng g[8];
                for (int r = 0; r < n; r++)
                    g[r] = zt_rng_make((uint64_t)r, ZT_RNG_TEST, (uint32_t)k, 0);
                for (int64_t i = 0; i < n * count; i++)
                    zt_store_f32(send, type, i, zt_rng_normal(&g[me], (uint64_t)i));
                for (int64_t i = 0; i < count; i++)
                    zt_store_f32(recv, to, i, 0.25f);
                char *out = variant == 1 ? send + (size_t)(me * count) * size : recv;
                zt_request *r = NULL;
                ZT_TRY(
                    zt_reduce_scatter_start(c, send, out, count, type, to, variant == 3, work, &r));
                ZT_TRY(zt_wait(c, &r));
                for (int64_t i = 0; i < count; i++) {
                    float sum = 0;
                    char word[4];
                    for (int p = 0; p < n; p++) {
                        zt_store_f32(word, type, 0,
                                     zt_rng_normal(&g[p], (uint64_t)(me * count + i)));
                        sum = p ? sum + zt_load_f32(word, type, 0) : zt_load_f32(word, type, 0);
                    }
                    if (variant == 3) sum = 0.25f + sum;
                    zt_store_f32(word, to, 0, sum);
                    CHECK(memcmp(word, out + (size_t)i * zt_dtype_bytes(to), zt_dtype_bytes(to)) ==
                          0);
                }
                free(send);
                free(recv);
                free(work);
            }
    return ZT_OK;
}

/* More than a message holds: the sum is made piece by piece, in place and added to. */
static inline zt_status long_ones(zt_comm *c)
{
    const int n = zt_comm_size(c), me = zt_comm_rank(c);
    const int64_t count = (9 << 20) + 5; /* bf16: two messages and a bit */
    if (n > 3) return ZT_OK;
    uint16_t *send = malloc((size_t)(n * count) * 2), *mine = send + me * count;
    uint16_t *work = malloc(zt_reduce_scatter_work(c, count, ZT_BF16) + 1);
    float *sum = malloc((size_t)count * sizeof *sum);
    zt_request *r = NULL;
    CHECK(send && work && sum);
    for (int64_t i = 0; i < n * count; i++)
        send[i] = zt_f32_to_bf16(whole(me, i));
    for (int64_t i = 0; i < count; i++)
        sum[i] = 0.5f;
    zt_comm_counts_reset(c);
    ZT_TRY(zt_reduce_scatter_start(c, send, sum, count, ZT_BF16, ZT_F32, true, work, &r));
    ZT_TRY(zt_wait(c, &r));
    CHECK(zt_comm_counts(c)[ZT_COUNT_REDUCE].bytes == (n - 1) * count * 2);
    ZT_TRY(zt_reduce_scatter_start(c, send, mine, count, ZT_BF16, ZT_BF16, false, work, &r));
    ZT_TRY(zt_wait(c, &r));
    for (int64_t i = 0; i < count; i++) {
        float want = 0;
        for (int p = 0; p < n; p++)
            want += whole(p, me * count + i);
        CHECK(sum[i] == want + 0.5f && zt_bf16_to_f32(mine[i]) == want);
    }
    ZT_TRY(zt_all_gather_start(c, mine, send, count, ZT_BF16, &r));
    ZT_TRY(zt_wait(c, &r));
    for (int64_t i = 0; i < n * count; i += 1013) {
        float want = 0;
        for (int p = 0; p < n; p++)
            want += whole(p, i);
        CHECK(zt_bf16_to_f32(send[i]) == want);
    }
    free(send);
    free(work);
    free(sum);
    return ZT_OK;
}

/* Many at once, of different sizes, waited for in another order, with progress in between. */
static inline zt_status many_in_flight(zt_comm *c)
{
    enum { MANY = 12 };
    const int n = zt_comm_size(c), me = zt_comm_rank(c);
    zt_request *r[MANY] = {NULL};
    float *recv[MANY];
    for (int k = 0; k < MANY; k++) {
        const int64_t count = 1000 * (k + 1);
        recv[k] = malloc((size_t)(n * count) * sizeof(float));
        for (int64_t i = 0; i < count; i++)
            recv[k][me * count + i] = whole(me + k, i);
        ZT_TRY(zt_all_gather_start(c, recv[k] + me * count, recv[k], count, ZT_F32, &r[k]));
        ZT_TRY(zt_comm_progress(c));
    }
    for (int j = 0; j < MANY; j++) {
        const int k = j * 5 % MANY;
        const int64_t count = 1000 * (k + 1);
        ZT_TRY(zt_wait(c, &r[k]));
        for (int64_t i = 0; i < n * count; i++)
            CHECK(recv[k][i] == whole((int)(i / count) + k, i % count));
        free(recv[k]);
    }
    CHECK(zt_request_done(NULL));
    return ZT_OK;
}

static inline zt_status small_ones(zt_comm *c)
{
    const int n = zt_comm_size(c), me = zt_comm_rank(c);
    double x[2] = {me + 0.5, -me};
    int64_t y[300], top[2] = {me == n / 2 ? 100 : me, -me};
    for (int i = 0; i < 300; i++)
        y[i] = me * i;
    ZT_TRY(zt_all_reduce_sum_f64(c, x, 2));
    ZT_TRY(zt_all_reduce_sum_i64(c, y, 300));
    ZT_TRY(zt_all_reduce_max_i64(c, top, 2));
    const int64_t pairs = n * (n - 1) / 2;
    CHECK(x[0] == (double)pairs + 0.5 * n && x[1] == -(double)pairs);
    for (int i = 0; i < 300; i++)
        CHECK(y[i] == pairs * i);
    CHECK(top[0] == 100 && top[1] == 0);
    for (int root = 0; root < n; root++) {
        char text[32] = "?";
        if (me == root) (void)snprintf(text, sizeof text, "from %d", root);
        ZT_TRY(zt_broadcast(c, text, sizeof text, root));
        CHECK(atoi(text + 5) == root);
    }
    return zt_comm_barrier(c);
}

static inline zt_status counted(zt_comm *c)
{
    const int n = zt_comm_size(c);
    float *x = calloc((size_t)(n * 100), sizeof *x), *y = calloc(100, sizeof *y);
    void *work = malloc(zt_reduce_scatter_work(c, 100, ZT_F32) + 1);
    zt_request *r = NULL;
    zt_comm_counts_reset(c);
    ZT_TRY(zt_all_gather_start(c, y, x, 100, ZT_F32, &r));
    ZT_TRY(zt_wait(c, &r));
    ZT_TRY(zt_reduce_scatter_start(c, x, y, 100, ZT_F32, ZT_F32, false, work, &r));
    ZT_TRY(zt_wait(c, &r));
    for (int k = 0; k < 2; k++) {
        CHECK(zt_comm_counts(c)[k].elements == (n - 1) * 100);
        CHECK(zt_comm_counts(c)[k].bytes == (n - 1) * 400);
        CHECK(zt_comm_counts(c)[k].messages == n - 1);
    }
    free(x);
    free(y);
    free(work);
    return ZT_OK;
}

static inline zt_status agreements(zt_comm *c)
{
    const int n = zt_comm_size(c), me = zt_comm_rank(c);
    CHECK(zt_comm_agree(c, ZT_OK) == ZT_OK);
    for (int bad = 0; bad < n; bad++) {
        zt_status mine = me >= bad ? ZT_FAIL(ZT_ERR_IO, "disk %d is full", me) : ZT_OK;
        zt_status got = zt_comm_agree(c, mine);
        char want[64];
        (void)snprintf(want, sizeof want, "disk %d is full", me >= bad ? me : bad);
        CHECK(got == (me >= bad ? ZT_ERR_IO : ZT_ERR_PEER) && strstr(zt_error_message(), want));
    }
    CHECK(zt_comm_check_same(c, "the text", "same", 4) == ZT_OK);
    char differs[2] = {me == n - 1 ? 'x' : 'y', 0};
    zt_status got = zt_comm_check_same(c, "the text", differs, 1);
    CHECK(n == 1 ? got == ZT_OK : got == ZT_ERR_CONFIG && strstr(zt_error_message(), "the text"));
    return ZT_OK;
}

/* ---- what must fail: on every rank, soon, with a message that tells who and what ---- */

/* The last rank calls something else than the others. */
typedef enum { OTHER_COUNT, OTHER_TYPE, OTHER_OP, OTHER_ROOT, OTHERS } other_call;
static const char *const other_text[OTHERS][2] = {
    {"all_gather (8 x fp32)", "all_gather (16 x fp32)"},
    {"all_gather (8 x fp32)", "all_gather (8 x bf16)"},
    {"all_gather (8 x fp32)", "barrier (1 bytes)"},
    {"broadcast (8 bytes from rank 0)", "broadcast (8 bytes from rank 1)"},
};

static inline zt_status call_other(zt_comm *c, other_call how)
{
    const bool last = zt_comm_rank(c) == zt_comm_size(c) - 1;
    float *x = calloc((size_t)zt_comm_size(c), 16 * sizeof *x), y[16] = {0};
    zt_request *r = NULL;
    zt_status status = x ? ZT_OK : ZT_NOMEM();
    if (status == ZT_OK && how == OTHER_ROOT)
        status = zt_broadcast(c, x, 8, last);
    else if (status == ZT_OK && how == OTHER_OP && last)
        status = zt_comm_barrier(c);
    else if (status == ZT_OK)
        status = zt_all_gather_start(c, y, x, how == OTHER_COUNT && last ? 16 : 8,
                                     how == OTHER_TYPE && last ? ZT_BF16 : ZT_F32, &r);
    if (status == ZT_OK) status = zt_wait(c, &r);
    free(x);
    return status;
}

/* The last rank ends in order while the others wait for it. */
static inline zt_status leave_early(zt_comm *c)
{
    ZT_TRY(zt_comm_barrier(c));
    zt_comm_set_label(c, "step 3");
    return zt_comm_rank(c) == zt_comm_size(c) - 1 ? ZT_OK : zt_comm_barrier(c);
}

static inline zt_status whole_suite(zt_comm *c, void *arg)
{
    (void)arg;
    ZT_TRY(all_gathers(c));
    ZT_TRY(reduce_scatters(c));
    ZT_TRY(many_in_flight(c));
    ZT_TRY(long_ones(c));
    ZT_TRY(small_ones(c));
    ZT_TRY(counted(c));
    return agreements(c);
}
#endif
