/* The table of all pairs: its functions in depth-first order, and what every row needs. */
#include "topology/table.h"

#include <stdlib.h>
#include <string.h>

#define MOST_SIDES 256 /* whose gates are worked out beforehand */

enum rig_answer table_carries(const struct rig_reach_table *table, int a, int b)
{
    const struct rig_bridge_answer *unknown = &table->bridge[table->t->host_bridges];
    return host_carries(table->zen, a >= 0 ? &table->bridge[a] : unknown,
                        b >= 0 ? &table->bridge[b] : unknown);
}

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

/* Sides differ by what is asked of targets, too: as clients few do. */
static uint16_t first_alike(const struct rig_reach_table *table, uint16_t side)
{
    const size_t sides = (size_t)table->sides;
    const uint8_t *own = table->gates + side * sides;
    uint16_t first = 0;
    while (memcmp(table->gates + first * sides, own, sides) != 0)
        first++;
    return first;
}

static void merge_sides(struct rig_reach_table *table)
{
    uint16_t first[MOST_SIDES];
    for (int i = 0; table->gates && i < table->sides; i++)
        first[i] = first_alike(table, (uint16_t)i);
    for (int i = 0; i < table->count; i++)
        table->at[i].side_from = table->gates ? first[table->at[i].side] : table->at[i].side;
}

static void fill_common(struct rig_reach_table *table)
{
    for (unsigned k = 0; k < 9; k++) {
        unsigned possible =
            verdicts(RIG_ANSWER_YES, (enum rig_answer)(k % 3), (enum rig_answer)(k / 3));
        for (unsigned gates = 0; gates < GATES_COUNT; gates++) {
            uint8_t *cells = table->common[k / 3][k % 3][gates];
            cells[0] = table_cell((enum gates)gates, possible, RIG_PATH_PXB);
            cells[1] = table_cell((enum gates)gates, possible, RIG_PATH_PIX);
        }
    }
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
    table->rows = malloc(n * ROWS);
    table->kept = calloc(KEPT_SLOTS, sizeof *table->kept);
    table->cut_tops = calloc(n, sizeof *table->cut_tops);
    table->bridge = calloc((size_t)t->host_bridges + 1, sizeof *table->bridge);
    bool made = table->at && table->order && table->position && table->side && table->side_at &&
                table->row && table->distance && table->rows && table->kept && table->cut_tops &&
                table->bridge && put_in_order(table);
    if (!made) {
        rig_reach_table_free(table);
        return rig_fail_memory(err);
    }
    if (table->sides <= MOST_SIDES)
        table->gates = malloc((size_t)table->sides * (size_t)table->sides + 1);
    for (int i = 0; table->gates && i < table->sides * table->sides; i++)
        table->gates[i] =
            (uint8_t)gates_static(&table->side[i / table->sides], &table->side[i % table->sides]);
    fill_common(table);
    table->zen = cpu_is_zen(t);
    for (int i = 0; i < t->host_bridges; i++)
        ask_bridge(t, rules, i, &table->bridge[i]);
    ask_bridge(t, rules, -1, &table->bridge[t->host_bridges]);
    merge_sides(table);
    for (int i = 0; i < t->count; i++)
        table->at[i].carried =
            table_carries(table, table->at[i].host_bridge, table->at[i].host_bridge);
    *out_table = table;
    return RIG_OK;
}

void rig_reach_table_free(struct rig_reach_table *table)
{
    if (!table)
        return;
    if (table->kept)
        table_let_go(table);
    free(table->at);
    free(table->order);
    free(table->position);
    free(table->side);
    free(table->gates);
    free(table->side_at);
    free(table->row);
    free(table->distance);
    free(table->rows);
    free(table->kept);
    free(table->cut_tops);
    free(table->bridge);
    free(table);
}

const int *rig_reach_table_order(const struct rig_reach_table *table)
{
    return table->order;
}
