/* test_gguf.c - every block format against values packed here, metadata, and false files. */
#include "gguf_build.h"
#include "io/gguf.h"

/* ---- block formats: known integers are packed as the formats' definitions say ---- */
static uint32_t seed = 1;
static int some(int below)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 8) % (uint32_t)below);
}

static float put_half(uint8_t *p, float x)
{
    const uint16_t h = zt_f32_to_f16(x);
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
    return zt_f16_to_f32(h);
}

/* 32 values of 4 or 5 bits, with a least value or centred. */
static void pack_simple(uint8_t *p, int bits, bool has_min, float *want)
{
    const float d = put_half(p, 0.01f * (float)(1 + some(50)));
    const float m = has_min ? put_half(p + 2, -0.1f * (float)some(30)) : 0;
    uint8_t *high = p + (has_min ? 4 : 2), *q = high + (bits == 5 ? 4 : 0);
    for (int i = 0; i < 32; i++) {
        const int v = some(1 << bits);
        if (bits == 5 && v & 16) high[i / 8] |= (uint8_t)(1 << i % 8);
        q[i % 16] |= (uint8_t)((v & 15) << (i < 16 ? 0 : 4));
        want[i] = has_min ? (float)v * d + m : (float)(v - (1 << (bits - 1))) * d;
    }
}
static void pack_q4_0(uint8_t *p, float *want)
{
    pack_simple(p, 4, false, want);
}
static void pack_q4_1(uint8_t *p, float *want)
{
    pack_simple(p, 4, true, want);
}
static void pack_q5_0(uint8_t *p, float *want)
{
    pack_simple(p, 5, false, want);
}
static void pack_q5_1(uint8_t *p, float *want)
{
    pack_simple(p, 5, true, want);
}

static void pack_q8_0(uint8_t *p, float *want)
{
    const float d = put_half(p, 0.02f);
    for (int i = 0; i < 32; i++) {
        const int v = some(256) - 128;
        p[2 + i] = (uint8_t)v;
        want[i] = (float)v * d;
    }
}

static void pack_k(uint8_t *p, int bits, float *want)
{
    const float d = put_half(p, 0.003f), dmin = put_half(p + 2, 0.007f);
    uint8_t *s = p + 4, *high = p + 16, *q = high + (bits == 5 ? 32 : 0);
    int scale[8], min[8], v[256];
    for (int j = 0; j < 8; j++) {
        scale[j] = some(64);
        min[j] = some(64);
    }
    for (int j = 0; j < 4;
         j++) { /* low six bits of the first four; then four bits, and their rest on top */
        s[j] = (uint8_t)(scale[j] | (scale[j + 4] >> 4) << 6);
        s[j + 4] = (uint8_t)(min[j] | (min[j + 4] >> 4) << 6);
        s[j + 8] = (uint8_t)((scale[j + 4] & 15) | (min[j + 4] & 15) << 4);
    }
    for (int i = 0; i < 256; i++) {
        v[i] = some(1 << bits);
        want[i] = d * (float)scale[i / 32] * (float)v[i] - dmin * (float)min[i / 32];
    }
    for (int c = 0; c < 4; c++)
        for (int l = 0; l < 32; l++) {
            const int a = v[64 * c + l], b = v[64 * c + 32 + l];
            q[32 * c + l] = (uint8_t)((a & 15) | (b & 15) << 4);
            if (bits == 5) high[l] |= (uint8_t)((a >> 4) << 2 * c | (b >> 4) << (2 * c + 1));
        }
}
static void pack_q4_k(uint8_t *p, float *want)
{
    pack_k(p, 4, want);
}
static void pack_q5_k(uint8_t *p, float *want)
{
    pack_k(p, 5, want);
}

static void pack_q6_k(uint8_t *p, float *want)
{
    const float d = put_half(p + 208, 0.001f);
    int v[256];
    for (int g = 0; g < 16; g++)
        p[192 + g] = (uint8_t)(some(256) - 128);
    for (int i = 0; i < 256; i++) {
        v[i] = some(64);
        want[i] = d * (float)(int8_t)p[192 + i / 16] * (float)(v[i] - 32);
    }
    for (int h = 0; h < 2; h++)
        for (int l = 0; l < 32; l++) {
            const int *a = v + 128 * h + l;
            p[64 * h + l] = (uint8_t)((a[0] & 15) | (a[64] & 15) << 4);
            p[64 * h + 32 + l] = (uint8_t)((a[32] & 15) | (a[96] & 15) << 4);
            p[128 + 32 * h + l] =
                (uint8_t)(a[0] >> 4 | a[32] >> 4 << 2 | a[64] >> 4 << 4 | a[96] >> 4 << 6);
        }
}

static void pack_f32(uint8_t *p, float *want)
{
    *want = (float)some(1000) / 7;
    memcpy(p, want, 4);
}
static void pack_f16(uint8_t *p, float *want)
{
    *want = put_half(p, (float)some(1000) / 7);
}
static void pack_bf16(uint8_t *p, float *want)
{
    const uint16_t h = zt_f32_to_bf16((float)some(1000) / 7);
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
    *want = zt_bf16_to_f32(h);
}

static const struct {
    const char *name;
    uint32_t id;
    int values, bytes;
    void (*pack)(uint8_t *p, float *want);
} formats[] = {{"F32", 0, 1, 4, pack_f32},        {"F16", 1, 1, 2, pack_f16},
               {"Q4_0", 2, 32, 18, pack_q4_0},    {"Q4_1", 3, 32, 20, pack_q4_1},
               {"Q5_0", 6, 32, 22, pack_q5_0},    {"Q5_1", 7, 32, 24, pack_q5_1},
               {"Q8_0", 8, 32, 34, pack_q8_0},    {"Q4_K", 12, 256, 144, pack_q4_k},
               {"Q5_K", 13, 256, 176, pack_q5_k}, {"Q6_K", 14, 256, 210, pack_q6_k},
               {"BF16", 30, 1, 2, pack_bf16}};
enum { N_FORMATS = sizeof formats / sizeof *formats, BLOCKS = 6 };

static void every_format(void **state)
{
    (void)state;
    static float want[N_FORMATS][BLOCKS * 256], got[BLOCKS * 256];
    gguf_image g = image_begin();
    for (int f = 0; f < N_FORMATS; f++) {
        uint8_t data[BLOCKS * 256] = {0};
        for (int b = 0; b < BLOCKS; b++)
            formats[f].pack(data + b * formats[f].bytes, want[f] + b * formats[f].values);
        const int64_t shape[] = {3, BLOCKS / 3 * formats[f].values};
        tensor(&g, formats[f].name, formats[f].id, 2, shape, data,
               (size_t)(BLOCKS * formats[f].bytes));
    }
    bytes image = image_end(&g);
    zt_gguf *file;
    OK(zt_gguf_parse(image.data, image.size, "image", &file));
    assert_int_equal(zt_gguf_count(file), N_FORMATS);
    for (int f = 0; f < N_FORMATS; f++) {
        const zt_gguf_tensor *t = zt_gguf_find(file, formats[f].name);
        assert_non_null(t);
        assert_ptr_equal(t, zt_gguf_at(file, f));
        assert_string_equal(t->format->name, formats[f].name);
        assert_true(t->n_dims == 2 && t->shape[0] == 3 && t->numel == BLOCKS * formats[f].values);
        OK(zt_gguf_read_f32(file, t, 0, t->numel, got));
        NEAR(got, want[f], t->numel, 1e-6, 1e-3);
        for (int64_t from = 0; from < t->numel; from += 1 + t->numel / 9)
            for (int64_t n = 0; n <= t->numel - from; n += 1 + t->numel / 7) { /* any part */
                OK(zt_gguf_read_f32(file, t, from, n, got));
                NEAR(got, want[f] + from, n, 1e-6, 1e-3);
            }
        FAILS(zt_gguf_read_f32(file, t, t->numel, 1, got), ZT_ERR_ARG, formats[f].name);
        FAILS(zt_gguf_read_f32(file, t, -1, 1, got), ZT_ERR_ARG, formats[f].name);
        FAILS(zt_gguf_read_f32(file, t, 1, INT64_MAX, got), ZT_ERR_ARG, formats[f].name);
    }
    assert_null(zt_gguf_find(file, "absent"));
    zt_gguf_close(&file);
    assert_null(file);
    zt_gguf_close(&file);
    free(image.data);
}

/* ---- metadata ---- */
static void metadata_of_every_kind(void **state)
{
    (void)state;
    gguf_image g = image_begin();
    g.version = 2;
    key_int(&g, "u8", 0, 200, 1);
    key_int(&g, "i8", 1, (uint64_t)-3, 1);
    key_int(&g, "u16", 2, 60000, 2);
    key_int(&g, "i16", 3, (uint64_t)-300, 2);
    key_int(&g, "u32", 4, 4000000000u, 4);
    key_int(&g, "i32", 5, (uint64_t)-5, 4);
    key_f32(&g, "f32", 1.5f);
    key_int(&g, "bool", 7, 1, 1);
    key_text(&g, "text", "h\xC3\xA9");
    key_int(&g, "u64", 10, (uint64_t)1 << 40, 8);
    key_int(&g, "i64", 11, (uint64_t)-7, 8);
    key_int(&g, "f64", 12, 0x3FF8000000000000u, 8); /* 1.5 */
    key_int(&g, "huge", 10, UINT64_MAX, 8);
    key_texts(&g, "texts", (const char *const[]){"", "b", "cc"}, 3);
    key_array(&g, "ints", KIND_I32, 2);
    put_int(&g.entries, (uint64_t)-1, 4);
    put_int(&g.entries, 2, 4);
    key_array(&g, "none", KIND_F32, 0);
    bytes image = image_end(&g);
    zt_gguf *file;
    OK(zt_gguf_parse(image.data, image.size, "image", &file));
    static const struct {
        const char *key;
        int64_t value;
    } whole[] = {{"u8", 200},
                 {"i8", -3},
                 {"u16", 60000},
                 {"i16", -300},
                 {"i32", -5},
                 {"u32", 4000000000},
                 {"u64", (int64_t)1 << 40},
                 {"i64", -7}};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        int64_t x = 0;
        double y = 0;
        OK(zt_gguf_get_i64(file, whole[i].key, &x));
        OK(zt_gguf_get_f64(file, whole[i].key, &y));
        assert_true(x == whole[i].value && y == (double)x);
    }
    int64_t x = 42;
    double y = 0, z = 0;
    bool b = false;
    const char *s = NULL;
    OK(zt_gguf_get_f64(file, "f32", &y));
    OK(zt_gguf_get_f64(file, "f64", &z));
    assert_true(y == 1.5 && z == 1.5);
    OK(zt_gguf_get_bool(file, "bool", &b));
    assert_true(b);
    OK(zt_gguf_get_str(file, "text", &s));
    assert_string_equal(s, "h\xC3\xA9");
    OK(zt_gguf_get_i64(file, "absent", &x));
    assert_int_equal(x, 42);
    assert_true(zt_gguf_has(file, "u8") && !zt_gguf_has(file, "absent"));
    FAILS(zt_gguf_get_i64(file, "text", &x), ZT_ERR_FORMAT, "text is string");
    FAILS(zt_gguf_get_i64(file, "ints", &x), ZT_ERR_FORMAT, "ints is an array of i32");
    FAILS(zt_gguf_get_i64(file, "huge", &x), ZT_ERR_FORMAT, "huge is u64");
    FAILS(zt_gguf_get_bool(file, "u8", &b), ZT_ERR_FORMAT, "u8 is u8");
    FAILS(zt_gguf_get_str(file, "texts", &s), ZT_ERR_FORMAT, "texts is an array of string");
    zt_span *spans;
    int64_t *ints;
    float *floats;
    size_t n;
    OK(zt_gguf_get_strings(file, "texts", &spans, &n));
    assert_true(n == 3 && spans[0].size == 0 && spans[2].size == 2 &&
                memcmp(spans[2].text, "cc", 2) == 0);
    zt_free(spans);
    OK(zt_gguf_get_i64s(file, "ints", &ints, &n));
    assert_true(n == 2 && ints[0] == -1 && ints[1] == 2);
    zt_free(ints);
    OK(zt_gguf_get_f32s(file, "ints", &floats, &n));
    assert_true(n == 2 && floats[0] == -1 && floats[1] == 2);
    zt_free(floats);
    OK(zt_gguf_get_f32s(file, "none", &floats, &n));
    assert_true(n == 0 && floats);
    zt_free(floats);
    OK(zt_gguf_get_f32s(file, "absent", &floats, &n));
    assert_true(n == 0 && !floats);
    FAILS(zt_gguf_get_i64s(file, "texts", &ints, &n), ZT_ERR_FORMAT, "should be an array of whole");
    FAILS(zt_gguf_get_strings(file, "ints", &spans, &n), ZT_ERR_FORMAT,
          "should be an array of strings");
    FAILS(zt_gguf_get_f32s(file, "f32", &floats, &n), ZT_ERR_FORMAT, "should be an array");
    zt_gguf_close(&file);
    free(image.data);
}

/* ---- false files ---- */
static void refused(bytes image, const char *complaint)
{
    zt_gguf *file = NULL;
    FAILS(zt_gguf_parse(image.data, image.size, "image", &file), ZT_ERR_FORMAT, complaint);
    assert_null(file);
    free(image.data);
}

static bytes one_tensor(uint32_t format, int n_dims, const int64_t *shape, size_t n)
{
    gguf_image g = image_begin();
    uint8_t data[256] = {0};
    tensor(&g, "t", format, n_dims, shape, data, n);
    return image_end(&g);
}

static void false_tensors(void **state)
{
    (void)state;
    refused(one_tensor(0, 1, (const int64_t[]){3}, 11),
            "tensor t takes 12 bytes at 0, the data has 11");
    refused(one_tensor(2, 1, (const int64_t[]){33}, 36), "rows of tensor t have 33 elements");
    refused(one_tensor(10, 1, (const int64_t[]){256}, 84),
            "stored as Q2_K (10), which is not supported");
    refused(one_tensor(99, 1, (const int64_t[]){256}, 84), "an unknown format (99)");
    refused(one_tensor(0, 5, (const int64_t[]){1, 1, 1, 1, 1}, 4), "t has 5 dimensions");
    refused(one_tensor(0, 1, (const int64_t[]){-1}, 4), "impossible shape");
    refused(one_tensor(0, 2, (const int64_t[]){(int64_t)1 << 40, (int64_t)1 << 40}, 4),
            "impossible shape");
    refused(one_tensor(0, 1, (const int64_t[]){INT64_MAX / 2}, 4), "impossible shape");
    refused(one_tensor(1, 1, (const int64_t[]){INT64_MAX / 16}, 4), "the data has 4");
    refused(one_tensor(8, 0, NULL, 34), "rows of tensor t have 1 elements");

    gguf_image g = image_begin();
    const int64_t four[] = {4};
    tensor(&g, "t", 0, 1, four, "0123456789abcdef", 16);
    tensor(&g, "t", 0, 1, four, "0123456789abcdef", 16);
    refused(image_end(&g), "the tensor t is there twice");

    for (int shift = 0; shift < 2; shift++) { /* the second tensor's offset is set back */
        g = image_begin();
        tensor(&g, "t", 0, 1, (const int64_t[]){12},
               "0123456789abcdef0123456789abcdef0123456789abcdef", 48);
        tensor(&g, "u", 0, 1, four, "0123456789abcdef", 16);
        g.tensors.data[g.tensors.size - 8] = shift ? 36 : 32;
        refused(image_end(&g),
                shift ? "tensor u begins at 36, no multiple of 32" : "t and u overlap");
    }
    zt_gguf *file; /* right ones: a scalar, no element, at the end of the data */
    g = image_begin();
    tensor(&g, "scalar", 0, 0, NULL, "0123", 4);
    tensor(&g, "none", 0, 2, (const int64_t[]){0, 7}, "", 0);
    bytes image = image_end(&g);
    OK(zt_gguf_parse(image.data, image.size, "image", &file));
    assert_int_equal(zt_gguf_find(file, "scalar")->numel, 1);
    assert_int_equal(zt_gguf_find(file, "none")->numel, 0);
    zt_gguf_close(&file);
    free(image.data);
}

static void false_metadata(void **state)
{
    (void)state;
    static const uint32_t versions[] = {0, 1, 4, 0x03000000};
    for (int i = 0; i < 4; i++) {
        gguf_image g = image_begin();
        g.version = versions[i];
        refused(image_end(&g), i == 3 ? "big-endian" : "2 and 3 are supported");
    }
    gguf_image g = image_begin();
    key_u32(&g, "k", 1);
    key_u32(&g, "k", 1);
    refused(image_end(&g), "the metadata k is there twice");
    g = image_begin();
    key(&g, "k", 13);
    refused(image_end(&g), "k has the type 13");
    g = image_begin();
    key_array(&g, "k", KIND_ARRAY, 1);
    refused(image_end(&g), "k has the type 9");
    g = image_begin();
    key_array(&g, "k", KIND_U32, UINT64_MAX);
    refused(image_end(&g), "k at byte");
    g = image_begin();
    key_array(&g, "k", KIND_STRING, (uint64_t)1 << 60);
    refused(image_end(&g), "k at byte");
    g = image_begin();
    key(&g, "k", KIND_STRING);
    put_int(&g.entries, UINT64_MAX - 3, 8);
    refused(image_end(&g), "k at byte");
    g = image_begin();
    g.n_entries = UINT64_MAX;
    refused(image_end(&g), "is damaged");
    g = image_begin();
    g.n_tensors = (uint64_t)1 << 40;
    refused(image_end(&g), "is damaged");
    static const uint32_t aligns[] = {0, 24, 1u << 30};
    for (int i = 0; i < 3; i++) {
        g = image_begin();
        key_u32(&g, "general.alignment", aligns[i]);
        refused(image_end(&g), "general.alignment is");
    }
    bytes text = {0};
    put(&text, "GGU", 3);
    refused(text, "no GGUF file");
    zt_gguf *file;
    FAILS(zt_gguf_parse(NULL, 0, "image", &file), ZT_ERR_FORMAT, "no GGUF file");
    FAILS(zt_gguf_open("/nonexistent.gguf", &file), ZT_ERR_IO, "/nonexistent.gguf");
}

static bytes sample(void)
{
    gguf_image g = image_begin();
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    key_text(&g, "general.architecture", "llama");
    key_u32(&g, "general.alignment", 32);
    key_texts(&g, "texts", (const char *const[]){"a", "b"}, 2);
    tensor(&g, "a", 0, 2, (const int64_t[]){2, 4}, x, 32);
    tensor(&g, "b", 1, 1, (const int64_t[]){4}, x, 8);
    return image_end(&g);
}

/* Cut anywhere, a file is refused; with any byte changed, it is refused or read without harm. */
static void damaged_files(void **state)
{
    (void)state;
    bytes image = sample();
    zt_gguf *file;
    float x[64];
    for (size_t n = 0; n < image.size; n++) {
        bytes part = {0};
        put(&part, image.data, n);
        part.data = realloc(part.data, n ? n : 1); /* the exact size: sanitizers see overruns */
        refused(part, "image");
    }
    for (size_t i = 0; i < image.size; i++)
        for (int bit = 0; bit < 8; bit++) {
            image.data[i] = (uint8_t)(image.data[i] ^ 1 << bit);
            if (zt_gguf_parse(image.data, image.size, "image", &file) == ZT_OK) {
                for (int t = 0; t < zt_gguf_count(file); t++)
                    if (zt_gguf_at(file, t)->numel <= 64)
                        OK(zt_gguf_read_f32(file, zt_gguf_at(file, t), 0,
                                            zt_gguf_at(file, t)->numel, x));
                zt_gguf_close(&file);
            }
            image.data[i] = (uint8_t)(image.data[i] ^ 1 << bit);
        }
    free(image.data);
}

static void every_allocation_fails_once(void **state)
{
    (void)state;
    bytes image = sample();
    zt_gguf *file = NULL;
    int64_t n = 1;
    for (;; n++) {
        zt_fault_alloc(n);
        zt_status status = zt_gguf_parse(image.data, image.size, "image", &file);
        zt_fault_alloc(-1);
        if (status == ZT_OK) break;
        assert_int_equal(status, ZT_ERR_NOMEM);
        assert_null(file);
    }
    assert_true(n > 10);
    zt_gguf_close(&file);
    free(image.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format),  cmocka_unit_test(metadata_of_every_kind),
        cmocka_unit_test(false_tensors), cmocka_unit_test(false_metadata),
        cmocka_unit_test(damaged_files), cmocka_unit_test(every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
