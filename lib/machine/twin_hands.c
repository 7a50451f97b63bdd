/* A twin's hardware reached from outside: by its functions' DMA, by tests and the session that runs
   it. */
#include "machine/twins.h"

#include <search.h>

/* ---- DMA by a function */

static enum rig_status find(struct rig_machine *m, const char *name, rig_bus_address at,
                            size_t bytes, int *out_function, struct rig_error *err)
{
    int function = twin_is(m) ? rig_topology_find(m->topology, name) : -1;
    if (function < 0)
        return rig_fail(err, RIG_INVALID, name, "it is no function of a twin");
    uint64_t last;
    if (!rig_add(at, bytes ? bytes - 1 : 0, &last))
        return rig_fail(err, RIG_INVALID, name, "the addresses end beyond 64 bits");
    *out_function = function;
    return RIG_OK;
}

enum rig_status rig_twin_read(struct rig_machine *m, const char *function, rig_bus_address at,
                              void *out_data, size_t bytes, struct rig_error *err)
{
    int i;
    enum rig_status status = find(m, function, at, bytes, &i, err);
    if (status != RIG_OK)
        return status;
    struct twin *w = twin_of(m);
    twin_lock(w);
    status = fabric_read(w, i, at, out_data, bytes, err);
    twin_unlock(w);
    return status;
}

enum rig_status rig_twin_write(struct rig_machine *m, const char *function, rig_bus_address at,
                               const void *data, size_t bytes, struct rig_error *err)
{
    int i;
    enum rig_status status = find(m, function, at, bytes, &i, err);
    if (status != RIG_OK)
        return status;
    struct twin *w = twin_of(m);
    twin_lock(w);
    status = fabric_write(w, i, at, data, bytes, err);
    twin_unlock(w);
    return status;
}

void twin_route(struct rig_machine *m, int function, rig_bus_address at, uint64_t bytes,
                struct twin_route *out_route)
{
    struct twin *w = twin_of(m);
    twin_lock(w);
    fabric_route(w, function, at, bytes, out_route);
    twin_unlock(w);
}

/* ---- registers */

uint32_t twin_config_read(struct rig_machine *m, int function, unsigned offset, unsigned width)
{
    struct twin *w = twin_of(m);
    twin_lock(w);
    uint32_t value = config_get(&w->function[function], offset, width);
    twin_unlock(w);
    return value;
}

void twin_config_write(struct rig_machine *m, int function, unsigned offset, unsigned width,
                       uint32_t value)
{
    struct twin *w = twin_of(m);
    twin_lock(w);
    config_put(w, function, offset, width, value);
    twin_unlock(w);
}

unsigned twin_acs_offset(struct rig_machine *m, int function)
{
    return twin_of(m)->function[function].acs;
}

/* ---- GPUs */

void twin_set_format(struct rig_machine *m, int gpu, const struct rig_format *format)
{
    struct twin *w = twin_of(m);
    twin_lock(w);
    if (w->function[gpu].gpu)
        w->function[gpu].gpu->format = format;
    twin_unlock(w);
}

const struct rig_format *twin_format(struct rig_machine *m, int gpu)
{
    struct twin *w = twin_of(m);
    twin_lock(w);
    const struct rig_format *format = w->function[gpu].gpu ? w->function[gpu].gpu->format : NULL;
    twin_unlock(w);
    return format;
}

void link_gpus(struct twin *w, const int *gpus, int count)
{
    uint64_t most = 1;
    for (int i = 0; i < w->count; i++) {
        struct twin_gpu *gpu = w->function[i].gpu;
        if (gpu) {
            gpu->linked = false;
            gpu->base = 0;
        }
    }
    for (int i = 0; i < count; i++) {
        uint64_t bytes = w->function[gpus[i]].gpu->memory.bytes;
        while (most < bytes && most < UINT64_C(1) << 62)
            most <<= 1;
    }
    for (int i = 0; i < count; i++) {
        struct twin_function *f = &w->function[gpus[i]];
        f->gpu->linked = true;
        f->gpu->peer = (uint8_t)i;
        f->gpu->base = f->gpu->format->link == RIG_LINK_FLAT ? (uint64_t)i * most : 0;
        config_set(f, f->registers + TWIN_GPU_BASE_LOW, 4, (uint32_t)f->gpu->base);
        config_set(f, f->registers + TWIN_GPU_BASE_HIGH, 4, (uint32_t)(f->gpu->base >> 32));
    }
}

enum rig_status twin_link(struct rig_machine *m, const int *gpus, int count, struct rig_error *err)
{
    struct twin *w = twin_of(m);
    if (count < 2 || count > 256)
        return rig_fail(err, RIG_INVALID, "link", "it joins 2 to 256 GPUs");
    for (int i = 0; i < count; i++) {
        bool twice = false;
        for (int k = 0; k < i; k++)
            twice = twice || gpus[k] == gpus[i];
        if (twice || gpus[i] < 0 || gpus[i] >= w->count || !w->function[gpus[i]].gpu)
            return rig_fail(err, RIG_INVALID, "link", "GPU %d of it is no GPU or there twice", i);
    }
    twin_lock(w);
    link_gpus(w, gpus, count);
    twin_unlock(w);
    return RIG_OK;
}

uint64_t twin_memory_bytes(struct rig_machine *m, int gpu)
{
    const struct twin_gpu *g = twin_of(m)->function[gpu].gpu;
    return g ? g->memory.bytes : 0;
}

static enum rig_status check_memory(struct rig_machine *m, int gpu, uint64_t offset, size_t bytes,
                                    struct rig_error *err)
{
    uint64_t end;
    if (!rig_add(offset, bytes, &end) || end > twin_memory_bytes(m, gpu))
        return rig_fail(err, RIG_INVALID, NULL, "0x%llx+0x%llx is not in the GPU's memory",
                        (unsigned long long)offset, (unsigned long long)bytes);
    return RIG_OK;
}

enum rig_status twin_memory_read(struct rig_machine *m, int gpu, uint64_t offset, void *out_data,
                                 size_t bytes, struct rig_error *err)
{
    struct twin *w = twin_of(m);
    enum rig_status status = check_memory(m, gpu, offset, bytes, err);
    if (status != RIG_OK || bytes == 0)
        return status;
    twin_lock(w);
    status = sparse_read(&w->function[gpu].gpu->memory, offset, out_data, bytes, err);
    twin_unlock(w);
    return status;
}

enum rig_status twin_memory_write(struct rig_machine *m, int gpu, uint64_t offset, const void *data,
                                  size_t bytes, struct rig_error *err)
{
    struct twin *w = twin_of(m);
    enum rig_status status = check_memory(m, gpu, offset, bytes, err);
    if (status != RIG_OK || bytes == 0)
        return status;
    twin_lock(w);
    status = sparse_write(&w->function[gpu].gpu->memory, offset, data, bytes, err);
    twin_unlock(w);
    return status;
}

/* ---- pages of the process before */

static void find_again(const void *node, VISIT visit, void *closure)
{
    const struct twin_reserved *found = closure;
    struct twin_mapping *m = *(struct twin_mapping *const *)node;
    if ((visit == postorder || visit == leaf) && m->process && m->target >= found->start &&
        m->target - found->start < found->bytes &&
        found->bytes - (m->target - found->start) >= m->bytes)
        m->lost = false;
}

void twin_found_again(struct rig_machine *m, uint64_t start, uint64_t bytes)
{
    struct twin *w = twin_of(m);
    struct twin_reserved found = {start, bytes};
    twin_lock(w);
    for (int i = 0; i < w->count; i++)
        twalk_r(w->function[i].iommu.tree, find_again, &found);
    twin_unlock(w);
}

/* ---- the judge's questions */

void twin_audit(struct rig_machine *m, struct twin_audit *out_audit)
{
    struct twin *w = twin_of(m);
    twin_lock(w);
    *out_audit = (struct twin_audit){
        .free_bytes = rig_ranges_free_bytes(w->pages),
        .grants = w->grant_count,
        .pins = w->pin_count,
    };
    for (int i = 0; i < w->count; i++) {
        out_audit->taken += w->function[i].taken;
        out_audit->views += w->function[i].views;
    }
    twin_unlock(w);
}

struct page_search {
    uint64_t physical;
    int function; /* -1: any */
    bool found;
};

static void look(const void *node, VISIT visit, void *closure)
{
    struct page_search *s = closure;
    const struct twin_grant *grant = *(struct twin_grant *const *)node;
    if (visit == preorder || visit == endorder || s->found ||
        (s->function >= 0 && grant->function != s->function))
        return;
    for (int i = 0; i < grant->pieces; i++)
        if (!grant->piece[i].own && s->physical >= grant->piece[i].at &&
            s->physical - grant->piece[i].at < grant->piece[i].bytes)
            s->found = true;
}

bool twin_page_held_for(struct rig_machine *m, int function, uint64_t physical)
{
    struct twin *w = twin_of(m);
    struct page_search s = {physical, function, false};
    twin_lock(w);
    twalk_r(w->grants, look, &s);
    twin_unlock(w);
    return s.found;
}

bool twin_page_held(struct rig_machine *m, uint64_t physical)
{
    return twin_page_held_for(m, -1, physical);
}
