/* tokenizer_split.c - the pre-tokenizer: a text to the words that merges stay within. */
#include "io/tokenizer_internal.h"

static zt_status split(zt_encoder *e, int step, const char *s, size_t n, bool at_start,
                       zt_ids *out);

/* The cuts of one pattern in a text. A piece is held back until it is known whether the next joins it. */
typedef struct {
    zt_encoder *e;
    int step;
    const char *s;
    bool at_start;
    zt_ids *out;
    size_t from, to; /* the piece held back */
    bool match, any; /* is it (its last part) a match; is there one */
} cutter;

static zt_status flush(cutter *c)
{
    const zt_split_step *p = &c->e->t->splits[c->step];
    if (!c->any || c->from == c->to || (p->behavior == ZT_DROP && c->match)) return ZT_OK;
    return split(c->e, c->step + 1, c->s + c->from, c->to - c->from, c->at_start && c->from == 0,
                 c->out);
}

static zt_status cut(cutter *c, size_t from, size_t to, bool match)
{
    const zt_split_step *p = &c->e->t->splits[c->step];
    match = match != p->invert;
    const bool join = (p->behavior == ZT_JOIN_PREVIOUS && match && !c->match) ||
                      (p->behavior == ZT_JOIN_NEXT && !match && c->match) ||
                      (p->behavior == ZT_JOIN_ALIKE && match == c->match);
    if (!(join && c->any)) {
        ZT_TRY(flush(c));
        c->from = from;
    }
    c->to = to;
    c->match = match;
    c->any = true;
    return ZT_OK;
}

/* The next match in s from `look` on: its place in at[0] and at[1]; *found is false when there is none. */
static zt_status search(zt_encoder *e, const pcre2_code *pattern, const char *s, size_t n,
                        size_t look, size_t at[2], bool *found)
{
    int rc =
        pcre2_jit_match(pattern, (PCRE2_SPTR)s, n, look, PCRE2_NO_UTF_CHECK, e->match, e->context);
    if (rc == PCRE2_ERROR_JIT_BADOPTION || rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(pattern, (PCRE2_SPTR)s, n, look, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                         e->match, e->context);
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH)
        return ZT_FAIL(ZT_ERR_FORMAT, "the tokenizer's pattern fails on a text (PCRE2 error %d)",
                       rc);
    const PCRE2_SIZE *v = pcre2_get_ovector_pointer(e->match);
    *found = rc >= 0 && v[0] <= v[1];
    at[0] = v[0];
    at[1] = v[1];
    return ZT_OK;
}

static zt_status split_pattern(zt_encoder *e, int step, const char *s, size_t n, bool at_start,
                               zt_ids *out)
{
    const pcre2_code *pattern = e->t->splits[step].pattern;
    zt_text *stand_in = &e->seen[step];
    stand_in->size = 0;
    ZT_TRY(zt_unicode_stand_in(s, n, stand_in));
    const char *seen = stand_in->size ? stand_in->data : s;
    cutter c = {.e = e, .step = step, .s = s, .at_start = at_start, .out = out};
    size_t last = 0, at[2];
    bool found, any = false;
    for (size_t look = 0; look <= n;) {
        ZT_TRY(search(e, pattern, seen, n, look, at, &found));
        if (!found) break;
        if (at[0] == at[1] && at[0] == last && any) { /* empty, right behind a match: go on */
            size_t length = 1;
            if (look < n) (void)zt_utf8_next(s + look, n - look, &length, NULL);
            look += length;
            continue;
        }
        if (at[0] > last) ZT_TRY(cut(&c, last, at[0], false));
        ZT_TRY(cut(&c, at[0], at[1], true));
        look = last = at[1];
        any = true;
    }
    if (last < n) ZT_TRY(cut(&c, last, n, false));
    return flush(&c);
}

static zt_status split_meta(zt_encoder *e, int step, const char *s, size_t n, bool at_start,
                            zt_ids *out)
{
    const size_t length = sizeof ZT_META - 1;
    const zt_split_step *p = &e->t->splits[step];
    zt_text *text = &e->pieces[step];
    text->size = 0;
    const bool has = s[0] == ' ' || (n >= length && memcmp(s, ZT_META, length) == 0);
    if ((p->prefix_always || (p->prefix_first && at_start)) && !has)
        ZT_TRY(zt_text_add(text, ZT_META, length));
    ZT_TRY(zt_text_replace(text, s, n, " ", ZT_META));
    size_t from = 0;
    for (size_t i = 1; p->split && i + length <= text->size; i++)
        if (memcmp(text->data + i, ZT_META, length) == 0) {
            ZT_TRY(split(e, step + 1, text->data + from, i - from, at_start && from == 0, out));
            from = i;
        }
    return split(e, step + 1, text->data + from, text->size - from, at_start && from == 0, out);
}

/* Cuts a text by the pre-tokenizer's steps from `step` on, and encodes the pieces. */
static zt_status split(zt_encoder *e, int step, const char *s, size_t n, bool at_start, zt_ids *out)
{
    if (n == 0) return ZT_OK;
    if (step == e->t->n_splits) return zt_encode_word(e, s, n, out);
    const zt_split_step *p = &e->t->splits[step];
    if (p->kind == ZT_SPLIT_META) return split_meta(e, step, s, n, at_start, out);
    if (p->kind == ZT_SPLIT_BYTES && p->prefix_always && s[0] != ' ') {
        zt_text *text = &e->pieces[step];
        text->size = 0;
        ZT_TRY(zt_text_add(text, " ", 1));
        ZT_TRY(zt_text_add(text, s, n));
        s = text->data;
        n = text->size;
    }
    return p->pattern ? split_pattern(e, step, s, n, at_start, out)
                      : split(e, step + 1, s, n, at_start, out);
}

zt_status zt_encode_split(zt_encoder *e, const char *s, size_t n, bool at_start, zt_ids *out)
{
    return split(e, 0, s, n, at_start, out);
}
