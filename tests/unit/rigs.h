/* Twins with GPU memories, for tests of the memory module. */
#ifndef RIG_TEST_RIGS_H
#define RIG_TEST_RIGS_H

#include "builder.h"
#include "gpu/memories.h"
#include "machine/twin.h"

/* Two root ports. Under the first a switch with three GPUs and a NIC, so that all of them reach
   each other; under the second a fourth GPU, which reaches nobody where the CPU is no AMD: gpu0
   03:00.0, gpu1 04:00.0, gpu2 05:00.0, nic0 06:00.0, gpu3 08:00.0. */
#define RIG_SWITCH                                                                                 \
    "00:00.0 host id=8086:1234\n"                                                                  \
    "00:01.0 rp 01-06\n"                                                                           \
    "00:02.0 rp 08-08\n"                                                                           \
    "01:00.0 up 02-06\n"                                                                           \
    "02:00.0 down 03-03\n"                                                                         \
    "02:01.0 down 04-04\n"                                                                         \
    "02:02.0 down 05-05\n"                                                                         \
    "02:03.0 down 06-06\n"                                                                         \
    "06:00.0 ep class=020000\n"

#define RIG_GPUS                                                                                   \
    "03:00.0 ep gpu=64/64\n"                                                                       \
    "04:00.0 ep gpu=64/64\n"                                                                       \
    "05:00.0 ep gpu=64/64\n"                                                                       \
    "08:00.0 ep gpu=64/64\n"

/* The same GPUs behind an IOMMU that translates. */
#define RIG_GPUS_IOMMU                                                                             \
    "03:00.0 ep gpu=64/64 iommu=translate\n"                                                       \
    "04:00.0 ep gpu=64/64 iommu=translate\n"

#define NIC "0000:06:00.0"

extern const char *const rig_gpu_names[4]; /* "0000:03:00.0", ... */

/* A twin, and the memories of its first GPUs. */
struct rig {
    struct rig_machine *machine;
    struct rig_gpus *gpus;
    struct rig_device *device[4];
    struct rig_memory *m[4];
    struct rig_error err;
};

/* The options that fit the process that runs the test: sanitizers leave other addresses free. */
struct rig_gpus_options rig_space_options(void);

/* rig_open opens the twin of `text` (NULL: RIG_SWITCH RIG_GPUS) and makes the memories of its first
   `count` GPUs, each mastering the bus. The CPU is no AMD. */
void rig_open(struct rig *r, const char *text, int count);

/* rig_open_with is the same with options for the memories (NULL: none). */
void rig_open_with(struct rig *r, const char *text, int count,
                   const struct rig_memory_options *options);

/* rig_take takes GPU number i again and makes its memory anew. */
void rig_take(struct rig *r, int i, const struct rig_memory_options *options);

/* rig_close closes all: nothing may be held afterwards but what the machine's close gives back. */
void rig_close(struct rig *r);

/* Each fails the test where the outcome is not RIG_OK. */
struct rig_region rig_alloc(struct rig *r, int gpu, enum rig_kind kind, uint64_t bytes);
struct rig_region rig_map_peer(struct rig *r, int gpu, struct rig_region of);
void rig_free(struct rig *r, struct rig_region region);

/* rig_reads is true iff the GPU's work reads `value` at the address; rig_faults iff its access is
   refused. */
bool rig_reads(struct rig *r, int gpu, rig_gpu_address at, uint8_t value);
bool rig_faults(struct rig *r, int gpu, rig_gpu_address at);
void rig_gpu_write(struct rig *r, int gpu, rig_gpu_address at, uint8_t value);

/* rig_info is the region's, which must be out or kept; rig_kept is true iff it is kept, with that
   text in its reason. */
struct rig_region_info rig_info(struct rig_region region);
bool rig_kept(struct rig_region region, const char *text);

/* rig_page_of is where the region's byte at `offset` is, in its pages' terms. */
uint64_t rig_page_of(struct rig_region region, uint64_t offset);

/* rig_number is the function's number. */
int rig_number(const struct rig *r, const char *function);

/* rig_setup opens two GPUs of the default machine for a test (rig_setup3: three, rig_setup_iommu:
   two behind an IOMMU); rig_teardown closes them. */
int rig_setup(void **state);
int rig_setup3(void **state);
int rig_setup_iommu(void **state);
int rig_teardown(void **state);
#define RIG_TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
#define RIG_TEST3(f) cmocka_unit_test_setup_teardown(f, rig_setup3, rig_teardown)
#define RIG_TEST_IOMMU(f) cmocka_unit_test_setup_teardown(f, rig_setup_iommu, rig_teardown)

#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)

/* What is held, as numbers to compare before and after. */
struct rig_held {
    uint64_t grants, pins, views, system_free, pool_free[4], blocks;
};
struct rig_held rig_held(struct rig *r);
/* rig_held_blocks is how many blocks of addresses are held, of all spaces. */
uint64_t rig_held_blocks(const struct rig_gpus *gpus);
void rig_same(struct rig_held a, struct rig_held b);

/* rig_refused fails the test unless status is RIG_REFUSED and err.why or err.what holds each text
   (NULL: none); it clears err. rig_invalid is the same for RIG_INVALID. */
void rig_refused(struct rig *r, enum rig_status status, const char *first, const char *second);
void rig_invalid(struct rig *r, enum rig_status status, const char *text);

#endif
