/* Machines read from a /sys: trees that the test makes, this machine, and gathered ones. */
#include "topology/live.h"
#include "topology/live_machine.h"

#include "fixture_tree.h"
#include "reading.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PORT "pci0000:00/0000:00:01.0"
#define GPU PORT "/0000:01:00.0"

static void expect(struct rig_fact f, enum rig_know know, uint64_t value)
{
    assert_int_equal(f.know, know);
    if (rig_fact_has(f))
        assert_int_equal(f.value, value);
}

static void put_config(const struct fixture *f, const char *chain, const struct config_space *c,
                       size_t bytes)
{
    char path[512];
    snprintf(path, sizeof path, "sys/devices/%s/config", chain);
    fixture_bytes(f, path, c->byte, bytes);
}

/* A root port whose ACS control is 0x001d, and a GPU below it whose 64-bit BAR 0 is at bus address
   0x3800000000 and CPU address 0x7800000000. */
static void make_machine(const struct fixture *f, size_t config_bytes)
{
    struct config_space c;
    fixture_function(f, PORT);
    config_header(&c, 0x1022, 0x1483, 0x060400, 1, RIG_PCIE_ROOT_PORT);
    c.byte[0x18] = 0;
    c.byte[0x19] = 1;
    c.byte[0x1a] = 1;
    config_acs(&c, 0x005f, 0x001d);
    put_config(f, PORT, &c, config_bytes);
    fixture_put(f, PORT, "vendor", "0x1022\n");
    fixture_put(f, PORT, "device", "0x1483\n");
    fixture_put(f, PORT, "class", "0x060400\n");
    fixture_put(f, PORT, "current_link_speed", "8.0 GT/s PCIe\n");
    fixture_put(f, PORT, "numa_node", "-1\n");

    fixture_function(f, GPU);
    config_header(&c, 0x1002, 0x744c, 0x030000, 0, RIG_PCIE_ENDPOINT);
    config_32(&c, 0x10, 0x0000000c);
    config_32(&c, 0x14, 0x00000038);
    put_config(f, GPU, &c, config_bytes);
    fixture_put(f, GPU, "vendor", "0x1002\n");
    fixture_put(f, GPU, "device", "0x744c\n");
    fixture_put(f, GPU, "class", "0x030000\n");
    fixture_put(f, GPU, "subsystem_vendor", "0x1da2\n");
    fixture_put(f, GPU, "resource",
                "0x0000007800000000 0x0000007fffffffff 0x000000000014220c\n"
                "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
                "0x0000000000000000 0x000000000fffffff 0x0000000020040200\n"
                "0x0000000000000000 0x0000000000000000 0x0000000000000000\n");
    fixture_put(f, GPU, "resource0_resize", "0000000000008100\n");
    fixture_put(f, GPU, "current_link_speed", "8.0 GT/s PCIe\n");
    fixture_put(f, GPU, "max_link_speed", "16.0 GT/s PCIe\n");
    fixture_put(f, GPU, "current_link_width", "8\n");
    fixture_put(f, GPU, "max_link_width", "16\n");
    fixture_put(f, GPU, "numa_node", "1\n");
    fixture_put(f, GPU, "dma_mask_bits", "44\n");
    fixture_put(f, GPU, "mem_info_vram_total", "25753026560\n");
    fixture_link(f, "sys/devices/" GPU "/driver", "../../../../bus/pci/drivers/amdgpu");
    fixture_link(f, "sys/devices/" GPU "/iommu_group", "../../../../kernel/iommu_groups/14");
    fixture_file(f, "sys/kernel/iommu_groups/14/type", "DMA-FQ\n");
}

static void a_tree_read_with_privilege_gives_every_fact(void **state)
{
    const struct fixture *f = *state;
    make_machine(f, 4096);
    struct rig_topology *t = fixture_read(f);
    assert_int_equal(rig_topology_machine(t)->source, RIG_SOURCE_SYSFS);
    assert_int_equal(rig_topology_count(t), 2);
    const struct rig_function *port = function_named(t, "0000:00:01.0");
    assert_int_equal(port->parent, -1);
    assert_int_equal(port->parent_known.know, RIG_FACT_KNOWN);
    expect(port->pcie_type, RIG_FACT_KNOWN, RIG_PCIE_ROOT_PORT);
    expect(port->acs_control, RIG_FACT_KNOWN, 0x1d);
    expect(port->numa_node, RIG_FACT_ABSENT, 0);
    assert_int_equal(port->driver.know, RIG_FACT_ABSENT);
    expect(port->iommu_group, RIG_FACT_ABSENT, 0);
    const struct rig_function *gpu = function_named(t, "gpu0");
    assert_int_equal(gpu->parent, rig_topology_find(t, "0000:00:01.0"));
    expect(gpu->subsystem_vendor, RIG_FACT_KNOWN, 0x1da2);
    expect(gpu->link_speed, RIG_FACT_KNOWN, 80);
    expect(gpu->max_speed, RIG_FACT_KNOWN, 160);
    expect(gpu->link_width, RIG_FACT_KNOWN, 8);
    expect(gpu->max_width, RIG_FACT_KNOWN, 16);
    expect(gpu->numa_node, RIG_FACT_KNOWN, 1);
    expect(gpu->dma_mask_bits, RIG_FACT_KNOWN, 44);
    expect(gpu->gpu_memory, RIG_FACT_KNOWN, 25753026560);
    expect(gpu->iommu_group, RIG_FACT_KNOWN, 14);
    assert_string_equal(gpu->iommu_type.value, "DMA-FQ");
    expect(gpu->iommu, RIG_FACT_KNOWN, RIG_IOMMU_TRANSLATE);
    assert_string_equal(gpu->driver.value, "amdgpu");
    rig_topology_free(t);
}

static void bus_and_cpu_addresses_of_a_bar_are_told_apart(void **state)
{
    const struct fixture *f = *state;
    make_machine(f, 64);
    struct rig_topology *t = fixture_read(f);
    const struct rig_function *gpu = function_named(t, "0000:01:00.0");
    expect(gpu->bar[0].flags, RIG_FACT_KNOWN, RIG_BAR_64BIT | RIG_BAR_PREFETCHABLE);
    expect(gpu->bar[0].bus, RIG_FACT_KNOWN, 0x3800000000);
    expect(gpu->bar[0].cpu, RIG_FACT_KNOWN, 0x7800000000);
    expect(gpu->bar[0].size, RIG_FACT_KNOWN, 32ull << 30);
    expect(gpu->bar[0].resizable, RIG_FACT_KNOWN, 0x8100);
    expect(gpu->bar[1].flags, RIG_FACT_ABSENT, 0);
    /* 0x20000000: the kernel gave it no address (include/linux/ioport.h, IORESOURCE_UNSET). */
    expect(gpu->bar[2].flags, RIG_FACT_KNOWN, 0);
    expect(gpu->bar[2].cpu, RIG_FACT_ABSENT, 0);
    expect(gpu->bar[2].bus, RIG_FACT_ABSENT, 0);
    expect(gpu->bar[2].size, RIG_FACT_KNOWN, 256ull << 20);
    rig_topology_free(t);
}

static void without_privilege_acs_is_unknown_with_its_reason_and_ports_are_assumed(void **state)
{
    const struct fixture *f = *state;
    make_machine(f, 64);
    struct rig_topology *t = fixture_read(f);
    const struct rig_function *port = function_named(t, "0000:00:01.0");
    expect(port->acs_control, RIG_FACT_UNKNOWN, 0);
    assert_non_null(strstr(port->acs_control.from, "ends at byte 64"));
    expect(port->pcie_type, RIG_FACT_ASSUMED, RIG_PCIE_ROOT_PORT);
    assert_non_null(strstr(port->pcie_type.from, "root bus"));
    expect(port->secondary, RIG_FACT_KNOWN, 1);
    const struct rig_function *gpu = function_named(t, "gpu0");
    expect(gpu->pcie_type, RIG_FACT_ASSUMED, RIG_PCIE_ENDPOINT);
    expect(gpu->link_speed, RIG_FACT_KNOWN, 80);
    rig_topology_free(t);
}

static void a_ports_services_tell_its_type(void **state)
{
    const struct fixture *f = *state;
    make_machine(f, 64);
    fixture_file(f, "sys/devices/" PORT "/0000:00:01.0:pcie204/uevent", "");
    struct rig_topology *t = fixture_read(f);
    expect(function_named(t, "0000:00:01.0")->pcie_type, RIG_FACT_ASSUMED,
           RIG_PCIE_DOWNSTREAM_PORT);
    rig_topology_free(t);
}

static void a_vmd_domain_has_a_host_bridge_of_its_own(void **state)
{
    const struct fixture *f = *state;
    fixture_function(f, "pci0000:97/0000:97:00.5");
    fixture_function(f, "pci0000:97/0000:97:00.5/pci10000:80/10000:80:01.0");
    fixture_function(f, "pci0000:97/0000:97:00.5/pci10000:80/10000:80:01.0/10000:81:00.0");
    fixture_put(f, "pci0000:97/0000:97:00.5/pci10000:80/10000:80:01.0", "class", "0x060400");
    struct rig_topology *t = fixture_read(f);
    assert_int_equal(rig_topology_host_bridges(t), 2);
    const struct rig_function *drive = function_named(t, "10000:81:00.0");
    assert_int_equal(drive->parent, rig_topology_find(t, "10000:80:01.0"));
    const struct rig_host_bridge *h = rig_topology_host_bridge(t, drive->host_bridge);
    assert_int_equal(h->domain, 0x10000);
    assert_int_equal(h->bus, 0x80);
    rig_topology_free(t);
}

static void a_virtual_function_has_its_ids_and_addresses(void **state)
{
    const struct fixture *f = *state;
    make_machine(f, 64);
    struct config_space c;
    config_header(&c, 0x15b3, 0x101d, 0x020000, 0, RIG_PCIE_ENDPOINT);
    config_32(&c, 0x10, 0x0000000c);
    config_32(&c, 0x14, 0x00000030);
    fixture_function(f, PORT "/0000:01:08.0");
    put_config(f, PORT "/0000:01:08.0", &c, 64);
    fixture_put(f, PORT "/0000:01:08.0", "resource",
                "0x0000007000000000 0x0000007001ffffff 0x000000000014220c\n");
    fixture_put(f, PORT "/0000:01:08.0", "sriov_numvfs", "1\n");
    config_header(&c, 0xffff, 0xffff, 0x020000, 0, RIG_PCIE_ENDPOINT);
    fixture_function(f, PORT "/0000:01:09.0");
    put_config(f, PORT "/0000:01:09.0", &c, 64);
    fixture_put(f, PORT "/0000:01:09.0", "vendor", "0x15b3\n");
    fixture_put(f, PORT "/0000:01:09.0", "device", "0x101e\n");
    fixture_put(f, PORT "/0000:01:09.0", "resource",
                "0x0000007002000000 0x00000070021fffff 0x000000000014220c\n");
    fixture_link(f, "sys/devices/" PORT "/0000:01:09.0/physfn", "../0000:01:08.0");
    struct rig_topology *t = fixture_read(f);
    const struct rig_function *v = function_named(t, "0000:01:09.0");
    expect(v->vendor, RIG_FACT_KNOWN, 0x15b3);
    expect(v->device, RIG_FACT_KNOWN, 0x101e);
    expect(v->virtual_of, RIG_FACT_KNOWN, 1);
    assert_int_equal(v->physical, rig_topology_find(t, "0000:01:08.0"));
    expect(v->bar[0].flags, RIG_FACT_KNOWN, RIG_BAR_64BIT | RIG_BAR_PREFETCHABLE | RIG_BAR_VIRTUAL);
    expect(v->bar[0].cpu, RIG_FACT_KNOWN, 0x7002000000);
    /* The physical function's BAR is at bus 0x3000000000, CPU 0x7000000000. */
    expect(v->bar[0].bus, RIG_FACT_KNOWN, 0x3002000000);
    rig_topology_free(t);
}

static void what_was_not_gathered_is_unknown(void **state)
{
    const struct fixture *f = *state;
    fixture_function(f, PORT);
    fixture_put(f, PORT, "class", "0x060400\n");
    fixture_function(f, GPU);
    fixture_put(f, GPU, "resource", "0x0000000080000000 0x000000008fffffff 0x0000000000042208\n");
    struct rig_topology *t = fixture_read(f);
    const struct rig_function *gpu = function_named(t, "0000:01:00.0");
    expect(gpu->vendor, RIG_FACT_UNKNOWN, 0);
    expect(gpu->config_bytes, RIG_FACT_KNOWN, 0);
    expect(gpu->acs_control, RIG_FACT_UNKNOWN, 0);
    expect(gpu->iommu_group, RIG_FACT_UNKNOWN, 0);
    assert_int_equal(gpu->driver.know, RIG_FACT_UNKNOWN);
    expect(gpu->bar[0].bus, RIG_FACT_ASSUMED, 0x80000000);
    expect(function_named(t, "0000:00:01.0")->header_type, RIG_FACT_ASSUMED, 1);
    assert_int_equal(rig_topology_machine(t)->cpu_vendor.know, RIG_FACT_UNKNOWN);
    assert_int_equal(rig_topology_machine(t)->p2pdma.know, RIG_FACT_UNKNOWN);
    rig_topology_free(t);
}

static void a_bridge_that_only_paths_name_is_there(void **state)
{
    const struct fixture *f = *state;
    fixture_function(f, PORT "/0000:01:00.0/0000:02:08.0/0000:03:00.0");
    struct rig_topology *t = fixture_read(f);
    assert_int_equal(rig_topology_count(t), 4);
    assert_int_equal(function_named(t, "0000:03:00.0")->parent,
                     rig_topology_find(t, "0000:02:08.0"));
    assert_int_equal(function_named(t, "0000:00:01.0")->parent, -1);
    assert_false(t->whole);
    rig_topology_free(t);
}

static void a_tree_that_lost_its_links_is_read_by_its_directories(void **state)
{
    const struct fixture *f = *state;
    fixture_file(f, "sys/bus/pci/devices/0000:00:01.0/vendor", "0x1022\n");
    fixture_file(f, "sys/bus/pci/devices/0000:01:00.0/vendor", "0x1002\n");
    fixture_file(f, "sys/devices/" PORT "/class", "0x060400\n");
    fixture_file(f, "sys/devices/" GPU "/vendor", "0x1002\n");
    struct rig_topology *t = fixture_read(f);
    assert_int_equal(rig_topology_count(t), 2);
    assert_int_equal(function_named(t, "0000:01:00.0")->parent,
                     rig_topology_find(t, "0000:00:01.0"));
    expect(function_named(t, "0000:01:00.0")->vendor, RIG_FACT_KNOWN, 0x1002);
    rig_topology_free(t);
}

static void links_lead_nowhere_outside_the_directory(void **state)
{
    const struct fixture *f = *state;
    struct fixture outside;
    char target[128];
    fixture_make(&outside);
    fixture_file(&outside, "vendor", "0x1234\n");
    fixture_file(&outside, "class", "0x030000\n");
    fixture_function(f, PORT);
    snprintf(target, sizeof target, "%s/vendor", outside.root);
    fixture_link(f, "sys/devices/" PORT "/vendor", target);
    snprintf(target, sizeof target, "../../../../../../..%s/vendor", outside.root);
    fixture_link(f, "sys/devices/" PORT "/device", target);
    fixture_link(f, "sys/bus/pci/devices/0000:00:02.0", outside.root);
    fixture_link(f, "sys/bus/pci/devices/0000:00:03.0", "0000:00:03.0");
    fixture_link(f, "sys/bus/pci/devices/0000:00:04.0", "0000:00:05.0");
    fixture_link(f, "sys/bus/pci/devices/0000:00:05.0", "0000:00:04.0");
    struct rig_topology *t = fixture_read(f);
    assert_int_equal(rig_topology_count(t), 5);
    for (int i = 0; i < rig_topology_count(t); i++) {
        expect(rig_topology_function(t, i)->vendor, RIG_FACT_UNKNOWN, 0);
        expect(rig_topology_function(t, i)->device, RIG_FACT_UNKNOWN, 0);
        expect(rig_topology_function(t, i)->class_code, RIG_FACT_UNKNOWN, 0);
    }
    assert_int_equal(rig_topology_warnings(t), 4);
    rig_topology_free(t);
    fixture_remove(&outside);
}

static void a_loop_of_directories_ends(void **state)
{
    const struct fixture *f = *state;
    fixture_file(f, "sys/bus/pci/devices/0000:00:01.0/vendor", "0x1022\n");
    fixture_file(f, "sys/devices/" PORT "/vendor", "0x1022\n");
    fixture_link(f, "sys/devices/" PORT "/0000:01:00.0", "..");
    struct rig_topology *t = fixture_read(f);
    assert_int_equal(rig_topology_find(t, "0000:00:01.0"), 0);
    rig_topology_free(t);
}

static void hostile_values_are_unknown_and_warned_of(void **state)
{
    const struct fixture *f = *state;
    fixture_function(f, PORT);
    fixture_put(f, PORT, "vendor", "0x10022\n");
    fixture_put(f, PORT, "device", "-1\n");
    fixture_put(f, PORT, "class", "0xzz\n");
    fixture_put(f, PORT, "numa_node", "99999999999999999999\n");
    fixture_put(f, PORT, "dma_mask_bits", "65\n");
    fixture_put(f, PORT, "current_link_speed", "GT/s\n");
    fixture_put(f, PORT, "current_link_width", "255\n");
    fixture_put(f, PORT, "resource", "0x1 0x2\n");
    fixture_put(f, PORT, "mem_info_vram_total", "1e9\n");
    fixture_link(f, "sys/devices/" PORT "/iommu_group", "../../../../../etc/passwd");
    fixture_function(f, GPU);
    fixture_put(f, GPU, "resource", "0x9000 0x8000 0x200\n0x8000 0x8ffe 0x200\n");
    struct rig_topology *t = fixture_read(f);
    const struct rig_function *p = function_named(t, "0000:00:01.0");
    const struct rig_fact facts[] = {p->vendor,        p->device,      p->class_code,
                                     p->numa_node,     p->link_speed,  p->link_width,
                                     p->dma_mask_bits, p->iommu_group, p->bar[0].size};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(facts); i++)
        assert_int_equal(facts[i].know, RIG_FACT_UNKNOWN);
    assert_false(rig_fact_has(p->gpu_memory));
    expect(function_named(t, "0000:01:00.0")->bar[0].size, RIG_FACT_UNKNOWN, 0);
    expect(function_named(t, "0000:01:00.0")->bar[1].size, RIG_FACT_UNKNOWN, 0);
    assert_int_equal(rig_topology_warnings(t), 3);
    rig_topology_free(t);
}

static void a_pipe_in_the_place_of_a_file_is_not_waited_for(void **state)
{
    const struct fixture *f = *state;
    char path[256];
    fixture_function(f, PORT);
    snprintf(path, sizeof path, "%s/sys/devices/" PORT "/vendor", f->root);
    assert_int_equal(mkfifo(path, 0644), 0);
    struct rig_topology *t = fixture_read(f);
    expect(function_named(t, "0000:00:01.0")->vendor, RIG_FACT_UNKNOWN, 0);
    rig_topology_free(t);
}

static void a_directory_without_a_machine_is_refused(void **state)
{
    const struct fixture *f = *state;
    struct rig_topology *t = NULL;
    struct rig_error err;
    rig_error_clear(&err);
    assert_int_equal(read_live(f->root, &t, &err), RIG_BAD_INPUT);
    assert_non_null(strstr(err.why, "holds no machine"));
    fixture_file(f, "sos_commands/pci/lspci_-nnvv", "");
    rig_error_clear(&err);
    assert_int_equal(read_live(f->root, &t, &err), RIG_BAD_INPUT);
    assert_non_null(strstr(err.hint, "sos_commands/pci/lspci_-nnvv"));
    fixture_file(f, "sys/bus/pci/devices/README", "");
    rig_error_clear(&err);
    assert_int_equal(read_live(f->root, &t, &err), RIG_BAD_INPUT);
    assert_non_null(strstr(err.why, "no PCI function"));
    rig_error_clear(&err);
    assert_int_equal(read_live("/nowhere/at/all", &t, &err), RIG_REFUSED);
    assert_null(t);
}

static void the_kernel_and_the_cpu_come_from_proc_and_boot(void **state)
{
    const struct fixture *f = *state;
    fixture_function(f, PORT);
    fixture_file(f, "proc/cpuinfo",
                 "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
                 "model name\t: Intel(R) Xeon(R)\n\nprocessor\t: 1\nvendor_id\t: Other\n");
    fixture_file(f, "proc/version", "Linux version 6.1.0-18-amd64 (debian) #1 SMP\n");
    fixture_file(f, "proc/cmdline", "root=/dev/sda1 intel_iommu=on iommu=pt\n");
    fixture_file(f, "boot/config-6.1.0-18-amd64",
                 "#\n#\nCONFIG_PCI=y\n# CONFIG_PCI_P2PDMA is not set\n");
    fixture_file(f, "etc/hostname", "lab7\n");
    struct rig_topology *t = fixture_read(f);
    const struct rig_machine_facts *m = rig_topology_machine(t);
    assert_string_equal(m->cpu_vendor.value, "GenuineIntel");
    expect(m->cpu_family, RIG_FACT_KNOWN, 6);
    assert_string_equal(m->cpu_name.value, "Intel(R) Xeon(R)");
    assert_string_equal(m->kernel.value, "6.1.0-18-amd64");
    assert_string_equal(m->command_line.value, "root=/dev/sda1 intel_iommu=on iommu=pt");
    expect(m->p2pdma, RIG_FACT_KNOWN, 0);
    assert_string_equal(m->host.value, "lab7");
    rig_topology_free(t);
}

static void a_configuration_with_p2pdma_is_on_and_a_part_of_one_says_nothing(void **state)
{
    const struct fixture *f = *state;
    fixture_function(f, PORT);
    fixture_file(f, "proc/sys/kernel/osrelease", "6.8.0\n");
    fixture_file(f, "lib/modules/6.8.0/config", "#\nCONFIG_PCI=y\nCONFIG_PCI_P2PDMA=y\n");
    struct rig_topology *t = fixture_read(f);
    expect(rig_topology_machine(t)->p2pdma, RIG_FACT_KNOWN, 1);
    rig_topology_free(t);
    fixture_file(f, "lib/modules/6.8.0/config", "#\nCONFIG_X86=y\n");
    t = fixture_read(f);
    expect(rig_topology_machine(t)->p2pdma, RIG_FACT_UNKNOWN, 0);
    rig_topology_free(t);
}

static void machines_that_are_not_x86_have_no_family(void **state)
{
    (void)state;
    static const char *const blocks[] = {
        "processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\n\n",
        "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n\n",
        "processor\t: 0\nhart\t\t: 1\nisa\t\t: rv64imafdc\n\n",
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(blocks); i++) {
        struct rig_topology *t = topology_new(RIG_SOURCE_SYSFS);
        assert_non_null(t);
        cpu_facts(t, blocks[i]);
        assert_int_equal(t->machine.cpu_vendor.know, RIG_FACT_ABSENT);
        assert_int_equal(t->machine.cpu_family.know, RIG_FACT_ABSENT);
        rig_topology_free(t);
    }
}

static void a_place_is_what_follows_the_last_host_bridge(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        struct rig_bdf bdf;
        bool told;
        enum place place;
        struct rig_bdf parent;
    } cases[] = {
        {"../../../devices/pci0000:00/0000:00:1c.0",
         {0, 0, 0x1c, 0},
         true,
         PLACE_ROOT,
         {0, 0, 0, 0}},
        {"../../../devices/pci0000:00/0000:00:1c.0/0000:02:00.0",
         {0, 2, 0, 0},
         true,
         PLACE_UNDER,
         {0, 0, 0x1c, 0}},
        {"../../../devices/platform/soc/1c.pcie/pci0002:00/0002:00:00.0",
         {2, 0, 0, 0},
         true,
         PLACE_ROOT,
         {2, 0, 0, 0}},
        {"../../../devices/pci0000:00/0000:00:1c.0", {0, 0, 0x1d, 0}, false, PLACE_ROOT, {0}},
        {"../../../devices/0000:00:1c.0", {0, 0, 0x1c, 0}, false, PLACE_ROOT, {0}},
        {"../../../devices/pci0000:00", {0, 0, 0, 0}, false, PLACE_ROOT, {0}},
        {"../../../devices/pci0000:zz/0000:00:1c.0", {0, 0, 0x1c, 0}, false, PLACE_ROOT, {0}},
        {"", {0, 0, 0, 0}, false, PLACE_ROOT, {0}},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(cases); i++) {
        enum place place = PLACE_UNKNOWN;
        struct rig_bdf parent = {0};
        assert_int_equal(live_place(cases[i].path, cases[i].bdf, &place, &parent), cases[i].told);
        if (!cases[i].told)
            continue;
        assert_int_equal(place, cases[i].place);
        assert_int_equal(rig_bdf_compare(parent, cases[i].parent), 0);
    }
}

/* ---- this machine */

static int count_functions(void)
{
    int count = 0;
    DIR *dir = opendir("/sys/bus/pci/devices");
    if (!dir)
        return -1;
    for (struct dirent *d; (d = readdir(dir)) != NULL;)
        count += d->d_name[0] != '.';
    closedir(dir);
    return count;
}

static void this_machine_is_read_whole(void **state)
{
    (void)state;
    if (count_functions() < 0)
        return; /* a machine without PCI */
    struct rig_topology *t = NULL;
    struct rig_error err;
    rig_error_clear(&err);
    if (read_live("", &t, &err) != RIG_OK)
        fail_msg("%s: %s", err.what, err.why);
    assert_int_equal(rig_topology_machine(t)->source, RIG_SOURCE_LIVE);
    assert_int_equal(rig_topology_count(t), count_functions());
    assert_true(rig_text_has(rig_topology_machine(t)->kernel));
    for (int i = 0; i < rig_topology_count(t); i++) {
        assert_int_equal(rig_topology_function(t, i)->parent_known.know, RIG_FACT_KNOWN);
        assert_true(rig_fact_has(rig_topology_function(t, i)->vendor));
        assert_true(rig_fact_has(rig_topology_function(t, i)->class_code));
    }
    rig_topology_free(t);
}

static void this_machine_is_read_by_a_user_without_privilege(void **state)
{
    (void)state;
    if (count_functions() < 0)
        return;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rig_topology *t = NULL;
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
            _exit(2);
        int bad = read_live("", &t, NULL) != RIG_OK || rig_topology_count(t) != count_functions();
        for (int i = 0; !bad && i < rig_topology_count(t); i++)
            bad = rig_topology_function(t, i)->parent_known.know != RIG_FACT_KNOWN ||
                  rig_topology_function(t, i)->config_bytes.value > 128;
        rig_topology_free(t);
        _exit(bad);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- gathered machines, where they are at hand */

static bool unpack(const char *archive, const char *directory)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execlp("tar", "tar", "-xjf", archive, "-C", directory, (char *)NULL);
        _exit(127);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status == 0;
}

static bool unpack_case(const struct fixture *f, const char *name, char *hex, size_t room)
{
    const char *shared = getenv("RIGMEM_SHARED");
    char archive[512];
    if (!shared)
        shared = "../shared";
    snprintf(hex, room, "%s/cases/%s/lspci-Dnx.txt", shared, name);
    snprintf(archive, sizeof archive, "%s/cases/%s/sysfs-pci.tar.bz2", shared, name);
    return access(hex, R_OK) == 0 && unpack(archive, f->root);
}

/* What the same machine's hex says of a function agrees with its directory. */
static void agree(const struct rig_topology *tree, const struct rig_topology *hex)
{
    assert_int_equal(rig_topology_count(tree), rig_topology_count(hex));
    for (int i = 0; i < rig_topology_count(tree); i++) {
        const struct rig_function *a = rig_topology_function(tree, i);
        const struct rig_function *b = rig_topology_function(hex, i);
        assert_int_equal(rig_bdf_compare(a->bdf, b->bdf), 0);
        assert_int_equal(a->vendor.value, b->vendor.value);
        assert_int_equal(a->device.value, b->device.value);
        assert_int_equal(a->class_code.value, b->class_code.value);
        assert_int_equal(a->header_type.value, b->header_type.value);
        assert_int_equal(a->secondary.value, b->secondary.value);
        assert_int_equal(a->memory.base.value, b->memory.base.value);
        if (b->parent_known.know == RIG_FACT_KNOWN)
            assert_int_equal(a->parent, b->parent);
    }
}

static void gathered_machines_agree_with_their_hex(void **state)
{
    const struct fixture *f = *state;
    static const char *const names[] = {"c30-skylake-8-vector-engines-switch",
                                        "c32-dual-x58-two-root-buses"};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(names); i++) {
        char hex_path[512];
        if (!unpack_case(f, names[i], hex_path, sizeof hex_path))
            return;
        struct rig_topology *tree = fixture_read(f), *hex = NULL;
        assert_int_equal(rig_topology_load(hex_path, &hex, NULL), RIG_OK);
        agree(tree, hex);
        rig_topology_free(tree);
        rig_topology_free(hex);
        fixture_tear_down(state);
        fixture_set_up(state);
        f = *state;
    }
}

#define ON_TREE(test) cmocka_unit_test_setup_teardown(test, fixture_set_up, fixture_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_TREE(a_tree_read_with_privilege_gives_every_fact),
        ON_TREE(bus_and_cpu_addresses_of_a_bar_are_told_apart),
        ON_TREE(without_privilege_acs_is_unknown_with_its_reason_and_ports_are_assumed),
        ON_TREE(a_ports_services_tell_its_type),
        ON_TREE(a_vmd_domain_has_a_host_bridge_of_its_own),
        ON_TREE(a_virtual_function_has_its_ids_and_addresses),
        ON_TREE(what_was_not_gathered_is_unknown),
        ON_TREE(a_bridge_that_only_paths_name_is_there),
        ON_TREE(a_tree_that_lost_its_links_is_read_by_its_directories),
        ON_TREE(links_lead_nowhere_outside_the_directory),
        ON_TREE(a_loop_of_directories_ends),
        ON_TREE(hostile_values_are_unknown_and_warned_of),
        ON_TREE(a_pipe_in_the_place_of_a_file_is_not_waited_for),
        ON_TREE(a_directory_without_a_machine_is_refused),
        ON_TREE(the_kernel_and_the_cpu_come_from_proc_and_boot),
        ON_TREE(a_configuration_with_p2pdma_is_on_and_a_part_of_one_says_nothing),
        cmocka_unit_test(machines_that_are_not_x86_have_no_family),
        cmocka_unit_test(a_place_is_what_follows_the_last_host_bridge),
        cmocka_unit_test(this_machine_is_read_whole),
        cmocka_unit_test(this_machine_is_read_by_a_user_without_privilege),
        ON_TREE(gathered_machines_agree_with_their_hex),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
