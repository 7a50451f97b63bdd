/* The tree with the pairs that reach and those that are blocked, and where they are. Few pairs are
   drawn as arrows; all stand in one table of groups of functions that answer alike. */
#include "reach_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARROWS_MAX 6
/* more than this are no table that one could read */
#define GPUS_MAX 64
#define CLIENTS_MAX 256

/* ---- where pairs end */

static void stop_at_ends(struct picture *p, const struct rig_reach *reach)
{
    const int ends[] = {reach->from, reach->to};
    for (size_t k = 0; k < 2; k++) {
        struct rig_fact iommu = rig_topology_function(p->q->t, ends[k])->iommu;
        p->stops[ends[k]] += rig_fact_has(iommu) && iommu.value == RIG_IOMMU_TRANSLATE;
    }
}

static void stop_at_bridges(struct picture *p, const struct rig_p2pdma *d)
{
    int bridges = d->bridge[0].host_bridge == d->bridge[1].host_bridge ? 1 : 2;
    for (int i = 0; i < bridges; i++) {
        const struct rig_bridge_answer *b = &d->bridge[i];
        if (b->host_bridge >= 0 && b->listed != RIG_LISTED_ANY)
            p->stops[rig_topology_count(p->q->t) + b->host_bridge]++;
    }
}

/* Counts a pair that is blocked at what its first closed gate is about. */
static void count_stop(struct picture *p, const struct rig_reach *reach)
{
    const struct rig_p2pdma *d = &reach->p2pdma;
    switch (reach->gate) {
    case RIG_GATE_IOMMU_TRANSLATES:
        stop_at_ends(p, reach);
        break;
    case RIG_GATE_BAR_UNASSIGNED:
    case RIG_GATE_BAR_SMALL:
    case RIG_GATE_BAR_ABOVE_MASK:
        p->stops[reach->to]++;
        break;
    case RIG_GATE_ACS_REDIRECT:
        for (int i = 0; i < d->redirecting_count; i++)
            p->stops[d->redirecting[i]]++;
        break;
    case RIG_GATE_BRIDGE_UNLISTED:
    case RIG_GATE_BRIDGE_SAME_ONLY:
    case RIG_GATE_NO_REPRESENTATIVE:
        stop_at_bridges(p, d);
        break;
    default:
        break;
    }
}

/* ---- the pairs */

static const char *edge_style(enum rig_answer answer)
{
    return answer == RIG_ANSWER_YES  ? "color=\"" GRAPH_GREEN "\""
           : answer == RIG_ANSWER_NO ? "color=\"" GRAPH_RED "\", style=dashed"
                                     : "color=\"" GRAPH_ORANGE "\", style=dotted";
}

/* Two arrows that say the same are one with two heads. */
static bool same_both_ways(const struct picture *p, int from, int to)
{
    if (p->q->pair || p->row[to] < 0 || p->column[from] < 0)
        return false;
    return picture_pair(p, from, to)->answer == picture_pair(p, to, from)->answer;
}

static void arrow(const struct picture *p, struct out *o, int from, int to)
{
    bool both = same_both_ways(p, from, to);
    if (from == to || (both && from > to))
        return;
    out_text(o, "  ");
    graph_node(o, p->q->t, from);
    out_text(o, " -> ");
    graph_node(o, p->q->t, to);
    out_format(o,
               " [constraint=false, arrowhead=normal%s, "
               "penwidth=1.5, %s]\n",
               both ? ", dir=both" : "", edge_style(picture_pair(p, from, to)->answer));
}

static void arrows(const struct picture *p, struct out *o)
{
    for (int i = 0; i < p->q->from_count; i++)
        for (int k = 0; k < p->q->to_count; k++)
            arrow(p, o, p->q->from[i], p->q->to[k]);
}

static enum rig_status ask_pair(struct picture *p, int i, int k, struct rig_error *err)
{
    const struct reach_question *q = p->q;
    struct rig_reach reach;
    enum rig_status status = rig_reach_pair(q->t, q->rules, q->from[i], q->to[k], &reach, err);
    if (status != RIG_OK)
        return status;
    if (reach.answer == RIG_ANSWER_NO)
        count_stop(p, &reach);
    p->pair[(size_t)i * (size_t)q->to_count + (size_t)k] =
        (struct pair){.answer = (uint8_t)reach.answer,
                      .path = (uint8_t)reach.path,
                      .gate = (int8_t)reach.gate,
                      .common = reach.p2pdma.common};
    rig_reach_free(&reach);
    return RIG_OK;
}

/* Every pair is decided once. */
static enum rig_status ask_pairs(struct picture *p, struct rig_error *err)
{
    const struct reach_question *q = p->q;
    enum rig_status status = RIG_OK;
    for (int i = 0; status == RIG_OK && i < q->from_count; i++)
        for (int k = 0; status == RIG_OK && k < q->to_count; k++)
            if (q->from[i] != q->to[k])
                status = ask_pair(p, i, k, err);
    return status;
}

/* ---- the tree's marks */

static bool shows(const void *context, int function)
{
    const struct picture *p = context;
    return p->row[function] >= 0 || p->column[function] >= 0;
}

const char *picture_fill(const struct picture *p, int function)
{
    static const char *const palette[] = {"#a5d6a7", "#90caf9", "#ffcc80", "#ce93d8",
                                          "#80deea", "#e6ee9c", "#f48fb1", "#bcaaa4"};
    int group = p->q->row || p->q->pair ? -1 : p->group[function];
    return group >= 0 ? palette[group % (int)(sizeof palette / sizeof palette[0])] : NULL;
}

static const char *fill(const void *context, int function)
{
    return picture_fill(context, function);
}

static long stops(const void *context, int function, int host_bridge)
{
    const struct picture *p = context;
    return p->stops[function >= 0 ? function : rig_topology_count(p->q->t) + host_bridge];
}

static bool is_under(const struct rig_topology *t, int i, int above)
{
    return function_steps_up(t, i, above) >= 0;
}

/* The one pair's way: from both ends up to where it turns. */
static const char *route(const void *context, int function)
{
    const struct picture *p = context;
    const struct reach_question *q = p->q;
    if (!q->pair || q->from[0] == q->to[0])
        return NULL;
    const struct pair *pair = p->pair;
    if (function == pair->common ||
        (!is_under(q->t, q->from[0], function) && !is_under(q->t, q->to[0], function)) ||
        (pair->common >= 0 && !is_under(q->t, function, pair->common)))
        return NULL;
    return pair->answer == RIG_ANSWER_YES  ? GRAPH_GREEN
           : pair->answer == RIG_ANSWER_NO ? GRAPH_RED
                                           : GRAPH_ORANGE;
}

/* ---- the picture */

static void picture_free(struct picture *p)
{
    free(p->pair);
    free(p->row);
    free(p->column);
    free(p->group);
    free(p->first);
    free(p->stops);
}

static enum rig_status picture_make(struct picture *p, struct rig_error *err)
{
    const struct reach_question *q = p->q;
    size_t count = (size_t)rig_topology_count(q->t) + 1;
    p->pair = calloc((size_t)q->from_count * (size_t)q->to_count + 1, sizeof *p->pair);
    p->row = calloc(count, sizeof *p->row);
    p->column = calloc(count, sizeof *p->column);
    p->group = calloc(count, sizeof *p->group);
    p->first = calloc(count, sizeof *p->first);
    p->stops = calloc(count + (size_t)rig_topology_host_bridges(q->t), sizeof *p->stops);
    if (!p->pair || !p->row || !p->column || !p->group || !p->first || !p->stops) {
        *err = (struct rig_error){.status = RIG_FAILED, .why = "out of memory"};
        return RIG_FAILED;
    }
    for (size_t i = 0; i < count; i++)
        p->row[i] = p->column[i] = p->group[i] = -1;
    for (int i = 0; i < q->from_count; i++)
        p->row[q->from[i]] = i;
    for (int k = 0; k < q->to_count; k++)
        p->column[q->to[k]] = k;
    return ask_pairs(p, err);
}

/* What the legend says of pairs. */
static void see_pairs(const struct picture *p, bool drawn, struct graph_seen *seen)
{
    const struct reach_question *q = p->q;
    for (int i = 0; i < q->from_count; i++)
        for (int k = 0; k < q->to_count; k++) {
            if (q->from[i] == q->to[k])
                continue;
            const struct pair *pair = picture_pair(p, q->from[i], q->to[k]);
            seen->arrows |= drawn ? 1u << pair->answer : 0;
            if (pair->answer == RIG_ANSWER_YES)
                seen->paths |= 1u << pair->path;
        }
    seen->groups = q->to_count > 1 && !q->row && !q->pair;
}

static enum rig_status draw(struct picture *p, struct out *o, struct rig_error *err)
{
    const struct reach_question *q = p->q;
    const struct graph_marks marks = {p, shows, fill, stops, route};
    const bool few = (long)q->from_count * q->to_count <= ARROWS_MAX;
    struct graph_seen seen = {.redirects = false};
    picture_groups(p);
    see_pairs(p, few, &seen);
    enum rig_status status = graph_tree(o, q->t, q->rules, &marks, &seen, err);
    if (few)
        arrows(p, o);
    bool table = picture_table(o, p);
    graph_legend(o, &seen);
    graph_below(o, q->t, &seen, table ? "table" : "legend");
    out_text(o, table ? "  {rank=same; table -> legend [style=invis]}\n" : "");
    return status;
}

enum rig_status reach_graph(struct out *o, const struct reach_question *q, struct rig_error *err)
{
    enum rig_status status;
    graph_begin(o, q->t, q->rules, "who reaches whose memory");
    if (q->to_count <= GPUS_MAX && q->from_count <= CLIENTS_MAX) {
        struct picture p = {.q = q};
        status = picture_make(&p, err);
        if (status == RIG_OK)
            status = draw(&p, o, err);
        picture_free(&p);
    } else {
        struct graph_seen seen = {.redirects = false};
        status = graph_tree(o, q->t, q->rules, NULL, &seen, err);
        out_format(o, "  many [shape=note, label=\"%ld pairs: too many to draw\"]\n",
                   (long)q->from_count * q->to_count);
    }
    graph_end(o);
    return status;
}
