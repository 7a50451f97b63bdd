/* The shadow of a page table. */
#include "gpu/page_shadow.h"

#include <stdlib.h>
#include <string.h>

/* ---------- places of tables */

#define SMALL_BYTES 256
#define SMALL_SLOTS (RIG_TABLE_PAGE / SMALL_BYTES)
#define SMALL_FULL ((1u << SMALL_SLOTS) - 1)

static void small_insert(struct rig_page_table *t, struct small_page *page)
{
    struct small_page *before = NULL, *after = t->small;
    while (after && after->offset < page->offset) {
        before = after;
        after = after->next;
    }
    page->previous = before;
    page->next = after;
    if (after)
        after->previous = page;
    if (before)
        before->next = page;
    else
        t->small = page;
}

static void small_remove(struct rig_page_table *t, struct small_page *page)
{
    if (page->next)
        page->next->previous = page->previous;
    if (page->previous)
        page->previous->next = page->next;
    else
        t->small = page->next;
}

bool rig_page_table_shares(const struct rig_page_table *t, uint64_t offset)
{
    const struct small_page *p = t->small;
    while (p && p->offset != offset)
        p = p->next;
    return p != NULL;
}

/* The page at `offset` that has a free slot, made if there is none. NULL: memory ran out. */
static struct small_page *small_at(struct rig_page_table *t, uint64_t offset)
{
    for (struct small_page *p = t->small; p; p = p->next)
        if (p->offset == offset)
            return p;
    struct small_page *page = calloc(1, sizeof *page);
    if (!page)
        return NULL;
    page->offset = offset;
    small_insert(t, page);
    return page;
}

static void small_use(struct rig_page_table *t, struct small_page *page, unsigned slot)
{
    page->used |= 1u << slot;
    if (page->used == SMALL_FULL)
        small_remove(t, page);
}

static enum rig_status small_take(struct rig_page_table *t, struct page_node *node,
                                  struct rig_error *err)
{
    struct small_page *page = t->small;
    if (!page) {
        page = calloc(1, sizeof *page);
        if (!page)
            return rig_fail_memory(err);
        enum rig_status status = t->ops->take(t->gpu, &page->offset, err);
        if (status != RIG_OK) {
            free(page);
            return status;
        }
        small_insert(t, page);
    }
    unsigned slot = (unsigned)__builtin_ctz(~page->used);
    small_use(t, page, slot);
    node->small = page;
    node->offset = page->offset + slot * SMALL_BYTES;
    return RIG_OK;
}

static enum rig_status small_take_at(struct rig_page_table *t, struct page_node *node,
                                     uint64_t offset, struct rig_error *err)
{
    struct small_page *page = small_at(t, offset & ~(uint64_t)(RIG_TABLE_PAGE - 1));
    if (!page)
        return rig_fail_memory(err);
    unsigned slot = (unsigned)(offset % RIG_TABLE_PAGE / SMALL_BYTES);
    if (page->used >> slot & 1)
        return rig_fail(err, RIG_BAD_INPUT, t->f->name, "two tables lie at offset 0x%llx",
                        (unsigned long long)offset);
    small_use(t, page, slot);
    node->small = page;
    node->offset = offset;
    return RIG_OK;
}

static void small_give(struct rig_page_table *t, struct page_node *node)
{
    struct small_page *page = node->small;
    unsigned slot = (unsigned)((node->offset - page->offset) / SMALL_BYTES);
    if (page->used == SMALL_FULL)
        small_insert(t, page);
    page->used &= ~(1u << slot);
    if (page->used == 0) {
        small_remove(t, page);
        t->ops->give(t->gpu, page->offset);
        free(page);
    }
}

/* ---------- nodes */

bool shadow_more_nodes(struct rig_page_table *t)
{
    struct node_chunk *chunk = aligned_alloc(_Alignof(struct node_chunk), sizeof *chunk);
    if (!chunk)
        return false;
    chunk->next = t->chunk;
    chunk->used = 0;
    t->chunk = chunk;
    return true;
}

bool shadow_children(const struct rig_page_table *t, struct page_node *node)
{
    size_t slots = (size_t)shadow_entries(t, node->level) * t->halves[node->level];
    node->child = calloc(slots, sizeof(struct page_node *));
    return node->child != NULL;
}

void shadow_node_spare(struct rig_page_table *t, struct page_node *node)
{
    shadow_keys_give(t, node);
    free(node->child);
    node->child = NULL;
    node->small = NULL;
    node->next = t->spare;
    t->spare = node;
}

enum rig_status shadow_place(struct rig_page_table *t, struct page_node *node,
                             const uint64_t *offset, struct rig_error *err)
{
    bool small = t->f->level[node->level].table_bytes < RIG_TABLE_PAGE;
    if (offset && small)
        return small_take_at(t, node, *offset, err);
    if (small)
        return small_take(t, node, err);
    node->offset = *offset;
    return RIG_OK;
}

void shadow_node_give(struct rig_page_table *t, struct page_node *node)
{
    node->parent->child[node->slot] = NULL;
    if (node->small)
        small_give(t, node);
    else
        t->ops->give(t->gpu, node->offset);
    shadow_node_spare(t, node);
}

/* The small pages that are in no list are those that are full: the last of a page's tables to be
   found frees it. */
static void drop_small(struct rig_page_table *t, struct page_node *node)
{
    struct small_page *page = node->small;
    unsigned slot = (unsigned)((node->offset - page->offset) / SMALL_BYTES);
    if (page->used == SMALL_FULL)
        small_insert(t, page);
    page->used &= ~(1u << slot);
    if (page->used == 0) {
        small_remove(t, page);
        free(page);
    }
}

static void drop_node(struct rig_page_table *t, struct page_node *node)
{
    size_t slots = (size_t)shadow_entries(t, node->level) * t->halves[node->level];
    for (size_t i = 0; node->child && i < slots; i++)
        if (node->child[i])
            drop_node(t, node->child[i]);
    if (node->small)
        drop_small(t, node);
    if (shadow_entries(t, node->level) != KEYS_A_TABLE)
        free(node->keys);
    free(node->child);
}

void shadow_drop(struct rig_page_table *t)
{
    if (t->root)
        drop_node(t, t->root);
    for (struct node_chunk *chunk = t->chunk, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    for (struct key_chunk *chunk = t->key_chunk, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    free(t);
}
