/* Lines of text, of which a state document has thousands: fields of hexadecimal numbers and
   letters, written into room that is made once a line, and read with a cursor that stays at an end
   once a rule is broken. Not public. */
#ifndef RIG_LINES_H
#define RIG_LINES_H

#include "base/base.h"

/* ---- reading */

struct line_cursor {
    const char *at; /* NUL-terminated */
    bool failed;    /* nothing is taken any more: it is at an end */
};

static inline void line_fail(struct line_cursor *c)
{
    c->failed = true;
    c->at = "";
}

/* line_take is true iff the next character is that one, no NUL, which is past then; line_expect
   fails where it is not. line_need fails where the rule does not hold. */
static inline bool line_take(struct line_cursor *c, char wanted)
{
    bool there = *c->at == wanted;
    c->at += there;
    return there;
}

static inline void line_need(struct line_cursor *c, bool rule)
{
    if (!rule)
        line_fail(c);
}

static inline void line_expect(struct line_cursor *c, char wanted)
{
    line_need(c, line_take(c, wanted));
}

/* 1 + what each lower-case hexadecimal digit stands for, 0 for what is none. */
extern const unsigned char line_digit[256];

/* line_hex is a number of 1 to 16 digits. */
static inline uint64_t line_hex(struct line_cursor *c)
{
    const char *at = c->at;
    uint64_t value = 0;
    unsigned count = 0;
    for (unsigned digit; count < 16 && (digit = line_digit[(unsigned char)at[count]]) != 0; count++)
        value = value << 4 | (digit - 1);
    if (count == 0)
        line_fail(c);
    else
        c->at = at + count;
    return value;
}

/* line_number is a space and a number; line_field that, or a space and `-`, and *out_there is
   which. */
uint64_t line_number(struct line_cursor *c);
uint64_t line_field(struct line_cursor *c, bool *out_there);

/* line_items is how many items, separated by commas, there are up to the next space or the line's
   end. */
size_t line_items(const struct line_cursor *c);

/* ---- writing */

struct line_text {
    char *at;
    size_t used, room;
};

/* line_room makes room for `bytes` bytes. False: memory ran out. What follows puts into it; the
   room is one more than what is put. */
bool line_room(struct line_text *t, size_t bytes);

static inline void line_put(struct line_text *t, char c)
{
    t->at[t->used++] = c;
}

static inline void line_put_if(struct line_text *t, bool there, char c)
{
    t->at[t->used] = c;
    t->used += there;
}

#define LINE_HEX_MOST 16

static inline void line_put_hex(struct line_text *t, uint64_t value)
{
    unsigned count = 1 + (63 - (unsigned)__builtin_clzll(value | 1)) / 4;
    char *to = t->at + t->used;
    for (unsigned i = count; i-- > 0; value >>= 4)
        to[i] = "0123456789abcdef"[value & 15];
    t->used += count;
}

/* line_put_field is a space and the number, or a space and `-`. */
void line_put_field(struct line_text *t, bool there, uint64_t value);

#endif
