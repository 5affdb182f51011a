/* json.c - comments and trailing commas are blanked out, then jansson reads the text. */
#include "base/json.h"
#include "base/file.h"

#include <math.h>
#include <stdlib.h>

/* Blanks comments; then commas that only blanks separate from a closing bracket. Line ends stay. */
static void blank_comments(char *s, size_t n)
{
    size_t comma = SIZE_MAX; /* of the last comma that nothing but blanks follows */
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '"') {
            for (i++; i < n && s[i] != '"'; i++)
                i += s[i] == '\\';
            comma = SIZE_MAX;
        } else if (s[i] == '/' && i + 1 < n && s[i + 1] == '/') {
            for (; i < n && s[i] != '\n'; i++)
                s[i] = ' ';
        } else if (s[i] == '/' && i + 1 < n && s[i + 1] == '*') {
            for (; i < n && !(s[i] == '*' && i + 1 < n && s[i + 1] == '/'); i++)
                if (s[i] != '\n')
                    s[i] = ' ';
            if (i + 1 < n)
                s[i] = s[i + 1] = ' ';
            i++;
        } else if (s[i] == ',') {
            comma = i;
        } else if ((s[i] == '}' || s[i] == ']') && comma != SIZE_MAX) {
            s[comma] = ' ';
            comma = SIZE_MAX;
        } else if (!strchr(" \t\r\n", s[i]) || s[i] == '\0') {
            comma = SIZE_MAX;
        }
    }
}

zt_status zt_json_parse(const char *text, size_t size, const char *origin, json_t **out)
{
    char *copy = zt_malloc(size + 1);
    if (!copy)
        return ZT_NOMEM();
    memcpy(copy, text, size);
    copy[size] = '\0';
    blank_comments(copy, size);
    json_error_t error;
    json_t *j = json_loadb(copy, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL,
                           &error);
    zt_free(copy);
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

zt_status zt_json_save(const char *path, const json_t *j)
{
    char *text = json_dumps(j, JSON_INDENT(2) | JSON_ENCODE_ANY);
    if (!text)
        return ZT_NOMEM();
    zt_status status = zt_file_write_all(path, text, strlen(text));
    free(text); /* jansson's */
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
    if (!j)
        return ZT_OK;
    if (json_is_real(j)) {
        double x = json_real_value(j);
        if (x == floor(x) && fabs(x) < 0x1p53) {
            *out = (int64_t)x;
            return ZT_OK;
        }
    }
    if (!json_is_integer(j))
        return wrong(origin, key, j, "a whole number");
    *out = json_integer_value(j);
    return ZT_OK;
}

zt_status zt_json_get_f64(const json_t *o, const char *origin, const char *key, double *out)
{
    const json_t *j = member(o, key);
    if (!j)
        return ZT_OK;
    if (!json_is_number(j))
        return wrong(origin, key, j, "a number");
    *out = json_number_value(j);
    return ZT_OK;
}

zt_status zt_json_get_bool(const json_t *o, const char *origin, const char *key, bool *out)
{
    const json_t *j = member(o, key);
    if (!j)
        return ZT_OK;
    if (!json_is_boolean(j))
        return wrong(origin, key, j, "true or false");
    *out = json_is_true(j);
    return ZT_OK;
}

zt_status zt_json_get_str(const json_t *o, const char *origin, const char *key, const char **out)
{
    const json_t *j = member(o, key);
    if (!j)
        return ZT_OK;
    if (!json_is_string(j))
        return wrong(origin, key, j, "a string");
    *out = json_string_value(j);
    return ZT_OK;
}
