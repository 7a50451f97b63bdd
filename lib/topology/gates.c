#include "topology/gates.h"

#include <string.h>

int space_named(const char *vendor)
{
    static const char *const names[] = {[SPACE_PLAIN] = "plain",
                                        [SPACE_AMD] = "amd",
                                        [SPACE_NVIDIA] = "nvidia",
                                        [SPACE_INTEL] = "intel"};
    for (int i = 0; i < (int)RIG_ARRAY_LENGTH(names); i++)
        if (strcmp(names[i], vendor) == 0)
            return i;
    return SPACE_UNKNOWN;
}

static int space_of(const struct rig_function *f)
{
    if (!rig_fact_has(f->vendor))
        return SPACE_UNKNOWN;
    switch (f->vendor.value) {
    case 0x1002:
        return SPACE_AMD;
    case 0x10de:
        return SPACE_NVIDIA;
    case 0x8086:
        return SPACE_INTEL;
    default:
        return SPACE_PLAIN;
    }
}

static enum rig_answer is_assigned(const struct rig_function *f)
{
    if (f->memory_bar < 0) {
        for (int i = 0; i < RIG_BAR_COUNT; i++)
            if (f->bar[i].flags.know == RIG_FACT_UNKNOWN)
                return RIG_ANSWER_UNKNOWN;
        return RIG_ANSWER_NO;
    }
    const struct rig_bar *bar = &f->bar[f->memory_bar];
    if (rig_fact_has(bar->bus) || rig_fact_has(bar->cpu))
        return RIG_ANSWER_YES;
    if (bar->bus.know == RIG_FACT_ABSENT || bar->cpu.know == RIG_FACT_ABSENT)
        return RIG_ANSWER_NO;
    return RIG_ANSWER_UNKNOWN;
}

static bool holds(const struct rig_window *w, uint64_t address)
{
    return rig_fact_has(w->base) && rig_fact_has(w->limit) && w->base.value <= address &&
           address <= w->limit.value;
}

uint64_t bar_bound(const struct rig_topology *t, int i, int bar)
{
    const struct rig_function *f = &t->node[i].f;
    if (!rig_fact_has(f->bar[bar].bus) || f->bar[bar].bus.value == 0)
        return 0;
    uint64_t address = f->bar[bar].bus.value;
    uint64_t bound = address & (~address + 1); /* a BAR lies at a multiple of its size */
    if (f->parent < 0)
        return bound;
    const struct rig_function *bridge = &t->node[f->parent].f;
    const struct rig_window *windows[] = {&bridge->memory, &bridge->prefetchable};
    for (size_t k = 0; k < RIG_ARRAY_LENGTH(windows); k++)
        while (holds(windows[k], address) && bound - 1 > windows[k]->limit.value - address)
            bound >>= 1;
    return bound;
}

static enum rig_answer does_cover(const struct rig_topology *t, int i)
{
    const struct rig_function *f = &t->node[i].f;
    if (f->memory_bar < 0 || !rig_fact_has(f->gpu_memory))
        return RIG_ANSWER_UNKNOWN;
    if (rig_fact_has(f->bar[f->memory_bar].size))
        return f->bar[f->memory_bar].size.value >= f->gpu_memory.value ? RIG_ANSWER_YES
                                                                       : RIG_ANSWER_NO;
    uint64_t bound = bar_bound(t, i, f->memory_bar);
    return bound && bound < f->gpu_memory.value ? RIG_ANSWER_NO : RIG_ANSWER_UNKNOWN;
}

static unsigned bits_of_bar(const struct rig_function *f)
{
    if (f->memory_bar < 0)
        return 0;
    const struct rig_bar *bar = &f->bar[f->memory_bar];
    uint64_t last;
    if (!rig_fact_has(bar->bus) || !rig_fact_has(bar->size) || bar->size.value == 0 ||
        !rig_add(bar->bus.value, bar->size.value - 1, &last) || last == 0)
        return 0;
    return 64u - (unsigned)__builtin_clzll(last);
}

struct side side_of(const struct rig_topology *t, int i)
{
    const struct rig_function *f = &t->node[i].f;
    enum rig_answer gpu = f->gpu           ? RIG_ANSWER_YES
                          : f->gpu_unknown ? RIG_ANSWER_UNKNOWN
                                           : RIG_ANSWER_NO;
    struct side s = {.gpu = gpu, .space = space_of(f)};
    s.remote = fact_is(t->machine.remote, 1);
    s.passes = !rig_fact_has(f->iommu)                 ? RIG_ANSWER_UNKNOWN
               : f->iommu.value == RIG_IOMMU_TRANSLATE ? RIG_ANSWER_NO
                                                       : RIG_ANSWER_YES;
    if (gpu == RIG_ANSWER_NO)
        return s;
    s.linked = t->node[i].linked;
    s.fabric = t->node[i].fabric;
    s.assigned = is_assigned(f);
    s.covers = does_cover(t, i);
    s.bits_needed = bits_of_bar(f);
    if (rig_fact_has(f->vendor) && rig_fact_has(f->device))
        s.bits_held = gpu_address_bits((uint16_t)f->vendor.value, (uint16_t)f->device.value);
    if (t->node[i].tables_given) {
        s.space = t->node[i].space;
        s.bits_held = t->node[i].bits_held;
    }
    return s;
}

enum rig_answer gate_space(const struct side *from, const struct side *to)
{
    if (from->gpu == RIG_ANSWER_NO)
        return RIG_ANSWER_YES;
    if (from->space == SPACE_UNKNOWN || to->space == SPACE_UNKNOWN)
        return RIG_ANSWER_UNKNOWN;
    if (from->space == to->space)
        return RIG_ANSWER_YES;
    return from->gpu == RIG_ANSWER_YES ? RIG_ANSWER_NO : RIG_ANSWER_UNKNOWN;
}

enum rig_answer gate_mask(const struct side *from, const struct side *to)
{
    if (from->gpu == RIG_ANSWER_NO || !from->bits_held || !to->bits_needed)
        return RIG_ANSWER_UNKNOWN;
    return to->bits_needed <= from->bits_held ? RIG_ANSWER_YES : RIG_ANSWER_NO;
}

bool gate_link(const struct side *from, const struct side *to)
{
    return from->linked && to->linked && from->fabric == to->fabric &&
           gate_space(from, to) == RIG_ANSWER_YES;
}

enum gates gates_static(const struct side *from, const struct side *to)
{
    if (to->gpu == RIG_ANSWER_NO)
        return GATES_OPEN;
    /* If it is one, then one whose memory is not known. */
    if (to->gpu == RIG_ANSWER_UNKNOWN)
        return GATES_UNKNOWN;
    if (gate_link(from, to))
        return GATES_LINKED;
    /* A width that is not known closes nothing: nearly every BAR fits nearly every entry. */
    bool beyond = gate_mask(from, to) == RIG_ANSWER_NO;
    if (to->remote || (beyond && from->gpu == RIG_ANSWER_YES))
        return GATES_CLOSED;
    const enum rig_answer gates[] = {gate_space(from, to), from->passes, to->passes, to->assigned,
                                     to->covers};
    enum gates all = beyond ? GATES_UNKNOWN : GATES_OPEN;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(gates); i++) {
        if (gates[i] == RIG_ANSWER_NO)
            return GATES_CLOSED;
        if (gates[i] == RIG_ANSWER_UNKNOWN)
            all = GATES_UNKNOWN;
    }
    return all;
}

enum gates gates_self(const struct side *side)
{
    return side->gpu == RIG_ANSWER_YES  ? GATES_CLOSED
           : side->gpu == RIG_ANSWER_NO ? GATES_OPEN
                                        : GATES_UNKNOWN;
}

enum rig_answer answer_of(enum gates gates, unsigned possible)
{
    if (gates == GATES_LINKED)
        return RIG_ANSWER_YES;
    if (gates == GATES_CLOSED || possible == RIG_NOT_SUPPORTED)
        return RIG_ANSWER_NO;
    if (gates == GATES_UNKNOWN || (possible & RIG_NOT_SUPPORTED))
        return RIG_ANSWER_UNKNOWN;
    return RIG_ANSWER_YES;
}
