/* unicode.h - UTF-8 and canonical composition, for the tokenizers. All functions are Local. */
#ifndef ZT_UNICODE_H
#define ZT_UNICODE_H
#include "base/base.h"

/* A growing text. */
typedef struct {
    char *data;
    size_t size, room;
} zt_text;
void zt_text_free(zt_text *t);
ZT_MUST_USE zt_status zt_text_add(zt_text *t, const char *s, size_t n);
ZT_MUST_USE zt_status zt_text_add_code(zt_text *t, uint32_t code);
/* Appends s with every `from` replaced by `by`; an empty `from` is nowhere. */
ZT_MUST_USE zt_status zt_text_replace(zt_text *t, const char *s, size_t n, const char *from,
                                      const char *by);

/* The code point at s (n bytes are there, n > 0), and its length. Bytes that are no UTF-8 give U+FFFD and the
 * length of the longest part that could have begun a character: what Python's and Rust's lossy decoders
 * replace at once. *valid may be NULL. */
uint32_t zt_utf8_next(const char *s, size_t n, size_t *length, bool *valid);
/* Appends s with what is no UTF-8 replaced by U+FFFD. */
ZT_MUST_USE zt_status zt_utf8_clean(const char *s, size_t n, zt_text *out);
bool zt_utf8_valid(const char *s, size_t n);
bool zt_is_space(uint32_t code); /* White_Space */
/* Appends the NFC form of valid UTF-8. */
ZT_MUST_USE zt_status zt_nfc(const char *s, size_t n, zt_text *out);
/* For patterns: appends s with characters that a PCRE2 of Unicode 14 does not know replaced by known ones of the
 * same category and length in bytes; nothing when s has none. */
ZT_MUST_USE zt_status zt_unicode_stand_in(const char *s, size_t n, zt_text *out);
#endif
