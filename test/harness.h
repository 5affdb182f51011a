/* harness.h - the few checks that every test uses, on cmocka. */
#ifndef ZT_TEST_HARNESS_H
#define ZT_TEST_HARNESS_H
#include "base/base.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
/* after the system's */
#include <cmocka.h>

#define OK(call)                                                                                   \
    do {                                                                                           \
        zt_status st_ = (call);                                                                    \
        if (st_ != ZT_OK)                                                                          \
            fail_msg("%s: %s: %s\n%s", #call, zt_status_text(st_), zt_error_message(),             \
                     zt_error_trace());                                                            \
    } while (0)

/* The call must fail with this status, and its message must hold this text. */
#define FAILS(call, code, text)                                                                    \
    do {                                                                                           \
        zt_status st_ = (call);                                                                    \
        if (st_ != (code))                                                                         \
            fail_msg("%s: got \"%s\" (%s), not \"%s\"", #call, zt_status_text(st_),                \
                     zt_error_message(), zt_status_text(code));                                    \
        if (!strstr(zt_error_message(), (text)))                                                   \
            fail_msg("%s: \"%s\" does not say \"%s\"", #call, zt_error_message(), (text));         \
    } while (0)

/* Largest |a-b| / (|b| + floor) over n; where it is above bound the first such index is named. */
static inline void near_at(const char *file, int line, const float *a, const float *b, int64_t n,
                           double bound, double floor_)
{
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]) / (fabs((double)b[i]) + floor_);
        if (!(d <= bound)) {
            print_error("element %lld: %.9g, wanted %.9g (off by %.3g, bound %.3g)\n", (long long)i,
                        (double)a[i], (double)b[i], d, bound);
            _fail(file, line);
        }
    }
}
#define NEAR(a, b, n, bound, floor_) near_at(__FILE__, __LINE__, (a), (b), (n), (bound), (floor_))
#define SAME_BITS(a, b, bytes)       assert_memory_equal((a), (b), (bytes))
#endif
