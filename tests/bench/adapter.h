/* What bench_ranges asks of a range allocator. */
#ifndef ADAPTER_H
#define ADAPTER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
struct adapter {
    const char *name;
    /* an allocator over [0, size); max is the most allocations ever out at once */
    void *(*create)(uint64_t size, uint32_t max);
    /* false where there is no room; *token goes back to release */
    bool (*alloc)(void *a, uint64_t size, uint64_t align, uint64_t *address, uint64_t *token);
    void (*release)(void *a, uint64_t address, uint64_t size, uint64_t token);
    void (*destroy)(void *a);
};
#endif
