#include "fake_tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FIRST_OFFSET UINT64_C(0x7000000)

static uint64_t offset_of(int i)
{
    return FIRST_OFFSET + (uint64_t)i * RIG_TABLE_PAGE;
}

static int page_of(uint64_t offset)
{
    if (offset < FIRST_OFFSET || offset >= offset_of(FAKE_PAGES))
        fail_msg("no page of tables at offset %llx", (unsigned long long)offset);
    return (int)((offset - FIRST_OFFSET) / RIG_TABLE_PAGE);
}

static bool fails(struct fake_gpu *g)
{
    long now = g->operations++;
    return g->fail_at >= 0 && now >= g->fail_at && now <= g->fail_at + g->fail_for;
}

static enum rig_status fake_take(void *gpu, uint64_t *out_offset, struct rig_error *err)
{
    struct fake_gpu *g = gpu;
    if (fails(g))
        return rig_fail(err, RIG_FAILED, "fake", "taking a page fails");
    if (g->room == 0)
        return rig_fail(err, RIG_NO_ROOM, "fake", "no page is left");
    int i = 0;
    while (g->taken[i])
        i++;
    if (!g->page[i] && g->block)
        g->page[i] = g->block + (size_t)(i ^ 4) * (RIG_TABLE_PAGE / 8);
    else if (!g->page[i])
        g->page[i] = aligned_alloc(RIG_TABLE_PAGE, RIG_TABLE_PAGE);
    assert_non_null(g->page[i]);
    memset(g->page[i], 0xdd, RIG_TABLE_PAGE);
    g->taken[i] = true;
    g->room--;
    g->used++;
    *out_offset = offset_of(i);
    return RIG_OK;
}

static void fake_give(void *gpu, uint64_t offset)
{
    struct fake_gpu *g = gpu;
    int i = page_of(offset);
    assert_true(g->taken[i]);
    if (g->watch) {
        fake_tables(g, true);
        if (g->seen[i])
            fail_msg("a page goes back that the GPU may still walk");
    }
    g->taken[i] = false;
    g->room++;
    g->used--;
}

static enum rig_status fake_write(void *gpu, uint64_t offset, const void *words, uint64_t bytes,
                                  struct rig_error *err)
{
    struct fake_gpu *g = gpu;
    int i = page_of(offset);
    uint64_t in_page = offset % RIG_TABLE_PAGE;
    assert_true(g->taken[i]);
    assert_true(bytes > 0 && in_page + bytes <= RIG_TABLE_PAGE);
    assert_int_equal((offset | bytes) % 8, 0);
    assert_null(g->placed ? words : NULL);
    bool failed = fails(g);
    if (failed)
        bytes = g->half_written ? bytes / 16 * 8 : 0;
    memcpy((char *)g->page[i] + in_page, words, bytes);
    g->writes++;
    g->written += (long)bytes;
    if (g->watch)
        fake_tables(g, true);
    return failed ? rig_fail(err, RIG_FAILED, "fake", "a write fails") : RIG_OK;
}

static void *fake_place(void *gpu, uint64_t offset)
{
    struct fake_gpu *g = gpu;
    int i = page_of(offset);
    assert_int_equal(offset % RIG_TABLE_PAGE, 0);
    assert_true(g->taken[i]);
    return g->placed ? g->page[i] : NULL;
}

static enum rig_status fake_flush(void *gpu, bool *out_confirmed, struct rig_error *err)
{
    struct fake_gpu *g = gpu;
    if (fails(g))
        return rig_fail(err, RIG_FAILED, "fake", "a flush fails");
    g->flushes++;
    *out_confirmed = g->confirms;
    if (g->confirms && g->watch)
        memset(g->seen, 0, sizeof g->seen);
    return RIG_OK;
}

const struct rig_page_table_ops fake_ops = {
    .take = fake_take,
    .give = fake_give,
    .write = fake_write,
    .place = fake_place,
    .flush = fake_flush,
};

struct fake_gpu *fake_new(const struct rig_format *f, uint64_t own_base)
{
    struct fake_gpu *g = calloc(1, sizeof *g);
    assert_non_null(g);
    g->f = f;
    g->own_base = own_base;
    g->room = FAKE_PAGES;
    g->fail_at = -1;
    g->confirms = true;
    return g;
}

void fake_adjoin(struct fake_gpu *g)
{
    g->block = aligned_alloc(RIG_TABLE_PAGE, (size_t)FAKE_PAGES * RIG_TABLE_PAGE);
    assert_non_null(g->block);
}

void fake_free(struct fake_gpu *g)
{
    for (int i = 0; i < FAKE_PAGES; i++)
        if (!g->block || g->page[i] != g->block + (size_t)(i ^ 4) * (RIG_TABLE_PAGE / 8))
            free(g->page[i]);
    free(g->block);
    free(g);
}

static void read_words(struct fake_gpu *g, const struct rig_table *t, uint64_t address,
                       uint64_t words[2])
{
    assert_int_equal(t->memory, RIG_MEMORY_OWN);
    uint64_t at = rig_entry_at(g->f, t, address) - g->own_base;
    int i = page_of(at);
    assert_true(g->taken[i]);
    memcpy(words, (char *)g->page[i] + at % RIG_TABLE_PAGE, g->f->level[t->level].entry_bytes);
}

static bool walk(struct fake_gpu *g, const struct rig_table *t, uint64_t address,
                 struct fake_end *out)
{
    uint64_t words[2] = {0, 0};
    struct rig_entry e;
    read_words(g, t, address, words);
    rig_decode(g->f, t, words, &e);
    assert_true(e.kind != RIG_ENTRY_LOST);
    for (int i = 0; i < e.children; i++)
        if (walk(g, &e.child[i], address, out))
            return true;
    if (e.kind != RIG_ENTRY_LEAF)
        return false;
    assert_true(e.readable && e.writable && e.executable && !e.privileged);
    assert_int_equal(e.address & (e.bytes - 1), 0);
    *out = (struct fake_end){
        .mapped = true,
        .target = {.memory = e.memory,
                   .peer = e.peer,
                   .uncached = e.uncached,
                   .snooped = e.snooped},
        .physical = e.address + (address & (e.bytes - 1)),
        .page = e.bytes,
        .fragment = e.fragment,
    };
    if (e.memory == RIG_MEMORY_OWN)
        out->physical -= g->own_base;
    return true;
}

struct fake_end fake_walk(struct fake_gpu *g, uint64_t address)
{
    struct fake_end end = {.mapped = false};
    walk(g, &g->root, address, &end);
    return end;
}

static int tables(struct fake_gpu *g, const struct rig_table *t, uint64_t address, bool mark)
{
    int count = 1;
    if (mark)
        g->seen[page_of(t->address - g->own_base)] = true;
    for (uint64_t i = 0; i < UINT64_C(1) << t->index_bits; i++) {
        uint64_t at = address + (i << t->shift), words[2] = {0, 0};
        struct rig_entry e;
        read_words(g, t, at, words);
        if (words[0] == 0 && words[1] == 0)
            continue;
        rig_decode(g->f, t, words, &e);
        for (int k = 0; k < e.children; k++)
            count += tables(g, &e.child[k], at, mark);
    }
    return count;
}

int fake_tables(struct fake_gpu *g, bool mark)
{
    return g->root.index_bits == 0 ? 0 : tables(g, &g->root, 0, mark);
}

struct fake_rig fake_set_up(const struct rig_format *f)
{
    bool amd = strcmp(f->vendor, "amd") == 0;
    struct fake_rig r = {.g = fake_new(f, amd ? GIB : 0), .base = f->space_base};
    assert_int_equal(rig_page_table_new(f, r.g->own_base, &fake_ops, r.g, &r.t, NULL), RIG_OK);
    r.g->root = rig_page_table_root(r.t);
    assert_int_equal(r.g->used, 1);
    return r;
}

void fake_tear_down(struct fake_rig *r)
{
    rig_page_table_drop(r->t);
    fake_free(r->g);
}

enum rig_status fake_map(struct fake_rig *r, uint64_t at, struct rig_target target,
                         uint64_t physical, uint64_t bytes)
{
    struct rig_range range = {physical, bytes};
    return rig_page_table_map(r->t, r->base + at, target, &range, 1, NULL);
}

bool fake_unmap(struct fake_rig *r, uint64_t at, uint64_t bytes)
{
    bool confirmed = false;
    assert_int_equal(rig_page_table_unmap(r->t, r->base + at, bytes, &confirmed, NULL), RIG_OK);
    return confirmed;
}

static bool same_target(const struct rig_format *f, struct rig_target a, struct rig_target b)
{
    /* Linked AMD GPUs' memories are one space with the own. What Intel snoops follows from whether
       it is cached. */
    if (f->link == RIG_LINK_FLAT && b.memory == RIG_MEMORY_LINK)
        return a.memory == RIG_MEMORY_OWN && a.uncached == b.uncached;
    bool snoop = strcmp(f->vendor, "intel") != 0 && b.memory == RIG_MEMORY_SYSTEM;
    return a.memory == b.memory && a.peer == b.peer && a.uncached == b.uncached &&
           (!snoop || a.snooped == b.snooped);
}

/* All that a fragment promises holds: its whole block is memory that goes on, reached alike. */
static void check_fragment(struct fake_rig *r, uint64_t address, const struct fake_end *end)
{
    if (end->fragment == 0)
        return;
    uint64_t block = UINT64_C(4096) << end->fragment, start = address & ~(block - 1);
    uint64_t physical = end->physical - (address - start);
    uint64_t entry = physical + (end->target.memory == RIG_MEMORY_OWN ? r->g->own_base : 0);
    assert_int_equal(entry & (block - 1), 0);
    for (int k = 0; k < 4; k++) {
        uint64_t at = (uint64_t)k * (block - 4096) / 3 & ~UINT64_C(4095);
        struct fake_end other = fake_walk(r->g, start + at);
        assert_true(other.mapped && other.fragment == end->fragment);
        assert_int_equal(other.physical, physical + at);
    }
}

void fake_check(struct fake_rig *r, uint64_t address, struct rig_target target, uint64_t physical)
{
    struct fake_end end = fake_walk(r->g, address);
    /* The walker takes an AMD GPU's linked memory for its own, and its base off. */
    if (r->g->f->link == RIG_LINK_FLAT && target.memory == RIG_MEMORY_LINK)
        physical -= r->g->own_base;
    if (!end.mapped || end.physical != physical || !same_target(r->g->f, end.target, target))
        fail_msg("%s %s: %llx leads to %llx, not to %llx", r->g->f->name, r->g->f->variant,
                 (unsigned long long)address, (unsigned long long)end.physical,
                 (unsigned long long)physical);
    check_fragment(r, address, &end);
}

struct fake_end fake_end_at(struct fake_rig *r, uint64_t at)
{
    return fake_walk(r->g, r->base + at);
}
