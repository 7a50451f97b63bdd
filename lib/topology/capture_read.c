#include "topology/capture.h"

#include "topology/capture_scan.h"
#include "topology/capture_value.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- functions */

static bool bar_from(struct capture_reader *r, json_t *j, struct rig_bar *bar)
{
    static const char *const others[] = {"address", NULL};
    if (json_is_null(j))
        return true;
    if (json_is_false(j)) {
        bar->flags = fact_absent();
        return true;
    }
    if (!json_is_object(j))
        return capture_broken(r, NULL, "%s stands where an object, false or null belongs",
                              capture_kind_name(j));
    if (!capture_check_keys(r, j, capture_bar_fields, others) ||
        !capture_fields_from(r, capture_bar_fields, j, bar))
        return false;
    if (!json_object_get(j, "address"))
        return true;
    if (json_object_get(j, "bus") || json_object_get(j, "cpu"))
        return capture_broken(r, NULL,
                              "\"address\" is both \"bus\" and \"cpu\", which then stand alone");
    if (!capture_optional_fact(r, &capture_address, j, &bar->bus))
        return false;
    bar->cpu = bar->bus;
    return true;
}

static bool check_bar(struct capture_reader *r, const struct rig_bar *bar)
{
    if (!rig_fact_has(bar->size))
        return true;
    uint64_t size = bar->size.value, last;
    if (!rig_power_of_two(size))
        return capture_broken(r, "size", "a BAR's size is a power of two");
    if (rig_fact_has(bar->bus) && !rig_add(bar->bus.value, size - 1, &last))
        return capture_broken(r, NULL, "the BAR ends above 64 bits");
    if (rig_fact_has(bar->cpu) && !rig_add(bar->cpu.value, size - 1, &last))
        return capture_broken(r, NULL, "the BAR ends above 64 bits");
    return true;
}

static bool bars_from(struct capture_reader *r, json_t *bars, struct rig_function *f)
{
    static const char *const numbers[] = {"0", "1", "2", "3", "4", "5", NULL};
    if (!bars)
        return true;
    if (!json_is_object(bars))
        return capture_broken(r, "bars", "%s stands where an object belongs",
                              capture_kind_name(bars));
    size_t length = strlen(r->path);
    snprintf(r->path + length, sizeof r->path - length, ".bars");
    if (!capture_check_keys(r, bars, NULL, numbers))
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

static bool range_from(struct capture_reader *r, const char *key, const char *text,
                       struct rig_window *window)
{
    const char *dash = strchr(text, '-');
    char base[40];
    if (!dash || (size_t)(dash - text) >= sizeof base)
        return capture_broken(r, key, "\"%.60s\" is no range such as \"0x90000000-0x9fffffff\"",
                              text);
    snprintf(base, sizeof base, "%.*s", (int)(dash - text), text);
    window->base.know = window->limit.know = RIG_FACT_KNOWN;
    if (!capture_from_hex(r, key, base, &window->base.value) ||
        !capture_from_hex(r, key, dash + 1, &window->limit.value))
        return false;
    if (window->limit.value < window->base.value)
        return capture_broken(r, key, "the range ends before it begins");
    return true;
}

static bool window_from(struct capture_reader *r, const char *key, json_t *j,
                        struct rig_window *window)
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
        return capture_broken(r, key, "%s stands where a range or false belongs",
                              capture_kind_name(j));
    return capture_check_keys(r, j, capture_window_fields, NULL) &&
           capture_fields_from(r, capture_window_fields, j, window);
}

static bool bdf_from(struct capture_reader *r, const char *key, json_t *j, struct rig_bdf *out)
{
    const char *text = json_string_value(j);
    if (!text)
        return capture_broken(r, key, "a string such as \"0000:03:00.0\" belongs here");
    if (!rig_bdf_parse(text, out))
        return capture_broken(r, key, "\"%.40s\" is no function such as \"0000:03:00.0\"", text);
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

static bool place_from(struct capture_reader *r, json_t *object, struct node *n)
{
    json_t *j = json_object_get(object, "parent");
    if (!j)
        return true;
    struct capture_dressed d;
    if (!capture_undress(r, "parent", j, &d))
        return false;
    n->place = PLACE_UNKNOWN;
    if (d.know == RIG_FACT_UNKNOWN && !d.from)
        return true;
    const char *text = json_string_value(d.value);
    if (!text || (d.know == RIG_FACT_KNOWN && d.from))
        return capture_broken(
            r, "parent",
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

static bool command_mask_from(struct capture_reader *r, json_t *object, struct rig_function *f)
{
    static const struct capture_field field = {
        .key = "command_mask", .kind = CAPTURE_HEX, .max = 0xffff};
    struct rig_fact mask = fact_known(rig_fact_has(f->command) ? 0xffff : 0);
    if (!capture_optional_fact(r, &field, object, &mask))
        return false;
    if (mask.know != RIG_FACT_KNOWN)
        return capture_broken(r, field.key, "a plain value belongs here");
    f->command_mask = (uint16_t)mask.value;
    return true;
}

static bool identity_from(struct capture_reader *r, json_t *object, struct node *n)
{
    json_t *name = json_object_get(object, "name");
    if (name && !json_is_null(name)) {
        if (!json_is_string(name))
            return capture_broken(r, "name", "%s stands where a string belongs",
                                  capture_kind_name(name));
        n->f.name = capture_kept(r, json_string_value(name));
        if (!n->f.name)
            return false;
    }
    json_t *gpu = json_object_get(object, "gpu");
    if (gpu && !json_is_boolean(gpu))
        return capture_broken(r, "gpu", "true or false belongs here");
    n->f.gpu_named = json_is_true(gpu);
    json_t *physical = json_object_get(object, "physical");
    n->physical_given = physical != NULL;
    return !physical || bdf_from(r, "physical", physical, &n->physical_bdf);
}

static bool function_from(struct capture_reader *r, json_t *object, struct node *n)
{
    static const char *const others[] = {"address",   "name",
                                         "gpu",       "parent",
                                         "physical",  "command_mask",
                                         "io_window", "memory_window",
                                         "bars",      "prefetchable_window",
                                         "iommu",     "gpu_memory",
                                         NULL};
    struct rig_function *f = &n->f;
    if (!capture_check_keys(r, object, capture_function_fields, others) ||
        !identity_from(r, object, n) || !place_from(r, object, n) ||
        !capture_fields_from(r, capture_function_fields, object, f) ||
        !command_mask_from(r, object, f) ||
        !capture_optional_fact(r, &capture_gpu_memory, object, &f->gpu_memory) ||
        !capture_optional_fact(r, &capture_iommu, object, &f->iommu))
        return false;
    for (int i = 0; i < CAPTURE_WINDOWS; i++) {
        const struct capture_window *w = &capture_windows[i];
        if (!window_from(r, w->key, json_object_get(object, w->key),
                         (struct rig_window *)(void *)((char *)f + w->offset)))
            return false;
    }
    return bars_from(r, json_object_get(object, "bars"), f);
}

static bool functions_from(struct capture_reader *r, json_t *list)
{
    if (!json_is_array(list))
        return capture_broken(r, "functions", "a list of functions belongs here");
    size_t i;
    json_t *object;
    json_array_foreach(list, i, object)
    {
        struct rig_bdf bdf = {0};
        struct node *n;
        snprintf(r->path, sizeof r->path, "functions[%zu]", i);
        if (!json_is_object(object))
            return capture_broken(r, NULL, "%s stands where an object belongs",
                                  capture_kind_name(object));
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

static bool warnings_from(struct capture_reader *r, json_t *list)
{
    if (list && !json_is_array(list))
        return capture_broken(r, "warnings", "a list of strings belongs here");
    size_t i;
    json_t *j;
    json_array_foreach(list, i, j)
    {
        if (!json_is_string(j))
            return capture_broken(r, "warnings", "a list of strings belongs here");
        topology_warn(r->t, "%s", json_string_value(j));
    }
    return true;
}

/* True iff the document says that it is a capture of a version that this reads. */
static bool ours(struct capture_reader *r, json_t *root)
{
    const char *format = json_string_value(json_object_get(root, "format"));
    if (!format || strcmp(format, CAPTURE_FORMAT) != 0) {
        capture_refuse_foreign(r->name, root, r->err);
        return false;
    }
    json_t *version = json_object_get(root, "version");
    if (!version)
        return capture_broken(r, "version", "the number %d belongs here", CAPTURE_VERSION);
    if (!json_is_integer(version) || json_integer_value(version) < 1)
        return capture_broken(r, "version", "a number from 1 up belongs here");
    if (json_integer_value(version) > CAPTURE_VERSION)
        return capture_broken(r, "version",
                              "this capture is of version %" JSON_INTEGER_FORMAT
                              "; this rigmem reads version %d",
                              json_integer_value(version), CAPTURE_VERSION);
    return true;
}

static bool head_from(struct capture_reader *r, json_t *root)
{
    json_t *source = json_object_get(root, "source"), *whole = json_object_get(root, "whole");
    uint64_t kind = RIG_SOURCE_CAPTURE;
    if (source && !json_is_string(source))
        return capture_broken(r, "source", "a string belongs here");
    if (source &&
        !capture_from_word(r, "source", capture_sources, json_string_value(source), &kind))
        return false;
    if (whole && !json_is_boolean(whole))
        return capture_broken(r, "whole", "true or false belongs here");
    r->t->machine.source = (enum rig_source)kind;
    r->t->whole = !json_is_false(whole);
    return true;
}

static bool root_from(struct capture_reader *r, json_t *root)
{
    static const char *const keys[] = {"format",  "version",   "source",   "whole",
                                       "machine", "functions", "warnings", NULL};
    if (!ours(r, root) || !capture_check_keys(r, root, NULL, keys) || !head_from(r, root))
        return false;
    json_t *machine = json_object_get(root, "machine");
    snprintf(r->path, sizeof r->path, "machine");
    if (machine && !json_is_object(machine))
        return capture_broken(r, NULL, "%s stands where an object belongs",
                              capture_kind_name(machine));
    if (!capture_check_keys(r, machine, capture_machine_fields, NULL) ||
        !capture_fields_from(r, capture_machine_fields, machine, &r->t->machine))
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
    struct capture_reader r = {.name = name, .t = topology_new(RIG_SOURCE_CAPTURE), .err = &own};
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
