/* What a page table maps, asked of its shadow. */
#include "gpu/page_plan.h"

/* Whether something may be mapped below the entry whose tables are those from `slot` on. */
static bool holds(const struct page_node *node, size_t slot, unsigned halves)
{
    for (unsigned half = 0; half < halves; half++) {
        const struct page_node *child = node->child[slot + half];
        if (child && (child->leaves | child->children) != 0)
            return true;
    }
    return false;
}

/* Where the entries from that of `address` on, which map nothing, also not below, end. */
static uint64_t gap_end(const struct rig_page_table *t, const struct page_node *node,
                        uint64_t address, unsigned leaf_end)
{
    unsigned shift = t->f->level[node->level].shift, halves = t->halves[node->level];
    unsigned i = shadow_index(t, node->level, address), to = i + 1;
    if (!node->child)
        to = leaf_end;
    while (to < leaf_end && !holds(node, (size_t)to * halves, halves))
        to++;
    return ((address >> shift) + (to - i)) << shift;
}

static struct rig_mapping find(const struct rig_page_table *t, const struct page_node *node,
                               uint64_t address, bool certain)
{
    unsigned shift = t->f->level[node->level].shift, i = shadow_index(t, node->level, address), to;
    uint64_t page = UINT64_C(1) << shift, key = shadow_find(t, node, i, &to);
    certain = certain && node->link == LINK_YES;
    if (key != 0)
        return (struct rig_mapping){
            .mapped = true,
            .certain = certain && !(key & KEY_UNCERTAIN),
            .target = shadow_target(key),
            .physical = (key & KEY_ADDRESS) + (address & (page - 1)),
            .page = page,
            .end = ((address >> shift) + (to - i)) << shift,
        };
    struct rig_mapping nothing = {.end = 0};
    bool children = false;
    for (unsigned half = 0; half < t->halves[node->level]; half++) {
        const struct page_node *child = shadow_child(t, node, i, half);
        if (!child || (child->leaves | child->children) == 0)
            continue;
        struct rig_mapping below = find(t, child, address, certain);
        if (below.mapped)
            return below;
        /* 0 is 2^64, so ends are compared by what comes before. */
        if (below.end - 1 < nothing.end - 1)
            nothing.end = below.end;
        children = true;
    }
    if (!children)
        nothing.end = gap_end(t, node, address, to);
    return nothing;
}

struct rig_mapping rig_page_table_at(const struct rig_page_table *t, uint64_t address)
{
    return find(t, t->root, address, true);
}

static bool same_memory(struct rig_target a, struct rig_target b)
{
    return a.memory == b.memory && a.peer == b.peer;
}

enum rig_mapped rig_page_table_compare(const struct rig_page_table *t, uint64_t address,
                                       struct rig_target target, const struct rig_range *ranges,
                                       size_t count)
{
    bool absent = false, weak = false, mapped = false;
    struct page_cursor c;
    cursor_begin(&c, ranges, count);
    while (c.bytes != 0) {
        struct rig_mapping m = rig_page_table_at(t, address);
        uint64_t bytes = m.end - address;
        bytes = c.bytes < bytes ? c.bytes : bytes;
        if (!m.mapped) {
            absent = true;
        } else {
            if (!same_memory(m.target, target) || m.physical != c.address)
                return RIG_MAPPED_OTHER;
            mapped = true;
            weak = weak || !m.certain || m.target.uncached != target.uncached ||
                   m.target.snooped != target.snooped;
        }
        address += bytes;
        cursor_skip(&c, bytes);
    }
    if (!mapped)
        return RIG_MAPPED_NOT;
    return absent || weak ? RIG_MAPPED_PART : RIG_MAPPED_WHOLE;
}
