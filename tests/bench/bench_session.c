/* Sessions: a one-shot `rigmem alloc` over a state file of 10,000 regions against jansson's own
   load and dump of that file, the shell's requests by how many regions there are, the start of
   `rigmem alloc` against a program that does nothing, and the memory that regions take. $RIGMEM is
   the program, $BENCH_TOOLS where empty lies. Run in the checkout: the machine is a bundled one. */
#include "bench.h"

#include "rigmem.h"

#include <fcntl.h>
#include <jansson.h>
#include <malloc.h>
#include <spawn.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MACHINE "tests/machines/server-8gpu.json"

/* What the regions of a session are. */
enum mix {
    MIX_PAGES, /* a page of GPU memory each */
    MIX_GPU,   /* GPU memory alone */
    MIX_ALL,   /* the three kinds, peers and names */
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

/* The i-th region of a session; each fifth is a peer's of the one before. */
static void add_region(struct rig_session *s, enum mix mix, int i)
{
    static const uint64_t sizes[] = {4096, 8192, 65536, 4096, 12288, 1 << 20, 4096};
    struct rig_error err = {.status = RIG_OK};
    struct rig_region region;
    uint64_t bytes = mix == MIX_PAGES ? 4096 : sizes[i % 7];
    char name[32];
    snprintf(name, sizeof name, "buffer-%d", i);
    if (mix != MIX_ALL)
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

/* Where the GPUs' addresses of two sessions in one process are. */
#define SPACE_A UINT64_C(0x200000000000)
#define SPACE_B UINT64_C(0x400000000000)
#define SPACE_BYTES (UINT64_C(1) << 40)

/* A session of so many regions; path NULL: in this process, with its addresses from `space` on. */
static struct rig_session *build(const char *path, enum mix mix, int regions, uint64_t space)
{
    struct rig_gpus_options options = {.space_base = space, .space_bytes = SPACE_BYTES};
    struct rig_error err = {.status = RIG_OK};
    struct rig_topology *t;
    struct rig_session *s;
    check(rig_topology_load(MACHINE, &t, &err), MACHINE, &err);
    check(rig_session_begin(path, RIG_SESSION_CHANGE, &s, &err), "begin", &err);
    char *whole = realpath(MACHINE, NULL);
    check(rig_session_start(s, t, whole, space ? &options : NULL, &err), "start", &err);
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
    struct rig_session *s = build(path, mix, regions, 0);
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

/* ---- a session in this process */

static double least_of(struct rig_session *s, int rounds, void (*ask)(struct rig_session *s))
{
    double least = 1e9;
    for (int i = 0; i < rounds; i++) {
        double start = bench_now();
        for (int k = 0; k < 100; k++)
            ask(s);
        least = bench_least(least, (bench_now() - start) / 100);
    }
    return least;
}

static void alloc_and_free(struct rig_session *s)
{
    struct rig_error err = {.status = RIG_OK};
    struct rig_region region;
    rig_session_turn(s);
    check(rig_session_alloc(s, "gpu0", RIG_KIND_GPU, 8192, false, "new", &region, &err), "alloc",
          &err);
    rig_session_turn(s);
    check(rig_session_free(s, "new", &region, &err), "free", &err);
}

static void map_and_free(struct rig_session *s)
{
    struct rig_error err = {.status = RIG_OK};
    struct rig_region region;
    rig_session_turn(s);
    check(rig_session_map_peer(s, "gpu1", "buffer-3", NULL, &region, &err), "map_peer", &err);
    rig_session_turn(s);
    check(rig_session_free(s, "@last", &region, &err), "free", &err);
}

static void read_named(struct rig_session *s)
{
    struct rig_error err = {.status = RIG_OK};
    struct rig_access access = {.gpu = NULL};
    char data[64];
    rig_session_turn(s);
    check(rig_session_region(s, "buffer-8", &access.region, &err), "region", &err);
    check(rig_session_read(s, &access, data, sizeof data, &err), "peek", &err);
}

static bool shell_requests(int few, int many)
{
    static const struct {
        const char *what;
        void (*ask)(struct rig_session *s);
    } requests[] = {{"alloc and free", alloc_and_free},
                    {"map-peer and free", map_and_free},
                    {"peek of a name", read_named}};
    struct rig_session *small = build(NULL, MIX_ALL, few, SPACE_A);
    struct rig_session *large = build(NULL, MIX_ALL, many, SPACE_B);
    bool good = true;
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        double a = 1e9, b = 1e9;
        for (int round = 0; round < (bench_short() ? 1 : 15); round++) {
            a = bench_least(a, least_of(small, 1, requests[i].ask));
            b = bench_least(b, least_of(large, 1, requests[i].ask));
        }
        char text[128];
        printf("%s: %.2f us over %d regions, %.2f us over %d\n", requests[i].what, a * 1e6, few,
               b * 1e6, many);
        snprintf(text, sizeof text, "%s over %d regions, x over %d", requests[i].what, many, few);
        good &= bench_hold(text, b / a, 1.5);
    }
    rig_session_end(small);
    rig_session_end(large);
    return good;
}

/* The heap's growth by the regions of a session in this process: what they need, and nothing of how
   they were asked for. */
static bool memory(int regions)
{
    struct mallinfo2 before = mallinfo2();
    struct rig_session *empty = build(NULL, MIX_PAGES, 0, SPACE_A);
    struct mallinfo2 with_none = mallinfo2();
    struct rig_session *full = build(NULL, MIX_PAGES, regions, SPACE_B);
    struct mallinfo2 with_all = mallinfo2();
    double none =
        (double)(with_none.uordblks + with_none.hblkhd) - (double)(before.uordblks + before.hblkhd);
    double all = (double)(with_all.uordblks + with_all.hblkhd) -
                 (double)(with_none.uordblks + with_none.hblkhd);
    rig_session_end(empty);
    rig_session_end(full);
    double each = (all - none) / regions;
    printf("a region of a session takes %.0f bytes of memory\n", each);
    return bench_hold("a session of 10,000 regions over an empty one, x 4 MiB",
                      each * 10000 / (4 << 20), 1.0);
}

/* How much sooner an empty program ends than `rigmem alloc` answers that its arguments are missing,
   and than it allocates in a session of few regions. */
static bool start(int rounds)
{
    char empty[4096], path[64], word[] = "alloc";
    const char *tools = getenv("BENCH_TOOLS");
    snprintf(empty, sizeof empty, "%s/empty", tools ? tools : "build/release/bench");
    snprintf(path, sizeof path, "%s/few.json", directory);
    build_file(path, MIX_GPU, 3);
    char *ours[] = {rigmem, word, NULL}, *theirs[] = {empty, NULL};
    double a = 1e9, b = 1e9, whole = 1e9;
    for (int i = 0; i < rounds; i++) {
        struct cost asked = run(ours), nothing = run(theirs);
        if (asked.status != RIG_INVALID || nothing.status != 0)
            stop("start", NULL);
        a = bench_least(a, asked.seconds);
        b = bench_least(b, nothing.seconds);
        whole = bench_least(whole, alloc_once(path).seconds);
    }
    printf("rigmem alloc starts in %.3f ms and allocates in %.3f ms, an empty program takes %.3f\n",
           a * 1e3, whole * 1e3, b * 1e3);
    return bench_hold("start of rigmem alloc, x an empty program", a / b, 1.5);
}

int main(void)
{
    const char *given = getenv("RIGMEM");
    snprintf(rigmem, sizeof rigmem, "%s", given ? given : "build/release/rigmem");
    if (!mkdtemp(directory))
        stop(directory, NULL);
    bench_pin();
    bool brief = bench_short();
    int regions = brief ? 500 : 10000;
    bool good = one_shot("GPU memory", MIX_GPU, regions, brief ? 1 : 15);
    good &= one_shot("all kinds", MIX_ALL, regions, brief ? 1 : 15);
    good &= shell_requests(100, regions);
    good &= memory(regions);
    good &= start(brief ? 3 : 200);
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command) == 0 && good ? 0 : 1;
}
