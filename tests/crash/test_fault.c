/* Commands under which the system breaks, a call or a block of memory at a time: each ends with its
   exit code, one message and one document, and leaves the old state or the new, nothing open, no
   memory, and a session that goes on. */
#include "scenes.h"

#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The ways in which a call goes wrong. */
static const struct way {
    enum shim_call call;
    enum shim_act act;
    int error;
    bool on;
} ways[] = {
    {CALL_OPEN, SHIM_FAIL, EMFILE, false},
    {CALL_OPEN, SHIM_FAIL, EIO, false},
    {CALL_OPEN, SHIM_FAIL, EMFILE, true},
    {CALL_CLOSE, SHIM_FAIL, EIO, false},
    {CALL_READ, SHIM_FAIL, EIO, false},
    {CALL_READ, SHIM_FAIL, EINTR, false},
    {CALL_READ, SHIM_SHORT, 0, true},
    {CALL_WRITE, SHIM_FAIL, EIO, false},
    {CALL_WRITE, SHIM_FAIL, ENOSPC, true},
    {CALL_WRITE, SHIM_FAIL, EINTR, false},
    {CALL_WRITE, SHIM_SHORT, 0, false},
    {CALL_WRITE, SHIM_SHORT, 0, true},
    {CALL_FSYNC, SHIM_FAIL, EIO, false},
    {CALL_FSYNC, SHIM_FAIL, ENOSPC, true},
    {CALL_FTRUNCATE, SHIM_FAIL, ENOSPC, false},
    {CALL_FTRUNCATE, SHIM_FAIL, EFBIG, true},
    {CALL_FALLOCATE, SHIM_FAIL, EIO, false},
    {CALL_FALLOCATE, SHIM_FAIL, ENOSPC, false},
    {CALL_FALLOCATE, SHIM_FAIL, EOPNOTSUPP, false},
    {CALL_FALLOCATE, SHIM_FAIL, EINTR, false},
    {CALL_FLOCK, SHIM_FAIL, ENOLCK, false},
    {CALL_FLOCK, SHIM_FAIL, EINTR, false},
    {CALL_STAT, SHIM_FAIL, EIO, false},
    {CALL_MMAP, SHIM_FAIL, ENOMEM, false},
    {CALL_MMAP, SHIM_FAIL, ENOMEM, true},
    {CALL_MKDIR, SHIM_FAIL, ENOSPC, false},
    {CALL_UNLINK, SHIM_FAIL, EIO, false},
    {CALL_RENAME, SHIM_FAIL, EIO, false},
    {CALL_RENAME, SHIM_FAIL, ENOSPC, true},
    {CALL_FCHMOD, SHIM_FAIL, EIO, false},
    {CALL_DUP, SHIM_FAIL, EMFILE, false},
    {CALL_ACCESS, SHIM_FAIL, EIO, false},
    {CALL_READDIR, SHIM_FAIL, EIO, false},
    {CALL_READLINK, SHIM_FAIL, EIO, false},
};

/* ---- the judge */

static bool is_one_document(const char *text, int code)
{
    json_error_t where;
    json_t *all = json_loads(text, JSON_REJECT_DUPLICATES, &where);
    const json_t *ok = json_object_get(all, "ok"), *error = json_object_get(all, "error");
    bool good = json_is_boolean(ok) && json_object_get(all, "schema") &&
                json_is_true(ok) == (code <= 1 && !error) &&
                (json_is_true(ok) || (json_integer_value(json_object_get(error, "code")) == code &&
                                      json_string_length(json_object_get(error, "why")) > 0));
    json_decref(all);
    return good;
}

/* The answer of a run in which nothing went wrong, byte for byte; where a warning says what did,
   all but the warnings. */
static bool is_answer(const struct stage_end *end, const char *right)
{
    if (!strstr(end->err, "rigmem: warning: "))
        return strcmp(end->out, right) == 0;
    json_t *one = json_loads(end->out, 0, NULL), *other = json_loads(right, 0, NULL);
    bool warned = json_array_size(json_object_get(one, "warnings")) >
                  json_array_size(json_object_get(other, "warnings"));
    json_object_del(one, "warnings");
    json_object_del(other, "warnings");
    bool good = warned && json_equal(one, other);
    json_decref(one);
    json_decref(other);
    return good;
}

/* Nothing can tell on standard output that it cannot be written. */
static bool output_broke(const struct shim_plan *plan, const struct stage_end *end)
{
    return plan->call == CALL_WRITE && strstr(end->err, "standard output") != NULL;
}

static void judge_end(const struct course *c, const struct shim_plan *plan,
                      const struct stage_end *end, const char *label)
{
    if (!course_left(c, end, label))
        return;
    if (end->code == 0 && !is_answer(end, c->out))
        course_tell(label, "it did something else", end);
    if (end->code != 0 && end->code != 3 && end->code != 4 && end->code != 7)
        course_tell(label, "not its exit code", end);
    /* a full disk is full for standard error, too */
    bool mute = plan->call == CALL_WRITE && plan->on;
    if (end->code != 0 && !mute &&
        (!strstr(end->err, "rigmem: ") || strstr(end->err, "rigmem: ")[8] == '\n'))
        course_tell(label, "no message", end);
    if (!output_broke(plan, end) && !mute && !is_one_document(end->out, end->code))
        course_tell(label, "not one document", end);
}

static void judge(const struct course *c, const struct shim_plan *plan, const struct stage_end *end,
                  const char *label, bool whole)
{
    judge_end(c, plan, end, label);
    /* a request that was cut short by a device or refused has its own outcome: what it took is
       held, and the next commands show that */
    int now = course_state(c);
    bool done = now == c->states - 1;
    if (end->code == 0 && !done)
        course_tell(label, "it is done, and the state is not new", end);
    if (!whole && now >= 0)
        return;
    struct stage_end again;
    stage_run(c->line, NULL, &again);
    /* what a free or a close began is taken for done */
    if (again.killed || (again.code != 0 && !done && again.code != 2))
        course_tell(label, "it does not work when asked again", &again);
    aftermath_check(&c->places, label);
}

static void try(const struct course *c, const struct shim_plan *plan, bool whole)
{
    struct stage_end end;
    char label[256];
    snprintf(label, sizeof label, "%s: %s %ld%s %s", c->line, shim_name(plan->call), plan->n,
             plan->on ? " and on" : "",
             plan->act == SHIM_SHORT ? "in part" : strerror(plan->error));
    stage_restore();
    stage_run(c->line, plan, &end);
    if (!end.fired && !end.killed)
        course_tell(label, "it did not come", &end);
    judge(c, plan, &end, label, whole);
}

/* ---- the points */

static void calls_that_fail(void **unused)
{
    (void)unused;
    int points = 0, turn = 0, step = stage_soak() > 1 ? 1 : 23;
    for (int i = 0; i < scene_count; i += stage_thin()) {
        struct course c;
        course_begin(&scenes[i], &c);
        for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++)
            for (long n = 1; n <= c.calls[ways[w].call]; n++) {
                if (turn++ % step != 0)
                    continue;
                struct shim_plan plan = {.act = ways[w].act,
                                         .call = ways[w].call,
                                         .n = n,
                                         .on = ways[w].on,
                                         .error = ways[w].error};
                try(&c, &plan, points++ % 3 == 0);
            }
        course_end(&c);
    }
    print_message("# %d calls failed\n", points);
    assert_int_equal(course_wrong(), 0);
    assert_true(points >= 200 / (stage_thin() * stage_thin()));
}

static void memory_that_runs_out(void **unused)
{
    (void)unused;
    int points = 0, turn = 0, step = stage_soak() > 1 ? 1 : 397;
    for (int i = 0; i < scene_count; i += stage_thin()) {
        struct course c;
        course_begin(&scenes[i], &c);
        for (long n = 1; n <= 2 * c.calls[CALL_MEMORY]; n++) {
            if (turn++ % step != 0)
                continue;
            struct shim_plan plan = {.act = SHIM_FAIL,
                                     .call = CALL_MEMORY,
                                     .n = (n + 1) / 2,
                                     .on = n % 2 == 0,
                                     .error = ENOMEM};
            try(&c, &plan, points++ % (stage_soak() > 1 ? 20 : 4) == 0);
        }
        course_end(&c);
    }
    print_message("# memory ran out at %d points\n", points);
    assert_int_equal(course_wrong(), 0);
    assert_true(points >= 200 / (stage_thin() * stage_thin()));
}

/* Each file of a session whose removal fails, one after the other: what close says of the session
   is so, and what is left goes with a later command. */
static void a_close_that_cannot_remove_a_file_says_whether_the_session_is_open(void **unused)
{
    (void)unused;
    int opens = 0, closeds = 0;
    stage_empty("s");
    stage_do("-q -m machine.json open gpu0 gpu1\n-q alloc gpu0 gpu 3M --name own\n");
    stage_save();
    for (long n = 1;; n++) {
        struct stage_end end;
        struct shim_plan plan = {.act = SHIM_FAIL, .call = CALL_UNLINK, .n = n, .error = EIO};
        stage_restore();
        stage_run("-q close", &plan, &end);
        if (!end.fired)
            break;
        bool open = strstr(end.err, "so the session is open: ") != NULL;
        bool closed = strstr(end.err, "; the session is closed") != NULL;
        assert_int_equal(stage_has("state"), open);
        assert_int_equal(end.code, open || closed ? 7 : 0);
        bool left = closed && stage_count() > 1; /* beside the lock */
        opens += open;
        closeds += closed;
        stage_run(open ? "close" : "recover", NULL, &end);
        assert_int_equal(end.code, open || left ? 0 : 2);
        assert_int_equal(strstr(end.out, "a command was killed") != NULL, left);
        assert_int_equal(stage_count(), 0);
    }
    assert_int_equal(opens, 1);
    /* the intent, what was being written, the memories' files, their directory */
    assert_true(closeds >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_that_fail),
        cmocka_unit_test(a_close_that_cannot_remove_a_file_says_whether_the_session_is_open),
        cmocka_unit_test(memory_that_runs_out),
    };
    stage_open();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    stage_close();
    return failed;
}
