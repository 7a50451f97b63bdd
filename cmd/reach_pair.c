/* One pair: as JSON, and the JSON as text. */
#include "reach.h"

#include <stdio.h>
#include <string.h>

const char *answer_word(enum rig_answer answer)
{
    return answer == RIG_ANSWER_YES ? "yes" : answer == RIG_ANSWER_NO ? "no" : "unknown";
}

const char *answer_color(const char *word)
{
    return word[0] == 'y' ? COLOR_GOOD : word[0] == 'n' ? COLOR_BAD : COLOR_DOUBT;
}

static const struct {
    unsigned bit;
    const char *name;
} verdicts[] = {{RIG_BUS_ADDR, "BUS_ADDR"},
                {RIG_THRU_HOST_BRIDGE, "THRU_HOST_BRIDGE"},
                {RIG_NOT_SUPPORTED, "NOT_SUPPORTED"}};

const char *verdict_name(unsigned possible)
{
    for (size_t i = 0; i < 3; i++)
        if (possible == verdicts[i].bit)
            return verdicts[i].name;
    return NULL;
}

/* ---- JSON */

static json_t *bdf_json(const struct rig_topology *t, int i)
{
    char text[RIG_BDF_MAX];
    return i >= 0 ? json_string(rig_bdf_format(rig_topology_function(t, i)->bdf, text))
                  : json_null();
}

static json_t *open_json(enum rig_answer open)
{
    return open == RIG_ANSWER_UNKNOWN ? json_null() : json_boolean(open == RIG_ANSWER_YES);
}

static json_t *gates_json(struct reply *reply, const struct rig_reach *reach)
{
    json_t *gates = json_array();
    for (int i = 0; i < reach->gate_count; i++) {
        const struct rig_gate *gate = &reach->gates[i];
        json_t *o = json_object();
        put(reply, o, "gate", json_string(rig_gate_name(gate->gate)));
        put(reply, o, "open", open_json(gate->open));
        put(reply, o, "why", text_json(gate->why));
        put(reply, o, "decides", json_boolean(gate->decides));
        add(reply, gates, o);
    }
    return gates;
}

static json_t *redirecting_json(struct reply *reply, const struct rig_topology *t,
                                const struct rig_p2pdma *p)
{
    json_t *list = json_array();
    for (int i = 0; i < p->redirecting_count; i++) {
        const struct rig_function *f = rig_topology_function(t, p->redirecting[i]);
        char bits[16];
        snprintf(bits, sizeof bits, "0x%04x", (unsigned)f->acs_control.value & RIG_ACS_REDIRECTS);
        json_t *o = json_object();
        put(reply, o, "function", bdf_json(t, p->redirecting[i]));
        put(reply, o, "bits", json_string(bits));
        add(reply, list, o);
    }
    return list;
}

static json_t *unread_json(struct reply *reply, const struct rig_topology *t,
                           const struct rig_p2pdma *p)
{
    json_t *list = json_array();
    for (int i = 0; i < p->unread_count; i++)
        add(reply, list, bdf_json(t, p->unread[i]));
    return list;
}

static const char *listed_word(enum rig_listed listed)
{
    static const char *const word[] = {"no", "any", "same-bridge", "no-representative", "unknown"};
    return word[listed];
}

json_t *host_bridge_json(struct reply *reply, const struct rig_topology *t,
                         const struct rig_bridge_answer *b)
{
    char text[32];
    json_t *o = json_object();
    if (b->host_bridge >= 0) {
        const struct rig_host_bridge *bridge = rig_topology_host_bridge(t, b->host_bridge);
        snprintf(text, sizeof text, "%04x:%02x", (unsigned)bridge->domain, bridge->bus);
        put(reply, o, "root", json_string(text));
    } else {
        put(reply, o, "root", json_null());
    }
    put(reply, o, "representative", bdf_json(t, b->representative));
    bool ids = rig_fact_has(b->vendor) && rig_fact_has(b->device);
    snprintf(text, sizeof text, "%04x:%04x", (unsigned)b->vendor.value, (unsigned)b->device.value);
    put(reply, o, "id", ids ? json_string(text) : json_null());
    put(reply, o, "entry", *b->entry ? json_string(b->entry) : json_null());
    put(reply, o, "listed", json_string(listed_word(b->listed)));
    return o;
}

static json_t *p2pdma_json(struct reply *reply, const struct rig_topology *t,
                           const struct rig_reach *reach)
{
    const struct rig_p2pdma *p = &reach->p2pdma;
    json_t *o = json_object(), *possible = json_array(), *bridges = json_array();
    put(reply, o, "verdict", text_json(verdict_name(p->possible)));
    for (size_t i = 0; i < 3; i++)
        if (p->possible & verdicts[i].bit)
            add(reply, possible, json_string(verdicts[i].name));
    put(reply, o, "possible", possible);
    put(reply, o, "distance", p->distance >= 0 ? json_integer(p->distance) : json_null());
    put(reply, o, "common", bdf_json(t, p->common));
    put(reply, o, "redirecting", redirecting_json(reply, t, p));
    put(reply, o, "unread", unread_json(reply, t, p));
    add(reply, bridges, host_bridge_json(reply, t, &p->bridge[0]));
    if (p->bridge[0].host_bridge != p->bridge[1].host_bridge)
        add(reply, bridges, host_bridge_json(reply, t, &p->bridge[1]));
    put(reply, o, "host_bridges", bridges);
    put(reply, o, "kernel", json_string(answer_word(reach->kernel)));
    return o;
}

static json_t *notes_json(struct reply *reply, const struct rig_note *notes, int count,
                          bool assumed)
{
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        json_t *o = json_object();
        put(reply, o, "field", text_json(notes[i].field));
        if (assumed)
            put(reply, o, "value", text_json(notes[i].value));
        put(reply, o, assumed ? "from" : "why", text_json(notes[i].why));
        add(reply, list, o);
    }
    return list;
}

static json_t *link_json(struct reply *reply, const struct rig_topology *t,
                         const struct rig_reach *reach)
{
    if (reach->slowest < 0)
        return json_null();
    json_t *o = json_object();
    put(reply, o, "function", bdf_json(t, reach->slowest));
    put(reply, o, "speed",
        rig_fact_has(reach->slowest_speed) ? json_real((double)reach->slowest_speed.value / 10)
                                           : json_null());
    put(reply, o, "width",
        rig_fact_has(reach->slowest_width) ? json_integer((json_int_t)reach->slowest_width.value)
                                           : json_null());
    return o;
}

static json_t *node_json(const struct rig_topology *t, int i)
{
    struct rig_fact node = rig_topology_function(t, i)->numa_node;
    return rig_fact_has(node) ? json_integer((json_int_t)node.value) : json_null();
}

static json_t *reach_json_tree(struct reply *reply, const struct rig_topology *t,
                               const struct rig_reach *reach)
{
    json_t *o = json_object();
    put(reply, o, "from", bdf_json(t, reach->from));
    put(reply, o, "to", bdf_json(t, reach->to));
    put(reply, o, "answer", json_string(answer_word(reach->answer)));
    put(reply, o, "gate",
        reach->gate >= 0 ? json_string(rig_gate_name((enum rig_gate_token)reach->gate))
                         : json_null());
    put(reply, o, "gates", gates_json(reply, reach));
    put(reply, o, "p2pdma", p2pdma_json(reply, t, reach));
    const char *path = rig_path_name(reach->path);
    put(reply, o, "path", reach->path == RIG_PATH_UNKNOWN ? json_null() : json_string(path));
    put(reply, o, "slowest_link", link_json(reply, t, reach));
    put(reply, o, "from_numa_node", node_json(t, reach->from));
    put(reply, o, "to_numa_node", node_json(t, reach->to));
    put(reply, o, "possibilities",
        *reach->possibilities ? text_json(reach->possibilities) : json_null());
    put(reply, o, "assumed", notes_json(reply, reach->assumed, reach->assumed_count, true));
    put(reply, o, "unknown", notes_json(reply, reach->unknown, reach->unknown_count, false));
    return o;
}

json_t *reach_pair_json(struct reply *reply, const struct rig_topology *t,
                        const struct rig_rules *rules, int from, int to, bool remedy,
                        struct rig_error *err)
{
    struct rig_reach reach;
    if (rig_reach_pair(t, rules, from, to, &reach, err) != RIG_OK)
        return NULL;
    json_t *pair = reach_json_tree(reply, t, &reach);
    rig_reach_free(&reach);
    if (!remedy) {
        put(reply, pair, "hint", json_null());
        put(reply, pair, "remedy", json_array());
        return pair;
    }
    if (reach_remedy_json(reply, t, rules, from, to, pair, err) == RIG_OK)
        return pair;
    json_decref(pair);
    return NULL;
}

/* ---- text */

static void name_text(struct view *view, const struct rig_topology *t, const char *bdf)
{
    int i = rig_topology_find(t, bdf);
    const char *alias = i >= 0 ? rig_topology_function(t, i)->alias : NULL;
    if (alias)
        out_format(view->out, "%s (%s)", alias, bdf);
    else
        out_text(view->out, bdf);
}

void reach_names_text(struct view *view, const struct reach_question *q, const json_t *pair)
{
    name_text(view, q->t, member_text(pair, "from"));
    out_text(view->out, " -> ");
    name_text(view, q->t, member_text(pair, "to"));
    out_text(view->out, ": ");
}

static void first_line(struct view *view, const struct reach_question *q, const json_t *pair)
{
    reach_names_text(view, q, pair);
    const char *answer = member_text(pair, "answer");
    view_colored(view, answer_color(answer), answer);
    const char *possibilities = member_text(pair, "possibilities");
    if (*possibilities) {
        out_text(view->out, ": ");
        out_escaped(view->out, possibilities);
    }
    out_text(view->out, "\n");
}

static void closed_gate(struct view *view, const json_t *pair)
{
    const char *token = member_text(pair, "gate");
    size_t i;
    json_t *gate;
    json_array_foreach(json_object_get(pair, "gates"), i, gate)
    {
        if (!*token || strcmp(member_text(gate, "gate"), token) != 0)
            continue;
        out_text(view->out, "  ");
        view_colored(view, answer_color(member_text(pair, "answer")), token);
        out_text(view->out, ": ");
        out_escaped(view->out, member_text(gate, "why"));
        out_text(view->out, "\n");
        return;
    }
}

/* A label and what follows it, in two columns. */
static void label(struct view *view, const char *text)
{
    out_format(view->out, "  %-26s", text);
}

static void verdict_text(struct view *view, const struct reach_question *q, const json_t *p2pdma)
{
    struct out *o = view->out;
    label(view, "the kernel's p2pdma says");
    const char *verdict = member_text(p2pdma, "verdict");
    out_text(o, verdict);
    size_t i;
    json_t *name;
    json_array_foreach(json_object_get(p2pdma, "possible"), i, name) if (!*verdict)
        out_format(o, "%s%s", i ? " or " : "", json_string_value(name));
    const json_t *distance = json_object_get(p2pdma, "distance");
    if (json_is_integer(distance))
        out_format(o, ", distance %d", (int)json_integer_value(distance));
    out_format(o, ", by the rules of Linux %s", rig_rules_name(q->rules));
    struct rig_fact on = rig_topology_machine(q->t)->p2pdma;
    if (rig_fact_has(on) && on.value == 0)
        out_text(o, "; but this kernel is built without p2pdma");
    out_text(o, "\n");
}

/* The devices that the two are, where that is known. */
static void devices_text(struct view *view, const struct reach_question *q, const json_t *pair)
{
    static const char *const end[] = {"from", "to"};
    int last = -1;
    for (size_t k = 0; k < 2; k++) {
        int i = rig_topology_find(q->t, member_text(pair, end[k]));
        const char *name = i >= 0 ? rig_topology_function(q->t, i)->name : NULL;
        if (!name || i == last)
            continue;
        char text[RIG_BDF_MAX];
        label(view, function_label(q->t, i, text));
        out_escaped(view->out, name);
        out_text(view->out, "\n");
        last = i;
    }
}

static bool is_linked(const json_t *pair)
{
    size_t i;
    const json_t *gate;
    json_array_foreach(json_object_get(pair, "gates"), i, gate)
    {
        if (strcmp(member_text(gate, "gate"), rig_gate_name(RIG_GATE_LINK)) == 0)
            return json_is_true(json_object_get(gate, "open"));
    }
    return false;
}

static void maps_text(struct view *view, const struct reach_question *q, const json_t *pair)
{
    int to = rig_topology_find(q->t, member_text(pair, "to"));
    if (to < 0 || !rig_topology_function(q->t, to)->gpu)
        return;
    label(view, "this library maps");
    out_format(view->out, "%s%s\n", member_text(pair, "answer"),
               is_linked(pair) ? ", by links of a fabric, whatever the bus carries" : "");
}

static void path_text(struct view *view, const json_t *pair)
{
    struct out *o = view->out;
    const char *path = member_text(pair, "path");
    const char *common = member_text(json_object_get(pair, "p2pdma"), "common");
    label(view, "path");
    out_text(o, *path ? path : "?");
    if (*common)
        out_format(o, ", common bridge %s", common);
    const json_t *link = json_object_get(pair, "slowest_link");
    const json_t *speed = json_object_get(link, "speed"), *width = json_object_get(link, "width");
    if (json_is_number(speed) && json_is_integer(width))
        out_format(o, ", slowest link %g GT/s x%d at %s", json_number_value(speed),
                   (int)json_integer_value(width), member_text(link, "function"));
    const json_t *from = json_object_get(pair, "from_numa_node");
    const json_t *to = json_object_get(pair, "to_numa_node");
    if (json_is_integer(from) && json_is_integer(to))
        out_format(o, ", NUMA node %d to %d", (int)json_integer_value(from),
                   (int)json_integer_value(to));
    out_text(o, "\n");
}

static void redirecting_text(struct view *view, const json_t *p2pdma)
{
    size_t i;
    json_t *port;
    json_array_foreach(json_object_get(p2pdma, "redirecting"), i, port)
    {
        label(view, i ? "" : "redirecting");
        out_format(view->out, "%s ACS %s\n", member_text(port, "function"),
                   member_text(port, "bits"));
    }
    json_array_foreach(json_object_get(p2pdma, "unread"), i, port)
    {
        label(view, i ? "" : "ACS not read");
        out_format(view->out, "%s\n", json_string_value(port));
    }
}

static void bridges_text(struct view *view, const json_t *p2pdma)
{
    struct out *o = view->out;
    size_t i;
    json_t *bridge;
    json_array_foreach(json_object_get(p2pdma, "host_bridges"), i, bridge)
    {
        const char *root = member_text(bridge, "root"), *id = member_text(bridge, "id");
        const char *representative = member_text(bridge, "representative");
        const char *entry = member_text(bridge, "entry"), *listed = member_text(bridge, "listed");
        label(view, i ? "" : "host bridge");
        out_format(o, "%s", *root ? root : "?");
        if (*representative)
            out_format(o, ", represented by %s%s%s", representative, *id ? " " : "", id);
        if (*entry)
            out_format(o, ", listed as %s%s", entry,
                       strcmp(listed, "same-bridge") == 0 ? " under one host bridge" : "");
        else if (strcmp(listed, "no") == 0)
            out_text(o, ", not listed");
        else
            out_format(o, ", %s", strcmp(listed, "unknown") == 0 ? "not known if listed" : listed);
        out_text(o, "\n");
    }
}

static void note_text(struct view *view, const char *name, const json_t *note)
{
    const char *value = member_text(note, "value"), *from = member_text(note, "from");
    label(view, name);
    out_escaped(view->out, member_text(note, "field"));
    out_text(view->out, *value ? " = " : ": ");
    if (*value) {
        out_escaped(view->out, value);
        out_text(view->out, " (");
    }
    out_escaped(view->out, *from ? from : member_text(note, "why"));
    out_text(view->out, *value ? ")\n" : "\n");
}

static void notes_text(struct view *view, const json_t *pair)
{
    size_t i;
    json_t *note;
    json_array_foreach(json_object_get(pair, "assumed"), i, note) note_text(view, "assuming", note);
    json_array_foreach(json_object_get(pair, "unknown"), i, note) note_text(view, "unknown", note);
}

static void gates_text(struct view *view, const json_t *pair)
{
    out_text(view->out, "  gates\n");
    struct table *table = table_make(3, NULL, 0);
    size_t i;
    json_t *gate;
    json_array_foreach(json_object_get(pair, "gates"), i, gate)
    {
        const json_t *open = json_object_get(gate, "open");
        table_cell(table, json_is_true(open) ? "open" : json_is_false(open) ? "closed" : "?");
        table_cell(table, member_text(gate, "gate"));
        table_cell(table, member_text(gate, "why"));
    }
    table_print(table, view->out, "    ");
}

void reach_pair_text(struct view *view, const struct reach_question *q, const json_t *pair,
                     bool why)
{
    const json_t *p2pdma = json_object_get(pair, "p2pdma");
    first_line(view, q, pair);
    closed_gate(view, pair);
    reach_remedy_text(view, json_object_get(pair, "remedy"), "  ");
    devices_text(view, q, pair);
    maps_text(view, q, pair);
    verdict_text(view, q, p2pdma);
    path_text(view, pair);
    redirecting_text(view, p2pdma);
    bridges_text(view, p2pdma);
    notes_text(view, pair);
    if (why)
        gates_text(view, pair);
}
