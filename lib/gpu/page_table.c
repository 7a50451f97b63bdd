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
    struct rig_page_table *t;
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
    struct rig_page_table *t;
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

/* All ranges at once: the loop is long where each page is a range of its own. */
static enum rig_status check_ranges(const struct rig_format *f, const struct rig_range *ranges,
                                    size_t count, uint64_t *out_bytes, uint64_t *out_last,
                                    struct rig_error *err)
{
    uint64_t low = 0, total = 0, last = 0;
    bool bad = count == 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t address = ranges[i].address, bytes = ranges[i].bytes;
        uint64_t end = address + (bytes - 1);
        low |= address | bytes;
        bad |= bytes == 0 || end < address || __builtin_add_overflow(total, bytes, &total);
        last = end > last ? end : last;
    }
    if (bad || (low & UNIT_MASK) != 0)
        return rig_fail(err, RIG_INVALID, f->name,
                        "ranges to map are whole pages of 4 KiB that do not wrap");
    *out_bytes = total;
    *out_last = last;
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
                                  size_t count, uint64_t *out_bytes, struct rig_error *err)
{
    static const char *const kinds[] = {"own memory", "system memory", "linked memory"};
    uint64_t last = 0;
    enum rig_status status = check_target(f, target, err);
    if (status == RIG_OK)
        status = check_ranges(f, ranges, count, out_bytes, &last, err);
    if (status != RIG_OK)
        return status;
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
    uint64_t bytes;
    return check_fits(f, own_base, target, ranges, count, &bytes, err);
}

static enum rig_status check_free(const struct rig_page_table *t, uint64_t address, uint64_t last,
                                  struct rig_error *err)
{
    for (;;) {
        struct rig_mapping m = rig_page_table_at(t, address);
        if (m.mapped)
            return rig_fail(err, RIG_INVALID, t->f->name, "0x%llx is mapped already",
                            (unsigned long long)address);
        if (m.end - 1 >= last)
            return RIG_OK;
        address = m.end;
    }
}

/* ---------- mapping */

static enum rig_status take_child(struct page_plan *p, struct page_node *node, unsigned i,
                                  unsigned half, struct page_node **out_child)
{
    struct rig_page_table *t = p->t;
    *out_child = shadow_child(t, node, i, half);
    if (*out_child)
        return RIG_OK;
    if (p->mode == PAGES_LOAD)
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
    if (p->t->halves[node->level] == 2) {
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
    if (p->t->halves[child->level] != 0)
        return take_tables(p, child, address, last);
    skip(p, last - address + 1);
    return RIG_OK;
}

/* Takes the tables that the plan needs below node and that are not there. */
static enum rig_status take_tables(struct page_plan *p, struct page_node *node, uint64_t address,
                                   uint64_t last)
{
    unsigned shift = p->t->f->level[node->level].shift;
    uint64_t page = UINT64_C(1) << shift;
    enum rig_status status = RIG_OK;
    while (status == RIG_OK && address - 1 != last) {
        unsigned n = plan_leaves(p, node, address, last);
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

static enum rig_status check_map(const struct page_plan *p, uint64_t address, uint64_t *out_last)
{
    const struct rig_page_table *t = p->t;
    uint64_t bytes;
    enum rig_status status =
        check_fits(t->f, t->own_base, p->target, p->ranges, p->count, &bytes, p->err);
    if (status != RIG_OK)
        return status;
    if ((address & UNIT_MASK) != 0 || !rig_format_mappable(t->f, address, bytes))
        return rig_fail(p->err, RIG_INVALID, t->f->name,
                        "0x%llx bytes at 0x%llx are not addresses that %s maps",
                        (unsigned long long)bytes, (unsigned long long)address, t->f->name);
    *out_last = address + bytes - 1;
    return check_free(t, address, *out_last, p->err);
}

static enum rig_status map(struct rig_page_table *t, enum page_mode mode, uint64_t address,
                           struct rig_target target, const struct rig_range *ranges, size_t count,
                           struct rig_error *err)
{
    struct page_plan p = {.t = t,
                          .mode = mode,
                          .target = target,
                          .ranges = ranges,
                          .count = count,
                          .base = target.memory == RIG_MEMORY_OWN ? t->own_base : 0,
                          .err = err};
    uint64_t last = 0;
    enum rig_status status = check_map(&p, address, &last);
    if (status != RIG_OK)
        return status;
    make_words(&p);
    cursor_begin(&p.cursor, ranges, count);
    status = take_tables(&p, t->root, address, last);
    if (status == RIG_NO_ROOM)
        give_taken(&p);
    if (status != RIG_OK)
        return status;
    cursor_begin(&p.cursor, ranges, count);
    status = plan_write(&p, t->root, address, last);
    if (status != RIG_OK || mode != PAGES_MAP)
        return status;
    bool confirmed;
    return t->ops->flush(t->gpu, &confirmed, err);
}

enum rig_status rig_page_table_map(struct rig_page_table *t, uint64_t address,
                                   struct rig_target target, const struct rig_range *ranges,
                                   size_t count, struct rig_error *err)
{
    return map(t, PAGES_MAP, address, target, ranges, count, err);
}

enum rig_status rig_page_table_load_map(struct rig_page_table *t, uint64_t address,
                                        struct rig_target target, const struct rig_range *ranges,
                                        size_t count, struct rig_error *err)
{
    return map(t, PAGES_LOAD, address, target, ranges, count, err);
}

enum rig_status rig_page_table_suppose(struct rig_page_table *t, uint64_t address,
                                       struct rig_target target, const struct rig_range *ranges,
                                       size_t count, struct rig_error *err)
{
    return map(t, PAGES_SUPPOSE, address, target, ranges, count, err);
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
    p.tail = &p.list;
    bool confirmed = false;
    status = plan_clear(&p, t->root, address, last);
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
