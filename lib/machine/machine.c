/* Machines, as the function layer sees them: their beginning and end, reserved addresses, facts of
   functions that need no take. */
#include "machine/functions.h"

#include <stdlib.h>

enum rig_status machine_init(struct rig_machine *m, const struct rig_machine_ops *ops,
                             const char *kind, struct rig_topology *take_topology,
                             uint64_t page_size, struct rig_error *err)
{
    m->ops = ops;
    m->kind = kind;
    m->topology = take_topology;
    m->page_size = page_size;
    m->functions = calloc(1, sizeof *m->functions);
    size_t count = (size_t)rig_topology_count(take_topology);
    if (m->functions)
        m->functions->by_function = calloc(count + 1, sizeof(struct rig_device *));
    if (!m->functions || !m->functions->by_function) {
        free(m->functions);
        m->functions = NULL;
        rig_topology_free(take_topology);
        m->topology = NULL;
        return rig_fail_memory(err);
    }
    pthread_mutex_init(&m->functions->lock, NULL);
    return RIG_OK;
}

void functions_forget(struct rig_machine *m)
{
    struct rig_functions *all = m->functions;
    while (all->devices) {
        struct rig_device *dev = all->devices;
        all->devices = dev->next;
        all->by_function[dev->function] = NULL;
        device_drop(dev);
    }
    free(all->restored);
    all->restored = NULL;
    all->restored_count = 0;
}

void machine_drop(struct rig_machine *m)
{
    if (m->functions) {
        functions_forget(m);
        pthread_mutex_destroy(&m->functions->lock);
        free(m->functions->by_function);
        free(m->functions->reserved);
        free(m->functions);
    }
    m->functions = NULL;
    rig_topology_free(m->topology);
    m->topology = NULL;
}

void machine_detach(struct rig_machine *m)
{
    m->ops->close(m);
}

const struct rig_topology *rig_machine_topology(const struct rig_machine *m)
{
    return m->topology;
}

enum rig_status machine_reserve(struct rig_machine *m, uint64_t start, uint64_t bytes,
                                struct rig_error *err)
{
    uint64_t end;
    if (bytes == 0 || start == 0 || !rig_add(start, bytes, &end) || end > UINTPTR_MAX ||
        ((start | bytes) & (m->page_size - 1)) != 0)
        return rig_fail(err, RIG_INVALID, NULL,
                        "addresses 0x%llx+0x%llx cannot be reserved: not whole pages",
                        (unsigned long long)start, (unsigned long long)bytes);
    struct rig_functions *all = m->functions;
    functions_lock(m);
    void *grown = realloc(all->reserved, (all->reserved_count + 1) * sizeof *all->reserved);
    if (grown)
        all->reserved = grown;
    functions_unlock(m);
    if (!grown)
        return rig_fail_memory(err);
    enum rig_status status = m->ops->reserve(m, (void *)(uintptr_t)start, bytes, err);
    functions_lock(m);
    if (status == RIG_OK)
        all->reserved[all->reserved_count++] = (struct rig_bus_range){start, bytes};
    functions_unlock(m);
    return status;
}

bool is_reserved(const struct rig_machine *m, uint64_t start, uint64_t bytes)
{
    const struct rig_functions *all = m->functions;
    bool within = false;
    functions_lock(m);
    for (size_t i = 0; i < all->reserved_count && !within; i++) {
        const struct rig_bus_range *r = &all->reserved[i];
        within = start >= r->address && start - r->address < r->bytes &&
                 r->bytes - (start - r->address) >= bytes;
    }
    functions_unlock(m);
    return within;
}

enum rig_addressing machine_addressing(struct rig_machine *m, int function)
{
    struct rig_function_now now;
    m->ops->list(m, function, &now);
    return now.addressing;
}

void machine_bar(struct rig_machine *m, int function, int bar, struct rig_bar_now *out_bar)
{
    m->ops->bar(m, function, bar, out_bar);
}

struct rig_device *machine_device(struct rig_machine *m, int function)
{
    functions_lock(m);
    struct rig_device *dev = m->functions->by_function[function];
    functions_unlock(m);
    return dev;
}
