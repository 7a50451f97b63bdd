/* The shell reading standard input while the system breaks, a call or a block of memory at a time:
   each line that is run has one document of its own, what fails ends in a message and its exit
   code, nothing stays open or is lost, and a state file is the old one or the new. */
#include "scenes.h"

#include "rigmem.h"

#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Lines in a session in the shell, and in one on file; each of the latter is one transaction or
   none. */
#define IN_SHELL                                                                                   \
    "open gpu0 gpu1\n"                                                                             \
    "alloc gpu0 gpu 64K --name a\n"                                                                \
    "map-peer gpu1 a\n"                                                                            \
    "bus a 0000:06:00.0\n"                                                                         \
    "free a\n"                                                                                     \
    "show"
#define ON_FILE                                                                                    \
    "version\n"                                                                                    \
    "alloc gpu0 gpu 64K --name a\n"                                                                \
    "show\n"

/* How many documents there are, one a line, -1 where something else stands there; *out_failed: how
   many are of errors; *out_code: the last one's exit code as far as it tells. */
static int documents(const char *text, int *out_failed, int *out_code)
{
    int count = 0;
    *out_failed = *out_code = 0;
    for (const char *end; *text; text = end + 1, count++) {
        end = strchr(text, '\n');
        json_t *one = end ? json_loadb(text, (size_t)(end - text), 0, NULL) : NULL;
        const json_t *ok = json_object_get(one, "ok"), *error = json_object_get(one, "error");
        bool good = json_is_boolean(ok) && json_is_true(ok) == !error;
        *out_failed += json_is_false(ok);
        *out_code = (int)json_integer_value(json_object_get(error, "code"));
        json_decref(one);
        if (!good)
            return -1;
    }
    return count;
}

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)); text += strlen(part))
        count++;
    return count;
}

static void judge(const struct course *c, const struct shim_plan *plan, const struct stage_end *end,
                  const char *label)
{
    int failed, last, whole, whole_code;
    int lines = documents(c->out, &whole, &whole_code), now = documents(end->out, &failed, &last);
    if (!course_left(c, end, label))
        return;
    /* nothing can tell on standard output that it cannot be written */
    bool output = strstr(end->err, "standard output") != NULL;
    bool mute = plan->call == CALL_WRITE && plan->on;
    if (now < 0 && !output && !mute)
        course_tell(label, "not a document a line", end);
    bool input = strstr(end->err, "rigmem: -: ") != NULL;
    /* the program's own command line lacked memory */
    input |= now == 1 && last == RIG_FAILED && strcmp(end->err, "rigmem: out of memory\n") == 0;
    if (now >= 0 && now != lines && !output && !mute && !input)
        course_tell(label, "a line has no answer", end);
    if (now >= 0 && !output && !mute && last != end->code)
        course_tell(label, "not its exit code", end);
    if (now >= 0 && !mute && count_of(end->err, "rigmem: ") < failed)
        course_tell(label, "no message", end);
    if (failed == 0 && !output && !mute && !strstr(end->err, "warning: ") &&
        strcmp(end->out, c->out) != 0)
        course_tell(label, "it did something else", end);
}

static void sweep(const char *line, const char *before, const char *lines, bool on_file)
{
    static const struct way {
        enum shim_call call;
        enum shim_act act;
        int error;
        bool on;
    } ways[] = {
        {CALL_READ, SHIM_FAIL, EIO, false},     {CALL_READ, SHIM_FAIL, EINTR, false},
        {CALL_READ, SHIM_SHORT, 0, true},       {CALL_WRITE, SHIM_FAIL, EIO, false},
        {CALL_WRITE, SHIM_FAIL, EINTR, false},  {CALL_WRITE, SHIM_SHORT, 0, true},
        {CALL_OPEN, SHIM_FAIL, EMFILE, false},  {CALL_MMAP, SHIM_FAIL, ENOMEM, false},
        {CALL_STAT, SHIM_FAIL, EIO, false},     {CALL_MEMORY, SHIM_FAIL, ENOMEM, false},
        {CALL_MEMORY, SHIM_FAIL, ENOMEM, true},
    };
    const struct scene scene = {before, line, NULL};
    int points = 0, turn = 0, step = stage_soak() > 1 ? 1 : stage_thin() > 1 ? 331 : 61;
    struct course c;
    stage_input(lines);
    course_begin(&scene, &c);
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++)
        for (long n = 1; n <= c.calls[ways[w].call]; n++) {
            struct stage_end end;
            char label[256];
            if (turn++ % (ways[w].call == CALL_MEMORY ? step : stage_thin()) != 0)
                continue;
            const struct shim_plan plan = {.act = ways[w].act,
                                           .call = ways[w].call,
                                           .n = n,
                                           .on = ways[w].on,
                                           .error = ways[w].error};
            snprintf(label, sizeof label, "%s: %s %ld%s", line, shim_name(plan.call), n,
                     plan.on ? " and on" : "");
            stage_restore();
            stage_run(c.line, &plan, &end);
            judge(&c, &plan, &end, label);
            /* what a line that failed on the way had taken is held */
            bool other = on_file && course_state(&c) < 0;
            if (other && !strstr(end.out, "\"code\":7"))
                course_tell(label, "the state is neither old nor new", &end);
            if (on_file && (other || points % 8 == 0))
                aftermath_check(&c.places, label);
            points++;
        }
    course_end(&c);
    stage_input("");
    print_message("# %s: %d points\n", line, points);
    assert_int_equal(course_wrong(), 0);
    assert_true(points >= 40 / stage_thin());
}

static int no_state(void **unused)
{
    (void)unused;
    return unsetenv("RIGMEM_STATE");
}

static int state_again(void **unused)
{
    (void)unused;
    return setenv("RIGMEM_STATE", STAGE_STATE, 1);
}

static void a_session_in_the_shell(void **unused)
{
    (void)unused;
    sweep("-m machine.json shell", "", IN_SHELL, false);
    assert_int_equal(stage_count(), 0);
}

static void a_session_on_file(void **unused)
{
    (void)unused;
    sweep("shell", "-q -m machine.json open gpu0 gpu1 --master\n", ON_FILE, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_session_in_the_shell, no_state, state_again),
        cmocka_unit_test(a_session_on_file),
    };
    stage_open();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    stage_close();
    return failed;
}
