/* Names and ids by the system's pci.ids. The ids expected here are those the vendors assigned,
   which no later database changes. */
#include "topology/topology.h"

#include "fixture_tree.h"

#include <dlfcn.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
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

/* A database of our own, in pci.ids' form. */
static struct ids_index *read_ids(struct fixture *f, const char *text)
{
    char path[256];
    fixture_make(f);
    fixture_file(f, "pci.ids", text);
    snprintf(path, sizeof path, "%s/pci.ids", f->root);
    struct ids_index *ids = ids_index_read(path);
    fixture_remove(f);
    return ids;
}

static void lines_of_other_forms_are_gone_past(void **state)
{
    (void)state;
    struct fixture f;
    struct ids_index *ids = read_ids(
        &f, "# a comment\n\n1234\n12g4  Not Hex\n1234 One Blank\n12345  Five Digits\nCc  Short\n"
            "1235 x  Letter\n0001  Maker\n\t0002  Card\n"
            "\t\t1028 0001  Its Board\n\t00  Short\n"
            "0003  Other Maker\n\t0004  Thing One\n"
            "C 03  Display controller\n0005  No Maker\n\t0006  Card\n");
    assert_non_null(ids);
    expect_ids(ids, "Maker Card", 0x0001, 0x0002);
    expect_ids(ids, "Other Maker Thing One", 0x0003, 0x0004);
    static const char *const none[] = {"Not Hex Card",      "ne Blank Card",   "Maker Its Board",
                                       "No Maker Card",     "Maker Short",     "Maker Thing One",
                                       "Zzz Card",          "Maker Carx",      "Maker Device 00g2",
                                       "Maker Devise 0002", "Five Digits Card"};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(none); i++)
        expect_none(ids, none[i]);
    /* Not of the form that stands for a number. */
    expect_none(ids, "Device 0001x0002");
    expect_none(ids, "Devise 0001:0002");
    expect_none(ids, "Device 000g:0002");
    expect_none(ids, "Device 0001:000g");
    ids_index_close(ids);
    ids_index_close(NULL);
}

static void the_last_line_may_lack_its_end(void **state)
{
    (void)state;
    struct fixture f;
    struct ids_index *ids = read_ids(&f, "0001  Maker\n\t0002  Card");
    assert_non_null(ids);
    expect_ids(ids, "Maker Card", 0x0001, 0x0002);
    ids_index_close(ids);
    ids = read_ids(&f, "0001  Maker");
    assert_non_null(ids);
    expect_ids(ids, "Maker Device 0abc", 0x0001, 0x0abc);
    ids_index_close(ids);
}

/* A name that reads two ways, or is two vendors', is no one's. */
static void a_name_of_several_vendors_gives_none(void **state)
{
    (void)state;
    struct fixture f;
    struct ids_index *ids =
        read_ids(&f, "0001  Twin\n\t0002  Card\n0003  Twin\n\t0004  Card\n\t0005  Lone Card\n"
                     "0006  Long\n\t0007  Name Card\n0008  Long Name\n\t0009  Card\n");
    assert_non_null(ids);
    expect_none(ids, "Twin Card");
    expect_ids(ids, "Twin Lone Card", 0x0003, 0x0005);
    expect_none(ids, "Long Name Card");
    ids_index_close(ids);
}

/* The database has some 2,500 vendors; more than twice as many as there is room for at first. */
static void as_many_vendors_as_there_are_ids_are_found(void **state)
{
    (void)state;
    struct fixture f;
    size_t room = (size_t)10000 * 40, used = 0;
    char *text = malloc(room);
    assert_non_null(text);
    for (unsigned i = 0; i < 10000; i++)
        used += (size_t)snprintf(text + used, room - used, "%04x  Maker %u\n\t%04x  Card\n", i, i,
                                 0xffff - i);
    struct ids_index *ids = read_ids(&f, text);
    free(text);
    assert_non_null(ids);
    expect_ids(ids, "Maker 0 Card", 0, 0xffff);
    expect_ids(ids, "Maker 9999 Card", 9999, 0xffff - 9999);
    ids_index_close(ids);
}

/* Answers are kept where others may come to lie: each name is asked for twice, among many. */
static void an_answer_that_made_way_is_found_again(void **state)
{
    (void)state;
    struct fixture f;
    struct ids_index *ids = read_ids(&f, "0001  Maker\n\t0002  Card\n");
    assert_non_null(ids);
    for (int again = 0; again < 2; again++)
        for (unsigned i = 0; i < 1000; i++) {
            char name[32];
            snprintf(name, sizeof name, "Maker Device %04x", i);
            expect_ids(ids, name, 1, (uint16_t)i);
        }
    ids_index_close(ids);
}

static void what_is_no_database_of_ids_gives_none(void **state)
{
    (void)state;
    struct fixture f;
    assert_null(read_ids(&f, ""));
    assert_null(read_ids(&f, "no ids at all\n"));
    assert_null(ids_index_read("/nowhere/pci.ids"));
    assert_null(ids_index_read("/dev/null"));
    assert_null(ids_index_read("/"));
    /* One that is shorter than its size says. */
    assert_null(ids_index_read("/sys/kernel/uevent_seqnum"));
    char path[256];
    fixture_make(&f);
    fixture_file(&f, "pci.ids", "0001  Maker\n");
    snprintf(path, sizeof path, "%s/pci.ids", f.root);
    assert_int_equal(truncate(path, ((off_t)64 << 20) + 1), 0);
    assert_null(ids_index_read(path));
    fixture_remove(&f);
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
    n->f.vendor = fact_known(0x10de);
    add(t, 3, 0xffff, 0xffff); /* as a virtual function's reads */
    assert_int_equal(topology_add(t, (struct rig_bdf){0, 0, 4, 0}, &n, NULL), RIG_OK);
    n->f.device = fact_known(0x15f7);
    add(t, 5, 0x10de, 0x15f8);
    rig_topology_name_functions(t);
    assert_string_equal(t->node[0].f.name, "NVIDIA Corporation GP100GL [Tesla P100 PCIe 12GB]");
    assert_string_equal(t->node[1].f.name, "as the source has it");
    assert_null(t->node[2].f.name);
    assert_null(t->node[3].f.name);
    assert_null(t->node[4].f.name);
    assert_string_equal(t->node[5].f.name, "NVIDIA Corporation GP100GL [Tesla P100 PCIe 16GB]");
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
        cmocka_unit_test(lines_of_other_forms_are_gone_past),
        cmocka_unit_test(the_last_line_may_lack_its_end),
        cmocka_unit_test(a_name_of_several_vendors_gives_none),
        cmocka_unit_test(as_many_vendors_as_there_are_ids_are_found),
        cmocka_unit_test(an_answer_that_made_way_is_found_again),
        cmocka_unit_test(what_is_no_database_of_ids_gives_none),
        cmocka_unit_test(functions_without_a_name_get_theirs_and_others_keep_it),
        cmocka_unit_test(without_a_database_functions_stay_without_a_name),
        cmocka_unit_test(a_name_that_was_looked_up_is_in_no_capture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
