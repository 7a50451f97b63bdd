/* Facts as JSON: a value, or null with the reason in "unknown"; what is assumed stands in
   "assumed" too. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

/* Where facts are put: the object, and its lists of what is unknown and assumed. */
struct facts {
    struct reply *reply;
    json_t *object, *unknown, *assumed;
};

enum form {
    FORM_COUNT,   /* an integer */
    FORM_WORD,    /* "0x001d" */
    FORM_CLASS,   /* "0x030000" */
    FORM_BYTE,    /* "0x01" */
    FORM_ADDRESS, /* "0x3fe0000000" */
    FORM_SPEED,   /* GT/s: the fact counts 100 MT/s */
    FORM_IOMMU,
    FORM_FLAG,
};

static json_t *number_json(uint64_t value, enum form form)
{
    static const char *const iommu[] = {"none", "identity", "translate"};
    static const int digits[] = {[FORM_WORD] = 4, [FORM_CLASS] = 6, [FORM_BYTE] = 2};
    char text[24];
    switch (form) {
    case FORM_WORD:
    case FORM_CLASS:
    case FORM_BYTE:
        snprintf(text, sizeof text, "0x%0*llx", digits[form], (unsigned long long)value);
        return json_string(text);
    case FORM_ADDRESS:
        snprintf(text, sizeof text, "0x%llx", (unsigned long long)value);
        return json_string(text);
    case FORM_SPEED:
        return value % 10 ? json_real((double)value / 10) : json_integer((json_int_t)(value / 10));
    case FORM_IOMMU:
        return value < 3 ? json_string(iommu[value]) : json_null();
    case FORM_FLAG:
        return json_boolean(value != 0);
    case FORM_COUNT:
        break;
    }
    return json_integer((json_int_t)value);
}

static void note_unknown(struct facts *f, const char *field, const char *from)
{
    json_t *entry = json_object();
    put(f->reply, entry, "field", json_string(field));
    put(f->reply, entry, "why", text_json(from ? from : "the source does not show it"));
    add(f->reply, f->unknown, entry);
}

static void note_assumed(struct facts *f, const char *field, json_t *value, const char *from)
{
    json_t *entry = json_object();
    put(f->reply, entry, "field", json_string(field));
    put(f->reply, entry, "value", json_incref(value));
    put(f->reply, entry, "from", text_json(from));
    add(f->reply, f->assumed, entry);
}

/* Puts the fact into `object` under key; `field` is what the lists call it. */
static void put_fact_in(struct facts *f, json_t *object, const char *key, const char *field,
                        struct rig_fact fact, enum form form)
{
    json_t *value = rig_fact_has(fact) ? number_json(fact.value, form) : json_null();
    if (fact.know == RIG_FACT_UNKNOWN)
        note_unknown(f, field, fact.from);
    if (fact.know == RIG_FACT_ASSUMED)
        note_assumed(f, field, value, fact.from);
    put(f->reply, object, key, value);
}

static void put_fact(struct facts *f, const char *key, struct rig_fact fact, enum form form)
{
    put_fact_in(f, f->object, key, key, fact, form);
}

static void put_text(struct facts *f, const char *key, struct rig_text text)
{
    json_t *value = rig_text_has(text) ? text_json(text.value) : json_null();
    if (text.know == RIG_FACT_UNKNOWN)
        note_unknown(f, key, text.from);
    if (text.know == RIG_FACT_ASSUMED)
        note_assumed(f, key, value, text.from);
    put(f->reply, f->object, key, value);
}

static void put_function(struct facts *f, const char *key, const struct rig_topology *t, int i)
{
    char text[RIG_BDF_MAX];
    put(f->reply, f->object, key,
        i >= 0 ? json_string(rig_bdf_format(rig_topology_function(t, i)->bdf, text)) : json_null());
}

static json_t *bar_json(struct facts *f, int number, const struct rig_bar *bar)
{
    json_t *o = json_object();
    char field[32];
    put(f->reply, o, "bar", json_integer(number));
    uint64_t flags = rig_fact_has(bar->flags) ? bar->flags.value : 0;
    bool known = rig_fact_has(bar->flags);
    put(f->reply, o, "io", known ? json_boolean(flags & RIG_BAR_IO) : json_null());
    put(f->reply, o, "bits", known ? json_integer(flags & RIG_BAR_64BIT ? 64 : 32) : json_null());
    put(f->reply, o, "prefetchable",
        known ? json_boolean(flags & RIG_BAR_PREFETCHABLE) : json_null());
    snprintf(field, sizeof field, "bars.%d.address", number);
    put_fact_in(f, o, "address", field, bar->bus, FORM_ADDRESS);
    snprintf(field, sizeof field, "bars.%d.cpu_address", number);
    put_fact_in(f, o, "cpu_address", field, bar->cpu, FORM_ADDRESS);
    snprintf(field, sizeof field, "bars.%d.bytes", number);
    put_fact_in(f, o, "bytes", field, bar->size, FORM_COUNT);
    json_t *sizes = json_array();
    for (int n = 0; rig_fact_has(bar->resizable) && n < 44; n++)
        if (bar->resizable.value >> n & 1u)
            add(f->reply, sizes, json_integer((json_int_t)1 << (20 + n)));
    put(f->reply, o, "resizable", sizes);
    return o;
}

static void put_bars(struct facts *f, const struct rig_function *function)
{
    json_t *bars = json_array();
    for (int i = 0; i < RIG_BAR_COUNT; i++) {
        const struct rig_bar *bar = &function->bar[i];
        if (rig_fact_has(bar->flags) || rig_fact_has(bar->size) || rig_fact_has(bar->bus))
            add(f->reply, bars, bar_json(f, i, bar));
        else if (bar->flags.know == RIG_FACT_UNKNOWN && i == 0)
            note_unknown(f, "bars", bar->flags.from);
    }
    put(f->reply, f->object, "bars", bars);
}

static const char *type_word(struct rig_fact type)
{
    static const char *const word[] = {[RIG_PCIE_ENDPOINT] = "endpoint",
                                       [RIG_PCIE_LEGACY_ENDPOINT] = "legacy endpoint",
                                       [RIG_PCIE_ROOT_PORT] = "root port",
                                       [RIG_PCIE_UPSTREAM_PORT] = "upstream port",
                                       [RIG_PCIE_DOWNSTREAM_PORT] = "downstream port",
                                       [RIG_PCIE_TO_PCI_BRIDGE] = "PCIe to PCI bridge",
                                       [RIG_PCI_TO_PCIE_BRIDGE] = "PCI to PCIe bridge",
                                       [RIG_PCIE_INTEGRATED_ENDPOINT] = "integrated endpoint",
                                       [RIG_PCIE_EVENT_COLLECTOR] = "event collector"};
    return rig_fact_has(type) && type.value < sizeof word / sizeof word[0] ? word[type.value]
                                                                           : NULL;
}

static void put_type(struct facts *f, const struct rig_function *function)
{
    put(f->reply, f->object, "type", text_json(type_word(function->pcie_type)));
    if (function->pcie_type.know == RIG_FACT_UNKNOWN)
        note_unknown(f, "type", function->pcie_type.from);
}

static void put_identity(struct facts *f, const struct rig_function *function)
{
    put(f->reply, f->object, "alias", text_json(function->alias));
    put(f->reply, f->object, "name", text_json(function->name));
    put_fact(f, "class", function->class_code, FORM_CLASS);
    put(f->reply, f->object, "kind", text_json(class_word(function->class_code)));
    put_fact(f, "vendor", function->vendor, FORM_WORD);
    put_fact(f, "device", function->device, FORM_WORD);
    put_fact(f, "revision", function->revision, FORM_BYTE);
    put_fact(f, "header_type", function->header_type, FORM_COUNT);
    put(f->reply, f->object, "gpu",
        function->gpu_unknown ? json_null() : json_boolean(function->gpu));
    if (function->gpu_unknown)
        note_unknown(f, "gpu", "the source shows no class; --gpu FUNCTION names a GPU");
}

static void put_links(struct facts *f, const struct rig_function *function)
{
    put_type(f, function);
    put_fact(f, "link_speed", function->link_speed, FORM_SPEED);
    put_fact(f, "link_width", function->link_width, FORM_COUNT);
    put_fact(f, "max_speed", function->max_speed, FORM_SPEED);
    put_fact(f, "max_width", function->max_width, FORM_COUNT);
    put_fact(f, "acs_capability", function->acs_capability, FORM_WORD);
    put_fact(f, "acs_control", function->acs_control, FORM_WORD);
}

static void put_bridge(struct facts *f, const struct rig_function *function)
{
    bool bridge = rig_fact_has(function->header_type) && function->header_type.value != 0;
    put(f->reply, f->object, "bridge", json_boolean(bridge));
    if (!bridge)
        return;
    put_fact(f, "primary", function->primary, FORM_BYTE);
    put_fact(f, "secondary", function->secondary, FORM_BYTE);
    put_fact(f, "subordinate", function->subordinate, FORM_BYTE);
}

json_t *function_json(struct reply *reply, const struct rig_topology *t, int i)
{
    const struct rig_function *function = rig_topology_function(t, i);
    struct facts f = {reply, json_object(), json_array(), json_array()};
    put_function(&f, "function", t, i);
    put_identity(&f, function);
    put_links(&f, function);
    put_bridge(&f, function);
    put_function(&f, "parent", t, function->parent);
    if (function->parent_known.know == RIG_FACT_UNKNOWN)
        note_unknown(&f, "parent", function->parent_known.from);
    put_function(&f, "physical", t, function->physical);
    put_bars(&f, function);
    put_fact(&f, "numa_node", function->numa_node, FORM_COUNT);
    put_fact(&f, "iommu_group", function->iommu_group, FORM_COUNT);
    put_text(&f, "iommu_type", function->iommu_type);
    put_fact(&f, "iommu", function->iommu, FORM_IOMMU);
    put_text(&f, "driver", function->driver);
    put_fact(&f, "gpu_memory", function->gpu_memory, FORM_COUNT);
    put(reply, f.object, "memory_bar",
        function->memory_bar >= 0 ? json_integer(function->memory_bar) : json_null());
    put(reply, f.object, "unknown", f.unknown);
    put(reply, f.object, "assumed", f.assumed);
    return f.object;
}

json_t *machine_json(struct reply *reply, const struct rig_topology *t)
{
    const struct rig_machine_facts *m = rig_topology_machine(t);
    struct facts f = {reply, json_object(), json_array(), json_array()};
    put_text(&f, "host", m->host);
    put_text(&f, "cpu_vendor", m->cpu_vendor);
    put_fact(&f, "cpu_family", m->cpu_family, FORM_COUNT);
    put_text(&f, "cpu_name", m->cpu_name);
    put_text(&f, "kernel", m->kernel);
    put_text(&f, "command_line", m->command_line);
    put_fact(&f, "p2pdma", m->p2pdma, FORM_FLAG);
    put(reply, f.object, "unknown", f.unknown);
    put(reply, f.object, "assumed", f.assumed);
    return f.object;
}

/* Base class and sub-class codes: PCI Code and ID Assignment Specification, 1. */
const char *class_word(struct rig_fact class_code)
{
    static const struct {
        uint16_t code;
        uint16_t mask;
        const char *word;
    } row[] = {
        {0x0300, 0xffff, "VGA"},
        {0x0302, 0xffff, "3D"},
        {0x0300, 0xff00, "display"},
        {0x1200, 0xff00, "accelerator"},
        {0x0108, 0xffff, "NVMe"},
        {0x0106, 0xffff, "SATA"},
        {0x0104, 0xffff, "RAID"},
        {0x0107, 0xffff, "SAS"},
        {0x0100, 0xff00, "storage"},
        {0x0200, 0xffff, "ethernet"},
        {0x0207, 0xffff, "infiniband"},
        {0x0200, 0xff00, "network"},
        {0x0403, 0xffff, "audio"},
        {0x0400, 0xff00, "multimedia"},
        {0x0500, 0xff00, "memory"},
        {0x0600, 0xffff, "host bridge"},
        {0x0601, 0xffff, "ISA bridge"},
        {0x0604, 0xffff, "bridge"},
        {0x0600, 0xff00, "bridge"},
        {0x0700, 0xff00, "communication"},
        {0x0806, 0xffff, "IOMMU"},
        {0x0800, 0xff00, "system"},
        {0x0c03, 0xffff, "USB"},
        {0x0c05, 0xffff, "SMBus"},
        {0x0c00, 0xff00, "serial bus"},
        {0x1000, 0xff00, "encryption"},
        {0x0b00, 0xff00, "processor"},
        {0x0d00, 0xff00, "wireless"},
        {0x1100, 0xff00, "signal processing"},
    };
    if (!rig_fact_has(class_code))
        return NULL;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        if ((class_code.value >> 8 & row[i].mask) == row[i].code)
            return row[i].word;
    return "other";
}

int function_steps_up(const struct rig_topology *t, int i, int above)
{
    int steps = 0;
    for (; i >= 0 && i != above; steps++)
        i = rig_topology_function(t, i)->parent;
    return i == above ? steps : -1;
}

const char *function_label(const struct rig_topology *t, int i, char text[RIG_BDF_MAX])
{
    const struct rig_function *function = rig_topology_function(t, i);
    if (function->alias && strlen(function->alias) < RIG_BDF_MAX)
        return strcpy(text, function->alias);
    return rig_bdf_format(function->bdf, text);
}
