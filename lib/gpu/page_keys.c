/* What the entries of a table map, in the shadow: as a few runs, or as a key an entry. */
#include "gpu/page_shadow.h"

#include <stdlib.h>
#include <string.h>

static uint64_t run_end_key(const struct page_run *run, uint64_t page)
{
    return run->key + run->count * page;
}

/* The first run that ends after entry i. */
static unsigned run_from(const struct page_node *node, unsigned i)
{
    unsigned r = 0;
    while (r < node->runs && (unsigned)node->run[r].first + node->run[r].count <= i)
        r++;
    return r;
}

static void keys_fill(uint64_t *keys, unsigned n, uint64_t key, uint64_t page)
{
    for (unsigned k = 0; k < n; k++)
        keys[k] = key + k * page;
}

static uint64_t *keys_take(struct rig_page_table *t)
{
    uint64_t *keys = t->spare_keys;
    if (keys) {
        memcpy(&t->spare_keys, keys, sizeof t->spare_keys);
        return keys;
    }
    struct key_chunk *chunk = t->key_chunk;
    if (!chunk || chunk->used == chunk->arrays) {
        size_t arrays = chunk ? chunk->arrays * 2 : CHUNK_FIRST;
        arrays = arrays < CHUNK_MOST ? arrays : CHUNK_MOST;
        chunk = aligned_alloc(_Alignof(struct key_chunk),
                              sizeof *chunk + arrays * sizeof(struct key_array));
        if (!chunk)
            return NULL;
        chunk->next = t->key_chunk;
        chunk->arrays = arrays;
        chunk->used = 0;
        t->key_chunk = chunk;
    }
    return chunk->array[chunk->used++].key;
}

void shadow_keys_give(struct rig_page_table *t, struct page_node *node)
{
    uint64_t *keys = node->keys;
    node->keys = NULL;
    if (keys && shadow_entries(t, node->level) == KEYS_A_TABLE) {
        memcpy(keys, &t->spare_keys, sizeof t->spare_keys);
        t->spare_keys = keys;
    } else {
        free(keys);
    }
}

/* A key an entry. Those of [i, i + n) are about to be set, and left as they are. */
static bool expand(struct rig_page_table *t, struct page_node *node, unsigned i, unsigned n)
{
    unsigned entries = shadow_entries(t, node->level);
    uint64_t *keys = entries == KEYS_A_TABLE ? keys_take(t) : malloc(entries * sizeof *keys);
    if (!keys)
        return false;
    memset(keys, 0, i * sizeof *keys);
    memset(keys + i + n, 0, (entries - i - n) * sizeof *keys);
    uint64_t page = shadow_page(t, node->level);
    for (unsigned r = 0; r < node->runs; r++)
        keys_fill(keys + node->run[r].first, node->run[r].count, node->run[r].key, page);
    node->keys = keys;
    node->runs = 0;
    return true;
}

static void run_insert(struct page_node *node, unsigned r, struct page_run run)
{
    memmove(&node->run[r + 1], &node->run[r], (node->runs - r) * sizeof run);
    node->run[r] = run;
    node->runs++;
}

static void run_remove(struct page_node *node, unsigned r)
{
    node->runs--;
    memmove(&node->run[r], &node->run[r + 1], (node->runs - r) * sizeof node->run[0]);
}

bool shadow_set(struct rig_page_table *t, struct page_node *node, unsigned i, unsigned n,
                uint64_t key)
{
    uint64_t page = shadow_page(t, node->level);
    if (!node->keys) {
        unsigned r = run_from(node, i);
        struct page_run *before = r > 0 ? &node->run[r - 1] : NULL;
        struct page_run *after = r < node->runs ? &node->run[r] : NULL;
        bool joins_before = before && (unsigned)before->first + before->count == i &&
                            run_end_key(before, page) == key;
        bool joins_after = after && i + n == after->first && key + n * page == after->key;
        if (joins_before) {
            before->count = (uint16_t)(before->count + n);
            if (joins_after) {
                before->count = (uint16_t)(before->count + after->count);
                run_remove(node, r);
            }
        } else if (joins_after) {
            *after = (struct page_run){key, (uint16_t)i, (uint16_t)(after->count + n)};
        } else if (node->runs < NODE_RUNS) {
            run_insert(node, r, (struct page_run){key, (uint16_t)i, (uint16_t)n});
        } else if (!expand(t, node, 0, 0)) {
            return false;
        }
    }
    if (node->keys)
        keys_fill(node->keys + i, n, key, page);
    node->leaves = (uint16_t)(node->leaves + n);
    return true;
}

bool shadow_singles(struct rig_page_table *t, struct page_node *node, unsigned i, unsigned n)
{
    return node->keys || expand(t, node, i, n);
}

bool shadow_splits(struct rig_page_table *t, struct page_node *node)
{
    return node->keys || node->runs < NODE_RUNS || expand(t, node, 0, 0);
}

static void clear_keys(struct rig_page_table *t, struct page_node *node, unsigned i, unsigned n)
{
    unsigned mapped = 0;
    for (unsigned k = i; k < i + n; k++) {
        mapped += node->keys[k] != 0;
        node->keys[k] = 0;
    }
    node->leaves = (uint16_t)(node->leaves - mapped);
    if (node->leaves == 0)
        shadow_keys_give(t, node);
}

/* Cuts [i, end) out of run r, which overlaps it; true iff a piece of the run stays before i, so
   that the next run is r + 1. At most one run is split in two, for which shadow_splits left room.
 */
static bool clear_run(struct page_node *node, unsigned r, unsigned i, unsigned end, uint64_t page)
{
    struct page_run run = node->run[r];
    unsigned run_end = (unsigned)run.first + run.count;
    unsigned from = run.first > i ? run.first : i, to = run_end < end ? run_end : end;
    bool head = from > run.first, tail = to < run_end;
    struct page_run rest = {run.key + (to - run.first) * page, (uint16_t)to,
                            (uint16_t)(run_end - to)};
    node->leaves = (uint16_t)(node->leaves - (to - from));
    if (head) {
        node->run[r].count = (uint16_t)(from - run.first);
        if (tail)
            run_insert(node, r + 1, rest);
    } else if (tail) {
        node->run[r] = rest;
    } else {
        run_remove(node, r);
    }
    return head;
}

void shadow_clear(struct rig_page_table *t, struct page_node *node, unsigned i, unsigned n)
{
    if (node->keys) {
        clear_keys(t, node, i, n);
        return;
    }
    unsigned end = i + n;
    for (unsigned r = run_from(node, i); r < node->runs && node->run[r].first < end;)
        r += clear_run(node, r, i, end, shadow_page(t, node->level));
}

void shadow_doubt(struct rig_page_table *t, struct page_node *node, unsigned i, unsigned n)
{
    if (node->leaves == 0)
        return;
    if (!node->keys && !expand(t, node, 0, 0)) {
        for (unsigned r = run_from(node, i); r < node->runs && node->run[r].first < i + n; r++)
            node->run[r].key |= KEY_UNCERTAIN;
        return;
    }
    for (unsigned k = i; k < i + n; k++)
        if (node->keys[k] != 0)
            node->keys[k] |= KEY_UNCERTAIN;
}

static uint64_t find_run(const struct page_node *node, unsigned i, unsigned entries, uint64_t page,
                         unsigned *out_end)
{
    unsigned r = run_from(node, i);
    if (r == node->runs) {
        *out_end = entries;
        return 0;
    }
    const struct page_run *run = &node->run[r];
    if (i < run->first) {
        *out_end = run->first;
        return 0;
    }
    *out_end = (unsigned)run->first + run->count;
    return run->key + (i - run->first) * page;
}

uint64_t shadow_find(const struct rig_page_table *t, const struct page_node *node, unsigned i,
                     unsigned *out_end)
{
    unsigned entries = shadow_entries(t, node->level), end = i + 1;
    uint64_t page = shadow_page(t, node->level);
    if (!node->keys)
        return find_run(node, i, entries, page, out_end);
    const uint64_t *keys = node->keys;
    if (keys[i] == 0)
        while (end < entries && keys[end] == 0)
            end++;
    else
        while (end < entries && keys[end] == keys[end - 1] + page)
            end++;
    *out_end = end;
    return keys[i];
}
