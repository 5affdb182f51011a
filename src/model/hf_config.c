/* hf_config.c - reading config.json. */
#include "model/hf_config.h"
#include "base/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const json_t *j;
    const char *origin;
} source;

static zt_status refuse(const source *s, const char *key, const char *why)
{
    char *value = json_dumps(json_object_get(s->j, key), JSON_ENCODE_ANY | JSON_COMPACT);
    zt_status status = ZT_FAIL(ZT_ERR_CONFIG, "%s: %s = %.200s %s", s->origin, key,
                               value ? value : "(missing)", why);
    free(value);
    return status;
}

/* Keys that change what the model computes, and the only values under which it is what is built here. A
 * key that is missing or null is fine. */
typedef enum { MUST_BE_FALSE, MUST_BE_TRUE, MUST_BE_ONE, MUST_BE_EMPTY, MUST_BE_ABSENT } wanted;
static const struct {
    const char *key;
    wanted want;
} demands[] = {
    {"quantization_config", MUST_BE_ABSENT},
    {"num_local_experts", MUST_BE_ABSENT},
    {"num_experts", MUST_BE_ABSENT},
    {"moe_intermediate_size", MUST_BE_ABSENT},
    {"position_embedding_type", MUST_BE_ABSENT},
    {"layer_types_override", MUST_BE_ABSENT},
    {"no_rope_layers", MUST_BE_ABSENT},
    {"final_logit_softcapping", MUST_BE_ABSENT},
    {"attn_logit_softcapping", MUST_BE_ABSENT},
    {"residual_multiplier", MUST_BE_ONE},
    {"embedding_multiplier", MUST_BE_ONE},
    {"logits_scaling", MUST_BE_ONE},
    {"partial_rotary_factor", MUST_BE_ONE},
    {"pretraining_tp", MUST_BE_ONE},
    {"pruned_heads", MUST_BE_EMPTY},
    {"is_causal", MUST_BE_TRUE},
    {"add_cross_attention", MUST_BE_FALSE},
    {"is_encoder_decoder", MUST_BE_FALSE},
    {"scale_attn_by_inverse_layer_idx", MUST_BE_FALSE},
    {"scale_attn_weights", MUST_BE_TRUE},
    {"use_sliding_window", MUST_BE_FALSE},
};

static zt_status demand(const source *s, const char *key, wanted want)
{
    static const char *const why[] = {[MUST_BE_FALSE] = "is not supported; false is",
                                      [MUST_BE_TRUE] = "is not supported; true is",
                                      [MUST_BE_ONE] = "is not supported; 1 is",
                                      [MUST_BE_EMPTY] = "is not supported; {} is",
                                      [MUST_BE_ABSENT] = "is not supported; null is"};
    const json_t *v = json_object_get(s->j, key);
    const bool met = !v || json_is_null(v) || (want == MUST_BE_FALSE && json_is_false(v)) ||
                     (want == MUST_BE_TRUE && json_is_true(v)) ||
                     (want == MUST_BE_ONE && json_number_value(v) == 1.0) ||
                     (want == MUST_BE_EMPTY && json_is_object(v) && json_object_size(v) == 0);
    return met ? ZT_OK : refuse(s, key, why[want]);
}

static zt_status check_layer_types(const source *s)
{
    const json_t *layers = json_object_get(s->j, "layer_types"), *kind;
    size_t i;
    bool bad = layers && !json_is_null(layers) && !json_is_array(layers);
    json_array_foreach(layers, i, kind)
    {
        const char *name = json_string_value(kind);
        bad = bad || !name || strcmp(name, "full_attention") != 0;
    }
    return bad ? refuse(s, "layer_types",
                        "is not supported: a list is, in which every layer is full_attention")
               : ZT_OK;
}

/* What the weights were saved as. It decides nothing here, but a strange one says that they are strange. */
static zt_status check_dtype(const source *s, const char *key)
{
    static const char *const names[] = {"float32", "bfloat16", "float16", "float64"};
    const char *name = names[0];
    ZT_TRY(zt_json_get_str(s->j, s->origin, key, &name));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return ZT_OK;
    return refuse(s, key, "is not supported; float32, bfloat16, float16 and float64 are");
}

static zt_status check_demands(const source *s)
{
    for (size_t i = 0; i < sizeof demands / sizeof *demands; i++)
        ZT_TRY(demand(s, demands[i].key, demands[i].want));
    ZT_TRY(check_layer_types(s));
    ZT_TRY(check_dtype(s, "torch_dtype"));
    return check_dtype(s, "dtype");
}

static zt_status number(const source *s, const char *key, double low, double high, double *out)
{
    ZT_TRY(zt_json_get_f64(s->j, s->origin, key, out));
    if (!(*out >= low && *out <= high)) return refuse(s, key, "is out of range");
    return ZT_OK;
}

/* A whole number of 1 or more; `fallback` 0: it must be there. */
static zt_status count(const source *s, const char *key, int64_t fallback, int64_t most,
                       int64_t *out)
{
    *out = fallback;
    ZT_TRY(zt_json_get_i64(s->j, s->origin, key, out));
    if (*out == 0 && !json_object_get(s->j, key))
        return ZT_FAIL(ZT_ERR_CONFIG, "%s: %s is missing", s->origin, key);
    if (*out < 1 || *out > most) return refuse(s, key, "is out of range");
    return ZT_OK;
}

static zt_status activation(const source *s, const char *key, const char *fallback,
                            zt_activation *out)
{
    static const struct {
        const char *name;
        zt_activation a;
    } names[] = {{"gelu_new", ZT_ACT_GELU_TANH},  {"gelu_pytorch_tanh", ZT_ACT_GELU_TANH},
                 {"gelu_fast", ZT_ACT_GELU_TANH}, {"gelu", ZT_ACT_GELU},
                 {"silu", ZT_ACT_SILU},           {"swish", ZT_ACT_SILU}};
    const char *name = fallback;
    ZT_TRY(zt_json_get_str(s->j, s->origin, key, &name));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i].name) == 0) {
            *out = names[i].a;
            return ZT_OK;
        }
    return refuse(s, key, "is not supported; there are gelu_new, gelu and silu");
}

static zt_status read_gpt2(const source *s, zt_model_config *c)
{
    const struct {
        const char *key, *alias; /* which counts more, as in transformers */
        int64_t fallback, most, *out;
    } sizes[] = {
        {"n_embd", "hidden_size", 768, 1 << 20, &c->width},
        {"n_layer", "num_hidden_layers", 12, 1 << 16, &c->layers},
        {"n_head", "num_attention_heads", 12, 1 << 16, &c->heads},
        {"n_positions", "max_position_embeddings", 1024, 1 << 24, &c->max_positions},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ZT_TRY(count(s, sizes[i].key, sizes[i].fallback, sizes[i].most, sizes[i].out));
        ZT_TRY(count(s, sizes[i].alias, *sizes[i].out, sizes[i].most, sizes[i].out));
    }
    ZT_TRY(count(s, "n_inner", 4 * c->width, 1 << 22, &c->ff));
    c->kv_heads = c->heads;
    c->head_dim = c->width / c->heads;
    c->norm_eps = 1e-5;
    ZT_TRY(number(s, "layer_norm_epsilon", 1e-12, 1, &c->norm_eps));
    c->embd_dropout = c->resid_dropout = c->attn_dropout = 0.1;
    ZT_TRY(number(s, "embd_pdrop", 0, 0.999, &c->embd_dropout));
    ZT_TRY(number(s, "resid_pdrop", 0, 0.999, &c->resid_dropout));
    ZT_TRY(number(s, "attn_pdrop", 0, 0.999, &c->attn_dropout));
    ZT_TRY(activation(s, "activation_function", "gelu_new", &c->activation));
    c->qkv_bias = c->o_bias = c->mlp_bias = c->tied = true;
    if (c->activation == ZT_ACT_SILU)
        return refuse(s, "activation_function", "is not supported in GPT-2; gelu_new and gelu are");
    return ZT_OK;
}

static bool is_set(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return v && !json_is_null(v);
}

/* Members of rope_scaling beside its type: any other would change the positions unseen. */
static zt_status check_rope(const source *s, const char *type)
{
    static const struct {
        const char *type, *keys[8];
    } ropes[] = {
        {"default", {"rope_theta", "partial_rotary_factor"}},
        {"linear", {"rope_theta", "partial_rotary_factor", "factor"}},
        {"llama3",
         {"rope_theta", "partial_rotary_factor", "factor", "low_freq_factor", "high_freq_factor",
          "original_max_position_embeddings"}},
    };
    size_t r = 0, n = sizeof ropes / sizeof *ropes;
    while (r < n && strcmp(type, ropes[r].type) != 0)
        r++;
    if (r == n)
        return ZT_FAIL(ZT_ERR_CONFIG,
                       "%s: the rope type \"%s\" is not supported; default, linear and llama3 are",
                       s->origin, type);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)s->j, key, value)
    {
        bool known = json_is_null(value) || !strcmp(key, "type") || !strcmp(key, "rope_type");
        for (const char *const *k = ropes[r].keys; *k && !known; k++)
            known = strcmp(key, *k) == 0;
        if (!known)
            return ZT_FAIL(ZT_ERR_CONFIG,
                           "%s: %s is not known in rope scaling of the type \"%s\"; set rope_type "
                           "to what is meant: default, linear or llama3",
                           s->origin, key, type);
    }
    return demand(s, "partial_rotary_factor", MUST_BE_ONE);
}

static zt_status read_rope(const source *s, zt_model_config *c)
{
    c->rope_theta = 10000;
    ZT_TRY(number(s, "rope_theta", 1, 1e12, &c->rope_theta));
    /* transformers 5 has all of it in one object, rope_parameters */
    const char *key = is_set(s->j, "rope_scaling") ? "rope_scaling" : "rope_parameters";
    const json_t *r = json_object_get(s->j, key);
    if (!is_set(s->j, key)) return ZT_OK;
    if (!json_is_object(r)) return refuse(s, key, "should be an object");
    if (is_set(s->j, "rope_parameters") && !json_equal(r, json_object_get(s->j, "rope_parameters")))
        return refuse(s, key, "is not what rope_parameters says; one of them must go");
    const source in = {r, s->origin};
    const char *type = "default";
    ZT_TRY(zt_json_get_str(r, s->origin, "type", &type));
    ZT_TRY(zt_json_get_str(r, s->origin, "rope_type", &type));
    ZT_TRY(check_rope(&in, type));
    ZT_TRY(number(&in, "rope_theta", 1, 1e12, &c->rope_theta));
    c->rope_scaling.linear = strcmp(type, "linear") == 0;
    c->rope_scaling.llama3 = strcmp(type, "llama3") == 0;
    if (strcmp(type, "default") == 0) return ZT_OK;
    ZT_TRY(number(&in, "factor", 1, 1e6, &c->rope_scaling.factor));
    if (c->rope_scaling.llama3) {
        ZT_TRY(number(&in, "low_freq_factor", 1e-6, 1e6, &c->rope_scaling.low_freq_factor));
        ZT_TRY(number(&in, "high_freq_factor", 1e-6, 1e6, &c->rope_scaling.high_freq_factor));
        ZT_TRY(count(&in, "original_max_position_embeddings", 0, 1 << 24,
                     &c->rope_scaling.original_positions));
        if (c->rope_scaling.high_freq_factor <= c->rope_scaling.low_freq_factor)
            return refuse(s, key, "needs high_freq_factor above low_freq_factor");
    }
    return ZT_OK;
}

/* Mistral attends through a window unless it is null, Qwen2 only with use_sliding_window; a Llama that has one is none. */
static zt_status check_window(const source *s, const zt_model_config *c, bool used)
{
    int64_t window = INT64_MAX;
    ZT_TRY(zt_json_get_i64(s->j, s->origin, "sliding_window", &window));
    if (strcmp(c->model_type, "mistral") == 0 && !json_object_get(s->j, "sliding_window"))
        window = 4096; /* transformers' default */
    if (used && window < c->max_positions)
        return refuse(s, "sliding_window",
                      "is below max_position_embeddings: attention windows are not "
                      "supported; set it to null to train without");
    return ZT_OK;
}

static zt_status read_llama(const source *s, zt_model_config *c)
{
    const bool qwen2 = strcmp(c->model_type, "qwen2") == 0;
    const bool mistral = strcmp(c->model_type, "mistral") == 0;
    ZT_TRY(count(s, "hidden_size", 0, 1 << 20, &c->width));
    ZT_TRY(count(s, "num_hidden_layers", 0, 1 << 16, &c->layers));
    ZT_TRY(count(s, "num_attention_heads", 0, 1 << 16, &c->heads));
    ZT_TRY(count(s, "num_key_value_heads", c->heads, 1 << 16, &c->kv_heads));
    ZT_TRY(count(s, "intermediate_size", 0, 1 << 22, &c->ff));
    ZT_TRY(count(s, "max_position_embeddings", 2048, 1 << 24, &c->max_positions));
    if (!is_set(s->j, "head_dim") && c->width % c->heads)
        return refuse(s, "num_attention_heads", "does not divide hidden_size");
    ZT_TRY(count(s, "head_dim", c->width / c->heads, 1 << 14, &c->head_dim));
    c->norm_eps = 1e-6;
    ZT_TRY(number(s, "rms_norm_eps", 1e-12, 1, &c->norm_eps));
    ZT_TRY(number(s, "attention_dropout", 0, 0.999, &c->attn_dropout));
    ZT_TRY(activation(s, "hidden_act", "silu", &c->activation));
    if (c->activation != ZT_ACT_SILU)
        return refuse(s, "hidden_act", "is not supported in this family; silu is");
    if (mistral) ZT_TRY(demand(s, "attention_bias", MUST_BE_FALSE));
    if (mistral || qwen2) ZT_TRY(demand(s, "mlp_bias", MUST_BE_FALSE));
    ZT_TRY(zt_json_get_bool(s->j, s->origin, "attention_bias", &c->qkv_bias));
    c->o_bias = c->qkv_bias && !qwen2;
    c->qkv_bias = c->qkv_bias || qwen2;
    ZT_TRY(zt_json_get_bool(s->j, s->origin, "mlp_bias", &c->mlp_bias));
    ZT_TRY(check_window(s, c, !qwen2));
    return read_rope(s, c);
}

/* The id, or the first of a list of ids; -1: none. */
static zt_status token_id(const source *s, const char *key, int64_t *out)
{
    const json_t *v = json_object_get(s->j, key);
    const bool list = json_is_array(v);
    *out = -1;
    for (size_t i = list ? json_array_size(v) : is_set(s->j, key); i-- > 0;) {
        const json_t *id = list ? json_array_get(v, i) : v;
        *out = json_integer_value(id);
        if (!json_is_integer(id) || *out < -1 || *out > INT32_MAX)
            return refuse(s, key, "should be the id of a token, a list of ids, or null");
    }
    return ZT_OK;
}

static zt_status read(const source *s, zt_model_config *c)
{
    static const struct {
        const char *type;
        zt_family family;
    } families[] = {{"gpt2", ZT_FAMILY_GPT2},
                    {"llama", ZT_FAMILY_LLAMA},
                    {"mistral", ZT_FAMILY_LLAMA},
                    {"qwen2", ZT_FAMILY_LLAMA}};
    const char *type = NULL;
    if (!json_is_object(s->j))
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: a model's config.json is an object", s->origin);
    ZT_TRY(zt_json_get_str(s->j, s->origin, "model_type", &type));
    size_t f = 0, n = sizeof families / sizeof *families;
    while (f < n && (!type || strcmp(type, families[f].type) != 0))
        f++;
    if (f == n)
        return refuse(s, "model_type", "is not supported; gpt2, llama, mistral and qwen2 are");
    c->family = families[f].family;
    (void)snprintf(c->model_type, sizeof c->model_type, "%s", type);
    ZT_TRY(check_demands(s));
    ZT_TRY(count(s, "vocab_size", c->family == ZT_FAMILY_GPT2 ? 50257 : 0, 1 << 28, &c->vocab));
    c->init_std = 0.02;
    ZT_TRY(number(s, "initializer_range", 0, 100, &c->init_std));
    if (c->family == ZT_FAMILY_GPT2)
        ZT_TRY(read_gpt2(s, c));
    else
        ZT_TRY(read_llama(s, c));
    ZT_TRY(zt_json_get_bool(s->j, s->origin, "tie_word_embeddings", &c->tied));
    ZT_TRY(token_id(s, "bos_token_id", &c->bos));
    ZT_TRY(token_id(s, "eos_token_id", &c->eos));
    if (c->family == ZT_FAMILY_GPT2 && c->width % c->heads)
        return refuse(s, "n_head", "does not divide n_embd");
    if (c->heads % c->kv_heads)
        return refuse(s, "num_key_value_heads", "does not divide num_attention_heads");
    if (c->family == ZT_FAMILY_LLAMA && c->head_dim % 2)
        return refuse(s, "head_dim", "is odd: rotary positions need pairs");
    return ZT_OK;
}

zt_status zt_model_config_parse(const json_t *j, const char *origin, zt_model_config *out)
{
    zt_model_config c = {0};
    const source s = {j, origin};
    ZT_TRY(read(&s, &c));
    c.source = json_deep_copy(j);
    if (!c.source) return ZT_NOMEM();
    *out = c;
    return ZT_OK;
}

zt_status zt_model_config_load(const char *path, zt_model_config *out)
{
    char *file = zt_path_is_folder(path) ? zt_path_join(path, "config.json") : zt_strdup(path);
    if (!file) return ZT_NOMEM();
    json_t *j = NULL;
    zt_status status = zt_json_load(file, &j);
    if (status == ZT_OK) status = zt_model_config_parse(j, file, out);
    json_decref(j);
    zt_free(file);
    return status;
}

void zt_model_config_deinit(zt_model_config *c)
{
    json_decref(c->source);
    c->source = NULL;
}

zt_status zt_model_config_save(const zt_model_config *c, const char *path, zt_dtype saved_as)
{
    const char *name = saved_as == ZT_BF16  ? "bfloat16"
                       : saved_as == ZT_F16 ? "float16"
                                            : "float32";
    json_t *copy = json_copy(c->source);
    const char *key = json_object_get(c->source, "dtype") ? "dtype" : "torch_dtype";
    int bad = !copy || json_object_set_new(copy, key, json_string(name));
    if (!bad && !json_object_get(copy, "architectures")) {
        static const char *const classes[][2] = {{"gpt2", "GPT2LMHeadModel"},
                                                 {"llama", "LlamaForCausalLM"},
                                                 {"mistral", "MistralForCausalLM"},
                                                 {"qwen2", "Qwen2ForCausalLM"}};
        for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
            if (strcmp(classes[i][0], c->model_type) == 0)
                bad = json_object_set_new(copy, "architectures", json_pack("[s]", classes[i][1]));
    }
    zt_status status = bad ? ZT_NOMEM() : zt_json_save(path, copy);
    json_decref(copy);
    return status;
}

void zt_model_config_dropout(zt_model_config *c, double p)
{
    c->embd_dropout = c->resid_dropout = c->family == ZT_FAMILY_GPT2 ? p : 0;
    c->attn_dropout = p;
}

void zt_model_config_inv_freq(const zt_model_config *c, float *inv_freq)
{
    const double pi = 3.14159265358979323846;
    for (int64_t i = 0; i < c->head_dim / 2; i++) {
        /* transformers: 1 / theta^(2i/D) with the power in fp32 */
        float power = powf((float)c->rope_theta, (float)(2 * i) / (float)c->head_dim);
        float f = 1.0f / power;
        if (c->rope_scaling.linear) f /= (float)c->rope_scaling.factor;
        if (c->rope_scaling.llama3) {
            const double length = (double)c->rope_scaling.original_positions;
            const double low = length / c->rope_scaling.low_freq_factor;
            const double high = length / c->rope_scaling.high_freq_factor;
            const double wave = 2 * pi / (double)f, scaled = (double)f / c->rope_scaling.factor;
            if (wave > low) {
                f = (float)scaled;
            } else if (wave >= high) {
                double mix = (length / wave - c->rope_scaling.low_freq_factor) /
                             (c->rope_scaling.high_freq_factor - c->rope_scaling.low_freq_factor);
                f = (float)((1 - mix) * scaled + mix * (double)f);
            }
        }
        inv_freq[i] = f;
    }
}
