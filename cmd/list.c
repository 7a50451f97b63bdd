#include "handlers.h"

#include <stdio.h>
#include <string.h>

static bool is_class(const struct rig_function *f, unsigned code, unsigned mask)
{
    return rig_fact_has(f->class_code) && (f->class_code.value >> 8 & mask) == code;
}

static bool contains(const char *text, const char *part)
{
    return text && strcasestr(text, part);
}

/* Does text stand anywhere in what the list shows of the function? */
static bool mentions(const struct rig_function *f, const char *filter)
{
    char bdf[RIG_BDF_MAX], ids[16] = "";
    rig_bdf_format(f->bdf, bdf);
    if (rig_fact_has(f->vendor) && rig_fact_has(f->device))
        snprintf(ids, sizeof ids, "%04x:%04x", (unsigned)f->vendor.value,
                 (unsigned)f->device.value);
    return contains(bdf, filter) || contains(ids, filter) || contains(f->name, filter) ||
           contains(f->alias, filter) || contains(class_word(f->class_code), filter) ||
           (rig_text_has(f->driver) && contains(f->driver.value, filter));
}

/* What a filter means, worked out once. */
struct filter {
    const char *text; /* NULL: everything */
    int only;         /* the one function named, or -1 */
};

static bool passes(const struct filter *filter, const struct rig_topology *t, int i)
{
    const struct rig_function *f = rig_topology_function(t, i);
    if (!filter->text)
        return true;
    if (filter->only >= 0)
        return i == filter->only;
    if (strcmp(filter->text, "gpu") == 0)
        return f->gpu;
    if (strcmp(filter->text, "nic") == 0)
        return is_class(f, 0x0200, 0xff00);
    if (strcmp(filter->text, "nvme") == 0)
        return is_class(f, 0x0108, 0xffff);
    if (strcmp(filter->text, "bridge") == 0)
        return rig_fact_has(f->header_type) && f->header_type.value != 0;
    return mentions(f, filter->text);
}

void list_run(const struct request *request, struct reply *reply)
{
    struct rig_topology *t;
    if (!machine_load(request, reply, source_name(request), &t))
        return;
    if (!request->settings.quiet)
        rig_topology_name_functions(t);
    struct filter filter = {request->arguments > 0 ? request->argument[0] : NULL, -1};
    if (filter.text)
        filter.only = rig_topology_find(t, filter.text);
    struct rig_bdf bdf;
    if (filter.text && filter.only < 0 && rig_bdf_parse(filter.text, &bdf)) {
        machine_function(reply, t, filter.text);
        rig_topology_free(t);
        return;
    }
    reply->result = json_object();
    json_t *list = json_array();
    for (int i = 0; i < rig_topology_count(t); i++)
        if (passes(&filter, t, i))
            add(reply, list, function_json(reply, t, i));
    put(reply, reply->result, "functions", list);
    put(reply, reply->result, "machine", machine_json(reply, t));
    rig_topology_free(t);
}

/* ---- text */

static const json_t *find_note(const json_t *object, const char *list, const char *field)
{
    size_t i;
    json_t *note;
    json_array_foreach(json_object_get(object, list), i,
                       note) if (strcmp(member_text(note, "field"), field) == 0) return note;
    return NULL;
}

/* The memory BAR, else the largest one that is no I/O; NULL when there is none. */
static const json_t *shown_bar(const json_t *function)
{
    const json_t *best = NULL, *bars = json_object_get(function, "bars");
    const json_t *memory = json_object_get(function, "memory_bar");
    for (size_t i = 0; i < json_array_size(bars); i++) {
        const json_t *bar = json_array_get(bars, i);
        if (json_is_integer(memory) && json_integer_value(memory) == member_number(bar, "bar"))
            return bar;
        bool io = json_is_true(json_object_get(bar, "io"));
        if (!io && (!best || member_number(bar, "bytes") > member_number(best, "bytes")))
            best = bar;
    }
    return best;
}

/* "0: 256 MiB" */
static void bar_cell(struct table *table, const json_t *function)
{
    const json_t *bar = shown_bar(function);
    if (!bar) {
        table_cell(table, find_note(function, "unknown", "bars") ? "?" : "-");
        return;
    }
    char size[RIG_SIZE_MAX] = "?";
    if (json_is_integer(json_object_get(bar, "bytes")))
        rig_size_format((uint64_t)member_number(bar, "bytes"), size);
    table_format(table, "%lld: %s", member_number(bar, "bar"), size);
}

static void memory_cell(struct table *table, const json_t *function)
{
    char size[RIG_SIZE_MAX] = "?";
    if (!json_is_true(json_object_get(function, "gpu"))) {
        table_cell(table, "-");
        return;
    }
    if (json_is_integer(json_object_get(function, "gpu_memory")))
        rig_size_format((uint64_t)member_number(function, "gpu_memory"), size);
    table_format(table, "%s%s", size,
                 find_note(function, "assumed", "gpu_memory") ? " (assumed)" : "");
}

/* A number or text, "?" where unknown, "-" where there is none. */
static void fact_cell(struct table *table, const json_t *function, const char *key)
{
    const json_t *value = json_object_get(function, key);
    if (json_is_integer(value))
        table_format(table, "%lld", (long long)json_integer_value(value));
    else if (json_is_string(value))
        table_cell(table, json_string_value(value));
    else
        table_cell(table, find_note(function, "unknown", key) ? "?" : "-");
}

static void iommu_cell(struct table *table, const json_t *function)
{
    const json_t *group = json_object_get(function, "iommu_group");
    const char *treatment = member_text(function, "iommu");
    const char *word = *treatment                                ? treatment
                       : find_note(function, "unknown", "iommu") ? "?"
                                                                 : "none";
    if (json_is_integer(group))
        table_format(table, "%s, group %lld", word, (long long)json_integer_value(group));
    else
        table_cell(table, word);
}

static void ids_cell(struct table *table, const json_t *function)
{
    const char *vendor = member_text(function, "vendor"), *device = member_text(function, "device");
    if (*vendor && *device)
        table_format(table, "%s:%s", vendor + 2, device + 2);
    else
        table_cell(table, "?");
}

void list_text(struct view *view, const json_t *result)
{
    static const char *const titles[] = {"FUNCTION", "ALIAS",  "IDS",  "KIND",  "DRIVER",
                                         "BAR",      "MEMORY", "NUMA", "IOMMU", "NAME"};
    struct table *table = table_make(10, titles, 1u << 7);
    size_t i;
    json_t *function;
    json_array_foreach(json_object_get(result, "functions"), i, function)
    {
        table_cell(table, member_text(function, "function"));
        const char *alias = member_text(function, "alias");
        table_cell(table, *alias ? alias : "-");
        ids_cell(table, function);
        const char *kind = member_text(function, "kind");
        table_cell(table, *kind ? kind : "?");
        fact_cell(table, function, "driver");
        bar_cell(table, function);
        memory_cell(table, function);
        fact_cell(table, function, "numa_node");
        iommu_cell(table, function);
        table_cell(table, member_text(function, "name"));
    }
    table_print(table, view->out, "");
}
