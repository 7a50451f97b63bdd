/* Where a machine's /sys keeps its functions: trees that are odd, lost in part, too large or too
   deep, and a kernel that lacks what reading one needs. */
#include "topology/live.h"
#include "topology/live_machine.h"

#include "fixture_tree.h"
#include "reading.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define PORT "pci0000:00/0000:00:01.0"
#define GPU PORT "/0000:01:00.0"

static void refused(const struct fixture *f, enum rig_status status, const char *why)
{
    struct rig_topology *t = NULL;
    struct rig_error err;
    rig_error_clear(&err);
    assert_int_equal(read_live(f->root, &t, &err), status);
    assert_null(t);
    if (!strstr(err.why, why))
        fail_msg("%s: not %s", err.why, why);
}

/* ---- what reading leaves and needs */

static int lowest_descriptor(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    int lowest = fd;
    close(fd);
    return lowest;
}

static void reading_a_directory_leaves_no_descriptor_open(void **state)
{
    const struct fixture *f = *state;
    int before = lowest_descriptor();
    refused(f, RIG_BAD_INPUT, "holds no machine");
    assert_int_equal(lowest_descriptor(), before);
    fixture_function(f, GPU);
    rig_topology_free(fixture_read(f));
    assert_int_equal(lowest_descriptor(), before);
}

/* A reading by a thread whose kernel answers openat2 with an error. */
struct reading {
    const char *path;
    int error;
    bool filtered;
    enum rig_status status;
    struct rig_error err;
};

static void *read_without_openat2(void *context)
{
    struct reading *r = context;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)r->error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = RIG_ARRAY_LENGTH(code), .filter = code};
    r->filtered = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
    struct rig_topology *t = NULL;
    rig_error_clear(&r->err);
    if (r->filtered)
        r->status = read_directory(r->path, &t, &r->err);
    return NULL;
}

static void a_kernel_without_openat2_reads_no_directory(void **state)
{
    const struct fixture *f = *state;
    fixture_function(f, GPU);
    static const struct {
        int error;
        enum rig_status status;
        const char *why;
    } rows[] = {
        {ENOSYS, RIG_REFUSED, "openat2, Linux 5.6"},
        {EPERM, RIG_REFUSED, "openat2, Linux 5.6"}, /* a container's filter */
        {EIO, RIG_BAD_INPUT, "holds no machine"},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        struct reading r = {.path = f->root, .error = rows[i].error};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, read_without_openat2, &r), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (!r.filtered)
            skip(); /* no filters here */
        assert_int_equal(r.status, rows[i].status);
        assert_non_null(strstr(r.err.why, rows[i].why));
    }
}

/* ---- the list of functions */

/* No more than PATH_MAX of Linux, 4096 bytes, is a path: 455 directories named `platform`. */
static void a_tree_too_deep_for_a_path_is_refused(void **state)
{
    const struct fixture *f = *state;
    enum { DEPTH = 455 };
    int fd[DEPTH + 1];
    char path[128];
    fixture_file(f, "sys/bus/pci/devices/0000:00:01.0/vendor", "0x1022\n");
    fixture_file(f, "sys/devices/uevent", "");
    snprintf(path, sizeof path, "%s/sys/devices", f->root);
    fd[0] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd[0] >= 0);
    for (int i = 0; i < DEPTH; i++) {
        assert_int_equal(mkdirat(fd[i], "platform", 0755), 0);
        fd[i + 1] = openat(fd[i], "platform", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(fd[i + 1] >= 0);
    }
    refused(f, RIG_BAD_INPUT, "too deep");
    for (int i = DEPTH; i > 0; i--) {
        close(fd[i]);
        assert_int_equal(unlinkat(fd[i - 1], "platform", AT_REMOVEDIR), 0);
    }
    close(fd[0]);
}

/* Names in the tree that are no function's and no host bridge's lead nowhere. */
static void only_functions_and_host_bridges_of_a_tree_are_walked(void **state)
{
    const struct fixture *f = *state;
    fixture_file(f, "sys/bus/pci/devices/README", "");
    fixture_file(f, "sys/devices/platform/pci0000:00/0000:00:01.0/0000:01:00.0/class", "0x030000");
    fixture_file(f, "sys/devices/pci0000:00/.0000:00:02.0/class", "0x030000");
    fixture_file(f, "sys/devices/pci0000:00/0000:00:02.x/class", "0x030000");
    fixture_file(f, "sys/devices/pci0000:00/00:03.0/class", "0x030000");
    fixture_file(f, "sys/devices/pci0000:00/0000:00:04.0-and-more-than-a-name-has/class", "");
    fixture_file(f, "sys/devices/0000:00:05.0/class", "0x088000"); /* below no host bridge */
    for (int i = 0; i < 40; i++) {
        char path[64];
        snprintf(path, sizeof path, "sys/devices/pci0000:00/file%d", i);
        fixture_file(f, path, "");
    }
    struct rig_topology *t = fixture_read(f);
    assert_int_equal(rig_topology_count(t), 3);
    assert_int_equal(function_named(t, "01:00.0")->parent, rig_topology_find(t, "00:01.0"));
    assert_int_equal(function_named(t, "01:00.0")->class_code.value, 0x030000);
    assert_int_equal(function_named(t, "00:05.0")->class_code.value, 0x088000);
    rig_topology_free(t);
}

/* The bridge has no link of its own; its directory is where the link of what is below it leads. */
static void a_bridge_is_read_where_the_links_below_it_lead(void **state)
{
    const struct fixture *f = *state;
    static const char *const targets[] = {"../../../devices/" GPU, "../../../elsewhere/" GPU};
    fixture_file(f, "sys/devices/" PORT "/class", "0x060400\n");
    fixture_file(f, "sys/devices/" GPU "/class", "0x030000\n");
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(targets); i++) {
        char link[128];
        snprintf(link, sizeof link, "%s/sys/bus/pci/devices/0000:01:00.0", f->root);
        unlink(link);
        fixture_link(f, "sys/bus/pci/devices/0000:01:00.0", targets[i]);
        struct rig_topology *t = fixture_read(f);
        assert_int_equal(rig_topology_count(t), 2);
        assert_int_equal(function_named(t, "01:00.0")->parent, rig_topology_find(t, "00:01.0"));
        const struct rig_function *port = function_named(t, "00:01.0");
        if (i == 0)
            assert_int_equal(port->class_code.value, 0x060400);
        else
            assert_int_equal(port->header_type.know, RIG_FACT_ASSUMED);
        assert_int_equal(port->header_type.value, 1);
        rig_topology_free(t);
    }
}

static void a_function_above_the_host_bridge_is_no_bridge(void **state)
{
    const struct fixture *f = *state;
    fixture_function(f, "0000:00:07.0/pci0001:00/0001:00:01.0");
    struct rig_topology *t = fixture_read(f);
    assert_int_equal(rig_topology_count(t), 1);
    assert_int_equal(function_named(t, "0001:00:01.0")->parent, -1);
    rig_topology_free(t);
}

static void a_list_that_cannot_be_opened_is_empty(void **state)
{
    const struct fixture *f = *state;
    struct live live = {.fs = {.root = open(f->root, O_RDONLY | O_DIRECTORY), .confined = true},
                        .functions = "none",
                        .tree = "none",
                        .groups = "none"};
    struct live_entries list;
    assert_int_equal(live_find(&live, &list, NULL), RIG_OK);
    assert_int_equal(list.count, 0);
    live_entries_free(&list);
    close(live.fs.root);
}

static void a_name_that_is_nearly_one_tells_no_place(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "pci00000000:00:0/0000:00:1c.0",            /* too long */
        "pci0:00/0000:00:1c.0",                     /* too short */
        "usb0000:00/0000:00:1c.0",                  /* another bus */
        "pci0000:00/0:00:1c.0",                     /* a short domain */
        "pci0000:00/0000:00:1c.0000000000000000000" /* a long name */
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(paths); i++) {
        enum place place;
        struct rig_bdf parent;
        if (live_place(paths[i], (struct rig_bdf){0, 0, 0x1c, 0}, &place, &parent))
            fail_msg("%s", paths[i]);
    }
}

/* ---- what follows from all functions together */

/* IOMMU groups that are there, and none of which a function is in. */
static void where_groups_were_gathered_a_function_without_one_has_none(void **state)
{
    const struct fixture *f = *state;
    fixture_function(f, GPU);
    struct rig_topology *t = fixture_read(f);
    assert_int_equal(function_named(t, "01:00.0")->iommu_group.know, RIG_FACT_UNKNOWN);
    rig_topology_free(t);
    fixture_file(f, "sys/kernel/iommu_groups/0/type", "DMA\n");
    t = fixture_read(f);
    assert_int_equal(function_named(t, "01:00.0")->iommu_group.know, RIG_FACT_ABSENT);
    rig_topology_free(t);
}

/* The physical function's BAR tells how CPU and bus addresses differ only where it is memory and
   has both; else the bus address is taken for the CPU's. */
static void a_virtual_functions_bar_is_placed_by_one_of_its_physical_function(void **state)
{
    (void)state;
    static const struct {
        const char *physical, *resource;
        uint32_t bar;
        uint64_t bus;
        enum rig_know know;
    } rows[] = {
        /* At 0x80000000 for the CPU and 0x20000000 on the bus: the same difference for 0x90000000.
         */
        {"0000:01:00.0", "0x80000000 0x80ffffff 0x40200\n", 0x20000000, 0x30000000, RIG_FACT_KNOWN},
        {"0000:01:00.0", "0x3000 0x307f 0x40101\n", 0x3001, 0x90000000, RIG_FACT_ASSUMED},
        {"0000:01:00.0", "0x0 0xffffff 0x20040200\n", 0, 0x90000000, RIG_FACT_ASSUMED},
        {"0000:01:00.0", NULL, 0x20000000, 0x90000000, RIG_FACT_ASSUMED},
        {"none", NULL, 0x20000000, 0x90000000, RIG_FACT_ASSUMED},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        struct fixture f;
        struct config_space c;
        char target[64];
        fixture_make(&f);
        fixture_function(&f, GPU);
        config_header(&c, 0x15b3, 0x101d, 0x020000, 0, RIG_PCIE_ENDPOINT);
        config_32(&c, 0x10, rows[i].bar);
        fixture_bytes(&f, "sys/devices/" GPU "/config", c.byte, 64);
        if (rows[i].resource)
            fixture_put(&f, GPU, "resource", rows[i].resource);
        fixture_function(&f, PORT "/0000:01:00.1");
        fixture_put(&f, PORT "/0000:01:00.1", "resource", "0x90000000 0x90ffffff 0x40200\n");
        snprintf(target, sizeof target, "../%s", rows[i].physical);
        fixture_link(&f, "sys/devices/" PORT "/0000:01:00.1/physfn", target);
        struct rig_topology *t = fixture_read(&f);
        struct rig_fact bus = function_named(t, "01:00.1")->bar[0].bus;
        if (bus.know != rows[i].know || bus.value != rows[i].bus)
            fail_msg("row %zu: know %d, %#llx", i, (int)bus.know, (unsigned long long)bus.value);
        rig_topology_free(t);
        fixture_remove(&f);
    }
}

static void a_virtual_function_of_none_is_refused(void **state)
{
    const struct fixture *f = *state;
    fixture_function(f, GPU);
    fixture_link(f, "sys/devices/" GPU "/physfn", "../0000:01:00.7");
    refused(f, RIG_BAD_INPUT, "its physical function is not there");
}

/* ---- as on this machine */

static void read_as_here(const struct fixture *f, struct live *live)
{
    *live = (struct live){.this_machine = true,
                          .fs = {.root = open(f->root, O_RDONLY | O_DIRECTORY)},
                          .t = topology_new(RIG_SOURCE_LIVE),
                          .functions = "sys/bus/pci/devices",
                          .tree = "sys/devices",
                          .groups = "sys/kernel/iommu_groups"};
    char path[] = "sys/devices/" GPU;
    struct live_entry entry = {.bdf = {0, 1, 0, 0}, .path = path};
    assert_non_null(live->t);
    assert_int_equal(live_function(live, &entry, NULL), RIG_OK);
    live_complete(live);
}

static void free_here(struct live *live)
{
    rig_topology_free(live->t);
    close(live->fs.root);
}

/* What may not have been gathered elsewhere does not exist here. */
static void what_this_machine_does_not_say_it_does_not_have(void **state)
{
    const struct fixture *f = *state;
    struct live live;
    fixture_function(f, GPU);
    read_as_here(f, &live);
    const struct rig_function *g = &live.t->node[0].f;
    assert_int_equal(g->config_bytes.know, RIG_FACT_KNOWN);
    assert_int_equal(g->config_bytes.value, 0);
    assert_int_equal(g->vf_count.know, RIG_FACT_ABSENT);
    assert_int_equal(g->pcie_type.know, RIG_FACT_ABSENT);
    assert_int_equal(g->driver.know, RIG_FACT_ABSENT);
    assert_int_equal(g->iommu_group.know, RIG_FACT_ABSENT);
    free_here(&live);
    fixture_put(f, GPU, "sriov_numvfs", "3\n");
    read_as_here(f, &live);
    assert_int_equal(live.t->node[0].f.vf_count.value, 3);
    free_here(&live);
}

/* A space that ends at byte 256 has no ACS for this machine's kernel; what is cut shorter has one
   that only root sees. */
static void acs_is_absent_where_this_machines_kernel_reaches_256_bytes(void **state)
{
    const struct fixture *f = *state;
    static const struct {
        size_t bytes;
        enum rig_know know;
        uint64_t value;
        const char *why;
    } rows[] = {
        {64, RIG_FACT_UNKNOWN, 0, "run as root"},
        {256, RIG_FACT_ABSENT, 0, NULL},
        {300, RIG_FACT_UNKNOWN, 0, NULL},
        {4096, RIG_FACT_KNOWN, 0x1d, NULL},
    };
    struct config_space c;
    config_header(&c, 0x1002, 0x744c, 0x030000, 0, RIG_PCIE_ENDPOINT);
    config_acs(&c, 0x005f, 0x001d);
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        struct live live;
        fixture_bytes(f, "sys/devices/" GPU "/config", c.byte, rows[i].bytes);
        read_as_here(f, &live);
        struct rig_fact acs = live.t->node[0].f.acs_control;
        assert_int_equal(acs.know, rows[i].know);
        assert_int_equal(acs.value, rows[i].value);
        assert_true(!rows[i].why || strstr(acs.from, rows[i].why));
        free_here(&live);
    }
    /* Here a conventional function lacks it in any space. */
    config_16(&c, 6, 0);
    struct live live;
    fixture_bytes(f, "sys/devices/" GPU "/config", c.byte, 256);
    read_as_here(f, &live);
    assert_int_equal(live.t->node[0].f.acs_control.know, RIG_FACT_ABSENT);
    free_here(&live);
}

static void this_machine_is_named_by_its_root_too(void **state)
{
    (void)state;
    struct rig_topology *t, *same;
    if (access("/sys/bus/pci/devices", R_OK) != 0)
        skip(); /* a machine without PCI */
    assert_int_equal(read_live("", &t, NULL), RIG_OK);
    assert_int_equal(read_live("/", &same, NULL), RIG_OK);
    assert_int_equal(rig_topology_machine(same)->source, RIG_SOURCE_LIVE);
    assert_int_equal(rig_topology_count(t), rig_topology_count(same));
    rig_topology_free(t);
    rig_topology_free(same);
}

#define ON_TREE(test) cmocka_unit_test_setup_teardown(test, fixture_set_up, fixture_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_TREE(reading_a_directory_leaves_no_descriptor_open),
        ON_TREE(a_kernel_without_openat2_reads_no_directory),
        ON_TREE(a_tree_too_deep_for_a_path_is_refused),
        ON_TREE(only_functions_and_host_bridges_of_a_tree_are_walked),
        ON_TREE(a_bridge_is_read_where_the_links_below_it_lead),
        ON_TREE(a_list_that_cannot_be_opened_is_empty),
        cmocka_unit_test(a_name_that_is_nearly_one_tells_no_place),
        ON_TREE(where_groups_were_gathered_a_function_without_one_has_none),
        cmocka_unit_test(a_virtual_functions_bar_is_placed_by_one_of_its_physical_function),
        ON_TREE(a_virtual_function_of_none_is_refused),
        ON_TREE(what_this_machine_does_not_say_it_does_not_have),
        ON_TREE(acs_is_absent_where_this_machines_kernel_reaches_256_bytes),
        cmocka_unit_test(this_machine_is_named_by_its_root_too),
        ON_TREE(a_function_above_the_host_bridge_is_no_bridge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
