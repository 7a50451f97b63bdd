/* Loops over many ranges, as fast as memory gives them: a mapping may come with a range a page.
   Only the page table's files include this. */
#ifndef RIG_GPU_PAGE_RANGES_H
#define RIG_GPU_PAGE_RANGES_H

#include "base/ranges.h"

/* What ranges come to. */
struct page_extent {
    uint64_t bytes;   /* all of them */
    uint64_t last;    /* the last address of the highest */
    uint64_t largest; /* bytes of the longest run: ranges of which each begins where the one before
                         it ends */
};

/* ranges_measure makes *out what the ranges come to. False: a range has no bytes, or bytes or an
   address that is no multiple of 4 KiB, or wraps, or all come to 2^64 bytes or more, or there is
   none. */
bool ranges_measure(const struct rig_range *ranges, size_t count, struct page_extent *out);

/* ranges_single is true iff each of the ranges is `page` bytes and none begins where the one before
   it ends. */
bool ranges_single(const struct rig_range *ranges, size_t count, uint64_t page);

/* ranges_spread makes keys[k] the address of ranges[k] or'ed with `flags`, and out[k], unless out
   is NULL, the little-endian word + (address >> down). */
void ranges_spread(const struct rig_range *ranges, size_t count, uint64_t flags, uint64_t *keys,
                   uint64_t word, unsigned down, uint64_t *out);

#endif
