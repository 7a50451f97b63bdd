/* A memory's life: requests on it, its page table's operations, and what a release and the
   give-back end. */
#include "gpu/memories.h"

#include <stdio.h>
#include <stdlib.h>

struct rig_memory *gpu_memory_new(struct rig_gpus *g, struct rig_device *dev, int function)
{
    struct rig_memory *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->gpus = g;
    m->device = dev;
    m->function = function;
    m->part.device = dev;
    pthread_mutex_init(&m->lock, NULL);
    return m;
}

static void drop_mapping(struct mapping *p)
{
    if (p->hold)
        device_abandon(p->memory->device, p->hold);
    while (p->peers) {
        struct peer *peer = p->peers;
        p->peers = peer->next;
        peer->mapping->member = NULL;
        free(peer);
    }
    if (p->member) {
        struct peer **link = &p->of->peers;
        while (*link != p->member)
            link = &(*link)->next;
        *link = p->member->next;
        free(p->member);
    }
    mapping_free(p);
}

void gpu_memory_drop(struct rig_memory *m)
{
    if (m->device)
        device_forget_give_back(m->device, gpu_memory_given_back, m);
    for (size_t i = 0; i < m->regions.count; i++)
        if (m->regions.slot[i].region)
            region_unmake(m->regions.slot[i].region);
    free(m->regions.slot);
    while (m->mappings) {
        struct mapping *p = m->mappings;
        m->mappings = p->next;
        drop_mapping(p);
    }
    free(m->restored);
    rig_page_table_drop(m->tables);
    pool_drop(m->pool);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

enum rig_life gpu_memory_life(const struct rig_memory *m)
{
    return m->device ? rig_device_life(m->device) : RIG_LIFE_STOPPED;
}

char *gpu_memory_name(const struct rig_memory *m, char text[RIG_BDF_MAX])
{
    return rig_bdf_format(rig_topology_function(m->gpus->machine->topology, m->function)->bdf,
                          text);
}

enum rig_status gpu_memory_report(const struct rig_memory *m, enum rig_status status,
                                  const struct rig_error *own, struct rig_error *err)
{
    char name[RIG_BDF_MAX];
    if (status == RIG_OK || !err || err->status != RIG_OK)
        return status;
    *err = *own;
    err->status = status;
    if (err->what[0] == '\0')
        snprintf(err->what, sizeof err->what, "%s", gpu_memory_name(m, name));
    return status;
}

/* ---- the page table's operations */

static enum rig_status table_take(void *gpu, uint64_t *out_offset, struct rig_error *err)
{
    const struct rig_memory *m = gpu;
    if (!m->tables) {
        *out_offset = 0; /* the root: the boot pool's first page */
        return RIG_OK;
    }
    return pool_take_table(m->pool, out_offset, err);
}

static void table_give(void *gpu, uint64_t offset)
{
    const struct rig_memory *m = gpu;
    pool_give_table(m->pool, offset);
}

static enum rig_status table_write(void *gpu, uint64_t offset, const void *words, uint64_t bytes,
                                   struct rig_error *err)
{
    const struct rig_memory *m = gpu;
    (void)err;
    /* a GPU that had left the bus when its memory was restored has no view, and takes no write */
    if (m->tables_view)
        view_write(m->tables_view, offset, words, bytes);
    return RIG_OK;
}

static enum rig_status table_flush(void *gpu, bool *out_confirmed, struct rig_error *err)
{
    const struct rig_memory *m = gpu;
    *out_confirmed = false;
    rig_fill_drain();
    enum rig_status status = part_flush(&m->part, out_confirmed, err);
    if (status == RIG_OK && device_failed(m->device)) {
        *out_confirmed = false;
        if (!m->clearing)
            return device_fail(m->device, err);
    }
    return status;
}

const struct rig_page_table_ops gpu_memory_table_ops = {
    .take = table_take,
    .give = table_give,
    .write = table_write,
    .flush = table_flush,
};

/* ---- requests */

void gpu_memory_enter(struct rig_memory *m)
{
    gpu_memory_lock(m);
    m->requests++;
    gpu_memory_unlock(m);
}

void gpu_memory_leave(struct rig_memory *m)
{
    gpu_memory_lock(m);
    m->requests--;
    gpu_memory_unlock(m);
}

enum rig_status request_begin(struct rig_memory *m, struct rig_error *err)
{
    /* Counted before the use begins, so that nobody settles between the two. */
    gpu_memory_enter(m);
    char name[RIG_BDF_MAX];
    enum rig_status status =
        m->device ? device_use(m->device, err)
                  : rig_fail(err, RIG_INVALID, gpu_memory_name(m, name), "it was released");
    if (status == RIG_OK)
        return RIG_OK;
    gpu_memory_leave(m);
    gpu_memory_settle(m);
    return status;
}

void request_end(struct rig_memory *m)
{
    gpu_memory_leave(m);
    device_unuse(m->device);
    gpu_memory_settle(m);
}

/* ---- what ends */

/* Takes every mapping of other GPUs' memory out of its owner's list. */
static struct peer *detach_members(struct rig_memory *m)
{
    struct peer *chain = NULL;
    for (struct mapping *p = m->mappings; p; p = p->next) {
        struct peer *peer = p->member ? mapping_detach_member(p) : NULL;
        if (peer) {
            peer->chain = chain;
            chain = peer;
        }
    }
    return chain;
}

static void settle(struct rig_memory *m, bool giving_back)
{
    bool stopped = giving_back || (gpu_memory_life(m) != RIG_LIFE_TAKEN &&
                                   (!m->device || !device_masters(m->device)));
    gpu_memory_lock(m);
    bool mine = stopped && !m->settled && (giving_back || m->requests == 0);
    struct peer *chain = NULL;
    struct rig_page_table *tables = NULL;
    struct rig_view *view = NULL;
    if (mine) {
        m->settled = true;
        chain = detach_members(m);
        tables = m->tables;
        view = m->tables_view;
        m->tables = NULL;
        m->tables_view = NULL;
    }
    gpu_memory_unlock(m);
    rig_page_table_drop(tables);
    /* Views are the give-back's, which may be under way in another thread, unless a reservation
       holds it up for good. One whose unmap is cut short is the function's. */
    bool ours = mine && !giving_back && m->device && device_reserved(m->device);
    if (view && ours)
        device_unmap(m->device, view, NULL);
    if (ours)
        part_close(&m->part);
    while (chain) {
        struct peer *peer = chain;
        chain = peer->chain;
        peer_leave(peer);
    }
}

/* Once the function is released and masters the bus no more, and no request is under way: page
   tables are dropped, and the mappings of other GPUs' memory end as frees would end them. */
void gpu_memory_settle(struct rig_memory *m)
{
    if (gpu_memory_life(m) != RIG_LIFE_TAKEN)
        settle(m, false);
}

/* Nothing is reached by this GPU any more, and what the function layer holds goes by itself. */
static void give_back_begins(struct rig_memory *m)
{
    settle(m, true);
    gpu_memory_lock(m);
    m->gone = true;
    m->due = NULL;
    pool_drop(m->pool);
    m->pool = NULL;
    for (struct mapping *p = m->mappings; p; p = p->next) {
        p->state = MAPPING_GONE;
        p->due = false;
        p->view = NULL;
        if (p->hold)
            device_abandon(m->device, p->hold);
        p->hold = NULL;
    }
    gpu_memory_unlock(m);
}

/* Addresses go after the memory at them, which others could not put theirs at before. Regions stay
   out, over mappings that are gone. */
static void give_back_done(struct rig_memory *m)
{
    gpu_memory_lock(m);
    struct mapping *next;
    for (struct mapping *p = m->mappings; p; p = next) {
        next = p->next;
        mapping_let_go_addresses(p);
        if (p->kept)
            region_drop(m, p->kept);
        mapping_free_if_idle(p);
    }
    gpu_memory_unlock(m);
}

void gpu_memory_given_back(void *context, enum give_back_stage stage)
{
    if (stage == GIVE_BACK_BEGINS)
        give_back_begins(context);
    else
        give_back_done(context);
}

enum rig_status gpu_memory_watch(struct rig_memory *m, struct rig_error *err)
{
    return device_on_give_back(m->device, gpu_memory_given_back, m, err);
}

enum rig_status rig_memory_release(struct rig_memory *m, struct rig_error *err)
{
    if (!m->device)
        return RIG_OK;
    enum rig_status status = rig_device_release(m->device, err);
    if (status != RIG_OK)
        return status;
    gpu_memory_settle(m);
    /* A request that is under way sweeps by itself. */
    gpu_memory_lock(m);
    bool alone = m->requests == 0;
    gpu_memory_unlock(m);
    return alone ? gpu_memory_sweep(m, err) : RIG_OK;
}

/* ---- looking */

void rig_memory_info(struct rig_memory *m, struct rig_memory_info *out_info)
{
    *out_info = (struct rig_memory_info){
        .device = m->device,
        .function = rig_topology_function(m->gpus->machine->topology, m->function)->bdf,
        .number = m->function,
        .life = gpu_memory_life(m),
        .format = m->format->name,
        .variant = m->format->variant,
        .space = space_name(m->space),
        .address_bits = m->format->system_bits,
        .space_base = space_base(m->space),
        .space_bytes = space_bytes(m->space),
        .bytes = m->bytes,
        .bar = m->bar,
        .bar_bytes = m->bar_bytes,
        .linked = m->linked,
        .link = m->link,
        .root = m->root,
        .flushes = part_can_flush(&m->part),
        .reserved = m->device && device_reserved(m->device),
    };
    gpu_memory_lock(m);
    out_info->free_bytes = m->pool ? pool_free_bytes(m->pool) : 0;
    gpu_memory_unlock(m);
}
