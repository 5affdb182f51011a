/* bench_tokenizer.c - megabytes a second on one core.
 *
 *     bench_tokenizer TOKENIZER TEXT...     TOKENIZER: a tokenizer.json, its folder, or "bytes" */
#include "base/file.h"
#include "io/tokenizer.h"

#include <stdio.h>

static zt_status measure(const zt_tokenizer *t, const char *path)
{
    char *text;
    size_t size;
    zt_encoder *e;
    ZT_TRY(zt_file_read_all(path, &text, &size));
    ZT_TRY(zt_encoder_create(t, &e));
    double best = 1e9;
    zt_ids ids = {0};
    for (int i = 0; i < 5; i++) {
        ids.count = 0;
        double start = zt_now();
        ZT_TRY(zt_encode(e, text, size, false, &ids));
        double took = zt_now() - start;
        best = took < best ? took : best;
    }
    (void)printf("%s: %.2f MB, %zu tokens, %.1f MB/s\n", path, (double)size / 1e6, ids.count,
                 (double)size / 1e6 / best);
    zt_ids_free(&ids);
    zt_encoder_free(&e);
    zt_free(text);
    return ZT_OK;
}

int main(int argc, char **argv)
{
    zt_tokenizer *t;
    if (argc < 3) {
        (void)fprintf(stderr, "usage: bench_tokenizer TOKENIZER TEXT...\n");
        return 2;
    }
    zt_status status = zt_tokenizer_load(argv[1], &t);
    for (int i = 2; i < argc && status == ZT_OK; i++)
        status = measure(t, argv[i]);
    if (status != ZT_OK) (void)fprintf(stderr, "error: %s\n", zt_error_message());
    return status != ZT_OK;
}
