#include "machine/functions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* PCI Local Bus 3.0, 6.2.2: the command register. */
#define COMMAND 0x04u
#define COMMAND_MEMORY 0x2u
#define COMMAND_MASTER 0x4u

const char *rig_life_name(enum rig_life life)
{
    static const char *const name[] = {"taken", "releasing", "released", "kept-taken", "stopped"};
    return name[life];
}

static const char *name_of(const struct rig_device *dev, char text[RIG_BDF_MAX])
{
    return rig_bdf_format(device_bdf(dev), text);
}

/* Whether the command register says that the function masters no more. All ones say nothing: that
   is how a function reads that is gone or asleep, and it may be back. */
static bool reads_off(struct rig_machine *m, int function)
{
    uint32_t command = m->ops->config_read(m, function, COMMAND, 2);
    return command != 0xffff && (command & COMMAND_MASTER) == 0;
}

bool machine_masters(struct rig_machine *m, int function)
{
    return !reads_off(m, function) && !m->ops->failed(m, -1);
}

/* ---- facts of a device */

struct rig_machine *device_machine(const struct rig_device *dev)
{
    return dev->machine;
}

int device_function(const struct rig_device *dev)
{
    return dev->function;
}

struct rig_bdf device_bdf(const struct rig_device *dev)
{
    return rig_topology_function(dev->machine->topology, dev->function)->bdf;
}

enum rig_addressing device_addressing(const struct rig_device *dev)
{
    return dev->addressing;
}

bool device_failed(const struct rig_device *dev)
{
    return dev->machine->ops->failed(dev->machine, dev->function);
}

enum rig_status device_fail(const struct rig_device *dev, struct rig_error *err)
{
    char name[RIG_BDF_MAX];
    const struct rig_error *broken = machine_broken(dev->machine);
    if (broken)
        return rig_fail(err, RIG_FAILED, broken->what, "%s", broken->why);
    if (dev->machine->ops->failed(dev->machine, -1))
        return rig_fail(err, RIG_FAILED, name_of(dev, name), "the machine failed");
    return rig_fail(err, RIG_FAILED, name_of(dev, name), "it left the bus: it reads all ones");
}

enum rig_life rig_device_life(const struct rig_device *dev)
{
    functions_lock(dev->machine);
    enum rig_life life = dev->life;
    functions_unlock(dev->machine);
    return life;
}

bool device_masters(const struct rig_device *dev)
{
    functions_lock(dev->machine);
    bool off = dev->off;
    functions_unlock(dev->machine);
    return !off;
}

bool device_gave_back(const struct rig_device *dev)
{
    functions_lock(dev->machine);
    bool gave_back = dev->gave_back;
    functions_unlock(dev->machine);
    return gave_back;
}

enum rig_status device_must_be_taken(const struct rig_device *dev, struct rig_error *err)
{
    if (rig_device_life(dev) == RIG_LIFE_TAKEN)
        return RIG_OK;
    char name[RIG_BDF_MAX];
    return rig_fail(err, RIG_INVALID, name_of(dev, name), "it was released");
}

void device_set_dma_bits(struct rig_device *dev, unsigned bits)
{
    dev->bits = bits;
}

/* ---- configuration space */

uint32_t device_config_read(const struct rig_device *dev, unsigned offset, unsigned width)
{
    return dev->machine->ops->config_read(dev->machine, dev->function, offset, width);
}

void device_config_write(struct rig_device *dev, unsigned offset, unsigned width, uint32_t value)
{
    functions_lock(dev->machine);
    bool may = dev->life == RIG_LIFE_TAKEN || (dev->life == RIG_LIFE_RELEASING && dev->uses > 0);
    functions_unlock(dev->machine);
    if (may)
        dev->machine->ops->config_write(dev->machine, dev->function, offset, width, value);
}

unsigned device_find_capability(const struct rig_device *dev, unsigned id)
{
    /* PCI Local Bus 3.0, 6.7: status bit 4, then a list whose items are four bytes apart at least.
     */
    uint32_t status = device_config_read(dev, 0x06, 2);
    if (status == 0xffff || (status & 0x10) == 0)
        return 0;
    unsigned at = device_config_read(dev, 0x34, 1) & 0xfc;
    for (int steps = 0; at >= 0x40 && steps < 48; steps++) {
        uint32_t head = device_config_read(dev, at, 2);
        if (head == 0xffff)
            return 0;
        if ((head & 0xff) == id)
            return at;
        at = head >> 8 & 0xfc;
    }
    return 0;
}

unsigned device_find_extended(const struct rig_device *dev, unsigned id)
{
    /* PCI Express base specification, 7.6.3: the extended list begins at 0x100. */
    unsigned at = 0x100;
    for (int steps = 0; at >= 0x100 && steps < 960; steps++) {
        uint32_t head = device_config_read(dev, at, 4);
        if (head == 0 || head == UINT32_MAX)
            return 0;
        if ((head & 0xffff) == id)
            return at;
        at = head >> 20 & 0xffc;
    }
    return 0;
}

enum rig_status rig_device_set_master(struct rig_device *dev, bool on, struct rig_error *err)
{
    enum rig_status status = device_must_be_taken(dev, err);
    if (status != RIG_OK)
        return status;
    char name[RIG_BDF_MAX];
    uint32_t command = device_config_read(dev, COMMAND, 2);
    if (command == 0xffff)
        return device_fail(dev, err);
    command = on ? command | COMMAND_MASTER : command & ~COMMAND_MASTER;
    device_config_write(dev, COMMAND, 2, command);
    uint32_t back = device_config_read(dev, COMMAND, 2);
    if (back == 0xffff)
        return device_fail(dev, err);
    if ((back & COMMAND_MASTER) != (command & COMMAND_MASTER))
        return rig_fail(err, RIG_FAILED, name_of(dev, name),
                        "its bus mastering did not turn %s: its command register reads 0x%04x",
                        on ? "on" : "off", (unsigned)back);
    return RIG_OK;
}

enum rig_status device_reset(struct rig_device *dev, struct rig_error *err)
{
    enum rig_status status = device_must_be_taken(dev, err);
    return status == RIG_OK ? dev->machine->ops->reset(dev->machine, dev->function, err) : status;
}

/* ---- uses */

enum rig_status device_use(struct rig_device *dev, struct rig_error *err)
{
    functions_lock(dev->machine);
    bool taken = dev->life == RIG_LIFE_TAKEN;
    if (taken)
        dev->uses++;
    functions_unlock(dev->machine);
    return taken ? RIG_OK : device_must_be_taken(dev, err);
}

void device_unuse(struct rig_device *dev)
{
    functions_lock(dev->machine);
    dev->uses--;
    bool due = dev->uses == 0 && dev->life == RIG_LIFE_RELEASING;
    functions_unlock(dev->machine);
    if (due)
        device_finish(dev, NULL);
}

/* ---- releases */

/* Turns mastering off and reads it back; true when it is off, or the machine is gone for good. */
static bool turn_off(struct rig_device *dev)
{
    struct rig_machine *m = dev->machine;
    uint32_t command = m->ops->config_read(m, dev->function, COMMAND, 2);
    if (command != 0xffff && (command & COMMAND_MASTER) != 0)
        m->ops->config_write(m, dev->function, COMMAND, 2, command & ~COMMAND_MASTER);
    return !machine_masters(m, dev->function);
}

static bool is_kept(const struct rig_device *dev)
{
    return dev->keepers > 0 && !dev->machine->functions->ending;
}

/* The claim goes back; whoever may keep the function was asked under the lock before. */
static enum rig_status give_claim_back(struct rig_device *dev, struct rig_error *err)
{
    struct rig_machine *m = dev->machine;
    enum rig_status status = m->ops->release(m, dev->function, err);
    functions_lock(m);
    dev->stopping = false;
    if (status == RIG_OK) {
        dev->life = RIG_LIFE_STOPPED;
        m->functions->by_function[dev->function] = NULL;
    }
    functions_unlock(m);
    return status;
}

/* One try to bring a release on as far as it goes: off, no use, given back, not kept, claim. */
static enum rig_status finish_once(struct rig_device *dev, struct rig_error *err)
{
    struct rig_machine *m = dev->machine;
    bool off = !device_masters(dev) || turn_off(dev);
    functions_lock(m);
    dev->off = off;
    bool used = dev->uses > 0;
    if (!used)
        dev->life = !off ? RIG_LIFE_RELEASED : is_kept(dev) ? RIG_LIFE_KEPT : RIG_LIFE_RELEASING;
    bool reserved = device_has_reservation(dev);
    functions_unlock(m);
    char name[RIG_BDF_MAX];
    if (!off)
        return rig_fail(err, RIG_FAILED, name_of(dev, name),
                        "it may still master the bus: its command register reads 0x%04x",
                        (unsigned)m->ops->config_read(m, dev->function, COMMAND, 2));
    if (used)
        return RIG_OK;
    if (reserved)
        return device_give_back_let_go(dev, err);
    enum rig_status status = device_give_back(dev, err);
    if (status != RIG_OK)
        return status;
    functions_lock(m);
    dev->gave_back = true;
    bool kept = is_kept(dev);
    dev->stopping = !kept;
    functions_unlock(m);
    return kept ? RIG_OK : give_claim_back(dev, err);
}

enum rig_status device_finish(struct rig_device *dev, struct rig_error *err)
{
    struct rig_machine *m = dev->machine;
    functions_lock(m);
    bool mine = !dev->busy && dev->life != RIG_LIFE_TAKEN && dev->life != RIG_LIFE_STOPPED;
    if (mine)
        dev->busy = true;
    else if (dev->busy)
        dev->again = true;
    functions_unlock(m);
    enum rig_status status = RIG_OK;
    while (mine) {
        status = finish_once(dev, err);
        functions_lock(m);
        mine = dev->again && dev->life != RIG_LIFE_STOPPED;
        dev->again = false;
        dev->busy = mine;
        functions_unlock(m);
    }
    return status;
}

enum rig_status rig_device_release(struct rig_device *dev, struct rig_error *err)
{
    functions_lock(dev->machine);
    if (dev->life == RIG_LIFE_TAKEN)
        dev->life = RIG_LIFE_RELEASING;
    functions_unlock(dev->machine);
    return device_finish(dev, err);
}

void machine_finish_releases(struct rig_machine *m)
{
    /* Devices are only ever added, at the front. */
    functions_lock(m);
    struct rig_device *first = m->functions->devices;
    functions_unlock(m);
    for (struct rig_device *dev = first; dev; dev = dev->next)
        device_finish(dev, NULL);
}

enum rig_status rig_machine_close(struct rig_machine *take_machine, struct rig_error *err)
{
    struct rig_machine *m = take_machine;
    m->functions->ending = true;
    /* Every function stops before anything goes back, since one may write what another holds. */
    for (struct rig_device *dev = m->functions->devices; dev; dev = dev->next)
        if (dev->life != RIG_LIFE_STOPPED)
            dev->off = dev->off || turn_off(dev);
    enum rig_status status = RIG_OK;
    for (struct rig_device *dev = m->functions->devices; dev; dev = dev->next) {
        dev->uses = 0;
        enum rig_status one = rig_device_release(dev, err);
        status = status == RIG_OK ? one : status;
    }
    m->ops->close(m);
    return status;
}

/* ---- taking */

static enum rig_status refuse_second_take(struct rig_device *dev, struct rig_error *err)
{
    char name[RIG_BDF_MAX], who[160];
    switch (rig_device_life(dev)) {
    case RIG_LIFE_RELEASING:
        rig_fail(err, RIG_REFUSED, name_of(dev, name), "its release is not finished");
        rig_hint(err, "a request is under way, or the give-back was cut short: take it again");
        break;
    case RIG_LIFE_TAKEN:
        rig_fail(err, RIG_REFUSED, name_of(dev, name), "this session has it");
        rig_hint(err, "release it first");
        break;
    case RIG_LIFE_KEPT:
        rig_fail(err, RIG_REFUSED, name_of(dev, name), "it is kept taken: %s",
                 device_kept_why(dev, who, sizeof who));
        rig_hint(err, device_reserved(dev) ? "it stays so until the session ends"
                                           : "free what maps its memory first");
        break;
    default:
        rig_fail(err, RIG_REFUSED, name_of(dev, name),
                 "it was released and may still master the bus");
        rig_hint(err, "its bus mastering must read back as off first");
        break;
    }
    return RIG_REFUSED;
}

struct rig_device *device_enter(struct rig_device *dev)
{
    struct rig_functions *all = dev->machine->functions;
    functions_lock(dev->machine);
    struct rig_device *other = all->by_function[dev->function];
    if (!other) {
        all->by_function[dev->function] = dev;
        dev->next = all->devices;
        all->devices = dev;
    }
    functions_unlock(dev->machine);
    return other;
}

static enum rig_status take(struct rig_device *dev, struct rig_error *err)
{
    struct rig_machine *m = dev->machine;
    enum rig_status status = m->ops->take(m, dev->function, err);
    functions_lock(m);
    dev->life = status == RIG_OK ? RIG_LIFE_TAKEN : RIG_LIFE_STOPPED;
    if (status != RIG_OK)
        m->functions->by_function[dev->function] = NULL;
    functions_unlock(m);
    return status;
}

enum rig_status rig_device_take(struct rig_machine *m, const char *function,
                                struct rig_device **out_device, struct rig_error *err)
{
    int i = rig_topology_find(m->topology, function);
    if (i < 0)
        return rig_fail(err, RIG_INVALID, function, "no such function on this machine");
    struct rig_function_now now;
    m->ops->list(m, i, &now);
    if (!now.endpoint)
        return rig_fail(err, RIG_REFUSED, function, "it is a bridge, which cannot be taken");
    struct rig_device *before = machine_device(m, i);
    if (before)
        device_finish(before, NULL);
    struct rig_device *dev = device_new(m, i);
    if (!dev)
        return rig_fail_memory(err);
    dev->addressing = now.addressing;
    before = device_enter(dev);
    if (before) {
        device_drop(dev);
        return refuse_second_take(before, err);
    }
    enum rig_status status = take(dev, err);
    if (status == RIG_OK)
        *out_device = dev;
    return status;
}
