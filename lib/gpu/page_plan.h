/* How a mapping is laid out over tables, and the writing of it. Only the page table's files include
   this.

   A plan goes through the ranges once for each pass over the tables: taking the tables that are
   missing, and writing. Both passes ask it the same questions at the same addresses. */
#ifndef RIG_GPU_PAGE_PLAN_H
#define RIG_GPU_PAGE_PLAN_H

#include "gpu/page_ranges.h"
#include "gpu/page_shadow.h"

/* Where a plan is in its ranges: the rest of a run, adjoining ranges taken as one. bytes is 0 at
   the end. */
struct page_cursor {
    const struct rig_range *next, *end;
    uint64_t address, bytes;
};

/* Words of one table on their way: [low, high) of `out` are made and not yet written. */
struct page_words {
    uint64_t *out;
    unsigned low, high;
    bool placed; /* out is the table itself */
};

enum page_mode {
    PAGES_MAP,     /* take tables, write */
    PAGES_LOAD,    /* record what was written; tables must be there */
    PAGES_SUPPOSE, /* record what may have been written; take tables */
    PAGES_CLEAR,   /* write zeros */
};

struct page_plan {
    struct rig_page_table *t;
    enum page_mode mode;
    struct rig_target target;
    const struct rig_range *ranges;
    size_t count;
    struct rig_range whole; /* the ranges, where all are one run */
    uint64_t largest;       /* bytes of the longest run of memory in the ranges */
    bool smallest;          /* no page but of the smallest size fits into that */
    uint64_t base;          /* added to an address to make it the entries' */
    struct page_cursor cursor;
    uint64_t word[RIG_LEVELS_MAX];     /* a leaf of the target at address 0 */
    uint64_t fragment[RIG_LEVELS_MAX]; /* what a fragment of 1 (or fragment_only) adds to it */
    struct page_words words[RIG_LEVELS_MAX];
    struct page_node *list;  /* tables taken, newest first; clearing: emptied, oldest first */
    struct page_node **tail; /* clearing: where the next one goes */
    struct rig_error *err;
};

static inline void cursor_load(struct page_cursor *c)
{
    c->address = c->bytes = 0;
    if (c->next == c->end)
        return;
    c->address = c->next->address;
    c->bytes = c->next->bytes;
    for (c->next++; c->next != c->end && c->next->address == c->address + c->bytes; c->next++)
        c->bytes += c->next->bytes;
}

static inline void cursor_begin(struct page_cursor *c, const struct rig_range *ranges, size_t count)
{
    c->next = ranges;
    c->end = ranges + count;
    cursor_load(c);
}

/* cursor_skip goes on by `bytes`, which is at most what the current run holds. */
static inline void cursor_skip(struct page_cursor *c, uint64_t bytes)
{
    c->address += bytes;
    c->bytes -= bytes;
    if (c->bytes == 0)
        cursor_load(c);
}

/* plan_whole is how many leaves of node's level fill all of [address, last], where nothing is in
   the table and the cursor's run goes that far: what most tables of a large mapping are. Else 0. */
static inline unsigned plan_whole(const struct page_plan *p, const struct page_node *node,
                                  uint64_t address, uint64_t last)
{
    const struct rig_level *l = &p->t->f->level[node->level];
    uint64_t ends = address | (last + 1) | (p->cursor.address + p->base);
    if (!l->leaf || (ends & ((UINT64_C(1) << l->shift) - 1)) != 0 ||
        p->cursor.bytes <= last - address || (node->leaves | node->children) != 0 || node->keys)
        return 0;
    return (unsigned)((last - address + 1) >> l->shift);
}

/* plan_leaves is how many leaves of node's level the plan has at `address`, up to `last`, the
   table's end and the next child table: 0 where what comes is smaller or not aligned. */
unsigned plan_leaves(const struct page_plan *p, const struct page_node *node, uint64_t address,
                     uint64_t last);

/* plan_half is how many entries of the table of half *out_half, below a dual entry that `address`
   to `last` lie in, come next. Never 0. */
unsigned plan_half(const struct page_plan *p, unsigned dual_level, uint64_t address, uint64_t last,
                   unsigned *out_half);

/* plan_write writes what the plan maps in the tables under node, and node itself, for the addresses
   from `address` to `last`; all tables are there. In the modes that write nothing it records alone.
   RIG_FAILED: a write failed, or memory ran out; the shadow says what is uncertain. */
enum rig_status plan_write(struct page_plan *p, struct page_node *node, uint64_t address,
                           uint64_t last);

/* plan_clear writes zeros over what is mapped from `address` to `last` under node, and over what
   points at tables that are empty then; those are in p->list and off their parents' count. */
enum rig_status plan_clear(struct page_plan *p, struct page_node *node, uint64_t address,
                           uint64_t last);

/* page_table_check_unmap is RIG_OK, with *out_last the last address, iff a range may be unmapped.
 */
enum rig_status page_table_check_unmap(const struct rig_page_table *t, uint64_t address,
                                       uint64_t bytes, uint64_t *out_last, struct rig_error *err);

#endif
