/* lspci -t, -tv and -tvnn alone, and beside blocks of text. */
#include "reading.h"
#include "topology/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TREE                                                                                         \
    "-+-[0000:00]-+-00.0  Intel Corporation Device 2020\n"                                           \
    " |           +-01.0-[01-04]----00.0-[02-04]--+-00.0-[03]--+-00.0  Mellanox Technologies Thing"  \
    "\n"                                                                                             \
    " |           |                               |            \\-00.1  Mellanox Technologies Thing" \
    "\n"                                                                                             \
    " |           |                               \\-01.0-[04]--\n"                                  \
    " |           \\-1f.0  Intel Corporation Other [8086:a1c1]\n"                                    \
    " \\-[10000:e0]---01.0-[e2]----00.0  Sandisk Corp Drive\n"

static struct rig_topology *accept(const char *text)
{
    return reading_accepted("tree", text);
}

static void refuse(const char *text, const char *part)
{
    reading_refused("tree", text, part);
}

static void expect_above(const struct rig_topology *t, const char *name, const char *bridge)
{
    int i = rig_topology_find(t, name);
    if (i < 0)
        fail_msg("%s is not there", name);
    const struct rig_function *f = rig_topology_function(t, i);
    char text[RIG_BDF_MAX] = "-";
    if (f->parent >= 0)
        rig_bdf_format(rig_topology_function(t, f->parent)->bdf, text);
    assert_string_equal(text, bridge);
    assert_int_equal(f->parent_known.know, RIG_FACT_KNOWN);
}

static void expect_tree(const struct rig_topology *t)
{
    expect_above(t, "00:00.0", "-");
    expect_above(t, "00:1f.0", "-");
    expect_above(t, "01:00.0", "0000:00:01.0");
    expect_above(t, "02:01.0", "0000:01:00.0");
    expect_above(t, "03:00.1", "0000:02:00.0");
    expect_above(t, "10000:e2:00.0", "10000:e0:01.0");
    assert_int_equal(rig_topology_host_bridges(t), 2);
    const struct rig_function *f = rig_topology_function(t, rig_topology_find(t, "00:01.0"));
    assert_int_equal(f->secondary.value, 1);
    assert_int_equal(f->subordinate.value, 4);
}

static void a_tree_gives_places_and_leaves_the_rest_unknown(void **state)
{
    (void)state;
    struct rig_topology *t = accept("# lspci -tv\n" TREE);
    assert_int_equal(rig_topology_count(t), 10);
    expect_tree(t);
    assert_int_equal(rig_topology_machine(t)->source, RIG_SOURCE_LSPCI_TREE);
    const struct rig_function *f = rig_topology_function(t, rig_topology_find(t, "03:00.0"));
    assert_string_equal(f->name, "Mellanox Technologies Thing");
    assert_int_equal(f->acs_control.know, RIG_FACT_UNKNOWN);
    assert_non_null(f->acs_control.from);
    f = rig_topology_function(t, rig_topology_find(t, "00:1f.0"));
    assert_int_equal(f->device.value, 0xa1c1);
    assert_int_equal(f->vendor.know, RIG_FACT_KNOWN);
    rig_topology_free(t);
}

/* A tree shows no classes: what its ids do not tell may be a GPU, and is asked what one is asked.
   Nothing is open where what is known answers either way. */
static void what_may_be_a_gpu_reaches_for_certain_only_what_it_reaches_either_way(void **state)
{
    (void)state;
    struct rig_topology *t = accept("-[0000:00]-+-00.0\n"
                                    "           +-01.0-[01]----00.0\n"
                                    "           \\-02.0-[02]--+-00.0\n"
                                    "                        \\-00.1\n");
    static const struct {
        const char *cpu;
        unsigned family;
        enum rig_answer answer;
        const char *gpu; /* named as one */
        const char *possibilities;
    } rows[] = {
        {"AuthenticAMD", 25, RIG_ANSWER_UNKNOWN, NULL,
         "yes if (0000:02:00.0 is no GPU or no IOMMU"},
        {"AuthenticAMD", 25, RIG_ANSWER_UNKNOWN, "01:00.0", "0000:02:00.0 is no GPU or"},
        {"AuthenticAMD", 25, RIG_ANSWER_UNKNOWN, "02:00.0",
         "0000:01:00.0 is of the same vendor if it is a GPU"},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        struct rig_topology *c;
        struct rig_reach r;
        assert_int_equal(rig_topology_copy(t, &c, NULL), RIG_OK);
        assert_int_equal(rig_topology_set_cpu(c, rows[i].cpu, rows[i].family, NULL, NULL), RIG_OK);
        if (rows[i].gpu)
            assert_int_equal(rig_topology_set_gpu(c, rows[i].gpu, NULL), RIG_OK);
        assert_int_equal(rig_reach_pair(c, rig_rules_for("6.1"), rig_topology_find(c, "01:00.0"),
                                        rig_topology_find(c, "02:00.0"), &r, NULL),
                         RIG_OK);
        assert_int_equal(r.answer, rows[i].answer);
        if (!strstr(r.possibilities, rows[i].possibilities))
            fail_msg("row %zu: %s", i, r.possibilities);
        rig_reach_free(&r);
        rig_topology_free(c);
    }
    assert_true(function_named(t, "02:00.0")->gpu_unknown);
    assert_false(function_named(t, "00:01.0")->gpu_unknown); /* a bus is drawn below it */
    /* A memory is given of GPUs only. */
    assert_int_equal(rig_topology_set_gpu_memory(t, "02:00.1", 1u << 30, NULL), RIG_OK);
    assert_true(function_named(t, "02:00.1")->gpu);
    rig_topology_free(t);
}

static void a_quoted_tree_is_the_same(void **state)
{
    (void)state;
    char text[4096] = "";
    for (const char *line = TREE; *line;) {
        size_t n = strcspn(line, "\n");
        snprintf(text + strlen(text), sizeof text - strlen(text), "> > %.*s\r\n", (int)n, line);
        line += n + 1;
    }
    struct rig_topology *t = accept(text);
    expect_tree(t);
    rig_topology_free(t);
}

static void older_trees_name_buses_without_a_domain(void **state)
{
    (void)state;
    struct rig_topology *t = accept("-[00]-+-00.0\n      +-01.0-[01]----00.0\n      \\-1f.0\n");
    expect_above(t, "01:00.0", "0000:00:01.0");
    rig_topology_free(t);
}

static void a_virtual_functions_bus_hangs_below_its_port(void **state)
{
    (void)state;
    struct rig_topology *t = accept("-[0000:00]-+-00.0\n"
                                    "           \\-01.0-[02-03]-+-[0000:03]---02.0\n"
                                    "                          \\-[0000:02]---00.0\n");
    expect_above(t, "03:02.0", "0000:00:01.0");
    expect_above(t, "02:00.0", "0000:00:01.0");
    rig_topology_free(t);
}

static void one_tree_with_and_without_names_is_one_machine(void **state)
{
    (void)state;
    struct rig_topology *t = accept("-[0000:00]-+-00.0\n           \\-1f.0\n\n# lspci -tv\n"
                                    "-[0000:00]-+-00.0  One\n           \\-1f.0  Two\n");
    assert_int_equal(rig_topology_count(t), 2);
    assert_string_equal(rig_topology_function(t, 1)->name, "Two");
    rig_topology_free(t);
}

static void two_trees_of_one_bus_are_two_machines(void **state)
{
    (void)state;
    refuse("-[0000:00]-+-00.0  One\n           \\-1f.0  Two\nand\n"
           "-[0000:00]-+-00.0  Three\n           \\-1f.0  Two\n",
           "tree:4: bus 0000:00 appears twice, here and in line 1");
    refuse("-[0000:00]---00.0\n\n-[0000:00]-+-00.0\n           \\-1f.0\n", "appears twice");
    refuse("-[0000:00]---01.0-[01-03]--\n\n-[0000:00]---01.0-[02-03]--\n", "appears twice");
    refuse("-[0000:00]-+-01.0-[02]----00.0\n           \\-02.0-[02]--\n\n"
           "-[0000:00]-+-01.0-[02]--\n           \\-02.0-[02]----00.0\n",
           "appears twice");
    refuse("-+-[0000:02]---00.0\n \\-[0000:00]---01.0-[02]--\n\n-[0000:00]---01.0-[02]----00.0\n",
           "appears twice");
}

static void blocks_beside_a_tree_take_their_places_from_it(void **state)
{
    (void)state;
    struct rig_topology *t =
        accept(TREE "\n03:00.0 Ethernet controller: Mellanox Technologies Thing\n"
                    "\tFlags: bus master, fast devsel, latency 0\n"
                    "\tMemory at 90000000 (64-bit, prefetchable) [size=32M]\n");
    expect_tree(t);
    const struct rig_function *f = rig_topology_function(t, rig_topology_find(t, "03:00.0"));
    assert_int_equal(f->bar[0].size.value, 32u << 20);
    rig_topology_free(t);
}

static void a_block_that_contradicts_the_tree_is_refused(void **state)
{
    (void)state;
    refuse("00:01.0 PCI bridge: Thing\n\tFlags: fast devsel\n"
           "\tBus: primary=00, secondary=05, subordinate=05, sec-latency=0\n\n" TREE,
           "secondary bus differs");
}

static void an_elided_tree_gives_what_it_shows(void **state)
{
    (void)state;
    struct rig_topology *t = accept("-+-[0000:80]-+-12.0  One\n[...]\n"
                                    " |           \\-1f.6  Two\n \\-[0000:00]---00.0  Three\n");
    assert_int_equal(rig_topology_count(t), 3);
    expect_above(t, "80:1f.6", "-");
    rig_topology_free(t);
}

static void what_hangs_nowhere_is_refused(void **state)
{
    (void)state;
    refuse("-[0000:00]-+-00.0\n       +-01.0\n", "tree:2");
    refuse("-[0000:00]-+-00.0\n           \\-00.0\n", "drawn twice");
}

static void more_root_buses_than_machines_have_are_refused(void **state)
{
    (void)state;
    char *text = malloc(5000 * 16), *end = text;
    for (int i = 0; i < 5000; i++)
        end += sprintf(end, "-[%04x:00]-\n", i);
    refuse(text, "tree:4097: more than 4096 root buses");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_gives_places_and_leaves_the_rest_unknown),
        cmocka_unit_test(what_may_be_a_gpu_reaches_for_certain_only_what_it_reaches_either_way),
        cmocka_unit_test(a_quoted_tree_is_the_same),
        cmocka_unit_test(older_trees_name_buses_without_a_domain),
        cmocka_unit_test(a_virtual_functions_bus_hangs_below_its_port),
        cmocka_unit_test(one_tree_with_and_without_names_is_one_machine),
        cmocka_unit_test(two_trees_of_one_bus_are_two_machines),
        cmocka_unit_test(blocks_beside_a_tree_take_their_places_from_it),
        cmocka_unit_test(a_block_that_contradicts_the_tree_is_refused),
        cmocka_unit_test(an_elided_tree_gives_what_it_shows),
        cmocka_unit_test(more_root_buses_than_machines_have_are_refused),
        cmocka_unit_test(what_hangs_nowhere_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
