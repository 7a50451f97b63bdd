#include "base/ranges_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_UNITS (1u << RIG_CHUNK_LOG2)
#define CHUNK_WORDS (CHUNK_UNITS / 64)

/* The edges of a chunk, in one of two forms. count is 0 only between a reservation and its use.
   few    room is the number of entries there is room for; entry[0..count) ascend: a unit's number
   in the chunk times two, plus one where a hole begins many   room is MANY; bit i of edge[] is set
   iff unit i is an edge, of hole[] iff a hole begins there (so hole is a subset of edge); bit w of
   `words` is set iff edge[w] is not 0 A chunk of few turns into one of many when it outgrows
   FEW_MOST entries, never back. */
struct rig_chunk {
    uint16_t count;
    uint16_t room;
    uint16_t entry[];
};

struct many {
    uint16_t count;
    uint16_t room;
    uint64_t words;
    uint64_t edge[CHUNK_WORDS];
    uint64_t hole[CHUNK_WORDS];
};

#define MANY UINT16_MAX
#define FEW_MOST 26

static_assert(CHUNK_WORDS <= 64, "one word tells which words of a chunk are not 0");
static_assert(offsetof(struct many, room) == offsetof(struct rig_chunk, room), "both forms");

static inline struct many *many(struct rig_chunk *c)
{
    return (struct many *)(void *)c;
}

bool rig_bits_make(struct rig_bits *b, uint64_t count, rig_ranges_source *source)
{
    uint64_t all = 0;
    b->levels = 0;
    do {
        count = (count + 63) / 64;
        b->words[b->levels++] = count;
        all += count;
    } while (count > 1);
    uint64_t *word = source(all, sizeof *word);
    for (unsigned k = 0; word && k < b->levels; word += b->words[k++])
        b->level[k] = word;
    return word != NULL;
}

bool rig_edges_make(struct rig_edges *e, uint64_t units, rig_ranges_source *source)
{
    *e = (struct rig_edges){.units = units, .source = source};
    uint64_t chunks = (units + CHUNK_UNITS - 1) / CHUNK_UNITS;
    if (!rig_bits_make(&e->used, chunks, source))
        return false;
    e->chunk = source(chunks, sizeof *e->chunk);
    if (!e->chunk || !rig_edges_reserve(e, 0, units))
        return false;
    rig_edges_add(e, 0, true);
    return true;
}

void rig_edges_drop(struct rig_edges *e)
{
    if (e->chunk)
        for (uint64_t i = 0; (i = rig_bits_next(&e->used, i)) != RIG_NONE; i++)
            free(e->chunk[i]);
    free(e->chunk);
    free(e->used.level[0]);
}

/* The number of entries of a chunk of few that are less than `entry`. No branch hangs on an entry:
   the processor could not foresee it. */
static inline uint32_t rank(const struct rig_chunk *c, uint32_t entry)
{
    const uint16_t *at = c->entry;
    uint32_t n = c->count;
    for (; n > 1; n -= n / 2)
        at += -(uint32_t)(at[n / 2 - 1] < entry) & n / 2;
    return (uint32_t)(at - c->entry) + (n && *at < entry);
}

static inline struct rig_edge few_edge(const struct rig_chunk *c, uint64_t chunk, uint32_t slot)
{
    return (struct rig_edge){.at = (chunk << RIG_CHUNK_LOG2) + (c->entry[slot] >> 1),
                             .hole = c->entry[slot] & 1,
                             .slot = slot};
}

static inline struct rig_edge many_edge(const struct many *c, uint64_t chunk, uint32_t slot)
{
    return (struct rig_edge){.at = (chunk << RIG_CHUNK_LOG2) + slot,
                             .hole = c->hole[slot / 64] >> slot % 64 & 1,
                             .slot = slot};
}

/* The least edge of a chunk of many from `slot` on, if there is one. */
static inline bool many_next(const struct many *c, uint32_t slot, uint32_t *out)
{
    uint32_t w = slot / 64;
    if (slot >= CHUNK_UNITS)
        return false;
    uint64_t m = c->edge[w] >> slot % 64;
    if (m) {
        *out = slot + (uint32_t)__builtin_ctzll(m);
        return true;
    }
    m = w == 63 ? 0 : c->words >> (w + 1);
    if (!m)
        return false;
    w += 1 + (uint32_t)__builtin_ctzll(m);
    *out = w * 64 + (uint32_t)__builtin_ctzll(c->edge[w]);
    return true;
}

/* The greatest edge of a chunk of many below `slot`, if there is one. */
static inline bool many_previous(const struct many *c, uint32_t slot, uint32_t *out)
{
    uint32_t w = slot / 64;
    uint64_t m = slot % 64 ? c->edge[w] << (64 - slot % 64) : 0;
    if (m) {
        *out = slot - 1 - (uint32_t)__builtin_clzll(m);
        return true;
    }
    m = w ? c->words << (64 - w) : 0;
    if (!m)
        return false;
    w -= 1 + (uint32_t)__builtin_clzll(m);
    *out = w * 64 + 63 - (uint32_t)__builtin_clzll(c->edge[w]);
    return true;
}

/* Whether unit `at` is an edge, and which. */
static inline bool find(const struct rig_edges *e, uint64_t at, struct rig_edge *out)
{
    struct rig_chunk *c = e->chunk[at >> RIG_CHUNK_LOG2];
    uint32_t unit = at % CHUNK_UNITS;
    if (!c)
        return false;
    if (c->room == MANY) {
        *out = many_edge(many(c), at >> RIG_CHUNK_LOG2, unit);
        return many(c)->edge[unit / 64] >> unit % 64 & 1;
    }
    uint32_t slot = rank(c, unit * 2);
    if (slot == c->count || c->entry[slot] >> 1 != unit)
        return false;
    *out = few_edge(c, at >> RIG_CHUNK_LOG2, slot);
    return true;
}

/* The last edge of the chunks before `chunk`. */
static struct rig_edge last_before(const struct rig_edges *e, uint64_t chunk)
{
    uint64_t i = rig_bits_previous(&e->used, chunk);
    struct rig_chunk *c = e->chunk[i];
    if (c->room != MANY)
        return few_edge(c, i, c->count - 1u);
    uint32_t w = 63 - (uint32_t)__builtin_clzll(many(c)->words);
    return many_edge(many(c), i, w * 64 + 63 - (uint32_t)__builtin_clzll(many(c)->edge[w]));
}

/* The first edge of the chunks from `chunk` on, or the end. */
static struct rig_edge first_from(const struct rig_edges *e, uint64_t chunk)
{
    uint64_t i = rig_bits_next(&e->used, chunk);
    if (i == RIG_NONE)
        return (struct rig_edge){.at = e->units};
    struct rig_chunk *c = e->chunk[i];
    if (c->room != MANY)
        return few_edge(c, i, 0);
    uint32_t w = (uint32_t)__builtin_ctzll(many(c)->words);
    return many_edge(many(c), i, w * 64 + (uint32_t)__builtin_ctzll(many(c)->edge[w]));
}

struct rig_edge rig_edges_at_or_before(const struct rig_edges *e, uint64_t at)
{
    uint64_t chunk = at >> RIG_CHUNK_LOG2;
    struct rig_chunk *c = e->chunk[chunk];
    uint32_t slot, unit = at % CHUNK_UNITS;
    if (c && c->room == MANY) {
        if (many_previous(many(c), unit + 1, &slot))
            return many_edge(many(c), chunk, slot);
    } else if (c) {
        slot = rank(c, unit * 2 + 2);
        if (slot)
            return few_edge(c, chunk, slot - 1);
    }
    return last_before(e, chunk);
}

static inline struct rig_edge next(const struct rig_edges *e, const struct rig_edge *edge)
{
    uint64_t chunk = edge->at >> RIG_CHUNK_LOG2;
    struct rig_chunk *c = e->chunk[chunk];
    uint32_t slot;
    if (c->room == MANY) {
        if (many_next(many(c), edge->slot + 1, &slot))
            return many_edge(many(c), chunk, slot);
    } else if (edge->slot + 1 < c->count) {
        return few_edge(c, chunk, edge->slot + 1);
    }
    return first_from(e, chunk + 1);
}

/* The edge before one that is not at unit 0. */
static inline struct rig_edge previous(const struct rig_edges *e, const struct rig_edge *edge)
{
    uint64_t chunk = edge->at >> RIG_CHUNK_LOG2;
    struct rig_chunk *c = e->chunk[chunk];
    uint32_t slot;
    if (c->room == MANY) {
        if (many_previous(many(c), edge->slot, &slot))
            return many_edge(many(c), chunk, slot);
    } else if (edge->slot) {
        return few_edge(c, chunk, edge->slot - 1);
    }
    return last_before(e, chunk);
}

struct rig_edge rig_edges_next(const struct rig_edges *e, const struct rig_edge *edge)
{
    return next(e, edge);
}

bool rig_edges_block(const struct rig_edges *e, uint64_t at, struct rig_block *out)
{
    if (!find(e, at, &out->edge) || out->edge.hole)
        return false;
    out->next = next(e, &out->edge);
    out->end = out->next.hole ? next(e, &out->next).at : out->next.at;
    out->before = at ? previous(e, &out->edge) : out->edge;
    return true;
}

/* A chunk with the edges of `from` and room for `count` of them, or NULL. */
static struct rig_chunk *larger(const struct rig_chunk *from, uint32_t count,
                                rig_ranges_source *source)
{
    uint16_t room = count > FEW_MOST ? MANY : count <= 10 ? 10 : FEW_MOST;
    size_t bytes = room == MANY ? sizeof(struct many) : sizeof *from + room * sizeof from->entry[0];
    struct rig_chunk *c = source(1, bytes);
    if (!c)
        return NULL;
    c->room = room;
    c->count = from ? from->count : 0;
    if (from && room != MANY)
        memcpy(c->entry, from->entry, from->count * sizeof from->entry[0]);
    for (uint32_t i = 0; room == MANY && i < c->count; i++) {
        uint32_t unit = from->entry[i] >> 1;
        many(c)->edge[unit / 64] |= UINT64_C(1) << unit % 64;
        many(c)->hole[unit / 64] |= (uint64_t)(from->entry[i] & 1) << unit % 64;
        many(c)->words |= UINT64_C(1) << unit / 64;
    }
    return c;
}

static bool reserve(struct rig_edges *e, uint64_t chunk, uint32_t more)
{
    struct rig_chunk *c = e->chunk[chunk];
    if (c && (c->room == MANY || c->count + more <= c->room))
        return true;
    struct rig_chunk *grown = larger(c, c ? c->count + more : more, e->source);
    if (!grown)
        return false;
    free(c);
    e->chunk[chunk] = grown;
    return true;
}

bool rig_edges_reserve(struct rig_edges *e, uint64_t a, uint64_t b)
{
    uint64_t first = a >> RIG_CHUNK_LOG2, second = b >> RIG_CHUNK_LOG2;
    if (b == e->units || first == second)
        return reserve(e, first, b == e->units ? 1 : 2);
    if (!reserve(e, first, 1))
        return false;
    if (reserve(e, second, 1))
        return true;
    if (e->chunk[first]->count == 0) {
        free(e->chunk[first]);
        e->chunk[first] = NULL;
    }
    return false;
}

void rig_edges_add(struct rig_edges *e, uint64_t at, bool hole)
{
    struct rig_chunk *c = e->chunk[at >> RIG_CHUNK_LOG2];
    uint32_t unit = at % CHUNK_UNITS;
    if (c->count++ == 0)
        rig_bits_set(&e->used, at >> RIG_CHUNK_LOG2);
    if (c->room == MANY) {
        many(c)->edge[unit / 64] |= UINT64_C(1) << unit % 64;
        many(c)->hole[unit / 64] |= (uint64_t)hole << unit % 64;
        many(c)->words |= UINT64_C(1) << unit / 64;
        return;
    }
    c->count--;
    uint32_t slot = rank(c, unit * 2);
    memmove(&c->entry[slot + 1], &c->entry[slot], (c->count - slot) * sizeof c->entry[0]);
    c->entry[slot] = (uint16_t)(unit * 2 + hole);
    c->count++;
}

void rig_edges_take(struct rig_edges *e, uint64_t at)
{
    struct rig_chunk *c = e->chunk[at >> RIG_CHUNK_LOG2];
    uint32_t unit = at % CHUNK_UNITS;
    if (c->room == MANY)
        many(c)->hole[unit / 64] &= ~(UINT64_C(1) << unit % 64);
    else
        c->entry[rank(c, unit * 2)] &= (uint16_t)~1U;
}

void rig_edges_give(struct rig_edges *e, const struct rig_edge *edge)
{
    struct rig_chunk *c = e->chunk[edge->at >> RIG_CHUNK_LOG2];
    if (c->room == MANY)
        many(c)->hole[edge->slot / 64] |= UINT64_C(1) << edge->slot % 64;
    else
        c->entry[edge->slot] |= 1;
}

void rig_edges_remove(struct rig_edges *e, const struct rig_edge *edge)
{
    uint64_t chunk = edge->at >> RIG_CHUNK_LOG2;
    struct rig_chunk *c = e->chunk[chunk];
    uint32_t slot = edge->slot;
    if (--c->count == 0) {
        rig_bits_clear(&e->used, chunk);
        free(c);
        e->chunk[chunk] = NULL;
    } else if (c->room == MANY) {
        uint64_t keep = ~(UINT64_C(1) << slot % 64);
        many(c)->hole[slot / 64] &= keep;
        if (!(many(c)->edge[slot / 64] &= keep))
            many(c)->words &= ~(UINT64_C(1) << slot / 64);
    } else {
        memmove(&c->entry[slot], &c->entry[slot + 1], (c->count - slot) * sizeof c->entry[0]);
    }
}
