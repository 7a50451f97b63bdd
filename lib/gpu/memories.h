/* The GPU room's own shapes, shared by its files. Not for anything else.

   Words are HOLDERS': a mapping is entries of one GPU that map some memory at some addresses, a
   region what the caller has of it. A mapping holds what was taken for it until it goes.

   Locks: each memory's `lock` guards its lists of regions and mappings and everything in a mapping
   that other GPUs' calls read or change. Of two memories' locks a thread holds one at a time, and
   while it holds one it calls nothing but leaf locks' functions (space, pool) and a view's access.
   What only the memory's owner uses (page table, part) is guarded by `requests`: see settle. */
#ifndef RIG_MEMORIES_H
#define RIG_MEMORIES_H

#include "gpu/page_table.h"
#include "gpu/pool.h"
#include "gpu/space.h"
#include "gpu/vendor.h"

#include <pthread.h>

/* What became of a mapping. */
enum mapping_state {
    MAPPING_MAKING, /* a request is at it; no region is over it yet, or none any more */
    MAPPING_LIVE,   /* regions are over it */
    MAPPING_CUT,    /* a request that was cut short left it: whatever is held stays until the
                       give-back; a later map_peer of the same memory takes it over */
    MAPPING_KEPT,   /* its regions ended and its entries are known to be gone: others' reach, a
                       reservation, or mastering keeps the memory */
    MAPPING_HELD, /* its regions ended, and the GPU may still reach it: held until the give-back */
    MAPPING_GONE, /* what it held is the give-back's: its addresses go when the memory at them did;
                     regions or peers may name it longer */
};

/* A peer's mapping of an owner's memory, as the owner lists it. The peer's mapping owns it, until
   it leaves the owner: mapping->member is NULL from then on, and mapping->of. */
struct peer {
    struct peer *next;       /* of the owner's list; the owner's lock guards it */
    struct peer *chain;      /* of those that are leaving */
    struct mapping *mapping; /* read by the peer's calls alone */
    struct rig_memory *memory;
    struct mapping *of;
    bool keeps_owner; /* it has the owner's function kept taken */
    bool stuck;       /* what it mapped may still be reached after it ended */
};

/* A region that is out, or the last one of a mapping of which something is kept. */
struct region {
    uint64_t id;
    struct mapping *mapping;
    uint64_t skip; /* its first byte in the mapping */
    uint64_t bytes;
    uint64_t of;              /* of map_peer's region: the region that it maps, */
    struct rig_memory *owner; /* of this memory; else 0 and NULL */
    enum rig_origin origin;
    bool out;
};

/* Invariants:
   - A mapping of another GPU's region has `of`, the owner's mapping, which lists `member` among its
     `peers`, until it leaves the owner. Others never have it. A mapping of m's own region is no
     mapping of its own: the region lies over the owner's.
   - `ranges` is set from when the memory is known, as rig_page_table_map wants it; a single one is
     `range`, several are malloc'ed. Of own memory they are blocks of the pool, which go back to it
     iff owns_ranges.
   - regions counts the regions that are out over it; 0 in states other than LIVE and GONE.
   - `place` is one of the regions over it, id 0: none. Others are malloc'ed.
   - A mapping is freed when it holds nothing, no region is out or kept over it, and no peer names
     it. */
struct mapping {
    struct mapping *next, *previous; /* of the memory's list, newest first */
    struct rig_memory *memory;
    uint64_t number;         /* unique in the memory, in the order they were made */
    uint64_t address, bytes; /* whole pages */
    uint64_t peer_base;      /* to_gpu: what the ranges' addresses are above offsets; else 0 */
    struct rig_range *ranges, range;
    size_t count;
    enum mapping_state state;
    enum rig_kind kind;
    struct rig_target target;
    bool peer; /* of another GPU's memory */
    bool has_kind;
    bool uncached;
    bool holds_addresses, owns_ranges;
    bool to_gpu; /* another GPU's memory */
    bool due;    /* it can go back at the owner's next call: it is in the memory's list */
    unsigned regions;
    unsigned stuck_peers; /* peers that were so until their own give-back */
    unsigned client_count, lent_count;
    struct mapping *next_due;
    struct device_hold *hold; /* system memory, or a pin; NULL: none or no more */
    struct rig_view *view;    /* on RIG_KIND_BAR memory, which begins at view_skip of it */
    uint64_t view_skip;
    unsigned char *window; /* where the process sees system memory's first byte (device_see) */
    struct region
        *original;       /* what alloc or map_host gave over it; freed or not, as long as it is */
    struct region *kept; /* of the last region freed, while something of it is kept */
    struct region place;
    struct mapping *of;
    struct peer *member;
    struct peer *peers;     /* other GPUs' mappings of it that may reach it */
    size_t scratch;         /* of a save alone */
    struct rig_range *lent; /* borrowed, also of a peer's mapping of such: blocks of addresses where
                               the process has its bytes, held so that no other memory comes to lie
                               there */
    int *clients;           /* functions that its memory is reserved for */
};

/* Regions in order of id; a slot is NULL once its region went, and such slots are at most as many
   as the others, and 64 more. */
struct region_list {
    struct {
        uint64_t id;
        struct region *region;
    } * slot;
    size_t count, room, empty;
};

struct rig_memory {
    struct rig_gpus *gpus;
    struct rig_device *device; /* NULL: stopped in an earlier process */
    int function;
    const struct rig_format *format;
    struct rig_space *space;
    uint64_t own_base, bytes;
    int bar;
    uint64_t bar_bytes;
    rig_bus_address bar_bus;
    bool bar_assigned, combining, linked;
    enum rig_addressing addressing;
    struct rig_link link;
    uint64_t root;
    /* the owner's calls', and settle's */
    struct gpu_part part;
    struct rig_view *tables_view; /* what of the BAR page tables may lie in */
    struct rig_page_table *tables;
    bool clearing; /* an unmap is under way: a GPU that is gone just does not confirm */
    pthread_mutex_t lock;
    unsigned requests; /* that began and did not end */
    bool settled;      /* page tables are dropped and peers' mappings ended */
    bool gone;         /* the give-back gave everything back; pool is NULL then */
    struct gpu_pool *pool;
    struct mapping *mappings;
    struct mapping *restored; /* one piece of memory of those that a restore made, or NULL */
    size_t restored_count;
    uint64_t last_mapping;
    struct mapping *due;
    size_t saved_first, saved_count; /* of a restore alone */
    struct region_list regions;
};

/* A GPU's place in a fabric, given out before it has memory. */
struct linked_gpu {
    int function;
    struct rig_link link;
};

struct rig_gpus {
    struct rig_machine *machine;
    struct rig_gpus_options options;
    pthread_mutex_t lock; /* guards what follows; a leaf */
    struct rig_space *space[4];
    struct rig_memory **memory;
    size_t count;
    uint64_t last_region;
    struct linked_gpu *place; /* what rig_gpus_link gave out */
    size_t places;
    bool supposing; /* requests are those that another process began: gpus_suppose */
};

static inline void gpu_memory_lock(struct rig_memory *m)
{
    pthread_mutex_lock(&m->lock);
}

static inline void gpu_memory_unlock(struct rig_memory *m)
{
    pthread_mutex_unlock(&m->lock);
}

/* gpu_memory_life is its function's life. */
enum rig_life gpu_memory_life(const struct rig_memory *m);

/* gpu_memory_name writes its function's name into text and returns text. */
char *gpu_memory_name(const struct rig_memory *m, char text[RIG_BDF_MAX]);

/* gpu_memory_report makes *err, unless it is NULL or holds an error, what a request's own error
   says, naming m's function where that names nothing, and returns status. */
enum rig_status gpu_memory_report(const struct rig_memory *m, enum rig_status status,
                                  const struct rig_error *own, struct rig_error *err);

/* ---- spaces (gpus.c) */

/* gpus_space makes *out_space the space of a format's vendor, made now if it is the first time. */
enum rig_status gpus_space(struct rig_gpus *g, const struct rig_format *f,
                           struct rig_space **out_space, struct rig_error *err);

/* gpus_restore_space is the same for a machine whose state holds the reservation. */
enum rig_status gpus_restore_space(struct rig_gpus *g, const struct rig_format *f,
                                   struct rig_space **out_space, struct rig_error *err);

/* gpus_space_at is the space that the address is in, or NULL. */
struct rig_space *gpus_space_at(struct rig_gpus *g, uint64_t address);

/* gpus_space_after makes *io_address where the next space above it begins; false: none does. */
bool gpus_space_after(struct rig_gpus *g, uint64_t *io_address);

/* gpus_place remembers a GPU's place in a fabric. */
enum rig_status gpus_place(struct rig_gpus *g, int function, struct rig_link link,
                           struct rig_error *err);

/* gpus_enter adds the memory. RIG_FAILED: memory. */
enum rig_status gpus_enter(struct rig_gpus *g, struct rig_memory *take_memory,
                           struct rig_error *err);

/* ---- memories (memory.c) */

/* gpu_memory_new makes an empty memory of a function, not entered; NULL when memory ran out.
   gpu_memory_drop frees it and all that hangs on it, touching no device. */
struct rig_memory *gpu_memory_new(struct rig_gpus *g, struct rig_device *dev, int function);
void gpu_memory_drop(struct rig_memory *m);

/* gpu_memory_table_ops are the page table's operations, with a struct rig_memory. */
extern const struct rig_page_table_ops gpu_memory_table_ops;

/* gpu_memory_make_pool makes the pools of a memory whose sizes are known. */
enum rig_status gpu_memory_make_pool(struct rig_memory *m, struct rig_error *err);

/* gpu_memory_given_back is what the give-back of its function calls; gpu_memory_watch has it
 * called. */
void gpu_memory_given_back(void *context, enum give_back_stage stage);
enum rig_status gpu_memory_watch(struct rig_memory *m, struct rig_error *err);

/* gpu_memory_enter and gpu_memory_leave count a call that is under way on m: nobody settles it. */
void gpu_memory_enter(struct rig_memory *m);
void gpu_memory_leave(struct rig_memory *m);

/* request_begin begins a request on m: a use of its function. RIG_INVALID: it was released.
   RIG_FAILED: it left the bus. request_end ends it. */
enum rig_status request_begin(struct rig_memory *m, struct rig_error *err);
void request_end(struct rig_memory *m);

/* gpu_memory_settle does what a released memory is due: see memory.c. */
void gpu_memory_settle(struct rig_memory *m);

/* ---- mappings (mapping.c) */

/* mapping_new makes a mapping of m, in its list and in state MAKING; NULL when memory ran out.
   mapping_enter has a mapping, zeroed, be the newest of the list. */
struct mapping *mapping_new(struct rig_memory *m, bool peer);
void mapping_enter(struct rig_memory *m, struct mapping *p);

/* mapping_use_ranges makes the malloc'ed ranges p's; mapping_make_ranges makes room for `count`,
   all 0. False: memory ran out. */
void mapping_use_ranges(struct mapping *p, struct rig_range *take_ranges, size_t count);
bool mapping_make_ranges(struct mapping *p, size_t count);

/* mapping_free frees p and what is its own alone, its regions not. */
void mapping_free(struct mapping *p);

/* mapping_take_addresses takes addresses for mapping->bytes bytes. */
enum rig_status mapping_take_addresses(struct mapping *p, struct rig_error *err);

/* mapping_borrow holds the addresses [start, start + bytes) of the process as far as they are in
   spaces: system memory that is freed lets them go, but not what borrowed it. RIG_FAILED: memory;
   none is held.
   mapping_let_go_addresses lets go these and its own. */
enum rig_status mapping_borrow(struct mapping *p, uint64_t start, uint64_t bytes,
                               struct rig_error *err);
void mapping_let_go_addresses(struct mapping *p);

/* mapping_view makes its window on the BAR, of ranges[0]; `again`: it had one in another process.
 */
enum rig_status mapping_view(struct mapping *p, bool again, struct rig_error *err);

/* mapping_use_hold makes system memory's ranges, and the window, those of the hold. */
enum rig_status mapping_use_hold(struct mapping *p, struct device_hold *hold,
                                 struct rig_error *err);

/* mapping_write writes its entries. */
enum rig_status mapping_write(struct mapping *p, struct rig_error *err);

/* mapping_clear clears its entries; *out_confirmed is whether the GPU said that it forgot them. */
enum rig_status mapping_clear(struct mapping *p, bool *out_confirmed, struct rig_error *err);

/* mapping_give_back gives back all that a mapping holds, and frees it unless a region or a peer
   names it. Nobody reaches it any more. RIG_FAILED: cut short; what is left is the function's, and
   the mapping HELD. */
enum rig_status mapping_give_back(struct mapping *p, struct rig_error *err);

/* mapping_hold leaves what a mapping holds to the give-back, HELD, and returns status. */
enum rig_status mapping_hold(struct mapping *p, enum rig_status status);

/* mapping_fail ends a request's mapping that came to nothing: after RIG_FAILED, or where the
   function was released meanwhile, it is left as CUT; else it is given back. err is the request's
   own. The result is the status of the request. */
enum rig_status mapping_fail(struct mapping *p, enum rig_status status, struct rig_error *err);

/* peer_leave takes a peer's mapping, by its detached `member`, out of the owner's list, ends its
   keep and frees it; where it is stuck the owner's memory stays reached. No lock is held.
   mapping_detach_member detaches it; p's memory's lock is held. */
void peer_leave(struct peer *take_peer);
struct peer *mapping_detach_member(struct mapping *p);

/* mapping_reached is true iff another GPU may reach its memory. m's lock is held. */
bool mapping_reached(const struct mapping *p);

/* mapping_weigh marks a mapping that can go back at the owner's next call. m's lock is held. */
void mapping_weigh(struct mapping *p);

/* mapping_unlist and mapping_free_if_idle: m's lock is held. The second frees p iff nothing names
   it. */
void mapping_unlist(struct mapping *p);
bool mapping_free_if_idle(struct mapping *p);

/* gpu_memory_sweep gives back what is due. RIG_FAILED: cut short. */
enum rig_status gpu_memory_sweep(struct rig_memory *m, struct rig_error *err);

/* ---- regions (region.c) */

/* region_new makes a region over p, with the origin, skip, bytes, of and owner of *like; p is LIVE
   then. RIG_FAILED: memory. */
enum rig_status region_new(struct mapping *p, const struct region *like,
                           struct rig_region *out_region, struct rig_error *err);

/* region_find is m's region with that id, out or kept, or NULL. region_record is one also of an
   original that was freed while its mapping goes on. m's lock is held. */
struct region *region_record(const struct rig_memory *m, uint64_t id);
struct region *region_find(const struct rig_memory *m, uint64_t id);

/* region_make is a region over p, zeroed but for `mapping`, in no list; NULL when memory ran out.
   region_unmake frees one. */
struct region *region_make(struct mapping *p);
void region_unmake(struct region *r);

/* region_drop takes it out of the list and frees it; an original stays until its mapping goes. m's
   lock is held. */
void region_drop(struct rig_memory *m, struct region *r);

/* mapping_ranges makes *out_ranges, malloc'ed, p's ranges cut to `bytes` bytes from `skip` on, each
   address lowered by `base`, neighbours joined. RIG_FAILED: memory. */
enum rig_status mapping_ranges(const struct mapping *p, uint64_t skip, uint64_t bytes,
                               uint64_t base, struct rig_bus_range **out_ranges, size_t *out_count);

/* region_freed is RIG_INVALID, saying that the region was freed. */
enum rig_status region_freed(struct rig_region region, struct rig_error *err);

/* region_put enters a region with an id of its own, above all others of m. For region_new, and for
   a restore. */
enum rig_status region_put(struct rig_memory *m, struct region *take_region, struct rig_error *err);

/* ---- reach (reach.c) */

/* reach_refuse fills err with why GPU memory of `to` is not reached by `by` and returns
   RIG_REFUSED, or returns RIG_OK where it is. RIG_FAILED: memory ran out. */
enum rig_status reach_refuse(struct rig_memory *by, struct rig_memory *to, struct rig_error *err);

/* bus_refuse is RIG_OK where the bus carries requests of function `client` to GPU memory of m, else
   RIG_REFUSED with why. RIG_FAILED: memory ran out. */
enum rig_status bus_refuse(struct rig_machine *machine, int client, struct rig_memory *m,
                           struct rig_error *err);

#endif
