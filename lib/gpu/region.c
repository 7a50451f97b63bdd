/* Regions: the values that callers have, and what is known of each. */
#include "gpu/memories.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *rig_target_name(enum rig_target_kind target)
{
    static const char *const name[] = {"gpu", "system", "peer"};
    return name[target];
}

const char *rig_origin_name(enum rig_origin origin)
{
    static const char *const name[] = {"allocated", "borrowed", "peer"};
    return name[origin];
}

/* ---- the list */

/* The first slot with an id that is not below. */
static size_t lower_bound(const struct region_list *l, uint64_t id)
{
    size_t low = 0, high = l->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (l->slot[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct region *region_record(const struct rig_memory *m, uint64_t id)
{
    const struct region_list *l = &m->regions;
    size_t i = lower_bound(l, id);
    return i < l->count && l->slot[i].id == id ? l->slot[i].region : NULL;
}

static bool is_there(const struct region *r)
{
    return r && (r->out || r->mapping->kept == r);
}

struct region *region_find(const struct rig_memory *m, uint64_t id)
{
    struct region *r = region_record(m, id);
    return is_there(r) ? r : NULL;
}

static void close_gaps(struct region_list *l)
{
    size_t to = 0;
    for (size_t i = 0; i < l->count; i++)
        if (l->slot[i].region)
            l->slot[to++] = l->slot[i];
    l->count = to;
    l->empty = 0;
}

void region_drop(struct rig_memory *m, struct region *r)
{
    struct region_list *l = &m->regions;
    if (r->mapping->kept == r)
        r->mapping->kept = NULL;
    if (r->mapping->original == r)
        return; /* it names the memory for peers, until the mapping goes */
    l->slot[lower_bound(l, r->id)].region = NULL;
    l->empty++;
    if (l->empty > l->count / 2 + 64)
        close_gaps(l);
    region_unmake(r);
}

struct region *region_make(struct mapping *p)
{
    struct region *r = p->place.mapping ? calloc(1, sizeof *r) : &p->place;
    if (r)
        r->mapping = p;
    return r;
}

void region_unmake(struct region *r)
{
    struct region *place = &r->mapping->place;
    if (r == place)
        *place = (struct region){.mapping = NULL};
    else
        free(r);
}

enum rig_status region_put(struct rig_memory *m, struct region *take_region, struct rig_error *err)
{
    struct region_list *l = &m->regions;
    if (l->count == l->room) {
        size_t room = l->room ? l->room * 2 : 64;
        void *grown = realloc(l->slot, room * sizeof *l->slot);
        if (!grown) {
            region_unmake(take_region);
            return rig_fail_memory(err);
        }
        l->slot = grown;
        l->room = room;
    }
    l->slot[l->count].id = take_region->id;
    l->slot[l->count++].region = take_region;
    return RIG_OK;
}

static uint64_t new_id(struct rig_gpus *g)
{
    pthread_mutex_lock(&g->lock);
    uint64_t id = ++g->last_region;
    pthread_mutex_unlock(&g->lock);
    return id;
}

enum rig_status region_new(struct mapping *p, const struct region *like,
                           struct rig_region *out_region, struct rig_error *err)
{
    struct rig_memory *m = p->memory;
    enum rig_status status = RIG_OK;
    if (m->gpus->supposing)
        status = rig_fail(err, RIG_FAILED, NULL, "an earlier process was cut short in it");
    gpu_memory_lock(m);
    struct region *r = status == RIG_OK ? region_make(p) : NULL;
    if (status == RIG_OK && !r)
        status = rig_fail_memory(err);
    if (r) {
        *r = *like;
        r->mapping = p;
        r->out = true;
        r->id = new_id(m->gpus);
        struct rig_region region = {.memory = m, .id = r->id};
        status = region_put(m, r, err);
        if (status == RIG_OK) {
            p->state = MAPPING_LIVE;
            p->regions++;
            if (like->origin != RIG_ORIGIN_PEER)
                p->original = r;
            *out_region = region;
        }
    }
    gpu_memory_unlock(m);
    /* A mapping that was written for nothing is one of a request that was cut short. */
    return status == RIG_OK || p->regions > 0 ? status : mapping_fail(p, RIG_FAILED, err);
}

enum rig_status region_freed(struct rig_region region, struct rig_error *err)
{
    char name[RIG_BDF_MAX] = "";
    if (region.memory)
        gpu_memory_name(region.memory, name);
    return rig_fail(err, RIG_INVALID, name, "region %" PRIu64 " was freed, or never was",
                    region.id);
}

/* ---- questions */

rig_gpu_address rig_region_address(struct rig_region region)
{
    if (!region.memory)
        return 0;
    gpu_memory_lock(region.memory);
    const struct region *r = region_find(region.memory, region.id);
    rig_gpu_address address = r ? r->mapping->address + r->skip : 0;
    gpu_memory_unlock(region.memory);
    return address;
}

/* What memory p's ranges are addresses of, as callers see it. */
static enum rig_target_kind target_of(const struct mapping *p)
{
    if (p->target.memory == RIG_MEMORY_OWN)
        return RIG_TARGET_GPU;
    return p->to_gpu ? RIG_TARGET_PEER : RIG_TARGET_SYSTEM;
}

/* Copies ranges, cut to `bytes` bytes from `skip` on, each lowered by `base`, neighbours joined. */
static size_t cut_ranges(const struct rig_range *from, size_t count, uint64_t skip, uint64_t bytes,
                         uint64_t base, struct rig_bus_range *to)
{
    size_t n = 0;
    for (size_t i = 0; i < count && bytes > 0; i++) {
        uint64_t length = from[i].bytes;
        if (skip >= length) {
            skip -= length;
            continue;
        }
        uint64_t address = from[i].address - base + skip;
        length -= skip;
        skip = 0;
        if (length > bytes)
            length = bytes;
        bytes -= length;
        if (n > 0 && to[n - 1].address + to[n - 1].bytes == address)
            to[n - 1].bytes += length;
        else
            to[n++] = (struct rig_bus_range){.address = address, .bytes = length};
    }
    return n;
}

enum rig_status mapping_ranges(const struct mapping *p, uint64_t skip, uint64_t bytes,
                               uint64_t base, struct rig_bus_range **out_ranges, size_t *out_count)
{
    struct rig_bus_range *to = calloc(p->count + 1, sizeof *to);
    if (!to)
        return RIG_FAILED;
    *out_count = cut_ranges(p->ranges, p->count, skip, bytes, base, to);
    *out_ranges = to;
    return RIG_OK;
}

enum rig_status rig_region_pages(struct rig_region region, struct rig_pages *out_pages,
                                 struct rig_error *err)
{
    struct rig_pages pages;
    enum rig_status status = RIG_INVALID;
    if (!region.memory)
        return region_freed(region, err);
    gpu_memory_lock(region.memory);
    const struct region *r = region_find(region.memory, region.id);
    if (r) {
        const struct mapping *p = r->mapping;
        pages.target = target_of(p);
        status = mapping_ranges(p, r->skip, r->bytes, p->peer_base, &pages.ranges, &pages.count);
    }
    gpu_memory_unlock(region.memory);
    if (status == RIG_INVALID)
        return region_freed(region, err);
    if (status != RIG_OK)
        return rig_fail_memory(err);
    *out_pages = pages;
    return RIG_OK;
}

void rig_pages_free(struct rig_pages *pages)
{
    free(pages->ranges);
    *pages = (struct rig_pages){.ranges = NULL};
}

/* ---- what a region is now */

/* Adds "0000:41:00.0 maps it" and the like to a list joined by "; ". */
static void add_reason(struct rig_region_info *info, const char *who, const char *what)
{
    size_t used = strlen(info->kept);
    snprintf(info->kept + used, sizeof info->kept - used, "%s%s%s", used > 0 ? "; " : "", who,
             what);
}

static void explain_kept(const struct mapping *p, struct rig_region_info *info)
{
    const struct rig_topology *t = p->memory->gpus->machine->topology;
    char name[RIG_BDF_MAX];
    for (size_t i = 0; i < p->client_count; i++) {
        rig_bdf_format(rig_topology_function(t, p->clients[i])->bdf, name);
        add_reason(info, "reserved for ", name);
    }
    for (const struct peer *peer = p->peers; peer; peer = peer->next) {
        gpu_memory_name(peer->memory, name);
        add_reason(info, name, peer->stuck ? " may still reach it" : " maps it");
    }
    if (p->stuck_peers > 0)
        add_reason(info, "", "a GPU that was released may have reached it");
    if (p->state == MAPPING_GONE)
        add_reason(info, "", "its function's give-back was cut short");
    else if (p->state == MAPPING_HELD)
        add_reason(info, "", "the GPU may still reach it, until its function is given back");
    else if (info->kept[0] == '\0')
        add_reason(info, "", "it goes back at the owner's next call");
}

enum rig_status rig_region_info(struct rig_region region, struct rig_region_info *out_info,
                                struct rig_error *err)
{
    if (!region.memory)
        return region_freed(region, err);
    gpu_memory_lock(region.memory);
    const struct region *r = region_find(region.memory, region.id);
    if (r) {
        const struct mapping *p = r->mapping;
        *out_info = (struct rig_region_info){
            .origin = r->origin,
            .has_kind = p->has_kind,
            .kind = p->kind,
            .of = r->of,
            .address = p->address + r->skip,
            .bytes = r->bytes,
            .uncached = p->uncached,
            .target = target_of(p),
            .out = r->out,
        };
        if (!r->out)
            explain_kept(p, out_info);
    }
    gpu_memory_unlock(region.memory);
    return r ? RIG_OK : region_freed(region, err);
}

bool rig_region_client(struct rig_region region, size_t i, struct rig_bdf *out_client)
{
    if (!region.memory)
        return false;
    gpu_memory_lock(region.memory);
    const struct region *r = region_find(region.memory, region.id);
    bool there = r && i < r->mapping->client_count;
    if (there) {
        const struct rig_topology *t = region.memory->gpus->machine->topology;
        *out_client = rig_topology_function(t, r->mapping->clients[i])->bdf;
    }
    gpu_memory_unlock(region.memory);
    return there;
}

/* The lowest id above `after` of m's regions, or 0. */
static uint64_t next_id(struct rig_memory *m, uint64_t after)
{
    uint64_t id = 0;
    gpu_memory_lock(m);
    const struct region_list *l = &m->regions;
    for (size_t i = lower_bound(l, after + 1); i < l->count && id == 0; i++)
        if (is_there(l->slot[i].region))
            id = l->slot[i].id;
    gpu_memory_unlock(m);
    return id;
}

bool rig_gpus_next_region(const struct rig_gpus *gpus, uint64_t after,
                          struct rig_region *out_region)
{
    struct rig_region least = {.memory = NULL};
    for (size_t i = 0; i < rig_gpus_count(gpus); i++) {
        struct rig_memory *m = rig_gpus_memory(gpus, i);
        uint64_t id = next_id(m, after);
        if (id != 0 && (!least.memory || id < least.id))
            least = (struct rig_region){.memory = m, .id = id};
    }
    if (least.memory)
        *out_region = least;
    return least.memory != NULL;
}
