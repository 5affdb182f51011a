/* test_file.c - transfers and folders; a file appears whole or not at all, whatever call fails. */
#include "base/file.h"
#include "harness.h"

#include <fcntl.h>
#include <unistd.h>

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/zt_file_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return zt_folder_remove(folder) == ZT_OK && !zt_path_exists(folder) ? 0 : -1;
}

/* A path in the test's folder; the four last ones stay usable. */
static const char *in(const char *name)
{
    static char paths[4][256];
    static int next;
    char *p = paths[next++ % 4];
    (void)snprintf(p, sizeof paths[0], "%s/%s", folder, name);
    return p;
}

static void assert_holds(const char *path, const char *want)
{
    char *data;
    size_t size;
    OK(zt_file_read_all(path, &data, &size));
    assert_int_equal(size, strlen(want));
    assert_string_equal(data, want);
    zt_free(data);
}

static int count_names(const char *path)
{
    char **names;
    int n = 0;
    OK(zt_folder_list(path, &names));
    while (names[n])
        n++;
    zt_names_free(names);
    return n;
}

static void written_is_read(void **state)
{
    (void)state;
    const size_t n = (3u << 20) + 17; /* more than the buffer, no multiple of it */
    unsigned char *x = malloc(n);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = (unsigned char)(i * 31 + i / 4096);
    zt_out *out;
    OK(zt_out_open(in("big"), &out));
    const size_t steps[] = {1, 100, 1u << 20, 5, (1u << 20) + 1, 4096};
    size_t at = 0;
    for (int i = 0; at < n; i++) {
        size_t step = steps[i % 6] < n - at ? steps[i % 6] : n - at;
        OK(zt_out_write(out, x + at, step));
        at += step;
        assert_int_equal(zt_out_offset(out), at);
        assert_false(zt_path_exists(in("big"))); /* not before it is whole */
    }
    OK(zt_out_commit(&out));
    assert_null(out);
    assert_int_equal(zt_path_size(in("big")), n);
    assert_false(zt_path_exists(in("big.tmp")));
    zt_map map;
    OK(zt_map_open(in("big"), &map));
    assert_int_equal(map.size, n);
    SAME_BITS(map.data, x, n);
    zt_map_close(&map);
    OK(zt_file_copy(in("big"), in("copy")));
    char *data;
    size_t size;
    OK(zt_file_read_all(in("copy"), &data, &size));
    assert_int_equal(size, n);
    assert_int_equal(data[n], 0);
    SAME_BITS(data, x, n);
    zt_free(data);
    free(x);
}

static void empty_files(void **state)
{
    (void)state;
    zt_map map;
    OK(zt_file_write_all(in("empty"), "", 0));
    OK(zt_map_open(in("empty"), &map));
    assert_true(!map.data && map.size == 0);
    zt_map_close(&map);
    OK(zt_file_copy(in("empty"), in("empty2")));
    assert_holds(in("empty2"), "");
}

static void discarded_leaves_nothing(void **state)
{
    (void)state;
    zt_out *out = NULL;
    zt_out_discard(&out);
    OK(zt_out_open(in("gone"), &out));
    OK(zt_out_write(out, "x", 1));
    zt_out_discard(&out);
    assert_null(out);
    assert_false(zt_path_exists(in("gone")) || zt_path_exists(in("gone.tmp")));
}

static void transfers_at_offsets(void **state)
{
    (void)state;
    char text[8] = {0};
    int fd = open(in("raw"), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    OK(zt_pwrite_all(fd, "raw", "abcdef", 6, 2));
    OK(zt_pread_all(fd, "raw", text, 4, 4));
    assert_string_equal(text, "cdef");
    FAILS(zt_pread_all(fd, "raw", text, 4, 6), ZT_ERR_FORMAT,
          "raw ends at byte 8, but 10 are needed");
    (void)close(fd);
    fd = open(in("raw"), O_RDONLY);
    FAILS(zt_pwrite_all(fd, "raw", "x", 1, 5), ZT_ERR_IO, "writing 1 bytes at 5 of raw");
    (void)close(fd);
}

static void full_devices_are_told(void **state)
{
    (void)state;
    int fd = open("/dev/full", O_WRONLY);
    if (fd < 0) skip();
    FAILS(zt_pwrite_all(fd, "/dev/full", "x", 1, 0), ZT_ERR_IO, "No space left");
    (void)close(fd);
}

static void complaints_name_the_path(void **state)
{
    (void)state;
    char *data;
    size_t size;
    zt_map map;
    zt_out *out;
    char **names;
    FAILS(zt_file_read_all(in("none"), &data, &size), ZT_ERR_IO, "/none: No such file");
    FAILS(zt_file_read_all(folder, &data, &size), ZT_ERR_IO, "is not a regular file");
    FAILS(zt_map_open(in("none"), &map), ZT_ERR_IO, "/none");
    FAILS(zt_out_open(in("no/such/folder"), &out), ZT_ERR_IO, "cannot create");
    FAILS(zt_folder_list(in("none"), &names), ZT_ERR_IO, "/none");
    FAILS(zt_path_glob(in("none*"), &names), ZT_ERR_IO, "no file matches");
    FAILS(zt_path_rename(in("none"), in("other")), ZT_ERR_IO, "cannot rename");
    OK(zt_file_write_all(in("plain"), "x", 1));
    FAILS(zt_folder_make(in("plain/sub")), ZT_ERR_IO, "cannot make the folder");
    FAILS(zt_folder_make(in("plain")), ZT_ERR_IO, "cannot make the folder");
    assert_int_equal(zt_path_size(in("none")), -1);
}

static void folders(void **state)
{
    (void)state;
    OK(zt_folder_make(in("a/b//c/")));
    OK(zt_folder_make(in("a/b/c"))); /* again is fine */
    assert_true(zt_path_is_folder(in("a/b/c")));
    const char *const names[] = {"z.txt", "b.txt", "a.bin"};
    for (int i = 0; i < 3; i++) {
        char *path = zt_path_join(in("a/b"), names[i]);
        OK(zt_file_write_all(path, names[i], 1));
        zt_free(path);
    }
    char **list;
    OK(zt_folder_list(in("a/b"), &list));
    const char *const want[] = {"a.bin", "b.txt", "c", "z.txt"};
    for (int i = 0; i < 4; i++)
        assert_string_equal(list[i], want[i]);
    assert_null(list[4]);
    zt_names_free(list);
    OK(zt_path_glob(in("a/b/*.txt"), &list));
    assert_string_equal(list[0], in("a/b/b.txt"));
    assert_string_equal(list[1], in("a/b/z.txt"));
    assert_null(list[2]);
    zt_names_free(list);
    zt_names_free(NULL);
    OK(zt_file_write_all(in("keep"), "k", 1)); /* a link's target is not removed with the link */
    assert_int_equal(symlink(in("keep"), in("a/link")), 0);
    OK(zt_path_rename(in("a"), in("moved")));
    OK(zt_folder_remove(in("moved")));
    assert_false(zt_path_exists(in("moved")));
    assert_holds(in("keep"), "k");
    OK(zt_folder_remove(in("moved")));        /* nothing to do */
    for (int there = 0; there < 2; there++) { /* where nothing is, and where something is */
        OK(zt_folder_make(in("new/deep")));
        OK(zt_folder_replace(in("new"), in("old")));
        assert_true(zt_path_exists(in("old/deep")) && !zt_path_exists(in("new")));
        OK(zt_file_write_all(in("old/of before"), "x", 1));
    }
    OK(zt_folder_make(in("new")));
    OK(zt_folder_replace(in("new"), in("old")));
    assert_false(zt_path_exists(in("old/of before")) || zt_path_exists(in("new")));
    OK(zt_folder_make(in("new")));
    FAILS(zt_folder_replace(in("new"), in("keep")), ZT_ERR_IO, "move it away");
    char *joined = zt_path_join("x/", "y");
    assert_string_equal(joined, "x/y");
    zt_free(joined);
}

/* Runs `once` with the n-th operation failing, n = 1, 2, ..., until it passes; returns how many failed. */
static int until_it_passes(void (*arm)(int64_t), zt_status (*once)(void), void (*check)(void))
{
    for (int64_t n = 1; n < 1000; n++) {
        zt_error_clear();
        arm(n);
        zt_status status = once();
        arm(-1);
        if (status == ZT_OK) return (int)n - 1;
        assert_true(status == ZT_ERR_NOMEM || status == ZT_ERR_IO);
        assert_true(strlen(zt_error_message()) > 10);
        check();
    }
    fail_msg("it never passes");
    return -1;
}

static zt_status rewrite(void)
{
    return zt_file_write_all(in("f/old"), "the new text", 12);
}

static void old_or_new(void)
{
    char *data;
    size_t size;
    OK(zt_file_read_all(in("f/old"), &data, &size));
    assert_true(strcmp(data, "old") == 0 || strcmp(data, "the new text") == 0);
    zt_free(data);
    assert_int_equal(count_names(in("f")), 1); /* no half-written file beside it */
}

static zt_status read_back(void)
{
    char *data;
    size_t size;
    zt_map map;
    ZT_TRY(zt_file_read_all(in("f/old"), &data, &size));
    zt_free(data);
    ZT_TRY(zt_map_open(in("f/old"), &map));
    zt_map_close(&map);
    return ZT_OK;
}

static zt_status list_and_remove(void)
{
    char **names;
    ZT_TRY(zt_folder_make(in("f/x/y")));
    ZT_TRY(zt_folder_list(in("f"), &names));
    zt_names_free(names);
    ZT_TRY(zt_path_glob(in("f/*"), &names));
    zt_names_free(names);
    return zt_folder_remove(in("f/x"));
}

static void nothing(void) {}

static void every_call_fails_once(void **state)
{
    (void)state;
    OK(zt_folder_make(in("f")));
    OK(zt_file_write_all(in("f/old"), "old", 3));
    assert_true(until_it_passes(zt_fault_io, rewrite, old_or_new) >=
                6); /* open write sync rename ... */
    assert_holds(in("f/old"), "the new text");
    OK(zt_file_write_all(in("f/old"), "old", 3));
    assert_true(until_it_passes(zt_fault_alloc, rewrite, old_or_new) >= 4);
    assert_true(until_it_passes(zt_fault_io, read_back, old_or_new) >= 4);
    assert_true(until_it_passes(zt_fault_alloc, read_back, old_or_new) >= 1);
    assert_true(until_it_passes(zt_fault_io, list_and_remove, nothing) >= 6);
    assert_true(until_it_passes(zt_fault_alloc, list_and_remove, nothing) >= 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_is_read),
        cmocka_unit_test(empty_files),
        cmocka_unit_test(discarded_leaves_nothing),
        cmocka_unit_test(transfers_at_offsets),
        cmocka_unit_test(full_devices_are_told),
        cmocka_unit_test(complaints_name_the_path),
        cmocka_unit_test(folders),
        cmocka_unit_test(every_call_fails_once),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
