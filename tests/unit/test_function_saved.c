/* Functions, their holds and keeps, saved with a twin and opened again. */
#include "builder.h"
#include "fixture_tree.h"
#include "functions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

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
    struct rig_machine *m = functions_open();
    struct rig_device *one = functions_take(m, ONE), *two = functions_take(m, TWO);
    assert_int_equal(machine_reserve(m, SPACE, 1 << 24, NULL), RIG_OK);
    struct device_hold *memory = NULL;
    assert_int_equal(device_alloc(one, 8192, SPACE + 4096, false, &memory, NULL), RIG_OK);
    struct device_hold *counted = functions_pin(two, memory->grant.memory, 4096);
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
    assert_int_equal(functions_audit(m).free_bytes, SYSTEM - 4096);
    assert_true(twin_page_held_for(m, device_function(two), bus));
    device_unkeep(one, device_function(two));
    assert_int_equal(rig_device_life(one), RIG_LIFE_STOPPED);
    assert_int_equal(device_unpin(two, device_hold_by_id(two, pin_id), NULL), RIG_OK);
    assert_int_equal(functions_audit(m).free_bytes, SYSTEM);
    functions_close(m);
}

/* Pages that a pin keeps stay in the process's view when the memory is freed, also in a process
   that had not looked at it before. */
static void pinned_pages_of_a_process_before_stay_seen_when_their_memory_is_freed(void **state)
{
    (void)state;
    struct rig_machine *m = functions_open();
    struct rig_device *one = functions_take(m, ONE), *two = functions_take(m, TWO);
    assert_int_equal(machine_reserve(m, SPACE, 1 << 24, NULL), RIG_OK);
    struct device_hold *memory = NULL;
    assert_int_equal(device_alloc(one, 8192, SPACE, false, &memory, NULL), RIG_OK);
    struct device_hold *kept = functions_pin(two, (char *)memory->grant.memory + 4096, 4096);
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
    assert_int_equal(functions_audit(m).free_bytes, SYSTEM);
    functions_close(m);
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
    struct rig_machine *m = functions_open();
    struct rig_topology *t = NULL;
    assert_int_equal(rig_topology_copy(rig_machine_topology(m), &t, NULL), RIG_OK);
    functions_close(m);
    assert_int_equal(rig_twin_open(t, directory, &m, NULL), RIG_OK);
    struct rig_device *one = functions_take(m, ONE), *two = functions_take(m, TWO);
    assert_int_equal(machine_reserve(m, SPACE, 1 << 24, NULL), RIG_OK);
    struct device_hold *memory = NULL, *anywhere = functions_alloc(one, 4096);
    assert_int_equal(device_alloc(one, 8192, SPACE, false, &memory, NULL), RIG_OK);
    uint64_t pin_id = functions_pin(two, memory->grant.memory, 4096)->id, id = anywhere->id;
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
    assert_int_equal(functions_audit(m).grants, 0);
    assert_int_equal(device_unpin(two, device_hold_by_id(two, pin_id), NULL), RIG_OK);
    assert_int_equal(functions_audit(m).free_bytes, SYSTEM);
    functions_close(m);
    rig_topology_free(t);
    fixture_remove_path(directory);
}

/* Two pages that are neighbours for the process and not on the bus. */
static void a_hold_of_several_ranges_comes_back(void **state)
{
    (void)state;
    struct rig_machine *m = functions_open();
    struct rig_device *one = functions_take(m, ONE), *two = functions_take(m, TWO);
    struct device_hold *low = NULL, *high = NULL;
    assert_int_equal(machine_reserve(m, SPACE, 1 << 24, NULL), RIG_OK);
    assert_int_equal(device_alloc(one, 4096, SPACE + 4096, false, &high, NULL), RIG_OK);
    assert_int_equal(device_alloc(one, 4096, SPACE, false, &low, NULL), RIG_OK);
    rig_bus_address first = low->grant.ranges[0].address, second = high->grant.ranges[0].address;
    struct device_hold *both = functions_pin(two, low->grant.memory, 8192);
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
    functions_close(m);
}

static void states_that_break_a_rule_are_bad_input(void **state)
{
    (void)state;
    struct rig_machine *m = functions_open();
    struct rig_topology *t = NULL;
    assert_int_equal(rig_topology_copy(rig_machine_topology(m), &t, NULL), RIG_OK);
    struct rig_device *dev = functions_take(m, ONE);
    assert_int_equal(machine_reserve(m, SPACE, 1 << 24, NULL), RIG_OK);
    struct device_hold *hold;
    assert_int_equal(device_alloc(dev, 8192, SPACE, false, &hold, NULL), RIG_OK);
    functions_pin(dev, hold->grant.memory, 4096);
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
        cmocka_unit_test(a_machine_comes_back_with_lives_holds_and_keeps_and_goes_on),
        cmocka_unit_test(pinned_pages_of_a_process_before_stay_seen_when_their_memory_is_freed),
        cmocka_unit_test(memory_whose_file_is_gone_fails_and_goes_on_when_it_is_back),
        cmocka_unit_test(a_hold_of_several_ranges_comes_back),
        cmocka_unit_test(states_that_break_a_rule_are_bad_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
