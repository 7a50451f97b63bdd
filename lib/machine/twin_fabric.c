/* A twin's fabric: the way of a request, hop by hop, and the bytes it moves (twin.h says what is
   true of the hardware). */
#include "machine/twins.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* No tree of bridges is deeper than there are buses. */
#define DEPTH_MAX 256

static void note_hop(struct twin_route *r, int function)
{
    if (r->hop_count < TWIN_HOPS)
        r->hops[r->hop_count++] = function;
}

static void end_at(struct twin_route *r, enum twin_end end, int hop)
{
    r->end = end;
    r->hop = hop;
}

/* Does the function send peer requests up to the root complex, by its ACS control as it is now? */
static bool redirects(const struct twin_function *f)
{
    return f->acs != 0 && (config_get(f, f->acs + 6, 2) & RIG_ACS_REDIRECTS) != 0;
}

/* ---- who holds an address */

static bool in_window(const struct twin_function *f, unsigned at, unsigned high, uint64_t address)
{
    uint64_t base = (uint64_t)(config_get(f, at, 2) & 0xfff0) << 16;
    uint64_t limit = (uint64_t)(config_get(f, at + 2, 2) & 0xfff0) << 16 | 0xfffff;
    if (high) {
        base |= (uint64_t)config_get(f, high, 4) << 32;
        limit |= (uint64_t)config_get(f, high + 4, 4) << 32;
    }
    return base <= limit && address >= base && address <= limit;
}

/* Does a BAR somewhere below the bridge hold the address? Bus order has parents before children, so
   the walk is by the tree's own links and ends. */
static bool below_holds(const struct twin *w, int bridge, uint64_t address, int depth)
{
    uint64_t offset;
    for (int i = w->function[bridge].first_child; i >= 0; i = w->function[i].next_sibling) {
        if (bar_at(&w->function[i], address, &offset) >= 0)
            return true;
        if (depth < DEPTH_MAX && below_holds(w, i, address, depth + 1))
            return true;
    }
    return false;
}

/* Does the bridge forward the address downwards? */
static bool forwards(const struct twin *w, int bridge, uint64_t address)
{
    const struct twin_function *f = &w->function[bridge];
    if (!is_bridge(f->facts) || f->gone || !decodes(f))
        return false;
    return in_window(f, 0x20, 0, address) || in_window(f, 0x24, 0x28, address) ||
           (f->open_window && below_holds(w, bridge, address, 0));
}

/* Does the function itself take the address? Then the route ends there. */
static bool takes(const struct twin *w, int function, uint64_t address, struct twin_route *r)
{
    const struct twin_function *f = &w->function[function];
    uint64_t offset;
    int bar = bar_at(f, address, &offset);
    if (bar < 0 || !decodes(f))
        return false;
    r->bar = bar;
    r->address = offset;
    uint64_t left = f->bar[bar].size - offset;
    r->bytes = left < r->bytes ? left : r->bytes;
    end_at(r, f->gone ? TWIN_END_GONE : TWIN_END_BAR, function);
    return true;
}

/* ---- the way */

enum way {
    WAY_ENDED,      /* r says where */
    WAY_REDIRECTED, /* sent back up, to the root complex */
    WAY_NOWHERE,    /* nothing here takes it */
};

/* Goes down from the bus whose first function is given. `peer`: it turned around below the root
   complex, so that ACS bits on the way send it back up. */
static enum way go_down(const struct twin *w, int first, uint64_t address, bool peer,
                        struct twin_route *r)
{
    for (int depth = 0; depth < DEPTH_MAX; depth++) {
        bool taken = false;
        int i = first;
        for (; i >= 0; i = w->function[i].next_sibling) {
            taken = takes(w, i, address, r);
            if (taken || forwards(w, i, address))
                break;
        }
        if (i < 0)
            return WAY_NOWHERE;
        note_hop(r, i);
        if (peer && redirects(&w->function[i]))
            return WAY_REDIRECTED;
        if (taken)
            return WAY_ENDED;
        first = w->function[i].first_child;
    }
    return WAY_NOWHERE;
}

/* At a function on the way up: does the request end or turn around here? */
static enum way turn_around(const struct twin *w, int function, uint64_t address,
                            struct twin_route *r)
{
    if (takes(w, function, address, r))
        return WAY_ENDED;
    if (!forwards(w, function, address))
        return WAY_NOWHERE;
    enum way way = go_down(w, w->function[function].first_child, address, true, r);
    if (way == WAY_NOWHERE)
        end_at(r, TWIN_END_UNCLAIMED, function);
    return way == WAY_NOWHERE ? WAY_ENDED : way;
}

/* Goes up from the requester; true when it came to the root complex. */
static bool go_up(const struct twin *w, int requester, uint64_t address, struct twin_route *r)
{
    bool redirected = false;
    int depth = 0;
    for (int i = requester; i >= 0; i = w->function[i].parent) {
        const struct twin_function *f = &w->function[i];
        note_hop(r, i);
        if (f->gone || !masters(f) || depth++ == DEPTH_MAX) {
            end_at(r, f->gone ? TWIN_END_GONE : TWIN_END_MASTER_OFF, i);
            return false;
        }
        redirected = redirected || redirects(f);
        if (!redirected) {
            enum way way = turn_around(w, i, address, r);
            if (way == WAY_ENDED)
                return false;
            redirected = way == WAY_REDIRECTED;
        }
        if (f->parent < 0 &&
            (f->facts->parent_known.know == RIG_FACT_UNKNOWN || f->facts->host_bridge < 0)) {
            end_at(r, TWIN_END_NO_PARENT, i);
            return false;
        }
    }
    note_hop(r, -1);
    return true;
}

static bool carries(const struct twin *w, int a, int b)
{
    struct rig_bridge_answer bridge[2];
    ask_bridge(w->machine.topology, w->rules, a, &bridge[0]);
    ask_bridge(w->machine.topology, w->rules, b, &bridge[1]);
    return host_carries(cpu_is_zen(w->machine.topology), &bridge[0], &bridge[1]) == RIG_ANSWER_YES;
}

/* Is there a function on the root bus that holds the address, itself or below? */
static bool root_holds(const struct twin *w, int bridge, uint64_t address)
{
    struct twin_route nothing = {.bytes = 1};
    for (int i = w->root[bridge]; i >= 0; i = w->function[i].next_sibling)
        if (takes(w, i, address, &nothing) || forwards(w, i, address))
            return true;
    return false;
}

/* The host bridge below which the address lies: the requester's own is asked first, then those of
   its domain, since domains may use the same bus addresses. -1: none. */
static int bridge_of(const struct twin *w, int own, uint64_t address)
{
    if (root_holds(w, own, address))
        return own;
    const struct rig_topology *t = w->machine.topology;
    uint32_t domain = rig_topology_host_bridge(t, own)->domain;
    int other = -1;
    for (int i = 0; i < rig_topology_host_bridges(t); i++) {
        if (i == own || !root_holds(w, i, address))
            continue;
        if (rig_topology_host_bridge(t, i)->domain == domain)
            return i;
        other = other < 0 ? i : other;
    }
    return other;
}

static bool in_system(const struct twin *w, uint64_t address)
{
    return address >= w->system_base && address - w->system_base < w->system_bytes;
}

static void clip(struct twin_route *r, uint64_t left)
{
    r->bytes = left < r->bytes ? left : r->bytes;
}

static void at_iommu(const struct twin *w, int requester, uint64_t address, struct twin_route *r)
{
    const struct twin_mapping *m = iommu_find(w, requester, address);
    if (!m || m->lost) {
        end_at(r, TWIN_END_IOMMU, requester);
        return;
    }
    end_at(r, m->process ? TWIN_END_PROCESS : TWIN_END_SYSTEM, -1);
    r->address = m->target + (address - m->address);
    clip(r, m->bytes - (address - m->address));
}

static void at_root_complex(const struct twin *w, int requester, uint64_t address,
                            struct twin_route *r)
{
    const struct twin_function *f = &w->function[requester];
    if (f->translated) {
        at_iommu(w, requester, address, r);
        return;
    }
    if (in_system(w, address)) {
        end_at(r, TWIN_END_SYSTEM, -1);
        r->address = address;
        clip(r, w->system_bytes - (address - w->system_base));
        return;
    }
    int own = f->facts->host_bridge;
    int to = bridge_of(w, own, address);
    if (to >= 0 && !carries(w, own, to)) {
        end_at(r, TWIN_END_NOT_CARRIED, -1);
        r->bridge = own;
        r->to = to;
        return;
    }
    if (to < 0 || go_down(w, w->root[to], address, false, r) == WAY_NOWHERE)
        end_at(r, TWIN_END_UNCLAIMED, -1);
}

/* A request that nothing took: if a BAR holds the address and does not decode, that is why. */
static void blame(const struct twin *w, uint64_t address, struct twin_route *r)
{
    uint64_t offset;
    for (int i = 0; i < w->count && r->end == TWIN_END_UNCLAIMED; i++)
        if (bar_at(&w->function[i], address, &offset) >= 0 && !decodes(&w->function[i]))
            end_at(r, TWIN_END_DECODE_OFF, i);
}

void fabric_route(struct twin *w, int function, uint64_t at, uint64_t bytes,
                  struct twin_route *out_route)
{
    struct twin_route *r = out_route;
    *r = (struct twin_route){.bytes = bytes, .bar = -1, .bridge = -1, .to = -1};
    /* A way is looked at page by page: no window or mapping is smaller, but for small BARs. */
    clip(r, 4096 - (at & 4095));
    if (is_off(w)) {
        end_at(r, TWIN_END_GONE, function);
        return;
    }
    if (go_up(w, function, at, r))
        at_root_complex(w, function, at, r);
    blame(w, at, r);
}

/* ---- moving bytes */

static enum rig_status refuse(const struct twin *w, const struct twin_route *r, uint64_t at,
                              struct rig_error *err)
{
    const struct rig_topology *t = w->machine.topology;
    char name[RIG_BDF_MAX] = "root complex";
    unsigned long long address = at;
    if (r->hop >= 0)
        rig_bdf_format(rig_topology_function(t, r->hop)->bdf, name);
    switch (r->end) {
    case TWIN_END_GONE:
        return rig_fail(err, RIG_FAILED, name, "it left the bus: it reads all ones");
    case TWIN_END_MASTER_OFF:
        rig_fail(err, RIG_REFUSED, name,
                 "its bus mastering is off: the request to 0x%llx ends there", address);
        rig_hint(err, "a GPU masters the bus when it was opened with --master");
        return RIG_REFUSED;
    case TWIN_END_DECODE_OFF:
        return rig_fail(err, RIG_REFUSED, name, "its memory decode is off: nothing takes 0x%llx",
                        address);
    case TWIN_END_NOT_CARRIED: {
        const struct rig_host_bridge *a = rig_topology_host_bridge(t, r->bridge);
        const struct rig_host_bridge *b = rig_topology_host_bridge(t, r->to);
        return rig_fail(err, RIG_REFUSED, name,
                        "it drops peer requests from below root bus %04x:%02x to 0x%llx below "
                        "%04x:%02x",
                        (unsigned)a->domain, a->bus, address, (unsigned)b->domain, b->bus);
    }
    case TWIN_END_IOMMU:
        return rig_fail(err, RIG_REFUSED, name, "its IOMMU does not translate 0x%llx", address);
    case TWIN_END_NO_PARENT:
        return rig_fail(err, RIG_REFUSED, name, "what is above it is not known");
    default:
        return rig_fail(err, RIG_REFUSED, name, "nothing takes the request to 0x%llx", address);
    }
}

/* A page of this process that an IOMMU maps. It may have gone since, so the kernel copies. */
static enum rig_status move_process(uint64_t address, void *data, size_t bytes, bool write,
                                    struct rig_error *err)
{
    struct iovec here = {data, bytes};
    struct iovec there = {(void *)(uintptr_t)address, bytes};
    ssize_t moved = write ? process_vm_writev(getpid(), &here, 1, &there, 1, 0)
                          : process_vm_readv(getpid(), &here, 1, &there, 1, 0);
    if (moved == (ssize_t)bytes)
        return RIG_OK;
    return rig_fail(err, RIG_FAILED, NULL, "the process's pages at 0x%llx are gone",
                    (unsigned long long)address);
}

/* One piece of a transfer, all of which goes one way. */
static enum rig_status move(struct twin *w, const struct twin_route *r, uint64_t at, void *data,
                            bool write, struct rig_error *err)
{
    size_t bytes = (size_t)r->bytes;
    switch (r->end) {
    case TWIN_END_SYSTEM:
        return write ? system_write(w, r->address, data, bytes, err)
                     : system_read(w, r->address, data, bytes, err);
    case TWIN_END_PROCESS:
        return move_process(r->address, data, bytes, write, err);
    case TWIN_END_BAR:
        return write ? bar_write(w, r->hop, r->bar, r->address, data, bytes, err)
                     : bar_read(w, r->hop, r->bar, r->address, data, bytes, err);
    default:
        return refuse(w, r, at, err);
    }
}

static enum rig_status transfer(struct twin *w, int function, uint64_t at, uint8_t *data,
                                size_t bytes, bool write, struct rig_error *err)
{
    enum rig_status status = RIG_OK;
    for (size_t done = 0; done < bytes && status == RIG_OK;) {
        struct twin_route r;
        fabric_route(w, function, at + done, bytes - done, &r);
        status = move(w, &r, at + done, data + done, write, err);
        if (status != RIG_OK && !write)
            memset(data + done, 0xff, bytes - done);
        done += (size_t)r.bytes;
    }
    return status;
}

enum rig_status fabric_read(struct twin *w, int function, uint64_t at, void *out_data, size_t bytes,
                            struct rig_error *err)
{
    return transfer(w, function, at, out_data, bytes, false, err);
}

enum rig_status fabric_write(struct twin *w, int function, uint64_t at, const void *data,
                             size_t bytes, struct rig_error *err)
{
    return transfer(w, function, at, (uint8_t *)(uintptr_t)data, bytes, true, err);
}
