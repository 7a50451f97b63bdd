/* What a memory's state is written as. Its mappings are one text, each a line of it, oldest first,
   with semicolons between them; a line's fields are hexadecimal numbers and letters separated by
   spaces, lists by commas, an absent field `-`:

     NUMBER STATE ADDRESS BYTES TARGET BASE HOLD VIEW OF STUCK TABLES RANGES REGIONS CLIENTS

   STATE is L live, C cut short, K kept, H held or G gone, then p of a peer's memory, g of a GPU's,
   u uncached, a holds its addresses, r holds its ranges, d due, and the kind's number or n. TARGET
   is the memory's number (own, system, link), then s if snooped, then the peer's number. BASE is
   what the ranges' addresses are above the peer's offsets. HOLD is the id of the function layer's
   hold, VIEW where its bytes begin in its window on the BAR. OF is MEMORY.NUMBER of the owner's
   mapping, then k if it keeps the owner's function taken, s if stuck. TABLES is w if all is mapped,
   u if that is not certain. A range is ADDRESS+BYTES; a region
   ID.FLAGS.ORIGIN.SKIP.BYTES.OF.MEMORY, its flags o out, k kept, f the first over it. */
#include "gpu/save.h"

#include "base/json.h"
#include "base/lines.h"
#include "gpu/memories.h"

#include <stdlib.h>

/* ---- a mapping's line */

static size_t memory_index(const struct rig_gpus *g, const struct rig_memory *m)
{
    size_t i = 0;
    while (i < g->count && g->memory[i] != m)
        i++;
    return i;
}

static void put_state(struct line_text *t, const struct mapping *p)
{
    static const char states[] = {
        [MAPPING_MAKING] = 'C', [MAPPING_LIVE] = 'L', [MAPPING_CUT] = 'C',
        [MAPPING_KEPT] = 'K',   [MAPPING_HELD] = 'H', [MAPPING_GONE] = 'G',
    };
    line_put(t, ' ');
    line_put(t, states[p->state]);
    line_put_if(t, p->peer, 'p');
    line_put_if(t, p->to_gpu, 'g');
    line_put_if(t, p->uncached, 'u');
    line_put_if(t, p->holds_addresses, 'a');
    line_put_if(t, p->owns_ranges, 'r');
    line_put_if(t, p->due, 'd');
    line_put(t, p->has_kind ? (char)('0' + (int)p->kind) : 'n');
}

static void put_of(struct line_text *t, const struct rig_gpus *g, const struct mapping *p)
{
    line_put(t, ' ');
    if (!p->member) {
        line_put(t, '-');
        return;
    }
    line_put_hex(t, memory_index(g, p->of->memory));
    line_put(t, '.');
    line_put_hex(t, p->of->number);
    line_put_if(t, p->member->keeps_owner, 'k');
    line_put_if(t, p->member->stuck, 's');
}

/* Whether m mapped the same memory at the same addresses again, since what ended there may still be
   reached: what the page table has there is the later one's. */
static bool is_mapped_again(const struct rig_memory *m, const struct mapping *p)
{
    for (const struct peer *peer = p->member ? p->of->peers : NULL; peer; peer = peer->next)
        if (peer->memory == m && peer->mapping->number > p->number)
            return true;
    return false;
}

/* How the page table has it: a live mapping is there whole; of others the shadow is asked. */
static char tables_of(const struct rig_memory *m, const struct mapping *p)
{
    if (!m->tables || p->count == 0 || is_mapped_again(m, p))
        return '-';
    if (p->state == MAPPING_LIVE)
        return 'w';
    switch (rig_page_table_compare(m->tables, p->address, p->target, p->ranges, p->count)) {
    case RIG_MAPPED_WHOLE:
        return 'w';
    case RIG_MAPPED_PART:
        return 'u';
    default:
        return '-';
    }
}

/* ",HEX+HEX" at most. */
#define RANGE_MOST (2 * LINE_HEX_MOST + 2)

static void put_range(struct line_text *t, const struct rig_range *range, char before)
{
    line_put_if(t, before != '\0', before);
    line_put_hex(t, range->address);
    line_put(t, '+');
    line_put_hex(t, range->bytes);
}

static void put_ranges(struct line_text *t, const struct mapping *p)
{
    line_put(t, ' ');
    for (size_t i = 0; i < p->count; i++)
        put_range(t, &p->ranges[i], i > 0 ? ',' : '\0');
    line_put_if(t, p->count == 0, '-');
}

/* Seven numbers, as many separators, three flags, at most. */
#define REGION_MOST (7 * (LINE_HEX_MOST + 1) + 3)

static void put_region(struct line_text *t, const struct rig_gpus *g, const struct region *r)
{
    const struct mapping *p = r->mapping;
    line_put_hex(t, r->id);
    line_put(t, '.');
    line_put_if(t, r->out, 'o');
    line_put_if(t, p->kept == r, 'k');
    line_put_if(t, p->original == r, 'f');
    const uint64_t numbers[] = {(uint64_t)r->origin, r->skip, r->bytes, r->of};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(numbers); i++) {
        line_put(t, '.');
        line_put_hex(t, numbers[i]);
    }
    line_put(t, '.');
    line_put_hex(t, r->owner ? memory_index(g, r->owner) : 0);
}

static void put_clients(struct line_text *t, const struct mapping *p)
{
    line_put(t, ' ');
    for (size_t i = 0; i < p->client_count; i++) {
        line_put_if(t, i > 0, ',');
        line_put_hex(t, (uint64_t)p->clients[i]);
    }
    line_put_if(t, p->client_count == 0, '-');
}

/* Only of borrowed memory of a space. */
static void put_lent(struct line_text *t, const struct mapping *p)
{
    for (size_t i = 0; i < p->lent_count; i++)
        put_range(t, &p->lent[i], i > 0 ? ',' : ' ');
}

/* Regions of a memory by mapping: `previous` is 1 + the index of the mapping's region before, 0 for
   none, and the mapping's `scratch` is where its newest is, likewise. */
struct listed {
    const struct region *region;
    size_t previous;
};

/* All fields but lists: eleven numbers and their separators, and letters. */
#define FIELDS_MOST (11 * (LINE_HEX_MOST + 1) + 32)

/* What most lines take at most. */
#define LINE_LIKELY 100

/* False: memory ran out. */
static bool put_mapping(struct line_text *t, const struct rig_gpus *g, const struct mapping *p,
                        const struct listed *list)
{
    const struct rig_memory *m = p->memory;
    size_t regions = 0;
    for (size_t i = p->scratch; i > 0; i = list[i - 1].previous)
        regions++;
    if (!line_room(t, FIELDS_MOST + (p->count + p->lent_count) * RANGE_MOST +
                          regions * REGION_MOST + p->client_count * (LINE_HEX_MOST + 1)))
        return false;
    line_put_if(t, t->used > 0, ';');
    line_put_hex(t, p->number);
    put_state(t, p);
    line_put_field(t, true, p->address);
    line_put_field(t, true, p->bytes);
    line_put_field(t, true, (uint64_t)p->target.memory);
    line_put_if(t, p->target.snooped, 's');
    line_put(t, '.');
    line_put_hex(t, p->target.peer);
    line_put_field(t, true, p->peer_base);
    line_put_field(t, p->hold != NULL, p->hold ? p->hold->id : 0);
    line_put_field(t, p->view != NULL, p->view_skip);
    put_of(t, g, p);
    line_put_field(t, true, p->stuck_peers);
    line_put(t, ' ');
    line_put(t, tables_of(m, p));
    put_ranges(t, p);
    line_put(t, ' ');
    for (size_t i = p->scratch; i > 0; i = list[i - 1].previous) {
        put_region(t, g, list[i - 1].region);
        line_put_if(t, list[i - 1].previous > 0, ',');
    }
    line_put_if(t, regions == 0, '-');
    put_clients(t, p);
    put_lent(t, p);
    return true;
}

/* ---- a memory */

static enum rig_status save_table(void *to, const struct rig_saved_table *saved)
{
    struct line_text *t = to;
    if (!line_room(t, 3 * (LINE_HEX_MOST + 1) + 8))
        return RIG_FAILED;
    line_put_if(t, t->used > 0, ',');
    line_put_hex(t, saved->level);
    line_put(t, '.');
    line_put_hex(t, saved->address);
    line_put(t, '.');
    line_put_hex(t, saved->offset);
    line_put(t, '.');
    line_put_if(t, saved->complete, 'c');
    line_put_if(t, saved->linked, 'l');
    line_put_if(t, saved->kept, 'k');
    return RIG_OK;
}

static void list_regions(const struct rig_memory *m, struct listed *list)
{
    for (size_t i = 0; i < m->regions.count; i++) {
        const struct region *r = m->regions.slot[i].region;
        if (!r)
            continue;
        list[i] = (struct listed){.region = r, .previous = r->mapping->scratch};
        r->mapping->scratch = i + 1;
    }
}

static json_t *saved_mappings(const struct rig_gpus *g, const struct rig_memory *m)
{
    struct listed *list = calloc(m->regions.count + 1, sizeof *list);
    struct line_text t = {.at = NULL};
    struct mapping *oldest = NULL;
    for (struct mapping *p = m->mappings; p; p = p->next) {
        p->scratch = 0;
        oldest = p;
    }
    bool whole = list && line_room(&t, m->regions.count * LINE_LIKELY);
    if (whole)
        list_regions(m, list);
    for (const struct mapping *p = oldest; p && whole; p = p->previous)
        whole = put_mapping(&t, g, p, list);
    json_t *lines = whole ? json_stringn_nocheck(t.at, t.used) : NULL;
    free(list);
    free(t.at);
    return lines;
}

static json_t *saved_tables(const struct rig_memory *m)
{
    struct line_text t = {.at = NULL};
    json_t *tables = NULL;
    if (!m->tables)
        tables = json_string("");
    else if (rig_page_table_save(m->tables, save_table, &t) == RIG_OK)
        tables = json_stringn_nocheck(t.at, t.used);
    free(t.at);
    return tables;
}

static json_t *saved_memory(const struct rig_gpus *g, const struct rig_memory *m)
{
    char name[RIG_BDF_MAX];
    json_t *link =
        m->linked ? json_pack("[i i]", (int)m->link.fabric, (int)m->link.place) : json_null();
    return json_pack("{ss sb ss ss si sI sb so so so sb sb sI so so}", "function",
                     gpu_memory_name(m, name), "stopped", gpu_memory_life(m) == RIG_LIFE_STOPPED,
                     "format", m->format->name, "variant", m->format->variant, "bar", m->bar,
                     "bytes", (json_int_t)m->bytes, "combining", m->combining, "link", link,
                     "own_base", json_hex(m->own_base), "root", json_hex(m->root), "settled",
                     m->settled, "gone", m->gone, "last_mapping", (json_int_t)m->last_mapping,
                     "tables", saved_tables(m), "mappings", saved_mappings(g, m));
}

/* ---- all */

static json_t *saved_places(const struct rig_gpus *g)
{
    json_t *all = json_array();
    for (size_t i = 0; i < g->places; i++) {
        const struct linked_gpu *one = &g->place[i];
        char name[RIG_BDF_MAX];
        rig_bdf_format(rig_topology_function(g->machine->topology, one->function)->bdf, name);
        if (json_array_append_new(all, json_pack("[s i i]", name, (int)one->link.fabric,
                                                 (int)one->link.place)) != 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

static json_t *saved_spaces(const struct rig_gpus *g)
{
    json_t *made = json_array();
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(g->space); i++)
        if (g->space[i] && json_array_append_new(made, json_string(space_name(g->space[i]))) != 0) {
            json_decref(made);
            return NULL;
        }
    return json_pack("{so sI sb so}", "base", json_hex(g->options.space_base), "bytes",
                     (json_int_t)g->options.space_bytes, "unreserved", g->options.unreserved,
                     "made", made);
}

enum rig_status gpus_save(struct rig_gpus *g, json_t **out_state, struct rig_error *err)
{
    json_t *memories = json_array();
    bool whole = memories != NULL;
    for (size_t i = 0; i < g->count && whole; i++)
        whole = json_array_append_new(memories, saved_memory(g, g->memory[i])) == 0;
    json_t *state = json_pack("{sI so so so}", "last_region", (json_int_t)g->last_region, "spaces",
                              saved_spaces(g), "places", saved_places(g), "memories", memories);
    if (!whole || !state) {
        json_decref(state);
        return rig_fail_memory(err);
    }
    *out_state = state;
    return RIG_OK;
}
