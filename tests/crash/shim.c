#include "shim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOOT_FILE "/proc/sys/kernel/random/boot_id"

/* The linker calls the function that is named __real_name, and has calls of it come here. */
#define SHIMMED(type, name, parameters)                                                            \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters

static struct shim *shim;
static const char *boot;

static const char *const names[SHIM_CALLS] = {
    [CALL_OPEN] = "open",           [CALL_CLOSE] = "close",     [CALL_READ] = "read",
    [CALL_WRITE] = "write",         [CALL_FSYNC] = "fsync",     [CALL_FTRUNCATE] = "ftruncate",
    [CALL_FALLOCATE] = "fallocate", [CALL_FLOCK] = "flock",     [CALL_STAT] = "stat",
    [CALL_MMAP] = "mmap",           [CALL_MKDIR] = "mkdir",     [CALL_UNLINK] = "unlink",
    [CALL_RENAME] = "rename",       [CALL_FCHMOD] = "fchmod",   [CALL_DUP] = "dup",
    [CALL_ACCESS] = "access",       [CALL_READDIR] = "readdir", [CALL_READLINK] = "readlink",
    [CALL_MEMORY] = "memory",
};

const char *shim_name(enum shim_call call)
{
    return names[call];
}

SHIMMED(void *, mmap, (void *at, size_t bytes, int protection, int flags, int fd, off_t offset));

struct shim *shim_new(void)
{
    void *at = __real_mmap(NULL, sizeof(struct shim), PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

void shim_begin(struct shim *s)
{
    shim = s;
}

void shim_end(void)
{
    shim = NULL;
}

void shim_boot(const char *id)
{
    boot = id;
}

/* Counts a call, and says how it goes wrong. */
static enum shim_act count(enum shim_call call)
{
    if (!shim)
        return SHIM_WATCH;
    long n = ++shim->seen[call];
    const struct shim_plan *p = &shim->plan;
    if (p->act == SHIM_WATCH || p->call != call || n < p->n || (n > p->n && !p->on))
        return SHIM_WATCH;
    shim->fired = true;
    if (p->act == SHIM_KILL)
        kill(getpid(), SIGKILL);
    return p->act;
}

/* True: the call is to fail, and errno says why. */
static bool fails(enum shim_call call)
{
    if (count(call) != SHIM_FAIL)
        return false;
    errno = shim->plan.error;
    return true;
}

/* ---- the record */

SHIMMED(ssize_t, readlinkat, (int fd, const char *path, char *text, size_t room));

/* The whole path of a name below the open directory, or of an open file. */
static void whole_path(int fd, const char *name, char text[160])
{
    char link[64], below[160] = "";
    if (name && name[0] == '/') {
        snprintf(text, 160, "%s", name);
        return;
    }
    snprintf(link, sizeof link, fd == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", fd);
    ssize_t got = __real_readlinkat(AT_FDCWD, link, below, sizeof below - 1);
    below[got > 0 ? got : 0] = '\0';
    if (name)
        snprintf(text, 160, "%.100s/%.50s", below, name);
    else
        snprintf(text, 160, "%s", below);
}

static bool recording(void)
{
    return shim && shim->plan.record;
}

static struct shim_op *note(enum shim_kind kind, int fd, const char *name)
{
    struct shim_op *op = &shim->op[shim->ops];
    if (shim->ops == SHIM_OPS - 1)
        abort();
    shim->ops++;
    *op = (struct shim_op){.kind = kind};
    whole_path(fd, name, op->path);
    return op;
}

static void note_write(int fd, const void *data, size_t bytes, uint64_t at)
{
    struct shim_op *op = note(OP_WRITE, fd, NULL);
    if (SHIM_DATA - shim->used < bytes)
        abort();
    op->at = at;
    op->count = bytes;
    op->data = shim->used;
    memcpy(shim->data + shim->used, data, bytes);
    shim->used += bytes;
}

/* ---- files */

SHIMMED(int, open, (const char *path, int flags, ...));
SHIMMED(int, openat, (int fd, const char *path, int flags, ...));
SHIMMED(int, fstat, (int fd, struct stat *st));
SHIMMED(int, faccessat, (int fd, const char *path, int mode, int flags));
SHIMMED(off_t, lseek, (int fd, off_t offset, int from))
{
    return __real_lseek(fd, offset, from);
}

static int fake_boot(void)
{
    int fd = memfd_create("boot", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, boot, strlen(boot)) == (ssize_t)strlen(boot))
        __real_lseek(fd, 0, SEEK_SET);
    return fd;
}

static int open_at(int fd, const char *path, int flags, mode_t mode)
{
    if (fails(CALL_OPEN))
        return -1;
    if (boot && strcmp(path, BOOT_FILE) == 0)
        return fake_boot();
    bool new = recording() && (flags & O_CREAT) != 0 &&
               __real_faccessat(fd, path, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
    int opened = __real_openat(fd, path, flags, mode);
    if (new &&opened >= 0)
        note(OP_CREATE, opened, NULL);
    return opened;
}

int __wrap_open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
    va_end(list);
    return open_at(AT_FDCWD, path, flags, mode);
}

int __wrap_openat(int fd, const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
    va_end(list);
    return open_at(fd, path, flags, mode);
}

/* A close that fails has closed all the same (close(2)). */
SHIMMED(int, close, (int fd))
{
    bool failed = fails(CALL_CLOSE);
    int why = errno;
    int done = __real_close(fd);
    if (failed)
        errno = why;
    return failed ? -1 : done;
}

static size_t half(size_t bytes)
{
    return bytes > 1 ? bytes / 2 : bytes;
}

SHIMMED(ssize_t, read, (int fd, void *data, size_t bytes))
{
    enum shim_act act = count(CALL_READ);
    if (act == SHIM_FAIL) {
        errno = shim->plan.error;
        return -1;
    }
    return __real_read(fd, data, act == SHIM_SHORT ? half(bytes) : bytes);
}

SHIMMED(ssize_t, pread, (int fd, void *data, size_t bytes, off_t at))
{
    enum shim_act act = count(CALL_READ);
    if (act == SHIM_FAIL) {
        errno = shim->plan.error;
        return -1;
    }
    return __real_pread(fd, data, act == SHIM_SHORT ? half(bytes) : bytes, at);
}

/* How many bytes of a write are to be written; -1: it fails. */
static ssize_t share(enum shim_act act, size_t bytes)
{
    if (act == SHIM_FAIL) {
        errno = shim->plan.error;
        return -1;
    }
    return (ssize_t)(act == SHIM_SHORT || act == SHIM_TEAR ? half(bytes) : bytes);
}

SHIMMED(ssize_t, write, (int fd, const void *data, size_t bytes))
{
    enum shim_act act = count(CALL_WRITE);
    ssize_t part = share(act, bytes);
    if (part < 0)
        return -1;
    uint64_t at = 0;
    if (recording()) {
        struct stat st;
        bool append = (fcntl(fd, F_GETFL) & O_APPEND) != 0 && __real_fstat(fd, &st) == 0;
        at = append ? (uint64_t)st.st_size : (uint64_t)__real_lseek(fd, 0, SEEK_CUR);
    }
    ssize_t put = __real_write(fd, data, (size_t)part);
    if (act == SHIM_TEAR)
        kill(getpid(), SIGKILL);
    if (recording() && put > 0)
        note_write(fd, data, (size_t)put, at);
    return put;
}

SHIMMED(ssize_t, pwrite, (int fd, const void *data, size_t bytes, off_t at))
{
    enum shim_act act = count(CALL_WRITE);
    ssize_t part = share(act, bytes);
    if (part < 0)
        return -1;
    ssize_t put = __real_pwrite(fd, data, (size_t)part, at);
    if (act == SHIM_TEAR)
        kill(getpid(), SIGKILL);
    if (recording() && put > 0)
        note_write(fd, data, (size_t)put, (uint64_t)at);
    return put;
}

SHIMMED(int, fsync, (int fd))
{
    if (fails(CALL_FSYNC))
        return -1;
    if (recording())
        note(OP_SYNC, fd, NULL);
    /* nothing here outlives the machine: the order of things is what is tried */
    return fcntl(fd, F_GETFD) < 0 ? -1 : 0;
}

SHIMMED(int, ftruncate, (int fd, off_t bytes))
{
    if (fails(CALL_FTRUNCATE))
        return -1;
    int done = __real_ftruncate(fd, bytes);
    if (recording() && done == 0)
        note(OP_TRUNCATE, fd, NULL)->at = (uint64_t)bytes;
    return done;
}

SHIMMED(int, fallocate, (int fd, int mode, off_t at, off_t bytes))
{
    if (fails(CALL_FALLOCATE))
        return -1;
    int done = __real_fallocate(fd, mode, at, bytes);
    if (recording() && done == 0 && (mode & FALLOC_FL_PUNCH_HOLE) != 0) {
        struct shim_op *op = note(OP_PUNCH, fd, NULL);
        op->at = (uint64_t)at;
        op->count = (uint64_t)bytes;
    }
    return done;
}

SHIMMED(int, flock, (int fd, int how))
{
    return fails(CALL_FLOCK) ? -1 : __real_flock(fd, how);
}

int __wrap_fstat(int fd, struct stat *st)
{
    return fails(CALL_STAT) ? -1 : __real_fstat(fd, st);
}

SHIMMED(int, stat, (const char *path, struct stat *st))
{
    return fails(CALL_STAT) ? -1 : __real_stat(path, st);
}

SHIMMED(int, lstat, (const char *path, struct stat *st))
{
    return fails(CALL_STAT) ? -1 : __real_lstat(path, st);
}

SHIMMED(int, fstatat, (int fd, const char *path, struct stat *st, int flags))
{
    return fails(CALL_STAT) ? -1 : __real_fstatat(fd, path, st, flags);
}

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    return fails(CALL_MMAP) ? MAP_FAILED : __real_mmap(at, bytes, protection, flags, fd, offset);
}

SHIMMED(int, mkdir, (const char *path, mode_t mode))
{
    if (fails(CALL_MKDIR))
        return -1;
    int done = __real_mkdir(path, mode);
    if (recording() && done == 0)
        note(OP_MKDIR, AT_FDCWD, path);
    return done;
}

SHIMMED(int, mkdirat, (int fd, const char *path, mode_t mode))
{
    if (fails(CALL_MKDIR))
        return -1;
    int done = __real_mkdirat(fd, path, mode);
    if (recording() && done == 0)
        note(OP_MKDIR, fd, path);
    return done;
}

SHIMMED(int, unlinkat, (int fd, const char *path, int flags))
{
    if (fails(CALL_UNLINK))
        return -1;
    int done = __real_unlinkat(fd, path, flags);
    if (recording() && done == 0)
        note(OP_UNLINK, fd, path);
    return done;
}

SHIMMED(int, unlink, (const char *path))
{
    return __wrap_unlinkat(AT_FDCWD, path, 0);
}

SHIMMED(int, renameat, (int from, const char *path, int to, const char *name))
{
    if (fails(CALL_RENAME))
        return -1;
    int done = __real_renameat(from, path, to, name);
    if (recording() && done == 0)
        whole_path(to, name, note(OP_RENAME, from, path)->to);
    return done;
}

SHIMMED(int, rename, (const char *path, const char *name))
{
    return __wrap_renameat(AT_FDCWD, path, AT_FDCWD, name);
}

SHIMMED(int, fchmod, (int fd, mode_t mode))
{
    return fails(CALL_FCHMOD) ? -1 : __real_fchmod(fd, mode);
}

SHIMMED(int, dup, (int fd))
{
    return fails(CALL_DUP) ? -1 : __real_dup(fd);
}

int __wrap_faccessat(int fd, const char *path, int mode, int flags)
{
    return fails(CALL_ACCESS) ? -1 : __real_faccessat(fd, path, mode, flags);
}

SHIMMED(struct dirent *, readdir, (DIR * dir))
{
    return fails(CALL_READDIR) ? NULL : __real_readdir(dir);
}

ssize_t __wrap_readlinkat(int fd, const char *path, char *text, size_t room)
{
    return fails(CALL_READLINK) ? -1 : __real_readlinkat(fd, path, text, room);
}

/* ---- memory */

static void *took(void *memory)
{
    if (shim && memory)
        shim->held++;
    return memory;
}

SHIMMED(void, free, (void *memory))
{
    if (shim && memory)
        shim->held--;
    __real_free(memory);
}

SHIMMED(void *, malloc, (size_t bytes))
{
    return fails(CALL_MEMORY) ? NULL : took(__real_malloc(bytes));
}

SHIMMED(void *, calloc, (size_t items, size_t bytes))
{
    return fails(CALL_MEMORY) ? NULL : took(__real_calloc(items, bytes));
}

SHIMMED(void *, realloc, (void *memory, size_t bytes))
{
    if (fails(CALL_MEMORY))
        return NULL;
    void *moved = __real_realloc(memory, bytes);
    return memory ? moved : took(moved);
}

SHIMMED(void *, reallocarray, (void *memory, size_t items, size_t bytes))
{
    if (fails(CALL_MEMORY))
        return NULL;
    void *moved = __real_reallocarray(memory, items, bytes);
    return memory ? moved : took(moved);
}

SHIMMED(void *, aligned_alloc, (size_t unit, size_t bytes))
{
    return fails(CALL_MEMORY) ? NULL : took(__real_aligned_alloc(unit, bytes));
}

SHIMMED(char *, strdup, (const char *text))
{
    return fails(CALL_MEMORY) ? NULL : took(__real_strdup(text));
}

SHIMMED(char *, strndup, (const char *text, size_t bytes))
{
    return fails(CALL_MEMORY) ? NULL : took(__real_strndup(text, bytes));
}

SHIMMED(int, vasprintf, (char **out_text, const char *format, va_list list))
{
    if (fails(CALL_MEMORY))
        return -1;
    int bytes = __real_vasprintf(out_text, format, list);
    if (bytes >= 0)
        took(*out_text);
    return bytes;
}

SHIMMED(int, asprintf, (char **out_text, const char *format, ...))
{
    va_list list;
    va_start(list, format);
    int bytes = __wrap_vasprintf(out_text, format, list);
    va_end(list);
    return bytes;
}

SHIMMED(char *, realpath, (const char *path, char *text))
{
    if (fails(CALL_MEMORY))
        return NULL;
    char *whole = __real_realpath(path, text);
    return text ? whole : took(whole);
}

SHIMMED(DIR *, fdopendir, (int fd))
{
    return fails(CALL_MEMORY) ? NULL : __real_fdopendir(fd);
}

SHIMMED(void *, tsearch, (const void *key, void **root, int (*compare)(const void *, const void *)))
{
    return fails(CALL_MEMORY) ? NULL : __real_tsearch(key, root, compare);
}
