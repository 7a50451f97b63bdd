/* Machines that tests read from lspci's text, and what is asserted of what was read. */
#ifndef RIG_TEST_READING_H
#define RIG_TEST_READING_H

#include "topology/topology.h"

/* reading_of reads a copy of just those bytes, so that a read past the end shows. */
enum rig_status reading_of(const char *name, const char *text, size_t bytes,
                           struct rig_topology **out, struct rig_error *err);

/* reading_accepted is the machine of a text; the test fails where it is refused. */
struct rig_topology *reading_accepted(const char *name, const char *text);

/* reading_refused asserts that a text is bad input, and that "where: why" has that part. */
void reading_refused(const char *name, const char *text, const char *part);

/* function_named is the function at that address or of that short name, which must be there. */
const struct rig_function *function_named(const struct rig_topology *t, const char *name);

/* expect_fact asserts that a fact has that value, or is FACT_UNKNOWN or FACT_ABSENT; where it does
   not, `what` is told. */
#define FACT_UNKNOWN UINT64_MAX
#define FACT_ABSENT (UINT64_MAX - 1)
void expect_fact(const char *what, struct rig_fact f, uint64_t value);

#endif
