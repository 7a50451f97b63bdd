/* The way to a session's directory, and who may have laid it. */
#include "session/way.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A path deeper than this is no place for a session. */
#define DEPTH_MAX 128
#define LINKS_MAX 40

bool way_is_ours(uid_t owner)
{
    return owner == geteuid() || owner == 0;
}

enum rig_status way_broke(const char *what, struct rig_error *err)
{
    bool refused = errno == EACCES || errno == EPERM || errno == EROFS || errno == ELOOP ||
                   errno == ENOTDIR || errno == EISDIR || errno == ENAMETOOLONG ||
                   errno == ENOENT || errno == ENXIO;
    return rig_fail(err, refused ? RIG_REFUSED : RIG_FAILED, what, "%s",
                    errno == ELOOP ? "is a symbolic link" : RIG_ERRNO(errno));
}

/* ---- directories */

static enum rig_status check_directory(const struct stat *st, const char *path,
                                       struct rig_error *err)
{
    if (!way_is_ours(st->st_uid)) {
        rig_fail(err, RIG_REFUSED, path, "a directory above it belongs to another user (%lu)",
                 (unsigned long)st->st_uid);
        rig_hint(err, "name a state file below a directory of your own with -s");
        return RIG_REFUSED;
    }
    if ((st->st_mode & 022) != 0 && (st->st_mode & S_ISVTX) == 0) {
        rig_fail(err, RIG_REFUSED, path,
                 "other users may write a directory above it, which is not sticky");
        rig_hint(err, "chmod go-w that directory, or name another state file with -s");
        return RIG_REFUSED;
    }
    return RIG_OK;
}

/* Every directory from `fd` up to the root, as they are now. */
static enum rig_status check_above(int fd, const char *path, struct rig_error *err)
{
    int at = dup(fd);
    struct stat before = {.st_ino = 0}, st;
    enum rig_status status = RIG_OK;
    for (int depth = 0; at >= 0 && status == RIG_OK; depth++) {
        if (fstat(at, &st) != 0 || depth > DEPTH_MAX) {
            status = rig_fail(err, RIG_REFUSED, path, "the directories above it cannot be checked");
            break;
        }
        if (depth > 0 && st.st_ino == before.st_ino && st.st_dev == before.st_dev)
            break;
        status = check_directory(&st, path, err);
        before = st;
        int up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        int why = errno;
        close(at);
        errno = why;
        at = up;
    }
    if (at < 0 && status == RIG_OK)
        return way_broke(path, err);
    if (at >= 0)
        close(at);
    return status;
}

/* A way that is walked a name at a time, each relative to the directory before it, so that nobody
   can put another in between. `rest` is what is left of it. */
struct way {
    const char *path; /* as it was given, for messages */
    char *rest;
    int at; /* the directory so far, by O_PATH */
    int links;
};

static enum rig_status start_at(struct way *w, const char *directory, struct rig_error *err)
{
    int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return way_broke(w->path, err);
    if (w->at >= 0)
        close(w->at);
    w->at = fd;
    return RIG_OK;
}

/* Puts what a link says in place of its name. A link of somebody else's could lead anywhere. */
static enum rig_status follow(struct way *w, int link, const struct stat *st, const char *name,
                              struct rig_error *err)
{
    char to[PATH_MAX];
    if (!way_is_ours(st->st_uid))
        return rig_fail(err, RIG_REFUSED, w->path, "%s is a symbolic link of another user", name);
    ssize_t bytes = readlinkat(link, "", to, sizeof to);
    if (bytes < 0)
        return way_broke(w->path, err);
    if (bytes == 0 || bytes == sizeof to || ++w->links > LINKS_MAX)
        return rig_fail(err, RIG_REFUSED, w->path, "%s leads nowhere", name);
    char *rest;
    if (asprintf(&rest, "%.*s/%s", (int)bytes, to, w->rest) < 0)
        return rig_fail_memory(err);
    free(w->rest);
    w->rest = rest;
    return to[0] == '/' ? start_at(w, "/", err) : RIG_OK;
}

/* Goes on by one name. *out_missing: there is none such. */
static enum rig_status step(struct way *w, bool *out_missing, struct rig_error *err)
{
    char name[NAME_MAX + 1];
    size_t slashes = strspn(w->rest, "/"), bytes = strcspn(w->rest + slashes, "/");
    if (bytes > NAME_MAX)
        return rig_fail(err, RIG_REFUSED, w->path, "a name in it is too long");
    memcpy(name, w->rest + slashes, bytes);
    name[bytes] = '\0';
    memmove(w->rest, w->rest + slashes + bytes, strlen(w->rest + slashes + bytes) + 1);
    if (bytes == 0)
        return RIG_OK;
    int fd = openat(w->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    *out_missing = fd < 0 && errno == ENOENT;
    if (fd < 0)
        return *out_missing ? RIG_OK : way_broke(w->path, err);
    struct stat st;
    enum rig_status status = fstat(fd, &st) == 0 ? RIG_OK : way_broke(w->path, err);
    if (status == RIG_OK && S_ISLNK(st.st_mode)) {
        status = follow(w, fd, &st, name, err);
        close(fd);
        return status;
    }
    if (status == RIG_OK && !S_ISDIR(st.st_mode))
        status = rig_fail(err, RIG_REFUSED, w->path, "%s is no directory", name);
    if (status == RIG_OK)
        status = check_directory(&st, w->path, err);
    if (status != RIG_OK) {
        close(fd);
        return status;
    }
    close(w->at);
    w->at = fd;
    return RIG_OK;
}

enum rig_status way_walk(const char *path, const char *directory, int *out_fd,
                         struct rig_error *err)
{
    struct way w = {.path = path, .rest = strdup(directory), .at = -1};
    bool missing = false;
    enum rig_status status = w.rest ? RIG_OK : rig_fail_memory(err);
    if (status == RIG_OK)
        status = start_at(&w, directory[0] == '/' ? "/" : ".", err);
    while (status == RIG_OK && !missing && *w.rest)
        status = step(&w, &missing, err);
    *out_fd = -1;
    if (status == RIG_OK && !missing) {
        *out_fd = openat(w.at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        status = *out_fd >= 0 ? check_above(*out_fd, path, err) : way_broke(path, err);
    }
    free(w.rest);
    if (w.at >= 0)
        close(w.at);
    return status;
}
