#include "builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct kind {
    const char *word;
    int type; /* -1: no PCI Express function */
    int header;
    unsigned class_code;
} kinds[] = {
    {"host", -1, 0, 0x060000},
    {"rp", RIG_PCIE_ROOT_PORT, 1, 0x060400},
    {"up", RIG_PCIE_UPSTREAM_PORT, 1, 0x060400},
    {"down", RIG_PCIE_DOWNSTREAM_PORT, 1, 0x060400},
    {"ep", RIG_PCIE_ENDPOINT, 0, 0xff0000},
    {"rciep", RIG_PCIE_INTEGRATED_ENDPOINT, 0, 0x088000},
    {"pci", -1, 0, 0xff0000},
    {"p2pci", RIG_PCIE_TO_PCI_BRIDGE, 1, 0x060400},
    {"pcibr", -1, 1, 0x060400},
};

static struct rig_bdf bdf_of(const char *text)
{
    struct rig_bdf bdf;
    if (!rig_bdf_parse(text, &bdf))
        fail_msg("not an address: %s", text);
    return bdf;
}

static void set_gpu(struct node *n, const char *value)
{
    unsigned long memory, bar;
    if (sscanf(value, "%lu/%lu", &memory, &bar) != 2)
        fail_msg("not MEMORY/BAR: %s", value);
    uint64_t place = (uint64_t)n->f.bdf.domain << 8 | n->f.bdf.bus;
    n->f.class_code = fact_known(0x030200);
    n->f.gpu_memory = fact_known((uint64_t)memory << 20);
    n->f.bar[0] = (struct rig_bar){.flags = fact_known(RIG_BAR_64BIT | RIG_BAR_PREFETCHABLE),
                                   .bus = fact_known((place + 1) << 38),
                                   .cpu = fact_known((place + 1) << 38),
                                   .size = fact_known((uint64_t)bar << 20),
                                   .resizable = fact_absent()};
}

static void set_acs(struct node *n, const char *value)
{
    if (strcmp(value, "unknown") == 0) {
        n->f.acs_capability = n->f.acs_control = fact_unknown("not read");
        return;
    }
    n->f.acs_capability = fact_known(0x7f);
    n->f.acs_control = fact_known(strtoul(value, NULL, 16));
}

static void set_iommu(struct node *n, const char *value)
{
    static const char *const words[] = {"none", "identity", "translate"};
    for (unsigned i = 0; i < RIG_ARRAY_LENGTH(words); i++)
        if (strcmp(value, words[i]) == 0)
            n->f.iommu = fact_known(i);
}

static void set_word(struct node *n, const char *word, const char *value)
{
    if (strcmp(word, "acs") == 0) {
        set_acs(n, value);
    } else if (strcmp(word, "id") == 0) {
        n->f.vendor = fact_known(strtoul(value, NULL, 16));
        n->f.device = fact_known(strtoul(strchr(value, ':') + 1, NULL, 16));
    } else if (strcmp(word, "class") == 0) {
        n->f.class_code = fact_known(strtoul(value, NULL, 16));
    } else if (strcmp(word, "root") == 0) {
        n->place = PLACE_ROOT;
        n->parent_bdf =
            (struct rig_bdf){.domain = n->f.bdf.domain, .bus = (uint8_t)strtoul(value, NULL, 16)};
    } else if (strcmp(word, "under") == 0) {
        n->place = PLACE_UNDER;
        n->parent_bdf = bdf_of(value);
    } else if (strcmp(word, "pf") == 0) {
        n->physical_given = true;
        n->physical_bdf = bdf_of(value);
    } else if (strcmp(word, "gpu") == 0) {
        set_gpu(n, value);
    } else if (strcmp(word, "iommu") == 0) {
        set_iommu(n, value);
    } else if (strcmp(word, "numa") == 0) {
        n->f.numa_node = fact_known(strtoul(value, NULL, 10));
    } else if (strcmp(word, "type") == 0) {
        n->f.pcie_type = fact_unknown("not read");
    } else {
        fail_msg("unknown word: %s", word);
    }
}

static void set_kind(struct node *n, const char *word)
{
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(kinds); i++) {
        const struct kind *k = &kinds[i];
        if (strcmp(word, k->word) != 0)
            continue;
        n->f.pcie_type = k->type < 0 ? fact_absent() : fact_known((uint64_t)k->type);
        n->f.header_type = fact_known((uint64_t)k->header);
        n->f.class_code = fact_known(k->class_code);
        n->f.acs_capability = n->f.acs_control = fact_absent();
        return;
    }
    fail_msg("unknown kind: %s", word);
}

static void add_line(struct rig_topology *t, char *line)
{
    char *save = NULL;
    char *word = strtok_r(line, " ", &save);
    if (!word)
        return;
    struct node *n;
    assert_int_equal(topology_add(t, bdf_of(word), &n, NULL), RIG_OK);
    for (size_t b = 0; b < RIG_BAR_COUNT; b++)
        n->f.bar[b].flags = fact_absent();
    n->f.vendor = fact_known(0x1234);
    n->f.device = fact_known(0x5678);
    set_kind(n, strtok_r(NULL, " ", &save));
    while ((word = strtok_r(NULL, " ", &save))) {
        unsigned secondary, subordinate;
        char *value = strchr(word, '=');
        if (value) {
            *value++ = '\0';
            set_word(n, word, value);
        } else if (sscanf(word, "%x-%x", &secondary, &subordinate) == 2) {
            n->f.secondary = fact_known(secondary);
            n->f.subordinate = fact_known(subordinate);
        } else {
            fail_msg("unknown word: %s", word);
        }
    }
}

struct rig_topology *build_machine(const char *text, const char *cpu)
{
    struct rig_topology *t = topology_new(RIG_SOURCE_CAPTURE);
    assert_non_null(t);
    char *copy = strdup(text), *save = NULL;
    assert_non_null(copy);
    for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        add_line(t, line);
    free(copy);
    t->whole = true;
    struct rig_error err = {.status = RIG_OK};
    if (topology_finish(t, "test", &err) != RIG_OK)
        fail_msg("%s", err.why);
    if (cpu) {
        const char *colon = strchr(cpu, ':');
        char vendor[32];
        snprintf(vendor, sizeof vendor, "%.*s", (int)(colon - cpu), cpu);
        assert_int_equal(rig_topology_set_cpu(t, vendor, (unsigned)atoi(colon + 1), NULL, &err),
                         RIG_OK);
    }
    return t;
}

int function_at(const struct rig_topology *t, const char *bdf)
{
    int i = rig_topology_find_bdf(t, bdf_of(bdf));
    if (i < 0)
        fail_msg("no function %s", bdf);
    return i;
}
