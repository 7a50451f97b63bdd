#include "topology/lspci.h"

#include <stdlib.h>
#include <string.h>

/* The place as a number that is never 0. */
static uint64_t key_of(struct rig_bdf bdf)
{
    return UINT64_C(1) << 63 | (uint64_t)bdf.domain << 16 | (uint64_t)bdf.bus << 8 |
           (uint64_t)bdf.device << 3 | bdf.function;
}

static struct lspci_slot *slot_of(const struct lspci_records *r, uint64_t key)
{
    size_t i = (size_t)(key * 0x9e3779b97f4a7c15u >> 32) & (r->slots - 1);
    while (r->slot[i].key && r->slot[i].key != key)
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
    struct lspci_slot *slot = calloc(slots, sizeof *slot);
    if (!slot)
        return rig_fail_memory(err);
    free(r->slot);
    r->slot = slot;
    r->slots = slots;
    for (int i = 0; i < t->count; i++) {
        uint64_t key = key_of(t->node[i].f.bdf);
        *slot_of(r, key) = (struct lspci_slot){key, i};
    }
    return RIG_OK;
}

enum rig_status lspci_record_find(struct lspci_records *r, struct rig_topology *t,
                                  struct rig_bdf bdf, int *out_index, bool *out_new,
                                  struct rig_error *err)
{
    enum rig_status status = grow(r, t, err);
    if (status != RIG_OK)
        return status;
    uint64_t key = key_of(bdf);
    struct lspci_slot *slot = slot_of(r, key);
    *out_new = slot->key == 0;
    if (*out_new) {
        struct node *node;
        status = topology_add(t, bdf, &node, err);
        if (status != RIG_OK)
            return status;
        *slot = (struct lspci_slot){key, t->count - 1};
        memset(&r->record[t->count - 1], 0, sizeof *r->record);
    }
    *out_index = slot->index;
    return RIG_OK;
}

int lspci_record_known(const struct lspci_records *r, struct rig_bdf bdf)
{
    uint64_t key = key_of(bdf);
    const struct lspci_slot *slot = slot_of(r, key);
    return slot->key == key ? slot->index : -1;
}

void lspci_records_free(struct lspci_records *r)
{
    free(r->record);
    free(r->slot);
}
