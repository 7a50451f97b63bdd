#include "topology/lspci.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Facts of one function that two readings of it must agree on. What changes by itself between two
   commands, a link's present speed and width, is not among them. */
#define FACT(member, text)                                                                         \
    {                                                                                              \
        offsetof(struct rig_function, member), text                                                \
    }
static const struct {
    size_t offset;
    const char *text;
} facts[] = {
    FACT(vendor, "vendor id"),
    FACT(device, "device id"),
    FACT(subsystem_vendor, "subsystem vendor id"),
    FACT(subsystem_device, "subsystem device id"),
    FACT(revision, "revision"),
    FACT(header_type, "header type"),
    FACT(config_bytes, "amount of configuration space"),
    FACT(pcie_type, "PCI Express type"),
    FACT(max_speed, "highest link speed"),
    FACT(max_width, "highest link width"),
    FACT(acs_control, "ACS control"),
    FACT(pasid_or_ats, "ATS capability"),
    FACT(primary, "primary bus"),
    FACT(secondary, "secondary bus"),
    FACT(subordinate, "subordinate bus"),
    FACT(vf_count, "number of virtual functions"),
    FACT(vf_offset, "offset of virtual functions"),
    FACT(vf_stride, "stride of virtual functions"),
    FACT(iommu_group, "IOMMU group"),
    FACT(numa_node, "NUMA node"),
};

/* Facts that are taken from either reading and not compared: the kernel prints windows as it has
   assigned them, the registers hold what the hardware decodes. */
static const size_t taken[] = {
    offsetof(struct rig_function, link_speed),
    offsetof(struct rig_function, link_width),
    offsetof(struct rig_function, io.base),
    offsetof(struct rig_function, io.limit),
    offsetof(struct rig_function, memory.base),
    offsetof(struct rig_function, memory.limit),
    offsetof(struct rig_function, prefetchable.base),
    offsetof(struct rig_function, prefetchable.limit),
    offsetof(struct rig_function, iommu),
};

struct merge {
    struct node *into;
    const struct node *from;
    struct lspci_origin old, fresh;
    struct rig_error *err;
};

static struct rig_fact *fact_at(struct rig_function *f, size_t offset)
{
    return (struct rig_fact *)(void *)((char *)f + offset);
}

static struct rig_fact fact_of(const struct rig_function *f, size_t offset)
{
    struct rig_fact fact;
    memcpy(&fact, (const char *)f + offset, sizeof fact);
    return fact;
}

static const char *written(struct rig_fact fact, char text[32])
{
    if (fact.know == RIG_FACT_ABSENT)
        return "none";
    snprintf(text, 32, "0x%" PRIx64, fact.value);
    return text;
}

static enum rig_status refuse(const struct merge *m, const char *what, const char *was,
                              const char *is)
{
    char bdf[RIG_BDF_MAX];
    rig_bdf_format(m->into->f.bdf, bdf);
    rig_fail_at(m->err, m->fresh.name, m->fresh.line, 0,
                "function %s appears twice, here and in line %zu, and its %s differs: %s there, %s "
                "here",
                bdf, m->old.line, what, was, is);
    rig_hint(m->err,
             "one file holds one machine at one time; bus %04x:%02x appears twice: split "
             "the file",
             (unsigned)m->into->f.bdf.domain, (unsigned)m->into->f.bdf.bus);
    return RIG_BAD_INPUT;
}

static bool settled(struct rig_fact fact)
{
    return fact.know == RIG_FACT_KNOWN || fact.know == RIG_FACT_ABSENT;
}

/* The better known of two facts that do not contradict each other. */
static void take(struct rig_fact *into, struct rig_fact from)
{
    if (from.know == RIG_FACT_UNKNOWN || settled(*into))
        return;
    if (settled(from) || into->know == RIG_FACT_UNKNOWN)
        *into = from;
}

static bool agree(struct rig_fact a, struct rig_fact b)
{
    return !settled(a) || !settled(b) ||
           (a.know == b.know && (a.know == RIG_FACT_ABSENT || a.value == b.value));
}

static enum rig_status merge_fact(const struct merge *m, struct rig_fact *into,
                                  struct rig_fact from, const char *what)
{
    char was[32], is[32];
    if (!agree(*into, from))
        return refuse(m, what, written(*into, was), written(from, is));
    take(into, from);
    return RIG_OK;
}

/* A class printed without its interface is assumed: the rest of it must agree all the same. */
static enum rig_status merge_class(const struct merge *m)
{
    struct rig_fact *into = &m->into->f.class_code, from = m->from->f.class_code;
    char was[32], is[32];
    if (rig_fact_has(*into) && rig_fact_has(from) && into->value >> 8 != from.value >> 8)
        return refuse(m, "class", written(*into, was), written(from, is));
    return merge_fact(m, into, from, "class");
}

static enum rig_status merge_bar(const struct merge *m, int index)
{
    struct rig_bar *into = &m->into->f.bar[index];
    struct rig_bar from = m->from->f.bar[index];
    /* A register of zero looks like no BAR, yet the kernel may have placed one: a virtual
       function's, or a legacy IDE controller's. And the kernel drops BARs it could not size. */
    if (into->flags.know != RIG_FACT_KNOWN || from.flags.know != RIG_FACT_KNOWN) {
        if (from.flags.know == RIG_FACT_KNOWN || into->flags.know == RIG_FACT_UNKNOWN)
            *into = from;
        return RIG_OK;
    }
    char what[32] = "BAR 0 kind";
    what[4] = (char)('0' + index);
    uint64_t virtual_bar = (into->flags.value | from.flags.value) & RIG_BAR_VIRTUAL;
    into->flags.value |= virtual_bar;
    from.flags.value |= virtual_bar;
    enum rig_status status = merge_fact(m, &into->flags, from.flags, what);
    memcpy(what + 6, "bus address", sizeof "bus address");
    /* A sleeping function's registers read zero until it wakes up, when the kernel writes them. */
    bool asleep = (into->bus.know == RIG_FACT_ABSENT && from.bus.know == RIG_FACT_ASSUMED) ||
                  (from.bus.know == RIG_FACT_ABSENT && into->bus.know == RIG_FACT_ASSUMED);
    if (asleep && from.bus.know == RIG_FACT_ASSUMED)
        into->bus = from.bus;
    if (status == RIG_OK && !virtual_bar && !asleep)
        status = merge_fact(m, &into->bus, from.bus, what);
    memcpy(what + 6, "address", sizeof "address");
    if (status == RIG_OK)
        status = merge_fact(m, &into->cpu, from.cpu, what);
    memcpy(what + 6, "size", sizeof "size");
    if (status == RIG_OK)
        status = merge_fact(m, &into->size, from.size, what);
    memcpy(what + 6, "sizes", sizeof "sizes");
    if (status == RIG_OK)
        status = merge_fact(m, &into->resizable, from.resizable, what);
    return status;
}

/* lspci prints egress control's vector size nowhere: bits 15:8 of the capability. */
static enum rig_status merge_acs_capability(const struct merge *m)
{
    struct rig_fact *into = &m->into->f.acs_capability, from = m->from->f.acs_capability;
    if (into->know == RIG_FACT_KNOWN && from.know == RIG_FACT_KNOWN &&
        ((into->value ^ from.value) & 0x7f) == 0) {
        into->value |= from.value;
        return RIG_OK;
    }
    return merge_fact(m, into, from, "ACS capability");
}

static enum rig_status merge_command(const struct merge *m)
{
    struct rig_function *into = &m->into->f;
    const struct rig_function *from = &m->from->f;
    if (from->command.know != RIG_FACT_KNOWN)
        return RIG_OK;
    if (into->command.know != RIG_FACT_KNOWN) {
        into->command = from->command;
        into->command_mask = from->command_mask;
        return RIG_OK;
    }
    uint16_t both = into->command_mask & from->command_mask;
    char was[32], is[32];
    if ((into->command.value ^ from->command.value) & both)
        return refuse(m, "command register", written(fact_known(into->command.value & both), was),
                      written(fact_known(from->command.value & both), is));
    into->command.value |= from->command.value & from->command_mask;
    into->command_mask |= from->command_mask;
    return RIG_OK;
}

/* A name that a terminal or a form cut off is the beginning of the whole one. */
static enum rig_status merge_name(const struct merge *m)
{
    const char *old = m->into->f.name, *fresh = m->from->f.name;
    if (!fresh)
        return RIG_OK;
    if (!old) {
        m->into->f.name = fresh;
        return RIG_OK;
    }
    size_t n = strlen(old), k = strlen(fresh);
    if (strncmp(old, fresh, n < k ? n : k) != 0)
        return refuse(m, "name", old, fresh);
    if (k > n)
        m->into->f.name = fresh;
    return RIG_OK;
}

static enum rig_status merge_driver(const struct merge *m)
{
    struct rig_text *into = &m->into->f.driver, from = m->from->f.driver;
    if (!rig_text_has(from))
        return RIG_OK;
    if (!rig_text_has(*into)) {
        *into = from;
        return RIG_OK;
    }
    return strcmp(into->value, from.value) == 0 ? RIG_OK
                                                : refuse(m, "driver", into->value, from.value);
}

enum rig_status lspci_merge(struct node *into, struct lspci_origin old, const struct node *from,
                            struct lspci_origin fresh, struct rig_error *err)
{
    struct merge m = {into, from, old, fresh, err};
    enum rig_status status = merge_name(&m);
    if (status == RIG_OK)
        status = merge_class(&m);
    for (size_t i = 0; status == RIG_OK && i < RIG_ARRAY_LENGTH(facts); i++)
        status = merge_fact(&m, fact_at(&into->f, facts[i].offset),
                            fact_of(&from->f, facts[i].offset), facts[i].text);
    for (size_t i = 0; status == RIG_OK && i < RIG_ARRAY_LENGTH(taken); i++)
        take(fact_at(&into->f, taken[i]), fact_of(&from->f, taken[i]));
    for (int i = 0; status == RIG_OK && i < RIG_BAR_COUNT; i++)
        status = merge_bar(&m, i);
    if (status == RIG_OK)
        status = merge_acs_capability(&m);
    if (status == RIG_OK)
        status = merge_command(&m);
    if (status == RIG_OK)
        status = merge_driver(&m);
    return status;
}

static int next_present(const struct node *node, int i)
{
    while (i < RIG_BAR_COUNT && node->f.bar[i].flags.know != RIG_FACT_KNOWN)
        i++;
    return i;
}

void lspci_number_bars(struct node *unnumbered, const struct node *numbered)
{
    struct rig_bar bar[RIG_BAR_COUNT];
    memset(bar, 0, sizeof bar);
    int i = next_present(unnumbered, 0), k = next_present(numbered, 0);
    while (i < RIG_BAR_COUNT && k < RIG_BAR_COUNT) {
        uint64_t differs = unnumbered->f.bar[i].flags.value ^ numbered->f.bar[k].flags.value;
        if (differs & ~(uint64_t)RIG_BAR_VIRTUAL)
            return;
        bar[k] = unnumbered->f.bar[i];
        i = next_present(unnumbered, i + 1);
        k = next_present(numbered, k + 1);
    }
    if (i == RIG_BAR_COUNT && k == RIG_BAR_COUNT)
        memcpy(unnumbered->f.bar, bar, sizeof bar);
}
