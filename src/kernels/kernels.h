/* kernels.h - the functions that do arithmetic, behind one table per backend.
 *
 * A backend fills a zt_kernels; the graph's ops call nothing else. The CPU backend's vector code is
 * written once and compiled for plain C, AVX2 and AVX-512; zt_kernels_cpu chooses at run time. Matrix
 * products are oneDNN's. Entries thread inside through dev->n_threads, allocate nothing, and their
 * results do not depend on the number of threads (matrix products of the library excepted).
 *
 * Letters: B batch, T time, N = B*T rows, C channels, H query heads, G key/value heads, D head size,
 * V vocabulary, F hidden width. Matrices are row-major; `type` is the dtype of activations and
 * weights (fp32, bf16, fp16); arithmetic and accumulation are fp32. d + name = gradient.
 * "add" arguments: false overwrites, true adds to what is there (in fp32, rounded once). */
#ifndef ZT_KERNELS_H
#define ZT_KERNELS_H
#include "base/base.h"

/* One rank's compute device. Products are prepared on first use and kept in `products`. */
typedef struct zt_products zt_products;
typedef struct zt_dev {
    const struct zt_kernels *k;
    int n_threads;
    void *scratch; /* at least the largest ..._scratch() of the ops to run; 64-byte aligned */
    size_t scratch_bytes;
    zt_products *products; /* the library's prepared products, by shape */
} zt_dev;

/* y[N, O] = x[N, I] W^T + b. W is [O, I], or [I, O] when w_in_out (GPT-2's Conv1D files). */
typedef struct {
    int64_t N, I, O;
    zt_dtype type;
    bool w_in_out;
    /* distance between rows of x / y (and dx / dy) in elements; 0 = I / O: dense */
    int64_t x_stride, y_stride;
} zt_linear;

/* q [B*T, q_stride], head h at column h*D; k, v [B*S, ...], S = past + T keys; out as q. With a
 * cache (past > 0) B's examples lie S_max rows apart in k and v. lse [B, H, T] fp32: log of each
 * row's sum of exponentials, for the backward. Causal: query t (position past + t) sees keys
 * 0..past+t, and not those before start[b*T+t] when start is given (packed documents). Dropout is of the
 * weights after their normalisation, as in transformers: key s of row r = ((first + b) * H + h) * T + t is keyed by
 * word s % 64 / 16 of block (r * ceil(S / 64) + s / 64) * 16 + s % 16. */
typedef struct {
    int64_t B, T, S, S_max, past, H, G, D;
    int64_t q_stride, k_stride, v_stride, o_stride;
    float scale; /* 0 = 1/sqrt(D) */
    bool causal;
    zt_dtype type;
    const int32_t *start; /* [B, T] or NULL */
    float dropout;        /* 0: none, and rng is not looked at */
    const zt_rng *rng;
    int64_t first; /* number of the first example */
} zt_attention;

/* Rotary table: cos/sin [T_max, D/2] fp32. rotate-half convention of Hugging Face: pair (i, i+D/2).*/
typedef struct {
    int64_t N, heads, D, x_stride; /* rows, heads per row, head size, distance between rows */
    zt_dtype type;
    const float *cos, *sin;
    const int32_t *pos; /* [N] */
} zt_rope;

/* One AdamW step over n elements of a shard (decoupled decay):
 *   g = grad * grad_scale;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
 *   p -= lr * (m / bc1 / (sqrt(v / bc2) + eps) + wd * p)
 * evaluated in PyTorch's order: p *= 1 - lr wd; p -= (lr/bc1) * m / (sqrt(v)/sqrt(bc2) + eps).
 * The same bits for every split of the range and on every CPU path (fused multiply-add written out).
 * `copy`: where not NULL, p rounded to copy_type is written there too. */
typedef struct {
    float lr, beta1, beta2, eps, weight_decay, bc1, bc2, grad_scale;
    bool adam_l2; /* plain Adam: wd * p is added to the gradient instead */
} zt_adam;
typedef struct {
    float lr, momentum, dampening, weight_decay, grad_scale;
    bool nesterov, first; /* first: the momentum buffer is being set (torch: buf = grad) */
} zt_sgd;

typedef struct zt_kernels {
    const char *name; /* "plain", "avx2", "avx512", "avx512_bf16" */

    /* ---- products. fp16 is computed through fp32 tiles ---- */
    size_t (*linear_scratch)(const zt_linear *l); /* the largest of the four */
    zt_status (*linear)(zt_dev *, const zt_linear *l, const void *x, const void *w, const void *b,
                        void *y);
    zt_status (*linear_dx)(zt_dev *, const zt_linear *l, const void *dy, const void *w, void *dx,
                           bool add);
    /* dw (laid out as w) and db [O], each of type dw_type; either may be NULL */
    zt_status (*linear_dw)(zt_dev *, const zt_linear *l, const void *x, const void *dy, void *dw,
                           void *db, zt_dtype dw_type, bool add);

    /* db[o] (+)= sum over rows of dy[n, o]; called by linear_dw */
    void (*bias_gradient)(zt_dev *, const zt_linear *l, const void *dy, void *db, zt_dtype dw_type,
                          bool add);

    /* ---- attention without a T x T matrix: tiles, online softmax ---- */
    size_t (*attention_scratch)(const zt_attention *a, int n_threads);
    void (*attention)(zt_dev *, const zt_attention *a, const void *q, const void *k, const void *v,
                      void *out, float *lse);
    /* dq, dk, dv have the strides of q, k, v and are overwritten. No cache (past = 0, S = T). */
    void (*attention_bwd)(zt_dev *, const zt_attention *a, const void *q, const void *k,
                          const void *v, const void *out, const float *lse, const void *dout,
                          void *dq, void *dk, void *dv);

    /* ---- norms: mean, rstd [N] fp32. dscale, dshift of type dw_type ---- */
    size_t (*norm_scratch)(int64_t N, int64_t C);
    void (*layer_norm)(zt_dev *, int64_t N, int64_t C, float eps, zt_dtype type, const void *x,
                       const void *scale, const void *shift, void *y, float *mean, float *rstd);
    void (*layer_norm_bwd)(zt_dev *, int64_t N, int64_t C, zt_dtype type, const void *x,
                           const void *scale, const float *mean, const float *rstd, const void *dy,
                           void *dx, bool add_dx, void *dscale, void *dshift, zt_dtype dw_type,
                           bool add_dw); /* dscale and dshift may be NULL (frozen) */
    void (*rms_norm)(zt_dev *, int64_t N, int64_t C, float eps, zt_dtype type, const void *x,
                     const void *scale, void *y, float *rstd);
    void (*rms_norm_bwd)(zt_dev *, int64_t N, int64_t C, zt_dtype type, const void *x,
                         const void *scale, const float *rstd, const void *dy, void *dx,
                         bool add_dx, void *dscale, zt_dtype dw_type, bool add_dw);

    /* ---- elementwise over n elements ---- */
    void (*gelu)(zt_dev *, int64_t n, bool tanh_form, zt_dtype type, const void *x, void *y);
    void (*gelu_bwd)(zt_dev *, int64_t n, bool tanh_form, zt_dtype type, const void *x,
                     const void *dy, void *dx); /* dx may be dy */
    void (*silu_mul)(zt_dev *, int64_t n, zt_dtype type, const void *gate, const void *up, void *y);
    void (*silu_mul_bwd)(zt_dev *, int64_t n, zt_dtype type, const void *gate, const void *up,
                         const void *dy, void *dgate, void *dup); /* either may be dy */
    void (*add)(zt_dev *, int64_t n, zt_dtype type, const void *a, const void *b, void *y);
    void (*dropout)(zt_dev *, int64_t n, zt_dtype type, const void *x, void *y, float p,
                    const zt_rng *rng,
                    int64_t first); /* element i is keyed by first + i; y may be x;
                                                          its backward is itself */
    void (*rope)(zt_dev *, const zt_rope *r, const void *x, void *y, bool inverse); /* y may be x */
    void (*cast)(zt_dev *, int64_t n, const void *x, zt_dtype from, void *y, zt_dtype to);

    /* ---- embedding: ids [N]; add: y += (positions onto tokens) ---- */
    void (*embed)(zt_dev *, int64_t N, int64_t C, zt_dtype type, const int32_t *ids,
                  const void *table, void *y, bool add);
    /* dtable[ids[i]] += dy[i], equal ids summed in fp32 in order of i and added once. Rows that no id
     * names are left alone when add, zeroed when not. scratch as asked. */
    size_t (*embed_bwd_scratch)(int64_t N, int64_t C, int64_t V);
    void (*embed_bwd)(zt_dev *, int64_t N, int64_t C, int64_t V, zt_dtype type, const int32_t *ids,
                      const void *dy, void *dtable, zt_dtype dw_type, bool add);

    /* ---- softmax + cross-entropy over a tile of logits [N, V], rows `stride` apart. labels < 0 are
     * masked. loss[i] (fp32) = -log p(label) or 0. With dlogits (may be logits):
     * (p - onehot) * scale, rows of masked labels zero. ---- */
    void (*cross_entropy)(zt_dev *, int64_t N, int64_t V, int64_t stride, zt_dtype type,
                          const void *logits, const int32_t *labels, float *loss, void *dlogits,
                          float scale);

    /* ---- over shards. The sums do not depend on threads ---- */
    double (*sum_squares)(zt_dev *, int64_t n, zt_dtype type, const void *x); /* inf/nan pass on */
    int64_t (*find_nonfinite)(zt_dev *, int64_t n, zt_dtype type, const void *x); /* first, or -1 */
    void (*adam)(zt_dev *, int64_t n, const zt_adam *a, float *p, float *m, float *v,
                 const void *grad, zt_dtype grad_type, void *copy, zt_dtype copy_type);
    void (*sgd)(zt_dev *, int64_t n, const zt_sgd *s, float *p, float *buf, const void *grad,
                zt_dtype grad_type, void *copy, zt_dtype copy_type); /* buf NULL without momentum */
} zt_kernels;

/* The best table for this CPU; `want` NULL or "auto", or a name to force it. Local. */
ZT_MUST_USE zt_status zt_kernels_cpu(const char *want, const zt_kernels **out);

const char *zt_kernels_products(void); /* the library that makes the products, with its version */

ZT_MUST_USE zt_status zt_dev_create(const zt_kernels *k, int n_threads, zt_dev *out);
void zt_dev_destroy(zt_dev *dev); /* frees the prepared products; scratch is the caller's */
#endif
