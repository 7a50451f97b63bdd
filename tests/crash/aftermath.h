/* What must be true of a session after a command was killed or went wrong: judged by the twin,
   which walks the bytes in its GPUs' memory, and by what the next commands get. */
#ifndef RIG_CRASH_AFTERMATH_H
#define RIG_CRASH_AFTERMATH_H

#include "stage.h"

#define PLACES_MAX 192
#define RESERVED_MAX 16

/* Where devices may reach memory: GPU addresses that regions had, and memory that was handed to a
   client of the bus. */
struct places {
    uint64_t at[PLACES_MAX];
    int count;
    struct {
        int function; /* whose memory, or -1: the machine's */
        uint64_t address, bytes;
    } reserved[RESERVED_MAX];
    int reserved_count;
};

/* places_add adds those of the session as it is now. */
void places_add(struct places *p);

/* aftermath_check fails the test unless
   - only files of a session are left, and at most one that is not whole;
   - the next command works, finds no memory twice, and gets memory that no GPU reaches, by its
     tables or its cache, at any of the places but where that command put it, and that no client of
     the bus was given; it leaves nothing that is not whole;
   - with all GPUs closed nothing is taken, and a GPU opened again has all its memory (unless some
   is reserved for a client);
   - close leaves nothing at all.
   `label` is said where it fails. The session is gone then. */
void aftermath_check(const struct places *p, const char *label);

#endif
