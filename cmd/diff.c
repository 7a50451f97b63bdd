/* Two machines compared by meaning: functions by their place, facts by their value. A fact that one
   source does not show is no difference; it is counted. */
#include "handlers.h"

#include <stdio.h>
#include <string.h>

struct comparison {
    struct reply *reply;
    json_t *fields;    /* of the function or machine in hand: what differs */
    long incomparable; /* facts that only one of the two shows */
    const json_t *a_unknown, *b_unknown;
};

static bool listed(const json_t *unknown, const char *field)
{
    size_t i;
    json_t *note;
    json_array_foreach(unknown, i, note)
    {
        const char *name = member_text(note, "field");
        size_t length = strlen(name);
        /* an unknown list of BARs makes each of them unknown */
        if (strncmp(name, field, length) == 0 && (!field[length] || field[length] == '.'))
            return true;
    }
    return false;
}

static void compare(struct comparison *c, const char *field, const json_t *a, const json_t *b);

static void compare_objects(struct comparison *c, const char *field, const json_t *a,
                            const json_t *b)
{
    const char *key;
    json_t *value;
    /* both are made by the same code, so both have the same keys */
    json_object_foreach((json_t *)(uintptr_t)a, key, value)
    {
        char name[160];
        if (!*field && (strcmp(key, "unknown") == 0 || strcmp(key, "assumed") == 0))
            continue;
        snprintf(name, sizeof name, "%s%s%s", field, *field ? "." : "", key);
        compare(c, name, value, json_object_get(b, key));
    }
}

/* BARs are found by their number, other lists by position. */
static const json_t *matching(const json_t *list, const json_t *element, size_t position)
{
    const json_t *number = json_object_get(element, "bar");
    size_t i;
    json_t *other;
    if (!number)
        return json_array_get(list, position);
    json_array_foreach(list, i,
                       other) if (json_equal(json_object_get(other, "bar"), number)) return other;
    return NULL;
}

static void differ(struct comparison *c, const char *field, const json_t *a, const json_t *b)
{
    json_t *o = json_object();
    put(c->reply, o, "field", json_string(field));
    put(c->reply, o, "a", a ? json_deep_copy(a) : json_null());
    put(c->reply, o, "b", b ? json_deep_copy(b) : json_null());
    add(c->reply, c->fields, o);
}

static void element_name(const char *field, const json_t *element, size_t i, char name[160])
{
    const json_t *number = json_object_get(element, "bar");
    snprintf(name, 160, "%s.%d", field, number ? (int)json_integer_value(number) : (int)i);
}

static void compare_arrays(struct comparison *c, const char *field, const json_t *a,
                           const json_t *b)
{
    size_t i;
    json_t *element;
    char name[160];
    json_array_foreach(a, i, element)
    {
        element_name(field, element, i, name);
        compare(c, name, element, matching(b, element, i));
    }
    json_array_foreach(b, i, element)
    {
        element_name(field, element, i, name);
        if (!matching(a, element, i))
            compare(c, name, NULL, element);
    }
}

static void compare(struct comparison *c, const char *field, const json_t *a, const json_t *b)
{
    bool a_unknown = listed(c->a_unknown, field), b_unknown = listed(c->b_unknown, field);
    if (a_unknown || b_unknown) {
        c->incomparable += a_unknown != b_unknown;
    } else if (json_is_object(a) && json_is_object(b)) {
        compare_objects(c, field, a, b);
    } else if (json_is_array(a) && json_is_array(b)) {
        compare_arrays(c, field, a, b);
    } else if (!json_equal(a, b)) {
        differ(c, field, a, b);
    }
}

static json_t *differences(struct comparison *c, const json_t *a, const json_t *b)
{
    c->fields = json_array();
    c->a_unknown = json_object_get(a, "unknown");
    c->b_unknown = json_object_get(b, "unknown");
    compare_objects(c, "", a, b);
    return c->fields;
}

static void add_change(struct comparison *c, json_t *list, const char *function, const char *change,
                       json_t *take_fields)
{
    json_t *o = json_object();
    put(c->reply, o, "function", json_string(function));
    put(c->reply, o, "change", json_string(change));
    put(c->reply, o, "fields", take_fields);
    add(c->reply, list, o);
}

static json_t *compare_functions(struct comparison *c, const struct rig_topology *a,
                                 const struct rig_topology *b)
{
    json_t *list = json_array();
    int i = 0, k = 0;
    char name[RIG_BDF_MAX];
    while (i < rig_topology_count(a) || k < rig_topology_count(b)) {
        const struct rig_function *f =
            i < rig_topology_count(a) ? rig_topology_function(a, i) : NULL;
        const struct rig_function *g =
            k < rig_topology_count(b) ? rig_topology_function(b, k) : NULL;
        int order = f && g ? rig_bdf_compare(f->bdf, g->bdf) : f ? -1 : 1;
        const struct rig_function *shown = order <= 0 ? f : g;
        if (shown)
            rig_bdf_format(shown->bdf, name);
        if (order == 0) {
            json_t *before = function_json(c->reply, a, i), *after = function_json(c->reply, b, k);
            json_t *fields = differences(c, before, after);
            if (json_array_size(fields) > 0)
                add_change(c, list, name, "changed", json_incref(fields));
            json_decref(fields);
            json_decref(before);
            json_decref(after);
        } else {
            add_change(c, list, name, order < 0 ? "removed" : "added", json_array());
        }
        i += order <= 0;
        k += order >= 0;
    }
    return list;
}

void diff_run(const struct request *request, struct reply *reply)
{
    struct rig_topology *a, *b;
    if (!machine_load(request, reply, request->argument[0], &a))
        return;
    if (!machine_load(request, reply, request->argument[1], &b)) {
        rig_topology_free(a);
        return;
    }
    struct comparison c = {.reply = reply};
    json_t *before = machine_json(reply, a), *after = machine_json(reply, b);
    json_t *machine = differences(&c, before, after);
    json_t *functions = compare_functions(&c, a, b);
    bool same = json_array_size(machine) == 0 && json_array_size(functions) == 0;
    json_decref(before);
    json_decref(after);
    reply->exit = same ? EXIT_YES : EXIT_NO;
    reply->result = json_object();
    put(reply, reply->result, "same", json_boolean(same));
    put(reply, reply->result, "machine", machine);
    put(reply, reply->result, "functions", functions);
    put(reply, reply->result, "incomparable", json_integer(c.incomparable));
    rig_topology_free(a);
    rig_topology_free(b);
}

/* ---- text */

static void value_text(struct out *o, const json_t *value)
{
    if (json_is_string(value))
        out_escaped(o, json_string_value(value));
    else if (json_is_number(value))
        out_format(o, "%.15g", json_number_value(value));
    else if (json_is_boolean(value))
        out_text(o, json_is_true(value) ? "yes" : "no");
    else
        out_text(o, json_is_object(value) ? "there" : "none");
}

static void fields_text(struct out *o, const json_t *fields)
{
    size_t i;
    json_t *field;
    json_array_foreach(fields, i, field)
    {
        out_format(o, "  %s: ", member_text(field, "field"));
        value_text(o, json_object_get(field, "a"));
        out_text(o, " => ");
        value_text(o, json_object_get(field, "b"));
        out_text(o, "\n");
    }
}

void diff_text(struct view *view, const json_t *result)
{
    struct out *o = view->out;
    const json_t *machine = json_object_get(result, "machine");
    if (json_array_size(machine) > 0)
        out_text(o, "machine\n");
    fields_text(o, machine);
    size_t i;
    json_t *function;
    json_array_foreach(json_object_get(result, "functions"), i, function)
    {
        const char *change = member_text(function, "change");
        out_format(o, "%s%s%s\n", member_text(function, "function"), *change == 'c' ? "" : " ",
                   *change == 'c' ? "" : change);
        fields_text(o, json_object_get(function, "fields"));
    }
    if (json_is_true(json_object_get(result, "same")))
        out_text(o, "no difference\n");
    if (member_number(result, "incomparable") > 0)
        out_format(o, "%lld facts stand in one of the two only\n",
                   member_number(result, "incomparable"));
}
