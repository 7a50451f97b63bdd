/* Command lines in a text: words, quotes, comments. */
#include "cli.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reading a text: where it is, and the word and command being made. `quoted`: the word is one even
   if it is empty. */
struct splitter {
    const char *name, *at, *end, *line_start;
    int number;
    struct lines *lines;
    struct line line;
    char *word;
    size_t used;
    bool in_word, quoted, failed;
    struct rig_error *err;
};

static enum rig_status no_memory(struct splitter *s)
{
    s->failed = true;
    s->err->status = RIG_FAILED;
    snprintf(s->err->why, sizeof s->err->why, "out of memory");
    return RIG_FAILED;
}

static enum rig_status bad(struct splitter *s, int line, long column, const char *why)
{
    s->failed = true;
    if (s->err->status != RIG_OK)
        return s->err->status;
    s->err->status = RIG_BAD_INPUT;
    snprintf(s->err->what, sizeof s->err->what, "%s", s->name);
    snprintf(s->err->where, sizeof s->err->where, "%.200s:%d:%ld", s->name, line, column);
    snprintf(s->err->why, sizeof s->err->why, "%s", why);
    return RIG_BAD_INPUT;
}

static long column(const struct splitter *s)
{
    return (long)(s->at - s->line_start) + 1;
}

static void newline(struct splitter *s)
{
    s->number++;
    s->line_start = s->at + 1;
}

/* A word is no longer than the text, which bounds s->word. */
static void put_char(struct splitter *s, char c)
{
    s->word[s->used++] = c;
    s->in_word = true;
}

/* The array with room for one element more than its `count`, NULL where memory lacks. It doubles,
   so its room is the power of two from count on. */
static void *grow(void *array, int count, size_t element)
{
    if (count & (count - 1))
        return array;
    return realloc(array, (count ? (size_t)count * 2 : 1) * element);
}

enum rig_status lines_grow(char **text, size_t *room)
{
    size_t larger = *room ? *room * 2 : 4096;
    if (larger > (size_t)16 << 20)
        return RIG_BAD_INPUT;
    char *grown = realloc(*text, larger);
    if (!grown)
        return RIG_FAILED;
    *text = grown;
    *room = larger;
    return RIG_OK;
}

static void end_word(struct splitter *s)
{
    if (!s->in_word && !s->quoted)
        return;
    char **grown = grow(s->line.word, s->line.count, sizeof *grown);
    if (grown)
        s->line.word = grown;
    char *word = grown ? strndup(s->word, s->used) : NULL;
    if (!word) {
        no_memory(s);
        return;
    }
    if (s->line.count == 0)
        s->line.number = s->number;
    s->line.word[s->line.count++] = word;
    s->used = 0;
    s->in_word = s->quoted = false;
}

static void end_line(struct splitter *s)
{
    end_word(s);
    if (s->line.count == 0 || s->failed)
        return;
    struct line *grown = grow(s->lines->line, s->lines->count, sizeof *grown);
    if (!grown) {
        no_memory(s);
        return;
    }
    s->lines->line = grown;
    s->lines->line[s->lines->count++] = s->line;
    s->line = (struct line){0};
}

/* At a backslash: with the end of the line after it, also of one with a carriage return, it is
   gone, and the newline is the place. */
static bool join_lines(struct splitter *s)
{
    ptrdiff_t skip = s->end - s->at > 2 && s->at[1] == '\r' ? 2 : 1;
    if (s->at[skip] != '\n')
        return false;
    s->at += skip;
    newline(s);
    return true;
}

/* After an opening quote, up to the closing one. In double quotes a backslash quotes " and \, and
   joins lines. */
static void take_quoted(struct splitter *s, char quote)
{
    int line = s->number;
    long start = column(s);
    s->quoted = true;
    for (s->at++; s->at < s->end && *s->at != quote; s->at++) {
        if (*s->at == '\n') {
            newline(s);
        } else if (*s->at == '\\' && quote == '"' && s->at + 1 < s->end) {
            if (s->at[1] == '"' || s->at[1] == '\\' || s->at[1] == '$' || s->at[1] == '`') {
                s->at++;
            } else if (join_lines(s)) {
                continue;
            }
        }
        put_char(s, *s->at);
    }
    if (s->at == s->end)
        bad(s, line, start, "the quote does not end");
}

static void take_backslash(struct splitter *s)
{
    if (s->at + 1 == s->end) {
        bad(s, s->number, column(s), "a backslash ends the text");
        return;
    }
    if (!join_lines(s))
        put_char(s, *++s->at);
}

static void take_one(struct splitter *s)
{
    switch (*s->at) {
    case '\0':
        bad(s, s->number, column(s), "a NUL byte is no text");
        break;
    case ' ':
    case '\t':
    case '\r':
        end_word(s);
        break;
    case ';':
        end_line(s);
        break;
    case '\n':
        end_line(s);
        newline(s);
        break;
    case '\'':
    case '"':
        take_quoted(s, *s->at);
        break;
    case '\\':
        take_backslash(s);
        break;
    case '#':
        if (!s->in_word && !s->quoted) {
            while (s->at + 1 < s->end && s->at[1] != '\n')
                s->at++;
            break;
        }
        put_char(s, '#');
        break;
    default:
        put_char(s, *s->at);
    }
}

static void free_line(struct line *line)
{
    for (int i = 0; i < line->count; i++)
        free(line->word[i]);
    free(line->word);
}

void lines_free(struct lines *lines)
{
    for (int i = 0; i < lines->count; i++)
        free_line(&lines->line[i]);
    free(lines->line);
    *lines = (struct lines){0};
}

enum rig_status lines_read(const char *name, const char *text, size_t bytes,
                           struct lines *out_lines, struct rig_error *err)
{
    struct lines lines = {0};
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3; /* a byte order mark that an editor put there */
        bytes -= 3;
    }
    struct splitter s = {.name = name,
                         .at = text,
                         .end = text + bytes,
                         .line_start = text,
                         .number = 1,
                         .lines = &lines,
                         .err = err};
    s.word = malloc(bytes + 1);
    if (!s.word)
        return no_memory(&s);
    for (; s.at < s.end && !s.failed; s.at++)
        take_one(&s);
    if (!s.failed)
        end_line(&s);
    free(s.word);
    free_line(&s.line);
    if (!s.failed) {
        *out_lines = lines;
        return RIG_OK;
    }
    lines_free(&lines);
    return err->status;
}
