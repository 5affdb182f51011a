/* comm.c - the collectives, written once over messages between two ranks: everyone sends straight to
 * everyone, and sums are made by the receiver in the order of ranks. */
#include "comm/request.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- making and ending ---- */
zt_status zt_comm_make(const zt_transport *t, void *self, int rank, int size, zt_comm **out)
{
    zt_comm *c = zt_calloc(1, sizeof *c);
    int *nodes = zt_calloc((size_t)size, sizeof *nodes);
    if (!c || !nodes) {
        zt_free(c);
        zt_free(nodes);
        return ZT_NOMEM();
    }
    *c = (zt_comm){.t = t, .self = self, .rank = rank, .size = size, .node_of = nodes};
    const char *checks = getenv("ZT_CHECKS");
    c->checks = checks && strcmp(checks, "full") == 0;
    c->timeout = 600;
    c->speaker = -1;
    c->nodes = 1;
    c->local_size = size;
    *out = c;
    return ZT_OK;
}

void zt_comm_set_nodes(zt_comm *c, const int *node)
{
    const char *forced = getenv("ZT_NODE_SIZE"); /* pretend hosts of so many ranks, for tests */
    int size = forced ? atoi(forced) : 0;
    for (int i = 0; i < c->size; i++)
        c->node_of[i] = size > 0 ? i / size : node[i];
    c->nodes = c->local_size = 0;
    for (int i = 0; i < c->size; i++) {
        bool seen = false;
        for (int j = 0; j < i; j++)
            seen = seen || c->node_of[j] == c->node_of[i];
        c->nodes += !seen;
        c->local_size += c->node_of[i] == c->node_of[c->rank];
    }
}

zt_status zt_comm_self(zt_comm **out)
{
    ZT_TRY(zt_comm_make(NULL, NULL, 0, 1, out));
    (void)snprintf((*out)->name, sizeof(*out)->name, "single");
    return ZT_OK;
}

void zt_comm_destroy(zt_comm **comm)
{
    zt_comm *c = *comm;
    if (!c) return;
    zt_comm_call_off(c);
    if (c->t) c->t->destroy(c);
    zt_requests_free(c);
    zt_free(c->node_of);
    zt_free(c);
    *comm = NULL;
}

void zt_comm_abort(zt_comm *c, int exit_code)
{
    if (c && c->t && c->t->abort) c->t->abort(c, exit_code);
}

int zt_comm_rank(const zt_comm *c)
{
    return c->rank;
}

int zt_comm_size(const zt_comm *c)
{
    return c->size;
}

int zt_comm_speaker(const zt_comm *c)
{
    return c->speaker;
}

int zt_comm_nodes(const zt_comm *c)
{
    return c->nodes;
}

int zt_comm_local_size(const zt_comm *c)
{
    return c->local_size;
}

const char *zt_comm_transport(const zt_comm *c)
{
    return c->name;
}

void zt_comm_set_timeout(zt_comm *c, double seconds)
{
    c->timeout = seconds;
}

void zt_comm_set_label(zt_comm *c, const char *label)
{
    (void)snprintf(c->label, sizeof c->label, "%s", label);
}

void zt_comm_set_checks(zt_comm *c, bool full)
{
    c->checks = full;
}

const zt_comm_count *zt_comm_counts(const zt_comm *c)
{
    return c->counts;
}

void zt_comm_counts_reset(zt_comm *c)
{
    memset(c->counts, 0, sizeof c->counts);
}

/* ---- collectives ---- */
static char *own_place(const zt_comm *c, const void *send, void *recv, size_t bytes)
{
    char *mine = (char *)recv + (size_t)c->rank * bytes;
    if (bytes && mine != send) memmove(mine, send, bytes);
    return mine;
}

zt_status zt_all_gather_start(zt_comm *c, const void *send, void *recv, int64_t count,
                              zt_dtype type, zt_request **req)
{
    const size_t bytes = (size_t)count * zt_dtype_bytes(type);
    const char *mine = own_place(c, send, recv, bytes);
    *req = NULL;
    if (c->size == 1) return ZT_OK;
    zt_request *r = NULL;
    ZT_TRY(zt_request_begin(c, ZT_COUNT_GATHER, "all_gather", &r, "%lld x %s", (long long)count,
                            zt_dtype_name(type)));
    return zt_request_launch(r, zt_request_exchange(r, recv, mine, bytes, false),
                             (c->size - 1) * count, req);
}

size_t zt_reduce_scatter_work(const zt_comm *c, int64_t count, zt_dtype type)
{
    return (size_t)(c->size - 1) * (size_t)count * zt_dtype_bytes(type);
}

zt_status zt_reduce_scatter_start(zt_comm *c, const void *send, void *recv, int64_t count,
                                  zt_dtype type, zt_dtype recv_type, bool add, void *work,
                                  zt_request **req)
{
    const size_t bytes = (size_t)count * zt_dtype_bytes(type);
    *req = NULL;
    zt_request *r = NULL;
    ZT_TRY(zt_request_begin(c, ZT_COUNT_REDUCE, "reduce_scatter", &r, "%lld x %s", (long long)count,
                            zt_dtype_name(type)));
    r->sum = true;
    r->send = send, r->recv = recv, r->work = work;
    r->count = count, r->type = type, r->recv_type = recv_type, r->add = add;
    return zt_request_launch(r, zt_request_exchange(r, work, send, bytes, true),
                             (c->size - 1) * count, req);
}

/* ---- small ones ---- */
static zt_status small(zt_comm *c, const char *name, const void *send, void *recv, size_t bytes)
{
    const char *mine = own_place(c, send, recv, bytes);
    if (c->size == 1) return ZT_OK;
    zt_request *r = NULL;
    ZT_TRY(zt_request_begin(c, ZT_COUNT_SMALL, name, &r, "%zu bytes", bytes));
    ZT_TRY(zt_request_launch(r, zt_request_exchange(r, recv, mine, bytes, false), 0, &r));
    return zt_wait(c, &r);
}

zt_status zt_all_gather_bytes(zt_comm *c, const void *send, void *recv, size_t bytes)
{
    return small(c, "all_gather_bytes", send, recv, bytes);
}

zt_status zt_comm_barrier(zt_comm *c)
{
    char mine = 0, *all = zt_malloc((size_t)c->size);
    if (!all) return ZT_NOMEM();
    zt_status status = small(c, "barrier", &mine, all, 1);
    zt_free(all);
    return status;
}

/* Everyone's x on every rank; the caller folds them in the order of ranks. */
#define ALL_REDUCE(name, ctype, fold)                                                              \
    zt_status zt_##name(zt_comm *c, ctype *x, int n)                                               \
    {                                                                                              \
        if (c->size == 1) return ZT_OK;                                                            \
        ctype fixed[256] = {0}, *all = fixed;                                                      \
        if ((size_t)n * (size_t)c->size > 256 &&                                                   \
            !(all = zt_malloc((size_t)n * (size_t)c->size * sizeof *all)))                         \
            return ZT_NOMEM();                                                                     \
        zt_status status = small(c, #name, x, all, (size_t)n * sizeof *x);                         \
        for (int i = 0; i < n && status == ZT_OK; i++) {                                           \
            x[i] = all[i];                                                                         \
            for (int r = 1; r < c->size; r++) {                                                    \
                ctype y = all[r * n + i];                                                          \
                fold;                                                                              \
            }                                                                                      \
        }                                                                                          \
        if (all != fixed) zt_free(all);                                                            \
        return status;                                                                             \
    }
ALL_REDUCE(all_reduce_sum_f64, double, x[i] += y)
ALL_REDUCE(all_reduce_sum_i64, int64_t, x[i] += y)
ALL_REDUCE(all_reduce_max_i64, int64_t, x[i] = y > x[i] ? y : x[i])

static zt_status from_root(zt_request *r, char *data, size_t bytes, int root)
{
    const zt_comm *c = r->comm;
    for (size_t at = 0; at < bytes; at += ZT_PIECE) {
        if (c->rank != root) ZT_TRY(zt_request_add(r, false, root, data, bytes, at));
        for (int p = 0; p < c->size && c->rank == root; p++)
            if (p != root) ZT_TRY(zt_request_add(r, true, p, data, bytes, at));
    }
    return ZT_OK;
}

zt_status zt_broadcast(zt_comm *c, void *data, size_t bytes, int root)
{
    if (c->size == 1) return ZT_OK;
    zt_request *r = NULL;
    ZT_TRY(zt_request_begin(c, ZT_COUNT_SMALL, "broadcast", &r, "%zu bytes from rank %d", bytes,
                            root));
    ZT_TRY(zt_request_launch(r, from_root(r, data, bytes, root), 0, &r));
    return zt_wait(c, &r);
}

/* ---- agreement ---- */
typedef struct {
    int status;
    char text[1020];
} verdict;

zt_status zt_comm_agree(zt_comm *c, zt_status mine)
{
    c->speaker = -1;
    if (c->size == 1) return mine;
    verdict own = {.status = mine};
    if (mine != ZT_OK) (void)snprintf(own.text, sizeof own.text, "%s", zt_error_message());
    verdict *all = zt_malloc((size_t)c->size * sizeof *all);
    if (!all) return ZT_NOMEM();
    zt_status status = small(c, "agree", &own, all, sizeof own);
    for (int r = 0; r < c->size && status == ZT_OK; r++) {
        if (all[r].status == ZT_OK) continue;
        c->speaker = r;
        status = mine != ZT_OK ? mine : ZT_FAIL(ZT_ERR_PEER, "rank %d: %s", r, all[r].text);
        break;
    }
    zt_free(all);
    return status;
}

zt_status zt_comm_check_same(zt_comm *c, const char *what, const void *data, size_t bytes)
{
    uint64_t hash = zt_hash(data, bytes);
    uint64_t *all = zt_malloc((size_t)c->size * sizeof *all);
    if (!all) return ZT_NOMEM();
    c->speaker = -1;
    zt_status status = small(c, "check_same", &hash, all, sizeof hash);
    char others[64] = "";
    for (int r = 1, n = 0; r < c->size && status == ZT_OK; r++)
        if (all[r] != all[0] && n < (int)sizeof others - 16)
            n += snprintf(others + n, sizeof others - (size_t)n, "%s%d", n ? ", " : "", r);
    zt_free(all);
    if (!others[0]) return status;
    c->speaker = 0;
    return ZT_FAIL(ZT_ERR_CONFIG,
                   "%s differs between rank 0 and rank %s; start all ranks with the same", what,
                   others);
}
