/* test_safetensors.c - written files are read back; every false claim of a header or an index is found. */
#include "base/file.h"
#include "base/json.h"
#include "harness.h"
#include "io/safetensors.h"

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/zt_tensors_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return zt_folder_remove(folder) == ZT_OK ? 0 : -1;
}

static const char *in(const char *name)
{
    static char paths[4][256];
    static int next;
    char *p = paths[next++ % 4];
    (void)snprintf(p, sizeof paths[0], "%s/%s", folder, name);
    return p;
}

static zt_tensor describe(const char *name, zt_dtype type, int n_dims, int64_t a, int64_t b,
                          int64_t c)
{
    zt_tensor t = {.name = name, .type = type, .n_dims = n_dims, .shape = {a, b, c}, .numel = 1};
    for (int d = 0; d < n_dims; d++)
        t.numel *= t.shape[d];
    t.bytes = (size_t)t.numel * zt_dtype_bytes(type);
    return t;
}

enum { N = 9 };
static void describe_all(zt_tensor t[N])
{
    t[0] = describe("z", ZT_F32, 2, 3, 5, 0);
    t[1] = describe("bf", ZT_BF16, 1, 7, 0, 0);
    t[2] = describe("half", ZT_F16, 3, 2, 1, 3);
    t[3] = describe("double", ZT_F64, 1, 2, 0, 0); /* not at a multiple of 8 */
    t[4] = describe("long", ZT_I64, 0, 0, 0, 0);   /* a scalar */
    t[5] = describe("none", ZT_I32, 2, 0, 4, 0);   /* no element */
    t[6] = describe("int", ZT_I32, 1, 1, 0, 0);
    t[7] = describe("byte", ZT_U8, 1, 3, 0, 0);
    t[8] = describe("a \"name\" \xC3\xA9", ZT_I8, 1, 5, 0, 0);
}

static zt_status write_all(const char *path, const zt_tensor *t, int n, size_t step)
{
    const char *const meta[] = {"step", "12", "by", "test", NULL};
    zt_weights_out *out = NULL;
    ZT_TRY(zt_weights_create(path, t, n, meta, &out));
    size_t total = 0;
    for (int i = 0; i < n; i++)
        total += t[i].bytes;
    for (size_t at = 0; at < total;) {
        unsigned char block[64];
        size_t here = step < total - at ? step : total - at;
        for (size_t i = 0; i < here; i++)
            block[i] = (unsigned char)((at + i) * 7 + 1);
        zt_status status = zt_weights_write(out, block, here);
        if (status != ZT_OK) {
            zt_weights_discard(&out);
            return status;
        }
        at += here;
    }
    return zt_weights_commit(&out);
}

/* The tensors hold the bytes 1, 8, 15, ... in the order of writing. */
static void check_all(const zt_weights *w, const zt_tensor *t, int n)
{
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        const zt_tensor *r = zt_weights_find(w, t[i].name);
        assert_non_null(r);
        assert_true(r->type == t[i].type && r->n_dims == t[i].n_dims && r->numel == t[i].numel &&
                    r->bytes == t[i].bytes);
        for (int d = 0; d < r->n_dims; d++)
            assert_int_equal(r->shape[d], t[i].shape[d]);
        assert_int_equal((uintptr_t)r->data % zt_dtype_bytes(r->type), 0);
        for (size_t k = 0; k < r->bytes; k++, at++)
            assert_int_equal(((const unsigned char *)r->data)[k], (unsigned char)(at * 7 + 1));
    }
}

static void written_is_read(void **state)
{
    (void)state;
    zt_tensor t[N];
    describe_all(t);
    for (size_t step = 1; step <= 64; step += 21) {
        OK(write_all(in("x.safetensors"), t, N, step));
        zt_weights *w;
        OK(zt_weights_open(in("x.safetensors"), &w));
        assert_int_equal(zt_weights_count(w), N);
        check_all(w, t, N);
        for (int i = 1; i < N; i++)
            assert_true(strcmp(zt_weights_at(w, i - 1)->name, zt_weights_at(w, i)->name) < 0);
        assert_string_equal(zt_weights_at(w, 0)->file, in("x.safetensors"));
        assert_null(zt_weights_find(w, "absent"));
        assert_null(zt_weights_find(w, "__metadata__"));
        assert_string_equal(zt_weights_metadata(w, "format"), "pt");
        assert_string_equal(zt_weights_metadata(w, "step"), "12");
        assert_null(zt_weights_metadata(w, "absent"));
        zt_weights_close(&w);
        assert_null(w);
        zt_weights_close(&w);
    }
    zt_weights *w;
    OK(write_all(in("empty.safetensors"), t, 0, 1)); /* no tensor at all */
    OK(zt_weights_open(in("empty.safetensors"), &w));
    assert_int_equal(zt_weights_count(w), 0);
    zt_weights_close(&w);
}

static void wrong_amounts_are_refused(void **state)
{
    (void)state;
    zt_tensor t[2] = {describe("a", ZT_F32, 1, 2, 0, 0), describe("a", ZT_F32, 1, 2, 0, 0)};
    zt_weights_out *out = NULL;
    FAILS(zt_weights_create(in("w"), t, 2, NULL, &out), ZT_ERR_ARG, "a would be written twice");
    OK(zt_weights_create(in("w"), t, 1, NULL, &out));
    OK(zt_weights_write(out, "1234567", 7));
    FAILS(zt_weights_write(out, "12", 2), ZT_ERR_ARG, "more data");
    FAILS(zt_weights_commit(&out), ZT_ERR_ARG, "1 bytes of tensors were not given");
    assert_null(out);
    assert_false(zt_path_exists(in("w")) || zt_path_exists(in("w.tmp")));
}

/* A file image: the header and then n bytes of data, behind `off` bytes to misplace it. */
static zt_status parse(const char *header, size_t n, zt_weights **w)
{
    const size_t length = strlen(header);
    uint8_t *image = calloc(1, 8 + length + n); /* the exact size: sanitizers see overruns */
    assert_non_null(image);
    for (int i = 0; i < 8; i++)
        image[i] = (uint8_t)(length >> 8 * i);
    memcpy(image + 8, header, length);
    zt_status status = zt_weights_parse(image, 8 + length + n, "file", w);
    if (status == ZT_OK) zt_weights_close(w);
    free(image);
    return status;
}

#define T(dtype, shape, offsets)                                                                   \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void false_headers_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *header, *complaint;
        size_t data;
    } bad[] = {
        {"{\"a\":" T("F32", "[2]", "[0,4]") "}", "a takes 8 bytes, but its offsets are 0..4", 8},
        {"{\"a\":" T("F32", "[2]", "[0,8]") "}", "truncated: tensor a ends at byte 8", 7},
        {"{\"a\":" T("F32", "[2]", "[8,0]") "}", "its offsets are 8..0", 8},
        {"{\"a\":" T("F32", "[2]", "[-8,0]") "}", "its offsets are -8..0", 8},
        {"{\"a\":" T("F32", "[2]", "[0]") "}", "no data_offsets", 8},
        {"{\"a\":" T("F32", "[2]", "[0,8,8]") "}", "no data_offsets", 8},
        {"{\"a\":" T("F32", "[2]", "[0,8.0]") "}", "no data_offsets", 8},
        {"{\"a\":" T("F32", "[2]", "\"0,8\"") "}", "no data_offsets", 8},
        {"{\"a\":" T("F32", "[-2]", "[0,8]") "}", "impossible shape", 8},
        {"{\"a\":" T("F32", "[2.0]", "[0,8]") "}", "impossible shape", 8},
        {"{\"a\":" T("F32", "[4294967296,4294967296]", "[0,0]") "}", "impossible shape", 8},
        {"{\"a\":" T("F64", "[2305843009213693952]", "[0,0]") "}", "impossible shape", 8},
        {"{\"a\":" T("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", "at most 8 dimensions", 4},
        {"{\"a\":" T("F32", "2", "[0,8]") "}", "no shape", 8},
        {"{\"a\":" T("F8_E4M3", "[2]", "[0,2]") "}", "F8_E4M3, which is not supported", 2},
        {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", "(none), which is not supported", 8},
        {"{\"a\":7}", "(none), which is not supported", 8},
        {"{\"a\\nerror: \\u001b[1m\":7}", "tensor a\\x0aerror: \\x1b[1m has", 8},
        {"{\"a\":" T("U8", "[5]", "[0,5]") ",\"b\":" T("U8", "[4]", "[4,8]") "}", "a and b overlap",
         8},
        {"{\"a\":" T("U8", "[8]", "[0,8]") ",\"b\":" T("U8", "[2]", "[2,4]") "}", "a and b overlap",
         8},
        {"{\"a\":" T("U8", "[2]", "[0,2]") ",\"b\":" T("U8", "[4]", "[4,8]") "}",
         "2 bytes before tensor b", 8},
        {"{\"a\":" T("U8", "[2]", "[0,2]") "}", "1 bytes after the last tensor", 3},
        {"{}", "1 bytes after the last tensor", 1},
        {"{\"a\":" T("U8", "[1]", "[0,1]") ",\"a\":" T("U8", "[1]", "[1,2]") "}", "duplicate", 2},
        {"[]", "not an object", 0},
        {"{\"a\":", "file:1:", 0},
        {"", "file:1:", 0},
    };
    zt_weights *w = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        FAILS(parse(bad[i].header, bad[i].data, &w), ZT_ERR_FORMAT, bad[i].complaint);
    /* and these are right */
    OK(parse("{\"a\":" T("U8", "[2]", "[0,2]") ",\"e\":" T("F32", "[0]", "[2,2]") ",\"b\":" T(
                 "F32", "[]", "[2,6]") "}   ",
             6, &w));
    OK(parse("{\"a\":" T("BOOL", "[2]", "[0,2]") "}", 2, &w));
    OK(parse("{\"__metadata__\":{\"format\":\"pt\"}}", 0, &w));
    const uint8_t huge[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'};
    FAILS(zt_weights_parse(huge, 16, "file", &w), ZT_ERR_FORMAT, "no safetensors file");
    for (size_t n = 0; n < 8; n++)
        FAILS(zt_weights_parse(huge, n, "file", &w), ZT_ERR_FORMAT, "no safetensors file");
    FAILS(zt_weights_parse(NULL, 0, "file", &w), ZT_ERR_FORMAT, "no safetensors file");
}

/* Cut anywhere, a file is refused; with any byte changed, it is refused or read without harm. */
static void damaged_files(void **state)
{
    (void)state;
    zt_tensor t[N];
    zt_weights *w = NULL;
    char *image;
    size_t size;
    describe_all(t);
    OK(write_all(in("d.safetensors"), t, N, 64));
    OK(zt_file_read_all(in("d.safetensors"), &image, &size));
    for (size_t n = 0; n < size; n++) {
        uint8_t *part = malloc(n ? n : 1);
        assert_non_null(part);
        memcpy(part, image, n);
        FAILS(zt_weights_parse(part, n, "file", &w), ZT_ERR_FORMAT, "file");
        free(part);
    }
    for (size_t i = 0; i < size; i++) {
        const char old = image[i];
        for (int bit = 0; bit < 8; bit += 3) {
            image[i] = (char)(old ^ 1 << bit);
            if (zt_weights_parse((uint8_t *)image, size, "file", &w) == ZT_OK) zt_weights_close(&w);
        }
        image[i] = old;
    }
    zt_free(image);
}

/* ---- folders ---- */
static void shards_are_planned(void **state)
{
    (void)state;
    zt_tensor t[5] = {describe("a", ZT_F32, 1, 10, 0, 0), describe("b", ZT_F32, 1, 15, 0, 0),
                      describe("c", ZT_F32, 1, 50, 0, 0), describe("d", ZT_F32, 1, 0, 0, 0),
                      describe("e", ZT_F32, 1, 1, 0, 0)};
    zt_shard_plan p;
    OK(zt_shard_plan_make(t, 5, 100, &p)); /* 40 + 60, 200 alone though too large, 0, 4 */
    const int want[] = {0, 0, 1, 2, 2};
    assert_int_equal(p.n_shards, 3);
    for (int i = 0; i < 5; i++)
        assert_int_equal(p.shard_of[i], want[i]);
    assert_string_equal(p.file[0], "model-00001-of-00003.safetensors");
    assert_string_equal(p.file[2], "model-00003-of-00003.safetensors");
    zt_shard_plan_free(&p);
    OK(zt_shard_plan_make(t, 5, 1000, &p));
    assert_int_equal(p.n_shards, 1);
    assert_string_equal(p.file[0], "model.safetensors");
    OK(zt_shard_index_write(folder, t, 5, &p));
    assert_false(zt_path_exists(in("model.safetensors.index.json")));
    zt_shard_plan_free(&p);
    OK(zt_shard_plan_make(t, 0, 1000, &p));
    assert_int_equal(p.n_shards, 1);
    zt_shard_plan_free(&p);
}

/* Shards "m/model-0000s-of-00002" with tensors a, b | c, each with its own counting bytes. */
static void write_shards(zt_tensor t[3], zt_shard_plan *p)
{
    t[0] = describe("a", ZT_F32, 1, 4, 0, 0);
    t[1] = describe("b", ZT_F32, 1, 2, 0, 0);
    t[2] = describe("c", ZT_F32, 2, 2, 3, 0);
    OK(zt_folder_make(in("m")));
    OK(zt_shard_plan_make(t, 3, 24, p));
    assert_int_equal(p->n_shards, 2);
    char *one = zt_path_join(in("m"), p->file[0]), *two = zt_path_join(in("m"), p->file[1]);
    OK(write_all(one, t, 2, 64));
    OK(write_all(two, t + 2, 1, 64));
    OK(zt_shard_index_write(in("m"), t, 3, p));
    zt_free(one);
    zt_free(two);
}

static void write_index(const char *map)
{
    char text[512];
    int n = snprintf(text, sizeof text, "{\"metadata\":{},\"weight_map\":%s}", map);
    OK(zt_file_write_all(in("m/model.safetensors.index.json"), text, (size_t)n));
}

#define ONE "\"model-00001-of-00002.safetensors\""
#define TWO "\"model-00002-of-00002.safetensors\""

static void sharded_folders(void **state)
{
    (void)state;
    zt_tensor t[3];
    zt_shard_plan p;
    zt_weights *w;
    FAILS(zt_weights_open(folder, &w), ZT_ERR_IO, "no model.safetensors");
    write_shards(t, &p);
    OK(zt_weights_open(in("m"), &w));
    assert_int_equal(zt_weights_count(w), 3);
    check_all(w, t, 2);
    check_all(w, t + 2, 1);
    zt_weights_close(&w);
    json_t *index;
    OK(zt_json_load(in("m/model.safetensors.index.json"), &index));
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(index, "metadata"), "total_size")), 48);
    json_decref(index);

    write_index("{\"b\":" ONE ",\"c\":" TWO "}"); /* a is in a file that is named */
    OK(zt_weights_open(in("m"), &w));
    check_all(w, t, 2);
    zt_weights_close(&w);
    write_index("{\"a\":" ONE ",\"b\":" TWO ",\"c\":" TWO "}");
    FAILS(zt_weights_open(in("m"), &w), ZT_ERR_FORMAT,
          "says that b is in model-00002-of-00002.safetensors");
    write_index("{\"a\":" ONE ",\"b\":" ONE ",\"c\":" TWO ",\"d\":" TWO "}");
    FAILS(zt_weights_open(in("m"), &w), ZT_ERR_FORMAT,
          "d is in model-00002-of-00002.safetensors, but it is "
          "nowhere");
    write_index("{\"a\":\"model-00009-of-00002.safetensors\"}");
    FAILS(zt_weights_open(in("m"), &w), ZT_ERR_IO,
          "model-00009-of-00002.safetensors: No such file");
    write_index("{\"a\":\"../x.safetensors\"}");
    FAILS(zt_weights_open(in("m"), &w), ZT_ERR_FORMAT, "not the name of a file");
    write_index("{\"a\":3}");
    FAILS(zt_weights_open(in("m"), &w), ZT_ERR_FORMAT, "not the name of a file");
    write_index("{}");
    FAILS(zt_weights_open(in("m"), &w), ZT_ERR_FORMAT, "has no weight_map");
    write_index("[]");
    FAILS(zt_weights_open(in("m"), &w), ZT_ERR_FORMAT, "has no weight_map");
    OK(zt_file_copy(in("m/model-00001-of-00002.safetensors"), in("m/copy.safetensors")));
    write_index("{\"a\":" ONE ",\"b\":" ONE ",\"c\":" TWO ",\"x\":\"copy.safetensors\"}");
    FAILS(zt_weights_open(in("m"), &w), ZT_ERR_FORMAT, "the tensor a is in");
    zt_shard_plan_free(&p);
}

/* ---- every call fails once ---- */
static zt_tensor all[N];

static zt_status rewrite(void)
{
    return write_all(in("old.safetensors"), all, N, 64);
}

static zt_status reread(void)
{
    zt_weights *w;
    ZT_TRY(zt_weights_open(in("m"), &w));
    zt_weights_close(&w);
    ZT_TRY(zt_weights_open(in("old.safetensors"), &w));
    zt_weights_close(&w);
    return ZT_OK;
}

static zt_status replan(void)
{
    zt_shard_plan p;
    ZT_TRY(zt_shard_plan_make(all, N, 24, &p));
    zt_status status = zt_shard_index_write(in("i"), all, N, &p);
    zt_shard_plan_free(&p);
    return status;
}

static int until_it_passes(void (*arm)(int64_t), zt_status (*once)(void))
{
    for (int64_t n = 1; n < 5000; n++) {
        arm(n);
        zt_status status = once();
        arm(-1);
        if (status == ZT_OK) return (int)n - 1;
        assert_false(zt_path_exists(in("old.safetensors.tmp")));
        zt_weights *w; /* what was there is whole */
        OK(zt_weights_open(in("old.safetensors"), &w));
        zt_weights_close(&w);
    }
    fail_msg("it never passes");
    return -1;
}

static void every_call_fails_once(void **state)
{
    (void)state;
    zt_tensor t[3];
    zt_shard_plan p;
    write_shards(t, &p);
    zt_shard_plan_free(&p);
    describe_all(all);
    OK(zt_folder_make(in("i")));
    OK(write_all(in("old.safetensors"), all, 3, 64));
    assert_true(until_it_passes(zt_fault_io, rewrite) >= 5);
    assert_true(until_it_passes(zt_fault_io, reread) >= 6);
    assert_true(until_it_passes(zt_fault_io, replan) >= 5);
    json_set_alloc_funcs(zt_malloc, zt_free); /* its allocations count too */
    OK(write_all(in("old.safetensors"), all, 3, 64));
    assert_true(until_it_passes(zt_fault_alloc, rewrite) >= 50);
    assert_true(until_it_passes(zt_fault_alloc, reread) >= 100);
    assert_true(until_it_passes(zt_fault_alloc, replan) >= 20);
    json_set_alloc_funcs(malloc, free);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_is_read),         cmocka_unit_test(wrong_amounts_are_refused),
        cmocka_unit_test(false_headers_are_found), cmocka_unit_test(damaged_files),
        cmocka_unit_test(shards_are_planned),      cmocka_unit_test(sharded_folders),
        cmocka_unit_test(every_call_fails_once),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
