/* bus, reach and reaches: other functions, and whose memory a GPU maps. */
#include "rigs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct granted {
    struct rig_bus_range *ranges;
    size_t count;
};

static struct granted grant(struct rig *r, struct rig_region region, const char *client)
{
    struct granted g;
    if (rig_memory_bus(region.memory, region, client, &g.ranges, &g.count, &r->err) != RIG_OK)
        fail_msg("%s: %s", r->err.what, r->err.why);
    return g;
}

static uint64_t sum(const struct granted *g)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < g->count; i++) {
        assert_int_equal((g->ranges[i].address | g->ranges[i].bytes) % KIB(4), 0);
        bytes += g->ranges[i].bytes;
    }
    return bytes;
}

static void bus_gives_where_a_client_reaches_the_memory_in_order(void **state)
{
    struct rig *r = *state;
    for (int kind = RIG_KIND_GPU; kind <= RIG_KIND_HOST; kind++) {
        struct rig_region g = rig_alloc(r, 0, (enum rig_kind)kind, KIB(64));
        struct granted at = grant(r, g, NIC);
        assert_int_equal(sum(&at), KIB(64));
        uint64_t offset = 0;
        for (size_t i = 0; i < at.count; i++) {
            /* The client's writes land in the memory itself. */
            uint8_t mark = (uint8_t)(0x80 + i);
            assert_int_equal(rig_twin_write(r->machine, NIC, at.ranges[i].address, &mark, 1, NULL),
                             RIG_OK);
            assert_true(rig_reads(r, 0, rig_region_address(g) + offset, mark));
            offset += at.ranges[i].bytes;
        }
        free(at.ranges);
    }
}

static void gpu_memory_lies_at_the_bars_bus_address_plus_its_own(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, KIB(8));
    struct rig_bar_now bar;
    machine_bar(r->machine, rig_number(r, rig_gpu_names[0]), 0, &bar);
    struct granted at = grant(r, g, NIC);
    assert_int_equal(at.ranges[0].address, bar.bus + rig_page_of(g, 0));
    free(at.ranges);
    struct rig_region h = rig_alloc(r, 0, RIG_KIND_HOST, KIB(8));
    at = grant(r, h, NIC);
    assert_int_equal(at.ranges[0].address, rig_page_of(h, 0));
    free(at.ranges);
}

static void granted_memory_is_never_allocated_again(void **state)
{
    struct rig *r = *state;
    for (int kind = RIG_KIND_GPU; kind <= RIG_KIND_HOST; kind++) {
        struct rig_region g = rig_alloc(r, 0, (enum rig_kind)kind, KIB(64));
        struct granted at = grant(r, g, NIC);
        uint64_t page = rig_page_of(g, 0);
        struct rig_held held = rig_held(r);
        rig_free(r, g);
        assert_true(rig_kept(g, "reserved for " NIC));
        assert_true(rig_faults(r, 0, rig_region_address(g)));
        struct rig_held after = rig_held(r);
        assert_int_equal(after.grants, held.grants);
        assert_int_equal(after.blocks, held.blocks);
        for (int i = 0; i < 20; i++) {
            struct rig_region other = rig_alloc(r, 0, (enum rig_kind)kind, KIB(64));
            assert_true(rig_page_of(other, 0) != page);
        }
        struct rig_bdf client;
        assert_true(rig_region_client(g, 0, &client));
        assert_false(rig_region_client(g, 1, &client));
        free(at.ranges);
    }
}

static void asking_again_reserves_nothing_more(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, KIB(4));
    struct granted a = grant(r, g, NIC), b = grant(r, g, NIC), c = grant(r, g, "0000:04:00.0");
    struct rig_bdf client;
    assert_int_equal(a.ranges[0].address, b.ranges[0].address);
    assert_true(rig_region_client(g, 1, &client));
    assert_false(rig_region_client(g, 2, &client));
    free(a.ranges);
    free(b.ranges);
    free(c.ranges);
}

static void a_gpu_whose_memory_was_granted_stays_taken_and_gives_back_nothing(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, KIB(4));
    struct rig_region h = rig_alloc(r, 0, RIG_KIND_HOST, KIB(8)), b;
    struct rig_region given = rig_alloc(r, 0, RIG_KIND_HOST, KIB(4));
    struct rig_region kept = rig_alloc(r, 0, RIG_KIND_HOST, KIB(4));
    struct rig_host host;
    assert_true(rig_region_host(h, &host));
    assert_int_equal(rig_memory_map_host(r->m[0], host.memory, KIB(4), &b, NULL), RIG_OK);
    struct granted at = grant(r, g, NIC), at_host = grant(r, given, NIC);
    struct rig_held before = rig_held(r);
    assert_int_equal(rig_memory_release(r->m[0], NULL), RIG_OK);
    assert_int_equal(rig_device_life(r->device[0]), RIG_LIFE_KEPT);
    assert_int_equal(twin_config_read(r->machine, rig_number(r, rig_gpu_names[0]), 4, 2) & 4, 0);
    struct rig_device *dev;
    rig_refused(r, rig_device_take(r->machine, rig_gpu_names[0], &dev, &r->err), NIC, "reserved");
    struct rig_held held = rig_held(r);
    assert_int_equal(held.grants, before.grants);
    assert_int_equal(held.pins, before.pins);
    assert_int_equal(held.blocks, before.blocks);
    /* Each later free gives that region's part back, but for what was given. */
    rig_free(r, b);
    assert_int_equal(rig_held(r).pins, 0);
    assert_int_equal(rig_held(r).blocks, before.blocks - 1);
    rig_free(r, h);
    assert_int_equal(rig_held(r).grants, before.grants - 1);
    assert_int_equal(rig_held(r).blocks, before.blocks - 2);
    rig_free(r, given);
    rig_free(r, g);
    assert_int_equal(rig_held(r).grants, before.grants - 1);
    assert_int_equal(rig_held(r).blocks, before.blocks - 2);
    assert_true(rig_kept(g, "reserved for"));
    assert_true(rig_info(kept).out);
    /* The client's writes still land there, and nowhere that was given out. */
    uint8_t mark = 0x4d;
    assert_int_equal(rig_twin_write(r->machine, NIC, at.ranges[0].address, &mark, 1, NULL), RIG_OK);
    free(at.ranges);
    free(at_host.ranges);
}

static void nothing_of_a_granted_gpu_goes_back_while_it_may_master_the_bus(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NULL, 1);
    int gpu = rig_number(&r, rig_gpu_names[0]);
    struct rig_region g = rig_alloc(&r, 0, RIG_KIND_GPU, KIB(4));
    struct rig_region h = rig_alloc(&r, 0, RIG_KIND_HOST, KIB(4));
    struct granted at = grant(&r, g, NIC);
    struct rig_held before = rig_held(&r);
    twin_set_gone(r.machine, gpu);
    assert_int_equal(rig_memory_release(r.m[0], NULL), RIG_FAILED);
    rig_free(&r, h);
    struct rig_held held = rig_held(&r);
    assert_int_equal(held.grants, before.grants);
    assert_int_equal(held.blocks, before.blocks);
    twin_set_failed(r.machine);
    assert_int_equal(rig_memory_release(r.m[0], NULL), RIG_OK);
    assert_int_equal(rig_held(&r).grants, before.grants - 1);
    assert_int_equal(rig_held(&r).blocks, before.blocks - 1);
    free(at.ranges);
    rig_close(&r);
}

static void the_sessions_end_turns_all_mastering_off_before_anything_goes_back(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NULL, 2);
    struct rig_region g = rig_alloc(&r, 0, RIG_KIND_GPU, KIB(4));
    struct granted at = grant(&r, g, NIC);
    rig_map_peer(&r, 1, g);
    free(at.ranges);
    rig_gpus_free(r.gpus);
    assert_int_equal(rig_machine_close(r.machine, &r.err), RIG_OK);
}

static void peers_of_granted_memory_go_on_and_free_as_always(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, KIB(4));
    struct rig_region p = rig_map_peer(r, 1, g);
    struct granted at = grant(r, g, NIC);
    struct rig_held held = rig_held(r);
    rig_free(r, g);
    assert_true(rig_reads(r, 1, rig_region_address(p), 0));
    rig_free(r, p);
    rig_free(r, rig_alloc(r, 0, RIG_KIND_GPU, KIB(4)));
    assert_int_equal(rig_held(r).blocks, held.blocks);
    assert_true(rig_kept(g, "reserved for"));
    free(at.ranges);
}

/* ---- refusals */

static void a_client_that_is_no_function_is_refused_by_name(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, KIB(4));
    struct rig_bus_range *ranges;
    size_t count;
    static const char *const clients[] = {"nic0", "", "06:00", "0000:06:00.0 ", "0000:77:00.0"};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(clients); i++)
        rig_refused(r, rig_memory_bus(r->m[0], g, clients[i], &ranges, &count, &r->err), clients[i],
                    NULL);
    rig_free(r, g);
    assert_false(device_reserved(r->device[0]));
}

static void functions_behind_an_iommu_that_translates_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *who;
    } cases[] = {
        {"03:00.0 ep gpu=64/64 iommu=translate\n", "0000:03:00.0"},
        {"03:00.0 ep gpu=64/64\n04:00.0 ep class=020000 iommu=translate\n", "0000:04:00.0"},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(cases); i++) {
        struct rig r;
        char text[1024];
        snprintf(text, sizeof text, "%s%s", RIG_SWITCH, cases[i].text);
        rig_open(&r, text, 1);
        struct rig_bus_range *ranges;
        size_t count;
        for (int kind = RIG_KIND_GPU; kind <= RIG_KIND_HOST; kind++) {
            struct rig_region g = rig_alloc(&r, 0, (enum rig_kind)kind, KIB(4));
            rig_refused(
                &r,
                rig_memory_bus(r.m[0], g, i == 0 ? NIC : "0000:04:00.0", &ranges, &count, &r.err),
                cases[i].who, "IOMMU");
        }
        assert_false(device_reserved(r.device[0]));
        rig_close(&r);
    }
}

static void gpu_memory_that_the_bar_does_not_show_whole_is_refused(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, RIG_SWITCH "03:00.0 ep gpu=128/64\n", 1);
    struct rig_bus_range *ranges;
    size_t count;
    struct rig_region g = rig_alloc(&r, 0, RIG_KIND_BAR, KIB(4));
    rig_refused(&r, rig_memory_bus(r.m[0], g, NIC, &ranges, &count, &r.err), "64 MiB of 128 MiB",
                NULL);
    struct rig_region h = rig_alloc(&r, 0, RIG_KIND_HOST, KIB(4));
    struct granted at = grant(&r, h, NIC);
    free(at.ranges);
    rig_close(&r);
}

static void a_bus_that_does_not_carry_the_requests_is_refused_with_the_port(void **state)
{
    (void)state;
    static const char text[] = "00:01.0 rp 01-06\n01:00.0 up 02-06\n"
                               "02:00.0 down 03-03\n02:03.0 down 06-06 acs=001d\n"
                               "06:00.0 ep class=020000\n03:00.0 ep gpu=64/64\n";
    struct rig r;
    rig_open(&r, text, 1);
    struct rig_bus_range *ranges;
    size_t count;
    struct rig_region g = rig_alloc(&r, 0, RIG_KIND_GPU, KIB(4));
    rig_refused(&r, rig_memory_bus(r.m[0], g, NIC, &ranges, &count, &r.err), NIC, "0000:02:03.0");
    /* System memory is reached all the same. */
    struct granted at = grant(&r, rig_alloc(&r, 0, RIG_KIND_HOST, KIB(4)), NIC);
    free(at.ranges);
    rig_close(&r);
}

static void a_machine_behind_a_transport_is_refused(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, KIB(4)), p;
    struct rig_bus_range *ranges;
    size_t count;
    r->machine->remote = true;
    rig_refused(r, rig_memory_bus(r->m[0], g, NIC, &ranges, &count, &r->err), "transport", NULL);
    rig_refused(r, rig_memory_map_peer(r->m[1], g, &p, &r->err), "transport", NULL);
    r->machine->remote = false;
}

static void what_alloc_did_not_give_is_misuse(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_HOST, KIB(4)), b;
    struct rig_region p = rig_map_peer(r, 1, g), own = rig_map_peer(r, 0, g);
    struct rig_host host;
    assert_true(rig_region_host(g, &host));
    assert_int_equal(rig_memory_map_host(r->m[0], host.memory, KIB(4), &b, NULL), RIG_OK);
    struct rig_bus_range *ranges;
    size_t count;
    const struct rig_region wrong[] = {b, own, p};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(wrong); i++)
        rig_invalid(r, rig_memory_bus(wrong[i].memory, wrong[i], NIC, &ranges, &count, &r->err),
                    "not memory that was allocated");
    rig_invalid(r, rig_memory_bus(r->m[1], g, NIC, &ranges, &count, &r->err), "not memory");
    rig_free(r, g);
    rig_invalid(r, rig_memory_bus(r->m[0], g, NIC, &ranges, &count, &r->err), "freed");
    assert_false(device_reserved(r->device[0]));
}

/* ---- reach */

static bool reaches(struct rig *r, int by, int to)
{
    struct rig_reach_facts a = rig_memory_reach(r->m[by]), b = rig_memory_reach(r->m[to]);
    return rig_reaches(rig_machine_topology(r->machine), &a, &b);
}

static void reaches_is_what_map_peer_does(void **state)
{
    (void)state;
    static const char *const machines[] = {
        RIG_SWITCH RIG_GPUS,
        RIG_SWITCH
        "03:00.0 ep gpu=64/32\n04:00.0 ep gpu=64/64\n05:00.0 ep gpu=32/32 iommu=translate\n"
        "08:00.0 ep gpu=64/64\n",
        "00:01.0 rp 01-05\n00:02.0 rp 08-08\n01:00.0 up 02-05\n02:00.0 down 03-03 acs=001d\n"
        "02:01.0 down 04-04\n02:02.0 down 05-05\n" RIG_GPUS,
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(machines); i++) {
        struct rig r;
        rig_open(&r, machines[i], 4);
        int yes = 0;
        for (int by = 0; by < 4; by++)
            for (int to = 0; to < 4; to++) {
                struct rig_region g = rig_alloc(&r, to, RIG_KIND_GPU, KIB(4)), p;
                enum rig_status status = rig_memory_map_peer(r.m[by], g, &p, NULL);
                if (by == to) {
                    assert_false(reaches(&r, by, to));
                    assert_int_equal(status, RIG_OK);
                    continue;
                }
                assert_int_equal(status, reaches(&r, by, to) ? RIG_OK : RIG_REFUSED);
                yes += status == RIG_OK;
            }
        /* Under the switch: all of three; by two (one small BAR, one IOMMU): 0 -> 1 alone; gpu0's
           port redirects: 1 and 2. */
        static const int expected[] = {6, 1, 2};
        assert_int_equal(yes, expected[i]);
        rig_close(&r);
    }
}

static void reach_is_a_value_the_same_at_every_open(void **state)
{
    struct rig *r = *state;
    struct rig_reach_facts before = rig_memory_reach(r->m[0]), copy = before;
    struct rig_reach_facts other = rig_memory_reach(r->m[1]);
    assert_int_equal(rig_memory_release(r->m[0], NULL), RIG_OK);
    assert_true(rig_reaches(rig_machine_topology(r->machine), &copy, &other));
    rig_take(r, 0, NULL);
    struct rig_reach_facts after = rig_memory_reach(r->m[0]);
    assert_true(rig_reach_facts_equal(&before, &after));
    assert_false(rig_reach_facts_equal(&before, &other));
    assert_false(rig_reaches(rig_machine_topology(r->machine), &before, &after));
}

static void reaches_of_other_machines_and_spaces_is_false(void **state)
{
    struct rig *r = *state;
    const struct rig_topology *t = rig_machine_topology(r->machine);
    struct rig_reach_facts a = rig_memory_reach(r->m[0]), b = rig_memory_reach(r->m[1]), c = b;
    assert_true(rig_reaches(t, &a, &b));
    c.machine++;
    assert_false(rig_reaches(t, &a, &c));
    c = b;
    c.space += 4096;
    assert_false(rig_reaches(t, &a, &c));
    c = b;
    c.bar_assigned = false;
    assert_false(rig_reaches(t, &a, &c));
    c = b;
    a.remote = c.remote = true;
    assert_false(rig_reaches(t, &a, &c));
    /* A link joins them whatever the bus does. */
    a.linked = c.linked = true;
    a.link.place = 1;
    c.addressing = RIG_IOMMU;
    assert_true(rig_reaches(t, &a, &c));
    a.link.fabric = 1;
    assert_false(rig_reaches(t, &a, &c));
}

static void through_the_root_complex_it_is_the_cpu_and_linuxs_list(void **state)
{
    (void)state;
    static const struct {
        const char *cpu, *host;
        bool reaches;
    } cases[] = {
        {"GenuineIntel:6", "00:00.0 host id=8086:1234\n", false},
        {"GenuineIntel:6", "00:00.0 host id=8086:2030\n", true}, /* Skylake-E, in the list */
        {"AuthenticAMD:23", "00:00.0 host id=1022:1234\n", true},
        {"AuthenticAMD:21", "00:00.0 host id=1022:1234\n", false},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(cases); i++) {
        struct rig r = {.machine = NULL};
        char text[1024];
        snprintf(text, sizeof text, "%s00:01.0 rp 03-03\n00:02.0 rp 04-04\n%s", cases[i].host,
                 "03:00.0 ep gpu=64/64\n04:00.0 ep gpu=64/64\n");
        struct rig_topology *t = build_machine(text, cases[i].cpu);
        struct rig_gpus_options options = rig_space_options();
        assert_int_equal(rig_twin_open(t, NULL, &r.machine, NULL), RIG_OK);
        assert_int_equal(rig_gpus_create(r.machine, &options, &r.gpus, NULL), RIG_OK);
        rig_take(&r, 0, NULL);
        rig_take(&r, 1, NULL);
        assert_int_equal(reaches(&r, 0, 1), cases[i].reaches);
        rig_topology_free(t);
        rig_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(bus_gives_where_a_client_reaches_the_memory_in_order),
        RIG_TEST(gpu_memory_lies_at_the_bars_bus_address_plus_its_own),
        RIG_TEST(granted_memory_is_never_allocated_again),
        RIG_TEST(asking_again_reserves_nothing_more),
        RIG_TEST(a_gpu_whose_memory_was_granted_stays_taken_and_gives_back_nothing),
        cmocka_unit_test(nothing_of_a_granted_gpu_goes_back_while_it_may_master_the_bus),
        cmocka_unit_test(the_sessions_end_turns_all_mastering_off_before_anything_goes_back),
        RIG_TEST(peers_of_granted_memory_go_on_and_free_as_always),
        RIG_TEST(a_client_that_is_no_function_is_refused_by_name),
        cmocka_unit_test(functions_behind_an_iommu_that_translates_are_refused),
        cmocka_unit_test(gpu_memory_that_the_bar_does_not_show_whole_is_refused),
        cmocka_unit_test(a_bus_that_does_not_carry_the_requests_is_refused_with_the_port),
        RIG_TEST(a_machine_behind_a_transport_is_refused),
        RIG_TEST(what_alloc_did_not_give_is_misuse),
        cmocka_unit_test(reaches_is_what_map_peer_does),
        RIG_TEST(reach_is_a_value_the_same_at_every_open),
        RIG_TEST(reaches_of_other_machines_and_spaces_is_false),
        cmocka_unit_test(through_the_root_complex_it_is_the_cpu_and_linuxs_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
