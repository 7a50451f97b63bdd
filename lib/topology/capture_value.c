#include "topology/capture_value.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool capture_broken(struct capture_reader *r, const char *key, const char *format, ...)
{
    char rule[320];
    va_list args;
    va_start(args, format);
    vsnprintf(rule, sizeof rule, format, args);
    va_end(args);
    rig_fail_at(r->err, r->name, 0, 0, "%s%s%s: %s", r->path, key && *r->path ? "." : "",
                key ? key : "", rule);
    return false;
}

const char *capture_kind_name(const json_t *j)
{
    switch (json_typeof(j)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_NULL:
        return "null";
    default:
        return "true or false";
    }
}

/* ---- keys that are not known */

/* The fewest letters to change, add or leave out to make b, a key or word of ours and so a short
   one, of a. */
static size_t edits(const char *a, const char *b)
{
    size_t row[33];
    size_t n = strnlen(b, RIG_ARRAY_LENGTH(row) - 1);
    if (strlen(a) >= RIG_ARRAY_LENGTH(row))
        return SIZE_MAX;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            size_t other = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = change < other ? change : other;
        }
    }
    return row[n];
}

struct nearest {
    const char *wrong, *best;
    size_t distance;
};

static void compare(struct nearest *n, const char *key)
{
    size_t d = edits(n->wrong, key);
    if (d < n->distance) {
        n->distance = d;
        n->best = key;
    }
}

/* The known key that is nearest to a wrong one, or NULL. */
static const char *nearest_key(const char *wrong, const struct capture_field *fields,
                               const char *const *others)
{
    struct nearest n = {.wrong = wrong, .distance = strlen(wrong) / 3 + 2};
    for (const struct capture_field *f = fields; f && f->key; f++)
        compare(&n, f->key);
    for (; others && *others; others++)
        compare(&n, *others);
    return n.best;
}

static bool known_key(const char *key, const struct capture_field *fields,
                      const char *const *others)
{
    for (const struct capture_field *f = fields; f && f->key; f++)
        if (strcmp(f->key, key) == 0)
            return true;
    for (; others && *others; others++)
        if (strcmp(*others, key) == 0)
            return true;
    return false;
}

bool capture_check_keys(struct capture_reader *r, json_t *object,
                        const struct capture_field *fields, const char *const *others)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (known_key(key, fields, others))
            continue;
        const char *near = nearest_key(key, fields, others);
        capture_broken(r, NULL, "unknown key \"%.60s\"", key);
        if (near)
            rig_hint(r->err, "did you mean \"%s\"?", near);
        return false;
    }
    return true;
}

/* ---- values */

const char *capture_kept(struct capture_reader *r, const char *text)
{
    const char *copy = topology_intern(r->t, text, strlen(text));
    if (!copy)
        rig_fail_memory(r->err);
    return copy;
}

static bool from_integer(struct capture_reader *r, const char *key, const json_t *j, uint64_t *out)
{
    json_int_t i = json_integer_value(j);
    if (i < 0)
        return capture_broken(r, key, "%" JSON_INTEGER_FORMAT " is below zero", i);
    *out = (uint64_t)i;
    return true;
}

bool capture_from_hex(struct capture_reader *r, const char *key, const char *text, uint64_t *out)
{
    uint64_t value = 0;
    bool prefix = strncmp(text, "0x", 2) == 0;
    size_t digits = prefix ? strspn(text + 2, "0123456789abcdefABCDEF") : 0;
    if (digits == 0 || text[2 + digits] != '\0')
        return capture_broken(r, key, "\"%.40s\" is no hex number such as \"0x10de\"", text);
    const char *d = text + 2 + strspn(text + 2, "0");
    if (strlen(d) > 16)
        return capture_broken(r, key, "\"%.40s\" has more than 64 bits", text);
    for (; *d; d++)
        value = value << 4 | (uint64_t)(*d <= '9' ? *d - '0' : (*d | 0x20) - 'a' + 10);
    *out = value;
    return true;
}

static bool from_size(struct capture_reader *r, const char *key, const char *text, uint64_t *out)
{
    struct rig_error why;
    rig_error_clear(&why);
    if (rig_size_parse(text, out, &why) == RIG_OK)
        return true;
    capture_broken(r, key, "\"%.40s\" is no size such as \"16GiB\"", text);
    if (why.hint[0])
        rig_hint(r->err, "%s", why.hint);
    return false;
}

/* "8 GT/s", "2.5 GT/s"; the space may be missing. */
static bool from_speed(struct capture_reader *r, const char *key, const char *text, uint64_t *out)
{
    unsigned whole = 0, tenths = 0;
    size_t digits = strspn(text, "0123456789");
    const char *rest = text + digits;
    for (size_t i = 0; i < digits && i < 5; i++)
        whole = whole * 10 + (unsigned)(text[i] - '0');
    if (rest[0] == '.' && rest[1] >= '0' && rest[1] <= '9') {
        tenths = (unsigned)(rest[1] - '0');
        rest += 2;
    }
    rest += *rest == ' ';
    if (digits == 0 || digits > 4 || strcmp(rest, "GT/s") != 0)
        return capture_broken(r, key, "\"%.40s\" is no link speed such as \"8 GT/s\"", text);
    *out = whole * 10u + tenths;
    return true;
}

bool capture_from_word(struct capture_reader *r, const char *key, const struct capture_word *words,
                       const char *text, uint64_t *out)
{
    for (const struct capture_word *w = words; w->word; w++)
        if (strcmp(w->word, text) == 0) {
            *out = w->value;
            return true;
        }
    struct nearest n = {.wrong = text, .distance = strlen(text) / 3 + 2};
    for (const struct capture_word *w = words; w->word; w++)
        compare(&n, w->word);
    char list[256] = "";
    size_t used = 0;
    for (const struct capture_word *w = words; w->word && used < sizeof list; w++)
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", w->word);
    capture_broken(r, key, "\"%.40s\" is none of %s", text, list);
    if (n.best)
        rig_hint(r->err, "did you mean \"%s\"?", n.best);
    return false;
}

static bool from_flags(struct capture_reader *r, const char *key, const struct capture_word *words,
                       const char *text, uint64_t *out)
{
    uint64_t flags = 0;
    for (const char *p = text; *p;) {
        size_t bytes = strcspn(p, " ");
        char word[40];
        snprintf(word, sizeof word, "%.*s", (int)(bytes < 39 ? bytes : 39), p);
        uint64_t flag = 0;
        if (!capture_from_word(r, key, words, word, &flag))
            return false;
        flags |= flag;
        p += bytes + strspn(p + bytes, " ");
    }
    *out = flags;
    return true;
}

static bool from_sizes(struct capture_reader *r, const char *key, json_t *list, uint64_t *out)
{
    uint64_t bits = 0;
    size_t i;
    json_t *j;
    json_array_foreach(list, i, j)
    {
        uint64_t bytes = 0;
        if (json_is_integer(j)
                ? !from_integer(r, key, j, &bytes)
                : !json_is_string(j) || !from_size(r, key, json_string_value(j), &bytes))
            return capture_broken(r, key, "each entry of the list is a size");
        if (!rig_power_of_two(bytes) || bytes < 1u << 20)
            return capture_broken(r, key, "a BAR's size is a power of two from 1MiB up");
        bits |= 1ull << (__builtin_ctzll(bytes) - 20);
    }
    *out = bits;
    return true;
}

static bool from_string(struct capture_reader *r, const struct capture_field *f, const char *text,
                        uint64_t *out)
{
    switch (f->kind) {
    case CAPTURE_SIZE:
        return from_size(r, f->key, text, out);
    case CAPTURE_SPEED:
        return from_speed(r, f->key, text, out);
    case CAPTURE_WORD:
        return capture_from_word(r, f->key, f->words, text, out);
    case CAPTURE_FLAGS:
        return from_flags(r, f->key, f->words, text, out);
    default:
        return capture_from_hex(r, f->key, text, out);
    }
}

static bool value_from(struct capture_reader *r, const struct capture_field *f, json_t *j,
                       uint64_t *out)
{
    uint64_t value = 0;
    bool read;
    if (json_is_string(j))
        read = from_string(r, f, json_string_value(j), &value);
    else if (json_is_array(j) && f->kind == CAPTURE_SIZES)
        read = from_sizes(r, f->key, j, &value);
    else if (json_is_integer(j) && f->kind != CAPTURE_SPEED)
        read = from_integer(r, f->key, j, &value);
    else
        return capture_broken(r, f->key, "%s is no value here", capture_kind_name(j));
    if (!read)
        return false;
    if (value > f->max)
        return capture_broken(r, f->key, "0x%" PRIx64 " is more than 0x%" PRIx64, value, f->max);
    *out = value;
    return true;
}

/* ---- facts: a value dressed in what is known of it */

static bool undress_object(struct capture_reader *r, const char *key, json_t *object,
                           struct capture_dressed *out)
{
    static const struct {
        const char *key;
        enum rig_know know;
        bool has_value;
    } forms[] = {
        {"assumed", RIG_FACT_ASSUMED, true},
        {"from", RIG_FACT_KNOWN, true},
        {"unknown", RIG_FACT_UNKNOWN, false},
        {"absent", RIG_FACT_ABSENT, false},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(forms); i++) {
        const char *from = json_string_value(json_object_get(object, forms[i].key));
        json_t *value = json_object_get(object, "value");
        if (!from || json_object_size(object) != (forms[i].has_value ? 2u : 1u) ||
            forms[i].has_value != (value != NULL))
            continue;
        *out = (struct capture_dressed){forms[i].know, capture_kept(r, from), value};
        return out->from != NULL;
    }
    return capture_broken(
        r, key,
        "an object here is {\"value\":…,\"assumed\":\"from what\"}, "
        "{\"value\":…,\"from\":\"what\"}, {\"unknown\":\"why\"} or {\"absent\":\"why\"}");
}

bool capture_undress(struct capture_reader *r, const char *key, json_t *j,
                     struct capture_dressed *out)
{
    if (json_is_object(j))
        return undress_object(r, key, j, out);
    *out = (struct capture_dressed){.know = RIG_FACT_KNOWN, .value = j};
    if (json_is_null(j))
        *out = (struct capture_dressed){.know = RIG_FACT_UNKNOWN};
    else if (json_is_false(j))
        *out = (struct capture_dressed){.know = RIG_FACT_ABSENT};
    return true;
}

static bool fact_from(struct capture_reader *r, const struct capture_field *f, json_t *j,
                      struct rig_fact *out)
{
    struct capture_dressed d;
    if (!capture_undress(r, f->key, j, &d))
        return false;
    struct rig_fact fact = {.know = d.know, .from = d.from};
    if (d.value && !value_from(r, f, d.value, &fact.value))
        return false;
    *out = fact;
    return true;
}

static bool text_from(struct capture_reader *r, const char *key, json_t *j, struct rig_text *out)
{
    struct capture_dressed d;
    if (!capture_undress(r, key, j, &d))
        return false;
    struct rig_text text = {.know = d.know, .from = d.from};
    if (d.value && !json_is_string(d.value))
        return capture_broken(r, key, "%s stands where a string belongs",
                              capture_kind_name(d.value));
    if (d.value && !(text.value = capture_kept(r, json_string_value(d.value))))
        return false;
    *out = text;
    return true;
}

bool capture_fields_from(struct capture_reader *r, const struct capture_field *fields,
                         json_t *object, void *base)
{
    for (const struct capture_field *f = fields; f->key; f++) {
        json_t *j = json_object_get(object, f->key);
        if (!j)
            continue;
        void *at = (char *)base + f->offset;
        if (f->kind == CAPTURE_TEXT ? !text_from(r, f->key, j, at) : !fact_from(r, f, j, at))
            return false;
    }
    return true;
}

bool capture_optional_fact(struct capture_reader *r, const struct capture_field *f, json_t *object,
                           struct rig_fact *out)
{
    json_t *j = json_object_get(object, f->key);
    return !j || fact_from(r, f, j, out);
}
