/* tests/specification.md names tests that exist and run, and no sentence is without one. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* How many sentences the specification has. */
#define SENTENCES 108

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return NULL;
    size_t room = 1u << 20;
    char *text = calloc(1, room);
    assert_non_null(text);
    size_t used = fread(text, 1, room - 1, f);
    fclose(f);
    assert_true(used < room - 1);
    return text;
}

/* True iff `name` stands in text as a whole word from `at` on; *out_end: after it. */
static const char *find_word(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = strstr(text, name); at; at = strstr(at + 1, name)) {
        bool begins = at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
        if (begins && !(isalnum((unsigned char)at[length]) || at[length] == '_'))
            return at;
    }
    return NULL;
}

/* A test runs if it is a function of its file and stands in the list that main hands to cmocka. */
static bool runs(const char *file, const char *test)
{
    char path[256], definition[256];
    snprintf(path, sizeof path, "tests/unit/%s.c", file);
    snprintf(definition, sizeof definition, "static void %s(void **state)", test);
    char *text = read_file(path);
    bool found = false;
    if (text) {
        char *list = strstr(text, "\nint main(");
        found = list && strstr(text, definition) && find_word(list, test) &&
                strstr(list, "cmocka_run_group_tests");
    }
    free(text);
    return found;
}

static void every_sentence_has_a_test_that_exists_and_runs(void **state)
{
    (void)state;
    char *text = read_file("tests/specification.md"), *save = NULL;
    assert_non_null(text);
    long sentence = 0;
    int tests = 1;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char file[128], test[192], *end;
        long number = strtol(line, &end, 10);
        if (end != line && *end == '.') {
            if (number != sentence + 1 || tests == 0)
                fail_msg("sentence %ld follows %ld, which has %d tests", number, sentence, tests);
            sentence = number;
            tests = 0;
        } else if (sscanf(line, " - `%127[a-z_]: %191[a-z0-9_]`", file, test) == 2) {
            if (!runs(file, test))
                fail_msg("sentence %ld: no test %s of %s runs", sentence, test, file);
            tests++;
        } else if (line[0] == ' ') {
            fail_msg("not understood: %s", line);
        }
    }
    assert_true(tests > 0);
    assert_int_equal(sentence, SENTENCES);
    free(text);
}

static void a_test_that_does_not_exist_is_noticed(void **state)
{
    (void)state;
    assert_true(runs("test_specification", "a_test_that_does_not_exist_is_noticed"));
    assert_false(runs("test_specification", "a_test_that_does_not_exist"));
    assert_false(runs("test_specification", "read_file"));
    assert_false(runs("test_nothing", "a_test_that_does_not_exist_is_noticed"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sentence_has_a_test_that_exists_and_runs),
        cmocka_unit_test(a_test_that_does_not_exist_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
