#include "sessions.h"
#include "fixture_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

void session_open(struct session *s)
{
    s->t = build_machine(RIG_SWITCH RIG_GPUS, "GenuineIntel:6");
    snprintf(s->directory, sizeof s->directory, "/tmp/rigmem-save-XXXXXX");
    assert_non_null(mkdtemp(s->directory));
    struct rig_error err = {.status = RIG_OK};
    assert_int_equal(rig_twin_open(s->t, s->directory, &s->machine, &err), RIG_OK);
    struct rig_gpus_options options = rig_space_options();
    assert_int_equal(rig_gpus_create(s->machine, &options, &s->gpus, &err), RIG_OK);
    for (int i = 0; i < 3; i++) {
        struct rig_device *dev;
        struct rig_memory *m;
        assert_int_equal(rig_device_take(s->machine, rig_gpu_names[i], &dev, &err), RIG_OK);
        assert_int_equal(rig_memory_create(s->gpus, dev, NULL, &m, &err), RIG_OK);
        assert_int_equal(rig_device_set_master(dev, true, &err), RIG_OK);
    }
}

void session_close(struct session *s)
{
    rig_gpus_free(s->gpus);
    assert_int_equal(rig_machine_close(s->machine, NULL), RIG_OK);
    fixture_remove_path(s->directory);
    rig_topology_free(s->t);
}

json_t *session_save(struct session *s)
{
    json_t *state;
    assert_int_equal(gpus_save(s->gpus, &state, NULL), RIG_OK);
    return state;
}

/* Ends the process's part and takes it up again. */
void session_next(struct session *s)
{
    struct rig_error err = {.status = RIG_OK};
    json_t *memories = session_save(s), *machine, *again;
    assert_int_equal(machine_save(s->machine, &machine, NULL), RIG_OK);
    rig_gpus_free(s->gpus);
    machine_detach(s->machine);
    if (twin_reopen(s->t, s->directory, machine, &s->machine, &err) != RIG_OK ||
        gpus_restore(s->machine, memories, &s->gpus, &err) != RIG_OK)
        fail_msg("%s: %s", err.what, err.why);
    again = session_save(s);
    if (!json_equal(memories, again))
        fail_msg("%s\n%s", json_dumps(memories, JSON_INDENT(1)), json_dumps(again, JSON_INDENT(1)));
    json_decref(memories);
    json_decref(machine);
    json_decref(again);
}

struct rig_memory *session_memory(struct session *s, int gpu)
{
    return gpus_memory_of(s->gpus, function_at(s->t, rig_gpu_names[gpu] + 5));
}

struct rig_region session_region(struct session *s, uint64_t id)
{
    struct rig_region region = {.memory = NULL};
    if (!gpus_region_named(s->gpus, id, &region))
        fail_msg("no region %d", (int)id);
    return region;
}

void session_release(struct session *s, int gpu, enum rig_status wanted)
{
    assert_int_equal(rig_memory_release(session_memory(s, gpu), NULL), wanted);
}

uint64_t session_alloc(struct session *s, int gpu, enum rig_kind kind, uint64_t bytes)
{
    struct rig_region region;
    struct rig_error err = {.status = RIG_OK};
    if (rig_memory_alloc(session_memory(s, gpu), kind, bytes, false, &region, &err) != RIG_OK)
        fail_msg("%s: %s", err.what, err.why);
    return region.id;
}

uint64_t session_map_host(struct session *s, int gpu, rig_gpu_address at, uint64_t bytes)
{
    struct rig_region region;
    struct rig_error err = {.status = RIG_OK};
    if (rig_memory_map_host(session_memory(s, gpu), (void *)(uintptr_t)at, bytes, &region, &err) !=
        RIG_OK)
        fail_msg("%s: %s", err.what, err.why);
    return region.id;
}

rig_gpu_address session_address(struct session *s, uint64_t id)
{
    return rig_region_address(session_region(s, id));
}

void session_free(struct session *s, uint64_t id)
{
    struct rig_region region = session_region(s, id);
    assert_int_equal(rig_memory_free(region.memory, region, NULL), RIG_OK);
}

struct twin_audit session_held(struct session *s)
{
    struct twin_audit audit;
    twin_audit(s->machine, &audit);
    return audit;
}

uint64_t session_map_peer(struct session *s, int gpu, uint64_t of)
{
    struct rig_region region;
    struct rig_error err = {.status = RIG_OK};
    if (rig_memory_map_peer(session_memory(s, gpu), session_region(s, of), &region, &err) != RIG_OK)
        fail_msg("%s: %s", err.what, err.why);
    return region.id;
}
