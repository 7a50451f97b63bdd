/* The parts of rig_reach_pair. Not public. */
#ifndef RIG_REACH_H
#define RIG_REACH_H

#include "topology/gates.h"
#include "topology/p2pdma.h"

/* describe_gates fills in r->gates, in the order in which the gates are asked, from the decision in
 * r->p2pdma and the two sides. */
void describe_gates(const struct rig_topology *t, const struct rig_rules *rules,
                    const struct side *from, const struct side *to, struct rig_reach *r);

/* describe_facts fills in r->assumed, r->unknown and r->possibilities: which facts of those that
   the gates looked at are assumed, which are missing and how to give them, and what the answer is
   under each possibility. */
void describe_facts(const struct rig_topology *t, struct rig_reach *r);

/* short_name writes the function's alias and address, or its address alone, into text and returns
 * text. */
char *short_name(const struct rig_topology *t, int i, char text[48]);

#endif
