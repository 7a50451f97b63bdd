/* Shared by the files that read a state document of memories. Not for anything else. */
#ifndef RIG_RESTORE_H
#define RIG_RESTORE_H

#include "base/lines.h"
#include "gpu/memories.h"

/* What a mapping's line says beside the mapping. */
struct saved {
    struct mapping *mapping;
    uint64_t of_memory, of_number, hold;
    bool has_of, keeps_owner, stuck, has_hold, has_view;
    char tables;
};

struct saved_region {
    uint64_t id;
    struct region *region;
};

struct restore {
    struct rig_gpus *gpus;
    bool anew;           /* the GPUs' memories may hold anything: tables are written again */
    struct saved *later; /* mappings that wait for the others, in order of their lines */
    size_t later_count, later_room;
    struct mapping **by_number; /* those of one memory together; NULL until it is needed */
    struct saved_region *region;
    size_t regions, region_room;
};

/* restore_grow makes room for one more item of `size` bytes. False: memory ran out. */
bool restore_grow(void **array, size_t used, size_t *room, size_t size);

/* restore_line reads a mapping's line (save.c), up to its semicolon or the text's end, into *s, its
   regions into x; c->failed says that it breaks a rule. False: memory ran out. */
bool restore_line(struct line_cursor *c, struct restore *x, struct saved *s);

#endif
