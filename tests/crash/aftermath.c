#include "aftermath.h"

#include "machine/machine.h"
#include "machine/twin.h"
#include "rigmem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GPUS 3

static const char *const gpu_names[GPUS] = {"gpu0", "gpu1", "gpu2"};

static struct rig_session *begin(enum rig_session_use use, const char *label)
{
    struct rig_session *s = NULL;
    struct rig_error err = {.status = RIG_OK};
    if (rig_session_begin(STAGE_STATE, use, &s, &err) != RIG_OK)
        fail_msg("%s: begin: %s: %s", label, err.what, err.why);
    return s;
}

/* ---- where memory is */

#define MACHINE (-1)
#define PROCESS (-2)

/* A piece of memory, whoever reaches it: of a function's own, the machine's, or the process's. */
struct piece {
    int function;
    uint64_t address, bytes;
};

/* Where a request of a GPU for a bus address ends, or, `told`, would if it mastered the bus. */
static struct piece at_bus(struct rig_machine *m, int gpu, uint64_t at, uint64_t bytes, bool told)
{
    struct twin_route route;
    twin_route(m, gpu, at, bytes, &route);
    if (route.end != TWIN_END_MASTER_OFF)
        bytes = route.bytes < bytes ? route.bytes : bytes;
    switch (route.end) {
    case TWIN_END_SYSTEM:
        return (struct piece){MACHINE, route.address, bytes};
    case TWIN_END_PROCESS:
        return (struct piece){PROCESS, route.address, bytes};
    case TWIN_END_BAR:
        return (struct piece){route.hop, route.address, bytes};
    default:
        return (struct piece){MACHINE, at, told && route.end == TWIN_END_MASTER_OFF ? bytes : 0};
    }
}

static bool overlap(struct piece a, struct piece b)
{
    return a.function == b.function && a.address < b.address + b.bytes &&
           b.address < a.address + a.bytes;
}

static struct piece piece_of(struct rig_machine *m, int gpu, const struct rig_region_info *info,
                             struct rig_bus_range range)
{
    if (info->target == RIG_TARGET_GPU)
        return (struct piece){gpu, range.address, range.bytes};
    return at_bus(m, gpu, range.address, range.bytes, true);
}

static int function_of(struct rig_region region)
{
    struct rig_memory_info info;
    rig_memory_info(region.memory, &info);
    return info.number;
}

/* ---- places */

static void add_place(struct places *p, uint64_t at)
{
    for (int i = 0; i < p->count; i++)
        if (p->at[i] == at)
            return;
    assert_true(p->count < PLACES_MAX);
    p->at[p->count++] = at;
}

static void add_reserved(struct places *p, struct rig_session *s, struct rig_region region)
{
    struct rig_region_info info;
    struct rig_pages pages;
    struct rig_bdf client;
    if (!rig_region_client(region, 0, &client) || rig_region_info(region, &info, NULL) != RIG_OK ||
        rig_region_pages(region, &pages, NULL) != RIG_OK)
        return;
    for (size_t i = 0; i < pages.count; i++) {
        struct piece piece =
            piece_of(rig_session_machine(s), function_of(region), &info,
                     (struct rig_bus_range){pages.ranges[i].address, pages.ranges[i].bytes});
        assert_true(p->reserved_count < RESERVED_MAX);
        p->reserved[p->reserved_count].function = piece.function;
        p->reserved[p->reserved_count].address = piece.address;
        p->reserved[p->reserved_count++].bytes = piece.bytes;
    }
    rig_pages_free(&pages);
}

void places_add(struct places *p)
{
    struct rig_session *s = begin(RIG_SESSION_LOOK, "places");
    struct rig_region region = {.id = 0};
    while (rig_session_is_open(s) &&
           rig_gpus_next_region(rig_session_gpus(s), region.id, &region)) {
        struct rig_region_info info;
        assert_int_equal(rig_region_info(region, &info, NULL), RIG_OK);
        uint64_t first = info.address & ~UINT64_C(4095), pages = (info.bytes + 4095) / 4096;
        add_place(p, first);
        add_place(p, first + pages / 2 * 4096);
        add_place(p, first + (pages - 1) * 4096);
        add_reserved(p, s, region);
    }
    rig_session_end(s);
}

/* ---- new memory */

/* Where the GPU's work gets at `at`, by its cache (if `cached`) and its tables. False: nowhere. */
static bool reaches(struct rig_machine *m, int gpu, uint64_t at, bool cached, struct piece *out)
{
    struct twin_translation to;
    if (cached ? !twin_translate(m, gpu, at, &to) : !twin_tables(m, gpu, at, &to))
        return false;
    *out = to.gpu >= 0 ? (struct piece){to.gpu, to.address, 4096}
                       : at_bus(m, gpu, to.address, 4096, false);
    return true;
}

/* The region, which is new, is reached by nobody but its GPU, at its own addresses. */
static void check_new(const struct places *p, struct rig_session *s, struct rig_region region,
                      const char *label)
{
    struct rig_machine *m = rig_session_machine(s);
    struct rig_region_info info;
    struct rig_pages pages;
    int mine = function_of(region), functions = rig_topology_count(rig_machine_topology(m));
    assert_int_equal(rig_region_info(region, &info, NULL), RIG_OK);
    assert_int_equal(rig_region_pages(region, &pages, NULL), RIG_OK);
    for (size_t i = 0; i < pages.count; i++) {
        struct piece piece = piece_of(
            m, mine, &info, (struct rig_bus_range){pages.ranges[i].address, pages.ranges[i].bytes});
        for (int k = 0; k < p->reserved_count; k++)
            if (overlap(piece, (struct piece){p->reserved[k].function, p->reserved[k].address,
                                              p->reserved[k].bytes}))
                fail_msg("%s: memory of a client of the bus is given out", label);
        for (int look = 0; look < 2 * functions * p->count; look++) {
            int gpu = look / 2 / p->count;
            uint64_t at = p->at[look / 2 % p->count];
            struct piece there;
            if (twin_memory_bytes(m, gpu) == 0 ||
                (gpu == mine && at >= info.address && at - info.address < info.bytes))
                continue;
            if (reaches(m, gpu, at, look % 2 == 1, &there) && overlap(there, piece))
                fail_msg("%s: function %d reaches r%llu of function %d at 0x%llx, by its %s", label,
                         gpu, (unsigned long long)region.id, mine, (unsigned long long)at,
                         look % 2 == 1 ? "cache" : "tables");
        }
    }
    rig_pages_free(&pages);
}

/* No two allocations share a byte. */
static void check_pages(struct rig_session *s, const char *label)
{
    struct piece all[256];
    int count = 0;
    struct rig_region region = {.id = 0};
    while (rig_gpus_next_region(rig_session_gpus(s), region.id, &region)) {
        struct rig_region_info info;
        struct rig_pages pages;
        struct rig_memory_info owner;
        assert_int_equal(rig_region_info(region, &info, NULL), RIG_OK);
        rig_memory_info(region.memory, &owner);
        if (info.origin != RIG_ORIGIN_ALLOCATED || owner.life != RIG_LIFE_TAKEN)
            continue;
        assert_int_equal(rig_region_pages(region, &pages, NULL), RIG_OK);
        for (size_t i = 0; i < pages.count; i++) {
            struct piece piece =
                piece_of(rig_session_machine(s), function_of(region), &info,
                         (struct rig_bus_range){pages.ranges[i].address, pages.ranges[i].bytes});
            for (int k = 0; k < count; k++)
                if (overlap(all[k], piece))
                    fail_msg("%s: r%llu has memory of another region", label,
                             (unsigned long long)region.id);
            assert_true(count < 256);
            all[count++] = piece;
        }
        rig_pages_free(&pages);
    }
}

static void check_allocations(const struct places *p, struct rig_session *s, const char *label)
{
    for (int i = 0; i < GPUS; i++) {
        struct rig_memory *m;
        if (rig_session_gpu(s, gpu_names[i], &m, NULL) != RIG_OK)
            continue;
        for (int kind = RIG_KIND_GPU; kind <= RIG_KIND_HOST; kind++) {
            struct rig_region region;
            struct rig_error err = {.status = RIG_OK};
            struct rig_memory_info info;
            rig_memory_info(m, &info);
            if (info.life != RIG_LIFE_TAKEN)
                continue;
            if (rig_session_alloc(s, gpu_names[i], (enum rig_kind)kind, 12288, false, NULL, &region,
                                  &err) != RIG_OK)
                fail_msg("%s: the next alloc: %s: %s", label, err.what, err.why);
            check_new(p, s, region, label);
        }
    }
    check_pages(s, label);
    assert_int_equal(rig_session_commit(s, NULL), RIG_OK);
    if (stage_has("state.tmp") || stage_has("state.intent"))
        fail_msg("%s: the next command leaves what a killed one had begun", label);
}

/* ---- all goes back */

static void release_all(struct rig_session *s, const char *label)
{
    for (size_t i = 0; i < rig_gpus_count(rig_session_gpus(s)); i++) {
        struct rig_memory *m = rig_gpus_memory(rig_session_gpus(s), i);
        struct rig_memory_info info;
        struct rig_error err = {.status = RIG_OK};
        rig_memory_info(m, &info);
        if (info.life != RIG_LIFE_STOPPED && rig_session_release(s, m, &err) != RIG_OK)
            fail_msg("%s: close: %s: %s", label, err.what, err.why);
    }
    rig_gpus_finish_releases(rig_session_gpus(s));
}

static void check_release(const struct places *p, struct rig_session *s, const char *label)
{
    struct twin_audit audit;
    struct rig_memory *m;
    struct rig_memory_info info;
    struct rig_region region;
    release_all(s, label);
    if (p->reserved_count > 0)
        return;
    twin_audit(rig_session_machine(s), &audit);
    if (audit.grants || audit.pins || audit.taken || audit.views)
        fail_msg("%s: %llu grants, %llu pins, %llu functions are held after all was closed", label,
                 (unsigned long long)audit.grants, (unsigned long long)audit.pins,
                 (unsigned long long)audit.taken);
    /* nothing is lost: a block as large as only a fresh GPU has */
    assert_int_equal(rig_session_take(s, "gpu0", NULL, true, &m, NULL), RIG_OK);
    rig_memory_info(m, &info);
    assert_int_equal(
        rig_session_alloc(s, "gpu0", RIG_KIND_GPU, info.free_bytes / 2, false, NULL, &region, NULL),
        RIG_OK);
}

static void check_files(const char *label)
{
    static const char *const may[] = {"state", "state.lock", "state.d", "state.intent",
                                      "state.tmp"};
    int known = 0;
    for (size_t i = 0; i < sizeof may / sizeof may[0]; i++)
        known += stage_has(may[i]);
    if (stage_count() != known)
        fail_msg("%s: files that are no session's are left", label);
}

void aftermath_check(const struct places *p, const char *label)
{
    check_files(label);
    struct rig_session *s = begin(RIG_SESSION_CHANGE, label);
    if (rig_session_is_open(s)) {
        check_allocations(p, s, label);
        check_release(p, s, label);
        assert_int_equal(rig_session_close(s, true, NULL), RIG_OK);
    }
    rig_session_end(s);
    if (stage_count() != 0)
        fail_msg("%s: files are left after close", label);
}
