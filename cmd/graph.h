/* Pictures in graphviz's language. */
#ifndef CMD_GRAPH_H
#define CMD_GRAPH_H

#include "cli.h"

#define GRAPH_GREEN "#2e7d32"
#define GRAPH_RED "#c62828"
#define GRAPH_ORANGE "#e65100"

/* What a picture adds to the tree. Each member but context may be NULL. */
struct graph_marks {
    const void *context;
    /* is the picture about this function; otherwise about GPUs, NICs and NVMe drives */
    bool (*shows)(const void *context, int function);
    /* a colour for a function, NULL for none */
    const char *(*fill)(const void *context, int function);
    /* how many pairs end at this function or, with function -1, at this host bridge */
    long (*stops)(const void *context, int function, int host_bridge);
    /* a colour for what leads from a function upwards, NULL for none */
    const char *(*route)(const void *context, int function);
};

/* What a picture shows, and a legend explains. */
struct graph_seen {
    bool redirects, unread, stops, slow; /* slow: a link that could be more */
    bool links, groups, route;           /* groups: colours of GPUs; route: one pair's way */
    unsigned arrows, paths; /* bit n: an arrow of answer n; a path n that leads to a yes */
    int lowest;             /* a function amid those that lie deepest */
};

/* graph_begin opens the graph under a title. */
void graph_begin(struct out *o, const struct rig_topology *t, const struct rig_rules *rules,
                 const char *what);
/* graph_tree draws what leads to GPUs, NICs and NVMe drives: host bridges, ports, links. It adds to
 *seen. */
enum rig_status graph_tree(struct out *o, const struct rig_topology *t,
                           const struct rig_rules *rules, const struct graph_marks *marks,
                           struct graph_seen *seen, struct rig_error *err);
/* graph_legend explains what was seen, in a node "legend". */
void graph_legend(struct out *o, const struct graph_seen *seen);
/* graph_below puts that node below the tree that was seen. */
void graph_below(struct out *o, const struct rig_topology *t, const struct graph_seen *seen,
                 const char *node);
void graph_end(struct out *o);

/* graph_text writes text inside an HTML label: marks escaped, controls too. */
void graph_text(struct out *o, const char *text);

/* graph_node writes the name of function i's node. */
void graph_node(struct out *o, const struct rig_topology *t, int i);

#endif
