/* fuzz_tokenizer.c - text up to a NUL is a tokenizer.json, what follows is encoded and decoded with it; without a NUL the
 * whole is encoded with a small tokenizer. */
#include "io/tokenizer.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char small[] =
    "{\"added_tokens\": [{\"id\": 9, \"content\": \"<s>\", \"special\": true, \"lstrip\": true, "
    "\"rstrip\": true},"
    "{\"id\": 10, \"content\": \"ab c\", \"single_word\": true, \"normalized\": true}],"
    "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}, {\"type\": "
    "\"Replace\", \"pattern\": "
    "{\"String\": \"zz\"}, \"content\": \"\"}]},"
    "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\", "
    "\"individual_digits\": true},"
    "{\"type\": \"Metaspace\", \"prepend_scheme\": \"first\"}]},"
    "\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"ByteFallback\"}, {\"type\": "
    "\"Metaspace\"}]},"
    "\"model\": {\"type\": \"BPE\", \"unk_token\": \"?\", \"fuse_unk\": true, \"byte_fallback\": "
    "true, \"vocab\": {\"a\": 0,"
    "\"b\": 1, \"ab\": 2, \"\\u2581\": 3, \"aba\": 4, \"?\": 5, \"<0xC3>\": 6, \"<0xA4>\": 7, "
    "\"\\u2581a\": 8},"
    "\"merges\": [\"a b\", \"ab a\", \"\\u2581 a\"]}}";

static void use(const zt_tokenizer *t, const char *text, size_t size)
{
    zt_encoder *e;
    zt_ids ids = {0};
    char *out;
    size_t n;
    if (zt_encoder_create(t, &e) != ZT_OK) return;
    if (zt_encode(e, text, size, true, &ids) == ZT_OK &&
        zt_decode(t, ids.data, ids.count, false, &out, &n) == ZT_OK)
        zt_free(out);
    zt_ids_free(&ids);
    zt_encoder_free(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static zt_tokenizer *fixed;
    const char *text = (const char *)data, *end = memchr(text, 0, size);
    zt_tokenizer *t;
    if (!fixed && zt_tokenizer_parse(small, sizeof small - 1, "small", &fixed) != ZT_OK) abort();
    if (!end) {
        use(fixed, text, size);
        return 0;
    }
    const size_t n = (size_t)(end - text);
    if (zt_tokenizer_parse(text, n, "file", &t) == ZT_OK) {
        use(t, end + 1, size - n - 1);
        zt_tokenizer_free(&t);
    }
    return 0;
}
