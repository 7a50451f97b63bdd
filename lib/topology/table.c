/* All pairs by depth-first spans. In depth-first order everything below a bridge is one run of
   positions. For a function f and a bridge a above it, the functions whose first common bridge with
   f is a are a's run without the run of a's child towards f, and what the decision says of them
   hangs only on a, on whether the path from f up to a redirects, on f's side, and on the target: so
   the runs are kept and copied. What shares no bridge with f hangs on f's host bridge and side
   alone. */
#include "topology/gates.h"
#include "topology/p2pdma.h"

#include <stdlib.h>
#include <string.h>

/* A kept run of cells for targets in a's run, or, for a == -1, for all targets as seen from below a
 * host bridge. */
struct run {
    struct run *next;
    int host_bridge;   /* of a kept base row */
    uint8_t redirects; /* enum rig_answer: the path from f up to and including a */
    uint8_t switches;  /* on it, at most 2 */
    uint16_t side;     /* f's */
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
    uint16_t side;
    bool whole;                   /* its chain ends at a root bus */
    enum rig_answer own_redirect; /* its own */
};

struct rig_reach_table {
    const struct rig_topology *t;
    const struct rig_rules *rules;
    int count;
    struct place_in_order *at;
    int *order, *position;
    struct side *side;
    int sides;
    uint16_t *side_at; /* the side of the function at each position */
    uint8_t *gates;    /* [from * sides + to]: enum rig_answer of gates_static; NULL where sides are
                          many */
    uint8_t *row;      /* a scratch row, by position */
    uint16_t *distance;
    enum rig_answer zen;
    struct rig_bridge_answer *bridge; /* of every host bridge; [host_bridges] is the unknown one */
    struct run **runs;                /* by position of a */
    struct run *base;
    int *cut_tops; /* positions of topmost functions below something that the source lacks */
    int cut_count;
};

#define RUNS_A_BRIDGE 6
#define BASE_ROWS 8
#define GATES_SIDES 64

static uint8_t cell_of(enum rig_answer gates, unsigned possible, enum rig_path path)
{
    return (uint8_t)((unsigned)answer_of(gates, possible) | possible << 2 | (unsigned)path << 5);
}

/* ---- making */

static int side_number(struct rig_reach_table *table, int function)
{
    const struct side s = side_of(table->t, function);
    for (int i = 0; i < table->sides; i++) {
        const struct side *k = &table->side[i];
        if (k->gpu == s.gpu && k->space == s.space && k->passes == s.passes &&
            k->assigned == s.assigned && k->covers == s.covers && k->bits_needed == s.bits_needed &&
            k->bits_held == s.bits_held)
            return i;
    }
    table->side[table->sides] = s;
    return table->sides++;
}

static void fill_place(struct rig_reach_table *table, int position, int function, int above)
{
    struct place_in_order *p = &table->at[position];
    const struct place_in_order *up = above >= 0 ? &table->at[above] : NULL;
    const struct rig_function *f = &table->t->node[function].f;
    p->function = function;
    p->above = above;
    p->end = position + 1;
    p->top = up ? up->top : position;
    p->host_bridge = f->host_bridge;
    p->own_redirect = function_redirects(f);
    p->redirecting = (up ? up->redirecting : 0) + (p->own_redirect == RIG_ANSWER_YES);
    p->unread = (up ? up->unread : 0) + (p->own_redirect == RIG_ANSWER_UNKNOWN);
    p->length = (uint16_t)((up ? up->length : 0) + 1);
    p->switches = (uint16_t)((up ? up->switches : 0) + is_switch(f, p->length));
    p->side = table->side_at[position] = (uint16_t)side_number(table, function);
    p->whole = up ? up->whole : f->parent_known.know != RIG_FACT_UNKNOWN;
    table->order[position] = function;
    table->position[function] = position;
    if (!up && !p->whole)
        table->cut_tops[table->cut_count++] = position;
}

/* Depth first by lists of children; `first` and `next` are by function number. */
static void walk(struct rig_reach_table *table, const int *first, const int *next, int root)
{
    int position = 0, above = -1;
    for (int f = root; f >= 0;) {
        fill_place(table, position, f, above);
        if (first[f] >= 0) {
            above = position++;
            f = first[f];
            continue;
        }
        position++;
        while (next[f] < 0 && above >= 0) {
            table->at[above].end = position;
            f = table->at[above].function;
            above = table->at[above].above;
        }
        f = next[f];
    }
}

static bool put_in_order(struct rig_reach_table *table)
{
    const struct rig_topology *t = table->t;
    size_t n = (size_t)table->count + 1;
    int *first = malloc(n * sizeof *first), *next = malloc(n * sizeof *next);
    int root = -1;
    bool made = first && next;
    for (int i = 0; made && i < t->count; i++)
        first[i] = next[i] = -1;
    for (int i = t->count - 1; made && i >= 0; i--) {
        int *list = t->node[i].f.parent >= 0 ? &first[t->node[i].f.parent] : &root;
        next[i] = *list;
        *list = i;
    }
    if (made)
        walk(table, first, next, root);
    free(first);
    free(next);
    return made;
}

/* Machines have few kinds of sides: the gates between each two are worked out once. */
static bool fill_gates(struct rig_reach_table *table)
{
    if (table->sides > GATES_SIDES)
        return true;
    size_t n = (size_t)table->sides;
    table->gates = malloc(n * n + 1);
    for (size_t i = 0; table->gates && i < n * n; i++)
        table->gates[i] = (uint8_t)gates_static(&table->side[i / n], &table->side[i % n]);
    return table->gates != NULL;
}

enum rig_status rig_reach_table_make(const struct rig_topology *t, const struct rig_rules *rules,
                                     struct rig_reach_table **out_table, struct rig_error *err)
{
    struct rig_reach_table *table = calloc(1, sizeof *table);
    if (!table)
        return rig_fail_memory(err);
    size_t n = (size_t)t->count + 1;
    table->t = t;
    table->rules = rules;
    table->count = t->count;
    table->at = calloc(n, sizeof *table->at);
    table->order = calloc(n, sizeof *table->order);
    table->position = calloc(n, sizeof *table->position);
    table->side = calloc(n, sizeof *table->side);
    table->side_at = calloc(n, sizeof *table->side_at);
    table->row = calloc(n, sizeof *table->row);
    table->distance = calloc(n, sizeof *table->distance);
    table->runs = calloc(n, sizeof *table->runs);
    table->cut_tops = calloc(n, sizeof *table->cut_tops);
    table->bridge = calloc((size_t)t->host_bridges + 1, sizeof *table->bridge);
    bool made = table->at && table->order && table->position && table->side && table->side_at &&
                table->row && table->distance && table->runs && table->cut_tops && table->bridge &&
                put_in_order(table) && fill_gates(table);
    if (!made) {
        rig_reach_table_free(table);
        return rig_fail_memory(err);
    }
    table->zen = cpu_is_zen(t);
    for (int i = 0; i < t->host_bridges; i++)
        ask_bridge(t, rules, i, &table->bridge[i]);
    ask_bridge(t, rules, -1, &table->bridge[t->host_bridges]);
    *out_table = table;
    return RIG_OK;
}

static void free_runs(struct run *run)
{
    while (run) {
        struct run *next = run->next;
        free(run);
        run = next;
    }
}

void rig_reach_table_free(struct rig_reach_table *table)
{
    if (!table)
        return;
    for (int i = 0; table->runs && i < table->count; i++)
        free_runs(table->runs[i]);
    free_runs(table->base);
    free(table->at);
    free(table->order);
    free(table->position);
    free(table->side);
    free(table->side_at);
    free(table->gates);
    free(table->row);
    free(table->distance);
    free(table->runs);
    free(table->cut_tops);
    free(table->bridge);
    free(table);
}

const int *rig_reach_table_order(const struct rig_reach_table *table)
{
    return table->order;
}

/* ---- cells */

static enum rig_answer carries(const struct rig_reach_table *table, int a, int b)
{
    const struct rig_bridge_answer *unknown = &table->bridge[table->t->host_bridges];
    return host_carries(table->zen, a >= 0 ? &table->bridge[a] : unknown,
                        b >= 0 ? &table->bridge[b] : unknown);
}

static enum rig_answer static_gates(const struct rig_reach_table *table, uint16_t from, uint16_t to)
{
    if (table->gates)
        return (enum rig_answer)table->gates[(size_t)from * (size_t)table->sides + to];
    return gates_static(&table->side[from], &table->side[to]);
}

/* The cells of one path and one set of verdicts, by the static gates' answer. */
struct cells_by_gates {
    uint8_t cell[3];
};

static struct cells_by_gates cells_by_gates(unsigned possible, enum rig_path path)
{
    struct cells_by_gates by;
    for (unsigned gates = 0; gates < 3; gates++)
        by.cell[gates] = cell_of((enum rig_answer)gates, possible, path);
    return by;
}

/* The run of targets whose first common bridge with f is at position a. */
static void fill_run(const struct rig_reach_table *table, int a, struct run *run)
{
    const struct place_in_order *bridge = &table->at[a];
    enum rig_answer carried = carries(table, bridge->host_bridge, bridge->host_bridge);
    struct cells_by_gates by[3][2]; /* by redirects, by whether several switches lie between */
    for (unsigned redirects = 0; redirects < 3; redirects++) {
        unsigned possible = verdicts(RIG_ANSWER_YES, (enum rig_answer)redirects, carried);
        by[redirects][0] = cells_by_gates(possible, RIG_PATH_PIX);
        by[redirects][1] = cells_by_gates(possible, RIG_PATH_PXB);
    }
    for (int i = a; i < bridge->end; i++) {
        const struct place_in_order *to = &table->at[i];
        enum rig_answer redirects = (enum rig_answer)run->redirects;
        if (redirects != RIG_ANSWER_YES && to->redirecting > bridge->redirecting)
            redirects = RIG_ANSWER_YES;
        else if (redirects == RIG_ANSWER_NO && to->unread > bridge->unread)
            redirects = RIG_ANSWER_UNKNOWN;
        int switches = run->switches + to->switches - bridge->switches;
        run->cells[i - a] =
            by[redirects][switches > 1].cell[static_gates(table, run->side, to->side)];
    }
}

static void fill_tree(const struct rig_reach_table *table, struct run *run, int first, int end,
                      struct cells_by_gates by)
{
    uint8_t of_side[GATES_SIDES];
    for (int i = first; !table->gates && i < end; i++)
        run->cells[i] = by.cell[static_gates(table, run->side, table->side_at[i])];
    if (!table->gates)
        return;
    for (int side = 0; side < table->sides; side++)
        of_side[side] = by.cell[static_gates(table, run->side, (uint16_t)side)];
    for (int i = first; i < end; i++)
        run->cells[i] = of_side[table->side_at[i]];
}

/* All targets, as seen from below a host bridge that they share no bridge with. */
static void fill_base(const struct rig_reach_table *table, struct run *run)
{
    for (int top = 0; top < table->count; top = table->at[top].end) {
        const struct place_in_order *p = &table->at[top];
        unsigned possible = verdicts(RIG_ANSWER_NO, RIG_ANSWER_NO,
                                     carries(table, run->host_bridge, p->host_bridge));
        enum rig_path path = path_by_bridges(table->t, run->host_bridge, p->host_bridge);
        fill_tree(table, run, top, p->end, cells_by_gates(possible, path));
    }
}

static bool same_key(const struct run *run, const struct run *key)
{
    return run->host_bridge == key->host_bridge && run->redirects == key->redirects &&
           run->switches == key->switches && run->side == key->side;
}

/* The run for `key` in a list of at most `most`, made if it is not there; the list keeps the latest
   first. NULL when memory ran out. */
static const struct run *find_run(const struct rig_reach_table *table, struct run **list, int most,
                                  int a, const struct run *key)
{
    int n = 0;
    struct run **link = list, *run = NULL;
    for (; *link; link = &(*link)->next, n++) {
        if (same_key(*link, key)) {
            run = *link;
            *link = run->next;
            run->next = *list;
            *list = run;
            return run;
        }
        if (n + 1 == most) {
            run = *link;
            *link = NULL;
            break;
        }
    }
    size_t cells = (size_t)(a < 0 ? table->count : table->at[a].end - a);
    if (!run)
        run = malloc(sizeof *run + cells);
    if (!run)
        return NULL;
    *run = *key;
    run->next = *list;
    *list = run;
    if (a < 0)
        fill_base(table, run);
    else
        fill_run(table, a, run);
    return run;
}

/* Memory that ran out on the way costs time, not the answer: a cell is decided alone. */
static void fill_slowly(const struct rig_reach_table *table, int from, int first, int end,
                        uint8_t *cells)
{
    for (int i = first; i < end; i++) {
        struct rig_p2pdma d;
        int to = table->order[i];
        if (rig_p2pdma_decide(table->t, table->rules, to, table->order[from], &d, NULL) != RIG_OK) {
            cells[i] = cell_of(RIG_ANSWER_UNKNOWN, 7, RIG_PATH_UNKNOWN);
            continue;
        }
        cells[i] = cell_of(static_gates(table, table->at[from].side, table->at[i].side), d.possible,
                           path_of(table->t, &d, table->order[from], to));
        rig_p2pdma_free(&d);
    }
}

/* Where one of the two is below something that the source lacks, a common bridge may be there. */
static void fill_cut_tree(const struct rig_reach_table *table, int from, int top, uint8_t *cells)
{
    const struct place_in_order *f = &table->at[from], *tree = &table->at[top];
    if (trees_may_join(table->t, table->order[f->top], table->order[top]) == RIG_ANSWER_NO)
        return; /* the base row is right */
    enum rig_answer carried = carries(table, f->host_bridge, tree->host_bridge);
    bool redirects = f->whole ? f->own_redirect == RIG_ANSWER_YES : f->redirecting > 0;
    for (int i = top; i < tree->end; i++) {
        const struct place_in_order *to = &table->at[i];
        bool there = to->whole ? to->own_redirect == RIG_ANSWER_YES : to->redirecting > 0;
        unsigned possible = verdicts(
            RIG_ANSWER_UNKNOWN, redirects || there ? RIG_ANSWER_YES : RIG_ANSWER_UNKNOWN, carried);
        cells[i] = cell_of(static_gates(table, f->side, to->side), possible, RIG_PATH_UNKNOWN);
    }
}

static void fill_outside(struct rig_reach_table *table, int from, uint8_t *cells)
{
    const struct place_in_order *f = &table->at[from];
    struct run key = {.host_bridge = f->host_bridge, .side = f->side};
    const struct run *base = find_run(table, &table->base, BASE_ROWS, -1, &key);
    if (!base) {
        fill_slowly(table, from, 0, table->count, cells);
        return;
    }
    memcpy(cells, base->cells, (size_t)table->count);
    if (f->whole) {
        for (int k = 0; k < table->cut_count; k++)
            fill_cut_tree(table, from, table->cut_tops[k], cells);
        return;
    }
    for (int top = 0; top < table->count; top = table->at[top].end)
        if (top != f->top)
            fill_cut_tree(table, from, top, cells);
}

static void fill_inside(struct rig_reach_table *table, int from, int a, uint8_t *cells)
{
    const struct place_in_order *f = &table->at[from], *bridge = &table->at[a];
    /* From the top down, so that a lower bridge's run replaces its part of the higher one's. */
    if (bridge->above >= 0)
        fill_inside(table, from, bridge->above, cells);
    int own = bridge->above >= 0 ? table->at[bridge->above].redirecting : 0;
    int own_unread = bridge->above >= 0 ? table->at[bridge->above].unread : 0;
    int own_switches = bridge->above >= 0 ? table->at[bridge->above].switches : 0;
    struct run key = {.host_bridge = -1, .side = f->side};
    key.redirects = (uint8_t)(f->redirecting > own     ? RIG_ANSWER_YES
                              : f->unread > own_unread ? RIG_ANSWER_UNKNOWN
                                                       : RIG_ANSWER_NO);
    int switches = f->switches - own_switches;
    key.switches = (uint8_t)(switches > 2 ? 2 : switches);
    const struct run *run = find_run(table, &table->runs[a], RUNS_A_BRIDGE, a, &key);
    if (run)
        memcpy(cells + a, run->cells, (size_t)(bridge->end - a));
    else
        fill_slowly(table, from, a, bridge->end, cells);
}

static void fill_distances(const struct rig_reach_table *table, int from, uint16_t *distance)
{
    const struct place_in_order *f = &table->at[from];
    for (int i = 0; i < table->count; i++)
        distance[i] =
            f->whole && table->at[i].whole ? (uint16_t)(f->length + table->at[i].length) : 0xffffu;
    for (int i = f->top; i < table->at[f->top].end; i++)
        distance[i] = (uint16_t)(f->length + table->at[i].length);
    int step = 0;
    for (int a = f->top; a >= 0; step++) {
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
    fill_outside(table, position, cells);
    fill_inside(table, position, position, cells);
    unsigned possible = RIG_CELL_POSSIBLE(cells[position]);
    enum rig_answer self =
        table->side[f->side].gpu ? RIG_ANSWER_NO : answer_of(RIG_ANSWER_YES, possible);
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
