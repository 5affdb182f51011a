/* cache.c - tokenising once, by all ranks together, into a file that is mapped afterwards. */
#include "data/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[8] = "ZTTOK03";
typedef struct {
    char magic[8];
    uint64_t key, n_tokens, n_documents, width, sum;
    uint64_t unused[2];
} header;

/* The checksum is the sum of these over all starts of documents and, with ~i, over all tokens: ranks can
 * take parts of it. */
static uint64_t mixed(uint64_t i, uint64_t value)
{
    uint64_t x = (value + 1) * 0x9E3779B97F4A7C15u ^ i * 0xD6E8FEB86659FD93u;
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    return x ^ x >> 32;
}

static uint64_t sum_of(const zt_cache *c, int part, int parts)
{
    uint64_t sum = 0;
    int64_t from, to;
    zt_split(c->n_documents + 1, 1, part, parts, &from, &to);
    for (int64_t i = from; i < to; i++)
        sum += mixed((uint64_t)i, c->documents[i]);
    zt_split(c->tokens.n, 1, part, parts, &from, &to);
    for (int64_t i = from; i < to; i++)
        sum += mixed(~(uint64_t)i, (uint32_t)zt_token_at(&c->tokens, i));
    return sum;
}

/* Everything that decides what the tokens are. */
static zt_status make_key(const zt_sources *s, const zt_data_opt *opt, const zt_tokenizer *tok,
                          uint64_t *key)
{
    char text[4400];
    uint64_t h = zt_tokenizer_hash(tok);
    int n =
        snprintf(text, sizeof text, "%llx %d %s|%s|", (unsigned long long)h, zt_tokenizer_eos(tok),
                 opt->field ? opt->field : "text", opt->separator ? opt->separator : "");
    h = zt_hash(text, strnlen(text, n < 0 ? 0 : sizeof text));
    for (int i = 0; i < s->n; i++) {
        struct stat st;
        if (stat(s->list[i].path, &st) != 0)
            return ZT_FAIL(ZT_ERR_IO, "%s: no such file", s->list[i].path);
        char *full = realpath(s->list[i].path, NULL);
        (void)snprintf(text, sizeof text, "%llx %s %d %lld %lld.%ld", (unsigned long long)h,
                       full ? full : s->list[i].path, (int)s->list[i].kind, (long long)st.st_size,
                       (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
        free(full);
        h = zt_hash(text, strnlen(text, sizeof text));
    }
    *key = h;
    return ZT_OK;
}

static zt_status cache_path(const zt_data_opt *opt, uint64_t key, char **out)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *folder = opt->cache_dir && *opt->cache_dir ? zt_strdup(opt->cache_dir)
                   : xdg && *xdg                     ? zt_path_join(xdg, "zeroth")
                   : home && *home                   ? zt_path_join(home, ".cache/zeroth")
                                                     : zt_strdup(".zeroth-cache");
    zt_status status = folder ? zt_folder_make(folder) : ZT_NOMEM();
    if (status != ZT_OK && folder)
        status = ZT_FAIL(status, "%s; data.cache_dir chooses another place", zt_error_message());
    if (status == ZT_OK) {
        *out = zt_format("%s/%016llx.tokens", folder, (unsigned long long)key);
        status = *out ? ZT_OK : ZT_NOMEM();
    }
    zt_free(folder);
    return status;
}

/* ---- a rank's part: documents as length and 32-bit tokens ---- */
typedef struct {
    zt_encoder *enc;
    zt_ids ids;
    zt_out *out;
    int32_t eos, vocab;
    const char *where;
} tokeniser;

/* As the tokenizer encodes a text (with its begin token, if it puts one), and ended. */
static zt_status tokenise(void *arg, const char *text, size_t size)
{
    tokeniser *t = arg;
    if (zt_stop_requested)
        return ZT_FAIL(ZT_ERR_STOPPED, "stopped by a signal while reading %s: nothing is kept",
                       t->where);
    t->ids.count = 0;
    ZT_TRY(zt_encode(t->enc, text, size, true, &t->ids));
    for (size_t i = 0; i < t->ids.count; i++)
        if (t->ids.data[i] >= t->vocab)
            return ZT_FAIL(
                ZT_ERR_CONFIG,
                "%s gives the token id %d, but the model's vocabulary has %d: the tokenizer is not "
                "the model's",
                t->where, t->ids.data[i], t->vocab);
    const bool ended = t->ids.count > 0 && t->ids.data[t->ids.count - 1] == t->eos;
    const bool end = t->eos >= 0 && t->eos < t->vocab && !ended;
    const uint64_t n = t->ids.count + end;
    if (n == 0) return ZT_OK;
    ZT_TRY(zt_out_write(t->out, &n, sizeof n));
    ZT_TRY(zt_out_write(t->out, t->ids.data, t->ids.count * sizeof *t->ids.data));
    return end ? zt_out_write(t->out, &t->eos, sizeof t->eos) : ZT_OK;
}

static zt_status write_part(const zt_sources *s, const zt_data_opt *opt, const zt_tokenizer *tok,
                            int part, int parts, const char *path)
{
    char where[4200] = "";
    tokeniser t = {.eos = zt_tokenizer_eos(tok), .vocab = opt->vocab_size, .where = where};
    ZT_TRY(zt_encoder_create(tok, &t.enc));
    zt_status status = zt_out_open(path, &t.out);
    if (status == ZT_OK) {
        status = zt_documents(s, opt, part, parts, where, sizeof where, tokenise, &t);
        if (status == ZT_OK)
            status = zt_out_commit(&t.out);
        else
            zt_out_discard(&t.out);
    }
    zt_ids_free(&t.ids);
    zt_encoder_free(&t.enc);
    return status;
}

/* ---- joining the parts ---- */
typedef struct {
    zt_map *maps;
    int n;
} parts_of;

/* Calls for every document of every part: its number of tokens, and the tokens. */
typedef zt_status part_fn(void *arg, uint64_t n, const uint8_t *tokens);

static zt_status each_document(const parts_of *p, part_fn *fn, void *arg)
{
    for (int i = 0; i < p->n; i++)
        for (size_t at = 0; at + 8 <= p->maps[i].size;) {
            uint64_t n;
            memcpy(&n, p->maps[i].data + at, 8);
            if (n > (p->maps[i].size - at - 8) / 4)
                return ZT_FAIL(ZT_ERR_FORMAT, "a part of the token cache is damaged");
            ZT_TRY(fn(arg, n, p->maps[i].data + at + 8));
            at += 8 + 4 * n;
        }
    return ZT_OK;
}

typedef struct {
    header h;
    zt_out *out;
    uint64_t at;
} joiner;

static zt_status count(void *arg, uint64_t n, const uint8_t *tokens)
{
    joiner *j = arg;
    j->h.sum += mixed(j->h.n_documents++, j->h.n_tokens);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t x;
        memcpy(&x, tokens + 4 * i, 4);
        j->h.sum += mixed(~j->h.n_tokens++, x);
    }
    return ZT_OK;
}

static zt_status write_start(void *arg, uint64_t n, const uint8_t *tokens)
{
    joiner *j = arg;
    (void)tokens;
    ZT_TRY(zt_out_write(j->out, &j->at, sizeof j->at));
    j->at += n;
    return ZT_OK;
}

static zt_status write_tokens(void *arg, uint64_t n, const uint8_t *tokens)
{
    joiner *j = arg;
    if (j->h.width == 4) return zt_out_write(j->out, tokens, 4 * n);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t x;
        memcpy(&x, tokens + 4 * i, 4);
        uint16_t narrow = (uint16_t)x;
        ZT_TRY(zt_out_write(j->out, &narrow, sizeof narrow));
    }
    return ZT_OK;
}

static zt_status join(const parts_of *p, uint64_t key, int32_t vocab, const char *path)
{
    joiner j = {.h = {.key = key, .width = vocab <= 65536 ? 2 : 4}};
    memcpy(j.h.magic, magic, sizeof magic);
    ZT_TRY(each_document(p, count, &j));
    j.h.sum += mixed(j.h.n_documents, j.h.n_tokens);
    ZT_TRY(zt_out_open(path, &j.out));
    zt_status status = zt_out_write(j.out, &j.h, sizeof j.h);
    if (status == ZT_OK) status = each_document(p, write_start, &j);
    if (status == ZT_OK) status = zt_out_write(j.out, &j.at, sizeof j.at);
    if (status == ZT_OK) status = each_document(p, write_tokens, &j);
    if (status == ZT_OK) return zt_out_commit(&j.out);
    zt_out_discard(&j.out);
    return status;
}

static zt_status join_parts(const char *path, const char *own, int n, uint64_t key, int32_t vocab)
{
    parts_of p = {.maps = zt_calloc((size_t)n, sizeof *p.maps), .n = n};
    zt_status status = p.maps ? ZT_OK : ZT_NOMEM();
    for (int i = 0; i < n && status == ZT_OK; i++) {
        char *part = zt_format("%s.part%d", own, i);
        status = part ? zt_map_open(part, &p.maps[i]) : ZT_NOMEM();
        zt_free(part);
    }
    if (status == ZT_OK) status = join(&p, key, vocab, own);
    if (status == ZT_OK) status = zt_path_rename(own, path);
    for (int i = 0; p.maps && i < n; i++)
        zt_map_close(&p.maps[i]);
    zt_free(p.maps);
    return status;
}

/* Makes the cache, under names that no other job has. Collective. */
static zt_status make(const zt_sources *s, const zt_data_opt *opt, const zt_tokenizer *tok,
                      zt_comm *comm, uint64_t key, const char *path)
{
    const int rank = zt_comm_rank(comm), n = zt_comm_size(comm);
    double job[2] = {(double)getpid(), zt_now()};
    ZT_TRY(zt_broadcast(comm, job, sizeof job, 0));
    char *own =
        zt_format("%s.%llx", path, (unsigned long long)zt_hash((const char *)job, sizeof job));
    char *part = own ? zt_format("%s.part%d", own, rank) : NULL;
    zt_status status = part ? write_part(s, opt, tok, rank, n, part) : ZT_NOMEM();
    status = zt_comm_agree(comm, status);
    if (status == ZT_OK) {
        if (rank == 0) status = join_parts(path, own, n, key, opt->vocab_size);
        status = zt_comm_agree(comm, status);
    }
    if (part) (void)unlink(part);
    if (own && rank == 0 && status != ZT_OK) (void)unlink(own);
    zt_free(part);
    zt_free(own);
    return status;
}

/* ---- reading ---- */
zt_status zt_cache_parse(const uint8_t *data, size_t size, uint64_t key, const char *origin,
                         zt_cache *out)
{
    header h;
    if (size < sizeof h)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s is no token cache: it is too short", origin);
    memcpy(&h, data, sizeof h);
    const uint64_t most = size / 2;
    if (memcmp(h.magic, magic, sizeof magic) != 0 || h.key != key ||
        (h.width != 2 && h.width != 4) || h.n_documents > most || h.n_tokens > most ||
        size != sizeof h + 8 * (h.n_documents + 1) + h.width * h.n_tokens)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s is no token cache of this data, or it is damaged",
                       origin);
    zt_cache c = {.n_documents = (int64_t)h.n_documents, .sum = h.sum};
    c.documents = (const uint64_t *)(const void *)(data + sizeof h);
    for (uint64_t i = 0; i < h.n_documents; i++)
        if (c.documents[i] > c.documents[i + 1])
            return ZT_FAIL(ZT_ERR_FORMAT, "%s is damaged: documents out of order", origin);
    if (c.documents[0] != 0 || c.documents[h.n_documents] != h.n_tokens)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s is damaged: documents do not cover the tokens", origin);
    c.tokens = (zt_tokens){.data = data + sizeof h + 8 * (h.n_documents + 1),
                           .n = (int64_t)h.n_tokens,
                           .width = (int)h.width};
    *out = c;
    return ZT_OK;
}

static zt_status map_cache(const char *path, uint64_t key, zt_cache *out)
{
    zt_map map;
    ZT_TRY(zt_map_open(path, &map));
    zt_status status = zt_cache_parse(map.data, map.size, key, path, out);
    if (status != ZT_OK)
        zt_map_close(&map);
    else
        out->tokens.map = map;
    return status;
}

/* Maps it on every rank and compares its checksum, of which each rank finds a part. Collective. */
static zt_status map_whole(const char *path, uint64_t key, zt_comm *comm, zt_cache *out,
                           bool *whole)
{
    const int rank = zt_comm_rank(comm), n = zt_comm_size(comm);
    zt_status status = map_cache(path, key, out);
    if (status != ZT_OK && rank > 0)
        status =
            ZT_FAIL(status, "%s; all ranks must see the same data.cache_dir", zt_error_message());
    const bool mapped = status == ZT_OK;
    status = zt_comm_agree(comm, status);
    if (status == ZT_OK) {
        const uint64_t part = sum_of(out, rank, n);
        int64_t halves[2] = {(int64_t)(part & UINT32_MAX), (int64_t)(part >> 32)};
        status = zt_all_reduce_sum_i64(comm, halves, 2);
        *whole = (uint64_t)halves[0] + ((uint64_t)halves[1] << 32) == out->sum;
    }
    if (mapped && (status != ZT_OK || !*whole)) zt_map_close(&out->tokens.map);
    return status;
}

zt_status zt_cache_open(const zt_sources *s, const zt_data_opt *opt, const zt_tokenizer *tok,
                        zt_comm *comm, zt_cache *out)
{
    uint64_t key = 0;
    char *path = NULL;
    zt_status status = make_key(s, opt, tok, &key);
    if (status == ZT_OK) status = cache_path(opt, key, &path);
    ZT_TRY(zt_comm_agree(comm, status));
    /* rank 0 decides whether it is there, so that all do the same */
    int64_t there = 0;
    if (zt_comm_rank(comm) == 0 && zt_path_exists(path)) {
        zt_cache c;
        there = map_cache(path, key, &c) == ZT_OK;
        if (there) zt_map_close(&c.tokens.map);
    }
    status = zt_all_reduce_max_i64(comm, &there, 1);
    bool whole = false;
    if (status == ZT_OK && there) status = map_whole(path, key, comm, out, &whole);
    if (status == ZT_OK && there && !whole && zt_comm_rank(comm) == 0)
        zt_log(ZT_LOG_WARN, "%s is damaged: it is made anew", path);
    const bool make_it = !whole;
    if (status == ZT_OK && make_it) status = make(s, opt, tok, comm, key, path);
    if (status == ZT_OK && make_it) status = map_whole(path, key, comm, out, &whole);
    if (status == ZT_OK && !whole)
        status = ZT_FAIL(ZT_ERR_IO, "%s does not hold what was just written to it", path);
    if (status == ZT_OK) out->made_now = make_it;
    zt_free(path);
    return status;
}
