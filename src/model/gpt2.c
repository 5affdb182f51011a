/* gpt2.c - GPT-2 (Radford et al., 2019) as a forward pass. Weights are named and laid out as in the
 * published files: Conv1D matrices are [in, out]. */
#include "model/models.h"

#include <math.h>

static zt_par matrix(zt_graph *g, const char *name, int64_t out, int64_t in, double std)
{
    return zt_param(g, name, out, in, (zt_par_opt){.std = (float)std, .in_out = true});
}

static zt_par vector(zt_graph *g, const char *name, int64_t n, float fill)
{
    return zt_param(g, name, n, 0, (zt_par_opt){.fill = fill, .no_decay = true});
}

static zt_val norm(zt_graph *g, const zt_model_config *c, zt_val x, const char *name)
{
    zt_push(g, "%s.", name);
    zt_val y = zt_nn_layer_norm(g, x, vector(g, "weight", c->width, 1),
                                vector(g, "bias", c->width, 0), (float)c->norm_eps);
    zt_pop(g);
    return y;
}

/* The projections back into the residual stream start smaller, by the depth (section 2.3). */
static double small(const zt_model_config *c)
{
    return c->init_std / sqrt(2.0 * (double)c->layers);
}

static zt_val attention(zt_graph *g, const zt_model_config *c, zt_val x)
{
    const int64_t C = c->width;
    zt_push(g, "attn.");
    zt_val qkv = zt_nn_linear(g, x, matrix(g, "c_attn.weight", 3 * C, C, c->init_std),
                              vector(g, "c_attn.bias", 3 * C, 0));
    zt_val y = zt_nn_causal_attention(
        g, zt_nn_part(g, qkv, 0, 3), zt_nn_part(g, qkv, 1, 3), zt_nn_part(g, qkv, 2, 3),
        (zt_attention_opt){
            .heads = (int)c->heads, .kv_heads = (int)c->heads, .dropout = (float)c->attn_dropout});
    y = zt_nn_linear(g, y, matrix(g, "c_proj.weight", C, C, small(c)),
                     vector(g, "c_proj.bias", C, 0));
    zt_pop(g);
    return zt_nn_dropout(g, y, (float)c->resid_dropout);
}

static zt_val mlp(zt_graph *g, const zt_model_config *c, zt_val x)
{
    const int64_t C = c->width;
    zt_push(g, "mlp.");
    zt_val h = zt_nn_linear(g, x, matrix(g, "c_fc.weight", c->ff, C, c->init_std),
                            vector(g, "c_fc.bias", c->ff, 0));
    h = zt_nn_gelu(g, h, c->activation == ZT_ACT_GELU_TANH);
    h = zt_nn_linear(g, h, matrix(g, "c_proj.weight", C, c->ff, small(c)),
                     vector(g, "c_proj.bias", C, 0));
    zt_pop(g);
    return zt_nn_dropout(g, h, (float)c->resid_dropout);
}

void zt_build_gpt2(zt_graph *g, const zt_model_config *c)
{
    const int64_t C = c->width;
    const zt_par_opt table = {.std = (float)c->init_std};
    zt_push(g, "transformer.");
    zt_par wte = zt_param(g, "wte.weight", c->vocab, C, table);
    zt_par wpe = zt_param(g, "wpe.weight", c->max_positions, C, table);
    zt_val x = zt_nn_add(g, zt_nn_embed(g, ZT_TOKENS, wte), zt_nn_embed(g, ZT_POSITIONS, wpe));
    x = zt_nn_dropout(g, x, (float)c->embd_dropout);
    for (int l = 0; l < c->layers; l++) {
        zt_push(g, "h.%d.", l);
        zt_block_begin(g);
        x = zt_nn_add(g, x, attention(g, c, norm(g, c, x, "ln_1")));
        x = zt_nn_add(g, x, mlp(g, c, norm(g, c, x, "ln_2")));
        zt_block_end(g);
        zt_pop(g);
    }
    x = norm(g, c, x, "ln_f");
    zt_pop(g);
    zt_nn_lm_head(g, x, c->tied ? wte : zt_param(g, "lm_head.weight", c->vocab, C, table));
}
