/* generate.c - prompt in pieces, then one token at a time. */
#include "train/generate.h"
#include "base/file.h"

#include <math.h>
#include <stdlib.h>

enum { PIECE = 64 }; /* tokens of the prompt at a time */

/* ---- sampling ---- */
static _Thread_local const float *sorted_by;

static int by_logit(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    if (sorted_by[x] != sorted_by[y]) return sorted_by[x] > sorted_by[y] ? -1 : 1;
    return x < y ? -1 : 1;
}

int32_t zt_sample(const float *logits, int32_t n, const zt_generate_opt *o, uint64_t draw,
                  int32_t *order)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    if (o->temperature <= 0 || o->top_k == 1) return best;
    for (int32_t i = 0; i < n; i++)
        order[i] = i;
    sorted_by = logits;
    qsort(order, (size_t)n, sizeof *order, by_logit);
    int64_t keep = o->top_k > 0 && o->top_k < n ? o->top_k : n;
    double sum = 0;
    for (int64_t i = 0; i < keep; i++)
        sum += exp(((double)logits[order[i]] - (double)logits[best]) / o->temperature);
    double bar = sum * (o->top_p < 1 ? o->top_p : 1), all = 0;
    for (int64_t i = 0; i < keep; i++) {
        all += exp(((double)logits[order[i]] - (double)logits[best]) / o->temperature);
        if (all >= bar) keep = i + 1;
    }
    zt_rng r = zt_rng_make(o->seed, ZT_RNG_SAMPLE, 0, 0);
    double x = ((double)zt_rng_u32(&r, draw) + 0.5) * 0x1p-32 * all;
    for (int64_t i = 0; i < keep; i++) {
        x -= exp(((double)logits[order[i]] - (double)logits[best]) / o->temperature);
        if (x <= 0) return order[i];
    }
    return order[keep - 1];
}

/* ---- running ---- */
typedef struct {
    zt_session s;
    int prefill, single; /* passes */
    zt_ids ids;          /* prompt and what came after */
    zt_ids ends;         /* tokens that end it */
    size_t prompt, printed;
    void *logits;
    float *wide;
    int32_t *order;
    int64_t most, room, cached; /* tokens */
} talk;

static zt_status feed(talk *t, int64_t n, int pass)
{
    ZT_TRY(zt_engine_logits(t->s.engine, pass, t->ids.data + t->cached, t->cached, t->logits));
    t->cached += n;
    return ZT_OK;
}

static zt_status passes(talk *t)
{
    zt_engine_opt o = {.stage = (int)t->s.config->stage,
                       .type = zt_config_type(t->s.config),
                       .n_micro = 1,
                       .prefetch_numel = t->s.config->prefetch,
                       .persist_numel = t->s.config->persistence,
                       .positions = t->room};
    ZT_TRY(zt_engine_create(t->s.graph, &o, zt_comm_size(t->s.comm), zt_comm_rank(t->s.comm),
                            &t->s.dev, &t->s.engine));
    zt_program_opt p = {.goal = ZT_GOAL_LOGITS, .B = 1, .T = 1, .cache_room = t->room};
    ZT_TRY(zt_engine_add_pass(t->s.engine, &p, &t->single));
    p.T = PIECE;
    return zt_engine_add_pass(t->s.engine, &p, &t->prefill);
}

static zt_status read_prompt(talk *t, const zt_generate_opt *o)
{
    if (!t->s.tokenizer)
        return ZT_FAIL(ZT_ERR_CONFIG, "%s has no tokenizer.json; give one with tokenizer=PATH",
                       t->s.config->model);
    zt_encoder *enc;
    ZT_TRY(zt_encoder_create(t->s.tokenizer, &enc));
    zt_status status = zt_encode(enc, o->prompt, strlen(o->prompt), true, &t->ids);
    zt_encoder_free(&enc);
    ZT_TRY(status);
    t->prompt = t->ids.count;
    const int32_t bos = zt_tokenizer_bos(t->s.tokenizer), eos = zt_tokenizer_eos(t->s.tokenizer);
    for (size_t i = 0; i < t->prompt; i++)
        if (t->ids.data[i] >= t->s.model.vocab)
            return ZT_FAIL(ZT_ERR_CONFIG, "the prompt has the token id %d, but the vocabulary %lld",
                           t->ids.data[i], (long long)t->s.model.vocab);
    const int64_t left = t->s.model.max_positions - (int64_t)t->prompt - 1;
    t->most = o->max_new_tokens > 0 ? o->max_new_tokens : left < 1 ? 1 : left < 100 ? left : 100;
    t->room = (int64_t)t->prompt + 1 + t->most;
    if (t->room > t->s.model.max_positions)
        return ZT_FAIL(ZT_ERR_CONFIG,
                       "%zu tokens of prompt and %lld new ones are more than the model's %lld "
                       "positions",
                       t->prompt, (long long)t->most, (long long)t->s.model.max_positions);
    int32_t *more = zt_realloc(t->ids.data, (size_t)t->room * sizeof *more);
    if (!more) return ZT_NOMEM();
    t->ids.data = more;
    t->ids.room = (size_t)t->room;
    if (t->prompt == 0) { /* something must come first */
        t->ids.data[t->ids.count++] = bos >= 0 ? bos : eos >= 0 && eos < t->s.model.vocab ? eos : 0;
        t->prompt = 1;
    }
    return ZT_OK;
}

/* Adds the ids of "eos_token_id": one or a list. */
static zt_status add_ends(talk *t, const json_t *from, const char *origin)
{
    const json_t *v = json_object_get(from, "eos_token_id");
    const bool list = json_is_array(v);
    const size_t n = list ? json_array_size(v) : v && !json_is_null(v);
    for (size_t i = 0; i < n; i++) {
        const json_t *id = list ? json_array_get(v, i) : v;
        if (!json_is_integer(id))
            return ZT_FAIL(ZT_ERR_FORMAT,
                           "%s: eos_token_id should be the id of a token, a list of ids, or null",
                           origin);
        ZT_TRY(zt_ids_add(&t->ends, (int32_t)json_integer_value(id)));
    }
    return ZT_OK;
}

/* Any end that the tokenizer, config.json or generation_config.json names ends the text. */
static zt_status find_ends(talk *t)
{
    char *path = zt_path_join(t->s.config->model, "generation_config.json");
    json_t *j = NULL;
    zt_status status = !path ? ZT_NOMEM() : zt_path_exists(path) ? zt_json_load(path, &j) : ZT_OK;
    if (status == ZT_OK) status = zt_ids_add(&t->ends, zt_tokenizer_eos(t->s.tokenizer));
    if (status == ZT_OK) status = add_ends(t, t->s.model.source, "config.json");
    if (status == ZT_OK && j && !json_is_object(j))
        status = ZT_FAIL(ZT_ERR_FORMAT, "%s should be an object", path);
    if (status == ZT_OK) status = add_ends(t, j, path);
    json_decref(j);
    zt_free(path);
    return status;
}

static bool is_end(const talk *t, int32_t id)
{
    for (size_t i = 0; i < t->ends.count; i++)
        if (t->ends.data[i] == id) return true;
    return false;
}

/* Prints what is complete: a character may need several tokens. */
static zt_status say(talk *t, const zt_generate_opt *o, bool last, zt_text_fn *fn, void *arg)
{
    char *text;
    size_t size;
    const size_t from = o->echo ? 0 : t->prompt;
    ZT_TRY(zt_decode(t->s.tokenizer, t->ids.data + from, t->ids.count - from, true, &text, &size));
    const bool open = size >= 3 && memcmp(text + size - 3, "\xEF\xBF\xBD", 3) == 0 && !last;
    if (!open && size > t->printed) {
        if (zt_comm_rank(t->s.comm) == 0) fn(arg, text + t->printed);
        t->printed = size;
    }
    zt_free(text);
    return ZT_OK;
}

static zt_status speak(talk *t, const zt_generate_opt *o, zt_text_fn *fn, void *arg)
{
    const int32_t V = (int32_t)t->s.model.vocab;
    while ((int64_t)t->ids.count - t->cached > PIECE)
        ZT_TRY(feed(t, PIECE, t->prefill));
    for (int64_t i = 0; i < t->most; i++) {
        int64_t stop = zt_stop_requested;
        ZT_TRY(zt_all_reduce_max_i64(t->s.comm, &stop, 1)); /* all leave at the same token */
        if (stop) break;
        while (t->cached < (int64_t)t->ids.count)
            ZT_TRY(feed(t, 1, t->single));
        for (int32_t k = 0; k < V; k++)
            t->wide[k] = zt_load_f32(t->logits, t->s.engine->opt.type, k);
        int32_t next = zt_sample(t->wide, V, o, (uint64_t)i, t->order);
        if (is_end(t, next)) break;
        t->ids.data[t->ids.count++] = next;
        if (next < zt_tokenizer_vocab(t->s.tokenizer)) ZT_TRY(say(t, o, false, fn, arg));
    }
    return say(t, o, true, fn, arg);
}

static zt_status run(talk *t, const zt_generate_opt *o, zt_text_fn *fn, void *arg)
{
    zt_comm *comm = t->s.comm;
    ZT_TRY(zt_session_tokenizer(&t->s));
    ZT_TRY(zt_comm_agree(comm, read_prompt(t, o)));
    ZT_TRY(zt_comm_agree(comm, find_ends(t)));
    ZT_TRY(zt_comm_agree(comm, passes(t)));
    ZT_TRY(zt_session_weights(&t->s));
    const size_t V = (size_t)t->s.model.vocab;
    t->logits = zt_malloc_aligned(V * 4);
    t->wide = zt_malloc(V * sizeof *t->wide);
    t->order = zt_malloc(V * sizeof *t->order);
    ZT_TRY(zt_comm_agree(comm, t->logits && t->wide && t->order ? ZT_OK : ZT_NOMEM()));
    return speak(t, o, fn, arg);
}

zt_status zt_generate(zt_comm *comm, zt_config *config, const zt_generate_opt *o, zt_text_fn *fn,
                      void *arg)
{
    talk t = {0};
    zt_status status = zt_session_start(comm, config, &t.s);
    if (status == ZT_OK) status = run(&t, o, fn, arg);
    zt_free(t.logits);
    zt_free(t.wide);
    zt_free(t.order);
    zt_ids_free(&t.ids);
    zt_ids_free(&t.ends);
    zt_session_stop(&t.s);
    return status;
}
