/* The edges of the range allocator: what each request does. Only the range allocator's files
   include this; what makes, drops and enlarges is in ranges_edges.c. */
#ifndef RIG_RANGES_EDGES_H
#define RIG_RANGES_EDGES_H

#include "base/ranges_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_UNITS (1u << RIG_CHUNK_LOG2)
#define CHUNK_WORDS (CHUNK_UNITS / 64)

/* The edges of a chunk, in one of two forms. count is 0 only between a reservation and its use.

   Few: room is the number of entries there is room for; entry[0..count) ascend: a unit's number in
   the chunk times two, plus one where a hole begins.

   Many: room is MANY; bit i of the words' `edge` is set iff unit i is an edge, of `hole` iff a hole
   begins there (so hole is a subset of edge); bit w of `used` is set iff word[w].edge is not 0.

   A chunk of few turns into one of many when it outgrows FEW_MOST entries, never back. */
struct rig_chunk {
    uint16_t count;
    uint16_t room;
    uint16_t entry[];
};

struct edge_word {
    uint64_t edge;
    uint64_t hole;
};

struct many {
    uint16_t count;
    uint16_t room;
    uint64_t used;
    struct edge_word word[CHUNK_WORDS];
};

#define MANY UINT16_MAX
#define FEW_MOST 26

static_assert(CHUNK_WORDS <= 64, "one word tells which words of a chunk are not 0");
static_assert(offsetof(struct many, room) == offsetof(struct rig_chunk, room), "both forms");

/* chunk_grow makes room for `more` edges in a chunk that has none. False: memory ran out, and
   nothing changed. */
bool chunk_grow(struct rig_edges *e, uint64_t chunk, uint32_t more);

static inline struct many *many(struct rig_chunk *c)
{
    return (struct many *)(void *)c;
}

static inline void many_add(struct many *c, uint32_t unit, bool hole)
{
    c->word[unit / 64].edge |= UINT64_C(1) << unit % 64;
    c->word[unit / 64].hole |= (uint64_t)hole << unit % 64;
    c->used |= UINT64_C(1) << unit / 64;
}

/* The number of entries of a chunk of few that are less than `entry`. No branch hangs on an entry:
   the processor could not foresee it. */
static inline uint32_t few_rank(const struct rig_chunk *c, uint32_t entry)
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
                             .hole = c->word[slot / 64].hole >> slot % 64 & 1,
                             .slot = slot};
}

/* The least edge of a chunk of many from `slot` on, if there is one. */
static inline bool many_next(const struct many *c, uint32_t slot, uint32_t *out)
{
    uint32_t w = slot / 64;
    if (slot >= CHUNK_UNITS)
        return false;
    uint64_t m = c->word[w].edge >> slot % 64;
    if (m) {
        *out = slot + (uint32_t)__builtin_ctzll(m);
        return true;
    }
    m = w == 63 ? 0 : c->used >> (w + 1);
    if (!m)
        return false;
    w += 1 + (uint32_t)__builtin_ctzll(m);
    *out = w * 64 + (uint32_t)__builtin_ctzll(c->word[w].edge);
    return true;
}

/* The greatest edge of a chunk of many below `slot`, if there is one. */
static inline bool many_previous(const struct many *c, uint32_t slot, uint32_t *out)
{
    uint32_t w = slot / 64;
    uint64_t m = slot % 64 ? c->word[w].edge << (64 - slot % 64) : 0;
    if (m) {
        *out = slot - 1 - (uint32_t)__builtin_clzll(m);
        return true;
    }
    m = w ? c->used << (64 - w) : 0;
    if (!m)
        return false;
    w -= 1 + (uint32_t)__builtin_clzll(m);
    *out = w * 64 + 63 - (uint32_t)__builtin_clzll(c->word[w].edge);
    return true;
}

/* edges_before is the last edge of the chunks before `chunk`; edges_from the first edge of the
   chunks from `chunk` on, or the end. */
struct rig_edge edges_before(const struct rig_edges *e, uint64_t chunk);
struct rig_edge edges_from(const struct rig_edges *e, uint64_t chunk);

/* Whether unit `at` is an edge, and which. */
static inline bool edges_find(const struct rig_edges *e, uint64_t at, struct rig_edge *out)
{
    struct rig_chunk *c = e->chunk[at >> RIG_CHUNK_LOG2];
    uint32_t unit = at % CHUNK_UNITS;
    if (!c)
        return false;
    if (c->room == MANY) {
        *out = many_edge(many(c), at >> RIG_CHUNK_LOG2, unit);
        return many(c)->word[unit / 64].edge >> unit % 64 & 1;
    }
    uint32_t slot = few_rank(c, unit * 2);
    if (slot == c->count || c->entry[slot] >> 1 != unit)
        return false;
    *out = few_edge(c, at >> RIG_CHUNK_LOG2, slot);
    return true;
}

/* rig_edges_next is the edge after `edge`, the end included. */
static inline struct rig_edge rig_edges_next(const struct rig_edges *e, const struct rig_edge *edge)
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
    return edges_from(e, chunk + 1);
}

/* rig_edges_previous is the edge before one that is not at unit 0. */
static inline struct rig_edge rig_edges_previous(const struct rig_edges *e,
                                                 const struct rig_edge *edge)
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
    return edges_before(e, chunk);
}

/* A block and what lies about it. */
struct rig_block {
    struct rig_edge before; /* the edge before it; the same as `edge` where that is unit 0 */
    struct rig_edge edge;   /* where it begins */
    struct rig_edge next;   /* where it ends */
    uint64_t end; /* where the hole ends that begins at `next`, if one does; else next.at */
};

/* rig_edges_block is true, and *out the block, iff one begins at unit `at`. */
static inline bool rig_edges_block(const struct rig_edges *e, uint64_t at, struct rig_block *out)
{
    if (!edges_find(e, at, &out->edge) || out->edge.hole)
        return false;
    out->next = rig_edges_next(e, &out->edge);
    out->end = out->next.hole ? rig_edges_next(e, &out->next).at : out->next.at;
    out->before = at ? rig_edges_previous(e, &out->edge) : out->edge;
    return true;
}

/* chunk_reserve makes room for `more` edges in a chunk. False: memory ran out; nothing changed. */
static inline bool chunk_reserve(struct rig_edges *e, uint64_t chunk, uint32_t more)
{
    const struct rig_chunk *c = e->chunk[chunk];
    return (c && (c->room == MANY || c->count + more <= c->room)) || chunk_grow(e, chunk, more);
}

/* rig_edges_reserve makes room for one more edge at unit a and, unless b is the end, one at unit b.
   False: memory ran out, and no edge changed. */
static inline bool rig_edges_reserve(struct rig_edges *e, uint64_t a, uint64_t b)
{
    uint64_t first = a >> RIG_CHUNK_LOG2, second = b >> RIG_CHUNK_LOG2;
    if (b == e->units || first == second)
        return chunk_reserve(e, first, b == e->units ? 1 : 2);
    if (!chunk_reserve(e, first, 1))
        return false;
    if (chunk_reserve(e, second, 1))
        return true;
    if (e->chunk[first]->count == 0) {
        free(e->chunk[first]);
        e->chunk[first] = NULL;
    }
    return false;
}

/* rig_edges_add adds an edge at a unit that is none, for which room is reserved. */
static inline void rig_edges_add(struct rig_edges *e, uint64_t at, bool hole)
{
    struct rig_chunk *c = e->chunk[at >> RIG_CHUNK_LOG2];
    uint32_t unit = at % CHUNK_UNITS;
    if (c->count == 0)
        rig_bits_set(&e->used, at >> RIG_CHUNK_LOG2);
    if (c->room == MANY) {
        many_add(many(c), unit, hole);
    } else {
        uint32_t slot = c->count;
        for (; slot && c->entry[slot - 1] >> 1 > unit; slot--)
            c->entry[slot] = c->entry[slot - 1];
        c->entry[slot] = (uint16_t)(unit * 2 + hole);
    }
    c->count++;
}

/* rig_edges_take turns the edge at unit `at`, of a hole, into one of a block; rig_edges_give the
   edge of a block into one of a hole. */
static inline void rig_edges_take(struct rig_edges *e, uint64_t at)
{
    struct rig_chunk *c = e->chunk[at >> RIG_CHUNK_LOG2];
    uint32_t unit = at % CHUNK_UNITS;
    if (c->room == MANY)
        many(c)->word[unit / 64].hole &= ~(UINT64_C(1) << unit % 64);
    else
        c->entry[few_rank(c, unit * 2)] &= (uint16_t)~1U;
}

static inline void rig_edges_give(struct rig_edges *e, const struct rig_edge *edge)
{
    struct rig_chunk *c = e->chunk[edge->at >> RIG_CHUNK_LOG2];
    if (c->room == MANY)
        many(c)->word[edge->slot / 64].hole |= UINT64_C(1) << edge->slot % 64;
    else
        c->entry[edge->slot] |= 1;
}

/* rig_edges_remove removes the edge. Places of later edges of its chunk change. */
static inline void rig_edges_remove(struct rig_edges *e, const struct rig_edge *edge)
{
    uint64_t chunk = edge->at >> RIG_CHUNK_LOG2;
    struct rig_chunk *c = e->chunk[chunk];
    uint32_t slot = edge->slot;
    if (--c->count == 0) {
        rig_bits_clear(&e->used, chunk);
        free(c);
        e->chunk[chunk] = NULL;
    } else if (c->room == MANY) {
        struct edge_word *w = &many(c)->word[slot / 64];
        w->hole &= ~(UINT64_C(1) << slot % 64);
        w->edge &= ~(UINT64_C(1) << slot % 64);
        if (!w->edge)
            many(c)->used &= ~(UINT64_C(1) << slot / 64);
    } else {
        memmove(&c->entry[slot], &c->entry[slot + 1], (c->count - slot) * sizeof c->entry[0]);
    }
}

#endif
