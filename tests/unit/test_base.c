/* Addresses of functions, sizes and errors as people write and read them. */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- addresses of functions */

static void an_address_is_written_with_four_digits_of_domain_or_more(void **state)
{
    (void)state;
    static const struct {
        struct rig_bdf bdf;
        const char *text;
    } rows[] = {
        {{0, 0, 0, 0}, "0000:00:00.0"},
        {{0, 0xc1, 0x1f, 7}, "0000:c1:1f.7"},
        {{0xffff, 3, 0x10, 2}, "ffff:03:10.2"},
        {{0x10000, 3, 0, 0}, "10000:03:00.0"},
        {{0xffffffff, 0xff, 31, 7}, "ffffffff:ff:1f.7"},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        char text[RIG_BDF_MAX];
        struct rig_bdf again;
        assert_string_equal(rig_bdf_format(rows[i].bdf, text), rows[i].text);
        assert_true(rig_bdf_parse(text, &again));
        assert_int_equal(rig_bdf_compare(again, rows[i].bdf), 0);
    }
}

static void an_address_may_lack_its_domain_and_have_capitals(void **state)
{
    (void)state;
    struct rig_bdf bdf;
    assert_true(rig_bdf_parse("C1:1F.7", &bdf));
    assert_int_equal(rig_bdf_compare(bdf, (struct rig_bdf){0, 0xc1, 0x1f, 7}), 0);
    assert_true(rig_bdf_parse("0001ABCD:00:01.0", &bdf));
    assert_int_equal(bdf.domain, 0x1abcd);
}

/* Every beginning of an address, every single wrong character in it, and numbers past their ends.
 */
static void what_is_no_address_is_none(void **state)
{
    (void)state;
    struct rig_bdf bdf = {1, 2, 3, 4};
    static const char *const forms[] = {"0000:c1:1f.7", "c1:1f.7", "10000:c1:1f.7"};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(forms); i++) {
        char text[32];
        for (size_t n = 0; n < strlen(forms[i]); n++) {
            memcpy(text, forms[i], n);
            text[n] = '\0';
            if (rig_bdf_parse(text, &bdf))
                fail_msg("%s", text);
            static const char wrong[] = "g/G@`:. ";
            for (const char *c = wrong; *c; c++) {
                memcpy(text, forms[i], strlen(forms[i]) + 1);
                if (text[n] == *c)
                    continue;
                text[n] = *c;
                if (rig_bdf_parse(text, &bdf))
                    fail_msg("%s", text);
            }
        }
    }
    static const char *const none[] = {
        "0000:00:20.0",  "0000:00:1f.8",  "00:00.00",      "000:00:00.0",  "123456789:00:00.0",
        "0000:000:00.0", "0000:00:000.0", "0000:00:00.0 ", "0000:00:00:0", "0000.00:00.0",
        "00:00:00.0",    "0000:00.00.0",  "gpu0",          "0x00:00.0"};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(none); i++)
        if (rig_bdf_parse(none[i], &bdf))
            fail_msg("%s", none[i]);
    assert_int_equal(rig_bdf_compare(bdf, (struct rig_bdf){1, 2, 3, 4}), 0);
}

static void addresses_are_in_bus_order(void **state)
{
    (void)state;
    static const struct rig_bdf order[] = {{0, 0, 0, 0}, {0, 0, 0, 1}, {0, 0, 1, 0},
                                           {0, 1, 0, 0}, {1, 0, 0, 0}, {0x10000, 0, 0, 0}};
    for (int i = 0; i < (int)RIG_ARRAY_LENGTH(order); i++)
        for (int k = 0; k < (int)RIG_ARRAY_LENGTH(order); k++)
            assert_int_equal(rig_bdf_compare(order[i], order[k]), i < k ? -1 : i > k);
}

/* ---- sizes */

static void a_size_has_digits_and_a_binary_suffix(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } rows[] = {
        {"0", 0},
        {"4096", 4096},
        {"4096B", 4096},
        {"1K", 1024},
        {"1KiB", 1024},
        {"3M", 3u << 20},
        {"3MiB", 3u << 20},
        {"16G", 16ull << 30},
        {"16GiB", 16ull << 30},
        {"2T", 2ull << 40},
        {"2TiB", 2ull << 40},
        {"0x10", 16},
        {"0X1f", 31},
        {"0xFB", 0xfb}, /* the B is a digit */
        {"0x10K", 16384},
        {"1_000_000", 1000000},
        {"0xffff_ffff", 0xffffffff},
        {"18446744073709551615", UINT64_MAX},
        {"0xffffffffffffffff", UINT64_MAX},
        {"16777215T", 16777215ull << 40},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        uint64_t bytes = 1;
        struct rig_error err;
        rig_error_clear(&err);
        if (rig_size_parse(rows[i].text, &bytes, &err) != RIG_OK)
            fail_msg("%s: %s", rows[i].text, err.why);
        assert_int_equal(bytes, rows[i].bytes);
    }
}

static void what_is_no_size_is_told_why(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why, *hint;
    } rows[] = {
        {"", "not a size", ""},
        {"K", "not a size", ""},
        {"-1", "not a size", ""},
        {" 1", "not a size", ""},
        {"0x", "not a size", ""},
        {"0xg", "not a size", ""},
        {"0x_1", "not a size", ""},
        {"1_", "not a size", "digits and one of"},
        {"1__0", "not a size", "digits and one of"},
        {"_1", "not a size", ""},
        {"1f", "not a size", "digits and one of"},
        {"1k", "not a size", "digits and one of"},
        {"1KB", "not a size", "write KiB: sizes here are binary"},
        {"1kB", "not a size", "write KiB: sizes here are binary"},
        {"16GB", "not a size", "write GiB: sizes here are binary"},
        {"1XB", "not a size", "digits and one of"},
        {"1GBs", "not a size", "digits and one of"},
        {"1.5G", "fractions are not sizes", "digits and one of"},
        {"1P", "not a size", "digits and one of"},
        {"16777216T", "does not fit in 64 bits", ""},
        {"18446744073709551616", "does not fit in 64 bits", ""},
        {"18446744073709551620", "does not fit in 64 bits", ""},
        {"0x10000000000000000", "does not fit in 64 bits", ""},
        {"99999999999999999999999", "does not fit in 64 bits", ""},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        uint64_t bytes = 7;
        struct rig_error err;
        rig_error_clear(&err);
        assert_int_equal(rig_size_parse(rows[i].text, &bytes, &err), RIG_INVALID);
        assert_int_equal(bytes, 7);
        assert_string_equal(err.what, rows[i].text);
        if (strcmp(err.why, rows[i].why) != 0 || !strstr(err.hint, rows[i].hint))
            fail_msg("%s: %s (%s)", rows[i].text, err.why, err.hint);
    }
}

static void a_size_is_written_in_the_largest_unit_that_divides_it(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } rows[] = {
        {0, "0 B"},
        {1, "1 B"},
        {1023, "1023 B"},
        {1024, "1 KiB"},
        {1025, "1025 B"},
        {1536, "1536 B"},
        {1536u << 10, "1536 KiB"},
        {256u << 20, "256 MiB"},
        {32ull << 30, "32 GiB"},
        {1ull << 40, "1 TiB"},
        {1ull << 60, "1048576 TiB"},
        {UINT64_MAX, "18446744073709551615 B"},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        char text[RIG_SIZE_MAX];
        assert_string_equal(rig_size_format(rows[i].bytes, text), rows[i].text);
    }
}

/* ---- errors */

static void every_outcome_has_its_name(void **state)
{
    (void)state;
    static const struct {
        enum rig_status status;
        const char *name;
    } rows[] = {
        {RIG_OK, "ok"},           {RIG_INVALID, "invalid"},     {RIG_REFUSED, "refused"},
        {RIG_NO_ROOM, "no-room"}, {RIG_BAD_INPUT, "bad-input"}, {RIG_UNKNOWN, "unknown"},
        {RIG_FAILED, "failed"},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++)
        assert_string_equal(rig_status_name(rows[i].status), rows[i].name);
    assert_string_equal(rig_status_name((enum rig_status)99), "failed");
}

static void the_first_error_stays_with_its_first_hint(void **state)
{
    (void)state;
    struct rig_error err;
    rig_error_clear(&err);
    rig_hint(&err, "nothing has failed");
    assert_string_equal(err.hint, "");
    assert_int_equal(rig_fail_at(&err, "dump.txt", 3, 7, "a %s", "word"), RIG_BAD_INPUT);
    assert_string_equal(err.where, "dump.txt:3:7");
    assert_int_equal(rig_fail(&err, RIG_REFUSED, "x", "later"), RIG_REFUSED);
    assert_int_equal(rig_fail_at(&err, "y", 1, 1, "later"), RIG_BAD_INPUT);
    assert_int_equal(err.status, RIG_BAD_INPUT);
    assert_string_equal(err.what, "dump.txt");
    assert_string_equal(err.why, "a word");
    rig_hint(&err, "try %d", 1);
    rig_hint(&err, "try %d", 2);
    assert_string_equal(err.hint, "try 1");
    rig_error_clear(&err);
    rig_fail_at(&err, "dump.txt", 3, 0, "x");
    assert_string_equal(err.where, "dump.txt:3");
    rig_error_clear(&err);
    rig_fail_at(&err, "dump.txt", 0, 0, "x");
    assert_string_equal(err.where, "dump.txt");
    rig_error_clear(&err);
    assert_int_equal(rig_fail(&err, RIG_FAILED, NULL, "x"), RIG_FAILED);
    assert_string_equal(err.what, "");
    /* A caller who wants no words. */
    rig_error_clear(NULL);
    rig_hint(NULL, "x");
    assert_int_equal(rig_fail(NULL, RIG_NO_ROOM, "x", "y"), RIG_NO_ROOM);
    assert_int_equal(rig_fail_at(NULL, "x", 1, 1, "y"), RIG_BAD_INPUT);
    assert_int_equal(rig_fail_memory(NULL), RIG_FAILED);
    rig_error_clear(&err);
    assert_false(rig_is_memory(&err));
    rig_fail(&err, RIG_FAILED, NULL, "it broke");
    assert_false(rig_is_memory(&err));
    rig_error_clear(&err);
    assert_int_equal(rig_fail_memory(&err), RIG_FAILED);
    assert_true(rig_is_memory(&err));
}

/* What the system says, whatever is asked. */
static const char *said = "";

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
char *strerror_r(int error, char *text, size_t bytes)
{
    (void)error;
    snprintf(text, bytes, "%s", said);
    return text;
}

static void the_systems_reasons_begin_as_words_within_a_sentence(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"No such file or directory", "no such file or directory"},
        {"RPC struct is bad", "RPC struct is bad"},
        {"X", "x"},
        {"", ""},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        char text[RIG_ERRNO_MAX];
        memset(text, 'X', sizeof text);
        said = rows[i][0];
        assert_string_equal(rig_errno_text(1, text), rows[i][1]);
        assert_string_equal(RIG_ERRNO(1), rows[i][1]);
    }
}

/* ---- arithmetic */

static void sums_and_products_that_do_not_fit_are_none(void **state)
{
    (void)state;
    uint64_t out = 5;
    assert_true(rig_add(UINT64_MAX - 1, 1, &out));
    assert_int_equal(out, UINT64_MAX);
    assert_false(rig_add(UINT64_MAX, 1, &out));
    assert_true(rig_multiply(1ull << 32, (1ull << 32) - 1, &out));
    assert_int_equal(out, UINT64_MAX - (1ull << 32) + 1);
    assert_false(rig_multiply(1ull << 32, 1ull << 32, &out));
    assert_true(rig_round_up(0, 4096, &out));
    assert_int_equal(out, 0);
    assert_true(rig_round_up(4097, 4096, &out));
    assert_int_equal(out, 8192);
    assert_true(rig_round_up(8192, 4096, &out));
    assert_int_equal(out, 8192);
    assert_false(rig_round_up(UINT64_MAX - 4094, 4096, &out));
    for (int n = 0; n < 64; n++)
        assert_true(rig_power_of_two(1ull << n));
    assert_false(rig_power_of_two(0));
    assert_false(rig_power_of_two(3));
    assert_false(rig_power_of_two(UINT64_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_written_with_four_digits_of_domain_or_more),
        cmocka_unit_test(an_address_may_lack_its_domain_and_have_capitals),
        cmocka_unit_test(what_is_no_address_is_none),
        cmocka_unit_test(addresses_are_in_bus_order),
        cmocka_unit_test(a_size_has_digits_and_a_binary_suffix),
        cmocka_unit_test(what_is_no_size_is_told_why),
        cmocka_unit_test(a_size_is_written_in_the_largest_unit_that_divides_it),
        cmocka_unit_test(every_outcome_has_its_name),
        cmocka_unit_test(the_first_error_stays_with_its_first_hint),
        cmocka_unit_test(the_systems_reasons_begin_as_words_within_a_sentence),
        cmocka_unit_test(sums_and_products_that_do_not_fit_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
