/* How a mapping is laid out over tables. */
#include "gpu/page_plan.h"

unsigned plan_leaves(const struct page_plan *p, const struct page_node *node, uint64_t address,
                     uint64_t last)
{
    const struct rig_level *l = &p->t->f->level[node->level];
    uint64_t page = UINT64_C(1) << l->shift;
    if (!l->leaf || p->largest < page)
        return 0;
    uint64_t aligned = (address | (p->cursor.address + p->base)) & (page - 1);
    if (aligned != 0 || p->cursor.bytes < page || last - address < page - 1)
        return 0;
    uint64_t fit = p->cursor.bytes >> l->shift, room = (last - address + 1) >> l->shift;
    unsigned i = shadow_index(p->t, node->level, address);
    unsigned n = shadow_entries(p->t, node->level) - i;
    n = fit < n ? (unsigned)fit : n;
    n = room < n ? (unsigned)room : n;
    unsigned halves = p->t->halves[node->level], k = 0;
    if (!node->child)
        return n;
    while (k < n && !node->child[(i + k) * halves] &&
           (halves < 2 || !node->child[(i + k) * halves + 1]))
        k++;
    return k;
}

unsigned plan_half(const struct page_plan *p, unsigned dual_level, uint64_t address, uint64_t last,
                   unsigned *out_half)
{
    const struct rig_page_table *t = p->t;
    unsigned big_shift = t->f->level[t->below[dual_level][0]].shift;
    unsigned small_shift = t->f->level[t->below[dual_level][1]].shift;
    uint64_t big = UINT64_C(1) << big_shift, entry = p->cursor.address + p->base;
    uint64_t bytes = last - address + 1;
    bytes = p->cursor.bytes < bytes ? p->cursor.bytes : bytes;
    if (((address | entry) & (big - 1)) == 0 && bytes >= big) {
        *out_half = 0;
        return (unsigned)(bytes >> big_shift);
    }
    uint64_t to_big = big - (address & (big - 1));
    if (((address ^ entry) & (big - 1)) == 0 && bytes > to_big)
        bytes = to_big;
    *out_half = 1;
    return (unsigned)(bytes >> small_shift);
}

/* Of a dual entry: the first table where both addresses are those of its pages, the second where
   they never are; no batch where they are not yet. */
struct page_batch plan_batch(const struct page_plan *p, const struct page_node *node,
                             uint64_t address, uint64_t last)
{
    const struct rig_page_table *t = p->t;
    const struct rig_level *l = &t->f->level[node->level];
    struct page_batch none = {.count = 0}, batch = none;
    uint64_t span = UINT64_C(1) << l->shift, entry = p->cursor.address + p->base;
    uint64_t bytes = p->cursor.bytes <= last - address ? p->cursor.bytes : last - address + 1;
    if ((address & (span - 1)) != 0 || bytes < span || (l->leaf && (entry & (span - 1)) == 0))
        return none;
    batch.level = t->below[node->level][0];
    uint64_t big = UINT64_C(1) << t->f->level[batch.level].shift;
    if (t->halves[node->level] == 2 && (entry & (big - 1)) != 0) {
        batch.half = 1;
        batch.level = t->below[node->level][1];
    }
    const struct rig_level *below = &t->f->level[batch.level];
    if (t->halves[node->level] == 0 || !below->leaf ||
        (entry & ((UINT64_C(1) << below->shift) - 1)) != 0)
        return none;
    batch.count = (unsigned)(bytes >> l->shift);
    return batch;
}
