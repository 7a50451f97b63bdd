#include "topology/rules.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the order in which the entries came, so that each rule set is a beginning of the list. Linux:
   drivers/pci/p2pdma.c at 5.10, 5.18 (feaea1fe8b36), 7.1 and after 7.3-rc1. */
static const struct listed_bridge list[] = {
    /* 5.10 */
    {0x8086, 0x3c00, true},
    {0x8086, 0x3c01, true},
    {0x8086, 0x2f00, true},
    {0x8086, 0x2f01, true},
    {0x8086, 0x2030, false},
    {0x8086, 0x2031, false},
    {0x8086, 0x2032, false},
    {0x8086, 0x2033, false},
    {0x8086, 0x2020, false},
    /* 5.18 */
    {0x8086, 0x09a2, false},
    /* 7.1: Google's SoCs */
    {0x1ae0, ANY_DEVICE, false},
    /* 7.2: Intel's accelerators, which stand first on root buses of their own; later NVIDIA's Vera
       and Zhaoxin */
    {0x8086, 0x0b25, false},
    {0x8086, 0x0cfe, false},
    {0x8086, 0x11fb, false},
    {0x8086, 0x1212, false},
    {0x8086, 0x1216, false},
    {0x8086, 0x4940, false},
    {0x8086, 0x4942, false},
    {0x8086, 0x4944, false},
    {0x8086, 0x4946, false},
    {0x8086, 0x4948, false},
    {0x10de, 0x2f95, false},
    {0x10de, 0x2f96, false},
    {0x10de, 0x2f97, false},
    {0x10de, 0x2f98, false},
    {0x1d17, 0x1003, true},
    {0x1d17, 0x1005, true},
    {0x1d17, 0x1006, true},
    {0x1d17, 0x1007, true},
    {0x1d17, 0x1008, false},
};

/* 6.1 begins at 5.19, where a root port in any slot came to stand for its host bridge
 * (1af7c26c59eb). */
static const struct rig_rules sets[] = {
    {"5.10", 5, 10, REPRESENTATIVE_00, 9},
    {"5.15", 5, 14, REPRESENTATIVE_00, 9},
    {"5.18", 5, 18, REPRESENTATIVE_00, 10},
    {"6.1", 5, 19, REPRESENTATIVE_00_OR_ROOT_PORT, 10},
    {"7.1", 7, 1, REPRESENTATIVE_00_OR_ROOT_PORT, 11},
    {"7.2", 7, 2, REPRESENTATIVE_00_OR_ROOT_PORT, (int)RIG_ARRAY_LENGTH(list)},
};

int rig_rules_count(void)
{
    return (int)RIG_ARRAY_LENGTH(sets);
}

const struct rig_rules *rig_rules_at(int i)
{
    return &sets[i];
}

const char *rig_rules_name(const struct rig_rules *rules)
{
    return rules->name;
}

const struct listed_bridge *rules_entry(int i)
{
    return &list[i];
}

bool kernel_version(const char *release, unsigned *out_major, unsigned *out_minor)
{
    return isdigit((unsigned char)release[0]) &&
           sscanf(release, "%3u.%3u", out_major, out_minor) == 2;
}

const struct rig_rules *rig_rules_for(const char *release)
{
    const struct rig_rules *newest = &sets[RIG_ARRAY_LENGTH(sets) - 1];
    if (!release || strcmp(release, "newest") == 0)
        return newest;
    unsigned major, minor;
    if (!kernel_version(release, &major, &minor))
        return NULL;
    const struct rig_rules *found = NULL;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(sets); i++)
        if (major > sets[i].major || (major == sets[i].major && minor >= sets[i].minor))
            found = &sets[i];
    return found;
}

const struct rig_rules *rig_rules_default(const struct rig_topology *t, const char **out_from)
{
    const char *from = "no kernel is known: the newest";
    const struct rig_rules *rules = NULL;
    if (rig_text_has(t->machine.kernel)) {
        rules = rig_rules_for(t->machine.kernel.value);
        unsigned major, minor;
        if (rules) {
            from = "the machine's kernel";
        } else if (kernel_version(t->machine.kernel.value, &major, &minor)) {
            rules = &sets[0];
            from = "the machine's kernel is older than every rule set: the oldest";
        } else {
            from = "the machine's kernel has no version that can be read: the newest";
        }
    }
    if (out_from)
        *out_from = from;
    return rules ? rules : rig_rules_for(NULL);
}

enum rig_answer cpu_is_zen(const struct rig_topology *t)
{
    const struct rig_machine_facts *m = &t->machine;
    if (m->cpu_vendor.know == RIG_FACT_ABSENT || m->cpu_family.know == RIG_FACT_ABSENT)
        return RIG_ANSWER_NO;
    if (!rig_text_has(m->cpu_vendor))
        return RIG_ANSWER_UNKNOWN;
    if (strcmp(m->cpu_vendor.value, "AuthenticAMD") != 0)
        return RIG_ANSWER_NO;
    if (!rig_fact_has(m->cpu_family))
        return RIG_ANSWER_UNKNOWN;
    return m->cpu_family.value >= 0x17 ? RIG_ANSWER_YES : RIG_ANSWER_NO;
}

enum rig_answer function_redirects(const struct rig_function *f)
{
    if (rig_fact_has(f->acs_control))
        return f->acs_control.value & RIG_ACS_REDIRECTS ? RIG_ANSWER_YES : RIG_ANSWER_NO;
    if (f->acs_control.know == RIG_FACT_ABSENT || f->pcie_type.know == RIG_FACT_ABSENT)
        return RIG_ANSWER_NO;
    return RIG_ANSWER_UNKNOWN;
}

/* The list's word on ids, which may be known in part: a vendor that is not on the list is enough
 * for no. */
static enum rig_listed look_up(const struct rig_rules *rules, const struct rig_function *f,
                               char entry[16])
{
    bool vendor_seen = false;
    for (int i = 0; i < rules->entries; i++) {
        const struct listed_bridge *b = &list[i];
        if (rig_fact_has(f->vendor) && f->vendor.value != b->vendor)
            continue;
        vendor_seen = true;
        if (!rig_fact_has(f->vendor))
            break;
        if (b->device == ANY_DEVICE)
            snprintf(entry, 16, "%04x:*", b->vendor);
        else if (fact_is(f->device, b->device))
            snprintf(entry, 16, "%04x:%04x", b->vendor, b->device);
        else
            continue;
        return b->same_only ? RIG_LISTED_SAME : RIG_LISTED_ANY;
    }
    bool ids = rig_fact_has(f->vendor) && rig_fact_has(f->device);
    return vendor_seen && !ids ? RIG_LISTED_UNKNOWN : RIG_LISTED_NO;
}

/* May this first function of a root bus stand for its host bridge? */
static enum rig_answer stands(const struct rig_rules *rules, const struct rig_function *f)
{
    if (f->bdf.device == 0 && f->bdf.function == 0)
        return RIG_ANSWER_YES;
    if (rules->representative == REPRESENTATIVE_00)
        return RIG_ANSWER_NO;
    if (f->pcie_type.know == RIG_FACT_UNKNOWN)
        return RIG_ANSWER_UNKNOWN;
    return fact_is(f->pcie_type, RIG_PCIE_ROOT_PORT) ? RIG_ANSWER_YES : RIG_ANSWER_NO;
}

void ask_bridge(const struct rig_topology *t, const struct rig_rules *rules, int host_bridge,
                struct rig_bridge_answer *out)
{
    *out = (struct rig_bridge_answer){
        .host_bridge = host_bridge, .representative = -1, .listed = RIG_LISTED_UNKNOWN};
    if (host_bridge < 0)
        return;
    const struct rig_host_bridge *h = &t->host_bridge[host_bridge];
    if (!rig_fact_has(h->first_known))
        return;
    if (h->first < 0) {
        out->listed = RIG_LISTED_NONE;
        return;
    }
    const struct rig_function *f = &t->node[h->first].f;
    enum rig_answer can = stands(rules, f);
    if (can == RIG_ANSWER_NO) {
        out->listed = RIG_LISTED_NONE;
        return;
    }
    out->representative = h->first;
    out->vendor = f->vendor;
    out->device = f->device;
    out->listed = look_up(rules, f, out->entry);
    bool listed = out->listed == RIG_LISTED_ANY || out->listed == RIG_LISTED_SAME;
    if (can == RIG_ANSWER_UNKNOWN && listed) {
        out->listed = RIG_LISTED_UNKNOWN;
        out->entry[0] = '\0';
    }
}

static bool not_listed(const struct rig_bridge_answer *b)
{
    return b->listed == RIG_LISTED_NO || b->listed == RIG_LISTED_NONE;
}

static enum rig_answer list_carries(const struct rig_bridge_answer *a,
                                    const struct rig_bridge_answer *b)
{
    if (not_listed(a) || not_listed(b))
        return RIG_ANSWER_NO;
    bool known = a->host_bridge >= 0 && b->host_bridge >= 0;
    if (known && a->host_bridge == b->host_bridge)
        return a->listed == RIG_LISTED_UNKNOWN ? RIG_ANSWER_UNKNOWN : RIG_ANSWER_YES;
    if (known && (a->listed == RIG_LISTED_SAME || b->listed == RIG_LISTED_SAME))
        return RIG_ANSWER_NO;
    if (a->listed == RIG_LISTED_ANY && b->listed == RIG_LISTED_ANY)
        return RIG_ANSWER_YES;
    return RIG_ANSWER_UNKNOWN;
}

enum rig_answer host_carries(enum rig_answer zen, const struct rig_bridge_answer *a,
                             const struct rig_bridge_answer *b)
{
    if (zen == RIG_ANSWER_YES)
        return RIG_ANSWER_YES;
    enum rig_answer listed = list_carries(a, b);
    return listed == RIG_ANSWER_NO ? zen : listed == RIG_ANSWER_YES ? listed : RIG_ANSWER_UNKNOWN;
}

unsigned verdicts(enum rig_answer has_common, enum rig_answer redirects, enum rig_answer carries)
{
    unsigned set = 0;
    if (has_common != RIG_ANSWER_NO && redirects != RIG_ANSWER_YES)
        set |= RIG_BUS_ADDR;
    if (has_common == RIG_ANSWER_YES && redirects == RIG_ANSWER_NO)
        return set;
    if (carries != RIG_ANSWER_NO)
        set |= RIG_THRU_HOST_BRIDGE;
    if (carries != RIG_ANSWER_YES)
        set |= RIG_NOT_SUPPORTED;
    return set;
}
