/* Names of regions: one text an id, one id a text, found by either. */
#include "session/names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void a_name_is_found_by_text_and_by_id_until_it_is_dropped(void **state)
{
    (void)state;
    struct names names = {NULL, NULL};
    assert_int_equal(names_find(&names, "a"), 0);
    assert_null(names_of(&names, 1));
    assert_true(names_add(&names, "a", 1));
    assert_true(names_add(&names, "b", 2));
    assert_int_equal(names_find(&names, "a"), 1);
    assert_string_equal(names_of(&names, 2), "b");
    names_drop(&names, 1);
    names_drop(&names, 1);
    assert_int_equal(names_find(&names, "a"), 0);
    assert_int_equal(names_find(&names, "b"), 2);
    names_clear(&names);
    assert_int_equal(names_find(&names, "b"), 0);
}

static void a_text_that_is_given_again_names_the_later_id_alone(void **state)
{
    (void)state;
    struct names names = {NULL, NULL};
    assert_true(names_add(&names, "ring", 3));
    assert_true(names_add(&names, "ring", 7));
    assert_int_equal(names_find(&names, "ring"), 7);
    assert_null(names_of(&names, 3));
    assert_string_equal(names_of(&names, 7), "ring");
    names_clear(&names);
}

static void a_text_longer_than_any_name_names_nothing(void **state)
{
    (void)state;
    struct names names = {NULL, NULL};
    char longest[NAME_BYTES], longer[NAME_BYTES + 1];
    memset(longest, 'x', sizeof longest);
    longest[NAME_BYTES - 1] = '\0';
    memset(longer, 'x', sizeof longer);
    longer[NAME_BYTES] = '\0';
    assert_true(names_add(&names, longest, 1));
    assert_int_equal(names_find(&names, longest), 1);
    assert_int_equal(names_find(&names, longer), 0);
    names_clear(&names);
}

static void note(const struct name *name, void *context)
{
    uint64_t *last = context;
    char text[NAME_BYTES];
    assert_true(name->id > *last);
    snprintf(text, sizeof text, "n%d", (int)name->id);
    assert_string_equal(name->text, text);
    *last = name->id;
}

static void all_names_are_told_in_the_order_of_their_ids(void **state)
{
    (void)state;
    struct names names = {NULL, NULL};
    char text[NAME_BYTES];
    for (int i = 0; i < 1000; i++) {
        int id = i * 389 % 1000 + 1; /* each once, out of order */
        snprintf(text, sizeof text, "n%d", id);
        assert_true(names_add(&names, text, (uint64_t)id));
    }
    uint64_t last = 0;
    names_each(&names, note, &last);
    assert_int_equal(last, 1000);
    names_clear(&names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_found_by_text_and_by_id_until_it_is_dropped),
        cmocka_unit_test(a_text_that_is_given_again_names_the_later_id_alone),
        cmocka_unit_test(a_text_longer_than_any_name_names_nothing),
        cmocka_unit_test(all_names_are_told_in_the_order_of_their_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
