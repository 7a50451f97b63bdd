/* The twin GPU's engine: walks of bytes that were written by hand, its cache, its flushes. */
#include "builder.h"

#include "machine/function.h"
#include "machine/registers.h"
#include "machine/twin.h"
#include "machine/walk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ONE "0000:03:00.0"
#define TWO "0000:04:00.0"

struct fixture {
    struct rig_machine *m;
    struct rig_device *one, *two;
    int gpu, other;
    unsigned registers;
};

/* Two GPUs of 8 GiB with whole BARs below one switch; their ids are what `ids` says. */
static struct fixture open_with(const char *ids)
{
    char text[512];
    snprintf(text, sizeof text,
             "00:01.0 rp 01-04\n01:00.0 up 02-04\n02:00.0 down 03-03\n02:01.0 down 04-04\n"
             "03:00.0 ep gpu=8192/8192 %s\n04:00.0 ep gpu=8192/8192 %s\n",
             ids, ids);
    struct rig_topology *t = build_machine(text, "AMD:25");
    struct fixture f;
    assert_int_equal(rig_twin_open(t, NULL, &f.m, NULL), RIG_OK);
    rig_topology_free(t);
    assert_int_equal(rig_device_take(f.m, ONE, &f.one, NULL), RIG_OK);
    assert_int_equal(rig_device_take(f.m, TWO, &f.two, NULL), RIG_OK);
    f.gpu = device_function(f.one);
    f.other = device_function(f.two);
    f.registers = twin_gpu_registers(f.one);
    assert_true(f.registers != 0);
    assert_int_equal(rig_device_set_master(f.one, true, NULL), RIG_OK);
    return f;
}

static void close_twin(struct fixture *f)
{
    assert_int_equal(rig_machine_close(f->m, NULL), RIG_OK);
}

/* A word as it lies in the GPU's memory, least significant byte first. */
static void put(struct fixture *f, uint64_t offset, uint64_t word)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(word >> 8 * i);
    assert_int_equal(twin_memory_write(f->m, f->gpu, offset, bytes, 8, NULL), RIG_OK);
}

static void put_text(struct fixture *f, int gpu, uint64_t offset, const char *text)
{
    assert_int_equal(twin_memory_write(f->m, gpu, offset, text, strlen(text) + 1, NULL), RIG_OK);
}

static void assert_reads(struct fixture *f, uint64_t va, const char *expected)
{
    char text[64] = "";
    struct rig_error err = {.status = RIG_OK};
    if (rig_twin_gpu_read(f->m, ONE, va, text, strlen(expected) + 1, &err) != RIG_OK)
        fail_msg("%s: %s", err.what, err.why);
    assert_string_equal(text, expected);
}

static void assert_refused(struct fixture *f, uint64_t va, const char *word)
{
    uint8_t byte = 0;
    struct rig_error err = {.status = RIG_OK};
    assert_int_equal(rig_twin_gpu_read(f->m, ONE, va, &byte, 1, &err), RIG_REFUSED);
    assert_int_equal(byte, 0xff);
    if (!strstr(err.why, word))
        fail_msg("\"%s\" is not in \"%s\"", word, err.why);
}

static bool flush(struct fixture *f)
{
    bool confirmed;
    assert_int_equal(twin_gpu_flush(f->one, f->registers, &confirmed, NULL), RIG_OK);
    return confirmed;
}

/* Tables of the plain format in the GPU's memory: root at 0x1000, then 0x2000, 0x3000, 0x4000, for
   addresses from 0x200000000000 on, whose index at bit 39 is 64 and 0 at the others. Directories
   are the child's address and bit 0. */
#define VA UINT64_C(0x200000000000)

static void put_plain_directories(struct fixture *f)
{
    put(f, 0x1000 + 64 * 8, 0x2001);
    put(f, 0x2000, 0x3001);
    put(f, 0x3000, 0x4001);
    twin_gpu_set_root(f->one, f->registers, 0x1000, false);
}

static void the_plain_formats_tables_lead_to_own_system_and_linked_memory(void **state)
{
    (void)state;
    struct fixture f = open_with("");
    assert_string_equal(twin_format(f.m, f.gpu)->name, "plain");
    put_plain_directories(&f);
    put_text(&f, f.gpu, 0x7fff8, "own memory, two pages");
    put(&f, 0x4000 + 5 * 8, 0x7f001); /* own memory, 4 KiB */
    put(&f, 0x4000 + 6 * 8, 0x80001);
    assert_reads(&f, VA + 0x5ff8, "own memory, two pages");
    /* System memory: bits 2 and 3 (system, snooped) and 4 (uncached). */
    struct device_hold *host;
    assert_int_equal(device_alloc(f.one, 4096, 0, false, &host, NULL), RIG_OK);
    strcpy(host->grant.memory, "system memory");
    put(&f, 0x4000 + 7 * 8, host->grant.ranges[0].address | 0x1d);
    assert_reads(&f, VA + 0x7000, "system memory");
    assert_int_equal(rig_twin_gpu_write(f.m, ONE, VA + 0x7000, "S", 1, NULL), RIG_OK);
    assert_string_equal(host->grant.memory, "System memory");
    /* A peer through its BAR, at 5 << 38, is a system address. */
    put_text(&f, f.other, 0x3000, "a peer by the bus");
    put(&f, 0x4000 + 8 * 8, ((UINT64_C(5) << 38) + 0x3000) | 0x15);
    assert_reads(&f, VA + 0x8000, "a peer by the bus");
    /* A peer by a link: bit 5, its number in bits 62:58, the address of its own memory. */
    put(&f, 0x4000 + 9 * 8, UINT64_C(1) << 58 | 0x3021);
    assert_refused(&f, VA + 0x9000, "leads to no memory");
    const int linked[] = {f.gpu, f.other};
    assert_int_equal(twin_link(f.m, linked, 2, NULL), RIG_OK);
    assert_reads(&f, VA + 0x9000, "a peer by the bus");
    assert_int_equal(device_free(f.one, host, NULL), RIG_OK);
    close_twin(&f);
}

static void large_pages_and_the_ends_of_tables_are_walked_to(void **state)
{
    (void)state;
    struct fixture f = open_with("");
    put_plain_directories(&f);
    /* Bit 1 makes a leaf above the last level: 2 MiB at index 511 of the table at 0x3000, 1 GiB at
       index 2 of the one at 0x2000. */
    put(&f, 0x3000 + 511 * 8, 0x40000003);
    put(&f, 0x2000 + 2 * 8, 0x80000003);
    put_text(&f, f.gpu, 0x401ffff0, "last of 2 MiB");
    put_text(&f, f.gpu, 0xbfffff00, "far in a GiB");
    assert_reads(&f, VA + (UINT64_C(511) << 21) + 0x1ffff0, "last of 2 MiB");
    assert_reads(&f, VA + (UINT64_C(2) << 30) + 0x3fffff00, "far in a GiB");
    struct twin_translation to;
    assert_true(twin_translate(f.m, f.gpu, VA + (UINT64_C(2) << 30) + 0x1234567, &to));
    assert_int_equal(to.address, 0x81234567);
    assert_int_equal(to.gpu, f.gpu);
    assert_false(twin_translate(f.m, f.gpu, VA + (UINT64_C(3) << 30), &to));
    close_twin(&f);
}

static void what_no_table_maps_is_refused_naming_the_level_and_its_entry(void **state)
{
    (void)state;
    struct fixture f = open_with("");
    assert_refused(&f, VA, "it has no root table");
    put_plain_directories(&f);
    const struct rig_format *plain = twin_format(f.m, f.gpu);
    assert_refused(&f, VA + 0x3000, plain->level[3].name);
    assert_refused(&f, VA + 0x3000, "0x4018");
    assert_refused(&f, VA + (UINT64_C(1) << 21), plain->level[2].name);
    assert_refused(&f, 0, plain->level[0].name);
    assert_refused(&f, UINT64_C(1) << 50, "none of its addresses");
    /* A leaf and a table beyond the GPU's 8 GiB. */
    put(&f, 0x4000, UINT64_C(0x200000001));
    assert_refused(&f, VA, "leads to no memory");
    put(&f, 0x3000 + 8, UINT64_C(0x200000001));
    assert_refused(&f, VA + (UINT64_C(1) << 21), "leads to a table that cannot be read");
    /* A system address that nothing takes, and mastering off. */
    put(&f, 0x4000 + 8, 0x50005);
    assert_refused(&f, VA + 0x1000, "nothing takes");
    struct device_hold *host;
    assert_int_equal(device_alloc(f.one, 4096, 0, false, &host, NULL), RIG_OK);
    put(&f, 0x4000 + 2 * 8, host->grant.ranges[0].address | 5);
    assert_int_equal(rig_device_set_master(f.one, false, NULL), RIG_OK);
    assert_refused(&f, VA + 0x2000, "its bus mastering is off");
    close_twin(&f);
}

static void only_a_flush_empties_the_cache(void **state)
{
    (void)state;
    struct fixture f = open_with("");
    put_plain_directories(&f);
    put_text(&f, f.gpu, 0x10000, "old");
    put_text(&f, f.gpu, 0x20000, "new");
    put(&f, 0x4000, 0x10001);
    assert_reads(&f, VA, "old");
    assert_int_equal(twin_cached(f.m, f.gpu), 1);
    put(&f, 0x4000, 0x20001);
    assert_reads(&f, VA, "old");
    put(&f, 0x4000, 0);
    put(&f, 0x1000 + 64 * 8, 0);
    twin_gpu_set_root(f.one, f.registers, 0x5000, false);
    assert_reads(&f, VA, "old");
    assert_true(flush(&f));
    assert_int_equal(twin_cached(f.m, f.gpu), 0);
    assert_refused(&f, VA, "is invalid");
    put_plain_directories(&f);
    put(&f, 0x4000, 0x20001);
    assert_reads(&f, VA, "new");
    close_twin(&f);
}

static void
a_late_flush_empties_without_confirming_and_one_that_never_comes_does_neither(void **state)
{
    (void)state;
    struct fixture f = open_with("");
    put_plain_directories(&f);
    put_text(&f, f.gpu, 0x10000, "old");
    put(&f, 0x4000, 0x10001);
    assert_reads(&f, VA, "old");
    put(&f, 0x4000, 0);
    assert_int_equal(rig_twin_fault(f.m, "gpu0:flush=never", NULL), RIG_OK);
    assert_false(flush(&f));
    assert_reads(&f, VA, "old");
    assert_int_equal(rig_twin_fault(f.m, "flush=late", NULL), RIG_OK);
    assert_false(flush(&f));
    assert_refused(&f, VA, "is invalid");
    assert_int_equal(rig_twin_fault(f.m, "gpu0:flush=ok", NULL), RIG_OK);
    /* The confirmation of the late one comes now; it is none for the next flush. */
    for (int looks = 0; looks < 5; looks++)
        device_config_read(f.one, f.registers + TWIN_GPU_FLUSHED, 4);
    assert_int_equal(rig_twin_fault(f.m, "gpu0:flush=never", NULL), RIG_OK);
    assert_false(flush(&f));
    assert_int_equal(rig_twin_fault(f.m, "gpu0:flush=ok", NULL), RIG_OK);
    assert_true(flush(&f));
    close_twin(&f);
}

static void a_function_that_reads_all_ones_never_confirms(void **state)
{
    (void)state;
    struct fixture f = open_with("");
    put_plain_directories(&f);
    twin_set_gone(f.m, f.gpu);
    assert_false(flush(&f));
    assert_int_equal(twin_gpu_registers(f.one), 0);
    uint8_t byte = 0;
    assert_int_equal(rig_twin_gpu_read(f.m, ONE, VA, &byte, 1, NULL), RIG_FAILED);
    assert_int_equal(byte, 0xff);
    /* Nor can it be shown to master the bus no more. */
    assert_int_equal(rig_machine_close(f.m, NULL), RIG_FAILED);
}

static void a_flush_can_be_cut_short_and_then_empties_nothing(void **state)
{
    (void)state;
    struct fixture f = open_with("");
    put_plain_directories(&f);
    put_text(&f, f.gpu, 0x10000, "old");
    put(&f, 0x4000, 0x10001);
    assert_reads(&f, VA, "old");
    bool confirmed = true;
    twin_arm(f.m, TWIN_FAULT_CUT, TWIN_STEP_FLUSH, 1);
    assert_int_equal(twin_gpu_flush(f.one, f.registers, &confirmed, NULL), RIG_FAILED);
    assert_int_equal(twin_cached(f.m, f.gpu), 1);
    assert_int_equal(twin_steps(f.m, TWIN_STEP_FLUSH), 1);
    assert_true(flush(&f));
    assert_int_equal(twin_cached(f.m, f.gpu), 0);
    close_twin(&f);
}

static void the_cache_comes_back_with_the_machine(void **state)
{
    (void)state;
    struct fixture f = open_with("");
    put_plain_directories(&f);
    put(&f, 0x4000, 0x10001);
    put_text(&f, f.gpu, 0x10000, "kept");
    assert_reads(&f, VA, "kept");
    put(&f, 0x4000, 0);
    json_t *saved, *again;
    struct rig_topology *t = NULL;
    assert_int_equal(rig_topology_copy(rig_machine_topology(f.m), &t, NULL), RIG_OK);
    assert_int_equal(machine_save(f.m, &saved, NULL), RIG_OK);
    machine_detach(f.m);
    assert_int_equal(twin_reopen(t, NULL, saved, &f.m, NULL), RIG_OK);
    f.one = machine_device(f.m, f.gpu);
    assert_int_equal(machine_save(f.m, &again, NULL), RIG_OK);
    assert_true(json_equal(saved, again));
    assert_int_equal(twin_cached(f.m, f.gpu), 1);
    struct twin_translation to;
    assert_true(twin_translate(f.m, f.gpu, VA + 0x10, &to));
    assert_true(to.cached);
    assert_int_equal(to.address, 0x10010);
    assert_true(flush(&f));
    assert_false(twin_translate(f.m, f.gpu, VA + 0x10, &to));
    json_decref(saved);
    json_decref(again);
    rig_topology_free(t);
    close_twin(&f);
}

/* A Navi 10's page walk as AMD's umr recorded it, with all tables in system memory (umr-vm-3). */
static void an_amd_walk_recorded_on_hardware_leads_where_it_led_there(void **state)
{
    (void)state;
    static const struct {
        uint64_t address, entry;
    } table[] = {
        {0x1a798d000, 0x00000001a798c003},
        {0x1a798c000, 0x00000001a798b003},
        {0x1a798b558, 0x00000001a7988003},
        {0x1a7988000, 0x000000017ac60273},
    };
    struct fixture f = open_with("id=1002:731f");
    assert_string_equal(twin_format(f.m, f.gpu)->vendor, "amd");
    assert_string_equal(twin_format(f.m, f.gpu)->name, "amd-gfx10");
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(table); i++)
        assert_int_equal(rig_twin_write(f.m, ONE, table[i].address, &table[i].entry, 8, NULL),
                         RIG_OK);
    assert_int_equal(rig_twin_write(f.m, ONE, 0x17ac60000, "recorded", 9, NULL), RIG_OK);
    twin_gpu_set_root(f.one, f.registers, 0x1a798d000, true);
    assert_reads(&f, 0x15600000, "recorded");
    struct twin_translation to;
    assert_true(twin_translate(f.m, f.gpu, 0x15600123, &to));
    assert_int_equal(to.memory, RIG_MEMORY_SYSTEM);
    assert_int_equal(to.address, 0x17ac60123);
    close_twin(&f);
}

/* Entries that stand in NVIDIA's own tests, below directories worked out from the bits (aperture 1
   in 2:1, the address >> 12 from bit 8). */
static void nvidias_dual_directory_leads_to_its_small_table_and_to_peers(void **state)
{
    (void)state;
    struct fixture f = open_with("id=10de:2684");
    assert_string_equal(twin_format(f.m, f.gpu)->name, "nv-mmu-v2");
    put(&f, 0x1000, 0x202);
    put(&f, 0x2000, 0x302);
    put(&f, 0x3000, 0x402);
    put(&f, 0x4000, 0x20);               /* no 64 KiB pages... */
    put(&f, 0x4008, 0x20402);            /* ...and 4 KiB ones in the table at 0x204000 */
    put(&f, 0x4010, 0x0600000004000001); /* 2 MiB at 0x40000000 */
    put(&f, 0x204000 + 3 * 8, 0x0600000012345601);
    put(&f, 0x204000 + 4 * 8, 0x0600000204000003); /* peer 1, 0x40000000 */
    twin_gpu_set_root(f.one, f.registers, 0x1000, false);
    const int linked[] = {f.gpu, f.other};
    assert_int_equal(twin_link(f.m, linked, 2, NULL), RIG_OK);
    put_text(&f, f.gpu, 0x123456000, "by the small table");
    put_text(&f, f.gpu, 0x40012345, "in two mebibytes");
    put_text(&f, f.other, 0x40000010, "the peer's");
    assert_reads(&f, 0x3000, "by the small table");
    assert_reads(&f, 0x200000 + 0x12345, "in two mebibytes");
    assert_reads(&f, 0x4010, "the peer's");
    assert_refused(&f, 0x5000, "is invalid");
    close_twin(&f);
}

/* AMD's linked memories are one space: each GPU's begins at its node's base. */
static void a_hive_of_amd_gpus_is_one_space(void **state)
{
    (void)state;
    struct fixture f = open_with("id=1002:7408");
    const int linked[] = {f.other, f.gpu};
    assert_int_equal(twin_link(f.m, linked, 2, NULL), RIG_OK);
    const uint64_t base = UINT64_C(8) << 30;
    assert_int_equal(twin_gpu_own_base(f.one, f.registers), base);
    assert_int_equal(twin_gpu_own_base(f.two, twin_gpu_registers(f.two)), 0);
    /* gfx9's further layout: a 1 GiB leaf at PDB1 has bits 54, 6, 5 and 0. */
    const struct rig_format *format = twin_format(f.m, f.gpu);
    assert_int_equal(format->link, RIG_LINK_FLAT);
    put(&f, 0x1000, (base + 0x2000) | 1);
    put(&f, 0x2000, 0x0040000000000061);
    put(&f, 0x2008, 0x0040000000000061 | base);
    twin_gpu_set_root(f.one, f.registers, base + 0x1000, false);
    put_text(&f, f.other, 0x5000, "the other node's");
    put_text(&f, f.gpu, 0x5000, "this node's");
    assert_reads(&f, 0x5000, "the other node's");
    assert_reads(&f, (UINT64_C(1) << 30) + 0x5000, "this node's");
    struct twin_translation to;
    assert_true(twin_translate(f.m, f.gpu, 0x5000, &to));
    assert_int_equal(to.memory, RIG_MEMORY_LINK);
    assert_int_equal(to.gpu, f.other);
    assert_int_equal(to.address, 0x5000);
    twin_set_gone(f.m, f.other);
    uint8_t byte;
    assert_int_equal(rig_twin_gpu_read(f.m, ONE, 0x5000, &byte, 1, NULL), RIG_FAILED);
    assert_int_equal(rig_machine_close(f.m, NULL), RIG_FAILED);
}

static void the_engine_is_asked_for_gpus_of_twins_alone(void **state)
{
    (void)state;
    struct fixture f = open_with("");
    uint8_t byte;
    assert_int_equal(rig_twin_gpu_read(f.m, "02:00.0", 0, &byte, 1, NULL), RIG_INVALID);
    assert_int_equal(rig_twin_gpu_read(f.m, "gpu7", 0, &byte, 1, NULL), RIG_INVALID);
    assert_int_equal(rig_twin_gpu_read(f.m, ONE, UINT64_MAX, &byte, 2, NULL), RIG_INVALID);
    assert_int_equal(rig_twin_read(f.m, "09:00.0", 0, &byte, 1, NULL), RIG_INVALID);
    const int twice[] = {f.gpu, f.gpu}, none[] = {f.gpu, 0};
    assert_int_equal(twin_link(f.m, twice, 2, NULL), RIG_INVALID);
    assert_int_equal(twin_link(f.m, none, 2, NULL), RIG_INVALID);
    assert_int_equal(twin_link(f.m, twice, 1, NULL), RIG_INVALID);
    close_twin(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plain_formats_tables_lead_to_own_system_and_linked_memory),
        cmocka_unit_test(large_pages_and_the_ends_of_tables_are_walked_to),
        cmocka_unit_test(what_no_table_maps_is_refused_naming_the_level_and_its_entry),
        cmocka_unit_test(only_a_flush_empties_the_cache),
        cmocka_unit_test(
            a_late_flush_empties_without_confirming_and_one_that_never_comes_does_neither),
        cmocka_unit_test(a_function_that_reads_all_ones_never_confirms),
        cmocka_unit_test(a_flush_can_be_cut_short_and_then_empties_nothing),
        cmocka_unit_test(the_cache_comes_back_with_the_machine),
        cmocka_unit_test(an_amd_walk_recorded_on_hardware_leads_where_it_led_there),
        cmocka_unit_test(nvidias_dual_directory_leads_to_its_small_table_and_to_peers),
        cmocka_unit_test(a_hive_of_amd_gpus_is_one_space),
        cmocka_unit_test(the_engine_is_asked_for_gpus_of_twins_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
