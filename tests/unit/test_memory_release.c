/* create, release, the give-back, and GPUs that stay taken. */
#include "double.h"
#include "rigs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- create */

static void create_wants_a_memory_bar(void **state)
{
    struct rig *r = *state;
    struct rig_memory *m;
    struct rig_device *dev;
    assert_int_equal(rig_device_take(r->machine, rig_gpu_names[2], &dev, NULL), RIG_OK);
    for (int bar = 1; bar <= 6; bar++) {
        struct rig_memory_options options = {.other_bar = true, .bar = bar};
        rig_invalid(r, rig_memory_create(r->gpus, dev, &options, &m, &r->err), "no memory BAR");
    }
    struct rig_device *nic;
    assert_int_equal(rig_device_take(r->machine, NIC, &nic, NULL), RIG_OK);
    rig_invalid(r, rig_memory_create(r->gpus, nic, NULL, &m, &r->err), "no memory BAR");
    struct rig_memory_options right = {.other_bar = true, .bar = 0};
    assert_int_equal(rig_memory_create(r->gpus, dev, &right, &m, NULL), RIG_OK);
    rig_invalid(r, rig_memory_create(r->gpus, dev, NULL, &m, &r->err), "already");
}

static void create_says_what_is_not_known_and_how_to_give_it(void **state)
{
    (void)state;
    struct {
        const char *why, *hint;
        bool memory, size, flags, bar;
    } lack[] = {
        {"how much memory it has", "--gpu-memory 0000:03:00.0=SIZE", .memory = true},
        {"how much memory its BAR 0 shows", "--assume bar=0000:03:00.0:SIZE", .size = true},
        {"its BARs are not known", "lspci -D -vvv -nn -xxxx", .flags = true, .bar = true},
        {"how much memory its BAR 2 shows", NULL, .flags = true},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(lack); i++) {
        struct rig r = {.machine = NULL};
        struct rig_topology *t = build_machine(RIG_SWITCH RIG_GPUS, "GenuineIntel:6");
        struct rig_function *f = &t->node[function_at(t, "03:00.0")].f;
        if (lack[i].memory)
            f->gpu_memory = fact_unknown("not shown");
        if (lack[i].size)
            f->bar[0].size = fact_unknown("not shown");
        for (int k = 0; lack[i].flags && k < RIG_BAR_COUNT; k++)
            f->bar[k].flags = f->bar[k].size = fact_unknown("not shown");
        if (lack[i].bar)
            f->memory_bar = -1;
        assert_int_equal(rig_twin_open(t, NULL, &r.machine, NULL), RIG_OK);
        assert_int_equal(rig_gpus_create(r.machine, NULL, &r.gpus, NULL), RIG_OK);
        struct rig_device *dev;
        struct rig_memory *m = NULL;
        struct rig_memory_options other = {.other_bar = true, .bar = 2};
        assert_int_equal(rig_device_take(r.machine, rig_gpu_names[0], &dev, NULL), RIG_OK);
        enum rig_status status =
            rig_memory_create(r.gpus, dev, lack[i].hint ? NULL : &other, &m, &r.err);
        assert_int_equal(status, RIG_UNKNOWN);
        assert_string_equal(r.err.what, rig_gpu_names[0]);
        assert_non_null(strstr(r.err.why, lack[i].why));
        assert_true(lack[i].hint ? strstr(r.err.hint, lack[i].hint) != NULL : r.err.hint[0] == 0);
        assert_null(m);
        rig_topology_free(t);
        rig_close(&r);
    }
}

static void create_bounds_system_memory_to_what_entries_hold(void **state)
{
    (void)state;
    /* AMD's GPUs of the tenth generation hold 44 bits: of system memory above, none. */
    struct rig r = {.machine = NULL};
    struct rig_topology *t = build_machine(RIG_SWITCH RIG_GPUS, "GenuineIntel:6");
    t->machine.memory_base = fact_known(UINT64_C(1) << 45);
    t->machine.memory_bytes = fact_known(UINT64_C(1) << 30);
    struct rig_gpus_options spaces = rig_space_options();
    assert_int_equal(rig_twin_open(t, NULL, &r.machine, NULL), RIG_OK);
    assert_int_equal(rig_gpus_create(r.machine, &spaces, &r.gpus, NULL), RIG_OK);
    struct rig_memory_options narrow = {.format = "amd-gfx10"}, wide = {.format = "plain"};
    rig_take(&r, 0, &narrow);
    rig_take(&r, 1, &wide);
    struct rig_region h;
    rig_refused(&r, rig_memory_alloc(r.m[0], RIG_KIND_HOST, KIB(4), false, &h, &r.err), NULL, NULL);
    h = rig_alloc(&r, 1, RIG_KIND_HOST, KIB(4));
    assert_true(rig_page_of(h, 0) >= UINT64_C(1) << 45);
    struct rig_host host;
    assert_true(rig_region_host(h, &host));
    rig_refused(&r, rig_memory_map_host(r.m[0], host.memory, KIB(4), &h, &r.err), NULL, NULL);
    rig_topology_free(t);
    rig_close(&r);
}

static void create_wants_no_more_memory_than_entries_hold(void **state)
{
    (void)state;
    /* NVIDIA's second version has 37 bits of own memory: 128 GiB. */
    struct rig r;
    struct rig_topology *t = build_machine(RIG_SWITCH "03:00.0 ep gpu=262144/262144\n", NULL);
    assert_int_equal(rig_twin_open(t, NULL, &r.machine, NULL), RIG_OK);
    assert_int_equal(rig_gpus_create(r.machine, NULL, &r.gpus, NULL), RIG_OK);
    r.err = (struct rig_error){.status = RIG_OK};
    struct rig_device *dev;
    struct rig_memory *m;
    struct rig_memory_options options = {.format = "nv-mmu-v2"};
    assert_int_equal(rig_device_take(r.machine, rig_gpu_names[0], &dev, NULL), RIG_OK);
    rig_invalid(&r, rig_memory_create(r.gpus, dev, &options, &m, &r.err),
                "256 GiB of memory is more than the 37 address bits");
    options.bytes = (UINT64_C(1) << 37) + KIB(4);
    rig_invalid(&r, rig_memory_create(r.gpus, dev, &options, &m, &r.err), "37 address bits");
    options.bytes = UINT64_C(1) << 37;
    assert_int_equal(rig_memory_create(r.gpus, dev, &options, &m, NULL), RIG_OK);
    rig_topology_free(t);
    rig_close(&r);
}

static void create_that_fails_leaves_nothing_but_the_taken_function(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        struct rig r;
        rig_open(&r, NULL, 0);
        struct rig_device *dev;
        struct rig_memory *m;
        assert_int_equal(rig_device_take(r.machine, rig_gpu_names[0], &dev, NULL), RIG_OK);
        twin_arm(r.machine, TWIN_FAULT_CUT, TWIN_STEP_ANY, n);
        enum rig_status status = rig_memory_create(r.gpus, dev, NULL, &m, NULL);
        bool fired = twin_fired(r.machine);
        assert_int_equal(status, fired ? RIG_FAILED : RIG_OK);
        assert_int_equal(rig_gpus_count(r.gpus), fired ? 0 : 1);
        twin_arm(r.machine, TWIN_FAULT_NONE, TWIN_STEP_ANY, 0);
        if (fired)
            assert_int_equal(rig_memory_create(r.gpus, dev, NULL, &m, NULL), RIG_OK);
        rig_close(&r);
        if (!fired)
            break;
    }
}

static void earlier_translations_are_gone_before_a_new_memory_is_reached(void **state)
{
    (void)state;
    for (int flush = TWIN_FLUSH_OK; flush <= TWIN_FLUSH_NEVER; flush++) {
        struct rig r;
        rig_open(&r, NULL, 1);
        int gpu = rig_number(&r, rig_gpu_names[0]);
        rig_gpu_address at = rig_region_address(rig_alloc(&r, 0, RIG_KIND_HOST, KIB(4)));
        assert_true(rig_reads(&r, 0, at, 0));
        assert_int_equal(rig_memory_release(r.m[0], NULL), RIG_OK);
        twin_set_flush(r.machine, gpu, (enum twin_flush)flush);
        rig_take(&r, 0, NULL);
        assert_true(rig_faults(&r, 0, at));
        struct rig_region g = rig_alloc(&r, 0, RIG_KIND_GPU, KIB(4));
        rig_gpu_write(&r, 0, rig_region_address(g), 0x13);
        assert_true(rig_reads(&r, 0, rig_region_address(g), 0x13));
        rig_close(&r);
    }
}

/* ---- the give-back */

static void the_give_back_gives_back_regions_that_are_out(void **state)
{
    struct rig *r = *state;
    struct rig_region h = rig_alloc(r, 0, RIG_KIND_HOST, KIB(8)), b;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_BAR, KIB(8)), peer;
    struct rig_host host;
    assert_true(rig_region_host(h, &host));
    assert_int_equal(rig_memory_map_host(r->m[0], host.memory, KIB(4), &b, NULL), RIG_OK);
    peer = rig_map_peer(r, 0, rig_alloc(r, 1, RIG_KIND_HOST, KIB(4)));
    assert_int_equal(rig_memory_release(r->m[0], NULL), RIG_OK);
    assert_int_equal(rig_device_life(r->device[0]), RIG_LIFE_STOPPED);
    struct rig_held held = rig_held(r);
    assert_int_equal(held.grants, 1);
    assert_int_equal(held.pins, 0);
    assert_int_equal(held.blocks, 1);
    assert_int_equal(held.pool_free[0], 0);
    /* Windows are gone; the regions are out until they are freed, which does nothing more. */
    const struct rig_region all[] = {h, b, g, peer};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(all); i++) {
        assert_false(rig_region_host(all[i], &host));
        assert_true(rig_info(all[i]).out);
        assert_true(rig_region_address(all[i]) != 0);
        uint64_t flushed = twin_steps(r->machine, TWIN_STEP_ANY);
        rig_free(r, all[i]);
        assert_int_equal(twin_steps(r->machine, TWIN_STEP_ANY), flushed);
        rig_invalid(r, rig_memory_free(r->m[0], all[i], &r->err), "freed");
    }
    struct rig_held after = rig_held(r);
    rig_same(held, after);
}

static void requests_after_the_release_are_misuse(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, KIB(4)), x;
    struct rig_region other = rig_alloc(r, 1, RIG_KIND_HOST, KIB(4));
    struct rig_host host;
    struct rig_bus_range *ranges;
    size_t count;
    assert_true(rig_region_host(other, &host));
    assert_int_equal(rig_memory_release(r->m[0], NULL), RIG_OK);
    rig_invalid(r, rig_memory_alloc(r->m[0], RIG_KIND_GPU, 1, false, &x, &r->err), "released");
    rig_invalid(r, rig_memory_map_host(r->m[0], host.memory, 1, &x, &r->err), "released");
    rig_invalid(r, rig_memory_map_peer(r->m[0], other, &x, &r->err), "released");
    rig_invalid(r, rig_memory_bus(r->m[0], g, NIC, &ranges, &count, &r->err), "released");
}

static void once_released_the_gpu_is_written_by_this_memory_no_more(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, MIB(16));
    struct rig_memory *old = r->m[0];
    assert_int_equal(rig_memory_release(r->m[0], NULL), RIG_OK);
    rig_take(r, 0, NULL);
    struct rig_region h = rig_alloc(r, 0, RIG_KIND_GPU, MIB(16));
    rig_gpu_write(r, 0, rig_region_address(h), 0x55);
    /* The old region's free touches nothing of the new memory. */
    assert_int_equal(rig_memory_free(old, g, NULL), RIG_OK);
    assert_true(rig_reads(r, 0, rig_region_address(h), 0x55));
    rig_invalid(r, rig_memory_free(r->m[0], g, &r->err), "not of this GPU");
    rig_free(r, h);
}

static void releasing_again_does_only_what_an_earlier_release_did_not(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NULL, 2);
    double_before(r.machine);
    int gpu = rig_number(&r, rig_gpu_names[0]);
    struct rig_region g = rig_alloc(&r, 0, RIG_KIND_HOST, KIB(4));
    struct rig_region p = rig_map_peer(&r, 0, rig_alloc(&r, 1, RIG_KIND_GPU, KIB(4)));
    struct rig_held before = rig_held(&r);
    /* Asleep, it may still master: all stays, page tables too. */
    double_sleep(gpu, true);
    assert_int_equal(rig_memory_release(r.m[0], &r.err), RIG_FAILED);
    assert_non_null(strstr(r.err.why, "master"));
    rig_error_clear(&r.err);
    assert_int_equal(rig_device_life(r.device[0]), RIG_LIFE_RELEASED);
    rig_same(before, rig_held(&r));
    assert_non_null(r.m[0]->tables);
    assert_true(rig_info(g).out);
    double_sleep(gpu, false);
    assert_int_equal(rig_memory_release(r.m[0], &r.err), RIG_OK);
    assert_int_equal(rig_device_life(r.device[0]), RIG_LIFE_STOPPED);
    assert_null(r.m[0]->tables);
    assert_int_equal(rig_held(&r).grants, 0);
    uint64_t calls = double_calls();
    assert_int_equal(rig_memory_release(r.m[0], &r.err), RIG_OK);
    assert_int_equal(double_calls(), calls);
    assert_int_equal(rig_memory_free(r.m[0], p, NULL), RIG_OK);
    double_end(r.machine);
    rig_close(&r);
}

static void a_release_during_a_request_leaves_the_give_back_to_its_end(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_HOST, KIB(4));
    assert_int_equal(request_begin(r->m[0], NULL), RIG_OK);
    assert_int_equal(rig_memory_release(r->m[0], NULL), RIG_OK);
    assert_int_equal(rig_device_life(r->device[0]), RIG_LIFE_RELEASING);
    assert_int_equal(rig_held(r).grants, 1);
    assert_non_null(r->m[0]->tables);
    request_end(r->m[0]);
    assert_int_equal(rig_device_life(r->device[0]), RIG_LIFE_STOPPED);
    assert_int_equal(rig_held(r).grants, 0);
    assert_null(r->m[0]->tables);
    rig_free(r, g);
}

/* Releases gpu0 in the middle of one of its requests' steps, as another thread would: before the
   step is done, or after. */
static struct {
    struct rig *r;
    const struct rig_machine_ops *real;
    bool after;
    bool met;
} meet;

static void release_in_the_middle(bool after)
{
    if (meet.after != after || meet.met)
        return;
    meet.met = true;
    struct rig_held held = rig_held(meet.r);
    assert_int_equal(rig_memory_release(meet.r->m[0], NULL), RIG_OK);
    /* The request is a use of the function: nothing goes back, no table is dropped. */
    assert_int_equal(rig_device_life(meet.r->device[0]), RIG_LIFE_RELEASING);
    assert_non_null(meet.r->m[0]->tables);
    rig_same(held, rig_held(meet.r));
}

static enum rig_status alloc_and_release(struct rig_machine *m, int function,
                                         const struct rig_memory_request *request,
                                         struct rig_grant *out_grant, struct rig_error *err)
{
    release_in_the_middle(false);
    enum rig_status status = meet.real->alloc(m, function, request, out_grant, err);
    release_in_the_middle(true);
    return status;
}

static enum rig_status give_and_release(struct rig_machine *m, int function, uint64_t id,
                                        struct rig_error *err)
{
    release_in_the_middle(false);
    enum rig_status status = meet.real->give(m, function, id, err);
    release_in_the_middle(true);
    return status;
}

static enum rig_status pin_and_release(struct rig_machine *m, int function, void *start,
                                       uint64_t bytes, unsigned bits, struct rig_grant *out_grant,
                                       struct rig_error *err)
{
    release_in_the_middle(false);
    enum rig_status status = meet.real->pin(m, function, start, bytes, bits, out_grant, err);
    release_in_the_middle(true);
    return status;
}

enum request { ALLOC, MAP_HOST, MAP_PEER, FREE, REQUESTS };

static void meet_in(enum request request, bool after)
{
    struct rig r;
    struct rig_region made;
    rig_open(&r, NULL, 2);
    struct rig_region mine = rig_alloc(&r, 0, RIG_KIND_HOST, KIB(4));
    struct rig_region other = rig_alloc(&r, 1, RIG_KIND_HOST, KIB(4));
    struct rig_host host;
    assert_true(rig_region_host(mine, &host));
    struct rig_machine_ops ops = *r.machine->ops;
    meet.r = &r;
    meet.real = r.machine->ops;
    meet.after = after;
    meet.met = false;
    ops.alloc = alloc_and_release;
    ops.give = give_and_release;
    ops.pin = pin_and_release;
    r.machine->ops = &ops;
    enum rig_status status =
        request == ALLOC      ? rig_memory_alloc(r.m[0], RIG_KIND_HOST, KIB(8), false, &made, NULL)
        : request == MAP_HOST ? rig_memory_map_host(r.m[0], host.memory, KIB(4), &made, NULL)
        : request == MAP_PEER ? rig_memory_map_peer(r.m[0], other, &made, NULL)
                              : rig_memory_free(r.m[0], mine, NULL);
    r.machine->ops = meet.real;
    assert_true(meet.met);
    /* It may end well or as misuse; either way the give-back came at its end. */
    assert_true(status == RIG_OK || status == RIG_INVALID);
    assert_int_equal(rig_device_life(r.device[0]), RIG_LIFE_STOPPED);
    assert_null(r.m[0]->tables);
    assert_int_equal(rig_held(&r).grants, 1);
    assert_int_equal(rig_held(&r).pins, 0);
    assert_int_equal(rig_held(&r).blocks, 1);
    rig_close(&r);
}

static void a_request_that_meets_the_release_leaves_what_it_took_to_the_give_back(void **state)
{
    (void)state;
    for (int request = ALLOC; request < REQUESTS; request++)
        for (int after = 0; after < 2; after++)
            meet_in((enum request)request, after > 0);
}

/* ---- peers */

static void an_owner_whose_gpu_memory_is_mapped_stays_taken_until_the_peers_free(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, KIB(4));
    struct rig_region p = rig_map_peer(r, 1, g);
    rig_gpu_write(r, 0, rig_region_address(g), 0x61);
    assert_int_equal(rig_memory_release(r->m[0], NULL), RIG_OK);
    assert_int_equal(rig_device_life(r->device[0]), RIG_LIFE_KEPT);
    /* Mastering is off, memory decode is not: the peer still reaches it. */
    assert_int_equal(twin_config_read(r->machine, rig_number(r, rig_gpu_names[0]), 4, 2) & 6, 2);
    assert_true(rig_reads(r, 1, rig_region_address(p), 0x61));
    struct rig_device *dev;
    rig_refused(r, rig_device_take(r->machine, rig_gpu_names[0], &dev, &r->err), rig_gpu_names[1],
                "maps its memory");
    rig_free(r, p);
    assert_int_equal(rig_device_life(r->device[0]), RIG_LIFE_STOPPED);
    rig_take(r, 0, NULL);
}

static void a_second_region_of_the_peer_keeps_it_too(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_BAR, KIB(4));
    struct rig_region p = rig_map_peer(r, 1, g), q = rig_map_peer(r, 1, g);
    struct rig_region s = rig_map_peer(r, 1, rig_alloc(r, 0, RIG_KIND_GPU, KIB(4)));
    assert_int_equal(rig_memory_release(r->m[0], NULL), RIG_OK);
    rig_free(r, p);
    rig_free(r, s);
    assert_int_equal(rig_device_life(r->device[0]), RIG_LIFE_KEPT);
    rig_free(r, q);
    assert_int_equal(rig_device_life(r->device[0]), RIG_LIFE_STOPPED);
}

static void an_owner_whose_system_memory_is_mapped_goes_and_the_pages_stay_pinned(void **state)
{
    struct rig *r = *state;
    struct rig_region h = rig_alloc(r, 0, RIG_KIND_HOST, KIB(4));
    struct rig_region p = rig_map_peer(r, 1, h);
    rig_gpu_address at = rig_region_address(p);
    uint64_t page = rig_page_of(p, 0);
    rig_gpu_write(r, 1, at, 0x71);
    assert_int_equal(rig_memory_release(r->m[0], NULL), RIG_OK);
    assert_int_equal(rig_device_life(r->device[0]), RIG_LIFE_STOPPED);
    assert_true(rig_reads(r, 1, at, 0x71));
    assert_true(twin_page_held_for(r->machine, rig_number(r, rig_gpu_names[1]), page));
    /* The peer's window is on the pages that its pin keeps. */
    struct rig_host host;
    assert_true(rig_region_host(p, &host));
    assert_int_equal(*(unsigned char *)host.memory, 0x71);
    rig_take(r, 0, NULL);
    for (int i = 0; i < 20; i++) {
        struct rig_region a = rig_alloc(r, 0, RIG_KIND_HOST, KIB(4));
        assert_true(rig_region_address(a) != at);
        assert_true(rig_page_of(a, 0) != page);
    }
    rig_free(r, p);
    assert_false(twin_page_held(r->machine, page));
}

static void behind_an_iommu_the_window_goes_with_the_owners_give_back(void **state)
{
    struct rig *r = *state;
    struct rig_region h = rig_alloc(r, 0, RIG_KIND_HOST, KIB(4));
    struct rig_region p = rig_map_peer(r, 1, h);
    struct rig_host host;
    rig_gpu_write(r, 1, rig_region_address(p), 0x72);
    assert_true(rig_region_host(p, &host));
    assert_int_equal(rig_memory_release(r->m[0], NULL), RIG_OK);
    assert_false(rig_region_host(h, &host));
    assert_false(rig_region_host(p, &host));
    assert_true(rig_reads(r, 1, rig_region_address(p), 0x72));
}

static void the_release_ends_mappings_of_other_gpus_memory_as_frees_would(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, KIB(4));
    struct rig_region h = rig_alloc(r, 0, RIG_KIND_HOST, KIB(4));
    rig_map_peer(r, 1, g);
    rig_map_peer(r, 1, h);
    struct rig_held held = rig_held(r);
    rig_free(r, g);
    rig_free(r, h);
    assert_int_equal(rig_memory_release(r->m[1], NULL), RIG_OK);
    assert_true(rig_kept(g, "next call"));
    rig_free(r, rig_alloc(r, 0, RIG_KIND_GPU, KIB(4)));
    assert_int_equal(rig_held(r).blocks, held.blocks - 2);
    assert_int_equal(rig_held(r).grants, held.grants - 1);
    /* An owner that was released before goes back with it. */
    rig_take(r, 1, NULL);
    rig_map_peer(r, 1, rig_alloc(r, 0, RIG_KIND_GPU, KIB(4)));
    assert_int_equal(rig_memory_release(r->m[0], NULL), RIG_OK);
    assert_int_equal(rig_device_life(r->device[0]), RIG_LIFE_KEPT);
    assert_int_equal(rig_memory_release(r->m[1], NULL), RIG_OK);
    assert_int_equal(rig_device_life(r->device[0]), RIG_LIFE_STOPPED);
}

static void a_peers_free_that_may_still_write_keeps_the_owner_taken_until_it_stops(void **state)
{
    (void)state;
    for (int unconfirmed = 0; unconfirmed < 2; unconfirmed++) {
        struct rig r;
        rig_open(&r, NULL, 2);
        double_before(r.machine);
        int peer = rig_number(&r, rig_gpu_names[1]);
        struct rig_region g = rig_alloc(&r, 0, RIG_KIND_GPU, KIB(4));
        struct rig_region p = rig_map_peer(&r, 1, g);
        assert_true(rig_reads(&r, 1, rig_region_address(g), 0));
        if (unconfirmed) {
            twin_set_flush(r.machine, peer, TWIN_FLUSH_NEVER);
            rig_free(&r, p);
        } else {
            /* Released, asleep: it may still master the bus. Then its region is freed. */
            double_sleep(peer, true);
            assert_int_equal(rig_memory_release(r.m[1], NULL), RIG_FAILED);
            rig_free(&r, p);
        }
        assert_int_equal(rig_memory_release(r.m[0], NULL), RIG_OK);
        assert_int_equal(rig_device_life(r.device[0]), RIG_LIFE_KEPT);
        struct rig_device *dev;
        rig_refused(&r, rig_device_take(r.machine, rig_gpu_names[0], &dev, &r.err),
                    rig_gpu_names[1], NULL);
        double_sleep(peer, false);
        if (unconfirmed)
            assert_int_equal(rig_memory_release(r.m[1], NULL), RIG_OK);
        /* The next finish_releases, or take of its bus, finds that it stopped. */
        if (!unconfirmed)
            rig_gpus_finish_releases(r.gpus);
        assert_int_equal(rig_device_life(r.device[0]), RIG_LIFE_STOPPED);
        double_end(r.machine);
        rig_take(&r, 0, NULL);
        rig_close(&r);
    }
}

static void the_next_take_of_the_bus_finishes_what_can_be_finished(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NULL, 1);
    double_before(r.machine);
    rig_alloc(&r, 0, RIG_KIND_HOST, KIB(4));
    double_sleep(rig_number(&r, rig_gpu_names[0]), true);
    assert_int_equal(rig_memory_release(r.m[0], NULL), RIG_FAILED);
    struct rig_device *dev;
    rig_refused(&r, rig_device_take(r.machine, rig_gpu_names[0], &dev, &r.err), "master", NULL);
    assert_int_equal(rig_held(&r).grants, 1);
    double_sleep(rig_number(&r, rig_gpu_names[0]), false);
    rig_take(&r, 0, NULL);
    assert_int_equal(rig_held(&r).grants, 0);
    double_end(r.machine);
    rig_close(&r);
}

static void a_function_that_left_the_bus_gives_nothing_back_until_the_machine_ends(void **state)
{
    struct rig *r = *state;
    struct rig_region h = rig_alloc(r, 0, RIG_KIND_HOST, KIB(4)), x;
    twin_set_gone(r->machine, rig_number(r, rig_gpu_names[0]));
    assert_int_equal(rig_memory_alloc(r->m[0], RIG_KIND_GPU, KIB(4), false, &x, &r->err),
                     RIG_FAILED);
    assert_non_null(strstr(r->err.why, "left the bus"));
    rig_error_clear(&r->err);
    rig_free(r, h);
    assert_true(rig_kept(h, "may still reach it"));
    assert_int_equal(rig_memory_release(r->m[0], NULL), RIG_FAILED);
    assert_int_equal(rig_held(r).grants, 1);
    twin_set_failed(r->machine);
    assert_int_equal(rig_memory_release(r->m[0], NULL), RIG_OK);
    assert_int_equal(rig_held(r).grants, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(create_wants_a_memory_bar),
        cmocka_unit_test(create_says_what_is_not_known_and_how_to_give_it),
        cmocka_unit_test(create_bounds_system_memory_to_what_entries_hold),
        cmocka_unit_test(create_wants_no_more_memory_than_entries_hold),
        cmocka_unit_test(create_that_fails_leaves_nothing_but_the_taken_function),
        cmocka_unit_test(earlier_translations_are_gone_before_a_new_memory_is_reached),
        RIG_TEST(the_give_back_gives_back_regions_that_are_out),
        RIG_TEST(requests_after_the_release_are_misuse),
        RIG_TEST(once_released_the_gpu_is_written_by_this_memory_no_more),
        cmocka_unit_test(releasing_again_does_only_what_an_earlier_release_did_not),
        RIG_TEST(a_release_during_a_request_leaves_the_give_back_to_its_end),
        cmocka_unit_test(a_request_that_meets_the_release_leaves_what_it_took_to_the_give_back),
        RIG_TEST(an_owner_whose_gpu_memory_is_mapped_stays_taken_until_the_peers_free),
        RIG_TEST(a_second_region_of_the_peer_keeps_it_too),
        RIG_TEST(an_owner_whose_system_memory_is_mapped_goes_and_the_pages_stay_pinned),
        RIG_TEST_IOMMU(behind_an_iommu_the_window_goes_with_the_owners_give_back),
        RIG_TEST(the_release_ends_mappings_of_other_gpus_memory_as_frees_would),
        cmocka_unit_test(a_peers_free_that_may_still_write_keeps_the_owner_taken_until_it_stops),
        cmocka_unit_test(the_next_take_of_the_bus_finishes_what_can_be_finished),
        RIG_TEST(a_function_that_left_the_bus_gives_nothing_back_until_the_machine_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
