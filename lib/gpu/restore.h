/* Shared by the files that read a state document of memories. Not for anything else. */
#ifndef RIG_RESTORE_H
#define RIG_RESTORE_H

#include "gpu/memories.h"

/* A text being read. Once it failed nothing is taken from it any more: it is at an end. */
struct cursor {
    const char *at;
    bool failed;
};

static inline void cursor_fail(struct cursor *c)
{
    c->failed = true;
    c->at = "";
}

/* cursor_take is true iff the next character is that one, which is past then; cursor_expect fails
   where it is not. `wanted` is no NUL. */
static inline bool cursor_take(struct cursor *c, char wanted)
{
    bool there = *c->at == wanted;
    c->at += there;
    return there;
}

static inline void cursor_expect(struct cursor *c, char wanted)
{
    if (!cursor_take(c, wanted))
        cursor_fail(c);
}

/* cursor_hex is a number of 1 to 16 lower-case hexadecimal digits. */
uint64_t cursor_hex(struct cursor *c);

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
bool restore_line(struct cursor *c, struct restore *x, struct saved *s);

#endif
