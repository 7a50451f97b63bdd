/* map_peer: another region's memory at its addresses, for one more GPU. */
#include "gpu/memories.h"

#include <stdlib.h>

/* What a map_peer is of: the region that alloc or map_host gave. */
struct original {
    struct rig_memory *owner;
    uint64_t id;
};

/* The region's original, both out. */
static enum rig_status resolve(struct rig_region region, struct original *out_original,
                               struct rig_error *err)
{
    if (!region.memory)
        return region_freed(region, err);
    struct original o = {.owner = region.memory, .id = region.id};
    gpu_memory_lock(region.memory);
    const struct region *r = region_find(region.memory, region.id);
    bool out = r && r->out;
    if (out && r->origin == RIG_ORIGIN_PEER)
        o = (struct original){.owner = r->owner, .id = r->of};
    gpu_memory_unlock(region.memory);
    if (!out)
        return region_freed(region, err);
    *out_original = o;
    if (o.id == region.id)
        return RIG_OK;
    gpu_memory_lock(o.owner);
    r = region_find(o.owner, o.id);
    out = r && r->out;
    gpu_memory_unlock(o.owner);
    struct rig_region of = {.memory = o.owner, .id = o.id};
    return out ? RIG_OK : region_freed(of, err);
}

/* What there is of m in the mapping under the original: its own mapping of that memory, LIVE or
   CUT, or whether an earlier one ended without a confirmed flush. */
struct found {
    struct mapping *of;
    struct mapping *mapping;
    bool earlier;
};

/* The owner's lock is held. False: the original was freed. */
static bool look(struct rig_memory *m, const struct original *o, struct region *out_like,
                 struct found *out_found)
{
    const struct region *r = region_find(o->owner, o->id);
    if (!r || !r->out)
        return false;
    *out_like = (struct region){
        .origin = RIG_ORIGIN_PEER,
        .skip = r->skip,
        .bytes = r->bytes,
        .of = o->id,
        .owner = o->owner,
    };
    *out_found = (struct found){.of = r->mapping};
    for (const struct peer *peer = r->mapping->peers; peer; peer = peer->next) {
        if (peer->memory != m)
            continue;
        if (peer->mapping->state == MAPPING_LIVE || peer->mapping->state == MAPPING_CUT)
            out_found->mapping = peer->mapping;
        else
            out_found->earlier = true;
    }
    return true;
}

/* ---- refusals */

static enum rig_status refuse_machine(const struct rig_memory *m, const struct rig_memory *owner,
                                      struct rig_error *err)
{
    char name[RIG_BDF_MAX], other[RIG_BDF_MAX];
    rig_fail(err, RIG_REFUSED, gpu_memory_name(m, name), "%s is on another machine",
             gpu_memory_name(owner, other));
    return RIG_REFUSED;
}

static enum rig_status refuse_space(const struct rig_memory *m, const struct rig_memory *owner,
                                    struct rig_error *err)
{
    char name[RIG_BDF_MAX], other[RIG_BDF_MAX];
    rig_fail(err, RIG_REFUSED, gpu_memory_name(m, name),
             "its page tables take addresses from the space of %s, those of %s from that of %s",
             space_name(m->space), gpu_memory_name(owner, other), space_name(owner->space));
    return RIG_REFUSED;
}

static enum rig_status refuse_released(const struct rig_memory *m, const struct rig_memory *owner,
                                       struct rig_error *err)
{
    char name[RIG_BDF_MAX], other[RIG_BDF_MAX];
    rig_fail(err, RIG_REFUSED, gpu_memory_name(m, name), "%s, whose memory it is, was released",
             gpu_memory_name(owner, other));
    rig_hint(err, "take it again and allocate anew");
    return RIG_REFUSED;
}

static bool is_own(const struct mapping *of)
{
    return of->target.memory == RIG_MEMORY_OWN;
}

/* ---- making the mapping */

/* How m's entries reach GPU memory of the owner: over a link, or at its BAR's bus addresses. */
static enum rig_status aim_at_gpu(struct mapping *p, const struct mapping *of,
                                  struct rig_error *err)
{
    const struct rig_memory *m = p->memory, *owner = of->memory;
    bool linked = m->linked && owner->linked && m->link.fabric == owner->link.fabric;
    uint64_t base = owner->bar_bus;
    p->target.memory = linked ? RIG_MEMORY_LINK : RIG_MEMORY_SYSTEM;
    p->target.snooped = !linked;
    if (linked) {
        bool flat = m->format->link == RIG_LINK_FLAT;
        base = flat ? owner->own_base : 0;
        p->target.peer = flat ? 0 : (uint8_t)owner->link.place;
    }
    if (!mapping_make_ranges(p, of->count))
        return rig_fail_memory(err);
    p->to_gpu = true;
    p->peer_base = base;
    for (size_t i = 0; i < of->count; i++) {
        p->ranges[i].bytes = of->ranges[i].bytes;
        if (!rig_add(base, of->ranges[i].address, &p->ranges[i].address)) {
            char name[RIG_BDF_MAX];
            return rig_fail(err, RIG_REFUSED, gpu_memory_name(m, name),
                            "addresses of the other GPU's memory end above 64 bits");
        }
    }
    return rig_page_table_fits(m->format, m->own_base, p->target, p->ranges, p->count, err);
}

static enum rig_status aim_at_system(struct mapping *p, const struct mapping *of,
                                     struct rig_error *err)
{
    struct device_hold *hold;
    p->target.memory = RIG_MEMORY_SYSTEM;
    p->target.snooped = true;
    if (p->hold)
        return p->ranges ? RIG_OK : mapping_use_hold(p, p->hold, err);
    uint64_t window = (uint64_t)(uintptr_t)of->window;
    enum rig_status status = RIG_OK;
    /* What was borrowed lies elsewhere in the process than at the region's address. */
    if (of->lent_count > 0 && p->lent_count == 0)
        status = mapping_borrow(p, window, of->bytes, err);
    if (status == RIG_OK)
        status = device_pin(p->memory->device, window, of->bytes, &hold, err);
    return status == RIG_OK ? mapping_use_hold(p, hold, err) : status;
}

/* Has the owner's function kept taken, once. */
static enum rig_status keep_owner(struct mapping *p, struct rig_error *err)
{
    if (p->member->keeps_owner)
        return RIG_OK;
    enum rig_status status =
        device_keep(p->of->memory->device, DEVICE_KEEP_PEER, p->memory->function, err);
    p->member->keeps_owner = status == RIG_OK;
    return status;
}

/* Writes p's entries unless they are there, whole. An address that m's tables map already maps this
   memory if m has, or had, a mapping of it. */
static enum rig_status write_entries(struct mapping *p, bool again, struct rig_error *err)
{
    struct rig_memory *m = p->memory;
    enum rig_mapped mapped =
        rig_page_table_compare(m->tables, p->address, p->target, p->ranges, p->count);
    if (mapped == RIG_MAPPED_WHOLE && again)
        return RIG_OK;
    if (mapped != RIG_MAPPED_NOT && !again) {
        char name[RIG_BDF_MAX];
        return rig_fail(err, RIG_INVALID, gpu_memory_name(m, name),
                        "it maps other memory at 0x%llx", (unsigned long long)p->address);
    }
    bool confirmed;
    enum rig_status status = RIG_OK;
    if (mapped != RIG_MAPPED_NOT)
        status = mapping_clear(p, &confirmed, err);
    return status == RIG_OK ? mapping_write(p, err) : status;
}

static enum rig_status make_peer(struct mapping *p, bool again, struct rig_error *err)
{
    const struct mapping *of = p->of;
    enum rig_status status = is_own(of) ? keep_owner(p, err) : aim_at_system(p, of, err);
    if (status == RIG_OK && !p->ranges)
        status = aim_at_gpu(p, of, err);
    if (status == RIG_OK && !p->holds_addresses) {
        status = space_hold(p->memory->space, p->address, err);
        p->holds_addresses = status == RIG_OK;
    }
    return status == RIG_OK ? write_entries(p, again, err) : status;
}

/* Lists p among the peers of `of`, whose memory's lock is held. */
static void enter_peer(struct mapping *p, struct mapping *of, struct peer *take_peer)
{
    *take_peer = (struct peer){.next = of->peers, .mapping = p, .memory = p->memory, .of = of};
    of->peers = take_peer;
    p->of = of;
    p->member = take_peer;
    p->address = of->address;
    p->bytes = of->bytes;
    p->has_kind = of->has_kind;
    p->kind = of->kind;
    p->uncached = p->target.uncached = of->uncached;
    p->window = of->window;
}

/* Lists p among the peers of the original's mapping, which is looked at again: its owner may have
   freed it meanwhile. */
static enum rig_status join(struct mapping *p, const struct original *o, struct region *out_like,
                            bool *out_earlier, struct rig_error *err)
{
    struct peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return rig_fail_memory(err);
    struct found found;
    gpu_memory_lock(o->owner);
    bool there = look(p->memory, o, out_like, &found);
    if (there)
        enter_peer(p, found.of, peer);
    gpu_memory_unlock(o->owner);
    if (there) {
        *out_earlier = found.earlier;
        return RIG_OK;
    }
    free(peer);
    struct rig_region of = {.memory = o->owner, .id = o->id};
    return region_freed(of, err);
}

/* A use of the owner's function is held: nothing it holds goes back meanwhile. */
static enum rig_status map_new(struct rig_memory *m, const struct original *o,
                               struct rig_region *out_region, struct rig_error *err)
{
    struct mapping *p = mapping_new(m, true);
    if (!p)
        return rig_fail_memory(err);
    struct region like;
    bool earlier = false;
    enum rig_status status = join(p, o, &like, &earlier, err);
    if (status == RIG_OK)
        status = make_peer(p, earlier, err);
    if (status != RIG_OK)
        return mapping_fail(p, status, err);
    return region_new(p, &like, out_region, err);
}

static enum rig_status map_again(struct mapping *p, const struct region *like,
                                 struct rig_region *out_region, struct rig_error *err)
{
    gpu_memory_lock(p->memory);
    p->state = MAPPING_MAKING;
    gpu_memory_unlock(p->memory);
    enum rig_status status = make_peer(p, true, err);
    if (status != RIG_OK)
        return mapping_fail(p, status, err);
    return region_new(p, like, out_region, err);
}

static enum rig_status map_other(struct rig_memory *m, const struct original *o,
                                 struct rig_region *out_region, struct rig_error *err)
{
    struct rig_memory *owner = o->owner;
    if (owner->gpus->machine != m->gpus->machine)
        return refuse_machine(m, owner, err);
    struct region like;
    struct found found;
    gpu_memory_lock(owner);
    bool there = look(m, o, &like, &found);
    bool own = there && is_own(found.of);
    gpu_memory_unlock(owner);
    struct rig_region of = {.memory = owner, .id = o->id};
    if (!there)
        return region_freed(of, err);
    if (found.mapping && found.mapping->state == MAPPING_LIVE)
        return region_new(found.mapping, &like, out_region, err);
    if (owner->space != m->space)
        return refuse_space(m, owner, err);
    if (!owner->device || device_use(owner->device, NULL) != RIG_OK)
        return refuse_released(m, owner, err);
    enum rig_status status = own ? reach_refuse(m, owner, err) : RIG_OK;
    if (status == RIG_OK)
        status = found.mapping ? map_again(found.mapping, &like, out_region, err)
                               : map_new(m, o, out_region, err);
    device_unuse(owner->device);
    return status;
}

static enum rig_status map_own(struct rig_memory *m, const struct original *o,
                               struct rig_region *out_region, struct rig_error *err)
{
    struct region like;
    struct found found;
    gpu_memory_lock(m);
    bool there = look(m, o, &like, &found);
    gpu_memory_unlock(m);
    struct rig_region of = {.memory = m, .id = o->id};
    return there ? region_new(found.of, &like, out_region, err) : region_freed(of, err);
}

enum rig_status rig_memory_map_peer(struct rig_memory *m, struct rig_region region,
                                    struct rig_region *out_region, struct rig_error *err)
{
    struct original o = {.owner = NULL};
    enum rig_status status = resolve(region, &o, err);
    if (status != RIG_OK)
        return status;
    status = request_begin(m, err);
    if (status != RIG_OK)
        return status;
    struct rig_error own = {.status = RIG_OK};
    if (device_failed(m->device))
        status = device_fail(m->device, &own);
    if (status == RIG_OK)
        status = gpu_memory_sweep(m, &own);
    if (status == RIG_OK)
        status =
            o.owner == m ? map_own(m, &o, out_region, &own) : map_other(m, &o, out_region, &own);
    request_end(m);
    return gpu_memory_report(m, status, &own, err);
}
