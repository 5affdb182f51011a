/* tokenizer_internal.h - the parts of a tokenizer, shared by its files. */
#ifndef ZT_TOKENIZER_INTERNAL_H
#define ZT_TOKENIZER_INTERNAL_H
#include "base/json.h"
#include "io/tokenizer.h"
#include "io/unicode.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

typedef enum {
    ZT_SPLIT_PATTERN, /* pieces are matches and what lies between them */
    ZT_SPLIT_BYTES, /* byte-level: marks that bytes are the alphabet; may have a pattern of its own */
    ZT_SPLIT_META   /* blanks become U+2581 */
} zt_split_kind;

typedef struct {
    zt_split_kind kind;
    pcre2_code *pattern; /* NULL: the text is one piece */
    bool drop_matches, drop_gaps;
    bool prefix_always, prefix_first; /* bytes: a blank before; meta: U+2581 before */
    bool split;                       /* meta: cut before every U+2581 */
} zt_split_step;

typedef enum { ZT_NORM_NFC, ZT_NORM_PREPEND, ZT_NORM_REPLACE } zt_norm_kind;
typedef struct {
    zt_norm_kind kind;
    char *from, *to;
} zt_norm_step;

typedef enum {
    ZT_DEC_FUSE,
    ZT_DEC_BYTES,
    ZT_DEC_REPLACE,
    ZT_DEC_FALLBACK,
    ZT_DEC_STRIP,
    ZT_DEC_META
} zt_dec_kind;
typedef struct {
    zt_dec_kind kind;
    char *from, *to;
    int start, stop;
    bool prefix;
} zt_dec_step;

typedef struct {
    char *text; /* the bytes that it stands for in the model's alphabet; NULL: no such id */
    size_t size;
    bool special, added;
} zt_piece;

typedef struct {
    char *text;
    size_t size;
    int32_t id;
    bool lstrip, rstrip, single_word, normalized;
} zt_added;

typedef struct {
    uint64_t key; /* left << 32 | right, + 1; 0: free */
    int32_t rank, merged;
} zt_merge;

enum { ZT_MAX_STEPS = 8 };

struct zt_tokenizer {
    bool plain_bytes, byte_level, byte_fallback, ignore_merges, fuse_unk;
    int32_t n, unk, bos, eos;
    zt_piece *pieces; /* by id */
    int32_t *slots;   /* hash of pieces' texts to ids; -1 free */
    uint32_t n_slots;
    zt_merge *merges; /* hash */
    uint32_t n_merge_slots;
    int32_t bytes[256]; /* id of each byte, or of its <0xNN>; -1 */
    zt_added *added;
    int n_added;
    bool added_first[256]; /* first bytes of added tokens */
    pcre2_code *word; /* a character of words, for added tokens that must stand alone; or NULL */
    zt_norm_step norms[ZT_MAX_STEPS];
    zt_split_step splits[ZT_MAX_STEPS];
    zt_dec_step decs[ZT_MAX_STEPS];
    int n_norms, n_splits, n_decs;
    zt_ids prefix, suffix; /* of the post-processor */
    char *describe;
    uint64_t hash;
};

int32_t zt_piece_id(const zt_tokenizer *t, const char *s, size_t n); /* -1 */
const zt_merge *zt_merge_find(const zt_tokenizer *t, int32_t left, int32_t right);
/* tokenizer_parse.c */
ZT_MUST_USE zt_status zt_tokenizer_read(zt_tokenizer *t, const json_t *j, const char *origin);
#endif
