/* gguf_convert.c - a GGUF file as a Hugging Face folder: weights under their names there, config.json.
 *
 * Two things are turned back that llama.cpp's own converter did: in the architecture "llama" the rows
 * of the query and key projections were reordered for its kind of rotary embedding, and GPT-2's
 * linear weights were transposed. */
#include "base/file.h"
#include "io/gguf.h"
#include "io/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef enum { PLAIN, QUERY, KEY, TURN } change; /* QUERY, KEY: rows reordered; TURN: transposed */
typedef struct {
    const char *from, *to; /* without .weight or .bias */
    change how;
} rename_rule;

static const rename_rule llama_top[] = {{"token_embd", "model.embed_tokens", PLAIN},
                                        {"output_norm", "model.norm", PLAIN},
                                        {"output", "lm_head", PLAIN},
                                        {0}},
                         llama_block[] = {{"attn_norm", "input_layernorm", PLAIN},
                                          {"attn_q", "self_attn.q_proj", QUERY},
                                          {"attn_k", "self_attn.k_proj", KEY},
                                          {"attn_v", "self_attn.v_proj", PLAIN},
                                          {"attn_output", "self_attn.o_proj", PLAIN},
                                          {"ffn_norm", "post_attention_layernorm", PLAIN},
                                          {"ffn_gate", "mlp.gate_proj", PLAIN},
                                          {"ffn_up", "mlp.up_proj", PLAIN},
                                          {"ffn_down", "mlp.down_proj", PLAIN},
                                          {0}},
                         gpt2_top[] = {{"token_embd", "transformer.wte", PLAIN},
                                       {"position_embd", "transformer.wpe", PLAIN},
                                       {"output_norm", "transformer.ln_f", PLAIN},
                                       {"output", "lm_head", PLAIN},
                                       {0}},
                         gpt2_block[] = {{"attn_norm", "ln_1", PLAIN},
                                         {"attn_qkv", "attn.c_attn", TURN},
                                         {"attn_output", "attn.c_proj", TURN},
                                         {"ffn_norm", "ln_2", PLAIN},
                                         {"ffn_up", "mlp.c_fc", TURN},
                                         {"ffn_down", "mlp.c_proj", TURN},
                                         {0}};

static const struct family {
    const char *architecture, *class_name;
    const char *blocks; /* prefix of a block's names */
    const rename_rule *top, *block;
    bool gpt2, reordered;
} families[] = {
    {"llama", "LlamaForCausalLM", "model.layers", llama_top, llama_block, false, true},
    {"qwen2", "Qwen2ForCausalLM", "model.layers", llama_top, llama_block, false, false},
    {"gpt2", "GPT2LMHeadModel", "transformer.h", gpt2_top, gpt2_block, true, false},
};

typedef struct {
    const zt_gguf *g;
    const struct family *family;
    zt_dtype type;
    int64_t width, layers, heads, kv_heads, ff, context, head_dim, vocab;
    double eps, theta;
    bool tied;
    zt_tensor *tensors; /* what is written, in order */
    const zt_gguf_tensor **sources;
    change *hows;
    int n;
} work;

/* ---- metadata ---- */
static zt_status family_of(work *w)
{
    const char *name = NULL;
    ZT_TRY(zt_gguf_get_str(w->g, "general.architecture", &name));
    for (size_t i = 0; name && i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].architecture, name) == 0) w->family = &families[i];
    if (!w->family)
        return ZT_FAIL(ZT_ERR_FORMAT,
                       "%s: the architecture %s is not supported; llama, qwen2 and gpt2 are",
                       zt_gguf_origin(w->g), name ? name : "(none)");
    return ZT_OK;
}

static zt_status whole(const work *w, const char *key, int64_t most, int64_t *out)
{
    char full[128];
    (void)snprintf(full, sizeof full, "%s.%s", w->family->architecture, key);
    ZT_TRY(zt_gguf_get_i64(w->g, full, out));
    if (*out < 1 || *out > most)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: the metadata %s is %s", zt_gguf_origin(w->g), full,
                       zt_gguf_has(w->g, full) ? "out of range" : "missing");
    return ZT_OK;
}

static zt_status real(const work *w, const char *key, double *out)
{
    char full[128];
    (void)snprintf(full, sizeof full, "%s.%s", w->family->architecture, key);
    ZT_TRY(zt_gguf_get_f64(w->g, full, out));
    if (!(*out > 0 && *out < 1e30))
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: the metadata %s is %s", zt_gguf_origin(w->g), full,
                       zt_gguf_has(w->g, full) ? "out of range" : "missing");
    /* the shortest decimal that gives the same single: 1e-05 instead of 9.99999974738e-06 */
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, *out);
        if (strtof(text, NULL) == (float)*out) break;
    }
    *out = strtod(text, NULL);
    return ZT_OK;
}

static zt_status read_sizes(work *w)
{
    int64_t experts = 1, rotary;
    const zt_gguf_tensor *table = zt_gguf_find(w->g, "token_embd.weight");
    ZT_TRY(whole(w, "block_count", 1 << 16, &w->layers));
    ZT_TRY(whole(w, "embedding_length", 1 << 20, &w->width));
    ZT_TRY(whole(w, "attention.head_count", 1 << 16, &w->heads));
    w->kv_heads = w->heads;
    ZT_TRY(whole(w, "attention.head_count_kv", 1 << 16, &w->kv_heads));
    ZT_TRY(whole(w, "feed_forward_length", 1 << 24, &w->ff));
    ZT_TRY(whole(w, "context_length", 1 << 30, &w->context));
    ZT_TRY(real(
        w, w->family->gpt2 ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
        &w->eps));
    if (!table || table->n_dims != 2 || table->shape[1] != w->width || w->heads % w->kv_heads)
        return ZT_FAIL(
            ZT_ERR_FORMAT,
            "%s: embedding_length %lld does not fit the heads (%lld, %lld) or token_embd.weight",
            zt_gguf_origin(w->g), (long long)w->width, (long long)w->heads, (long long)w->kv_heads);
    w->vocab = table->shape[0];
    w->head_dim = w->width / w->heads;
    if (w->family->gpt2) return ZT_OK;
    w->theta = 10000;
    ZT_TRY(real(w, "rope.freq_base", &w->theta));
    ZT_TRY(whole(w, "attention.key_length", 1 << 16, &w->head_dim));
    rotary = w->head_dim;
    ZT_TRY(whole(w, "rope.dimension_count", 1 << 16, &rotary));
    ZT_TRY(whole(w, "expert_count", 1 << 16, &experts));
    if (rotary != w->head_dim || rotary % 2 || experts != 1)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: %s is not supported", zt_gguf_origin(w->g),
                       experts != 1 ? "a mixture of experts"
                                    : "rotary embedding of a part of each head");
    return ZT_OK;
}

/* ---- which tensor becomes which ---- */
static const rename_rule *rule_of(const work *w, const char *name, char *to, size_t room)
{
    const rename_rule *rules = w->family->top;
    char prefix[64] = "";
    if (strncmp(name, "blk.", 4) == 0) {
        char *end;
        const unsigned long block = strtoul(name + 4, &end, 10);
        if (end == name + 4 || *end != '.' || block >= (unsigned long)w->layers) return NULL;
        (void)snprintf(prefix, sizeof prefix, "%s.%lu.", w->family->blocks, block);
        name = end + 1;
        rules = w->family->block;
    }
    const char *dot = strchr(name, '.');
    if (!dot || (strcmp(dot, ".weight") != 0 && strcmp(dot, ".bias") != 0)) return NULL;
    for (; rules->from; rules++)
        if (strlen(rules->from) == (size_t)(dot - name) &&
            memcmp(rules->from, name, (size_t)(dot - name)) == 0) {
            (void)snprintf(to, room, "%s%s%s", prefix, rules->to, dot);
            return rules;
        }
    return NULL;
}

/* The output matrix is the embedding: absent, or a copy of it. */
static bool is_tied(const zt_gguf *g)
{
    const zt_gguf_tensor *in = zt_gguf_find(g, "token_embd.weight"),
                         *out = zt_gguf_find(g, "output.weight");
    return !out || (out->format == in->format && out->bytes == in->bytes &&
                    memcmp(out->data, in->data, in->bytes) == 0);
}

static zt_status add(work *w, const zt_gguf_tensor *t)
{
    char name[256];
    const rename_rule *rule = rule_of(w, t->name, name, sizeof name);
    if (!rule)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: the tensor %s has no place in a %s model of %lld blocks",
                       zt_gguf_origin(w->g), t->name, w->family->architecture,
                       (long long)w->layers);
    change how = rule->how;
    if (((how == QUERY || how == KEY) && !w->family->reordered) || (how == TURN && t->n_dims < 2))
        how = PLAIN;
    const int64_t heads = how == QUERY ? w->heads : w->kv_heads;
    if (t->n_dims > 2 || (how != PLAIN && how != TURN && t->shape[0] != heads * w->head_dim))
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: the shape of tensor %s does not fit the metadata",
                       zt_gguf_origin(w->g), t->name);
    const int i = w->n;
    zt_tensor *to = &w->tensors[i];
    *to = (zt_tensor){.type = w->type, .n_dims = t->n_dims, .numel = t->numel};
    to->bytes = (size_t)t->numel * zt_dtype_bytes(w->type);
    for (int d = 0; d < t->n_dims; d++)
        to->shape[d] = t->shape[how == TURN ? t->n_dims - 1 - d : d];
    to->name = zt_strdup(name);
    if (!to->name) return ZT_NOMEM();
    w->sources[i] = t;
    w->hows[i] = how;
    w->n++;
    return ZT_OK;
}

static zt_status list_tensors(work *w)
{
    const size_t n = (size_t)zt_gguf_count(w->g);
    w->tensors = zt_calloc(n, sizeof *w->tensors);
    w->sources = zt_calloc(n, sizeof *w->sources);
    w->hows = zt_calloc(n, sizeof *w->hows);
    if (!w->tensors || !w->sources || !w->hows) return ZT_NOMEM();
    w->tied = is_tied(w->g);
    for (int i = 0; i < (int)n; i++) {
        const zt_gguf_tensor *t = zt_gguf_at(w->g, i);
        if (strcmp(t->name, "rope_freqs.weight") != 0 &&
            (strcmp(t->name, "output.weight") != 0 || !w->tied))
            ZT_TRY(add(w, t));
    }
    return ZT_OK;
}

/* ---- weights ---- */
/* llama.cpp has row 2 i + s of a head where Hugging Face has row s * head_dim / 2 + i. */
static int64_t row_there(const work *w, int64_t row)
{
    const int64_t d = w->head_dim, head = row / d, s = row % d / (d / 2), i = row % d % (d / 2);
    return head * d + 2 * i + s;
}

/* One row in the type asked for; a number that is not finite there is refused. */
static zt_status store_row(const work *w, int at, const float *x, int64_t n, void *to)
{
    for (int64_t j = 0; j < n; j++) {
        zt_store_f32(to, w->type, j, x[j]);
        if (!isfinite(zt_load_f32(to, w->type, j)))
            return ZT_FAIL(ZT_ERR_NUMERIC, "%s: tensor %s holds %g%s", zt_gguf_origin(w->g),
                           w->sources[at]->name, (double)x[j],
                           isfinite(x[j]) ? ", too large for fp16; convert to bf16" : "");
    }
    return ZT_OK;
}

static zt_status write_tensor(const work *w, int at, zt_weights_out *out)
{
    const zt_gguf_tensor *t = w->sources[at];
    const change how = w->hows[at];
    if (t->numel == 0) return ZT_OK;
    int64_t cols = w->tensors[at].n_dims ? w->tensors[at].shape[t->n_dims - 1] : 1;
    if (t->n_dims == 1 && (how == QUERY || how == KEY))
        cols = 1; /* a bias: its elements move as rows do */
    const int64_t rows = t->numel / cols;
    const size_t bytes = zt_dtype_bytes(w->type);
    float *all = how == TURN ? zt_malloc((size_t)t->numel * sizeof *all) : NULL;
    float *row = zt_malloc((size_t)cols * sizeof *row);
    void *stored = zt_malloc((size_t)cols * bytes);
    zt_status status = row && stored && (all || how != TURN) ? ZT_OK : ZT_NOMEM();
    if (status == ZT_OK && all) status = zt_gguf_read_f32(w->g, t, 0, t->numel, all);
    for (int64_t r = 0; r < rows && status == ZT_OK; r++) {
        if (all)
            for (int64_t j = 0; j < cols; j++)
                row[j] = all[j * rows + r];
        else
            status =
                zt_gguf_read_f32(w->g, t, (how == PLAIN ? r : row_there(w, r)) * cols, cols, row);
        if (status == ZT_OK) status = store_row(w, at, row, cols, stored);
        if (status == ZT_OK) status = zt_weights_write(out, stored, (size_t)cols * bytes);
    }
    zt_free(all);
    zt_free(row);
    zt_free(stored);
    return status;
}

static zt_status write_shard(const work *w, const char *folder, const char *file, int from, int to)
{
    char *path = zt_path_join(folder, file);
    zt_weights_out *out = NULL;
    zt_status status =
        path ? zt_weights_create(path, w->tensors + from, to - from, NULL, &out) : ZT_NOMEM();
    for (int i = from; i < to && status == ZT_OK; i++)
        status = write_tensor(w, i, out);
    if (status == ZT_OK) status = zt_weights_commit(&out);
    zt_weights_discard(&out);
    zt_free(path);
    return status;
}

static zt_status write_weights(const work *w, const char *folder)
{
    zt_shard_plan plan;
    ZT_TRY(zt_shard_plan_make(w->tensors, w->n, 5000000000u, &plan));
    zt_status status = ZT_OK;
    for (int from = 0, to; from < w->n && status == ZT_OK; from = to) {
        for (to = from; to < w->n && plan.shard_of[to] == plan.shard_of[from];)
            to++;
        status = write_shard(w, folder, plan.file[plan.shard_of[from]], from, to);
    }
    if (status == ZT_OK) status = zt_shard_index_write(folder, w->tensors, w->n, &plan);
    zt_shard_plan_free(&plan);
    return status;
}

/* ---- config.json ---- */
/* Llama 3.1 and later: a divisor for each frequency, kept as a tensor. The formula's other constants
 * are the same in all published models; a table that they do not reproduce is refused. */
static zt_status factor_of_table(const work *w, const zt_gguf_tensor *t, double *factor)
{
    const double low = 1, high = 4, original = 8192, pi = acos(-1);
    const int64_t n = w->head_dim / 2;
    float x = 0;
    bool same = t->numel == n;
    *factor = 1;
    for (int64_t i = 0; i < n && same; i++) {
        ZT_TRY(zt_gguf_read_f32(w->g, t, i, 1, &x));
        *factor = fmax(*factor, (double)x);
    }
    for (int64_t i = 0; i < n && same; i++) {
        ZT_TRY(zt_gguf_read_f32(w->g, t, i, 1, &x));
        const double turns = original * pow(w->theta, -(double)i / (double)n) / (2 * pi);
        const double s = fmin(1, fmax(0, (turns - low) / (high - low)));
        const double want = 1 / ((1 - s) / *factor + s);
        same = fabs((double)x - want) < 1e-3 * want;
    }
    if (!same)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: rope_freqs.weight is not that of a Llama 3 model",
                       zt_gguf_origin(w->g));
    return ZT_OK;
}

/* The value of rope_scaling. */
static zt_status scaling_text(const work *w, char *text, size_t room)
{
    char key[128];
    const char *type = "none";
    double factor = 1;
    const zt_gguf_tensor *table = zt_gguf_find(w->g, "rope_freqs.weight");
    (void)snprintf(text, room, "null");
    if (w->family->gpt2) return ZT_OK;
    if (table) {
        ZT_TRY(factor_of_table(w, table, &factor));
        (void)snprintf(text, room,
                       "{\"rope_type\": \"llama3\", \"factor\": %.9g, \"low_freq_factor\": 1.0, "
                       "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}",
                       factor);
        return ZT_OK;
    }
    (void)snprintf(key, sizeof key, "%s.rope.scaling.type", w->family->architecture);
    ZT_TRY(zt_gguf_get_str(w->g, key, &type));
    if (strcmp(type, "none") == 0) return ZT_OK;
    if (strcmp(type, "linear") != 0)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: %s = %s is not supported; none and linear are",
                       zt_gguf_origin(w->g), key, type);
    ZT_TRY(real(w, "rope.scaling.factor", &factor));
    (void)snprintf(text, room, "{\"rope_type\": \"linear\", \"factor\": %.9g}", factor);
    return ZT_OK;
}

/* Members for the ids of the special tokens that there are, each followed by a comma. */
static zt_status ids_text(const work *w, char *text, size_t room)
{
    static const char *const names[][2] = {{"tokenizer.ggml.bos_token_id", "bos_token_id"},
                                           {"tokenizer.ggml.eos_token_id", "eos_token_id"},
                                           {"tokenizer.ggml.padding_token_id", "pad_token_id"}};
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < 3; i++) {
        int64_t id = -1;
        ZT_TRY(zt_gguf_get_i64(w->g, names[i][0], &id));
        if (id >= 0 && id < w->vocab) /* some write 2^32 - 1 for "none" */
            used += (size_t)snprintf(text + used, room - used, "  \"%s\": %lld,\n", names[i][1],
                                     (long long)id);
    }
    return ZT_OK;
}

static char *sizes_text(const work *w, const char *scaling)
{
    const char *const words[] = {"false", "true"};
    if (w->family->gpt2)
        return zt_format(
            "  \"n_embd\": %lld,\n  \"n_layer\": %lld,\n  \"n_head\": %lld,\n"
            "  \"n_inner\": %lld,\n  \"n_positions\": %lld,\n  \"n_ctx\": %lld,\n"
            "  \"layer_norm_epsilon\": %.9g,\n  \"activation_function\": \"gelu_new\",\n",
            (long long)w->width, (long long)w->layers, (long long)w->heads, (long long)w->ff,
            (long long)w->context, (long long)w->context, w->eps);
    const bool llama = w->family->reordered;
    char biases[96] = "";
    if (llama)
        (void)snprintf(biases, sizeof biases, "  \"attention_bias\": %s,\n  \"mlp_bias\": %s,\n",
                       words[zt_gguf_find(w->g, "blk.0.attn_q.bias") != NULL],
                       words[zt_gguf_find(w->g, "blk.0.ffn_up.bias") != NULL]);
    return zt_format(
        "  \"hidden_size\": %lld,\n  \"intermediate_size\": %lld,\n"
        "  \"num_hidden_layers\": %lld,\n  \"num_attention_heads\": %lld,\n"
        "  \"num_key_value_heads\": %lld,\n  \"head_dim\": %lld,\n"
        "  \"max_position_embeddings\": %lld,\n  \"rms_norm_eps\": %.9g,\n"
        "  \"rope_theta\": %.9g,\n  \"rope_scaling\": %s,\n  \"hidden_act\": \"silu\",\n%s",
        (long long)w->width, (long long)w->ff, (long long)w->layers, (long long)w->heads,
        (long long)w->kv_heads, (long long)w->head_dim, (long long)w->context, w->eps, w->theta,
        scaling, biases);
}

static zt_status save_text(const char *folder, const char *name, char *text)
{
    char *path = zt_path_join(folder, name);
    zt_status status = path && text ? zt_file_write_all(path, text, strlen(text)) : ZT_NOMEM();
    zt_free(path);
    zt_free(text);
    return status;
}

static zt_status write_configs(const work *w, const char *folder)
{
    static const char *const types[ZT_DTYPES] = {
        [ZT_F32] = "float32", [ZT_BF16] = "bfloat16", [ZT_F16] = "float16"};
    char ids[160], scaling[256];
    ZT_TRY(ids_text(w, ids, sizeof ids));
    ZT_TRY(scaling_text(w, scaling, sizeof scaling));
    char *sizes = sizes_text(w, scaling);
    if (!sizes) return ZT_NOMEM();
    char *text = zt_format("{\n  \"architectures\": [\"%s\"],\n  \"model_type\": \"%s\",\n"
                           "  \"vocab_size\": %lld,\n%s%s  \"tie_word_embeddings\": %s,\n"
                           "  \"initializer_range\": 0.02,\n  \"torch_dtype\": \"%s\"\n}\n",
                           w->family->class_name, w->family->architecture, (long long)w->vocab,
                           sizes, ids, w->tied ? "true" : "false", types[w->type]);
    zt_free(sizes);
    ZT_TRY(save_text(folder, "config.json", text));
    return save_text(folder, "generation_config.json",
                     zt_format("{\n%s  \"_from_model_config\": true\n}\n", ids));
}

static zt_status save(const char *folder, const char *name, const json_t *j)
{
    char *path = zt_path_join(folder, name);
    zt_status status = path ? zt_json_save(path, j) : ZT_NOMEM();
    zt_free(path);
    return status;
}

static zt_status write_tokenizer(const zt_gguf *g, const char *folder)
{
    json_t *tokenizer = NULL, *config = NULL;
    if (!zt_gguf_has(g, "tokenizer.ggml.tokens")) return ZT_OK;
    ZT_TRY(zt_gguf_tokenizer(g, &tokenizer, &config));
    zt_status status = save(folder, "tokenizer.json", tokenizer);
    if (status == ZT_OK) status = save(folder, "tokenizer_config.json", config);
    json_decref(tokenizer);
    json_decref(config);
    return status;
}

/* ---- the whole ---- */
static zt_status check_target(const char *folder)
{
    char **names;
    if (!zt_path_exists(folder)) return ZT_OK;
    ZT_TRY(zt_folder_list(folder, &names));
    const bool empty = !names[0];
    zt_names_free(names);
    return empty ? ZT_OK
                 : ZT_FAIL(ZT_ERR_ARG, "%s exists already: remove it or choose another", folder);
}

static zt_status convert(work *w, const char *folder, const char *temporary)
{
    ZT_TRY(family_of(w));
    ZT_TRY(read_sizes(w));
    ZT_TRY(list_tensors(w));
    ZT_TRY(check_target(folder));
    ZT_TRY(zt_folder_remove(temporary)); /* of a conversion that was killed */
    ZT_TRY(zt_folder_make(temporary));
    zt_status status = write_configs(w, temporary);
    if (status == ZT_OK) status = write_tokenizer(w->g, temporary);
    if (status == ZT_OK) status = write_weights(w, temporary);
    if (status == ZT_OK) status = zt_path_rename(temporary, folder);
    if (status != ZT_OK && zt_folder_remove(temporary) != ZT_OK)
        zt_log(ZT_LOG_WARN, "%s is left over: remove it", temporary);
    return status;
}

zt_status zt_gguf_convert(const char *gguf_path, const char *folder, zt_dtype type)
{
    if (type != ZT_F32 && type != ZT_BF16 && type != ZT_F16)
        return ZT_FAIL(ZT_ERR_ARG, "weights are written as fp32, bf16 or fp16, not as %s",
                       zt_dtype_name(type));
    zt_gguf *g;
    ZT_TRY(zt_gguf_open(gguf_path, &g));
    work w = {.g = g, .type = type};
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/')
        length--;
    char *to = zt_strndup(folder, length), *temporary = to ? zt_format("%s.tmp", to) : NULL;
    zt_status status = temporary ? convert(&w, to, temporary) : ZT_NOMEM();
    for (int i = 0; i < w.n; i++)
        zt_free((void *)(uintptr_t)w.tensors[i].name);
    zt_free(w.tensors);
    zt_free(w.sources);
    zt_free(w.hows);
    zt_free(to);
    zt_free(temporary);
    zt_gguf_close(&g);
    return status;
}
