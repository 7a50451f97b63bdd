/* A vendor's address space: one range of the process's addresses, shared by the GPUs of the vendor
   on one machine, so that an address means the same memory on each of them.

   A block of addresses is held, and counted, once for each function whose tables map it or may; it
   is free when the last holder lets go. Blocks are known by their first address alone. Any thread
   may call any function here; the lock is a leaf. Not public. */
#ifndef RIG_SPACE_H
#define RIG_SPACE_H

#include "base/ranges.h"
#include "machine/function.h"

struct rig_space;

/* space_make makes *out_space the space [base, base + bytes) of a vendor on m; multiples of 4 KiB
   within the 47 bits of the process. With `reserve` the process's addresses are reserved for system
   memory. `name` is constant.
   RIG_REFUSED: they cannot be reserved. RIG_FAILED: cut short, memory ran out. */
enum rig_status space_make(struct rig_machine *m, const char *name, uint64_t base, uint64_t bytes,
                           bool reserve, struct rig_space **out_space, struct rig_error *err);

/* space_drop frees the struct alone: reserved addresses stay so until the machine is closed. NULL
   is allowed. */
void space_drop(struct rig_space *s);

const char *space_name(const struct rig_space *s);
uint64_t space_base(const struct rig_space *s);
uint64_t space_bytes(const struct rig_space *s);

/* space_take makes *out_address a new block of `bytes` bytes, a multiple of 4 KiB, with one holder,
   at a multiple of the largest power of two that is not above bytes, so that it maps with large
   pages. RIG_NO_ROOM: there is none. RIG_FAILED: memory ran out. */
enum rig_status space_take(struct rig_space *s, uint64_t bytes, uint64_t *out_address,
                           struct rig_error *err);

/* space_hold adds a holder to the block at address, which has one. RIG_FAILED: memory ran out. */
enum rig_status space_hold(struct rig_space *s, uint64_t address, struct rig_error *err);

/* space_hold_at makes *out_block the block that the address is in, with one more holder, or 0 bytes
   where it is in none. RIG_FAILED: memory ran out. */
enum rig_status space_hold_at(struct rig_space *s, uint64_t address, struct rig_range *out_block,
                              struct rig_error *err);

/* space_let_go takes a holder away; the last one frees the block. */
void space_let_go(struct rig_space *s, uint64_t address);

/* space_restore adds a holder to the block [address, address + bytes), and makes it a block first
   where nobody holds it. RIG_BAD_INPUT: it overlaps another or is not within s. RIG_FAILED: memory.
 */
enum rig_status space_restore(struct rig_space *s, uint64_t address, uint64_t bytes,
                              struct rig_error *err);

/* space_free_bytes is what is free, space_blocks how many blocks are held. */
uint64_t space_free_bytes(struct rig_space *s);
uint64_t space_blocks(struct rig_space *s);

#endif
