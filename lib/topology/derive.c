#include "topology/derive.h"

#include <stdio.h>
#include <string.h>

/* ---- the IOMMU */

/* True iff the kernel's command line holds `word`, as a whole or among the comma-separated values
 * of its option. */
static bool has_word(const struct rig_text line, const char *option, const char *value)
{
    if (!rig_text_has(line))
        return false;
    size_t length = strlen(option), wanted = strlen(value);
    for (const char *p = line.value; *p;) {
        p += strspn(p, " \t\n\"");
        size_t word = strcspn(p, " \t\n\"");
        if (word > length && strncmp(p, option, length) == 0) {
            const char *v = p + length, *end = p + word;
            while (v < end) {
                size_t n = strcspn(v, ", \t\n\"");
                if (n == wanted && strncmp(v, value, n) == 0)
                    return true;
                v += n + 1;
            }
        }
        p += word;
    }
    return false;
}

static bool cpu_is(const struct rig_topology *t, const char *vendor)
{
    return rig_text_has(t->machine.cpu_vendor) && strcmp(t->machine.cpu_vendor.value, vendor) == 0;
}

/* What the command line makes likely (Linux: Documentation/admin-guide/kernel-parameters.txt). */
static struct rig_fact iommu_by_command_line(const struct rig_topology *t, bool has_group)
{
    struct rig_text line = t->machine.command_line;
    if (!has_group) {
        if (has_word(line, "iommu=", "off"))
            return fact_assumed(RIG_IOMMU_NONE, "iommu=off on the kernel's command line");
        if (cpu_is(t, "GenuineIntel") && has_word(line, "intel_iommu=", "off"))
            return fact_assumed(RIG_IOMMU_NONE, "intel_iommu=off on the kernel's command line");
        if (cpu_is(t, "AuthenticAMD") && has_word(line, "amd_iommu=", "off"))
            return fact_assumed(RIG_IOMMU_NONE, "amd_iommu=off on the kernel's command line");
    }
    if (has_word(line, "iommu=", "pt"))
        return fact_assumed(RIG_IOMMU_IDENTITY, "iommu=pt on the kernel's command line");
    if (has_word(line, "iommu.passthrough=", "1"))
        return fact_assumed(RIG_IOMMU_IDENTITY, "iommu.passthrough=1 on the kernel's command line");
    if (has_word(line, "iommu=", "nopt"))
        return fact_assumed(RIG_IOMMU_TRANSLATE, "iommu=nopt on the kernel's command line");
    if (has_word(line, "iommu.passthrough=", "0"))
        return fact_assumed(RIG_IOMMU_TRANSLATE,
                            "iommu.passthrough=0 on the kernel's command line");
    return fact_unknown(has_group ? "the source shows its IOMMU group but not the group's type"
                                  : "the source does not show whether an IOMMU translates");
}

static struct rig_fact iommu_of(const struct rig_topology *t, const struct rig_function *f)
{
    if (f->iommu_group.know == RIG_FACT_ABSENT)
        return fact_known(RIG_IOMMU_NONE);
    if (rig_text_has(f->iommu_type)) {
        const char *type = f->iommu_type.value;
        if (strcmp(type, "identity") == 0)
            return fact_known(RIG_IOMMU_IDENTITY);
        if (strcmp(type, "DMA") == 0 || strcmp(type, "DMA-FQ") == 0 ||
            strcmp(type, "blocked") == 0 || strcmp(type, "unmanaged") == 0)
            return fact_known(RIG_IOMMU_TRANSLATE);
    }
    return iommu_by_command_line(t, rig_fact_has(f->iommu_group));
}

static void derive_iommu(struct rig_topology *t)
{
    for (int i = 0; i < t->count; i++) {
        struct node *n = &t->node[i];
        if (n->f.iommu.know != RIG_FACT_UNKNOWN && !n->iommu_derived)
            continue;
        n->f.iommu = iommu_of(t, &n->f);
        n->iommu_derived = true;
    }
}

/* ---- GPUs */

int base_class(const struct rig_function *f)
{
    return rig_fact_has(f->class_code) ? (int)(f->class_code.value >> 16) : -1;
}

/* Display functions of board controllers and of virtual machines: they have a frame buffer, some of
   it prefetchable, and no GPU behind it. Device 0xffff: every device of the vendor. */
static const struct {
    uint16_t vendor, device;
} no_gpu[] = {
    {0x1a03, 0xffff}, /* ASPEED */
    {0x102b, 0xffff}, /* Matrox: G200 in board controllers */
    {0x19e5, 0x1711}, /* Hisilicon iBMC */
    {0x18ca, 0xffff}, /* XGI Volari Z */
    {0x126f, 0xffff}, /* Silicon Motion */
    {0x1234, 0x1111}, /* QEMU standard VGA */
    {0x1b36, 0x0100}, /* QXL */
    {0x1013, 0xffff}, /* Cirrus Logic */
    {0x15ad, 0x0405}, /* VMware SVGA */
    {0x1414, 0x5353}, /* Hyper-V VGA */
    {0x1002, 0x515e}, /* ATI ES1000 on server boards */
};

static bool board_controller(const struct rig_function *f)
{
    if (!rig_fact_has(f->vendor))
        return false;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(no_gpu); i++)
        if (f->vendor.value == no_gpu[i].vendor &&
            (no_gpu[i].device == 0xffff || fact_is(f->device, no_gpu[i].device)))
            return true;
    return false;
}

static bool memory_bar_at(const struct rig_function *f, int i)
{
    return rig_fact_has(f->bar[i].flags) && !(f->bar[i].flags.value & RIG_BAR_IO);
}

/* The BAR that shows the GPU's memory where its vendor fixes it (GPU-PAGE-TABLES, 5.1). */
static int vendor_bar(const struct rig_function *f)
{
    if (fact_is(f->vendor, 0x1002))
        return 0;
    if (fact_is(f->vendor, 0x10de))
        return 1;
    if (fact_is(f->vendor, 0x8086))
        return 2;
    return -1;
}

static int find_memory_bar(const struct rig_function *f)
{
    int fixed = vendor_bar(f);
    if (fixed >= 0 && memory_bar_at(f, fixed) && (f->bar[fixed].flags.value & RIG_BAR_PREFETCHABLE))
        return fixed;
    int best = -1;
    for (int i = 0; i < RIG_BAR_COUNT; i++) {
        if (!memory_bar_at(f, i))
            continue;
        if (best < 0) {
            best = i;
            continue;
        }
        uint64_t prefetchable = f->bar[i].flags.value & RIG_BAR_PREFETCHABLE;
        uint64_t than = f->bar[best].flags.value & RIG_BAR_PREFETCHABLE;
        uint64_t size = rig_fact_has(f->bar[i].size) ? f->bar[i].size.value : 0;
        uint64_t least = rig_fact_has(f->bar[best].size) ? f->bar[best].size.value : 0;
        if (prefetchable > than || (prefetchable == than && size > least))
            best = i;
    }
    return best;
}

static bool bars_unknown(const struct rig_function *f)
{
    for (int i = 0; i < RIG_BAR_COUNT; i++)
        if (f->bar[i].flags.know != RIG_FACT_UNKNOWN)
            return false;
    return true;
}

static bool known_by_id(const struct rig_function *f)
{
    return rig_fact_has(f->vendor) && rig_fact_has(f->device) &&
           gpu_memory_by_id((uint16_t)f->vendor.value, (uint16_t)f->device.value, 0, 0) != 0;
}

static bool any_bar_unknown(const struct rig_function *f)
{
    for (int i = 0; i < RIG_BAR_COUNT; i++)
        if (f->bar[i].flags.know == RIG_FACT_UNKNOWN)
            return true;
    return false;
}

/* Where the BARs are not known, a display controller may be a GPU, and is taken for one: so its
   answers are left open by what is not known. Where not even the class is, ids may tell; where they
   do not, whether it is one is not known. */
static enum rig_answer is_gpu(const struct node *n)
{
    const struct rig_function *f = &n->f;
    if (f->gpu_named)
        return RIG_ANSWER_YES;
    int base = base_class(f);
    if ((base >= 0 && base != 0x03 && base != 0x12) || board_controller(f) || is_bridge(f))
        return RIG_ANSWER_NO;
    bool shown =
        f->memory_bar >= 0 && (f->bar[f->memory_bar].flags.value & RIG_BAR_PREFETCHABLE) != 0;
    bool all_unknown = bars_unknown(f);
    if (base >= 0)
        return all_unknown || shown ? RIG_ANSWER_YES : RIG_ANSWER_NO;
    bool memory_given = rig_fact_has(f->gpu_memory) && !n->memory_derived;
    if (memory_given || (all_unknown && known_by_id(f)))
        return RIG_ANSWER_YES;
    return shown || any_bar_unknown(f) ? RIG_ANSWER_UNKNOWN : RIG_ANSWER_NO;
}

static struct rig_fact memory_by_id(struct rig_topology *t, const struct rig_function *f)
{
    if (!rig_fact_has(f->vendor) || !rig_fact_has(f->device))
        return fact_unknown(NULL);
    uint64_t bytes = gpu_memory_by_id(
        (uint16_t)f->vendor.value, (uint16_t)f->device.value,
        rig_fact_has(f->subsystem_vendor) ? (uint16_t)f->subsystem_vendor.value : 0,
        rig_fact_has(f->subsystem_device) ? (uint16_t)f->subsystem_device.value : 0);
    if (bytes == 0)
        return fact_unknown(NULL);
    char text[48];
    int n = snprintf(text, sizeof text, "its id %04x:%04x", (unsigned)f->vendor.value,
                     (unsigned)f->device.value);
    const char *from = topology_intern(t, text, (size_t)n);
    return fact_assumed(bytes, from ? from : "its id");
}

#define SMALL_BAR (256ull << 20) /* what firmware without Resizable BAR gives a GPU of any size */

static struct rig_fact memory_of(struct rig_topology *t, const struct rig_function *f)
{
    struct rig_fact by_id = memory_by_id(t, f);
    if (rig_fact_has(by_id))
        return by_id;
    if (f->memory_bar >= 0) {
        const struct rig_bar *bar = &f->bar[f->memory_bar];
        uint64_t sizes = rig_fact_has(bar->resizable) ? bar->resizable.value : 0;
        if (sizes) {
            unsigned largest = 63u - (unsigned)__builtin_clzll(sizes);
            if (largest < 44 && 1ull << (20 + largest) > SMALL_BAR)
                return fact_assumed(1ull << (20 + largest),
                                    "the largest size that its BAR can take");
        }
        if (rig_fact_has(bar->size) && bar->size.value > SMALL_BAR)
            return fact_assumed(bar->size.value, "its BAR's size");
    }
    return fact_unknown("the source does not show how much memory it has");
}

static void derive_gpus(struct rig_topology *t)
{
    for (int i = 0; i < t->count; i++) {
        struct node *n = &t->node[i];
        n->f.memory_bar = is_bridge(&n->f) ? -1 : find_memory_bar(&n->f);
        enum rig_answer gpu = is_gpu(n);
        n->f.gpu = gpu == RIG_ANSWER_YES;
        n->f.gpu_unknown = gpu == RIG_ANSWER_UNKNOWN;
        if (n->f.gpu_memory.know != RIG_FACT_UNKNOWN && !n->memory_derived)
            continue;
        n->f.gpu_memory = n->f.gpu           ? memory_of(t, &n->f)
                          : n->f.gpu_unknown ? fact_unknown("whether it is a GPU is not known")
                                             : fact_absent();
        n->memory_derived = true;
    }
}

/* ---- short names */

static const char *kind_of(const struct rig_function *f)
{
    if (f->gpu)
        return "gpu";
    if (is_bridge(f) || !rig_fact_has(f->class_code))
        return NULL;
    if (base_class(f) == 0x02)
        return "nic";
    if (f->class_code.value >> 8 == 0x0108)
        return "nvme";
    return NULL;
}

static enum rig_status derive_aliases(struct rig_topology *t, struct rig_error *err)
{
    static const char *const kinds[] = {"gpu", "nic", "nvme"};
    unsigned next[RIG_ARRAY_LENGTH(kinds)] = {0};
    for (int i = 0; i < t->count; i++) {
        struct rig_function *f = &t->node[i].f;
        const char *kind = kind_of(f);
        f->alias = NULL;
        for (size_t k = 0; kind && k < RIG_ARRAY_LENGTH(kinds); k++) {
            if (strcmp(kind, kinds[k]) != 0)
                continue;
            char text[24];
            int n = snprintf(text, sizeof text, "%s%u", kind, next[k]++);
            f->alias = topology_intern(t, text, (size_t)n);
            if (!f->alias)
                return rig_fail_memory(err);
        }
    }
    return RIG_OK;
}

enum rig_status derive_facts(struct rig_topology *t, struct rig_error *err)
{
    derive_iommu(t);
    derive_gpus(t);
    return derive_aliases(t, err);
}
