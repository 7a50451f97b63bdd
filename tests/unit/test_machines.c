/* The bundled machines give the answers that tests/machines/README.md works out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "rigmem.h"

#define B RIG_BUS_ADDR
#define T RIG_THRU_HOST_BRIDGE
#define N RIG_NOT_SUPPORTED

struct row {
    const char *from, *to, *rules;
    unsigned possible;
    int distance;
    enum rig_path path;
    const char *common;      /* or NULL */
    const char *redirecting; /* functions, a space after each */
};

static struct rig_topology *load(const char *file)
{
    char path[256];
    struct rig_error err = {0};
    struct rig_topology *t = NULL;
    snprintf(path, sizeof path, "tests/machines/%s", file);
    if (rig_topology_load(path, &t, &err) != RIG_OK)
        fail_msg("%s: %s %s", path, err.where, err.why);
    return t;
}

static const struct rig_rules *rules_named(const char *name)
{
    for (int i = 0; i < rig_rules_count(); i++)
        if (strcmp(rig_rules_name(rig_rules_at(i)), name) == 0)
            return rig_rules_at(i);
    fail_msg("no rules %s", name);
    return NULL;
}

static void check_row(const struct rig_topology *t, const struct row *row)
{
    char bdf[RIG_BDF_MAX], list[512] = "";
    struct rig_reach r;
    struct rig_error err = {0};
    int from = rig_topology_find(t, row->from), to = rig_topology_find(t, row->to);
    print_message("%s -> %s\n", row->from, row->to);
    assert_true(from >= 0 && to >= 0);
    assert_int_equal(rig_reach_pair(t, rules_named(row->rules), from, to, &r, &err), RIG_OK);
    assert_int_equal(r.p2pdma.possible, row->possible);
    assert_int_equal(r.p2pdma.distance, row->distance);
    assert_int_equal(r.path, row->path);
    if (row->common) {
        assert_true(r.p2pdma.common >= 0);
        assert_string_equal(rig_bdf_format(rig_topology_function(t, r.p2pdma.common)->bdf, bdf),
                            row->common);
    } else {
        assert_int_equal(r.p2pdma.common, -1);
    }
    for (int i = 0; i < r.p2pdma.redirecting_count; i++) {
        const struct rig_function *f = rig_topology_function(t, r.p2pdma.redirecting[i]);
        strcat(list, rig_bdf_format(f->bdf, bdf));
        strcat(list, " ");
    }
    if (row->redirecting)
        assert_string_equal(list, row->redirecting);
    rig_reach_free(&r);
}

static void check_rows(const char *file, const struct row *rows, size_t count)
{
    struct rig_topology *t = load(file);
    for (size_t i = 0; i < count; i++)
        check_row(t, &rows[i]);
    rig_topology_free(t);
}

static void set_iommu(struct rig_topology *t, enum rig_iommu iommu)
{
    assert_int_equal(rig_topology_set_iommu(t, "all", iommu, NULL, NULL), RIG_OK);
}

static enum rig_answer answer(const struct rig_topology *t, const char *from, const char *to,
                              int *out_gate)
{
    struct rig_reach r;
    int f = rig_topology_find(t, from), g = rig_topology_find(t, to);
    assert_int_equal(rig_reach_pair(t, rules_named("6.1"), f, g, &r, NULL), RIG_OK);
    *out_gate = r.gate;
    enum rig_answer a = r.answer;
    rig_reach_free(&r);
    return a;
}

static void server_of_eight_gpus(void **state)
{
    (void)state;
    static const char s1[] = "0000:01:00.0", s2[] = "0000:07:00.0", s3[] = "0000:81:00.0",
                      s4[] = "0000:87:00.0";
    static const struct row rows[] = {
        {"gpu0", "gpu1", "6.1", B, 4, RIG_PATH_PIX, s1, ""},
        {"nic0", "gpu0", "6.1", B, 4, RIG_PATH_PIX, s1, ""},
        {"nvme0", "gpu1", "6.1", B, 4, RIG_PATH_PIX, s1, ""},
        {"gpu3", "gpu2", "6.1", N, 4, RIG_PATH_PIX, s2, "0000:08:08.0 "},
        {"gpu2", "gpu3", "6.1", N, 4, RIG_PATH_PIX, s2, "0000:08:08.0 "},
        {"nic1", "gpu3", "6.1", B, 4, RIG_PATH_PIX, s2, ""},
        {"gpu4", "gpu5", "6.1", N, 4, RIG_PATH_PIX, s3, "0000:82:09.0 0000:82:08.0 "},
        {"nvme2", "gpu4", "6.1", N, 4, RIG_PATH_PIX, s3, "0000:82:08.0 0000:82:0b.0 "},
        {"gpu6", "gpu7", "6.1", B, 4, RIG_PATH_PIX, s4, ""},
        {"gpu0", "gpu3", "6.1", N, 8, RIG_PATH_PHB, NULL, NULL},
        {"gpu0", "gpu7", "6.1", N, 8, RIG_PATH_SYS, NULL, NULL},
        {"gpu0", "gpu7", "7.2", N, 8, RIG_PATH_SYS, NULL, NULL},
    };
    check_rows("server-8gpu.json", rows, sizeof rows / sizeof rows[0]);
}

static void clearing_the_one_redirect_lets_gpu2_take_part(void **state)
{
    (void)state;
    static const struct row cleared = {"gpu3", "gpu2",       "6.1",          B,
                                       4,      RIG_PATH_PIX, "0000:07:00.0", ""};
    struct rig_topology *t = load("server-8gpu.json");
    int gate;
    assert_int_equal(answer(t, "gpu3", "gpu2", &gate), RIG_ANSWER_NO);
    assert_int_equal(gate, RIG_GATE_ACS_REDIRECT);
    assert_int_equal(rig_topology_set_acs(t, "0000:08:08.0", 0x0011, NULL, NULL), RIG_OK);
    check_row(t, &cleared);
    assert_int_equal(answer(t, "gpu3", "gpu2", &gate), RIG_ANSWER_YES);
    rig_topology_free(t);
}

static void desktop_of_two_cards(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"gpu0", "gpu1", "6.1", T, 8, RIG_PATH_PHB, NULL, NULL},
        {"gpu1", "gpu0", "6.1", T, 8, RIG_PATH_PHB, NULL, NULL},
        {"0000:03:00.1", "gpu0", "6.1", T, 2, RIG_PATH_PIX, "0000:02:00.0", "0000:02:00.0 "},
    };
    struct rig_topology *t = load("desktop-amd.txt");
    assert_int_equal(rig_topology_set_cpu(t, "AuthenticAMD", 25, NULL, NULL), RIG_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_row(t, &rows[i]);
    rig_topology_free(t);
}

static void a_small_bar_stops_requests_to_it_and_not_from_it(void **state)
{
    (void)state;
    struct rig_topology *t = load("desktop-amd.txt");
    assert_int_equal(rig_topology_set_cpu(t, "AuthenticAMD", 25, NULL, NULL), RIG_OK);
    set_iommu(t, RIG_IOMMU_IDENTITY);
    int gate;
    assert_int_equal(answer(t, "gpu1", "gpu0", &gate), RIG_ANSWER_YES);
    assert_int_equal(answer(t, "gpu0", "gpu1", &gate), RIG_ANSWER_NO);
    assert_int_equal(gate, RIG_GATE_BAR_SMALL);
    rig_topology_free(t);
}

static void client_chip_with_redirecting_switch(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"gpu0", "gpu1", "6.1", N, 8, RIG_PATH_PXB, "0000:01:00.0", "0000:02:10.0 0000:02:08.0 "},
        {"gpu1", "gpu0", "6.1", N, 8, RIG_PATH_PXB, "0000:01:00.0", "0000:02:08.0 0000:02:10.0 "},
    };
    check_rows("client-intel.txt", rows, sizeof rows / sizeof rows[0]);
}

static void without_privilege_the_redirects_are_unknown(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"0000:05:00.0", "0000:08:00.0", "6.1", B | N, 8, RIG_PATH_PXB, "0000:01:00.0", ""},
    };
    check_rows("client-intel-unprivileged.txt", rows, sizeof rows / sizeof rows[0]);
}

static void listed_host_bridges_carry_across_sockets(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"gpu0", "gpu1", "6.1", T, 4, RIG_PATH_SYS, NULL, NULL},
        {"gpu0", "gpu1", "5.15", N, 4, RIG_PATH_SYS, NULL, NULL},
        {"0000:f3:00.0", "gpu0", "6.1", N, 3, RIG_PATH_NODE, NULL, NULL},
        {"0000:f3:00.0", "gpu0", "7.2", T, 3, RIG_PATH_NODE, NULL, NULL},
    };
    check_rows("xeon-listed.json", rows, sizeof rows / sizeof rows[0]);
}

static void arm64_has_its_switch_and_nothing_else(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"nic0", "gpu0", "6.1", B, 4, RIG_PATH_PIX, "0000:01:00.0", ""},
        {"gpu1", "gpu0", "6.1", N, 6, RIG_PATH_NODE, NULL, NULL},
        {"nic0", "gpu1", "6.1", N, 6, RIG_PATH_NODE, NULL, NULL},
    };
    check_rows("arm64.json", rows, sizeof rows / sizeof rows[0]);
}

static void a_vmd_domain_has_a_host_bridge_of_its_own(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"nvme0", "gpu0", "6.1", N, 4, RIG_PATH_NODE, NULL, NULL},
        {"10000:01:00.0", "10000:02:00.0", "6.1", N, 4, RIG_PATH_PHB, NULL, NULL},
    };
    check_rows("vmd.json", rows, sizeof rows / sizeof rows[0]);
}

static void a_virtual_function_climbs_by_its_physical_function(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"0000:04:00.0", "0000:05:00.0", "6.1", B, 4, RIG_PATH_PIX, "0000:01:00.0", ""},
        {"0000:04:00.1", "0000:05:00.0", "6.1", B, 4, RIG_PATH_PIX, "0000:01:00.0", ""},
        {"0000:04:00.0", "0000:04:00.1", "6.1", B, 2, RIG_PATH_PIX, "0000:02:01.0", ""},
        {"0000:04:00.1", "0000:03:00.0", "6.1", B, 2, RIG_PATH_PIX, "0000:02:01.0", ""},
    };
    check_rows("sriov.hex", rows, sizeof rows / sizeof rows[0]);
}

static void conventional_cards_share_their_bridge(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"0000:02:01.0", "0000:02:00.0", "6.1", B, 2, RIG_PATH_PIX, "0000:01:00.0", ""},
    };
    check_rows("conventional.txt", rows, sizeof rows / sizeof rows[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(server_of_eight_gpus),
        cmocka_unit_test(clearing_the_one_redirect_lets_gpu2_take_part),
        cmocka_unit_test(desktop_of_two_cards),
        cmocka_unit_test(a_small_bar_stops_requests_to_it_and_not_from_it),
        cmocka_unit_test(client_chip_with_redirecting_switch),
        cmocka_unit_test(without_privilege_the_redirects_are_unknown),
        cmocka_unit_test(listed_host_bridges_carry_across_sockets),
        cmocka_unit_test(arm64_has_its_switch_and_nothing_else),
        cmocka_unit_test(a_vmd_domain_has_a_host_bridge_of_its_own),
        cmocka_unit_test(a_virtual_function_climbs_by_its_physical_function),
        cmocka_unit_test(conventional_cards_share_their_bridge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
