/* map_peer: what it maps, and what it refuses. */
#include "double.h"
#include "rigs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void a_peer_reaches_what_it_maps_at_the_same_address(void **state)
{
    struct rig *r = *state;
    struct rig_held before = rig_held(r);
    for (int kind = RIG_KIND_GPU; kind <= RIG_KIND_HOST; kind++) {
        struct rig_region g = rig_alloc(r, 0, (enum rig_kind)kind, KIB(64));
        struct rig_region p = rig_map_peer(r, 1, g);
        rig_gpu_address at = rig_region_address(g);
        assert_int_equal(rig_region_address(p), at);
        assert_int_equal(rig_info(p).bytes, KIB(64));
        assert_int_equal(rig_info(p).of, g.id);
        assert_int_equal(rig_info(p).origin, RIG_ORIGIN_PEER);
        rig_gpu_write(r, 1, at + 5, (uint8_t)(0x40 + kind));
        assert_true(rig_reads(r, 0, at + 5, (uint8_t)(0x40 + kind)));
        rig_free(r, p);
        assert_true(rig_faults(r, 1, at));
        rig_free(r, g);
    }
    rig_same(before, rig_held(r));
}

static void gpu_memory_is_mapped_through_its_owners_bar(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, KIB(4));
    struct rig_region p = rig_map_peer(r, 1, g);
    struct rig_bar_now bar;
    machine_bar(r->machine, rig_number(r, rig_gpu_names[0]), 0, &bar);
    struct rig_mapping m = rig_page_table_at(r->m[1]->tables, rig_region_address(p));
    assert_int_equal(m.target.memory, RIG_MEMORY_SYSTEM);
    assert_int_equal(m.physical, bar.bus + rig_page_of(g, 0));
    /* Its pages are addresses of the peer's memory. */
    assert_int_equal(rig_info(p).target, RIG_TARGET_PEER);
    assert_int_equal(rig_page_of(p, 0), rig_page_of(g, 0));
}

static void gpu_memory_is_mapped_over_the_link_of_a_fabric(void **state)
{
    (void)state;
    static const char *const formats[] = {"plain", "nv-mmu-v2", "nv-mmu-v3", "amd-gfx9"};
    for (size_t f = 0; f < RIG_ARRAY_LENGTH(formats); f++) {
        struct rig r;
        rig_open(&r, RIG_SWITCH RIG_GPUS, 0);
        struct rig_link link[2];
        /* gpu3 is on another root port, which an Intel machine does not reach. */
        const char *const names[] = {"0000:08:00.0", "0000:03:00.0"};
        assert_int_equal(rig_gpus_link(r.gpus, 7, names, 2, link, NULL), RIG_OK);
        struct rig_memory_options far = {.format = formats[f], .link = &link[0]};
        struct rig_memory_options near = {.format = formats[f], .link = &link[1]};
        rig_take(&r, 3, &far);
        rig_take(&r, 0, &near);
        struct rig_region g = rig_alloc(&r, 3, RIG_KIND_GPU, KIB(8));
        struct rig_region p = rig_map_peer(&r, 0, g);
        struct rig_mapping m = rig_page_table_at(r.m[0]->tables, rig_region_address(p));
        assert_int_equal(m.target.memory, RIG_MEMORY_LINK);
        rig_gpu_write(&r, 0, rig_region_address(p) + KIB(4), 0x66);
        assert_true(rig_reads(&r, 3, rig_region_address(g) + KIB(4), 0x66));
        assert_int_equal(rig_info(p).target, RIG_TARGET_PEER);
        assert_int_equal(rig_page_of(p, 0), rig_page_of(g, 0));
        rig_close(&r);
    }
}

static void system_memory_is_mapped_at_its_pages_which_a_pin_keeps(void **state)
{
    struct rig *r = *state;
    struct rig_region h = rig_alloc(r, 0, RIG_KIND_HOST, KIB(8));
    uint64_t physical = rig_page_of(h, 0);
    int peer = rig_number(r, rig_gpu_names[1]);
    assert_false(twin_page_held_for(r->machine, peer, physical));
    struct rig_region p = rig_map_peer(r, 1, h);
    assert_true(twin_page_held_for(r->machine, peer, physical));
    assert_int_equal(rig_page_of(p, 0), physical);
    rig_free(r, p);
    assert_false(twin_page_held_for(r->machine, peer, physical));
}

static void borrowed_memory_is_mapped_for_peers_too(void **state)
{
    struct rig *r = *state;
    struct rig_region h = rig_alloc(r, 0, RIG_KIND_HOST, KIB(8)), b;
    struct rig_host host;
    assert_true(rig_region_host(h, &host));
    assert_int_equal(rig_memory_map_host(r->m[0], (char *)host.memory + 300, 100, &b, NULL),
                     RIG_OK);
    struct rig_region p = rig_map_peer(r, 1, b);
    assert_int_equal(rig_region_address(p), rig_region_address(b));
    assert_int_equal(rig_info(p).bytes, 100);
    ((unsigned char *)host.memory)[300] = 0x19;
    assert_true(rig_reads(r, 1, rig_region_address(p), 0x19));
}

static void a_peers_region_has_the_window_of_the_region_it_maps(void **state)
{
    struct rig *r = *state;
    for (int kind = RIG_KIND_GPU; kind <= RIG_KIND_HOST; kind++) {
        struct rig_region g = rig_alloc(r, 0, (enum rig_kind)kind, KIB(8));
        struct rig_region p = rig_map_peer(r, 1, g);
        struct rig_host own, peer;
        uint8_t byte = (uint8_t)(0x90 + kind);
        assert_int_equal(rig_region_host(p, &peer), kind != RIG_KIND_GPU);
        if (kind == RIG_KIND_GPU)
            continue;
        assert_true(rig_region_host(g, &own));
        assert_ptr_equal(own.memory, peer.memory);
        assert_int_equal(rig_region_write(p, KIB(8) - 1, &byte, 1, NULL), RIG_OK);
        assert_true(rig_reads(r, 0, rig_region_address(g) + KIB(8) - 1, byte));
        /* It lasts as long as the memory does, whoever freed it. */
        rig_free(r, g);
        assert_int_equal(rig_region_read(p, KIB(8) - 1, &byte, 1, NULL), RIG_OK);
        assert_int_equal(byte, 0x90 + kind);
        rig_free(r, p);
    }
}

static void of_a_peers_region_it_maps_the_region_that_one_maps(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, KIB(4));
    struct rig_region p = rig_map_peer(r, 1, g);
    struct rig_region q = rig_map_peer(r, 2, p);
    assert_int_equal(rig_info(q).of, g.id);
    struct rig_mapping m = rig_page_table_at(r->m[2]->tables, rig_region_address(q));
    struct rig_bar_now bar;
    machine_bar(r->machine, rig_number(r, rig_gpu_names[0]), 0, &bar);
    assert_int_equal(m.physical, bar.bus + rig_page_of(g, 0));
    /* And for the owner it is its own memory again. */
    struct rig_region own = rig_map_peer(r, 0, q);
    assert_int_equal(rig_info(own).of, g.id);
    assert_int_equal(rig_info(own).target, RIG_TARGET_GPU);
}

/* What the twin and the page table did since. */
static uint64_t flushes(struct rig *r)
{
    return twin_steps(r->machine, TWIN_STEP_FLUSH);
}

static void memory_that_is_mapped_already_is_a_new_region_over_the_same_mapping(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_HOST, KIB(4));
    struct rig_region p = rig_map_peer(r, 1, g);
    struct twin_audit before, after;
    uint64_t flushed = flushes(r);
    twin_audit(r->machine, &before);
    struct rig_region again = rig_map_peer(r, 1, g), of_peer = rig_map_peer(r, 1, p);
    struct rig_region own = rig_map_peer(r, 0, g);
    twin_audit(r->machine, &after);
    assert_int_equal(before.pins, after.pins);
    assert_int_equal(flushes(r), flushed);
    assert_true(again.id != p.id && of_peer.id != again.id && own.id != g.id);
    assert_int_equal(rig_region_address(own), rig_region_address(g));
    rig_free(r, p);
    rig_free(r, of_peer);
    assert_true(rig_reads(r, 1, rig_region_address(again), 0));
    assert_int_equal(flushes(r), flushed);
    rig_free(r, again);
    assert_true(rig_faults(r, 1, rig_region_address(g)));
    rig_free(r, g);
    assert_true(rig_reads(r, 0, rig_region_address(own), 0));
    rig_free(r, own);
}

/* ---- refusals */

static void gpus_on_different_machines_are_refused(void **state)
{
    struct rig *r = *state;
    struct rig other;
    other = (struct rig){.machine = NULL};
    struct rig_topology *t = build_machine(RIG_SWITCH RIG_GPUS, "GenuineIntel:6");
    struct rig_gpus_options options = rig_space_options();
    options.unreserved = true;
    assert_int_equal(rig_twin_open(t, NULL, &other.machine, NULL), RIG_OK);
    assert_int_equal(rig_gpus_create(other.machine, &options, &other.gpus, NULL), RIG_OK);
    rig_take(&other, 1, NULL);
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, KIB(4)), p;
    struct rig_held before = rig_held(r);
    rig_refused(r, rig_memory_map_peer(other.m[1], g, &p, &r->err), "another machine",
                rig_gpu_names[0]);
    rig_same(before, rig_held(r));
    rig_topology_free(t);
    rig_close(&other);
}

static void gpus_of_different_spaces_are_refused_naming_both(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NULL, 1);
    struct rig_memory_options amd = {.format = "amd-gfx10"};
    rig_take(&r, 1, &amd);
    struct rig_region g = rig_alloc(&r, 0, RIG_KIND_HOST, KIB(4)), p;
    struct rig_held before = rig_held(&r);
    rig_refused(&r, rig_memory_map_peer(r.m[1], g, &p, &r.err), "space of amd", "that of plain");
    rig_same(before, rig_held(&r));
    rig_close(&r);
}

static void gpu_memory_that_is_not_reached_is_refused_and_system_memory_is_not(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NULL, 4);
    struct rig_held before = rig_held(&r);
    struct rig_region g = rig_alloc(&r, 0, RIG_KIND_GPU, KIB(4)), p;
    rig_refused(&r, rig_memory_map_peer(r.m[3], g, &p, &r.err), rig_gpu_names[3], rig_gpu_names[0]);
    struct rig_region h = rig_alloc(&r, 0, RIG_KIND_HOST, KIB(4));
    rig_free(&r, rig_map_peer(&r, 3, h));
    rig_free(&r, g);
    rig_free(&r, h);
    rig_same(before, rig_held(&r));
    rig_close(&r);
}

static void addresses_beyond_what_entries_hold_are_refused(void **state)
{
    (void)state;
    /* A BAR above 2^44: AMD's GPUs of the tenth generation hold 44 bits. */
    struct rig r;
    rig_open(&r, RIG_SWITCH "03:00.0 ep gpu=64/64\n04:00.0 ep gpu=64/64\n", 0);
    struct rig_memory_options amd = {.format = "amd-gfx10"};
    int far = rig_number(&r, rig_gpu_names[0]);
    twin_config_write(r.machine, far, 0x14, 4, 0x2000);
    /* The bridges above it forward there: prefetchable windows, upper halves. */
    static const char *const ports[] = {"0000:00:01.0", "0000:01:00.0", "0000:02:00.0"};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(ports); i++) {
        int port = rig_number(&r, ports[i]);
        twin_config_write(r.machine, port, 0x28, 4, 0);
        twin_config_write(r.machine, port, 0x2c, 4, 0x3000);
    }
    rig_take(&r, 0, &amd);
    rig_take(&r, 1, &amd);
    struct rig_bar_now bar;
    machine_bar(r.machine, far, 0, &bar);
    assert_true(bar.bus >> 44 != 0);
    struct rig_region g = rig_alloc(&r, 0, RIG_KIND_GPU, KIB(4)), p;
    struct rig_held before = rig_held(&r);
    rig_refused(&r, rig_memory_map_peer(r.m[1], g, &p, &r.err), "bits", NULL);
    rig_same(before, rig_held(&r));
    rig_close(&r);
}

static void memory_of_a_released_gpu_is_refused_naming_it(void **state)
{
    struct rig *r = *state;
    static const enum rig_kind kinds[] = {RIG_KIND_GPU, RIG_KIND_HOST};
    struct rig_region g[2], p;
    for (size_t i = 0; i < 2; i++)
        g[i] = rig_alloc(r, 0, kinds[i], KIB(4));
    assert_int_equal(rig_memory_release(r->m[0], NULL), RIG_OK);
    for (size_t i = 0; i < 2; i++)
        rig_refused(r, rig_memory_map_peer(r->m[1], g[i], &p, &r->err), rig_gpu_names[0],
                    "released");
    /* Also once its bus was taken anew. */
    rig_take(r, 0, NULL);
    rig_refused(r, rig_memory_map_peer(r->m[1], g[0], &p, &r->err), rig_gpu_names[0], "released");
    rig_refused(r, rig_memory_map_peer(r->m[0], g[0], &p, &r->err), rig_gpu_names[0], "released");
}

static void pages_that_cannot_be_pinned_are_refused_with_the_reason(void **state)
{
    struct rig *r = *state;
    struct rig_region h = rig_alloc(r, 0, RIG_KIND_HOST, KIB(4)), p;
    struct rig_held before = rig_held(r);
    twin_arm(r->machine, TWIN_FAULT_REFUSE, TWIN_STEP_PIN, 1);
    rig_refused(r, rig_memory_map_peer(r->m[1], h, &p, &r->err), "refuses", NULL);
    twin_arm(r->machine, TWIN_FAULT_NO_ROOM, TWIN_STEP_PIN, 1);
    assert_int_equal(rig_memory_map_peer(r->m[1], h, &p, NULL), RIG_NO_ROOM);
    rig_same(before, rig_held(r));
}

/* ---- misuse */

static void a_freed_region_is_misuse_also_where_its_address_is_used_again(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, KIB(4)), p, q;
    struct rig_region first = rig_map_peer(r, 1, g);
    rig_free(r, first);
    rig_free(r, g);
    rig_free(r, rig_alloc(r, 0, RIG_KIND_GPU, KIB(4)));
    struct rig_region h = rig_alloc(r, 0, RIG_KIND_GPU, KIB(4));
    assert_int_equal(rig_region_address(h), rig_page_of(h, 0) ? rig_region_address(h) : 0);
    rig_invalid(r, rig_memory_map_peer(r->m[1], g, &p, &r->err), "freed");
    rig_invalid(r, rig_memory_map_peer(r->m[1], first, &p, &r->err), "freed");
    rig_invalid(r, rig_memory_map_peer(r->m[0], g, &p, &r->err), "freed");
    q = rig_map_peer(r, 1, h);
    rig_free(r, q);
}

static void a_region_whose_original_was_freed_is_misuse(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, KIB(4)), q;
    struct rig_region p = rig_map_peer(r, 1, g);
    struct rig_region own = rig_map_peer(r, 0, g);
    rig_free(r, g);
    rig_invalid(r, rig_memory_map_peer(r->m[2], p, &q, &r->err), "freed");
    rig_invalid(r, rig_memory_map_peer(r->m[2], own, &q, &r->err), "freed");
    rig_invalid(r, rig_memory_map_peer(r->m[1], p, &q, &r->err), "freed");
}

static void other_memory_at_the_regions_addresses_is_misuse(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, KIB(8)), p;
    struct rig_target own = {.memory = RIG_MEMORY_OWN};
    struct rig_range elsewhere = {.address = MIB(32), .bytes = KIB(4)};
    /* A driver's own entry, at the region's second page. */
    assert_int_equal(rig_page_table_map(r->m[1]->tables, rig_region_address(g) + KIB(4), own,
                                        &elsewhere, 1, NULL),
                     RIG_OK);
    struct rig_held before = rig_held(r);
    rig_invalid(r, rig_memory_map_peer(r->m[1], g, &p, &r->err), "other memory");
    rig_same(before, rig_held(r));
}

/* ---- cut short */

static void a_mapping_left_by_a_cut_request_is_adopted_or_written_again(void **state)
{
    (void)state;
    for (int kind = RIG_KIND_GPU; kind <= RIG_KIND_HOST; kind++) {
        for (uint64_t n = 1;; n++) {
            struct rig r;
            rig_open(&r, NULL, 2);
            struct rig_held empty = rig_held(&r);
            struct rig_region g = rig_alloc(&r, 0, (enum rig_kind)kind, KIB(16)), p;
            twin_arm(r.machine, TWIN_FAULT_CUT, TWIN_STEP_ANY, n);
            enum rig_status status = rig_memory_map_peer(r.m[1], g, &p, NULL);
            bool fired = twin_fired(r.machine);
            assert_int_equal(status, fired ? RIG_FAILED : RIG_OK);
            twin_arm(r.machine, TWIN_FAULT_NONE, TWIN_STEP_ANY, 0);
            if (fired) {
                struct rig_held held = rig_held(&r);
                p = rig_map_peer(&r, 1, g);
                /* Nothing is held twice over. */
                assert_true(rig_held(&r).pins <= 1);
                assert_int_equal(rig_held(&r).blocks, held.blocks);
            }
            rig_gpu_write(&r, 1, rig_region_address(p), 0x3c);
            assert_true(rig_reads(&r, 0, rig_region_address(g), 0x3c));
            rig_free(&r, g);
            rig_free(&r, p);
            assert_true(rig_faults(&r, 1, rig_region_address(g)));
            rig_free(&r, rig_alloc(&r, 0, RIG_KIND_GPU, KIB(4)));
            rig_same(empty, rig_held(&r));
            rig_close(&r);
            if (!fired)
                break;
        }
    }
}

static void what_a_cut_request_wrote_is_adopted_without_a_write(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, KIB(16)), p;
    twin_arm(r->machine, TWIN_FAULT_CUT, TWIN_STEP_FLUSH, 1);
    assert_int_equal(rig_memory_map_peer(r->m[1], g, &p, NULL), RIG_FAILED);
    /* Entries were written before the flush: its tables hold the mapping whole. */
    uint64_t flushed = flushes(r);
    enum rig_mapped whole = RIG_MAPPED_NOT;
    for (struct mapping *m = r->m[1]->mappings; m; m = m->next)
        whole = rig_page_table_compare(r->m[1]->tables, m->address, m->target, m->ranges, m->count);
    p = rig_map_peer(r, 1, g);
    assert_int_equal(flushes(r), whole == RIG_MAPPED_WHOLE ? flushed : flushed + 2);
    assert_true(rig_reads(r, 1, rig_region_address(p), 0));
}

static void what_a_cut_request_left_ends_with_the_release(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_HOST, KIB(16)), p;
    struct rig_held before = rig_held(r);
    twin_arm(r->machine, TWIN_FAULT_CUT, TWIN_STEP_FLUSH, 1);
    assert_int_equal(rig_memory_map_peer(r->m[1], g, &p, NULL), RIG_FAILED);
    rig_free(r, g);
    rig_free(r, rig_alloc(r, 0, RIG_KIND_GPU, KIB(4)));
    /* The peer's tables may hold it: the memory stays. */
    assert_int_equal(rig_held(r).blocks, before.blocks);
    assert_int_equal(rig_memory_release(r->m[1], NULL), RIG_OK);
    rig_free(r, rig_alloc(r, 0, RIG_KIND_GPU, KIB(4)));
    struct rig_held after = rig_held(r);
    assert_int_equal(after.blocks, before.blocks - 1);
    assert_int_equal(after.grants, before.grants - 1);
    assert_int_equal(after.pins, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(a_peer_reaches_what_it_maps_at_the_same_address),
        RIG_TEST(gpu_memory_is_mapped_through_its_owners_bar),
        cmocka_unit_test(gpu_memory_is_mapped_over_the_link_of_a_fabric),
        RIG_TEST(system_memory_is_mapped_at_its_pages_which_a_pin_keeps),
        RIG_TEST(borrowed_memory_is_mapped_for_peers_too),
        RIG_TEST(a_peers_region_has_the_window_of_the_region_it_maps),
        RIG_TEST3(of_a_peers_region_it_maps_the_region_that_one_maps),
        RIG_TEST(memory_that_is_mapped_already_is_a_new_region_over_the_same_mapping),
        RIG_TEST(gpus_on_different_machines_are_refused),
        cmocka_unit_test(gpus_of_different_spaces_are_refused_naming_both),
        cmocka_unit_test(gpu_memory_that_is_not_reached_is_refused_and_system_memory_is_not),
        cmocka_unit_test(addresses_beyond_what_entries_hold_are_refused),
        RIG_TEST(memory_of_a_released_gpu_is_refused_naming_it),
        RIG_TEST(pages_that_cannot_be_pinned_are_refused_with_the_reason),
        RIG_TEST(a_freed_region_is_misuse_also_where_its_address_is_used_again),
        RIG_TEST3(a_region_whose_original_was_freed_is_misuse),
        RIG_TEST(other_memory_at_the_regions_addresses_is_misuse),
        cmocka_unit_test(a_mapping_left_by_a_cut_request_is_adopted_or_written_again),
        RIG_TEST(what_a_cut_request_wrote_is_adopted_without_a_write),
        RIG_TEST(what_a_cut_request_left_ends_with_the_release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
