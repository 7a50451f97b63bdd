/* What each gate of reach says, and what is said of assumed and of missing facts. Expected values
   follow from the conditions of `reaches` in the specification, from PCI's rules and from Linux's
   decision, by hand. */
#include "builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Two GPUs of 16 GiB under one switch of an Intel client, whose host bridge no list holds. */
#define CLIENT(p, c)                                                                               \
    "00:00.0 host id=8086:4c43 iommu=none\n00:01.0 rp 01-04 id=8086:4c01\n"                        \
    "01:00.0 up 02-04\n02:00.0 down 03-03 acs=" p "\n02:01.0 down 04-04 acs=" c                    \
    "\n03:00.0 ep id=1002:744c gpu=16384/16384 iommu=none"                                         \
    "\n04:00.0 ep id=1002:744c gpu=16384/16384 iommu=none\n"

static struct rig_topology *client(void)
{
    return build_machine(CLIENT("0000", "0000"), "Intel:6");
}

static struct rig_function *at(struct rig_topology *t, const char *bdf)
{
    return &t->node[function_at(t, bdf)].f;
}

static void finish(struct rig_topology *t)
{
    assert_int_equal(topology_finish(t, "test", NULL), RIG_OK);
}

/* The last answer asked for; it holds nothing that must be freed. */
static struct rig_reach last;

static const struct rig_reach *ask(const struct rig_topology *t, const char *from, const char *to)
{
    assert_int_equal(rig_reach_pair(t, rig_rules_for("6.1"), function_at(t, from),
                                    function_at(t, to), &last, NULL),
                     RIG_OK);
    rig_reach_free(&last);
    return &last;
}

static void expect_gate(enum rig_gate_token token, enum rig_answer open, const char *why)
{
    for (int i = 0; i < last.gate_count; i++) {
        if (last.gates[i].gate != token)
            continue;
        assert_int_equal(last.gates[i].open, open);
        if (!strstr(last.gates[i].why, why))
            fail_msg("\"%s\" does not hold \"%s\"", last.gates[i].why, why);
        return;
    }
    fail_msg("no gate %s", rig_gate_name(token));
}

static const struct rig_note *note(const struct rig_note *notes, int count, const char *field)
{
    for (int i = 0; i < count; i++)
        if (strcmp(notes[i].field, field) == 0)
            return &notes[i];
    return NULL;
}

static void expect_assumed(const char *field, const char *value, const char *why)
{
    const struct rig_note *n = note(last.assumed, last.assumed_count, field);
    if (!n)
        fail_msg("%s is not assumed", field);
    assert_string_equal(n->value, value);
    assert_string_equal(n->why, why);
}

static void expect_missing(const char *field, const char *why)
{
    const struct rig_note *n = note(last.unknown, last.unknown_count, field);
    if (!n || !strstr(n->why, why))
        fail_msg("%s: \"%s\" does not hold \"%s\"", field, n ? n->why : "not missing", why);
}

/* ---- names */

static void every_gate_and_path_has_its_name(void **state)
{
    (void)state;
    assert_string_equal(rig_gate_name(RIG_GATE_SELF), "self");
    assert_string_equal(rig_gate_name(RIG_GATE_P2PDMA_OFF), "p2pdma-off");
    assert_string_equal(rig_gate_name(RIG_GATE_COUNT), "?");
    for (unsigned i = 0; i < RIG_GATE_COUNT; i++)
        assert_non_null(rig_gate_name((enum rig_gate_token)i));
    static const char *const paths[] = {"?", "X", "PIX", "PXB", "PHB", "NODE", "SYS"};
    for (unsigned i = 0; i < RIG_ARRAY_LENGTH(paths); i++)
        assert_string_equal(rig_path_name((enum rig_path)i), paths[i]);
    assert_string_equal(rig_path_name((enum rig_path)RIG_ARRAY_LENGTH(paths)), "?");
}

/* ---- the BAR */

static void a_gpu_without_a_memory_bar_is_not_reached(void **state)
{
    (void)state;
    struct rig_topology *t = client();
    at(t, "04:00.0")->bar[0].flags = fact_absent();
    finish(t);
    assert_int_equal(rig_topology_set_gpu(t, "04:00.0", NULL), RIG_OK);
    assert_int_equal(ask(t, "03:00.0", "04:00.0")->answer, RIG_ANSWER_NO);
    assert_int_equal(last.gate, RIG_GATE_BAR_UNASSIGNED);
    expect_gate(RIG_GATE_BAR_UNASSIGNED, RIG_ANSWER_NO, "it has no memory BAR");
    expect_gate(RIG_GATE_BAR_SMALL, RIG_ANSWER_UNKNOWN, "it has no memory BAR");
    assert_int_equal(last.unknown_count, 0);
    struct rig_remedy steps[RIG_REMEDY_STEPS];
    int count = -1;
    assert_int_equal(
        rig_reach_remedy(t, rig_rules_for("6.1"), last.from, last.to, steps, &count, NULL), RIG_OK);
    assert_int_equal(count, 0);
    /* One of which the source does not show whether it is there may be a memory BAR. */
    at(t, "04:00.0")->bar[4].flags = fact_unknown(NULL);
    assert_int_equal(ask(t, "03:00.0", "04:00.0")->answer, RIG_ANSWER_UNKNOWN);
    expect_gate(RIG_GATE_BAR_UNASSIGNED, RIG_ANSWER_UNKNOWN, "its BARs are not known");
    expect_missing("bar address 0000:04:00.0", "does not show it");
    expect_missing("bar size 0000:04:00.0", "--assume bar=0000:04:00.0:SIZE");
    assert_string_equal(last.possibilities,
                        "yes if the memory BAR of 0000:04:00.0 has an address and the BAR of "
                        "0000:04:00.0 reaches all of its memory, else no");
    rig_topology_free(t);
}

/* A client that may be a GPU is asked what one is asked only where it is one: what closes then
   leaves the answer open. Radeon entries hold 44 bits of an address; NVIDIA's space is another. */
static void what_only_a_gpu_is_asked_stays_open_of_what_may_be_one(void **state)
{
    (void)state;
    static const struct {
        const char *client, *target;
        uint64_t at;
        enum rig_gate_token gate;
    } rows[] = {
        {"1002:744c", "1002:744c", 1ull << 44, RIG_GATE_BAR_ABOVE_MASK},
        {"1002:744c", "10de:20b5", 1ull << 40, RIG_GATE_OTHER_SPACE},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "00:01.0 rp 01-04\n01:00.0 up 02-04\n02:00.0 down 03-03\n02:01.0 down 04-04\n"
                 "03:00.0 ep id=%s gpu=64/64 iommu=none\n04:00.0 ep id=%s gpu=64/64 iommu=none\n",
                 rows[i].client, rows[i].target);
        struct rig_topology *t = build_machine(text, "Intel:6");
        struct rig_function *to = at(t, "04:00.0");
        to->bar[to->memory_bar].bus = fact_known(rows[i].at);
        assert_int_equal(ask(t, "03:00.0", "04:00.0")->answer, RIG_ANSWER_NO);
        assert_int_equal(last.gate, rows[i].gate);
        /* Neither its class nor its memory is shown. */
        at(t, "03:00.0")->class_code = at(t, "03:00.0")->gpu_memory = fact_unknown(NULL);
        finish(t);
        assert_true(at(t, "03:00.0")->gpu_unknown);
        assert_int_equal(ask(t, "03:00.0", "04:00.0")->answer, RIG_ANSWER_UNKNOWN);
        assert_int_equal(last.gate, rows[i].gate);
        assert_string_equal(last.possibilities, "yes if 0000:03:00.0 is no GPU, else no");
        expect_missing("gpu 0000:03:00.0", "--gpu 0000:03:00.0");
        assert_int_equal(ask(t, "04:00.0", "03:00.0")->answer, RIG_ANSWER_UNKNOWN);
        rig_topology_free(t);
    }
}

/* An address on either side of the host bridge is one. */
static void a_bar_has_an_address_where_either_is_shown(void **state)
{
    (void)state;
    static const struct {
        struct rig_fact bus, cpu;
        enum rig_answer open;
        const char *why;
    } rows[] = {
        {{.value = 0x5000000000, .know = RIG_FACT_KNOWN},
         {.know = RIG_FACT_UNKNOWN},
         RIG_ANSWER_YES,
         "BAR 0 is at 0x5000000000"},
        {{.know = RIG_FACT_UNKNOWN},
         {.value = 0x6000000000, .know = RIG_FACT_KNOWN},
         RIG_ANSWER_YES,
         "BAR 0 is at 0x6000000000"},
        {{.know = RIG_FACT_ABSENT},
         {.know = RIG_FACT_UNKNOWN},
         RIG_ANSWER_NO,
         "BAR 0 has no address"},
        {{.know = RIG_FACT_UNKNOWN},
         {.know = RIG_FACT_ABSENT},
         RIG_ANSWER_NO,
         "BAR 0 has no address"},
        {{.know = RIG_FACT_UNKNOWN},
         {.know = RIG_FACT_UNKNOWN},
         RIG_ANSWER_UNKNOWN,
         "BAR 0 is at an address not known"},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        struct rig_topology *t = client();
        at(t, "04:00.0")->bar[0].bus = rows[i].bus;
        at(t, "04:00.0")->bar[0].cpu = rows[i].cpu;
        assert_int_equal(ask(t, "03:00.0", "04:00.0")->answer, rows[i].open);
        expect_gate(RIG_GATE_BAR_UNASSIGNED, rows[i].open, rows[i].why);
        rig_topology_free(t);
    }
}

/* Bit 1 of the command register (PCI 3.0, 6.2.2). */
static void memory_decode_that_is_off_is_told(void **state)
{
    (void)state;
    struct rig_topology *t = client();
    struct rig_function *f = at(t, "04:00.0");
    f->command = fact_known(0x404);
    f->command_mask = 0xffff;
    assert_int_equal(ask(t, "03:00.0", "04:00.0")->answer, RIG_ANSWER_YES);
    expect_gate(RIG_GATE_BAR_UNASSIGNED, RIG_ANSWER_YES, "; memory decode is off now");
    /* It is on; the source shows bus mastering alone. */
    static const uint16_t shown[][2] = {{0x406, 0xffff}, {0x404, 0x0004}};
    for (size_t k = 0; k < RIG_ARRAY_LENGTH(shown); k++) {
        f->command = fact_known(shown[k][0]);
        f->command_mask = shown[k][1];
        ask(t, "03:00.0", "04:00.0");
        for (int i = 0; i < last.gate_count; i++)
            assert_null(strstr(last.gates[i].why, "decode"));
    }
    rig_topology_free(t);
}

/* ---- the IOMMU */

static void a_group_is_named_with_its_type_unless_an_assumption_says_otherwise(void **state)
{
    (void)state;
    struct rig_topology *t = client();
    struct rig_function *f = at(t, "03:00.0");
    f->iommu_group = fact_known(17);
    f->iommu_type = topology_text(t, "identity");
    f->iommu = fact_known(RIG_IOMMU_IDENTITY);
    ask(t, "03:00.0", "04:00.0");
    expect_gate(RIG_GATE_IOMMU_TRANSLATES, RIG_ANSWER_YES,
                "gpu0 (0000:03:00.0) passes an identity mapping (group 17, identity); gpu1 "
                "(0000:04:00.0) is behind none");
    f->iommu = fact_known(RIG_IOMMU_TRANSLATE);
    ask(t, "03:00.0", "04:00.0");
    expect_gate(RIG_GATE_IOMMU_TRANSLATES, RIG_ANSWER_NO, "is translated (group 17); gpu1");
    f->iommu_type = topology_text(t, "DMA");
    ask(t, "03:00.0", "04:00.0");
    expect_gate(RIG_GATE_IOMMU_TRANSLATES, RIG_ANSWER_NO, "is translated (group 17, DMA); gpu1");
    f->iommu_type = topology_text(t, "unknown");
    f->iommu = fact_unknown(NULL);
    ask(t, "03:00.0", "04:00.0");
    expect_gate(RIG_GATE_IOMMU_TRANSLATES, RIG_ANSWER_UNKNOWN,
                "is behind one of unknown type (group 17, unknown)");
    expect_missing("iommu 0000:03:00.0", "not known; give it by --iommu 0000:03:00.0=");
    f->iommu = fact_known(RIG_IOMMU_NONE);
    ask(t, "03:00.0", "04:00.0");
    expect_gate(RIG_GATE_IOMMU_TRANSLATES, RIG_ANSWER_YES, "(0000:03:00.0) is behind none; gpu1");
    f->iommu_group = fact_unknown(NULL);
    f->iommu = fact_unknown("it is not shown");
    ask(t, "03:00.0", "04:00.0");
    expect_gate(RIG_GATE_IOMMU_TRANSLATES, RIG_ANSWER_UNKNOWN,
                "(0000:03:00.0) may be translated; gpu1");
    expect_missing("iommu 0000:03:00.0", "it is not shown; give it by");
    rig_topology_free(t);
}

/* ---- host bridges */

#define TWO_ROOTS(first)                                                                           \
    first "00:08.0 rp 01-01\n01:00.0 ep id=1002:744c gpu=16384/16384 iommu=none\n"                 \
          "80:00.0 rp 81-81 id=8086:2030\n81:00.0 ep id=1002:744c gpu=16384/16384 iommu=none\n"

static void a_host_bridge_is_named_with_what_the_list_says(void **state)
{
    (void)state;
    static const struct {
        const char *first;
        enum rig_gate_token gate;
        enum rig_answer open;
        const char *why;
    } rows[] = {
        {"00:00.0 host id=8086:2020\n", RIG_GATE_BRIDGE_LISTED, RIG_ANSWER_YES,
         "pci0000:00 by 0000:00:00.0 8086:2020 is listed"},
        {"00:00.0 host id=8086:4c43\n", RIG_GATE_BRIDGE_UNLISTED, RIG_ANSWER_NO,
         "pci0000:00 by 0000:00:00.0 8086:4c43 is not on Linux's list"},
        {"00:00.0 host id=8086:3c00\n", RIG_GATE_BRIDGE_SAME_ONLY, RIG_ANSWER_NO,
         "8086:3c00 is listed for functions under one host bridge"},
        {"00:05.0 rciep id=8086:2034\n", RIG_GATE_NO_REPRESENTATIVE, RIG_ANSWER_NO,
         "pci0000:00 has no function that Linux's list could name"},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        char text[512];
        snprintf(text, sizeof text, TWO_ROOTS("%s"), rows[i].first);
        struct rig_topology *t = build_machine(text, "Intel:6");
        assert_int_equal(ask(t, "81:00.0", "01:00.0")->answer, rows[i].open);
        expect_gate(rows[i].gate, rows[i].open, rows[i].why);
        rig_topology_free(t);
    }
}

static void a_host_bridge_that_is_not_known_says_why(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(TWO_ROOTS("00:05.1 rp 10-10\n"), "Intel:6");
    t->whole = false;
    finish(t);
    assert_int_equal(ask(t, "81:00.0", "01:00.0")->answer, RIG_ANSWER_UNKNOWN);
    expect_gate(RIG_GATE_BRIDGE_LISTED, RIG_ANSWER_UNKNOWN,
                "pci0000:00 may lack its first function in the source");
    expect_missing("host bridge", "may lack the first function of the root bus of 0000:00:08.0");
    assert_string_equal(last.possibilities, "yes if Linux lists the host bridges, else no");
    at(t, "80:00.0")->vendor = at(t, "80:00.0")->device = fact_unknown(NULL);
    ask(t, "81:00.0", "01:00.0");
    expect_missing("ids 0000:80:00.0", "ids or port type are not known");
    ask(t, "01:00.0", "81:00.0");
    rig_topology_free(t);
    /* What is above one of them is not in the source at all. */
    t = build_machine("00:00.0 host id=8086:2020\n00:01.0 rp 01-01\n"
                      "01:00.0 ep id=1002:744c gpu=16384/16384 iommu=none\n"
                      "05:00.0 ep id=1002:744c gpu=16384/16384 iommu=none\n",
                      "Intel:6");
    assert_int_equal(ask(t, "05:00.0", "01:00.0")->answer, RIG_ANSWER_UNKNOWN);
    assert_int_equal(last.path, RIG_PATH_UNKNOWN);
    expect_gate(RIG_GATE_BRIDGE_LISTED, RIG_ANSWER_YES, "is listed");
    expect_missing("host bridge", "what is above 0000:05:00.0 is not in the source");
    ask(t, "01:00.0", "05:00.0");
    expect_gate(RIG_GATE_BRIDGE_LISTED, RIG_ANSWER_UNKNOWN,
                "a host bridge that the source does not show");
    rig_topology_free(t);
    t = build_machine("00:01.0 rp 01-08 acs=none\n05:00.0 ep acs=0004\n07:00.0 ep\n", "AMD:25");
    assert_int_equal(ask(t, "05:00.0", "07:00.0")->answer, RIG_ANSWER_YES);
    assert_int_equal(last.p2pdma.possible, RIG_THRU_HOST_BRIDGE);
    rig_topology_free(t);
}

/* ---- the path's name and its links */

static void set_numa(struct rig_topology *t, struct rig_fact a, struct rig_fact b)
{
    at(t, "00:08.0")->numa_node = at(t, "01:00.0")->numa_node = a;
    at(t, "80:00.0")->numa_node = at(t, "81:00.0")->numa_node = b;
    finish(t);
    ask(t, "01:00.0", "81:00.0");
}

/* A machine without NUMA shows -1 for every node: one node. */
static void two_host_bridges_are_of_one_node_where_both_have_none(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(TWO_ROOTS(""), "AMD:25");
    set_numa(t, fact_absent(), fact_absent());
    assert_int_equal(last.path, RIG_PATH_NODE);
    set_numa(t, fact_known(0), fact_known(1));
    assert_int_equal(last.path, RIG_PATH_SYS);
    set_numa(t, fact_known(0), fact_absent());
    assert_int_equal(last.path, RIG_PATH_UNKNOWN);
    set_numa(t, fact_absent(), fact_known(0));
    assert_int_equal(last.path, RIG_PATH_UNKNOWN);
    expect_missing("numa-node", "does not show");
    set_numa(t, fact_unknown(NULL), fact_known(0));
    assert_int_equal(last.path, RIG_PATH_UNKNOWN);
    set_numa(t, fact_known(0), fact_unknown(NULL));
    assert_int_equal(last.path, RIG_PATH_UNKNOWN);
    rig_topology_free(t);
}

/* A bridge is one switch on the way, be it to PCI Express or from it; of a switch's two ports one
   counts. */
static void bridges_of_every_kind_count_as_switches(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine("00:1e.0 pcibr 01-03\n01:00.0 up 02-03\n01:01.0 pci\n"
                                           "02:00.0 ep\n02:00.1 ep\n",
                                           "AMD:25");
    at(t, "01:00.0")->pcie_type = fact_known(RIG_PCI_TO_PCIE_BRIDGE);
    assert_int_equal(ask(t, "02:00.0", "02:00.1")->path, RIG_PATH_PIX);
    assert_int_equal(ask(t, "02:00.0", "01:01.0")->path, RIG_PATH_PXB);
    rig_topology_free(t);
    /* Types that were not read follow from the place: port, upstream, downstream, and again. */
    t = build_machine("00:01.0 rp 01-08 type=unknown\n01:00.0 up 02-08 type=unknown\n"
                      "02:00.0 down 03-05 type=unknown\n02:01.0 down 06-06 type=unknown\n"
                      "02:02.0 down 07-07 type=unknown\n03:00.0 up 04-05 type=unknown\n"
                      "04:00.0 down 05-05 type=unknown\n05:00.0 ep\n06:00.0 ep\n07:00.0 ep\n",
                      "AMD:25");
    assert_int_equal(ask(t, "06:00.0", "07:00.0")->path, RIG_PATH_PIX);
    assert_int_equal(ask(t, "05:00.0", "06:00.0")->path, RIG_PATH_PXB);
    rig_topology_free(t);
}

/* Behind a bridge to conventional PCI there are no links; the bridge's own is the way's last. */
static void the_slowest_link_may_be_a_bridges(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine("00:01.0 rp 01-02\n01:00.0 p2pci 02-02\n02:00.0 pci\n"
                                           "00:02.0 rp 03-03\n03:00.0 ep\n",
                                           "AMD:25");
    at(t, "01:00.0")->link_speed = fact_known(25);
    at(t, "01:00.0")->link_width = fact_known(1);
    at(t, "03:00.0")->link_speed = fact_known(80);
    at(t, "03:00.0")->link_width = fact_known(4);
    assert_int_equal(ask(t, "03:00.0", "02:00.0")->slowest, function_at(t, "01:00.0"));
    assert_int_equal(last.slowest_speed.value, 25);
    assert_int_equal(ask(t, "02:00.0", "03:00.0")->slowest, function_at(t, "01:00.0"));
    rig_topology_free(t);
}

static void a_link_that_is_not_known_leaves_the_slowest_open(void **state)
{
    (void)state;
    struct rig_topology *t = client();
    struct rig_function *a = at(t, "03:00.0"), *b = at(t, "04:00.0");
    a->link_speed = b->link_speed = fact_known(160);
    a->link_width = fact_known(16);
    ask(t, "03:00.0", "04:00.0");
    assert_int_equal(last.slowest, -1);
    assert_int_equal(last.slowest_speed.know, RIG_FACT_UNKNOWN);
    b->link_width = fact_known(4);
    b->pcie_type = fact_known(RIG_PCIE_LEGACY_ENDPOINT);
    assert_int_equal(ask(t, "03:00.0", "04:00.0")->slowest, function_at(t, "04:00.0"));
    assert_int_equal(last.slowest_width.value, 4);
    b->link_speed = fact_unknown(NULL);
    assert_int_equal(ask(t, "03:00.0", "04:00.0")->slowest, -1);
    rig_topology_free(t);
}

/* ---- assumed and missing facts */

static void a_cpu_assumed_in_part_is_named_in_part(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(CLIENT("000c", "0000"), NULL);
    t->machine.cpu_vendor = (struct rig_text){
        .value = "AuthenticAMD", .know = RIG_FACT_ASSUMED, .from = "a bridge's name"};
    ask(t, "03:00.0", "04:00.0");
    expect_assumed("cpu", "AuthenticAMD", "a bridge's name");
    expect_gate(RIG_GATE_CPU_AMD_ZEN, RIG_ANSWER_UNKNOWN, "AuthenticAMD, its family not known");
    t->machine.cpu_vendor.know = RIG_FACT_KNOWN;
    t->machine.cpu_family = fact_assumed(25, "a root complex");
    assert_int_equal(ask(t, "03:00.0", "04:00.0")->answer, RIG_ANSWER_YES);
    expect_assumed("cpu", "AuthenticAMD:25", "a root complex");
    t->machine.cpu_vendor = (struct rig_text){.know = RIG_FACT_UNKNOWN};
    assert_int_equal(ask(t, "03:00.0", "04:00.0")->answer, RIG_ANSWER_UNKNOWN);
    expect_assumed("cpu", "?:25", "a root complex");
    rig_topology_free(t);
}

static void ids_assumed_of_a_host_bridge_are_named_whichever_half_it_is(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(CLIENT("000c", "0000"), "Intel:6");
    at(t, "00:00.0")->device = fact_assumed(0x4c43, "its name");
    ask(t, "03:00.0", "04:00.0");
    expect_assumed("ids 0000:00:00.0", "8086:4c43", "its name");
    at(t, "00:00.0")->vendor = fact_assumed(0x8086, "its vendor's name");
    at(t, "00:00.0")->device = fact_unknown(NULL);
    ask(t, "03:00.0", "04:00.0");
    expect_assumed("ids 0000:00:00.0", "8086:", "its vendor's name");
    rig_topology_free(t);
}

static void memory_and_bar_are_named_where_assumed(void **state)
{
    (void)state;
    struct rig_topology *t = client();
    struct rig_function *f = at(t, "04:00.0");
    f->gpu_memory = fact_assumed(16ull << 30, "its id");
    f->bar[0].size = fact_assumed(16ull << 30, "its table");
    assert_int_equal(ask(t, "03:00.0", "04:00.0")->answer, RIG_ANSWER_YES);
    expect_assumed("gpu-memory 0000:04:00.0", "16 GiB", "its id");
    expect_assumed("bar 0000:04:00.0", "16 GiB", "its table");
    f->bar[0].size = fact_unknown(NULL);
    assert_int_equal(ask(t, "03:00.0", "04:00.0")->answer, RIG_ANSWER_UNKNOWN);
    assert_null(note(last.assumed, last.assumed_count, "bar 0000:04:00.0"));
    f->gpu_memory = fact_unknown(NULL);
    ask(t, "03:00.0", "04:00.0");
    expect_missing("gpu-memory 0000:04:00.0", "not known; give it by --gpu-memory");
    f->gpu_memory = fact_unknown("no table holds its id");
    ask(t, "03:00.0", "04:00.0");
    expect_missing("gpu-memory 0000:04:00.0", "no table holds its id; give it by");
    f->memory_bar = -1;
    f->gpu_memory = fact_assumed(16ull << 30, "its id");
    ask(t, "03:00.0", "04:00.0");
    expect_assumed("gpu-memory 0000:04:00.0", "16 GiB", "its id");
    rig_topology_free(t);
}

static void an_unread_port_is_missing_with_its_reason(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(CLIENT("unknown", "unknown"), "Intel:6");
    at(t, "02:01.0")->acs_control = fact_unknown(NULL);
    assert_int_equal(ask(t, "03:00.0", "04:00.0")->answer, RIG_ANSWER_UNKNOWN);
    expect_missing("acs 0000:02:00.0", "not read; read it as root");
    expect_missing("acs 0000:02:01.0", "the source does not show it; read it as root");
    assert_string_equal(last.possibilities,
                        "yes if no function on the path redirects by ACS, else no");
    rig_topology_free(t);
}

/* A root bus that is one by assumption alone, and a card that was moved to try it. */
static void an_assumed_place_is_named_with_what_is_above(void **state)
{
    (void)state;
    struct rig_topology *t =
        build_machine("17:00.0 rp 18-18 id=8086:1234 type=unknown\n18:00.0 ep type=unknown\n"
                      "3a:00.0 rp 3b-3b id=8086:1234 type=unknown\n3b:00.0 ep type=unknown\n",
                      "AMD:25");
    ask(t, "18:00.0", "3b:00.0");
    expect_assumed("parent 0000:17:00.0", "a root bus", "no bridge in the source leads to its bus");
    /* Without a bridge above both, ACS is not asked. */
    at(t, "17:00.0")->acs_control = fact_assumed(0x1d, "a try");
    ask(t, "18:00.0", "3b:00.0");
    assert_null(note(last.assumed, last.assumed_count, "acs 0000:17:00.0"));
    assert_int_equal(rig_topology_set_parent(t, "18:00.0", "3a:00.0", "a try", NULL), RIG_OK);
    ask(t, "18:00.0", "3b:00.0");
    expect_assumed("parent 0000:18:00.0", "0000:3a:00.0", "a try");
    rig_topology_free(t);
}

/* A path of more ports than there is room for notes: the first are named. */
static void as_many_assumptions_are_named_as_there_is_room_for(void **state)
{
    (void)state;
    char text[2000] = "00:01.0 rp 01-28\n";
    for (unsigned bus = 1; bus < 17; bus++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%02x:00.0 %s %02x-28\n", bus,
                 bus % 2 ? "up" : "down", bus + 1);
    }
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used,
             "11:00.0 ep\n11:00.1 ep\n02:01.0 down 27-27\n27:00.0 ep\n");
    struct rig_topology *t = build_machine(text, "AMD:25");
    for (int i = 0; i < rig_topology_count(t); i++)
        t->node[i].f.acs_control = fact_assumed(0x0c, "a try");
    assert_int_equal(ask(t, "11:00.0", "27:00.0")->answer, RIG_ANSWER_YES);
    assert_int_equal(last.assumed_count, RIG_NOTES_MAX);
    assert_string_equal(last.assumed[0].field, "acs 0000:11:00.0");
    /* 17 functions up to 01:00.0 on one side, 2 below it on the other. */
    assert_int_equal(last.p2pdma.redirecting_count, 19);
    expect_gate(RIG_GATE_ACS_REDIRECT, RIG_ANSWER_NO, "0000:27:00.0 (0x000c)");
    expect_gate(RIG_GATE_ACS_REDIRECT, RIG_ANSWER_NO, "and 13 more");
    struct rig_remedy steps[RIG_REMEDY_STEPS];
    int count = -1; /* no list of so many ports is advised */
    assert_int_equal(
        rig_reach_remedy(t, rig_rules_for("6.1"), last.from, last.to, steps, &count, NULL), RIG_OK);
    assert_int_equal(count, 0);
    rig_topology_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_gate_and_path_has_its_name),
        cmocka_unit_test(a_gpu_without_a_memory_bar_is_not_reached),
        cmocka_unit_test(what_only_a_gpu_is_asked_stays_open_of_what_may_be_one),
        cmocka_unit_test(a_bar_has_an_address_where_either_is_shown),
        cmocka_unit_test(memory_decode_that_is_off_is_told),
        cmocka_unit_test(a_group_is_named_with_its_type_unless_an_assumption_says_otherwise),
        cmocka_unit_test(a_host_bridge_is_named_with_what_the_list_says),
        cmocka_unit_test(a_host_bridge_that_is_not_known_says_why),
        cmocka_unit_test(two_host_bridges_are_of_one_node_where_both_have_none),
        cmocka_unit_test(bridges_of_every_kind_count_as_switches),
        cmocka_unit_test(the_slowest_link_may_be_a_bridges),
        cmocka_unit_test(a_link_that_is_not_known_leaves_the_slowest_open),
        cmocka_unit_test(a_cpu_assumed_in_part_is_named_in_part),
        cmocka_unit_test(ids_assumed_of_a_host_bridge_are_named_whichever_half_it_is),
        cmocka_unit_test(memory_and_bar_are_named_where_assumed),
        cmocka_unit_test(an_unread_port_is_missing_with_its_reason),
        cmocka_unit_test(an_assumed_place_is_named_with_what_is_above),
        cmocka_unit_test(as_many_assumptions_are_named_as_there_is_room_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
