/* Processes that share a state file, one of which is killed ever so often: what was acknowledged is
   there, nobody waits for a dead one, and whoever looks finds a whole session. */
#include "stage.h"

#include "rigmem.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define WRITERS_MAX 8
#define READERS 2
#define OPERATIONS_MAX 65536
/* A transaction that waits longer than this waits for a dead one. */
#define SECONDS_STUCK 30

/* What the writers acknowledged: an allocation's id, or the id of one that was freed, negative; 0
   where a writer was killed as it was about to. */
struct shared {
    long slots; /* of `id` in use */
    long acknowledged;
    long looks;
    long bad;
    long id[OPERATIONS_MAX];
    bool freeing[OPERATIONS_MAX * 2]; /* the free of that id was begun */
};

static struct shared *shared;

static void acknowledge(long id)
{
    long n = __atomic_fetch_add(&shared->slots, 1, __ATOMIC_SEQ_CST);
    if (n < OPERATIONS_MAX)
        shared->id[n] = id;
    __atomic_fetch_add(&shared->acknowledged, 1, __ATOMIC_SEQ_CST);
}

/* One transaction, as one command does it; its id once it is on the disk. */
static uint64_t transaction(uint64_t to_free, int writer)
{
    struct rig_session *s;
    struct rig_region region = {.id = 0};
    struct rig_error err = {.status = RIG_OK};
    char name[24];
    if (to_free < OPERATIONS_MAX * 2)
        shared->freeing[to_free] = true;
    alarm(SECONDS_STUCK);
    enum rig_status status = rig_session_begin(STAGE_STATE, RIG_SESSION_CHANGE, &s, &err);
    snprintf(name, sizeof name, "r%llu", (unsigned long long)to_free);
    if (status == RIG_OK)
        status = to_free ? rig_session_free(s, name, &region, &err)
                         : rig_session_alloc(s, writer % 2 ? "gpu1" : "gpu0", RIG_KIND_GPU, 4096,
                                             false, NULL, &region, &err);
    if (status == RIG_OK)
        status = rig_session_commit(s, &err);
    if (status == RIG_OK)
        acknowledge(to_free ? -(long)to_free : (long)region.id);
    else
        __atomic_fetch_add(&shared->bad, 1, __ATOMIC_SEQ_CST);
    rig_session_end(s);
    alarm(0);
    return region.id;
}

static void write_on(int writer, long wanted)
{
    while (__atomic_load_n(&shared->acknowledged, __ATOMIC_SEQ_CST) < wanted) {
        uint64_t id = transaction(0, writer);
        if (id && id % 4 != 0)
            transaction(id, writer);
    }
    _exit(0);
}

static void look_on(void)
{
    for (;;) {
        struct rig_session *s;
        alarm(SECONDS_STUCK);
        if (rig_session_begin(STAGE_STATE, RIG_SESSION_LOOK, &s, NULL) == RIG_OK) {
            if (!rig_session_is_open(s))
                __atomic_fetch_add(&shared->bad, 1, __ATOMIC_SEQ_CST);
            rig_session_end(s);
        } else {
            __atomic_fetch_add(&shared->bad, 1, __ATOMIC_SEQ_CST);
        }
        __atomic_fetch_add(&shared->looks, 1, __ATOMIC_SEQ_CST);
    }
}

static pid_t start(int writer, long wanted)
{
    pid_t child = fork();
    if (child == 0 && writer >= 0)
        write_on(writer, wanted);
    if (child == 0)
        look_on();
    return child;
}

/* Every region that was acknowledged is there, but for those whose free was begun; every free is
   done. */
static void judge(void)
{
    struct rig_session *s;
    static unsigned char was[OPERATIONS_MAX * 2]; /* 1: allocated, 2: freed */
    long count = shared->slots < OPERATIONS_MAX ? shared->slots : OPERATIONS_MAX;
    memset(was, 0, sizeof was);
    for (long i = 0; i < count; i++) {
        long id = shared->id[i] < 0 ? -shared->id[i] : shared->id[i];
        if (id == 0)
            continue;
        assert_in_range(id, 1, sizeof was - 1);
        int bit = shared->id[i] < 0 ? 2 : 1;
        if (was[id] & bit)
            fail_msg("r%ld was acknowledged twice", id);
        was[id] |= (unsigned char)bit;
    }
    assert_int_equal(rig_session_begin(STAGE_STATE, RIG_SESSION_CHANGE, &s, NULL), RIG_OK);
    int unknown = 0;
    for (long id = 1; id < (long)sizeof was; id++) {
        char name[24];
        struct rig_region region;
        snprintf(name, sizeof name, "r%ld", id);
        bool out = rig_session_region(s, name, &region, NULL) == RIG_OK;
        if (out && (was[id] & 2))
            fail_msg("r%ld is there, and its free was acknowledged", id);
        if (!out && was[id] == 1 && !shared->freeing[id])
            fail_msg("r%ld was acknowledged, and is lost", id);
        /* a command that was killed may have done it all but for telling */
        unknown += (out && was[id] == 0) || (!out && was[id] == 1);
    }
    rig_session_end(s);
    print_message("# %ld acknowledged, %ld looks, %d that a killed command did not tell of\n",
                  shared->acknowledged, shared->looks, unknown);
}

/* Was something acknowledged since the last look? */
static bool got_on(long *seen)
{
    long now = __atomic_load_n(&shared->acknowledged, __ATOMIC_SEQ_CST);
    bool more = now > *seen;
    *seen = now;
    return more;
}

static void share(int writers, long wanted, long kill_ns)
{
    pid_t child[WRITERS_MAX + READERS];
    long killed = 0, seen = 0;
    memset(shared, 0, sizeof *shared);
    stage_empty("s");
    stage_do("-q -m machine.json open gpu0 gpu1 --master");
    for (int i = 0; i < writers + READERS; i++)
        child[i] = start(i < writers ? i : -1, wanted);
    for (unsigned turn = 1; __atomic_load_n(&shared->acknowledged, __ATOMIC_SEQ_CST) < wanted;) {
        /* a slow machine gets on, too */
        int waits = 0;
        do
            nanosleep(&(struct timespec){.tv_nsec = kill_ns}, NULL);
        while (!got_on(&seen) && ++waits < 250);
        turn = turn * 1103515245u + 12345u;
        int victim = (int)(turn >> 16) % writers, status;
        kill(child[victim], SIGKILL);
        assert_int_equal(waitpid(child[victim], &status, 0), child[victim]);
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
            fail_msg("writer %d was stuck", victim);
        child[victim] = start(victim, wanted);
        killed++;
    }
    for (int i = 0; i < writers + READERS; i++) {
        int status;
        if (i >= writers)
            kill(child[i], SIGKILL);
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
            fail_msg("process %d was stuck", i);
    }
    print_message("# %d writers, %ld of them killed\n", writers, killed);
    assert_int_equal(shared->bad, 0);
    judge();
    stage_do("-q close --force");
    assert_int_equal(stage_count(), 0);
}

static void nothing_that_was_acknowledged_is_lost(void **unused)
{
    (void)unused;
    bool soak = stage_soak() > 1;
    long wanted = soak ? 20000 : 200 / stage_thin();
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    share(2, wanted, soak ? 50000000 : 40000000);
    share(8, wanted, soak ? 50000000 : 40000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_that_was_acknowledged_is_lost),
    };
    stage_open();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    stage_close();
    return failed;
}
