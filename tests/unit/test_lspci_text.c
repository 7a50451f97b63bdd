/* lspci's text as lspci prints it and as people paste it. The machine in these texts is invented;
   the forms of its lines are those of pciutils 2.2 to 3.14. */
#include "reading.h"
#include "topology/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A root port with redirecting ACS, a switch without, and a GPU, as lspci -vvv -nn. */
#define CONTROL                                                                                    \
    "\tControl: I/O- Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr+ Stepping- SERR+ "       \
    "FastB2B- DisINTx-\n"
#define STATUS                                                                                     \
    "\tStatus: Cap+ 66MHz- UDF- FastB2B- ParErr- DEVSEL=fast >TAbort- <TAbort- <MAbort- >SERR- "   \
    "<PERR- INTx-\n"
#define PORT_HEADER                                                                                \
    "00:01.0 PCI bridge [0604]: Intel Corporation Sky Lake-E PCI Express Root Port A "             \
    "[8086:2030] (rev 07) (prog-if 00 [Normal decode])\n"
#define PORT_ACS                                                                                   \
    "\tCapabilities: [110 v1] Access Control Services\n"                                           \
    "\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- "             \
    "DirectTrans-\n"                                                                               \
    "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- "             \
    "DirectTrans-\n"
#define PORT                                                                                            \
    PORT_HEADER CONTROL STATUS                                                                          \
        "\tNUMA node: 0\n"                                                                              \
        "\tIOMMU group: 7\n"                                                                            \
        "\tBus: primary=00, secondary=01, subordinate=03, sec-latency=0\n"                              \
        "\tI/O behind bridge: 0000f000-00000fff [disabled]\n"                                           \
        "\tMemory behind bridge: b9000000-ba0fffff [size=17M] [32-bit]\n"                               \
        "\tPrefetchable memory behind bridge: 000000bfe0000000-000000bff07fffff [size=264M] [32-bit]\n" \
        "\tCapabilities: [40] Subsystem: Intel Corporation Device [8086:0000]\n"                        \
        "\tCapabilities: [90] Express (v2) Root Port (Slot+), MSI 00\n"                                 \
        "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1, Exit Latency L1 <16us\n"               \
        "\t\tLnkSta:\tSpeed 8GT/s (downgraded), Width x8 (downgraded)\n" PORT_ACS                       \
        "\tKernel driver in use: pcieport\n"
#define GPU                                                                                        \
    "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation AD102 [GeForce RTX 4090] "       \
    "[10de:2684] (rev a1) (prog-if 00 [VGA controller])\n"                                         \
    "\tSubsystem: NVIDIA Corporation Device [10de:167c]\n" CONTROL STATUS                          \
    "\tRegion 0: Memory at b8000000 (32-bit, non-prefetchable) [size=16M]\n"                       \
    "\tRegion 1: Memory at 28800000000 (64-bit, prefetchable) [size=32G]\n"                        \
    "\tRegion 3: Memory at 28400000000 (64-bit, prefetchable) [size=32M]\n"                        \
    "\tRegion 5: I/O ports at 3000 [size=128]\n"                                                   \
    "\tExpansion ROM at b3000000 [virtual] [disabled] [size=512K]\n"                               \
    "\tCapabilities: [60] Power Management version 3\n"                                            \
    "\t\tFlags: PMEClk- DSI- D1- D2- AuxCurrent=0mA PME(D0+,D1-,D2-,D3hot+,D3cold-)\n"             \
    "\t\tStatus: D0 NoSoftRst+ PME-Enable- DSel=0 DScale=0 PME-\n"                                 \
    "\tCapabilities: [78] Express (v2) Legacy Endpoint, IntMsgNum 0\n"                             \
    "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L0s L1\n"                                 \
    "\t\tLnkSta:\tSpeed 2.5GT/s, Width x8\n"                                                       \
    "\tCapabilities: [bb0 v1] Physical Resizable BAR\n"                                            \
    "\t\tBAR 1: current size: 32GB, supported: 64MB 128MB 256MB 512MB 1GB 2GB 4GB 8GB 16GB 32GB\n" \
    "\tKernel driver in use: nvidia\n"                                                             \
    "\tKernel modules: nvidiafb, nouveau\n"

static struct rig_topology *accept(const char *text)
{
    return reading_accepted("text", text);
}

static void refuse(const char *text, const char *part)
{
    reading_refused("text", text, part);
}

static const char *above(const struct rig_topology *t, const char *name)
{
    static char text[RIG_BDF_MAX];
    int parent = function_named(t, name)->parent;
    return parent < 0 ? "-" : rig_bdf_format(rig_topology_function(t, parent)->bdf, text);
}

static void known(struct rig_fact f, uint64_t value)
{
    if (f.know != RIG_FACT_KNOWN || f.value != value)
        fail_msg("know %d, value %llx, not %llx", (int)f.know, (unsigned long long)f.value,
                 (unsigned long long)value);
}

static void assumed(struct rig_fact f, uint64_t value)
{
    assert_int_equal(f.know, RIG_FACT_ASSUMED);
    assert_int_equal(f.value, value);
    assert_non_null(f.from);
}

static void absent(struct rig_fact f)
{
    assert_int_equal(f.know, RIG_FACT_ABSENT);
}

static void unknown(struct rig_fact f, const char *part)
{
    assert_int_equal(f.know, RIG_FACT_UNKNOWN);
    assert_non_null(f.from);
    if (!strstr(f.from, part))
        fail_msg("\"%s\" is not in \"%s\"", part, f.from);
}

/* The facts of PORT and GPU, whatever was done to their lines. */
static void expect_machine(struct rig_topology *t)
{
    const struct rig_function *port = function_named(t, "00:01.0"),
                              *gpu = function_named(t, "01:00.0");
    known(port->vendor, 0x8086);
    known(port->device, 0x2030);
    known(port->class_code, 0x060400);
    known(port->revision, 7);
    known(port->header_type, 1);
    known(port->secondary, 1);
    known(port->subordinate, 3);
    absent(port->io.base);
    known(port->memory.base, 0xb9000000);
    known(port->prefetchable.limit, 0xbff07fffff);
    known(port->pcie_type, RIG_PCIE_ROOT_PORT);
    known(port->link_speed, 80);
    known(port->link_width, 8);
    known(port->max_speed, 160);
    known(port->acs_capability, 0x1f);
    known(port->acs_control, 0x1d);
    known(port->iommu_group, 7);
    known(port->numa_node, 0);
    assert_string_equal(port->driver.value, "pcieport");
    assert_string_equal(port->name, "Intel Corporation Sky Lake-E PCI Express Root Port A");
    assert_string_equal(above(t, "01:00.0"), "0000:00:01.0");
    known(gpu->vendor, 0x10de);
    known(gpu->subsystem_device, 0x167c);
    known(gpu->command, 0x0146);
    assert_int_equal(gpu->command_mask, 0x7ff);
    known(gpu->bar[0].flags, 0);
    known(gpu->bar[1].flags, RIG_BAR_64BIT | RIG_BAR_PREFETCHABLE);
    known(gpu->bar[1].cpu, 0x28800000000);
    known(gpu->bar[1].size, UINT64_C(32) << 30);
    known(gpu->bar[1].resizable, 0xffc0);
    absent(gpu->bar[2].flags);
    known(gpu->bar[5].flags, RIG_BAR_IO);
    known(gpu->bar[5].size, 128);
    absent(gpu->acs_control);
    absent(gpu->iommu_group);
    absent(gpu->numa_node);
    known(gpu->link_speed, 25);
    assert_true(gpu->gpu);
    assert_int_equal(rig_topology_machine(t)->source, RIG_SOURCE_LSPCI_TEXT);
    rig_topology_free(t);
}

static void vvv_nn_gives_all_its_facts(void **state)
{
    (void)state;
    expect_machine(accept(PORT "\n" GPU));
}

/* Applies f to each line, which has no line end, and puts the results together. */
static char *each_line(const char *text, void (*f)(const char *line, char *out, size_t size))
{
    char *all = calloc(1, 4 * strlen(text) + 4096);
    while (*text) {
        size_t n = strcspn(text, "\n");
        char line[512], out[2048];
        snprintf(line, sizeof line, "%.*s", (int)n, text);
        f(line, out, sizeof out);
        strcat(all, out);
        text += n + (text[n] == '\n');
    }
    return all;
}

static void expect_each_line(void (*f)(const char *line, char *out, size_t size))
{
    char *text = each_line(PORT "\n" GPU, f);
    expect_machine(accept(text));
    free(text);
}

static void crlf(const char *line, char *out, size_t size)
{
    snprintf(out, size, "%s\r\n", line);
}

static void quoted(const char *line, char *out, size_t size)
{
    snprintf(out, size, "> >>> %s\n", line);
}

static void four_spaces_for_a_tab(const char *line, char *out, size_t size)
{
    size_t n = 0;
    for (; *line && n + 6 < size; line++)
        n += (size_t)snprintf(out + n, size - n, *line == '\t' ? "    " : "%c", *line);
    snprintf(out + n, size - n, "\n");
}

static void indented_as_code(const char *line, char *out, size_t size)
{
    snprintf(out, size, *line ? "    %s  \n" : "%s\n", line);
}

static void hard_spaces(const char *line, char *out, size_t size)
{
    size_t n = 0;
    for (; *line && n + 6 < size; line++)
        n += (size_t)snprintf(out + n, size - n, *line == '\t' ? "\xc2\xa0\xc2\xa0" : "%c", *line);
    snprintf(out + n, size - n, "\n");
}

static void without_indentation(const char *line, char *out, size_t size)
{
    snprintf(out, size, "%s\n", line + strspn(line, "\t"));
}

/* Cuts lines at 72 columns at a space, as mailers do; a tab counts for one. */
static void wrapped(const char *line, char *out, size_t size)
{
    size_t n = 0;
    while (strlen(line) > 72) {
        size_t cut = 72;
        while (cut > 1 && line[cut] != ' ')
            cut--;
        n += (size_t)snprintf(out + n, size - n, "%.*s\n", (int)cut, line);
        line += cut + 1;
    }
    snprintf(out + n, size - n, "%s\n", line);
}

/* Every `=` and tab escaped, and lines cut softly at 70 bytes. */
static void quoted_printable(const char *line, char *out, size_t size)
{
    size_t n = 0, column = 0;
    for (; *line && n + 8 < size; line++) {
        const char *as = *line == '=' ? "=3D" : *line == '\t' ? "=09" : NULL;
        char plain[2] = {*line, '\0'};
        size_t k = (size_t)snprintf(out + n, size - n, "%s", as ? as : plain);
        n += k;
        column += k;
        if (column > 67 && line[1]) {
            n += (size_t)snprintf(out + n, size - n, "=\n");
            column = 0;
        }
    }
    snprintf(out + n, size - n, "\n");
}

static void crlf_line_ends_change_nothing(void **state)
{
    (void)state;
    expect_each_line(crlf);
}

static void quote_marks_change_nothing(void **state)
{
    (void)state;
    expect_each_line(quoted);
}

static void spaces_for_tabs_change_nothing(void **state)
{
    (void)state;
    expect_each_line(four_spaces_for_a_tab);
    expect_each_line(hard_spaces);
}

static void indentation_of_code_changes_nothing(void **state)
{
    (void)state;
    expect_each_line(indented_as_code);
}

static void lost_indentation_changes_nothing(void **state)
{
    (void)state;
    expect_each_line(without_indentation);
}

static void lines_cut_at_72_columns_are_joined(void **state)
{
    (void)state;
    expect_each_line(wrapped);
}

static void quoted_printable_is_undone(void **state)
{
    (void)state;
    expect_each_line(quoted_printable);
}

static void fences_prompts_and_prose_around_blocks_are_no_part_of_them(void **state)
{
    (void)state;
    expect_machine(
        accept("Hello, this is my machine:\n\n```\n$ sudo lspci -vvv -nn -s 00:01.0\n" PORT
               "```\nAnd the other one, whose\nRegion 1: Memory at 0 is odd:\n\n~~~ text\n"
               "root@host:~# lspci -vvvnn -s 1:\n" GPU "~~~\n\nRegards\nMe\n"));
}

static void functions_may_be_listed_twice_if_they_agree(void **state)
{
    (void)state;
    expect_machine(accept("# lspci -nn\n" PORT_HEADER
                          "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation AD102 "
                          "[GeForce RTX 4090] [10de:2684] (rev a1)\n\n# lspci -vvvnn\n" PORT
                          "\n" GPU));
}

static void two_readings_that_differ_are_refused_naming_both_lines(void **state)
{
    (void)state;
    char *later = strdup(PORT);
    char *word = strstr(strstr(later, "ACSCtl"), "ReqRedir+");
    word[8] = '-';
    char text[8192];
    snprintf(text, sizeof text, "before:\n%s\nafter:\n%s", PORT, later);
    refuse(text, "text:21: function 0000:00:01.0 appears twice, here and in line 2, and its ACS "
                 "control differs: 0x1d there, 0x19 here");
    free(later);
}

static void two_machines_in_one_file_are_refused(void **state)
{
    (void)state;
    refuse("00:00.0 Host bridge: Intel Corporation One\n\tFlags: fast devsel\n\n"
           "00:00.0 Host bridge: Intel Corporation Two\n\tFlags: fast devsel\n",
           "text:4: function 0000:00:00.0 appears twice, here and in line 1, and its name differs");
}

static void access_denied_leaves_capabilities_unknown(void **state)
{
    (void)state;
    struct rig_topology *t =
        accept(PORT "\n"
                    "01:00.0 VGA compatible controller: Thing\n"
                    "\tFlags: bus master, fast devsel, latency 0\n"
                    "\tMemory at 28800000000 (64-bit, prefetchable) [size=32G]\n"
                    "\tCapabilities: <access denied>\n");
    unknown(function_named(t, "01:00.0")->pcie_type, "access denied");
    unknown(function_named(t, "01:00.0")->acs_control, "access denied");
    known(function_named(t, "01:00.0")->bar[0].size, UINT64_C(32) << 30);
    rig_topology_free(t);
}

static void v_lists_acs_without_its_word(void **state)
{
    (void)state;
    struct rig_topology *t =
        accept("00:01.0 PCI bridge: Thing\n\tFlags: fast devsel, IOMMU group 3\n"
               "\tBus: primary=00, secondary=01, subordinate=01\n"
               "\tMemory behind bridge: None\n"
               "\tCapabilities: [40] Express Root Port (Slot+), MSI 00\n"
               "\tCapabilities: [148] Access Control Services\n\n"
               "01:00.0 Ethernet controller: Other\n"
               "\tFlags: bus master, fast devsel, latency 0, NUMA node 1\n"
               "\tMemory at 90000000 (64-bit, non-prefetchable) [size=1M]\n"
               "\tMemory at 91000000 (32-bit, prefetchable) [disabled]\n"
               "\tCapabilities: [40] Express Endpoint, MSI 00\n");
    unknown(function_named(t, "00:01.0")->acs_control, "-vvv");
    absent(function_named(t, "00:01.0")->memory.base);
    known(function_named(t, "00:01.0")->iommu_group, 3);
    absent(function_named(t, "01:00.0")->iommu_group);
    absent(function_named(t, "01:00.0")->acs_control);
    unknown(function_named(t, "01:00.0")->link_speed, "-vv");
    /* A 64-bit BAR takes two numbers. */
    known(function_named(t, "01:00.0")->bar[2].cpu, 0x91000000);
    unknown(function_named(t, "01:00.0")->bar[2].size, "size");
    rig_topology_free(t);
}

static void a_text_without_extended_capabilities_leaves_acs_unknown(void **state)
{
    (void)state;
    struct rig_topology *t =
        accept("00:01.0 PCI bridge: Thing\n" CONTROL STATUS
               "\tBus: primary=00, secondary=01, subordinate=01\n"
               "\tCapabilities: [40] Express (v2) Root Port (Slot+), MSI 00\n");
    unknown(function_named(t, "00:01.0")->acs_control, "no extended capabilities");
    known(function_named(t, "00:01.0")->pcie_type, RIG_PCIE_ROOT_PORT);
    assert_int_equal(function_named(t, "00:01.0")->iommu_group.know, RIG_FACT_UNKNOWN);
    rig_topology_free(t);
}

static void conventional_functions_have_no_acs(void **state)
{
    (void)state;
    struct rig_topology *t =
        accept("00:01.0 Serial controller: Thing\n" CONTROL "\tStatus: Cap- 66MHz- UDF-\n");
    absent(function_named(t, "00:01.0")->pcie_type);
    absent(function_named(t, "00:01.0")->acs_control);
    rig_topology_free(t);
}

static void an_elision_leaves_what_is_not_shown_unknown(void **state)
{
    (void)state;
    struct rig_topology *t =
        accept(PORT "\n"
                    "d8:00.0 VGA compatible controller: NVIDIA Corporation Thing\n"
                    "\tSubsystem: Other Device 4043\n[...]\n"
                    "\tCapabilities: [bb0 v1] Physical Resizable BAR\n"
                    "\t\tBAR 0: current size: 16MB, supported: 16MB\n"
                    "\t\tBAR 1: current size: 256MB, supported: 256MB 16GB 1TB\n"
                    "[...]\n");
    const struct rig_function *gpu = function_named(t, "d8:00.0");
    unknown(gpu->acs_control, "cut");
    unknown(gpu->bar[0].flags, "cut");
    known(gpu->bar[0].size, UINT64_C(16) << 20);
    assumed(gpu->bar[1].flags, RIG_BAR_64BIT | RIG_BAR_PREFETCHABLE);
    known(gpu->bar[1].resizable, 0x104100);
    rig_topology_free(t);
}

static void a_text_that_ends_in_a_line_is_cut(void **state)
{
    (void)state;
    struct rig_topology *t = accept(
        PORT "\n01:00.0 Ethernet controller: Thing\n" CONTROL STATUS
             "\tCapabilities: [40] Express (v2) Endpoint, MSI 00\n\tCapabilities: [100 v1] Acc");
    unknown(function_named(t, "01:00.0")->acs_control, "cut");
    rig_topology_free(t);
}

static void bars_without_an_address_are_unassigned(void **state)
{
    (void)state;
    struct rig_topology *t =
        accept("00:01.0 VGA compatible controller: Thing\n" CONTROL STATUS
               "\tRegion 0: Memory at <unassigned> (64-bit, prefetchable) [disabled] [size=256M]\n"
               "\tRegion 2: Memory at <ignored> (64-bit, prefetchable) [disabled]\n"
               "\tRegion 4: I/O ports at 0000\n"
               "\tRegion 5: Memory at 90000000 (32-bit, non-prefetchable) [virtual] [size=4K]\n"
               "\tCapabilities: [180 v1] Single Root I/O Virtualization (SR-IOV)\n"
               "\t\tIOVCtl:\tEnable+ Migration- Interrupt- MSE+ ARIHierarchy+\n"
               "\t\tInitial VFs: 8, Total VFs: 8, Number of VFs: 4, Function Dependency Link: 00\n"
               "\t\tVF offset: 128, stride: 2, Device ID: 101e\n"
               "\t\tRegion 1: Memory at 00000000a0000000 (64-bit, prefetchable)\n");
    const struct rig_function *f = function_named(t, "00:01.0");
    absent(f->bar[0].bus);
    absent(f->bar[0].cpu);
    known(f->bar[0].size, UINT64_C(256) << 20);
    absent(f->bar[2].cpu);
    absent(f->bar[4].cpu);
    known(f->bar[5].flags, RIG_BAR_VIRTUAL);
    absent(f->bar[1].flags); /* the virtual functions' is none of its own */
    known(f->vf_count, 4);
    known(f->vf_offset, 128);
    known(f->vf_stride, 2);
    rig_topology_free(t);
}

static void a_bridge_without_bus_numbers_leaves_places_unknown(void **state)
{
    (void)state;
    struct rig_topology *t =
        accept("00:01.0 PCI bridge: Thing\n\tCapabilities: [58] Express (v2) Root Port (Slot+)\n"
               "41:00.0 3D controller: Thing\n"
               "\tRegion 0: Memory at 90000000 (64-bit, prefetchable) [size=16M]\n");
    assert_int_equal(function_named(t, "41:00.0")->parent_known.know, RIG_FACT_UNKNOWN);
    assert_int_equal(function_named(t, "00:01.0")->parent_known.know, RIG_FACT_KNOWN);
    rig_topology_free(t);
}

static void old_words_mean_what_new_ones_do(void **state)
{
    (void)state;
    struct rig_topology *t =
        accept("00:1d.7 Class 0c03: NEC Corporation Unknown device 00e0 (rev 04) (prog-if 20)\n"
               "\tFlags: fast devsel\n\tCapabilities: [40] Express Endpoint IRQ 0\n\n"
               "00:1e.0 0604: 8086:244e (rev 92)\n\tFlags: fast devsel\n"
               "\tBus: primary=00, secondary=05, subordinate=05, sec-latency=32\n\n"
               "00:1f.0 Class [0601]: Device [8086:2918] (rev 02)\n\tFlags: fast devsel\n"
               "\tCapabilities: <available only to root>\n\n"
               "0000:00:02.0 Class 0300: Device 1002:5b60\n\tFlags: fast devsel\n"
               "\tCapabilities: [58] Express (v1) Endpoint, MSI 00\n"
               "\t\tLink: Supported Speed 2.5Gb/s, Width x16, ASPM L0s L1, Port 0\n"
               "\t\tLink: Speed 2.5Gb/s, Width x8\n");
    known(function_named(t, "00:1d.7")->class_code, 0x0c0320);
    known(function_named(t, "00:1d.7")->device, 0xe0);
    known(function_named(t, "00:1d.7")->pcie_type, RIG_PCIE_ENDPOINT);
    known(function_named(t, "00:1e.0")->device, 0x244e);
    known(function_named(t, "00:1e.0")->header_type, 1);
    known(function_named(t, "00:1f.0")->vendor, 0x8086);
    unknown(function_named(t, "00:1f.0")->acs_control, "privilege");
    known(function_named(t, "00:02.0")->device, 0x5b60);
    known(function_named(t, "00:02.0")->max_width, 16);
    known(function_named(t, "00:02.0")->link_speed, 25);
    known(function_named(t, "00:02.0")->link_width, 8);
    rig_topology_free(t);
}

static void a_function_off_the_bus_keeps_its_place_only(void **state)
{
    (void)state;
    struct rig_topology *t =
        accept(PORT "\n"
                    "01:00.0 VGA compatible controller: Thing (rev ff) (prog-if ff)\n"
                    "\t!!! Unknown header type 7f\n"
                    "\tKernel driver in use: nvidia\n");
    unknown(function_named(t, "01:00.0")->header_type, "all ones");
    unknown(function_named(t, "01:00.0")->acs_control, "all ones");
    assert_string_equal(above(t, "01:00.0"), "0000:00:01.0");
    rig_topology_free(t);
}

static void domains_above_ffff_are_their_own(void **state)
{
    (void)state;
    struct rig_topology *t =
        accept("10000:80:1d.4 PCI bridge: Thing\n\tFlags: fast devsel\n"
               "\tBus: primary=80, secondary=f1, subordinate=f1\n\n"
               "0000:f1:00.0 Ethernet controller: One\n\tFlags: fast devsel\n\n"
               "10000:f1:00.0 Ethernet controller: Two\n\tFlags: fast devsel\n");
    assert_string_equal(above(t, "10000:f1:00.0"), "10000:80:1d.4");
    assert_string_equal(above(t, "0000:f1:00.0"), "-");
    rig_topology_free(t);
}

static void paths_tell_places(void **state)
{
    (void)state;
    struct rig_topology *t =
        accept("00:00.0 Host bridge [0600]: Thing [8086:2020]\n"
               "00:01.0 PCI bridge [0604]: Thing [8086:2030] (rev 07)\n"
               "00:01.0/01:00.0 PCI bridge [0604]: Thing [10b5:8749]\n"
               "00:01.0/01:00.0/02:08.0 PCI bridge [0604]: Thing [10b5:8749]\n"
               "00:01.0/01:00.0/02:08.0/03:00.0 3D controller [0302]: Thing [10de:20b0]\n"
               "00:01.0/01:00.0/02:09.0/04:00.0 3D controller [0302]: Thing [10de:20b0]\n");
    assert_string_equal(above(t, "00:01.0"), "-");
    assert_string_equal(above(t, "03:00.0"), "0000:02:08.0");
    assert_string_equal(above(t, "04:00.0"), "0000:02:09.0");
    assert_string_equal(above(t, "02:09.0"), "0000:01:00.0");
    assert_int_equal(rig_topology_count(t), 7); /* 02:09.0 is named in a path alone */
    rig_topology_free(t);
}

static void paths_without_buses_need_the_buses(void **state)
{
    (void)state;
    struct rig_topology *t = accept("00:01.0 PCI bridge: Thing\n\tFlags: fast devsel\n"
                                    "\tBus: primary=00, secondary=41, subordinate=41\n\n"
                                    "00:01.0/00.0 3D controller: Thing\n\tFlags: fast devsel\n");
    assert_string_equal(above(t, "41:00.0"), "0000:00:01.0");
    rig_topology_free(t);
    refuse("00:01.0 PCI bridge: Thing\n00:01.0/00.0 3D controller: Thing\n", "text:2");
}

static void text_and_hex_of_one_function_are_one(void **state)
{
    (void)state;
    struct rig_topology *t =
        accept("01:00.0 VGA compatible controller: Thing\n\tFlags: fast devsel\n"
               "\tMemory at b8000000 (32-bit, non-prefetchable) [disabled] [size=16M]\n"
               "\tMemory at 28800000000 (64-bit, prefetchable) [disabled] [size=32G]\n"
               "\tKernel driver in use: nvidia\n"
               "00: de 10 84 26 00 00 00 00 a1 00 00 03 00 00 00 00\n"
               "10: 00 00 00 b8 00 00 00 00 0c 00 00 00 88 02 00 00\n"
               "20: 00 00 00 00 00 00 00 00 00 00 00 00 de 10 7c 16\n"
               "30: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n");
    const struct rig_function *f = function_named(t, "01:00.0");
    known(f->device, 0x2684);
    absent(f->bar[1].flags);
    known(f->bar[2].bus, 0x28800000000); /* -v does not number BARs; the registers do */
    known(f->bar[2].cpu, 0x28800000000);
    known(f->bar[2].size, UINT64_C(32) << 30);
    assert_string_equal(f->driver.value, "nvidia");
    rig_topology_free(t);
}

static void a_sleeping_functions_empty_registers_do_not_contradict_its_text(void **state)
{
    (void)state;
    struct rig_topology *t = accept("01:00.0 SMBus: Thing\n" CONTROL STATUS
                                    "\tRegion 0: Memory at 90000000 (64-bit, non-prefetchable)\n"
                                    "\tCapabilities: [80] Power Management version 3\n"
                                    "00: 86 80 e9 51 46 01 10 00 00 00 05 0c 00 00 00 00\n"
                                    "10: 04 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
                                    "20: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
                                    "30: 00 00 00 00 80 00 00 00 00 00 00 00 00 00 00 00\n");
    assumed(function_named(t, "01:00.0")->bar[0].bus, 0x90000000);
    rig_topology_free(t);
}

static void text_that_contradicts_its_hex_is_refused(void **state)
{
    (void)state;
    refuse("01:00.0 PCI bridge: Thing\n\tFlags: fast devsel\n"
           "\tBus: primary=00, secondary=02, subordinate=02\n"
           "00: 86 80 30 20 00 00 00 00 00 00 04 06 00 00 01 00\n"
           "10: 00 00 00 00 00 00 00 00 00 03 03 00 00 00 00 00\n"
           "20: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
           "30: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n",
           "text:4: function 0000:01:00.0 appears twice, here and in line 1, and its secondary "
           "bus differs: 0x2 there, 0x3 here");
}

static void one_fact_given_twice_and_differently_is_refused(void **state)
{
    (void)state;
    refuse("01:00.0 PCI bridge: Thing\n\tFlags: fast devsel\n"
           "\tBus: primary=00, secondary=02, subordinate=02\n"
           "\tBus: primary=00, secondary=03, subordinate=03\n",
           "text:4:2");
    refuse("01:00.0 PCI bridge: Thing\n\tBus: primary=00, secondary=2, subordinate=02\n",
           "text:2:29");
    refuse("01:00.0 3D controller: Thing\n\tRegion 7: Memory at 0 (32-bit, prefetchable)\n",
           "at most six BARs");
}

static void the_machines_facts_are_picked_up(void **state)
{
    (void)state;
    struct rig_topology *t = accept(
        "$ uname -a\nLinux box 6.1.0-18-amd64 #1 SMP PREEMPT_DYNAMIC Debian x86_64 GNU/Linux\n"
        "$ cat /proc/cpuinfo\nprocessor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\n"
        "model name\t: AMD EPYC\nprocessor\t: 1\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\n"
        "$ cat /proc/cmdline\nBOOT_IMAGE=/vmlinuz root=/dev/sda1 iommu=pt\n\n" PORT "\n" GPU);
    const struct rig_machine_facts *m = rig_topology_machine(t);
    assert_string_equal(m->host.value, "box");
    assert_string_equal(m->kernel.value, "6.1.0-18-amd64");
    assert_string_equal(m->cpu_vendor.value, "AuthenticAMD");
    assert_int_equal(m->cpu_vendor.know, RIG_FACT_KNOWN);
    known(m->cpu_family, 25);
    assert_string_equal(m->command_line.value, "BOOT_IMAGE=/vmlinuz root=/dev/sda1 iommu=pt");
    rig_topology_free(t);
    refuse("vendor_id\t: AuthenticAMD\nvendor_id\t: GenuineIntel\n\n" PORT, "text:2:1");
}

static void bars_in_the_kernels_log_fill_in_what_the_text_lacks(void **state)
{
    (void)state;
    struct rig_topology *t =
        accept("[    0.34] pci 0000:01:00.0: reg 0x10: [mem 0xb8000000-0xb8ffffff]\n"
               "[    0.34] pci 0000:01:00.0: reg 0x14: [mem 0xc0000000-0xcfffffff 64bit pref]\n"
               "May 15 15:58:27 host kernel: pci 0000:01:00.0: BAR 1: assigned [mem "
               "0x6000000000-0x600fffffff 64bit pref]\n"
               "[    0.34] pci 0000:01:00.0: reg 0x24: [io  0x3000-0x307f]\n"
               "[    0.34] pci 0000:01:00.0: reg 0x30: [mem 0xb3000000-0xb307ffff pref]\n"
               "[    0.34] pci 0000:0a:00.0: BAR 0 [mem 0x90000000-0x90003fff 64bit]\n\n"
               "-[0000:00]-+-00.0\n           \\-01.0-[01]----00.0\n");
    const struct rig_function *f = function_named(t, "01:00.0");
    assumed(f->bar[0].flags, 0);
    assumed(f->bar[0].size, 16 << 20);
    assumed(f->bar[1].flags, RIG_BAR_64BIT | RIG_BAR_PREFETCHABLE);
    assumed(f->bar[1].size, 256 << 20);
    assumed(f->bar[1].bus, 0x6000000000);
    assumed(f->bar[5].flags, RIG_BAR_IO);
    assert_int_equal(rig_topology_count(t), 3);
    rig_topology_free(t);
}

static void the_cpu_is_assumed_from_its_functions(void **state)
{
    (void)state;
    static const struct {
        const char *header, *vendor;
        unsigned family;
    } cases[] = {
        {"00:00.0 Host bridge [0600]: x [1022:1480]", "AuthenticAMD", 23},
        {"00:00.0 Host bridge [0600]: x [1022:14a4]", "AuthenticAMD", 25},
        {"00:00.0 Host bridge [0600]: x [1022:1410]", "AuthenticAMD", 21},
        {"00:00.0 Host bridge [0600]: x [8086:2020]", "GenuineIntel", 6},
        {"00:00.0 Host bridge [0600]: x [13b5:0100]", "not x86", 0},
        {"00:00.0 Host bridge [0600]: x [1d94:1450]", NULL, 0}, /* Hygon */
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(cases); i++) {
        char text[256];
        snprintf(text, sizeof text, "%s\n\tFlags: fast devsel\n", cases[i].header);
        struct rig_topology *t = accept(text);
        const struct rig_machine_facts *m = rig_topology_machine(t);
        if (cases[i].vendor) {
            assert_int_equal(m->cpu_vendor.know, RIG_FACT_ASSUMED);
            assert_string_equal(m->cpu_vendor.value, cases[i].vendor);
            assert_non_null(strstr(m->cpu_vendor.from, "0000:00:00.0"));
            assert_int_equal(m->cpu_family.value, cases[i].family);
        } else {
            assert_int_equal(m->cpu_vendor.know, RIG_FACT_UNKNOWN);
        }
        rig_topology_free(t);
    }
}

static void an_emulated_host_bridge_says_nothing_of_the_cpu(void **state)
{
    (void)state;
    struct rig_topology *t =
        accept("00:00.0 Host bridge [0600]: x [8086:29c0]\n"
               "\tSubsystem: Red Hat Device [1af4:1100]\n\tFlags: fast devsel\n");
    assert_int_equal(rig_topology_machine(t)->cpu_vendor.know, RIG_FACT_UNKNOWN);
    rig_topology_free(t);
}

/* A text that somebody shortened, of a user who sees no capabilities. */
#define HOST_BRIDGE "00:00.0 Host bridge [0600]: Intel Corporation One [8086:4660]\n"
#define BRIDGE(place, name, ids, buses)                                                            \
    place " PCI bridge [0604]: " name " [" ids "] (prog-if 00 [Normal decode])\n"                  \
          "\tFlags: bus master, fast devsel, latency 0\n"                                          \
          "\tBus: primary=00, " buses ", sec-latency=0\n"                                          \
          "\tCapabilities: <access denied>\n"
#define FUNCTION(place, class, name, ids)                                                          \
    place " " class ": " name " [" ids "]\n\tFlags: fast devsel\n\tCapabilities: <access denied>\n"

static void a_bus_that_nothing_leads_to_is_a_root_bus_only_where_a_function_tells_so(void **state)
{
    (void)state;
    /* GPUs alone: what is above them is missing. */
    struct rig_topology *t = accept(
        HOST_BRIDGE FUNCTION("05:00.0", "VGA compatible controller [0300]", "One", "8086:56a0")
            FUNCTION("08:00.0", "VGA compatible controller [0300]", "Two", "8086:56a0"));
    unknown(function_named(t, "05:00.0")->parent_known,
            "it is a root bus, or what is above it is missing");
    known(function_named(t, "00:00.0")->parent_known, 0);
    rig_topology_free(t);
    /* Ports of switches, by their maker, name or id. */
    t = accept(HOST_BRIDGE BRIDGE("02:08.0", "PLX Technology, Inc. PEX 8747", "10b5:8747",
                                  "secondary=03, subordinate=03")
                   BRIDGE("04:00.0", "Intel Corporation JHL7540 Thunderbolt 3 Bridge", "8086:15e7",
                          "secondary=05, subordinate=06")
                       BRIDGE("07:01.0", "Intel Corporation Device", "8086:4fa4",
                              "secondary=08, subordinate=08"));
    unknown(function_named(t, "02:08.0")->parent_known,
            "what is above its bus is not in the source");
    unknown(function_named(t, "04:00.0")->parent_known,
            "what is above its bus is not in the source");
    unknown(function_named(t, "07:01.0")->parent_known,
            "what is above its bus is not in the source");
    rig_topology_free(t);
    /* A bridge that may be a root port is taken for one. */
    t = accept(HOST_BRIDGE BRIDGE("80:02.0", "Intel Corporation Xeon Root Port 2", "8086:6f04",
                                  "secondary=81, subordinate=81"));
    assumed(function_named(t, "80:02.0")->parent_known, 0);
    rig_topology_free(t);
    /* What processors have on buses of their own: not what is below a port, at device 0. */
    t = accept(HOST_BRIDGE FUNCTION("7f:08.0", "System peripheral [0880]", "Q", "8086:6f32")
                   FUNCTION("05:00.0", "System peripheral [0880]", "NHI", "8086:15e8"));
    known(function_named(t, "7f:08.0")->parent_known, 0);
    unknown(function_named(t, "05:00.0")->parent_known, "it is a root bus");
    rig_topology_free(t);
    /* Linux makes domains up for volume management devices, which begin with any bus. */
    t = accept(HOST_BRIDGE FUNCTION("10000:e1:00.0", "Non-Volatile memory controller [0108]", "D",
                                    "144d:a80a"));
    assumed(function_named(t, "10000:e1:00.0")->parent_known, 0);
    rig_topology_free(t);
}

static void a_display_whose_bars_are_not_known_may_be_a_gpu(void **state)
{
    (void)state;
    struct rig_topology *t =
        accept(PORT "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation One [10de:2684]\n"
                    "[...]\n"
                    "02:00.0 VGA compatible controller [0300]: Matrox G200 [102b:0534]\n"
                    "03:00.0 Ethernet controller [0200]: Two [15b3:1021]\n");
    assert_true(function_named(t, "01:00.0")->gpu);
    assert_false(function_named(t, "02:00.0")->gpu);
    assert_false(function_named(t, "03:00.0")->gpu);
    rig_topology_free(t);
    /* A tree shows no class: there the id tells. */
    t = accept("-[0000:00]-+-01.0-[01]----00.0  NVIDIA Corporation One [10de:2684]\n"
               "           \\-02.0-[02]----00.0  Two [15b3:1021]\n");
    assert_true(function_named(t, "01:00.0")->gpu);
    assert_false(function_named(t, "02:00.0")->gpu);
    rig_topology_free(t);
}

static void a_block_whose_status_tells_of_capabilities_and_shows_none_is_cut(void **state)
{
    (void)state;
    struct rig_topology *t = accept(
        PORT
        "\n01:00.0 VGA compatible controller [0300]: NVIDIA Corporation One [10de:2684]\n" CONTROL
            STATUS);
    unknown(function_named(t, "01:00.0")->bar[1].flags, "the text about it is cut");
    rig_topology_free(t);
}

static void more_bars_than_a_function_has_are_not_numbered(void **state)
{
    (void)state;
    /* lspci 3.9 -v of a dump prints the upper halves of 64-bit BARs as regions of their own. */
    struct rig_topology *t =
        accept("01:00.0 3D controller [0302]: NVIDIA Corporation One [10de:1eb8]\n"
               "\tFlags: fast devsel\n"
               "\tMemory at 51000000 (32-bit, non-prefetchable)\n"
               "\tMemory at 4400000000 (64-bit, prefetchable)\n"
               "\tMemory at <unassigned> (64-bit, non-prefetchable)\n"
               "\tMemory at 4800000000 (64-bit, prefetchable)\n"
               "\tMemory at <unassigned> (32-bit, prefetchable)\n");
    for (int i = 0; i < RIG_BAR_COUNT; i++)
        unknown(function_named(t, "01:00.0")->bar[i].flags, "more BARs than a function has");
    rig_topology_free(t);
}

static void what_holds_no_tree_is_refused_naming_the_command(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "hello\n",
        "00:00.0 Host bridge: Intel Corporation One\n00:02.0 VGA compatible controller: Two\n",
        /* lspci -nnk */
        ("00:00.0 Host bridge [0600]: One [8086:2020] (rev 04)\n\tSubsystem: Two [1028:0b0b]\n"
         "\tKernel driver in use: skx_uncore\n01:00.0 3D controller [0302]: Three [10de:20b0]\n"
         "\tKernel modules: nvidia\n"),
        "\t\tACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+\n",
        "0000:0d:01.0, 0000:0b:00.0, 0000:11:01.0\n",
        "00000000:01:00.0 Off\n",
        "-01.0-[01-18]----00.0-[02-18]--+- ... -[0e]----00.0  Thing\n",
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(texts); i++)
        refuse(texts[i], "run `sudo lspci -D -vvv -nn -xxxx` on the machine, or `rigmem capture`");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vvv_nn_gives_all_its_facts),
        cmocka_unit_test(crlf_line_ends_change_nothing),
        cmocka_unit_test(quote_marks_change_nothing),
        cmocka_unit_test(spaces_for_tabs_change_nothing),
        cmocka_unit_test(indentation_of_code_changes_nothing),
        cmocka_unit_test(lost_indentation_changes_nothing),
        cmocka_unit_test(lines_cut_at_72_columns_are_joined),
        cmocka_unit_test(quoted_printable_is_undone),
        cmocka_unit_test(fences_prompts_and_prose_around_blocks_are_no_part_of_them),
        cmocka_unit_test(functions_may_be_listed_twice_if_they_agree),
        cmocka_unit_test(two_readings_that_differ_are_refused_naming_both_lines),
        cmocka_unit_test(two_machines_in_one_file_are_refused),
        cmocka_unit_test(access_denied_leaves_capabilities_unknown),
        cmocka_unit_test(v_lists_acs_without_its_word),
        cmocka_unit_test(a_text_without_extended_capabilities_leaves_acs_unknown),
        cmocka_unit_test(conventional_functions_have_no_acs),
        cmocka_unit_test(an_elision_leaves_what_is_not_shown_unknown),
        cmocka_unit_test(a_text_that_ends_in_a_line_is_cut),
        cmocka_unit_test(bars_without_an_address_are_unassigned),
        cmocka_unit_test(a_bridge_without_bus_numbers_leaves_places_unknown),
        cmocka_unit_test(old_words_mean_what_new_ones_do),
        cmocka_unit_test(a_function_off_the_bus_keeps_its_place_only),
        cmocka_unit_test(domains_above_ffff_are_their_own),
        cmocka_unit_test(paths_tell_places),
        cmocka_unit_test(paths_without_buses_need_the_buses),
        cmocka_unit_test(text_and_hex_of_one_function_are_one),
        cmocka_unit_test(a_sleeping_functions_empty_registers_do_not_contradict_its_text),
        cmocka_unit_test(text_that_contradicts_its_hex_is_refused),
        cmocka_unit_test(one_fact_given_twice_and_differently_is_refused),
        cmocka_unit_test(the_machines_facts_are_picked_up),
        cmocka_unit_test(bars_in_the_kernels_log_fill_in_what_the_text_lacks),
        cmocka_unit_test(the_cpu_is_assumed_from_its_functions),
        cmocka_unit_test(an_emulated_host_bridge_says_nothing_of_the_cpu),
        cmocka_unit_test(a_bus_that_nothing_leads_to_is_a_root_bus_only_where_a_function_tells_so),
        cmocka_unit_test(a_display_whose_bars_are_not_known_may_be_a_gpu),
        cmocka_unit_test(a_block_whose_status_tells_of_capabilities_and_shows_none_is_cut),
        cmocka_unit_test(more_bars_than_a_function_has_are_not_numbered),
        cmocka_unit_test(what_holds_no_tree_is_refused_naming_the_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
