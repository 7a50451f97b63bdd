/* AMD GFX9 to GFX12. (Linux: amdgpu_vm.h, gmc_v9_0.c to gmc_v12_0.c; umr: the walk of further
   entries and of block fragments)

   Tables are PDB2, PDB1, PDB0 and PTB of 512 entries. In the further layout the hardware walks one
   directory level less: PDB1 is its last directory, which says by a block fragment of 9 that PDB0's
   entries cover 2 MiB, and PDB0 is a table of PTEs, one of which may point further, at a PTB. */
#include "gpu/format/family.h"

/* Where generations differ. Masks of single bits; 0 where a generation has none. */
struct amd_bits {
    uint8_t last_directory; /* level whose children's entries are read as PTEs */
    uint64_t leaf;          /* P, or IS_PTE: a leaf in a directory */
    bool leaf_everywhere;   /* a PTE needs it too, and without it points further */
    uint64_t further;       /* a PTE that points further */
    uint64_t offset;        /* A, in the last directory */
    uint64_t sparse;        /* PRT */
    uint64_t sparse_with;   /* what goes with PRT */
    uint64_t no_alloc;
    uint8_t type_shift, type_bits;
    uint8_t block_shift; /* of the block fragment in a directory */
    uint8_t own_type;    /* MTYPE of the GPU's own memory when cached */
};

#define BIT(n) (UINT64_C(1) << (n))

enum {
    VALID = 0x1,
    SYSTEM = 0x2,
    SNOOPED = 0x4,
    ENCRYPTED = 0x8,
    EXECUTE = 0x10,
    READ = 0x20,
    WRITE = 0x40,
};

#define LEAF_ADDRESS UINT64_C(0x0000fffffffff000)
#define TABLE_ADDRESS UINT64_C(0x0000ffffffffffc0)
#define FRAGMENT_SHIFT 7
#define FRAGMENT_BITS 0x1fu

static const struct amd_bits gfx9_bits = {
    .last_directory = 2,
    .leaf = BIT(54),
    .further = BIT(56),
    .sparse = BIT(51),
    .type_shift = 57,
    .type_bits = 2,
    .block_shift = 59,
    .own_type = RIG_MTYPE_NC,
};

/* Cached own memory is RW from GC 9.4.1 on. (gmc_v9_0.c, gmc_v9_0_get_coherence_flags) */
static const struct amd_bits gfx9_further_bits = {
    .last_directory = 1,
    .leaf = BIT(54),
    .further = BIT(56),
    .sparse = BIT(51),
    .type_shift = 57,
    .type_bits = 2,
    .block_shift = 59,
    .own_type = RIG_MTYPE_RW,
};

static const struct amd_bits gfx10_bits = {
    .last_directory = 2,
    .leaf = BIT(54),
    .further = BIT(56),
    .sparse = BIT(51),
    .sparse_with = BIT(55) | SNOOPED | SYSTEM,
    .no_alloc = BIT(58),
    .type_shift = 48,
    .type_bits = 3,
    .block_shift = 59,
    .own_type = RIG_MTYPE_NC,
};

static const struct amd_bits gfx11_bits = {
    .last_directory = 2,
    .leaf = BIT(54),
    .further = BIT(56),
    .offset = BIT(57),
    .sparse = BIT(51),
    .sparse_with = BIT(55) | SNOOPED | SYSTEM,
    .no_alloc = BIT(58),
    .type_shift = 48,
    .type_bits = 3,
    .block_shift = 59,
    .own_type = RIG_MTYPE_NC,
};

static const struct amd_bits gfx12_bits = {
    .last_directory = 2,
    .leaf = BIT(63),
    .leaf_everywhere = true,
    .offset = BIT(56),
    .sparse = BIT(56),
    .sparse_with = SNOOPED | SYSTEM,
    .type_shift = 54,
    .type_bits = 2,
    .block_shift = 58,
    .own_type = RIG_MTYPE_NC,
};

/* ---------- writing */

static void amd_leaf(const struct rig_format *f, unsigned level, struct rig_entry *io)
{
    const struct amd_bits *bits = f->bits;
    (void)level;
    if (io->uncached)
        io->type = RIG_MTYPE_UC;
    else
        io->type = io->memory == RIG_MEMORY_OWN ? bits->own_type : RIG_MTYPE_NC;
}

static void amd_directory(const struct rig_format *f, unsigned level, struct rig_entry *io)
{
    const struct amd_bits *bits = f->bits;
    if (level > bits->last_directory)
        io->further = true;
    if (level == bits->last_directory)
        io->block_fragment = (uint8_t)(io->child[0].shift - 12);
}

static uint64_t attributes(const struct rig_entry *e)
{
    uint64_t word = 0;
    word |= e->executable ? EXECUTE : 0;
    word |= e->readable ? READ : 0;
    word |= e->writable ? WRITE : 0;
    return word;
}

static bool encode_leaf(const struct rig_format *f, unsigned level, const struct rig_entry *e,
                        uint64_t *word)
{
    const struct amd_bits *bits = f->bits;
    uint64_t page = BIT(f->level[level].shift);
    if ((e->address & ~LEAF_ADDRESS) != 0 || (e->address & (page - 1)) != 0)
        return false;
    if (e->fragment > FRAGMENT_BITS || e->type >> bits->type_bits != 0 || e->peer != 0 ||
        e->privileged || e->no_atomics || (e->no_alloc && !bits->no_alloc))
        return false;
    *word = e->address | VALID | attributes(e);
    *word |= e->memory == RIG_MEMORY_SYSTEM ? SYSTEM : 0;
    *word |= e->snooped ? SNOOPED : 0;
    *word |= e->encrypted ? ENCRYPTED : 0;
    *word |= e->no_alloc ? bits->no_alloc : 0;
    *word |= (uint64_t)e->fragment << FRAGMENT_SHIFT;
    *word |= (uint64_t)e->type << bits->type_shift;
    if (level <= bits->last_directory || bits->leaf_everywhere)
        *word |= bits->leaf;
    return true;
}

static bool encode_directory(const struct rig_format *f, unsigned level, const struct rig_entry *e,
                             uint64_t *word)
{
    const struct amd_bits *bits = f->bits;
    const struct rig_table *child = &e->child[0];
    bool last = level == bits->last_directory;
    if (e->children != 1 || (child->address & ~TABLE_ADDRESS) != 0 ||
        child->memory == RIG_MEMORY_LINK)
        return false;
    if (e->further != (level > bits->last_directory) || (e->offset && (!last || !bits->offset)))
        return false;
    if (e->block_fragment > 0x1f)
        return false;
    *word = child->address | VALID;
    *word |= child->memory == RIG_MEMORY_SYSTEM ? SYSTEM : 0;
    *word |= e->child_snooped[0] ? SNOOPED : 0;
    *word |= e->further ? bits->further : 0;
    *word |= e->offset ? bits->offset : 0;
    *word |= (uint64_t)e->block_fragment << bits->block_shift;
    return true;
}

static bool amd_encode(const struct rig_format *f, unsigned level, const struct rig_entry *e,
                       uint64_t words[2])
{
    const struct amd_bits *bits = f->bits;
    bool marked = level <= bits->last_directory || bits->leaf_everywhere;
    switch (e->kind) {
    case RIG_ENTRY_LEAF:
        return encode_leaf(f, level, e, words);
    case RIG_ENTRY_DIRECTORY:
        return encode_directory(f, level, e, words);
    case RIG_ENTRY_SPARSE:
        words[0] = bits->sparse | bits->sparse_with | attributes(e) | (marked ? bits->leaf : 0);
        return true;
    case RIG_ENTRY_INVALID:
        words[0] = attributes(e) | (e->leaf_bit ? bits->leaf : 0);
        return true;
    default:
        return false;
    }
}

/* ---------- reading */

static void read_leaf(const struct amd_bits *bits, const struct rig_table *t, uint64_t word,
                      struct rig_entry *out)
{
    out->kind = RIG_ENTRY_LEAF;
    out->memory = word >> 1 & 1 ? RIG_MEMORY_SYSTEM : RIG_MEMORY_OWN;
    out->address = word & 0x0000fffffffff000u;
    out->bytes = UINT64_C(1) << t->shift;
    out->snooped = word >> 2 & 1;
    out->encrypted = word >> 3 & 1;
    out->fragment = word >> 7 & 31;
    out->type = (uint8_t)(word >> bits->type_shift & ((1u << bits->type_bits) - 1));
    out->uncached = out->type == 3;
    out->no_alloc = (word & bits->no_alloc) != 0;
}

/* A directory, or a PTE that points further. Below a plain directory are 512 entries; below the
   last one and a further one their size is what the block fragment says. */
static void read_directory(const struct rig_format *f, const struct rig_table *t, uint64_t word,
                           struct rig_entry *out)
{
    const struct amd_bits *bits = f->bits;
    bool pte = t->level > bits->last_directory;
    bool last = t->level == bits->last_directory;
    unsigned block = word >> bits->block_shift & 31;
    unsigned below = last || pte ? 12 + block : t->shift - 9u;
    if (below > t->shift || (pte && below == t->shift))
        return;
    struct rig_table *child = &out->child[0];
    child->memory = word >> 1 & 1 ? RIG_MEMORY_SYSTEM : RIG_MEMORY_OWN;
    child->address = (word & 0x0000ffffffffffc0u) + (pte ? t->further_base : 0);
    child->level = pte ? (uint8_t)(f->level_count - 1) : (uint8_t)(t->level + 1);
    child->shift = (uint8_t)below;
    child->index_bits = (uint8_t)(t->shift - below);
    out->kind = RIG_ENTRY_DIRECTORY;
    out->children = 1;
    out->child_snooped[0] = word >> 2 & 1;
    out->block_fragment = (uint8_t)block;
    out->further = pte;
    if (last && (word & bits->offset) != 0) {
        out->offset = true;
        child->further_base = child->address;
    }
}

static void amd_decode(const struct rig_format *f, const struct rig_table *t,
                       const uint64_t words[2], struct rig_entry *out)
{
    const struct amd_bits *bits = f->bits;
    uint64_t word = words[0];
    bool pte = t->level > bits->last_directory;
    bool marked = (word & bits->leaf) != 0;
    out->executable = word >> 4 & 1;
    out->readable = word >> 5 & 1;
    out->writable = word >> 6 & 1;
    if ((word & 1) == 0) {
        bool leaf = marked || (pte && !bits->leaf_everywhere);
        if (leaf && (word & bits->sparse) != 0)
            out->kind = RIG_ENTRY_SPARSE;
        else
            out->leaf_bit = marked;
        return;
    }
    bool directory = pte && !bits->leaf_everywhere ? (word & bits->further) != 0 : !marked;
    if (directory)
        read_directory(f, t, word, out);
    else
        read_leaf(bits, t, word, out);
    if (out->kind != RIG_ENTRY_LEAF)
        out->readable = out->writable = out->executable = true;
}

/* ---------- the tables */

#define AMD_LEVELS                                                                                 \
    .level_count = 4, .level = {                                                                   \
                          {"PDB2", -1, 0, 39, 9, 8, true, 4096},                                   \
                          {"PDB1", 0, 0, 30, 9, 8, true, 4096},                                    \
                          {"PDB0", 1, 0, 21, 9, 8, true, 4096},                                    \
                          {"PTB", 2, 0, 12, 9, 8, true, 4096},                                     \
    }

/* Sign extension leaves a hole above 47 bits. Linux keeps the first 64 KiB, and at the top two
   areas of 2 MiB and 8 KiB of trap handler. (amdgpu_vm.h, AMDGPU_VA_RESERVED_*; amdgpu_csa.h) */
#define AMD_COMMON                                                                                 \
    .vendor = "amd", .vendor_id = 0x1002, .va_bits = 48, .own_bits = 48, .link_bits = 48,          \
    .link = RIG_LINK_FLAT, .fragment_max = 31, .system_tables = true,                              \
    .reserved = {{0, 0xffff},                                                                      \
                 {0x0000800000000000, 0xffff7fffffffffff},                                         \
                 {0xffffffffffbfe000, 0xffffffffffffffff}},                                        \
    .space_base = 0x200000000000, .space_bytes = UINT64_C(16) << 40, .leaf = amd_leaf,             \
    .directory = amd_directory, .encode = amd_encode, .decode = amd_decode, AMD_LEVELS

/* DMA masks: 44 bits, 48 from GC 9.4.2 on. (gmc_v9_0.c, gmc_v10_0.c) */
const struct rig_format rig_format_gfx9 = {
    .name = "amd-gfx9",
    .variant = "",
    .system_bits = 44,
    .bits = &gfx9_bits,
    AMD_COMMON,
};

const struct rig_format rig_format_gfx9_further = {
    .name = "amd-gfx9-further",
    .variant = "",
    .system_bits = 48,
    .bits = &gfx9_further_bits,
    AMD_COMMON,
};

const struct rig_format rig_format_gfx9_mi100 = {
    .name = "amd-gfx9-further",
    .variant = "mi100",
    .system_bits = 44,
    .bits = &gfx9_further_bits,
    AMD_COMMON,
};

const struct rig_format rig_format_gfx10 = {
    .name = "amd-gfx10",
    .variant = "",
    .system_bits = 44,
    .bits = &gfx10_bits,
    AMD_COMMON,
};

const struct rig_format rig_format_gfx11 = {
    .name = "amd-gfx11",
    .variant = "",
    .system_bits = 44,
    .bits = &gfx11_bits,
    AMD_COMMON,
};

const struct rig_format rig_format_gfx12 = {
    .name = "amd-gfx12",
    .variant = "",
    .system_bits = 44,
    .bits = &gfx12_bits,
    AMD_COMMON,
};
