/* tokenizer.h - text to token ids and back, exactly as Hugging Face's `tokenizers` does, from a
 * tokenizer.json: byte-level BPE and SentencePiece-style BPE with byte fallback; and plain bytes.
 *
 * A zt_tokenizer is read-only after loading and may be shared by threads; each thread encodes with a
 * zt_encoder of its own (it holds the caches). All functions are Local. */
#ifndef ZT_TOKENIZER_H
#define ZT_TOKENIZER_H
#include "base/base.h"

typedef struct zt_tokenizer zt_tokenizer;
typedef struct zt_encoder zt_encoder;

/* A growing array of ids; start with {0}; free with zt_ids_free. */
typedef struct {
    int32_t *data;
    size_t count, room;
} zt_ids;
ZT_MUST_USE zt_status zt_ids_add(zt_ids *ids, int32_t id);
void zt_ids_free(zt_ids *ids);

/* `path`: a tokenizer.json or a folder that has one; or "bytes": ids 0..255 are bytes, 256 is
 * end-of-text (vocabulary 257). What a tokenizer.json asks for and cannot be honoured is refused by
 * name, and so is a value of the wrong kind. The sections truncation and padding have no effect, as in
 * transformers, which sets both anew at each call. tokenizer_config.json beside it supplies bos/eos names
 * where present. */
ZT_MUST_USE zt_status zt_tokenizer_load(const char *path, zt_tokenizer **out);
ZT_MUST_USE zt_status zt_tokenizer_parse(const char *json, size_t size, const char *origin,
                                         zt_tokenizer **out);
void zt_tokenizer_free(zt_tokenizer **tok);

int32_t zt_tokenizer_vocab(const zt_tokenizer *tok); /* highest id + 1 */
int32_t zt_tokenizer_bos(const zt_tokenizer *tok);   /* -1 when there is none */
int32_t zt_tokenizer_eos(const zt_tokenizer *tok);
/* The id of a token as the file writes it (byte-level: "\u0120the" in UTF-8, not " the"); -1. */
int32_t zt_tokenizer_find(const zt_tokenizer *tok, const char *token);
/* What the id stands for (byte-level: its bytes); NULL if there is no such id. */
const char *zt_tokenizer_piece(const zt_tokenizer *tok, int32_t id);
const char *
zt_tokenizer_describe(const zt_tokenizer *tok);      /* "byte-level BPE, 50257 tokens, ..." */
uint64_t zt_tokenizer_hash(const zt_tokenizer *tok); /* of everything that affects encoding */

ZT_MUST_USE zt_status zt_encoder_create(const zt_tokenizer *tok, zt_encoder **out);
void zt_encoder_free(zt_encoder **enc);
/* Appends the ids of text (any bytes; invalid UTF-8 becomes U+FFFD as Python's
 * bytes.decode("utf-8", "replace") has it). add_special: with the post-processor's template (bos...),
 * as encode(text) does in HF; false as add_special_tokens=False. */
ZT_MUST_USE zt_status zt_encode(zt_encoder *enc, const char *text, size_t size, bool add_special,
                                zt_ids *out);
/* The text of ids, zt_malloc'ed, NUL-terminated; as HF's decode(ids, skip_special_tokens=...) with
 * clean_up_tokenization_spaces=False. Ids out of range are an error. */
ZT_MUST_USE zt_status zt_decode(const zt_tokenizer *tok, const int32_t *ids, size_t n,
                                bool skip_special, char **text, size_t *size);
#endif
