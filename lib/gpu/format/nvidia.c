/* NVIDIA MMU version 2 (Pascal to Ada) and 3 (Hopper, Blackwell). (NVIDIA open-gpu-kernel-modules:
   dev_mmu.h, uvm_pascal_mmu.c to uvm_blackwell_mmu.c; nouveau: vmmgp100.c, vmmgh100.c)

   PDE0's entries are 16 bytes: word 0 points at a table of 64 KiB pages or is a 2 MiB leaf, word 1
   points at a table of 4 KiB pages. A 64 KiB entry that is valid, or invalid in the way that hides,
   decides; otherwise the 4 KiB table does. Apertures are numbered one way in directories (1 is own
   memory) and another in leaves (0 is). Version 2 keeps addresses shifted, address >> 12 from bit 8
   (the 64 KiB table's pointer address >> 8 from bit 4); version 3 keeps them in place. */
#include "gpu/format/family.h"

#define NV_BIT(n) (UINT64_C(1) << (n))

struct nv_bits {
    bool third;   /* version 3 */
    uint8_t kind; /* of ordinary memory */
    uint8_t dual; /* level of PDE0 */
};

static const struct nv_bits pascal_bits = {false, 0, 3};
static const struct nv_bits turing_bits = {false, 6, 3};
static const struct nv_bits hopper_bits = {true, 6, 4};

enum {
    LEAF_OWN,
    LEAF_PEER,
    LEAF_COHERENT,
    LEAF_NONCOHERENT,
};

enum {
    TABLE_NONE,
    TABLE_OWN,
    TABLE_COHERENT,
    TABLE_NONCOHERENT,
};

/* ---------- writing */

static void nv_leaf(const struct rig_format *f, unsigned level, struct rig_entry *io)
{
    const struct nv_bits *bits = f->bits;
    (void)level;
    io->type = bits->kind;
    io->snooped = io->snooped && io->memory == RIG_MEMORY_SYSTEM;
}

/* Tables in own memory are cached and, in version 3, off limits for ATS; those in system memory are
   coherent and not cached. (vmmgp100.c, gp100_vmm_pde; vmmgh100.c, gh100_vmm_pde) */
static void nv_directory(const struct rig_format *f, unsigned level, struct rig_entry *io)
{
    const struct nv_bits *bits = f->bits;
    bool own = io->child[0].memory == RIG_MEMORY_OWN;
    (void)level;
    io->child_uncached[0] = !own;
    io->child_snooped[0] = !own;
    io->no_ats = bits->third && own;
}

static bool encode_leaf_2(const struct rig_entry *e, uint64_t *word)
{
    uint64_t page = e->address >> 12;
    if (e->no_counters)
        return false;
    *word = NV_BIT(0) | (uint64_t)e->type << 56;
    switch (e->memory) {
    case RIG_MEMORY_OWN:
        if (page >> 25 != 0)
            return false;
        *word |= LEAF_OWN << 1 | page << 8;
        break;
    case RIG_MEMORY_LINK:
        if (page >> 43 != 0)
            return false;
        *word |= LEAF_PEER << 1 | (page & 0x1ffffff) << 8 | page >> 25 << 36;
        *word |= (uint64_t)e->peer << 33;
        break;
    default:
        if (page >> 46 != 0)
            return false;
        *word |= (uint64_t)(e->snooped ? LEAF_COHERENT : LEAF_NONCOHERENT) << 1 | page << 8;
        break;
    }
    *word |= e->uncached ? NV_BIT(3) : 0;
    *word |= e->encrypted ? NV_BIT(4) : 0;
    *word |= e->privileged ? NV_BIT(5) : 0;
    *word |= e->writable ? 0 : NV_BIT(6);
    *word |= e->no_atomics ? NV_BIT(7) : 0;
    return true;
}

static bool encode_leaf_3(const struct rig_entry *e, uint64_t *word)
{
    if (e->address >> 52 != 0 || e->type > 15 || e->encrypted)
        return false;
    *word = NV_BIT(0) | e->address | (uint64_t)e->type << 8;
    if (e->memory == RIG_MEMORY_LINK)
        *word |= LEAF_PEER << 1 | (uint64_t)e->peer << 61;
    else if (e->memory == RIG_MEMORY_SYSTEM)
        *word |= (uint64_t)(e->snooped ? LEAF_COHERENT : LEAF_NONCOHERENT) << 1;
    *word |= e->uncached ? NV_BIT(3) : 0;
    *word |= e->privileged ? NV_BIT(4) : 0;
    *word |= e->writable ? 0 : NV_BIT(5);
    *word |= e->no_atomics ? NV_BIT(6) : 0;
    *word |= e->no_counters ? NV_BIT(7) : 0;
    return true;
}

static bool encode_leaf(const struct rig_format *f, unsigned level, const struct rig_entry *e,
                        uint64_t words[2])
{
    const struct nv_bits *bits = f->bits;
    uint64_t page = NV_BIT(f->level[level].shift);
    if (!f->level[level].leaf || (e->address & (page - 1)) != 0 || !e->readable || !e->executable ||
        e->fragment != 0)
        return false;
    if (e->peer > 7 || (e->memory != RIG_MEMORY_LINK && e->peer != 0) ||
        (e->snooped && e->memory != RIG_MEMORY_SYSTEM))
        return false;
    return bits->third ? encode_leaf_3(e, words) : encode_leaf_2(e, words);
}

/* One pointer. `big`: at a table of 64 KiB pages, which is 256 bytes. */
static bool encode_pointer(const struct nv_bits *bits, const struct rig_entry *e, int i, bool big,
                           uint64_t *word)
{
    const struct rig_table *child = &e->child[i];
    bool own = child->memory == RIG_MEMORY_OWN;
    unsigned unit = big ? 8 : 12;
    if (child->memory == RIG_MEMORY_LINK || (child->address & (NV_BIT(unit) - 1)) != 0)
        return false;
    uint64_t aperture = e->child_snooped[i] ? TABLE_COHERENT : TABLE_NONCOHERENT;
    *word |= (own ? TABLE_OWN : aperture) << 1;
    *word |= e->child_uncached[i] ? NV_BIT(3) : 0;
    if (bits->third) {
        *word |= child->address | (e->no_ats ? NV_BIT(4) : 0);
        return child->address >> 52 == 0;
    }
    *word |= child->address >> 4;
    return child->address >> (own ? 37 : 58) == 0;
}

static bool encode_directory(const struct rig_format *f, unsigned level, const struct rig_entry *e,
                             uint64_t words[2])
{
    const struct nv_bits *bits = f->bits;
    bool used[2] = {false, false};
    if (level > bits->dual || e->children < 1 || e->children > (level == bits->dual ? 2 : 1))
        return false;
    for (int i = 0; i < e->children; i++) {
        const struct rig_level *below = &f->level[e->child[i].level];
        if (e->child[i].level >= f->level_count || below->parent != (int)level || used[below->half])
            return false;
        used[below->half] = true;
        if (!encode_pointer(bits, e, i, level == bits->dual && below->half == 0,
                            &words[below->half]))
            return false;
    }
    if (bits->third || !e->no_ats)
        return true;
    if (level == bits->dual && used[0])
        return false;
    words[0] |= NV_BIT(5);
    return true;
}

static bool nv_encode(const struct rig_format *f, unsigned level, const struct rig_entry *e,
                      uint64_t words[2])
{
    const struct nv_bits *bits = f->bits;
    switch (e->kind) {
    case RIG_ENTRY_LEAF:
        return encode_leaf(f, level, e, words);
    case RIG_ENTRY_DIRECTORY:
        return encode_directory(f, level, e, words);
    case RIG_ENTRY_SPARSE:
        words[0] = NV_BIT(3);
        return f->level[level].leaf;
    case RIG_ENTRY_HIDES:
        words[0] = bits->third ? NV_BIT(3) | NV_BIT(4) : NV_BIT(5);
        return level > bits->dual;
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
    const struct nv_bits *bits = f->bits;
    unsigned aperture = word >> 1 & 3;
    out->kind = RIG_ENTRY_LEAF;
    out->bytes = UINT64_C(1) << t->shift;
    out->uncached = word >> 3 & 1;
    out->snooped = aperture == 2;
    out->memory = aperture >= 2 ? RIG_MEMORY_SYSTEM : RIG_MEMORY_OWN;
    if (aperture == 1)
        out->memory = RIG_MEMORY_LINK;
    if (bits->third) {
        out->address = word & 0x000ffffffffff000u;
        out->privileged = word >> 4 & 1;
        out->writable = !(word >> 5 & 1);
        out->no_atomics = word >> 6 & 1;
        out->no_counters = word >> 7 & 1;
        out->type = word >> 8 & 15;
        out->peer = aperture == 1 ? (uint8_t)(word >> 61 & 7) : 0;
        return;
    }
    out->encrypted = word >> 4 & 1;
    out->privileged = word >> 5 & 1;
    out->writable = !(word >> 6 & 1);
    out->no_atomics = word >> 7 & 1;
    out->type = (uint8_t)(word >> 56);
    if (aperture >= 2) {
        out->address = (word >> 8 & 0x3fffffffffff) << 12;
        return;
    }
    out->address = (word >> 8 & 0x1ffffff) << 12;
    if (aperture == 1) {
        out->address |= (word >> 36 & 0x3ffff) << 37;
        out->peer = word >> 33 & 7;
    }
}

/* An entry of a table of pages. */
static void read_page(const struct rig_format *f, const struct rig_table *t, uint64_t word,
                      struct rig_entry *out)
{
    const struct nv_bits *bits = f->bits;
    if (word & 1) {
        read_leaf(f, t, word, out);
        return;
    }
    unsigned how = bits->third ? word >> 3 & 31 : word >> 3 & 5;
    bool hides = bits->third ? how == 3 : how >> 2;
    if (hides)
        out->kind = RIG_ENTRY_HIDES;
    else if (how == 1)
        out->kind = RIG_ENTRY_SPARSE;
}

/* One pointer to a table of level `below`, if its aperture says that there is one. */
static void read_pointer(const struct rig_format *f, uint64_t word, unsigned below, bool big,
                         struct rig_entry *out)
{
    const struct nv_bits *bits = f->bits;
    unsigned aperture = word >> 1 & 3;
    int i = out->children;
    if (aperture == 0)
        return;
    uint64_t address;
    if (bits->third) {
        address = big ? word & 0x000fffffffffff00u : word & 0x000ffffffffff000u;
    } else if (big) {
        address = (aperture == 1 ? word >> 4 & 0x1fffffff : word >> 4 & 0x3ffffffffffff) << 8;
    } else {
        address = (aperture == 1 ? word >> 8 & 0x1ffffff : word >> 8 & 0x3fffffffffff) << 12;
    }
    out->kind = RIG_ENTRY_DIRECTORY;
    out->child[i] = (struct rig_table){
        .memory = aperture == 1 ? RIG_MEMORY_OWN : RIG_MEMORY_SYSTEM,
        .address = address,
        .level = (uint8_t)below,
        .shift = f->level[below].shift,
        .index_bits = f->level[below].index_bits,
    };
    out->child_uncached[i] = word >> 3 & 1;
    out->child_snooped[i] = aperture == 2;
    if (bits->third)
        out->no_ats = word >> 4 & 1;
    out->children++;
}

static void nv_decode(const struct rig_format *f, const struct rig_table *t,
                      const uint64_t words[2], struct rig_entry *out)
{
    const struct nv_bits *bits = f->bits;
    uint64_t word = words[0];
    if (t->level > bits->dual) {
        read_page(f, t, word, out);
        return;
    }
    if (word & 1) {
        if (f->level[t->level].leaf)
            read_leaf(f, t, word, out);
        return;
    }
    read_pointer(f, word, t->level + 1u, t->level == bits->dual, out);
    if (t->level == bits->dual)
        read_pointer(f, words[1], t->level + 2u, false, out);
    /* Bit 5 of PDE0 is an address bit where there is a table of 64 KiB pages. */
    bool big = t->level == bits->dual && (word >> 1 & 3) != 0;
    if (!bits->third && !big)
        out->no_ats = word >> 5 & 1;
    /* Not cached and no aperture is sparse, wherever a leaf might be. */
    bool sparse = bits->third ? (word >> 3 & 7) == 1 : (word >> 3 & 1) == 1;
    if (out->kind == RIG_ENTRY_INVALID && sparse && f->level[t->level].leaf)
        out->kind = RIG_ENTRY_SPARSE;
}

/* ---------- the tables */

#define NV_COMMON                                                                                  \
    .vendor = "nvidia", .vendor_id = 0x10de, .link = RIG_LINK_NUMBER, .link_peers = 8,             \
    .system_tables = true, .space_base = 0x300000000000, .space_bytes = UINT64_C(16) << 40,        \
    .leaf = nv_leaf, .directory = nv_directory, .encode = nv_encode, .decode = nv_decode

/* 512 MiB pages exist from Ampere on. System addresses have 47 bits, own and peers' 37. */
#define NV2(huge)                                                                                  \
    .name = "nv-mmu-v2", .va_bits = 49, .own_bits = 37, .system_bits = 47, .link_bits = 37,        \
    .address_down = 4, .level_count = 6,                                                           \
    .level = {{"PDE3", -1, 0, 47, 2, 8, false, 4096}, {"PDE2", 0, 0, 38, 9, 8, false, 4096},       \
              {"PDE1", 1, 0, 29, 9, 8, huge, 4096},   {"PDE0", 2, 0, 21, 8, 16, true, 4096},       \
              {"PT64K", 3, 0, 16, 5, 8, true, 256},   {"PT4K", 3, 1, 12, 9, 8, true, 4096}},       \
    .reserved = {{0x0001000000000000, 0xfffeffffffffffff}}, NV_COMMON

/* 256 GiB pages exist from Blackwell on, on discrete parts. */
#define NV3(vast)                                                                                  \
    .name = "nv-mmu-v3", .va_bits = 57, .own_bits = 40, .system_bits = 52, .link_bits = 40,        \
    .level_count = 7,                                                                              \
    .level = {{"PDE4", -1, 0, 56, 1, 8, false, 4096}, {"PDE3", 0, 0, 47, 9, 8, false, 4096},       \
              {"PDE2", 1, 0, 38, 9, 8, vast, 4096},   {"PDE1", 2, 0, 29, 9, 8, true, 4096},        \
              {"PDE0", 3, 0, 21, 8, 16, true, 4096},  {"PT64K", 4, 0, 16, 5, 8, true, 256},        \
              {"PT4K", 4, 1, 12, 9, 8, true, 4096}},                                               \
    .reserved = {{0x0100000000000000, 0xfeffffffffffffff}}, NV_COMMON

const struct rig_format rig_format_nv2 = {.variant = "", .bits = &turing_bits, NV2(false)};

const struct rig_format rig_format_nv2_pascal = {
    .variant = "pascal",
    .bits = &pascal_bits,
    NV2(false),
};

const struct rig_format rig_format_nv2_ampere = {
    .variant = "ampere",
    .bits = &turing_bits,
    NV2(true),
};

const struct rig_format rig_format_nv3 = {.variant = "", .bits = &hopper_bits, NV3(false)};

const struct rig_format rig_format_nv3_blackwell = {
    .variant = "blackwell",
    .bits = &hopper_bits,
    NV3(true),
};
