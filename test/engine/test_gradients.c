/* test_gradients.c - the gradient of whole models against central differences of the loss. */
#include "tiny.h"

enum { B = 2, T = 9 };

static const zt_step_opt first_step = {.step = 1, .loss_scale = 1};

/* With dropout the loss of training: the same elements are dropped every time. */
static double loss_at(tiny *t)
{
    double sum;
    if (t->config.attn_dropout > 0) {
        zt_step_result r;
        OK(zt_engine_gradients(t->engine, t->train, &first_step, &r));
        return r.loss;
    }
    int64_t targets;
    OK(zt_engine_loss(t->engine, t->loss, &sum, &targets));
    return sum / (double)targets;
}

/* Along a random direction in every parameter: (L(w + hd) - L(w - hd)) / 2h = g . d */
static void check_parameter(tiny *t, int param, const float *grad)
{
    const zt_parameter *p = &t->graph->params[param];
    const zt_chunk *c = &t->engine->place->chunks[t->engine->place->chunk_of[param]];
    float *w = (float *)(void *)(t->engine->params + c->p_at) + t->engine->place->at[param];
    float *old = malloc((size_t)p->numel * sizeof *old);
    zt_rng r = zt_rng_make(3, ZT_RNG_TEST, (uint32_t)param, 0);
    memcpy(old, w, (size_t)p->numel * sizeof *old);
    double want = 0, length = 0;
    for (int64_t i = 0; i < p->numel; i++) {
        double d = (double)zt_rng_normal(&r, (uint64_t)i);
        want += d * (double)grad[t->engine->place->at[param] + i];
        length += d * d;
    }
    double best = INFINITY, got = 0;
    for (double h = 3e-2; h > 5e-4; h /= 3) {
        double side[2];
        for (int s = 0; s < 2; s++) {
            for (int64_t i = 0; i < p->numel; i++)
                w[i] = old[i] + (float)((s ? -h : h) * (double)zt_rng_normal(&r, (uint64_t)i) /
                                        sqrt(length));
            side[s] = loss_at(t);
        }
        double d = (side[0] - side[1]) / (2 * h) * sqrt(length);
        if (fabs(d - want) < best) {
            best = fabs(d - want);
            got = d;
        }
    }
    memcpy(w, old, (size_t)p->numel * sizeof *old);
    free(old);
    if (!(best <= 2e-3 * fabs(want) + 2e-5 * sqrt(length)))
        fail_msg("%s: gradient %.6g along a direction, differences say %.6g", p->name, want, got);
}

static void check_model(const char *model, bool recompute, const char *freeze, bool start)
{
    tiny t;
    zt_comm *comm;
    OK(zt_comm_self(&comm));
    tiny_opt o = {.model = model, .opt = {.type = ZT_F32}, .B = B, .T = T, .recompute = recompute};
    o.freeze = freeze;
    OK(tiny_start(&o, comm, &t));
    tiny_batches(&t, 0, B, T);
    int32_t from[B * T];
    for (int i = 0; i < B * T; i++) /* the second half of every row does not see the first */
        from[i] = i % T >= 5 ? 5 : 0;
    if (start) zt_engine_batch(t.engine, 0)->start = from;
    zt_step_result r;
    OK(zt_engine_gradients(t.engine, t.train, &first_step, &r));
    assert_true(fabs(r.loss - loss_at(&t)) < 1e-6);
    double norm = 0;
    for (int c = 0; c < t.engine->place->n_chunks; c++) {
        const zt_chunk *k = &t.engine->place->chunks[c];
        if (!k->trainable) continue;
        float *grad = malloc((size_t)k->padded * sizeof *grad);
        OK(zt_engine_gradients(t.engine, t.train, &first_step, &r));
        OK(zt_engine_gather_grad(t.engine, c, grad));
        for (int64_t i = 0; i < k->padded; i++)
            norm += (double)grad[i] * (double)grad[i];
        for (int i = 0; i < k->n_parts; i++)
            check_parameter(&t, t.engine->place->parts[k->first_part + i].param, grad);
        free(grad);
    }
    assert_true(fabs(sqrt(norm) - r.grad_norm) < 1e-6 * r.grad_norm);
    tiny_stop(&t);
    zt_comm_destroy(&comm);
}

static void gpt2(void **state)
{
    (void)state;
    check_model(tiny_gpt2, false, NULL, false);
}

static void llama(void **state)
{
    (void)state;
    check_model(tiny_llama, false, NULL, false);
}

static void qwen2(void **state)
{
    (void)state;
    check_model(tiny_qwen2, false, NULL, false);
}

static void recomputed(void **state)
{
    (void)state;
    check_model(tiny_gpt2, true, NULL, false);
    check_model(tiny_llama, true, NULL, false);
}

static void with_dropout(void **state)
{
    (void)state;
    check_model(tiny_dropout, false, NULL, false);
    check_model(tiny_dropout, true, NULL, true);
}

static void isolated_documents(void **state)
{
    (void)state;
    check_model(tiny_llama, false, NULL, true);
}

/* What is left of the gradients is right when a part is not trained. */
static void frozen(void **state)
{
    (void)state;
    const char *parts[] = {"wte",         "wpe",           "ln_",  "attn",
                           "c_fc.weight", "c_attn.weight", "bias", "h.0."};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        check_model(tiny_gpt2, i % 2, parts[i], false);
    const char *llama_parts[] = {"q_proj",    "k_proj",       "v_proj",  "norm",     "up_proj",
                                 "gate_proj", "embed_tokens", "lm_head", "layers.1", "mlp"};
    for (size_t i = 0; i < sizeof llama_parts / sizeof *llama_parts; i++)
        check_model(tiny_llama, i % 2, llama_parts[i], false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2),
        cmocka_unit_test(llama),
        cmocka_unit_test(qwen2),
        cmocka_unit_test(recomputed),
        cmocka_unit_test(frozen),
        cmocka_unit_test(with_dropout),
        cmocka_unit_test(isolated_documents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
