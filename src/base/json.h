/* json.h - reading JSON as people write it, on top of jansson (MIT).
 *
 * Comments (// and block) and trailing commas are accepted; they are blanked out first, so that the
 * line and column in a message are those of the file. Duplicate keys are an error. */
#ifndef ZT_JSON_H
#define ZT_JSON_H
#include "base/base.h"
#include <jansson.h>

/* `origin` names the text in messages (a path). *out is a new reference (json_decref). */
ZT_MUST_USE zt_status zt_json_parse(const char *text, size_t size, const char *origin,
                                    json_t **out);
ZT_MUST_USE zt_status zt_json_load(const char *path, json_t **out);
ZT_MUST_USE zt_status zt_json_save(const char *path, const json_t *j); /* atomically, indent 2 */

/* The value as text, zt_malloc'ed and NUL-terminated; flags are jansson's (JSON_COMPACT ...). */
ZT_MUST_USE zt_status zt_json_dump(const json_t *j, size_t flags, char **text, size_t *size);

/* Members of an object, with a message naming origin and key when the kind is wrong. A missing key
 * leaves *out as it was (set the default before); null counts as missing. */
ZT_MUST_USE zt_status zt_json_get_i64(const json_t *o, const char *origin, const char *key,
                                      int64_t *out);
ZT_MUST_USE zt_status zt_json_get_f64(const json_t *o, const char *origin, const char *key,
                                      double *out);
ZT_MUST_USE zt_status zt_json_get_bool(const json_t *o, const char *origin, const char *key,
                                       bool *out);
/* *out points into the JSON value. */
ZT_MUST_USE zt_status zt_json_get_str(const json_t *o, const char *origin, const char *key,
                                      const char **out);
#endif
