/* Vendors' registers, as their manuals and drivers have them (GPU-PAGE-TABLES 4.2 and 5.1),
   simulated behind a view. */
#include "rigs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A BAR of registers: a few that matter. A trigger bit that was written clears after `polls` looks,
   never if negative. */
static struct {
    uint64_t trigger;
    uint32_t command, boot, size, range, mib;
    int polls, left;
    bool gone;
} bar;

static void read_register(const struct rig_view *view, uint64_t offset, void *out, size_t bytes)
{
    (void)view;
    uint32_t value = 0;
    if (offset == bar.trigger) {
        value = bar.command;
        if (bar.left > 0 && --bar.left == 0)
            bar.command &= 0x7fffffff;
    }
    if (offset == 0xa00)
        value = bar.boot;
    if (offset == 0x100c80)
        value = bar.left > 0 && --bar.left >= 0 ? 0 : bar.polls < 0 && bar.command ? 0 : 0x8000;
    if (offset == 0x100ce0)
        value = bar.range;
    if (offset == 0x1183a4)
        value = bar.mib;
    if (offset == 0x378c)
        value = bar.size;
    if (bar.gone)
        value = UINT32_MAX;
    assert_int_equal(bytes, 4);
    memcpy(out, &value, 4);
}

static void write_register(const struct rig_view *view, uint64_t offset, const void *data,
                           size_t bytes)
{
    (void)view;
    assert_int_equal(bytes, 4);
    assert_int_equal(offset, bar.trigger);
    memcpy(&bar.command, data, 4);
    bar.left = bar.polls;
}

static const struct rig_view_ops registers = {.read = read_register, .write = write_register};

static struct rig_view view = {.ops = &registers, .bytes = 0x1000000};

static struct gpu_part part_of(const struct gpu_vendor *vendor, uint32_t generation)
{
    memset(&bar, 0, sizeof bar);
    bar.polls = 3;
    bar.trigger = generation <= 0x15 ? 0x100cbc : 0xb830b0;
    return (struct gpu_part){.vendor = vendor, .registers = &view, .generation = generation};
}

static void an_nvidia_flush_is_confirmed_when_the_trigger_bit_reads_back_0(void **state)
{
    (void)state;
    static const uint32_t generations[] = {0x13, 0x14, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(generations); i++) {
        struct gpu_part part = part_of(&vendor_nvidia, generations[i]);
        bool confirmed = false;
        assert_int_equal(part_flush(&part, &confirmed, NULL), RIG_OK);
        assert_true(confirmed);
        /* All addresses, all directories, a system membar, the trigger. */
        assert_int_equal(bar.command | 0x80000000, 0x80000043);
    }
}

static void an_nvidia_flush_that_stays_pending_is_not_confirmed(void **state)
{
    (void)state;
    static const uint32_t generations[] = {0x14, 0x19};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(generations); i++) {
        struct gpu_part part = part_of(&vendor_nvidia, generations[i]);
        bool confirmed = true;
        bar.polls = -1;
        assert_int_equal(part_flush(&part, &confirmed, NULL), RIG_OK);
        assert_false(confirmed);
        bar.gone = true;
        confirmed = true;
        assert_int_equal(part_flush(&part, &confirmed, NULL), RIG_OK);
        assert_false(confirmed);
    }
}

static void memory_sizes_are_read_as_each_generation_has_them(void **state)
{
    (void)state;
    /* 24 << (10 + 20) bytes are 24 GiB; with ECC 15/16 of them. */
    struct gpu_part turing = part_of(&vendor_nvidia, 0x16);
    bar.range = 24u << 4 | 10;
    assert_int_equal(part_memory(&turing), UINT64_C(24) << 30);
    bar.range |= 1u << 30;
    assert_int_equal(part_memory(&turing), (UINT64_C(24) << 30) / 16 * 15);
    bar.gone = true;
    assert_int_equal(part_memory(&turing), 0);
    struct gpu_part ada = part_of(&vendor_nvidia, 0x19);
    bar.mib = 24564;
    assert_int_equal(part_memory(&ada), UINT64_C(24564) << 20);
    bar.gone = true;
    assert_int_equal(part_memory(&ada), 0);
    struct gpu_part amd = part_of(&vendor_amd, 0);
    bar.size = 16384;
    assert_int_equal(part_memory(&amd), UINT64_C(16) << 30);
    bar.gone = true;
    assert_int_equal(part_memory(&amd), 0);
}

static void a_gpu_that_cannot_be_asked_for_a_flush_never_confirms(void **state)
{
    (void)state;
    struct gpu_part amd = part_of(&vendor_amd, 0);
    bool confirmed = true;
    assert_false(part_can_flush(&amd));
    assert_int_equal(part_flush(&amd, &confirmed, NULL), RIG_OK);
    assert_false(confirmed);
}

static void a_twins_gpu_is_asked_by_its_own_registers_whatever_its_ids(void **state)
{
    (void)state;
    static const char *const ids[] = {"10de:2684", "1002:744c", "8086:56a0", "1234:5678"};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(ids); i++) {
        struct rig r;
        char text[512];
        snprintf(text, sizeof text, "%s03:00.0 ep id=%s gpu=64/64\n", RIG_SWITCH, ids[i]);
        rig_open(&r, text, 1);
        struct rig_memory_info info;
        rig_memory_info(r.m[0], &info);
        assert_true(info.flushes);
        assert_ptr_equal(r.m[0]->part.vendor, &vendor_twin);
        assert_int_equal(info.bytes, MIB(64));
        rig_close(&r);
    }
}

static void what_drivers_leave_is_bounded_by_an_eighth_of_the_memory(void **state)
{
    (void)state;
    for (int f = 0; f < rig_format_count(); f++)
        for (uint64_t bytes = MIB(1); bytes <= MIB(1) << 18; bytes *= 4) {
            uint64_t boot, end;
            part_kept(rig_format_at(f), bytes, &boot, &end);
            assert_true(boot >= KIB(4));
            assert_true(boot + end <= bytes / 8);
            assert_int_equal((boot | end) % KIB(4), 0);
        }
    uint64_t boot, end;
    part_kept(rig_format_named("amd-gfx11", 0, 0), UINT64_C(24) << 30, &boot, &end);
    assert_int_equal(boot, MIB(32));
    assert_int_equal(end, MIB(64));
    part_kept(rig_format_named("amd-gfx9-further", 0, 0), UINT64_C(192) << 30, &boot, &end);
    assert_int_equal(boot, MIB(32));
    assert_int_equal(end, MIB(384));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_nvidia_flush_is_confirmed_when_the_trigger_bit_reads_back_0),
        cmocka_unit_test(an_nvidia_flush_that_stays_pending_is_not_confirmed),
        cmocka_unit_test(memory_sizes_are_read_as_each_generation_has_them),
        cmocka_unit_test(a_gpu_that_cannot_be_asked_for_a_flush_never_confirms),
        cmocka_unit_test(a_twins_gpu_is_asked_by_its_own_registers_whatever_its_ids),
        cmocka_unit_test(what_drivers_leave_is_bounded_by_an_eighth_of_the_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
