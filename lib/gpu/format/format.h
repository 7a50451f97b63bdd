/* Page-table formats of GPUs: constant tables, pure encoders and decoders. Not public.

   Nothing here reads or writes a device. A writer of page tables uses the tables, rig_leaf,
   rig_encode and rig_fill; a walker uses rig_root, rig_entry_at and rig_decode, which share no
   field code with the encoders, so that one can judge the other.

   Words are numbers as the GPU reads them: in memory each is 8 bytes, little-endian, words[0]
   first. An own-memory address in an entry is in the entry's terms: on AMD the offset into the
   GPU's memory plus the GPU's vram_base_offset (MC_VM_FB_OFFSET << 24, plus the node's place in a
   hive), which the caller adds before encoding and takes off after decoding; elsewhere the offset
   itself. System addresses are bus addresses as the GPU issues them.

   Sources: Linux amdgpu (amdgpu_vm.h, gmc_v9/10/11/12_0.c), nouveau (vmmgp100.c, vmmgh100.c),
   NVIDIA open-gpu-kernel-modules (dev_mmu.h, uvm_*_mmu.c), Intel xe (xe_gtt_defs.h, xe_pat.c), and
   AMD's umr for what its walker does where the drivers are silent. */
#ifndef RIG_GPU_FORMAT_H
#define RIG_GPU_FORMAT_H

#include "base/base.h"

/* What memory an address is in. A peer over PCIe is RIG_MEMORY_SYSTEM at its BAR's bus address. */
enum rig_memory_kind {
    RIG_MEMORY_OWN,    /* the GPU's own memory */
    RIG_MEMORY_SYSTEM, /* a bus address */
    RIG_MEMORY_LINK,   /* another GPU's memory over a direct link */
};

/* How a format names the GPU at the other end of a link. */
enum rig_link_kind {
    RIG_LINK_NONE,   /* it cannot: a peer is a bus address (Intel) */
    RIG_LINK_NUMBER, /* by a peer number in the entry, below link_peers (NVIDIA, plain) */
    RIG_LINK_FLAT, /* all linked GPUs' memories are one physical space: an own-memory address, each
                      GPU's node base added (AMD XGMI). Encoded from RIG_MEMORY_LINK, peer 0; read
                      back as RIG_MEMORY_OWN */
};

/* The most levels a format has; NVIDIA's count both leaf tables under the dual directory. */
#define RIG_LEVELS_MAX 7

/* One level: the tables of one place in the tree. `parent` is the index of the level whose entries
   point at these tables, -1 at the root. A level whose entries are 16 bytes has two child levels:
   word 0 points at the table of the first, word 1 at that of the second (`half`). */
struct rig_level {
    const char *name;     /* "PDB2", "PDE0", "PT64K", ... */
    int8_t parent;        /* index of the level above, -1: root */
    uint8_t half;         /* which word of the parent's entry points here */
    uint8_t shift;        /* an entry covers 2^shift bytes of addresses */
    uint8_t index_bits;   /* a table has 2^index_bits entries */
    uint8_t entry_bytes;  /* 8 or 16 */
    bool leaf;            /* its entries may be leaves of 2^shift bytes */
    uint32_t table_bytes; /* bytes of a table, and its alignment; a root is aligned to 4 KiB and
                             takes that much */
};

/* A range of addresses, both ends inside. */
struct rig_va_range {
    uint64_t first, last;
};

#define RIG_VA_RANGES_MAX 4

struct rig_entry;
struct rig_table;

/* A format, constant. `level` is in order from the root; levels[count - 1] holds the smallest
   pages. Address limits are what a device of the format can issue; fields may be wider. */
struct rig_format {
    const char *name;    /* what people name it by: "amd-gfx9", "nv-mmu-v3", "plain" */
    const char *variant; /* "" or what tells it from others of its name: "pascal" */
    const char *vendor;  /* "amd", "nvidia", "intel", "plain": GPUs of a vendor share a space */
    uint16_t vendor_id;  /* 0 for plain */
    uint8_t va_bits;
    uint8_t own_bits, system_bits, link_bits; /* highest address + 1 is 2^bits, of each memory */
    enum rig_link_kind link;
    uint8_t link_peers;    /* peer numbers are below this; 0 when `link` is not by number */
    uint8_t fragment_max;  /* largest fragment a leaf carries; 0: the format has none */
    uint8_t fragment_only; /* not 0: a leaf of the smallest size carries this one or 0 (Intel's
                              64 KiB hint, 4), larger leaves none */
    uint8_t address_down;  /* address fields hold the address shifted down by this many bits more
                              than they are up: consecutive leaves differ by page >> address_down */
    bool system_tables;    /* directories and roots may lie in system memory */
    uint8_t level_count;
    struct rig_level level[RIG_LEVELS_MAX];
    /* Addresses that must not be mapped: holes, and what drivers keep. Ends with {0, 0}, which is
       no range. */
    struct rig_va_range reserved[RIG_VA_RANGES_MAX];
    uint64_t space_base, space_bytes; /* where the vendor's GPUs' shared space lies by default */
    const void *bits;                 /* the family's own layout */
    /* Family functions behind rig_leaf, rig_directory, rig_encode and rig_decode. */
    void (*leaf)(const struct rig_format *f, unsigned level, struct rig_entry *io);
    void (*directory)(const struct rig_format *f, unsigned level, struct rig_entry *io);
    bool (*encode)(const struct rig_format *f, unsigned level, const struct rig_entry *e,
                   uint64_t words[2]);
    void (*decode)(const struct rig_format *f, const struct rig_table *t, const uint64_t words[2],
                   struct rig_entry *out);
};

/* ---------- which formats there are */

/* rig_format_count and rig_format_at enumerate every format and variant. */
int rig_format_count(void);
const struct rig_format *rig_format_at(int i);

/* rig_format_for is the format of a PCI function by its ids and 24-bit class code, or NULL where
   they do not tell: an unknown GPU, or a class that is none of a GPU (display or accelerator).
   Class code 0 is not looked at: for a function that somebody names as a GPU.
   (GPU-PAGE-TABLES 5.2; NVIDIA by the high byte of the device id, Ada 26xx to 28xx being v2) */
const struct rig_format *rig_format_for(uint16_t vendor, uint16_t device, uint32_t class_code);

/* rig_format_amd is the format of an AMD GPU by the version of its graphics core in the discovery
   table ("9.4.3"), or NULL. */
const struct rig_format *rig_format_amd(unsigned major, unsigned minor, unsigned revision);

/* rig_format_nvidia is the format of an NVIDIA GPU by bits 29:24 of NV_PMC_BOOT_42, or NULL. */
const struct rig_format *rig_format_nvidia(unsigned architecture);

/* rig_format_named is the format called `name`, or NULL. Of its variants it is the one that
   rig_format_for gives for the device where that has this name, else the first. Pass vendor and
   device 0 when there is none. */
const struct rig_format *rig_format_named(const char *name, uint16_t vendor, uint16_t device);

/* rig_format_mappable is true iff `bytes` bytes from `address` lie within the format's addresses
   and touch no reserved range. bytes 0: false. */
bool rig_format_mappable(const struct rig_format *f, uint64_t address, uint64_t bytes);

/* ---------- walking */

/* A table as an entry, or a root register, names it. Whoever walks needs nothing else. */
struct rig_table {
    enum rig_memory_kind memory; /* own or system */
    uint64_t address;            /* of its first byte, in the entry's terms */
    uint64_t further_base;       /* AMD gfx11 and later: what is added to the address of a further
                                    entry of this table; 0 elsewhere */
    uint8_t level;               /* index into the format's levels: how its entries are read */
    uint8_t shift;               /* an entry covers 2^shift bytes */
    uint8_t index_bits;          /* it has 2^index_bits entries; addresses above wrap */
};

enum rig_entry_kind {
    RIG_ENTRY_INVALID,   /* nothing here */
    RIG_ENTRY_SPARSE,    /* nothing here, and reads give zero instead of a fault */
    RIG_ENTRY_HIDES,     /* NVIDIA: nothing here, and the next child is not looked at either */
    RIG_ENTRY_DIRECTORY, /* the children say what is here */
    RIG_ENTRY_LEAF,      /* memory */
    RIG_ENTRY_LOST,      /* all ones: the device is gone; nothing may be believed */
};

/* AMD's memory types. 3 is uncached in every generation. */
enum rig_amd_mtype {
    RIG_MTYPE_NC,
    RIG_MTYPE_RW, /* gfx9; WC from gfx10 on */
    RIG_MTYPE_CC,
    RIG_MTYPE_UC,
};

/* An entry's meaning, for the encoders and from the decoders. Shapes by `kind`:
   - leaf: memory, address, bytes, peer, the attributes, type, fragment. The byte for address va is
     at `address + (va & (bytes - 1))`: added, since a base need not be aligned to `bytes` (AMD).
   - directory: child[0 .. children - 1], children 1 or 2. A walker tries them in order: a leaf or
     RIG_ENTRY_HIDES found in the first decides; where it holds nothing the next is looked at.
     A child whose index_bits is 0 has one entry.
   - sparse, invalid: attributes as far as the entry holds them.
   - Encoders of 16-byte entries write both words: a leaf takes word 0 and clears word 1.
   Attributes a format has no bits for: readable, writable and executable true, the others false.
   Where `type` decides whether memory is cached, encoders follow `type` and decoders work
   `uncached` (AMD, Intel) and `snooped` (Intel) out from it. */
struct rig_entry {
    enum rig_entry_kind kind;
    enum rig_memory_kind memory;
    uint64_t address;
    uint64_t bytes; /* a leaf's span */
    uint8_t peer;   /* RIG_MEMORY_LINK by number */
    uint8_t type;   /* AMD MTYPE, NVIDIA kind, Intel PAT index */
    uint8_t
        fragment;  /* 2^(12 + fragment) bytes around are contiguous; Intel: 4 is the 64 KiB hint */
    bool uncached; /* the GPU bypasses its caches */
    bool snooped;  /* system memory: coherent with the processors' caches. NVIDIA: aperture system
                      coherent. Intel: the PAT entry is coherent or caches nothing */
    bool readable, writable, executable;
    bool no_atomics, privileged, encrypted; /* encrypted: TMZ on AMD */
    bool no_counters;                       /* NVIDIA v3: access counters disabled */
    bool no_alloc; /* AMD gfx10.3 and gfx11: not put into the last-level cache */
    bool no_ats;   /* NVIDIA directories: no address translation by ATS
                      below; for both halves of a dual entry */
    bool leaf_bit; /* invalid AMD entries: the bit that makes an entry a leaf is set all the same */
    bool further;  /* AMD directories: reached as a PTE, by translate further (bit 56, gfx12: no
                      IS_PTE) */
    bool offset;   /* AMD gfx11 and later PDB0: further entries below hold offsets (bit A) */
    bool compact;  /* Intel level 1: the child is a table of 64 KiB entries */
    uint8_t block_fragment; /* AMD directories: BFS, each entry of the child covers 2^(12 + BFS) */
    uint8_t children;
    struct rig_table child[2];
    bool child_uncached[2]; /* NVIDIA: the VOL bit or PCF of each pointer */
    bool child_snooped[2];  /* AMD C; NVIDIA: system coherent */
};

/* rig_root is the root table of a format at `address` of own or system memory. */
struct rig_table rig_root(const struct rig_format *f, enum rig_memory_kind memory,
                          uint64_t address);

/* rig_entry_at is the address of table t's entry for va; entries are rig_format.level[].entry_bytes
   long. */
uint64_t rig_entry_at(const struct rig_format *f, const struct rig_table *t, uint64_t va);

/* rig_decode makes *out what the words of an entry of table t say; words[1] is read only where
   entries are 16 bytes. Every pair of words has a meaning: what is malformed is invalid. Each child
   of a directory has a greater level than t, or the same and a smaller shift, so a walk ends. */
void rig_decode(const struct rig_format *f, const struct rig_table *t, const uint64_t words[2],
                struct rig_entry *out);

/* ---------- writing */

/* rig_leaf is the leaf that drivers write for memory at `address` in a table of level `level`:
   readable, writable, executable, of the memory type that is cached or, with `uncached`, bypasses
   the GPU's caches; system memory is snooped if `snooped`. */
struct rig_entry rig_leaf(const struct rig_format *f, unsigned level, enum rig_memory_kind memory,
                          uint64_t address, unsigned peer, bool uncached, bool snooped);

/* rig_directory is the entry of a table of level `level` that points at a child table at `address`
   of own or system memory: of level `child`, whose parent `level` is. In a 16-byte entry the other
   half is empty. */
struct rig_entry rig_directory(const struct rig_format *f, unsigned level, unsigned child,
                               enum rig_memory_kind memory, uint64_t address);

/* rig_encode makes words[] the entry e of a table of level `level`; words[1] is 0 where entries are
   8 bytes. False, leaving words as they were, where the format cannot say it: an address that does
   not fit its field or is not aligned to the page or table, a leaf at a level that has none, a
   memory or peer number the format lacks, a fragment too large, a type out of range. */
bool rig_encode(const struct rig_format *f, unsigned level, const struct rig_entry *e,
                uint64_t words[2]);

/* rig_fill writes a run of `count` leaves of level `level` to out, as they lie in the GPU's memory:
   entry k is the leaf whose words are {word, 0}, k pages further on. The caller has made sure that
   the last one's address fits. Nothing of out is read. With `stream` the stores go past the caches:
   faster where far more is written than the caches hold, slower where less is, and in order with
   later stores from rig_fill_drain on alone. */
void rig_fill(const struct rig_format *f, unsigned level, uint64_t word, uint64_t count,
              bool stream, uint64_t *out);

/* rig_fill_zeros writes `words` words of 0, as rig_fill writes: for the few KiB of a table faster
   than memset, which begins slowly. */
void rig_fill_zeros(uint64_t words, bool stream, uint64_t *out);

/* rig_fill_drain makes all stores so far reach memory before any later one, in windows that combine
   writes too: those leave the processor's buffers in no order of their own. */
static inline void rig_fill_drain(void)
{
#if defined(__x86_64__)
    __asm__ volatile("sfence" ::: "memory");
#elif defined(__aarch64__)
    __asm__ volatile("dsb st" ::: "memory");
#else
    __sync_synchronize();
#endif
}

#endif
