/* graph.c - appending to a graph: every call of a model function checks its shapes here. */
#include "graph/graph.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const op_names[ZT_OPS] = {
    [ZT_OP_EMBED] = "embed",
    [ZT_OP_LINEAR] = "linear",
    [ZT_OP_LAYER_NORM] = "layer_norm",
    [ZT_OP_RMS_NORM] = "rms_norm",
    [ZT_OP_GELU] = "gelu",
    [ZT_OP_SILU_MUL] = "silu_mul",
    [ZT_OP_ADD] = "add",
    [ZT_OP_DROPOUT] = "dropout",
    [ZT_OP_ROPE] = "rope",
    [ZT_OP_ATTENTION] = "attention",
    [ZT_OP_LM_HEAD] = "lm_head",
};

const char *zt_op_name(zt_op op)
{
    return op_names[op];
}

#define REFUSE(g, ...) ((g)->status = ZT_FAIL(ZT_ERR_SHAPE, __VA_ARGS__))

/* Room for one more of an array of the graph; false (and the sticky error) when there is none. */
static bool grow(zt_graph *g, void **array, int count, int *room, size_t bytes)
{
    if (count < *room) return true;
    int more = *room ? 2 * *room : 64;
    void *p = zt_realloc(*array, (size_t)more * bytes);
    if (!p) {
        g->status = ZT_NOMEM();
        return false;
    }
    *array = p;
    *room = more;
    return true;
}

zt_status zt_graph_create(zt_graph **out)
{
    zt_graph *g = zt_calloc(1, sizeof *g);
    if (!g) return ZT_NOMEM();
    *out = g;
    return ZT_OK;
}

void zt_graph_destroy(zt_graph **g)
{
    if (!*g) return;
    for (int i = 0; i < (*g)->n_params; i++)
        zt_free((*g)->params[i].name);
    zt_free((*g)->nodes);
    zt_free((*g)->values);
    zt_free((*g)->params);
    zt_free((*g)->segments);
    zt_free((*g)->inv_freq);
    zt_free((*g)->slots);
    zt_free(*g);
    *g = NULL;
}

/* The gradient of a value that is read in parts is written part by part: each once, and all of it. */
static void check_parts(zt_graph *g)
{
    for (int v = g->n_values; v-- > 0 && g->status == ZT_OK;) { /* parts stand behind their whole */
        zt_value *x = &g->values[v];
        if (x->n_parts && (x->covered != x->cols || x->uses != x->n_parts))
            REFUSE(g, "the parts of %s's result must each be used once, and nothing else of it",
                   zt_op_name(g->nodes[x->node].op));
        x->n_parts = 0;
        x->covered = 0;
        if (x->parent < 0) continue;
        g->values[x->parent].n_parts++;
        g->values[x->parent].covered += x->uses == 1 ? x->cols : 0;
    }
}

zt_status zt_graph_status(zt_graph *g)
{
    check_parts(g);
    if (g->status == ZT_OK && (g->n_nodes == 0 || g->nodes[g->n_nodes - 1].op != ZT_OP_LM_HEAD))
        REFUSE(g, "the model has no lm_head at its end");
    return g->status;
}

int64_t zt_graph_numel(const zt_graph *g, bool trainable_only)
{
    int64_t n = 0;
    for (int i = 0; i < g->n_params; i++)
        if (!trainable_only || g->params[i].trainable) n += g->params[i].numel;
    return n;
}

/* The slot of a name, or the free one where it belongs. */
static int *slot_of(const zt_graph *g, const char *name)
{
    for (uint32_t i = (uint32_t)zt_hash(name, strlen(name));; i++) {
        int *slot = &g->slots[i & (uint32_t)(g->n_slots - 1)];
        if (*slot < 0 || strcmp(g->params[*slot].name, name) == 0) return slot;
    }
}

int zt_graph_find(const zt_graph *g, const char *name)
{
    return g->n_slots ? *slot_of(g, name) : -1;
}

/* Enters the last parameter; at most half of the slots are taken. */
static void enter_name(zt_graph *g)
{
    int from = g->n_params - 1;
    if (2 * g->n_params > g->n_slots) {
        const int n = g->n_slots ? 2 * g->n_slots : 128;
        int *more = zt_malloc((size_t)n * sizeof *more);
        if (!more) {
            g->status = ZT_NOMEM();
            return;
        }
        memset(more, 0xFF, (size_t)n * sizeof *more);
        zt_free(g->slots);
        g->slots = more;
        g->n_slots = n;
        from = 0;
    }
    for (int i = from; i < g->n_params; i++)
        *slot_of(g, g->params[i].name) = i;
}

void zt_segment_name(const zt_graph *g, int segment, char *text, size_t size)
{
    int block = 0;
    for (int s = 0; s < segment; s++)
        block += g->segments[s].is_block;
    const char *form = g->segments[segment].is_block ? "block %d"
                       : block == 0                  ? "the embedding"
                                                     : "the head";
    (void)snprintf(text, size, form, block);
}

/* ---- scopes and blocks ---- */
void zt_push(zt_graph *g, const char *fmt, ...)
{
    if (g->status != ZT_OK) return;
    size_t length = strlen(g->prefix), room = sizeof g->prefix - length;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(g->prefix + length, room, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= room || g->depth == 8) {
        REFUSE(g, "the scope \"%s\" is too long or too deep", fmt);
        return;
    }
    g->prefix_at[g->depth++] = (int)length;
}

void zt_pop(zt_graph *g)
{
    if (g->status == ZT_OK && g->depth > 0) g->prefix[g->prefix_at[--g->depth]] = '\0';
}

static void segment_open(zt_graph *g, bool is_block)
{
    if (!grow(g, (void **)&g->segments, g->n_segments, &g->room_segments, sizeof *g->segments))
        return;
    g->segments[g->n_segments++] =
        (zt_segment){.first = g->n_nodes, .last = g->n_nodes, .is_block = is_block};
}

void zt_block_begin(zt_graph *g)
{
    if (g->status != ZT_OK) return;
    if (g->in_block) {
        REFUSE(g, "a block begins inside a block");
        return;
    }
    segment_open(g, true);
    g->in_block = true;
}

void zt_block_end(zt_graph *g)
{
    g->in_block = false;
}

/* The segment that the next node belongs to. */
static int segment_now(zt_graph *g)
{
    if (!g->in_block && (g->n_segments == 0 || g->segments[g->n_segments - 1].is_block))
        segment_open(g, false);
    return g->n_segments - 1;
}

/* ---- parameters ---- */
zt_par zt_param(zt_graph *g, const char *name, int64_t out, int64_t in, zt_par_opt o)
{
    if (g->status != ZT_OK) return ZT_NO_PAR;
    char full[512];
    (void)snprintf(full, sizeof full, "%s%s", g->prefix, name);
    int segment = segment_now(g), i = zt_graph_find(g, full);
    if (g->status != ZT_OK) return ZT_NO_PAR;
    if (i >= 0) {
        zt_parameter *p = &g->params[i];
        if (p->out != out || p->in != in) {
            REFUSE(g, "%s is used as [%lld, %lld] and as [%lld, %lld]", full, (long long)p->out,
                   (long long)p->in, (long long)out, (long long)in);
            return ZT_NO_PAR;
        }
        return (zt_par){i};
    }
    if (out < 1 || in < 0 || (in > 0 && out > INT64_MAX / 64 / in)) {
        REFUSE(g, "%s cannot have the shape [%lld, %lld]", full, (long long)out, (long long)in);
        return ZT_NO_PAR;
    }
    if (!grow(g, (void **)&g->params, g->n_params, &g->room_params, sizeof *g->params))
        return ZT_NO_PAR;
    char *copy = zt_strdup(full);
    if (!copy) {
        g->status = ZT_NOMEM();
        return ZT_NO_PAR;
    }
    g->params[g->n_params] = (zt_parameter){.name = copy,
                                            .out = out,
                                            .in = in,
                                            .numel = in ? out * in : out,
                                            .opt = o,
                                            .segment = segment,
                                            .last_segment = -1,
                                            .trainable = true};
    const zt_par p = {g->n_params++};
    enter_name(g);
    return g->status == ZT_OK ? p : ZT_NO_PAR;
}

/* ---- nodes ---- */
static int add_value(zt_graph *g, zt_value v)
{
    if (!grow(g, (void **)&g->values, g->n_values, &g->room_values, sizeof *g->values)) return -1;
    g->values[g->n_values] = v;
    return g->n_values++;
}

/* Appends a node whose inputs and parameters have been filled in; cols 0: it has no value. */
static zt_val add_node(zt_graph *g, zt_node n, int64_t cols)
{
    n.segment = segment_now(g);
    n.out = -1;
    if (g->status != ZT_OK ||
        !grow(g, (void **)&g->nodes, g->n_nodes, &g->room_nodes, sizeof *g->nodes))
        return (zt_val){-1};
    if (cols) n.out = add_value(g, (zt_value){.cols = cols, .node = g->n_nodes, .parent = -1});
    if (g->status != ZT_OK) return (zt_val){-1};
    for (int i = 0; i < n.n_in; i++) {
        if (g->values[n.in[i]].parent >= 0 && n.op != ZT_OP_ATTENTION) {
            REFUSE(g, "%s cannot read a part of a value; attention can", zt_op_name(n.op));
            return (zt_val){-1};
        }
        g->values[n.in[i]].uses++;
        if (g->values[n.in[i]].parent >= 0) g->values[g->values[n.in[i]].parent].uses++;
    }
    for (int i = 0; i < n.n_par; i++)
        if (n.par[i] >= 0 && g->params[n.par[i]].last_segment != n.segment) {
            g->params[n.par[i]].last_segment = n.segment;
            g->params[n.par[i]].n_segments++;
        }
    g->nodes[g->n_nodes++] = n;
    g->segments[n.segment].last = g->n_nodes;
    return (zt_val){n.out};
}

static bool bad(zt_graph *g, zt_val v)
{
    if (g->status == ZT_OK && (v.id < 0 || v.id >= g->n_values))
        REFUSE(g, "an operation was given no value");
    return g->status != ZT_OK;
}

static bool bad_par(zt_graph *g, zt_par p)
{
    if (g->status == ZT_OK && (p.id < 0 || p.id >= g->n_params))
        REFUSE(g, "an operation was given no weight");
    return g->status != ZT_OK;
}

static int64_t cols(const zt_graph *g, zt_val v)
{
    return g->values[v.id].cols;
}

zt_val zt_nn_embed(zt_graph *g, zt_ids_kind ids, zt_par table)
{
    if (bad_par(g, table)) return (zt_val){-1};
    return add_node(
        g, (zt_node){.op = ZT_OP_EMBED, .n_par = 1, .par = {table.id}, .flag = ids == ZT_POSITIONS},
        g->params[table.id].in);
}

/* x against a weight [out, in] and its vectors [out] */
static bool misfit(zt_graph *g, const char *op, zt_val x, zt_par w)
{
    if (bad(g, x) || bad_par(g, w)) return true;
    const zt_parameter *p = &g->params[w.id];
    int64_t want = p->in ? p->in : p->out;
    if (cols(g, x) != want)
        REFUSE(g, "%s: %s wants %lld channels and is given %lld", op, p->name, (long long)want,
               (long long)cols(g, x));
    return g->status != ZT_OK;
}

zt_val zt_nn_linear(zt_graph *g, zt_val x, zt_par w, zt_par bias)
{
    if (misfit(g, "linear", x, w)) return (zt_val){-1};
    int64_t out = g->params[w.id].out;
    if (bias.id >= 0 && (g->params[bias.id].out != out || g->params[bias.id].in != 0)) {
        REFUSE(g, "linear: the bias %s does not fit %s", g->params[bias.id].name,
               g->params[w.id].name);
        return (zt_val){-1};
    }
    return add_node(
        g,
        (zt_node){.op = ZT_OP_LINEAR, .n_in = 1, .in = {x.id}, .n_par = 2, .par = {w.id, bias.id}},
        out);
}

zt_val zt_nn_layer_norm(zt_graph *g, zt_val x, zt_par scale, zt_par shift, float eps)
{
    if (misfit(g, "layer_norm", x, scale) || misfit(g, "layer_norm", x, shift)) return (zt_val){-1};
    return add_node(g,
                    (zt_node){.op = ZT_OP_LAYER_NORM,
                              .n_in = 1,
                              .in = {x.id},
                              .n_par = 2,
                              .par = {scale.id, shift.id},
                              .number = eps},
                    cols(g, x));
}

zt_val zt_nn_rms_norm(zt_graph *g, zt_val x, zt_par scale, float eps)
{
    if (misfit(g, "rms_norm", x, scale)) return (zt_val){-1};
    return add_node(g,
                    (zt_node){.op = ZT_OP_RMS_NORM,
                              .n_in = 1,
                              .in = {x.id},
                              .n_par = 1,
                              .par = {scale.id},
                              .number = eps},
                    cols(g, x));
}

zt_val zt_nn_gelu(zt_graph *g, zt_val x, bool tanh_form)
{
    if (bad(g, x)) return (zt_val){-1};
    return add_node(g, (zt_node){.op = ZT_OP_GELU, .n_in = 1, .in = {x.id}, .flag = tanh_form},
                    cols(g, x));
}

static zt_val two(zt_graph *g, zt_op op, zt_val a, zt_val b)
{
    if (bad(g, a) || bad(g, b)) return (zt_val){-1};
    if (cols(g, a) != cols(g, b)) {
        REFUSE(g, "%s of %lld and %lld channels", zt_op_name(op), (long long)cols(g, a),
               (long long)cols(g, b));
        return (zt_val){-1};
    }
    return add_node(g, (zt_node){.op = op, .n_in = 2, .in = {a.id, b.id}}, cols(g, a));
}

zt_val zt_nn_silu_mul(zt_graph *g, zt_val gate, zt_val up)
{
    return two(g, ZT_OP_SILU_MUL, gate, up);
}

zt_val zt_nn_add(zt_graph *g, zt_val a, zt_val b)
{
    return two(g, ZT_OP_ADD, a, b);
}

zt_val zt_nn_dropout(zt_graph *g, zt_val x, float p)
{
    if (bad(g, x) || p == 0.0f) return x;
    if (!(p > 0.0f && p < 1.0f)) {
        REFUSE(g, "dropout of %g is not in [0, 1)", (double)p);
        return x;
    }
    return add_node(g, (zt_node){.op = ZT_OP_DROPOUT, .n_in = 1, .in = {x.id}, .number = p},
                    cols(g, x));
}

zt_val zt_nn_part(zt_graph *g, zt_val x, int which, int of)
{
    if (bad(g, x)) return x;
    if (of < 1 || which < 0 || which >= of || cols(g, x) % of || g->values[x.id].parent >= 0) {
        REFUSE(g, "part %d of %d of %lld channels", which, of, (long long)cols(g, x));
        return x;
    }
    int64_t n = cols(g, x) / of;
    return (zt_val){
        add_value(g, (zt_value){.cols = n, .node = -1, .parent = x.id, .col = which * n})};
}

zt_val zt_nn_rope(zt_graph *g, zt_val x, int head_dim, const float *inv_freq)
{
    if (bad(g, x)) return x;
    if (head_dim < 2 || head_dim % 2 || cols(g, x) % head_dim || g->values[x.id].parent >= 0 ||
        (g->inv_freq && g->rope_dim != head_dim)) {
        REFUSE(g, "rope: heads of %d channels in %lld", head_dim, (long long)cols(g, x));
        return x;
    }
    if (!g->inv_freq) {
        g->inv_freq = zt_malloc((size_t)head_dim / 2 * sizeof *g->inv_freq);
        if (!g->inv_freq) {
            g->status = ZT_NOMEM();
            return x;
        }
        memcpy(g->inv_freq, inv_freq, (size_t)head_dim / 2 * sizeof *g->inv_freq);
        g->rope_dim = head_dim;
    }
    return add_node(g,
                    (zt_node){.op = ZT_OP_ROPE,
                              .n_in = 1,
                              .in = {x.id},
                              .heads = (int)(cols(g, x) / head_dim),
                              .head_dim = head_dim},
                    cols(g, x));
}

zt_val zt_nn_causal_attention(zt_graph *g, zt_val q, zt_val k, zt_val v, zt_attention_opt o)
{
    if (bad(g, q) || bad(g, k) || bad(g, v)) return (zt_val){-1};
    int64_t d = o.heads > 0 ? cols(g, q) / o.heads : 0;
    if (d < 1 || cols(g, q) % o.heads || o.kv_heads < 1 || o.heads % o.kv_heads ||
        cols(g, k) != d * o.kv_heads || cols(g, v) != d * o.kv_heads) {
        REFUSE(g, "attention: %d heads over %lld channels, %d key heads over %lld and %lld",
               o.heads, (long long)cols(g, q), o.kv_heads, (long long)cols(g, k),
               (long long)cols(g, v));
        return (zt_val){-1};
    }
    if (!(o.dropout >= 0 && o.dropout < 1)) {
        REFUSE(g, "attention: dropout of %g is not in [0, 1)", (double)o.dropout);
        return (zt_val){-1};
    }
    return add_node(g,
                    (zt_node){.op = ZT_OP_ATTENTION,
                              .n_in = 3,
                              .in = {q.id, k.id, v.id},
                              .number = o.scale,
                              .weight_dropout = o.dropout,
                              .heads = o.heads,
                              .kv_heads = o.kv_heads,
                              .head_dim = (int)d},
                    cols(g, q));
}

void zt_nn_lm_head(zt_graph *g, zt_val x, zt_par w)
{
    if (misfit(g, "lm_head", x, w)) return;
    (void)add_node(
        g, (zt_node){.op = ZT_OP_LM_HEAD, .n_in = 1, .in = {x.id}, .n_par = 1, .par = {w.id}}, 0);
}
