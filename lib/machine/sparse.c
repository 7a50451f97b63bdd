#include "machine/sparse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void sparse_init(struct sparse *s, uint64_t bytes, int directory, const char *name)
{
    *s = (struct sparse){.bytes = bytes, .directory = directory, .file = -1};
    snprintf(s->name, sizeof s->name, "%s", name);
}

static size_t chunks(const struct sparse *s)
{
    return (size_t)(s->bytes / SPARSE_CHUNK + 1);
}

void sparse_drop(struct sparse *s)
{
    for (size_t i = 0; s->chunk && i < chunks(s); i++)
        if (s->chunk[i])
            munmap(s->chunk[i], SPARSE_CHUNK);
    free(s->chunk);
    s->chunk = NULL;
    if (s->file >= 0)
        close(s->file);
    s->file = -1;
}

int sparse_file(struct sparse *s)
{
    if (s->file >= 0)
        return s->file;
    int file = openat(s->directory, s->name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        return -1;
    struct stat st;
    bool fits = fstat(file, &st) == 0;
    if (fits && !S_ISREG(st.st_mode)) {
        errno = EINVAL;
        fits = false;
    }
    if (fits && (uint64_t)st.st_size != s->bytes)
        fits = ftruncate(file, (off_t)s->bytes) == 0;
    if (!fits) {
        int why = errno;
        close(file);
        errno = why;
        return -1;
    }
    s->file = file;
    return file;
}

static enum rig_status broke(const struct sparse *s, struct rig_error *err)
{
    return rig_fail(err, RIG_FAILED, s->name, "%s", RIG_ERRNO(errno));
}

/* The chunk that holds `offset`, or NULL: untouched, or, with `make`, memory ran out. */
static uint8_t *chunk_at(struct sparse *s, uint64_t offset, bool make)
{
    size_t i = (size_t)(offset / SPARSE_CHUNK);
    if (!s->chunk && make)
        s->chunk = calloc(chunks(s), sizeof *s->chunk);
    if (!s->chunk)
        return NULL;
    if (!s->chunk[i] && make) {
        void *memory = mmap(NULL, SPARSE_CHUNK, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
            return NULL;
        /* Scattered writes must not each take a huge page. */
        madvise(memory, SPARSE_CHUNK, MADV_NOHUGEPAGE);
        s->chunk[i] = memory;
    }
    return s->chunk[i];
}

static size_t in_chunk(uint64_t offset, size_t bytes)
{
    uint64_t left = SPARSE_CHUNK - offset % SPARSE_CHUNK;
    return left < bytes ? (size_t)left : bytes;
}

enum rig_status sparse_read(struct sparse *s, uint64_t offset, void *out_data, size_t bytes,
                            struct rig_error *err)
{
    uint8_t *to = out_data;
    if (s->directory >= 0 && sparse_file(s) < 0)
        return broke(s, err);
    while (bytes > 0) {
        size_t n = bytes;
        if (s->directory >= 0) {
            ssize_t got = pread(s->file, to, bytes, (off_t)offset);
            if (got == 0)
                errno = EIO; /* somebody cut the file short */
            if (got <= 0 && errno != EINTR)
                return broke(s, err);
            n = got > 0 ? (size_t)got : 0;
        } else {
            n = in_chunk(offset, bytes);
            const uint8_t *from = chunk_at(s, offset, false);
            if (from)
                memcpy(to, from + offset % SPARSE_CHUNK, n);
            else
                memset(to, 0, n);
        }
        to += n;
        offset += n;
        bytes -= n;
    }
    return RIG_OK;
}

enum rig_status sparse_write(struct sparse *s, uint64_t offset, const void *data, size_t bytes,
                             struct rig_error *err)
{
    const uint8_t *from = data;
    if (s->directory >= 0 && sparse_file(s) < 0)
        return broke(s, err);
    while (bytes > 0) {
        size_t n = bytes;
        if (s->directory >= 0) {
            ssize_t put = pwrite(s->file, from, bytes, (off_t)offset);
            if (put < 0 && errno != EINTR)
                return broke(s, err);
            n = put > 0 ? (size_t)put : 0;
        } else {
            n = in_chunk(offset, bytes);
            uint8_t *to = chunk_at(s, offset, true);
            if (!to)
                return rig_fail_memory(err);
            memcpy(to + offset % SPARSE_CHUNK, from, n);
        }
        from += n;
        offset += n;
        bytes -= n;
    }
    return RIG_OK;
}
