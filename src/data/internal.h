/* internal.h - what the files of the data part share. */
#ifndef ZT_DATA_INTERNAL_H
#define ZT_DATA_INTERNAL_H
#include "base/file.h"
#include "data/dataset.h"

typedef enum { ZT_SOURCE_TEXT, ZT_SOURCE_JSONL, ZT_SOURCE_BIN, ZT_SOURCE_UINT16 } zt_source_kind;

typedef struct {
    char *path;
    zt_source_kind kind;
} zt_source;
typedef struct {
    zt_source *list;
    int n;
    bool tokens; /* all of them hold token ids already */
} zt_sources;

/* Expands patterns and settles each file's format. Local. */
ZT_MUST_USE zt_status zt_sources_find(const zt_data_opt *opt, zt_sources *out);
void zt_sources_free(zt_sources *s);

/* Called for each document in order. */
typedef zt_status zt_document_fn(void *arg, const char *text, size_t size);
/* Documents of the share that rank `part` of `parts` has: those that begin in its stretch of the bytes of all
 * files. `where` is kept up to date for messages ("corpus.jsonl:12"). Local. */
ZT_MUST_USE zt_status zt_documents(const zt_sources *s, const zt_data_opt *opt, int part, int parts,
                                   char *where, size_t where_size, zt_document_fn *fn, void *arg);

/* Tokens in memory, of one file. */
typedef struct {
    zt_map map;
    const uint8_t *data;
    int64_t n;
    int width; /* bytes a token: 2 or 4 */
} zt_tokens;
static inline int32_t zt_token_at(const zt_tokens *t, int64_t i)
{
    if (t->width == 2) {
        uint16_t x;
        memcpy(&x, t->data + 2 * i, 2);
        return x;
    }
    int32_t x;
    memcpy(&x, t->data + 4 * i, 4);
    return x;
}
/* A .bin shard of llm.c, or bare 16-bit tokens. Checks sizes, not ids. Local. */
ZT_MUST_USE zt_status zt_tokens_open(const char *path, zt_source_kind kind, zt_tokens *out);
ZT_MUST_USE zt_status zt_tokens_parse(const uint8_t *data, size_t size, zt_source_kind kind,
                                      const char *origin, zt_tokens *out);

/* The token cache: all documents' tokens, and where each begins. */
typedef struct {
    zt_tokens tokens;
    const uint64_t *documents; /* [n_documents + 1], in tokens */
    int64_t n_documents;
    uint64_t sum;  /* of documents and tokens, as the file says it */
    bool made_now; /* it was not there before */
} zt_cache;
/* Collective; made where there is none that is whole. */
ZT_MUST_USE zt_status zt_cache_open(const zt_sources *s, const zt_data_opt *opt,
                                    const zt_tokenizer *tok, zt_comm *comm, zt_cache *out);
/* Checks all but the sum. Local. */
ZT_MUST_USE zt_status zt_cache_parse(const uint8_t *data, size_t size, uint64_t key,
                                     const char *origin, zt_cache *out);
#endif
