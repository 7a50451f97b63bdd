/* The registers of a twin's GPU, and how a driver uses them. Every function that a twin's topology
   calls a GPU has them, whatever its vendor and page-table format, in configuration space: they
   need no BAR and no memory decode. A vendor's own registers are not modelled; a driver that finds
   these uses them instead.

   They are a vendor-specific capability (id 0x09, PCI Local Bus 3.0, appendix H), TWIN_GPU_LENGTH
   bytes long, told from others by its signature. All registers are 32 bits. Not public. */
#ifndef RIG_REGISTERS_H
#define RIG_REGISTERS_H

#include "machine/function.h"

#define TWIN_GPU_CAPABILITY 0x09u
#define TWIN_GPU_LENGTH 0x28u
#define TWIN_GPU_SIGNATURE 0x54474952u

enum twin_gpu_register {
    TWIN_GPU_SIGN = 0x04,      /* TWIN_GPU_SIGNATURE; read only */
    TWIN_GPU_ROOT_LOW = 0x08,  /* address of the root table, in the format's terms for own memory */
    TWIN_GPU_ROOT_HIGH = 0x0c, /* (rig_root), or a bus address */
    TWIN_GPU_CONTROL = 0x10,   /* bit 0: translate; bit 1: the root table is in system memory */
    TWIN_GPU_FLUSH = 0x14,     /* writing a token, not 0, asks to empty the translation cache */
    TWIN_GPU_FLUSHED = 0x18,   /* the token of the last flush that is confirmed; read only */
    TWIN_GPU_FLUSH_CUT = 0x1c, /* 1: the last flush asked for was cut short; read only */
    TWIN_GPU_BASE_LOW = 0x20,  /* where the GPU's own memory begins, in its entries' terms; it is */
    TWIN_GPU_BASE_HIGH = 0x24, /* not 0 only in a fabric of one physical space; read only */
};

#define TWIN_GPU_TRANSLATE 0x1u
#define TWIN_GPU_ROOT_SYSTEM 0x2u

/* A driver reads TWIN_GPU_FLUSHED at most this often for a confirmation: each read is a millisecond
   of the twin's time. A confirmation that comes later is too late. */
#define TWIN_GPU_FLUSH_POLLS 100

/* twin_gpu_registers is the offset of the registers in the function's configuration space, or 0
   where it has none. */
unsigned twin_gpu_registers(const struct rig_device *dev);

/* twin_gpu_own_base is where the GPU's own memory begins, in its entries' terms. */
uint64_t twin_gpu_own_base(const struct rig_device *dev, unsigned registers);

/* twin_gpu_set_root names the root table, of own memory or of system memory, and has the GPU
   translate by it. It flushes nothing. */
void twin_gpu_set_root(struct rig_device *dev, unsigned registers, uint64_t address, bool system);

/* twin_gpu_flush asks the GPU to empty its translation cache and makes *out_confirmed whether it
   confirmed that in time; all ones never confirm. RIG_FAILED: the flush was cut short. */
enum rig_status twin_gpu_flush(struct rig_device *dev, unsigned registers, bool *out_confirmed,
                               struct rig_error *err);

#endif
