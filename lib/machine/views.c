/* Views of a function's BARs. */
#include "machine/functions.h"

#include <stdlib.h>
#include <string.h>

/* PCI Local Bus 3.0, 6.2.2: the command register. */
#define COMMAND 0x04u
#define COMMAND_MEMORY 0x2u

static void dead_read(const struct rig_view *view, uint64_t offset, void *out_data, size_t bytes)
{
    (void)view;
    (void)offset;
    memset(out_data, 0xff, bytes);
}

static void dead_write(const struct rig_view *view, uint64_t offset, const void *data, size_t bytes)
{
    (void)view;
    (void)offset;
    (void)data;
    (void)bytes;
}

static enum rig_status dead_unmap(struct rig_view *view, struct rig_error *err)
{
    (void)view;
    (void)err;
    return RIG_OK;
}

static const struct rig_view_ops dead_view = {
    .read = dead_read,
    .write = dead_write,
    .unmap = dead_unmap,
};

/* Frees the view. The machine's lock is held. */
static void drop_view(struct rig_device *dev, struct device_view *view)
{
    struct device_view **link = &dev->views;
    while (*link != view)
        link = &(*link)->next;
    *link = view->next;
    free(view);
}

/* Ends the view for the back end; its struct stays its maker's, if that has not let go of it. */
static enum rig_status end_view(struct rig_device *dev, struct device_view *view,
                                struct rig_error *err)
{
    enum rig_status status = view->view.ops->unmap(&view->view, err);
    if (status != RIG_OK)
        return status;
    functions_lock(dev->machine);
    view->view.ops = &dead_view;
    view->view.memory = NULL;
    view->dead = true;
    if (view->let_go)
        drop_view(dev, view);
    functions_unlock(dev->machine);
    return RIG_OK;
}

/* A view that is not ended yet, or NULL. */
static struct device_view *live_view(struct rig_device *dev)
{
    functions_lock(dev->machine);
    struct device_view *view = dev->views;
    while (view && view->dead)
        view = view->next;
    functions_unlock(dev->machine);
    return view;
}

enum rig_status device_end_views(struct rig_device *dev, struct rig_error *err)
{
    for (struct device_view *view; (view = live_view(dev));) {
        enum rig_status status = end_view(dev, view, err);
        if (status != RIG_OK)
            return status;
    }
    return RIG_OK;
}

/* RIG_INVALID unless [start, start + bytes) can be viewed in a BAR of that size. */
static enum rig_status check_view(struct rig_device *dev, int bar, uint64_t start, uint64_t bytes,
                                  bool combining, struct rig_error *err)
{
    struct rig_bar_now now = {0};
    char name[RIG_BDF_MAX];
    rig_bdf_format(device_bdf(dev), name);
    uint64_t end;
    if (bar >= 0 && bar < RIG_BAR_COUNT)
        machine_bar(dev->machine, dev->function, bar, &now);
    if (now.size == 0 || now.io)
        return rig_fail(err, RIG_INVALID, name, "it has no memory BAR %d", bar);
    if (bytes == 0 || !rig_add(start, bytes, &end) || end > now.size)
        return rig_fail(err, RIG_INVALID, name, "0x%llx+0x%llx is not within its BAR %d",
                        (unsigned long long)start, (unsigned long long)bytes, bar);
    bool whole = start == 0 && bytes == now.size;
    if (!whole && ((start | bytes) & (dev->machine->page_size - 1)) != 0)
        return rig_fail(err, RIG_INVALID, name, "a view of BAR %d is whole pages of it", bar);
    /* All that a BAR has are alike: one tells. */
    const struct device_view *other = dev->views;
    while (other && (other->dead || other->view.bar != bar))
        other = other->next;
    if (other && other->combining != combining)
        return rig_fail(err, RIG_INVALID, name, "BAR %d is mapped %s already", bar,
                        other->combining ? "combining" : "uncached");
    if (!now.assigned) {
        rig_fail(err, RIG_REFUSED, name, "its BAR %d has no address", bar);
        rig_hint(err, "the firmware or the kernel left no room for it; see 'Above 4G decoding'");
        return RIG_REFUSED;
    }
    return RIG_OK;
}

static enum rig_status make_view(struct rig_device *dev, int bar, uint64_t start, uint64_t bytes,
                                 bool combining, struct rig_view **out_view, struct rig_error *err)
{
    enum rig_status status = check_view(dev, bar, start, bytes, combining, err);
    if (status != RIG_OK)
        return status;
    uint32_t command = device_config_read(dev, COMMAND, 2);
    if (command == 0xffff)
        return device_fail(dev, err);
    if ((command & COMMAND_MEMORY) == 0)
        device_config_write(dev, COMMAND, 2, command | COMMAND_MEMORY);
    struct device_view *view = calloc(1, sizeof *view);
    if (!view)
        return rig_fail_memory(err);
    struct rig_machine *m = dev->machine;
    status = m->ops->map_bar(m, dev->function, bar, start, bytes, combining, &view->view, err);
    if (status != RIG_OK) {
        free(view);
        return status;
    }
    view->combining = combining;
    view->next = dev->views;
    dev->views = view;
    *out_view = &view->view;
    return RIG_OK;
}

enum rig_status device_map_bar(struct rig_device *dev, int bar, uint64_t start, uint64_t bytes,
                               bool combining, struct rig_view **out_view, struct rig_error *err)
{
    enum rig_status status = device_must_be_taken(dev, err);
    return status == RIG_OK ? make_view(dev, bar, start, bytes, combining, out_view, err) : status;
}

enum rig_status device_map_bar_again(struct rig_device *dev, int bar, uint64_t start,
                                     uint64_t bytes, bool combining, struct rig_view **out_view,
                                     struct rig_error *err)
{
    char name[RIG_BDF_MAX];
    if (device_gave_back(dev))
        return rig_fail(err, RIG_INVALID, rig_bdf_format(device_bdf(dev), name),
                        "it was given back");
    return make_view(dev, bar, start, bytes, combining, out_view, err);
}

/* What becomes of a view that its maker unmaps. The machine's lock is held. Without a use a
   give-back may be under way, or begin: one that is ends the view, and none begins while `busy` is
   set. */
static struct device_view *view_to_end(struct rig_device *dev, struct device_view *view,
                                       bool *out_alone)
{
    bool held = dev->life == RIG_LIFE_TAKEN || dev->uses > 0;
    *out_alone = !held && !dev->busy;
    if (view->dead) {
        drop_view(dev, view);
        return NULL;
    }
    if (!held && dev->busy) {
        view->let_go = true;
        return NULL;
    }
    dev->busy = dev->busy || *out_alone;
    return view;
}

enum rig_status device_unmap(struct rig_device *dev, struct rig_view *view, struct rig_error *err)
{
    functions_lock(dev->machine);
    struct device_view *mine = dev->views;
    while (mine && &mine->view != view)
        mine = mine->next;
    bool there = mine != NULL, alone = false;
    mine = there ? view_to_end(dev, mine, &alone) : NULL;
    functions_unlock(dev->machine);
    if (!there)
        return rig_fail(err, RIG_INVALID, NULL, "the view is not of this function");
    if (!mine)
        return RIG_OK;
    /* An unmap that is cut short leaves the mapping to the claim's end, in the back end. */
    enum rig_status status = mine->view.ops->unmap(&mine->view, err);
    functions_lock(dev->machine);
    if (status == RIG_OK)
        drop_view(dev, mine);
    if (alone)
        dev->busy = false;
    functions_unlock(dev->machine);
    return status;
}
