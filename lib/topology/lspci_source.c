#include "topology/lspci.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

bool lspci_skip(struct lspci_text *t, const char *word)
{
    size_t n = strlen(word);
    if (t->left < n || memcmp(t->at, word, n) != 0)
        return false;
    t->at += n;
    t->left -= n;
    return true;
}

void lspci_skip_space(struct lspci_text *t)
{
    while (t->left && (*t->at == ' ' || *t->at == '\t')) {
        t->at++;
        t->left--;
    }
}

bool lspci_find(struct lspci_text *t, const char *word)
{
    const char *found = t->left ? memmem(t->at, t->left, word, strlen(word)) : NULL;
    if (!found)
        return false;
    t->left -= (size_t)(found - t->at);
    t->at = found;
    return true;
}

bool lspci_after(struct lspci_text *t, const char *word)
{
    bool found = lspci_find(t, word);
    if (found)
        lspci_skip(t, word);
    return found;
}

bool lspci_number(struct lspci_text *t, unsigned base, unsigned least, unsigned most, uint64_t *out)
{
    uint64_t value = 0;
    unsigned digits = 0;
    while (digits < t->left) {
        int d = lspci_digit(t->at[digits]);
        if (d < 0 || (unsigned)d >= base)
            break;
        if (digits == most)
            return false;
        value = value * base + (unsigned)d;
        digits++;
    }
    if (digits < least)
        return false;
    t->at += digits;
    t->left -= digits;
    *out = value;
    return true;
}

/* ---- quoted-printable (RFC 2045, 6.7) */

static bool soft_break(const char *line, size_t n)
{
    return n >= 2 && line[n - 1] == '=' && line[n - 2] != '=';
}

static bool escape_at(const char *p, size_t left)
{
    return left >= 3 && p[0] == '=' && lspci_digit(p[1]) >= 0 && lspci_digit(p[2]) >= 0 &&
           !(p[1] >= 'a') && !(p[2] >= 'a');
}

/* True iff letters stand before p that are no byte in hex. */
static bool word_ends_at(const char *line, const char *p)
{
    return p - line >= 3 && isalpha((unsigned char)p[-1]) && isalpha((unsigned char)p[-2]) &&
           isalpha((unsigned char)p[-3]);
}

/* lspci itself prints `primary=00`, which could be an escape: a line is quoted-printable only if
   each `=` in it is well-formed and one is an escape that lspci never prints. */
static bool quoted_printable(const char *line, size_t n)
{
    bool sure = soft_break(line, n);
    for (const char *p = line; (p = memchr(p, '=', (size_t)(line + n - p))) != NULL; p++) {
        size_t left = (size_t)(line + n - p);
        if (left == 1 && soft_break(line, n))
            break;
        if (!escape_at(p, left))
            return false;
        sure |= p[1] == '3' && p[2] == 'D';
        sure |= p == line && (p[1] == '0' || p[1] == '2');
        sure |= left == 3 && p > line && !word_ends_at(line, p) && memcmp(p, "=20", 3) == 0;
        sure |= lspci_digit(p[1]) >= 8;
    }
    return sure;
}

static bool reserve(struct lspci_source *s, size_t bytes)
{
    if (bytes <= s->room_size)
        return true;
    size_t size = s->room_size ? s->room_size : 1024;
    while (size < bytes)
        size *= 2;
    char *room = realloc(s->room, size);
    if (!room)
        return false;
    s->room = room;
    s->room_size = size;
    return true;
}

/* What callers may look at behind a line. */
#define LOOK_AHEAD 64

/* Takes the line at s->at without its line end; false at the end of the data or, with *out_status,
   when the stream fails. */
static bool take_line(struct lspci_source *s, const char **out_line, size_t *out_bytes,
                      enum rig_status *out_status)
{
    const char *feed;
    for (;;) {
        feed = s->at < s->end ? memchr(s->at, '\n', (size_t)(s->end - s->at)) : NULL;
        if ((feed && s->end - feed > LOOK_AHEAD) || !s->stream || s->stream->at_end)
            break;
        enum rig_status status = text_stream_more(s->stream, s->at, s->err);
        if (status != RIG_OK) {
            *out_status = status;
            return false;
        }
        s->at = s->stream->data;
        s->end = s->at + s->stream->bytes;
    }
    if (s->at == s->end)
        return false;
    const char *line = s->at;
    const char *stop = feed ? feed : s->end;
    s->at = feed ? feed + 1 : s->end;
    s->number++;
    while (stop > line && stop[-1] == '\r')
        stop--;
    *out_line = line;
    *out_bytes = (size_t)(stop - line);
    return true;
}

/* Decodes the line and those it goes on in into the room. */
static bool join_soft(struct lspci_source *s, const char **line, size_t *bytes,
                      enum rig_status *out_status)
{
    size_t used = 0;
    const char *p = *line;
    size_t n = *bytes;
    for (;;) {
        if (!reserve(s, used + n + 1))
            return false;
        bool more = soft_break(p, n);
        size_t stop = more ? n - 1 : n;
        for (size_t i = 0; i < stop;) {
            if (escape_at(p + i, stop - i)) {
                s->room[used++] = (char)(lspci_digit(p[i + 1]) << 4 | lspci_digit(p[i + 2]));
                i += 3;
            } else {
                s->room[used++] = p[i++];
            }
        }
        if (!more || !take_line(s, &p, &n, out_status))
            break;
    }
    *line = s->room;
    *bytes = used;
    return true;
}

/* ---- character references of HTML (its standard, 13.5) */

static const struct {
    const char *reference;
    char means;
} references[] = {
    {"&lt;", '<'},    {"&gt;", '>'},   {"&amp;", '&'},  {"&quot;", '"'}, {"&apos;", '\''},
    {"&nbsp;", ' '},  {"&#160;", ' '}, {"&#xa0;", ' '}, {"&#xA0;", ' '}, {"&#39;", '\''},
    {"&#x27;", '\''}, {"&#x2F;", '/'}, {"&#x2f;", '/'}, {"&#47;", '/'},  {"&#34;", '"'},
    {"&#60;", '<'},   {"&#62;", '>'},  {"&#38;", '&'},  {"&#9;", '\t'},
};

/* The reference at p, or -1. */
static int reference_at(const char *p, size_t left)
{
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(references); i++) {
        size_t n = strlen(references[i].reference);
        if (left >= n && memcmp(p, references[i].reference, n) == 0)
            return (int)i;
    }
    return -1;
}

/* What stands for characters in the source of a page becomes them, in the room. */
static bool plain_characters(struct lspci_source *s, const char **line, size_t *bytes)
{
    if (!reserve(s, *bytes + 1))
        return false;
    if (*line != s->room)
        memcpy(s->room, *line, *bytes);
    size_t used = 0;
    for (size_t i = 0; i < *bytes;) {
        int found = s->room[i] == '&' ? reference_at(s->room + i, *bytes - i) : -1;
        s->room[used++] = found < 0 ? s->room[i] : references[found].means;
        i += found < 0 ? 1 : strlen(references[found].reference);
    }
    *line = s->room;
    *bytes = used;
    return true;
}

/* ---- white space and quote marks */

/* Browsers copy indentation as U+00A0, in UTF-8 here; each becomes a space, in the room. */
static bool plain_spaces(struct lspci_source *s, const char **line, size_t *bytes)
{
    if (!reserve(s, *bytes + 1))
        return false;
    if (*line != s->room)
        memcpy(s->room, *line, *bytes);
    size_t used = 0;
    for (size_t i = 0; i < *bytes; i++) {
        bool hard = i + 1 < *bytes && memcmp(s->room + i, "\xc2\xa0", 2) == 0;
        s->room[used++] = hard ? ' ' : s->room[i];
        i += hard;
    }
    *line = s->room;
    *bytes = used;
    return true;
}

static size_t skip_spaces(const char *p, size_t left, size_t *columns)
{
    size_t taken = 0;
    for (; taken < left && (p[taken] == ' ' || p[taken] == '\t' || p[taken] == '\r'); taken++)
        *columns += p[taken] == '\t' ? 8 - *columns % 8 : 1;
    return taken;
}

/* Quote marks: `>` with at most one space after each, with any white space before them. */
static size_t skip_quotes(const char *p, size_t left)
{
    size_t taken = 0;
    for (;;) {
        size_t columns = 0;
        size_t mark = taken + skip_spaces(p + taken, left - taken, &columns);
        if (mark == left || p[mark] != '>')
            return taken;
        taken = mark + 1;
        if (taken < left && p[taken] == ' ')
            taken++;
    }
}

bool lspci_next(struct lspci_source *s, struct lspci_line *out_line, enum rig_status *out_status)
{
    const char *line;
    size_t bytes, number = s->number;
    if (!take_line(s, &line, &bytes, out_status))
        return false;
    if (number == 1 && bytes >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) {
        line += 3; /* a byte order mark */
        bytes -= 3;
    }
    bool whole = true;
    if (memchr(line, '=', bytes) && quoted_printable(line, bytes))
        whole = join_soft(s, &line, &bytes, out_status);
    if (whole && bytes && memchr(line, '&', bytes))
        whole = plain_characters(s, &line, &bytes);
    if (whole && bytes && memmem(line, bytes, "\xc2\xa0", 2))
        whole = plain_spaces(s, &line, &bytes);
    if (!whole)
        *out_status = RIG_FAILED;
    if (*out_status != RIG_OK)
        return false;
    size_t quotes = skip_quotes(line, bytes), indent = 0;
    size_t start = quotes + skip_spaces(line + quotes, bytes - quotes, &indent);
    while (bytes > start &&
           (line[bytes - 1] == ' ' || line[bytes - 1] == '\t' || line[bytes - 1] == '\r'))
        bytes--;
    *out_line = (struct lspci_line){.text = line + start,
                                    .length = bytes - start,
                                    .number = number,
                                    .column = start + 1,
                                    .indent = indent,
                                    .width = indent + bytes - start};
    return true;
}
