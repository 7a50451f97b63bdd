/* Facts from outside: what a source lacks, or what is to be tried. */
#include "topology/gates.h"
#include "topology/rules.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Makes *out the fact of that value: known, or assumed where `from` says from what. */
static enum rig_status fact_given(struct rig_topology *t, uint64_t value, const char *from,
                                  struct rig_fact *out, struct rig_error *err)
{
    if (!from) {
        *out = fact_known(value);
        return RIG_OK;
    }
    const char *kept = topology_intern(t, from, strlen(from));
    if (!kept)
        return rig_fail_memory(err);
    *out = fact_assumed(value, kept);
    return RIG_OK;
}

static enum rig_status finish(struct rig_topology *t, struct rig_error *err)
{
    return topology_finish(t, "the machine", err);
}

static enum rig_status find(const struct rig_topology *t, const char *function, int *out,
                            struct rig_error *err)
{
    int i = rig_topology_find(t, function);
    if (i < 0) {
        rig_fail(err, RIG_INVALID, function, "no such function");
        rig_hint(err, "rigmem list shows the machine's functions and their short names");
        return RIG_INVALID;
    }
    *out = i;
    return RIG_OK;
}

/* Names people give CPUs, and what cpuid calls the vendor. */
static const char *const vendor_names[][2] = {
    {"AMD", "AuthenticAMD"}, {"Intel", "GenuineIntel"},   {"Hygon", "HygonGenuine"},
    {"VIA", "CentaurHauls"}, {"Zhaoxin", "  Shanghai  "},
};

enum rig_status rig_topology_set_cpu(struct rig_topology *t, const char *vendor, unsigned family,
                                     const char *from, struct rig_error *err)
{
    if (!vendor[0] || strlen(vendor) > 64)
        return rig_fail(err, RIG_INVALID, vendor, "not a CPU vendor");
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(vendor_names); i++)
        if (strcasecmp(vendor, vendor_names[i][0]) == 0 ||
            strcasecmp(vendor, vendor_names[i][1]) == 0)
            vendor = vendor_names[i][1];
    struct rig_text text = topology_text(t, vendor);
    if (!rig_text_has(text))
        return rig_fail_memory(err);
    struct rig_fact number;
    enum rig_status status = fact_given(t, family, from, &number, err);
    if (status != RIG_OK)
        return status;
    text.know = number.know;
    text.from = number.from;
    t->machine.cpu_vendor = text;
    t->machine.cpu_family = number;
    return finish(t, err);
}

enum rig_status rig_topology_set_kernel(struct rig_topology *t, const char *release,
                                        struct rig_error *err)
{
    unsigned major, minor;
    if (strlen(release) > 128 || !kernel_version(release, &major, &minor))
        return rig_fail(err, RIG_INVALID, release, "not a kernel release, such as 6.1.0-18-amd64");
    struct rig_text text = topology_text(t, release);
    if (!rig_text_has(text))
        return rig_fail_memory(err);
    t->machine.kernel = text;
    return finish(t, err);
}

enum rig_status rig_topology_set_p2pdma(struct rig_topology *t, bool on, const char *from,
                                        struct rig_error *err)
{
    enum rig_status status = fact_given(t, on, from, &t->machine.p2pdma, err);
    return status == RIG_OK ? finish(t, err) : status;
}

enum rig_status rig_topology_set_iommu(struct rig_topology *t, const char *function,
                                       enum rig_iommu iommu, const char *from,
                                       struct rig_error *err)
{
    int first = 0, last = t->count - 1;
    struct rig_fact fact;
    if (strcmp(function, "all") != 0) {
        enum rig_status status = find(t, function, &first, err);
        if (status != RIG_OK)
            return status;
        last = first;
    }
    enum rig_status status = fact_given(t, iommu, from, &fact, err);
    if (status != RIG_OK)
        return status;
    for (int i = first; i <= last; i++) {
        t->node[i].f.iommu = fact;
        t->node[i].iommu_derived = false;
    }
    return finish(t, err);
}

enum rig_status rig_topology_set_gpu(struct rig_topology *t, const char *function,
                                     struct rig_error *err)
{
    int i;
    enum rig_status status = find(t, function, &i, err);
    if (status != RIG_OK)
        return status;
    if (is_bridge(&t->node[i].f))
        return rig_fail(err, RIG_INVALID, function, "is a bridge, not a GPU");
    t->node[i].f.gpu_named = true;
    return finish(t, err);
}

enum rig_status rig_topology_set_gpu_memory(struct rig_topology *t, const char *function,
                                            uint64_t bytes, struct rig_error *err)
{
    int i;
    enum rig_status status = find(t, function, &i, err);
    if (status != RIG_OK)
        return status;
    if (!t->node[i].f.gpu && !t->node[i].f.gpu_unknown) {
        rig_fail(err, RIG_INVALID, function, "is no GPU");
        rig_hint(err, "name it as one with --gpu %s", function);
        return RIG_INVALID;
    }
    if (bytes == 0)
        return rig_fail(err, RIG_INVALID, function, "a GPU with no memory");
    t->node[i].f.gpu_memory = fact_known(bytes);
    t->node[i].memory_derived = false;
    return finish(t, err);
}

enum rig_status rig_topology_link(struct rig_topology *t, const char *function, unsigned fabric,
                                  struct rig_error *err)
{
    int i;
    enum rig_status status = find(t, function, &i, err);
    if (status != RIG_OK)
        return status;
    if (!t->node[i].f.gpu)
        return rig_fail(err, RIG_INVALID, function, "is no GPU");
    t->node[i].linked = true;
    t->node[i].fabric = fabric;
    return RIG_OK;
}

enum rig_status rig_topology_set_tables(struct rig_topology *t, const char *function,
                                        const char *space, unsigned address_bits,
                                        struct rig_error *err)
{
    int i, number = space_named(space);
    enum rig_status status = find(t, function, &i, err);
    if (status != RIG_OK)
        return status;
    if (!t->node[i].f.gpu)
        return rig_fail(err, RIG_INVALID, function, "is no GPU");
    if (number == SPACE_UNKNOWN || address_bits == 0 || address_bits > 64)
        return rig_fail(err, RIG_INVALID, function, "no page tables are of %u bits and space '%s'",
                        address_bits, space);
    t->node[i].tables_given = true;
    t->node[i].space = number;
    t->node[i].bits_held = address_bits;
    return RIG_OK;
}

enum rig_status rig_topology_set_acs(struct rig_topology *t, const char *function, uint16_t word,
                                     const char *from, struct rig_error *err)
{
    int i;
    enum rig_status status = find(t, function, &i, err);
    if (status != RIG_OK)
        return status;
    struct rig_function *f = &t->node[i].f;
    if (f->acs_control.know == RIG_FACT_ABSENT || f->pcie_type.know == RIG_FACT_ABSENT)
        return rig_fail(err, RIG_INVALID, function, "has no ACS capability");
    status = fact_given(t, word, from, &f->acs_control, err);
    return status == RIG_OK ? finish(t, err) : status;
}

enum rig_status rig_topology_set_bar(struct rig_topology *t, const char *function, uint64_t bytes,
                                     const char *from, struct rig_error *err)
{
    int i;
    enum rig_status status = find(t, function, &i, err);
    if (status != RIG_OK)
        return status;
    struct rig_function *f = &t->node[i].f;
    if (f->memory_bar < 0)
        return rig_fail(err, RIG_INVALID, function, "has no memory BAR");
    if (!rig_power_of_two(bytes) || bytes < (1ull << 20))
        return rig_fail(err, RIG_INVALID, function, "a BAR's size is a power of two from 1 MiB up");
    status = fact_given(t, bytes, from, &f->bar[f->memory_bar].size, err);
    return status == RIG_OK ? finish(t, err) : status;
}

static bool is_below(const struct rig_topology *t, int i, int above)
{
    for (; i >= 0; i = t->node[i].f.parent)
        if (i == above)
            return true;
    return false;
}

/* The functions of one device sit on one card. */
static bool same_device(struct rig_bdf a, struct rig_bdf b)
{
    return a.domain == b.domain && a.bus == b.bus && a.device == b.device;
}

enum rig_status rig_topology_set_parent(struct rig_topology *t, const char *function,
                                        const char *port, const char *from, struct rig_error *err)
{
    int i, under;
    enum rig_status status = find(t, function, &i, err);
    if (status == RIG_OK)
        status = find(t, port, &under, err);
    if (status != RIG_OK)
        return status;
    struct rig_bdf moved = t->node[i].f.bdf, to = t->node[under].f.bdf;
    int old = t->node[i].f.parent;
    if (!is_bridge(&t->node[under].f))
        return rig_fail(err, RIG_INVALID, port, "is no bridge");
    if (old < 0 && t->node[i].f.parent_known.know != RIG_FACT_UNKNOWN)
        return rig_fail(err, RIG_INVALID, function,
                        "is on a root bus: a part of the root complex cannot be moved");
    for (int k = 0; k < t->count; k++)
        if (same_device(t->node[k].f.bdf, moved) && is_below(t, under, k))
            return rig_fail(err, RIG_INVALID, port, "is below %s, or is it", function);
    const char *kept = topology_intern(t, from ? from : "given", strlen(from ? from : "given"));
    if (!kept)
        return rig_fail_memory(err);
    struct rig_fact numa = t->node[under].f.numa_node;
    for (int k = 0; k < t->count; k++) {
        struct node *n = &t->node[k];
        bool card = same_device(n->f.bdf, moved) ||
                    (n->f.physical >= 0 && same_device(t->node[n->f.physical].f.bdf, moved));
        if (card || is_below(t, k, i))
            n->f.numa_node = numa;
        if (!card)
            continue;
        n->place = PLACE_UNDER;
        n->parent_bdf = to;
        n->place_from = kept;
    }
    return finish(t, err);
}
