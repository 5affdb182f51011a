/* program.c - from a graph to instructions: forward, what is run again, backward node by node, and
 * the lifetime of every buffer.
 *
 * Gradients of values share buffers wherever that is safe: both inputs of an addition take over its
 * output's gradient, elementwise backward works in place. A buffer shared by a value whose own backward
 * is still to come is copied before anything is added to it. */
#include "graph/program.h"
#include "graph/ops.h"

typedef struct {
    zt_program *p;
    const zt_graph *g;
    zt_ref *value[2]; /* by instance: 0 = forward's, 1 = recomputed */
    zt_ref *saved[2]; /* 2 a node */
    zt_ref *grad;     /* by value */
    bool *grad_done;  /* by value: nobody will read its gradient any more */
    int *waiting;     /* by buffer: values with their gradient in it that are not done */
    int room_waiting;
    bool *needs_grad; /* by value */
    bool *seen;       /* by parameter: has a gradient in this pass */
    bool *wanted;     /* by value: scratch of recompute */
    zt_status status;
} maker;

static const zt_ref none = {-1, 0, 0};

static int64_t rows(const maker *m)
{
    return m->p->opt.B * m->p->opt.T;
}

static bool grow(maker *m, void **array, int count, int *room, size_t bytes)
{
    if (count < *room) return true;
    int more = *room ? 2 * *room : 128;
    void *q = zt_realloc(*array, (size_t)more * bytes);
    if (!q) {
        m->status = ZT_NOMEM();
        return false;
    }
    *array = q;
    *room = more;
    return true;
}

static zt_ref new_buf(maker *m, size_t bytes, int64_t stride)
{
    zt_program *p = m->p;
    if (m->status != ZT_OK ||
        !grow(m, (void **)&p->bufs, p->n_bufs, &p->room_bufs, sizeof *p->bufs) ||
        !grow(m, (void **)&m->waiting, p->n_bufs, &m->room_waiting, sizeof *m->waiting))
        return none;
    m->waiting[p->n_bufs] = 0;
    p->bufs[p->n_bufs] = (zt_interval){.bytes = bytes, .first = INT32_MAX, .last = -1};
    return (zt_ref){p->n_bufs++, 0, stride};
}

static zt_ref new_value_buf(maker *m, int64_t cols)
{
    return new_buf(m, (size_t)(rows(m) * cols) * zt_dtype_bytes(m->p->opt.type), cols);
}

static void touch(maker *m, zt_ref r, int at)
{
    if (r.buf < 0) return;
    zt_interval *b = &m->p->bufs[r.buf];
    if (at < b->first) b->first = at;
    if (at > b->last) b->last = at;
}

static void emit(maker *m, zt_instr i)
{
    zt_program *p = m->p;
    if (m->status != ZT_OK ||
        !grow(m, (void **)&p->instrs, p->n_instrs, &p->room_instrs, sizeof *p->instrs))
        return;
    for (int k = 0; k < 3; k++) {
        touch(m, i.in[k], p->n_instrs);
        touch(m, i.d_in[k], p->n_instrs);
    }
    touch(m, i.out, p->n_instrs);
    touch(m, i.saved[0], p->n_instrs);
    touch(m, i.saved[1], p->n_instrs);
    touch(m, i.d_out, p->n_instrs);
    p->instrs[p->n_instrs++] = i;
}

static zt_instr blank(zt_do what, int node, int segment)
{
    zt_instr i = {.what = what, .node = node, .segment = segment};
    i.out = i.d_out = i.saved[0] = i.saved[1] = none;
    for (int k = 0; k < 3; k++)
        i.in[k] = i.d_in[k] = none;
    return i;
}

/* ---- forward ---- */
static int owner_of(const zt_graph *g, int value)
{
    return g->values[value].parent >= 0 ? g->values[value].parent : value;
}

/* Where a value lies, for a reader in `segment` of the given instance. */
static zt_ref value_ref(const maker *m, int value, int instance, int segment)
{
    int own = owner_of(m->g, value);
    bool inside = m->g->nodes[m->g->values[own].node].segment == segment;
    zt_ref r = m->value[inside ? instance : 0][own];
    if (own != value) r.col = m->g->values[value].col;
    return r;
}

/* May the node write its result over its k-th input? Nobody else may want that input later. */
static bool may_overwrite(const maker *m, const zt_node *n, int k)
{
    const zt_value *v = &m->g->values[n->in[k]];
    if (!zt_op_traits(n->op)->in_place || v->parent >= 0 || v->uses != 1) return false;
    const zt_node *from = &m->g->nodes[v->node];
    return from->segment == n->segment && !zt_op_traits(from->op)->needs_out;
}

static void forward(maker *m, int node, int instance)
{
    const zt_graph *g = m->g;
    const zt_node *n = &g->nodes[node];
    zt_instr i = blank(instance ? ZT_DO_RECOMPUTE : ZT_DO_FORWARD, node, n->segment);
    for (int k = 0; k < n->n_in; k++)
        i.in[k] = value_ref(m, n->in[k], instance, n->segment);
    for (int k = n->n_in; k-- > 0 && i.out.buf < 0;)
        if (may_overwrite(m, n, k)) i.out = i.in[k];
    if (i.out.buf < 0) i.out = new_value_buf(m, g->values[n->out].cols);
    m->value[instance][n->out] = i.out;
    for (int s = 0; s < 2; s++) {
        size_t bytes = zt_op_saved_bytes(n, s, m->p->opt.B, m->p->opt.T);
        if (bytes) i.saved[s] = m->saved[instance][2 * node + s] = new_buf(m, bytes, 1);
    }
    emit(m, i);
}

/* ---- backward ---- */
static void find_needs(maker *m)
{
    const zt_graph *g = m->g;
    for (int v = 0; v < g->n_values; v++)
        m->grad[v] = none;
    for (int j = 0; j < g->n_nodes; j++) {
        const zt_node *n = &g->nodes[j];
        bool need = false;
        for (int k = 0; k < n->n_par; k++)
            need = need || (n->par[k] >= 0 && g->params[n->par[k]].trainable);
        for (int k = 0; k < n->n_in; k++)
            need = need || m->needs_grad[owner_of(g, n->in[k])];
        if (n->out >= 0) m->needs_grad[n->out] = need;
    }
}

/* Puts the gradient of a value that needs one into a buffer. */
static zt_ref set_grad(maker *m, int v, zt_ref r)
{
    if (m->grad[v].buf >= 0) m->waiting[m->grad[v].buf]--;
    if (r.buf >= 0) m->waiting[r.buf]++;
    return m->grad[v] = r;
}

/* Does a value other than v still wait for its backward on this buffer? */
static bool shared(const maker *m, int v)
{
    return m->grad[v].buf >= 0 && m->waiting[m->grad[v].buf] > !m->grad_done[v];
}

static void sum_into(maker *m, zt_ref to, zt_ref from, int64_t cols, int segment)
{
    zt_instr i = blank(ZT_DO_SUM, -1, segment);
    i.in[0] = to;
    i.in[1] = from;
    i.out = to;
    i.cols = cols;
    emit(m, i);
}

/* Makes the value's gradient buffer its own before something is added to it. */
static void unshare(maker *m, int v, int segment)
{
    if (!shared(m, v)) return;
    zt_instr i = blank(ZT_DO_COPY, -1, segment);
    i.cols = m->g->values[v].cols;
    i.in[0] = m->grad[v];
    i.out = set_grad(m, v, new_value_buf(m, i.cols));
    emit(m, i);
}

/* Where a node writes the gradient of input k. An op that cannot add is given a buffer of its own, which
 * *extra asks to be summed afterwards. */
static zt_ref gradient_ref(maker *m, const zt_node *n, int k, bool *add, bool *extra)
{
    const zt_graph *g = m->g;
    int v = n->in[k], own = owner_of(g, v);
    *add = *extra = false;
    if (!m->needs_grad[own]) {
        /* these write all their inputs' gradients at once: an unwanted one goes to waste paper */
        if (n->op != ZT_OP_ATTENTION && n->op != ZT_OP_SILU_MUL) return none;
        zt_ref r = new_value_buf(m, g->values[own].cols);
        r.col = own != v ? g->values[v].col : 0;
        return r;
    }
    if (own != v) { /* a part: its range of the whole's gradient, written exactly once */
        if (m->grad[own].buf < 0) (void)set_grad(m, own, new_value_buf(m, g->values[own].cols));
        zt_ref r = m->grad[own];
        r.col = g->values[v].col;
        return r;
    }
    if (m->grad[v].buf < 0) {
        bool reuse = zt_op_traits(n->op)->back_in_place && n->out >= 0 &&
                     g->values[n->out].cols == g->values[v].cols && !shared(m, n->out);
        for (int j = 0; reuse && j < k; j++) /* only one input may take the buffer over */
            reuse = m->grad[owner_of(g, n->in[j])].buf != m->grad[n->out].buf;
        return set_grad(m, v, reuse ? m->grad[n->out] : new_value_buf(m, g->values[v].cols));
    }
    unshare(m, v, n->segment);
    *add = zt_op_traits(n->op)->back_adds;
    *extra = !*add;
    return *add ? m->grad[v] : new_value_buf(m, g->values[v].cols);
}

static void backward_add(maker *m, const zt_node *n)
{
    for (int k = 0; k < n->n_in; k++) {
        int v = n->in[k];
        if (!m->needs_grad[v]) continue;
        if (m->grad[v].buf < 0) {
            (void)set_grad(m, v, m->grad[n->out]);
        } else {
            unshare(m, v, n->segment);
            sum_into(m, m->grad[v], m->grad[n->out], m->g->values[v].cols, n->segment);
        }
    }
}

/* Fills the gradient side of an instruction and emits it. */
static void backward_emit(maker *m, zt_instr i, const zt_node *n)
{
    bool extra[3] = {false};
    for (int k = 0; k < n->n_in; k++)
        i.d_in[k] = gradient_ref(m, n, k, &i.d_in_add[k], &extra[k]);
    for (int k = 0; k < n->n_par; k++) {
        int p = n->par[k];
        i.d_par[k] = p >= 0 && m->g->params[p].trainable;
        if (i.d_par[k]) {
            i.d_par_add[k] = m->seen[p];
            m->seen[p] = true;
        }
    }
    emit(m, i);
    for (int k = 0; k < n->n_in; k++)
        if (extra[k])
            sum_into(m, m->grad[n->in[k]], i.d_in[k], m->g->values[n->in[k]].cols, n->segment);
}

static void backward(maker *m, int node, int instance)
{
    const zt_node *n = &m->g->nodes[node];
    if (!m->needs_grad[n->out] || m->grad[n->out].buf < 0) return;
    m->grad_done[n->out] = true;
    m->waiting[m->grad[n->out].buf]--;
    if (n->op == ZT_OP_ADD) {
        backward_add(m, n);
        return;
    }
    zt_instr i = blank(ZT_DO_BACKWARD, node, n->segment);
    const zt_op_trait *t = zt_op_traits(n->op);
    for (int k = 0; k < n->n_in && t->needs_in; k++)
        i.in[k] = value_ref(m, n->in[k], instance, n->segment);
    if (t->needs_out) i.out = m->value[instance][n->out];
    i.saved[0] = m->saved[instance][2 * node];
    i.saved[1] = m->saved[instance][2 * node + 1];
    i.d_out = m->grad[n->out];
    backward_emit(m, i, n);
}

/* Runs again those nodes of a block whose results its backward reads. */
static void recompute(maker *m, const zt_segment *s)
{
    const zt_graph *g = m->g;
    for (int j = s->first; j < s->last; j++) { /* of earlier blocks */
        m->wanted[g->nodes[j].out] = false;
        for (int k = 0; k < g->nodes[j].n_in; k++)
            m->wanted[owner_of(g, g->nodes[j].in[k])] = false;
    }
    for (int j = s->first; j < s->last; j++) {
        const zt_node *n = &g->nodes[j];
        const zt_op_trait *t = zt_op_traits(n->op);
        if (!m->needs_grad[n->out]) continue;
        for (int k = 0; k < n->n_in && t->needs_in; k++)
            m->wanted[owner_of(g, n->in[k])] = true;
        if (t->needs_out || t->has_saved) m->wanted[n->out] = true;
    }
    for (int j = s->last; j-- > s->first;)
        for (int k = 0; m->wanted[g->nodes[j].out] && k < g->nodes[j].n_in; k++)
            m->wanted[owner_of(g, g->nodes[j].in[k])] = true;
    for (int j = s->first; j < s->last; j++)
        if (m->wanted[g->nodes[j].out]) forward(m, j, 1);
}

static void make_instrs(maker *m)
{
    const zt_graph *g = m->g;
    const int head = g->n_nodes - 1;
    const bool train = m->p->opt.goal == ZT_GOAL_TRAIN;
    if (train) find_needs(m);
    for (int j = 0; j < head; j++)
        forward(m, j, 0);
    const zt_node *h = &g->nodes[head];
    zt_instr i = blank(ZT_DO_FORWARD, head, h->segment);
    i.in[0] = value_ref(m, h->in[0], 0, h->segment);
    if (!train) {
        emit(m, i);
        return;
    }
    backward_emit(m, i, h);
    for (int s = g->n_segments; s-- > 0;) {
        const zt_segment *seg = &g->segments[s];
        bool again = m->p->opt.recompute && seg->is_block;
        if (again) recompute(m, seg);
        for (int j = seg->last; j-- > seg->first;)
            if (j != head) backward(m, j, again);
    }
}

static void release(maker *m)
{
    for (int k = 0; k < 2; k++) {
        zt_free(m->value[k]);
        zt_free(m->saved[k]);
    }
    zt_free(m->grad);
    zt_free(m->grad_done);
    zt_free(m->waiting);
    zt_free(m->needs_grad);
    zt_free(m->seen);
    zt_free(m->wanted);
}

static zt_status prepare(maker *m)
{
    const size_t values = (size_t)m->g->n_values, nodes = (size_t)m->g->n_nodes;
    for (int k = 0; k < 2; k++) {
        m->value[k] = zt_malloc(values * sizeof(zt_ref));
        m->saved[k] = zt_malloc(2 * nodes * sizeof(zt_ref));
        if (!m->value[k] || !m->saved[k]) return ZT_NOMEM();
        for (size_t i = 0; i < values; i++)
            m->value[k][i] = none;
        for (size_t i = 0; i < 2 * nodes; i++)
            m->saved[k][i] = none;
    }
    m->grad = zt_malloc(values * sizeof *m->grad);
    m->grad_done = zt_calloc(values, 1);
    m->needs_grad = zt_calloc(values, 1);
    m->wanted = zt_calloc(values, 1);
    m->seen = zt_calloc((size_t)m->g->n_params, 1);
    if (!m->grad || !m->grad_done || !m->needs_grad || !m->wanted || !m->seen) return ZT_NOMEM();
    return ZT_OK;
}

static void measure(zt_program *p, const zt_dev *dev)
{
    for (int j = 0; j < p->n_instrs; j++) {
        const zt_instr *i = &p->instrs[j];
        if (i->node < 0) continue;
        size_t need = zt_op_scratch(p, i, dev);
        if (need > p->scratch_bytes) p->scratch_bytes = need;
        p->flops += zt_op_flops(p, i);
    }
    if (p->opt.goal == ZT_GOAL_LOGITS && p->opt.cache_room)
        p->cache_bytes = zt_op_cache_bytes(p->graph, &p->opt);
}

zt_status zt_program_compile(const zt_graph *g, const zt_program_opt *opt, const zt_dev *dev,
                             zt_program **out)
{
    zt_program *p = zt_calloc(1, sizeof *p);
    if (!p) return ZT_NOMEM();
    p->graph = g;
    p->opt = *opt;
    maker m = {.p = p, .g = g};
    zt_status status = prepare(&m);
    if (status == ZT_OK) {
        make_instrs(&m);
        status = m.status;
    }
    release(&m);
    if (status == ZT_OK) status = zt_arena_plan(p->bufs, p->n_bufs, &p->arena_bytes);
    if (status != ZT_OK) {
        zt_program_destroy(&p);
        return ZT_PASS(status);
    }
    measure(p, dev);
    *out = p;
    return ZT_OK;
}

void zt_program_destroy(zt_program **p)
{
    if (!*p) return;
    zt_free((*p)->instrs);
    zt_free((*p)->bufs);
    zt_free(*p);
    *p = NULL;
}
