/* The memory of one GPU, cut into three pools: boot (what a driver puts there before there are page
   tables; the root table), tables (page tables, where the BAR does not show all of the memory), and
   main. Page tables fall back to the main pool. All of it is bookkeeping in the process; addresses
   are offsets into the GPU's memory.

   Any thread may call any function here; the lock is a leaf. Not public. */
#ifndef RIG_POOL_H
#define RIG_POOL_H

#include "base/ranges.h"

struct gpu_pool;

/* What a pool is made of. All are multiples of 4 KiB. */
struct pool_shape {
    uint64_t bytes;  /* of the memory */
    uint64_t window; /* how much of it, from the beginning, the BAR shows */
    uint64_t boot;   /* at the beginning, within the window; 4 KiB at least */
    uint64_t end;    /* kept at the end, for the GPU's firmware: nothing is ever given out there */
};

/* pool_make makes *out_pool the pools of such a memory, all free but the first page, which is the
   root table's. RIG_NO_ROOM: nothing is left for the main pool. RIG_FAILED: memory ran out. */
enum rig_status pool_make(const struct pool_shape *shape, struct gpu_pool **out_pool,
                          struct rig_error *err);

void pool_drop(struct gpu_pool *p);

/* pool_round makes *out_bytes how much an allocation of `bytes` takes: a multiple of 4 KiB, or of
   2 MiB from 8 MiB on. False where that is above 2^64. */
bool pool_round(uint64_t bytes, uint64_t *out_bytes);

/* pool_take makes *out_ranges, malloc'ed, ranges of the main pool of `bytes` bytes together (as
   pool_round gives them), in order; what the BAR does not show is taken first. RIG_NO_ROOM: fewer
   bytes are free. RIG_FAILED: memory ran out. */
enum rig_status pool_take(struct gpu_pool *p, uint64_t bytes, struct rig_range **out_ranges,
                          size_t *out_count, struct rig_error *err);

/* pool_take_block is one range of the main pool, within the window. RIG_NO_ROOM: no free one that
   fits is. */
enum rig_status pool_take_block(struct gpu_pool *p, uint64_t bytes, struct rig_range **out_ranges,
                                size_t *out_count, struct rig_error *err);

/* pool_give gives ranges back. */
void pool_give(struct gpu_pool *p, const struct rig_range *ranges, size_t count);

/* pool_take_table makes *out_offset a page for a page table, within the window. */
enum rig_status pool_take_table(struct gpu_pool *p, uint64_t *out_offset, struct rig_error *err);
void pool_give_table(struct gpu_pool *p, uint64_t offset);

/* pool_restore takes a range that another process took. RIG_BAD_INPUT: it is not free, or in no
   pool. RIG_FAILED: memory. */
enum rig_status pool_restore(struct gpu_pool *p, uint64_t address, uint64_t bytes,
                             struct rig_error *err);

/* pool_free_bytes is what is free in the main pool. pool_next_free is true, and *out_range the free
   range of it with the lowest address at or above `address`. pool_main_bytes is its size. */
uint64_t pool_free_bytes(struct gpu_pool *p);
bool pool_next_free(struct gpu_pool *p, uint64_t address, struct rig_range *out_range);
uint64_t pool_main_bytes(const struct gpu_pool *p);

#endif
