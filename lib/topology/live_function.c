#include "topology/live.h"

#include "topology/libpci.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONFIG_BYTES 4096

static void set_number(const struct sysfs *dir, const char *file, uint64_t max,
                       struct rig_fact *fact)
{
    uint64_t value;
    if (sysfs_number(dir, file, &value) && value <= max)
        *fact = fact_known(value);
}

static void set_if_unknown(const struct sysfs *dir, const char *file, uint64_t max,
                           struct rig_fact *fact)
{
    if (fact->know == RIG_FACT_UNKNOWN)
        set_number(dir, file, max, fact);
}

/* ---- configuration space */

/* The ids in a virtual function's configuration space read all ones; the kernel's files have the
   true ones (PCIe base specification, 9.3.4.1.1). A function that is gone reads all ones
   throughout. */
static void patch_ids(const struct sysfs *dir, uint8_t *config)
{
    static const uint8_t ones[4] = {0xff, 0xff, 0xff, 0xff};
    uint64_t vendor, device;
    if (memcmp(config, ones, 4) != 0 || memcmp(config + 8, ones, 4) == 0)
        return;
    if (!sysfs_number(dir, "vendor", &vendor) || !sysfs_number(dir, "device", &device) ||
        vendor > 0xfffe || device > 0xffff)
        return;
    config[0] = (uint8_t)vendor;
    config[1] = (uint8_t)(vendor >> 8);
    config[2] = (uint8_t)device;
    config[3] = (uint8_t)(device >> 8);
}

/* The kernel looks for capabilities in the space that it can reach; without ECAM that is 256 bytes,
   and it then sees no ACS (drivers/pci/pci.c, pci_find_next_ext_capability). The file's size is how
   much it reaches. */
static void no_extended_space(const struct live *live, const struct sysfs *dir, size_t bytes,
                              struct rig_function *f)
{
    struct stat st;
    if (!live->this_machine || bytes != 256 || f->acs_control.know != RIG_FACT_UNKNOWN)
        return;
    if (fstatat(dir->root, "config", &st, 0) == 0 && st.st_size == 256)
        f->acs_control = f->acs_capability = fact_absent();
}

/* Why facts beyond byte 64 are missing, and what to do about it. */
static void explain_short(const struct live *live, struct rig_function *f)
{
    const char *why = live->this_machine ? "configuration space ends at byte 64: run as root"
                                         : "configuration space ends at byte 64: gather it as root";
    struct rig_fact *facts[] = {&f->pcie_type,    &f->acs_capability, &f->acs_control,
                                &f->pasid_or_ats, &f->vf_count,       &f->vf_offset,
                                &f->vf_stride};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(facts); i++)
        if (facts[i]->know == RIG_FACT_UNKNOWN)
            *facts[i] = fact_unknown(why);
}

static size_t read_config(struct live *live, const struct sysfs *dir, struct rig_bdf bdf,
                          uint8_t config[CONFIG_BYTES])
{
    if (live->pci)
        return libpci_config(live->pci, bdf, config);
    ssize_t n = sysfs_read(dir, "config", config, CONFIG_BYTES);
    size_t bytes = n > 0 ? (size_t)n : 0;
    return bytes >= CONFIG_BYTES ? CONFIG_BYTES : bytes >= 256 ? 256 : bytes >= 64 ? 64 : 0;
}

static void read_space(struct live *live, const struct sysfs *dir, struct node *n)
{
    uint8_t config[CONFIG_BYTES];
    size_t bytes = read_config(live, dir, n->f.bdf, config);
    if (bytes == 0) {
        n->f.config_bytes = fact_known(0);
        return;
    }
    patch_ids(dir, config);
    config_decode(live->t, n, config, bytes);
    no_extended_space(live, dir, bytes, &n->f);
    if (bytes < 256)
        explain_short(live, &n->f);
}

/* ---- files of one value each */

static void read_ids(const struct sysfs *dir, struct rig_function *f)
{
    set_number(dir, "vendor", 0xffff, &f->vendor);
    set_number(dir, "device", 0xffff, &f->device);
    set_number(dir, "class", 0xffffff, &f->class_code);
    set_if_unknown(dir, "revision", 0xff, &f->revision);
    set_number(dir, "subsystem_vendor", 0xffff, &f->subsystem_vendor);
    set_number(dir, "subsystem_device", 0xffff, &f->subsystem_device);
    set_if_unknown(dir, "secondary_bus_number", 0xff, &f->secondary);
    set_if_unknown(dir, "subordinate_bus_number", 0xff, &f->subordinate);
    set_if_unknown(dir, "dma_mask_bits", 64, &f->dma_mask_bits);
    if (f->header_type.know != RIG_FACT_UNKNOWN || !rig_fact_has(f->class_code))
        return;
    uint64_t class = f->class_code.value >> 8;
    f->header_type = fact_assumed(class == 0x0604 ? 1 : class == 0x0607 ? 2 : 0, "its class");
}

static void read_numa(const struct sysfs *dir, struct rig_function *f)
{
    char text[32];
    uint64_t node;
    if (!sysfs_text(dir, "numa_node", text, sizeof text))
        return;
    if (strcmp(text, "-1") == 0)
        f->numa_node = fact_absent();
    else if (sysfs_parse_number(text, &node) && node <= UINT32_MAX)
        f->numa_node = fact_known(node);
}

static void read_sriov(struct live *live, const struct sysfs *dir, struct node *n)
{
    char link[4096];
    if (sysfs_link(dir, "physfn", link, sizeof link) &&
        rig_bdf_parse(sysfs_base_name(link), &n->physical_bdf)) {
        n->physical_given = true;
    }
    set_if_unknown(dir, "sriov_numvfs", 0xffff, &n->f.vf_count);
    set_if_unknown(dir, "sriov_offset", 0xffff, &n->f.vf_offset);
    set_if_unknown(dir, "sriov_stride", 0xffff, &n->f.vf_stride);
    if (live->this_machine && n->f.vf_count.know == RIG_FACT_UNKNOWN)
        n->f.vf_count = n->f.vf_offset = n->f.vf_stride = fact_absent();
}

/* False: memory ran out. */
static bool read_driver(struct live *live, const struct sysfs *dir, struct rig_function *f)
{
    char link[4096];
    if (!sysfs_link(dir, "driver", link, sizeof link))
        return true;
    f->driver = topology_text(live->t, sysfs_base_name(link));
    live->seen_driver = true;
    return rig_text_has(f->driver);
}

/* A group of a driver without an IOMMU says so in its name (drivers/vfio/group.c). */
static void read_group(struct live *live, const struct sysfs *dir, struct rig_function *f)
{
    char link[4096], path[4352], text[64];
    uint64_t group;
    if (!sysfs_link(dir, "iommu_group", link, sizeof link) ||
        !sysfs_parse_number(sysfs_base_name(link), &group))
        return;
    live->seen_group = true;
    f->iommu_group = fact_known(group);
    snprintf(path, sizeof path, "%s/%s/name", live->groups, sysfs_base_name(link));
    if (sysfs_text(&live->fs, path, text, sizeof text) && strcmp(text, "vfio-noiommu") == 0) {
        f->iommu_group = fact_absent();
        return;
    }
    snprintf(path, sizeof path, "%s/%s/type", live->groups, sysfs_base_name(link));
    if (sysfs_text(&live->fs, path, text, sizeof text) && text[0])
        f->iommu_type = topology_text(live->t, text);
}

/* ---- PCI Express */

/* "8.0 GT/s PCIe", "2.5 GT/s", "Unknown". */
static void read_speed(const struct sysfs *dir, const char *file, struct rig_fact *fact)
{
    char text[64];
    if (fact->know != RIG_FACT_UNKNOWN || !sysfs_text(dir, file, text, sizeof text))
        return;
    unsigned value = 0;
    const char *p = text;
    for (int i = 0; i < 4 && *p >= '0' && *p <= '9'; i++)
        value = value * 10 + (unsigned)(*p++ - '0');
    value *= 10;
    if (p[0] == '.' && p[1] >= '0' && p[1] <= '9') {
        value += (unsigned)(p[1] - '0');
        p += 2;
    }
    if (value != 0 && strncmp(p, " GT/s", 5) == 0)
        *fact = fact_known(value);
}

static void read_width(const struct sysfs *dir, const char *file, struct rig_fact *fact)
{
    uint64_t width;
    if (fact->know == RIG_FACT_UNKNOWN && sysfs_number(dir, file, &width) && width > 0 &&
        width <= 32)
        *fact = fact_known(width);
}

/* A port's services are devices below it, `0000:00:1c.0:pcie002`: the first digit after `pcie` is
   the port's type less 4 (drivers/pci/pcie/portdrv.c, pcie_device_init). -1: it has none. */
static int port_type_by_service(const struct sysfs *dir, const char *name)
{
    DIR *list = sysfs_directory(dir, ".", 0);
    if (!list)
        return -1;
    int type = -1;
    size_t length = strlen(name);
    for (struct dirent *d; type < 0 && (d = readdir(list)) != NULL;) {
        const char *rest = d->d_name + length;
        if (strncmp(d->d_name, name, length) == 0 && strncmp(rest, ":pcie", 5) == 0 &&
            rest[5] >= '0' && rest[5] <= '2')
            type = rest[5] - '0' + RIG_PCIE_ROOT_PORT;
    }
    closedir(list);
    return type;
}

/* What can be told of the port type without privilege, whose capability lies beyond byte 64. The
   link files exist for functions of PCI Express only (drivers/pci/pci-sysfs.c,
   pcie_dev_attrs_are_visible). */
static void guess_type(struct live *live, const struct sysfs *dir, struct node *n, bool has_link)
{
    struct rig_function *f = &n->f;
    char name[RIG_BDF_MAX];
    if (f->pcie_type.know != RIG_FACT_UNKNOWN)
        return;
    if (!has_link) {
        if (live->this_machine)
            f->pcie_type = fact_absent();
        return;
    }
    bool bridge = rig_fact_has(f->class_code) && f->class_code.value >> 8 == 0x0604;
    int service = bridge ? port_type_by_service(dir, rig_bdf_format(f->bdf, name)) : -1;
    if (service >= 0)
        f->pcie_type = fact_assumed((uint64_t)service, "the port services that the kernel bound");
    else if (bridge && n->place == PLACE_ROOT)
        f->pcie_type = fact_assumed(RIG_PCIE_ROOT_PORT, "a PCI Express bridge on a root bus");
    else if (!bridge && n->place == PLACE_UNDER)
        f->pcie_type = fact_assumed(RIG_PCIE_ENDPOINT, "PCI Express link files below a bridge");
}

static void read_pcie(struct live *live, const struct sysfs *dir, struct node *n)
{
    struct stat st;
    bool has_link = fstatat(dir->root, "current_link_speed", &st, AT_SYMLINK_NOFOLLOW) == 0 ||
                    fstatat(dir->root, "max_link_speed", &st, AT_SYMLINK_NOFOLLOW) == 0;
    read_speed(dir, "current_link_speed", &n->f.link_speed);
    read_speed(dir, "max_link_speed", &n->f.max_speed);
    read_width(dir, "current_link_width", &n->f.link_width);
    read_width(dir, "max_link_width", &n->f.max_width);
    guess_type(live, dir, n, has_link);
}

/* ---- BARs */

static uint64_t bar_flags(uint64_t flags)
{
    if (flags & RESOURCE_IO)
        return RIG_BAR_IO;
    return (flags & RESOURCE_64BIT ? RIG_BAR_64BIT : 0) |
           (flags & RESOURCE_PREFETCHABLE ? RIG_BAR_PREFETCHABLE : 0);
}

static void take_resource(struct live *live, struct node *n, int i, const struct resource *r)
{
    struct rig_bar *bar = &n->f.bar[i];
    if (r->flags == 0 && r->start == 0 && r->end == 0) {
        if (!rig_fact_has(bar->bus))
            *bar = (struct rig_bar){.flags = fact_absent(), .resizable = bar->resizable};
        return;
    }
    uint64_t size = r->end - r->start + 1;
    if (r->end < r->start || !rig_power_of_two(size)) {
        char name[RIG_BDF_MAX];
        topology_warn(live->t, "%s: BAR %d ends before it begins or has an odd size",
                      rig_bdf_format(n->f.bdf, name), i);
        return;
    }
    bool virtual = n->physical_given && !rig_fact_has(bar->flags);
    bar->flags = fact_known(bar_flags(r->flags) | (virtual ? RIG_BAR_VIRTUAL : 0));
    bar->size = fact_known(size);
    if (r->flags & RESOURCE_UNSET || r->start == 0)
        bar->cpu = bar->bus = fact_absent();
    else
        bar->cpu = fact_known(r->start);
}

static void read_resources(struct live *live, const struct sysfs *dir, struct node *n)
{
    char text[2048];
    struct resource r[RIG_BAR_COUNT];
    ssize_t bytes = sysfs_read(dir, "resource", text, sizeof text);
    if (bytes <= 0)
        return;
    if (!resource_parse(text, (size_t)bytes, r, RIG_BAR_COUNT)) {
        char name[RIG_BDF_MAX];
        topology_warn(live->t, "%s: its file `resource` is not three hex numbers a line",
                      rig_bdf_format(n->f.bdf, name));
        return;
    }
    int bars = is_bridge(&n->f) ? 2 : RIG_BAR_COUNT;
    for (int i = 0; i < bars; i++)
        take_resource(live, n, i, &r[i]);
    for (int i = bars; i < RIG_BAR_COUNT; i++)
        n->f.bar[i].flags = fact_absent();
}

/* `resourceN_resize` is a bit map of sizes, 2^(20+n) bytes, in hex without 0x (drivers/pci/
   pci-sysfs.c, from 6.1). */
static void read_resizable(const struct sysfs *dir, struct rig_function *f)
{
    for (int i = 0; i < RIG_BAR_COUNT; i++) {
        char file[32], text[64] = "0x";
        uint64_t sizes;
        snprintf(file, sizeof file, "resource%d_resize", i);
        if (f->bar[i].resizable.know != RIG_FACT_KNOWN && rig_fact_has(f->bar[i].flags) &&
            sysfs_text(dir, file, text + 2, sizeof text - 2) && sysfs_parse_number(text, &sizes) &&
            sizes != 0)
            f->bar[i].resizable = fact_known(sizes);
    }
}

/* amdgpu puts the size beside the function's other files (amdgpu_vram_mgr.c). */
static void read_gpu(const struct sysfs *dir, struct rig_function *f)
{
    uint64_t bytes;
    if (sysfs_number(dir, "mem_info_vram_total", &bytes) && bytes > 0)
        f->gpu_memory = fact_known(bytes);
}

enum rig_status live_function(struct live *live, const struct live_entry *entry,
                              struct rig_error *err)
{
    struct node *n;
    enum rig_status status = topology_add(live->t, entry->bdf, &n, err);
    if (status != RIG_OK)
        return status;
    n->place = entry->place;
    n->parent_bdf = entry->parent;
    struct sysfs dir = {.root = sysfs_open(&live->fs, entry->path, O_DIRECTORY),
                        .confined = live->fs.confined};
    if (dir.root < 0) {
        char name[RIG_BDF_MAX];
        if (entry->bridge)
            n->f.header_type = fact_assumed(1, "a function below it");
        else
            topology_warn(live->t, "%s: its directory cannot be read",
                          rig_bdf_format(entry->bdf, name));
        return RIG_OK;
    }
    read_sriov(live, &dir, n);
    read_space(live, &dir, n);
    read_ids(&dir, &n->f);
    read_numa(&dir, &n->f);
    bool kept = read_driver(live, &dir, &n->f);
    read_group(live, &dir, &n->f);
    read_pcie(live, &dir, n);
    read_resources(live, &dir, n);
    read_resizable(&dir, &n->f);
    read_gpu(&dir, &n->f);
    close(dir.root);
    return kept ? RIG_OK : rig_fail_memory(err);
}
