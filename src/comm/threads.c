/* threads.c - ranks as threads of one process: a message is a note in the receiver's box, and the
 * receiver copies. For tests, sanitizers, and machines without a launcher. */
#include "comm/transport.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

typedef struct note {
    int from, tag;
    const char *data;
    size_t bytes;
    int64_t number;
} note;

typedef struct {
    pthread_mutex_t lock;
    note *notes; /* in order of sending */
    int n, room;
} box;

typedef struct {
    int size;
    box *boxes;        /* by receiver */
    atomic_int failed; /* 1 + rank of the first that ended with an error */
} world;

typedef struct {
    world *w;
    int64_t *sent; /* by receiver: notes so far */
} place;

static zt_status start(zt_comm *c, zt_message *m)
{
    place *p = c->self;
    if (!m->is_send) return ZT_OK;
    box *b = &p->w->boxes[m->peer];
    zt_status status = ZT_OK;
    (void)pthread_mutex_lock(&b->lock);
    if (b->n == b->room) {
        int room = b->room ? 2 * b->room : 64;
        note *more = zt_realloc(b->notes, (size_t)room * sizeof *more);
        if (more) {
            b->notes = more;
            b->room = room;
        } else {
            status = ZT_NOMEM();
        }
    }
    if (status == ZT_OK) {
        m->u.posted = ++p->sent[m->peer];
        b->notes[b->n++] = (note){c->rank, m->tag, m->data, m->bytes, m->u.posted};
    }
    (void)pthread_mutex_unlock(&b->lock);
    return status;
}

/* A sent message is done when its note is gone from the receiver's box. */
static bool is_taken(const box *b, int from, int64_t number)
{
    for (int i = 0; i < b->n; i++)
        if (b->notes[i].from == from && b->notes[i].number == number) return false;
    return true;
}

static zt_status test(zt_comm *c, zt_message *m)
{
    place *p = c->self;
    box *b = &p->w->boxes[m->is_send ? m->peer : c->rank];
    (void)pthread_mutex_lock(&b->lock);
    if (m->is_send) {
        m->done = is_taken(b, c->rank, m->u.posted);
        (void)pthread_mutex_unlock(&b->lock);
        return ZT_OK;
    }
    zt_status status = ZT_OK;
    for (int i = 0; i < b->n && !m->done; i++) {
        const note t = b->notes[i];
        if (t.from != m->peer || t.tag != m->tag) continue;
        if (t.bytes != m->bytes)
            status = ZT_FAIL(ZT_ERR_COMM, "rank %d sent %zu bytes where rank %d waits for %zu",
                             t.from, t.bytes, c->rank, m->bytes);
        else
            memcpy(m->data, t.data, t.bytes);
        b->n--;
        memmove(b->notes + i, b->notes + i + 1, (size_t)(b->n - i) * sizeof *b->notes);
        m->done = true;
    }
    (void)pthread_mutex_unlock(&b->lock);
    return status;
}

static int lost_peer(zt_comm *c)
{
    const place *p = c->self;
    int failed = atomic_load(&p->w->failed) - 1;
    return failed == c->rank ? -1 : failed;
}

static void destroy(zt_comm *c)
{
    place *p = c->self;
    zt_free(p->sent);
    zt_free(p);
}

static const zt_transport threads = {start, test, destroy, NULL, lost_peer};

typedef struct {
    world *w;
    int rank;
    zt_rank_fn *fn;
    void *arg;
    zt_status status;
    char message[1024];
} job;

static zt_status join_world(world *w, int rank, zt_comm **comm)
{
    place *p = zt_calloc(1, sizeof *p);
    int64_t *sent = zt_calloc((size_t)w->size, sizeof *sent);
    zt_status status = p && sent ? zt_comm_make(&threads, p, rank, w->size, comm) : ZT_NOMEM();
    if (status != ZT_OK) {
        zt_free(p);
        zt_free(sent);
        return status;
    }
    *p = (place){w, sent};
    int *nodes = zt_calloc((size_t)w->size, sizeof *nodes);
    if (nodes) zt_comm_set_nodes(*comm, nodes);
    zt_free(nodes);
    (void)snprintf((*comm)->name, ZT_NAME, "threads");
    return ZT_OK;
}

static void *run(void *arg)
{
    job *j = arg;
    zt_comm *comm = NULL;
    j->status = join_world(j->w, j->rank, &comm);
    if (j->status == ZT_OK) j->status = j->fn(comm, j->arg);
    if (j->status != ZT_OK) {
        int none = 0;
        (void)atomic_compare_exchange_strong(&j->w->failed, &none, j->rank + 1);
        (void)snprintf(j->message, sizeof j->message, "%s", zt_error_message());
    }
    zt_comm_destroy(&comm);
    return NULL;
}

static zt_status run_jobs(world *w, job *jobs, zt_rank_fn *fn, void *arg)
{
    pthread_t *ids = zt_calloc((size_t)w->size, sizeof *ids);
    if (!ids) return ZT_NOMEM();
    int started = 0;
    zt_status status = ZT_OK;
    for (; started < w->size && status == ZT_OK; started++) {
        jobs[started] = (job){.w = w, .rank = started, .fn = fn, .arg = arg};
        if (pthread_create(&ids[started], NULL, run, &jobs[started]) != 0) {
            status = ZT_FAIL(ZT_ERR_NOMEM, "cannot start a thread for rank %d", started);
            atomic_store(&w->failed, started + 1);
            break;
        }
    }
    for (int i = 0; i < started; i++)
        (void)pthread_join(ids[i], NULL);
    zt_free(ids);
    /* the one that failed first tells more than those that waited for it */
    int first = atomic_load(&w->failed) - 1;
    for (int i = 0; i < started && first >= 0 && jobs[first].status == ZT_ERR_PEER; i++)
        if (jobs[i].status != ZT_OK && jobs[i].status != ZT_ERR_PEER) first = i;
    if (status == ZT_OK && first >= 0)
        status = ZT_FAIL(jobs[first].status, "%s", jobs[first].message);
    return status;
}

zt_status zt_comm_run_threads(int n, zt_rank_fn *fn, void *arg)
{
    world w = {.size = n};
    w.boxes = zt_calloc((size_t)n, sizeof *w.boxes);
    job *jobs = zt_calloc((size_t)n, sizeof *jobs);
    zt_status status = w.boxes && jobs ? ZT_OK : ZT_NOMEM();
    for (int i = 0; i < n && status == ZT_OK; i++)
        (void)pthread_mutex_init(&w.boxes[i].lock, NULL);
    if (status == ZT_OK) status = run_jobs(&w, jobs, fn, arg);
    for (int i = 0; w.boxes && jobs && i < n; i++) {
        zt_free(w.boxes[i].notes);
        (void)pthread_mutex_destroy(&w.boxes[i].lock);
    }
    zt_free(w.boxes);
    zt_free(jobs);
    return status;
}
