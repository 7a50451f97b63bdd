/* What reach says of a pair beyond the kernel's decision: every gate apart, first closed gate,
   assumptions, missing facts, remedies. Expected values follow from the conditions of `reaches` in
   the specification and from P2P rules of Linux, by hand. */
#include "builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Two GPUs of 16 GiB under one switch of an Intel client, whose host bridge no list holds. */
#define CLIENT(p, c, gpu_a, gpu_b)                                                                 \
    "00:00.0 host id=8086:4c43 iommu=none\n00:01.0 rp 01-04 id=8086:4c01\n"                        \
    "01:00.0 up 02-04\n02:00.0 down 03-03 acs=" p "\n02:01.0 down 04-04 acs=" c                    \
    "\n03:00.0 ep id=1002:744c gpu=16384/16384 iommu=none " gpu_a                                  \
    "\n04:00.0 ep id=1002:744c gpu=16384/16384 iommu=none " gpu_b "\n"

static struct rig_reach answer(const struct rig_topology *t, const char *from, const char *to)
{
    struct rig_reach r;
    assert_int_equal(
        rig_reach_pair(t, rig_rules_for("6.1"), function_at(t, from), function_at(t, to), &r, NULL),
        RIG_OK);
    return r;
}

static const struct rig_gate *gate(const struct rig_reach *r, enum rig_gate_token token)
{
    for (int i = 0; i < r->gate_count; i++)
        if (r->gates[i].gate == token)
            return &r->gates[i];
    fail_msg("no gate %s", rig_gate_name(token));
    return NULL;
}

static void check(const char *machine, const char *cpu, enum rig_answer expected, int first_gate)
{
    struct rig_topology *t = build_machine(machine, cpu);
    struct rig_reach r = answer(t, "03:00.0", "04:00.0");
    if (r.answer != expected || r.gate != first_gate)
        fail_msg("answer %d by %s, not %d by %s\n%s", r.answer,
                 r.gate < 0 ? "none" : rig_gate_name((enum rig_gate_token)r.gate), expected,
                 first_gate < 0 ? "none" : rig_gate_name((enum rig_gate_token)first_gate), machine);
    rig_reach_free(&r);
    rig_topology_free(t);
}

static void two_gpus_reach_iff_every_gate_is_open(void **state)
{
    (void)state;
    check(CLIENT("0000", "0000", "", ""), "Intel:6", RIG_ANSWER_YES, -1);
    check(CLIENT("0000", "0000", "iommu=identity", ""), "Intel:6", RIG_ANSWER_YES, -1);
    check(CLIENT("0000", "0000", "iommu=translate", ""), "Intel:6", RIG_ANSWER_NO,
          RIG_GATE_IOMMU_TRANSLATES);
    check(CLIENT("0000", "0000", "", "iommu=translate"), "Intel:6", RIG_ANSWER_NO,
          RIG_GATE_IOMMU_TRANSLATES);
    check(CLIENT("0000", "0000", "", "gpu=16384/256"), "Intel:6", RIG_ANSWER_NO,
          RIG_GATE_BAR_SMALL);
    /* Only the target's BAR is asked. */
    check(CLIENT("0000", "0000", "gpu=16384/256", ""), "Intel:6", RIG_ANSWER_YES, -1);
    check(CLIENT("0000", "0000", "", "id=10de:2684"), "Intel:6", RIG_ANSWER_NO,
          RIG_GATE_OTHER_SPACE);
    check(CLIENT("0000", "000c", "", ""), "Intel:6", RIG_ANSWER_NO, RIG_GATE_ACS_REDIRECT);
    check(CLIENT("0000", "000c", "", ""), "AMD:25", RIG_ANSWER_YES, -1);
    check(CLIENT("0000", "unknown", "", ""), "AMD:25", RIG_ANSWER_YES, -1);
    check(CLIENT("0000", "unknown", "", ""), "Intel:6", RIG_ANSWER_UNKNOWN,
          RIG_GATE_ACS_UNREADABLE);
    /* The IOMMU is asked before the path. */
    check(CLIENT("0000", "000c", "iommu=translate", "gpu=16384/256"), "Intel:6", RIG_ANSWER_NO,
          RIG_GATE_IOMMU_TRANSLATES);
}

/* The sentence about the IOMMU is of what decides: a type that was given replaces the group's. */
static void the_iommu_s_gate_tells_the_type_that_was_given(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(CLIENT("0000", "0000", "", ""), "Intel:6");
    struct node *n = &t->node[function_at(t, "03:00.0")];
    n->f.iommu_group = fact_known(17);
    n->f.iommu_type = topology_text(t, "DMA-FQ");
    n->f.iommu = fact_known(RIG_IOMMU_TRANSLATE);
    struct rig_reach r = answer(t, "03:00.0", "04:00.0");
    const char *why = gate(&r, RIG_GATE_IOMMU_TRANSLATES)->why;
    assert_non_null(strstr(why, "0000:03:00.0) is translated (group 17, DMA-FQ)"));
    rig_reach_free(&r);
    static const struct {
        enum rig_iommu given;
        const char *why;
    } given[] = {
        {RIG_IOMMU_IDENTITY, "0000:03:00.0) passes an identity mapping (group 17);"},
        {RIG_IOMMU_NONE, "0000:03:00.0) is behind none;"},
        {RIG_IOMMU_TRANSLATE, "0000:03:00.0) is translated (group 17, DMA-FQ);"},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(given); i++) {
        assert_int_equal(rig_topology_set_iommu(t, "03:00.0", given[i].given, NULL, NULL), RIG_OK);
        r = answer(t, "03:00.0", "04:00.0");
        why = gate(&r, RIG_GATE_IOMMU_TRANSLATES)->why;
        if (!strstr(why, given[i].why))
            fail_msg("%s", why);
        rig_reach_free(&r);
    }
    rig_topology_free(t);
}

static void a_bar_without_an_address_is_not_reached(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(CLIENT("0000", "0000", "", ""), "Intel:6");
    struct node *n = &t->node[function_at(t, "04:00.0")];
    n->f.bar[0].bus = n->f.bar[0].cpu = fact_absent();
    struct rig_reach r = answer(t, "03:00.0", "04:00.0");
    assert_int_equal(r.answer, RIG_ANSWER_NO);
    assert_int_equal(r.gate, RIG_GATE_BAR_UNASSIGNED);
    assert_int_equal(r.kernel, RIG_ANSWER_YES); /* the kernel's decision does not ask */
    rig_reach_free(&r);
    rig_topology_free(t);
}

/* Without its size a BAR is known to lie at a multiple of it, and in a window of the bridge above.
 */
static void a_bar_of_unknown_size_is_bounded(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(CLIENT("0000", "0000", "", ""), "Intel:6");
    struct node *n = &t->node[function_at(t, "04:00.0")];
    n->f.bar[0].size = fact_unknown(NULL);
    struct rig_reach r = answer(t, "03:00.0", "04:00.0");
    assert_int_equal(r.answer, RIG_ANSWER_UNKNOWN);
    assert_int_equal(r.gate, RIG_GATE_BAR_SMALL);
    rig_reach_free(&r);
    struct rig_function *port = &t->node[function_at(t, "02:01.0")].f;
    port->prefetchable.base = fact_known(n->f.bar[0].bus.value);
    port->prefetchable.limit = fact_known(n->f.bar[0].bus.value + (512u << 20) - 1);
    r = answer(t, "03:00.0", "04:00.0");
    assert_int_equal(r.answer, RIG_ANSWER_NO);
    assert_int_equal(r.gate, RIG_GATE_BAR_SMALL);
    assert_non_null(strstr(gate(&r, RIG_GATE_BAR_SMALL)->why, "at most 512 MiB of 16 GiB"));
    rig_reach_free(&r);
    n->f.bar[0].bus = fact_known(0xd0000000); /* a multiple of 256 MiB and no more */
    r = answer(t, "03:00.0", "04:00.0");
    assert_non_null(strstr(gate(&r, RIG_GATE_BAR_SMALL)->why, "at most 256 MiB of 16 GiB"));
    rig_reach_free(&r);
    rig_topology_free(t);
}

/* Radeon entries hold 44 bits of a peer's address (amdgpu's DMA mask). */
static void a_bar_above_what_entries_hold_is_not_reached(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(CLIENT("0000", "0000", "", ""), "Intel:6");
    struct node *n = &t->node[function_at(t, "04:00.0")];
    n->f.bar[0].bus = fact_known((1ull << 44) - (16ull << 30));
    struct rig_reach r = answer(t, "03:00.0", "04:00.0");
    assert_int_equal(r.answer, RIG_ANSWER_YES);
    rig_reach_free(&r);
    n->f.bar[0].bus = fact_known(1ull << 44);
    r = answer(t, "03:00.0", "04:00.0");
    assert_int_equal(r.answer, RIG_ANSWER_NO);
    assert_int_equal(r.gate, RIG_GATE_BAR_ABOVE_MASK);
    rig_reach_free(&r);
    rig_topology_free(t);
}

static void a_gpu_does_not_reach_itself(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(CLIENT("0000", "0000", "", ""), "AMD:25");
    struct rig_reach r = answer(t, "03:00.0", "03:00.0");
    assert_int_equal(r.answer, RIG_ANSWER_NO);
    assert_int_equal(r.gate, RIG_GATE_SELF);
    assert_int_equal(r.path, RIG_PATH_SELF);
    rig_reach_free(&r);
    rig_topology_free(t);
}

static void a_machine_behind_a_transport_carries_none(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(CLIENT("0000", "0000", "", ""), "AMD:25");
    t->machine.remote = fact_known(1);
    struct rig_reach r = answer(t, "03:00.0", "04:00.0");
    assert_int_equal(r.answer, RIG_ANSWER_NO);
    assert_int_equal(r.gate, RIG_GATE_REMOTE_MACHINE);
    rig_reach_free(&r);
    rig_topology_free(t);
}

static void the_kernel_without_p2pdma_refuses_and_the_answer_stays(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(CLIENT("0000", "0000", "", ""), "AMD:25");
    assert_int_equal(rig_topology_set_p2pdma(t, false, NULL, NULL), RIG_OK);
    struct rig_reach r = answer(t, "03:00.0", "04:00.0");
    assert_int_equal(r.answer, RIG_ANSWER_YES);
    assert_int_equal(r.kernel, RIG_ANSWER_NO);
    assert_int_equal(r.p2pdma.possible, RIG_BUS_ADDR);
    assert_int_equal(gate(&r, RIG_GATE_P2PDMA_OFF)->open, RIG_ANSWER_NO);
    rig_reach_free(&r);
    rig_topology_free(t);
}

/* For a client that is no GPU the answer is bus's; for a target that is no GPU it is p2pdma's
 * alone. */
static void clients_and_targets_that_are_no_gpus(void **state)
{
    (void)state;
    const char *machine =
        CLIENT("0000", "0000", "", "") "00:02.0 rp 05-05\n"
                                       "05:00.0 ep class=020000 iommu=translate\n";
    struct rig_topology *t = build_machine(machine, "AMD:25");
    struct rig_reach r = answer(t, "05:00.0", "03:00.0");
    assert_int_equal(r.answer, RIG_ANSWER_NO);
    assert_int_equal(r.gate, RIG_GATE_IOMMU_TRANSLATES);
    rig_reach_free(&r);
    r = answer(t, "03:00.0", "05:00.0");
    assert_int_equal(r.answer, RIG_ANSWER_YES);
    assert_int_equal(r.p2pdma.possible, RIG_THRU_HOST_BRIDGE);
    assert_int_equal(gate(&r, RIG_GATE_BAR_SMALL)->open, RIG_ANSWER_UNKNOWN);
    assert_false(gate(&r, RIG_GATE_BAR_SMALL)->decides);
    rig_reach_free(&r);
    rig_topology_free(t);
}

static void the_path_has_the_name_people_know(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(
        "00:00.0 host numa=0\n00:01.0 rp 01-06 numa=0\n01:00.0 up 02-06\n02:00.0 down 03-03\n"
        "02:01.0 down 04-06\n03:00.0 ep\n04:00.0 up 05-06\n05:00.0 down 06-06\n06:00.0 ep\n"
        "00:02.0 rp 07-07 numa=0\n07:00.0 ep\n07:00.1 ep\n"
        "40:00.0 rp 41-41 numa=0\n41:00.0 ep numa=0\n80:00.0 rp 81-81 numa=1\n81:00.0 ep numa=1\n",
        "AMD:25");
    static const struct {
        const char *a, *b;
        enum rig_path path;
    } expected[] = {
        {"07:00.0", "07:00.1", RIG_PATH_PIX}, {"03:00.0", "06:00.0", RIG_PATH_PXB},
        {"03:00.0", "07:00.0", RIG_PATH_PHB}, {"07:00.0", "41:00.0", RIG_PATH_NODE},
        {"41:00.0", "81:00.0", RIG_PATH_SYS}, {"03:00.0", "03:00.0", RIG_PATH_SELF},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(expected); i++) {
        struct rig_reach r = answer(t, expected[i].a, expected[i].b);
        assert_string_equal(rig_path_name(r.path), rig_path_name(expected[i].path));
        rig_reach_free(&r);
    }
    rig_topology_free(t);
}

static void set_link(struct rig_topology *t, const char *bdf, unsigned speed, unsigned width)
{
    struct node *n = &t->node[function_at(t, bdf)];
    n->f.link_speed = fact_known(speed);
    n->f.link_width = fact_known(width);
}

static void the_slowest_link_of_the_path_is_named(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(CLIENT("0000", "0000", "", ""), "Intel:6");
    set_link(t, "03:00.0", 160, 16);
    set_link(t, "04:00.0", 160, 8);
    set_link(t, "01:00.0", 80, 4);
    struct rig_reach r = answer(t, "03:00.0", "04:00.0");
    /* Turned around in the switch: its own upward link is not on the path. */
    assert_int_equal(r.slowest, function_at(t, "04:00.0"));
    assert_int_equal(r.slowest_speed.value, 160);
    assert_int_equal(r.slowest_width.value, 8);
    rig_reach_free(&r);
    rig_topology_set_acs(t, "02:00.0", 0, NULL, NULL);
    rig_topology_free(t);
    t = build_machine(CLIENT("000c", "000c", "", ""), "AMD:25");
    set_link(t, "03:00.0", 160, 16);
    set_link(t, "04:00.0", 160, 8);
    set_link(t, "01:00.0", 80, 4);
    r = answer(t, "03:00.0", "04:00.0");
    assert_int_equal(r.slowest, function_at(t, "01:00.0"));
    rig_reach_free(&r);
    rig_topology_free(t);
}

static void a_missing_cpu_is_said_per_possibility(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(CLIENT("000c", "0000", "", ""), NULL);
    struct rig_reach r = answer(t, "03:00.0", "04:00.0");
    assert_int_equal(r.answer, RIG_ANSWER_UNKNOWN);
    assert_string_equal(r.possibilities, "yes on AMD family 23 or later, else no");
    assert_int_equal(r.unknown_count, 1);
    assert_string_equal(r.unknown[0].field, "cpu");
    assert_non_null(strstr(r.unknown[0].why, "--cpu VENDOR:FAMILY"));
    rig_reach_free(&r);
    rig_topology_free(t);
}

static void an_assumed_fact_decides_and_is_named(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(CLIENT("000c", "0000", "", ""), NULL);
    rig_topology_set_cpu(t, "AMD", 25, "a device's name", NULL);
    struct rig_reach r = answer(t, "03:00.0", "04:00.0");
    assert_int_equal(r.answer, RIG_ANSWER_YES);
    assert_int_equal(r.assumed_count, 1);
    assert_string_equal(r.assumed[0].field, "cpu");
    assert_string_equal(r.assumed[0].value, "AuthenticAMD:25");
    assert_string_equal(r.assumed[0].why, "a device's name");
    rig_reach_free(&r);
    rig_topology_free(t);
}

/* ---- remedies */

static int remedy(const struct rig_topology *t, const char *from, const char *to,
                  struct rig_remedy steps[RIG_REMEDY_STEPS])
{
    int count = -1;
    assert_int_equal(rig_reach_remedy(t, rig_rules_for("6.1"), function_at(t, from),
                                      function_at(t, to), steps, &count, NULL),
                     RIG_OK);
    return count;
}

static void redirects_are_cleared_port_by_port(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(CLIENT("001d", "001d", "", ""), "Intel:6");
    struct rig_remedy s[RIG_REMEDY_STEPS];
    assert_int_equal(remedy(t, "04:00.0", "03:00.0", s), 1);
    assert_int_equal(s[0].kind, RIG_REMEDY_ACS);
    assert_int_equal(s[0].answer, RIG_ANSWER_YES);
    assert_int_equal(s[0].possible, RIG_BUS_ADDR);
    assert_string_equal(s[0].command, "setpci -s 0000:02:00.0 ECAP_ACS+6.w=0:2c\n"
                                      "setpci -s 0000:02:01.0 ECAP_ACS+6.w=0:2c");
    assert_string_equal(s[0].parameter, "pci=disable_acs_redir=0000:02:00.0;0000:02:01.0");
    assert_non_null(strstr(s[0].warning, "isolation"));
    rig_topology_free(t);
}

static void several_settings_make_one_remedy(void **state)
{
    (void)state;
    struct rig_topology *t =
        build_machine(CLIENT("001d", "0000", "iommu=translate", "gpu=16384/256"), "Intel:6");
    /* It can be 256 MiB, 512 MiB, ... 16 GiB, 32 GiB. */
    t->node[function_at(t, "04:00.0")].f.bar[0].resizable = fact_known(0xff00);
    struct rig_remedy s[RIG_REMEDY_STEPS];
    assert_int_equal(remedy(t, "03:00.0", "04:00.0", s), 3);
    assert_int_equal(s[0].kind, RIG_REMEDY_IOMMU);
    assert_string_equal(s[0].parameter, "iommu=pt");
    assert_int_equal(s[0].answer, RIG_ANSWER_NO);
    assert_int_equal(s[1].kind, RIG_REMEDY_BAR);
    /* 2^(20+14) bytes are 16 GiB. */
    assert_string_equal(s[1].command,
                        "echo 14 > /sys/bus/pci/devices/0000:04:00.0/resource0_resize");
    assert_int_equal(s[2].kind, RIG_REMEDY_ACS);
    assert_int_equal(s[2].answer, RIG_ANSWER_YES);
    /* iommu= is a parameter of x86 alone */
    t->machine.cpu_family = fact_absent();
    assert_int_equal(remedy(t, "03:00.0", "04:00.0", s), 3);
    assert_string_equal(s[0].parameter, "iommu.passthrough=1");
    rig_topology_free(t);
}

static void nothing_is_advised_where_nothing_helps(void **state)
{
    (void)state;
    struct rig_remedy s[RIG_REMEDY_STEPS];
    struct rig_topology *t = build_machine(CLIENT("0000", "0000", "", "gpu=16384/256"), "Intel:6");
    assert_int_equal(remedy(t, "03:00.0", "04:00.0", s), 0); /* the BAR cannot be resized */
    rig_topology_free(t);
    t = build_machine(CLIENT("0000", "0000", "", "id=10de:2684"), "Intel:6");
    assert_int_equal(remedy(t, "03:00.0", "04:00.0", s), 0);
    rig_topology_free(t);
}

static void a_card_is_moved_where_no_setting_helps(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(
        "00:00.0 host id=8086:4c43\n00:01.0 rp 01-04\n01:00.0 up 02-04\n02:00.0 down 03-03\n"
        "02:01.0 down 04-04\n03:00.0 ep id=1002:744c gpu=16384/16384 iommu=none\n"
        "00:02.0 rp 05-05\n05:00.0 ep id=1002:744c gpu=16384/16384 iommu=none\n",
        "Intel:6");
    struct rig_remedy s[RIG_REMEDY_STEPS];
    assert_int_equal(remedy(t, "03:00.0", "05:00.0", s), 1);
    assert_int_equal(s[0].kind, RIG_REMEDY_MOVE);
    assert_int_equal(s[0].answer, RIG_ANSWER_YES);
    /* The one free slot beside the other GPU is 02:01.0. */
    assert_non_null(strstr(s[0].text, "0000:02:01.0"));
    assert_non_null(strstr(s[0].text, "gpu1"));
    rig_topology_free(t);
}

static void a_newer_kernel_is_advised_only_where_its_list_helps(void **state)
{
    (void)state;
    struct rig_topology *t =
        build_machine("00:00.0 host id=1d17:1003\n00:01.0 rp 01-01\n00:02.0 rp 02-02\n"
                      "01:00.0 ep id=1002:744c gpu=16384/16384 iommu=none\n"
                      "02:00.0 ep id=1002:744c gpu=16384/16384 iommu=none\n",
                      "Zhaoxin:7");
    struct rig_remedy s[RIG_REMEDY_STEPS];
    assert_int_equal(remedy(t, "01:00.0", "02:00.0", s), 1);
    assert_int_equal(s[0].kind, RIG_REMEDY_KERNEL);
    assert_non_null(strstr(s[0].text, "7.2"));
    assert_int_equal(s[0].possible, RIG_THRU_HOST_BRIDGE);
    rig_topology_free(t);
}

static void a_yes_by_the_long_way_is_told_the_short_one(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(CLIENT("001d", "001d", "", ""), "AMD:25");
    struct rig_remedy s[RIG_REMEDY_STEPS];
    assert_int_equal(remedy(t, "03:00.0", "04:00.0", s), 1);
    assert_int_equal(s[0].kind, RIG_REMEDY_ACS);
    assert_int_equal(s[0].possible, RIG_BUS_ADDR);
    rig_topology_free(t);
    t = build_machine(CLIENT("0000", "0000", "", ""), "AMD:25");
    assert_int_equal(remedy(t, "03:00.0", "04:00.0", s), 0);
    rig_topology_free(t);
}

/* ---- links */

/* The table's cell of the pair, which answers as the pair does. */
static enum rig_answer cell_answer(const struct rig_topology *t, const char *from, const char *to)
{
    struct rig_reach_table *table;
    uint8_t cell;
    int target = function_at(t, to);
    assert_int_equal(rig_reach_table_make(t, rig_rules_for("6.1"), &table, NULL), RIG_OK);
    rig_reach_table_row(table, function_at(t, from), &target, 1, &cell, NULL);
    rig_reach_table_free(table);
    return RIG_CELL_ANSWER(cell);
}

/* Two GPUs of one vendor below a switch that redirects nothing; their BARs lie at 1 and 1.25 TiB.
 */
static void page_tables_that_are_given_decide_in_place_of_what_ids_tell(void **state)
{
    (void)state;
    struct rig_topology *t =
        build_machine("00:00.0 host\n00:01.0 rp 01-04\n01:00.0 up 02-04\n02:00.0 down 03-03\n"
                      "02:01.0 down 04-04\n03:00.0 ep id=1002:744c gpu=64/64 iommu=none\n"
                      "04:00.0 ep id=1002:744c gpu=64/64 iommu=none\n",
                      "Intel:6");
    assert_int_equal(cell_answer(t, "03:00.0", "04:00.0"), RIG_ANSWER_YES);
    static const char *const spaces[] = {"plain", "nvidia", "intel", "amd"};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(spaces); i++) {
        bool same = i == 3;
        assert_int_equal(rig_topology_set_tables(t, "gpu1", spaces[i], 58, NULL), RIG_OK);
        struct rig_reach r = answer(t, "03:00.0", "04:00.0");
        assert_int_equal(r.answer, same ? RIG_ANSWER_YES : RIG_ANSWER_NO);
        assert_int_equal(r.gate, same ? -1 : RIG_GATE_OTHER_SPACE);
        rig_reach_free(&r);
        assert_int_equal(cell_answer(t, "04:00.0", "03:00.0"), same ? 1 : 0);
    }
    /* entries that hold 40 bits name no address from 1 TiB on */
    assert_int_equal(rig_topology_set_tables(t, "gpu0", "amd", 40, NULL), RIG_OK);
    struct rig_reach r = answer(t, "03:00.0", "04:00.0");
    assert_int_equal(r.gate, RIG_GATE_BAR_ABOVE_MASK);
    rig_reach_free(&r);
    assert_int_equal(cell_answer(t, "04:00.0", "03:00.0"), RIG_ANSWER_YES);
    assert_int_equal(rig_topology_set_tables(t, "gpu0", "amd", 0, NULL), RIG_INVALID);
    assert_int_equal(rig_topology_set_tables(t, "gpu0", "amd", 65, NULL), RIG_INVALID);
    assert_int_equal(rig_topology_set_tables(t, "gpu0", "AMD", 44, NULL), RIG_INVALID);
    assert_int_equal(rig_topology_set_tables(t, "00:00.0", "amd", 44, NULL), RIG_INVALID);
    assert_int_equal(cell_answer(t, "03:00.0", "04:00.0"), RIG_ANSWER_NO);
    rig_topology_free(t);
}

/* Behind a translating IOMMU, with a BAR that is too small, under a port that redirects: the bus
   would carry nothing. */
static void links_of_one_fabric_join_two_gpus_whatever_the_bus_does(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"03:00.0", "04:00.0"}, {"04:00.0", "03:00.0"}};
    struct rig_topology *t =
        build_machine(CLIENT("001d", "001d", "iommu=translate", "gpu=16384/256"), "Intel:6");
    assert_int_equal(rig_topology_link(t, "gpu0", 3, NULL), RIG_OK);
    struct rig_reach r = answer(t, "03:00.0", "04:00.0");
    assert_int_equal(r.answer, RIG_ANSWER_NO);
    assert_int_equal(gate(&r, RIG_GATE_LINK)->open, RIG_ANSWER_NO);
    rig_reach_free(&r);
    assert_int_equal(rig_topology_link(t, "gpu1", 3, NULL), RIG_OK);
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(pairs); i++) {
        r = answer(t, pairs[i][0], pairs[i][1]);
        assert_int_equal(r.answer, RIG_ANSWER_YES);
        assert_int_equal(r.gate, -1);
        assert_int_equal(r.p2pdma.possible, RIG_NOT_SUPPORTED);
        assert_int_equal(gate(&r, RIG_GATE_LINK)->open, RIG_ANSWER_YES);
        assert_true(gate(&r, RIG_GATE_LINK)->decides);
        assert_string_equal(gate(&r, RIG_GATE_LINK)->why, "links of fabric 3 join them");
        assert_false(gate(&r, RIG_GATE_IOMMU_TRANSLATES)->decides);
        assert_int_equal(cell_answer(t, pairs[i][0], pairs[i][1]), RIG_ANSWER_YES);
        rig_reach_free(&r);
    }
    r = answer(t, "03:00.0", "03:00.0");
    assert_int_equal(r.answer, RIG_ANSWER_NO);
    assert_int_equal(gate(&r, RIG_GATE_LINK)->open, RIG_ANSWER_NO);
    rig_reach_free(&r);
    /* another fabric */
    assert_int_equal(rig_topology_link(t, "gpu1", 4, NULL), RIG_OK);
    assert_int_equal(cell_answer(t, "03:00.0", "04:00.0"), RIG_ANSWER_NO);
    rig_topology_free(t);
    /* GPUs of two vendors share no addresses, linked or not */
    t = build_machine(CLIENT("0000", "0000", "", "id=10de:2684"), "Intel:6");
    assert_int_equal(rig_topology_link(t, "gpu0", 0, NULL), RIG_OK);
    assert_int_equal(rig_topology_link(t, "gpu1", 0, NULL), RIG_OK);
    assert_int_equal(cell_answer(t, "03:00.0", "04:00.0"), RIG_ANSWER_NO);
    assert_int_equal(rig_topology_link(t, "00:00.0", 0, NULL), RIG_INVALID);
    rig_topology_free(t);
}

/* ---- facts from outside */

static void given_facts_that_break_a_rule_change_nothing(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(CLIENT("0000", "0000", "", ""), "Intel:6");
    struct rig_error err = {.status = RIG_OK};
    assert_int_equal(rig_topology_set_acs(t, "04:00.0", 0, NULL, &err), RIG_INVALID);
    assert_int_equal(rig_topology_set_acs(t, "09:00.0", 0, NULL, NULL), RIG_INVALID);
    assert_int_equal(rig_topology_set_bar(t, "gpu0", 3u << 20, NULL, NULL), RIG_INVALID);
    assert_int_equal(rig_topology_set_bar(t, "00:00.0", 1u << 20, NULL, NULL), RIG_INVALID);
    assert_int_equal(rig_topology_set_gpu_memory(t, "gpu0", 0, NULL), RIG_INVALID);
    assert_int_equal(rig_topology_set_gpu_memory(t, "00:00.0", 1, NULL), RIG_INVALID);
    assert_int_equal(rig_topology_set_gpu(t, "01:00.0", NULL), RIG_INVALID);
    assert_int_equal(rig_topology_set_kernel(t, "new", NULL), RIG_INVALID);
    assert_int_equal(rig_topology_set_parent(t, "gpu0", "04:00.0", NULL, NULL), RIG_INVALID);
    assert_int_equal(rig_topology_set_parent(t, "01:00.0", "02:00.0", NULL, NULL), RIG_INVALID);
    assert_int_equal(rig_topology_set_parent(t, "00:01.0", "02:00.0", NULL, NULL), RIG_INVALID);
    struct rig_reach r = answer(t, "03:00.0", "04:00.0");
    assert_int_equal(r.answer, RIG_ANSWER_YES);
    assert_int_equal(r.assumed_count, 0);
    rig_reach_free(&r);
    rig_topology_free(t);
}

static void a_copy_changes_alone(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(CLIENT("0000", "0000", "", ""), "Intel:6"), *copy;
    assert_int_equal(rig_topology_copy(t, &copy, NULL), RIG_OK);
    assert_int_equal(rig_topology_set_acs(copy, "02:00.0", 0x1d, "a try", NULL), RIG_OK);
    struct rig_reach r = answer(t, "03:00.0", "04:00.0");
    assert_int_equal(r.answer, RIG_ANSWER_YES);
    rig_reach_free(&r);
    rig_topology_free(t);
    r = answer(copy, "03:00.0", "04:00.0");
    assert_int_equal(r.answer, RIG_ANSWER_NO);
    assert_string_equal(r.assumed[0].field, "acs 0000:02:00.0");
    assert_string_equal(r.assumed[0].value, "0x001d");
    assert_string_equal(r.assumed[0].why, "a try");
    rig_reach_free(&r);
    rig_topology_free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_gpus_reach_iff_every_gate_is_open),
        cmocka_unit_test(the_iommu_s_gate_tells_the_type_that_was_given),
        cmocka_unit_test(a_bar_without_an_address_is_not_reached),
        cmocka_unit_test(a_bar_of_unknown_size_is_bounded),
        cmocka_unit_test(a_bar_above_what_entries_hold_is_not_reached),
        cmocka_unit_test(a_gpu_does_not_reach_itself),
        cmocka_unit_test(a_machine_behind_a_transport_carries_none),
        cmocka_unit_test(the_kernel_without_p2pdma_refuses_and_the_answer_stays),
        cmocka_unit_test(clients_and_targets_that_are_no_gpus),
        cmocka_unit_test(the_path_has_the_name_people_know),
        cmocka_unit_test(the_slowest_link_of_the_path_is_named),
        cmocka_unit_test(a_missing_cpu_is_said_per_possibility),
        cmocka_unit_test(an_assumed_fact_decides_and_is_named),
        cmocka_unit_test(redirects_are_cleared_port_by_port),
        cmocka_unit_test(several_settings_make_one_remedy),
        cmocka_unit_test(nothing_is_advised_where_nothing_helps),
        cmocka_unit_test(a_card_is_moved_where_no_setting_helps),
        cmocka_unit_test(a_newer_kernel_is_advised_only_where_its_list_helps),
        cmocka_unit_test(a_yes_by_the_long_way_is_told_the_short_one),
        cmocka_unit_test(page_tables_that_are_given_decide_in_place_of_what_ids_tell),
        cmocka_unit_test(links_of_one_fabric_join_two_gpus_whatever_the_bus_does),
        cmocka_unit_test(given_facts_that_break_a_rule_change_nothing),
        cmocka_unit_test(a_copy_changes_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
