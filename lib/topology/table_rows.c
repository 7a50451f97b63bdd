/* The rows of the table of all pairs: runs of cells, worked out once and copied. */
#include "topology/table.h"

#include <stdlib.h>
#include <string.h>

#define KEPT_BYTES (16u << 20) /* all are let go when more are kept */
#define SHORT_RUN 12           /* working such a run out is faster than keeping it */

/* What a run of cells hangs on besides its targets: the bridge `a` at its head, or -1 for all
 * targets as seen from below a host bridge. */
struct key {
    int a;
    int host_bridge; /* with a == -1 */
    enum rig_answer
        redirects; /* with a bridge: does the path from f up to and including it redirect */
    int switches;  /* with a bridge: on that path, at most 2 */
    uint16_t side; /* f's side_from */
};

void table_let_go(struct rig_reach_table *table)
{
    for (size_t i = 0; i < KEPT_SLOTS; i++) {
        free(table->kept[i]);
        table->kept[i] = NULL;
    }
    table->kept_count = table->kept_bytes = 0;
}

static inline enum gates static_gates(const struct rig_reach_table *table, uint16_t from,
                                      uint16_t to)
{
    if (table->gates)
        return (enum gates)table->gates[from * table->sides + to];
    return gates_static(&table->side[from], &table->side[to]);
}

/* Of the run of targets whose first common bridge with f is key->a, those at positions [first,
 * end). */
static void fill_run(const struct rig_reach_table *table, const struct key *key, int first, int end,
                     uint8_t *cells)
{
    const struct place_in_order *bridge = &table->at[key->a];
    const uint8_t(*common)[GATES_COUNT][2] = table->common[bridge->carried];
    const int switches_left = 1 - key->switches + bridge->switches;
    for (int i = first; i < end; i++) {
        const struct place_in_order *to = &table->at[i];
        enum rig_answer redirects = key->redirects;
        if (redirects != RIG_ANSWER_YES && to->redirecting > bridge->redirecting)
            redirects = RIG_ANSWER_YES;
        else if (redirects == RIG_ANSWER_NO && to->unread > bridge->unread)
            redirects = RIG_ANSWER_UNKNOWN;
        *cells++ = common[redirects][static_gates(table, key->side, to->side)]
                         [to->switches <= switches_left];
    }
}

/* All targets, as seen from below a host bridge that they share no bridge with. */
static void fill_base(const struct rig_reach_table *table, const struct key *key, uint8_t *cells)
{
    for (int top = 0; top < table->count; top = table->at[top].end) {
        const struct place_in_order *p = &table->at[top];
        unsigned possible = verdicts(RIG_ANSWER_NO, RIG_ANSWER_NO,
                                     table_carries(table, key->host_bridge, p->host_bridge));
        enum rig_path path = path_by_bridges(table->t, key->host_bridge, p->host_bridge);
        uint8_t by_gates[GATES_COUNT];
        for (unsigned gates = 0; gates < GATES_COUNT; gates++)
            by_gates[gates] = table_cell((enum gates)gates, possible, path);
        for (int i = top; i < p->end; i++)
            cells[i] = by_gates[static_gates(table, key->side, table->side_at[i])];
    }
}

static uint64_t name_of(const struct key *key)
{
    uint64_t place =
        key->a >= 0 ? (uint64_t)key->a << 1 : (uint64_t)(key->host_bridge + 1) << 1 | 1u;
    return 1ull << 63 | place << 20 | (uint64_t)key->redirects << 18 |
           (uint64_t)key->switches << 16 | key->side;
}

/* The slot that holds the run of that name, or is free for it. */
static struct run **slot_of_run(const struct rig_reach_table *table, uint64_t name)
{
    size_t i = (size_t)((name * 0x9e3779b97f4a7c15u) >> 48) & (KEPT_SLOTS - 1);
    while (table->kept[i] && table->kept[i]->name != name)
        i = (i + 1) & (KEPT_SLOTS - 1);
    return &table->kept[i];
}

/* The cells of the key's run, worked out if they are not kept. NULL when memory ran out. */
static const uint8_t *run_cells(struct rig_reach_table *table, const struct key *key)
{
    uint64_t name = name_of(key);
    struct run **slot = slot_of_run(table, name);
    if (*slot)
        return (*slot)->cells;
    size_t cells = (size_t)(key->a < 0 ? table->count : table->at[key->a].end - key->a);
    if (2 * table->kept_count >= KEPT_SLOTS || table->kept_bytes > KEPT_BYTES) {
        table_let_go(table);
        slot = slot_of_run(table, name);
    }
    struct run *run = malloc(sizeof *run + cells);
    if (!run)
        return NULL;
    run->name = name;
    if (key->a < 0)
        fill_base(table, key, run->cells);
    else
        fill_run(table, key, key->a, table->at[key->a].end, run->cells);
    *slot = run;
    table->kept_count++;
    table->kept_bytes += cells;
    return run->cells;
}

/* key's path, from f up to its bridge, led on up to the bridge `to` above it. */
static struct key key_above(const struct rig_reach_table *table, const struct key *key, int to)
{
    const struct place_in_order *from = &table->at[table->at[key->a].above];
    int above = table->at[to].above;
    const struct place_in_order *top = above >= 0 ? &table->at[above] : NULL;
    int switches = key->switches + from->switches - (top ? top->switches : 0);
    enum rig_answer redirects = key->redirects;
    if (from->redirecting > (top ? top->redirecting : 0))
        redirects = RIG_ANSWER_YES;
    else if (redirects == RIG_ANSWER_NO && from->unread > (top ? top->unread : 0))
        redirects = RIG_ANSWER_UNKNOWN;
    return (struct key){.a = to,
                        .redirects = redirects,
                        .switches = switches > 2 ? 2 : switches,
                        .side = key->side};
}

/* The targets that key's bridge is the first common bridge of, which is its run without that of its
   child towards f (`child`, or -1 where the bridge is f): few are worked out, many copied,
   whereupon the child replaces its part. False when memory ran out. */
static bool fill_level(struct rig_reach_table *table, const struct key *key, int child,
                       uint8_t *cells)
{
    const int a = key->a, end = table->at[a].end;
    int end_before = child < 0 ? end : child, first_after = child < 0 ? end : table->at[child].end;
    if (end_before - a + end - first_after <= SHORT_RUN) {
        fill_run(table, key, a, end_before, cells + a);
        fill_run(table, key, first_after, end, cells + first_after);
        return true;
    }
    const uint8_t *run = run_cells(table, key);
    if (run)
        memcpy(cells + a, run, (size_t)(end - a));
    return run != NULL;
}

/* The levels from the top down to the bridge a, above key's. */
static bool fill_above(struct rig_reach_table *table, const struct key *key, int a, int child,
                       uint8_t *cells)
{
    if (a < 0)
        return true;
    const struct key level = key_above(table, key, a);
    return fill_above(table, key, table->at[a].above, a, cells) &&
           fill_level(table, &level, child, cells);
}

/* The row of all functions of key's side that are below its bridge by such a path. NULL when memory
 * ran out. */
static const uint8_t *row_cells(struct rig_reach_table *table, const struct key *key)
{
    const struct place_in_order *bridge = &table->at[key->a];
    const struct key outside = {.a = -1, .host_bridge = bridge->host_bridge, .side = key->side};
    uint64_t name = name_of(key);
    size_t slot = (size_t)((name * 0x9e3779b97f4a7c15u) >> 61) % ROWS;
    uint8_t *cells = table->rows + slot * (size_t)table->count;
    if (table->row_name[slot] == name)
        return cells;
    table->row_name[slot] = 0;
    const uint8_t *base = run_cells(table, &outside);
    if (!base)
        return NULL;
    memcpy(cells, base, (size_t)table->count);
    if (!fill_above(table, key, bridge->above, key->a, cells))
        return NULL;
    fill_run(table, key, key->a, bridge->end, cells + key->a);
    table->row_name[slot] = name;
    return cells;
}

/* Memory that ran out on the way costs time, not the answer: a cell is decided alone. */
static void fill_slowly(const struct rig_reach_table *table, int from, int first, int end,
                        uint8_t *cells)
{
    for (int i = first; i < end; i++) {
        struct rig_p2pdma d;
        int to = table->order[i];
        if (rig_p2pdma_decide(table->t, table->rules, to, table->order[from], &d, NULL) != RIG_OK) {
            cells[i] = table_cell(GATES_UNKNOWN, 7, RIG_PATH_UNKNOWN);
            continue;
        }
        cells[i] = table_cell(static_gates(table, table->at[from].side, table->at[i].side),
                              d.possible, path_of(table->t, &d, table->order[from], to));
        rig_p2pdma_free(&d);
    }
}

/* Where one of the two is below something that the source lacks, a common bridge may be there. */
static void fill_cut_tree(const struct rig_reach_table *table, int from, int top, uint8_t *cells)
{
    const struct place_in_order *f = &table->at[from], *tree = &table->at[top];
    if (trees_may_join(table->t, table->order[f->top], table->order[top]) == RIG_ANSWER_NO)
        return; /* the base row is right */
    enum rig_answer carried = table_carries(table, f->host_bridge, tree->host_bridge);
    bool redirects = f->whole ? f->own_redirect == RIG_ANSWER_YES : f->redirecting > 0;
    for (int i = top; i < tree->end; i++) {
        const struct place_in_order *to = &table->at[i];
        bool there = to->whole ? to->own_redirect == RIG_ANSWER_YES : to->redirecting > 0;
        unsigned possible = verdicts(
            RIG_ANSWER_UNKNOWN, redirects || there ? RIG_ANSWER_YES : RIG_ANSWER_UNKNOWN, carried);
        cells[i] = table_cell(static_gates(table, f->side, to->side), possible, RIG_PATH_UNKNOWN);
    }
}

static void fill_outside(struct rig_reach_table *table, int from, uint8_t *cells)
{
    const struct place_in_order *f = &table->at[from];
    const struct key key = {.a = -1, .host_bridge = f->host_bridge, .side = f->side_from};
    const uint8_t *base = run_cells(table, &key);
    if (!base) {
        fill_slowly(table, from, 0, table->count, cells);
        return;
    }
    memcpy(cells, base, (size_t)table->count);
    if (f->whole) {
        for (int k = 0; k < table->cut_count; k++)
            fill_cut_tree(table, from, table->cut_tops[k], cells);
        return;
    }
    for (int top = 0; top < table->count; top = table->at[top].end)
        if (top != f->top)
            fill_cut_tree(table, from, top, cells);
}

/* What is known of f's path up to the bridge a. */
static struct key key_of(const struct rig_reach_table *table, const struct place_in_order *f, int a)
{
    int above = table->at[a].above;
    const struct place_in_order *top = above >= 0 ? &table->at[above] : NULL;
    int switches = f->switches - (top ? top->switches : 0);
    return (struct key){.a = a,
                        .redirects = f->redirecting > (top ? top->redirecting : 0) ? RIG_ANSWER_YES
                                     : f->unread > (top ? top->unread : 0) ? RIG_ANSWER_UNKNOWN
                                                                           : RIG_ANSWER_NO,
                        .switches = switches > 2 ? 2 : switches,
                        .side = f->side_from};
}

/* From the bridge below `above` down. */
static void fill_inside(struct rig_reach_table *table, int from, int above, int a, int child,
                        uint8_t *cells)
{
    if (table->at[a].above != above)
        fill_inside(table, from, above, table->at[a].above, a, cells);
    const struct key key = key_of(table, &table->at[from], a);
    if (!fill_level(table, &key, child, cells))
        fill_slowly(table, from, a, table->at[a].end, cells);
}

/* The lowest bridge above f with many below it, or -1. */
static int crowded_above(const struct rig_reach_table *table, const struct place_in_order *f)
{
    int a = f->above;
    while (a >= 0 && table->at[a].end - a <= SHORT_RUN)
        a = table->at[a].above;
    return a;
}

static void fill_cells(struct rig_reach_table *table, int from, uint8_t *cells)
{
    const struct place_in_order *f = &table->at[from];
    int above = table->cut_count == 0 ? crowded_above(table, f) : -1;
    const uint8_t *row = NULL;
    if (above >= 0) {
        const struct key key = key_of(table, f, above);
        row = row_cells(table, &key);
    }
    if (row) {
        memcpy(cells, row, (size_t)table->count);
    } else {
        fill_outside(table, from, cells);
        above = -1;
    }
    fill_inside(table, from, above, from, -1, cells);
}

static void fill_distances(const struct rig_reach_table *table, int from, uint16_t *distance)
{
    const struct place_in_order *f = &table->at[from];
    for (int i = 0; i < table->count; i++)
        distance[i] =
            f->whole && table->at[i].whole ? (uint16_t)(f->length + table->at[i].length) : 0xffffu;
    for (int i = f->top; i < table->at[f->top].end; i++)
        distance[i] = (uint16_t)(f->length + table->at[i].length);
    for (int a = f->top;;) {
        /* Each bridge further down towards f that also holds the target shortens the way by two. */
        for (int i = a; i < table->at[a].end; i++)
            distance[i] = (uint16_t)(distance[i] - 2);
        if (a == from)
            break;
        int child = a + 1;
        while (table->at[child].end <= from)
            child = table->at[child].end;
        a = child;
    }
}

void rig_reach_table_row(struct rig_reach_table *table, int from, const int *targets, int count,
                         uint8_t *out_cells, uint16_t *out_distances)
{
    int position = table->position[from];
    const struct place_in_order *f = &table->at[position];
    uint8_t *cells = targets ? table->row : out_cells;
    fill_cells(table, position, cells);
    unsigned possible = RIG_CELL_POSSIBLE(cells[position]);
    enum rig_answer self = answer_of(gates_self(&table->side[f->side]), possible);
    cells[position] = (uint8_t)((unsigned)self | possible << 2 | (unsigned)RIG_PATH_SELF << 5);
    uint16_t *distance = targets ? table->distance : out_distances;
    if (out_distances)
        fill_distances(table, position, distance);
    if (!targets)
        return;
    for (int k = 0; k < count; k++)
        out_cells[k] = cells[table->position[targets[k]]];
    for (int k = 0; out_distances && k < count; k++)
        out_distances[k] = distance[table->position[targets[k]]];
}
