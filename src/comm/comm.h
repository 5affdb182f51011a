/* comm.h - ranks that talk: collectives written once over a small table of point-to-point
 * transports (MPI; threads of one process; a single rank without either).
 *
 * Reductions have one fixed order: rank 0's piece first, then rank 1's, ..., accumulated in fp32
 * and rounded once to the output type. The same bits come out on every transport and for every
 * placement. Every message is counted. Unless said otherwise a function is Collective over the
 * communicator: all ranks call it, in the same order, with the same counts and types. */
#ifndef ZT_COMM_H
#define ZT_COMM_H
#include "base/base.h"

typedef struct zt_comm zt_comm;
typedef struct zt_request zt_request;

/* ---- making one ------------------------------------------------------------------------------ */
/* The world of this job: MPI's when the program runs under a launcher (mpirun, srun), or when it was
 * built with MPI and started alone: one rank. Call once, first thing in main (Collective). Refuses a
 * launcher's environment that promises N > 1 ranks while MPI says 1. Destroying it ends MPI. */
ZT_MUST_USE zt_status zt_comm_world(int *argc, char ***argv, zt_comm **out);
ZT_MUST_USE zt_status zt_comm_self(zt_comm **out); /* one rank, no transport. Local */
/* Runs fn on n ranks, each a thread of this process; returns the first failure (by rank). Local. */
typedef zt_status zt_rank_fn(zt_comm *comm, void *arg);
ZT_MUST_USE zt_status zt_comm_run_threads(int n, zt_rank_fn *fn, void *arg);
void zt_comm_destroy(zt_comm **comm);
/* Ends the whole job at once (after a local failure that peers cannot be told of). Local. */
void zt_comm_abort(zt_comm *comm, int exit_code);

int zt_comm_rank(const zt_comm *comm);
int zt_comm_size(const zt_comm *comm);
int zt_comm_nodes(const zt_comm *comm);      /* hosts, by shared memory */
int zt_comm_local_size(const zt_comm *comm); /* ranks on this rank's host */
const char *
zt_comm_transport(const zt_comm *comm); /* "MPI (Open MPI 4.1.4)", "threads", "single" */

/* Seconds that a wait may see no progress of its peers before it fails with ZT_ERR_PEER naming
 * rank, step and operation; default 600; 0 = for ever. Local. */
void zt_comm_set_timeout(zt_comm *comm, double seconds);
/* Full checks (also ZT_CHECKS=full in the environment): every call first tells all ranks its name, counts and types, and
 * fails on every rank, naming both calls, where they differ. Costs a small message per peer and call, which is not
 * counted. Logically collective: the same on all ranks, with no request in flight. */
void zt_comm_set_checks(zt_comm *comm, bool full);
/* What the next operations belong to, for messages: "step 12". Local. */
void zt_comm_set_label(zt_comm *comm, const char *label);

/* ---- agreement --------------------------------------------------------------------------------- */
/* Every rank brings its own status; ZT_OK comes back on all when all were fine. Otherwise a rank that
 * failed gets its own status back, and the others ZT_ERR_PEER with a message that names the lowest
 * failing rank and carries that rank's error message. */
ZT_MUST_USE zt_status zt_comm_agree(zt_comm *comm, zt_status mine);
/* Fails on all ranks when the bytes differ between ranks; `what` is for the message. */
ZT_MUST_USE zt_status zt_comm_check_same(zt_comm *comm, const char *what, const void *data,
                                         size_t bytes);
/* After a failure that came from an agreement: the rank that should tell it. -1: there was none. Local. */
int zt_comm_speaker(const zt_comm *comm);
ZT_MUST_USE zt_status zt_comm_barrier(zt_comm *comm);

/* ---- collectives -------------------------------------------------------------------------------- */
/* all_gather: each rank's `count` elements land in recv at rank * count; in place when
 * send == recv + rank * count. Sends (n-1) * count elements per rank. */
ZT_MUST_USE zt_status zt_all_gather_start(zt_comm *comm, const void *send, void *recv,
                                          int64_t count, zt_dtype type, zt_request **req);
/* reduce_scatter: recv[i] = sum over ranks r of send_r[rank * count + i], send of n * count elements.
 * `work` holds (n-1) * count elements of `type` until the wait returns
 * (zt_reduce_scatter_work). recv has type `recv_type` (fp32 or `type`); with `add` it is added to:
 * recv += sum (after the sum is complete, in fp32). In place (recv == send + rank * count) is allowed
 * when recv_type == type. Sends (n-1) * count elements per rank. */
ZT_MUST_USE zt_status zt_reduce_scatter_start(zt_comm *comm, const void *send, void *recv,
                                              int64_t count, zt_dtype type, zt_dtype recv_type,
                                              bool add, void *work, zt_request **req);
size_t zt_reduce_scatter_work(const zt_comm *comm, int64_t count, zt_dtype type); /* bytes */
/* Advances all transfers in flight without waiting; cheap. Local. */
ZT_MUST_USE zt_status zt_comm_progress(zt_comm *comm);
/* Waits, finishes the arithmetic of a reduction, frees the request (*req = NULL). NULL is fine.
 * Requests may be waited for in any order that is the same on all ranks. */
ZT_MUST_USE zt_status zt_wait(zt_comm *comm, zt_request **req);
/* After a failure of this rank: calls off all requests in flight, which end with it, so that their buffers may go. (What
 * MPI has begun to send it may read until the job ends.) Local. */
void zt_comm_call_off(zt_comm *comm);
bool zt_request_done(const zt_request *req); /* true: zt_wait will not block. Local */

/* Small blocking ones (kilobytes), rank order, double accumulation for fp64. */
ZT_MUST_USE zt_status zt_all_reduce_sum_f64(zt_comm *comm, double *x, int n);
ZT_MUST_USE zt_status zt_all_reduce_sum_i64(zt_comm *comm, int64_t *x, int n);
ZT_MUST_USE zt_status zt_all_reduce_max_i64(zt_comm *comm, int64_t *x, int n);
ZT_MUST_USE zt_status zt_broadcast(zt_comm *comm, void *data, size_t bytes, int root);
/* Each rank's `bytes` (the same on all) land on every rank at rank * bytes. */
ZT_MUST_USE zt_status zt_all_gather_bytes(zt_comm *comm, const void *send, void *recv,
                                          size_t bytes);

/* ---- counts --------------------------------------------------------------------------------------- */
/* What this rank has sent since the last reset, by kind of operation, in elements and bytes. Local. */
typedef enum { ZT_COUNT_GATHER, ZT_COUNT_REDUCE, ZT_COUNT_SMALL, ZT_COUNTS } zt_count_kind;
typedef struct {
    int64_t elements, bytes, messages;
    int64_t inter_bytes; /* of those, to other hosts */
    double wait_seconds; /* time spent in zt_wait for this kind */
} zt_comm_count;
const zt_comm_count *zt_comm_counts(const zt_comm *comm); /* [ZT_COUNTS] */
void zt_comm_counts_reset(zt_comm *comm);
#endif
