/* Whole processes: `rigmem reach` over generated dumps against `lspci -F dump -t`, in CPU time and
   in memory, and `rigmem help` against a program that does nothing. $RIGMEM is the program,
   $BENCH_TOOLS where pcidump and empty lie. lspci takes no option for its dump but a file. */
#include "bench.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 7
#define START_ROUNDS 200

struct cost {
    double seconds; /* CPU time, user and system */
    long peak_kib;
    int status;
};

/* run runs a program with its output to `output` and gives what it cost. */
static struct cost run(char *const argv[], const char *output)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    pid_t pid;
    if (posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ) != 0) {
        fprintf(stderr, "bench_process: cannot run %s\n", argv[0]);
        exit(1);
    }
    posix_spawn_file_actions_destroy(&actions);
    struct rusage usage;
    struct cost cost = {.status = -1};
    int status;
    if (wait4(pid, &status, 0, &usage) != pid)
        exit(1);
    if (WIFEXITED(status))
        cost.status = WEXITSTATUS(status);
    cost.seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                   (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
    cost.peak_kib = usage.ru_maxrss;
    return cost;
}

static void tool(char path[4096], const char *name)
{
    const char *tools = getenv("BENCH_TOOLS");
    snprintf(path, 4096, "%s/%s", tools ? tools : "build/release/bench", name);
}

/* Two programs turn by turn: the least of each. */
static void duel(char *const a[], char *const b[], int rounds, struct cost *out_a,
                 struct cost *out_b)
{
    *out_a = run(a, "/dev/null");
    *out_b = run(b, "/dev/null");
    for (int i = 1; i < rounds; i++) {
        struct cost ca = run(a, "/dev/null"), cb = run(b, "/dev/null");
        out_a->seconds = bench_least(out_a->seconds, ca.seconds);
        out_b->seconds = bench_least(out_b->seconds, cb.seconds);
    }
}

/* The peak of `rigmem reach --all`: at most the answers' N * N bytes, 64 MiB and the dump itself.
 */
static bool memory(char *rigmem, char *dump, const char *functions)
{
    struct stat s;
    if (stat(dump, &s) != 0)
        return false;
    char text_reach[] = "reach", text_all[] = "--all", text_m[] = "-m", what[128];
    char *ours[] = {rigmem, text_reach, text_all, text_m, dump, NULL};
    struct cost us = run(ours, "/dev/null");
    double pairs = strtod(functions, NULL) * strtod(functions, NULL);
    double allowed = pairs + 64.0 * 1024 * 1024 + (double)s.st_size;
    printf("reach --all over %s functions: %.1f ms, at most %.1f MiB resident\n", functions,
           us.seconds * 1e3, (double)us.peak_kib / 1024);
    snprintf(what, sizeof what, "its peak memory, x (N * N + 64 MiB + the dump)");
    return bench_hold(what, (double)us.peak_kib * 1024 / allowed, 1.0) && us.status == 0;
}

/* `rigmem reach` over a dump of so many functions against lspci's tree of it. */
static bool reach(char *rigmem, const char *functions, const char *bytes, double limit)
{
    char dump[] = "/tmp/rigmem-bench-XXXXXX", pcidump[4096], n[16], b[16], what[128];
    int fd = mkstemp(dump);
    if (fd < 0)
        return false;
    close(fd);
    tool(pcidump, "pcidump");
    snprintf(n, sizeof n, "%s", functions);
    snprintf(b, sizeof b, "%s", bytes);
    char seed[] = "1", text_reach[] = "reach", text_m[] = "-m", lspci[] = "lspci", text_f[] = "-F",
         text_t[] = "-t";
    char *make[] = {pcidump, n, seed, b, NULL};
    char *ours[] = {rigmem, text_reach, text_m, dump, NULL};
    char *theirs[] = {lspci, text_f, dump, text_t, NULL};
    struct cost us, them;
    bool good = run(make, dump).status == 0;
    duel(ours, theirs, bench_short() ? 1 : ROUNDS, &us, &them);
    if (us.status != 0 || them.status != 0) {
        printf("reach over %s functions: exit %d, lspci %d\n", functions, us.status, them.status);
        good = false;
    }
    printf("reach over %s functions of %s bytes: %.1f ms, lspci -t %.1f ms\n", functions, bytes,
           us.seconds * 1e3, them.seconds * 1e3);
    snprintf(what, sizeof what, "reach over %s functions of %s bytes, x lspci -t", functions,
             bytes);
    good &= bench_hold(what, us.seconds / them.seconds, limit);
    if (!bench_short())
        good &= memory(rigmem, dump, functions);
    unlink(dump);
    return good;
}

int main(void)
{
    static char rigmem[4096], empty[4096];
    const char *given = getenv("RIGMEM");
    snprintf(rigmem, sizeof rigmem, "%s", given ? given : "build/release/rigmem");
    tool(empty, "empty");
    bench_pin();
    bool good = true;
    if (bench_short())
        return reach(rigmem, "272", "4096", 0.12) ? 0 : 1;
    good &= reach(rigmem, "64", "256", 1.0);
    good &= reach(rigmem, "512", "4096", 0.12);
    good &= reach(rigmem, "4096", "4096", 0.10);
    char help[] = "help";
    char *ours[] = {rigmem, help, NULL}, *theirs[] = {empty, NULL};
    struct cost us, them;
    duel(ours, theirs, START_ROUNDS, &us, &them);
    good &= us.status == 0;
    printf("rigmem help %.3f ms, a program that does nothing %.3f ms\n", us.seconds * 1e3,
           them.seconds * 1e3);
    good &=
        bench_hold("rigmem help, x a program that does nothing", us.seconds / them.seconds, 1.35);
    return good ? 0 : 1;
}
