/* The edges of the range allocator: what few requests do. */
#include "base/ranges_edges.h"

#include <sys/mman.h>

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

static uint64_t chunks_of(const struct rig_edges *e)
{
    return (e->units + CHUNK_UNITS - 1) / CHUNK_UNITS;
}

/* A large table comes from the system, whose zeros take no memory until they are written to: calloc
   clears, and so takes, all of it where it has the room at hand. */
#define SYSTEM_BYTES ((uint64_t)1 << 20)

static struct rig_chunk **table_take(uint64_t chunks, rig_ranges_source *source)
{
    const size_t each = sizeof(struct rig_chunk *);
    if (chunks * each < SYSTEM_BYTES)
        return source(chunks, each);
    struct rig_chunk **table = mmap(NULL, chunks * each, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED)
        return NULL;
    return table; /* cppcheck-suppress memleak */
}

static void table_give(struct rig_chunk **table, uint64_t chunks)
{
    if (table && chunks * sizeof *table >= SYSTEM_BYTES)
        munmap(table, chunks * sizeof *table);
    else
        free(table);
}

bool rig_edges_make(struct rig_edges *e, uint64_t units, rig_ranges_source *source)
{
    *e = (struct rig_edges){.units = units, .source = source};
    if (!rig_bits_make(&e->used, chunks_of(e), source))
        return false;
    e->chunk = table_take(chunks_of(e), source);
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
    table_give(e->chunk, chunks_of(e));
    free(e->used.level[0]);
}

struct rig_edge edges_before(const struct rig_edges *e, uint64_t chunk)
{
    uint64_t i = rig_bits_previous(&e->used, chunk);
    struct rig_chunk *c = e->chunk[i];
    if (c->room != MANY)
        return few_edge(c, i, c->count - 1u);
    uint32_t w = 63 - (uint32_t)__builtin_clzll(many(c)->used);
    return many_edge(many(c), i, w * 64 + 63 - (uint32_t)__builtin_clzll(many(c)->word[w].edge));
}

struct rig_edge edges_from(const struct rig_edges *e, uint64_t chunk)
{
    uint64_t i = rig_bits_next(&e->used, chunk);
    if (i == RIG_NONE)
        return (struct rig_edge){.at = e->units};
    struct rig_chunk *c = e->chunk[i];
    if (c->room != MANY)
        return few_edge(c, i, 0);
    uint32_t w = (uint32_t)__builtin_ctzll(many(c)->used);
    return many_edge(many(c), i, w * 64 + (uint32_t)__builtin_ctzll(many(c)->word[w].edge));
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
        slot = few_rank(c, unit * 2 + 2);
        if (slot)
            return few_edge(c, chunk, slot - 1);
    }
    return edges_before(e, chunk);
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
    for (uint32_t i = 0; room == MANY && i < c->count; i++)
        many_add(many(c), from->entry[i] >> 1, from->entry[i] & 1);
    return c;
}

bool chunk_grow(struct rig_edges *e, uint64_t chunk, uint32_t more)
{
    struct rig_chunk *c = e->chunk[chunk];
    struct rig_chunk *grown = larger(c, c ? c->count + more : more, e->source);
    if (!grown)
        return false;
    free(c);
    e->chunk[chunk] = grown;
    return true;
}
