/* test_threads.c - the suite with threads as ranks, and what happens when one of them fails or is late. */
#include "suite.h"

#include <sched.h>
#include <stdatomic.h>

static void suite(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 5, 7};
    for (int i = 0; i < 6; i++)
        OK(zt_comm_run_threads(sizes[i], whole_suite, NULL));
}

static void single(void **state)
{
    (void)state;
    zt_comm *c;
    OK(zt_comm_self(&c));
    OK(whole_suite(c, NULL));
    zt_comm_destroy(&c);
    zt_comm_destroy(&c);
}

/* A rank that ends with an error ends its peers, who wait for it, and its error is the one that is told. */
static zt_status one_fails(zt_comm *c, void *arg)
{
    const int bad = *(int *)arg;
    for (int i = 0; i < 5; i++)
        ZT_TRY(zt_comm_barrier(c));
    zt_comm_set_label(c, "step 6");
    if (zt_comm_rank(c) == bad) return ZT_FAIL(ZT_ERR_NUMERIC, "rank %d has had enough", bad);
    zt_status status = zt_comm_barrier(c);
    CHECK(status == ZT_ERR_PEER && strstr(zt_error_message(), "step 6"));
    return status;
}

static void failing_rank(void **state)
{
    (void)state;
    for (int bad = 0; bad < 3; bad++) {
        char want[40];
        (void)snprintf(want, sizeof want, "rank %d has had enough", bad);
        FAILS(zt_comm_run_threads(3, one_fails, &bad), ZT_ERR_NUMERIC, want);
    }
}

static zt_status one_is_silent(zt_comm *c, void *arg)
{
    (void)arg;
    zt_comm_set_timeout(c, 0.3);
    zt_comm_set_label(c, "step 9");
    if (zt_comm_rank(c) == 1) { /* waits for the others to give up */
        for (double end = zt_now() + 20; zt_now() < end;)
            if (zt_comm_progress(c) != ZT_OK || zt_now() > end - 18) break;
        return ZT_OK;
    }
    return zt_comm_barrier(c);
}

static void silent_rank(void **state)
{
    (void)state;
    FAILS(zt_comm_run_threads(2, one_is_silent, NULL), ZT_ERR_PEER,
          "rank 0 waits for rank 1 in barrier, step 9");
}

static zt_status sizes_differ(zt_comm *c, void *arg)
{
    (void)arg;
    zt_status status = call_other(c, OTHER_COUNT);
    CHECK(status == ZT_ERR_COMM || status == ZT_ERR_PEER);
    return status;
}

static void mismatched_sizes(void **state)
{
    (void)state;
    FAILS(zt_comm_run_threads(2, sizes_differ, NULL), ZT_ERR_COMM, "they do not call the same");
}

/* With full checks every rank says what it and the other call. */
static zt_status calls_differ(zt_comm *c, void *arg)
{
    const other_call how = *(const other_call *)arg;
    const bool last = zt_comm_rank(c) == zt_comm_size(c) - 1;
    zt_comm_set_checks(c, true);
    zt_comm_set_label(c, "step 7");
    ZT_TRY(zt_comm_barrier(c));
    zt_status status = call_other(c, how);
    char want[160];
    (void)snprintf(want, sizeof want, "calls %s where rank %d calls %s, step 7",
                   other_text[how][last], last ? 0 : zt_comm_size(c) - 1, other_text[how][!last]);
    if (status == ZT_ERR_PEER) return status; /* was told by a peer that had seen it first */
    if (status != ZT_ERR_COMM || !strstr(zt_error_message(), want))
        return ZT_FAIL(ZT_ERR_ARG, "\"%s\" does not say \"%s\"", zt_error_message(), want);
    return status;
}

static void mismatched_calls(void **state)
{
    (void)state;
    for (other_call how = 0; how < OTHERS; how++)
        for (int n = 2; n <= 3; n++) /* the last rank's root is 1, its place only of two */
            FAILS(zt_comm_run_threads(n, calls_differ, &how), ZT_ERR_COMM, "step 7");
}

static zt_status checked_suite(zt_comm *c, void *arg)
{
    zt_comm_set_checks(c, true);
    return whole_suite(c, arg);
}

static void full_checks(void **state)
{
    (void)state;
    for (int n = 2; n <= 4; n++)
        OK(zt_comm_run_threads(n, checked_suite, NULL));
}

static zt_status leaves_early(zt_comm *c, void *arg)
{
    (void)arg;
    return leave_early(c);
}

static void rank_that_leaves(void **state)
{
    (void)state;
    FAILS(zt_comm_run_threads(2, leaves_early, NULL), ZT_ERR_PEER,
          "rank 0 waits for rank 1 in barrier, step 3, but it has already ended");
}

/* Rank 1 fails; rank 0 waited for it and takes its buffers away; rank 2 comes late and must not read them. */
static zt_status takes_away(zt_comm *c, void *arg)
{
    atomic_bool *away = arg;
    const int me = zt_comm_rank(c);
    if (me == 1) return ZT_FAIL(ZT_ERR_NUMERIC, "not a number");
    while (me == 2 && !atomic_load(away))
        (void)sched_yield();
    char *mine = malloc(1000), *all = malloc(3000);
    CHECK(mine && all);
    memset(mine, me, 1000);
    zt_status status = zt_all_gather_bytes(c, mine, all, 1000);
    free(mine);
    free(all);
    if (me == 0) atomic_store(away, true);
    CHECK(status == ZT_ERR_PEER);
    return status;
}

static void buffers_taken_away(void **state)
{
    (void)state;
    atomic_bool away = false;
    FAILS(zt_comm_run_threads(3, takes_away, &away), ZT_ERR_NUMERIC, "not a number");
}

static zt_status many_small(zt_comm *c)
{
    float x[8] = {0}, y[4] = {0}, sums[8] = {0}, z[4], work[4];
    char mine = 'x', all[2];
    zt_request *a = NULL, *b = NULL;
    zt_status status = zt_all_gather_start(c, y, x, 4, ZT_F32, &a);
    if (status == ZT_OK)
        status = zt_reduce_scatter_start(c, sums, z, 4, ZT_F32, ZT_F32, false, work, &b);
    if (status == ZT_OK) status = zt_wait(c, &b);
    if (status == ZT_OK) status = zt_wait(c, &a);
    if (status == ZT_OK) status = zt_all_gather_bytes(c, &mine, all, 1);
    if (status == ZT_OK) status = zt_comm_agree(c, ZT_OK);
    zt_comm_call_off(c); /* before its buffers end with this call */
    return status;
}

static zt_status fails_in_flight(zt_comm *c, void *arg)
{
    enum { COUNT = 1000 };
    atomic_bool *away = arg;
    const int me = zt_comm_rank(c), n = zt_comm_size(c);
    while (me == 1 && !atomic_load(away))
        (void)sched_yield();
    float *mine = calloc(COUNT, sizeof *mine), *all = calloc((size_t)(n * COUNT), sizeof *all);
    zt_request *r = NULL;
    zt_status status = mine && all ? ZT_OK : ZT_NOMEM();
    if (status == ZT_OK) status = zt_all_gather_start(c, mine, all, COUNT, ZT_F32, &r);
    if (status == ZT_OK && me == 0) status = ZT_FAIL(ZT_ERR_NUMERIC, "not a number");
    if (status == ZT_OK) status = zt_wait(c, &r);
    zt_comm_call_off(c);
    free(mine);
    free(all);
    if (me == 0) atomic_store(away, true);
    return status;
}

/* Rank 0 fails with a request in flight: rank 1 must not find what it has called off. */
static void called_off(void **state)
{
    (void)state;
    atomic_bool away = false;
    FAILS(zt_comm_run_threads(2, fails_in_flight, &away), ZT_ERR_NUMERIC, "not a number");
}

/* Every allocation of rank 1 fails once: both ranks end, and nothing is lost. */
static zt_status short_of_memory(zt_comm *c, void *arg)
{
    const bool short_one = zt_comm_rank(c) == 1;
    zt_comm_set_checks(c, true);
    if (short_one) zt_fault_alloc(*(int *)arg);
    zt_status status = many_small(c);
    if (short_one) zt_fault_alloc(-1);
    return status;
}

static void memory_runs_out(void **state)
{
    (void)state;
    int nth = 1;
    zt_status status = ZT_ERR_NOMEM;
    for (; status == ZT_ERR_NOMEM && nth < 1000; nth++)
        status = zt_comm_run_threads(2, short_of_memory, &nth);
    OK(status);
    assert_true(nth > 3);
}

static void no_ranks(void **state)
{
    (void)state;
    FAILS(zt_comm_run_threads(0, whole_suite, NULL), ZT_ERR_ARG, "at least one");
}

static void pretended_hosts(void **state)
{
    (void)state;
    assert_int_equal(setenv("ZT_NODE_SIZE", "2", 1), 0);
    OK(zt_comm_run_threads(4, whole_suite, NULL));
    assert_int_equal(unsetenv("ZT_NODE_SIZE"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(suite),
        cmocka_unit_test(single),
        cmocka_unit_test(failing_rank),
        cmocka_unit_test(silent_rank),
        cmocka_unit_test(mismatched_sizes),
        cmocka_unit_test(mismatched_calls),
        cmocka_unit_test(full_checks),
        cmocka_unit_test(rank_that_leaves),
        cmocka_unit_test(buffers_taken_away),
        cmocka_unit_test(called_off),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(no_ranks),
        cmocka_unit_test(pretended_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
