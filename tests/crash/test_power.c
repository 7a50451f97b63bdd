/* The power goes: of what a command wrote, what it had synchronised is there, and of the rest any
   part. The state file is as before or as after, as after once the command said so, and the next
   boot's commands find every device where the state says. Also: how often commands synchronise. */
#include "scenes.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define BOOT_BEFORE "11111111-1111-4111-8111-111111111111\n"
#define BOOT_AFTER "22222222-2222-4222-8222-222222222222\n"

/* ---- how often */

static bool ends_with(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

static void count_syncs(const struct scene *scene, int *out_files, int *out_directories)
{
    struct course c;
    struct stage_end end;
    struct shim_plan plan = {.record = true};
    course_begin(scene, &c);
    stage_restore();
    stage_run(c.line, &plan, &end);
    *out_files = *out_directories = 0;
    for (int i = 0; i < stage_shim->ops; i++) {
        const struct shim_op *op = &stage_shim->op[i];
        if (op->kind != OP_SYNC)
            continue;
        *out_files += ends_with(op->path, "/s/state.tmp");
        *out_directories += ends_with(op->path, "/s");
    }
    if (*out_files + *out_directories != stage_shim->seen[CALL_FSYNC])
        fail_msg("%s: it synchronises something else", c.line);
    course_end(&c);
}

static void each_transaction_synchronises_the_file_and_its_directory_once(void **unused)
{
    (void)unused;
    for (int i = 0; i < scene_count; i += stage_thin()) {
        int files, directories, times = scenes[i].steps ? 3 : 1;
        bool ends = strncmp(scenes[i].line, "close", 5) == 0 && !strstr(scenes[i].line, "gpu");
        count_syncs(&scenes[i], &files, &directories);
        if (files != (ends ? 0 : times) || directories != times)
            fail_msg("%s: %d times the file, %d times its directory", scenes[i].line, files,
                     directories);
    }
}

static void a_command_that_looks_synchronises_and_writes_nothing(void **unused)
{
    (void)unused;
    for (int i = 0; i < look_count; i += stage_thin()) {
        struct course c;
        course_begin(&looks[i], &c);
        if (c.calls[CALL_FSYNC] != 0)
            fail_msg("%s: it synchronises", c.line);
        assert_int_equal(c.calls[CALL_RENAME], 0);
        assert_string_equal(c.state[0], c.state[c.states - 1]);
        assert_int_equal(stage_has("state.tmp") || stage_has("state.intent"), 0);
        course_end(&c);
    }
}

/* ---- the power */

static uint64_t seed;

static unsigned random_below(unsigned n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)((seed >> 33) % n);
}

/* The file's or directory's path below the stage: "s/state"; NULL: it is not the session's. */
static const char *below(const char *path)
{
    const char *at = strstr(path, "/s/");
    if (at)
        return at + 1;
    return ends_with(path, "/s") ? "s" : NULL;
}

static bool same_directory(const char *path, const char *directory)
{
    const char *slash = strrchr(path, '/');
    return slash && (size_t)(slash - path) == strlen(directory) &&
           strncmp(path, directory, strlen(directory)) == 0;
}

/* Whether op `i` of the first `count` is certain to be on the disk: its file, or for names its
   directory, was synchronised after it. */
static bool is_certain(int i, int count)
{
    const struct shim_op *op = &stage_shim->op[i];
    bool data = op->kind == OP_WRITE || op->kind == OP_TRUNCATE || op->kind == OP_PUNCH;
    for (int k = i + 1; k < count; k++) {
        const struct shim_op *later = &stage_shim->op[k];
        if (later->kind == OP_SYNC &&
            (data ? strcmp(later->path, op->path) == 0 : same_directory(op->path, later->path)))
            return true;
    }
    return false;
}

static void write_at(const char *path, const uint8_t *data, size_t bytes, uint64_t at)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    if (fd < 0)
        return; /* its directory did not come */
    if (data)
        assert_int_equal(pwrite(fd, data, bytes, (off_t)at), bytes);
    else
        assert_int_equal(ftruncate(fd, (off_t)at), 0);
    close(fd);
}

/* Of a write that may be there or not: all, none, or the sectors of 512 bytes that came. */
static void write_part(const char *path, const struct shim_op *op, bool certain)
{
    const uint8_t *data = stage_shim->data + op->data;
    unsigned how = certain ? 0 : random_below(4);
    if (how == 1)
        return;
    for (uint64_t done = 0; done < op->count; done += 512) {
        size_t n = op->count - done < 512 ? (size_t)(op->count - done) : 512;
        if (how != 2 || random_below(2) == 0)
            write_at(path, data + done, n, op->at + done);
    }
}

/* Names come in their order, as far as they come: `names` of those that are not certain. */
static void replay(int count, int names)
{
    for (int i = 0; i < count; i++) {
        const struct shim_op *op = &stage_shim->op[i];
        const char *path = below(op->path), *to = below(op->to);
        bool certain = is_certain(i, count);
        bool is_name = op->kind != OP_WRITE && op->kind != OP_TRUNCATE && op->kind != OP_PUNCH &&
                       op->kind != OP_SYNC;
        if (!path || op->kind == OP_SYNC)
            continue;
        if (is_name && !certain && names-- <= 0)
            continue;
        switch (op->kind) {
        case OP_WRITE:
            write_part(path, op, certain);
            break;
        case OP_CREATE:
        case OP_TRUNCATE:
            write_at(path, NULL, 0, op->at);
            break;
        case OP_RENAME:
            rename(path, to);
            break;
        case OP_UNLINK:
            if (unlink(path) != 0)
                rmdir(path);
            break;
        case OP_MKDIR:
            mkdir(path, 0700);
            break;
        default: /* a hole: zeros, or what was there */
            break;
        }
    }
}

static int uncertain_names(int count)
{
    int names = 0;
    for (int i = 0; i < count; i++) {
        enum shim_kind kind = stage_shim->op[i].kind;
        names +=
            (kind == OP_CREATE || kind == OP_RENAME || kind == OP_UNLINK || kind == OP_MKDIR) &&
            !is_certain(i, count);
    }
    return names;
}

/* The state as a text without what the next boot changes in it is the same. */
static void judge(const struct course *c, bool told, const char *label)
{
    int now = course_state(c);
    if (now < 0)
        fail_msg("%s: the state file is neither old nor new", label);
    if (told && now != c->states - 1)
        fail_msg("%s: what was told is lost", label);
    shim_boot(BOOT_AFTER);
    aftermath_check(&c->places, label);
    shim_boot(BOOT_BEFORE);
}

static int cut_power(const struct scene *scene, int tries)
{
    struct course c;
    struct stage_end end;
    struct shim_plan plan = {.record = true};
    int points = 0;
    course_begin(scene, &c);
    stage_restore();
    stage_run(c.line, &plan, &end);
    int total = stage_shim->ops;
    for (int k = 0; k < tries; k++) {
        char label[256];
        int count = k == 0 ? total : (int)random_below((unsigned)total + 1);
        int names = (int)random_below((unsigned)uncertain_names(count) + 1);
        snprintf(label, sizeof label, "%s: power cut after %d of %d writes, %d names (seed %llx)",
                 c.line, count, total, names, (unsigned long long)seed);
        stage_restore();
        replay(count, names);
        judge(&c, count == total, label);
        points++;
    }
    course_end(&c);
    return points;
}

static void power_that_goes_loses_nothing_that_was_told(void **unused)
{
    (void)unused;
    int points = 0, tries = stage_soak() > 1 ? 5 * stage_soak() : 7;
    const char *given = getenv("RIGMEM_SEED");
    seed = given ? strtoull(given, NULL, 16) : 0x5eed5eed5eedULL;
    shim_boot(BOOT_BEFORE);
    for (int i = 0; i < scene_count; i += stage_thin())
        points += cut_power(&scenes[i], tries);
    shim_boot(NULL);
    print_message("# the power went %d times\n", points);
    assert_true(points >= 200 / (stage_thin() * stage_thin()));
}

/* ---- another boot */

static void another_boot_writes_the_tables_again(void **unused)
{
    (void)unused;
    struct stage_end end;
    shim_boot(BOOT_BEFORE);
    stage_empty("s");
    stage_do("-q -m machine.json open gpu0 gpu1 --master\n"
             "-q alloc gpu0 gpu 3M --name own\n"
             "-q map-peer gpu1 own\n"
             "-q alloc gpu0 host 8K --name host\n"
             "-q alloc gpu0 gpu 64K --name gone\n"
             "-q fault gpu0:flush=never\n"
             "-q free gone\n"
             "-q poke own --fill 0x5a --length 4096\n");
    /* all of both GPUs' memories, the machine's, and their directory are lost */
    stage_empty("s/state.d");
    assert_int_equal(rmdir("s/state.d"), 0);
    stage_run("-j show", NULL, &end);
    assert_int_equal(end.code, 0);
    assert_non_null(strstr(end.out, "memory is missing"));
    shim_boot(BOOT_AFTER);
    stage_run("-j show", NULL, &end);
    assert_int_equal(end.code, 0);
    assert_non_null(strstr(end.out, "the machine was started since"));
    /* each byte is reached again, and holds what new memory holds */
    stage_run("-q poke own --data 0badcafe --by gpu1", NULL, &end);
    assert_int_equal(end.code, 0);
    stage_run("peek own 0 4 --by gpu0", NULL, &end);
    assert_non_null(strstr(end.out, "0b ad ca fe"));
    assert_null(strstr(end.err, "the machine was started since"));
    stage_run("peek own 3145724 4 --by gpu1", NULL, &end);
    assert_non_null(strstr(end.out, "00 00 00 00"));
    stage_run("-q poke host --data 77 --by gpu0", NULL, &end);
    assert_int_equal(end.code, 0);
    /* what was kept stays kept */
    stage_run("-j show", NULL, &end);
    assert_non_null(strstr(end.out, "\"state\":\"kept\""));
    stage_do("-q close");
    assert_int_equal(stage_count(), 0);
    shim_boot(NULL);
}

/* Where nothing tells the boot, that the machine was started since is not said. */
static void a_boot_that_is_not_told_is_not_called_another(void **unused)
{
    (void)unused;
    static const struct {
        const char *before, *now, *wanted;
    } cases[] = {
        {BOOT_BEFORE, BOOT_BEFORE, NULL},
        {BOOT_BEFORE, BOOT_AFTER, "warning: the machine was started since"},
        {BOOT_BEFORE, "", "warning: nothing tells whether the machine was started since"},
        {"", BOOT_AFTER, "warning: nothing tells whether the machine was started since"},
        {"", "", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct stage_end end;
        shim_boot(cases[i].before);
        stage_empty("s");
        stage_do("-q -m machine.json open gpu0 --master\n"
                 "-q alloc gpu0 gpu 64K --name own\n"
                 "-q poke own --data 0badcafe\n");
        shim_boot(cases[i].now);
        stage_run("peek own 0 4 --by gpu0", NULL, &end);
        assert_int_equal(end.code, 0);
        assert_non_null(strstr(end.out, "0b ad ca fe"));
        assert_true(cases[i].wanted ? strstr(end.err, cases[i].wanted) != NULL : !end.err[0]);
        /* told once */
        stage_do("-q alloc gpu0 gpu 4K");
        stage_run("peek own 0 4 --by gpu0", NULL, &end);
        assert_non_null(strstr(end.out, "0b ad ca fe"));
        assert_string_equal(end.err, "");
        stage_do("-q close");
    }
    shim_boot(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_transaction_synchronises_the_file_and_its_directory_once),
        cmocka_unit_test(a_command_that_looks_synchronises_and_writes_nothing),
        cmocka_unit_test(power_that_goes_loses_nothing_that_was_told),
        cmocka_unit_test(another_boot_writes_the_tables_again),
        cmocka_unit_test(a_boot_that_is_not_told_is_not_called_another),
    };
    stage_open();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    stage_close();
    return failed;
}
