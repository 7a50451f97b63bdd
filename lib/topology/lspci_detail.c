#include "topology/lspci_detail.h"

#include <string.h>

static enum rig_status refuse(struct detail *d, const char *why)
{
    size_t column = d->line->column + (size_t)(d->rest.at - d->line->text);
    return rig_fail_at(d->err, d->name, d->line->number, column, "%s", why);
}

enum rig_status detail_set(struct detail *d, struct rig_fact *fact, struct rig_fact value,
                           const char *what)
{
    bool differs = fact->know != value.know || fact->value != value.value;
    if (fact->know == RIG_FACT_KNOWN && differs)
        return rig_fail_at(d->err, d->name, d->line->number, d->line->column,
                           "the function of line %zu has two %s that differ", d->block->line, what);
    *fact = value;
    return RIG_OK;
}

/* ---- command register */

static void command_bit(struct rig_function *f, unsigned bit, bool on)
{
    uint64_t word = rig_fact_has(f->command) ? f->command.value : 0;
    f->command = fact_known(on ? word | bit : word & ~(uint64_t)bit);
    f->command_mask |= (uint16_t)bit;
}

bool detail_flag(struct lspci_text t, const char *name, bool *out_on)
{
    size_t n = strlen(name);
    for (const char *start = t.at; lspci_find(&t, name); t.at++, t.left--) {
        bool word = t.at == start || t.at[-1] == ' ' || t.at[-1] == '\t';
        if (word && t.left > n && (t.at[n] == '+' || t.at[n] == '-')) {
            *out_on = t.at[n] == '+';
            return true;
        }
    }
    return false;
}

static enum rig_status on_control(struct detail *d)
{
    static const struct {
        const char *name;
        unsigned bit;
    } bits[] = {
        {"I/O", 0x1},      {"Mem", 0x2},       {"BusMaster", 0x4}, {"SpecCycle", 0x8},
        {"MemWINV", 0x10}, {"VGASnoop", 0x20}, {"ParErr", 0x40},   {"Stepping", 0x80},
        {"SERR", 0x100},   {"FastB2B", 0x200}, {"DisINTx", 0x400},
    };
    if (d->block->capability != LSPCI_BEFORE_CAPABILITIES)
        return RIG_OK;
    d->block->whole = true;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(bits); i++) {
        bool on;
        if (!detail_flag(d->rest, bits[i].name, &on))
            continue;
        if ((d->f->command_mask & bits[i].bit) && ((d->f->command.value & bits[i].bit) != 0) != on)
            return refuse(d, "the function has two Control lines that differ");
        command_bit(d->f, bits[i].bit, on);
    }
    return RIG_OK;
}

static enum rig_status read_group(struct detail *d, struct lspci_text t)
{
    uint64_t group;
    lspci_skip_space(&t);
    if (!lspci_number(&t, 10, 1, 9, &group))
        return RIG_OK;
    return detail_set(d, &d->f->iommu_group, fact_known(group), "IOMMU groups");
}

static enum rig_status read_node(struct detail *d, struct lspci_text t)
{
    uint64_t node;
    lspci_skip_space(&t);
    if (!lspci_number(&t, 10, 1, 9, &node))
        return RIG_OK;
    return detail_set(d, &d->f->numa_node, fact_known(node), "NUMA nodes");
}

static enum rig_status on_group(struct detail *d)
{
    return read_group(d, d->rest);
}

static enum rig_status on_node(struct detail *d)
{
    return read_node(d, d->rest);
}

/* `Flags: bus master, fast devsel, latency 0, IRQ 122, NUMA node 0, IOMMU group 2` of lspci -v. */
static enum rig_status on_flags(struct detail *d)
{
    if (d->block->capability != LSPCI_BEFORE_CAPABILITIES)
        return RIG_OK; /* the power management capability has flags of its own */
    d->block->whole = true;
    static const struct {
        const char *name;
        unsigned bit;
    } bits[] = {
        {"bus master", 0x4},
        {"VGA palette snoop", 0x20},
        {"stepping", 0x80},
        {"fast Back2Back", 0x200},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(bits); i++) {
        struct lspci_text t = d->rest;
        command_bit(d->f, bits[i].bit, lspci_find(&t, bits[i].name));
    }
    struct lspci_text t = d->rest;
    enum rig_status status = RIG_OK;
    if (lspci_after(&t, "NUMA node "))
        status = read_node(d, t);
    t = d->rest;
    if (status == RIG_OK && lspci_after(&t, "IOMMU group "))
        status = read_group(d, t);
    return status;
}

/* ---- BARs */

static bool has_tag(struct lspci_text t, const char *tag)
{
    return lspci_find(&t, tag);
}

/* Reads "[size=32G]"; a size that is none stays unknown. */
static struct rig_fact read_size(struct lspci_text t)
{
    static const char units[] = "KMGT";
    uint64_t value;
    if (!lspci_after(&t, "[size=") || !lspci_number(&t, 10, 1, 10, &value) || t.left == 0)
        return fact_unknown("the text does not show its size");
    const char *unit = memchr(units, *t.at, sizeof units - 1);
    if (unit)
        value <<= 10 * (unit - units + 1);
    if (!rig_power_of_two(value))
        return fact_unknown("the text shows a size that is no power of two");
    return fact_known(value);
}

static const char same_address[] = "the processor's address, as host bridges that shift nothing "
                                   "have it";

static const char no_address[] = "the kernel has no address for it, whatever its register holds";

static enum rig_status read_address(struct detail *d, struct lspci_text *t, struct rig_bar *bar)
{
    uint64_t address;
    if (lspci_skip(t, "<unassigned>")) {
        bar->bus = bar->cpu = fact_absent();
    } else if (lspci_skip(t, "<ignored>") || lspci_skip(t, "<broken-64-bit-slot>")) {
        bar->bus = fact_unknown(no_address);
        bar->cpu = fact_absent();
    } else if (lspci_number(t, 16, 1, 16, &address)) {
        bar->cpu = address ? fact_known(address) : fact_absent();
        bar->bus = address ? fact_assumed(address, same_address) : fact_unknown(no_address);
    } else {
        d->rest = *t;
        return refuse(d, "a BAR's address was expected here");
    }
    return RIG_OK;
}

/* Older lspci prints `[virtual] ` before the address of a BAR that only the kernel has, the newer
   ` [virtual]` behind its kind. */
static const char virtual_mark[] = "[virtual] ";

static enum rig_status add_bar(struct detail *d, uint64_t index, bool io, bool is_virtual)
{
    if (index >= RIG_BAR_COUNT)
        return refuse(d, "a function has at most six BARs");
    struct lspci_text t = d->rest;
    struct rig_bar bar = {.size = fact_unknown(NULL)};
    enum rig_status status = read_address(d, &t, &bar);
    if (status != RIG_OK)
        return status;
    uint64_t flags = io ? RIG_BAR_IO : 0;
    if (!io && has_tag(t, "64-bit"))
        flags |= RIG_BAR_64BIT;
    if (!io && has_tag(t, "prefetchable") && !has_tag(t, "non-prefetchable"))
        flags |= RIG_BAR_PREFETCHABLE;
    if (is_virtual || has_tag(t, "[virtual]"))
        flags |= RIG_BAR_VIRTUAL;
    bar.flags = fact_known(flags);
    bar.size = read_size(t);
    unsigned decode = io ? 1 : 2;
    if (!(flags & RIG_BAR_VIRTUAL) && !(d->f->command_mask & decode))
        command_bit(d->f, decode, !has_tag(t, "[disabled]"));
    struct rig_bar *old = &d->f->bar[index];
    if (rig_fact_has(old->flags) &&
        (old->flags.value != bar.flags.value || old->cpu.value != bar.cpu.value ||
         old->size.value != bar.size.value))
        return refuse(d, "the function has two BARs of this number that differ");
    *old = bar;
    d->block->next_bar = (int)index + (flags & RIG_BAR_64BIT ? 2 : 1);
    return RIG_OK;
}

static enum rig_status on_region(struct detail *d)
{
    uint64_t index;
    if (d->block->capability != LSPCI_BEFORE_CAPABILITIES)
        return RIG_OK; /* a virtual function's BARs, in the SR-IOV capability */
    if (!lspci_number(&d->rest, 10, 1, 2, &index) || !lspci_skip(&d->rest, ": "))
        return RIG_OK;
    bool is_virtual = lspci_skip(&d->rest, virtual_mark);
    if (lspci_skip(&d->rest, "Memory at "))
        return add_bar(d, index, false, is_virtual);
    if (lspci_skip(&d->rest, "I/O ports at "))
        return add_bar(d, index, true, is_virtual);
    return RIG_OK;
}

/* lspci -v of a dump prints upper halves as BARs of their own: their numbers cannot be told then.
 */
static enum rig_status too_many_bars(struct detail *d)
{
    for (int i = 0; i < RIG_BAR_COUNT; i++)
        d->f->bar[i] = (struct rig_bar){
            .flags =
                fact_unknown("the text shows more BARs than a function has; use: " LSPCI_COMMAND)};
    return RIG_OK;
}

static enum rig_status on_unnumbered(struct detail *d, bool io, bool is_virtual)
{
    if (d->block->capability != LSPCI_BEFORE_CAPABILITIES)
        return RIG_OK;
    d->block->unnumbered = true;
    if (d->block->next_bar >= RIG_BAR_COUNT)
        return too_many_bars(d);
    return add_bar(d, (uint64_t)d->block->next_bar, io, is_virtual);
}

static enum rig_status on_memory(struct detail *d)
{
    return on_unnumbered(d, false, false);
}

static enum rig_status on_ports(struct detail *d)
{
    return on_unnumbered(d, true, false);
}

static enum rig_status on_virtual(struct detail *d)
{
    if (lspci_skip(&d->rest, "Memory at "))
        return on_unnumbered(d, false, true);
    return lspci_skip(&d->rest, "I/O ports at ") ? on_unnumbered(d, true, true) : RIG_OK;
}

/* ---- bridges */

static enum rig_status on_bus(struct detail *d)
{
    struct {
        const char *word;
        struct rig_fact *fact;
    } numbers[] = {{"primary=", &d->f->primary},
                   {"secondary=", &d->f->secondary},
                   {"subordinate=", &d->f->subordinate}};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(numbers); i++) {
        struct lspci_text t = d->rest;
        uint64_t bus;
        if (!lspci_after(&t, numbers[i].word))
            continue;
        if (!lspci_number(&t, 16, 2, 2, &bus)) {
            d->rest = t;
            return refuse(d, "a bus number of two hex digits was expected here");
        }
        enum rig_status status =
            detail_set(d, numbers[i].fact, fact_known(bus), "lines of bus numbers");
        if (status != RIG_OK)
            return status;
        d->block->bus_numbers = true;
    }
    return RIG_OK;
}

static enum rig_status read_window(struct detail *d, struct rig_window *w)
{
    uint64_t base, limit;
    struct lspci_text t = d->rest;
    lspci_skip_space(&t);
    bool range = lspci_number(&t, 16, 1, 16, &base) && lspci_skip(&t, "-") &&
                 lspci_number(&t, 16, 1, 16, &limit);
    if (range && base <= limit && !has_tag(t, "[disabled]")) {
        w->base = fact_known(base);
        w->limit = fact_known(limit);
    } else if (range || has_tag(t, "None") || has_tag(t, "[disabled]")) {
        w->base = w->limit = fact_absent();
    }
    return RIG_OK;
}

static enum rig_status on_io_window(struct detail *d)
{
    return read_window(d, &d->f->io);
}

static enum rig_status on_memory_window(struct detail *d)
{
    return read_window(d, &d->f->memory);
}

static enum rig_status on_prefetchable_window(struct detail *d)
{
    return read_window(d, &d->f->prefetchable);
}

/* ---- the rest */

/* Takes the numbers at the end of a subsystem's name: "[10de:1234]", "10de:1234", "Device 1234". */
enum rig_status detail_subsystem(struct detail *d, struct lspci_text t)
{
    struct node named = {.place = PLACE_BY_BUSES};
    enum rig_status status = lspci_read_name(d->t, t, &named, d->err);
    if (status != RIG_OK)
        return status;
    if (rig_fact_has(named.f.vendor))
        d->f->subsystem_vendor = named.f.vendor;
    if (rig_fact_has(named.f.device))
        d->f->subsystem_device = named.f.device;
    return RIG_OK;
}

static enum rig_status on_subsystem(struct detail *d)
{
    return d->block->capability == LSPCI_BEFORE_CAPABILITIES ? detail_subsystem(d, d->rest)
                                                             : RIG_OK;
}

static enum rig_status on_driver(struct detail *d)
{
    lspci_skip_space(&d->rest);
    if (d->rest.left == 0)
        return RIG_OK;
    const char *kept = topology_intern(d->t, d->rest.at, d->rest.left);
    if (!kept)
        return rig_fail_memory(d->err);
    d->f->driver = (struct rig_text){.value = kept, .know = RIG_FACT_KNOWN};
    return RIG_OK;
}

static enum rig_status on_denied(struct detail *d)
{
    d->block->denied = true;
    return RIG_OK;
}

/* `Status: Cap+ ...` of the header tells whether there is a list of capabilities. */
static enum rig_status on_status(struct detail *d)
{
    bool on;
    if (d->block->capability == LSPCI_BEFORE_CAPABILITIES && detail_flag(d->rest, "Cap", &on)) {
        d->block->has_list = on;
        d->block->no_list = !on;
    }
    return RIG_OK;
}

static enum rig_status on_unknown_header(struct detail *d)
{
    uint64_t type;
    lspci_skip_space(&d->rest);
    d->block->whole = true;
    d->block->all_ones = lspci_number(&d->rest, 16, 2, 2, &type) && type == 0x7f;
    return RIG_OK;
}

static enum rig_status on_nothing(struct detail *d)
{
    (void)d;
    return RIG_OK;
}

static const struct {
    const char *word;
    enum rig_status (*read)(struct detail *);
} kinds[] = {
    {"Control:", on_control},
    {"Flags:", on_flags},
    {"Region ", on_region},
    {"Memory at ", on_memory},
    {"I/O ports at ", on_ports},
    {virtual_mark, on_virtual},
    {"Bus: ", on_bus},
    {"I/O behind bridge:", on_io_window},
    {"Memory behind bridge:", on_memory_window},
    {"Prefetchable memory behind bridge:", on_prefetchable_window},
    {"Capabilities: ", detail_capability},
    {"<access denied to the rest>", on_denied},
    {"LnkCap:", detail_link_capability},
    {"LnkSta:", detail_link_status},
    {"Link: ", detail_link},
    {"ACSCap:", detail_acs_capability},
    {"ACSCtl:", detail_acs_control},
    {"BAR ", detail_resizable},
    {"IOVCtl:", detail_iov_control},
    {"Initial VFs:", detail_iov_count},
    {"VF offset:", detail_iov_offset},
    {"NUMA node:", on_node},
    {"IOMMU group:", on_group},
    {"Subsystem:", on_subsystem},
    {"Kernel driver in use:", on_driver},
    {"!!! Unknown header type", on_unknown_header},
    {"Status:", on_status},
    {"Latency:", on_nothing},
    {"Interrupt:", on_nothing},
    {"Physical Slot:", on_nothing},
    {"DeviceName:", on_nothing},
    {"Device tree node:", on_nothing},
    {"Expansion ROM at ", on_nothing},
    {"Secondary status:", on_nothing},
    {"BridgeCtl:", on_nothing},
    {"Memory window ", on_nothing},
    {"I/O window ", on_nothing},
    {"16-bit legacy ", on_nothing},
    {"BIST ", on_nothing},
    {"Kernel modules:", on_nothing},
    {"!!! ", on_nothing},
};

/* Lines of capabilities have forms without end; most begin with one word and a colon. */
static bool labelled(const struct lspci_line *line)
{
    size_t i = 0;
    while (i < line->length && !strchr(" \t:[]", line->text[i]))
        i++;
    return i > 1 && i < line->length && line->text[i] == ':';
}

static size_t kind_of(const struct lspci_line *line, struct lspci_text *rest)
{
    size_t i = 0;
    *rest = lspci_text_of(line);
    while (i < RIG_ARRAY_LENGTH(kinds) && !lspci_skip(rest, kinds[i].word))
        i++;
    return i;
}

bool lspci_is_detail(const struct lspci_line *line)
{
    struct lspci_text rest;
    return kind_of(line, &rest) < RIG_ARRAY_LENGTH(kinds) || labelled(line);
}

enum rig_status lspci_detail(struct rig_topology *t, const char *name,
                             const struct lspci_line *line, struct lspci_block *block,
                             struct rig_error *err)
{
    struct detail d = {t, name, line, block, &block->node.f, {NULL, 0}, err};
    block->details = true;
    block->at_end = line->length > 7 && memcmp(line->text, "Kernel ", 7) == 0;
    size_t kind = kind_of(line, &d.rest);
    return kind < RIG_ARRAY_LENGTH(kinds) ? kinds[kind].read(&d) : RIG_OK;
}
