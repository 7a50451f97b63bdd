/* The range allocator, held to a plain model: an array with an entry a unit. */
#include "base/ranges_holes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define UNIT 4096U
#define UNITS_MOST 20000

/* block[i] is 0 where unit i is free, else the number of the block it belongs to. */
struct model {
    uint64_t base;
    uint32_t units;
    uint32_t last;
    uint32_t block[UNITS_MOST];
};

static uint64_t seed;

static uint64_t rnd(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed >> 11) % below;
}

/* A size from 1 to `most` units, small ones as likely as large ones. */
static uint64_t rnd_size(uint64_t most)
{
    return 1 + rnd(1 + rnd(1 + rnd(most)));
}

static struct rig_ranges *made(uint64_t base, uint64_t units)
{
    struct rig_ranges *r = NULL;
    assert_int_equal(rig_ranges_make(base, units * UNIT, UNIT, &r, NULL), RIG_OK);
    return r;
}

static struct model *model_made(uint64_t base, uint32_t units)
{
    struct model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->base = base;
    m->units = units;
    return m;
}

static void model_take(struct model *m, uint64_t address, uint64_t bytes)
{
    m->last++;
    for (uint64_t i = (address - m->base) / UNIT, n = bytes / UNIT; n; n--, i++) {
        assert_true(i < m->units);
        assert_int_equal(m->block[i], 0);
        m->block[i] = m->last;
    }
}

/* The units of the block, or of the free range, from unit i on. */
static uint32_t run(const struct model *m, uint32_t i)
{
    uint32_t n = 1;
    while (i + n < m->units && m->block[i + n] == m->block[i])
        n++;
    return n;
}

static void model_give(struct model *m, uint32_t i)
{
    memset(&m->block[i], 0, run(m, i) * sizeof m->block[0]);
}

/* What is asked for in units; below 0: no bound. */
struct ask {
    uint64_t n, align, from, below;
};

/* Where a block fits into [at, at + n) within the bounds, or UINT64_MAX. */
static uint64_t fit(const struct model *m, const struct ask *a, uint64_t at, uint64_t n)
{
    uint64_t end = a->below && a->below < at + n ? a->below : at + n;
    uint64_t found = UINT64_MAX;
    for (uint64_t i = at < a->from ? a->from : at; i + a->n <= end; i++)
        if ((m->base / UNIT + i) % a->align == 0 &&
            (found == UINT64_MAX || (a->n >= 512 && a->n < 8192)))
            found = i;
    return found;
}

/* The unit that the header's rule gives, for fewer than 64 free ranges, or UINT64_MAX: of the free
   ranges that begin within the bounds the smallest that fits, the lowest of equals; else the one
   that reaches over the lower bound. */
static uint64_t best(const struct model *m, const struct ask *a)
{
    uint64_t found = UINT64_MAX, size = UINT64_MAX, across = UINT64_MAX;
    for (uint32_t i = 0; i < m->units; i += run(m, i)) {
        uint64_t at = m->block[i] ? UINT64_MAX : fit(m, a, i, run(m, i));
        if (at == UINT64_MAX)
            continue;
        if (i < a->from)
            across = at;
        else if (run(m, i) < size)
            size = run(m, i), found = at;
    }
    return found == UINT64_MAX ? across : found;
}

/* Both structures of the allocator tell the model's free ranges and blocks, in order, no more. */
static void check(const struct rig_ranges *r, const struct model *m)
{
    uint64_t holes = 0, free_units = 0, blocks = 0, largest = 0, address = 0, taken = 0;
    for (uint32_t i = 0; i < m->units; i += run(m, i)) {
        struct rig_range range;
        bool is_free = m->block[i] == 0;
        assert_true((is_free ? rig_ranges_next_free
                             : rig_ranges_next_block)(r, is_free ? address : taken, &range));
        assert_int_equal(range.address, m->base + (uint64_t)i * UNIT);
        assert_int_equal(range.bytes, (uint64_t)run(m, i) * UNIT);
        *(is_free ? &address : &taken) = range.address + 1;
        holes += is_free;
        blocks += !is_free;
        free_units += is_free ? run(m, i) : 0;
        largest = is_free && run(m, i) > largest ? run(m, i) : largest;
    }
    struct rig_range none;
    assert_false(rig_ranges_next_free(r, holes ? address : 0, &none));
    assert_false(rig_ranges_next_block(r, blocks ? taken : 0, &none));
    assert_int_equal(rig_ranges_free_bytes(r), free_units * UNIT);
    assert_int_equal(rig_ranges_blocks(r), blocks);
    assert_int_equal(rig_ranges_largest(r), largest * UNIT);
    struct rig_hole before = {0, 0};
    struct rig_hole_place at, again;
    bool there = rig_holes_find(&r->holes, 0, 0, &at);
    for (; there; holes--) {
        struct rig_hole hole = hole_at(&at);
        assert_true(hole.units > before.units ||
                    (hole.units == before.units && hole.at > before.at));
        assert_int_equal(m->block[hole.at], 0);
        assert_int_equal(run(m, (uint32_t)hole.at), hole.units);
        assert_true(hole.at == 0 || m->block[hole.at - 1] != 0);
        assert_true(
            rig_holes_find(&r->holes, before.units, before.at + (before.units > 0), &again));
        assert_int_equal(hole_at(&again).at, hole.at);
        before = hole;
        there = rig_holes_next(&r->holes, hole, &at);
    }
    assert_int_equal(holes, 0);
}

static struct ask rnd_ask(const struct model *m)
{
    struct ask a = {.n = rnd_size(m->units / 8 + 1), .align = 1};
    if (rnd(2))
        a.align = UINT64_C(1) << rnd(11);
    if (rnd(4) == 0)
        a.from = rnd(m->units + 5);
    if (rnd(4) == 0)
        a.below = 1 + rnd(m->units + 5);
    return a;
}

/* The address of a unit, or `other` where that is beyond the last address. */
static uint64_t address_of(const struct model *m, uint64_t unit, uint64_t other)
{
    uint64_t address;
    return rig_add(m->base, unit * UNIT, &address) ? address : other;
}

static void take_one(struct rig_ranges *r, struct model *m, bool exact)
{
    struct ask a = rnd_ask(m);
    struct rig_ranges_want want = {.bytes = a.n * UNIT, .align = a.align * UNIT};
    want.from = a.from ? address_of(m, a.from, UINT64_MAX) : rnd(m->base + 1);
    if (a.from && want.from != UINT64_MAX)
        want.from -= rnd(UNIT);
    want.below = a.below ? address_of(m, a.below, 0) : 0;
    uint64_t address = 1, expect = best(m, &a);
    enum rig_status status = rig_ranges_take(r, &want, &address, NULL);
    if (expect == UINT64_MAX) {
        assert_int_equal(status, RIG_NO_ROOM);
        assert_int_equal(address, 1);
        return;
    }
    assert_int_equal(status, RIG_OK);
    if (exact || (a.align == 1 && !a.from && !a.below))
        assert_int_equal(address, m->base + expect * UNIT);
    assert_int_equal(address % (a.align * UNIT), 0);
    assert_true(address >= want.from);
    assert_true(want.below == 0 || address + want.bytes <= want.below);
    model_take(m, address, want.bytes);
}

static void take_several(struct rig_ranges *r, struct model *m)
{
    uint64_t bytes = rnd_size(m->units / 2) * UNIT, sum = 0;
    uint64_t align = UNIT << rnd(8), is_free = rig_ranges_free_bytes(r);
    struct rig_range *v = NULL;
    size_t n = 0;
    enum rig_status status = rig_ranges_take_several(r, bytes, align, &v, &n, NULL);
    assert_int_equal(status, bytes <= is_free ? RIG_OK : RIG_NO_ROOM);
    bool aligned = true;
    for (size_t i = 0; i < n; i++) {
        model_take(m, v[i].address, v[i].bytes);
        if (aligned && i + 1 < n && v[i].address % align == 0)
            aligned = v[i].bytes % align == 0;
        else
            aligned = aligned && v[i].address % align == 0;
        sum += v[i].bytes;
    }
    assert_int_equal(sum, status == RIG_OK ? bytes : 0);
    free(v);
}

static void take_at(struct rig_ranges *r, struct model *m)
{
    uint64_t at = rnd(m->units), n = rnd_size(m->units - at);
    bool is_free = true;
    for (uint64_t i = at; i < at + n; i++)
        is_free = is_free && m->block[i] == 0;
    enum rig_status status = rig_ranges_take_at(r, m->base + at * UNIT, n * UNIT, NULL);
    assert_int_equal(status, is_free ? RIG_OK : RIG_NO_ROOM);
    if (is_free)
        model_take(m, m->base + at * UNIT, n * UNIT);
}

static void give_one(struct rig_ranges *r, struct model *m)
{
    uint32_t i = (uint32_t)rnd(m->units);
    while (i && m->block[i - 1] == m->block[i])
        i--;
    uint64_t address = m->base + (uint64_t)i * UNIT, bytes = (uint64_t)run(m, i) * UNIT;
    if (m->block[i] == 0) {
        assert_int_equal(rig_ranges_give(r, address, bytes, NULL), RIG_INVALID);
        return;
    }
    assert_int_equal(rig_ranges_give(r, address, bytes + UNIT, NULL), RIG_INVALID);
    assert_int_equal(rig_ranges_give(r, address, bytes - UNIT, NULL), RIG_INVALID);
    assert_int_equal(rig_ranges_give(r, address + UNIT, bytes - UNIT, NULL), RIG_INVALID);
    assert_int_equal(rig_ranges_give(r, address, bytes, NULL), RIG_OK);
    model_give(m, i);
}

/* Random operations; `exact` where there are too few free ranges for the search to give up on
   one. */
static void play(struct rig_ranges *r, struct model *m, int steps, bool exact, int every)
{
    for (int k = 0; k < steps; k++) {
        uint64_t what = rnd(16);
        if (what < 6)
            take_one(r, m, exact);
        else if (what == 6)
            take_several(r, m);
        else if (what == 7)
            take_at(r, m);
        else
            give_one(r, m);
        if (k % every == 0)
            check(r, m);
    }
    check(r, m);
}

static void random_operations_agree_with_the_model(void **state)
{
    (void)state;
    static const uint64_t bases[] = {0, 0x5000, UINT64_C(0x200000000000), 0 - 120 * UINT64_C(4096)};
    for (uint32_t k = 0; k < 24; k++) {
        seed = 77 + k;
        struct model *m = model_made(bases[k % 4], 120);
        struct rig_ranges *r = made(m->base, m->units);
        play(r, m, 3000, true, 1);
        rig_ranges_drop(r);
        free(m);
    }
}

static void random_operations_agree_with_the_model_across_chunks(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < 4; k++) {
        seed = 977 + k;
        struct model *m = model_made(0x123000, k % 2 ? UNITS_MOST : 8193);
        struct rig_ranges *r = made(m->base, m->units);
        play(r, m, 3000, false, 500);
        rig_ranges_drop(r);
        free(m);
    }
}

/* Single units taken and given at random: most holes are of one size, and their tree is deep. */
static void many_holes_of_one_size_agree_with_the_model(void **state)
{
    (void)state;
    seed = 4711;
    struct model *m = model_made(0, UNITS_MOST);
    struct rig_ranges *r = made(0, m->units);
    struct rig_ranges_want one = {.bytes = UNIT};
    uint64_t address;
    for (uint32_t i = 0; i < m->units; i++) {
        assert_int_equal(rig_ranges_take(r, &one, &address, NULL), RIG_OK);
        assert_int_equal(address, (uint64_t)i * UNIT);
        model_take(m, address, UNIT);
    }
    assert_int_equal(rig_ranges_take(r, &one, &address, NULL), RIG_NO_ROOM);
    for (uint32_t round = 0; round < 6; round++) {
        for (uint32_t i = 0; i < m->units; i += 2)
            if (m->block[i] && rnd(8) < 6) {
                assert_int_equal(rig_ranges_give(r, (uint64_t)i * UNIT, UNIT, NULL), RIG_OK);
                model_give(m, i);
            }
        check(r, m);
        for (uint32_t i = 0; i < m->units / (2 + round % 2); i++)
            if (rig_ranges_take(r, &one, &address, NULL) == RIG_OK)
                model_take(m, address, UNIT);
        check(r, m);
    }
    rig_ranges_drop(r);
    free(m);
}

/* An allocator with the model's free addresses, all else other: taken in random order, and taken
   neighbours as one block. */
static struct rig_ranges *other_history(const struct model *m)
{
    struct rig_ranges *r = made(m->base, m->units);
    uint32_t *at = calloc(m->units, sizeof *at), n = 0;
    assert_non_null(at);
    for (uint32_t i = 0; i < m->units; i++)
        if (m->block[i] && (i == 0 || !m->block[i - 1]))
            at[n++] = i;
    while (n) {
        uint32_t k = (uint32_t)rnd(n), end = at[k];
        while (end < m->units && m->block[end])
            end++;
        assert_int_equal(rig_ranges_take_at(r, m->base + (uint64_t)at[k] * UNIT,
                                            (uint64_t)(end - at[k]) * UNIT, NULL),
                         RIG_OK);
        at[k] = at[--n];
    }
    free(at);
    return r;
}

static void answers_depend_only_on_which_addresses_are_free(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < 12; k++) {
        seed = 31 + k;
        struct model *m = model_made(0x7000, k % 3 ? 500 : 12000);
        struct rig_ranges *a = made(m->base, m->units);
        play(a, m, 1500, false, 1500);
        struct rig_ranges *b = other_history(m);
        for (int i = 0; i < 300; i++) {
            struct ask ask = rnd_ask(m);
            struct rig_ranges_want want = {ask.n * UNIT, ask.align * UNIT,
                                           ask.from ? address_of(m, ask.from, UINT64_MAX) : 0,
                                           ask.below ? address_of(m, ask.below, 0) : 0};
            uint64_t x = 1, y = 1;
            assert_int_equal(rig_ranges_take(a, &want, &x, NULL),
                             rig_ranges_take(b, &want, &y, NULL));
            assert_int_equal(x, y);
            struct rig_range *v = NULL, *w = NULL;
            size_t n = 0, l = 0;
            assert_int_equal(rig_ranges_take_several(a, want.bytes, want.align, &v, &n, NULL),
                             rig_ranges_take_several(b, want.bytes, want.align, &w, &l, NULL));
            assert_int_equal(n, l);
            for (; n && rnd(3); n--) {
                assert_int_equal(v[n - 1].address, w[n - 1].address);
                rig_ranges_give(a, v[n - 1].address, v[n - 1].bytes, NULL);
                rig_ranges_give(b, w[n - 1].address, w[n - 1].bytes, NULL);
            }
            free(v);
            free(w);
        }
        rig_ranges_drop(a);
        rig_ranges_drop(b);
        free(m);
    }
}

static void the_smallest_free_range_that_fits_is_used(void **state)
{
    (void)state;
    struct rig_ranges *r = made(0, 100);
    /* free: 0-9 (10), 20-24 (5), 30-34 (5), 40-99 (60) */
    assert_int_equal(rig_ranges_take_at(r, 10 * UNIT, 10 * UNIT, NULL), RIG_OK);
    assert_int_equal(rig_ranges_take_at(r, 25 * UNIT, 5 * UNIT, NULL), RIG_OK);
    assert_int_equal(rig_ranges_take_at(r, 35 * UNIT, 5 * UNIT, NULL), RIG_OK);
    struct rig_ranges_want want = {.bytes = 4 * UNIT};
    uint64_t address;
    assert_int_equal(rig_ranges_take(r, &want, &address, NULL), RIG_OK);
    assert_int_equal(address, 20 * UNIT);
    want.bytes = 6 * UNIT;
    assert_int_equal(rig_ranges_take(r, &want, &address, NULL), RIG_OK);
    assert_int_equal(address, 0);
    want = (struct rig_ranges_want){.bytes = 4 * UNIT, .align = 16 * UNIT};
    assert_int_equal(rig_ranges_take(r, &want, &address, NULL), RIG_OK);
    assert_int_equal(address, 48 * UNIT);
    want = (struct rig_ranges_want){.bytes = 4 * UNIT, .from = 31 * UNIT, .below = 35 * UNIT};
    assert_int_equal(rig_ranges_take(r, &want, &address, NULL), RIG_OK);
    assert_int_equal(address, 31 * UNIT);
    assert_int_equal(rig_ranges_take(r, &want, &address, NULL), RIG_NO_ROOM);
    rig_ranges_drop(r);
}

static void several_ranges_are_refused_only_when_the_bytes_are_too_few(void **state)
{
    (void)state;
    struct rig_ranges *r = made(0, 1000);
    for (uint32_t i = 1; i < 1000; i += 2)
        assert_int_equal(rig_ranges_take_at(r, (uint64_t)i * UNIT, UNIT, NULL), RIG_OK);
    struct rig_range *v = NULL;
    size_t n = 0;
    assert_int_equal(rig_ranges_take_several(r, 501 * UNIT, 0, &v, &n, NULL), RIG_NO_ROOM);
    assert_null(v);
    assert_int_equal(rig_ranges_take_several(r, 500 * UNIT, 2 * UNIT, &v, &n, NULL), RIG_OK);
    assert_int_equal(n, 500);
    assert_int_equal(rig_ranges_free_bytes(r), 0);
    assert_int_equal(rig_ranges_largest(r), 0);
    free(v);
    rig_ranges_drop(r);
}

static void several_ranges_are_aligned_while_a_free_range_allows(void **state)
{
    (void)state;
    struct rig_ranges *r = made(0, 4096);
    assert_int_equal(rig_ranges_take_at(r, 1500 * UNIT, UNIT, NULL), RIG_OK);
    assert_int_equal(rig_ranges_take_at(r, 2600 * UNIT, UNIT, NULL), RIG_OK);
    /* free: 0-1499, 1501-2599, 2601-4095; aligned to 512: 0-1023, 1536-2559, 3072-4095 */
    struct rig_range *v = NULL;
    size_t n = 0;
    assert_int_equal(rig_ranges_take_several(r, 3072 * UNIT, 512 * UNIT, &v, &n, NULL), RIG_OK);
    assert_int_equal(n, 3);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(v[i].address % (512 * UNIT), 0);
        assert_int_equal(v[i].bytes, 1024 * UNIT);
    }
    free(v);
    rig_ranges_drop(r);
}

static void misuse_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct rig_ranges *r = NULL;
    static const struct {
        uint64_t base, bytes, unit;
    } bad[] = {
        {0, 4096, 0},
        {0, 4096, 3},
        {0, 0, 4096},
        {1, 4096, 4096},
        {0, 4097, 4096},
        {0 - UINT64_C(4096), 8192, 4096},
        {0, (RIG_RANGES_UNITS_MAX + 1) * 4096, 4096},
        {0, UINT64_C(1) << 63, 1},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(bad); i++) {
        struct rig_error err = {0};
        assert_int_equal(rig_ranges_make(bad[i].base, bad[i].bytes, bad[i].unit, &r, &err),
                         RIG_INVALID);
        assert_int_not_equal(err.why[0], 0);
        assert_null(r);
    }
    r = made(8 * UNIT, 8);
    static const struct rig_ranges_want wrong[] = {
        {0, 0, 0, 0}, {1, 0, 0, 0}, {UNIT + 1, 0, 0, 0}, {UNIT, 3, 0, 0}, {UNIT, 3 * UNIT, 0, 0},
    };
    uint64_t address = 1;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(wrong); i++) {
        struct rig_range *v = NULL;
        size_t n = 0;
        assert_int_equal(rig_ranges_take(r, &wrong[i], &address, NULL), RIG_INVALID);
        assert_int_equal(rig_ranges_take_several(r, wrong[i].bytes, wrong[i].align, &v, &n, NULL),
                         RIG_INVALID);
    }
    static const struct rig_range outside[] = {
        {7 * UNIT, UNIT},
        {7 * UNIT, 2 * UNIT},
        {15 * UNIT, 2 * UNIT},
        {16 * UNIT, UNIT},
        {8 * UNIT, 0},
        {8 * UNIT + 1, UNIT},
        {8 * UNIT, UNIT + 1},
        {8 * UNIT, 9 * UNIT},
        {8 * UNIT, 0 - (uint64_t)UNIT},
        {0, UNIT},
        {0 - (uint64_t)UNIT, UNIT},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(outside); i++) {
        assert_int_equal(rig_ranges_take_at(r, outside[i].address, outside[i].bytes, NULL),
                         RIG_INVALID);
        assert_int_equal(rig_ranges_give(r, outside[i].address, outside[i].bytes, NULL),
                         RIG_INVALID);
    }
    assert_int_equal(rig_ranges_take_at(r, 10 * UNIT, 2 * UNIT, NULL), RIG_OK);
    assert_int_equal(rig_ranges_give(r, 10 * UNIT, 2 * UNIT, NULL), RIG_OK);
    assert_int_equal(rig_ranges_give(r, 10 * UNIT, 2 * UNIT, NULL), RIG_INVALID);
    assert_int_equal(rig_ranges_largest(r), 8 * UNIT);
    rig_ranges_drop(r);
    rig_ranges_drop(NULL);
}

static void addresses_up_to_the_last_one_are_managed(void **state)
{
    (void)state;
    uint64_t base = 0 - UINT64_C(16) * UNIT, address;
    struct rig_ranges *r = made(base, 16);
    struct rig_ranges_want want = {.bytes = UNIT, .from = 0 - (uint64_t)UNIT};
    assert_int_equal(rig_ranges_take(r, &want, &address, NULL), RIG_OK);
    assert_int_equal(address, 0 - (uint64_t)UNIT);
    want = (struct rig_ranges_want){.bytes = UNIT, .align = UINT64_C(1) << 63};
    assert_int_equal(rig_ranges_take(r, &want, &address, NULL), RIG_NO_ROOM);
    want = (struct rig_ranges_want){.bytes = 0 - (uint64_t)UNIT, .align = UINT64_C(1) << 63};
    assert_int_equal(rig_ranges_take(r, &want, &address, NULL), RIG_NO_ROOM);
    want = (struct rig_ranges_want){.bytes = UNIT, .from = UINT64_MAX};
    assert_int_equal(rig_ranges_take(r, &want, &address, NULL), RIG_NO_ROOM);
    want = (struct rig_ranges_want){.bytes = UNIT, .from = base + UNIT, .below = base + UNIT};
    assert_int_equal(rig_ranges_take(r, &want, &address, NULL), RIG_NO_ROOM);
    want = (struct rig_ranges_want){.bytes = UNIT, .below = base};
    assert_int_equal(rig_ranges_take(r, &want, &address, NULL), RIG_NO_ROOM);
    want = (struct rig_ranges_want){.bytes = UNIT, .below = 1};
    assert_int_equal(rig_ranges_take(r, &want, &address, NULL), RIG_NO_ROOM);
    assert_int_equal(rig_ranges_free_bytes(r), 15 * UNIT);
    struct rig_range range;
    assert_true(rig_ranges_next_block(r, base, &range));
    assert_int_equal(range.address + range.bytes, 0);
    assert_false(rig_ranges_next_free(r, UINT64_MAX, &range));
    rig_ranges_drop(r);
}

/* The most units, of one byte and of one page: all sizes of holes have a place. */
static void the_largest_range_is_managed(void **state)
{
    (void)state;
    for (uint64_t unit = 1; unit <= 4096; unit *= 4096) {
        struct rig_ranges *r = NULL;
        uint64_t address, bytes = RIG_RANGES_UNITS_MAX * unit;
        assert_int_equal(rig_ranges_make(bytes, bytes, unit, &r, NULL), RIG_OK);
        assert_int_equal(rig_ranges_largest(r), bytes);
        assert_int_equal(rig_ranges_take_at(r, 2 * bytes - unit, unit, NULL), RIG_OK);
        assert_int_equal(rig_ranges_largest(r), bytes - unit);
        struct rig_ranges_want want = {.bytes = bytes / 2 + unit, .align = bytes};
        assert_int_equal(rig_ranges_take(r, &want, &address, NULL), RIG_OK);
        assert_int_equal(address, bytes);
        assert_int_equal(rig_ranges_give(r, 2 * bytes - unit, unit, NULL), RIG_OK);
        assert_int_equal(rig_ranges_give(r, bytes, want.bytes, NULL), RIG_OK);
        assert_int_equal(rig_ranges_largest(r), bytes);
        rig_ranges_drop(r);
    }
}

/* ---------- memory that runs out */

static long calls_left; /* until the source fails; negative: never */

static void *failing(size_t count, size_t bytes)
{
    if (calls_left == 0)
        return NULL;
    calls_left--;
    return calloc(count, bytes);
}

static void a_make_that_memory_fails_leaves_nothing(void **state)
{
    (void)state;
    struct rig_ranges *r = NULL;
    long k = 0;
    for (;; k++) {
        calls_left = k;
        enum rig_status status = rig_ranges_make_from(failing, 0, 64 * UNIT, UNIT, &r, NULL);
        if (status == RIG_OK)
            break;
        assert_int_equal(status, RIG_FAILED);
        assert_null(r);
    }
    assert_in_range(k, 3, 20);
    rig_ranges_drop(r);
}

/* Any one request, with memory failing at its k-th piece for every k, fails whole. */
static void a_request_that_memory_fails_changes_nothing(void **state)
{
    (void)state;
    seed = 99;
    struct model *m = model_made(0, UNITS_MOST);
    struct rig_ranges *r = NULL;
    calls_left = -1;
    assert_int_equal(rig_ranges_make_from(failing, 0, UNITS_MOST * UNIT, UNIT, &r, NULL), RIG_OK);
    long failed = 0;
    for (int step = 0; step < 1500; step++) {
        struct rig_ranges_want want = {.bytes = rnd_size(300) * UNIT};
        uint64_t kind = rnd(8), at = rnd(m->units - 300) * UNIT, address = at;
        enum rig_status status = RIG_FAILED;
        struct rig_range *v = NULL;
        size_t n = 0;
        for (long k = 0; status == RIG_FAILED; k++) {
            calls_left = k;
            if (kind < 4)
                status = rig_ranges_take(r, &want, &address, NULL);
            else if (kind < 7)
                status = rig_ranges_take_at(r, address, want.bytes, NULL);
            else
                status = rig_ranges_take_several(r, want.bytes * 20, 0, &v, &n, NULL);
            failed += status == RIG_FAILED;
            if (status == RIG_FAILED && step % 50 == 0)
                check(r, m);
        }
        if (status == RIG_OK && kind < 7)
            model_take(m, address, want.bytes);
        for (size_t i = 0; i < n; i++)
            model_take(m, v[i].address, v[i].bytes);
        free(v);
        calls_left = 0;
        for (int i = 0; i < 2; i++)
            give_one(r, m);
    }
    check(r, m);
    assert_true(failed > 100);
    rig_ranges_drop(r);
    free(m);
}

static void giving_back_needs_no_memory(void **state)
{
    (void)state;
    struct rig_ranges *r = NULL;
    calls_left = -1;
    assert_int_equal(rig_ranges_make_from(failing, 0, UINT64_C(1) << 40, UNIT, &r, NULL), RIG_OK);
    enum { BLOCKS = 6000 };
    static struct rig_range block[BLOCKS];
    uint64_t at = 0;
    seed = 5;
    /* Gaps and blocks of every class of sizes, so that what comes free lands in each. */
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = (struct rig_range){at, ((i % 3 ? 1 + (uint64_t)i % 2 : 1 + rnd(20000))) * UNIT};
        assert_int_equal(rig_ranges_take_at(r, block[i].address, block[i].bytes, NULL), RIG_OK);
        at += block[i].bytes + (rnd(4) ? 0 : rnd(900) * UNIT);
    }
    calls_left = 0;
    for (int n = BLOCKS; n; n--) {
        int k = (int)rnd((uint64_t)n);
        assert_int_equal(rig_ranges_give(r, block[k].address, block[k].bytes, NULL), RIG_OK);
        block[k] = block[n - 1];
    }
    assert_int_equal(rig_ranges_largest(r), UINT64_C(1) << 40);
    rig_ranges_drop(r);
}

/* Every other block first: more holes there cannot be. Blocks of one size, or of a class each as
   far as there are classes; side by side, or with a hole at every fourth. */
static void give_every_other(bool alike, bool gaps)
{
    struct rig_ranges *r = NULL;
    calls_left = -1;
    assert_int_equal(rig_ranges_make_from(failing, 0, UINT64_C(1) << 44, UNIT, &r, NULL), RIG_OK);
    enum { BLOCKS = 8001 };
    static struct rig_range block[BLOCKS];
    uint64_t at = 0;
    for (int i = 0; i < BLOCKS; i++) {
        uint64_t units = alike ? 1 : 1 + ((uint64_t)(16 + i % 16) << i / 16 % 18);
        block[i] = (struct rig_range){at, units * UNIT};
        assert_int_equal(rig_ranges_take_at(r, at, block[i].bytes, NULL), RIG_OK);
        at += block[i].bytes + (gaps && i % 4 == 3 ? units * UNIT : 0);
    }
    calls_left = 0;
    for (int odd = 1; odd >= 0; odd--)
        for (int i = odd; i < BLOCKS; i += 2)
            assert_int_equal(rig_ranges_give(r, block[i].address, block[i].bytes, NULL), RIG_OK);
    assert_int_equal(rig_ranges_largest(r), UINT64_C(1) << 44);
    rig_ranges_drop(r);
}

static void giving_every_other_block_back_needs_no_memory(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        give_every_other((i & 1) != 0, (i & 2) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations_agree_with_the_model),
        cmocka_unit_test(random_operations_agree_with_the_model_across_chunks),
        cmocka_unit_test(many_holes_of_one_size_agree_with_the_model),
        cmocka_unit_test(answers_depend_only_on_which_addresses_are_free),
        cmocka_unit_test(the_smallest_free_range_that_fits_is_used),
        cmocka_unit_test(several_ranges_are_refused_only_when_the_bytes_are_too_few),
        cmocka_unit_test(several_ranges_are_aligned_while_a_free_range_allows),
        cmocka_unit_test(misuse_is_refused_and_changes_nothing),
        cmocka_unit_test(addresses_up_to_the_last_one_are_managed),
        cmocka_unit_test(the_largest_range_is_managed),
        cmocka_unit_test(a_make_that_memory_fails_leaves_nothing),
        cmocka_unit_test(a_request_that_memory_fails_changes_nothing),
        cmocka_unit_test(giving_back_needs_no_memory),
        cmocka_unit_test(giving_every_other_block_back_needs_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
