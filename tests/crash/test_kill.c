/* Commands that are killed: the state file is as before or as after, the next command works, and
   nothing is lost, doubled, or given out while a device may reach it. */
#include "scenes.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CALLS_MAX 4000

/* In short: before each call that changes something, and some others. */
static bool is_tried(enum shim_call call, int *io_turn)
{
    static const enum shim_call change[] = {CALL_WRITE, CALL_FSYNC, CALL_FTRUNCATE, CALL_FALLOCATE,
                                            CALL_FLOCK, CALL_MKDIR, CALL_UNLINK,    CALL_RENAME};
    if (stage_soak() > 1)
        return true;
    for (size_t i = 0; i < sizeof change / sizeof change[0]; i++)
        if (change[i] == call)
            return (*io_turn)++ % stage_thin() == 0;
    return (*io_turn)++ % 31 == 0;
}

static void judge(const struct course *c, const char *label)
{
    if (course_state(c) < 0)
        fail_msg("%s: the state file is neither old nor new", label);
    aftermath_check(&c->places, label);
}

/* By call and count: before each, and, of writes, in the middle. */
static int kill_at_calls(const struct course *c, int *io_turn)
{
    int points = 0;
    for (int call = 0; call < CALL_MEMORY; call++) {
        long variants = call == CALL_WRITE ? 2 * c->calls[call] : c->calls[call];
        for (long v = 0; v < variants; v++) {
            if (!is_tried((enum shim_call)call, io_turn))
                continue;
            struct stage_end end;
            struct shim_plan plan = {.act = v < c->calls[call] ? SHIM_KILL : SHIM_TEAR,
                                     .call = (enum shim_call)call,
                                     .n = v % c->calls[call] + 1};
            char label[256];
            snprintf(label, sizeof label, "%s: killed at %s %ld%s", c->line, shim_name(plan.call),
                     plan.n, plan.act == SHIM_TEAR ? ", half done" : "");
            stage_restore();
            stage_run(c->line, &plan, &end);
            if (!end.killed || end.signal != SIGKILL)
                fail_msg("%s: it was not: %d, %s", label, end.code, end.err);
            judge(c, label);
            points++;
        }
    }
    return points;
}

static void a_command_killed_at_a_call_leaves_the_old_state_or_the_new(void **unused)
{
    (void)unused;
    int points = 0, turn = 0;
    for (int i = 0; i < scene_count; i += stage_thin()) {
        struct course c;
        course_begin(&scenes[i], &c);
        points += kill_at_calls(&c, &turn);
        course_end(&c);
    }
    print_message("# killed at %d points\n", points);
    assert_true(points >= 500 / (stage_thin() * stage_thin()));
}

/* The same at every system call, by the kernel's count, on GPUs of several vendors: in a long run.
 */
static void a_command_killed_at_any_system_call_leaves_the_old_state_or_the_new(void **unused)
{
    (void)unused;
    static const char *const ids[] = {"10de:20b5", "1002:73bf", "8086:56c0", "1234:5678"};
    bool soak = stage_soak() > 1;
    int points = 0;
    for (size_t k = 0; k < (soak ? sizeof ids / sizeof ids[0] : 1); k++) {
        stage_machines(ids[k]);
        for (int i = 3; i < scene_count; i += soak ? 1 : 16 * stage_thin()) {
            struct course c;
            course_begin(&scenes[i], &c);
            for (int n = 1; n < CALLS_MAX; n += soak ? 1 : 9 * stage_thin()) {
                char label[256];
                long call;
                stage_restore();
                if (!stage_kill(c.line, n, &call))
                    break;
                snprintf(label, sizeof label, "%s: %s: killed at system call %d, number %ld",
                         ids[k], c.line, n, call);
                judge(&c, label);
                points++;
            }
            course_end(&c);
        }
    }
    stage_machines(ids[0]);
    print_message("# killed at %d system calls\n", points);
    assert_true(points >= (soak ? 8000 : 2));
}

#define SECOND "alloc gpu1 gpu 8K"

/* Where the second command's memory would be, after the old state and after the new. */
static void add_second(struct course *c)
{
    struct stage_end end;
    stage_run(SECOND, NULL, &end);
    places_add(&c->places);
    stage_restore();
    stage_run(SECOND, NULL, &end);
    places_add(&c->places);
}

static int kill_twice(const struct course *c, const struct shim_plan *plan, int *io_turn)
{
    int points = 0;
    for (long m = 1; m < 8; m++) {
        struct shim_plan again = {.act = SHIM_KILL, .call = CALL_WRITE, .n = m};
        struct stage_end end;
        char label[256];
        if (stage_soak() == 1 && (*io_turn)++ % 19 != 0)
            continue;
        snprintf(label, sizeof label, "%s: killed at write %ld%s, then %s at %ld", c->line, plan->n,
                 plan->act == SHIM_TEAR ? ", half done" : "", SECOND, m);
        stage_restore();
        stage_run(c->line, plan, &end);
        stage_run(SECOND, &again, &end);
        aftermath_check(&c->places, label);
        points++;
    }
    return points;
}

/* What a command was killed in is taken up by the next one, which is killed in its turn. */
static void a_second_kill_loses_nothing_of_the_first(void **unused)
{
    (void)unused;
    int points = 0, turn = 0;
    for (int i = 0; i < scene_count; i += stage_thin()) {
        struct course c;
        course_begin(&scenes[i], &c);
        add_second(&c);
        for (long n = 1; n < c.calls[CALL_WRITE]; n++) {
            struct shim_plan plan = {.act = SHIM_KILL, .call = CALL_WRITE, .n = n};
            points += kill_twice(&c, &plan, &turn);
            plan.act = SHIM_TEAR;
            points += kill_twice(&c, &plan, &turn);
        }
        course_end(&c);
    }
    print_message("# killed twice at %d points\n", points);
    assert_true(points >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_killed_at_a_call_leaves_the_old_state_or_the_new),
        cmocka_unit_test(a_command_killed_at_any_system_call_leaves_the_old_state_or_the_new),
        cmocka_unit_test(a_second_kill_loses_nothing_of_the_first),
    };
    stage_open();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    stage_close();
    return failed;
}
