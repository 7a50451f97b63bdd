/* Facts from outside: what may be given, what breaks a rule, and what follows from a fact. */
#include "builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A switch with two slots, one of them free, a card of two functions, and
   a conventional card behind a bridge. */
#define MACHINE                                                                                    \
    "00:00.0 host id=8086:4c43\n00:01.0 rp 01-04 numa=1\n01:00.0 up 02-04\n"                       \
    "02:00.0 down 03-03 acs=001d\n02:01.0 down 04-04\n"                                            \
    "03:00.0 ep id=1002:744c gpu=16384/16384\n03:00.1 ep\n"                                        \
    "00:02.0 rp 05-06\n05:00.0 p2pci 06-06\n06:00.0 pci\n"

static struct rig_topology *machine(void)
{
    return build_machine(MACHINE, "Intel:6");
}

static const struct rig_function *at(const struct rig_topology *t, const char *bdf)
{
    return rig_topology_function(t, function_at(t, bdf));
}

#define REFUSED(call, reason)                                                                      \
    do {                                                                                           \
        struct rig_error err;                                                                      \
        rig_error_clear(&err);                                                                     \
        assert_int_equal(call, RIG_INVALID);                                                       \
        if (!strstr(err.why, reason))                                                              \
            fail_msg("\"%s\" does not hold \"%s\"", err.why, reason);                              \
    } while (0)

static void a_function_that_is_not_there_is_refused_by_each(void **state)
{
    (void)state;
    struct rig_topology *t = machine();
    static const char *const names[] = {"09:00.0", "gpu1", "", "03:00"};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(names); i++) {
        const char *n = names[i];
        REFUSED(rig_topology_set_iommu(t, n, RIG_IOMMU_NONE, NULL, &err), "no such function");
        REFUSED(rig_topology_set_gpu(t, n, &err), "no such function");
        REFUSED(rig_topology_set_gpu_memory(t, n, 1, &err), "no such function");
        REFUSED(rig_topology_link(t, n, 0, &err), "no such function");
        REFUSED(rig_topology_set_tables(t, n, "amd", 44, &err), "no such function");
        REFUSED(rig_topology_set_acs(t, n, 0, NULL, &err), "no such function");
        REFUSED(rig_topology_set_bar(t, n, 1 << 20, NULL, &err), "no such function");
        REFUSED(rig_topology_set_parent(t, n, "02:01.0", NULL, &err), "no such function");
        REFUSED(rig_topology_set_parent(t, "gpu0", n, NULL, &err), "no such function");
    }
    rig_topology_free(t);
}

static void a_cpu_vendor_may_be_named_in_any_case_or_as_cpuid_has_it(void **state)
{
    (void)state;
    struct rig_topology *t = machine();
    static const char *const names[][2] = {
        {"amd", "AuthenticAMD"},   {"AUTHENTICAMD", "AuthenticAMD"},
        {"Hygon", "HygonGenuine"}, {"zhaoxin", "  Shanghai  "},
        {"VIA", "CentaurHauls"},   {"GenuineTMx86", "GenuineTMx86"}};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(names); i++) {
        assert_int_equal(rig_topology_set_cpu(t, names[i][0], 25, NULL, NULL), RIG_OK);
        assert_string_equal(rig_topology_machine(t)->cpu_vendor.value, names[i][1]);
        assert_int_equal(rig_topology_machine(t)->cpu_vendor.know, RIG_FACT_KNOWN);
    }
    char longest[66];
    memset(longest, 'x', 65);
    longest[65] = '\0';
    REFUSED(rig_topology_set_cpu(t, longest, 1, NULL, &err), "not a CPU vendor");
    REFUSED(rig_topology_set_cpu(t, "", 1, NULL, &err), "not a CPU vendor");
    assert_string_equal(rig_topology_machine(t)->cpu_vendor.value, "GenuineTMx86");
    assert_int_equal(rig_topology_set_cpu(t, longest + 1, 1, "a try", NULL), RIG_OK);
    assert_int_equal(rig_topology_machine(t)->cpu_family.know, RIG_FACT_ASSUMED);
    rig_topology_free(t);
}

static void a_kernel_release_begins_with_its_version(void **state)
{
    (void)state;
    struct rig_topology *t = machine();
    static const char *const bad[] = {"", "new", "6", "6.", "6.x", " 6.1", "+6.1", "-6.1", "v6.1"};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(bad); i++)
        REFUSED(rig_topology_set_kernel(t, bad[i], &err), "not a kernel release");
    char longest[130] = "6.1.0-";
    memset(longest + 6, 'x', 123);
    REFUSED(rig_topology_set_kernel(t, longest, &err), "not a kernel release");
    assert_int_equal(rig_topology_machine(t)->kernel.know, RIG_FACT_UNKNOWN);
    longest[128] = '\0';
    assert_int_equal(rig_topology_set_kernel(t, longest, NULL), RIG_OK);
    assert_string_equal(rig_topology_machine(t)->kernel.value, longest);
    rig_topology_free(t);
}

/* ACS is an extended capability: conventional PCI has none, also where nothing says so. */
static void an_acs_control_word_needs_a_function_that_can_have_one(void **state)
{
    (void)state;
    struct rig_topology *t = machine();
    REFUSED(rig_topology_set_acs(t, "01:00.0", 0x1d, NULL, &err), "no ACS capability");
    t->node[function_at(t, "06:00.0")].f.acs_control = fact_unknown(NULL);
    REFUSED(rig_topology_set_acs(t, "06:00.0", 0x1d, NULL, &err), "no ACS capability");
    t->node[function_at(t, "02:01.0")].f.acs_control = fact_unknown(NULL);
    assert_int_equal(rig_topology_set_acs(t, "02:01.0", 0x1d, NULL, NULL), RIG_OK);
    assert_int_equal(at(t, "02:01.0")->acs_control.value, 0x1d);
    assert_int_equal(at(t, "02:01.0")->acs_control.know, RIG_FACT_KNOWN);
    rig_topology_free(t);
}

/* PCIe base specification 7.8.6: sizes are powers of two from 1 MiB up. */
static void a_bar_has_a_size_that_a_bar_can_have(void **state)
{
    (void)state;
    struct rig_topology *t = machine();
    static const uint64_t bad[] = {0, 1, 1u << 19, 3u << 20, (1u << 20) + 1};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(bad); i++)
        REFUSED(rig_topology_set_bar(t, "gpu0", bad[i], NULL, &err), "power of two");
    REFUSED(rig_topology_set_bar(t, "03:00.1", 1u << 20, NULL, &err), "no memory BAR");
    assert_int_equal(rig_topology_set_bar(t, "gpu0", 1u << 20, "a try", NULL), RIG_OK);
    assert_int_equal(at(t, "03:00.0")->bar[0].size.value, 1u << 20);
    assert_string_equal(at(t, "03:00.0")->bar[0].size.from, "a try");
    rig_topology_free(t);
}

static void a_card_moves_with_all_its_functions_and_what_is_below(void **state)
{
    (void)state;
    struct rig_topology *t =
        build_machine(MACHINE "00:03.0 rp 07-07 numa=0\n03:02.0 ep pf=03:00.0\n", "Intel:6");
    assert_int_equal(rig_topology_set_parent(t, "gpu0", "00:03.0", NULL, NULL), RIG_OK);
    int to = function_at(t, "00:03.0");
    static const char *const card[] = {"03:00.0", "03:00.1", "03:02.0"};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(card); i++) {
        assert_int_equal(at(t, card[i])->parent, to);
        assert_int_equal(at(t, card[i])->parent_known.know, RIG_FACT_ASSUMED);
        assert_string_equal(at(t, card[i])->parent_known.from, "given");
        assert_int_equal(at(t, card[i])->numa_node.value, 0);
    }
    assert_int_equal(at(t, "06:00.0")->parent, function_at(t, "05:00.0"));
    /* The bridge takes its card along; what is on the same bus in another slot stays. */
    assert_int_equal(rig_topology_set_parent(t, "05:00.0", "02:01.0", "a try", NULL), RIG_OK);
    assert_int_equal(at(t, "05:00.0")->parent, function_at(t, "02:01.0"));
    assert_string_equal(at(t, "05:00.0")->parent_known.from, "a try");
    assert_int_equal(at(t, "06:00.0")->parent, function_at(t, "05:00.0"));
    assert_int_equal(at(t, "02:00.0")->parent, function_at(t, "01:00.0"));
    rig_topology_free(t);
}

static void a_card_under_what_the_source_lacks_can_be_moved_and_root_parts_cannot(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine("00:01.0 rp 01-01\n05:00.0 ep\n05:00.1 ep\n", "AMD:25");
    assert_int_equal(at(t, "05:00.0")->parent_known.know, RIG_FACT_UNKNOWN);
    REFUSED(rig_topology_set_parent(t, "00:01.0", "00:01.0", NULL, &err), "root bus");
    REFUSED(rig_topology_set_parent(t, "05:00.1", "05:00.0", NULL, &err), "is no bridge");
    assert_int_equal(rig_topology_set_parent(t, "05:00.1", "00:01.0", NULL, NULL), RIG_OK);
    assert_int_equal(at(t, "05:00.0")->parent, function_at(t, "00:01.0"));
    rig_topology_free(t);
    /* Another domain's function of the same numbers, or another slot's, is another card. */
    t = build_machine("00:01.0 rp 01-01\n01:00.0 ep\n01:01.0 ep\n00:02.0 rp 02-02\n"
                      "0001:00:01.0 rp 01-01\n0001:01:00.0 ep\n",
                      "AMD:25");
    assert_int_equal(rig_topology_set_parent(t, "01:00.0", "00:02.0", NULL, NULL), RIG_OK);
    assert_int_equal(at(t, "01:00.0")->parent, function_at(t, "00:02.0"));
    assert_int_equal(at(t, "01:01.0")->parent, function_at(t, "00:01.0"));
    assert_int_equal(at(t, "0001:01:00.0")->parent, function_at(t, "0001:00:01.0"));
    rig_topology_free(t);
}

static void a_port_of_the_card_itself_is_no_slot_for_it(void **state)
{
    (void)state;
    /* A card that is a switch with a second function beside it. */
    struct rig_topology *t =
        build_machine("00:01.0 rp 01-04\n01:00.0 up 02-04\n01:00.1 ep\n02:00.0 down 03-03\n"
                      "03:00.0 ep\n",
                      "AMD:25");
    REFUSED(rig_topology_set_parent(t, "01:00.0", "02:00.0", NULL, &err), "is below 01:00.0");
    REFUSED(rig_topology_set_parent(t, "01:00.1", "02:00.0", NULL, &err), "is below 01:00.1");
    REFUSED(rig_topology_set_parent(t, "01:00.1", "01:00.0", NULL, &err), "is below 01:00.1");
    rig_topology_free(t);
}

static void an_iommu_is_given_to_one_function_or_to_all(void **state)
{
    (void)state;
    struct rig_topology *t = machine();
    assert_int_equal(rig_topology_set_iommu(t, "all", RIG_IOMMU_TRANSLATE, NULL, NULL), RIG_OK);
    assert_int_equal(rig_topology_set_iommu(t, "gpu0", RIG_IOMMU_IDENTITY, "a try", NULL), RIG_OK);
    for (int i = 0; i < rig_topology_count(t); i++) {
        struct rig_fact iommu = rig_topology_function(t, i)->iommu;
        bool gpu = i == function_at(t, "03:00.0");
        assert_int_equal(iommu.value, gpu ? RIG_IOMMU_IDENTITY : RIG_IOMMU_TRANSLATE);
        assert_int_equal(iommu.know, gpu ? RIG_FACT_ASSUMED : RIG_FACT_KNOWN);
    }
    rig_topology_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_function_that_is_not_there_is_refused_by_each),
        cmocka_unit_test(a_cpu_vendor_may_be_named_in_any_case_or_as_cpuid_has_it),
        cmocka_unit_test(a_kernel_release_begins_with_its_version),
        cmocka_unit_test(an_acs_control_word_needs_a_function_that_can_have_one),
        cmocka_unit_test(a_bar_has_a_size_that_a_bar_can_have),
        cmocka_unit_test(a_card_moves_with_all_its_functions_and_what_is_below),
        cmocka_unit_test(a_card_under_what_the_source_lacks_can_be_moved_and_root_parts_cannot),
        cmocka_unit_test(a_port_of_the_card_itself_is_no_slot_for_it),
        cmocka_unit_test(an_iommu_is_given_to_one_function_or_to_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
