/* fuzz_safetensors.c - any file image is refused, or each byte of its tensors can be read. */
#include "io/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zt_weights *w = NULL;
    if (zt_weights_parse(data, size, "fuzz", &w) != ZT_OK) return 0;
    float sum = 0; /* makes sure that each is read */
    for (int i = 0; i < zt_weights_count(w); i++) {
        const zt_tensor *t = zt_weights_at(w, i);
        ZT_ASSERT(t->bytes == (size_t)t->numel * zt_dtype_bytes(t->type));
        ZT_ASSERT(zt_weights_find(w, t->name) == t);
        for (int64_t k = 0; k < t->numel; k++)
            sum += zt_load_f32(t->data, t->type, k);
    }
    if (sum == 12345) zt_log(ZT_LOG_DEBUG, "%g", (double)sum);
    (void)zt_weights_metadata(w, "format");
    zt_weights_close(&w);
    return 0;
}
