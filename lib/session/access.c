/* Looking at memory, and writing it: by the process, by a GPU's work, by another function's DMA. */
#include "session/session.h"

#include "gpu/save.h"
#include "machine/function.h"
#include "machine/twin.h"
#include "machine/walk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A move of bytes as it goes on, piece by piece. out NULL: a write of `in`. */
struct mover {
    struct rig_session *s;
    unsigned char *out;
    const unsigned char *in;
};

static void advance(struct mover *v, size_t bytes)
{
    if (v->out)
        v->out += bytes;
    else
        v->in += bytes;
}

/* ---- the process */

/* The function, other than `but`, whose memory BAR shows the bus address, and where; or -1. */
static int find_bar(struct rig_machine *m, uint64_t at, int but, int *out_bar, uint64_t *out_into,
                    uint64_t *out_left)
{
    const struct rig_topology *t = rig_machine_topology(m);
    for (int i = 0; i < rig_topology_count(t); i++) {
        if (rig_topology_function(t, i)->memory_bar < 0 || i == but)
            continue;
        struct rig_bar_now now;
        int bar = rig_topology_function(t, i)->memory_bar;
        machine_bar(m, i, bar, &now);
        if (!now.assigned || at < now.bus || at - now.bus >= now.size)
            continue;
        *out_bar = bar;
        *out_into = at - now.bus;
        *out_left = now.size - *out_into;
        return i;
    }
    return -1;
}

static enum rig_status move_memory(struct mover *v, int gpu, uint64_t offset, size_t bytes,
                                   struct rig_error *err)
{
    struct rig_machine *m = v->s->machine;
    struct rig_device *dev = machine_device(m, gpu);
    if (dev && device_failed(dev))
        return device_fail(dev, err);
    return v->out ? twin_memory_read(m, gpu, offset, v->out, bytes, err)
                  : twin_memory_write(m, gpu, offset, v->in, bytes, err);
}

/* The region of GPU `function` that has the GPU address and a window of the process, and where the
   address is in it; false: none. */
static bool find_window(struct rig_session *s, int function, uint64_t at,
                        struct rig_region *out_region, uint64_t *out_into, uint64_t *out_left)
{
    struct rig_region region = {.id = 0};
    while (rig_gpus_next_region(s->gpus, region.id, &region)) {
        struct rig_memory_info memory;
        struct rig_region_info info;
        struct rig_host host;
        rig_memory_info(region.memory, &memory);
        if (memory.number != function || rig_region_info(region, &info, NULL) != RIG_OK ||
            at < info.address || at - info.address >= info.bytes ||
            !gpus_region_host(region, &host))
            continue;
        *out_region = region;
        *out_into = at - info.address;
        *out_left = info.bytes - *out_into;
        return true;
    }
    return false;
}

/* System memory that the GPU's address leads to: by a region's window, or by a request of the GPU.
 */
static enum rig_status move_system(struct mover *v, int function, uint64_t va, uint64_t bus,
                                   size_t *io_bytes, struct rig_error *err)
{
    struct rig_machine *m = v->s->machine;
    struct rig_region region;
    uint64_t into, left;
    if (find_window(v->s, function, va, &region, &into, &left)) {
        *io_bytes = left < *io_bytes ? (size_t)left : *io_bytes;
        return v->out ? rig_region_read(region, into, v->out, *io_bytes, err)
                      : rig_region_write(region, into, v->in, *io_bytes, err);
    }
    char name[RIG_BDF_MAX];
    rig_bdf_format(rig_topology_function(rig_machine_topology(m), function)->bdf, name);
    return v->out ? rig_twin_read(m, name, bus, v->out, *io_bytes, err)
                  : rig_twin_write(m, name, bus, v->in, *io_bytes, err);
}

static enum rig_status not_mapped(int function, struct rig_session *s, uint64_t at,
                                  struct rig_error *err)
{
    char name[RIG_BDF_MAX];
    rig_bdf_format(rig_topology_function(rig_machine_topology(s->machine), function)->bdf, name);
    rig_fail(err, RIG_REFUSED, name, "its tables map nothing at 0x%" PRIx64, at);
    rig_hint(err, "rigmem walk %s 0x%" PRIx64 " shows where they end", name, at);
    return RIG_REFUSED;
}

/* Bytes at a GPU address, as the process finds them behind the GPU's tables. */
static enum rig_status move_mapped(struct mover *v, int gpu, uint64_t at, size_t bytes,
                                   struct rig_error *err)
{
    struct rig_machine *m = v->s->machine;
    while (bytes > 0) {
        struct twin_translation to;
        if (!twin_tables(m, gpu, at, &to))
            return not_mapped(gpu, v->s, at, err);
        size_t n = 4096 - (at & 4095);
        n = n < bytes ? n : bytes;
        int bar;
        uint64_t into, left;
        int owner = to.gpu;
        enum rig_status status;
        if (owner >= 0) {
            status = move_memory(v, owner, to.address, n, err);
        } else if ((owner = find_bar(m, to.address, gpu, &bar, &into, &left)) >= 0 &&
                   twin_memory_bytes(m, owner) > into) {
            n = left < n ? (size_t)left : n;
            status = move_memory(v, owner, into, n, err);
        } else {
            status = move_system(v, gpu, at, to.address, &n, err);
        }
        if (status != RIG_OK)
            return status;
        advance(v, n);
        at += n;
        bytes -= n;
    }
    return RIG_OK;
}

static enum rig_status by_process(struct mover *v, const struct rig_access *a, int gpu, uint64_t va,
                                  size_t bytes, struct rig_error *err)
{
    struct rig_host host;
    if (a->region.memory && gpus_region_host(a->region, &host) && host.memory)
        return v->out ? rig_region_read(a->region, a->at, v->out, bytes, err)
                      : rig_region_write(a->region, a->at, v->in, bytes, err);
    return move_mapped(v, gpu, va, bytes, err);
}

/* ---- another function */

/* The bus address that leads to what the GPU's tables have at `at`, and how far. */
static enum rig_status bus_address(struct rig_session *s, int gpu, uint64_t at, uint64_t *out_bus,
                                   uint64_t *out_left, struct rig_error *err)
{
    struct twin_translation to;
    if (!twin_tables(s->machine, gpu, at, &to))
        return not_mapped(gpu, s, at, err);
    *out_left = 4096 - (at & 4095);
    *out_bus = to.address;
    if (to.gpu < 0)
        return RIG_OK;
    const struct rig_topology *t = rig_machine_topology(s->machine);
    const struct rig_function *f = rig_topology_function(t, to.gpu);
    struct rig_bar_now now = {.size = 0};
    if (f->memory_bar >= 0)
        machine_bar(s->machine, to.gpu, f->memory_bar, &now);
    char name[RIG_BDF_MAX];
    if (!now.assigned || to.address >= now.size)
        return rig_fail(err, RIG_REFUSED, rig_bdf_format(f->bdf, name),
                        "its BAR does not show 0x%" PRIx64 " of its memory", to.address);
    *out_bus = now.bus + to.address;
    return RIG_OK;
}

static enum rig_status by_dma(struct mover *v, const struct rig_access *a, int gpu, uint64_t at,
                              size_t bytes, struct rig_error *err)
{
    struct rig_memory_info info;
    struct rig_memory *m = gpus_memory_of(v->s->gpus, gpu);
    rig_memory_info(m ? m : a->region.memory, &info);
    bool mapped = at >= info.space_base && at - info.space_base < info.space_bytes;
    while (bytes > 0) {
        uint64_t bus = at, left = bytes;
        enum rig_status status = RIG_OK;
        if (mapped)
            status = bus_address(v->s, gpu, at, &bus, &left, err);
        size_t n = left < bytes ? (size_t)left : bytes;
        if (status == RIG_OK)
            status = v->out ? rig_twin_read(v->s->machine, a->by, bus, v->out, n, err)
                            : rig_twin_write(v->s->machine, a->by, bus, v->in, n, err);
        if (status != RIG_OK)
            return status;
        advance(v, n);
        at += n;
        bytes -= n;
    }
    return RIG_OK;
}

/* ---- both ways */

/* What is at the addresses of a region whose GPU was given back is of somebody else. */
static enum rig_status check_region(const struct rig_memory_info *memory, struct rig_error *err)
{
    char name[RIG_BDF_MAX];
    if (memory->life != RIG_LIFE_STOPPED)
        return RIG_OK;
    return rig_fail(err, RIG_INVALID, rig_bdf_format(memory->function, name),
                    "it was released, and the region's memory went back with it");
}

/* The GPU and the GPU address that an access is about. */
static enum rig_status locate(struct rig_session *s, const struct rig_access *a, size_t bytes,
                              int *out_gpu, uint64_t *out_at, struct rig_error *err)
{
    struct rig_memory *m = a->region.memory;
    struct rig_memory_info memory;
    struct rig_region_info info;
    uint64_t end;
    enum rig_status status = RIG_OK;
    if (!m)
        status = rig_session_gpu(s, a->gpu, &m, err);
    else
        status = rig_region_info(a->region, &info, err);
    if (status != RIG_OK)
        return status;
    if (!rig_add(a->at, bytes, &end))
        return rig_fail(err, RIG_INVALID, a->gpu, "0x%" PRIx64 "+0x%zx is not within 64 bits",
                        a->at, bytes);
    if (a->region.memory && end > info.bytes)
        return rig_fail(err, RIG_INVALID, NULL,
                        "0x%" PRIx64 "+0x%zx is not within r%" PRIu64 ", which has 0x%" PRIx64
                        " bytes",
                        a->at, bytes, a->region.id, info.bytes);
    rig_memory_info(m, &memory);
    *out_gpu = memory.number;
    *out_at = a->region.memory ? info.address + a->at : a->at;
    return a->region.memory ? check_region(&memory, err) : RIG_OK;
}

static enum rig_status move(struct mover *v, const struct rig_access *a, size_t bytes,
                            struct rig_error *err)
{
    struct rig_session *s = v->s;
    int gpu = -1;
    uint64_t at = 0;
    enum rig_status status = locate(s, a, bytes, &gpu, &at, err);
    if (status != RIG_OK || bytes == 0)
        return status;
    if (!a->by) {
        s->changed = s->changed || v->in;
        return by_process(v, a, gpu, at, bytes, err);
    }
    int by = rig_topology_find(rig_machine_topology(s->machine), a->by);
    if (by < 0)
        return rig_fail(err, RIG_INVALID, a->by, "no such function");
    s->changed = true;
    if (!gpus_memory_of(s->gpus, by))
        return by_dma(v, a, gpu, at, bytes, err);
    return v->out ? rig_twin_gpu_read(s->machine, a->by, at, v->out, bytes, err)
                  : rig_twin_gpu_write(s->machine, a->by, at, v->in, bytes, err);
}

enum rig_status rig_session_read(struct rig_session *s, const struct rig_access *access,
                                 void *out_data, size_t bytes, struct rig_error *err)
{
    struct mover v = {.s = s, .out = out_data};
    return move(&v, access, bytes, err);
}

enum rig_status rig_session_write(struct rig_session *s, const struct rig_access *access,
                                  const void *data, size_t bytes, struct rig_error *err)
{
    struct mover v = {.s = s, .in = data};
    return move(&v, access, bytes, err);
}

/* ---- walking */

static const char *memory_word(enum rig_memory_kind memory)
{
    static const char *const word[] = {"own", "system", "link"};
    return word[memory];
}

static void show_step(const struct rig_format *f, const struct walk_step *step,
                      struct rig_walk_level *out)
{
    static const char *const kind[] = {
        [RIG_ENTRY_INVALID] = "invalid", [RIG_ENTRY_SPARSE] = "sparse",
        [RIG_ENTRY_HIDES] = "hides",     [RIG_ENTRY_DIRECTORY] = "directory",
        [RIG_ENTRY_LEAF] = "leaf",       [RIG_ENTRY_LOST] = "lost",
    };
    const struct rig_entry *e = &step->entry;
    bool directory = e->kind == RIG_ENTRY_DIRECTORY;
    *out = (struct rig_walk_level){
        .name = f->level[step->table.level].name,
        .table = step->table.address,
        .index = step->index,
        .entry = {step->words[0], step->words[1]},
        .entry_bytes = f->level[step->table.level].entry_bytes,
        .kind = kind[e->kind],
        .memory = memory_word(directory ? e->child[0].memory : e->memory),
        .address = directory ? e->child[0].address : e->address,
        .bytes = e->bytes,
        .peer = e->peer,
        .fragment = e->fragment,
        .type = e->type,
        .snooped = e->snooped,
        .uncached = e->uncached,
        .readable = e->readable,
        .writable = e->writable,
        .executable = e->executable,
    };
}

static void show_end(struct rig_machine *m, int gpu, uint64_t at, const struct rig_entry *leaf,
                     struct rig_walk *out)
{
    uint64_t into = at & (leaf->bytes - 1), ignored;
    int bar;
    out->mapped = true;
    out->address = leaf->address + into;
    out->bytes = leaf->bytes - into;
    out->target = leaf->memory == RIG_MEMORY_OWN    ? RIG_TARGET_GPU
                  : leaf->memory == RIG_MEMORY_LINK ? RIG_TARGET_PEER
                                                    : RIG_TARGET_SYSTEM;
    if (out->target == RIG_TARGET_SYSTEM &&
        find_bar(m, out->address, gpu, &bar, &ignored, &ignored) >= 0)
        out->target = RIG_TARGET_PEER;
}

enum rig_status rig_session_walk(struct rig_session *s, const char *gpu, rig_gpu_address at,
                                 struct rig_walk *out_walk, struct rig_error *err)
{
    struct rig_memory *memory;
    struct rig_memory_info info;
    enum rig_status status = rig_session_gpu(s, gpu, &memory, err);
    if (status != RIG_OK)
        return status;
    rig_memory_info(memory, &info);
    struct rig_device *dev = machine_device(s->machine, info.number);
    if (dev && device_failed(dev))
        return device_fail(dev, err);
    struct walk walk;
    status = twin_walk(s->machine, info.number, at, &walk, err);
    if (status != RIG_OK)
        return status;
    const struct rig_format *f = twin_format(s->machine, info.number);
    *out_walk = (struct rig_walk){.count = walk.steps};
    for (int i = 0; i < walk.steps && i < RIG_WALK_LEVELS; i++)
        show_step(f, &walk.step[i], &out_walk->level[i]);
    if (walk.end == WALK_LEAF)
        show_end(s->machine, info.number, at, &walk.step[walk.last].entry, out_walk);
    return RIG_OK;
}
