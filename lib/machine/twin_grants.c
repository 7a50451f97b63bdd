/* What a twin's functions were granted of system memory, by id and by place; pins. */
#include "machine/twins.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int by_id(const void *a, const void *b)
{
    const struct twin_grant *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* Orders allocations by where the process sees them; ones that overlap are equal. */
static int by_memory(const void *a, const void *b)
{
    const struct twin_grant *x = a, *y = b;
    if (x->memory > y->memory + (y->bytes - 1))
        return 1;
    return x->memory + (x->bytes - 1) < y->memory ? -1 : 0;
}

struct twin_grant *grant_new(struct twin *w, int function, bool pin)
{
    struct twin_grant *grant = calloc(1, sizeof *grant);
    if (!grant)
        return NULL;
    grant->id = ++w->last_grant;
    grant->function = function;
    grant->pin = pin;
    return grant;
}

void grant_drop(struct twin_grant *grant)
{
    free(grant->piece);
    free(grant);
}

enum rig_status grant_add_piece(struct twin_grant *grant, struct twin_piece piece, bool apart,
                                struct rig_error *err)
{
    struct twin_piece *last = grant->pieces ? &grant->piece[grant->pieces - 1] : NULL;
    if (last && !apart && last->own == piece.own && last->at + last->bytes == piece.at) {
        last->bytes += piece.bytes;
        return RIG_OK;
    }
    /* Room doubles: it is full whenever the count is a power of two. */
    size_t count = (size_t)grant->pieces;
    if ((count & (count - 1)) == 0) {
        struct twin_piece *grown = realloc(grant->piece, (count ? 2 * count : 1) * sizeof *grown);
        if (!grown)
            return rig_fail_memory(err);
        grant->piece = grown;
    }
    grant->piece[grant->pieces++] = piece;
    return RIG_OK;
}

static enum rig_status fill(const struct twin *w, const struct twin_grant *grant,
                            struct rig_grant *out_grant, struct rig_error *err)
{
    struct rig_bus_range *ranges = calloc((size_t)grant->pieces + 1, sizeof *ranges);
    if (!ranges)
        return rig_fail_memory(err);
    int count = 0;
    if (grant->translated)
        ranges[count++] = (struct rig_bus_range){grant->device, grant->bytes};
    for (int i = 0; i < grant->pieces && !grant->translated; i++) {
        const struct twin_piece *piece = &grant->piece[i];
        struct rig_bus_range *last = count ? &ranges[count - 1] : NULL;
        if (last && last->address + last->bytes == piece->at)
            last->bytes += piece->bytes;
        else
            ranges[count++] = (struct rig_bus_range){piece->at, piece->bytes};
    }
    *out_grant = (struct rig_grant){
        .id = grant->id,
        .memory = (void *)(uintptr_t)grant->memory,
        .bytes = grant->bytes,
        .ranges = ranges,
        .count = count,
        .path = grant->piece[0].own ? NULL : w->memory_path,
        .offset = grant->piece[0].own ? 0 : grant->piece[0].at - w->system_base,
    };
    return RIG_OK;
}

enum rig_status grant_enter(struct twin *w, struct twin_grant *grant, struct rig_grant *out_grant,
                            struct rig_error *err)
{
    enum rig_status status = out_grant ? fill(w, grant, out_grant, err) : RIG_OK;
    if (status != RIG_OK)
        return status;
    bool in = tsearch(grant, &w->grants, by_id) != NULL;
    void *node = in && !grant->pin ? tsearch(grant, &w->windows, by_memory) : NULL;
    bool seen = grant->pin || (node && *(struct twin_grant **)node == grant);
    if (!in || !seen) {
        if (in)
            tdelete(grant, &w->grants, by_id);
        if (out_grant)
            free(out_grant->ranges);
        return rig_fail_memory(err);
    }
    if (grant->pin)
        w->pin_count++;
    else
        w->grant_count++;
    return RIG_OK;
}

void grant_leave(struct twin *w, struct twin_grant *grant)
{
    tdelete(grant, &w->grants, by_id);
    if (grant->pin) {
        w->pin_count--;
        return;
    }
    tdelete(grant, &w->windows, by_memory);
    w->grant_count--;
}

struct twin_grant *grant_find(const struct twin *w, uint64_t id)
{
    struct twin_grant key = {.id = id};
    void *node = tfind(&key, &w->grants, by_id);
    return node ? *(struct twin_grant **)node : NULL;
}

struct twin_grant *grant_at(const struct twin *w, uint64_t address)
{
    struct twin_grant key = {.memory = address, .bytes = 1};
    void *node = tfind(&key, &w->windows, by_memory);
    return node ? *(struct twin_grant **)node : NULL;
}

enum rig_status grant_translate(struct twin *w, struct twin_grant *grant, unsigned bits,
                                struct rig_error *err)
{
    uint64_t device;
    enum rig_status status = iommu_take(w, grant->function, grant->bytes, bits, &device, err);
    uint64_t at = device;
    for (int i = 0; i < grant->pieces && status == RIG_OK; i++) {
        const struct twin_piece *piece = &grant->piece[i];
        struct twin_mapping mapping = {at, piece->bytes, piece->at, piece->own, false};
        status = iommu_map(w, grant->function, &mapping, err);
        if (status != RIG_OK)
            iommu_unmap(w, grant->function, device, grant->bytes);
        at += piece->bytes;
    }
    if (status != RIG_OK)
        return status;
    grant->device = device;
    grant->translated = true;
    return RIG_OK;
}

/* ---- pins */

/* The piece of memory that an allocation or a pin has at a process address, up to `bytes` of it. */
static struct twin_piece piece_at(const struct twin_grant *grant, uint64_t address, uint64_t bytes)
{
    uint64_t into = address - grant->memory;
    const struct twin_piece *piece = grant->piece;
    while (into >= piece->bytes)
        into -= (piece++)->bytes;
    uint64_t left = piece->bytes - into;
    return (struct twin_piece){piece->at + into, left < bytes ? left : bytes, piece->own};
}

/* A page that outlived its allocation, since it is pinned, and is in the process's view still. */
struct orphan_search {
    struct twin *w;
    uint64_t address;
    struct twin_piece piece;
    bool found;
};

static void look_for_orphan(const void *node, VISIT visit, void *closure)
{
    struct orphan_search *s = closure;
    const struct twin_grant *grant = *(struct twin_grant *const *)node;
    if ((visit != postorder && visit != leaf) || !grant->pin || s->address < grant->memory ||
        s->address - grant->memory >= grant->bytes)
        return;
    struct twin_piece piece = piece_at(grant, s->address, s->w->machine.page_size);
    if (piece.own || page_of(s->w, piece.at)->window != s->address)
        return;
    s->piece = piece;
    s->found = true;
}

/* Whether the process has pages of its own at the address. */
static bool is_mapped(uint64_t address, uint64_t bytes)
{
    unsigned char resident;
    uint64_t unit = (uint64_t)sysconf(_SC_PAGESIZE);
    for (uint64_t done = 0; done < bytes; done += unit)
        if (mincore((void *)(uintptr_t)(address + done), 1, &resident) != 0 && errno == ENOMEM)
            return false;
    return true;
}

/* Refuses system memory that the function's addresses do not reach. */
static enum rig_status check_bits(const struct twin *w, const struct twin_grant *pin,
                                  const struct twin_piece *piece, unsigned bits,
                                  struct rig_error *err)
{
    uint64_t last = piece->at + (piece->bytes - 1);
    if (w->function[pin->function].translated || bits >= 64 || last >> bits == 0)
        return RIG_OK;
    return rig_fail(err, RIG_REFUSED, "system memory",
                    "its pages at 0x%llx lie above 2^%u, where the function's addresses end",
                    (unsigned long long)piece->at, bits);
}

static enum rig_status next_piece(struct twin *w, const struct twin_grant *pin, uint64_t address,
                                  uint64_t left, unsigned bits, struct twin_piece *out_piece,
                                  struct rig_error *err)
{
    const struct twin_grant *around = grant_at(w, address);
    struct orphan_search orphan = {.w = w, .address = address};
    uint64_t unit = w->machine.page_size;
    bool reserved = memory_is_reserved(w, address, unit);
    if (around)
        *out_piece = piece_at(around, address, left);
    else if (reserved)
        twalk_r(w->grants, look_for_orphan, &orphan);
    if (orphan.found)
        *out_piece = orphan.piece;
    if (around || orphan.found)
        return check_bits(w, pin, out_piece, bits, err);
    /* Where addresses are reserved, nothing else is pages. */
    if (reserved || !is_mapped(address, unit))
        return rig_fail(err, RIG_REFUSED, NULL, "this process has no pages at 0x%llx",
                        (unsigned long long)address);
    if (!w->function[pin->function].translated) {
        rig_fail(err, RIG_REFUSED, NULL,
                 "the pages at 0x%llx are this process's own, and the function is addressed "
                 "physically: it reaches the machine's system memory alone",
                 (unsigned long long)address);
        rig_hint(err, "allocate host memory, and map that");
        return RIG_REFUSED;
    }
    *out_piece = (struct twin_piece){address, unit, true};
    return RIG_OK;
}

static void count_pins(struct twin *w, const struct twin_grant *pin)
{
    for (int i = 0; i < pin->pieces; i++)
        for (uint64_t done = 0; !pin->piece[i].own && done < pin->piece[i].bytes;
             done += w->machine.page_size)
            page_of(w, pin->piece[i].at + done)->pins++;
}

static enum rig_status find_pieces(struct twin *w, struct twin_grant *pin, unsigned bits,
                                   struct rig_error *err)
{
    for (uint64_t done = 0; done < pin->bytes;) {
        struct twin_piece piece;
        enum rig_status status =
            next_piece(w, pin, pin->memory + done, pin->bytes - done, bits, &piece, err);
        if (status == RIG_OK)
            status = grant_add_piece(pin, piece, false, err);
        if (status != RIG_OK)
            return status;
        done += piece.bytes;
    }
    return RIG_OK;
}

enum rig_status memory_pin(struct twin *w, int function, uint64_t start, uint64_t bytes,
                           unsigned bits, struct rig_grant *out_grant, struct rig_error *err)
{
    struct twin_grant *pin = grant_new(w, function, true);
    if (!pin)
        return rig_fail_memory(err);
    pin->memory = start;
    pin->bytes = bytes;
    enum rig_status status = find_pieces(w, pin, bits, err);
    if (status == RIG_OK && w->function[function].translated)
        status = grant_translate(w, pin, bits, err);
    if (status == RIG_OK)
        status = grant_enter(w, pin, out_grant, err);
    if (status != RIG_OK) {
        if (pin->translated)
            iommu_unmap(w, function, pin->device, pin->bytes);
        grant_drop(pin);
        return status;
    }
    count_pins(w, pin);
    return RIG_OK;
}

/* One pin of the page less; the last one of an orphan gives it back. */
static void unpin_page(struct twin *w, uint64_t physical)
{
    struct twin_page *page = page_of(w, physical);
    if (--page->pins > 0 || !page->orphan)
        return;
    if (page->window)
        memory_window_end(w, page->window, w->machine.page_size);
    *page = (struct twin_page){0};
    rig_ranges_give(w->pages, physical, w->machine.page_size, NULL);
}

void memory_unpin(struct twin *w, struct twin_grant *pin)
{
    if (pin->translated)
        iommu_unmap(w, pin->function, pin->device, pin->bytes);
    for (int i = 0; i < pin->pieces; i++)
        for (uint64_t done = 0; !pin->piece[i].own && done < pin->piece[i].bytes;
             done += w->machine.page_size)
            unpin_page(w, pin->piece[i].at + done);
    grant_leave(w, pin);
    grant_drop(pin);
}

enum rig_status memory_end(struct twin *w, uint64_t id, struct rig_error *err)
{
    struct twin_grant *grant = grant_find(w, id);
    if (!grant)
        return rig_fail(err, RIG_FAILED, "system memory", "the machine gave no grant %llu out",
                        (unsigned long long)id);
    if (!grant->pin)
        return memory_free(w, grant, err);
    memory_unpin(w, grant);
    return RIG_OK;
}

/* ---- all of a function's */

struct search {
    int function;
    struct twin_grant *found;
};

static void look(const void *node, VISIT visit, void *closure)
{
    struct search *s = closure;
    struct twin_grant *grant = *(struct twin_grant *const *)node;
    if ((visit == postorder || visit == leaf) && grant->function == s->function)
        s->found = grant;
}

enum rig_status memory_end_all(struct twin *w, int function, struct rig_error *err)
{
    for (;;) {
        struct search s = {.function = function};
        twalk_r(w->grants, look, &s);
        enum rig_status status = s.found ? memory_end(w, s.found->id, err) : RIG_OK;
        if (!s.found || status != RIG_OK)
            return status;
    }
}
