/* bench_ranges: the range allocator against a segregated fit (ref_segfit.h) and an exact best fit
   (ref_bestfit.h) on traces of allocations.

   For each trace it prints
   bulk     CPU ns a call of ours and of the segregated fit, the least of seven rounds each
   tail     of single calls, alloc and free, by the time-stamp counter: the median in ticks and the
            99.9th percentile over it, of ours and of the segregated fit, the least of the plays
   packing  live bytes over capacity when the first request fails, and at the peak, one block a
            request
   several  the same where a request may be answered by several ranges, the median number of ranges
   a request gets once 0.9 of the memory is out, and the requests refused while there were bytes
   enough (must be 0: then no allocator refuses later, since up to there all have given out the same
   bytes) bytes    of heap a live block, at the last power of two of live blocks, and a managed page
   same     whether a second play, and one that goes on from a reload of the blocks at half time,
            gives the same addresses (must be yes)
   and of churn traces of several seeds where one block is first refused, by ours and by best fit.

   A ratio that the segregated fit itself does not keep on this machine is held to its own. */
#include "adapter.h"
#include "bench.h"
#include "ref_bestfit.h"
#include "ref_segfit.h"
#include "trace.h"
#include "base/ranges.h"

#include <malloc.h>
#include <string.h>
#include <unistd.h>
#include <x86intrin.h>

struct slot {
    uint64_t address;
    uint64_t size;
    uint64_t token;
    bool out;
};

struct trace {
    struct trace_head head;
    struct trace_op *op;
    struct slot *slot;
};

/* What one play of a trace tells. */
struct play {
    double ns;    /* a call */
    double first; /* of the capacity, at the first failure; 0 without one */
    double peak;  /* of the capacity */
    double bytes; /* of heap a block */
    uint64_t fails;
    uint64_t wrong;       /* failures with enough bytes free */
    uint64_t free, asked; /* bytes, at the first failure */
    uint64_t digest;      /* of all addresses given */
    uint32_t tail[2][2];  /* of alloc and free: ticks of the median and of the 99.9th percentile */
    size_t ranges;        /* the median a request past 0.9 */
};

static void die(const char *what)
{
    fprintf(stderr, "bench_ranges: %s\n", what);
    exit(1);
}

static uint64_t tick(void)
{
    unsigned aux;
    uint64_t t = __rdtscp(&aux);
    _mm_lfence();
    return t;
}

static size_t heap(void)
{
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

/* ---------- our adapters */

static void *ours_create(uint64_t size, uint32_t max)
{
    struct rig_ranges *r;
    (void)max;
    if (rig_ranges_make(0, size, 4096, &r, NULL) != RIG_OK)
        die("no allocator");
    return r;
}

static bool ours_alloc(void *a, uint64_t size, uint64_t align, uint64_t *address, uint64_t *token)
{
    struct rig_ranges_want want = {.bytes = size, .align = align};
    (void)token;
    return rig_ranges_take(a, &want, address, NULL) == RIG_OK;
}

static void ours_release(void *a, uint64_t address, uint64_t size, uint64_t token)
{
    (void)token;
    if (rig_ranges_give(a, address, size, NULL) != RIG_OK)
        die("a block was not known");
}

static void ours_destroy(void *a)
{
    rig_ranges_drop(a);
}

static const struct adapter ours = {"rigmem", ours_create, ours_alloc, ours_release, ours_destroy};

/* The token of several ranges is the array of them, closed by one of no bytes. */
static bool several_alloc(void *a, uint64_t size, uint64_t align, uint64_t *address,
                          uint64_t *token)
{
    struct rig_range *v;
    size_t n;
    if (rig_ranges_take_several(a, size, align, &v, &n, NULL) != RIG_OK)
        return false;
    struct rig_range *closed = realloc(v, (n + 1) * sizeof *v);
    if (!closed)
        die("out of memory");
    closed[n] = (struct rig_range){0};
    *address = closed[0].address;
    *token = (uint64_t)(uintptr_t)closed;
    return true;
}

static struct rig_range *several_ranges(uint64_t token)
{
    return (struct rig_range *)(uintptr_t)token; // NOLINT(performance-no-int-to-ptr)
}

static void several_release(void *a, uint64_t address, uint64_t size, uint64_t token)
{
    (void)address;
    struct rig_range *v = several_ranges(token);
    for (; v->bytes; size -= v++->bytes)
        ours_release(a, v->address, v->bytes, 0);
    if (size)
        die("several ranges of other size");
    free(several_ranges(token));
}

static const struct adapter several = {"several", ours_create, several_alloc, several_release,
                                       ours_destroy};

/* ---------- playing */

static struct trace read_trace(const char *path)
{
    struct trace t;
    FILE *f = fopen(path, "rb");
    if (!f || fread(&t.head, sizeof t.head, 1, f) != 1 || t.head.magic != TRACE_MAGIC)
        die("no trace");
    t.op = malloc(t.head.ops * sizeof *t.op);
    t.slot = calloc(t.head.ids, sizeof *t.slot);
    if (!t.op || !t.slot || fread(t.op, sizeof *t.op, t.head.ops, f) != t.head.ops)
        die("the trace is cut short");
    fclose(f);
    return t;
}

static uint32_t most_live(const struct trace *t)
{
    uint32_t now = 0, most = 0;
    for (uint64_t k = 0; k < t->head.ops; k++) {
        now += t->op[k].op == TRACE_ALLOC ? 1U : -1U;
        most = now > most ? now : most;
    }
    return most;
}

/* CPU ns a call, nothing else measured. */
static double play_bulk(struct trace *t, const struct adapter *ad)
{
    memset(t->slot, 0, t->head.ids * sizeof *t->slot);
    void *a = ad->create(t->head.capacity, most_live(t));
    double start = bench_now();
    uint64_t calls = 0;
    for (uint64_t k = 0; k < t->head.ops; k++) {
        struct slot *s = &t->slot[t->op[k].id];
        if (t->op[k].op == TRACE_ALLOC) {
            s->size = t->op[k].size;
            s->out =
                ad->alloc(a, s->size, UINT64_C(1) << t->op[k].align_log2, &s->address, &s->token);
            calls++;
        } else if (s->out) {
            ad->release(a, s->address, s->size, s->token);
            s->out = false;
            calls++;
        }
    }
    double ns = (bench_now() - start) * 1e9 / (double)calls;
    ad->destroy(a);
    return ns;
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void quantiles(uint32_t *v, size_t n, uint32_t cost, uint32_t out[2])
{
    if (!n)
        return;
    qsort(v, n, sizeof *v, compare);
    uint32_t middle = v[n / 2], high = v[(size_t)((double)n * 0.999)];
    out[0] = middle > cost ? middle - cost : 1;
    out[1] = high > cost ? high - cost : 1;
}

static uint32_t tick_cost(void)
{
    uint32_t c[1001];
    for (int k = 0; k < 1001; k++) {
        uint64_t x = tick();
        c[k] = (uint32_t)(tick() - x);
    }
    qsort(c, 1001, sizeof *c, compare);
    return c[500];
}

/* Makes the allocator again from the blocks that are out. */
static void *reload(const struct trace *t, void *a)
{
    rig_ranges_drop(a);
    a = ours_create(t->head.capacity, 0);
    for (uint64_t i = t->head.ids; i-- > 0;)
        if (t->slot[i].out &&
            rig_ranges_take_at(a, t->slot[i].address, t->slot[i].size, NULL) != RIG_OK)
            die("a block cannot be taken again");
    return a;
}

/* What play_each has at hand while it plays. */
struct tally {
    uint32_t *ticks[2];
    uint32_t *ranges;
    size_t calls[2];
    size_t many;
    uint64_t live;
    uint32_t blocks;
    uint32_t most;
    size_t heap;
};

static void count_alloc(const struct trace *t, const struct adapter *ad, const struct slot *s,
                        struct tally *y, struct play *p)
{
    if (!s->out) {
        if (!p->fails++) {
            p->first = (double)y->live / (double)t->head.capacity;
            p->free = t->head.capacity - y->live;
            p->asked = s->size;
        }
        p->wrong += s->size <= t->head.capacity - y->live;
        return;
    }
    y->live += s->size;
    p->digest = (p->digest ^ s->address) * UINT64_C(0x9e3779b97f4a7c15) + (p->digest >> 29);
    double load = (double)y->live / (double)t->head.capacity;
    p->peak = load > p->peak ? load : p->peak;
    if (++y->blocks > y->most) {
        y->most = y->blocks;
        if ((y->most & (y->most - 1)) == 0)
            p->bytes = (double)(heap() - y->heap) / y->most;
    }
    if (ad == &several && load > 0.9) {
        uint32_t n = 0;
        for (const struct rig_range *v = several_ranges(s->token); v[n].bytes;)
            n++;
        y->ranges[y->many++] = n;
    }
}

/* One play that watches each call. At call number reload_at our allocator is made again. */
static struct play play_each(struct trace *t, const struct adapter *ad, uint64_t reload_at)
{
    struct play p = {0};
    struct tally y = {0};
    for (int i = 0; i < 2; i++)
        y.ticks[i] = malloc(t->head.ops * sizeof *y.ticks[i]);
    y.ranges = malloc(t->head.ops * sizeof *y.ranges);
    if (!y.ticks[0] || !y.ticks[1] || !y.ranges)
        die("out of memory");
    memset(t->slot, 0, t->head.ids * sizeof *t->slot);
    uint32_t cost = tick_cost();
    y.heap = heap();
    void *a = ad->create(t->head.capacity, most_live(t));
    for (uint64_t k = 0; k < t->head.ops; k++) {
        struct slot *s = &t->slot[t->op[k].id];
        if (k == reload_at)
            a = reload(t, a);
        if (t->op[k].op == TRACE_ALLOC) {
            s->size = t->op[k].size;
            uint64_t x = tick();
            s->out =
                ad->alloc(a, s->size, UINT64_C(1) << t->op[k].align_log2, &s->address, &s->token);
            y.ticks[0][y.calls[0]++] = (uint32_t)(tick() - x);
            count_alloc(t, ad, s, &y, &p);
        } else if (s->out) {
            uint64_t x = tick();
            ad->release(a, s->address, s->size, s->token);
            y.ticks[1][y.calls[1]++] = (uint32_t)(tick() - x);
            s->out = false;
            y.live -= s->size;
            y.blocks--;
        }
    }
    for (uint64_t i = 0; ad == &several && i < t->head.ids; i++)
        if (t->slot[i].out)
            ad->release(a, t->slot[i].address, t->slot[i].size, t->slot[i].token);
    ad->destroy(a);
    for (int i = 0; i < 2; i++) {
        quantiles(y.ticks[i], y.calls[i], cost, p.tail[i]);
        free(y.ticks[i]);
    }
    if (y.many) {
        qsort(y.ranges, y.many, sizeof *y.ranges, compare);
        p.ranges = y.ranges[y.many / 2];
    }
    free(y.ranges);
    return p;
}

/* ---------- reporting */

static double tail_of(const uint32_t tail[2])
{
    return tail[0] ? (double)tail[1] / tail[0] : 0;
}

/* The least over the plays, of alloc and of free. */
static void least_tail(const struct play *p, double tail[2])
{
    for (int k = 0; k < 2; k++)
        tail[k] = bench_least(tail[k], tail_of(p->tail[k]));
}

/* A kind of trace and what it is held to; 0: to nothing. */
struct kind {
    const char *name;
    double bulk;  /* x the segregated fit's */
    double tail;  /* 99.9th percentile over the median */
    double bytes; /* of heap a live block */
    double first, peak;
};

static const struct kind kinds[] = {
    {.name = "churn", .bulk = 3, .tail = 15, .bytes = 64, .first = 0.88, .peak = 0.965},
    {.name = "ml", .bulk = 3, .tail = 15, .bytes = 64},
    {.name = "lifo", .bulk = 3, .tail = 15},
    {.name = "ml100k"},
    {.name = "small10k"},
    {.name = "small", .bulk = 1.5},
    {.name = "adversarial", .tail = 12},
    {.name = "fill", .first = 0.999},
};

/* Prints a ratio beside its limit and the segregated fit's own, and is true iff one holds it. */
static bool hold_beside(const char *what, double ratio, double limit, double own)
{
    double held = own > limit ? own : limit;
    bool kept = ratio <= held * BENCH_NOISE;
    const char *says = kept ? "" : "  OVER";
    if (kept && ratio > limit * BENCH_NOISE)
        says = "  (as the segregated fit)";
    printf("%-58s %8.3f  limit %-4g segregated fit %6.3f%s\n", what, ratio, limit, own, says);
    return kept || bench_short();
}

/* Of figures that are no times, and the same in every run. */
static bool hold_bound(const char *what, double value, double limit, bool most)
{
    bool kept = most ? value <= limit : value >= limit;
    printf("%-58s %8.4f  at %s %g%s\n", what, value, most ? "most" : "least", limit,
           kept ? "" : "  BROKEN");
    return kept;
}

/* What a trace's plays tell. */
struct told {
    double ns, ref;
    double tail[2], ref_tail[2];
    struct play one, many;
    bool same;
};

static void play_all(const struct kind *kind, struct trace *t, struct told *out)
{
    int rounds = bench_short() ? 1 : 7, plays = kind->tail != 0 && !bench_short() ? 3 : 1;
    *out = (struct told){1e99, 1e99, {1e99, 1e99}, {1e99, 1e99}, .same = true};
    for (int i = 0; i < rounds; i++) {
        out->ns = bench_least(out->ns, play_bulk(t, &ours));
        out->ref = bench_least(out->ref, play_bulk(t, &segfit));
    }
    out->one = play_each(t, &ours, UINT64_MAX);
    least_tail(&out->one, out->tail);
    for (int i = 0; i <= plays; i++) {
        struct play again = play_each(t, &ours, i == 0 ? t->head.ops / 2 : UINT64_MAX);
        out->same &= again.digest == out->one.digest && again.fails == out->one.fails;
        least_tail(&again, out->tail);
    }
    for (int i = 0; i < plays; i++) {
        struct play ref = play_each(t, &segfit, UINT64_MAX);
        least_tail(&ref, out->ref_tail);
    }
    out->many = play_each(t, &several, UINT64_MAX);
}

static bool report_packing(const struct kind *kind, const struct told *d)
{
    char what[96];
    bool good = true;
    snprintf(what, sizeof what, "%s: one block, first refusal", kind->name);
    if (kind->first != 0)
        good &= hold_bound(what, d->one.first, kind->first, false);
    snprintf(what, sizeof what, "%s: one block, peak", kind->name);
    if (kind->peak != 0)
        good &= hold_bound(what, d->one.peak, kind->peak, false);
    if (d->many.fails == 0)
        return good;
    printf("%s: several ranges: first refusal at %.4f, %.1f MiB free and %.1f asked for: %s\n",
           kind->name, d->many.first, (double)d->many.free / 1048576,
           (double)d->many.asked / 1048576,
           d->many.free < d->many.asked ? "the latest there can be" : "TOO EARLY");
    if (d->many.peak > 0.9)
        good &= d->many.ranges <= 4;
    return good && d->many.free < d->many.asked;
}

/* Prints what a trace tells and holds it to the limits. The result is false where one is passed, or
   an answer is wrong. */
static bool report(const struct kind *kind, struct trace *t, double out_ns[2])
{
    struct told d;
    play_all(kind, t, &d);
    const struct play *one = &d.one, *many = &d.many;
    double a_page = one->bytes * most_live(t) / (double)(t->head.capacity >> 12);
    printf("%s: bulk %.1f and %.1f, tail %u x %.1f and %u x %.1f (segregated fit %.1f and %.1f), "
           "packing %.4f and %.4f, several %.4f and %.4f, ranges %zu, wrong %llu, bytes %.1f and "
           "%.3f, same %s\n",
           kind->name, d.ns, d.ref, one->tail[0][0], d.tail[0], one->tail[1][0], d.tail[1],
           d.ref_tail[0], d.ref_tail[1], one->first, one->peak, many->first, many->peak,
           many->ranges, (unsigned long long)many->wrong, one->bytes, a_page,
           d.same ? "yes" : "NO");
    char what[96];
    bool good = report_packing(kind, &d);
    snprintf(what, sizeof what, "%s: bulk / segregated fit", kind->name);
    if (kind->bulk != 0)
        good &= bench_hold(what, d.ns / d.ref, kind->bulk);
    for (int k = 0; k < 2 && kind->tail != 0; k++) {
        snprintf(what, sizeof what, "%s: %s, 99.9th percentile / median", kind->name,
                 k == 0 ? "alloc" : "free");
        good &= hold_beside(what, d.tail[k], kind->tail, d.ref_tail[k]);
    }
    snprintf(what, sizeof what, "%s: bytes of heap a live block", kind->name);
    if (kind->bytes != 0)
        good &= hold_bound(what, one->bytes, kind->bytes, true);
    out_ns[0] = d.ns;
    out_ns[1] = d.ref;
    return d.same && !many->wrong && good;
}

/* The trace of a kind, made by tracegen. */
static struct trace make_trace(const char *kind, unsigned seed)
{
    char path[] = "/tmp/rigmem-trace-XXXXXX", command[4200];
    const char *tools = getenv("BENCH_TOOLS");
    int fd = mkstemp(path);
    if (fd < 0 || !tools)
        die("BENCH_TOOLS does not name the directory of tracegen");
    close(fd);
    int n = snprintf(command, sizeof command, "'%s/tracegen' %s %u %s", tools, kind, seed, path);
    if (n < 0 || (size_t)n >= sizeof command || system(command) != 0)
        die("tracegen fails");
    struct trace t = read_trace(path);
    unlink(path);
    return t;
}

/* Live bytes over capacity at the first failure. */
static double first_refusal(struct trace *t, const struct adapter *ad)
{
    uint64_t live = 0;
    memset(t->slot, 0, t->head.ids * sizeof *t->slot);
    void *a = ad->create(t->head.capacity, most_live(t));
    for (uint64_t k = 0; k < t->head.ops; k++) {
        struct slot *s = &t->slot[t->op[k].id];
        if (t->op[k].op == TRACE_FREE) {
            ad->release(a, s->address, s->size, s->token);
            live -= s->size;
            continue;
        }
        s->size = t->op[k].size;
        if (!ad->alloc(a, s->size, UINT64_C(1) << t->op[k].align_log2, &s->address, &s->token))
            break;
        live += s->size;
    }
    ad->destroy(a);
    return (double)live / (double)t->head.capacity;
}

#define SEEDS 8

/* Where the first refusal comes is the luck of a seed: one request of gigabytes. So the mean of
   several is held to what an exact best fit gets on the same traces. */
static bool churn_seeds(void)
{
    double mean[2] = {0, 0};
    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        struct trace t = make_trace("churn", seed);
        double first = first_refusal(&t, &ours), best = first_refusal(&t, &bestfit);
        printf("churn of seed %u: one block, first refusal %.4f, best fit %.4f\n", seed, first,
               best);
        mean[0] += first / SEEDS;
        mean[1] += best / SEEDS;
        free(t.op);
        free(t.slot);
    }
    printf("churn of %d seeds: mean first refusal of best fit %.4f\n", SEEDS, mean[1]);
    return hold_bound("churn of several seeds: mean first refusal / best fit's", mean[0] / mean[1],
                      0.99, false);
}

/* A name of a trace as argument: it alone. */
int main(int argc, char **argv)
{
    double ns[RIG_ARRAY_LENGTH(kinds)][2] = {{0}};
    bool good = true;
    bench_pin();
    for (size_t i = 0; i < (bench_short() ? 1 : RIG_ARRAY_LENGTH(kinds)); i++) {
        if (argc > 1 && strcmp(kinds[i].name, argv[1]) != 0)
            continue;
        struct trace t = make_trace(kinds[i].name, 1);
        good &= report(&kinds[i], &t, ns[i]);
        free(t.op);
        free(t.slot);
    }
    if (bench_short() || argc > 1)
        return good ? 0 : 1;
    good &= hold_beside("ml100k: bulk / ml", ns[3][0] / ns[1][0], 2.2, ns[3][1] / ns[1][1]);
    good &= hold_beside("small: bulk / small10k", ns[5][0] / ns[4][0], 4, ns[5][1] / ns[4][1]);
    good &= churn_seeds();
    return good ? 0 : 1;
}
