#include "machine/functions.h"

#include <stdio.h>
#include <stdlib.h>

struct rig_device *device_new(struct rig_machine *m, int function)
{
    struct rig_device *dev = calloc(1, sizeof *dev);
    if (!dev)
        return NULL;
    dev->machine = m;
    dev->function = function;
    dev->bits = 64;
    return dev;
}

static struct keeper *find(struct rig_device *dev, enum device_keep why, int who)
{
    for (size_t i = 0; i < dev->keepers; i++)
        if (dev->keeper[i].why == why && dev->keeper[i].function == who)
            return &dev->keeper[i];
    return NULL;
}

/* The machine's lock is held. */
static enum rig_status keep(struct rig_device *dev, enum device_keep why, int who)
{
    struct keeper *k = find(dev, why, who);
    if (k) {
        k->count++;
        return RIG_OK;
    }
    struct keeper *grown = realloc(dev->keeper, (dev->keepers + 1) * sizeof *grown);
    if (!grown)
        return RIG_FAILED;
    dev->keeper = grown;
    dev->keeper[dev->keepers++] = (struct keeper){.function = who, .why = why, .count = 1};
    return RIG_OK;
}

enum rig_status device_keep(struct rig_device *dev, enum device_keep why, int who,
                            struct rig_error *err)
{
    functions_lock(dev->machine);
    bool late = dev->stopping || dev->life == RIG_LIFE_STOPPED;
    enum rig_status status = late ? RIG_INVALID : keep(dev, why, who);
    functions_unlock(dev->machine);
    char name[RIG_BDF_MAX];
    if (late)
        return rig_fail(err, RIG_INVALID, rig_bdf_format(device_bdf(dev), name),
                        "it was given back");
    return status == RIG_OK ? RIG_OK : rig_fail_memory(err);
}

void device_unkeep(struct rig_device *dev, int who)
{
    functions_lock(dev->machine);
    struct keeper *k = find(dev, DEVICE_KEEP_PEER, who);
    if (k && --k->count == 0)
        *k = dev->keeper[--dev->keepers];
    bool due = dev->keepers == 0 && dev->life == RIG_LIFE_KEPT;
    functions_unlock(dev->machine);
    if (due)
        device_finish(dev, NULL);
}

static bool has_reserver(const struct rig_device *dev)
{
    for (size_t i = 0; i < dev->keepers; i++)
        if (dev->keeper[i].why == DEVICE_KEEP_RESERVED)
            return true;
    return false;
}

bool device_has_reservation(const struct rig_device *dev)
{
    return has_reserver(dev) && !dev->machine->functions->ending;
}

bool device_reserved(const struct rig_device *dev)
{
    functions_lock(dev->machine);
    bool reserved = has_reserver(dev);
    functions_unlock(dev->machine);
    return reserved;
}

char *device_kept_why(const struct rig_device *dev, char *text, size_t bytes)
{
    text[0] = '\0';
    struct rig_machine *m = dev->machine;
    functions_lock(m);
    size_t used = 0;
    /* Reservations first: they last longest. */
    for (int pass = 0; pass < 2; pass++) {
        enum device_keep why = pass == 0 ? DEVICE_KEEP_RESERVED : DEVICE_KEEP_PEER;
        for (size_t i = 0; i < dev->keepers && used < bytes; i++) {
            if (dev->keeper[i].why != why)
                continue;
            char name[RIG_BDF_MAX];
            rig_bdf_format(rig_topology_function(m->topology, dev->keeper[i].function)->bdf, name);
            int n = snprintf(text + used, bytes - used,
                             pass == 0 ? "%sits memory is reserved for %s" : "%s%s maps its memory",
                             used ? "; " : "", name);
            used += n > 0 ? (size_t)n : 0;
        }
    }
    functions_unlock(m);
    return text;
}
