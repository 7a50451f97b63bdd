/* What the session's commands tell: sessions, GPUs, regions. */
#include "session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *address_json(uint64_t address)
{
    char text[24];
    snprintf(text, sizeof text, "0x%" PRIx64, address);
    return json_string(text);
}

static json_t *bdf_json(struct rig_bdf bdf)
{
    char text[RIG_BDF_MAX];
    return json_string(rig_bdf_format(bdf, text));
}

static json_t *id_json(uint64_t id)
{
    char text[24];
    snprintf(text, sizeof text, "r%" PRIu64, id);
    return json_string(text);
}

/* ---- regions */

static json_t *pages_json(struct reply *reply, struct rig_region region)
{
    json_t *list = json_array();
    struct rig_pages pages;
    enum rig_status status = rig_region_pages(region, &pages, NULL);
    if (status == RIG_FAILED)
        reply->no_memory = true;
    if (status != RIG_OK)
        return list;
    for (size_t i = 0; i < pages.count; i++) {
        json_t *one = json_object();
        put(reply, one, "address", address_json(pages.ranges[i].address));
        put(reply, one, "bytes", json_integer((json_int_t)pages.ranges[i].bytes));
        add(reply, list, one);
    }
    rig_pages_free(&pages);
    return list;
}

static json_t *host_json(struct reply *reply, const struct rig_session *s, struct rig_region region)
{
    struct rig_host_place host;
    if (!rig_session_region_place(s, region, &host))
        return json_null();
    json_t *o = json_object();
    put(reply, o, "address", address_json(host.address));
    put(reply, o, "bytes", json_integer((json_int_t)host.bytes));
    put(reply, o, "path", text_json(host.path));
    put(reply, o, "offset", host.path ? json_integer((json_int_t)host.offset) : json_null());
    return o;
}

json_t *region_json(struct reply *reply, const struct rig_session *s, struct rig_region region)
{
    struct rig_region_info info;
    struct rig_memory_info memory;
    if (rig_region_info(region, &info, &reply->err) != RIG_OK)
        return json_null();
    rig_memory_info(region.memory, &memory);
    json_t *o = json_object();
    put(reply, o, "id", id_json(region.id));
    put(reply, o, "name", text_json(rig_session_region_name(s, region.id)));
    put(reply, o, "gpu", bdf_json(memory.function));
    put(reply, o, "source", json_string(rig_origin_name(info.origin)));
    put(reply, o, "kind", info.has_kind ? json_string(rig_kind_name(info.kind)) : json_null());
    put(reply, o, "of", info.of ? id_json(info.of) : json_null());
    put(reply, o, "address", address_json(info.address));
    put(reply, o, "bytes", json_integer((json_int_t)info.bytes));
    put(reply, o, "uncached", json_boolean(info.uncached));
    put(reply, o, "target", json_string(rig_target_name(info.target)));
    put(reply, o, "pages", pages_json(reply, region));
    put(reply, o, "host", host_json(reply, s, region));
    put(reply, o, "state", json_string(info.out ? "out" : "kept"));
    put(reply, o, "kept", info.out ? json_null() : text_json(info.kept));
    put(reply, o, "gone", json_boolean(memory.life == RIG_LIFE_STOPPED));
    return o;
}

void region_made(struct reply *reply, const struct rig_session *s, struct rig_region region)
{
    reply->result = json_object();
    put(reply, reply->result, "region", region_json(reply, s, region));
}

/* ---- GPUs and the session */

static json_t *link_json(struct reply *reply, const struct rig_memory_info *info)
{
    if (!info->linked)
        return json_null();
    json_t *o = json_object();
    put(reply, o, "fabric", json_integer(info->link.fabric));
    put(reply, o, "place", json_integer(info->link.place));
    return o;
}

static json_t *gpu_json(struct reply *reply, const struct rig_session *s,
                        const struct rig_memory_info *info)
{
    const struct rig_topology *t = rig_machine_topology(rig_session_machine(s));
    json_t *o = json_object();
    put(reply, o, "function", bdf_json(info->function));
    put(reply, o, "alias", text_json(rig_topology_function(t, info->number)->alias));
    put(reply, o, "format", json_string(info->format));
    put(reply, o, "memory", json_integer((json_int_t)info->bytes));
    put(reply, o, "memory_bar", json_integer(info->bar));
    put(reply, o, "bar_bytes", json_integer((json_int_t)info->bar_bytes));
    put(reply, o, "link", link_json(reply, info));
    put(reply, o, "free_bytes", json_integer((json_int_t)info->free_bytes));
    put(reply, o, "root", address_json(info->root));
    put(reply, o, "life", json_string(rig_life_name(info->life)));
    put(reply, o, "space", json_string(info->space));
    put(reply, o, "space_base", address_json(info->space_base));
    put(reply, o, "confirms_flushes", json_boolean(info->flushes));
    return o;
}

/* The latest memory of the function: a GPU that was released and taken again is told once, as it is
   now. NULL: the session never had it. */
static struct rig_memory *latest(struct rig_gpus *gpus, int number)
{
    struct rig_memory *found = NULL;
    for (size_t i = 0; i < rig_gpus_count(gpus); i++) {
        struct rig_memory_info info;
        struct rig_memory *m = rig_gpus_memory(gpus, i);
        rig_memory_info(m, &info);
        found = info.number == number ? m : found;
    }
    return found;
}

static json_t *gpus_json(struct reply *reply, const struct rig_session *s, struct rig_memory *only)
{
    const struct rig_topology *t = rig_machine_topology(rig_session_machine(s));
    json_t *list = json_array();
    for (int i = 0; i < rig_topology_count(t); i++) {
        struct rig_memory_info info;
        struct rig_memory *m =
            rig_topology_function(t, i)->gpu ? latest(rig_session_gpus(s), i) : NULL;
        if (!m)
            continue;
        rig_memory_info(m, &info);
        if (only) {
            struct rig_memory_info wanted;
            rig_memory_info(only, &wanted);
            if (wanted.number != i)
                continue;
            info = wanted;
        }
        add(reply, list, gpu_json(reply, s, &info));
    }
    return list;
}

static void add_reservations(struct reply *reply, json_t *list, struct rig_region region)
{
    struct rig_bdf client;
    struct rig_memory_info memory;
    rig_memory_info(region.memory, &memory);
    for (size_t i = 0; rig_region_client(region, i, &client); i++) {
        json_t *one = json_object();
        put(reply, one, "region", id_json(region.id));
        put(reply, one, "gpu", bdf_json(memory.function));
        put(reply, one, "client", bdf_json(client));
        add(reply, list, one);
    }
}

json_t *session_json(const struct request *request, struct reply *reply,
                     const struct rig_session *s, struct rig_memory *gpu,
                     const struct rig_region *only)
{
    char text[4096];
    json_t *o = json_object(), *session = json_object();
    json_t *regions = json_array(), *reservations = json_array();
    put(reply, session, "machine", text_json(rig_session_source(s)));
    put(reply, session, "kind", json_string("twin"));
    put(reply, session, "state_file", text_json(session_path(request, reply, text, sizeof text)));
    put(reply, o, "session", session);
    put(reply, o, "gpus", gpus_json(reply, s, only ? only->memory : gpu));
    struct rig_region region = {.id = 0};
    while (rig_gpus_next_region(rig_session_gpus(s), region.id, &region)) {
        if ((gpu && region.memory != gpu) || (only && region.id != only->id))
            continue;
        add(reply, regions, region_json(reply, s, region));
        add_reservations(reply, reservations, region);
    }
    put(reply, o, "regions", regions);
    put(reply, o, "reservations", reservations);
    return o;
}

/* ---- text */

static const char *size_text(const json_t *o, const char *key, char text[RIG_SIZE_MAX])
{
    return rig_size_format((uint64_t)member_number(o, key), text);
}

static void region_row(struct table *table, const json_t *region)
{
    char bytes[RIG_SIZE_MAX];
    table_cell(table, member_text(region, "id"));
    table_cell(table, member_text(region, "name"));
    table_cell(table, member_text(region, "gpu"));
    const char *kind = member_text(region, "kind");
    const char *of = member_text(region, "of");
    if (*of)
        table_format(table, "%s of %s", member_text(region, "source"), of);
    else
        table_cell(table, member_text(region, "source"));
    table_cell(table, *kind ? kind : member_text(region, "target"));
    table_cell(table, member_text(region, "address"));
    table_cell(table, size_text(region, "bytes", bytes));
    const char *kept = member_text(region, "kept");
    if (*kept)
        table_format(table, "kept: %s", kept);
    else
        table_cell(table, json_is_true(json_object_get(region, "gone")) ? "gone with its GPU" : "");
}

static const char *const region_titles[] = {"ID",   "NAME",    "GPU",  "SOURCE",
                                            "KIND", "ADDRESS", "SIZE", "STATE"};

static void host_text(struct out *o, const json_t *region)
{
    const json_t *host = json_object_get(region, "host");
    const char *path = member_text(host, "path");
    if (!*path)
        return;
    out_format(o, "%s: ", member_text(region, "id"));
    out_escaped(o, path);
    out_format(o, " from byte %lld\n", member_number(host, "offset"));
}

void region_text(struct view *view, const json_t *result)
{
    const json_t *region = json_object_get(result, "region");
    char bytes[RIG_SIZE_MAX];
    const char *kind = member_text(region, "kind");
    out_format(view->out, "%s %s %s", member_text(region, "id"), member_text(region, "address"),
               size_text(region, "bytes", bytes));
    out_format(view->out, " of %s memory for %s\n", *kind ? kind : member_text(region, "target"),
               member_text(region, "gpu"));
    if (view->request->settings.verbose)
        host_text(view->out, region);
}

static void gpus_text(struct view *view, const json_t *gpus)
{
    static const char *const titles[] = {"GPU", "", "FORMAT", "MEMORY", "BAR", "FREE", "LIFE"};
    struct table *table = table_make(7, titles, 1u << 3 | 1u << 4 | 1u << 5);
    size_t i;
    json_t *gpu;
    json_array_foreach(gpus, i, gpu)
    {
        char text[RIG_SIZE_MAX];
        table_cell(table, member_text(gpu, "function"));
        table_cell(table, member_text(gpu, "alias"));
        table_cell(table, member_text(gpu, "format"));
        table_cell(table, size_text(gpu, "memory", text));
        table_cell(table, size_text(gpu, "bar_bytes", text));
        table_cell(table, size_text(gpu, "free_bytes", text));
        table_cell(table, member_text(gpu, "life"));
    }
    table_print(table, view->out, "");
}

void session_text(struct view *view, const json_t *result)
{
    const json_t *session = json_object_get(result, "session");
    const json_t *regions = json_object_get(result, "regions");
    const json_t *reservations = json_object_get(result, "reservations");
    const char *file = member_text(session, "state_file");
    size_t i;
    json_t *one;
    out_text(view->out, "a twin of ");
    out_escaped(view->out, member_text(session, "machine"));
    out_text(view->out, *file ? ", in " : ", in this process");
    out_escaped(view->out, file);
    out_text(view->out, "\n");
    gpus_text(view, json_object_get(result, "gpus"));
    if (json_array_size(regions) > 0) {
        struct table *table = table_make(8, region_titles, 1u << 6);
        json_array_foreach(regions, i, one) region_row(table, one);
        table_print(table, view->out, "");
        json_array_foreach(regions, i, one) host_text(view->out, one);
    }
    json_array_foreach(reservations, i, one)
        out_format(view->out, "%s is reserved for %s\n", member_text(one, "region"),
                   member_text(one, "client"));
}
