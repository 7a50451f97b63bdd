/* The twin: a machine simulated from a topology's facts. It is the judge of what the library does,
   so it behaves as hardware does, from the bytes that stand in its registers and memory, and not as
   any other part of the library believes.

   What is true of a twin's hardware:

   Configuration space is made from the facts: ids, class, command register, BARs (writable, sized
   by all ones, moved by a write), bridges' bus numbers and windows, PCI Express and ACS
   capabilities, and the registers of registers.h on GPUs. A fact that is unknown is what a firmware
   sets, or none: bridges decode and forward; functions decode, and master the bus unless they are
   GPUs, which do so when told; a memory BAR of known size without an address gets one; an ACS
   capability that nobody saw is none; an IOMMU that nobody saw is none.

   Memory lies behind every memory BAR of known size. A GPU's memory may be larger than its memory
   BAR, which then shows its beginning, or smaller. System memory is 8 GiB from 4 GiB up in pages of
   4 KiB, or what the capture says, above any BAR that lies there.

   A request of a function goes hop by hop:
   - It leaves only where the function's bus mastering is on, and passes a bridge upwards only where
     the bridge's is. A function that is gone takes and sends nothing.
   - A function whose own BAR holds the address takes it; a bridge whose windows hold it turns it
     around to the bus below, unless a function or bridge that the request passed, the one where it
     turns included, has an ACS control bit that redirects (request redirect, completion redirect,
     egress control): then it goes on upwards. A bridge whose windows nobody knows forwards what the
     BARs below it hold.
   - On the way down a request that turned around and meets such a bit goes back up to the root
     complex, which is how its completion would go. One that comes from the root complex passes.
   - Downwards a bridge forwards, and a function takes, only where its memory decode is on.
   - At the root complex an IOMMU translates the requests of a function behind one, by that
     function's tables, into system memory alone. Others reach system memory by physical address,
   and BARs below this or another host bridge only where the root complex carries peer requests: on
     AMD's processors from Zen on, and between host bridges that Linux's list of the machine's
   kernel names as able to. Others drop them.
   - What is not carried reads all ones; a write is lost.

   A GPU's engine reads its tables from the bytes in its memory, by the decoders of its format, and
   caches each 4 KiB translation it used until a flush empties the cache, and for nothing else: not
   for a write to a table, a new root, or a released function. Its system memory accesses are
   requests as above. A direct link goes to the other GPU's memory whatever the bus does, unless
   that GPU is gone.

   Time is virtual: a microsecond an operation, a millisecond a look at a flush. Nothing depends on
   the process, so the same calls give the same bytes and addresses.

   Not public. The public part is in rigmem.h, Machines. */
#ifndef RIG_TWIN_H
#define RIG_TWIN_H

#include "machine/machine.h"

#include "gpu/format/format.h"

/* ---- opening */

/* twin_open is rig_twin_open with a seed, which decides how many looks a flush takes. */
enum rig_status twin_open(const struct rig_topology *t, const char *directory, uint64_t seed,
                          struct rig_machine **out_machine, struct rig_error *err);

/* twin_reopen makes *out_machine the twin of t whose memory is in `directory`, or in no file at
   all, and that machine_save saved as `state`, with the functions it had taken. Reserved addresses
   are reserved again, and system memory is where it was in the process. RIG_BAD_INPUT: state is not
   of this machine or breaks a rule. RIG_REFUSED: the directory, or the process's addresses, cannot
   be used. RIG_FAILED: memory ran out. */
enum rig_status twin_reopen(const struct rig_topology *t, const char *directory,
                            const json_t *state, struct rig_machine **out_machine,
                            struct rig_error *err);

/* twin_lost_memory makes *out_lost true iff the memory file of a GPU that is taken, or that of
   system memory of which some is out, is gone, or not as long as it was: the memory may hold
   anything. RIG_FAILED: the file system does not tell. twin_make_memory makes the file of system
   memory. */
enum rig_status twin_lost_memory(struct rig_machine *m, bool *out_lost, struct rig_error *err);
enum rig_status twin_make_memory(struct rig_machine *m, struct rig_error *err);

/* twin_is_file is true iff a file of a twin's directory is called so: FUNCTION-memory,
   FUNCTION-barN, or the one of system memory. */
bool twin_is_file(const char *name);

/* twin_is is true iff m is a twin: all functions below want one. */
bool twin_is(const struct rig_machine *m);

/* ---- hardware, set and read from outside */

/* twin_config_read and twin_config_write reach configuration space of any function, as its own
   firmware would: no take, no gone. */
uint32_t twin_config_read(struct rig_machine *m, int function, unsigned offset, unsigned width);
void twin_config_write(struct rig_machine *m, int function, unsigned offset, unsigned width,
                       uint32_t value);

/* twin_acs_offset is where the function's ACS capability is, or 0. */
unsigned twin_acs_offset(struct rig_machine *m, int function);

/* twin_set_format has the GPU walk tables of that format, instead of the one its ids tell (the
   plain one where they tell none). twin_format is the one it walks, NULL for what is no GPU. */
void twin_set_format(struct rig_machine *m, int gpu, const struct rig_format *format);
const struct rig_format *twin_format(struct rig_machine *m, int gpu);

/* twin_link joins the GPUs by direct links, each to each: gpus[i] is peer number i to the others,
   and in formats whose linked memories are one space lies at i times the largest one's memory,
   rounded up to a power of two. A later call takes the place of an earlier one. RIG_INVALID: none
   of them may be twice or no GPU with memory, and there are 2 to 256. */
enum rig_status twin_link(struct rig_machine *m, const int *gpus, int count, struct rig_error *err);

/* twin_memory_bytes is how much memory of its own the GPU has, 0 for none. */
uint64_t twin_memory_bytes(struct rig_machine *m, int gpu);

/* twin_memory_read and twin_memory_write reach the GPU's memory itself, past every table and bus.
 */
enum rig_status twin_memory_read(struct rig_machine *m, int gpu, uint64_t offset, void *out_data,
                                 size_t bytes, struct rig_error *err);
enum rig_status twin_memory_write(struct rig_machine *m, int gpu, uint64_t offset, const void *data,
                                  size_t bytes, struct rig_error *err);

/* twin_found_again says that the process has the bytes [start, start + bytes), whole pages of its
   own, which an earlier process that ran this twin had there and pinned: devices reach them again.
   Until then the IOMMU does not translate to them. */
void twin_found_again(struct rig_machine *m, uint64_t start, uint64_t bytes);

/* ---- the fabric */

/* Where a request ends. */
enum twin_end {
    TWIN_END_SYSTEM,      /* system memory, at `address` */
    TWIN_END_PROCESS,     /* a page of the process that an IOMMU maps, at `address` */
    TWIN_END_BAR,         /* byte `address` of BAR `bar` of function `hop` */
    TWIN_END_GONE,        /* `hop` is gone, or the machine failed */
    TWIN_END_MASTER_OFF,  /* `hop` does not master the bus */
    TWIN_END_DECODE_OFF,  /* the address is in a BAR of `hop`, which does not decode */
    TWIN_END_UNCLAIMED,   /* nothing takes it: below bridge `hop`, or on the machine (hop -1) */
    TWIN_END_NOT_CARRIED, /* the root complex drops peer requests between `bridge` and `to` */
    TWIN_END_IOMMU,       /* the IOMMU has no translation for `hop`'s request */
    TWIN_END_NO_PARENT,   /* nobody knows what is above `hop` */
};

#define TWIN_HOPS 40

/* A request's way. hops[] are the functions it passed, -1 for the root complex, oldest first; the
   first is the requester. Longer ways keep their first TWIN_HOPS. */
struct twin_route {
    enum twin_end end;
    int hop; /* the function where it ended, or -1: the root complex */
    int bar;
    int bridge, to; /* host bridges, for TWIN_END_NOT_CARRIED */
    uint64_t address;
    uint64_t bytes; /* this many from the address go the same way */
    int hops[TWIN_HOPS];
    int hop_count;
};

/* twin_route finds the way of a request of `function` for up to `bytes` bytes at `at`. */
void twin_route(struct rig_machine *m, int function, rig_bus_address at, uint64_t bytes,
                struct twin_route *out_route);

/* ---- the engine */

/* How many translations the GPU's cache holds. */
size_t twin_cached(struct rig_machine *m, int gpu);

/* twin_translate is where the GPU's work reaches the byte at `at` now: by the cache, else by the
   tables, without filling the cache. False: nowhere. */
struct twin_translation {
    enum rig_memory_kind memory;
    uint64_t
        address;  /* own: offset in its memory; system: bus address; link: offset in the other's */
    uint8_t peer; /* of a link */
    int gpu;      /* whose memory it is: itself, or the linked GPU; -1 for system memory */
    bool readable, writable;
    bool cached; /* the cache said so */
};
bool twin_translate(struct rig_machine *m, int gpu, rig_gpu_address at,
                    struct twin_translation *out_translation);

/* twin_tables is twin_translate by the tables alone, past the cache. */
bool twin_tables(struct rig_machine *m, int gpu, rig_gpu_address at,
                 struct twin_translation *out_translation);

/* twin_walk makes *out_walk (machine/walk.h) the GPU's own walk for `at`, by the root it was told
   of; no step where it was told of none. RIG_FAILED: a table cannot be read from its file. */
struct walk;
enum rig_status twin_walk(struct rig_machine *m, int gpu, rig_gpu_address at, struct walk *out_walk,
                          struct rig_error *err);

/* ---- faults */

/* The kinds of operations that are steps. */
enum twin_step {
    TWIN_STEP_TAKE,
    TWIN_STEP_RELEASE,
    TWIN_STEP_MAP,
    TWIN_STEP_UNMAP,
    TWIN_STEP_ALLOC,
    TWIN_STEP_FREE,
    TWIN_STEP_PIN,
    TWIN_STEP_UNPIN,
    TWIN_STEP_RESERVE,
    TWIN_STEP_RESET,
    TWIN_STEP_FLUSH,
    TWIN_STEPS,                /* how many kinds there are */
    TWIN_STEP_ANY = TWIN_STEPS /* for twin_arm: all of them */
};

enum twin_fault {
    TWIN_FAULT_NONE,
    TWIN_FAULT_REFUSE,
    TWIN_FAULT_NO_ROOM,
    TWIN_FAULT_CUT,
};

enum twin_flush {
    TWIN_FLUSH_OK,
    TWIN_FLUSH_LATE,
    TWIN_FLUSH_NEVER,
};

/* twin_arm has the nth step of that kind from now on, 1 for the next, end so; once. n 0, or
   TWIN_FAULT_NONE, disarms. A step that cannot end so does not: only a take, map, alloc, pin,
   reserve and reset are refused, only an alloc and a pin find no room; all can be cut short, which
   does nothing and ends in RIG_FAILED. */
void twin_arm(struct rig_machine *m, enum twin_fault fault, enum twin_step kind, uint64_t n);

/* twin_quiet, on: what follows is no step, counted by nobody and ended by no fault: a process takes
   up what another left. */
void twin_quiet(struct rig_machine *m, bool on);

/* twin_fired is true iff the armed step came and ended so. */
bool twin_fired(struct rig_machine *m);

void twin_set_flush(struct rig_machine *m, int gpu, enum twin_flush flush);
void twin_set_gone(struct rig_machine *m, int function); /* it and all below it, for good */
void twin_set_failed(struct rig_machine *m);             /* the machine, for good */

/* twin_steps is how many steps of a kind, or of all, there were since the twin was opened. */
uint64_t twin_steps(struct rig_machine *m, enum twin_step kind);

/* ---- what it holds */

/* What is taken, for a judge to hold against what should be. */
struct twin_audit {
    uint64_t free_bytes;   /* of system memory */
    uint64_t grants, pins; /* allocations, pins */
    uint64_t taken;        /* functions */
    uint64_t views;
};
void twin_audit(struct rig_machine *m, struct twin_audit *out_audit);

/* twin_page_held is true iff the page of system memory at that physical address is allocated or
   pinned. */
bool twin_page_held(struct rig_machine *m, uint64_t physical);

/* twin_page_held_for is true iff an allocation or a pin of that function holds it. */
bool twin_page_held_for(struct rig_machine *m, int function, uint64_t physical);

#endif
