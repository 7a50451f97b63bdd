/* Words of tables on their way to memory. */
#include "gpu/page_plan.h"

static const uint64_t zeros[RIG_TABLE_PAGE / 8];

/* Stores zeros where words are made. */
static void zero(const struct page_plan *p, const struct page_node *node, unsigned from,
                 unsigned to)
{
    rig_fill_zeros(to - from, false, p->words[node->level].out + from);
}

/* The outcome of writing words [low, high) of node's table, in the shadow. */
static void settle(struct page_plan *p, struct page_node *node, bool done)
{
    const struct page_words *w = &p->words[node->level];
    unsigned wide = p->t->f->level[node->level].entry_bytes / 8;
    unsigned first = w->low / wide, n = (w->high + wide - 1) / wide - first;
    bool clear = p->mode == PAGES_CLEAR;
    if (!done)
        shadow_doubt(p->t, node, first, n);
    else if (clear)
        shadow_clear(p->t, node, first, n);
    /* A child's slot has the number of the word that points at it. */
    unsigned link = clear ? LINK_NO : LINK_YES;
    for (unsigned k = w->low; node->child && k < w->high; k++)
        if (node->child[k])
            node->child[k]->link = (uint8_t)(done ? link : LINK_UNSURE);
}

enum rig_status words_send(struct page_plan *p, const struct page_node *node)
{
    struct rig_page_table *t = p->t;
    const struct page_words *w = &p->words[node->level];
    unsigned total = t->f->level[node->level].table_bytes / 8;
    unsigned low = w->low, high = w->high;
    const uint64_t *from = w->out;
    if (p->mode == PAGES_CLEAR) {
        from = zeros;
        if (w->placed)
            zero(p, node, low, high);
    } else if (!node->complete) {
        zero(p, node, 0, low);
        zero(p, node, high, total);
        low = 0;
        high = total;
    }
    if (w->placed)
        return RIG_OK;
    return t->ops->write(t->gpu, node->offset + (uint64_t)low * 8, from + low,
                         (uint64_t)(high - low) * 8, p->err);
}

enum rig_status words_finish(struct page_plan *p, struct page_node *node)
{
    struct page_words *w = &p->words[node->level];
    if (w->low == w->high)
        return RIG_OK;
    enum rig_status status = words_send(p, node);
    settle(p, node, status == RIG_OK);
    if (status == RIG_OK && p->mode == PAGES_MAP)
        node->complete = true;
    w->low = w->high = 0;
    return status;
}

enum rig_status words_mark(struct page_plan *p, struct page_node *node, unsigned from, unsigned to)
{
    struct page_words *w = &p->words[node->level];
    if (w->low != w->high && w->high != from && (p->mode == PAGES_CLEAR || node->complete)) {
        enum rig_status status = words_finish(p, node);
        if (status != RIG_OK)
            return status;
    }
    if (w->low == w->high) {
        w->low = from;
        w->high = to;
        return RIG_OK;
    }
    if (from > w->high)
        zero(p, node, w->high, from);
    if (to < w->low)
        zero(p, node, to, w->low);
    w->low = from < w->low ? from : w->low;
    w->high = to > w->high ? to : w->high;
    return RIG_OK;
}

void words_forget(struct page_plan *p, struct page_node *node)
{
    struct page_words *w = &p->words[node->level];
    unsigned wide = p->t->f->level[node->level].entry_bytes / 8;
    if (p->mode == PAGES_MAP && w->low != w->high)
        shadow_doubt(p->t, node, w->low / wide, (w->high + wide - 1) / wide - w->low / wide);
    w->low = w->high = 0;
}
