/* A mapping's line of a state document, read. */
#include "gpu/restore.h"

#include <stdlib.h>

/* More lists' items than a file of sane size holds. */
#define ITEMS_MAX (1u << 24)

/* 1 + what each digit stands for, 0 for what is none. */
static const unsigned char digits[256] = {
    ['0'] = 1, ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9, ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
};

static inline uint64_t hex(struct cursor *c)
{
    const char *at = c->at;
    uint64_t value = 0;
    unsigned count = 0;
    for (unsigned digit; count < 16 && (digit = digits[(unsigned char)at[count]]) != 0; count++)
        value = value << 4 | (digit - 1);
    if (count == 0)
        cursor_fail(c);
    else
        c->at = at + count;
    return value;
}

uint64_t cursor_hex(struct cursor *c)
{
    return hex(c);
}

/* " HEX" or " -"; *out_there: the first. */
static uint64_t field(struct cursor *c, bool *out_there)
{
    cursor_expect(c, ' ');
    *out_there = !cursor_take(c, '-');
    return *out_there ? hex(c) : 0;
}

static uint64_t number(struct cursor *c)
{
    bool there;
    uint64_t value = field(c, &there);
    if (!there)
        cursor_fail(c);
    return value;
}

/* Items of a list up to the next space or the line's end. */
static size_t count_items(const struct cursor *c)
{
    size_t n = 1;
    for (const char *at = c->at; *at && *at != ' ' && *at != ';'; at++)
        n += *at == ',';
    return n;
}

static void expect(struct cursor *c, bool rule)
{
    if (!rule)
        cursor_fail(c);
}

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

static void read_state(struct cursor *c, struct mapping *p)
{
    static const char letters[] = "LCKHG";
    static const enum mapping_state states[] = {MAPPING_LIVE, MAPPING_CUT, MAPPING_KEPT,
                                                MAPPING_HELD, MAPPING_GONE};
    cursor_expect(c, ' ');
    unsigned i = 0;
    while (i + 1 < RIG_ARRAY_LENGTH(states) && letters[i] != *c->at)
        i++;
    cursor_expect(c, letters[i]);
    p->state = states[i];
    p->peer = cursor_take(c, 'p');
    p->to_gpu = cursor_take(c, 'g');
    p->uncached = p->target.uncached = cursor_take(c, 'u');
    p->holds_addresses = cursor_take(c, 'a');
    p->owns_ranges = cursor_take(c, 'r');
    p->due = cursor_take(c, 'd');
    p->has_kind = !cursor_take(c, 'n');
    if (!p->has_kind)
        return;
    uint64_t kind = hex(c);
    expect(c, kind <= RIG_KIND_HOST);
    p->kind = (enum rig_kind)(kind & 3);
}

static void read_target(struct cursor *c, struct mapping *p)
{
    uint64_t memory = number(c);
    p->target.snooped = cursor_take(c, 's');
    cursor_expect(c, '.');
    uint64_t peer = hex(c);
    expect(c, memory <= RIG_MEMORY_LINK && peer <= UINT8_MAX);
    p->target.memory = (enum rig_memory_kind)(memory & 3);
    p->target.peer = (uint8_t)peer;
}

static void read_of(struct cursor *c, struct saved *s)
{
    s->of_memory = field(c, &s->has_of);
    if (!s->has_of)
        return;
    cursor_expect(c, '.');
    s->of_number = hex(c);
    s->keeps_owner = cursor_take(c, 'k');
    s->stuck = cursor_take(c, 's');
}

static void read_tables(struct cursor *c, struct saved *s)
{
    cursor_expect(c, ' ');
    s->tables = *c->at;
    expect(c, cursor_take(c, 'w') || cursor_take(c, 'u') || cursor_take(c, '-'));
}

static void read_range(struct cursor *c, struct rig_range *out)
{
    out->address = hex(c);
    cursor_expect(c, '+');
    out->bytes = hex(c);
    expect(c, ((out->address | out->bytes) & 4095) == 0 && out->bytes != 0);
}

static bool read_ranges(struct cursor *c, struct mapping *p)
{
    cursor_expect(c, ' ');
    if (c->failed || cursor_take(c, '-'))
        return true;
    size_t count = count_items(c);
    if (count > ITEMS_MAX || !mapping_make_ranges(p, count))
        return false;
    uint64_t sum = 0;
    for (size_t i = 0; i < count && !c->failed; i++) {
        if (i > 0)
            cursor_expect(c, ',');
        read_range(c, &p->ranges[i]);
        expect(c, rig_add(sum, p->ranges[i].bytes, &sum));
    }
    expect(c, sum == p->bytes);
    return true;
}

static bool read_region(struct cursor *c, struct restore *x, struct mapping *p)
{
    struct region *r = region_make(p);
    if (!r || !restore_grow((void **)&x->region, x->regions, &x->region_room, sizeof *x->region)) {
        if (r)
            region_unmake(r);
        return false;
    }
    r->id = hex(c);
    x->region[x->regions++] = (struct saved_region){.id = r->id, .region = r};
    cursor_expect(c, '.');
    r->out = cursor_take(c, 'o');
    bool kept = cursor_take(c, 'k'), first = cursor_take(c, 'f');
    uint64_t numbers[5];
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(numbers); i++) {
        cursor_expect(c, '.');
        numbers[i] = hex(c);
    }
    uint64_t end;
    if (c->failed || numbers[0] > RIG_ORIGIN_PEER || r->id == 0 || r->id > x->gpus->last_region ||
        !rig_add(numbers[1], numbers[2], &end) || end > p->bytes || (kept && (r->out || p->kept)) ||
        (first && p->original) || (!r->out && !kept && !first) || numbers[4] >= x->gpus->count) {
        cursor_fail(c);
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

static bool read_regions(struct cursor *c, struct restore *x, struct mapping *p)
{
    cursor_expect(c, ' ');
    if (c->failed || cursor_take(c, '-'))
        return true;
    bool room = true;
    do
        room = read_region(c, x, p);
    while (room && cursor_take(c, ','));
    return room;
}

static bool read_clients(struct cursor *c, struct mapping *p)
{
    cursor_expect(c, ' ');
    if (c->failed || cursor_take(c, '-'))
        return true;
    size_t count = count_items(c);
    int most = rig_topology_count(p->memory->gpus->machine->topology);
    p->clients = count <= ITEMS_MAX ? calloc(count, sizeof *p->clients) : NULL;
    for (; p->clients && p->client_count < count && !c->failed; p->client_count++) {
        if (p->client_count > 0)
            cursor_expect(c, ',');
        uint64_t function = hex(c);
        expect(c, function < (uint64_t)most);
        p->clients[p->client_count] = c->failed ? 0 : (int)function;
    }
    return p->clients != NULL;
}

static bool read_lent(struct cursor *c, struct mapping *p)
{
    if (!cursor_take(c, ' '))
        return true;
    size_t count = count_items(c);
    p->lent = count <= ITEMS_MAX ? calloc(count, sizeof *p->lent) : NULL;
    for (; p->lent && p->lent_count < count && !c->failed; p->lent_count++) {
        if (p->lent_count > 0)
            cursor_expect(c, ',');
        read_range(c, &p->lent[p->lent_count]);
    }
    return p->lent != NULL;
}

bool restore_line(struct cursor *c, struct restore *x, struct saved *s)
{
    struct mapping *p = s->mapping;
    p->number = hex(c);
    read_state(c, p);
    p->address = number(c);
    p->bytes = number(c);
    read_target(c, p);
    p->peer_base = number(c);
    s->hold = field(c, &s->has_hold);
    p->view_skip = field(c, &s->has_view);
    read_of(c, s);
    uint64_t stuck = number(c);
    p->stuck_peers = (unsigned)stuck;
    expect(c, stuck <= UINT32_MAX && p->number <= p->memory->last_mapping &&
                  ((p->address | p->bytes) & 4095) == 0);
    read_tables(c, s);
    bool room = read_ranges(c, p) && read_regions(c, x, p) && read_clients(c, p) && read_lent(c, p);
    expect(c, *c->at == '\0' || *c->at == ';');
    return room;
}
