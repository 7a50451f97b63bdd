/* What libpci rarely does: it is too old, calls its error callback, which must not return, or has
   no database of ids. tests/libpci is built and loaded in its place: a library of that name that a
   process holds already is the one it gets. */
#include "topology/libpci.h"
#include "topology/topology.h"

#include "fixture_tree.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct fixture fixture;

/* Builds the library as `name` below the fixture. */
static void build(const char *name, const char *flags)
{
    char command[1024];
    const char *cc = getenv("CC");
    snprintf(command, sizeof command,
             "%s -shared -fPIC -Wl,-soname,libpci.so.3 %s -o %s/%s tests/libpci/libpci.c",
             cc ? cc : "gcc", flags, fixture.root, name);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): a compiler that is named */
}

static int set_up(void **state)
{
    (void)state;
    char flags[512];
    fixture_make(&fixture);
    fixture_file(&fixture, "versions", "LIBPCI_3.5 { pci_init; };\n");
    snprintf(flags, sizeof flags, "-Wl,--version-script=%s/versions", fixture.root);
    build("good.so", flags);
    snprintf(flags, sizeof flags, "-DLACKS_NAMES -Wl,--version-script=%s/versions", fixture.root);
    build("lacking.so", flags);
    build("old.so", "");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fixture_remove(&fixture);
    return 0;
}

/* Holds the library `name`, where what FAKE_LIBPCI names fails. */
static void *hold(const char *name, const char *fails)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", fixture.root, name);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail_msg("%s", dlerror());
    setenv("FAKE_LIBPCI", fails, 1);
    unsetenv("FAKE_IDS");
    return library;
}

static void expect_refused(const char *name, const char *fails, enum rig_status status,
                           const char *why)
{
    void *library = hold(name, fails);
    struct libpci *pci;
    struct rig_error err;
    rig_error_clear(&err);
    assert_int_equal(libpci_scan(&pci, &err), status);
    if (!strstr(err.why, why))
        fail_msg("\"%s\" does not hold \"%s\"", err.why, why);
    struct rig_topology *t;
    assert_int_equal(rig_topology_load("live", &t, NULL), status);
    dlclose(library);
}

static void a_libpci_that_is_too_old_is_refused_with_what_it_lacks(void **state)
{
    (void)state;
    expect_refused("lacking.so", "", RIG_REFUSED, "pci_lookup_name");
    expect_refused("old.so", "", RIG_REFUSED, "pci_init");
}

static void an_error_of_libpci_is_a_refusal_with_its_words(void **state)
{
    (void)state;
    expect_refused("good.so", "init", RIG_REFUSED, "Cannot find any working access method.");
    expect_refused("good.so", "scan", RIG_REFUSED, "Cannot open /sys/bus/pci/devices");
    expect_refused("good.so", "scan cleanup", RIG_REFUSED, "Cannot open /sys/bus/pci/devices");
    expect_refused("good.so", "alloc", RIG_FAILED, "out of memory");
}

static const struct rig_bdf order[] = {
    {0x7ffe, 0, 0, 0}, {0x7ffe, 0, 1, 1}, {0x7ffe, 1, 0, 0}, {0x7ffe, 0, 1, 0}};

static struct libpci *scan(void)
{
    struct libpci *pci = NULL;
    assert_int_equal(libpci_scan(&pci, NULL), RIG_OK);
    return pci;
}

/* As lspci does, and in any order. */
static void configuration_space_is_found_by_address(void **state)
{
    (void)state;
    void *library = hold("good.so", "");
    struct libpci *pci = scan();
    struct rig_bdf bdf;
    uint8_t config[4096];
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(order); i++) {
        assert_true(libpci_next(pci, &bdf));
        assert_int_equal(rig_bdf_compare(bdf, order[i]), 0);
    }
    assert_false(libpci_next(pci, &bdf));
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(order); i++)
        assert_int_equal(libpci_config(pci, order[i], config), order[i].bus == 1 ? 4096 : 64);
    for (size_t i = RIG_ARRAY_LENGTH(order); i-- > 0;)
        assert_int_equal(libpci_config(pci, order[i], config), order[i].bus == 1 ? 4096 : 64);
    assert_int_equal(config[0] | config[1] << 8, 0x1234);
    static const struct rig_bdf none[] = {
        {0, 0, 1, 0}, {0x7ffe, 2, 0, 0}, {0x7ffe, 0, 2, 0}, {0x7ffe, 0, 1, 2}};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(none); i++)
        assert_int_equal(libpci_config(pci, none[i], config), 0);
    setenv("FAKE_LIBPCI", "read", 1);
    assert_int_equal(libpci_config(pci, order[0], config), 0);
    setenv("FAKE_LIBPCI", "cleanup", 1);
    libpci_close(pci);
    libpci_close(NULL);
    dlclose(library);
}

static void this_machine_may_have_functions_that_sysfs_lacks(void **state)
{
    (void)state;
    void *library = hold("good.so", "");
    struct rig_topology *t = NULL;
    assert_int_equal(rig_topology_load("live", &t, NULL), RIG_OK);
    assert_int_equal(rig_topology_count(t), 4);
    rig_topology_free(t);
    dlclose(library);
}

static void names_are_libpcis_where_it_has_them(void **state)
{
    (void)state;
    void *library = hold("good.so", "");
    struct libpci *pci;
    char text[64];
    assert_true(libpci_names(&pci));
    assert_true(libpci_name(pci, 1, 2, text, sizeof text));
    assert_string_equal(text, "A Card By Name");
    setenv("FAKE_LIBPCI", "long", 1);
    assert_false(libpci_name(pci, 1, 2, text, sizeof text));
    setenv("FAKE_LIBPCI", "name", 1);
    assert_false(libpci_name(pci, 1, 2, text, sizeof text));
    libpci_close(pci);
    static const char *const bad[] = {"empty", "load", "alloc"};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(bad); i++) {
        setenv("FAKE_LIBPCI", bad[i], 1);
        assert_false(libpci_names(&pci));
    }
    /* A function whose name libpci does not tell keeps none. */
    setenv("FAKE_LIBPCI", "name", 1);
    struct rig_topology *t = topology_new(RIG_SOURCE_CAPTURE);
    struct node *n;
    assert_int_equal(topology_add(t, order[0], &n, NULL), RIG_OK);
    n->f.vendor = fact_known(1);
    n->f.device = fact_known(2);
    rig_topology_name_functions(t);
    assert_null(t->node[0].f.name);
    rig_topology_free(t);
    dlclose(library);
}

static void the_database_of_ids_is_the_one_that_libpci_names(void **state)
{
    (void)state;
    void *library = hold("good.so", "");
    char path[512];
    assert_false(libpci_ids_path(path, sizeof path)); /* it names none */
    assert_null(ids_index_open());
    fixture_file(&fixture, "pci.ids", "0001  Maker\n\t0002  Card\n");
    fixture_file(&fixture, "ids.txt", "0001  Maker\n\t0003  Card\n");
    static const struct {
        const char *name;
        uint16_t device;
    } rows[] = {{"pci.ids", 2}, {"pci.ids.gz", 2}, {"ids.txt", 3}};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        snprintf(path, sizeof path, "%s/%s", fixture.root, rows[i].name);
        setenv("FAKE_IDS", path, 1);
        struct ids_index *ids = ids_index_open();
        assert_non_null(ids);
        uint16_t vendor, device;
        bool shared;
        assert_true(ids_find_by_name(ids, "Maker Card", &vendor, &device, &shared));
        assert_int_equal(device, rows[i].device);
        ids_index_close(ids);
    }
    assert_false(libpci_ids_path(path, strlen(path))); /* no room for its end */
    setenv("FAKE_IDS", "nowhere", 1);
    assert_null(ids_index_open());
    setenv("FAKE_LIBPCI", "alloc", 1);
    assert_false(libpci_ids_path(path, sizeof path));
    unsetenv("FAKE_IDS");
    unsetenv("FAKE_LIBPCI");
    dlclose(library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_libpci_that_is_too_old_is_refused_with_what_it_lacks),
        cmocka_unit_test(an_error_of_libpci_is_a_refusal_with_its_words),
        cmocka_unit_test(configuration_space_is_found_by_address),
        cmocka_unit_test(this_machine_may_have_functions_that_sysfs_lacks),
        cmocka_unit_test(names_are_libpcis_where_it_has_them),
        cmocka_unit_test(the_database_of_ids_is_the_one_that_libpci_names),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
