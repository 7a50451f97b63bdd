/* The function layer's own shapes, shared by its files. Not for anything else. */
#ifndef RIG_FUNCTIONS_H
#define RIG_FUNCTIONS_H

#include "machine/function.h"

#include <pthread.h>

/* A view that was handed out. `dead`: the give-back ended it, and only its maker's unmap is left.
   `let_go`: its maker unmapped it while a give-back was under way, which ends it and frees it. */
struct device_view {
    struct rig_view view; /* first: what the maker has */
    struct device_view *next;
    bool combining;
    bool dead;
    bool let_go;
};

struct keeper {
    int function;
    enum device_keep why;
    unsigned count; /* never 0 */
};

struct give_back_call {
    give_back_callback *callback;
    void *context;
    bool begun; /* it was told that the give-back begins */
};

/* A taken function. Guarded by the machine's lock: life, off, busy, again, stopping, uses, keepers,
   and the lists. `off` is true only from a release on, and stays. gave_back implies off. Life is
   stopped iff the claim was given back, and releasing, with no use out and `off`, while the
   give-back is under way or was cut short. One thread at a time finishes the release: it has set
   `busy`; others that come meanwhile set `again`, and it goes round once more. */
struct rig_device {
    struct rig_machine *machine;
    struct rig_device *next;
    int function;
    enum rig_addressing addressing;
    unsigned bits;
    enum rig_life life;
    bool off, gave_back, busy, again, stopping;
    unsigned uses;
    struct keeper *keeper;
    size_t keepers;
    struct device_hold *holds; /* newest first */
    struct device_hold *left;  /* given back, and still their makers' to let go of */
    struct device_view *views;
    struct give_back_call *call;
    size_t calls;
};

/* A hold that a restore made; NULL once it was freed. */
struct restored_hold {
    uint64_t id;
    struct device_hold *hold;
};

/* The function layer's part of a machine. by_function[i] is the device of function i that is not
   stopped, or NULL. */
struct rig_functions {
    pthread_mutex_t lock;
    struct rig_device *devices; /* every one there ever was, newest first */
    struct rig_device **by_function;
    uint64_t last_hold;
    void *placed; /* allocations at addresses that were asked for, by these: a tree (search.h) */
    struct rig_bus_range *reserved; /* process addresses; in the order they were reserved */
    size_t reserved_count;
    bool ending;                    /* keeps count no more */
    struct restored_hold *restored; /* in order of id, for device_hold_by_id */
    size_t restored_count;
};

static inline void functions_lock(const struct rig_machine *m)
{
    pthread_mutex_lock(&m->functions->lock);
}

static inline void functions_unlock(const struct rig_machine *m)
{
    pthread_mutex_unlock(&m->functions->lock);
}

/* device_give_back gives back what the function holds: callbacks, views, pins, memory. It goes on
   where an earlier one failed. */
enum rig_status device_give_back(struct rig_device *dev, struct rig_error *err);

/* device_end_views ends every view; their structs stay their makers'. It goes on where an earlier
   one failed. */
enum rig_status device_end_views(struct rig_device *dev, struct rig_error *err);

/* device_has_reservation is true iff a reservation keeps the device, and the machine does not end.
   The machine's lock is held. */
bool device_has_reservation(const struct rig_device *dev);

/* device_give_back_let_go gives back what makers freed while the function might still master. */
enum rig_status device_give_back_let_go(struct rig_device *dev, struct rig_error *err);

/* hold_new makes a hold of the device's, not in its list yet; NULL when memory ran out. hold_enter
   puts it there, newest. RIG_FAILED: memory ran out. RIG_INVALID: its addresses are in use. */
struct device_hold *hold_new(struct rig_device *dev, bool pinned);
enum rig_status hold_enter(struct device_hold *hold);

/* is_reserved is true iff [start, start + bytes) lies within one reserved range. */
bool is_reserved(const struct rig_machine *m, uint64_t start, uint64_t bytes);

/* device_drop frees the device and all that hangs on it, giving nothing back. */
void device_drop(struct rig_device *dev);

/* device_new makes a device, not yet in the machine's lists; NULL when memory ran out. */
struct rig_device *device_new(struct rig_machine *m, int function);

/* device_finish brings a release that began as far as it goes. A second thread that comes meanwhile
   leaves it to the first. It does nothing to a function that is taken or stopped. */
enum rig_status device_finish(struct rig_device *dev, struct rig_error *err);

/* device_enter puts a new device where others see it, unless a device of its function is there:
   that one is the result, else NULL. */
struct rig_device *device_enter(struct rig_device *dev);

/* functions_forget drops every device and hold, as if there had been none. */
void functions_forget(struct rig_machine *m);

/* device_must_be_taken is RIG_INVALID, with why, unless the function's life is taken. */
enum rig_status device_must_be_taken(const struct rig_device *dev, struct rig_error *err);

#endif
