#include "topology/capture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `broken` is set once memory ran out; everything then goes on with nothing. */
struct writer {
    bool broken;
};

/* Text of a source may be in any encoding; JSON is UTF-8. What is not UTF-8 is taken for
   Latin-1. */
static json_t *string_of(struct writer *w, const char *text)
{
    json_t *j = json_string(text);
    if (j)
        return j;
    size_t bytes = strlen(text);
    char *utf8 = malloc(bytes * 2 + 1);
    if (utf8) {
        char *to = utf8;
        for (size_t i = 0; i < bytes; i++) {
            unsigned char c = (unsigned char)text[i];
            if (c >= 0x80)
                *to++ = (char)(0xc0 | c >> 6);
            *to++ = (char)(c >= 0x80 ? 0x80 | (c & 0x3f) : c);
        }
        *to = '\0';
        j = json_string(utf8);
        free(utf8);
    }
    w->broken |= !j;
    return j;
}

/* Sets key to value, which may be NULL: then there is nothing to say. */
static void put(struct writer *w, json_t *object, const char *key, json_t *take_value)
{
    if (take_value && json_object_set_new_nocheck(object, key, take_value) != 0)
        w->broken = true;
}

static json_t *checked(struct writer *w, json_t *value)
{
    w->broken |= !value;
    return value;
}

static json_t *number_of(struct writer *w, uint64_t value)
{
    if (value <= INT64_MAX)
        return checked(w, json_integer((json_int_t)value));
    char text[32];
    snprintf(text, sizeof text, "0x%" PRIx64, value);
    return string_of(w, text);
}

static json_t *size_of(struct writer *w, uint64_t bytes)
{
    if (bytes == 0 || bytes % 1024 != 0)
        return number_of(w, bytes);
    char text[RIG_SIZE_MAX];
    rig_size_format(bytes, text);
    char *space = strchr(text, ' '); /* between the number and its unit */
    memmove(space, space + 1, strlen(space));
    return string_of(w, text);
}

static json_t *sizes_of(struct writer *w, uint64_t bits)
{
    if (bits >> 44)
        return number_of(w, bits);
    json_t *list = checked(w, json_array());
    for (unsigned n = 0; list && n < 44; n++)
        if (bits >> n & 1 && json_array_append_new(list, size_of(w, 1ull << (20 + n))) != 0)
            w->broken = true;
    return list;
}

static json_t *word_of(struct writer *w, const struct capture_word *words, uint64_t value)
{
    for (; words->word; words++)
        if (words->value == value)
            return string_of(w, words->word);
    return number_of(w, value);
}

static json_t *flags_of(struct writer *w, const struct capture_word *words, uint64_t value)
{
    char text[64] = "";
    size_t used = 0;
    for (; words->word; words++) {
        bool set = words->value ? (value & words->value) != 0 : !(value & RIG_BAR_IO);
        if (!set)
            continue;
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? " " : "", words->word);
    }
    return string_of(w, text);
}

static json_t *value_of(struct writer *w, const struct capture_field *f, uint64_t value)
{
    char text[48];
    switch (f->kind) {
    case CAPTURE_HEX:
        snprintf(text, sizeof text, "0x%0*" PRIx64, f->digits, value);
        return string_of(w, text);
    case CAPTURE_SIZE:
        return size_of(w, value);
    case CAPTURE_SPEED:
        if (value % 10)
            snprintf(text, sizeof text, "%" PRIu64 ".%" PRIu64 " GT/s", value / 10, value % 10);
        else
            snprintf(text, sizeof text, "%" PRIu64 " GT/s", value / 10);
        return string_of(w, text);
    case CAPTURE_SIZES:
        return sizes_of(w, value);
    case CAPTURE_WORD:
        return word_of(w, f->words, value);
    case CAPTURE_FLAGS:
        return flags_of(w, f->words, value);
    default:
        return number_of(w, value);
    }
}

/* {first: a, second: b}; either may be NULL. */
static json_t *object_of(struct writer *w, const char *first, json_t *take_a, const char *second,
                         json_t *take_b)
{
    json_t *object = checked(w, json_object());
    put(w, object, first, take_a);
    put(w, object, second, take_b);
    return object;
}

/* A value dressed in what is known of it; NULL for an unknown fact without a reason. `take_value`
   is NULL unless there is a value. */
static json_t *dress(struct writer *w, enum rig_know know, const char *from, json_t *take_value)
{
    switch (know) {
    case RIG_FACT_KNOWN:
        if (!from)
            return take_value;
        return object_of(w, "value", take_value, "from", string_of(w, from));
    case RIG_FACT_ASSUMED:
        return object_of(w, "value", take_value, "assumed", string_of(w, from ? from : ""));
    case RIG_FACT_ABSENT:
        if (!from)
            return json_false();
        return object_of(w, "absent", string_of(w, from), "", NULL);
    default:
        if (!from)
            return NULL;
        return object_of(w, "unknown", string_of(w, from), "", NULL);
    }
}

static json_t *fact_of(struct writer *w, const struct capture_field *f, struct rig_fact fact)
{
    return dress(w, fact.know, fact.from, rig_fact_has(fact) ? value_of(w, f, fact.value) : NULL);
}

static json_t *text_of(struct writer *w, struct rig_text text)
{
    return dress(w, text.know, text.from, rig_text_has(text) ? string_of(w, text.value) : NULL);
}

static void put_fields(struct writer *w, json_t *object, const struct capture_field *fields,
                       const void *base)
{
    for (const struct capture_field *f = fields; f->key; f++)
        put(w, object, f->key,
            f->kind == CAPTURE_TEXT ? text_of(w, *capture_text(base, f))
                                    : fact_of(w, f, *capture_fact(base, f)));
}

static bool says_nothing(struct rig_fact f)
{
    return f.know == RIG_FACT_UNKNOWN && !f.from;
}

static bool same_fact(struct rig_fact a, struct rig_fact b)
{
    if (a.know != b.know || (rig_fact_has(a) && a.value != b.value))
        return false;
    return a.from == b.from || (a.from && b.from && strcmp(a.from, b.from) == 0);
}

/* NULL where the BAR is plainly absent, which a list that leaves it out says too. */
static json_t *bar_of(struct writer *w, const struct rig_bar *bar)
{
    bool rest = !says_nothing(bar->bus) || !says_nothing(bar->cpu) || !says_nothing(bar->size) ||
                !says_nothing(bar->resizable);
    if (bar->flags.know == RIG_FACT_ABSENT && !bar->flags.from && !rest)
        return NULL;
    if (says_nothing(bar->flags) && !rest)
        return json_null();
    json_t *object = checked(w, json_object());
    put_fields(w, object, capture_bar_fields, bar);
    if (object && !says_nothing(bar->bus) && same_fact(bar->bus, bar->cpu)) {
        json_object_del(object, "bus");
        json_object_del(object, "cpu");
        put(w, object, capture_address.key, fact_of(w, &capture_address, bar->bus));
    }
    return object;
}

static bool bars_say_nothing(const struct rig_function *f)
{
    for (int i = 0; i < RIG_BAR_COUNT; i++) {
        const struct rig_bar *b = &f->bar[i];
        if (!says_nothing(b->flags) || !says_nothing(b->bus) || !says_nothing(b->cpu) ||
            !says_nothing(b->size) || !says_nothing(b->resizable))
            return false;
    }
    return true;
}

static void put_bars(struct writer *w, json_t *object, const struct rig_function *f)
{
    if (bars_say_nothing(f))
        return;
    json_t *bars = checked(w, json_object());
    for (int i = 0; i < RIG_BAR_COUNT; i++) {
        char key[] = {(char)('0' + i), '\0'};
        put(w, bars, key, bar_of(w, &f->bar[i]));
    }
    put(w, object, "bars", bars);
}

static bool plain_range(const struct rig_window *window)
{
    return window->base.know == RIG_FACT_KNOWN && !window->base.from &&
           window->limit.know == RIG_FACT_KNOWN && !window->limit.from;
}

static json_t *window_of(struct writer *w, const struct rig_window *window)
{
    if (says_nothing(window->base) && says_nothing(window->limit))
        return NULL;
    if (plain_range(window)) {
        char text[64];
        snprintf(text, sizeof text, "0x%" PRIx64 "-0x%" PRIx64, window->base.value,
                 window->limit.value);
        return string_of(w, text);
    }
    if (window->base.know == RIG_FACT_ABSENT && !window->base.from &&
        same_fact(window->base, window->limit))
        return json_false();
    json_t *object = checked(w, json_object());
    put_fields(w, object, capture_window_fields, window);
    return object;
}

static json_t *address_of(struct writer *w, struct rig_bdf bdf)
{
    char text[RIG_BDF_MAX];
    return string_of(w, rig_bdf_format(bdf, text));
}

static json_t *place_of(struct writer *w, const struct node *n)
{
    char text[32];
    switch (n->place) {
    case PLACE_ROOT:
        if (n->parent_bdf.domain == n->f.bdf.domain && n->parent_bdf.bus == n->f.bdf.bus)
            return string_of(w, "root");
        snprintf(text, sizeof text, "pci%04" PRIx32 ":%02x", n->parent_bdf.domain,
                 n->parent_bdf.bus);
        return string_of(w, text);
    case PLACE_UNDER:
        return dress(w, n->place_from ? RIG_FACT_ASSUMED : RIG_FACT_KNOWN, n->place_from,
                     address_of(w, n->parent_bdf));
    case PLACE_UNKNOWN:
        return json_null();
    default:
        return NULL;
    }
}

static void put_command_mask(struct writer *w, json_t *object, const struct rig_function *f)
{
    static const struct capture_field field = {
        .key = "command_mask", .kind = CAPTURE_HEX, .digits = 4};
    uint16_t usual = rig_fact_has(f->command) ? 0xffff : 0;
    if (f->command_mask != usual)
        put(w, object, field.key, value_of(w, &field, f->command_mask));
}

static json_t *function_of(struct writer *w, const struct node *n)
{
    const struct rig_function *f = &n->f;
    json_t *object = checked(w, json_object());
    put(w, object, "address", address_of(w, f->bdf));
    if (f->name && !n->name_found)
        put(w, object, "name", string_of(w, f->name));
    if (f->gpu_named)
        put(w, object, "gpu", json_true());
    put(w, object, "parent", place_of(w, n));
    if (n->physical_given)
        put(w, object, "physical", address_of(w, n->physical_bdf));
    put_fields(w, object, capture_function_fields, f);
    put_command_mask(w, object, f);
    if (!n->memory_derived)
        put(w, object, capture_gpu_memory.key, fact_of(w, &capture_gpu_memory, f->gpu_memory));
    if (!n->iommu_derived)
        put(w, object, capture_iommu.key, fact_of(w, &capture_iommu, f->iommu));
    for (int i = 0; i < CAPTURE_WINDOWS; i++)
        put(w, object, capture_windows[i].key,
            window_of(w, (const struct rig_window *)(const void *)((const char *)f +
                                                                   capture_windows[i].offset)));
    put_bars(w, object, f);
    return object;
}

static json_t *capture_of(struct writer *w, const struct rig_topology *t)
{
    json_t *root = checked(w, json_object());
    json_t *machine = checked(w, json_object());
    json_t *functions = checked(w, json_array());
    put(w, root, "format", string_of(w, CAPTURE_FORMAT));
    put(w, root, "version", checked(w, json_integer(CAPTURE_VERSION)));
    put(w, root, "source", word_of(w, capture_sources, t->machine.source));
    put(w, root, "whole", json_boolean(t->whole));
    put_fields(w, machine, capture_machine_fields, &t->machine);
    for (int i = 0; !w->broken && i < t->count; i++)
        if (json_array_append_new(functions, function_of(w, &t->node[i])) != 0)
            w->broken = true;
    put(w, root, "machine", machine);
    put(w, root, "functions", functions);
    if (t->warnings) {
        json_t *warnings = checked(w, json_array());
        for (int i = 0; i < t->warnings; i++)
            if (json_array_append_new(warnings, string_of(w, t->warning[i])) != 0)
                w->broken = true;
        put(w, root, "warnings", warnings);
    }
    return root;
}

static enum rig_status write_text(const struct rig_topology *t, char **out_text, size_t *out_bytes,
                                  struct rig_error *err)
{
    struct writer w = {.broken = false};
    json_t *root = capture_of(&w, t);
    char *text = NULL;
    if (root && !w.broken)
        text = json_dumps(root, JSON_SORT_KEYS | JSON_INDENT(1));
    json_decref(root);
    if (!text)
        return rig_fail_memory(err);
    size_t bytes = strlen(text);
    char *line = realloc(text, bytes + 2);
    if (!line) {
        free(text);
        return rig_fail_memory(err);
    }
    memcpy(line + bytes, "\n", 2);
    *out_text = line;
    *out_bytes = bytes + 1;
    return RIG_OK;
}

enum rig_status rig_topology_capture(const struct rig_topology *t, bool redact, char **out_text,
                                     size_t *out_bytes, struct rig_error *err)
{
    if (!redact)
        return write_text(t, out_text, out_bytes, err);
    struct rig_topology *changed;
    enum rig_status status = rig_topology_copy(t, &changed, err);
    if (status != RIG_OK)
        return status;
    status = capture_redact(changed, err);
    if (status == RIG_OK)
        status = write_text(changed, out_text, out_bytes, err);
    rig_topology_free(changed);
    return status;
}
