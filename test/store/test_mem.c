/* test_mem.c - the ledger's sums and marks, alignment, and planning without allocating. */
#include "harness.h"
#include "store/mem.h"

static void books_and_marks(void **state)
{
    (void)state;
    zt_mem *m;
    void *a, *b, *none;
    OK(zt_mem_create(&m));
    OK(zt_mem_alloc(m, ZT_TIER_DEVICE, ZT_MEM_PARAMS, "a", 1000, 900, &a));
    OK(zt_mem_alloc(m, ZT_TIER_DEVICE, ZT_MEM_GRADS, "b", 5 << 20, 5 << 20, &b));
    OK(zt_mem_alloc(m, ZT_TIER_DEVICE, ZT_MEM_GRADS, "none", 0, 0, &none));
    assert_null(none);
    assert_true((uintptr_t)a % 64 == 0 && (uintptr_t)b % (2 << 20) == 0);
    for (int i = 0; i < 5 << 20; i++)
        assert_int_equal(((char *)b)[i], 0);
    assert_int_equal(zt_mem_held(m, ZT_TIER_DEVICE, ZT_MEM_PARAMS), 1000);
    assert_int_equal(zt_mem_payload(m, ZT_TIER_DEVICE, ZT_MEM_PARAMS), 900);
    zt_mem_free(m, b);
    zt_mem_free(m, NULL);
    assert_int_equal(zt_mem_held(m, ZT_TIER_DEVICE, ZT_MEM_GRADS), 0);
    assert_int_equal(zt_mem_peak(m, ZT_TIER_DEVICE, ZT_MEM_GRADS), 5 << 20);
    assert_int_equal(zt_mem_peak_total(m, ZT_TIER_DEVICE), 1000 + (5 << 20));
    zt_mem_book(m, ZT_TIER_HOST, ZT_MEM_OPTIM, (size_t)1 << 50,
                7); /* more than there is: only booked */
    assert_int_equal(zt_mem_peak_total(m, ZT_TIER_HOST), (size_t)1 << 50);
    zt_mem_free(m, a);
    zt_mem_destroy(&m);
}

static void refusals(void **state)
{
    (void)state;
    zt_mem *m;
    void *p = NULL;
    OK(zt_mem_create(&m));
    FAILS(zt_mem_alloc(m, ZT_TIER_DEVICE, ZT_MEM_OPTIM, "everything", (size_t)1 << 60, 0, &p),
          ZT_ERR_NOMEM, "everything");
    zt_fault_alloc(1);
    zt_status s = zt_mem_alloc(m, ZT_TIER_DEVICE, ZT_MEM_DATA, "small", 100, 0, &p);
    zt_fault_alloc(-1);
    assert_int_equal(s, ZT_ERR_NOMEM);
    assert_int_equal(zt_mem_held(m, ZT_TIER_DEVICE, ZT_MEM_DATA), 0);
    zt_mem_destroy(&m);
    assert_true(zt_process_rss() > 0 && zt_process_rss_peak() >= zt_process_rss() / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(books_and_marks),
                                       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
