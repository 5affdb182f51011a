/* request.h - one call of this rank under way: its messages to and from all others, and its arithmetic. */
#ifndef ZT_REQUEST_H
#define ZT_REQUEST_H
#include "comm/transport.h"

/* Bytes of a message at most; of the description of a call. */
enum { ZT_PIECE = 8 << 20, ZT_CALL = 96 };

struct zt_request {
    zt_comm *comm;
    zt_request *next, *prev;
    zt_message *messages;
    int n, room, n_started, n_done;
    int n_heads; /* with full checks: the first messages, which say what is called */
    int tag;
    char (*calls)[ZT_CALL]; /* what each rank calls */
    zt_count_kind kind;
    const char *name;
    bool agreed, sum; /* calls have been compared; arithmetic is still to be done */
    const char *send;
    char *recv, *work;
    int64_t count, summed; /* elements; so many of them are summed */
    zt_dtype type, recv_type;
    bool add;
};

/* Takes a request from those kept. `fmt` describes the call beside its name: what must be the same on all ranks. */
ZT_MUST_USE zt_status zt_request_begin(zt_comm *c, zt_count_kind kind, const char *name,
                                       zt_request **out, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* Adds a message: of `bytes` at `data`, which travel in pieces, the piece from `at`. */
ZT_MUST_USE zt_status zt_request_add(zt_request *r, bool is_send, int peer, const char *data,
                                     size_t bytes, size_t at);
/* Adds messages from and to all others. What comes from rank p goes to its place in `in`; what goes to rank p is all of
 * `out`, or when scattering p's share of it (then `in` has no place for this rank itself). */
ZT_MUST_USE zt_status zt_request_exchange(zt_request *r, char *in, const char *out, size_t bytes,
                                          bool scatter);
/* The end of starting a call: its messages are counted and go, or wait until all agree. With a failure in `status` the
 * request is given back. */
ZT_MUST_USE zt_status zt_request_launch(zt_request *r, zt_status status, int64_t elements,
                                        zt_request **out);
void zt_requests_free(zt_comm *c);
#endif
