/* The tree with the pairs that reach and those that are blocked. Few pairs are drawn as edges; many
   as groups: functions with the same answers to and from everything share a colour, and one note
   holds the table of groups. */
#include "graph.h"
#include "reach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EDGES_MAX 12
/* more GPUs than this are no table that one could read */
#define GROUPED_MAX 64

static const char *const palette[] = {"#a5d6a7", "#90caf9", "#ffcc80", "#ce93d8",
                                      "#80deea", "#e6ee9c", "#f48fb1", "#bcaaa4"};
#define COLORS ((int)(sizeof palette / sizeof palette[0]))

/* group[i]: the group of function i, or -1. first[g]: the group's first function. */
struct groups {
    int *group, *first;
    int count;
};

static void redirecting_text(struct out *o, const struct rig_topology *t,
                             const struct rig_p2pdma *p)
{
    char text[RIG_BDF_MAX];
    for (int i = 0; i < p->redirecting_count && i < 4; i++)
        out_format(o, "\\n%s",
                   rig_bdf_format(rig_topology_function(t, p->redirecting[i])->bdf, text));
}

static void hosts_text(struct out *o, const struct rig_topology *t, const struct rig_p2pdma *p)
{
    int count = p->bridge[0].host_bridge == p->bridge[1].host_bridge ? 1 : 2;
    for (int i = 0; i < count; i++) {
        const struct rig_bridge_answer *b = &p->bridge[i];
        if (b->host_bridge < 0 || b->listed == RIG_LISTED_ANY)
            continue;
        const struct rig_host_bridge *host = rig_topology_host_bridge(t, b->host_bridge);
        out_format(o, "\\nat %04x:%02x", (unsigned)host->domain, host->bus);
    }
}

/* Where a pair is blocked: the gate, and the ports or host bridges at fault. */
static void place_text(struct out *o, const struct rig_topology *t, const struct rig_reach *reach)
{
    if (reach->gate < 0)
        return;
    out_text(o, rig_gate_name((enum rig_gate_token)reach->gate));
    switch (reach->gate) {
    case RIG_GATE_ACS_REDIRECT:
        redirecting_text(o, t, &reach->p2pdma);
        break;
    case RIG_GATE_BRIDGE_UNLISTED:
    case RIG_GATE_BRIDGE_SAME_ONLY:
    case RIG_GATE_NO_REPRESENTATIVE:
        hosts_text(o, t, &reach->p2pdma);
        break;
    default:
        break;
    }
}

static const char *edge_style(enum rig_answer answer)
{
    return answer == RIG_ANSWER_YES  ? "color=\"#2e7d32\", fontcolor=\"#2e7d32\""
           : answer == RIG_ANSWER_NO ? "color=\"#c62828\", fontcolor=\"#c62828\", style=dashed"
                                     : "color=\"#ef6c00\", fontcolor=\"#ef6c00\", style=dotted";
}

static enum rig_status pair_edge(struct out *o, const struct reach_question *q, int from, int to,
                                 struct rig_error *err)
{
    struct rig_reach there, back;
    enum rig_status status = rig_reach_pair(q->t, q->rules, from, to, &there, err);
    if (status != RIG_OK)
        return status;
    status = rig_reach_pair(q->t, q->rules, to, from, &back, err);
    if (status != RIG_OK) {
        rig_reach_free(&there);
        return status;
    }
    bool both = rig_topology_function(q->t, from)->gpu && there.answer == back.answer &&
                there.gate == back.gate;
    if (!both || from < to || q->pair) {
        out_text(o, "  ");
        graph_node(o, q->t, from);
        out_text(o, " -> ");
        graph_node(o, q->t, to);
        out_format(o, " [constraint=false, arrowhead=normal%s, %s, label=\"",
                   both && !q->pair ? ", dir=both" : "", edge_style(there.answer));
        if (there.answer == RIG_ANSWER_YES)
            out_text(o, rig_path_name(there.path));
        else
            place_text(o, q->t, &there);
        out_text(o, "\"]\n");
    }
    rig_reach_free(&there);
    rig_reach_free(&back);
    return RIG_OK;
}

static enum rig_status pair_edges(struct out *o, const struct reach_question *q,
                                  struct rig_error *err)
{
    enum rig_status status = RIG_OK;
    for (int i = 0; status == RIG_OK && i < q->from_count; i++)
        for (int k = 0; status == RIG_OK && k < q->to_count; k++)
            if (q->from[i] != q->to[k])
                status = pair_edge(o, q, q->from[i], q->to[k], err);
    return status;
}

/* ---- groups */

/* Do a and b reach, and are they reached, alike by everything but themselves? */
static bool alike(const struct reach_question *q, struct rig_reach_table *table, int a, int b)
{
    for (int k = 0; k < q->to_count; k++) {
        int other = q->to[k];
        if (other == a || other == b)
            continue;
        uint8_t x, y;
        rig_reach_table_row(table, a, &other, 1, &x, NULL);
        rig_reach_table_row(table, b, &other, 1, &y, NULL);
        if (RIG_CELL_ANSWER(x) != RIG_CELL_ANSWER(y))
            return false;
        rig_reach_table_row(table, other, &a, 1, &x, NULL);
        rig_reach_table_row(table, other, &b, 1, &y, NULL);
        if (RIG_CELL_ANSWER(x) != RIG_CELL_ANSWER(y))
            return false;
    }
    return true;
}

static enum rig_answer reached(struct rig_reach_table *table, int from, int to)
{
    uint8_t cell;
    rig_reach_table_row(table, from, &to, 1, &cell, NULL);
    return RIG_CELL_ANSWER(cell);
}

/* GPUs that reach each other and answer alike form a group. */
static void make_groups(const struct reach_question *q, struct rig_reach_table *table,
                        struct groups *g)
{
    for (int i = 0; i < rig_topology_count(q->t); i++)
        g->group[i] = -1;
    for (int k = 0; k < q->to_count; k++) {
        int a = q->to[k];
        for (int n = 0; n < g->count && g->group[a] < 0; n++) {
            int b = g->first[n];
            if (reached(table, a, b) == RIG_ANSWER_YES && reached(table, b, a) == RIG_ANSWER_YES &&
                alike(q, table, a, b))
                g->group[a] = n;
        }
        if (g->group[a] < 0) {
            g->group[a] = g->count;
            g->first[g->count++] = a;
        }
    }
}

static const char *group_fill(const void *context, int function)
{
    const struct groups *g = context;
    return g->group[function] >= 0 ? palette[g->group[function] % COLORS] : NULL;
}

/* The functions of a group, or the clients outside all groups, in one table cell. */
static void members_text(struct out *o, const struct reach_question *q, const struct groups *g,
                         int group)
{
    char text[RIG_BDF_MAX];
    const char *between = "";
    for (int k = 0; k < q->to_count; k++) {
        if (g->group[q->to[k]] != group)
            continue;
        out_format(o, "%s%s", between, function_label(q->t, q->to[k], text));
        between = " ";
    }
}

/* What keeps requests of `from` from `to`: a gate's name, or nothing. */
static void gate_text(struct out *o, const struct reach_question *q, int from, int to)
{
    struct rig_reach reach;
    struct rig_error ignored = {.status = RIG_OK};
    if (rig_reach_pair(q->t, q->rules, from, to, &reach, &ignored) != RIG_OK)
        return;
    if (reach.gate >= 0)
        out_format(o, "<br/><font point-size=\"8\">%s</font>",
                   rig_gate_name((enum rig_gate_token)reach.gate));
    rig_reach_free(&reach);
}

static void table_cell_text(struct out *o, const struct reach_question *q,
                            struct rig_reach_table *table, int from, const int *to, int count)
{
    int yes = 0, no = 0, total = 0, blocked = -1;
    for (int k = 0; k < count; k++) {
        if (to[k] == from)
            continue;
        enum rig_answer answer = reached(table, from, to[k]);
        total++;
        yes += answer == RIG_ANSWER_YES;
        no += answer == RIG_ANSWER_NO;
        if (answer != RIG_ANSWER_YES && blocked < 0)
            blocked = to[k];
    }
    const char *word = total == 0 ? "-" : yes == total ? "yes" : no == total ? "no" : "?";
    const char *fill = *word == 'y' ? "#c8e6c9" : *word == 'n' ? "#ffcdd2" : "#fff3e0";
    out_format(o, "<td bgcolor=\"%s\">%s", total == 0 ? "white" : fill, word);
    if (blocked >= 0)
        gate_text(o, q, from, blocked);
    out_text(o, "</td>");
}

static int group_members(const struct reach_question *q, const struct groups *g, int group,
                         int *out)
{
    int count = 0;
    for (int k = 0; k < q->to_count; k++)
        if (g->group[q->to[k]] == group)
            out[count++] = q->to[k];
    return count;
}

/* The table: a row a client that is no GPU and one a group, a column a group. */
static void group_table(struct out *o, const struct reach_question *q,
                        struct rig_reach_table *table, const struct groups *g, int *members)
{
    char text[RIG_BDF_MAX];
    out_text(o, "  table [shape=plain, fillcolor=white, label=<<table border=\"0\" "
                "cellborder=\"1\" cellspacing=\"0\" cellpadding=\"5\">\n    <tr><td>row "
                "reaches column</td>");
    for (int n = 0; n < g->count; n++) {
        out_format(o, "<td bgcolor=\"%s\">", palette[n % COLORS]);
        members_text(o, q, g, n);
        out_text(o, "</td>");
    }
    out_text(o, "</tr>\n");
    for (int i = 0; i < q->from_count; i++) {
        int from = q->from[i], group = g->group[from];
        if (group >= 0 && g->first[group] != from)
            continue;
        out_text(o, "    <tr>");
        out_format(o, "<td bgcolor=\"%s\">", group >= 0 ? palette[group % COLORS] : "white");
        if (group >= 0)
            members_text(o, q, g, group);
        else
            out_text(o, function_label(q->t, from, text));
        out_text(o, "</td>");
        for (int n = 0; n < g->count; n++)
            table_cell_text(o, q, table, from, members, group_members(q, g, n, members));
        out_text(o, "</tr>\n");
    }
    out_text(o, "  </table>>]\n");
    /* the table stands below the tree */
    for (int k = 0; k < q->to_count; k++) {
        out_text(o, "  ");
        graph_node(o, q->t, q->to[k]);
        out_text(o, " -> table [style=invis]\n");
    }
}

static enum rig_status grouped(struct out *o, const struct reach_question *q, struct rig_error *err)
{
    size_t count = (size_t)rig_topology_count(q->t) + 1;
    struct groups g = {.group = calloc(count, sizeof *g.group),
                       .first = calloc(count, sizeof *g.first)};
    int *members = calloc(count, sizeof *members);
    struct rig_reach_table *table = NULL;
    enum rig_status status = rig_reach_table_make(q->t, q->rules, &table, err);
    if (status == RIG_OK && (!g.group || !g.first || !members)) {
        *err = (struct rig_error){.status = RIG_FAILED, .why = "out of memory"};
        status = RIG_FAILED;
    }
    if (status == RIG_OK) {
        make_groups(q, table, &g);
        struct graph_marks marks = {group_fill, &g};
        status = graph_tree(o, q->t, q->rules, &marks, err);
        group_table(o, q, table, &g, members);
    }
    rig_reach_table_free(table);
    free(g.group);
    free(g.first);
    free(members);
    return status;
}

enum rig_status reach_graph(struct out *o, const struct reach_question *q, struct rig_error *err)
{
    enum rig_status status;
    graph_begin(o);
    if ((long)q->from_count * q->to_count <= EDGES_MAX) {
        status = graph_tree(o, q->t, q->rules, NULL, err);
        if (status == RIG_OK)
            status = pair_edges(o, q, err);
    } else if (q->to_count <= GROUPED_MAX && q->from_count <= 4 * GROUPED_MAX) {
        status = grouped(o, q, err);
    } else {
        status = graph_tree(o, q->t, q->rules, NULL, err);
        out_format(o, "  many [shape=note, label=\"%ld pairs: too many to draw\"]\n",
                   (long)q->from_count * q->to_count);
    }
    graph_end(o);
    return status;
}
