/* The page tables of one GPU: what is mapped where, written in the GPU's format into its own
   memory.

   Entries are written through operations that the caller gives, and never read back: a copy in the
   process's memory (the shadow) says what each table holds. Every table lies in the GPU's own
   memory, in pages that the caller gives and takes back.

   What always holds:
   - No address maps twice: mapping one that is mapped is misuse, and changes nothing.
   - A table is complete in memory before an entry points at it, and goes back to the caller only
     after the entry that pointed at it is cleared and a flush after that is confirmed. Where it is
     not, the table is kept, usable by later mappings, until the page table is dropped.
   - A range is mapped by the largest pages that both addresses and the run of memory allow, and
     leaves carry the largest fragments that the format has and all three allow.
   - Where an operation fails in the middle (RIG_FAILED), what was written or may have been stays in
     the shadow, marked uncertain: rig_page_table_find says so, and unmapping clears it. Tables that
     were taken stay the page table's. Nothing needs to be undone for a give-back: dropping the page
     table frees the process's memory alone, and all of the GPU's goes back with its pools.

   One caller at a time uses a page table. Not public. */
#ifndef RIG_GPU_PAGE_TABLE_H
#define RIG_GPU_PAGE_TABLE_H

#include "base/ranges.h"
#include "gpu/format/format.h"

struct rig_page_table;

/* Pages of tables are taken and given back in this size, and aligned to it. */
#define RIG_TABLE_PAGE 4096

/* What a page table asks of its GPU. `gpu` is the caller's. Offsets are into the GPU's own memory,
   from its first byte. */
struct rig_page_table_ops {
    /* makes *out_offset a page of RIG_TABLE_PAGE bytes of the GPU's memory, for tables, whatever it
       holds. RIG_NO_ROOM: none is free. RIG_FAILED: the outside broke; what was taken, if anything,
       is the caller's. */
    enum rig_status (*take)(void *gpu, uint64_t *out_offset, struct rig_error *err);
    /* gives a page back. */
    void (*give)(void *gpu, uint64_t offset);
    /* writes `bytes` bytes, a multiple of 8, at `offset`, a multiple of 8, within one page of a
       table. RIG_FAILED: it may have been written in part. Not called for pages that have a place.
     */
    enum rig_status (*write)(void *gpu, uint64_t offset, const void *words, uint64_t bytes,
                             struct rig_error *err);
    /* is where the process itself stores into the page at `offset`, or NULL: then `write` is used.
       Words are stored there whole, and nothing is read; a store never fails. The member may be
       NULL. */
    void *(*place)(void *gpu, uint64_t offset);
    /* asks the GPU to forget every translation, after all writes so far have reached its memory,
       and makes *out_confirmed whether the GPU says that it did. RIG_FAILED: the outside broke. */
    enum rig_status (*flush)(void *gpu, bool *out_confirmed, struct rig_error *err);
};

/* What memory a mapping is of, and how the GPU is to reach it. */
struct rig_target {
    enum rig_memory_kind memory; /* addresses are offsets into own memory, bus addresses, or the
                                    linked GPU's addresses as rig_format.link says */
    uint8_t peer;                /* of RIG_MEMORY_LINK by number; else 0 */
    bool uncached;               /* bypassing the GPU's caches */
    bool snooped;                /* system memory: coherent with the processors' caches */
};

/* rig_page_table_new makes *out_table an empty page table of format f, its root taken and cleared.
   `own_base` is what the format's entries add to an offset into own memory (AMD's vram_base_offset;
   0 elsewhere), a multiple of 4 KiB. ops and gpu outlive it.

   RIG_NO_ROOM   there is no page for the root; nothing was taken
   RIG_FAILED    an operation failed, or the process's memory ran out; a page may be taken */
enum rig_status rig_page_table_new(const struct rig_format *f, uint64_t own_base,
                                   const struct rig_page_table_ops *ops, void *gpu,
                                   struct rig_page_table **out_table, struct rig_error *err);

/* rig_page_table_drop frees the process's memory of t and touches nothing of the GPU. NULL is
   allowed. */
void rig_page_table_drop(struct rig_page_table *t);

/* rig_page_table_root is the root as the GPU's registers and a walker name it. */
struct rig_table rig_page_table_root(const struct rig_page_table *t);

/* rig_page_table_format is the format t was made of. */
const struct rig_format *rig_page_table_format(const struct rig_page_table *t);

/* rig_page_table_fits is RIG_OK iff entries of format f, of a GPU with that own_base, hold the
   addresses of the ranges in the target's memory: what rig_page_table_map refuses, known
   beforehand.

   RIG_INVALID   an address or size is no multiple of 4 KiB, a size is 0, no range is given, or
                 address + bytes is above 2^64
   RIG_REFUSED   the format's entries cannot name such memory or such a peer, or hold fewer address
                 bits; err says which and how many */
enum rig_status rig_page_table_fits(const struct rig_format *f, uint64_t own_base,
                                    struct rig_target target, const struct rig_range *ranges,
                                    size_t count, struct rig_error *err);

/* rig_page_table_map maps the ranges, in order and without gaps, at `address`: takes every table
   that is missing, then writes the tables and entries, each before what points at it, then asks for
   a flush. Whether the flush is confirmed does not matter to it.

   RIG_INVALID   as rig_page_table_fits; or address is no multiple of 4 KiB; or the addresses are
   not the format's to map (rig_format_mappable); or some of them are mapped. Nothing changed
   RIG_REFUSED   as rig_page_table_fits; nothing changed
   RIG_NO_ROOM   there is no page for a table. What was taken is given back; nothing was written
   RIG_FAILED    an operation failed or the process's memory ran out: see above. Once the writes
                 began, some of it may be mapped */
enum rig_status rig_page_table_map(struct rig_page_table *t, uint64_t address,
                                   struct rig_target target, const struct rig_range *ranges,
                                   size_t count, struct rig_error *err);

/* rig_page_table_unmap clears whatever is mapped, for certain or not, in [address, address +
   bytes), flushes, and where the flush is confirmed gives back the tables that have become empty.
   *out_confirmed is whether it was: if not, what was mapped may still be reached.

   RIG_INVALID   address or bytes is no multiple of 4 KiB, bytes is 0, the range wraps, or only a
                 part of a page lies in it. Nothing changed
   RIG_FAILED    an operation failed: what was not cleared for certain stays in the shadow, and no
                 table went back */
enum rig_status rig_page_table_unmap(struct rig_page_table *t, uint64_t address, uint64_t bytes,
                                     bool *out_confirmed, struct rig_error *err);

/* What is mapped at an address. */
struct rig_mapping {
    bool mapped;  /* if not, nothing else but `end` holds */
    bool certain; /* false: a write of the entry failed, so it may be there or not */
    struct rig_target target;
    uint64_t physical; /* the address in the target's memory */
    uint64_t page;     /* bytes of the leaf that maps it */
    uint64_t end;      /* from the address asked for up to here all is alike: unmapped, or the same
                          target      with addresses that go on. More may follow that is. 0 is 2^64 */
};

/* rig_page_table_at is what the shadow says of `address`. */
struct rig_mapping rig_page_table_at(const struct rig_page_table *t, uint64_t address);

/* How a range is mapped, against memory that it might map. */
enum rig_mapped {
    RIG_MAPPED_NOT,   /* nothing is mapped in it */
    RIG_MAPPED_WHOLE, /* all of it maps that memory, for certain, as the target says */
    RIG_MAPPED_PART,  /* what is mapped is that memory, but not all is, or not for certain, or it is
                         reached otherwise (cached, snooped) */
    RIG_MAPPED_OTHER, /* some of it maps other memory */
};

/* rig_page_table_compare is how the addresses from `address` on are mapped, against the ranges that
   rig_page_table_map would be given. */
enum rig_mapped rig_page_table_compare(const struct rig_page_table *t, uint64_t address,
                                       struct rig_target target, const struct rig_range *ranges,
                                       size_t count);

/* ---------- a page table of another process, from what it saved. Nothing is written or flushed. */

/* A table, in GPU memory. */
struct rig_saved_table {
    uint64_t address; /* the first address its entries cover, in the low va_bits bits */
    uint64_t offset;  /* of the table */
    uint8_t level;
    bool complete; /* its words in GPU memory are what the mappings say; false: whatever they are */
    bool linked;   /* the entry above points at it; false: it may or may not */
    bool kept;     /* it goes back with the page table alone */
};

/* rig_page_table_save calls `table` for each table, the root first and each before those under it,
   in order of address, until it returns a status other than RIG_OK, which it then returns. Mappings
   are not saved: whoever holds them knows them. */
enum rig_status rig_page_table_save(const struct rig_page_table *t,
                                    enum rig_status (*table)(void *to,
                                                             const struct rig_saved_table *saved),
                                    void *to);

/* rig_page_table_load makes *out_table the page table whose root is the first table saved, with no
   other table yet. RIG_BAD_INPUT: the root is no root. RIG_FAILED: memory. */
enum rig_status rig_page_table_load(const struct rig_format *f, uint64_t own_base,
                                    const struct rig_page_table_ops *ops, void *gpu,
                                    const struct rig_saved_table *root,
                                    struct rig_page_table **out_table, struct rig_error *err);

/* rig_page_table_shares is true iff the page at `offset` holds tables that are smaller than a page,
   with room for more: whoever loads tables takes such a page once. */
bool rig_page_table_shares(const struct rig_page_table *t, uint64_t offset);

/* rig_page_table_load_table adds a table that rig_page_table_save named, in its order.
   RIG_BAD_INPUT: no such level, an address or offset that is not aligned, no table above it, or one
   is there already. RIG_FAILED: memory. */
enum rig_status rig_page_table_load_table(struct rig_page_table *t,
                                          const struct rig_saved_table *saved,
                                          struct rig_error *err);

/* rig_page_table_load_map records a mapping that was written whole. Outcomes are those of
   rig_page_table_map, with RIG_BAD_INPUT where a table that it needs was not loaded. */
enum rig_status rig_page_table_load_map(struct rig_page_table *t, uint64_t address,
                                        struct rig_target target, const struct rig_range *ranges,
                                        size_t count, struct rig_error *err);

/* Where GPU memory may hold anything, tables are loaded as neither complete nor linked, the root is
   cleared by rig_page_table_clear_root, and rig_page_table_write_map takes the place of
   rig_page_table_load_map: it writes the mapping, and what points at it, into the tables that were
   loaded, and flushes nothing. RIG_FAILED also: a write failed. */
enum rig_status rig_page_table_clear_root(struct rig_page_table *t, struct rig_error *err);
enum rig_status rig_page_table_write_map(struct rig_page_table *t, uint64_t address,
                                         struct rig_target target, const struct rig_range *ranges,
                                         size_t count, struct rig_error *err);

/* rig_page_table_suppose records a mapping that another process began and that ended at a point
   nobody knows: it takes the tables that are missing, as rig_page_table_map does and in the same
   order, so that a caller whose pages come by what is free takes those that the other process took,
   and marks every entry uncertain. Outcomes are those of rig_page_table_map. */
enum rig_status rig_page_table_suppose(struct rig_page_table *t, uint64_t address,
                                       struct rig_target target, const struct rig_range *ranges,
                                       size_t count, struct rig_error *err);

/* rig_page_table_doubt marks what is mapped in [address, address + bytes) uncertain, and the tables
   that it would have emptied as perhaps not pointed at: an unmap began, and nobody knows how far it
   came. RIG_INVALID as rig_page_table_unmap. Where the process's memory runs out, more may be
   marked than was asked. */
enum rig_status rig_page_table_doubt(struct rig_page_table *t, uint64_t address, uint64_t bytes,
                                     struct rig_error *err);

#endif
