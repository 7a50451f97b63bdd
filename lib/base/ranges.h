/* The range allocator: gives out ranges of addresses of memory it never touches (a GPU's memory, an
   address space, a machine's system memory).

   The managed addresses [base, base + bytes) are cut into units (pages). Every unit is free or
   belongs to one block, and a block goes back whole. All state lies in the process's own memory.

   Each answer is a function of the request and of which addresses are free, and of nothing else:
   not of the order of earlier calls, nor of where blocks of taken memory meet. So an allocator made
   again and given the same blocks by rig_ranges_take_at goes on with the same addresses.

   Time a call grows with the logarithm of the number of blocks, but for what rig_ranges_take says
   of aligned and bounded requests near a refusal. Room: some 25 to 65 bytes a block
   beyond the first thousands, 8 bytes for each 4096 units managed, and 1 KiB for each 4096 units in
   which more than 26 blocks and holes begin.

   One caller at a time uses an allocator. Not public. */
#ifndef RIG_RANGES_H
#define RIG_RANGES_H

#include "base/base.h"

struct rig_ranges;

/* Bytes from `address` on. `address + bytes` may be 2^64 and so wrap to 0. */
struct rig_range {
    uint64_t address;
    uint64_t bytes;
};

/* What rig_ranges_take is asked for. */
struct rig_ranges_want {
    uint64_t bytes; /* a multiple of the unit, not 0 */
    uint64_t align; /* of the address: a power of two; 0 for no more than the unit */
    uint64_t from;  /* the block begins at or above it; 0 for no bound */
    uint64_t below; /* the block ends at or below it; 0 for no bound */
};

/* The most units an allocator manages: 2^34 (64 TiB of 4 KiB pages). */
#define RIG_RANGES_UNITS_MAX (UINT64_C(1) << 34)

/* rig_ranges_make makes *out_ranges an allocator of [base, base + bytes), all of it free, in units
   of `unit` bytes. Free it with rig_ranges_drop.

   RIG_INVALID   unit is no power of two, base or bytes no multiple of it, bytes is 0, the range
   ends above 2^64, or has more than RIG_RANGES_UNITS_MAX units RIG_FAILED    memory ran out */
enum rig_status rig_ranges_make(uint64_t base, uint64_t bytes, uint64_t unit,
                                struct rig_ranges **out_ranges, struct rig_error *err);

/* rig_ranges_drop frees the allocator, whatever is taken. NULL is allowed. */
void rig_ranges_drop(struct rig_ranges *r);

/* rig_ranges_take makes *out_address the address of a new block of want->bytes bytes.

   The block lies in the smallest free range it fits in, of equally small ones in the lowest: at the
   lowest fitting address, or, from 512 to 8191 units, at the highest. Where alignment or bounds
   spoil 64 free ranges that are large enough, ranges follow that are larger by the alignment, and
   only then the rest. Free ranges that begin below want->from are looked at last. A request is
   refused only where no free range fits it.

   A request with align at most the unit and no bounds looks at one free range. Others look at 64
   and, before they refuse, at each that is large enough and within the bounds.

   RIG_NO_ROOM   no free range within the bounds holds such a block
   RIG_INVALID   bytes is 0 or no multiple of the unit, or align is no power of two
   RIG_FAILED    memory ran out; nothing changed */
enum rig_status rig_ranges_take(struct rig_ranges *r, const struct rig_ranges_want *want,
                                uint64_t *out_address, struct rig_error *err);

/* rig_ranges_take_several makes *out_blocks new blocks of `bytes` bytes together, in the order in
   which they are to be used, and *out_count their number: one block as rig_ranges_take gives it, if
   there is one; else the largest free ranges first. All but the last ones are multiples of `align`
   at addresses that are, as long as the largest free range holds such a block. Each goes back by
   itself with rig_ranges_give. The caller frees *out_blocks.

   RIG_NO_ROOM   the free bytes are fewer than `bytes`, and for no other reason
   RIG_INVALID   bytes is 0 or no multiple of the unit, or align is no power of two
   RIG_FAILED    memory ran out; nothing changed */
enum rig_status rig_ranges_take_several(struct rig_ranges *r, uint64_t bytes, uint64_t align,
                                        struct rig_range **out_blocks, size_t *out_count,
                                        struct rig_error *err);

/* rig_ranges_take_at makes [address, address + bytes) a block.

   RIG_NO_ROOM   some of it is not free
   RIG_INVALID   bytes is 0, address or bytes is no multiple of the unit, or it lies outside
   RIG_FAILED    memory ran out; nothing changed */
enum rig_status rig_ranges_take_at(struct rig_ranges *r, uint64_t address, uint64_t bytes,
                                   struct rig_error *err);

/* rig_ranges_give frees the block [address, address + bytes). It needs no memory.

   RIG_INVALID   no block begins at address, or it has another size; nothing changed */
enum rig_status rig_ranges_give(struct rig_ranges *r, uint64_t address, uint64_t bytes,
                                struct rig_error *err);

/* rig_ranges_free_bytes is the number of free bytes. */
uint64_t rig_ranges_free_bytes(const struct rig_ranges *r);

/* rig_ranges_largest is the number of bytes of the largest free range, 0 if nothing is free. */
uint64_t rig_ranges_largest(const struct rig_ranges *r);

/* rig_ranges_blocks is the number of blocks. */
uint64_t rig_ranges_blocks(const struct rig_ranges *r);

/* rig_ranges_next_free is true, and *out_range the free range, as long as it can be, with the
   lowest address at or above `address`; false where there is none. A caller goes on from the
   range's end, unless that is 0. */
bool rig_ranges_next_free(const struct rig_ranges *r, uint64_t address,
                          struct rig_range *out_range);

/* rig_ranges_next_block is rig_ranges_next_free for blocks. */
bool rig_ranges_next_block(const struct rig_ranges *r, uint64_t address,
                           struct rig_range *out_range);

#endif
