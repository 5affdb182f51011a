/* source.c - which files there are, of which format, and the documents in them. */
#include "base/json.h"
#include "data/internal.h"

#include <stdio.h>

enum { BIN_HEADER = 1024 };
static const int32_t bin_magic = 20240520, bin_magic_wide = 20240801;

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* How files begin that are no text, and what is to be done. Those that begin like a word count only in files
 * that have NUL bytes. */
static const struct {
    const char *bytes;
    size_t n, at;
    const char *is, *mend;
} beginnings[] = {
    {"\x1f\x8b\x08", 3, 0, "compressed by gzip", "unpack it first (gunzip)"},
    {"\x28\xb5\x2f\xfd", 4, 0, "compressed by zstd", "unpack it first (unzstd)"},
    {"\xfd\x37zXZ\0", 6, 0, "compressed by xz", "unpack it first (unxz)"},
    {"1AY&SY", 6, 4, "compressed by bzip2", "unpack it first (bunzip2)"},
    {"PK\3\4", 4, 0, "a zip archive", "unpack it first (unzip)"},
    {"PAR1", 4, 0, "a Parquet file", "write its rows as JSON lines first"},
    {"\x93NUMPY", 6, 0, "a NumPy array",
     "write ids as bare 16-bit numbers (tofile) to a .bin first"},
    {"\0\0\0\0{\"", 6, 4, "a safetensors file", "name files of text"},
    {"GGUF", 4, 0, "a GGUF file", "name files of text"},
    {"\x80\2", 2, 0, "a pickle", "name files of text"},
    {"\x80\3", 2, 0, "a pickle", "name files of text"},
    {"\x80\4", 2, 0, "a pickle", "name files of text"},
    {"\x80\5", 2, 0, "a pickle", "name files of text"},
    {"\xff\xfe", 2, 0, "UTF-16", "make it UTF-8 first (iconv -f UTF-16 -t UTF-8)"},
    {"\xfe\xff", 2, 0, "UTF-16", "make it UTF-8 first (iconv -f UTF-16 -t UTF-8)"},
    {"", 0, 0, "binary: it has NUL bytes", "name files of text"},
};

/* Refuses what begins as no text does; of numbers, what begins in four bytes or more as they hardly do. */
static zt_status check_beginning(const char *path, const zt_map *map, bool numbers)
{
    const size_t block = map->size < 65536 ? map->size : 65536;
    const bool nul = !numbers && block > 0 && memchr(map->data, 0, block);
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
        const size_t n = beginnings[i].n, at = beginnings[i].at;
        const unsigned first = (unsigned char)beginnings[i].bytes[0] | 32;
        const bool sure = n > 0 && (numbers ? n >= 4 : first < 'a' || first > 'z');
        if ((sure || nul) && block >= at + n &&
            (n == 0 || memcmp(map->data + at, beginnings[i].bytes, n) == 0))
            return ZT_FAIL(ZT_ERR_CONFIG,
                           "%s is %s, not %s: %s; data.format=%s takes it all the same", path,
                           beginnings[i].is, numbers ? "token ids" : "text", beginnings[i].mend,
                           numbers ? "uint16" : "text");
    }
    return ZT_OK;
}

static zt_status look_at(const char *path, const zt_map *map, zt_source_kind *out)
{
    static const char *const lines[] = {".jsonl", ".ndjson", ".json"};
    const bool numbers = ends_with(path, ".bin");
    int32_t magic = 0;
    if (map->size >= 4) memcpy(&magic, map->data, 4);
    *out = !numbers                                        ? ZT_SOURCE_TEXT
           : magic == bin_magic || magic == bin_magic_wide ? ZT_SOURCE_BIN
                                                           : ZT_SOURCE_UINT16;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (ends_with(path, lines[i])) *out = ZT_SOURCE_JSONL;
    return check_beginning(path, map, numbers);
}

static zt_status kind_of(const char *path, const char *format, zt_source_kind *out)
{
    static const char *const names[] = {"text", "jsonl", "bin", "uint16"};
    for (int i = 0; i < 4; i++)
        if (strcmp(format, names[i]) == 0) {
            *out = (zt_source_kind)i;
            return ZT_OK;
        }
    zt_map map;
    ZT_TRY(zt_map_open(path, &map));
    zt_status status = look_at(path, &map, out);
    zt_map_close(&map);
    return status;
}

static zt_status add_files(zt_sources *s, const char *pattern, const char *format)
{
    char **names;
    ZT_TRY(zt_path_glob(pattern, &names));
    zt_status status = ZT_OK;
    for (char **p = names; *p && status == ZT_OK; p++) {
        zt_source *more = zt_realloc(s->list, (size_t)(s->n + 1) * sizeof *more);
        if (!more) {
            status = ZT_NOMEM();
            break;
        }
        s->list = more;
        s->list[s->n] = (zt_source){.path = zt_strdup(*p)};
        if (!s->list[s->n].path)
            status = ZT_NOMEM();
        else
            status = kind_of(*p, format, &s->list[s->n++].kind);
    }
    zt_names_free(names);
    return status;
}

zt_status zt_sources_find(const zt_data_opt *opt, zt_sources *out)
{
    zt_sources s = {0};
    zt_status status = ZT_OK;
    for (int i = 0; i < opt->n_patterns && status == ZT_OK; i++)
        status = add_files(&s, opt->patterns[i], opt->format);
    for (int i = 0; i < s.n && status == ZT_OK; i++) {
        const bool tokens = s.list[i].kind >= ZT_SOURCE_BIN;
        if (i > 0 && tokens != s.tokens)
            status = ZT_FAIL(ZT_ERR_CONFIG,
                             "%s holds %s, but %s before it %s; use one kind in a data set",
                             s.list[i].path, tokens ? "token ids" : "text", s.list[0].path,
                             tokens ? "text" : "token ids");
        s.tokens = tokens;
    }
    if (status == ZT_OK && s.n == 0)
        status = ZT_FAIL(ZT_ERR_CONFIG, "no data files are given: set data.train");
    if (status != ZT_OK)
        zt_sources_free(&s);
    else
        *out = s;
    return status;
}

void zt_sources_free(zt_sources *s)
{
    for (int i = 0; i < s->n; i++)
        zt_free(s->list[i].path);
    zt_free(s->list);
    *s = (zt_sources){0};
}

/* ---- documents ---- */
typedef struct {
    const char *path;
    int64_t line;
    char *where;
    size_t where_size;
    zt_document_fn *fn;
    void *arg;
} walk;

static zt_status json_line(const walk *w, const char *field, const char *line, size_t n)
{
    size_t blank = 0;
    while (blank < n && strchr(" \t\r", line[blank]) && line[blank])
        blank++;
    if (blank == n) return ZT_OK;
    json_error_t e;
    json_t *j = json_loadb(line, n, JSON_ALLOW_NUL, &e);
    const json_t *text = json_object_get(j, field);
    zt_status status = ZT_OK;
    if (!json_is_object(j))
        status = ZT_FAIL(ZT_ERR_FORMAT,
                         "%s:%lld:%d: %s; JSON lines are one object a line (jq -c '.[]' makes them "
                         "of a list, jq -c . of objects on many lines)",
                         w->path, (long long)w->line, j ? 1 : e.column, j ? "no object" : e.text);
    else if (!json_is_string(text))
        status = ZT_FAIL(ZT_ERR_FORMAT,
                         "%s:%lld: there is no text in the field \"%s\" (data.text_field)", w->path,
                         (long long)w->line, field);
    else
        status = w->fn(w->arg, json_string_value(text), json_string_length(text));
    json_decref(j);
    return status;
}

/* The documents of one file that begin in [from, to). */
static zt_status walk_file(walk *w, const zt_source *s, const zt_data_opt *opt, const zt_map *map,
                           size_t from, size_t to)
{
    const char *text = (const char *)map->data;
    const bool json = s->kind == ZT_SOURCE_JSONL;
    const char *separator = json ? "\n" : opt->separator;
    const size_t length = separator ? strlen(separator) : 0;
    w->path = s->path;
    w->line = 0;
    const bool mark = json && map->size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0;
    for (size_t at = mark ? 3 : 0; at < map->size;) {
        const char *end = length ? memmem(text + at, map->size - at, separator, length) : NULL;
        const size_t stop = end ? (size_t)(end - text) : map->size;
        w->line++;
        if (at >= from && at < to) {
            (void)snprintf(w->where, w->where_size, json ? "%s:%lld" : "%s, document %lld", s->path,
                           (long long)w->line);
            if (json)
                ZT_TRY(json_line(w, opt->field ? opt->field : "text", text + at, stop - at));
            else if (stop > at)
                ZT_TRY(w->fn(w->arg, text + at, stop - at));
        }
        at = stop + (end ? length : 0);
        if (at >= to) break;
    }
    return ZT_OK;
}

zt_status zt_documents(const zt_sources *s, const zt_data_opt *opt, int part, int parts,
                       char *where, size_t where_size, zt_document_fn *fn, void *arg)
{
    int64_t total = 0, from, to, before = 0;
    for (int i = 0; i < s->n; i++) {
        int64_t size = zt_path_size(s->list[i].path);
        total += size > 0 ? size : 0;
    }
    zt_split(total, 1, part, parts, &from, &to);
    walk w = {.where = where, .where_size = where_size, .fn = fn, .arg = arg};
    for (int i = 0; i < s->n; i++) {
        zt_map map;
        ZT_TRY(zt_map_open(s->list[i].path, &map));
        const int64_t size = (int64_t)map.size;
        zt_status status = ZT_OK;
        if (before < to && before + size > from)
            status =
                walk_file(&w, &s->list[i], opt, &map, from > before ? (size_t)(from - before) : 0,
                          to - before < size ? (size_t)(to - before) : (size_t)size);
        before += size;
        zt_map_close(&map);
        ZT_TRY(status);
    }
    return ZT_OK;
}

/* ---- files of token ids ---- */
zt_status zt_tokens_parse(const uint8_t *data, size_t size, zt_source_kind kind, const char *origin,
                          zt_tokens *out)
{
    *out = (zt_tokens){.data = data, .n = (int64_t)(size / 2), .width = 2};
    if (kind == ZT_SOURCE_UINT16) {
        if (size % 2)
            return ZT_FAIL(ZT_ERR_FORMAT,
                           "%s has an odd number of bytes: it holds no 16-bit tokens", origin);
        return ZT_OK;
    }
    int32_t header[3];
    if (size < BIN_HEADER)
        return ZT_FAIL(ZT_ERR_FORMAT, "%s is shorter than the header of a .bin shard (%d bytes)",
                       origin, BIN_HEADER);
    memcpy(header, data, sizeof header);
    const bool wide = header[0] == bin_magic_wide;
    if ((header[0] != bin_magic && !wide) || header[1] != (wide ? 7 : 1))
        return ZT_FAIL(
            ZT_ERR_FORMAT,
            "%s: magic %d and version %d are not those of a token shard (%d, 1 or %d, 7)", origin,
            header[0], header[1], bin_magic, bin_magic_wide);
    out->width = wide ? 4 : 2;
    out->data = data + BIN_HEADER;
    out->n = header[2];
    const uint64_t need =
        BIN_HEADER + (uint64_t)(header[2] < 0 ? 0 : header[2]) * (uint64_t)out->width;
    if (header[2] < 0 || need != size)
        return ZT_FAIL(ZT_ERR_FORMAT,
                       "%s says that it holds %d tokens, which takes %llu bytes; it has %zu",
                       origin, header[2], (unsigned long long)need, size);
    return ZT_OK;
}

zt_status zt_tokens_open(const char *path, zt_source_kind kind, zt_tokens *out)
{
    zt_map map;
    ZT_TRY(zt_map_open(path, &map));
    zt_status status = zt_tokens_parse(map.data, map.size, kind, path, out);
    if (status != ZT_OK)
        zt_map_close(&map);
    else
        out->map = map;
    return status;
}
