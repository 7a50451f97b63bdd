/* NVIDIA's registers in BAR 0 (open-gpu-kernel-modules, dev_vm.h, dev_boot.h, dev_fb.h; nouveau,
   vmmgp100.c, vmmtu102.c). Flushes ask for all addresses of all page directories, which needs no
   name of one. */
#include "gpu/vendor.h"

#define NV_VENDOR 0x10de
#define PMC_BOOT_42 0xa00u /* bits 29:24 the architecture */
#define MMU_LOCAL_MEMORY_RANGE 0x100ce0u
#define USABLE_MIB 0x1183a4u
#define PASCAL 0x13u
#define VOLTA_LAST 0x15u
#define TURING 0x16u
#define AMPERE 0x17u
#define VIEW_BYTES 0x1000000u

/* Turing and later: the private part of the virtual functions' block, at 0xb80000. */
#define VF_INVALIDATE 0xb830b0u
/* Pascal and Volta. */
#define FB_CONTROL 0x100c80u /* bits 23:16: free slots; bit 15: the queue is empty */
#define FB_INVALIDATE 0x100cbcu

#define TRIGGER 0x80000000u
#define ALL_ADDRESSES 0x1u
#define ALL_DIRECTORIES 0x2u
#define SYSTEM_MEMBAR 0x40u
#define WAIT_MS 2000u

static bool knows(struct gpu_part *io_part)
{
    const struct rig_topology *t = device_machine(io_part->device)->topology;
    struct rig_fact vendor = rig_topology_function(t, device_function(io_part->device))->vendor;
    if (!rig_fact_has(vendor) || vendor.value != NV_VENDOR || !part_view(io_part, 0, 0, VIEW_BYTES))
        return false;
    uint32_t boot = part_read(io_part, PMC_BOOT_42);
    io_part->generation = boot >> 24 & 0x3f;
    if (boot != UINT32_MAX && io_part->generation >= PASCAL)
        return true;
    part_close(io_part);
    return false;
}

static uint64_t memory(const struct gpu_part *part)
{
    if (part->generation > AMPERE) {
        uint32_t mib = part_read(part, USABLE_MIB);
        return mib == UINT32_MAX ? 0 : (uint64_t)mib << 20;
    }
    /* GA100 has the range, GA10x the size in MiB; one of the two reads as no size elsewhere. */
    if (part->generation == AMPERE)
        return 0;
    uint32_t range = part_read(part, MMU_LOCAL_MEMORY_RANGE);
    if (range == UINT32_MAX)
        return 0;
    uint64_t bytes = (uint64_t)(range >> 4 & 0x3f) << ((range & 0xf) + 20);
    return (range >> 30 & 1) != 0 ? bytes / 16 * 15 : bytes;
}

static enum rig_status flush(const struct gpu_part *part, bool *out_confirmed,
                             struct rig_error *err)
{
    (void)err;
    *out_confirmed = false;
    bool queued = part->generation <= VOLTA_LAST;
    uint64_t at = queued ? FB_INVALIDATE : VF_INVALIDATE;
    /* A command under way is let end first: one that is overwritten says nothing. */
    if (queued ? !part_wait(part, FB_CONTROL, 0x8000, 0x8000, WAIT_MS)
               : !part_wait(part, at, TRIGGER, 0, WAIT_MS))
        return RIG_OK;
    part_write(part, at, TRIGGER | ALL_ADDRESSES | ALL_DIRECTORIES | SYSTEM_MEMBAR);
    *out_confirmed = queued ? part_wait(part, FB_CONTROL, 0x8000, 0x8000, WAIT_MS)
                            : part_wait(part, at, TRIGGER, 0, WAIT_MS);
    return RIG_OK;
}

const struct gpu_vendor vendor_nvidia = {
    .name = "nvidia",
    .knows = knows,
    .memory = memory,
    .flush = flush,
};
