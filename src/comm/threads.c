/* threads.c - ranks as threads of one process: a message is a note in a box, and the receiver copies. For tests,
 * sanitizers, and machines without a launcher. */
#include "comm/transport.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

/* Belongs to the sender, who takes it back when it is read. */
typedef struct note {
    struct note *next;
    const char *data;
    size_t bytes;
    int tag, part;
    atomic_bool is_read;
} note;

typedef struct { /* notes from one rank to another, in order */
    pthread_mutex_t lock;
    note *first;
} box;

typedef struct {
    int size;
    box *boxes;         /* [sender][receiver] */
    atomic_bool *ended; /* [size] */
    atomic_int failed;  /* 1 + the first that ended with an error */
} world;

typedef struct {
    world *w;
    note *spare;
} place;

static box *box_of(const world *w, int from, int to)
{
    return &w->boxes[from * w->size + to];
}

static zt_status start(zt_comm *c, zt_message *m)
{
    if (!m->is_send) return ZT_OK;
    place *p = c->self;
    note *n = p->spare;
    if (n)
        p->spare = n->next;
    else if (!(n = zt_calloc(1, sizeof *n)))
        return ZT_NOMEM();
    n->next = NULL;
    n->data = m->data;
    n->bytes = m->bytes;
    n->tag = m->tag;
    n->part = m->part;
    atomic_store(&n->is_read, false);
    m->handle = n;
    box *b = box_of(p->w, c->rank, m->peer);
    (void)pthread_mutex_lock(&b->lock);
    note **last = &b->first;
    while (*last)
        last = &(*last)->next;
    *last = n;
    (void)pthread_mutex_unlock(&b->lock);
    return ZT_OK;
}

/* Out of the box with the note that this message waits for, or that it sent. */
static note *take(box *b, const zt_message *m)
{
    (void)pthread_mutex_lock(&b->lock);
    note **at = &b->first;
    while (*at && (m->is_send ? *at != m->handle : (*at)->tag != m->tag || (*at)->part != m->part))
        at = &(*at)->next;
    note *n = *at;
    if (n) *at = n->next;
    (void)pthread_mutex_unlock(&b->lock);
    return n;
}

static void keep_spare(place *p, note *n)
{
    n->next = p->spare;
    p->spare = n;
}

static zt_status test(zt_comm *c, zt_message *m)
{
    place *p = c->self;
    if (m->is_send) {
        m->done = atomic_load(&((note *)m->handle)->is_read);
        if (m->done) keep_spare(p, m->handle);
        return ZT_OK;
    }
    note *n = take(box_of(p->w, m->peer, c->rank), m);
    if (!n) return ZT_OK;
    const size_t got = n->bytes;
    if (got == m->bytes && got > 0) memcpy(m->data, n->data, got);
    m->done = true;
    atomic_store(&n->is_read, true); /* from here on it is the sender's again */
    return got == m->bytes ? ZT_OK : zt_comm_wrong_size(c, m, got);
}

/* A note that is not in its box any more is being read: not for long. */
static void drop(zt_comm *c, zt_message *m)
{
    if (!m->is_send) return;
    place *p = c->self;
    note *n = m->handle;
    if (!take(box_of(p->w, c->rank, m->peer), m))
        for (unsigned round = 0; !atomic_load(&n->is_read); round++)
            zt_comm_pause(round);
    keep_spare(p, n);
}

static int gone(zt_comm *c, int peer, bool *has_failed)
{
    const world *w = ((const place *)c->self)->w;
    const int failed = atomic_load(&w->failed) - 1;
    *has_failed = failed >= 0;
    if (*has_failed) return failed;
    return atomic_load(&w->ended[peer]) ? peer : -1;
}

static void destroy(zt_comm *c)
{
    place *p = c->self;
    for (note *n = p->spare, *next; n; n = next) {
        next = n->next;
        zt_free(n);
    }
    zt_free(p);
}

static const zt_transport threads = {start, test, drop, destroy, NULL, gone};

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
    int *nodes = zt_calloc((size_t)w->size, sizeof *nodes); /* all on one host */
    zt_status status = p && nodes ? zt_comm_make(&threads, p, rank, w->size, comm) : ZT_NOMEM();
    if (status == ZT_OK) {
        p->w = w;
        zt_comm_set_nodes(*comm, nodes);
        (void)snprintf((*comm)->name, ZT_NAME, "threads");
    } else {
        zt_free(p);
    }
    zt_free(nodes);
    return status;
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
    atomic_store(&j->w->ended[j->rank], true);
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
    if (n < 1) return ZT_FAIL(ZT_ERR_ARG, "%d ranks: at least one is needed", n);
    const size_t n_boxes = (size_t)n * (size_t)n;
    world w = {.size = n};
    w.boxes = zt_calloc(n_boxes, sizeof *w.boxes);
    w.ended = zt_calloc((size_t)n, sizeof *w.ended);
    job *jobs = zt_calloc((size_t)n, sizeof *jobs);
    zt_status status = w.boxes && w.ended && jobs ? ZT_OK : ZT_NOMEM();
    if (status == ZT_OK) {
        for (size_t i = 0; i < n_boxes; i++)
            (void)pthread_mutex_init(&w.boxes[i].lock, NULL);
        status = run_jobs(&w, jobs, fn, arg);
        for (size_t i = 0; i < n_boxes; i++)
            (void)pthread_mutex_destroy(&w.boxes[i].lock);
    }
    zt_free(w.boxes);
    zt_free(w.ended);
    zt_free(jobs);
    return status;
}
