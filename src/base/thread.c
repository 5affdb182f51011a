/* thread.c - parallel regions on GNU OpenMP's pool, the same that the product library uses: two
 * pools would fight for the cores. Called through the run-time's entry points, so that the sources
 * need no OpenMP pragmas and clang no second run-time. */
#include "base/base.h"

#include <sched.h>
#include <unistd.h>

int zt_cpu_count(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

#ifdef ZT_ONE_THREAD
void zt_parallel(int n_threads, zt_parallel_fn *fn, void *arg)
{
    for (int i = 0; i < n_threads; i++)
        fn(arg, i, n_threads);
}
#else
void GOMP_parallel(void (*fn)(void *), void *data, unsigned n_threads, unsigned flags);
int omp_get_thread_num(void);
int omp_get_num_threads(void);

typedef struct {
    zt_parallel_fn *fn;
    void *arg;
    int n;
} region;

static void run_parts(void *data)
{
    const region *r = data;
    int threads = omp_get_num_threads(); /* may be fewer than asked for: then some take two parts */
    for (int i = omp_get_thread_num(); i < r->n; i += threads)
        r->fn(r->arg, i, r->n);
}

void zt_parallel(int n_threads, zt_parallel_fn *fn, void *arg)
{
    if (n_threads <= 1) {
        fn(arg, 0, 1);
        return;
    }
    region r = {fn, arg, n_threads};
    GOMP_parallel(run_parts, &r, (unsigned)n_threads, 0);
}
#endif
