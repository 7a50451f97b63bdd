#include "topology/topology.h"

#include <pci/header.h>

#include <string.h>

/* Configuration space as a source holds it: `bytes` of it, at most 4096. Reads beyond it give all
   ones, as hardware does; callers ask holds() first where that matters. */
struct space {
    const uint8_t *at;
    size_t bytes;
};

#define CONVENTIONAL_BYTES 256u
#define HEADER_BYTES 64u

static const char short_standard[] =
    "the source holds only the first bytes of configuration space; lspci -xxxx as root shows all";
static const char short_extended[] =
    "the source does not hold extended configuration space; lspci -xxxx as root shows it";
static const char all_ones[] = "its configuration space reads all ones";
static const char no_sizes[] = "configuration space does not hold the sizes of BARs";
static const char same_address[] = "its bus address, as host bridges that shift nothing have it";
static const char no_address[] = "its register holds no address";
static const char virtual_bars[] = "a virtual function's BARs are placed by its physical function";

static bool holds(struct space s, size_t offset, size_t bytes)
{
    return offset <= s.bytes && bytes <= s.bytes - offset;
}

static uint8_t byte_at(struct space s, size_t offset)
{
    return holds(s, offset, 1) ? s.at[offset] : 0xff;
}

static uint16_t word_at(struct space s, size_t offset)
{
    return (uint16_t)(byte_at(s, offset) | byte_at(s, offset + 1) << 8);
}

static uint32_t long_at(struct space s, size_t offset)
{
    return word_at(s, offset) | (uint32_t)word_at(s, offset + 2) << 16;
}

static void unknown_standard(struct rig_function *f, const char *why)
{
    f->pcie_type = fact_unknown(why);
    f->link_speed = f->link_width = f->max_speed = f->max_width = fact_unknown(why);
}

static void unknown_extended(struct rig_function *f, const char *why)
{
    f->acs_capability = f->acs_control = fact_unknown(why);
    f->pasid_or_ats = fact_unknown(why);
    f->vf_count = f->vf_offset = f->vf_stride = fact_unknown(why);
    for (int i = 0; i < RIG_BAR_COUNT; i++)
        if (rig_fact_has(f->bar[i].flags))
            f->bar[i].resizable = fact_unknown(why);
}

static void absent_extended(struct rig_function *f)
{
    f->acs_capability = f->acs_control = fact_absent();
    f->pasid_or_ats = fact_absent();
    f->vf_count = f->vf_offset = f->vf_stride = fact_absent();
    for (int i = 0; i < RIG_BAR_COUNT; i++)
        if (rig_fact_has(f->bar[i].flags))
            f->bar[i].resizable = fact_absent();
}

static void resizable_unknown_where_absent(struct rig_function *f)
{
    for (int i = 0; i < RIG_BAR_COUNT; i++)
        if (f->bar[i].resizable.know == RIG_FACT_ABSENT)
            f->bar[i].resizable = fact_unknown(short_extended);
}

static void unknown_where_absent(struct rig_function *f)
{
    struct rig_fact *facts[] = {&f->acs_capability, &f->acs_control, &f->pasid_or_ats,
                                &f->vf_count,       &f->vf_offset,   &f->vf_stride};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(facts); i++)
        if (facts[i]->know == RIG_FACT_ABSENT)
            *facts[i] = fact_unknown(short_extended);
    resizable_unknown_where_absent(f);
}

/* A register of zero is that of no BAR: a BAR that was never placed still shows its kind, but for
   the 32-bit one that is not prefetchable, which can hold no GPU's memory. */
static void decode_bars(struct rig_function *f, struct space s, int count)
{
    for (int i = 0; i < RIG_BAR_COUNT; i++)
        f->bar[i].flags = fact_absent();
    for (int i = 0; i < count; i++) {
        size_t offset = PCI_BASE_ADDRESS_0 + 4 * (size_t)i;
        uint32_t low = long_at(s, offset);
        if (low == 0 || low == UINT32_MAX)
            continue;
        struct rig_bar *bar = &f->bar[i];
        uint64_t flags = 0, address;
        if (low & PCI_BASE_ADDRESS_SPACE_IO) {
            flags = RIG_BAR_IO;
            address = low & ~UINT32_C(3);
        } else {
            address = low & ~UINT32_C(15);
            if (low & PCI_BASE_ADDRESS_MEM_PREFETCH)
                flags |= RIG_BAR_PREFETCHABLE;
            if ((low & PCI_BASE_ADDRESS_MEM_TYPE_MASK) == PCI_BASE_ADDRESS_MEM_TYPE_64 &&
                i + 1 < count) {
                flags |= RIG_BAR_64BIT;
                address |= (uint64_t)long_at(s, offset + 4) << 32;
                i++;
            }
        }
        bar->flags = fact_known(flags);
        bar->bus = address ? fact_known(address) : fact_absent();
        bar->cpu = address ? fact_assumed(address, same_address) : fact_unknown(no_address);
        bar->size = fact_unknown(no_sizes);
    }
}

static void set_window(struct rig_window *w, uint64_t base, uint64_t limit)
{
    if (base > limit) {
        w->base = w->limit = fact_absent();
        return;
    }
    w->base = fact_known(base);
    w->limit = fact_known(limit);
}

/* PCI-to-PCI bridge specification 1.2, 3.2.5.6 to 3.2.5.10. */
static void decode_windows(struct rig_function *f, struct space s)
{
    uint64_t base = byte_at(s, PCI_IO_BASE), limit = byte_at(s, PCI_IO_LIMIT);
    bool wide = (base & PCI_IO_RANGE_TYPE_MASK) == PCI_IO_RANGE_TYPE_32;
    base = (base & 0xf0) << 8;
    limit = (limit & 0xf0) << 8 | 0xfff;
    if (wide) {
        base |= (uint64_t)word_at(s, PCI_IO_BASE_UPPER16) << 16;
        limit |= (uint64_t)word_at(s, PCI_IO_LIMIT_UPPER16) << 16;
    }
    set_window(&f->io, base, limit);

    base = (uint64_t)(word_at(s, PCI_MEMORY_BASE) & 0xfff0u) << 16;
    limit = (uint64_t)(word_at(s, PCI_MEMORY_LIMIT) & 0xfff0u) << 16 | 0xfffff;
    set_window(&f->memory, base, limit);

    base = word_at(s, PCI_PREF_MEMORY_BASE);
    limit = word_at(s, PCI_PREF_MEMORY_LIMIT);
    wide = (base & PCI_PREF_RANGE_TYPE_MASK) == PCI_PREF_RANGE_TYPE_64;
    base = (base & 0xfff0) << 16;
    limit = (limit & 0xfff0) << 16 | 0xfffff;
    if (wide) {
        base |= (uint64_t)long_at(s, PCI_PREF_BASE_UPPER32) << 32;
        limit |= (uint64_t)long_at(s, PCI_PREF_LIMIT_UPPER32) << 32;
    }
    set_window(&f->prefetchable, base, limit);
}

static void absent_bridge(struct rig_function *f)
{
    f->primary = f->secondary = f->subordinate = fact_absent();
    f->io.base = f->io.limit = fact_absent();
    f->memory.base = f->memory.limit = fact_absent();
    f->prefetchable.base = f->prefetchable.limit = fact_absent();
}

static void decode_bridge(struct rig_function *f, struct space s)
{
    f->primary = fact_known(byte_at(s, PCI_PRIMARY_BUS));
    f->secondary = fact_known(byte_at(s, PCI_SECONDARY_BUS));
    f->subordinate = fact_known(byte_at(s, PCI_SUBORDINATE_BUS));
}

static void decode_subsystem(struct rig_function *f, struct space s, size_t offset)
{
    if (!holds(s, offset, 4))
        return;
    f->subsystem_vendor = fact_known(word_at(s, offset));
    f->subsystem_device = fact_known(word_at(s, offset + 2));
}

static void decode_header(struct rig_topology *t, struct rig_function *f, struct space s)
{
    switch (f->header_type.value) {
    case PCI_HEADER_TYPE_NORMAL:
        decode_bars(f, s, 6);
        absent_bridge(f);
        decode_subsystem(f, s, PCI_SUBSYSTEM_VENDOR_ID);
        break;
    case PCI_HEADER_TYPE_BRIDGE:
        decode_bars(f, s, 2);
        decode_bridge(f, s);
        decode_windows(f, s);
        break;
    case PCI_HEADER_TYPE_CARDBUS:
        decode_bars(f, s, 1);
        decode_bridge(f, s);
        decode_subsystem(f, s, PCI_CB_SUBSYSTEM_VENDOR_ID);
        break;
    default: {
        char text[RIG_BDF_MAX];
        topology_warn(t, "%s: unknown header type %02x", rig_bdf_format(f->bdf, text),
                      (unsigned)f->header_type.value);
    }
    }
}

/* Speeds of PCIe base specification 7.5.3.6, by code. */
static struct rig_fact link_speed(unsigned code)
{
    static const uint16_t speed[] = {0, 25, 50, 80, 160, 320, 640};
    if (code == 0 || code >= RIG_ARRAY_LENGTH(speed))
        return fact_unknown("the link's speed has a code that is not defined");
    return fact_known(speed[code]);
}

static void decode_link(struct rig_function *f, struct space s, size_t cap)
{
    if (f->pcie_type.value == RIG_PCIE_INTEGRATED_ENDPOINT ||
        f->pcie_type.value == RIG_PCIE_EVENT_COLLECTOR) {
        f->link_speed = f->link_width = f->max_speed = f->max_width = fact_absent();
        return;
    }
    if (!holds(s, cap + PCI_EXP_LNKSTA, 2)) {
        f->link_speed = f->link_width = f->max_speed = f->max_width = fact_unknown(short_standard);
        return;
    }
    uint32_t can = long_at(s, cap + PCI_EXP_LNKCAP), now = word_at(s, cap + PCI_EXP_LNKSTA);
    f->max_speed = link_speed(can & PCI_EXP_LNKCAP_SPEED);
    f->max_width = fact_known((can & PCI_EXP_LNKCAP_WIDTH) >> 4);
    uint32_t width = (now & PCI_EXP_LNKSTA_WIDTH) >> 4;
    if (width == 0) {
        f->link_speed = f->link_width = fact_absent();
        return;
    }
    f->link_speed = link_speed(now & PCI_EXP_LNKSTA_SPEED);
    f->link_width = fact_known(width);
}

/* The pointer to the first capability; 0: there is none. */
static size_t first_capability(const struct rig_function *f, struct space s)
{
    if (!(word_at(s, PCI_STATUS) & PCI_STATUS_CAP_LIST))
        return 0;
    bool cardbus = f->header_type.value == PCI_HEADER_TYPE_CARDBUS;
    return byte_at(s, cardbus ? PCI_CB_CAPABILITY_LIST : PCI_CAPABILITY_LIST) & 0xfcu;
}

/* Walks the capability list and decodes what it finds; true when it was read to its end. */
static bool walk_standard(struct rig_topology *t, struct rig_function *f, struct space s)
{
    uint64_t seen = 0; /* one bit a doubleword */
    char text[RIG_BDF_MAX];
    for (size_t at = first_capability(f, s); at != 0; at = byte_at(s, at + 1) & 0xfcu) {
        if (at < HEADER_BYTES || seen >> (at / 4) & 1) {
            topology_warn(t, "%s: broken capability list at %02zx", rig_bdf_format(f->bdf, text),
                          at);
            return true;
        }
        seen |= UINT64_C(1) << (at / 4);
        if (!holds(s, at, 4))
            return false;
        if (byte_at(s, at) == 0xff)
            return true;
        if (byte_at(s, at) == PCI_CAP_ID_EXP && !rig_fact_has(f->pcie_type)) {
            f->pcie_type =
                fact_known((unsigned)(word_at(s, at + PCI_EXP_FLAGS) & PCI_EXP_FLAGS_TYPE) >> 4);
            decode_link(f, s, at);
        } else if (byte_at(s, at) == PCI_CAP_ID_SSVID) {
            decode_subsystem(f, s, at + 4);
        }
    }
    return true;
}

/* The first of several counts, as for Linux (pci_find_ext_capability). One that the end of the
 * source cuts is there all the same. */
static void decode_acs(struct rig_function *f, struct space s, size_t cap)
{
    if (f->acs_control.know != RIG_FACT_ABSENT)
        return;
    if (!holds(s, cap, 8)) {
        f->acs_capability = f->acs_control = fact_unknown(short_extended);
        return;
    }
    f->acs_capability = fact_known(word_at(s, cap + 4));
    f->acs_control = fact_known(word_at(s, cap + 6));
}

static void decode_sriov(struct rig_function *f, struct space s, size_t cap)
{
    if (!holds(s, cap, 0x18)) {
        f->vf_count = f->vf_offset = f->vf_stride = fact_unknown(short_extended);
        return;
    }
    bool enabled = word_at(s, cap + PCI_IOV_CTRL) & PCI_IOV_CTRL_VFE;
    f->vf_count = fact_known(enabled ? word_at(s, cap + PCI_IOV_NUMVF) : 0u);
    f->vf_offset = fact_known(word_at(s, cap + PCI_IOV_OFFSET));
    f->vf_stride = fact_known(word_at(s, cap + PCI_IOV_STRIDE));
}

/* Resizable BAR, PCIe base specification 7.8.6: up to six pairs of capability and control. The size
   codes count from 1 MiB; the control register's upper half holds the sizes from 256 TiB on. */
static void decode_resizable(struct rig_function *f, struct space s, size_t cap)
{
    unsigned count = long_at(s, cap + 8) >> 5 & 7;
    for (unsigned i = 0; i < count && i < RIG_BAR_COUNT; i++) {
        size_t at = cap + 4 + 8 * (size_t)i;
        if (!holds(s, at, 8)) {
            resizable_unknown_where_absent(f);
            return;
        }
        uint32_t sizes = long_at(s, at), control = long_at(s, at + 4);
        unsigned index = control & 7, code = control >> 8 & 0x3f;
        if (index >= RIG_BAR_COUNT || !rig_fact_has(f->bar[index].flags) || code > 43)
            continue;
        f->bar[index].resizable = fact_known(sizes >> 4 | (uint64_t)(control >> 16) << 28);
        f->bar[index].size = fact_known(UINT64_C(1) << (20 + code));
    }
}

static void decode_extended(struct rig_function *f, struct space s, size_t cap, unsigned id)
{
    switch (id) {
    case PCI_EXT_CAP_ID_ACS:
        decode_acs(f, s, cap);
        break;
    case PCI_EXT_CAP_ID_ATS:
        f->pasid_or_ats = fact_known(1);
        break;
    case PCI_EXT_CAP_ID_SRIOV:
        decode_sriov(f, s, cap);
        break;
    case PCI_EXT_CAP_ID_REBAR:
        decode_resizable(f, s, cap);
        break;
    default:
        break;
    }
}

/* Walks the extended capability list. All facts it may hold were made absent before; what lies
   behind the end of a short space becomes unknown. A function that is not PCI Express has no such
   list, whatever its space shows there: then it is walked for what is odd alone. */
static void walk_extended(struct rig_topology *t, struct rig_function *f, struct space s)
{
    uint8_t seen[4096 / 4 / 8] = {0};
    char text[RIG_BDF_MAX];
    for (size_t at = CONVENTIONAL_BYTES; at != 0;) {
        bool again = seen[at / 32] >> (at / 4 % 8) & 1;
        if (at < CONVENTIONAL_BYTES || again) {
            topology_warn(t, "%s: broken extended capability list at %03zx",
                          rig_bdf_format(f->bdf, text), at);
            return;
        }
        seen[at / 32] |= (uint8_t)(1u << (at / 4 % 8));
        if (!holds(s, at, 4)) {
            topology_warn(t, "%s: the dump ends at %03zx, before its extended capabilities do",
                          rig_bdf_format(f->bdf, text), s.bytes);
            if (rig_fact_has(f->pcie_type))
                unknown_where_absent(f);
            return;
        }
        uint32_t head = long_at(s, at);
        if (head == 0 || head == UINT32_MAX)
            return;
        if (rig_fact_has(f->pcie_type))
            decode_extended(f, s, at, head & 0xffff);
        at = head >> 20 & 0xffcu;
    }
}

static void decode_capabilities(struct rig_topology *t, struct rig_function *f, struct space s)
{
    bool whole = walk_standard(t, f, s);
    if (!whole && !rig_fact_has(f->pcie_type)) {
        unknown_standard(f, short_standard);
        unknown_extended(f, short_standard);
        return;
    }
    if (!rig_fact_has(f->pcie_type)) {
        f->pcie_type = fact_absent();
        f->link_speed = f->link_width = f->max_speed = f->max_width = fact_absent();
    }
    if (f->pcie_type.know == RIG_FACT_ABSENT || s.bytes > CONVENTIONAL_BYTES)
        absent_extended(f);
    else
        unknown_extended(f, short_extended);
    if (s.bytes > CONVENTIONAL_BYTES)
        walk_extended(t, f, s);
}

static bool reads_all_ones(struct space s)
{
    size_t end = s.bytes < HEADER_BYTES ? s.bytes : HEADER_BYTES;
    for (size_t i = 0; i < end; i++)
        if (s.at[i] != 0xff)
            return false;
    return true;
}

void config_decode(struct rig_topology *t, struct node *node, const uint8_t *config, size_t bytes)
{
    struct rig_function *f = &node->f;
    struct space s = {config, bytes};
    if (reads_all_ones(s)) {
        char text[RIG_BDF_MAX];
        topology_warn(t, "%s: %s: it is off the bus or asleep", rig_bdf_format(f->bdf, text),
                      all_ones);
        unknown_standard(f, all_ones);
        unknown_extended(f, all_ones);
        return;
    }
    f->config_bytes = fact_known(bytes);
    f->vendor = fact_known(word_at(s, PCI_VENDOR_ID));
    f->device = fact_known(word_at(s, PCI_DEVICE_ID));
    f->class_code = fact_known(long_at(s, PCI_REVISION_ID) >> 8);
    f->revision = fact_known(byte_at(s, PCI_REVISION_ID));
    f->command = fact_known(word_at(s, PCI_COMMAND));
    f->command_mask = 0xffff;
    f->header_type = fact_known(byte_at(s, PCI_HEADER_TYPE) & 0x7fu);
    decode_header(t, f, s);
    decode_capabilities(t, f, s);
    /* Ids of all ones before a header that is there are a virtual function's, whose BAR registers
       read zero (PCIe base specification, 9.3.4.1). */
    for (int i = 0; f->vendor.value == 0xffff && i < RIG_BAR_COUNT; i++)
        f->bar[i].flags = fact_unknown(virtual_bars);
}
