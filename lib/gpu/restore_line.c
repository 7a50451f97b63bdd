/* A mapping's line of a state document, read. */
#include "gpu/restore.h"

#include <stdlib.h>

/* More lists' items than a file of sane size holds. */
#define ITEMS_MAX (1u << 24)

bool restore_grow(void **array, size_t used, size_t *room, size_t size)
{
    if (used < *room)
        return true;
    size_t more = *room ? *room * 2 : 256;
    void *grown = realloc(*array, more * size);
    if (!grown)
        return false;
    *array = grown;
    *room = more;
    return true;
}

static void read_state(struct line_cursor *c, struct mapping *p)
{
    static const char letters[] = "LCKHG";
    static const enum mapping_state states[] = {MAPPING_LIVE, MAPPING_CUT, MAPPING_KEPT,
                                                MAPPING_HELD, MAPPING_GONE};
    line_expect(c, ' ');
    unsigned i = 0;
    while (i + 1 < RIG_ARRAY_LENGTH(states) && letters[i] != *c->at)
        i++;
    line_expect(c, letters[i]);
    p->state = states[i];
    p->peer = line_take(c, 'p');
    p->to_gpu = line_take(c, 'g');
    p->uncached = p->target.uncached = line_take(c, 'u');
    p->holds_addresses = line_take(c, 'a');
    p->owns_ranges = line_take(c, 'r');
    p->due = line_take(c, 'd');
    p->has_kind = !line_take(c, 'n');
    if (!p->has_kind)
        return;
    uint64_t kind = line_hex(c);
    line_need(c, kind <= RIG_KIND_HOST);
    p->kind = (enum rig_kind)(kind & 3);
}

static void read_target(struct line_cursor *c, struct mapping *p)
{
    uint64_t memory = line_number(c);
    p->target.snooped = line_take(c, 's');
    line_expect(c, '.');
    uint64_t peer = line_hex(c);
    line_need(c, memory <= RIG_MEMORY_LINK && peer <= UINT8_MAX);
    p->target.memory = (enum rig_memory_kind)(memory & 3);
    p->target.peer = (uint8_t)peer;
}

static void read_of(struct line_cursor *c, struct saved *s)
{
    s->of_memory = line_field(c, &s->has_of);
    if (!s->has_of)
        return;
    line_expect(c, '.');
    s->of_number = line_hex(c);
    s->keeps_owner = line_take(c, 'k');
    s->stuck = line_take(c, 's');
}

static void read_tables(struct line_cursor *c, struct saved *s)
{
    line_expect(c, ' ');
    s->tables = *c->at;
    line_need(c, line_take(c, 'w') || line_take(c, 'u') || line_take(c, '-'));
}

static void read_range(struct line_cursor *c, struct rig_range *out)
{
    out->address = line_hex(c);
    line_expect(c, '+');
    out->bytes = line_hex(c);
    line_need(c, ((out->address | out->bytes) & 4095) == 0 && out->bytes != 0);
}

/* Nearly all are of one range, which is looked for first. */
static bool read_ranges(struct line_cursor *c, struct mapping *p)
{
    line_expect(c, ' ');
    if (c->failed || line_take(c, '-'))
        return true;
    struct line_cursor first = *c;
    mapping_make_ranges(p, 1);
    read_range(c, &p->range);
    uint64_t sum = p->range.bytes;
    if (*c->at == ',') {
        size_t count = line_items(&first);
        if (count > ITEMS_MAX || !mapping_make_ranges(p, count))
            return false;
        p->ranges[0] = p->range;
        for (size_t i = 1; i < count && !c->failed; i++) {
            line_expect(c, ',');
            read_range(c, &p->ranges[i]);
            line_need(c, rig_add(sum, p->ranges[i].bytes, &sum));
        }
    }
    line_need(c, sum == p->bytes);
    return true;
}

static bool read_region(struct line_cursor *c, struct restore *x, struct mapping *p)
{
    struct region *r = region_make(p);
    if (!r || !restore_grow((void **)&x->region, x->regions, &x->region_room, sizeof *x->region)) {
        if (r)
            region_unmake(r);
        return false;
    }
    r->id = line_hex(c);
    x->region[x->regions++] = (struct saved_region){.id = r->id, .region = r};
    line_expect(c, '.');
    r->out = line_take(c, 'o');
    bool kept = line_take(c, 'k'), first = line_take(c, 'f');
    uint64_t numbers[5];
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(numbers); i++) {
        line_expect(c, '.');
        numbers[i] = line_hex(c);
    }
    uint64_t end;
    if (c->failed || numbers[0] > RIG_ORIGIN_PEER || r->id == 0 || r->id > x->gpus->last_region ||
        !rig_add(numbers[1], numbers[2], &end) || end > p->bytes || (kept && (r->out || p->kept)) ||
        (first && p->original) || (!r->out && !kept && !first) || numbers[4] >= x->gpus->count) {
        line_fail(c);
        return true;
    }
    r->origin = (enum rig_origin)numbers[0];
    r->skip = numbers[1];
    r->bytes = numbers[2];
    r->of = numbers[3];
    if (r->origin == RIG_ORIGIN_PEER)
        r->owner = x->gpus->memory[numbers[4]];
    p->regions += r->out ? 1 : 0;
    if (kept)
        p->kept = r;
    if (first)
        p->original = r;
    return true;
}

static bool read_regions(struct line_cursor *c, struct restore *x, struct mapping *p)
{
    line_expect(c, ' ');
    if (c->failed || line_take(c, '-'))
        return true;
    bool room = true;
    do
        room = read_region(c, x, p);
    while (room && line_take(c, ','));
    return room;
}

static bool read_clients(struct line_cursor *c, struct mapping *p)
{
    line_expect(c, ' ');
    if (c->failed || line_take(c, '-'))
        return true;
    size_t count = line_items(c);
    int most = rig_topology_count(p->memory->gpus->machine->topology);
    p->clients = count <= ITEMS_MAX ? calloc(count, sizeof *p->clients) : NULL;
    for (; p->clients && p->client_count < count && !c->failed; p->client_count++) {
        if (p->client_count > 0)
            line_expect(c, ',');
        uint64_t function = line_hex(c);
        line_need(c, function < (uint64_t)most);
        p->clients[p->client_count] = c->failed ? 0 : (int)function;
    }
    return p->clients != NULL;
}

static bool read_lent(struct line_cursor *c, struct mapping *p)
{
    if (!line_take(c, ' '))
        return true;
    size_t count = line_items(c);
    p->lent = count <= ITEMS_MAX ? calloc(count, sizeof *p->lent) : NULL;
    for (; p->lent && p->lent_count < count && !c->failed; p->lent_count++) {
        if (p->lent_count > 0)
            line_expect(c, ',');
        read_range(c, &p->lent[p->lent_count]);
    }
    return p->lent != NULL;
}

bool restore_line(struct line_cursor *c, struct restore *x, struct saved *s)
{
    struct mapping *p = s->mapping;
    p->number = line_hex(c);
    read_state(c, p);
    p->address = line_number(c);
    p->bytes = line_number(c);
    read_target(c, p);
    p->peer_base = line_number(c);
    s->hold = line_field(c, &s->has_hold);
    p->view_skip = line_field(c, &s->has_view);
    read_of(c, s);
    uint64_t stuck = line_number(c);
    p->stuck_peers = (unsigned)stuck;
    line_need(c, stuck <= UINT32_MAX && p->number <= p->memory->last_mapping &&
                     ((p->address | p->bytes) & 4095) == 0);
    read_tables(c, s);
    bool room = read_ranges(c, p) && read_regions(c, x, p) && read_clients(c, p) && read_lent(c, p);
    line_need(c, *c->at == '\0' || *c->at == ';');
    return room;
}
