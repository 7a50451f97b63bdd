/* The tree: host bridges, ports and links down to GPUs, NICs and NVMe drives. */
#include "graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is drawn, kept while it is drawn. shown[i]: function i stands in the picture. */
struct drawing {
    struct out *o;
    const struct rig_topology *t;
    const struct rig_rules *rules;
    const struct graph_marks *marks;
    struct graph_seen *seen;
    bool *shown;
};

void graph_begin(struct out *o, const struct rig_topology *t, const struct rig_rules *rules,
                 const char *what)
{
    const struct rig_machine_facts *m = rig_topology_machine(t);
    out_text(o, "digraph machine {\n"
                "  graph [rankdir=TB, ordering=out, nodesep=0.2, ranksep=0.4, "
                "fontname=\"sans-serif\", fontsize=14, labelloc=t, label=<<b>");
    if (rig_text_has(m->host)) {
        graph_text(o, m->host.value);
        out_text(o, "</b>: ");
    }
    out_format(o, "%s%s", what, rig_text_has(m->host) ? "" : "</b>");
    out_format(o, ", by the rules of Linux %s", rig_rules_name(rules));
    if (rig_text_has(m->kernel)) {
        out_text(o, ", on ");
        graph_text(o, m->kernel.value);
    }
    if (rig_text_has(m->cpu_vendor)) {
        out_text(o, ", CPU ");
        graph_text(o, m->cpu_vendor.value);
        if (rig_fact_has(m->cpu_family))
            out_format(o, " family %u", (unsigned)m->cpu_family.value);
    }
    out_text(o, ">]\n"
                "  node [shape=box, fontname=\"sans-serif\", fontsize=10, style=filled, "
                "fillcolor=white]\n"
                "  edge [fontname=\"sans-serif\", fontsize=9, arrowhead=none]\n");
}

void graph_end(struct out *o)
{
    out_text(o, "}\n");
}

static const char *mark_name(char c)
{
    return c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : NULL;
}

void graph_text(struct out *o, const char *text)
{
    struct out plain;
    out_start(&plain, -1);
    out_escaped(&plain, text);
    for (size_t i = 0; i < plain.used; i++) {
        const char *name = mark_name(plain.buffer[i]);
        if (name)
            out_text(o, name);
        else
            out_bytes(o, plain.buffer + i, 1);
    }
    if (plain.error && !o->error)
        o->error = plain.error;
    out_end(&plain);
}

void graph_node(struct out *o, const struct rig_topology *t, int i)
{
    char text[RIG_BDF_MAX];
    out_format(o, "\"%s\"", rig_bdf_format(rig_topology_function(t, i)->bdf, text));
}

static bool is_shown(const struct drawing *d, int i)
{
    const struct rig_function *f = rig_topology_function(d->t, i);
    if (d->marks && d->marks->shows)
        return d->marks->shows(d->marks->context, i);
    return f->alias || f->gpu;
}

static bool find_shown(struct drawing *d)
{
    int count = rig_topology_count(d->t);
    d->shown = calloc((size_t)count + 1, sizeof *d->shown);
    for (int i = 0; d->shown && i < count; i++) {
        if (!is_shown(d, i))
            continue;
        for (int k = i; k >= 0 && !d->shown[k]; k = rig_topology_function(d->t, k)->parent)
            d->shown[k] = true;
    }
    return d->shown != NULL;
}

/* ---- lines of labels */

/* Of those that the picture is about, how many pairs end here. */
static bool stops_line(struct drawing *d, int function, int host_bridge)
{
    const struct graph_marks *marks = d->marks;
    long pairs = marks && marks->stops ? marks->stops(marks->context, function, host_bridge) : 0;
    if (pairs <= 0)
        return false;
    d->seen->stops = true;
    out_format(d->o, "<br/><font color=\"" GRAPH_RED "\"><b>&#x2716; stops %ld pair%s</b></font>",
               pairs, pairs == 1 ? "" : "s");
    return true;
}

static void size_text(struct out *o, struct rig_fact bytes)
{
    char text[RIG_SIZE_MAX] = "?";
    if (rig_fact_has(bytes))
        rig_size_format(bytes.value, text);
    out_text(o, text);
}

/* The line of a function about ACS, and whether it redirects. */
static bool acs_line(struct drawing *d, const struct rig_function *f)
{
    if (f->acs_control.know == RIG_FACT_UNKNOWN && rig_fact_has(f->header_type) &&
        f->header_type.value != 0) {
        out_text(d->o, "<br/>ACS ?");
        d->seen->unread = true;
    }
    if (!rig_fact_has(f->acs_control))
        return false;
    bool redirects = (f->acs_control.value & RIG_ACS_REDIRECTS) != 0;
    d->seen->redirects |= redirects;
    out_format(d->o, "<br/>ACS 0x%04x%s", (unsigned)f->acs_control.value,
               redirects ? " redirects" : "");
    return redirects;
}

#define NAME_LINE 20

/* The end of a text that fits into `most` bytes, from the beginning of a word if there is one. */
static const char *tail(const char *text, size_t most)
{
    size_t bytes = strlen(text);
    if (bytes <= most)
        return text;
    const char *end = text + bytes - most, *space = strchr(end - 1, ' ');
    return space && space[1] ? space + 1 : end;
}

/* The part of a device's name that tells it apart: what stands in its last brackets, else its end,
   in at most two lines. */
static void name_lines(struct out *o, const char *name)
{
    /* NVIDIA Corporation TU104GL [Tesla T4]; Advanced Micro Devices, Inc. [AMD/ATI] Picasso */
    const char *open = strrchr(name, '['), *close = open ? strchr(open, ']') : NULL;
    const char *part = !close ? name : close[1] ? close + 1 + (close[1] == ' ') : open + 1;
    char text[160];
    snprintf(text, sizeof text, "%.*s", (int)strcspn(part, "]"), part);
    const char *second = tail(text, NAME_LINE);
    char first[sizeof text];
    snprintf(first, sizeof first, "%.*s", (int)(second - text), text);
    size_t bytes = strlen(first);
    if (bytes > 0 && first[bytes - 1] == ' ')
        first[bytes - 1] = '\0';
    if (*first) {
        out_text(o, "<br/>");
        graph_text(o, tail(first, NAME_LINE));
    }
    out_text(o, "<br/>");
    graph_text(o, second);
}

/* ---- nodes */

static const char *port_word(const struct rig_function *f)
{
    if (!rig_fact_has(f->pcie_type))
        return "bridge";
    switch (f->pcie_type.value) {
    case RIG_PCIE_ROOT_PORT:
        return "root port";
    case RIG_PCIE_UPSTREAM_PORT:
        return "switch, upstream";
    case RIG_PCIE_DOWNSTREAM_PORT:
        return "switch, downstream";
    default:
        return "bridge";
    }
}

static void port_node(struct drawing *d, int i)
{
    const struct rig_function *f = rig_topology_function(d->t, i);
    char text[RIG_BDF_MAX];
    out_text(d->o, "    ");
    graph_node(d->o, d->t, i);
    out_format(d->o, " [label=<%s<br/>%s", rig_bdf_format(f->bdf, text), port_word(f));
    bool redirects = acs_line(d, f);
    bool stops = stops_line(d, i, -1);
    out_format(d->o, ">, fontsize=9, fillcolor=\"%s\", color=\"%s\"%s]\n",
               redirects ? "#fde0dc" : "#eceff1", redirects ? GRAPH_RED : "#607d8b",
               stops       ? ", penwidth=3"
               : redirects ? ", penwidth=1.5"
                           : "");
}

static void iommu_line(struct out *o, const struct rig_function *f)
{
    if (!rig_fact_has(f->iommu) || f->iommu.value != RIG_IOMMU_TRANSLATE)
        return;
    out_text(o, "<br/>IOMMU translates");
}

static void endpoint_node(struct drawing *d, int i)
{
    const struct rig_function *f = rig_topology_function(d->t, i);
    struct out *o = d->o;
    char text[RIG_BDF_MAX];
    const struct graph_marks *marks = d->marks;
    const char *fill = marks && marks->fill ? marks->fill(marks->context, i) : NULL;
    const char *kind = class_word(f->class_code);
    out_text(o, "    ");
    graph_node(o, d->t, i);
    out_text(o, " [label=<<b>");
    graph_text(o, f->alias ? f->alias : f->gpu ? "GPU" : kind ? kind : "function");
    out_format(o, "</b><br/>%s", rig_bdf_format(f->bdf, text));
    /* a virtual function's ids read ffff, which names nothing */
    if (f->name && *f->name && !(rig_fact_has(f->vendor) && f->vendor.value == 0xffff))
        name_lines(o, f->name);
    if (f->gpu) {
        struct rig_fact none = {.know = RIG_FACT_UNKNOWN};
        out_text(o, "<br/>memory ");
        size_text(o, f->gpu_memory);
        out_text(o, "<br/>BAR ");
        size_text(o, f->memory_bar >= 0 ? f->bar[f->memory_bar].size : none);
    }
    iommu_line(o, f);
    bool redirects = acs_line(d, f);
    bool stops = stops_line(d, i, -1);
    bool nvme = f->alias && strncmp(f->alias, "nvme", 4) == 0;
    out_format(o, ">, shape=%s, fillcolor=\"%s\", color=\"%s\"%s]\n", nvme ? "cylinder" : "box",
               fill     ? fill
               : f->gpu ? "#c8e6c9"
               : nvme   ? "#fff9c4"
                        : "#e3f2fd",
               redirects || stops ? GRAPH_RED : "#37474f",
               stops    ? ", penwidth=3"
               : f->gpu ? ", penwidth=1.5"
                        : "");
}

/* ---- links */

static void speed_text(struct out *o, struct rig_fact speed, struct rig_fact width)
{
    out_format(o, "%g GT/s x%u", (double)speed.value / 10, (unsigned)width.value);
}

/* Attributes of the edge above function i: its link, where it is one, and the route's colour. */
static void link_attributes(struct drawing *d, int i)
{
    const struct rig_function *f = rig_topology_function(d->t, i);
    const struct graph_marks *marks = d->marks;
    const char *route = marks && marks->route ? marks->route(marks->context, i) : NULL;
    bool inside = rig_fact_has(f->pcie_type) && f->pcie_type.value == RIG_PCIE_DOWNSTREAM_PORT;
    bool link =
        !inside && f->parent >= 0 && rig_fact_has(f->link_speed) && rig_fact_has(f->link_width);
    bool slow = link && rig_fact_has(f->max_speed) && rig_fact_has(f->max_width) &&
                f->link_speed.value * f->link_width.value < f->max_speed.value * f->max_width.value;
    unsigned width = link ? (unsigned)f->link_width.value : 0;
    out_format(d->o, " [penwidth=%g", width >= 16 ? 3.0 : width >= 8 ? 2.0 : 1.0);
    if (route) {
        out_format(d->o, ", color=\"%s\"", route);
        d->seen->route = true;
    }
    if (link) {
        out_text(d->o, ", label=\" ");
        speed_text(d->o, f->link_speed, f->link_width);
        if (slow) {
            out_text(d->o, "\\n of ");
            speed_text(d->o, f->max_speed, f->max_width);
        }
        out_text(d->o, "\"");
        d->seen->slow |= slow;
        d->seen->links = true;
    }
    out_text(d->o, "]\n");
}

static void link_edge(struct drawing *d, int i, int host_bridge)
{
    int parent = rig_topology_function(d->t, i)->parent;
    if (parent < 0 && host_bridge < 0)
        return;
    out_text(d->o, "    ");
    if (parent >= 0)
        graph_node(d->o, d->t, parent);
    else
        out_format(d->o, "\"host%d\"", host_bridge);
    out_text(d->o, " -> ");
    graph_node(d->o, d->t, i);
    link_attributes(d, i);
}

/* ---- host bridges */

static const char *listed_text(const struct rig_bridge_answer *b)
{
    switch (b->listed) {
    case RIG_LISTED_ANY:
        return "on Linux's list";
    case RIG_LISTED_SAME:
        return "on Linux's list, for pairs below it";
    case RIG_LISTED_NO:
        return "not on Linux's list";
    case RIG_LISTED_NONE:
        return "no function stands for it: not on Linux's list";
    case RIG_LISTED_UNKNOWN:
        break;
    }
    return "on Linux's list ?";
}

static enum rig_status host_node(struct drawing *d, int b, int below, struct rig_error *err)
{
    const struct rig_host_bridge *bridge = rig_topology_host_bridge(d->t, b);
    struct rig_p2pdma decision;
    enum rig_status status = rig_p2pdma_decide(d->t, d->rules, below, below, &decision, err);
    if (status != RIG_OK)
        return status;
    const struct rig_bridge_answer *answer = &decision.bridge[0];
    out_format(d->o,
               "    \"host%d\" [style=\"filled,rounded\", fillcolor=\"#ede7f6\", "
               "label=<<b>host bridge %04x:%02x</b>",
               b, (unsigned)bridge->domain, bridge->bus);
    if (rig_fact_has(bridge->numa_node))
        out_format(d->o, ", NUMA node %u", (unsigned)bridge->numa_node.value);
    out_text(d->o, "<br/>");
    if (rig_fact_has(answer->vendor) && rig_fact_has(answer->device))
        out_format(d->o, "%04x:%04x ", (unsigned)answer->vendor.value,
                   (unsigned)answer->device.value);
    out_text(d->o, decision.cpu_zen == RIG_ANSWER_YES ? "AMD Zen: passes requests on"
                                                      : listed_text(answer));
    bool stops = stops_line(d, -1, b);
    out_format(d->o, ">%s]\n", stops ? ", color=\"" GRAPH_RED "\", penwidth=3" : "");
    rig_p2pdma_free(&decision);
    return RIG_OK;
}

/* Draws what hangs under host bridge b (-1: what has none). */
static void draw_below(struct drawing *d, int b)
{
    for (int i = 0; i < rig_topology_count(d->t); i++) {
        if (!d->shown[i] || rig_topology_function(d->t, i)->host_bridge != b)
            continue;
        if (is_shown(d, i))
            endpoint_node(d, i);
        else
            port_node(d, i);
        link_edge(d, i, b);
    }
}

static int first_shown(const struct drawing *d, int b)
{
    for (int i = 0; i < rig_topology_count(d->t); i++)
        if (d->shown[i] && rig_topology_function(d->t, i)->host_bridge == b)
            return i;
    return -1;
}

static int middle_of_lowest(const struct drawing *d)
{
    int count = rig_topology_count(d->t), deepest = 0, most = 0;
    for (int i = 0; i < count; i++) {
        int at = d->shown[i] ? function_steps_up(d->t, i, -1) : 0;
        most = at > deepest ? 1 : most + (at == deepest);
        deepest = at > deepest ? at : deepest;
    }
    int skip = (most - 1) / 2;
    for (int i = 0; deepest > 0 && i < count; i++)
        if (d->shown[i] && function_steps_up(d->t, i, -1) == deepest && skip-- == 0)
            return i;
    return -1;
}

void graph_below(struct out *o, const struct rig_topology *t, const struct graph_seen *seen,
                 const char *node)
{
    if (seen->lowest < 0)
        return;
    out_text(o, "  ");
    graph_node(o, t, seen->lowest);
    out_format(o, " -> %s [style=invis, weight=0]\n", node);
}

enum rig_status graph_tree(struct out *o, const struct rig_topology *t,
                           const struct rig_rules *rules, const struct graph_marks *marks,
                           struct graph_seen *seen, struct rig_error *err)
{
    struct drawing d = {.o = o, .t = t, .rules = rules, .marks = marks, .seen = seen};
    if (!find_shown(&d)) {
        *err = (struct rig_error){.status = RIG_FAILED, .why = "out of memory"};
        return RIG_FAILED;
    }
    enum rig_status status = RIG_OK;
    seen->lowest = middle_of_lowest(&d);
    for (int b = 0; status == RIG_OK && b < rig_topology_host_bridges(t); b++) {
        int first = first_shown(&d, b);
        if (first < 0)
            continue;
        out_format(o, "  subgraph cluster%d {\n    color=\"#b0bec5\"\n    label=\"\"\n", b);
        status = host_node(&d, b, first, err);
        draw_below(&d, b);
        out_text(o, "  }\n");
    }
    if (status == RIG_OK)
        draw_below(&d, -1);
    free(d.shown);
    return status;
}
