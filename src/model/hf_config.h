/* hf_config.h - a Hugging Face config.json of the families that there are models for, checked wholly:
 * what cannot be honoured is refused by name. All functions are Local. */
#ifndef ZT_HF_CONFIG_H
#define ZT_HF_CONFIG_H
#include "base/base.h"
#include "base/json.h"

typedef enum { ZT_FAMILY_GPT2, ZT_FAMILY_LLAMA } zt_family; /* llama: also mistral and qwen2 */
typedef enum { ZT_ACT_GELU_TANH, ZT_ACT_GELU, ZT_ACT_SILU } zt_activation;

typedef struct {
    zt_family family;
    char model_type[16];
    int64_t layers, heads, kv_heads, head_dim, width, ff, vocab, max_positions;
    double norm_eps, rope_theta, init_std;
    struct {
        bool linear, llama3; /* neither: plain */
        double factor, low_freq_factor, high_freq_factor;
        int64_t original_positions;
    } rope_scaling;
    bool qkv_bias, o_bias, mlp_bias, tied;
    zt_activation activation;
    double embd_dropout, resid_dropout, attn_dropout;
    int64_t bos, eos; /* -1: none */
    json_t *source;   /* what was read; its own reference */
} zt_model_config;

/* `path`: a config.json or a folder with one. */
ZT_MUST_USE zt_status zt_model_config_load(const char *path, zt_model_config *out);
ZT_MUST_USE zt_status zt_model_config_parse(const json_t *j, const char *origin,
                                            zt_model_config *out);
void zt_model_config_deinit(zt_model_config *c);
/* What was read, with the dtype that is saved. */
ZT_MUST_USE zt_status zt_model_config_save(const zt_model_config *c, const char *path,
                                           zt_dtype saved_as);
/* Sets all dropouts (training option "dropout") that the family has: of attention weights, and GPT-2's of embeddings and
 * residual branches. */
void zt_model_config_dropout(zt_model_config *c, double p);
/* inv_freq [head_dim / 2] of the rotary positions, scaling applied. */
void zt_model_config_inv_freq(const zt_model_config *c, float *inv_freq);
#endif
