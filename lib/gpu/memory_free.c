/* free: what becomes of a mapping when its last region ends. */
#include "gpu/memories.h"

/* The entries are known to be gone: all goes back, unless somebody else may reach it. */
static enum rig_status let_go(struct mapping *p, struct rig_error *err)
{
    struct rig_memory *m = p->memory;
    gpu_memory_lock(m);
    bool wanted = mapping_reached(p) || p->client_count > 0;
    if (wanted)
        p->state = MAPPING_KEPT;
    gpu_memory_unlock(m);
    return wanted ? RIG_OK : mapping_give_back(p, err);
}

static enum rig_status clear_and_let_go(struct mapping *p, struct rig_error *err)
{
    bool confirmed;
    enum rig_status status = mapping_clear(p, &confirmed, err);
    if (status != RIG_OK || !confirmed)
        return mapping_hold(p, status);
    return let_go(p, err);
}

/* Ends the region. *out_last is its mapping where it was the last one over it and something is left
   to do, else NULL. m's lock is held. */
static void end_region(struct rig_memory *m, struct region *r, struct mapping **out_last)
{
    struct mapping *p = r->mapping;
    *out_last = NULL;
    p->regions--;
    r->out = false;
    if (p->regions > 0 || p->state == MAPPING_GONE) {
        region_drop(m, r);
        mapping_free_if_idle(p);
        return;
    }
    p->kept = r;
    p->state = MAPPING_MAKING;
    *out_last = p;
}

static enum rig_status free_live(struct rig_memory *m, struct region *r, struct rig_error *err)
{
    struct mapping *last;
    gpu_memory_lock(m);
    end_region(m, r, &last);
    gpu_memory_unlock(m);
    return last ? clear_and_let_go(last, err) : RIG_OK;
}

/* After the function's release no table is written. What did not go with the give-back waits for
   it; where a reservation holds that up for good, this region's part goes back once the function
   masters no more. */
static enum rig_status free_released(struct rig_memory *m, struct region *r, struct rig_error *err)
{
    bool masters = m->device && device_masters(m->device);
    bool reserved = m->device && device_reserved(m->device);
    struct mapping *last;
    gpu_memory_lock(m);
    end_region(m, r, &last);
    if (last && last->member)
        last->member->stuck = masters;
    if (last && (!reserved || masters))
        last->state = reserved ? MAPPING_KEPT : MAPPING_HELD;
    if (last && reserved && masters)
        mapping_weigh(last);
    gpu_memory_unlock(m);
    return last && reserved && !masters ? let_go(last, err) : RIG_OK;
}

enum rig_status rig_memory_free(struct rig_memory *m, struct rig_region region,
                                struct rig_error *err)
{
    char name[RIG_BDF_MAX];
    if (region.memory != m)
        return rig_fail(err, RIG_INVALID, gpu_memory_name(m, name),
                        "the region is not of this GPU");
    gpu_memory_lock(m);
    struct region *r = region_find(m, region.id);
    bool out = r && r->out;
    gpu_memory_unlock(m);
    if (!out)
        return region_freed(region, err);
    gpu_memory_enter(m);
    bool used = m->device && device_use(m->device, NULL) == RIG_OK;
    enum rig_status status = used ? free_live(m, r, err) : free_released(m, r, err);
    enum rig_status swept = gpu_memory_sweep(m, err);
    gpu_memory_leave(m);
    if (used)
        device_unuse(m->device);
    gpu_memory_settle(m);
    return status == RIG_OK ? swept : status;
}
