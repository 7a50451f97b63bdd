/* Page tables: the time of mapping, unmapping and checking 64 GiB against a memset of the bytes of
   the entries, in every format; and of many ranges against one.

   The GPU's memory is memory of the process, already touched, into which the entries are stored
   directly, as into a BAR that the process sees; the lines of a GPU that is written by calls are
   printed beside it and held to nothing. */
#include "bench.h"
#include "gpu/page_table.h"

#include <malloc.h>
#include <stdint.h>
#include <string.h>

#define ROUNDS 9
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

static void make_device(struct device *d, size_t pages)
{
    d->pages = pages;
    d->memory =
        aligned_alloc(2 << 20, (pages * RIG_TABLE_PAGE + (2 << 20) - 1) & ~((2ul << 20) - 1));
    d->spare = malloc(pages * sizeof *d->spare);
    if (!d->memory || !d->spare)
        abort();
    memset(d->memory, 0xa5, pages * RIG_TABLE_PAGE);
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

/* Least times of one page size, each against the memset beside it. */
struct times {
    double set, map, unmap, remap, check, calls;
};

static double since(double start)
{
    __asm__ volatile("" ::: "memory");
    return bench_now() - start;
}

/* Small work is done several times a turn, for the clock's sake. */
static void turn(struct device *d, const struct rig_format *f, const struct rig_range *range,
                 size_t bytes, int repeat, struct times *best)
{
    double set = 0, first = 0, gone = 0, again = 0, check = 0, calls = 0, start;
    for (int i = 0; i < repeat; i++) {
        start = bench_now();
        memset(d->memory, i, bytes);
        set += since(start);
        struct rig_page_table *t = table(d, f);
        start = bench_now();
        map(t, range, 1);
        first += since(start);
        d->confirms = false;
        start = bench_now();
        unmap(t, range->bytes);
        gone += since(start);
        start = bench_now();
        if (rig_page_table_compare(t, f->space_base, own, range, 1) != RIG_MAPPED_NOT)
            abort();
        check += since(start);
        start = bench_now();
        map(t, range, 1);
        again += since(start);
        d->confirms = true;
        rig_page_table_drop(t);
        d->placed = false;
        t = table(d, f);
        start = bench_now();
        map(t, range, 1);
        calls += since(start);
        d->placed = true;
        rig_page_table_drop(t);
    }
    best->set = bench_least(best->set, set);
    best->map = bench_least(best->map, first);
    best->unmap = bench_least(best->unmap, gone);
    best->check = bench_least(best->check, check);
    best->remap = bench_least(best->remap, again);
    best->calls = bench_least(best->calls, calls);
}

static bool pages_of(struct device *d, const struct rig_format *f, uint64_t bytes, unsigned shift,
                     double limit)
{
    /* Off by one page, so that no larger page fits, nor a fragment. */
    struct rig_range range = {UINT64_C(1) << shift, bytes};
    unsigned level = f->level_count - 1u;
    while (f->level[level].shift < shift)
        level--;
    size_t entries = (size_t)(bytes >> shift) * f->level[level].entry_bytes;
    int repeat = entries < (1 << 20) ? 20 : 1;
    struct times best = {1e9, 1e9, 1e9, 1e9, 1e9, 1e9};
    for (int round = 0; round < ROUNDS; round++)
        turn(d, f, &range, entries, repeat, &best);
    char what[128];
    const char *page = shift == 12 ? "4 KiB" : "2 MiB";
    const char *colon = *f->variant ? ":" : "";
    bool kept = true;
    const struct {
        const char *what;
        double time, limit;
    } rows[] = {{"map into an empty tree", best.map, limit},
                {"map over present tables", best.remap, 1.1},
                {"unmap", best.unmap, 1.2},
                {"check that nothing is mapped", best.check, 0.8}};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        snprintf(what, sizeof what, "%s%s%s %s: %s / memset", f->name, colon, f->variant, page,
                 rows[i].what);
        kept &= bench_hold(what, rows[i].time / best.set, rows[i].limit);
    }
    printf("%s%s%s %s: map by write calls / memset %.3f\n", f->name, colon, f->variant, page,
           best.calls / best.set);
    return kept;
}

static double ranges_time(struct device *d, const struct rig_format *f,
                          const struct rig_range *ranges, size_t count)
{
    struct rig_page_table *t = table(d, f);
    double start = bench_now();
    map(t, ranges, count);
    double time = since(start);
    rig_page_table_drop(t);
    return time;
}

/* A range a page against one range: each the next of the one before, and none beside another. One
   range counts for what it may cost, 1.5 x memset, where it costs less: it is written as fast as
   memory takes it, and the ranges are 16 bytes a page to read where the entries are 8. */
static bool many_ranges(struct device *d, const struct rig_format *f, uint64_t bytes)
{
    size_t count = bytes >> 12;
    struct rig_range *near = malloc(count * sizeof *near), *far = malloc(count * sizeof *far);
    struct rig_range one = {4096, bytes};
    if (!near || !far)
        abort();
    for (size_t i = 0; i < count; i++) {
        near[i] = (struct rig_range){(i + 1) << 12, 4096};
        far[i] = (struct rig_range){((i * 40503) & (count - 1)) << 12, 4096};
    }
    double single = 1e9, next = 1e9, apart = 1e9, set = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        double start = bench_now();
        memset(d->memory, round, count * 8);
        set = bench_least(set, since(start));
        single = bench_least(single, ranges_time(d, f, &one, 1));
        next = bench_least(next, ranges_time(d, f, near, count));
        apart = bench_least(apart, ranges_time(d, f, far, count));
    }
    free(near);
    free(far);
    char what[96];
    printf("%s: a range a page / one range as measured: adjoining %.3f, apart %.3f\n", f->name,
           next / single, apart / single);
    single = single > 1.5 * set ? single : 1.5 * set;
    snprintf(what, sizeof what, "%s: a range a page, adjoining / one range", f->name);
    bool kept = bench_hold(what, next / single, 3);
    snprintf(what, sizeof what, "%s: a range a page, apart / one range", f->name);
    return bench_hold(what, apart / single, 3) && kept;
}

int main(void)
{
    uint64_t bytes = bench_short() ? GIB : 64 * GIB;
    struct device d = {.memory = NULL};
    bool kept = true;
    bench_pin();
    /* Memory that a page table had stays the process's, as memory already touched. */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    make_device(&d, (size_t)(bytes >> 21) * 2 + 4096);
    for (int i = 0; i < rig_format_count(); i++) {
        const struct rig_format *f = rig_format_at(i);
        kept &= pages_of(&d, f, bytes, 12, 1.5);
        kept &= pages_of(&d, f, bytes, 21, 1.6);
        kept &= many_ranges(&d, f, bytes);
    }
    free(d.memory);
    free(d.spare);
    return kept ? 0 : 1;
}
