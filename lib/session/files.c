/* Files that a session maps for regions that borrow them. */
#include "session/session.h"

#include "base/json.h"
#include "machine/twin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t page_size(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The whole pages around a mapped file's bytes. */
static void pages_of(const struct mapped_file *f, uint64_t *out_start, uint64_t *out_bytes)
{
    uint64_t page = page_size();
    *out_start = f->address & ~(page - 1);
    *out_bytes = (f->address - *out_start + f->bytes + page - 1) & ~(page - 1);
}

/* RIG_REFUSED: it cannot be opened to read and write, is no regular file, or too short. *out_size
   is how long it is. */
static enum rig_status open_it(const char *path, int *out_fd, uint64_t *out_size,
                               struct rig_error *err)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return rig_fail(err, RIG_REFUSED, path, "cannot be read and written: %s", RIG_ERRNO(errno));
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return rig_fail(err, RIG_REFUSED, path, "is no regular file");
    }
    *out_fd = fd;
    *out_size = (uint64_t)st.st_size;
    return RIG_OK;
}

static bool map_at(const struct mapped_file *f, int fd)
{
    uint64_t start, bytes;
    pages_of(f, &start, &bytes);
    void *want = (void *)(uintptr_t)start;
    void *at = mmap(want, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd,
                    (off_t)(f->offset & ~(page_size() - 1)));
    if (at != MAP_FAILED && at != want) {
        munmap(at, bytes);
        errno = EEXIST;
        return false;
    }
    return at != MAP_FAILED;
}

static void unmap(struct mapped_file *f)
{
    uint64_t start, bytes;
    pages_of(f, &start, &bytes);
    if (f->there)
        munmap((void *)(uintptr_t)start, bytes);
    f->there = false;
}

/* The request's bytes of a file of `size` bytes. */
static enum rig_status check_bytes(struct request *r, uint64_t size, struct rig_error *err)
{
    if (r->bytes == 0 && r->offset < size)
        r->bytes = size - r->offset;
    uint64_t end;
    if (r->bytes > 0 && rig_add(r->offset, r->bytes, &end) && end <= size)
        return RIG_OK;
    return rig_fail(err, RIG_REFUSED, r->path, "is %llu bytes long", (unsigned long long)size);
}

enum rig_status file_check_name(const struct rig_session *s, const char *path,
                                struct rig_error *err)
{
    if (!s->place.path || json_is_utf8(path))
        return RIG_OK;
    rig_fail(err, RIG_REFUSED, path, "its name is no UTF-8, as a state file's text is");
    rig_hint(err, "rename it, or what is above it");
    return RIG_REFUSED;
}

enum rig_status file_map(struct rig_session *s, struct request *r, struct rig_error *err)
{
    int fd;
    uint64_t size;
    enum rig_status status = open_it(r->path, &fd, &size, err);
    if (status != RIG_OK)
        return status;
    status = check_bytes(r, size, err);
    struct mapped_file *grown =
        status == RIG_OK ? realloc(s->file, (s->files + 1) * sizeof *grown) : NULL;
    if (grown)
        s->file = grown;
    char *path = grown ? realpath(r->path, NULL) : NULL;
    if (status == RIG_OK && !path)
        status = rig_fail_memory(err);
    if (status == RIG_OK && (status = file_check_name(s, path, err)) != RIG_OK)
        free(path);
    if (status == RIG_OK) {
        struct mapped_file *f = &s->file[s->files];
        *f = (struct mapped_file){.path = path, .bytes = r->bytes, .offset = r->offset};
        f->address = s->next_file + (r->offset & (page_size() - 1));
        uint64_t start, bytes;
        pages_of(f, &start, &bytes);
        if (bytes > FILES_END - s->next_file)
            status = rig_fail(err, RIG_NO_ROOM, r->path, "no addresses are left to map it at");
        else if (!map_at(f, fd))
            status = rig_fail(err, RIG_REFUSED, r->path, "cannot be mapped: %s", RIG_ERRNO(errno));
        if (status == RIG_OK) {
            f->there = true;
            s->files++;
            s->next_file = start + bytes;
            r->address = f->address;
        } else {
            free(path);
        }
    }
    close(fd);
    return status;
}

void file_unmap_last(struct rig_session *s)
{
    struct mapped_file *f = &s->file[--s->files];
    uint64_t start, bytes;
    pages_of(f, &start, &bytes);
    unmap(f);
    free(f->path);
    s->next_file = start;
}

void files_again(struct rig_session *s)
{
    for (size_t i = 0; i < s->files; i++) {
        struct mapped_file *f = &s->file[i];
        struct rig_error local = {.status = RIG_OK};
        int fd;
        uint64_t size;
        if (open_it(f->path, &fd, &size, &local) != RIG_OK) {
            session_warn(s, "%s: %s; what borrows it reaches nothing", f->path, local.why);
            continue;
        }
        f->there = f->offset <= size && f->bytes <= size - f->offset && map_at(f, fd);
        close(fd);
        if (!f->there) {
            session_warn(s, "%s: cannot be mapped again; what borrows it reaches nothing", f->path);
            continue;
        }
        uint64_t start, bytes;
        pages_of(f, &start, &bytes);
        twin_found_again(s->machine, start, bytes);
    }
}

void files_drop(struct rig_session *s)
{
    for (size_t i = 0; i < s->files; i++) {
        unmap(&s->file[i]);
        free(s->file[i].path);
    }
    free(s->file);
    s->file = NULL;
    s->files = 0;
}
