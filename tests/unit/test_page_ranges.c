/* The loops over many ranges, against what the ranges come to one by one. */
#include "gpu/page_ranges.h"

#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 1500

static uint64_t next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void check(const struct rig_range *r, size_t n)
{
    struct page_extent extent, plain = {.bytes = 0};
    uint64_t run = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t last = r[i].address + r[i].bytes - 1;
        bool joins = i > 0 && r[i - 1].address + r[i - 1].bytes == r[i].address;
        run = joins ? run + r[i].bytes : r[i].bytes;
        plain.bytes += r[i].bytes;
        plain.last = last > plain.last ? last : plain.last;
        plain.largest = run > plain.largest ? run : plain.largest;
    }
    assert_true(ranges_measure(r, n, &extent));
    assert_int_equal(extent.bytes, plain.bytes);
    assert_int_equal(extent.last, plain.last);
    assert_int_equal(extent.largest, plain.largest);
}

/* One in `apart` ranges does not begin where the one before it ends: never, seldom, mostly. */
static void what_ranges_come_to_is_what_each_adds(void **state)
{
    static const uint64_t aparts[] = {UINT64_MAX, 700, 30, 2, 1};
    static struct rig_range r[MOST];
    uint64_t seed = 7;
    (void)state;
    for (int turn = 0; turn < 400; turn++) {
        size_t n = 1 + next(&seed) % MOST;
        uint64_t apart = aparts[(size_t)turn % RIG_ARRAY_LENGTH(aparts)], most = turn & 8 ? 1 : 9;
        uint64_t at = UINT64_C(1) << 40;
        for (size_t i = 0; i < n; i++) {
            r[i] = (struct rig_range){at, (1 + next(&seed) % most) << 12};
            at += r[i].bytes;
            if (next(&seed) % apart == 0)
                at = (next(&seed) % (UINT64_C(1) << 36)) << 12;
        }
        check(r, n);
        bool single = most == 1;
        for (size_t i = 1; i < n; i++)
            single = single && r[i].address != r[i - 1].address + r[i - 1].bytes;
        assert_int_equal(ranges_single(r, n, 4096), single);
        assert_false(ranges_single(r, n, 8192) && most == 1);
    }
}

static void ranges_that_are_no_pages_or_wrap_are_told(void **state)
{
    static const struct rig_range wrong[] = {
        {4096, 0}, {4096, 4095}, {4095, 4096}, {0xfffffffffffff000, 8192}, {0, UINT64_MAX}};
    struct rig_range r[300];
    struct page_extent extent;
    (void)state;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(r); i++)
        r[i] = (struct rig_range){(i * 7) << 12, 4096};
    assert_false(ranges_measure(r, 0, &extent));
    for (size_t w = 0; w < RIG_ARRAY_LENGTH(wrong); w++)
        for (size_t i = 0; i < RIG_ARRAY_LENGTH(r); i += 13) {
            struct rig_range kept = r[i];
            r[i] = wrong[w];
            assert_false(ranges_measure(r, RIG_ARRAY_LENGTH(r), &extent));
            r[i] = kept;
        }
    /* The last page of all addresses is one like any other, and 2^64 bytes are too many. */
    r[299] = (struct rig_range){0xfffffffffffff000, 4096};
    check(r, RIG_ARRAY_LENGTH(r));
    for (size_t i = 0; i < 256; i++)
        r[i] = (struct rig_range){0, UINT64_C(1) << 56};
    assert_false(ranges_measure(r, 256, &extent));
    assert_true(ranges_measure(r, 255, &extent));
    assert_int_equal(extent.bytes, UINT64_C(255) << 56);
}

static void ranges_are_spread_over_keys_and_words(void **state)
{
    static struct rig_range r[MOST];
    static uint64_t keys[MOST + 1], words[MOST + 1];
    (void)state;
    for (size_t i = 0; i < MOST; i++)
        r[i] = (struct rig_range){(i * 40503 % 65536) << 12, 4096};
    for (size_t n = 1; n <= MOST; n += n < 70 ? 1 : 333)
        for (int stores = 0; stores < 2; stores++) {
            memset(keys, 0xee, sizeof keys);
            memset(words, 0xee, sizeof words);
            ranges_spread(r, n, 5, keys, 0x60, 4, stores ? words : NULL);
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(keys[i], r[i].address | 5);
                assert_int_equal(words[i], stores ? htole64(0x60 + (r[i].address >> 4))
                                                  : UINT64_C(0xeeeeeeeeeeeeeeee));
            }
            assert_int_equal(keys[n], UINT64_C(0xeeeeeeeeeeeeeeee));
            assert_int_equal(words[n], UINT64_C(0xeeeeeeeeeeeeeeee));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_ranges_come_to_is_what_each_adds),
        cmocka_unit_test(ranges_that_are_no_pages_or_wrap_are_told),
        cmocka_unit_test(ranges_are_spread_over_keys_and_words),
    };
    return cmocka_run_group_tests_name("page ranges", tests, NULL, NULL);
}
