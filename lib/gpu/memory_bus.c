/* bus: GPU and system memory handed to another function, and reserved for it. */
#include "gpu/memories.h"

#include <stdlib.h>
#include <string.h>

static enum rig_status refuse_client(const char *client, const char *why, struct rig_error *err)
{
    return rig_fail(err, RIG_REFUSED, client, "%s", why);
}

static enum rig_status find_client(const struct rig_machine *machine, const char *client,
                                   int *out_function, struct rig_error *err)
{
    struct rig_bdf bdf;
    if (!rig_bdf_parse(client, &bdf))
        return refuse_client(client, "it is no bus address of a function", err);
    *out_function = rig_topology_find_bdf(machine->topology, bdf);
    if (*out_function < 0)
        return refuse_client(client, "the machine has no such function", err);
    return RIG_OK;
}

static enum rig_status refuse_iommu(struct rig_machine *machine, int function,
                                    struct rig_error *err)
{
    if (machine_addressing(machine, function) != RIG_IOMMU)
        return RIG_OK;
    char name[RIG_BDF_MAX];
    rig_bdf_format(rig_topology_function(machine->topology, function)->bdf, name);
    rig_fail(err, RIG_REFUSED, name, "it is behind an IOMMU that translates its requests");
    rig_hint(err, "boot with iommu=pt, or with the IOMMU off");
    return RIG_REFUSED;
}

/* The mapping that alloc made under the region, or NULL. m's lock is held. */
static struct mapping *find_allocated(const struct rig_memory *m, uint64_t id)
{
    const struct region *r = region_find(m, id);
    return r && r->out && r->origin == RIG_ORIGIN_ALLOCATED ? r->mapping : NULL;
}

/* Where the client reaches the memory; false in *out_there where it was freed. */
static enum rig_status find_ranges(struct rig_memory *m, uint64_t id,
                                   struct rig_bus_range **out_ranges, size_t *out_count,
                                   struct rig_error *err)
{
    gpu_memory_lock(m);
    const struct mapping *p = find_allocated(m, id);
    uint64_t up = p->target.memory == RIG_MEMORY_OWN ? m->bar_bus : 0;
    /* Lowering by what is to be added, modulo 2^64. */
    enum rig_status status = mapping_ranges(p, 0, p->bytes, 0 - up, out_ranges, out_count);
    gpu_memory_unlock(m);
    return status == RIG_OK ? RIG_OK : rig_fail_memory(err);
}

static bool is_reserved_for(const struct mapping *p, int client)
{
    for (size_t i = 0; i < p->client_count; i++)
        if (p->clients[i] == client)
            return true;
    return false;
}

static enum rig_status reserve(struct rig_memory *m, struct mapping *p, int client,
                               struct rig_error *err)
{
    if (is_reserved_for(p, client))
        return RIG_OK;
    int *grown = calloc(p->client_count + 1, sizeof *grown);
    if (!grown)
        return rig_fail_memory(err);
    enum rig_status status = device_keep(m->device, DEVICE_KEEP_RESERVED, client, err);
    if (status != RIG_OK) {
        free(grown);
        return status;
    }
    if (p->client_count > 0)
        memcpy(grown, p->clients, p->client_count * sizeof *grown);
    gpu_memory_lock(m);
    int *old = p->clients;
    p->clients = grown;
    p->clients[p->client_count++] = client;
    gpu_memory_unlock(m);
    free(old);
    return RIG_OK;
}

static enum rig_status refuse(struct rig_memory *m, const struct mapping *p, int client,
                              struct rig_error *err)
{
    struct rig_machine *machine = m->gpus->machine;
    char name[RIG_BDF_MAX];
    if (machine->remote)
        return rig_fail(err, RIG_REFUSED, gpu_memory_name(m, name),
                        "its machine is reached through a transport");
    enum rig_status status = refuse_iommu(machine, m->function, err);
    if (status == RIG_OK)
        status = refuse_iommu(machine, client, err);
    if (status == RIG_OK && p->target.memory == RIG_MEMORY_OWN)
        status = bus_refuse(machine, client, m, err);
    return status;
}

static enum rig_status grant(struct rig_memory *m, struct rig_region region, const char *client,
                             struct rig_bus_range **out_ranges, size_t *out_count,
                             struct rig_error *err)
{
    char name[RIG_BDF_MAX];
    gpu_memory_lock(m);
    struct mapping *p = region.memory == m ? find_allocated(m, region.id) : NULL;
    bool out = p != NULL || (region.memory == m && region_find(m, region.id));
    gpu_memory_unlock(m);
    if (!out && region.memory == m)
        return region_freed(region, err);
    if (!p)
        return rig_fail(err, RIG_INVALID, gpu_memory_name(m, name),
                        "the region is not memory that was allocated for this GPU");
    int function = -1;
    enum rig_status status = find_client(m->gpus->machine, client, &function, err);
    if (status == RIG_OK)
        status = refuse(m, p, function, err);
    struct rig_bus_range *ranges = NULL;
    size_t count;
    if (status == RIG_OK)
        status = find_ranges(m, region.id, &ranges, &count, err);
    if (status == RIG_OK)
        status = reserve(m, p, function, err);
    if (status != RIG_OK) {
        free(ranges);
        return status;
    }
    *out_ranges = ranges;
    *out_count = count;
    return RIG_OK;
}

enum rig_status rig_memory_bus(struct rig_memory *m, struct rig_region region, const char *client,
                               struct rig_bus_range **out_ranges, size_t *out_count,
                               struct rig_error *err)
{
    enum rig_status status = request_begin(m, err);
    if (status != RIG_OK)
        return status;
    status = grant(m, region, client, out_ranges, out_count, err);
    request_end(m);
    return status;
}
