/* A machine that stands before a twin and can go wrong at any operation: it counts what is asked of
   it, and at the one it was told fails, or cuts short after the real one was done. It can also make
   a function read all ones: for a while, or for good from some access on. One at a time. */
#ifndef RIG_TEST_DOUBLE_H
#define RIG_TEST_DOUBLE_H

#include "machine/machine.h"

/* How the operation that was told goes wrong. */
enum double_fault {
    DOUBLE_OFF,
    DOUBLE_FAILS,    /* RIG_FAILED, and it was not done */
    DOUBLE_REFUSES,  /* RIG_REFUSED, where the contract allows it */
    DOUBLE_NO_ROOM,  /* RIG_NO_ROOM, where the contract allows it */
    DOUBLE_ALL_ONES, /* from this access on, the function reads all ones and drops writes */
};

/* double_before puts the double before m until double_end. */
void double_before(struct rig_machine *m);
void double_end(struct rig_machine *m);

/* double_arm has the nth operation from now on, 1 for the next, go wrong so. For DOUBLE_ALL_ONES
   accesses of `function` (configuration space and views) are counted, else operations that can
   fail.
 */
void double_arm(enum double_fault fault, uint64_t n, int function);

/* double_fired is true iff that operation came. */
bool double_fired(void);

/* double_sleep has the function's configuration space read all ones, or not any more. */
void double_sleep(int function, bool asleep);

/* double_calls is how many operations that can fail there were. */
uint64_t double_calls(void);

#endif
