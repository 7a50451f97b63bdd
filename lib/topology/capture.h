/* The fields of a capture, rigmem-machine(5), as data that its writer and its reader share. */
#ifndef RIG_CAPTURE_H
#define RIG_CAPTURE_H

#include "topology/topology.h"

#include <jansson.h>

#define CAPTURE_FORMAT "rigmem-machine"
#define CAPTURE_VERSION 1

/* How a value is written. */
enum capture_kind {
    CAPTURE_NUMBER, /* an integer; above 63 bits a hex string */
    CAPTURE_HEX,    /* a hex string of at least `digits` digits */
    CAPTURE_SIZE,   /* "16GiB" where a unit divides it, else an integer */
    CAPTURE_SPEED,  /* "2.5 GT/s"; the fact is in units of 100 MT/s */
    CAPTURE_SIZES,  /* a list of sizes; the fact has bit n for 2^(20+n) bytes */
    CAPTURE_WORD,   /* one of `words`; a value without a word is an integer */
    CAPTURE_FLAGS,  /* the words of the bits that are set, a space between */
    CAPTURE_TEXT,   /* a string; the fact is a struct rig_text */
};

struct capture_word {
    const char *word;
    uint64_t value;
};

/* A fact of a struct: `offset` is where its struct rig_fact or struct rig_text lies. `max` is the
   greatest value allowed. `words` ends with a NULL word. */
struct capture_field {
    const char *key;
    size_t offset;
    enum capture_kind kind;
    int digits;
    uint64_t max;
    const struct capture_word *words;
};

/* Each list ends with a NULL key. */
extern const struct capture_field capture_machine_fields[];  /* of struct rig_machine_facts */
extern const struct capture_field capture_function_fields[]; /* of struct rig_function */
extern const struct capture_field capture_bar_fields[];      /* of struct rig_bar */
extern const struct capture_field capture_window_fields[];   /* of struct rig_window */
extern const struct capture_word capture_sources[];          /* enum rig_source */

/* A bridge's window in struct rig_function, and its key. */
struct capture_window {
    const char *key;
    size_t offset;
};
#define CAPTURE_WINDOWS 3
extern const struct capture_window capture_windows[CAPTURE_WINDOWS];

/* capture_address is how both addresses of a BAR are written where they are the same. */
extern const struct capture_field capture_address;

/* capture_gpu_memory and capture_iommu are facts that topology_finish may have worked out. They are
   written only when they were given. */
extern const struct capture_field capture_gpu_memory, capture_iommu;

static inline const struct rig_fact *capture_fact(const void *base, const struct capture_field *f)
{
    return (const struct rig_fact *)(const void *)((const char *)base + f->offset);
}

static inline const struct rig_text *capture_text(const void *base, const struct capture_field *f)
{
    return (const struct rig_text *)(const void *)((const char *)base + f->offset);
}

/* capture_redact takes out of t what tells whose machine it is, and moves the addresses of BARs and
   windows down, keeping their order, their alignment, what lies in what, and their bit lengths. */
enum rig_status capture_redact(struct rig_topology *t, struct rig_error *err);

#endif
