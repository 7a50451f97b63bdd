/* reachlimit: what an all-pairs reach answer costs at best.
 *
 *   reachlimit N ...      endpoints
 *
 * A synthetic machine: host bridges of 8 root ports, each with a switch of 16 downstream
 * ports, an endpoint under each; a quarter of the downstream and root ports redirect (ACS).
 * The answer is one byte a pair (0 no, 1 through a bridge, 2 through the root complex).
 *   memset     the result's bytes
 *   intervals  depth-first numbers: an endpoint reaches through bridges exactly the span
 *              under its highest bridge without a redirect on the way; a row is one fill by
 *              root-complex rule and one overlay
 * What intervals writes is held to a climb for each pair: level the depths, climb together, look
 * at each redirect bit.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct node {
    int up, depth, redirect, host, first, last; /* first..last: endpoints below, depth-first */
};
static struct node *v;
static int *ep, nv, ne;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t x;
static uint32_t rnd(void)
{
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return (uint32_t)(x >> 16);
}

static int add(int up, int redirect, int host)
{
    v[nv] = (struct node){up, up < 0 ? 0 : v[up].depth + 1, redirect, host, ne, ne};
    return nv++;
}

static void build(int n)
{
    nv = ne = 0;
    x = 88172645463325252u;
    for (int h = 0; ne < n; h++)
        for (int r = 0; r < 8 && ne < n; r++) {
            int rp = add(-1, rnd() % 4 == 0, h), us = add(rp, 0, h);
            for (int d = 0; d < 16 && ne < n; d++) {
                int ds = add(us, rnd() % 4 == 0, h);
                ep[ne] = add(ds, 0, h);
                ne++;
            }
        }
    for (int i = 0; i < ne; i++)
        for (int b = ep[i]; b >= 0; b = v[b].up) {
            if (v[b].first > i)
                v[b].first = i;
            v[b].last = i + 1;
        }
}

static inline uint8_t root(int a, int b)
{
    return v[a].host == v[b].host ? 2 : 0;
}

static uint8_t climb(int a, int b)
{
    int p = v[a].up, q = v[b].up, acs = 0;
    while (p != q && p >= 0 && q >= 0) {
        if (v[p].depth >= v[q].depth)
            acs |= v[p].redirect, p = v[p].up;
        else
            acs |= v[q].redirect, q = v[q].up;
    }
    return p == q && p >= 0 && !acs ? 1 : root(a, b);
}

__attribute__((noinline)) static void intervals(uint8_t *out)
{
    int *lo = malloc(sizeof *lo * (size_t)ne), *hi = malloc(sizeof *hi * (size_t)ne);
    int *hl = malloc(sizeof *hl * (size_t)ne), *hh = malloc(sizeof *hh * (size_t)ne);
    for (int i = 0, s = 0; i < ne; i++) {
        int b = v[ep[i]].up;
        while (!v[b].redirect && v[b].up >= 0)
            b = v[b].up;
        lo[i] = v[b].first, hi[i] = v[b].last;
        if (i && v[ep[i]].host != v[ep[i - 1]].host)
            s = i;
        hl[i] = s;
    }
    for (int i = ne - 1, s = ne; i >= 0; i--) {
        if (i + 1 < ne && v[ep[i]].host != v[ep[i + 1]].host)
            s = i + 1;
        hh[i] = s;
    }
    for (int i = 0; i < ne; i++) {
        uint8_t *r = out + (size_t)i * (size_t)ne;
        memset(r, 0, (size_t)hl[i]);
        memset(r + hl[i], 2, (size_t)(hh[i] - hl[i]));
        memset(r + hh[i], 0, (size_t)(ne - hh[i]));
        for (int j = lo[i]; j < hi[i]; j++)
            r[j] = (uint8_t)(lo[j] <= i && i < hi[j] ? 1 : 2);
        r[i] = 0;
    }
    free(lo), free(hi), free(hl), free(hh);
}

/* Nothing that is written is in a cache of the CPU's own. */
static void cool(void)
{
    static volatile uint8_t other[16u << 20];
    for (size_t i = 0; i < sizeof other; i += 64)
        other[i]++;
}

/* The least of several passes of both, turn by turn, with the slow way once between them. */
static int measure(int n)
{
    v = malloc(sizeof *v * ((size_t)n * 3 + 64));
    ep = malloc(sizeof *ep * (size_t)n);
    size_t bytes = (size_t)n * (size_t)n;
    uint8_t *set = malloc(bytes), *slow = malloc(bytes), *fast = malloc(bytes);
    if (!v || !ep || !set || !slow || !fast)
        return 1;
    build(n);
    double best_set = 1e9, best_fast = 1e9;
    for (int p = 0; p < 21; p++) {
        cool();
        double begin = now();
        memset(set, p, bytes);
        __asm__ volatile("" ::: "memory");
        double middle = now();
        if (p == 0)
            for (size_t i = 0; i < bytes; i++)
                slow[i] = i / (size_t)n == i % (size_t)n
                              ? 0
                              : climb(ep[i / (size_t)n], ep[i % (size_t)n]);
        memset(fast, 9, bytes);
        cool();
        double start = now();
        intervals(fast);
        __asm__ volatile("" ::: "memory");
        double end = now();
        best_set = (middle - begin) < best_set ? (middle - begin) : best_set;
        best_fast = (end - start) < best_fast ? (end - start) : best_fast;
    }
    int differ = memcmp(slow, fast, bytes) != 0;
    if (differ)
        fprintf(stderr, "reachlimit: the ways differ\n");
    else
        printf("N %d: memset %.4f ms; intervals %.4f ms\n", n, best_set * 1e3, best_fast * 1e3);
    free(set), free(slow), free(fast), free(v), free(ep);
    return differ;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int a = 1; a < argc; a++)
        failed |= measure(atoi(argv[a]));
    return failed;
}
