#include "topology/lspci.h"

#include <string.h>
#include <strings.h>

/* Sub-classes by the names that pci.ids gives them, which are what lspci prints (codes: PCI Code
   and ID Assignment Specification, 1). */
static const struct {
    uint16_t code;
    const char *name;
} classes[] = {
    {0x0000, "Non-VGA unclassified device"},
    {0x0001, "VGA compatible unclassified device"},
    {0x0005, "Image coprocessor"},
    {0x0100, "SCSI storage controller"},
    {0x0101, "IDE interface"},
    {0x0102, "Floppy disk controller"},
    {0x0103, "IPI bus controller"},
    {0x0104, "RAID bus controller"},
    {0x0105, "ATA controller"},
    {0x0106, "SATA controller"},
    {0x0107, "Serial Attached SCSI controller"},
    {0x0108, "Non-Volatile memory controller"},
    {0x0109, "Universal Flash Storage controller"},
    {0x0180, "Mass storage controller"},
    {0x0200, "Ethernet controller"},
    {0x0201, "Token ring network controller"},
    {0x0202, "FDDI network controller"},
    {0x0203, "ATM network controller"},
    {0x0204, "ISDN controller"},
    {0x0207, "Infiniband controller"},
    {0x0208, "Fabric controller"},
    {0x0280, "Network controller"},
    {0x0300, "VGA compatible controller"},
    {0x0301, "XGA compatible controller"},
    {0x0302, "3D controller"},
    {0x0380, "Display controller"},
    {0x0400, "Multimedia video controller"},
    {0x0401, "Multimedia audio controller"},
    {0x0402, "Computer telephony device"},
    {0x0403, "Audio device"},
    {0x0480, "Multimedia controller"},
    {0x0500, "RAM memory"},
    {0x0501, "FLASH memory"},
    {0x0502, "CXL"},
    {0x0580, "Memory controller"},
    {0x0600, "Host bridge"},
    {0x0601, "ISA bridge"},
    {0x0602, "EISA bridge"},
    {0x0603, "MicroChannel bridge"},
    {0x0604, "PCI bridge"},
    {0x0605, "PCMCIA bridge"},
    {0x0606, "NuBus bridge"},
    {0x0607, "CardBus bridge"},
    {0x0608, "RACEway bridge"},
    {0x0609, "Semi-transparent PCI-to-PCI bridge"},
    {0x060a, "InfiniBand to PCI host bridge"},
    {0x0680, "Bridge"},
    {0x0700, "Serial controller"},
    {0x0701, "Parallel controller"},
    {0x0702, "Multiport serial controller"},
    {0x0703, "Modem"},
    {0x0704, "GPIB controller"},
    {0x0780, "Communication controller"},
    {0x0800, "PIC"},
    {0x0801, "DMA controller"},
    {0x0802, "Timer"},
    {0x0803, "RTC"},
    {0x0804, "PCI Hot-plug controller"},
    {0x0805, "SD Host controller"},
    {0x0806, "IOMMU"},
    {0x0880, "System peripheral"},
    {0x0899, "Timing Card"},
    {0x0900, "Keyboard controller"},
    {0x0902, "Mouse controller"},
    {0x0904, "Gameport controller"},
    {0x0980, "Input device controller"},
    {0x0a00, "Generic Docking Station"},
    {0x0a80, "Docking Station"},
    {0x0b20, "Power PC"},
    {0x0b30, "MIPS"},
    {0x0b40, "Co-processor"},
    {0x0c00, "FireWire (IEEE 1394)"},
    {0x0c03, "USB controller"},
    {0x0c04, "Fibre Channel"},
    {0x0c05, "SMBus"},
    {0x0c06, "InfiniBand"},
    {0x0c07, "IPMI Interface"},
    {0x0c09, "CANBUS"},
    {0x0d00, "IRDA controller"},
    {0x0d11, "Bluetooth"},
    {0x0d20, "802.1a controller"},
    {0x0d21, "802.1b controller"},
    {0x0d80, "Wireless controller"},
    {0x0e00, "I2O"},
    {0x1000, "Network and computing encryption device"},
    {0x1010, "Entertainment encryption device"},
    {0x1080, "Encryption controller"},
    {0x1100, "DPIO module"},
    {0x1101, "Performance counters"},
    {0x1110, "Communication synchronizer"},
    {0x1120, "Signal processing management"},
    {0x1180, "Signal processing controller"},
    {0x1200, "Processing accelerators"},
    {0x1300, "Non-Essential Instrumentation"},
    {0x4000, "Coprocessor"},
    {0xff00, "Unassigned class"},
};

bool lspci_function(struct lspci_text *t, struct rig_bdf *out_bdf)
{
    struct lspci_text p = *t;
    uint64_t first, bus, device, function;
    if (!lspci_number(&p, 16, 2, 8, &first) || !lspci_skip(&p, ":"))
        return false;
    size_t digits = t->left - p.left - 1;
    if (!lspci_number(&p, 16, 2, 2, &bus))
        return false;
    if (lspci_skip(&p, ":")) {
        if (digits < 4 || !lspci_number(&p, 16, 2, 2, &device))
            return false;
    } else {
        if (digits != 2)
            return false;
        device = bus;
        bus = first;
        first = 0;
    }
    if (!lspci_skip(&p, ".") || !lspci_number(&p, 16, 1, 1, &function))
        return false;
    if (device > 31 || function > 7 || (p.left && *p.at != ' ' && *p.at != '\t' && *p.at != '/'))
        return false;
    *out_bdf = (struct rig_bdf){(uint32_t)first, (uint8_t)bus, (uint8_t)device, (uint8_t)function};
    *t = p;
    return true;
}

/* An element of a path behind its `/`: `bb:dd.f`, or `dd.f` in which the bus is left out. */
static bool path_element(struct lspci_text *t, struct rig_bdf *out, bool *out_bus)
{
    struct lspci_text p = *t;
    uint64_t first, device, function;
    if (!lspci_number(&p, 16, 2, 2, &first))
        return false;
    *out_bus = lspci_skip(&p, ":");
    device = first;
    if (*out_bus && !lspci_number(&p, 16, 2, 2, &device))
        return false;
    if (!lspci_skip(&p, ".") || !lspci_number(&p, 16, 1, 1, &function) || device > 31 ||
        function > 7)
        return false;
    *out = (struct rig_bdf){0, *out_bus ? (uint8_t)first : 0, (uint8_t)device, (uint8_t)function};
    *t = p;
    return true;
}

/* Takes the place off the front of t; false where none stands there or its path is too long. */
static bool take_place(struct lspci_text *t, struct lspci_place *out)
{
    *out = (struct lspci_place){.length = 1};
    if (!lspci_function(t, &out->path[0]))
        return false;
    while (lspci_skip(t, "/")) {
        bool with_bus;
        if (out->length == RIG_ARRAY_LENGTH(out->path) ||
            !path_element(t, &out->path[out->length], &with_bus))
            return false;
        out->path[out->length++].domain = out->path[0].domain;
        out->without_buses |= !with_bus;
    }
    return t->left == 0 || *t->at == ' ' || *t->at == '\t';
}

bool lspci_is_header(const struct lspci_line *line, bool row_follows)
{
    struct lspci_place place;
    struct lspci_text t = lspci_text_of(line);
    if (!take_place(&t, &place))
        return false;
    lspci_skip_space(&t);
    if (row_follows)
        return true;
    struct lspci_text word = t;
    bool control = lspci_skip(&word, "ACSC"); /* a script's line of a place and its control word */
    return t.left && t.at[0] != ':' && !control && lspci_find(&t, ": ");
}

/* ---- class */

/* Reads "[0604]" at the end of t and takes it off. */
static bool take_bracket(struct lspci_text *t, const char *form, uint64_t *a, uint64_t *b)
{
    size_t length = strlen(form);
    if (t->left < length)
        return false;
    struct lspci_text p = {t->at + t->left - length, length};
    bool pair = length > 6;
    if (!lspci_skip(&p, "[") || !lspci_number(&p, 16, 4, 4, a) ||
        (pair && (!lspci_skip(&p, ":") || !lspci_number(&p, 16, 4, 4, b))) || !lspci_skip(&p, "]"))
        return false;
    t->left -= length;
    while (t->left && t->at[t->left - 1] == ' ')
        t->left--;
    return true;
}

/* Without the interface, which lspci leaves out where it is 0 and in its short lists. */
static struct rig_fact class_of(uint64_t code)
{
    return fact_assumed(code << 8, "its class, printed without the programming interface");
}

static struct rig_fact class_named(struct lspci_text name)
{
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(classes); i++)
        if (strlen(classes[i].name) == name.left &&
            strncasecmp(classes[i].name, name.at, name.left) == 0)
            return class_of(classes[i].code);
    return fact_unknown("the source names its class in words that are not pci.ids's");
}

/* "PCI bridge", "PCI bridge [0604]", "0604", "Class 0604", "Class [0604]". */
static struct rig_fact read_class(struct lspci_text text)
{
    uint64_t code, none;
    struct lspci_text t = text;
    if (take_bracket(&t, "[0604]", &code, &none))
        return class_of(code);
    if (lspci_skip(&t, "Class"))
        lspci_skip_space(&t);
    if (t.left == 4 && lspci_number(&t, 16, 4, 4, &code))
        return class_of(code);
    return class_named(text);
}

/* ---- name */

/* Takes the last " (OPENING ...)" of t off its end and makes *out what it holds. */
static bool take_parenthesis(struct lspci_text *t, const char *opening, uint64_t *out)
{
    struct lspci_text p = *t, last = {NULL, 0};
    size_t n = strlen(opening);
    while (lspci_find(&p, opening)) {
        struct lspci_text q = {p.at + n, p.left - n};
        if (lspci_number(&q, 16, 2, 2, out))
            last = p;
        p = q;
    }
    if (!last.at)
        return false;
    struct lspci_text q = {last.at + n, last.left - n};
    lspci_number(&q, 16, 2, 2, out);
    t->left = (size_t)(last.at - t->at);
    return true;
}

/* A whole name that is numbers: "8086:2030", "Device 8086:2030", "Device" before ids in brackets
   (no pci.ids there). */
static bool numbers_only(struct lspci_text t, struct node *node)
{
    uint64_t vendor, device;
    if (lspci_skip(&t, "Device"))
        lspci_skip_space(&t);
    if (t.left == 0)
        return true;
    if (!lspci_number(&t, 16, 4, 4, &vendor) || !lspci_skip(&t, ":") ||
        !lspci_number(&t, 16, 4, 4, &device) || t.left)
        return false;
    node->f.vendor = fact_known(vendor);
    node->f.device = fact_known(device);
    return true;
}

/* "VENDOR Device 09a2" and the older "VENDOR Unknown device 09a2" tell the device's number. */
static void number_in_name(struct lspci_text name, struct node *node)
{
    uint64_t device;
    struct lspci_text t = name;
    if (name.left < 12 || rig_fact_has(node->f.device))
        return;
    t.at += t.left - 12;
    t.left = 12;
    if ((lspci_skip(&t, " Device ") || lspci_skip(&t, " device ")) &&
        lspci_number(&t, 16, 4, 4, &device))
        node->f.device = fact_known(device);
}

enum rig_status lspci_read_name(struct rig_topology *t, struct lspci_text name, struct node *node,
                                struct rig_error *err)
{
    uint64_t vendor, device;
    lspci_skip_space(&name);
    while (name.left && (name.at[name.left - 1] == ' ' || name.at[name.left - 1] == '\t'))
        name.left--;
    if (take_bracket(&name, "[8086:2030]", &vendor, &device)) {
        node->f.vendor = fact_known(vendor);
        node->f.device = fact_known(device);
    }
    if (numbers_only(name, node))
        return RIG_OK;
    number_in_name(name, node);
    node->f.name = topology_intern(t, name.at, name.left);
    return node->f.name ? RIG_OK : rig_fail_memory(err);
}

enum rig_status lspci_read_header(struct rig_topology *t, const struct lspci_line *line,
                                  struct lspci_place *out_place, struct node *node,
                                  struct rig_error *err)
{
    struct lspci_text rest = lspci_text_of(line), mark;
    take_place(&rest, out_place);
    lspci_skip_space(&rest);
    mark = rest;
    if (!lspci_find(&mark, ": ")) {
        node->f.class_code = read_class(rest);
        return RIG_OK;
    }
    struct lspci_text class_text = {rest.at, (size_t)(mark.at - rest.at)};
    node->f.class_code = read_class(class_text);
    lspci_skip(&mark, ": ");
    uint64_t value;
    if (take_parenthesis(&mark, " (prog-if ", &value) && rig_fact_has(node->f.class_code))
        node->f.class_code = fact_known(node->f.class_code.value | value);
    if (take_parenthesis(&mark, " (rev ", &value))
        node->f.revision = fact_known(value);
    return lspci_read_name(t, mark, node, err);
}
