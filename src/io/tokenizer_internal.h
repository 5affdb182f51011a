/* tokenizer_internal.h - the parts of a tokenizer and of an encoder, shared by the tokenizer's files:
 * tokenizer.c loads and looks up, tokenizer_parse.c reads the steps, tokenizer_vocab.c the tokens and merges;
 * tokenizer_encode.c cuts out added tokens and normalises, tokenizer_split.c cuts words, tokenizer_bpe.c merges
 * them; tokenizer_decode.c goes back. */
#ifndef ZT_TOKENIZER_INTERNAL_H
#define ZT_TOKENIZER_INTERNAL_H
#include "base/json.h"
#include "io/tokenizer.h"
#include "io/unicode.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define ZT_META "\xE2\x96\x81" /* U+2581, which stands for a blank */

typedef enum {
    ZT_SPLIT_PATTERN, /* pieces are matches and what lies between them */
    ZT_SPLIT_BYTES,   /* byte-level: a blank before; may have a pattern of its own */
    ZT_SPLIT_META     /* blanks become U+2581 */
} zt_split_kind;

typedef enum {          /* what becomes of the matches of a pattern */
               ZT_KEEP, /* a piece each */
               ZT_DROP,
               ZT_JOIN_PREVIOUS,
               ZT_JOIN_NEXT,
               ZT_JOIN_ALIKE /* neighbouring matches are one piece */
} zt_behavior;

typedef struct {
    zt_split_kind kind;
    pcre2_code *pattern; /* NULL: the text is one piece */
    zt_behavior behavior;
    bool invert;                      /* matches and what lies between them change places */
    bool prefix_always, prefix_first; /* bytes: a blank before; meta: U+2581 before */
    bool split;                       /* meta: cut before every U+2581 */
} zt_split_step;

typedef enum { ZT_NORM_NFC, ZT_NORM_PREPEND, ZT_NORM_REPLACE } zt_norm_kind;
typedef struct {
    zt_norm_kind kind;
    char *from, *to;
} zt_norm_step;

typedef enum {
    ZT_DEC_BYTES,
    ZT_DEC_REPLACE,
    ZT_DEC_FALLBACK,
    ZT_DEC_FUSE,
    ZT_DEC_STRIP,
    ZT_DEC_META
} zt_dec_kind;
typedef struct {
    zt_dec_kind kind;
    char *from, *to;
    int64_t start, stop; /* strip: how many at most */
    bool prefix;         /* meta: the first token's U+2581 vanish */
} zt_dec_step;

typedef struct {
    char *text; /* in the model's alphabet; NULL: not of the model */
    size_t size;
    char *decoded; /* of an added token: what the decoder is given; NULL: the text */
    size_t decoded_size;
    bool special;
} zt_piece;

typedef struct {
    char *content;
    char *text; /* what is looked for: the content, normalised where the text is */
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
    bool plain_bytes, byte_level, byte_fallback, ignore_merges, fuse_unk, has_decoder;
    int32_t n, unk, bos, eos;
    zt_piece *pieces; /* by id */
    int32_t *slots;   /* hash of pieces' texts to ids; -1 free */
    uint32_t n_slots;
    zt_merge *merges; /* hash */
    uint64_t n_merge_slots;
    int32_t bytes[256];     /* id of each byte, or of its <0xNN>; -1 */
    bool may_cut;           /* words may be cut where no merge can join: see joins */
    uint8_t joins[256][32]; /* bit: some merge joins a last character to a first one, by class */
    zt_added *added;        /* normalised ones behind the others, each in the order of texts */
    int n_added;
    int added_from[2][257]; /* per kind: the first of `added` with this first byte */
    pcre2_code *word; /* a character of words, for added tokens that must stand alone; or NULL */
    zt_norm_step norms[ZT_MAX_STEPS];
    zt_split_step splits[ZT_MAX_STEPS];
    zt_dec_step decs[ZT_MAX_STEPS];
    int n_norms, n_splits, n_decs;
    zt_ids prefix, suffix; /* of the post-processor */
    char *describe;
    uint64_t hash;
};

/* A symbol of a word that is being merged: a doubly linked list in an array. */
typedef struct {
    int32_t id, prev, next; /* id -1: merged away */
} zt_symbol;
typedef struct {
    int32_t rank, at, left, right, merged;
} zt_candidate;

enum { ZT_CACHE_BITS = 14, ZT_WORD = 32, ZT_WORD_IDS = 11 };
typedef struct {
    uint8_t size, n; /* size 0: free */
    char text[ZT_WORD];
    int32_t ids[ZT_WORD_IDS];
} zt_cached;

struct zt_encoder {
    const zt_tokenizer *t;
    zt_cached *cache;
    zt_symbol *symbols;
    zt_candidate *heap;
    size_t room, n_heap, heap_room;
    pcre2_match_data *match;
    pcre2_match_context *context;
    zt_text clean, normal, scratch;
    zt_text pieces[ZT_MAX_STEPS],
        seen[ZT_MAX_STEPS]; /* by step: rewritten text; see zt_unicode_stand_in */
};

/* tokenizer.c */
int32_t zt_piece_id(const zt_tokenizer *t, const char *s, size_t n); /* -1 */
uint64_t zt_merge_hash(uint64_t key);
const zt_merge *zt_merge_find(const zt_tokenizer *t, int32_t left, int32_t right);

/* Letters, marks, digits, joining punctuation, in a class. */
#define ZT_WORDS                                                                                   \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"                    \
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"

/* tokenizer_parse.c */
typedef struct {
    zt_tokenizer *t;
    const char *origin;
} zt_reader;
ZT_MUST_USE zt_status zt_tokenizer_read(zt_tokenizer *t, const json_t *j, const char *origin);
ZT_MUST_USE zt_status zt_tokenizer_refuse(const zt_reader *r, const char *part, const char *what);
/* Refuses an object with a member of the wrong kind; `what` names the object. */
ZT_MUST_USE zt_status zt_tokenizer_members(const zt_reader *r, const char *what, const json_t *j);
ZT_MUST_USE zt_status zt_tokenizer_pattern(const zt_reader *r, const char *pattern, size_t n,
                                           bool literal, pcre2_code **out);

/* tokenizer_vocab.c */
ZT_MUST_USE zt_status zt_tokenizer_read_model(const zt_reader *r, const json_t *model,
                                              const json_t *added);
ZT_MUST_USE zt_status zt_tokenizer_read_added(const zt_reader *r, const json_t *list);
/* A token of the file as the bytes that it stands for in the byte-level alphabet; one with other characters
 * stays as it is, and *known is false. zt_malloc'ed; NULL when out of memory. */
char *zt_tokenizer_to_bytes(const char *s, size_t n, size_t *size, bool *known);
/* The class of a character in `joins`. */
unsigned zt_join_class(const zt_tokenizer *t, uint32_t code);

/* tokenizer_encode.c: appends the normal form of s to out; scratch is overwritten. */
ZT_MUST_USE zt_status zt_tokenizer_normalize(const zt_tokenizer *t, const char *s, size_t n,
                                             zt_text *out, zt_text *scratch);
/* tokenizer_split.c: cuts a text into words and encodes them. */
ZT_MUST_USE zt_status zt_encode_split(zt_encoder *e, const char *s, size_t n, bool at_start,
                                      zt_ids *out);
/* tokenizer_bpe.c */
ZT_MUST_USE zt_status zt_encode_word(zt_encoder *e, const char *s, size_t n, zt_ids *out);
#endif
