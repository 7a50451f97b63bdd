#include "gpu/pool.h"

#include <pthread.h>
#include <stdlib.h>

#define PAGE UINT64_C(4096)
#define LARGE_PAGE (UINT64_C(2) << 20)
#define LARGE_FROM (UINT64_C(8) << 20)

/* `tables` is NULL where the window shows all of the memory. main_base and main_bytes are the main
   pool's. Guarded by lock: the allocators. */
struct gpu_pool {
    struct pool_shape shape;
    uint64_t table_bytes, main_base, main_bytes;
    pthread_mutex_t lock;
    struct rig_ranges *tables, *main;
};

/* A table entry of 8 bytes maps 4 KiB: 1/512 of the memory holds the tables of all of it. */
static uint64_t bytes_of_tables(const struct pool_shape *shape)
{
    if (shape->window >= shape->bytes)
        return 0;
    uint64_t bytes;
    if (!rig_round_up(shape->bytes / 512, UINT64_C(1) << 20, &bytes))
        return 0;
    uint64_t room = shape->window > shape->boot ? (shape->window - shape->boot) / 4 : 0;
    return (bytes < room ? bytes : room) & ~(PAGE - 1);
}

enum rig_status pool_make(const struct pool_shape *shape, struct gpu_pool **out_pool,
                          struct rig_error *err)
{
    struct gpu_pool *p = calloc(1, sizeof *p);
    if (!p)
        return rig_fail_memory(err);
    p->shape = *shape;
    p->table_bytes = bytes_of_tables(shape);
    p->main_base = shape->boot + p->table_bytes;
    enum rig_status status = RIG_OK;
    if (shape->bytes <= p->main_base + shape->end || shape->boot > shape->window)
        status = rig_fail(err, RIG_NO_ROOM, NULL, "the GPU's memory has no room for page tables");
    else
        p->main_bytes = shape->bytes - shape->end - p->main_base;
    if (status == RIG_OK)
        status = rig_ranges_make(p->main_base, p->main_bytes, PAGE, &p->main, err);
    if (status == RIG_OK && p->table_bytes > 0)
        status = rig_ranges_make(shape->boot, p->table_bytes, PAGE, &p->tables, err);
    if (status != RIG_OK) {
        rig_ranges_drop(p->main);
        free(p);
        return status;
    }
    pthread_mutex_init(&p->lock, NULL);
    *out_pool = p;
    return RIG_OK;
}

void pool_drop(struct gpu_pool *p)
{
    if (!p)
        return;
    rig_ranges_drop(p->tables);
    rig_ranges_drop(p->main);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

bool pool_round(uint64_t bytes, uint64_t *out_bytes)
{
    return rig_round_up(bytes, bytes >= LARGE_FROM ? LARGE_PAGE : PAGE, out_bytes);
}

static uint64_t align_of(uint64_t bytes)
{
    return bytes >= LARGE_FROM ? LARGE_PAGE : PAGE;
}

enum rig_status pool_take(struct gpu_pool *p, uint64_t bytes, struct rig_range **out_ranges,
                          size_t *out_count, struct rig_error *err)
{
    struct rig_ranges_want want = {.bytes = bytes, .align = align_of(bytes)};
    struct rig_range *one = NULL;
    enum rig_status status = RIG_NO_ROOM;
    pthread_mutex_lock(&p->lock);
    if (p->shape.window < p->shape.bytes) {
        want.from = p->shape.window;
        one = calloc(1, sizeof *one);
        status = one ? rig_ranges_take(p->main, &want, &one->address, NULL) : RIG_FAILED;
    }
    if (status == RIG_OK) {
        one->bytes = bytes;
        *out_ranges = one;
        *out_count = 1;
    } else {
        free(one);
        status = rig_ranges_take_several(p->main, bytes, want.align, out_ranges, out_count, err);
    }
    pthread_mutex_unlock(&p->lock);
    return status;
}

enum rig_status pool_take_block(struct gpu_pool *p, uint64_t bytes, struct rig_range **out_ranges,
                                size_t *out_count, struct rig_error *err)
{
    struct rig_range *one = calloc(1, sizeof *one);
    if (!one)
        return rig_fail_memory(err);
    struct rig_ranges_want want = {
        .bytes = bytes,
        .align = align_of(bytes),
        .below = p->shape.window,
    };
    one->bytes = bytes;
    pthread_mutex_lock(&p->lock);
    enum rig_status status = rig_ranges_take(p->main, &want, &one->address, err);
    pthread_mutex_unlock(&p->lock);
    if (status != RIG_OK) {
        free(one);
        return status;
    }
    *out_ranges = one;
    *out_count = 1;
    return RIG_OK;
}

void pool_give(struct gpu_pool *p, const struct rig_range *ranges, size_t count)
{
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < count; i++)
        rig_ranges_give(p->main, ranges[i].address, ranges[i].bytes, NULL);
    pthread_mutex_unlock(&p->lock);
}

enum rig_status pool_take_table(struct gpu_pool *p, uint64_t *out_offset, struct rig_error *err)
{
    struct rig_ranges_want want = {.bytes = PAGE};
    pthread_mutex_lock(&p->lock);
    enum rig_status status = RIG_NO_ROOM;
    if (p->tables)
        status = rig_ranges_take(p->tables, &want, out_offset, NULL);
    want.below = p->shape.window < p->shape.bytes ? p->shape.window : 0;
    if (status != RIG_OK)
        status = rig_ranges_take(p->main, &want, out_offset, NULL);
    pthread_mutex_unlock(&p->lock);
    if (status == RIG_NO_ROOM)
        return rig_fail(err, status, NULL, "the GPU's memory has no room for a page table");
    return status == RIG_OK ? status : rig_fail_memory(err);
}

/* Which allocator manages an address; NULL: none. */
static struct rig_ranges *pool_of(struct gpu_pool *p, uint64_t address)
{
    if (address >= p->main_base && address - p->main_base < p->main_bytes)
        return p->main;
    return address >= p->shape.boot && address < p->main_base ? p->tables : NULL;
}

void pool_give_table(struct gpu_pool *p, uint64_t offset)
{
    pthread_mutex_lock(&p->lock);
    rig_ranges_give(pool_of(p, offset), offset, PAGE, NULL);
    pthread_mutex_unlock(&p->lock);
}

enum rig_status pool_restore(struct gpu_pool *p, uint64_t address, uint64_t bytes,
                             struct rig_error *err)
{
    struct rig_ranges *pool = pool_of(p, address);
    enum rig_status status = RIG_INVALID;
    pthread_mutex_lock(&p->lock);
    if (pool)
        status = rig_ranges_take_at(pool, address, bytes, NULL);
    pthread_mutex_unlock(&p->lock);
    if (status == RIG_FAILED)
        return rig_fail_memory(err);
    if (status != RIG_OK)
        return rig_fail(err, RIG_BAD_INPUT, "memory", "0x%llx+0x%llx is not free GPU memory",
                        (unsigned long long)address, (unsigned long long)bytes);
    return RIG_OK;
}

uint64_t pool_free_bytes(struct gpu_pool *p)
{
    pthread_mutex_lock(&p->lock);
    uint64_t bytes = rig_ranges_free_bytes(p->main);
    pthread_mutex_unlock(&p->lock);
    return bytes;
}

bool pool_next_free(struct gpu_pool *p, uint64_t address, struct rig_range *out_range)
{
    pthread_mutex_lock(&p->lock);
    bool found = rig_ranges_next_free(p->main, address, out_range);
    pthread_mutex_unlock(&p->lock);
    return found;
}

uint64_t pool_main_bytes(const struct gpu_pool *p)
{
    return p->main_bytes;
}
