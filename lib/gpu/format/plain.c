/* The plain format, for teaching and for devices of no known vendor: four levels of 512 eight-byte
   entries. Bit 0 valid, 1 leaf (above the last level), 2 system, 3 snooped, 4 uncached, 5 peer by
   link, 11:6 fragment, 57:12 address, 62:58 peer number. */
#include "gpu/format/family.h"

#define ADDRESS_MASK UINT64_C(0x03fffffffffff000)
#define LAST_LEVEL 3

enum {
    PLAIN_VALID = 0x1,
    PLAIN_LEAF = 0x2,
    PLAIN_SYSTEM = 0x4,
    PLAIN_SNOOPED = 0x8,
    PLAIN_UNCACHED = 0x10,
    PLAIN_LINK = 0x20,
};

static void plain_leaf(const struct rig_format *f, unsigned level, struct rig_entry *io)
{
    (void)f;
    (void)level;
    (void)io;
}

static void plain_directory(const struct rig_format *f, unsigned level, struct rig_entry *io)
{
    (void)f;
    (void)level;
    io->child_snooped[0] = io->child[0].memory == RIG_MEMORY_SYSTEM;
}

static bool encode_leaf(const struct rig_format *f, unsigned level, const struct rig_entry *e,
                        uint64_t *word)
{
    uint64_t page = UINT64_C(1) << f->level[level].shift;
    if ((e->address & ~ADDRESS_MASK) != 0 || (e->address & (page - 1)) != 0)
        return false;
    if (e->fragment > 63 || e->peer > 31 || (e->memory != RIG_MEMORY_LINK && e->peer != 0))
        return false;
    if (e->type != 0 || !e->readable || !e->writable || !e->executable || e->no_atomics ||
        e->privileged || e->encrypted)
        return false;
    *word = e->address | PLAIN_VALID;
    *word |= level < LAST_LEVEL ? PLAIN_LEAF : 0;
    *word |= e->memory == RIG_MEMORY_SYSTEM ? PLAIN_SYSTEM : 0;
    *word |= e->memory == RIG_MEMORY_LINK ? PLAIN_LINK : 0;
    *word |= e->snooped ? PLAIN_SNOOPED : 0;
    *word |= e->uncached ? PLAIN_UNCACHED : 0;
    *word |= (uint64_t)e->fragment << 6;
    *word |= (uint64_t)e->peer << 58;
    return true;
}

static bool encode_directory(unsigned level, const struct rig_entry *e, uint64_t *word)
{
    const struct rig_table *child = &e->child[0];
    if (level >= LAST_LEVEL || e->children != 1 || (child->address & ~ADDRESS_MASK) != 0 ||
        child->memory == RIG_MEMORY_LINK)
        return false;
    *word = child->address | PLAIN_VALID;
    *word |= child->memory == RIG_MEMORY_SYSTEM ? PLAIN_SYSTEM : 0;
    *word |= e->child_snooped[0] ? PLAIN_SNOOPED : 0;
    return true;
}

static bool plain_encode(const struct rig_format *f, unsigned level, const struct rig_entry *e,
                         uint64_t words[2])
{
    switch (e->kind) {
    case RIG_ENTRY_LEAF:
        return encode_leaf(f, level, e, words);
    case RIG_ENTRY_DIRECTORY:
        return encode_directory(level, e, words);
    case RIG_ENTRY_INVALID:
        return true;
    default:
        return false;
    }
}

static void plain_decode(const struct rig_format *f, const struct rig_table *t,
                         const uint64_t words[2], struct rig_entry *out)
{
    uint64_t word = words[0];
    uint64_t address = word & 0x03fffffffffff000u;
    bool system = word >> 2 & 1, link = word >> 5 & 1;
    bool last = t->level + 1 == f->level_count;
    if ((word & 1) == 0 || (system && link))
        return;
    if (last || (word >> 1 & 1)) {
        out->kind = RIG_ENTRY_LEAF;
        out->memory = RIG_MEMORY_OWN;
        if (system || link)
            out->memory = system ? RIG_MEMORY_SYSTEM : RIG_MEMORY_LINK;
        out->address = address;
        out->bytes = UINT64_C(1) << t->shift;
        out->snooped = word >> 3 & 1;
        out->uncached = word >> 4 & 1;
        out->fragment = word >> 6 & 63;
        out->peer = link ? word >> 58 & 31 : 0;
        return;
    }
    if (link)
        return;
    out->kind = RIG_ENTRY_DIRECTORY;
    out->children = 1;
    out->child_snooped[0] = word >> 3 & 1;
    out->child[0] = (struct rig_table){
        .memory = system ? RIG_MEMORY_SYSTEM : RIG_MEMORY_OWN,
        .address = address,
        .level = (uint8_t)(t->level + 1),
        .shift = f->level[t->level + 1].shift,
        .index_bits = f->level[t->level + 1].index_bits,
    };
}

const struct rig_format rig_format_plain = {
    .name = "plain",
    .variant = "",
    .vendor = "plain",
    .va_bits = 48,
    .own_bits = 58,
    .system_bits = 58,
    .link_bits = 58,
    .link = RIG_LINK_NUMBER,
    .link_peers = 32,
    .fragment_max = 36,
    .system_tables = true,
    .level_count = 4,
    .level = {{"L3", -1, 0, 39, 9, 8, true, 4096},
              {"L2", 0, 0, 30, 9, 8, true, 4096},
              {"L1", 1, 0, 21, 9, 8, true, 4096},
              {"L0", 2, 0, 12, 9, 8, true, 4096}},
    .reserved = {{UINT64_C(1) << 48, UINT64_MAX}},
    .space_base = 0x500000000000,
    /* Not 16 TiB: position-independent programs lie from 0x555555554000 on. */
    .space_bytes = UINT64_C(4) << 40,
    .leaf = plain_leaf,
    .directory = plain_directory,
    .encode = plain_encode,
    .decode = plain_decode,
};
