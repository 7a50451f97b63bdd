/* Pictures in graphviz's language. */
#ifndef CMD_GRAPH_H
#define CMD_GRAPH_H

#include "cli.h"

/* What a picture adds to the tree: a colour for a function, NULL for none. */
struct graph_marks {
    const char *(*fill)(const void *context, int function);
    const void *context;
};

void graph_begin(struct out *o);
/* graph_tree draws what leads to GPUs, NICs and NVMe drives: host bridges, ports, links. */
enum rig_status graph_tree(struct out *o, const struct rig_topology *t,
                           const struct rig_rules *rules, const struct graph_marks *marks,
                           struct rig_error *err);
void graph_end(struct out *o);

/* graph_text writes text inside a quoted label: quotes and backslashes escaped, controls too. */
void graph_text(struct out *o, const char *text);

/* graph_node writes the name of function i's node. */
void graph_node(struct out *o, const struct rig_topology *t, int i);

#endif
