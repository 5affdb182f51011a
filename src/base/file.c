/* file.c - whole reads, checked transfers, files that appear whole or not at all. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Counts as one I/O operation; pretends that it failed when a test asked for it. */
static bool pretends(void)
{
    if (!zt_fault_io_hit()) return false;
    errno = EIO;
    return true;
}

static zt_status cannot(const char *what, const char *path)
{
    return ZT_FAIL(ZT_ERR_IO, "cannot %s %s: %s", what, path, strerror(errno));
}

/* ---- reading ---- */
zt_status zt_pread_all(int fd, const char *path, void *data, size_t size, uint64_t at)
{
    char *to = data;
    size_t done = 0;
    while (done < size) {
        ssize_t n = pretends() ? -1 : pread(fd, to + done, size - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return ZT_FAIL(ZT_ERR_IO, "reading %zu bytes at %llu of %s: %s", size,
                           (unsigned long long)at, path, strerror(errno));
        if (n == 0)
            return ZT_FAIL(ZT_ERR_FORMAT,
                           "%s ends at byte %llu, but %llu are needed: it is truncated", path,
                           (unsigned long long)(at + done), (unsigned long long)(at + size));
        done += (size_t)n;
    }
    return ZT_OK;
}

static zt_status open_file(const char *path, int *fd, size_t *size)
{
    struct stat st;
    int f = pretends() ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO has no end */
    if (f < 0) return cannot("open", path);
    if (fstat(f, &st) != 0) {
        zt_status status = cannot("look at", path);
        (void)close(f);
        return status;
    }
    if (!S_ISREG(st.st_mode)) {
        (void)close(f);
        return ZT_FAIL(ZT_ERR_IO, "%s is not a regular file", path);
    }
    *fd = f;
    *size = (size_t)st.st_size;
    return ZT_OK;
}

zt_status zt_file_read_all(const char *path, char **data, size_t *size)
{
    int fd = -1;
    size_t n = 0;
    ZT_TRY(open_file(path, &fd, &n));
    char *text = zt_malloc(n + 1);
    zt_status status = text ? zt_pread_all(fd, path, text, n, 0) : ZT_NOMEM();
    (void)close(fd);
    if (status != ZT_OK) {
        zt_free(text);
        return ZT_PASS(status);
    }
    text[n] = '\0';
    *data = text;
    *size = n;
    return ZT_OK;
}

zt_status zt_map_open(const char *path, zt_map *map)
{
    int fd = -1;
    size_t n = 0;
    ZT_TRY(open_file(path, &fd, &n));
    *map = (zt_map){NULL, n};
    zt_status status = ZT_OK;
    if (n > 0) {
        void *p = pretends() ? MAP_FAILED : mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
            status = cannot("map", path);
        else
            map->data = p;
    }
    (void)close(fd);
    return status;
}

void zt_map_close(zt_map *map)
{
    if (map->data) (void)munmap((void *)(uintptr_t)map->data, map->size);
    *map = (zt_map){0};
}

/* ---- writing ---- */
enum { OUT_BUFFER = 1 << 20 };
struct zt_out {
    char *path, *temporary;
    char *buffer;
    size_t used;
    uint64_t written;
    int fd;
};

zt_status zt_pwrite_all(int fd, const char *path, const void *data, size_t size, uint64_t at)
{
    const char *from = data;
    size_t done = 0;
    while (done < size) {
        ssize_t n = pretends() ? -1 : pwrite(fd, from + done, size - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            struct statvfs fs;
            int reason = n < 0 ? errno : ENOSPC;
            double free_mib =
                fstatvfs(fd, &fs) == 0 ? (double)fs.f_bavail * (double)fs.f_frsize / 0x1p20 : -1;
            return ZT_FAIL(ZT_ERR_IO,
                           "writing %zu bytes at %llu of %s: %s (%.0f MiB are free there)", size,
                           (unsigned long long)at, path, strerror(reason), free_mib);
        }
        done += (size_t)n;
    }
    return ZT_OK;
}

static void out_free(zt_out *o)
{
    if (o->fd >= 0) (void)close(o->fd);
    zt_free(o->path);
    zt_free(o->temporary);
    zt_free(o->buffer);
    zt_free(o);
}

zt_status zt_out_open(const char *path, zt_out **out)
{
    zt_out *o = zt_calloc(1, sizeof *o);
    if (!o) return ZT_NOMEM();
    o->fd = -1;
    o->path = zt_strdup(path);
    o->temporary = zt_format("%s.tmp", path);
    o->buffer = zt_malloc(OUT_BUFFER);
    zt_status status = ZT_OK;
    if (!o->path || !o->temporary || !o->buffer)
        status = ZT_NOMEM();
    else if (pretends() ||
             (o->fd = open(o->temporary, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666)) < 0)
        status = cannot("create", path);
    if (status != ZT_OK) {
        out_free(o);
        return status;
    }
    *out = o;
    return ZT_OK;
}

static zt_status flush(zt_out *o)
{
    ZT_TRY(zt_pwrite_all(o->fd, o->temporary, o->buffer, o->used, o->written));
    o->written += o->used;
    o->used = 0;
    return ZT_OK;
}

zt_status zt_out_write(zt_out *o, const void *data, size_t size)
{
    if (size == 0) return ZT_OK;
    if (o->used + size > OUT_BUFFER) ZT_TRY(flush(o));
    if (size >= OUT_BUFFER) {
        ZT_TRY(zt_pwrite_all(o->fd, o->temporary, data, size, o->written));
        o->written += size;
        return ZT_OK;
    }
    memcpy(o->buffer + o->used, data, size);
    o->used += size;
    return ZT_OK;
}

uint64_t zt_out_offset(const zt_out *o)
{
    return o->written + o->used;
}

zt_status zt_out_commit(zt_out **out)
{
    zt_out *o = *out;
    zt_status status = flush(o);
    if (status == ZT_OK && (pretends() || fsync(o->fd) != 0)) status = cannot("sync", o->temporary);
    int closed = close(o->fd);
    o->fd = -1;
    if (status == ZT_OK && closed != 0) status = cannot("close", o->temporary);
    if (status == ZT_OK) status = zt_path_rename(o->temporary, o->path);
    if (status != ZT_OK) (void)unlink(o->temporary);
    out_free(o);
    *out = NULL;
    return status;
}

void zt_out_discard(zt_out **out)
{
    if (!*out) return;
    (void)unlink((*out)->temporary);
    out_free(*out);
    *out = NULL;
}

zt_status zt_file_write_all(const char *path, const void *data, size_t size)
{
    zt_out *out;
    ZT_TRY(zt_out_open(path, &out));
    zt_status status = zt_out_write(out, data, size);
    if (status != ZT_OK) {
        zt_out_discard(&out);
        return status;
    }
    return zt_out_commit(&out);
}

static zt_status open_folder_of(const char *path, int *fd)
{
    const char *slash = strrchr(path, '/');
    char *folder =
        slash ? zt_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : zt_strdup(".");
    if (!folder) return ZT_NOMEM();
    *fd = pretends() ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    zt_status status = *fd < 0 ? cannot("open the folder", folder) : ZT_OK;
    zt_free(folder);
    return status;
}

/* A rename is on disk when its folder is; the folder is opened first, so that little can fail after. */
static zt_status rename_and_sync(const char *from, const char *to, unsigned how)
{
    int folder = -1;
    zt_status status = ZT_OK;
    ZT_TRY(open_folder_of(to, &folder));
    if (pretends() || renameat2(AT_FDCWD, from, AT_FDCWD, to, how) != 0)
        status = ZT_FAIL(ZT_ERR_IO, "cannot rename %s to %s: %s", from, to, strerror(errno));
    else if (pretends() || (fsync(folder) != 0 && errno != EINVAL))
        status = cannot("sync the folder of", to);
    (void)close(folder);
    return status;
}

zt_status zt_path_rename(const char *from, const char *to)
{
    return rename_and_sync(from, to, 0);
}

zt_status zt_folder_replace(const char *from, const char *to)
{
    if (zt_path_exists(to) && !zt_path_is_folder(to))
        return ZT_FAIL(ZT_ERR_IO, "%s should be a folder, but it is a file: move it away", to);
    if (zt_path_exists(to)) {
        if (rename_and_sync(from, to, RENAME_EXCHANGE) == ZT_OK)
            return zt_folder_remove(from); /* the old one */
        zt_error_clear();
        ZT_TRY(zt_folder_remove(to));
    }
    return zt_path_rename(from, to);
}

zt_status zt_file_copy(const char *from, const char *to)
{
    zt_map map;
    ZT_TRY(zt_map_open(from, &map));
    zt_status status = zt_file_write_all(to, map.data ? (const void *)map.data : "", map.size);
    zt_map_close(&map);
    return status;
}
