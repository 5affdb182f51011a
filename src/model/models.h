/* models.h - the families, as forward passes. */
#ifndef ZT_MODELS_H
#define ZT_MODELS_H
#include "graph/graph.h"
#include "model/hf_config.h"

typedef void zt_build_fn(zt_graph *g, const zt_model_config *c);
zt_build_fn zt_build_gpt2, zt_build_llama;

/* The graph of a configuration. */
ZT_MUST_USE zt_status zt_model_build(const zt_model_config *c, zt_graph **out);
#endif
