#include "gpu/vendor.h"

#include "machine/registers.h"
#include "machine/twin.h"

#include <string.h>
#include <time.h>

#define MIB (UINT64_C(1) << 20)

/* ---- a twin's GPU */

static bool twin_knows(struct gpu_part *io_part)
{
    io_part->capability = twin_gpu_registers(io_part->device);
    return io_part->capability != 0;
}

static uint64_t twin_memory(const struct gpu_part *part)
{
    struct rig_machine *m = device_machine(part->device);
    return twin_is(m) ? twin_memory_bytes(m, device_function(part->device)) & ~UINT64_C(4095) : 0;
}

static uint64_t twin_own_base(const struct gpu_part *part)
{
    return twin_gpu_own_base(part->device, part->capability);
}

static void twin_set_root(const struct gpu_part *part, uint64_t address)
{
    twin_gpu_set_root(part->device, part->capability, address, false);
}

static enum rig_status twin_flush_it(const struct gpu_part *part, bool *out_confirmed,
                                     struct rig_error *err)
{
    return twin_gpu_flush(part->device, part->capability, out_confirmed, err);
}

const struct gpu_vendor vendor_twin = {
    .name = "twin",
    .knows = twin_knows,
    .memory = twin_memory,
    .own_base = twin_own_base,
    .set_root = twin_set_root,
    .flush = twin_flush_it,
};

/* ---- any other */

static bool knows_any(struct gpu_part *io_part)
{
    (void)io_part;
    return true;
}

static const struct gpu_vendor vendor_none = {.name = "none", .knows = knows_any};

/* ---- asking */

void part_open(struct rig_device *dev, const struct rig_format *format, struct gpu_part *out_part)
{
    static const struct gpu_vendor *const vendors[] = {&vendor_twin, &vendor_nvidia, &vendor_amd,
                                                       &vendor_none};
    *out_part = (struct gpu_part){.device = dev, .format = format};
    for (size_t i = 0; !out_part->vendor; i++)
        if (vendors[i]->knows(out_part))
            out_part->vendor = vendors[i];
}

void part_close(struct gpu_part *part)
{
    /* A view whose unmap is cut short is the function's. */
    if (part->registers)
        device_unmap(part->device, part->registers, NULL);
    part->registers = NULL;
}

uint64_t part_memory(const struct gpu_part *part)
{
    return part->vendor->memory ? part->vendor->memory(part) : 0;
}

uint64_t part_own_base(const struct gpu_part *part)
{
    return part->vendor->own_base ? part->vendor->own_base(part) : 0;
}

void part_set_root(const struct gpu_part *part, uint64_t address)
{
    if (part->vendor->set_root)
        part->vendor->set_root(part, address);
}

bool part_can_flush(const struct gpu_part *part)
{
    return part->vendor && part->vendor->flush;
}

enum rig_status part_flush(const struct gpu_part *part, bool *out_confirmed, struct rig_error *err)
{
    *out_confirmed = false;
    return part->vendor->flush ? part->vendor->flush(part, out_confirmed, err) : RIG_OK;
}

/* ---- registers */

bool part_view(struct gpu_part *part, int bar, uint64_t start, uint64_t bytes)
{
    struct rig_machine *m = device_machine(part->device);
    struct rig_bar_now now;
    uint64_t first = start & ~(m->page_size - 1), end;
    machine_bar(m, device_function(part->device), bar, &now);
    if (now.io || !rig_round_up(start + bytes, m->page_size, &end) || end > now.size)
        return false;
    part->registers_start = first;
    return device_map_bar(part->device, bar, first, end - first, false, &part->registers, NULL) ==
           RIG_OK;
}

uint32_t part_read(const struct gpu_part *part, uint64_t offset)
{
    uint32_t value;
    view_read(part->registers, offset - part->registers_start, &value, sizeof value);
    return value;
}

void part_write(const struct gpu_part *part, uint64_t offset, uint32_t value)
{
    view_write(part->registers, offset - part->registers_start, &value, sizeof value);
}

static uint64_t microseconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

bool part_wait(const struct gpu_part *part, uint64_t offset, uint32_t mask, uint32_t wanted,
               unsigned milliseconds)
{
    uint64_t end = microseconds_now() + (uint64_t)milliseconds * 1000;
    struct timespec pause = {.tv_nsec = 1000};
    for (;;) {
        bool last = microseconds_now() > end;
        uint32_t value = part_read(part, offset);
        if (value == UINT32_MAX)
            return false;
        if ((value & mask) == wanted)
            return true;
        if (last)
            return false;
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 1000000)
            pause.tv_nsec *= 2;
    }
}

void part_kept(const struct rig_format *format, uint64_t bytes, uint64_t *out_boot,
               uint64_t *out_end)
{
    /* What tinygrad's drivers leave: 32 MiB and 64 MiB on AMD, but 384 MiB at the end of GC 9.4 and
       9.5, which the further layout is of; 2 MiB and 64 MiB on NVIDIA. */
    uint64_t boot = 2 * MIB, end = 0;
    if (strcmp(format->vendor, "amd") == 0)
        boot = 32 * MIB;
    if (strcmp(format->vendor, "amd") == 0 || strcmp(format->vendor, "nvidia") == 0)
        end = 64 * MIB;
    if (strcmp(format->name, "amd-gfx9-further") == 0)
        end = 384 * MIB;
    uint64_t most = (bytes / 16) & ~UINT64_C(4095);
    *out_boot = boot < most ? boot : most;
    *out_end = end < most ? end : most;
}
