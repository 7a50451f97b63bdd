/* Walking a GPU's page tables by the decoders of their format: from bytes, wherever they are read.
   Not public. */
#ifndef RIG_WALK_H
#define RIG_WALK_H

#include "gpu/format/format.h"

/* The most entries one walk looks at: both children of a 16-byte directory count. */
#define WALK_STEPS_MAX (RIG_LEVELS_MAX + 2)

/* An entry that was looked at. */
struct walk_step {
    struct rig_table table;
    uint64_t address; /* of the entry, in table.memory */
    uint64_t index;   /* in its table */
    uint64_t words[2];
    struct rig_entry entry;
};

/* How a walk ended. */
enum walk_end {
    WALK_LEAF,     /* the last step's entry maps the address */
    WALK_SPARSE,   /* nothing is there, and reads give zero */
    WALK_UNMAPPED, /* nothing is there */
    WALK_LOST,     /* an entry reads all ones: the device is gone */
    WALK_BROKEN,   /* a table could not be read */
};

struct walk {
    enum walk_end end;
    int steps;
    struct walk_step step[WALK_STEPS_MAX];
    int last; /* the step whose entry decided, -1 where none was read */
};

/* Reads `bytes` bytes, 8 or 16, at `address` of own or system memory into words. False where they
   cannot be read. */
typedef bool walk_read(void *context, enum rig_memory_kind memory, uint64_t address,
                       uint64_t words[2], unsigned bytes);

/* walk_tables makes *out_walk the walk for address va from the root table down. It always ends: a
   directory's children have smaller shifts than its own table. */
void walk_tables(const struct rig_format *f, struct rig_table root, uint64_t va, walk_read *read,
                 void *context, struct walk *out_walk);

#endif
