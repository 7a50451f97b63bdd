/* Names of regions: each text names one id, found by either. Not public. */
#ifndef RIG_NAMES_H
#define RIG_NAMES_H

#include "base/base.h"

#include <jansson.h>

#define NAME_BYTES 64

/* One name. text is a key of the names' `ids`, or NULL where the name was dropped. */
struct name {
    uint64_t id;
    const char *text;
};

/* The same names twice: `ids` is an object with the id, a positive integer, by each text, as a
   state document has it, and `name` an array in ascending order of the ids, `dropped` of which are
   names no more. All zero: none. An id has one name at most. */
struct names {
    json_t *ids;
    struct name *name;
    size_t count, room, dropped;
};

/* names_find is the id that the text names, or 0; names_of is the id's name, or NULL. */
uint64_t names_find(const struct names *names, const char *text);
const char *names_of(const struct names *names, uint64_t id);

/* names_add names `id`, above 0, by a text of at most NAME_BYTES - 1 bytes of UTF-8, and by no
   other; whatever the text named before it names no more. False: memory ran out. It takes as long
   as there are names of later ids. */
bool names_add(struct names *names, const char *text, uint64_t id);

/* names_drop takes the id's name away, if it has one. */
void names_drop(struct names *names, uint64_t id);

/* names_each calls `each` for every name, in the order of their ids. */
void names_each(const struct names *names, void (*each)(const struct name *name, void *context),
                void *context);

/* names_json is the names as an object, which the caller only reads and drops; NULL: memory ran
   out. names_load makes *names, which has none, those of such an object, which it keeps.
   RIG_BAD_INPUT: it is no object of `most` names at most, a text or id is none, or an id has two
   names; RIG_FAILED: memory ran out. */
json_t *names_json(const struct names *names);
enum rig_status names_load(struct names *names, json_t *ids, size_t most);

/* names_clear drops all. */
void names_clear(struct names *names);

#endif
