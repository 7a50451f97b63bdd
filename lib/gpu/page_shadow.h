/* The shadow of a page table: its tables, and what each entry maps, in the process's memory. Only
   the page table's files include this.

   A node is a table. What its leaves map is kept as keys: a key is the physical address (a multiple
   of 4 KiB) and, in the low bits, the rest of the target. Two shapes:
   - `keys` is NULL: `run[0 .. runs - 1]`, in order of index, no two overlapping or able to be one.
     Entry first + k of a run has the run's key plus k pages. A contiguous mapping is one run a
   table.
   - `keys` is an array of one key an entry, 0 where nothing is mapped; runs is 0. A node takes this
     shape when it has more runs than fit, and leaves it when its last leaf goes.
   `leaves` counts mapped entries, `children` the child tables but for those about to go. */
#ifndef RIG_GPU_PAGE_SHADOW_H
#define RIG_GPU_PAGE_SHADOW_H

#include "gpu/page_table.h"

#define KEY_MAPPED UINT64_C(0x1)
#define KEY_UNCERTAIN UINT64_C(0x2)
#define KEY_ADDRESS (~UINT64_C(0xfff))

#define NODE_RUNS 3

struct page_run {
    uint64_t key;
    uint16_t first, count;
};

/* Whether the entry above points at a table. */
enum page_link {
    LINK_NO,
    LINK_UNSURE, /* a write of that entry failed */
    LINK_YES,
};

/* What most requests touch is in the first line of the cache. */
struct page_node {
    _Alignas(64) uint64_t offset; /* of the table in GPU memory */
    uint64_t *keys;
    struct page_node **child; /* NULL, or one an entry, or two (halves) an entry; NULL where none */
    struct page_node *parent;
    uint16_t leaves, children;
    uint16_t slot; /* in the parent's child array */
    uint8_t level, runs;
    uint8_t link;  /* enum page_link */
    bool complete; /* the table's words in GPU memory are what the shadow says */
    bool kept;     /* it goes back with the page table alone */
    struct page_run run[NODE_RUNS];
    struct page_node *next;
    struct small_page *small; /* the page a table smaller than a page lies in */
};

/* A page of tables that are smaller than a page; bit i of `used`: slot i is a table. Pages with a
   free slot are in a list by offset, so that the next table's place hangs on what is free alone. */
struct small_page {
    uint64_t offset;
    uint32_t used;
    struct small_page *next, *previous;
};

/* Arrays of keys of the tables that have KEYS_A_TABLE entries, which are nearly all, come from
   chunks that grow with what there is; smaller tables have theirs from malloc. An array not in use
   holds the next one's address in its first word. */
#define KEYS_A_TABLE 512
#define CHUNK_FIRST 8
#define CHUNK_MOST 512

struct key_array {
    _Alignas(64) uint64_t key[KEYS_A_TABLE];
};

struct key_chunk {
    struct key_chunk *next;
    size_t arrays, used; /* those from `used` on were never taken */
    struct key_array array[];
};

#define NODES_A_CHUNK 32

struct node_chunk {
    struct node_chunk *next;
    unsigned used; /* nodes from `used` on were never taken */
    struct page_node node[NODES_A_CHUNK];
};

struct rig_page_table {
    const struct rig_format *f;
    const struct rig_page_table_ops *ops;
    void *gpu;
    uint64_t own_base;
    struct page_node *root;
    struct node_chunk *chunk;    /* the newest first: the others are used up */
    struct key_chunk *key_chunk; /* the newest first */
    uint64_t *spare_keys;
    struct page_node *spare;          /* nodes not in use, by `next` */
    struct small_page *small;         /* pages with a free slot */
    uint64_t pointer[RIG_LEVELS_MAX]; /* what points at a table of a level at address 0 */
    uint8_t below[RIG_LEVELS_MAX][2]; /* a level's child levels, by half */
    uint8_t halves[RIG_LEVELS_MAX];   /* how many: 0 at the lowest */
    uint64_t image[RIG_LEVELS_MAX]
                  [RIG_TABLE_PAGE / 8]; /* where words are made that `write` takes */
};

/* Nodes and their tables' pages. */

/* shadow_node_give takes a node without leaves and children off its parent and gives its place
   back. It does not count it off its parent's children. */
void shadow_node_give(struct rig_page_table *t, struct page_node *node);

/* shadow_drop frees all of t. */
void shadow_drop(struct rig_page_table *t);

/* What entries map. Indexes and counts lie within the table. */

/* shadow_set records that entries [i, i + n), none of which is mapped, map key and on by `page`.
   False: memory ran out, nothing changed. */
bool shadow_set(struct rig_page_table *t, struct page_node *node, unsigned i, unsigned n,
                uint64_t key);

/* shadow_singles makes node have a key an entry, of which the caller sets all of [i, i + n), none
   of which is mapped, and counts them. False: memory ran out, nothing changed. */
bool shadow_singles(struct rig_page_table *t, struct page_node *node, unsigned i, unsigned n);

/* shadow_splits makes sure that entries can be cleared or doubted without more memory. False:
   memory ran out. */
bool shadow_splits(struct rig_page_table *t, struct page_node *node);

/* shadow_clear records that entries [i, i + n) map nothing. shadow_splits came before. */
void shadow_clear(struct rig_page_table *t, struct page_node *node, unsigned i, unsigned n);

/* shadow_doubt marks those of [i, i + n) that are mapped uncertain; where it would need memory and
   there is none, more than those. */
void shadow_doubt(struct rig_page_table *t, struct page_node *node, unsigned i, unsigned n);

/* shadow_keys_give takes node's keys from it. */
void shadow_keys_give(struct rig_page_table *t, struct page_node *node);

/* shadow_find is the key of entry i, 0 for none, and in *out_end the index up to which the
   following entries go on: by pages of the same target, or unmapped, child tables not looked at. */
uint64_t shadow_find(const struct rig_page_table *t, const struct page_node *node, unsigned i,
                     unsigned *out_end);

/* shadow_child is the table that half `half` of entry i points at, or NULL. */
static inline struct page_node *shadow_child(const struct rig_page_table *t,
                                             const struct page_node *node, unsigned i,
                                             unsigned half)
{
    return node->child ? node->child[i * t->halves[node->level] + half] : NULL;
}

/* shadow_ahead brings the table of an entry a few after entry i near: what a loop over the children
   of a large node waits for else, since its stores push them out of the cache. */
static inline void shadow_ahead(const struct rig_page_table *t, const struct page_node *node,
                                unsigned i)
{
    unsigned slot = (i + 4) * t->halves[node->level] + t->halves[node->level] - 1;
    if (i + 4 < 1u << t->f->level[node->level].index_bits)
        __builtin_prefetch(node->child[slot], 1);
}

/* The parts of shadow_node_new that few nodes need. False: memory ran out. */
bool shadow_more_nodes(struct rig_page_table *t);
bool shadow_children(const struct rig_page_table *t, struct page_node *node);
/* shadow_place gives node's table a place at *offset, or, of less than a page, anywhere (NULL). */
enum rig_status shadow_place(struct rig_page_table *t, struct page_node *node,
                             const uint64_t *offset, struct rig_error *err);
/* shadow_node_spare lets go of a node that has no place and is nobody's child. */
void shadow_node_spare(struct rig_page_table *t, struct page_node *node);

/* shadow_node_new makes *out_node the node of a table of level `level` in slot `slot` of parent
   (NULL: the root), at a place of its own if offset is NULL, else at *offset. RIG_NO_ROOM and
   RIG_FAILED are the take's; RIG_FAILED also: memory, and nothing was taken. */
static inline enum rig_status shadow_node_new(struct rig_page_table *t, unsigned level,
                                              struct page_node *parent, unsigned slot,
                                              const uint64_t *offset, struct page_node **out_node,
                                              struct rig_error *err)
{
    struct page_node *node = t->spare;
    if ((parent && !parent->child && !shadow_children(t, parent)) ||
        (!node && (!t->chunk || t->chunk->used == NODES_A_CHUNK) && !shadow_more_nodes(t)))
        return rig_fail_memory(err);
    if (node)
        t->spare = node->next;
    else
        node = &t->chunk->node[t->chunk->used++];
    node->keys = NULL;
    node->child = NULL;
    node->small = NULL;
    node->parent = parent;
    node->leaves = node->children = 0;
    node->slot = (uint16_t)slot;
    node->level = (uint8_t)level;
    node->runs = 0;
    node->link = LINK_NO;
    node->complete = node->kept = false;
    enum rig_status status = !offset && t->f->level[level].table_bytes >= RIG_TABLE_PAGE
                                 ? t->ops->take(t->gpu, &node->offset, err)
                                 : shadow_place(t, node, offset, err);
    if (status != RIG_OK) {
        shadow_node_spare(t, node);
        return status;
    }
    if (parent) {
        parent->child[slot] = node;
        parent->children++;
    }
    *out_node = node;
    return RIG_OK;
}

/* shadow_index is the index of the entry for `address` in a table of level `level`. */
static inline unsigned shadow_index(const struct rig_page_table *t, unsigned level,
                                    uint64_t address)
{
    const struct rig_level *l = &t->f->level[level];
    return (unsigned)(address >> l->shift) & ((1u << l->index_bits) - 1);
}

static inline unsigned shadow_entries(const struct rig_page_table *t, unsigned level)
{
    return 1u << t->f->level[level].index_bits;
}

static inline uint64_t shadow_page(const struct rig_page_table *t, unsigned level)
{
    return UINT64_C(1) << t->f->level[level].shift;
}

/* shadow_key is the key of the target's memory at `physical`; shadow_target is its target. */
static inline uint64_t shadow_key(struct rig_target target, uint64_t physical)
{
    return physical | KEY_MAPPED | (uint64_t)target.memory << 2 | (uint64_t)target.uncached << 4 |
           (uint64_t)target.snooped << 5 | (uint64_t)(target.peer & 63) << 6;
}

static inline struct rig_target shadow_target(uint64_t key)
{
    return (struct rig_target){.memory = (enum rig_memory_kind)(key >> 2 & 3),
                               .uncached = key >> 4 & 1,
                               .snooped = key >> 5 & 1,
                               .peer = key >> 6 & 63};
}

#endif
