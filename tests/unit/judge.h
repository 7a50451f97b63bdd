/* Runs requests against a twin and the model at once, and holds the one to the other. What is found
   wrong is kept as text; nothing here fails a test by itself. */
#ifndef RIG_TEST_JUDGE_H
#define RIG_TEST_JUDGE_H

#include "model.h"
#include "rigs.h"

#define JUDGE_TOUCHED 64

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

struct judge {
    const struct judge_machine *shape;
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
    void *own; /* 16 pages of the process's own */
    bool loud; /* each request's outcome goes to standard error */
    bool armed;
    enum twin_fault fault;
    unsigned said[8]; /* how many requests ended with each status */
    bool failed;
    char why[512];
};

/* judge_open opens the twin and takes all GPUs. */
struct judge *judge_open(const struct judge_machine *shape);

/* judge_close releases all, looks for what is still held, and closes. False, with the reason in
   why[512], where anything was wrong since judge_open. */
bool judge_close(struct judge *take_judge, char *why);

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

/* judge_counts holds what is held to the model; judge_reach every page that a GPU's tables, from
   their bytes, and its cache lead to. */
void judge_counts(struct judge *j);
void judge_reach(struct judge *j);

/* judge_region is the latest region that is out, of the GPU's (-1: of any) and of that origin; -1
   where there is none. */
int judge_region(const struct judge *j, int gpu, enum rig_origin origin);

#endif
