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
    struct names names = {.ids = NULL};
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
    struct names names = {.ids = NULL};
    assert_true(names_add(&names, "ring", 3));
    assert_true(names_add(&names, "ring", 7));
    assert_int_equal(names_find(&names, "ring"), 7);
    assert_null(names_of(&names, 3));
    assert_string_equal(names_of(&names, 7), "ring");
    names_clear(&names);
}

static void an_id_that_is_named_again_has_the_later_name_alone(void **state)
{
    (void)state;
    struct names names = {.ids = NULL};
    assert_true(names_add(&names, "first", 3));
    assert_true(names_add(&names, "second", 3));
    assert_int_equal(names_find(&names, "first"), 0);
    assert_string_equal(names_of(&names, 3), "second");
    json_t *saved = names_json(&names);
    assert_int_equal(json_object_size(saved), 1);
    json_decref(saved);
    names_clear(&names);
}

static void a_text_longer_than_any_name_names_nothing(void **state)
{
    (void)state;
    struct names names = {.ids = NULL};
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
    struct names names = {.ids = NULL};
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

/* Many come and go, as in a long session: those that stay are found, told and saved, no others. */
static void names_that_come_and_go_leave_the_others_as_they_are(void **state)
{
    (void)state;
    struct names names = {.ids = NULL};
    char text[NAME_BYTES];
    for (int id = 1; id <= 3000; id++) {
        snprintf(text, sizeof text, "n%d", id);
        assert_true(names_add(&names, text, (uint64_t)id));
        if (id > 10)
            names_drop(&names, (uint64_t)(id % 7 == 0 ? 1 : id - 10));
    }
    json_t *saved = names_json(&names);
    size_t there = 0;
    for (int id = 1; id <= 3000; id++) {
        snprintf(text, sizeof text, "n%d", id);
        /* id was dropped ten later, unless that was a multiple of 7; 1 always. */
        bool kept = id > 1 && (id > 2990 || (id + 10) % 7 == 0);
        there += kept;
        assert_int_equal(names_find(&names, text), kept ? id : 0);
        assert_int_equal(names_of(&names, (uint64_t)id) != NULL, kept);
        assert_int_equal(json_integer_value(json_object_get(saved, text)), kept ? id : 0);
    }
    assert_int_equal(json_object_size(saved), there);
    uint64_t last = 0;
    names_each(&names, note, &last);
    assert_int_equal(last, 3000);
    json_decref(saved);
    names_clear(&names);
}

static void saved_names_come_back_in_whatever_order_they_stand(void **state)
{
    (void)state;
    struct names names = {.ids = NULL};
    json_t *saved = json_pack("{sisisi}", "n30", 30, "n10", 10, "n20", 20);
    assert_int_equal(names_load(&names, saved, 3), RIG_OK);
    json_decref(saved);
    assert_int_equal(names_find(&names, "n20"), 20);
    assert_string_equal(names_of(&names, 30), "n30");
    names_drop(&names, 20);
    assert_true(names_add(&names, "n20", 20));
    assert_true(names_add(&names, "n15", 15));
    uint64_t last = 0;
    names_each(&names, note, &last);
    assert_int_equal(last, 30);
    names_clear(&names);
}

static void what_are_no_names_is_bad_input(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "[]",
        "{\"a\": 0}",
        "{\"a\": -1}",
        "{\"a\": \"1\"}",
        "{\"a\": 1.0}",
        "{\"a\": []}",
        "{\"a\": 1, \"b\": 1}",
        "{\"a\": 1, \"b\": 2, \"c\": 3}",
        "{\"a234567890123456789012345678901234567890123456789012345678901234\": 1}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct names names = {.ids = NULL};
        json_t *saved = json_loads(bad[i], 0, NULL);
        assert_non_null(saved);
        if (names_load(&names, saved, 2) != RIG_BAD_INPUT)
            fail_msg("%s was taken", bad[i]);
        json_decref(saved);
        assert_int_equal(names_find(&names, "a"), 0);
        assert_null(names_of(&names, 1));
        names_clear(&names);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_found_by_text_and_by_id_until_it_is_dropped),
        cmocka_unit_test(a_text_that_is_given_again_names_the_later_id_alone),
        cmocka_unit_test(an_id_that_is_named_again_has_the_later_name_alone),
        cmocka_unit_test(a_text_longer_than_any_name_names_nothing),
        cmocka_unit_test(all_names_are_told_in_the_order_of_their_ids),
        cmocka_unit_test(names_that_come_and_go_leave_the_others_as_they_are),
        cmocka_unit_test(saved_names_come_back_in_whatever_order_they_stand),
        cmocka_unit_test(what_are_no_names_is_bad_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
