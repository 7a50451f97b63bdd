#include "topology/strings.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Texts lie one after another in chunks, which never move; `table` is an open-addressing hash of
   pointers to them, at most half full. */
struct chunk {
    struct chunk *next;
    size_t used, size;
    char text[];
};

struct string_pool {
    atomic_int holders;
    struct string_pool *behind;
    struct chunk *chunk;
    const char **table;
    size_t slots, texts;
};

#define CHUNK_BYTES 16384u

struct string_pool *string_pool_new(struct string_pool *behind)
{
    struct string_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    atomic_init(&pool->holders, 1);
    pool->behind = behind;
    if (behind)
        atomic_fetch_add(&behind->holders, 1);
    return pool;
}

void string_pool_drop(struct string_pool *pool)
{
    while (pool && atomic_fetch_sub(&pool->holders, 1) == 1) {
        struct string_pool *behind = pool->behind;
        while (pool->chunk) {
            struct chunk *next = pool->chunk->next;
            free(pool->chunk);
            pool->chunk = next;
        }
        free(pool->table);
        free(pool);
        pool = behind;
    }
}

/* FNV-1a. */
static size_t hash_of(const char *text, size_t bytes)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
    return (size_t)(h ^ h >> 32);
}

static const char **slot_for(const char **table, size_t slots, const char *text, size_t bytes)
{
    size_t i = hash_of(text, bytes) & (slots - 1);
    while (table[i] && (strncmp(table[i], text, bytes) != 0 || table[i][bytes] != '\0'))
        i = (i + 1) & (slots - 1);
    return &table[i];
}

static int grow_table(struct string_pool *pool)
{
    size_t slots = pool->slots ? pool->slots * 2 : 64;
    const char **table = calloc(slots, sizeof *table);
    if (!table)
        return -1;
    for (size_t i = 0; i < pool->slots; i++)
        if (pool->table[i])
            *slot_for(table, slots, pool->table[i], strlen(pool->table[i])) = pool->table[i];
    free(pool->table);
    pool->table = table;
    pool->slots = slots;
    return 0;
}

static char *take_room(struct string_pool *pool, size_t bytes)
{
    struct chunk *c = pool->chunk;
    if (!c || c->size - c->used < bytes) {
        size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        c = malloc(sizeof *c + size);
        if (!c)
            return NULL;
        *c = (struct chunk){.next = pool->chunk, .size = size};
        pool->chunk = c;
    }
    char *room = c->text + c->used;
    c->used += bytes;
    return room;
}

const char *string_pool_add(struct string_pool *pool, const char *text, size_t bytes)
{
    bytes = strnlen(text, bytes);
    if (2 * (pool->texts + 1) > pool->slots && grow_table(pool) != 0)
        return NULL;
    const char **slot = slot_for(pool->table, pool->slots, text, bytes);
    if (*slot)
        return *slot;
    char *kept = take_room(pool, bytes + 1);
    if (!kept)
        return NULL;
    memcpy(kept, text, bytes);
    kept[bytes] = '\0';
    *slot = kept;
    pool->texts++;
    return kept;
}
