/* What differs between GPUs beside their page-table format: how much memory there is, what of it a
   driver leaves to firmware, how the GPU is told of its root table, and how a flush is asked for
   and confirmed. One constant table a family; a GPU is asked by the first that knows it:

   - a twin's GPU, whatever its ids, by the registers of machine/registers.h;
   - families whose registers we know, by their vendor's;
   - any other by none: it never confirms a flush.

   Not public. */
#ifndef RIG_VENDOR_H
#define RIG_VENDOR_H

#include "gpu/format/format.h"
#include "machine/function.h"

/* A GPU as its vendor's functions see it. */
struct gpu_part {
    struct rig_device *device;
    const struct gpu_vendor *vendor;
    const struct rig_format *format;
    struct rig_view *registers; /* on the BAR of registers, or NULL; ended by part_close */
    uint64_t registers_start;   /* the view's first byte in that BAR */
    unsigned capability;        /* a twin's registers in configuration space; else 0 */
    uint32_t generation;        /* the family's own */
};

struct gpu_vendor {
    const char *name;
    /* is true iff the family knows this GPU; fills in what of io_part is its own. A false leaves
       nothing held. Called in the tables' order, the device taken. */
    bool (*knows)(struct gpu_part *io_part);
    /* is how many bytes of memory the GPU says it has, 0 where it does not say. May be NULL. */
    uint64_t (*memory)(const struct gpu_part *part);
    /* is what its entries add to an offset into its own memory. NULL: 0. */
    uint64_t (*own_base)(const struct gpu_part *part);
    /* names the root table, at `address` of own memory in the entries' terms. NULL: the driver of
       the GPU does. */
    void (*set_root)(const struct gpu_part *part, uint64_t address);
    /* asks the GPU to forget every translation, once what was written through its BAR has arrived,
       and makes *out_confirmed whether it said in time that it did. All ones is no confirmation.
       NULL: it cannot be asked. RIG_FAILED: cut short. */
    enum rig_status (*flush)(const struct gpu_part *part, bool *out_confirmed,
                             struct rig_error *err);
};

extern const struct gpu_vendor vendor_twin, vendor_nvidia, vendor_amd;

/* part_open fills in *out_part for the GPU. It never fails: a GPU that nobody knows has the vendor
   that cannot be asked. */
void part_open(struct rig_device *dev, const struct rig_format *format, struct gpu_part *out_part);

/* part_close ends its view of registers. */
void part_close(struct gpu_part *part);

uint64_t part_memory(const struct gpu_part *part);
uint64_t part_own_base(const struct gpu_part *part);
void part_set_root(const struct gpu_part *part, uint64_t address);
bool part_can_flush(const struct gpu_part *part);
enum rig_status part_flush(const struct gpu_part *part, bool *out_confirmed, struct rig_error *err);

/* part_view makes part->registers a view of [start, start + bytes) of BAR `bar`, widened to whole
   pages of the machine; false where there is none. */
bool part_view(struct gpu_part *part, int bar, uint64_t start, uint64_t bytes);

/* part_read and part_write reach the 32-bit register at `offset` of that BAR, within the view. */
uint32_t part_read(const struct gpu_part *part, uint64_t offset);
void part_write(const struct gpu_part *part, uint64_t offset, uint32_t value);

/* part_wait reads the register at `offset` until (value & mask) == wanted, at most `milliseconds`
   long; false where that does not come, or the register reads all ones. */
bool part_wait(const struct gpu_part *part, uint64_t offset, uint32_t mask, uint32_t wanted,
               unsigned milliseconds);

/* part_kept is what drivers of the format leave at the memory's beginning for what they need before
   there are page tables, and at its end for the GPU's firmware, of `bytes` bytes in all; multiples
   of 4 KiB, and together at most an eighth of it. */
void part_kept(const struct rig_format *format, uint64_t bytes, uint64_t *out_boot,
               uint64_t *out_end);

#endif
