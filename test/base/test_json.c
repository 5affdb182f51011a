/* test_json.c - what people write is read, what is wrong is told with its line and column. */
#include "base/file.h"
#include "base/json.h"
#include "harness.h"

#include <unistd.h>

static json_t *parse(const char *text)
{
    json_t *j = NULL;
    OK(zt_json_parse(text, strlen(text), "t", &j));
    return j;
}

/* Reads the text and compares with what plain JSON says. */
static void reads_as(const char *text, const char *plain)
{
    json_t *a = parse(text), *b = json_loads(plain, JSON_DECODE_ANY, NULL);
    if (!b || !json_equal(a, b)) fail_msg("%s is not read as %s", text, plain);
    json_decref(a);
    json_decref(b);
}

static void as_people_write_it(void **state)
{
    (void)state;
    reads_as("{\"a\": 1, // one\n \"b\": 2 /* two\n */ }", "{\"a\":1,\"b\":2}");
    reads_as("{\"a\": [1, 2, ], }", "{\"a\":[1,2]}");
    reads_as("[1, /* , */ // ]\n]", "[1]");
    reads_as("// only\n7", "7");
    reads_as("7//", "7");
    reads_as("/**/7/***/", "7");
    reads_as("\xEF\xBB\xBF{}", "{}");
    /* nothing of this kind inside strings */
    reads_as("[\"// no /* comment */\", \",]\", \"\\\"//\", \"\\\\\"]",
             "[\"// no /* comment */\", \",]\", \"\\\"//\", \"\\\\\"]");
    reads_as("{\",}\": \"a,}\",}", "{\",}\":\"a,}\"}");
    reads_as("[\"123456789012345678901234567890\"]", "[\"123456789012345678901234567890\"]");
}

static void whole_numbers_without_end(void **state)
{
    (void)state;
    json_t *j = parse(
        "{\"model_max_length\": 1000000000000000019884624838656, \"n\": [9223372036854775807, "
        "-1000000000000000000000, 0.1000000000000000055511151231257827, "
        "1234567890123456789012.5, 1e300, 1.5E-3]}");
    double x = 0;
    OK(zt_json_get_f64(j, "t", "model_max_length", &x));
    assert_true(x == 1e30);
    json_t *n = json_object_get(j, "n");
    assert_true(json_integer_value(json_array_get(n, 0)) == INT64_MAX);
    const double want[] = {-1e21, 0.1, 1234567890123456789012.5, 1e300, 1.5e-3};
    for (size_t i = 0; i < 5; i++)
        assert_true(json_real_value(json_array_get(n, i + 1)) == want[i]);
    json_decref(j);
}

static void faults_have_line_and_column(void **state)
{
    (void)state;
    static const struct {
        const char *text, *where;
    } bad[] = {
        {"{\"a\": 1,\n \"b\": x}", "t:2:7: "},
        {"// c\n/* d\n */ {\"a\" 1}", "t:3:10: "},
        {"{\"a\": 1, \"b\": 2, \"a\": 3}", "duplicate object key"},
        {"[1,,]", "t:1:"},
        {"[,]", "t:1:"},
        {"{,}", "t:1:"},
        {"{\"a\":,}", "t:1:"},
        {"", "t:1:0: "},
        {"/* never ends [1]", "t:1:"},
        {"[1] 2", "t:1:"},
        {"[1e999]", "t:1:"},
        {"[\"\xff\"]", "byte 0xff"},
        {"[1 / 2]", "t:1:"},
        {"\"open", "t:1:"},
        {"\"open\\", "t:1:"},
    };
    json_t *j = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        FAILS(zt_json_parse(bad[i].text, strlen(bad[i].text), "t", &j), ZT_ERR_FORMAT,
              bad[i].where);
    assert_null(j);
}

static void depth_and_nul(void **state)
{
    (void)state;
    const size_t n = 1000000;
    char *text = malloc(n);
    json_t *j = NULL;
    assert_non_null(text);
    memset(text, '[', n);
    FAILS(zt_json_parse(text, n, "t", &j), ZT_ERR_FORMAT, "t:1:");
    memset(text, 0, n);
    FAILS(zt_json_parse(text, n, "t", &j), ZT_ERR_FORMAT, "t:1:");
    free(text);
    FAILS(zt_json_parse("[1]\0[2]", 7, "t", &j), ZT_ERR_FORMAT, "t:1:");
}

static void members(void **state)
{
    (void)state;
    json_t *j = parse(
        "{\"i\": 3, \"r\": 2.5, \"w\": 2e3, \"t\": true, \"s\": \"x\", \"n\": null, \"l\": []}");
    int64_t i = 7;
    double r = 7;
    bool b = false;
    const char *s = "unset";
    OK(zt_json_get_i64(j, "t", "none", &i));
    OK(zt_json_get_i64(j, "t", "n", &i)); /* null counts as missing */
    assert_int_equal(i, 7);
    OK(zt_json_get_i64(j, "t", "i", &i));
    assert_int_equal(i, 3);
    OK(zt_json_get_i64(j, "t", "w", &i));
    assert_int_equal(i, 2000);
    OK(zt_json_get_f64(j, "t", "r", &r));
    assert_true(r == 2.5);
    OK(zt_json_get_f64(j, "t", "i", &r));
    assert_true(r == 3);
    OK(zt_json_get_bool(j, "t", "t", &b));
    assert_true(b);
    OK(zt_json_get_str(j, "t", "s", &s));
    assert_string_equal(s, "x");
    FAILS(zt_json_get_i64(j, "file", "r", &i), ZT_ERR_FORMAT, "file: \"r\" is a number");
    FAILS(zt_json_get_i64(j, "file", "s", &i), ZT_ERR_FORMAT, "should be a whole number");
    FAILS(zt_json_get_f64(j, "file", "t", &r), ZT_ERR_FORMAT, "\"t\" is true");
    FAILS(zt_json_get_bool(j, "file", "i", &b), ZT_ERR_FORMAT, "true or false");
    FAILS(zt_json_get_str(j, "file", "l", &s), ZT_ERR_FORMAT, "is a list");
    json_decref(j);
}

static void saved_is_loaded(void **state)
{
    (void)state;
    char folder[] = "/tmp/zt_json_XXXXXX";
    assert_non_null(mkdtemp(folder));
    char *path = zt_path_join(folder, "x.json");
    json_t *a = parse("{\"b\": [1, 2.5, \"\xC3\xA9\"], \"a\": {}, \"x\": 0.1}"), *b = NULL;
    OK(zt_json_save(path, a));
    OK(zt_json_load(path, &b));
    assert_true(json_equal(a, b));
    assert_string_equal(json_object_iter_key(json_object_iter(b)), "b"); /* order is kept */
    json_decref(b);
    for (int64_t n = 1, done = 0; !done; n++) {
        zt_fault_io(n);
        zt_status status = zt_json_save(path, a);
        zt_fault_io(-1);
        done = status == ZT_OK;
        b = NULL;
        OK(zt_json_load(path, &b)); /* the old or the new one, whole */
        assert_true(json_equal(a, b));
        json_decref(b);
    }
    OK(zt_file_write_all(path, "{\n\"a\": }", 8));
    FAILS(zt_json_load(path, &b), ZT_ERR_FORMAT, "x.json:2:");
    OK(zt_folder_remove(folder));
    FAILS(zt_json_load(path, &b), ZT_ERR_IO, "x.json");
    json_decref(a);
    zt_free(path);
}

static void every_allocation_fails_once(void **state)
{
    (void)state;
    const char *text =
        "{\"a\": [1, 2.5, \"text\", {\"b\": null}], \"c\": \"a longer string, beyond any small "
        "buffer that a reader may hold in place\", \"d\": true}";
    json_set_alloc_funcs(zt_malloc, zt_free);
    int64_t n = 1;
    for (;; n++) {
        json_t *j = NULL;
        zt_fault_alloc(n);
        zt_status status = zt_json_parse(text, strlen(text), "t", &j);
        zt_fault_alloc(-1);
        json_decref(j);
        if (status == ZT_OK) break;
        assert_null(j);
    }
    json_set_alloc_funcs(malloc, free);
    assert_true(n > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_people_write_it),
        cmocka_unit_test(whole_numbers_without_end),
        cmocka_unit_test(faults_have_line_and_column),
        cmocka_unit_test(depth_and_nul),
        cmocka_unit_test(members),
        cmocka_unit_test(saved_is_loaded),
        cmocka_unit_test(every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
