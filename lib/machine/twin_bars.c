/* What lies behind a twin's BARs, and the process's windows on it. */
#include "machine/twins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int bar_at(const struct twin_function *f, uint64_t address, uint64_t *out_offset)
{
    for (int i = 0; i < RIG_BAR_COUNT; i++) {
        const struct twin_bar *bar = &f->bar[i];
        if (bar->size == 0 || bar->io || !bar->assigned || address < bar->base ||
            address - bar->base >= bar->size)
            continue;
        *out_offset = address - bar->base;
        return i;
    }
    return -1;
}

/* The memory that a BAR shows, and how much of it: a GPU's memory BAR may be larger than its
   memory. NULL: none could be made. */
static struct sparse *memory_of(struct twin *w, int function, int bar)
{
    struct twin_function *f = &w->function[function];
    if (f->gpu && f->facts->memory_bar == bar)
        return &f->gpu->memory;
    struct twin_bar *b = &f->bar[bar];
    if (!b->memory) {
        b->memory = malloc(sizeof *b->memory);
        if (!b->memory)
            return NULL;
        char name[RIG_BDF_MAX], file[48];
        snprintf(file, sizeof file, "%s-bar%d", rig_bdf_format(f->facts->bdf, name), bar);
        sparse_init(b->memory, b->size, w->directory, file);
    }
    return b->memory;
}

enum rig_status bar_read(struct twin *w, int function, int bar, uint64_t offset, void *out_data,
                         size_t bytes, struct rig_error *err)
{
    struct sparse *memory = memory_of(w, function, bar);
    if (!memory)
        return rig_fail_memory(err);
    uint64_t there = offset < memory->bytes ? memory->bytes - offset : 0;
    size_t n = there < bytes ? (size_t)there : bytes;
    memset((uint8_t *)out_data + n, 0xff, bytes - n);
    return n > 0 ? sparse_read(memory, offset, out_data, n, err) : RIG_OK;
}

enum rig_status bar_write(struct twin *w, int function, int bar, uint64_t offset, const void *data,
                          size_t bytes, struct rig_error *err)
{
    struct sparse *memory = memory_of(w, function, bar);
    if (!memory)
        return rig_fail_memory(err);
    uint64_t there = offset < memory->bytes ? memory->bytes - offset : 0;
    size_t n = there < bytes ? (size_t)there : bytes;
    return n > 0 ? sparse_write(memory, offset, data, n, err) : RIG_OK;
}

/* ---- windows */

/* An access of the processor to a BAR: to nothing where the function is gone or does not decode. An
   access has no outcome, so a process that cannot have the memory cannot use the machine. */
static void view_move(const struct rig_view *view, uint64_t offset, void *data, size_t bytes,
                      bool write)
{
    struct twin *w = twin_of(view->machine);
    struct rig_error *broken = &w->machine.broken;
    twin_lock(w);
    uint64_t at = view->start + offset;
    bool there = !is_gone(w, view->function) && decodes(&w->function[view->function]);
    enum rig_status status = RIG_OK;
    if (there)
        status = write ? bar_write(w, view->function, view->bar, at, data, bytes, broken)
                       : bar_read(w, view->function, view->bar, at, data, bytes, broken);
    if (status != RIG_OK)
        atomic_store(&w->machine.is_broken, true);
    if (!write && (!there || status != RIG_OK))
        memset(data, 0xff, bytes);
    twin_unlock(w);
}

static void view_read_bar(const struct rig_view *view, uint64_t offset, void *out_data,
                          size_t bytes)
{
    view_move(view, offset, out_data, bytes, false);
}

static void view_write_bar(const struct rig_view *view, uint64_t offset, const void *data,
                           size_t bytes)
{
    view_move(view, offset, (void *)(uintptr_t)data, bytes, true);
}

static enum rig_status view_unmap(struct rig_view *view, struct rig_error *err)
{
    struct twin *w = twin_of(view->machine);
    twin_lock(w);
    enum rig_status status = fault_step(w, TWIN_STEP_UNMAP, view->function, err);
    if (status == RIG_OK)
        w->function[view->function].views--;
    twin_unlock(w);
    return status;
}

const struct rig_view_ops twin_view_ops = {
    .read = view_read_bar,
    .write = view_write_bar,
    .unmap = view_unmap,
};
