/* Single lines of lspci's text, of the kernel's log and of /proc, whole and broken: what each says
   by pciutils' forms, or nothing. The functions are invented. */
#include "reading.h"
#include "topology/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define HEAD                                                                                       \
    "00:00.0 Host bridge [0600]: Intel Corporation One [8086:1237]\n\tControl: I/O-\n\n"           \
    "01:00.0 3D controller [0302]: NVIDIA Corporation Two [10de:2684]\n\tControl: I/O+\n"

static struct rig_topology *accept(const char *text)
{
    return reading_accepted("text", text);
}

static void refuse(const char *text, const char *where, const char *why)
{
    struct rig_topology *t;
    struct rig_error err;
    assert_int_equal(reading_of("text", text, strlen(text), &t, &err), RIG_BAD_INPUT);
    if (!strstr(err.where, where) || !strstr(err.why, why))
        fail_msg("%s: %s", err.where, err.why);
}

/* What the lines below the header of 01:00.0 make of one of its facts. */
struct row {
    const char *lines;
    size_t offset; /* of the fact in struct rig_function */
    uint64_t value;
};
#define F(member) offsetof(struct rig_function, member)

static void check_below(const char *head, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char text[2048];
        snprintf(text, sizeof text, "%s%s", head, rows[i].lines);
        struct rig_topology *t = accept(text);
        struct rig_fact fact;
        memcpy(&fact, (const char *)function_named(t, "01:00.0") + rows[i].offset, sizeof fact);
        expect_fact(rows[i].lines, fact, rows[i].value);
        rig_topology_free(t);
    }
}

#define CHECK(rows) check_below(HEAD, rows, RIG_ARRAY_LENGTH(rows))
#define EXPRESS "\tCapabilities: [60] Express (v2) Endpoint, MSI 00\n"
#define ACS "\tCapabilities: [100 v1] Access Control Services\n"
#define REBAR "\tCapabilities: [bb0 v1] Physical Resizable BAR\n"
#define SRIOV "\tCapabilities: [160 v1] Single Root I/O Virtualization (SR-IOV)\n"

static void capabilities_are_what_their_first_line_says(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {EXPRESS, F(pcie_type), RIG_PCIE_ENDPOINT},
        {"\tCapabilities: [60] Express Legacy Endpoint, MSI 00\n", F(pcie_type),
         RIG_PCIE_LEGACY_ENDPOINT},
        {"\tCapabilities: [60] Express (v2) Root Complex Integrated Endpoint\n", F(pcie_type),
         RIG_PCIE_INTEGRATED_ENDPOINT},
        {"\tCapabilities: [60] Express (v2) Root Complex Event Collector\n", F(pcie_type),
         RIG_PCIE_EVENT_COLLECTOR},
        {"\tCapabilities: [60] Express (vX) Endpoint\n", F(pcie_type), FACT_UNKNOWN},
        {"\tCapabilities: [60] Express (v2) Wormhole\n", F(pcie_type), FACT_UNKNOWN},
        {"\tCapabilities: [6", F(pcie_type), FACT_UNKNOWN},
        {"\tCapabilities: none\n", F(pcie_type), FACT_ABSENT},
        {"\tCapabilities: [xy] Express (v2) Endpoint\n", F(pcie_type), FACT_ABSENT},
        {"\tCapabilities: [60]Express (v2) Endpoint\n", F(pcie_type), FACT_ABSENT},
        {EXPRESS "\tCapabilities: [200 v1] Address Translation Service (ATS)\n", F(pasid_or_ats),
         1},
        {EXPRESS "\tCapabilities: [200 vX] Address Translation Service (ATS)\n", F(pasid_or_ats),
         FACT_UNKNOWN},
        {EXPRESS "\tCapabilities: [200 v1] Advanced Error Reporting\n", F(pasid_or_ats),
         FACT_ABSENT},
        {EXPRESS "\tCapabilities: <available only to root>\n", F(acs_control), FACT_UNKNOWN},
    };
    CHECK(rows);
}

static void links_are_told_by_speed_and_width(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {EXPRESS "\t\tLnkSta:\tSpeed 2.5GT/s, Width x8\n", F(link_speed), 25},
        {EXPRESS "\t\tLnkSta:\tSpeed 16GT/s, Width x8\n", F(link_speed), 160},
        {EXPRESS "\t\tLnkSta:\tSpeed 5.xGT/s, Width x8\n", F(link_speed), 50},
        {EXPRESS "\t\tLnkSta:\tSpeed unknown, Width x8\n", F(link_speed), FACT_UNKNOWN},
        {EXPRESS "\t\tLnkSta:\tSpeed 8GT/s, Width xN\n", F(link_width), FACT_UNKNOWN},
        {EXPRESS "\t\tLnkSta:\tSpeed 8GT/s\n", F(link_width), FACT_UNKNOWN},
        {EXPRESS "\t\tLnkSta:\tWidth x8\n", F(link_speed), FACT_UNKNOWN},
        {EXPRESS "\t\tLnkSta:\tSpeed 2.5GT/s, Width x0\n", F(link_speed), FACT_ABSENT},
        {EXPRESS "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n", F(max_width), 16},
        {"\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n" EXPRESS, F(max_width), FACT_UNKNOWN},
        {"\t\tLnkSta:\tSpeed 32GT/s, Width x16\n" EXPRESS, F(link_width), FACT_UNKNOWN},
        {EXPRESS "\t\tLink: Supported Speed 2.5Gb/s, Width x8, ASPM L0s\n", F(max_speed), 25},
        {EXPRESS "\t\tLink: Speed 2.5Gb/s, Width x4\n", F(link_width), 4},
    };
    CHECK(rows);
}

static void acs_words_are_read_whole_or_not_at_all(void **state)
{
    (void)state;
#define CONTROL_1D                                                                                 \
    "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- "             \
    "DirectTrans-\n"
    static const struct row rows[] = {
        {EXPRESS ACS CONTROL_1D, F(acs_control), 0x1d},
        {EXPRESS ACS "\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ "
                     "EgressCtrl+ DirectTrans+\n",
         F(acs_capability), 0x7f},
        /* what does not redirect may be missing */
        {EXPRESS ACS "\t\tACSCtl:\tReqRedir+ CmpltRedir- EgressCtrl+\n", F(acs_control), 0x24},
        {EXPRESS ACS "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+\n", F(acs_control),
         FACT_UNKNOWN},
        {EXPRESS ACS "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir\n", F(acs_control), FACT_UNKNOWN},
        {EXPRESS ACS "\t\tACSCtl:\tXReqRedir+ ReqRedir? CmpltRedir+ EgressCtrl-\n", F(acs_control),
         FACT_UNKNOWN},
        {EXPRESS ACS CONTROL_1D "\t\tACSCtl:\tSrcValid+\n", F(acs_control), 0x1d},
        {EXPRESS ACS CONTROL_1D CONTROL_1D, F(acs_control), 0x1d},
        {EXPRESS ACS, F(acs_control), FACT_UNKNOWN},
    };
    CHECK(rows);
    refuse(HEAD EXPRESS ACS CONTROL_1D
           "\t\tACSCtl:\tSrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- "
           "DirectTrans-\n",
           "text:9", "two ACSCtl lines that differ");
}

static void resizable_bars_are_told_by_sizes_of_powers_of_two(void **state)
{
    (void)state;
#define BAR1 "\tRegion 1: Memory at 28800000000 (64-bit, prefetchable)\n" EXPRESS REBAR
    static const struct row rows[] = {
        /* bit n is 1 MiB << n: 64 MiB and 32 GiB */
        {BAR1 "\t\tBAR 1: current size: 256MB, supported: 64MB 32GB\n", F(bar[1].resizable),
         0x8040},
        {BAR1 "\t\tBAR 1: current size: 256MB, supported: 64MB 32GB\n", F(bar[1].size), 256u << 20},
        {BAR1 "\t\tBAR 1: current size: 300MB, supported: 64MB\n", F(bar[1].size), FACT_UNKNOWN},
        {BAR1 "\t\tBAR 1: current size: 256XB, supported: 64MB\n", F(bar[1].size), FACT_UNKNOWN},
        {BAR1 "\t\tBAR 1: current size: xMB, supported: 64MB\n", F(bar[1].size), FACT_UNKNOWN},
        /* 16 EiB are more than 64 address bits hold; 8 EiB are bit 43 */
        {BAR1 "\t\tBAR 1: current size: 1MB, supported: 8EB\n", F(bar[1].resizable), 1ull << 43},
        {BAR1 "\t\tBAR 1: current size: 1MB, supported: 16EB\n", F(bar[1].resizable), FACT_ABSENT},
        {BAR1 "\t\tBAR 1: current size: 1MB\n", F(bar[1].resizable), FACT_ABSENT},
        {BAR1 "\t\tBAR 1: current size: 1MB, supported:\n", F(bar[1].resizable), FACT_ABSENT},
        {BAR1 "\t\tBAR 7: current size: 1MB, supported: 1MB\n", F(bar[1].resizable), FACT_ABSENT},
        {BAR1 "\t\tBAR x: current size: 1MB, supported: 1MB\n", F(bar[1].resizable), FACT_ABSENT},
        {BAR1 "\t\tBAR 1 is large, supported: 1MB\n", F(bar[1].resizable), FACT_ABSENT},
        {"\t\tBAR 1: current size: 1MB, supported: 1MB\n" BAR1, F(bar[1].resizable), FACT_ABSENT},
        {"\tRegion 1: Memory at 28800000000 (64-bit, prefetchable) [size=1G]\n" EXPRESS REBAR
         "\t\tBAR 1: current size: 256MB, supported: 256MB 1GB\n",
         F(bar[1].size), 1u << 30},
        /* the BAR's own line is missing */
        {"[...]\n" EXPRESS REBAR "\t\tBAR 1: current size: 256MB, supported: 256MB 1GB\n",
         F(bar[1].flags), RIG_BAR_64BIT | RIG_BAR_PREFETCHABLE},
        {"[...]\n" EXPRESS REBAR "\t\tBAR 1: current size: 256MB, supported: 256MB\n",
         F(bar[1].flags), FACT_UNKNOWN},
    };
    CHECK(rows);
}

static void virtual_functions_are_told_by_their_capability(void **state)
{
    (void)state;
#define NUMBERS                                                                                    \
    "\t\tInitial VFs: 8, Total VFs: 8, Number of VFs: 4, Function Dependency Link: 00\n"           \
    "\t\tVF offset: 128, stride: 2, Device ID: 1018\n"
    static const struct row rows[] = {
        {EXPRESS SRIOV "\t\tIOVCtl:\tEnable+ Migration-\n" NUMBERS, F(vf_count), 4},
        {EXPRESS SRIOV "\t\tIOVCtl:\tEnable- Migration-\n" NUMBERS, F(vf_count), 0},
        {EXPRESS SRIOV "\t\tIOVCtl:\tMigration-\n" NUMBERS, F(vf_count), 4},
        {EXPRESS SRIOV NUMBERS, F(vf_offset), 128},
        {EXPRESS SRIOV NUMBERS, F(vf_stride), 2},
        {EXPRESS SRIOV "\t\tInitial VFs: 8, Total VFs: 8\n", F(vf_count), FACT_UNKNOWN},
        {EXPRESS SRIOV "\t\tInitial VFs: 8, Number of VFs: x\n", F(vf_count), FACT_UNKNOWN},
        {EXPRESS SRIOV "\t\tVF offset: x, stride: 2\n", F(vf_offset), FACT_UNKNOWN},
        {EXPRESS SRIOV "\t\tVF offset: 128\n", F(vf_offset), FACT_UNKNOWN},
        {EXPRESS SRIOV "\t\tVF offset: 128, stride: x\n", F(vf_offset), FACT_UNKNOWN},
        {EXPRESS ACS "\t\tIOVCtl:\tEnable+\n" NUMBERS, F(vf_count), FACT_ABSENT},
        {EXPRESS ACS NUMBERS, F(vf_offset), FACT_ABSENT},
    };
    CHECK(rows);
}

static void bars_are_told_by_address_kind_and_size(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"\tRegion 0: Memory at b8000000 (32-bit, non-prefetchable) [size=16M]\n", F(bar[0].size),
         16u << 20},
        {"\tRegion 0: Memory at b8000000 (32-bit, non-prefetchable) [size=4K]\n", F(bar[0].size),
         4096},
        {"\tRegion 0: Memory at b8000000 (32-bit) [size=128]\n", F(bar[0].size), 128},
        {"\tRegion 0: Memory at b8000000 (32-bit) [size=128]\n", F(bar[0].flags), 0},
        {"\tRegion 0: Memory at b8000000 (32-bit) [size=]\n", F(bar[0].size), FACT_UNKNOWN},
        {"\tRegion 0: Memory at b8000000 (32-bit) [size=16", F(bar[0].size), FACT_UNKNOWN},
        {"\tRegion 0: Memory at b8000000 (32-bit) [size=16Q]\n", F(bar[0].size), 16},
        {"\tRegion 0: Memory at b8000000 (32-bit) [size=3M]\n", F(bar[0].size), FACT_UNKNOWN},
        {"\tRegion 0: Memory at b8000000 (32-bit)\n", F(bar[0].size), FACT_UNKNOWN},
        {"\tRegion 0: Memory at <broken-64-bit-slot> (64-bit, prefetchable)\n", F(bar[0].cpu),
         FACT_ABSENT},
        {"\tRegion 0: Memory at <ignored> (64-bit, prefetchable)\n", F(bar[0].bus), FACT_UNKNOWN},
        {"\tRegion 0: Memory at 00000000 (64-bit, prefetchable)\n", F(bar[0].cpu), FACT_ABSENT},
        {"\tRegion 5: I/O ports at 3000 [size=128]\n", F(bar[5].flags), RIG_BAR_IO},
        {"\tRegion 0: [virtual] Memory at b8000000 (64-bit, prefetchable) [size=16M]\n",
         F(bar[0].flags), RIG_BAR_64BIT | RIG_BAR_PREFETCHABLE | RIG_BAR_VIRTUAL},
        {"\tRegion 0: Memory at b8000000 (64-bit, prefetchable) [virtual] [size=16M]\n",
         F(bar[0].flags), RIG_BAR_64BIT | RIG_BAR_PREFETCHABLE | RIG_BAR_VIRTUAL},
        {"\tRegion 0: [virtual] I/O ports at 01f0 [size=8]\n", F(bar[0].flags),
         RIG_BAR_IO | RIG_BAR_VIRTUAL},
        {"\t[virtual] Memory at 000001f0 (32-bit, non-prefetchable) [size=8]\n", F(bar[0].flags),
         RIG_BAR_VIRTUAL},
        {"\t[virtual] I/O ports at 01f0 [size=8]\n", F(bar[0].flags), RIG_BAR_IO | RIG_BAR_VIRTUAL},
        {"\t[virtual] Nothing at 01f0 [size=8]\n", F(bar[0].flags), FACT_ABSENT},
        {"\tRegion x: Memory at b8000000 (32-bit)\n", F(bar[0].flags), FACT_ABSENT},
        {"\tRegion 0 Memory at b8000000 (32-bit)\n", F(bar[0].flags), FACT_ABSENT},
        {"\tRegion 0: Nothing at b8000000 (32-bit)\n", F(bar[0].flags), FACT_ABSENT},
        {EXPRESS "\t\tRegion 0: Memory at b8000000 (32-bit)\n", F(bar[0].flags), FACT_ABSENT},
        {EXPRESS "\tMemory at b8000000 (32-bit)\n", F(bar[0].flags), FACT_ABSENT},
        {"\tRegion 0: Memory at b8000000 (32-bit) [size=4K]\n"
         "\tRegion 0: Memory at b8000000 (32-bit) [size=4K]\n",
         F(bar[0].size), 4096},
    };
    CHECK(rows);
    static const char first[] = "\tRegion 0: Memory at b8000000 (32-bit) [size=4K]\n";
    static const char *const others[] = {"Memory at b8000000 (64-bit) [size=4K]",
                                         "Memory at b8001000 (32-bit) [size=4K]",
                                         "Memory at b8000000 (32-bit) [size=8K]"};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(others); i++) {
        char text[1024];
        snprintf(text, sizeof text, "%s%s\tRegion 0: %s\n", HEAD, first, others[i]);
        refuse(text, "text:7", "two BARs of this number that differ");
    }
    refuse(HEAD "\tRegion 0: Memory at zz (32-bit)\n", "text:6:22", "a BAR's address was expected");
    refuse(HEAD "\tRegion 6: Memory at 0 (32-bit)\n", "text:6", "at most six BARs");
}

static void registers_of_the_header_are_told_by_their_words(void **state)
{
    (void)state;
    static const struct row rows[] = {
        /* the words begin at a blank and end in a sign: bit 1 is memory, bit 2 the master's */
        {"\tControl: I/O+\tMem+ BusMaster-\n", F(command), 3},
        {"\tControl: XMem+ BusMaster\n", F(command), 1},
        {"\tControl: Mem? BusMaster+\n", F(command), 5},
        {EXPRESS "\tControl: Mem+\n", F(command), 1},
        {"\tIOMMU group: 12\n", F(iommu_group), 12},
        {"\tIOMMU group: x\n", F(iommu_group), FACT_UNKNOWN},
        {"\tNUMA node: 1\n", F(numa_node), 1},
        {"\tNUMA node: x\n", F(numa_node), FACT_UNKNOWN},
        {"\tFlags: bus master, NUMA node 1, IOMMU group 2\n", F(iommu_group), 2},
        {"\tFlags: bus master, NUMA node 1\n", F(numa_node), 1},
        {"\tFlags: fast devsel\n", F(numa_node), FACT_UNKNOWN},
        {"\tSubsystem: ASUSTeK Computer Inc. Device [1043:8882]\n", F(subsystem_device), 0x8882},
        {EXPRESS "\tSubsystem: ASUSTeK Computer Inc. Device [1043:8882]\n", F(subsystem_device),
         FACT_UNKNOWN},
        {"\tCapabilities: [40] Subsystem: ASUSTeK Computer Inc. Device [1043:8882]\n",
         F(subsystem_vendor), 0x1043},
        {"\tBus: primary=00, secondary=02, subordinate=03, sec-latency=0\n", F(secondary), 2},
        {"\tBus: primary=00, subordinate=03\n", F(secondary), FACT_UNKNOWN},
        {"\tBus: primary=00, secondary=02\n\tMemory behind bridge: b9000000-ba0fffff [size=17M]\n",
         F(memory.limit), 0xba0fffff},
        {"\tBus: primary=00, secondary=02\n\tMemory behind bridge: None\n", F(memory.limit),
         FACT_ABSENT},
        {"\tBus: primary=00, secondary=02\n\tMemory behind bridge: [disabled]\n", F(memory.limit),
         FACT_ABSENT},
        {"\tBus: primary=00, secondary=02\n\tMemory behind bridge: fff00000-000fffff\n",
         F(memory.limit), FACT_ABSENT},
        {"\tBus: primary=00, secondary=02\n\tMemory behind bridge: 1-2 [disabled]\n",
         F(memory.limit), FACT_ABSENT},
        {"\tBus: primary=00, secondary=02\n\tMemory behind bridge: zz\n", F(memory.limit),
         FACT_UNKNOWN},
        {"\tBus: primary=00, secondary=02\n\tMemory behind bridge: 10+20\n", F(memory.limit),
         FACT_UNKNOWN},
        {"\tBus: primary=00, secondary=02\n\tMemory behind bridge: 10-zz\n", F(memory.limit),
         FACT_UNKNOWN},
        {"\tStatus: D0\n", F(pcie_type), FACT_UNKNOWN},
        {"\tStatus: Cap- 66MHz-\n", F(pcie_type), FACT_ABSENT},
    };
    CHECK(rows);
    refuse(HEAD "\tControl: I/O-\n", "text:6", "two Control lines that differ");
    refuse(HEAD "\tNUMA node: 0\n\tFlags: fast devsel, NUMA node 1, IOMMU group 2\n", "text:7",
           "two NUMA nodes that differ");
    refuse(HEAD "\tBus: primary=00, secondary=zz\n", "text:6:29", "a bus number of two hex digits");
    refuse(HEAD "\tBus: primary=00, secondary=02\n\tBus: primary=00, secondary=03\n", "text:7",
           "two lines of bus numbers that differ");
}

static void drivers_and_headers_of_no_type_are_told(void **state)
{
    (void)state;
    struct rig_topology *t = accept(HEAD "\tKernel driver in use:\n");
    assert_false(rig_text_has(function_named(t, "01:00.0")->driver));
    rig_topology_free(t);
    t = accept("02:00.0 3D controller [0302]: NVIDIA Corporation Two [10de:2684] (rev ff)\n"
               "\t!!! Unknown header type 7f\n");
    assert_int_equal(function_named(t, "02:00.0")->pcie_type.know, RIG_FACT_UNKNOWN);
    assert_non_null(strstr(function_named(t, "02:00.0")->pcie_type.from, "all ones"));
    rig_topology_free(t);
    static const char *const others[] = {"05", "zz"};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(others); i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "02:00.0 Class [0302]: Two [10de:2684]\n\t!!! Unknown header type %s\n",
                 others[i]);
        t = accept(text);
        assert_null(strstr(function_named(t, "02:00.0")->pcie_type.from, "all ones"));
        rig_topology_free(t);
    }
}

/* ---- headers */

static void what_is_no_place_starts_no_function(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "123:00:01.0 Thing: x",
        "123:01.0 Thing: x",
        "00:1f Thing: x",
        "00:1f.z Thing: x",
        "00:20.0 Thing: x",
        "00:1f.8 Thing: x",
        "00:1f.0x Thing: x",
        "00:zz.0 Thing: x",
        "0000:0:1f.0 Thing: x",
        "0000:00:1 Thing: x",
        "00:01.0/zz Thing: x",
        "00:01.0/01:zz.0 Thing: x",
        "00:01.0/01:02 Thing: x",
        "00:01.0/01:02.z Thing: x",
        "00:01.0/01:20.0 Thing: x",
        "00:01.0/01:00.8 Thing: x",
        "00:01.0/01:00.0x Thing: x",
        "00:01.0 : x",
        "00:01.0 Thing",
        "00:01.0",
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(lines); i++) {
        char text[1024];
        snprintf(text, sizeof text, "%s\n%s\n", HEAD, lines[i]);
        struct rig_topology *t = accept(text);
        if (rig_topology_count(t) != 2)
            fail_msg("%s", lines[i]);
        rig_topology_free(t);
    }
    /* a path of more functions than there are buses in any chain */
    char text[1024] = "00:00.0";
    for (int i = 0; i < 40; i++)
        strcat(text, "/01:00.0");
    strcat(text, " Thing: x\n" HEAD);
    struct rig_topology *t = accept(text);
    assert_int_equal(rig_topology_count(t), 2);
    rig_topology_free(t);
}

static void headers_tell_class_ids_and_name(void **state)
{
    (void)state;
    static const struct {
        const char *line, *name;
        uint64_t class_code, vendor, device;
    } rows[] = {
        {"3D controller [0302]: A B [10de:2684] (rev a1) (prog-if 01)", "A B", 0x030201, 0x10de,
         0x2684},
        {"3D controller [0302]: A B  [10de:2684]", "A B", 0x030200, 0x10de, 0x2684},
        {"3D controller [03x2]: A [10de:26x4]", "A [10de:26x4]", FACT_UNKNOWN, FACT_UNKNOWN,
         FACT_UNKNOWN},
        {"3D controller [0302}: A [10de-2684]", "A [10de-2684]", FACT_UNKNOWN, FACT_UNKNOWN,
         FACT_UNKNOWN},
        {"3D controller: A (10de:2684]", "A (10de:2684]", 0x030200, FACT_UNKNOWN, FACT_UNKNOWN},
        {"3D controller: A [10de:2684}", "A [10de:2684}", 0x030200, FACT_UNKNOWN, FACT_UNKNOWN},
        {"0302: 10de:2684", NULL, 0x030200, 0x10de, 0x2684},
        {"Class 0302: Device 10de:2684", NULL, 0x030200, 0x10de, 0x2684},
        {"Fish: 10de:2684 x", "10de:2684 x", FACT_UNKNOWN, FACT_UNKNOWN, FACT_UNKNOWN},
        {"Fish: 10de:26", "10de:26", FACT_UNKNOWN, FACT_UNKNOWN, FACT_UNKNOWN},
        {"Fish: 10de-2684", "10de-2684", FACT_UNKNOWN, FACT_UNKNOWN, FACT_UNKNOWN},
        {"Fish: 10d", "10d", FACT_UNKNOWN, FACT_UNKNOWN, FACT_UNKNOWN},
        {"Fish (prog-if 02): Made Up Device 12xy (prog-if 02)", "Made Up Device 12xy", FACT_UNKNOWN,
         FACT_UNKNOWN, FACT_UNKNOWN},
        {"3D controller: Made Up Device 1234 (prog-if zz)", "Made Up Device 1234 (prog-if zz)",
         0x030200, FACT_UNKNOWN, FACT_UNKNOWN},
        {"3D controller: Made Up Device 1234\t (rev 01)", "Made Up Device 1234", 0x030200,
         FACT_UNKNOWN, 0x1234},
        {"3D controller: Made Up Unknown device 1234 (rev 01)", "Made Up Unknown device 1234",
         0x030200, FACT_UNKNOWN, 0x1234},
        {"3D controller: A Name  (rev a1)", "A Name", 0x030200, FACT_UNKNOWN, FACT_UNKNOWN},
        {"3D controller:  (rev a1)", NULL, 0x030200, FACT_UNKNOWN, FACT_UNKNOWN},
        {"3D controller: Made Up Other  1234", "Made Up Other  1234", 0x030200, FACT_UNKNOWN,
         FACT_UNKNOWN},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        char text[1024];
        snprintf(text, sizeof text, "%s\n02:00.0 %s\n\tControl: I/O-\n", HEAD, rows[i].line);
        struct rig_topology *t = accept(text);
        const struct rig_function *f = function_named(t, "02:00.0");
        expect_fact(rows[i].line, f->class_code, rows[i].class_code);
        expect_fact(rows[i].line, f->vendor, rows[i].vendor);
        expect_fact(rows[i].line, f->device, rows[i].device);
        if (rows[i].name ? !f->name || strcmp(f->name, rows[i].name) != 0 : f->name != NULL)
            fail_msg("%s: %s", rows[i].line, f->name ? f->name : "-");
        rig_topology_free(t);
    }
}

/* ---- the kernel's log */

#define TREE                                                                                       \
    "-[0000:00]-+-00.0\n           \\-01.0-[01]----00.0  NVIDIA Corporation Two [10de:2684]\n\n"

static void the_log_tells_bars_in_its_own_forms(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"pci 0000:01:00.0: reg 0x14: [mem 0x10000000-0x1fffffff 64bit pref]\n", F(bar[1].size),
         256u << 20},
        {"[    0.5] pci 0000:01:00.0: reg 14: [mem 0x10000000-0x1fffffff 64bit pref]\n",
         F(bar[1].flags), RIG_BAR_64BIT | RIG_BAR_PREFETCHABLE},
        {"pci 0000:01:00.0: BAR 1: assigned [mem 0x10000000-0x1fffffff]\n", F(bar[1].cpu),
         0x10000000},
        {"pci 0000:01:00.0: BAR 1 [mem 0x10000000-0x1fffffff]\n", F(bar[1].flags), 0},
        {"pci 0000:01:00.0: reg 0x14: [io  0x3000-0x307f]\n", F(bar[1].flags), RIG_BAR_IO},
        {"pci 0000:01:00.0: reg 0x14: [mem 0x00000000-0x0fffffff]\n", F(bar[1].cpu), FACT_UNKNOWN},
        {"pci 0000:01:00.0: reg 0x14: [mem 0x00000000-0x0fffffff]\n", F(bar[1].size), 256u << 20},
    };
    check_below(TREE, rows, RIG_ARRAY_LENGTH(rows));
    static const char *const none[] = {
        "0000:01:00.0: reg 0x14: [mem 0x10000000-0x1fffffff]\n",
        "pci 0000:01:00.0 reg 0x14 [mem 0x10000000-0x1fffffff]\n",
        "pci zz: reg 0x14: [mem 0x10000000-0x1fffffff]\n",
        "pci 0000:01:00.0 x: reg 0x14: [mem 0x10000000-0x1fffffff]\n",
        "pci 0000:02:00.0: reg 0x14: [mem 0x10000000-0x1fffffff]\n",
        "pci 0000:01:00.0: reg 0xzz: [mem 0x10000000-0x1fffffff]\n",
        "pci 0000:01:00.0: reg 0x14 [mem 0x10000000-0x1fffffff]\n",
        "pci 0000:01:00.0: reg 0x04: [mem 0x10000000-0x1fffffff]\n",
        "pci 0000:01:00.0: reg 0x15: [mem 0x10000000-0x1fffffff]\n",
        "pci 0000:01:00.0: reg 0x30: [mem 0x10000000-0x1fffffff]\n",
        "pci 0000:01:00.0: BAR x: [mem 0x10000000-0x1fffffff]\n",
        "pci 0000:01:00.0: BIOS 1: [mem 0x10000000-0x1fffffff]\n",
        "pci 0000:01:00.0: reg 0x14: [bus 01-02]\n",
        "pci 0000:01:00.0: reg 0x14: [mem size 0x10000000]\n",
        "pci 0000:01:00.0: reg 0x14: [mem 0xzz-0x1fffffff]\n",
        "pci 0000:01:00.0: reg 0x14: [mem 0x10000000+0x1fffffff]\n",
        "pci 0000:01:00.0: reg 0x14: [mem 0x10000000-0xzz]\n",
        "pci 0000:01:00.0: reg 0x14: [mem 0x1fffffff-0x10000000]\n",
        "pci 0000:01:00.0: reg 0x14: [mem 0x10000000-0x1ffffffe]\n",
        "pci 0000:01:00.0: reg 0x14: [mem 0x10000000-0x1fffffff\n",
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(none); i++) {
        char text[512];
        snprintf(text, sizeof text, "%s%s", TREE, none[i]);
        struct rig_topology *t = accept(text);
        expect_fact(none[i], function_named(t, "01:00.0")->bar[1].flags, FACT_UNKNOWN);
        rig_topology_free(t);
    }
}

static void what_the_text_says_of_a_bar_counts_before_the_log(void **state)
{
    (void)state;
    static const struct row rows[] = {
        /* of another kind */
        {"\tRegion 1: Memory at 28800000000 (64-bit, prefetchable)\n"
         "pci 0000:01:00.0: reg 0x14: [mem 0x10000000-0x1fffffff]\n",
         F(bar[1].size), FACT_UNKNOWN},
        /* of the same: what is missing is filled in */
        {"\tRegion 1: Memory at 28800000000 (64-bit, prefetchable)\n"
         "pci 0000:01:00.0: reg 0x14: [mem 0x10000000-0x1fffffff 64bit pref]\n",
         F(bar[1].size), 256u << 20},
        {"\tRegion 1: Memory at 28800000000 (64-bit, prefetchable)\n"
         "pci 0000:01:00.0: reg 0x14: [mem 0x10000000-0x1fffffff 64bit pref]\n",
         F(bar[1].cpu), 0x28800000000},
        {"\tRegion 1: Memory at 28800000000 (64-bit, prefetchable)\n"
         "Jan  1 00:00:00 host kernel: pci 0000:01:00.0: reg 0x14: [mem 0x10000000-0x1fffffff 64bit pref]\n",
         F(bar[1].size), 256u << 20},
        {"\tRegion 1: Memory at 28800000000 (64-bit, prefetchable)\n"
         "[    0.5] pci 0000:01:00.0: reg 0x14: [mem 0x10000000-0x1fffffff 64bit pref]\n",
         F(bar[1].size), 256u << 20},
        {"\tRegion 1: Memory at <unassigned> (64-bit, prefetchable) [size=1G]\n"
         "pci 0000:01:00.0: reg 0x14: [mem 0x10000000-0x1fffffff 64bit pref]\n",
         F(bar[1].cpu), FACT_ABSENT},
        {"\tRegion 1: Memory at 28800000000 (64-bit, prefetchable) [size=1G]\n"
         "pci 0000:01:00.0: reg 0x14: [mem 0x10000000-0x1fffffff 64bit pref]\n",
         F(bar[1].size), 1u << 30},
    };
    CHECK(rows);
    /* A dump knows the address on the bus, and that BAR 2 is none. */
    struct rig_topology *t = accept("01:00.0 3D controller: NVIDIA Corporation Two\n"
                                    "00: de 10 84 26 07 00 10 00 a1 00 02 03 00 00 00 00\n"
                                    "10: 00 00 00 b8 00 00 00 c0 00 00 00 00 00 00 00 00\n"
                                    "20: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
                                    "30: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
                                    "pci 0000:01:00.0: reg 0x10: [mem 0x10000000-0x1fffffff]\n"
                                    "pci 0000:01:00.0: reg 0x18: [mem 0x20000000-0x2fffffff]\n");
    expect_fact("bus", function_named(t, "01:00.0")->bar[0].bus, 0xb8000000);
    expect_fact("cpu", function_named(t, "01:00.0")->bar[0].cpu, 0xb8000000);
    expect_fact("size", function_named(t, "01:00.0")->bar[0].size, 256u << 20);
    expect_fact("none", function_named(t, "01:00.0")->bar[2].flags, FACT_ABSENT);
    rig_topology_free(t);
}

static void a_log_longer_than_any_machines_is_not_read_on(void **state)
{
    (void)state;
    static const char line[] = "pci 0000:05:00.0: reg 0x10: [mem 0x10000000-0x1fffffff]\n";
    size_t n = 0, count = 65536;
    char *text = malloc(count * sizeof line + 1024);
    n += (size_t)sprintf(text, "%s", TREE);
    for (size_t i = 0; i < count; i++) {
        memcpy(text + n, line, sizeof line - 1);
        n += sizeof line - 1;
    }
    strcpy(text + n, "pci 0000:01:00.0: reg 0x10: [mem 0x10000000-0x1fffffff]\n");
    struct rig_topology *t = accept(text);
    expect_fact("the last", function_named(t, "01:00.0")->bar[0].flags, FACT_UNKNOWN);
    rig_topology_free(t);
    free(text);
}

/* ---- the machine */

static void lines_of_proc_and_uname_tell_the_machine(void **state)
{
    (void)state;
    static const struct {
        const char *line, *vendor, *kernel, *command_line;
        uint64_t family;
    } rows[] = {
        {"vendor_id\t: GenuineIntel", "GenuineIntel", NULL, NULL, FACT_UNKNOWN},
        {"vendor_id\t:", NULL, NULL, NULL, FACT_UNKNOWN},
        {"vendor_id is none", NULL, NULL, NULL, FACT_UNKNOWN},
        {"cpu family\t: 23", NULL, NULL, NULL, 23},
        {"cpu family\t: x", NULL, NULL, NULL, FACT_UNKNOWN},
        {"cpu family\t: 23 x", NULL, NULL, NULL, FACT_UNKNOWN},
        {"Linux host\t6.1.0-18 #1 SMP", NULL, "6.1.0-18", NULL, FACT_UNKNOWN},
        {"Linux host 6.1.0-18", NULL, NULL, NULL, FACT_UNKNOWN},
        {"Linux host 6.1.0-18 is old", NULL, NULL, NULL, FACT_UNKNOWN},
        {"Linux host x.y #1", NULL, NULL, NULL, FACT_UNKNOWN},
        {"Linux host 6 #1", NULL, NULL, NULL, FACT_UNKNOWN},
        {"Linux host 6.x #1", NULL, NULL, NULL, FACT_UNKNOWN},
        {"Linux", NULL, NULL, NULL, FACT_UNKNOWN},
        {"[ 0.0] Linux version 6.1.0-18 (builder)", NULL, "6.1.0-18", NULL, FACT_UNKNOWN},
        {"Linux version 6.1.0-18", NULL, NULL, NULL, FACT_UNKNOWN},
        {"Linux version 6.1.0-18 is old", NULL, NULL, NULL, FACT_UNKNOWN},
        {"Linux version x (builder)", NULL, NULL, NULL, FACT_UNKNOWN},
        {"[ 0.0] Kernel command line: iommu=pt", NULL, NULL, "iommu=pt", FACT_UNKNOWN},
        {"[ 0.0] Command line: iommu=pt", NULL, NULL, "iommu=pt", FACT_UNKNOWN},
        {"BOOT_IMAGE=/vmlinuz iommu=pt", NULL, NULL, "BOOT_IMAGE=/vmlinuz iommu=pt", FACT_UNKNOWN},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        char text[512];
        snprintf(text, sizeof text, "-[0000:00]---00.0\n\n%s\n", rows[i].line);
        struct rig_topology *t = accept(text);
        const struct rig_machine_facts *m = rig_topology_machine(t);
        const struct {
            const char *expected;
            struct rig_text is;
        } texts[] = {{rows[i].vendor, m->cpu_vendor},
                     {rows[i].kernel, m->kernel},
                     {rows[i].command_line, m->command_line}};
        for (size_t k = 0; k < RIG_ARRAY_LENGTH(texts); k++)
            if (texts[k].expected ? !rig_text_has(texts[k].is) ||
                                        strcmp(texts[k].is.value, texts[k].expected) != 0
                                  : texts[k].is.know != RIG_FACT_UNKNOWN)
                fail_msg("%s: %s", rows[i].line, texts[k].is.value ? texts[k].is.value : "-");
        expect_fact(rows[i].line, m->cpu_family, rows[i].family);
        rig_topology_free(t);
    }
    refuse(TREE "cpu family\t: 23\ncpu family\t: 25\n", "text:5", "two families of the CPU");
    refuse(TREE "Linux one 6.1.0 #1\nLinux two 6.1.0 #1\n", "text:5", "two names of the host");
    struct rig_topology *t = accept(TREE "cpu family\t: 23\ncpu family\t: 23\n");
    expect_fact("twice", rig_topology_machine(t)->cpu_family, 23);
    rig_topology_free(t);
}

static void an_iommu_that_a_checker_calls_off_is_assumed_off_where_no_group_is_shown(void **state)
{
    (void)state;
    struct rig_topology *t = accept(HEAD "\tIOMMU group: 3\n\nIOMMU: disabled\n");
    expect_fact("00:00.0", function_named(t, "00:00.0")->iommu, RIG_IOMMU_NONE);
    assert_int_equal(function_named(t, "00:00.0")->iommu.know, RIG_FACT_ASSUMED);
    expect_fact("01:00.0", function_named(t, "01:00.0")->iommu, FACT_UNKNOWN);
    rig_topology_free(t);
}

/* ---- wrapped lines, and what is none */

static void a_cut_line_goes_on_only_where_its_next_word_would_not_have_fitted(void **state)
{
    (void)state;
    struct rig_topology *t = accept(
        "01:00.0 3D controller [0302]: A Vendor Whose Name Is So Long Device\n"
        "[10de:2684]\n\tControl: I/O- Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr-\n"
        "Stepping-\tSERR- FastB2B- DisINTx+\n");
    expect_fact("ids", function_named(t, "01:00.0")->device, 0x2684);
    expect_fact("a tab ends the word", function_named(t, "01:00.0")->command, 0x406);
    rig_topology_free(t);
}

/* ---- trees */

static void lines_like_a_trees_are_none_unless_they_draw(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "-[0000x00]-+-02.0", "-[zz]---02.0",         "-[08-zz]---02.0",     "-[08}---02.0",
        "           +-zz.0", "           +-02x0",    "           +-02.z",   "           +-20.0",
        "           +-02.9", "           +-02.0x Y", "           + 02.0 Y", "- 02.0 is out"};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(lines); i++) {
        char text[512];
        snprintf(text, sizeof text, "-[0000:00]-+-00.0\n           +-01.0\n%s\n", lines[i]);
        struct rig_topology *t = accept(text);
        if (rig_topology_count(t) != 2)
            fail_msg("%s", lines[i]);
        rig_topology_free(t);
    }
    struct rig_topology *t =
        accept("-[0000:00]-+-00.0\tA [8086:1237]\n           \\-01.0-[01]--\n");
    expect_fact("a name behind a tab", function_named(t, "00:00.0")->device, 0x1237);
    expect_fact("an empty bus", function_named(t, "00:01.0")->secondary, 1);
    rig_topology_free(t);
    /* a function that a line leads on from to nothing may be a bridge */
    t = accept("-[0000:00]-+-00.0-\n           \\-01.0-x\n");
    expect_fact("00.0-", function_named(t, "00:00.0")->header_type, FACT_UNKNOWN);
    expect_fact("01.0-x", function_named(t, "00:01.0")->header_type, FACT_UNKNOWN);
    rig_topology_free(t);
    struct rig_error err;
    assert_int_equal(reading_of("text", "-[0000:00]-\n", strlen("-[0000:00]-\n"), &t, &err),
                     RIG_BAD_INPUT);
}

static void what_no_tree_can_draw_is_refused(void **state)
{
    (void)state;
    refuse("-[0000:00]-+-00.0\n            +-[01]---00.0\n", "text:2:", "where functions are");
    refuse("-+-[0000:00]---00.0\n +-01.0\n", "text:2", "no bus above it is");
    refuse("-[0000:00]---00.0-01.0\n", "text:1", "no bus above it is");
    refuse("-[0000:00]-+-00.0\n     +-01.0\n", "text:2", "no bus above it is");
    refuse("-[0000:00]-+-[01]-+-00.0\n             +-02.0\n", "text:2", "no bus above it is");
    /* deeper than 256 buses can be: once at a bus, once at a function */
    for (int plain = 0; plain < 2; plain++) {
        char text[4096] = "-[0000:00]-";
        size_t n = strlen(text);
        if (plain)
            n += (size_t)sprintf(text + n, "--00.0-[fe]-");
        for (int i = 1; i < 140; i++)
            n += (size_t)sprintf(text + n, "--00.0-[ff]-+-[%02x]-", i);
        strcpy(text + n, "--00.0\n");
        refuse(text, "text:1", "the tree is too deep");
    }
}

static void a_tree_may_be_drawn_twice_alike(void **state)
{
    (void)state;
#define ONE "-[0000:00]-+-00.0\n           \\-01.0-[01-02]----00.0\n"
    struct rig_topology *t = accept(ONE "\n-[0000:00]-+-00.0  A [8086:1237]\n"
                                        "           \\-01.0-[01-02]----00.0\n\n" ONE);
    assert_int_equal(rig_topology_count(t), 3);
    expect_fact("ids of the second", function_named(t, "00:00.0")->device, 0x1237);
    assert_string_equal(function_named(t, "00:00.0")->name, "A");
    rig_topology_free(t);
    static const char *const others[] = {
        "-[0000:00]-+-00.0\n           \\-01.0-[01-03]----00.0\n",     /* another last bus */
        "-[0000:00]-+-00.0\n           \\-01.0-[02]----00.0\n",        /* another first bus */
        "-[0000:00]-+-00.0\n           \\-01.0\n",                     /* no bridge */
        "-[0000:00]-+-00.0-[01]----00.0\n           \\-01.0-[02]--\n", /* another bridge above */
        "-[0000:00]-+-00.0\n           \\-02.0\n",                     /* another function */
        "-+-[0000:01]---00.0\n \\-[0000:00]---00.0\n",                 /* on a root bus */
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(others); i++) {
        char text[512];
        snprintf(text, sizeof text, "%s\n%s", ONE, others[i]);
        struct rig_error err;
        if (reading_of("text", text, strlen(text), &t, &err) == RIG_OK)
            fail_msg("%s", others[i]);
    }
    refuse("-[0000:00]---00.0  A\n\n-[0000:00]---00.0  B\n", "text:3", "appears twice");
    refuse("-[0000:00]-+-01.0-[01-02]----00.0\n           \\-02.0-[03]--\n\n"
           "-[0000:00]-+-01.0-[01-02]--\n           \\-02.0-[03]-+-[01]---00.0\n",
           "text:4", "appears twice");
}

static void a_block_that_contradicts_an_earlier_one_is_refused_before_a_tree(void **state)
{
    (void)state;
    refuse(HEAD
           "\n01:00.0 3D controller [0302]: NVIDIA Corporation Two [10de:2685]\n\tControl: I/O+\n"
           "-[0000:00]---00.0\n",
           "text:7", "its device id differs");
}

/* ---- lines as they come */

static void escapes_are_undone_only_in_lines_that_are_quoted_printable(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"\tSubsystem: A Device [1043=3A8882]=20\n", F(subsystem_device), 0x8882},
        {"\tSubsystem: A Device=\n [1043:8882]\n", F(subsystem_device), 0x8882},
        {"=09Subsystem: A Device [1043:8882]\n", F(subsystem_device), 0x8882},
        {"=20=20Subsystem: A Device [1043:8882]\n", F(subsystem_device), 0x8882},
        {"\tSubsystem: =C2=A0A Device [1043:8882]\n", F(subsystem_device), 0x8882},
        {"\tIOMMU group: 7=20\n", F(iommu_group), 7},
        {"\tNUMA node: 1=\n", F(numa_node), 1},
        /* what lspci prints itself */
        {"\tBus: primary=00, secondary=02, subordinate=20\n", F(subordinate), 0x20},
        {"\tBus: primary=00, secondary=02, subordinate=3d\n", F(subordinate), 0x3d},
        {"\tBus: primary=00, secondary=02, subordinate=d3\n", F(subordinate), 0xd3},
        {"=\n\tIOMMU group: 7\n", F(iommu_group), FACT_UNKNOWN},
        {"==\n\tIOMMU group: 7\n", F(iommu_group), FACT_UNKNOWN},
        {"a==\n\tIOMMU group: 7\n", F(iommu_group), FACT_UNKNOWN},
        {"=41 a=20\n\tIOMMU group: 7\n", F(iommu_group), FACT_UNKNOWN},
        {"x=21\n\tIOMMU group: 7\n", F(iommu_group), FACT_UNKNOWN},
        {"xy=20\n\tIOMMU group: 7\n", F(iommu_group), FACT_UNKNOWN},
        {"9xy=20\n\tIOMMU group: 7\n", F(iommu_group), FACT_UNKNOWN},
    };
    CHECK(rows);
}

static void references_and_odd_blanks_are_undone(void **state)
{
    (void)state;
    struct rig_topology *t = accept(
        "x\n" HEAD "\r\t IOMMU group: 7 \r \n\tSubsystem: A&amp;B &copy; &l; Device [1043:8882] &\n"
        "\tKernel driver in use: a&#45;b&l\n");
    expect_fact("between carriage returns", function_named(t, "01:00.0")->iommu_group, 7);
    assert_string_equal(function_named(t, "01:00.0")->driver.value, "a&#45;b&l");
    rig_topology_free(t);
    /* a long line after short ones */
    char *text = malloc(8192);
    int n = sprintf(text, HEAD "\tNUMA node:&nbsp;1\n\tKernel driver in use: ");
    memset(text + n, 'd', 4000);
    strcpy(text + n + 4000, "&amp;\n");
    t = accept(text);
    assert_int_equal(strlen(function_named(t, "01:00.0")->driver.value), 4001);
    expect_fact("NUMA node", function_named(t, "01:00.0")->numa_node, 1);
    rig_topology_free(t);
    free(text);
}

static void a_long_text_that_turns_binary_is_refused(void **state)
{
    (void)state;
    char name[] = "/tmp/rigmem-text-XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    for (int i = 0; i < 100000; i++)
        fputs("prose\n", file);
    fputc('\0', file);
    fclose(file);
    struct rig_topology *t = NULL;
    struct rig_error err = {.status = RIG_OK};
    assert_int_equal(rig_topology_load(name, &t, &err), RIG_BAD_INPUT);
    assert_non_null(strstr(err.why, "a NUL byte at offset 600000"));
    unlink(name);
}

/* ---- rows */

#define ROW0 "00: de 10 84 26 07 00 10 00 a1 00 02 03 00 00 00 00\n"
#define ROW0_OTHER "00: de 10 84 26 07 00 00 00 a1 00 02 03 00 00 00 00\n"
#define ROWS                                                                                       \
    "10: 00 00 00 b8 00 00 00 00 00 00 00 00 00 00 00 00\n"                                        \
    "20: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"                                        \
    "30: 00 00 00 00 40 00 00 00 00 00 00 00 00 00 00 00"

static void what_looks_like_a_row_and_is_none_is_passed_over(void **state)
{
    (void)state;
    static const char *const lines[] = {"00: 0", "00: zz", "00: 0z", "00: 000",
                                        "00: ",  "00: 0",  "0: 00"};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(lines); i++) {
        char text[512];
        snprintf(text, sizeof text, "%s\n%s", HEAD, lines[i]);
        struct rig_topology *t = accept(text);
        expect_fact(lines[i], function_named(t, "01:00.0")->config_bytes, FACT_UNKNOWN);
        rig_topology_free(t);
    }
    rig_topology_free(
        accept("02:00.0 3D controller: Two\n\tControl: I/O-\n01:00.0\n00: zz zz zz\n"));
    struct rig_topology *t = accept("01:00.0 3D controller: Two\n" ROW0 ROWS "\r");
    expect_fact("a carriage return at the end", function_named(t, "01:00.0")->config_bytes, 64);
    rig_topology_free(t);
    t = accept(
        "01:00.0 3D controller: Two\n00: de\t10 84 26 07 00 10 00 a1 00 02 03 00 00 00 00\n" ROWS
        "\n");
    expect_fact("a tab between", function_named(t, "01:00.0")->device, 0x2684);
    rig_topology_free(t);
    refuse("01:00.0 3D controller: Two\n00: de 10\n", "text:2", "ends before its 16 bytes");
}

/* ---- two readings of one function */

#define AGAIN                                                                                      \
    "\n01:00.0 3D controller [0302]: NVIDIA Corporation Two [10de:2684]\n\tControl: VGASnoop-\n"

static void two_readings_of_one_function_must_agree(void **state)
{
    (void)state;
#define BARS "\tRegion 0: Memory at b8000000 (32-bit) [size=4K]\n"
    static const struct {
        const char *first, *second, *differs; /* NULL: nothing */
    } rows[] = {
        {BARS, "\tRegion 0: Memory at b8000000 (64-bit) [size=4K]\n", "BAR 0 kind"},
        {BARS, "\tRegion 0: Memory at b8001000 (32-bit) [size=4K]\n", "BAR 0 address"},
        {BARS, "\tRegion 0: Memory at b8000000 (32-bit) [size=8K]\n", "BAR 0 size"},
        {BARS, "\tRegion 0: Memory at b8000000 (32-bit)\n", NULL},
        {BARS, "\tRegion 0: Memory at b8000000 (32-bit) [virtual] [size=4K]\n", NULL},
        {"\tRegion 0: Memory at b8000000 (32-bit)\n", BARS, NULL},
        {BARS EXPRESS REBAR "\t\tBAR 0: current size: 1MB, supported: 1MB 2MB\n",
         BARS EXPRESS REBAR "\t\tBAR 0: current size: 1MB, supported: 1MB 4MB\n", "BAR 0 sizes"},
        {EXPRESS ACS "\t\tACSCap: ReqRedir+ CmpltRedir+ EgressCtrl-\n",
         EXPRESS ACS "\t\tACSCap: ReqRedir+ CmpltRedir- EgressCtrl-\n", "ACS capability"},
        {EXPRESS ACS "\t\tACSCap: ReqRedir+ CmpltRedir+ EgressCtrl-\n",
         EXPRESS ACS "\t\tACSCap: ReqRedir+ CmpltRedir+ EgressCtrl-\n", NULL},
        {"\tKernel driver in use: one\n", "\tKernel driver in use: two\n", "driver"},
        {"\tKernel driver in use: one\n", "\tKernel driver in use: one\n", NULL},
        {"\tKernel driver in use: one\n", "\tNUMA node: 1\n", NULL},
        {"\tNUMA node: 1\n", "\tKernel driver in use: one\n", NULL},
        {"\tControl: Mem+ BusMaster+\n", "\tControl: Mem- BusMaster+\n", "command register"},
        {"\tControl: Mem+ BusMaster+\n", "\tControl: Mem+ DisINTx+\n", NULL},
        /* lspci -v does not number BARs: they have the numbers of -vv, if kind by kind alike */
        {BARS "\tRegion 2: Memory at c0000000 (32-bit) [size=8K]\n",
         "\tMemory at b8000000 (32-bit) [size=4K]\n\tMemory at c0000000 (32-bit) [size=8K]\n",
         NULL},
        {"\tMemory at b8000000 (32-bit) [size=4K]\n\tMemory at c0000000 (32-bit) [size=8K]\n",
         BARS "\tRegion 2: Memory at c0000000 (32-bit) [size=8K]\n", NULL},
        {"\tMemory at b8000000 (32-bit) [size=4K]\n", "\tMemory at b8000000 (32-bit) [size=4K]\n",
         NULL},
        {"\tNUMA node: 1\n", "\tMemory at b8000000 (32-bit) [size=4K]\n", NULL},
        {BARS, "\tMemory at b8000000 (64-bit) [size=4K]\n", "BAR 0 kind"},
        {BARS, "\tMemory at b8000000 (32-bit) [size=4K]\n\tMemory at c0000000 (32-bit) [size=8K]\n",
         NULL},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        char text[2048];
        snprintf(text, sizeof text, "%s%s%s%s", AGAIN, rows[i].first, AGAIN, rows[i].second);
        if (rows[i].differs) {
            char why[64];
            snprintf(why, sizeof why, "its %s differs", rows[i].differs);
            refuse(text, "text:", why);
        } else {
            rig_topology_free(accept(text));
        }
    }
}

static void a_name_may_be_cut_and_a_place_may_come_without_one(void **state)
{
    (void)state;
    static const struct {
        const char *first, *second;
    } rows[] = {{"A Name", "A Name Of More"}, {"A Name Of More", "A Name"}};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        char text[512];
        snprintf(text, sizeof text, "01:00.0 Thing: %s\n\tControl: I/O-\n\n01:00.0 Thing: %s\n",
                 rows[i].first, rows[i].second);
        struct rig_topology *t = accept(text);
        assert_string_equal(function_named(t, "01:00.0")->name, "A Name Of More");
        rig_topology_free(t);
    }
    struct rig_topology *t = accept("01:00.0 0302: 10de:2684\n\tControl: I/O-\n\n"
                                    "01:00.0 3D controller: NVIDIA Corporation Two\n");
    assert_string_equal(function_named(t, "01:00.0")->name, "NVIDIA Corporation Two");
    rig_topology_free(t);
}

static void text_and_rows_must_agree_whichever_comes_first(void **state)
{
    (void)state;
#define TEXT "01:00.0 3D controller [0302]: NVIDIA Corporation Two [10de:2684]\n"
#define ASLEEP                                                                                     \
    "10: 0c 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"                                        \
    "20: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"                                        \
    "30: 00 00 00 00 40 00 00 00 00 00 00 00 00 00 00 00\n"
    static const char region[] =
        "\tRegion 0: Memory at b8000000 (32-bit, non-prefetchable) [size=16M]\n";
    char text[1024];
    snprintf(text, sizeof text, "%s%s\n%s%s%s\n", TEXT, region, TEXT, ROW0, ROWS);
    struct rig_topology *t = accept(text);
    expect_fact("bus", function_named(t, "01:00.0")->bar[0].bus, 0xb8000000);
    rig_topology_free(t);
    static const char wide[] =
        "\tRegion 0: Memory at 2800000000 (64-bit, prefetchable) [size=16M]\n";
    snprintf(text, sizeof text, "%s%s%s\n%s%s", TEXT, ROW0, ASLEEP, TEXT, wide);
    t = accept(text);
    expect_fact("asleep, then its text", function_named(t, "01:00.0")->bar[0].cpu, 0x2800000000);
    rig_topology_free(t);
    snprintf(text, sizeof text, "%s%s\n%s%s%s", TEXT, wide, TEXT, ROW0, ASLEEP);
    t = accept(text);
    expect_fact("its text, then asleep", function_named(t, "01:00.0")->bar[0].cpu, 0x2800000000);
    rig_topology_free(t);
    /* A register that has no list of capabilities has no ACS, and one text says that it has. */
    char rows[8192];
    size_t n = (size_t)sprintf(rows, TEXT ROW0_OTHER ROWS "\n");
    for (int i = 4; i < 16; i++)
        n += (size_t)sprintf(rows + n, "%x0: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n", i);
    sprintf(rows + n, "\n" TEXT EXPRESS ACS "\t\tACSCtl: ReqRedir+ CmpltRedir+ EgressCtrl-\n");
    refuse(rows, "text:", "none there");
    /* A dump twice: what is absent in both agrees. */
    memmove(rows + n, rows, n);
    rows[2 * n] = '\0';
    rig_topology_free(accept(rows));
}

static void blocks_end_in_odd_ways(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"\tStatus: Cap+ 66MHz-\n\t<access denied to the rest>\n", F(bar[0].flags), FACT_ABSENT},
        {"\tStatus: Cap+ 66MHz-\n\t<access denied to the rest>\n", F(acs_control), FACT_UNKNOWN},
        {"\tStatus: Cap+ 66MHz-\n", F(bar[0].flags), FACT_UNKNOWN},
        {"\t!!! Unknown header type 7f\n" EXPRESS, F(acs_control), FACT_UNKNOWN},
        {"\tStatus: Cap- 66MHz-\n\tControl:Mem+\n", F(command), 3},
    };
    CHECK(rows);
    struct rig_topology *t =
        accept("03:00.0 CardBus bridge [0607]: A [1180:0476]\n\tControl: I/O-\n"
               "04:00.0 PCI bridge [0604]: B [1180:0477]\n\tControl: I/O-\n"
               "05:00.0 VGA compatible controller [0300]: C [1180:0478]\n\tControl: I/O-\n");
    expect_fact("CardBus", function_named(t, "03:00.0")->header_type, 2);
    expect_fact("PCI", function_named(t, "04:00.0")->header_type, 1);
    expect_fact("none", function_named(t, "05:00.0")->header_type, 0);
    rig_topology_free(t);
    /* a dump of 128 bytes is a CardBus bridge's without privilege */
    char text[2048];
    size_t n = (size_t)sprintf(text, "03:00.0 CardBus bridge: A\n"
                                     "00: 80 11 76 04 07 00 00 02 00 00 07 06 00 00 02 00\n");
    for (int i = 1; i < 8; i++)
        n += (size_t)sprintf(text + n, "%x0: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n", i);
    t = accept(text);
    assert_int_equal(rig_topology_warnings(t), 0);
    rig_topology_free(t);
    /* a path over what is no bridge, with bus numbers left out */
    refuse("00:05.0/00.0 3D controller: B\n", "text:1", "this path leaves bus numbers out");
    refuse("00:01.0 3D controller: A\n\tControl: I/O-\n00:01.0/00.0 3D controller: B\n", "text:3",
           "this path leaves bus numbers out");
    t = accept("00:1f.0\t3D controller: A\n\tControl: I/O-\n00:01.0/01:00.0\tThing: B\n"
               "02:00.0 3D controller: [10de:2684]\n");
    expect_fact("ids alone", function_named(t, "02:00.0")->device, 0x2684);
    assert_int_equal(rig_topology_count(t), 4);
    rig_topology_free(t);
}

static void names_that_pci_ids_cannot_have_are_not_found(void **state)
{
    (void)state;
    char text[2048], name[300];
    for (int unknown = 0; unknown < 2; unknown++) {
        memset(name, 'n', sizeof name);
        name[sizeof name - 1] = '\0';
        if (unknown)
            memcpy(name + 100, " Unknown device ", 16);
        snprintf(text, sizeof text, "01:00.0 3D controller: %s\n\tControl: I/O-\n", name);
        struct rig_topology *t = accept(text);
        expect_fact("vendor", function_named(t, "01:00.0")->vendor, FACT_UNKNOWN);
        rig_topology_free(t);
    }
}

/* ---- the CPU by its functions */

static void the_cpu_is_assumed_where_its_functions_agree(void **state)
{
    (void)state;
    static const struct {
        const char *text, *vendor; /* NULL: not assumed */
        uint64_t family;
    } rows[] = {
        {"-[0000:00]-+-00.0  A [8086:1237]\n           \\-01.0\n", "GenuineIntel", 6},
        {"-[0000:00]-+-01.0  A [8086:1237]\n           \\-02.0\n", NULL, FACT_UNKNOWN},
        {"-[0000:00]-+-00.1  A [8086:1237]\n           \\-02.0\n", NULL, FACT_UNKNOWN},
        {"-+-[0000:10]---00.0  A [8086:1237]\n \\-[0000:00]---02.0\n", NULL, FACT_UNKNOWN},
        {"-[0000:00]-+-00.0  A [8086:1237]\n           \\-01.0  B [1022:1480]\n", NULL,
         FACT_UNKNOWN},
        {"-[0000:00]-+-00.0  A [13b5:0100]\n           \\-01.0  B [1def:e100]\n", "not x86",
         FACT_UNKNOWN},
        {"-[0000:00]---00.0  A [1022:1480]\n\ncpu family : 25\n", "AuthenticAMD", 25},
        {"-[0000:00]---00.0  A [1022:1480]\n", "AuthenticAMD", 23},
        {"-[0000:00]---00.0  A [1d94:1450]\n", NULL, FACT_UNKNOWN},
        {"05:00.0 Thing: A [1022:1480]\n\tControl: I/O-\n", NULL, FACT_UNKNOWN},
        {"f0:0b.0 Host bridge [0600]: A [1022:1480]\n\tControl: I/O-\n", "AuthenticAMD", 23},
        /* AMD's data fabric, all of it and some of it, here and in another domain */
        {"-[0000:00]-+-18.0\n           +-18.1\n           +-18.2\n           +-18.3\n"
         "           +-18.4\n           +-18.5\n           +-18.6\n           \\-18.7\n",
         "AuthenticAMD", 23},
        {"-[0000:00]-+-18.0\n           +-18.1\n           +-18.2  A [1234:5678]\n"
         "           +-18.3  B [1022:0001]\n           +-18.4\n           +-18.5\n"
         "           +-18.6\n           \\-18.7\n",
         NULL, FACT_UNKNOWN},
        {"-[0001:00]-+-18.0\n           \\-18.1\n", NULL, FACT_UNKNOWN},
        {"-[0000:01]-+-18.0\n           \\-18.1\n", NULL, FACT_UNKNOWN},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        struct rig_topology *t = accept(rows[i].text);
        const struct rig_machine_facts *m = rig_topology_machine(t);
        if (rows[i].vendor
                ? !rig_text_has(m->cpu_vendor) || strcmp(m->cpu_vendor.value, rows[i].vendor) != 0
                : m->cpu_vendor.know != RIG_FACT_UNKNOWN)
            fail_msg("%s: %s", rows[i].text, m->cpu_vendor.value ? m->cpu_vendor.value : "-");
        expect_fact(rows[i].text, m->cpu_family, rows[i].family);
        rig_topology_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(capabilities_are_what_their_first_line_says),
        cmocka_unit_test(links_are_told_by_speed_and_width),
        cmocka_unit_test(acs_words_are_read_whole_or_not_at_all),
        cmocka_unit_test(resizable_bars_are_told_by_sizes_of_powers_of_two),
        cmocka_unit_test(virtual_functions_are_told_by_their_capability),
        cmocka_unit_test(bars_are_told_by_address_kind_and_size),
        cmocka_unit_test(registers_of_the_header_are_told_by_their_words),
        cmocka_unit_test(drivers_and_headers_of_no_type_are_told),
        cmocka_unit_test(what_is_no_place_starts_no_function),
        cmocka_unit_test(headers_tell_class_ids_and_name),
        cmocka_unit_test(the_log_tells_bars_in_its_own_forms),
        cmocka_unit_test(what_the_text_says_of_a_bar_counts_before_the_log),
        cmocka_unit_test(a_log_longer_than_any_machines_is_not_read_on),
        cmocka_unit_test(lines_of_proc_and_uname_tell_the_machine),
        cmocka_unit_test(an_iommu_that_a_checker_calls_off_is_assumed_off_where_no_group_is_shown),
        cmocka_unit_test(a_cut_line_goes_on_only_where_its_next_word_would_not_have_fitted),
        cmocka_unit_test(lines_like_a_trees_are_none_unless_they_draw),
        cmocka_unit_test(what_no_tree_can_draw_is_refused),
        cmocka_unit_test(a_tree_may_be_drawn_twice_alike),
        cmocka_unit_test(a_block_that_contradicts_an_earlier_one_is_refused_before_a_tree),
        cmocka_unit_test(escapes_are_undone_only_in_lines_that_are_quoted_printable),
        cmocka_unit_test(references_and_odd_blanks_are_undone),
        cmocka_unit_test(a_long_text_that_turns_binary_is_refused),
        cmocka_unit_test(what_looks_like_a_row_and_is_none_is_passed_over),
        cmocka_unit_test(two_readings_of_one_function_must_agree),
        cmocka_unit_test(a_name_may_be_cut_and_a_place_may_come_without_one),
        cmocka_unit_test(text_and_rows_must_agree_whichever_comes_first),
        cmocka_unit_test(blocks_end_in_odd_ways),
        cmocka_unit_test(names_that_pci_ids_cannot_have_are_not_found),
        cmocka_unit_test(the_cpu_is_assumed_where_its_functions_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
