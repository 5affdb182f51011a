/* plan.c - printing plans. */
#include "plan/plan.h"

#include <stdio.h>

double zt_plan_zero_bytes(int stage, double n)
{
    return (stage >= 3 ? 2 / n : 2) + (stage >= 2 ? 2 / n : 2) + (stage >= 1 ? 12 / n : 12);
}

void zt_plan_zero_tables(void)
{
    static const double sizes[] = {7.5, 128, 1000}, limit = 32;
    (void)puts("ZeRO, table 1: memory a device of training state, GB (mixed-precision Adam), by "
               "data-parallel "
               "degree\n");
    (void)printf("%6s", "DP");
    for (int m = 0; m < 3; m++)
        (void)printf("  | %gB: %8s %8s %8s", sizes[m], "Pos", "Pos+g", "Pos+g+p");
    (void)puts("");
    for (int n = 1; n <= 1024; n *= 4) {
        (void)printf("%6d", n);
        for (int m = 0; m < 3; m++)
            (void)printf("  | %*s  %8.5g %8.5g %8.5g", sizes[m] > 99 ? 4 : 3, "",
                         sizes[m] * zt_plan_zero_bytes(1, n), sizes[m] * zt_plan_zero_bytes(2, n),
                         sizes[m] * zt_plan_zero_bytes(3, n));
        (void)puts("");
    }
    (void)puts("\nZeRO, table 2: largest model, billions of parameters, with 32 GB a device, by "
               "model-parallel degree "
               "(64 GPUs a degree)\n");
    (void)printf("%4s %6s  %9s %9s %9s %9s\n", "MP", "GPUs", "baseline", "Pos", "Pos+g", "Pos+g+p");
    for (int mp = 1; mp <= 16; mp *= 2) {
        (void)printf("%4d %6d ", mp, 64 * mp);
        for (int stage = 0; stage < 4; stage++)
            (void)printf(" %9.4g", mp * limit / zt_plan_zero_bytes(stage, 64));
        (void)puts("");
    }
}

static double mib(size_t bytes)
{
    return (double)bytes / 0x1p20;
}

static zt_status print_memory(const zt_session *s)
{
    zt_mem *m;
    ZT_TRY(zt_mem_create(&m));
    zt_engine_book(s->engine, m);
    const double P = (double)zt_graph_numel(s->graph, false);
    (void)printf("memory a rank:\n");
    size_t state = 0;
    for (int k = 0; k < ZT_MEM_KIND_COUNT; k++) {
        const size_t held = zt_mem_peak(m, ZT_TIER_DEVICE, (zt_mem_kind)k);
        const size_t payload = zt_mem_payload(m, ZT_TIER_DEVICE, (zt_mem_kind)k);
        if (held == 0) continue;
        (void)printf("  %-18s %12.2f MiB", zt_mem_kind_name((zt_mem_kind)k), mib(held));
        if (k <= ZT_MEM_OPTIM) {
            (void)printf("  %8.4f bytes a parameter, %.2f MiB of it padding", (double)payload / P,
                         mib(held - payload));
            state += payload;
        }
        (void)puts("");
    }
    (void)printf("  %-18s %12.2f MiB  %8.4f bytes a parameter of training state\n", "in all",
                 mib(zt_mem_peak_total(m, ZT_TIER_DEVICE)), (double)state / P);
    size_t all, available;
    zt_host_memory(&all, &available);
    if (all >
        0) /* beside what is planned a process has libraries and small things: docs/design.md */
        (void)printf("  this host has %.1f GiB, %.1f of them free: room for %zu such ranks\n",
                     (double)all / 0x1p30, (double)available / 0x1p30,
                     available / (zt_mem_peak_total(m, ZT_TIER_DEVICE) + ((size_t)64 << 20)));
    zt_mem_destroy(&m);
    return ZT_OK;
}

static void print_traffic(const zt_session *s)
{
    zt_traffic t;
    zt_engine_traffic(s->engine, s->train_pass, &t);
    const double P = (double)zt_graph_numel(s->graph, false);
    (void)printf(
        "sent a rank and step: %lld elements of parameters, %lld of gradients, %.2f MiB in all\n",
        (long long)t.gather, (long long)t.reduce, (double)t.bytes / 0x1p20);
    (void)printf("  payload %.6f elements a parameter; the formula says %.6f; %.6f less for "
                 "weights that are not "
                 "asked for twice\n",
                 (double)(t.gather_payload + t.reduce_payload) / P, t.formula / P, t.saved / P);
}

static zt_status plan(zt_session *s, zt_config *c, int ranks, int rank)
{
    ZT_TRY(zt_config_batch(c, ranks));
    ZT_TRY(zt_session_plan(s, ranks, rank, true));
    const zt_program *p = s->engine->pass[s->train_pass].program;
    (void)printf("%s: %lld parameters, %lld trained, %s; ZeRO stage %lld on %d rank%s\n", c->model,
                 (long long)zt_graph_numel(s->graph, false),
                 (long long)zt_graph_numel(s->graph, true), zt_dtype_name(s->engine->opt.type),
                 (long long)c->stage, ranks, ranks > 1 ? "s" : "");
    (void)printf(
        "batch: %lld samples a step = %lld x %lld micro-steps x %d ranks, of %lld tokens; %.3g "
        "FLOP a rank and step\n",
        (long long)c->train_batch_size, (long long)c->micro_batch, (long long)c->accumulation,
        ranks, (long long)c->sequence_length, p->flops * (double)c->accumulation);
    ZT_TRY(print_memory(s));
    print_traffic(s);
    for (int i = 0; i < c->notes.n; i++)
        (void)printf("note: %s\n", c->notes.items[i]);
    return ZT_OK;
}

zt_status zt_plan_print(zt_comm *comm, zt_config *c, int ranks, int rank)
{
    zt_session s;
    zt_status status = zt_session_start(comm, c, &s);
    if (status == ZT_OK && zt_comm_rank(comm) == 0) status = plan(&s, c, ranks, rank);
    zt_session_stop(&s);
    return status;
}
