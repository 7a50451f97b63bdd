#include "handlers.h"

#include "graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the result: host bridges with the functions below them, nested */

static json_t *node_json(struct reply *reply, const struct rig_topology *t, int i, int depth)
{
    json_t *o = function_json(reply, t, i);
    json_t *children = json_array();
    for (int k = 0; k < rig_topology_count(t) && depth < 300; k++) {
        const struct rig_function *f = rig_topology_function(t, k);
        if (f->parent == i)
            add(reply, children, node_json(reply, t, k, depth + 1));
    }
    put(reply, o, "children", children);
    return o;
}

/* What Linux's list says of host bridge number b, from a decision about a function under it. */
static json_t *bridge_json(struct reply *reply, const struct rig_topology *t,
                           const struct rig_rules *rules, int b)
{
    struct rig_p2pdma decision;
    int below = -1;
    for (int i = 0; i < rig_topology_count(t) && below < 0; i++)
        if (rig_topology_function(t, i)->host_bridge == b)
            below = i;
    if (below < 0) {
        struct rig_bridge_answer nothing = {
            .host_bridge = b, .representative = -1, .listed = RIG_LISTED_NONE};
        return host_bridge_json(reply, t, &nothing);
    }
    if (rig_p2pdma_decide(t, rules, below, below, &decision, &reply->err) != RIG_OK)
        return NULL;
    json_t *o = host_bridge_json(reply, t, &decision.bridge[0]);
    rig_p2pdma_free(&decision);
    return o;
}

static json_t *roots_json(struct reply *reply, const struct rig_topology *t,
                          const struct rig_rules *rules)
{
    json_t *list = json_array();
    for (int b = 0; b < rig_topology_host_bridges(t); b++) {
        struct rig_fact node = rig_topology_host_bridge(t, b)->numa_node;
        json_t *o = bridge_json(reply, t, rules, b);
        json_t *functions = json_array();
        for (int i = 0; i < rig_topology_count(t); i++) {
            const struct rig_function *f = rig_topology_function(t, i);
            if (f->host_bridge == b && f->parent < 0)
                add(reply, functions, node_json(reply, t, i, 0));
        }
        put(reply, o, "functions", functions);
        put(reply, o, "numa_node",
            rig_fact_has(node) ? json_integer((json_int_t)node.value) : json_null());
        add(reply, list, o);
    }
    return list;
}

/* Functions whose place is not in the source. */
static json_t *unplaced_json(struct reply *reply, const struct rig_topology *t)
{
    json_t *list = json_array();
    for (int i = 0; i < rig_topology_count(t); i++) {
        const struct rig_function *f = rig_topology_function(t, i);
        if (f->host_bridge < 0 && f->parent < 0)
            add(reply, list, node_json(reply, t, i, 0));
    }
    return list;
}

void topo_run(const struct request *request, struct reply *reply)
{
    struct rig_topology *t;
    const char *from;
    if (!machine_load(request, reply, source_name(request), &t))
        return;
    if (!request->settings.quiet)
        rig_topology_name_functions(t);
    const struct rig_rules *rules = machine_rules(request, reply, t, &from);
    if (request_has(request, OPT_DOT) || request_has(request, OPT_OUTPUT)) {
        struct out graph;
        out_start(&graph, -1);
        struct graph_seen seen = {.redirects = false};
        graph_begin(&graph, t, rules, "topology");
        if (graph_tree(&graph, t, rules, NULL, &seen, &reply->err) == RIG_OK) {
            graph_legend(&graph, &seen);
            graph_below(&graph, t, &seen, "legend");
            graph_end(&graph);
            picture_reply(request, reply, &graph);
        }
        out_end(&graph);
    } else {
        reply->result = json_object();
        put(reply, reply->result, "rules", json_string(rig_rules_name(rules)));
        put(reply, reply->result, "host_bridges", roots_json(reply, t, rules));
        put(reply, reply->result, "unplaced", unplaced_json(reply, t));
        put(reply, reply->result, "machine", machine_json(reply, t));
    }
    rig_topology_free(t);
}

/* ---- text */

static void link_text(struct out *o, const json_t *f)
{
    const json_t *value[4] = {json_object_get(f, "link_speed"), json_object_get(f, "link_width"),
                              json_object_get(f, "max_speed"), json_object_get(f, "max_width")};
    bool any = false;
    for (int i = 0; i < 4; i++)
        any |= json_is_number(value[i]);
    if (!any)
        return;
    char text[4][16];
    for (int i = 0; i < 4; i++) {
        snprintf(text[i], sizeof text[i], "?");
        if (json_is_number(value[i]))
            snprintf(text[i], sizeof text[i], "%g", json_number_value(value[i]));
    }
    out_format(o, "  link %s GT/s x%s", text[0], text[1]);
    if (strcmp(text[0], text[2]) != 0 || strcmp(text[1], text[3]) != 0)
        out_format(o, " of %s GT/s x%s", text[2], text[3]);
}

static bool is_unknown(const json_t *f, const char *field)
{
    size_t i;
    json_t *note;
    json_array_foreach(json_object_get(f, "unknown"), i,
                       note) if (strcmp(member_text(note, "field"), field) == 0) return true;
    return false;
}

static void acs_text(struct view *view, const json_t *f)
{
    const char *control = member_text(f, "acs_control");
    if (*control) {
        unsigned long word = strtoul(control, NULL, 16);
        out_format(view->out, "  ACS %s", control);
        if (word & RIG_ACS_REDIRECTS) {
            out_text(view->out, " ");
            view_colored(view, COLOR_BAD, "redirects");
        }
    } else if (is_unknown(f, "acs_control") &&
               (*member_text(f, "type") || json_is_true(json_object_get(f, "bridge")))) {
        out_text(view->out, "  ACS ?");
    }
}

static void gpu_text(struct out *o, const json_t *f)
{
    char memory[RIG_SIZE_MAX] = "?", shown[RIG_SIZE_MAX] = "?";
    const json_t *bytes = json_object_get(f, "gpu_memory");
    if (json_is_integer(bytes))
        rig_size_format((uint64_t)json_integer_value(bytes), memory);
    size_t i;
    json_t *bar;
    json_array_foreach(json_object_get(f, "bars"), i, bar)
    {
        const json_t *size = json_object_get(bar, "bytes");
        if (member_number(bar, "bar") == member_number(f, "memory_bar") && json_is_integer(size))
            rig_size_format((uint64_t)json_integer_value(size), shown);
    }
    out_format(o, "  memory %s, BAR %s", memory, shown);
}

static void function_text(struct view *view, const json_t *f)
{
    struct out *o = view->out;
    const char *alias = member_text(f, "alias"), *type = member_text(f, "type");
    const char *kind = member_text(f, "kind"), *name = member_text(f, "name");
    out_text(o, member_text(f, "function"));
    if (*alias)
        out_format(o, " [%s]", alias);
    bool bridge = json_is_true(json_object_get(f, "bridge"));
    if (json_is_true(json_object_get(f, "gpu")))
        out_text(o, " GPU");
    else
        out_format(o, " %s", bridge && *type ? type : *kind ? kind : "?");
    acs_text(view, f);
    if (bridge || *alias)
        link_text(o, f);
    if (json_is_true(json_object_get(f, "gpu")))
        gpu_text(o, f);
    const json_t *node = json_object_get(f, "numa_node");
    if (json_is_integer(node) && *alias)
        out_format(o, "  NUMA %d", (int)json_integer_value(node));
    if (*name && !bridge) {
        out_text(o, "  ");
        out_escaped(o, name);
    }
    out_text(o, "\n");
}

/* A tree drawn with ASCII: prefix holds the rails of the levels above. */
static void children_text(struct view *view, const json_t *list, char *prefix, size_t room)
{
    size_t used = strlen(prefix), count = json_array_size(list);
    for (size_t i = 0; i < count; i++) {
        const json_t *f = json_array_get(list, i);
        bool last = i + 1 == count;
        out_text(view->out, prefix);
        out_text(view->out, last ? "`- " : "+- ");
        function_text(view, f);
        if (used + 4 < room) {
            strcpy(prefix + used, last ? "   " : "|  ");
            children_text(view, json_object_get(f, "children"), prefix, room);
            prefix[used] = '\0';
        }
    }
}

static void root_text(struct view *view, const json_t *bridge)
{
    struct out *o = view->out;
    const char *representative = member_text(bridge, "representative");
    const char *entry = member_text(bridge, "entry"), *listed = member_text(bridge, "listed");
    const char *id = member_text(bridge, "id");
    out_format(o, "host bridge %s", member_text(bridge, "root"));
    if (*representative)
        out_format(o, "  represented by %s%s%s", representative, *id ? " " : "", id);
    if (*entry)
        out_format(o, "  listed as %s%s", entry,
                   strcmp(listed, "same-bridge") == 0 ? ", under one host bridge" : "");
    else
        out_format(o, "  %s",
                   strcmp(listed, "no") == 0        ? "not listed"
                   : strcmp(listed, "unknown") == 0 ? "listed ?"
                                                    : listed);
    const json_t *node = json_object_get(bridge, "numa_node");
    if (json_is_integer(node))
        out_format(o, "  NUMA %d", (int)json_integer_value(node));
    out_text(o, "\n");
}

void topo_text(struct view *view, const json_t *result)
{
    if (picture_text(view, result))
        return;
    char prefix[1024] = "";
    size_t i;
    json_t *bridge;
    json_array_foreach(json_object_get(result, "host_bridges"), i, bridge)
    {
        root_text(view, bridge);
        children_text(view, json_object_get(bridge, "functions"), prefix, sizeof prefix);
    }
    const json_t *unplaced = json_object_get(result, "unplaced");
    if (json_array_size(unplaced) > 0) {
        out_text(view->out, "above these the source shows nothing\n");
        children_text(view, unplaced, prefix, sizeof prefix);
    }
}
