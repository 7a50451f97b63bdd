/* The page tables of one GPU: the requests. */
#include "gpu/page_plan.h"

#include <stdlib.h>
#include <string.h>

#define UNIT_MASK UINT64_C(0xfff)

/* ---------- making and dropping */

static enum rig_status make(const struct rig_format *f, uint64_t own_base,
                            const struct rig_page_table_ops *ops, void *gpu,
                            struct rig_page_table **out_table, struct rig_error *err)
{
    struct rig_page_table *t = calloc(1, sizeof *t);
    if (!t)
        return rig_fail_memory(err);
    t->f = f;
    t->ops = ops;
    t->gpu = gpu;
    t->own_base = own_base;
    for (unsigned level = 1; level < f->level_count; level++) {
        unsigned above = (unsigned)f->level[level].parent;
        t->below[above][t->halves[above]++] = (uint8_t)level;
        struct rig_entry e = rig_directory(f, above, level, RIG_MEMORY_OWN, 0);
        uint64_t words[2] = {0, 0};
        rig_encode(f, above, &e, words);
        t->pointer[level] = words[f->level[level].half];
    }
    *out_table = t;
    return RIG_OK;
}

static enum rig_status clear_root(struct rig_page_table *t, struct rig_error *err)
{
    void *place = t->ops->place ? t->ops->place(t->gpu, t->root->offset) : NULL;
    if (place)
        memset(place, 0, RIG_TABLE_PAGE);
    else
        return t->ops->write(t->gpu, t->root->offset, t->image[0], RIG_TABLE_PAGE, err);
    return RIG_OK;
}

enum rig_status rig_page_table_new(const struct rig_format *f, uint64_t own_base,
                                   const struct rig_page_table_ops *ops, void *gpu,
                                   struct rig_page_table **out_table, struct rig_error *err)
{
    struct rig_page_table *t = NULL;
    enum rig_status status = make(f, own_base, ops, gpu, &t, err);
    if (status != RIG_OK)
        return status;
    status = shadow_node_new(t, 0, NULL, 0, NULL, &t->root, err);
    if (status == RIG_OK)
        status = clear_root(t, err);
    if (status != RIG_OK) {
        shadow_drop(t);
        return status;
    }
    t->root->complete = true;
    t->root->link = LINK_YES;
    *out_table = t;
    return RIG_OK;
}

enum rig_status rig_page_table_load(const struct rig_format *f, uint64_t own_base,
                                    const struct rig_page_table_ops *ops, void *gpu,
                                    const struct rig_saved_table *root,
                                    struct rig_page_table **out_table, struct rig_error *err)
{
    if (root->level != 0 || root->address != 0 || (root->offset & UNIT_MASK) != 0)
        return rig_fail(err, RIG_BAD_INPUT, f->name, "the first table is no root");
    struct rig_page_table *t = NULL;
    enum rig_status status = make(f, own_base, ops, gpu, &t, err);
    if (status != RIG_OK)
        return status;
    status = shadow_node_new(t, 0, NULL, 0, &root->offset, &t->root, err);
    if (status != RIG_OK) {
        shadow_drop(t);
        return status;
    }
    t->root->complete = root->complete;
    t->root->link = LINK_YES;
    *out_table = t;
    return RIG_OK;
}

enum rig_status rig_page_table_clear_root(struct rig_page_table *t, struct rig_error *err)
{
    enum rig_status status = clear_root(t, err);
    t->root->complete = status == RIG_OK;
    return status;
}

void rig_page_table_drop(struct rig_page_table *t)
{
    if (t)
        shadow_drop(t);
}

struct rig_table rig_page_table_root(const struct rig_page_table *t)
{
    return rig_root(t->f, RIG_MEMORY_OWN, t->own_base + t->root->offset);
}

const struct rig_format *rig_page_table_format(const struct rig_page_table *t)
{
    return t->f;
}

/* ---------- what may be mapped */

static enum rig_status check_target(const struct rig_format *f, struct rig_target target,
                                    struct rig_error *err)
{
    if (target.memory != RIG_MEMORY_LINK)
        return target.peer == 0
                   ? RIG_OK
                   : rig_fail(err, RIG_INVALID, f->name, "a peer number without a link to a peer");
    if (f->link == RIG_LINK_NONE)
        return rig_fail(err, RIG_REFUSED, f->name,
                        "the page-table entries of %s cannot name memory over a link", f->name);
    if (f->link == RIG_LINK_NUMBER && target.peer >= f->link_peers)
        return rig_fail(err, RIG_REFUSED, f->name,
                        "the page-table entries of %s hold peer numbers below %u, not %u", f->name,
                        f->link_peers, target.peer);
    if (f->link == RIG_LINK_FLAT && target.peer != 0)
        return rig_fail(err, RIG_INVALID, f->name, "a link of %s has no peer numbers", f->name);
    return RIG_OK;
}

static unsigned address_bits(const struct rig_format *f, enum rig_memory_kind memory)
{
    if (memory == RIG_MEMORY_OWN)
        return f->own_bits;
    return memory == RIG_MEMORY_SYSTEM ? f->system_bits : f->link_bits;
}

static enum rig_status check_fits(const struct rig_format *f, uint64_t own_base,
                                  struct rig_target target, const struct rig_range *ranges,
                                  size_t count, struct page_extent *out, struct rig_error *err)
{
    static const char *const kinds[] = {"own memory", "system memory", "linked memory"};
    enum rig_status status = check_target(f, target, err);
    if (status != RIG_OK)
        return status;
    if (!ranges_measure(ranges, count, out))
        return rig_fail(err, RIG_INVALID, f->name,
                        "ranges to map are whole pages of 4 KiB that do not wrap");
    uint64_t last = out->last;
    unsigned bits = address_bits(f, target.memory);
    uint64_t base = target.memory == RIG_MEMORY_OWN ? own_base : 0;
    if (!rig_add(last, base, &last) || last >> bits != 0)
        return rig_fail(
            err, RIG_REFUSED, f->name,
            "the page-table entries of %s hold %u address bits of %s, and 0x%llx has more", f->name,
            bits, kinds[target.memory], (unsigned long long)last);
    return RIG_OK;
}

enum rig_status rig_page_table_fits(const struct rig_format *f, uint64_t own_base,
                                    struct rig_target target, const struct rig_range *ranges,
                                    size_t count, struct rig_error *err)
{
    struct page_extent extent = {.bytes = 0};
    return check_fits(f, own_base, target, ranges, count, &extent, err);
}

/* Whether anything is mapped under node from `address` to `last`, and if so, where. */
static bool any_mapped(const struct rig_page_table *t, const struct page_node *node,
                       uint64_t address, uint64_t last, uint64_t *out_address)
{
    const struct rig_level *l = &t->f->level[node->level];
    unsigned i = shadow_index(t, node->level, address), halves = t->halves[node->level], to;
    unsigned end = i + (unsigned)((last >> l->shift) - (address >> l->shift)) + 1;
    uint64_t page = UINT64_C(1) << l->shift, at = address & ~(page - 1);
    for (unsigned k = i; node->leaves != 0 && k < end; k = to) {
        *out_address = k == i ? address : at + (k - i) * page;
        if (shadow_find(t, node, k, &to) != 0)
            return true;
    }
    for (; node->child && i < end; i++, address = at) {
        shadow_ahead(t, node, i);
        at = (address & ~(page - 1)) + page;
        uint64_t part = at - 1 < last ? at - 1 : last;
        for (unsigned half = 0; half < halves; half++) {
            const struct page_node *child = node->child[i * halves + half];
            if (child && (child->leaves | child->children) != 0 &&
                any_mapped(t, child, address, part, out_address))
                return true;
        }
    }
    return false;
}

/* ---------- mapping */

static enum rig_status take_child(struct page_plan *p, struct page_node *node, unsigned i,
                                  unsigned half, struct page_node **out_child)
{
    struct rig_page_table *t = p->t;
    *out_child = shadow_child(t, node, i, half);
    if (*out_child) {
        shadow_ahead(t, node, i);
        return RIG_OK;
    }
    if (p->mode == PAGES_LOAD || p->again)
        return rig_fail(p->err, RIG_BAD_INPUT, t->f->name, "a mapping needs a %s that is not there",
                        t->f->level[t->below[node->level][half]].name);
    unsigned slot = i * t->halves[node->level] + half;
    enum rig_status status =
        shadow_node_new(t, t->below[node->level][half], node, slot, NULL, out_child, p->err);
    if (status == RIG_OK) {
        (*out_child)->next = p->list;
        p->list = *out_child;
    }
    return status;
}

/* Where no run is long enough for anything but the smallest pages, taking asks nothing of the
   ranges, and does not go through them. */
static bool only_smallest(const struct page_plan *p)
{
    const struct rig_format *f = p->t->f;
    uint64_t larger = UINT64_MAX;
    for (unsigned level = 0; level + 1u < f->level_count; level++)
        if (f->level[level].leaf)
            larger = UINT64_C(1) << f->level[level].shift;
    return p->largest < larger;
}

static void skip(struct page_plan *p, uint64_t bytes)
{
    while (bytes != 0) {
        uint64_t part = p->cursor.bytes < bytes ? p->cursor.bytes : bytes;
        cursor_skip(&p->cursor, part);
        bytes -= part;
    }
}

static enum rig_status take_tables(struct page_plan *p, struct page_node *node, uint64_t address,
                                   uint64_t last);

static enum rig_status take_below(struct page_plan *p, struct page_node *node, unsigned i,
                                  uint64_t address, uint64_t last)
{
    struct page_node *child;
    enum rig_status status = RIG_OK;
    bool dual = p->t->halves[node->level] == 2;
    if (dual && p->smallest)
        return take_child(p, node, i, 1, &child);
    if (dual) {
        for (uint64_t at = address; status == RIG_OK && at - 1 != last;) {
            unsigned half, n = plan_half(p, node->level, at, last, &half);
            unsigned level = p->t->below[node->level][half];
            uint64_t bytes = (uint64_t)n << p->t->f->level[level].shift;
            status = take_child(p, node, i, half, &child);
            cursor_skip(&p->cursor, bytes);
            at += bytes;
        }
        return status;
    }
    status = take_child(p, node, i, 0, &child);
    if (status != RIG_OK)
        return status;
    if (plan_whole(p, child, address, last) != 0)
        cursor_skip(&p->cursor, last - address + 1);
    else if (p->t->halves[child->level] != 0)
        return take_tables(p, child, address, last);
    else if (!p->smallest)
        skip(p, last - address + 1);
    return RIG_OK;
}

/* Takes those of a batch below entry i and on, as far as nothing is in them; *out_count is how
 * many.
 */
static enum rig_status take_batch(struct page_plan *p, struct page_node *node, unsigned i,
                                  struct page_batch batch, unsigned *out_count)
{
    enum rig_status status = RIG_OK;
    unsigned k = 0;
    for (struct page_node *child; k < batch.count; k++) {
        status = take_child(p, node, i + k, batch.half, &child);
        if (status != RIG_OK || !plan_is_bare(child))
            break;
    }
    if (k != 0)
        cursor_skip(&p->cursor, k * shadow_page(p->t, node->level));
    *out_count = k;
    return status;
}

/* Takes the tables that the plan needs below node and that are not there. */
static enum rig_status take_tables(struct page_plan *p, struct page_node *node, uint64_t address,
                                   uint64_t last)
{
    unsigned shift = p->t->f->level[node->level].shift;
    uint64_t page = UINT64_C(1) << shift;
    enum rig_status status = RIG_OK;
    while (status == RIG_OK && address - 1 != last) {
        struct page_batch batch = plan_batch(p, node, address, last);
        unsigned n = 0;
        if (batch.count != 0) {
            unsigned i = shadow_index(p->t, node->level, address);
            status = take_batch(p, node, i, batch, &n);
            address += (uint64_t)n << shift;
            if (n != 0 || status != RIG_OK)
                continue;
        }
        n = plan_leaves(p, node, address, last);
        uint64_t part = n != 0 ? address + ((uint64_t)n << shift) - 1 : address | (page - 1);
        part = part < last ? part : last;
        if (n != 0)
            cursor_skip(&p->cursor, (uint64_t)n << shift);
        else
            status = take_below(p, node, shadow_index(p->t, node->level, address), address, part);
        address = part + 1;
    }
    return status;
}

static void give_taken(struct page_plan *p)
{
    for (struct page_node *node = p->list, *next; node; node = next) {
        next = node->next;
        node->parent->children--;
        shadow_node_give(p->t, node);
    }
    p->list = NULL;
}

/* The word of a leaf of the target at address 0, by level, and what a fragment adds to it. Each
   field of a leaf is its own bits, so that words of any address and fragment are sums. */
static void make_words(struct page_plan *p)
{
    const struct rig_format *f = p->t->f;
    for (unsigned level = 0; level < f->level_count; level++) {
        if (!f->level[level].leaf)
            continue;
        uint64_t plain[2], with[2];
        struct rig_entry e = rig_leaf(f, level, p->target.memory, 0, p->target.peer,
                                      p->target.uncached, p->target.snooped);
        if (!rig_encode(f, level, &e, plain))
            continue;
        p->word[level] = plain[0];
        e.fragment = f->fragment_only ? f->fragment_only : 1;
        if (f->fragment_max != 0 && rig_encode(f, level, &e, with))
            p->fragment[level] = with[0] - plain[0];
    }
}

static enum rig_status check_map(struct page_plan *p, uint64_t address, uint64_t *out_last)
{
    const struct rig_page_table *t = p->t;
    struct page_extent extent = {.bytes = 0};
    enum rig_status status =
        check_fits(t->f, t->own_base, p->target, p->ranges, p->count, &extent, p->err);
    if (status != RIG_OK)
        return status;
    uint64_t bytes = extent.bytes;
    plan_size(p, bytes);
    p->largest = extent.largest;
    if (p->count > 1 && extent.largest == bytes) {
        p->whole = (struct rig_range){p->ranges[0].address, bytes};
        p->ranges = &p->whole;
        p->count = 1;
    }
    if ((address & UNIT_MASK) != 0 || !rig_format_mappable(t->f, address, bytes))
        return rig_fail(p->err, RIG_INVALID, t->f->name,
                        "0x%llx bytes at 0x%llx are not addresses that %s maps",
                        (unsigned long long)bytes, (unsigned long long)address, t->f->name);
    *out_last = address + bytes - 1;
    uint64_t mapped;
    if (any_mapped(t, t->root, address, *out_last, &mapped))
        return rig_fail(p->err, RIG_INVALID, t->f->name, "0x%llx is mapped already",
                        (unsigned long long)mapped);
    return RIG_OK;
}

static enum rig_status map(struct rig_page_table *t, enum page_mode mode, bool again,
                           uint64_t address, struct rig_target target,
                           const struct rig_range *ranges, size_t count, struct rig_error *err)
{
    struct page_plan p = {.t = t,
                          .mode = mode,
                          .again = again,
                          .target = target,
                          .ranges = ranges,
                          .count = count,
                          .base = target.memory == RIG_MEMORY_OWN ? t->own_base : 0,
                          .err = err};
    uint64_t last = 0;
    enum rig_status status = check_map(&p, address, &last);
    if (status != RIG_OK)
        return status;
    p.smallest = only_smallest(&p);
    make_words(&p);
    cursor_begin(&p.cursor, p.ranges, p.count);
    status = take_tables(&p, t->root, address, last);
    if (status == RIG_NO_ROOM)
        give_taken(&p);
    if (status != RIG_OK)
        return status;
    cursor_begin(&p.cursor, p.ranges, p.count);
    status = plan_write(&p, t->root, address, last);
    if (status != RIG_OK || mode != PAGES_MAP || again)
        return status;
    bool confirmed;
    return t->ops->flush(t->gpu, &confirmed, err);
}

enum rig_status rig_page_table_map(struct rig_page_table *t, uint64_t address,
                                   struct rig_target target, const struct rig_range *ranges,
                                   size_t count, struct rig_error *err)
{
    return map(t, PAGES_MAP, false, address, target, ranges, count, err);
}

enum rig_status rig_page_table_load_map(struct rig_page_table *t, uint64_t address,
                                        struct rig_target target, const struct rig_range *ranges,
                                        size_t count, struct rig_error *err)
{
    if (count == 1 && page_table_load_run(t, address, target, ranges[0]))
        return RIG_OK;
    return map(t, PAGES_LOAD, false, address, target, ranges, count, err);
}

enum rig_status rig_page_table_write_map(struct rig_page_table *t, uint64_t address,
                                         struct rig_target target, const struct rig_range *ranges,
                                         size_t count, struct rig_error *err)
{
    return map(t, PAGES_MAP, true, address, target, ranges, count, err);
}

enum rig_status rig_page_table_suppose(struct rig_page_table *t, uint64_t address,
                                       struct rig_target target, const struct rig_range *ranges,
                                       size_t count, struct rig_error *err)
{
    return map(t, PAGES_SUPPOSE, false, address, target, ranges, count, err);
}

/* ---------- unmapping */

enum rig_status page_table_check_unmap(const struct rig_page_table *t, uint64_t address,
                                       uint64_t bytes, uint64_t *out_last, struct rig_error *err)
{
    if (((address | bytes) & UNIT_MASK) != 0 || bytes == 0 ||
        !rig_add(address, bytes - 1, out_last))
        return rig_fail(err, RIG_INVALID, t->f->name,
                        "a range to unmap is whole pages of 4 KiB and does not wrap");
    struct rig_mapping first = rig_page_table_at(t, address);
    struct rig_mapping last = rig_page_table_at(t, *out_last);
    if ((first.mapped && (address & (first.page - 1)) != 0) ||
        (last.mapped && ((*out_last + 1) & (last.page - 1)) != 0))
        return rig_fail(err, RIG_INVALID, t->f->name,
                        "0x%llx bytes at 0x%llx hold a part of a page", (unsigned long long)bytes,
                        (unsigned long long)address);
    return RIG_OK;
}

enum rig_status rig_page_table_unmap(struct rig_page_table *t, uint64_t address, uint64_t bytes,
                                     bool *out_confirmed, struct rig_error *err)
{
    uint64_t last = 0;
    enum rig_status status = page_table_check_unmap(t, address, bytes, &last, err);
    if (status != RIG_OK)
        return status;
    struct page_plan p = {.t = t, .mode = PAGES_CLEAR, .err = err};
    plan_size(&p, bytes);
    p.tail = &p.list;
    bool confirmed = false;
    status = plan_clear(&p, t->root, address, last);
    plan_clear_end(&p);
    if (status == RIG_OK)
        status = t->ops->flush(t->gpu, &confirmed, err);
    confirmed = confirmed && status == RIG_OK;
    for (struct page_node *node = p.list, *next; node; node = next) {
        next = node->next;
        if (confirmed) {
            shadow_node_give(t, node);
        } else {
            node->parent->children++;
            node->kept = true;
        }
    }
    if (status == RIG_OK)
        *out_confirmed = confirmed;
    return status;
}
