/* Steps of the decision that reach and the all-pairs table share with it. Not public. */
#ifndef RIG_P2PDMA_H
#define RIG_P2PDMA_H

#include "topology/rules.h"

/* chain_length is how many functions there are from i up to the topmost one that the source shows,
 * both counted. */
int chain_length(const struct rig_topology *t, int i);

/* chain_top is that topmost one. */
int chain_top(const struct rig_topology *t, int i);

/* chain_is_whole is true iff the topmost one is on a root bus, not below something that the source
 * lacks. */
bool chain_is_whole(const struct rig_topology *t, int i);

/* trees_may_join: can a bridge that the source lacks be above both of two different topmost
 * functions. Never YES. */
enum rig_answer trees_may_join(const struct rig_topology *t, int top_a, int top_b);

/* is_switch is true iff f counts as a switch or bridge on a path: an upstream port, or a bridge to
   or within conventional PCI. A bridge whose port type is not known stands, by the length of its
   chain, for an upstream port or a downstream one: below a root port they alternate. */
bool is_switch(const struct rig_function *f, int length);

/* path_by_bridges is the path's name between functions under host bridges number a and b that share
 * no bridge. */
enum rig_path path_by_bridges(const struct rig_topology *t, int a, int b);

/* path_of is the path's name for the pair that d decided. */
enum rig_path path_of(const struct rig_topology *t, const struct rig_p2pdma *d, int a, int b);

#endif
