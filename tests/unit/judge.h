/* Runs requests against a twin and the model at once, and holds the one to the other. What is found
   wrong is kept as text; nothing here fails a test by itself. */
#ifndef RIG_TEST_JUDGE_H
#define RIG_TEST_JUDGE_H

#include "model.h"
#include "rigs.h"

#define JUDGE_TOUCHED 64
#define JUDGE_GRANTED 64

struct judge_machine {
    const char *text; /* for build_machine */
    const char *cpu;
    uint64_t system; /* bytes of system memory */
    int gpus;
    const char *name[MODEL_GPUS];
    const char *format[MODEL_GPUS];
    struct model_gpu gpu[MODEL_GPUS]; /* reach, translated, client_reaches */
    bool linked;                      /* the first two GPUs are */
    uint64_t space;                   /* bytes of each space, 0: as always */
};

/* Where the client reaches memory that it was given: it may write there for good. */
struct judge_granted {
    rig_bus_address address;
    uint64_t bytes;
    int block;
};

struct judge {
    const struct judge_machine *shape;
    struct rig_topology *topology;
    char directory[32]; /* of the twin's files; empty: it has none */
    struct model model;
    struct rig_machine *machine;
    struct rig_gpus *gpus;
    struct rig_link link[2];
    int function[MODEL_GPUS];
    const struct rig_format *walks[MODEL_GPUS];
    struct rig_device *device[MODEL_LIVES];
    struct rig_memory *memory[MODEL_LIVES];
    enum twin_flush flush[MODEL_GPUS];
    rig_gpu_address touched[MODEL_GPUS][JUDGE_TOUCHED];
    unsigned touches[MODEL_GPUS];
    struct judge_granted granted[JUDGE_GRANTED];
    unsigned grants;
    void *own; /* 16 pages of the process's own */
    bool loud; /* each request's outcome goes to standard error */
    bool armed;
    enum twin_fault fault;
    unsigned said[8]; /* how many requests ended with each status */
    bool failed;
    char why[512];
};

/* judge_open opens the twin, in files or in this process's memory, and takes all GPUs. */
struct judge *judge_open(const struct judge_machine *shape, bool files);

/* judge_close releases all, looks for what is still held, and closes. False, with the reason in
   why[512], where anything was wrong since judge_open. judge_tear_down closes with all that is out.
 */
bool judge_close(struct judge *take_judge, char *why);
bool judge_tear_down(struct judge *take_judge, char *why);

/* Requests; -1 for a region where none was made. Each checks what can be checked at once. */
int judge_alloc(struct judge *j, int gpu, enum rig_kind kind, uint64_t bytes);
int judge_map_host(struct judge *j, int gpu, int under, uint64_t offset, uint64_t bytes);
int judge_map_peer(struct judge *j, int gpu, int of);
void judge_free(struct judge *j, int gpu, int region);
void judge_bus(struct judge *j, int gpu, int region);
void judge_release(struct judge *j, int gpu);
void judge_take(struct judge *j, int gpu);
void judge_finish(struct judge *j);

/* judge_touch has the GPU's work read the region's pages, into its cache. */
void judge_touch(struct judge *j, int gpu, int region, uint64_t offset);
void judge_flush(struct judge *j, int gpu, enum twin_flush flush);
void judge_arm(struct judge *j, enum twin_fault fault, enum twin_step kind, uint64_t n);
void judge_gone(struct judge *j, int gpu);
void judge_fail_machine(struct judge *j);

/* judge_next_process ends the process's part of a twin in files and takes it up again. */
void judge_next_process(struct judge *j);

/* judge_tag writes a mark of its own into a new block's pages, which for host memory are zeros
   before. judge_client_writes has the client write its own over all that it was ever given.
   judge_contents looks, by the work of each GPU that maps a block, for the mark, or in what the
   client was given for either. Marks are in the first, middle and last page. */
void judge_tag(struct judge *j, int block, struct rig_region region);
void judge_client_writes(struct judge *j);
void judge_contents(struct judge *j);

/* judge_wrong says what was found wrong; the first word stays. */
void judge_wrong(struct judge *j, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* judge_works is whether the GPU's work can do anything: it is not one whose function was given
 * back.
 */
bool judge_works(const struct judge *j, int gpu);

/* judge_counts holds what is held to the model; judge_reach every page that a GPU's tables, from
   their bytes, and its cache lead to. */
void judge_counts(struct judge *j);
void judge_reach(struct judge *j);

/* judge_region is the latest region that is out, of the GPU's (-1: of any) and of that origin; -1
   where there is none. */
int judge_region(const struct judge *j, int gpu, enum rig_origin origin);

#endif
