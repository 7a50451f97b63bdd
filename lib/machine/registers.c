#include "machine/registers.h"

unsigned twin_gpu_registers(const struct rig_device *dev)
{
    unsigned at = device_find_capability(dev, TWIN_GPU_CAPABILITY);
    if (at == 0 || device_config_read(dev, at + TWIN_GPU_SIGN, 4) != TWIN_GPU_SIGNATURE)
        return 0;
    return at;
}

uint64_t twin_gpu_own_base(const struct rig_device *dev, unsigned registers)
{
    uint64_t low = device_config_read(dev, registers + TWIN_GPU_BASE_LOW, 4);
    uint64_t high = device_config_read(dev, registers + TWIN_GPU_BASE_HIGH, 4);
    return high << 32 | low;
}

void twin_gpu_set_root(struct rig_device *dev, unsigned registers, uint64_t address, bool system)
{
    device_config_write(dev, registers + TWIN_GPU_ROOT_LOW, 4, (uint32_t)address);
    device_config_write(dev, registers + TWIN_GPU_ROOT_HIGH, 4, (uint32_t)(address >> 32));
    device_config_write(dev, registers + TWIN_GPU_CONTROL, 4,
                        TWIN_GPU_TRANSLATE | (system ? TWIN_GPU_ROOT_SYSTEM : 0));
}

enum rig_status twin_gpu_flush(struct rig_device *dev, unsigned registers, bool *out_confirmed,
                               struct rig_error *err)
{
    uint32_t last = device_config_read(dev, registers + TWIN_GPU_FLUSH, 4);
    if (last == UINT32_MAX) {
        *out_confirmed = false;
        return RIG_OK;
    }
    /* A token next to the last one asked for is told from every earlier flush's confirmation, also
       one that comes late. It is never 0, nor all ones. */
    uint32_t token = last >= INT32_MAX ? 1 : last + 1;
    device_config_write(dev, registers + TWIN_GPU_FLUSH, 4, token);
    if (device_config_read(dev, registers + TWIN_GPU_FLUSH_CUT, 4) == 1)
        return rig_fail(err, RIG_FAILED, NULL, "the flush was cut short");
    bool confirmed = false;
    for (int polls = 0; polls < TWIN_GPU_FLUSH_POLLS && !confirmed; polls++)
        confirmed = device_config_read(dev, registers + TWIN_GPU_FLUSHED, 4) == token;
    *out_confirmed = confirmed;
    return RIG_OK;
}
