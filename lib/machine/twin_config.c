/* A twin function's configuration space: made from its facts, written as the bus writes it. Offsets
   and bits: PCI Local Bus 3.0, 6; PCI-to-PCI Bridge 1.2, 3.2; PCI Express base specification, 7. */
#include "machine/twins.h"

#include <limits.h>
#include <string.h>

#define COMMAND_BITS 0x0547u
#define FIRST_CAPABILITY 0x40u
#define FIRST_EXTENDED 0x100u

uint32_t config_get(const struct twin_function *f, unsigned offset, unsigned width)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < width; i++) {
        unsigned at = offset + i;
        uint8_t byte = at < TWIN_CONFIG ? f->config[at] : 0;
        if (at >= f->config_bytes)
            byte = 0xff;
        value |= (uint32_t)byte << 8 * i;
    }
    return value;
}

void config_set(struct twin_function *f, unsigned offset, unsigned width, uint32_t value)
{
    for (unsigned i = 0; i < width; i++)
        f->config[offset + i] = (uint8_t)(value >> 8 * i);
}

static void set_writable(struct twin_function *f, unsigned offset, unsigned width, uint32_t bits)
{
    for (unsigned i = 0; i < width; i++)
        f->writable[offset + i] = (uint8_t)(bits >> 8 * i);
}

/* ---- making */

static uint32_t value_or(struct rig_fact fact, uint32_t otherwise)
{
    return rig_fact_has(fact) ? (uint32_t)fact.value : otherwise;
}

static void make_head(struct twin_function *f)
{
    const struct rig_function *facts = f->facts;
    config_set(f, 0x00, 2, value_or(facts->vendor, 0xfffe));
    config_set(f, 0x02, 2, value_or(facts->device, 0));
    config_set(f, 0x08, 1, value_or(facts->revision, 0));
    config_set(f, 0x09, 3, value_or(facts->class_code, 0));
    config_set(f, 0x0e, 1, is_bridge(facts) ? (uint32_t)facts->header_type.value : 0);
    uint32_t command = value_or(facts->command, 0) & facts->command_mask;
    uint32_t unseen =
        rig_fact_has(facts->command) ? (uint32_t)~facts->command_mask & 0xffff : 0xffff;
    command |= unseen & 0x6;
    if (is_bridge(facts))
        command |= 0x6;
    else if (facts->gpu)
        command &= ~0x4u;
    config_set(f, 0x04, 2, command);
    set_writable(f, 0x04, 2, COMMAND_BITS);
    set_writable(f, 0x0c, 1, 0xff);
    set_writable(f, 0x3c, 1, 0xff);
    if (!is_bridge(facts)) {
        config_set(f, 0x2c, 2, value_or(facts->subsystem_vendor, 0));
        config_set(f, 0x2e, 2, value_or(facts->subsystem_device, 0));
    }
}

/* A window's 16-bit halves hold address bits 31:20. */
static void make_window(struct twin_function *f, const struct rig_window *window, unsigned at,
                        unsigned high)
{
    bool open = rig_fact_has(window->base) && rig_fact_has(window->limit);
    uint64_t base = open ? window->base.value : 0xfff00000;
    uint64_t limit = open ? window->limit.value : 0;
    uint32_t kind = high ? 1 : 0;
    config_set(f, at, 2, ((uint32_t)(base >> 16) & 0xfff0) | kind);
    config_set(f, at + 2, 2, ((uint32_t)(limit >> 16) & 0xfff0) | kind);
    set_writable(f, at, 4, 0xfff0fff0);
    if (!high)
        return;
    config_set(f, high, 4, (uint32_t)(base >> 32));
    config_set(f, high + 4, 4, (uint32_t)(limit >> 32));
    set_writable(f, high, 4, UINT32_MAX);
    set_writable(f, high + 4, 4, UINT32_MAX);
}

static void make_bridge(struct twin_function *f)
{
    const struct rig_function *facts = f->facts;
    config_set(f, 0x18, 1, value_or(facts->primary, facts->bdf.bus));
    config_set(f, 0x19, 1, value_or(facts->secondary, 0));
    config_set(f, 0x1a, 1, value_or(facts->subordinate, 0));
    set_writable(f, 0x18, 3, 0xffffff);
    make_window(f, &facts->memory, 0x20, 0);
    make_window(f, &facts->prefetchable, 0x24, 0x28);
    f->open_window = facts->memory.base.know == RIG_FACT_UNKNOWN ||
                     facts->prefetchable.base.know == RIG_FACT_UNKNOWN;
}

static void make_bars(struct twin_function *f)
{
    int bars = is_bridge(f->facts) ? 2 : RIG_BAR_COUNT;
    for (int i = 0; i < bars; i++) {
        const struct rig_bar *facts = &f->facts->bar[i];
        struct twin_bar *bar = &f->bar[i];
        if (!rig_fact_has(facts->flags) || !rig_fact_has(facts->size) ||
            !rig_power_of_two(facts->size.value))
            continue;
        uint32_t flags = (uint32_t)facts->flags.value;
        bar->io = (flags & RIG_BAR_IO) != 0;
        bar->wide = (flags & RIG_BAR_64BIT) != 0 && i + 1 < bars;
        bar->prefetchable = (flags & RIG_BAR_PREFETCHABLE) != 0;
        bar->fixed = (flags & RIG_BAR_VIRTUAL) != 0;
        bar->size = facts->size.value;
        bar->assigned = rig_fact_has(facts->bus);
        bar->base = bar->assigned ? facts->bus.value : 0;
        if (bar->fixed)
            continue;
        uint32_t low = bar->io ? 1 : (bar->wide ? 4u : 0) | (bar->prefetchable ? 8u : 0);
        unsigned at = 0x10 + 4 * (unsigned)i;
        uint64_t mask = ~(bar->size - 1) & (bar->io ? ~UINT64_C(3) : ~UINT64_C(15));
        config_set(f, at, 4, (uint32_t)(bar->base & mask) | low);
        set_writable(f, at, 4, (uint32_t)mask);
        if (!bar->wide)
            continue;
        config_set(f, at + 4, 4, (uint32_t)(bar->base >> 32));
        set_writable(f, at + 4, 4, (uint32_t)(mask >> 32));
    }
}

/* Link speeds in the registers' numbers: 1 is 2.5 GT/s, each next one the next generation's. */
static uint32_t speed_number(struct rig_fact speed)
{
    static const unsigned speeds[] = {25, 50, 80, 160, 320, 640};
    for (unsigned i = 0; i < RIG_ARRAY_LENGTH(speeds); i++)
        if (fact_is(speed, speeds[i]))
            return i + 1;
    return 0;
}

static unsigned make_express(struct twin_function *f, unsigned at)
{
    const struct rig_function *facts = f->facts;
    config_set(f, at, 1, 0x10);
    config_set(f, at + 2, 2, 2u | value_or(facts->pcie_type, RIG_PCIE_ENDPOINT) << 4);
    config_set(f, at + 0x0c, 4,
               speed_number(facts->max_speed) | value_or(facts->max_width, 0) << 4);
    config_set(f, at + 0x12, 2,
               speed_number(facts->link_speed) | value_or(facts->link_width, 0) << 4);
    return at + 0x3c;
}

static unsigned make_registers(struct twin_function *f, unsigned at)
{
    f->registers = at;
    config_set(f, at, 1, TWIN_GPU_CAPABILITY);
    config_set(f, at + 2, 1, TWIN_GPU_LENGTH);
    config_set(f, at + TWIN_GPU_SIGN, 4, TWIN_GPU_SIGNATURE);
    set_writable(f, at + TWIN_GPU_ROOT_LOW, 4, UINT32_MAX);
    set_writable(f, at + TWIN_GPU_ROOT_HIGH, 4, UINT32_MAX);
    set_writable(f, at + TWIN_GPU_CONTROL, 4, TWIN_GPU_TRANSLATE | TWIN_GPU_ROOT_SYSTEM);
    set_writable(f, at + TWIN_GPU_FLUSH, 4, UINT32_MAX);
    return at + TWIN_GPU_LENGTH;
}

static void make_capabilities(struct twin_function *f)
{
    bool acs = rig_fact_has(f->facts->acs_control) || rig_fact_has(f->facts->acs_capability);
    bool express = rig_fact_has(f->facts->pcie_type) || acs;
    unsigned at = FIRST_CAPABILITY, link = 0x34;
    f->config_bytes = express ? 4096 : 256;
    if (express) {
        config_set(f, link, 1, at);
        link = at + 1;
        at = make_express(f, at);
    }
    if (f->gpu) {
        config_set(f, link, 1, at);
        at = make_registers(f, at);
    }
    if (at != FIRST_CAPABILITY)
        config_set(f, 0x06, 2, 0x10);
    if (!acs)
        return;
    f->acs = FIRST_EXTENDED;
    uint32_t offers = value_or(f->facts->acs_capability, 0x7f);
    config_set(f, f->acs, 4, 0x0001000d);
    config_set(f, f->acs + 4, 2, offers);
    config_set(f, f->acs + 6, 2, value_or(f->facts->acs_control, 0));
    set_writable(f, f->acs + 6, 2, 0x7f);
}

void config_make(struct twin *w, int function)
{
    struct twin_function *f = &w->function[function];
    memset(f->config, 0, sizeof f->config);
    memset(f->writable, 0, sizeof f->writable);
    make_head(f);
    make_bars(f);
    if (is_bridge(f->facts))
        make_bridge(f);
    make_capabilities(f);
}

/* ---- writing */

void config_follow(struct twin_function *f)
{
    for (int i = 0; i < RIG_BAR_COUNT; i++) {
        struct twin_bar *bar = &f->bar[i];
        if (bar->size == 0 || bar->fixed)
            continue;
        unsigned at = 0x10 + 4 * (unsigned)i;
        uint64_t base = config_get(f, at, 4) & (bar->io ? ~3u : ~15u);
        if (bar->wide)
            base |= (uint64_t)config_get(f, at + 4, 4) << 32;
        bar->base = base;
        bar->assigned = base != 0;
    }
}

static unsigned looks_of(struct twin *w, const struct twin_gpu *gpu)
{
    if (gpu->flush == TWIN_FLUSH_NEVER)
        return UINT_MAX;
    if (gpu->flush == TWIN_FLUSH_LATE)
        return TWIN_GPU_FLUSH_POLLS + 1;
    /* One to three looks, by the seed and the time. */
    uint64_t mixed = (w->seed ^ w->clock) * UINT64_C(0x9e3779b97f4a7c15);
    return 1 + (unsigned)(mixed >> 33) % 3;
}

static void start_flush(struct twin *w, int function)
{
    struct twin_function *f = &w->function[function];
    unsigned at = f->registers;
    enum rig_status status = fault_step(w, TWIN_STEP_FLUSH, function, NULL);
    config_set(f, at + TWIN_GPU_FLUSH_CUT, 4, status != RIG_OK);
    f->gpu->asked = 0;
    if (status != RIG_OK)
        return;
    f->gpu->asked = config_get(f, at + TWIN_GPU_FLUSH, 4);
    f->gpu->looks = looks_of(w, f->gpu);
    if (f->gpu->flush != TWIN_FLUSH_NEVER)
        engine_empty_cache(f->gpu);
}

void config_put(struct twin *w, int function, unsigned offset, unsigned width, uint32_t value)
{
    struct twin_function *f = &w->function[function];
    for (unsigned i = 0; i < width && offset + i < TWIN_CONFIG; i++) {
        uint8_t bits = f->writable[offset + i];
        uint8_t byte = (uint8_t)(value >> 8 * i);
        f->config[offset + i] = (uint8_t)((f->config[offset + i] & ~bits) | (byte & bits));
    }
    if (offset >= 0x10 && offset < 0x28)
        config_follow(f);
    if (f->registers && offset == f->registers + TWIN_GPU_FLUSH && f->gpu)
        start_flush(w, function);
}

/* A look at the confirmation: a millisecond passes, and the flush that runs may be done. */
static void look_at_flush(struct twin *w, struct twin_function *f)
{
    w->clock += 1000;
    struct twin_gpu *gpu = f->gpu;
    if (gpu->asked == 0 || gpu->looks == UINT_MAX)
        return;
    if (--gpu->looks > 0)
        return;
    config_set(f, f->registers + TWIN_GPU_FLUSHED, 4, gpu->asked);
    gpu->asked = 0;
}

uint32_t config_look(struct twin *w, int function, unsigned offset, unsigned width)
{
    struct twin_function *f = &w->function[function];
    if (f->registers && offset == f->registers + TWIN_GPU_FLUSHED)
        look_at_flush(w, f);
    return config_get(f, offset, width);
}
