/* test_tokenizer.c - ids and texts exactly as the tokenizers library gives them (golden files of
 * tools/make_tokenizer_golden.py), refusals, and failing allocations. */
#include "base/file.h"
#include "harness.h"
#include "io/tokenizer.h"

#include <stdio.h>

static const char *const names[] = {"gpt2",   "prefix",    "llama3", "smollm2", "qwen2",
                                    "llama2", "metaspace", "splits", "unknown"};

static char *golden(const char *name, const char *ending, size_t *size)
{
    char path[600], *text;
    (void)snprintf(path, sizeof path, "%s/test/golden/tokenizer/%s.%s", ZT_SOURCE_DIR, name,
                   ending);
    OK(zt_file_read_all(path, &text, size));
    return text;
}

static zt_tokenizer *load(const char *name)
{
    size_t size;
    char *text = golden(name, "json", &size);
    zt_tokenizer *t;
    OK(zt_tokenizer_parse(text, size, name, &t));
    zt_free(text);
    return t;
}

/* One field of a line of cases. */
typedef struct {
    const char *s, *end;
} field;
enum { INPUT, PLAIN, SPECIAL, TEXT, SKIPPED, FIELDS };

/* Cuts a line into its fields, "=" being the one before again; returns the next line. */
static const char *cut_line(const char *line, field f[FIELDS])
{
    for (int i = 0; i < FIELDS; i++) {
        f[i] = (field){line, line + strcspn(line, "\t\n")};
        line = f[i].end + 1;
        if (i > 0 && *f[i].s == '=') f[i] = f[i - 1];
    }
    return line;
}

static size_t from_hex(field f, char *out)
{
    size_t n = 0;
    for (const char *s = f.s; s + 1 < f.end; s += 2) {
        unsigned x;
        assert_int_equal(sscanf((char[]){s[0], s[1], 0}, "%2x", &x), 1);
        out[n++] = (char)x;
    }
    return n;
}

static void same_ids(const char *name, int line, field f, const zt_ids *got)
{
    size_t i = 0;
    const char *s = f.s;
    for (char *next; s < f.end; s = next + (*next == ' ')) {
        long x = strtol(s, &next, 10);
        if (i >= got->count || got->data[i] != x)
            fail_msg("%s, case %d: id %zu is %d, wanted %ld", name, line, i,
                     i < got->count ? got->data[i] : -1, x);
        i++;
    }
    if (i != got->count) fail_msg("%s, case %d: %zu ids, wanted %zu", name, line, got->count, i);
}

static void same_text(const char *name, int line, const zt_tokenizer *t, const zt_ids *ids,
                      bool skip, field f)
{
    static char want[1 << 16];
    char *text;
    size_t got, wanted = from_hex(f, want);
    OK(zt_decode(t, ids->data, ids->count, skip, &text, &got));
    if (got != wanted || memcmp(text, want, got) != 0)
        fail_msg("%s, case %d: decoded \"%s\"", name, line, text);
    zt_free(text);
}

static void as_the_library(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        zt_tokenizer *t = load(names[k]);
        zt_encoder *e;
        OK(zt_encoder_create(t, &e));
        size_t size;
        char *cases = golden(names[k], "cases", &size);
        static char input[1 << 16];
        const char *line = cases;
        field f[FIELDS];
        for (int n = 1; *line; n++) {
            line = cut_line(line, f);
            const size_t length = from_hex(f[INPUT], input);
            zt_ids ids = {0};
            OK(zt_encode(e, input, length, false, &ids));
            same_ids(names[k], n, f[PLAIN], &ids);
            ids.count = 0;
            OK(zt_encode(e, input, length, true, &ids));
            same_ids(names[k], n, f[SPECIAL], &ids);
            same_text(names[k], n, t, &ids, false, f[TEXT]);
            same_text(names[k], n, t, &ids, true, f[SKIPPED]);
            zt_ids_free(&ids);
        }
        zt_free(cases);
        zt_encoder_free(&e);
        zt_tokenizer_free(&t);
    }
}

/* What the cache does must not be seen. */
static void cached_or_not(void **state)
{
    (void)state;
    zt_tokenizer *t = load("llama2");
    zt_encoder *e;
    zt_ids all = {0}, again = {0};
    OK(zt_encoder_create(t, &e));
    char text[4096];
    size_t n = 0;
    for (uint32_t i = 0; n + 40 < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "the %u quick \xC3\xA9tudes \xE2\x96\x81 of\n%s",
                              i * 2654435761u >> (i % 20), i % 3 ? " " : "");
    OK(zt_encode(e, text, n, false, &all));
    zt_encoder_free(&e); /* now with an empty cache, and twice */
    OK(zt_encoder_create(t, &e));
    for (int pass = 0; pass < 2; pass++) {
        again.count = 0;
        OK(zt_encode(e, text, n, false, &again));
        assert_int_equal(again.count, all.count);
        assert_memory_equal(again.data, all.data, all.count * sizeof *all.data);
    }
    zt_ids_free(&all);
    zt_ids_free(&again);
    zt_encoder_free(&e);
    zt_tokenizer_free(&t);
}

static void plain_bytes(void **state)
{
    (void)state;
    zt_tokenizer *t;
    zt_encoder *e;
    zt_ids ids = {0};
    OK(zt_tokenizer_load("bytes", &t));
    OK(zt_encoder_create(t, &e));
    assert_int_equal(zt_tokenizer_vocab(t), 257);
    OK(zt_encode(e, "a\xff\0b", 4, true, &ids));
    assert_int_equal(ids.count, 4);
    assert_int_equal(ids.data[1], 255);
    const int32_t out[] = {104, 105, 256}, beyond[] = {257}, negative[] = {-1};
    char *text;
    size_t n;
    OK(zt_decode(t, out, 3, true, &text, &n));
    assert_string_equal(text, "hi");
    zt_free(text);
    FAILS(zt_decode(t, beyond, 1, true, &text, &n), ZT_ERR_ARG, "257");
    FAILS(zt_decode(t, negative, 1, true, &text, &n), ZT_ERR_ARG, "-1");
    zt_ids_free(&ids);
    zt_encoder_free(&e);
    zt_tokenizer_free(&t);
}

/* Long runs without a place to cut, for merges, normalisation and patterns: must not take the square of their
 * length. The text comes back. */
static void long_runs(void **state)
{
    (void)state;
    static const struct {
        const char *tokenizer, *text;
        size_t period;
    } runs[] = {{"llama2", "the quick onion ", 16},
                {"llama2", "aeiou", 5},
                {"gpt2", "thequickonions", 14},
                {"gpt2", " ", 1},
                {"llama3", " \n  ", 4},
                {"smollm2", "....!?", 6},
                {"qwen2", "\xCC\xA3\xCC\xB1", 4}};
    const size_t n = 1 << 20;
    char *text = malloc(n), *back;
    for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) {
        zt_tokenizer *t = load(runs[k].tokenizer);
        zt_encoder *e;
        zt_ids ids = {0};
        OK(zt_encoder_create(t, &e));
        size_t size;
        for (size_t i = 0; i < n; i++)
            text[i] = runs[k].text[runs[k].period < 5 ? i % runs[k].period
                                                      : (i * 7 + i / 13) % runs[k].period];
        OK(zt_encode(e, text, n, false, &ids));
        OK(zt_decode(t, ids.data, ids.count, false, &back, &size));
        assert_int_equal(size, n);
        if (strcmp(runs[k].tokenizer, "qwen2") != 0) assert_memory_equal(back, text, n);
        zt_free(back);
        zt_ids_free(&ids);
        zt_encoder_free(&e);
        zt_tokenizer_free(&t);
    }
    free(text);
}

static void looked_up(void **state)
{
    (void)state;
    zt_tokenizer *t = load("llama3");
    const int32_t id = zt_tokenizer_find(t, "\xC4\xA0the"); /* as the file has it */
    assert_true(id > 0);
    assert_string_equal(zt_tokenizer_piece(t, id), " the");
    assert_int_equal(zt_tokenizer_find(t, " the"), -1);
    assert_int_equal(zt_tokenizer_find(t, "no such token"), -1);
    const int32_t end = zt_tokenizer_find(t, "<|end_of_text|>");
    assert_string_equal(zt_tokenizer_piece(t, end), "<|end_of_text|>");
    assert_null(zt_tokenizer_piece(t, zt_tokenizer_vocab(t)));
    assert_null(zt_tokenizer_piece(t, -1));
    const int32_t beyond = zt_tokenizer_vocab(t);
    char *text;
    size_t size;
    FAILS(zt_decode(t, &beyond, 1, false, &text, &size), ZT_ERR_ARG, "not in the vocabulary");
    zt_tokenizer_free(&t);
}

static void refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *json, *says;
    } bad[] = {
        {"{}", "no model"},
        {"[1", "1:"},
        {"{\"model\": {\"type\": \"Unigram\"}}", "Unigram"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {}, \"merges\": []}}", "no ids"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a b\"]}}",
         "merge 0"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [3]}}", "merge 0"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []}}",
         "twice"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": -1}, \"merges\": []}}", "ids"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [], "
         "\"end_of_word_suffix\": \"</w>\"}}",
         "</w>"},
        {"{\"normalizer\": {\"type\": \"Lowercase\"}, \"model\": {\"type\": \"BPE\"}}",
         "Lowercase"},
        {"{\"pre_tokenizer\": {\"type\": \"Punctuation\"}, \"model\": {\"type\": \"BPE\"}}",
         "Punctuation"},
        {"{\"pre_tokenizer\": {\"type\": \"Split\", \"behavior\": \"Isolated\", \"pattern\": "
         "{\"Regex\": "
         "\"(\"}}, \"model\": {\"type\": \"BPE\"}}",
         "pattern"},
        {"{\"decoder\": {\"type\": \"WordPiece\"}, \"model\": {\"type\": \"BPE\"}}", "WordPiece"},
        {"{\"post_processor\": {\"type\": \"BertProcessing\"}, \"model\": {\"type\": \"BPE\", "
         "\"vocab\": "
         "{\"a\": 0}, \"merges\": []}}",
         "BertProcessing"},
        {"{\"added_tokens\": [{\"id\": 1}], \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, "
         "\"merges\": []}}",
         "added token"},
        {"{\"added_tokens\": [{\"id\": 1, \"content\": \"a\"}], \"model\": {\"type\": \"BPE\", "
         "\"vocab\": "
         "{\"a\": 0, \"b\": 1}, \"merges\": []}}",
         "has id 1, elsewhere 0"},
        {"{\"normalizer\": {\"type\": \"NFKC\"}, \"model\": {\"type\": \"BPE\"}}", "NFKC"},
        {"{\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"Regex\": \" \"}, \"content\": "
         "\"\"}, "
         "\"model\": {\"type\": \"BPE\"}}",
         "a Regex pattern"},
        {"{\"normalizer\": {\"type\": \"Sequence\"}, \"model\": {\"type\": \"BPE\"}}",
         "normalizers"},
        {"{\"pre_tokenizer\": {\"type\": \"Split\", \"behavior\": \"Torn\"}, \"model\": {\"type\": "
         "\"BPE\"}}",
         "Torn"},
        {"{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"_\"}, \"model\": "
         "{\"type\": "
         "\"BPE\"}}",
         "replacement \"_\""},
        {"{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"prepend_scheme\": \"last\"}, \"model\": "
         "{\"type\": "
         "\"BPE\"}}",
         "last"},
        {"{\"pre_tokenizer\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": \"BPE\"}}",
         "ByteLevel"},
        {"{\"decoder\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": \"BPE\"}}", "ByteLevel"},
        {"{\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": "
         "\"ByteLevel\"}, "
         "{\"type\": \"Digits\"}]}, \"model\": {\"type\": \"BPE\"}}",
         "Digits"},
        {"{\"decoder\": {\"type\": \"Strip\", \"content\": \"ab\"}, \"model\": {\"type\": "
         "\"BPE\"}}",
         "ab"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [], \"unk_token\": "
         "\"?\"}}",
         "unk_token \"?\""},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [], \"dropout\": "
         "0.1}}",
         "dropout"},
        {"{\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": "
         "{\"id\": "
         "\"<s>\"}}], \"special_tokens\": {\"<s>\": {\"ids\": [7]}}}, \"model\": {\"type\": "
         "\"BPE\", "
         "\"vocab\": {\"a\": 0}, \"merges\": []}}",
         "an id of the template item \"<s>\""},
        {"{\"model\": 5}", "model = 5 should be an object"},
        {"{\"added_tokens\": 5, \"model\": {\"type\": \"BPE\"}}",
         "added_tokens = 5 should be a list"},
        {"{\"added_tokens\": [5], \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, "
         "\"merges\": []}}",
         "an added token should be an object"},
        {"{\"added_tokens\": [{\"id\": 0, \"content\": \"a\", \"special\": 1}], \"model\": "
         "{\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}}",
         "special = 1 should be true or false"},
        {"{\"truncation\": 5, \"model\": {\"type\": \"BPE\"}}",
         "truncation = 5 should be an object or null"},
        {"{\"pre_tokenizer\": [], \"model\": {\"type\": \"BPE\"}}", "pre_tokenizer = []"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": null}}",
         "merges = null should be a list"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}}}", "merges"},
        {"{\"model\": {\"type\": \"BPE\", \"merges\": []}}", "vocab"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": [], \"merges\": []}}", "vocab = []"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [], "
         "\"byte_fallback\": \"x\"}}",
         "byte_fallback = \"x\" should be true or false"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [], \"dropout\": "
         "\"0.1\"}}",
         "dropout = \"0.1\" should be a number or null"},
        {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [], "
         "\"unk_token\": 0}}",
         "unk_token = 0"},
        {"{\"pre_tokenizer\": {\"type\": \"Digits\", \"individual_digits\": 1}, \"model\": "
         "{\"type\": \"BPE\"}}",
         "individual_digits = 1"},
        {"{\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [\"Digits\"]}, "
         "\"model\": {\"type\": \"BPE\"}}",
         "a step should be an object"},
        {"{\"decoder\": {\"type\": \"Strip\", \"content\": \" \", \"start\": \"1\"}, "
         "\"model\": {\"type\": \"BPE\"}}",
         "start = \"1\" should be a whole number"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        zt_tokenizer *t;
        FAILS(zt_tokenizer_parse(bad[i].json, strlen(bad[i].json), "file", &t), ZT_ERR_FORMAT,
              bad[i].says);
    }
}

/* Truncation and padding are for batches of requests: transformers sets them anew at each call. */
static void sections_without_effect(void **state)
{
    (void)state;
    static const char json[] =
        "{\"truncation\": {\"max_length\": 2}, \"padding\": {\"pad_id\": 0}, \"model\": "
        "{\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}}";
    zt_tokenizer *t;
    zt_encoder *e;
    zt_ids ids = {0};
    OK(zt_tokenizer_parse(json, sizeof json - 1, "file", &t));
    OK(zt_encoder_create(t, &e));
    OK(zt_encode(e, "aaa", 3, true, &ids));
    assert_int_equal(ids.count, 3);
    zt_ids_free(&ids);
    zt_encoder_free(&e);
    zt_tokenizer_free(&t);
}

/* What a pattern says in Ruby's syntax and PCRE2 would read in another way, or not at all. */
static void refused_patterns(void **state)
{
    (void)state;
    static const char *const bad[][2] = {{"\\\\b", "\\b"},
                                         {"\\\\h+", "\\h"},
                                         {"[a&&b]", "a class in a class"},
                                         {"[[:alpha:]]", "a class in a class"},
                                         {"a{1,3}+", "}+"},
                                         {"a{,3}", "{,"},
                                         {"(?i)a", "(?i"},
                                         {"(*UCP)a", "(*"},
                                         {"[]a]", "[]"},
                                         {"a\\\\", "\\"},
                                         {"[\\\\W]", "\\W"},
                                         {"\\\\p{L", "{ without }"},
                                         {"(", "parenthesis"},
                                         {"", "nothing"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char json[400];
        zt_tokenizer *t;
        (void)snprintf(
            json, sizeof json,
            "{\"pre_tokenizer\": {\"type\": \"Split\", \"behavior\": \"Isolated\", \"pattern\": "
            "{\"Regex\": \"%s\"}}, \"model\": {\"type\": \"BPE\"}}",
            bad[i][0]);
        FAILS(zt_tokenizer_parse(json, strlen(json), "file", &t), ZT_ERR_FORMAT, bad[i][1]);
    }
}

/* A file cut short anywhere is refused, and leaves nothing behind. */
static void cut_short(void **state)
{
    (void)state;
    size_t size;
    char *text = golden("smollm2", "json", &size);
    for (size_t n = 0; n < size; n += n < 2000 ? 1 : 97) {
        zt_tokenizer *t;
        FAILS(zt_tokenizer_parse(text, n, "file", &t), ZT_ERR_FORMAT, "file");
    }
    zt_free(text);
}

static void failing_allocations(void **state)
{
    (void)state;
    static const char *const kinds[] = {"smollm2", "qwen2", "llama2", "unknown", "splits"};
    static const char input[] =
        "hello wor ld, 123\xff \xC3\xA9\xCC\x81\xCC\x81 \xEA\x9F\x8B <s> don't";
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        size_t size, length;
        char *text = golden(kinds[k], "json", &size);
        for (int nth = 1, left = 1; left; nth += nth > 60 && nth < 900 ? 17 : 1) {
            zt_tokenizer *t = NULL;
            zt_encoder *e = NULL;
            zt_ids ids = {0};
            char *back = NULL;
            zt_fault_alloc(nth);
            zt_status s = zt_tokenizer_parse(text, size, "file", &t);
            if (s == ZT_OK) s = zt_encoder_create(t, &e);
            if (s == ZT_OK) s = zt_encode(e, input, sizeof input - 1, true, &ids);
            if (s == ZT_OK) s = zt_decode(t, ids.data, ids.count, false, &back, &length);
            zt_fault_alloc(-1);
            left = s != ZT_OK;
            if (left) assert_int_equal(s, ZT_ERR_NOMEM);
            zt_free(back);
            zt_ids_free(&ids);
            zt_encoder_free(&e);
            zt_tokenizer_free(&t);
        }
        zt_free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_library),      cmocka_unit_test(cached_or_not),
        cmocka_unit_test(plain_bytes),         cmocka_unit_test(long_runs),
        cmocka_unit_test(looked_up),           cmocka_unit_test(refused_by_name),
        cmocka_unit_test(refused_patterns),    cmocka_unit_test(cut_short),
        cmocka_unit_test(failing_allocations), cmocka_unit_test(sections_without_effect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
