/* The function layer: lives, uses, holds, keeps, give-backs, on a twin. */
#include "builder.h"
#include "fixture_tree.h"
#include "space.h"

#include "machine/functions.h"
#include "machine/twin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define ONE "0000:03:00.0"
#define TWO "0000:04:00.0"
#define SYSTEM (UINT64_C(8) << 30)
#define SPACE TEST_SPACE

static struct rig_machine *open_machine(void)
{
    struct rig_topology *t = build_machine("00:01.0 rp 01-04\n"
                                           "01:00.0 up 02-04\n"
                                           "02:00.0 down 03-03\n"
                                           "02:01.0 down 04-04\n"
                                           "03:00.0 ep gpu=64/32\n"
                                           "04:00.0 ep gpu=16/16\n",
                                           "AMD:25");
    struct rig_machine *m;
    assert_int_equal(rig_twin_open(t, NULL, &m, NULL), RIG_OK);
    rig_topology_free(t);
    return m;
}

static struct rig_device *take(struct rig_machine *m, const char *name)
{
    struct rig_device *dev;
    struct rig_error err = {.status = RIG_OK};
    if (rig_device_take(m, name, &dev, &err) != RIG_OK)
        fail_msg("%s: %s", err.what, err.why);
    return dev;
}

static struct device_hold *alloc(struct rig_device *dev, uint64_t bytes)
{
    struct device_hold *hold;
    assert_int_equal(device_alloc(dev, bytes, 0, false, &hold, NULL), RIG_OK);
    return hold;
}

static struct device_hold *pin(struct rig_device *dev, const void *memory, uint64_t bytes)
{
    struct device_hold *hold;
    assert_int_equal(device_pin(dev, (uint64_t)(uintptr_t)memory, bytes, &hold, NULL), RIG_OK);
    return hold;
}

static struct twin_audit audit(struct rig_machine *m)
{
    struct twin_audit a;
    twin_audit(m, &a);
    return a;
}

static uint32_t command(struct rig_machine *m, int function)
{
    return twin_config_read(m, function, 4, 2);
}

static void close_machine(struct rig_machine *m)
{
    assert_int_equal(rig_machine_close(m, NULL), RIG_OK);
}

/* A callback that counts its calls and looks whether the function still masters the bus. */
struct called {
    struct rig_device *dev;
    int times, done;
    bool mastered;
    bool early; /* it was done before all went, or before it began */
};

static void on_give_back(void *context, enum give_back_stage stage)
{
    struct called *c = context;
    struct rig_machine *m = device_machine(c->dev);
    c->mastered = c->mastered || (command(m, device_function(c->dev)) & 4) != 0;
    if (stage == GIVE_BACK_BEGINS) {
        c->times++;
        return;
    }
    struct twin_audit held;
    twin_audit(m, &held);
    c->early = c->early || c->times == 0 || held.grants + held.pins + held.views > 0;
    c->done++;
}

/* ---- taking */

static void a_take_starts_a_life_and_a_second_one_is_refused_naming_the_holder(void **state)
{
    (void)state;
    struct rig_machine *m = open_machine();
    struct rig_device *dev = take(m, ONE), *again = NULL;
    assert_int_equal(rig_device_life(dev), RIG_LIFE_TAKEN);
    assert_true(device_masters(dev));
    struct rig_error err = {.status = RIG_OK};
    assert_int_equal(rig_device_take(m, ONE, &again, &err), RIG_REFUSED);
    assert_string_equal(err.what, ONE);
    assert_string_equal(err.why, "this session has it");
    assert_string_equal(err.hint, "release it first");
    assert_null(again);
    close_machine(m);
}

static void bridges_and_strangers_are_not_taken(void **state)
{
    (void)state;
    struct rig_machine *m = open_machine();
    struct rig_device *dev = NULL;
    assert_int_equal(rig_device_take(m, "02:00.0", &dev, NULL), RIG_REFUSED);
    assert_int_equal(rig_device_take(m, "7f:00.0", &dev, NULL), RIG_INVALID);
    assert_int_equal(rig_device_take(m, "nonsense", &dev, NULL), RIG_INVALID);
    twin_set_gone(m, function_at(rig_machine_topology(m), ONE));
    assert_int_equal(rig_device_take(m, ONE, &dev, NULL), RIG_FAILED);
    assert_null(dev);
    assert_int_equal(audit(m).taken, 0);
    close_machine(m);
}

static void a_take_that_is_refused_leaves_the_function_to_the_next(void **state)
{
    (void)state;
    struct rig_machine *m = open_machine();
    struct rig_device *dev = NULL;
    twin_arm(m, TWIN_FAULT_REFUSE, TWIN_STEP_TAKE, 1);
    assert_int_equal(rig_device_take(m, ONE, &dev, NULL), RIG_REFUSED);
    assert_null(machine_device(m, function_at(rig_machine_topology(m), ONE)));
    dev = take(m, ONE);
    assert_ptr_equal(machine_device(m, device_function(dev)), dev);
    close_machine(m);
}

/* ---- releasing */

static void release_turns_mastering_off_first_and_gives_everything_back(void **state)
{
    (void)state;
    struct rig_machine *m = open_machine();
    struct rig_device *dev = take(m, ONE);
    assert_int_equal(rig_device_set_master(dev, true, NULL), RIG_OK);
    struct device_hold *memory = alloc(dev, 10000);
    struct device_hold *counted = pin(dev, memory->grant.memory, 4096);
    struct rig_view *view;
    assert_int_equal(device_map_bar(dev, 0, 0, 4096, false, &view, NULL), RIG_OK);
    struct called c = {.dev = dev};
    assert_int_equal(device_on_give_back(dev, on_give_back, &c, NULL), RIG_OK);
    assert_int_equal(rig_device_release(dev, NULL), RIG_OK);
    assert_int_equal(rig_device_life(dev), RIG_LIFE_STOPPED);
    assert_int_equal(command(m, device_function(dev)) & 4, 0);
    assert_int_equal(c.times, 1);
    assert_false(c.mastered);
    assert_true(device_gave_back(dev));
    struct twin_audit a = audit(m);
    assert_int_equal(a.free_bytes, SYSTEM);
    assert_int_equal(a.grants + a.pins + a.views + a.taken, 0);
    /* What its makers still name gives back nothing more. */
    uint32_t word = 0;
    view_read(view, 0, &word, sizeof word);
    assert_int_equal(word, 0xffffffff);
    assert_int_equal(device_unmap(dev, view, NULL), RIG_OK);
    assert_int_equal(device_unpin(dev, counted, NULL), RIG_OK);
    assert_int_equal(device_free(dev, memory, NULL), RIG_OK);
    assert_int_equal(rig_device_release(dev, NULL), RIG_OK);
    assert_int_equal(c.times, 1);
    close_machine(m);
}

static void requests_on_a_released_function_are_misuse(void **state)
{
    (void)state;
    struct rig_machine *m = open_machine();
    struct rig_device *dev = take(m, ONE);
    assert_int_equal(rig_device_release(dev, NULL), RIG_OK);
    struct device_hold *hold = NULL;
    struct rig_view *view = NULL;
    assert_int_equal(device_alloc(dev, 4096, 0, false, &hold, NULL), RIG_INVALID);
    assert_int_equal(device_pin(dev, 4096, 4096, &hold, NULL), RIG_INVALID);
    assert_int_equal(device_map_bar(dev, 0, 0, 4096, false, &view, NULL), RIG_INVALID);
    assert_int_equal(device_use(dev, NULL), RIG_INVALID);
    assert_int_equal(device_reset(dev, NULL), RIG_INVALID);
    assert_int_equal(rig_device_set_master(dev, true, NULL), RIG_INVALID);
    device_config_write(dev, 4, 2, 4);
    assert_int_equal(command(m, device_function(dev)) & 4, 0);
    struct rig_device *again = take(m, ONE);
    assert_true(again != dev);
    assert_int_equal(rig_device_life(dev), RIG_LIFE_STOPPED);
    close_machine(m);
}

static void a_release_during_a_use_masters_no_more_at_once_and_gives_back_at_its_end(void **state)
{
    (void)state;
    struct rig_machine *m = open_machine();
    struct rig_device *dev = take(m, ONE);
    assert_int_equal(rig_device_set_master(dev, true, NULL), RIG_OK);
    struct device_hold *memory = alloc(dev, 4096), *late = NULL;
    assert_int_equal(device_use(dev, NULL), RIG_OK);
    assert_int_equal(device_use(dev, NULL), RIG_OK);
    assert_int_equal(rig_device_release(dev, NULL), RIG_OK);
    assert_int_equal(rig_device_life(dev), RIG_LIFE_RELEASING);
    assert_int_equal(command(m, device_function(dev)) & 4, 0);
    assert_int_equal(audit(m).grants, 1);
    /* A step of the request that is under way fails there. */
    assert_int_equal(device_alloc(dev, 4096, 0, false, &late, NULL), RIG_INVALID);
    device_unuse(dev);
    assert_int_equal(rig_device_life(dev), RIG_LIFE_RELEASING);
    device_unuse(dev);
    assert_int_equal(rig_device_life(dev), RIG_LIFE_STOPPED);
    assert_int_equal(audit(m).grants, 0);
    assert_int_equal(device_free(dev, memory, NULL), RIG_OK);
    close_machine(m);
}

static void all_ones_read_back_are_no_proof_of_off(void **state)
{
    (void)state;
    struct rig_machine *m = open_machine();
    struct rig_device *dev = take(m, ONE);
    struct device_hold *memory = alloc(dev, 4096), *freed = alloc(dev, 4096);
    twin_set_gone(m, device_function(dev));
    struct rig_error err = {.status = RIG_OK};
    assert_int_equal(rig_device_release(dev, &err), RIG_FAILED);
    assert_string_equal(err.why, "it may still master the bus: its command register reads 0xffff");
    assert_int_equal(rig_device_life(dev), RIG_LIFE_RELEASED);
    assert_true(device_masters(dev));
    assert_int_equal(audit(m).grants, 2);
    /* A free meanwhile gives back nothing, since the function may still write there. */
    assert_int_equal(device_free(dev, freed, NULL), RIG_OK);
    assert_int_equal(audit(m).grants, 2);
    machine_finish_releases(m);
    assert_int_equal(rig_device_life(dev), RIG_LIFE_RELEASED);
    rig_error_clear(&err);
    struct rig_device *again;
    assert_int_equal(rig_device_take(m, ONE, &again, &err), RIG_REFUSED);
    assert_string_equal(err.why, "it was released and may still master the bus");
    /* A machine that failed for good masters nothing any more. */
    twin_set_failed(m);
    assert_int_equal(rig_device_release(dev, NULL), RIG_OK);
    assert_int_equal(rig_device_life(dev), RIG_LIFE_STOPPED);
    assert_int_equal(audit(m).grants, 0);
    assert_int_equal(device_free(dev, memory, NULL), RIG_OK);
    close_machine(m);
}

static void a_give_back_that_is_cut_short_goes_on_at_every_step_it_can_be_cut_at(void **state)
{
    (void)state;
    for (uint64_t step = 1; step <= 6; step++) {
        struct rig_machine *m = open_machine();
        struct rig_device *dev = take(m, ONE);
        struct device_hold *a = alloc(dev, 4096), *b = alloc(dev, 8192);
        struct device_hold *p = pin(dev, a->grant.memory, 4096);
        struct rig_view *view;
        assert_int_equal(device_map_bar(dev, 0, 0, 4096, true, &view, NULL), RIG_OK);
        struct called c = {.dev = dev};
        assert_int_equal(device_on_give_back(dev, on_give_back, &c, NULL), RIG_OK);
        twin_arm(m, TWIN_FAULT_CUT, TWIN_STEP_ANY, step);
        enum rig_status status = rig_device_release(dev, NULL);
        /* Unmap, unpin, two frees, the claim: five steps. */
        assert_int_equal(status, step <= 5 ? RIG_FAILED : RIG_OK);
        assert_int_equal(rig_device_life(dev), step <= 5 ? RIG_LIFE_RELEASING : RIG_LIFE_STOPPED);
        assert_int_equal(c.done, step <= 4 ? 0 : 1);
        machine_finish_releases(m);
        assert_int_equal(rig_device_life(dev), RIG_LIFE_STOPPED);
        assert_int_equal(c.times, 1);
        assert_int_equal(c.done, 1);
        assert_false(c.early);
        assert_int_equal(audit(m).free_bytes, SYSTEM);
        device_unmap(dev, view, NULL);
        device_free(dev, a, NULL);
        device_free(dev, b, NULL);
        device_unpin(dev, p, NULL);
        close_machine(m);
    }
}

/* ---- holds */

static void a_free_that_is_cut_short_leaves_the_memory_to_the_give_back(void **state)
{
    (void)state;
    struct rig_machine *m = open_machine();
    struct rig_device *dev = take(m, ONE);
    struct device_hold *memory = alloc(dev, 4096);
    twin_arm(m, TWIN_FAULT_CUT, TWIN_STEP_FREE, 1);
    assert_int_equal(device_free(dev, memory, NULL), RIG_FAILED);
    assert_int_equal(audit(m).grants, 1);
    device_abandon(dev, alloc(dev, 4096));
    assert_int_equal(audit(m).grants, 2);
    assert_int_equal(rig_device_release(dev, NULL), RIG_OK);
    assert_int_equal(audit(m).grants, 0);
    close_machine(m);
}

static void sizes_and_places_that_cannot_be_are_misuse(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, UINT64_MAX, UINT64_MAX - 4094};
    struct rig_machine *m = open_machine();
    struct rig_device *dev = take(m, ONE);
    struct device_hold *hold = NULL;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(sizes); i++) {
        assert_int_equal(device_alloc(dev, sizes[i], 0, false, &hold, NULL), RIG_INVALID);
        assert_int_equal(device_pin(dev, SPACE, sizes[i], &hold, NULL), RIG_INVALID);
    }
    assert_int_equal(device_alloc(dev, (2 << 20) + 1, 0, true, &hold, NULL), RIG_INVALID);
    assert_int_equal(device_alloc(dev, 4096, SPACE, false, &hold, NULL), RIG_INVALID);
    assert_int_equal(machine_reserve(m, SPACE, 1 << 20, NULL), RIG_OK);
    assert_int_equal(device_alloc(dev, 4096, SPACE + 1, false, &hold, NULL), RIG_INVALID);
    assert_int_equal(device_alloc(dev, 8192, SPACE + (1 << 20) - 4096, false, &hold, NULL),
                     RIG_INVALID);
    assert_int_equal(device_alloc(dev, 8192, SPACE + 4096, false, &hold, NULL), RIG_OK);
    struct device_hold *other = NULL;
    assert_int_equal(device_alloc(dev, 4096, SPACE + 8192, false, &other, NULL), RIG_INVALID);
    assert_int_equal(device_free(dev, hold, NULL), RIG_OK);
    assert_int_equal(device_alloc(dev, 4096, SPACE + 8192, false, &other, NULL), RIG_OK);
    assert_int_equal(machine_reserve(m, 0, 4096, NULL), RIG_INVALID);
    assert_int_equal(machine_reserve(m, SPACE + 4, 4096, NULL), RIG_INVALID);
    assert_int_equal(machine_reserve(m, UINT64_MAX - 4095, 8192, NULL), RIG_INVALID);
    assert_int_equal(device_free(dev, other, NULL), RIG_OK);
    close_machine(m);
}

static void a_pin_covers_the_pages_that_hold_the_bytes(void **state)
{
    (void)state;
    struct rig_machine *m = open_machine();
    struct rig_device *dev = take(m, ONE);
    struct device_hold *memory = alloc(dev, 3 * 4096);
    const uint8_t *bytes = memory->grant.memory;
    struct device_hold *p = pin(dev, bytes + 4095, 2);
    assert_int_equal(p->grant.bytes, 8192);
    assert_int_equal(p->grant.ranges[0].address, memory->grant.ranges[0].address);
    assert_int_equal(device_unpin(dev, p, NULL), RIG_OK);
    assert_int_equal(device_free(dev, memory, NULL), RIG_OK);
    close_machine(m);
}

static void memory_above_the_bits_of_a_function_is_refused_to_it(void **state)
{
    (void)state;
    struct rig_machine *m = open_machine();
    struct rig_device *one = take(m, ONE), *two = take(m, TWO);
    struct device_hold *hold = NULL, *memory = alloc(one, 4096);
    struct rig_error err = {.status = RIG_OK};
    device_set_dma_bits(two, 32);
    assert_int_equal(device_alloc(two, 4096, 0, false, &hold, &err), RIG_REFUSED);
    assert_non_null(strstr(err.why, "2^32"));
    assert_int_equal(device_pin(two, (uint64_t)(uintptr_t)memory->grant.memory, 1, &hold, NULL),
                     RIG_REFUSED);
    /* System memory is 4 GiB to 12 GiB: of 33 bits, the half below 8 GiB. */
    device_set_dma_bits(two, 33);
    assert_int_equal(device_alloc(two, UINT64_C(4) << 30, 0, false, &hold, NULL), RIG_NO_ROOM);
    assert_int_equal(device_alloc(two, (UINT64_C(4) << 30) - 4096, 0, false, &hold, NULL), RIG_OK);
    for (int i = 0; i < hold->grant.count; i++)
        assert_true((hold->grant.ranges[i].address + hold->grant.ranges[i].bytes - 1) >> 33 == 0);
    assert_int_equal(device_free(two, hold, NULL), RIG_OK);
    assert_int_equal(device_free(one, memory, NULL), RIG_OK);
    close_machine(m);
}

/* ---- views */

static void a_bar_has_one_mode_at_a_time_and_views_stay_within_it(void **state)
{
    (void)state;
    struct rig_machine *m = open_machine();
    struct rig_device *dev = take(m, ONE);
    const uint64_t bar = UINT64_C(32) << 20;
    struct rig_view *view, *other;
    assert_int_equal(device_map_bar(dev, 0, 0, bar + 4096, false, &view, NULL), RIG_INVALID);
    assert_int_equal(device_map_bar(dev, 0, bar, 4096, false, &view, NULL), RIG_INVALID);
    assert_int_equal(device_map_bar(dev, 0, 8, 4096, false, &view, NULL), RIG_INVALID);
    assert_int_equal(device_map_bar(dev, 0, 0, 0, false, &view, NULL), RIG_INVALID);
    assert_int_equal(device_map_bar(dev, 1, 0, 4096, false, &view, NULL), RIG_INVALID);
    assert_int_equal(device_map_bar(dev, -1, 0, 4096, false, &view, NULL), RIG_INVALID);
    assert_int_equal(device_map_bar(dev, 6, 0, 4096, false, &view, NULL), RIG_INVALID);
    assert_int_equal(device_map_bar(dev, 0, 0, bar, true, &view, NULL), RIG_OK);
    assert_int_equal(device_map_bar(dev, 0, 0, 4096, false, &other, NULL), RIG_INVALID);
    assert_int_equal(device_map_bar(dev, 0, 4096, 4096, true, &other, NULL), RIG_OK);
    assert_int_equal(device_unmap(dev, view, NULL), RIG_OK);
    assert_int_equal(device_map_bar(dev, 0, 0, 4096, false, &view, NULL), RIG_INVALID);
    assert_int_equal(device_unmap(dev, other, NULL), RIG_OK);
    assert_int_equal(device_map_bar(dev, 0, 0, 4096, false, &view, NULL), RIG_OK);
    assert_int_equal(device_unmap(dev, view, NULL), RIG_OK);
    close_machine(m);
}

static void the_first_view_turns_memory_decode_on(void **state)
{
    (void)state;
    struct rig_machine *m = open_machine();
    int function = function_at(rig_machine_topology(m), ONE);
    twin_config_write(m, function, 4, 2, 0);
    struct rig_device *dev = take(m, ONE);
    assert_int_equal(command(m, function) & 2, 0);
    struct rig_view *view;
    assert_int_equal(device_map_bar(dev, 0, 0, 4096, false, &view, NULL), RIG_OK);
    assert_int_equal(command(m, function) & 2, 2);
    assert_int_equal(device_unmap(dev, view, NULL), RIG_OK);
    close_machine(m);
}

/* ---- keeps */

static void kept_for_a_peer_it_gives_back_and_stays_taken_until_the_last_keep_ends(void **state)
{
    (void)state;
    struct rig_machine *m = open_machine();
    struct rig_device *one = take(m, ONE), *two = take(m, TWO), *again = NULL;
    struct device_hold *memory = alloc(one, 4096);
    int who = device_function(two);
    assert_int_equal(device_keep(one, DEVICE_KEEP_PEER, who, NULL), RIG_OK);
    assert_int_equal(device_keep(one, DEVICE_KEEP_PEER, who, NULL), RIG_OK);
    assert_int_equal(rig_device_release(one, NULL), RIG_OK);
    assert_int_equal(rig_device_life(one), RIG_LIFE_KEPT);
    assert_false(device_masters(one));
    assert_true(device_gave_back(one));
    assert_int_equal(audit(m).grants, 0);
    assert_int_equal(audit(m).taken, 2);
    struct rig_error err = {.status = RIG_OK};
    assert_int_equal(rig_device_take(m, ONE, &again, &err), RIG_REFUSED);
    assert_string_equal(err.why, "it is kept taken: " TWO " maps its memory");
    device_unkeep(one, who);
    assert_int_equal(rig_device_life(one), RIG_LIFE_KEPT);
    device_unkeep(one, who);
    assert_int_equal(rig_device_life(one), RIG_LIFE_STOPPED);
    assert_int_equal(device_free(one, memory, NULL), RIG_OK);
    take(m, ONE);
    close_machine(m);
}

static void a_release_that_a_cut_left_kept_ends_at_the_next_take(void **state)
{
    (void)state;
    struct rig_machine *m = open_machine();
    struct rig_device *one = take(m, ONE);
    assert_int_equal(device_keep(one, DEVICE_KEEP_PEER, 5, NULL), RIG_OK);
    assert_int_equal(rig_device_release(one, NULL), RIG_OK);
    twin_arm(m, TWIN_FAULT_CUT, TWIN_STEP_RELEASE, 1);
    device_unkeep(one, 5);
    /* Nobody keeps it, and it masters nothing: its release is just not finished. */
    assert_int_equal(rig_device_life(one), RIG_LIFE_RELEASING);
    assert_false(device_masters(one));
    take(m, ONE);
    assert_int_equal(rig_device_life(one), RIG_LIFE_STOPPED);
    close_machine(m);
}

static void kept_for_a_reservation_it_gives_back_one_by_one_and_never_ends(void **state)
{
    (void)state;
    struct rig_machine *m = open_machine();
    struct rig_device *one = take(m, ONE), *again = NULL;
    struct device_hold *reserved = alloc(one, 4096), *freed = alloc(one, 4096);
    struct device_hold *counted = pin(one, freed->grant.memory, 4096);
    struct called c = {.dev = one};
    assert_int_equal(device_on_give_back(one, on_give_back, &c, NULL), RIG_OK);
    assert_int_equal(device_keep(one, DEVICE_KEEP_RESERVED, 5, NULL), RIG_OK);
    assert_true(device_reserved(one));
    assert_int_equal(rig_device_release(one, NULL), RIG_OK);
    assert_int_equal(rig_device_life(one), RIG_LIFE_KEPT);
    assert_int_equal(c.times, 0);
    assert_int_equal(audit(m).grants, 2);
    assert_int_equal(device_unpin(one, counted, NULL), RIG_OK);
    assert_int_equal(device_free(one, freed, NULL), RIG_OK);
    assert_int_equal(audit(m).grants, 1);
    device_abandon(one, reserved);
    machine_finish_releases(m);
    assert_int_equal(rig_device_life(one), RIG_LIFE_KEPT);
    assert_int_equal(audit(m).grants, 1);
    struct rig_error err = {.status = RIG_OK};
    assert_int_equal(rig_device_take(m, ONE, &again, &err), RIG_REFUSED);
    assert_string_equal(err.why, "it is kept taken: its memory is reserved for 0000:04:00.0");
    close_machine(m);
}

static void what_was_freed_while_it_might_master_goes_back_when_it_does_no_more(void **state)
{
    (void)state;
    struct rig_machine *m = open_machine();
    struct rig_device *one = take(m, ONE);
    struct device_hold *memory = alloc(one, 4096), *kept = alloc(one, 4096);
    assert_int_equal(device_keep(one, DEVICE_KEEP_RESERVED, 5, NULL), RIG_OK);
    twin_set_gone(m, device_function(one));
    assert_int_equal(rig_device_release(one, NULL), RIG_FAILED);
    assert_int_equal(device_free(one, memory, NULL), RIG_OK);
    assert_int_equal(audit(m).grants, 2);
    twin_set_failed(m);
    machine_finish_releases(m);
    assert_int_equal(rig_device_life(one), RIG_LIFE_KEPT);
    assert_int_equal(audit(m).grants, 1);
    device_abandon(one, kept);
    close_machine(m);
}

/* Steps that grow with the square of the holds would be a thousand million here: seconds. */
static void what_was_freed_goes_back_in_time_whatever_else_is_held(void **state)
{
    (void)state;
    enum { EACH = 40000 };
    static struct device_hold *freed[EACH];
    struct rig_machine *m = open_machine();
    struct rig_device *one = take(m, ONE);
    struct device_hold *memory = alloc(one, 4096);
    for (int i = 0; i < EACH; i++)
        freed[i] = pin(one, memory->grant.memory, 4096);
    for (int i = 0; i < EACH; i++)
        device_abandon(one, pin(one, memory->grant.memory, 4096));
    assert_int_equal(device_keep(one, DEVICE_KEEP_RESERVED, 5, NULL), RIG_OK);
    twin_set_gone(m, device_function(one));
    assert_int_equal(rig_device_release(one, NULL), RIG_FAILED);
    for (int i = 0; i < EACH; i++)
        assert_int_equal(device_unpin(one, freed[i], NULL), RIG_OK);
    assert_int_equal(audit(m).pins, 2 * EACH);
    twin_set_failed(m);
    clock_t before = clock();
    machine_finish_releases(m);
    assert_true(clock() - before < CLOCKS_PER_SEC);
    assert_int_equal(audit(m).pins, EACH);
    device_abandon(one, memory);
    close_machine(m);
}

static const struct rig_machine_ops *slow;

/* Another thread asks for the same addresses, and for ones that overlap them, while the back end
   makes the allocation, the first of which it has no room for. */
static enum rig_status alloc_beside_another(struct rig_machine *m, int function,
                                            const struct rig_memory_request *request,
                                            struct rig_grant *out_grant, struct rig_error *err)
{
    static int calls;
    struct rig_device *dev = machine_device(m, function);
    uint64_t at = (uint64_t)(uintptr_t)request->at;
    struct device_hold *none = NULL;
    for (int pages = 1; pages <= 2; pages++) {
        struct rig_error other = {.status = RIG_OK};
        assert_int_equal(
            device_alloc(dev, 4096, at + 4096 * (uint64_t)(pages - 1), false, &none, &other),
            RIG_INVALID);
        assert_non_null(strstr(other.why, ": other memory is there"));
        assert_null(none);
    }
    return calls++ == 0 ? RIG_NO_ROOM : slow->alloc(m, function, request, out_grant, err);
}

static void addresses_are_one_requests_from_before_the_back_end_is_asked(void **state)
{
    (void)state;
    struct rig_machine *m = open_machine();
    struct rig_device *one = take(m, ONE);
    struct rig_machine_ops ops = *m->ops;
    struct device_hold *hold = NULL;
    slow = m->ops;
    ops.alloc = alloc_beside_another;
    m->ops = &ops;
    assert_int_equal(machine_reserve(m, SPACE, 1 << 20, NULL), RIG_OK);
    assert_int_equal(device_alloc(one, 8192, SPACE + 4096, false, &hold, NULL), RIG_NO_ROOM);
    assert_int_equal(device_alloc(one, 8192, SPACE + 4096, false, &hold, NULL), RIG_OK);
    assert_int_equal(audit(m).grants, 1);
    memset(hold->grant.memory, 1, 8192);
    assert_int_equal(device_free(one, hold, NULL), RIG_OK);
    m->ops = slow;
    assert_int_equal(device_alloc(one, 4096, SPACE + 8192, false, &hold, NULL), RIG_OK);
    close_machine(m);
}

static void closing_stops_every_function_whoever_keeps_it(void **state)
{
    (void)state;
    struct rig_machine *m = open_machine();
    struct rig_device *one = take(m, ONE), *two = take(m, TWO);
    assert_int_equal(device_keep(one, DEVICE_KEEP_RESERVED, 5, NULL), RIG_OK);
    assert_int_equal(device_keep(two, DEVICE_KEEP_PEER, 4, NULL), RIG_OK);
    device_abandon(one, alloc(one, 4096));
    device_abandon(two, alloc(two, 4096));
    close_machine(m);
    m = open_machine();
    one = take(m, ONE);
    twin_set_gone(m, device_function(one));
    struct rig_error err = {.status = RIG_OK};
    assert_int_equal(rig_machine_close(m, &err), RIG_FAILED);
    assert_string_equal(err.what, ONE);
}

/* ---- saved and opened again */

static struct rig_machine *reopen(struct rig_machine *m)
{
    struct rig_topology *t = NULL;
    assert_int_equal(rig_topology_copy(rig_machine_topology(m), &t, NULL), RIG_OK);
    json_t *state, *again;
    assert_int_equal(machine_save(m, &state, NULL), RIG_OK);
    machine_detach(m);
    struct rig_error err = {.status = RIG_OK};
    struct rig_machine *next;
    if (twin_reopen(t, NULL, state, &next, &err) != RIG_OK)
        fail_msg("%s: %s", err.what, err.why);
    assert_int_equal(machine_save(next, &again, NULL), RIG_OK);
    assert_true(json_equal(state, again));
    json_decref(state);
    json_decref(again);
    rig_topology_free(t);
    return next;
}

static void a_machine_comes_back_with_lives_holds_and_keeps_and_goes_on(void **state)
{
    (void)state;
    struct rig_machine *m = open_machine();
    struct rig_device *one = take(m, ONE), *two = take(m, TWO);
    assert_int_equal(machine_reserve(m, SPACE, 1 << 24, NULL), RIG_OK);
    struct device_hold *memory = NULL;
    assert_int_equal(device_alloc(one, 8192, SPACE + 4096, false, &memory, NULL), RIG_OK);
    struct device_hold *counted = pin(two, memory->grant.memory, 4096);
    uint64_t memory_id = memory->id, pin_id = counted->id;
    rig_bus_address bus = memory->grant.ranges[0].address;
    assert_int_equal(device_keep(one, DEVICE_KEEP_PEER, device_function(two), NULL), RIG_OK);
    m = reopen(m);
    one = machine_device(m, function_at(rig_machine_topology(m), ONE));
    two = machine_device(m, function_at(rig_machine_topology(m), TWO));
    memory = device_hold_by_id(one, memory_id);
    counted = device_hold_by_id(two, pin_id);
    assert_non_null(memory);
    assert_non_null(counted);
    assert_null(device_hold_by_id(two, memory_id));
    assert_ptr_equal(memory->grant.memory, (void *)(uintptr_t)(SPACE + 4096));
    assert_int_equal(memory->grant.ranges[0].address, bus);
    assert_int_equal(device_see(memory, NULL), RIG_OK);
    memset(memory->grant.memory, 1, 8192);
    assert_int_equal(device_free(one, memory, NULL), RIG_OK);
    assert_int_equal(rig_device_release(one, NULL), RIG_OK);
    assert_int_equal(rig_device_life(one), RIG_LIFE_KEPT);
    m = reopen(m);
    two = machine_device(m, function_at(rig_machine_topology(m), TWO));
    one = machine_device(m, function_at(rig_machine_topology(m), ONE));
    assert_int_equal(rig_device_life(one), RIG_LIFE_KEPT);
    assert_int_equal(audit(m).free_bytes, SYSTEM - 4096);
    assert_true(twin_page_held_for(m, device_function(two), bus));
    device_unkeep(one, device_function(two));
    assert_int_equal(rig_device_life(one), RIG_LIFE_STOPPED);
    assert_int_equal(device_unpin(two, device_hold_by_id(two, pin_id), NULL), RIG_OK);
    assert_int_equal(audit(m).free_bytes, SYSTEM);
    close_machine(m);
}

/* Pages that a pin keeps stay in the process's view when the memory is freed, also in a process
   that had not looked at it before. */
static void pinned_pages_of_a_process_before_stay_seen_when_their_memory_is_freed(void **state)
{
    (void)state;
    struct rig_machine *m = open_machine();
    struct rig_device *one = take(m, ONE), *two = take(m, TWO);
    assert_int_equal(machine_reserve(m, SPACE, 1 << 24, NULL), RIG_OK);
    struct device_hold *memory = NULL;
    assert_int_equal(device_alloc(one, 8192, SPACE, false, &memory, NULL), RIG_OK);
    struct device_hold *kept = pin(two, (char *)memory->grant.memory + 4096, 4096);
    uint64_t memory_id = memory->id, pin_id = kept->id;
    m = reopen(m);
    one = machine_device(m, function_at(rig_machine_topology(m), ONE));
    two = machine_device(m, function_at(rig_machine_topology(m), TWO));
    kept = device_hold_by_id(two, pin_id);
    rig_bus_address bus = kept->grant.ranges[0].address;
    assert_int_equal(rig_device_set_master(two, true, NULL), RIG_OK);
    assert_int_equal(rig_twin_write(m, TWO, bus, "by DMA", 7, NULL), RIG_OK);
    assert_int_equal(device_free(one, device_hold_by_id(one, memory_id), NULL), RIG_OK);
    assert_int_equal(device_see(kept, NULL), RIG_OK);
    assert_string_equal(kept->grant.memory, "by DMA");
    /* The other page's address is free for other memory. */
    assert_int_equal(device_alloc(one, 4096, SPACE, false, &memory, NULL), RIG_OK);
    strcpy(memory->grant.memory, "new");
    assert_string_equal(kept->grant.memory, "by DMA");
    assert_int_equal(device_free(one, memory, NULL), RIG_OK);
    assert_int_equal(device_unpin(two, kept, NULL), RIG_OK);
    assert_int_equal(audit(m).free_bytes, SYSTEM);
    close_machine(m);
}

/* Puts a directory in the place of system memory's file, or the file back. */
static void hide_memory(const char *directory, bool hidden)
{
    char path[96], aside[96];
    snprintf(path, sizeof path, "%s/system-memory", directory);
    snprintf(aside, sizeof aside, "%s/aside", directory);
    if (!hidden)
        assert_int_equal(rmdir(path), 0);
    assert_int_equal(hidden ? rename(path, aside) : rename(aside, path), 0);
    if (hidden)
        assert_int_equal(mkdir(path, 0700), 0);
}

/* Memory whose file is gone fails what needs to see it, and nothing is lost: once it is back all
   goes on. A grant that no hold is of ends with the function alone. */
static void memory_whose_file_is_gone_fails_and_goes_on_when_it_is_back(void **state)
{
    (void)state;
    char directory[] = "/tmp/rigmem-function-XXXXXX";
    assert_non_null(mkdtemp(directory));
    struct rig_machine *m = open_machine();
    struct rig_topology *t = NULL;
    assert_int_equal(rig_topology_copy(rig_machine_topology(m), &t, NULL), RIG_OK);
    close_machine(m);
    assert_int_equal(rig_twin_open(t, directory, &m, NULL), RIG_OK);
    struct rig_device *one = take(m, ONE), *two = take(m, TWO);
    assert_int_equal(machine_reserve(m, SPACE, 1 << 24, NULL), RIG_OK);
    struct device_hold *memory = NULL, *anywhere = alloc(one, 4096);
    assert_int_equal(device_alloc(one, 8192, SPACE, false, &memory, NULL), RIG_OK);
    uint64_t pin_id = pin(two, memory->grant.memory, 4096)->id, id = anywhere->id;
    json_t *saved;
    struct rig_error err = {.status = RIG_OK};
    assert_int_equal(machine_save(m, &saved, NULL), RIG_OK);
    machine_detach(m);
    /* Memory outside of reserved addresses is seen at once. */
    hide_memory(directory, true);
    assert_int_equal(twin_reopen(t, directory, saved, &m, &err), RIG_FAILED);
    assert_string_equal(err.what, "system-memory");
    hide_memory(directory, false);
    assert_int_equal(twin_reopen(t, directory, saved, &m, NULL), RIG_OK);
    json_decref(saved);
    one = machine_device(m, function_at(t, ONE));
    assert_int_equal(device_free(one, device_hold_by_id(one, id), NULL), RIG_OK);
    assert_int_equal(machine_save(m, &saved, NULL), RIG_OK);
    machine_detach(m);
    json_t *functions = json_object_get(saved, "functions"), *function;
    size_t i;
    json_array_foreach(
        functions, i,
        function) if (strcmp(json_string_value(json_object_get(function, "function")), ONE) == 0)
        json_object_set_new(function, "holds", json_string(""));
    assert_int_equal(twin_reopen(t, directory, saved, &m, NULL), RIG_OK);
    json_decref(saved);
    hide_memory(directory, true);
    one = machine_device(m, function_at(t, ONE));
    two = machine_device(m, function_at(t, TWO));
    err.status = RIG_OK;
    assert_int_equal(rig_device_release(one, &err), RIG_FAILED);
    assert_non_null(strstr(err.why, "pages of it are pinned"));
    hide_memory(directory, false);
    assert_int_equal(rig_device_release(one, NULL), RIG_OK);
    assert_int_equal(audit(m).grants, 0);
    assert_int_equal(device_unpin(two, device_hold_by_id(two, pin_id), NULL), RIG_OK);
    assert_int_equal(audit(m).free_bytes, SYSTEM);
    close_machine(m);
    rig_topology_free(t);
    fixture_remove_path(directory);
}

/* Two pages that are neighbours for the process and not on the bus. */
static void a_hold_of_several_ranges_comes_back(void **state)
{
    (void)state;
    struct rig_machine *m = open_machine();
    struct rig_device *one = take(m, ONE), *two = take(m, TWO);
    struct device_hold *low = NULL, *high = NULL;
    assert_int_equal(machine_reserve(m, SPACE, 1 << 24, NULL), RIG_OK);
    assert_int_equal(device_alloc(one, 4096, SPACE + 4096, false, &high, NULL), RIG_OK);
    assert_int_equal(device_alloc(one, 4096, SPACE, false, &low, NULL), RIG_OK);
    rig_bus_address first = low->grant.ranges[0].address, second = high->grant.ranges[0].address;
    struct device_hold *both = pin(two, low->grant.memory, 8192);
    uint64_t id = both->id;
    assert_int_equal(both->grant.count, 2);
    m = reopen(m);
    two = machine_device(m, function_at(rig_machine_topology(m), TWO));
    both = device_hold_by_id(two, id);
    assert_non_null(both);
    assert_int_equal(both->grant.count, 2);
    assert_int_equal(both->grant.ranges[0].address, first);
    assert_int_equal(both->grant.ranges[0].bytes, 4096);
    assert_int_equal(both->grant.ranges[1].address, second);
    assert_int_equal(both->grant.ranges[1].bytes, 4096);
    close_machine(m);
}

static void states_that_break_a_rule_are_bad_input(void **state)
{
    (void)state;
    struct rig_machine *m = open_machine();
    struct rig_topology *t = NULL;
    assert_int_equal(rig_topology_copy(rig_machine_topology(m), &t, NULL), RIG_OK);
    struct rig_device *dev = take(m, ONE);
    assert_int_equal(machine_reserve(m, SPACE, 1 << 24, NULL), RIG_OK);
    struct device_hold *hold;
    assert_int_equal(device_alloc(dev, 8192, SPACE, false, &hold, NULL), RIG_OK);
    pin(dev, hold->grant.memory, 4096);
    json_t *good;
    assert_int_equal(machine_save(m, &good, NULL), RIG_OK);
    machine_detach(m);
    char *text = json_dumps(good, JSON_COMPACT);
    char at_space[32], within_a_page[32];
    snprintf(at_space, sizeof at_space, " - %llx ", (unsigned long long)SPACE);
    snprintf(within_a_page, sizeof within_a_page, " - %llx ", (unsigned long long)SPACE + 8);
    const struct {
        const char *from, *to;
    } change[] = {
        {"\"twin\"", "\"twit\""},
        {"\"life\":\"taken\"", "\"life\":\"taker\""},
        {"\"function\":\"" ONE "\"", "\"function\":\"0000:02:00.0\""},
        {"\"function\":\"" ONE "\"", "\"function\":\"0000:09:00.0\""},
        {"\"last_hold\":2", "\"last_hold\":0"},
        {"\"bits\":64", "\"bits\":65"},
        {"\"off\":false", "\"off\":true"},
        {"\"holds\":\"1 ", "\"holds\":\"2 "},
        {"\"last_grant\":2", "\"last_grant\":1"},
        {" 100000000+", " 100000800+"},
        {at_space, within_a_page},
        {"\"armed\":0", "\"armed\":9"},
        {"\"seed\":\"0x1\"", "\"seed\":1"},
        {"\"format\":\"plain\"", "\"format\":\"plane\""},
        {" 2000 ", " 1000 "},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(change); i++) {
        char *at = strstr(text, change[i].from);
        if (!at)
            fail_msg("no %s in %s", change[i].from, text);
        char *bad = malloc(strlen(text) + strlen(change[i].to) + 1);
        assert_non_null(bad);
        sprintf(bad, "%.*s%s%s", (int)(at - text), text, change[i].to, at + strlen(change[i].from));
        json_t *wrong = json_loads(bad, 0, NULL);
        assert_non_null(wrong);
        struct rig_error err = {.status = RIG_OK};
        struct rig_machine *none = NULL;
        if (twin_reopen(t, NULL, wrong, &none, &err) != RIG_BAD_INPUT)
            fail_msg("%s -> %s was taken", change[i].from, change[i].to);
        assert_null(none);
        assert_true(err.why[0] != '\0');
        json_decref(wrong);
        free(bad);
    }
    free(text);
    json_decref(good);
    rig_topology_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_take_starts_a_life_and_a_second_one_is_refused_naming_the_holder),
        cmocka_unit_test(bridges_and_strangers_are_not_taken),
        cmocka_unit_test(a_take_that_is_refused_leaves_the_function_to_the_next),
        cmocka_unit_test(release_turns_mastering_off_first_and_gives_everything_back),
        cmocka_unit_test(requests_on_a_released_function_are_misuse),
        cmocka_unit_test(a_release_during_a_use_masters_no_more_at_once_and_gives_back_at_its_end),
        cmocka_unit_test(all_ones_read_back_are_no_proof_of_off),
        cmocka_unit_test(a_give_back_that_is_cut_short_goes_on_at_every_step_it_can_be_cut_at),
        cmocka_unit_test(a_free_that_is_cut_short_leaves_the_memory_to_the_give_back),
        cmocka_unit_test(sizes_and_places_that_cannot_be_are_misuse),
        cmocka_unit_test(a_pin_covers_the_pages_that_hold_the_bytes),
        cmocka_unit_test(memory_above_the_bits_of_a_function_is_refused_to_it),
        cmocka_unit_test(a_bar_has_one_mode_at_a_time_and_views_stay_within_it),
        cmocka_unit_test(the_first_view_turns_memory_decode_on),
        cmocka_unit_test(kept_for_a_peer_it_gives_back_and_stays_taken_until_the_last_keep_ends),
        cmocka_unit_test(a_release_that_a_cut_left_kept_ends_at_the_next_take),
        cmocka_unit_test(kept_for_a_reservation_it_gives_back_one_by_one_and_never_ends),
        cmocka_unit_test(what_was_freed_while_it_might_master_goes_back_when_it_does_no_more),
        cmocka_unit_test(what_was_freed_goes_back_in_time_whatever_else_is_held),
        cmocka_unit_test(addresses_are_one_requests_from_before_the_back_end_is_asked),
        cmocka_unit_test(closing_stops_every_function_whoever_keeps_it),
        cmocka_unit_test(a_machine_comes_back_with_lives_holds_and_keeps_and_goes_on),
        cmocka_unit_test(pinned_pages_of_a_process_before_stay_seen_when_their_memory_is_freed),
        cmocka_unit_test(memory_whose_file_is_gone_fails_and_goes_on_when_it_is_back),
        cmocka_unit_test(a_hold_of_several_ranges_comes_back),
        cmocka_unit_test(states_that_break_a_rule_are_bad_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
