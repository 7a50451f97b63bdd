/* What one process of a session left goes on in the next: give-backs that were cut short, borrowed
   addresses, windows, mappings over what may still be reached. */
#include "sessions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void a_give_back_that_was_cut_short_goes_on_in_the_next_process(void **state)
{
    (void)state;
    /* Two views, a pin, an allocation; then the claim alone is left. */
    for (uint64_t cut = 1; cut <= 5; cut++) {
        struct session s;
        session_open(&s);
        rig_gpu_address h = session_address(&s, session_alloc(&s, 0, RIG_KIND_HOST, KIB(8)));
        session_map_host(&s, 0, h, KIB(8));
        uint64_t bar = session_alloc(&s, 0, RIG_KIND_BAR, KIB(8));
        twin_arm(s.machine, TWIN_FAULT_CUT, TWIN_STEP_ANY, cut);
        session_release(&s, 0, RIG_FAILED);
        uint64_t blocks = rig_held_blocks(s.gpus);
        assert_int_equal(blocks, cut < 5 ? 3 : 0);
        session_next(&s);
        assert_int_equal(rig_held_blocks(s.gpus), blocks);
        rig_gpu_address other = session_address(&s, session_alloc(&s, 1, RIG_KIND_HOST, KIB(8)));
        assert_true((other == h) == (cut == 5));
        session_free(&s, bar);
        session_next(&s);
        rig_gpus_finish_releases(s.gpus);
        assert_int_equal(rig_held_blocks(s.gpus), 1);
        assert_int_equal(session_held(&s).grants, 1);
        assert_int_equal(session_held(&s).pins, 0);
        session_next(&s);
        assert_int_equal(rig_held_blocks(s.gpus), 1);
        session_close(&s);
    }
}

/* Windows on system memory are there in each process that asks for them, by the owner, by a peer
   and by a borrower; where the memory's file is gone, the question says so and nothing is lost. */
static void windows_of_a_process_before_are_there_when_they_are_asked_for(void **state)
{
    (void)state;
    struct session s;
    session_open(&s);
    uint64_t h = session_alloc(&s, 0, RIG_KIND_HOST, KIB(8)), id[3] = {h};
    rig_gpu_address at = session_address(&s, h);
    id[1] = session_map_peer(&s, 1, h);
    id[2] = session_map_host(&s, 2, at, KIB(8));
    for (int i = 0; i < 3; i++) {
        char text[8] = "";
        struct rig_host host;
        assert_int_equal(rig_region_write(session_region(&s, id[i]), 5000, "by all", 7, NULL),
                         RIG_OK);
        session_next(&s);
        assert_true(gpus_region_host(session_region(&s, id[i]), &host));
        assert_ptr_equal(host.memory, (void *)(uintptr_t)at);
        assert_int_equal(rig_region_read(session_region(&s, id[2 - i]), 5000, text, 7, NULL),
                         RIG_OK);
        assert_string_equal(text, "by all");
        memset(text, 0, sizeof text);
        session_next(&s);
        assert_true(rig_region_host(session_region(&s, id[i]), &host));
        assert_ptr_equal(host.memory, (void *)(uintptr_t)at);
        assert_string_equal((char *)host.memory + 5000, "by all");
        assert_int_equal(rig_region_write(session_region(&s, id[i]), 5000, "", 1, NULL), RIG_OK);
        session_next(&s);
    }
    char path[96], aside[96];
    snprintf(path, sizeof path, "%s/system-memory", s.directory);
    snprintf(aside, sizeof aside, "%s/aside", s.directory);
    assert_int_equal(rename(path, aside), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    struct rig_error err = {.status = RIG_OK};
    struct rig_host host;
    char text[8] = "kept";
    assert_int_equal(rig_region_read(session_region(&s, h), 0, text, 8, &err), RIG_FAILED);
    assert_string_equal(err.what, "system-memory");
    assert_false(rig_region_host(session_region(&s, id[1]), &host));
    assert_true(gpus_region_host(session_region(&s, id[1]), &host));
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rename(aside, path), 0);
    assert_int_equal(rig_region_write(session_region(&s, h), 0, text, 8, NULL), RIG_OK);
    memset(text, 0, sizeof text);
    assert_int_equal(rig_region_read(session_region(&s, id[1]), 0, text, 8, NULL), RIG_OK);
    assert_string_equal(text, "kept");
    session_close(&s);
}

/* Memory that was borrowed keeps its place in the process, also when it was freed: nothing else
   comes to lie there, in this process or the next, before the borrower frees it. */
static void borrowed_addresses_are_held_from_process_to_process(void **state)
{
    (void)state;
    for (int saves = 0; saves < 3; saves++) {
        struct session s;
        session_open(&s);
        uint64_t one = session_alloc(&s, 0, RIG_KIND_HOST, KIB(8));
        uint64_t two = session_alloc(&s, 0, RIG_KIND_HOST, KIB(8));
        rig_gpu_address at = session_address(&s, one);
        assert_true(session_address(&s, two) == at + KIB(8));
        /* Parts of both: of each block all is held. */
        uint64_t b = session_map_host(&s, 1, at + KIB(4) + 100, KIB(4) + 1);
        *(unsigned char *)(uintptr_t)(at + KIB(8)) = 0x77;
        assert_int_equal(rig_held_blocks(s.gpus), 3);
        if (saves == 2)
            session_next(&s);
        session_free(&s, one);
        session_free(&s, two);
        if (saves == 1)
            session_next(&s);
        assert_int_equal(rig_held_blocks(s.gpus), 3);
        assert_int_equal(session_held(&s).grants, 0);
        for (int i = 0; i < 4; i++) {
            rig_gpu_address other =
                session_address(&s, session_alloc(&s, i % 3, RIG_KIND_HOST, KIB(8)));
            assert_true(other != at && other != at + KIB(8));
        }
        /* The borrower still reaches the bytes. */
        uint8_t byte = 0;
        assert_int_equal(rig_twin_gpu_read(s.machine, rig_gpu_names[1],
                                           session_address(&s, b) + KIB(4) - 100, &byte, 1, NULL),
                         RIG_OK);
        assert_int_equal(byte, 0x77);
        byte = 0;
        assert_int_equal(rig_region_read(session_region(&s, b), KIB(4) - 100, &byte, 1, NULL),
                         RIG_OK);
        assert_int_equal(byte, 0x77);
        if (saves)
            session_next(&s);
        session_free(&s, b);
        assert_true(session_address(&s, session_alloc(&s, 2, RIG_KIND_HOST, KIB(8))) == at);
        assert_true(session_address(&s, session_alloc(&s, 2, RIG_KIND_HOST, KIB(8))) ==
                    at + KIB(8));
        session_close(&s);
    }
}

/* A peer of borrowed memory outlives the borrower, and the allocation that was lent: nothing else
   comes to lie where the process has the bytes, and they are mapped for others still. */
static void a_peer_of_borrowed_memory_holds_where_the_process_has_it(void **state)
{
    (void)state;
    for (int saves = 0; saves < 3; saves++) {
        struct session s;
        session_open(&s);
        uint64_t one = session_alloc(&s, 0, RIG_KIND_HOST, KIB(8));
        rig_gpu_address at = session_address(&s, one);
        *(unsigned char *)(uintptr_t)(at + KIB(4)) = 0x77;
        uint64_t lent = session_map_host(&s, 1, at + KIB(4), KIB(4));
        session_free(&s, one);
        if (saves == 1)
            session_next(&s);
        uint64_t peer = session_map_peer(&s, 2, lent);
        uint64_t anew = session_map_host(&s, 0, at + KIB(4), 1);
        session_free(&s, anew);
        /* the space of the borrower's addresses, and where the bytes are */
        assert_int_equal(rig_held_blocks(s.gpus), 2);
        session_free(&s, lent);
        session_release(&s, 1, RIG_OK);
        assert_int_equal(rig_held_blocks(s.gpus), 2);
        if (saves == 2)
            session_next(&s);
        uint64_t other = session_alloc(&s, 0, RIG_KIND_HOST, KIB(8));
        assert_true(session_address(&s, other) != at);
        memset((void *)(uintptr_t)session_address(&s, other), 0x55, KIB(8));
        uint8_t byte = 0;
        assert_int_equal(rig_region_read(session_region(&s, peer), 0, &byte, 1, NULL), RIG_OK);
        assert_int_equal(byte, 0x77);
        assert_int_equal(rig_twin_gpu_read(s.machine, rig_gpu_names[2], session_address(&s, peer),
                                           &byte, 1, NULL),
                         RIG_OK);
        assert_int_equal(byte, 0x77);
        session_free(&s, peer);
        assert_int_equal(*(unsigned char *)(uintptr_t)session_address(&s, other), 0x55);
        assert_true(session_address(&s, session_alloc(&s, 2, RIG_KIND_HOST, KIB(8))) == at);
        session_close(&s);
    }
}

static void a_borrower_holds_addresses_of_its_own_memory_and_of_its_own_borrowing(void **state)
{
    (void)state;
    struct session s;
    session_open(&s);
    uint64_t h = session_alloc(&s, 0, RIG_KIND_HOST, KIB(4));
    rig_gpu_address at = session_address(&s, h);
    uint64_t b = session_map_host(&s, 0, at, KIB(4)), c = session_map_host(&s, 0, at, 1);
    session_next(&s);
    session_free(&s, h);
    session_free(&s, b);
    session_next(&s);
    assert_true(session_address(&s, session_alloc(&s, 0, RIG_KIND_HOST, KIB(4))) != at);
    /* Its release gives the last one's back. */
    session_release(&s, 0, RIG_OK);
    session_next(&s);
    assert_int_equal(rig_held_blocks(s.gpus), 0);
    session_free(&s, c);
    assert_true(session_address(&s, session_alloc(&s, 1, RIG_KIND_HOST, KIB(4))) == at);
    session_close(&s);
}

static void addresses_with_nothing_at_them_cannot_be_borrowed(void **state)
{
    (void)state;
    struct session s;
    struct rig_region region;
    session_open(&s);
    uint64_t h = session_alloc(&s, 0, RIG_KIND_HOST, KIB(8)),
             g = session_alloc(&s, 0, RIG_KIND_GPU, KIB(8));
    rig_gpu_address at = session_address(&s, h), gpu = session_address(&s, g);
    const struct {
        rig_gpu_address at;
        uint64_t bytes;
    } empty[] = {
        {gpu, 1},                                /* addresses of GPU memory, which is not there */
        {gpu, KIB(8)},      {at, KIB(8) + 1},    /* beyond the end of what is there */
        {at - 1, 2},        {at + KIB(64), 1},   /* before it; where nothing ever was */
        {at, gpu - at + 1}, {at, KIB(64) << 20}, /* across all of it */
    };
    uint64_t blocks = rig_held_blocks(s.gpus);
    for (int process = 0; process < 2; process++) {
        for (size_t i = 0; i < RIG_ARRAY_LENGTH(empty); i++) {
            struct rig_error err = {.status = RIG_OK};
            assert_int_equal(rig_memory_map_host(session_memory(&s, 1),
                                                 (void *)(uintptr_t)empty[i].at, empty[i].bytes,
                                                 &region, &err),
                             RIG_REFUSED);
            assert_non_null(strstr(err.why, "no pages at"));
            assert_int_equal(rig_held_blocks(s.gpus), blocks);
            assert_int_equal(session_held(&s).pins, 0);
        }
        session_next(&s);
    }
    session_free(&s, h);
    assert_int_equal(
        rig_memory_map_host(session_memory(&s, 1), (void *)(uintptr_t)at, 1, &region, NULL),
        RIG_REFUSED);
    assert_int_equal(rig_held_blocks(s.gpus), blocks - 1);
    session_close(&s);
}

/* A bus client keeps the GPU taken: its memory's window goes on too. */
static void the_window_of_a_kept_gpu_is_there_in_the_next_process(void **state)
{
    (void)state;
    struct session s;
    session_open(&s);
    uint64_t bar = session_alloc(&s, 0, RIG_KIND_BAR, KIB(8));
    uint64_t other = session_alloc(&s, 0, RIG_KIND_BAR, KIB(8));
    struct rig_bus_range *ranges;
    size_t count;
    assert_int_equal(
        rig_memory_bus(session_memory(&s, 0), session_region(&s, bar), NIC, &ranges, &count, NULL),
        RIG_OK);
    uint8_t byte = 0x66;
    assert_int_equal(rig_region_write(session_region(&s, bar), 5, &byte, 1, NULL), RIG_OK);
    session_release(&s, 0, RIG_OK);
    for (int process = 0; process < 3; process++) {
        session_next(&s);
        byte = 0;
        assert_int_equal(rig_region_read(session_region(&s, bar), 5, &byte, 1, NULL), RIG_OK);
        assert_int_equal(byte, 0x66);
        struct rig_device *dev;
        assert_int_equal(rig_device_take(s.machine, rig_gpu_names[0], &dev, NULL), RIG_REFUSED);
        if (process == 1)
            session_free(&s, other);
    }
    /* The client still writes it, whatever is freed. */
    session_free(&s, bar);
    byte = 0x67;
    assert_int_equal(rig_twin_write(s.machine, NIC, ranges[0].address, &byte, 1, NULL), RIG_OK);
    session_next(&s);
    free(ranges);
    session_close(&s);
}

/* A peer's free that is not confirmed leaves what it held; the next map_peer of the same memory
   lies over it. */
static void memory_that_is_mapped_again_over_what_may_be_reached_goes_on(void **state)
{
    (void)state;
    for (int kind = RIG_KIND_GPU; kind <= RIG_KIND_HOST; kind++) {
        struct session s;
        session_open(&s);
        uint64_t h = session_alloc(&s, 0, (enum rig_kind)kind, KIB(8)), p = 0;
        int peer = session_memory(&s, 1)->function;
        for (int round = 0; round < 3; round++) {
            p = session_map_peer(&s, 1, h);
            session_next(&s);
            uint8_t byte;
            assert_int_equal(rig_twin_gpu_read(s.machine, rig_gpu_names[1], session_address(&s, p),
                                               &byte, 1, NULL),
                             RIG_OK);
            twin_set_flush(s.machine, peer, TWIN_FLUSH_NEVER);
            session_free(&s, p);
            session_next(&s);
        }
        twin_set_flush(s.machine, peer, TWIN_FLUSH_OK);
        p = session_map_peer(&s, 1, h);
        session_next(&s);
        session_free(&s, p);
        session_free(&s, h);
        /* What the first three left is reached until the releases. */
        assert_true(rig_held_blocks(s.gpus) == 1);
        session_next(&s);
        session_release(&s, 0, RIG_OK);
        session_release(&s, 1, RIG_OK);
        session_next(&s);
        assert_int_equal(rig_held_blocks(s.gpus), 0);
        assert_int_equal(session_held(&s).grants + session_held(&s).pins, 0);
        session_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_give_back_that_was_cut_short_goes_on_in_the_next_process),
        cmocka_unit_test(windows_of_a_process_before_are_there_when_they_are_asked_for),
        cmocka_unit_test(borrowed_addresses_are_held_from_process_to_process),
        cmocka_unit_test(a_peer_of_borrowed_memory_holds_where_the_process_has_it),
        cmocka_unit_test(a_borrower_holds_addresses_of_its_own_memory_and_of_its_own_borrowing),
        cmocka_unit_test(addresses_with_nothing_at_them_cannot_be_borrowed),
        cmocka_unit_test(the_window_of_a_kept_gpu_is_there_in_the_next_process),
        cmocka_unit_test(memory_that_is_mapped_again_over_what_may_be_reached_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
