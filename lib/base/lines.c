#include "base/lines.h"

#include <stdlib.h>

const unsigned char line_digit[256] = {
    ['0'] = 1, ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9, ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
};

uint64_t line_field(struct line_cursor *c, bool *out_there)
{
    line_expect(c, ' ');
    *out_there = !line_take(c, '-');
    return *out_there ? line_hex(c) : 0;
}

uint64_t line_number(struct line_cursor *c)
{
    line_expect(c, ' ');
    return line_hex(c);
}

size_t line_items(const struct line_cursor *c)
{
    size_t n = 1;
    for (const char *at = c->at; *at && *at != ' ' && *at != ';'; at++)
        n += *at == ',';
    return n;
}

bool line_room(struct line_text *t, size_t bytes)
{
    if (t->room - t->used > bytes)
        return true;
    size_t room = t->room * 2 + bytes + 64;
    char *grown = realloc(t->at, room);
    if (!grown)
        return false;
    t->at = grown;
    t->room = room;
    return true;
}

void line_put_field(struct line_text *t, bool there, uint64_t value)
{
    line_put(t, ' ');
    if (there)
        line_put_hex(t, value);
    else
        line_put(t, '-');
}
