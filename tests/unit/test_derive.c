/* What follows from a machine's facts: the IOMMU's treatment, GPUs, their memory and BAR, short
 * names, and the corners of the tree. */
#include "builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define ONE "00:01.0 rp 01-01\n01:00.0 ep id=1002:744c gpu=16384/16384\n"

static struct rig_function *gpu_of(struct rig_topology *t)
{
    return &t->node[function_at(t, "01:00.0")].f;
}

static struct rig_fact iommu(const char *cpu, const char *line, const char *type, bool group)
{
    struct rig_topology *t = build_machine(ONE, cpu);
    struct rig_function *f = gpu_of(t);
    f->iommu_group = group ? fact_known(7) : fact_unknown(NULL);
    if (type)
        f->iommu_type = topology_text(t, type);
    if (line)
        t->machine.command_line = topology_text(t, line);
    assert_int_equal(topology_finish(t, "test", NULL), RIG_OK);
    struct rig_fact fact = gpu_of(t)->iommu;
    fact.from = NULL; /* it goes with t */
    rig_topology_free(t);
    return fact;
}

static void expect(struct rig_fact fact, enum rig_know know, enum rig_iommu value)
{
    assert_int_equal(fact.know, know);
    if (rig_fact_has(fact))
        assert_int_equal(fact.value, value);
}

/* Linux: Documentation/ABI/testing/sysfs-kernel-iommu_groups. */
static void a_groups_type_tells_whether_it_translates(void **state)
{
    (void)state;
    expect(iommu(NULL, NULL, "DMA", true), RIG_FACT_KNOWN, RIG_IOMMU_TRANSLATE);
    expect(iommu(NULL, NULL, "DMA-FQ", true), RIG_FACT_KNOWN, RIG_IOMMU_TRANSLATE);
    expect(iommu(NULL, NULL, "blocked", true), RIG_FACT_KNOWN, RIG_IOMMU_TRANSLATE);
    expect(iommu(NULL, NULL, "unmanaged", true), RIG_FACT_KNOWN, RIG_IOMMU_TRANSLATE);
    expect(iommu(NULL, NULL, "identity", true), RIG_FACT_KNOWN, RIG_IOMMU_IDENTITY);
    expect(iommu(NULL, NULL, "unknown", true), RIG_FACT_UNKNOWN, RIG_IOMMU_NONE);
    expect(iommu(NULL, NULL, NULL, true), RIG_FACT_UNKNOWN, RIG_IOMMU_NONE);
    expect(iommu(NULL, NULL, NULL, false), RIG_FACT_UNKNOWN, RIG_IOMMU_NONE);
}

/* Linux: Documentation/admin-guide/kernel-parameters.txt. */
static void the_command_line_makes_likely_what_the_group_does_not_tell(void **state)
{
    (void)state;
    const enum rig_know assumed = RIG_FACT_ASSUMED;
    expect(iommu(NULL, "quiet iommu=pt", NULL, true), assumed, RIG_IOMMU_IDENTITY);
    expect(iommu(NULL, "intel_iommu=on iommu=soft,pt quiet", NULL, true), assumed,
           RIG_IOMMU_IDENTITY);
    expect(iommu(NULL, "iommu.passthrough=1", NULL, false), assumed, RIG_IOMMU_IDENTITY);
    expect(iommu(NULL, "iommu.passthrough=0", NULL, true), assumed, RIG_IOMMU_TRANSLATE);
    expect(iommu(NULL, "iommu=nopt", NULL, true), assumed, RIG_IOMMU_TRANSLATE);
    expect(iommu(NULL, "iommu=off", NULL, false), assumed, RIG_IOMMU_NONE);
    expect(iommu("Intel:6", "intel_iommu=off", NULL, false), assumed, RIG_IOMMU_NONE);
    expect(iommu("AMD:25", "amd_iommu=off", NULL, false), assumed, RIG_IOMMU_NONE);
    /* Another vendor's option, or one that only begins alike, says nothing. */
    expect(iommu("AMD:25", "intel_iommu=off", NULL, false), RIG_FACT_UNKNOWN, RIG_IOMMU_NONE);
    expect(iommu("Intel:6", "amd_iommu=off", NULL, false), RIG_FACT_UNKNOWN, RIG_IOMMU_NONE);
    expect(iommu(NULL, "iommu=ptx my_iommu=pt iommu", NULL, true), RIG_FACT_UNKNOWN,
           RIG_IOMMU_NONE);
    /* A group that exists contradicts an IOMMU that is off. */
    expect(iommu("AMD:25", "amd_iommu=off iommu=off", NULL, true), RIG_FACT_UNKNOWN,
           RIG_IOMMU_NONE);
    /* What the group says counts, not the command line. */
    expect(iommu(NULL, "iommu=pt", "DMA", true), RIG_FACT_KNOWN, RIG_IOMMU_TRANSLATE);
}

static bool is_gpu(const char *id, const char *class_code, uint64_t flags)
{
    char text[160];
    snprintf(text, sizeof text, "00:01.0 rp 01-01\n01:00.0 ep gpu=16/16 id=%s class=%s\n", id,
             class_code);
    struct rig_topology *t = build_machine(text, NULL);
    gpu_of(t)->bar[0].flags = flags == 0 ? fact_absent() : fact_known(flags);
    assert_int_equal(topology_finish(t, "test", NULL), RIG_OK);
    bool gpu = gpu_of(t)->gpu;
    rig_topology_free(t);
    return gpu;
}

static void a_gpu_is_a_display_or_accelerator_with_a_prefetchable_bar(void **state)
{
    (void)state;
    const uint64_t prefetchable = RIG_BAR_64BIT | RIG_BAR_PREFETCHABLE;
    assert_true(is_gpu("10de:2684", "030000", prefetchable));
    assert_true(is_gpu("10de:20b2", "030200", prefetchable));
    assert_true(is_gpu("1002:74a1", "120000", prefetchable));
    assert_false(is_gpu("15b3:1021", "020000", prefetchable));
    assert_false(is_gpu("10de:2684", "030000", RIG_BAR_64BIT));
    assert_false(is_gpu("10de:2684", "030000", 0));
    /* Display functions of board controllers and of virtual machines. */
    assert_false(is_gpu("1a03:2000", "030000", prefetchable));
    assert_false(is_gpu("102b:0538", "030000", prefetchable));
    assert_false(is_gpu("1234:1111", "030000", prefetchable));
    assert_true(is_gpu("1234:2222", "030000", prefetchable));
}

/* Of an unknown class: no GPU where no BAR can hold memory, one where its memory is given, else it
   may be one. */
static void what_has_no_class_may_be_a_gpu(void **state)
{
    (void)state;
    static const struct {
        struct rig_fact first, last, memory;
        bool gpu, unknown;
    } rows[] = {
        {{.know = RIG_FACT_ABSENT}, {.know = RIG_FACT_ABSENT}, {0}, false, false},
        {{.know = RIG_FACT_KNOWN, .value = RIG_BAR_64BIT},
         {.know = RIG_FACT_ABSENT},
         {0},
         false,
         false},
        {{.know = RIG_FACT_KNOWN, .value = RIG_BAR_64BIT}, {0}, {0}, false, true},
        {{.know = RIG_FACT_KNOWN, .value = RIG_BAR_64BIT | RIG_BAR_PREFETCHABLE},
         {.know = RIG_FACT_ABSENT},
         {0},
         false,
         true},
        {{0}, {0}, {.know = RIG_FACT_KNOWN, .value = 1 << 30}, true, false},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(rows); i++) {
        struct rig_topology *t = build_machine("00:01.0 rp 01-01\n01:00.0 ep id=15b3:1021\n", NULL);
        struct node *n = &t->node[function_at(t, "01:00.0")];
        n->f.class_code = fact_unknown(NULL);
        n->f.bar[0].flags = rows[i].first;
        n->f.bar[RIG_BAR_COUNT - 1].flags = rows[i].last;
        n->f.gpu_memory = rows[i].memory;
        n->memory_derived = false;
        assert_int_equal(topology_finish(t, "test", NULL), RIG_OK);
        assert_int_equal(gpu_of(t)->gpu, rows[i].gpu);
        assert_int_equal(gpu_of(t)->gpu_unknown, rows[i].unknown);
        rig_topology_free(t);
    }
}

static void a_function_named_as_a_gpu_is_one(void **state)
{
    (void)state;
    struct rig_topology *t =
        build_machine("00:01.0 rp 01-01\n01:00.0 ep id=1bcf:001c class=0b4000\n", NULL);
    assert_false(gpu_of(t)->gpu);
    assert_int_equal(rig_topology_set_gpu(t, "01:00.0", NULL), RIG_OK);
    assert_true(gpu_of(t)->gpu);
    assert_string_equal(gpu_of(t)->alias, "gpu0");
    assert_int_equal(rig_topology_set_gpu_memory(t, "gpu0", 48ull << 30, NULL), RIG_OK);
    assert_int_equal(gpu_of(t)->gpu_memory.value, 48ull << 30);
    rig_topology_free(t);
}

/* The memory's size: given, else by id, else by the largest size of its BAR, else by a BAR that is
   larger than the 256 MiB that firmware gives any GPU. */
static struct rig_fact memory(const char *id, uint64_t bar, uint64_t sizes)
{
    char text[160];
    snprintf(text, sizeof text, "00:01.0 rp 01-01\n01:00.0 ep gpu=16/16 id=%s\n", id);
    struct rig_topology *t = build_machine(text, NULL);
    struct rig_function *f = gpu_of(t);
    f->gpu_memory = fact_unknown(NULL);
    f->bar[0].size = bar ? fact_known(bar) : fact_unknown(NULL);
    f->bar[0].resizable = sizes ? fact_known(sizes) : fact_absent();
    assert_int_equal(topology_finish(t, "test", NULL), RIG_OK);
    struct rig_fact fact = gpu_of(t)->gpu_memory;
    fact.from = NULL;
    rig_topology_free(t);
    return fact;
}

static void a_gpus_memory_is_assumed_in_the_order_of_trust(void **state)
{
    (void)state;
    /* 1002:74a1 is the MI300X with 192 GiB; 1002:ffff is none. */
    struct rig_fact f = memory("1002:74a1", 256u << 20, 0x7f00);
    assert_int_equal(f.know, RIG_FACT_ASSUMED);
    assert_int_equal(f.value, 192ull << 30);
    f = memory("1002:ffff", 256u << 20, 0x7f00); /* up to 2^(20+14) */
    assert_int_equal(f.value, 16ull << 30);
    f = memory("1002:ffff", 8ull << 30, 0);
    assert_int_equal(f.value, 8ull << 30);
    assert_int_equal(memory("1002:ffff", 256u << 20, 0).know, RIG_FACT_UNKNOWN);
    assert_int_equal(memory("1002:ffff", 256u << 20, 0x1c0).know, RIG_FACT_UNKNOWN);
    assert_int_equal(memory("1002:ffff", 0, 0).know, RIG_FACT_UNKNOWN);
    /* 2^(20+44) bytes are more than addresses reach: no size. */
    assert_int_equal(memory("1002:ffff", 0, 1ull << 44).know, RIG_FACT_UNKNOWN);
    assert_int_equal(memory("1002:ffff", 0, 1ull << 43).value, 1ull << 63);
}

/* One id for two boards: the subsystem tells them apart (pci.ids: Quadro RTX 8000 has 48 GB, Quadro
   RTX 6000 has 24 GB). */
static void a_board_is_known_by_its_subsystem(void **state)
{
    (void)state;
    assert_int_equal(gpu_memory_by_id(0x10de, 0x1e30, 0x10de, 0x129e), 48ull << 30);
    assert_int_equal(gpu_memory_by_id(0x10de, 0x1e30, 0x10de, 0x12ba), 24ull << 30);
    assert_int_equal(gpu_memory_by_id(0x10de, 0x1e78, 0x10de, 0x13d8), 48ull << 30);
    assert_int_equal(gpu_memory_by_id(0x10de, 0x1e78, 0x10de, 0x12ba), 0);
    assert_int_equal(gpu_memory_by_id(0x10de, 0x1e30, 0x1028, 0x129e), 0);
    assert_int_equal(gpu_memory_by_id(0x10de, 0x1e30, 0, 0), 0);
}

static void the_memory_bar_is_the_vendors_or_the_largest_prefetchable(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(ONE, NULL);
    struct rig_function *f = gpu_of(t);
    const struct rig_bar small = {.flags = fact_known(RIG_BAR_64BIT | RIG_BAR_PREFETCHABLE),
                                  .size = fact_known(2u << 20)};
    const struct rig_bar large = {.flags = fact_known(RIG_BAR_64BIT | RIG_BAR_PREFETCHABLE),
                                  .size = fact_known(1u << 30)};
    const struct rig_bar registers = {.flags = fact_known(RIG_BAR_64BIT),
                                      .size = fact_known(4u << 30)};
    const struct rig_bar io = {.flags = fact_known(RIG_BAR_IO), .size = fact_known(256)};
    f->vendor = fact_known(0x10de); /* NVIDIA's is BAR 1, whatever the others' sizes */
    f->bar[0] = registers;
    f->bar[1] = small;
    f->bar[3] = large;
    assert_int_equal(topology_finish(t, "test", NULL), RIG_OK);
    assert_int_equal(gpu_of(t)->memory_bar, 1);
    f = gpu_of(t);
    f->vendor = fact_known(0x1bcf);
    f->bar[5] = io;
    assert_int_equal(topology_finish(t, "test", NULL), RIG_OK);
    assert_int_equal(gpu_of(t)->memory_bar, 3);
    f = gpu_of(t);
    f->bar[1].flags = f->bar[3].flags = fact_absent();
    assert_int_equal(topology_finish(t, "test", NULL), RIG_OK);
    assert_int_equal(gpu_of(t)->memory_bar, 0);
    rig_topology_free(t);
}

static void short_names_count_in_bus_order(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(
        "00:01.0 rp 01-01\n01:00.0 ep class=020000\n01:00.1 ep class=028000\n00:02.0 rp 02-02\n"
        "02:00.0 ep class=010802\n00:03.0 rp 03-03\n03:00.0 ep class=010601\n",
        NULL);
    assert_int_equal(rig_topology_find(t, "nic1"), function_at(t, "01:00.1"));
    assert_int_equal(rig_topology_find(t, "nvme0"), function_at(t, "02:00.0"));
    assert_int_equal(rig_topology_find(t, "nvme1"), -1);
    assert_int_equal(rig_topology_find(t, "0000:03:00.0"), function_at(t, "03:00.0"));
    assert_null(t->node[function_at(t, "03:00.0")].f.alias);
    rig_topology_free(t);
}

/* ---- corners of the tree */

static enum rig_status finish(struct rig_topology *t, char *why, size_t bytes)
{
    struct rig_error err = {.status = RIG_OK};
    enum rig_status status = topology_finish(t, "test", &err);
    snprintf(why, bytes, "%s", err.why);
    return status;
}

static struct node *add(struct rig_topology *t, const char *bdf, bool bridge, unsigned secondary,
                        unsigned subordinate)
{
    struct rig_bdf place;
    struct node *n;
    assert_true(rig_bdf_parse(bdf, &place));
    assert_int_equal(topology_add(t, place, &n, NULL), RIG_OK);
    n->f.header_type = fact_known(bridge);
    if (bridge) {
        n->f.secondary = fact_known(secondary);
        n->f.subordinate = fact_known(subordinate);
    }
    return n;
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    char why[512];
    struct rig_topology *t = topology_new(RIG_SOURCE_CAPTURE);
    add(t, "00:01.0", false, 0, 0);
    add(t, "00:01.0", false, 0, 0);
    assert_int_equal(finish(t, why, sizeof why), RIG_BAD_INPUT);
    assert_non_null(strstr(why, "0000:00:01.0 appears twice"));
    rig_topology_free(t);
    t = topology_new(RIG_SOURCE_CAPTURE);
    add(t, "01:00.0", true, 2, 2);
    add(t, "02:00.0", true, 1, 1);
    assert_int_equal(finish(t, why, sizeof why), RIG_BAD_INPUT);
    assert_non_null(strstr(why, "loop"));
    rig_topology_free(t);
    t = topology_new(RIG_SOURCE_CAPTURE);
    struct node *n = add(t, "01:00.0", false, 0, 0);
    n->place = PLACE_UNDER;
    n->parent_bdf = (struct rig_bdf){0, 0, 1, 0};
    assert_int_equal(finish(t, why, sizeof why), RIG_BAD_INPUT);
    assert_non_null(strstr(why, "its parent 0000:00:01.0 is not there"));
    add(t, "00:01.0", false, 0, 0);
    assert_int_equal(finish(t, why, sizeof why), RIG_BAD_INPUT);
    assert_non_null(strstr(why, "is no bridge"));
    rig_topology_free(t);
    t = topology_new(RIG_SOURCE_CAPTURE);
    n = add(t, "00:01.0", false, 0, 0);
    n->physical_given = true;
    n->physical_bdf = n->f.bdf;
    assert_int_equal(finish(t, why, sizeof why), RIG_BAD_INPUT);
    assert_non_null(strstr(why, "physical function"));
    rig_topology_free(t);
}

static void a_bus_that_two_bridges_claim_belongs_to_neither(void **state)
{
    (void)state;
    char why[512];
    struct rig_topology *t = topology_new(RIG_SOURCE_LSPCI_HEX);
    add(t, "00:01.0", true, 1, 1);
    add(t, "00:02.0", true, 1, 1);
    add(t, "01:00.0", false, 0, 0);
    assert_int_equal(finish(t, why, sizeof why), RIG_OK);
    assert_int_equal(t->node[2].f.parent_known.know, RIG_FACT_UNKNOWN);
    assert_int_equal(t->warnings, 1);
    rig_topology_free(t);
}

/* Offset and stride name the virtual functions (PCIe 9.3.3.8): 02:00.0 + 0x80 = 02:10.0, then every
 * second. */
static void virtual_functions_are_found_by_offset_and_stride(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(
        "00:01.0 rp 02-03\n02:00.0 ep\n02:10.0 ep\n02:10.2 ep\n02:10.1 ep\n03:00.0 ep\n", "AMD:25");
    struct rig_function *pf = &t->node[function_at(t, "02:00.0")].f;
    pf->vf_count = fact_known(3);
    pf->vf_offset = fact_known(0x80);
    pf->vf_stride = fact_known(2);
    assert_int_equal(topology_finish(t, "test", NULL), RIG_OK);
    int physical = function_at(t, "02:00.0");
    assert_int_equal(t->node[function_at(t, "02:10.0")].f.physical, physical);
    assert_int_equal(t->node[function_at(t, "02:10.2")].f.physical, physical);
    assert_int_equal(t->node[function_at(t, "02:10.1")].f.physical, -1);
    /* On a bus within the port's range that no bridge owns: where it hangs is not known. */
    assert_int_equal(t->node[function_at(t, "03:00.0")].f.parent_known.know, RIG_FACT_UNKNOWN);
    t->node[physical].f.vf_offset = fact_known(0x100);
    t->node[physical].f.vf_stride = fact_known(1);
    assert_int_equal(topology_finish(t, "test", NULL), RIG_OK);
    assert_int_equal(t->node[function_at(t, "03:00.0")].f.physical, physical);
    assert_int_equal(t->node[function_at(t, "03:00.0")].f.parent, function_at(t, "00:01.0"));
    rig_topology_free(t);
}

/* A part of the source, with buses that nothing leads to: system peripherals (0880) and performance
   counters (1101) of Intel's, in a slot of their own, are a processor's, on a root bus. */
static void a_processors_own_functions_are_on_a_root_bus(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(
        "7d:08.0 pci id=8086:2014 class=088000\n7e:08.0 pci id=8086:2014 class=110100\n"
        "7f:08.0 pci id=8086:2014 class=0c0300\n80:00.0 pci id=8086:2014 class=088000\n"
        "81:08.0 pci id=1022:2014 class=088000\n",
        NULL);
    for (int i = 0; i < 5; i++)
        assert_int_equal(t->node[i].f.parent_known.know, i < 2 ? RIG_FACT_KNOWN : RIG_FACT_UNKNOWN);
    rig_topology_free(t);
}

/* PCI-to-PCI bridge specification 1.2, 3.2.5.3: the secondary bus number is zero after reset. */
static void a_bridge_that_was_never_set_up_leads_nowhere(void **state)
{
    (void)state;
    struct rig_topology *t =
        build_machine("00:01.0 rp 00-00\n00:02.0 rp 01-01\n00:03.0 rp\n01:00.0 ep\n", "AMD:25");
    assert_int_equal(t->node[function_at(t, "00:02.0")].f.parent, -1);
    assert_int_equal(t->node[function_at(t, "01:00.0")].f.parent, function_at(t, "00:02.0"));
    /* One whose last bus is not shown has its secondary bus at least; a CardBus bridge is one. */
    struct rig_function *f = &t->node[function_at(t, "00:02.0")].f;
    f->subordinate = fact_unknown(NULL);
    f->header_type = fact_known(2);
    assert_int_equal(topology_finish(t, "test", NULL), RIG_OK);
    assert_int_equal(t->node[function_at(t, "01:00.0")].f.parent, function_at(t, "00:02.0"));
    rig_topology_free(t);
}

static void a_port_is_known_by_its_id_only_where_that_is_shown(void **state)
{
    (void)state;
    struct rig_topology *t =
        build_machine("00:01.0 rp 01-01 id=8086:2030 type=unknown\n"
                      "00:02.0 rp 02-02 id=8086:2034 type=unknown\n"
                      "00:03.0 rp 03-03 id=8086:202f type=unknown\n00:04.0 rp 04-04 type=unknown\n",
                      NULL);
    assert_int_equal(t->node[0].f.pcie_type.know, RIG_FACT_ASSUMED);
    assert_int_equal(t->node[0].f.pcie_type.value, RIG_PCIE_ROOT_PORT);
    t->node[3].f.vendor = fact_known(0x8086);
    t->node[3].f.device = fact_unknown(NULL);
    assert_int_equal(topology_finish(t, "test", NULL), RIG_OK);
    for (int i = 1; i < 4; i++)
        assert_int_equal(t->node[i].f.pcie_type.know, RIG_FACT_UNKNOWN);
    rig_topology_free(t);
}

static void the_last_bus_and_a_stride_of_nothing_end_the_virtual_functions(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(
        "00:01.0 rp fe-ff\nfe:00.0 ep\nfe:00.1 ep\nff:1f.7 ep\nfe:00.2 ep\n", "AMD:25");
    int pf = function_at(t, "fe:00.0");
    struct rig_function *f = &t->node[pf].f;
    f->vf_count = fact_known(9);
    f->vf_offset = fact_known(0x1ff); /* ff:1f.7, the last there is; then past it */
    f->vf_stride = fact_known(1);
    assert_int_equal(topology_finish(t, "test", NULL), RIG_OK);
    assert_int_equal(t->node[function_at(t, "ff:1f.7")].f.physical, pf);
    assert_int_equal(t->node[function_at(t, "fe:00.1")].f.physical, -1);
    f = &t->node[pf].f;
    f->vf_offset = fact_known(1);
    f->vf_stride = fact_known(0);
    assert_int_equal(topology_finish(t, "test", NULL), RIG_OK);
    assert_int_equal(t->node[function_at(t, "fe:00.1")].f.physical, pf);
    assert_int_equal(t->node[function_at(t, "fe:00.2")].f.physical, -1);
    /* A count alone names none. */
    f = &t->node[pf].f;
    f->vf_stride = fact_unknown(NULL);
    assert_int_equal(topology_finish(t, "test", NULL), RIG_OK);
    assert_int_equal(t->node[function_at(t, "fe:00.1")].f.physical, -1);
    f = &t->node[pf].f;
    f->vf_offset = fact_unknown(NULL);
    f->vf_stride = fact_known(1);
    assert_int_equal(topology_finish(t, "test", NULL), RIG_OK);
    assert_int_equal(t->node[function_at(t, "fe:00.1")].f.physical, -1);
    rig_topology_free(t);
}

/* PCIe 9.3.3: a virtual function has no SR-IOV capability, so functions that name each other, or
   themselves, are wrong and stay what they are. */
static void what_has_virtual_functions_is_none(void **state)
{
    (void)state;
    struct rig_topology *t =
        build_machine("00:01.0 rp 01-01\n01:00.0 ep\n01:00.1 ep\n01:00.2 ep\n", "AMD:25");
    struct rig_function *a = &t->node[function_at(t, "01:00.0")].f;
    struct rig_function *b = &t->node[function_at(t, "01:00.1")].f;
    a->vf_count = fact_known(3); /* itself, 01:00.1 and 01:00.2 */
    a->vf_offset = fact_known(0);
    b->vf_count = fact_known(1);
    b->vf_offset = fact_known(0xffff);
    a->vf_stride = b->vf_stride = fact_known(1);
    assert_int_equal(topology_finish(t, "test", NULL), RIG_OK);
    assert_int_equal(t->node[function_at(t, "01:00.0")].f.physical, -1);
    assert_int_equal(t->node[function_at(t, "01:00.1")].f.physical, -1);
    assert_int_equal(t->node[function_at(t, "01:00.2")].f.physical, function_at(t, "01:00.0"));
    /* Nor is a virtual function another's physical function. */
    struct node *n = &t->node[function_at(t, "01:00.1")];
    n->f.vf_count = fact_absent();
    t->node[function_at(t, "01:00.0")].f.vf_count = fact_absent();
    n = &t->node[function_at(t, "01:00.0")];
    n->f.vf_count = fact_known(1);
    n->f.vf_offset = fact_known(2);
    n = &t->node[function_at(t, "01:00.1")];
    n->physical_given = true;
    n->physical_bdf = (struct rig_bdf){0, 1, 0, 2};
    char why[512];
    assert_int_equal(finish(t, why, sizeof why), RIG_BAD_INPUT);
    assert_non_null(strstr(why, "is virtual itself"));
    rig_topology_free(t);
}

/* PCIe 9.3.4.1.1: vendor and device of a virtual function read all ones. */
static void ids_of_all_ones_behind_a_header_may_be_a_virtual_functions(void **state)
{
    (void)state;
    struct rig_topology *t = build_machine(
        "00:01.0 rp 01-01\n01:00.0 ep\n01:00.1 ep id=ffff:ffff\n01:00.2 ep id=ffff:ffff\n"
        "01:00.3 ep id=ffff:ffff under=00:01.0\n01:00.4 ep id=ffff:ffff\n",
        "AMD:25");
    t->node[function_at(t, "01:00.2")].f.header_type = fact_unknown(NULL);
    t->node[function_at(t, "01:00.4")].f.vendor = fact_assumed(0xffff, "a name");
    assert_int_equal(topology_finish(t, "test", NULL), RIG_OK);
    const struct rig_function *f = &t->node[function_at(t, "01:00.1")].f;
    assert_int_equal(f->virtual_of.know, RIG_FACT_UNKNOWN);
    assert_int_equal(f->parent_known.know, RIG_FACT_UNKNOWN);
    static const char *const others[] = {"01:00.0", "01:00.2", "01:00.3", "01:00.4"};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(others); i++) {
        f = &t->node[function_at(t, others[i])].f;
        assert_int_equal(f->virtual_of.know, RIG_FACT_ABSENT);
        assert_int_equal(f->parent, function_at(t, "00:01.0"));
    }
    rig_topology_free(t);
}

/* Virtual functions have headers of type 0, so nothing is below one: where a capture says so all
   the same, what is above is left open. */
static void below_a_virtual_function_no_host_bridge_is_known(void **state)
{
    (void)state;
    struct rig_topology *t =
        build_machine("00:02.0 ep\n05:00.0 pcibr 06-06 pf=00:02.0\n06:00.0 ep\n", "Intel:6");
    assert_int_equal(t->node[function_at(t, "05:00.0")].f.host_bridge,
                     t->node[function_at(t, "00:02.0")].f.host_bridge);
    assert_int_equal(t->node[function_at(t, "06:00.0")].f.host_bridge, -1);
    rig_topology_free(t);
}

/* A root bus may be of another domain than the function says that it is in; its first function is
   one of its own. */
static void a_root_bus_is_stood_for_by_functions_of_its_own_domain(void **state)
{
    (void)state;
    struct rig_topology *t =
        build_machine("00:00.0 host id=8086:2020\n00:01.0 rp 01-01\n01:00.0 ep\n", "Intel:6");
    for (int i = 0; i < 2; i++) {
        t->node[i].place = PLACE_ROOT;
        t->node[i].parent_bdf = (struct rig_bdf){.domain = 1, .bus = 0};
    }
    assert_int_equal(topology_finish(t, "test", NULL), RIG_OK);
    assert_int_equal(rig_topology_host_bridges(t), 1);
    assert_int_equal(rig_topology_host_bridge(t, 0)->domain, 1);
    assert_int_equal(rig_topology_host_bridge(t, 0)->first, -1);
    rig_topology_free(t);
}

/* ---- what a topology keeps */

/* Every beginning of a long text: equal texts are one, and those that only begin alike are not. */
static void texts_are_kept_whole_and_once(void **state)
{
    (void)state;
    struct rig_topology *t = topology_new(RIG_SOURCE_CAPTURE);
    static char text[3000];
    const char *kept[1500];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i % 7);
    for (size_t n = 0; n < RIG_ARRAY_LENGTH(kept); n++)
        kept[n] = topology_intern(t, text, n);
    for (size_t n = 0; n < RIG_ARRAY_LENGTH(kept); n++) {
        assert_int_equal(strlen(kept[n]), n);
        assert_memory_equal(kept[n], text, n);
        assert_ptr_equal(topology_intern(t, text, n), kept[n]);
    }
    /* Up to the first NUL; larger than all that is kept together. */
    assert_ptr_equal(topology_intern(t, "abc\0def", 7), kept[3]);
    static char large[100000];
    memset(large, 'y', sizeof large);
    assert_int_equal(strlen(topology_intern(t, large, sizeof large)), sizeof large);
    rig_topology_free(t);
}

static void odd_things_are_told_once_and_64_of_them(void **state)
{
    (void)state;
    struct rig_topology *t = topology_new(RIG_SOURCE_CAPTURE);
    for (int i = 0; i < 200; i++)
        topology_warn(t, "line %d is odd", i / 2);
    assert_int_equal(rig_topology_warnings(t), 64);
    assert_string_equal(rig_topology_warning(t, 0), "line 0 is odd");
    assert_string_equal(rig_topology_warning(t, 63), "line 63 is odd");
    rig_topology_free(t);
}

/* As many as one domain has addresses. */
static void more_functions_than_any_machine_has_are_refused(void **state)
{
    (void)state;
    struct rig_topology *t = topology_new(RIG_SOURCE_CAPTURE);
    struct node *n = NULL;
    struct rig_error err = {.status = RIG_OK};
    t->count = 256 * 32 * 8;
    assert_int_equal(topology_add(t, (struct rig_bdf){1, 0, 0, 0}, &n, &err), RIG_BAD_INPUT);
    assert_non_null(strstr(err.why, "more than 65536 functions"));
    assert_null(n);
    t->count = 0;
    rig_topology_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_groups_type_tells_whether_it_translates),
        cmocka_unit_test(the_command_line_makes_likely_what_the_group_does_not_tell),
        cmocka_unit_test(a_gpu_is_a_display_or_accelerator_with_a_prefetchable_bar),
        cmocka_unit_test(what_has_no_class_may_be_a_gpu),
        cmocka_unit_test(a_function_named_as_a_gpu_is_one),
        cmocka_unit_test(a_gpus_memory_is_assumed_in_the_order_of_trust),
        cmocka_unit_test(a_board_is_known_by_its_subsystem),
        cmocka_unit_test(the_memory_bar_is_the_vendors_or_the_largest_prefetchable),
        cmocka_unit_test(short_names_count_in_bus_order),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(a_bus_that_two_bridges_claim_belongs_to_neither),
        cmocka_unit_test(virtual_functions_are_found_by_offset_and_stride),
        cmocka_unit_test(a_processors_own_functions_are_on_a_root_bus),
        cmocka_unit_test(a_bridge_that_was_never_set_up_leads_nowhere),
        cmocka_unit_test(a_port_is_known_by_its_id_only_where_that_is_shown),
        cmocka_unit_test(the_last_bus_and_a_stride_of_nothing_end_the_virtual_functions),
        cmocka_unit_test(what_has_virtual_functions_is_none),
        cmocka_unit_test(ids_of_all_ones_behind_a_header_may_be_a_virtual_functions),
        cmocka_unit_test(below_a_virtual_function_no_host_bridge_is_known),
        cmocka_unit_test(a_root_bus_is_stood_for_by_functions_of_its_own_domain),
        cmocka_unit_test(texts_are_kept_whole_and_once),
        cmocka_unit_test(odd_things_are_told_once_and_64_of_them),
        cmocka_unit_test(more_functions_than_any_machine_has_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
