/* file.h - files, with every completion checked: short transfers and EINTR are continued, errors
 * name the file, the offset, the need and the free space. All functions are Local. */
#ifndef ZT_FILE_H
#define ZT_FILE_H
#include "base/base.h"

/* A whole file in memory; *data is zt_malloc'ed and followed by a NUL that does not count. */
ZT_MUST_USE zt_status zt_file_read_all(const char *path, char **data, size_t *size);

/* A read-only memory map. Empty files give data = NULL, size = 0. */
typedef struct {
    const uint8_t *data;
    size_t size;
} zt_map;
ZT_MUST_USE zt_status zt_map_open(const char *path, zt_map *map);
void zt_map_close(zt_map *map);

/* Writing: a file appears under its name whole or not at all. zt_out writes PATH.tmp; commit syncs
 * and renames it (and syncs the folder); discard removes it. Buffered (1 MiB). */
typedef struct zt_out zt_out;
ZT_MUST_USE zt_status zt_out_open(const char *path, zt_out **out);
ZT_MUST_USE zt_status zt_out_write(zt_out *out, const void *data, size_t size);
ZT_MUST_USE zt_status zt_out_commit(zt_out **out); /* takes *out, also on failure */
void zt_out_discard(zt_out **out);                 /* NULL is fine */
uint64_t zt_out_offset(const zt_out *out);
ZT_MUST_USE zt_status zt_file_write_all(const char *path, const void *data, size_t size);

/* pread/pwrite of exactly `size` bytes on an open descriptor; `path` is for the message. */
ZT_MUST_USE zt_status zt_pread_all(int fd, const char *path, void *data, size_t size, uint64_t at);
ZT_MUST_USE zt_status zt_pwrite_all(int fd, const char *path, const void *data, size_t size,
                                    uint64_t at);

bool zt_path_exists(const char *path);
bool zt_path_is_folder(const char *path);
int64_t zt_path_size(const char *path);                   /* -1 when it cannot be told */
ZT_MUST_USE zt_status zt_folder_make(const char *path);   /* with its parents */
ZT_MUST_USE zt_status zt_folder_remove(const char *path); /* with what is in it */
ZT_MUST_USE zt_status zt_path_rename(const char *from, const char *to); /* and sync the folder */
/* Gives a folder a name that another may have, which is then removed: at every moment the name is of a whole folder
 * (where the file system can exchange names; otherwise there is a moment without one). */
ZT_MUST_USE zt_status zt_folder_replace(const char *from, const char *to);
ZT_MUST_USE zt_status zt_file_copy(const char *from, const char *to);
char *zt_path_join(const char *a, const char *b); /* zt_free it; NULL when out of memory */
/* Names in a folder, sorted; NULL-terminated array to be freed with zt_names_free. */
ZT_MUST_USE zt_status zt_folder_list(const char *path, char ***names);
void zt_names_free(char **names);
/* Expands a shell pattern ("corpus/ *.txt"); a pattern that matches nothing is an error. */
ZT_MUST_USE zt_status zt_path_glob(const char *pattern, char ***names);
#endif
