#include "topology/lspci.h"

#include <string.h>

/* What the text as a whole shows: where it shows a fact of some functions, it would show it of all
   that have it. */
struct shown {
    bool extended, groups, nodes, drivers;
};

static const char no_list[] =
    "the text shows no capabilities of it: it has none, or they are cut; use: " LSPCI_COMMAND;
static const char one_line[] = "the text has only a line about it; use: " LSPCI_COMMAND;
static const char cut[] = "the text about it is cut; use: " LSPCI_COMMAND;
static const char denied[] =
    "lspci was run without privilege: <access denied>; use: " LSPCI_COMMAND;
static const char no_extended[] =
    "the text shows no extended capabilities of any function; use: " LSPCI_COMMAND;
static const char no_words[] =
    "the text lists the capability and not what it holds; use lspci -vvv instead of -v";
static const char gone[] = "its configuration space reads all ones";
static const char from_name[] = "name in pci.ids";

static bool unknown(struct rig_fact fact)
{
    return fact.know == RIG_FACT_UNKNOWN;
}

static void settle_fact(struct rig_fact *fact, struct rig_fact value)
{
    if (unknown(*fact) && !fact->from)
        *fact = value;
}

/* As settle_fact, but a reason to know nothing, such as a short dump, gives way to knowledge. */
static void settle_over(struct rig_fact *fact, struct rig_fact value)
{
    if (unknown(*fact) && (!fact->from || !unknown(value)))
        *fact = value;
}

/* Why a function's capabilities are not known. */
static const char *missing(const struct lspci_record *r)
{
    if (r->all_ones)
        return gone;
    if (r->denied)
        return denied;
    if (r->whole)
        return no_list;
    return r->text ? cut : one_line;
}

static void settle_links(struct rig_function *f, struct rig_fact value)
{
    settle_fact(&f->link_speed, value);
    settle_fact(&f->link_width, value);
    settle_fact(&f->max_speed, value);
    settle_fact(&f->max_width, value);
}

static void settle_express(struct rig_function *f, const struct lspci_record *r)
{
    bool none = r->no_list || r->capabilities;
    settle_fact(&f->pcie_type, none ? fact_absent() : fact_unknown(missing(r)));
    if (f->pcie_type.know == RIG_FACT_ABSENT ||
        fact_is(f->pcie_type, RIG_PCIE_INTEGRATED_ENDPOINT) ||
        fact_is(f->pcie_type, RIG_PCIE_EVENT_COLLECTOR))
        settle_links(f, fact_absent());
    else
        settle_links(f, fact_unknown(r->capabilities ? "lspci -v does not show links; use -vv"
                                                     : missing(r)));
}

/* What a fact of extended space is when the text does not give it. */
static struct rig_fact extended_fact(const struct rig_function *f, const struct lspci_record *r,
                                     const struct shown *shown, bool listed)
{
    if (listed)
        return fact_unknown(no_words);
    if (f->pcie_type.know == RIG_FACT_ABSENT)
        return fact_absent();
    if (!r->capabilities)
        return fact_unknown(missing(r));
    return shown->extended ? fact_absent() : fact_unknown(no_extended);
}

static void settle_extended(struct rig_function *f, const struct lspci_record *r,
                            const struct shown *shown)
{
    struct rig_fact acs = extended_fact(f, r, shown, r->acs_listed);
    settle_over(&f->acs_capability, acs);
    settle_over(&f->acs_control, acs);
    struct rig_fact sriov = extended_fact(f, r, shown, r->sriov_listed);
    settle_over(&f->vf_count, sriov);
    settle_over(&f->vf_offset, sriov);
    settle_over(&f->vf_stride, sriov);
    struct rig_fact plain = extended_fact(f, r, shown, false);
    settle_over(&f->pasid_or_ats, plain);
    for (int i = 0; i < RIG_BAR_COUNT; i++)
        if (rig_fact_has(f->bar[i].flags))
            settle_over(&f->bar[i].resizable, plain);
}

static void settle_header(struct rig_function *f, const struct lspci_record *r)
{
    unsigned sub_class = rig_fact_has(f->class_code) ? (unsigned)(f->class_code.value >> 8) : 0;
    if (r->all_ones)
        settle_fact(&f->header_type, fact_unknown(gone));
    else if (r->bus_numbers || sub_class == 0x0604 || sub_class == 0x0607)
        f->header_type = fact_known(sub_class == 0x0607 ? 2 : 1);
    else if (r->whole || rig_fact_has(f->class_code))
        settle_fact(&f->header_type, fact_known(0));
    if (r->whole && f->class_code.know == RIG_FACT_ASSUMED)
        f->class_code = fact_known(f->class_code.value); /* interface 0 is not printed */
    if (r->whole && !r->all_ones)
        settle_fact(&f->revision, fact_known(0)); /* nor is revision 0 */
    bool no_bridge = fact_is(f->header_type, 0) && r->whole;
    struct rig_fact none = no_bridge ? fact_absent() : fact_unknown(missing(r));
    struct rig_fact *facts[] = {&f->primary,      &f->secondary,         &f->subordinate,
                                &f->io.base,      &f->io.limit,          &f->memory.base,
                                &f->memory.limit, &f->prefetchable.base, &f->prefetchable.limit};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(facts); i++)
        if (no_bridge || !r->bus_numbers)
            settle_fact(facts[i], none);
    for (int i = 0; i < RIG_BAR_COUNT; i++)
        settle_fact(&f->bar[i].flags, r->whole ? fact_absent() : fact_unknown(missing(r)));
}

static void settle_kernel(struct rig_function *f, const struct lspci_record *r,
                          const struct shown *shown)
{
    if (!r->whole)
        return;
    if (shown->groups)
        settle_fact(&f->iommu_group, fact_absent());
    if (shown->nodes)
        settle_fact(&f->numa_node, fact_absent());
    if (shown->drivers && f->driver.know == RIG_FACT_UNKNOWN)
        f->driver.know = RIG_FACT_ABSENT;
}

/* The vendor's number alone, of a name whose device has none: the longest beginning of
   the name that is a vendor's. */
static bool find_vendor(struct ids_index *ids, const char *name, uint16_t *out_vendor)
{
    char text[256];
    uint16_t device;
    bool shared;
    size_t n = strlen(name);
    if (n + sizeof " Device 0000" > sizeof text)
        return false;
    for (; n > 0; n--) {
        if (name[n] != ' ' && name[n] != '\0')
            continue;
        memcpy(text, name, n);
        memcpy(text + n, " Device 0000", sizeof " Device 0000");
        if (ids_find_by_name(ids, text, out_vendor, &device, &shared))
            return true;
    }
    return false;
}

/* Names printed by an older lspci say `Unknown device 1234` for what is `Device 1234` now. */
static const char *modern(const char *name, char text[256])
{
    static const char old[] = " Unknown device ";
    const char *found = strstr(name, old);
    size_t head = found ? (size_t)(found - name) : 0;
    if (!found || strlen(name) >= 256)
        return name;
    memcpy(text, name, head);
    memcpy(text + head, " Device ", sizeof " Device ");
    strcat(text, found + sizeof old - 1);
    return text;
}

static void find_ids(struct ids_index *ids, struct rig_function *f)
{
    char text[256];
    uint16_t vendor, device;
    bool shared;
    const char *name = modern(f->name, text);
    if (ids_find_by_name(ids, name, &vendor, &device, &shared)) {
        f->vendor = fact_assumed(vendor, from_name);
        settle_fact(&f->device,
                    fact_assumed(device, shared ? "name in pci.ids, which several devices share"
                                                : from_name));
    } else if (find_vendor(ids, name, &vendor)) {
        f->vendor = fact_assumed(vendor, from_name);
        settle_fact(&f->device, fact_unknown("pci.ids has no device of this name"));
    } else {
        f->vendor = fact_unknown("pci.ids has no device of this name");
        settle_fact(&f->device, f->vendor);
    }
}

static void find_all_ids(struct rig_topology *t)
{
    struct ids_index *ids = NULL;
    for (int i = 0; i < t->count; i++) {
        struct rig_function *f = &t->node[i].f;
        if (!f->name || !unknown(f->vendor))
            continue;
        if (!ids)
            ids = ids_index_open();
        if (!ids)
            return;
        find_ids(ids, f);
    }
    ids_index_close(ids);
}

static struct shown survey(const struct rig_topology *t, const struct lspci_records *records)
{
    struct shown shown = {.extended = false};
    for (int i = 0; i < t->count; i++) {
        const struct rig_function *f = &t->node[i].f;
        shown.extended |= records->record[i].extended;
        shown.groups |= rig_fact_has(f->iommu_group);
        shown.nodes |= rig_fact_has(f->numa_node);
        shown.drivers |= rig_text_has(f->driver);
    }
    return shown;
}

void lspci_settle(struct rig_topology *t, const struct lspci_records *records)
{
    struct shown shown = survey(t, records);
    for (int i = 0; i < t->count; i++) {
        struct rig_function *f = &t->node[i].f;
        const struct lspci_record *r = &records->record[i];
        if (!r->hex) {
            settle_header(f, r);
            settle_express(f, r);
        }
        if (!r->hex || r->capabilities)
            settle_extended(f, r, &shown);
        settle_kernel(f, r, &shown);
    }
    find_all_ids(t);
    assume_cpu(t);
}
