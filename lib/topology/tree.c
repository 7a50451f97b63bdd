#include "topology/topology.h"

#include "topology/acs_list.h"
#include "topology/derive.h"

#include <stdlib.h>
#include <string.h>

/* What one domain's bridges say of its buses. */
struct buses {
    int owner[256];       /* the bridge whose secondary bus this is, -1 none, -2 several claim it */
    bool within[256];     /* a bridge's range holds it without owning it */
    bool root_sign[256];  /* a function that only a root bus can hold is on it */
    bool port_sign[256];  /* a function that no root bus holds is on it */
    bool has_bridge[256]; /* a bridge is on it */
    bool blind;           /* a bridge does not tell which buses it leads to */
};

static int by_place(const void *a, const void *b)
{
    const struct node *x = a, *y = b;
    return rig_bdf_compare(x->f.bdf, y->f.bdf);
}

static enum rig_status sort_functions(struct rig_topology *t, const char *name,
                                      struct rig_error *err)
{
    bool sorted = true;
    for (int i = 1; sorted && i < t->count; i++)
        sorted = by_place(&t->node[i - 1], &t->node[i]) <= 0;
    if (!sorted)
        qsort(t->node, (size_t)t->count, sizeof *t->node, by_place);
    for (int i = 1; i < t->count; i++) {
        if (by_place(&t->node[i - 1], &t->node[i]) != 0)
            continue;
        char text[RIG_BDF_MAX];
        rig_fail_at(err, name, 0, 0, "function %s appears twice",
                    rig_bdf_format(t->node[i].f.bdf, text));
        rig_hint(err, "one file holds one machine at one time; split it");
        return RIG_BAD_INPUT;
    }
    return RIG_OK;
}

/* A bridge's range counts only once firmware has set it: an unconfigured bridge reads zeros. */
static bool has_range(const struct rig_function *f)
{
    return is_bridge(f) && rig_fact_has(f->secondary) && f->secondary.value != 0;
}

static void note_bridge(struct rig_topology *t, struct buses *b, int i)
{
    const struct rig_function *f = &t->node[i].f;
    size_t secondary = (size_t)f->secondary.value;
    if (b->owner[secondary] == -1) {
        b->owner[secondary] = i;
    } else {
        topology_warn(t, "domain %04x: two bridges claim bus %02zx", f->bdf.domain, secondary);
        b->owner[secondary] = -2;
    }
    size_t last = rig_fact_has(f->subordinate) ? (size_t)f->subordinate.value : secondary;
    for (size_t bus = secondary + 1; bus <= last; bus++)
        b->within[bus] = true;
}

/* Skylake-E's root ports, whose type a dump of 64 bytes does not show. */
static bool root_port_by_id(const struct rig_function *f)
{
    return is_bridge(f) && fact_is(f->vendor, 0x8086) && rig_fact_has(f->device) &&
           f->device.value >= 0x2030 && f->device.value <= 0x2033;
}

/* Makers of root ports. */
static const uint16_t root_makers[] = {
    0x8086, 0x1022, 0x1d94, 0x1d17, /* x86: Intel, AMD, Hygon, Zhaoxin */
    0x10de, 0x13b5, 0x1def, 0x177d, /* NVIDIA, Arm, Ampere, Cavium */
    0x1d87, 0x17cb, 0x19e5, 0x1ae0, /* Rockchip, Qualcomm, HiSilicon, Google */
    0x1014, 0x106b, 0x1957, 0x1131, /* IBM, Apple, Freescale and NXP */
    0x11ab, 0x16c3, 0x1b36,         /* Marvell, Synopsys, QEMU */
};

/* Switches on graphics cards of a maker of root ports. */
static const uint16_t intel_switches[] = {0x4fa0, 0x4fa1, 0x4fa4, 0xe2f0, 0xe2ff};

/* A bridge of unknown type that is no root port, by its ids or name. */
static bool switch_by_name(const struct rig_function *f)
{
    static const char *const words[] = {"Switch", "Upstream", "Downstream", "Thunderbolt"};
    for (size_t i = 0; f->name && i < RIG_ARRAY_LENGTH(words); i++)
        if (strstr(f->name, words[i]))
            return true;
    if (!rig_fact_has(f->vendor))
        return false;
    bool maker = false;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(root_makers); i++)
        maker |= f->vendor.value == root_makers[i];
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(intel_switches); i++)
        if (f->vendor.value == 0x8086 && fact_is(f->device, intel_switches[i]))
            return true;
    return !maker;
}

/* Registers of Intel's processors and I/O hubs: system peripherals and performance counters. What
   is below a PCI Express port has device number 0. */
static bool processors_own(const struct rig_function *f)
{
    return fact_is(f->vendor, 0x8086) && f->bdf.device != 0 &&
           (f->class_code.value >> 8 == 0x0880 || f->class_code.value >> 8 == 0x1101);
}

static void note_signs(struct buses *b, const struct rig_function *f)
{
    uint8_t bus = f->bdf.bus;
    if (rig_fact_has(f->class_code) && (f->class_code.value >> 8 == 0x0600 || processors_own(f)))
        b->root_sign[bus] = true;
    b->has_bridge[bus] |= is_bridge(f);
    b->blind |= is_bridge(f) && f->secondary.know == RIG_FACT_UNKNOWN;
    if (f->pcie_type.know == RIG_FACT_UNKNOWN && is_bridge(f))
        b->port_sign[bus] |= switch_by_name(f);
    if (!rig_fact_has(f->pcie_type))
        return;
    switch (f->pcie_type.value) {
    case RIG_PCIE_ROOT_PORT:
    case RIG_PCIE_INTEGRATED_ENDPOINT:
    case RIG_PCIE_EVENT_COLLECTOR:
        b->root_sign[bus] = true;
        break;
    default:
        b->port_sign[bus] = true;
    }
}

static void survey_domain(struct rig_topology *t, int first, int end, struct buses *b)
{
    memset(b, 0, sizeof *b);
    for (size_t bus = 0; bus < 256; bus++)
        b->owner[bus] = -1;
    for (int i = first; i < end; i++) {
        struct node *n = &t->node[i];
        if (n->f.pcie_type.know == RIG_FACT_UNKNOWN && root_port_by_id(&n->f))
            n->f.pcie_type = fact_assumed(RIG_PCIE_ROOT_PORT, "its id is a root port's");
        if (has_range(&n->f))
            note_bridge(t, b, i);
        if (n->place == PLACE_ROOT && n->f.bdf.bus == n->parent_bdf.bus)
            b->root_sign[n->f.bdf.bus] = true;
        note_signs(b, &n->f);
    }
}

static void place(struct node *n, int parent, enum rig_know know, const char *from)
{
    n->f.parent = parent;
    n->f.parent_known =
        (struct rig_fact){.value = (uint64_t)(parent >= 0), .from = from, .know = know};
}

/* Domains from here on are made up by Linux's driver of Intel's Volume Management Device, and their
   first bus need not be 0 (Linux: drivers/pci/controller/vmd.c). */
#define FIRST_VMD_DOMAIN 0x10000u

static void place_by_buses(struct node *n, const struct buses *b)
{
    uint8_t bus = n->f.bdf.bus;
    if (b->owner[bus] >= 0)
        place(n, b->owner[bus], RIG_FACT_KNOWN, NULL);
    else if (b->owner[bus] == -2)
        place(n, -1, RIG_FACT_UNKNOWN, "two bridges claim its bus");
    else if (b->within[bus])
        place(n, -1, RIG_FACT_UNKNOWN,
              "no bridge in the source leads to its bus, which another bridge's range holds: a "
              "virtual function, or a bridge is missing");
    else if (b->root_sign[bus] || bus == 0)
        place(n, -1, RIG_FACT_KNOWN, NULL);
    else if (b->port_sign[bus])
        place(n, -1, RIG_FACT_UNKNOWN, "what is above its bus is not in the source");
    else if (!b->blind && (b->has_bridge[bus] || n->f.bdf.domain >= FIRST_VMD_DOMAIN))
        place(n, -1, RIG_FACT_ASSUMED, "no bridge in the source leads to its bus");
    else
        place(n, -1, RIG_FACT_UNKNOWN,
              "no bridge in the source leads to its bus: it is a root bus, or what is above it is "
              "missing");
}

static enum rig_status place_under(struct rig_topology *t, int i, const char *name,
                                   struct rig_error *err)
{
    struct node *n = &t->node[i];
    int parent = rig_topology_find_bdf(t, n->parent_bdf);
    char child[RIG_BDF_MAX], above[RIG_BDF_MAX];
    rig_bdf_format(n->f.bdf, child);
    rig_bdf_format(n->parent_bdf, above);
    if (parent < 0)
        return rig_fail_at(err, name, 0, 0, "%s: its parent %s is not there", child, above);
    if (rig_fact_has(t->node[parent].f.header_type) && !is_bridge(&t->node[parent].f))
        return rig_fail_at(err, name, 0, 0, "%s: its parent %s is no bridge", child, above);
    place(n, parent, n->place_from ? RIG_FACT_ASSUMED : RIG_FACT_KNOWN, n->place_from);
    return RIG_OK;
}

static enum rig_status place_functions(struct rig_topology *t, const char *name,
                                       struct rig_error *err)
{
    struct buses buses;
    enum rig_status status = RIG_OK;
    for (int i = 0, end = 0; status == RIG_OK && i < t->count; i++) {
        if (i == end) {
            while (end < t->count && t->node[end].f.bdf.domain == t->node[i].f.bdf.domain)
                end++;
            survey_domain(t, i, end, &buses);
        }
        struct node *n = &t->node[i];
        if (n->place == PLACE_BY_BUSES)
            place_by_buses(n, &buses);
        else if (n->place == PLACE_ROOT)
            place(n, -1, RIG_FACT_KNOWN, NULL);
        else if (n->place == PLACE_UNKNOWN)
            place(n, -1, RIG_FACT_UNKNOWN, "what is above it is not in the source");
        else
            status = place_under(t, i, name, err);
    }
    return status;
}

/* A virtual function sits where its physical function sits, whatever its bus number says. */
static void become_virtual(struct rig_topology *t, int i, int physical)
{
    struct node *n = &t->node[i];
    const struct rig_function *p = &t->node[physical].f;
    n->f.physical = physical;
    n->f.virtual_of = fact_known(1);
    if (n->place == PLACE_BY_BUSES)
        place(n, p->parent, p->parent_known.know, p->parent_known.from);
}

static int routing_id(struct rig_bdf bdf)
{
    return bdf.bus << 8 | bdf.device << 3 | bdf.function;
}

/* Finds the virtual functions of one physical function by offset and stride (PCIe base
   specification, 9.3.3.8 to 9.3.3.10). What has the capability itself is no virtual function
   (9.3.3).
 */
static void match_virtual(struct rig_topology *t, int physical)
{
    const struct rig_function *p = &t->node[physical].f;
    if (!rig_fact_has(p->vf_count) || !rig_fact_has(p->vf_offset) || !rig_fact_has(p->vf_stride))
        return;
    uint64_t id = (uint64_t)routing_id(p->bdf) + p->vf_offset.value;
    for (uint64_t k = 0; k < p->vf_count.value && id < 65536; k++, id += p->vf_stride.value) {
        struct rig_bdf bdf = {p->bdf.domain, (uint8_t)(id >> 8), (uint8_t)(id >> 3 & 31),
                              (uint8_t)(id & 7)};
        int i = rig_topology_find_bdf(t, bdf);
        if (i >= 0 && !rig_fact_has(t->node[i].f.vf_count))
            become_virtual(t, i, physical);
        if (p->vf_stride.value == 0)
            break;
    }
}

/* Configuration space of a virtual function reads all ones in its ids (PCIe, 9.3.4.1.1). */
static bool reads_like_virtual(const struct rig_function *f)
{
    return f->vendor.know == RIG_FACT_KNOWN && f->vendor.value == 0xffff &&
           rig_fact_has(f->header_type);
}

static enum rig_status find_virtual(struct rig_topology *t, const char *name, struct rig_error *err)
{
    for (int i = 0; i < t->count; i++) {
        struct node *n = &t->node[i];
        n->f.physical = -1;
        if (!n->physical_given)
            n->f.virtual_of =
                n->f.parent_known.know == RIG_FACT_UNKNOWN ? fact_unknown(NULL) : fact_absent();
    }
    for (int i = 0; i < t->count; i++)
        match_virtual(t, i);
    for (int i = 0; i < t->count; i++) {
        struct node *n = &t->node[i];
        if (n->physical_given) {
            int physical = rig_topology_find_bdf(t, n->physical_bdf);
            if (physical < 0 || t->node[physical].physical_given ||
                t->node[physical].f.physical >= 0) {
                char text[RIG_BDF_MAX];
                return rig_fail_at(err, name, 0, 0,
                                   "%s: its physical function is not there, or is virtual itself",
                                   rig_bdf_format(n->f.bdf, text));
            }
            become_virtual(t, i, physical);
        } else if (n->f.physical < 0 && n->place == PLACE_BY_BUSES && reads_like_virtual(&n->f)) {
            n->f.virtual_of = fact_unknown(NULL);
            place(n, -1, RIG_FACT_UNKNOWN,
                  "it reads like a virtual function, and no physical function's SR-IOV capability "
                  "leads to it");
        }
    }
    return RIG_OK;
}

/* No domain has more buses, so no real chain of bridges is longer. */
#define MAX_CHAIN 257

static enum rig_status refuse_loops(struct rig_topology *t, const char *name, struct rig_error *err)
{
    for (int i = 0; i < t->count; i++) {
        int steps = 0;
        for (int at = i; at >= 0 && steps <= MAX_CHAIN; at = t->node[at].f.parent)
            steps++;
        char text[RIG_BDF_MAX];
        if (steps > MAX_CHAIN)
            return rig_fail_at(err, name, 0, 0,
                               "the bridges above %s form a loop, or are more than 256",
                               rig_bdf_format(t->node[i].f.bdf, text));
    }
    return RIG_OK;
}

static int by_bus(const void *a, const void *b)
{
    const struct rig_host_bridge *x = a, *y = b;
    if (x->domain != y->domain)
        return x->domain < y->domain ? -1 : 1;
    return (int)x->bus - (int)y->bus;
}

static int find_host_bridge(const struct rig_topology *t, struct rig_bdf root)
{
    struct rig_host_bridge key = {.domain = root.domain, .bus = root.bus};
    struct rig_host_bridge *found =
        bsearch(&key, t->host_bridge, (size_t)t->host_bridges, sizeof *t->host_bridge, by_bus);
    return found ? (int)(found - t->host_bridge) : -1;
}

/* The root bus that a function at the top of its chain is on. */
static struct rig_bdf root_bus_of(const struct node *n)
{
    return n->place == PLACE_ROOT ? n->parent_bdf : n->f.bdf;
}

static bool at_root(const struct node *n)
{
    return n->f.parent < 0 && n->f.parent_known.know != RIG_FACT_UNKNOWN;
}

static enum rig_status collect_host_bridges(struct rig_topology *t, struct rig_error *err)
{
    free(t->host_bridge);
    t->host_bridges = 0;
    t->host_bridge = calloc((size_t)t->count + 1, sizeof *t->host_bridge);
    if (!t->host_bridge)
        return rig_fail_memory(err);
    int n = 0;
    for (int i = 0; i < t->count; i++) {
        if (!at_root(&t->node[i]) || t->node[i].f.physical >= 0)
            continue;
        struct rig_bdf root = root_bus_of(&t->node[i]);
        t->host_bridge[n++] =
            (struct rig_host_bridge){.domain = root.domain, .bus = root.bus, .first = -1};
    }
    qsort(t->host_bridge, (size_t)n, sizeof *t->host_bridge, by_bus);
    for (int i = 0; i < n; i++)
        if (i == 0 || by_bus(&t->host_bridge[i - 1], &t->host_bridge[i]) != 0)
            t->host_bridge[t->host_bridges++] = t->host_bridge[i];
    return RIG_OK;
}

static int top_of(const struct rig_topology *t, int i)
{
    if (t->node[i].f.physical >= 0)
        i = t->node[i].f.physical;
    while (t->node[i].f.parent >= 0)
        i = t->node[i].f.parent;
    return i;
}

/* Linux looks at the first device of the root bus; a text that somebody filtered may lack it
   (pci_host_bridge_dev in drivers/pci/p2pdma.c). */
static void find_first(struct rig_topology *t, int i)
{
    const struct node *n = &t->node[i];
    if (!at_root(n) || n->f.physical >= 0)
        return;
    struct rig_host_bridge *h = &t->host_bridge[n->f.host_bridge];
    if (h->first >= 0 || n->f.bdf.bus != h->bus || n->f.bdf.domain != h->domain)
        return;
    h->first = i;
    h->first_known = t->whole || n->f.bdf.function == 0
                         ? fact_known(1)
                         : fact_unknown("the source may lack the first function of the root bus");
}

static void find_host_bridges(struct rig_topology *t)
{
    for (int i = 0; i < t->count; i++) {
        const struct node *top = &t->node[top_of(t, i)];
        struct rig_bdf root = root_bus_of(top);
        t->node[i].f.host_bridge = at_root(top) ? find_host_bridge(t, root) : -1;
    }
    for (int i = 0; i < t->count; i++)
        find_first(t, i);
    for (int i = 0; i < t->host_bridges; i++)
        if (t->host_bridge[i].first < 0)
            t->host_bridge[i].first_known =
                t->whole ? fact_known(0)
                         : fact_unknown("the source shows no function on the root bus");
    for (int i = 0; i < t->count; i++) {
        const struct rig_function *f = &t->node[i].f;
        if (f->host_bridge < 0 || rig_fact_has(t->host_bridge[f->host_bridge].numa_node))
            continue;
        t->host_bridge[f->host_bridge].numa_node = f->numa_node;
    }
}

enum rig_status topology_finish(struct rig_topology *t, const char *name, struct rig_error *err)
{
    enum rig_status status = sort_functions(t, name, err);
    if (status == RIG_OK)
        status = place_functions(t, name, err);
    if (status == RIG_OK)
        status = refuse_loops(t, name, err);
    if (status == RIG_OK)
        status = find_virtual(t, name, err);
    if (status == RIG_OK)
        status = refuse_loops(t, name, err);
    if (status == RIG_OK)
        status = collect_host_bridges(t, err);
    if (status != RIG_OK)
        return status;
    find_host_bridges(t);
    acs_list_check(t);
    return derive_facts(t, err);
}
