/* Sessions: a one-shot `rigmem alloc` over a state file of 10,000 regions against jansson's own
   load and dump of that file, the shell's requests by how many regions there are, the start of
   `rigmem alloc` against a program that does nothing, and the memory that regions take. $RIGMEM is
   the program, $BENCH_TOOLS where empty lies. Run in the checkout: the machine is a bundled one. */
#include "bench.h"

#include "rigmem.h"

#include <fcntl.h>
#include <jansson.h>
#include <spawn.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MACHINE "tests/machines/server-8gpu.json"

/* What the regions of a session are. */
enum mix {
    MIX_GPU, /* GPU memory alone */
    MIX_ALL, /* the three kinds, peers and names */
};

static char rigmem[4096], directory[] = "/tmp/rigmem-bench-XXXXXX";

static void stop(const char *what, const struct rig_error *err)
{
    fprintf(stderr, "bench_session: %s: %s: %s\n", what, err ? err->what : "", err ? err->why : "");
    exit(1);
}

/* ---- sessions */

static void check(enum rig_status status, const char *what, const struct rig_error *err)
{
    if (status != RIG_OK)
        stop(what, err);
}

static void add_region(struct rig_session *s, enum mix mix, int i)
{
    static const uint64_t sizes[] = {4096, 8192, 65536, 4096, 12288, 1 << 20, 4096};
    struct rig_error err = {.status = RIG_OK};
    struct rig_region region;
    uint64_t bytes = sizes[i % 7];
    char name[32];
    snprintf(name, sizeof name, "buffer-%d", i);
    if (mix == MIX_GPU)
        check(rig_session_alloc(s, "gpu0", RIG_KIND_GPU, bytes, false, NULL, &region, &err),
              "alloc", &err);
    else if (i % 5 == 4)
        check(rig_session_map_peer(s, "gpu1", "@last", NULL, &region, &err), "map_peer", &err);
    else
        check(rig_session_alloc(s, "gpu0",
                                i % 5 == 1   ? RIG_KIND_BAR
                                : i % 5 == 2 ? RIG_KIND_HOST
                                             : RIG_KIND_GPU,
                                bytes, false, i % 5 == 3 ? name : NULL, &region, &err),
              "alloc", &err);
}

static void take(struct rig_session *s, const char *gpu)
{
    struct rig_error err = {.status = RIG_OK};
    struct rig_memory *m;
    struct rig_memory_options options = {.bar = -1};
    check(rig_session_take(s, gpu, &options, false, &m, &err), gpu, &err);
}

/* A session of so many regions; path NULL: in this process. */
static struct rig_session *build(const char *path, enum mix mix, int regions)
{
    struct rig_error err = {.status = RIG_OK};
    struct rig_topology *t;
    struct rig_session *s;
    check(rig_topology_load(MACHINE, &t, &err), MACHINE, &err);
    check(rig_session_begin(path, RIG_SESSION_CHANGE, &s, &err), "begin", &err);
    char *whole = realpath(MACHINE, NULL);
    check(rig_session_start(s, t, whole, NULL, &err), "start", &err);
    free(whole);
    rig_topology_free(t);
    take(s, "gpu0");
    take(s, "gpu1");
    for (int i = 0; i < regions; i++)
        add_region(s, mix, i);
    return s;
}

static void build_file(const char *path, enum mix mix, int regions)
{
    struct rig_error err = {.status = RIG_OK};
    struct rig_session *s = build(path, mix, regions);
    check(rig_session_commit(s, &err), "commit", &err);
    rig_session_end(s);
}

/* ---- whole processes */

struct cost {
    double seconds;
    long peak_kib;
    int status;
};

static struct cost run(char *const argv[])
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (int fd = 0; fd < 3; fd++)
        posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    pid_t pid;
    if (posix_spawn(&pid, argv[0], &actions, NULL, argv, environ) != 0)
        stop(argv[0], NULL);
    posix_spawn_file_actions_destroy(&actions);
    struct rusage usage;
    int status;
    if (wait4(pid, &status, 0, &usage) != pid)
        stop("wait", NULL);
    return (struct cost){
        .seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                   (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6,
        .peak_kib = usage.ru_maxrss,
        .status = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
    };
}

static struct cost alloc_once(const char *path)
{
    char file[64], text[][16] = {"-s", "alloc", "gpu0", "gpu", "4K"};
    snprintf(file, sizeof file, "%s", path);
    char *argv[] = {rigmem, text[0], file, text[1], text[2], text[3], text[4], NULL};
    struct cost cost = run(argv);
    if (cost.status != 0)
        stop("rigmem alloc", NULL);
    return cost;
}

/* The CPU time of jansson's load and dump of the file. */
static double jansson(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        stop(path, NULL);
    char *text = malloc((size_t)st.st_size);
    ssize_t got = text ? read(fd, text, (size_t)st.st_size) : -1;
    close(fd);
    double start = bench_now();
    json_t *all = json_loadb(text, (size_t)got, JSON_REJECT_DUPLICATES, NULL);
    char *again = json_dumps(all, JSON_COMPACT);
    double seconds = bench_now() - start;
    if (!again)
        stop("jansson", NULL);
    json_decref(all);
    free(again);
    free(text);
    return seconds;
}

static bool one_shot(const char *what, enum mix mix, int regions, int rounds)
{
    char path[64], text[128];
    snprintf(path, sizeof path, "%s/%d-%d.json", directory, (int)mix, regions);
    build_file(path, mix, regions);
    double ours = alloc_once(path).seconds, theirs = jansson(path);
    for (int i = 1; i < rounds; i++) {
        ours = bench_least(ours, alloc_once(path).seconds);
        theirs = bench_least(theirs, jansson(path));
    }
    struct stat st;
    stat(path, &st);
    printf("alloc over %d regions of %s: %.2f ms; jansson %.2f ms for %lld bytes\n", regions, what,
           ours * 1e3, theirs * 1e3, (long long)st.st_size);
    snprintf(text, sizeof text, "alloc over %d regions of %s, x jansson", regions, what);
    return bench_hold(text, ours / theirs, 1.3);
}

int main(void)
{
    const char *given = getenv("RIGMEM");
    snprintf(rigmem, sizeof rigmem, "%s", given ? given : "build/release/rigmem");
    if (!mkdtemp(directory))
        stop(directory, NULL);
    bench_pin();
    int regions = bench_short() ? 500 : 10000;
    bool good = one_shot("GPU memory", MIX_GPU, regions, bench_short() ? 1 : 9);
    good &= one_shot("all kinds", MIX_ALL, regions, bench_short() ? 1 : 9);
    return good ? 0 : 1;
}
