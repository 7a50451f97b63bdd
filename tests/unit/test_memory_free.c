/* free, and what is kept: for peers, for a GPU that did not confirm, for the give-back. */
#include "double.h"
#include "rigs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void free_gives_any_region_back(void **state)
{
    struct rig *r = *state;
    struct rig_held before = rig_held(r);
    struct rig_region h = rig_alloc(r, 0, RIG_KIND_HOST, KIB(8)), b;
    struct rig_host host;
    assert_true(rig_region_host(h, &host));
    assert_int_equal(rig_memory_map_host(r->m[0], host.memory, KIB(4), &b, NULL), RIG_OK);
    struct rig_region all[] = {rig_alloc(r, 0, RIG_KIND_GPU, KIB(8)),
                               rig_alloc(r, 0, RIG_KIND_BAR, MIB(8)),
                               b,
                               rig_map_peer(r, 1, h),
                               rig_map_peer(r, 0, h),
                               h};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(all); i++)
        rig_free(r, all[i]);
    /* h's memory was kept for the peer's region, which ended before h did. */
    rig_same(before, rig_held(r));
}

static void the_mapping_stays_until_every_region_over_it_is_freed(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, KIB(4));
    struct rig_region own = rig_map_peer(r, 0, g);
    struct rig_held before = rig_held(r);
    rig_free(r, g);
    assert_true(rig_reads(r, 0, rig_region_address(own), 0));
    rig_same(before, rig_held(r));
    rig_free(r, own);
    assert_int_equal(rig_held(r).blocks, before.blocks - 1);
}

static void a_freed_region_is_misuse_for_free_also_where_its_address_is_used_again(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, KIB(4));
    rig_gpu_address at = rig_region_address(g);
    rig_free(r, g);
    struct rig_region h = rig_alloc(r, 0, RIG_KIND_GPU, KIB(4));
    assert_int_equal(rig_region_address(h), at);
    assert_true(h.id != g.id);
    rig_invalid(r, rig_memory_free(r->m[0], g, &r->err), "freed");
    assert_int_equal(rig_region_address(g), 0);
    assert_int_equal(rig_region_info(g, &(struct rig_region_info){.of = 0}, NULL), RIG_INVALID);
    assert_true(rig_reads(r, 0, at, 0));
    rig_free(r, h);
}

static void another_gpus_region_is_misuse_for_free(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_GPU, KIB(4)), p = rig_map_peer(r, 1, g);
    struct rig_held before = rig_held(r);
    rig_invalid(r, rig_memory_free(r->m[1], g, &r->err), "not of this GPU");
    rig_invalid(r, rig_memory_free(r->m[0], p, &r->err), "not of this GPU");
    /* A value that was made up: this GPU's memory, that region's id. */
    struct rig_region made_up = {.memory = r->m[1], .id = g.id};
    rig_invalid(r, rig_memory_free(r->m[1], made_up, &r->err), "freed");
    made_up.id = UINT64_MAX;
    rig_invalid(r, rig_memory_free(r->m[1], made_up, &r->err), "freed");
    rig_same(before, rig_held(r));
}

static void a_region_that_never_was_is_misuse_everywhere(void **state)
{
    struct rig *r = *state;
    const struct rig_region none[] = {
        {.memory = NULL}, {.memory = r->m[0]}, {.memory = r->m[0], .id = 77}};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(none); i++) {
        struct rig_region out;
        struct rig_region_info info;
        struct rig_pages pages;
        struct rig_host host;
        struct rig_bdf client;
        struct rig_bus_range *ranges;
        size_t count;
        uint8_t byte = 0;
        assert_int_equal(rig_memory_free(r->m[0], none[i], NULL), RIG_INVALID);
        assert_int_equal(rig_memory_map_peer(r->m[1], none[i], &out, NULL), RIG_INVALID);
        assert_int_equal(rig_memory_bus(r->m[0], none[i], NIC, &ranges, &count, NULL), RIG_INVALID);
        assert_int_equal(rig_region_info(none[i], &info, NULL), RIG_INVALID);
        assert_int_equal(rig_region_pages(none[i], &pages, NULL), RIG_INVALID);
        assert_int_equal(rig_region_read(none[i], 0, &byte, 1, NULL), RIG_INVALID);
        assert_int_equal(rig_region_write(none[i], 0, &byte, 1, NULL), RIG_INVALID);
        assert_false(rig_region_host(none[i], &host));
        assert_false(rig_region_client(none[i], 0, &client));
        assert_int_equal(rig_region_address(none[i]), 0);
    }
}

static void the_first_error_stays(void **state)
{
    struct rig *r = *state;
    struct rig_region g;
    struct rig_error err = {.status = RIG_REFUSED, .why = "earlier"};
    assert_int_equal(rig_memory_alloc(r->m[0], RIG_KIND_GPU, MIB(500), false, &g, &err),
                     RIG_NO_ROOM);
    assert_string_equal(err.why, "earlier");
    assert_int_equal(err.status, RIG_REFUSED);
}

/* ---- unconfirmed flushes */

static void an_unconfirmed_free_keeps_memory_and_addresses_until_the_give_back(void **state)
{
    (void)state;
    static const enum twin_flush flushes[] = {TWIN_FLUSH_NEVER, TWIN_FLUSH_LATE};
    for (size_t f = 0; f < RIG_ARRAY_LENGTH(flushes); f++)
        for (int kind = RIG_KIND_GPU; kind <= RIG_KIND_HOST; kind++) {
            struct rig r;
            rig_open(&r, NULL, 2);
            struct rig_held empty = rig_held(&r);
            struct rig_region g = rig_alloc(&r, 0, (enum rig_kind)kind, KIB(8));
            rig_gpu_address at = rig_region_address(g);
            assert_true(rig_reads(&r, 0, at, 0)); /* the translation is cached now */
            struct rig_held held = rig_held(&r);
            twin_set_flush(r.machine, rig_number(&r, rig_gpu_names[0]), flushes[f]);
            rig_free(&r, g);
            assert_true(rig_kept(g, "may still reach it"));
            assert_int_equal(rig_held(&r).grants, held.grants);
            assert_int_equal(rig_held(&r).blocks, held.blocks);
            /* Nothing is given out there, however often asked. */
            twin_set_flush(r.machine, rig_number(&r, rig_gpu_names[0]), TWIN_FLUSH_OK);
            for (int i = 0; i < 20; i++)
                assert_true(rig_region_address(rig_alloc(&r, 0, (enum rig_kind)kind, KIB(4))) !=
                            at);
            assert_int_equal(rig_memory_release(r.m[0], NULL), RIG_OK);
            struct rig_held after = rig_held(&r);
            assert_int_equal(after.grants, empty.grants);
            assert_int_equal(after.blocks, empty.blocks);
            assert_int_equal(rig_region_address(g), 0);
            rig_close(&r);
        }
}

static void all_ones_are_no_confirmation(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, NULL, 1);
    double_before(r.machine);
    struct rig_region g = rig_alloc(&r, 0, RIG_KIND_HOST, KIB(8));
    struct rig_held held = rig_held(&r);
    double_sleep(rig_number(&r, rig_gpu_names[0]), true);
    rig_free(&r, g);
    double_sleep(rig_number(&r, rig_gpu_names[0]), false);
    assert_true(rig_kept(g, "may still reach it"));
    assert_int_equal(rig_held(&r).grants, held.grants);
    double_end(r.machine);
    rig_close(&r);
}

static void empty_tables_go_back_after_a_confirmed_flush_alone(void **state)
{
    struct rig *r = *state;
    struct rig_held before = rig_held(r);
    /* At an address of its own tables. */
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_HOST, MIB(3));
    assert_true(rig_held(r).pool_free[0] < before.pool_free[0]);
    rig_free(r, g);
    rig_same(before, rig_held(r));
    g = rig_alloc(r, 0, RIG_KIND_HOST, MIB(3));
    uint64_t with_tables = rig_held(r).pool_free[0];
    twin_set_flush(r->machine, rig_number(r, rig_gpu_names[0]), TWIN_FLUSH_NEVER);
    rig_free(r, g);
    assert_int_equal(rig_held(r).pool_free[0], with_tables);
}

/* ---- peers */

static void kept_memory_goes_back_at_the_owners_next_call_and_not_before(void **state)
{
    (void)state;
    enum { ALLOC, MAP_HOST, MAP_PEER, FREE, RELEASE, CALLS };
    for (int kind = RIG_KIND_GPU; kind <= RIG_KIND_HOST; kind++)
        for (int call = ALLOC; call < CALLS; call++) {
            struct rig r;
            rig_open(&r, NULL, 2);
            struct rig_region other = rig_alloc(&r, 1, RIG_KIND_HOST, KIB(4)), made;
            struct rig_region mine = rig_alloc(&r, 0, RIG_KIND_HOST, KIB(4));
            struct rig_host host;
            assert_true(rig_region_host(mine, &host));
            struct rig_region g = rig_alloc(&r, 0, (enum rig_kind)kind, KIB(4));
            struct rig_region p = rig_map_peer(&r, 1, g);
            rig_gpu_address at = rig_region_address(g);
            rig_gpu_write(&r, 0, at, 0x11);
            rig_free(&r, g);
            assert_true(rig_kept(g, "0000:04:00.0 maps it"));
            assert_true(rig_faults(&r, 0, at));
            assert_true(rig_reads(&r, 1, at, 0x11));
            /* Not at the owner's calls while the peer maps it. */
            rig_free(&r, rig_alloc(&r, 0, (enum rig_kind)kind, KIB(4)));
            assert_true(rig_kept(g, "0000:04:00.0 maps it"));
            struct rig_held held = rig_held(&r);
            rig_free(&r, p);
            /* Not at the peer's free, nor by looking. */
            assert_true(rig_kept(g, "next call"));
            assert_int_equal(rig_held(&r).pool_free[0], held.pool_free[0]);
            assert_int_equal(rig_held(&r).blocks, held.blocks);
            enum rig_status status = RIG_OK;
            switch (call) {
            case ALLOC:
                status = rig_memory_alloc(r.m[0], RIG_KIND_GPU, KIB(4), false, &made, NULL);
                break;
            case MAP_HOST:
                status = rig_memory_map_host(r.m[0], host.memory, KIB(4), &made, NULL);
                break;
            case MAP_PEER:
                status = rig_memory_map_peer(r.m[0], other, &made, NULL);
                break;
            case FREE:
                status = rig_memory_free(r.m[0], mine, NULL);
                break;
            default:
                status = rig_memory_release(r.m[0], NULL);
            }
            assert_int_equal(status, RIG_OK);
            assert_int_equal(rig_region_info(g, &(struct rig_region_info){.of = 0}, NULL),
                             RIG_INVALID);
            rig_close(&r);
        }
}

static void the_peers_own_holds_begin_before_its_tables_point_there(void **state)
{
    (void)state;
    /* Cut before the flush of the map: entries may be there, and the pin and addresses are held. */
    struct rig r;
    rig_open(&r, NULL, 2);
    struct rig_region h = rig_alloc(&r, 0, RIG_KIND_HOST, KIB(4)), p;
    rig_gpu_address at = rig_region_address(h);
    uint64_t page = rig_page_of(h, 0);
    twin_arm(r.machine, TWIN_FAULT_CUT, TWIN_STEP_FLUSH, 1);
    assert_int_equal(rig_memory_map_peer(r.m[1], h, &p, NULL), RIG_FAILED);
    rig_free(&r, h);
    assert_int_equal(rig_memory_release(r.m[0], NULL), RIG_OK);
    assert_true(twin_page_held_for(r.machine, rig_number(&r, rig_gpu_names[1]), page));
    rig_take(&r, 0, NULL);
    for (int i = 0; i < 20; i++)
        assert_true(rig_region_address(rig_alloc(&r, 0, RIG_KIND_HOST, KIB(4))) != at);
    rig_close(&r);
}

static void a_peers_unconfirmed_free_keeps_both_holds_until_each_ones_release(void **state)
{
    (void)state;
    for (int kind = RIG_KIND_GPU; kind <= RIG_KIND_HOST; kind++)
        for (int owner_first = 0; owner_first < 2; owner_first++) {
            struct rig r;
            rig_open(&r, NULL, 2);
            struct rig_region g = rig_alloc(&r, 0, (enum rig_kind)kind, KIB(4));
            struct rig_region p = rig_map_peer(&r, 1, g);
            assert_true(rig_reads(&r, 1, rig_region_address(g), 0));
            struct rig_held held = rig_held(&r);
            twin_set_flush(r.machine, rig_number(&r, rig_gpu_names[1]), TWIN_FLUSH_NEVER);
            if (owner_first)
                rig_free(&r, g);
            rig_free(&r, p);
            assert_true(rig_kept(p, "may still reach it"));
            if (!owner_first)
                rig_free(&r, g);
            assert_true(rig_kept(g, "0000:04:00.0 may still reach it"));
            rig_free(&r, rig_alloc(&r, 0, RIG_KIND_GPU, KIB(4)));
            assert_int_equal(rig_held(&r).blocks, held.blocks);
            assert_int_equal(rig_held(&r).grants, held.grants);
            assert_int_equal(rig_held(&r).pins, held.pins);
            /* The peer's release gives its pin and its hold of the addresses back, and nothing of
               the owner's. */
            assert_int_equal(rig_memory_release(r.m[1], NULL), RIG_OK);
            rig_free(&r, rig_alloc(&r, 0, RIG_KIND_GPU, KIB(4)));
            assert_int_equal(rig_held(&r).pins, 0);
            assert_int_equal(rig_held(&r).blocks, held.blocks);
            assert_int_equal(rig_held(&r).grants, held.grants);
            assert_true(rig_kept(g, "released"));
            assert_int_equal(rig_memory_release(r.m[0], NULL), RIG_OK);
            assert_int_equal(rig_held(&r).blocks, 0);
            assert_int_equal(rig_held(&r).grants, 0);
            rig_close(&r);
        }
}

static void several_peers_keep_memory_until_the_last_one(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_BAR, KIB(4));
    struct rig_region p = rig_map_peer(r, 1, g), q = rig_map_peer(r, 2, g);
    rig_free(r, g);
    assert_true(rig_kept(g, "0000:04:00.0 maps it"));
    assert_true(rig_kept(g, "0000:05:00.0 maps it"));
    rig_free(r, p);
    rig_free(r, rig_alloc(r, 0, RIG_KIND_GPU, KIB(4)));
    assert_false(rig_kept(g, "0000:04:00.0 maps it"));
    assert_true(rig_kept(g, "0000:05:00.0 maps it"));
    rig_free(r, q);
    rig_free(r, rig_alloc(r, 0, RIG_KIND_GPU, KIB(4)));
    assert_false(rig_kept(g, ""));
}

static void an_address_is_given_out_again_only_when_its_memory_is_gone_for_all(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_HOST, KIB(4));
    rig_gpu_address at = rig_region_address(g);
    struct rig_region p = rig_map_peer(r, 1, g);
    rig_free(r, g);
    for (int i = 0; i < 8; i++) {
        struct rig_region a = rig_alloc(r, i % 2, RIG_KIND_HOST, KIB(4));
        assert_true(rig_region_address(a) != at);
        rig_free(r, a);
    }
    rig_free(r, p);
    /* The owner's next call gives it back first: then it is the lowest free address again. */
    struct rig_region again = rig_alloc(r, 0, RIG_KIND_HOST, KIB(4));
    assert_int_equal(rig_region_address(again), at);
}

static void looking_changes_nothing(void **state)
{
    struct rig *r = *state;
    struct rig_region g = rig_alloc(r, 0, RIG_KIND_HOST, KIB(4)), p = rig_map_peer(r, 1, g), x;
    rig_free(r, g);
    rig_free(r, p);
    struct rig_held before = rig_held(r);
    struct rig_pages pages;
    struct rig_host host;
    for (uint64_t id = 0; rig_gpus_next_region(r->gpus, id, &x); id = x.id) {
        assert_int_equal(x.id, g.id);
        rig_info(x);
        assert_int_equal(rig_region_pages(x, &pages, NULL), RIG_OK);
        rig_pages_free(&pages);
        rig_region_host(x, &host);
        rig_region_address(x);
    }
    rig_same(before, rig_held(r));
    assert_true(rig_kept(g, "next call"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(free_gives_any_region_back),
        RIG_TEST(the_mapping_stays_until_every_region_over_it_is_freed),
        RIG_TEST(a_freed_region_is_misuse_for_free_also_where_its_address_is_used_again),
        RIG_TEST(another_gpus_region_is_misuse_for_free),
        RIG_TEST(a_region_that_never_was_is_misuse_everywhere),
        RIG_TEST(the_first_error_stays),
        cmocka_unit_test(an_unconfirmed_free_keeps_memory_and_addresses_until_the_give_back),
        cmocka_unit_test(all_ones_are_no_confirmation),
        RIG_TEST(empty_tables_go_back_after_a_confirmed_flush_alone),
        cmocka_unit_test(kept_memory_goes_back_at_the_owners_next_call_and_not_before),
        cmocka_unit_test(the_peers_own_holds_begin_before_its_tables_point_there),
        cmocka_unit_test(a_peers_unconfirmed_free_keeps_both_holds_until_each_ones_release),
        RIG_TEST3(several_peers_keep_memory_until_the_last_one),
        RIG_TEST(an_address_is_given_out_again_only_when_its_memory_is_gone_for_all),
        RIG_TEST(looking_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
