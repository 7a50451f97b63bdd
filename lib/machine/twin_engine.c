/* A twin GPU's engine: it walks the tables that stand in memory, caches what it finds, and moves
   bytes by it. */
#include "machine/twins.h"

#include "base/json.h"
#include "machine/walk.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_SHIFT 12
#define PAGE_BYTES (UINT64_C(1) << PAGE_SHIFT)

/* ---- the cache */

static size_t slot_of(const struct twin_gpu *gpu, uint64_t page)
{
    size_t i = (size_t)(page * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (gpu->cache_size - 1);
    while (gpu->cache[i].used && gpu->cache[i].page != page)
        i = (i + 1) & (gpu->cache_size - 1);
    return i;
}

static bool grow_cache(struct twin_gpu *gpu)
{
    struct twin_gpu bigger = {.cache_size = gpu->cache_size ? 2 * gpu->cache_size : 64};
    bigger.cache = calloc(bigger.cache_size, sizeof *bigger.cache);
    if (!bigger.cache)
        return false;
    for (size_t i = 0; i < gpu->cache_size; i++)
        if (gpu->cache[i].used)
            bigger.cache[slot_of(&bigger, gpu->cache[i].page)] = gpu->cache[i];
    free(gpu->cache);
    gpu->cache = bigger.cache;
    gpu->cache_size = bigger.cache_size;
    return true;
}

/* Keeps a page's translation. A cache may forget, so that memory ran out is no failure. */
static void cache_put(struct twin_gpu *gpu, uint64_t page, const struct twin_translation *to)
{
    if (3 * (gpu->cache_count + 1) > 2 * gpu->cache_size && !grow_cache(gpu))
        return;
    struct twin_cached *slot = &gpu->cache[slot_of(gpu, page)];
    if (!slot->used)
        gpu->cache_count++;
    *slot = (struct twin_cached){.page = page, .to = *to, .used = true};
    slot->to.cached = true;
}

static const struct twin_translation *cache_get(const struct twin_gpu *gpu, uint64_t page)
{
    if (gpu->cache_count == 0)
        return NULL;
    const struct twin_cached *slot = &gpu->cache[slot_of(gpu, page)];
    return slot->used ? &slot->to : NULL;
}

void engine_empty_cache(struct twin_gpu *gpu)
{
    if (gpu->cache_count > 0)
        memset(gpu->cache, 0, gpu->cache_size * sizeof *gpu->cache);
    gpu->cache_count = 0;
}

/* ---- the tables */

struct reader {
    struct twin *w;
    int function;
    struct rig_error *err;
};

static bool read_words(void *context, enum rig_memory_kind memory, uint64_t address,
                       uint64_t words[2], unsigned bytes)
{
    struct reader *r = context;
    struct twin_gpu *gpu = r->w->function[r->function].gpu;
    uint64_t raw[2] = {0, 0};
    enum rig_status status = RIG_REFUSED;
    if (memory == RIG_MEMORY_SYSTEM)
        status = fabric_read(r->w, r->function, address, raw, bytes, r->err);
    else if (address >= gpu->base && address - gpu->base < gpu->memory.bytes &&
             gpu->memory.bytes - (address - gpu->base) >= bytes)
        status = sparse_read(&gpu->memory, address - gpu->base, raw, bytes, r->err);
    words[0] = le64toh(raw[0]);
    words[1] = le64toh(raw[1]);
    return status == RIG_OK;
}

static uint64_t register64(const struct twin_function *f, unsigned at)
{
    return config_get(f, f->registers + at, 4) | (uint64_t)config_get(f, f->registers + at + 4, 4)
                                                     << 32;
}

static void walk_for(struct twin *w, int function, uint64_t at, struct walk *out_walk,
                     struct rig_error *err)
{
    const struct twin_function *f = &w->function[function];
    uint32_t control = config_get(f, f->registers + TWIN_GPU_CONTROL, 4);
    *out_walk = (struct walk){.end = WALK_UNMAPPED, .last = -1};
    if ((control & TWIN_GPU_TRANSLATE) == 0)
        return;
    bool system = (control & TWIN_GPU_ROOT_SYSTEM) != 0;
    struct rig_table root = rig_root(f->gpu->format, system ? RIG_MEMORY_SYSTEM : RIG_MEMORY_OWN,
                                     register64(f, TWIN_GPU_ROOT_LOW));
    struct reader reader = {w, function, err};
    walk_tables(f->gpu->format, root, at, read_words, &reader, out_walk);
}

/* The GPU whose memory holds the address of the fabric's one space, itself included, or -1. */
static int gpu_in_space(const struct twin *w, int function, uint64_t address)
{
    for (int i = 0; i < w->count; i++) {
        const struct twin_gpu *gpu = w->function[i].gpu;
        bool mine = i == function;
        if (gpu && (mine || (gpu->linked && w->function[function].gpu->linked)) &&
            address >= gpu->base && address - gpu->base < gpu->memory.bytes)
            return i;
    }
    return -1;
}

static int gpu_by_number(const struct twin *w, int function, unsigned peer)
{
    for (int i = 0; i < w->count; i++) {
        const struct twin_gpu *gpu = w->function[i].gpu;
        if (gpu && gpu->linked && gpu->peer == peer && i != function &&
            w->function[function].gpu->linked)
            return i;
    }
    return -1;
}

/* What a leaf says of the page at `at`. False: it leads to no memory. */
static bool resolve(const struct twin *w, int function, const struct rig_entry *leaf, uint64_t at,
                    struct twin_translation *out)
{
    const struct twin_gpu *gpu = w->function[function].gpu;
    uint64_t address = leaf->address + (at & (leaf->bytes - 1) & ~(PAGE_BYTES - 1));
    *out = (struct twin_translation){.memory = leaf->memory,
                                     .address = address,
                                     .peer = leaf->peer,
                                     .gpu = -1,
                                     .readable = leaf->readable,
                                     .writable = leaf->writable};
    switch (leaf->memory) {
    case RIG_MEMORY_OWN:
        out->gpu = gpu->format->link == RIG_LINK_FLAT ? gpu_in_space(w, function, address)
                   : address >= gpu->base && address - gpu->base < gpu->memory.bytes ? function
                                                                                     : -1;
        if (out->gpu < 0)
            return false;
        out->address = address - w->function[out->gpu].gpu->base;
        if (out->gpu != function)
            out->memory = RIG_MEMORY_LINK;
        return true;
    case RIG_MEMORY_LINK:
        out->gpu = gpu_by_number(w, function, leaf->peer);
        return out->gpu >= 0 && address < w->function[out->gpu].gpu->memory.bytes;
    default:
        return true;
    }
}

static bool translate(struct twin *w, int function, uint64_t at, struct twin_translation *out,
                      struct walk *out_walk, struct rig_error *err)
{
    const struct twin_gpu *gpu = w->function[function].gpu;
    const struct twin_translation *cached = cache_get(gpu, at >> PAGE_SHIFT);
    *out_walk = (struct walk){.end = WALK_LEAF, .last = -1};
    if (cached) {
        *out = *cached;
        return true;
    }
    walk_for(w, function, at, out_walk, err);
    return out_walk->end == WALK_LEAF &&
           resolve(w, function, &out_walk->step[out_walk->last].entry, at, out);
}

/* ---- moving bytes */

static enum rig_status refuse(const struct twin *w, int function, const struct walk *walk,
                              uint64_t at, struct rig_error *err)
{
    char name[RIG_BDF_MAX];
    rig_bdf_format(w->function[function].facts->bdf, name);
    unsigned long long address = at;
    if (walk->last < 0)
        return rig_fail(err, RIG_REFUSED, name,
                        walk->end == WALK_BROKEN
                            ? "its root table cannot be read for 0x%llx"
                            : "it has no root table, or 0x%llx is none of its addresses",
                        address);
    const struct walk_step *s = &walk->step[walk->last];
    const char *level = w->function[function].gpu->format->level[s->table.level].name;
    const char *why = "is invalid";
    if (walk->end == WALK_LEAF)
        why = "leads to no memory";
    else if (walk->end == WALK_LOST)
        why = "reads all ones";
    else if (walk->end == WALK_BROKEN)
        why = "leads to a table that cannot be read";
    return rig_fail(err, RIG_REFUSED, name, "0x%llx: the %s entry at 0x%llx, 0x%016llx, %s",
                    address, level, (unsigned long long)s->address, (unsigned long long)s->words[0],
                    why);
}

static enum rig_status check_right(const struct twin *w, int function,
                                   const struct twin_translation *to, uint64_t at, bool write,
                                   struct rig_error *err)
{
    char name[RIG_BDF_MAX];
    if (write ? to->writable : to->readable)
        return RIG_OK;
    return rig_fail(err, RIG_REFUSED, rig_bdf_format(w->function[function].facts->bdf, name),
                    "0x%llx is mapped, but not for %s", (unsigned long long)at,
                    write ? "writing" : "reading");
}

static enum rig_status move_in_gpu(struct twin *w, int target, uint64_t offset, uint8_t *data,
                                   size_t bytes, bool write, struct rig_error *err)
{
    struct twin_function *f = &w->function[target];
    char name[RIG_BDF_MAX];
    rig_bdf_format(f->facts->bdf, name);
    if (f->gone)
        return rig_fail(err, RIG_FAILED, name, "it left the bus: it reads all ones");
    if (f->gpu->memory.bytes - offset < bytes)
        return rig_fail(err, RIG_REFUSED, name, "its memory ends before 0x%llx",
                        (unsigned long long)(offset + bytes));
    return write ? sparse_write(&f->gpu->memory, offset, data, bytes, err)
                 : sparse_read(&f->gpu->memory, offset, data, bytes, err);
}

/* One transfer within a page of the GPU's addresses. */
static enum rig_status move_page(struct twin *w, int function, uint64_t at, uint8_t *data,
                                 size_t bytes, bool write, struct rig_error *err)
{
    struct twin_translation to;
    struct walk walk;
    if (!translate(w, function, at, &to, &walk, err)) {
        if (walk.end != WALK_SPARSE)
            return refuse(w, function, &walk, at, err);
        if (!write)
            memset(data, 0, bytes);
        return RIG_OK;
    }
    if (!to.cached)
        cache_put(w->function[function].gpu, at >> PAGE_SHIFT, &to);
    enum rig_status status = check_right(w, function, &to, at, write, err);
    if (status != RIG_OK)
        return status;
    uint64_t address = to.address + (at & (PAGE_BYTES - 1));
    if (to.gpu >= 0)
        return move_in_gpu(w, to.gpu, address, data, bytes, write, err);
    return write ? fabric_write(w, function, address, data, bytes, err)
                 : fabric_read(w, function, address, data, bytes, err);
}

static enum rig_status access_memory(struct rig_machine *m, const char *name, uint64_t at,
                                     uint8_t *data, size_t bytes, bool write, struct rig_error *err)
{
    struct twin *w = twin_of(m);
    int function = twin_is(m) ? rig_topology_find(m->topology, name) : -1;
    if (function < 0 || !w->function[function].gpu)
        return rig_fail(err, RIG_INVALID, name, "it is no GPU of a twin");
    uint64_t end;
    if (!rig_add(at, bytes ? bytes - 1 : 0, &end))
        return rig_fail(err, RIG_INVALID, name, "the addresses end beyond 64 bits");
    twin_lock(w);
    enum rig_status status = RIG_OK;
    if (is_gone(w, function)) {
        status = rig_fail(err, RIG_FAILED, name, "it left the bus: it reads all ones");
        if (!write)
            memset(data, 0xff, bytes);
    }
    for (size_t done = 0; done < bytes && status == RIG_OK;) {
        uint64_t left = PAGE_BYTES - ((at + done) & (PAGE_BYTES - 1));
        size_t n = left < bytes - done ? (size_t)left : bytes - done;
        status = move_page(w, function, at + done, data + done, n, write, err);
        if (status != RIG_OK && !write)
            memset(data + done, 0xff, bytes - done);
        done += n;
    }
    twin_unlock(w);
    return status;
}

enum rig_status rig_twin_gpu_read(struct rig_machine *m, const char *gpu, rig_gpu_address at,
                                  void *out_data, size_t bytes, struct rig_error *err)
{
    return access_memory(m, gpu, at, out_data, bytes, false, err);
}

enum rig_status rig_twin_gpu_write(struct rig_machine *m, const char *gpu, rig_gpu_address at,
                                   const void *data, size_t bytes, struct rig_error *err)
{
    return access_memory(m, gpu, at, (uint8_t *)(uintptr_t)data, bytes, true, err);
}

bool twin_translate(struct rig_machine *m, int gpu, rig_gpu_address at,
                    struct twin_translation *out_translation)
{
    struct twin *w = twin_of(m);
    struct walk walk;
    struct twin_translation to;
    twin_lock(w);
    bool found = w->function[gpu].gpu && translate(w, gpu, at, &to, &walk, NULL);
    twin_unlock(w);
    if (!found)
        return false;
    to.address += at & (PAGE_BYTES - 1);
    *out_translation = to;
    return true;
}

bool twin_tables(struct rig_machine *m, int gpu, rig_gpu_address at,
                 struct twin_translation *out_translation)
{
    struct twin *w = twin_of(m);
    struct walk walk = {.end = WALK_UNMAPPED};
    struct twin_translation to;
    twin_lock(w);
    if (w->function[gpu].gpu)
        walk_for(w, gpu, at, &walk, NULL);
    bool found = walk.end == WALK_LEAF && resolve(w, gpu, &walk.step[walk.last].entry, at, &to);
    twin_unlock(w);
    if (!found)
        return false;
    to.address += at & (PAGE_BYTES - 1);
    *out_translation = to;
    return true;
}

enum rig_status twin_walk(struct rig_machine *m, int gpu, rig_gpu_address at, struct walk *out_walk,
                          struct rig_error *err)
{
    struct twin *w = twin_of(m);
    struct rig_error local = {.status = RIG_OK};
    *out_walk = (struct walk){.end = WALK_UNMAPPED, .last = -1};
    twin_lock(w);
    if (w->function[gpu].gpu)
        walk_for(w, gpu, at, out_walk, &local);
    twin_unlock(w);
    if (out_walk->end != WALK_BROKEN)
        return RIG_OK;
    return rig_fail(err, RIG_FAILED, local.what, "%s",
                    local.status == RIG_OK ? "a table lies outside the GPU's memory" : local.why);
}

size_t twin_cached(struct rig_machine *m, int gpu)
{
    struct twin *w = twin_of(m);
    twin_lock(w);
    size_t count = w->function[gpu].gpu ? w->function[gpu].gpu->cache_count : 0;
    twin_unlock(w);
    return count;
}

/* ---- its saved state */

json_t *engine_save(const struct twin_gpu *gpu)
{
    json_t *cache = json_array();
    for (size_t i = 0; i < gpu->cache_size; i++) {
        const struct twin_cached *c = &gpu->cache[i];
        if (!c->used)
            continue;
        json_t *one = json_pack("[o i o i i b b]", json_hex(c->page << PAGE_SHIFT),
                                (int)c->to.memory, json_hex(c->to.address), (int)c->to.peer,
                                c->to.gpu, c->to.readable, c->to.writable);
        if (json_array_append_new(cache, one) != 0) {
            json_decref(cache);
            return NULL;
        }
    }
    return cache;
}

static bool load_one(struct twin *w, struct twin_gpu *gpu, const json_t *j)
{
    uint64_t at;
    struct twin_translation to = {0};
    json_int_t number[3];
    for (size_t i = 0; i < 3; i++) {
        static const size_t place[] = {1, 3, 4};
        const json_t *value = json_array_get(j, place[i]);
        if (!json_is_integer(value))
            return false;
        number[i] = json_integer_value(value);
    }
    if (!json_hex_value(json_array_get(j, 0), &at) ||
        !json_hex_value(json_array_get(j, 2), &to.address) || number[0] < RIG_MEMORY_OWN ||
        number[0] > RIG_MEMORY_LINK || number[1] < 0 || number[1] > UINT8_MAX || number[2] < -1 ||
        number[2] >= w->count || (number[2] < 0) != (number[0] == RIG_MEMORY_SYSTEM))
        return false;
    to.memory = (enum rig_memory_kind)number[0];
    to.peer = (uint8_t)number[1];
    to.gpu = (int)number[2];
    const json_t *readable = json_array_get(j, 5), *writable = json_array_get(j, 6);
    if (!json_is_boolean(readable) || !json_is_boolean(writable))
        return false;
    to.readable = json_is_true(readable);
    to.writable = json_is_true(writable);
    if (to.gpu >= 0 &&
        (!w->function[to.gpu].gpu || to.address >= w->function[to.gpu].gpu->memory.bytes))
        return false;
    cache_put(gpu, at >> PAGE_SHIFT, &to);
    return true;
}

enum rig_status engine_load(struct twin *w, struct twin_gpu *gpu, const json_t *state,
                            struct rig_error *err)
{
    size_t i;
    const json_t *one;
    bool good = json_is_array(state);
    json_array_foreach(state, i, one)
    {
        good = good && load_one(w, gpu, one);
    }
    if (good)
        return RIG_OK;
    return rig_fail(err, RIG_BAD_INPUT, "machine", "a GPU's translation cache is wrong");
}
