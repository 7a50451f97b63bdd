/* AMD's registers in BAR 5 (Linux amdgpu: nbio_v*.c, gmc_v9_0.c and later, gfxhub_v*.c). The blocks
   that translate lie where the discovery table says, and there may be several of each; this library
   does not read that table, so it asks none of them for a flush: a GPU never confirms. */
#include "gpu/vendor.h"

#define AMD_VENDOR 0x1002
#define REGISTER_BAR 5
#define CONFIG_MEMSIZE 0x378cu /* RCC_CONFIG_MEMSIZE, dword 0xde3: MiB; all ones: not up */

static bool knows(struct gpu_part *io_part)
{
    const struct rig_topology *t = device_machine(io_part->device)->topology;
    struct rig_fact vendor = rig_topology_function(t, device_function(io_part->device))->vendor;
    return rig_fact_has(vendor) && vendor.value == AMD_VENDOR &&
           part_view(io_part, REGISTER_BAR, CONFIG_MEMSIZE, 4);
}

static uint64_t memory(const struct gpu_part *part)
{
    uint32_t mib = part_read(part, CONFIG_MEMSIZE);
    return mib == UINT32_MAX ? 0 : (uint64_t)mib << 20;
}

const struct gpu_vendor vendor_amd = {
    .name = "amd",
    .knows = knows,
    .memory = memory,
};
