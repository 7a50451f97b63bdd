#include "mangle.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts that grow */

struct mangled {
    char *text;
    size_t used, room;
};

static void put(struct mangled *o, const char *bytes, size_t n)
{
    if (o->room - o->used < n + 1) {
        o->room = 2 * (o->used + n) + 4096;
        o->text = realloc(o->text, o->room);
        if (!o->text)
            abort();
    }
    memcpy(o->text + o->used, bytes, n);
    o->used += n;
    o->text[o->used] = '\0';
}

static void say(struct mangled *o, const char *text)
{
    put(o, text, strlen(text));
}

static size_t line_length(const char *p)
{
    return strcspn(p, "\n");
}

static const char *after_line(const char *p)
{
    p += line_length(p);
    return *p ? p + 1 : p;
}

/* Applies f to each line, which has no line end. */
static char *each_line(const char *text, void (*f)(struct mangled *o, const char *line, size_t n))
{
    struct mangled o = {NULL, 0, 0};
    put(&o, "", 0);
    for (const char *p = text; *p; p = after_line(p))
        f(&o, p, line_length(p));
    return o.text;
}

static char *replaced(const char *text, const char *const (*pairs)[2], size_t count)
{
    struct mangled o = {NULL, 0, 0};
    put(&o, "", 0);
    while (*text) {
        size_t i = 0;
        while (i < count && strncmp(text, pairs[i][0], strlen(pairs[i][0])) != 0)
            i++;
        if (i < count) {
            say(&o, pairs[i][1]);
            text += strlen(pairs[i][0]);
        } else {
            put(&o, text++, 1);
        }
    }
    return o.text;
}
#define REPLACED(text, pairs) replaced(text, pairs, sizeof(pairs) / sizeof *(pairs))

/* ---- headers and blocks */

static bool hex_at(const char *p, unsigned digits)
{
    for (unsigned i = 0; i < digits; i++)
        if (!isxdigit((unsigned char)p[i]))
            return false;
    return true;
}

bool mangle_is_header(const char *line, size_t *out_place)
{
    const char *p = line;
    size_t digits = strspn(p, "0123456789abcdef");
    if (digits >= 4 && p[digits] == ':')
        p += digits + 1;
    if (!hex_at(p, 2) || p[2] != ':' || !hex_at(p + 3, 2) || p[5] != '.' ||
        !isdigit((unsigned char)p[6]) || p[7] != ' ')
        return false;
    *out_place = (size_t)(p - line) + 7;
    return true;
}

static const char *next_header(const char *p)
{
    size_t place;
    while (*p && !mangle_is_header(p, &place))
        p = after_line(p);
    return p;
}

static const char *block_number(const char *text, unsigned n)
{
    const char *p = next_header(text);
    while (n-- && *p)
        p = next_header(after_line(p));
    return p;
}

char *mangle_without_blocks(const char *text, unsigned first, unsigned count, const char *instead)
{
    struct mangled o = {NULL, 0, 0};
    const char *from = block_number(text, first), *to = from;
    if (!*from)
        return NULL;
    for (unsigned i = 0; i < count && *to; i++)
        to = next_header(after_line(to));
    put(&o, text, (size_t)(from - text));
    say(&o, instead);
    say(&o, to);
    return o.text;
}

char *mangle_elided(const char *text, unsigned n, unsigned from, unsigned keep)
{
    struct mangled o = {NULL, 0, 0};
    const char *block = block_number(text, n);
    const char *end = *block ? next_header(after_line(block)) : block;
    unsigned lines = 0;
    for (const char *p = block; p < end; p = after_line(p))
        lines += line_length(p) > 0;
    if (from + keep >= lines)
        return NULL;
    const char *first = block, *last = block;
    for (unsigned i = 0; i < from; i++)
        first = after_line(first);
    for (unsigned i = 0; i < lines - keep; i++)
        last = after_line(last);
    put(&o, text, (size_t)(first - text));
    say(&o, "[...]\n");
    say(&o, last);
    return o.text;
}

char *mangle_cut(const char *text, unsigned n, bool within_line)
{
    const char *p = text;
    while (n-- && *p)
        p = after_line(p);
    if (!*p || p == text)
        return NULL;
    struct mangled o = {NULL, 0, 0};
    put(&o, text, (size_t)(p - text) - within_line);
    return o.text;
}

/* ---- line ends, white space */

static void crlf_line(struct mangled *o, const char *line, size_t n)
{
    put(o, line, n);
    say(o, "\r\n");
}

static void trailing_line(struct mangled *o, const char *line, size_t n)
{
    put(o, line, n);
    say(o, "  \t \n");
}

static char *byte_order_mark(const char *text)
{
    struct mangled o = {NULL, 0, 0};
    say(&o, "\xef\xbb\xbf");
    say(&o, text);
    return o.text;
}

static void tabs_as(struct mangled *o, const char *line, size_t n, const char *as)
{
    for (size_t i = 0; i < n; i++)
        if (line[i] == '\t')
            say(o, as);
        else
            put(o, line + i, 1);
    say(o, "\n");
}

static void four_line(struct mangled *o, const char *line, size_t n)
{
    tabs_as(o, line, n, "    ");
}

static void eight_line(struct mangled *o, const char *line, size_t n)
{
    tabs_as(o, line, n, "        ");
}

static void one_line(struct mangled *o, const char *line, size_t n)
{
    tabs_as(o, line, n, " ");
}

static void hard_line(struct mangled *o, const char *line, size_t n)
{
    tabs_as(o, line, n, "\xc2\xa0\xc2\xa0\xc2\xa0\xc2\xa0");
}

static char *all_hard(const char *text)
{
    static const char *const pairs[][2] = {{" ", "\xc2\xa0"}, {"\t", "\xc2\xa0\xc2\xa0"}};
    return REPLACED(text, pairs);
}

static void code_line(struct mangled *o, const char *line, size_t n)
{
    say(o, n ? "    " : "");
    put(o, line, n);
    say(o, "\n");
}

static void flat_line(struct mangled *o, const char *line, size_t n)
{
    size_t skip = strspn(line, "\t ");
    put(o, line + skip, skip < n ? n - skip : 0);
    say(o, "\n");
}

static void double_line(struct mangled *o, const char *line, size_t n)
{
    put(o, line, n);
    say(o, "\n\n");
}

static void no_blank_line(struct mangled *o, const char *line, size_t n)
{
    put(o, line, n);
    say(o, n ? "\n" : "");
}

/* ---- mail */

static void quoted_line(struct mangled *o, const char *line, size_t n)
{
    say(o, "> ");
    put(o, line, n);
    say(o, "\n");
}

static void nested_line(struct mangled *o, const char *line, size_t n)
{
    say(o, n ? "> >>> " : "> >>>");
    put(o, line, n);
    say(o, "\n");
}

static void tight_line(struct mangled *o, const char *line, size_t n)
{
    say(o, ">>");
    put(o, line, n);
    say(o, "\n");
}

/* Cuts a line at a space at `width` columns, as mailers do; a tab counts for one. */
static void wrapped_line(struct mangled *o, const char *mark, const char *line, size_t n,
                         size_t width)
{
    while (n > width) {
        size_t cut = width;
        while (cut > 1 && line[cut] != ' ')
            cut--;
        if (cut == 1)
            break;
        say(o, mark);
        put(o, line, cut);
        say(o, "\n");
        line += cut + 1;
        n -= cut + 1;
    }
    say(o, mark);
    put(o, line, n);
    say(o, "\n");
}

static void wrapped_72_line(struct mangled *o, const char *line, size_t n)
{
    wrapped_line(o, "", line, n, 72);
}

static void wrapped_76_line(struct mangled *o, const char *line, size_t n)
{
    wrapped_line(o, "", line, n, 76);
}

static void wrapped_quoted_line(struct mangled *o, const char *line, size_t n)
{
    wrapped_line(o, "> ", line, n, 70);
}

/* RFC 2045, 6.7: `=` and, in the strict form, white space at a line's end and tabs are escaped;
   lines are cut softly before column 76. */
static void printable(struct mangled *o, const char *line, size_t n, bool strict)
{
    size_t column = 0;
    for (size_t i = 0; i < n; i++) {
        bool escape = line[i] == '=' || (unsigned char)line[i] >= 0x80 ||
                      (strict && line[i] == '\t') || (i + 1 == n && line[i] == ' ');
        size_t width = escape ? 3 : 1;
        if (column + width > 75) {
            say(o, "=\n");
            column = 0;
        }
        char text[8];
        if (escape)
            snprintf(text, sizeof text, "=%02X", (unsigned char)line[i]);
        put(o, escape ? text : line + i, width);
        column += width;
    }
    say(o, "\n");
}

static void printable_line(struct mangled *o, const char *line, size_t n)
{
    printable(o, line, n, false);
}

static void strict_line(struct mangled *o, const char *line, size_t n)
{
    printable(o, line, n, true);
}

static void ending_line(struct mangled *o, const char *line, size_t n)
{
    if (n == 0) {
        say(o, "=20\n");
        return;
    }
    printable(o, line, n, false);
    o->used--;
    say(o, "=20\n");
}

/* Each line ends in a space, which is escaped. */
static char *printable_crlf(const char *text)
{
    char *soft = each_line(text, printable_line), *all = each_line(soft, crlf_line);
    free(soft);
    return all;
}

/* RFC 3676: lines that begin with a space are stuffed with one more. */
static void stuffed_line(struct mangled *o, const char *line, size_t n)
{
    say(o, n && (*line == ' ' || *line == '>') ? " " : "");
    put(o, line, n);
    say(o, "\n");
}

/* ---- pages */

static char *entities(const char *text)
{
    static const char *const pairs[][2] = {
        {"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}};
    return REPLACED(text, pairs);
}

static char *hard_entities(const char *text)
{
    static const char *const pairs[][2] = {
        {"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\t", "&nbsp;&nbsp;&nbsp;&nbsp;"}};
    return REPLACED(text, pairs);
}

static char *quoted_entities(const char *text)
{
    char *once = each_line(text, quoted_line), *all = entities(once);
    free(once);
    return all;
}

static char *fenced(const char *text)
{
    struct mangled o = {NULL, 0, 0};
    say(&o, "Hi, my cards do not see each other:\n\n<details>\n```console\n");
    say(&o, text);
    say(&o, "```\n</details>\n\nThanks. 2 cards, 1 switch: what now?\n");
    return o.text;
}

static char *prompted(const char *text)
{
    struct mangled o = {NULL, 0, 0};
    say(&o, "user@host:~$ uname -r\n6.1.0-18-amd64\nuser@host:~$ lspci | wc -l\n40\n"
            "user@host:~$ sudo lspci -vvv\n[sudo] password for user: \n");
    say(&o, text);
    say(&o, "user@host:~$ nvidia-smi topo -m\n\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n"
            "user@host:~$ cat /proc/meminfo | head -1\nMemTotal:       263824912 kB\n"
            "user@host:~$ \n");
    return o.text;
}

static char *twice(const char *text)
{
    struct mangled o = {NULL, 0, 0};
    say(&o, text);
    say(&o, "\nand once more:\n\n");
    say(&o, text);
    return o.text;
}

static char *cut_off_marks(const char *text)
{
    struct mangled o = {NULL, 0, 0};
    say(&o,
        "-------- Forwarded message --------\nFrom: a person\nDate: Mon, 1 Jan 2024 10:00:00 +0000\n\n");
    say(&o, text);
    say(&o, "\n-- \nA Person, 01:02.3 is no time\n");
    return o.text;
}

const struct mangling *mangle_list(size_t *out_count)
{
    static const struct mangling list[] = {
        {"CRLF", crlf_line, NULL, false},
        {"trailing blanks", trailing_line, NULL, false},
        {"a byte order mark", NULL, byte_order_mark, false},
        {"four spaces for a tab", four_line, NULL, false},
        {"eight spaces for a tab", eight_line, NULL, false},
        {"one space for a tab", one_line, NULL, false},
        {"hard spaces for tabs", hard_line, NULL, false},
        {"hard spaces for all", NULL, all_hard, false},
        {"indented as code", code_line, NULL, false},
        {"quoted", quoted_line, NULL, false},
        {"quoted four times", nested_line, NULL, false},
        {"quoted without spaces", tight_line, NULL, false},
        {"quoted-printable", printable_line, NULL, false},
        {"quoted-printable with tabs escaped", strict_line, NULL, false},
        {"quoted-printable with =20 at line ends", ending_line, NULL, false},
        {"quoted-printable and CRLF", NULL, printable_crlf, false},
        {"stuffed", stuffed_line, NULL, false},
        {"HTML entities", NULL, entities, false},
        {"HTML entities with &nbsp;", NULL, hard_entities, false},
        {"quoted, then HTML entities", NULL, quoted_entities, false},
        {"in a fence, with prose", NULL, fenced, false},
        {"among prompts and other commands", NULL, prompted, false},
        {"in a forwarded mail", NULL, cut_off_marks, false},
        {"twice", NULL, twice, false},
        {"a blank line after each line", double_line, NULL, false},
    };
    *out_count = sizeof list / sizeof *list;
    return list;
}

/* ---- what lspci's options and age change in blocks of text */

static char *no_domain(const char *text)
{
    static const char *const pairs[][2] = {{"\n0000:", "\n"}};
    return REPLACED(text + (strncmp(text, "0000:", 5) == 0 ? 5 : 0), pairs);
}

static void no_ids_line(struct mangled *o, const char *line, size_t n)
{
    size_t place;
    if (!mangle_is_header(line, &place)) {
        put(o, line, n);
        say(o, "\n");
        return;
    }
    for (size_t i = 0; i < n; i++) {
        bool ids = line[i] == ' ' && line[i + 1] == '[' && hex_at(line + i + 2, 4) &&
                   (line[i + 6] == ']' || line[i + 6] == ':');
        if (ids)
            i += line[i + 6] == ']' ? 6 : 11;
        else
            put(o, line + i, 1);
    }
    say(o, "\n");
}

/* lspci without -nn, but for what it prints of devices that have no name. */
/* The bracket at p holds ids: "[8086:2030]". */
static bool ids_at(const char *p)
{
    return p[0] == '[' && hex_at(p + 1, 4) && p[5] == ':' && hex_at(p + 6, 4) && p[10] == ']';
}

static void numeric_line(struct mangled *o, const char *line, size_t n)
{
    size_t place;
    const char *end = line + n, *class = memchr(line, '[', n), *ids = NULL;
    if (mangle_is_header(line, &place) && class && class[5] == ']') {
        for (const char *p = class; p + 11 <= end; p++)
            if (ids_at(p))
                ids = p;
    }
    if (!ids) {
        put(o, line, n);
        say(o, "\n");
        return;
    }
    put(o, line, place + 1);
    put(o, class + 1, 4);
    say(o, ": ");
    put(o, ids + 1, 9);
    put(o, ids + 11, (size_t)(end - ids) - 11);
    say(o, "\n");
}

/* lspci -n */
static char *old_numeric(const char *text)
{
    char *now = each_line(text, numeric_line);
    struct mangled o = {NULL, 0, 0};
    for (const char *p = now; *p; p = after_line(p)) {
        size_t place, n = line_length(p);
        if (mangle_is_header(p, &place) && hex_at(p + place + 1, 4) && p[place + 5] == ':') {
            put(&o, p, place);
            say(&o, " Class ");
            put(&o, p + place + 1, n - place - 1);
        } else {
            put(&o, p, n);
        }
        say(&o, "\n");
    }
    free(now);
    return o.text;
}

static char *old_words(const char *text)
{
    static const char *const pairs[][2] = {
        {" Device [", " Unknown device ["},
        {"GT/s", "Gb/s"},
        {" (prog-if 00 [Normal decode])", " (prog-if 00 [Normal decode])"}};
    return REPLACED(text, pairs);
}

static char *dressed_bars(const char *text)
{
    static const char *const pairs[][2] = {
        {"non-prefetchable) [size", "non-prefetchable) [virtual] [size"}};
    return REPLACED(text, pairs);
}

static char *old_virtual(const char *text)
{
    static const char *const pairs[][2] = {{": Memory at ", ": [virtual] Memory at "}};
    return REPLACED(text, pairs);
}

/* ---- facts that are gone */

static void sizeless_line(struct mangled *o, const char *line, size_t n)
{
    const char *size = memmem(line, n, " [size=", 7);
    put(o, line, size ? (size_t)(size - line) : n);
    say(o, "\n");
}

/* As who is not root sees it. */
static char *denied(const char *text)
{
    struct mangled o = {NULL, 0, 0};
    bool hidden = false;
    for (const char *p = text; *p; p = after_line(p)) {
        size_t n = line_length(p);
        bool capability = n > 14 && memcmp(p, "\tCapabilities:", 14) == 0;
        if (capability && !hidden)
            say(&o, "\tCapabilities: <access denied>\n");
        hidden = capability || (hidden && n > 2 && memcmp(p, "\t\t", 2) == 0);
        if (hidden)
            continue;
        put(&o, p, n);
        say(&o, "\n");
    }
    return o.text;
}

/* lspci -vv without the words of ACS: what -v shows of it. */
static void unworded_line(struct mangled *o, const char *line, size_t n)
{
    if (n > 6 && memmem(line, n, "ACSC", 4))
        return;
    put(o, line, n);
    say(o, "\n");
}

/* grep '^[0-9a-f]' with the details of bridges alone. */
static char *bridges_only(const char *text)
{
    struct mangled o = {NULL, 0, 0};
    put(&o, "", 0);
    bool bridge = false;
    for (const char *p = text; *p; p = after_line(p)) {
        size_t place, n = line_length(p);
        bool header = mangle_is_header(p, &place);
        if (header)
            bridge = memmem(p, n, "PCI bridge", 10) != NULL;
        if (!header && !bridge)
            continue;
        put(&o, p, n);
        say(&o, "\n");
    }
    return o.text;
}

static char *endpoints_only(const char *text)
{
    struct mangled o = {NULL, 0, 0};
    put(&o, "", 0);
    bool bridge = false;
    for (const char *p = text; *p; p = after_line(p)) {
        size_t place, n = line_length(p);
        if (mangle_is_header(p, &place))
            bridge = memmem(p, n, "PCI bridge", 10) != NULL;
        if (bridge)
            continue;
        put(&o, p, n);
        say(&o, "\n");
    }
    return o.text;
}

static char *headers_only(const char *text)
{
    struct mangled o = {NULL, 0, 0};
    put(&o, "", 0);
    for (const char *p = text; *p; p = after_line(p)) {
        size_t place, n = line_length(p);
        if (!mangle_is_header(p, &place))
            continue;
        put(&o, p, n);
        say(&o, "\n");
    }
    return o.text;
}

/* BARs out of their lines and into the kernel's log. */
static char *logged(const char *text)
{
    struct mangled o = {NULL, 0, 0}, log = {NULL, 0, 0};
    char place[24] = "";
    say(&log, "\n$ dmesg\n");
    for (const char *p = text; *p; p = after_line(p)) {
        size_t n = line_length(p), k;
        unsigned index;
        unsigned long long address;
        char kind[64], line[160];
        if (mangle_is_header(p, &k))
            snprintf(place, sizeof place, "%s%.*s", k == 7 ? "0000:" : "", (int)k, p);
        const char *size = memmem(p, n, "[size=", 6);
        if (size &&
            sscanf(p, " Region %u: Memory at %llx (%63[^)])", &index, &address, kind) == 3) {
            unsigned long long bytes = strtoull(size + 6, NULL, 10);
            char unit = size[6 + strspn(size + 6, "0123456789")];
            bytes <<= unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0;
            snprintf(line, sizeof line,
                     "[    0.5] pci %s: reg 0x%02x: [mem 0x%08llx-0x%08llx%s%s]\n", place,
                     0x10 + 4 * index, address, address + bytes - 1,
                     strstr(kind, "64-bit") ? " 64bit" : "", strstr(kind, "non-") ? "" : " pref");
            say(&log, line);
            continue;
        }
        put(&o, p, n);
        say(&o, "\n");
    }
    say(&o, log.text);
    free(log.text);
    return o.text;
}

char *mangle(const struct mangling *m, const char *text)
{
    return m->line ? each_line(text, m->line) : m->text(text);
}

const struct mangling *mangle_text_list(size_t *out_count)
{
    static const struct mangling list[] = {
        {"without indentation", flat_line, NULL, false},
        {"wrapped at 72 columns", wrapped_72_line, NULL, false},
        {"wrapped at 76 columns", wrapped_76_line, NULL, false},
        {"wrapped, then quoted", wrapped_quoted_line, NULL, false},
        {"without blank lines", no_blank_line, NULL, false},
        {"without domains", NULL, no_domain, false},
        {"as lspci -n prints it", numeric_line, NULL, false},
        {"as an old lspci -n prints it", NULL, old_numeric, false},
        {"in old words", NULL, old_words, false},
        {"with BARs that are virtual", NULL, dressed_bars, false},
        {"with BARs that are virtual, by an old lspci", NULL, old_virtual, false},
        {"without ids", no_ids_line, NULL, true},
        {"without sizes", sizeless_line, NULL, true},
        {"without privilege", NULL, denied, true},
        {"without the words of ACS", unworded_line, NULL, true},
        {"details of bridges alone", NULL, bridges_only, true},
        {"endpoints alone", NULL, endpoints_only, true},
        {"headers alone", NULL, headers_only, true},
        {"BARs in the log alone", NULL, logged, true},
    };
    *out_count = sizeof list / sizeof *list;
    return list;
}
