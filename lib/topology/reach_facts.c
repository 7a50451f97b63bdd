#include "topology/reach.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void add_note(struct rig_note *notes, int *count, const char *field, const char *value,
                     const char *why)
{
    for (int i = 0; i < *count; i++)
        if (strcmp(notes[i].field, field) == 0)
            return;
    if (*count == RIG_NOTES_MAX)
        return;
    struct rig_note *n = &notes[(*count)++];
    snprintf(n->field, sizeof n->field, "%s", field);
    snprintf(n->value, sizeof n->value, "%s", value);
    snprintf(n->why, sizeof n->why, "%s", why);
}

static char *field_of(const struct rig_topology *t, const char *fact, int function, char text[64])
{
    char bdf[RIG_BDF_MAX];
    snprintf(text, 64, "%.30s %s", fact, rig_bdf_format(t->node[function].f.bdf, bdf));
    return text;
}

static void assume(struct rig_reach *r, const char *field, struct rig_fact fact, const char *value)
{
    if (fact.know == RIG_FACT_ASSUMED)
        add_note(r->assumed, &r->assumed_count, field, value, fact.from);
}

static void miss(struct rig_reach *r, const char *field, const char *why)
{
    add_note(r->unknown, &r->unknown_count, field, "", why);
}

/* ---- assumed facts, of those that were asked */

static void assumed_of_side(const struct rig_topology *t, int i, struct rig_reach *r)
{
    static const char *const treatment[] = {"none", "identity", "translate"};
    const struct rig_function *f = &t->node[i].f;
    char field[64];
    if ((t->node[r->to].f.gpu || t->node[r->to].f.gpu_unknown) && rig_fact_has(f->iommu))
        assume(r, field_of(t, "iommu", i, field), f->iommu, treatment[f->iommu.value]);
}

static void assumed_memory(const struct rig_topology *t, struct rig_reach *r)
{
    const struct rig_function *f = &t->node[r->to].f;
    char field[64], size[RIG_SIZE_MAX];
    if (!f->gpu || !rig_fact_has(f->gpu_memory))
        return;
    assume(r, field_of(t, "gpu-memory", r->to, field), f->gpu_memory,
           rig_size_format(f->gpu_memory.value, size));
    if (f->memory_bar >= 0 && rig_fact_has(f->bar[f->memory_bar].size))
        assume(r, field_of(t, "bar", r->to, field), f->bar[f->memory_bar].size,
               rig_size_format(f->bar[f->memory_bar].size.value, size));
}

static void assumed_path(const struct rig_topology *t, struct rig_reach *r)
{
    const int ends[] = {r->from, r->to};
    char field[64], value[64];
    for (size_t k = 0; k < RIG_ARRAY_LENGTH(ends); k++) {
        for (int i = ends[k]; i >= 0; i = t->node[i].f.parent) {
            const struct rig_function *f = &t->node[i].f;
            if (f->parent_known.know == RIG_FACT_ASSUMED)
                assume(r, field_of(t, "parent", i, field), f->parent_known,
                       f->parent < 0 ? "a root bus"
                                     : rig_bdf_format(t->node[f->parent].f.bdf, value));
            if (f->acs_control.know == RIG_FACT_ASSUMED && r->p2pdma.has_common != RIG_ANSWER_NO) {
                snprintf(value, sizeof value, "0x%04x", (unsigned)f->acs_control.value);
                assume(r, field_of(t, "acs", i, field), f->acs_control, value);
            }
            if (i == r->p2pdma.common)
                break;
        }
    }
}

static bool host_asked(const struct rig_p2pdma *d)
{
    return d->has_common != RIG_ANSWER_YES || d->redirects != RIG_ANSWER_NO;
}

static void assumed_host(const struct rig_topology *t, struct rig_reach *r)
{
    const struct rig_machine_facts *m = &t->machine;
    char field[64], value[64];
    if (!host_asked(&r->p2pdma))
        return;
    if (m->cpu_vendor.know == RIG_FACT_ASSUMED || m->cpu_family.know == RIG_FACT_ASSUMED) {
        bool family = rig_fact_has(m->cpu_family);
        const char *vendor = rig_text_has(m->cpu_vendor) ? m->cpu_vendor.value : "?";
        snprintf(value, sizeof value, family ? "%.40s:%" PRIu64 : "%.40s", vendor,
                 m->cpu_family.value);
        const char *from =
            m->cpu_vendor.know == RIG_FACT_ASSUMED ? m->cpu_vendor.from : m->cpu_family.from;
        add_note(r->assumed, &r->assumed_count, "cpu", value, from);
    }
    if (r->p2pdma.cpu_zen == RIG_ANSWER_YES)
        return;
    for (int k = 0; k < 2; k++) {
        const struct rig_bridge_answer *b = &r->p2pdma.bridge[k];
        if (b->representative < 0)
            continue;
        bool device = rig_fact_has(b->device);
        snprintf(value, sizeof value, device ? "%04x:%04x" : "%04x:", (unsigned)b->vendor.value,
                 (unsigned)b->device.value);
        struct rig_fact id = b->device.know == RIG_FACT_ASSUMED ? b->device : b->vendor;
        assume(r, field_of(t, "ids", b->representative, field), id, value);
        assume(r, field_of(t, "port type", b->representative, field),
               t->node[b->representative].f.pcie_type, "root port");
    }
}

/* ---- missing facts: what hangs on each, and how to give it */

/* Conditions joined by "and" into "yes if ..., else no". */
struct conditions {
    char text[440];
    int count;
    bool only_cpu;
};

static void condition(struct conditions *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void condition(struct conditions *c, const char *format, ...)
{
    char text[sizeof c->text];
    size_t used = strlen(c->text);
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(c->text + used, sizeof c->text - used, "%s%s", c->count++ ? " and " : "", text);
}

static void miss_iommu(const struct rig_topology *t, int i, struct rig_reach *r,
                       struct conditions *c)
{
    const struct rig_function *f = &t->node[i].f;
    if (rig_fact_has(f->iommu))
        return;
    char field[64], why[192], bdf[RIG_BDF_MAX];
    rig_bdf_format(f->bdf, bdf);
    snprintf(why, sizeof why, "%s; give it by --iommu %s=none|identity|translate",
             f->iommu.from ? f->iommu.from : "not known", bdf);
    miss(r, field_of(t, "iommu", i, field), why);
    condition(c, "no IOMMU translates for %s", bdf);
}

static void miss_kind(const struct rig_topology *t, int i, struct rig_reach *r)
{
    char field[64], why[192], bdf[RIG_BDF_MAX];
    snprintf(why, sizeof why,
             "the source does not show whether it is one; name it with --gpu %s, or use a source "
             "with classes (lspci -nn -vvv)",
             rig_bdf_format(t->node[i].f.bdf, bdf));
    miss(r, field_of(t, "gpu", i, field), why);
}

/* What is asked of a client that is a GPU, or may be one. */
static void miss_client(const struct rig_topology *t, const struct side *from,
                        const struct side *to, struct rig_reach *r, struct conditions *c)
{
    bool may = from->gpu == RIG_ANSWER_UNKNOWN;
    bool vendor = from->space == SPACE_UNKNOWN || to->space == SPACE_UNKNOWN;
    enum rig_answer space = gate_space(from, to);
    char bdf[RIG_BDF_MAX];
    rig_bdf_format(t->node[r->from].f.bdf, bdf);
    if (space == RIG_ANSWER_UNKNOWN && vendor)
        miss(r, "vendor", "a GPU's vendor is not known: use a source with ids (lspci -nn)");
    if (may && (space == RIG_ANSWER_UNKNOWN || gate_mask(from, to) == RIG_ANSWER_NO)) {
        miss_kind(t, r->from, r);
        condition(c, vendor ? "%s is of the same vendor if it is a GPU" : "%s is no GPU", bdf);
    } else if (space == RIG_ANSWER_UNKNOWN) {
        condition(c, "both GPUs are of one vendor");
    }
}

static void miss_memory(const struct rig_topology *t, const struct side *from,
                        const struct side *to, struct rig_reach *r, struct conditions *c)
{
    const struct rig_function *f = &t->node[r->to].f;
    char field[64], why[192], bdf[RIG_BDF_MAX];
    rig_bdf_format(f->bdf, bdf);
    miss_client(t, from, to, r, c);
    if (to->assigned == RIG_ANSWER_UNKNOWN) {
        miss(r, field_of(t, "bar address", r->to, field), "the source does not show it");
        condition(c, "the memory BAR of %s has an address", bdf);
    }
    bool no_bar = f->memory_bar < 0 && to->assigned == RIG_ANSWER_NO;
    if (to->covers != RIG_ANSWER_UNKNOWN || no_bar)
        return;
    bool bar = f->memory_bar >= 0 && rig_fact_has(f->bar[f->memory_bar].size);
    if (!bar) {
        uint64_t bound = f->memory_bar >= 0 ? bar_bound(t, r->to, f->memory_bar) : 0;
        char most[RIG_SIZE_MAX + 48] = "the source does not show it", size[RIG_SIZE_MAX];
        if (bound)
            snprintf(most, sizeof most, "at most %s by its address and the window above it",
                     rig_size_format(bound, size));
        snprintf(why, sizeof why, "%s; give it by --assume bar=%s:SIZE", most, bdf);
        miss(r, field_of(t, "bar size", r->to, field), why);
    }
    if (!rig_fact_has(f->gpu_memory)) {
        snprintf(why, sizeof why, "%.100s; give it by --gpu-memory %s=SIZE",
                 f->gpu_memory.from ? f->gpu_memory.from : "not known", bdf);
        miss(r, field_of(t, "gpu-memory", r->to, field), why);
    }
    condition(c, "the BAR of %s reaches all of its memory", bdf);
}

/* The host bridge above function i, or its first function, is not in the source. */
static void miss_top(const struct rig_topology *t, int i, const struct rig_bridge_answer *b,
                     struct rig_reach *r)
{
    char why[192], bdf[RIG_BDF_MAX];
    rig_bdf_format(t->node[chain_top(t, i)].f.bdf, bdf);
    snprintf(
        why, sizeof why,
        b->host_bridge < 0
            ? "what is above %s is not in the source: use all of lspci -vvv"
            : "the source may lack the first function of the root bus of %s: use all of lspci -vvv",
        bdf);
    miss(r, "host bridge", why);
}

static void miss_host(const struct rig_topology *t, struct rig_reach *r, char *or_text,
                      size_t bytes)
{
    const struct rig_p2pdma *d = &r->p2pdma;
    size_t used = strlen(or_text);
    if (d->cpu_zen == RIG_ANSWER_UNKNOWN) {
        miss(r, "cpu", "the source does not show the CPU; give it by --cpu VENDOR:FAMILY");
        snprintf(or_text + used, bytes - used, "%sthe CPU is AMD's of family 23 or later",
                 used ? " or " : "");
        used = strlen(or_text);
    }
    bool closed = false, open = false;
    for (int k = 0; k < 2; k++) {
        closed |= d->bridge[k].listed == RIG_LISTED_NO || d->bridge[k].listed == RIG_LISTED_NONE;
        open |= d->bridge[k].listed == RIG_LISTED_UNKNOWN;
    }
    if (closed || !open)
        return;
    for (int k = 0; k < 2; k++) {
        const struct rig_bridge_answer *b = &d->bridge[k];
        if (b->listed != RIG_LISTED_UNKNOWN)
            continue;
        char field[64];
        if (b->representative >= 0)
            miss(r, field_of(t, "ids", b->representative, field),
                 "the host bridge's ids or port type are not known: use lspci -nn -xxxx");
        else
            miss_top(t, k == 0 ? r->to : r->from, b, r);
    }
    snprintf(or_text + used, bytes - used, "%sLinux lists the host bridges", used ? " or " : "");
}

static void miss_acs(const struct rig_topology *t, struct rig_reach *r, char *or_text, size_t bytes)
{
    const struct rig_p2pdma *d = &r->p2pdma;
    for (int i = 0; i < d->unread_count; i++) {
        const struct rig_function *f = &t->node[d->unread[i]].f;
        char field[64], why[192], bdf[RIG_BDF_MAX];
        snprintf(why, sizeof why,
                 "%.100s; read it as root (sudo lspci -vvv) or try --assume acs=%s:WORD",
                 f->acs_control.from ? f->acs_control.from : "the source does not show it",
                 rig_bdf_format(f->bdf, bdf));
        miss(r, field_of(t, "acs", d->unread[i], field), why);
    }
    if (d->has_common == RIG_ANSWER_UNKNOWN)
        miss(r, "parent", "what is above is not in the source: use all of lspci's output");
    if (d->redirects == RIG_ANSWER_YES)
        return;
    if (d->has_common == RIG_ANSWER_UNKNOWN)
        snprintf(or_text, bytes, "one bridge is above both and nothing on the path redirects");
    else
        snprintf(or_text, bytes, "no function on the path redirects by ACS");
}

static void miss_path(const struct rig_topology *t, struct rig_reach *r, struct conditions *c)
{
    const struct rig_p2pdma *d = &r->p2pdma;
    bool decided = (d->possible & (d->possible - 1)) == 0;
    char either[220] = "";
    if (!decided) {
        if (d->has_common != RIG_ANSWER_NO)
            miss_acs(t, r, either, sizeof either);
        if (d->host_carries == RIG_ANSWER_UNKNOWN)
            miss_host(t, r, either, sizeof either);
        if (d->possible & RIG_NOT_SUPPORTED) {
            c->only_cpu =
                c->count == 0 && strcmp(either, "the CPU is AMD's of family 23 or later") == 0;
            condition(c, c->count > 0 && strstr(either, " or ") ? "(%s)" : "%s", either);
        }
    }
    if (r->path == RIG_PATH_UNKNOWN && d->has_common == RIG_ANSWER_NO)
        miss(r, "numa-node", "the source does not show the host bridges' NUMA nodes");
}

static void miss_of_gpu(const struct rig_topology *t, const struct side *from,
                        const struct side *to, struct rig_reach *r, struct conditions *c)
{
    miss_iommu(t, r->from, r, c);
    miss_iommu(t, r->to, r, c);
    miss_memory(t, from, to, r, c);
}

/* Of a target that may be no GPU: then nothing of its memory is asked. */
static void miss_whole(const struct rig_topology *t, const struct side *from, const struct side *to,
                       struct rig_reach *r, struct conditions *c)
{
    struct conditions gpu = {.count = 0};
    char bdf[RIG_BDF_MAX];
    rig_bdf_format(t->node[r->to].f.bdf, bdf);
    if (r->p2pdma.possible == RIG_NOT_SUPPORTED)
        return;
    miss_kind(t, r->to, r);
    struct side as_gpu = *to;
    as_gpu.gpu = RIG_ANSWER_YES;
    bool never = r->from == r->to || gates_static(from, &as_gpu) == GATES_CLOSED;
    if (!never)
        miss_of_gpu(t, from, to, r, &gpu);
    if (gpu.count == 0)
        condition(c, "%s is no GPU", bdf);
    else
        condition(c, "(%s is no GPU or %s)", bdf, gpu.text);
}

void describe_facts(const struct rig_topology *t, struct rig_reach *r)
{
    struct side from = side_of(t, r->from), to = side_of(t, r->to);
    bool by_link = gate_link(&from, &to) && r->from != r->to;
    if (!by_link) {
        assumed_of_side(t, r->from, r);
        assumed_of_side(t, r->to, r);
        assumed_memory(t, r);
    }
    assumed_path(t, r);
    assumed_host(t, r);
    struct conditions c = {.count = 0};
    if (to.gpu == RIG_ANSWER_UNKNOWN)
        miss_whole(t, &from, &to, r, &c);
    else if (to.gpu == RIG_ANSWER_YES && r->from != r->to && !by_link)
        miss_of_gpu(t, &from, &to, r, &c);
    miss_path(t, r, &c);
    if (r->answer != RIG_ANSWER_UNKNOWN)
        return;
    if (c.only_cpu)
        snprintf(r->possibilities, sizeof r->possibilities,
                 "yes on AMD family 23 or later, else no");
    else
        snprintf(r->possibilities, sizeof r->possibilities, "yes if %s, else no", c.text);
}
