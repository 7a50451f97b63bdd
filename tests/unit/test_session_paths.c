/* Whose file a session's is, and what stands at its name: the whole matrix is as it is said in
   rigmem-state(5), and nobody else's file is ever written. */
#include "reading.h"

#include "base/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define OTHER 4321
#define SELF 1234 /* who looks, where the test may become somebody */

static char directory[] = "/tmp/rigmem-paths-XXXXXX";
static bool root;

static void empty(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        char below[512];
        snprintf(below, sizeof below, "%s/%s", path, e->d_name);
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (unlink(below) != 0) {
            empty(below);
            rmdir(below);
        }
    }
    if (dir)
        closedir(dir);
}

/* Empties the test's directory, and makes it `user`'s. */
static void fresh(uid_t user)
{
    empty(directory);
    assert_int_equal(chmod(directory, 0755), 0);
    assert_int_equal(chown(directory, user, (gid_t)-1), 0);
}

static enum rig_status begin(const char *path, enum rig_session_use use)
{
    struct rig_session *s = NULL;
    struct rig_error err = {.status = RIG_OK};
    enum rig_status status = rig_session_begin(path, use, &s, &err);
    if (status != RIG_OK && (!err.why[0] || !err.what[0]))
        status = RIG_UNKNOWN; /* refused without a reason */
    rig_session_end(s);
    return status;
}

/* The outcome as another user has it. */
static enum rig_status begin_as(uid_t user, const char *path, enum rig_session_use use)
{
    if (user == geteuid())
        return begin(path, use);
    pid_t child = fork();
    if (child == 0) {
        if (setgid(user) != 0 || setuid(user) != 0)
            _exit(99);
        _exit((int)begin(path, use));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return (enum rig_status)WEXITSTATUS(status);
}

/* ---- what stands at the name */

enum kind { REGULAR, LINK, DANGLING, HARD, FIFO, DIRECTORY, SOCKET, DEVICE, HUGE_FILE, KINDS };

static void put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static bool make(enum kind kind)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "s"};
    int fd;
    put("victim", "{}");
    switch (kind) {
    case REGULAR:
        put("s", "{}");
        return true;
    case LINK:
        return symlink("victim", "s") == 0;
    case DANGLING:
        return symlink("nothing", "s") == 0;
    case HARD:
        return link("victim", "s") == 0;
    case FIFO:
        return mkfifo("s", 0600) == 0;
    case DIRECTORY:
        return mkdir("s", 0700) == 0;
    case SOCKET:
        fd = socket(AF_UNIX, SOCK_STREAM, 0);
        assert_int_equal(bind(fd, (const struct sockaddr *)&name, sizeof name), 0);
        return close(fd) == 0;
    case DEVICE:
        return mknod("s", S_IFCHR | 0600, makedev(1, 3)) == 0;
    default:
        put("s", "{}");
        return truncate("s", (64 << 20) + 1) == 0;
    }
}

static bool is_whole(void)
{
    char text[8] = "";
    int fd = open("victim", O_RDONLY);
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    return got == 2 && strcmp(text, "{}") == 0 && access("nothing", F_OK) != 0;
}

/* What rigmem-state(5) says: {} is no session, which is told once the file may be read. */
static enum rig_status expected(enum kind kind, uid_t owner, mode_t mode, uid_t user)
{
    if ((kind != REGULAR && kind != HUGE_FILE) || (owner != user && owner != 0) ||
        (mode & 022) != 0)
        return RIG_REFUSED;
    bool readable = user == 0 || (owner == user ? (mode & 0400) != 0 : (mode & 0004) != 0);
    return readable ? RIG_BAD_INPUT : RIG_REFUSED;
}

static void try_all_owners(enum kind kind, mode_t mode, int *io_tried)
{
    static const uid_t owners[] = {0, SELF, OTHER}, users[] = {0, SELF};
    for (size_t o = 0; o < 3; o++)
        for (size_t u = 0; u < 2; u++)
            for (int use = RIG_SESSION_CHANGE; use <= RIG_SESSION_LOOK; use++) {
                uid_t owner = root ? owners[o] : geteuid(), user = root ? users[u] : geteuid();
                fresh(user);
                if (!make(kind)) {
                    assert_true(kind == DEVICE && errno == EPERM);
                    return;
                }
                if (kind != LINK && kind != DANGLING)
                    assert_int_equal(chmod("s", mode), 0);
                assert_int_equal(lchown("s", owner, (gid_t)-1), 0);
                enum rig_status status = begin_as(user, "s", (enum rig_session_use)use);
                if (status != expected(kind, owner, mode, user))
                    fail_msg("kind %d of user %u, mode %o, as user %u, use %d: %s", (int)kind,
                             owner, mode, user, use, rig_status_name(status));
                assert_true(is_whole());
                (*io_tried)++;
            }
}

static void what_stands_at_the_name_is_taken_or_refused_as_it_is_said(void **unused)
{
    (void)unused;
    static const mode_t modes[] = {0600, 0644, 0620, 0666, 0000};
    int tried = 0;
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++)
            try_all_owners((enum kind)kind, modes[m], &tried);
    print_message("# %d times%s\n", tried, root ? "" : ", of this user's files alone");
    assert_true(tried >= 400);
}

static void what_stands_beside_it_is_not_followed(void **unused)
{
    (void)unused;
    static const char *const beside[] = {"s.lock", "s.intent", "s.d"};
    for (size_t i = 0; i < 3; i++)
        for (int kind = LINK; kind <= FIFO; kind++) {
            fresh(geteuid());
            assert_true(make((enum kind)kind));
            assert_int_equal(rename("s", beside[i]), 0);
            put("s", "{}");
            enum rig_status status = begin("s", RIG_SESSION_CHANGE);
            assert_true(status == RIG_REFUSED || status == RIG_BAD_INPUT);
            assert_true(strcmp(beside[i], "s.lock") != 0 || status == RIG_REFUSED);
            assert_true(is_whole());
        }
}

/* A directory where a killed command's file of memory is said to be cannot be removed as one. */
static void what_cannot_be_removed_is_told_by_each_command_until_it_can(void **unused)
{
    (void)unused;
    static const char gone[] =
        "a command was killed as it opened or closed a session: what it left is removed";
    fresh(geteuid());
    put("s.lock", "");
    assert_int_equal(mkdir("s.d", 0700), 0);
    assert_int_equal(mkdir("s.d/system-memory", 0700), 0);
    struct rig_session *s;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rig_session_begin("s", RIG_SESSION_CHANGE, &s, NULL), RIG_OK);
        assert_non_null(rig_session_warning(s, 0));
        assert_non_null(strstr(rig_session_warning(s, 0), "system-memory: "));
        assert_null(rig_session_warning(s, 1));
        rig_session_end(s);
        assert_int_equal(access("s.lock", F_OK), 0);
    }
    assert_int_equal(rmdir("s.d/system-memory"), 0);
    assert_int_equal(rig_session_begin("s", RIG_SESSION_CHANGE, &s, NULL), RIG_OK);
    assert_string_equal(rig_session_warning(s, 0), gone);
    rig_session_end(s);
    assert_int_not_equal(access("s.d", F_OK), 0);
    assert_int_not_equal(access("s.lock", F_OK), 0);
}

/* So too where a session that does not start has no other trace. */
static void what_a_session_that_failed_to_start_leaves_keeps_the_lock(void **unused)
{
    (void)unused;
    struct rig_session *s;
    static const char machine[] = "-[0000:00]-+-00.0\n           \\-01.0-[01]----00.0\n\n";
    struct rig_topology *t = reading_accepted("m", machine);
    fresh(geteuid());
    assert_int_equal(mkdir("s.d", 0700), 0);
    assert_int_equal(mkdir("s.d/system-memory", 0700), 0);
    assert_int_equal(rig_session_begin("s", RIG_SESSION_CHANGE, &s, NULL), RIG_OK);
    assert_null(rig_session_warning(s, 0));
    assert_int_not_equal(rig_session_start(s, t, "m", NULL, NULL), RIG_OK);
    rig_session_end(s);
    assert_int_equal(access("s.lock", F_OK), 0);
    rig_topology_free(t);
}

/* Directories where the files of an intent and of what is being written are said to be. */
static void a_close_that_leaves_something_failed_and_the_session_is_closed(void **unused)
{
    (void)unused;
    static const char machine[] = "-[0000:00]-+-00.0\n           \\-01.0-[01]----00.0\n\n";
    static const char *const left[] = {"s.tmp", "s.intent"};
    struct rig_topology *t = reading_accepted("m", machine);
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(left); i++)
        for (int force = 0; force < 2; force++) {
            struct rig_session *s;
            struct rig_error err = {.status = RIG_OK};
            fresh(geteuid());
            assert_int_equal(rig_session_begin("s", RIG_SESSION_CHANGE, &s, NULL), RIG_OK);
            assert_int_equal(rig_session_start(s, t, "m", NULL, NULL), RIG_OK);
            assert_int_equal(rig_session_commit(s, NULL), RIG_OK);
            assert_int_equal(mkdir(left[i], 0700), 0);
            assert_int_equal(rig_session_close(s, force, &err), RIG_FAILED);
            assert_int_equal(err.status, RIG_FAILED);
            assert_string_equal(err.what, left[i]);
            assert_non_null(strstr(err.why, "; the session is closed"));
            assert_false(rig_session_is_open(s));
            rig_session_end(s);
            assert_int_not_equal(access("s", F_OK), 0);
            assert_int_not_equal(access("s.d", F_OK), 0);
            assert_int_equal(access("s.lock", F_OK), 0);
            assert_int_equal(rmdir(left[i]), 0);
        }
    rig_topology_free(t);
}

/* An intent's lines that are no command's of this session would count for it. */
static void a_session_does_not_start_beside_an_intent_that_cannot_be_removed(void **unused)
{
    (void)unused;
    static const char machine[] = "-[0000:00]-+-00.0\n           \\-01.0-[01]----00.0\n\n";
    struct rig_topology *t = reading_accepted("m", machine);
    struct rig_session *s;
    struct rig_error err = {.status = RIG_OK};
    fresh(geteuid());
    assert_int_equal(mkdir("s.intent", 0700), 0);
    assert_int_equal(rig_session_begin("s", RIG_SESSION_CHANGE, &s, NULL), RIG_OK);
    assert_int_equal(rig_session_start(s, t, "m", NULL, &err), RIG_REFUSED);
    assert_string_equal(err.what, "s.intent");
    assert_false(rig_session_is_open(s));
    rig_session_end(s);
    assert_int_not_equal(access("s.lock", F_OK), 0);
    assert_int_not_equal(access("s.d", F_OK), 0);
    rig_topology_free(t);
}

/* ---- what is above it */

static void a_directory_that_others_may_change_is_refused(void **unused)
{
    (void)unused;
    static const struct {
        mode_t mode;
        uid_t owner;
        bool linked; /* the way there is a link */
        uid_t link_owner;
        enum rig_status status;
    } ways[] = {
        {0755, 0, false, 0, RIG_OK},          {0777, 0, false, 0, RIG_REFUSED},
        {0775, 0, false, 0, RIG_REFUSED},     {01777, 0, false, 0, RIG_OK},
        {0755, OTHER, false, 0, RIG_REFUSED}, {01777, OTHER, false, 0, RIG_REFUSED},
        {0755, 0, true, 0, RIG_OK},           {0755, 0, true, OTHER, RIG_REFUSED},
        {0777, 0, true, 0, RIG_REFUSED},
    };
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (!root && (ways[i].owner == OTHER || ways[i].link_owner == OTHER))
            continue; /* only root makes what is somebody else's */
        fresh(geteuid());
        assert_int_equal(mkdir("above", 0700), 0);
        assert_int_equal(mkdir("above/below", 0700), 0);
        assert_int_equal(symlink("above", "way"), 0);
        assert_int_equal(chmod("above", ways[i].mode), 0);
        if (root) {
            assert_int_equal(chown("above", ways[i].owner, (gid_t)-1), 0);
            assert_int_equal(lchown("way", ways[i].link_owner, (gid_t)-1), 0);
        }
        const char *path = ways[i].linked ? "way/below/s" : "above/below/s";
        if (begin(path, RIG_SESSION_CHANGE) != ways[i].status)
            fail_msg("way %zu is not %s", i, rig_status_name(ways[i].status));
    }
    assert_int_equal(begin("/", RIG_SESSION_CHANGE), RIG_INVALID);
    assert_int_equal(begin("above/..", RIG_SESSION_CHANGE), RIG_INVALID);
    assert_int_equal(symlink("loop", "loop"), 0);
    assert_int_equal(begin("loop/s", RIG_SESSION_CHANGE), RIG_REFUSED);
    assert_int_equal(begin("nowhere/s", RIG_SESSION_LOOK), RIG_OK);
}

/* ---- a name that changes as it is looked at */

static pid_t start_flipping(const char *a, const char *b)
{
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        while (getppid() == parent)
            renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
        _exit(0);
    }
    return child;
}

/* Both ways are to be met, which may need seconds where one processor has both processes. */
#define PATIENCE 60

static int rounds(void)
{
    const char *soak = getenv("RIGMEM_SOAK");
    return soak ? 1000 * atoi(soak) : 300;
}

static void stop(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void a_directory_swapped_for_a_link_is_never_entered(void **unused)
{
    (void)unused;
    if (!root) {
        skip(); /* only root makes a link that is somebody else's */
    }
    fresh(geteuid());
    assert_int_equal(mkdir("way", 0700), 0);
    assert_int_equal(mkdir("victims", 0700), 0);
    assert_int_equal(symlink("victims", "theirs"), 0);
    assert_int_equal(lchown("theirs", OTHER, OTHER), 0);
    int watch = inotify_init1(IN_NONBLOCK);
    assert_true(watch >= 0 && inotify_add_watch(watch, "victims", IN_CREATE | IN_MODIFY) >= 0);
    pid_t flipping = start_flipping("way", "theirs");
    int entered = 0, refused = 0;
    int tried = 0;
    for (time_t end = time(NULL) + PATIENCE;
         tried < rounds() || ((!entered || !refused) && time(NULL) < end); tried++) {
        enum rig_status status = begin("way/s", RIG_SESSION_CHANGE);
        entered += status == RIG_OK;
        refused += status == RIG_REFUSED;
    }
    stop(flipping);
    char event[4096];
    ssize_t events = read(watch, event, sizeof event);
    close(watch);
    print_message("# entered %d times, refused %d times\n", entered, refused);
    assert_true(events < 0 && errno == EAGAIN);
    assert_int_equal(entered + refused, tried);
    assert_true(entered > 0 && refused > 0);
}

static void a_file_swapped_for_a_link_is_never_written(void **unused)
{
    (void)unused;
    fresh(geteuid());
    put("victim", "{}");
    put("s", "{}");
    assert_int_equal(symlink("victim", "theirs"), 0);
    pid_t flipping = start_flipping("s", "theirs");
    int refused = 0, tried = 0;
    for (time_t end = time(NULL) + PATIENCE; tried < rounds() || (!refused && time(NULL) < end);
         tried++) {
        enum rig_status status = begin("s", RIG_SESSION_CHANGE);
        assert_true(status == RIG_BAD_INPUT || status == RIG_REFUSED);
        refused += status == RIG_REFUSED;
    }
    stop(flipping);
    assert_true(is_whole());
    assert_true(refused > 0);
}

static int enter(void **unused)
{
    (void)unused;
    root = geteuid() == 0;
    return mkdtemp(directory) && chdir(directory) == 0 ? 0 : -1;
}

static int leave(void **unused)
{
    (void)unused;
    empty(directory);
    return chdir("/") == 0 ? rmdir(directory) : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_stands_at_the_name_is_taken_or_refused_as_it_is_said),
        cmocka_unit_test(what_stands_beside_it_is_not_followed),
        cmocka_unit_test(what_cannot_be_removed_is_told_by_each_command_until_it_can),
        cmocka_unit_test(what_a_session_that_failed_to_start_leaves_keeps_the_lock),
        cmocka_unit_test(a_close_that_leaves_something_failed_and_the_session_is_closed),
        cmocka_unit_test(a_session_does_not_start_beside_an_intent_that_cannot_be_removed),
        cmocka_unit_test(a_directory_that_others_may_change_is_refused),
        cmocka_unit_test(a_directory_swapped_for_a_link_is_never_entered),
        cmocka_unit_test(a_file_swapped_for_a_link_is_never_written),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
