/* The conformance suite of back ends: what every struct rig_machine_ops must do, by the contracts
   of lib/machine/machine.h alone. */
#ifndef MACHINE_CONFORMANCE_H
#define MACHINE_CONFORMANCE_H

#include "machine/machine.h"

/* A back end to judge. A member that is NULL skips what needs it, for back ends whose machine
   cannot be made to do that. */
struct conformance {
    const char *name;
    const char *function; /* one that can be taken, with memory BAR `bar` of 8 KiB or more */
    const char *other;    /* another one that can be taken */
    const char *bridge;   /* one that cannot; NULL: none */
    int bar;
    uint64_t space;        /* free process addresses, 64 MiB of them */
    uint64_t memory_bytes; /* of system memory that functions can have together; 0: unknown */
    enum rig_status (*open)(struct rig_machine **out_machine, struct rig_error *err);
    void (*close)(struct rig_machine *m); /* after everything taken was released */
    /* The function's DMA reads or writes. */
    bool (*dma)(struct rig_machine *m, int function, rig_bus_address at, void *data, size_t bytes,
                bool write);
    void (*leave_bus)(struct rig_machine *m, int function);
};

/* conformance_run runs the suite on the back end and is the number of tests that failed. */
int conformance_run(const struct conformance *back_end);

/* conformance_unjudged is a test that every run so far skipped or failed, or NULL. */
const char *conformance_unjudged(void);

#endif
