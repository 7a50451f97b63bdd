/* How a plan clears: zeros over leaves, and over what points at tables that are empty then. */
#include "gpu/page_plan.h"

/* Table `child` of node is done: it goes, if nothing is in it. */
static enum rig_status clear_pointer(struct page_plan *p, struct page_node *node,
                                     struct page_node *child)
{
    if (child->leaves != 0 || child->children != 0 || child->kept)
        return RIG_OK;
    struct page_words *w = &p->words[node->level];
    if (child->link != LINK_NO && w->low != w->high && w->high == child->slot) {
        w->high++;
    } else if (child->link != LINK_NO) {
        enum rig_status status = words_mark(p, node, child->slot, child->slot + 1u);
        if (status != RIG_OK)
            return status;
    }
    node->children--;
    child->next = NULL;
    *p->tail = child;
    p->tail = &child->next;
    return RIG_OK;
}

void plan_clear_end(struct page_plan *p)
{
    if (p->clear.words != 0)
        rig_fill_zeros(p->clear.words, p->clear.stream, p->clear.out);
    p->clear.words = 0;
}

/* Zeros for words of a table, with those of the tables before it that adjoin in memory. */
static void clear_words(struct page_plan *p, uint64_t *out, uint64_t words, bool stream)
{
    if (p->clear.words == 0 || out != p->clear.out + p->clear.words) {
        plan_clear_end(p);
        p->clear.out = out;
        p->clear.stream = stream;
    }
    p->clear.words += words;
}

/* All that is in node's table goes, and it is one run. */
static enum rig_status clear_table(struct page_plan *p, struct page_node *node)
{
    struct page_words *w = &p->words[node->level];
    unsigned wide = p->t->f->level[node->level].entry_bytes / 8;
    enum rig_status status = RIG_OK;
    words_begin(p, node);
    w->low = node->run[0].first * wide;
    w->high = w->low + node->run[0].count * wide;
    if (w->placed)
        clear_words(p, w->out + w->low, w->high - w->low, p->stream[node->level]);
    else
        status = words_send(p, node);
    w->low = w->high = 0;
    if (status != RIG_OK) {
        node->run[0].key |= KEY_UNCERTAIN;
        return status;
    }
    node->runs = 0;
    node->leaves = 0;
    return RIG_OK;
}

/* Whether all that is in `child` is one run from `address` to `last`, which are below one entry of
   node. */
static bool is_one_run(const struct page_plan *p, const struct page_node *node,
                       const struct page_node *child, uint64_t address, uint64_t last)
{
    const struct page_run *run = &child->run[0];
    if (child->children != 0 || child->runs != 1)
        return false;
    return last - address == shadow_page(p->t, node->level) - 1 ||
           (run->first >= shadow_index(p->t, child->level, address) &&
            run->first + run->count <= shadow_index(p->t, child->level, last) + 1u);
}

static enum rig_status clear_below(struct page_plan *p, struct page_node *node, unsigned i,
                                   uint64_t address, uint64_t last)
{
    shadow_ahead(p->t, node, i);
    for (unsigned half = 0; half < p->t->halves[node->level]; half++) {
        struct page_node *child = shadow_child(p->t, node, i, half);
        if (!child)
            continue;
        enum rig_status status = is_one_run(p, node, child, address, last)
                                     ? clear_table(p, child)
                                     : plan_clear(p, child, address, last);
        if (status == RIG_OK)
            status = clear_pointer(p, node, child);
        if (status != RIG_OK)
            return status;
    }
    return RIG_OK;
}

enum rig_status plan_clear(struct page_plan *p, struct page_node *node, uint64_t address,
                           uint64_t last)
{
    const struct rig_level *l = &p->t->f->level[node->level];
    unsigned wide = l->entry_bytes / 8, i = shadow_index(p->t, node->level, address);
    unsigned end = i + (unsigned)((last >> l->shift) - (address >> l->shift)) + 1;
    uint64_t page = UINT64_C(1) << l->shift;
    enum rig_status status = RIG_OK;
    words_begin(p, node);
    if (!shadow_splits(p->t, node))
        return rig_fail_memory(p->err);
    while (status == RIG_OK && i < end) {
        unsigned to = end;
        uint64_t key = node->leaves != 0 ? shadow_find(p->t, node, i, &to) : 0;
        uint64_t part = address | (page - 1);
        to = to < end ? to : end;
        if (key != 0) {
            status = words_mark(p, node, i * wide, to * wide);
        } else if (node->child) {
            to = i + 1;
            status = clear_below(p, node, i, address, part < last ? part : last);
        }
        address = (address & ~(page - 1)) + (uint64_t)(to - i) * page;
        i = to;
    }
    if (status == RIG_OK)
        return words_finish(p, node);
    words_forget(p, node);
    return status;
}
