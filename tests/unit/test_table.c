/* The table of all pairs answers, byte for byte, what the pairs answer one by one, also with
 * unknown facts. */
#include "builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t seed;

static unsigned pick(unsigned below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)(seed >> 20) % below;
}

static struct node *add(struct rig_topology *t, struct rig_bdf bdf)
{
    struct node *n;
    assert_int_equal(topology_add(t, bdf, &n, NULL), RIG_OK);
    return n;
}

static struct rig_fact some_acs(void)
{
    switch (pick(6)) {
    case 0:
        return fact_known(0x1d);
    case 1:
        return fact_unknown("not read");
    case 2:
        return fact_absent();
    default:
        return fact_known(pick(2) ? 0x53 : 0);
    }
}

static void some_bar(struct node *n, uint64_t at, bool size_shown)
{
    n->f.bar[pick(3)] = (struct rig_bar){.flags = fact_known(RIG_BAR_64BIT | RIG_BAR_PREFETCHABLE),
                                         .bus = at ? fact_known(at) : fact_absent(),
                                         .size = size_shown ? fact_known(1ull << (28 + pick(4)))
                                                            : fact_unknown(NULL)};
}

static void some_side(struct node *n)
{
    static const unsigned vendors[] = {0x1002, 0x10de, 0x8086, 0x1bcf};
    n->f.vendor = pick(12) ? fact_known(vendors[pick(4)]) : fact_unknown(NULL);
    n->f.device = fact_known(0x7000 + pick(4));
    n->f.class_code = pick(7) ? fact_known(pick(3) ? 0x030200 : 0x020000) : fact_unknown(NULL);
    n->f.iommu = pick(4) ? fact_known(pick(3)) : fact_unknown(NULL);
    n->f.gpu_memory = pick(4) ? fact_known(1ull << (28 + pick(4))) : fact_unknown(NULL);
    uint64_t at = pick(5) ? (uint64_t)(1 + pick(60000)) << 32 : 0;
    bool bars_shown = pick(8) != 0;
    for (size_t b = 0; b < RIG_BAR_COUNT; b++)
        n->f.bar[b].flags = bars_shown ? fact_absent() : fact_unknown(NULL);
    if (bars_shown)
        some_bar(n, at, pick(5) != 0);
    if (pick(3) == 0)
        n->f.numa_node = fact_known(pick(2));
}

static const struct {
    unsigned vendor, device;
} fronts[] = {{0x8086, 0x2030}, {0x8086, 0x3c00}, {0x8086, 0x4c43}, {0x1022, 0x14a4}};

static int next_bus;

/* A port or switch on `bus`, and what is below it. */
static void some_tree(struct rig_topology *t, uint32_t domain, int bus, int device, int type,
                      int depth)
{
    struct node *n = add(t, (struct rig_bdf){domain, (uint8_t)bus, (uint8_t)device, (uint8_t)0});
    some_side(n);
    n->f.acs_control = some_acs();
    bool leaf = depth == 0 || next_bus > 240 || (type == RIG_PCIE_ENDPOINT);
    n->f.pcie_type = leaf ? fact_known(RIG_PCIE_ENDPOINT) : fact_known((unsigned)type);
    n->f.header_type = fact_known(leaf ? 0 : 1);
    if (leaf)
        return;
    int secondary = next_bus++;
    int below = type == RIG_PCIE_UPSTREAM_PORT ? RIG_PCIE_DOWNSTREAM_PORT
                : pick(2)                      ? RIG_PCIE_UPSTREAM_PORT
                                               : RIG_PCIE_ENDPOINT;
    int children = type == RIG_PCIE_UPSTREAM_PORT ? 1 + (int)pick(pick(3) ? 4 : 9) : 1;
    int index = t->count - 1;
    for (int d = 0; d < children; d++)
        some_tree(t, domain, secondary, d, below, depth - 1);
    t->node[index].f.secondary = fact_known((unsigned)secondary);
    t->node[index].f.subordinate = fact_known((unsigned)next_bus - 1);
}

static struct rig_topology *some_machine(void)
{
    struct rig_topology *t = topology_new(RIG_SOURCE_CAPTURE);
    assert_non_null(t);
    t->whole = pick(2);
    unsigned domains = 1 + pick(3);
    for (uint32_t domain = 0; domain < domains; domain++) {
        next_bus = 1;
        bool bus_zero = pick(2);
        for (unsigned root = 1 + pick(3); root > 0 && next_bus < 200; root--) {
            int bus = bus_zero ? 0 : next_bus++;
            bus_zero = false;
            if (pick(3)) {
                struct node *host = add(t, (struct rig_bdf){domain, (uint8_t)bus, 0, 0});
                unsigned f = pick(4);
                host->f.vendor = fact_known(fronts[f].vendor);
                host->f.device = pick(4) ? fact_known(fronts[f].device) : fact_unknown(NULL);
                host->f.class_code = fact_known(0x060000);
                host->f.pcie_type = fact_absent();
                host->f.acs_control = fact_absent();
                host->f.header_type = fact_known(0);
            }
            /* A tree of type upstream on an unowned bus is one whose root port the source lacks. */
            for (int d = 1; d < 2 + (int)pick(3); d++)
                some_tree(t, domain, bus, d, pick(6) ? RIG_PCIE_ROOT_PORT : RIG_PCIE_UPSTREAM_PORT,
                          (int)pick(6));
        }
    }
    if (pick(2))
        t->machine.cpu_vendor = topology_text(t, pick(2) ? "AuthenticAMD" : "GenuineIntel");
    t->machine.cpu_family = pick(3) ? fact_known(pick(2) ? 21 : 25) : fact_unknown(NULL);
    struct rig_error err = {.status = RIG_OK};
    if (topology_finish(t, "random", &err) != RIG_OK)
        fail_msg("%s", err.why);
    return t;
}

/* An answer that is not yes is one gate's, and says what it hangs on if it is not known. */
static void explains_itself(const struct rig_reach *r)
{
    assert_int_equal(r->gate < 0, r->answer == RIG_ANSWER_YES);
    assert_int_equal(r->possibilities[0] != '\0', r->answer == RIG_ANSWER_UNKNOWN);
    assert_null(strstr(r->possibilities, "if ,"));
    assert_null(strstr(r->possibilities, "and ,"));
}

/* The rows of every `step`-th function; all rows are asked for. */
static void compare(const struct rig_topology *t, const struct rig_rules *rules, int step,
                    uint64_t of)
{
    int n = rig_topology_count(t);
    struct rig_reach_table *table;
    assert_int_equal(rig_reach_table_make(t, rules, &table, NULL), RIG_OK);
    int *all = calloc((size_t)n, sizeof *all);
    uint8_t *cells = calloc((size_t)n, 1), *ordered = calloc((size_t)n, 1);
    uint16_t *far = calloc((size_t)n, sizeof *far);
    assert_true(all && cells && ordered && far);
    for (int i = 0; i < n; i++)
        all[i] = i;
    const int *order = rig_reach_table_order(table);
    for (int from = 0; from < n; from++) {
        rig_reach_table_row(table, from, NULL, 0, ordered, NULL);
        if (from % step != 0)
            continue;
        rig_reach_table_row(table, from, all, n, cells, far);
        for (int to = 0; to < n; to++) {
            struct rig_reach r;
            assert_int_equal(rig_reach_pair(t, rules, from, to, &r, NULL), RIG_OK);
            unsigned expected = (unsigned)r.answer | r.p2pdma.possible << 2 | (unsigned)r.path << 5;
            unsigned distance = r.p2pdma.distance < 0 ? 0xffffu : (unsigned)r.p2pdma.distance;
            rig_reach_free(&r);
            explains_itself(&r);
            if (cells[to] != expected || far[to] != distance)
                fail_msg("seed %llu: %d to %d: cell %02x at %u, pair %02x at %u",
                         (unsigned long long)of, from, to, cells[to], far[to], expected, distance);
        }
        for (int k = 0; k < n; k++)
            assert_int_equal(ordered[k], cells[order[k]]);
    }
    free(all);
    free(cells);
    free(ordered);
    free(far);
    rig_reach_table_free(table);
}

static void the_table_equals_the_pairs(void **state)
{
    (void)state;
    const char *rounds = getenv("RIGMEM_TABLE_ROUNDS");
    for (uint64_t round = 1; round <= (rounds ? strtoull(rounds, NULL, 10) : 60); round++) {
        seed = round * 0x9e3779b97f4a7c15u;
        struct rig_topology *t = some_machine();
        compare(t, rig_rules_at((int)pick((unsigned)rig_rules_count())), 1, round);
        rig_topology_free(t);
    }
}

/* ---- unknown is never yes, and never no */

static void make_known(struct rig_fact *f, uint64_t value)
{
    if (f->know == RIG_FACT_UNKNOWN)
        *f = fact_known(value);
}

/* What the source does not show of a function turns out somehow. A display controller whose BARs
   are not shown is taken for a GPU, and is one. */
static void turn_out(struct node *n)
{
    static const unsigned vendors[] = {0x1002, 0x10de, 0x8086, 0x1bcf};
    bool display = n->f.gpu;
    bool bars_shown = n->f.bar[0].flags.know != RIG_FACT_UNKNOWN;
    make_known(&n->f.class_code, n->f.gpu || pick(2) ? 0x030200 : 0x020000);
    make_known(&n->f.vendor, vendors[pick(4)]);
    make_known(&n->f.device, fronts[pick(4)].device);
    make_known(&n->f.iommu, pick(3));
    make_known(&n->f.gpu_memory, 1ull << (28 + pick(4)));
    for (size_t b = 0; b < RIG_BAR_COUNT; b++) {
        if (!bars_shown)
            n->f.bar[b].flags = fact_absent();
        else if (rig_fact_has(n->f.bar[b].flags))
            make_known(&n->f.bar[b].size, 1ull << (28 + pick(4)));
    }
    if (!bars_shown && n->f.header_type.value == 0 && (display || pick(2)))
        some_bar(n, (uint64_t)pick(3) << 36, true);
    if (n->f.acs_control.know == RIG_FACT_UNKNOWN)
        n->f.acs_control = pick(3) ? fact_known(pick(2) ? 0x1d : 0) : fact_absent();
    n->iommu_derived = n->memory_derived = false;
}

static struct rig_topology *machine_turned_out(const struct rig_topology *t)
{
    struct rig_topology *known;
    assert_int_equal(rig_topology_copy(t, &known, NULL), RIG_OK);
    for (int i = 0; i < known->count; i++)
        turn_out(&known->node[i]);
    if (!rig_text_has(known->machine.cpu_vendor))
        known->machine.cpu_vendor = topology_text(known, pick(2) ? "AuthenticAMD" : "GenuineIntel");
    make_known(&known->machine.cpu_family, pick(2) ? 21 : 25);
    assert_int_equal(topology_finish(known, "turned out", NULL), RIG_OK);
    return known;
}

static void stays_decided(const struct rig_topology *t, const struct rig_topology *known,
                          const struct rig_rules *rules, uint64_t of)
{
    struct rig_reach_table *open, *decided;
    assert_int_equal(rig_reach_table_make(t, rules, &open, NULL), RIG_OK);
    assert_int_equal(rig_reach_table_make(known, rules, &decided, NULL), RIG_OK);
    int n = t->count, *all = calloc((size_t)n, sizeof *all);
    uint8_t *before = calloc((size_t)n, 1), *after = calloc((size_t)n, 1);
    assert_true(all && before && after);
    for (int i = 0; i < n; i++)
        all[i] = i;
    for (int from = 0; from < n; from++) {
        rig_reach_table_row(open, from, all, n, before, NULL);
        rig_reach_table_row(decided, from, all, n, after, NULL);
        for (int to = 0; to < n; to++)
            if (RIG_CELL_ANSWER(before[to]) != RIG_ANSWER_UNKNOWN &&
                RIG_CELL_ANSWER(before[to]) != RIG_CELL_ANSWER(after[to]))
                fail_msg("seed %llu: %d to %d: %02x with facts unknown, %02x with all known",
                         (unsigned long long)of, from, to, before[to], after[to]);
    }
    free(all);
    free(before);
    free(after);
    rig_reach_table_free(open);
    rig_reach_table_free(decided);
}

static void a_decided_answer_stays_however_unknown_facts_turn_out(void **state)
{
    (void)state;
    for (uint64_t round = 1; round <= 100; round++) {
        seed = round * 0x9e3779b97f4a7c15u;
        struct rig_topology *t = some_machine();
        const struct rig_rules *rules = rig_rules_at((int)pick((unsigned)rig_rules_count()));
        for (int turn = 0; turn < 4; turn++) {
            struct rig_topology *known = machine_turned_out(t);
            stays_decided(t, known, rules, round);
            rig_topology_free(known);
        }
        rig_topology_free(t);
    }
}

static void compare_built(const char *text, const char *cpu)
{
    struct rig_topology *t = build_machine(text, cpu);
    compare(t, rig_rules_for("6.1"), 1, 0);
    rig_topology_free(t);
}

/* Entries of one GPU hold 44 bits of an address, those of the other 48, and nothing else differs.
 */
static void functions_that_differ_in_one_fact_have_cells_of_their_own(void **state)
{
    (void)state;
    struct rig_topology *t =
        build_machine("00:01.0 rp 01-05\n01:00.0 up 02-05\n02:00.0 down 03-03\n02:01.0 down 04-04\n"
                      "02:02.0 down 05-05\n03:00.0 ep id=1002:744c gpu=16/16 iommu=none\n"
                      "04:00.0 ep id=1002:74a1 gpu=16/16 iommu=none\n"
                      "05:00.0 ep id=1002:744c gpu=16/16 iommu=none\n",
                      "Intel:6");
    for (int i = 0; i < t->count; i++)
        if (t->node[i].f.gpu)
            t->node[i].f.bar[0].bus = fact_known(1ull << 44);
    compare(t, rig_rules_for("6.1"), 1, 0);
    struct rig_reach_table *table;
    assert_int_equal(rig_reach_table_make(t, rig_rules_for("6.1"), &table, NULL), RIG_OK);
    int to = function_at(t, "05:00.0");
    uint8_t cell;
    rig_reach_table_row(table, function_at(t, "03:00.0"), &to, 1, &cell, NULL);
    assert_int_equal(RIG_CELL_ANSWER(cell), RIG_ANSWER_NO);
    rig_reach_table_row(table, function_at(t, "04:00.0"), &to, 1, &cell, NULL);
    assert_int_equal(RIG_CELL_ANSWER(cell), RIG_ANSWER_YES);
    rig_reach_table_free(table);
    rig_reach_table_free(NULL);
    rig_topology_free(t);
}

/* Links join GPUs of one fabric, whatever the way between them redirects. */
static void links_of_a_fabric_are_in_the_table(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(
        "00:01.0 rp 01-06\n01:00.0 up 02-06\n02:00.0 down 03-03 acs=001d\n"
        "02:01.0 down 04-04 acs=001d\n02:02.0 down 05-05 acs=001d\n02:03.0 down 06-06 acs=001d\n"
        "03:00.0 ep id=10de:20b2 gpu=16/16 iommu=none\n"
        "04:00.0 ep id=10de:20b2 gpu=16/16 iommu=none\n"
        "05:00.0 ep id=10de:20b2 gpu=16/16 iommu=none\n"
        "06:00.0 ep id=10de:20b2 gpu=16/16 iommu=none\n",
        "Intel:6");
    for (int i = 0; i < t->count; i++)
        t->node[i].f.bar[0].bus = fact_known(1ull << 40);
    assert_int_equal(rig_topology_link(t, "gpu1", 0, NULL), RIG_OK);
    assert_int_equal(rig_topology_link(t, "gpu2", 1, NULL), RIG_OK);
    assert_int_equal(rig_topology_link(t, "gpu3", 1, NULL), RIG_OK);
    compare(t, rig_rules_for("6.1"), 1, 0);
    struct rig_reach_table *table;
    assert_int_equal(rig_reach_table_make(t, rig_rules_for("6.1"), &table, NULL), RIG_OK);
    uint8_t cells[4];
    const int gpus[] = {function_at(t, "03:00.0"), function_at(t, "04:00.0"),
                        function_at(t, "05:00.0"), function_at(t, "06:00.0")};
    for (int from = 0; from < 4; from++) {
        rig_reach_table_row(table, gpus[from], gpus, 4, cells, NULL);
        for (int to = 0; to < 4; to++)
            assert_int_equal(RIG_CELL_ANSWER(cells[to]), from + to == 5 && from != to && from > 1
                                                             ? RIG_ANSWER_YES
                                                             : RIG_ANSWER_NO);
    }
    rig_reach_table_free(table);
    rig_topology_free(t);
}

/* Redirects on both sides of what the source lacks, and beside trees that are whole. */
static void redirects_of_cut_trees_are_in_the_table(void **state)
{
    (void)state;
    static const char *const cpus[] = {"AMD:25", "Intel:6", NULL};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(cpus); i++) {
        compare_built("00:01.0 rp 01-08 acs=001d\n00:02.0 rp 09-0a\n00:03.0 rciep acs=0004\n"
                      "05:00.0 ep acs=0004\n06:00.0 ep\n09:00.0 ep acs=000c\n20:00.0 ep\n"
                      "0001:05:00.0 ep acs=0004\n0001:06:00.0 ep acs=unknown\n",
                      cpus[i]);
        compare_built("00:01.0 rp 01-08\n05:00.0 ep acs=0004\n06:00.0 ep\n07:00.0 ep acs=unknown\n",
                      cpus[i]);
    }
}

/* A GPU of its own kind: no two below 340 have equal facts. */
static void add_gpu(struct rig_topology *t, struct rig_bdf bdf, unsigned kind)
{
    static const unsigned vendors[] = {0x1002, 0x10de, 0x8086, 0x1bcf, 0};
    struct node *n = add(t, bdf);
    n->place = PLACE_ROOT;
    n->parent_bdf = (struct rig_bdf){.domain = bdf.domain, .bus = bdf.bus};
    n->f.vendor = vendors[kind % 5] ? fact_known(vendors[kind % 5]) : fact_unknown(NULL);
    n->f.device = fact_known(1);
    n->f.class_code = fact_known(0x030200);
    n->f.header_type = fact_known(0);
    n->f.pcie_type = fact_known(RIG_PCIE_INTEGRATED_ENDPOINT);
    n->f.acs_control = fact_absent();
    n->f.iommu = fact_known(kind / 5 % 2 ? RIG_IOMMU_TRANSLATE : RIG_IOMMU_NONE);
    n->f.gpu_memory = fact_known(1u << 20);
    for (size_t b = 0; b < RIG_BAR_COUNT; b++)
        n->f.bar[b].flags = fact_absent();
    n->f.bar[0] = (struct rig_bar){.flags = fact_known(RIG_BAR_64BIT | RIG_BAR_PREFETCHABLE),
                                   .bus = fact_known(1ull << (20 + kind / 10 % 34)),
                                   .size = fact_known(1u << 20)};
}

/* More kinds of functions than gates are worked out for beforehand, each below several host
   bridges: more runs of cells than are kept. */
static void what_is_not_kept_is_worked_out_again(void **state)
{
    (void)state;
    struct rig_topology *t = topology_new(RIG_SOURCE_CAPTURE);
    for (unsigned root = 0; root < 13; root++)
        for (unsigned kind = 0; kind < 340; kind++)
            add_gpu(t,
                    (struct rig_bdf){root, (uint8_t)(kind / 256), (uint8_t)(kind / 8 % 32),
                                     (uint8_t)(kind % 8)},
                    kind);
    assert_int_equal(topology_finish(t, "wide", NULL), RIG_OK);
    assert_int_equal(rig_topology_set_cpu(t, "AMD", 25, NULL, NULL), RIG_OK);
    compare(t, rig_rules_for("6.1"), 4400, 0);
    rig_topology_free(t);
}

/* GPUs of ten kinds, with three ways of redirecting, at the end of 140 bridges in a row, each with
   a bus full of others: a row has a run of cells for each bridge. */
static void runs_are_let_go_when_they_are_many(void **state)
{
    (void)state;
    struct rig_topology *t = topology_new(RIG_SOURCE_CAPTURE);
    for (unsigned bus = 0; bus < 236; bus++) {
        struct node *n = add(t, (struct rig_bdf){0, (uint8_t)bus, 31, 0});
        n->f.header_type = fact_known(1);
        n->f.pcie_type = n->f.acs_control = fact_absent();
        n->f.secondary = fact_known(bus + 1);
        n->f.subordinate = fact_known(236);
        for (unsigned i = 0; i < 13; i++) {
            n = add(t, (struct rig_bdf){0, (uint8_t)bus, (uint8_t)i, 0});
            n->f.header_type = fact_known(0);
            n->f.pcie_type = n->f.acs_control = fact_absent();
        }
    }
    for (unsigned i = 0; i < 60; i++) {
        add_gpu(t, (struct rig_bdf){0, 236, (uint8_t)(i / 8), (uint8_t)(i % 8)}, i);
        struct node *n = &t->node[t->count - 1];
        n->place = PLACE_BY_BUSES;
        n->f.pcie_type = i % 3 == 1 ? fact_unknown("not read") : fact_absent();
        n->f.acs_control = i % 3 == 0   ? fact_known(0x1d)
                           : i % 3 == 1 ? fact_unknown("not read")
                                        : fact_absent();
    }
    assert_int_equal(topology_finish(t, "deep", NULL), RIG_OK);
    compare(t, rig_rules_for("6.1"), 1789, 0);
    rig_topology_free(t);
}

static void an_empty_machine_has_an_empty_table(void **state)
{
    (void)state;
    struct rig_topology *t = topology_new(RIG_SOURCE_CAPTURE);
    assert_non_null(t);
    assert_int_equal(topology_finish(t, "empty", NULL), RIG_OK);
    struct rig_reach_table *table;
    assert_int_equal(rig_reach_table_make(t, rig_rules_for(NULL), &table, NULL), RIG_OK);
    rig_reach_table_free(table);
    rig_topology_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_equals_the_pairs),
        cmocka_unit_test(a_decided_answer_stays_however_unknown_facts_turn_out),
        cmocka_unit_test(functions_that_differ_in_one_fact_have_cells_of_their_own),
        cmocka_unit_test(links_of_a_fabric_are_in_the_table),
        cmocka_unit_test(redirects_of_cut_trees_are_in_the_table),
        cmocka_unit_test(what_is_not_kept_is_worked_out_again),
        cmocka_unit_test(runs_are_let_go_when_they_are_many),
        cmocka_unit_test(an_empty_machine_has_an_empty_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
