/* The GPUs of one machine: what they share. */
#include "gpu/memories.h"

#include "machine/twin.h"

#include <stdlib.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)
/* x86-64 and arm64 give a process 47 bits at least (Linux, Documentation/x86/x86_64/mm). */
#define PROCESS_END (UINT64_C(1) << 47)

/* In the order of their spaces. */
static const char *const vendors[] = {"amd", "nvidia", "intel", "plain"};

static bool are_sane(const struct rig_gpus_options *o)
{
    uint64_t all, end;
    if (((o->space_base | o->space_bytes) & (GIB - 1)) != 0)
        return false;
    if (o->space_base == 0 && o->space_bytes == 0)
        return true;
    uint64_t bytes = o->space_bytes ? o->space_bytes : UINT64_C(16) << 40;
    uint64_t base = o->space_base ? o->space_base : UINT64_C(0x200000000000);
    return rig_multiply(bytes, RIG_ARRAY_LENGTH(vendors), &all) && rig_add(base, all, &end) &&
           end <= PROCESS_END;
}

enum rig_status rig_gpus_create(struct rig_machine *m, const struct rig_gpus_options *options,
                                struct rig_gpus **out_gpus, struct rig_error *err)
{
    struct rig_gpus_options mine = {.space_base = 0};
    if (options)
        mine = *options;
    if (!are_sane(&mine))
        return rig_fail(err, RIG_INVALID, NULL,
                        "address spaces are multiples of 1 GiB and end below 2^47");
    struct rig_gpus *g = calloc(1, sizeof *g);
    if (!g)
        return rig_fail_memory(err);
    g->machine = m;
    g->options = mine;
    pthread_mutex_init(&g->lock, NULL);
    *out_gpus = g;
    return RIG_OK;
}

void rig_gpus_free(struct rig_gpus *take_gpus)
{
    struct rig_gpus *g = take_gpus;
    if (!g)
        return;
    for (size_t i = 0; i < g->count; i++)
        gpu_memory_drop(g->memory[i]);
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(g->space); i++)
        space_drop(g->space[i]);
    pthread_mutex_destroy(&g->lock);
    free(g->memory);
    free(g->place);
    free(g);
}

void rig_gpus_finish_releases(struct rig_gpus *gpus)
{
    machine_finish_releases(gpus->machine);
    for (size_t i = 0; i < rig_gpus_count(gpus); i++)
        gpu_memory_settle(rig_gpus_memory(gpus, i));
}

/* ---- memories */

/* The lock guards lists, not what they hold: a const rig_gpus is one that callers do not change. */
static pthread_mutex_t *lock_of(const struct rig_gpus *g)
{
    return &((struct rig_gpus *)(uintptr_t)g)->lock;
}

size_t rig_gpus_count(const struct rig_gpus *gpus)
{
    pthread_mutex_lock(lock_of(gpus));
    size_t count = gpus->count;
    pthread_mutex_unlock(lock_of(gpus));
    return count;
}

struct rig_memory *rig_gpus_memory(const struct rig_gpus *gpus, size_t i)
{
    pthread_mutex_lock(lock_of(gpus));
    struct rig_memory *m = i < gpus->count ? gpus->memory[i] : NULL;
    pthread_mutex_unlock(lock_of(gpus));
    return m;
}

enum rig_status gpus_enter(struct rig_gpus *g, struct rig_memory *take_memory,
                           struct rig_error *err)
{
    pthread_mutex_lock(&g->lock);
    struct rig_memory **grown = realloc(g->memory, (g->count + 1) * sizeof(struct rig_memory *));
    if (grown) {
        g->memory = grown;
        g->memory[g->count++] = take_memory;
    }
    pthread_mutex_unlock(&g->lock);
    return grown ? RIG_OK : rig_fail_memory(err);
}

/* ---- spaces */

static size_t space_index(const struct rig_format *f)
{
    size_t i = 0;
    while (i + 1 < RIG_ARRAY_LENGTH(vendors) && strcmp(vendors[i], f->vendor) != 0)
        i++;
    return i;
}

static void place_space(const struct rig_gpus *g, const struct rig_format *f, uint64_t *out_base,
                        uint64_t *out_bytes)
{
    *out_base = f->space_base;
    *out_bytes = f->space_bytes;
    if (g->options.space_bytes)
        *out_bytes = g->options.space_bytes;
    if (g->options.space_base || g->options.space_bytes) {
        uint64_t base = g->options.space_base ? g->options.space_base : UINT64_C(0x200000000000);
        *out_base = base + space_index(f) * *out_bytes;
    }
}

enum rig_status gpus_space(struct rig_gpus *g, const struct rig_format *f,
                           struct rig_space **out_space, struct rig_error *err)
{
    size_t i = space_index(f);
    uint64_t base, bytes;
    place_space(g, f, &base, &bytes);
    pthread_mutex_lock(&g->lock);
    struct rig_space *s = g->space[i];
    pthread_mutex_unlock(&g->lock);
    if (!s) {
        enum rig_status status =
            space_make(g->machine, vendors[i], base, bytes, !g->options.unreserved, &s, err);
        if (status != RIG_OK)
            return status;
        pthread_mutex_lock(&g->lock);
        g->space[i] = s;
        pthread_mutex_unlock(&g->lock);
    }
    *out_space = s;
    return RIG_OK;
}

struct rig_space *gpus_space_at(struct rig_gpus *g, uint64_t address)
{
    struct rig_space *found = NULL;
    pthread_mutex_lock(&g->lock);
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(g->space); i++) {
        struct rig_space *s = g->space[i];
        if (s && address >= space_base(s) && address - space_base(s) < space_bytes(s))
            found = s;
    }
    pthread_mutex_unlock(&g->lock);
    return found;
}

bool gpus_space_after(struct rig_gpus *g, uint64_t *io_address)
{
    uint64_t least = 0;
    pthread_mutex_lock(&g->lock);
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(g->space); i++) {
        const struct rig_space *s = g->space[i];
        if (s && space_base(s) > *io_address && (least == 0 || space_base(s) < least))
            least = space_base(s);
    }
    pthread_mutex_unlock(&g->lock);
    *io_address = least ? least : *io_address;
    return least != 0;
}

enum rig_status gpus_restore_space(struct rig_gpus *g, const struct rig_format *f,
                                   struct rig_space **out_space, struct rig_error *err)
{
    bool unreserved = g->options.unreserved;
    g->options.unreserved = true; /* the machine's own state has the reservation */
    enum rig_status status = gpus_space(g, f, out_space, err);
    g->options.unreserved = unreserved;
    return status;
}

/* ---- links */

static bool has_memory(const struct rig_gpus *g, int function)
{
    for (size_t i = 0; i < rig_gpus_count(g); i++) {
        const struct rig_memory *m = rig_gpus_memory(g, i);
        if (m->function == function && gpu_memory_life(m) != RIG_LIFE_STOPPED)
            return true;
    }
    return false;
}

static enum rig_status check_links(const struct rig_gpus *g, const char *const *functions,
                                   int count, int *out_numbers, struct rig_error *err)
{
    if (count < 2 || count > 256)
        return rig_fail(err, RIG_INVALID, NULL, "a fabric has 2 to 256 GPUs, not %d", count);
    for (int i = 0; i < count; i++) {
        int n = rig_topology_find(g->machine->topology, functions[i]);
        if (n < 0)
            return rig_fail(err, RIG_INVALID, functions[i], "no such function on this machine");
        const struct rig_function *f = rig_topology_function(g->machine->topology, n);
        if (!f->gpu)
            return rig_fail(err, RIG_INVALID, functions[i],
                            f->gpu_unknown ? "whether it is a GPU is not known" : "it is no GPU");
        if (has_memory(g, n))
            return rig_fail(err, RIG_INVALID, functions[i], "it has memory already");
        for (int k = 0; k < i; k++)
            if (out_numbers[k] == n)
                return rig_fail(err, RIG_INVALID, functions[i], "it is in the fabric twice");
        out_numbers[i] = n;
    }
    return RIG_OK;
}

enum rig_status gpus_place(struct rig_gpus *g, int function, struct rig_link link,
                           struct rig_error *err)
{
    struct linked_gpu *grown = realloc(g->place, (g->places + 1) * sizeof *grown);
    if (!grown)
        return rig_fail_memory(err);
    g->place = grown;
    g->place[g->places++] = (struct linked_gpu){.function = function, .link = link};
    return RIG_OK;
}

enum rig_status rig_gpus_link(struct rig_gpus *gpus, unsigned fabric, const char *const *functions,
                              int count, struct rig_link *out_links, struct rig_error *err)
{
    int number[256];
    enum rig_status status = check_links(gpus, functions, count, number, err);
    if (status != RIG_OK)
        return status;
    for (size_t i = 0; i < gpus->places; i++)
        if (gpus->place[i].link.fabric != fabric && twin_is(gpus->machine))
            return rig_fail(err, RIG_REFUSED, functions[0], "a twin has one fabric of links");
    if (twin_is(gpus->machine))
        status = twin_link(gpus->machine, number, count, err);
    for (int i = 0; i < count && status == RIG_OK; i++) {
        struct rig_link link = {.fabric = fabric, .place = (unsigned)i};
        status = gpus_place(gpus, number[i], link, err);
        out_links[i] = link;
    }
    return status;
}
