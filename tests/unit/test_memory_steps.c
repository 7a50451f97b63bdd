/* Every request with every operation under it gone wrong: what it took is given back, or is the
   function's, and nothing is lost, doubled, or given out while it is reached. */
#include "double.h"
#include "rigs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What the requests of a test find: memory of each kind of gpu0, its peer's regions over it, one
   whose memory is due to go back, and something to borrow. */
struct scene {
    struct rig r;
    struct rig_held empty;
    struct rig_region own[3], peer[3], due, borrowed;
    void *bytes;
};

static void set_scene(struct scene *s, bool translated)
{
    rig_open(&s->r, translated ? RIG_SWITCH RIG_GPUS_IOMMU : NULL, 2);
    double_before(s->r.machine);
    s->empty = rig_held(&s->r);
    for (int kind = RIG_KIND_GPU; kind <= RIG_KIND_HOST; kind++) {
        s->own[kind] = rig_alloc(&s->r, 0, (enum rig_kind)kind, KIB(12));
        /* Behind an IOMMU GPU memory has no peers. */
        if (!translated || kind == RIG_KIND_HOST)
            s->peer[kind] = rig_map_peer(&s->r, 1, s->own[kind]);
    }
    struct rig_host host;
    assert_true(rig_region_host(s->own[RIG_KIND_HOST], &host));
    s->bytes = host.memory;
    s->due = rig_alloc(&s->r, 0, RIG_KIND_HOST, KIB(4));
    struct rig_region p = rig_map_peer(&s->r, 1, s->due);
    rig_free(&s->r, s->due);
    rig_free(&s->r, p);
}

enum request {
    ALLOC_GPU,
    ALLOC_BAR,
    ALLOC_HOST,
    MAP_HOST,
    MAP_PEER_GPU,
    MAP_PEER_HOST,
    FREE_GPU,
    FREE_BAR,
    FREE_HOST,
    FREE_PEER_GPU,
    FREE_PEER_HOST,
    RELEASE_OWNER,
    RELEASE_PEER,
    REQUESTS,
};

/* map_peer is of memory that gpu1 allocates for it. */
static enum rig_status ask(struct scene *s, enum request request, struct rig_region of,
                           struct rig_region *out)
{
    struct rig_memory *m = s->r.m[0], *other = s->r.m[1];
    switch (request) {
    case ALLOC_GPU:
    case ALLOC_BAR:
    case ALLOC_HOST:
        return rig_memory_alloc(m, (enum rig_kind)request, KIB(20), false, out, NULL);
    case MAP_HOST:
        return rig_memory_map_host(m, s->bytes, KIB(8), out, NULL);
    case MAP_PEER_GPU:
    case MAP_PEER_HOST:
        return rig_memory_map_peer(m, of, out, NULL);
    case FREE_GPU:
    case FREE_BAR:
    case FREE_HOST:
        return rig_memory_free(m, s->own[request - FREE_GPU], NULL);
    case FREE_PEER_GPU:
        return rig_memory_free(other, s->peer[RIG_KIND_GPU], NULL);
    case FREE_PEER_HOST:
        return rig_memory_free(other, s->peer[RIG_KIND_HOST], NULL);
    case RELEASE_OWNER:
        return rig_memory_release(m, NULL);
    default:
        return rig_memory_release(other, NULL);
    }
}

static bool makes(enum request request)
{
    return request <= MAP_PEER_HOST;
}

/* Each page of system memory that a GPU's work reaches, by its cache too, is held for the GPU. */
static void check_reach(struct scene *s, rig_gpu_address at)
{
    for (int gpu = 0; gpu < 2; gpu++) {
        struct twin_translation to;
        int function = rig_number(&s->r, rig_gpu_names[gpu]);
        if (!twin_translate(s->r.machine, function, at, &to) || to.memory != RIG_MEMORY_SYSTEM ||
            to.gpu >= 0 || device_masters(s->r.device[gpu]) == false)
            continue;
        if (device_addressing(s->r.device[gpu]) == RIG_PHYSICAL && to.address >= UINT64_C(1) << 32)
            assert_true(twin_page_held_for(s->r.machine, function, to.address) ||
                        to.address >= (UINT64_C(12) << 30));
    }
}

/* Releases both, twice where the first was cut: nothing may be held then but what is GPU memory of
   a function that is given back. */
static void end_scene(struct scene *s)
{
    double_arm(DOUBLE_OFF, 0, -1);
    for (int i = 0; i < 2; i++) {
        enum rig_status status = RIG_FAILED;
        for (int tries = 0; tries < 3 && status != RIG_OK; tries++)
            status = rig_memory_release(s->r.m[i], NULL);
        assert_int_equal(status, RIG_OK);
    }
    rig_gpus_finish_releases(s->r.gpus);
    struct rig_held left = rig_held(&s->r);
    assert_int_equal(left.grants, 0);
    assert_int_equal(left.pins, 0);
    assert_int_equal(left.views, 0);
    assert_int_equal(left.blocks, 0);
    assert_int_equal(left.system_free, s->empty.system_free);
    for (int i = 0; i < 2; i++)
        assert_int_equal(rig_device_life(s->r.device[i]), RIG_LIFE_STOPPED);
    double_end(s->r.machine);
    rig_close(&s->r);
}

/* After a request that went wrong the GPUs go on: what is allocated is nobody else's. */
static void go_on(struct scene *s)
{
    rig_gpu_address at = rig_region_address(s->own[RIG_KIND_HOST]);
    check_reach(s, at);
    if (rig_device_life(s->r.device[0]) != RIG_LIFE_TAKEN)
        return;
    for (int i = 0; i < 6; i++) {
        struct rig_region a = rig_alloc(&s->r, 0, (enum rig_kind)(i % 3), KIB(4));
        check_reach(s, rig_region_address(a));
        if (i % 2)
            rig_free(&s->r, a);
    }
}

static bool run(enum double_fault fault, enum request request, uint64_t n, bool translated)
{
    struct scene s = {.bytes = NULL};
    set_scene(&s, translated);
    struct rig_region of = {.memory = NULL}, made;
    if (request == MAP_PEER_GPU || request == MAP_PEER_HOST)
        of = rig_alloc(&s.r, 1, request == MAP_PEER_GPU ? RIG_KIND_GPU : RIG_KIND_HOST, KIB(8));
    struct rig_held before = rig_held(&s.r);
    double_arm(fault, n, rig_number(&s.r, rig_gpu_names[request >= FREE_PEER_GPU ? 1 : 0]));
    enum rig_status status = ask(&s, request, of, &made);
    bool fired = double_fired();
    double_arm(DOUBLE_OFF, 0, -1);
    if (!fired)
        assert_int_equal(status, RIG_OK);
    if (fired && makes(request) && (status == RIG_NO_ROOM || status == RIG_REFUSED)) {
        /* What the request took went back; so did what was due, which is not its own. */
        struct rig_held after = rig_held(&s.r);
        assert_true(after.grants == before.grants || after.grants == before.grants - 1);
        assert_int_equal(after.pins, before.pins);
        assert_int_equal(after.views, before.views);
        assert_true(after.blocks == before.blocks || after.blocks == before.blocks - 1);
        assert_int_equal(after.pool_free[0], before.pool_free[0]);
    }
    if (fired && fault == DOUBLE_FAILS && request < RELEASE_OWNER)
        assert_int_equal(status, RIG_FAILED);
    go_on(&s);
    end_scene(&s);
    return fired;
}

static void sweep(enum double_fault fault, bool translated)
{
    for (int request = 0; request < REQUESTS; request++) {
        if (translated && (request == MAP_PEER_GPU || request == FREE_PEER_GPU))
            continue;
        uint64_t n = 1;
        while (run(fault, (enum request)request, n, translated))
            n++;
        assert_true(n < 200);
    }
}

static void each_request_with_its_kth_operation_failing(void **state)
{
    (void)state;
    sweep(DOUBLE_FAILS, false);
    sweep(DOUBLE_FAILS, true);
}

static void each_request_with_its_kth_operation_refused(void **state)
{
    (void)state;
    sweep(DOUBLE_REFUSES, false);
}

static void each_request_with_no_room_at_its_kth_operation(void **state)
{
    (void)state;
    sweep(DOUBLE_NO_ROOM, false);
    sweep(DOUBLE_NO_ROOM, true);
}

/* A function that reads all ones from its kth access on. */
static void from_any_access_on_all_ones_are_never_taken_for_an_answer(void **state)
{
    (void)state;
    static const enum request requests[] = {ALLOC_GPU, ALLOC_BAR, ALLOC_HOST,    MAP_HOST,
                                            FREE_GPU,  FREE_HOST, FREE_PEER_HOST};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(requests); i++)
        for (uint64_t n = 1; n < 400; n += n < 20 ? 1 : 7) {
            struct scene s = {.bytes = NULL};
            set_scene(&s, false);
            struct rig_region made, none = {.memory = NULL};
            int gpu = requests[i] == FREE_PEER_HOST ? 1 : 0;
            struct rig_held before = rig_held(&s.r);
            double_arm(DOUBLE_ALL_ONES, n, rig_number(&s.r, rig_gpu_names[gpu]));
            enum rig_status status = ask(&s, requests[i], none, &made);
            bool fired = double_fired();
            if (fired && makes(requests[i]))
                assert_int_equal(status, RIG_FAILED);
            if (fired && !makes(requests[i])) {
                /* A free is never refused; nothing it held went back. */
                assert_int_equal(status, RIG_OK);
                assert_int_equal(rig_held(&s.r).blocks, before.blocks - (gpu == 0 ? 1 : 0));
            }
            double_end(s.r.machine);
            rig_close(&s.r);
            if (!fired)
                break;
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_request_with_its_kth_operation_failing),
        cmocka_unit_test(each_request_with_its_kth_operation_refused),
        cmocka_unit_test(each_request_with_no_room_at_its_kth_operation),
        cmocka_unit_test(from_any_access_on_all_ones_are_never_taken_for_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
