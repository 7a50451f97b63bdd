/* All pairs of N functions in memory: the time of the table's rows against a memset of the result
   and against asking pair by pair, and that both ways give the same bytes, also where facts are
   missing. Beside it stands what reachlimit, the least that such an answer can cost, takes on this
   machine for as many endpoints ($BENCH_TOOLS has it). */
#include "bench.h"
#include "topology/topology.h"

#include <stdint.h>
#include <string.h>

#define ROUNDS 21

static uint32_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)(*state >> 16);
}

/* Adds a bridge-like function; `unknown` of a hundred lack their ACS words. */
static struct node *add(struct rig_topology *t, uint32_t domain, unsigned bus, unsigned device,
                        enum rig_pcie_type type, int unknown, uint64_t *random)
{
    struct node *n;
    struct rig_bdf bdf = {.domain = domain, .bus = (uint8_t)bus, .device = (uint8_t)device};
    if (topology_add(t, bdf, &n, NULL) != RIG_OK)
        abort();
    n->f.vendor = fact_known(0x8086);
    n->f.device = fact_known(0x352a);
    n->f.class_code = fact_known(0x060400);
    n->f.header_type = fact_known(1);
    n->f.pcie_type = fact_known(type);
    n->f.acs_capability = fact_known(0x5f);
    n->f.acs_control = next_random(random) % 4 == 0 ? fact_known(0x1d) : fact_known(0);
    if ((int)(next_random(random) % 100) < unknown)
        n->f.acs_control = n->f.acs_capability = fact_unknown("not read");
    return n;
}

static void add_bridge(struct rig_topology *t, uint32_t domain, unsigned bus, unsigned device,
                       enum rig_pcie_type type, unsigned secondary, unsigned subordinate,
                       int unknown, uint64_t *random)
{
    struct node *n = add(t, domain, bus, device, type, unknown, random);
    n->f.primary = fact_known(bus);
    n->f.secondary = fact_known(secondary);
    n->f.subordinate = fact_known(subordinate);
}

static void add_gpu(struct rig_topology *t, uint32_t domain, unsigned bus, int unknown,
                    uint64_t *random)
{
    struct node *n = add(t, domain, bus, 0, RIG_PCIE_ENDPOINT, 0, random);
    n->f.vendor = fact_known(0x1002);
    n->f.device = fact_known(0x74a1);
    n->f.class_code = fact_known(0x038000);
    n->f.header_type = fact_known(0);
    n->f.acs_capability = n->f.acs_control = fact_absent();
    n->f.bar[0].flags = fact_known(RIG_BAR_64BIT | RIG_BAR_PREFETCHABLE);
    n->f.bar[0].bus = n->f.bar[0].cpu = fact_known(0x1000000000 + ((uint64_t)bus << 34));
    n->f.bar[0].size = fact_known(UINT64_C(1) << 34);
    n->f.gpu_memory = fact_known(UINT64_C(1) << 34);
    n->f.iommu_group = fact_absent();
    if ((int)(next_random(random) % 100) < unknown)
        n->f.iommu_group = fact_unknown("not read");
}

/* A machine of host bridges with 8 root ports each, a switch of 16 ports under each of those and a
   GPU under each port, cut at `count` functions. */
static struct rig_topology *machine(int count, int unknown)
{
    uint64_t random = 88172645463325252u;
    struct rig_topology *t = topology_new(RIG_SOURCE_CAPTURE);
    if (!t)
        abort();
    t->whole = true;
    for (uint32_t domain = 0; t->count < count; domain++)
        for (unsigned port = 0; port < 8 && t->count < count; port++) {
            unsigned bus = 1 + port * 18;
            add_bridge(t, domain, 0, 1 + port, RIG_PCIE_ROOT_PORT, bus, bus + 17, unknown, &random);
            add_bridge(t, domain, bus, 0, RIG_PCIE_UPSTREAM_PORT, bus + 1, bus + 17, unknown,
                       &random);
            for (unsigned d = 0; d < 16 && t->count < count; d++) {
                add_bridge(t, domain, bus + 1, d, RIG_PCIE_DOWNSTREAM_PORT, bus + 2 + d,
                           bus + 2 + d, unknown, &random);
                add_gpu(t, domain, bus + 2 + d, unknown, &random);
            }
        }
    struct rig_error err = {0};
    if (topology_finish(t, "bench", &err) != RIG_OK) {
        fprintf(stderr, "bench_reach: %s\n", err.why);
        abort();
    }
    return t;
}

static uint8_t pairwise(const struct rig_topology *t, const struct rig_rules *rules, int from,
                        int to)
{
    struct rig_reach r;
    if (rig_reach_pair(t, rules, from, to, &r, NULL) != RIG_OK)
        abort();
    uint8_t cell = (uint8_t)((unsigned)r.answer | r.p2pdma.possible << 2 | (unsigned)r.path << 5);
    rig_reach_free(&r);
    return cell;
}

/* The answers of all functions to all, rows and columns in the table's order, which goes to
   out_order: the rows from a table that has answered nothing yet. Preparing it, which a machine
   needs once and which grows with N alone, is timed apart. */
static void all_rows(const struct rig_topology *t, const struct rig_rules *rules, uint8_t *cells,
                     int *out_order, double *least_make, double *least_rows)
{
    struct rig_reach_table *table;
    double begin = bench_now();
    if (rig_reach_table_make(t, rules, &table, NULL) != RIG_OK)
        abort();
    double made = bench_now();
    size_t n = (size_t)rig_topology_count(t);
    const int *order = rig_reach_table_order(table);
    for (size_t i = 0; i < n; i++)
        rig_reach_table_row(table, order[i], NULL, 0, cells + i * n, NULL);
    *least_rows = bench_least(*least_rows, bench_now() - made);
    *least_make = bench_least(*least_make, made - begin);
    memcpy(out_order, order, n * sizeof *order);
    rig_reach_table_free(table);
}

/* The result of a question is in no cache of the CPU's own when the question comes: nor is what is
   written here, after as much as the largest holds was read. */
static void cool(void)
{
    static volatile uint8_t other[16u << 20];
    for (size_t i = 0; i < sizeof other; i += 64)
        other[i]++;
}

/* What reachlimit says of so many endpoints. */
static void print_limit(size_t count)
{
    const char *tools = getenv("BENCH_TOOLS");
    char command[4300], line[512];
    snprintf(command, sizeof command, "'%s'/reachlimit %zu", tools ? tools : "build/release/bench",
             count);
    FILE *limit = popen(command, "r");
    double set, spans;
    bool read = limit && fgets(line, sizeof line, limit) && strstr(line, "intervals") &&
                sscanf(strstr(line, "memset"), "memset %lf", &set) == 1 &&
                sscanf(strstr(line, "intervals"), "intervals %lf", &spans) == 1;
    if (limit)
        pclose(limit);
    if (read)
        printf("reachlimit at %zu: memset %.3f ms, all pairs %.3f ms, x memset %.3f\n", count, set,
               spans, spans / set);
    else
        printf("reachlimit at %zu: it does not run\n", count);
}

/* How many cells differ between the table and the pairwise answer, over every `step`-th row. */
static long compare(const struct rig_topology *t, const struct rig_rules *rules, const int *order,
                    const uint8_t *cells, size_t step, double *out_seconds)
{
    long differ = 0, asked = 0;
    size_t n = (size_t)rig_topology_count(t);
    double begin = bench_now();
    for (size_t i = 0; i < n; i += step)
        for (size_t j = 0; j < n; j++, asked++)
            differ += cells[i * n + j] != pairwise(t, rules, order[i], order[j]);
    *out_seconds = (bench_now() - begin) / (double)asked * (double)(n * n);
    return differ;
}

/* Where `targets` are named, a row holds the same cells, and distances besides. */
static long compare_named(const struct rig_topology *t, const struct rig_rules *rules,
                          const int *order, const uint8_t *cells)
{
    struct rig_reach_table *table;
    if (rig_reach_table_make(t, rules, &table, NULL) != RIG_OK)
        abort();
    long differ = 0;
    size_t n = (size_t)rig_topology_count(t);
    for (size_t i = 0; i < n; i++) {
        uint8_t cell;
        int target = order[n - 1 - i];
        rig_reach_table_row(table, order[i], &target, 1, &cell, NULL);
        differ += cell != cells[i * n + (n - 1 - i)];
    }
    rig_reach_table_free(table);
    return differ;
}

/* One size: prints the figures and is true iff the answers agree and the limits are kept. `limit`
   0: no limit on time. */
static bool measure(int count, int unknown, size_t step, double limit)
{
    struct rig_topology *t = machine(count, unknown);
    const struct rig_rules *rules = rig_rules_at(rig_rules_count() - 1);
    size_t n = (size_t)rig_topology_count(t), bytes = n * n;
    int *order = malloc(n * sizeof *order);
    uint8_t *cells = malloc(bytes), *plain = malloc(bytes);
    if (!order || !cells || !plain)
        abort();
    double set = 1e9, make = 1e9, rows = 1e9, pairs;
    for (int round = 0; round < ROUNDS; round++) {
        cool();
        double begin = bench_now();
        memset(plain, round, bytes);
        __asm__ volatile("" ::"r"(plain) : "memory");
        set = bench_least(set, bench_now() - begin);
        cool();
        all_rows(t, rules, cells, order, &make, &rows);
    }
    long differ = compare(t, rules, order, cells, step, &pairs);
    differ += compare_named(t, rules, order, cells);
    bool good = differ == 0;
    if (differ)
        printf("N %zu, %d %% unknown: %ld cells are not the pairwise answer\n", n, unknown, differ);
    char what[96];
    printf(
        "N %zu, %d %% unknown: memset %.3f ms, table %.3f ms and all pairs %.3f ms, pair by pair "
        "%.0f ms\n",
        n, unknown, set * 1e3, make * 1e3, rows * 1e3, pairs * 1e3);
    if (limit > 0) {
        if (!bench_short())
            print_limit(n);
        snprintf(what, sizeof what, "all pairs of %zu, x memset", n);
        good &= bench_hold(what, rows / set, limit);
    }
    if (n >= 4096) {
        snprintf(what, sizeof what, "all pairs of %zu, x pair by pair", n);
        good &= bench_hold(what, (make + rows) / pairs, 0.01);
    }
    free(cells);
    free(plain);
    free(order);
    rig_topology_free(t);
    return good;
}

int main(void)
{
    bench_pin();
    if (bench_short())
        return measure(600, 0, 1, 4) && measure(600, 20, 1, 0) ? 0 : 1;
    bool good = measure(512, 0, 1, 4);
    good &= measure(512, 20, 1, 0);
    good &= measure(4096, 0, 64, 2);
    good &= measure(4096, 20, 256, 0);
    return good ? 0 : 1;
}
