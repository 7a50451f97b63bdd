#include "double.h"

#include <stdlib.h>
#include <string.h>

static struct {
    const struct rig_machine_ops *real;
    enum double_fault fault;
    uint64_t in, calls;
    int function, sleeper;
    bool fired, ones;
} at;

/* A view's real operations, by the view: views are few in a test. */
static const struct rig_view_ops *real_view;

/* What becomes of this operation. */
static enum double_fault next(bool takes)
{
    at.calls++;
    if (at.fault == DOUBLE_OFF || at.fault == DOUBLE_ALL_ONES || at.in == 0 || --at.in > 0)
        return DOUBLE_OFF;
    at.fired = true;
    if (!takes && (at.fault == DOUBLE_REFUSES || at.fault == DOUBLE_NO_ROOM))
        return DOUBLE_OFF;
    return at.fault;
}

static enum rig_status fails(enum double_fault fault, struct rig_error *err)
{
    enum rig_status status = fault == DOUBLE_REFUSES   ? RIG_REFUSED
                             : fault == DOUBLE_NO_ROOM ? RIG_NO_ROOM
                                                       : RIG_FAILED;
    if (err && err->status == RIG_OK) {
        err->status = status;
        strcpy(err->why, "the double");
    }
    return status;
}

/* Whether an access of the function comes too late. */
static bool lost(int function)
{
    if (at.fault == DOUBLE_ALL_ONES && function == at.function && !at.ones && --at.in == 0)
        at.fired = at.ones = true;
    return at.ones && function == at.function;
}

static void d_list(struct rig_machine *m, int function, struct rig_function_now *out)
{
    at.real->list(m, function, out);
}

static enum rig_status d_take(struct rig_machine *m, int function, struct rig_error *err)
{
    enum double_fault fault = next(true);
    if (fault == DOUBLE_OFF)
        return at.real->take(m, function, err);
    return fails(fault == DOUBLE_NO_ROOM ? DOUBLE_REFUSES : fault, err);
}

static enum rig_status d_release(struct rig_machine *m, int function, struct rig_error *err)
{
    enum double_fault fault = next(false);
    return fault == DOUBLE_OFF ? at.real->release(m, function, err) : fails(fault, err);
}

static uint32_t d_config_read(struct rig_machine *m, int function, unsigned offset, unsigned width)
{
    if (lost(function) || at.sleeper == function)
        return UINT32_MAX >> (32 - 8 * width);
    return at.real->config_read(m, function, offset, width);
}

static void d_config_write(struct rig_machine *m, int function, unsigned offset, unsigned width,
                           uint32_t value)
{
    if (!lost(function) && at.sleeper != function)
        at.real->config_write(m, function, offset, width, value);
}

static void d_bar(struct rig_machine *m, int function, int bar, struct rig_bar_now *out)
{
    at.real->bar(m, function, bar, out);
}

static void v_read(const struct rig_view *view, uint64_t offset, void *out, size_t bytes)
{
    if (lost(view->function))
        memset(out, 0xff, bytes);
    else
        real_view->read(view, offset, out, bytes);
}

static void v_write(const struct rig_view *view, uint64_t offset, const void *data, size_t bytes)
{
    if (!lost(view->function))
        real_view->write(view, offset, data, bytes);
}

static enum rig_status v_unmap(struct rig_view *view, struct rig_error *err)
{
    enum double_fault fault = next(false);
    return fault == DOUBLE_OFF ? real_view->unmap(view, err) : fails(fault, err);
}

static const struct rig_view_ops double_view = {
    .read = v_read,
    .write = v_write,
    .unmap = v_unmap,
};

static enum rig_status d_map_bar(struct rig_machine *m, int function, int bar, uint64_t start,
                                 uint64_t bytes, bool combining, struct rig_view *out,
                                 struct rig_error *err)
{
    enum double_fault fault = next(true);
    if (fault != DOUBLE_OFF)
        return fails(fault == DOUBLE_NO_ROOM ? DOUBLE_REFUSES : fault, err);
    enum rig_status status = at.real->map_bar(m, function, bar, start, bytes, combining, out, err);
    if (status == RIG_OK) {
        real_view = out->ops;
        out->ops = &double_view;
    }
    return status;
}

static enum rig_status d_alloc(struct rig_machine *m, int function,
                               const struct rig_memory_request *request, struct rig_grant *out,
                               struct rig_error *err)
{
    enum double_fault fault = next(true);
    return fault == DOUBLE_OFF ? at.real->alloc(m, function, request, out, err) : fails(fault, err);
}

static enum rig_status d_pin(struct rig_machine *m, int function, void *start, uint64_t bytes,
                             unsigned bits, struct rig_grant *out, struct rig_error *err)
{
    enum double_fault fault = next(true);
    return fault == DOUBLE_OFF ? at.real->pin(m, function, start, bytes, bits, out, err)
                               : fails(fault, err);
}

static enum rig_status d_see(struct rig_machine *m, void *start, uint64_t bytes,
                             struct rig_error *err)
{
    return at.real->see(m, start, bytes, err);
}

static enum rig_status d_give(struct rig_machine *m, int function, uint64_t id,
                              struct rig_error *err)
{
    enum double_fault fault = next(false);
    return fault == DOUBLE_OFF ? at.real->give(m, function, id, err) : fails(fault, err);
}

static enum rig_status d_reserve(struct rig_machine *m, void *start, uint64_t bytes,
                                 struct rig_error *err)
{
    enum double_fault fault = next(true);
    if (fault == DOUBLE_OFF)
        return at.real->reserve(m, start, bytes, err);
    return fails(fault == DOUBLE_NO_ROOM ? DOUBLE_REFUSES : fault, err);
}

static enum rig_status d_reset(struct rig_machine *m, int function, struct rig_error *err)
{
    enum double_fault fault = next(true);
    if (fault == DOUBLE_OFF)
        return at.real->reset(m, function, err);
    return fails(fault == DOUBLE_NO_ROOM ? DOUBLE_REFUSES : fault, err);
}

static bool d_failed(struct rig_machine *m, int function)
{
    return (at.ones && function == at.function) || at.real->failed(m, function);
}

static enum rig_status d_save(struct rig_machine *m, json_t *out_state, struct rig_error *err)
{
    return at.real->save(m, out_state, err);
}

static void d_close(struct rig_machine *m)
{
    at.real->close(m);
}

static const struct rig_machine_ops double_ops = {
    .list = d_list,
    .take = d_take,
    .release = d_release,
    .config_read = d_config_read,
    .config_write = d_config_write,
    .bar = d_bar,
    .map_bar = d_map_bar,
    .alloc = d_alloc,
    .pin = d_pin,
    .see = d_see,
    .give = d_give,
    .reserve = d_reserve,
    .reset = d_reset,
    .failed = d_failed,
    .save = d_save,
    .close = d_close,
};

void double_before(struct rig_machine *m)
{
    memset(&at, 0, sizeof at);
    at.real = m->ops;
    at.sleeper = -1;
    m->ops = &double_ops;
}

void double_end(struct rig_machine *m)
{
    m->ops = at.real;
    at.fault = DOUBLE_OFF;
}

void double_arm(enum double_fault fault, uint64_t n, int function)
{
    at.fault = fault;
    at.in = n;
    at.function = function;
    at.fired = at.ones = false;
}

bool double_fired(void)
{
    return at.fired;
}

void double_sleep(int function, bool asleep)
{
    at.sleeper = asleep ? function : -1;
}

uint64_t double_calls(void)
{
    return at.calls;
}
