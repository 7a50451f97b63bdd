/* The parts of a picture of pairs. */
#ifndef CMD_REACH_GRAPH_H
#define CMD_REACH_GRAPH_H

#include "graph.h"
#include "reach.h"

/* A picture's pairs. answer[i * to_count + k]: the cell of requests of from[i] to to[k]. row and
   column: a function's number in from and to, or -1. group: of GPUs, which are numbered by the
   first function of each, or -1. stops: how many pairs end at a function, and behind all functions
   at a host bridge. */
struct picture {
    const struct reach_question *q;
    uint8_t *cell;
    int *row, *column, *group, *first;
    int groups;
    long *stops;
    enum rig_answer answer; /* of the one pair */
    int common;             /* of the one pair: the bridge where its way turns, or -1 */
};

/* picture_groups finds the groups: GPUs that reach each other, and that all others reach and are
   reached by alike. */
void picture_groups(struct picture *p);

/* picture_fill is the colour of a GPU's group, NULL for others. */
const char *picture_fill(const struct picture *p, int function);

/* picture_table writes the table of groups, in a node "table"; false where it has no row. */
bool picture_table(struct out *o, const struct picture *p);

#endif
