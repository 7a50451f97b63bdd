/* Documents as text are read and written as jansson reads and writes them. */
#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "failing.h"

/* What jansson reads, json_whole reads; what it refuses is refused at the same place. */
static void check_as_jansson(const char *text)
{
    json_error_t theirs, ours;
    json_t *expected = json_loadb(text, strlen(text), JSON_REJECT_DUPLICATES, &theirs);
    json_t *got = json_whole(text, strlen(text), &ours);
    if (!expected) {
        assert_null(got);
        assert_int_equal(ours.line, theirs.line);
        assert_int_equal(ours.column, theirs.column);
        assert_string_equal(ours.text, theirs.text);
        return;
    }
    assert_non_null(got);
    assert_true(json_equal(expected, got));
    json_decref(expected);
    json_decref(got);
}

/* Texts that are ordinary in all: escapes, words, integers, depth. */
static const char *const ordinary[] = {
    "{\"a\":{\"b\":[1,\"c\",-17,true,false,null,0]},\"bulk\":[[\"x y\"],[\"z\"]],\"\":[\"w\"]}",
    "[\"a text of more than the sixteen bytes that a token has at first\", \"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]",
    "{\"a key \\u00e9 of many bytes, too\":\"\\u0041\\u07ff\\u20AC\\uffff \xc3\xa9\xf0\x9f\x98\x80 \x7f\"}",
    " [ 999999999999999999 , -999999999999999999, [ ], { } , [[[[[[[[[[\"deep\"]]]]]]]]]] ] \n",
};

static void what_is_ordinary_and_what_is_not_is_read_as_jansson_reads_it(void **state)
{
    (void)state;
    static const char *const others[] = {
        "[1.5]",
        "[1e3]",
        "[-0]",
        "[01]",
        "[-]",
        "[-01]",
        "[+1]",
        "[.5]",
        "[1.]",
        "[0x10]",
        "[9223372036854775807]",
        "[-9223372036854775808]",
        "[9223372036854775808]",
        "[1000000000000000000]",
        "[1 ",
        "[tru]",
        "[truex]",
        "[True]",
        "[nul",
        "[\"\\u0000\"]",
        "[\"\\ud83d\\ude00\"]",
        "[\"\\ud83d\"]",
        "[\"\\ude00\"]",
        "[\"\\u12\"]",
        "[\"\\u12g4\"]",
        "[\"\\x\"]",
        "[\"\\",
        "[\"\\\"",
        "[\"\t\"]",
        "[\"\xc0\x80\"]",
        "[\"\xed\xa0\x80\"]",
        "[\"\xf4\x90\x80\x80\"]",
        "[\"\xc3\"]",
        "{\"a\" 1}",
        "{\"a\":}",
        "{1:2}",
        "{,}",
        "[,]",
        "[1,]",
        "{\"a\":1,}",
        "{\"\\u0061\":1,\"a\":2}",
        "\"x\"",
        "1",
        "true",
        "[1]]",
        "[1] [2]",
        "{}{}",
        " ",
        "]",
        "\xef\xbb\xbf[]",
        "[\v1]",
        "[1/*x*/]",
        /* lists of strings, as state files have them */
        "{}",
        "{\"a\":1}",
        "{\"a\":1,\"bulk\":[]}",
        "{\"a\":1,\"bulk\":[\"x\",\"y z\"]}",
        "{\"a\":1,\"bulk\":[[\"x\"],[],[\"y\",\"z\"]],\"more\":[\"w\"]}",
        "{ \"a\" : 1 , \n\t\"bulk\" : [ [ \"x\" , \"y\" ] ] , \"more\" : [ ] } \r\n",
        /* what is not plain lists of plain strings */
        "{\"a\":1,\"bulk\":[[[\"x\"]]]}",
        "{\"a\":1,\"bulk\":[\"x\\n\"]}",
        "{\"a\":1,\"bulk\":[\"\xc3\xa9\"]}",
        "{\"a\":1,\"bulk\":[1]}",
        "{\"a\":1,\"bulk\":\"x\"}",
        "{\"a\":1,\"bulk\":[\"x\"],\"more\":1}",
        "{\"bulk\":[\"x\"]}",
        /* the key elsewhere */
        "{\"a\":{\"b\":1,\"bulk\":[\"x\"]}}",
        "{\"a\":[1,\"bulk\"]}",
        "{\"a\":\",\\\"bulk\\\":[\\\"x\\\"]\"}",
        "{\"a\":\"x\\\\\",\"bulk\":[\"y\"]}",
        /* what is no JSON, or has a key twice */
        "",
        "{",
        "[",
        "{\"a\":1,",
        "{\"a\":1,\"bulk\"",
        "{\"a\":1,\"bulk\":",
        "{\"a\":1,\"bulk\":[",
        "{\"a\":1,\"bulk\":[\"x\"",
        "{\"a\":1,\"bulk\":[\"x]}",
        "{\"a\":1,\"bulk\":[\"x\",]}",
        "{\"a\":1,\"bulk\":[\"x\" \"y\"]}",
        "{\"a\":1,\"bulk\":[\"x\"]",
        "{\"a\":1,\"bulk\":[\"x\"]]",
        "{\"a\":1,\"bulk\":[\"x\"],}",
        "{\"a\":1,\"bulk\":[\"x\"]}x",
        "{\"a\":1,\"bulk\":[\"x\ny\"]}",
        "{\"a\":1 2,\"bulk\":[\"x\"]}",
        "{\"a\":1,\"a\":2,\"bulk\":[\"x\"]}",
        "{\"a\":1,\"bulk\":[\"x\"],\"bulk\":[\"y\"]}",
        "{\"a\":1,\"bulk\":[\"x\"],\"a\":[\"y\"]}",
        "{\"a\":1,\"bulk\":[\"\\u0000\"]}",
        "{\"a\":1,\"bulk\":[\"\xff\"]}",
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(ordinary); i++)
        check_as_jansson(ordinary[i]);
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(others); i++)
        check_as_jansson(others[i]);
    for (size_t depth = 60; depth < 70; depth++) {
        char deep[160] = "";
        memset(deep, '[', depth);
        memset(deep + depth, ']', depth);
        check_as_jansson(deep);
    }
}

/* Texts with a few bytes changed for others that mean something. */
static void changed_texts_are_read_as_jansson_reads_them(void **state)
{
    (void)state;
    static const char bytes[] = "\"\"\\\\[]{},,::01-.eu \ntfn\t\x01\x7f\xc3\xa9\xff";
    uint64_t seed = 1;
    for (int turn = 0; turn < 40000; turn++) {
        char text[256];
        strcpy(text, ordinary[(size_t)turn % RIG_ARRAY_LENGTH(ordinary)]);
        for (int change = 0; change < 1 + turn % 3; change++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
            size_t at = (seed >> 33) % strlen(text);
            text[at] = bytes[(seed >> 20) % (sizeof bytes - 1)];
        }
        check_as_jansson(text);
    }
}

static void a_value_is_written_as_jansson_writes_it(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{}",
        "[]",
        "[[],{},[[\"\"]]]",
        "{\"b\":1,\"a\":-9223372036854775808,\"c\":9223372036854775807}",
        "{\"a\":[true,false,null,0.5,\"x y\"]}",
        "[\"quote \\\" backslash \\\\ tab \\t bell \\u0007 del \x7f \xc3\xa9\"]",
        "{\"k\\\"\xc3\xa9\":\"v\"}",
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(texts); i++) {
        json_t *value = json_loads(texts[i], 0, NULL);
        assert_non_null(value);
        char *expected = json_dumps(value, JSON_COMPACT);
        size_t bytes;
        char *got = json_text(value, &bytes);
        assert_string_equal(got, expected);
        assert_int_equal(bytes, strlen(expected));
        free(expected);
        free(got);
        json_decref(value);
    }
}

/* Every text that lacks its end is refused, wherever it ends. */
static void a_document_that_is_cut_short_is_refused(void **state)
{
    (void)state;
    static const char whole[] =
        "{\"a\":{\"b\":[1,\"c\"]},\"bulk\":[[\"x y\"],[\"z\"]],\"more\":[\"w\"]}";
    json_error_t error;
    for (size_t bytes = 0; bytes < sizeof whole - 1; bytes++)
        assert_null(json_whole(whole, bytes, &error));
    json_t *all = json_whole(whole, sizeof whole - 1, &error);
    assert_int_equal(json_array_size(json_object_get(all, "bulk")), 2);
    assert_string_equal(
        json_string_value(json_array_get(json_array_get(json_object_get(all, "bulk"), 0), 0)),
        "x y");
    json_decref(all);
}

/* Of good texts and wrong ones, at each allocation from which on all fail: jansson 2.14 ends the
   program where some of them fail alone, and reads past its room where a text has longer words. */
static void memory_that_runs_out_is_never_called_a_fault_of_the_text(void **state)
{
    (void)state;
    if (!CAN_FAIL)
        return;
    static const char *const texts[] = {
        "{\"a\":{\"b\":[1,\"c\",1.5,true]},\"bulk\":[[\"x y\"],[\"z\"]],\"more\":[\"w\"]}",
        "{\"a\":{\"b\":[1,\"c\",2]}}",
        "{\"a\":1,\"a\":2,\"bulk\":[\"x\"]}",
        "{\"a\":\"b\",\"bulk\":[1 2]}",
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(texts); i++) {
        json_error_t true_fault, error;
        json_t *wanted = json_loads(texts[i], JSON_REJECT_DUPLICATES, &true_fault);
        json_set_alloc_funcs(malloc, free);
        for_good = true;
        long at = 0;
        do {
            tripped = false;
            countdown = at++;
            json_t *got = json_whole(texts[i], strlen(texts[i]), &error);
            countdown = -1;
            assert_true(!got || json_equal(got, wanted));
            if (!got && tripped)
                assert_true(json_ran_out(&error));
            else if (!got)
                assert_string_equal(error.text, true_fault.text);
            json_decref(got);
        } while (tripped);
        assert_true(at > 4);
        for_good = false;
        json_decref(wanted);
    }
#if CAN_FAIL
    json_set_alloc_funcs(never_fails, free);
#endif
}

/* Of ordinary texts, whichever allocation fails alone. */
static void memory_that_fails_once_is_told(void **state)
{
    (void)state;
    if (!CAN_FAIL)
        return;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(ordinary); i++) {
        json_error_t error;
        json_set_alloc_funcs(malloc, free);
        long at = 0;
        do {
            tripped = false;
            countdown = at++;
            json_t *got = json_whole(ordinary[i], strlen(ordinary[i]), &error);
            countdown = -1;
            assert_int_equal(got == NULL, tripped);
            assert_true(got || json_ran_out(&error));
            json_decref(got);
        } while (tripped);
        assert_true(at > 4);
    }
#if CAN_FAIL
    json_set_alloc_funcs(never_fails, free);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_ordinary_and_what_is_not_is_read_as_jansson_reads_it),
        cmocka_unit_test(changed_texts_are_read_as_jansson_reads_them),
        cmocka_unit_test(a_value_is_written_as_jansson_writes_it),
        cmocka_unit_test(a_document_that_is_cut_short_is_refused),
        cmocka_unit_test(memory_that_runs_out_is_never_called_a_fault_of_the_text),
        cmocka_unit_test(memory_that_fails_once_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
