/* Mappings: what is taken for one, how its entries are written and cleared, and how what it holds
   goes back. */
#include "gpu/memories.h"

#include <stdlib.h>

struct mapping *mapping_new(struct rig_memory *m, bool peer)
{
    struct mapping *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->peer = peer;
    p->number = ++m->last_mapping;
    gpu_memory_lock(m);
    mapping_enter(m, p);
    gpu_memory_unlock(m);
    return p;
}

void mapping_enter(struct rig_memory *m, struct mapping *p)
{
    p->memory = m;
    p->next = m->mappings;
    if (p->next)
        p->next->previous = p;
    m->mappings = p;
}

void mapping_unlist(struct mapping *p)
{
    if (p->previous)
        p->previous->next = p->next;
    else
        p->memory->mappings = p->next;
    if (p->next)
        p->next->previous = p->previous;
    p->next = p->previous = NULL;
}

bool mapping_free_if_idle(struct mapping *p)
{
    if (p->state != MAPPING_GONE || p->holds_addresses || p->lent_count > 0 || p->regions > 0 ||
        p->kept || p->peers || p->member)
        return false;
    struct region *original = p->original;
    p->original = NULL;
    if (original)
        region_drop(p->memory, original);
    mapping_unlist(p);
    mapping_free(p);
    return true;
}

void mapping_free(struct mapping *p)
{
    if (p->ranges != &p->range)
        free(p->ranges);
    free(p->clients);
    free(p->lent);
    const struct rig_memory *m = p->memory;
    if ((uintptr_t)p - (uintptr_t)m->restored >= m->restored_count * sizeof *p)
        free(p);
}

bool mapping_make_ranges(struct mapping *p, size_t count)
{
    p->ranges = count == 1 ? &p->range : calloc(count, sizeof *p->ranges);
    p->count = p->ranges ? count : 0;
    return p->ranges != NULL;
}

void mapping_use_ranges(struct mapping *p, struct rig_range *take_ranges, size_t count)
{
    p->ranges = take_ranges;
    p->count = count;
    if (count == 1) {
        p->range = take_ranges[0];
        p->ranges = &p->range;
        free(take_ranges);
    }
}

/* ---- taking */

enum rig_status mapping_take_addresses(struct mapping *p, struct rig_error *err)
{
    struct rig_memory *m = p->memory;
    enum rig_status status = space_take(m->space, p->bytes, &p->address, err);
    p->holds_addresses = status == RIG_OK;
    return status;
}

static bool add_lent(struct mapping *p, struct rig_range block)
{
    struct rig_range *more = realloc(p->lent, (p->lent_count + 1) * sizeof *more);
    if (!more)
        return false;
    p->lent = more;
    p->lent[p->lent_count++] = block;
    return true;
}

static void let_go_lent(struct mapping *p)
{
    struct rig_gpus *g = p->memory->gpus;
    for (size_t i = 0; i < p->lent_count; i++)
        space_let_go(gpus_space_at(g, p->lent[i].address), p->lent[i].address);
    p->lent_count = 0;
}

static enum rig_status borrow(struct mapping *p, uint64_t start, uint64_t bytes,
                              struct rig_error *err)
{
    struct rig_gpus *g = p->memory->gpus;
    for (uint64_t at = start, end = start + bytes; at < end;) {
        struct rig_range block;
        struct rig_space *s = gpus_space_at(g, at);
        /* The process's own memory may go up to where a space begins. */
        if (!s && gpus_space_after(g, &at))
            continue;
        if (!s)
            return RIG_OK;
        enum rig_status status = space_hold_at(s, at, &block, err);
        if (status != RIG_OK || block.bytes == 0)
            return status;
        if (!add_lent(p, block)) {
            space_let_go(s, block.address);
            return rig_fail_memory(err);
        }
        at = block.address + block.bytes;
    }
    return RIG_OK;
}

enum rig_status mapping_borrow(struct mapping *p, uint64_t start, uint64_t bytes,
                               struct rig_error *err)
{
    enum rig_status status = borrow(p, start, bytes, err);
    if (status != RIG_OK)
        let_go_lent(p);
    return status;
}

void mapping_let_go_addresses(struct mapping *p)
{
    struct rig_memory *m = p->memory;
    if (p->holds_addresses)
        space_let_go(m->space, p->address);
    p->holds_addresses = false;
    let_go_lent(p);
}

enum rig_status mapping_use_hold(struct mapping *p, struct device_hold *hold, struct rig_error *err)
{
    p->hold = hold;
    p->window = hold->grant.memory;
    if (!mapping_make_ranges(p, (size_t)hold->grant.count))
        return rig_fail_memory(err);
    for (size_t i = 0; i < p->count; i++) {
        p->ranges[i].address = hold->grant.ranges[i].address;
        p->ranges[i].bytes = hold->grant.ranges[i].bytes;
    }
    return RIG_OK;
}

enum rig_status mapping_view(struct mapping *p, bool again, struct rig_error *err)
{
    struct rig_memory *m = p->memory;
    /* A view is whole pages of the machine, which may be larger than the GPU's. */
    uint64_t page = m->gpus->machine->page_size, last, end;
    uint64_t start = p->ranges[0].address & ~(page - 1);
    if (!rig_add(p->ranges[0].address, p->bytes, &last) || last > m->bar_bytes)
        return rig_fail(err, RIG_REFUSED, NULL, "BAR %d does not show it", m->bar);
    if (!rig_round_up(last, page, &end) || end > m->bar_bytes)
        end = m->bar_bytes;
    p->view_skip = p->ranges[0].address - start;
    return (again ? device_map_bar_again : device_map_bar)(m->device, m->bar, start, end - start,
                                                           m->combining, &p->view, err);
}

/* ---- entries */

/* What another process may have written, or not, is nobody's to write again. */
static enum rig_status supposed(enum rig_status status, struct rig_error *err)
{
    if (status != RIG_OK)
        return status;
    return rig_fail(err, RIG_FAILED, NULL, "an earlier process was cut short in it");
}

enum rig_status mapping_write(struct mapping *p, struct rig_error *err)
{
    if (p->memory->gpus->supposing)
        return supposed(rig_page_table_suppose(p->memory->tables, p->address, p->target, p->ranges,
                                               p->count, err),
                        err);
    return rig_page_table_map(p->memory->tables, p->address, p->target, p->ranges, p->count, err);
}

enum rig_status mapping_clear(struct mapping *p, bool *out_confirmed, struct rig_error *err)
{
    struct rig_memory *m = p->memory;
    *out_confirmed = false;
    if (m->gpus->supposing)
        return supposed(rig_page_table_doubt(m->tables, p->address, p->bytes, err), err);
    m->clearing = true;
    enum rig_status status =
        rig_page_table_unmap(m->tables, p->address, p->bytes, out_confirmed, err);
    m->clearing = false;
    return status;
}

/* ---- peers */

bool mapping_reached(const struct mapping *p)
{
    return p->peers || p->stuck_peers > 0;
}

void mapping_weigh(struct mapping *p)
{
    if (p->state != MAPPING_KEPT || p->due || mapping_reached(p) || p->client_count > 0)
        return;
    p->due = true;
    p->next_due = p->memory->due;
    p->memory->due = p;
}

struct peer *mapping_detach_member(struct mapping *p)
{
    struct peer *peer = p->member;
    p->member = NULL;
    p->of = NULL;
    return peer;
}

void peer_leave(struct peer *take_peer)
{
    struct mapping *of = take_peer->of;
    struct rig_memory *owner = of->memory;
    gpu_memory_lock(owner);
    struct peer **link = &of->peers;
    while (*link != take_peer)
        link = &(*link)->next;
    *link = take_peer->next;
    if (take_peer->stuck)
        of->stuck_peers++;
    mapping_weigh(of);
    mapping_free_if_idle(of);
    gpu_memory_unlock(owner);
    if (take_peer->keeps_owner)
        device_unkeep(owner->device, take_peer->memory->function);
    free(take_peer);
}

/* ---- giving back */

/* Leaves with the function what it holds. A peer's memory is taken for reached. */
static void leave_to_give_back(struct mapping *p, enum mapping_state state)
{
    struct rig_memory *m = p->memory;
    gpu_memory_lock(m);
    p->state = state;
    if (p->member)
        p->member->stuck = state == MAPPING_HELD;
    gpu_memory_unlock(m);
}

enum rig_status mapping_hold(struct mapping *p, enum rig_status status)
{
    leave_to_give_back(p, MAPPING_HELD);
    return status;
}

/* Gives back what the function layer has of it. */
static enum rig_status give_back_grants(struct mapping *p, struct rig_error *err)
{
    struct rig_memory *m = p->memory;
    struct device_hold *hold = p->hold;
    struct rig_view *view = p->view;
    enum rig_status status = RIG_OK;
    gpu_memory_lock(m);
    p->hold = NULL;
    p->view = NULL;
    gpu_memory_unlock(m);
    if (hold)
        status =
            hold->pinned ? device_unpin(m->device, hold, err) : device_free(m->device, hold, err);
    if (view) {
        enum rig_status unmapped = device_unmap(m->device, view, err);
        status = status == RIG_OK ? unmapped : status;
    }
    return status;
}

enum rig_status mapping_give_back(struct mapping *p, struct rig_error *err)
{
    struct rig_memory *m = p->memory;
    enum rig_status status = give_back_grants(p, err);
    if (status != RIG_OK)
        return mapping_hold(p, status);
    gpu_memory_lock(m);
    struct peer *peer = p->member ? mapping_detach_member(p) : NULL;
    if (p->owns_ranges && m->pool)
        pool_give(m->pool, p->ranges, p->count);
    mapping_let_go_addresses(p);
    p->owns_ranges = false;
    p->state = MAPPING_GONE;
    if (p->kept)
        region_drop(m, p->kept);
    mapping_free_if_idle(p);
    gpu_memory_unlock(m);
    if (peer)
        peer_leave(peer);
    return RIG_OK;
}

static bool holds_nothing(const struct mapping *p)
{
    return !p->hold && !p->view && !p->holds_addresses && !p->owns_ranges && !p->member &&
           p->lent_count == 0;
}

enum rig_status mapping_fail(struct mapping *p, enum rig_status status, struct rig_error *err)
{
    bool released = gpu_memory_life(p->memory) != RIG_LIFE_TAKEN;
    if ((status == RIG_FAILED || released) && !holds_nothing(p)) {
        leave_to_give_back(p, MAPPING_CUT);
        return status;
    }
    struct rig_error undo = {.status = RIG_OK};
    if (mapping_give_back(p, &undo) == RIG_OK)
        return status;
    *err = undo;
    return RIG_FAILED;
}

/* Whether what is due may go back now: not while a released function may still write it, nor beside
   a give-back, which a reservation alone holds up for good. */
static bool may_go_back(const struct rig_memory *m)
{
    if (!m->device)
        return false;
    return gpu_memory_life(m) == RIG_LIFE_TAKEN ||
           (!device_masters(m->device) && device_reserved(m->device));
}

enum rig_status gpu_memory_sweep(struct rig_memory *m, struct rig_error *err)
{
    enum rig_status status = RIG_OK;
    while (status == RIG_OK && may_go_back(m)) {
        gpu_memory_lock(m);
        struct mapping *p = m->due;
        if (p) {
            p->due = false;
            p->state = MAPPING_MAKING;
            m->due = p->next_due;
        }
        gpu_memory_unlock(m);
        if (!p)
            break;
        status = mapping_give_back(p, err);
    }
    return status;
}
