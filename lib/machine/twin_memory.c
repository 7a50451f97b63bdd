/* A twin's system memory: its bytes, which pages are free, where the process sees them. */
#include "machine/twins.h"

#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the bytes */

enum rig_status memory_init(struct twin *w, struct rig_error *err)
{
    uint64_t page = w->machine.page_size;
    enum rig_status status =
        rig_ranges_make(w->system_base, w->system_bytes, page, &w->pages, NULL);
    if (status != RIG_OK)
        return rig_fail(err, status == RIG_INVALID ? RIG_REFUSED : status, "system memory",
                        "a twin cannot have that much");
    size_t bytes = (size_t)(w->system_bytes / page) * sizeof *w->page;
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED)
        return rig_fail_memory(err);
    w->page = pages;
    return RIG_OK;
}

/* The file that holds system memory, made at first use; -1 with errno. */
static int system_file(struct twin *w)
{
    if (w->system_file >= 0)
        return w->system_file;
    int file = w->directory >= 0 ? openat(w->directory, TWIN_SYSTEM_FILE,
                                          O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)
                                 : memfd_create("rigmem " TWIN_SYSTEM_FILE, MFD_CLOEXEC);
    if (file < 0)
        return -1;
    struct stat st;
    bool fits = fstat(file, &st) == 0;
    if (fits && !S_ISREG(st.st_mode)) {
        errno = EINVAL;
        fits = false;
    }
    if (fits && (uint64_t)st.st_size != w->system_bytes)
        fits = ftruncate(file, (off_t)w->system_bytes) == 0;
    if (!fits) {
        int why = errno;
        close(file);
        errno = why;
        return -1;
    }
    w->system_file = file;
    return file;
}

static enum rig_status broke(struct rig_error *err)
{
    return rig_fail(err, RIG_FAILED, TWIN_SYSTEM_FILE, "%s", RIG_ERRNO(errno));
}

enum rig_status twin_make_memory(struct rig_machine *m, struct rig_error *err)
{
    return system_file(twin_of(m)) < 0 ? broke(err) : RIG_OK;
}

enum rig_status system_read(struct twin *w, uint64_t physical, void *out_data, size_t bytes,
                            struct rig_error *err)
{
    int file = system_file(w);
    uint64_t offset = physical - w->system_base;
    for (uint8_t *to = out_data; bytes > 0;) {
        ssize_t got = file < 0 ? -1 : pread(file, to, bytes, (off_t)offset);
        if (got == 0)
            errno = EIO; /* somebody cut the file short */
        if (got <= 0 && errno != EINTR)
            return broke(err);
        size_t n = got > 0 ? (size_t)got : 0;
        to += n;
        offset += n;
        bytes -= n;
    }
    return RIG_OK;
}

enum rig_status system_write(struct twin *w, uint64_t physical, const void *data, size_t bytes,
                             struct rig_error *err)
{
    int file = system_file(w);
    uint64_t offset = physical - w->system_base;
    for (const uint8_t *from = data; bytes > 0;) {
        ssize_t put = file < 0 ? -1 : pwrite(file, from, bytes, (off_t)offset);
        if (put < 0 && errno != EINTR)
            return broke(err);
        size_t n = put > 0 ? (size_t)put : 0;
        from += n;
        offset += n;
        bytes -= n;
    }
    return RIG_OK;
}

/* Makes pages zeros again, without keeping room for them where the file can have holes. */
static enum rig_status clear(struct twin *w, const struct twin_piece *piece, struct rig_error *err)
{
    static const uint8_t zeros[1 << 16];
    int file = system_file(w);
    if (file < 0)
        return broke(err);
    if (fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  (off_t)(piece->at - w->system_base), (off_t)piece->bytes) == 0)
        return RIG_OK;
    if (errno != EOPNOTSUPP)
        return broke(err);
    for (uint64_t done = 0; done < piece->bytes; done += sizeof zeros) {
        uint64_t left = piece->bytes - done;
        size_t n = left < sizeof zeros ? (size_t)left : sizeof zeros;
        enum rig_status status = system_write(w, piece->at + done, zeros, n, err);
        if (status != RIG_OK)
            return status;
    }
    return RIG_OK;
}

/* ---- the process's view */

bool memory_is_reserved(const struct twin *w, uint64_t start, uint64_t bytes)
{
    for (size_t i = 0; i < w->reserved_count; i++) {
        const struct twin_reserved *r = &w->reserved[i];
        if (start >= r->start && start - r->start < r->bytes &&
            r->bytes - (start - r->start) >= bytes)
            return true;
    }
    return false;
}

void memory_window_end(struct twin *w, uint64_t start, uint64_t bytes)
{
    void *at = (void *)(uintptr_t)start;
    /* Reserved addresses stay occupied, so that nothing else can land there in between. */
    void *kept = MAP_FAILED;
    if (memory_is_reserved(w, start, bytes))
        kept = mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                    -1, 0);
    if (kept == MAP_FAILED)
        munmap(at, bytes);
}

static enum rig_status refuse_map(struct rig_error *err)
{
    int why = errno;
    rig_fail(err, RIG_REFUSED, "system memory", "this process cannot map it: %s", RIG_ERRNO(why));
    if (why == ENOMEM)
        rig_hint(err, "raise vm.max_map_count, or the limit on address space (ulimit -v)");
    return RIG_REFUSED;
}

enum rig_status memory_window(struct twin *w, uint64_t start, const struct twin_piece *piece,
                              int pieces, struct rig_error *err)
{
    int file = system_file(w);
    if (file < 0)
        return broke(err);
    for (int i = 0; i < pieces; i++) {
        void *seen = mmap((void *)(uintptr_t)start, piece[i].bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_FIXED, file, (off_t)(piece[i].at - w->system_base));
        if (seen == MAP_FAILED)
            return refuse_map(err);
        start += piece[i].bytes;
    }
    return RIG_OK;
}

enum rig_status grant_see(struct twin *w, struct twin_grant *grant, struct rig_error *err)
{
    enum rig_status status = memory_window(w, grant->memory, grant->piece, grant->pieces, err);
    if (status != RIG_OK)
        memory_window_end(w, grant->memory, grant->bytes);
    grant->seen = status == RIG_OK;
    return status;
}

/* Gives the new allocation addresses in the process, if it has none yet, and maps it there. */
static enum rig_status view(struct twin *w, struct twin_grant *grant, struct rig_error *err)
{
    if (grant->memory == 0) {
        void *at =
            mmap(NULL, grant->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED)
            return refuse_map(err);
        grant->memory = (uint64_t)(uintptr_t)at;
    }
    return grant_see(w, grant, err);
}

enum rig_status memory_see(struct twin *w, uint64_t start, uint64_t bytes, struct rig_error *err)
{
    uint64_t unit = w->machine.page_size;
    for (uint64_t done = 0; done < bytes;) {
        struct twin_grant *grant = grant_at(w, start + done);
        if (!grant) {
            done += unit;
            continue;
        }
        enum rig_status status = grant->seen ? RIG_OK : grant_see(w, grant, err);
        if (status != RIG_OK)
            return status;
        done = grant->memory + grant->bytes - start;
    }
    return RIG_OK;
}

/* Occupies addresses of the process that nothing else is at. */
static enum rig_status occupy(uint64_t start, uint64_t bytes, struct rig_error *err)
{
    void *want = (void *)(uintptr_t)start;
    void *at = mmap(want, bytes, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    int why = errno;
    /* What is mapped is remembered by its address. */
    if (at == want)
        return RIG_OK; /* cppcheck-suppress memleak */
    /* A kernel older than 4.17 takes the address as a wish. */
    if (at != MAP_FAILED) {
        munmap(at, bytes);
        why = EEXIST;
    }
    rig_fail(err, RIG_REFUSED, NULL, "addresses 0x%llx+0x%llx of this process: %s",
             (unsigned long long)start, (unsigned long long)bytes,
             why == EEXIST ? "some are in use" : RIG_ERRNO(why));
    rig_hint(err, why == ENOMEM ? "raise the limit on address space (ulimit -v)"
                                : "the space of addresses needs another place");
    return RIG_REFUSED;
}

enum rig_status memory_claim(struct twin *w, uint64_t start, uint64_t bytes, struct rig_error *err)
{
    return memory_is_reserved(w, start, bytes) ? RIG_OK : occupy(start, bytes, err);
}

enum rig_status memory_reserve(struct twin *w, uint64_t start, uint64_t bytes,
                               struct rig_error *err)
{
    struct twin_reserved *grown =
        realloc(w->reserved, (w->reserved_count + 1) * sizeof *w->reserved);
    if (!grown)
        return rig_fail_memory(err);
    w->reserved = grown;
    enum rig_status status = occupy(start, bytes, err);
    if (status == RIG_OK)
        w->reserved[w->reserved_count++] = (struct twin_reserved){start, bytes};
    return status;
}

/* ---- allocating */

static void give_pieces(struct twin *w, const struct twin_grant *grant)
{
    for (int i = 0; i < grant->pieces; i++)
        rig_ranges_give(w->pages, grant->piece[i].at, grant->piece[i].bytes, NULL);
}

/* Takes pages for the grant: in one run if there is one, else in ever smaller ones. */
static enum rig_status take_pieces(struct twin *w, struct twin_grant *grant, uint64_t below,
                                   bool contiguous, struct rig_error *err)
{
    uint64_t page = w->machine.page_size;
    uint64_t left = grant->bytes, most = left;
    if (rig_ranges_free_bytes(w->pages) < left)
        most = 0;
    while (left > 0 && most > 0) {
        struct rig_ranges_want want = {.bytes = left < most ? left : most, .below = below};
        want.align = want.bytes >= RIG_CONTIGUOUS_MAX ? RIG_CONTIGUOUS_MAX : 0;
        uint64_t at;
        enum rig_status status = rig_ranges_take(w->pages, &want, &at, NULL);
        if (status == RIG_NO_ROOM && want.align) {
            want.align = 0;
            status = rig_ranges_take(w->pages, &want, &at, NULL);
        }
        if (status == RIG_NO_ROOM) {
            most = contiguous ? 0 : want.bytes / 2 & ~(page - 1);
            continue;
        }
        if (status == RIG_OK)
            status = grant_add_piece(grant, (struct twin_piece){at, want.bytes, false}, true, NULL);
        if (status != RIG_OK) {
            give_pieces(w, grant);
            return rig_fail_memory(err);
        }
        left -= want.bytes;
    }
    if (left == 0)
        return RIG_OK;
    give_pieces(w, grant);
    return rig_fail(err, RIG_NO_ROOM, "system memory",
                    grant->bytes > w->system_bytes ? "the machine never had that much"
                                                   : "not enough of it is free");
}

static enum rig_status prepare(struct twin *w, struct twin_grant *grant, unsigned bits,
                               struct rig_error *err)
{
    for (int i = 0; i < grant->pieces; i++) {
        enum rig_status status = clear(w, &grant->piece[i], err);
        if (status != RIG_OK)
            return status;
    }
    if (w->function[grant->function].translated) {
        enum rig_status status = grant_translate(w, grant, bits, err);
        if (status != RIG_OK)
            return status;
    }
    return view(w, grant, err);
}

/* Undoes what prepare did, and take_pieces. */
static void undo(struct twin *w, struct twin_grant *grant)
{
    if (grant->translated)
        iommu_unmap(w, grant->function, grant->device, grant->bytes);
    give_pieces(w, grant);
    grant_drop(grant);
}

enum rig_status memory_alloc(struct twin *w, int function, const struct rig_memory_request *request,
                             struct rig_grant *out_grant, struct rig_error *err)
{
    bool translated = w->function[function].translated;
    unsigned bits = request->bits;
    uint64_t end = w->system_base + (w->system_bytes - 1);
    uint64_t below = !translated && bits < 64 && end >> bits != 0 ? UINT64_C(1) << bits : 0;
    if (below && below < w->system_base + w->machine.page_size)
        return rig_fail(err, RIG_REFUSED, "system memory",
                        "the machine has none below 2^%u, where the function's addresses end",
                        bits);
    struct twin_grant *grant = grant_new(w, function, false);
    if (!grant)
        return rig_fail_memory(err);
    grant->bytes = request->bytes;
    grant->memory = (uint64_t)(uintptr_t)request->at;
    enum rig_status status = take_pieces(w, grant, below, request->contiguous && !translated, err);
    if (status != RIG_OK) {
        grant_drop(grant);
        return status;
    }
    status = prepare(w, grant, bits, err);
    if (status == RIG_OK) {
        status = grant_enter(w, grant, out_grant, err);
        if (status != RIG_OK)
            memory_window_end(w, grant->memory, grant->bytes);
    }
    if (status != RIG_OK)
        undo(w, grant);
    return status;
}

/* ---- freeing */

static bool any_pinned(const struct twin *w, const struct twin_piece *piece)
{
    for (uint64_t done = 0; done < piece->bytes; done += w->machine.page_size)
        if (page_of(w, piece->at + done)->pins > 0)
            return true;
    return false;
}

/* Gives back a piece some pages of which are pinned: those stay taken, each by itself, as orphans,
   and in the process's view where that stays. */
static enum rig_status orphan(struct twin *w, const struct twin_grant *grant,
                              const struct twin_piece *piece, uint64_t memory,
                              struct rig_error *err)
{
    uint64_t unit = w->machine.page_size;
    bool seen = !w->function[grant->function].translated;
    rig_ranges_give(w->pages, piece->at, piece->bytes, NULL);
    for (uint64_t done = 0; done < piece->bytes; done += unit) {
        struct twin_page *page = page_of(w, piece->at + done);
        if (page->pins > 0) {
            page->orphan = true;
            page->window = seen ? memory + done : 0;
            if (rig_ranges_take_at(w->pages, piece->at + done, unit, NULL) != RIG_OK) {
                rig_fail_memory(&w->machine.broken);
                atomic_store(&w->machine.is_broken, true);
                return rig_fail_memory(err);
            }
        }
        if (grant->seen && (page->pins == 0 || !seen))
            memory_window_end(w, memory + done, unit);
    }
    return RIG_OK;
}

/* Pages that stay in the process's view are to be there, before anything goes. */
static enum rig_status see_what_stays(struct twin *w, struct twin_grant *grant,
                                      struct rig_error *err)
{
    if (grant->seen || w->function[grant->function].translated)
        return RIG_OK;
    bool pinned = false;
    for (int i = 0; i < grant->pieces && !pinned; i++)
        pinned = any_pinned(w, &grant->piece[i]);
    struct rig_error why = {.status = RIG_OK};
    if (!pinned || grant_see(w, grant, &why) == RIG_OK)
        return RIG_OK;
    rig_fail(err, RIG_FAILED, why.what, "pages of it are pinned, and stay to be seen: %s", why.why);
    rig_hint(err, "%s", why.hint);
    return RIG_FAILED;
}

enum rig_status memory_free(struct twin *w, struct twin_grant *grant, struct rig_error *err)
{
    enum rig_status status = see_what_stays(w, grant, err);
    if (status != RIG_OK)
        return status;
    if (grant->translated)
        iommu_unmap(w, grant->function, grant->device, grant->bytes);
    grant_leave(w, grant);
    uint64_t memory = grant->memory;
    for (int i = 0; i < grant->pieces && status == RIG_OK; i++) {
        const struct twin_piece *piece = &grant->piece[i];
        if (any_pinned(w, piece)) {
            status = orphan(w, grant, piece, memory, err);
        } else {
            if (grant->seen)
                memory_window_end(w, memory, piece->bytes);
            rig_ranges_give(w->pages, piece->at, piece->bytes, NULL);
        }
        memory += piece->bytes;
    }
    grant_drop(grant);
    return status;
}

/* ---- the end */

/* Windows in reserved addresses go with those, all at once. */
static void end_window(const void *node, VISIT visit, void *closure)
{
    const struct twin_grant *grant = *(struct twin_grant *const *)node;
    if ((visit == postorder || visit == leaf) &&
        !memory_is_reserved(closure, grant->memory, grant->bytes))
        memory_window_end(closure, grant->memory, grant->bytes);
}

static void not_this_one(void *grant)
{
    (void)grant;
}

static void drop_grant(void *grant)
{
    grant_drop(grant);
}

void memory_drop(struct twin *w)
{
    twalk_r(w->windows, end_window, w);
    tdestroy(w->windows, not_this_one);
    tdestroy(w->grants, drop_grant);
    for (size_t i = 0; i < w->reserved_count; i++)
        munmap((void *)(uintptr_t)w->reserved[i].start, w->reserved[i].bytes);
    free(w->reserved);
    if (w->page)
        munmap(w->page, (size_t)(w->system_bytes / w->machine.page_size) * sizeof *w->page);
    rig_ranges_drop(w->pages);
    if (w->system_file >= 0)
        close(w->system_file);
}
