/* The values of a capture's keys, from JSON to facts. Not public.

   A function here that returns false has told err which rule which value breaks, or that memory ran
   out. */
#ifndef RIG_CAPTURE_VALUE_H
#define RIG_CAPTURE_VALUE_H

#include "topology/capture.h"

/* Where the reader is, for messages: `path` is the JSON path of the value at hand. */
struct capture_reader {
    const char *name;
    struct rig_topology *t;
    struct rig_error *err;
    char path[160];
};

/* capture_broken tells a rule that is broken as `PATH.KEY: rule`; key may be NULL. It is false. */
bool capture_broken(struct capture_reader *r, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* capture_kind_name is what kind of value j is, with its article. */
const char *capture_kind_name(const json_t *j);

/* capture_check_keys is true iff each key of object is that of a field or among others, which ends
   with NULL; either list may be NULL. */
bool capture_check_keys(struct capture_reader *r, json_t *object,
                        const struct capture_field *fields, const char *const *others);

/* capture_kept is a copy of text that lives as long as the topology; NULL: memory ran out. */
const char *capture_kept(struct capture_reader *r, const char *text);

/* capture_from_hex reads "0x10de". capture_from_word reads one of words. */
bool capture_from_hex(struct capture_reader *r, const char *key, const char *text, uint64_t *out);
bool capture_from_word(struct capture_reader *r, const char *key, const struct capture_word *words,
                       const char *text, uint64_t *out);

/* What a value says of how it is known. `value` is the bare value, or NULL. */
struct capture_dressed {
    enum rig_know know;
    const char *from;
    json_t *value;
};

/* capture_undress takes a value out of {"value":…,"assumed":…} and its like. */
bool capture_undress(struct capture_reader *r, const char *key, json_t *j,
                     struct capture_dressed *out);

/* capture_fields_from reads the fields that object has into the struct at base. */
bool capture_fields_from(struct capture_reader *r, const struct capture_field *fields,
                         json_t *object, void *base);

/* capture_optional_fact reads the field f of object into *out, if it is there. */
bool capture_optional_fact(struct capture_reader *r, const struct capture_field *f, json_t *object,
                           struct rig_fact *out);

#endif
