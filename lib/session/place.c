#include "session/place.h"

#include "machine/twin.h"
#include "session/way.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_TRIES 1000

static enum rig_status open_directory(struct place *p, struct rig_error *err)
{
    char *slash = strrchr(p->path, '/');
    p->name = slash ? slash + 1 : p->path;
    if (!*p->name || strcmp(p->name, ".") == 0 || strcmp(p->name, "..") == 0 ||
        strlen(p->name) > NAME_MAX - 8)
        return rig_fail(err, RIG_INVALID, p->path, "names no file");
    char *directory = slash ? strndup(p->path, (size_t)(slash - p->path) + 1) : strdup(".");
    if (!directory)
        return rig_fail_memory(err);
    enum rig_status status = way_walk(p->path, directory, &p->directory, err);
    free(directory);
    return status;
}

enum rig_status place_open(const char *path, struct place *out_place, struct rig_error *err)
{
    struct place p = {.path = strdup(path), .directory = -1, .lock = -1};
    if (!p.path)
        return rig_fail_memory(err);
    enum rig_status status = open_directory(&p, err);
    if (status == RIG_OK)
        *out_place = p;
    else
        place_close(&p);
    return status;
}

void place_close(struct place *p)
{
    if (p->lock >= 0)
        close(p->lock);
    if (p->directory >= 0)
        close(p->directory);
    free(p->path);
    *p = (struct place){.directory = -1, .lock = -1};
}

/* ---- files */

/* The file's name, in text of NAME_MAX + 1 bytes. */
static const char *named(const struct place *p, const char *suffix, char text[NAME_MAX + 1])
{
    snprintf(text, NAME_MAX + 1, "%s%s", p->name, suffix);
    return text;
}

bool place_exists(const struct place *p)
{
    struct stat st;
    return p->directory >= 0 &&
           (fstatat(p->directory, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT);
}

static enum rig_status check_facts(const struct stat *st, const char *what, struct rig_error *err)
{
    if (S_ISLNK(st->st_mode))
        return rig_fail(err, RIG_REFUSED, what, "is a symbolic link");
    if (!S_ISREG(st->st_mode))
        return rig_fail(err, RIG_REFUSED, what, "is no regular file");
    if (!way_is_ours(st->st_uid))
        return rig_fail(err, RIG_REFUSED, what, "belongs to another user (%lu)",
                        (unsigned long)st->st_uid);
    if ((st->st_mode & 022) != 0) {
        rig_fail(err, RIG_REFUSED, what, "other users may write it");
        rig_hint(err, "chmod go-w it once you know what it holds");
        return RIG_REFUSED;
    }
    if (st->st_nlink > 1)
        return rig_fail(err, RIG_REFUSED, what, "has %lu names (hard links)",
                        (unsigned long)st->st_nlink);
    return RIG_OK;
}

static enum rig_status check_file(int fd, const char *what, struct rig_error *err)
{
    struct stat st;
    return fstat(fd, &st) == 0 ? check_facts(&st, what, err) : way_broke(what, err);
}

/* -1: err says why, or *out_missing, which a file that is to be made never is. */
static int open_file(const struct place *p, const char *suffix, int flags, bool *out_missing,
                     struct rig_error *err)
{
    char name[NAME_MAX + 1];
    int fd = openat(p->directory, named(p, suffix, name),
                    flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    *out_missing = fd < 0 && errno == ENOENT && !(flags & O_CREAT);
    if (fd < 0) {
        if (!*out_missing)
            way_broke(name, err);
        return -1;
    }
    if (check_file(fd, name, err) == RIG_OK)
        return fd;
    close(fd);
    return -1;
}

/* Whether the locked file is still the one at its name: `close` removes it. */
static bool still_there(const struct place *p, int fd)
{
    char name[NAME_MAX + 1];
    struct stat mine, there;
    return fstat(fd, &mine) == 0 &&
           fstatat(p->directory, named(p, ".lock", name), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

enum rig_status place_lock(struct place *p, struct rig_error *err)
{
    char name[NAME_MAX + 1];
    struct rig_error local = {.status = RIG_OK};
    named(p, ".lock", name);
    for (int i = 0; i < LOCK_TRIES; i++) {
        bool missing;
        int fd = open_file(p, ".lock", O_RDWR, &missing, &local);
        p->used = fd >= 0;
        if (fd < 0 && missing)
            fd = open_file(p, ".lock", O_RDWR | O_CREAT, &missing, &local);
        if (fd < 0) {
            if (err && err->status == RIG_OK)
                *err = local;
            return local.status;
        }
        int got;
        do
            got = flock(fd, LOCK_EX);
        while (got != 0 && errno == EINTR);
        if (got != 0) {
            int why = errno;
            close(fd);
            return rig_fail(err, RIG_REFUSED, name, "cannot be locked: %s", RIG_ERRNO(why));
        }
        if (still_there(p, fd)) {
            p->lock = fd;
            return RIG_OK;
        }
        close(fd);
    }
    return rig_fail(err, RIG_REFUSED, name, "changes hands too fast to be locked");
}

static enum rig_status read_all(int fd, const char *what, char **out_text, size_t *out_bytes,
                                struct rig_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return way_broke(what, err);
    if ((uint64_t)st.st_size > PLACE_MAX)
        return rig_fail(err, RIG_BAD_INPUT, what, "is larger than 64 MiB");
    size_t room = (size_t)st.st_size, used = 0;
    char *text = malloc(room + 1);
    if (!text)
        return rig_fail_memory(err);
    while (used < room) {
        ssize_t got = read(fd, text + used, room - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            free(text);
            return way_broke(what, err);
        }
        if (got == 0)
            break;
        used += (size_t)got;
    }
    text[used] = '\0';
    *out_text = text;
    *out_bytes = used;
    return RIG_OK;
}

enum rig_status place_read(const struct place *p, const char *suffix, char **out_text,
                           size_t *out_bytes, struct rig_error *err)
{
    char name[NAME_MAX + 1];
    bool missing;
    struct rig_error local = {.status = RIG_OK};
    int fd = open_file(p, suffix, O_RDONLY, &missing, &local);
    if (fd < 0 && missing) {
        *out_text = NULL;
        *out_bytes = 0;
        return RIG_OK;
    }
    if (fd < 0) {
        if (err && err->status == RIG_OK)
            *err = local;
        return local.status;
    }
    enum rig_status status = read_all(fd, named(p, suffix, name), out_text, out_bytes, err);
    close(fd);
    return status;
}

static bool put_all(int fd, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t put = write(fd, text, bytes);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        text += put;
        bytes -= (size_t)put;
    }
    return true;
}

enum rig_status place_write(const struct place *p, const char *text, size_t bytes,
                            struct rig_error *err)
{
    char temporary[NAME_MAX + 1];
    named(p, ".tmp", temporary);
    /* The lock is held: one that is there is a killed command's. */
    unlinkat(p->directory, temporary, 0);
    int fd =
        openat(p->directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return way_broke(temporary, err);
    bool written = fchmod(fd, 0600) == 0 && put_all(fd, text, bytes) && fsync(fd) == 0;
    int why = errno;
    if (close(fd) != 0 && written) {
        written = false;
        why = errno;
    }
    if (written && renameat(p->directory, temporary, p->directory, p->name) == 0)
        return RIG_OK;
    why = written ? errno : why;
    unlinkat(p->directory, temporary, 0);
    return rig_fail(err, RIG_FAILED, p->path, "it cannot be written: %s", RIG_ERRNO(why));
}

enum rig_status place_sync(const struct place *p, struct rig_error *err)
{
    if (fsync(p->directory) == 0 || errno == EINVAL)
        return RIG_OK;
    return rig_fail(err, RIG_FAILED, p->path, "its directory: %s", RIG_ERRNO(errno));
}

enum rig_status place_append(const struct place *p, const char *line, size_t bytes,
                             uint64_t *out_before, struct rig_error *err)
{
    struct rig_error local = {.status = RIG_OK};
    bool missing;
    int fd = open_file(p, ".intent", O_WRONLY | O_CREAT | O_APPEND, &missing, &local);
    if (fd < 0) {
        if (err && err->status == RIG_OK)
            *err = local;
        return local.status;
    }
    struct stat st = {.st_size = -1};
    bool put = fstat(fd, &st) == 0;
    /* What is there may end in the middle of a killed command's line. */
    put = put && (st.st_size == 0 || put_all(fd, "\n", 1)) && put_all(fd, line, bytes);
    int why = errno;
    close(fd);
    if (put) {
        *out_before = (uint64_t)st.st_size;
        return RIG_OK;
    }
    if (st.st_size >= 0)
        place_cut(p, (uint64_t)st.st_size);
    return rig_fail(err, RIG_FAILED, p->path, "its intent cannot be written: %s", RIG_ERRNO(why));
}

void place_cut(const struct place *p, uint64_t bytes)
{
    char name[NAME_MAX + 1];
    if (bytes == 0) {
        place_remove(p, ".intent", NULL);
        return;
    }
    int fd = openat(p->directory, named(p, ".intent", name), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    if (ftruncate(fd, (off_t)bytes) != 0)
        errno = 0; /* the line stays, and its request is taken for one that was cut short */
    close(fd);
}

enum rig_status place_remove(const struct place *p, const char *suffix, struct rig_error *err)
{
    char name[NAME_MAX + 1];
    if (unlinkat(p->directory, named(p, suffix, name), 0) == 0 || errno == ENOENT)
        return RIG_OK;
    return way_broke(name, err);
}

/* ---- the boot */

#define BOOT_FILE "/proc/sys/kernel/random/boot_id"

enum rig_status place_boot(char boot[PLACE_BOOT], struct rig_error *err)
{
    memset(boot, 0, PLACE_BOOT);
    int fd = open(BOOT_FILE, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == EACCES ? RIG_OK : way_broke(BOOT_FILE, err);
    ssize_t got = -1, used = 0;
    do {
        got = read(fd, boot + used, (size_t)(PLACE_BOOT - 1 - used));
        used += got > 0 ? got : 0;
    } while (got > 0 || (got < 0 && errno == EINTR));
    enum rig_status status = got < 0 ? way_broke(BOOT_FILE, err) : RIG_OK;
    close(fd);
    boot[strcspn(boot, "\n")] = '\0';
    return status;
}

/* ---- the directory of memory files */

static bool stands(const struct place *p, const char *suffix)
{
    char name[NAME_MAX + 1];
    struct stat st;
    return fstatat(p->directory, named(p, suffix, name), &st, AT_SYMLINK_NOFOLLOW) == 0;
}

enum rig_status place_memory(const struct place *p, char **out_path, int *out_fd,
                             struct rig_error *err)
{
    char name[NAME_MAX + 1];
    named(p, ".d", name);
    if (mkdirat(p->directory, name, 0700) != 0 && errno != EEXIST)
        return way_broke(name, err);
    int fd = openat(p->directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return way_broke(name, err);
    struct stat st;
    enum rig_status status = RIG_OK;
    if (fstat(fd, &st) != 0)
        status = way_broke(name, err);
    else if (!way_is_ours(st.st_uid))
        status = rig_fail(err, RIG_REFUSED, name, "belongs to another user");
    else if ((st.st_mode & 022) != 0)
        status = rig_fail(err, RIG_REFUSED, name, "other users may write it");
    char *path = NULL;
    if (status == RIG_OK && asprintf(&path, "/proc/self/fd/%d", fd) < 0)
        status = rig_fail_memory(err);
    if (status != RIG_OK) {
        close(fd);
        return status;
    }
    *out_path = path;
    *out_fd = fd;
    return RIG_OK;
}

bool place_has_memory(const struct place *p)
{
    return stands(p, ".d");
}

enum rig_status place_check_memory(const struct place *p, int fd, struct rig_error *err)
{
    char what[2 * NAME_MAX + 4], name[NAME_MAX + 1];
    int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = again >= 0 ? fdopendir(again) : NULL;
    if (!dir) {
        if (again >= 0)
            close(again);
        return way_broke(named(p, ".d", name), err);
    }
    enum rig_status status = RIG_OK;
    struct stat st;
    errno = 0;
    for (struct dirent *e; status == RIG_OK && (e = readdir(dir)); errno = 0) {
        if (!twin_is_file(e->d_name))
            continue;
        snprintf(what, sizeof what, "%s/%s", named(p, ".d", name), e->d_name);
        status = fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? check_facts(&st, what, err)
                                                                       : way_broke(what, err);
    }
    if (errno != 0 && status == RIG_OK)
        status = way_broke(named(p, ".d", name), err);
    closedir(dir);
    return status;
}

enum rig_status place_remove_memory(const struct place *p, struct rig_error *err)
{
    char name[NAME_MAX + 1];
    named(p, ".d", name);
    int fd = openat(p->directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? RIG_OK : way_broke(name, err);
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return way_broke(name, err);
    }
    enum rig_status status = RIG_OK;
    errno = 0;
    for (struct dirent *e; (e = readdir(dir)); errno = 0)
        if (twin_is_file(e->d_name) && unlinkat(dirfd(dir), e->d_name, 0) != 0 && status == RIG_OK)
            status = way_broke(e->d_name, err);
    if (errno != 0 && status == RIG_OK)
        status = way_broke(name, err);
    closedir(dir);
    if (status == RIG_OK && unlinkat(p->directory, name, AT_REMOVEDIR) != 0 && errno != ENOENT &&
        errno != ENOTEMPTY && errno != EEXIST)
        status = way_broke(name, err);
    return status;
}

static const char *const beside[] = {".tmp", ".intent"};

enum rig_status place_remove_rest(const struct place *p, struct rig_error *err)
{
    enum rig_status first = RIG_OK;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(beside); i++) {
        enum rig_status status = place_remove(p, beside[i], err);
        first = first == RIG_OK ? status : first;
    }
    enum rig_status status = place_remove_memory(p, err);
    return first == RIG_OK ? status : first;
}

enum rig_status place_clean(const struct place *p, bool *out_any, struct rig_error *err)
{
    bool any = p->used && stands(p, ".d");
    for (size_t i = 0; p->used && i < RIG_ARRAY_LENGTH(beside); i++)
        any = any || stands(p, beside[i]);
    *out_any = any;
    return any ? place_remove_rest(p, err) : RIG_OK;
}
