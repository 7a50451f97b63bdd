/* The same memory on GPUs of every vendor and format: what the library wrote, the twin walks from
   the bytes in the GPU's memory. */
#include "rigs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A device of each format and variant. */
static const struct {
    const char *id, *format;
} gpus[] = {
    {"1002:6863", "amd-gfx9"},         /* Vega 10 */
    {"1002:7408", "amd-gfx9-further"}, /* MI250X: translate further */
    {"1002:731f", "amd-gfx10"},        /* Navi 10 */
    {"1002:744c", "amd-gfx11"},        /* Navi 31 */
    {"1002:7550", "amd-gfx12"},        /* Navi 48 */
    {"10de:1b80", "nv-mmu-v2"},        /* Pascal */
    {"10de:1db4", "nv-mmu-v2"},        /* Volta */
    {"10de:1e07", "nv-mmu-v2"},        /* Turing */
    {"10de:2204", "nv-mmu-v2"},        /* Ampere */
    {"10de:2684", "nv-mmu-v2"},        /* Ada */
    {"10de:2330", "nv-mmu-v3"},        /* Hopper */
    {"10de:2901", "nv-mmu-v3"},        /* Blackwell */
    {"8086:56a0", NULL},               /* Intel Arc */
    {"8086:0bd5", NULL},               /* Ponte Vecchio */
    {"8086:e20b", NULL},               /* Battlemage */
    {"1234:5678", "plain"},
};

static void open_gpus(struct rig *r, size_t i, const struct rig_memory_options *options)
{
    char text[1024];
    snprintf(text, sizeof text, "%s03:00.0 ep id=%s gpu=256/256\n04:00.0 ep id=%s gpu=256/256\n",
             RIG_SWITCH, gpus[i].id, gpus[i].id);
    rig_open_with(r, text, 2, options);
}

static void check(struct rig *r, enum rig_kind kind, uint64_t bytes)
{
    static const uint64_t places[] = {0, KIB(4), MIB(1) + 17, MIB(2), MIB(9) + KIB(5)};
    struct rig_region g = rig_alloc(r, 0, kind, bytes), p = rig_map_peer(r, 1, g);
    rig_gpu_address at = rig_region_address(g);
    uint64_t last = rig_info(g).bytes - 1;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(places); i++) {
        uint64_t offset = places[i] < last ? places[i] : last;
        rig_gpu_write(r, 0, at + offset, (uint8_t)(0x10 + i));
        assert_true(rig_reads(r, 1, at + offset, (uint8_t)(0x10 + i)));
    }
    struct rig_host host;
    uint8_t byte;
    rig_gpu_write(r, 1, at + last, 0x7e);
    if (rig_region_host(g, &host)) {
        assert_int_equal(rig_region_read(g, last, &byte, 1, NULL), RIG_OK);
        assert_int_equal(byte, 0x7e);
    }
    rig_free(r, g);
    assert_true(rig_faults(r, 0, at));
    assert_true(rig_reads(r, 1, at + last, 0x7e));
    rig_free(r, p);
    assert_true(rig_faults(r, 1, at));
    assert_true(rig_faults(r, 1, at + last));
}

static void a_drivers_memory_is_placed_whatever_the_gpus_vendor(void **state)
{
    (void)state;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(gpus); i++) {
        struct rig r;
        open_gpus(&r, i, NULL);
        struct rig_memory_info info;
        rig_memory_info(r.m[0], &info);
        if (gpus[i].format)
            assert_string_equal(info.format, gpus[i].format);
        assert_ptr_equal(twin_format(r.machine, info.number), r.m[0]->format);
        struct rig_held before = rig_held(&r);
        static const uint64_t sizes[] = {1,      KIB(4), KIB(64), MIB(2), MIB(5) + KIB(4),
                                         MIB(8), MIB(32)};
        for (size_t s = 0; s < RIG_ARRAY_LENGTH(sizes); s++)
            for (int kind = RIG_KIND_GPU; kind <= RIG_KIND_HOST; kind++)
                check(&r, (enum rig_kind)kind, sizes[s]);
        /* What a peer mapped goes back at the owner's next call. */
        rig_free(&r, rig_alloc(&r, 0, RIG_KIND_GPU, KIB(4)));
        rig_same(before, rig_held(&r));
        rig_close(&r);
    }
}

static void a_format_named_by_the_caller_is_used_by_gpu_and_twin(void **state)
{
    (void)state;
    for (int f = 0; f < rig_format_count(); f++) {
        struct rig r;
        struct rig_memory_options options = {.format = rig_format_at(f)->name};
        rig_open_with(&r, NULL, 2, &options);
        struct rig_memory_info info;
        rig_memory_info(r.m[0], &info);
        assert_string_equal(info.format, options.format);
        check(&r, RIG_KIND_GPU, MIB(4));
        check(&r, RIG_KIND_HOST, MIB(1));
        rig_close(&r);
    }
    struct rig r;
    rig_open(&r, NULL, 0);
    struct rig_memory *m;
    struct rig_memory_options options = {.format = "amd-gfx99"};
    assert_int_equal(rig_device_take(r.machine, rig_gpu_names[0], &r.device[0], NULL), RIG_OK);
    rig_invalid(&r, rig_memory_create(r.gpus, r.device[0], &options, &m, &r.err), "no such");
    rig_close(&r);
}

static void spaces_of_vendors_do_not_overlap(void **state)
{
    (void)state;
    static const char *const formats[] = {"amd-gfx10", "nv-mmu-v2", "intel-xe", "plain"};
    struct rig r;
    rig_open(&r, NULL, 0);
    uint64_t end = 0;
    for (int i = 0; i < 4; i++) {
        struct rig_memory_options options = {.format = formats[i]};
        rig_take(&r, i, &options);
        struct rig_memory_info info;
        rig_memory_info(r.m[i], &info);
        assert_true(info.space_base >= end);
        end = info.space_base + info.space_bytes;
        if (i == 0 && rig_space_options().space_base == 0) {
            assert_int_equal(info.space_base, 0x200000000000);
            assert_int_equal(info.space_bytes, UINT64_C(16) << 40);
        }
    }
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_drivers_memory_is_placed_whatever_the_gpus_vendor),
        cmocka_unit_test(a_format_named_by_the_caller_is_used_by_gpu_and_twin),
        cmocka_unit_test(spaces_of_vendors_do_not_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
