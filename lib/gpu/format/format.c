/* The list of formats, how one is chosen, and what all of them share. */
#include "gpu/format/family.h"

#include <string.h>

/* Of several with one name the first is the one chosen by name alone. */
static const struct rig_format *const formats[] = {
    &rig_format_gfx9,  &rig_format_gfx9_further,  &rig_format_gfx9_mi100,
    &rig_format_gfx10, &rig_format_gfx11,         &rig_format_gfx12,
    &rig_format_nv2,   &rig_format_nv2_pascal,    &rig_format_nv2_ampere,
    &rig_format_nv3,   &rig_format_nv3_blackwell, &rig_format_xe,
    &rig_format_xe2,   &rig_format_xe_hpc,        &rig_format_plain,
};

/* Device ids, both ends inside. */
struct id_row {
    uint16_t vendor, first, last;
    const struct rig_format *format;
};

/* (Linux: amdgpu_drv.c, xe_pci.c and the pci.ids names of each family) */
static const struct id_row id_rows[] = {
    {0x1002, 0x6860, 0x686f, &rig_format_gfx9}, /* Vega10 */
    {0x1002, 0x687f, 0x687f, &rig_format_gfx9},
    {0x1002, 0x69a0, 0x69af, &rig_format_gfx9}, /* Vega12 */
    {0x1002, 0x66a0, 0x66af, &rig_format_gfx9}, /* Vega20 */
    {0x1002, 0x15dd, 0x15dd, &rig_format_gfx9}, /* Raven */
    {0x1002, 0x15d8, 0x15d8, &rig_format_gfx9},
    {0x1002, 0x15e7, 0x15e7, &rig_format_gfx9}, /* Renoir */
    {0x1002, 0x1636, 0x1636, &rig_format_gfx9},
    {0x1002, 0x1638, 0x1638, &rig_format_gfx9},
    {0x1002, 0x164c, 0x164c, &rig_format_gfx9},
    {0x1002, 0x7388, 0x7388, &rig_format_gfx9_mi100}, /* MI100 */
    {0x1002, 0x738c, 0x738c, &rig_format_gfx9_mi100},
    {0x1002, 0x738e, 0x738e, &rig_format_gfx9_mi100},
    {0x1002, 0x7390, 0x7390, &rig_format_gfx9_mi100},
    {0x1002, 0x7408, 0x7408, &rig_format_gfx9_further}, /* MI200 */
    {0x1002, 0x740c, 0x740c, &rig_format_gfx9_further},
    {0x1002, 0x740f, 0x7410, &rig_format_gfx9_further},
    {0x1002, 0x74a0, 0x74bf, &rig_format_gfx9_further}, /* MI300 */
    {0x1002, 0x75a0, 0x75bf, &rig_format_gfx9_further}, /* MI350 */
    {0x1002, 0x7310, 0x731f, &rig_format_gfx10},        /* Navi10 */
    {0x1002, 0x7340, 0x734f, &rig_format_gfx10},        /* Navi14 */
    {0x1002, 0x7360, 0x7360, &rig_format_gfx10},        /* Navi12 */
    {0x1002, 0x7362, 0x7362, &rig_format_gfx10},
    {0x1002, 0x73a0, 0x73ff, &rig_format_gfx10}, /* Navi21 to Navi23 */
    {0x1002, 0x7420, 0x743f, &rig_format_gfx10}, /* Navi24 */
    {0x1002, 0x1681, 0x1681, &rig_format_gfx10}, /* Rembrandt */
    {0x1002, 0x164d, 0x164d, &rig_format_gfx10},
    {0x1002, 0x7440, 0x749f, &rig_format_gfx11},      /* Navi31 to Navi33 */
    {0x1002, 0x7550, 0x7551, &rig_format_gfx12},      /* Navi48 */
    {0x1002, 0x7590, 0x7590, &rig_format_gfx12},      /* Navi44 */
    {0x10de, 0x15f0, 0x15ff, &rig_format_nv2_pascal}, /* GP100 */
    {0x10de, 0x1b00, 0x1cff, &rig_format_nv2_pascal},
    {0x10de, 0x1d00, 0x1d7f, &rig_format_nv2_pascal},
    {0x10de, 0x1d80, 0x1dff, &rig_format_nv2_pascal}, /* GV100, its kinds as Pascal's */
    {0x10de, 0x1e00, 0x1fff, &rig_format_nv2},        /* Turing */
    {0x10de, 0x2100, 0x21ff, &rig_format_nv2},
    {0x10de, 0x2080, 0x20ff, &rig_format_nv2_ampere}, /* GA100 */
    {0x10de, 0x2200, 0x22ff, &rig_format_nv2_ampere},
    {0x10de, 0x2300, 0x23ff, &rig_format_nv3}, /* GH100 */
    {0x10de, 0x2400, 0x25ff, &rig_format_nv2_ampere},
    {0x10de, 0x2600, 0x28ff, &rig_format_nv2_ampere}, /* Ada: version 2, though after Hopper */
    {0x10de, 0x2900, 0x29ff, &rig_format_nv3_blackwell},
    {0x10de, 0x2b00, 0x2dff, &rig_format_nv3_blackwell},
    {0x10de, 0x2f00, 0x2fff, &rig_format_nv3_blackwell},
    {0x8086, 0x5690, 0x5697, &rig_format_xe}, /* DG2 */
    {0x8086, 0x56a0, 0x56a6, &rig_format_xe},
    {0x8086, 0x56b0, 0x56b3, &rig_format_xe},
    {0x8086, 0x56ba, 0x56bd, &rig_format_xe},
    {0x8086, 0x56c0, 0x56c2, &rig_format_xe},
    {0x8086, 0x0bd0, 0x0bd0, &rig_format_xe_hpc}, /* Ponte Vecchio */
    {0x8086, 0x0bd5, 0x0bdb, &rig_format_xe_hpc},
    {0x8086, 0xe200, 0xe2ff, &rig_format_xe2}, /* Battlemage */
};

int rig_format_count(void)
{
    return (int)RIG_ARRAY_LENGTH(formats);
}

const struct rig_format *rig_format_at(int i)
{
    return i >= 0 && i < rig_format_count() ? formats[i] : NULL;
}

/* A device id's high byte says little of functions that are no GPU: an NVIDIA card's audio function
   has an id among its GPUs'. */
static bool class_is_gpu(uint32_t class_code)
{
    uint32_t class = class_code >> 8;
    return class_code == 0 || class == 0x0300 || class == 0x0302 || class == 0x0380 ||
           class == 0x1200;
}

const struct rig_format *rig_format_for(uint16_t vendor, uint16_t device, uint32_t class_code)
{
    if (!class_is_gpu(class_code))
        return NULL;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(id_rows); i++)
        if (id_rows[i].vendor == vendor && device >= id_rows[i].first && device <= id_rows[i].last)
            return id_rows[i].format;
    return NULL;
}

const struct rig_format *rig_format_amd(unsigned major, unsigned minor, unsigned revision)
{
    switch (major) {
    case 9:
        if (minor < 4)
            return &rig_format_gfx9;
        if (minor == 4 && revision == 0)
            return &rig_format_gfx9; /* Vega20 */
        return minor == 4 && revision == 1 ? &rig_format_gfx9_mi100 : &rig_format_gfx9_further;
    case 10:
        return &rig_format_gfx10;
    case 11:
        return &rig_format_gfx11;
    case 12:
        return minor == 0 ? &rig_format_gfx12 : NULL; /* 12.1 has five levels */
    default:
        return NULL;
    }
}

const struct rig_format *rig_format_nvidia(unsigned architecture)
{
    switch (architecture) {
    case 0x13:
    case 0x14:
    case 0x15:
        return &rig_format_nv2_pascal;
    case 0x16:
        return &rig_format_nv2;
    case 0x17:
    case 0x19:
        return &rig_format_nv2_ampere;
    case 0x18:
        return &rig_format_nv3;
    case 0x1a:
    case 0x1b:
        return &rig_format_nv3_blackwell;
    default:
        return NULL;
    }
}

const struct rig_format *rig_format_named(const char *name, uint16_t vendor, uint16_t device)
{
    const struct rig_format *own = rig_format_for(vendor, device, 0);
    if (own && strcmp(own->name, name) == 0)
        return own;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(formats); i++)
        if (strcmp(formats[i]->name, name) == 0)
            return formats[i];
    return NULL;
}

bool rig_format_mappable(const struct rig_format *f, uint64_t address, uint64_t bytes)
{
    uint64_t last;
    if (bytes == 0 || !rig_add(address, bytes - 1, &last))
        return false;
    for (int i = 0; i < RIG_VA_RANGES_MAX && f->reserved[i].last != 0; i++)
        if (address <= f->reserved[i].last && last >= f->reserved[i].first)
            return false;
    return true;
}

struct rig_table rig_root(const struct rig_format *f, enum rig_memory_kind memory, uint64_t address)
{
    return (struct rig_table){
        .memory = memory,
        .address = address,
        .level = 0,
        .shift = f->level[0].shift,
        .index_bits = f->level[0].index_bits,
    };
}

uint64_t rig_entry_at(const struct rig_format *f, const struct rig_table *t, uint64_t va)
{
    uint64_t index = (va >> t->shift) & ((UINT64_C(1) << t->index_bits) - 1);
    return t->address + index * f->level[t->level].entry_bytes;
}

void rig_decode(const struct rig_format *f, const struct rig_table *t, const uint64_t words[2],
                struct rig_entry *out)
{
    bool wide = f->level[t->level].entry_bytes == 16;
    *out = (struct rig_entry){
        .kind = RIG_ENTRY_INVALID, .readable = true, .writable = true, .executable = true};
    /* No format has a valid entry of all ones, and that is what a function that left the bus gives.
     */
    if (words[0] == UINT64_MAX || (wide && words[1] == UINT64_MAX)) {
        out->kind = RIG_ENTRY_LOST;
        return;
    }
    f->decode(f, t, words, out);
}

struct rig_entry rig_leaf(const struct rig_format *f, unsigned level, enum rig_memory_kind memory,
                          uint64_t address, unsigned peer, bool uncached, bool snooped)
{
    struct rig_entry e = {
        .kind = RIG_ENTRY_LEAF,
        .memory = memory,
        .address = address,
        .bytes = UINT64_C(1) << f->level[level].shift,
        .peer = (uint8_t)peer,
        .uncached = uncached,
        .snooped = snooped && memory != RIG_MEMORY_OWN,
        .readable = true,
        .writable = true,
        .executable = true,
    };
    f->leaf(f, level, &e);
    return e;
}

struct rig_entry rig_directory(const struct rig_format *f, unsigned level, unsigned child,
                               enum rig_memory_kind memory, uint64_t address)
{
    struct rig_entry e = {
        .kind = RIG_ENTRY_DIRECTORY,
        .children = 1,
        .child[0] = {.memory = memory,
                     .address = address,
                     .level = (uint8_t)child,
                     .shift = f->level[child].shift,
                     .index_bits = f->level[child].index_bits},
    };
    f->directory(f, level, &e);
    return e;
}

bool rig_encode(const struct rig_format *f, unsigned level, const struct rig_entry *e,
                uint64_t words[2])
{
    uint64_t made[2] = {0, 0};
    if (level >= f->level_count || !f->encode(f, level, e, made))
        return false;
    words[0] = made[0];
    words[1] = made[1];
    return true;
}
