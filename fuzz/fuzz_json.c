/* fuzz_json.c - any text is read or refused; what is read survives being written and read again. */
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *j = NULL, *again = NULL;
    if (zt_json_parse((const char *)data, size, "fuzz", &j) != ZT_OK) return 0;
    char *text = NULL;
    size_t n = 0;
    ZT_ASSERT(zt_json_dump(j, JSON_COMPACT, &text, &n) == ZT_OK);
    ZT_ASSERT(zt_json_parse(text, n, "again", &again) == ZT_OK);
    ZT_ASSERT(json_equal(j, again));
    json_decref(again);
    json_decref(j);
    zt_free(text);
    return 0;
}
