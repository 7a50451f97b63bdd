/* Documents written as text: jansson takes many times as long for lists of plain strings, byte by
   byte. */
#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A byte that stands for itself in a string of JSON, and is ASCII. */
static bool is_plain(char c)
{
    return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
}

/* The compiler looks at as many at once as the processor can. */
#define BLOCK 64

static bool is_plain_block(const char *text)
{
    unsigned char odd = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        unsigned char c = (unsigned char)text[i];
        odd |= (unsigned char)((c < ' ') | (c >= 0x7f) | (c == '"') | (c == '\\'));
    }
    return odd == 0;
}

size_t json_plain(const char *text, size_t most)
{
    size_t i = 0;
    while (most - i >= BLOCK && is_plain_block(text + i))
        i += BLOCK;
    while (i < most && is_plain(text[i]))
        i++;
    return i;
}

/* Text that grows; failed: memory ran out, and it is not to be used. */
struct writer {
    char *at;
    size_t used, room;
    bool failed;
};

static bool make_room(struct writer *w, size_t bytes)
{
    if (w->room - w->used >= bytes)
        return true;
    size_t room = w->room * 2 + bytes + 4096;
    char *grown = w->failed ? NULL : realloc(w->at, room);
    if (!grown) {
        w->failed = true;
        return false;
    }
    w->at = grown;
    w->room = room;
    return true;
}

static void put(struct writer *w, const char *text, size_t bytes)
{
    if (!make_room(w, bytes))
        return;
    memcpy(w->at + w->used, text, bytes);
    w->used += bytes;
}

static void put_char(struct writer *w, char c)
{
    put(w, &c, 1);
}

static void put_by_jansson(struct writer *w, const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text)
        put(w, text, strlen(text));
    else
        w->failed = true;
    free(text);
}

/* False: not all of it is plain, and nothing was put. */
static bool put_plain(struct writer *w, const char *text, size_t bytes)
{
    if (!make_room(w, bytes + 2))
        return true;
    if (json_plain(text, bytes) < bytes)
        return false;
    char *to = w->at + w->used;
    to[0] = '"';
    memcpy(to + 1, text, bytes);
    to[bytes + 1] = '"';
    w->used += bytes + 2;
    return true;
}

static void put_key(struct writer *w, const char *key)
{
    if (!put_plain(w, key, strlen(key))) {
        json_t *text = json_string(key);
        put_by_jansson(w, text);
        json_decref(text);
    }
    put_char(w, ':');
}

static void put_integer(struct writer *w, json_int_t value)
{
    char text[24];
    int bytes = snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, value);
    put(w, text, (size_t)bytes);
}

static void put_value(struct writer *w, const json_t *value);

/* jansson's iterators take no const object. */
static void put_object(struct writer *w, json_t *object)
{
    const char *key;
    json_t *value;
    bool first = true;
    put_char(w, '{');
    json_object_foreach(object, key, value)
    {
        if (!first)
            put_char(w, ',');
        first = false;
        put_key(w, key);
        put_value(w, value);
    }
    put_char(w, '}');
}

static void put_array(struct writer *w, const json_t *array)
{
    size_t i;
    const json_t *value;
    put_char(w, '[');
    json_array_foreach(array, i, value)
    {
        if (i > 0)
            put_char(w, ',');
        put_value(w, value);
    }
    put_char(w, ']');
}

static void put_value(struct writer *w, const json_t *value)
{
    if (json_is_object(value))
        put_object(w, (json_t *)(uintptr_t)value);
    else if (json_is_array(value))
        put_array(w, value);
    else if (json_is_integer(value))
        put_integer(w, json_integer_value(value));
    else if (!json_is_string(value) ||
             !put_plain(w, json_string_value(value), json_string_length(value)))
        put_by_jansson(w, value);
}

char *json_text(const json_t *value, size_t *out_bytes)
{
    struct writer w = {.at = NULL};
    put_value(&w, value);
    put(&w, "", 1);
    if (w.failed) {
        free(w.at);
        return NULL;
    }
    *out_bytes = w.used - 1;
    return w.at;
}
