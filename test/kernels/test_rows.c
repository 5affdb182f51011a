/* test_rows.c - products, norms, embedding, loss and attention of every table and type, against double precision;
 * the same bits for any number of threads (products excepted). */
#include "suite.h"

/* ---- products ---- */
static void one_linear(zt_dev dev, zt_linear l, zt_dtype dw_type)
{
    const int64_t xs = l.x_stride ? l.x_stride : l.I, ys = l.y_stride ? l.y_stride : l.O;
    const double e = eps_of[l.type], ew = eps_of[dw_type] + 1e-5;
    buffer x = randoms(l.N * xs, l.type, 1), w = randoms(l.I * l.O, l.type, 2),
           b = randoms(l.O, l.type, 3), dy = randoms(l.N * ys, l.type, 4),
           y = randoms(l.N * ys, l.type, 5), dx = randoms(l.N * xs, l.type, 6),
           old = randoms(l.N * xs, l.type, 6), dw = randoms(l.I * l.O, dw_type, 7),
           db = randoms(l.O, dw_type, 8), old_w = randoms(l.I * l.O, dw_type, 7),
           old_b = randoms(l.O, dw_type, 8);
#define W(o, i) get(&w, l.w_in_out ? (i)*l.O + (o) : (o)*l.I + (i))
    for (int bias = 0; bias < 2; bias++) {
        OK(dev.k->linear(&dev, &l, x.data, w.data, bias ? b.data : NULL, y.data));
        for (int64_t n = 0; n < l.N; n++)
            for (int64_t o = 0; o < l.O; o++) {
                double sum = bias ? get(&b, o) : 0;
                for (int64_t i = 0; i < l.I; i++)
                    sum += get(&x, n * xs + i) * W(o, i);
                CLOSE("linear", get(&y, n * ys + o), sum, e, sqrt((double)l.I));
            }
    }
    for (int add = 0; add < 2; add++) {
        OK(dev.k->linear_dx(&dev, &l, dy.data, w.data, dx.data, add));
        for (int64_t n = 0; n < l.N; n++)
            for (int64_t i = 0; i < l.I; i++) {
                double sum = 0;
                for (int64_t o = 0; o < l.O; o++)
                    sum += get(&dy, n * ys + o) * W(o, i);
                CLOSE("linear_dx", get(&dx, n * xs + i), sum * (add ? 2 : 1), 2 * e,
                      sqrt((double)l.O));
            }
        OK(dev.k->linear_dw(&dev, &l, x.data, dy.data, dw.data, db.data, dw_type, add));
        for (int64_t o = 0; o < l.O; o++) {
            double bias = 0;
            for (int64_t i = 0; i < l.I; i++) {
                double sum = 0;
                for (int64_t n = 0; n < l.N; n++)
                    sum += get(&dy, n * ys + o) * get(&x, n * xs + i);
                CLOSE("linear_dw", get(&dw, l.w_in_out ? i * l.O + o : o * l.I + i),
                      sum * (add ? 2 : 1), 2 * ew, sqrt((double)l.N));
            }
            for (int64_t n = 0; n < l.N; n++)
                bias += get(&dy, n * ys + o);
            CLOSE("bias", get(&db, o), bias * (add ? 2 : 1), 2 * ew, sqrt((double)l.N));
        }
    }
    OK(dev.k->linear_dw(&dev, &l, x.data, dy.data, NULL, db.data, dw_type, false));
    OK(dev.k->linear_dw(&dev, &l, x.data, dy.data, dw.data, NULL, dw_type, false));
    for (int64_t n = 0; n < l.N; n++) /* what lies between strided rows stays */
        for (int64_t i = l.I; i < xs; i++)
            assert_true(get(&dx, n * xs + i) == get(&old, n * xs + i));
    buffer *all[] = {&x, &w, &b, &dy, &y, &dx, &old, &dw, &db, &old_w, &old_b};
    for (int i = 0; i < 11; i++)
        DROP(*all[i]);
}

static void products(void **state)
{
    (void)state;
    static const int64_t shapes[][5] = {{1, 1, 1, 0, 0},
                                        {3, 5, 7, 0, 0},
                                        {33, 16, 48, 0, 0},
                                        {17, 40, 31, 50, 37},
                                        {64, 65, 33, 0, 99}};
    zt_dev dev;
    for (int table = 0; next_table(&table, 2, &dev);) {
        for (int s = 0; s < 5; s++)
            for (int t = 0; t < 3; t++)
                for (int in_out = 0; in_out < 2; in_out++)
                    for (int wide = 0; wide < 2; wide++) {
                        const int64_t *d = shapes[s];
                        zt_linear l = {.N = d[0],
                                       .I = d[1],
                                       .O = d[2],
                                       .type = types[t],
                                       .w_in_out = in_out,
                                       .x_stride = d[3],
                                       .y_stride = d[4]};
                        one_linear(dev, l, wide ? ZT_F32 : types[t]);
                    }
        zt_dev_destroy(&dev);
    }
}

/* ---- norms ---- */
static double normed(const double *x, int64_t C, int64_t i, bool rms, double *rstd)
{
    double mean = 0, var = 0;
    for (int64_t k = 0; k < C && !rms; k++)
        mean += x[k] / (double)C;
    for (int64_t k = 0; k < C; k++)
        var += (x[k] - mean) * (x[k] - mean) / (double)C;
    *rstd = 1 / sqrt(var + 1e-5);
    return (x[i] - mean) * *rstd;
}

static void one_norm(zt_dev dev, int64_t N, int64_t C, zt_dtype T, zt_dtype dw_type, bool rms)
{
    buffer x = randoms(N * C, T, 1), scale = randoms(C, T, 2), shift = randoms(C, T, 3),
           dy = randoms(N * C, T, 4), y = make(N * C, T), dx = randoms(N * C, T, 5),
           old = randoms(N * C, T, 5), ds = randoms(C, dw_type, 6), db = randoms(C, dw_type, 7),
           mean = make(N, ZT_F32), rstd = make(N, ZT_F32);
    float *m = (float *)(void *)mean.data, *r = (float *)(void *)rstd.data;
    const double e = eps_of[T], ew = eps_of[dw_type] + 1e-5;
    if (rms)
        dev.k->rms_norm(&dev, N, C, 1e-5f, T, x.data, scale.data, y.data, r);
    else
        dev.k->layer_norm(&dev, N, C, 1e-5f, T, x.data, scale.data, shift.data, y.data, m, r);
    double *row = malloc((size_t)C * sizeof *row), *wants = calloc((size_t)C, sizeof *wants),
           *wantb = calloc((size_t)C, sizeof *wantb);
    for (int pass = 0; pass < 2; pass++) { /* overwriting, then adding */
        if (rms)
            dev.k->rms_norm_bwd(&dev, N, C, T, x.data, scale.data, r, dy.data, dx.data, pass,
                                ds.data, dw_type, pass);
        else
            dev.k->layer_norm_bwd(&dev, N, C, T, x.data, scale.data, m, r, dy.data, dx.data, pass,
                                  ds.data, db.data, dw_type, pass);
        for (int64_t n = 0; n < N; n++) {
            double rs = 0, s1 = 0, s2 = 0;
            for (int64_t i = 0; i < C; i++)
                row[i] = get(&x, n * C + i);
            for (int64_t i = 0; i < C; i++) {
                double h = normed(row, C, i, rms, &rs), d = get(&dy, n * C + i);
                if (pass == 0)
                    CLOSE("norm", get(&y, n * C + i),
                          h * get(&scale, i) + (rms ? 0 : get(&shift, i)), e, 1);
                s1 += d * get(&scale, i) / (double)C;
                s2 += d * get(&scale, i) * h / (double)C;
                wants[i] += pass ? 0 : d * h;
                wantb[i] += pass ? 0 : d;
            }
            for (int64_t i = 0; i < C; i++) {
                double h = normed(row, C, i, rms, &rs);
                double want = (get(&dy, n * C + i) * get(&scale, i) - (rms ? 0 : s1) - h * s2) * rs;
                CLOSE("norm dx", get(&dx, n * C + i), want * (pass + 1), 2 * e + 1e-5, rs);
            }
        }
        for (int64_t i = 0; i < C; i++) {
            CLOSE("norm dscale", get(&ds, i), wants[i] * (pass + 1), 2 * ew, sqrt((double)N));
            if (!rms)
                CLOSE("norm dshift", get(&db, i), wantb[i] * (pass + 1), 2 * ew, sqrt((double)N));
        }
    }
    /* without gradients of scale and shift; without statistics to keep */
    if (rms) {
        dev.k->rms_norm_bwd(&dev, N, C, T, x.data, scale.data, r, dy.data, dx.data, false, NULL,
                            dw_type, false);
        dev.k->rms_norm(&dev, N, C, 1e-5f, T, x.data, scale.data, y.data, NULL);
    } else {
        dev.k->layer_norm_bwd(&dev, N, C, T, x.data, scale.data, m, r, dy.data, dx.data, false,
                              NULL, NULL, dw_type, false);
        dev.k->layer_norm(&dev, N, C, 1e-5f, T, x.data, scale.data, shift.data, y.data, NULL, NULL);
    }
    free(row);
    free(wants);
    free(wantb);
    buffer *all[] = {&x, &scale, &shift, &dy, &y, &dx, &old, &ds, &db, &mean, &rstd};
    for (int i = 0; i < 11; i++)
        DROP(*all[i]);
}

static void norms(void **state)
{
    (void)state;
    zt_dev dev;
    for (int table = 0; next_table(&table, 2, &dev);) {
        for (int t = 0; t < 3; t++)
            for (int rms = 0; rms < 2; rms++) {
                one_norm(dev, 5, 7, types[t], types[t], rms);
                one_norm(dev, 37, 48, types[t], ZT_F32, rms);
                one_norm(dev, 200, 100, types[t], ZT_F32, rms);
            }
        zt_dev_destroy(&dev);
    }
}

/* ---- embedding ---- */
static void embedding(void **state)
{
    (void)state;
    zt_dev dev;
    const int64_t N = 50, C = 21, V = 13;
    int32_t ids[50];
    for (int i = 0; i < N; i++)
        ids[i] = (i * i) % 11; /* some often, some never */
    for (int table = 0; next_table(&table, 2, &dev);) {
        for (int t = 0; t < 3; t++) {
            const zt_dtype T = types[t];
            buffer w = randoms(V * C, T, 1), y = randoms(N * C, T, 2), old = randoms(N * C, T, 2),
                   dy = randoms(N * C, T, 3), dw = randoms(V * C, T, 4),
                   old_w = randoms(V * C, T, 4);
            dev.k->embed(&dev, N, C, T, ids, w.data, y.data, true);
            for (int64_t i = 0; i < N * C; i++)
                CLOSE("embed", get(&y, i), get(&old, i) + get(&w, ids[i / C] * C + i % C),
                      eps_of[T], 1e-3);
            dev.k->embed(&dev, N, C, T, ids, w.data, y.data, false);
            for (int64_t i = 0; i < N * C; i++)
                assert_true(get(&y, i) == get(&w, ids[i / C] * C + i % C));
            for (int add = 1; add >= 0; add--) {
                dev.k->embed_bwd(&dev, N, C, V, T, ids, dy.data, dw.data, T, add);
                for (int64_t v = 0; v < V; v++)
                    for (int64_t c = 0; c < C; c++) {
                        double sum = add ? get(&old_w, v * C + c) : 0;
                        for (int64_t n = 0; n < N; n++)
                            sum += ids[n] == v ? get(&dy, n * C + c) : 0;
                        CLOSE("embed_bwd", get(&dw, v * C + c), sum, eps_of[T], 2);
                    }
            }
            buffer *all[] = {&w, &y, &old, &dy, &dw, &old_w};
            for (int i = 0; i < 6; i++)
                DROP(*all[i]);
        }
        zt_dev_destroy(&dev);
    }
}

/* ---- loss ---- */
static void loss(void **state)
{
    (void)state;
    static const int64_t vocab[] = {1, 2, 17, 257, 1003};
    zt_dev dev;
    for (int table = 0; next_table(&table, 2, &dev);) {
        for (int s = 0; s < 5; s++)
            for (int t = 0; t < 3; t++) {
                const int64_t N = 9, V = vocab[s], stride = V + 3;
                const zt_dtype T = types[t];
                buffer x = randoms(N * stride, T, 1), d = randoms(N * stride, T, 2),
                       l = make(N, ZT_F32);
                int32_t labels[9];
                for (int64_t n = 0; n < N; n++) {
                    labels[n] = n == 3 || n == 8 ? -100 : (int32_t)((n * 31) % V);
                    for (int64_t v = 0; v < V; v++) /* rows of all sizes, some far from zero */
                        zt_store_f32(x.data, T, n * stride + v,
                                     (float)(get(&x, n * stride + v) * (double)n + (n == 5   ? 60
                                                                                    : n == 6 ? -300
                                                                                             : 0)));
                }
                dev.k->cross_entropy(&dev, N, V, stride, T, x.data, labels, (float *)(void *)l.data,
                                     NULL, 0);
                dev.k->cross_entropy(&dev, N, V, stride, T, x.data, labels, (float *)(void *)l.data,
                                     d.data, 0.5f);
                for (int64_t n = 0; n < N; n++) {
                    double top = -INFINITY, sum = 0;
                    for (int64_t v = 0; v < V; v++)
                        top = fmax(top, get(&x, n * stride + v));
                    for (int64_t v = 0; v < V; v++)
                        sum += exp(get(&x, n * stride + v) - top);
                    double want =
                        labels[n] < 0 ? 0 : log(sum) + top - get(&x, n * stride + labels[n]);
                    CLOSE("loss", get(&l, n), want, 2e-6, 1);
                    for (int64_t v = 0; v < V; v++) {
                        double p = exp(get(&x, n * stride + v) - top) / sum - (v == labels[n]);
                        CLOSE("dlogits", get(&d, n * stride + v), labels[n] < 0 ? 0 : 0.5 * p,
                              eps_of[T], 1e-4);
                    }
                }
                dev.k->cross_entropy(&dev, N, V, stride, T, x.data, labels, (float *)(void *)l.data,
                                     x.data, 0.5f);
                SAME_BITS(x.data, d.data, (size_t)V * zt_dtype_bytes(T)); /* in place */
                DROP(x);
                DROP(d);
                DROP(l);
            }
        zt_dev_destroy(&dev);
    }
}

/* ---- attention: everything in double, with the whole matrix ---- */
typedef struct {
    zt_attention a;
    buffer q, k, v, out, dout, dq, dk, dv, lse;
} attention;

static bool visible(const zt_attention *a, int64_t b, int64_t t, int64_t s)
{
    return (!a->causal || s <= a->past + t) && (!a->start || s >= a->start[b * a->T + t]);
}

/* What dropout makes of a weight, by the words of the header. */
static double kept(const zt_attention *a, int64_t b, int64_t h, int64_t t, int64_t s)
{
    if (a->dropout == 0) return 1;
    const int64_t row = ((a->first + b) * a->H + h) * a->T + t;
    uint32_t words[4];
    zt_rng_block(a->rng, (uint64_t)((row * ((a->S + 63) / 64) + s / 64) * 16 + s % 16), words);
    return (float)(words[s % 64 / 16] >> 8) * 0x1p-24f < a->dropout ? 0
                                                                    : 1 / (1 - (double)a->dropout);
}

static void check_attention(zt_dev dev, attention *x, bool backward)
{
    const zt_attention *a = &x->a;
    const double e = eps_of[a->type],
                 scale = a->scale != 0 ? (double)a->scale : 1 / sqrt((double)a->D);
    double *p = malloc((size_t)a->S * sizeof *p), *dp = malloc((size_t)a->S * sizeof *dp);
    double *dk = calloc((size_t)(a->B * a->S * a->G * a->D), sizeof *dk),
           *dv = calloc((size_t)(a->B * a->S * a->G * a->D), sizeof *dv);
    for (int64_t b = 0; b < a->B; b++)
        for (int64_t h = 0; h < a->H; h++)
            for (int64_t t = 0; t < a->T; t++) {
                const int64_t g = h / (a->H / a->G), D = a->D;
                const int64_t q = (b * a->T + t) * a->q_stride + h * D,
                              o = (b * a->T + t) * a->o_stride + h * D;
                double top = -INFINITY, sum = 0, delta = 0;
#define K(s, i)  get(&x->k, (b * a->S_max + (s)) * a->k_stride + g * D + (i))
#define V_(s, i) get(&x->v, (b * a->S_max + (s)) * a->v_stride + g * D + (i))
                for (int64_t s = 0; s < a->S; s++) {
                    p[s] = 0;
                    for (int64_t i = 0; i < D; i++)
                        p[s] += get(&x->q, q + i) * K(s, i) * scale;
                    if (!visible(a, b, t, s)) p[s] = -INFINITY;
                    top = fmax(top, p[s]);
                }
                for (int64_t s = 0; s < a->S; s++)
                    sum += p[s] = exp(p[s] - top);
                for (int64_t s = 0; s < a->S; s++)
                    p[s] /= sum;
                for (int64_t i = 0; i < D; i++) {
                    double want = 0;
                    for (int64_t s = 0; s < a->S; s++)
                        want += p[s] * kept(a, b, h, t, s) * V_(s, i);
                    CLOSE("attention", get(&x->out, o + i), want, e + 1e-5, 1);
                }
                CLOSE("lse", get(&x->lse, (b * a->H + h) * a->T + t), top + log(sum), 1e-5, 1);
                for (int64_t s = 0; s < a->S && backward; s++) {
                    const double m = kept(a, b, h, t, s);
                    dp[s] = 0;
                    for (int64_t i = 0; i < D; i++) {
                        dp[s] += m * get(&x->dout, o + i) * V_(s, i);
                        dv[((b * a->S + s) * a->G + g) * D + i] += m * p[s] * get(&x->dout, o + i);
                    }
                    delta += p[s] * dp[s];
                }
                for (int64_t i = 0; i < D && backward; i++) {
                    double want = 0;
                    for (int64_t s = 0; s < a->S; s++) {
                        want += p[s] * (dp[s] - delta) * scale * K(s, i);
                        dk[((b * a->S + s) * a->G + g) * D + i] +=
                            p[s] * (dp[s] - delta) * scale * get(&x->q, q + i);
                    }
                    CLOSE("dq", get(&x->dq, q + i), want, 5 * e + 3e-5, 1);
                }
            }
    for (int64_t n = 0; n < a->B * a->S && backward; n++)
        for (int64_t c = 0; c < a->G * a->D; c++) {
            CLOSE("dk", get(&x->dk, n * a->k_stride + c), dk[n * a->G * a->D + c], 5 * e + 3e-5, 2);
            CLOSE("dv", get(&x->dv, n * a->v_stride + c), dv[n * a->G * a->D + c], 5 * e + 3e-5, 2);
        }
    free(p);
    free(dp);
    free(dk);
    free(dv);
}

static void one_attention(zt_dev dev, zt_attention a, bool backward)
{
    const zt_dtype T = a.type;
    attention x = {.a = a};
    x.q = randoms(a.B * a.T * a.q_stride, T, 1);
    x.k = randoms(a.B * a.S_max * a.k_stride, T, 2);
    x.v = randoms(a.B * a.S_max * a.v_stride, T, 3);
    x.out = make(a.B * a.T * a.o_stride, T);
    x.dout = randoms(a.B * a.T * a.o_stride, T, 4);
    x.dq = make(a.B * a.T * a.q_stride, T);
    x.dk = make(a.B * a.S_max * a.k_stride, T);
    x.dv = make(a.B * a.S_max * a.v_stride, T);
    x.lse = make(a.B * a.H * a.T, ZT_F32);
    float *lse = (float *)(void *)x.lse.data;
    assert_true(dev.k->attention_scratch(&a, dev.n_threads) <= SCRATCH);
    memset(x.out.data, 0, (size_t)x.out.n * zt_dtype_bytes(T));
    dev.k->attention(&dev, &a, x.q.data, x.k.data, x.v.data, x.out.data, lse);
    if (backward) {
        memset(x.dq.data, 0, (size_t)x.dq.n * zt_dtype_bytes(T));
        memset(x.dk.data, 0, (size_t)x.dk.n * zt_dtype_bytes(T));
        memset(x.dv.data, 0, (size_t)x.dv.n * zt_dtype_bytes(T));
        dev.k->attention_bwd(&dev, &a, x.q.data, x.k.data, x.v.data, x.out.data, lse, x.dout.data,
                             x.dq.data, x.dk.data, x.dv.data);
    }
    check_attention(dev, &x, backward);
    /* the same bits with other numbers of threads */
    const int n = dev.n_threads;
    for (int threads = 1; threads <= 3; threads += 2) {
        buffer y = make(x.out.n, T), dk = make(x.dk.n, T), dq = make(x.dq.n, T),
               dv = make(x.dv.n, T);
        buffer *all[] = {&y, &dk, &dq, &dv}, *was[] = {&x.out, &x.dk, &x.dq, &x.dv};
        for (int i = 0; i < 4; i++)
            memset(all[i]->data, 0, (size_t)all[i]->n * zt_dtype_bytes(T));
        dev.n_threads = threads;
        dev.k->attention(&dev, &a, x.q.data, x.k.data, x.v.data, y.data, lse);
        if (backward)
            dev.k->attention_bwd(&dev, &a, x.q.data, x.k.data, x.v.data, x.out.data, lse,
                                 x.dout.data, dq.data, dk.data, dv.data);
        for (int i = 0; i < (backward ? 4 : 1); i++)
            SAME_BITS(all[i]->data, was[i]->data, (size_t)all[i]->n * zt_dtype_bytes(T));
        for (int i = 0; i < 4; i++)
            DROP(*all[i]);
    }
    dev.n_threads = n;
    buffer *all[] = {&x.q, &x.k, &x.v, &x.out, &x.dout, &x.dq, &x.dk, &x.dv, &x.lse};
    for (int i = 0; i < 9; i++)
        DROP(*all[i]);
}

static zt_attention shape(int64_t B, int64_t T, int64_t H, int64_t G, int64_t D, zt_dtype type)
{
    return (zt_attention){.B = B,
                          .T = T,
                          .S = T,
                          .S_max = T,
                          .H = H,
                          .G = G,
                          .D = D,
                          .q_stride = H * D,
                          .k_stride = G * D,
                          .v_stride = G * D,
                          .o_stride = H * D,
                          .causal = true,
                          .type = type};
}

static void attention_of_all_shapes(void **state)
{
    (void)state;
    static const int64_t times[] = {1, 17, 64, 65, 130};
    zt_dev dev;
    for (int table = 0; next_table(&table, 2, &dev);) {
        for (int i = 0; i < 5; i++)
            for (int t = 0; t < 3; t++) {
                one_attention(dev, shape(2, times[i], 4, 2, 8, types[t]), true);
                one_attention(dev, shape(1, times[i], 3, 1, 20, types[t]), true);
                zt_attention packed =
                    shape(1, times[i], 2, 2, 64, types[t]); /* q, k, v side by side */
                packed.q_stride = packed.k_stride = packed.v_stride = 3 * 128;
                packed.scale = 0.3f;
                one_attention(dev, packed, true);
            }
        for (int t = 0; t < 3; t++) {
            zt_attention whole = shape(2, 70, 2, 1, 15, types[t]);
            whole.causal = false;
            one_attention(dev, whole, true);
        }
        zt_dev_destroy(&dev);
    }
}

static void attention_of_packed_documents(void **state)
{
    (void)state;
    int32_t start[2 * 150];
    for (int i = 0; i < 300; i++) { /* documents of 1, 69, 80 and of 149, 1 */
        int t = i % 150;
        start[i] = i < 150 ? (t < 1 ? 0 : t < 70 ? 1 : 70) : (t < 149 ? 0 : 149);
    }
    zt_dev dev;
    for (int table = 0; next_table(&table, 2, &dev);) {
        for (int t = 0; t < 3; t++) {
            zt_attention a = shape(2, 150, 2, 1, 24, types[t]);
            a.start = start;
            one_attention(dev, a, true);
        }
        zt_dev_destroy(&dev);
    }
}

static void attention_with_dropout(void **state)
{
    (void)state;
    const zt_rng rng = zt_rng_make(5, ZT_RNG_DROPOUT, 3, 7);
    int32_t start[130];
    for (int t = 0; t < 130; t++)
        start[t] = t < 70 ? 0 : 70;
    zt_dev dev;
    for (int table = 0; next_table(&table, 2, &dev);) {
        for (int t = 0; t < 3; t++)
            for (int packed = 0; packed < 2; packed++) {
                zt_attention a = shape(1, 130, 4, 2, 24, types[t]);
                a.dropout = packed ? 0.5f : 0.1f;
                a.rng = &rng;
                a.first = 6;
                a.start = packed ? start : NULL;
                one_attention(dev, a, true);
            }
        zt_dev_destroy(&dev);
    }
}

static void attention_behind_a_cache(void **state)
{
    (void)state;
    static const int64_t pasts[][2] = {{0, 5}, {1, 1}, {63, 1}, {64, 3}, {100, 66}};
    zt_dev dev;
    for (int table = 0; next_table(&table, 2, &dev);) {
        for (int i = 0; i < 5; i++)
            for (int t = 0; t < 3; t++) {
                zt_attention a = shape(2, pasts[i][1], 4, 2, 16, types[t]);
                a.past = pasts[i][0];
                a.S = a.past + a.T;
                a.S_max = 200;
                one_attention(dev, a, false);
            }
        zt_dev_destroy(&dev);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),
        cmocka_unit_test(norms),
        cmocka_unit_test(embedding),
        cmocka_unit_test(loss),
        cmocka_unit_test(attention_of_all_shapes),
        cmocka_unit_test(attention_of_packed_documents),
        cmocka_unit_test(attention_with_dropout),
        cmocka_unit_test(attention_behind_a_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
