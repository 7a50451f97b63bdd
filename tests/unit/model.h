/* A plain, slow model of who holds and who reaches what, for tests: of GPUs' memory, system memory,
   pins, addresses, mappings, regions, reservations and lives. It is told what was asked and how it
   ended, says beforehand how it may end, and how much must be held, and may be, afterwards.

   Where a request was cut short, what it took may be held until its function's give-back: such
   things are MODEL_MAYBE, so that counts are intervals; without cuts both ends are the same. */
#ifndef RIG_TEST_MODEL_H
#define RIG_TEST_MODEL_H

#include "rigmem.h"

#define MODEL_GPUS 4
#define MODEL_LIVES 192
#define MODEL_BLOCKS 640
#define MODEL_MAPS 1024
#define MODEL_REGIONS 1024
#define MODEL_PAGES 16384

enum model_tri { MODEL_NO, MODEL_MAYBE, MODEL_MUST };

/* A page, wherever it is: whose memory above bit 52 (0: system memory by physical address, 1 + GPU:
   that GPU's memory, MODEL_PROCESS: the process's own), its number below. */
#define MODEL_PROCESS 15u
#define MODEL_NOWHERE UINT64_MAX
static inline uint64_t model_page(unsigned whose, uint64_t address)
{
    return (uint64_t)whose << 52 | address >> 12;
}

/* What is the same in all of a GPU's lives. */
struct model_gpu {
    bool translated;        /* behind an IOMMU */
    unsigned space;         /* GPUs of one space have one number */
    bool reach[MODEL_GPUS]; /* it reaches that GPU's own memory */
    bool client_reaches;    /* the bus client reaches its memory */
    unsigned levels;        /* of its page tables */
    uint64_t bytes, window; /* of its memory, and what the BAR shows */
    uint64_t first, end;    /* of what may be given out */
    bool gone;
};

struct model_life {
    int gpu;
    enum rig_life life;
    uint64_t pool;   /* bytes free at its beginning */
    uint64_t spread; /* bound of the page tables' bytes that its mappings ever needed */
    bool reserved;   /* a bus client was given some of its memory */
    bool dirty;      /* a flush was not confirmed or a step cut: empty tables may be kept */
};

enum model_kind { MODEL_GPU, MODEL_BAR, MODEL_HOST, MODEL_LENT };

/* Memory that a life's alloc or map_host got. */
struct model_block {
    int life;
    enum model_kind kind;
    bool known; /* false: a request that was cut short may have taken it; no page is known */
    bool reserved;
    enum model_tri stuck; /* a peer that ended may still reach it, until the owner's release */
    uint64_t address, bytes;
    uint64_t *page; /* bytes / 4096 of them */
    int under;      /* lent: the block whose pages they are; -1: the process's own */
};

enum model_state {
    MODEL_LIVE,  /* regions are over it */
    MODEL_CUT,   /* a map that was cut short: entries may be there */
    MODEL_WAIT,  /* its entries are gone, its memory is kept for others */
    MODEL_STUCK, /* its regions ended, its entries or translations may be there */
    MODEL_GONE,
};

/* What a life maps of a block: the owner's holds the memory and addresses, a peer's its pin and
   addresses. */
struct model_map {
    int life, block;
    enum model_state state;
    enum model_tri held;
    bool lingers; /* its memory went with a give-back that was cut short, its addresses may not */
    int regions;
};

struct model_region {
    struct rig_region handle;
    int map;
    int original; /* of map_peer's region: the region it maps; else -1 */
    bool out;
};

struct model_span {
    uint64_t least, most;
};

struct model {
    int gpus;
    struct model_gpu gpu[MODEL_GPUS];
    int now[MODEL_GPUS]; /* each GPU's latest life, -1: none */
    uint64_t system;     /* bytes of system memory */
    bool failed;         /* the machine */
    struct model_life life[MODEL_LIVES];
    struct model_block block[MODEL_BLOCKS];
    struct model_map map[MODEL_MAPS];
    struct model_region region[MODEL_REGIONS];
    int lives, blocks, maps, regions;
};

/* Sets of outcomes: bit 1 << enum rig_status. */
#define MODEL_SET(status) (1u << (status))

void model_end(struct model *m);

/* ---- how a request may end, without a fault */

/* What is free of the life's memory and of system memory, or goes back at the request's beginning;
   `more` of system memory may. */
struct model_room {
    uint64_t pool, system, more;
};
unsigned model_may_alloc(const struct model *m, int life, enum model_kind kind, uint64_t bytes,
                         struct model_room room);
unsigned model_may_map_host(const struct model *m, int life, uint64_t bytes, int under,
                            struct model_room room);
unsigned model_may_map_peer(const struct model *m, int life, int region, struct model_room room);
unsigned model_may_free(const struct model *m, int life, int region);
unsigned model_may_bus(const struct model *m, int life, int region);
unsigned model_may_take(const struct model *m, int gpu);

/* ---- what happened */

/* model_sweep: the life's request gives back what waited; not certain: it may have; cut: it may
   have, or leaves it to the give-back. */
void model_sweep(struct model *m, int life, bool certain, bool cut);

/* model_print prints every life and map to standard error. */
void model_print(const struct model *m);

/* model_new_block enters what alloc or map_host got, pages unknown yet (room for all of them), with
   its owner's mapping and region: the block's number. */
int model_new_block(struct model *m, int life, enum model_kind kind, uint64_t address,
                    uint64_t bytes, int under, struct rig_region handle);
/* model_cut_block is the same for a request that was cut short. */
void model_cut_block(struct model *m, int life, enum model_kind kind, uint64_t bytes, int under);

void model_map_peer(struct model *m, int life, int region, struct rig_region handle);
void model_cut_map_peer(struct model *m, int life, int region);
void model_free(struct model *m, int region, bool confirmed, bool cut);
void model_bus(struct model *m, int region);
int model_take(struct model *m, int gpu, uint64_t pool);

/* model_release: the life's release ended; `cut`: somewhere on the way. `now` is its life as seen.
 */
void model_release(struct model *m, int life, bool cut, enum rig_life now);

/* model_kept is whether others, or a reservation, keep the life's function taken. */
enum model_tri model_kept(const struct model *m, int life);

/* model_due is what will go back at the life's next request: pool and system for sure. */
struct model_room model_due(const struct model *m, int life);

/* model_handed_out: the page was given out anew, so what may have held it did not. */
void model_handed_out(struct model *m, uint64_t page);

/* model_stopped: the life's function was given back. */
void model_stopped(struct model *m, int life);

/* model_may_live is true iff the life may be `now`; after `finish`, releases that can end have. */
bool model_may_live(const struct model *m, int life, enum rig_life now, bool finish);

/* ---- what is held */

struct model_span model_grants(const struct model *m);
struct model_span model_pins(const struct model *m);
struct model_span model_addresses(const struct model *m);      /* blocks of addresses */
struct model_span model_system(const struct model *m);         /* bytes */
struct model_span model_pool(const struct model *m, int life); /* bytes, without tables */
uint64_t model_tables(const struct model *m, int life);        /* the most bytes of them */

/* model_holds is how the page is held by the owner of its memory. */
enum model_tri model_holds(const struct model *m, uint64_t page, int *out_block);

/* model_reaches is the map by which the life's work may reach the page at `address`, or -1; where
   a cut request's addresses are not known, any map of that request. *out_live: it must. */
int model_reaches(const struct model *m, int life, uint64_t address, uint64_t page, bool *out_live);

#endif
