/* What a plan writes into tables: leaves, and what points at tables. */
#include "gpu/page_plan.h"

#include <endian.h>
#include <string.h>

/* ---------- leaves */

/* The largest fragment at address for memory at `entry`, and how many of `bytes` bytes have it: it
   is aligned in both, and whole. (Linux: amdgpu_vm_pt.c, amdgpu_vm_pte_fragment; xe_pt.c for the
   64 KiB hint) */
static uint64_t fragment_at(const struct rig_format *f, unsigned level, uint64_t address,
                            uint64_t entry, uint64_t bytes, unsigned *out_fragment)
{
    *out_fragment = 0;
    if (f->fragment_max == 0 || (f->fragment_only && level + 1u != f->level_count))
        return bytes;
    unsigned limit = 12u + f->fragment_max;
    unsigned agree = address == entry ? 64 : (unsigned)__builtin_ctzll(address - entry);
    unsigned aligned = address == 0 ? 64 : (unsigned)__builtin_ctzll(address);
    unsigned whole = 63u - (unsigned)__builtin_clzll(bytes);
    if (f->fragment_only) {
        uint64_t unit = UINT64_C(1) << (12 + f->fragment_only);
        uint64_t to_unit = unit - (address & (unit - 1));
        if (agree < 12u + f->fragment_only || whole < 12u + f->fragment_only)
            return bytes;
        if (to_unit != unit)
            return bytes < to_unit ? bytes : to_unit;
        *out_fragment = f->fragment_only;
        return bytes & ~(unit - 1);
    }
    limit = agree < limit ? agree : limit;
    unsigned order = aligned < limit ? aligned : limit;
    order = whole < order ? whole : order;
    *out_fragment = order - 12;
    uint64_t unit = UINT64_C(1) << (order & 63);
    return order == limit ? bytes & ~(unit - 1) : unit;
}

static uint64_t leaf_word(const struct page_plan *p, unsigned level, uint64_t entry,
                          unsigned fragment)
{
    unsigned units = p->t->f->fragment_only ? fragment != 0 : fragment;
    return p->word[level] + (entry >> p->t->f->address_down) + units * p->fragment[level];
}

static void fill(struct page_plan *p, const struct page_node *node, uint64_t address,
                 uint64_t entry, unsigned n, uint64_t *out)
{
    const struct rig_format *f = p->t->f;
    unsigned level = node->level;
    unsigned shift = f->level[level].shift, wide = f->level[level].entry_bytes / 8;
    uint64_t bytes = (uint64_t)n << shift;
    while (bytes != 0) {
        unsigned fragment;
        uint64_t part = fragment_at(f, level, address, entry, bytes, &fragment);
        uint64_t word = leaf_word(p, level, entry, fragment);
        rig_fill(f, level, word, part >> shift, false, out);
        out += (part >> shift) * wide;
        address += part;
        entry += part;
        bytes -= part;
    }
}

static uint64_t key_at(const struct page_plan *p, uint64_t physical)
{
    uint64_t key = shadow_key(p->target, physical);
    return p->mode == PAGES_SUPPOSE ? key | KEY_UNCERTAIN : key;
}

/* n entries from i on, of one run of memory, at the cursor. */
static enum rig_status put_leaves(struct page_plan *p, struct page_node *node, unsigned i,
                                  unsigned n, uint64_t address)
{
    unsigned wide = p->t->f->level[node->level].entry_bytes / 8;
    uint64_t physical = p->cursor.address;
    if (p->mode == PAGES_MAP) {
        enum rig_status status = words_mark(p, node, i * wide, (i + n) * wide);
        if (status != RIG_OK)
            return status;
        fill(p, node, address, physical + p->base, n, p->words[node->level].out + (size_t)i * wide);
    }
    if (!shadow_set(p->t, node, i, n, key_at(p, physical)))
        return rig_fail_memory(p->err);
    cursor_skip(&p->cursor, (uint64_t)n << p->t->f->level[node->level].shift);
    return RIG_OK;
}

/* Entries [i, end) of the lowest level, if each is a range of its own beside none: as put_singles,
   all at once. */
static bool put_ranges(struct page_plan *p, struct page_node *node, unsigned i, unsigned end)
{
    struct page_cursor *c = &p->cursor;
    const struct rig_range *first = c->next - 1;
    uint64_t page = shadow_page(p->t, node->level);
    unsigned down = p->t->f->address_down, n = end - i;
    size_t left = (size_t)(c->end - first);
    if (left < n || c->bytes != page)
        return false;
    if (p->largest != page && !ranges_single(first, left > n ? n + 1u : n, page))
        return false;
    ranges_spread(first, n, key_at(p, 0), node->keys + i, p->word[node->level] + (p->base >> down),
                  down, p->mode == PAGES_MAP ? p->words[node->level].out + i : NULL);
    node->leaves = (uint16_t)(node->leaves + n);
    c->next = first + n;
    cursor_load(c);
    return true;
}

/* Entries [i, end) of the lowest level as long as each is a run of memory of its own and the node
   has a key an entry; the index that is next. Everything is in registers but the ranges and words.
 */
static unsigned put_singles(struct page_plan *p, struct page_node *node, unsigned i, unsigned end)
{
    const struct rig_format *f = p->t->f;
    struct page_cursor c = p->cursor;
    uint64_t *keys = node->keys, *out = p->words[node->level].out;
    uint64_t page = shadow_page(p->t, node->level), base = p->base, flags = key_at(p, 0);
    uint64_t word = p->word[node->level] + (base >> f->address_down);
    unsigned down = f->address_down, first = i;
    bool store = p->mode == PAGES_MAP;
    for (; i < end && c.bytes == page; i++) {
        if (store)
            out[i] = htole64(word + (c.address >> down));
        keys[i] = flags | c.address;
        cursor_load(&c);
    }
    p->cursor = c;
    node->leaves = (uint16_t)(node->leaves + (i - first));
    return i;
}

/* What is mapped in a table in which nothing is: one run. */
static void record(struct page_node *node, uint64_t key, unsigned i, unsigned n)
{
    node->run[0] = (struct page_run){key, (uint16_t)i, (uint16_t)n};
    node->runs = 1;
    node->leaves = (uint16_t)n;
}

/* n entries from i on of a table in which nothing else is, of one run of memory, at the cursor:
   what most tables of a large mapping are, so without the steps that others need. */
static enum rig_status put_table(struct page_plan *p, struct page_node *node, unsigned i,
                                 unsigned n, uint64_t address)
{
    const struct rig_level *l = &p->t->f->level[node->level];
    unsigned wide = l->entry_bytes / 8;
    uint64_t key = key_at(p, p->cursor.address);
    enum rig_status status = RIG_OK;
    if (p->mode == PAGES_MAP) {
        struct page_words *w = &p->words[node->level];
        words_begin(p, node);
        fill(p, node, address, p->cursor.address + p->base, n, w->out + (size_t)i * wide);
        w->low = i * wide;
        w->high = (i + n) * wide;
        status = words_send(p, node);
        w->low = w->high = 0;
        node->complete = node->complete || status == RIG_OK;
    }
    record(node, status == RIG_OK ? key : key | KEY_UNCERTAIN, i, n);
    cursor_skip(&p->cursor, (uint64_t)n << l->shift);
    return status;
}

/* Leaves on their way to tables of one level that adjoin in memory: one run of entries, made at
   once. */
struct page_span {
    uint64_t *out, word;
    uint64_t entries; /* 0: none */
};

static void span_make(const struct page_plan *p, unsigned level, struct page_span *span)
{
    if (span->entries != 0)
        rig_fill(p->t->f, level, span->word, span->entries, p->stream[level], span->out);
    span->entries = 0;
}

/* The whole table, whose first leaf is `word`: its words are made with the span, which is of
   tables before it whose leaves go on to it, or sent. */
static enum rig_status fill_table(struct page_plan *p, struct page_node *node, uint64_t word,
                                  uint64_t key, struct page_span *span)
{
    struct rig_page_table *t = p->t;
    const struct rig_level *l = &t->f->level[node->level];
    unsigned entries = 1u << l->index_bits;
    enum rig_status status = RIG_OK;
    if (p->mode == PAGES_MAP) {
        struct page_words *w = &p->words[node->level];
        words_begin(p, node);
        bool adjoins = span->entries != 0 && w->placed &&
                       w->out == span->out + span->entries * (l->entry_bytes / 8);
        if (!adjoins) {
            span_make(p, node->level, span);
            *span = (struct page_span){.out = w->out, .word = word};
        }
        if (w->placed) {
            span->entries += entries;
        } else {
            rig_fill(t->f, node->level, word, entries, false, w->out);
            status = t->ops->write(t->gpu, node->offset, w->out, l->table_bytes, p->err);
        }
        node->complete = node->complete || status == RIG_OK;
    }
    record(node, status == RIG_OK ? key : key | KEY_UNCERTAIN, 0, entries);
    return status;
}

/* The tables of a batch below entry i and on, as far as they are there and nothing is in them;
 *out_count is how many. All their leaves have one fragment: that of the first. */
static enum rig_status put_batch(struct page_plan *p, struct page_node *node, unsigned i,
                                 uint64_t address, struct page_batch batch, unsigned *out_count)
{
    const struct rig_format *f = p->t->f;
    unsigned halves = p->t->halves[node->level], fragment, k = 0;
    uint64_t size = shadow_page(p->t, node->level), entry = p->cursor.address + p->base;
    uint64_t key = key_at(p, p->cursor.address);
    struct page_span span = {.entries = 0};
    enum rig_status status = RIG_OK;
    *out_count = 0;
    if (fragment_at(f, batch.level, address, entry, size, &fragment) != size)
        return RIG_OK;
    uint64_t word = leaf_word(p, batch.level, entry, fragment), step = size >> f->address_down;
    for (; status == RIG_OK && k < batch.count; k++) {
        struct page_node *child = node->child ? node->child[(i + k) * halves + batch.half] : NULL;
        if (!child || !plan_is_bare(child))
            break;
        shadow_ahead(p->t, node, i + k);
        status = fill_table(p, child, word + k * step, key + k * size, &span);
    }
    span_make(p, batch.level, &span);
    if (k != 0)
        cursor_skip(&p->cursor, k * size);
    *out_count = k;
    return status;
}

#define MANY_PAGES 64

/* n entries from i on of the lowest level, whatever runs of memory they are of. */
static enum rig_status put_pages(struct page_plan *p, struct page_node *node, unsigned i,
                                 unsigned n, uint64_t address)
{
    unsigned shift = p->t->f->level[node->level].shift, first = i, end = i + n;
    bool store = p->mode == PAGES_MAP;
    if (store) {
        enum rig_status status = words_mark(p, node, i, end);
        if (status != RIG_OK)
            return status;
    }
    /* Where memory comes page by page a key an entry is likely to be needed: at once, then, and
       without clearing what is set next. */
    uint64_t page = UINT64_C(1) << shift;
    if (n >= MANY_PAGES && p->cursor.bytes == page) {
        if (!shadow_singles(p->t, node, i, n))
            return rig_fail_memory(p->err);
        if (put_ranges(p, node, i, end))
            return RIG_OK;
    }
    while (i < end) {
        if (node->keys && p->cursor.bytes == page)
            i = put_singles(p, node, i, end);
        if (i == end)
            break;
        uint64_t at = address + ((uint64_t)(i - first) << shift), physical = p->cursor.address;
        uint64_t run = p->cursor.bytes >> shift;
        unsigned m = run < end - i ? (unsigned)run : end - i;
        if (store)
            fill(p, node, at, physical + p->base, m, p->words[node->level].out + i);
        if (!shadow_set(p->t, node, i, m, key_at(p, physical)))
            return rig_fail_memory(p->err);
        i += m;
        cursor_skip(&p->cursor, (uint64_t)m << shift);
    }
    return RIG_OK;
}

/* ---------- tables */

/* *out_word is what points at child, 0 for none. */
static enum rig_status pointer_to(const struct page_plan *p, const struct page_node *child,
                                  uint64_t *out_word)
{
    const struct rig_page_table *t = p->t;
    uint64_t at = child ? t->own_base + child->offset : 0;
    if (at >> t->f->own_bits != 0)
        return rig_fail(p->err, RIG_FAILED, t->f->name,
                        "an entry cannot hold a table at offset 0x%llx",
                        (unsigned long long)child->offset);
    *out_word = child ? htole64(t->pointer[child->level] + (at >> t->f->address_down)) : 0;
    return RIG_OK;
}

/* What points at the children of entry i, as far as it is not there. */
static enum rig_status put_pointers(struct page_plan *p, struct page_node *node, unsigned i)
{
    struct rig_page_table *t = p->t;
    unsigned halves = t->halves[node->level], wide = t->f->level[node->level].entry_bytes / 8;
    bool needed = !node->complete;
    if (!shadow_child(t, node, i, 0) && (halves < 2 || !shadow_child(t, node, i, 1)))
        return RIG_OK;
    for (unsigned half = 0; half < halves; half++) {
        struct page_node *child = shadow_child(t, node, i, half);
        needed = needed || (child && child->link != LINK_YES);
        if (child && p->mode == PAGES_SUPPOSE && child->link == LINK_NO)
            child->link = LINK_UNSURE;
    }
    if (!needed || p->mode != PAGES_MAP)
        return RIG_OK;
    for (unsigned half = 0; half < halves; half++) {
        struct page_node *child = shadow_child(t, node, i, half);
        unsigned k = i * wide + half;
        if (child && child->link == LINK_YES && node->complete)
            continue;
        enum rig_status status = words_mark(p, node, k, k + 1);
        if (status == RIG_OK)
            status = pointer_to(p, child, &p->words[node->level].out[k]);
        if (status != RIG_OK)
            return status;
    }
    return RIG_OK;
}

/* The same of entries [i, end) of a table that is written for the first time and has no leaves,
   each word of which points at a table or at none. */
static enum rig_status put_new_pointers(struct page_plan *p, struct page_node *node, unsigned i,
                                        unsigned end)
{
    unsigned halves = p->t->halves[node->level];
    enum rig_status status = words_mark(p, node, i * halves, end * halves);
    for (unsigned k = i * halves; status == RIG_OK && k < end * halves; k++)
        status = pointer_to(p, node->child[k], &p->words[node->level].out[k]);
    return status;
}

/* Taking the tables went before writing, along the same way. */
static enum rig_status missing(struct page_plan *p, unsigned level)
{
    return rig_fail(p->err, RIG_FAILED, p->t->f->name, "a %s that was taken is not there",
                    p->t->f->level[level].name);
}

static enum rig_status write_table(struct page_plan *p, struct page_node *node, uint64_t address,
                                   uint64_t last)
{
    unsigned n = plan_whole(p, node, address, last);
    if (n == 0)
        return plan_write(p, node, address, last);
    return put_table(p, node, shadow_index(p->t, node->level, address), n, address);
}

/* The two tables below a dual entry, a run of memory at a time. */
static enum rig_status write_halves(struct page_plan *p, struct page_node *node, unsigned i,
                                    uint64_t address, uint64_t last)
{
    struct page_node *child[2] = {shadow_child(p->t, node, i, 0), shadow_child(p->t, node, i, 1)};
    enum rig_status status = RIG_OK;
    if (child[0] || child[1])
        shadow_ahead(p->t, node, i);
    if (p->smallest && child[1])
        return write_table(p, child[1], address, last);
    unsigned first, count = plan_half(p, node->level, address, last, &first);
    if (child[first] && plan_whole(p, child[first], address, last) == count)
        return write_table(p, child[first], address, last);
    for (unsigned half = 0; half < 2; half++)
        if (child[half])
            words_begin(p, child[half]);
    for (uint64_t at = address; status == RIG_OK && at - 1 != last;) {
        unsigned half, n = plan_half(p, node->level, at, last, &half);
        unsigned level = p->t->below[node->level][half];
        status = child[half] ? put_leaves(p, child[half], shadow_index(p->t, level, at), n, at)
                             : missing(p, level);
        at += (uint64_t)n << p->t->f->level[level].shift;
    }
    for (unsigned half = 0; half < 2; half++) {
        if (!child[half])
            continue;
        if (status == RIG_OK)
            status = words_finish(p, child[half]);
        else
            words_forget(p, child[half]);
    }
    return status;
}

static enum rig_status write_below(struct page_plan *p, struct page_node *node, unsigned i,
                                   uint64_t address, uint64_t last)
{
    if (p->t->halves[node->level] == 2)
        return write_halves(p, node, i, address, last);
    struct page_node *child = shadow_child(p->t, node, i, 0);
    if (child)
        shadow_ahead(p->t, node, i);
    return child ? write_table(p, child, address, last) : missing(p, p->t->below[node->level][0]);
}

/* What points at the tables of entries [i, end), which are all written and reach memory before it.
 */
static enum rig_status put_all_pointers(struct page_plan *p, struct page_node *node, unsigned i,
                                        unsigned end)
{
    enum rig_status status = RIG_OK;
    if (p->mode == PAGES_MAP) {
        rig_fill_drain();
        if (!node->complete && node->leaves == 0 &&
            p->t->f->level[node->level].entry_bytes == 8 * p->t->halves[node->level])
            return put_new_pointers(p, node, i, end);
    }
    for (; status == RIG_OK && i < end; i++)
        status = put_pointers(p, node, i);
    return status;
}

enum rig_status plan_write(struct page_plan *p, struct page_node *node, uint64_t address,
                           uint64_t last)
{
    unsigned shift = p->t->f->level[node->level].shift;
    uint64_t page = UINT64_C(1) << shift;
    unsigned first = shadow_index(p->t, node->level, address);
    enum rig_status status = RIG_OK;
    words_begin(p, node);
    if (p->t->halves[node->level] == 0) {
        unsigned n = (unsigned)((last - address + 1) >> shift);
        status = put_pages(p, node, first, n, address);
        address = last + 1;
    }
    while (status == RIG_OK && address - 1 != last) {
        unsigned i = shadow_index(p->t, node->level, address), n = 0;
        struct page_batch batch = plan_batch(p, node, address, last);
        if (batch.count != 0) {
            status = put_batch(p, node, i, address, batch, &n);
            address += (uint64_t)n << shift;
            if (n != 0 || status != RIG_OK)
                continue;
        }
        n = plan_leaves(p, node, address, last);
        uint64_t part = n != 0 ? address + ((uint64_t)n << shift) - 1 : address | (page - 1);
        part = part < last ? part : last;
        if (n != 0)
            status = put_leaves(p, node, i, n, address);
        else
            status = write_below(p, node, i, address, part);
        address = part + 1;
    }
    if (status == RIG_OK && node->child)
        status = put_all_pointers(p, node, first, shadow_index(p->t, node->level, last) + 1);
    if (status == RIG_OK)
        return words_finish(p, node);
    words_forget(p, node);
    return status;
}
