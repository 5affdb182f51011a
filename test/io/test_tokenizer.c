/* test_tokenizer.c - ids and texts exactly as the tokenizers library gives them (golden files of
 * tools/make_tokenizer_golden.py), refusals, and failing allocations. */
#include "base/file.h"
#include "harness.h"
#include "io/tokenizer.h"

#include <stdio.h>

static const char *const names[] = {"gpt2",  "prefix", "llama3",   "smollm2",
                                    "qwen2", "llama2", "metaspace"};

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

static size_t from_hex(const char *s, const char *end, char *out)
{
    size_t n = 0;
    for (; s + 1 < end; s += 2) {
        unsigned x;
        assert_int_equal(sscanf((char[]){s[0], s[1], 0}, "%2x", &x), 1);
        out[n++] = (char)x;
    }
    return n;
}

static void same_ids(const char *name, int line, const char *s, const char *end, const zt_ids *got)
{
    size_t i = 0;
    for (char *next; s < end; s = next + (*next == ' ')) {
        long x = strtol(s, &next, 10);
        if (i >= got->count || got->data[i] != x)
            fail_msg("%s, case %d: id %zu is %d, wanted %ld", name, line, i,
                     i < got->count ? got->data[i] : -1, x);
        i++;
    }
    if (i != got->count) fail_msg("%s, case %d: %zu ids, wanted %zu", name, line, got->count, i);
}

static void as_the_library(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        zt_tokenizer *t = load(names[k]);
        zt_encoder *e;
        OK(zt_encoder_create(t, &e));
        size_t size;
        char *cases = golden(names[k], "cases", &size), *line = cases;
        static char input[1 << 16], want[1 << 16];
        for (int n = 1; *line; n++) {
            char *field[6] = {line};
            for (int f = 1; f < 6; f++)
                field[f] = field[f - 1] + strcspn(field[f - 1], f < 5 ? "\t" : "\n") + 1;
            size_t length = from_hex(line, field[1] - 1, input);
            for (int special = 0; special < 2; special++) {
                zt_ids ids = {0};
                OK(zt_encode(e, input, length, special, &ids));
                same_ids(names[k], n, field[1 + special], field[2 + special] - 1, &ids);
                for (int skip = 0; special && skip < 2; skip++) {
                    char *text;
                    size_t got, wanted = from_hex(field[3 + skip], field[4 + skip] - 1, want);
                    OK(zt_decode(t, ids.data, ids.count, skip, &text, &got));
                    if (got != wanted || memcmp(text, want, got) != 0)
                        fail_msg("%s, case %d: decoded \"%s\"", names[k], n, text);
                    zt_free(text);
                }
                zt_ids_free(&ids);
            }
            line = field[5];
        }
        zt_free(cases);
        zt_encoder_free(&e);
        zt_tokenizer_free(&t);
    }
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

/* A long run without a place to cut must not take the square of its length. */
static void long_runs(void **state)
{
    (void)state;
    zt_tokenizer *t = load("llama2");
    zt_encoder *e;
    zt_ids ids = {0};
    OK(zt_encoder_create(t, &e));
    const size_t n = 1 << 20;
    char *text = malloc(n), *back;
    size_t size;
    for (size_t i = 0; i < n; i++)
        text[i] = "the quick onion "[(i * 7 + i / 13) % 16];
    OK(zt_encode(e, text, n, false, &ids));
    OK(zt_decode(t, ids.data, ids.count, false, &back, &size));
    assert_int_equal(size, n);
    assert_memory_equal(back, text, n);
    zt_free(back);
    free(text);
    zt_ids_free(&ids);
    zt_encoder_free(&e);
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
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        zt_tokenizer *t;
        FAILS(zt_tokenizer_parse(bad[i].json, strlen(bad[i].json), "file", &t), ZT_ERR_FORMAT,
              bad[i].says);
    }
}

static void failing_allocations(void **state)
{
    (void)state;
    size_t size;
    char *text = golden("smollm2", "json", &size);
    for (int nth = 1;; nth++) {
        zt_tokenizer *t = NULL;
        zt_encoder *e = NULL;
        zt_ids ids = {0};
        zt_fault_alloc(nth);
        zt_status s = zt_tokenizer_parse(text, size, "file", &t);
        if (s == ZT_OK) s = zt_encoder_create(t, &e);
        if (s == ZT_OK) s = zt_encode(e, "hello wor ld, 123\xff", 18, true, &ids);
        zt_fault_alloc(-1);
        zt_ids_free(&ids);
        zt_encoder_free(&e);
        zt_tokenizer_free(&t);
        if (s == ZT_OK) break;
        assert_int_equal(s, ZT_ERR_NOMEM);
        if (nth > 50 && nth < 1700) nth += 31; /* one token of the vocabulary is like the other */
    }
    zt_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_library),      cmocka_unit_test(plain_bytes),
        cmocka_unit_test(long_runs),           cmocka_unit_test(refused_by_name),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
