/* The function layer's part of a saved machine: who was taken, how far its release came, who keeps
   it and what it holds. What a function holds is one text, a line a hold, oldest first, with
   semicolons between them:

     ID FLAGS GRANT MEMORY BYTES OFFSET RANGES

   ID is the hold's, GRANT the grant's. FLAGS are p pinned, l let go, a abandoned, f seen in a file,
   or `-`. MEMORY is where the process sees it, OFFSET where in the file. A range is ADDRESS+BYTES,
   with commas between them. */
#include "machine/functions.h"

#include "base/json.h"
#include "base/lines.h"

#include <stdlib.h>
#include <string.h>

/* More ranges than one hold can have: a page each of the largest hold a file of sane size names. */
#define RANGES_MAX (1 << 24)

/* ---- saving */

/* False: memory ran out. */
static bool put_hold(struct line_text *t, const struct device_hold *hold)
{
    const struct rig_grant *g = &hold->grant;
    bool file = g->path != NULL;
    if (!line_room(t, (5 + 2 * (size_t)g->count) * (LINE_HEX_MOST + 1) + 8))
        return false;
    line_put_if(t, t->used > 0, ';');
    line_put_hex(t, hold->id);
    line_put(t, ' ');
    line_put_if(t, hold->pinned, 'p');
    line_put_if(t, hold->let_go, 'l');
    line_put_if(t, hold->abandoned, 'a');
    line_put_if(t, file, 'f');
    line_put_if(t, !hold->pinned && !hold->let_go && !hold->abandoned && !file, '-');
    const uint64_t numbers[] = {g->id, (uint64_t)(uintptr_t)g->memory, g->bytes, g->offset};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(numbers); i++)
        line_put_field(t, true, numbers[i]);
    for (int i = 0; i < g->count; i++) {
        line_put(t, i > 0 ? ',' : ' ');
        line_put_hex(t, g->ranges[i].address);
        line_put(t, '+');
        line_put_hex(t, g->ranges[i].bytes);
    }
    return true;
}

static json_t *saved_holds(const struct rig_device *dev)
{
    struct line_text t = {.at = NULL};
    const struct device_hold *oldest = dev->holds;
    while (oldest && oldest->next)
        oldest = oldest->next;
    bool whole = line_room(&t, 0);
    for (; oldest && whole; oldest = oldest->previous)
        whole = put_hold(&t, oldest);
    json_t *text = whole ? json_stringn_nocheck(t.at, t.used) : NULL;
    free(t.at);
    return text;
}

static json_t *saved_keepers(const struct rig_device *dev)
{
    const struct rig_topology *t = dev->machine->topology;
    json_t *all = json_array();
    for (size_t i = 0; i < dev->keepers; i++) {
        const struct keeper *k = &dev->keeper[i];
        char name[RIG_BDF_MAX];
        rig_bdf_format(rig_topology_function(t, k->function)->bdf, name);
        json_t *one = json_pack("{ss sb sI}", "function", name, "reserved",
                                k->why == DEVICE_KEEP_RESERVED, "count", (json_int_t)k->count);
        if (json_array_append_new(all, one) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

static json_t *saved_device(const struct rig_device *dev)
{
    char name[RIG_BDF_MAX];
    rig_bdf_format(device_bdf(dev), name);
    return json_pack("{ss ss si sb sb so so}", "function", name, "life", rig_life_name(dev->life),
                     "bits", (int)dev->bits, "off", dev->off, "gave_back", dev->gave_back,
                     "keepers", saved_keepers(dev), "holds", saved_holds(dev));
}

enum rig_status machine_save(struct rig_machine *m, json_t **out_state, struct rig_error *err)
{
    const struct rig_error *broken = machine_broken(m);
    if (broken)
        return rig_fail(err, RIG_FAILED, broken->what, "%s", broken->why);
    json_t *back_end = json_object();
    json_t *functions = json_array();
    bool whole = back_end && functions;
    int count = rig_topology_count(m->topology);
    for (int i = 0; i < count && whole; i++) {
        const struct rig_device *dev = m->functions->by_function[i];
        if (!dev)
            continue;
        if (dev->uses > 0) {
            json_decref(back_end);
            json_decref(functions);
            return rig_fail(err, RIG_INVALID, NULL, "a request is under way");
        }
        whole = json_array_append_new(functions, saved_device(dev)) == 0;
    }
    enum rig_status status = whole ? m->ops->save(m, back_end, err) : rig_fail_memory(err);
    const struct rig_functions *all = m->functions;
    json_t *state =
        json_pack("{ss sI so so so}", "kind", m->kind, "last_hold", (json_int_t)all->last_hold,
                  "reserved", json_ranges(all->reserved, (int)all->reserved_count), "functions",
                  functions, "state", back_end);
    if (status == RIG_OK && !state)
        status = rig_fail_memory(err);
    if (status != RIG_OK) {
        json_decref(state);
        return status;
    }
    *out_state = state;
    return RIG_OK;
}

/* ---- restoring */

static enum rig_status bad(struct rig_error *err, const char *what)
{
    return rig_fail(err, RIG_BAD_INPUT, "machine", "%s is missing or wrong", what);
}

/* A new array of the ranges, whose addresses and sizes are whole pages; NULL: memory ran out. */
static struct rig_bus_range *read_ranges(struct line_cursor *c, uint64_t page, uint64_t bytes,
                                         int *out_count)
{
    line_expect(c, ' ');
    size_t count = line_items(c);
    line_need(c, count <= RANGES_MAX);
    struct rig_bus_range *ranges = calloc(c->failed ? 1 : count, sizeof *ranges);
    uint64_t sum = 0, end;
    for (size_t i = 0; ranges && !c->failed && i < count; i++) {
        line_need(c, i == 0 || line_take(c, ','));
        ranges[i].address = line_hex(c);
        line_expect(c, '+');
        ranges[i].bytes = line_hex(c);
        line_need(c, ((ranges[i].address | ranges[i].bytes) & (page - 1)) == 0 &&
                         ranges[i].bytes > 0 && ranges[i].bytes <= INT64_MAX &&
                         rig_add(ranges[i].address, ranges[i].bytes, &end) &&
                         rig_add(sum, ranges[i].bytes, &sum));
    }
    line_need(c, sum == bytes);
    *out_count = (int)count;
    return ranges;
}

/* False: memory ran out. */
static bool read_hold(struct line_cursor *c, struct device_hold *hold)
{
    const struct rig_machine *m = hold->device->machine;
    struct rig_grant *g = &hold->grant;
    hold->id = line_hex(c);
    line_expect(c, ' ');
    hold->pinned = line_take(c, 'p');
    hold->let_go = line_take(c, 'l');
    hold->abandoned = line_take(c, 'a');
    bool file = line_take(c, 'f');
    line_need(c, hold->pinned || hold->let_go || hold->abandoned || file || line_take(c, '-'));
    g->path = file ? m->memory_path : NULL;
    g->id = line_number(c);
    uint64_t memory = line_number(c);
    g->memory = (void *)(uintptr_t)memory;
    g->bytes = line_number(c);
    g->offset = line_number(c);
    line_need(c, hold->id > 0 && hold->id <= m->functions->last_hold && g->id > 0 &&
                     g->id <= INT64_MAX && memory <= UINTPTR_MAX && g->bytes > 0 &&
                     g->bytes <= INT64_MAX && g->offset <= INT64_MAX);
    g->ranges = read_ranges(c, m->page_size, g->bytes, &g->count);
    line_need(c, *c->at == '\0' || *c->at == ';');
    return g->ranges != NULL;
}

static enum rig_status restore_hold(struct rig_device *dev, struct line_cursor *c,
                                    struct rig_error *err)
{
    struct device_hold *hold = hold_new(dev, false);
    if (!hold)
        return rig_fail_memory(err);
    enum rig_status status = read_hold(c, hold) ? RIG_OK : RIG_FAILED;
    if (status == RIG_OK && c->failed)
        status = RIG_BAD_INPUT;
    hold->placed =
        status == RIG_OK && !hold->pinned &&
        is_reserved(dev->machine, (uint64_t)(uintptr_t)hold->grant.memory, hold->grant.bytes);
    if (status == RIG_OK)
        status = hold_enter(hold);
    if (status != RIG_OK) {
        free(hold->grant.ranges);
        free(hold);
        return status == RIG_FAILED ? rig_fail_memory(err) : bad(err, "a hold");
    }
    dev->machine->functions->restored_count++;
    return RIG_OK;
}

static enum rig_status restore_holds(struct rig_device *dev, const json_t *j, struct rig_error *err)
{
    struct line_cursor c = {.failed = false};
    if (!json_get_text(j, "holds", &c.at))
        return bad(err, "what a function holds");
    enum rig_status status = RIG_OK;
    for (bool more = *c.at != '\0'; more && status == RIG_OK; more = line_take(&c, ';'))
        status = restore_hold(dev, &c, err);
    return status;
}

static enum rig_status restore_keeper(struct rig_device *dev, const json_t *j,
                                      struct rig_error *err)
{
    struct rig_bdf bdf;
    bool reserved;
    uint64_t count;
    if (!json_get_bdf(j, "function", &bdf) || !json_get_bool(j, "reserved", &reserved) ||
        !json_get_count(j, "count", &count) || count == 0 || count > UINT32_MAX)
        return bad(err, "who keeps a function");
    int who = rig_topology_find_bdf(dev->machine->topology, bdf);
    if (who < 0)
        return bad(err, "the function that keeps another");
    enum rig_status status =
        device_keep(dev, reserved ? DEVICE_KEEP_RESERVED : DEVICE_KEEP_PEER, who, err);
    if (status == RIG_OK)
        dev->keeper[dev->keepers - 1].count = (unsigned)count;
    return status;
}

static bool read_life(const json_t *j, struct rig_device *dev)
{
    const char *life;
    uint64_t bits;
    if (!json_get_text(j, "life", &life) || !json_get_count(j, "bits", &bits) || bits < 12 ||
        bits > 64 || !json_get_bool(j, "off", &dev->off) ||
        !json_get_bool(j, "gave_back", &dev->gave_back) || (dev->gave_back && !dev->off))
        return false;
    dev->bits = (unsigned)bits;
    static const enum rig_life lives[] = {RIG_LIFE_TAKEN, RIG_LIFE_RELEASING, RIG_LIFE_RELEASED,
                                          RIG_LIFE_KEPT};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(lives); i++)
        if (strcmp(life, rig_life_name(lives[i])) == 0) {
            dev->life = lives[i];
            return dev->life != RIG_LIFE_TAKEN || !dev->off;
        }
    return false;
}

static enum rig_status restore_device(struct rig_machine *m, const json_t *j, struct rig_error *err)
{
    struct rig_bdf bdf;
    if (!json_get_bdf(j, "function", &bdf))
        return bad(err, "a function's name");
    int i = rig_topology_find_bdf(m->topology, bdf);
    struct rig_function_now now = {0};
    if (i >= 0)
        m->ops->list(m, i, &now);
    if (i < 0 || !now.endpoint || m->functions->by_function[i])
        return bad(err, "a function");
    struct rig_device *dev = device_new(m, i);
    if (!dev)
        return rig_fail_memory(err);
    dev->addressing = now.addressing;
    device_enter(dev);
    const json_t *keepers, *one;
    size_t k;
    if (!read_life(j, dev))
        return bad(err, "a function's life");
    if (!json_get_list(j, "keepers", &keepers))
        return bad(err, "a function's list of keepers");
    enum rig_status status = RIG_OK;
    json_array_foreach(keepers, k, one)
    {
        if ((status = restore_keeper(dev, one, err)) != RIG_OK)
            return status;
    }
    return restore_holds(dev, j, err);
}

static int by_id(const void *a, const void *b)
{
    const struct restored_hold *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static enum rig_status index_holds(struct rig_machine *m, struct rig_error *err)
{
    struct rig_functions *all = m->functions;
    all->restored = calloc(all->restored_count + 1, sizeof *all->restored);
    if (!all->restored)
        return rig_fail_memory(err);
    size_t n = 0;
    for (struct rig_device *dev = all->devices; dev; dev = dev->next)
        for (struct device_hold *hold = dev->holds; hold; hold = hold->next)
            all->restored[n++] = (struct restored_hold){.id = hold->id, .hold = hold};
    qsort(all->restored, n, sizeof *all->restored, by_id);
    for (size_t i = 1; i < n; i++)
        if (all->restored[i].id == all->restored[i - 1].id)
            return bad(err, "a hold's id");
    return RIG_OK;
}

enum rig_status machine_restore(struct rig_machine *m, const json_t *state, struct rig_error *err)
{
    const char *kind;
    if (!json_get_text(state, "kind", &kind) || strcmp(kind, m->kind) != 0)
        return bad(err, "the kind");
    if (!json_get_count(state, "last_hold", &m->functions->last_hold))
        return bad(err, "last_hold");
    struct rig_functions *all = m->functions;
    int reserved = 0;
    enum rig_status status = RIG_OK;
    const json_t *functions, *ranges;
    if (!json_get_list(state, "functions", &functions) ||
        !json_get_list(state, "reserved", &ranges))
        return bad(err, "functions or reserved");
    if (json_array_size(ranges) > 0)
        status = json_get_ranges(state, "reserved", RANGES_MAX, &all->reserved, &reserved);
    if (status != RIG_OK)
        return status == RIG_FAILED ? rig_fail_memory(err) : bad(err, "reserved");
    all->reserved_count = (size_t)reserved;
    const json_t *one;
    size_t i;
    json_array_foreach(functions, i, one)
    {
        status = restore_device(m, one, err);
        if (status != RIG_OK)
            break;
    }
    if (status == RIG_OK)
        status = index_holds(m, err);
    if (status != RIG_OK)
        functions_forget(m);
    return status;
}
