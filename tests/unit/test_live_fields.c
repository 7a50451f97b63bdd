/* Each small file of a function's directory below /sys, whole and broken: what it says by the
   kernel's forms (drivers/pci/pci-sysfs.c), or nothing. */
#include "topology/live.h"
#include "topology/live_machine.h"

#include "fixture_tree.h"
#include "reading.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PORT "pci0000:00/0000:00:01.0"
#define GPU PORT "/0000:01:00.0"

#define F(member) offsetof(struct rig_function, member)

static void make_gpu(struct fixture *f)
{
    fixture_make(f);
    fixture_function(f, PORT);
    fixture_put(f, PORT, "class", "0x060400\n");
    fixture_function(f, GPU);
    fixture_put(f, GPU, "class", "0x030000\n");
    fixture_put(f, GPU, "vendor", "0x10de\n");
    fixture_put(f, GPU, "device", "0x2684\n");
}

struct row {
    const char *chain, *file, *text;
    size_t offset;
    uint64_t value;
};

static void each_file_says_its_fact_or_nothing(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {GPU, "numa_node", "1\n", F(numa_node), 1},
        {GPU, "numa_node", "-1\n", F(numa_node), FACT_ABSENT},
        {GPU, "numa_node", "x\n", F(numa_node), FACT_UNKNOWN},
        {GPU, "numa_node", "4294967296\n", F(numa_node), FACT_UNKNOWN},
        {GPU, "numa_node", "0X1\n", F(numa_node), 1},
        {GPU, "numa_node", "  1 \n", F(numa_node), 1},
        {GPU, "numa_node", "0x\n", F(numa_node), FACT_UNKNOWN},
        {GPU, "numa_node", "0\n", F(numa_node), 0},
        {GPU, "numa_node", "0y\n", F(numa_node), FACT_UNKNOWN},
        {GPU, "numa_node", "18446744073709551616\n", F(numa_node), FACT_UNKNOWN},
        {GPU, "numa_node", "18446744073709551619\n", F(numa_node), FACT_UNKNOWN},
        {GPU, "numa_node", "99999999999999999999999999999999999999999\n", F(numa_node),
         FACT_UNKNOWN},
        {GPU, "numa_node", "   \n", F(numa_node), FACT_UNKNOWN},
        {GPU, "current_link_speed", "8.0 GT/s PCIe\n", F(link_speed), 80},
        {GPU, "current_link_speed", "16 GT/s PCIe\n", F(link_speed), 160},
        {GPU, "current_link_speed", "2.5 GT/s\n", F(link_speed), 25},
        {GPU, "current_link_speed", "Unknown\n", F(link_speed), FACT_UNKNOWN},
        {GPU, "current_link_speed", "8.x GT/s\n", F(link_speed), FACT_UNKNOWN},
        {GPU, "current_link_speed", "8. GT/s\n", F(link_speed), FACT_UNKNOWN},
        {GPU, "current_link_speed", "8.:GT/s\n", F(link_speed), FACT_UNKNOWN},
        {GPU, "current_link_speed", "12345 GT/s\n", F(link_speed), FACT_UNKNOWN},
        {GPU, "current_link_width", "8\n", F(link_width), 8},
        {GPU, "current_link_width", "0\n", F(link_width), FACT_UNKNOWN},
        {GPU, "current_link_width", "33\n", F(link_width), FACT_UNKNOWN},
        {GPU, "max_link_speed", "8.0 GT/s\n", F(pcie_type), RIG_PCIE_ENDPOINT},
        {GPU, "mem_info_vram_total", "25769803776\n", F(gpu_memory), 24ull << 30},
        {GPU, "mem_info_vram_total", "1073741824\n", F(gpu_memory), 1ull << 30},
        {GPU, "mem_info_vram_total", "0\n", F(gpu_memory), 24ull << 30}, /* by its id */
        {GPU, "subsystem_vendor", "0x1043\n", F(subsystem_vendor), 0x1043},
        {GPU, "subsystem_vendor", "0x11043\n", F(subsystem_vendor), FACT_UNKNOWN},
        {GPU, "class", "0x060700\n", F(header_type), 2},
        {GPU, "class", "0x060400\n", F(header_type), 1},
        {GPU, "resource", "0x0000000010000000 0x0000000010ffffff 0x0000000000040200\n",
         F(bar[0].size), 16u << 20},
        {GPU, "resource", "0x0000000000003000 0x000000000000307f 0x0000000000040101\n",
         F(bar[0].flags), RIG_BAR_IO},
        {GPU, "resource", "0x0000000010000000 0x0000000010ffffff 0x0000000000142208",
         F(bar[0].flags), RIG_BAR_64BIT | RIG_BAR_PREFETCHABLE},
        {GPU, "resource", "0x0000000010000000 0x0000000010ffffff 0x0000000020040200\n",
         F(bar[0].cpu), FACT_ABSENT},
        {GPU, "resource", "0x0000000000000000 0x0000000000ffffff 0x0000000000040200\n",
         F(bar[0].cpu), FACT_ABSENT},
        {GPU, "resource", "0x0000000000000000 0x0000000000000000 0x0000000000000000\n",
         F(bar[0].flags), FACT_ABSENT},
        {GPU, "resource", "0x0000000010000000 0x0000000000ffffff 0x0000000000040200\n",
         F(bar[0].flags), FACT_UNKNOWN},
        {GPU, "resource", "0x0000000010000000 0x0000000010fffffe 0x0000000000040200\n",
         F(bar[0].flags), FACT_UNKNOWN},
        {GPU, "resource", "0x10000000 0x10ffffff 0x40200 0x0\n", F(bar[0].flags), FACT_UNKNOWN},
        {GPU, "resource", "0x10000000 0x10ffffff\n", F(bar[0].flags), FACT_UNKNOWN},
        {GPU, "resource", "0x10000000\n", F(bar[0].flags), FACT_UNKNOWN},
        {GPU, "resource", "10000000 0x10ffffff 0x40200\n", F(bar[0].flags), FACT_UNKNOWN},
        {GPU, "resource", "0y10000000 0x10ffffff 0x40200\n", F(bar[0].flags), FACT_UNKNOWN},
        {GPU, "resource", "0x10000000 0x10ffffff 0xzz\n", F(bar[0].flags), FACT_UNKNOWN},
        {GPU, "resource", "0x10000000 0x10ffffff 0x00000000000040200\n", F(bar[0].flags),
         FACT_UNKNOWN},
        {GPU, "resource", "0x10000000 0x10ffffff 0x0\n", F(bar[0].size), 16u << 20},
        {GPU, "resource", "0x0 0xffffff 0x0\n", F(bar[0].size), 16u << 20},
        {GPU, "resource", "", F(bar[0].flags), FACT_UNKNOWN},
        {GPU, "vendor", "x\n", F(vendor), FACT_UNKNOWN},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        struct fixture f;
        make_gpu(&f);
        fixture_put(&f, rows[i].chain, rows[i].file, rows[i].text);
        struct rig_topology *t = fixture_read(&f);
        struct rig_fact fact;
        int k = rig_topology_find(t, "01:00.0");
        assert_true(k >= 0);
        memcpy(&fact, (const char *)rig_topology_function(t, k) + rows[i].offset, sizeof fact);
        char what[256];
        snprintf(what, sizeof what, "%s: %s", rows[i].file, rows[i].text);
        expect_fact(what, fact, rows[i].value);
        rig_topology_free(t);
        fixture_remove(&f);
    }
}

static void resizable_sizes_are_bits_in_hex(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } rows[] = {{"00000000000000ff\n", 0xff}, {"0\n", FACT_UNKNOWN}, {"zz\n", FACT_UNKNOWN}};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        struct fixture f;
        make_gpu(&f);
        fixture_put(&f, GPU, "resource", "0x10000000 0x10ffffff 0x40200\n");
        fixture_put(&f, GPU, "resource0_resize", rows[i].text);
        struct rig_topology *t = fixture_read(&f);
        expect_fact(rows[i].text,
                    rig_topology_function(t, rig_topology_find(t, "01:00.0"))->bar[0].resizable,
                    rows[i].value);
        rig_topology_free(t);
        fixture_remove(&f);
    }
}

static void groups_are_told_by_links_names_and_types(void **state)
{
    (void)state;
    static const struct {
        const char *target, *name, *type;
        uint64_t group, iommu;
    } rows[] = {
        {"../../../kernel/iommu_groups/3", NULL, "DMA-FQ\n", 3, RIG_IOMMU_TRANSLATE},
        {"../../../kernel/iommu_groups/3", "intel\n", "identity\n", 3, RIG_IOMMU_IDENTITY},
        {"../../../kernel/iommu_groups/3", "vfio-noiommu\n", "DMA\n", FACT_ABSENT, RIG_IOMMU_NONE},
        {"../../../kernel/iommu_groups/3", NULL, "\n", 3, FACT_UNKNOWN},
        {"../../../kernel/iommu_groups/3", NULL, NULL, 3, FACT_UNKNOWN},
        {"../../../kernel/iommu_groups/x", NULL, NULL, FACT_UNKNOWN, FACT_UNKNOWN},
        {"3", NULL, NULL, 3, FACT_UNKNOWN},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        struct fixture f;
        make_gpu(&f);
        fixture_link(&f, "sys/devices/" GPU "/iommu_group", rows[i].target);
        if (rows[i].name)
            fixture_file(&f, "sys/kernel/iommu_groups/3/name", rows[i].name);
        if (rows[i].type)
            fixture_file(&f, "sys/kernel/iommu_groups/3/type", rows[i].type);
        struct rig_topology *t = fixture_read(&f);
        const struct rig_function *g = rig_topology_function(t, rig_topology_find(t, "01:00.0"));
        expect_fact(rows[i].target, g->iommu_group, rows[i].group);
        expect_fact(rows[i].target, g->iommu, rows[i].iommu);
        rig_topology_free(t);
        fixture_remove(&f);
    }
}

/* Ids that read all ones come from the files, if those have some. */
static void ids_of_all_ones_are_those_of_the_files(void **state)
{
    (void)state;
    static const struct {
        const char *vendor, *device;
        uint64_t expected;
    } rows[] = {{"0x15b3\n", "0x1018\n", 0x1018},
                {"x\n", "0x1018\n", FACT_UNKNOWN},
                {"0x15b3\n", "x\n", FACT_UNKNOWN},
                {"0xffff\n", "0x1018\n", FACT_UNKNOWN},
                {"0x15b3\n", "0x11018\n", FACT_UNKNOWN}};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        struct fixture f;
        struct config_space c;
        make_gpu(&f);
        config_header(&c, 0xffff, 0xffff, 0x020000, 0, RIG_PCIE_ENDPOINT);
        fixture_bytes(&f, "sys/devices/" GPU "/config", c.byte, i % 2 ? 256 : 64);
        fixture_put(&f, GPU, "vendor", rows[i].vendor);
        fixture_put(&f, GPU, "device", rows[i].device);
        struct rig_topology *t = fixture_read(&f);
        const struct rig_function *g = rig_topology_function(t, rig_topology_find(t, "01:00.0"));
        if (rows[i].expected != FACT_UNKNOWN)
            expect_fact(rows[i].device, g->device, rows[i].expected);
        else
            assert_false(fact_is(g->vendor, 0x15b3) && fact_is(g->device, 0x1018));
        rig_topology_free(t);
        fixture_remove(&f);
    }
}

static const struct rig_function *read_gpu(const struct fixture *f, struct rig_topology **out)
{
    *out = fixture_read(f);
    return rig_topology_function(*out, rig_topology_find(*out, "01:00.0"));
}

/* A function that is gone reads all ones throughout. */
static void a_function_that_is_gone_has_the_ids_of_the_files_and_no_address(void **state)
{
    (void)state;
    struct fixture f;
    struct rig_topology *t;
    uint8_t ones[64];
    memset(ones, 0xff, sizeof ones);
    make_gpu(&f);
    fixture_bytes(&f, "sys/devices/" GPU "/config", ones, sizeof ones);
    const struct rig_function *g = read_gpu(&f, &t);
    expect_fact("vendor", g->vendor, 0x10de);
    expect_fact("device", g->device, 0x2684);
    assert_false(rig_fact_has(g->bar[0].bus));
    rig_topology_free(t);
    fixture_remove(&f);
}

/* A GPU whose registers are yet to be written to its file. */
static void make_gpu_of_registers(struct fixture *f, struct config_space *out_space)
{
    make_gpu(f);
    config_header(out_space, 0x10de, 0x2684, 0x030000, 0, RIG_PCIE_ENDPOINT);
}

/* No list of capabilities (status register, bit 4), so none of PCI Express: no privilege is needed
   to say so. */
static void without_capabilities_a_type_is_absent_in_64_bytes_already(void **state)
{
    (void)state;
    struct fixture f;
    struct config_space c;
    struct rig_topology *t;
    make_gpu_of_registers(&f, &c);
    config_16(&c, 6, 0);
    fixture_bytes(&f, "sys/devices/" GPU "/config", c.byte, 64);
    expect_fact("type", read_gpu(&f, &t)->pcie_type, FACT_ABSENT);
    rig_topology_free(t);
    fixture_remove(&f);
}

/* What the configuration space says stands where the kernel's files say less, or otherwise. */
static void registers_stand_where_files_say_less(void **state)
{
    (void)state;
    struct fixture f;
    struct config_space c;
    struct rig_topology *t;
    make_gpu_of_registers(&f, &c);
    config_32(&c, 0x10, 0x20000000);
    config_32(&c, 0x14, 0x30000000);
    /* A Resizable BAR capability, 7.8.6: sizes of 1 MB to 128 MB for BAR 1, of which it has 16 MB.
     */
    config_32(&c, 0x100, 0x00010015);
    config_32(&c, 0x104, 0x00000ff0);
    config_32(&c, 0x108, 0x00000421);
    fixture_bytes(&f, "sys/devices/" GPU "/config", c.byte, sizeof c.byte);
    fixture_put(&f, GPU, "resource", "0x0 0x0 0x0\n0x30000000 0x30ffffff 0x40200\n");
    fixture_put(&f, GPU, "resource1_resize", "1\n");
    fixture_function(&f, PORT "/0000:01:00.7");
    fixture_link(&f, "sys/devices/" GPU "/physfn", "../0000:01:00.7");
    const struct rig_function *g = read_gpu(&f, &t);
    expect_fact("bus", g->bar[0].bus, 0x20000000);
    expect_fact("sizes", g->bar[1].resizable, 0xff);
    expect_fact("flags", g->bar[1].flags, 0); /* not RIG_BAR_VIRTUAL: it has a register */
    rig_topology_free(t);
    fixture_remove(&f);
}

static void services_below_a_port_tell_its_type(void **state)
{
    (void)state;
    static const struct {
        const char *service;
        uint64_t type;
    } rows[] = {{"0000:00:01.0:pcie001", RIG_PCIE_ROOT_PORT},
                {"0000:00:01.0:pcie102", RIG_PCIE_UPSTREAM_PORT},
                {"0000:00:01.0:pcie204", RIG_PCIE_DOWNSTREAM_PORT},
                {"0000:00:01.0:pcie304", RIG_PCIE_ROOT_PORT}, /* assumed of a bridge at the root */
                {"0000:00:01.0:pcie/", RIG_PCIE_ROOT_PORT},
                {"0000:00:01.0:nvme", RIG_PCIE_ROOT_PORT},
                {"0000:00:02.0:pcie104", RIG_PCIE_ROOT_PORT}};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        struct fixture f;
        char path[256];
        make_gpu(&f);
        fixture_put(&f, PORT, "max_link_speed", "8.0 GT/s\n");
        snprintf(path, sizeof path, "sys/devices/" PORT "/%s/uevent", rows[i].service);
        fixture_file(&f, path, "");
        struct rig_topology *t = fixture_read(&f);
        expect_fact(rows[i].service,
                    rig_topology_function(t, rig_topology_find(t, "00:01.0"))->pcie_type,
                    rows[i].type);
        rig_topology_free(t);
        fixture_remove(&f);
    }
}

/* ---- /proc */

static void processors_are_told_by_their_first_block(void **state)
{
    (void)state;
    static const struct {
        const char *text, *vendor; /* "-": absent; NULL: not known */
        uint64_t family;
    } rows[] = {
        {"processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel name\t: A\n\nvendor_id\t: B\n",
         "AuthenticAMD", 25},
        {"vendor_id\t: GenuineIntel\ncpu family\t: x\n", "GenuineIntel", FACT_UNKNOWN},
        {"vendor_id\t: GenuineIntel\ncpu family\t: 65536\n", "GenuineIntel", FACT_UNKNOWN},
        {"vendor_id is none\n", NULL, FACT_UNKNOWN},
        {"vendor_id\t:", "", FACT_UNKNOWN},
        {"CPU implementer\t: 0x41\n", "-", FACT_ABSENT},
        {"cpu\t\t: POWER9\n", "-", FACT_ABSENT},
        {"isa\t\t: rv64imafdc\n", "-", FACT_ABSENT},
        {"hart\t\t: 1\n", "-", FACT_ABSENT},
        {"", NULL, FACT_UNKNOWN},
        {"\nvendor_id\t: B\n", NULL, FACT_UNKNOWN},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        struct rig_topology *t = topology_new(RIG_SOURCE_SYSFS);
        cpu_facts(t, rows[i].text);
        struct rig_text vendor = t->machine.cpu_vendor;
        bool right =
            !rows[i].vendor ? vendor.know == RIG_FACT_UNKNOWN
            : strcmp(rows[i].vendor, "-") == 0
                ? vendor.know == RIG_FACT_ABSENT
                : vendor.know == RIG_FACT_KNOWN && strcmp(vendor.value, rows[i].vendor) == 0;
        if (!right)
            fail_msg("%s", rows[i].text);
        expect_fact(rows[i].text, t->machine.cpu_family, rows[i].family);
        rig_topology_free(t);
    }
}

static void a_release_is_the_first_word_that_begins_with_a_digit(void **state)
{
    (void)state;
    static const struct {
        const char *file, *text, *kernel;
    } rows[] = {{"proc/version", "Linux version 6.1.0-18 (a@b)\n", "6.1.0-18"},
                {"proc/version", "Linux version (a) 6.1.0\n", "6.1.0"},
                {"proc/version", "Linux version\n", NULL},
                {"proc/version", "Linux version :6 x\n", NULL},
                {"proc/sys/kernel/osrelease", "\n", NULL},
                {"proc/sys/kernel/osrelease", "6.1/../../x\n", "6.1/../../x"},
                {"sos_commands/kernel/uname_-a", "Linux host 6.1.0 #1\n", "6.1.0"}};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        struct fixture f;
        make_gpu(&f);
        fixture_file(&f, rows[i].file, rows[i].text);
        struct rig_topology *t = fixture_read(&f);
        struct rig_text kernel = t->machine.kernel;
        if (rows[i].kernel
                ? kernel.know != RIG_FACT_KNOWN || strcmp(kernel.value, rows[i].kernel) != 0
                : kernel.know != RIG_FACT_UNKNOWN)
            fail_msg("%s: %s", rows[i].text, kernel.value ? kernel.value : "-");
        rig_topology_free(t);
        fixture_remove(&f);
    }
}

/* No file's name is so long; the release is kept as it is. */
static void a_release_too_long_for_a_name_has_no_configuration(void **state)
{
    (void)state;
    struct fixture f;
    char release[402];
    memset(release, '6', 401);
    release[401] = '\0';
    make_gpu(&f);
    fixture_file(&f, "proc/sys/kernel/osrelease", release);
    fixture_file(&f, "proc/config.gz", "");
    struct rig_topology *t = fixture_read(&f);
    assert_string_equal(t->machine.kernel.value, release);
    expect_fact("p2pdma", t->machine.p2pdma, FACT_UNKNOWN);
    rig_topology_free(t);
    fixture_remove(&f);
}

/* ---- small files */

static void small_files_are_read_whole_or_not_at_all(void **state)
{
    (void)state;
    struct fixture f;
    fixture_make(&f);
    fixture_file(&f, "file", "0123456789\n");
    fixture_link(&f, "link", "0123456789");
    fixture_file(&f, "dir/file", "");
    struct sysfs fs = {.root = open(f.root, O_RDONLY | O_DIRECTORY), .confined = true};
    char text[64];
    assert_true(sysfs_text(&fs, "file", text, 12));
    assert_string_equal(text, "0123456789");
    assert_false(sysfs_text(&fs, "file", text, 11));
    assert_false(sysfs_text(&fs, "none", text, sizeof text));
    assert_int_equal(sysfs_read(&fs, "dir", text, sizeof text), -1);
    assert_int_equal(sysfs_read(&fs, "file", text, 4), 4);
    assert_true(sysfs_link(&fs, "link", text, 11));
    assert_string_equal(text, "0123456789");
    assert_false(sysfs_link(&fs, "link", text, 10));
    assert_false(sysfs_link(&fs, "file", text, sizeof text));
    assert_false(sysfs_link(&fs, "none", text, sizeof text));
    struct sysfs own = {.root = open("/", O_RDONLY | O_DIRECTORY)};
    /* A regular file that cannot be read at its start: no memory is there. */
    assert_int_equal(sysfs_read(&own, "proc/self/mem", text, sizeof text), -1);
    close(own.root);
    assert_string_equal(sysfs_base_name("a/b"), "b");
    assert_string_equal(sysfs_base_name("b"), "b");
    close(fs.root);
    fixture_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_file_says_its_fact_or_nothing),
        cmocka_unit_test(resizable_sizes_are_bits_in_hex),
        cmocka_unit_test(groups_are_told_by_links_names_and_types),
        cmocka_unit_test(ids_of_all_ones_are_those_of_the_files),
        cmocka_unit_test(a_function_that_is_gone_has_the_ids_of_the_files_and_no_address),
        cmocka_unit_test(without_capabilities_a_type_is_absent_in_64_bytes_already),
        cmocka_unit_test(registers_stand_where_files_say_less),
        cmocka_unit_test(services_below_a_port_tell_its_type),
        cmocka_unit_test(processors_are_told_by_their_first_block),
        cmocka_unit_test(a_release_is_the_first_word_that_begins_with_a_digit),
        cmocka_unit_test(a_release_too_long_for_a_name_has_no_configuration),
        cmocka_unit_test(small_files_are_read_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
