#include "topology/acs_list.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char option[] = "disable_acs_redir=";

/* How many bytes of a function stand at p: `[dddd:]bb:dd.f`, a path of them, or
   `pci:vendor:device...`; 0: none does. */
static size_t function_at(const char *p, size_t left)
{
    size_t n = left >= 4 && memcmp(p, "pci:", 4) == 0 ? 4 : 0;
    bool by_id = n > 0, colon = by_id, dot = by_id;
    for (; n < left && (isxdigit((unsigned char)p[n]) || memchr(":./", p[n], 3)); n++) {
        colon |= p[n] == ':';
        dot |= p[n] == '.';
    }
    return colon && dot ? n : 0;
}

/* Walks a list, whose separators may be wrong; *out_taken is how many functions stand before the
   first comma, *out_all how many there are. Returns its length. */
static size_t measure(const char *list, size_t left, unsigned *out_taken, unsigned *out_all)
{
    size_t end = 0, at = 0;
    bool comma = false;
    *out_taken = *out_all = 0;
    for (;;) {
        size_t n = function_at(list + at, left - at);
        if (n == 0)
            return end;
        ++*out_all;
        *out_taken += !comma;
        end = at + n;
        if (end == left || (list[end] != ';' && list[end] != ','))
            return end;
        comma |= list[end] == ',';
        at = end + 1;
    }
}

bool acs_list_mistake(const char *text, size_t bytes, char out[ACS_LIST_TEXT])
{
    const size_t length = sizeof option - 1;
    for (const char *p = text; (p = memmem(p, bytes - (size_t)(p - text), option, length)) != NULL;
         p += length) {
        const char *list = p + length;
        unsigned taken, all;
        size_t n = measure(list, bytes - (size_t)(list - text), &taken, &all);
        if (taken == all)
            continue;
        int used = snprintf(out, ACS_LIST_TEXT,
                            "a comma ends disable_acs_redir=: Linux takes %u of its %u functions; "
                            "separate them by semicolons",
                            taken, all);
        if ((size_t)used + sizeof ": pci=" + length + n > ACS_LIST_TEXT)
            return true;
        used += sprintf(out + used, ": pci=%s", option);
        for (size_t i = 0; i < n; i++)
            out[used++] = (char)(list[i] == ',' ? ';' : list[i]);
        out[used] = '\0';
        return true;
    }
    return false;
}

/* True iff the command line holds the option `name` of `pci=`. */
static bool has_pci_option(const char *line, const char *name)
{
    size_t length = strlen(name);
    for (const char *p = line; (p = strstr(p, "pci=")) != NULL; p += 4) {
        if (p != line && !isspace((unsigned char)p[-1]) && p[-1] != '"')
            continue;
        for (const char *word = p + 4;; word++) {
            size_t n = strcspn(word, ", \t\n\"");
            if (n == length && memcmp(word, name, n) == 0)
                return true;
            word += n;
            if (*word != ',')
                break;
        }
    }
    return false;
}

void acs_list_check(struct rig_topology *t)
{
    char text[ACS_LIST_TEXT];
    if (!rig_text_has(t->machine.command_line))
        return;
    const char *line = t->machine.command_line.value;
    if (acs_list_mistake(line, strlen(line), text))
        topology_warn(t, "the kernel's command line: %s", text);
    if (has_pci_option(line, "noacs"))
        topology_warn(t, "the kernel's command line: Linux has no option pci=noacs; ACS redirects "
                         "are cleared by pci=disable_acs_redir=");
}
