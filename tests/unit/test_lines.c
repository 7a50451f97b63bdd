/* Lines of a state document: what is read of hostile ones, and what is written. */
#include "base/lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct line_cursor over(const char *text)
{
    return (struct line_cursor){.at = text};
}

static void a_number_is_1_to_16_lower_case_hexadecimal_digits(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
        const char *rest;
    } good[] = {
        {"0", 0, ""},
        {"9a", 0x9a, ""},
        {"f ", 15, " "},
        {"ffffffffffffffff", UINT64_MAX, ""},
        {"0123456789abcdef0", 0x0123456789abcdef, "0"},
        {"aG", 10, "G"},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(good); i++) {
        struct line_cursor c = over(good[i].text);
        assert_true(line_hex(&c) == good[i].value);
        assert_false(c.failed);
        assert_string_equal(c.at, good[i].rest);
    }
    static const char *const bad[] = {"", " ", "-", "A", "x1", "g", "\xff", ",1"};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(bad); i++) {
        struct line_cursor c = over(bad[i]);
        line_hex(&c);
        assert_true(c.failed);
    }
}

static void a_field_is_a_blank_and_a_number_or_a_dash(void **state)
{
    (void)state;
    struct line_cursor c = over(" 1f - 2");
    bool there = false;
    assert_int_equal(line_field(&c, &there), 0x1f);
    assert_true(there);
    assert_int_equal(line_field(&c, &there), 0);
    assert_false(there);
    assert_int_equal(line_number(&c), 2);
    assert_false(c.failed);
    assert_string_equal(c.at, "");
    c = over(" -");
    line_number(&c);
    assert_true(c.failed);
    c = over("1");
    line_field(&c, &there);
    assert_true(c.failed);
}

static void a_list_has_one_item_more_than_commas_up_to_its_end(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t count;
    } lists[] = {{"1", 1}, {"1,2", 2}, {"1+2,3+4,5+6 7,8", 3}, {"1,2;3,4", 2}, {",", 2}, {"", 1}};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(lists); i++) {
        struct line_cursor c = over(lists[i].text);
        assert_int_equal(line_items(&c), lists[i].count);
        assert_ptr_equal(c.at, lists[i].text);
    }
}

static void a_cursor_that_failed_takes_nothing_any_more(void **state)
{
    (void)state;
    struct line_cursor c = over("ab");
    assert_true(line_take(&c, 'a'));
    assert_false(line_take(&c, 'a'));
    assert_false(c.failed);
    line_need(&c, true);
    assert_string_equal(c.at, "b");
    line_expect(&c, 'x');
    assert_true(c.failed);
    assert_false(line_take(&c, 'b'));
    assert_string_equal(c.at, "");
    line_need(&c, true);
    assert_true(c.failed);
}

static void what_is_written_is_read_again(void **state)
{
    (void)state;
    static const uint64_t values[] = {0,          1,          15,         16,        0x123,
                                      UINT32_MAX, 1ull << 32, 1ull << 63, UINT64_MAX};
    struct line_text t = {.at = NULL};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(values); i++) {
        assert_true(line_room(&t, 2 * (LINE_HEX_MOST + 1)));
        line_put_field(&t, true, values[i]);
        line_put_field(&t, i % 2 == 0, values[i]);
    }
    assert_true(line_room(&t, 2));
    line_put_if(&t, false, 'x');
    line_put_if(&t, true, ';');
    line_put(&t, '\0');
    assert_memory_equal(t.at,
                        " 0 0 1 - f f 10 - 123 123 ffffffff - 100000000 100000000 "
                        "8000000000000000 - ffffffffffffffff ffffffffffffffff;",
                        t.used);
    struct line_cursor c = over(t.at);
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(values); i++) {
        bool there;
        assert_true(line_number(&c) == values[i]);
        assert_true(line_field(&c, &there) == (i % 2 == 0 ? values[i] : 0));
        assert_int_equal(there, i % 2 == 0);
    }
    assert_string_equal(c.at, ";");
    free(t.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_is_1_to_16_lower_case_hexadecimal_digits),
        cmocka_unit_test(a_field_is_a_blank_and_a_number_or_a_dash),
        cmocka_unit_test(a_list_has_one_item_more_than_commas_up_to_its_end),
        cmocka_unit_test(a_cursor_that_failed_takes_nothing_any_more),
        cmocka_unit_test(what_is_written_is_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
