#include "topology/lspci_detail.h"

#include <string.h>

/* In the order in which they must be tried: some begin with others. */
static const struct {
    const char *name;
    enum rig_pcie_type type;
} express_types[] = {
    {"Root Complex Integrated Endpoint", RIG_PCIE_INTEGRATED_ENDPOINT},
    {"Root Complex Event Collector", RIG_PCIE_EVENT_COLLECTOR},
    {"Root Port", RIG_PCIE_ROOT_PORT},
    {"Upstream Port", RIG_PCIE_UPSTREAM_PORT},
    {"Downstream Port", RIG_PCIE_DOWNSTREAM_PORT},
    {"Legacy Endpoint", RIG_PCIE_LEGACY_ENDPOINT},
    {"Endpoint", RIG_PCIE_ENDPOINT},
    {"PCI-Express to PCI/PCI-X Bridge", RIG_PCIE_TO_PCI_BRIDGE},
    {"PCI/PCI-X to PCI-Express Bridge", RIG_PCI_TO_PCIE_BRIDGE},
    {"PCI/PCI-X Bridge", RIG_PCIE_TO_PCI_BRIDGE},
};

static enum rig_status read_express(struct detail *d, struct lspci_text t)
{
    d->block->capability = LSPCI_EXPRESS;
    if (lspci_skip(&t, "(v")) {
        uint64_t version;
        if (lspci_number(&t, 10, 1, 2, &version))
            lspci_skip(&t, ") ");
    }
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(express_types); i++)
        if (lspci_skip(&t, express_types[i].name))
            return detail_set(d, &d->f->pcie_type, fact_known(express_types[i].type),
                              "PCI Express capabilities");
    d->f->pcie_type = fact_unknown("the text names a PCI Express type in words not known here");
    return RIG_OK;
}

static void read_extended(struct detail *d, struct lspci_text t)
{
    struct lspci_block *b = d->block;
    b->extended = true;
    if (lspci_skip(&t, "Access Control Services")) {
        b->capability = LSPCI_ACS;
        b->acs_listed = true;
    } else if (lspci_skip(&t, "Single Root I/O Virtualization")) {
        b->capability = LSPCI_SRIOV;
        b->sriov_listed = true;
    } else if (lspci_skip(&t, "Physical Resizable BAR")) {
        b->capability = LSPCI_REBAR;
    } else if (lspci_skip(&t, "Address Translation Service")) {
        d->f->pasid_or_ats = fact_known(1);
    }
}

/* `[c0] Express (v2) Endpoint, MSI 00`, `[148 v1] Access Control Services`, `<access denied>`. */
enum rig_status detail_capability(struct detail *d)
{
    struct lspci_text t = d->rest;
    uint64_t offset, version;
    d->block->capability = LSPCI_OTHER_CAPABILITY;
    if (lspci_skip(&t, "<access denied>") || lspci_skip(&t, "<available only to root>")) {
        d->block->denied = true;
        return RIG_OK;
    }
    if (!lspci_skip(&t, "[") || !lspci_number(&t, 16, 2, 3, &offset))
        return RIG_OK;
    if (lspci_skip(&t, " v") && !lspci_number(&t, 10, 1, 2, &version))
        return RIG_OK;
    if (!lspci_skip(&t, "] "))
        return RIG_OK;
    if (offset >= 0x100) {
        read_extended(d, t);
        return RIG_OK;
    }
    if (lspci_skip(&t, "Express "))
        return read_express(d, t);
    if (lspci_skip(&t, "Subsystem: "))
        return detail_subsystem(d, t);
    return RIG_OK;
}

/* Reads "Speed 16GT/s" (older: 2.5Gb/s) and "Width x16" wherever they stand. */
static void read_link(struct lspci_text t, struct rig_fact *speed, struct rig_fact *width)
{
    struct lspci_text s = t;
    uint64_t whole, tenths = 0, lanes;
    if (lspci_after(&s, "Speed ") && lspci_number(&s, 10, 1, 3, &whole)) {
        if (lspci_skip(&s, "."))
            lspci_number(&s, 10, 1, 1, &tenths);
        *speed = fact_known(whole * 10 + tenths);
    }
    if (lspci_after(&t, "Width x") && lspci_number(&t, 10, 1, 2, &lanes))
        *width = fact_known(lanes);
}

enum rig_status detail_link_capability(struct detail *d)
{
    if (d->block->capability == LSPCI_EXPRESS)
        read_link(d->rest, &d->f->max_speed, &d->f->max_width);
    return RIG_OK;
}

enum rig_status detail_link_status(struct detail *d)
{
    if (d->block->capability != LSPCI_EXPRESS)
        return RIG_OK;
    read_link(d->rest, &d->f->link_speed, &d->f->link_width);
    if (fact_is(d->f->link_width, 0))
        d->f->link_speed = d->f->link_width = fact_absent();
    return RIG_OK;
}

/* The older `Link: Supported Speed 2.5Gb/s, Width x16, ...` and `Link: Speed 2.5Gb/s, Width x8`. */
enum rig_status detail_link(struct detail *d)
{
    lspci_skip_space(&d->rest);
    return lspci_skip(&d->rest, "Supported ") ? detail_link_capability(d) : detail_link_status(d);
}

static bool read_acs(struct lspci_text t, uint64_t *out)
{
    static const char *const names[] = {"SrcValid",    "TransBlk",   "ReqRedir",   "CmpltRedir",
                                        "UpstreamFwd", "EgressCtrl", "DirectTrans"};
    uint64_t word = 0;
    for (unsigned i = 0; i < RIG_ARRAY_LENGTH(names); i++) {
        bool on;
        if (detail_flag(t, names[i], &on))
            word |= on ? 1u << i : 0;
        else if (RIG_ACS_REDIRECTS & 1u << i)
            return false;
    }
    *out = word;
    return true;
}

static enum rig_status on_acs(struct detail *d, struct rig_fact *fact, const char *what)
{
    uint64_t word;
    d->block->acs_listed = true;
    if (!read_acs(d->rest, &word)) {
        if (fact->know == RIG_FACT_UNKNOWN)
            *fact = fact_unknown("its ACS line is cut short");
        return RIG_OK;
    }
    return detail_set(d, fact, fact_known(word), what);
}

enum rig_status detail_acs_capability(struct detail *d)
{
    return on_acs(d, &d->f->acs_capability, "ACSCap lines");
}

enum rig_status detail_acs_control(struct detail *d)
{
    return on_acs(d, &d->f->acs_control, "ACSCtl lines");
}

/* Reads "256MB" and the like as the exponent that the capability's registers have: 0 is 1 MiB. */
static bool read_rebar_size(struct lspci_text *t, unsigned *out)
{
    static const char *const units[] = {"MB", "GB", "TB", "PB", "EB"};
    uint64_t value;
    lspci_skip_space(t);
    if (!lspci_number(t, 10, 1, 4, &value) || !rig_power_of_two(value))
        return false;
    for (unsigned i = 0; i < RIG_ARRAY_LENGTH(units); i++) {
        if (!lspci_skip(t, units[i]))
            continue;
        *out = (unsigned)__builtin_ctzll(value) + 10 * i;
        return *out <= 43;
    }
    return false;
}

/* `BAR 1: current size: 256MB, supported: 64MB 128MB 256MB`. */
enum rig_status detail_resizable(struct detail *d)
{
    uint64_t index, sizes = 0;
    unsigned now, size;
    struct lspci_text t = d->rest;
    if (d->block->capability != LSPCI_REBAR)
        return RIG_OK;
    if (!lspci_number(&t, 10, 1, 1, &index) || index >= RIG_BAR_COUNT ||
        !lspci_skip(&t, ": current size:"))
        return RIG_OK;
    struct rig_bar *bar = &d->f->bar[index];
    if (read_rebar_size(&t, &now) && bar->size.know != RIG_FACT_KNOWN)
        bar->size = fact_known(UINT64_C(1) << (20 + now));
    if (lspci_after(&t, "supported:"))
        while (read_rebar_size(&t, &size))
            sizes |= UINT64_C(1) << size;
    if (sizes == 0)
        return RIG_OK;
    bar->resizable = fact_known(sizes);
    if (bar->flags.know == RIG_FACT_UNKNOWN && !rig_power_of_two(sizes))
        bar->flags = fact_assumed(RIG_BAR_64BIT | RIG_BAR_PREFETCHABLE,
                                  "its Resizable BAR capability; the BAR's own line is missing");
    return RIG_OK;
}

enum rig_status detail_iov_control(struct detail *d)
{
    bool on;
    if (d->block->capability == LSPCI_SRIOV && detail_flag(d->rest, "Enable", &on))
        d->block->vf_disabled = !on;
    return RIG_OK;
}

enum rig_status detail_iov_count(struct detail *d)
{
    uint64_t count;
    struct lspci_text t = d->rest;
    if (d->block->capability != LSPCI_SRIOV || !lspci_after(&t, "Number of VFs: ") ||
        !lspci_number(&t, 10, 1, 5, &count))
        return RIG_OK;
    return detail_set(d, &d->f->vf_count, fact_known(d->block->vf_disabled ? 0 : count),
                      "numbers of virtual functions");
}

enum rig_status detail_iov_offset(struct detail *d)
{
    uint64_t offset, stride;
    struct lspci_text t = d->rest;
    lspci_skip_space(&t);
    if (d->block->capability != LSPCI_SRIOV || !lspci_number(&t, 10, 1, 5, &offset) ||
        !lspci_skip(&t, ", stride: ") || !lspci_number(&t, 10, 1, 5, &stride))
        return RIG_OK;
    d->f->vf_offset = fact_known(offset);
    d->f->vf_stride = fact_known(stride);
    return RIG_OK;
}
