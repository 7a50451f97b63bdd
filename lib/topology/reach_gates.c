#include "topology/reach.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

char *short_name(const struct rig_topology *t, int i, char text[48])
{
    char bdf[RIG_BDF_MAX];
    const struct rig_function *f = &t->node[i].f;
    rig_bdf_format(f->bdf, bdf);
    if (f->alias)
        snprintf(text, 48, "%.20s (%s)", f->alias, bdf);
    else
        snprintf(text, 48, "%s", bdf);
    return text;
}

static_assert(RIG_GATE_COUNT <= RIG_GATES_MAX, "each gate is added once at most");

static void add(struct rig_reach *r, enum rig_gate_token gate, enum rig_answer open, bool decides,
                const char *format, ...) __attribute__((format(printf, 5, 6)));

static void add(struct rig_reach *r, enum rig_gate_token gate, enum rig_answer open, bool decides,
                const char *format, ...)
{
    struct rig_gate *g = &r->gates[r->gate_count++];
    g->gate = gate;
    g->open = open;
    g->decides = decides;
    va_list args;
    va_start(args, format);
    vsnprintf(g->why, sizeof g->why, format, args);
    va_end(args);
}

static enum rig_answer both(enum rig_answer a, enum rig_answer b)
{
    if (a == RIG_ANSWER_NO || b == RIG_ANSWER_NO)
        return RIG_ANSWER_NO;
    return a == RIG_ANSWER_YES && b == RIG_ANSWER_YES ? RIG_ANSWER_YES : RIG_ANSWER_UNKNOWN;
}

/* Appends to a text of `bytes` bytes what still fits. */
static void append(char *text, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void append(char *text, size_t bytes, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, bytes - used, format, args);
    va_end(args);
}

/* ---- the machine, the space, the link */

static const char *space_name(int space)
{
    static const char *const names[] = {"the plain space", "AMD's space", "NVIDIA's space",
                                        "Intel's space"};
    return space < 0 ? "a space not known" : names[space];
}

/* A gate of a GPU's memory, asked of what may be no GPU: it closes nothing for certain then. */
static enum rig_answer if_gpu(const struct side *to, enum rig_answer open)
{
    return open == RIG_ANSWER_NO && to->gpu == RIG_ANSWER_UNKNOWN ? RIG_ANSWER_UNKNOWN : open;
}

static void add_places(const struct rig_topology *t, const struct side *from, const struct side *to,
                       struct rig_reach *r)
{
    bool self = r->from == r->to, asked = to->gpu != RIG_ANSWER_NO;
    add(r, RIG_GATE_SELF, self ? if_gpu(to, RIG_ANSWER_NO) : RIG_ANSWER_YES, asked,
        self ? "a GPU maps its own memory already" : "two different functions");
    add(r, RIG_GATE_OTHER_MACHINE, RIG_ANSWER_YES, asked, "both are of this machine");
    bool remote = fact_is(t->machine.remote, 1);
    add(r, RIG_GATE_REMOTE_MACHINE, remote ? if_gpu(to, RIG_ANSWER_NO) : RIG_ANSWER_YES, asked,
        remote ? "the machine is reached through a transport, which carries no peer requests"
               : "the machine is not reached through a transport");
    if (from->gpu == RIG_ANSWER_NO || !asked)
        return;
    enum rig_answer space = if_gpu(to, gate_space(from, to));
    if (space == RIG_ANSWER_YES)
        add(r, RIG_GATE_OTHER_SPACE, space, true, "both take addresses from %s",
            space_name(to->space));
    else
        add(r, RIG_GATE_OTHER_SPACE, space, true, "one takes addresses from %s, the other from %s",
            space_name(from->space), space_name(to->space));
    if (gate_link(from, to) && !self)
        add(r, RIG_GATE_LINK, RIG_ANSWER_YES, true, "links of fabric %u join them", to->fabric);
    else
        add(r, RIG_GATE_LINK, RIG_ANSWER_NO, false, "no link of a fabric joins them");
}

/* ---- the IOMMU */

static const char *iommu_word(const struct rig_function *f)
{
    if (!rig_fact_has(f->iommu))
        return rig_fact_has(f->iommu_group) ? "is behind one of unknown type" : "may be translated";
    switch (f->iommu.value) {
    case RIG_IOMMU_TRANSLATE:
        return "is translated";
    case RIG_IOMMU_IDENTITY:
        return "passes an identity mapping";
    default:
        return "is behind none";
    }
}

/* The type of f's group, or NULL where it is not known or an assumption says otherwise. */
static const char *group_type(const struct rig_function *f)
{
    if (!rig_text_has(f->iommu_type))
        return NULL;
    const char *type = f->iommu_type.value;
    bool identity = strcmp(type, "identity") == 0;
    return rig_fact_has(f->iommu) && identity != fact_is(f->iommu, RIG_IOMMU_IDENTITY) ? NULL
                                                                                       : type;
}

static void describe_iommu(const struct rig_topology *t, int i, char *text, size_t bytes)
{
    const struct rig_function *f = &t->node[i].f;
    char name[48];
    snprintf(text, bytes, "%s %s", short_name(t, i, name), iommu_word(f));
    if (!rig_fact_has(f->iommu_group) || fact_is(f->iommu, RIG_IOMMU_NONE))
        return;
    const char *type = group_type(f);
    append(text, bytes, " (group %" PRIu64 "%s%s)", f->iommu_group.value, type ? ", " : "",
           type ? type : "");
}

static void add_iommu(const struct rig_topology *t, const struct side *from, const struct side *to,
                      struct rig_reach *r)
{
    char a[140], b[140];
    describe_iommu(t, r->from, a, sizeof a);
    describe_iommu(t, r->to, b, sizeof b);
    add(r, RIG_GATE_IOMMU_TRANSLATES, if_gpu(to, both(from->passes, to->passes)), true, "%s; %s", a,
        b);
}

/* ---- the BAR */

static void add_bar(const struct rig_topology *t, const struct side *from, const struct side *to,
                    struct rig_reach *r)
{
    const struct rig_function *f = &t->node[r->to].f;
    if (f->memory_bar < 0) {
        const char *why =
            to->assigned == RIG_ANSWER_NO ? "it has no memory BAR" : "its BARs are not known";
        add(r, RIG_GATE_BAR_UNASSIGNED, if_gpu(to, to->assigned), true, "%s", why);
        add(r, RIG_GATE_BAR_SMALL, if_gpu(to, to->covers), true, "%s", why);
        return;
    }
    const struct rig_bar *bar = &f->bar[f->memory_bar];
    bool decode_off =
        rig_fact_has(f->command) && (f->command_mask & 2u) && !(f->command.value & 2u);
    if (to->assigned == RIG_ANSWER_YES)
        add(r, RIG_GATE_BAR_UNASSIGNED, to->assigned, true, "BAR %d is at 0x%" PRIx64 "%s",
            f->memory_bar, rig_fact_has(bar->bus) ? bar->bus.value : bar->cpu.value,
            decode_off ? "; memory decode is off now" : "");
    else
        add(r, RIG_GATE_BAR_UNASSIGNED, if_gpu(to, to->assigned), true, "BAR %d %s", f->memory_bar,
            to->assigned == RIG_ANSWER_NO ? "has no address" : "is at an address not known");
    char size[RIG_SIZE_MAX] = "an unknown size", memory[RIG_SIZE_MAX] = "an unknown amount";
    uint64_t bound = rig_fact_has(bar->size) ? 0 : bar_bound(t, r->to, f->memory_bar);
    if (rig_fact_has(bar->size) || bound)
        rig_size_format(bound ? bound : bar->size.value, size);
    if (rig_fact_has(f->gpu_memory))
        rig_size_format(f->gpu_memory.value, memory);
    add(r, RIG_GATE_BAR_SMALL, if_gpu(to, to->covers), true, "BAR %d reaches %s%s of %s of memory",
        f->memory_bar, bound ? "at most " : "", size, memory);
    if (from->gpu == RIG_ANSWER_NO)
        return;
    enum rig_answer mask = gate_mask(from, to);
    if (mask == RIG_ANSWER_UNKNOWN)
        add(r, RIG_GATE_BAR_ABOVE_MASK, mask, false,
            "how many address bits the entries hold, or the BAR needs, is not known");
    else
        add(r, RIG_GATE_BAR_ABOVE_MASK, if_gpu(to, if_gpu(from, mask)), true,
            "the BAR needs %u address bits, the entries hold %u", to->bits_needed, from->bits_held);
}

/* ---- p2pdma */

static void list_ports(const struct rig_topology *t, const int *ports, int count, bool with_bits,
                       char *text, size_t bytes)
{
    const int most = 6;
    text[0] = '\0';
    for (int i = 0; i < count && i < most; i++) {
        char bdf[RIG_BDF_MAX];
        const struct rig_function *f = &t->node[ports[i]].f;
        append(text, bytes, "%s%s", i ? ", " : "", rig_bdf_format(f->bdf, bdf));
        if (with_bits)
            append(text, bytes, " (0x%04x)", (unsigned)f->acs_control.value);
    }
    if (count > most)
        append(text, bytes, " and %d more", count - most);
}

static void add_common(const struct rig_topology *t, struct rig_reach *r, bool refused)
{
    const struct rig_p2pdma *d = &r->p2pdma;
    char bdf[RIG_BDF_MAX], ports[240];
    if (d->has_common == RIG_ANSWER_YES)
        add(r, RIG_GATE_SAME_BRIDGE, RIG_ANSWER_YES, false, "%s is above both, at distance %d",
            rig_bdf_format(t->node[d->common].f.bdf, bdf), d->distance);
    else if (d->has_common == RIG_ANSWER_NO)
        add(r, RIG_GATE_SAME_BRIDGE, RIG_ANSWER_NO, false, "no bridge is above both");
    else
        add(r, RIG_GATE_SAME_BRIDGE, RIG_ANSWER_UNKNOWN, !refused,
            "what is above one of them is not in the source");
    if (d->has_common == RIG_ANSWER_NO)
        return;
    if (d->redirecting_count) {
        list_ports(t, d->redirecting, d->redirecting_count, true, ports, sizeof ports);
        add(r, RIG_GATE_ACS_REDIRECT, RIG_ANSWER_NO, refused,
            "ACS redirects peer requests to the root complex at %s", ports);
    } else if (d->redirects == RIG_ANSWER_NO) {
        add(r, RIG_GATE_ACS_REDIRECT, RIG_ANSWER_YES, false,
            "no function on the path redirects peer requests by ACS");
    }
    if (d->unread_count && d->redirects != RIG_ANSWER_YES) {
        list_ports(t, d->unread, d->unread_count, false, ports, sizeof ports);
        add(r, RIG_GATE_ACS_UNREADABLE, RIG_ANSWER_UNKNOWN, (d->possible & RIG_NOT_SUPPORTED) != 0,
            "the ACS control is not known of %s", ports);
    }
}

static void add_cpu(const struct rig_topology *t, struct rig_reach *r, bool asked)
{
    const struct rig_machine_facts *m = &t->machine;
    const char *vendor = rig_text_has(m->cpu_vendor) ? m->cpu_vendor.value : "not known";
    bool open = asked && r->p2pdma.cpu_zen == RIG_ANSWER_UNKNOWN &&
                (r->p2pdma.possible & RIG_NOT_SUPPORTED);
    if (rig_fact_has(m->cpu_family))
        add(r, RIG_GATE_CPU_AMD_ZEN, r->p2pdma.cpu_zen, open, "the CPU is %s family %" PRIu64,
            vendor, m->cpu_family.value);
    else
        add(r, RIG_GATE_CPU_AMD_ZEN, r->p2pdma.cpu_zen, open, "the CPU is %s%s", vendor,
            r->p2pdma.cpu_zen == RIG_ANSWER_UNKNOWN && rig_text_has(m->cpu_vendor)
                ? ", its family not known"
                : "");
}

static void name_bridge(const struct rig_topology *t, const struct rig_bridge_answer *b, char *text,
                        size_t bytes)
{
    char bdf[RIG_BDF_MAX];
    if (b->host_bridge < 0) {
        snprintf(text, bytes, "a host bridge that the source does not show");
        return;
    }
    const struct rig_host_bridge *h = &t->host_bridge[b->host_bridge];
    snprintf(text, bytes, "host bridge pci%04x:%02x", (unsigned)h->domain, (unsigned)h->bus);
    if (b->representative < 0) {
        append(text, bytes, "%s",
               b->listed == RIG_LISTED_NONE ? " has no function that Linux's list could name"
                                            : " may lack its first function in the source");
        return;
    }
    append(text, bytes, " by %s", rig_bdf_format(t->node[b->representative].f.bdf, bdf));
    if (rig_fact_has(b->vendor) && rig_fact_has(b->device))
        append(text, bytes, " %04x:%04x", (unsigned)b->vendor.value, (unsigned)b->device.value);
    static const char *const word[] = {
        [RIG_LISTED_NO] = "is not on Linux's list",
        [RIG_LISTED_ANY] = "is listed",
        [RIG_LISTED_SAME] = "is listed for functions under one host bridge",
        [RIG_LISTED_NONE] = "is not on Linux's list",
        [RIG_LISTED_UNKNOWN] = "may be listed",
    };
    append(text, bytes, " %s", word[b->listed]);
}

static enum rig_gate_token bridge_gate(const struct rig_bridge_answer *b, bool same,
                                       enum rig_answer *open)
{
    static const struct {
        enum rig_gate_token gate;
        enum rig_answer open;
    } by_list[] = {
        [RIG_LISTED_NO] = {RIG_GATE_BRIDGE_UNLISTED, RIG_ANSWER_NO},
        [RIG_LISTED_ANY] = {RIG_GATE_BRIDGE_LISTED, RIG_ANSWER_YES},
        [RIG_LISTED_SAME] = {RIG_GATE_BRIDGE_LISTED, RIG_ANSWER_YES},
        [RIG_LISTED_NONE] = {RIG_GATE_NO_REPRESENTATIVE, RIG_ANSWER_NO},
        [RIG_LISTED_UNKNOWN] = {RIG_GATE_BRIDGE_LISTED, RIG_ANSWER_UNKNOWN},
    };
    if (b->listed == RIG_LISTED_SAME && !same) {
        *open = RIG_ANSWER_NO;
        return RIG_GATE_BRIDGE_SAME_ONLY;
    }
    *open = by_list[b->listed].open;
    return by_list[b->listed].gate;
}

static void add_bridges(const struct rig_topology *t, const struct rig_rules *rules,
                        struct rig_reach *r, bool refused)
{
    const struct rig_bridge_answer *b = r->p2pdma.bridge;
    bool same = b[0].host_bridge >= 0 && b[0].host_bridge == b[1].host_bridge;
    bool open_question = (r->p2pdma.possible & RIG_NOT_SUPPORTED) != 0;
    for (int i = 0; i < (same ? 1 : 2); i++) {
        char text[220];
        enum rig_answer open;
        enum rig_gate_token gate = bridge_gate(&b[i], same, &open);
        name_bridge(t, &b[i], text, sizeof text);
        bool decides = open == RIG_ANSWER_NO ? refused
                       : open == RIG_ANSWER_UNKNOWN
                           ? open_question && r->p2pdma.host_carries == RIG_ANSWER_UNKNOWN
                           : false;
        add(r, gate, open, decides, "%s (rules of %s)", text, rules->name);
    }
}

static void add_kernel(const struct rig_topology *t, struct rig_reach *r)
{
    struct rig_fact on = t->machine.p2pdma;
    if (fact_is(on, 0))
        add(r, RIG_GATE_P2PDMA_OFF, RIG_ANSWER_NO, false,
            "this kernel is built without CONFIG_PCI_P2PDMA: its own drivers are refused");
    else if (rig_fact_has(on))
        add(r, RIG_GATE_P2PDMA_OFF, RIG_ANSWER_YES, false,
            "this kernel is built with CONFIG_PCI_P2PDMA");
    else
        add(r, RIG_GATE_P2PDMA_OFF, RIG_ANSWER_UNKNOWN, false,
            "whether this kernel is built with CONFIG_PCI_P2PDMA is not known");
}

/* What is of the bus hangs on nothing where links go around it. */
static void go_by_link(struct rig_reach *r)
{
    for (int i = 0; i < r->gate_count; i++) {
        enum rig_gate_token gate = r->gates[i].gate;
        if (gate != RIG_GATE_SELF && gate != RIG_GATE_OTHER_MACHINE &&
            gate != RIG_GATE_OTHER_SPACE && gate != RIG_GATE_LINK)
            r->gates[i].decides = false;
    }
}

void describe_gates(const struct rig_topology *t, const struct rig_rules *rules,
                    const struct side *from, const struct side *to, struct rig_reach *r)
{
    add_places(t, from, to, r);
    if (to->gpu != RIG_ANSWER_NO) {
        add_iommu(t, from, to, r);
        add_bar(t, from, to, r);
    } else {
        static const enum rig_gate_token memory[] = {RIG_GATE_IOMMU_TRANSLATES,
                                                     RIG_GATE_BAR_UNASSIGNED, RIG_GATE_BAR_SMALL};
        for (size_t i = 0; i < RIG_ARRAY_LENGTH(memory); i++)
            add(r, memory[i], RIG_ANSWER_UNKNOWN, false, "not asked: the target is no GPU");
    }
    bool refused = r->p2pdma.possible == RIG_NOT_SUPPORTED;
    bool asked = r->p2pdma.has_common != RIG_ANSWER_YES || r->p2pdma.redirects != RIG_ANSWER_NO;
    add_common(t, r, refused);
    add_cpu(t, r, asked);
    add_bridges(t, rules, r, refused);
    add_kernel(t, r);
    if (gate_link(from, to) && r->from != r->to)
        go_by_link(r);
}
