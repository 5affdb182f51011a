/* path.c - paths, folders and patterns. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

bool zt_path_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

bool zt_path_is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int64_t zt_path_size(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (int64_t)st.st_size : -1;
}

char *zt_path_join(const char *a, const char *b)
{
    size_t n = strlen(a);
    return zt_format("%s%s%s", a, n && a[n - 1] != '/' ? "/" : "", b);
}

/* Counts as one I/O operation; pretends that it failed when a test asked for it. */
static bool pretends(void)
{
    if (!zt_fault_io_hit()) return false;
    errno = EIO;
    return true;
}

static zt_status make_one(const char *path)
{
    if (!pretends() && (mkdir(path, 0777) == 0 || (errno == EEXIST && zt_path_is_folder(path))))
        return ZT_OK;
    return ZT_FAIL(ZT_ERR_IO, "cannot make the folder %s: %s", path, strerror(errno));
}

zt_status zt_folder_make(const char *path)
{
    char *copy = zt_strdup(path);
    if (!copy) return ZT_NOMEM();
    zt_status status = ZT_OK;
    for (char *p = copy + 1; *copy && *p && status == ZT_OK; p++)
        if (*p == '/') {
            *p = '\0';
            if (!zt_path_is_folder(copy)) status = make_one(copy);
            *p = '/';
        }
    if (status == ZT_OK) status = make_one(copy);
    zt_free(copy);
    return status;
}

/* ---- lists of names ---- */
static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void zt_names_free(char **names)
{
    for (char **p = names; p && *p; p++)
        zt_free(*p);
    zt_free(names);
}

/* Appends a copy of name to a NULL-terminated list. */
static zt_status append(char ***names, size_t *n, const char *name)
{
    char **more = zt_realloc(*names, (*n + 2) * sizeof *more);
    if (!more) return ZT_NOMEM();
    *names = more;
    more[*n] = zt_strdup(name);
    more[*n + 1] = NULL;
    if (!more[*n]) return ZT_NOMEM();
    ++*n;
    return ZT_OK;
}

zt_status zt_folder_list(const char *path, char ***names)
{
    DIR *d = pretends() ? NULL : opendir(path);
    if (!d) return ZT_FAIL(ZT_ERR_IO, "cannot list the folder %s: %s", path, strerror(errno));
    char **list = zt_calloc(1, sizeof *list);
    zt_status status = list ? ZT_OK : ZT_NOMEM();
    size_t n = 0;
    for (struct dirent *e; status == ZT_OK && (e = readdir(d)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            status = append(&list, &n, e->d_name);
    (void)closedir(d);
    if (status != ZT_OK) {
        zt_names_free(list);
        return status;
    }
    qsort(list, n, sizeof *list, by_name);
    *names = list;
    return ZT_OK;
}

zt_status zt_folder_remove(const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? ZT_OK
                               : ZT_FAIL(ZT_ERR_IO, "cannot look at %s: %s", path, strerror(errno));
    zt_status status = ZT_OK;
    const bool folder = S_ISDIR(st.st_mode);
    if (folder) {
        char **names;
        ZT_TRY(zt_folder_list(path, &names));
        for (char **p = names; *p && status == ZT_OK; p++) {
            char *full = zt_path_join(path, *p);
            status = full ? zt_folder_remove(full) : ZT_NOMEM();
            zt_free(full);
        }
        zt_names_free(names);
    }
    if (status == ZT_OK && (pretends() || (folder ? rmdir(path) : unlink(path)) != 0))
        status = ZT_FAIL(ZT_ERR_IO, "cannot remove %s: %s", path, strerror(errno));
    return status;
}

zt_status zt_path_glob(const char *pattern, char ***names)
{
    glob_t g;
    int rc = glob(pattern, GLOB_TILDE, NULL, &g);
    if (rc == GLOB_NOSPACE) return ZT_NOMEM();
    if (rc != 0) {
        globfree(&g);
        return ZT_FAIL(ZT_ERR_IO, "%s: no such file, and no file matches it as a pattern", pattern);
    }
    char **list = zt_calloc(1, sizeof *list);
    zt_status status = list ? ZT_OK : ZT_NOMEM();
    size_t n = 0;
    for (size_t i = 0; i < g.gl_pathc && status == ZT_OK; i++)
        status = append(&list, &n, g.gl_pathv[i]);
    globfree(&g);
    if (status != ZT_OK) {
        zt_names_free(list);
        return status;
    }
    *names = list;
    return ZT_OK;
}
