/* Page tables: the time of mapping, unmapping and checking 64 GiB against a memset of the bytes of
   the entries, in every format; and of many ranges against one.

   The GPU's memory is memory of the process, already touched, into which the entries are stored
   directly, as into a BAR that the process sees; the lines of a GPU that is written by calls are
   printed beside it and held to nothing.

   Beside each ratio stands that of a bare walk in the same memory and run: four levels of 8-byte
   entries, one descent a leaf table, one plain loop a table, no copy of what is mapped (but of
   ranges apart, of which each entry is its own) and no check. Where even that is over the limit,
   the machine is, and a ratio is held to the walk's. */
#include "bench.h"
#include "gpu/page_table.h"

#include <malloc.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define ROUNDS 11
#define SMALL_ROUNDS 1000
#define GIB (UINT64_C(1) << 30)

/* Pages for tables, given lowest first from a stack. */
struct device {
    char *memory;
    uint32_t *spare;
    size_t spares, pages;
    bool placed, confirms;
};

static enum rig_status take(void *gpu, uint64_t *out_offset, struct rig_error *err)
{
    struct device *d = gpu;
    (void)err;
    if (d->spares == 0)
        return RIG_NO_ROOM;
    *out_offset = (uint64_t)d->spare[--d->spares] * RIG_TABLE_PAGE;
    return RIG_OK;
}

static void give(void *gpu, uint64_t offset)
{
    struct device *d = gpu;
    d->spare[d->spares++] = (uint32_t)(offset / RIG_TABLE_PAGE);
}

static enum rig_status put(void *gpu, uint64_t offset, const void *words, uint64_t bytes,
                           struct rig_error *err)
{
    struct device *d = gpu;
    (void)err;
    memcpy(d->memory + offset, words, bytes);
    return RIG_OK;
}

static void *place(void *gpu, uint64_t offset)
{
    struct device *d = gpu;
    return d->placed ? d->memory + offset : NULL;
}

static enum rig_status flush(void *gpu, bool *out_confirmed, struct rig_error *err)
{
    struct device *d = gpu;
    (void)err;
    *out_confirmed = d->confirms;
    return RIG_OK;
}

static const struct rig_page_table_ops ops = {
    .take = take, .give = give, .write = put, .place = place, .flush = flush};

static void reset(struct device *d)
{
    d->spares = 0;
    for (size_t i = d->pages; i-- > 0;)
        d->spare[d->spares++] = (uint32_t)i;
}

/* Memory in large pages where the system has them: what is timed is not its small ones. */
static void *large(size_t bytes)
{
    size_t huge = 2 << 20, all = (bytes + huge - 1) & ~(huge - 1);
    void *memory = aligned_alloc(huge, all);
    if (!memory)
        abort();
    madvise(memory, all, MADV_HUGEPAGE);
    memset(memory, 0xa5, all);
    return memory;
}

static void make_device(struct device *d, size_t pages)
{
    d->pages = pages;
    d->memory = large(pages * RIG_TABLE_PAGE);
    d->spare = large(pages * sizeof *d->spare);
    d->placed = d->confirms = true;
}

static struct rig_page_table *table(struct device *d, const struct rig_format *f)
{
    struct rig_page_table *t;
    reset(d);
    if (rig_page_table_new(f, 0, &ops, d, &t, NULL) != RIG_OK)
        abort();
    return t;
}

static const struct rig_target own = {.memory = RIG_MEMORY_OWN};

static void map(struct rig_page_table *t, const struct rig_range *ranges, size_t count)
{
    if (rig_page_table_map(t, rig_page_table_format(t)->space_base, own, ranges, count, NULL) !=
        RIG_OK)
        abort();
}

static void unmap(struct rig_page_table *t, uint64_t bytes)
{
    bool confirmed;
    if (rig_page_table_unmap(t, rig_page_table_format(t)->space_base, bytes, &confirmed, NULL) !=
        RIG_OK)
        abort();
}

/* ---------- the bare walk */

struct walk {
    uint64_t *memory; /* tables by number; the root is the first */
    uint64_t used;    /* of them */
    unsigned levels, shift;
};

#define WALK_FLAGS UINT64_C(0x73)

static uint64_t *walk_leaf(struct walk *w, uint64_t address)
{
    uint64_t *at = w->memory;
    for (unsigned above = w->levels - 1; above > 0; above--) {
        uint64_t *e = &at[address >> (w->shift + 9 * above) & 511];
        if (!(*e & 1)) {
            memset(w->memory + w->used * 512, 0, RIG_TABLE_PAGE);
            *e = w->used++ << 12 | 1;
        }
        at = w->memory + (*e >> 12) * 512;
    }
    return at;
}

/* Maps memory from `to` on, or clears. */
static void walk_range(struct walk *w, uint64_t address, uint64_t to, uint64_t bytes, bool clear)
{
    uint64_t page = UINT64_C(1) << w->shift, part;
    for (uint64_t done = 0; done < bytes; done += part) {
        uint64_t first = (address + done) >> w->shift & 511;
        uint64_t *at = walk_leaf(w, address + done) + first, base = to + done;
        uint64_t n = 512 - first, left = (bytes - done) >> w->shift;
        n = n < left ? n : left;
        part = n * page;
        if (clear)
            memset(at, 0, n * sizeof *at);
        else
            for (uint64_t k = 0; k < n; k++)
                at[k] = (base + k * page) | WALK_FLAGS;
    }
}

/* Maps ranges of a page each, looking at all before it writes. Unless `copy` is NULL, what each
   entry maps is kept there too, as it must be where entries are never read back and no range goes
   on from the one before. */
static void walk_ranges(struct walk *w, uint64_t address, const struct rig_range *ranges,
                        size_t count, uint64_t *copy)
{
    uint64_t all = 0, n;
    for (size_t i = 0; i < count; i++)
        all |= ranges[i].address | ranges[i].bytes;
    if ((all & 4095) != 0)
        abort();
    for (size_t done = 0; done < count; done += n) {
        const struct rig_range *r = ranges + done;
        uint64_t first = ((address >> w->shift) + done) & 511;
        uint64_t *at = walk_leaf(w, address + (done << w->shift)) + first;
        n = 512 - first < count - done ? 512 - first : count - done;
        for (uint64_t k = 0; k < n; k++)
            at[k] = r[k].address | WALK_FLAGS;
        for (uint64_t k = 0; copy && k < n; k++)
            copy[done + k] = r[k].address | WALK_FLAGS;
    }
}

static struct walk walk_begin(struct device *d, unsigned shift)
{
    memset(d->memory, 0, RIG_TABLE_PAGE);
    return (struct walk){.memory = (uint64_t *)(void *)d->memory,
                         .used = 1,
                         .levels = shift == 12 ? 4 : 3,
                         .shift = shift};
}

/* ---------- contiguous memory */

/* Least times of one page size. */
struct times {
    double set, map, unmap, remap, check, calls;
    double walk_map, walk_unmap, walk_remap;
};

/* Short times are by the wall, since the clock of CPU time is a system call that costs as much as
   small tables do: the least of many is of a turn that nothing interrupted. Long ones never are. */
static double now(bool is_short)
{
    struct timespec t;
    if (!is_short)
        return bench_now();
    __asm__ volatile("" ::: "memory");
    clock_gettime(CLOCK_MONOTONIC, &t);
    __asm__ volatile("" ::: "memory");
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void least(double *best, double start, bool is_short)
{
    *best = bench_least(*best, now(is_short) - start);
}

static void turn_walk(struct device *d, unsigned shift, uint64_t bytes, struct times *best)
{
    bool brief = shift != 12;
    uint64_t address = UINT64_C(1) << 40, page = UINT64_C(1) << shift;
    struct walk w = walk_begin(d, shift);
    double start = now(brief);
    walk_range(&w, address, page, bytes, false);
    least(&best->walk_map, start, brief);
    start = now(brief);
    walk_range(&w, address, 0, bytes, true);
    least(&best->walk_unmap, start, brief);
    start = now(brief);
    walk_range(&w, address, page, bytes, false);
    least(&best->walk_remap, start, brief);
}

static void turn(struct device *d, const struct rig_format *f, const struct rig_range *range,
                 size_t bytes, unsigned shift, struct times *best)
{
    bool brief = shift != 12;
    double start = now(brief);
    memset(d->memory, (int)(best->set * 1e9), bytes);
    least(&best->set, start, brief);
    turn_walk(d, shift, range->bytes, best);
    struct rig_page_table *t = table(d, f);
    start = now(brief);
    map(t, range, 1);
    least(&best->map, start, brief);
    d->confirms = false;
    start = now(brief);
    unmap(t, range->bytes);
    least(&best->unmap, start, brief);
    start = now(brief);
    if (rig_page_table_compare(t, f->space_base, own, range, 1) != RIG_MAPPED_NOT)
        abort();
    least(&best->check, start, brief);
    start = now(brief);
    map(t, range, 1);
    least(&best->remap, start, brief);
    d->confirms = true;
    rig_page_table_drop(t);
    d->placed = false;
    t = table(d, f);
    start = now(brief);
    map(t, range, 1);
    least(&best->calls, start, brief);
    d->placed = true;
    rig_page_table_drop(t);
}

/* Entries of 16 bytes are twice the bytes of memset, and not of the bare walk, which has none. */
static bool hold_walk(const char *what, double time, double limit, double walk, double set)
{
    double ratio = time / set, bare = walk / set, held = bare > limit ? bare : limit;
    bool kept = ratio <= held * BENCH_NOISE;
    const char *says = kept ? "" : "  OVER";
    if (kept && ratio > limit * BENCH_NOISE)
        says = "  (as the bare walk)";
    printf("%-58s %8.3f  limit %-4g bare walk %6.3f%s\n", what, ratio, limit, bare, says);
    return kept || bench_short();
}

static bool pages_of(struct device *d, const struct rig_format *f, uint64_t bytes, unsigned shift,
                     double limit)
{
    /* Off by one page, so that no larger page fits, nor a fragment. */
    struct rig_range range = {UINT64_C(1) << shift, bytes};
    unsigned level = f->level_count - 1u, wide;
    while (f->level[level].shift < shift)
        level--;
    wide = f->level[level].entry_bytes;
    size_t entries = (size_t)(bytes >> shift) * wide;
    int rounds = entries < (1 << 20) && !bench_short() ? SMALL_ROUNDS : ROUNDS;
    struct times best = {1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9};
    for (int round = 0; round < rounds; round++)
        turn(d, f, &range, entries, shift, &best);
    char name[64], what[128];
    snprintf(name, sizeof name, "%s%s%s %s", f->name, *f->variant ? ":" : "", f->variant,
             shift == 12 ? "4 KiB" : "2 MiB");
    printf("%s: memset of %zu KiB takes %.1f us\n", name, entries >> 10, best.set * 1e6);
    double scale = wide == 16 ? 2 : 1;
    const struct {
        const char *what;
        double time, limit, walk;
    } rows[] = {
        {"map into an empty tree", best.map, limit, best.walk_map * scale},
        {"map over present tables", best.remap, shift == 12 ? 1.1 : limit, best.walk_remap * scale},
        {"unmap", best.unmap, 1.2, best.walk_unmap * scale}};
    bool kept = true;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        snprintf(what, sizeof what, "%s: %s / memset", name, rows[i].what);
        kept &= hold_walk(what, rows[i].time, rows[i].limit, rows[i].walk, best.set);
    }
    snprintf(what, sizeof what, "%s: check that nothing is mapped / memset", name);
    kept &= bench_hold(what, best.check / best.set, 0.8);
    printf("%s: map by write calls / memset %.3f\n", name, best.calls / best.set);
    return kept;
}

/* ---------- many ranges */

static double ranges_time(struct device *d, const struct rig_format *f,
                          const struct rig_range *ranges, size_t count)
{
    struct rig_page_table *t = table(d, f);
    double start = now(false);
    map(t, ranges, count);
    double time = now(false) - start;
    rig_page_table_drop(t);
    return time;
}

/* The bare walk's time. */
static double walk_time(struct device *d, const struct rig_range *ranges, size_t count,
                        uint64_t *copy)
{
    struct walk w = walk_begin(d, 12);
    double start = now(false);
    walk_ranges(&w, UINT64_C(1) << 40, ranges, count, copy);
    return now(false) - start;
}

/* A range a page against one range: each the next of the one before, and none beside another. One
   range counts for what it may cost, 1.5 x memset, where it costs less: it is written as fast as
   memory takes it, and the ranges are 16 bytes a page to read where the entries are 8. */
static bool many_ranges(struct device *d, const struct rig_format *f, uint64_t bytes)
{
    size_t count = bytes >> 12;
    struct rig_range *near = large(count * sizeof *near), *far = large(count * sizeof *far);
    uint64_t *copy = large(count * sizeof *copy);
    struct rig_range one = {4096, bytes};
    for (size_t i = 0; i < count; i++) {
        near[i] = (struct rig_range){(i + 1) << 12, 4096};
        far[i] = (struct rig_range){((i * 40503) & (count - 1)) << 12, 4096};
    }
    double single = 1e9, next = 1e9, apart = 1e9, set = 1e9, bare = 1e9, copied = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        double start = now(false);
        memset(d->memory, round, count * 8);
        least(&set, start, false);
        bare = bench_least(bare, walk_time(d, far, count, NULL));
        copied = bench_least(copied, walk_time(d, far, count, copy));
        single = bench_least(single, ranges_time(d, f, &one, 1));
        next = bench_least(next, ranges_time(d, f, near, count));
        apart = bench_least(apart, ranges_time(d, f, far, count));
    }
    free(near);
    free(far);
    free(copy);
    char what[96];
    printf("%s: a range a page / one range as measured: adjoining %.3f, apart %.3f\n", f->name,
           next / single, apart / single);
    single = single > 1.5 * set ? single : 1.5 * set;
    snprintf(what, sizeof what, "%s: a range a page, adjoining / one range", f->name);
    bool kept = hold_walk(what, next, 3, bare, single);
    snprintf(what, sizeof what, "%s: a range a page, apart / one range", f->name);
    return hold_walk(what, apart, 3, copied, single) && kept;
}

/* A name of a format as argument: it alone. */
int main(int argc, char **argv)
{
    uint64_t bytes = bench_short() ? GIB : 64 * GIB;
    struct device d = {.memory = NULL};
    bool kept = true;
    bench_pin();
    /* Memory that a page table had stays the process's, as memory already touched. */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 32 << 20); /* the most it takes */
    make_device(&d, (size_t)(bytes >> 21) * 2 + 4096);
    for (int i = 0; i < rig_format_count(); i++) {
        const struct rig_format *f = rig_format_at(i);
        if (argc > 1 && strcmp(f->name, argv[1]) != 0)
            continue;
        kept &= pages_of(&d, f, bytes, 12, 1.5);
        kept &= pages_of(&d, f, bytes, 21, 1.6);
        kept &= many_ranges(&d, f, bytes);
    }
    free(d.memory);
    free(d.spare);
    return kept ? 0 : 1;
}
