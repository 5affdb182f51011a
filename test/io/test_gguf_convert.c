/* test_gguf_convert.c - tiny models as llama.cpp would store them, turned back into Hugging Face folders. */
#include "base/file.h"
#include "gguf_build.h"
#include "io/gguf.h"
#include "io/safetensors.h"
#include "io/tokenizer.h"

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/zt_gguf_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return zt_folder_remove(folder) == ZT_OK ? 0 : -1;
}

static const char *in(const char *name)
{
    static char paths[4][256];
    static int next;
    char *p = paths[next++ % 4];
    (void)snprintf(p, sizeof paths[0], "%s/%s", folder, name);
    return p;
}

static void save_image(gguf_image *g)
{
    bytes b = image_end(g);
    OK(zt_file_write_all(in("x.gguf"), b.data, b.size));
    free(b.data);
}

static zt_status convert(const char *to, zt_dtype type)
{
    OK(zt_folder_remove(in(to)));
    zt_status status = zt_gguf_convert(in("x.gguf"), in(to), type);
    assert_false(zt_path_exists(in("out.tmp")));
    return status;
}

/* ---- a model: every tensor holds numbers of its own, exact in bf16 ---- */
enum { WIDTH = 32, HEADS = 2, KV = 1, HEAD = 16, FF = 64, VOCAB = 8, LAYERS = 2, CONTEXT = 24 };

static float value(int which, int64_t row, int64_t col)
{
    return (float)((which * 31 + row * 7 + col * 3) % 251 - 125) / 64;
}

static void matrix(gguf_image *g, const char *name, int which, int64_t rows, int64_t cols)
{
    float x[VOCAB * WIDTH + 3 * WIDTH * FF];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            x[r * cols + c] = value(which, r, c);
    const int64_t shape[] = {rows, cols};
    const int vector = rows == 1;
    tensor(g, name, 0, vector ? 1 : 2, shape + vector, x, (size_t)(rows * cols) * 4);
}

/* As llama.cpp's converter does: reshape(heads, 2, d / 2, cols).swapaxes(1, 2), then as rows. */
static void reordered(gguf_image *g, const char *name, int which, int64_t heads, int64_t cols)
{
    float x[WIDTH * WIDTH];
    int64_t k = 0;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < HEAD / 2; i++)
            for (int64_t s = 0; s < 2; s++)
                for (int64_t c = 0; c < cols; c++)
                    x[k++] = cols == 1 ? value(which, 0, h * HEAD + s * HEAD / 2 + i)
                                       : value(which, h * HEAD + s * HEAD / 2 + i, c);
    const int64_t shape[] = {heads * HEAD, cols};
    tensor(g, name, 0, cols == 1 ? 1 : 2, shape, x, (size_t)k * 4);
}

static void turned(gguf_image *g, const char *name, int which, int64_t rows, int64_t cols)
{
    float x[3 * WIDTH * FF];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            x[c * rows + r] = value(which, r, c);
    tensor(g, name, 0, 2, (const int64_t[]){cols, rows}, x, (size_t)(rows * cols) * 4);
}

static const char *block(int l, const char *rest)
{
    static char text[64];
    (void)snprintf(text, sizeof text, "blk.%d.%s", l, rest);
    return text;
}

static void sizes(gguf_image *g, const char *arch)
{
    static const struct {
        const char *key;
        uint32_t value;
    } u32[] = {{"block_count", LAYERS},         {"embedding_length", WIDTH},
               {"feed_forward_length", FF},     {"context_length", CONTEXT},
               {"attention.head_count", HEADS}, {"attention.head_count_kv", KV}};
    char text[64];
    key_text(g, "general.architecture", arch);
    for (size_t i = 0; i < sizeof u32 / sizeof *u32; i++) {
        (void)snprintf(text, sizeof text, "%s.%s", arch, u32[i].key);
        key_u32(g, text, strcmp(arch, "gpt2") == 0 && u32[i].value == KV ? HEADS : u32[i].value);
    }
    (void)snprintf(text, sizeof text, "%s.attention.layer_norm_%sepsilon", arch,
                   strcmp(arch, "gpt2") == 0 ? "" : "rms_");
    key_f32(g, text, 1e-5f);
}

/* which = 10 * layer + n */
static gguf_image llama(const char *arch, bool biases, bool untied)
{
    gguf_image g = image_begin();
    const bool qwen = strcmp(arch, "qwen2") == 0;
    sizes(&g, arch);
    matrix(&g, "token_embd.weight", 1, VOCAB, WIDTH);
    for (int l = 0; l < LAYERS; l++) {
        const int w = 10 * (l + 1);
        matrix(&g, block(l, "attn_norm.weight"), w, 1, WIDTH);
        if (qwen) {
            matrix(&g, block(l, "attn_q.weight"), w + 1, HEADS * HEAD, WIDTH);
            matrix(&g, block(l, "attn_k.weight"), w + 2, KV * HEAD, WIDTH);
        } else {
            reordered(&g, block(l, "attn_q.weight"), w + 1, HEADS, WIDTH);
            reordered(&g, block(l, "attn_k.weight"), w + 2, KV, WIDTH);
        }
        matrix(&g, block(l, "attn_v.weight"), w + 3, KV * HEAD, WIDTH);
        if (biases && qwen)
            matrix(&g, block(l, "attn_q.bias"), w + 8, 1, HEADS * HEAD);
        else if (biases)
            reordered(&g, block(l, "attn_q.bias"), w + 8, HEADS, 1);
        matrix(&g, block(l, "attn_output.weight"), w + 4, WIDTH, WIDTH);
        matrix(&g, block(l, "ffn_norm.weight"), w + 5, 1, WIDTH);
        matrix(&g, block(l, "ffn_gate.weight"), w + 6, FF, WIDTH);
        matrix(&g, block(l, "ffn_up.weight"), w + 7, FF, WIDTH);
        matrix(&g, block(l, "ffn_down.weight"), w + 9, WIDTH, FF);
    }
    matrix(&g, "output_norm.weight", 2, 1, WIDTH);
    if (untied) matrix(&g, "output.weight", 3, VOCAB, WIDTH);
    return g;
}

static gguf_image gpt2(bool copy)
{
    gguf_image g = image_begin();
    sizes(&g, "gpt2");
    matrix(&g, "token_embd.weight", 1, VOCAB, WIDTH);
    matrix(&g, "position_embd.weight", 4, CONTEXT, WIDTH);
    for (int l = 0; l < LAYERS; l++) {
        const int w = 10 * (l + 1);
        matrix(&g, block(l, "attn_norm.weight"), w, 1, WIDTH);
        matrix(&g, block(l, "attn_norm.bias"), w + 1, 1, WIDTH);
        turned(&g, block(l, "attn_qkv.weight"), w + 2, WIDTH, 3 * WIDTH);
        matrix(&g, block(l, "attn_qkv.bias"), w + 3, 1, 3 * WIDTH);
        turned(&g, block(l, "attn_output.weight"), w + 4, WIDTH, WIDTH);
        turned(&g, block(l, "ffn_up.weight"), w + 5, WIDTH, FF);
        turned(&g, block(l, "ffn_down.weight"), w + 6, FF, WIDTH);
    }
    matrix(&g, "output_norm.weight", 2, 1, WIDTH);
    if (copy) matrix(&g, "output.weight", 1, VOCAB, WIDTH);
    return g;
}

/* The tensor holds the values of `which`, in Hugging Face's layout. */
static void holds(const zt_weights *w, const char *name, int which, zt_dtype type, int64_t rows,
                  int64_t cols)
{
    const zt_tensor *t = zt_weights_find(w, name);
    if (!t)
        fail_msg("%s is not there", name);
    else {
        assert_true(t->type == type && t->n_dims == (rows == 1 ? 1 : 2));
        assert_int_equal(t->shape[0], rows == 1 ? cols : rows);
        assert_int_equal(t->numel, rows * cols);
        for (int64_t i = 0; i < t->numel; i++)
            if (zt_load_f32(t->data, type, i) != value(which, i / cols, i % cols))
                fail_msg("%s[%lld] is wrong", name, (long long)i);
    }
}

static void config_says(const char *to, const char *key_name, const char *json)
{
    char path[300];
    json_t *config = NULL, *want = json_loads(json, JSON_DECODE_ANY, NULL);
    (void)snprintf(path, sizeof path, "%s/config.json", in(to));
    OK(zt_json_load(path, &config));
    const json_t *got = json_object_get(config, key_name);
    if (json_is_number(got) && json_is_number(want)
            ? json_number_value(got) != json_number_value(want)
            : !(got && json_equal(got, want)))
        fail_msg("%s is not %s", key_name, json);
    json_decref(config);
    json_decref(want);
}

/* ---- weights ---- */
static void llama_rows_are_put_back(void **state)
{
    (void)state;
    static const zt_dtype types[] = {ZT_F32, ZT_BF16, ZT_F16};
    static const char *const words[] = {"\"float32\"", "\"bfloat16\"", "\"float16\""};
    for (int i = 0; i < 3; i++) {
        gguf_image g = llama("llama", true, false);
        key_u32(&g, "tokenizer.ggml.bos_token_id", 1);
        key_u32(&g, "tokenizer.ggml.eos_token_id", 0xffffffffu); /* "none" */
        key_f32(&g, "llama.rope.freq_base", 500000);
        save_image(&g);
        OK(convert("out", types[i]));
        zt_weights *w;
        OK(zt_weights_open(in("out"), &w));
        assert_int_equal(zt_weights_count(w), 2 + 10 * LAYERS);
        holds(w, "model.embed_tokens.weight", 1, types[i], VOCAB, WIDTH);
        holds(w, "model.norm.weight", 2, types[i], 1, WIDTH);
        holds(w, "model.layers.0.self_attn.q_proj.weight", 11, types[i], HEADS * HEAD, WIDTH);
        holds(w, "model.layers.1.self_attn.q_proj.weight", 21, types[i], HEADS * HEAD, WIDTH);
        holds(w, "model.layers.1.self_attn.k_proj.weight", 22, types[i], KV * HEAD, WIDTH);
        holds(w, "model.layers.1.self_attn.v_proj.weight", 23, types[i], KV * HEAD, WIDTH);
        holds(w, "model.layers.0.self_attn.q_proj.bias", 18, types[i], 1, HEADS * HEAD);
        holds(w, "model.layers.0.self_attn.o_proj.weight", 14, types[i], WIDTH, WIDTH);
        holds(w, "model.layers.0.input_layernorm.weight", 10, types[i], 1, WIDTH);
        holds(w, "model.layers.0.post_attention_layernorm.weight", 15, types[i], 1, WIDTH);
        holds(w, "model.layers.1.mlp.gate_proj.weight", 26, types[i], FF, WIDTH);
        holds(w, "model.layers.1.mlp.up_proj.weight", 27, types[i], FF, WIDTH);
        holds(w, "model.layers.1.mlp.down_proj.weight", 29, types[i], WIDTH, FF);
        zt_weights_close(&w);
        config_says("out", "torch_dtype", words[i]);
    }
    config_says("out", "architectures", "[\"LlamaForCausalLM\"]");
    config_says("out", "model_type", "\"llama\"");
    config_says("out", "hidden_size", "32");
    config_says("out", "intermediate_size", "64");
    config_says("out", "num_hidden_layers", "2");
    config_says("out", "num_attention_heads", "2");
    config_says("out", "num_key_value_heads", "1");
    config_says("out", "head_dim", "16");
    config_says("out", "vocab_size", "8");
    config_says("out", "max_position_embeddings", "24");
    config_says("out", "rms_norm_eps", "1e-05"); /* and not 9.99999974738e-06 */
    config_says("out", "rope_theta", "500000");
    config_says("out", "rope_scaling", "null");
    config_says("out", "attention_bias", "true");
    config_says("out", "tie_word_embeddings", "true");
    config_says("out", "bos_token_id", "1");
    assert_false(zt_path_exists(in("out/tokenizer.json"))); /* there is no vocabulary */
    char *text;
    size_t size;
    OK(zt_file_read_all(in("out/config.json"), &text, &size));
    assert_null(strstr(text, "eos_token_id"));
    zt_free(text);
    assert_true(zt_path_exists(in("out/generation_config.json")));
}

static void qwen2_stays_as_it_is(void **state)
{
    (void)state;
    gguf_image g = llama("qwen2", true, true);
    save_image(&g);
    OK(convert("out", ZT_BF16));
    zt_weights *w;
    OK(zt_weights_open(in("out/"), &w));
    holds(w, "model.layers.0.self_attn.q_proj.weight", 11, ZT_BF16, HEADS * HEAD, WIDTH);
    holds(w, "model.layers.0.self_attn.q_proj.bias", 18, ZT_BF16, 1, HEADS * HEAD);
    holds(w, "lm_head.weight", 3, ZT_BF16, VOCAB, WIDTH);
    zt_weights_close(&w);
    config_says("out", "tie_word_embeddings", "false");
    config_says("out", "model_type", "\"qwen2\"");
}

static void gpt2_is_turned_back(void **state)
{
    (void)state;
    for (int copy = 0; copy < 2; copy++) {
        gguf_image g = gpt2(copy);
        save_image(&g);
        OK(convert("out", ZT_F32));
        zt_weights *w;
        OK(zt_weights_open(in("out"), &w));
        assert_int_equal(zt_weights_count(w),
                         3 + 7 * LAYERS); /* a copied output matrix is dropped */
        holds(w, "transformer.wte.weight", 1, ZT_F32, VOCAB, WIDTH);
        holds(w, "transformer.wpe.weight", 4, ZT_F32, CONTEXT, WIDTH);
        holds(w, "transformer.ln_f.weight", 2, ZT_F32, 1, WIDTH);
        holds(w, "transformer.h.0.ln_1.bias", 11, ZT_F32, 1, WIDTH);
        holds(w, "transformer.h.1.attn.c_attn.weight", 22, ZT_F32, WIDTH, 3 * WIDTH);
        holds(w, "transformer.h.1.attn.c_attn.bias", 23, ZT_F32, 1, 3 * WIDTH);
        holds(w, "transformer.h.0.attn.c_proj.weight", 14, ZT_F32, WIDTH, WIDTH);
        holds(w, "transformer.h.0.mlp.c_fc.weight", 15, ZT_F32, WIDTH, FF);
        holds(w, "transformer.h.0.mlp.c_proj.weight", 16, ZT_F32, FF, WIDTH);
        zt_weights_close(&w);
    }
    config_says("out", "n_embd", "32");
    config_says("out", "n_inner", "64");
    config_says("out", "n_positions", "24");
    config_says("out", "layer_norm_epsilon", "1e-05");
    config_says("out", "tie_word_embeddings", "true");
}

static void rope_scaling(void **state)
{
    (void)state;
    for (int wrong = 0; wrong < 2; wrong++) {
        gguf_image g = llama("llama", false, false);
        float x[HEAD / 2];
        for (int i = 0; i < HEAD / 2; i++) { /* the published rule: by wavelength */
            const double freq = pow(500000, -i / (HEAD / 2.0)), wave = 2 * acos(-1) / freq;
            double f = 8;
            if (wave < 8192 / 4.0)
                f = 1;
            else if (wave <= 8192) {
                const double smooth = (8192 / wave - 1) / 3;
                f = freq / ((1 - smooth) * freq / 8 + smooth * freq);
            }
            x[i] = (float)f;
        }
        x[2] += (float)wrong;
        key_f32(&g, "llama.rope.freq_base", 500000);
        tensor(&g, "rope_freqs.weight", 0, 1, (const int64_t[]){HEAD / 2}, x, sizeof x);
        save_image(&g);
        if (wrong)
            FAILS(convert("out", ZT_F32), ZT_ERR_FORMAT,
                  "rope_freqs.weight is not that of a Llama 3");
        else
            OK(convert("out", ZT_F32));
        if (!wrong)
            config_says("out", "rope_scaling",
                        "{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1.0,\"high_"
                        "freq_factor\":"
                        "4.0,\"original_max_position_embeddings\":8192}");
    }
    gguf_image g = llama("llama", false, false);
    key_text(&g, "llama.rope.scaling.type", "linear");
    key_f32(&g, "llama.rope.scaling.factor", 2.5f);
    save_image(&g);
    OK(convert("out", ZT_F32));
    config_says("out", "rope_scaling", "{\"rope_type\":\"linear\",\"factor\":2.5}");
    g = llama("llama", false, false);
    key_text(&g, "llama.rope.scaling.type", "yarn");
    save_image(&g);
    FAILS(convert("out", ZT_F32), ZT_ERR_FORMAT, "llama.rope.scaling.type = yarn is not supported");
}

static void what_cannot_be_converted(void **state)
{
    (void)state;
    static const struct {
        const char *key, *complaint;
        uint32_t value;
    } bad[] = {{"llama.expert_count", "a mixture of experts is not supported", 8},
               {"llama.rope.dimension_count", "a part of each head", 8},
               {"llama.attention.key_length", "does not fit the metadata", 8}};
    gguf_image g;
    for (int i = 0; i < 3; i++) {
        g = llama("llama", false, false);
        key_u32(&g, bad[i].key, bad[i].value);
        save_image(&g);
        FAILS(convert("out", ZT_F32), ZT_ERR_FORMAT, bad[i].complaint);
        assert_false(zt_path_exists(in("out")));
    }
    g = llama("llama", false, false);
    matrix(&g, "blk.2.attn_norm.weight", 1, 1, WIDTH);
    save_image(&g);
    FAILS(convert("out", ZT_F32), ZT_ERR_FORMAT,
          "blk.2.attn_norm.weight has no place in a llama model of 2");
    g = llama("llama", false, false);
    matrix(&g, "blk.1.attn_sinks.weight", 1, 1, WIDTH);
    save_image(&g);
    FAILS(convert("out", ZT_F32), ZT_ERR_FORMAT, "blk.1.attn_sinks.weight has no place");
    g = image_begin();
    key_text(&g, "general.architecture", "mamba");
    save_image(&g);
    FAILS(convert("out", ZT_F32), ZT_ERR_FORMAT, "the architecture mamba is not supported");
    g = image_begin();
    key_text(&g, "general.architecture", "llama");
    save_image(&g);
    FAILS(convert("out", ZT_F32), ZT_ERR_FORMAT, "llama.block_count is missing");
    FAILS(convert("out", ZT_I8), ZT_ERR_ARG, "not as int8");

    const float large[] = {1, 70000}, none[] = {NAN, 1};
    for (int i = 0; i < 2; i++) {
        g = llama("llama", false, false);
        g.data.size -= 8; /* the last tensor's end */
        put(&g.data, i ? none : large, 8);
        save_image(&g);
        FAILS(convert("out", i ? ZT_BF16 : ZT_F16), ZT_ERR_NUMERIC,
              i ? "output_norm.weight holds nan" : "too large for fp16");
        assert_false(zt_path_exists(in("out")));
    }
    g = llama("llama", false, false);
    save_image(&g);
    OK(zt_folder_make(in("there")));
    OK(zt_file_write_all(in("there/mine"), "x", 1));
    FAILS(zt_gguf_convert(in("x.gguf"), in("there"), ZT_F32), ZT_ERR_ARG, "there exists already");
    assert_true(zt_path_exists(in("there/mine")));
    OK(zt_folder_make(in("empty")));
    OK(zt_folder_make(in("empty.tmp/left/over"))); /* of a conversion that was killed */
    OK(zt_gguf_convert(in("x.gguf"), in("empty/"), ZT_F32));
    assert_true(zt_path_exists(in("empty/model.safetensors")) && !zt_path_exists(in("empty/left")));
    assert_false(zt_path_exists(in("empty.tmp")));
}

/* ---- vocabularies ---- */
static void types(gguf_image *g, const int *t, size_t n)
{
    key_array(g, "tokenizer.ggml.token_type", KIND_I32, n);
    for (size_t i = 0; i < n; i++)
        put_int(&g->entries, (uint64_t)t[i], 4);
}

static const char *const letters[] = {"a",
                                      "b",
                                      "\xC4\xA0",
                                      "1",
                                      "2",
                                      "ab",
                                      ("\xC4\xA0"
                                       "ab"),
                                      "12",
                                      "<|end|>",
                                      "user made",
                                      "[PAD10]"};
static const int letter_types[] = {1, 1, 1, 1, 1, 1, 1, 1, 3, 4, 5};
enum { N_LETTERS = sizeof letters / sizeof *letters };

static gguf_image byte_level(const char *pre)
{
    gguf_image g = image_begin();
    key_text(&g, "general.architecture", "llama");
    key_text(&g, "tokenizer.ggml.model", "gpt2");
    if (pre) key_text(&g, "tokenizer.ggml.pre", pre);
    key_texts(&g, "tokenizer.ggml.tokens", letters, N_LETTERS);
    types(&g, letter_types, N_LETTERS);
    key_texts(&g, "tokenizer.ggml.merges", (const char *const[]){"a b", "\xC4\xA0 ab", "1 2"}, 3);
    key_u32(&g, "tokenizer.ggml.bos_token_id", 8);
    key_u32(&g, "tokenizer.ggml.eos_token_id", 8);
    key_u32(&g, "tokenizer.ggml.padding_token_id", 10); /* unused: not a token */
    return g;
}

/* The ids of the text under the file's tokenizer. */
static void encodes(gguf_image *g, const char *text, bool special, const int32_t *want, size_t n)
{
    bytes b = image_end(g);
    zt_gguf *file;
    json_t *json, *config;
    OK(zt_gguf_parse(b.data, b.size, "image", &file));
    OK(zt_gguf_tokenizer(file, &json, &config));
    char *dump = json_dumps(json, 0);
    zt_tokenizer *tok;
    zt_encoder *enc;
    zt_ids ids = {0};
    OK(zt_tokenizer_parse(dump, strlen(dump), "made", &tok));
    OK(zt_encoder_create(tok, &enc));
    OK(zt_encode(enc, text, strlen(text), special, &ids));
    assert_int_equal(ids.count, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(ids.data[i], want[i]);
    zt_ids_free(&ids);
    zt_encoder_free(&enc);
    zt_tokenizer_free(&tok);
    free(dump);
    json_decref(json);
    json_decref(config);
    zt_gguf_close(&file);
    free(b.data);
}

static void byte_level_vocabularies(void **state)
{
    (void)state;
    zt_log_setup(ZT_LOG_ERROR, 0); /* "default" warns */
    static const struct {
        const char *pre;
        bool bos;    /* unless the file says otherwise */
        bool digits; /* each alone */
    } styles[] = {{"gpt-2", false, false}, {"default", false, false}, {NULL, false, false},
                  {"smollm", false, true}, {"qwen2", false, true},    {"llama-bpe", true, false}};
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++) {
        const int32_t together[] = {8, 5, 6, 7, 8, 9, 0}, apart[] = {8, 5, 6, 3, 4, 8, 9, 0};
        gguf_image g = byte_level(styles[i].pre);
        encodes(&g, "ab ab12<|end|>user madea", true,
                (styles[i].digits ? apart : together) + !styles[i].bos,
                (styles[i].digits ? 8u : 7u) - !styles[i].bos);
    }
    gguf_image g = byte_level("llama-bpe"); /* the file's own word counts */
    key_int(&g, "tokenizer.ggml.add_bos_token", KIND_BOOL, 0, 1);
    key_int(&g, "tokenizer.ggml.add_eos_token", KIND_BOOL, 1, 1);
    encodes(&g, "a", true, (const int32_t[]){0, 8}, 2);
    zt_log_setup(ZT_LOG_INFO, 0);
}

/* SentencePiece: merges out of scores, best first; of equal ones the longest left part first. */
static gguf_image pieces(bool prefix)
{
    static const char *const tokens[] = {"<unk>",
                                         "<s>",
                                         "</s>",
                                         "<0x41>",
                                         "<0xC3>",
                                         "<0xA9>",
                                         "\xE2\x96\x81",
                                         "a",
                                         "b",
                                         "ab",
                                         ("\xE2\x96\x81"
                                          "a"),
                                         ("\xE2\x96\x81"
                                          "ab"),
                                         "aba"};
    static const int kinds[] = {2, 3, 3, 6, 6, 6, 1, 1, 1, 1, 1, 1, 1};
    static const float scores[] = {0, 0, 0, 0, 0, 0, -9, -9, -9, -1, -2, -3, -1};
    const size_t n = sizeof tokens / sizeof *tokens;
    gguf_image g = image_begin();
    key_text(&g, "general.architecture", "llama");
    key_text(&g, "tokenizer.ggml.model", "llama");
    key_texts(&g, "tokenizer.ggml.tokens", tokens, n);
    types(&g, kinds, n);
    key_array(&g, "tokenizer.ggml.scores", KIND_F32, n);
    put(&g.entries, scores, sizeof scores);
    key_u32(&g, "tokenizer.ggml.bos_token_id", 1);
    key_u32(&g, "tokenizer.ggml.eos_token_id", 2);
    key_u32(&g, "tokenizer.ggml.unknown_token_id", 0);
    if (!prefix) key_int(&g, "tokenizer.ggml.add_space_prefix", KIND_BOOL, 0, 1);
    return g;
}

static void sentence_pieces(void **state)
{
    (void)state;
    gguf_image g = pieces(true);
    bytes b = image_end(&g);
    zt_gguf *file;
    json_t *json, *config;
    OK(zt_gguf_parse(b.data, b.size, "image", &file));
    OK(zt_gguf_tokenizer(file, &json, &config));
    /* score -1: aba = ab + a (left of two), ab = a + b; -2: _a; -3: _ab = _a + b, _ + ab */
    const json_t *merges = json_object_get(json_object_get(json, "model"), "merges");
    static const char *const want[] = {"ab a", "a b", "\xE2\x96\x81 a",
                                       ("\xE2\x96\x81"
                                        "a b"),
                                       "\xE2\x96\x81 ab"};
    assert_int_equal(json_array_size(merges), 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(json_string_value(json_array_get(merges, i)), want[i]);
    assert_int_equal(json_array_size(json_object_get(json, "added_tokens")), 3);
    assert_string_equal(json_string_value(json_object_get(config, "eos_token")), "</s>");
    assert_string_equal(json_string_value(json_object_get(config, "unk_token")), "<unk>");
    json_decref(json);
    json_decref(config);
    zt_gguf_close(&file);
    free(b.data);
    g = pieces(true);
    encodes(&g, "ab A\xC3\xA9", true, (const int32_t[]){1, 11, 6, 3, 4, 5}, 6);
    g = pieces(false);
    encodes(&g, "ab a</s>", false, (const int32_t[]){9, 10, 2}, 3);
}

static void vocabulary_refused(gguf_image *g, const char *complaint)
{
    bytes b = image_end(g);
    zt_gguf *file;
    json_t *json = NULL, *config = NULL;
    OK(zt_gguf_parse(b.data, b.size, "image", &file));
    FAILS(zt_gguf_tokenizer(file, &json, &config), ZT_ERR_FORMAT, complaint);
    assert_true(!json && !config);
    zt_gguf_close(&file);
    free(b.data);
}

static void false_vocabularies(void **state)
{
    (void)state;
    gguf_image g = byte_level("who-knows");
    vocabulary_refused(&g, "the pre-tokenizer who-knows is not supported");
    g = image_begin();
    key_text(&g, "tokenizer.ggml.model", "t5");
    vocabulary_refused(&g, "the tokenizer t5 is not supported");
    static const char *const odd[][2] = {{"a", "a"}, {"a", "\xff"}, {"a", ""}};
    static const char *const complaints[] = {"a token is there twice", "no UTF-8", "is empty"};
    for (int i = 0; i < 3; i++) {
        g = image_begin();
        key_text(&g, "tokenizer.ggml.model", "gpt2");
        key_text(&g, "tokenizer.ggml.pre", "gpt-2");
        key_texts(&g, "tokenizer.ggml.tokens", odd[i], 2);
        key_texts(&g, "tokenizer.ggml.merges", odd[0], 1);
        vocabulary_refused(&g, complaints[i]);
    }
    g = image_begin();
    key_text(&g, "tokenizer.ggml.model", "gpt2");
    key_texts(&g, "tokenizer.ggml.tokens", odd[0], 1);
    vocabulary_refused(&g, "there are no merges");
    g = image_begin();
    key_text(&g, "tokenizer.ggml.model", "gpt2");
    key_texts(&g, "tokenizer.ggml.tokens", odd[0], 1);
    key_texts(&g, "tokenizer.ggml.merges", odd[0], 1);
    types(&g, letter_types, 2);
    vocabulary_refused(&g, "differ in number");
}

/* ---- every call fails once ---- */
static gguf_image whole_model(void)
{
    gguf_image g = llama("llama", false, false);
    gguf_image v = byte_level("llama-bpe"), p = {0};
    const char *const skip = "general.architecture"; /* the first entry of both */
    const size_t first = 8 + strlen(skip) + 4 + 8 + strlen("llama");
    p = v;
    put(&g.entries, v.entries.data + first, v.entries.size - first);
    g.n_entries += v.n_entries - 1;
    free(p.entries.data);
    return g;
}

/* The JSON library's own allocations are not counted: some of its failures end in a crash. */
static void every_call_fails_once(void **state)
{
    (void)state;
    gguf_image g = whole_model();
    save_image(&g);
    for (int io = 0; io < 2; io++) {
        void (*const arm)(int64_t) = io ? zt_fault_io : zt_fault_alloc;
        int64_t n = 1;
        for (;; n++) {
            OK(zt_folder_remove(in("out")));
            arm(n);
            zt_status status = zt_gguf_convert(in("x.gguf"), in("out"), ZT_BF16);
            arm(-1);
            assert_false(zt_path_exists(in("out.tmp")));
            if (status == ZT_OK) break;
            if (status != (io ? ZT_ERR_IO : ZT_ERR_NOMEM))
                fail_msg("operation %lld: %s: %s", (long long)n, zt_status_text(status),
                         zt_error_message());
            if (zt_path_exists(in("out"))) { /* only the last sync failed: it is whole */
                zt_weights *w;
                OK(zt_weights_open(in("out"), &w));
                zt_weights_close(&w);
                assert_true(io && zt_path_exists(in("out/tokenizer.json")));
            }
        }
        assert_true(n > (io ? 25 : 50));
        zt_tokenizer *tok;
        OK(zt_tokenizer_load(in("out"), &tok));
        assert_int_equal(zt_tokenizer_bos(tok), 8);
        zt_tokenizer_free(&tok);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_rows_are_put_back),  cmocka_unit_test(qwen2_stays_as_it_is),
        cmocka_unit_test(gpt2_is_turned_back),      cmocka_unit_test(rope_scaling),
        cmocka_unit_test(what_cannot_be_converted), cmocka_unit_test(byte_level_vocabularies),
        cmocka_unit_test(sentence_pieces),          cmocka_unit_test(false_vocabularies),
        cmocka_unit_test(every_call_fails_once),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
