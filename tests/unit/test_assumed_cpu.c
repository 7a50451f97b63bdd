/* The CPU as the functions of a source without one hint at it. Which devices are whose follows from
   pci.ids and Linux's drivers for AMD's data fabric (arch/x86/kernel/amd_nb.c). */
#include "builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct rig_machine_facts *assumed(struct rig_topology *t)
{
    assume_cpu(t);
    return rig_topology_machine(t);
}

static void expect(const char *machine, const char *vendor, unsigned family, const char *from)
{
    struct rig_topology *t = build_machine(machine, NULL);
    const struct rig_machine_facts *m = assumed(t);
    if (!vendor) {
        assert_int_equal(m->cpu_vendor.know, RIG_FACT_UNKNOWN);
        assert_int_equal(m->cpu_family.know, RIG_FACT_UNKNOWN);
    } else {
        assert_int_equal(m->cpu_vendor.know, RIG_FACT_ASSUMED);
        assert_string_equal(m->cpu_vendor.value, vendor);
        assert_string_equal(m->cpu_vendor.from, from);
        assert_int_equal(rig_fact_has(m->cpu_family) ? m->cpu_family.value : 0, family);
    }
    rig_topology_free(t);
}

static void parts_of_a_processor_tell_its_family(void **state)
{
    (void)state;
    expect("00:00.0 host id=1022:1480\n", "AuthenticAMD", 23, "0000:00:00.0 is 1022:1480");
    expect("00:00.0 host id=1022:14a4\n00:18.0 host id=1022:14ad\n", "AuthenticAMD", 25,
           "0000:00:00.0 is 1022:14a4");
    /* Where parts of several are seen, the newest. */
    expect("00:00.0 host id=1022:1410\n40:00.0 host id=1022:153a\n", "AuthenticAMD", 26,
           "0000:40:00.0 is 1022:153a");
    expect("00:00.0 host id=8086:4c43\n", "GenuineIntel", 6, "0000:00:00.0 is 8086:4c43");
    expect("00:00.0 host id=1def:e100\n", "not x86", 0, "0000:00:00.0 is 1def:e100");
    expect("00:00.0 host id=1def:e100\n00:01.0 rp 01-01 id=13b5:1234\n", "not x86", 0,
           "0000:00:00.0 is 1def:e100");
    expect("00:00.0 host id=1234:5678\n", NULL, 0, NULL);
    /* AMD makes more than processors, and cards have devices of its ids too. */
    expect("00:00.0 host id=1022:ffff\n", NULL, 0, NULL);
    expect("00:01.0 rp 01-01\n01:00.0 ep id=1022:1480\n", NULL, 0, NULL);
    expect("00:01.0 rp 01-01\n01:00.0 ep id=8086:1521\n", NULL, 0, NULL);
}

/* Hygon's processors have AMD's ids, and emulated devices stand in for any. */
static void where_others_may_stand_in_nothing_is_assumed(void **state)
{
    (void)state;
    expect("00:00.0 host id=1022:1450\n00:01.0 rp 01-01\n01:00.0 ep id=1d94:1456\n", NULL, 0, NULL);
    expect("00:00.0 host id=8086:29c0\n00:01.0 rciep id=1b36:000d\n", NULL, 0, NULL);
    expect("00:00.0 host id=8086:29c0\n00:02.0 rciep id=1022:1480\n", NULL, 0, NULL);
    struct rig_topology *t = build_machine("00:00.0 host id=8086:29c0\n", NULL);
    t->node[0].f.subsystem_vendor = fact_known(0x1af4); /* QEMU's */
    assert_int_equal(assumed(t)->cpu_vendor.know, RIG_FACT_UNKNOWN);
    rig_topology_free(t);
}

static void a_cpu_that_is_known_stays(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine("00:00.0 host id=1022:1480\n", "Intel:6");
    assert_string_equal(assumed(t)->cpu_vendor.value, "GenuineIntel");
    rig_topology_free(t);
    /* So does a family without a vendor. */
    t = build_machine("00:00.0 host id=1022:1480\n", NULL);
    t->machine.cpu_family = fact_known(25);
    assert_string_equal(assumed(t)->cpu_vendor.value, "AuthenticAMD");
    assert_int_equal(t->machine.cpu_family.value, 25);
    assert_int_equal(t->machine.cpu_family.know, RIG_FACT_KNOWN);
    rig_topology_free(t);
}

/* A text without numbers: its names tell. */
static void names_tell_where_ids_are_missing(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine("00:00.0 host\n", NULL);
    t->node[0].f.vendor = fact_assumed(0x1022, "its name");
    t->node[0].f.device = fact_unknown(NULL);
    t->node[0].f.name = "Advanced Micro Devices, Inc. [AMD] Milan Data Fabric";
    assert_int_equal(assumed(t)->cpu_family.value, 25);
    assert_string_equal(t->machine.cpu_vendor.from,
                        "0000:00:00.0 is Advanced Micro Devices, Inc. [AMD] Milan Data Fabric");
    rig_topology_free(t);
    static const struct {
        const char *name;
        unsigned family;
    } rows[] = {
        {"Family 17h (Models 00h-0fh) Root Complex", 23},
        {"Starship/Matisse Root Complex", 23},
        {"Genoa/Bergamo Root Complex", 25},
        {"Turin Root Complex", 26},
        {"Family 15h (Models 10h-1fh) Processor", 21},
        {"SB7x0/SB8x0/SB9x0 PCI to LPC Bridge", 0},
        {"", 0},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++)
        assert_int_equal(amd_family_named(rows[i].name, strlen(rows[i].name)), rows[i].family);
    assert_int_equal(amd_family_named("Turin", 4), 0);
}

/* The host bridge is known by its class, or as 0000:00:00.0 where no class is shown. */
static void a_host_bridge_without_a_class_is_known_by_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *bdf;
        bool intel;
    } rows[] = {{"00:00.0", true}, {"00:00.1", false}, {"00:01.0", false}, {"01:00.0", false}};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        char text[64];
        snprintf(text, sizeof text, "%s rciep id=8086:4c43 root=%.2s\n", rows[i].bdf, rows[i].bdf);
        struct rig_topology *t = build_machine(text, NULL);
        t->node[0].f.class_code = fact_unknown(NULL);
        assert_int_equal(assumed(t)->cpu_vendor.know,
                         rows[i].intel ? RIG_FACT_ASSUMED : RIG_FACT_UNKNOWN);
        rig_topology_free(t);
    }
    /* On a bus of its own, that nothing says is a root bus, its class alone tells. */
    expect("17:00.0 host id=8086:2020\n", "GenuineIntel", 6, "0000:17:00.0 is 8086:2020");
    struct rig_topology *t = build_machine("17:00.0 rciep id=1022:1480\n", NULL);
    t->node[0].f.class_code = fact_unknown(NULL);
    assert_int_equal(assumed(t)->cpu_vendor.know, RIG_FACT_UNKNOWN);
    rig_topology_free(t);
}

/* All eight functions of 0000:00:18 are a processor's data fabric since family 17h. */
static void eight_functions_of_device_18_are_a_data_fabric(void **state)
{
    (void)state;
    for (int lacks = -1; lacks < 8; lacks++) {
        char text[600] = "";
        for (int f = 0; f < 8; f++) {
            size_t used = strlen(text);
            if (f != lacks)
                snprintf(text + used, sizeof text - used, "00:18.%d pci\n", f);
        }
        struct rig_topology *t = build_machine(text, NULL);
        for (int i = 0; i < t->count; i++) {
            t->node[i].f.vendor = i % 2 ? fact_unknown(NULL) : fact_known(0x1022);
            t->node[i].f.device = fact_unknown(NULL);
        }
        assert_int_equal(rig_fact_has(assumed(t)->cpu_family), lacks < 0);
        if (lacks < 0) {
            assert_string_equal(t->machine.cpu_vendor.value, "AuthenticAMD");
            assert_int_equal(t->machine.cpu_family.value, 23);
        }
        rig_topology_free(t);
    }
    /* Another maker's, another domain's or another device's are none. */
    static const char *const forms[][2] = {
        {"00:18", " id=8086:2014"}, {"0001:00:18", ""}, {"00:19", ""}, {"18:18", " root=18"}};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(forms); i++) {
        char text[600] = "";
        for (int f = 0; f < 8; f++) {
            size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, "%s.%d pci%s\n", forms[i][0], f, forms[i][1]);
        }
        struct rig_topology *t = build_machine(text, NULL);
        for (int k = 0; i > 0 && k < t->count; k++)
            t->node[k].f.vendor = fact_unknown(NULL);
        assert_int_equal(assumed(t)->cpu_vendor.know, RIG_FACT_UNKNOWN);
        rig_topology_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_a_processor_tell_its_family),
        cmocka_unit_test(where_others_may_stand_in_nothing_is_assumed),
        cmocka_unit_test(a_cpu_that_is_known_stays),
        cmocka_unit_test(names_tell_where_ids_are_missing),
        cmocka_unit_test(a_host_bridge_without_a_class_is_known_by_its_place),
        cmocka_unit_test(eight_functions_of_device_18_are_a_data_fabric),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
