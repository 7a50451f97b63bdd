#include "base/ranges_edges.h"
#include "base/ranges_holes.h"

#include <stdlib.h>
#include <string.h>

/* What is searched, in units: n of them, beginning in [from, below - n], `align` a power of two. */
struct search {
    uint64_t n;
    uint64_t align;
    uint64_t from;
    uint64_t below;
};

/* The holes a search that alignment or bounds hinder looks at before it asks for a larger one. */
#define TRIES 16

enum rig_status rig_ranges_make_from(rig_ranges_source *source, uint64_t base, uint64_t bytes,
                                     uint64_t unit, struct rig_ranges **out_ranges,
                                     struct rig_error *err)
{
    if (!rig_power_of_two(unit))
        return rig_fail(err, RIG_INVALID, NULL, "a unit of %llu bytes is no power of two",
                        (unsigned long long)unit);
    uint64_t last;
    if (bytes == 0 || base % unit || bytes % unit || !rig_add(base, bytes - 1, &last) ||
        bytes / unit > RIG_RANGES_UNITS_MAX)
        return rig_fail(err, RIG_INVALID, NULL,
                        "%#llx bytes at %#llx are no range of 1 to 2^34 units of %llu bytes",
                        (unsigned long long)bytes, (unsigned long long)base,
                        (unsigned long long)unit);
    struct rig_ranges *r = source(1, sizeof *r);
    if (!r)
        return rig_fail_memory(err);
    r->base = base;
    r->shift = (unsigned)__builtin_ctzll(unit);
    r->units = r->free = bytes / unit;
    if (!rig_edges_make(&r->edges, r->units, source) ||
        !rig_holes_make(&r->holes, r->units, source)) {
        rig_ranges_drop(r);
        return rig_fail_memory(err);
    }
    rig_holes_add(&r->holes, 0, r->units);
    *out_ranges = r;
    return RIG_OK;
}

enum rig_status rig_ranges_make(uint64_t base, uint64_t bytes, uint64_t unit,
                                struct rig_ranges **out_ranges, struct rig_error *err)
{
    return rig_ranges_make_from(calloc, base, bytes, unit, out_ranges, err);
}

void rig_ranges_drop(struct rig_ranges *r)
{
    if (!r)
        return;
    rig_edges_drop(&r->edges);
    rig_holes_drop(&r->holes);
    free(r);
}

/* Units from `at` up to the next address that is a multiple of `align` units. */
static inline uint64_t pad(const struct rig_ranges *r, uint64_t at, uint64_t align)
{
    return (0 - ((r->base >> r->shift) + at)) & (align - 1);
}

/* Blocks of these many units lie at the end of their hole, others at its start. So small and
   middling blocks of one hole part, and what is freed of either joins its like. Over 24 random
   mixes of sizes from 4 KiB to 2 GiB the first refusal of one block comes at 0.82 of the memory on
   average; at 0.81 where every block lies at its hole's start; and sooner with other bounds. */
static inline bool at_end(uint64_t units)
{
    return units >= 512 && units < 8192;
}

/* Whether s fits into the part of the hole within its bounds, and where. */
static inline bool fits(const struct rig_ranges *r, const struct search *s, struct rig_hole hole,
                        uint64_t *out_at)
{
    uint64_t end = hole.at + hole.units;
    uint64_t at = hole.at < s->from ? s->from : hole.at;
    end = end < s->below ? end : s->below;
    uint64_t skip = pad(r, at, s->align);
    if (at >= end || skip > end - at || s->n > end - at - skip)
        return false;
    uint64_t room = end - at - skip - s->n;
    *out_at = at + skip + (at_end(s->n) ? room & ~(s->align - 1) : 0);
    return true;
}

/* Looks at the holes of at least `least` units that begin within the bounds, smallest first, at up
   to `tries` of them. Of one size only those are seen that leave room below s->below: the first
   that does not ends its size, as addresses ascend. */
static bool look(const struct rig_ranges *r, const struct search *s, uint64_t least, uint64_t tries,
                 struct rig_hole *out_hole, uint64_t *out_at)
{
    struct rig_hole_place p;
    bool there = rig_holes_find(&r->holes, least, s->from, &p);
    while (there && tries--) {
        struct rig_hole hole = hole_at(&p);
        *out_hole = hole;
        if (hole.at >= s->from && fits(r, s, hole, out_at))
            return true;
        bool low = hole.at<s->from, high = hole.at> s->below - s->n;
        if (low || high)
            there = hole.units + high <= r->units &&
                    rig_holes_find(&r->holes, hole.units + high, s->from, &p);
        else
            there = rig_holes_next(&r->holes, hole, &p);
    }
    return false;
}

/* The hole that unit s->from lies in, if it begins below and s fits. */
static bool look_across(const struct rig_ranges *r, const struct search *s,
                        struct rig_hole *out_hole, uint64_t *out_at)
{
    if (s->from == 0)
        return false;
    struct rig_edge edge = rig_edges_at_or_before(&r->edges, s->from);
    if (!edge.hole || edge.at == s->from)
        return false;
    *out_hole = (struct rig_hole){edge.at, rig_edges_next(&r->edges, &edge).at - edge.at};
    return fits(r, s, *out_hole, out_at);
}

static bool find(const struct rig_ranges *r, const struct search *s, struct rig_hole *out_hole,
                 uint64_t *out_at)
{
    if (s->n > r->free || s->from >= s->below || s->n > s->below - s->from)
        return false;
    if (s->align == 1 && s->from == 0 && s->below == r->units) {
        struct rig_hole_place p;
        if (!rig_holes_find(&r->holes, s->n, 0, &p))
            return false;
        *out_hole = hole_at(&p);
        return fits(r, s, *out_hole, out_at);
    }
    uint64_t sure = s->n + s->align - 1; /* a hole of this many units fits, wherever it lies */
    return look(r, s, s->n, TRIES, out_hole, out_at) ||
           (s->align <= r->units && sure <= r->units &&
            look(r, s, sure, TRIES, out_hole, out_at)) ||
           look(r, s, s->n, UINT64_MAX, out_hole, out_at) || look_across(r, s, out_hole, out_at);
}

/* The most holes that there can be once blocks are given back, of so many blocks and holes. A block
   that goes makes one hole, and one less for each hole beside it: so the sum of both never grows.
   And two holes have a block between them. */
static inline uint64_t holes_to_come(uint64_t blocks, uint64_t holes)
{
    return (blocks + holes + 1) / 2;
}

/* Makes n units from `at` on, all of `hole`'s, a block. False: memory ran out, nothing changed. */
static bool place(struct rig_ranges *r, struct rig_hole hole, uint64_t at, uint64_t n)
{
    uint64_t end = at + n, before = at - hole.at, after = hole.units - before - n;
    if (!rig_holes_reserve(&r->holes, holes_to_come(r->blocks + 1, r->holes.count + 1)))
        return false;
    if ((before || after) &&
        !rig_edges_reserve(&r->edges, before ? at : end, before && after ? end : r->units))
        return false;
    struct rig_hole left = {hole.at, before}, right = {end, after};
    if (before)
        rig_edges_add(&r->edges, at, false);
    else
        rig_edges_take(&r->edges, at);
    if (after)
        rig_edges_add(&r->edges, end, true);
    if (before || after)
        rig_holes_change(&r->holes, hole, before ? left : right);
    else
        rig_holes_remove(&r->holes, hole.at, hole.units);
    if (before && after)
        rig_holes_add(&r->holes, right.at, right.units);
    r->free -= n;
    r->blocks++;
    return true;
}

static void give(struct rig_ranges *r, const struct rig_block *b)
{
    uint64_t at = b->edge.at, left = b->before.at;
    struct rig_hole before = {left, at - left}, after = {b->next.at, b->end - b->next.at};
    struct rig_hole all = {b->before.hole ? left : at, b->end - (b->before.hole ? left : at)};
    r->free += b->next.at - at;
    r->blocks--;
    if (b->next.hole)
        rig_edges_remove(&r->edges, &b->next);
    if (b->before.hole)
        rig_edges_remove(&r->edges, &b->edge);
    else
        rig_edges_give(&r->edges, &b->edge);
    if (b->before.hole && b->next.hole)
        rig_holes_remove(&r->holes, after.at, after.units);
    if (b->before.hole || b->next.hole)
        rig_holes_change(&r->holes, b->before.hole ? before : after, all);
    else
        rig_holes_add(&r->holes, all.at, all.units);
}

static enum rig_status refuse_arguments(uint64_t bytes, uint64_t align, struct rig_error *err)
{
    return rig_fail(err, RIG_INVALID, NULL, "%#llx bytes aligned to %#llx are no whole units",
                    (unsigned long long)bytes, (unsigned long long)align);
}

static bool sound(const struct rig_ranges *r, uint64_t bytes, uint64_t align)
{
    return bytes && bytes % (UINT64_C(1) << r->shift) == 0 && (!align || rig_power_of_two(align));
}

static uint64_t align_units(const struct rig_ranges *r, uint64_t align)
{
    return align >> r->shift ? align >> r->shift : 1;
}

enum rig_status rig_ranges_take(struct rig_ranges *r, const struct rig_ranges_want *want,
                                uint64_t *out_address, struct rig_error *err)
{
    if (!sound(r, want->bytes, want->align))
        return refuse_arguments(want->bytes, want->align, err);
    uint64_t unit = UINT64_C(1) << r->shift, at;
    struct search s = {want->bytes >> r->shift, align_units(r, want->align), 0, r->units};
    if (want->from > r->base)
        s.from = ((want->from - r->base - 1) >> r->shift) + 1;
    if (want->below && want->below <= r->base)
        s.below = 0;
    else if (want->below && (want->below - r->base) / unit < r->units)
        s.below = (want->below - r->base) / unit;
    struct rig_hole hole;
    if (!find(r, &s, &hole, &at))
        return rig_fail(err, RIG_NO_ROOM, NULL, "no free range holds %#llx bytes",
                        (unsigned long long)want->bytes);
    if (!place(r, hole, at, s.n))
        return rig_fail_memory(err);
    *out_address = r->base + (at << r->shift);
    return RIG_OK;
}

/* The next of several blocks for n units in all: the rest as one block, else what the largest hole
   holds of it. *align falls to 1 where that hole has no aligned part. */
static bool place_piece(struct rig_ranges *r, uint64_t n, uint64_t *align, uint64_t *out_at,
                        uint64_t *out_n)
{
    struct rig_hole hole;
    struct search s = {n, *align, 0, r->units};
    if (find(r, &s, &hole, out_at)) {
        *out_n = n;
        return place(r, hole, *out_at, n);
    }
    rig_holes_largest(&r->holes, &hole);
    uint64_t skip = pad(r, hole.at, *align);
    if (skip >= hole.units || hole.units - skip < *align || n < *align) {
        *align = 1;
        skip = 0;
    }
    *out_at = hole.at + skip;
    *out_n = (hole.units - skip < n ? hole.units - skip : n) & ~(*align - 1);
    return place(r, hole, *out_at, *out_n);
}

static struct rig_range *grow(struct rig_range *from, size_t count, rig_ranges_source *source)
{
    struct rig_range *grown = source(count * 2, sizeof *grown);
    if (grown)
        memcpy(grown, from, count * sizeof *from);
    return grown;
}

enum rig_status rig_ranges_take_several(struct rig_ranges *r, uint64_t bytes, uint64_t align,
                                        struct rig_range **out_blocks, size_t *out_count,
                                        struct rig_error *err)
{
    if (!sound(r, bytes, align))
        return refuse_arguments(bytes, align, err);
    uint64_t left = bytes >> r->shift, at, n;
    if (left > r->free)
        return rig_fail(err, RIG_NO_ROOM, NULL, "%#llx bytes are free, and %#llx asked for",
                        (unsigned long long)rig_ranges_free_bytes(r), (unsigned long long)bytes);
    size_t count = 0, room = 2;
    struct rig_range *blocks = r->edges.source(room, sizeof *blocks);
    align = align_units(r, align);
    for (; blocks && left; left -= n) {
        if (count == room) {
            struct rig_range *grown = grow(blocks, count, r->edges.source);
            if (!grown)
                break;
            free(blocks);
            blocks = grown;
            room *= 2;
        }
        if (!place_piece(r, left, &align, &at, &n))
            break;
        blocks[count++] = (struct rig_range){r->base + (at << r->shift), n << r->shift};
    }
    if (left || !blocks) {
        while (count--)
            rig_ranges_give(r, blocks[count].address, blocks[count].bytes, NULL);
        free(blocks);
        return rig_fail_memory(err);
    }
    *out_blocks = blocks;
    *out_count = count;
    return RIG_OK;
}

/* Whether [address, address + bytes) is one or more whole units of r, and which. */
static bool units_at(const struct rig_ranges *r, uint64_t address, uint64_t bytes, uint64_t *out_at,
                     uint64_t *out_n)
{
    uint64_t at = address - r->base, mask = (UINT64_C(1) << r->shift) - 1;
    if (address < r->base || (at | bytes) & mask || bytes == 0)
        return false;
    *out_at = at >> r->shift;
    *out_n = bytes >> r->shift;
    return *out_at < r->units && *out_n <= r->units - *out_at;
}

enum rig_status rig_ranges_take_at(struct rig_ranges *r, uint64_t address, uint64_t bytes,
                                   struct rig_error *err)
{
    uint64_t at, n;
    if (!units_at(r, address, bytes, &at, &n))
        return rig_fail(err, RIG_INVALID, NULL, "%#llx bytes at %#llx are no whole units in range",
                        (unsigned long long)bytes, (unsigned long long)address);
    struct rig_edge edge = rig_edges_at_or_before(&r->edges, at);
    struct rig_hole hole = {edge.at, rig_edges_next(&r->edges, &edge).at - edge.at};
    if (!edge.hole || n > hole.at + hole.units - at)
        return rig_fail(err, RIG_NO_ROOM, NULL, "%#llx bytes at %#llx are not all free",
                        (unsigned long long)bytes, (unsigned long long)address);
    return place(r, hole, at, n) ? RIG_OK : rig_fail_memory(err);
}

enum rig_status rig_ranges_give(struct rig_ranges *r, uint64_t address, uint64_t bytes,
                                struct rig_error *err)
{
    uint64_t at, n;
    struct rig_block block;
    if (!units_at(r, address, bytes, &at, &n) || !rig_edges_block(&r->edges, at, &block))
        return rig_fail(err, RIG_INVALID, NULL, "no block of %#llx bytes begins at %#llx",
                        (unsigned long long)bytes, (unsigned long long)address);
    if (block.next.at - at != n)
        return rig_fail(err, RIG_INVALID, NULL, "the block at %#llx has %#llx bytes, not %#llx",
                        (unsigned long long)address,
                        (unsigned long long)(block.next.at - at) << r->shift,
                        (unsigned long long)bytes);
    give(r, &block);
    return RIG_OK;
}

uint64_t rig_ranges_free_bytes(const struct rig_ranges *r)
{
    return r->free << r->shift;
}

uint64_t rig_ranges_largest(const struct rig_ranges *r)
{
    struct rig_hole hole;
    return rig_holes_largest(&r->holes, &hole) ? hole.units << r->shift : 0;
}

uint64_t rig_ranges_blocks(const struct rig_ranges *r)
{
    return r->blocks;
}

static bool next_of(const struct rig_ranges *r, uint64_t address, bool hole,
                    struct rig_range *out_range)
{
    uint64_t at = address > r->base ? ((address - r->base - 1) >> r->shift) + 1 : 0;
    if (at >= r->units)
        return false;
    struct rig_edge edge = rig_edges_at_or_before(&r->edges, at);
    if (edge.at < at)
        edge = rig_edges_next(&r->edges, &edge);
    while (edge.at < r->units && edge.hole != hole)
        edge = rig_edges_next(&r->edges, &edge);
    if (edge.at == r->units)
        return false;
    *out_range = (struct rig_range){
        .address = r->base + (edge.at << r->shift),
        .bytes = (rig_edges_next(&r->edges, &edge).at - edge.at) << r->shift,
    };
    return true;
}

bool rig_ranges_next_free(const struct rig_ranges *r, uint64_t address, struct rig_range *out_range)
{
    return next_of(r, address, true, out_range);
}

bool rig_ranges_next_block(const struct rig_ranges *r, uint64_t address,
                           struct rig_range *out_range)
{
    return next_of(r, address, false, out_range);
}
