/* The parts of the table of all pairs. Not public.

   All pairs by depth-first spans. In depth-first order everything below a bridge is one run of
   positions. For a function f and a bridge a above it, the functions whose first common bridge with
   f is a are a's run without the run of a's child towards f, and what the decision says of them
   hangs only on a, on whether the path from f up to a redirects, on f's side, and on the target: so
   the runs are kept and copied. What shares no bridge with f hangs on f's host bridge and side
   alone. So all functions that are below a alike have one row, but for what is below a's child
   towards each: the last few such rows are kept, of the lowest bridges that have many below them,
   and a row is mostly one copy. */
#ifndef RIG_TABLE_H
#define RIG_TABLE_H

#include "topology/gates.h"
#include "topology/p2pdma.h"

#define ROWS 8u
#define KEPT_SLOTS 8192u

/* A kept run. */
struct run {
    uint64_t name; /* its key's; never 0 */
    uint8_t cells[];
};

/* One function, at its depth-first position. */
struct place_in_order {
    int function, end; /* its run is [its position, end) */
    int above;         /* its parent's position, or -1 */
    int top;           /* position of the topmost function above it */
    int host_bridge;
    int redirecting, unread; /* how many on its chain, itself included */
    uint16_t length;         /* of its chain */
    uint16_t switches;
    uint16_t side, side_from;     /* its side, and the first side whose requests fare alike */
    bool whole;                   /* its chain ends at a root bus */
    enum rig_answer own_redirect; /* its own */
    enum rig_answer carried;      /* the host question for two functions below its host bridge */
};

struct rig_reach_table {
    const struct rig_topology *t;
    const struct rig_rules *rules;
    int count;
    struct place_in_order *at;
    int *order, *position;
    struct side *side;
    int sides;
    uint16_t *side_at; /* the side at each position */
    uint8_t *gates;    /* static gates of every two sides; NULL where there are too many sides */
    uint8_t *row;      /* a scratch row, by position */
    uint16_t *distance;
    enum rig_answer zen;
    struct rig_bridge_answer *bridge; /* of every host bridge; [host_bridges] is the unknown one */
    uint8_t *rows;                    /* the last rows, each `count` cells as f has them but for
                                         its bridge's child towards f */
    uint64_t row_name[ROWS];          /* their keys' */
    struct run **kept;                /* open-addressing hash by name, at most half full */
    size_t kept_count, kept_bytes;
    /* cells with a common bridge, by host question, redirects, gates, and whether at most one
       switch is between */
    uint8_t common[3][3][GATES_COUNT][2];
    int *cut_tops; /* positions of topmost functions below something that the source lacks */
    int cut_count;
};

/* table_cell is a cell: the answer, the verdicts that are left open, the path. */
static inline uint8_t table_cell(enum gates gates, unsigned possible, enum rig_path path)
{
    return (uint8_t)((unsigned)answer_of(gates, possible) | possible << 2 | (unsigned)path << 5);
}

/* table_carries is the host question for two functions below host bridges a and b, -1 for one that
   is not known. */
enum rig_answer table_carries(const struct rig_reach_table *table, int a, int b);

/* table_let_go frees the kept runs. */
void table_let_go(struct rig_reach_table *table);

#endif
