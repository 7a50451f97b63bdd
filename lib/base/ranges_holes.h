/* The holes of the range allocator: what each request does. Only the range allocator's files
   include this; what makes, drops, and works in trees of more than one node is in ranges_holes.c.
 */
#ifndef RIG_RANGES_HOLES_H
#define RIG_RANGES_HOLES_H

#include "base/ranges_internal.h"

#include <assert.h>

/* A hole's size chooses its class: one class for each size below 32, then 16 for each power of two.
   In a class a key orders by the rest of the size, then by address: the size's bits below the
   leading five, times 2^34, plus the address, all that complemented, so that the smallest and
   lowest hole, which is the one most often taken, has the last key. Sizes reach 2^34 units, so
   those bits are at most 30.

   A class is a B-tree of nodes of 256 bytes. A leaf holds 1 to LEAF_MOST ascending keys, an inner
   node 2 to INNER_MOST children of the level below it; key[i] of an inner node is not above any key
   under child i, and above each key under child i - 1. A node that is not the root has at least
   LEAF_LEAST keys or INNER_LEAST children. An unused node is in the list of them by `unused`. */
#define AT_BITS 34
#define AT_MASK ((UINT64_C(1) << AT_BITS) - 1)
#define LEAF_MOST 31
#define LEAF_LEAST 14
#define INNER_MOST 15
#define INNER_LEAST 7

/* NOLINTNEXTLINE(misc-redundant-expression): equal they must be */
static_assert(RIG_RANGES_UNITS_MAX == UINT64_C(1) << AT_BITS, "an address and a rest fill a key");

struct rig_hole_node {
    uint32_t count;
    uint32_t level; /* 0: leaf */
    union {
        uint64_t leaf[LEAF_MOST];
        struct {
            uint64_t key[INNER_MOST];
            struct rig_hole_node *child[INNER_MOST];
        };
        struct rig_hole_node *unused;
    };
};

/* How many low bits of a size are the rest. No branch hangs on a size here, nor below: the
   processor could not foresee it. */
static inline uint32_t hole_rest_bits(uint64_t units)
{
    return 59 - (uint32_t)__builtin_clzll(units | 16);
}

static inline uint32_t hole_class(uint64_t units)
{
    uint32_t bits = hole_rest_bits(units);
    return bits * 16 + (uint32_t)(units >> bits);
}

static inline uint64_t hole_key(uint64_t units, uint64_t at)
{
    uint64_t rest = units & ((UINT64_C(1) << hole_rest_bits(units)) - 1);
    return ~((rest << AT_BITS) + at);
}

static inline struct rig_hole hole_of(uint64_t class, uint64_t key)
{
    uint64_t bits = class / 16 - (class > 15), lead = class - bits * 16;
    return (struct rig_hole){.at = ~key & AT_MASK, .units = (lead << bits) + (~key >> AT_BITS)};
}

/* holes_grow is rig_holes_reserve where nodes are missing: it gets `need` in all. */
bool holes_grow(struct rig_holes *h, uint64_t need);

/* rig_holes_reserve gets the nodes that `holes` holes need, however they are distributed. False:
   memory ran out, and no hole changed. A tree of n keys has one node, or at most n / 14 leaves and
   one inner node more than a sixth of them. */
static inline bool rig_holes_reserve(struct rig_holes *h, uint64_t holes)
{
    uint64_t need = holes / 12 + (holes < h->classes ? holes : h->classes);
    return h->nodes >= need || holes_grow(h, need);
}

/* An empty node of a level, of those that rig_holes_reserve has got. */
static inline struct rig_hole_node *hole_node_take(struct rig_holes *h, uint32_t level)
{
    struct rig_hole_node *n = h->unused;
    h->unused = n->unused;
    n->count = 0;
    n->level = level;
    return n;
}

static inline void hole_node_drop(struct rig_holes *h, struct rig_hole_node *n)
{
    n->unused = h->unused;
    h->unused = n;
}

/* The number of the ascending keys that are not above k. No branch hangs on a key. */
static inline uint32_t hole_rank(const uint64_t *key, uint32_t n, uint64_t k)
{
    const uint64_t *at = key;
    for (; n > 1; n -= n / 2)
        at += -(uint32_t)(at[n / 2 - 1] <= k) & n / 2;
    return (uint32_t)(at - key) + (n && *at <= k);
}

/* Which child of an inner node has the keys about k. */
static inline uint32_t hole_child(const struct rig_hole_node *n, uint64_t k)
{
    return hole_rank(n->key + 1, n->count - 1, k);
}

/* holes_add_deep and holes_remove_deep are rig_holes_add and rig_holes_remove in a class of more
   than one node, or of a full one that is added to. */
void holes_add_deep(struct rig_holes *h, uint32_t class, uint64_t key);
void holes_remove_deep(struct rig_holes *h, uint32_t class, uint64_t key);

/* rig_holes_add adds a hole, for which rig_holes_reserve has got the nodes. */
static inline void rig_holes_add(struct rig_holes *h, uint64_t at, uint64_t units)
{
    uint32_t class = hole_class(units);
    uint64_t key = hole_key(units, at);
    struct rig_hole_node *n = h->root[class];
    h->count++;
    if (!n) {
        rig_bits_set(&h->used, class);
        n = h->root[class] = hole_node_take(h, 0);
    }
    if (n->level || n->count == LEAF_MOST) {
        holes_add_deep(h, class, key);
        return;
    }
    uint32_t i = n->count++;
    for (; i && n->leaf[i - 1] > key; i--)
        n->leaf[i] = n->leaf[i - 1];
    n->leaf[i] = key;
}

/* rig_holes_remove removes a hole, which is there. */
static inline void rig_holes_remove(struct rig_holes *h, uint64_t at, uint64_t units)
{
    uint32_t class = hole_class(units);
    uint64_t key = hole_key(units, at);
    struct rig_hole_node *n = h->root[class];
    h->count--;
    if (n->level) {
        holes_remove_deep(h, class, key);
        return;
    }
    if (--n->count == 0) {
        h->root[class] = NULL;
        hole_node_drop(h, n);
        rig_bits_clear(&h->used, class);
        return;
    }
    uint64_t last = n->leaf[n->count];
    for (uint32_t i = n->count; last != key; i--) {
        uint64_t at_i = n->leaf[i - 1];
        n->leaf[i - 1] = last;
        last = at_i;
    }
}

/* rig_holes_change makes the hole `from`, which is there, the hole `to`. */
static inline void rig_holes_change(struct rig_holes *h, struct rig_hole from, struct rig_hole to)
{
    uint32_t class = hole_class(from.units);
    struct rig_hole_node *n = h->root[class];
    if (n->level || class != hole_class(to.units)) {
        rig_holes_remove(h, from.at, from.units);
        rig_holes_add(h, to.at, to.units);
        return;
    }
    uint64_t key = hole_key(to.units, to.at);
    uint32_t i = hole_rank(n->leaf, n->count, hole_key(from.units, from.at)) - 1;
    for (; i && n->leaf[i - 1] > key; i--)
        n->leaf[i] = n->leaf[i - 1];
    for (; i + 1 < n->count && n->leaf[i + 1] < key; i++)
        n->leaf[i] = n->leaf[i + 1];
    n->leaf[i] = key;
}

/* A hole in the order of sizes and addresses: key `place` of a leaf of its class. It holds as long
   as no hole changes. */
struct rig_hole_place {
    uint64_t class;
    const struct rig_hole_node *leaf;
    uint32_t place;
};

static inline struct rig_hole hole_at(const struct rig_hole_place *p)
{
    return hole_of(p->class, p->leaf->leaf[p->place]);
}

static inline void hole_last(const struct rig_hole_node *n, struct rig_hole_place *out)
{
    while (n->level)
        n = n->child[n->count - 1];
    out->leaf = n;
    out->place = n->count - 1;
}

/* Whether the tree has a key not above k, and the place of the greatest one. */
static inline bool hole_previous(const struct rig_hole_node *n, uint64_t k,
                                 struct rig_hole_place *out)
{
    const struct rig_hole_node *before = NULL;
    while (n->level) {
        uint32_t i = hole_child(n, k);
        before = i ? n->child[i - 1] : before;
        n = n->child[i];
    }
    uint32_t i = n->count;
    while (i && n->leaf[i - 1] > k)
        i--;
    if (i) {
        out->leaf = n;
        out->place = i - 1;
    } else if (before) {
        hole_last(before, out);
    }
    return i || before;
}

/* rig_holes_find is true, and *out the place, for the least hole by size, then by address, that is
   not below (units, at). */
static inline bool rig_holes_find(const struct rig_holes *h, uint64_t units, uint64_t at,
                                  struct rig_hole_place *out)
{
    out->class = hole_class(units);
    if (h->root[out->class] && hole_previous(h->root[out->class], hole_key(units, at), out))
        return true;
    out->class = rig_bits_next(&h->used, out->class + 1);
    if (out->class == RIG_NONE)
        return false;
    hole_last(h->root[out->class], out);
    return true;
}

/* rig_holes_next makes *p the place of the hole that follows `hole`, which is there; false: none
   does. */
static inline bool rig_holes_next(const struct rig_holes *h, struct rig_hole hole,
                                  struct rig_hole_place *p)
{
    if (p->place == 0)
        return rig_holes_find(h, hole.units, hole.at + 1, p);
    p->place--;
    return true;
}

#endif
