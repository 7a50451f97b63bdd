/* Page tables whose requests fail in the middle, or are cut short in another process. */
#include "fake_tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What the shadow calls certain is so by the bytes; what it calls unmapped leads nowhere. */
static void check_shadow(struct fake_rig *r, uint64_t at, uint64_t bytes)
{
    for (uint64_t k = 0; k < bytes; k += 4096) {
        struct rig_mapping m = rig_page_table_at(r->t, r->base + at + k);
        if (m.mapped && m.certain)
            fake_check(r, r->base + at + k, m.target, m.physical);
        else if (!m.mapped)
            assert_false(fake_end_at(r, at + k).mapped);
    }
}

#define CUT_AT (GIB - 68 * KIB)

static const struct rig_range cut_ranges[] = {
    {GIB, 64 * KIB}, {3 * GIB + 4096, 12 * KIB}, {4 * GIB, 2 * MIB}, {6 * GIB, 8 * KIB}};

#define CUT_BYTES (2 * MIB + 84 * KIB)

/* One request that fails at its k-th operation, and all that may follow. False: it has fewer. */
static bool cut_short(const struct rig_format *f, long k, long times, bool half, bool clearing)
{
    struct fake_rig r = fake_set_up(f);
    bool confirmed = false;
    assert_int_equal(fake_map(&r, CUT_AT + CUT_BYTES, OWN, 0, 8 * KIB), RIG_OK);
    if (clearing)
        assert_int_equal(rig_page_table_map(r.t, r.base + CUT_AT, OWN, cut_ranges, 4, NULL),
                         RIG_OK);
    r.g->fail_at = r.g->operations + k;
    r.g->fail_for = times;
    r.g->half_written = half;
    enum rig_status status;
    if (clearing)
        status = rig_page_table_unmap(r.t, r.base + CUT_AT, CUT_BYTES, &confirmed, NULL);
    else
        status = rig_page_table_map(r.t, r.base + CUT_AT, OWN, cut_ranges, 4, NULL);
    r.g->fail_at = -1;
    check_shadow(&r, CUT_AT, CUT_BYTES);
    fake_check(&r, r.base + CUT_AT + CUT_BYTES, OWN, 0);
    assert_int_equal(status == RIG_OK || status == RIG_FAILED, true);
    if (status == RIG_OK) {
        fake_tear_down(&r);
        return false;
    }
    int used = r.g->used;
    /* It is cleared and mapped again, as an adopting map_peer would. */
    r.g->watch = true;
    fake_tables(r.g, true);
    assert_true(fake_unmap(&r, CUT_AT, CUT_BYTES));
    assert_true(r.g->used <= used);
    check_shadow(&r, CUT_AT, CUT_BYTES);
    assert_int_equal(rig_page_table_compare(r.t, r.base + CUT_AT, OWN, cut_ranges, 4),
                     RIG_MAPPED_NOT);
    assert_int_equal(rig_page_table_map(r.t, r.base + CUT_AT, OWN, cut_ranges, 4, NULL), RIG_OK);
    assert_int_equal(rig_page_table_compare(r.t, r.base + CUT_AT, OWN, cut_ranges, 4),
                     RIG_MAPPED_WHOLE);
    check_shadow(&r, CUT_AT, CUT_BYTES);
    assert_true(fake_unmap(&r, CUT_AT, CUT_BYTES + 8 * KIB));
    assert_int_equal(fake_tables(r.g, false) <= r.g->used, true);
    if (!clearing)
        assert_int_equal(r.g->used, 1);
    fake_tear_down(&r);
    return true;
}

static void a_request_that_fails_at_any_operation_leaves_what_the_shadow_says(void **state)
{
    (void)state;
    for (int i = 0; i < rig_format_count(); i++)
        for (int shape = 0; shape < 8; shape++) {
            long k = 0;
            while (cut_short(rig_format_at(i), k, shape & 1 ? 0 : 1000000, shape & 2, shape & 4))
                k++;
            assert_true(k >= 4);
        }
}

static void a_cut_mapping_is_told_from_a_whole_one_and_from_another(void **state)
{
    (void)state;
    struct fake_rig r = fake_set_up(rig_format_named("plain", 0, 0));
    struct rig_range ranges[] = {{GIB, 8 * KIB}, {3 * GIB, 4 * MIB}};
    struct rig_target cached = SYSTEM;
    cached.uncached = false;
    assert_int_equal(rig_page_table_compare(r.t, r.base, SYSTEM, ranges, 2), RIG_MAPPED_NOT);
    assert_int_equal(rig_page_table_map(r.t, r.base, SYSTEM, ranges, 1, NULL), RIG_OK);
    assert_int_equal(rig_page_table_compare(r.t, r.base, SYSTEM, ranges, 1), RIG_MAPPED_WHOLE);
    assert_int_equal(rig_page_table_compare(r.t, r.base, SYSTEM, ranges, 2), RIG_MAPPED_PART);
    assert_int_equal(rig_page_table_compare(r.t, r.base, cached, ranges, 1), RIG_MAPPED_PART);
    assert_int_equal(rig_page_table_compare(r.t, r.base, OWN, ranges, 1), RIG_MAPPED_OTHER);
    assert_int_equal(rig_page_table_compare(r.t, r.base, SYSTEM, ranges + 1, 1), RIG_MAPPED_OTHER);
    ranges[0].address += 4096;
    assert_int_equal(rig_page_table_compare(r.t, r.base, SYSTEM, ranges, 1), RIG_MAPPED_OTHER);
    /* A write that failed. */
    r.g->fail_at = r.g->operations + 3;
    assert_int_equal(fake_map(&r, GIB, SYSTEM, GIB, 8 * KIB), RIG_FAILED);
    r.g->fail_at = -1;
    struct rig_range cut = {GIB, 8 * KIB};
    assert_int_equal(rig_page_table_compare(r.t, r.base + GIB, SYSTEM, &cut, 1), RIG_MAPPED_PART);
    fake_tear_down(&r);
}

/* ---------- another process goes on */

struct saved {
    struct rig_saved_table table[64];
    size_t count;
};

static enum rig_status keep(void *to, const struct rig_saved_table *table)
{
    struct saved *s = to;
    assert_true(s->count < RIG_ARRAY_LENGTH(s->table));
    s->table[s->count++] = *table;
    return RIG_OK;
}

static struct rig_page_table *load_tables(struct fake_rig *r, const struct saved *s)
{
    struct rig_page_table *t;
    assert_int_equal(
        rig_page_table_load(r->g->f, r->g->own_base, &fake_ops, r->g, &s->table[0], &t, NULL),
        RIG_OK);
    for (size_t i = 1; i < s->count; i++)
        assert_int_equal(rig_page_table_load_table(t, &s->table[i], NULL), RIG_OK);
    return t;
}

static void a_page_table_goes_on_in_another_process(void **state)
{
    (void)state;
    for (int i = 0; i < rig_format_count(); i++) {
        struct fake_rig r = fake_set_up(rig_format_at(i));
        struct saved s = {.count = 0};
        assert_int_equal(rig_page_table_map(r.t, r.base + CUT_AT, OWN, cut_ranges, 4, NULL),
                         RIG_OK);
        assert_int_equal(fake_map(&r, 5 * GIB, OWN, 4096, 4096), RIG_OK);
        r.g->confirms = false;
        assert_false(fake_unmap(&r, 5 * GIB, 4096));
        r.g->confirms = true;
        assert_int_equal(rig_page_table_save(r.t, keep, &s), RIG_OK);
        rig_page_table_drop(r.t);
        long operations = r.g->operations;
        r.t = load_tables(&r, &s);
        assert_int_equal(rig_page_table_load_map(r.t, r.base + CUT_AT, OWN, cut_ranges, 4, NULL),
                         RIG_OK);
        assert_int_equal(r.g->operations, operations);
        assert_int_equal(rig_page_table_compare(r.t, r.base + CUT_AT, OWN, cut_ranges, 4),
                         RIG_MAPPED_WHOLE);
        check_shadow(&r, CUT_AT, CUT_BYTES);
        /* What an unconfirmed flush kept is kept, and used again. */
        int used = r.g->used;
        assert_int_equal(fake_map(&r, 5 * GIB, OWN, 4096, 4096), RIG_OK);
        assert_int_equal(r.g->used, used);
        fake_check(&r, r.base + 5 * GIB, OWN, 4096);
        assert_true(fake_unmap(&r, 5 * GIB, 4096));
        assert_true(fake_unmap(&r, CUT_AT, CUT_BYTES));
        assert_true(r.g->used > 1);
        assert_false(fake_end_at(&r, CUT_AT).mapped);
        fake_tear_down(&r);
    }
}

static void a_map_that_another_process_cut_short_is_supposed_with_the_same_tables(void **state)
{
    (void)state;
    for (int i = 0; i < rig_format_count(); i++)
        for (long k = 0; k < 12; k++) {
            struct fake_rig r = fake_set_up(rig_format_at(i));
            struct saved s = {.count = 0};
            assert_int_equal(rig_page_table_save(r.t, keep, &s), RIG_OK);
            r.g->fail_at = r.g->operations + k;
            r.g->fail_for = 1000;
            rig_page_table_map(r.t, r.base + CUT_AT, OWN, cut_ranges, 4, NULL);
            r.g->fail_at = -1;
            rig_page_table_drop(r.t);
            /* The other process's pages are forgotten, as its allocator's state is. */
            memset(r.g->taken + 1, 0, sizeof r.g->taken - sizeof r.g->taken[0]);
            r.g->used = 1;
            uint64_t *bytes[FAKE_PAGES];
            memcpy(bytes, r.g->page, sizeof bytes);
            uint64_t(*copy)[512] = calloc(16, sizeof *copy);
            assert_non_null(copy);
            for (int n = 0; n < 16; n++)
                if (bytes[n])
                    memcpy(copy[n], bytes[n], 4096);
            r.t = load_tables(&r, &s);
            assert_int_equal(rig_page_table_suppose(r.t, r.base + CUT_AT, OWN, cut_ranges, 4, NULL),
                             RIG_OK);
            for (int n = 0; n < 16; n++)
                if (bytes[n])
                    memcpy(bytes[n], copy[n], 4096);
            free(copy);
            assert_true(rig_page_table_at(r.t, r.base + CUT_AT).mapped);
            assert_false(rig_page_table_at(r.t, r.base + CUT_AT).certain);
            fake_tables(r.g, false);
            assert_true(fake_unmap(&r, CUT_AT, CUT_BYTES));
            assert_int_equal(r.g->used, 1);
            assert_int_equal(fake_tables(r.g, false), 1);
            assert_int_equal(rig_page_table_map(r.t, r.base + CUT_AT, OWN, cut_ranges, 4, NULL),
                             RIG_OK);
            check_shadow(&r, CUT_AT, CUT_BYTES);
            fake_tear_down(&r);
        }
}

static void an_unmap_that_another_process_cut_short_is_doubted_and_done_again(void **state)
{
    (void)state;
    for (int i = 0; i < rig_format_count(); i++)
        for (long k = 0; k < 10; k++) {
            struct fake_rig r = fake_set_up(rig_format_at(i));
            struct saved s = {.count = 0};
            bool confirmed;
            assert_int_equal(rig_page_table_map(r.t, r.base + CUT_AT, OWN, cut_ranges, 4, NULL),
                             RIG_OK);
            assert_int_equal(fake_map(&r, 3 * GIB, OWN, 0, 8 * KIB), RIG_OK);
            assert_int_equal(rig_page_table_save(r.t, keep, &s), RIG_OK);
            r.g->fail_at = r.g->operations + k;
            r.g->fail_for = 1000;
            enum rig_status status =
                rig_page_table_unmap(r.t, r.base + CUT_AT, CUT_BYTES, &confirmed, NULL);
            r.g->fail_at = -1;
            rig_page_table_drop(r.t);
            if (status == RIG_OK) {
                fake_free(r.g);
                break;
            }
            r.t = load_tables(&r, &s);
            struct rig_range other = {0, 8 * KIB};
            assert_int_equal(
                rig_page_table_load_map(r.t, r.base + CUT_AT, OWN, cut_ranges, 4, NULL), RIG_OK);
            assert_int_equal(rig_page_table_load_map(r.t, r.base + 3 * GIB, OWN, &other, 1, NULL),
                             RIG_OK);
            assert_int_equal(rig_page_table_doubt(r.t, r.base + CUT_AT, CUT_BYTES, NULL), RIG_OK);
            assert_int_equal(rig_page_table_compare(r.t, r.base + CUT_AT, OWN, cut_ranges, 4),
                             RIG_MAPPED_PART);
            assert_int_equal(rig_page_table_compare(r.t, r.base + 3 * GIB, OWN, &other, 1),
                             RIG_MAPPED_WHOLE);
            /* A mapping in a table that may have been cut off is reached all the same. */
            assert_int_equal(fake_map(&r, CUT_AT - 4 * KIB, OWN, 4096, 4096), RIG_OK);
            fake_check(&r, r.base + CUT_AT - 4 * KIB, OWN, 4096);
            assert_true(fake_unmap(&r, CUT_AT - 4 * KIB, CUT_BYTES + 4 * KIB));
            assert_true(fake_unmap(&r, 3 * GIB, 8 * KIB));
            assert_int_equal(r.g->used, 1);
            fake_tear_down(&r);
        }
}

static void saved_tables_that_contradict_are_refused(void **state)
{
    (void)state;
    struct fake_rig r = fake_set_up(rig_format_named("nv-mmu-v2", 0, 0));
    struct rig_saved_table t = {.level = 1, .offset = 0x7001000};
    struct rig_page_table *loaded;
    assert_int_equal(rig_page_table_load_table(r.t, &t, NULL), RIG_OK);
    assert_int_equal(rig_page_table_load_table(r.t, &t, NULL), RIG_BAD_INPUT);
    t = (struct rig_saved_table){.level = 6, .offset = 0x7002000};
    assert_int_equal(rig_page_table_load_table(r.t, &t, NULL), RIG_BAD_INPUT);
    t.level = 0;
    assert_int_equal(rig_page_table_load_table(r.t, &t, NULL), RIG_BAD_INPUT);
    t.level = 3;
    assert_int_equal(rig_page_table_load_table(r.t, &t, NULL), RIG_BAD_INPUT);
    t.level = 2;
    t.offset += 8;
    assert_int_equal(rig_page_table_load_table(r.t, &t, NULL), RIG_BAD_INPUT);
    t.offset -= 8;
    t.address = 4096;
    assert_int_equal(rig_page_table_load_table(r.t, &t, NULL), RIG_BAD_INPUT);
    t.address = UINT64_C(1) << 49;
    assert_int_equal(rig_page_table_load_table(r.t, &t, NULL), RIG_BAD_INPUT);
    assert_int_equal(rig_page_table_load(r.g->f, 0, &fake_ops, r.g, &t, &loaded, NULL),
                     RIG_BAD_INPUT);
    struct rig_range range = {0, 4096};
    assert_int_equal(rig_page_table_load_map(r.t, r.base, OWN, &range, 1, NULL), RIG_BAD_INPUT);
    /* Two tables of 256 bytes in one place. */
    t = (struct rig_saved_table){.level = 2, .offset = 0x7002000};
    assert_int_equal(rig_page_table_load_table(r.t, &t, NULL), RIG_OK);
    t = (struct rig_saved_table){.level = 3, .offset = 0x7003000};
    assert_int_equal(rig_page_table_load_table(r.t, &t, NULL), RIG_OK);
    t = (struct rig_saved_table){.level = 4, .offset = 0x7004100};
    assert_int_equal(rig_page_table_load_table(r.t, &t, NULL), RIG_OK);
    t.address = 2 * MIB;
    assert_int_equal(rig_page_table_load_table(r.t, &t, NULL), RIG_BAD_INPUT);
    t.offset = 0x7004200;
    assert_int_equal(rig_page_table_load_table(r.t, &t, NULL), RIG_OK);
    fake_tear_down(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_that_fails_at_any_operation_leaves_what_the_shadow_says),
        cmocka_unit_test(a_cut_mapping_is_told_from_a_whole_one_and_from_another),
        cmocka_unit_test(a_page_table_goes_on_in_another_process),
        cmocka_unit_test(a_map_that_another_process_cut_short_is_supposed_with_the_same_tables),
        cmocka_unit_test(an_unmap_that_another_process_cut_short_is_doubted_and_done_again),
        cmocka_unit_test(saved_tables_that_contradict_are_refused),
    };
    return cmocka_run_group_tests_name("page tables cut short", tests, NULL, NULL);
}
