/* replay_main.c - runs a fuzz target over the files of the folders given, without a fuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return 0;
    if (fseek(f, 0, SEEK_END) != 0) {
        (void)fclose(f);
        return 0;
    }
    long size = ftell(f);
    rewind(f);
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1); /* exact size: sanitizers see overruns */
    size_t got = data && size > 0 ? fread(data, 1, (size_t)size, f) : 0;
    (void)fclose(f);
    if (data) (void)LLVMFuzzerTestOneInput(data, got);
    free(data);
    return 1;
}

int main(int argc, char **argv)
{
    int n = 0;
    for (int i = 1; i < argc; i++) {
        DIR *d = opendir(argv[i]);
        if (!d) {
            n += run_file(argv[i]);
            continue;
        }
        for (struct dirent *e; (e = readdir(d));) {
            char path[4096];
            if (e->d_name[0] == '.') continue;
            (void)snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
            n += run_file(path);
        }
        (void)closedir(d);
    }
    (void)printf("%d inputs\n", n);
    return n > 0 ? 0 : 1; /* an empty corpus is a mistake */
}
