/* test_threads.c - the suite with threads as ranks, and what happens when one of them fails or is late. */
#include "suite.h"

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
    float x[64] = {0};
    zt_request *r = NULL;
    const int64_t count = zt_comm_rank(c) == 0 ? 8 : 16;
    ZT_TRY(zt_all_gather_start(c, x + zt_comm_rank(c) * count, x, count, ZT_F32, &r));
    return zt_wait(c, &r);
}

static void mismatched_sizes(void **state)
{
    (void)state;
    zt_status s = zt_comm_run_threads(2, sizes_differ, NULL);
    assert_true(s == ZT_ERR_COMM || s == ZT_ERR_PEER);
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
        cmocka_unit_test(pretended_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
