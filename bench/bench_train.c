/* bench_train.c - training steps of GPT-2 124M against the limit of the machine, measured in the same run: the
 * step's matrix products done alone, and AdamW's bytes at the best memory bandwidth seen. Random weights and
 * tokens; B = 4. Prints one line a case; never passes or fails.
 *
 *     bench_train [T [steps]]     T = 256 by default */
#include "engine/engine.h"
#include "model/models.h"

#include <stdio.h>
#include <stdlib.h>

static void must(zt_status s)
{
    if (s == ZT_OK) return;
    (void)fprintf(stderr, "error: %s\n", zt_error_message());
    exit(1);
}

static const char gpt2[] =
    "{\"model_type\": \"gpt2\", \"embd_pdrop\": 0, \"resid_pdrop\": 0, \"attn_pdrop\": 0}";

typedef struct {
    zt_graph *graph;
    zt_engine *e;
    zt_dev dev;
    zt_mem *mem;
    zt_comm *comm;
    int pass;
} setup;

static zt_status small_random(void *arg, int param, int64_t from, int64_t count, float *out)
{
    (void)arg;
    for (int64_t i = 0; i < count; i++)
        out[i] = 0.02f * (float)((int)((from + i + param) * 7919 % 201) - 100) * 0.01f;
    return ZT_OK;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *t, int n)
{
    qsort(t, (size_t)n, sizeof *t, by_size);
    return t[n / 2];
}

/* Seconds of the products of one step, as the program has them, and nothing else. */
static double products_alone(setup *s)
{
    const zt_program *p = s->e->pass[s->pass].program;
    const zt_kernels *k = s->dev.k;
    const int64_t N = p->opt.B * p->opt.T;
    char *x = s->e->arena;
    const double start = zt_now();
    for (int i = 0; i < p->n_instrs; i++) {
        const zt_instr *a = &p->instrs[i];
        const zt_node *n = a->node < 0 ? NULL : &s->graph->nodes[a->node];
        if (!n || (n->op != ZT_OP_LINEAR && n->op != ZT_OP_LM_HEAD)) continue;
        const zt_parameter *w = &s->graph->params[n->par[0]];
        const bool head = n->op == ZT_OP_LM_HEAD;
        const int64_t tile = head ? zt_lm_head_rows(p) : N;
        zt_linear l = {
            .N = tile, .I = w->in, .O = w->out, .type = p->opt.type, .w_in_out = w->opt.in_out};
        zt_dev dev = s->dev;
        char *y = head ? dev.scratch : x + (size_t)(N * w->in) * zt_dtype_bytes(p->opt.type);
        if (head) {
            size_t used = (size_t)(tile * w->out) * zt_dtype_bytes(p->opt.type) + 63;
            dev.scratch = (char *)dev.scratch + used / 64 * 64;
        }
        void *grad = s->e->grad[n->par[0]];
        for (int64_t at = 0; at < N; at += tile) {
            if (head || a->what != ZT_DO_BACKWARD)
                must(k->linear(&dev, &l, x, s->e->weight[n->par[0]], NULL, y));
            if (head || a->what == ZT_DO_BACKWARD) {
                must(k->linear_dw(&dev, &l, x, y, grad, NULL, p->opt.grad_type, false));
                must(k->linear_dx(&dev, &l, y, s->e->weight[n->par[0]], x, false));
            }
        }
    }
    return zt_now() - start;
}

typedef struct {
    float *a, *b, *c;
    int64_t n;
} triad;

static void triad_part(void *arg, int part, int n)
{
    const triad *t = arg;
    int64_t from, to;
    zt_split(t->n, 64, part, n, &from, &to);
    for (int64_t i = from; i < to; i++)
        t->a[i] = t->b[i] + 3.0f * t->c[i];
}

/* Best of several: bytes a second, the write counted with its read. */
static double triad_bandwidth(zt_mem *mem, int threads)
{
    const int64_t n = 32 << 20;
    void *p;
    must(zt_mem_alloc(mem, ZT_TIER_DEVICE, ZT_MEM_SCRATCH, "triad", (size_t)n * 12, 0, &p));
    triad t = {p, (float *)p + n, (float *)p + 2 * n, n};
    double best = 1e9;
    for (int i = 0; i < 8; i++) {
        double start = zt_now();
        zt_parallel(threads, triad_part, &t);
        double took = zt_now() - start;
        best = took < best ? took : best;
    }
    zt_mem_free(mem, p);
    return 16.0 * (double)n / best;
}

static void start(setup *s, zt_dtype type, int64_t T)
{
    zt_model_config c;
    json_t *j;
    const zt_kernels *k;
    must(zt_json_parse(gpt2, sizeof gpt2 - 1, "gpt2", &j));
    must(zt_model_config_parse(j, "gpt2", &c));
    json_decref(j);
    must(zt_model_build(&c, &s->graph));
    zt_model_config_deinit(&c);
    must(zt_kernels_cpu(NULL, &k));
    must(zt_dev_create(k, zt_cpu_count(), &s->dev));
    must(zt_mem_create(&s->mem));
    must(zt_comm_self(&s->comm));
    zt_engine_opt o = {.type = type, .n_micro = 1, .train = true, .positions = T};
    o.optim = (zt_optim_opt){
        .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .weight_decay = 0.1f, .decay_all = true};
    must(zt_engine_create(s->graph, &o, 1, 0, &s->dev, &s->e));
    zt_program_opt p = {.goal = ZT_GOAL_TRAIN, .B = 4, .T = T};
    must(zt_engine_add_pass(s->e, &p, &s->pass));
    must(zt_engine_allocate(s->e, s->mem, s->comm));
    must(zt_engine_fill(s->e, small_random, NULL));
    zt_batch *b = zt_engine_batch(s->e, 0);
    for (int64_t i = 0; i < 4 * T; i++) {
        b->ids[i] = (int32_t)(i * 7919 % 50257);
        b->labels[i] = (int32_t)(i * 104729 % 50257);
    }
}

static void stop(setup *s)
{
    zt_engine_destroy(&s->e);
    zt_comm_destroy(&s->comm);
    zt_mem_destroy(&s->mem);
    zt_dev_destroy(&s->dev);
    zt_graph_destroy(&s->graph);
}

static void measure(zt_dtype type, int64_t T, int steps)
{
    setup s = {0};
    double times[64], updates[64], alone[64], shares[64];
    start(&s, type, T);
    for (int i = -1; i < steps; i++) {
        zt_step_opt o = {.step = i + 2, .lr = 1e-5, .loss_scale = 1};
        zt_step_result r;
        double from = zt_now();
        must(zt_engine_step(s.e, s.pass, &o, &r));
        const double took = zt_now() - from,
                     products = products_alone(&s); /* in turns: others share the machine */
        if (i >= 0) {
            times[i] = took;
            updates[i] = r.seconds_update;
            alone[i] = products;
            shares[i] = products / took;
        }
    }
    const double P = (double)zt_graph_numel(s.graph, false), tokens = 4.0 * (double)T;
    const double step = median(times, steps), update = median(updates, steps);
    const size_t peak = zt_mem_peak_total(s.mem, ZT_TIER_DEVICE), resident = zt_process_rss_peak();
    const double bandwidth = triad_bandwidth(s.mem, s.dev.n_threads);
    const double products = median(alone, steps);
    /* p, m, v read and written (24 bytes), and 4 more: the gradient, or a 16-bit one and the rounded copy */
    const double adam = P * 28 / bandwidth;
    (void)printf("%-5s T=%-5lld %7.1f tokens/s | step %7.1f ms | products alone %7.1f ms | AdamW "
                 "%5.1f ms, at triad "
                 "speed (%.1f GB/s) %5.1f ms | share of the limit %4.1f %% | memory %.0f MiB, "
                 "resident %.0f MiB\n",
                 zt_dtype_name(type), (long long)T, tokens / step, step * 1e3, products * 1e3,
                 update * 1e3, bandwidth / 1e9, adam * 1e3,
                 100 * (median(shares, steps) + adam / step), (double)peak / 0x1p20,
                 (double)resident / 0x1p20);
    (void)fflush(stdout);
    stop(&s);
}

int main(int argc, char **argv)
{
    const int64_t T = argc > 1 ? atoll(argv[1]) : 256;
    int steps = argc > 2 ? atoi(argv[2]) : 7;
    steps = steps < 1 ? 1 : steps > 64 ? 64 : steps;
    if (T < 1 || T > 1024) {
        (void)fprintf(stderr, "usage: bench_train [T up to 1024 [steps]]\n");
        return 2;
    }
    measure(ZT_F32, T, steps);
    measure(ZT_BF16, T, steps);
    return 0;
}
