/* A twin's IOMMU: for each function behind it, which device addresses lead where. */
#include "machine/twins.h"

#include <search.h>
#include <stdlib.h>

/* Device addresses that are given out: from 4 GiB up to 1 TiB, as a driver of user space would
   choose them within what the common IOMMUs translate. */
#define DEVICE_BASE (UINT64_C(4) << 30)
#define DEVICE_END (UINT64_C(1) << 40)

/* Orders mappings by address; one that overlaps another equals it, so that a lookup of a single
   byte finds the mapping around it. */
static int by_place(const void *a, const void *b)
{
    const struct twin_mapping *x = a, *y = b;
    if (x->address > y->address + (y->bytes - 1))
        return 1;
    return x->address + (x->bytes - 1) < y->address ? -1 : 0;
}

/* A switch turns a request to a BAR's address around before the IOMMU sees it, so no device address
   may be one. What is taken twice, a BAR within its bridge's window, is taken. */
static void keep_off_bars(struct twin *w, struct rig_ranges *r, uint64_t first, uint64_t last)
{
    uint64_t unit = w->machine.page_size;
    first &= ~(unit - 1);
    last |= unit - 1;
    first = first > DEVICE_BASE ? first : DEVICE_BASE;
    last = last < DEVICE_END - 1 ? last : DEVICE_END - 1;
    if (first < last)
        rig_ranges_take_at(r, first, last - first + 1, NULL);
}

static void keep_off(struct twin *w, struct rig_ranges *r)
{
    for (int i = 0; i < w->count; i++) {
        const struct twin_function *f = &w->function[i];
        const struct rig_window *window[] = {&f->facts->memory, &f->facts->prefetchable};
        for (size_t k = 0; k < RIG_ARRAY_LENGTH(window); k++)
            if (rig_fact_has(window[k]->base) && rig_fact_has(window[k]->limit))
                keep_off_bars(w, r, window[k]->base.value, window[k]->limit.value);
        for (int k = 0; k < RIG_BAR_COUNT; k++)
            if (f->bar[k].size && f->bar[k].assigned && !f->bar[k].io)
                keep_off_bars(w, r, f->bar[k].base, f->bar[k].base + (f->bar[k].size - 1));
    }
}

enum rig_status iommu_init(struct twin *w, int function, struct rig_error *err)
{
    struct twin_iommu *iommu = &w->function[function].iommu;
    if (iommu->free)
        return RIG_OK;
    enum rig_status status = rig_ranges_make(DEVICE_BASE, DEVICE_END - DEVICE_BASE,
                                             w->machine.page_size, &iommu->free, err);
    if (status == RIG_OK)
        keep_off(w, iommu->free);
    return status;
}

void iommu_drop(struct twin_iommu *iommu)
{
    tdestroy(iommu->tree, free);
    iommu->tree = NULL;
    rig_ranges_drop(iommu->free);
    iommu->free = NULL;
}

enum rig_status iommu_take(struct twin *w, int function, uint64_t bytes, unsigned bits,
                           uint64_t *out_address, struct rig_error *err)
{
    enum rig_status status = iommu_init(w, function, err);
    if (status != RIG_OK)
        return status;
    struct rig_ranges_want want = {.bytes = bytes};
    if (bytes >= RIG_CONTIGUOUS_MAX)
        want.align = RIG_CONTIGUOUS_MAX;
    if (bits < 64 && (UINT64_C(1) << bits) < DEVICE_END)
        want.below = UINT64_C(1) << bits;
    if (want.below && want.below <= DEVICE_BASE)
        return rig_fail(err, RIG_REFUSED, "IOMMU",
                        "it translates no addresses below 2^%u: they begin at 4 GiB", bits);
    return rig_ranges_take(w->function[function].iommu.free, &want, out_address, err);
}

enum rig_status iommu_take_at(struct twin *w, int function, uint64_t address, uint64_t bytes,
                              struct rig_error *err)
{
    enum rig_status status = iommu_init(w, function, err);
    return status == RIG_OK
               ? rig_ranges_take_at(w->function[function].iommu.free, address, bytes, err)
               : status;
}

enum rig_status iommu_map(struct twin *w, int function, const struct twin_mapping *mapping,
                          struct rig_error *err)
{
    struct twin_mapping *mine = malloc(sizeof *mine);
    if (!mine)
        return rig_fail_memory(err);
    *mine = *mapping;
    if (!tsearch(mine, &w->function[function].iommu.tree, by_place)) {
        free(mine);
        return rig_fail_memory(err);
    }
    return RIG_OK;
}

const struct twin_mapping *iommu_find(const struct twin *w, int function, uint64_t address)
{
    struct twin_mapping key = {.address = address, .bytes = 1};
    void *node = tfind(&key, &w->function[function].iommu.tree, by_place);
    return node ? *(struct twin_mapping **)node : NULL;
}

void iommu_unmap(struct twin *w, int function, uint64_t address, uint64_t bytes)
{
    struct twin_iommu *iommu = &w->function[function].iommu;
    struct twin_mapping key = {.address = address, .bytes = bytes};
    for (void *node = tfind(&key, &iommu->tree, by_place); node;
         node = tfind(&key, &iommu->tree, by_place)) {
        struct twin_mapping *mapping = *(struct twin_mapping **)node;
        tdelete(mapping, &iommu->tree, by_place);
        free(mapping);
    }
    rig_ranges_give(iommu->free, address, bytes, NULL);
}
