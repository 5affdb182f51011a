/* request.c - calls under way: messages, comparison of calls, sums piece by piece, waiting and giving up. */
#include "comm/request.h"
#include "comm/sum.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

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

static void abandon(zt_request *r)
{
    for (int i = 0; i < r->n_started; i++)
        if (!r->messages[i].done) r->comm->t->drop(r->comm, &r->messages[i]);
    recycle(r);
}

void zt_comm_call_off(zt_comm *c)
{
    while (c->active)
        abandon(c->active);
}

zt_status zt_request_add(zt_request *r, bool is_send, int peer, const char *data, size_t bytes,
                         size_t at)
{
    if (r->n == r->room) {
        int room = r->room ? 2 * r->room : 8;
        zt_message *more = zt_realloc(r->messages, (size_t)room * sizeof *more);
        if (!more) return ZT_NOMEM();
        r->messages = more;
        r->room = room;
    }
    r->messages[r->n++] = (zt_message){.peer = peer,
                                       .tag = r->tag,
                                       .part = (int)(at / ZT_PIECE),
                                       .is_send = is_send,
                                       .data = (char *)(uintptr_t)data + at,
                                       .bytes = bytes - at < ZT_PIECE ? bytes - at : ZT_PIECE,
                                       .op = r->name};
    return ZT_OK;
}

void zt_requests_free(zt_comm *c)
{
    for (zt_request *r = c->free_list, *next; r; r = next) {
        next = r->next;
        zt_free(r->messages);
        zt_free(r->calls);
        zt_free(r);
    }
}

static zt_status start_messages(zt_request *r)
{
    for (; r->n_started < r->n; r->n_started++)
        ZT_TRY(r->comm->t->start(r->comm, &r->messages[r->n_started]));
    return ZT_OK;
}

/* With full checks a call begins by telling everyone what it is; its data wait until all agree. */
static zt_status tell_call(zt_request *r, const char *call)
{
    const zt_comm *c = r->comm;
    if (!r->calls) r->calls = zt_calloc((size_t)c->size, ZT_CALL);
    if (!r->calls) return ZT_NOMEM();
    memset(r->calls, 0, (size_t)c->size * ZT_CALL);
    (void)snprintf(r->calls[c->rank], ZT_CALL, "%s", call);
    for (int sending = 0; sending < 2; sending++)
        for (int p = 0; p < c->size; p++)
            if (p != c->rank)
                ZT_TRY(zt_request_add(r, sending, p, r->calls[sending ? c->rank : p], ZT_CALL, 0));
    r->n_heads = r->n;
    r->agreed = false;
    return start_messages(r);
}

static zt_status compare_calls(zt_request *r)
{
    const zt_comm *c = r->comm;
    r->agreed = true;
    for (int p = 0; p < c->size; p++) {
        if (memcmp(r->calls[p], r->calls[c->rank], ZT_CALL) == 0) continue;
        return ZT_FAIL(ZT_ERR_COMM, "rank %d calls %s where rank %d calls %.*s%s%s", c->rank,
                       r->calls[c->rank], p, ZT_CALL, r->calls[p], c->label[0] ? ", " : "",
                       c->label);
    }
    return ZT_OK;
}

static zt_request *take_request(zt_comm *c, zt_count_kind kind, const char *name)
{
    zt_request *r = c->free_list;
    if (r) {
        c->free_list = r->next;
    } else {
        r = zt_calloc(1, sizeof *r);
        if (!r) return NULL;
    }
    c->next_tag = (c->next_tag + 1) % ZT_TAGS;
    *r = (zt_request){.comm = c,
                      .next = c->active,
                      .messages = r->messages,
                      .room = r->room,
                      .calls = r->calls,
                      .tag = c->next_tag,
                      .kind = kind,
                      .name = name,
                      .agreed = true};
    if (c->active) c->active->prev = r;
    c->active = r;
    return r;
}

zt_status zt_request_begin(zt_comm *c, zt_count_kind kind, const char *name, zt_request **out,
                           const char *fmt, ...)
{
    zt_request *r = take_request(c, kind, name);
    if (!r) return ZT_NOMEM();
    zt_status status = ZT_OK;
    if (c->checks && c->size > 1) {
        char what[ZT_CALL / 2], call[ZT_CALL];
        va_list args;
        va_start(args, fmt);
        (void)vsnprintf(what, sizeof what, fmt, args);
        va_end(args);
        (void)snprintf(call, sizeof call, "%s (%s)", name, what);
        status = tell_call(r, call);
    }
    if (status == ZT_OK)
        *out = r;
    else
        abandon(r);
    return status;
}

zt_status zt_request_launch(zt_request *r, zt_status status, int64_t elements, zt_request **out)
{
    zt_comm *c = r->comm;
    zt_comm_count *n = &c->counts[r->kind];
    n->elements += elements;
    for (int i = r->n_heads; i < r->n; i++) {
        const zt_message *m = &r->messages[i];
        if (!m->is_send) continue;
        n->messages++;
        n->bytes += (int64_t)m->bytes;
        if (c->node_of[m->peer] != c->node_of[c->rank]) n->inter_bytes += (int64_t)m->bytes;
    }
    if (status == ZT_OK && r->agreed) status = start_messages(r);
    if (status == ZT_OK)
        *out = r;
    else
        abandon(r);
    return status;
}

/* Nearest ranks first, so that not all send to the same one at once. */
zt_status zt_request_exchange(zt_request *r, char *in, const char *out, size_t bytes, bool scatter)
{
    const int rank = r->comm->rank, size = r->comm->size;
    for (int sending = 0; sending < 2; sending++)
        for (size_t at = 0; at < bytes; at += ZT_PIECE)
            for (int d = 1; d < size; d++) {
                const int peer = (rank + (sending ? d : size - d)) % size;
                const int place = scatter && peer > rank ? peer - 1 : peer; /* none for itself */
                const char *data = sending ? out + (scatter ? (size_t)peer * bytes : 0)
                                           : in + (size_t)place * bytes;
                ZT_TRY(zt_request_add(r, sending, peer, data, bytes, at));
            }
    return ZT_OK;
}

/* Sums what has come from everyone: pieces of all ranks stand together in the order of messages. */
static void add_up(zt_request *r)
{
    const zt_comm *c = r->comm;
    const size_t size = zt_dtype_bytes(r->type);
    const int64_t most = ZT_PIECE / (int64_t)size;
    const int peers = c->size - 1;
    for (; r->summed < r->count; r->summed += most) {
        const zt_message *m = r->messages + r->n_heads + r->summed / most * peers;
        for (int i = 0; i < peers; i++)
            if (!m[i].done) return;
        const size_t at = (size_t)r->summed * size;
        const int64_t left = r->count - r->summed;
        zt_sum_pieces(&(zt_sum){.own = r->send + (size_t)c->rank * (size_t)r->count * size + at,
                                .others = r->work + at,
                                .stride = r->count,
                                .ranks = c->size,
                                .rank = c->rank,
                                .count = left < most ? left : most,
                                .type = r->type,
                                .to_type = r->recv_type,
                                .add = r->add,
                                .to = r->recv + (size_t)r->summed * zt_dtype_bytes(r->recv_type)});
    }
    r->sum = false;
}

static zt_status look(zt_request *r, zt_message *m)
{
    zt_comm *c = r->comm;
    ZT_TRY(c->t->test(c, m));
    r->n_done += m->done;
    c->n_done += m->done;
    return ZT_OK;
}

static zt_status advance(zt_request *r)
{
    /* the first ones come first: no need to ask for all of a long row */
    const int patience = 2 * r->comm->size;
    for (int i = 0, waits = 0; i < r->n_started && r->n_done < r->n && waits < patience; i++) {
        if (r->messages[i].done) continue;
        ZT_TRY(look(r, &r->messages[i]));
        waits += !r->messages[i].done;
    }
    if (!r->agreed && r->n_done == r->n_heads) {
        ZT_TRY(compare_calls(r));
        ZT_TRY(start_messages(r));
    }
    if (r->sum) add_up(r);
    return ZT_OK;
}

bool zt_request_done(const zt_request *r)
{
    return !r || (r->n_done == r->n && r->agreed && !r->sum);
}

zt_status zt_comm_progress(zt_comm *c)
{
    for (zt_request *r = c->active; r; r = r->next)
        ZT_TRY(advance(r));
    return ZT_OK;
}

zt_status zt_comm_wrong_size(const zt_comm *c, const zt_message *m, size_t got)
{
    char sent[32] = "more";
    if (got > 0) (void)snprintf(sent, sizeof sent, "%zu", got);
    return ZT_FAIL(ZT_ERR_COMM,
                   "rank %d sent %s bytes where rank %d waits for %zu in %s%s%s: they do not call "
                   "the same; ZT_CHECKS=full names both calls",
                   m->peer, sent, c->rank, m->bytes, m->op, c->label[0] ? ", " : "", c->label);
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

/* Fails when one of those who are waited for will not answer, given that all have been quiet for so long. What a rank
 * sent before it ended in order may still be on its way. */
static zt_status look_for_lost(zt_request *r, double quiet)
{
    zt_comm *c = r->comm;
    for (int i = 0; i < r->n_started; i++) {
        zt_message *m = &r->messages[i];
        bool has_failed = false;
        int peer = m->done ? -1 : c->t->gone(c, m->peer, &has_failed);
        if (peer < 0) continue;
        if (has_failed) return lost(r, peer, "has failed");
        ZT_TRY(look(r, m));
        if (!m->done && quiet > 1) return lost(r, peer, "has already ended");
    }
    if (c->timeout > 0 && quiet > c->timeout)
        return lost(r, waited_for(r), "has not answered for too long");
    return ZT_OK;
}

void zt_comm_pause(unsigned round)
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
    const double start = zt_now();
    double heard = start;
    int64_t before = c->n_done;
    zt_status status = ZT_OK;
    for (unsigned round = 0; status == ZT_OK; round++) {
        status = zt_comm_progress(c);
        if (status != ZT_OK || zt_request_done(r)) break;
        if (c->n_done != before) {
            before = c->n_done;
            heard = zt_now();
            round = 0;
        }
        zt_comm_pause(round);
        if (round % 256 == 255) status = look_for_lost(r, zt_now() - heard);
    }
    c->counts[r->kind].wait_seconds += zt_now() - start;
    *req = NULL;
    if (status == ZT_OK)
        recycle(r);
    else
        abandon(r);
    return status;
}
