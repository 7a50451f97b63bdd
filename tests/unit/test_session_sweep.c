/* Commands of a session that are killed at each of their system calls that write: the state file is
   as before or as after, the next command works, and nothing is given out that a GPU's tables still
   lead to. RIGMEM_SOAK kills at every system call. */
#include "rigmem.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define POINTS_MAX 4000

static char directory[] = "/dev/shm/rigmem-sweep-XXXXXX";
static char state[sizeof directory + 16];

/* ---- the session that each command begins with */

static void remove_files(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        char below[512];
        snprintf(below, sizeof below, "%s/%s", path, e->d_name);
        if (unlink(below) != 0) {
            remove_files(below);
            rmdir(below);
        }
    }
    if (dir)
        closedir(dir);
}

static struct rig_session *begin(enum rig_session_use use)
{
    struct rig_session *s = NULL;
    struct rig_error err = {.status = RIG_OK};
    if (rig_session_begin(state, use, &s, &err) != RIG_OK)
        fail_msg("begin: %s: %s", err.what, err.why);
    return s;
}

static enum rig_status open_gpus(struct rig_session *s)
{
    struct rig_memory *m;
    enum rig_status status = rig_session_take(s, "gpu0", NULL, false, &m, NULL);
    return status == RIG_OK ? rig_session_take(s, "gpu1", NULL, false, &m, NULL) : status;
}

/* r1 own memory, r2 the same for gpu1, r3 host memory. */
static void prepare(const struct rig_topology *t)
{
    struct rig_region region;
    remove_files(directory);
    struct rig_session *s = begin(RIG_SESSION_CHANGE);
    assert_int_equal(rig_session_start(s, t, "server", NULL, NULL), RIG_OK);
    assert_int_equal(open_gpus(s), RIG_OK);
    assert_int_equal(
        rig_session_alloc(s, "gpu0", RIG_KIND_GPU, 1 << 16, false, "own", &region, NULL), RIG_OK);
    assert_int_equal(rig_session_map_peer(s, "gpu1", "own", NULL, &region, NULL), RIG_OK);
    assert_int_equal(
        rig_session_alloc(s, "gpu0", RIG_KIND_HOST, 1 << 13, false, NULL, &region, NULL), RIG_OK);
    assert_int_equal(rig_session_commit(s, NULL), RIG_OK);
    rig_session_end(s);
}

/* ---- the commands */

typedef enum rig_status act(struct rig_session *s);

static enum rig_status alloc_own(struct rig_session *s)
{
    struct rig_region region;
    return rig_session_alloc(s, "gpu0", RIG_KIND_GPU, 3 << 20, false, "new", &region, NULL);
}

static enum rig_status alloc_host(struct rig_session *s)
{
    struct rig_region region;
    return rig_session_alloc(s, "gpu1", RIG_KIND_HOST, 1 << 14, false, NULL, &region, NULL);
}

static enum rig_status map_peer(struct rig_session *s)
{
    struct rig_region region;
    return rig_session_map_peer(s, "gpu1", "r3", NULL, &region, NULL);
}

static enum rig_status free_owner(struct rig_session *s)
{
    struct rig_region region;
    return rig_session_free(s, "r1", &region, NULL);
}

static enum rig_status free_peer(struct rig_session *s)
{
    struct rig_region region;
    return rig_session_free(s, "r2", &region, NULL);
}

static enum rig_status free_host(struct rig_session *s)
{
    struct rig_region region;
    return rig_session_free(s, "r3", &region, NULL);
}

static enum rig_status bus(struct rig_session *s)
{
    struct rig_bus_range *ranges = NULL;
    size_t count;
    enum rig_status status = rig_session_bus(s, "r1", "0000:05:00.0", &ranges, &count, NULL);
    free(ranges);
    return status;
}

static enum rig_status take_more(struct rig_session *s)
{
    struct rig_memory *m;
    return rig_session_take(s, "gpu2", NULL, false, &m, NULL);
}

static enum rig_status release_peer(struct rig_session *s)
{
    struct rig_memory *m;
    enum rig_status status = rig_session_gpu(s, "gpu1", &m, NULL);
    return status == RIG_OK ? rig_session_release(s, m, NULL) : status;
}

static enum rig_status close_all(struct rig_session *s)
{
    return rig_session_close(s, true, NULL);
}

/* What a child does. */
static void command(act *run)
{
    struct rig_session *s;
    if (rig_session_begin(state, RIG_SESSION_CHANGE, &s, NULL) != RIG_OK || run(s) != RIG_OK ||
        rig_session_commit(s, NULL) != RIG_OK)
        _exit(1);
    rig_session_end(s);
    _exit(0);
}

/* ---- killing it */

/* In short: before each call that writes; else before and after every call. */
static bool thorough(void)
{
    return getenv("RIGMEM_SOAK") != NULL;
}

static bool writes(long number)
{
    static const long calls[] = {SYS_write,   SYS_pwrite64, SYS_openat,    SYS_fsync,
                                 SYS_rename,  SYS_renameat, SYS_unlinkat,  SYS_ftruncate,
                                 SYS_mkdirat, SYS_fchmod,   SYS_fallocate, SYS_flock};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (calls[i] == number)
            return true;
    return thorough();
}

static long call_number(pid_t child)
{
    struct __ptrace_syscall_info info = {0};
    long got = ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info);
    if (got > 0 && info.op == PTRACE_SYSCALL_INFO_ENTRY)
        return (long)info.entry.nr;
    return -1;
}

/* Runs the command in a child and kills it at its point-th stop, before or after a call. False: it
   ended by itself, without failing. */
static bool killed_at(act *run, int point)
{
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        command(run);
    }
    int status;
    long now = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    for (int seen = 0;;) {
        assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, NULL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status)) {
            assert_int_equal(WEXITSTATUS(status), 0);
            return false;
        }
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != (SIGTRAP | 0x80))
            continue;
        long entered = call_number(child);
        bool counts = writes(entered >= 0 ? entered : now) && (entered >= 0 || thorough());
        now = entered;
        if (counts && ++seen == point)
            break;
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return true;
}

/* ---- the judge */

static char *read_state(void)
{
    FILE *f = fopen(state, "r");
    if (!f)
        return strdup("");
    char *text = NULL;
    size_t room = 0;
    ssize_t got = getdelim(&text, &room, EOF, f);
    fclose(f);
    return got < 0 ? strdup("") : text;
}

static bool overlaps(const struct rig_pages *pages, uint64_t address, uint64_t bytes)
{
    for (size_t i = 0; i < pages->count; i++)
        if (address < pages->ranges[i].address + pages->ranges[i].bytes &&
            pages->ranges[i].address < address + bytes)
            return true;
    return false;
}

/* The tables of gpu0 lead from no address of the candidates to the pages of the region. */
static void check_tables(struct rig_session *s, struct rig_region region, const uint64_t *candidate,
                         size_t count)
{
    struct rig_pages pages;
    assert_int_equal(rig_region_pages(region, &pages, NULL), RIG_OK);
    uint64_t mine = rig_region_address(region);
    for (size_t i = 0; i < count; i++) {
        struct rig_walk walk;
        if (candidate[i] == mine)
            continue;
        assert_int_equal(rig_session_walk(s, "gpu0", candidate[i], &walk, NULL), RIG_OK);
        if (walk.mapped && walk.target == RIG_TARGET_GPU)
            assert_false(overlaps(&pages, walk.address, walk.bytes));
    }
    rig_pages_free(&pages);
}

/* No two allocations of one GPU share a page. */
static void check_pages(struct rig_session *s)
{
    struct rig_region a = {.id = 0}, b;
    while (rig_gpus_next_region(rig_session_gpus(s), a.id, &a)) {
        struct rig_region_info info;
        struct rig_pages pages, other;
        assert_int_equal(rig_region_info(a, &info, NULL), RIG_OK);
        if (info.origin != RIG_ORIGIN_ALLOCATED)
            continue;
        assert_int_equal(rig_region_pages(a, &pages, NULL), RIG_OK);
        b = a;
        while (rig_gpus_next_region(rig_session_gpus(s), b.id, &b)) {
            struct rig_region_info second;
            assert_int_equal(rig_region_info(b, &second, NULL), RIG_OK);
            if (second.origin != RIG_ORIGIN_ALLOCATED || second.target != info.target ||
                (info.target == RIG_TARGET_GPU && a.memory != b.memory))
                continue;
            assert_int_equal(rig_region_pages(b, &other, NULL), RIG_OK);
            for (size_t i = 0; i < other.count; i++)
                assert_false(overlaps(&pages, other.ranges[i].address, other.ranges[i].bytes));
            rig_pages_free(&other);
        }
        rig_pages_free(&pages);
    }
}

/* Addresses that the commands' regions have: every page of 4 KiB and more begins at one of them. */
static size_t addresses(uint64_t out[16])
{
    struct rig_session *s = begin(RIG_SESSION_LOOK);
    size_t count = 0;
    struct rig_region region = {.id = 0};
    while (rig_session_is_open(s) && count < 16 &&
           rig_gpus_next_region(rig_session_gpus(s), region.id, &region))
        out[count++] = rig_region_address(region);
    rig_session_end(s);
    return count;
}

static void check_next_command(const uint64_t *candidate, size_t count)
{
    struct rig_session *s = begin(RIG_SESSION_CHANGE);
    if (rig_session_is_open(s)) {
        struct rig_region region[2];
        for (int i = 0; i < 2; i++) {
            static const uint64_t bytes[] = {4096, 3 << 20};
            assert_int_equal(
                rig_session_alloc(s, "gpu0", RIG_KIND_GPU, bytes[i], false, NULL, &region[i], NULL),
                RIG_OK);
            check_tables(s, region[i], candidate, count);
        }
        check_pages(s);
        assert_int_equal(rig_session_commit(s, NULL), RIG_OK);
        rig_session_end(s);
        s = begin(RIG_SESSION_CHANGE);
        assert_int_equal(rig_session_close(s, true, NULL), RIG_OK);
    }
    rig_session_end(s);
    char beside[sizeof state + 8];
    snprintf(beside, sizeof beside, "%s.tmp", state);
    assert_int_not_equal(access(state, F_OK), 0);
    if (access(beside, F_OK) == 0)
        unlink(beside); /* of a close that was killed: the next open replaces it */
}

static int sweep(const struct rig_topology *t, act *run)
{
    uint64_t candidate[32];
    prepare(t);
    char *before = read_state();
    assert_false(killed_at(run, POINTS_MAX));
    char *after = read_state();
    assert_string_not_equal(before, after);
    size_t count = addresses(candidate);
    int point = 1;
    for (; point < POINTS_MAX; point++) {
        prepare(t);
        count += point == 1 ? addresses(candidate + count) : 0;
        if (!killed_at(run, point))
            break;
        char *now = read_state();
        if (strcmp(now, before) != 0 && strcmp(now, after) != 0)
            fail_msg("point %d: the state is neither old nor new", point);
        free(now);
        check_next_command(candidate, count);
    }
    free(before);
    free(after);
    return point - 1;
}

static void killed_commands_leave_the_old_state_or_the_new(void **unused)
{
    (void)unused;
    static act *const commands[] = {alloc_own, alloc_host, map_peer,  free_owner,   free_peer,
                                    free_host, bus,        take_more, release_peer, close_all};
    struct rig_topology *t;
    assert_int_equal(rig_topology_load("tests/machines/server-8gpu.json", &t, NULL), RIG_OK);
    int points = 0;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        int more = sweep(t, commands[i]);
        print_message("# command %zu: %d points\n", i, more);
        points += more;
    }
    rig_topology_free(t);
    print_message("# %d points\n", points);
    assert_true(points >= 200);
}

static int make_directory(void **unused)
{
    (void)unused;
    if (!mkdtemp(directory))
        return -1;
    snprintf(state, sizeof state, "%s/s.json", directory);
    return 0;
}

static int remove_directory(void **unused)
{
    (void)unused;
    remove_files(directory);
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_commands_leave_the_old_state_or_the_new),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
