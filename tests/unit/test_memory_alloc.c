/* What allocations and borrowed memory are: kinds, rounding, addresses, windows, and outcomes. */
#include "rigs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)

static int open_two(void **state)
{
    struct rig *r = calloc(1, sizeof *r);
    rig_open(r, NULL, 2);
    *state = r;
    return 0;
}

static int close_it(void **state)
{
    rig_close(*state);
    free(*state);
    return 0;
}

static void gpu_memory_is_reached_by_its_gpu_and_not_by_the_process(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, KIB(8));
    struct rig_pages pages;
    struct rig_host host;
    assert_int_equal(rig_region_pages(g, &pages, NULL), RIG_OK);
    assert_int_equal(pages.target, RIG_TARGET_GPU);
    assert_int_equal(pages.count, 1);
    assert_int_equal(pages.ranges[0].bytes, KIB(8));
    assert_false(rig_region_host(g, &host));
    uint8_t byte = 0x5a;
    assert_int_equal(twin_memory_write(r->machine, function_at(r->machine->topology, "03:00.0"),
                                       pages.ranges[0].address + KIB(4), &byte, 1, NULL),
                     RIG_OK);
    assert_true(rig_reads(r, 0, rig_region_address(g) + KIB(4), 0x5a));
    assert_true(rig_faults(r, 1, rig_region_address(g)));
    rig_pages_free(&pages);
    rig_free(r, g);
    assert_true(rig_faults(r, 0, rig_region_address(g)));
}

static void a_peer_reaches_what_it_maps_at_the_same_address(void **state)
{
    struct rig *r = *state;
    static const enum rig_kind kinds[] = {RIG_KIND_GPU, RIG_KIND_BAR, RIG_KIND_HOST};
    struct rig_held before = rig_held(r);
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(kinds); i++) {
        struct rig_region g = rig_alloc(r, 0, kinds[i], KIB(64));
        struct rig_region p = rig_map_peer(r, 1, g);
        rig_gpu_address at = rig_region_address(g);
        assert_int_equal(rig_region_address(p), at);
        rig_gpu_write(r, 1, at + 5, (uint8_t)(0x40 + i));
        assert_true(rig_reads(r, 0, at + 5, (uint8_t)(0x40 + i)));
        rig_free(r, g);
        assert_true(rig_faults(r, 0, at));
        assert_true(rig_reads(r, 1, at + 5, (uint8_t)(0x40 + i)));
        rig_free(r, p);
        assert_true(rig_faults(r, 1, at));
        rig_free(r, rig_alloc(r, 0, RIG_KIND_GPU, KIB(4)));
    }
    rig_same(before, rig_held(r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gpu_memory_is_reached_by_its_gpu_and_not_by_the_process,
                                        open_two, close_it),
        cmocka_unit_test_setup_teardown(a_peer_reaches_what_it_maps_at_the_same_address, open_two,
                                        close_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
