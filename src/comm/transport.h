/* transport.h - what a way of talking must offer: messages between two ranks that complete later. */
#ifndef ZT_TRANSPORT_H
#define ZT_TRANSPORT_H
#include "comm/comm.h"

/* One message under way. Messages of one pair of ranks with the same tag arrive in order. */
typedef struct {
    int peer, tag;
    bool is_send, done;
    char *data;
    size_t bytes;
    union {
        void *handle;   /* MPI_Request by value where it is a pointer */
        int number;     /* or an int */
        int64_t posted; /* threads: place in the queue */
    } u;
} zt_message;

typedef struct {
    zt_status (*start)(zt_comm *c, zt_message *m);
    zt_status (*test)(zt_comm *c, zt_message *m); /* sets done */
    void (*destroy)(zt_comm *c);
    void (*abort)(zt_comm *c, int exit_code);
    /* rank of a peer that has ended without finishing, or -1; NULL: cannot be told */
    int (*lost_peer)(zt_comm *c);
} zt_transport;

enum { ZT_NAME = 96 };
struct zt_comm {
    const zt_transport *t; /* NULL: a single rank */
    void *self;            /* the transport's own */
    int rank, size, nodes, local_size;
    int *node_of; /* [size] */
    char name[ZT_NAME], label[ZT_NAME];
    double timeout;
    int speaker; /* who tells the failure that the ranks last agreed on; -1: each its own */
    int next_tag;
    zt_request *free_list, *active; /* all requests are kept for reuse */
    zt_comm_count counts[ZT_COUNTS];
};

/* Fills in what all transports share; takes nothing. */
ZT_MUST_USE zt_status zt_comm_make(const zt_transport *t, void *self, int rank, int size,
                                   zt_comm **out);
/* Cuts ranks into hosts: node[i] is any number that ranks of one host share. */
void zt_comm_set_nodes(zt_comm *c, const int *node);
#endif
