/* The parts of the range allocator. Everything here counts in units from the allocator's base.

   The edges know, by address, where each block and each free range begins. The holes are the same
   free ranges ordered by size and then by address. Only the range allocator and its tests include
   this. */
#ifndef RIG_RANGES_INTERNAL_H
#define RIG_RANGES_INTERNAL_H

#include "base/ranges.h"

/* Where the parts get memory, but for tables of 1 MiB and more: as calloc. A test passes one that
   fails. */
typedef void *rig_ranges_source(size_t count, size_t bytes);

enum rig_status rig_ranges_make_from(rig_ranges_source *source, uint64_t base, uint64_t bytes,
                                     uint64_t unit, struct rig_ranges **out_ranges,
                                     struct rig_error *err);

/* ---------- bits: a set of small numbers, with the next and the previous member in a few steps */

#define RIG_NONE UINT64_MAX

/* level[0] holds a bit for each number, level[k + 1] a bit for each word of level[k], set iff the
   word is not 0. The last level is one word. All levels are one piece of memory, at level[0]. */
struct rig_bits {
    unsigned levels;
    uint64_t words[6]; /* of each level */
    uint64_t *level[6];
};

bool rig_bits_make(struct rig_bits *b, uint64_t count, rig_ranges_source *source);

static inline bool rig_bits_has(const struct rig_bits *b, uint64_t i)
{
    return b->level[0][i / 64] >> i % 64 & 1;
}

static inline void rig_bits_set(struct rig_bits *b, uint64_t i)
{
    for (unsigned k = 0; k < b->levels; k++, i /= 64) {
        uint64_t was = b->level[k][i / 64];
        b->level[k][i / 64] = was | UINT64_C(1) << i % 64;
        if (was)
            break;
    }
}

static inline void rig_bits_clear(struct rig_bits *b, uint64_t i)
{
    for (unsigned k = 0; k < b->levels; k++, i /= 64)
        if (b->level[k][i / 64] &= ~(UINT64_C(1) << i % 64))
            break;
}

/* rig_bits_next is the least member not below i, or RIG_NONE. */
static inline uint64_t rig_bits_next(const struct rig_bits *b, uint64_t i)
{
    for (unsigned k = 0; k < b->levels && i / 64 < b->words[k]; k++, i = i / 64 + 1) {
        uint64_t m = b->level[k][i / 64] >> i % 64;
        if (!m)
            continue;
        i += (unsigned)__builtin_ctzll(m);
        while (k--)
            i = i * 64 + (unsigned)__builtin_ctzll(b->level[k][i]);
        return i;
    }
    return RIG_NONE;
}

/* rig_bits_previous is the greatest member below i, or RIG_NONE. */
static inline uint64_t rig_bits_previous(const struct rig_bits *b, uint64_t i)
{
    for (unsigned k = 0; k < b->levels && i; k++, i /= 64) {
        uint64_t m = i % 64 ? b->level[k][i / 64] << (64 - i % 64) : 0;
        if (!m)
            continue;
        i -= 1 + (unsigned)__builtin_clzll(m);
        while (k--)
            i = i * 64 + 63 - (unsigned)__builtin_clzll(b->level[k][i]);
        return i;
    }
    return RIG_NONE;
}

/* ---------- edges: where each block and each hole begins, by address */

#define RIG_CHUNK_LOG2 12 /* units a chunk covers */

struct rig_chunk;

/* An edge begins each block and each hole, and nothing else; unit 0 is always one. The edges of a
   chunk of units lie in one piece of memory, NULL where it has none (see ranges_edges.h). */
struct rig_edges {
    uint64_t units;
    struct rig_chunk **chunk;
    struct rig_bits used; /* the chunks that have an edge */
    rig_ranges_source *source;
};

struct rig_edge {
    uint64_t at;   /* `units` stands for the end, where no hole begins */
    bool hole;     /* a hole begins here, not a block */
    uint32_t slot; /* its place in the chunk; meaningless at the end */
};

/* rig_edges_make makes one hole of all units. rig_edges_drop frees what either outcome left. */
bool rig_edges_make(struct rig_edges *e, uint64_t units, rig_ranges_source *source);
void rig_edges_drop(struct rig_edges *e);

/* rig_edges_at_or_before is the greatest edge not above unit `at`, which is below the end. */
struct rig_edge rig_edges_at_or_before(const struct rig_edges *e, uint64_t at);

/* ---------- holes: the free ranges by size, then by address */

#define RIG_HOLE_CLASSES 512

struct rig_hole {
    uint64_t at;
    uint64_t units;
};

struct rig_hole_node;
struct rig_hole_slab;

/* The holes of each class of sizes are a B-tree (see ranges_holes.h). Nodes are got ahead, so that
   no change needs memory once rig_holes_reserve has answered for that many holes. */
struct rig_holes {
    struct rig_hole_node *root[RIG_HOLE_CLASSES];
    struct rig_bits used; /* the classes that have a hole */
    struct rig_hole_node *unused;
    struct rig_hole_slab *slabs;
    uint64_t count;   /* of holes */
    uint64_t nodes;   /* got so far, unused ones included */
    uint64_t classes; /* the most that can have a hole */
    rig_ranges_source *source;
};

/* rig_holes_make makes no hole yet. rig_holes_drop frees what either outcome left. */
bool rig_holes_make(struct rig_holes *h, uint64_t units, rig_ranges_source *source);
void rig_holes_drop(struct rig_holes *h);

/* rig_holes_largest is true, and *out the last hole by size, then by address, if there is one. */
bool rig_holes_largest(const struct rig_holes *h, struct rig_hole *out);

/* ---------- the allocator */

/* Blocks and holes cover the managed units without a gap; no two holes meet. The edges say where
   each begins; the holes are in both structures. `free` is the sum of the holes' units. The nodes
   got for the holes suffice for as many as there can be once blocks are given back, so that giving
   back needs no memory. */
struct rig_ranges {
    uint64_t base;  /* address of unit 0 */
    unsigned shift; /* a unit is 2^shift bytes */
    uint64_t units;
    uint64_t free;
    uint64_t blocks;
    struct rig_edges edges;
    struct rig_holes holes;
};

#endif
