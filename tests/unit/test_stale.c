/* Handles that are stale: regions that were freed, regions of another GPU or of a GPU's earlier
   life, and handles that nobody ever gave out. Every request that names one is misuse and changes
   nothing, also where its address or its place in a list is another's by now. RIGMEM_SOAK: how many
   times as long. RIGMEM_SEED: one other seed. */
#include "rigs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define REQUESTS 20000
#define GPUS 3
#define OUT 48
#define STALE 512

/* `of` is the handle that map_peer mapped, or none. */
struct handle {
    struct rig_region region, of;
};

struct scene {
    struct rig r;
    uint64_t seed;
    struct handle out[OUT];
    size_t count;
    struct rig_region stale[STALE]; /* a ring of the latest */
    size_t stales;
    uint64_t asked, misused;
};

static uint64_t draw(struct scene *s, uint64_t below)
{
    s->seed = s->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (s->seed >> 33) % below;
}

static struct rig_memory *any(struct scene *s)
{
    return s->r.m[draw(s, GPUS)];
}

static void add_stale(struct scene *s, struct rig_region region)
{
    s->stale[s->stales++ % STALE] = region;
}

/* ---- requests by handles that are out */

static void add(struct scene *s, enum rig_status status, struct rig_region made,
                struct rig_region of)
{
    if (status == RIG_NO_ROOM || status == RIG_REFUSED)
        return;
    assert_int_equal(status, RIG_OK);
    for (size_t i = 0; i < s->stales && i < STALE; i++)
        assert_true(s->stale[i].id != made.id);
    s->out[s->count++] = (struct handle){made, of};
}

static void let_go(struct scene *s, size_t i)
{
    struct rig_region region = s->out[i].region;
    assert_int_equal(rig_memory_free(region.memory, region, NULL), RIG_OK);
    s->out[i] = s->out[--s->count];
    add_stale(s, region);
}

static bool is_out(const struct scene *s, struct rig_region region)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->out[i].region.memory == region.memory && s->out[i].region.id == region.id)
            return true;
    return false;
}

static void live_step(struct scene *s)
{
    struct rig_region made = {.memory = NULL}, none = {.memory = NULL};
    if (s->count == OUT || (s->count > 0 && draw(s, 3) == 0)) {
        let_go(s, draw(s, s->count));
    } else if (s->count == 0 || draw(s, 2) == 0) {
        enum rig_status status = rig_memory_alloc(any(s), (enum rig_kind)draw(s, 3),
                                                  KIB(4) << draw(s, 3), false, &made, NULL);
        add(s, status, made, none);
    } else {
        struct handle h = s->out[draw(s, s->count)];
        struct rig_region of = h.of.memory ? h.of : h.region;
        /* What map_peer gave is of what its owner gave; freed, that is misuse. */
        enum rig_status status = rig_memory_map_peer(any(s), h.region, &made, NULL);
        if (is_out(s, of))
            add(s, status, made, of);
        else
            assert_int_equal(status, RIG_INVALID);
    }
}

/* A GPU's life ends, with all that is out, and another begins. */
static void end_life(struct scene *s)
{
    int gpu = (int)draw(s, GPUS);
    for (size_t i = s->count; i > 0; i--)
        if (s->out[i - 1].of.memory == s->r.m[gpu])
            let_go(s, i - 1);
    assert_int_equal(rig_memory_release(s->r.m[gpu], NULL), RIG_OK);
    for (size_t i = s->count; i > 0; i--)
        if (s->out[i - 1].region.memory == s->r.m[gpu])
            let_go(s, i - 1);
    rig_take(&s->r, gpu, NULL);
}

/* ---- requests by others */

static struct rig_region stale(struct scene *s)
{
    struct rig_region region = {.memory = any(s), .id = draw(s, 2) ? UINT64_MAX : 0};
    switch (draw(s, 8)) {
    case 0:
        return region;
    case 1:
        region.id = (UINT64_C(1) << 40) + draw(s, 1000);
        return region;
    case 2:
        if (s->count > 0)
            region.id = s->out[draw(s, s->count)].region.id;
        /* another GPU's id */
        region.id = is_out(s, region) ? 0 : region.id;
        return region;
    default:
        return s->stales > 0 ? s->stale[draw(s, s->stales < STALE ? s->stales : STALE)] : region;
    }
}

static enum rig_status ask(struct scene *s, struct rig_region region)
{
    struct rig_region made;
    struct rig_bus_range *ranges;
    struct rig_pages pages;
    size_t count;
    uint8_t byte = 0;
    struct rig_region_info info;
    /* A region that is freed and kept is still told of, but cannot be used. */
    bool kept = rig_region_info(region, &info, NULL) == RIG_OK;
    struct rig_host host;
    assert_false(kept && info.out);
    switch (draw(s, kept ? 3 : 8)) {
    case 0:
        return rig_memory_free(region.memory, region, NULL);
    case 1:
        return rig_memory_map_peer(any(s), region, &made, NULL);
    case 2:
        return rig_memory_bus(any(s), region, NIC, &ranges, &count, NULL);
    case 3:
        return rig_region_pages(region, &pages, NULL);
    case 4:
        return rig_region_read(region, 0, &byte, 1, NULL);
    case 5:
        return rig_region_write(region, 0, &byte, 1, NULL);
    case 6:
        return rig_memory_free(any(s), region, NULL);
    default:
        assert_false(rig_region_host(region, &host));
        assert_true(rig_region_address(region) == 0);
        return RIG_INVALID;
    }
}

/* A region that is out, at another GPU's memory, is misuse of that. */
static enum rig_status ask_another(struct scene *s)
{
    struct rig_region region = s->out[draw(s, s->count)].region;
    struct rig_memory *other = any(s);
    struct rig_bus_range *ranges;
    size_t count;
    if (other == region.memory)
        return RIG_INVALID;
    if (draw(s, 2) == 0)
        return rig_memory_free(other, region, NULL);
    return rig_memory_bus(other, region, NIC, &ranges, &count, NULL);
}

static void stale_step(struct scene *s)
{
    bool look = s->asked % 8 == 0;
    struct rig_held before = {0};
    if (look)
        before = rig_held(&s->r);
    enum rig_status status = s->count > 0 && draw(s, 8) == 0 ? ask_another(s) : ask(s, stale(s));
    if (status != RIG_INVALID)
        fail_msg("request %llu by a stale handle: %s", (unsigned long long)s->asked,
                 rig_status_name(status));
    /* Misuse takes nothing; what was due goes back in requests that are none. */
    if (look)
        rig_same(before, rig_held(&s->r));
    s->misused++;
}

static void every_request_by_a_stale_handle_is_misuse_and_changes_nothing(void **state)
{
    (void)state;
    const char *soak = getenv("RIGMEM_SOAK"), *seed = getenv("RIGMEM_SEED");
    uint64_t times = soak && atoi(soak) > 0 ? (uint64_t)atoi(soak) : 1;
    struct scene *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->seed = seed ? strtoull(seed, NULL, 0) : 1;
    rig_open(&s->r, NULL, GPUS);
    for (uint64_t i = 0; i < REQUESTS * times; i++) {
        s->asked++;
        if (i % 2 == 0)
            stale_step(s);
        else if (draw(s, 1000) == 0)
            end_life(s);
        else
            live_step(s);
    }
    printf("# %llu requests, %llu of them by stale handles\n", (unsigned long long)s->asked,
           (unsigned long long)s->misused);
    assert_true(s->misused == REQUESTS * times / 2);
    while (s->count > 0)
        let_go(s, 0);
    rig_close(&s->r);
    free(s);
}

/* The same, in the least: the address is another's now. */
static void a_stale_handle_does_not_reach_what_lies_at_its_address_now(void **state)
{
    struct rig *r = *state;
    struct rig_region old = rig_alloc(r, 0, RIG_KIND_HOST, KIB(4)), made;
    rig_gpu_address at = rig_region_address(old);
    rig_free(r, old);
    struct rig_region now = rig_alloc(r, 0, RIG_KIND_HOST, KIB(4));
    assert_true(rig_region_address(now) == at);
    assert_true(now.id != old.id);
    unsigned char byte = 1;
    rig_invalid(r, rig_memory_free(r->m[0], old, &r->err), "freed");
    rig_invalid(r, rig_memory_map_peer(r->m[1], old, &made, &r->err), "freed");
    rig_invalid(r, rig_region_write(old, 0, &byte, 1, &r->err), "freed");
    assert_true(rig_region_address(old) == 0);
    assert_true(rig_reads(r, 0, at, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_by_a_stale_handle_is_misuse_and_changes_nothing),
        RIG_TEST(a_stale_handle_does_not_reach_what_lies_at_its_address_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
