/* Intel Xe per-process tables. (Linux: xe_gtt_defs.h, xe_pt.c, xe_pat.c, xe_pci.c)

   Bit 0 present, 1 writable, address in place from bit 12; the five bits of the PAT index are
   scattered, bit 2 of it lying at 7 in a page-table entry and at 12 in a large leaf, whose bit 7
   says that it is one. Directories have no bit for the memory their table is in: it is the GPU's
   own on a discrete part. There is no peer aperture: a peer is a bus address. */
#include "gpu/format/family.h"

/* PAT indexes by what they do, as the driver programs the table of each platform. `snooped_set` has
   those that are coherent with the processors' caches, and those that cache nothing. */
struct xe_bits {
    uint8_t cached, uncached, uncached_snooped;
    uint32_t uncached_set, snooped_set; /* by index */
};

/* DG2: 0 write-back, coherent; 1 write-combining; 2 write-through; 3 uncached. */
static const struct xe_bits dg2_bits = {0, 3, 3, 0x8, 0x9};
/* Ponte Vecchio: 0 uncached, 3, 5 and 7 write-back, coherent. */
static const struct xe_bits hpc_bits = {3, 0, 0, 0x1, 0xa9};
/* Xe2: uncached in L3 and L4 are 3 (not coherent) and 5 (coherent); coherent modes 2 and 3 are at
   1, 2, 4, 5, 7, 22, 23, 26, 27, 30 and 31. */
static const struct xe_bits xe2_bits = {2, 3, 5, 0x28, 0xccc000be};

#define XE_BIT(n) (UINT64_C(1) << (n))
#define XE_ADDRESS UINT64_C(0x000ffffffffff000)

static unsigned last_level(const struct rig_format *f)
{
    return f->level_count - 1u;
}

/* ---------- writing */

static void xe_leaf(const struct rig_format *f, unsigned level, struct rig_entry *io)
{
    const struct xe_bits *bits = f->bits;
    (void)level;
    io->no_atomics = true;
    io->type = bits->cached;
    if (io->uncached)
        io->type = io->snooped ? bits->uncached_snooped : bits->uncached;
    io->snooped = io->memory == RIG_MEMORY_SYSTEM && (bits->snooped_set >> io->type & 1);
}

static void xe_directory(const struct rig_format *f, unsigned level, struct rig_entry *io)
{
    const struct xe_bits *bits = f->bits;
    (void)level;
    io->type = bits->cached;
}

static uint64_t pat_bits(unsigned index, bool large)
{
    uint64_t word = 0;
    word |= index & 1 ? XE_BIT(3) : 0;
    word |= index & 2 ? XE_BIT(4) : 0;
    word |= index & 4 ? XE_BIT(large ? 12 : 7) : 0;
    word |= index & 8 ? XE_BIT(62) : 0;
    word |= index & 16 ? XE_BIT(61) : 0;
    return word;
}

static bool encode_leaf(const struct rig_format *f, unsigned level, const struct rig_entry *e,
                        uint64_t *word)
{
    bool large = level != last_level(f);
    uint64_t page = XE_BIT(f->level[level].shift);
    if (!f->level[level].leaf || e->memory == RIG_MEMORY_LINK || e->peer != 0 || e->type > 31)
        return false;
    if ((e->address & ~XE_ADDRESS) != 0 || (e->address & (page - 1)) != 0)
        return false;
    if ((e->fragment != 0 && (large || e->fragment != 4)) || !e->readable || !e->executable ||
        e->privileged || e->encrypted)
        return false;
    *word = e->address | XE_BIT(0) | pat_bits(e->type, large);
    *word |= e->writable ? XE_BIT(1) : 0;
    *word |= e->fragment != 0 ? XE_BIT(8) : 0;
    *word |= large ? XE_BIT(7) : 0;
    *word |= e->no_atomics ? 0 : XE_BIT(10);
    *word |= e->memory == RIG_MEMORY_OWN ? XE_BIT(11) : 0;
    return true;
}

static bool encode_directory(const struct rig_format *f, unsigned level, const struct rig_entry *e,
                             uint64_t *word)
{
    const struct rig_table *child = &e->child[0];
    if (level == last_level(f) || e->children != 1 || child->memory != RIG_MEMORY_OWN ||
        (child->address & ~XE_ADDRESS) != 0 || e->type > 3)
        return false;
    if (e->compact && level + 1 != last_level(f))
        return false;
    *word = child->address | XE_BIT(0) | XE_BIT(1) | pat_bits(e->type, false);
    *word |= e->compact ? XE_BIT(6) : 0;
    return true;
}

/* The null page: present, reads zero, drops writes. */
static bool encode_sparse(const struct rig_format *f, unsigned level, const struct rig_entry *e,
                          uint64_t *word)
{
    bool large = level != last_level(f);
    if (!f->level[level].leaf || e->type > 31)
        return false;
    *word = XE_BIT(0) | XE_BIT(9) | pat_bits(e->type, large) | (large ? XE_BIT(7) : 0);
    *word |= e->writable ? XE_BIT(1) : 0;
    return true;
}

static bool xe_encode(const struct rig_format *f, unsigned level, const struct rig_entry *e,
                      uint64_t words[2])
{
    switch (e->kind) {
    case RIG_ENTRY_LEAF:
        return encode_leaf(f, level, e, words);
    case RIG_ENTRY_DIRECTORY:
        return encode_directory(f, level, e, words);
    case RIG_ENTRY_SPARSE:
        return encode_sparse(f, level, e, words);
    case RIG_ENTRY_INVALID:
        return true;
    default:
        return false;
    }
}

/* ---------- reading */

static void read_leaf(const struct rig_format *f, const struct rig_table *t, uint64_t word,
                      struct rig_entry *out)
{
    const struct xe_bits *bits = f->bits;
    bool large = t->level + 1 < f->level_count;
    unsigned pat = (unsigned)((word >> 3 & 3) | (word >> (large ? 12 : 7) & 1) << 2 |
                              (word >> 62 & 1) << 3 | (word >> 61 & 1) << 4);
    out->type = (uint8_t)pat;
    out->writable = word >> 1 & 1;
    out->kind = word >> 9 & 1 ? RIG_ENTRY_SPARSE : RIG_ENTRY_LEAF;
    if (out->kind == RIG_ENTRY_SPARSE)
        return;
    out->bytes = UINT64_C(1) << t->shift;
    out->address = word & 0x000ffffffffff000u & ~(out->bytes - 1);
    out->memory = word >> 11 & 1 ? RIG_MEMORY_OWN : RIG_MEMORY_SYSTEM;
    out->no_atomics = !(word >> 10 & 1);
    out->fragment = !large && t->shift == 12 && (word >> 8 & 1) ? 4 : 0;
    out->uncached = bits->uncached_set >> pat & 1;
    out->snooped = out->memory == RIG_MEMORY_SYSTEM && (bits->snooped_set >> pat & 1);
}

static void xe_decode(const struct rig_format *f, const struct rig_table *t,
                      const uint64_t words[2], struct rig_entry *out)
{
    uint64_t word = words[0];
    unsigned below = t->level + 1u;
    if ((word & 1) == 0)
        return;
    if (below == f->level_count) {
        read_leaf(f, t, word, out);
        return;
    }
    if (word >> 7 & 1) {
        if (f->level[t->level].leaf)
            read_leaf(f, t, word, out);
        return;
    }
    out->kind = RIG_ENTRY_DIRECTORY;
    out->children = 1;
    out->type = word >> 3 & 3;
    out->compact = below + 1 == f->level_count && (word >> 6 & 1);
    out->child[0] = (struct rig_table){
        .memory = RIG_MEMORY_OWN,
        .address = word & 0x000ffffffffff000u,
        .level = (uint8_t)below,
        .shift = out->compact ? 16 : f->level[below].shift,
        .index_bits = out->compact ? 5 : f->level[below].index_bits,
    };
}

/* ---------- the tables */

#define XE_COMMON                                                                                  \
    .vendor = "intel", .vendor_id = 0x8086, .link = RIG_LINK_NONE, .fragment_max = 4,              \
    .fragment_only = 4, .space_base = 0x400000000000, .space_bytes = UINT64_C(16) << 40,           \
    .leaf = xe_leaf, .directory = xe_directory, .encode = xe_encode, .decode = xe_decode

#define XE_FIVE_LEVELS                                                                             \
    .level_count = 5,                                                                              \
    .level = {                                                                                     \
        {"L4", -1, 0, 48, 9, 8, false, 4096}, {"L3", 0, 0, 39, 9, 8, false, 4096},                 \
        {"L2", 1, 0, 30, 9, 8, true, 4096},   {"L1", 2, 0, 21, 9, 8, true, 4096},                  \
        {"L0", 3, 0, 12, 9, 8, true, 4096},                                                        \
    }

/* Addresses are canonical: bit va_bits - 1 is extended. */
const struct rig_format rig_format_xe = {
    .name = "intel-xe",
    .variant = "",
    .va_bits = 48,
    .own_bits = 46,
    .system_bits = 46,
    .bits = &dg2_bits,
    .level_count = 4,
    .level = {{"L3", -1, 0, 39, 9, 8, false, 4096},
              {"L2", 0, 0, 30, 9, 8, true, 4096},
              {"L1", 1, 0, 21, 9, 8, true, 4096},
              {"L0", 2, 0, 12, 9, 8, true, 4096}},
    .reserved = {{0x0000800000000000, 0xffff7fffffffffff}},
    XE_COMMON,
};

const struct rig_format rig_format_xe2 = {
    .name = "intel-xe",
    .variant = "xe2",
    .va_bits = 48,
    .own_bits = 46,
    .system_bits = 46,
    .bits = &xe2_bits,
    .reserved = {{0x0000800000000000, 0xffff7fffffffffff}},
    XE_FIVE_LEVELS,
    XE_COMMON,
};

const struct rig_format rig_format_xe_hpc = {
    .name = "intel-xe",
    .variant = "hpc",
    .va_bits = 57,
    .own_bits = 52,
    .system_bits = 52,
    .bits = &hpc_bits,
    .reserved = {{0x0100000000000000, 0xfeffffffffffffff}},
    XE_FIVE_LEVELS,
    XE_COMMON,
};
