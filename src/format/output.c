/* output.c - see output.h. */
#define _GNU_SOURCE
#include "format/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"

struct tp_output {
    FILE *file;                 /* owned */
    char *path;                 /* owned: as the user wrote it, for messages */
    char *target;               /* owned: what is replaced, links followed; NULL: written in place */
    char *beside;               /* owned: room for the name of the file until it takes its place */
    bool  named;                /* it has that name */
};

enum { MOST_LINKS = 40, MOST_NAMES = 100, NAME_ROOM = 200 };

static void *fail(const char *path, const char *what)
{
    int why = errno;
    (void)tp_fail(TP_ERR_RUNTIME, "%s: %s: %s", path, what, strerror(why));
    errno = why;
    return NULL;
}

/* ---- where the bytes go ---- */

/* The folder of a path with its slash, "" for the current one: how many bytes of it. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* The path without symbolic links at its end, "" where only the system can follow them. Owned; NULL: an error. */
static char *follow(const char *path)
{
    char link[PATH_MAX], *at = tp_alloc_text(path);
    for (int i = 0; at; i++) {
        if (i == MOST_LINKS || strncmp(at, "/proc/", 6) == 0 || strncmp(at, "/dev/fd/", 8) == 0) {
            *at = 0;
            return at;
        }
        ssize_t n = readlink(at, link, sizeof link - 1);
        if (n < 0)
            return at;
        link[n] = 0;
        size_t before = *link == '/' ? 0 : folder_length(at);
        char *next = tp_alloc(before + (size_t)n + 1);
        if (next) {
            memcpy(next, at, before);
            memcpy(next + before, link, (size_t)n + 1);
        }
        tp_free(at);
        at = next;
    }
    return NULL;
}

/* May what stands there be replaced? Nothing there: yes. */
static bool replaceable(const struct stat *s, bool there)
{
    return !there || (S_ISREG(s->st_mode) && (s->st_uid == geteuid() || geteuid() == 0));
}

/* A file without a name, if the system has such and can name it later. */
static int open_nameless(const char *target)
{
#ifdef O_TMPFILE
    char folder[PATH_MAX], link[32];
    size_t length = folder_length(target);
    if (length >= sizeof folder)
        return -1;
    memcpy(folder, length ? target : "./", length ? length : 2);
    folder[length ? length : 2] = 0;
    int file = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if (file >= 0 && access(link, F_OK) != 0) {
        close(file);
        file = -1;
    }
    return file;
#else
    (void)target;
    return -1;
#endif
}

/* Gives the file a name beside the target that nobody has: links `file` there or, when that is -1, opens one. */
static int make_beside(tp_output *o, int file)
{
    size_t folder = folder_length(o->target);
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    for (unsigned i = 0; i < MOST_NAMES; i++) {
        struct timespec now;
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        snprintf(o->beside, folder + NAME_ROOM, "%.*s.%.100s.%ld-%lx%x", (int)folder, o->target, o->target + folder,
                 (long)getpid(), now.tv_nsec, i);
        int got = file < 0 ? open(o->beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)
                           : linkat(AT_FDCWD, link, AT_FDCWD, o->beside, AT_SYMLINK_FOLLOW);
        o->named = got >= 0;
        if (o->named || errno != EEXIST)
            return got;
    }
    return -1;
}

/* The new file has the permissions and, where we may say so, the group of the old one. */
static void dress(int file, const struct stat *old)
{
    if (fchown(file, old->st_uid, old->st_gid) != 0 && fchown(file, (uid_t)-1, old->st_gid) != 0)
        errno = 0;
    if (fchmod(file, old->st_mode & 07777) != 0)
        errno = 0;
}

static int open_beside(tp_output *o)
{
    struct stat s;
    bool there = stat(o->target, &s) == 0;
    errno = EACCES;
    if (!replaceable(&s, there) || (there && faccessat(AT_FDCWD, o->target, W_OK, AT_EACCESS) != 0))
        return -1;
    int file = open_nameless(o->target);
    if (file < 0)
        file = make_beside(o, -1);
    if (file >= 0 && there)
        dress(file, &s);
    return file;
}

static int open_in_place(tp_output *o)
{
    tp_free(o->target);
    o->target = NULL;
    return open(o->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

/* In place only where it is not allowed beside: when the disk is full, the old file must stay. */
static bool open_output(tp_output *o)
{
    int file = *o->target ? open_beside(o) : -1;
    if (file < 0 && (!*o->target || errno == EACCES || errno == EPERM))
        file = open_in_place(o);
    if (file >= 0 && (o->file = fdopen(file, "wb")))
        return true;
    (void)fail(o->path, "cannot be opened");
    int why = errno;
    if (file >= 0)
        close(file);
    if (o->named)
        unlink(o->beside);
    errno = why;
    return false;
}

static void output_free(tp_output *o)
{
    tp_free(o->beside);
    tp_free(o->target);
    tp_free(o->path);
    tp_free(o);
}

tp_output *tp_output_new(const char *path)
{
    tp_output *o = tp_alloc_zero(sizeof *o);
    if (!o)
        return NULL;
    o->path = tp_alloc_text(path);
    o->target = o->path ? follow(path) : NULL;
    o->beside = o->target ? tp_alloc(folder_length(o->target) + NAME_ROOM) : NULL;
    if (o->beside && open_output(o))
        return o;
    int why = errno;
    output_free(o);
    errno = why;
    return NULL;
}

bool tp_output_write(tp_output *o, const void *bytes, size_t count)
{
    return fwrite(bytes, 1, count, o->file) == count || fail(o->path, "cannot be written");
}

/* ---- taking its place ---- */

static bool put_in_place(tp_output *o)
{
    if (fflush(o->file) != 0)
        return fail(o->path, "cannot be written");
    if (!o->target)
        return true;
    /* A rename may reach the disk before the data does, unless the data is there first. */
    if (fsync(fileno(o->file)) != 0 && errno != EINVAL && errno != ENOSYS)
        return fail(o->path, "cannot be written");
    if (!o->named && make_beside(o, fileno(o->file)) < 0)
        return fail(o->path, "cannot be written");
    if (rename(o->beside, o->target) != 0)
        return fail(o->path, "cannot be replaced");
    o->named = false;
    return true;
}

bool tp_output_finish(tp_output *o, bool keep)
{
    if (!o)
        return false;
    bool done = keep && put_in_place(o);
    int why = errno;
    if (fclose(o->file) != 0 && done && !o->target) {       /* what is in place already was flushed */
        done = fail(o->path, "cannot be written");
        why = errno;
    }
    if (o->named)
        unlink(o->beside);
    output_free(o);
    errno = why;
    return done;
}
