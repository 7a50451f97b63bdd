/* The function layer: lives, uses, holds, keeps, give-backs, on a twin. */
#include "builder.h"
#include "functions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static uint32_t command(struct rig_machine *m, int function)
{
    return twin_config_read(m, function, 4, 2);
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
    struct rig_machine *m = functions_open();
    struct rig_device *dev = functions_take(m, ONE), *again = NULL;
    assert_int_equal(rig_device_life(dev), RIG_LIFE_TAKEN);
    assert_true(device_masters(dev));
    struct rig_error err = {.status = RIG_OK};
    assert_int_equal(rig_device_take(m, ONE, &again, &err), RIG_REFUSED);
    assert_string_equal(err.what, ONE);
    assert_string_equal(err.why, "this session has it");
    assert_string_equal(err.hint, "release it first");
    assert_null(again);
    functions_close(m);
}

static void bridges_and_strangers_are_not_taken(void **state)
{
    (void)state;
    struct rig_machine *m = functions_open();
    struct rig_device *dev = NULL;
    assert_int_equal(rig_device_take(m, "02:00.0", &dev, NULL), RIG_REFUSED);
    assert_int_equal(rig_device_take(m, "7f:00.0", &dev, NULL), RIG_INVALID);
    assert_int_equal(rig_device_take(m, "nonsense", &dev, NULL), RIG_INVALID);
    twin_set_gone(m, function_at(rig_machine_topology(m), ONE));
    assert_int_equal(rig_device_take(m, ONE, &dev, NULL), RIG_FAILED);
    assert_null(dev);
    assert_int_equal(functions_audit(m).taken, 0);
    functions_close(m);
}

static void a_take_that_is_refused_leaves_the_function_to_the_next(void **state)
{
    (void)state;
    struct rig_machine *m = functions_open();
    struct rig_device *dev = NULL;
    twin_arm(m, TWIN_FAULT_REFUSE, TWIN_STEP_TAKE, 1);
    assert_int_equal(rig_device_take(m, ONE, &dev, NULL), RIG_REFUSED);
    assert_null(machine_device(m, function_at(rig_machine_topology(m), ONE)));
    dev = functions_take(m, ONE);
    assert_ptr_equal(machine_device(m, device_function(dev)), dev);
    functions_close(m);
}

/* ---- releasing */

static void release_turns_mastering_off_first_and_gives_everything_back(void **state)
{
    (void)state;
    struct rig_machine *m = functions_open();
    struct rig_device *dev = functions_take(m, ONE);
    assert_int_equal(rig_device_set_master(dev, true, NULL), RIG_OK);
    struct device_hold *memory = functions_alloc(dev, 10000);
    struct device_hold *counted = functions_pin(dev, memory->grant.memory, 4096);
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
    struct twin_audit a = functions_audit(m);
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
    functions_close(m);
}

static void requests_on_a_released_function_are_misuse(void **state)
{
    (void)state;
    struct rig_machine *m = functions_open();
    struct rig_device *dev = functions_take(m, ONE);
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
    struct rig_device *again = functions_take(m, ONE);
    assert_true(again != dev);
    assert_int_equal(rig_device_life(dev), RIG_LIFE_STOPPED);
    functions_close(m);
}

static void a_release_during_a_use_masters_no_more_at_once_and_gives_back_at_its_end(void **state)
{
    (void)state;
    struct rig_machine *m = functions_open();
    struct rig_device *dev = functions_take(m, ONE);
    assert_int_equal(rig_device_set_master(dev, true, NULL), RIG_OK);
    struct device_hold *memory = functions_alloc(dev, 4096), *late = NULL;
    assert_int_equal(device_use(dev, NULL), RIG_OK);
    assert_int_equal(device_use(dev, NULL), RIG_OK);
    assert_int_equal(rig_device_release(dev, NULL), RIG_OK);
    assert_int_equal(rig_device_life(dev), RIG_LIFE_RELEASING);
    assert_int_equal(command(m, device_function(dev)) & 4, 0);
    assert_int_equal(functions_audit(m).grants, 1);
    /* A step of the request that is under way fails there. */
    assert_int_equal(device_alloc(dev, 4096, 0, false, &late, NULL), RIG_INVALID);
    device_unuse(dev);
    assert_int_equal(rig_device_life(dev), RIG_LIFE_RELEASING);
    device_unuse(dev);
    assert_int_equal(rig_device_life(dev), RIG_LIFE_STOPPED);
    assert_int_equal(functions_audit(m).grants, 0);
    assert_int_equal(device_free(dev, memory, NULL), RIG_OK);
    functions_close(m);
}

static void all_ones_read_back_are_no_proof_of_off(void **state)
{
    (void)state;
    struct rig_machine *m = functions_open();
    struct rig_device *dev = functions_take(m, ONE);
    struct device_hold *memory = functions_alloc(dev, 4096), *freed = functions_alloc(dev, 4096);
    twin_set_gone(m, device_function(dev));
    struct rig_error err = {.status = RIG_OK};
    assert_int_equal(rig_device_release(dev, &err), RIG_FAILED);
    assert_string_equal(err.why, "it may still master the bus: its command register reads 0xffff");
    assert_int_equal(rig_device_life(dev), RIG_LIFE_RELEASED);
    assert_true(device_masters(dev));
    assert_int_equal(functions_audit(m).grants, 2);
    /* A free meanwhile gives back nothing, since the function may still write there. */
    assert_int_equal(device_free(dev, freed, NULL), RIG_OK);
    assert_int_equal(functions_audit(m).grants, 2);
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
    assert_int_equal(functions_audit(m).grants, 0);
    assert_int_equal(device_free(dev, memory, NULL), RIG_OK);
    functions_close(m);
}

static void a_give_back_that_is_cut_short_goes_on_at_every_step_it_can_be_cut_at(void **state)
{
    (void)state;
    for (uint64_t step = 1; step <= 6; step++) {
        struct rig_machine *m = functions_open();
        struct rig_device *dev = functions_take(m, ONE);
        struct device_hold *a = functions_alloc(dev, 4096), *b = functions_alloc(dev, 8192);
        struct device_hold *p = functions_pin(dev, a->grant.memory, 4096);
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
        assert_int_equal(functions_audit(m).free_bytes, SYSTEM);
        device_unmap(dev, view, NULL);
        device_free(dev, a, NULL);
        device_free(dev, b, NULL);
        device_unpin(dev, p, NULL);
        functions_close(m);
    }
}

/* ---- holds */

static void a_free_that_is_cut_short_leaves_the_memory_to_the_give_back(void **state)
{
    (void)state;
    struct rig_machine *m = functions_open();
    struct rig_device *dev = functions_take(m, ONE);
    struct device_hold *memory = functions_alloc(dev, 4096);
    twin_arm(m, TWIN_FAULT_CUT, TWIN_STEP_FREE, 1);
    assert_int_equal(device_free(dev, memory, NULL), RIG_FAILED);
    assert_int_equal(functions_audit(m).grants, 1);
    device_abandon(dev, functions_alloc(dev, 4096));
    assert_int_equal(functions_audit(m).grants, 2);
    assert_int_equal(rig_device_release(dev, NULL), RIG_OK);
    assert_int_equal(functions_audit(m).grants, 0);
    functions_close(m);
}

static void sizes_and_places_that_cannot_be_are_misuse(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, UINT64_MAX, UINT64_MAX - 4094};
    struct rig_machine *m = functions_open();
    struct rig_device *dev = functions_take(m, ONE);
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
    functions_close(m);
}

static void a_pin_covers_the_pages_that_hold_the_bytes(void **state)
{
    (void)state;
    struct rig_machine *m = functions_open();
    struct rig_device *dev = functions_take(m, ONE);
    struct device_hold *memory = functions_alloc(dev, 3 * 4096);
    const uint8_t *bytes = memory->grant.memory;
    struct device_hold *p = functions_pin(dev, bytes + 4095, 2);
    assert_int_equal(p->grant.bytes, 8192);
    assert_int_equal(p->grant.ranges[0].address, memory->grant.ranges[0].address);
    assert_int_equal(device_unpin(dev, p, NULL), RIG_OK);
    assert_int_equal(device_free(dev, memory, NULL), RIG_OK);
    functions_close(m);
}

static void memory_above_the_bits_of_a_function_is_refused_to_it(void **state)
{
    (void)state;
    struct rig_machine *m = functions_open();
    struct rig_device *one = functions_take(m, ONE), *two = functions_take(m, TWO);
    struct device_hold *hold = NULL, *memory = functions_alloc(one, 4096);
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
    functions_close(m);
}

/* ---- views */

static void a_bar_has_one_mode_at_a_time_and_views_stay_within_it(void **state)
{
    (void)state;
    struct rig_machine *m = functions_open();
    struct rig_device *dev = functions_take(m, ONE);
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
    functions_close(m);
}

static void the_first_view_turns_memory_decode_on(void **state)
{
    (void)state;
    struct rig_machine *m = functions_open();
    int function = function_at(rig_machine_topology(m), ONE);
    twin_config_write(m, function, 4, 2, 0);
    struct rig_device *dev = functions_take(m, ONE);
    assert_int_equal(command(m, function) & 2, 0);
    struct rig_view *view;
    assert_int_equal(device_map_bar(dev, 0, 0, 4096, false, &view, NULL), RIG_OK);
    assert_int_equal(command(m, function) & 2, 2);
    assert_int_equal(device_unmap(dev, view, NULL), RIG_OK);
    functions_close(m);
}

/* ---- keeps */

static void kept_for_a_peer_it_gives_back_and_stays_taken_until_the_last_keep_ends(void **state)
{
    (void)state;
    struct rig_machine *m = functions_open();
    struct rig_device *one = functions_take(m, ONE), *two = functions_take(m, TWO), *again = NULL;
    struct device_hold *memory = functions_alloc(one, 4096);
    int who = device_function(two);
    assert_int_equal(device_keep(one, DEVICE_KEEP_PEER, who, NULL), RIG_OK);
    assert_int_equal(device_keep(one, DEVICE_KEEP_PEER, who, NULL), RIG_OK);
    assert_int_equal(rig_device_release(one, NULL), RIG_OK);
    assert_int_equal(rig_device_life(one), RIG_LIFE_KEPT);
    assert_false(device_masters(one));
    assert_true(device_gave_back(one));
    assert_int_equal(functions_audit(m).grants, 0);
    assert_int_equal(functions_audit(m).taken, 2);
    struct rig_error err = {.status = RIG_OK};
    assert_int_equal(rig_device_take(m, ONE, &again, &err), RIG_REFUSED);
    assert_string_equal(err.why, "it is kept taken: " TWO " maps its memory");
    device_unkeep(one, who);
    assert_int_equal(rig_device_life(one), RIG_LIFE_KEPT);
    device_unkeep(one, who);
    assert_int_equal(rig_device_life(one), RIG_LIFE_STOPPED);
    assert_int_equal(device_free(one, memory, NULL), RIG_OK);
    functions_take(m, ONE);
    functions_close(m);
}

static void a_release_that_a_cut_left_kept_ends_at_the_next_take(void **state)
{
    (void)state;
    struct rig_machine *m = functions_open();
    struct rig_device *one = functions_take(m, ONE);
    assert_int_equal(device_keep(one, DEVICE_KEEP_PEER, 5, NULL), RIG_OK);
    assert_int_equal(rig_device_release(one, NULL), RIG_OK);
    twin_arm(m, TWIN_FAULT_CUT, TWIN_STEP_RELEASE, 1);
    device_unkeep(one, 5);
    /* Nobody keeps it, and it masters nothing: its release is just not finished. */
    assert_int_equal(rig_device_life(one), RIG_LIFE_RELEASING);
    assert_false(device_masters(one));
    functions_take(m, ONE);
    assert_int_equal(rig_device_life(one), RIG_LIFE_STOPPED);
    functions_close(m);
}

static void kept_for_a_reservation_it_gives_back_one_by_one_and_never_ends(void **state)
{
    (void)state;
    struct rig_machine *m = functions_open();
    struct rig_device *one = functions_take(m, ONE), *again = NULL;
    struct device_hold *reserved = functions_alloc(one, 4096), *freed = functions_alloc(one, 4096);
    struct device_hold *counted = functions_pin(one, freed->grant.memory, 4096);
    struct called c = {.dev = one};
    assert_int_equal(device_on_give_back(one, on_give_back, &c, NULL), RIG_OK);
    assert_int_equal(device_keep(one, DEVICE_KEEP_RESERVED, 5, NULL), RIG_OK);
    assert_true(device_reserved(one));
    assert_int_equal(rig_device_release(one, NULL), RIG_OK);
    assert_int_equal(rig_device_life(one), RIG_LIFE_KEPT);
    assert_int_equal(c.times, 0);
    assert_int_equal(functions_audit(m).grants, 2);
    assert_int_equal(device_unpin(one, counted, NULL), RIG_OK);
    assert_int_equal(device_free(one, freed, NULL), RIG_OK);
    assert_int_equal(functions_audit(m).grants, 1);
    device_abandon(one, reserved);
    machine_finish_releases(m);
    assert_int_equal(rig_device_life(one), RIG_LIFE_KEPT);
    assert_int_equal(functions_audit(m).grants, 1);
    struct rig_error err = {.status = RIG_OK};
    assert_int_equal(rig_device_take(m, ONE, &again, &err), RIG_REFUSED);
    assert_string_equal(err.why, "it is kept taken: its memory is reserved for 0000:04:00.0");
    functions_close(m);
}

static void what_was_freed_while_it_might_master_goes_back_when_it_does_no_more(void **state)
{
    (void)state;
    struct rig_machine *m = functions_open();
    struct rig_device *one = functions_take(m, ONE);
    struct device_hold *memory = functions_alloc(one, 4096), *kept = functions_alloc(one, 4096);
    assert_int_equal(device_keep(one, DEVICE_KEEP_RESERVED, 5, NULL), RIG_OK);
    twin_set_gone(m, device_function(one));
    assert_int_equal(rig_device_release(one, NULL), RIG_FAILED);
    assert_int_equal(device_free(one, memory, NULL), RIG_OK);
    assert_int_equal(functions_audit(m).grants, 2);
    twin_set_failed(m);
    machine_finish_releases(m);
    assert_int_equal(rig_device_life(one), RIG_LIFE_KEPT);
    assert_int_equal(functions_audit(m).grants, 1);
    device_abandon(one, kept);
    functions_close(m);
}

/* Steps that grow with the square of the holds would be a thousand million here: seconds. */
static void what_was_freed_goes_back_in_time_whatever_else_is_held(void **state)
{
    (void)state;
    enum { EACH = 40000 };
    static struct device_hold *freed[EACH];
    struct rig_machine *m = functions_open();
    struct rig_device *one = functions_take(m, ONE);
    struct device_hold *memory = functions_alloc(one, 4096);
    for (int i = 0; i < EACH; i++)
        freed[i] = functions_pin(one, memory->grant.memory, 4096);
    for (int i = 0; i < EACH; i++)
        device_abandon(one, functions_pin(one, memory->grant.memory, 4096));
    assert_int_equal(device_keep(one, DEVICE_KEEP_RESERVED, 5, NULL), RIG_OK);
    twin_set_gone(m, device_function(one));
    assert_int_equal(rig_device_release(one, NULL), RIG_FAILED);
    for (int i = 0; i < EACH; i++)
        assert_int_equal(device_unpin(one, freed[i], NULL), RIG_OK);
    assert_int_equal(functions_audit(m).pins, 2 * EACH);
    twin_set_failed(m);
    clock_t before = clock();
    machine_finish_releases(m);
    assert_true(clock() - before < CLOCKS_PER_SEC);
    assert_int_equal(functions_audit(m).pins, EACH);
    device_abandon(one, memory);
    functions_close(m);
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
    struct rig_machine *m = functions_open();
    struct rig_device *one = functions_take(m, ONE);
    struct rig_machine_ops ops = *m->ops;
    struct device_hold *hold = NULL;
    slow = m->ops;
    ops.alloc = alloc_beside_another;
    m->ops = &ops;
    assert_int_equal(machine_reserve(m, SPACE, 1 << 20, NULL), RIG_OK);
    assert_int_equal(device_alloc(one, 8192, SPACE + 4096, false, &hold, NULL), RIG_NO_ROOM);
    assert_int_equal(device_alloc(one, 8192, SPACE + 4096, false, &hold, NULL), RIG_OK);
    assert_int_equal(functions_audit(m).grants, 1);
    memset(hold->grant.memory, 1, 8192);
    assert_int_equal(device_free(one, hold, NULL), RIG_OK);
    m->ops = slow;
    assert_int_equal(device_alloc(one, 4096, SPACE + 8192, false, &hold, NULL), RIG_OK);
    functions_close(m);
}

static void closing_stops_every_function_whoever_keeps_it(void **state)
{
    (void)state;
    struct rig_machine *m = functions_open();
    struct rig_device *one = functions_take(m, ONE), *two = functions_take(m, TWO);
    assert_int_equal(device_keep(one, DEVICE_KEEP_RESERVED, 5, NULL), RIG_OK);
    assert_int_equal(device_keep(two, DEVICE_KEEP_PEER, 4, NULL), RIG_OK);
    device_abandon(one, functions_alloc(one, 4096));
    device_abandon(two, functions_alloc(two, 4096));
    functions_close(m);
    m = functions_open();
    one = functions_take(m, ONE);
    twin_set_gone(m, device_function(one));
    struct rig_error err = {.status = RIG_OK};
    assert_int_equal(rig_machine_close(m, &err), RIG_FAILED);
    assert_string_equal(err.what, ONE);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
