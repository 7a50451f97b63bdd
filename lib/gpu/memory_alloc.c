/* alloc and map_host: everything is taken first, then the entries are written. */
#include "gpu/memories.h"

const char *rig_kind_name(enum rig_kind kind)
{
    static const char *const name[] = {"gpu", "bar", "host"};
    return name[kind];
}

/* More than the memory ever had, told apart from what freeing can mend. */
static enum rig_status explain_no_room(const struct rig_memory *m, const struct mapping *p,
                                       struct rig_error *err)
{
    char name[RIG_BDF_MAX], wanted[RIG_SIZE_MAX], had[RIG_SIZE_MAX];
    uint64_t most = pool_main_bytes(m->pool);
    gpu_memory_name(m, name);
    rig_size_format(p->bytes, wanted);
    rig_size_format(most, had);
    if (p->bytes > most)
        return rig_fail(err, RIG_NO_ROOM, name, "%s is more than the GPU has for memory, %s",
                        wanted, had);
    if (p->kind == RIG_KIND_BAR)
        return rig_fail(err, RIG_NO_ROOM, name,
                        "no free block of %s is within what BAR %d shows (%s)", wanted, m->bar,
                        rig_size_format(m->bar_bytes, had));
    return rig_fail(err, RIG_NO_ROOM, name, "%s of the GPU's memory: only %s is free", wanted,
                    rig_size_format(pool_free_bytes(m->pool), had));
}

static enum rig_status take_own(struct mapping *p, struct rig_error *err)
{
    struct rig_memory *m = p->memory;
    struct rig_range *ranges;
    size_t count;
    enum rig_status status;
    if (p->kind == RIG_KIND_BAR)
        status = pool_take_block(m->pool, p->bytes, &ranges, &count, NULL);
    else
        status = pool_take(m->pool, p->bytes, &ranges, &count, NULL);
    if (status == RIG_NO_ROOM)
        return explain_no_room(m, p, err);
    if (status != RIG_OK)
        return rig_fail_memory(err);
    mapping_use_ranges(p, ranges, count);
    p->owns_ranges = true;
    return p->kind == RIG_KIND_BAR ? mapping_view(p, false, err) : RIG_OK;
}

static enum rig_status take_host(struct mapping *p, struct rig_error *err)
{
    struct device_hold *hold;
    enum rig_status status =
        device_alloc(p->memory->device, p->bytes, p->address, false, &hold, err);
    return status == RIG_OK ? mapping_use_hold(p, hold, err) : status;
}

static enum rig_status make_allocation(struct mapping *p, struct rig_error *err)
{
    bool host = p->kind == RIG_KIND_HOST;
    p->has_kind = true;
    p->target.memory = host ? RIG_MEMORY_SYSTEM : RIG_MEMORY_OWN;
    p->target.snooped = host;
    p->target.uncached = p->uncached;
    enum rig_status status = host ? RIG_OK : take_own(p, err);
    if (status == RIG_OK)
        status = mapping_take_addresses(p, err);
    if (status == RIG_OK && host)
        status = take_host(p, err);
    return status == RIG_OK ? mapping_write(p, err) : status;
}

/* Ends the request that made p: a region over it, or nothing. */
static enum rig_status finish(struct mapping *p, enum rig_status status, const struct region *like,
                              struct rig_region *out_region, struct rig_error *own,
                              struct rig_error *err)
{
    struct rig_memory *m = p->memory;
    if (status == RIG_OK)
        status = region_new(p, like, out_region, own);
    else
        status = mapping_fail(p, status, own);
    request_end(m);
    return gpu_memory_report(m, status, own, err);
}

/* Begins a request that makes a mapping. */
static enum rig_status begin(struct rig_memory *m, struct mapping **out_mapping,
                             struct rig_error *err)
{
    enum rig_status status = request_begin(m, err);
    if (status != RIG_OK)
        return status;
    if (device_failed(m->device))
        status = device_fail(m->device, err);
    if (status == RIG_OK)
        status = gpu_memory_sweep(m, err);
    if (status == RIG_OK)
        *out_mapping = mapping_new(m, false);
    if (status == RIG_OK && !*out_mapping)
        status = rig_fail_memory(err);
    if (status != RIG_OK)
        request_end(m);
    return status;
}

enum rig_status rig_memory_alloc(struct rig_memory *m, enum rig_kind kind, uint64_t bytes,
                                 bool uncached, struct rig_region *out_region,
                                 struct rig_error *err)
{
    char name[RIG_BDF_MAX];
    uint64_t rounded;
    if (kind > RIG_KIND_HOST)
        return rig_fail(err, RIG_INVALID, gpu_memory_name(m, name), "no such kind of memory");
    if (bytes == 0)
        return rig_fail(err, RIG_INVALID, gpu_memory_name(m, name), "0 bytes of memory");
    bool fits = kind == RIG_KIND_HOST ? rig_round_up(bytes, m->gpus->machine->page_size, &rounded)
                                      : pool_round(bytes, &rounded);
    struct mapping *p;
    enum rig_status status = begin(m, &p, err);
    if (status != RIG_OK)
        return status;
    p->kind = kind;
    p->uncached = uncached || kind == RIG_KIND_HOST;
    struct rig_error own = {.status = RIG_OK};
    struct region like = {.origin = RIG_ORIGIN_ALLOCATED};
    if (fits) {
        p->bytes = like.bytes = rounded;
        status = make_allocation(p, &own);
    } else {
        status = rig_fail(&own, RIG_NO_ROOM, gpu_memory_name(m, name),
                          "%llu bytes is more than there is", (unsigned long long)bytes);
    }
    return finish(p, status, &like, out_region, &own, err);
}

static enum rig_status make_borrowed(struct mapping *p, uint64_t start, uint64_t bytes,
                                     struct rig_error *err)
{
    struct device_hold *hold;
    p->uncached = true;
    p->target.memory = RIG_MEMORY_SYSTEM;
    p->target.snooped = p->target.uncached = true;
    enum rig_status status = mapping_borrow(p, start, bytes, err);
    if (status == RIG_OK)
        status = device_pin(p->memory->device, start, bytes, &hold, err);
    if (status == RIG_OK) {
        p->bytes = hold->grant.bytes;
        status = mapping_use_hold(p, hold, err);
    }
    if (status == RIG_OK)
        status = mapping_take_addresses(p, err);
    return status == RIG_OK ? mapping_write(p, err) : status;
}

enum rig_status rig_memory_map_host(struct rig_memory *m, const void *address, uint64_t bytes,
                                    struct rig_region *out_region, struct rig_error *err)
{
    char name[RIG_BDF_MAX];
    uint64_t start = (uint64_t)(uintptr_t)address, end;
    if (bytes == 0)
        return rig_fail(err, RIG_INVALID, gpu_memory_name(m, name), "0 bytes of memory");
    if (!rig_add(start, bytes, &end) || !rig_round_up(end, m->gpus->machine->page_size, &end))
        return rig_fail(err, RIG_INVALID, gpu_memory_name(m, name),
                        "0x%llx+0x%llx is no range of addresses", (unsigned long long)start,
                        (unsigned long long)bytes);
    struct mapping *p;
    enum rig_status status = begin(m, &p, err);
    if (status != RIG_OK)
        return status;
    struct region like = {
        .origin = RIG_ORIGIN_BORROWED,
        .skip = start & (m->gpus->machine->page_size - 1),
        .bytes = bytes,
    };
    struct rig_error own = {.status = RIG_OK};
    status = make_borrowed(p, start, bytes, &own);
    return finish(p, status, &like, out_region, &own, err);
}
