/* products.c - matrix products by oneDNN: inner_product where it can do it, matmul where the result is
 * added to. Primitives are prepared on first use of a shape and kept; scratchpads come from the device,
 * so that nothing is allocated afterwards.
 *
 * Where the library has no kernel for a type (fp16; bf16 without AVX-512), operands are widened into
 * scratch and the product is made in fp32. */
#include "kernels/cpu/cpu.h"

#include <dnnl.h>

void omp_set_num_threads(int n); /* of the run-time that the library is built on */

typedef enum { FORWARD, FORWARD_BIAS, DATA, WEIGHTS } direction;

typedef struct {
    direction dir;
    zt_dtype type, dw_type;
    bool add, in_out;
    int64_t N, I, O, xs, ys;
} key;

typedef struct {
    key k;
    dnnl_primitive_t primitive;
    dnnl_memory_t x, w, b, y, pad; /* x: N x I; w: O x I; y: N x O */
} product;

struct zt_products {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    product *list;
    int n, room;
};

static zt_status check(dnnl_status_t s, const char *what)
{
    if (s == dnnl_success) return ZT_OK;
    return ZT_FAIL(s == dnnl_out_of_memory ? ZT_ERR_NOMEM : ZT_ERR_ARG,
                   "the product library failed to %s (oneDNN status %d)", what, (int)s);
}
#define DNNL(call) ZT_TRY(check((call), #call))

static dnnl_data_type_t data_type(zt_dtype t)
{
    return t == ZT_BF16 ? dnnl_bf16 : dnnl_f32;
}

static void matrix(dnnl_memory_desc_t *md, int64_t rows, int64_t cols, zt_dtype t,
                   int64_t row_stride, int64_t col_stride)
{
    dnnl_dims_t dims = {rows, cols}, strides = {row_stride, col_stride};
    (void)dnnl_memory_desc_init_by_strides(md, 2, dims, data_type(t), strides);
}

typedef struct {
    dnnl_memory_desc_t x, w, b, y;
} descs;

static descs describe(const key *k)
{
    descs d;
    dnnl_dims_t bias = {k->O}, one = {1};
    const zt_dtype wt = k->dir == WEIGHTS ? k->dw_type : k->type;
    matrix(&d.x, k->N, k->I, k->type, k->xs, 1);
    matrix(&d.y, k->N, k->O, k->type, k->ys, 1);
    matrix(&d.w, k->O, k->I, wt, k->in_out ? 1 : k->I, k->in_out ? k->O : 1);
    (void)dnnl_memory_desc_init_by_strides(&d.b, 1, bias, data_type(k->type), one);
    return d;
}

/* matmul's view of the same: transposed where needed. C (+)= A B. */
static dnnl_status_t matmul_desc(const key *k, dnnl_matmul_desc_t *m)
{
    dnnl_memory_desc_t a, b, c;
    const int64_t wo = k->in_out ? 1 : k->I, wi = k->in_out ? k->O : 1;
    if (k->dir == DATA) {
        matrix(&a, k->N, k->O, k->type, k->ys, 1);
        matrix(&b, k->O, k->I, k->type, wo, wi);
        matrix(&c, k->N, k->I, k->type, k->xs, 1);
    } else if (k->in_out) { /* dW [I, O] = x^T dy */
        matrix(&a, k->I, k->N, k->type, 1, k->xs);
        matrix(&b, k->N, k->O, k->type, k->ys, 1);
        matrix(&c, k->I, k->O, k->dw_type, k->O, 1);
    } else { /* dW [O, I] = dy^T x */
        matrix(&a, k->O, k->N, k->type, 1, k->ys);
        matrix(&b, k->N, k->I, k->type, k->xs, 1);
        matrix(&c, k->O, k->I, k->dw_type, k->I, 1);
    }
    return dnnl_matmul_desc_init(m, &a, &b, NULL, &c);
}

static dnnl_status_t describe_op(const key *k, const descs *d, dnnl_primitive_attr_t attr,
                                 dnnl_engine_t engine, dnnl_primitive_desc_t *pd)
{
    if (k->add) {
        dnnl_matmul_desc_t m;
        dnnl_status_t s = matmul_desc(k, &m);
        return s != dnnl_success ? s : dnnl_primitive_desc_create(pd, &m, attr, engine, NULL);
    }
    dnnl_inner_product_desc_t i;
    dnnl_status_t s;
    if (k->dir == DATA)
        s = dnnl_inner_product_backward_data_desc_init(&i, &d->x, &d->w, &d->y);
    else if (k->dir == WEIGHTS)
        s = dnnl_inner_product_backward_weights_desc_init(&i, &d->x, &d->w, NULL, &d->y);
    else
        s = dnnl_inner_product_forward_desc_init(&i, dnnl_forward_inference, &d->x, &d->w,
                                                 k->dir == FORWARD_BIAS ? &d->b : NULL, &d->y);
    return s != dnnl_success ? s : dnnl_primitive_desc_create(pd, &i, attr, engine, NULL);
}

static dnnl_status_t make_pd(const key *k, const descs *d, dnnl_engine_t engine,
                             dnnl_primitive_desc_t *pd)
{
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t post;
    dnnl_status_t s = dnnl_primitive_attr_create(&attr);
    if (s != dnnl_success) return s;
    (void)dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (k->add && (s = dnnl_post_ops_create(&post)) == dnnl_success) {
        (void)dnnl_post_ops_append_sum(post, 1.0f);
        (void)dnnl_primitive_attr_set_post_ops(attr, post);
        (void)dnnl_post_ops_destroy(post);
    }
    if (s == dnnl_success) s = describe_op(k, d, attr, engine, pd);
    (void)dnnl_primitive_attr_destroy(attr);
    return s;
}

zt_status zt_products_create(int n_threads, zt_products **out)
{
    zt_products *p = zt_calloc(1, sizeof *p);
    if (!p) return ZT_NOMEM();
    omp_set_num_threads(n_threads);
    zt_status status = check(dnnl_engine_create(&p->engine, dnnl_cpu, 0), "start");
    if (status == ZT_OK)
        status = check(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_in_order), "start");
    if (status != ZT_OK) {
        zt_products_destroy(&p);
        return status;
    }
    *out = p;
    return ZT_OK;
}

void zt_products_destroy(zt_products **products)
{
    zt_products *p = *products;
    if (!p) return;
    for (int i = 0; i < p->n; i++) {
        product *q = &p->list[i];
        (void)dnnl_primitive_destroy(q->primitive);
        dnnl_memory_t all[] = {q->x, q->w, q->b, q->y, q->pad};
        for (int j = 0; j < 5; j++)
            (void)dnnl_memory_destroy(all[j]);
    }
    if (p->stream) (void)dnnl_stream_destroy(p->stream);
    if (p->engine) (void)dnnl_engine_destroy(p->engine);
    zt_free(p->list);
    zt_free(p);
    *products = NULL;
}

static zt_status prepare(zt_products *p, const key *k, product **out)
{
    for (int i = 0; i < p->n; i++)
        if (memcmp(&p->list[i].k, k, sizeof *k) == 0) {
            *out = &p->list[i];
            return ZT_OK;
        }
    if (p->n == p->room) {
        int room = p->room ? 2 * p->room : 32;
        product *more = zt_realloc(p->list, (size_t)room * sizeof *more);
        if (!more) return ZT_NOMEM();
        p->list = more;
        p->room = room;
    }
    product *q = &p->list[p->n];
    memset(q, 0, sizeof *q);
    memcpy(&q->k, k, sizeof *k);
    descs d = describe(k);
    dnnl_primitive_desc_t pd;
    DNNL(make_pd(k, &d, p->engine, &pd));
    const dnnl_memory_desc_t *pad = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    zt_status status = check(dnnl_primitive_create(&q->primitive, pd), "prepare a product");
    dnnl_memory_desc_t mds[5] = {d.x, d.w, d.b, d.y, *pad};
    dnnl_memory_t *mem[5] = {&q->x, &q->w, &q->b, &q->y, &q->pad};
    if (k->add) { /* matmul's own shapes of the same memory */
        dnnl_memory_desc_t md;
        const int src = dnnl_query_src_md, wei = dnnl_query_weights_md, dst = dnnl_query_dst_md;
        md = *dnnl_primitive_desc_query_md(pd, (dnnl_query_t)src, 0);
        mds[k->dir == DATA ? 3 : k->in_out ? 0 : 3] = md;
        md = *dnnl_primitive_desc_query_md(pd, (dnnl_query_t)wei, 0);
        mds[k->dir == DATA ? 1 : k->in_out ? 3 : 0] = md;
        md = *dnnl_primitive_desc_query_md(pd, (dnnl_query_t)dst, 0);
        mds[k->dir == DATA ? 0 : 1] = md;
    }
    for (int i = 0; i < 5 && status == ZT_OK; i++)
        status = check(dnnl_memory_create(mem[i], &mds[i], p->engine, DNNL_MEMORY_NONE), "prepare");
    (void)dnnl_primitive_desc_destroy(pd);
    ZT_TRY(status);
    p->n++;
    *out = q;
    return ZT_OK;
}

static zt_status run(zt_dev *dev, const key *k, const void *x, const void *w, const void *b,
                     const void *y, void *pad)
{
    product *q;
    ZT_TRY(prepare(dev->products, k, &q));
    const void *data[5] = {x, w, b, y, pad};
    dnnl_memory_t mem[5] = {q->x, q->w, q->b, q->y, q->pad};
    for (int i = 0; i < 5; i++)
        (void)dnnl_memory_set_data_handle(mem[i], (void *)(uintptr_t)data[i]);
    dnnl_exec_arg_t args[5];
    int n = 0;
    if (k->add) {
        const bool data_dir = k->dir == DATA;
        args[n++] = (dnnl_exec_arg_t){DNNL_ARG_SRC, data_dir ? q->y : k->in_out ? q->x : q->y};
        args[n++] = (dnnl_exec_arg_t){DNNL_ARG_WEIGHTS, data_dir ? q->w : k->in_out ? q->y : q->x};
        args[n++] = (dnnl_exec_arg_t){DNNL_ARG_DST, data_dir ? q->x : q->w};
    } else {
        args[n++] = (dnnl_exec_arg_t){k->dir == DATA ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, q->x};
        args[n++] =
            (dnnl_exec_arg_t){k->dir == WEIGHTS ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, q->w};
        args[n++] = (dnnl_exec_arg_t){k->dir >= DATA ? DNNL_ARG_DIFF_DST : DNNL_ARG_DST, q->y};
        if (k->dir == FORWARD_BIAS) args[n++] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, q->b};
    }
    args[n++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, q->pad};
    DNNL(dnnl_primitive_execute(q->primitive, dev->products->stream, n, args));
    DNNL(dnnl_stream_wait(dev->products->stream));
    return ZT_OK;
}

/* ---- the four directions of a linear, with widening where needed ---- */
static bool native(zt_dtype t)
{
    return t == ZT_F32 || (t == ZT_BF16 && zt_cpu_features()->avx512);
}

static key key_of(const zt_linear *l, direction dir, bool add, zt_dtype dw_type)
{
    key k; /* compared as bytes: no padding may stay unset */
    memset(&k, 0, sizeof k);
    k.dir = dir;
    k.type = native(l->type) ? l->type : ZT_F32;
    k.dw_type = dir == WEIGHTS ? (native(dw_type) && native(l->type) ? dw_type : ZT_F32) : ZT_F32;
    k.add = add;
    k.in_out = l->w_in_out;
    k.N = l->N, k.I = l->I, k.O = l->O;
    k.xs = l->x_stride && native(l->type) ? l->x_stride : l->I;
    k.ys = l->y_stride && native(l->type) ? l->y_stride : l->O;
    return k;
}

static size_t pad_bytes(const key *k)
{
    dnnl_engine_t engine;
    dnnl_primitive_desc_t pd;
    size_t bytes = 0;
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success) return 0;
    descs d = describe(k);
    if (make_pd(k, &d, engine, &pd) == dnnl_success) {
        bytes = dnnl_memory_desc_get_size(
            dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
        (void)dnnl_primitive_desc_destroy(pd);
    }
    (void)dnnl_engine_destroy(engine);
    return bytes;
}

static size_t up(size_t n)
{
    return (n + 63) / 64 * 64;
}

static size_t widened(const zt_linear *l)
{
    if (native(l->type)) return 0;
    return up((size_t)(l->N * l->I) * 4) + up((size_t)(l->I * l->O) * 4) + up((size_t)l->O * 4) +
           up((size_t)(l->N * l->O) * 4);
}

size_t zt_linear_scratch(const zt_linear *l)
{
    /* the last shape is remembered: a model's blocks ask for the same ones again and again */
    static _Thread_local struct {
        zt_linear l;
        size_t bytes;
    } known[16];
    static _Thread_local int next;
    for (int i = 0; i < 16; i++)
        if (known[i].bytes && known[i].l.N == l->N && known[i].l.I == l->I &&
            known[i].l.O == l->O && known[i].l.type == l->type &&
            known[i].l.w_in_out == l->w_in_out && known[i].l.x_stride == l->x_stride &&
            known[i].l.y_stride == l->y_stride)
            return known[i].bytes;
    size_t bytes = 64;
    for (int dir = FORWARD; dir <= WEIGHTS; dir++)
        for (int add = 0; add < (dir >= DATA ? 2 : 1); add++)
            for (int wide = 0; wide < (dir == WEIGHTS ? 2 : 1); wide++) {
                key k = key_of(l, (direction)dir, add, wide ? ZT_F32 : l->type);
                size_t b = pad_bytes(&k);
                bytes = b > bytes ? b : bytes;
            }
    bytes = up(bytes) + widened(l);
    known[next].l = *l;
    known[next].bytes = bytes;
    next = (next + 1) % 16;
    return bytes;
}

/* Row by row: between dense fp32 and a strided matrix of 16-bit numbers. */
static void widen(zt_dev *dev, const void *from, zt_dtype t, int64_t rows, int64_t cols,
                  int64_t stride, float *to)
{
    for (int64_t r = 0; r < rows; r += stride == cols ? rows : 1)
        dev->k->cast(dev, stride == cols ? rows * cols : cols,
                     (const char *)from + (size_t)(r * stride) * zt_dtype_bytes(t), t,
                     to + r * cols, ZT_F32);
}

static void narrow(zt_dev *dev, const float *from, zt_dtype t, int64_t rows, int64_t cols,
                   int64_t stride, void *to)
{
    for (int64_t r = 0; r < rows; r += stride == cols ? rows : 1)
        dev->k->cast(dev, stride == cols ? rows * cols : cols, from + r * cols, ZT_F32,
                     (char *)to + (size_t)(r * stride) * zt_dtype_bytes(t), t);
}

typedef struct {
    float *x, *w, *b, *y;
    void *pad;
} wide;

static wide lay_out(const zt_dev *dev, const zt_linear *l)
{
    wide v;
    char *at = dev->scratch;
    v.x = (float *)(void *)at;
    at += up((size_t)(l->N * l->I) * 4);
    v.w = (float *)(void *)at;
    at += up((size_t)(l->I * l->O) * 4);
    v.b = (float *)(void *)at;
    at += up((size_t)l->O * 4);
    v.y = (float *)(void *)at;
    at += up((size_t)(l->N * l->O) * 4);
    v.pad = at;
    return v;
}

static int64_t xs(const zt_linear *l)
{
    return l->x_stride ? l->x_stride : l->I;
}

static int64_t ys(const zt_linear *l)
{
    return l->y_stride ? l->y_stride : l->O;
}

zt_status zt_linear_forward(zt_dev *dev, const zt_linear *l, const void *x, const void *w,
                            const void *b, void *y)
{
    key k = key_of(l, b ? FORWARD_BIAS : FORWARD, false, l->type);
    if (native(l->type)) return run(dev, &k, x, w, b, y, dev->scratch);
    wide v = lay_out(dev, l);
    widen(dev, x, l->type, l->N, l->I, xs(l), v.x);
    widen(dev, w, l->type, 1, l->I * l->O, l->I * l->O, v.w);
    if (b) widen(dev, b, l->type, 1, l->O, l->O, v.b);
    ZT_TRY(run(dev, &k, v.x, v.w, v.b, v.y, v.pad));
    narrow(dev, v.y, l->type, l->N, l->O, ys(l), y);
    return ZT_OK;
}

zt_status zt_linear_dx(zt_dev *dev, const zt_linear *l, const void *dy, const void *w, void *dx,
                       bool add)
{
    key k = key_of(l, DATA, add, l->type);
    if (native(l->type)) return run(dev, &k, dx, w, NULL, dy, dev->scratch);
    wide v = lay_out(dev, l);
    widen(dev, dy, l->type, l->N, l->O, ys(l), v.y);
    widen(dev, w, l->type, 1, l->I * l->O, l->I * l->O, v.w);
    if (add) widen(dev, dx, l->type, l->N, l->I, xs(l), v.x);
    ZT_TRY(run(dev, &k, v.x, v.w, NULL, v.y, v.pad));
    narrow(dev, v.x, l->type, l->N, l->I, xs(l), dx);
    return ZT_OK;
}

zt_status zt_linear_dw(zt_dev *dev, const zt_linear *l, const void *x, const void *dy, void *dw,
                       void *db, zt_dtype dw_type, bool add)
{
    if (db) dev->k->bias_gradient(dev, l, dy, db, dw_type, add);
    if (!dw) return ZT_OK;
    key k = key_of(l, WEIGHTS, add, dw_type);
    if (native(l->type) && native(dw_type)) return run(dev, &k, x, dw, NULL, dy, dev->scratch);
    wide v = lay_out(dev, l);
    if (native(l->type)) /* only the result is of another type */
        return ZT_FAIL(ZT_ERR_ARG, "a %s gradient of %s activations is not supported",
                       zt_dtype_name(dw_type), zt_dtype_name(l->type));
    widen(dev, x, l->type, l->N, l->I, xs(l), v.x);
    widen(dev, dy, l->type, l->N, l->O, ys(l), v.y);
    float *sum = dw_type == ZT_F32 ? dw : v.w;
    if (add && sum == v.w) widen(dev, dw, dw_type, 1, l->I * l->O, l->I * l->O, v.w);
    ZT_TRY(run(dev, &k, v.x, sum, NULL, v.y, v.pad));
    if (sum == v.w) narrow(dev, v.w, dw_type, 1, l->I * l->O, l->I * l->O, dw);
    return ZT_OK;
}

const char *zt_products_name(void)
{
    static _Thread_local char name[64];
    const dnnl_version_t *v = dnnl_version();
    (void)snprintf(name, sizeof name, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    return name;
}
