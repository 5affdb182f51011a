/* fuzz_tokens.c - files of token ids, and token caches, from strangers. The first byte chooses the kind. */
#include "data/internal.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) return 0;
    uint8_t *copy = aligned_alloc(64, (size + 63) / 64 * 64); /* as a map is aligned */
    const size_t n = size - 1;
    if (!copy) return 0;
    memcpy(copy, data + 1, n);
    zt_tokens t = {0};
    zt_cache c = {0};
    uint64_t key = 0;
    if (data[0] % 3 < 2) {
        if (zt_tokens_parse(copy, n, data[0] % 3 ? ZT_SOURCE_BIN : ZT_SOURCE_UINT16, "file", &t) !=
            ZT_OK)
            t.n = 0;
    } else {
        if (n >= 16) memcpy(&key, copy + 8, 8);
        if (zt_cache_parse(copy, n, key, "file", &c) == ZT_OK) t = c.tokens;
    }
    int64_t sum = 0;
    for (int64_t i = 0; i < t.n; i++)
        sum += zt_token_at(&t, i);
    for (int64_t i = 0; i < c.n_documents; i++)
        sum += (int64_t)c.documents[i];
    free(copy);
    return sum == 42 ? 1 : 0;
}
