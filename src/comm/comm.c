/* comm.c - the collectives, written once over messages between two ranks: everyone sends straight to
 * everyone, and sums are made by the receiver in the order of ranks. */
#include "comm/sum.h"
#include "comm/transport.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PIECE = 1 << 26, TAGS = 30000 }; /* bytes a message at most; tags in turn */

struct zt_request {
    zt_comm *comm;
    zt_request *next, *prev;
    zt_message *messages;
    int n, room, n_done;
    zt_count_kind kind;
    const char *name;
    bool sum; /* a reduction whose arithmetic is still to be done */
    const char *send;
    char *recv, *work;
    int64_t count;
    zt_dtype type, recv_type;
    bool add;
};

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
    if (c->t) c->t->destroy(c);
    zt_request *lists[] = {c->free_list, c->active};
    for (int i = 0; i < 2; i++)
        for (zt_request *r = lists[i], *next; r; r = next) {
            next = r->next;
            zt_free(r->messages);
            zt_free(r);
        }
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

const zt_comm_count *zt_comm_counts(const zt_comm *c)
{
    return c->counts;
}

void zt_comm_counts_reset(zt_comm *c)
{
    memset(c->counts, 0, sizeof c->counts);
}

/* ---- requests ---- */
static zt_status request(zt_comm *c, zt_count_kind kind, const char *name, zt_request **out)
{
    zt_request *r = c->free_list;
    if (r) {
        c->free_list = r->next;
    } else {
        r = zt_calloc(1, sizeof *r);
        if (!r) return ZT_NOMEM();
    }
    r->comm = c;
    r->kind = kind;
    r->name = name;
    r->n = r->n_done = 0;
    r->sum = false;
    r->prev = NULL;
    r->next = c->active;
    if (c->active) c->active->prev = r;
    c->active = r;
    *out = r;
    return ZT_OK;
}

static void recycle(zt_request *r)
{
    zt_comm *c = r->comm;
    if (r->prev)
        r->prev->next = r->next;
    else
        c->active = r->next;
    if (r->next) r->next->prev = r->prev;
    r->next = c->free_list;
    c->free_list = r;
}

static zt_status message(zt_request *r, bool is_send, int peer, int tag, const void *data,
                         size_t bytes)
{
    zt_comm *c = r->comm;
    for (size_t at = 0; at < bytes; at += PIECE) {
        if (r->n == r->room) {
            int room = r->room ? 2 * r->room : 8;
            zt_message *more = zt_realloc(r->messages, (size_t)room * sizeof *more);
            if (!more) return ZT_NOMEM();
            r->messages = more;
            r->room = room;
        }
        zt_message *m = &r->messages[r->n];
        *m = (zt_message){.peer = peer, .tag = tag, .is_send = is_send};
        m->data = (char *)(uintptr_t)data + at;
        m->bytes = bytes - at < PIECE ? bytes - at : PIECE;
        if (is_send) {
            c->counts[r->kind].bytes += (int64_t)m->bytes;
            c->counts[r->kind].messages++;
            if (c->node_of[peer] != c->node_of[c->rank])
                c->counts[r->kind].inter_bytes += (int64_t)m->bytes;
        }
        ZT_TRY(c->t->start(c, m));
        r->n++;
    }
    return ZT_OK;
}

static int tag_of(zt_comm *c)
{
    c->next_tag = (c->next_tag + 1) % TAGS;
    return c->next_tag;
}

static zt_status advance(zt_request *r)
{
    for (int i = 0; i < r->n && r->n_done < r->n; i++) {
        zt_message *m = &r->messages[i];
        if (m->done) continue;
        ZT_TRY(r->comm->t->test(r->comm, m));
        r->n_done += m->done;
    }
    if (r->n_done == r->n && r->sum) {
        zt_sum_pieces(&(zt_sum){.own = r->send + (size_t)r->comm->rank * (size_t)r->count *
                                                     zt_dtype_bytes(r->type),
                                .others = r->work,
                                .ranks = r->comm->size,
                                .rank = r->comm->rank,
                                .count = r->count,
                                .type = r->type,
                                .to_type = r->recv_type,
                                .add = r->add,
                                .to = r->recv});
        r->sum = false;
    }
    return ZT_OK;
}

bool zt_request_done(const zt_request *r)
{
    return !r || (r->n_done == r->n && !r->sum);
}

zt_status zt_comm_progress(zt_comm *c)
{
    for (zt_request *r = c->active; r; r = r->next)
        ZT_TRY(advance(r));
    return ZT_OK;
}

static zt_status lost(const zt_request *r, int peer, const char *how)
{
    const zt_comm *c = r->comm;
    return ZT_FAIL(ZT_ERR_PEER, "rank %d waits for rank %d in %s%s%s, but it %s", c->rank, peer,
                   r->name, c->label[0] ? ", " : "", c->label, how);
}

static int waited_for(const zt_request *r)
{
    for (int i = 0; i < r->n; i++)
        if (!r->messages[i].done) return r->messages[i].peer;
    return -1;
}

/* Spins a little, then leaves the core to others: ranks may be more than cores. */
static void pause_after(int round)
{
    if (round < 64) return;
    if (round < 4096) {
        (void)sched_yield();
        return;
    }
    struct timespec t = {0, 50000};
    (void)nanosleep(&t, NULL);
}

zt_status zt_wait(zt_comm *c, zt_request **req)
{
    zt_request *r = *req;
    if (!r) return ZT_OK;
    double start = zt_now();
    zt_status status = ZT_OK;
    for (int round = 0; status == ZT_OK; round++) {
        int before = r->n_done;
        status = zt_comm_progress(c);
        if (zt_request_done(r)) break;
        if (r->n_done != before) round = 0;
        pause_after(round);
        if (status == ZT_OK && round % 256 == 255) {
            int gone = c->t->lost_peer ? c->t->lost_peer(c) : -1;
            if (gone >= 0)
                status = lost(r, gone, "has failed");
            else if (c->timeout > 0 && zt_now() - start > c->timeout)
                status = lost(r, waited_for(r), "has not answered for too long");
        }
    }
    c->counts[r->kind].wait_seconds += zt_now() - start;
    *req = NULL;
    if (status == ZT_OK) recycle(r);
    return status; /* after a failure messages may still be under way: the request is not reused */
}

/* ---- collectives ---- */
zt_status zt_all_gather_start(zt_comm *c, const void *send, void *recv, int64_t count,
                              zt_dtype type, zt_request **req)
{
    const size_t bytes = (size_t)count * zt_dtype_bytes(type);
    char *mine = (char *)recv + (size_t)c->rank * bytes;
    if (bytes && mine != send) memmove(mine, send, bytes);
    *req = NULL;
    if (c->size == 1) return ZT_OK;
    zt_request *r = NULL;
    ZT_TRY(request(c, ZT_COUNT_GATHER, "all_gather", &r));
    const int tag = tag_of(c);
    for (int d = 1; d < c->size; d++) {
        int from = (c->rank + c->size - d) % c->size;
        ZT_TRY(message(r, false, from, tag, (char *)recv + (size_t)from * bytes, bytes));
    }
    for (int d = 1; d < c->size; d++)
        ZT_TRY(message(r, true, (c->rank + d) % c->size, tag, mine, bytes));
    c->counts[ZT_COUNT_GATHER].elements += (c->size - 1) * count;
    *req = r;
    return ZT_OK;
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
    zt_request *r = NULL;
    ZT_TRY(request(c, ZT_COUNT_REDUCE, "reduce_scatter", &r));
    r->sum = true;
    r->send = send, r->recv = recv, r->work = work;
    r->count = count, r->type = type, r->recv_type = recv_type, r->add = add;
    const int tag = c->size > 1 ? tag_of(c) : 0;
    for (int d = 1; d < c->size; d++) {
        int from = (c->rank + c->size - d) % c->size, place = from < c->rank ? from : from - 1;
        ZT_TRY(message(r, false, from, tag, (char *)work + (size_t)place * bytes, bytes));
    }
    for (int d = 1; d < c->size; d++) {
        int to = (c->rank + d) % c->size;
        ZT_TRY(message(r, true, to, tag, (const char *)send + (size_t)to * bytes, bytes));
    }
    c->counts[ZT_COUNT_REDUCE].elements += (c->size - 1) * count;
    *req = r;
    return ZT_OK;
}

/* ---- small ones ---- */
static zt_status small(zt_comm *c, const char *name, const void *send, void *recv, size_t bytes)
{
    char *mine = (char *)recv + (size_t)c->rank * bytes;
    if (bytes && mine != send) memmove(mine, send, bytes);
    if (c->size == 1 || bytes == 0) return ZT_OK;
    zt_request *r = NULL;
    ZT_TRY(request(c, ZT_COUNT_SMALL, name, &r));
    const int tag = tag_of(c);
    for (int p = 0; p < c->size; p++)
        if (p != c->rank)
            ZT_TRY(message(r, false, p, tag, (char *)recv + (size_t)p * bytes, bytes));
    for (int p = 0; p < c->size; p++)
        if (p != c->rank) ZT_TRY(message(r, true, p, tag, mine, bytes));
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
    zt_status name(zt_comm *c, ctype *x, int n)                                                    \
    {                                                                                              \
        if (c->size == 1) return ZT_OK;                                                            \
        ctype fixed[256], *all = fixed;                                                            \
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
ALL_REDUCE(zt_all_reduce_sum_f64, double, x[i] += y)
ALL_REDUCE(zt_all_reduce_sum_i64, int64_t, x[i] += y)
ALL_REDUCE(zt_all_reduce_max_i64, int64_t, x[i] = y > x[i] ? y : x[i])

zt_status zt_broadcast(zt_comm *c, void *data, size_t bytes, int root)
{
    if (c->size == 1 || bytes == 0) return ZT_OK;
    zt_request *r = NULL;
    ZT_TRY(request(c, ZT_COUNT_SMALL, "broadcast", &r));
    const int tag = tag_of(c);
    if (c->rank != root) ZT_TRY(message(r, false, root, tag, data, bytes));
    for (int p = 0; p < c->size && c->rank == root; p++)
        if (p != root) ZT_TRY(message(r, true, p, tag, data, bytes));
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
    zt_status status = small(c, "check_same", &hash, all, sizeof hash);
    for (int r = 1; r < c->size && status == ZT_OK; r++)
        if (all[r] != all[0])
            status = ZT_FAIL(ZT_ERR_CONFIG,
                             "%s differs between rank 0 and rank %d; start all ranks "
                             "with the same",
                             what, r);
    if (status == ZT_ERR_CONFIG) c->speaker = 0;
    zt_free(all);
    return status;
}
