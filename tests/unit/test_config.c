/* config_decode over spaces built register by register as the PCI and PCI Express base
   specifications lay them out. */
#include "topology/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct machine {
    struct rig_topology *t;
    struct node node;
    uint8_t at[4096];
};

static void put16(uint8_t *at, size_t offset, unsigned value)
{
    at[offset] = (uint8_t)value;
    at[offset + 1] = (uint8_t)(value >> 8);
}

static void put32(uint8_t *at, size_t offset, uint32_t value)
{
    put16(at, offset, value & 0xffff);
    put16(at, offset + 2, value >> 16);
}

static int set_up(void **state)
{
    static struct machine m;
    memset(&m, 0, sizeof m);
    m.t = topology_new(RIG_SOURCE_LSPCI_HEX);
    put32(m.at, 0x00, 0x268410de); /* vendor 10de, device 2684 */
    put32(m.at, 0x04, 0x00100406); /* memory decode, bus master, INTx off; capability list */
    put32(m.at, 0x08, 0x030000a1); /* VGA, revision a1 */
    m.at[0x34] = 0x60;
    put16(m.at, 0x60, 0x7801);     /* power management, next 78 */
    put16(m.at, 0x78, 0x0010);     /* PCI Express, the last */
    put16(m.at, 0x7a, 0x0002);     /* version 2, endpoint */
    put32(m.at, 0x84, 0x00453d04); /* link: 16 GT/s, x16 at most */
    put16(m.at, 0x8a, 0x1101);     /* now 2.5 GT/s, x16 */
    *state = &m;
    return 0;
}

static int tear_down(void **state)
{
    rig_topology_free(((struct machine *)*state)->t);
    return 0;
}

static struct rig_function *decode(struct machine *m, size_t bytes)
{
    m->node = (struct node){.place = PLACE_BY_BUSES};
    config_decode(m->t, &m->node, m->at, bytes);
    return &m->node.f;
}

static void known(struct rig_fact f, uint64_t value)
{
    assert_int_equal(f.know, RIG_FACT_KNOWN);
    assert_int_equal(f.value, value);
}

static void absent(struct rig_fact f)
{
    assert_int_equal(f.know, RIG_FACT_ABSENT);
}

static void unknown_with_reason(struct rig_fact f)
{
    assert_int_equal(f.know, RIG_FACT_UNKNOWN);
    assert_non_null(f.from);
}

static void ids_class_command_and_links_are_read(void **state)
{
    struct machine *m = *state;
    put32(m->at, 0x2c, 0x167c10de);
    struct rig_function *f = decode(m, 4096);
    known(f->vendor, 0x10de);
    known(f->device, 0x2684);
    known(f->class_code, 0x030000);
    known(f->revision, 0xa1);
    known(f->command, 0x0406);
    assert_int_equal(f->command_mask, 0xffff);
    known(f->subsystem_vendor, 0x10de);
    known(f->subsystem_device, 0x167c);
    known(f->header_type, 0);
    known(f->config_bytes, 4096);
    known(f->pcie_type, RIG_PCIE_ENDPOINT);
    known(f->max_speed, 160);
    known(f->max_width, 16);
    known(f->link_speed, 25);
    known(f->link_width, 16);
    absent(f->secondary);
    absent(f->memory.base);
}

static void the_bit_for_several_functions_is_no_header_type(void **state)
{
    struct machine *m = *state;
    m->at[0x0e] = 0x80;
    known(decode(m, 64)->header_type, 0);
}

static void bars_have_kind_and_bus_address_but_no_size(void **state)
{
    struct machine *m = *state;
    put32(m->at, 0x10, 0xb8000000); /* 32-bit */
    put32(m->at, 0x14, 0xc000000c); /* 64-bit, prefetchable */
    put32(m->at, 0x18, 0x000010ff);
    put32(m->at, 0x1c, 0x0000000c); /* 64-bit, prefetchable, not placed */
    put32(m->at, 0x24, 0x00003001); /* I/O */
    struct rig_function *f = decode(m, 64);
    known(f->bar[0].flags, 0);
    known(f->bar[0].bus, 0xb8000000);
    known(f->bar[1].flags, RIG_BAR_64BIT | RIG_BAR_PREFETCHABLE);
    known(f->bar[1].bus, 0x10ffc0000000);
    unknown_with_reason(f->bar[1].size);
    absent(f->bar[2].flags);
    known(f->bar[3].flags, RIG_BAR_64BIT | RIG_BAR_PREFETCHABLE);
    absent(f->bar[3].bus);
    known(f->bar[5].flags, RIG_BAR_IO);
    known(f->bar[5].bus, 0x3000);
}

static void a_64_bit_bar_in_the_last_register_has_no_upper_half(void **state)
{
    struct machine *m = *state;
    put32(m->at, 0x24, 0xe0000004);
    put32(m->at, 0x28, 0xffffffff);
    struct rig_function *f = decode(m, 64);
    known(f->bar[5].flags, 0);
    known(f->bar[5].bus, 0xe0000000);
}

static void a_bridge_has_buses_and_windows(void **state)
{
    struct machine *m = *state;
    put32(m->at, 0x08, 0x06040000);
    m->at[0x0e] = 1;
    m->at[0x18] = 0x5d;
    m->at[0x19] = 0x5e;
    m->at[0x1a] = 0x61;
    m->at[0x1c] = 0xf0; /* I/O base above its limit: closed */
    put32(m->at, 0x20, 0xba00b900);
    put32(m->at, 0x24, 0xeff1e001);
    put32(m->at, 0x28, 0xbf);
    put32(m->at, 0x2c, 0xbf);
    put16(m->at, 0x7a, 0x0042); /* root port */
    struct rig_function *f = decode(m, 256);
    known(f->header_type, 1);
    known(f->primary, 0x5d);
    known(f->secondary, 0x5e);
    known(f->subordinate, 0x61);
    absent(f->io.base);
    known(f->memory.base, 0xb9000000);
    known(f->memory.limit, 0xba0fffff);
    known(f->prefetchable.base, 0xbfe0000000);
    known(f->prefetchable.limit, 0xbfefffffff);
    known(f->pcie_type, RIG_PCIE_ROOT_PORT);
    unknown_with_reason(f->acs_control);
}

static void a_32_bit_io_window_has_an_upper_half(void **state)
{
    struct machine *m = *state;
    m->at[0x0e] = 1;
    m->at[0x1c] = 0x21;
    m->at[0x1d] = 0x31;
    put32(m->at, 0x30, 0x00010001);
    struct rig_function *f = decode(m, 64);
    known(f->io.base, 0x12000);
    known(f->io.limit, 0x13fff);
}

static void acs_is_found_in_extended_space(void **state)
{
    struct machine *m = *state;
    put32(m->at, 0x100, 0x14820001); /* AER, next 148 */
    put32(m->at, 0x148, 0x0001000d); /* ACS, the last */
    put16(m->at, 0x14c, 0x005f);
    put16(m->at, 0x14e, 0x001d);
    struct rig_function *f = decode(m, 4096);
    known(f->acs_capability, 0x5f);
    known(f->acs_control, 0x1d);
    absent(f->pasid_or_ats);
    absent(f->vf_count);
}

/* Intel's 100-series ports keep their real control word elsewhere: Linux's decision, as lspci,
   reads the word at +6 all the same (8086:a110 to a11f; the quirk with a doubleword at +8 feeds
   IOMMU groups alone). */
static void the_control_word_is_the_one_that_linux_reads(void **state)
{
    struct machine *m = *state;
    put32(m->at, 0x00, 0xa1108086);
    put32(m->at, 0x100, 0x0001000d);
    put16(m->at, 0x104, 0x000f);
    put16(m->at, 0x106, 0x0000);
    put32(m->at, 0x108, 0x0000001d);
    struct rig_function *f = decode(m, 4096);
    known(f->acs_control, 0);
}

static void whole_space_without_acs_makes_it_absent(void **state)
{
    struct machine *m = *state;
    struct rig_function *f = decode(m, 4096);
    absent(f->acs_capability);
    absent(f->acs_control);
}

static void sixty_four_bytes_leave_capabilities_unknown(void **state)
{
    struct rig_function *f = decode(*state, 64);
    unknown_with_reason(f->pcie_type);
    unknown_with_reason(f->acs_control);
    unknown_with_reason(f->link_speed);
    unknown_with_reason(f->vf_count);
}

static void sixty_four_bytes_without_a_list_are_conventional_pci(void **state)
{
    struct machine *m = *state;
    put16(m->at, 0x06, 0);
    struct rig_function *f = decode(m, 64);
    absent(f->pcie_type);
    absent(f->acs_control);
    absent(f->link_speed);
}

static void conventional_bytes_leave_an_express_functions_extended_space_unknown(void **state)
{
    struct rig_function *f = decode(*state, 256);
    known(f->pcie_type, RIG_PCIE_ENDPOINT);
    unknown_with_reason(f->acs_control);
    unknown_with_reason(f->pasid_or_ats);
}

static void a_space_cut_short_leaves_what_lies_beyond_unknown(void **state)
{
    struct machine *m = *state;
    put32(m->at, 0x100, 0x2000000f | 0x00010000); /* ATS, next 200 */
    struct rig_function *f = decode(m, 0x180);
    known(f->pasid_or_ats, 1);
    unknown_with_reason(f->acs_control);
    assert_int_equal(m->t->warnings, 1);
}

/* The dump ends within the capability: it is there, so a port that has it may redirect. */
static void a_capability_that_the_dump_cuts_is_not_known(void **state)
{
    struct machine *m = *state;
    put32(m->at, 0x10, 0xc000000c);
    put32(m->at, 0x100, 0x14c2000b);
    put32(m->at, 0x14c, 0x0001000d); /* ACS, the last; its control word is at 152 */
    struct rig_function *f = decode(m, 0x150);
    unknown_with_reason(f->acs_capability);
    unknown_with_reason(f->acs_control);
    absent(f->vf_count);
    put32(m->at, 0x14c, 0x00010010); /* SR-IOV */
    f = decode(m, 0x160);
    unknown_with_reason(f->vf_count);
    unknown_with_reason(f->vf_offset);
    absent(f->acs_control);
    put32(m->at, 0x14c, 0x00010015); /* Resizable BAR */
    f = decode(m, 0x150);
    unknown_with_reason(f->bar[0].resizable);
    assert_int_equal(f->bar[1].resizable.know, RIG_FACT_UNKNOWN);
    absent(f->acs_control);
}

/* Linux: pci_find_ext_capability returns the first. */
static void the_first_of_two_acs_capabilities_counts(void **state)
{
    struct machine *m = *state;
    put32(m->at, 0x100, 0x1482000d);
    put32(m->at, 0x104, 0x0000005f);
    put32(m->at, 0x148, 0x0001000d);
    put32(m->at, 0x14c, 0x001d005f);
    known(decode(m, 4096)->acs_control, 0);
}

static void what_a_cut_list_may_still_hold_is_not_known(void **state)
{
    struct machine *m = *state;
    put32(m->at, 0x10, 0xc000000c);
    put32(m->at, 0x14, 0x000000a0);
    put32(m->at, 0x18, 0xd0000008);
    put32(m->at, 0x100, 0x20010015); /* Resizable BAR of BAR 0 alone; next 200 */
    put32(m->at, 0x104, 0x00010000); /* bit 12: 4 GiB */
    put32(m->at, 0x108, 0x00000c20);
    struct rig_function *f = decode(m, 0x180);
    known(f->bar[0].resizable, 0x1000);
    unknown_with_reason(f->bar[2].resizable);
    unknown_with_reason(f->vf_stride);
    assert_int_equal(m->t->warnings, 1);
    /* What is no PCI Express function has no extended capabilities, whatever lies there. */
    m->at[0x61] = 0;
    f = decode(m, 0x180);
    absent(f->pcie_type);
    absent(f->acs_control);
    absent(f->bar[0].resizable);
}

/* PCIe base specification 7.5.3.6: codes 1 to 6, as of 6.0. */
static void a_speed_code_that_is_not_defined_is_not_known(void **state)
{
    struct machine *m = *state;
    put32(m->at, 0x84, 0x00453d07);
    put16(m->at, 0x8a, 0x1100);
    struct rig_function *f = decode(m, 256);
    unknown_with_reason(f->max_speed);
    unknown_with_reason(f->link_speed);
    known(f->link_width, 16);
    put32(m->at, 0x84, 0x00453d06);
    known(decode(m, 256)->max_speed, 640);
}

/* A root complex's event collector has no link either (PCIe 7.5.3). */
static void an_event_collector_has_no_link(void **state)
{
    struct machine *m = *state;
    put16(m->at, 0x7a, 0x00a2);
    struct rig_function *f = decode(m, 256);
    known(f->pcie_type, RIG_PCIE_EVENT_COLLECTOR);
    absent(f->link_speed);
}

/* Linux: __pci_find_next_cap_ttl and pci_find_next_ext_capability stop there. */
static void a_list_ends_where_it_reads_all_ones(void **state)
{
    struct machine *m = *state;
    m->at[0x60] = 0xff;
    absent(decode(m, 256)->pcie_type);
    m->at[0x60] = 0x01;
    put32(m->at, 0x100, 0xffffffff);
    absent(decode(m, 4096)->acs_control);
    assert_int_equal(m->t->warnings, 0);
}

/* Entries name their BAR: of seven entries, which is one more than there can be, the last is not
   read; one of BAR 6, which no function has, and one of a BAR that is not there say nothing. */
static void resizable_entries_of_bars_that_are_not_there_say_nothing(void **state)
{
    struct machine *m = *state;
    put32(m->at, 0x10, 0xc000000c);
    put32(m->at, 0x14, 0x000000a0);
    put32(m->at, 0x100, 0x00010015);
    static const uint32_t controls[] = {0x8e6, 0x8e2, 0x8e3, 0x8e4, 0x8e5, 0x8e7, 0x8e0};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(controls); i++) {
        put32(m->at, 0x104 + 8 * i, 0x00010000);
        put32(m->at, 0x108 + 8 * i, controls[i]);
    }
    struct rig_function *f = decode(m, 4096);
    absent(f->bar[0].resizable);
    unknown_with_reason(f->bar[0].size);
    for (int i = 2; i < RIG_BAR_COUNT; i++)
        absent(f->bar[i].flags);
}

static void virtual_functions_are_counted_when_enabled(void **state)
{
    struct machine *m = *state;
    put32(m->at, 0x100, 0x00010010);
    put16(m->at, 0x10c, 8);
    put16(m->at, 0x110, 4);
    put16(m->at, 0x114, 0x80);
    put16(m->at, 0x116, 2);
    struct rig_function *f = decode(m, 4096);
    known(f->vf_count, 0);
    put16(m->at, 0x108, 1);
    f = decode(m, 4096);
    known(f->vf_count, 4);
    known(f->vf_offset, 0x80);
    known(f->vf_stride, 2);
}

static void resizable_bar_tells_size_and_sizes(void **state)
{
    struct machine *m = *state;
    put32(m->at, 0x14, 0xc000000c);
    put32(m->at, 0x18, 0x1);
    put32(m->at, 0x100, 0x00010015);
    put32(m->at, 0x104, 0x0007ffc0 << 4 & 0xfffffff0u); /* bits 6 to 18: 64 MiB to 256 GiB */
    put32(m->at, 0x108, 0x00000821);                    /* one BAR, BAR 1, size code 8 */
    struct rig_function *f = decode(m, 4096);
    known(f->bar[1].size, UINT64_C(256) << 20);
    known(f->bar[1].resizable, 0x7ffc0);
}

static void a_resizable_size_that_no_address_has_is_left_out(void **state)
{
    struct machine *m = *state;
    put32(m->at, 0x10, 0xc000000c);
    put32(m->at, 0x100, 0x00010015);
    put32(m->at, 0x108, 0x00003f20); /* size code 63 */
    unknown_with_reason(decode(m, 4096)->bar[0].size);
}

/* The pointer behind the first leads beyond what the dump holds. */
static void a_second_express_capability_changes_nothing(void **state)
{
    struct machine *m = *state;
    m->at[0x79] = 0x90;
    put16(m->at, 0x90, 0xa010);
    put16(m->at, 0x92, 0x0042); /* a root port */
    known(decode(m, 256)->pcie_type, RIG_PCIE_ENDPOINT);
    known(decode(m, 0x98)->pcie_type, RIG_PCIE_ENDPOINT);
    unknown_with_reason(decode(m, 0x98)->acs_control);
}

/* PCI-to-PCI bridge's subsystem ids (PCI-to-PCI bridge specification 1.2, 3.2.5.13). */
static void a_bridge_has_its_subsystem_in_a_capability(void **state)
{
    struct machine *m = *state;
    m->at[0x0e] = 1;
    m->at[0x79] = 0xc0;
    put16(m->at, 0xc0, 0x000d);
    put32(m->at, 0xc4, 0x12341028);
    struct rig_function *f = decode(m, 256);
    known(f->subsystem_vendor, 0x1028);
    known(f->subsystem_device, 0x1234);
}

static void a_capability_list_that_loops_ends_with_a_warning(void **state)
{
    struct machine *m = *state;
    m->at[0x79] = 0x60;
    struct rig_function *f = decode(m, 256);
    known(f->pcie_type, RIG_PCIE_ENDPOINT);
    assert_int_equal(m->t->warnings, 1);
    assert_non_null(strstr(m->t->warning[0], "0000:00:00.0"));
}

static void a_capability_pointer_into_the_header_ends_with_a_warning(void **state)
{
    struct machine *m = *state;
    m->at[0x61] = 0x10;
    absent(decode(m, 256)->pcie_type);
    assert_int_equal(m->t->warnings, 1);
}

static void an_extended_list_that_loops_ends_with_a_warning(void **state)
{
    struct machine *m = *state;
    put32(m->at, 0x100, 0x14820001);
    put32(m->at, 0x148, 0x1001000b);
    absent(decode(m, 4096)->acs_control);
    assert_int_equal(m->t->warnings, 1);
}

static void an_extended_pointer_below_extended_space_ends_with_a_warning(void **state)
{
    struct machine *m = *state;
    put32(m->at, 0x100, 0x04020001);
    absent(decode(m, 4096)->acs_control);
    assert_int_equal(m->t->warnings, 1);
}

static void an_integrated_endpoint_has_no_link(void **state)
{
    struct machine *m = *state;
    put16(m->at, 0x7a, 0x0092);
    struct rig_function *f = decode(m, 256);
    known(f->pcie_type, RIG_PCIE_INTEGRATED_ENDPOINT);
    absent(f->link_speed);
    absent(f->max_width);
}

static void a_port_with_nothing_behind_has_no_link_now(void **state)
{
    struct machine *m = *state;
    put16(m->at, 0x8a, 0x0001);
    struct rig_function *f = decode(m, 256);
    absent(f->link_speed);
    absent(f->link_width);
    known(f->max_speed, 160);
}

static void all_ones_are_a_function_that_is_not_there(void **state)
{
    struct machine *m = *state;
    memset(m->at, 0xff, sizeof m->at);
    struct rig_function *f = decode(m, 4096);
    assert_int_equal(f->vendor.know, RIG_FACT_UNKNOWN);
    unknown_with_reason(f->acs_control);
    assert_int_equal(f->header_type.know, RIG_FACT_UNKNOWN);
    assert_int_equal(m->t->warnings, 1);
}

static void ids_of_all_ones_alone_are_a_virtual_functions(void **state)
{
    struct machine *m = *state;
    put32(m->at, 0x00, 0xffffffff);
    struct rig_function *f = decode(m, 256);
    known(f->vendor, 0xffff);
    known(f->header_type, 0);
    unknown_with_reason(f->bar[0].flags);
}

static void a_cardbus_bridge_has_buses_and_one_bar(void **state)
{
    struct machine *m = *state;
    put32(m->at, 0x08, 0x06070000);
    m->at[0x0e] = 2;
    m->at[0x14] = 0x60;
    m->at[0x34] = 0;
    put32(m->at, 0x10, 0xf0000000);
    put32(m->at, 0x18, 0x00060302); /* primary 2, CardBus 3, subordinate 6 */
    struct rig_function *f = decode(m, 128);
    known(f->header_type, 2);
    known(f->secondary, 3);
    known(f->subordinate, 6);
    known(f->bar[0].bus, 0xf0000000);
    absent(f->bar[1].flags);
}

static void an_unknown_header_type_keeps_ids_and_warns(void **state)
{
    struct machine *m = *state;
    m->at[0x0e] = 0x05;
    struct rig_function *f = decode(m, 256);
    known(f->vendor, 0x10de);
    assert_int_equal(f->secondary.know, RIG_FACT_UNKNOWN);
    assert_int_equal(m->t->warnings, 1);
}

static void a_few_bytes_only_do_not_overrun(void **state)
{
    struct machine *m = *state;
    for (size_t bytes = 0; bytes < 300; bytes++) {
        struct node node = {.f = {.parent = -1}};
        uint8_t *copy = test_malloc(bytes ? bytes : 1);
        memcpy(copy, m->at, bytes);
        config_decode(m->t, &node, copy, bytes);
        test_free(copy);
        if (bytes >= 64)
            known(node.f.vendor, 0x10de);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ids_class_command_and_links_are_read),
        TEST(the_bit_for_several_functions_is_no_header_type),
        TEST(bars_have_kind_and_bus_address_but_no_size),
        TEST(a_64_bit_bar_in_the_last_register_has_no_upper_half),
        TEST(a_bridge_has_buses_and_windows),
        TEST(a_32_bit_io_window_has_an_upper_half),
        TEST(acs_is_found_in_extended_space),
        TEST(the_control_word_is_the_one_that_linux_reads),
        TEST(whole_space_without_acs_makes_it_absent),
        TEST(sixty_four_bytes_leave_capabilities_unknown),
        TEST(sixty_four_bytes_without_a_list_are_conventional_pci),
        TEST(conventional_bytes_leave_an_express_functions_extended_space_unknown),
        TEST(a_space_cut_short_leaves_what_lies_beyond_unknown),
        TEST(a_capability_that_the_dump_cuts_is_not_known),
        TEST(the_first_of_two_acs_capabilities_counts),
        TEST(what_a_cut_list_may_still_hold_is_not_known),
        TEST(a_speed_code_that_is_not_defined_is_not_known),
        TEST(an_event_collector_has_no_link),
        TEST(a_list_ends_where_it_reads_all_ones),
        TEST(resizable_entries_of_bars_that_are_not_there_say_nothing),
        TEST(virtual_functions_are_counted_when_enabled),
        TEST(resizable_bar_tells_size_and_sizes),
        TEST(a_resizable_size_that_no_address_has_is_left_out),
        TEST(a_second_express_capability_changes_nothing),
        TEST(a_bridge_has_its_subsystem_in_a_capability),
        TEST(a_capability_list_that_loops_ends_with_a_warning),
        TEST(a_capability_pointer_into_the_header_ends_with_a_warning),
        TEST(an_extended_list_that_loops_ends_with_a_warning),
        TEST(an_extended_pointer_below_extended_space_ends_with_a_warning),
        TEST(an_integrated_endpoint_has_no_link),
        TEST(a_port_with_nothing_behind_has_no_link_now),
        TEST(all_ones_are_a_function_that_is_not_there),
        TEST(ids_of_all_ones_alone_are_a_virtual_functions),
        TEST(a_cardbus_bridge_has_buses_and_one_bar),
        TEST(an_unknown_header_type_keeps_ids_and_warns),
        TEST(a_few_bytes_only_do_not_overrun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
