/* Memory of the process that runs out anywhere in a whole life of GPU memory: the step that meets
   it ends as its contract says, the same step asked again succeeds, at the end nothing is held, and
   nothing leaks. Every allocation of a life fails, for every k, once alone and once with all that
   follow in the step; under sanitizers, which bring their own allocator, the lives run without
   failures. */
#include "failing.h"
#include "rigs.h"

#include "gpu/save.h"
#include "fixture_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* What differs from life to life. */
struct shape {
    bool translated;  /* behind an IOMMU, where GPU memory has no peers */
    bool peer_first;  /* frees before the owner */
    bool reserved;    /* a NIC is given the memory */
    bool unconfirmed; /* frees are not confirmed */
    bool processes;   /* the life goes on in another process */
};

struct life {
    const struct shape *shape;
    struct rig r;
    struct rig_topology *t;
    char directory[32];
    uint64_t own[4], peer[2]; /* regions' ids */
    json_t *machine, *memories;
    bool over; /* the twin could not keep what was written: its machine failed, for good */
};

typedef enum rig_status step(struct life *l, int which);

static struct rig_region region(const struct life *l, uint64_t id)
{
    struct rig_region found = {.memory = NULL};
    gpus_region_named(l->r.gpus, id, &found);
    return found;
}

/* ---- the steps of a life */

static enum rig_status open_twin(struct life *l, int which)
{
    (void)which;
    return rig_twin_open(l->t, l->shape->processes ? l->directory : NULL, &l->r.machine, &l->r.err);
}

static enum rig_status make_gpus(struct life *l, int which)
{
    (void)which;
    struct rig_gpus_options options = rig_space_options();
    return rig_gpus_create(l->r.machine, &options, &l->r.gpus, &l->r.err);
}

static enum rig_status take(struct life *l, int which)
{
    return rig_device_take(l->r.machine, rig_gpu_names[which], &l->r.device[which], &l->r.err);
}

static enum rig_status create(struct life *l, int which)
{
    enum rig_status status =
        rig_memory_create(l->r.gpus, l->r.device[which], NULL, &l->r.m[which], &l->r.err);
    if (status == RIG_OK)
        assert_int_equal(rig_device_set_master(l->r.device[which], true, NULL), RIG_OK);
    return status;
}

static enum rig_status alloc(struct life *l, int which)
{
    struct rig_region made;
    enum rig_status status =
        rig_memory_alloc(l->r.m[0], (enum rig_kind)which, which == RIG_KIND_GPU ? MIB(3) : KIB(20),
                         false, &made, &l->r.err);
    l->own[which] = status == RIG_OK ? made.id : 0;
    return status;
}

static enum rig_status map_host(struct life *l, int which)
{
    struct rig_host host;
    struct rig_region made;
    assert_true(rig_region_host(region(l, l->own[RIG_KIND_HOST]), &host));
    enum rig_status status = rig_memory_map_host(
        l->r.m[0], (const unsigned char *)host.memory + 100, KIB(9), &made, &l->r.err);
    l->own[which] = status == RIG_OK ? made.id : 0;
    return status;
}

/* Of the first or third of its regions, for the other GPU. */
static enum rig_status map_peer(struct life *l, int which)
{
    struct rig_region made;
    enum rig_status status =
        rig_memory_map_peer(l->r.m[1], region(l, l->own[2 * which]), &made, &l->r.err);
    l->peer[which] = status == RIG_OK ? made.id : 0;
    return status;
}

static enum rig_status bus(struct life *l, int which)
{
    struct rig_bus_range *ranges;
    size_t count;
    enum rig_status status =
        rig_memory_bus(l->r.m[0], region(l, l->own[which]), NIC, &ranges, &count, &l->r.err);
    if (status == RIG_OK)
        free(ranges);
    return status;
}

static enum rig_status save(struct life *l, int which)
{
    enum rig_status status = which ? gpus_save(l->r.gpus, &l->memories, &l->r.err)
                                   : machine_save(l->r.machine, &l->machine, &l->r.err);
    return status;
}

/* The next process takes up both, or neither. */
static enum rig_status reopen(struct life *l, int which)
{
    (void)which;
    if (l->r.machine) {
        rig_gpus_free(l->r.gpus);
        machine_detach(l->r.machine);
        l->r.machine = NULL;
    }
    enum rig_status status = twin_reopen(l->t, l->directory, l->machine, &l->r.machine, &l->r.err);
    if (status != RIG_OK)
        return status;
    status = gpus_restore(l->r.machine, l->memories, &l->r.gpus, &l->r.err);
    if (status != RIG_OK) {
        machine_detach(l->r.machine);
        l->r.machine = NULL;
        return status;
    }
    for (int i = 0; i < 2; i++) {
        int function = rig_number(&l->r, rig_gpu_names[i]);
        l->r.m[i] = gpus_memory_of(l->r.gpus, function);
        l->r.device[i] = machine_device(l->r.machine, function);
    }
    return RIG_OK;
}

/* A free that failed ended the region; what it held is the give-back's. */
static enum rig_status give(struct life *l, struct rig_memory *m, uint64_t *io_id)
{
    struct rig_region freed = region(l, *io_id);
    if (!freed.memory)
        return RIG_OK;
    enum rig_status status = rig_memory_free(m, freed, &l->r.err);
    if (status == RIG_FAILED) {
        long held = countdown;
        countdown = -1;
        assert_int_equal(rig_memory_free(m, freed, NULL), RIG_INVALID);
        countdown = held;
        *io_id = 0;
    }
    return status;
}

static enum rig_status free_own(struct life *l, int which)
{
    return give(l, l->r.m[0], &l->own[which]);
}

static enum rig_status free_peer(struct life *l, int which)
{
    return give(l, l->r.m[1], &l->peer[which]);
}

static enum rig_status release(struct life *l, int which)
{
    if (l->r.m[which])
        return rig_memory_release(l->r.m[which], &l->r.err);
    return l->r.device[which] ? rig_device_release(l->r.device[which], &l->r.err) : RIG_OK;
}

static enum rig_status finish(struct life *l, int which)
{
    (void)which;
    rig_gpus_finish_releases(l->r.gpus);
    return RIG_OK;
}

/* ---- a life */

/* Makes the step; where memory ran out in it, once more, unless that is the machine's end. */
static void make(struct life *l, const char *name, step *act, int which)
{
    bool before = tripped;
    enum rig_status status = l->over ? RIG_OK : act(l, which);
    if (status == RIG_OK)
        return;
    if (before || !tripped || status != RIG_FAILED)
        fail_msg("%s %d: %s: %s", name, which, rig_status_name(status), l->r.err.why);
    rig_error_clear(&l->r.err);
    countdown = -1;
    l->over = l->r.machine && l->r.machine->ops->failed(l->r.machine, -1);
    if (l->over)
        return;
    status = act(l, which);
    if (status != RIG_OK)
        fail_msg("%s %d, asked again: %s: %s", name, which, rig_status_name(status), l->r.err.why);
}
#define MAKE(step, which) make(l, #step, step, which)

static void be_born(struct life *l)
{
    MAKE(open_twin, 0);
    MAKE(make_gpus, 0);
    for (int i = 0; i < 2; i++) {
        MAKE(take, i);
        MAKE(create, i);
    }
    for (int i = 0; l->shape->unconfirmed && i < 2; i++)
        twin_set_flush(l->r.machine, rig_number(&l->r, rig_gpu_names[i]), TWIN_FLUSH_NEVER);
}

static void live_on(struct life *l)
{
    for (int kind = RIG_KIND_GPU; kind <= RIG_KIND_HOST; kind++)
        MAKE(alloc, kind);
    MAKE(map_host, 3);
    for (int which = l->shape->translated ? 1 : 0; which < 2; which++)
        MAKE(map_peer, which);
    for (int which = 0; l->shape->reserved && which < 3; which += 2)
        MAKE(bus, which);
    if (!l->shape->processes)
        return;
    MAKE(save, 0);
    MAKE(save, 1);
    MAKE(reopen, 0);
}

static void die(struct life *l)
{
    for (int round = 0; round < 2; round++) {
        bool peers = (round == 0) == l->shape->peer_first;
        for (int which = 0; which < (peers ? 2 : 4); which++)
            MAKE(peers ? free_peer : free_own, which);
    }
    l->over = false;
    MAKE(release, l->shape->peer_first ? 1 : 0);
    MAKE(release, l->shape->peer_first ? 0 : 1);
    MAKE(finish, 0);
}

static void nothing_is_held(const struct life *l)
{
    struct twin_audit held;
    twin_audit(l->r.machine, &held);
    bool reserved = l->r.device[0] && device_reserved(l->r.device[0]);
    assert_int_equal(held.taken, reserved ? 1 : 0);
    if (reserved)
        return;
    assert_int_equal(held.grants + held.pins + held.views, 0);
    assert_int_equal(rig_held_blocks(l->r.gpus), 0);
}

/* One life with its k-th allocation failing, -1: none. True iff that one came. */
static bool live_once(const struct shape *shape, long k)
{
    struct life life = {.shape = shape}, *l = &life;
    l->t = build_machine(shape->translated ? RIG_SWITCH RIG_GPUS_IOMMU : RIG_SWITCH RIG_GPUS,
                         "GenuineIntel:6");
    strcpy(l->directory, "/tmp/rigmem-oom-XXXXXX");
    if (shape->processes)
        assert_non_null(mkdtemp(l->directory));
    tripped = false;
    countdown = k;
    be_born(l);
    live_on(l);
    die(l);
    countdown = -1;
    nothing_is_held(l);
    json_decref(l->machine);
    json_decref(l->memories);
    rig_gpus_free(l->r.gpus);
    assert_int_equal(rig_machine_close(l->r.machine, NULL), RIG_OK);
    rig_topology_free(l->t);
    if (shape->processes)
        fixture_remove_path(l->directory);
    return tripped;
}

static void every_allocation(const struct shape *shape)
{
    live_once(shape, -1); /* what libraries allocate for good, they have then */
    for (int all = 0; all < 2; all++) {
        long k = 0;
        for_good = all > 0;
        for (bool fired = true; fired; k++) {
            long before = live;
            fired = live_once(shape, k);
            if (live != before)
                fail_msg("allocation %ld failing: %ld leaked", k, live - before);
        }
        assert_true(k > 100 || !CAN_FAIL);
        printf("# %ld allocations failed%s\n", k - 1, all ? ", and all that followed" : "");
    }
    for_good = false;
}

static void a_life_whose_owner_frees_first(void **state)
{
    (void)state;
    const struct shape shape = {.peer_first = false};
    every_allocation(&shape);
}

static void a_life_whose_peer_frees_first(void **state)
{
    (void)state;
    const struct shape shape = {.peer_first = true};
    every_allocation(&shape);
}

static void a_life_behind_an_iommu(void **state)
{
    (void)state;
    const struct shape shape = {.translated = true};
    every_allocation(&shape);
}

static void a_life_in_which_no_flush_is_confirmed(void **state)
{
    (void)state;
    const struct shape shape = {.unconfirmed = true, .peer_first = true};
    every_allocation(&shape);
}

static void a_life_with_a_bus_client(void **state)
{
    (void)state;
    const struct shape shape = {.reserved = true};
    every_allocation(&shape);
}

static void a_life_in_two_processes(void **state)
{
    (void)state;
    const struct shape shape = {.processes = true};
    every_allocation(&shape);
}

int main(void)
{
#if CAN_FAIL
    json_set_alloc_funcs(never_fails, free);
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_life_whose_owner_frees_first),
        cmocka_unit_test(a_life_whose_peer_frees_first),
        cmocka_unit_test(a_life_behind_an_iommu),
        cmocka_unit_test(a_life_in_which_no_flush_is_confirmed),
        cmocka_unit_test(a_life_with_a_bus_client),
        cmocka_unit_test(a_life_in_two_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
