/* Dumps of configuration space as lspci -x, -xxx and -xxxx print them, whole and broken. */
#include "reading.h"
#include "topology/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ZEROS "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"

/* An endpoint 10de:2684 of conventional PCI, 64 bytes of it. */
#define ENDPOINT                                                                                   \
    "00: de 10 84 26 06 00 00 00 a1 00 00 03 00 00 00 00\n"                                        \
    "10: 00 00 00 b8 0c 00 00 c0 ff 10 00 00 00 00 00 00\n"                                        \
    "20: " ZEROS "30: " ZEROS

static struct rig_topology *accept(const char *text)
{
    return reading_accepted("dump", text);
}

static void refuse(const char *text, const char *where, const char *part)
{
    struct rig_topology *t;
    struct rig_error err;
    assert_int_equal(reading_of("dump", text, strlen(text), &t, &err), RIG_BAD_INPUT);
    assert_null(t);
    assert_string_equal(err.where, where);
    if (!strstr(err.why, part))
        fail_msg("\"%s\" is not in \"%s\"", part, err.why);
}

static void a_dump_of_64_bytes_gives_ids_and_bars(void **state)
{
    (void)state;
    struct rig_topology *t = accept("41:00.0 VGA compatible controller: Thing\n" ENDPOINT);
    assert_int_equal(t->count, 1);
    const struct rig_function *f = rig_topology_function(t, 0);
    assert_int_equal(f->bdf.bus, 0x41);
    assert_int_equal(f->vendor.value, 0x10de);
    assert_int_equal(f->device.value, 0x2684);
    assert_int_equal(f->config_bytes.value, 64);
    assert_int_equal(f->bar[1].bus.value, 0x10ffc0000000);
    assert_string_equal(f->name, "Thing");
    rig_topology_free(t);
}

static void domains_have_four_to_eight_digits(void **state)
{
    (void)state;
    static const struct {
        const char *place;
        uint32_t domain;
    } good[] = {{"41:00.0", 0},
                {"0001:41:00.0", 1},
                {"10000:41:00.0", 0x10000},
                {"123456:41:00.0", 0x123456},
                {"deadbeef:41:00.0", 0xdeadbeef}};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(good); i++) {
        char text[512];
        snprintf(text, sizeof text, "%s 0300: 10de:2684 (rev a1)\n%s", good[i].place, ENDPOINT);
        struct rig_topology *t = accept(text);
        assert_int_equal(t->count, 1);
        assert_int_equal(rig_topology_function(t, 0)->bdf.domain, good[i].domain);
        rig_topology_free(t);
    }
}

static void a_line_that_names_a_place_alone_may_head_a_dump(void **state)
{
    (void)state;
    struct rig_topology *t = accept("0000:41:00.0 whatever\n" ENDPOINT);
    assert_int_equal(t->count, 1);
    rig_topology_free(t);
}

static void line_ends_may_be_crlf_and_rows_quoted_or_indented(void **state)
{
    (void)state;
    struct rig_topology *t = accept("> 41:00.0 0300: 10de:2684\r\n"
                                    "> 00: de 10 84 26 06 00 00 00 a1 00 00 03 00 00 00 00\r\n"
                                    ">   10: 00 00 00 b8 0c 00 00 c0 ff 10 00 00 00 00 00 00  \r\n"
                                    "20: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\r\n"
                                    "\t30: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00");
    assert_int_equal(rig_topology_function(t, 0)->config_bytes.value, 64);
    assert_int_equal(rig_topology_function(t, 0)->bar[1].bus.value, 0x10ffc0000000);
    rig_topology_free(t);
}

static void an_offset_of_eight_digits_is_refused_with_its_place(void **state)
{
    (void)state;
    refuse("00:00.0 0600: 8086:29c0\n80000000: 41 41 41 41 41 41 41 41 41 41 41 41 41 41 41 41\n",
           "dump:2:1", "fff");
    refuse("00:00.0 0600: 8086:29c0\n  fffffff0: 41 41 41 41 41 41 41 41 41 41 41 41 41 41 41 41\n",
           "dump:2:3", "fff");
    refuse("00:00.0 0600: 8086:29c0\n1000: " ZEROS, "dump:2:1", "fff");
    refuse("00:00.0 0600: 8086:29c0\n00000: " ZEROS, "dump:2:1", "fff");
}

static void rows_are_in_order(void **state)
{
    (void)state;
    refuse("00:00.0 0600: 8086:29c0\n10: " ZEROS, "dump:2:1", "offset 00 was expected");
    refuse("00:00.0 0600: 8086:29c0\n" ENDPOINT "30: " ZEROS, "dump:6:1", "offset 40");
    refuse("00:00.0 0600: 8086:29c0\n" ENDPOINT "48: " ZEROS, "dump:6:1", "multiples of 10");
}

static void what_follows_a_missing_row_is_checked_and_not_used(void **state)
{
    (void)state;
    struct rig_topology *t = accept("00:00.0 0300:\n" ENDPOINT "50: " ZEROS "60: " ZEROS);
    assert_int_equal(rig_topology_function(t, 0)->config_bytes.value, 64);
    assert_int_equal(rig_topology_warnings(t), 1);
    assert_non_null(strstr(rig_topology_warning(t, 0), "row at 40"));
    rig_topology_free(t);
    refuse("00:00.0 0600: 8086:29c0\n" ENDPOINT "50: " ZEROS "50: " ZEROS, "dump:7:1", "offset 60");
}

static void a_dump_cut_short_is_used_as_far_as_it_goes(void **state)
{
    (void)state;
    struct rig_topology *t = accept("00:00.0 0300:\n" ENDPOINT "40: " ZEROS);
    assert_int_equal(rig_topology_function(t, 0)->config_bytes.value, 80);
    assert_int_equal(rig_topology_warnings(t), 1);
    rig_topology_free(t);
}

static void a_row_has_sixteen_bytes_of_two_digits(void **state)
{
    (void)state;
    refuse("00:00.0 0600: 8086:29c0\n00: 86 80\n", "dump:2:10", "before its 16 bytes");
    refuse("00:00.0 0600: 8086:29c0\n00: 86 80 xx 00 00 00 00 00 00 00 00 00 00 00 00 00\n",
           "dump:2:11", "two hex digits");
    refuse("00:00.0 0600: 8086:29c0\n00: 86 80 0 00 00 00 00 00 00 00 00 00 00 00 00 00\n",
           "dump:2:11", "two hex digits");
    refuse("00:00.0 0600: 8086:29c0\n"
           "00: 86 80 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n",
           "dump:2:52", "after its 16 bytes");
}

static void a_dump_shorter_than_a_header_is_refused(void **state)
{
    (void)state;
    refuse("00:00.0 0600: 8086:29c0\n00: " ZEROS "10: " ZEROS, "dump:2", "ends after 32 bytes");
}

static void rows_without_a_function_are_refused(void **state)
{
    (void)state;
    refuse("some text\n" ENDPOINT, "dump:2:1", "before any function");
}

static void the_same_dump_twice_is_one_function(void **state)
{
    (void)state;
    struct rig_topology *t =
        accept("00:02.0 0300: 10de:2684\n" ENDPOINT "\n00:02.0 0300: 10de:2684\n" ENDPOINT);
    assert_int_equal(t->count, 1);
    rig_topology_free(t);
}

static void two_dumps_of_one_function_that_differ_are_refused_naming_both_lines(void **state)
{
    (void)state;
    refuse("00:02.0 0300: 10de:2684\n" ENDPOINT "\n00:02.0 0300:\n"
           "00: de 10 85 26 06 00 00 00 a1 00 00 03 00 00 00 00\n"
           "10: " ZEROS "20: " ZEROS "30: " ZEROS,
           "dump:8", "line 1, and its device id differs: 0x2684 there, 0x2685 here");
}

/* A dump may have been edited to try other ids: its bytes count, and that is said. A class cannot
 * be told twice. */
static void a_header_that_contradicts_its_dump_gives_way_or_is_refused(void **state)
{
    (void)state;
    struct rig_topology *t = accept("00:02.0 0300: 10de:2685\n" ENDPOINT);
    assert_int_equal(rig_topology_function(t, 0)->device.value, 0x2684);
    assert_int_equal(rig_topology_warnings(t), 1);
    assert_non_null(strstr(rig_topology_warning(t, 0), "the bytes count"));
    rig_topology_free(t);
    refuse("00:02.0 0200: 10de:2684\n" ENDPOINT, "dump:2", "class differs");
}

static void functions_may_stand_in_any_order(void **state)
{
    (void)state;
    struct rig_topology *t = accept("00:03.0 0300: 10de:2684\n" ENDPOINT "00:02.0 0300:\n" ENDPOINT
                                    "\n00:01.0 0300: 10de:2684 (rev a1)\n" ENDPOINT);
    assert_int_equal(t->count, 3);
    assert_int_equal(rig_topology_function(t, 0)->bdf.device, 1);
    assert_int_equal(rig_topology_function(t, 2)->bdf.device, 3);
    rig_topology_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dump_of_64_bytes_gives_ids_and_bars),
        cmocka_unit_test(domains_have_four_to_eight_digits),
        cmocka_unit_test(a_line_that_names_a_place_alone_may_head_a_dump),
        cmocka_unit_test(line_ends_may_be_crlf_and_rows_quoted_or_indented),
        cmocka_unit_test(an_offset_of_eight_digits_is_refused_with_its_place),
        cmocka_unit_test(rows_are_in_order),
        cmocka_unit_test(what_follows_a_missing_row_is_checked_and_not_used),
        cmocka_unit_test(a_dump_cut_short_is_used_as_far_as_it_goes),
        cmocka_unit_test(a_row_has_sixteen_bytes_of_two_digits),
        cmocka_unit_test(a_dump_shorter_than_a_header_is_refused),
        cmocka_unit_test(rows_without_a_function_are_refused),
        cmocka_unit_test(the_same_dump_twice_is_one_function),
        cmocka_unit_test(two_dumps_of_one_function_that_differ_are_refused_naming_both_lines),
        cmocka_unit_test(a_header_that_contradicts_its_dump_gives_way_or_is_refused),
        cmocka_unit_test(functions_may_stand_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
