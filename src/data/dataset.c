/* dataset.c - samples: what number i of the stream is. */
#include "data/internal.h"

#include <stdio.h>

struct zt_dataset {
    zt_data_opt opt;
    zt_cache cache;    /* of text */
    zt_tokens *shards; /* the cache's tokens, or the files of ids */
    int64_t *first;    /* [n_shards + 1] */
    int n_shards;
    int64_t n_tokens, from, count; /* samples [from, from + count) of all */
    int32_t eos;
    char describe[320];
};

/* ---- tokens ---- */
static int32_t token(const zt_dataset *d, int64_t i)
{
    int s = 0;
    while (i >= d->first[s + 1])
        s++;
    return zt_token_at(&d->shards[s], i - d->first[s]);
}

/* The document that holds token i: the last that begins at or before it. */
static int64_t document(const zt_dataset *d, int64_t i)
{
    int64_t a = 0, b = d->cache.n_documents - 1;
    while (a < b) {
        int64_t mid = (a + b + 1) / 2;
        if (d->cache.documents[mid] <= (uint64_t)i)
            a = mid;
        else
            b = mid - 1;
    }
    return a;
}

/* ---- opening ---- */
static zt_status check_ids(const zt_dataset *d, const zt_sources *s, int part, int parts)
{
    for (int k = 0; k < d->n_shards; k++) {
        int64_t from, to;
        zt_split(d->shards[k].n, 1, part, parts, &from, &to);
        for (int64_t i = from; i < to; i++) {
            int32_t id = zt_token_at(&d->shards[k], i);
            if (id < 0 || id >= d->opt.vocab_size)
                return ZT_FAIL(
                    ZT_ERR_CONFIG,
                    "%s%s: token %lld has the id %d, but the model's vocabulary has %d%s",
                    s->list[k].path, s->tokens || s->n == 1 ? "" : " ...", (long long)i, id,
                    d->opt.vocab_size,
                    s->tokens ? ""
                              : ": the tokenizer is not the model's, or the token cache is damaged "
                                "(data.cache_dir holds it; it may be removed)");
        }
    }
    return ZT_OK;
}

static zt_status open_shards(zt_dataset *d, const zt_sources *s)
{
    zt_status status = ZT_OK;
    if (!d->opt.packing || d->opt.isolate)
        status = ZT_FAIL(ZT_ERR_CONFIG,
                         "files of token ids do not say where documents begin: use data.packing "
                         "= true and data.isolate_documents = false");
    for (int i = 0; i < s->n && status == ZT_OK; i++) {
        status = zt_tokens_open(s->list[i].path, s->list[i].kind, &d->shards[i]);
        d->n_shards += status == ZT_OK;
    }
    return status;
}

static zt_status count_samples(zt_dataset *d, const zt_sources *s)
{
    const int64_t T = d->opt.sequence_length;
    d->first[0] = 0;
    for (int k = 0; k < d->n_shards; k++)
        d->first[k + 1] = d->first[k] + d->shards[k].n;
    d->n_tokens = d->first[d->n_shards];
    if (d->n_tokens == 0)
        return ZT_FAIL(ZT_ERR_CONFIG, "%s%s: the data is empty", s->list[0].path,
                       s->n > 1 ? " ..." : "");
    int64_t all = d->opt.packing ? (d->n_tokens - 1) / T : d->cache.n_documents;
    if (all == 0)
        return ZT_FAIL(ZT_ERR_CONFIG,
                       "%s%s: %lld tokens are fewer than one sequence of %lld and the token after "
                       "it; use more "
                       "text or a smaller data.sequence_length",
                       s->list[0].path, s->n > 1 ? " ..." : "", (long long)d->n_tokens,
                       (long long)T);
    d->from = (int64_t)(d->opt.take_from * (double)all);
    d->count = (d->opt.take_to >= 1 ? all : (int64_t)(d->opt.take_to * (double)all)) - d->from;
    if (d->count <= 0)
        return ZT_FAIL(ZT_ERR_CONFIG,
                       "%lld samples are too few to hold back a part of them for validation",
                       (long long)all);
    int64_t lost = d->opt.packing ? d->n_tokens - 1 - all * T : 0;
    for (int64_t i = 0; !d->opt.packing && i < all; i++) {
        const int64_t n = (int64_t)(d->cache.documents[i + 1] - d->cache.documents[i]);
        lost += n > T + 1 ? n - T - 1 : 0;
    }
    (void)snprintf(d->describe, sizeof d->describe,
                   "%d file%s, %lld tokens%s, %lld samples of %lld%s (%lld tokens %s)", s->n,
                   s->n > 1 ? "s" : "", (long long)d->n_tokens,
                   d->cache.made_now ? " (tokenised now)" : "", (long long)d->count, (long long)T,
                   d->opt.packing ? d->opt.isolate ? ", packed, documents isolated" : ", packed"
                                  : ", one document each",
                   (long long)lost,
                   d->opt.packing ? "at the end fill none" : "cut off long documents");
    return ZT_OK;
}

zt_status zt_dataset_open(const zt_data_opt *opt, const zt_tokenizer *tok, zt_comm *comm,
                          zt_dataset **out)
{
    zt_sources s = {0};
    zt_dataset *d = zt_calloc(1, sizeof *d);
    zt_status status = d ? zt_sources_find(opt, &s) : ZT_NOMEM();
    if (status == ZT_OK) {
        d->opt = *opt;
        d->eos = tok ? zt_tokenizer_eos(tok) : -1;
        d->shards = zt_calloc((size_t)s.n, sizeof *d->shards);
        d->first = zt_calloc((size_t)s.n + 1, sizeof *d->first);
        if (!d->shards || !d->first)
            status = ZT_NOMEM();
        else if (!s.tokens && !tok)
            status = ZT_FAIL(ZT_ERR_CONFIG,
                             "text needs a tokenizer: set tokenizer to a tokenizer.json, to a "
                             "folder that has one, or to \"bytes\"");
    }
    status = zt_comm_agree(comm, status);
    if (status != ZT_OK || !d) { /* on all ranks: a rank without d does not agree */
        zt_sources_free(&s);
        zt_dataset_close(&d);
        return status;
    }
    if (s.tokens) {
        status = open_shards(d, &s);
    } else {
        status = zt_cache_open(&s, opt, tok, comm, &d->cache);
        if (status == ZT_OK) {
            d->shards[0] = d->cache.tokens;
            d->n_shards = 1;
        }
    }
    if (status == ZT_OK) status = check_ids(d, &s, zt_comm_rank(comm), zt_comm_size(comm));
    if (status == ZT_OK) status = count_samples(d, &s);
    status = zt_comm_agree(comm, status);
    zt_sources_free(&s);
    if (status != ZT_OK)
        zt_dataset_close(&d);
    else
        *out = d;
    return status;
}

void zt_dataset_close(zt_dataset **ds)
{
    zt_dataset *d = *ds;
    if (!d) return;
    for (int i = 0; i < d->n_shards; i++)
        zt_map_close(&d->shards[i].map);
    zt_free(d->shards);
    zt_free(d->first);
    zt_free(d);
    *ds = NULL;
}

int64_t zt_dataset_samples(const zt_dataset *d)
{
    return d->count;
}

int64_t zt_dataset_tokens(const zt_dataset *d)
{
    return d->n_tokens;
}

const char *zt_dataset_describe(const zt_dataset *d)
{
    return d->describe;
}

/* ---- the order: a seeded permutation without a table, by a Feistel network over the next even power of
 * two, walked until it lands inside ---- */
static int64_t shuffled(const zt_dataset *d, int64_t epoch, int64_t i)
{
    int half = 1;
    while (((int64_t)1 << (2 * half)) < d->count)
        half++;
    const uint64_t mask = ((uint64_t)1 << half) - 1;
    const zt_rng r =
        zt_rng_make(d->opt.seed, ZT_RNG_SHUFFLE, (uint32_t)epoch, (uint32_t)(epoch >> 32));
    uint64_t x = (uint64_t)i;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t f = zt_rng_u32(&r, round << 40 | right << 2) & mask, next = left ^ f;
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= (uint64_t)d->count);
    return (int64_t)x;
}

static void packed(const zt_dataset *d, int64_t sample, int32_t *ids, int32_t *labels,
                   int32_t *start)
{
    const int64_t T = d->opt.sequence_length, at = sample * T;
    for (int64_t t = 0; t < T; t++) {
        ids[t] = t ? labels[t - 1] : token(d, at);
        labels[t] = token(d, at + t + 1);
    }
    if (!d->opt.isolate) return;
    for (int64_t t = 0, k = document(d, at); t < T; t++) {
        while (k + 1 < d->cache.n_documents && d->cache.documents[k + 1] <= (uint64_t)(at + t))
            k++;
        int64_t from = (int64_t)d->cache.documents[k] - at;
        if (start) start[t] = from > 0 ? (int32_t)from : 0;
    }
    /* what follows a document's end is another one's beginning: nothing to learn */
    for (int64_t t = 0, k = document(d, at); t < T; t++) {
        while (k + 1 < d->cache.n_documents && d->cache.documents[k + 1] <= (uint64_t)(at + t))
            k++;
        if ((uint64_t)(at + t + 1) == d->cache.documents[k + 1]) labels[t] = -100;
    }
}

static void single(const zt_dataset *d, int64_t sample, int32_t *ids, int32_t *labels,
                   int32_t *start)
{
    const int64_t T = d->opt.sequence_length, at = (int64_t)d->cache.documents[sample];
    const int64_t n = (int64_t)d->cache.documents[sample + 1] - at;
    for (int64_t t = 0; t < T; t++) {
        ids[t] = t < n ? token(d, at + t) : d->eos >= 0 && d->eos < d->opt.vocab_size ? d->eos : 0;
        labels[t] = t + 1 < n ? token(d, at + t + 1) : -100;
        if (start) start[t] = 0;
    }
}

void zt_dataset_sample(const zt_dataset *d, int64_t index, int32_t *ids, int32_t *labels,
                       int32_t *start)
{
    const int64_t epoch = index / d->count, i = index % d->count;
    const int64_t sample = d->from + (d->opt.shuffle ? shuffled(d, epoch, i) : i);
    if (d->opt.packing)
        packed(d, sample, ids, labels, start);
    else
        single(d, sample, ids, labels, start);
}
