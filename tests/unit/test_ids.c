/* Names and ids by the system's pci.ids. The ids expected here are those the vendors assigned,
   which no later database changes. */
#include "topology/topology.h"

#include <dlfcn.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void expect_ids(struct ids_index *ids, const char *name, uint16_t vendor, uint16_t device)
{
    uint16_t v = 0, d = 0;
    bool shared = true;
    if (!ids_find_by_name(ids, name, &v, &d, &shared))
        fail_msg("%s is not found", name);
    assert_int_equal(v, vendor);
    assert_int_equal(d, device);
    assert_false(shared);
}

static void expect_none(struct ids_index *ids, const char *name)
{
    uint16_t v = 0x1111, d = 0x2222;
    bool shared;
    if (ids_find_by_name(ids, name, &v, &d, &shared))
        fail_msg("%s is %04x:%04x", name, v, d);
    assert_int_equal(v, 0x1111);
    assert_int_equal(d, 0x2222);
}

static void a_name_as_lspci_prints_it_gives_its_ids(void **state)
{
    (void)state;
    struct ids_index *ids = ids_index_open();
    assert_non_null(ids);
    for (int again = 0; again < 2; again++) {
        expect_ids(ids, "NVIDIA Corporation GP100GL [Tesla P100 PCIe 12GB]", 0x10de, 0x15f7);
        expect_ids(ids, "NVIDIA Corporation GP100GL [Tesla P100 PCIe 16GB]", 0x10de, 0x15f8);
        expect_ids(ids, "Intel Corporation Ice Lake Memory Map/VT-d", 0x8086, 0x09a2);
        expect_ids(ids, "Advanced Micro Devices, Inc. [AMD] Starship/Matisse Root Complex", 0x1022,
                   0x1480);
    }
    ids_index_close(ids);
}

static void a_name_that_several_devices_share_gives_the_first(void **state)
{
    (void)state;
    struct ids_index *ids = ids_index_open();
    assert_non_null(ids);
    /* 1002:1304 to 1002:1317, eight of them. */
    uint16_t v, d;
    bool shared = false;
    assert_true(
        ids_find_by_name(ids, "Advanced Micro Devices, Inc. [AMD/ATI] Kaveri", &v, &d, &shared));
    assert_int_equal(v, 0x1002);
    assert_int_equal(d, 0x1304);
    assert_true(shared);
    ids_index_close(ids);
}

static void names_that_the_database_lacks_give_none(void **state)
{
    (void)state;
    struct ids_index *ids = ids_index_open();
    assert_non_null(ids);
    static const char *const names[] = {
        "",
        " ",
        "NVIDIA Corporation",
        "NVIDIA Corporation ",
        "GP100GL [Tesla P100 PCIe 12GB]",
        "NVIDIA Corporation GP100GL [Tesla P100 PCIe 12GB] ",
        "NVIDIA Corporation GP100GL [Tesla P100 PCIe 12GB",
        "nvidia corporation GP100GL [Tesla P100 PCIe 12GB]",
        "NVIDIA Corporation Device xyz0",
        "Device 10de",
        "Device 10de:zzzz",
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(names); i++)
        expect_none(ids, names[i]);
    char longest[4096];
    memset(longest, ' ', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    expect_none(ids, longest);
    ids_index_close(ids);
}

static void a_number_that_stands_for_a_name_is_that_id(void **state)
{
    (void)state;
    struct ids_index *ids = ids_index_open();
    assert_non_null(ids);
    expect_ids(ids, "NVIDIA Corporation Device 2b85", 0x10de, 0x2b85);
    expect_ids(ids, "Device 1234:5678", 0x1234, 0x5678);
    ids_index_close(ids);
}

static struct node *add(struct rig_topology *t, uint8_t device, uint16_t vendor, uint16_t id)
{
    struct node *n;
    assert_int_equal(topology_add(t, (struct rig_bdf){0, 0, device, 0}, &n, NULL), RIG_OK);
    n->f.vendor = fact_known(vendor);
    n->f.device = fact_known(id);
    return n;
}

static void functions_without_a_name_get_theirs_and_others_keep_it(void **state)
{
    (void)state;
    struct rig_topology *t = topology_new(RIG_SOURCE_CAPTURE);
    assert_non_null(t);
    add(t, 0, 0x10de, 0x15f7);
    add(t, 1, 0x10de, 0x15f8)->f.name = "as the source has it";
    struct node *n;
    assert_int_equal(topology_add(t, (struct rig_bdf){0, 0, 2, 0}, &n, NULL), RIG_OK);
    add(t, 3, 0xffff, 0xffff); /* as a virtual function's reads */
    rig_topology_name_functions(t);
    assert_string_equal(t->node[0].f.name, "NVIDIA Corporation GP100GL [Tesla P100 PCIe 12GB]");
    assert_string_equal(t->node[1].f.name, "as the source has it");
    assert_null(t->node[2].f.name);
    assert_null(t->node[3].f.name);
    rig_topology_free(t);
}

/* libpci stays loaded, so that its database alone is missing: an empty directory is the root. */
static int name_without_a_database(struct rig_topology *t, const char *root)
{
    if (!dlopen("libpci.so.3", RTLD_NOW) || unshare(CLONE_NEWUSER) != 0 || chroot(root) != 0)
        return 77;
    rig_topology_name_functions(t);
    return t->node[0].f.name || t->node[1].f.name == NULL;
}

static void without_a_database_functions_stay_without_a_name(void **state)
{
    (void)state;
    char root[] = "/tmp/rigmem-empty-XXXXXX";
    assert_non_null(mkdtemp(root));
    struct rig_topology *t = topology_new(RIG_SOURCE_CAPTURE);
    assert_non_null(t);
    add(t, 0, 0x10de, 0x15f7);
    add(t, 1, 0x10de, 0x15f8)->f.name = "as the source has it";
    pid_t child = fork();
    if (child == 0)
        _exit(name_without_a_database(t, root));
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    rig_topology_free(t);
    rmdir(root);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip(); /* namespaces of users are forbidden here */
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_name_that_was_looked_up_is_in_no_capture(void **state)
{
    (void)state;
    static const char text[] = "{\"format\":\"rigmem-machine\",\"version\":1,\"functions\":["
                               "{\"address\":\"0000:03:00.0\",\"parent\":\"root\","
                               "\"vendor\":\"0x10de\",\"device\":\"0x15f7\"}]}";
    struct rig_topology *t;
    char *before, *after;
    size_t bytes;
    assert_int_equal(rig_topology_parse("x", text, sizeof text - 1, &t, NULL), RIG_OK);
    assert_int_equal(rig_topology_capture(t, false, &before, &bytes, NULL), RIG_OK);
    rig_topology_name_functions(t);
    assert_string_equal(rig_topology_function(t, 0)->name,
                        "NVIDIA Corporation GP100GL [Tesla P100 PCIe 12GB]");
    assert_int_equal(rig_topology_capture(t, false, &after, &bytes, NULL), RIG_OK);
    assert_string_equal(before, after);
    free(before);
    free(after);
    rig_topology_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_as_lspci_prints_it_gives_its_ids),
        cmocka_unit_test(a_name_that_several_devices_share_gives_the_first),
        cmocka_unit_test(names_that_the_database_lacks_give_none),
        cmocka_unit_test(a_number_that_stands_for_a_name_is_that_id),
        cmocka_unit_test(functions_without_a_name_get_theirs_and_others_keep_it),
        cmocka_unit_test(without_a_database_functions_stay_without_a_name),
        cmocka_unit_test(a_name_that_was_looked_up_is_in_no_capture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
