#include "base/ranges_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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
#define HEIGHT_MOST 20 /* seven children a level make 2^34 keys within 13 */

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

struct rig_hole_slab {
    struct rig_hole_slab *next;
    struct rig_hole_node node[];
};

/* The nodes from the root to a leaf, and which child was taken in each. */
struct path {
    unsigned depth; /* of the leaf; the root is at 0 */
    struct rig_hole_node *node[HEIGHT_MOST];
    uint32_t child[HEIGHT_MOST];
};

/* How many low bits of a size are the rest. No branch hangs on a size here, nor below: the
   processor could not foresee it. */
static inline uint32_t rest_bits(uint64_t units)
{
    return 59 - (uint32_t)__builtin_clzll(units | 16);
}

static inline uint32_t class_of(uint64_t units)
{
    uint32_t bits = rest_bits(units);
    return bits * 16 + (uint32_t)(units >> bits);
}

static inline uint64_t key_of(uint64_t units, uint64_t at)
{
    uint64_t rest = units & ((UINT64_C(1) << rest_bits(units)) - 1);
    return ~((rest << AT_BITS) + at);
}

static inline struct rig_hole hole_of(uint64_t class, uint64_t key)
{
    uint64_t bits = class / 16 - (class > 15), lead = class - bits * 16;
    return (struct rig_hole){.at = ~key & AT_MASK, .units = (lead << bits) + (~key >> AT_BITS)};
}

bool rig_holes_make(struct rig_holes *h, uint64_t units, rig_ranges_source *source)
{
    *h = (struct rig_holes){.source = source, .classes = class_of(units)};
    return rig_bits_make(&h->used, RIG_HOLE_CLASSES, source) && rig_holes_reserve(h, 1);
}

void rig_holes_drop(struct rig_holes *h)
{
    while (h->slabs) {
        struct rig_hole_slab *next = h->slabs->next;
        free(h->slabs);
        h->slabs = next;
    }
    free(h->used.level[0]);
}

/* A tree of n keys has one node, or at most n / 14 leaves and one inner node more than a sixth of
   them. */
bool rig_holes_reserve(struct rig_holes *h, uint64_t holes)
{
    uint64_t need = holes / 12 + (holes < h->classes ? holes : h->classes);
    while (h->nodes < need) {
        uint64_t more = h->nodes / 4 < 4 ? 4 : h->nodes / 4 > 64 ? 64 : h->nodes / 4;
        struct rig_hole_slab *slab = h->source(1, sizeof *slab + more * sizeof slab->node[0]);
        if (!slab)
            return false;
        for (uint64_t i = 0; i < more; i++) {
            slab->node[i].unused = h->unused;
            h->unused = &slab->node[i];
        }
        slab->next = h->slabs;
        h->slabs = slab;
        h->nodes += more;
    }
    return true;
}

static struct rig_hole_node *take_node(struct rig_holes *h, uint32_t level)
{
    struct rig_hole_node *n = h->unused;
    h->unused = n->unused;
    n->count = 0;
    n->level = level;
    return n;
}

static void drop_node(struct rig_holes *h, struct rig_hole_node *n)
{
    n->unused = h->unused;
    h->unused = n;
}

/* The number of the ascending keys that are not above k. No branch hangs on a key. */
static inline uint32_t rank(const uint64_t *key, uint32_t n, uint64_t k)
{
    const uint64_t *at = key;
    for (; n > 1; n -= n / 2)
        at += -(uint32_t)(at[n / 2 - 1] <= k) & n / 2;
    return (uint32_t)(at - key) + (n && *at <= k);
}

/* Which child of an inner node has the keys about k. */
static inline uint32_t child_for(const struct rig_hole_node *n, uint64_t k)
{
    return rank(n->key + 1, n->count - 1, k);
}

static struct rig_hole_node *descend(struct rig_hole_node *root, uint64_t key, struct path *p)
{
    struct rig_hole_node *n = root;
    p->depth = 0;
    while (n->level) {
        p->node[p->depth] = n;
        p->child[p->depth] = child_for(n, key);
        n = n->child[p->child[p->depth++]];
    }
    p->node[p->depth] = n;
    return n;
}

/* Moves n entries of `from`, from place i on, to place j of `to`, over what lies there. */
static void move(struct rig_hole_node *to, uint32_t j, struct rig_hole_node *from, uint32_t i,
                 uint32_t n)
{
    memmove(&to->leaf[j], &from->leaf[i], n * sizeof to->leaf[0]);
    if (to->level)
        memmove(&to->child[j], &from->child[i], n * sizeof to->child[0]);
}

static void insert(struct rig_hole_node *n, uint32_t at, uint64_t key, struct rig_hole_node *child)
{
    move(n, at + 1, n, at, n->count - at);
    n->leaf[at] = key;
    if (child)
        n->child[at] = child;
    n->count++;
}

/* Splits the full node n and inserts (key, child) at place `at`. The result is the right half. */
static struct rig_hole_node *split(struct rig_holes *h, struct rig_hole_node *n, uint32_t at,
                                   uint64_t key, struct rig_hole_node *child)
{
    struct rig_hole_node *right = take_node(h, n->level);
    uint32_t half = (n->count + 1) / 2, keep = at < half ? half - 1 : half;
    right->count = n->count - keep;
    move(right, 0, n, keep, right->count);
    n->count = keep;
    if (at < half)
        insert(n, at, key, child);
    else
        insert(right, at - keep, key, child);
    return right;
}

/* rig_holes_add for a class of more than one node, or a full one. */
static __attribute__((noinline)) void add_deep(struct rig_holes *h, uint32_t class, uint64_t key)
{
    struct path p;
    struct rig_hole_node *n = descend(h->root[class], key, &p), *child = NULL;
    uint32_t place = rank(n->leaf, n->count, key);
    for (unsigned d = p.depth; n->count == (n->level ? INNER_MOST : LEAF_MOST); d--) {
        child = split(h, n, place, key, child);
        key = child->leaf[0];
        if (d == 0) {
            struct rig_hole_node *root = take_node(h, n->level + 1);
            root->key[0] = 0;
            root->child[0] = n;
            root->count = 1;
            h->root[class] = root;
            insert(root, 1, key, child);
            return;
        }
        n = p.node[d - 1];
        place = p.child[d - 1] + 1;
    }
    insert(n, place, key, child);
}

void rig_holes_add(struct rig_holes *h, uint64_t at, uint64_t units)
{
    uint32_t class = class_of(units);
    uint64_t key = key_of(units, at);
    struct rig_hole_node *n = h->root[class];
    if (!n) {
        rig_bits_set(&h->used, class);
        n = h->root[class] = take_node(h, 0);
    }
    if (n->level || n->count == LEAF_MOST) {
        add_deep(h, class, key);
        return;
    }
    uint32_t i = n->count++;
    for (; i && n->leaf[i - 1] > key; i--)
        n->leaf[i] = n->leaf[i - 1];
    n->leaf[i] = key;
}

/* Gives a node that has too few entries, child `i` of `parent`, some of a neighbour's, or makes one
   node of the two. */
static void refill(struct rig_holes *h, struct rig_hole_node *parent, uint32_t i)
{
    uint32_t l = i ? i - 1 : 0;
    struct rig_hole_node *left = parent->child[l], *right = parent->child[l + 1];
    uint32_t all = left->count + right->count;
    if (all <= (left->level ? INNER_MOST : LEAF_MOST)) {
        move(left, left->count, right, 0, right->count);
        left->count = all;
        drop_node(h, right);
        move(parent, l + 1, parent, l + 2, parent->count - l - 2);
        parent->count--;
        return;
    }
    if (left->count < right->count) {
        uint32_t n = all / 2 - left->count;
        move(left, left->count, right, 0, n);
        move(right, 0, right, n, right->count - n);
    } else {
        uint32_t n = left->count - all / 2;
        move(right, n, right, 0, right->count);
        move(right, 0, left, all / 2, n);
    }
    left->count = all / 2;
    right->count = all - all / 2;
    parent->key[l + 1] = right->leaf[0];
}

/* rig_holes_remove for a class of more than one node. */
static __attribute__((noinline)) void remove_deep(struct rig_holes *h, uint32_t class, uint64_t key)
{
    struct path p;
    struct rig_hole_node *n = descend(h->root[class], key, &p);
    uint32_t after = rank(n->leaf, n->count, key);
    move(n, after - 1, n, after, n->count - after);
    n->count--;
    for (unsigned d = p.depth; d && n->count < (n->level ? INNER_LEAST : LEAF_LEAST); d--) {
        n = p.node[d - 1];
        refill(h, n, p.child[d - 1]);
    }
    n = h->root[class];
    if (n->count == 1) {
        h->root[class] = n->child[0];
        drop_node(h, n);
    }
}

void rig_holes_remove(struct rig_holes *h, uint64_t at, uint64_t units)
{
    uint32_t class = class_of(units);
    uint64_t key = key_of(units, at);
    struct rig_hole_node *n = h->root[class];
    if (n->level) {
        remove_deep(h, class, key);
        return;
    }
    if (--n->count == 0) {
        h->root[class] = NULL;
        drop_node(h, n);
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

void rig_holes_change(struct rig_holes *h, struct rig_hole from, struct rig_hole to)
{
    uint32_t class = class_of(from.units);
    struct rig_hole_node *n = h->root[class];
    if (n->level || class != class_of(to.units)) {
        rig_holes_remove(h, from.at, from.units);
        rig_holes_add(h, to.at, to.units);
        return;
    }
    uint64_t key = key_of(to.units, to.at);
    uint32_t i = rank(n->leaf, n->count, key_of(from.units, from.at)) - 1;
    for (; i && n->leaf[i - 1] > key; i--)
        n->leaf[i] = n->leaf[i - 1];
    for (; i + 1 < n->count && n->leaf[i + 1] < key; i++)
        n->leaf[i] = n->leaf[i + 1];
    n->leaf[i] = key;
}

static uint64_t last_key(const struct rig_hole_node *n)
{
    while (n->level)
        n = n->child[n->count - 1];
    return n->leaf[n->count - 1];
}

/* Whether the tree has a key not above k, and the greatest one. */
static bool previous_key(const struct rig_hole_node *n, uint64_t k, uint64_t *out)
{
    const struct rig_hole_node *before = NULL;
    while (n->level) {
        uint32_t i = child_for(n, k);
        before = i ? n->child[i - 1] : before;
        n = n->child[i];
    }
    uint32_t i = n->count;
    while (i && n->leaf[i - 1] > k)
        i--;
    if (i == 0 && !before)
        return false;
    *out = i ? n->leaf[i - 1] : last_key(before);
    return true;
}

bool rig_holes_next(const struct rig_holes *h, uint64_t units, uint64_t at, struct rig_hole *out)
{
    uint64_t class = class_of(units), key;
    if (h->root[class] && previous_key(h->root[class], key_of(units, at), &key)) {
        *out = hole_of(class, key);
        return true;
    }
    class = rig_bits_next(&h->used, class + 1);
    if (class == RIG_NONE)
        return false;
    *out = hole_of(class, last_key(h->root[class]));
    return true;
}

bool rig_holes_largest(const struct rig_holes *h, struct rig_hole *out)
{
    uint64_t class = rig_bits_previous(&h->used, RIG_HOLE_CLASSES);
    if (class == RIG_NONE)
        return false;
    const struct rig_hole_node *n = h->root[class];
    while (n->level)
        n = n->child[0];
    *out = hole_of(class, n->leaf[0]);
    return true;
}
