/* The twin's hardware: the way of requests through its fabric, its registers, its memory and its
   faults. Ways are worked out by hand from the tree and the bits. */
#include "builder.h"

#include "machine/function.h"
#include "machine/twin.h"
#include "fixture_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A switch with a GPU below each of two ports. The GPUs' BARs are at 4 << 38 and 5 << 38 (builder).
 */
#define SWITCH(one, two)                                                                           \
    "00:00.0 host id=8086:4c43\n"                                                                  \
    "00:01.0 rp 01-04\n"                                                                           \
    "01:00.0 up 02-04\n"                                                                           \
    "02:00.0 down 03-03 " one "\n"                                                                 \
    "02:01.0 down 04-04 " two "\n"                                                                 \
    "03:00.0 ep gpu=64/64\n"                                                                       \
    "04:00.0 ep gpu=64/64\n"
#define BAR_ONE (UINT64_C(4) << 38)
#define BAR_TWO (UINT64_C(5) << 38)

static struct rig_machine *open_built(const char *text, const char *cpu)
{
    struct rig_topology *t = build_machine(text, cpu);
    struct rig_machine *m;
    struct rig_error err = {.status = RIG_OK};
    if (rig_twin_open(t, NULL, &m, &err) != RIG_OK)
        fail_msg("%s: %s", err.what, err.why);
    rig_topology_free(t);
    return m;
}

static int at(struct rig_machine *m, const char *bdf)
{
    return function_at(rig_machine_topology(m), bdf);
}

static void set_command(struct rig_machine *m, const char *bdf, uint32_t command)
{
    twin_config_write(m, at(m, bdf), 4, 2, command);
}

/* Every function decodes and masters. */
static void all_on(struct rig_machine *m)
{
    for (int i = 0; i < rig_topology_count(rig_machine_topology(m)); i++)
        twin_config_write(m, i, 4, 2, 6);
}

static struct twin_route route(struct rig_machine *m, const char *bdf, rig_bus_address to)
{
    struct twin_route r;
    twin_route(m, at(m, bdf), to, 8, &r);
    return r;
}

/* The way, as text: functions without their domain, * for the root complex. */
static void assert_way(struct rig_machine *m, const struct twin_route *r, const char *expected)
{
    char text[TWIN_HOPS * RIG_BDF_MAX] = "", name[RIG_BDF_MAX];
    for (int i = 0; i < r->hop_count; i++) {
        const char *hop = "*";
        if (r->hops[i] >= 0)
            hop = rig_bdf_format(rig_topology_function(rig_machine_topology(m), r->hops[i])->bdf,
                                 name) +
                  strlen("0000:");
        strcat(text, i ? " " : "");
        strcat(text, hop);
    }
    assert_string_equal(text, expected);
}

static void close_twin(struct rig_machine *m)
{
    assert_int_equal(rig_machine_close(m, NULL), RIG_OK);
}

/* ---- ways */

static void a_switch_turns_a_request_around_where_its_windows_hold_the_address(void **state)
{
    (void)state;
    struct rig_machine *m = open_built(SWITCH("", ""), "Intel:6");
    all_on(m);
    struct twin_route r = route(m, "03:00.0", BAR_TWO + 0x100);
    assert_int_equal(r.end, TWIN_END_BAR);
    assert_int_equal(r.hop, at(m, "04:00.0"));
    assert_int_equal(r.bar, 0);
    assert_int_equal(r.address, 0x100);
    assert_way(m, &r, "03:00.0 02:00.0 01:00.0 02:01.0 04:00.0");
    assert_int_equal(rig_twin_write(m, "03:00.0", BAR_TWO + 0x100, "peer to peer", 12, NULL),
                     RIG_OK);
    char text[13] = "";
    assert_int_equal(twin_memory_read(m, at(m, "04:00.0"), 0x100, text, 12, NULL), RIG_OK);
    assert_string_equal(text, "peer to peer");
    close_twin(m);
}

static void a_redirecting_port_sends_a_request_to_the_root_complex_which_drops_it(void **state)
{
    (void)state;
    struct rig_machine *m = open_built(SWITCH("acs=0004", ""), "Intel:6");
    all_on(m);
    struct twin_route r = route(m, "03:00.0", BAR_TWO);
    assert_int_equal(r.end, TWIN_END_NOT_CARRIED);
    assert_way(m, &r, "03:00.0 02:00.0 01:00.0 00:01.0 *");
    uint64_t word = 0;
    struct rig_error err = {.status = RIG_OK};
    assert_int_equal(rig_twin_read(m, "03:00.0", BAR_TWO, &word, 8, &err), RIG_REFUSED);
    assert_true(word == UINT64_MAX);
    assert_string_equal(err.what, "root complex");
    /* The bit is hardware: cleared, the switch turns the request around again. */
    twin_config_write(m, at(m, "02:00.0"), twin_acs_offset(m, at(m, "02:00.0")) + 6, 2, 0);
    assert_int_equal(rig_twin_read(m, "03:00.0", BAR_TWO, &word, 8, NULL), RIG_OK);
    assert_true(word == 0);
    close_twin(m);
}

static void amds_root_complex_carries_what_was_redirected(void **state)
{
    (void)state;
    struct rig_machine *m = open_built(SWITCH("acs=001d", ""), "AMD:25");
    all_on(m);
    struct twin_route r = route(m, "03:00.0", BAR_TWO);
    assert_int_equal(r.end, TWIN_END_BAR);
    assert_way(m, &r, "03:00.0 02:00.0 01:00.0 00:01.0 * 00:01.0 01:00.0 02:01.0 04:00.0");
    close_twin(m);
}

static void the_owners_port_redirects_too_and_bits_that_do_not_redirect_change_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum twin_end end;
    } machine[] = {
        {SWITCH("", "acs=0008"), TWIN_END_NOT_CARRIED},
        {SWITCH("", "acs=0020"), TWIN_END_NOT_CARRIED},
        {SWITCH("acs=0053", "acs=0053"), TWIN_END_BAR},
        {SWITCH("acs=0000", ""), TWIN_END_BAR},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(machine); i++) {
        struct rig_machine *m = open_built(machine[i].text, "Intel:6");
        all_on(m);
        assert_int_equal(route(m, "03:00.0", BAR_TWO).end, machine[i].end);
        close_twin(m);
    }
}

static void between_host_bridges_only_listed_ones_carry(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b, *cpu;
        enum twin_end end;
    } pair[] = {
        {"8086:09a2", "8086:09a2", "Intel:6", TWIN_END_BAR},
        {"8086:2020", "8086:2030", "Intel:6", TWIN_END_BAR},
        {"8086:3c00", "8086:3c01", "Intel:6", TWIN_END_NOT_CARRIED}, /* only within one */
        {"8086:09a2", "8086:4c43", "Intel:6", TWIN_END_NOT_CARRIED},
        {"8086:4c43", "8086:4c43", "AMD:23", TWIN_END_BAR},
        {"1022:1450", "1022:1450", "AMD:21", TWIN_END_NOT_CARRIED}, /* before Zen */
        {"1022:1450", "1022:1450", "Hygon:24", TWIN_END_NOT_CARRIED},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(pair); i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "00:00.0 host id=%s\n00:01.0 rp 01-01\n01:00.0 ep gpu=16/16\n"
                 "40:00.0 host id=%s\n40:01.0 rp 41-41\n41:00.0 ep gpu=16/16\n",
                 pair[i].a, pair[i].b);
        struct rig_machine *m = open_built(text, pair[i].cpu);
        all_on(m);
        struct twin_route r = route(m, "41:00.0", UINT64_C(2) << 38);
        assert_int_equal(r.end, pair[i].end);
        if (r.end == TWIN_END_BAR)
            assert_way(m, &r, "41:00.0 40:01.0 * 00:01.0 01:00.0");
        close_twin(m);
    }
}

static void nothing_leaves_without_mastering_and_nothing_is_taken_without_decode(void **state)
{
    (void)state;
    static const struct {
        const char *function;
        uint32_t command;
        enum twin_end end;
        const char *hop;
    } change[] = {
        {"03:00.0", 2, TWIN_END_MASTER_OFF, "03:00.0"},
        {"02:00.0", 2, TWIN_END_MASTER_OFF, "02:00.0"},
        {"04:00.0", 4, TWIN_END_DECODE_OFF, "04:00.0"},
        {"02:01.0", 4, TWIN_END_UNCLAIMED, "01:00.0"},
        {"02:01.0", 2, TWIN_END_BAR, "04:00.0"}, /* downwards needs no mastering */
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(change); i++) {
        struct rig_machine *m = open_built(SWITCH("", ""), "Intel:6");
        all_on(m);
        set_command(m, change[i].function, change[i].command);
        struct twin_route r = route(m, "03:00.0", BAR_TWO);
        assert_int_equal(r.end, change[i].end);
        assert_int_equal(r.hop, at(m, change[i].hop));
        close_twin(m);
    }
}

static void gpus_start_without_mastering_and_other_functions_with_it(void **state)
{
    (void)state;
    struct rig_machine *m = open_built("00:01.0 rp 01-01\n01:00.0 ep gpu=16/16\n"
                                       "00:02.0 rp 02-02\n02:00.0 ep class=020000\n",
                                       "AMD:25");
    assert_int_equal(route(m, "01:00.0", UINT64_C(4) << 30).end, TWIN_END_MASTER_OFF);
    assert_int_equal(route(m, "02:00.0", UINT64_C(4) << 30).end, TWIN_END_SYSTEM);
    close_twin(m);
}

static void a_known_window_forwards_what_it_holds_and_nothing_else(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(SWITCH("", ""), "Intel:6");
    const char *const bridges[] = {"00:01.0", "01:00.0", "02:00.0", "02:01.0"};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(bridges); i++) {
        struct rig_function *f = &t->node[function_at(t, bridges[i])].f;
        bool two = i == 3, both = i < 2;
        f->memory = (struct rig_window){fact_absent(), fact_absent()};
        f->prefetchable = (struct rig_window){
            fact_known(two ? BAR_TWO : BAR_ONE),
            fact_known((two || both ? BAR_TWO : BAR_ONE) + (UINT64_C(64) << 20) - 1)};
    }
    struct rig_machine *m;
    assert_int_equal(rig_twin_open(t, NULL, &m, NULL), RIG_OK);
    rig_topology_free(t);
    all_on(m);
    assert_int_equal(route(m, "03:00.0", BAR_TWO).end, TWIN_END_BAR);
    /* The port's window closes: base above limit (PCI-to-PCI Bridge 1.2, 3.2.5.9). */
    int port = at(m, "02:01.0");
    twin_config_write(m, port, 0x24, 4, 0x0000fff0);
    twin_config_write(m, port, 0x28, 4, 0xffffffff);
    struct twin_route r = route(m, "03:00.0", BAR_TWO);
    assert_int_equal(r.end, TWIN_END_UNCLAIMED);
    assert_int_equal(r.hop, at(m, "01:00.0"));
    close_twin(m);
}

static void what_is_above_a_function_may_be_unknown_and_then_nothing_passes(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine("03:00.0 ep gpu=16/16\n", "AMD:25");
    t->node[0].f.parent_known = fact_unknown("not in the text");
    struct rig_machine *m;
    assert_int_equal(rig_twin_open(t, NULL, &m, NULL), RIG_OK);
    rig_topology_free(t);
    all_on(m);
    assert_int_equal(route(m, "03:00.0", UINT64_C(4) << 30).end, TWIN_END_NO_PARENT);
    close_twin(m);
}

static void a_function_that_left_takes_all_below_it_along(void **state)
{
    (void)state;
    struct rig_machine *m = open_built(SWITCH("", ""), "AMD:25");
    all_on(m);
    assert_int_equal(rig_twin_fault(m, "gone=02:01.0", NULL), RIG_OK);
    struct twin_route r = route(m, "04:00.0", BAR_ONE);
    assert_int_equal(r.end, TWIN_END_GONE);
    assert_int_equal(r.hop, at(m, "04:00.0"));
    assert_int_equal(route(m, "03:00.0", BAR_TWO).end, TWIN_END_UNCLAIMED);
    assert_int_equal(route(m, "03:00.0", BAR_ONE).end, TWIN_END_BAR);
    assert_int_equal(rig_twin_fault(m, "failed", NULL), RIG_OK);
    assert_int_equal(route(m, "03:00.0", BAR_ONE).end, TWIN_END_GONE);
    close_twin(m);
}

/* ---- the IOMMU */

static void an_iommu_translates_what_was_granted_and_nothing_else(void **state)
{
    (void)state;
    struct rig_machine *m = open_built("00:01.0 rp 01-01\n01:00.0 ep gpu=16/16 iommu=translate\n"
                                       "00:02.0 rp 02-02\n02:00.0 ep gpu=16/16 iommu=translate\n",
                                       "AMD:25");
    struct rig_device *one, *two;
    assert_int_equal(rig_device_take(m, "01:00.0", &one, NULL), RIG_OK);
    assert_int_equal(rig_device_take(m, "02:00.0", &two, NULL), RIG_OK);
    all_on(m);
    struct device_hold *memory, *pin;
    assert_int_equal(device_alloc(one, 3 * 4096, 0, false, &memory, NULL), RIG_OK);
    assert_int_equal(memory->grant.count, 1);
    rig_bus_address device = memory->grant.ranges[0].address;
    assert_true(device >= UINT64_C(4) << 30 && device + 3 * 4096 <= UINT64_C(1) << 40);
    memcpy((char *)memory->grant.memory + 8192, "third", 6);
    char text[6] = "";
    assert_int_equal(rig_twin_read(m, "01:00.0", device + 8192, text, 6, NULL), RIG_OK);
    assert_string_equal(text, "third");
    /* Another function's tables do not have it, nor is a physical address one. */
    assert_int_equal(route(m, "02:00.0", device).end, TWIN_END_IOMMU);
    assert_int_equal(route(m, "01:00.0", device + 3 * 4096).end, TWIN_END_IOMMU);
    uint64_t start = (uint64_t)(uintptr_t)memory->grant.memory;
    assert_int_equal(device_pin(two, start + 8192, 6, &pin, NULL), RIG_OK);
    assert_int_equal(device_free(one, memory, NULL), RIG_OK);
    assert_int_equal(route(m, "01:00.0", device).end, TWIN_END_IOMMU);
    assert_int_equal(rig_twin_read(m, "02:00.0", pin->grant.ranges[0].address, text, 6, NULL),
                     RIG_OK);
    assert_string_equal(text, "third");
    /* A peer's BAR is out of reach behind the IOMMU. */
    assert_int_equal(route(m, "02:00.0", UINT64_C(2) << 38).end, TWIN_END_IOMMU);
    assert_int_equal(device_unpin(two, pin, NULL), RIG_OK);
    close_twin(m);
}

static void device_addresses_behind_an_iommu_are_never_a_bars(void **state)
{
    (void)state;
    /* BARs of 256 GiB from 256 GiB and 512 GiB on: switches would turn such addresses around. */
    struct rig_machine *m = open_built("00:01.0 rp 01-01\n00:02.0 rp 02-02\n"
                                       "00:00.0 rciep gpu=262144/262144\n"
                                       "01:00.0 ep gpu=262144/262144 iommu=translate\n",
                                       "AMD:25");
    struct rig_device *dev;
    assert_int_equal(rig_device_take(m, "01:00.0", &dev, NULL), RIG_OK);
    for (int i = 0; i < 8; i++) {
        struct device_hold *hold;
        assert_int_equal(device_alloc(dev, UINT64_C(1) << 30, 0, false, &hold, NULL), RIG_OK);
        uint64_t first = hold->grant.ranges[0].address, last = first + (UINT64_C(1) << 30) - 1;
        assert_true(last < UINT64_C(1) << 38 || first >= UINT64_C(3) << 38);
    }
    close_twin(m);
}

/* ---- registers and memory */

static void a_bar_is_sized_by_all_ones_and_moved_by_a_write(void **state)
{
    (void)state;
    struct rig_machine *m = open_built(SWITCH("", ""), "AMD:25");
    all_on(m);
    int gpu = at(m, "04:00.0");
    assert_int_equal(twin_config_read(m, gpu, 0x10, 4), 0xc);
    assert_int_equal(twin_config_read(m, gpu, 0x14, 4), BAR_TWO >> 32);
    twin_config_write(m, gpu, 0x10, 4, 0xffffffff);
    twin_config_write(m, gpu, 0x14, 4, 0xffffffff);
    assert_int_equal(twin_config_read(m, gpu, 0x10, 4), 0xfc00000c);
    assert_int_equal(twin_config_read(m, gpu, 0x14, 4), 0xffffffff);
    assert_int_equal(twin_memory_write(m, gpu, 0, "moved", 6, NULL), RIG_OK);
    twin_config_write(m, gpu, 0x10, 4, 0);
    twin_config_write(m, gpu, 0x14, 4, 0x77);
    char text[6] = "";
    assert_int_equal(rig_twin_read(m, "03:00.0", UINT64_C(0x77) << 32, text, 6, NULL), RIG_OK);
    assert_string_equal(text, "moved");
    assert_int_equal(route(m, "03:00.0", BAR_TWO).end, TWIN_END_UNCLAIMED);
    close_twin(m);
}

static void a_memory_bar_shows_the_beginning_of_the_gpus_memory(void **state)
{
    (void)state;
    struct rig_machine *m = open_built("00:01.0 rp 01-01\n01:00.0 ep gpu=64/16\n"
                                       "00:02.0 rp 02-02\n02:00.0 ep gpu=16/64\n",
                                       "AMD:25");
    all_on(m);
    assert_int_equal(twin_memory_bytes(m, at(m, "01:00.0")), 64 << 20);
    uint8_t byte = 7;
    const uint64_t one = UINT64_C(2) << 38, two = UINT64_C(3) << 38;
    assert_int_equal(rig_twin_write(m, "02:00.0", one + (16 << 20) - 1, &byte, 1, NULL), RIG_OK);
    assert_int_equal(rig_twin_write(m, "02:00.0", one + (16 << 20), &byte, 1, NULL), RIG_REFUSED);
    byte = 0;
    assert_int_equal(twin_memory_read(m, at(m, "01:00.0"), (16 << 20) - 1, &byte, 1, NULL), RIG_OK);
    assert_int_equal(byte, 7);
    /* A BAR larger than the memory reads all ones beyond it. */
    assert_int_equal(rig_twin_read(m, "01:00.0", two + (16 << 20), &byte, 1, NULL), RIG_OK);
    assert_int_equal(byte, 0xff);
    assert_int_equal(twin_memory_write(m, at(m, "01:00.0"), (64 << 20) - 1, &byte, 2, NULL),
                     RIG_INVALID);
    close_twin(m);
}

static void
firmware_gives_addresses_to_bars_that_have_none_and_keeps_memory_off_the_others(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(SWITCH("", ""), "AMD:25");
    /* A BAR where system memory would be, and one without an address below a closed window. */
    t->node[function_at(t, "03:00.0")].f.bar[0].bus = fact_known(UINT64_C(5) << 30);
    t->node[function_at(t, "04:00.0")].f.bar[0].bus = fact_unknown("not in the text");
    t->node[function_at(t, "02:01.0")].f.memory.base = fact_absent();
    t->node[function_at(t, "02:01.0")].f.prefetchable.base = fact_absent();
    struct rig_machine *m;
    assert_int_equal(rig_twin_open(t, NULL, &m, NULL), RIG_OK);
    rig_topology_free(t);
    all_on(m);
    struct rig_bar_now bar;
    machine_bar(m, at(m, "04:00.0"), 0, &bar);
    assert_true(bar.assigned);
    assert_int_equal(bar.bus & (bar.size - 1), 0);
    assert_int_equal(rig_machine_topology(m)->node[at(m, "04:00.0")].f.bar[0].bus.know,
                     RIG_FACT_ASSUMED);
    assert_int_equal(route(m, "03:00.0", bar.bus).end, TWIN_END_BAR);
    assert_int_equal(route(m, "04:00.0", UINT64_C(5) << 30).end, TWIN_END_BAR);
    /* System memory begins after the BAR, which ends at 5 GiB + 64 MiB. */
    struct rig_device *dev;
    assert_int_equal(rig_device_take(m, "03:00.0", &dev, NULL), RIG_OK);
    struct device_hold *hold;
    assert_int_equal(device_alloc(dev, UINT64_C(8) << 30, 0, false, &hold, NULL), RIG_OK);
    assert_int_equal(hold->grant.count, 1);
    assert_true(hold->grant.ranges[0].address >= (UINT64_C(5) << 30) + (64 << 20));
    close_twin(m);
}

static void a_twin_in_files_keeps_its_bytes_from_process_to_process(void **state)
{
    (void)state;
    char directory[] = "/tmp/rigmem-twin-XXXXXX";
    assert_non_null(mkdtemp(directory));
    struct rig_topology *t = build_machine(SWITCH("", ""), "AMD:25");
    struct rig_machine *m;
    struct rig_device *dev;
    struct device_hold *hold;
    assert_int_equal(rig_twin_open(t, directory, &m, NULL), RIG_OK);
    assert_int_equal(rig_device_take(m, "03:00.0", &dev, NULL), RIG_OK);
    assert_int_equal(device_alloc(dev, 8192, 0, false, &hold, NULL), RIG_OK);
    memcpy((char *)hold->grant.memory + 5000, "host", 5);
    assert_int_equal(twin_memory_write(m, at(m, "03:00.0"), 12345, "own", 4, NULL), RIG_OK);
    char path[64];
    snprintf(path, sizeof path, "%s/system-memory", directory);
    assert_string_equal(m->memory_path, path);
    FILE *file = fopen(m->memory_path, "r");
    assert_non_null(file);
    char text[5] = "";
    assert_int_equal(fseek(file, (long)hold->grant.offset + 5000, SEEK_SET), 0);
    assert_int_equal(fread(text, 1, 5, file), 5);
    assert_string_equal(text, "host");
    fclose(file);
    uint64_t id = hold->id;
    json_t *saved;
    assert_int_equal(machine_save(m, &saved, NULL), RIG_OK);
    machine_detach(m);
    assert_int_equal(twin_reopen(t, directory, saved, &m, NULL), RIG_OK);
    json_decref(saved);
    hold = device_hold_by_id(machine_device(m, at(m, "03:00.0")), id);
    assert_string_equal((char *)hold->grant.memory + 5000, "host");
    assert_int_equal(twin_memory_read(m, at(m, "03:00.0"), 12345, text, 4, NULL), RIG_OK);
    assert_string_equal(text, "own");
    close_twin(m);
    /* A new twin in the same directory begins with zeros. */
    assert_int_equal(rig_twin_open(t, directory, &m, NULL), RIG_OK);
    assert_int_equal(twin_memory_read(m, at(m, "03:00.0"), 12345, text, 4, NULL), RIG_OK);
    assert_int_equal(text[0] | text[1] | text[2], 0);
    close_twin(m);
    rig_topology_free(t);
    fixture_remove_path(directory);
}

/* ---- faults */

static void the_nth_step_of_a_kind_or_of_all_fails_as_asked_once(void **state)
{
    (void)state;
    struct rig_machine *m = open_built(SWITCH("", ""), "AMD:25");
    struct rig_device *dev;
    struct device_hold *hold[3];
    assert_int_equal(rig_device_take(m, "03:00.0", &dev, NULL), RIG_OK);
    twin_arm(m, TWIN_FAULT_NO_ROOM, TWIN_STEP_ALLOC, 2);
    assert_int_equal(device_alloc(dev, 1, 0, false, &hold[0], NULL), RIG_OK);
    assert_false(twin_fired(m));
    assert_int_equal(device_alloc(dev, 1, 0, false, &hold[1], NULL), RIG_NO_ROOM);
    assert_true(twin_fired(m));
    assert_int_equal(device_alloc(dev, 1, 0, false, &hold[1], NULL), RIG_OK);
    assert_int_equal(rig_twin_fault(m, "cut=3", NULL), RIG_OK);
    assert_int_equal(device_free(dev, hold[0], NULL), RIG_OK);
    assert_int_equal(device_alloc(dev, 1, 0, false, &hold[0], NULL), RIG_OK);
    assert_int_equal(device_free(dev, hold[1], NULL), RIG_FAILED);
    /* A free is never refused, and has no room to lack. */
    assert_int_equal(rig_twin_fault(m, "refuse=1", NULL), RIG_OK);
    assert_int_equal(device_free(dev, hold[0], NULL), RIG_OK);
    assert_int_equal(device_alloc(dev, 1, 0, false, &hold[0], NULL), RIG_OK);
    assert_int_equal(rig_twin_fault(m, "noroom=1", NULL), RIG_OK);
    assert_int_equal(rig_twin_fault(m, "ok", NULL), RIG_OK);
    assert_int_equal(device_alloc(dev, 1, 0, false, &hold[2], NULL), RIG_OK);
    assert_int_equal(twin_steps(m, TWIN_STEP_ALLOC), 6);
    assert_int_equal(twin_steps(m, TWIN_STEP_FREE), 3);
    assert_int_equal(twin_steps(m, TWIN_STEP_ANY), 10);
    close_twin(m);
}

static void faults_that_are_none_are_misuse(void **state)
{
    (void)state;
    static const char *const specs[] = {
        "",
        "flush=",
        "flush=sometimes",
        "gpu9:flush=ok",
        ":flush=ok",
        "02:00.0:flush=ok",
        "gone=",
        "gone=09:00.0",
        "cut=",
        "cut=0",
        "cut=-1",
        "cut=1x",
        "noroom",
        "refuse= 1",
        "failed=1",
        "xflush=ok",
        "cut=99999999999999999999",
    };
    struct rig_machine *m = open_built(SWITCH("", ""), "AMD:25");
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(specs); i++) {
        struct rig_error err = {.status = RIG_OK};
        if (rig_twin_fault(m, specs[i], &err) != RIG_INVALID || !err.why[0])
            fail_msg("\"%s\" was taken", specs[i]);
    }
    assert_int_equal(rig_twin_fault(m, "gpu1:flush=never", NULL), RIG_OK);
    assert_int_equal(rig_twin_fault(m, "03:00.0:flush=late", NULL), RIG_OK);
    close_twin(m);
}

/* ---- against Linux's decision */

static uint32_t seed_state;

static unsigned roll(unsigned sides)
{
    seed_state = seed_state * 1664525u + 1013904223u;
    return (seed_state >> 8) % sides;
}

static void add(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(char *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(text + strlen(text), 8192 - strlen(text), format, args);
    va_end(args);
}

static void add_acs(char *text)
{
    static const char *const words[] = {"0000", "0004", "0008", "0020", "001d", "0053", "005f"};
    if (roll(3) == 0)
        add(text, " acs=%s", words[roll(RIG_ARRAY_LENGTH(words))]);
    add(text, "\n");
}

/* Below a port that makes bus `bus`: an endpoint or two of one device, or a switch. The last bus
   that is used is the result; bridges' ranges are wide and do not overlap. */
static unsigned add_below(char *text, unsigned bus, unsigned depth)
{
    if (depth == 0 || roll(2) == 0) {
        unsigned functions = 1 + roll(2);
        for (unsigned f = 0; f < functions; f++) {
            add(text, "%02x:00.%u ep gpu=16/16", bus, f);
            add_acs(text);
        }
        return bus;
    }
    char below[4096] = "";
    unsigned ports = 1 + roll(3), last = bus + 1;
    for (unsigned p = 0; p < ports; p++) {
        char port[2048] = "";
        unsigned first = last + 1;
        last = add_below(port, first, depth - 1);
        add(below, "%02x:%02x.0 down %02x-%02x", bus + 1, p, first, last);
        add_acs(below);
        add(below, "%s", port);
    }
    add(text, "%02x:00.0 up %02x-%02x", bus, bus + 1, last);
    add_acs(text);
    add(text, "%s", below);
    return last;
}

static void add_host_bridge(char *text, unsigned bus)
{
    static const char *const ids[] = {"8086:4c43", "8086:09a2", "8086:3c00", "8086:2f01",
                                      "8086:2020"};
    add(text, "%02x:00.0 host id=%s\n", bus, ids[roll(RIG_ARRAY_LENGTH(ids))]);
    unsigned ports = 1 + roll(2), last = bus;
    for (unsigned p = 0; p < ports; p++) {
        char below[8192] = "";
        unsigned first = last + 1;
        last = add_below(below, first, 2);
        add(text, "%02x:%02x.0 rp %02x-%02x", bus, p + 1, first, last);
        add_acs(text);
        add(text, "%s", below);
    }
    if (roll(3) == 0)
        add(text, "%02x:1f.0 rciep gpu=16/16\n", bus);
}

/* The builder puts BARs at addresses of their buses; here each needs its own. */
static void spread_bars(struct rig_topology *t)
{
    for (int i = 0; i < t->count; i++)
        if (rig_fact_has(t->node[i].f.bar[0].size))
            t->node[i].f.bar[0].bus = t->node[i].f.bar[0].cpu =
                fact_known((UINT64_C(1) << 41) + ((uint64_t)i << 24));
}

static int check_all_pairs(struct rig_machine *m, unsigned seed)
{
    const struct rig_topology *t = rig_machine_topology(m);
    const struct rig_rules *rules = rig_rules_default(t, NULL);
    int carried = 0;
    for (int p = 0; p < t->count; p++)
        for (int c = 0; c < t->count; c++) {
            if (!t->node[p].f.gpu || !t->node[c].f.gpu)
                continue;
            struct rig_p2pdma d;
            assert_int_equal(rig_p2pdma_decide(t, rules, p, c, &d, NULL), RIG_OK);
            struct twin_route r;
            twin_route(m, c, t->node[p].f.bar[0].bus.value, 8, &r);
            bool arrives = r.end == TWIN_END_BAR && r.hop == p;
            if (d.possible == (unsigned)RIG_NOT_SUPPORTED ? arrives : !arrives)
                fail_msg("seed %u: client %d, owner %d: Linux %u, the twin ends %d at %d", seed, c,
                         p, d.possible, (int)r.end, r.hop);
            carried += arrives;
            rig_p2pdma_free(&d);
        }
    return carried;
}

static void requests_arrive_exactly_where_linux_says_they_can(void **state)
{
    (void)state;
    int pairs = 0;
    for (unsigned seed = 1; seed <= 300; seed++) {
        static const char *const cpus[] = {"Intel:6", "Intel:6", "AMD:25", "AMD:21"};
        seed_state = seed;
        char text[8192] = "";
        unsigned bridges = 1 + roll(2);
        for (unsigned b = 0; b < bridges; b++)
            add_host_bridge(text, 0x40 * b);
        struct rig_topology *t = build_machine(text, cpus[roll(RIG_ARRAY_LENGTH(cpus))]);
        spread_bars(t);
        struct rig_machine *m;
        assert_int_equal(rig_twin_open(t, NULL, &m, NULL), RIG_OK);
        rig_topology_free(t);
        all_on(m);
        pairs += check_all_pairs(m, seed);
        close_twin(m);
    }
    assert_true(pairs > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_switch_turns_a_request_around_where_its_windows_hold_the_address),
        cmocka_unit_test(a_redirecting_port_sends_a_request_to_the_root_complex_which_drops_it),
        cmocka_unit_test(amds_root_complex_carries_what_was_redirected),
        cmocka_unit_test(
            the_owners_port_redirects_too_and_bits_that_do_not_redirect_change_nothing),
        cmocka_unit_test(between_host_bridges_only_listed_ones_carry),
        cmocka_unit_test(nothing_leaves_without_mastering_and_nothing_is_taken_without_decode),
        cmocka_unit_test(gpus_start_without_mastering_and_other_functions_with_it),
        cmocka_unit_test(a_known_window_forwards_what_it_holds_and_nothing_else),
        cmocka_unit_test(what_is_above_a_function_may_be_unknown_and_then_nothing_passes),
        cmocka_unit_test(a_function_that_left_takes_all_below_it_along),
        cmocka_unit_test(an_iommu_translates_what_was_granted_and_nothing_else),
        cmocka_unit_test(device_addresses_behind_an_iommu_are_never_a_bars),
        cmocka_unit_test(a_bar_is_sized_by_all_ones_and_moved_by_a_write),
        cmocka_unit_test(a_memory_bar_shows_the_beginning_of_the_gpus_memory),
        cmocka_unit_test(
            firmware_gives_addresses_to_bars_that_have_none_and_keeps_memory_off_the_others),
        cmocka_unit_test(a_twin_in_files_keeps_its_bytes_from_process_to_process),
        cmocka_unit_test(the_nth_step_of_a_kind_or_of_all_fails_as_asked_once),
        cmocka_unit_test(faults_that_are_none_are_misuse),
        cmocka_unit_test(requests_arrive_exactly_where_linux_says_they_can),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
