/* The process's windows on regions' bytes. */
#include "gpu/memories.h"
#include "gpu/save.h"

#include <inttypes.h>
#include <string.h>

/* A region's bytes as the process may reach them. `of` and `owner` name the region that a peer's
   region maps: its window is asked of its owner, whose lock is taken after the region's was let go.
   Shapes: memory not NULL (system memory), or to be found as a view on the owner's BAR. */
struct window {
    struct rig_memory *owner;
    uint64_t of;
    bool looks; /* the process is to see it now */
    bool peer, system, there;
    uint64_t skip, bytes;
    struct rig_host host;
};

static enum rig_status use_hold(const struct mapping *p, struct window *w, struct rig_error *err)
{
    if (!p->window || !p->hold)
        return RIG_OK;
    enum rig_status status = w->looks ? device_see(p->hold, err) : RIG_OK;
    if (status != RIG_OK)
        return status;
    w->there = true;
    w->host.memory = p->window + w->skip;
    if (p->hold->grant.path) {
        w->host.path = p->hold->grant.path;
        w->host.offset = p->hold->grant.offset + w->skip;
    }
    return RIG_OK;
}

static void use_view(const struct mapping *p, struct window *w)
{
    if (!p->view)
        return;
    w->there = true;
    if (p->view->memory)
        w->host.memory = (unsigned char *)p->view->memory + p->view_skip + w->skip;
}

/* What the region itself says. RIG_INVALID: it was freed; else as device_see. */
static enum rig_status begin(struct rig_region region, bool looks, struct window *out,
                             struct rig_error *err)
{
    *out = (struct window){.owner = region.memory, .of = region.id, .looks = looks};
    if (!region.memory)
        return region_freed(region, err);
    gpu_memory_lock(region.memory);
    const struct region *r = region_find(region.memory, region.id);
    enum rig_status status = RIG_OK;
    if (r) {
        const struct mapping *p = r->mapping;
        out->skip = r->skip;
        out->bytes = out->host.bytes = r->bytes;
        out->peer = p->peer;
        out->system = p->target.memory != RIG_MEMORY_OWN && !p->to_gpu;
        if (p->peer) {
            out->owner = p->member ? r->owner : NULL;
            out->of = r->of;
        }
        if (out->system)
            status = use_hold(p, out, err);
    }
    gpu_memory_unlock(region.memory);
    return r ? status : region_freed(region, err);
}

/* The owner's lock is held: what the owner's mapping adds, and, for a view, how it is reached. */
static const struct mapping *ask_owner(struct window *w)
{
    const struct region *r = region_record(w->owner, w->of);
    const struct mapping *p = r ? r->mapping : NULL;
    bool gone = !p || p->state == MAPPING_GONE;
    /* Behind an IOMMU the process sees its system memory by the owner's allocation alone. */
    if (w->peer && w->system && gone && w->owner->addressing == RIG_IOMMU && (!p || p->has_kind))
        w->there = false;
    if (!w->system && !gone)
        use_view(p, w);
    return p;
}

static bool find_host(struct rig_region region, bool looks, struct rig_host *out_host)
{
    struct window w;
    if (begin(region, looks, &w, NULL) != RIG_OK || !w.owner)
        return false;
    gpu_memory_lock(w.owner);
    ask_owner(&w);
    gpu_memory_unlock(w.owner);
    if (w.there)
        *out_host = w.host;
    return w.there;
}

bool rig_region_host(struct rig_region region, struct rig_host *out_host)
{
    return find_host(region, true, out_host);
}

bool gpus_region_host(struct rig_region region, struct rig_host *out_host)
{
    return find_host(region, false, out_host);
}

static enum rig_status check(const struct window *w, uint64_t offset, size_t bytes,
                             struct rig_region region, struct rig_error *err)
{
    char name[RIG_BDF_MAX];
    gpu_memory_name(region.memory, name);
    if (!w->there)
        return rig_fail(err, RIG_INVALID, name, "the process has no window on region %" PRIu64,
                        region.id);
    uint64_t end;
    if (!rig_add(offset, bytes, &end) || end > w->bytes)
        return rig_fail(err, RIG_INVALID, name,
                        "0x%" PRIx64 "+0x%zx is not within the 0x%" PRIx64
                        " bytes of region %" PRIu64,
                        offset, bytes, w->bytes, region.id);
    return RIG_OK;
}

/* Moves bytes by one of the two, `in` not NULL for a write. */
static enum rig_status move(struct rig_region region, uint64_t offset, void *out_data,
                            const void *in, size_t bytes, struct rig_error *err)
{
    struct window w;
    enum rig_status status = begin(region, true, &w, err);
    if (status != RIG_OK)
        return status;
    if (!w.owner)
        return check(&w, offset, bytes, region, err);
    gpu_memory_lock(w.owner);
    const struct mapping *p = ask_owner(&w);
    status = check(&w, offset, bytes, region, err);
    if (status == RIG_OK && !w.system) {
        uint64_t at = p->view_skip + w.skip + offset;
        if (in)
            view_write(p->view, at, in, bytes);
        else
            view_read(p->view, at, out_data, bytes);
    } else if (status == RIG_OK) {
        unsigned char *at = (unsigned char *)w.host.memory + offset;
        if (in)
            memcpy(at, in, bytes);
        else
            memcpy(out_data, at, bytes);
    }
    bool device = status == RIG_OK && !w.system;
    gpu_memory_unlock(w.owner);
    if (device && device_failed(w.owner->device))
        return device_fail(w.owner->device, err);
    return status;
}

enum rig_status rig_region_read(struct rig_region region, uint64_t offset, void *out_data,
                                size_t bytes, struct rig_error *err)
{
    return move(region, offset, out_data, NULL, bytes, err);
}

enum rig_status rig_region_write(struct rig_region region, uint64_t offset, const void *data,
                                 size_t bytes, struct rig_error *err)
{
    return move(region, offset, NULL, data, bytes, err);
}
