/* The parts of a picture of pairs. */
#ifndef CMD_REACH_GRAPH_H
#define CMD_REACH_GRAPH_H

#include "graph.h"
#include "reach.h"

/* What a picture shows of a pair; zeros for a function and itself. */
struct pair {
    uint8_t answer; /* enum rig_answer */
    uint8_t path;   /* enum rig_path */
    int8_t gate;    /* enum rig_gate_token of the first closed gate, or -1 */
    int common;     /* the bridge where its way turns, or -1 */
};

/* A picture's pairs. pair[i * to_count + k]: requests of from[i] to to[k]. row and column: a
   function's number in from and to, or -1. group: of GPUs, which are numbered by the first function
   of each, or -1; groups are numbered from 0 and first[n] is group n's first. stops: how many pairs
   end at a function, and behind all functions at a host bridge. */
struct picture {
    const struct reach_question *q;
    struct pair *pair;
    int *row, *column, *group, *first;
    int groups;
    long *stops;
};

/* picture_pair is the pair of two functions that have a row and a column. */
static inline const struct pair *picture_pair(const struct picture *p, int from, int to)
{
    return &p->pair[(size_t)p->row[from] * (size_t)p->q->to_count + (size_t)p->column[to]];
}

/* picture_groups finds the groups: GPUs that reach each other, and that all others reach and are
   reached by alike. */
void picture_groups(struct picture *p);

/* picture_fill is the colour of a GPU's group, NULL for others. */
const char *picture_fill(const struct picture *p, int function);

/* picture_table writes the table of groups, in a node "table"; false where it has no row. */
bool picture_table(struct out *o, const struct picture *p);

#endif
