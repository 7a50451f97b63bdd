/* The holes of the range allocator: what few requests do. */
#include "base/ranges_holes.h"

#include <stdlib.h>
#include <string.h>

#define HEIGHT_MOST 20 /* seven children a level make 2^34 keys within 13 */

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

bool rig_holes_make(struct rig_holes *h, uint64_t units, rig_ranges_source *source)
{
    *h = (struct rig_holes){.source = source, .classes = hole_class(units)};
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

bool holes_grow(struct rig_holes *h, uint64_t need)
{
    while (h->nodes < need) {
        uint64_t more = h->nodes / 4 < 4 ? 4 : h->nodes / 4 > 128 ? 128 : h->nodes / 4;
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

static struct rig_hole_node *descend(struct rig_hole_node *root, uint64_t key, struct path *p)
{
    struct rig_hole_node *n = root;
    p->depth = 0;
    while (n->level) {
        p->node[p->depth] = n;
        p->child[p->depth] = hole_child(n, key);
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
    struct rig_hole_node *right = hole_node_take(h, n->level);
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

void holes_add_deep(struct rig_holes *h, uint32_t class, uint64_t key)
{
    struct path p;
    struct rig_hole_node *n = descend(h->root[class], key, &p), *child = NULL;
    uint32_t place = hole_rank(n->leaf, n->count, key);
    for (unsigned d = p.depth; n->count == (n->level ? INNER_MOST : LEAF_MOST); d--) {
        child = split(h, n, place, key, child);
        key = child->leaf[0];
        if (d == 0) {
            struct rig_hole_node *root = hole_node_take(h, n->level + 1);
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
        hole_node_drop(h, right);
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

void holes_remove_deep(struct rig_holes *h, uint32_t class, uint64_t key)
{
    struct path p;
    struct rig_hole_node *n = descend(h->root[class], key, &p);
    uint32_t after = hole_rank(n->leaf, n->count, key);
    move(n, after - 1, n, after, n->count - after);
    n->count--;
    for (unsigned d = p.depth; d && n->count < (n->level ? INNER_LEAST : LEAF_LEAST); d--) {
        n = p.node[d - 1];
        refill(h, n, p.child[d - 1]);
    }
    n = h->root[class];
    if (n->count == 1) {
        h->root[class] = n->child[0];
        hole_node_drop(h, n);
    }
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
