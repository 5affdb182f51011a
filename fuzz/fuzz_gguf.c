/* fuzz_gguf.c - any file image is refused, or its tensors and vocabulary can be read. */
#include "io/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_tensors(const zt_gguf *g)
{
    enum { STEP = 300 }; /* no multiple of a block */
    float x[STEP];
    for (int i = 0; i < zt_gguf_count(g); i++) {
        const zt_gguf_tensor *t = zt_gguf_at(g, i);
        ZT_ASSERT(zt_gguf_find(g, t->name) == t);
        for (int64_t at = 0; at < t->numel; at += STEP)
            ZT_ASSERT(zt_gguf_read_f32(g, t, at, t->numel - at < STEP ? t->numel - at : STEP, x) ==
                      ZT_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zt_gguf *g = NULL;
    json_t *tokenizer = NULL, *config = NULL;
    zt_log_setup(ZT_LOG_ERROR, 0);
    if (zt_gguf_parse(data, size, "fuzz", &g) != ZT_OK) return 0;
    read_tensors(g);
    if (zt_gguf_tokenizer(g, &tokenizer, &config) == ZT_OK) {
        json_decref(tokenizer);
        json_decref(config);
    }
    zt_gguf_close(&g);
    return 0;
}
