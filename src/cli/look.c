/* look.c - inspect and info: the commands that only show. */
#include "base/file.h"
#include "cli/cli.h"
#include "data/internal.h"
#include "io/gguf.h"
#include "io/safetensors.h"
#include "train/session.h"

#include <stdio.h>

static void print_tensor(const char *name, const char *type, const zt_tensor *t)
{
    (void)printf("  %-60s %-5s [", name, type);
    for (int d = 0; d < t->n_dims; d++)
        (void)printf("%s%lld", d ? ", " : "", (long long)t->shape[d]);
    (void)puts("]");
}

static zt_status show_weights(const char *path)
{
    zt_weights *w;
    ZT_TRY(zt_weights_open(path, &w));
    int64_t numel = 0;
    size_t bytes = 0;
    for (int i = 0; i < zt_weights_count(w); i++) {
        const zt_tensor *t = zt_weights_at(w, i);
        print_tensor(t->name, zt_tensor_dtype_name(t->type), t);
        numel += t->numel;
        bytes += t->bytes;
    }
    (void)printf("%d tensors, %lld elements, %.1f MiB\n", zt_weights_count(w), (long long)numel,
                 (double)bytes / 0x1p20);
    zt_weights_close(&w);
    return ZT_OK;
}

static zt_status show_state(const char *folder)
{
    char *path = zt_path_join(folder, "trainer_state.json");
    if (!path) return ZT_NOMEM();
    json_t *j = NULL;
    zt_status status = zt_path_exists(path) ? zt_json_load(path, &j) : ZT_OK;
    const char *optimizer = json_string_value(json_object_get(j, "optimizer"));
    if (j && (!optimizer || !json_is_integer(json_object_get(j, "global_step"))))
        status = ZT_FAIL(ZT_ERR_FORMAT,
                         "%s is no state of a run: global_step or optimizer is missing", path);
    else if (j)
        (void)printf("checkpoint at step %lld after %lld samples and %lld tokens, optimizer %s, "
                     "saved by %lld "
                     "ranks\n",
                     (long long)json_integer_value(json_object_get(j, "global_step")),
                     (long long)json_integer_value(json_object_get(j, "samples_seen")),
                     (long long)json_integer_value(json_object_get(j, "num_input_tokens_seen")),
                     optimizer, (long long)json_integer_value(json_object_get(j, "ranks")));
    json_decref(j);
    zt_free(path);
    return status;
}

static zt_status show_model(const char *folder)
{
    zt_model_config c;
    ZT_TRY(zt_model_config_load(folder, &c));
    (void)printf(
        "%s: %lld layers, width %lld, %lld heads (%lld key/value) of %lld, hidden %lld, vocabulary "
        "%lld, %lld positions, %s head\n",
        c.model_type, (long long)c.layers, (long long)c.width, (long long)c.heads,
        (long long)c.kv_heads, (long long)c.head_dim, (long long)c.ff, (long long)c.vocab,
        (long long)c.max_positions, c.tied ? "tied" : "own");
    zt_graph *g = NULL;
    zt_status status = zt_model_build(&c, &g);
    if (status == ZT_OK) (void)printf("%lld parameters\n", (long long)zt_graph_numel(g, false));
    zt_graph_destroy(&g);
    zt_model_config_deinit(&c);
    ZT_TRY(status);
    ZT_TRY(show_state(folder));
    char *tokenizer = zt_path_join(folder, "tokenizer.json");
    zt_tokenizer *t = NULL;
    status = !tokenizer                  ? ZT_NOMEM()
             : zt_path_exists(tokenizer) ? zt_tokenizer_load(tokenizer, &t)
                                         : ZT_OK;
    if (t)
        (void)printf("tokenizer: %s, begin %d, end %d\n", zt_tokenizer_describe(t),
                     zt_tokenizer_bos(t), zt_tokenizer_eos(t));
    zt_tokenizer_free(&t);
    zt_free(tokenizer);
    return status;
}

static zt_status show_gguf(const char *path)
{
    zt_gguf *g;
    ZT_TRY(zt_gguf_open(path, &g));
    const char *architecture = "?", *name = "";
    zt_status status = zt_gguf_get_str(g, "general.architecture", &architecture);
    if (status == ZT_OK) status = zt_gguf_get_str(g, "general.name", &name);
    int64_t numel = 0;
    size_t bytes = 0;
    for (int i = 0; status == ZT_OK && i < zt_gguf_count(g); i++) {
        const zt_gguf_tensor *t = zt_gguf_at(g, i);
        zt_tensor as = {.n_dims = t->n_dims};
        for (int d = 0; d < t->n_dims; d++)
            as.shape[d] = t->shape[d];
        print_tensor(t->name, t->format->name, &as);
        numel += t->numel;
        bytes += t->bytes;
    }
    if (status == ZT_OK)
        (void)printf("GGUF, %s%s%s: %d tensors, %lld elements, %.1f MiB; zeroth convert makes a "
                     "model folder of it\n",
                     architecture, *name ? ", " : "", name, zt_gguf_count(g), (long long)numel,
                     (double)bytes / 0x1p20);
    zt_gguf_close(&g);
    return status;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static zt_status show_tokens(const char *path)
{
    zt_map map;
    zt_tokens t;
    int32_t magic = 0;
    ZT_TRY(zt_map_open(path, &map));
    if (map.size >= 4) memcpy(&magic, map.data, 4);
    const bool bin = magic == 20240520 || magic == 20240801;
    zt_status status =
        zt_tokens_parse(map.data, map.size, bin ? ZT_SOURCE_BIN : ZT_SOURCE_UINT16, path, &t);
    int32_t top = 0;
    for (int64_t i = 0; status == ZT_OK && i < t.n; i++)
        top = zt_token_at(&t, i) > top ? zt_token_at(&t, i) : top;
    if (status == ZT_OK) {
        (void)printf("%s: %lld tokens of %d bytes, largest id %d; first:",
                     bin ? "token shard" : "no header of a token shard; read as bare uint16 tokens",
                     (long long)t.n, t.width, top);
        for (int64_t i = 0; i < t.n && i < 16; i++)
            (void)printf(" %d", zt_token_at(&t, i));
        (void)puts("");
    }
    zt_map_close(&map);
    return status;
}

static zt_status show_cache(const char *path)
{
    zt_map map;
    zt_cache c;
    uint64_t key = 0;
    ZT_TRY(zt_map_open(path, &map));
    if (map.size >= 16) memcpy(&key, map.data + 8, 8);
    zt_status status = zt_cache_parse(map.data, map.size, key, path, &c);
    if (status == ZT_OK)
        (void)printf("token cache: %lld documents, %lld tokens of %d bytes\n",
                     (long long)c.n_documents, (long long)c.tokens.n, c.tokens.width);
    zt_map_close(&map);
    return status;
}

static zt_status inspect(const char *path)
{
    if (!zt_path_exists(path)) return ZT_FAIL(ZT_ERR_IO, "%s: no such file or folder", path);
    if (zt_path_is_folder(path)) {
        char *model;
        ZT_TRY(zt_cli_model_path(path, &model));
        (void)printf("%s\n", model);
        zt_status status = show_model(model);
        if (status == ZT_OK) status = show_weights(model);
        zt_free(model);
        return status;
    }
    if (ends_with(path, ".safetensors")) return show_weights(path);
    if (ends_with(path, ".gguf")) return show_gguf(path);
    if (ends_with(path, ".tokens")) return show_cache(path);
    if (ends_with(path, ".bin")) return show_tokens(path);
    return ZT_FAIL(ZT_ERR_ARG, "%s is no model folder, .safetensors, .gguf, .bin or .tokens file",
                   path);
}

zt_status zt_cli_inspect(zt_comm *comm, int argc, char **argv)
{
    const zt_command_line line = {.usage = "inspect PATH", .least = 1, .most = 1};
    zt_args a;
    ZT_TRY(zt_args_parse(comm, argc, argv, &line, &a));
    zt_status status = zt_comm_rank(comm) == 0 ? inspect(a.rest[0]) : ZT_OK;
    zt_args_free(&a);
    return zt_comm_agree(comm, status);
}

zt_status zt_cli_info(zt_comm *comm, int argc, char **argv)
{
    zt_flag f = {"format", NULL};
    const zt_command_line line = {
        .usage = "info [--format text|markdown]", .flags = &f, .n_flags = 1};
    zt_args a;
    ZT_TRY(zt_args_parse(comm, argc, argv, &line, &a));
    zt_args_free(&a);
    const bool markdown = f.value && strcmp(f.value, "markdown") == 0;
    if (f.value && !markdown && strcmp(f.value, "text") != 0)
        return zt_comm_agree(
            comm, ZT_FAIL(ZT_ERR_ARG, "--format %s: there are text and markdown", f.value));
    if (zt_comm_rank(comm) != 0) return ZT_OK;
    if (markdown) {
        (void)puts("# Configuration\n\nOne JSON file; comments and trailing commas are accepted. "
                   "Paths are relative to the working "
                   "directory. null and \"auto\"\n(where it is not a value of its own) leave an "
                   "option at its default. "
                   "Any option can be "
                   "overridden on the\ncommand line by `key=value`. This page is printed by "
                   "`zeroth info --format "
                   "markdown`.");
        zt_config_write_docs(stdout, true);
        return ZT_OK;
    }
    const zt_cpu *cpu = zt_cpu_features();
    const zt_kernels *k;
    ZT_TRY(zt_kernels_cpu(NULL, &k));
    (void)printf("zeroth %s\n", ZT_VERSION);
    (void)printf("CPU: %s, %d cores;%s%s%s%s%s%s%s\n", cpu->brand, zt_cpu_count(),
                 cpu->avx2 ? " AVX2" : "", cpu->fma ? " FMA" : "", cpu->f16c ? " F16C" : "",
                 cpu->avx512 ? " AVX-512" : "", cpu->avx512_bf16 ? " AVX512-BF16" : "",
                 cpu->avx512_fp16 ? " AVX512-FP16" : "", cpu->amx_bf16 ? " AMX-BF16" : "");
    (void)printf("kernels: %s; products: %s\n", k->name, zt_kernels_products());
    (void)printf("ranks: %d, hosts: %d, %s\n", zt_comm_size(comm), zt_comm_nodes(comm),
                 zt_comm_transport(comm));
    (void)printf("\nOptions of a configuration (key, default, meaning):\n");
    zt_config_write_docs(stdout, false);
    return ZT_OK;
}
