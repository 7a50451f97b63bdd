/* ref_bestfit: bench_ranges's other reference, the plainest exact best fit: holes in an array by
 * address, each of which is looked at for each request; the smallest that holds it, of equally
 * small ones the lowest, gives its lowest aligned part. It says what packing best fit gives on a
 * trace, and nothing about time.
 */
#ifndef REF_BESTFIT_H
#define REF_BESTFIT_H

#include "adapter.h"

#include <stdlib.h>
#include <string.h>

struct bestfit_hole {
    uint64_t at, bytes;
};

struct bestfit {
    size_t holes;
    struct bestfit_hole hole[];
};

/* There is at most one hole more than blocks. */
static void *bestfit_create(uint64_t size, uint32_t max)
{
    struct bestfit *b = malloc(sizeof *b + (max + 2u) * sizeof b->hole[0]);
    if (!b)
        exit(1);
    b->holes = 1;
    b->hole[0] = (struct bestfit_hole){0, size};
    return b;
}

/* Puts `count` holes where `was` were, from i on. */
static void bestfit_put(struct bestfit *b, size_t i, size_t was, const struct bestfit_hole *hole,
                        size_t count)
{
    memmove(&b->hole[i + count], &b->hole[i + was], (b->holes - i - was) * sizeof *hole);
    memcpy(&b->hole[i], hole, count * sizeof *hole);
    b->holes += count - was;
}

static bool bestfit_alloc(void *v, uint64_t size, uint64_t align, uint64_t *address,
                          uint64_t *token)
{
    struct bestfit *b = v;
    size_t best = b->holes;
    (void)token;
    for (size_t i = 0; i < b->holes; i++) {
        const struct bestfit_hole *h = &b->hole[i];
        uint64_t skip = (0 - h->at) & (align - 1);
        if (h->bytes >= size && h->bytes - size >= skip &&
            (best == b->holes || h->bytes < b->hole[best].bytes))
            best = i;
    }
    if (best == b->holes)
        return false;
    struct bestfit_hole h = b->hole[best], left[2];
    size_t count = 0;
    *address = h.at + ((0 - h.at) & (align - 1));
    if (*address != h.at)
        left[count++] = (struct bestfit_hole){h.at, *address - h.at};
    if (*address + size != h.at + h.bytes)
        left[count++] = (struct bestfit_hole){*address + size, h.at + h.bytes - *address - size};
    bestfit_put(b, best, 1, left, count);
    return true;
}

static void bestfit_release(void *v, uint64_t address, uint64_t size, uint64_t token)
{
    struct bestfit *b = v;
    struct bestfit_hole all = {address, size};
    size_t low = 0, high = b->holes;
    (void)token;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (b->hole[middle].at < address)
            low = middle + 1;
        else
            high = middle;
    }
    size_t first = low, was = 0;
    if (low > 0 && b->hole[low - 1].at + b->hole[low - 1].bytes == address) {
        first = low - 1;
        was = 1;
        all.at = b->hole[first].at;
        all.bytes += b->hole[first].bytes;
    }
    if (low < b->holes && b->hole[low].at == address + size) {
        was++;
        all.bytes += b->hole[low].bytes;
    }
    bestfit_put(b, first, was, &all, 1);
}

static void bestfit_destroy(void *v)
{
    free(v);
}

static const struct adapter bestfit = {"ref-bestfit", bestfit_create, bestfit_alloc,
                                       bestfit_release, bestfit_destroy};

#endif
