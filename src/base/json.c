/* json.c - what people and Python write beyond JSON is simplified in place, then jansson reads it. */
#include "base/json.h"
#include "base/file.h"

#include <math.h>

static void blank(char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] != '\n') s[i] = ' ';
}

/* The length of the comment at s, 0 if there is none. */
static size_t comment(const char *s, size_t n)
{
    if (n < 2 || s[0] != '/') return 0;
    const char *end = s[1] == '/'   ? memchr(s, '\n', n)
                      : s[1] == '*' ? memmem(s + 2, n - 2, "*/", 2)
                                    : s;
    if (!end) return n;
    return (size_t)(end - s) + (s[1] == '*' ? 2 : 0);
}

/* A whole number beyond 64 bits (such as the 1e30 that stands for "no limit") becomes a real one of
 * the same width: its last four digits become an exponent. Returns its length. */
static size_t shorten(char *s, size_t n)
{
    size_t digits = 0;
    while (digits < n && s[digits] >= '0' && s[digits] <= '9')
        digits++;
    if (digits >= 20 && (digits == n || !strchr(".eE", s[digits])))
        memcpy(s + digits - 4, "e+04", 4);
    return digits;
}

/* Makes plain JSON of the text in place: comments go, and commas that only blanks separate from a
 * closing bracket. Lines and columns stay. */
static void simplify(char *s, size_t n)
{
    size_t comma = SIZE_MAX; /* of the last comma that nothing but blanks follows */
    char last = '{';         /* the last character that is not blank */
    if (n >= 3 && memcmp(s, "\xEF\xBB\xBF", 3) == 0) blank(s, 3); /* byte order mark */
    for (size_t i = 0; i < n; i++) {
        const char c = s[i];
        const size_t length = comment(s + i, n - i);
        if (length > 0) {
            blank(s + i, length);
            i += length - 1;
        }
        if (length > 0 || (c && strchr(" \t\r\n", c))) continue;
        if ((c == '}' || c == ']') && comma != SIZE_MAX) s[comma] = ' ';
        comma = c == ',' && !(last && strchr("{[,:", last)) ? i : SIZE_MAX;
        last = c;
        if (c == '"') {
            for (i++; i < n && s[i] != '"'; i++)
                i += s[i] == '\\';
        } else if (c >= '0' && c <= '9') {
            if (i == 0 || !s[i - 1] || !strchr(".eE+", s[i - 1]))
                i += shorten(s + i, n - i) - 1;
            else
                while (i + 1 < n && s[i + 1] >= '0' && s[i + 1] <= '9')
                    i++;
        }
    }
}

zt_status zt_json_parse(const char *text, size_t size, const char *origin, json_t **out)
{
    char *copy = zt_malloc(size + 1);
    if (!copy) return ZT_NOMEM();
    memcpy(copy, text, size);
    copy[size] = '\0';
    simplify(copy, size);
    json_error_t error;
    json_t *j =
        json_loadb(copy, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    zt_free(copy);
    if (!j && (error.line < 0 || json_error_code(&error) == json_error_out_of_memory))
        return ZT_NOMEM(); /* mostly no error is told then */
    if (!j)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s:%d:%d: %s", origin, error.line, error.column, error.text);
    *out = j;
    return ZT_OK;
}

zt_status zt_json_load(const char *path, json_t **out)
{
    char *text;
    size_t size;
    ZT_TRY(zt_file_read_all(path, &text, &size));
    zt_status status = zt_json_parse(text, size, path, out);
    zt_free(text);
    return status;
}

/* jansson goes on after some failures of its writer, so the first one is kept here. */
typedef struct {
    char *text;
    size_t size, room;
    zt_status status;
} growing;

static int add(const char *bytes, size_t n, void *to)
{
    growing *g = to;
    if (g->status == ZT_OK && g->size + n >= g->room) {
        const size_t room = 2 * (g->size + n) + 256;
        char *more = zt_realloc(g->text, room);
        if (more) {
            g->text = more;
            g->room = room;
        } else {
            g->status = ZT_NOMEM();
        }
    }
    if (g->status != ZT_OK) return -1;
    memcpy(g->text + g->size, bytes, n);
    g->size += n;
    g->text[g->size] = '\0';
    return 0;
}

zt_status zt_json_dump(const json_t *j, size_t flags, char **text, size_t *size)
{
    growing g = {0};
    if (json_dump_callback(j, add, &g, flags | JSON_ENCODE_ANY) != 0 && g.status == ZT_OK)
        g.status = ZT_NOMEM();
    if (g.status != ZT_OK) {
        zt_free(g.text);
        return g.status;
    }
    *text = g.text;
    *size = g.size;
    return ZT_OK;
}

zt_status zt_json_save(const char *path, const json_t *j)
{
    char *text = NULL;
    size_t size = 0;
    ZT_TRY(zt_json_dump(j, JSON_INDENT(2), &text, &size));
    zt_status status = zt_file_write_all(path, text, size);
    zt_free(text);
    return status;
}

static const char *kind(const json_t *j)
{
    static const char *const names[] = {"an object", "a list", "a string", "a whole number",
                                        "a number",  "true",   "false",    "null"};
    return names[json_typeof(j)];
}

static zt_status wrong(const char *origin, const char *key, const json_t *j, const char *want)
{
    return ZT_FAIL(ZT_ERR_FORMAT, "%s: \"%s\" is %s and should be %s", origin, key, kind(j), want);
}

/* The member, or NULL when missing or null. */
static json_t *member(const json_t *o, const char *key)
{
    json_t *j = json_object_get(o, key);
    return json_is_null(j) ? NULL : j;
}

zt_status zt_json_get_i64(const json_t *o, const char *origin, const char *key, int64_t *out)
{
    const json_t *j = member(o, key);
    if (!j) return ZT_OK;
    if (json_is_real(j)) {
        double x = json_real_value(j);
        if (x == floor(x) && fabs(x) < 0x1p53) {
            *out = (int64_t)x;
            return ZT_OK;
        }
    }
    if (!json_is_integer(j)) return wrong(origin, key, j, "a whole number");
    *out = json_integer_value(j);
    return ZT_OK;
}

zt_status zt_json_get_f64(const json_t *o, const char *origin, const char *key, double *out)
{
    const json_t *j = member(o, key);
    if (!j) return ZT_OK;
    if (!json_is_number(j)) return wrong(origin, key, j, "a number");
    *out = json_number_value(j);
    return ZT_OK;
}

zt_status zt_json_get_bool(const json_t *o, const char *origin, const char *key, bool *out)
{
    const json_t *j = member(o, key);
    if (!j) return ZT_OK;
    if (!json_is_boolean(j)) return wrong(origin, key, j, "true or false");
    *out = json_is_true(j);
    return ZT_OK;
}

zt_status zt_json_get_str(const json_t *o, const char *origin, const char *key, const char **out)
{
    const json_t *j = member(o, key);
    if (!j) return ZT_OK;
    if (!json_is_string(j)) return wrong(origin, key, j, "a string");
    *out = json_string_value(j);
    return ZT_OK;
}
