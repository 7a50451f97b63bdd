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

/* What a run of cells hangs on besides its targets: the bridge `a` at its head, or -1 for all
 * targets as seen from below a host bridge. */
struct key {
    int a;
    int host_bridge; /* with a == -1 */
    enum rig_answer
        redirects; /* with a bridge: does the path from f up to and including it redirect */
    int switches;  /* with a bridge: on that path, at most 2 */
    uint16_t side; /* f's */
};

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
    uint16_t side;
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
    struct run **kept;                /* open-addressing hash by name, at most half full */
    size_t kept_count, kept_bytes;
    uint8_t common[3][3]; /* verdicts with a common bridge, by host question and redirects */
    int *cut_tops;        /* positions of topmost functions below something that the source lacks */
    int cut_count;
};

#define KEPT_SLOTS 8192u
#define KEPT_BYTES (16u << 20) /* all are let go when more are kept */
#define SHORT_RUN 12           /* working such a run out is faster than keeping it */
#define MOST_SIDES 256         /* whose gates are worked out beforehand */

static uint8_t cell_of(enum gates gates, unsigned possible, enum rig_path path)
{
    return (uint8_t)((unsigned)answer_of(gates, possible) | possible << 2 | (unsigned)path << 5);
}

static enum rig_answer carries(const struct rig_reach_table *table, int a, int b)
{
    const struct rig_bridge_answer *unknown = &table->bridge[table->t->host_bridges];
    return host_carries(table->zen, a >= 0 ? &table->bridge[a] : unknown,
                        b >= 0 ? &table->bridge[b] : unknown);
}

/* ---- making */

static int side_number(struct rig_reach_table *table, int function)
{
    const struct side s = side_of(table->t, function);
    for (int i = 0; i < table->sides; i++) {
        const struct side *k = &table->side[i];
        if (k->gpu == s.gpu && k->space == s.space && k->passes == s.passes &&
            k->assigned == s.assigned && k->covers == s.covers && k->bits_needed == s.bits_needed &&
            k->bits_held == s.bits_held && k->linked == s.linked && k->fabric == s.fabric)
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
    table->kept = calloc(KEPT_SLOTS, sizeof *table->kept);
    table->cut_tops = calloc(n, sizeof *table->cut_tops);
    table->bridge = calloc((size_t)t->host_bridges + 1, sizeof *table->bridge);
    bool made = table->at && table->order && table->position && table->side && table->side_at &&
                table->row && table->distance && table->kept && table->cut_tops && table->bridge &&
                put_in_order(table);
    if (!made) {
        rig_reach_table_free(table);
        return rig_fail_memory(err);
    }
    if (table->sides <= MOST_SIDES)
        table->gates = malloc((size_t)table->sides * (size_t)table->sides + 1);
    for (int i = 0; table->gates && i < table->sides * table->sides; i++)
        table->gates[i] =
            (uint8_t)gates_static(&table->side[i / table->sides], &table->side[i % table->sides]);
    for (unsigned k = 0; k < 9; k++)
        table->common[k / 3][k % 3] =
            (uint8_t)verdicts(RIG_ANSWER_YES, (enum rig_answer)(k % 3), (enum rig_answer)(k / 3));
    table->zen = cpu_is_zen(t);
    for (int i = 0; i < t->host_bridges; i++)
        ask_bridge(t, rules, i, &table->bridge[i]);
    ask_bridge(t, rules, -1, &table->bridge[t->host_bridges]);
    for (int i = 0; i < t->count; i++)
        table->at[i].carried = carries(table, table->at[i].host_bridge, table->at[i].host_bridge);
    *out_table = table;
    return RIG_OK;
}

static void let_runs_go(struct rig_reach_table *table)
{
    for (size_t i = 0; i < KEPT_SLOTS; i++) {
        free(table->kept[i]);
        table->kept[i] = NULL;
    }
    table->kept_count = table->kept_bytes = 0;
}

void rig_reach_table_free(struct rig_reach_table *table)
{
    if (!table)
        return;
    if (table->kept)
        let_runs_go(table);
    free(table->at);
    free(table->order);
    free(table->position);
    free(table->side);
    free(table->gates);
    free(table->side_at);
    free(table->row);
    free(table->distance);
    free(table->kept);
    free(table->cut_tops);
    free(table->bridge);
    free(table);
}

const int *rig_reach_table_order(const struct rig_reach_table *table)
{
    return table->order;
}

/* ---- cells */

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
    const uint8_t *possible = table->common[bridge->carried];
    for (int i = first; i < end; i++) {
        const struct place_in_order *to = &table->at[i];
        enum rig_answer redirects = key->redirects;
        if (redirects != RIG_ANSWER_YES && to->redirecting > bridge->redirecting)
            redirects = RIG_ANSWER_YES;
        else if (redirects == RIG_ANSWER_NO && to->unread > bridge->unread)
            redirects = RIG_ANSWER_UNKNOWN;
        int switches = key->switches + to->switches - bridge->switches;
        *cells++ = cell_of(static_gates(table, key->side, to->side), possible[redirects],
                           switches <= 1 ? RIG_PATH_PIX : RIG_PATH_PXB);
    }
}

/* All targets, as seen from below a host bridge that they share no bridge with. */
static void fill_base(const struct rig_reach_table *table, const struct key *key, uint8_t *cells)
{
    for (int top = 0; top < table->count; top = table->at[top].end) {
        const struct place_in_order *p = &table->at[top];
        unsigned possible = verdicts(RIG_ANSWER_NO, RIG_ANSWER_NO,
                                     carries(table, key->host_bridge, p->host_bridge));
        enum rig_path path = path_by_bridges(table->t, key->host_bridge, p->host_bridge);
        uint8_t by_gates[GATES_COUNT];
        for (unsigned gates = 0; gates < GATES_COUNT; gates++)
            by_gates[gates] = cell_of((enum gates)gates, possible, path);
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
        let_runs_go(table);
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

/* Memory that ran out on the way costs time, not the answer: a cell is decided alone. */
static void fill_slowly(const struct rig_reach_table *table, int from, int first, int end,
                        uint8_t *cells)
{
    for (int i = first; i < end; i++) {
        struct rig_p2pdma d;
        int to = table->order[i];
        if (rig_p2pdma_decide(table->t, table->rules, to, table->order[from], &d, NULL) != RIG_OK) {
            cells[i] = cell_of(GATES_UNKNOWN, 7, RIG_PATH_UNKNOWN);
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
    const struct key key = {.a = -1, .host_bridge = f->host_bridge, .side = f->side};
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

/* The targets that a is the first common bridge of, which is a's run without that of its child
   towards f (`child`, or -1 where a is f): few are worked out, many copied, whereupon the child
   replaces its part. */
static void fill_level(struct rig_reach_table *table, int from, int a, int child, uint8_t *cells)
{
    const struct place_in_order *f = &table->at[from], *bridge = &table->at[a];
    const struct place_in_order *above = bridge->above >= 0 ? &table->at[bridge->above] : NULL;
    int switches = f->switches - (above ? above->switches : 0);
    const struct key key = {.a = a,
                            .redirects =
                                f->redirecting > (above ? above->redirecting : 0) ? RIG_ANSWER_YES
                                : f->unread > (above ? above->unread : 0) ? RIG_ANSWER_UNKNOWN
                                                                          : RIG_ANSWER_NO,
                            .switches = switches > 2 ? 2 : switches,
                            .side = f->side};
    int end_before = child < 0 ? bridge->end : child,
        first_after = child < 0 ? bridge->end : table->at[child].end;
    if (end_before - a + bridge->end - first_after <= SHORT_RUN) {
        fill_run(table, &key, a, end_before, cells + a);
        fill_run(table, &key, first_after, bridge->end, cells + first_after);
        return;
    }
    const uint8_t *run = run_cells(table, &key);
    if (run)
        memcpy(cells + a, run, (size_t)(bridge->end - a));
    else
        fill_slowly(table, from, a, bridge->end, cells);
}

/* From the top down. */
static void fill_inside(struct rig_reach_table *table, int from, int a, int child, uint8_t *cells)
{
    if (table->at[a].above >= 0)
        fill_inside(table, from, table->at[a].above, a, cells);
    fill_level(table, from, a, child, cells);
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
    fill_outside(table, position, cells);
    fill_inside(table, position, position, -1, cells);
    unsigned possible = RIG_CELL_POSSIBLE(cells[position]);
    enum rig_answer self =
        table->side[f->side].gpu ? RIG_ANSWER_NO : answer_of(GATES_OPEN, possible);
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
