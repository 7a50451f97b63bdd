#include "rigs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const char *const rig_gpu_names[4] = {"0000:03:00.0", "0000:04:00.0", "0000:05:00.0",
                                      "0000:08:00.0"};

struct rig_gpus_options rig_space_options(void)
{
#if defined(__SANITIZE_THREAD__)
    return (struct rig_gpus_options){
        .space_base = UINT64_C(64) << 30,
        .space_bytes = UINT64_C(64) << 30,
    };
#else
    return (struct rig_gpus_options){.space_base = 0};
#endif
}

static void ok(struct rig *r, enum rig_status status)
{
    if (status != RIG_OK)
        fail_msg("%s: %s: %s", rig_status_name(status), r->err.what, r->err.why);
}

void rig_take(struct rig *r, int i, const struct rig_memory_options *options)
{
    ok(r, rig_device_take(r->machine, rig_gpu_names[i], &r->device[i], &r->err));
    ok(r, rig_memory_create(r->gpus, r->device[i], options, &r->m[i], &r->err));
    ok(r, rig_device_set_master(r->device[i], true, &r->err));
}

void rig_open_with(struct rig *r, const char *text, int count,
                   const struct rig_memory_options *options)
{
    *r = (struct rig){.machine = NULL};
    struct rig_topology *t = build_machine(text ? text : RIG_SWITCH RIG_GPUS, "GenuineIntel:6");
    ok(r, rig_twin_open(t, NULL, &r->machine, &r->err));
    rig_topology_free(t);
    struct rig_gpus_options spaces = rig_space_options();
    ok(r, rig_gpus_create(r->machine, &spaces, &r->gpus, &r->err));
    for (int i = 0; i < count; i++)
        rig_take(r, i, options);
}

void rig_open(struct rig *r, const char *text, int count)
{
    rig_open_with(r, text, count, NULL);
}

void rig_close(struct rig *r)
{
    rig_gpus_free(r->gpus);
    ok(r, rig_machine_close(r->machine, &r->err));
}

struct rig_region rig_alloc(struct rig *r, int gpu, enum rig_kind kind, uint64_t bytes)
{
    struct rig_region region = {.memory = NULL};
    ok(r, rig_memory_alloc(r->m[gpu], kind, bytes, false, &region, &r->err));
    return region;
}

struct rig_region rig_map_peer(struct rig *r, int gpu, struct rig_region of)
{
    struct rig_region region = {.memory = NULL};
    ok(r, rig_memory_map_peer(r->m[gpu], of, &region, &r->err));
    return region;
}

void rig_free(struct rig *r, struct rig_region region)
{
    ok(r, rig_memory_free(region.memory, region, &r->err));
}

bool rig_reads(struct rig *r, int gpu, rig_gpu_address at, uint8_t value)
{
    uint8_t byte = (uint8_t)~value;
    ok(r, rig_twin_gpu_read(r->machine, rig_gpu_names[gpu], at, &byte, 1, &r->err));
    return byte == value;
}

bool rig_faults(struct rig *r, int gpu, rig_gpu_address at)
{
    uint8_t byte;
    return rig_twin_gpu_read(r->machine, rig_gpu_names[gpu], at, &byte, 1, NULL) == RIG_REFUSED;
}

void rig_gpu_write(struct rig *r, int gpu, rig_gpu_address at, uint8_t value)
{
    ok(r, rig_twin_gpu_write(r->machine, rig_gpu_names[gpu], at, &value, 1, &r->err));
}

uint64_t rig_held_blocks(const struct rig_gpus *gpus)
{
    uint64_t blocks = 0;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(gpus->space); i++)
        blocks += gpus->space[i] ? space_blocks(gpus->space[i]) : 0;
    return blocks;
}

struct rig_held rig_held(struct rig *r)
{
    struct twin_audit audit;
    twin_audit(r->machine, &audit);
    struct rig_held h = {
        .grants = audit.grants,
        .pins = audit.pins,
        .views = audit.views,
        .system_free = audit.free_bytes,
    };
    for (int i = 0; i < 4; i++)
        if (r->m[i]) {
            struct rig_memory_info info;
            rig_memory_info(r->m[i], &info);
            h.pool_free[i] = info.free_bytes;
        }
    h.blocks = rig_held_blocks(r->gpus);
    return h;
}

void rig_same(struct rig_held a, struct rig_held b)
{
    assert_int_equal(a.grants, b.grants);
    assert_int_equal(a.pins, b.pins);
    assert_int_equal(a.views, b.views);
    assert_int_equal(a.system_free, b.system_free);
    assert_int_equal(a.blocks, b.blocks);
    for (int i = 0; i < 4; i++)
        assert_int_equal(a.pool_free[i], b.pool_free[i]);
}

static void says(struct rig *r, const char *text)
{
    if (text && !strstr(r->err.why, text) && !strstr(r->err.what, text))
        fail_msg("`%s: %s` does not hold `%s`", r->err.what, r->err.why, text);
}

void rig_refused(struct rig *r, enum rig_status status, const char *first, const char *second)
{
    assert_int_equal(status, RIG_REFUSED);
    assert_int_equal(r->err.status, RIG_REFUSED);
    says(r, first);
    says(r, second);
    rig_error_clear(&r->err);
}

void rig_invalid(struct rig *r, enum rig_status status, const char *text)
{
    assert_int_equal(status, RIG_INVALID);
    assert_int_equal(r->err.status, RIG_INVALID);
    says(r, text);
    rig_error_clear(&r->err);
}

struct rig_region_info rig_info(struct rig_region region)
{
    struct rig_region_info info;
    struct rig_error err = {.status = RIG_OK};
    if (rig_region_info(region, &info, &err) != RIG_OK)
        fail_msg("%s", err.why);
    return info;
}

bool rig_kept(struct rig_region region, const char *text)
{
    struct rig_region_info info;
    return rig_region_info(region, &info, NULL) == RIG_OK && !info.out &&
           strstr(info.kept, text) != NULL;
}

uint64_t rig_page_of(struct rig_region region, uint64_t offset)
{
    struct rig_pages pages;
    assert_int_equal(rig_region_pages(region, &pages, NULL), RIG_OK);
    size_t i = 0;
    while (i < pages.count && offset >= pages.ranges[i].bytes)
        offset -= pages.ranges[i++].bytes;
    assert_true(i < pages.count);
    uint64_t address = pages.ranges[i].address + offset;
    rig_pages_free(&pages);
    return address;
}

int rig_number(const struct rig *r, const char *function)
{
    int i = rig_topology_find(r->machine->topology, function);
    assert_true(i >= 0);
    return i;
}

static int set_up(void **state, const char *text, int count)
{
    struct rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    rig_open(r, text, count);
    *state = r;
    return 0;
}

int rig_setup(void **state)
{
    return set_up(state, NULL, 2);
}

int rig_setup3(void **state)
{
    return set_up(state, NULL, 3);
}

int rig_setup_iommu(void **state)
{
    return set_up(state, RIG_SWITCH RIG_GPUS_IOMMU, 2);
}

int rig_teardown(void **state)
{
    rig_close(*state);
    free(*state);
    return 0;
}
