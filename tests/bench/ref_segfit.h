/* ref_segfit: bench_ranges's reference adapter, a segregated-fit range allocator
 * with its nodes out of the managed memory: 64 size classes of 16 steps over 4 KiB
 * units, two levels of bitmaps, address-ordered neighbour links, eager merging.
 * An allocation takes the first block of the first class whose every block fits; an
 * aligned one first looks at the head of each class from its own size up, then falls
 * back to a class that fits size plus alignment. Before it fails, it walks its own class.
 * It stands for "about as fast as the best peers".
 */
#ifndef REF_SEGFIT_H
#define REF_SEGFIT_H

#include "adapter.h"

#include <stdlib.h>
#include <string.h>

#define NIL UINT32_MAX
#define FL 36
#define SL 16

struct segfit_node {
    uint64_t at, n; /* units; the top bit of n: free */
    uint32_t left, right, prev, next;
};
struct segfit {
    struct segfit_node *node;
    uint32_t cap, unused, heads[FL * SL];
    uint64_t fl;
    uint16_t sl[FL];
};
#define FREE (UINT64_C(1) << 63)

static inline unsigned class_of(uint64_t n) /* the class n belongs to */
{
    if (n < SL)
        return (unsigned)n;
    unsigned k = 63u - (unsigned)__builtin_clzll(n);
    return (k - 3) * SL + (unsigned)((n >> (k - 4)) & (SL - 1));
}

static inline unsigned class_up(uint64_t n) /* the first class all of whose blocks hold n */
{
    if (n < SL)
        return (unsigned)n;
    unsigned k = 63u - (unsigned)__builtin_clzll(n);
    return class_of(n + (UINT64_C(1) << (k - 4)) - 1);
}

static uint32_t take_node(struct segfit *r)
{
    if (r->unused == NIL) {
        uint32_t cap = r->cap * 2;
        struct segfit_node *m = realloc(r->node, cap * sizeof *m);
        if (!m)
            abort();
        for (uint32_t i = r->cap; i < cap; i++)
            m[i].next = i + 1 < cap ? i + 1 : NIL;
        r->unused = r->cap;
        r->node = m;
        r->cap = cap;
    }
    uint32_t i = r->unused;
    r->unused = r->node[i].next;
    return i;
}

static inline void drop_node(struct segfit *r, uint32_t i)
{
    r->node[i].next = r->unused;
    r->unused = i;
}

static inline void link_free(struct segfit *r, uint32_t i)
{
    struct segfit_node *x = &r->node[i];
    unsigned c = class_of(x->n);
    x->n |= FREE;
    x->prev = NIL;
    x->next = r->heads[c];
    if (x->next != NIL)
        r->node[x->next].prev = i;
    r->heads[c] = i;
    r->sl[c / SL] |= (uint16_t)(1u << c % SL);
    r->fl |= UINT64_C(1) << c / SL;
}

static inline void unlink_free(struct segfit *r, uint32_t i)
{
    struct segfit_node *x = &r->node[i];
    x->n &= ~FREE;
    if (x->next != NIL)
        r->node[x->next].prev = x->prev;
    if (x->prev != NIL) {
        r->node[x->prev].next = x->next;
        return;
    }
    unsigned c = class_of(x->n);
    r->heads[c] = x->next;
    if (x->next == NIL && !(r->sl[c / SL] &= (uint16_t) ~(1u << c % SL)))
        r->fl &= ~(UINT64_C(1) << c / SL);
}

static inline int next_class(const struct segfit *r, unsigned c)
{
    unsigned f = c / SL;
    if (f >= FL)
        return -1;
    unsigned s = r->sl[f] & (0xFFFFu << c % SL);
    if (s)
        return (int)(f * SL) + __builtin_ctz(s);
    uint64_t m = f + 1 < 64 ? r->fl & (~UINT64_C(0) << (f + 1)) : 0;
    if (!m)
        return -1;
    f = (unsigned)__builtin_ctzll(m);
    return (int)(f * SL) + __builtin_ctz(r->sl[f]);
}

static void *segfit_create(uint64_t size, uint32_t max)
{
    (void)max;
    struct segfit *r = calloc(1, sizeof *r);
    r->cap = 1024;
    r->node = malloc(r->cap * sizeof *r->node);
    for (uint32_t i = 0; i < r->cap; i++)
        r->node[i].next = i + 1 < r->cap ? i + 1 : NIL;
    memset(r->heads, 0xFF, sizeof r->heads);
    uint32_t i = take_node(r);
    r->node[i] = (struct segfit_node){.at = 0, .n = size >> 12, .left = NIL, .right = NIL};
    link_free(r, i);
    return r;
}

static inline bool fits(const struct segfit_node *x, uint64_t n, uint64_t a)
{
    uint64_t at = (x->at + a - 1) & ~(a - 1);
    return at + n <= x->at + (x->n & ~FREE);
}

static bool segfit_alloc(void *v, uint64_t size, uint64_t align, uint64_t *address, uint64_t *token)
{
    struct segfit *r = v;
    uint64_t n = size >> 12, a = align >> 12;
    uint32_t i = NIL;
    if (a <= 1) {
        int c = next_class(r, class_up(n));
        if (c >= 0)
            i = r->heads[c];
    } else {
        for (int c = next_class(r, class_of(n)); c >= 0; c = next_class(r, (unsigned)c + 1))
            if (fits(&r->node[r->heads[c]], n, a)) {
                i = r->heads[c];
                break;
            }
        if (i == NIL) {
            int c = next_class(r, class_up(n + a - 1));
            if (c >= 0)
                i = r->heads[c];
        }
    }
    if (i == NIL) /* the last resort: every block of the classes below the sure one */
        for (int c = next_class(r, class_of(n)); c >= 0 && i == NIL;
             c = next_class(r, (unsigned)c + 1))
            for (uint32_t k = r->heads[c]; k != NIL; k = r->node[k].next)
                if (fits(&r->node[k], n, a)) {
                    i = k;
                    break;
                }
    if (i == NIL)
        return false;
    unlink_free(r, i);
    uint64_t at = (r->node[i].at + a - 1) & ~(a - 1), pad = at - r->node[i].at,
             tail = r->node[i].n - pad - n;
    if (pad) {
        uint32_t k = take_node(r);
        struct segfit_node *x = &r->node[i], *y = &r->node[k];
        *y = (struct segfit_node){.at = x->at, .n = pad, .left = x->left, .right = i};
        if (y->left != NIL)
            r->node[y->left].right = k;
        x->left = k;
        x->at = at;
        link_free(r, k);
    }
    if (tail) {
        uint32_t k = take_node(r);
        struct segfit_node *x = &r->node[i], *y = &r->node[k];
        *y = (struct segfit_node){.at = at + n, .n = tail, .left = i, .right = x->right};
        if (y->right != NIL)
            r->node[y->right].left = k;
        x->right = k;
        link_free(r, k);
    }
    r->node[i].n = n;
    *address = at << 12;
    *token = i;
    return true;
}

static void segfit_release(void *v, uint64_t address, uint64_t size, uint64_t token)
{
    (void)address, (void)size;
    struct segfit *r = v;
    uint32_t i = (uint32_t)token;
    struct segfit_node *x = &r->node[i];
    if (x->left != NIL && r->node[x->left].n & FREE) {
        uint32_t k = x->left;
        unlink_free(r, k);
        x->at = r->node[k].at;
        x->n += r->node[k].n;
        x->left = r->node[k].left;
        if (x->left != NIL)
            r->node[x->left].right = i;
        drop_node(r, k);
    }
    if (x->right != NIL && r->node[x->right].n & FREE) {
        uint32_t k = x->right;
        unlink_free(r, k);
        x->n += r->node[k].n;
        x->right = r->node[k].right;
        if (x->right != NIL)
            r->node[x->right].left = i;
        drop_node(r, k);
    }
    link_free(r, i);
}

static void segfit_destroy(void *v)
{
    struct segfit *r = v;
    free(r->node);
    free(r);
}

static const struct adapter segfit = {"ref-segfit", segfit_create, segfit_alloc, segfit_release,
                                      segfit_destroy};

#endif
