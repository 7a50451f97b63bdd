/* Linux's decision, case by case. The expected verdicts and distances are those of Linux 6.1 and of
   the other kernels named, worked out from drivers/pci/p2pdma.c, not from this library. */
#include "builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define INTEL "Intel:6"
#define B RIG_BUS_ADDR
#define T RIG_THRU_HOST_BRIDGE
#define N RIG_NOT_SUPPORTED

/* Pieces of machines. */
#define HOST_CLIENT "00:00.0 host id=8086:4c43\n"
#define ONE_PORT(acs) "00:01.0 rp 01-01 acs=" acs "\n01:00.0 ep\n01:00.1 ep\n"
#define SWITCH(rp, up, p, c)                                                                       \
    "00:01.0 rp 01-04 acs=" rp "\n01:00.0 up 02-04 acs=" up "\n02:00.0 down 03-03 acs=" p          \
    "\n02:01.0 down 04-04 acs=" c "\n03:00.0 ep\n04:00.0 ep\n"
#define PLAIN_SWITCH SWITCH("0000", "0000", "0000", "0000")
#define TWO_PORTS "00:01.0 rp 01-01\n00:02.0 rp 02-02\n01:00.0 ep\n02:00.0 ep\n"
#define TWO_PORTS_ACS                                                                              \
    "00:01.0 rp 01-01 acs=001d\n00:02.0 rp 02-02 acs=001d\n01:00.0 ep\n02:00.0 ep\n"
/* Bridges 00 and 80, their first functions given, a port with an endpoint under each. */
#define TWO_BRIDGES(a, b) a "00:08.0 rp 01-01\n01:00.0 ep\n" b "80:08.0 rp 81-81\n81:00.0 ep\n"
#define CASCADE(m)                                                                                 \
    "00:01.0 rp 01-08\n01:00.0 up 02-08\n02:00.0 down 03-05\n02:01.0 down 06-06\n"                 \
    "03:00.0 up 04-05\n04:00.0 down 05-05 acs=" m "\n05:00.0 ep\n06:00.0 ep\n"
#define TWIN_CARDS(acs)                                                                            \
    "00:01.0 rp 01-0a\n01:00.0 up 02-0a\n02:00.0 down 03-05 acs=" acs                              \
    "\n02:01.0 down 06-08 acs=" acs "\n03:00.0 up 04-05\n04:00.0 down 05-05 acs=" acs              \
    "\n06:00.0 up 07-08\n07:00.0 down 08-08 acs=" acs "\n05:00.0 ep\n08:00.0 ep\n"

static const struct row {
    const char *name, *machine, *cpu, *provider, *client;
    unsigned verdict;
    int distance;
    unsigned on_5_15, on_newest; /* 0: as 6.1 */
} rows[] = {
    {"1", HOST_CLIENT ONE_PORT("none"), INTEL, "01:00.0", "01:00.0", B, 0, 0, 0},
    {"2", HOST_CLIENT "00:01.0 rp 01-01\n01:00.0 ep acs=0004\n", INTEL, "01:00.0", "01:00.0", N, 0,
     0, 0},
    {"3", HOST_CLIENT ONE_PORT("none"), INTEL, "01:00.0", "01:00.1", B, 2, 0, 0},
    {"4", ONE_PORT("001d"), "AMD:25", "01:00.0", "01:00.1", T, 2, 0, 0},
    {"5", HOST_CLIENT ONE_PORT("001d"), INTEL, "01:00.0", "01:00.1", N, 2, 0, 0},
    {"6", HOST_CLIENT SWITCH("none", "none", "none", "none"), INTEL, "03:00.0", "04:00.0", B, 4, 0,
     0},
    {"7", SWITCH("none", "none", "001d", "none"), "AMD:25", "03:00.0", "04:00.0", T, 4, 0, 0},
    {"8", HOST_CLIENT SWITCH("0000", "0000", "0000", "0008"), INTEL, "03:00.0", "04:00.0", N, 4, 0,
     0},
    {"9", HOST_CLIENT SWITCH("0000", "0000", "0020", "0000"), INTEL, "03:00.0", "04:00.0", N, 4, 0,
     0},
    {"10", HOST_CLIENT SWITCH("0000", "0000", "0053", "0053"), INTEL, "03:00.0", "04:00.0", B, 4, 0,
     0},
    {"11", HOST_CLIENT SWITCH("001d", "0000", "0000", "0000"), INTEL, "03:00.0", "04:00.0", B, 4, 0,
     0},
    {"12", HOST_CLIENT SWITCH("0000", "0004", "0000", "0000"), INTEL, "03:00.0", "04:00.0", N, 4, 0,
     0},
    {"13", HOST_CLIENT CASCADE("none"), INTEL, "05:00.0", "06:00.0", B, 6, 0, 0},
    {"14", HOST_CLIENT CASCADE("0004"), INTEL, "05:00.0", "06:00.0", N, 6, 0, 0},
    {"15", HOST_CLIENT TWIN_CARDS("000c"), INTEL, "05:00.0", "08:00.0", N, 8, 0, 0},
    {"16", HOST_CLIENT TWIN_CARDS("0000"), INTEL, "05:00.0", "08:00.0", B, 8, 0, 0},
    {"17", TWO_PORTS, "AMD:23", "01:00.0", "02:00.0", T, 4, 0, 0},
    {"18", TWO_PORTS_ACS, "AMD:25", "01:00.0", "02:00.0", T, 4, 0, 0},
    {"19", TWO_BRIDGES("", ""), "AMD:26", "01:00.0", "81:00.0", T, 4, 0, 0},
    {"20", "00:00.0 host id=1022:1410\n" TWO_PORTS, "AMD:21", "01:00.0", "02:00.0", N, 4, 0, 0},
    {"21", "00:00.0 host id=1022:1450\n" TWO_PORTS, "Hygon:24", "01:00.0", "02:00.0", N, 4, 0, 0},
    {"22", "00:00.0 host id=8086:3c00\n" TWO_PORTS, INTEL, "01:00.0", "02:00.0", T, 4, 0, 0},
    {"23", TWO_BRIDGES("00:00.0 host id=8086:3c00\n", "80:00.0 rp 90-90 id=8086:3c01\n"), INTEL,
     "01:00.0", "81:00.0", N, 4, 0, 0},
    {"24", TWO_BRIDGES("00:00.0 host id=8086:2f00\n", "80:00.0 rp 90-90 id=8086:2f01\n"), INTEL,
     "01:00.0", "81:00.0", N, 4, 0, 0},
    {"25", "00:00.0 host id=8086:6f00\n" TWO_PORTS, INTEL, "01:00.0", "02:00.0", N, 4, 0, 0},
    {"26", TWO_BRIDGES("00:00.0 rp 10-10 id=8086:2030\n", "80:00.0 rp 90-90 id=8086:2030\n"), INTEL,
     "01:00.0", "81:00.0", T, 4, 0, 0},
    {"27", TWO_BRIDGES("00:01.0 rp 10-10 id=8086:2031\n", "80:02.0 rp 90-90 id=8086:2032\n"), INTEL,
     "01:00.0", "81:00.0", T, 4, N, 0},
    {"28", TWO_BRIDGES("00:05.0 rciep id=8086:2034\n", "80:00.0 rp 90-90 id=8086:2030\n"), INTEL,
     "01:00.0", "81:00.0", N, 4, 0, 0},
    {"29", "01:00.0 ep root=00\n80:00.0 rp 81-81 id=8086:2030\n81:00.0 ep\n", INTEL, "01:00.0",
     "81:00.0", N, 3, 0, 0},
    {"30", "00:00.0 host id=8086:2020\n" TWO_PORTS, INTEL, "01:00.0", "02:00.0", T, 4, 0, 0},
    {"31", TWO_BRIDGES("00:00.0 host id=8086:09a2\n", "80:00.0 host id=8086:09a2\n"), INTEL,
     "01:00.0", "81:00.0", T, 4, N, 0},
    {"32", "00:00.0 host id=8086:09a2\n00:01.0 rp 01-01\n01:00.0 ep\nf3:00.0 rciep id=8086:4940\n",
     INTEL, "01:00.0", "f3:00.0", N, 3, 0, T},
    {"33", HOST_CLIENT TWO_PORTS, INTEL, "01:00.0", "02:00.0", N, 4, 0, 0},
    {"34", "00:00.0 host id=8086:3c00\n" SWITCH("0000", "0000", "001d", "001d"), INTEL, "03:00.0",
     "04:00.0", T, 4, 0, 0},
    {"35", "00:04.0 rciep\n00:05.0 rciep\n", "AMD:25", "00:04.0", "00:05.0", T, 2, 0, 0},
    {"36", HOST_CLIENT "00:04.0 rciep\n00:04.1 rciep\n", INTEL, "00:04.0", "00:04.1", N, 2, 0, 0},
    {"37", "00:00.0 host id=8086:09a2\n00:01.0 rp 01-01\n00:02.0 rciep\n01:00.0 ep\n", INTEL,
     "00:02.0", "01:00.0", T, 3, N, 0},
    {"38", HOST_CLIENT "00:01.0 rp 01-02\n01:00.0 p2pci 02-02\n02:01.0 pci\n02:02.0 pci\n", INTEL,
     "02:01.0", "02:02.0", B, 2, 0, 0},
    {"39",
     HOST_CLIENT "00:01.0 rp 01-05\n01:00.0 up 02-05\n02:00.0 down 03-04 acs=001d\n"
                 "02:01.0 down 05-05\n03:00.0 p2pci 04-04\n04:00.0 pci\n05:00.0 ep\n",
     INTEL, "04:00.0", "05:00.0", N, 5, 0, 0},
    {"40",
     "0000:00:00.0 rp 01-01 id=1def:e100\n0000:01:00.0 ep\n"
     "0001:00:00.0 rp 01-01 id=1def:e100\n0001:01:00.0 ep\n",
     "ARM:0", "0000:01:00.0", "0001:01:00.0", N, 4, 0, 0},
    {"41", SWITCH("none", "none", "none", "none"), "ARM:0", "03:00.0", "04:00.0", B, 4, 0, 0},
    {"42",
     "0000:00:00.0 host id=8086:09a2\n0000:00:0e.0 rciep id=8086:28c0\n"
     "10000:e0:00.0 rp e1-e1 id=8086:347a root=e0\n10000:e0:01.0 rp e2-e2 id=8086:347b root=e0\n"
     "10000:e1:00.0 ep\n10000:e2:00.0 ep\n",
     INTEL, "10000:e1:00.0", "10000:e2:00.0", N, 4, 0, 0},
    {"43",
     "0000:00:00.0 host id=8086:09a2\n0000:00:01.0 rp 01-01\n0000:01:00.0 ep\n"
     "10000:e0:00.0 rp e1-e1 id=8086:347a root=e0\n10000:e1:00.0 ep\n",
     INTEL, "10000:e1:00.0", "0000:01:00.0", N, 4, 0, 0},
    {"43 on AMD",
     "0000:00:00.0 host id=8086:09a2\n0000:00:01.0 rp 01-01\n0000:01:00.0 ep\n"
     "10000:e0:00.0 rp e1-e1 id=8086:347a root=e0\n10000:e1:00.0 ep\n",
     "AMD:25", "10000:e1:00.0", "0000:01:00.0", T, 4, 0, 0},
    {"44", HOST_CLIENT SWITCH("none", "none", "none", "none") "05:00.0 ep pf=04:00.0\n", INTEL,
     "03:00.0", "05:00.0", B, 4, 0, 0},
    {"45", HOST_CLIENT "00:01.0 rp 01-02\n01:00.0 ep\n02:00.0 ep pf=01:00.0\n", INTEL, "01:00.0",
     "02:00.0", B, 2, 0, 0},
    {"45 redirecting", HOST_CLIENT "00:01.0 rp 01-02 acs=001d\n01:00.0 ep\n02:00.0 ep pf=01:00.0\n",
     INTEL, "01:00.0", "02:00.0", N, 2, 0, 0},
    {"46", HOST_CLIENT "00:04.0 rciep\n01:00.0 rciep pf=00:04.0\n01:00.1 rciep pf=00:04.0\n", INTEL,
     "01:00.0", "01:00.1", N, 2, 0, 0},
    {"47",
     HOST_CLIENT "00:01.0 rp 01-04\n01:00.0 up 02-04\n02:00.0 down 03-03\n02:01.0 down 04-04\n"
                 "03:00.0 ep\n04:00.0 ep acs=000c\n",
     INTEL, "03:00.0", "04:00.0", N, 4, 0, 0},
    {"48",
     HOST_CLIENT "00:01.0 rp 01-03\n01:00.0 up 02-03\n01:00.1 ep\n02:00.0 down 03-03\n03:00.0 ep\n",
     INTEL, "01:00.1", "03:00.0", B, 4, 0, 0},
    {"48 redirecting",
     HOST_CLIENT
     "00:01.0 rp 01-03 acs=0004\n01:00.0 up 02-03\n01:00.1 ep\n02:00.0 down 03-03\n03:00.0 ep\n",
     INTEL, "01:00.1", "03:00.0", N, 4, 0, 0},
    {"49", HOST_CLIENT PLAIN_SWITCH, INTEL, "01:00.0", "03:00.0", B, 2, 0, 0},
    {"50", HOST_CLIENT SWITCH("0000", "0000", "0000", "ffff"), INTEL, "03:00.0", "04:00.0", N, 4, 0,
     0},
    {"51 on AMD", "00:00.0 host id=8086:29c0\n" TWO_PORTS, "AMD:25", "01:00.0", "02:00.0", T, 4, 0,
     0},
    {"51 on Intel", "00:00.0 host id=8086:29c0\n" TWO_PORTS, INTEL, "01:00.0", "02:00.0", N, 4, 0,
     0},
    {"52 same bridge", "00:00.0 host id=1d17:1003\n" TWO_PORTS, "Zhaoxin:7", "01:00.0", "02:00.0",
     N, 4, 0, T},
    {"52 two bridges", TWO_BRIDGES("00:00.0 host id=1d17:1003\n", "80:00.0 host id=1d17:1003\n"),
     "Zhaoxin:7", "01:00.0", "81:00.0", N, 4, 0, 0},
    {"52 wildcard", "00:00.0 host id=1ae0:0001\n" TWO_PORTS, "ARM:0", "01:00.0", "02:00.0", N, 4, 0,
     T},
    {"52 Vera",
     "0000:00:00.0 rp 01-01 id=10de:2f95\n0000:01:00.0 ep\n"
     "0001:00:00.0 rp 01-01 id=10de:2f96\n0001:01:00.0 ep\n",
     "ARM:0", "0000:01:00.0", "0001:01:00.0", N, 4, 0, T},
};

static void check(const struct row *row, const struct rig_topology *t, const char *kernel,
                  unsigned verdict)
{
    for (int turn = 0; turn < 2; turn++) {
        int p = function_at(t, turn ? row->client : row->provider);
        int c = function_at(t, turn ? row->provider : row->client);
        struct rig_p2pdma d;
        assert_int_equal(rig_p2pdma_decide(t, rig_rules_for(kernel), p, c, &d, NULL), RIG_OK);
        if (d.possible != verdict || d.distance != row->distance)
            fail_msg("row %s, rules %s: verdicts %u at distance %d, not %u at %d", row->name,
                     kernel, d.possible, d.distance, verdict, row->distance);
        rig_p2pdma_free(&d);
    }
}

static void each_row_of_the_table_has_linux_answer(void **state)
{
    (void)state;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        const struct row *row = &rows[i];
        struct rig_topology *t = build_machine(row->machine, row->cpu);
        check(row, t, "6.1", row->verdict);
        check(row, t, "6.6.30", row->verdict);
        check(row, t, "6.12", row->verdict);
        check(row, t, "5.15", row->on_5_15 ? row->on_5_15 : row->verdict);
        check(row, t, "5.10", row->on_5_15 ? row->on_5_15 : row->verdict);
        check(row, t, "newest", row->on_newest ? row->on_newest : row->verdict);
        rig_topology_free(t);
    }
}

static unsigned possible(const struct rig_topology *t, const char *kernel, const char *p,
                         const char *c)
{
    struct rig_p2pdma d;
    assert_int_equal(
        rig_p2pdma_decide(t, rig_rules_for(kernel), function_at(t, p), function_at(t, c), &d, NULL),
        RIG_OK);
    rig_p2pdma_free(&d);
    return d.possible;
}

/* 5.18 lists Ice Lake's bridge and still wants slot 00.0; 7.1 brings the wildcard but not the
 * accelerators. */
static void rule_sets_between_differ_where_linux_does(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine("00:00.0 host id=8086:09a2\n" TWO_PORTS, INTEL);
    assert_int_equal(possible(t, "5.15", "01:00.0", "02:00.0"), N);
    assert_int_equal(possible(t, "5.18", "01:00.0", "02:00.0"), T);
    rig_topology_free(t);
    t = build_machine(
        TWO_BRIDGES("00:01.0 rp 10-10 id=8086:2031\n", "80:02.0 rp 90-90 id=8086:2032\n"), INTEL);
    assert_int_equal(possible(t, "5.18", "01:00.0", "81:00.0"), N);
    assert_int_equal(possible(t, "5.19", "01:00.0", "81:00.0"), T);
    rig_topology_free(t);
    t = build_machine("00:00.0 host id=1ae0:0042\n" TWO_PORTS, "ARM:0");
    assert_int_equal(possible(t, "7.0", "01:00.0", "02:00.0"), N);
    assert_int_equal(possible(t, "7.1", "01:00.0", "02:00.0"), T);
    rig_topology_free(t);
    t = build_machine("00:00.0 host id=8086:0b25\n" TWO_PORTS, INTEL);
    assert_int_equal(possible(t, "7.1", "01:00.0", "02:00.0"), N);
    assert_int_equal(possible(t, "7.2", "01:00.0", "02:00.0"), T);
    assert_int_equal(possible(t, "8.4", "01:00.0", "02:00.0"), T);
    rig_topology_free(t);
}

static void a_release_chooses_its_rule_set(void **state)
{
    (void)state;
    assert_string_equal(rig_rules_name(rig_rules_for("6.1.0-18-amd64")), "6.1");
    assert_string_equal(rig_rules_name(rig_rules_for("5.10.0-28-amd64")), "5.10");
    assert_string_equal(rig_rules_name(rig_rules_for("5.15.0-91-generic")), "5.15");
    assert_string_equal(rig_rules_name(rig_rules_for("6.12.117")), "6.1");
    assert_string_equal(rig_rules_name(rig_rules_for("7.1.3")), "7.1");
    assert_string_equal(rig_rules_name(rig_rules_for(NULL)), "7.2");
    assert_null(rig_rules_for("4.19"));
    assert_null(rig_rules_for("banana"));
    assert_null(rig_rules_for(""));
    assert_null(rig_rules_for("6"));
    assert_null(rig_rules_for(" 6.1"));
    assert_null(rig_rules_for("+6.1"));
    assert_null(rig_rules_for("v6.1"));
}

static void expect_default(struct rig_topology *t, const char *kernel, const char *rules,
                           const char *why)
{
    const char *from = NULL;
    t->machine.kernel = kernel ? topology_text(t, kernel) : (struct rig_text){.value = NULL};
    assert_string_equal(rig_rules_name(rig_rules_default(t, &from)), rules);
    assert_non_null(strstr(from, why));
    assert_string_equal(rig_rules_name(rig_rules_default(t, NULL)), rules);
}

static void a_machines_kernel_chooses_its_rule_set(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(HOST_CLIENT, INTEL);
    expect_default(t, NULL, "7.2", "no kernel is known: the newest");
    expect_default(t, "6.8.0-31-generic", "6.1", "the machine's kernel");
    expect_default(t, "4.19.0-26-amd64", "5.10", "older than every rule set: the oldest");
    expect_default(t, "my-kernel", "7.2", "no version that can be read: the newest");
    expect_default(t, "6-rc", "7.2", "no version that can be read: the newest");
    rig_topology_free(t);
}

/* arm64's /proc/cpuinfo has no family: a source that shows that it has none decides. */
static void a_cpu_without_a_family_is_not_amds(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(HOST_CLIENT TWO_PORTS, "AMD:25");
    assert_int_equal(possible(t, "6.1", "01:00.0", "02:00.0"), T);
    t->machine.cpu_family = fact_absent();
    assert_int_equal(possible(t, "6.1", "01:00.0", "02:00.0"), N);
    t->machine.cpu_family = fact_unknown(NULL);
    assert_int_equal(possible(t, "6.1", "01:00.0", "02:00.0"), T | N);
    t->machine.cpu_vendor = (struct rig_text){.know = RIG_FACT_ABSENT};
    assert_int_equal(possible(t, "6.1", "01:00.0", "02:00.0"), N);
    rig_topology_free(t);
}

/* Only devfn 00.0, or since 5.19 a root port, stands for its host bridge (pci_host_bridge_dev). */
static void function_1_of_device_0_stands_as_a_root_port_alone(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine("00:00.1 rp 10-10 id=8086:2030\n" TWO_PORTS, INTEL);
    assert_int_equal(possible(t, "6.1", "01:00.0", "02:00.0"), T);
    assert_int_equal(possible(t, "5.15", "01:00.0", "02:00.0"), N);
    rig_topology_free(t);
    t = build_machine("00:00.1 host id=8086:2030\n" TWO_PORTS, INTEL);
    assert_int_equal(possible(t, "6.1", "01:00.0", "02:00.0"), N);
    rig_topology_free(t);
}

/* A text that somebody cut: function .1 of a root bus need not be its first. */
static void a_root_bus_whose_first_function_may_be_missing_leaves_the_list_open(void **state)
{
    (void)state;
    struct rig_topology *t =
        build_machine("00:01.1 rp 10-10 id=8086:2030\n00:02.0 rp 01-01\n01:00.0 ep\n"
                      "00:03.0 rp 02-02\n02:00.0 ep\n",
                      INTEL);
    assert_int_equal(possible(t, "6.1", "01:00.0", "02:00.0"), T);
    t->whole = false;
    assert_int_equal(topology_finish(t, "test", NULL), RIG_OK);
    assert_int_equal(possible(t, "6.1", "01:00.0", "02:00.0"), T | N);
    assert_int_equal(rig_topology_set_cpu(t, "AMD", 25, NULL, NULL), RIG_OK);
    assert_int_equal(possible(t, "6.1", "01:00.0", "02:00.0"), T);
    rig_topology_free(t);
}

/* What is no PCI Express function has no ACS capability (pci_find_ext_capability finds none). */
static void a_conventional_bridge_redirects_nothing_even_unread(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(
        HOST_CLIENT "00:1e.0 pcibr 05-05 acs=unknown\n05:00.0 pci acs=unknown\n05:01.0 pci\n",
        INTEL);
    assert_int_equal(possible(t, "6.1", "05:00.0", "05:01.0"), B);
    rig_topology_free(t);
}

/* Several clients: the sum of the distances, or none where one is refused. */
static void the_distance_to_many_is_the_sum(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(PLAIN_SWITCH "00:02.0 rp 05-05\n05:00.0 ep\n", "AMD:25");
    const struct rig_rules *rules = rig_rules_for("6.1");
    int p = function_at(t, "03:00.0");
    int clients[] = {function_at(t, "04:00.0"), function_at(t, "05:00.0")};
    bool unknown = true;
    /* 4 under the switch; three functions up from p and two from 05:00.0 make 4 and 2 = 6. */
    assert_int_equal(rig_p2pdma_distance(t, rules, p, clients, 1, &unknown), 4);
    assert_false(unknown);
    assert_int_equal(rig_p2pdma_distance(t, rules, p, clients, 2, NULL), 4 + 6);
    assert_int_equal(rig_p2pdma_distance(t, rules, p, clients, 0, NULL), -1);
    assert_int_equal(rig_topology_set_cpu(t, "Intel", 6, NULL, NULL), RIG_OK);
    assert_int_equal(rig_p2pdma_distance(t, rules, p, clients, 2, &unknown), -1);
    assert_false(unknown);
    rig_topology_free(t);
}

/* As far as facts go: one client that is certainly refused decides, whatever the others are. */
static void the_distance_to_many_is_unknown_where_one_is_and_none_is_refused(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(
        HOST_CLIENT SWITCH("none", "none", "unknown",
                           "none") "00:02.0 rp 05-05 acs=0004\n05:00.0 ep\n05:00.1 ep\n",
        INTEL);
    const struct rig_rules *rules = rig_rules_for("6.1");
    int p = function_at(t, "03:00.0");
    int clients[] = {function_at(t, "04:00.0"), function_at(t, "05:00.0")};
    bool unknown = false;
    assert_int_equal(rig_p2pdma_distance(t, rules, p, clients, 1, &unknown), -1);
    assert_true(unknown);
    assert_int_equal(rig_p2pdma_distance(t, rules, p, clients, 1, NULL), -1);
    assert_int_equal(rig_p2pdma_distance(t, rules, p, clients, 2, &unknown), -1);
    assert_false(unknown);
    rig_topology_free(t);
    /* Carried for certain, and yet the way's length is not known: its upper part is missing. */
    t = build_machine("00:01.0 rp 01-01\n01:00.0 ep\n05:00.0 ep\n", "AMD:25");
    int far = function_at(t, "05:00.0");
    p = function_at(t, "01:00.0");
    assert_int_equal(possible(t, "6.1", "01:00.0", "05:00.0"), T);
    assert_int_equal(rig_p2pdma_distance(t, rules, p, &far, 1, &unknown), -1);
    assert_true(unknown);
    rig_topology_free(t);
}

static void missing_facts_leave_open_only_what_hangs_on_them(void **state)
{
    (void)state;
    /* Ports unread: on AMD certainly carried, on an unlisted bridge open, and never asked without a
     * common bridge. */
    struct rig_topology *t =
        build_machine(HOST_CLIENT SWITCH("none", "none", "unknown", "none"), NULL);
    assert_int_equal(possible(t, "6.1", "03:00.0", "04:00.0"), B | T | N);
    rig_topology_set_cpu(t, "AMD", 25, NULL, NULL);
    assert_int_equal(possible(t, "6.1", "03:00.0", "04:00.0"), B | T);
    rig_topology_set_cpu(t, "Intel", 6, NULL, NULL);
    assert_int_equal(possible(t, "6.1", "03:00.0", "04:00.0"), B | N);
    rig_topology_free(t);
    /* One known redirect and an unlisted bridge is no, whatever the unread ports hold. */
    t = build_machine(HOST_CLIENT SWITCH("none", "unknown", "0004", "unknown"), INTEL);
    assert_int_equal(possible(t, "6.1", "03:00.0", "04:00.0"), N);
    rig_topology_free(t);
    /* Listed bridges are yes without any CPU fact. */
    t = build_machine("00:00.0 host id=8086:2020\n" TWO_PORTS, NULL);
    assert_int_equal(possible(t, "6.1", "01:00.0", "02:00.0"), T);
    rig_topology_free(t);
    /* Unlisted bridges hang on the CPU alone. */
    t = build_machine(HOST_CLIENT TWO_PORTS, NULL);
    assert_int_equal(possible(t, "6.1", "01:00.0", "02:00.0"), T | N);
    rig_topology_free(t);
    /* A representative in a slot that must be a root port, its type not read: open only where its
     * id is listed. */
    t = build_machine("00:01.0 rp 10-10 id=8086:2f01 type=unknown\n00:08.0 rp 01-01\n01:00.0 ep\n"
                      "00:09.0 rp 02-02\n02:00.0 ep\n",
                      INTEL);
    assert_int_equal(possible(t, "6.1", "01:00.0", "02:00.0"), T | N);
    assert_int_equal(possible(t, "5.15", "01:00.0", "02:00.0"), N);
    rig_topology_free(t);
    /* Skylake-E's ports are known by their ids. */
    t = build_machine(TWO_BRIDGES("00:01.0 rp 10-10 id=8086:2031 type=unknown\n",
                                  "80:00.0 rp 90-90 id=8086:2030\n"),
                      INTEL);
    assert_int_equal(possible(t, "6.1", "01:00.0", "81:00.0"), T);
    rig_topology_free(t);
    t = build_machine(TWO_BRIDGES("00:01.0 rp 10-10 id=8086:4c43 type=unknown\n",
                                  "80:00.0 rp 90-90 id=8086:2030\n"),
                      INTEL);
    assert_int_equal(possible(t, "6.1", "01:00.0", "81:00.0"), N);
    rig_topology_free(t);
}

static void a_cut_source_leaves_open_what_is_above(void **state)
{
    (void)state;
    /* The switch without the root port above it. */
    struct rig_topology *t = build_machine(
        "01:00.0 up 02-04 acs=0000\n02:00.0 down 03-03 acs=001d\n"
        "02:01.0 down 04-04 acs=0000\n02:02.0 down 05-05 acs=0000\n03:00.0 ep\n04:00.0 ep\n05:00.0 ep\n",
        NULL);
    assert_int_equal(possible(t, "6.1", "04:00.0", "05:00.0"), B);
    assert_int_equal(possible(t, "6.1", "03:00.0", "04:00.0"), T | N);
    rig_topology_set_cpu(t, "Intel", 6, NULL, NULL);
    assert_int_equal(possible(t, "6.1", "03:00.0", "04:00.0"), T | N);
    rig_topology_set_cpu(t, "AMD", 25, NULL, NULL);
    assert_int_equal(possible(t, "6.1", "03:00.0", "04:00.0"), T);
    rig_topology_free(t);
}

/* What may be above both of two functions, one of them below something that the source lacks: a
   bridge on a root bus whose range holds the other's bus, or is not known. */
static void what_is_above_a_cut_tree_may_be_a_bridge_that_can_lead_there(void **state)
{
    (void)state;
    struct rig_topology *t =
        build_machine("00:01.0 rp 01-08 acs=001d\n00:02.0 rp 09-09\n00:03.0 rciep\n"
                      "05:00.0 ep acs=0004\n20:00.0 ep\n0001:05:00.0 ep\n",
                      INTEL);
    /* 00:01.0, the first function of its root bus, is not listed; what is above the others is not
     * known. */
    static const struct {
        const char *a, *b;
        unsigned verdicts;
    } pairs[] = {
        {"00:01.0", "05:00.0", N},          {"00:01.0", "20:00.0", N},
        {"00:03.0", "05:00.0", N},          {"05:00.0", "20:00.0", T | N},
        {"05:00.0", "0001:05:00.0", T | N},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(pairs); i++) {
        assert_int_equal(possible(t, "6.1", pairs[i].a, pairs[i].b), pairs[i].verdicts);
        assert_int_equal(possible(t, "6.1", pairs[i].b, pairs[i].a), pairs[i].verdicts);
    }
    /* 00:01.0's range holds bus 5, and both redirect. */
    static const struct {
        const char *a, *b;
        enum rig_answer common;
        int redirecting;
    } joins[] = {
        {"00:01.0", "05:00.0", RIG_ANSWER_UNKNOWN, 2},
        {"05:00.0", "00:01.0", RIG_ANSWER_UNKNOWN, 2},
        {"00:01.0", "20:00.0", RIG_ANSWER_NO, 0},
        {"20:00.0", "00:01.0", RIG_ANSWER_NO, 0},
        {"00:02.0", "05:00.0", RIG_ANSWER_NO, 0},
        {"00:03.0", "05:00.0", RIG_ANSWER_NO, 0},
        {"05:00.0", "20:00.0", RIG_ANSWER_UNKNOWN, 1},
        {"05:00.0", "0001:05:00.0", RIG_ANSWER_NO, 0},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(joins); i++) {
        struct rig_p2pdma d;
        assert_int_equal(rig_p2pdma_decide(t, rig_rules_for("6.1"), function_at(t, joins[i].a),
                                           function_at(t, joins[i].b), &d, NULL),
                         RIG_OK);
        assert_int_equal(d.has_common, joins[i].common);
        assert_int_equal(d.redirecting_count, joins[i].redirecting);
        assert_int_equal(d.distance, -1);
        rig_p2pdma_free(&d);
    }
    rig_topology_free(t);
}

static enum rig_answer may_join(struct rig_topology *t, const char *a, const char *b)
{
    struct rig_p2pdma d;
    assert_int_equal(
        rig_p2pdma_decide(t, rig_rules_for("6.1"), function_at(t, a), function_at(t, b), &d, NULL),
        RIG_OK);
    rig_p2pdma_free(&d);
    return d.has_common;
}

static void a_bridge_whose_buses_or_kind_are_not_known_may_lead_anywhere(void **state)
{
    (void)state;
    struct rig_topology *t =
        build_machine("00:01.0 rp\n00:02.0 rp 06-09\n05:00.0 ep\n0a:00.0 ep\n", INTEL);
    assert_int_equal(may_join(t, "00:01.0", "05:00.0"), RIG_ANSWER_UNKNOWN);
    assert_int_equal(may_join(t, "00:02.0", "05:00.0"), RIG_ANSWER_NO);
    assert_int_equal(may_join(t, "00:02.0", "0a:00.0"), RIG_ANSWER_NO);
    struct rig_function *port = &t->node[function_at(t, "00:02.0")].f;
    port->subordinate = fact_unknown(NULL);
    assert_int_equal(may_join(t, "00:02.0", "0a:00.0"), RIG_ANSWER_UNKNOWN);
    port->subordinate = fact_known(9);
    port->header_type = fact_unknown(NULL);
    assert_int_equal(may_join(t, "00:02.0", "0a:00.0"), RIG_ANSWER_NO);
    port->secondary = fact_unknown(NULL);
    assert_int_equal(may_join(t, "00:02.0", "0a:00.0"), RIG_ANSWER_UNKNOWN);
    rig_topology_free(t);
}

/* A dump of 64 bytes a function, taken of some buses only: a bridge that nothing leads to is taken
 * to be on a root bus. */
static void a_bus_that_nothing_leads_to_is_assumed_a_root_bus(void **state)
{
    (void)state;
    struct rig_topology *t =
        build_machine("17:00.0 rp 18-18 id=8086:1234 type=unknown\n18:00.0 ep type=unknown\n"
                      "3a:00.0 rp 3b-3b id=8086:1234 type=unknown\n3b:00.0 ep type=unknown\n",
                      "AMD:25");
    struct rig_p2pdma d;
    assert_int_equal(rig_p2pdma_decide(t, rig_rules_for("6.1"), function_at(t, "18:00.0"),
                                       function_at(t, "3b:00.0"), &d, NULL),
                     RIG_OK);
    assert_int_equal(d.possible, T);
    assert_int_equal(d.distance, 4);
    rig_p2pdma_free(&d);
    assert_int_equal(t->node[function_at(t, "17:00.0")].f.parent_known.know, RIG_FACT_ASSUMED);
    rig_topology_free(t);
}

/* The order of the kernel's own list: the provider's path up to the common bridge, then the
 * client's. */
static void redirecting_functions_are_named_in_order(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(HOST_CLIENT TWIN_CARDS("000c"), INTEL);
    struct rig_p2pdma d;
    assert_int_equal(rig_p2pdma_decide(t, rig_rules_for("6.1"), function_at(t, "05:00.0"),
                                       function_at(t, "08:00.0"), &d, NULL),
                     RIG_OK);
    static const char *const expected[] = {"04:00.0", "02:00.0", "07:00.0", "02:01.0"};
    assert_int_equal(d.redirecting_count, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(d.redirecting[i], function_at(t, expected[i]));
    assert_int_equal(d.common, function_at(t, "01:00.0"));
    assert_int_equal(d.bridge[0].listed, RIG_LISTED_NO);
    assert_int_equal(d.bridge[0].representative, function_at(t, "00:00.0"));
    rig_p2pdma_free(&d);
    rig_topology_free(t);
}

static void numbers_out_of_range_are_misuse(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(HOST_CLIENT, INTEL);
    struct rig_p2pdma d;
    const struct rig_rules *rules = rig_rules_for("6.1");
    assert_int_equal(rig_p2pdma_decide(t, rules, -1, 0, &d, NULL), RIG_INVALID);
    assert_int_equal(rig_p2pdma_decide(t, rules, 0, 1, &d, NULL), RIG_INVALID);
    assert_int_equal(rig_p2pdma_decide(t, rules, 1, 0, &d, NULL), RIG_INVALID);
    assert_int_equal(rig_p2pdma_decide(t, rules, 0, -1, &d, NULL), RIG_INVALID);
    int one = 1;
    bool unknown = false;
    assert_int_equal(rig_p2pdma_distance(t, rules, 0, &one, 1, &unknown), -1);
    assert_true(unknown);
    rig_topology_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_of_the_table_has_linux_answer),
        cmocka_unit_test(rule_sets_between_differ_where_linux_does),
        cmocka_unit_test(a_release_chooses_its_rule_set),
        cmocka_unit_test(a_machines_kernel_chooses_its_rule_set),
        cmocka_unit_test(a_cpu_without_a_family_is_not_amds),
        cmocka_unit_test(function_1_of_device_0_stands_as_a_root_port_alone),
        cmocka_unit_test(a_root_bus_whose_first_function_may_be_missing_leaves_the_list_open),
        cmocka_unit_test(a_conventional_bridge_redirects_nothing_even_unread),
        cmocka_unit_test(the_distance_to_many_is_the_sum),
        cmocka_unit_test(the_distance_to_many_is_unknown_where_one_is_and_none_is_refused),
        cmocka_unit_test(missing_facts_leave_open_only_what_hangs_on_them),
        cmocka_unit_test(a_cut_source_leaves_open_what_is_above),
        cmocka_unit_test(what_is_above_a_cut_tree_may_be_a_bridge_that_can_lead_there),
        cmocka_unit_test(a_bridge_whose_buses_or_kind_are_not_known_may_lead_anywhere),
        cmocka_unit_test(a_bus_that_nothing_leads_to_is_assumed_a_root_bus),
        cmocka_unit_test(redirecting_functions_are_named_in_order),
        cmocka_unit_test(numbers_out_of_range_are_misuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
