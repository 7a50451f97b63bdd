/* Runs of entries: the hot loop of mapping. A run is eight words at a time, in the widest registers
   that the processor has: gcc 12 leaves the plain loop scalar at -O2.

   A run of 16-byte entries is one of words too, of which every other one is 0 and stays so. */
#include "gpu/format/format.h"

#include <endian.h>

#define INLINE static inline __attribute__((always_inline))

#define LANES 8
#define ZEROS 2

/* By the kind of run, of entries of 8 bytes, of 16, or of nothing but zeros: which words of eight
   are not 0, and how many entries each is past the first. */
static const uint64_t used[3][LANES] = {
    {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
     UINT64_MAX},
    {UINT64_MAX, 0, UINT64_MAX, 0, UINT64_MAX, 0, UINT64_MAX, 0},
};
static const uint64_t past[3][LANES] = {
    {0, 1, 2, 3, 4, 5, 6, 7},
    {0, 0, 1, 0, 2, 0, 3, 0},
};

/* A run: entry k is word + (k << shift). */
struct run {
    uint64_t word, words;
    unsigned shift;
    unsigned kind; /* 0, 1 or ZEROS: the row of the tables above */
    bool stream;   /* past the caches; out is a multiple of 64 */
    uint64_t *out;
};

/* The words from `from` on, one by one. */
static void fill_rest(const struct run *r, uint64_t from)
{
    for (uint64_t k = from; k < r->words; k++)
        r->out[k] = htole64((r->word + (k >> r->kind << r->shift)) & used[r->kind][k % LANES]);
}

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx512f"))) INLINE void store_512(uint64_t *out, __m512i v, bool stream)
{
    if (stream)
        _mm512_stream_si512((void *)out, v);
    else
        _mm512_storeu_si512(out, v);
}

__attribute__((target("avx512f"))) INLINE uint64_t run_512(const struct run *r, bool stream)
{
    __m512i mask = _mm512_loadu_si512(used[r->kind]), ones = _mm512_srli_epi64(mask, 63);
    __m128i shift = _mm_cvtsi32_si128((int)r->shift),
            by = _mm_cvtsi32_si128((int)(r->shift + 3 - r->kind));
    __m512i step = _mm512_sll_epi64(ones, by);
    __m512i v = _mm512_add_epi64(_mm512_and_si512(mask, _mm512_set1_epi64((long long)r->word)),
                                 _mm512_sll_epi64(_mm512_loadu_si512(past[r->kind]), shift));
    __m512i v1 = _mm512_add_epi64(v, step), v2 = _mm512_add_epi64(v1, step),
            v3 = _mm512_add_epi64(v2, step), four = _mm512_slli_epi64(step, 2);
    uint64_t k = 0, words = r->words, *out = r->out;
    for (; k + 4 * LANES <= words; k += 4 * LANES) {
        store_512(out + k, v, stream);
        store_512(out + k + LANES, v1, stream);
        store_512(out + k + 2 * LANES, v2, stream);
        store_512(out + k + 3 * LANES, v3, stream);
        v = _mm512_add_epi64(v, four);
        v1 = _mm512_add_epi64(v1, four);
        v2 = _mm512_add_epi64(v2, four);
        v3 = _mm512_add_epi64(v3, four);
    }
    for (; k + LANES <= words; k += LANES, v = _mm512_add_epi64(v, step))
        _mm512_storeu_si512(out + k, v);
    return k;
}

__attribute__((target("avx512f"))) static void fill_512(const struct run *r)
{
    fill_rest(r, r->stream ? run_512(r, true) : run_512(r, false));
}

__attribute__((target("avx"))) static __m256i load_256(const uint64_t *words)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)words);
}

__attribute__((target("avx2"))) INLINE uint64_t run_256(const struct run *r, bool stream)
{
    __m128i shift = _mm_cvtsi32_si128((int)r->shift);
    __m256i v[2], step[2], word = _mm256_set1_epi64x((long long)r->word);
    uint64_t k = 0;
    for (int i = 0; i < 2; i++) {
        __m256i mask = load_256(used[r->kind] + 4 * i);
        v[i] = _mm256_add_epi64(_mm256_and_si256(mask, word),
                                _mm256_sll_epi64(load_256(past[r->kind] + 4 * i), shift));
        step[i] = _mm256_sll_epi64(_mm256_srli_epi64(mask, 63),
                                   _mm_cvtsi32_si128((int)(r->shift + 3 - r->kind)));
    }
    for (; k + LANES <= r->words; k += LANES)
        for (int i = 0; i < 2; i++) {
            __m256i *at = (__m256i *)(void *)(r->out + k + 4 * i);
            if (stream)
                _mm256_stream_si256(at, v[i]);
            else
                _mm256_storeu_si256(at, v[i]);
            v[i] = _mm256_add_epi64(v[i], step[i]);
        }
    return k;
}

__attribute__((target("avx2"))) static void fill_256(const struct run *r)
{
    fill_rest(r, r->stream ? run_256(r, true) : run_256(r, false));
}

INLINE uint64_t run_128(const struct run *r, bool stream)
{
    __m128i shift = _mm_cvtsi32_si128((int)r->shift);
    __m128i v[4], step[4], word = _mm_set1_epi64x((long long)r->word);
    uint64_t k = 0;
    for (int i = 0; i < 4; i++) {
        __m128i mask = _mm_loadu_si128((const __m128i *)(const void *)(used[r->kind] + 2 * i));
        __m128i at = _mm_loadu_si128((const __m128i *)(const void *)(past[r->kind] + 2 * i));
        v[i] = _mm_add_epi64(_mm_and_si128(mask, word), _mm_sll_epi64(at, shift));
        step[i] = _mm_sll_epi64(_mm_srli_epi64(mask, 63),
                                _mm_cvtsi32_si128((int)(r->shift + 3 - r->kind)));
    }
    for (; k + LANES <= r->words; k += LANES)
        for (int i = 0; i < 4; i++) {
            __m128i *at = (__m128i *)(void *)(r->out + k + 2 * i);
            if (stream)
                _mm_stream_si128(at, v[i]);
            else
                _mm_storeu_si128(at, v[i]);
            v[i] = _mm_add_epi64(v[i], step[i]);
        }
    return k;
}

static void fill_128(const struct run *r)
{
    fill_rest(r, r->stream ? run_128(r, true) : run_128(r, false));
}

INLINE void fill(const struct run *r)
{
    if (__builtin_cpu_supports("avx512f"))
        fill_512(r);
    else if (__builtin_cpu_supports("avx2"))
        fill_256(r);
    else
        fill_128(r);
}
#else
static void fill(const struct run *r)
{
    fill_rest(r, 0);
}
#endif

INLINE void make(const struct run *r)
{
    if (r->words < LANES)
        fill_rest(r, 0);
    else
        fill(r);
}

static bool may_stream(bool stream, const uint64_t *out)
{
    return stream && (uintptr_t)out % (LANES * 8) == 0;
}

void rig_fill(const struct rig_format *f, unsigned level, uint64_t word, uint64_t count,
              bool stream, uint64_t *out)
{
    const struct rig_level *l = &f->level[level];
    unsigned pairs = l->entry_bytes == 16;
    struct run r = {.word = word,
                    .words = count << pairs,
                    .shift = (unsigned)(l->shift - f->address_down),
                    .kind = pairs,
                    .stream = may_stream(stream, out),
                    .out = out};
    make(&r);
}

void rig_fill_zeros(uint64_t words, bool stream, uint64_t *out)
{
    struct run r = {.words = words, .kind = ZEROS, .stream = may_stream(stream, out), .out = out};
    make(&r);
}
