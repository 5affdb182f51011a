/* transport.h - what a way of talking must offer: messages between two ranks that complete later. */
#ifndef ZT_TRANSPORT_H
#define ZT_TRANSPORT_H
#include "comm/comm.h"

/* One message under way. Of one pair of ranks and tag, a receive gets what was sent as the same part; parts are started
 * in order. */
typedef struct {
    int peer, tag, part;
    bool is_send, done;
    char *data;
    size_t bytes;
    const char *op; /* what it belongs to, for messages */
    void *handle;   /* the transport's own */
} zt_message;

typedef struct {
    zt_status (*start)(zt_comm *c, zt_message *m);
    zt_status (*test)(zt_comm *c, zt_message *m); /* sets done */
    void (*drop)(zt_comm *c, zt_message *m);      /* forgets one that will not be waited for */
    void (*destroy)(zt_comm *c);
    void (*abort)(zt_comm *c, int exit_code);
    /* Why `peer` will not answer: the rank that has ended, by a failure or not; -1: it may yet. */
    int (*gone)(zt_comm *c, int peer, bool *has_failed);
} zt_transport;

enum { ZT_NAME = 96, ZT_TAGS = 30000 }; /* tags 0 .. ZT_TAGS - 1 belong to operations, in turn */
struct zt_comm {
    const zt_transport *t; /* NULL: a single rank */
    void *self;            /* the transport's own */
    int rank, size, nodes, local_size;
    int *node_of; /* [size] */
    char name[ZT_NAME], label[ZT_NAME];
    double timeout;
    bool checks;
    int speaker; /* who tells the failure that the ranks last agreed on; -1: each its own */
    int next_tag;
    int64_t n_done;                 /* messages so far: grows while peers are alive */
    zt_request *free_list, *active; /* all requests are kept for reuse */
    zt_comm_count counts[ZT_COUNTS];
};

/* Fills in what all transports share; takes nothing. */
ZT_MUST_USE zt_status zt_comm_make(const zt_transport *t, void *self, int rank, int size,
                                   zt_comm **out);
/* Cuts ranks into hosts: node[i] is any number that ranks of one host share. */
void zt_comm_set_nodes(zt_comm *c, const int *node);
/* The failure of a receive that got another number of bytes than it waits for; 0: more, not known how many. */
ZT_MUST_USE zt_status zt_comm_wrong_size(const zt_comm *c, const zt_message *m, size_t got);
/* Between two looks: spins a little, then leaves the core to others (ranks may be more than cores). */
void zt_comm_pause(unsigned round);
#endif
