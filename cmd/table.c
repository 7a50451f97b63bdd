#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Cells row by row; `used` of them; the titles are the first row if there are any. A NULL cell is
   memory that ran out and prints as nothing. */
struct table {
    int columns;
    unsigned right;
    size_t used, capacity;
    char **cell;
};

struct table *table_make(int columns, const char *const *titles, unsigned right)
{
    struct table *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->columns = columns;
    t->right = right;
    for (int i = 0; titles && i < columns; i++)
        table_cell(t, titles[i]);
    return t;
}

void table_cell(struct table *t, const char *text)
{
    if (!t)
        return;
    if (t->used == t->capacity) {
        size_t capacity = t->capacity ? t->capacity * 2 : 64;
        char **larger = reallocarray(t->cell, capacity, sizeof *larger);
        if (!larger)
            return;
        t->cell = larger;
        t->capacity = capacity;
    }
    t->cell[t->used++] = strdup(text);
}

void table_format(struct table *t, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    char *text = NULL;
    if (vasprintf(&text, format, list) < 0)
        text = NULL;
    va_end(list);
    table_cell(t, text ? text : "");
    free(text);
}

static size_t column_width(const struct table *t, int column)
{
    size_t widest = 0;
    for (size_t i = (size_t)column; i < t->used; i += (size_t)t->columns) {
        size_t width = t->cell[i] ? text_width(t->cell[i]) : 0;
        widest = width > widest ? width : widest;
    }
    return widest;
}

/* Prints the row that begins at cell `first`; spaces wait until something follows them. */
static void print_row(const struct table *t, size_t first, const size_t *width, struct out *o)
{
    size_t waiting = 0;
    for (int c = 0; c < t->columns && first + (size_t)c < t->used; c++) {
        const char *text = t->cell[first + (size_t)c] ? t->cell[first + (size_t)c] : "";
        size_t pad = width[c] - text_width(text);
        bool right = t->right >> c & 1u;
        waiting += right ? pad : 0;
        if (*text) {
            out_spaces(o, waiting);
            waiting = 0;
            out_escaped(o, text);
        }
        waiting += (right ? 0 : pad) + 2;
    }
    out_text(o, "\n");
}

void table_print(struct table *t, struct out *o, const char *indent)
{
    if (!t)
        return;
    size_t *width = calloc((size_t)t->columns, sizeof *width);
    for (int c = 0; width && c < t->columns; c++)
        width[c] = column_width(t, c);
    for (size_t i = 0; width && i < t->used; i += (size_t)t->columns) {
        out_text(o, indent);
        print_row(t, i, width, o);
    }
    if (!width)
        o->error = ENOMEM;
    free(width);
    for (size_t i = 0; i < t->used; i++)
        free(t->cell[i]);
    free(t->cell);
    free(t);
}
