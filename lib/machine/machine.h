/* The operations table of a machine's functions: what a back end (twin, physical, vfio, remote) is.

   A back end drives the functions of one machine. It knows nothing of uses, of releases that finish
   later, of who keeps a function and why: the function layer (function.h) counts and decides, and
   is the only caller of a back end. So a back end is always called with valid arguments, as each
   contract below states them, and never checks for misuse.

   Functions are named by their number in the machine's topology. Addresses of different kinds have
   different types: rig_bus_address is what a function puts on the bus (a physical address, or a
   device address where an IOMMU translates), process addresses are pointers.

   An access (configuration space, a view) never fails: where the function is gone or does not
   decode, it reads all ones and drops writes. Whether that happened is asked afterwards, by
   `failed`, before anything read is believed.

   Calls may come from several threads at once; calls that take, release, reset or map BARs of one
   function never overlap each other. A back end guards its own state with leaf locks and calls
   nothing of another room while it holds one.

   Not public. */
#ifndef RIG_MACHINE_H
#define RIG_MACHINE_H

#include "base/base.h"

#include <jansson.h>
#include <stdatomic.h>

struct rig_functions; /* the function layer's part of a machine */

/* The most contiguous system memory that can be asked for: one huge page of the common kind. */
#define RIG_CONTIGUOUS_MAX (2ull << 20)

/* What the machine itself says of one of its functions, taken or not. */
struct rig_function_now {
    struct rig_bdf bdf;
    enum rig_addressing addressing; /* how its requests are addressed once it is taken */
    bool endpoint;                  /* it can be taken: no bridge */
};

/* A BAR as it is now. size 0: there is none (or it is the upper half of a 64-bit one). */
struct rig_bar_now {
    uint64_t size; /* bytes, a power of two */
    bool assigned; /* `bus` holds */
    rig_bus_address bus;
    bool io, prefetchable;
};

/* The process's window on memory: of a BAR, or of system memory. (A bridge's windows have the word
   `window` in rigmem.h.) Two shapes:
   - `memory` is not NULL: the process reaches byte i at memory + i, and read and write do just
     that. System memory of a machine that is not remote always has this shape.
   - `memory` is NULL: only read and write reach it. */
struct rig_view {
    void *memory;
    uint64_t bytes;
    const struct rig_view_ops *ops;
    struct rig_machine *machine;
    int function;   /* whose BAR */
    int bar;        /* which one */
    uint64_t start; /* the view's first byte in the BAR */
};

/* How a view is reached and ended. An access of 1, 2, 4 or 8 bytes at a multiple of its size is one
   access of the bus; longer ones are made of aligned accesses of at most 8 bytes, in order of
   address. offset + bytes is at most view->bytes. */
struct rig_view_ops {
    void (*read)(const struct rig_view *view, uint64_t offset, void *out_data, size_t bytes);
    void (*write)(const struct rig_view *view, uint64_t offset, const void *data, size_t bytes);
    /* ends the view: nothing is reached through it any more. RIG_FAILED: it was cut short; the view
       is still there. */
    enum rig_status (*unmap)(struct rig_view *view, struct rig_error *err);
};

/* A request for system memory. */
struct rig_memory_request {
    uint64_t bytes;  /* a multiple of the page, not 0 */
    void *at;        /* where the process is to see it: page-aligned, [at, at + bytes) within one
                        reserved range and not in use; or NULL: anywhere */
    unsigned bits;   /* every bus address is below 2^bits; 12 to 64 */
    bool contiguous; /* one run of bus addresses; then bytes is at most RIG_CONTIGUOUS_MAX */
};

/* System memory as a function's DMA reaches it: allocated, or pinned. */
struct rig_grant {
    uint64_t id;                  /* the back end's name for it; never 0, never used again */
    void *memory;                 /* where the process sees its first byte (see `see`) */
    uint64_t bytes;               /* whole pages */
    struct rig_bus_range *ranges; /* in order from its first byte; multiples of the page; malloc'ed,
                                     and owned by whoever receives the grant */
    int count;
    const char *path; /* a file other programs may map, or NULL; the back end's own, as long as the
                         grant lasts */
    uint64_t offset; /* the file offset of the first byte; the bytes of the first range follow it */
};

/* The operations. Every member is there in every back end. `function` is the number of a function
   of the machine, taken by this machine object unless the contract says otherwise; err may be NULL.

   Common outcomes of those that return a status: RIG_FAILED, the machine or the function broke, or
   the operation was cut short; what it took, if anything, stays taken and is given back by
   `release` of the function. RIG_REFUSED always names in err what to change. What gives back (give,
   unmap, release) succeeds also where the function or the machine is gone. */
struct rig_machine_ops {
    /* makes *out_now what the machine says of the function, taken or not. */
    void (*list)(struct rig_machine *m, int function, struct rig_function_now *out_now);

    /* takes the function for this session, exclusively: no other session, of this process or
       another, takes it until `release`. Of the function it changes nothing but the bit that
       disables its legacy interrupt, and its bus mastering, which is off then; bridges above it
       forward requests. The function is an endpoint and is not taken by this machine object.
       RIG_REFUSED: another session has it, a driver is bound, a privilege is missing.
       RIG_FAILED: it reads all ones. */
    enum rig_status (*take)(struct rig_machine *m, int function, struct rig_error *err);

    /* ends the take: its views and grants that are still there end, its legacy interrupt bit is put
       back, and another session may take it. Called when the function's bus mastering is off or the
       function is gone. */
    enum rig_status (*release)(struct rig_machine *m, int function, struct rig_error *err);

    /* is the `width` (1, 2 or 4) bytes of configuration space at offset, a multiple of width, below
       4096: all ones, cut to the width, where the function is gone or has no such space. */
    uint32_t (*config_read)(struct rig_machine *m, int function, unsigned offset, unsigned width);

    /* writes them, as one access. */
    void (*config_write)(struct rig_machine *m, int function, unsigned offset, unsigned width,
                         uint32_t value);

    /* makes *out_bar BAR number `bar`, 0 to 5, as it is now. The function need not be taken. */
    void (*bar)(struct rig_machine *m, int function, int bar, struct rig_bar_now *out_bar);

    /* makes *out_view a view of `bytes` bytes at `start` of a memory BAR: combining, or uncached.
       start and bytes are multiples of the page, or the whole BAR; within the BAR; the BAR is
       assigned, and no view of it in the other mode is out. The function's memory decode is on.
       RIG_REFUSED: a driver claims the BAR, lockdown, or it cannot combine (then the uncached mode
       can be asked for). */
    enum rig_status (*map_bar)(struct rig_machine *m, int function, int bar, uint64_t start,
                               uint64_t bytes, bool combining, struct rig_view *out_view,
                               struct rig_error *err);

    /* makes *out_grant new system memory of the machine that the function's DMA reaches snooped,
       all zeros. RIG_NO_ROOM: there is none free now. RIG_REFUSED: there is no pool, none within so
       many bits ever, or a privilege is missing. */
    enum rig_status (*alloc)(struct rig_machine *m, int function,
                             const struct rig_memory_request *request, struct rig_grant *out_grant,
                             struct rig_error *err);

    /* makes *out_grant the pages that hold the bytes [start, start + bytes) of the process, kept
       where they are for the function, whose DMA reaches them, until `give`. Counted: pages pinned
       twice are given twice. start and bytes are multiples of the page. RIG_REFUSED: no such
       pages, pages of the process's own for a function that is addressed physically, beyond 2^bits,
       a limit on pinned memory. RIG_NO_ROOM: no room in the IOMMU's tables or addresses. */
    enum rig_status (*pin)(struct rig_machine *m, int function, void *start, uint64_t bytes,
                           unsigned bits, struct rig_grant *out_grant, struct rig_error *err);

    /* makes the process see, at its addresses [start, start + bytes), the memory that `alloc` gave
       there. What it gave in this process is seen from the first; what it gave in a process before,
       whose saved state this machine was opened with, from the first call that covers some of it.
       RIG_REFUSED: this process cannot map it. RIG_FAILED: the memory's file cannot be had. */
    enum rig_status (*see)(struct rig_machine *m, void *start, uint64_t bytes,
                           struct rig_error *err);

    /* gives a grant back: the memory of an `alloc`, or one pin. Memory's addresses in the process
       are reserved again, or go. Of memory, pages that are pinned stay what they are until the last
       pin of them is given; a process view of them stays too, unless the function is behind an
       IOMMU. Never RIG_REFUSED. */
    enum rig_status (*give)(struct rig_machine *m, int function, uint64_t id,
                            struct rig_error *err);

    /* keeps the process's addresses [start, start + bytes), page-aligned, free of everything but
       system memory that `alloc` puts there, as long as the machine is open. RIG_REFUSED: some of
       them are in use, or a limit on addresses. */
    enum rig_status (*reserve)(struct rig_machine *m, void *start, uint64_t bytes,
                               struct rig_error *err);

    /* resets the function: its bus mastering is off before and after, its BARs and legacy interrupt
       bit are what they were. RIG_REFUSED: it has no reset. */
    enum rig_status (*reset)(struct rig_machine *m, int function, struct rig_error *err);

    /* is true iff the function is gone (it reads all ones where it cannot), or the machine has
       failed; function -1 asks for the machine alone. Once true, true for good. */
    bool (*failed)(struct rig_machine *m, int function);

    /* fills out_state, an empty JSON object, with all that an open of the same machine in another
       process needs to go on from here: what is taken, granted, pinned, reserved. RIG_FAILED:
       memory ran out. */
    enum rig_status (*save)(struct rig_machine *m, json_t *out_state, struct rig_error *err);

    /* ends the machine object. What is taken stays taken where the state was saved and the back end
       keeps it (files, another process); a back end that lives in this process alone ends it. */
    void (*close)(struct rig_machine *m);
};

/* An open machine. A back end's own struct begins with it. */
struct rig_machine {
    const struct rig_machine_ops *ops;
    const char *kind;              /* "twin", "physical", "vfio", "remote" */
    struct rig_topology *topology; /* the machine's functions; its own copy */
    uint64_t page_size;            /* a power of two, 4 KiB or more */
    bool remote;                   /* reached through a transport */
    const char *memory_path; /* the file that holds system memory, for other programs to map, or
                                NULL; the back end's own */
    struct rig_functions *functions;
    struct rig_error broken; /* why this process cannot use the machine any more: its memory's
                                files, or its own memory. The back end writes it, under its lock,
                                before it sets is_broken. Not saved */
    atomic_bool is_broken;   /* once true, true for good, and `broken` stays as it is */
};

/* machine_broken is why this process cannot use the machine any more; NULL while it can. */
static inline const struct rig_error *machine_broken(const struct rig_machine *m)
{
    return atomic_load(&m->is_broken) ? &m->broken : NULL;
}

/* view_read and view_write reach a view, whatever its shape. */
static inline void view_read(const struct rig_view *view, uint64_t offset, void *out_data,
                             size_t bytes)
{
    view->ops->read(view, offset, out_data, bytes);
}

static inline void view_write(const struct rig_view *view, uint64_t offset, const void *data,
                              size_t bytes)
{
    view->ops->write(view, offset, data, bytes);
}

#endif
