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
    if (!g->page[i])
        g->page[i] = malloc(RIG_TABLE_PAGE);
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

void fake_free(struct fake_gpu *g)
{
    for (int i = 0; i < FAKE_PAGES; i++)
        free(g->page[i]);
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
