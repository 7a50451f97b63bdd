#include "topology/live.h"

#include "topology/libpci.h"
#include "topology/live_machine.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what follows from all functions together */

static const struct node *find_node(const struct rig_topology *t, struct rig_bdf bdf)
{
    for (int i = 0; i < t->count; i++)
        if (rig_bdf_compare(t->node[i].f.bdf, bdf) == 0)
            return &t->node[i];
    return NULL;
}

/* What is to be added to a CPU address for the bus address, by a memory BAR of f whose
   addresses are both known. */
static bool offset_of(const struct rig_function *f, uint64_t *out)
{
    for (int i = 0; i < RIG_BAR_COUNT; i++) {
        const struct rig_bar *bar = &f->bar[i];
        if (bar->bus.know == RIG_FACT_KNOWN && bar->cpu.know == RIG_FACT_KNOWN &&
            !(bar->flags.value & RIG_BAR_IO)) {
            *out = bar->bus.value - bar->cpu.value;
            return true;
        }
    }
    return false;
}

/* A virtual function's registers read zero, and a tree may lack `config`: the bus address is then
   the CPU address with the physical function's offset, or the CPU address itself, which is right
   wherever host bridges do not translate. */
static void place_bars(const struct rig_topology *t, struct node *n)
{
    const struct node *physical = n->physical_given ? find_node(t, n->physical_bdf) : NULL;
    uint64_t offset = 0;
    bool known = physical && offset_of(&physical->f, &offset);
    for (int i = 0; i < RIG_BAR_COUNT; i++) {
        struct rig_bar *bar = &n->f.bar[i];
        if (!rig_fact_has(bar->cpu) || rig_fact_has(bar->bus))
            continue;
        bar->bus = known ? fact_known(bar->cpu.value + offset)
                         : fact_assumed(bar->cpu.value, "the CPU's address of it");
    }
}

static bool is_directory(const struct sysfs *fs, const char *path)
{
    int fd = sysfs_open(fs, path, O_DIRECTORY | O_PATH);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

void live_complete(struct live *live)
{
    struct rig_topology *t = live->t;
    bool drivers = live->this_machine || live->seen_driver;
    bool groups = live->this_machine || live->seen_group || is_directory(&live->fs, live->groups);
    for (int i = 0; i < t->count; i++) {
        struct node *n = &t->node[i];
        if (drivers && n->f.driver.know == RIG_FACT_UNKNOWN)
            n->f.driver.know = RIG_FACT_ABSENT;
        if (groups && n->f.iommu_group.know == RIG_FACT_UNKNOWN)
            n->f.iommu_group = fact_absent();
        place_bars(t, n);
    }
}

/* ---- directories */

/* How a directory can hold a machine. */
static const struct {
    const char *functions, *tree, *groups;
} layouts[] = {
    {"sys/bus/pci/devices", "sys/devices", "sys/kernel/iommu_groups"},
    {"bus/pci/devices", "devices", "kernel/iommu_groups"},
};

static bool find_layout(struct live *live)
{
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(layouts); i++) {
        if (!is_directory(&live->fs, layouts[i].functions))
            continue;
        live->functions = layouts[i].functions;
        live->tree = layouts[i].tree;
        live->groups = layouts[i].groups;
        return true;
    }
    return false;
}

static enum rig_status refuse_layout(const struct live *live, const char *name,
                                     struct rig_error *err)
{
    static const char report[] = "sos_commands/pci/lspci_-nnvv";
    struct stat st;
    rig_fail_at(err, name, 0, 0, "this directory holds no machine: no sys/bus/pci/devices");
    if (fstatat(live->fs.root, report, &st, 0) == 0)
        rig_hint(err, "this report has lspci's text: give %s/%s", name, report);
    else
        rig_hint(err, "give the directory that holds the machine's sys and proc");
    return RIG_BAD_INPUT;
}

static enum rig_status read_functions(struct live *live, const char *name, struct rig_error *err)
{
    struct live_entries list;
    enum rig_status status = live_find(live, &list, err);
    if (status != RIG_OK)
        return status;
    for (int i = 0; status == RIG_OK && i < list.count; i++)
        status = live_function(live, &list.entry[i], err);
    if (status == RIG_OK && list.count == 0 && !live->this_machine)
        status = rig_fail_at(err, name, 0, 0, "this directory's /sys holds no PCI function");
    live_entries_free(&list);
    return status;
}

static enum rig_status read_root(struct live *live, const char *name, struct rig_topology **out,
                                 struct rig_error *err)
{
    live->t = topology_new(live->this_machine ? RIG_SOURCE_LIVE : RIG_SOURCE_SYSFS);
    if (!live->t)
        return rig_fail_memory(err);
    live->t->whole = true;
    enum rig_status status = read_functions(live, name, err);
    if (status == RIG_OK) {
        live_machine_facts(live->t, &live->fs, live->this_machine);
        live_complete(live);
        if (!live->this_machine)
            assume_cpu(live->t);
        status = topology_finish(live->t, name, err);
    }
    if (status == RIG_OK)
        *out = live->t;
    else
        rig_topology_free(live->t);
    return status;
}

static enum rig_status open_root(const char *path, struct live *live, struct rig_error *err)
{
    live->fs.root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (live->fs.root < 0)
        return rig_fail(err, RIG_REFUSED, path, "%s", RIG_ERRNO(errno));
    return RIG_OK;
}

/* Without openat2 (Linux 5.6) links could lead out of the directory. */
static bool keeps_links_inside(const struct sysfs *fs)
{
    int fd = sysfs_open(fs, ".", O_PATH);
    if (fd < 0)
        return errno != ENOSYS && errno != EPERM;
    close(fd);
    return true;
}

enum rig_status read_directory(const char *path, struct rig_topology **out, struct rig_error *err)
{
    struct live live = {.fs = {.confined = true}};
    enum rig_status status = open_root(path, &live, err);
    if (status != RIG_OK)
        return status;
    if (!keeps_links_inside(&live.fs)) {
        status = rig_fail(err, RIG_REFUSED, path,
                          "this kernel cannot keep links inside a directory (openat2, Linux 5.6)");
        rig_hint(err, "make a capture of the directory on a newer kernel");
    } else if (!find_layout(&live)) {
        status = refuse_layout(&live, path, err);
    } else {
        status = read_root(&live, path, out, err);
    }
    close(live.fs.root);
    return status;
}

enum rig_status read_live(const char *root, struct rig_topology **out, struct rig_error *err)
{
    if (root[0] != '\0' && strcmp(root, "/") != 0)
        return read_directory(root, out, err);
    struct live live = {.this_machine = true,
                        .functions = layouts[0].functions,
                        .tree = layouts[0].tree,
                        .groups = layouts[0].groups};
    enum rig_status status = open_root("/", &live, err);
    if (status != RIG_OK)
        return status;
    status = libpci_scan(&live.pci, err);
    if (status == RIG_OK) {
        status = read_root(&live, "live", out, err);
        libpci_close(live.pci);
    }
    close(live.fs.root);
    return status;
}
