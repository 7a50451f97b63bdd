#include "out.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OUT_BLOCK ((size_t)64 * 1024)

void out_start(struct out *o, int fd)
{
    o->buffer = NULL;
    o->used = o->capacity = 0;
    o->fd = fd;
    o->error = 0;
    o->written = 0;
}

static void write_all(struct out *o, const char *data, size_t bytes)
{
    while (bytes > 0 && o->error == 0) {
        ssize_t done = write(o->fd, data, bytes);
        if (done >= 0) {
            o->written += (size_t)done;
            data += done;
            bytes -= (size_t)done;
        } else if (errno != EINTR) {
            o->error = errno;
        }
    }
}

void out_flush(struct out *o)
{
    if (o->fd < 0)
        return;
    write_all(o, o->buffer, o->used);
    o->used = 0;
}

int out_end(struct out *o)
{
    out_flush(o);
    if (o->buffer != o->reserve)
        free(o->buffer);
    o->buffer = NULL;
    o->used = o->capacity = 0;
    return o->error;
}

static bool grow(struct out *o, size_t bytes)
{
    size_t need;
    if (__builtin_add_overflow(o->used, bytes, &need) || need > SIZE_MAX / 2) {
        o->error = ENOMEM;
        return false;
    }
    size_t capacity = need < OUT_BLOCK ? OUT_BLOCK : need * 2;
    bool small = o->buffer == o->reserve;
    char *larger = realloc(small ? NULL : o->buffer, capacity);
    if (larger && small)
        memcpy(larger, o->reserve, o->used);
    if (!larger && !o->buffer && o->fd >= 0 && bytes <= sizeof o->reserve) {
        larger = o->reserve;
        capacity = sizeof o->reserve;
    }
    if (!larger) {
        o->error = ENOMEM;
        return false;
    }
    o->buffer = larger;
    o->capacity = capacity;
    return true;
}

char *out_room(struct out *o, size_t bytes)
{
    if (o->error)
        return NULL;
    if (o->capacity - o->used < bytes) {
        out_flush(o);
        if (o->error || (o->capacity - o->used < bytes && !grow(o, bytes)))
            return NULL;
    }
    return o->buffer + o->used;
}

void out_bytes(struct out *o, const char *data, size_t bytes)
{
    const size_t piece = o->capacity > sizeof o->reserve ? o->capacity : sizeof o->reserve;
    while (bytes > 0) {
        size_t some = o->fd >= 0 && bytes > piece ? piece : bytes;
        char *room = out_room(o, some);
        if (!room)
            return;
        memcpy(room, data, some);
        o->used += some;
        data += some;
        bytes -= some;
    }
}

void out_text(struct out *o, const char *text)
{
    out_bytes(o, text, strlen(text));
}

void out_spaces(struct out *o, size_t count)
{
    char *room = out_room(o, count);
    if (!room)
        return;
    memset(room, ' ', count);
    o->used += count;
}

void out_format(struct out *o, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    char brief[256], *text = NULL;
    int bytes = vsnprintf(brief, sizeof brief, format, list);
    va_end(list);
    if (bytes >= 0 && (size_t)bytes < sizeof brief) {
        out_bytes(o, brief, (size_t)bytes);
        return;
    }
    va_start(list, format);
    bytes = vasprintf(&text, format, list);
    va_end(list);
    if (bytes < 0) {
        if (!o->error)
            o->error = ENOMEM;
        return;
    }
    out_bytes(o, text, (size_t)bytes);
    free(text);
}

/* How many bytes a UTF-8 character takes by its first byte; 0 for none (RFC 3629). */
static size_t sequence_bytes(unsigned char first)
{
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first <= 0xdf)
        return 2;
    if (first >= 0xe0 && first <= 0xef)
        return 3;
    if (first >= 0xf0 && first <= 0xf4)
        return 4;
    return 0;
}

/* The character at s and its bytes; 0 bytes where no whole, shortest, allowed sequence stands. */
static size_t decode(const char *s, uint32_t *out_character)
{
    size_t bytes = sequence_bytes((unsigned char)s[0]);
    static const unsigned char mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (bytes == 0)
        return 0;
    uint32_t character = (unsigned char)s[0] & mask[bytes];
    for (size_t i = 1; i < bytes; i++) {
        if (((unsigned char)s[i] & 0xc0) != 0x80)
            return 0;
        character = character << 6 | ((unsigned char)s[i] & 0x3f);
    }
    if (character < least[bytes] || character > 0x10ffff ||
        (character >= 0xd800 && character <= 0xdfff))
        return 0;
    *out_character = character;
    return bytes;
}

/* Controls of both sets, and the marks that set or override the direction of writing. */
static bool hidden(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x200e || c == 0x200f || c == 0x61c ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

size_t text_next(const char *s, bool *out_plain)
{
    uint32_t character = 0;
    size_t bytes = decode(s, &character);
    *out_plain = bytes > 0 && !hidden(character);
    return bytes > 0 ? bytes : 1;
}

/* Writes what stands for the character of `bytes` bytes at s that may not be printed. */
static int escape(const char *s, size_t bytes, char room[16])
{
    uint32_t character = 0;
    if (bytes > 1 && decode(s, &character) > 0)
        return snprintf(room, 16, "\\u{%x}", (unsigned)character);
    return snprintf(room, 16, "\\x%02x", (unsigned)(unsigned char)s[0]);
}

/* How many bytes of printable ASCII text begins with: nearly all of what is ever printed. */
static size_t ascii_run(const char *text)
{
    size_t i = 0;
    while (text[i] >= ' ' && text[i] <= '~')
        i++;
    return i;
}

void out_escaped(struct out *o, const char *text)
{
    for (;;) {
        size_t run = ascii_run(text);
        out_bytes(o, text, run);
        text += run;
        if (!*text)
            return;
        bool plain;
        size_t bytes = text_next(text, &plain);
        if (plain) {
            out_bytes(o, text, bytes);
        } else {
            char spelled[16] = "";
            int length = escape(text, bytes, spelled);
            out_bytes(o, spelled, (size_t)length);
        }
        text += bytes;
    }
}

size_t text_width(const char *text)
{
    size_t width = 0;
    for (;;) {
        size_t run = ascii_run(text);
        width += run;
        text += run;
        if (!*text)
            return width;
        bool plain;
        size_t bytes = text_next(text, &plain);
        char spelled[16];
        width += plain ? 1 : (size_t)escape(text, bytes, spelled);
        text += bytes;
    }
}
