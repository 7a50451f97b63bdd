/* Names of regions: each text names one id, found by either. Not public. */
#ifndef RIG_NAMES_H
#define RIG_NAMES_H

#include "base/base.h"

#define NAME_BYTES 64

/* One name, in both trees of struct names. */
struct name {
    char text[NAME_BYTES];
    uint64_t id;
};

/* Two trees (tsearch) of the same names, by text and by id; all zero: none. An id has one name at
   most. */
struct names {
    void *by_text, *by_id;
};

/* names_find is the id that the text names, or 0; names_of is the id's name, or NULL. */
uint64_t names_find(const struct names *names, const char *text);
const char *names_of(const struct names *names, uint64_t id);

/* names_add names `id`, which has no name, by a text of at most NAME_BYTES - 1 bytes; whatever it
   named before it names no more. False: memory ran out. */
bool names_add(struct names *names, const char *text, uint64_t id);

/* names_drop takes the id's name away, if it has one. */
void names_drop(struct names *names, uint64_t id);

/* names_each calls `each` for every name, in the order of their ids. */
void names_each(const struct names *names, void (*each)(const struct name *name, void *context),
                void *context);

/* names_clear drops all. */
void names_clear(struct names *names);

#endif
