/* fuzz_config.c - a configuration from strangers: the text up to a NUL is the file, what follows one override. */
#include "base/file.h"
#include "config/config.h"

#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[] = "/tmp/zeroth-fuzz-XXXXXX";
    static int fd = -1;
    if (fd < 0) fd = mkstemp(path);
    const uint8_t *end = memchr(data, 0, size);
    const size_t n = end ? (size_t)(end - data) : size;
    char *override = zt_strndup((const char *)data + n + (end != NULL), size - n - (end != NULL));
    if (fd < 0 || ftruncate(fd, 0) != 0 || zt_pwrite_all(fd, path, data, n, 0) != ZT_OK) abort();
    zt_config *c;
    if (zt_config_load(path, end != NULL, &override, &c) == ZT_OK) {
        free(zt_config_canonical(c, false));
        zt_config_free(&c);
    }
    zt_free(override);
    return 0;
}
