/* tracegen: writes deterministic allocator traces for bench_ranges.
 *
 *   tracegen KIND SEED FILE     KIND: ml ml100k small small10k lifo adversarial fill churn
 *
 * A trace is a header and records (trace.h). Sizes are whole 4 KiB pages; an
 * allocation of 8 MiB or more is rounded to 2 MiB and asks for 2 MiB alignment,
 * as rigmem's own rule does. A trace never depends on what an allocator answers:
 * a free of an allocation that failed is skipped by the reader.
 */
#include "../trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t s[2];

static uint64_t rnd(void)
{ /* xorshift128+ */
    uint64_t a = s[0], b = s[1];
    s[0] = b;
    a ^= a << 23;
    s[1] = a ^ b ^ (a >> 17) ^ (b >> 26);
    return s[1] + b;
}

static double unit(void)
{
    return (double)(rnd() >> 11) / 9007199254740992.0;
}

/* log-uniform in [lo, hi): a random power of two step, then uniform inside it */
static uint64_t logu(unsigned lo_log2, unsigned hi_log2)
{
    unsigned k = lo_log2 + (unsigned)(rnd() % (hi_log2 - lo_log2));
    return (UINT64_C(1) << k) + rnd() % (UINT64_C(1) << k);
}

static FILE *out;
static uint64_t count;
static uint32_t next_id;

static void put(unsigned op, uint32_t id, uint64_t size, unsigned align_log2)
{
    struct trace_op o = {
        .id = id, .op = (uint8_t)op, .align_log2 = (uint8_t)align_log2, .size = size};
    if (fwrite(&o, sizeof o, 1, out) != 1) {
        perror("tracegen");
        exit(1);
    }
    count++;
}

struct live {
    uint32_t id;
};
static uint32_t *live;
static size_t nlive, caplive;

static void hold(uint32_t id)
{
    if (nlive == caplive) {
        caplive = caplive ? 2 * caplive : 1024;
        live = realloc(live, caplive * sizeof *live);
        if (!live)
            exit(1);
    }
    live[nlive++] = id;
}

static void alloc(uint64_t size, unsigned align_log2)
{
    put(TRACE_ALLOC, next_id, size, align_log2);
    hold(next_id++);
}

static void free_at(size_t i)
{
    put(TRACE_FREE, live[i], 0, 0);
    live[i] = live[--nlive];
}

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

static void alloc_ruled(uint64_t n)
{
    if (n >= UINT64_C(8) << 20)
        alloc(round_up(n, UINT64_C(2) << 20), 21);
    else
        alloc(round_up(n, 4096), 12);
}

/* 60 % 4K..64K, 27 % 64K..2M, 12 % 2M..64M, 1 % 64M..2G */
static uint64_t ml_size(void)
{
    double u = unit();
    if (u < 0.60)
        return logu(12, 16);
    if (u < 0.87)
        return logu(16, 21);
    if (u < 0.99)
        return logu(21, 26);
    return logu(26, 31);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr,
                "usage: tracegen ml|ml100k|small|small10k|lifo|adversarial|fill|churn SEED FILE\n");
        return 2;
    }
    const char *kind = argv[1];
    s[0] = strtoull(argv[2], 0, 0) * UINT64_C(0x9E3779B97F4A7C15) + 1;
    s[1] = UINT64_C(0xD1B54A32D192ED03);
    for (int i = 0; i < 16; i++)
        rnd();
    out = fopen(argv[3], "wb");
    if (!out) {
        perror(argv[3]);
        return 1;
    }
    struct trace_head h = {.magic = TRACE_MAGIC};
    fwrite(&h, sizeof h, 1, out);
    const uint64_t G = UINT64_C(1) << 30, M = UINT64_C(1) << 20, K = 1024;

    if (!strcmp(kind, "ml") || !strcmp(kind, "ml100k")) { /* 10k (100k) live, 1M churn pairs */
        int n = kind[2] ? 100000 : 10000;
        h.capacity = (uint64_t)n / 10000 * 144 * G;
        for (int i = 0; i < n; i++)
            alloc_ruled(ml_size());
        for (int i = 0; i < 1000000; i++) {
            free_at(rnd() % nlive);
            alloc_ruled(ml_size());
        }
    } else if (!strcmp(kind, "small") ||
               !strcmp(kind, "small10k")) { /* 1M (10k) live 4 KiB, 2M churn pairs */
        int n = kind[5] ? 10000 : 1000000;
        h.capacity = (uint64_t)n * 8192 / G * G + (n < 1000000 ? 80 * M : G);
        for (int i = 0; i < n + n / 2; i++)
            alloc(4096, 12);
        for (int i = 0; i < n / 2; i++) /* so that a third of the pages are holes, at random */
            free_at(rnd() % nlive);
        for (int i = 0; i < 2000000; i++) {
            free_at(rnd() % nlive);
            alloc(4096, 12);
        }
    } else if (!strcmp(kind, "lifo")) { /* stack of frames, freed newest first */
        h.capacity = 64 * G;
        unsigned frame[257], depth = 0;
        for (int i = 0; i < 200000; i++) {
            if (depth < 256 && (depth == 0 || rnd() % 100 < 51)) {
                unsigned n = 1 + (unsigned)(rnd() % 32);
                for (unsigned k = 0; k < n; k++)
                    alloc(round_up(logu(12, 20), 4096), 12);
                frame[depth++] = n;
            } else {
                for (unsigned n = frame[--depth]; n; n--)
                    free_at(nlive - 1);
            }
        }
    } else if (!strcmp(kind, "adversarial")) { /* checkerboards, then larger aligned requests */
        h.capacity = 64 * G;
        for (int round = 0; round < 8; round++) {
            static const unsigned al[4] = {12, 16, 21, 30};
            static uint32_t keep[400000];
            size_t nkeep = 0;
            /* 4 KiB and 60 KiB alternate, filling about 12 GiB; then every 60 KiB goes */
            size_t first = nlive;
            for (int i = 0; i < 200000; i++) {
                alloc(4 * K, 12);
                alloc(60 * K, 12);
            }
            for (size_t i = first; i < nlive; i += 2)
                keep[nkeep++] = live[i];
            for (size_t i = first + 1; i < nlive; i += 2)
                put(TRACE_FREE, live[i], 0, 0);
            nlive = first;
            for (size_t i = 0; i < nkeep; i++)
                hold(keep[i]);
            /* aligned requests of every alignment, mixed, short-lived at random */
            size_t base = nlive;
            for (int i = 0; i < 60000; i++) {
                unsigned a = al[rnd() % 100 < 2 ? 3 : rnd() % 100 < 15 ? 2 : rnd() % 2];
                if (nlive - base > (a == 30 ? 0u : 3000u))
                    free_at(base + rnd() % (nlive - base));
                uint64_t n = a == 30   ? G
                             : a == 21 ? 2 * M * (1 + rnd() % 4)
                             : a == 16 ? 64 * K * (1 + rnd() % 8)
                                       : 4 * K * (1 + rnd() % 64);
                alloc(n, a);
            }
            while (nlive > base)
                free_at(nlive - 1);
            /* drop three quarters of what the checkerboard left, at random */
            for (size_t i = nkeep * 3 / 4; i; i--)
                free_at(rnd() % nlive);
        }
    } else if (!strcmp(kind, "fill")) { /* allocations only, far past the capacity */
        h.capacity = 64 * G;
        for (int i = 0; i < 40000; i++)
            alloc_ruled(ml_size());
    } else if (!strcmp(kind, "churn")) { /* grows slowly under churn until nothing fits */
        h.capacity = 64 * G;
        for (int i = 0; i < 1500000; i++)
            if (nlive == 0 || rnd() % 1000 < 510)
                alloc_ruled(ml_size());
            else
                free_at(rnd() % nlive);
    } else {
        fprintf(stderr, "tracegen: unknown kind '%s'\n", kind);
        return 2;
    }
    h.ops = count;
    h.ids = next_id;
    rewind(out);
    fwrite(&h, sizeof h, 1, out);
    if (fclose(out)) {
        perror(argv[3]);
        return 1;
    }
    return 0;
}
