/* Memories of a state document, every field of which may be hostile. */
#include "gpu/save.h"

#include "base/json.h"
#include "gpu/restore.h"
#include "machine/twin.h"

#include <stdlib.h>
#include <string.h>

static enum rig_status bad(struct rig_error *err, const char *what)
{
    return rig_fail(err, RIG_BAD_INPUT, "memories", "%s is missing or wrong", what);
}

/* ---- what a mapping holds */

/* Whether addresses may be held by a memory that holds nothing else. */
static bool is_giving_back(const struct rig_memory *m)
{
    return m->gone && m->device && !device_gave_back(m->device);
}

static enum rig_status retake(struct rig_memory *m, struct saved *s, struct rig_error *err)
{
    struct mapping *p = s->mapping;
    enum rig_status status = RIG_OK;
    if (p->holds_addresses)
        status = space_restore(m->space, p->address, p->bytes, err);
    for (size_t i = 0; status == RIG_OK && p->owns_ranges && m->pool && i < p->count; i++)
        status = pool_restore(m->pool, p->ranges[i].address, p->ranges[i].bytes, err);
    for (size_t i = 0; status == RIG_OK && i < p->lent_count; i++) {
        struct rig_space *space = gpus_space_at(m->gpus, p->lent[i].address);
        if (!space || (m->gone && !is_giving_back(m)))
            return bad(err, "where borrowed memory is");
        status = space_restore(space, p->lent[i].address, p->lent[i].bytes, err);
    }
    if (status != RIG_OK)
        return status;
    if (s->has_hold) {
        p->hold = m->device ? device_hold_by_id(m->device, s->hold) : NULL;
        if (!p->hold)
            return bad(err, "what a mapping holds");
        p->window = p->hold->grant.memory;
    }
    if (!s->has_view)
        return RIG_OK;
    if (!m->device || p->count != 1 || p->target.memory != RIG_MEMORY_OWN)
        return bad(err, "a mapping's window");
    return device_failed(m->device) ? RIG_OK : mapping_view(p, true, err);
}

/* States that say what a mapping cannot be. */
static bool is_sane(const struct rig_memory *m, const struct saved *s)
{
    const struct mapping *p = s->mapping;
    bool over = p->state == MAPPING_LIVE || p->state == MAPPING_GONE;
    if ((p->regions > 0 && !over) || (p->state == MAPPING_LIVE && p->regions == 0))
        return false;
    if (m->gone != (p->state == MAPPING_GONE) ||
        (m->gone && (s->has_hold || s->has_view || (p->holds_addresses && !is_giving_back(m)))))
        return false;
    if (p->due && p->state != MAPPING_KEPT)
        return false;
    return p->owns_ranges ? p->target.memory == RIG_MEMORY_OWN && !p->peer && p->count > 0 : true;
}

/* ---- a memory */

static const struct rig_format *find_format(const char *name, const char *variant)
{
    for (int i = 0; i < rig_format_count(); i++) {
        const struct rig_format *f = rig_format_at(i);
        if (strcmp(f->name, name) == 0 && strcmp(f->variant, variant) == 0)
            return f;
    }
    return NULL;
}

static bool read_link(const json_t *j, struct rig_memory *m)
{
    const json_t *link = json_object_get(j, "link");
    if (json_is_null(link))
        return true;
    const json_t *fabric = json_array_get(link, 0), *place = json_array_get(link, 1);
    m->linked = true;
    m->link.fabric = (unsigned)json_integer_value(fabric);
    m->link.place = (unsigned)json_integer_value(place);
    return json_is_integer(fabric) && json_is_integer(place) && m->link.place < 256;
}

static bool read_bar(const json_t *j, struct rig_memory *m)
{
    uint64_t bar;
    if (!json_get_count(j, "bar", &bar) || bar >= RIG_BAR_COUNT)
        return false;
    struct rig_bar_now now;
    m->bar = (int)bar;
    machine_bar(m->gpus->machine, m->function, m->bar, &now);
    m->bar_bytes = now.size;
    m->bar_assigned = now.assigned;
    m->bar_bus = now.bus;
    return now.size > 0 && !now.io;
}

static bool read_memory(const json_t *j, struct rig_memory *m)
{
    const char *format, *variant;
    if (!json_get_text(j, "format", &format) || !json_get_text(j, "variant", &variant))
        return false;
    m->format = find_format(format, variant);
    return m->format && read_link(j, m) && read_bar(j, m) &&
           json_get_count(j, "bytes", &m->bytes) && m->bytes > 0 && (m->bytes & 4095) == 0 &&
           json_get_bool(j, "combining", &m->combining) &&
           json_get_hex(j, "own_base", &m->own_base) && (m->own_base & 4095) == 0 &&
           json_get_hex(j, "root", &m->root) && json_get_bool(j, "settled", &m->settled) &&
           json_get_bool(j, "gone", &m->gone) && (m->settled || !m->gone) &&
           json_get_count(j, "last_mapping", &m->last_mapping);
}

static enum rig_status restore_pool(struct rig_memory *m, struct rig_error *err)
{
    enum rig_status status = gpu_memory_make_pool(m, NULL);
    if (status == RIG_OK)
        return RIG_OK;
    return status == RIG_FAILED ? rig_fail_memory(err) : bad(err, "a memory's size");
}

/* A memory with nothing in it yet, entered. */
static enum rig_status restore_memory(struct restore *x, const json_t *j, struct rig_error *err)
{
    struct rig_gpus *g = x->gpus;
    struct rig_bdf bdf;
    bool stopped;
    int i =
        json_get_bdf(j, "function", &bdf) ? rig_topology_find_bdf(g->machine->topology, bdf) : -1;
    if (i < 0 || !json_get_bool(j, "stopped", &stopped))
        return bad(err, "a memory's function");
    struct rig_device *dev = stopped ? NULL : machine_device(g->machine, i);
    if (!stopped && !dev)
        return bad(err, "a memory's function");
    struct rig_memory *m = gpu_memory_new(g, dev, i);
    if (!m)
        return rig_fail_memory(err);
    enum rig_status status = gpus_enter(g, m, err);
    if (status != RIG_OK) {
        gpu_memory_drop(m);
        return status;
    }
    m->addressing = machine_addressing(g->machine, i);
    if (!read_memory(j, m) || (stopped && !m->gone))
        return bad(err, "a memory");
    status = gpus_restore_space(g, m->format, &m->space, err);
    if (status == RIG_OK && !m->gone)
        status = restore_pool(m, err);
    if (status == RIG_OK && (!m->gone || is_giving_back(m)))
        status = gpu_memory_watch(m, err);
    if (status == RIG_OK && !m->settled)
        part_open(m->device, m->format, &m->part);
    /* A released one writes no table any more. */
    bool writes = !m->settled && gpu_memory_life(m) == RIG_LIFE_TAKEN && !device_failed(m->device);
    if (status == RIG_OK && writes)
        status =
            device_map_bar(m->device, m->bar, 0, m->bar_bytes, m->combining, &m->tables_view, err);
    return status;
}

/* ---- page tables */

static bool read_table(struct line_cursor *c, struct rig_saved_table *out)
{
    uint64_t level = line_hex(c);
    line_expect(c, '.');
    out->address = line_hex(c);
    line_expect(c, '.');
    out->offset = line_hex(c);
    line_expect(c, '.');
    out->complete = line_take(c, 'c');
    out->linked = line_take(c, 'l');
    out->kept = line_take(c, 'k');
    out->level = (uint8_t)level;
    return !c->failed && level <= UINT8_MAX && out->offset <= UINT64_MAX - 4096;
}

/* Whether the memory's tables are to be written again: nobody can of a GPU that left the bus. */
static bool writes_tables(const struct restore *x, const struct rig_memory *m)
{
    return x->anew && !device_failed(m->device);
}

static enum rig_status restore_tables(const struct restore *x, struct rig_memory *m,
                                      const json_t *j, struct rig_error *err)
{
    bool anew = writes_tables(x, m);
    struct line_cursor c = {.failed = false};
    struct rig_saved_table saved;
    if (!json_get_text(j, "tables", &c.at))
        return bad(err, "a page table");
    if (!read_table(&c, &saved) || saved.offset != m->root)
        return bad(err, "a root table");
    enum rig_status status = rig_page_table_load(m->format, m->own_base, &gpu_memory_table_ops, m,
                                                 &saved, &m->tables, err);
    while (status == RIG_OK && line_take(&c, ',')) {
        if (!read_table(&c, &saved))
            return bad(err, "a page table");
        uint64_t page = saved.offset & ~UINT64_C(4095);
        if (!rig_page_table_shares(m->tables, page))
            status = pool_restore(m->pool, page, RIG_TABLE_PAGE, err);
        saved.complete = saved.complete && !anew;
        saved.linked = saved.linked && !anew;
        if (status == RIG_OK)
            status = rig_page_table_load_table(m->tables, &saved, err);
    }
    return status == RIG_OK && *c.at != '\0' ? bad(err, "a page table") : status;
}

static enum rig_status restore_entries(const struct restore *x, const struct saved *s,
                                       struct rig_error *err)
{
    const struct mapping *p = s->mapping;
    struct rig_page_table *t = p->memory->tables;
    if (s->tables == '-')
        return RIG_OK;
    if (!t || p->count == 0)
        return bad(err, "a mapping's entries");
    enum rig_status status;
    if (s->tables == 'w' && !writes_tables(x, p->memory)) {
        /* It can fail for lack of memory alone. */
        status = rig_page_table_load_map(t, p->address, p->target, p->ranges, p->count, NULL);
        if (status == RIG_FAILED)
            return rig_fail_memory(err);
        return status == RIG_OK ? RIG_OK : bad(err, "a mapping's entries");
    }
    struct rig_error why = {0};
    if (s->tables == 'w')
        status = rig_page_table_write_map(t, p->address, p->target, p->ranges, p->count, &why);
    else
        status = rig_page_table_suppose(t, p->address, p->target, p->ranges, p->count, &why);
    if (status == RIG_FAILED)
        return rig_fail(err, RIG_FAILED, why.what, "%s", why.why);
    return status == RIG_OK ? RIG_OK : bad(err, "a mapping's entries");
}

/* ---- mappings */

/* Whether nothing of a mapping's line needs to wait for the other lines. */
static bool is_done(const struct restore *x, const struct saved *s)
{
    return !s->has_of && (s->tables == '-' || (s->tables == 'w' && !x->anew));
}

static enum rig_status restore_mapping(struct restore *x, struct mapping *p, struct line_cursor *c,
                                       struct rig_error *err)
{
    struct rig_memory *m = p->memory;
    struct saved s = {.mapping = p};
    if (!restore_line(c, x, &s))
        return rig_fail_memory(err);
    if (c->failed || (p->next && p->number <= p->next->number) || !is_sane(m, &s))
        return bad(err, "a mapping");
    if (p->due) {
        p->next_due = m->due;
        m->due = p;
    }
    enum rig_status status = retake(m, &s, err);
    if (status == RIG_OK && s.tables == 'w' && !x->anew)
        status = restore_entries(x, &s, err);
    if (status != RIG_OK || is_done(x, &s))
        return status;
    if (!restore_grow((void **)&x->later, x->later_count, &x->later_room, sizeof *x->later))
        return rig_fail_memory(err);
    x->later[x->later_count++] = s;
    return RIG_OK;
}

/* The memory's mappings, oldest first. */
static enum rig_status restore_mappings(struct restore *x, struct rig_memory *m, const json_t *j,
                                        struct rig_error *err)
{
    struct line_cursor c = {.failed = false};
    if (!json_get_text(j, "mappings", &c.at))
        return bad(err, "a list of mappings");
    if (*c.at == '\0')
        return RIG_OK;
    size_t count = 1;
    for (const char *at = c.at; (at = strchr(at, ';')); at++)
        count++;
    m->restored = calloc(count, sizeof *m->restored);
    if (!m->restored)
        return rig_fail_memory(err);
    m->restored_count = count;
    enum rig_status status = RIG_OK;
    for (size_t i = 0; status == RIG_OK && i < count && (i == 0 || line_take(&c, ';')); i++) {
        mapping_enter(m, &m->restored[i]);
        status = restore_mapping(x, &m->restored[i], &c, err);
    }
    return status;
}

/* ---- what mappings and regions name */

/* False: memory ran out. */
static bool index_mappings(struct restore *x)
{
    size_t count = 0, all = 0;
    for (size_t i = 0; i < x->gpus->count; i++) {
        struct rig_memory *m = x->gpus->memory[i];
        m->saved_count = 0;
        for (const struct mapping *p = m->mappings; p; p = p->next)
            m->saved_count++;
        m->saved_first = all;
        all += m->saved_count;
    }
    x->by_number = calloc(all + 1, sizeof(struct mapping *));
    for (size_t i = 0; x->by_number && i < x->gpus->count; i++) {
        count += x->gpus->memory[i]->saved_count;
        size_t at = count; /* the newest is first in the list */
        for (struct mapping *p = x->gpus->memory[i]->mappings; p; p = p->next)
            x->by_number[--at] = p;
    }
    return x->by_number != NULL;
}

static struct mapping *find_mapping(const struct restore *x, uint64_t memory, uint64_t number)
{
    if (memory >= x->gpus->count)
        return NULL;
    const struct rig_memory *m = x->gpus->memory[memory];
    size_t low = m->saved_first, high = m->saved_first + m->saved_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (x->by_number[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < m->saved_first + m->saved_count && x->by_number[low]->number == number
               ? x->by_number[low]
               : NULL;
}

static enum rig_status join_owner(struct restore *x, const struct saved *s, struct rig_error *err)
{
    struct mapping *p = s->mapping;
    if (!s->has_of)
        return RIG_OK;
    if (!x->by_number && !index_mappings(x))
        return rig_fail_memory(err);
    struct mapping *of = find_mapping(x, s->of_memory, s->of_number);
    if (!of || !p->peer || of->peer || of->memory == p->memory ||
        (p->holds_addresses && of->address != p->address) || of->bytes != p->bytes)
        return bad(err, "what a peer's mapping is of");
    struct peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return rig_fail_memory(err);
    *peer = (struct peer){
        .mapping = p,
        .memory = p->memory,
        .of = of,
        .keeps_owner = s->keeps_owner,
        .stuck = s->stuck,
    };
    /* Oldest last, as they joined: mappings come oldest first. */
    peer->next = of->peers;
    of->peers = peer;
    p->of = of;
    p->member = peer;
    if (!p->window)
        p->window = of->window;
    return RIG_OK;
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = ((const struct saved_region *)a)->id;
    uint64_t y = ((const struct saved_region *)b)->id;
    return (x > y) - (x < y);
}

/* As they are where one memory alone has regions and each is the first of its mapping. */
static bool in_order(const struct restore *x)
{
    size_t i = 1;
    while (i < x->regions && x->region[i].id > x->region[i - 1].id)
        i++;
    return i >= x->regions;
}

static enum rig_status enter_regions(struct restore *x, struct rig_error *err)
{
    if (x->regions == 0)
        return RIG_OK;
    if (!in_order(x))
        qsort(x->region, x->regions, sizeof *x->region, by_id);
    for (size_t i = 1; i < x->regions; i++)
        if (x->region[i].id == x->region[i - 1].id)
            return bad(err, "a region's id");
    size_t i = 0;
    enum rig_status status = RIG_OK;
    for (; status == RIG_OK && i < x->regions; i++)
        status = region_put(x->region[i].region->mapping->memory, x->region[i].region, err);
    /* What was entered is the memories' to free. */
    memmove(x->region, x->region + i, (x->regions - i) * sizeof *x->region);
    x->regions -= i;
    return status;
}

/* ---- all */

static enum rig_status restore_places(struct rig_gpus *g, const json_t *j, struct rig_error *err)
{
    size_t i;
    const json_t *places, *one;
    if (!json_get_list(j, "places", &places))
        return bad(err, "the list of places in fabrics");
    json_array_foreach(places, i, one)
    {
        const char *name = json_string_value(json_array_get(one, 0));
        struct rig_bdf bdf;
        int function = name && rig_bdf_parse(name, &bdf)
                           ? rig_topology_find_bdf(g->machine->topology, bdf)
                           : -1;
        const json_t *number[] = {json_array_get(one, 1), json_array_get(one, 2)};
        json_int_t fabric = json_integer_value(number[0]), place = json_integer_value(number[1]);
        if (function < 0 || !json_is_integer(number[0]) || !json_is_integer(number[1]) ||
            fabric < 0 || fabric > UINT32_MAX || place < 0 || place > 255)
            return bad(err, "a place in a fabric");
        struct rig_link link = {.fabric = (unsigned)fabric, .place = (unsigned)place};
        enum rig_status status = gpus_place(g, function, link, err);
        if (status != RIG_OK)
            return status;
    }
    return RIG_OK;
}

static enum rig_status restore_spaces(struct rig_gpus *g, const json_t *j, struct rig_error *err)
{
    size_t i;
    const json_t *made, *one;
    if (!json_get_list(json_object_get(j, "spaces"), "made", &made))
        return bad(err, "the list of spaces");
    json_array_foreach(made, i, one)
    {
        const char *vendor = json_string_value(one);
        const struct rig_format *f = NULL;
        for (int k = 0; vendor && !f && k < rig_format_count(); k++)
            if (strcmp(rig_format_at(k)->vendor, vendor) == 0)
                f = rig_format_at(k);
        struct rig_space *space;
        if (!f)
            return bad(err, "a space");
        enum rig_status status = gpus_restore_space(g, f, &space, err);
        if (status != RIG_OK)
            return status;
    }
    return RIG_OK;
}

/* What is written or taken when all lines are known to be good. */
static enum rig_status finish(const struct restore *x, struct rig_error *err)
{
    enum rig_status status = RIG_OK;
    for (size_t i = 0; status == RIG_OK && i < x->gpus->count; i++) {
        const struct rig_memory *m = x->gpus->memory[i];
        if (m->tables && writes_tables(x, m))
            status = rig_page_table_clear_root(m->tables, err);
    }
    for (size_t i = 0; status == RIG_OK && i < x->later_count; i++)
        if (x->anew || x->later[i].tables != 'w')
            status = restore_entries(x, &x->later[i], err);
    return status;
}

static enum rig_status restore_all(struct restore *x, const json_t *state, struct rig_error *err)
{
    struct rig_gpus *g = x->gpus;
    const json_t *memories = json_object_get(state, "memories"), *one;
    size_t i;
    if (!json_is_array(memories) || !json_get_count(state, "last_region", &g->last_region))
        return bad(err, "a list of memories, or last_region,");
    enum rig_status status = restore_places(g, state, err);
    if (status == RIG_OK)
        status = restore_spaces(g, state, err);
    json_array_foreach(memories, i, one)
    {
        status = status == RIG_OK ? restore_memory(x, one, err) : status;
    }
    json_array_foreach(memories, i, one)
    {
        if (status == RIG_OK && !g->memory[i]->settled)
            status = restore_tables(x, g->memory[i], one, err);
        if (status == RIG_OK)
            status = restore_mappings(x, g->memory[i], one, err);
    }
    for (i = 0; status == RIG_OK && i < x->later_count; i++)
        status = join_owner(x, &x->later[i], err);
    if (status == RIG_OK)
        status = enter_regions(x, err);
    return status == RIG_OK ? finish(x, err) : status;
}

static enum rig_status begin(struct rig_machine *m, const json_t *state, struct rig_gpus **out_gpus,
                             struct rig_error *err)
{
    const json_t *spaces = json_object_get(state, "spaces");
    struct rig_gpus_options options = {.space_base = 0};
    if (!json_get_hex(spaces, "base", &options.space_base) ||
        !json_get_count(spaces, "bytes", &options.space_bytes) ||
        !json_get_bool(spaces, "unreserved", &options.unreserved))
        return bad(err, "where the spaces are");
    enum rig_status status = rig_gpus_create(m, &options, out_gpus, NULL);
    if (status == RIG_INVALID)
        return bad(err, "where the spaces are");
    return status == RIG_OK ? RIG_OK : rig_fail_memory(err);
}

static enum rig_status restore_gpus(struct rig_machine *m, const json_t *state, bool anew,
                                    struct rig_gpus **out_gpus, struct rig_error *err)
{
    struct restore x = {.anew = anew};
    enum rig_status status = begin(m, state, &x.gpus, err);
    if (status != RIG_OK)
        return status;
    /* Windows that the process before had are no new steps. */
    if (twin_is(m))
        twin_quiet(m, true);
    status = restore_all(&x, state, err);
    if (twin_is(m))
        twin_quiet(m, false);
    for (size_t i = 0; i < x.regions; i++)
        region_unmake(x.region[i].region);
    free(x.region);
    free(x.later);
    free(x.by_number);
    if (status == RIG_OK)
        *out_gpus = x.gpus;
    else
        rig_gpus_free(x.gpus);
    return status;
}

enum rig_status gpus_restore(struct rig_machine *m, const json_t *state, struct rig_gpus **out_gpus,
                             struct rig_error *err)
{
    return restore_gpus(m, state, false, out_gpus, err);
}

enum rig_status gpus_restore_anew(struct rig_machine *m, const json_t *state,
                                  struct rig_gpus **out_gpus, struct rig_error *err)
{
    return restore_gpus(m, state, true, out_gpus, err);
}

void gpus_suppose(struct rig_gpus *g, bool on)
{
    g->supposing = on;
}

/* ---- looking */

struct rig_memory *gpus_memory_of(const struct rig_gpus *g, int function)
{
    for (size_t i = rig_gpus_count(g); i > 0; i--) {
        struct rig_memory *m = rig_gpus_memory(g, i - 1);
        if (m->function == function && gpu_memory_life(m) != RIG_LIFE_STOPPED)
            return m;
    }
    return NULL;
}

bool gpus_region_named(const struct rig_gpus *g, uint64_t id, struct rig_region *out_region)
{
    return id > 0 && rig_gpus_next_region(g, id - 1, out_region) && out_region->id == id;
}
