/* Give-backs that are cut short at any step: what was given back is others' to have, what was not
   is nobody's, and the next attempt goes on. */
#include "rigs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STEPS_MAX 16

/* What gpu0 holds when it is released: system memory, borrowed memory, and a window on its BAR. */
struct holder {
    struct rig r;
    struct rig_region region[4];
    rig_gpu_address address[4];
};

static void hold_all(struct holder *h)
{
    rig_open(&h->r, NULL, 3);
    h->region[0] = rig_alloc(&h->r, 0, RIG_KIND_HOST, KIB(12));
    h->region[1] = rig_alloc(&h->r, 0, RIG_KIND_HOST, KIB(4));
    h->region[2] = rig_alloc(&h->r, 0, RIG_KIND_BAR, KIB(8));
    struct rig_host host;
    assert_true(rig_region_host(h->region[0], &host));
    assert_int_equal(
        rig_memory_map_host(h->r.m[0], host.memory, host.bytes, &h->region[3], &h->r.err), RIG_OK);
    for (int i = 0; i < 4; i++)
        h->address[i] = rig_region_address(h->region[i]);
}

/* Releases gpu0 with the step cut short; false where the release has fewer. */
static bool cut(struct holder *h, uint64_t step)
{
    twin_arm(h->r.machine, TWIN_FAULT_CUT, TWIN_STEP_ANY, step);
    enum rig_status status = rig_memory_release(h->r.m[0], NULL);
    bool fired = twin_fired(h->r.machine);
    twin_arm(h->r.machine, TWIN_FAULT_NONE, TWIN_STEP_ANY, 0);
    assert_int_equal(status, fired ? RIG_FAILED : RIG_OK);
    assert_int_equal(rig_device_life(h->r.device[0]),
                     fired ? RIG_LIFE_RELEASING : RIG_LIFE_STOPPED);
    assert_false(device_masters(h->r.device[0]));
    return fired;
}

/* Views of the tables and of the BAR memory, a pin, two allocations, and the claim, which holds no
   addresses, are the steps of this give-back. */
static void another_gpus_memory_never_meets_what_a_cut_give_back_left(void **state)
{
    (void)state;
    uint64_t step = 1;
    for (bool fired = true; fired; step++) {
        struct holder h;
        hold_all(&h);
        fired = cut(&h, step);
        bool left = rig_held_blocks(h.r.gpus) > 0;
        assert_true(left == (fired && step < 6));
        for (int i = 0; i < 6; i++) {
            struct rig_region a = rig_alloc(&h.r, 1, RIG_KIND_HOST, i % 2 ? KIB(4) : KIB(12));
            memset((void *)(uintptr_t)rig_region_address(a), 0x5a, KIB(4));
            assert_true(rig_reads(&h.r, 1, rig_region_address(a), 0x5a));
            for (int k = 0; k < 4 && left; k++)
                assert_true(rig_region_address(a) != h.address[k]);
        }
        rig_close(&h.r);
    }
    assert_int_equal(step - 2, 6);
}

static void a_cut_give_back_goes_on_at_a_release_a_take_or_when_releases_are_finished(void **state)
{
    (void)state;
    for (uint64_t step = 1; step <= 6; step++)
        for (int how = 0; how < 3; how++) {
            struct holder h;
            hold_all(&h);
            assert_true(cut(&h, step));
            /* A cut claim is all that is left at the last step; before it, all addresses are. */
            assert_int_equal(rig_held_blocks(h.r.gpus), step < 6 ? 4 : 0);
            if (how == 0)
                assert_int_equal(rig_memory_release(h.r.m[0], NULL), RIG_OK);
            else if (how == 1)
                rig_gpus_finish_releases(h.r.gpus);
            else
                rig_take(&h.r, 0, NULL);
            assert_int_equal(rig_held_blocks(h.r.gpus), 0);
            /* The lowest addresses are free again. */
            struct rig_region a = rig_alloc(&h.r, how == 2 ? 0 : 1, RIG_KIND_HOST, KIB(12));
            assert_true(rig_region_address(a) == h.address[0]);
            rig_close(&h.r);
        }
}

static void regions_that_are_out_can_be_freed_while_the_give_back_is_cut_short(void **state)
{
    (void)state;
    for (uint64_t step = 1; step <= 6; step++) {
        struct holder h;
        hold_all(&h);
        assert_true(cut(&h, step));
        uint64_t blocks = rig_held_blocks(h.r.gpus);
        for (int i = 0; i < 4; i++)
            rig_free(&h.r, h.region[i]);
        assert_int_equal(rig_held_blocks(h.r.gpus), blocks);
        rig_gpus_finish_releases(h.r.gpus);
        assert_int_equal(rig_held_blocks(h.r.gpus), 0);
        for (int i = 0; i < 4; i++)
            rig_invalid(&h.r, rig_memory_free(h.r.m[0], h.region[i], &h.r.err), "freed");
        rig_close(&h.r);
    }
}

/* A region that was freed before, and kept, says why it is kept. */
static void what_a_cut_give_back_left_is_explained(void **state)
{
    (void)state;
    struct holder h;
    hold_all(&h);
    twin_set_flush(h.r.machine, rig_number(&h.r, rig_gpu_names[0]), TWIN_FLUSH_NEVER);
    rig_free(&h.r, h.region[1]);
    assert_true(rig_kept(h.region[1], "may still reach it"));
    assert_true(cut(&h, 1));
    assert_true(rig_kept(h.region[1], "its function's give-back was cut short"));
    struct rig_device *dev;
    twin_arm(h.r.machine, TWIN_FAULT_CUT, TWIN_STEP_ANY, 1);
    rig_refused(&h.r, rig_device_take(h.r.machine, rig_gpu_names[0], &dev, &h.r.err),
                rig_gpu_names[0], "its release is not finished");
    rig_gpus_finish_releases(h.r.gpus);
    assert_false(rig_kept(h.region[1], ""));
    rig_close(&h.r);
}

/* The owner's give-back is cut: what a peer holds of the memory is the peer's, and goes on. */
static void peers_go_on_beside_an_owner_whose_give_back_is_cut_short(void **state)
{
    (void)state;
    for (uint64_t step = 1; step <= 6; step++) {
        struct holder h;
        hold_all(&h);
        rig_gpu_write(&h.r, 0, h.address[0], 0x33);
        struct rig_region p = rig_map_peer(&h.r, 1, h.region[0]);
        struct rig_region q = rig_map_peer(&h.r, 2, p);
        assert_true(cut(&h, step));
        assert_true(rig_reads(&h.r, 1, h.address[0], 0x33));
        rig_free(&h.r, p);
        assert_true(rig_reads(&h.r, 2, h.address[0], 0x33));
        rig_gpus_finish_releases(h.r.gpus);
        assert_true(rig_reads(&h.r, 2, h.address[0], 0x33));
        assert_int_equal(rig_held_blocks(h.r.gpus), 1);
        rig_free(&h.r, q);
        assert_int_equal(rig_held_blocks(h.r.gpus), 0);
        rig_close(&h.r);
    }
}

/* The last peer's free ends the owner's stay; that end is cut short. */
static void a_give_back_cut_after_it_was_kept_is_not_taken_for_one_that_masters(void **state)
{
    (void)state;
    struct holder h;
    hold_all(&h);
    struct rig_region p = rig_map_peer(&h.r, 1, h.region[2]);
    assert_int_equal(rig_memory_release(h.r.m[0], NULL), RIG_OK);
    assert_int_equal(rig_device_life(h.r.device[0]), RIG_LIFE_KEPT);
    twin_arm(h.r.machine, TWIN_FAULT_CUT, TWIN_STEP_RELEASE, 1);
    rig_free(&h.r, p);
    assert_true(twin_fired(h.r.machine));
    assert_int_equal(rig_device_life(h.r.device[0]), RIG_LIFE_RELEASING);
    assert_false(device_masters(h.r.device[0]));
    assert_int_equal(rig_memory_release(h.r.m[0], NULL), RIG_OK);
    assert_int_equal(rig_device_life(h.r.device[0]), RIG_LIFE_STOPPED);
    rig_close(&h.r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_gpus_memory_never_meets_what_a_cut_give_back_left),
        cmocka_unit_test(a_cut_give_back_goes_on_at_a_release_a_take_or_when_releases_are_finished),
        cmocka_unit_test(regions_that_are_out_can_be_freed_while_the_give_back_is_cut_short),
        cmocka_unit_test(what_a_cut_give_back_left_is_explained),
        cmocka_unit_test(peers_go_on_beside_an_owner_whose_give_back_is_cut_short),
        cmocka_unit_test(a_give_back_cut_after_it_was_kept_is_not_taken_for_one_that_masters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
