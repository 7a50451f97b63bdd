/* Documents read from text. jansson 2.14 reads past the end of a string for whose bytes it got no
   memory, and takes many times as long for many plain strings. So it reads those texts alone that
   are out of the ordinary, and says what is wrong with them. */
#include "base/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Deeper ones are out of the ordinary. */
#define DEPTH_MOST 64
/* As many digits are below 2^63. */
#define DIGITS_MOST 18

/* ran_out: memory did. Where what is taken is NULL and memory did not run out, it is out of the
   ordinary. */
struct reader {
    const char *at, *end;
    bool ran_out;
};

static json_t *made(struct reader *r, json_t *value)
{
    r->ran_out = r->ran_out || !value;
    return value;
}

static void skip_space(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

static bool take(struct reader *r, char wanted)
{
    skip_space(r);
    if (r->at == r->end || *r->at != wanted)
        return false;
    r->at++;
    return true;
}

/* ---- strings */

/* A string's text: in the document itself, or in `own`, which is freed. */
struct text {
    const char *at;
    size_t bytes;
    char *own;
};

/* The code point of "XXXX", 0 for none, for the NUL, and for half of a pair. */
static unsigned code_point(const char *digits)
{
    unsigned code = 0;
    for (int i = 0; i < 4; i++) {
        const char *all = "0123456789abcdef0123456789ABCDEF";
        const char *found = digits[i] ? strchr(all, digits[i]) : NULL;
        if (!found)
            return 0;
        code = code * 16 + (unsigned)(found - all) % 16;
    }
    return code >= 0xd800 && code < 0xe000 ? 0 : code;
}

static size_t put_utf8(unsigned code, char *out)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    out[0] = (char)(0xe0 | code >> 12);
    out[1] = (char)(0x80 | (code >> 6 & 0x3f));
    out[2] = (char)(0x80 | (code & 0x3f));
    return 3;
}

/* What stands behind a backslash, at r, as UTF-8 in out; its bytes, 0: out of the ordinary. */
static size_t take_escape(struct reader *r, char *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (r->at == r->end || *r->at == '\0')
        return 0;
    const char *found = strchr(from, *r->at);
    if (found) {
        r->at++;
        *out = to[found - from];
        return 1;
    }
    unsigned code = *r->at == 'u' && r->end - r->at >= 5 ? code_point(r->at + 1) : 0;
    if (code == 0)
        return 0;
    r->at += 5;
    return put_utf8(code, out);
}

/* The rest of a string that has more than plain bytes, from `start` on; no escape is shorter than
   what it stands for. */
static bool take_odd(struct reader *r, const char *start, struct text *out)
{
    const char *last = start;
    while (last < r->end && *last != '"')
        last += *last == '\\' && last + 1 < r->end ? 2 : 1;
    out->own = malloc((size_t)(last - start) + 1);
    r->ran_out = r->ran_out || !out->own;
    out->at = out->own;
    r->at = start;
    while (out->own && r->at < r->end && *r->at != '"') {
        unsigned char c = (unsigned char)*r->at++;
        size_t n = 1;
        out->own[out->bytes] = (char)c;
        if (c == '\\')
            n = take_escape(r, out->own + out->bytes);
        if (n == 0 || c < ' ')
            return false;
        out->bytes += n;
    }
    if (!out->own || r->at == r->end)
        return false;
    r->at++;
    out->own[out->bytes] = '\0';
    return json_is_utf8(out->own);
}

/* *out is to be freed by free(out->own), whatever comes of it. */
static bool take_text(struct reader *r, struct text *out)
{
    *out = (struct text){.at = NULL};
    if (!take(r, '"'))
        return false;
    const char *start = r->at;
    size_t plain = json_plain(start, (size_t)(r->end - start));
    r->at += plain;
    if (r->at == r->end || *r->at != '"')
        return take_odd(r, start, out);
    r->at++;
    out->at = start;
    out->bytes = plain;
    return true;
}

static json_t *take_string(struct reader *r)
{
    struct text text;
    json_t *value = take_text(r, &text) ? made(r, json_stringn_nocheck(text.at, text.bytes)) : NULL;
    free(text.own);
    return value;
}

/* ---- other values */

/* 0, or up to 18 digits, of which the first is not 0, with or without a sign. */
static json_t *take_integer(struct reader *r)
{
    bool minus = *r->at == '-';
    const char *first = r->at + minus, *at = first;
    json_int_t value = 0;
    while (at < r->end && at - first < DIGITS_MOST && *at >= '0' && *at <= '9')
        value = value * 10 + (*at++ - '0');
    if (at == first || (*first == '0' && (minus || at - first > 1)))
        return NULL;
    r->at = at;
    return made(r, json_integer(minus ? -value : value));
}

static json_t *take_word(struct reader *r, const char *word, json_t *value)
{
    size_t length = strlen(word);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0)
        return NULL;
    r->at += length;
    return value;
}

static json_t *take_value(struct reader *r, int depth);

static bool take_element(struct reader *r, json_t *list, int depth)
{
    json_t *value = take_value(r, depth);
    if (!value)
        return false;
    r->ran_out = r->ran_out || json_array_append_new(list, value) != 0;
    return !r->ran_out;
}

static bool take_member(struct reader *r, json_t *object, int depth)
{
    struct text key;
    bool named = take_text(r, &key) && take(r, ':') && !json_object_getn(object, key.at, key.bytes);
    json_t *value = named ? take_value(r, depth) : NULL;
    if (value && json_object_setn_new_nocheck(object, key.at, key.bytes, value) != 0)
        r->ran_out = true;
    free(key.own);
    return value && !r->ran_out;
}

/* What is between brackets, each by `take_one`. */
static json_t *take_all(struct reader *r, char end, json_t *all, int depth,
                        bool (*take_one)(struct reader *, json_t *, int))
{
    bool whole = made(r, all) != NULL && depth > 0;
    r->at++;
    if (whole && take(r, end))
        return all;
    do
        whole = whole && take_one(r, all, depth - 1);
    while (whole && take(r, ','));
    if (whole && take(r, end))
        return all;
    json_decref(all);
    return NULL;
}

/* NULL: out of the ordinary, or memory ran out. */
static json_t *take_value(struct reader *r, int depth)
{
    skip_space(r);
    if (r->at == r->end)
        return NULL;
    switch (*r->at) {
    case '"':
        return take_string(r);
    case '{':
        return take_all(r, '}', json_object(), depth, take_member);
    case '[':
        return take_all(r, ']', json_array(), depth, take_element);
    case 't':
        return take_word(r, "true", json_true());
    case 'f':
        return take_word(r, "false", json_false());
    case 'n':
        return take_word(r, "null", json_null());
    default:
        return take_integer(r);
    }
}

/* ---- documents */

bool json_ran_out(const json_error_t *error)
{
    return json_error_code(error) == json_error_out_of_memory;
}

static void say_ran_out(json_error_t *error)
{
    error->text[JSON_ERROR_TEXT_LENGTH - 1] = json_error_out_of_memory;
}

/* jansson 2.14 tells of memory that ran out as that, without a word, or as a fault of the text. */
static json_t *read_by_jansson(const char *text, size_t bytes, json_error_t *out_error)
{
    errno = 0;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, out_error);
    if (!root && (errno == ENOMEM || out_error->text[0] == '\0'))
        say_ran_out(out_error);
    return root;
}

json_t *json_whole(const char *text, size_t bytes, json_error_t *out_error)
{
    struct reader r = {text, text + bytes, false};
    skip_space(&r);
    bool ordinary = r.at < r.end && (*r.at == '{' || *r.at == '[');
    json_t *root = ordinary ? take_value(&r, DEPTH_MOST) : NULL;
    skip_space(&r);
    if (root && r.at == r.end)
        return root;
    json_decref(root);
    if (!r.ran_out)
        return read_by_jansson(text, bytes, out_error);
    memset(out_error, 0, sizeof *out_error);
    say_ran_out(out_error);
    return NULL;
}
