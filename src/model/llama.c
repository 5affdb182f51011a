/* llama.c - the Llama family (Touvron et al., 2023; Mistral, Qwen2, SmolLM2 alike) as a forward pass: RMS
 * norm, rotary positions, grouped queries, gated MLP. Names are those of the published files. */
#include "model/models.h"

static zt_par weight(zt_graph *g, const zt_model_config *c, const char *name, int64_t out,
                     int64_t in)
{
    return zt_param(g, name, out, in, (zt_par_opt){.std = (float)c->init_std});
}

/* A projection with the bias that the configuration may ask for. */
static zt_val project(zt_graph *g, const zt_model_config *c, zt_val x, const char *name,
                      int64_t out, int64_t in, bool bias)
{
    zt_push(g, "%s.", name);
    zt_par w = weight(g, c, "weight", out, in);
    zt_par b = bias ? zt_param(g, "bias", out, 0, (zt_par_opt){.no_decay = true}) : ZT_NO_PAR;
    zt_pop(g);
    return zt_nn_linear(g, x, w, b);
}

static zt_val norm(zt_graph *g, const zt_model_config *c, zt_val x, const char *name)
{
    zt_par scale = zt_param(g, name, c->width, 0, (zt_par_opt){.fill = 1, .no_decay = true});
    return zt_nn_rms_norm(g, x, scale, (float)c->norm_eps);
}

static zt_val attention(zt_graph *g, const zt_model_config *c, zt_val x, const float *inv_freq)
{
    const int D = (int)c->head_dim;
    const int64_t Q = c->heads * D, KV = c->kv_heads * D;
    zt_push(g, "self_attn.");
    zt_val q = project(g, c, x, "q_proj", Q, c->width, c->qkv_bias);
    zt_val k = project(g, c, x, "k_proj", KV, c->width, c->qkv_bias);
    zt_val v = project(g, c, x, "v_proj", KV, c->width, c->qkv_bias);
    zt_val y =
        zt_nn_causal_attention(g, zt_nn_rope(g, q, D, inv_freq), zt_nn_rope(g, k, D, inv_freq), v,
                               (zt_attention_opt){.heads = (int)c->heads,
                                                  .kv_heads = (int)c->kv_heads,
                                                  .dropout = (float)c->attn_dropout});
    y = project(g, c, y, "o_proj", c->width, Q, c->o_bias);
    zt_pop(g);
    return y;
}

static zt_val mlp(zt_graph *g, const zt_model_config *c, zt_val x)
{
    zt_push(g, "mlp.");
    zt_val gate = project(g, c, x, "gate_proj", c->ff, c->width, c->mlp_bias);
    zt_val up = project(g, c, x, "up_proj", c->ff, c->width, c->mlp_bias);
    zt_val y =
        project(g, c, zt_nn_silu_mul(g, gate, up), "down_proj", c->width, c->ff, c->mlp_bias);
    zt_pop(g);
    return y;
}

void zt_build_llama(zt_graph *g, const zt_model_config *c)
{
    float inv_freq[1 << 13];
    zt_model_config_inv_freq(c, inv_freq);
    zt_par table = weight(g, c, "model.embed_tokens.weight", c->vocab, c->width);
    zt_val x = zt_nn_embed(g, ZT_TOKENS, table);
    for (int l = 0; l < c->layers; l++) {
        zt_push(g, "model.layers.%d.", l);
        zt_block_begin(g);
        x = zt_nn_add(g, x, attention(g, c, norm(g, c, x, "input_layernorm.weight"), inv_freq));
        x = zt_nn_add(g, x, mlp(g, c, norm(g, c, x, "post_attention_layernorm.weight")));
        zt_block_end(g);
        zt_pop(g);
    }
    x = norm(g, c, x, "model.norm.weight");
    zt_nn_lm_head(g, x, c->tied ? table : weight(g, c, "lm_head.weight", c->vocab, c->width));
}
