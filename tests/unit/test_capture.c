/* The capture format of rigmem-machine(5): what is written, what is read, and what is refused. */
#include "topology/topology.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct rig_topology *read_text(const char *text)
{
    struct rig_topology *t = NULL;
    struct rig_error err;
    rig_error_clear(&err);
    if (read_capture("m.json", text, strlen(text), &t, &err) != RIG_OK)
        fail_msg("%s: %s", err.where, err.why);
    return t;
}

static char *write_text(const struct rig_topology *t, bool redact)
{
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(rig_topology_capture(t, redact, &text, &bytes, NULL), RIG_OK);
    assert_int_equal(strlen(text), bytes);
    return text;
}

/* Every shape a fact can have, and every key. The functions: a root port, a GPU below it, a
   physical function with a virtual one, a function of which nothing is known. */
static const char everything[] =
    "{\"format\":\"rigmem-machine\",\"version\":1,\"source\":\"live\",\"whole\":false,"
    "\"machine\":{\"host\":\"lab7\",\"cpu_vendor\":\"AuthenticAMD\",\"cpu_family\":25,"
    "\"cpu_name\":{\"value\":\"a name\",\"assumed\":\"a guess\"},\"kernel\":\"6.1.0-18-amd64\","
    "\"command_line\":\"root=/dev/sda1 iommu=pt pci=disable_acs_redir=0000:00:01.0 quiet\","
    "\"p2pdma\":\"off\",\"page_size\":4096,\"memory_base\":\"0x100000000\","
    "\"memory_bytes\":\"64GiB\",\"remote\":\"no\"},"
    "\"warnings\":[\"first\",\"second\"],"
    "\"functions\":["
    "{\"address\":\"0000:00:01.0\",\"name\":\"a port\",\"parent\":\"root\",\"vendor\":\"0x1022\","
    "\"device\":\"0x1483\",\"class\":\"0x060400\",\"revision\":\"0x01\",\"header_type\":\"bridge\","
    "\"command\":\"0x0006\",\"command_mask\":\"0x0007\",\"config_bytes\":4096,"
    "\"pcie_type\":\"root-port\",\"link_speed\":\"16 GT/s\",\"link_width\":16,"
    "\"max_speed\":\"2.5 GT/s\",\"max_width\":{\"unknown\":\"not read\"},"
    "\"acs_capability\":\"0x005f\",\"acs_control\":{\"value\":\"0x001d\",\"assumed\":\"me\"},"
    "\"ats\":false,\"primary\":\"0x00\",\"secondary\":\"0x01\",\"subordinate\":\"0x02\","
    "\"io_window\":false,\"memory_window\":\"0xe0000000-0xe1ffffff\","
    "\"prefetchable_window\":{\"base\":\"0x10000000000\",\"limit\":{\"absent\":\"odd\"}},"
    "\"bars\":{},\"iommu\":\"none\",\"numa_node\":false,\"driver\":\"pcieport\"},"
    "{\"address\":\"0000:01:00.0\",\"parent\":\"0000:00:01.0\",\"gpu\":true,\"vendor\":\"0x1002\","
    "\"device\":{\"value\":\"0x744c\",\"assumed\":\"its name\"},\"subsystem_vendor\":\"0x1da2\","
    "\"subsystem_device\":\"0x0001\",\"class\":\"0x030000\",\"header_type\":\"device\","
    "\"pcie_type\":\"endpoint\",\"acs_capability\":false,\"acs_control\":false,\"ats\":\"yes\","
    "\"iommu_group\":14,\"iommu_type\":\"DMA-FQ\",\"driver\":false,\"dma_mask_bits\":44,"
    "\"gpu_memory\":\"24GiB\",\"bars\":{"
    "\"0\":{\"flags\":\"memory 64-bit prefetchable\",\"address\":\"0x10000000000\","
    "\"size\":\"32GiB\",\"resizable\":[\"256MiB\",\"32GiB\"]},"
    "\"2\":{\"flags\":\"memory\",\"bus\":\"0xe0000000\",\"cpu\":\"0x40e0000000\",\"size\":4096,"
    "\"resizable\":false},"
    "\"4\":{\"flags\":\"io\",\"bus\":false,\"size\":256},\"5\":null}},"
    "{\"address\":\"0000:02:00.0\",\"parent\":{\"value\":\"0000:00:01.0\",\"assumed\":\"a guess\"},"
    "\"vf_count\":1,\"vf_offset\":128,\"vf_stride\":{\"value\":1,\"from\":\"the data sheet\"}},"
    "{\"address\":\"0000:02:10.0\",\"physical\":\"0000:02:00.0\",\"bars\":{\"0\":"
    "{\"flags\":\"memory virtual\"}}},"
    "{\"address\":\"10000:00:00.0\",\"parent\":\"pci10000:e0\"},"
    "{\"address\":\"10001:00:00.0\",\"parent\":null}"
    "]}";

static void a_capture_of_a_capture_is_the_same_byte_for_byte(void **state)
{
    (void)state;
    struct rig_topology *t = read_text(everything);
    char *first = write_text(t, false);
    struct rig_topology *again = read_text(first);
    char *second = write_text(again, false);
    assert_string_equal(first, second);
    rig_topology_free(t);
    rig_topology_free(again);
    free(first);
    free(second);
}

static const struct node *node_of(const struct rig_topology *t, const char *name)
{
    int i = rig_topology_find(t, name);
    if (i < 0)
        fail_msg("no function %s", name);
    return &t->node[i];
}

static void expect(struct rig_fact f, enum rig_know know, uint64_t value, const char *from)
{
    assert_int_equal(f.know, know);
    if (rig_fact_has(f))
        assert_int_equal(f.value, value);
    if (from)
        assert_string_equal(f.from, from);
    else
        assert_null(f.from);
}

static void the_machine_has_what_the_capture_says(void **state)
{
    (void)state;
    struct rig_topology *t = read_text(everything);
    const struct rig_machine_facts *m = rig_topology_machine(t);
    assert_int_equal(m->source, RIG_SOURCE_LIVE);
    assert_false(t->whole);
    assert_string_equal(m->host.value, "lab7");
    assert_string_equal(m->cpu_vendor.value, "AuthenticAMD");
    expect(m->cpu_family, RIG_FACT_KNOWN, 25, NULL);
    assert_int_equal(m->cpu_name.know, RIG_FACT_ASSUMED);
    assert_string_equal(m->cpu_name.from, "a guess");
    expect(m->p2pdma, RIG_FACT_KNOWN, 0, NULL);
    expect(m->page_size, RIG_FACT_KNOWN, 4096, NULL);
    expect(m->memory_base, RIG_FACT_KNOWN, 0x100000000, NULL);
    expect(m->memory_bytes, RIG_FACT_KNOWN, 64ull << 30, NULL);
    expect(m->remote, RIG_FACT_KNOWN, 0, NULL);
    assert_string_equal(rig_topology_warning(t, 0), "first");
    assert_string_equal(rig_topology_warning(t, 1), "second");
    rig_topology_free(t);
}

static void a_bridge_has_what_the_capture_says(void **state)
{
    (void)state;
    struct rig_topology *t = read_text(everything);
    const struct rig_function *f = &node_of(t, "0000:00:01.0")->f;
    assert_string_equal(f->name, "a port");
    expect(f->vendor, RIG_FACT_KNOWN, 0x1022, NULL);
    expect(f->class_code, RIG_FACT_KNOWN, 0x060400, NULL);
    expect(f->header_type, RIG_FACT_KNOWN, 1, NULL);
    expect(f->command, RIG_FACT_KNOWN, 6, NULL);
    assert_int_equal(f->command_mask, 7);
    expect(f->pcie_type, RIG_FACT_KNOWN, RIG_PCIE_ROOT_PORT, NULL);
    expect(f->link_speed, RIG_FACT_KNOWN, 160, NULL);
    expect(f->max_speed, RIG_FACT_KNOWN, 25, NULL);
    expect(f->max_width, RIG_FACT_UNKNOWN, 0, "not read");
    expect(f->acs_capability, RIG_FACT_KNOWN, 0x5f, NULL);
    expect(f->acs_control, RIG_FACT_ASSUMED, 0x1d, "me");
    expect(f->pasid_or_ats, RIG_FACT_ABSENT, 0, NULL);
    expect(f->subordinate, RIG_FACT_KNOWN, 2, NULL);
    expect(f->io.base, RIG_FACT_ABSENT, 0, NULL);
    expect(f->memory.base, RIG_FACT_KNOWN, 0xe0000000, NULL);
    expect(f->memory.limit, RIG_FACT_KNOWN, 0xe1ffffff, NULL);
    expect(f->prefetchable.limit, RIG_FACT_ABSENT, 0, "odd");
    expect(f->bar[0].flags, RIG_FACT_ABSENT, 0, NULL);
    expect(f->iommu, RIG_FACT_KNOWN, RIG_IOMMU_NONE, NULL);
    expect(f->numa_node, RIG_FACT_ABSENT, 0, NULL);
    assert_string_equal(f->driver.value, "pcieport");
    rig_topology_free(t);
}

static void a_gpu_has_what_the_capture_says(void **state)
{
    (void)state;
    struct rig_topology *t = read_text(everything);
    const struct rig_function *f = &node_of(t, "gpu0")->f;
    assert_true(f->gpu_named);
    expect(f->device, RIG_FACT_ASSUMED, 0x744c, "its name");
    expect(f->acs_control, RIG_FACT_ABSENT, 0, NULL);
    expect(f->pasid_or_ats, RIG_FACT_KNOWN, 1, NULL);
    expect(f->iommu_group, RIG_FACT_KNOWN, 14, NULL);
    assert_string_equal(f->iommu_type.value, "DMA-FQ");
    expect(f->iommu, RIG_FACT_KNOWN, RIG_IOMMU_TRANSLATE, NULL);
    assert_int_equal(f->driver.know, RIG_FACT_ABSENT);
    expect(f->gpu_memory, RIG_FACT_KNOWN, 24ull << 30, NULL);
    assert_int_equal(f->parent, rig_topology_find(t, "0000:00:01.0"));
    expect(f->bar[0].flags, RIG_FACT_KNOWN, RIG_BAR_64BIT | RIG_BAR_PREFETCHABLE, NULL);
    expect(f->bar[0].bus, RIG_FACT_KNOWN, 0x10000000000, NULL);
    expect(f->bar[0].cpu, RIG_FACT_KNOWN, 0x10000000000, NULL);
    expect(f->bar[0].size, RIG_FACT_KNOWN, 32ull << 30, NULL);
    /* 256 MiB is 2^28, 32 GiB is 2^35: bits 8 and 15. */
    expect(f->bar[0].resizable, RIG_FACT_KNOWN, 0x8100, NULL);
    expect(f->bar[1].flags, RIG_FACT_ABSENT, 0, NULL);
    expect(f->bar[2].flags, RIG_FACT_KNOWN, 0, NULL);
    expect(f->bar[2].cpu, RIG_FACT_KNOWN, 0x40e0000000, NULL);
    expect(f->bar[4].flags, RIG_FACT_KNOWN, RIG_BAR_IO, NULL);
    expect(f->bar[4].bus, RIG_FACT_ABSENT, 0, NULL);
    expect(f->bar[5].flags, RIG_FACT_UNKNOWN, 0, NULL);
    rig_topology_free(t);
}

static void places_are_what_the_capture_says(void **state)
{
    (void)state;
    struct rig_topology *t = read_text(everything);
    const struct node *physical = node_of(t, "0000:02:00.0");
    expect(physical->f.parent_known, RIG_FACT_ASSUMED, 1, "a guess");
    expect(physical->f.vf_stride, RIG_FACT_KNOWN, 1, "the data sheet");
    const struct node *virtual = node_of(t, "0000:02:10.0");
    assert_int_equal(virtual->f.physical, rig_topology_find(t, "0000:02:00.0"));
    expect(virtual->f.bar[0].flags, RIG_FACT_KNOWN, RIG_BAR_VIRTUAL, NULL);
    const struct node *elsewhere = node_of(t, "10000:00:00.0");
    const struct rig_host_bridge *h = rig_topology_host_bridge(t, elsewhere->f.host_bridge);
    assert_int_equal(h->domain, 0x10000);
    assert_int_equal(h->bus, 0xe0);
    assert_int_equal(node_of(t, "10001:00:00.0")->f.parent_known.know, RIG_FACT_UNKNOWN);
    rig_topology_free(t);
}

static void the_least_a_person_writes_is_enough(void **state)
{
    (void)state;
    struct rig_topology *t = read_text("{\"format\":\"rigmem-machine\",\"version\":1,"
                                       "\"functions\":[{\"address\":\"03:00.0\"}]}");
    assert_int_equal(rig_topology_machine(t)->source, RIG_SOURCE_CAPTURE);
    assert_true(t->whole);
    assert_int_equal(rig_topology_count(t), 1);
    const struct rig_function *f = rig_topology_function(t, 0);
    expect(f->acs_control, RIG_FACT_UNKNOWN, 0, NULL);
    expect(f->bar[0].flags, RIG_FACT_UNKNOWN, 0, NULL);
    assert_int_equal(f->command_mask, 0);
    rig_topology_free(t);
}

static void text_that_is_no_utf8_is_taken_for_latin1(void **state)
{
    (void)state;
    struct rig_topology *t = read_text("{\"format\":\"rigmem-machine\",\"version\":1,"
                                       "\"functions\":[{\"address\":\"03:00.0\"}]}");
    t->node[0].f.name = "Caf\xe9 \x1b[31m";
    char *text = write_text(t, false);
    assert_non_null(strstr(text, "Caf\xc3\xa9 \\u001B[31m"));
    struct rig_topology *again = read_text(text);
    assert_string_equal(again->node[0].f.name, "Caf\xc3\xa9 \x1b[31m");
    rig_topology_free(t);
    rig_topology_free(again);
    free(text);
}

/* One address for both sides is written once, where both are known from the same. */
static void one_address_of_a_bar_is_written_where_both_are_known_from_the_same(void **state)
{
    (void)state;
    struct rig_topology *t = read_text("{\"format\":\"rigmem-machine\",\"version\":1,"
                                       "\"functions\":[{\"address\":\"03:00.0\"}]}");
    const char bus[] = "the data sheet", cpu[] = "the data sheet";
    struct rig_bar *bar = &t->node[0].f.bar[0];
    bar->bus = (struct rig_fact){.know = RIG_FACT_KNOWN, .value = 0x8000, .from = bus};
    bar->cpu = (struct rig_fact){.know = RIG_FACT_KNOWN, .value = 0x8000, .from = cpu};
    char *text = write_text(t, false);
    assert_non_null(strstr(text, "\"address\": {"));
    assert_null(strstr(text, "\"bus\""));
    free(text);
    bar->cpu.from = "a guess";
    text = write_text(t, false);
    assert_null(strstr(text, "\"address\": {"));
    assert_non_null(strstr(text, "\"bus\""));
    assert_non_null(strstr(text, "\"cpu\""));
    free(text);
    rig_topology_free(t);
}

/* ---- refusals */

struct refusal {
    const char *text, *where, *why, *hint;
};

#define HEAD "{\"format\":\"rigmem-machine\",\"version\":1,"
#define ONE(rest) HEAD "\"functions\":[{\"address\":\"0000:03:00.0\"," rest "}]}"

static const struct refusal refusals[] = {
    {"", "m.json:1", "'[' or '{' expected", NULL},
    {"{\n \"format\": \"rigmem-machine\",\n \"version\": 1,\n}", "m.json:4:1", "string or '}'",
     NULL},
    {"[1]", "m.json:1:1", "a JSON list", "rigmem capture"},
    {"{\"format\":\"rigmem-machine\",\"format\":\"x\"}", "m.json:1", "duplicate object key", NULL},
    {"{\"schema\":\"rigmem/1\"}", "m.json", "the output of a rigmem command", "rigmem capture"},
    {"{\"a\":1}", "m.json", "some other program's", "rigmem capture"},
    {"{\"format\":\"netjson\"}", "m.json", "the format \"netjson\"", NULL},
    {"{\"format\":\"rigmem-machine\"}", "m.json", "version: the number 1 belongs", NULL},
    {"{\"format\":\"rigmem-machine\",\"version\":2}", "m.json", "of version 2", NULL},
    {"{\"format\":\"rigmem-machine\",\"version\":0}", "m.json", "from 1 up", NULL},
    {HEAD "\"functons\":[]}", "m.json", "unknown key \"functons\"", "\"functions\""},
    {HEAD "\"functions\":{}}", "m.json", "functions: a list", NULL},
    {HEAD "\"whole\":1}", "m.json", "whole: true or false", NULL},
    {HEAD "\"source\":\"lspci\"}", "m.json", "source: \"lspci\" is none of live, capture", NULL},
    {HEAD "\"machine\":[]}", "m.json", "machine: a list stands", NULL},
    {HEAD "\"machine\":{\"kernel\":6}}", "m.json", "machine.kernel: a number stands", NULL},
    {HEAD "\"machine\":{\"p2pdma\":\"yes\"}}", "m.json", "machine.p2pdma: \"yes\" is none of",
     NULL},
    {HEAD "\"machine\":{\"page_size\":\"4KB\"}}", "m.json", "machine.page_size: \"4KB\"", NULL},
    {HEAD "\"functions\":[{}]}", "m.json", "functions[0].address: a string", NULL},
    {HEAD "\"functions\":[{\"address\":\"gpu\"}]}", "m.json", "\"gpu\" is no function", NULL},
    {ONE("\"vendor\":\"10de\""), "m.json",
     "functions[0] (0000:03:00.0).vendor: \"10de\" is no hex number", NULL},
    {ONE("\"vendor\":\"0x1ffff\""), "m.json", "vendor: 0x1ffff is more than 0xffff", NULL},
    {ONE("\"vendor\":-1"), "m.json", "vendor: -1 is below zero", NULL},
    {ONE("\"vendor\":1.5"), "m.json", "vendor: a number is no value here", NULL},
    {ONE("\"vendor\":true"), "m.json", "vendor: true or false is no value here", NULL},
    {ONE("\"vendor\":{\"value\":1}"), "m.json", "vendor: an object here is", NULL},
    {ONE("\"vendor\":{\"value\":1,\"assumed\":\"a\",\"from\":\"b\"}"), "m.json", "an object here",
     NULL},
    {ONE("\"iommu_group\":99999999999999999999"), "m.json:1", "too big integer", "hex string"},
    {ONE("\"iommu_group\":\"0x12345678901234567\""), "m.json", "more than 64 bits", NULL},
    {ONE("\"pcie_type\":\"rootport\""), "m.json", "is none of endpoint", "\"root-port\""},
    {ONE("\"link_speed\":8"), "m.json", "link_speed: a number is no value here", NULL},
    {ONE("\"link_speed\":\"8GB/s\""), "m.json", "is no link speed", NULL},
    {ONE("\"acs_controll\":0"), "m.json", "unknown key \"acs_controll\"", "\"acs_control\""},
    {ONE("\"vendor\":\"0\""), "m.json", "vendor: \"0\" is no hex number", NULL},
    {ONE("\"vendor\":\"\""), "m.json", "vendor: \"\" is no hex number", NULL},
    {ONE("\"parent\":\"u\""), "m.json", "parent: \"u\" is no function", NULL},
    {ONE("\"parent\":\"pci\""), "m.json", "parent: \"pci\" is no function", NULL},
    {ONE("\"parent\":\"up\""), "m.json", "parent: \"up\" is no function", NULL},
    {ONE("\"parent\":false"), "m.json", "parent: a bridge such as", NULL},
    {ONE("\"parent\":\"0000:02:00.0\""), "m.json", "its parent 0000:02:00.0 is not there", NULL},
    {ONE("\"gpu\":1"), "m.json", "gpu: true or false", NULL},
    {ONE("\"name\":1"), "m.json", "name: a number stands", NULL},
    {ONE("\"physical\":\"0000:02:00.0\""), "m.json", "physical function is not there", NULL},
    {ONE("\"physical\":\"x\""), "m.json", "physical: \"x\" is no function", NULL},
    {ONE("\"command_mask\":null"), "m.json", "command_mask: a plain value", NULL},
    {ONE("\"bars\":[]"), "m.json", "bars: a list stands", NULL},
    {ONE("\"bars\":{\"6\":null}"), "m.json", "unknown key \"6\"", NULL},
    {ONE("\"bars\":{\"0\":{\"adress\":1}}"), "m.json", "bars.0: unknown key \"adress\"",
     "\"address\""},
    {ONE("\"bars\":{\"0\":{\"address\":1,\"bus\":1}}"), "m.json", "bars.0: \"address\" is both",
     NULL},
    {ONE("\"bars\":{\"0\":{\"size\":3}}"), "m.json", "bars.0.size: a BAR's size", NULL},
    {ONE("\"bars\":{\"0\":{\"address\":\"0xfffffffffffff000\",\"size\":\"1MiB\"}}"), "m.json",
     "ends above 64 bits", NULL},
    {ONE("\"bars\":{\"0\":{\"resizable\":[\"1KiB\"]}}"), "m.json", "from 1MiB up", NULL},
    {ONE("\"bars\":{\"0\":{\"flags\":\"memory fast\"}}"), "m.json", "\"fast\" is none of", NULL},
    {ONE("\"io_window\":\"0x10\""), "m.json", "io_window: \"0x10\" is no range", NULL},
    {ONE("\"io_window\":\"0x20-0x10\""), "m.json", "ends before it begins", NULL},
    {HEAD "\"functions\":[{\"address\":\"03:00.0\"},{\"address\":\"0000:03:00.0\"}]}", "m.json",
     "appears twice", NULL},
};

static void what_breaks_a_rule_is_refused_with_its_place_and_the_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(refusals); i++) {
        const struct refusal *r = &refusals[i];
        struct rig_topology *t = NULL;
        struct rig_error err;
        rig_error_clear(&err);
        enum rig_status status = read_capture("m.json", r->text, strlen(r->text), &t, &err);
        if (status != RIG_BAD_INPUT || strncmp(err.where, r->where, strlen(r->where)) != 0 ||
            !strstr(err.why, r->why) || (r->hint && !strstr(err.hint, r->hint)))
            fail_msg("%s\n gives status %d, %s: %s (%s)", r->text, (int)status, err.where, err.why,
                     err.hint);
        assert_null(t);
    }
}

static void too_deep_or_too_many_is_refused_before_it_is_built(void **state)
{
    (void)state;
    size_t bytes = 9000000;
    char *text = malloc(bytes);
    assert_non_null(text);
    struct rig_topology *t;
    struct rig_error err;
    rig_error_clear(&err);
    memset(text, '[', bytes);
    assert_int_equal(read_capture("m.json", text, bytes, &t, &err), RIG_BAD_INPUT);
    assert_string_equal(err.where, "m.json:1:17");
    rig_error_clear(&err);
    memset(text, ',', bytes);
    text[0] = '[';
    assert_int_equal(read_capture("m.json", text, bytes, &t, &err), RIG_BAD_INPUT);
    assert_non_null(strstr(err.why, "8000000 values"));
    free(text);
}

/* ---- redaction */

static void redaction_leaves_out_the_owner_and_keeps_what_decides(void **state)
{
    (void)state;
    struct rig_topology *t = read_text(everything);
    char *text = write_text(t, true);
    assert_null(strstr(text, "lab7"));
    assert_null(strstr(text, "sda1"));
    assert_null(strstr(text, "first"));
    assert_non_null(strstr(text, "\"iommu=pt pci=disable_acs_redir=0000:00:01.0\""));
    assert_non_null(strstr(text, "AuthenticAMD"));
    assert_non_null(strstr(text, "6.1.0-18-amd64"));
    assert_string_equal(rig_topology_machine(t)->host.value, "lab7");
    struct rig_topology *again = read_text(text);
    /* 0xe0000000 has 32 bits: its kind moves to 0x80000000. 0x40e0000000 has 39 bits and the
       unit is 1 MiB. */
    const struct rig_function *f = &node_of(again, "gpu0")->f;
    assert_int_equal(f->bar[2].bus.value, 0x80000000);
    assert_int_equal(f->bar[2].cpu.value, 0x4000000000);
    assert_int_equal(node_of(again, "0000:00:01.0")->f.memory.base.value, 0x80000000);
    assert_int_equal(node_of(again, "0000:00:01.0")->f.memory.limit.value, 0x81ffffff);
    assert_int_equal(f->bar[0].bus.value, 0x10000000000);
    assert_int_equal(f->subsystem_vendor.value, 0x1da2);
    rig_topology_free(t);
    rig_topology_free(again);
    free(text);
}

/* ---- whole machines */

static void same_answers(const struct rig_topology *a, const struct rig_topology *b)
{
    struct rig_reach_table *x, *y;
    int n = rig_topology_count(a);
    assert_int_equal(rig_topology_count(b), n);
    assert_int_equal(rig_reach_table_make(a, rig_rules_default(a, NULL), &x, NULL), RIG_OK);
    assert_int_equal(rig_reach_table_make(b, rig_rules_default(b, NULL), &y, NULL), RIG_OK);
    int *all = calloc((size_t)n, sizeof *all);
    uint8_t *p = malloc((size_t)n), *q = malloc((size_t)n);
    uint16_t *d = calloc((size_t)n, sizeof *d), *e = calloc((size_t)n, sizeof *e);
    assert_true(all && p && q && d && e);
    for (int i = 0; i < n; i++)
        all[i] = i;
    for (int i = 0; i < n; i++) {
        rig_reach_table_row(x, i, all, n, p, d);
        rig_reach_table_row(y, i, all, n, q, e);
        assert_memory_equal(p, q, (size_t)n);
        assert_memory_equal(d, e, (size_t)n * sizeof *d);
    }
    free(all);
    free(p);
    free(q);
    free(d);
    free(e);
    rig_reach_table_free(x);
    rig_reach_table_free(y);
}

static void a_captured_machine_answers_as_its_source_also_redacted(void **state)
{
    (void)state;
    glob_t machines;
    assert_int_equal(glob("tests/machines/*.[jth]*", 0, NULL, &machines), 0);
    assert_true(machines.gl_pathc >= 9);
    for (size_t i = 0; i < machines.gl_pathc; i++) {
        struct rig_topology *t = NULL;
        struct rig_error err;
        rig_error_clear(&err);
        if (rig_topology_load(machines.gl_pathv[i], &t, &err) != RIG_OK)
            fail_msg("%s: %s", err.what, err.why);
        char *text = write_text(t, false), *redacted = write_text(t, true);
        struct rig_topology *again = read_text(text), *bare = read_text(redacted);
        char *second = write_text(again, false);
        assert_string_equal(text, second);
        same_answers(t, again);
        same_answers(t, bare);
        rig_topology_free(t);
        rig_topology_free(again);
        rig_topology_free(bare);
        free(text);
        free(redacted);
        free(second);
    }
    globfree(&machines);
}

/* The literal block of the manual page, which ends with it. */
static char *manual_example(void)
{
    FILE *file = fopen("man/rigmem-machine.5", "r");
    assert_non_null(file);
    char *page = calloc(1, 65536);
    assert_non_null(page);
    assert_true(fread(page, 1, 65535, file) > 0);
    fclose(file);
    char *begin = strstr(page, ".Bd -literal\n{");
    assert_non_null(begin);
    begin += strlen(".Bd -literal\n");
    char *end = strstr(begin, "\n.Ed");
    assert_non_null(end);
    char *text = strndup(begin, (size_t)(end - begin));
    free(page);
    return text;
}

/* The ports part at 0000:02:08.0, whose control 0x001d redirects; an AMD processor of family 25
   carries what then passes the host bridge: 2 steps on each side of the switch's upstream port. */
static void the_manuals_example_answers_as_the_manual_says(void **state)
{
    (void)state;
    char *text = manual_example();
    struct rig_topology *t = read_text(text);
    struct rig_reach reach;
    assert_int_equal(rig_reach_pair(t, rig_rules_default(t, NULL), rig_topology_find(t, "gpu0"),
                                    rig_topology_find(t, "gpu1"), &reach, NULL),
                     RIG_OK);
    assert_int_equal(reach.answer, RIG_ANSWER_YES);
    assert_int_equal(reach.p2pdma.possible, RIG_THRU_HOST_BRIDGE);
    assert_int_equal(reach.p2pdma.distance, 4);
    rig_reach_free(&reach);
    rig_topology_free(t);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_capture_of_a_capture_is_the_same_byte_for_byte),
        cmocka_unit_test(the_machine_has_what_the_capture_says),
        cmocka_unit_test(a_bridge_has_what_the_capture_says),
        cmocka_unit_test(a_gpu_has_what_the_capture_says),
        cmocka_unit_test(places_are_what_the_capture_says),
        cmocka_unit_test(the_least_a_person_writes_is_enough),
        cmocka_unit_test(text_that_is_no_utf8_is_taken_for_latin1),
        cmocka_unit_test(one_address_of_a_bar_is_written_where_both_are_known_from_the_same),
        cmocka_unit_test(what_breaks_a_rule_is_refused_with_its_place_and_the_rule),
        cmocka_unit_test(too_deep_or_too_many_is_refused_before_it_is_built),
        cmocka_unit_test(redaction_leaves_out_the_owner_and_keeps_what_decides),
        cmocka_unit_test(the_manuals_example_answers_as_the_manual_says),
        cmocka_unit_test(a_captured_machine_answers_as_its_source_also_redacted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
