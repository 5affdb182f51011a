/* run.c - train, eval, generate: the commands that compute. */
#include "base/file.h"
#include "cli/cli.h"
#include "train/generate.h"
#include "train/session.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

zt_status zt_cli_train(zt_comm *comm, int argc, char **argv)
{
    const zt_command_line line = {
        .usage = "train CONFIG.json [key=value ...]", .least = 1, .most = 1, .overrides = ""};
    zt_args a;
    zt_config *c = NULL;
    ZT_TRY(zt_args_parse(comm, argc, argv, &line, &a));
    zt_status status = zt_config_load(a.rest[0], a.n_overrides, a.overrides, &c);
    status = zt_comm_agree(comm, status);
    if (status == ZT_OK) status = zt_train(comm, c);
    zt_config_free(&c);
    zt_args_free(&a);
    return status;
}

static zt_status evaluate(zt_comm *comm, zt_config *c)
{
    zt_session s;
    double loss = 0;
    int64_t targets = 0;
    ZT_TRY(zt_comm_agree(comm, zt_config_batch(c, zt_comm_size(comm))));
    zt_status status = zt_session_start(comm, c, &s);
    if (status == ZT_OK) status = zt_session_data(&s, false);
    if (status == ZT_OK)
        status =
            zt_comm_agree(comm, zt_session_plan(&s, zt_comm_size(comm), zt_comm_rank(comm), false));
    if (status == ZT_OK) status = zt_session_weights(&s);
    if (status == ZT_OK)
        zt_log(ZT_LOG_INFO, "model %s, %s", c->model, zt_dtype_name(zt_config_type(c)));
    if (status == ZT_OK) status = zt_session_evaluate(&s, c->eval_max_samples, &loss, &targets);
    if (status == ZT_OK)
        zt_log(ZT_LOG_INFO, "loss %.6f  perplexity %.4f  over %lld tokens", loss, exp(loss),
               (long long)targets);
    zt_session_stop(&s);
    return status;
}

zt_status zt_cli_eval(zt_comm *comm, int argc, char **argv)
{
    const zt_command_line line = {
        .usage = "eval MODEL FILE... [key=value ...]",
        .least = 2,
        .most = INT_MAX,
        .overrides = "data.sequence_length|data.packing|data.isolate_documents|data.format|"
                     "data.text_field|data.separator|data.cache_dir|tokenizer|eval_max_samples|"
                     "train_micro_batch_size_per_gpu|bf16|fp16|"
                     "zero_optimization|kernels|threads|timeout"};
    zt_args a;
    zt_config *c = NULL;
    ZT_TRY(zt_args_parse(comm, argc, argv, &line, &a));
    zt_status status = zt_cli_model_config(a.rest[0], &a, &c);
    for (int i = 1; i < a.n_rest && c && status == ZT_OK; i++) {
        char **more = zt_realloc(c->validation.items, (size_t)(c->validation.n + 1) * sizeof *more);
        char *copy = zt_strdup(a.rest[i]);
        if (more) c->validation.items = more;
        if (!more || !copy) {
            zt_free(copy);
            status = ZT_NOMEM();
        } else {
            more[c->validation.n++] = copy;
        }
    }
    status = zt_comm_agree(comm, status);
    if (status == ZT_OK && c) status = evaluate(comm, c);
    zt_config_free(&c);
    zt_args_free(&a);
    return status;
}

static void print_text(void *arg, const char *text)
{
    (void)arg;
    (void)fputs(text, stdout);
    (void)fflush(stdout);
}

zt_status zt_cli_generate(zt_comm *comm, int argc, char **argv)
{
    enum { PROMPT, TOKENS, TEMPERATURE, TOP_K, TOP_P, SEED, FLAGS };
    zt_flag f[FLAGS] = {{"prompt", ""},  {"max-new-tokens", NULL}, {"temperature", NULL},
                        {"top-k", NULL}, {"top-p", NULL},          {"seed", NULL}};
    zt_args a;
    zt_config *c = NULL;
    const zt_command_line line = {
        .usage = "generate MODEL --prompt TEXT [options]; see zeroth generate --help",
        .flags = f,
        .n_flags = FLAGS,
        .least = 1,
        .most = 1,
        .overrides = "tokenizer|bf16|fp16|zero_optimization|kernels|threads|timeout"};
    double temperature = 0, top_p = 1;
    int64_t tokens = 0, top_k = 0, seed = 0;
    ZT_TRY(zt_args_parse(comm, argc, argv, &line, &a));
    zt_status status = zt_flag_whole(&f[TOKENS], 1, 10000000, &tokens);
    if (status == ZT_OK) status = zt_flag_real(&f[TEMPERATURE], 0, 1e3, &temperature);
    if (status == ZT_OK) status = zt_flag_whole(&f[TOP_K], 0, 10000000, &top_k);
    if (status == ZT_OK) status = zt_flag_real(&f[TOP_P], 1e-9, 1, &top_p);
    if (status == ZT_OK) status = zt_flag_whole(&f[SEED], 0, INT64_MAX, &seed);
    if (status == ZT_OK) status = zt_cli_model_config(a.rest[0], &a, &c);
    if (status == ZT_OK && (f[TOP_K].value || f[TOP_P].value) && !f[TEMPERATURE].value)
        temperature = 1;
    status = zt_comm_agree(comm, status);
    if (status == ZT_OK && c) {
        c->sequence_length = 2; /* nothing here has a fixed length */
        zt_generate_opt o = {.prompt = f[PROMPT].value,
                             .max_new_tokens = tokens,
                             .temperature = temperature,
                             .top_k = top_k,
                             .top_p = top_p,
                             .seed = (uint64_t)seed,
                             .echo = true};
        status = zt_generate(comm, c, &o, print_text, NULL);
        if (status == ZT_OK && zt_comm_rank(comm) == 0) (void)puts("");
    }
    zt_config_free(&c);
    zt_args_free(&a);
    return status;
}
