/* Groups of GPUs, and the table of what reaches them. */
#include "reach_graph.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reaches(const struct picture *p, int from, int to)
{
    return p->row[from] >= 0 && picture_pair(p, from, to)->answer == RIG_ANSWER_YES;
}

/* Do all others reach a and b alike, and a and b all others? */
static bool alike(const struct picture *p, int a, int b)
{
    const struct reach_question *q = p->q;
    for (int i = 0; i < q->from_count; i++) {
        int from = q->from[i];
        if (from != a && from != b &&
            picture_pair(p, from, a)->answer != picture_pair(p, from, b)->answer)
            return false;
    }
    for (int k = 0; k < q->to_count; k++) {
        int to = q->to[k];
        if (to != a && to != b && picture_pair(p, a, to)->answer != picture_pair(p, b, to)->answer)
            return false;
    }
    return true;
}

void picture_groups(struct picture *p)
{
    const struct reach_question *q = p->q;
    for (int k = 0; k < q->to_count; k++) {
        int a = q->to[k];
        for (int n = 0; n < p->groups && p->group[a] < 0; n++) {
            int b = p->first[n];
            if (reaches(p, a, b) && reaches(p, b, a) && alike(p, a, b))
                p->group[a] = n;
        }
        if (p->group[a] < 0) {
            p->group[a] = p->groups;
            p->first[p->groups++] = a;
        }
    }
}

/* ---- names */

/* The number at the end of an alias, or -1: gpu12 is 12 of the stem "gpu". */
static int alias_number(const char *alias, size_t *out_stem)
{
    size_t stem = strcspn(alias, "0123456789");
    *out_stem = stem;
    return alias[stem] ? atoi(alias + stem) : -1;
}

static bool follows(const struct rig_topology *t, int a, int b)
{
    const char *x = rig_topology_function(t, a)->alias, *y = rig_topology_function(t, b)->alias;
    size_t m, n;
    return x && y && alias_number(y, &n) == alias_number(x, &m) + 1 && m == n &&
           strncmp(x, y, m) == 0;
}

/* "gpu0-gpu3 gpu6": runs of three and more are told by their ends. */
static void names_text(struct out *o, const struct rig_topology *t, const int *list, int count)
{
    char text[RIG_BDF_MAX];
    for (int i = 0, printed = 0; i < count; i++, printed++) {
        int end = i;
        while (end + 1 < count && follows(t, list[end], list[end + 1]))
            end++;
        out_text(o, printed == 0 ? "" : printed % 4 == 0 ? "<br/>" : " ");
        out_text(o, function_label(t, list[i], text));
        if (end >= i + 2) {
            out_format(o, "-%s", function_label(t, list[end], text));
            i = end;
        }
    }
}

static int members(const struct picture *p, int group, int *out)
{
    int count = 0;
    for (int k = 0; k < p->q->to_count; k++)
        if (p->group[p->q->to[k]] == group)
            out[count++] = p->q->to[k];
    return count;
}

/* ---- cells */

/* Small print of a cell: names one under the other. */
static void small_text(struct out *o, const char *name, const char *after)
{
    out_format(o, "<br/><font point-size=\"8\">%s%s</font>", name, after);
}

/* The paths by which `from` reaches the targets, and the gates that keep it from them. */
static void why_text(struct out *o, const struct picture *p, int from, const int *to, int count,
                     enum rig_answer answer)
{
    unsigned paths = 0, gates = 0;
    for (int k = 0; k < count; k++) {
        const struct pair *pair = picture_pair(p, from, to[k]);
        if (to[k] == from)
            continue;
        if (pair->answer == RIG_ANSWER_YES)
            paths |= 1u << pair->path;
        else if (pair->gate >= 0)
            gates |= 1u << pair->gate;
    }
    for (unsigned i = 0; i < 8; i++)
        if (paths >> i & 1u)
            small_text(o, rig_path_name((enum rig_path)i), "");
    for (unsigned i = 0; i < RIG_GATE_COUNT; i++)
        if (gates >> i & 1u)
            small_text(o, rig_gate_name((enum rig_gate_token)i),
                       answer == RIG_ANSWER_NO ? "" : " ?");
}

/* A group answers alike: its first member that is not `from` speaks for it. */
static void table_cell_text(struct out *o, const struct picture *p, int from, const int *to,
                            int count)
{
    static const char *const word[] = {"no", "yes", "?"};
    static const char *const color[] = {"#ffcdd2", "#c8e6c9", "#fff3e0"};
    int k = to[0] == from && count > 1;
    if (to[k] == from) {
        out_text(o, "<td>-</td>");
        return;
    }
    enum rig_answer answer = picture_pair(p, from, to[k])->answer;
    out_format(o, "<td bgcolor=\"%s\">%s", color[answer], word[answer]);
    why_text(o, p, from, to, count, answer);
    out_text(o, "</td>");
}

/* ---- rows */

/* A row: who, and what stands behind. */
struct table_row {
    int *who;
    int count;
    struct out cells;
};

static void row_cells(struct out *o, const struct picture *p, int from, int *scratch)
{
    for (int n = 0; n < p->groups; n++) {
        int count = members(p, n, scratch);
        table_cell_text(o, p, from, scratch, count);
    }
}

/* Adds a client's row, or the client to the row of others whose cells are the same. */
static int add_row(const struct picture *p, struct table_row *rows, int count, int from,
                   int *scratch)
{
    struct table_row *row = &rows[count];
    out_start(&row->cells, -1);
    row_cells(&row->cells, p, from, scratch);
    for (int i = 0; i < count && p->group[from] < 0; i++) {
        struct table_row *r = &rows[i];
        if (p->group[r->who[0]] >= 0 || r->cells.used != row->cells.used ||
            memcmp(r->cells.buffer, row->cells.buffer, r->cells.used) != 0)
            continue;
        r->who[r->count++] = from;
        out_end(&row->cells);
        return count;
    }
    if (p->group[from] >= 0)
        row->count = members(p, p->group[from], row->who);
    else
        row->who[row->count++] = from;
    return count + 1;
}

static void print_row(struct out *o, const struct picture *p, const struct table_row *row)
{
    const char *color = picture_fill(p, row->who[0]);
    out_format(o, "    <tr><td bgcolor=\"%s\">", color ? color : "white");
    names_text(o, p->q->t, row->who, row->count);
    out_text(o, "</td>");
    out_bytes(o, row->cells.buffer, row->cells.used);
    out_text(o, "</tr>\n");
}

static void print_head(struct out *o, const struct picture *p, int *scratch)
{
    out_text(o, "  table [shape=plain, fillcolor=white, label=<<table border=\"0\" "
                "cellborder=\"1\" cellspacing=\"0\" cellpadding=\"4\">\n    <tr><td>row "
                "reaches column</td>");
    for (int n = 0; n < p->groups; n++) {
        const char *color = picture_fill(p, p->first[n]);
        out_format(o, "<td bgcolor=\"%s\">", color ? color : "white");
        int count = members(p, n, scratch);
        names_text(o, p->q->t, scratch, count);
        out_text(o, "</td>");
    }
    out_text(o, "</tr>\n");
}

/* GPUs' rows first, as the question has them; of a group one. */
static int make_rows(const struct picture *p, struct table_row *rows, int *scratch)
{
    const struct reach_question *q = p->q;
    int count = 0;
    for (int i = 0; i < q->from_count; i++) {
        int group = p->group[q->from[i]];
        bool alone = q->to_count == 1 && q->to[0] == q->from[i];
        if ((group < 0 || p->first[group] == q->from[i]) && !alone)
            count = add_row(p, rows, count, q->from[i], scratch);
    }
    return count;
}

bool picture_table(struct out *o, const struct picture *p)
{
    size_t from = (size_t)p->q->from_count, widest = from + (size_t)p->q->to_count;
    struct table_row *rows = calloc(from + 1, sizeof *rows);
    int *who = calloc((from + 1) * widest + 1, sizeof *who), *scratch = who;
    if (!rows || !who) {
        o->error = o->error ? o->error : ENOMEM;
        free(rows);
        free(who);
        return false;
    }
    for (size_t i = 0; i < from; i++)
        rows[i].who = who + (i + 1) * widest;
    int count = p->q->to_count > 0 ? make_rows(p, rows, scratch) : 0;
    if (count > 0)
        print_head(o, p, scratch);
    for (int i = 0; i < count; i++) {
        print_row(o, p, &rows[i]);
        o->error = o->error ? o->error : rows[i].cells.error;
        out_end(&rows[i].cells);
    }
    out_text(o, count > 0 ? "  </table>>]\n" : "");
    free(rows);
    free(who);
    return count > 0;
}
