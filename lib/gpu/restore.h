/* Shared by the files that read a state document of memories. Not for anything else. */
#ifndef RIG_RESTORE_H
#define RIG_RESTORE_H

#include "gpu/memories.h"

/* A line being read. Once it failed nothing is taken from it any more. */
struct cursor {
    const char *at;
    bool failed;
};

/* cursor_take is true iff the next character is that one, which is past then; cursor_expect fails
   where it is not. */
bool cursor_take(struct cursor *c, char wanted);
void cursor_expect(struct cursor *c, char wanted);

/* cursor_hex is a number of 1 to 16 hexadecimal digits. */
uint64_t cursor_hex(struct cursor *c);

/* A mapping as its line has it, until the others it names are there. */
struct saved {
    struct mapping *mapping;
    uint64_t of_memory, of_number, hold;
    bool has_of, keeps_owner, stuck, has_hold, has_view;
    char tables;
};

struct saved_region {
    struct rig_memory *memory;
    struct region *region;
    uint64_t owner;
};

struct restore {
    struct rig_gpus *gpus;
    bool anew; /* the GPUs' memories may hold anything: tables are written again */
    struct saved *saved;
    size_t saved_count, saved_room;
    struct saved_region *region;
    size_t regions, region_room;
};

/* restore_grow makes room for one more item of `size` bytes. False: memory ran out. */
bool restore_grow(void **array, size_t used, size_t *room, size_t size);

/* restore_line reads a mapping's line (save.c) into *s, its regions into x; c->failed says that it
   breaks a rule. False: memory ran out. */
bool restore_line(struct cursor *c, struct restore *x, struct saved *s);

#endif
