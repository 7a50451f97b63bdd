/* Two and three GPUs' owners at once, peers of each other, and somebody who only looks: no two
   calls wait for each other in a cycle, and nothing is held at the end. RIGMEM_SOAK: how many times
   as long. */
#include "machine/functions.h"
#include "rigs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define REQUESTS 4000 /* a GPU's, in all its lives */
#define BOARD 32
#define MINE 24

/* Where owners put regions for others to map; they may be freed at any moment. */
struct board {
    pthread_mutex_t lock;
    struct rig_region region[BOARD];
    atomic_bool stop;
    atomic_uint_fast64_t mapped;
};

struct owner {
    pthread_t thread;
    struct rig *r;
    struct board *board;
    int gpu;
    uint64_t seed, requests;
    struct rig_region mine[MINE];
    size_t count;
    bool failed;
};

static uint64_t draw(struct owner *o, uint64_t below)
{
    o->seed = o->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (o->seed >> 33) % below;
}

static struct rig_region from_board(struct owner *o)
{
    pthread_mutex_lock(&o->board->lock);
    struct rig_region region = o->board->region[draw(o, BOARD)];
    pthread_mutex_unlock(&o->board->lock);
    return region;
}

static void to_board(struct owner *o, struct rig_region region)
{
    pthread_mutex_lock(&o->board->lock);
    o->board->region[draw(o, BOARD)] = region;
    pthread_mutex_unlock(&o->board->lock);
}

static void keep_or_free(struct owner *o, enum rig_status status, struct rig_region region)
{
    if (status != RIG_OK) {
        o->failed |= status == RIG_FAILED;
        return;
    }
    to_board(o, region);
    if (o->count < MINE)
        o->mine[o->count++] = region;
    else
        o->failed |= rig_memory_free(o->r->m[o->gpu], region, NULL) != RIG_OK;
}

static void free_one(struct owner *o)
{
    size_t i = draw(o, o->count);
    struct rig_region region = o->mine[i];
    o->mine[i] = o->mine[--o->count];
    o->failed |= rig_memory_free(o->r->m[o->gpu], region, NULL) != RIG_OK;
    o->failed |= rig_memory_free(o->r->m[o->gpu], region, NULL) != RIG_INVALID;
}

static void step(struct owner *o)
{
    struct rig_memory *m = o->r->m[o->gpu];
    struct rig_region region = {.memory = NULL}, other;
    enum rig_status status;
    switch (draw(o, 8)) {
    case 0:
    case 1:
        status = rig_memory_alloc(m, (enum rig_kind)draw(o, 3), KIB(4) << draw(o, 4), false,
                                  &region, NULL);
        keep_or_free(o, status, region);
        break;
    case 2:
    case 3:
    case 4:
        other = from_board(o);
        if (!other.memory)
            break;
        status = rig_memory_map_peer(m, other, &region, NULL);
        if (status == RIG_OK)
            atomic_fetch_add(&o->board->mapped, 1);
        keep_or_free(o, status, region);
        break;
    default:
        if (o->count > 0)
            free_one(o);
    }
}

static void *own(void *context)
{
    struct owner *o = context;
    for (uint64_t i = 0; i < o->requests && !o->failed; i++) {
        step(o);
        if (o->count > 0 && i % 16 == 0) {
            /* What it maps, its work reaches. */
            uint8_t byte;
            struct rig_region region = o->mine[draw(o, o->count)];
            o->failed |= rig_twin_gpu_read(o->r->machine, rig_gpu_names[o->gpu],
                                           rig_region_address(region), &byte, 1, NULL) != RIG_OK;
        }
    }
    while (o->count > 0)
        free_one(o);
    return NULL;
}

static void *look(void *context)
{
    struct owner *o = context;
    while (!atomic_load(&o->board->stop)) {
        struct rig_region region;
        for (uint64_t id = 0; rig_gpus_next_region(o->r->gpus, id, &region); id = region.id) {
            struct rig_region_info info = {.has_kind = false}; /* of a region that another freed */
            struct rig_pages pages;
            struct rig_host host;
            struct rig_memory_info memory;
            uint8_t byte;
            rig_region_info(region, &info, NULL);
            if (rig_region_pages(region, &pages, NULL) == RIG_OK)
                rig_pages_free(&pages);
            rig_region_host(region, &host);
            rig_memory_info(region.memory, &memory);
            if (info.has_kind && info.kind == RIG_KIND_BAR)
                rig_region_read(region, 0, &byte, 1, NULL);
        }
    }
    return NULL;
}

static void run(int gpus, uint64_t seed)
{
    const char *soak = getenv("RIGMEM_SOAK");
    uint64_t times = soak ? strtoull(soak, NULL, 10) : 1;
    struct rig r;
    rig_open(&r, NULL, gpus);
    struct rig_held empty = rig_held(&r);
    struct board board = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct owner owner[4], looker = {.r = &r, .board = &board, .seed = seed};
    for (int i = 0; i < gpus; i++) {
        owner[i] = (struct owner){
            .r = &r,
            .board = &board,
            .gpu = i,
            .seed = seed * 8 + (uint64_t)i,
            .requests = REQUESTS * (times ? times : 1),
        };
        assert_int_equal(pthread_create(&owner[i].thread, NULL, own, &owner[i]), 0);
    }
    assert_int_equal(pthread_create(&looker.thread, NULL, look, &looker), 0);
    for (int i = 0; i < gpus; i++) {
        pthread_join(owner[i].thread, NULL);
        if (owner[i].failed)
            fail_msg("seed %d: a call of gpu%d ended as it must not", (int)seed, i);
    }
    atomic_store(&board.stop, true);
    pthread_join(looker.thread, NULL);
    assert_true(atomic_load(&board.mapped) > REQUESTS / 100);
    /* What was due goes back at the owners' next calls. */
    for (int i = 0; i < gpus; i++)
        rig_free(&r, rig_alloc(&r, i, RIG_KIND_GPU, KIB(4)));
    rig_same(empty, rig_held(&r));
    rig_close(&r);
}

static void two_owners_at_once_peers_of_each_other(void **state)
{
    (void)state;
    run(2, 11);
}

static void three_owners_at_once_peers_of_each_other(void **state)
{
    (void)state;
    run(3, 12);
}

/* One owner releases and takes its GPU again and again while the others map its memory. */
struct releaser {
    struct owner owner;
    uint64_t lives;
};

static void *release_and_take(void *context)
{
    struct releaser *x = context;
    struct owner *o = &x->owner;
    struct rig *r = o->r;
    for (uint64_t life = 0; life < x->lives && !o->failed; life++) {
        for (int i = 0; i < 20; i++)
            step(o);
        o->failed |= rig_memory_release(r->m[o->gpu], NULL) != RIG_OK;
        while (o->count > 0)
            free_one(o);
        /* The others map its GPU memory for a while yet: it is taken again once they let go. */
        struct rig_device *dev;
        while (rig_device_take(r->machine, rig_gpu_names[o->gpu], &dev, NULL) != RIG_OK)
            sched_yield();
        o->failed |= rig_memory_create(r->gpus, dev, NULL, &r->m[o->gpu], NULL) != RIG_OK ||
                     rig_device_set_master(dev, true, NULL) != RIG_OK;
    }
    return NULL;
}

static void an_owner_that_releases_and_takes_again_beside_its_peers(void **state)
{
    (void)state;
    const char *soak = getenv("RIGMEM_SOAK");
    uint64_t times = soak ? strtoull(soak, NULL, 10) : 1;
    struct rig r;
    rig_open(&r, NULL, 3);
    struct board board = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct releaser x = {
        .owner = {.r = &r, .board = &board, .gpu = 0, .seed = 5},
        .lives = 40 * (times ? times : 1),
    };
    struct owner other[2];
    assert_int_equal(pthread_create(&x.owner.thread, NULL, release_and_take, &x), 0);
    for (int i = 0; i < 2; i++) {
        other[i] = (struct owner){
            .r = &r,
            .board = &board,
            .gpu = i + 1,
            .seed = 6 + (uint64_t)i,
            .requests = REQUESTS * (times ? times : 1),
        };
        assert_int_equal(pthread_create(&other[i].thread, NULL, own, &other[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(other[i].thread, NULL);
        assert_false(other[i].failed);
    }
    pthread_join(x.owner.thread, NULL);
    assert_false(x.owner.failed);
    for (int i = 0; i < 3; i++)
        assert_int_equal(rig_memory_release(r.m[i], NULL), RIG_OK);
    struct rig_held left = rig_held(&r);
    assert_int_equal(left.grants, 0);
    assert_int_equal(left.pins, 0);
    assert_int_equal(left.blocks, 0);
    rig_close(&r);
}

/* A question that waits for a lock would never end here. */
static void reaches_is_asked_while_every_lock_is_held(void **state)
{
    struct rig *r = *state;
    gpu_memory_lock(r->m[0]);
    gpu_memory_lock(r->m[1]);
    pthread_mutex_lock(&r->gpus->lock);
    pthread_mutex_lock(&r->machine->functions->lock);
    struct rig_reach_facts a = rig_memory_reach(r->m[0]), b = rig_memory_reach(r->m[1]);
    assert_true(rig_reaches(rig_machine_topology(r->machine), &a, &b));
    pthread_mutex_unlock(&r->machine->functions->lock);
    pthread_mutex_unlock(&r->gpus->lock);
    gpu_memory_unlock(r->m[1]);
    gpu_memory_unlock(r->m[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_owners_at_once_peers_of_each_other),
        cmocka_unit_test(three_owners_at_once_peers_of_each_other),
        RIG_TEST(reaches_is_asked_while_every_lock_is_held),
        cmocka_unit_test(an_owner_that_releases_and_takes_again_beside_its_peers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
