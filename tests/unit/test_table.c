/* The table of all pairs answers, byte for byte, what the pairs answer one by one, also with
 * unknown facts. */
#include "builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

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

static void some_side(struct node *n)
{
    static const unsigned vendors[] = {0x1002, 0x10de, 0x8086, 0x1bcf};
    n->f.vendor = pick(12) ? fact_known(vendors[pick(4)]) : fact_unknown(NULL);
    n->f.device = fact_known(0x7000 + pick(4));
    n->f.class_code = pick(3) ? fact_known(0x030200) : fact_known(0x020000);
    n->f.iommu = pick(4) ? fact_known(pick(3)) : fact_unknown(NULL);
    n->f.gpu_memory = pick(4) ? fact_known(1ull << (28 + pick(4))) : fact_unknown(NULL);
    uint64_t at = pick(5) ? (uint64_t)(1 + pick(60000)) << 32 : 0;
    for (size_t b = 0; b < RIG_BAR_COUNT; b++)
        n->f.bar[b].flags = fact_absent();
    n->f.bar[pick(3)] =
        (struct rig_bar){.flags = fact_known(RIG_BAR_64BIT | RIG_BAR_PREFETCHABLE),
                         .bus = at ? fact_known(at) : fact_absent(),
                         .size = pick(5) ? fact_known(1ull << (28 + pick(4))) : fact_unknown(NULL)};
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
    int children = type == RIG_PCIE_UPSTREAM_PORT ? 1 + (int)pick(4) : 1;
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

static void compare(const struct rig_topology *t, uint64_t of)
{
    int n = rig_topology_count(t);
    struct rig_reach_table *table;
    const struct rig_rules *rules = rig_rules_at((int)pick((unsigned)rig_rules_count()));
    assert_int_equal(rig_reach_table_make(t, rules, &table, NULL), RIG_OK);
    int *all = calloc((size_t)n, sizeof *all);
    uint8_t *cells = calloc((size_t)n, 1), *ordered = calloc((size_t)n, 1);
    uint16_t *far = calloc((size_t)n, sizeof *far);
    assert_true(all && cells && ordered && far);
    for (int i = 0; i < n; i++)
        all[i] = i;
    const int *order = rig_reach_table_order(table);
    for (int from = 0; from < n; from++) {
        rig_reach_table_row(table, from, all, n, cells, far);
        rig_reach_table_row(table, from, NULL, 0, ordered, NULL);
        for (int to = 0; to < n; to++) {
            struct rig_reach r;
            assert_int_equal(rig_reach_pair(t, rules, from, to, &r, NULL), RIG_OK);
            unsigned expected = (unsigned)r.answer | r.p2pdma.possible << 2 | (unsigned)r.path << 5;
            unsigned distance = r.p2pdma.distance < 0 ? 0xffffu : (unsigned)r.p2pdma.distance;
            rig_reach_free(&r);
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
        compare(t, round);
        rig_topology_free(t);
    }
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
        cmocka_unit_test(an_empty_machine_has_an_empty_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
