/* Documents whose bulk is lists of plain strings, as text: jansson takes many times as long for
   them, byte by byte. */
#include "base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lists of lists of strings. */
#define BULK_DEPTH 2

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

/* How many of `most` bytes come before one that is not plain. */
static size_t skip_plain(const char *text, size_t most)
{
    size_t i = 0;
    while (most - i >= BLOCK && is_plain_block(text + i))
        i += BLOCK;
    while (i < most && is_plain(text[i]))
        i++;
    return i;
}

/* ---- writing */

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
    if (skip_plain(text, bytes) < bytes)
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

/* ---- reading */

struct cursor {
    const char *at, *end;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool take(struct cursor *c, char wanted)
{
    while (c->at < c->end && is_space(*c->at))
        c->at++;
    if (c->at == c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

/* A string's bytes, of which each stands for itself. */
static bool take_plain(struct cursor *c, const char **out_text, size_t *out_bytes)
{
    if (!take(c, '"'))
        return false;
    const char *start = c->at;
    c->at += skip_plain(start, (size_t)(c->end - start));
    *out_text = start;
    *out_bytes = (size_t)(c->at - start);
    return c->at < c->end && *c->at++ == '"';
}

/* NULL: it is no such list, or memory ran out. */
static json_t *take_list(struct cursor *c, int depth);

static json_t *take_item(struct cursor *c, int depth)
{
    const char *text;
    size_t bytes;
    struct cursor before = *c;
    if (take_plain(c, &text, &bytes))
        return json_stringn_nocheck(text, bytes);
    *c = before;
    return depth > 1 ? take_list(c, depth - 1) : NULL;
}

static json_t *take_list(struct cursor *c, int depth)
{
    json_t *list = take(c, '[') ? json_array() : NULL;
    if (!list || take(c, ']'))
        return list;
    do {
        if (json_array_append_new(list, take_item(c, depth)) != 0) {
            json_decref(list);
            return NULL;
        }
    } while (take(c, ','));
    if (take(c, ']'))
        return list;
    json_decref(list);
    return NULL;
}

/* The members from the cursor to the object's and the text's end. */
static json_t *take_members(struct cursor *c)
{
    json_t *all = json_object();
    bool whole = all != NULL;
    do {
        const char *text;
        size_t bytes;
        char key[64];
        whole = whole && take_plain(c, &text, &bytes) && bytes < sizeof key && take(c, ':');
        if (!whole)
            break;
        memcpy(key, text, bytes);
        key[bytes] = '\0';
        whole = !json_object_get(all, key) &&
                json_object_set_new(all, key, take_list(c, BULK_DEPTH)) == 0;
    } while (whole && take(c, ','));
    whole = whole && take(c, '}');
    while (whole && c->at < c->end && is_space(*c->at))
        c->at++;
    if (whole && c->at == c->end)
        return all;
    json_decref(all);
    return NULL;
}

/* After a string's first quote, past its last. */
static void skip_string(struct cursor *c)
{
    while (c->at < c->end && *c->at != '"')
        c->at += *c->at == '\\' && c->at + 1 < c->end ? 2 : 1;
    c->at += c->at < c->end;
}

/* Where the comma before the text's own member `key` is, with the cursor past the comma; NULL:
   there is none. */
static const char *find_member(struct cursor *c, const char *key)
{
    size_t length = strlen(key);
    int depth = 0;
    while (c->at < c->end) {
        const char *at = c->at++;
        if (*at == '"')
            skip_string(c);
        else if (*at == '{' || *at == '[')
            depth++;
        else if (*at == '}' || *at == ']')
            depth--;
        else if (*at == ',' && depth == 1) {
            struct cursor look = *c;
            const char *text;
            size_t bytes;
            if (take_plain(&look, &text, &bytes) && bytes == length &&
                memcmp(text, key, bytes) == 0)
                return at;
        }
    }
    return NULL;
}

bool json_ran_out(const json_error_t *error)
{
    return json_error_code(error) == json_error_out_of_memory;
}

/* jansson 2.14 tells of memory that ran out as that, without a word, or as a fault of the text. */
json_t *json_whole(const char *text, size_t bytes, json_error_t *out_error)
{
    errno = 0;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, out_error);
    if (!root && (errno == ENOMEM || out_error->text[0] == '\0'))
        out_error->text[JSON_ERROR_TEXT_LENGTH - 1] = json_error_out_of_memory;
    return root;
}

/* The head is the text up to the comma, and a brace in its place. */
static json_t *read_head(const char *text, size_t bytes, json_error_t *out_error)
{
    char *head = malloc(bytes + 1);
    if (!head)
        return NULL;
    memcpy(head, text, bytes);
    head[bytes] = '}';
    json_t *root = json_whole(head, bytes + 1, out_error);
    free(head);
    return root;
}

json_t *json_document(const char *text, size_t bytes, const char *bulk, json_error_t *out_error)
{
    struct cursor c = {text, text + bytes};
    const char *comma = find_member(&c, bulk);
    json_t *tail = comma ? take_members(&c) : NULL;
    json_t *root = tail ? read_head(text, (size_t)(comma - text), out_error) : NULL;
    bool apart = root != NULL;
    const char *key;
    json_t *value;
    json_object_foreach(tail, key, value)
    {
        apart = apart && !json_object_get(root, key) && json_object_set(root, key, value) == 0;
    }
    json_decref(tail);
    if (apart)
        return root;
    json_decref(root);
    return json_whole(text, bytes, out_error);
}
