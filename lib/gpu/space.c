#include "gpu/space.h"

#include <pthread.h>
#include <stdlib.h>

#define SPACE_UNIT 4096u

/* A block that several hold; holders is 2 at least. One that is held once is in no table: nearly
   all are so, and the allocator knows them. */
struct shared {
    struct shared *next; /* of the same slot */
    uint64_t address;
    unsigned holders;
};

/* `slot` is a hash table of the shared blocks by address, chained, of a power of two slots, at
   least as many as there are such blocks when it last grew. Guarded by lock: everything but the
   constant facts. */
struct rig_space {
    const char *name;
    uint64_t base, bytes;
    pthread_mutex_t lock;
    struct rig_ranges *ranges;
    struct shared **slot;
    size_t slots, shared;
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
    s->slot = calloc(s->slots, sizeof(struct shared *));
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
            struct shared *b = s->slot[i];
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

/* Where the shared block at address hangs, or the end of its chain. */
static struct shared **find(struct rig_space *s, uint64_t address)
{
    struct shared **link = &s->slot[slot_of(s, address)];
    while (*link && (*link)->address != address)
        link = &(*link)->next;
    return link;
}

/* More slots, where there are fewer than blocks; chains grow longer where there is no memory. */
static void grow(struct rig_space *s)
{
    if (s->shared < s->slots)
        return;
    struct shared **old = s->slot;
    size_t count = s->slots;
    struct shared **slot = calloc(count * 2, sizeof(struct shared *));
    if (!slot)
        return;
    s->slot = slot;
    s->slots = count * 2;
    for (size_t i = 0; i < count; i++)
        while (old[i]) {
            struct shared *b = old[i];
            old[i] = b->next;
            struct shared **link = &s->slot[slot_of(s, b->address)];
            b->next = *link;
            *link = b;
        }
    free(old);
}

/* One more holder of the block at address. False: memory ran out. */
static bool hold(struct rig_space *s, uint64_t address)
{
    struct shared *b = *find(s, address);
    if (b) {
        b->holders++;
        return true;
    }
    b = calloc(1, sizeof *b);
    if (!b)
        return false;
    grow(s);
    struct shared **link = find(s, address);
    b->address = address;
    b->holders = 2;
    *link = b;
    s->shared++;
    return true;
}

/* Whether a block begins at address, and which. */
static bool block_at(const struct rig_space *s, uint64_t address, struct rig_range *out_block)
{
    return rig_ranges_next_block(s->ranges, address, out_block) && out_block->address == address;
}

enum rig_status space_take(struct rig_space *s, uint64_t bytes, uint64_t *out_address,
                           struct rig_error *err)
{
    struct rig_ranges_want want = {
        .bytes = bytes,
        .align = UINT64_C(1) << (63 - __builtin_clzll(bytes)),
    };
    pthread_mutex_lock(&s->lock);
    enum rig_status status = rig_ranges_take(s->ranges, &want, out_address, err);
    pthread_mutex_unlock(&s->lock);
    return status;
}

enum rig_status space_hold(struct rig_space *s, uint64_t address, struct rig_error *err)
{
    pthread_mutex_lock(&s->lock);
    bool held = hold(s, address);
    pthread_mutex_unlock(&s->lock);
    return held ? RIG_OK : rig_fail_memory(err);
}

/* A block of at least 2^n bytes, and less than twice that, begins at a multiple of 2^n. */
enum rig_status space_hold_at(struct rig_space *s, uint64_t address, struct rig_range *out_block,
                              struct rig_error *err)
{
    struct rig_range block = {.bytes = 0};
    bool found = false, held = true;
    pthread_mutex_lock(&s->lock);
    for (unsigned n = 12; !found && n < 47; n++)
        for (uint64_t back = 0; !found && back < 2 && back <= address >> n; back++)
            found = block_at(s, ((address >> n) - back) << n, &block) &&
                    address - block.address < block.bytes;
    if (found)
        held = hold(s, block.address);
    pthread_mutex_unlock(&s->lock);
    if (!held)
        return rig_fail_memory(err);
    *out_block = found ? block : (struct rig_range){.bytes = 0};
    return RIG_OK;
}

void space_let_go(struct rig_space *s, uint64_t address)
{
    struct rig_range block;
    pthread_mutex_lock(&s->lock);
    struct shared **link = find(s, address), *b = *link;
    if (!b && block_at(s, address, &block))
        rig_ranges_give(s->ranges, block.address, block.bytes, NULL);
    if (b && --b->holders == 1) {
        *link = b->next;
        s->shared--;
    } else {
        b = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    free(b);
}

enum rig_status space_restore(struct rig_space *s, uint64_t address, uint64_t bytes,
                              struct rig_error *err)
{
    struct rig_range block;
    enum rig_status status = rig_ranges_take_at(s->ranges, address, bytes, NULL);
    if (status == RIG_NO_ROOM && block_at(s, address, &block) && block.bytes == bytes)
        status = hold(s, address) ? RIG_OK : RIG_FAILED;
    if (status == RIG_FAILED)
        return rig_fail_memory(err);
    if (status != RIG_OK)
        return rig_fail(err, RIG_BAD_INPUT, s->name, "addresses 0x%llx+0x%llx overlap others",
                        (unsigned long long)address, (unsigned long long)bytes);
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
    uint64_t blocks = rig_ranges_blocks(s->ranges);
    pthread_mutex_unlock(&s->lock);
    return blocks;
}
