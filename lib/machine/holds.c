/* What a function holds: system memory and pins; and how all it holds is given back. */
#include "machine/functions.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

/* ---- holds */

/* Orders allocations by where the process sees them; ones that overlap are equal. */
static int by_place(const void *a, const void *b)
{
    const struct rig_grant *x = &((const struct device_hold *)a)->grant;
    const struct rig_grant *y = &((const struct device_hold *)b)->grant;
    uint64_t first = (uint64_t)(uintptr_t)x->memory, other = (uint64_t)(uintptr_t)y->memory;
    if (first > other + (y->bytes - 1))
        return 1;
    return first + (x->bytes - 1) < other ? -1 : 0;
}

struct device_hold *hold_new(struct rig_device *dev, bool pinned)
{
    struct device_hold *hold = calloc(1, sizeof *hold);
    if (!hold)
        return NULL;
    hold->device = dev;
    hold->pinned = pinned;
    return hold;
}

static void link_hold(struct device_hold **list, struct device_hold *hold)
{
    hold->previous = NULL;
    hold->next = *list;
    if (*list)
        (*list)->previous = hold;
    *list = hold;
}

static void unlink_hold(struct device_hold **list, struct device_hold *hold)
{
    if (hold->previous)
        hold->previous->next = hold->next;
    else
        *list = hold->next;
    if (hold->next)
        hold->next->previous = hold->previous;
}

/* Makes the hold's addresses its own. RIG_INVALID: another has some of them; RIG_FAILED: memory. */
static enum rig_status claim_place(struct device_hold *hold)
{
    struct rig_functions *all = hold->device->machine->functions;
    functions_lock(hold->device->machine);
    struct device_hold *const *node = tsearch(hold, &all->placed, by_place);
    enum rig_status status = !node ? RIG_FAILED : *node == hold ? RIG_OK : RIG_INVALID;
    functions_unlock(hold->device->machine);
    return status;
}

static void leave_place(struct device_hold *hold)
{
    struct rig_functions *all = hold->device->machine->functions;
    functions_lock(hold->device->machine);
    tdelete(hold, &all->placed, by_place);
    functions_unlock(hold->device->machine);
}

/* Makes the hold, whose place is its own, one of what its function holds. */
static void begin_hold(struct device_hold *hold)
{
    struct rig_device *dev = hold->device;
    functions_lock(dev->machine);
    hold->held = true;
    if (hold->id == 0)
        hold->id = ++dev->machine->functions->last_hold;
    link_hold(&dev->holds, hold);
    functions_unlock(dev->machine);
}

enum rig_status hold_enter(struct device_hold *hold)
{
    enum rig_status status = hold->placed ? claim_place(hold) : RIG_OK;
    if (status == RIG_OK)
        begin_hold(hold);
    return status;
}

/* Takes the hold out of what the function holds. The machine's lock is held. */
static void hold_leave(struct device_hold *hold)
{
    unlink_hold(&hold->device->holds, hold);
    if (hold->placed)
        tdelete(hold, &hold->device->machine->functions->placed, by_place);
    hold->held = false;
}

static int by_id(const void *key, const void *slot)
{
    uint64_t id = *(const uint64_t *)key;
    uint64_t other = ((const struct restored_hold *)slot)->id;
    return (id > other) - (id < other);
}

static struct restored_hold *find_restored(struct rig_functions *all, uint64_t id)
{
    if (!all->restored)
        return NULL;
    return bsearch(&id, all->restored, all->restored_count, sizeof *all->restored, by_id);
}

static void free_hold(struct device_hold *hold)
{
    functions_lock(hold->device->machine);
    struct restored_hold *slot = find_restored(hold->device->machine->functions, hold->id);
    if (slot)
        slot->hold = NULL;
    unlink_hold(&hold->device->left, hold);
    functions_unlock(hold->device->machine);
    free(hold->grant.ranges);
    free(hold);
}

struct device_hold *device_hold_by_id(struct rig_device *dev, uint64_t id)
{
    functions_lock(dev->machine);
    struct restored_hold *slot = find_restored(dev->machine->functions, id);
    struct device_hold *hold = slot ? slot->hold : NULL;
    functions_unlock(dev->machine);
    return hold && hold->device == dev && !hold->abandoned && !hold->let_go ? hold : NULL;
}

/* Has the back end end the grant, then takes the hold out of the list; the struct is freed where
   its maker let go of it. */
static enum rig_status give_hold_back(struct device_hold *hold, struct rig_error *err)
{
    struct rig_machine *m = hold->device->machine;
    enum rig_status status = m->ops->give(m, hold->device->function, hold->grant.id, err);
    if (status != RIG_OK)
        return status;
    functions_lock(m);
    hold_leave(hold);
    link_hold(&hold->device->left, hold);
    bool ours = hold->abandoned || hold->let_go;
    functions_unlock(m);
    if (ours)
        free_hold(hold);
    return RIG_OK;
}

/* ---- system memory */

/* RIG_INVALID: system memory cannot go at address `at`. */
static enum rig_status refuse_place(struct rig_device *dev, uint64_t at, const char *why,
                                    struct rig_error *err)
{
    char name[RIG_BDF_MAX];
    return rig_fail(err, RIG_INVALID, rig_bdf_format(device_bdf(dev), name),
                    "system memory cannot go at 0x%llx: %s", (unsigned long long)at, why);
}

/* The addresses are the hold's before the back end is asked, so that it never gets two requests for
   the same. */
static enum rig_status take_memory(struct rig_device *dev, const struct rig_memory_request *request,
                                   struct device_hold **out_hold, struct rig_error *err)
{
    struct rig_machine *m = dev->machine;
    struct device_hold *hold = hold_new(dev, false);
    if (!hold)
        return rig_fail_memory(err);
    hold->grant = (struct rig_grant){.memory = request->at, .bytes = request->bytes};
    hold->placed = request->at != NULL;
    hold->seen = true;
    enum rig_status status = hold->placed ? claim_place(hold) : RIG_OK;
    if (status != RIG_OK) {
        free(hold);
        return status == RIG_INVALID ? refuse_place(dev, (uint64_t)(uintptr_t)request->at,
                                                    "other memory is there", err)
                                     : rig_fail_memory(err);
    }
    struct rig_grant grant;
    status = m->ops->alloc(m, dev->function, request, &grant, err);
    if (status == RIG_OK) {
        functions_lock(m); /* others compare their places with the hold's */
        hold->grant = grant;
        functions_unlock(m);
        begin_hold(hold);
        *out_hold = hold;
        return RIG_OK;
    }
    if (hold->placed)
        leave_place(hold);
    free(hold);
    return status;
}

enum rig_status device_alloc(struct rig_device *dev, uint64_t bytes, uint64_t at, bool contiguous,
                             struct device_hold **out_hold, struct rig_error *err)
{
    struct rig_machine *m = dev->machine;
    char name[RIG_BDF_MAX];
    enum rig_status status = device_must_be_taken(dev, err);
    if (status != RIG_OK)
        return status;
    rig_bdf_format(device_bdf(dev), name);
    struct rig_memory_request request = {.bits = dev->bits, .contiguous = contiguous};
    uint64_t end;
    if (bytes == 0 || !rig_round_up(bytes, m->page_size, &request.bytes))
        return rig_fail(err, RIG_INVALID, name, "%llu bytes of system memory: out of range",
                        (unsigned long long)bytes);
    if (contiguous && request.bytes > RIG_CONTIGUOUS_MAX)
        return rig_fail(err, RIG_INVALID, name, "contiguous memory is at most 2 MiB");
    if ((at & (m->page_size - 1)) != 0 || !rig_add(at, request.bytes, &end) || end > UINTPTR_MAX)
        return refuse_place(dev, at, "no pages begin there", err);
    if (at != 0 && !is_reserved(m, at, request.bytes))
        return refuse_place(dev, at, "the addresses are not reserved", err);
    request.at = (void *)(uintptr_t)at;
    return take_memory(dev, &request, out_hold, err);
}

enum rig_status device_pin(struct rig_device *dev, uint64_t start, uint64_t bytes,
                           struct device_hold **out_hold, struct rig_error *err)
{
    struct rig_machine *m = dev->machine;
    char name[RIG_BDF_MAX];
    enum rig_status status = device_must_be_taken(dev, err);
    if (status != RIG_OK)
        return status;
    uint64_t end, last;
    if (bytes == 0 || !rig_add(start, bytes, &end) || !rig_round_up(end, m->page_size, &last) ||
        last > UINTPTR_MAX)
        return rig_fail(err, RIG_INVALID, rig_bdf_format(device_bdf(dev), name),
                        "0x%llx+0x%llx is no range of addresses", (unsigned long long)start,
                        (unsigned long long)bytes);
    uint64_t first = start & ~(m->page_size - 1);
    struct device_hold *hold = hold_new(dev, true);
    if (!hold)
        return rig_fail_memory(err);
    status = m->ops->pin(m, dev->function, (void *)(uintptr_t)first, last - first, dev->bits,
                         &hold->grant, err);
    if (status != RIG_OK) {
        free(hold);
        return status;
    }
    hold_enter(hold);
    *out_hold = hold;
    return RIG_OK;
}

enum rig_status device_see(struct device_hold *hold, struct rig_error *err)
{
    if (hold->seen)
        return RIG_OK;
    struct rig_machine *m = hold->device->machine;
    enum rig_status status = m->ops->see(m, hold->grant.memory, hold->grant.bytes, err);
    hold->seen = status == RIG_OK;
    return status;
}

/* Whether what is freed now goes with the give-back: mastering may be on, or the give-back is under
   way or was cut short. The machine's lock is held. */
static bool goes_later(const struct rig_device *dev)
{
    bool pending = dev->life == RIG_LIFE_RELEASING ||
                   (dev->life == RIG_LIFE_KEPT && !dev->gave_back && !device_has_reservation(dev));
    return dev->life == RIG_LIFE_RELEASED || (pending && dev->uses == 0);
}

/* What a maker's free does: at once, when mastering is off, or nothing more. */
static enum rig_status let_go(struct rig_device *dev, struct device_hold *hold,
                              struct rig_error *err)
{
    functions_lock(dev->machine);
    bool held = hold->held;
    bool later = goes_later(dev);
    if (held && later)
        hold->let_go = true;
    functions_unlock(dev->machine);
    if (held && later)
        return RIG_OK;
    if (!held) {
        free_hold(hold);
        return RIG_OK;
    }
    enum rig_status status = give_hold_back(hold, err);
    if (status == RIG_OK)
        free_hold(hold);
    else
        device_abandon(dev, hold);
    return status;
}

enum rig_status device_free(struct rig_device *dev, struct device_hold *hold, struct rig_error *err)
{
    return let_go(dev, hold, err);
}

enum rig_status device_unpin(struct rig_device *dev, struct device_hold *hold,
                             struct rig_error *err)
{
    return let_go(dev, hold, err);
}

void device_abandon(struct rig_device *dev, struct device_hold *hold)
{
    functions_lock(dev->machine);
    bool held = hold->held;
    hold->abandoned = held;
    functions_unlock(dev->machine);
    if (!held)
        free_hold(hold);
}

/* ---- callbacks */

enum rig_status device_on_give_back(struct rig_device *dev, give_back_callback *callback,
                                    void *context, struct rig_error *err)
{
    struct give_back_call *grown = realloc(dev->call, (dev->calls + 1) * sizeof *grown);
    if (!grown)
        return rig_fail_memory(err);
    dev->call = grown;
    dev->call[dev->calls++] = (struct give_back_call){.callback = callback, .context = context};
    return RIG_OK;
}

void device_forget_give_back(struct rig_device *dev, give_back_callback *callback, void *context)
{
    for (size_t i = 0; i < dev->calls; i++) {
        if (dev->call[i].callback != callback || dev->call[i].context != context)
            continue;
        memmove(&dev->call[i], &dev->call[i + 1], (dev->calls - i - 1) * sizeof *dev->call);
        dev->calls--;
        return;
    }
}

/* ---- the give-back */

enum rig_status device_give_back(struct rig_device *dev, struct rig_error *err)
{
    for (size_t i = 0; i < dev->calls; i++) {
        struct give_back_call *call = &dev->call[i];
        if (!call->begun) {
            call->begun = true;
            call->callback(call->context, GIVE_BACK_BEGINS);
        }
    }
    enum rig_status status = device_end_views(dev, err);
    if (status != RIG_OK)
        return status;
    while (dev->holds) {
        status = give_hold_back(dev->holds, err);
        if (status != RIG_OK)
            return status;
    }
    while (dev->calls > 0) {
        struct give_back_call call = dev->call[0];
        device_forget_give_back(dev, call.callback, call.context);
        call.callback(call.context, GIVE_BACK_DONE);
    }
    return RIG_OK;
}

/* The holds that their makers let go of, newest first, in a chain by `going`: they are nobody's but
   the give-back's. */
static struct device_hold *chain_let_go(struct rig_device *dev)
{
    struct device_hold *first = NULL, **end = &first;
    functions_lock(dev->machine);
    for (struct device_hold *hold = dev->holds; hold; hold = hold->next)
        if (hold->let_go) {
            *end = hold;
            end = &hold->going;
        }
    *end = NULL;
    functions_unlock(dev->machine);
    return first;
}

enum rig_status device_give_back_let_go(struct rig_device *dev, struct rig_error *err)
{
    enum rig_status status = RIG_OK;
    struct device_hold *hold;
    while (status == RIG_OK && (hold = chain_let_go(dev)) != NULL)
        while (status == RIG_OK && hold) {
            struct device_hold *next = hold->going;
            status = give_hold_back(hold, err);
            hold = next;
        }
    return status;
}

void device_drop(struct rig_device *dev)
{
    while (dev->holds) {
        struct device_hold *hold = dev->holds;
        hold_leave(hold);
        free(hold->grant.ranges);
        free(hold);
    }
    while (dev->left)
        free_hold(dev->left);
    while (dev->views) {
        struct device_view *view = dev->views;
        dev->views = view->next;
        free(view);
    }
    free(dev->call);
    free(dev->keeper);
    free(dev);
}
