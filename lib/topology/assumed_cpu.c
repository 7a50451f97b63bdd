#include "topology/topology.h"

#include <stdio.h>
#include <string.h>

#define AMD 0x1022u
#define INTEL 0x8086u
#define HYGON 0x1d94u

/* Root complexes and data fabrics of AMD's processors and the family they are part of; where one
   serves several families, the lowest (pci.ids; Linux: arch/x86/kernel/amd_nb.c,
   drivers/hwmon/k10temp.c). */
static const struct {
    uint16_t device;
    unsigned family;
} amd_parts[] = {
    {0x1100, 15}, {0x1200, 16}, {0x1705, 18}, {0x1510, 20}, {0x1410, 21}, {0x1422, 21},
    {0x1576, 21}, {0x1400, 21}, {0x141a, 21}, {0x1570, 21}, {0x1600, 21}, {0x1536, 22},
    {0x1566, 22}, {0x1450, 23}, {0x1460, 23}, {0x1480, 23}, {0x1440, 23}, {0x1490, 23},
    {0x15d0, 23}, {0x15e8, 23}, {0x1630, 23}, {0x1448, 23}, {0x1645, 23}, {0x1660, 23},
    {0x1650, 25}, {0x166a, 25}, {0x14b5, 25}, {0x1679, 25}, {0x14a4, 25}, {0x14ad, 25},
    {0x14d8, 25}, {0x14e0, 25}, {0x14e8, 25}, {0x14f0, 25}, {0x1507, 26}, {0x153a, 26},
    {0x12c0, 26}, {0x1122, 26}, {0x12b8, 26},
};

/* The same by what their names say, for texts without numbers whose names the database of this
   machine has otherwise. */
static const struct {
    const char *word;
    unsigned family;
} amd_words[] = {
    {"Family 10h Processor", 16},
    {"Family 15h", 21},
    {"Family 16h", 22},
    {"Family 17h", 23},
    {"Family 19h", 25},
    {"Family 1Ah", 26},
    {"Starship/Matisse", 23},
    {"Matisse Data", 23},
    {"Raven/Raven2", 23},
    {"Renoir", 23},
    {"VanGogh", 23},
    {"Milan Data", 25},
    {"Cezanne Data", 25},
    {"Rembrandt Data", 25},
    {"Genoa", 25},
    {"Raphael", 25},
    {"Phoenix Root", 25},
    {"Strix", 26},
    {"Turin", 26},
    {"Krackan", 26},
};

/* Makers of root ports and host bridges that no x86 processor has. */
static const uint16_t not_x86[] = {
    0x13b5, /* Arm */
    0x1def, /* Ampere */
    0x177d, /* Cavium */
    0x1d87, /* Rockchip */
    0x17cb, /* Qualcomm */
    0x1014, /* IBM */
    0x106b, /* Apple: PowerPC; its Intel machines have Intel's */
    0x19e5, /* HiSilicon */
};

/* Makers of emulated devices: there the host bridge says nothing of the CPU. */
static const uint16_t emulators[] = {0x1af4, 0x1b36, 0x1234, 0x15ad, 0x80ee, 0x5853, 0x1ab8};

static bool among(const uint16_t *list, size_t n, struct rig_fact vendor)
{
    for (size_t i = 0; rig_fact_has(vendor) && i < n; i++)
        if (vendor.value == list[i])
            return true;
    return false;
}

unsigned amd_family_named(const char *text, size_t bytes)
{
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(amd_words); i++)
        if (memmem(text, bytes, amd_words[i].word, strlen(amd_words[i].word)))
            return amd_words[i].family;
    return 0;
}

static unsigned amd_family(const struct rig_function *f)
{
    if (!fact_is(f->vendor, AMD))
        return 0;
    for (size_t i = 0; rig_fact_has(f->device) && i < RIG_ARRAY_LENGTH(amd_parts); i++)
        if (f->device.value == amd_parts[i].device)
            return amd_parts[i].family;
    return f->name ? amd_family_named(f->name, strlen(f->name)) : 0;
}

/* True for what sits where a processor's own functions sit. */
static bool at_top(const struct node *n)
{
    const struct rig_function *f = &n->f;
    return n->place == PLACE_ROOT || f->bdf.bus == 0 ||
           (rig_fact_has(f->class_code) && f->class_code.value >> 8 == 0x0600);
}

static bool is_host_bridge(const struct rig_function *f)
{
    if (rig_fact_has(f->class_code))
        return f->class_code.value >> 8 == 0x0600;
    return f->bdf.bus == 0 && f->bdf.device == 0 && f->bdf.function == 0;
}

/* What the functions hint at: indexes of the functions that do, or -1. */
struct hints {
    int amd, intel, other;
    unsigned family;
    bool hidden;     /* a virtual machine, or Hygon, which uses AMD's ids too */
    unsigned fabric; /* functions of 0000:00:18, one bit each */
};

static void hint(struct hints *h, const struct node *n, int i)
{
    const struct rig_function *f = &n->f;
    h->hidden |= fact_is(f->vendor, HYGON) ||
                 among(emulators, RIG_ARRAY_LENGTH(emulators), f->vendor) ||
                 fact_is(f->subsystem_vendor, 0x1af4);
    if (!at_top(n))
        return;
    unsigned family = amd_family(f);
    if (family > h->family) {
        h->family = family;
        h->amd = i;
    }
    if (f->bdf.domain == 0 && f->bdf.bus == 0 && f->bdf.device == 0x18 &&
        (f->vendor.know == RIG_FACT_UNKNOWN || fact_is(f->vendor, AMD)))
        h->fabric |= 1u << f->bdf.function;
    if (h->intel < 0 && fact_is(f->vendor, INTEL) && is_host_bridge(f))
        h->intel = i;
    if (h->other < 0 && among(not_x86, RIG_ARRAY_LENGTH(not_x86), f->vendor))
        h->other = i;
}

static void assume(struct rig_topology *t, const char *vendor, struct rig_fact family, int i)
{
    const struct rig_function *f = &t->node[i].f;
    char bdf[RIG_BDF_MAX], text[256];
    int n = snprintf(text, sizeof text, "%s is %s", rig_bdf_format(f->bdf, bdf),
                     f->name ? f->name : "the processor's");
    if (!f->name)
        n = snprintf(text, sizeof text, "%s is %04x:%04x", bdf, (unsigned)f->vendor.value,
                     (unsigned)f->device.value);
    const char *from = topology_intern(t, text, n < 0 ? 0 : (size_t)n);
    if (!from)
        return;
    family.from = from;
    t->machine.cpu_vendor =
        (struct rig_text){.value = vendor, .from = from, .know = RIG_FACT_ASSUMED};
    if (t->machine.cpu_family.know == RIG_FACT_UNKNOWN)
        t->machine.cpu_family = family;
}

void assume_cpu(struct rig_topology *t)
{
    struct hints h = {.amd = -1, .intel = -1, .other = -1};
    if (t->machine.cpu_vendor.know != RIG_FACT_UNKNOWN)
        return;
    for (int i = 0; i < t->count; i++)
        hint(&h, &t->node[i], i);
    if (h.hidden || (h.amd >= 0 && h.intel >= 0))
        return;
    if (h.amd >= 0) {
        assume(t, "AuthenticAMD", fact_assumed(h.family, NULL), h.amd);
    } else if (h.intel >= 0) {
        assume(t, "GenuineIntel", fact_assumed(6, NULL), h.intel);
    } else if (h.fabric == 0xff) {
        static const char from[] =
            "0000:00:18.0 to .7, which AMD's processors have from family 17h on";
        t->machine.cpu_vendor =
            (struct rig_text){.value = "AuthenticAMD", .from = from, .know = RIG_FACT_ASSUMED};
        t->machine.cpu_family = fact_assumed(23, from);
    } else if (h.other >= 0) {
        assume(t, "not x86", fact_unknown(NULL), h.other);
    }
}
