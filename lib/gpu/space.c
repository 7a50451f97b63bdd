#include "gpu/space.h"

#include <pthread.h>
#include <stdlib.h>

#define SPACE_UNIT 4096u

/* A block that somebody holds; holders is never 0. */
struct block {
    struct block *next; /* of the same slot */
    uint64_t address, bytes;
    unsigned holders;
};

/* `slot` is a hash table of the blocks by address, chained, of a power of two slots, at least as
   many as there are blocks when it last grew. Guarded by lock: everything but the constant facts.
 */
struct rig_space {
    const char *name;
    uint64_t base, bytes;
    pthread_mutex_t lock;
    struct rig_ranges *ranges;
    struct block **slot;
    size_t slots, blocks;
};

static size_t slot_of(const struct rig_space *s, uint64_t address)
{
    /* Addresses are multiples of a page and often of a large power of two: the product's upper bits
       hang on all of them. */
    return (size_t)(((address / SPACE_UNIT) * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (s->slots - 1);
}

enum rig_status space_make(struct rig_machine *m, const char *name, uint64_t base, uint64_t bytes,
                           bool reserve, struct rig_space **out_space, struct rig_error *err)
{
    struct rig_space *s = calloc(1, sizeof *s);
    if (!s)
        return rig_fail_memory(err);
    s->name = name;
    s->base = base;
    s->bytes = bytes;
    s->slots = 64;
    s->slot = calloc(s->slots, sizeof(struct block *));
    enum rig_status status = s->slot ? RIG_OK : rig_fail_memory(err);
    if (status == RIG_OK)
        status = rig_ranges_make(base, bytes, SPACE_UNIT, &s->ranges, err);
    if (status == RIG_OK && reserve)
        status = machine_reserve(m, base, bytes, err);
    if (status != RIG_OK) {
        rig_ranges_drop(s->ranges);
        free(s->slot);
        free(s);
        return status;
    }
    pthread_mutex_init(&s->lock, NULL);
    *out_space = s;
    return RIG_OK;
}

void space_drop(struct rig_space *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->slots; i++)
        while (s->slot[i]) {
            struct block *b = s->slot[i];
            s->slot[i] = b->next;
            free(b);
        }
    rig_ranges_drop(s->ranges);
    pthread_mutex_destroy(&s->lock);
    free(s->slot);
    free(s);
}

const char *space_name(const struct rig_space *s)
{
    return s->name;
}

uint64_t space_base(const struct rig_space *s)
{
    return s->base;
}

uint64_t space_bytes(const struct rig_space *s)
{
    return s->bytes;
}

/* Where the block at address hangs, or the end of its chain. */
static struct block **find(struct rig_space *s, uint64_t address)
{
    struct block **link = &s->slot[slot_of(s, address)];
    while (*link && (*link)->address != address)
        link = &(*link)->next;
    return link;
}

/* More slots, where there are fewer than blocks; chains grow longer where there is no memory. */
static void grow(struct rig_space *s)
{
    if (s->blocks < s->slots)
        return;
    struct block **old = s->slot;
    size_t count = s->slots;
    struct block **slot = calloc(count * 2, sizeof(struct block *));
    if (!slot)
        return;
    s->slot = slot;
    s->slots = count * 2;
    for (size_t i = 0; i < count; i++)
        while (old[i]) {
            struct block *b = old[i];
            old[i] = b->next;
            struct block **link = &s->slot[slot_of(s, b->address)];
            b->next = *link;
            *link = b;
        }
    free(old);
}

static void enter(struct rig_space *s, struct block *take_block)
{
    grow(s);
    struct block **link = find(s, take_block->address);
    take_block->holders = 1;
    take_block->next = NULL;
    *link = take_block;
    s->blocks++;
}

enum rig_status space_take(struct rig_space *s, uint64_t bytes, uint64_t *out_address,
                           struct rig_error *err)
{
    struct block *b = calloc(1, sizeof *b);
    if (!b)
        return rig_fail_memory(err);
    struct rig_ranges_want want = {
        .bytes = bytes,
        .align = UINT64_C(1) << (63 - __builtin_clzll(bytes)),
    };
    b->bytes = bytes;
    pthread_mutex_lock(&s->lock);
    enum rig_status status = rig_ranges_take(s->ranges, &want, &b->address, err);
    if (status == RIG_OK) {
        *out_address = b->address;
        enter(s, b);
    }
    pthread_mutex_unlock(&s->lock);
    if (status != RIG_OK)
        free(b);
    return status;
}

void space_hold(struct rig_space *s, uint64_t address)
{
    pthread_mutex_lock(&s->lock);
    (*find(s, address))->holders++;
    pthread_mutex_unlock(&s->lock);
}

/* A block of at least 2^n bytes, and less than twice that, begins at a multiple of 2^n. */
bool space_hold_at(struct rig_space *s, uint64_t address, struct rig_range *out_block)
{
    struct block *b = NULL;
    pthread_mutex_lock(&s->lock);
    for (unsigned n = 12; !b && n < 47; n++)
        for (uint64_t back = 0; !b && back < 2; back++) {
            uint64_t start = ((address >> n) - back) << n;
            struct block *there = address >> n < back ? NULL : *find(s, start);
            if (there && address - start < there->bytes)
                b = there;
        }
    if (b) {
        b->holders++;
        *out_block = (struct rig_range){.address = b->address, .bytes = b->bytes};
    }
    pthread_mutex_unlock(&s->lock);
    return b != NULL;
}

void space_let_go(struct rig_space *s, uint64_t address)
{
    pthread_mutex_lock(&s->lock);
    struct block **link = find(s, address);
    struct block *b = *link;
    if (--b->holders == 0) {
        *link = b->next;
        s->blocks--;
        rig_ranges_give(s->ranges, b->address, b->bytes, NULL);
    } else {
        b = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    free(b);
}

enum rig_status space_restore(struct rig_space *s, uint64_t address, uint64_t bytes,
                              struct rig_error *err)
{
    struct block *b = *find(s, address);
    if (b && b->bytes == bytes) {
        b->holders++;
        return RIG_OK;
    }
    b = calloc(1, sizeof *b);
    if (!b)
        return rig_fail_memory(err);
    enum rig_status status = rig_ranges_take_at(s->ranges, address, bytes, NULL);
    if (status != RIG_OK) {
        free(b);
        if (status == RIG_FAILED)
            return rig_fail_memory(err);
        return rig_fail(err, RIG_BAD_INPUT, s->name, "addresses 0x%llx+0x%llx overlap others",
                        (unsigned long long)address, (unsigned long long)bytes);
    }
    b->address = address;
    b->bytes = bytes;
    enter(s, b);
    return RIG_OK;
}

uint64_t space_free_bytes(struct rig_space *s)
{
    pthread_mutex_lock(&s->lock);
    uint64_t bytes = rig_ranges_free_bytes(s->ranges);
    pthread_mutex_unlock(&s->lock);
    return bytes;
}

uint64_t space_blocks(struct rig_space *s)
{
    pthread_mutex_lock(&s->lock);
    size_t blocks = s->blocks;
    pthread_mutex_unlock(&s->lock);
    return blocks;
}
