/* tokenizer_parse.c - tokenizer.json: what is understood is turned into tables, the rest refused by name. */
#include "io/tokenizer_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* GPT-2's pattern, which ByteLevel brings along. */
static const char byte_level_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* What \w is to the library: letters, marks, digits, joining punctuation. */
static const char word_pattern[] =
    "[\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}]";

typedef struct {
    zt_tokenizer *t;
    const char *origin;
} reader;

static zt_status refuse(const reader *r, const char *part, const char *what)
{
    return ZT_FAIL(ZT_ERR_FORMAT, "%s: %s \"%s\" is not supported", r->origin, part,
                   what ? what : "(none)");
}

static const char *type_of(const json_t *j)
{
    const char *type = json_string_value(json_object_get(j, "type"));
    return type ? type : "(none)";
}

static bool is_type(const json_t *j, const char *type)
{
    return strcmp(type_of(j), type) == 0;
}

/* ---- the byte-level alphabet: bytes as visible characters (GPT-2's bytes_to_unicode) ---- */
static bool visible(int b)
{
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
}

/* The byte of a character of that alphabet, or -1. */
static int byte_of(uint32_t c)
{
    if (c < 256) return visible((int)c) ? (int)c : -1;
    int k = 0; /* the others follow from 256, in order */
    for (int b = 0; b < 256; b++)
        if (!visible(b) && 256 + (uint32_t)k++ == c) return b;
    return -1;
}

/* A token of the file as the bytes that it stands for; a token with other characters stays as it is. */
static char *to_bytes(const char *s, size_t n, size_t *size)
{
    char *out = zt_malloc(n + 1);
    size_t length, used = 0;
    for (size_t i = 0; out && i < n; i += length) {
        int b = byte_of(zt_utf8_next(s + i, n - i, &length, NULL));
        if (b < 0) {
            memcpy(out, s, n);
            used = n;
            break;
        }
        out[used++] = (char)b;
    }
    if (out) out[used] = '\0';
    *size = used;
    return out;
}

/* ---- patterns ---- */
/* \s means White_Space to the tokenizers library; PCRE2 adds U+180E, so it is written out. */
static zt_status compile(const reader *r, const char *pattern, size_t n, bool literal,
                         pcre2_code **out)
{
    static const char space[] =
        "\\t-\\r\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}"
        "\\x{202f}\\x{205f}\\x{3000}";
    zt_text p = {0};
    bool in_class = false;
    zt_status status = ZT_OK;
    for (size_t i = 0; i < n && status == ZT_OK; i++) {
        const bool escape = !literal && pattern[i] == '\\' && i + 1 < n;
        if (escape && (pattern[i + 1] == 's' || (pattern[i + 1] == 'S' && !in_class))) {
            const char *open = in_class ? "" : pattern[i + 1] == 's' ? "[" : "[^";
            status = zt_text_add(&p, open, strlen(open));
            if (status == ZT_OK) status = zt_text_add(&p, space, sizeof space - 1);
            if (status == ZT_OK && !in_class) status = zt_text_add(&p, "]", 1);
            i++;
            continue;
        }
        if (!literal && !escape && pattern[i] == '[') in_class = true;
        if (!literal && !escape && pattern[i] == ']') in_class = false;
        status = zt_text_add(&p, pattern + i, escape ? 2 : 1);
        i += escape;
    }
    int code = 0;
    PCRE2_SIZE at = 0;
    if (status == ZT_OK) {
        uint32_t flags = PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | (literal ? PCRE2_LITERAL : 0);
        if (!zt_utf8_valid(p.data, p.size))
            status = refuse(r, "the pattern", "not UTF-8");
        else if (!(*out = pcre2_compile((PCRE2_SPTR)(p.data ? p.data : ""), p.size,
                                        literal ? flags & ~(uint32_t)PCRE2_UCP : flags, &code, &at,
                                        NULL))) {
            char text[120];
            (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
            status = ZT_FAIL(ZT_ERR_FORMAT, "%s: the pattern \"%s\": %s", r->origin, pattern, text);
        } else {
            (void)pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE);
        }
    }
    zt_text_free(&p);
    return status;
}

/* {"Regex": "..."} or {"String": "..."} */
static zt_status compile_json(const reader *r, const json_t *j, pcre2_code **out)
{
    const json_t *regex = json_object_get(j, "Regex"), *text = json_object_get(j, "String");
    const json_t *p = regex ? regex : text;
    if (!json_is_string(p)) return refuse(r, "the pattern", "neither Regex nor String");
    return compile(r, json_string_value(p), json_string_length(p), !regex, out);
}

/* ---- normalizers, pre-tokenizers, decoders: each a step or a Sequence of them ---- */
typedef zt_status step_fn(const reader *r, const json_t *j);

static zt_status each(const reader *r, const json_t *j, const char *list, step_fn *fn)
{
    if (!j || json_is_null(j)) return ZT_OK;
    if (!is_type(j, "Sequence")) return fn(r, j);
    size_t i;
    const json_t *step;
    json_array_foreach(json_object_get(j, list), i, step) ZT_TRY(each(r, step, list, fn));
    return ZT_OK;
}

static zt_status copy_string(const json_t *j, char **out)
{
    *out = zt_strdup(json_is_string(j) ? json_string_value(j) : "");
    return *out ? ZT_OK : ZT_NOMEM();
}

static zt_status read_norm(const reader *r, const json_t *j)
{
    zt_tokenizer *t = r->t;
    if (t->n_norms == ZT_MAX_STEPS) return refuse(r, "a normalizer", "of so many steps");
    zt_norm_step *s = &t->norms[t->n_norms];
    *s = (zt_norm_step){0};
    if (is_type(j, "NFC")) {
        s->kind = ZT_NORM_NFC;
    } else if (is_type(j, "Prepend")) {
        s->kind = ZT_NORM_PREPEND;
        ZT_TRY(copy_string(json_object_get(j, "prepend"), &s->to));
    } else if (is_type(j, "Replace") && json_object_get(json_object_get(j, "pattern"), "String")) {
        s->kind = ZT_NORM_REPLACE;
        t->n_norms++;
        ZT_TRY(copy_string(json_object_get(json_object_get(j, "pattern"), "String"), &s->from));
        return copy_string(json_object_get(j, "content"), &s->to);
    } else {
        return refuse(r, "the normalizer", type_of(j));
    }
    t->n_norms++;
    return ZT_OK;
}

static zt_status read_split(const reader *r, const json_t *j, zt_split_step *s)
{
    const char *behavior = json_string_value(json_object_get(j, "behavior"));
    const bool invert = json_is_true(json_object_get(j, "invert"));
    if (behavior && strcmp(behavior, "Removed") == 0)
        *(invert ? &s->drop_gaps : &s->drop_matches) = true;
    else if (!behavior || strcmp(behavior, "Isolated") != 0)
        return refuse(r, "the split behavior", behavior);
    return compile_json(r, json_object_get(j, "pattern"), &s->pattern);
}

static zt_status read_meta(const reader *r, const json_t *j, bool *always, bool *first)
{
    const char *replacement = json_string_value(json_object_get(j, "replacement"));
    const char *scheme = json_string_value(json_object_get(j, "prepend_scheme"));
    if (replacement && strcmp(replacement, "\xE2\x96\x81") != 0)
        return refuse(r, "the Metaspace replacement", replacement);
    if (!scheme)
        scheme = json_is_false(json_object_get(j, "add_prefix_space")) ? "never" : "always";
    *always = strcmp(scheme, "always") == 0;
    *first = strcmp(scheme, "first") == 0;
    return ZT_OK;
}

static zt_status read_pre(const reader *r, const json_t *j)
{
    zt_tokenizer *t = r->t;
    if (t->n_splits == ZT_MAX_STEPS) return refuse(r, "a pre-tokenizer", "of so many steps");
    zt_split_step *s = &t->splits[t->n_splits];
    *s = (zt_split_step){0};
    zt_status status = ZT_OK;
    if (is_type(j, "Split")) {
        status = read_split(r, j, s);
    } else if (is_type(j, "Digits")) {
        const bool one = json_is_true(json_object_get(j, "individual_digits"));
        status = compile(r, one ? "\\p{N}" : "\\p{N}+", one ? 5 : 6, false, &s->pattern);
    } else if (is_type(j, "ByteLevel")) {
        s->kind = ZT_SPLIT_BYTES;
        s->prefix_always = json_is_true(json_object_get(j, "add_prefix_space"));
        t->byte_level = true;
        if (!json_is_false(json_object_get(j, "use_regex")))
            status =
                compile(r, byte_level_pattern, sizeof byte_level_pattern - 1, false, &s->pattern);
    } else if (is_type(j, "Metaspace")) {
        s->kind = ZT_SPLIT_META;
        s->split = !json_is_false(json_object_get(j, "split"));
        status = read_meta(r, j, &s->prefix_always, &s->prefix_first);
    } else {
        return refuse(r, "the pre-tokenizer", type_of(j));
    }
    if (status == ZT_OK) t->n_splits++;
    return status;
}

static zt_status read_dec(const reader *r, const json_t *j)
{
    zt_tokenizer *t = r->t;
    if (t->n_decs == ZT_MAX_STEPS) return refuse(r, "a decoder", "of so many steps");
    zt_dec_step *s = &t->decs[t->n_decs];
    *s = (zt_dec_step){0};
    t->n_decs++;
    if (is_type(j, "Fuse")) {
        s->kind = ZT_DEC_FUSE;
        return ZT_OK;
    }
    if (is_type(j, "ByteLevel")) {
        s->kind = ZT_DEC_BYTES;
        return ZT_OK;
    }
    if (is_type(j, "ByteFallback")) {
        s->kind = ZT_DEC_FALLBACK;
        return ZT_OK;
    }
    if (is_type(j, "Metaspace")) {
        bool always = false, first = false;
        s->kind = ZT_DEC_META;
        ZT_TRY(read_meta(r, j, &always, &first));
        s->prefix = always || first;
        return ZT_OK;
    }
    if (is_type(j, "Replace") && json_object_get(json_object_get(j, "pattern"), "String")) {
        s->kind = ZT_DEC_REPLACE;
        ZT_TRY(copy_string(json_object_get(json_object_get(j, "pattern"), "String"), &s->from));
        return copy_string(json_object_get(j, "content"), &s->to);
    }
    if (is_type(j, "Strip")) {
        s->kind = ZT_DEC_STRIP;
        s->start = (int)json_integer_value(json_object_get(j, "start"));
        s->stop = (int)json_integer_value(json_object_get(j, "stop"));
        return copy_string(json_object_get(j, "content"), &s->from);
    }
    t->n_decs--;
    return refuse(r, "the decoder", type_of(j));
}

/* ---- post-processor ---- */
static zt_status push_id(zt_ids *ids, int32_t id)
{
    int32_t *more = zt_realloc(ids->data, (ids->count + 1) * sizeof *more);
    if (!more) return ZT_NOMEM();
    ids->data = more;
    ids->data[ids->count++] = id;
    ids->room = ids->count;
    return ZT_OK;
}

static zt_status read_post(const reader *r, const json_t *j)
{
    if (is_type(j, "ByteLevel")) return ZT_OK; /* it moves offsets, not ids */
    if (!is_type(j, "TemplateProcessing")) return refuse(r, "the post-processor", type_of(j));
    zt_ids *to = &r->t->prefix;
    size_t i, k;
    const json_t *item, *id;
    json_array_foreach(json_object_get(j, "single"), i, item)
    {
        if (json_object_get(item, "Sequence")) {
            to = &r->t->suffix;
            continue;
        }
        const char *name =
            json_string_value(json_object_get(json_object_get(item, "SpecialToken"), "id"));
        const json_t *tokens = json_object_get(j, "special_tokens");
        const json_t *ids = name ? json_object_get(json_object_get(tokens, name), "ids") : NULL;
        if (!json_is_array(ids)) return refuse(r, "the template item", name);
        json_array_foreach(ids, k, id)
        {
            json_int_t x = json_integer_value(id);
            if (!json_is_integer(id) || x < 0 || x >= r->t->n)
                return refuse(r, "an id of the template item", name);
            ZT_TRY(push_id(to, (int32_t)x));
        }
    }
    return ZT_OK;
}

/* ---- vocabulary and merges ---- */
static zt_status read_vocab(const reader *r, const json_t *vocab, const json_t *added)
{
    zt_tokenizer *t = r->t;
    const char *text;
    json_t *id;
    size_t i;
    const json_t *a;
    json_int_t top = -1;
    json_object_foreach((json_t *)(uintptr_t)vocab, text, id) if (json_integer_value(id) > top)
        top = json_integer_value(id);
    json_array_foreach(added, i, a) if (json_integer_value(json_object_get(a, "id")) > top) top =
        json_integer_value(json_object_get(a, "id"));
    if (top < 0 || top > 10000000)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: the vocabulary has no ids, or absurd ones", r->origin);
    t->pieces = zt_calloc((size_t)top + 1, sizeof *t->pieces);
    if (!t->pieces) return ZT_NOMEM();
    t->n = (int32_t)top + 1;
    json_object_foreach((json_t *)(uintptr_t)vocab, text, id)
    {
        json_int_t k = json_integer_value(id);
        if (!json_is_integer(id) || k < 0 || t->pieces[k].text)
            return ZT_FAIL(ZT_ERR_FORMAT, "%s: the id of \"%s\" is not usable or is there twice",
                           r->origin, text);
        zt_piece *p = &t->pieces[k];
        const size_t n = strlen(text);
        if (t->byte_level) {
            p->text = to_bytes(text, n, &p->size);
        } else {
            p->text = zt_strdup(text);
            p->size = n;
        }
        if (!p->text) return ZT_NOMEM();
    }
    return ZT_OK;
}

static zt_status hash_pieces(zt_tokenizer *t)
{
    t->n_slots = 64;
    while (t->n_slots < 2 * (uint32_t)t->n)
        t->n_slots *= 2;
    t->slots = zt_malloc(t->n_slots * sizeof *t->slots);
    if (!t->slots) return ZT_NOMEM();
    memset(t->slots, 0xFF, t->n_slots * sizeof *t->slots);
    for (int32_t id = 0; id < t->n; id++) {
        const zt_piece *p = &t->pieces[id];
        if (!p->text || zt_piece_id(t, p->text, p->size) >= 0) continue;
        uint32_t i = (uint32_t)zt_hash(p->text, p->size);
        while (t->slots[i & (t->n_slots - 1)] >= 0)
            i++;
        t->slots[i & (t->n_slots - 1)] = id;
    }
    for (int b = 0; b < 256; b++) {
        char c = (char)b, name[8];
        (void)snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        t->bytes[b] = t->byte_level ? zt_piece_id(t, &c, 1) : zt_piece_id(t, name, 6);
    }
    return ZT_OK;
}

/* "a b" or ["a", "b"] */
static zt_status read_merge(const reader *r, const json_t *j, int32_t rank)
{
    zt_tokenizer *t = r->t;
    const char *left = NULL, *right = NULL;
    size_t n_left = 0, n_right = 0;
    if (json_is_string(j)) {
        left = json_string_value(j);
        const char *blank = strchr(left, ' ');
        if (blank) {
            n_left = (size_t)(blank - left);
            right = blank + 1;
            n_right = strlen(right);
        }
    } else if (json_array_size(j) == 2) {
        left = json_string_value(json_array_get(j, 0));
        right = json_string_value(json_array_get(j, 1));
        n_left = left ? strlen(left) : 0;
        n_right = right ? strlen(right) : 0;
    }
    if (!left || !right)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s: merge %d is not a pair of tokens", r->origin, rank);
    char *a = NULL, *b = NULL, *both;
    if (t->byte_level) {
        a = to_bytes(left, n_left, &n_left);
        b = to_bytes(right, n_right, &n_right);
    } else {
        a = zt_strndup(left, n_left);
        b = zt_strndup(right, n_right);
    }
    both = a && b ? zt_malloc(n_left + n_right + 1) : NULL;
    zt_status status = ZT_OK;
    if (!both) {
        status = ZT_NOMEM();
    } else {
        memcpy(both, a, n_left);
        memcpy(both + n_left, b, n_right);
        int32_t x = zt_piece_id(t, a, n_left), y = zt_piece_id(t, b, n_right);
        int32_t whole = zt_piece_id(t, both, n_left + n_right);
        if (x < 0 || y < 0 || whole < 0) {
            status =
                ZT_FAIL(ZT_ERR_FORMAT, "%s: merge %d makes a token that is not in the vocabulary",
                        r->origin, rank);
        } else if (!zt_merge_find(t, x, y)) { /* of two alike the last wins there; none are alike */
            uint64_t key = ((uint64_t)(uint32_t)x << 32 | (uint32_t)y) + 1, h = key ^ key >> 32;
            h *= 0x9E3779B97F4A7C15u;
            h ^= h >> 29;
            while (t->merges[h & (t->n_merge_slots - 1)].key)
                h++;
            t->merges[h & (t->n_merge_slots - 1)] = (zt_merge){key, rank, whole};
        }
    }
    zt_free(a);
    zt_free(b);
    zt_free(both);
    return status;
}

static zt_status read_merges(const reader *r, const json_t *merges)
{
    zt_tokenizer *t = r->t;
    const size_t n = json_array_size(merges);
    if (n > 10000000) return ZT_FAIL(ZT_ERR_FORMAT, "%s: too many merges", r->origin);
    t->n_merge_slots = 64;
    while (t->n_merge_slots < 2 * n)
        t->n_merge_slots *= 2;
    t->merges = zt_calloc(t->n_merge_slots, sizeof *t->merges);
    if (!t->merges) return ZT_NOMEM();
    for (size_t i = 0; i < n; i++)
        ZT_TRY(read_merge(r, json_array_get(merges, i), (int32_t)i));
    return ZT_OK;
}

static zt_status read_model(const reader *r, const json_t *m, const json_t *added)
{
    zt_tokenizer *t = r->t;
    const char *type = json_string_value(json_object_get(m, "type"));
    if (type ? strcmp(type, "BPE") != 0 : !json_object_get(m, "merges"))
        return refuse(r, "the model", type);
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (int i = 0; i < 2; i++) {
        const char *x = json_string_value(json_object_get(m, affixes[i]));
        if (x && *x) return refuse(r, affixes[i], x);
    }
    if (json_number_value(json_object_get(m, "dropout")) != 0)
        return refuse(r, "the model's", "dropout");
    t->byte_fallback = json_is_true(json_object_get(m, "byte_fallback"));
    t->ignore_merges = json_is_true(json_object_get(m, "ignore_merges"));
    t->fuse_unk = json_is_true(json_object_get(m, "fuse_unk"));
    ZT_TRY(read_vocab(r, json_object_get(m, "vocab"), added));
    ZT_TRY(hash_pieces(t));
    ZT_TRY(read_merges(r, json_object_get(m, "merges")));
    const char *unk = json_string_value(json_object_get(m, "unk_token"));
    t->unk = unk ? zt_piece_id(t, unk, strlen(unk)) : -1;
    return ZT_OK;
}

static int longest_first(const void *a, const void *b)
{
    const zt_added *x = a, *y = b;
    return x->size < y->size ? 1 : x->size > y->size ? -1 : 0;
}

static zt_status read_added(const reader *r, const json_t *list)
{
    zt_tokenizer *t = r->t;
    t->added = zt_calloc(json_array_size(list), sizeof *t->added);
    if (!t->added) return ZT_NOMEM();
    size_t i;
    const json_t *a;
    json_array_foreach(list, i, a)
    {
        const char *text = json_string_value(json_object_get(a, "content"));
        json_int_t id = json_integer_value(json_object_get(a, "id"));
        if (!text || !*text || !json_is_integer(json_object_get(a, "id")) || id < 0 || id >= t->n)
            return ZT_FAIL(ZT_ERR_FORMAT, "%s: added token %zu has no usable id and content",
                           r->origin, i);
        zt_added *d = &t->added[t->n_added];
        *d = (zt_added){.id = (int32_t)id, .size = strlen(text)};
        d->text = zt_strdup(text);
        if (!d->text) return ZT_NOMEM();
        t->n_added++;
        d->lstrip = json_is_true(json_object_get(a, "lstrip"));
        d->rstrip = json_is_true(json_object_get(a, "rstrip"));
        d->single_word = json_is_true(json_object_get(a, "single_word"));
        d->normalized = json_is_true(json_object_get(a, "normalized"));
        if (d->single_word && !t->word)
            ZT_TRY(compile(r, word_pattern, sizeof word_pattern - 1, false, &t->word));
        zt_piece *p = &t->pieces[id];
        char *copy = zt_strdup(text);
        if (!copy) return ZT_NOMEM();
        zt_free(p->text);
        *p = (zt_piece){copy, d->size, json_is_true(json_object_get(a, "special")), true};
        t->added_first[(unsigned char)*text] = true;
    }
    if (t->n_added > 1) qsort(t->added, (size_t)t->n_added, sizeof *t->added, longest_first);
    return ZT_OK;
}

zt_status zt_tokenizer_read(zt_tokenizer *t, const json_t *j, const char *origin)
{
    const reader r = {t, origin};
    const json_t *model = json_object_get(j, "model"), *added = json_object_get(j, "added_tokens");
    if (!json_is_object(model))
        return ZT_FAIL(ZT_ERR_FORMAT, "%s has no model: it is not a tokenizer.json", origin);
    ZT_TRY(each(&r, json_object_get(j, "normalizer"), "normalizers", read_norm));
    ZT_TRY(each(&r, json_object_get(j, "pre_tokenizer"), "pretokenizers", read_pre));
    ZT_TRY(each(&r, json_object_get(j, "decoder"), "decoders", read_dec));
    ZT_TRY(read_model(&r, model, added));
    ZT_TRY(read_added(&r, added));
    ZT_TRY(each(&r, json_object_get(j, "post_processor"), "processors", read_post));
    t->describe = zt_format("%s BPE, %d tokens (%d added)",
                            t->byte_level      ? "byte-level"
                            : t->byte_fallback ? "SentencePiece-style"
                                               : "character-level",
                            (int)t->n, t->n_added);
    return t->describe ? ZT_OK : ZT_NOMEM();
}
