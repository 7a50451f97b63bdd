/* Each field of a capture (rigmem-machine(5)), in each of its forms and broken. */
#include "topology/capture_scan.h"
#include "topology/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEAD "{\"format\":\"rigmem-machine\",\"version\":1,"
#define ONE(rest) HEAD "\"functions\":[{\"address\":\"0000:03:00.0\"," rest "}]}"

/* ---- what is refused */

struct refusal {
    const char *text, *why, *hint;
};

static void expect(const struct refusal *r)
{
    struct rig_topology *t = NULL;
    struct rig_error err;
    rig_error_clear(&err);
    if (read_capture("m.json", r->text, strlen(r->text), &t, &err) != RIG_BAD_INPUT ||
        !strstr(err.why, r->why) || (r->hint && strcmp(r->hint, err.hint) != 0))
        fail_msg("%s: %s (%s)", r->text, err.why, err.hint);
    assert_null(t);
}

static void values_of_another_kind_are_refused_by_what_they_are(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {ONE("\"vendor\":[1]"), "vendor: a list is no value here", NULL},
        {ONE("\"vendor\":{\"value\":null,\"assumed\":\"a\"}"), "vendor: null is no value", NULL},
        {ONE("\"vendor\":{\"value\":{},\"assumed\":\"a\"}"), "vendor: an object is no value", NULL},
        {ONE("\"gpu_memory\":true"), "gpu_memory: true or false is no value", NULL},
        {ONE("\"iommu\":true"), "iommu: true or false is no value", NULL},
        {ONE("\"iommu\":\"maybe\""), "iommu: \"maybe\" is none of none, identity, translate", ""},
        {ONE("\"name\":{}"), "name: an object stands where a string belongs", NULL},
        {ONE("\"name\":[]"), "name: a list stands where a string belongs", NULL},
        {ONE("\"driver\":{\"value\":1,\"from\":\"a\"}"), "driver: a number stands where a string",
         NULL},
        {ONE("\"driver\":{}"), "driver: an object here is", NULL},
        {ONE("\"bars\":\"x\""), "bars: a string stands where an object belongs", NULL},
        {ONE("\"bars\":{\"0\":1}"), "bars.0: a number stands where an object, false or null", NULL},
        {ONE("\"io_window\":1"), "io_window: a number stands where a range or false", NULL},
        {HEAD "\"functions\":[1]}", "functions[0]: a number stands where an object belongs", NULL},
        {HEAD "\"machine\":1}", "machine: a number stands where an object belongs", NULL},
        {HEAD "\"warnings\":{}}", "warnings: a list of strings", NULL},
        {HEAD "\"warnings\":[1]}", "warnings: a list of strings", NULL},
        {HEAD "\"source\":1}", "source: a string belongs here", NULL},
        {"{\"format\":\"rigmem-machine\",\"version\":\"1\"}", "version: a number from 1 up", NULL},
        {ONE("\"command_mask\":true"), "command_mask: true or false is no value", NULL},
        {ONE("\"parent\":{}"), "parent: an object here is", NULL},
        {ONE("\"parent\":{\"unknown\":\"why\"}"), "parent: a bridge such as", NULL},
        {ONE("\"parent\":{\"value\":\"root\",\"from\":\"a\"}"), "parent: a bridge such as", NULL},
        {ONE("\"vendor\":{\"assumed\":\"a\"}"), "vendor: an object here is", NULL},
        {ONE("\"vendor\":{\"assumed\":\"a\",\"b\":1}"), "vendor: an object here is", NULL},
        {ONE("\"vendor\":{\"unknown\":\"a\",\"value\":1}"), "vendor: an object here is", NULL},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(refusals); i++)
        expect(&refusals[i]);
}

static void values_out_of_form_are_refused_with_the_form(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {ONE("\"vendor\":\"0x\""), "\"0x\" is no hex number", NULL},
        {ONE("\"vendor\":\"0x1g\""), "\"0x1g\" is no hex number", NULL},
        {ONE("\"link_speed\":\"123456 GT/s\""), "is no link speed", NULL},
        {ONE("\"link_speed\":\"8.x GT/s\""), "is no link speed", NULL},
        {ONE("\"link_speed\":\"8.:GT/s\""), "is no link speed", NULL},
        {ONE("\"link_speed\":\"8. GT/s\""), "is no link speed", NULL},
        {"{\n\"a\":[[[[[[[[[[[[[[[[[[", "deeper", NULL},
        {ONE("\"link_speed\":\".5 GT/s\""), "is no link speed", NULL},
        {ONE("\"gpu_memory\":\"16GB\""), "\"16GB\" is no size such as", NULL},
        {ONE("\"gpu_memory\":\"\""), "\"\" is no size such as", NULL},
        {ONE("\"gpu_memory\":\"many\""), "\"many\" is no size such as", NULL},
        {ONE("\"bars\":{\"0\":{\"resizable\":[true]}}"), "each entry of the list is a size", NULL},
        {ONE("\"bars\":{\"0\":{\"resizable\":[-1]}}"), "-1 is below zero", NULL},
        {ONE("\"bars\":{\"0\":{\"resizable\":[\"x\"]}}"), "is no size", NULL},
        {ONE("\"bars\":{\"0\":{\"resizable\":[\"3MiB\"]}}"), "a power of two from 1MiB up", NULL},
        {ONE("\"bars\":{\"0\":{\"flags\":\"memory "
             "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz\"}}"),
         "\"abcdefghijklmnopqrstuvwxyzabcdefghijklm\" is none of", ""},
        {ONE("\"bars\":{\"0\":{\"address\":1,\"cpu\":1}}"), "\"address\" is both", NULL},
        {ONE("\"bars\":{\"0\":{\"address\":true}}"), "address: true or false is no value", NULL},
        {ONE("\"bars\":{\"0\":{\"cpu\":\"0xfffffffffffff000\",\"size\":\"1MiB\"}}"),
         "ends above 64 bits", NULL},
        {ONE("\"io_window\":\"0x00000000000000000000000000000000000000001-0x2\""), "is no range",
         NULL},
        {ONE("\"io_window\":\"zz-0x2\""), "\"zz\" is no hex number", NULL},
        {ONE("\"io_window\":\"0x1-zz\""), "\"zz\" is no hex number", NULL},
        {ONE("\"io_window\":{\"bse\":1}"), "unknown key \"bse\"", "did you mean \"base\"?"},
        {ONE("\"io_window\":{\"base\":true}"), "base: true or false is no value", NULL},
        {ONE("\"parent\":\"pci0000.3a\""), "parent: \"pci0000.3a\" is no function", NULL},
        {ONE("\"parent\":\"pci0000:3a.1\""), "is no function", NULL},
        {ONE("\"parent\":\"pci0000:zz\""), "is no function", NULL},
        {ONE("\"parent\":\"pci0000000000000000000000000000000:3a\""), "is no function", NULL},
        {ONE("\"zzzzzzzzzzzz\":1"), "unknown key \"zzzzzzzzzzzz\"", ""},
        {ONE("\"a_key_that_is_longer_than_every_key_there_is\":1"), "unknown key", ""},
        {HEAD "\"machine\":{\"kernal\":1}}", "unknown key \"kernal\"", "did you mean \"kernel\"?"},
        {HEAD "\"functions\":[],\"a\":\"b\\", "invalid escape", NULL},
        {HEAD "\"a\":\"b", "end of input", NULL},
        {"}", "expected", NULL},
        {"\n\n]", "expected", NULL},
        {"{\"id\":\"host\",\"class\":\"system\"}", "lshw", NULL},
        {"{\"id\":\"host\"}", "some other program", NULL},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(refusals); i++)
        expect(&refusals[i]);
    struct rig_topology *t = NULL;
    struct rig_error err = {.status = RIG_OK};
    assert_int_equal(read_capture("m.json", "{    }", CAPTURE_MAX_BYTES + 1, &t, &err),
                     RIG_BAD_INPUT);
    assert_int_equal(read_capture("m.json", HEAD "\"a\":1}", strlen(HEAD "\"a\":1}"), &t, NULL),
                     RIG_BAD_INPUT);
    /* the first error stays */
    rig_error_clear(&err);
    rig_fail(&err, RIG_REFUSED, "before", "something else");
    assert_int_equal(read_capture("m.json", HEAD "\"a\":1}", strlen(HEAD "\"a\":1}"), &t, &err),
                     RIG_BAD_INPUT);
    assert_string_equal(err.why, "something else");
}

/* ---- what is taken, and written again */

static struct rig_topology *accept(const char *text)
{
    struct rig_topology *t = NULL;
    struct rig_error err;
    rig_error_clear(&err);
    if (read_capture("m.json", text, strlen(text), &t, &err) != RIG_OK)
        fail_msg("%s: %s", text, err.why);
    return t;
}

static char *write_again(const struct rig_topology *t)
{
    char *text;
    size_t bytes;
    assert_int_equal(rig_topology_capture(t, false, &text, &bytes, NULL), RIG_OK);
    return text;
}

/* Reads text, looks for `part` in what is written of it, and reads that to the same end. */
static void comes_back(const char *text, const char *part)
{
    struct rig_topology *t = accept(text);
    char *written = write_again(t);
    if (!strstr(written, part))
        fail_msg("%s\n is not in %s", part, written);
    struct rig_topology *again = accept(written);
    char *twice = write_again(again);
    assert_string_equal(written, twice);
    rig_topology_free(t);
    rig_topology_free(again);
    free(written);
    free(twice);
}

static void each_form_of_a_field_comes_back_as_it_was(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } rows[] = {
        {HEAD "\"functions\":[]}", "\"functions\": []"},
        {HEAD "\"functions\":[],\"warnings\":[\"odd\"]}", "\"odd\""},
        {HEAD "\"functions\":[],\"machine\":{\"kernel\":null,\"host\":false}}", "\"host\": false"},
        {HEAD "\"functions\":[],\"machine\":{\"kernel\":{\"unknown\":\"why\"}}}",
         "\"unknown\": \"why\""},
        {HEAD "\"functions\":[],\"machine\":{\"page_size\":1000}}", "\"page_size\": 1000"},
        {HEAD "\"functions\":[],\"machine\":{\"page_size\":65536}}", "\"page_size\": \"64KiB\""},
        {ONE("\"name\":null,\"gpu\":false"), "\"address\": \"0000:03:00.0\""},
        {ONE("\"gpu\":true"), "\"gpu\": true"},
        {ONE("\"iommu_group\":\"0xffffffffffffffff\""), "\"iommu_group\": \"0xffffffffffffffff\""},
        {ONE("\"header_type\":5"), "\"header_type\": 5"},
        {ONE("\"link_speed\":\"2.5GT/s\""), "\"link_speed\": \"2.5 GT/s\""},
        {ONE("\"gpu_memory\":0"), "\"gpu_memory\": 0"},
        {ONE("\"parent\":null"), "\"parent\": null"},
        {ONE("\"parent\":\"root\""), "\"parent\": \"root\""},
        {ONE("\"parent\":\"pci0000:02\""), "\"parent\": \"pci0000:02\""},
        {ONE("\"parent\":\"pci0001:03\""), "\"parent\": \"pci0001:03\""},
        {HEAD "\"functions\":[{\"address\":\"0000:00:01.0\",\"header_type\":\"bridge\"},"
              "{\"address\":\"0000:03:00.0\",\"parent\":{\"value\":\"0000:00:01.0\","
              "\"assumed\":\"a\"}}]}",
         "\"assumed\": \"a\""},
        {ONE("\"bars\":{\"0\":null}"), "\"0\": null"},
        {ONE("\"bars\":{\"0\":{\"flags\":\"memory 64-bit\",\"size\":\"4KiB\"}}"),
         "\"size\": \"4KiB\""},
        {ONE("\"bars\":{\"0\":{\"bus\":\"0x1000\"}}"), "\"bus\": \"0x1000\""},
        {ONE("\"bars\":{\"0\":{\"cpu\":\"0x1000\"}}"), "\"cpu\": \"0x1000\""},
        {ONE("\"bars\":{\"0\":{\"bus\":\"0x1000\",\"cpu\":\"0x2000\"}}"), "\"cpu\": \"0x2000\""},
        {ONE("\"bars\":{\"0\":{\"bus\":\"0x1000\",\"cpu\":{\"value\":\"0x1000\",\"assumed\":\"a\"}}}"),
         "\"bus\": \"0x1000\""},
        {ONE("\"bars\":{\"0\":{\"bus\":{\"value\":\"0x1000\",\"assumed\":\"b\"},"
             "\"cpu\":{\"value\":\"0x1000\",\"assumed\":\"a\"}}}"),
         "\"assumed\": \"b\""},
        {ONE("\"bars\":{\"0\":{\"bus\":{\"value\":\"0x1000\",\"from\":\"b\"},\"cpu\":\"0x1000\"}}"),
         "\"from\": \"b\""},
        {ONE("\"bars\":{\"0\":{\"cpu\":{\"value\":\"0x1000\",\"from\":\"b\"},\"bus\":\"0x1000\"}}"),
         "\"from\": \"b\""},
        {ONE("\"bars\":{\"0\":{\"address\":{\"value\":\"0x1000\",\"assumed\":\"a\"}}}"),
         "\"address\": {"},
        {ONE("\"bars\":{\"0\":{\"size\":\"4KiB\"}}"), "\"size\": \"4KiB\""},
        {ONE("\"bars\":{\"0\":{\"resizable\":[\"1MiB\",2097152]}}"), "\"2MiB\""},
        {ONE("\"bars\":{\"0\":{\"resizable\":\"0x100000000000\"}}"), "\"resizable\": "},
        {ONE("\"bars\":{\"0\":{\"resizable\":[]}}"), "\"resizable\": []"},
        {ONE("\"bars\":{\"0\":{\"flags\":{\"absent\":\"why\"}}}"), "\"absent\": \"why\""},
        {ONE("\"bars\":{\"0\":{\"flags\":false,\"size\":\"4KiB\"}}"), "\"flags\": false"},
        {ONE("\"bars\":{\"0\":false}"), "\"address\": \"0000:03:00.0\""},
        {ONE("\"bars\":{\"0\":{\"size\":\"4KiB\"},\"1\":null,\"2\":null,\"3\":null,\"4\":null,"
             "\"5\":null}"),
         "\"size\": \"4KiB\""},
        {ONE("\"bars\":{\"0\":{\"bus\":1},\"1\":null,\"2\":null,\"3\":null,\"4\":null,\"5\":null}"),
         "\"bus\": \"0x1\""},
        {ONE("\"bars\":{\"0\":{\"cpu\":1},\"1\":null,\"2\":null,\"3\":null,\"4\":null,\"5\":null}"),
         "\"cpu\": \"0x1\""},
        {ONE("\"bars\":{\"0\":{\"resizable\":[]},\"1\":null,\"2\":null,\"3\":null,\"4\":null,"
             "\"5\":null}"),
         "\"resizable\": []"},
        {ONE("\"bars\":{\"0\":null,\"1\":null,\"2\":null,\"3\":null,\"4\":null,\"5\":null}"),
         "\"address\": \"0000:03:00.0\""},
        {ONE("\"io_window\":null"), "\"address\": \"0000:03:00.0\""},
        {ONE("\"io_window\":false"), "\"io_window\": false"},
        {ONE("\"io_window\":\"0x1000-0x1fff\""), "\"io_window\": \"0x1000-0x1fff\""},
        {ONE("\"io_window\":{\"base\":1}"), "\"base\": \"0x1\""},
        {ONE("\"io_window\":{\"limit\":1}"), "\"limit\": \"0x1\""},
        {ONE("\"io_window\":{\"base\":{\"value\":1,\"from\":\"a\"},\"limit\":2}"),
         "\"from\": \"a\""},
        {ONE("\"io_window\":{\"base\":1,\"limit\":{\"value\":2,\"from\":\"a\"}}"),
         "\"from\": \"a\""},
        {ONE("\"io_window\":{\"base\":false,\"limit\":2}"), "\"base\": false"},
        {ONE("\"io_window\":{\"base\":false,\"limit\":{\"absent\":\"a\"}}"), "\"absent\": \"a\""},
        {ONE("\"io_window\":{\"base\":{\"absent\":\"a\"},\"limit\":false}"), "\"absent\": \"a\""},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++)
        comes_back(rows[i].text, rows[i].part);
}

/* A size that is no power of two says nothing of the alignment. */
static void redaction_keeps_the_order_of_bars_of_odd_sizes(void **state)
{
    (void)state;
    struct rig_topology *t =
        accept(ONE("\"bars\":{\"0\":{\"flags\":\"memory\",\"address\":\"0x28800000000\"},"
                   "\"1\":{\"flags\":\"memory\",\"address\":\"0x28900000000\",\"size\":4096}}"));
    t->node[0].f.bar[0].size = fact_known(3u << 20);
    char *text;
    size_t bytes;
    assert_int_equal(rig_topology_capture(t, true, &text, &bytes, NULL), RIG_OK);
    /* both move down by the same multiple of the alignment of the first address */
    assert_non_null(strstr(text, "\"0x20000000000\""));
    assert_non_null(strstr(text, "\"0x20100000000\""));
    free(text);
    rig_topology_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_another_kind_are_refused_by_what_they_are),
        cmocka_unit_test(values_out_of_form_are_refused_with_the_form),
        cmocka_unit_test(each_form_of_a_field_comes_back_as_it_was),
        cmocka_unit_test(redaction_keeps_the_order_of_bars_of_odd_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
