/* Loops over many ranges. Each is written once, plainly, and made for the widest registers that the
   processor has by the compiler, which is asked to for this file (Makefile). */
#include "gpu/page_ranges.h"

#include <endian.h>

#define UNIT_MASK UINT64_C(0xfff)

/* So many ranges are looked at before what they come to is added up: sums of their pages fit. */
#define BLOCK 256

#define INLINE static inline __attribute__((always_inline))

/* What up to BLOCK ranges come to, each beside the one before it. */
struct block {
    uint64_t low;     /* address bits of all, and bytes, or'ed */
    uint64_t pages;   /* of 4 KiB, in all */
    uint64_t last;    /* the highest last address */
    uint64_t largest; /* bytes of the largest */
    uint64_t bad;     /* how many have no bytes or wrap */
    uint64_t joins;   /* how many but the first begin where the one before ends */
};

INLINE void measure(const struct rig_range *r, size_t count, struct block *out)
{
    uint64_t low = 0, pages = 0, last = 0, largest = 0, bad = 0, joins = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t address = r[i].address, bytes = r[i].bytes, end = address + (bytes - 1);
        low |= address | bytes;
        pages += bytes >> 12;
        bad |= (bytes == 0 ? 1u : 0u) | (end < address ? 1u : 0u);
        last = end > last ? end : last;
        largest = bytes > largest ? bytes : largest;
    }
    for (size_t i = 1; i < count; i++)
        joins += r[i].address - r[i - 1].address == r[i - 1].bytes ? 1u : 0u;
    *out = (struct block){low, pages, last, largest, bad, joins};
}

INLINE bool single(const struct rig_range *r, size_t count, uint64_t page)
{
    uint64_t other = 0, joins = 0;
    for (size_t i = 0; i < count; i++)
        other |= r[i].bytes ^ page;
    for (size_t i = 1; i < count; i++)
        joins |= r[i].address - r[i - 1].address == page ? 1u : 0u;
    return (other | joins) == 0;
}

INLINE void spread(const struct rig_range *restrict r, size_t count, uint64_t flags,
                   uint64_t *restrict keys, uint64_t word, unsigned down, uint64_t *restrict out)
{
    for (size_t i = 0; i < count; i++) {
        keys[i] = flags | r[i].address;
        out[i] = htole64(word + (r[i].address >> down));
    }
}

INLINE void spread_keys(const struct rig_range *restrict r, size_t count, uint64_t flags,
                        uint64_t *restrict keys)
{
    for (size_t i = 0; i < count; i++)
        keys[i] = flags | r[i].address;
}

/* ---------- by processor */

struct loops {
    void (*measure)(const struct rig_range *, size_t, struct block *);
    bool (*single)(const struct rig_range *, size_t, uint64_t);
    void (*spread)(const struct rig_range *, size_t, uint64_t, uint64_t *, uint64_t, unsigned,
                   uint64_t *);
};

#define MADE_plain
#define MADE_avx2 __attribute__((target("avx2")))
#define MADE_avx512 __attribute__((target("avx512f,avx512dq")))

#define LOOPS(name)                                                                                \
    MADE_##name static void measure_##name(const struct rig_range *r, size_t n, struct block *out) \
    {                                                                                              \
        measure(r, n, out);                                                                        \
    }                                                                                              \
    MADE_##name static bool single_##name(const struct rig_range *r, size_t n, uint64_t page)      \
    {                                                                                              \
        return single(r, n, page);                                                                 \
    }                                                                                              \
    MADE_##name static void spread_##name(const struct rig_range *r, size_t n, uint64_t flags,     \
                                          uint64_t *keys, uint64_t word, unsigned down,            \
                                          uint64_t *out)                                           \
    {                                                                                              \
        if (out)                                                                                   \
            spread(r, n, flags, keys, word, down, out);                                            \
        else                                                                                       \
            spread_keys(r, n, flags, keys);                                                        \
    }                                                                                              \
    static const struct loops loops_##name = {measure_##name, single_##name, spread_##name};

LOOPS(plain)
#if defined(__x86_64__)
LOOPS(avx2)
LOOPS(avx512)
#endif

static const struct loops *loops(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        return &loops_avx512;
    if (__builtin_cpu_supports("avx2"))
        return &loops_avx2;
#endif
    return &loops_plain;
}

/* ---------- what is asked */

/* The longest run within or into `count` ranges, range by range; *io_run is the run's bytes so far.
 */
static uint64_t longest(const struct rig_range *r, size_t count, uint64_t *io_next,
                        uint64_t *io_run)
{
    uint64_t largest = 0, next = *io_next, run = *io_run;
    for (size_t i = 0; i < count; i++) {
        run = r[i].address == next ? run + r[i].bytes : r[i].bytes;
        largest = run > largest ? run : largest;
        next = r[i].address + r[i].bytes;
    }
    *io_next = next;
    *io_run = run;
    return largest;
}

bool ranges_measure(const struct rig_range *ranges, size_t count, struct page_extent *out)
{
    const struct loops *l = loops();
    uint64_t pages = 0, last = 0, largest = 0, next = 0, run = 0;
    for (size_t i = 0; i < count; i += BLOCK) {
        const struct rig_range *r = ranges + i, *end;
        size_t n = count - i < BLOCK ? count - i : BLOCK;
        struct block b;
        l->measure(r, n, &b);
        pages += b.pages;
        if (b.bad != 0 || (b.low & UNIT_MASK) != 0 || pages >> 52 != 0)
            return false;
        end = r + n - 1;
        bool into = r->address == next;
        if (b.joins == n - 1 && (into || run == 0)) {
            run += b.pages << 12;
            b.largest = run;
        } else if (b.joins == 0 && !into) {
            run = end->bytes;
        } else {
            b.largest = longest(r, n, &next, &run);
        }
        next = end->address + end->bytes;
        last = b.last > last ? b.last : last;
        largest = b.largest > largest ? b.largest : largest;
    }
    *out = (struct page_extent){.bytes = pages << 12, .last = last, .largest = largest};
    return count != 0;
}

bool ranges_single(const struct rig_range *ranges, size_t count, uint64_t page)
{
    return loops()->single(ranges, count, page);
}

void ranges_spread(const struct rig_range *ranges, size_t count, uint64_t flags, uint64_t *keys,
                   uint64_t word, unsigned down, uint64_t *out)
{
    loops()->spread(ranges, count, flags, keys, word, down, out);
}
