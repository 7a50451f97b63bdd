/* Shared by the benchmarks: how time is taken, and how a ratio is held to its limit.

   Every figure is a ratio of two things timed in the same run, turn by turn, on one CPU, each by
   its least CPU time. With BENCH_SHORT=1 in the environment a benchmark runs a small form that
   holds results and not times to account, so that a busy machine fails no test. */
#ifndef BENCH_H
#define BENCH_H

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* What is allowed for noise. */
#define BENCH_NOISE 1.15

static inline bool bench_short(void)
{
    const char *text = getenv("BENCH_SHORT");
    return text && *text;
}

/* bench_pin keeps the process on the CPU it runs on. */
static inline void bench_pin(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    int cpu = sched_getcpu();
    CPU_SET((size_t)(cpu < 0 ? 0 : cpu), &set);
    sched_setaffinity(0, sizeof set, &set);
}

/* bench_now is the CPU time of this process in seconds. */
static inline double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline double bench_least(double a, double b)
{
    return a < b ? a : b;
}

/* bench_hold prints a ratio beside its limit and is true iff it keeps it, noise allowed for. In the
   short form it always is: times are not held to account there. */
static inline bool bench_hold(const char *what, double ratio, double limit)
{
    bool kept = ratio <= limit * BENCH_NOISE;
    printf("%-58s %8.3f  limit %g%s\n", what, ratio, limit, kept ? "" : "  OVER");
    return kept || bench_short();
}

#endif
