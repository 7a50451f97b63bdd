/* The table of all pairs. Cells come as bytes, a row at a time; each distinct cell is laid out once
   and then copied, so that millions of them print at the speed of memory. */
#include "reach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELL_MAX 64
#define FAST_CELL 16
#define DISTANCE_UNKNOWN 0xffffu
/* up to so many cells are looked at first, to make columns no wider than they must be */
#define SURVEY_MAX 65536L

/* A laid-out cell; length 0: not yet laid out. What lies behind length is copied along and then
   written over. */
struct cell_text {
    char text[CELL_MAX];
    size_t length;
};

/* distances is the number of rows of text: distances 0 to distances - 2, and the last row for
   unknown ones. */
struct matrix {
    struct view *view;
    const struct reach_question *q;
    struct rig_reach_table *table;
    uint8_t *cell;
    uint16_t *distance;
    struct cell_text *text; /* [distances][256] */
    unsigned distances;
    int label_width, path_width, distance_width, column;
    bool seen[256];
};

/* No distance is more than both functions' chains together. */
static unsigned distance_bound(const struct reach_question *q)
{
    unsigned deepest = 0;
    for (int i = 0; i < rig_topology_count(q->t); i++) {
        unsigned d = (unsigned)function_steps_up(q->t, i, -1);
        deepest = d > deepest ? d : deepest;
    }
    return 2 * deepest + 2;
}

static void fill_row(struct matrix *m, int row)
{
    rig_reach_table_row(m->table, m->q->from[row], m->q->to, m->q->to_count, m->cell, m->distance);
}

static int digits(unsigned n)
{
    return n >= 100 ? 3 : n >= 10 ? 2 : 1;
}

/* Finds the widths that the cells need. */
static void survey(struct matrix *m)
{
    m->path_width = m->distance_width = 1;
    for (int i = 0; i < m->q->from_count; i++) {
        fill_row(m, i);
        for (int k = 0; k < m->q->to_count; k++) {
            if (RIG_CELL_PATH(m->cell[k]) == RIG_PATH_SELF)
                continue;
            int path = (int)strlen(rig_path_name(RIG_CELL_PATH(m->cell[k])));
            m->path_width = path > m->path_width ? path : m->path_width;
            int d = m->distance[k] == DISTANCE_UNKNOWN ? 1 : digits(m->distance[k]);
            m->distance_width = d > m->distance_width ? d : m->distance_width;
        }
    }
}

static void find_widths(struct matrix *m)
{
    char text[RIG_BDF_MAX];
    int widest = 0;
    if ((long)m->q->from_count * m->q->to_count <= SURVEY_MAX) {
        survey(m);
    } else {
        m->path_width = 4;
        m->distance_width = digits(m->distances);
    }
    for (int i = 0; i < m->q->from_count; i++) {
        int width = (int)strlen(function_label(m->q->t, m->q->from[i], text));
        m->label_width = width > m->label_width ? width : m->label_width;
    }
    for (int k = 0; k < m->q->to_count; k++) {
        int width = (int)strlen(function_label(m->q->t, m->q->to[k], text));
        widest = width > widest ? width : widest;
    }
    /* answer, verdict, path and distance, one space between */
    int cell = 3 + 1 + 1 + 1 + m->path_width + 1 + m->distance_width;
    m->column = (cell > widest ? cell : widest) + 2;
}

static char verdict_letter(unsigned possible)
{
    return possible == RIG_BUS_ADDR           ? 'B'
           : possible == RIG_THRU_HOST_BRIDGE ? 'T'
           : possible == RIG_NOT_SUPPORTED    ? 'N'
                                              : '?';
}

/* Lays out the cell: "yes B PIX  4" and spaces up to the next column. */
static void lay_out(const struct matrix *m, struct cell_text *out, uint8_t cell, unsigned distance)
{
    char number[8] = "?", rest[48];
    enum rig_path path = RIG_CELL_PATH(cell);
    const char *answer = answer_word(RIG_CELL_ANSWER(cell));
    const char *word = answer[0] == 'u' ? "?" : answer;
    if (distance != m->distances - 1)
        snprintf(number, sizeof number, "%u", distance);
    snprintf(rest, sizeof rest, " %c %-*s %*s", verdict_letter(RIG_CELL_POSSIBLE(cell)),
             m->path_width, rig_path_name(path), m->distance_width, number);
    if (path == RIG_PATH_SELF) {
        word = "X";
        rest[0] = '\0';
    }
    bool color = m->view->color && path != RIG_PATH_SELF;
    int visible = 3 + (int)strlen(rest);
    int pad = m->column > visible ? m->column - visible : 0;
    char before[8] = "";
    if (color)
        snprintf(before, sizeof before, "\033[%sm", answer_color(answer));
    int length = snprintf(out->text, sizeof out->text, "%s%s%s%*s%s%*s", before, word,
                          color ? "\033[0m" : "", 3 - (int)strlen(word), "", rest, pad, "");
    out->length = (size_t)length < sizeof out->text ? (size_t)length : sizeof out->text - 1;
}

static const struct cell_text *cell_text(struct matrix *m, uint8_t cell, uint16_t distance)
{
    unsigned last = m->distances - 1;
    unsigned d = distance == DISTANCE_UNKNOWN || distance > last ? last : distance;
    struct cell_text *text = &m->text[d * 256 + cell];
    if (text->length == 0) {
        lay_out(m, text, cell, d);
        m->seen[cell] = true;
    }
    return text;
}

/* Writes the row's cells at p and returns where they end. Every copy is of CELL_MAX bytes, or of
   FAST_CELL where all cells are no longer than that. */
static char *write_cells(struct matrix *m, char *p)
{
    int count = m->q->to_count;
    if (!m->view->color && m->column <= FAST_CELL) {
        for (int k = 0; k < count; k++) {
            memcpy(p, cell_text(m, m->cell[k], m->distance[k])->text, FAST_CELL);
            p += m->column;
        }
        return p;
    }
    for (int k = 0; k < count; k++) {
        const struct cell_text *text = cell_text(m, m->cell[k], m->distance[k]);
        memcpy(p, text->text, CELL_MAX);
        p += text->length;
    }
    return p;
}

static void print_row(struct matrix *m, int row)
{
    struct out *o = m->view->out;
    char name[RIG_BDF_MAX];
    fill_row(m, row);
    out_format(o, "%-*s  ", m->label_width, function_label(m->q->t, m->q->from[row], name));
    char *start = out_room(o, ((size_t)m->q->to_count + 1) * CELL_MAX);
    if (!start)
        return;
    char *end = write_cells(m, start);
    while (end > start && end[-1] == ' ')
        end--;
    *end++ = '\n';
    o->used += (size_t)(end - start);
}

static void print_header(struct matrix *m)
{
    struct out *o = m->view->out;
    char name[RIG_BDF_MAX];
    out_spaces(o, (size_t)m->label_width);
    out_text(o, "  ");
    for (int k = 0; k < m->q->to_count; k++)
        out_format(o, "%-*s", k + 1 < m->q->to_count ? m->column : 0,
                   function_label(m->q->t, m->q->to[k], name));
    out_text(o, "\n");
}

/* ---- the legend: only what the table shows */

static void legend_verdicts(struct table *table, const bool *letter)
{
    static const char *const rows[][2] = {{"B", "a bridge above both turns requests around"},
                                          {"T", "through the host bridge"},
                                          {"N", "not supported"},
                                          {"?", "open"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!letter[(unsigned char)rows[i][0][0]])
            continue;
        table_cell(table, rows[i][0]);
        table_cell(table, rows[i][1]);
    }
}

static void legend_paths(struct table *table, const bool *path)
{
    for (int p = RIG_PATH_UNKNOWN; p <= RIG_PATH_SYS; p++) {
        if (!path[p] || p == RIG_PATH_SELF)
            continue;
        table_cell(table, rig_path_name((enum rig_path)p));
        table_cell(table, path_meaning((enum rig_path)p));
    }
}

static void print_legend(struct matrix *m)
{
    bool path[8] = {false}, letter[256] = {false}, any = false;
    for (unsigned cell = 0; cell < 256; cell++) {
        if (!m->seen[cell] || RIG_CELL_PATH(cell) == RIG_PATH_SELF)
            continue;
        any = true;
        path[RIG_CELL_PATH(cell)] = true;
        letter[(unsigned char)verdict_letter(RIG_CELL_POSSIBLE(cell))] = true;
    }
    if (!any)
        return;
    out_text(m->view->out, "\nrow reaches column's memory: this library's answer, the kernel's "
                           "verdict, path, distance\n");
    struct table *table = table_make(2, NULL, 0);
    legend_verdicts(table, letter);
    legend_paths(table, path);
    table_print(table, m->view->out, "  ");
}

/* stands[i]: function i is a row or a column under its alias. Returns how many are. */
static int mark_aliases(const struct reach_question *q, bool *stands)
{
    int count = 0;
    for (int k = 0; k < q->from_count; k++)
        stands[q->from[k]] = true;
    for (int k = 0; k < q->to_count; k++)
        stands[q->to[k]] = true;
    for (int i = 0; i < rig_topology_count(q->t); i++) {
        stands[i] = stands[i] && rig_topology_function(q->t, i)->alias;
        count += stands[i];
    }
    return count;
}

/* Which function each alias of the table is; nothing where addresses stand in it anyway. A name
   that the source lacks is not looked up: that takes longer than a table, and `list` does. */
static void print_names(struct matrix *m)
{
    const struct reach_question *q = m->q;
    struct table *table = table_make(3, NULL, 0);
    bool *stands = calloc((size_t)rig_topology_count(q->t) + 1, sizeof *stands);
    int named = stands ? mark_aliases(q, stands) : 0;
    if (named > 0)
        out_text(m->view->out, "\n");
    for (int i = 0; stands && i < rig_topology_count(q->t); i++) {
        if (!stands[i])
            continue;
        const struct rig_function *function = rig_topology_function(q->t, i);
        char text[RIG_BDF_MAX];
        table_cell(table, function->alias);
        table_cell(table, rig_bdf_format(function->bdf, text));
        table_cell(table, function->name ? function->name : "");
    }
    table_print(table, m->view->out, "");
    free(stands);
}

static void print_nothing(struct view *view, const struct reach_question *q)
{
    out_format(view->out, "no %s among %d functions\n", q->to_count ? "client" : "GPU",
               rig_topology_count(q->t));
    out_text(view->out, "hint: name a GPU with --gpu FUNCTION, or see every function with --all\n");
}

enum rig_status reach_matrix_text(struct view *view, const struct reach_question *q,
                                  struct rig_error *err)
{
    if (q->from_count == 0 || q->to_count == 0) {
        print_nothing(view, q);
        return RIG_OK;
    }
    struct matrix m = {.view = view, .q = q, .distances = distance_bound(q) + 2};
    size_t count = (size_t)q->to_count;
    enum rig_status status = rig_reach_table_make(q->t, q->rules, &m.table, err);
    m.cell = calloc(count, 1);
    m.distance = calloc(count, sizeof *m.distance);
    m.text = calloc((size_t)m.distances * 256, sizeof *m.text);
    if (status == RIG_OK && (!m.cell || !m.distance || !m.text)) {
        *err = (struct rig_error){.status = RIG_FAILED, .why = "out of memory"};
        status = RIG_FAILED;
    }
    if (status == RIG_OK) {
        find_widths(&m);
        print_header(&m);
        for (int i = 0; i < q->from_count; i++)
            print_row(&m, i);
        print_legend(&m);
        reach_rules_text(view, q);
        print_names(&m);
        reach_targets_text(view, q);
        status = reach_reasons_text(view, q, m.table, err);
    }
    rig_reach_table_free(m.table);
    free(m.cell);
    free(m.distance);
    free(m.text);
    return status;
}
