#include "topology/lspci.h"

#include <stdlib.h>
#include <string.h>

static size_t hash_of(struct rig_bdf bdf)
{
    uint64_t key = (uint64_t)bdf.domain << 16 | (uint64_t)bdf.bus << 8 | (uint64_t)bdf.device << 3 |
                   bdf.function;
    key *= 0x9e3779b97f4a7c15u;
    return (size_t)(key >> 32);
}

static int *slot_of(const struct lspci_records *r, const struct rig_topology *t, struct rig_bdf bdf)
{
    size_t i = hash_of(bdf) & (r->slots - 1);
    while (r->slot[i] && rig_bdf_compare(t->node[r->slot[i] - 1].f.bdf, bdf) != 0)
        i = (i + 1) & (r->slots - 1);
    return &r->slot[i];
}

static enum rig_status grow(struct lspci_records *r, const struct rig_topology *t,
                            struct rig_error *err)
{
    if (t->count == r->capacity) {
        int capacity = r->capacity ? r->capacity * 2 : 64;
        struct lspci_record *record = realloc(r->record, (size_t)capacity * sizeof *record);
        if (!record)
            return rig_fail_memory(err);
        r->record = record;
        r->capacity = capacity;
    }
    if (2 * ((size_t)t->count + 1) <= r->slots)
        return RIG_OK;
    size_t slots = r->slots ? r->slots * 2 : 256;
    int *slot = calloc(slots, sizeof *slot);
    if (!slot)
        return rig_fail_memory(err);
    free(r->slot);
    r->slot = slot;
    r->slots = slots;
    for (int i = 0; i < t->count; i++)
        *slot_of(r, t, t->node[i].f.bdf) = i + 1;
    return RIG_OK;
}

enum rig_status lspci_record_find(struct lspci_records *r, struct rig_topology *t,
                                  struct rig_bdf bdf, int *out_index, bool *out_new,
                                  struct rig_error *err)
{
    enum rig_status status = grow(r, t, err);
    if (status != RIG_OK)
        return status;
    int *slot = slot_of(r, t, bdf);
    *out_new = *slot == 0;
    if (*out_new) {
        struct node *node;
        status = topology_add(t, bdf, &node, err);
        if (status != RIG_OK)
            return status;
        *slot = t->count;
        memset(&r->record[t->count - 1], 0, sizeof *r->record);
    }
    *out_index = *slot - 1;
    return RIG_OK;
}

void lspci_records_free(struct lspci_records *r)
{
    free(r->record);
    free(r->slot);
}
