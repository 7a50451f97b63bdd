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

/* Words of tables that adjoin in memory, to be made zero at once: `words` is 0 for none. */
struct page_zeros {
    uint64_t *out, words;
    bool stream;
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
    bool again; /* PAGES_MAP: tables must be there, and nothing is flushed */
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
    bool stream[RIG_LEVELS_MAX]; /* whole tables of the level go past the caches (plan_size) */
    struct page_zeros clear;     /* clearing: on their way, until plan_clear_end */
    struct page_node *list;      /* tables taken, newest first; clearing: emptied, oldest first */
    struct page_node **tail;     /* clearing: where the next one goes */
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

/* More bytes of entries than this are written past the caches: into those of a processor's own they
   do not fit, and in the shared one they take other data's room. */
#define STREAM_BYTES (UINT64_C(8) << 20)

/* plan_size takes note that the plan maps or clears so many bytes. */
static inline void plan_size(struct page_plan *p, uint64_t bytes)
{
    const struct rig_format *f = p->t->f;
    for (unsigned i = 0; i < f->level_count; i++)
        p->stream[i] = (bytes >> f->level[i].shift) * f->level[i].entry_bytes > STREAM_BYTES;
}

/* plan_is_bare is true iff nothing is in a table. */
static inline bool plan_is_bare(const struct page_node *node)
{
    return (node->leaves | node->children) == 0 && !node->keys;
}

/* plan_whole is how many leaves of node's level fill all of [address, last], where nothing is in
   the table and the cursor's run goes that far: what most tables of a large mapping are. Else 0. */
static inline unsigned plan_whole(const struct page_plan *p, const struct page_node *node,
                                  uint64_t address, uint64_t last)
{
    const struct rig_level *l = &p->t->f->level[node->level];
    uint64_t ends = address | (last + 1) | (p->cursor.address + p->base);
    if (!l->leaf || (ends & ((UINT64_C(1) << l->shift) - 1)) != 0 ||
        p->cursor.bytes <= last - address || !plan_is_bare(node))
        return 0;
    return (unsigned)((last - address + 1) >> l->shift);
}

/* Tables below consecutive entries, each of which the cursor's run fills whole with leaves. */
struct page_batch {
    unsigned count; /* 0: the next is none */
    unsigned half;  /* which table of each entry */
    unsigned level; /* of the tables */
};

/* plan_batch is what comes from `address` on, up to `last`, below node. The tables need not be
   there; those that are and hold something already are no part of it, which the caller sees to. */
struct page_batch plan_batch(const struct page_plan *p, const struct page_node *node,
                             uint64_t address, uint64_t last);

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
   points at tables that are empty then; those are in p->list and off their parents' count. Some of
   the zeros are left to plan_clear_end. */
enum rig_status plan_clear(struct page_plan *p, struct page_node *node, uint64_t address,
                           uint64_t last);

/* plan_clear_end has the zeros reach the tables that plan_clear, whatever its outcome, left. */
void plan_clear_end(struct page_plan *p);

/* ---------- words on their way: of one table a level, from words_begin until they are sent */

/* words_begin begins with node's table: none is on its way. */
static inline void words_begin(struct page_plan *p, const struct page_node *node)
{
    struct rig_page_table *t = p->t;
    struct page_words *w = &p->words[node->level];
    uint64_t in_page = node->offset % RIG_TABLE_PAGE;
    char *place = NULL;
    if (t->ops->place && (p->mode == PAGES_MAP || p->mode == PAGES_CLEAR))
        place = t->ops->place(t->gpu, node->offset - in_page);
    w->placed = place != NULL;
    w->out = place ? (uint64_t *)(void *)(place + in_page) : t->image[node->level];
    w->low = w->high = 0;
}

/* words_mark makes [from, to) part of what is on its way, which the caller then makes. In a table
   that is complete, what does not adjoin it is written before; in one that is not, what lies
   between is zero. RIG_FAILED: a write failed. */
enum rig_status words_mark(struct page_plan *p, struct page_node *node, unsigned from, unsigned to);

/* words_send has words [low, high) reach the memory of node's table: zeros when clearing, else
   those made; of a table that is not complete all do. The shadow does not hear of it. */
enum rig_status words_send(struct page_plan *p, const struct page_node *node);

/* words_finish sends what is on its way, with the outcome in the shadow. */
enum rig_status words_finish(struct page_plan *p, struct page_node *node);

/* words_forget leaves what is on its way unwritten, after a failure: uncertain. */
void words_forget(struct page_plan *p, struct page_node *node);

/* page_table_load_run records a run of memory that was written whole, where that is plain: its
   leaves are all in one table of the smallest pages, and nothing is mapped there. False: nothing
   changed. */
bool page_table_load_run(struct rig_page_table *t, uint64_t address, struct rig_target target,
                         struct rig_range run);

/* page_table_check_unmap is RIG_OK, with *out_last the last address, iff a range may be unmapped.
 */
enum rig_status page_table_check_unmap(const struct rig_page_table *t, uint64_t address,
                                       uint64_t bytes, uint64_t *out_last, struct rig_error *err);

#endif
