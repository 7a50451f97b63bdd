/* A page table that another process goes on with. */
#include "gpu/page_plan.h"

typedef enum rig_status save_table(void *to, const struct rig_saved_table *saved);

static enum rig_status save(const struct rig_page_table *t, const struct page_node *node,
                            uint64_t address, save_table *table, void *to)
{
    struct rig_saved_table saved = {
        .address = address,
        .offset = node->offset,
        .level = node->level,
        .complete = node->complete,
        .linked = node->link == LINK_YES,
        .kept = node->kept,
    };
    enum rig_status status = table(to, &saved);
    unsigned halves = t->halves[node->level];
    for (unsigned i = 0; node->child && i < shadow_entries(t, node->level); i++)
        for (unsigned half = 0; status == RIG_OK && half < halves; half++) {
            const struct page_node *child = shadow_child(t, node, i, half);
            uint64_t below = address + ((uint64_t)i << t->f->level[node->level].shift);
            if (child)
                status = save(t, child, below, table, to);
        }
    return status;
}

enum rig_status rig_page_table_save(const struct rig_page_table *t, save_table *table, void *to)
{
    return save(t, t->root, 0, table, to);
}

static enum rig_status bad(const struct rig_page_table *t, const struct rig_saved_table *saved,
                           const char *why, struct rig_error *err)
{
    return rig_fail(err, RIG_BAD_INPUT, t->f->name,
                    "a table of level %u for 0x%llx at offset 0x%llx %s", saved->level,
                    (unsigned long long)saved->address, (unsigned long long)saved->offset, why);
}

static void load_marks(struct page_node *node, const struct rig_saved_table *saved)
{
    node->complete = saved->complete;
    node->link = saved->linked ? LINK_YES : LINK_UNSURE;
    node->kept = saved->kept;
}

enum rig_status rig_page_table_load_table(struct rig_page_table *t,
                                          const struct rig_saved_table *saved,
                                          struct rig_error *err)
{
    const struct rig_format *f = t->f;
    if (saved->level == 0 || saved->level >= f->level_count)
        return bad(t, saved, "has no such level", err);
    const struct rig_level *l = &f->level[saved->level];
    unsigned span = l->shift + (unsigned)l->index_bits;
    if ((saved->offset & (l->table_bytes - 1)) != 0 ||
        (saved->address & ((UINT64_C(1) << span) - 1)) != 0 || saved->address >> f->va_bits != 0)
        return bad(t, saved, "is not aligned", err);
    struct page_node *node = t->root;
    while (node && node->level != (unsigned)l->parent)
        node = shadow_child(t, node, shadow_index(t, node->level, saved->address), 0);
    if (!node)
        return bad(t, saved, "has no table above it", err);
    unsigned i = shadow_index(t, node->level, saved->address);
    if (shadow_child(t, node, i, l->half))
        return bad(t, saved, "is there twice", err);
    struct page_node *child = NULL;
    enum rig_status status = shadow_node_new(
        t, saved->level, node, i * t->halves[node->level] + l->half, &saved->offset, &child, err);
    if (status == RIG_OK)
        load_marks(child, saved);
    return status;
}

/* ---------- a mapping within one table of the smallest pages: nearly all are */

/* Whether node, of one level of tables alone, maps nothing from `address` to `last`. */
static bool is_free(const struct rig_page_table *t, const struct page_node *node, uint64_t address,
                    uint64_t last)
{
    unsigned free_to, i = shadow_index(t, node->level, address);
    return node->leaves == 0 ||
           (shadow_find(t, node, i, &free_to) == 0 && free_to > shadow_index(t, node->level, last));
}

/* The table below node that alone holds the run's leaves, at `entry` in the format's terms; NULL:
   there is none, or another may hold some. */
static struct page_node *only_below(const struct rig_page_table *t, const struct page_node *node,
                                    uint64_t address, uint64_t last, uint64_t entry)
{
    const struct rig_level *l = &t->f->level[node->level];
    uint64_t page = UINT64_C(1) << l->shift;
    if ((address ^ last) >> l->shift != 0 ||
        (l->leaf && last - address == page - 1 && (entry & (page - 1)) == 0))
        return NULL;
    unsigned i = shadow_index(t, node->level, address);
    if (t->halves[node->level] == 1)
        return shadow_child(t, node, i, 0);
    uint64_t big = UINT64_C(1) << t->f->level[t->below[node->level][0]].shift;
    uint64_t first = (address + big - 1) & ~(big - 1);
    const struct page_node *other = shadow_child(t, node, i, 0);
    if ((other && !is_free(t, other, address, last)) ||
        (((address ^ entry) & (big - 1)) == 0 && first <= last && last - first >= big - 1))
        return NULL;
    return shadow_child(t, node, i, 1);
}

bool page_table_load_run(struct rig_page_table *t, uint64_t address, struct rig_target target,
                         struct rig_range run)
{
    const struct rig_format *f = t->f;
    bool own = target.memory == RIG_MEMORY_OWN;
    uint64_t base = own ? t->own_base : 0, end;
    if (target.memory == RIG_MEMORY_LINK || target.peer != 0 || run.bytes == 0 ||
        ((address | run.address | run.bytes) & (RIG_TABLE_PAGE - 1)) != 0 ||
        !rig_add(run.address, run.bytes - 1, &end) || !rig_add(end, base, &end) ||
        end >> (own ? f->own_bits : f->system_bits) != 0 ||
        !rig_format_mappable(f, address, run.bytes))
        return false;
    uint64_t last = address + run.bytes - 1;
    struct page_node *node = t->root;
    while (node && t->halves[node->level] != 0)
        node = only_below(t, node, address, last, run.address + base);
    if (!node)
        return false;
    unsigned shift = f->level[node->level].shift, i = shadow_index(t, node->level, address);
    return is_free(t, node, address, last) &&
           shadow_set(t, node, i, (unsigned)(run.bytes >> shift), shadow_key(target, run.address));
}

/* ---------- an unmap that ended nobody knows where */

/* Whether all that entries [i, end) hold of leaves is all that node holds. */
static bool holds_no_more(const struct rig_page_table *t, const struct page_node *node, unsigned i,
                          unsigned end)
{
    unsigned leaves = 0, to;
    for (; i < end; i = to) {
        uint64_t key = shadow_find(t, node, i, &to);
        to = to < end ? to : end;
        leaves += key != 0 ? to - i : 0;
    }
    return leaves == node->leaves;
}

/* Marks what node maps from `address` to `last`; true iff an unmap of it would have emptied node.
 */
static bool doubt(struct rig_page_table *t, struct page_node *node, uint64_t address, uint64_t last)
{
    const struct rig_level *l = &t->f->level[node->level];
    unsigned i = shadow_index(t, node->level, address), emptied = 0;
    unsigned end = i + (unsigned)((last >> l->shift) - (address >> l->shift)) + 1;
    uint64_t page = UINT64_C(1) << l->shift;
    bool leaves = holds_no_more(t, node, i, end);
    shadow_doubt(t, node, i, end - i);
    for (; node->child && i < end; i++, address = (address | (page - 1)) + 1)
        for (unsigned half = 0; half < t->halves[node->level]; half++) {
            struct page_node *child = shadow_child(t, node, i, half);
            uint64_t part = address | (page - 1);
            if (!child || !doubt(t, child, address, part < last ? part : last))
                continue;
            emptied++;
            if (child->link == LINK_YES)
                child->link = LINK_UNSURE;
        }
    return leaves && emptied == node->children && !node->kept;
}

enum rig_status rig_page_table_doubt(struct rig_page_table *t, uint64_t address, uint64_t bytes,
                                     struct rig_error *err)
{
    uint64_t last = 0;
    enum rig_status status = page_table_check_unmap(t, address, bytes, &last, err);
    if (status == RIG_OK)
        doubt(t, t->root, address, last);
    return status;
}
