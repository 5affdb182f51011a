/* plan.h - what a run would hold and send, by the same arithmetic that the run itself follows. */
#ifndef ZT_PLAN_H
#define ZT_PLAN_H
#include "train/session.h"

/* Prints memory by kind and traffic a step of rank `rank` of `ranks`. Nothing of that size is allocated. */
ZT_MUST_USE zt_status zt_plan_print(zt_comm *comm, zt_config *c, int ranks, int rank);
/* The tables 1 and 2 of the ZeRO paper (Rajbhandari et al., 2020), by formula. */
void zt_plan_zero_tables(void);
/* Bytes a parameter and rank of training state under a stage (mixed-precision Adam: 2 + 2 + 12). */
double zt_plan_zero_bytes(int stage, double n);
#endif
