/* The function layer: taken functions, what they hold, and releases that finish later. It stands
   between a back end (machine.h) and everything above, and refuses misuse so that back ends never
   see it.

   A function's life (HOLDERS, A function's life), enum rig_life:

     taken --release--> releasing --end of the last use--> released --off, given back--> stopped
                                                              |                             ^
                                                              +--> kept taken --------------+

   - Release turns bus mastering off and reads it back before anything else. All ones read back is
     no proof of off; then the function stays `released` (it may still master), holds all it held,
     and the next release, finish_releases or take of it tries again. A machine that failed for good
     counts as off.
   - The give-back runs once, when mastering is off and no use is out: callbacks that it begins,
     then views, pins and system memory that the function still holds, whoever has pointers to them,
     then callbacks that all of it went. One that is cut short goes on where it was at the next
     release, finish_releases or take; until then the function is `releasing`, or kept.
   - A function is kept taken while somebody keeps it (device_keep). Kept for a peer, the give-back
     runs and the claim alone stays. Kept for a reservation, the give-back gives back nothing, ever:
     each later device_free or device_unpin gives back that one thing, once mastering is off.

   What a function holds is a struct device_hold: made by device_alloc or device_pin, ended by
   device_free or device_unpin, which a maker calls once at most, also after the give-back (it then
   only frees the struct), or by device_abandon. The machine's end frees what is left.

   Locks: one mutex a machine, held for no call of a back end nor of a callback. The lives and
   counts below may be asked from any thread; the rest of one device's calls are its owner's, one at
   a time, except device_keep, device_unkeep and machine_finish_releases.

   Not public. The public part is in rigmem.h, Machines. */
#ifndef RIG_FUNCTION_H
#define RIG_FUNCTION_H

#include "machine/machine.h"

/* ---- machines */

/* machine_init makes m, the beginning of a back end's own struct, a machine that has taken nothing:
   kind and ops are constant, take_topology is owned (freed also on failure). RIG_FAILED: memory. */
enum rig_status machine_init(struct rig_machine *m, const struct rig_machine_ops *ops,
                             const char *kind, struct rig_topology *take_topology,
                             uint64_t page_size, struct rig_error *err);

/* machine_drop frees what machine_init made: for a back end whose open fails after it, and for its
   close. Devices that are still there go with it; nothing is released. */
void machine_drop(struct rig_machine *m);

/* machine_detach ends the process's part of m alone: what is taken stays taken, for a later open
   with the state that machine_save gave. Frees m and its devices. */
void machine_detach(struct rig_machine *m);

/* machine_save makes *out_state a new JSON object that holds the functions' lives, holds and keeps,
   and the back end's own state; views and give-back callbacks are not part of it. The caller drops
   it. RIG_FAILED: memory ran out. RIG_INVALID: a use is out. */
enum rig_status machine_save(struct rig_machine *m, json_t **out_state, struct rig_error *err);

/* machine_restore gives m, which has taken nothing, the functions that `state`, from machine_save,
   holds; the back end has its own part already. RIG_BAD_INPUT: it is not of this machine or breaks
   a rule; m holds nothing then. RIG_FAILED: memory. */
enum rig_status machine_restore(struct rig_machine *m, const json_t *state, struct rig_error *err);

/* machine_reserve keeps the process's addresses [start, start + bytes) for system memory at given
   addresses (rig_machine_ops.reserve). RIG_INVALID: not multiples of the page, empty, or beyond the
   end of addresses. */
enum rig_status machine_reserve(struct rig_machine *m, uint64_t start, uint64_t bytes,
                                struct rig_error *err);

/* machine_finish_releases finishes every release that can be finished now. Never fails: what cannot
   finish stays as it is. */
void machine_finish_releases(struct rig_machine *m);

/* machine_addressing is how requests of function number `function` are addressed, taken or not. */
enum rig_addressing machine_addressing(struct rig_machine *m, int function);

/* machine_masters is true unless the function, taken or not, is known to master the bus no more:
   its command register says so, or the machine failed for good. */
bool machine_masters(struct rig_machine *m, int function);

/* machine_bar makes *out_bar BAR `bar` of a function, taken or not, as it is now. `function` and
   `bar` (0 to 5) are in range. */
void machine_bar(struct rig_machine *m, int function, int bar, struct rig_bar_now *out_bar);

/* machine_device is the device of function number `function` that is not stopped, or NULL. */
struct rig_device *machine_device(struct rig_machine *m, int function);

/* ---- taken functions */

struct rig_machine *device_machine(const struct rig_device *dev);
int device_function(const struct rig_device *dev); /* its number in the machine's topology */
struct rig_bdf device_bdf(const struct rig_device *dev);
enum rig_addressing device_addressing(const struct rig_device *dev);

/* device_failed is true iff the function, or its machine, is gone: nothing read of it since is
   believed. */
bool device_failed(const struct rig_device *dev);

/* device_fail fills err with "left the bus" or "the machine failed" and returns RIG_FAILED. */
enum rig_status device_fail(const struct rig_device *dev, struct rig_error *err);

/* device_masters is true while the function may master the bus: taken, releasing, or released and
   not read back as off. */
bool device_masters(const struct rig_device *dev);

/* device_gave_back is true once the give-back ran: what the function held is gone. Never true of a
   function that a reservation keeps. */
bool device_gave_back(const struct rig_device *dev);

/* device_use begins a use: a release waits for its end. RIG_INVALID: the function is not taken any
   more. Every use that began ends by device_unuse, which finishes a release that waited for it. */
enum rig_status device_use(struct rig_device *dev, struct rig_error *err);
void device_unuse(struct rig_device *dev);

/* device_set_dma_bits bounds the system memory that later requests take for the function to bus
   addresses below 2^bits, 12 to 64. */
void device_set_dma_bits(struct rig_device *dev, unsigned bits);

/* Configuration space: rig_machine_ops.config_read and config_write. offset is a multiple of width,
   1, 2 or 4, and below 4096. Writing: nothing is written once the function is released. */
uint32_t device_config_read(const struct rig_device *dev, unsigned offset, unsigned width);
void device_config_write(struct rig_device *dev, unsigned offset, unsigned width, uint32_t value);

/* device_find_capability is the offset of the function's first PCI capability `id`, or of its first
   extended one, or 0. */
unsigned device_find_capability(const struct rig_device *dev, unsigned id);
unsigned device_find_extended(const struct rig_device *dev, unsigned id);

/* device_reset resets the function (rig_machine_ops.reset). RIG_INVALID: it is not taken. */
enum rig_status device_reset(struct rig_device *dev, struct rig_error *err);

/* device_map_bar makes *out_view a view of `bytes` bytes at `start` of BAR `bar`, and turns memory
   decode on first. The view ends by device_unmap or at the function's give-back, after which the
   pointer still is device_unmap's to free and reads all ones.
   RIG_INVALID  the function is not taken; no such memory BAR or bytes in it; not multiples of the
                page where it is not the whole BAR; the BAR is mapped in the other mode
   RIG_REFUSED  the BAR has no address, or as rig_machine_ops.map_bar
   RIG_FAILED   as rig_machine_ops.map_bar; memory ran out */
enum rig_status device_map_bar(struct rig_device *dev, int bar, uint64_t start, uint64_t bytes,
                               bool combining, struct rig_view **out_view, struct rig_error *err);

/* device_map_bar_again is the same for a view that the process before had, of a restored function,
   which may be released; RIG_INVALID where it was given back. */
enum rig_status device_map_bar_again(struct rig_device *dev, int bar, uint64_t start,
                                     uint64_t bytes, bool combining, struct rig_view **out_view,
                                     struct rig_error *err);

/* device_unmap ends a view and frees it. RIG_FAILED: it was cut short; the function's give-back
   ends it, and *view is freed then: the caller lets go of it in any case. */
enum rig_status device_unmap(struct rig_device *dev, struct rig_view *view, struct rig_error *err);

/* What a function holds of system memory. `grant` is meaningful until the hold is given back. */
struct device_hold {
    struct rig_grant grant;
    struct rig_device *device;
    struct device_hold *next, *previous; /* the device's lists */
    struct device_hold *going;           /* the next of those that go back together */
    uint64_t id;                         /* unique in the machine, in the order they were made */
    bool pinned;                         /* a pin; else an allocation */
    bool placed;                         /* an allocation where it was asked for */
    bool seen;                           /* the process sees grant.memory (device_see) */
    bool held;                           /* the function still holds it */
    bool let_go;    /* its maker freed it; it goes back when mastering is off */
    bool abandoned; /* its maker let go of it; it goes back at the give-back alone */
};

/* device_alloc makes *out_hold new system memory of `bytes` bytes, rounded up to the page, zeroed,
   within the function's bits: at the process's address `at` within a reserved range, or anywhere
   (at 0); one run of bus addresses if `contiguous`. RIG_INVALID  not taken; bytes 0, or more than
   RIG_CONTIGUOUS_MAX and contiguous; `at` not a multiple of the page, not reserved, or in use else
   as rig_machine_ops.alloc */
enum rig_status device_alloc(struct rig_device *dev, uint64_t bytes, uint64_t at, bool contiguous,
                             struct device_hold **out_hold, struct rig_error *err);

/* device_pin makes *out_hold a pin of the pages that hold the `bytes` bytes at the process's
   address `start`. RIG_INVALID: not taken; bytes 0; beyond the end of addresses; else as
   rig_machine_ops.pin */
enum rig_status device_pin(struct rig_device *dev, uint64_t start, uint64_t bytes,
                           struct device_hold **out_hold, struct rig_error *err);

/* device_see makes the process see the hold's memory at grant.memory, which it need not yet where a
   saved state brought the memory back. RIG_REFUSED, RIG_FAILED: as rig_machine_ops.see. The hold's
   maker calls it, one call at a time. */
enum rig_status device_see(struct device_hold *hold, struct rig_error *err);

/* device_free gives an allocation back, device_unpin a pin, and frees hold. After the give-back
   they only free it. While the function is released and may still master, and where a reservation
   keeps it, the memory goes back when mastering is off. RIG_FAILED: it was cut short; the hold
   stays with the function until its give-back, and the caller lets go of it in any case. */
enum rig_status device_free(struct rig_device *dev, struct device_hold *hold,
                            struct rig_error *err);
enum rig_status device_unpin(struct rig_device *dev, struct device_hold *hold,
                             struct rig_error *err);

/* device_abandon leaves the hold with the function until its give-back, for ever where a
   reservation keeps it: the caller lets go of it. */
void device_abandon(struct rig_device *dev, struct device_hold *hold);

/* device_hold_by_id is the hold with that id that a restored machine's device has, for its maker of
   the process before to go on with, or NULL. */
struct device_hold *device_hold_by_id(struct rig_device *dev, uint64_t id);

/* Where a function's give-back is. */
enum give_back_stage {
    GIVE_BACK_BEGINS, /* before what the function holds goes */
    GIVE_BACK_DONE,   /* all of it went; a give-back that is cut short comes here when it goes on */
};
typedef void give_back_callback(void *context, enum give_back_stage stage);

/* device_on_give_back has `callback(context, stage)` called once at each stage of the function's
   give-back, in that order: mastering is off, and no lock of this layer is held. Callbacks run in
   the order they were given. RIG_FAILED: memory. device_forget_give_back takes one back. */
enum rig_status device_on_give_back(struct rig_device *dev, give_back_callback *callback,
                                    void *context, struct rig_error *err);
void device_forget_give_back(struct rig_device *dev, give_back_callback *callback, void *context);

/* Who keeps a function taken. */
enum device_keep {
    DEVICE_KEEP_PEER,     /* a GPU that maps its memory, or may still write it */
    DEVICE_KEEP_RESERVED, /* a bus client that was given its memory: until the session ends */
};

/* device_keep keeps the function taken, once more, for function number `who`. RIG_FAILED: memory.
   device_unkeep ends one keep for a peer; the last one finishes a release that it held up. */
enum rig_status device_keep(struct rig_device *dev, enum device_keep why, int who,
                            struct rig_error *err);
void device_unkeep(struct rig_device *dev, int who);

/* device_reserved is true iff a bus client keeps the function. */
bool device_reserved(const struct rig_device *dev);

/* device_kept_why writes who keeps the function, for people, into text: "0000:41:00.0 maps its
   memory"; empty where nobody does. Returns text. */
char *device_kept_why(const struct rig_device *dev, char *text, size_t bytes);

#endif
