#include "session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static json_t *entry_json(const struct rig_walk_level *level)
{
    char text[40];
    if (level->entry_bytes == 16)
        snprintf(text, sizeof text, "0x%016" PRIx64 "%016" PRIx64, level->entry[1],
                 level->entry[0]);
    else
        snprintf(text, sizeof text, "0x%016" PRIx64, level->entry[0]);
    return json_string(text);
}

static json_t *fields_json(struct reply *reply, const struct rig_walk_level *level)
{
    json_t *o = json_object();
    bool leaf = strcmp(level->kind, "leaf") == 0;
    put(reply, o, "kind", json_string(level->kind));
    if (!leaf && strcmp(level->kind, "directory") != 0)
        return o;
    put(reply, o, "memory", json_string(level->memory));
    put(reply, o, "address", address_json(level->address));
    if (!leaf)
        return o;
    put(reply, o, "bytes", json_integer((json_int_t)level->bytes));
    put(reply, o, "fragment", json_integer(level->fragment));
    put(reply, o, "type", json_integer(level->type));
    put(reply, o, "uncached", json_boolean(level->uncached));
    put(reply, o, "snooped", json_boolean(level->snooped));
    put(reply, o, "readable", json_boolean(level->readable));
    put(reply, o, "writable", json_boolean(level->writable));
    put(reply, o, "executable", json_boolean(level->executable));
    if (strcmp(level->memory, "link") == 0)
        put(reply, o, "peer", json_integer(level->peer));
    return o;
}

static json_t *level_json(struct reply *reply, const struct rig_walk_level *level)
{
    json_t *o = json_object();
    put(reply, o, "level", json_string(level->name));
    put(reply, o, "table", address_json(level->table));
    put(reply, o, "index", json_integer((json_int_t)level->index));
    put(reply, o, "entry", entry_json(level));
    put(reply, o, "fields", fields_json(reply, level));
    return o;
}

static json_t *end_json(struct reply *reply, const struct rig_walk *walk)
{
    if (!walk->mapped)
        return json_null();
    json_t *o = json_object();
    put(reply, o, "target", json_string(rig_target_name(walk->target)));
    put(reply, o, "address", address_json(walk->address));
    put(reply, o, "bytes", json_integer((json_int_t)walk->bytes));
    return o;
}

void walk_run(const struct request *request, struct reply *reply)
{
    uint64_t at;
    struct rig_walk walk;
    if (!address_argument(reply, request->argument[1], &at))
        return;
    struct rig_session *s = session_enter(request, reply, RIG_SESSION_LOOK, false);
    if (!s)
        return;
    if (rig_session_walk(s, request->argument[0], at, &walk, &reply->err) == RIG_OK) {
        json_t *levels = json_array();
        for (int i = 0; i < walk.count; i++)
            add(reply, levels, level_json(reply, &walk.level[i]));
        reply->result = json_object();
        put(reply, reply->result, "address", address_json(at));
        put(reply, reply->result, "levels", levels);
        put(reply, reply->result, "end", end_json(reply, &walk));
        reply->exit = walk.mapped ? EXIT_YES : EXIT_NO;
    }
    session_abandon(request, s);
}

/* ", readable, writable" and so on. */
static void flags_text(const json_t *fields, char *text, size_t room)
{
    static const char *const keys[] = {"readable", "writable", "executable", "snooped", "uncached"};
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (json_is_true(json_object_get(fields, keys[i])))
            used += (size_t)snprintf(text + used, room - used, ", %s", keys[i]);
}

static void fields_cell(struct table *table, const json_t *fields)
{
    const char *kind = member_text(fields, "kind");
    char bytes[RIG_SIZE_MAX], flags[80];
    if (strcmp(kind, "directory") == 0) {
        table_format(table, "table at %s of %s memory", member_text(fields, "address"),
                     member_text(fields, "memory"));
    } else if (strcmp(kind, "leaf") == 0) {
        rig_size_format((uint64_t)member_number(fields, "bytes"), bytes);
        flags_text(fields, flags, sizeof flags);
        table_format(table, "%s at %s of %s memory, fragment %lld, type %lld%s", bytes,
                     member_text(fields, "address"), member_text(fields, "memory"),
                     member_number(fields, "fragment"), member_number(fields, "type"), flags);
    } else {
        table_cell(table, kind);
    }
}

void walk_text(struct view *view, const json_t *result)
{
    static const char *const titles[] = {"LEVEL", "TABLE", "INDEX", "ENTRY", "WHAT IT SAYS"};
    struct table *table = table_make(5, titles, 1u << 2);
    size_t i;
    json_t *level;
    json_array_foreach(json_object_get(result, "levels"), i, level)
    {
        table_cell(table, member_text(level, "level"));
        table_cell(table, member_text(level, "table"));
        table_format(table, "%lld", member_number(level, "index"));
        table_cell(table, member_text(level, "entry"));
        fields_cell(table, json_object_get(level, "fields"));
    }
    table_print(table, view->out, "");
    const json_t *end = json_object_get(result, "end");
    if (json_is_object(end))
        out_format(view->out, "%s is %s memory at %s, and %lld bytes from there on\n",
                   member_text(result, "address"), member_text(end, "target"),
                   member_text(end, "address"), member_number(end, "bytes"));
    else
        out_format(view->out, "nothing is mapped at %s\n", member_text(result, "address"));
}
