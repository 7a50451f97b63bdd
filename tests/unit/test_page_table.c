/* The page tables, against a plain model of what is mapped and against a walker that reads the
   bytes they wrote. */
#include "fake_tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t next(uint64_t *seed)
{
    *seed ^= *seed >> 12;
    *seed ^= *seed << 25;
    *seed ^= *seed >> 27;
    return *seed * UINT64_C(0x2545f4914f6cdd1d);
}

/* ---------- random requests, in every format */

#define REGIONS 24
#define RANGES 40

struct region {
    uint64_t at, bytes;
    struct rig_target target;
    struct rig_range range[RANGES];
    size_t ranges;
};

static uint64_t region_physical(const struct region *m, uint64_t offset)
{
    for (size_t i = 0; i < m->ranges; i++) {
        if (offset < m->range[i].bytes)
            return m->range[i].address + offset;
        offset -= m->range[i].bytes;
    }
    fail_msg("past the end");
    return 0;
}

static uint64_t random_size(uint64_t *seed)
{
    static const uint64_t sizes[] = {4 * KIB,   8 * KIB, 60 * KIB, 64 * KIB, 68 * KIB,
                                     192 * KIB, 2 * MIB, 3 * MIB,  6 * MIB,  512 * MIB + 2 * MIB,
                                     GIB};
    uint64_t r = next(seed);
    return sizes[r % (r >> 16 & 1 ? RIG_ARRAY_LENGTH(sizes) : 8)];
}

static struct rig_target random_target(const struct rig_format *f, uint64_t *seed)
{
    uint64_t r = next(seed);
    struct rig_target target = {.memory = (enum rig_memory_kind)(r % 3), .uncached = r >> 8 & 1};
    if (target.memory == RIG_MEMORY_LINK && f->link == RIG_LINK_NONE)
        target.memory = RIG_MEMORY_OWN;
    if (target.memory == RIG_MEMORY_LINK && f->link == RIG_LINK_NUMBER)
        target.peer = (uint8_t)(r >> 16) % f->link_peers;
    target.snooped = target.memory == RIG_MEMORY_SYSTEM && (r >> 24 & 1);
    return target;
}

/* A region of one to many ranges, some of which adjoin, in a place of 2^32 bytes. */
static struct region random_region(const struct rig_format *f, uint64_t *seed)
{
    struct region m = {.target = random_target(f, seed)};
    uint64_t shape = next(seed), unit = shape & 1 ? 4 * KIB : (shape & 2 ? 64 * KIB : 2 * MIB);
    m.ranges = shape & 4 ? 1 : 1 + (shape >> 8) % RANGES;
    m.at = (next(seed) & (8 * GIB - 1)) & ~(unit - 1);
    uint64_t where = (next(seed) & (64 * GIB - 1)) & ~(unit - 1);
    for (size_t i = 0; i < m.ranges; i++) {
        uint64_t bytes = m.ranges == 1 ? random_size(seed) : (1 + next(seed) % 9) * 4 * KIB;
        if (next(seed) % 3 == 0)
            where = (next(seed) & (64 * GIB - 1)) & ~(unit - 1);
        m.range[i] = (struct rig_range){where, bytes};
        where += bytes;
        m.bytes += bytes;
    }
    return m;
}

static bool overlaps(const struct region *a, const struct region *b)
{
    return a->at < b->at + b->bytes && b->at < a->at + a->bytes;
}

/* The bytes of the tables say what the model says, at the edges and in the middle of each region
   and beside them. */
static void check_all(struct fake_rig *r, const struct region *regions, uint64_t *seed)
{
    for (int i = 0; i < REGIONS; i++) {
        const struct region *m = &regions[i];
        for (int k = 0; m->bytes != 0 && k < 12; k++) {
            uint64_t offset = k == 0 ? 0 : m->bytes - 1;
            if (k > 1)
                offset = next(seed) % m->bytes;
            fake_check(r, r->base + m->at + offset, m->target, region_physical(m, offset));
        }
        if (m->bytes != 0)
            assert_int_equal(
                rig_page_table_compare(r->t, r->base + m->at, m->target, m->range, m->ranges),
                RIG_MAPPED_WHOLE);
    }
    for (int k = 0; k < 20; k++) {
        uint64_t at = next(seed) & (8 * GIB - 1);
        bool mapped = false;
        for (int i = 0; i < REGIONS; i++)
            mapped = mapped || (at >= regions[i].at && at - regions[i].at < regions[i].bytes);
        assert_int_equal(fake_walk(r->g, r->base + at).mapped, mapped);
        assert_int_equal(rig_page_table_at(r->t, r->base + at).mapped, mapped);
    }
}

static void random_requests(const struct rig_format *f, uint64_t seed, bool placed, bool adjoin)
{
    struct fake_rig r = fake_set_up(f);
    struct region *regions = calloc(REGIONS, sizeof *regions);
    assert_non_null(regions);
    r.g->placed = placed;
    if (adjoin)
        fake_adjoin(r.g);
    for (int step = 0; step < 150; step++) {
        struct region *slot = &regions[next(&seed) % REGIONS];
        if (slot->bytes != 0) {
            assert_true(fake_unmap(&r, slot->at, slot->bytes));
            slot->bytes = 0;
        } else {
            struct region m = random_region(f, &seed);
            bool taken = false;
            for (int i = 0; i < REGIONS; i++)
                taken = taken || (regions[i].bytes != 0 && overlaps(&m, &regions[i]));
            int used = r.g->used;
            long writes = r.g->writes;
            enum rig_status status =
                rig_page_table_map(r.t, r.base + m.at, m.target, m.range, m.ranges, NULL);
            assert_int_equal(status, taken ? RIG_INVALID : RIG_OK);
            if (taken)
                assert_true(r.g->used == used && r.g->writes == writes);
            else
                *slot = m;
        }
        if (step % 10 == 0)
            check_all(&r, regions, &seed);
    }
    check_all(&r, regions, &seed);
    for (int i = 0; i < REGIONS; i++)
        if (regions[i].bytes != 0)
            fake_unmap(&r, regions[i].at, regions[i].bytes);
    assert_int_equal(r.g->used, 1);
    assert_int_equal(fake_tables(r.g, false), 1);
    free(regions);
    fake_tear_down(&r);
}

static void tables_say_what_a_plain_model_says_in_every_format(void **state)
{
    (void)state;
    for (int i = 0; i < rig_format_count(); i++)
        for (uint64_t seed = 1; seed <= 4; seed++)
            random_requests(rig_format_at(i), seed * UINT64_C(0x9e3779b97f4a7c15), seed >= 3,
                            seed == 4);
}

/* ---------- pages and fragments */

static void the_largest_page_that_both_addresses_and_the_run_allow_is_used(void **state)
{
    (void)state;
    struct fake_rig r = fake_set_up(rig_format_named("amd-gfx10", 0, 0));
    assert_int_equal(fake_map(&r, 0, OWN, 0, GIB), RIG_OK);
    assert_int_equal(fake_end_at(&r, 5).page, GIB);
    assert_int_equal(fake_end_at(&r, 5).fragment, 18);
    assert_int_equal(fake_map(&r, GIB, OWN, 3 * GIB + 2 * MIB, GIB), RIG_OK);
    assert_int_equal(fake_end_at(&r, GIB).page, 2 * MIB);
    assert_int_equal(fake_end_at(&r, GIB).fragment, 9);
    assert_int_equal(fake_map(&r, 2 * GIB, OWN, 5 * GIB + 4 * KIB, 4 * MIB), RIG_OK);
    assert_int_equal(fake_end_at(&r, 2 * GIB).page, 4 * KIB);
    assert_int_equal(fake_end_at(&r, 2 * GIB).fragment, 0);
    assert_int_equal(fake_map(&r, 3 * GIB, OWN, 7 * GIB + 64 * KIB, 4 * MIB), RIG_OK);
    assert_int_equal(fake_end_at(&r, 3 * GIB).page, 4 * KIB);
    assert_int_equal(fake_end_at(&r, 3 * GIB).fragment, 4);
    /* 2 MiB + 8 KiB: one page of 2 MiB and two of 4 KiB that are a fragment of 8 KiB. */
    assert_int_equal(fake_map(&r, 4 * GIB, OWN, 8 * GIB, 2 * MIB + 8 * KIB), RIG_OK);
    assert_int_equal(fake_end_at(&r, 4 * GIB).page, 2 * MIB);
    assert_int_equal(fake_end_at(&r, 4 * GIB + 2 * MIB).page, 4 * KIB);
    assert_int_equal(fake_end_at(&r, 4 * GIB + 2 * MIB + 4 * KIB).fragment, 1);
    fake_tear_down(&r);
}

/* 64 KiB pages of NVIDIA lie in a table of their own beside that of the 4 KiB pages. */
static void nvidia_maps_64k_and_4k_pages_under_one_directory_entry(void **state)
{
    (void)state;
    struct fake_rig r = fake_set_up(rig_format_named("nv-mmu-v2", 0, 0));
    struct rig_range ranges[] = {{GIB, 64 * KIB + 4 * KIB},
                                 {2 * GIB, 60 * KIB},
                                 {3 * GIB, 128 * KIB},
                                 {4 * GIB + 4 * KIB, 64 * KIB}};
    assert_int_equal(rig_page_table_map(r.t, r.base, OWN, ranges, 4, NULL), RIG_OK);
    assert_int_equal(fake_end_at(&r, 0).page, 64 * KIB);
    assert_int_equal(fake_end_at(&r, 64 * KIB).page, 4 * KIB);
    assert_int_equal(fake_end_at(&r, 68 * KIB).physical, 2 * GIB);
    assert_int_equal(fake_end_at(&r, 68 * KIB).page, 4 * KIB);
    assert_int_equal(fake_end_at(&r, 128 * KIB).page, 64 * KIB);
    assert_int_equal(fake_end_at(&r, 192 * KIB).physical, 3 * GIB + 64 * KIB);
    assert_int_equal(fake_end_at(&r, 256 * KIB).page, 4 * KIB);
    assert_int_equal(fake_end_at(&r, 256 * KIB).physical, 4 * GIB + 4 * KIB);
    assert_false(fake_end_at(&r, 320 * KIB).mapped);
    /* Root, PDE2, PDE1, PDE0, the page of 256-byte tables, one 4 KiB table. */
    assert_int_equal(r.g->used, 6);
    /* The next 64 KiB table shares the page. */
    assert_int_equal(fake_map(&r, 2 * MIB, OWN, 5 * GIB, 64 * KIB), RIG_OK);
    assert_int_equal(r.g->used, 6);
    assert_true(fake_unmap(&r, 0, 320 * KIB));
    assert_int_equal(r.g->used, 5);
    assert_true(fake_unmap(&r, 2 * MIB, 64 * KIB));
    assert_int_equal(r.g->used, 1);
    fake_tear_down(&r);
}

static void intel_marks_aligned_64k_runs_alone(void **state)
{
    (void)state;
    struct fake_rig r = fake_set_up(rig_format_named("intel-xe", 0, 0));
    assert_int_equal(fake_map(&r, 0, OWN, 64 * KIB, 132 * KIB), RIG_OK);
    assert_int_equal(fake_end_at(&r, 64 * KIB).fragment, 4);
    assert_int_equal(fake_end_at(&r, 124 * KIB).fragment, 4);
    assert_int_equal(fake_end_at(&r, 128 * KIB).fragment, 0);
    assert_int_equal(fake_map(&r, MIB, OWN, 4 * KIB, 128 * KIB), RIG_OK);
    assert_int_equal(fake_end_at(&r, MIB).fragment, 0);
    fake_tear_down(&r);
}

static void adjoining_ranges_are_mapped_as_one(void **state)
{
    (void)state;
    struct fake_rig r = fake_set_up(rig_format_named("plain", 0, 0));
    struct rig_range *ranges = calloc(512, sizeof *ranges);
    assert_non_null(ranges);
    for (size_t i = 0; i < 512; i++)
        ranges[i] = (struct rig_range){GIB + i * 4 * KIB, 4 * KIB};
    assert_int_equal(rig_page_table_map(r.t, r.base, OWN, ranges, 512, NULL), RIG_OK);
    assert_int_equal(fake_end_at(&r, 0).page, 2 * MIB);
    assert_int_equal(r.g->used, 3);
    free(ranges);
    fake_tear_down(&r);
}

#define SINGLES 1300

/* As memory comes where it is in use everywhere: three tables and more of pages, `pairs` of which
   adjoin their neighbours. */
static void map_singles(const struct rig_format *f, size_t pairs, bool placed)
{
    static struct rig_range range[SINGLES];
    struct fake_rig r = fake_set_up(f);
    uint64_t at = 2 * MIB + 80 * KIB;
    r.g->placed = placed;
    for (size_t i = 0; i < SINGLES; i++)
        range[i] = (struct rig_range){(i * 40503 % 65536) * 8 * KIB, 4 * KIB};
    for (size_t i = 0; i < pairs; i++) {
        size_t k = (i * 67 + 5) % (SINGLES - 1);
        range[k + 1].address = range[k].address + 4 * KIB;
    }
    assert_int_equal(rig_page_table_map(r.t, r.base + at, SYSTEM, range, SINGLES, NULL), RIG_OK);
    for (size_t i = 0; i < SINGLES; i++)
        fake_check(&r, r.base + at + i * 4 * KIB + 8, SYSTEM, range[i].address + 8);
    assert_int_equal(rig_page_table_compare(r.t, r.base + at, SYSTEM, range, SINGLES),
                     RIG_MAPPED_WHOLE);
    assert_false(fake_end_at(&r, at - 1).mapped);
    assert_false(fake_end_at(&r, at + SINGLES * 4 * KIB).mapped);
    assert_true(fake_unmap(&r, at, SINGLES * 4 * KIB));
    assert_int_equal(r.g->used, 1);
    fake_tear_down(&r);
}

static void pages_that_lie_apart_are_each_mapped_in_every_format(void **state)
{
    (void)state;
    for (int i = 0; i < rig_format_count(); i++)
        for (size_t pairs = 0; pairs <= 9; pairs += 9)
            map_singles(rig_format_at(i), pairs, (i & 1) == (pairs != 0));
}

/* Entries beyond what caches hold are written another way: to the same bytes. The memory is a page
   off, so that all pages are small and without a fragment. */
static void map_much(const struct rig_format *f, bool placed)
{
    const uint64_t bytes = 5 * GIB, step = 97 * 4 * KIB;
    struct fake_rig r = fake_set_up(f);
    r.g->placed = placed;
    r.g->confirms = false;
    if (placed)
        fake_adjoin(r.g);
    for (uint64_t physical = 4 * KIB; physical <= 12 * KIB; physical += 8 * KIB) {
        assert_int_equal(fake_map(&r, 0, OWN, physical, bytes), RIG_OK);
        for (uint64_t at = 0; at < bytes; at += step)
            fake_check(&r, r.base + at, OWN, physical + at);
        fake_check(&r, r.base + bytes - 4 * KIB, OWN, physical + bytes - 4 * KIB);
        assert_false(fake_end_at(&r, bytes).mapped);
        assert_false(fake_unmap(&r, 0, bytes));
        for (uint64_t at = 0; at < bytes; at += step)
            assert_false(fake_end_at(&r, at).mapped);
    }
    fake_tear_down(&r);
}

static void a_mapping_larger_than_caches_is_made_and_cleared_in_every_format(void **state)
{
    (void)state;
    for (int i = 0; i < rig_format_count(); i++) {
        map_much(rig_format_at(i), true);
        map_much(rig_format_at(i), false);
    }
}

/* Three neighbours over tables that adjoin in memory; the one between goes and comes back, and each
   page of all is looked at. The memory is a page off, so that all pages are small. */
static void check_neighbours(struct fake_rig *r, uint64_t first, uint64_t last, uint64_t between)
{
    for (uint64_t at = 0; at < 20 * MIB; at += 4 * KIB) {
        if (at < first || at > last)
            fake_check(r, r->base + at, OWN, GIB + 4 * KIB + at);
        else if (between != 0)
            fake_check(r, r->base + at, OWN, between + at);
        else
            assert_false(fake_end_at(r, at).mapped);
    }
    assert_false(fake_end_at(r, 20 * MIB).mapped);
}

static void zeros_and_entries_end_where_a_mapping_does_in_tables_that_adjoin(void **state)
{
    (void)state;
    for (int i = 0; i < rig_format_count(); i++) {
        struct fake_rig r = fake_set_up(rig_format_at(i));
        uint64_t first = 5 * MIB + 12 * KIB, end = 15 * MIB - 8 * KIB, from = GIB + 4 * KIB;
        r.g->placed = true;
        r.g->confirms = i % 2 == 0;
        fake_adjoin(r.g);
        assert_int_equal(fake_map(&r, 0, OWN, from, first), RIG_OK);
        assert_int_equal(fake_map(&r, first, OWN, from + first, end - first), RIG_OK);
        assert_int_equal(fake_map(&r, end, OWN, from + end, 20 * MIB - end), RIG_OK);
        check_neighbours(&r, first, end - 1, from);
        assert_int_equal(fake_unmap(&r, first, end - first), r.g->confirms);
        check_neighbours(&r, first, end - 1, 0);
        assert_int_equal(fake_map(&r, first, OWN, 4 * KIB + first, end - first), RIG_OK);
        check_neighbours(&r, first, end - 1, 4 * KIB);
        fake_tear_down(&r);
    }
}

static void own_memory_is_written_with_the_base_of_the_gpu(void **state)
{
    (void)state;
    struct fake_rig r = fake_set_up(rig_format_named("amd-gfx9", 0, 0));
    assert_int_equal(r.g->own_base, GIB);
    assert_int_equal(rig_page_table_root(r.t).address, GIB + 0x7000000);
    assert_int_equal(fake_map(&r, 0, OWN, 2 * MIB, 4 * KIB), RIG_OK);
    assert_int_equal(fake_map(&r, 4 * KIB, SYSTEM, 2 * MIB, 4 * KIB), RIG_OK);
    /* Page 3 is the PTB: root, PDB1, PDB0, PTB. Valid, executable, readable, writable. */
    assert_int_equal(r.g->page[3][0], 0x0000000040200071);
    assert_int_equal(r.g->page[3][1], 0x0600000000200077);
    fake_tear_down(&r);
}

/* ---------- what is written */

static void a_whole_run_of_a_table_is_one_write_and_a_new_table_is_written_once(void **state)
{
    (void)state;
    struct fake_rig r = fake_set_up(rig_format_named("amd-gfx11", 0, 0));
    long before = r.g->writes;
    assert_int_equal(fake_map(&r, 0, OWN, 4 * KIB, 4 * MIB), RIG_OK);
    /* Two PTBs, PDB0 and PDB1 whole, and one entry of the root. */
    assert_int_equal(r.g->writes - before, 5);
    before = r.g->writes;
    assert_int_equal(fake_map(&r, 4 * MIB, OWN, 6 * MIB + 4 * KIB, 8 * KIB), RIG_OK);
    assert_int_equal(r.g->writes - before, 2);
    before = r.g->writes;
    long bytes = r.g->written;
    assert_int_equal(fake_map(&r, 4 * MIB + 8 * KIB, OWN, GIB, 8 * KIB), RIG_OK);
    assert_int_equal(r.g->writes - before, 1);
    assert_int_equal(r.g->written - bytes, 16);
    fake_tear_down(&r);
}

static void a_table_is_complete_before_an_entry_points_at_it(void **state)
{
    (void)state;
    /* Fresh pages hold 0xdd, which leads the watching walker out of the tables. */
    for (int i = 0; i < rig_format_count(); i++) {
        struct fake_rig r = fake_set_up(rig_format_at(i));
        r.g->watch = true;
        struct rig_range ranges[] = {
            {GIB, 2 * MIB}, {5 * GIB, 68 * KIB}, {7 * GIB + 4096, 3 * MIB}};
        assert_int_equal(rig_page_table_map(r.t, r.base + GIB - MIB, OWN, ranges, 3, NULL), RIG_OK);
        assert_int_equal(fake_tables(r.g, false) > 1, true);
        assert_true(fake_unmap(&r, GIB - MIB, 5 * MIB + 68 * KIB));
        assert_int_equal(r.g->used, 1);
        fake_tear_down(&r);
    }
}

/* ---------- refusals */

static void an_address_maps_once(void **state)
{
    (void)state;
    struct fake_rig r = fake_set_up(rig_format_named("nv-mmu-v3", 0, 0));
    struct rig_error err = {0};
    struct rig_range range = {GIB, 8 * KIB};
    assert_int_equal(fake_map(&r, 64 * KIB, OWN, 0, 64 * KIB), RIG_OK);
    int used = r.g->used;
    assert_int_equal(rig_page_table_map(r.t, r.base + 60 * KIB, OWN, &range, 1, &err), RIG_INVALID);
    assert_string_equal(err.why, "0x300000010000 is mapped already");
    assert_int_equal(fake_map(&r, 124 * KIB, OWN, GIB, 4 * KIB), RIG_INVALID);
    assert_int_equal(fake_map(&r, 0, OWN, GIB, 2 * MIB), RIG_INVALID);
    assert_int_equal(fake_map(&r, 128 * KIB, OWN, GIB, 4 * KIB), RIG_OK);
    assert_int_equal(r.g->used, used + 1);
    fake_tear_down(&r);
}

static void misuse_changes_nothing(void **state)
{
    (void)state;
    struct fake_rig r = fake_set_up(rig_format_named("plain", 0, 0));
    long operations = r.g->operations;
    struct rig_range none = {0, 0}, odd = {0, 4097}, wraps = {UINT64_MAX - 4095, 8192};
    struct rig_range huge[2] = {{0, UINT64_MAX - 4095}, {0, 8192}};
    bool confirmed;
    assert_int_equal(rig_page_table_map(r.t, r.base, OWN, &none, 1, NULL), RIG_INVALID);
    assert_int_equal(rig_page_table_map(r.t, r.base, OWN, &none, 0, NULL), RIG_INVALID);
    assert_int_equal(rig_page_table_map(r.t, r.base, OWN, &odd, 1, NULL), RIG_INVALID);
    assert_int_equal(rig_page_table_map(r.t, r.base, OWN, &wraps, 1, NULL), RIG_INVALID);
    assert_int_equal(rig_page_table_map(r.t, r.base, OWN, huge, 2, NULL), RIG_INVALID);
    assert_int_equal(fake_map(&r, 1, OWN, 0, 4096), RIG_INVALID);
    assert_int_equal(fake_map(&r, 0, OWN, 8, 4096), RIG_INVALID);
    assert_int_equal(fake_map(&r, UINT64_MAX - 4095 - r.base, OWN, 0, 8192), RIG_INVALID);
    assert_int_equal(fake_map(&r, (UINT64_C(1) << 48) - r.base, OWN, 0, 4096), RIG_INVALID);
    struct rig_target peerless = {.memory = RIG_MEMORY_OWN, .peer = 1};
    assert_int_equal(fake_map(&r, 0, peerless, 0, 4096), RIG_INVALID);
    assert_int_equal(rig_page_table_unmap(r.t, r.base, 0, &confirmed, NULL), RIG_INVALID);
    assert_int_equal(rig_page_table_unmap(r.t, r.base, 6, &confirmed, NULL), RIG_INVALID);
    assert_int_equal(rig_page_table_unmap(r.t, UINT64_MAX - 4095, 8192, &confirmed, NULL),
                     RIG_INVALID);
    assert_int_equal(r.g->operations, operations);
    assert_int_equal(fake_map(&r, 0, OWN, 0, 2 * MIB), RIG_OK);
    operations = r.g->operations;
    assert_int_equal(rig_page_table_unmap(r.t, r.base, MIB, &confirmed, NULL), RIG_INVALID);
    assert_int_equal(rig_page_table_unmap(r.t, r.base + MIB, MIB, &confirmed, NULL), RIG_INVALID);
    assert_int_equal(r.g->operations, operations);
    fake_tear_down(&r);
}

static enum rig_status fits(const char *format, enum rig_memory_kind memory, unsigned peer,
                            uint64_t address)
{
    struct rig_range range = {address, 4096};
    struct rig_target target = {.memory = memory, .peer = (uint8_t)peer};
    return rig_page_table_fits(rig_format_named(format, 0, 0), 0, target, &range, 1, NULL);
}

static void addresses_that_entries_cannot_hold_are_refused(void **state)
{
    (void)state;
    const uint64_t one = 1;
    assert_int_equal(fits("amd-gfx10", RIG_MEMORY_SYSTEM, 0, (one << 44) - 4096), RIG_OK);
    assert_int_equal(fits("amd-gfx10", RIG_MEMORY_SYSTEM, 0, one << 44), RIG_REFUSED);
    assert_int_equal(fits("amd-gfx9-further", RIG_MEMORY_SYSTEM, 0, one << 44), RIG_OK);
    assert_int_equal(fits("amd-gfx9-further", RIG_MEMORY_SYSTEM, 0, one << 48), RIG_REFUSED);
    assert_int_equal(fits("nv-mmu-v2", RIG_MEMORY_SYSTEM, 0, (one << 47) - 4096), RIG_OK);
    assert_int_equal(fits("nv-mmu-v2", RIG_MEMORY_SYSTEM, 0, one << 47), RIG_REFUSED);
    assert_int_equal(fits("nv-mmu-v2", RIG_MEMORY_OWN, 0, one << 37), RIG_REFUSED);
    assert_int_equal(fits("nv-mmu-v3", RIG_MEMORY_SYSTEM, 0, (one << 52) - 4096), RIG_OK);
    assert_int_equal(fits("nv-mmu-v3", RIG_MEMORY_SYSTEM, 0, one << 52), RIG_REFUSED);
    assert_int_equal(fits("nv-mmu-v2", RIG_MEMORY_LINK, 7, 0), RIG_OK);
    assert_int_equal(fits("nv-mmu-v2", RIG_MEMORY_LINK, 8, 0), RIG_REFUSED);
    assert_int_equal(fits("plain", RIG_MEMORY_LINK, 31, 0), RIG_OK);
    assert_int_equal(fits("plain", RIG_MEMORY_LINK, 32, 0), RIG_REFUSED);
    assert_int_equal(fits("intel-xe", RIG_MEMORY_LINK, 0, 0), RIG_REFUSED);
    assert_int_equal(fits("amd-gfx9", RIG_MEMORY_LINK, 0, 0), RIG_OK);
    struct rig_error err = {0};
    struct rig_range range = {one << 44, 4096};
    assert_int_equal(
        rig_page_table_fits(rig_format_named("amd-gfx10", 0, 0), 0, SYSTEM, &range, 1, &err),
        RIG_REFUSED);
    assert_string_equal(err.why,
                        "the page-table entries of amd-gfx10 hold 44 address bits of system "
                        "memory, and 0x100000000fff has more");
    /* What is added to own addresses counts. */
    range.address = (one << 48) - 4096;
    assert_int_equal(
        rig_page_table_fits(rig_format_named("amd-gfx9", 0, 0), 4096, OWN, &range, 1, NULL),
        RIG_REFUSED);
    struct fake_rig r = fake_set_up(rig_format_named("amd-gfx10", 0, 0));
    long operations = r.g->operations;
    assert_int_equal(fake_map(&r, 0, SYSTEM, one << 44, 4096), RIG_REFUSED);
    assert_int_equal(r.g->operations, operations);
    fake_tear_down(&r);
}

static void no_room_for_a_table_takes_and_writes_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < rig_format_count(); i++) {
        struct rig_range ranges[] = {
            {GIB, 2 * MIB}, {5 * GIB, 68 * KIB}, {7 * GIB + 4096, 3 * MIB}};
        for (int room = 0;; room++) {
            struct fake_rig r = fake_set_up(rig_format_at(i));
            assert_int_equal(fake_map(&r, 8 * GIB, OWN, 0, 4 * KIB), RIG_OK);
            int used = r.g->used;
            long writes = r.g->writes;
            r.g->room = room;
            enum rig_status status =
                rig_page_table_map(r.t, r.base + GIB - MIB, OWN, ranges, 3, NULL);
            if (status == RIG_OK) {
                assert_true(room >= 3);
                fake_tear_down(&r);
                break;
            }
            assert_int_equal(status, RIG_NO_ROOM);
            assert_true(r.g->used == used && r.g->writes == writes && r.g->room == room);
            r.g->room = FAKE_PAGES;
            assert_int_equal(rig_page_table_map(r.t, r.base + GIB - MIB, OWN, ranges, 3, NULL),
                             RIG_OK);
            /* Nothing of the attempt keeps a table from going back. */
            assert_true(fake_unmap(&r, GIB - MIB, 5 * MIB + 68 * KIB));
            assert_true(fake_unmap(&r, 8 * GIB, 4 * KIB));
            assert_int_equal(r.g->used, 1);
            fake_tear_down(&r);
        }
    }
}

/* ---------- flushes */

static void an_empty_table_goes_back_only_after_a_confirmed_flush(void **state)
{
    (void)state;
    struct fake_rig r = fake_set_up(rig_format_named("amd-gfx12", 0, 0));
    r.g->watch = true;
    assert_int_equal(fake_map(&r, 0, OWN, 4 * KIB, 8 * KIB), RIG_OK);
    assert_int_equal(r.g->used, 4);
    r.g->confirms = false;
    assert_false(fake_unmap(&r, 0, 8 * KIB));
    assert_int_equal(r.g->used, 4);
    assert_false(fake_end_at(&r, 0).mapped);
    /* A later flush that is confirmed does not bring it back: it stays until the release. */
    r.g->confirms = true;
    assert_int_equal(fake_map(&r, 16 * KIB, OWN, 4 * KIB, 8 * KIB), RIG_OK);
    assert_int_equal(r.g->used, 4);
    assert_int_equal(fake_end_at(&r, 16 * KIB).physical, 4 * KIB);
    assert_true(fake_unmap(&r, 16 * KIB, 8 * KIB));
    assert_int_equal(r.g->used, 4);
    assert_int_equal(fake_map(&r, 8 * GIB, OWN, 4 * KIB, 8 * KIB), RIG_OK);
    assert_int_equal(r.g->used, 6);
    assert_true(fake_unmap(&r, 8 * GIB, 8 * KIB));
    assert_int_equal(r.g->used, 4);
    fake_tear_down(&r);
}

static void mapping_flushes_once_and_needs_no_confirmation(void **state)
{
    (void)state;
    struct fake_rig r = fake_set_up(rig_format_named("plain", 0, 0));
    r.g->confirms = false;
    assert_int_equal(fake_map(&r, 0, OWN, 0, 8 * MIB), RIG_OK);
    assert_int_equal(r.g->flushes, 1);
    assert_false(fake_unmap(&r, 0, 8 * MIB));
    assert_int_equal(r.g->flushes, 2);
    fake_tear_down(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_say_what_a_plain_model_says_in_every_format),
        cmocka_unit_test(the_largest_page_that_both_addresses_and_the_run_allow_is_used),
        cmocka_unit_test(nvidia_maps_64k_and_4k_pages_under_one_directory_entry),
        cmocka_unit_test(intel_marks_aligned_64k_runs_alone),
        cmocka_unit_test(adjoining_ranges_are_mapped_as_one),
        cmocka_unit_test(pages_that_lie_apart_are_each_mapped_in_every_format),
        cmocka_unit_test(a_mapping_larger_than_caches_is_made_and_cleared_in_every_format),
        cmocka_unit_test(zeros_and_entries_end_where_a_mapping_does_in_tables_that_adjoin),
        cmocka_unit_test(own_memory_is_written_with_the_base_of_the_gpu),
        cmocka_unit_test(a_whole_run_of_a_table_is_one_write_and_a_new_table_is_written_once),
        cmocka_unit_test(a_table_is_complete_before_an_entry_points_at_it),
        cmocka_unit_test(an_address_maps_once),
        cmocka_unit_test(misuse_changes_nothing),
        cmocka_unit_test(addresses_that_entries_cannot_hold_are_refused),
        cmocka_unit_test(no_room_for_a_table_takes_and_writes_nothing),
        cmocka_unit_test(an_empty_table_goes_back_only_after_a_confirmed_flush),
        cmocka_unit_test(mapping_flushes_once_and_needs_no_confirmation),
    };
    return cmocka_run_group_tests_name("page tables", tests, NULL, NULL);
}
