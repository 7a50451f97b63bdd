/* The twin's own shapes, shared by its files. Not for anything else. */
#ifndef RIG_TWINS_H
#define RIG_TWINS_H

#include "machine/registers.h"
#include "machine/sparse.h"
#include "machine/twin.h"

#include "base/ranges.h"
#include "topology/rules.h"

#include <pthread.h>

/* The file of `directory` that holds system memory. */
#define TWIN_SYSTEM_FILE "system-memory"

/* Bytes of configuration space that are kept; the rest of a space of 4096 reads zero. */
#define TWIN_CONFIG 0x200u

struct twin_bar {
    uint64_t size; /* 0: there is none, or nobody knows how large */
    uint64_t base; /* follows the registers, but for a virtual function's */
    bool assigned, io, wide, prefetchable, fixed; /* fixed: a virtual function's, no register */
    struct sparse *memory; /* NULL: an I/O BAR, or the GPU's memory BAR, which shows gpu->memory */
};

/* A translation that the engine cached, by the address of its 4 KiB page. */
struct twin_cached {
    uint64_t page; /* the GPU's address >> 12 */
    struct twin_translation to;
    bool used;
};

/* The part of a function that is a GPU with memory. cache is a hash table with open addressing,
   cache_size 0 or a power of two more than half again as large as cache_count. */
struct twin_gpu {
    struct sparse memory;
    const struct rig_format *format;
    struct twin_cached *cache;
    size_t cache_size, cache_count;
    enum twin_flush flush;
    uint32_t asked; /* the token of the flush that runs, 0: none does */
    unsigned looks; /* how many more looks until it is confirmed; UINT_MAX: never */
    bool linked;    /* in the fabric of links */
    uint8_t peer;   /* its number there */
    uint64_t base;  /* where its memory lies in the fabric's one space */
};

/* A run of bus addresses that an IOMMU translates for one function. */
struct twin_mapping {
    uint64_t address, bytes;
    uint64_t target; /* a physical address, or one of the process */
    bool process;
    bool lost; /* of a process before this one: its pages are gone */
};

/* A function's IOMMU tables: an ordered tree (search.h) of struct twin_mapping, and the addresses
   that are free. */
struct twin_iommu {
    void *tree;
    struct rig_ranges *free;
};

struct twin_function {
    const struct rig_function *facts;
    int parent, first_child, next_sibling; /* functions; -1 none */
    uint8_t config[TWIN_CONFIG], writable[TWIN_CONFIG];
    unsigned config_bytes;   /* 256 or 4096 */
    unsigned acs, registers; /* offsets in configuration space, 0: none */
    bool open_window;        /* a window of it is not known: it forwards what the BARs below hold */
    bool gone;
    bool taken;
    bool translated;     /* an IOMMU translates its requests */
    uint16_t found_intx; /* the legacy interrupt bit before the take */
    unsigned views;
    struct twin_bar bar[RIG_BAR_COUNT];
    struct twin_gpu *gpu;    /* NULL: it is none, or has no memory */
    struct twin_iommu iommu; /* used where its requests are translated */
};

/* A page of system memory, where it differs from all zeros. */
struct twin_page {
    uint32_t pins;
    bool orphan;     /* its allocation went back while it was pinned */
    uint64_t window; /* of an orphan: where the process still sees it, 0: nowhere */
};

/* Pages in a row: of system memory, or, with `own`, of the process itself. */
struct twin_piece {
    uint64_t at, bytes; /* a physical address, or one of the process */
    bool own;
};

/* What alloc or pin gave out. An allocation's pieces are blocks of the allocator `pages`; of a
   pin's, those of system memory are counted page by page. */
struct twin_grant {
    uint64_t id;
    int function;
    bool pin;
    bool translated;          /* `device` holds: where it lies on the bus */
    bool seen;                /* an allocation: the process sees it at `memory` */
    uint64_t memory, bytes;   /* in the process */
    struct twin_piece *piece; /* in order from its first byte */
    int pieces;
    uint64_t device;
};

struct twin_reserved {
    uint64_t start, bytes;
};

struct twin {
    struct rig_machine machine; /* first */
    pthread_mutex_t lock;
    int directory; /* -1: none */
    char *memory_path;
    uint64_t seed, clock; /* clock: microseconds */
    struct twin_function *function;
    int count;
    int *root; /* by host bridge: the first function on its root bus, or -1 */
    const struct rig_rules *rules;

    uint64_t system_base, system_bytes;
    int system_file;          /* a file of `directory`, or of no directory */
    struct rig_ranges *pages; /* free and taken system memory */
    struct twin_page *page;
    struct twin_reserved *reserved;
    size_t reserved_count;
    void *windows; /* allocations by their addresses in the process: a tree (search.h) */
    void *grants;  /* all by id */
    uint64_t grant_count, pin_count;
    uint64_t last_grant;

    enum twin_fault fault;
    enum twin_step fault_kind;
    uint64_t fault_in; /* the armed one is that many steps away; 0: none is armed */
    bool fault_fired, failed, quiet;
    uint64_t steps[TWIN_STEPS];
};

static inline struct twin *twin_of(const struct rig_machine *m)
{
    return (struct twin *)(uintptr_t)m;
}

static inline void twin_lock(struct twin *w)
{
    pthread_mutex_lock(&w->lock);
}

static inline void twin_unlock(struct twin *w)
{
    pthread_mutex_unlock(&w->lock);
}

extern const struct rig_machine_ops twin_ops;

/* All that follows is called with the lock held, unless it says otherwise. */

/* ---- configuration space (twin_config.c) */

/* config_make fills in a function's configuration space, BARs included, from its facts. */
void config_make(struct twin *w, int function);

uint32_t config_get(const struct twin_function *f, unsigned offset, unsigned width);
/* config_put writes as the bus does: the writable bits, and what follows from them. */
void config_put(struct twin *w, int function, unsigned offset, unsigned width, uint32_t value);
/* config_set writes registers whatever they are. */
void config_set(struct twin_function *f, unsigned offset, unsigned width, uint32_t value);
/* config_follow works out what follows from the registers, after they were all set. */
void config_follow(struct twin_function *f);
/* config_look is config_get as the function answers: flush registers move on at each look. */
uint32_t config_look(struct twin *w, int function, unsigned offset, unsigned width);

static inline bool decodes(const struct twin_function *f)
{
    return (f->config[4] & 2) != 0 || (rig_fact_has(f->facts->virtual_of));
}

static inline bool masters(const struct twin_function *f)
{
    return (f->config[4] & 4) != 0;
}

/* is_off: the machine failed, or this process cannot use it any more. */
static inline bool is_off(const struct twin *w)
{
    return w->failed || machine_broken(&w->machine);
}

/* is_gone: the function, or the machine, is. */
static inline bool is_gone(const struct twin *w, int function)
{
    return is_off(w) || w->function[function].gone;
}

/* ---- firmware (twin_firmware.c) */

/* firmware_assign gives t's memory BARs of known size without an address one, and works out where
   system memory lies; t's facts say so afterwards. */
enum rig_status firmware_assign(struct rig_topology *t, uint64_t *out_base, uint64_t *out_bytes,
                                struct rig_error *err);
extern const char twin_from_firmware[]; /* `from` of addresses it gave */

/* ---- system memory (twin_memory.c) */

enum rig_status memory_init(struct twin *w, struct rig_error *err);
void memory_drop(struct twin *w);
enum rig_status memory_alloc(struct twin *w, int function, const struct rig_memory_request *request,
                             struct rig_grant *out_grant, struct rig_error *err);
enum rig_status memory_reserve(struct twin *w, uint64_t start, uint64_t bytes,
                               struct rig_error *err);
/* memory_free ends an allocation; memory_window_end the process's view of some of it. */
enum rig_status memory_free(struct twin *w, struct twin_grant *grant, struct rig_error *err);
void memory_window_end(struct twin *w, uint64_t start, uint64_t bytes);
/* memory_see makes the process see the allocations that have bytes at its addresses
   [start, start + bytes), where they are. RIG_REFUSED: it cannot. */
enum rig_status memory_see(struct twin *w, uint64_t start, uint64_t bytes, struct rig_error *err);
/* grant_see maps the allocation at its addresses in the process, which are occupied. RIG_REFUSED:
   the process cannot, and the addresses are as where an allocation ended. */
enum rig_status grant_see(struct twin *w, struct twin_grant *grant, struct rig_error *err);
/* memory_is_reserved is true iff some reserved range holds all the bytes. */
bool memory_is_reserved(const struct twin *w, uint64_t start, uint64_t bytes);

/* memory_claim is RIG_OK iff the process's addresses are reserved, or free and now occupied. */
enum rig_status memory_claim(struct twin *w, uint64_t start, uint64_t bytes, struct rig_error *err);
/* memory_window makes the process see the pieces from `start` on. RIG_REFUSED: it cannot. */
enum rig_status memory_window(struct twin *w, uint64_t start, const struct twin_piece *piece,
                              int pieces, struct rig_error *err);

/* system_read and system_write reach system memory by physical address. */
enum rig_status system_read(struct twin *w, uint64_t physical, void *out_data, size_t bytes,
                            struct rig_error *err);
enum rig_status system_write(struct twin *w, uint64_t physical, const void *data, size_t bytes,
                             struct rig_error *err);

/* ---- grants and pins (twin_grants.c) */

struct twin_grant *grant_new(struct twin *w, int function, bool pin);
/* grant_drop frees a grant that is in no tree. */
void grant_drop(struct twin_grant *grant);
/* grant_add_piece appends pages, joined to the last piece where they follow it, unless `apart`. */
enum rig_status grant_add_piece(struct twin_grant *grant, struct twin_piece piece, bool apart,
                                struct rig_error *err);
/* grant_enter puts it into the trees and makes *out_grant what its holder gets. */
enum rig_status grant_enter(struct twin *w, struct twin_grant *grant, struct rig_grant *out_grant,
                            struct rig_error *err);
void grant_leave(struct twin *w, struct twin_grant *grant);
/* grant_translate has the function's IOMMU lead to the grant's pieces. */
enum rig_status grant_translate(struct twin *w, struct twin_grant *grant, unsigned bits,
                                struct rig_error *err);
/* grant_at is the allocation whose place in the process the address is in, or NULL. */
struct twin_grant *grant_at(const struct twin *w, uint64_t address);
struct twin_grant *grant_find(const struct twin *w, uint64_t id);

enum rig_status memory_pin(struct twin *w, int function, uint64_t start, uint64_t bytes,
                           unsigned bits, struct rig_grant *out_grant, struct rig_error *err);
void memory_unpin(struct twin *w, struct twin_grant *pin);
/* memory_end gives the grant `id`, of either kind, back; memory_end_all all of a function's, up to
   the first that cannot be. */
enum rig_status memory_end(struct twin *w, uint64_t id, struct rig_error *err);
enum rig_status memory_end_all(struct twin *w, int function, struct rig_error *err);

static inline struct twin_page *page_of(const struct twin *w, uint64_t physical)
{
    return &w->page[(physical - w->system_base) / w->machine.page_size];
}

/* ---- its saved state (twin_memory_state.c) */

enum rig_status memory_save(struct twin *w, json_t *out_state, struct rig_error *err);
enum rig_status memory_load(struct twin *w, const json_t *state, struct rig_error *err);

/* ---- IOMMU tables (twin_iommu.c) */

enum rig_status iommu_init(struct twin *w, int function, struct rig_error *err);
void iommu_drop(struct twin_iommu *iommu);
/* iommu_take makes *out_address a free device address of `bytes` bytes below 2^bits. */
enum rig_status iommu_take(struct twin *w, int function, uint64_t bytes, unsigned bits,
                           uint64_t *out_address, struct rig_error *err);
enum rig_status iommu_take_at(struct twin *w, int function, uint64_t address, uint64_t bytes,
                              struct rig_error *err);
/* iommu_map adds a mapping of taken addresses. RIG_FAILED: memory. */
enum rig_status iommu_map(struct twin *w, int function, const struct twin_mapping *mapping,
                          struct rig_error *err);
/* iommu_unmap ends the mappings of [address, address + bytes), whole ones, and frees the addresses.
 */
void iommu_unmap(struct twin *w, int function, uint64_t address, uint64_t bytes);
const struct twin_mapping *iommu_find(const struct twin *w, int function, uint64_t address);

/* ---- the fabric (twin_fabric.c) */

void fabric_route(struct twin *w, int function, uint64_t at, uint64_t bytes,
                  struct twin_route *out_route);
/* fabric_move reads or writes through the fabric; the error names the hop. */
enum rig_status fabric_read(struct twin *w, int function, uint64_t at, void *out_data, size_t bytes,
                            struct rig_error *err);
enum rig_status fabric_write(struct twin *w, int function, uint64_t at, const void *data,
                             size_t bytes, struct rig_error *err);

/* ---- BARs (twin_bars.c) */

/* bar_at is the number of the function's memory BAR that holds the address, or -1; *out_offset the
   place in it. Decode is not looked at. */
int bar_at(const struct twin_function *f, uint64_t address, uint64_t *out_offset);
enum rig_status bar_read(struct twin *w, int function, int bar, uint64_t offset, void *out_data,
                         size_t bytes, struct rig_error *err);
enum rig_status bar_write(struct twin *w, int function, int bar, uint64_t offset, const void *data,
                          size_t bytes, struct rig_error *err);

extern const struct rig_view_ops twin_view_ops;

/* ---- the engine (twin_engine.c) */

void engine_empty_cache(struct twin_gpu *gpu);
json_t *engine_save(const struct twin_gpu *gpu);
enum rig_status engine_load(struct twin *w, struct twin_gpu *gpu, const json_t *state,
                            struct rig_error *err);

/* link_gpus makes the fabric of links; the GPUs are different ones, with memory (twin_hands.c). */
void link_gpus(struct twin *w, const int *gpus, int count);

/* ---- saved state (twin_state.c) */

enum rig_status twin_save(struct twin *w, json_t *out_state, struct rig_error *err);
enum rig_status twin_load(struct twin *w, const json_t *state, struct rig_error *err);

/* ---- faults (twin_fault.c) */

/* fault_step counts a step of the kind and is RIG_OK, or what is armed for it. */
enum rig_status fault_step(struct twin *w, enum twin_step kind, int function,
                           struct rig_error *err);
json_t *fault_save(const struct twin *w);
enum rig_status fault_load(struct twin *w, const json_t *state, struct rig_error *err);

#endif
