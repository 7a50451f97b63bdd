#include "topology/capture.h"

#include "topology/capture_scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the reader is, for messages: `path` is the JSON path of the value at hand. */
struct reader {
    const char *name;
    struct rig_topology *t;
    struct rig_error *err;
    char path[160];
};

/* Every rule that a capture breaks is told as `PATH: rule`. */
static bool __attribute__((format(printf, 3, 4)))
broken(struct reader *r, const char *key, const char *format, ...)
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

static const char *kind_name(const json_t *j)
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

/* The fewest letters to change, add or leave out to make b of a. */
static size_t edits(const char *a, const char *b)
{
    size_t row[33];
    size_t n = strlen(b);
    if (n >= RIG_ARRAY_LENGTH(row) || strlen(a) >= RIG_ARRAY_LENGTH(row))
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

static bool check_keys(struct reader *r, json_t *object, const struct capture_field *fields,
                       const char *const *others)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (known_key(key, fields, others))
            continue;
        const char *near = nearest_key(key, fields, others);
        broken(r, NULL, "unknown key \"%.60s\"", key);
        if (near)
            rig_hint(r->err, "did you mean \"%s\"?", near);
        return false;
    }
    return true;
}

/* ---- values */

static const char *kept(struct reader *r, const char *text)
{
    const char *copy = topology_intern(r->t, text, strlen(text));
    if (!copy)
        rig_fail_memory(r->err);
    return copy;
}

static bool from_integer(struct reader *r, const char *key, const json_t *j, uint64_t *out)
{
    json_int_t i = json_integer_value(j);
    if (i < 0)
        return broken(r, key, "%" JSON_INTEGER_FORMAT " is below zero", i);
    *out = (uint64_t)i;
    return true;
}

static bool from_hex(struct reader *r, const char *key, const char *text, uint64_t *out)
{
    uint64_t value = 0;
    bool prefix = strncmp(text, "0x", 2) == 0;
    size_t digits = prefix ? strspn(text + 2, "0123456789abcdefABCDEF") : 0;
    if (digits == 0 || text[2 + digits] != '\0')
        return broken(r, key, "\"%.40s\" is no hex number such as \"0x10de\"", text);
    const char *d = text + 2 + strspn(text + 2, "0");
    if (strlen(d) > 16)
        return broken(r, key, "\"%.40s\" has more than 64 bits", text);
    for (; *d; d++)
        value = value << 4 | (uint64_t)(*d <= '9' ? *d - '0' : (*d | 0x20) - 'a' + 10);
    *out = value;
    return true;
}

static bool from_size(struct reader *r, const char *key, const char *text, uint64_t *out)
{
    struct rig_error why;
    rig_error_clear(&why);
    if (rig_size_parse(text, out, &why) == RIG_OK)
        return true;
    broken(r, key, "\"%.40s\" is no size such as \"16GiB\"", text);
    if (why.hint[0])
        rig_hint(r->err, "%s", why.hint);
    return false;
}

/* "8 GT/s", "2.5 GT/s"; the space may be missing. */
static bool from_speed(struct reader *r, const char *key, const char *text, uint64_t *out)
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
        return broken(r, key, "\"%.40s\" is no link speed such as \"8 GT/s\"", text);
    *out = whole * 10u + tenths;
    return true;
}

static bool from_word(struct reader *r, const char *key, const struct capture_word *words,
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
    broken(r, key, "\"%.40s\" is none of %s", text, list);
    if (n.best)
        rig_hint(r->err, "did you mean \"%s\"?", n.best);
    return false;
}

static bool from_flags(struct reader *r, const char *key, const struct capture_word *words,
                       const char *text, uint64_t *out)
{
    uint64_t flags = 0;
    for (const char *p = text; *p;) {
        size_t bytes = strcspn(p, " ");
        char word[40];
        snprintf(word, sizeof word, "%.*s", (int)(bytes < 39 ? bytes : 39), p);
        uint64_t flag = 0;
        if (!from_word(r, key, words, word, &flag))
            return false;
        flags |= flag;
        p += bytes + strspn(p + bytes, " ");
    }
    *out = flags;
    return true;
}

static bool from_sizes(struct reader *r, const char *key, json_t *list, uint64_t *out)
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
            return broken(r, key, "each entry of the list is a size");
        if (!rig_power_of_two(bytes) || bytes < 1u << 20)
            return broken(r, key, "a BAR's size is a power of two from 1MiB up");
        bits |= 1ull << (__builtin_ctzll(bytes) - 20);
    }
    *out = bits;
    return true;
}

static bool from_string(struct reader *r, const struct capture_field *f, const char *text,
                        uint64_t *out)
{
    switch (f->kind) {
    case CAPTURE_SIZE:
        return from_size(r, f->key, text, out);
    case CAPTURE_SPEED:
        return from_speed(r, f->key, text, out);
    case CAPTURE_WORD:
        return from_word(r, f->key, f->words, text, out);
    case CAPTURE_FLAGS:
        return from_flags(r, f->key, f->words, text, out);
    default:
        return from_hex(r, f->key, text, out);
    }
}

static bool value_from(struct reader *r, const struct capture_field *f, json_t *j, uint64_t *out)
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
        return broken(r, f->key, "%s is no value here", kind_name(j));
    if (!read)
        return false;
    if (value > f->max)
        return broken(r, f->key, "0x%" PRIx64 " is more than 0x%" PRIx64, value, f->max);
    *out = value;
    return true;
}

/* ---- facts: a value dressed in what is known of it */

/* What a value says of how it is known. `value` is the bare value, or NULL. */
struct dressed {
    enum rig_know know;
    const char *from;
    json_t *value;
};

static bool undress_object(struct reader *r, const char *key, json_t *object, struct dressed *out)
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
        *out = (struct dressed){forms[i].know, kept(r, from), value};
        return out->from != NULL;
    }
    return broken(r, key,
                  "an object here is {\"value\":…,\"assumed\":\"from what\"}, "
                  "{\"value\":…,\"from\":\"what\"}, {\"unknown\":\"why\"} or {\"absent\":\"why\"}");
}

static bool undress(struct reader *r, const char *key, json_t *j, struct dressed *out)
{
    if (json_is_object(j))
        return undress_object(r, key, j, out);
    *out = (struct dressed){.know = RIG_FACT_KNOWN, .value = j};
    if (json_is_null(j))
        *out = (struct dressed){.know = RIG_FACT_UNKNOWN};
    else if (json_is_false(j))
        *out = (struct dressed){.know = RIG_FACT_ABSENT};
    return true;
}

static bool fact_from(struct reader *r, const struct capture_field *f, json_t *j,
                      struct rig_fact *out)
{
    struct dressed d;
    if (!undress(r, f->key, j, &d))
        return false;
    struct rig_fact fact = {.know = d.know, .from = d.from};
    if (d.value && !value_from(r, f, d.value, &fact.value))
        return false;
    *out = fact;
    return true;
}

static bool text_from(struct reader *r, const char *key, json_t *j, struct rig_text *out)
{
    struct dressed d;
    if (!undress(r, key, j, &d))
        return false;
    struct rig_text text = {.know = d.know, .from = d.from};
    if (d.value && !json_is_string(d.value))
        return broken(r, key, "%s stands where a string belongs", kind_name(d.value));
    if (d.value && !(text.value = kept(r, json_string_value(d.value))))
        return false;
    *out = text;
    return true;
}

/* Reads the fields that object has into the struct at base. */
static bool fields_from(struct reader *r, const struct capture_field *fields, json_t *object,
                        void *base)
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

static bool optional_fact(struct reader *r, const struct capture_field *f, json_t *object,
                          struct rig_fact *out)
{
    json_t *j = json_object_get(object, f->key);
    return !j || fact_from(r, f, j, out);
}

/* ---- functions */

static bool bar_from(struct reader *r, json_t *j, struct rig_bar *bar)
{
    static const char *const others[] = {"address", NULL};
    if (json_is_null(j))
        return true;
    if (json_is_false(j)) {
        bar->flags = fact_absent();
        return true;
    }
    if (!json_is_object(j))
        return broken(r, NULL, "%s stands where an object, false or null belongs", kind_name(j));
    if (!check_keys(r, j, capture_bar_fields, others) ||
        !fields_from(r, capture_bar_fields, j, bar))
        return false;
    if (!json_object_get(j, "address"))
        return true;
    if (json_object_get(j, "bus") || json_object_get(j, "cpu"))
        return broken(r, NULL, "\"address\" is both \"bus\" and \"cpu\", which then stand alone");
    if (!optional_fact(r, &capture_address, j, &bar->bus))
        return false;
    bar->cpu = bar->bus;
    return true;
}

static bool check_bar(struct reader *r, const struct rig_bar *bar)
{
    if (!rig_fact_has(bar->size))
        return true;
    uint64_t size = bar->size.value, last;
    if (!rig_power_of_two(size))
        return broken(r, "size", "a BAR's size is a power of two");
    if (rig_fact_has(bar->bus) && !rig_add(bar->bus.value, size - 1, &last))
        return broken(r, NULL, "the BAR ends above 64 bits");
    if (rig_fact_has(bar->cpu) && !rig_add(bar->cpu.value, size - 1, &last))
        return broken(r, NULL, "the BAR ends above 64 bits");
    return true;
}

static bool bars_from(struct reader *r, json_t *bars, struct rig_function *f)
{
    static const char *const numbers[] = {"0", "1", "2", "3", "4", "5", NULL};
    if (!bars)
        return true;
    if (!json_is_object(bars))
        return broken(r, "bars", "%s stands where an object belongs", kind_name(bars));
    size_t length = strlen(r->path);
    snprintf(r->path + length, sizeof r->path - length, ".bars");
    if (!check_keys(r, bars, NULL, numbers))
        return false;
    for (int i = 0; i < RIG_BAR_COUNT; i++) {
        json_t *j = json_object_get(bars, numbers[i]);
        snprintf(r->path + length, sizeof r->path - length, ".bars.%d", i);
        if (!j)
            f->bar[i].flags = fact_absent();
        else if (!bar_from(r, j, &f->bar[i]) || !check_bar(r, &f->bar[i]))
            return false;
    }
    r->path[length] = '\0';
    return true;
}

static bool range_from(struct reader *r, const char *key, const char *text,
                       struct rig_window *window)
{
    const char *dash = strchr(text, '-');
    char base[40];
    if (!dash || (size_t)(dash - text) >= sizeof base)
        return broken(r, key, "\"%.60s\" is no range such as \"0x90000000-0x9fffffff\"", text);
    snprintf(base, sizeof base, "%.*s", (int)(dash - text), text);
    window->base.know = window->limit.know = RIG_FACT_KNOWN;
    if (!from_hex(r, key, base, &window->base.value) ||
        !from_hex(r, key, dash + 1, &window->limit.value))
        return false;
    if (window->limit.value < window->base.value)
        return broken(r, key, "the range ends before it begins");
    return true;
}

static bool window_from(struct reader *r, const char *key, json_t *j, struct rig_window *window)
{
    if (!j || json_is_null(j))
        return true;
    if (json_is_string(j))
        return range_from(r, key, json_string_value(j), window);
    if (json_is_false(j)) {
        window->base = window->limit = fact_absent();
        return true;
    }
    if (!json_is_object(j))
        return broken(r, key, "%s stands where a range or false belongs", kind_name(j));
    return check_keys(r, j, capture_window_fields, NULL) &&
           fields_from(r, capture_window_fields, j, window);
}

static bool bdf_from(struct reader *r, const char *key, json_t *j, struct rig_bdf *out)
{
    const char *text = json_string_value(j);
    if (!text)
        return broken(r, key, "a string such as \"0000:03:00.0\" belongs here");
    if (!rig_bdf_parse(text, out))
        return broken(r, key, "\"%.40s\" is no function such as \"0000:03:00.0\"", text);
    return true;
}

/* "pci0000:3a": the root bus as Linux names its host bridge's directory. */
static bool root_bus_from(const char *text, struct rig_bdf *out)
{
    char whole[32];
    if (strncmp(text, "pci", 3) != 0 || !strchr(text, ':') || strchr(text, '.'))
        return false;
    int n = snprintf(whole, sizeof whole, "%s:00.0", text + 3);
    return (size_t)n < sizeof whole && rig_bdf_parse(whole, out);
}

static bool place_from(struct reader *r, json_t *object, struct node *n)
{
    json_t *j = json_object_get(object, "parent");
    if (!j)
        return true;
    struct dressed d;
    if (!undress(r, "parent", j, &d))
        return false;
    n->place = PLACE_UNKNOWN;
    if (d.know == RIG_FACT_UNKNOWN && !d.from)
        return true;
    const char *text = json_string_value(d.value);
    if (!text || (d.know == RIG_FACT_KNOWN && d.from))
        return broken(r, "parent",
                      "a bridge such as \"0000:02:01.0\", \"root\", \"pci0000:3a\" or null belongs "
                      "here");
    n->place = PLACE_ROOT;
    n->parent_bdf = (struct rig_bdf){.domain = n->f.bdf.domain, .bus = n->f.bdf.bus};
    if (d.know == RIG_FACT_KNOWN &&
        (strcmp(text, "root") == 0 || root_bus_from(text, &n->parent_bdf)))
        return true;
    n->place = PLACE_UNDER;
    n->place_from = d.from;
    return bdf_from(r, "parent", d.value, &n->parent_bdf);
}

static bool command_mask_from(struct reader *r, json_t *object, struct rig_function *f)
{
    static const struct capture_field field = {
        .key = "command_mask", .kind = CAPTURE_HEX, .max = 0xffff};
    struct rig_fact mask = fact_known(rig_fact_has(f->command) ? 0xffff : 0);
    if (!optional_fact(r, &field, object, &mask))
        return false;
    if (mask.know != RIG_FACT_KNOWN)
        return broken(r, field.key, "a plain value belongs here");
    f->command_mask = (uint16_t)mask.value;
    return true;
}

static bool identity_from(struct reader *r, json_t *object, struct node *n)
{
    json_t *name = json_object_get(object, "name");
    if (name && !json_is_null(name)) {
        if (!json_is_string(name))
            return broken(r, "name", "%s stands where a string belongs", kind_name(name));
        n->f.name = kept(r, json_string_value(name));
        if (!n->f.name)
            return false;
    }
    json_t *gpu = json_object_get(object, "gpu");
    if (gpu && !json_is_boolean(gpu))
        return broken(r, "gpu", "true or false belongs here");
    n->f.gpu_named = json_is_true(gpu);
    json_t *physical = json_object_get(object, "physical");
    n->physical_given = physical != NULL;
    return !physical || bdf_from(r, "physical", physical, &n->physical_bdf);
}

static bool function_from(struct reader *r, json_t *object, struct node *n)
{
    static const char *const others[] = {"address",   "name",
                                         "gpu",       "parent",
                                         "physical",  "command_mask",
                                         "io_window", "memory_window",
                                         "bars",      "prefetchable_window",
                                         "iommu",     "gpu_memory",
                                         NULL};
    struct rig_function *f = &n->f;
    if (!check_keys(r, object, capture_function_fields, others) || !identity_from(r, object, n) ||
        !place_from(r, object, n) || !fields_from(r, capture_function_fields, object, f) ||
        !command_mask_from(r, object, f) ||
        !optional_fact(r, &capture_gpu_memory, object, &f->gpu_memory) ||
        !optional_fact(r, &capture_iommu, object, &f->iommu))
        return false;
    for (int i = 0; i < CAPTURE_WINDOWS; i++) {
        const struct capture_window *w = &capture_windows[i];
        if (!window_from(r, w->key, json_object_get(object, w->key),
                         (struct rig_window *)(void *)((char *)f + w->offset)))
            return false;
    }
    return bars_from(r, json_object_get(object, "bars"), f);
}

static bool functions_from(struct reader *r, json_t *list)
{
    if (!json_is_array(list))
        return broken(r, "functions", "a list of functions belongs here");
    size_t i;
    json_t *object;
    json_array_foreach(list, i, object)
    {
        struct rig_bdf bdf = {0};
        struct node *n;
        snprintf(r->path, sizeof r->path, "functions[%zu]", i);
        if (!json_is_object(object))
            return broken(r, NULL, "%s stands where an object belongs", kind_name(object));
        if (!bdf_from(r, "address", json_object_get(object, "address"), &bdf))
            return false;
        char address[RIG_BDF_MAX];
        snprintf(r->path, sizeof r->path, "functions[%zu] (%s)", i, rig_bdf_format(bdf, address));
        if (topology_add(r->t, bdf, &n, r->err) != RIG_OK || !function_from(r, object, n))
            return false;
    }
    r->path[0] = '\0';
    return true;
}

/* ---- the whole */

static bool warnings_from(struct reader *r, json_t *list)
{
    if (list && !json_is_array(list))
        return broken(r, "warnings", "a list of strings belongs here");
    size_t i;
    json_t *j;
    json_array_foreach(list, i, j)
    {
        if (!json_is_string(j))
            return broken(r, "warnings", "a list of strings belongs here");
        topology_warn(r->t, "%s", json_string_value(j));
    }
    return true;
}

/* True iff the document says that it is a capture of a version that this reads. */
static bool ours(struct reader *r, json_t *root)
{
    const char *format = json_string_value(json_object_get(root, "format"));
    if (!format || strcmp(format, CAPTURE_FORMAT) != 0) {
        capture_refuse_foreign(r->name, root, r->err);
        return false;
    }
    json_t *version = json_object_get(root, "version");
    if (!version)
        return broken(r, "version", "the number %d belongs here", CAPTURE_VERSION);
    if (!json_is_integer(version) || json_integer_value(version) < 1)
        return broken(r, "version", "a number from 1 up belongs here");
    if (json_integer_value(version) > CAPTURE_VERSION)
        return broken(r, "version",
                      "this capture is of version %" JSON_INTEGER_FORMAT
                      "; this rigmem reads version %d",
                      json_integer_value(version), CAPTURE_VERSION);
    return true;
}

static bool head_from(struct reader *r, json_t *root)
{
    json_t *source = json_object_get(root, "source"), *whole = json_object_get(root, "whole");
    uint64_t kind = RIG_SOURCE_CAPTURE;
    if (source && !json_is_string(source))
        return broken(r, "source", "a string belongs here");
    if (source && !from_word(r, "source", capture_sources, json_string_value(source), &kind))
        return false;
    if (whole && !json_is_boolean(whole))
        return broken(r, "whole", "true or false belongs here");
    r->t->machine.source = (enum rig_source)kind;
    r->t->whole = !json_is_false(whole);
    return true;
}

static bool root_from(struct reader *r, json_t *root)
{
    static const char *const keys[] = {"format",  "version",   "source",   "whole",
                                       "machine", "functions", "warnings", NULL};
    if (!ours(r, root) || !check_keys(r, root, NULL, keys) || !head_from(r, root))
        return false;
    json_t *machine = json_object_get(root, "machine");
    snprintf(r->path, sizeof r->path, "machine");
    if (machine && !json_is_object(machine))
        return broken(r, NULL, "%s stands where an object belongs", kind_name(machine));
    if (!check_keys(r, machine, capture_machine_fields, NULL) ||
        !fields_from(r, capture_machine_fields, machine, &r->t->machine))
        return false;
    r->path[0] = '\0';
    return warnings_from(r, json_object_get(root, "warnings")) &&
           functions_from(r, json_object_get(root, "functions"));
}

enum rig_status read_capture(const char *name, const char *data, size_t bytes,
                             struct rig_topology **out, struct rig_error *err)
{
    json_t *root;
    enum rig_status status = capture_scan(name, data, bytes, &root, err);
    if (status != RIG_OK)
        return status;
    status = read_capture_object(name, root, out, err);
    json_decref(root);
    return status;
}

enum rig_status read_capture_object(const char *name, json_t *root, struct rig_topology **out,
                                    struct rig_error *err)
{
    enum rig_status status = RIG_OK;
    struct rig_error own;
    rig_error_clear(&own);
    struct reader r = {.name = name, .t = topology_new(RIG_SOURCE_CAPTURE), .err = &own};
    if (!r.t)
        status = rig_fail_memory(&own);
    else if (!root_from(&r, root))
        status = own.status;
    else
        status = topology_finish(r.t, name, &own);
    if (status != RIG_OK) {
        rig_topology_free(r.t);
        if (err && err->status == RIG_OK)
            *err = own;
        return status;
    }
    *out = r.t;
    return RIG_OK;
}
