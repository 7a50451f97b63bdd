#include "graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void graph_begin(struct out *o)
{
    out_text(o, "digraph machine {\n"
                "  graph [rankdir=TB, nodesep=0.25, ranksep=0.45, fontname=\"sans-serif\"]\n"
                "  node [shape=box, fontname=\"sans-serif\", fontsize=11, style=filled, "
                "fillcolor=white]\n"
                "  edge [fontname=\"sans-serif\", fontsize=10, arrowhead=none]\n");
}

void graph_end(struct out *o)
{
    out_text(o, "}\n");
}

void graph_text(struct out *o, const char *text)
{
    struct out plain;
    out_start(&plain, -1);
    out_escaped(&plain, text);
    for (size_t i = 0; i < plain.used; i++) {
        if (plain.buffer[i] == '"' || plain.buffer[i] == '\\')
            out_text(o, "\\");
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

/* shown[i]: function i stands in the picture, being an endpoint of interest or above one. */
static bool *find_shown(const struct rig_topology *t)
{
    int count = rig_topology_count(t);
    bool *shown = calloc((size_t)count + 1, sizeof *shown);
    for (int i = 0; shown && i < count; i++) {
        const struct rig_function *f = rig_topology_function(t, i);
        if (!f->alias && !f->gpu)
            continue;
        for (int k = i, steps = 0; k >= 0 && steps < 512; steps++) {
            shown[k] = true;
            k = rig_topology_function(t, k)->parent;
        }
    }
    return shown;
}

static void size_text(struct out *o, const char *what, struct rig_fact bytes)
{
    char text[RIG_SIZE_MAX] = "?";
    if (rig_fact_has(bytes))
        rig_size_format(bytes.value, text);
    out_format(o, "%s %s", what, text);
}

/* The line of a port about ACS, and whether it redirects. */
static bool port_acs(struct out *o, const struct rig_function *f)
{
    if (f->acs_control.know == RIG_FACT_UNKNOWN)
        out_text(o, "\\nACS ?");
    if (!rig_fact_has(f->acs_control))
        return false;
    bool redirects = (f->acs_control.value & RIG_ACS_REDIRECTS) != 0;
    out_format(o, "\\nACS 0x%04x%s", (unsigned)f->acs_control.value, redirects ? " redirects" : "");
    return redirects;
}

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

static void port_node(struct out *o, const struct rig_topology *t, int i)
{
    const struct rig_function *f = rig_topology_function(t, i);
    char text[RIG_BDF_MAX];
    out_text(o, "    ");
    graph_node(o, t, i);
    out_format(o, " [label=\"%s\\n%s", rig_bdf_format(f->bdf, text), port_word(f));
    bool redirects = port_acs(o, f);
    out_format(o, "\", shape=box, fontsize=9, fillcolor=\"%s\"%s]\n",
               redirects ? "#fde0dc" : "#eceff1",
               redirects ? ", color=\"#c62828\", penwidth=2" : ", color=\"#607d8b\"");
}

static void endpoint_node(struct out *o, const struct rig_topology *t, int i,
                          const struct graph_marks *marks)
{
    const struct rig_function *f = rig_topology_function(t, i);
    char text[RIG_BDF_MAX];
    const char *fill = marks ? marks->fill(marks->context, i) : NULL;
    out_text(o, "    ");
    graph_node(o, t, i);
    out_text(o, " [label=\"");
    graph_text(o, f->alias ? f->alias : "GPU");
    out_format(o, "\\n%s", rig_bdf_format(f->bdf, text));
    if (f->gpu) {
        out_text(o, "\\n");
        size_text(o, "memory", f->gpu_memory);
        struct rig_fact none = {.know = RIG_FACT_UNKNOWN};
        out_text(o, "\\n");
        size_text(o, "BAR", f->memory_bar >= 0 ? f->bar[f->memory_bar].size : none);
    }
    bool nvme = f->alias && strncmp(f->alias, "nvme", 4) == 0;
    out_format(o, "\", shape=%s, fillcolor=\"%s\", color=\"#37474f\"%s]\n",
               f->gpu ? "box"
               : nvme ? "cylinder"
                      : "hexagon",
               fill     ? fill
               : f->gpu ? "#c8e6c9"
               : nvme   ? "#fff9c4"
                        : "#bbdefb",
               f->gpu ? ", penwidth=1.5" : "");
}

static void link_edge(struct out *o, const struct rig_topology *t, int i)
{
    const struct rig_function *f = rig_topology_function(t, i);
    out_text(o, "    ");
    graph_node(o, t, f->parent);
    out_text(o, " -> ");
    graph_node(o, t, i);
    bool port_below_switch =
        rig_fact_has(f->pcie_type) && f->pcie_type.value == RIG_PCIE_DOWNSTREAM_PORT;
    if (!port_below_switch && rig_fact_has(f->link_speed) && rig_fact_has(f->link_width)) {
        bool slow =
            rig_fact_has(f->max_speed) && rig_fact_has(f->max_width) &&
            f->link_speed.value * f->link_width.value < f->max_speed.value * f->max_width.value;
        out_format(o, " [label=\" %g GT/s x%u%s\", penwidth=%g]", (double)f->link_speed.value / 10,
                   (unsigned)f->link_width.value, slow ? " (could be more)" : "",
                   f->link_width.value >= 16  ? 3.0
                   : f->link_width.value >= 8 ? 2.0
                                              : 1.0);
    }
    out_text(o, "\n");
}

/* ---- host bridges */

static const char *listed_text(const struct rig_bridge_answer *b)
{
    switch (b->listed) {
    case RIG_LISTED_ANY:
        return "on Linux's list";
    case RIG_LISTED_SAME:
        return "on Linux's list, under one host bridge";
    case RIG_LISTED_NO:
        return "not on Linux's list";
    case RIG_LISTED_NONE:
        return "no representative";
    case RIG_LISTED_UNKNOWN:
        break;
    }
    return "listed ?";
}

static enum rig_status host_node(struct out *o, const struct rig_topology *t,
                                 const struct rig_rules *rules, int b, int below,
                                 struct rig_error *err)
{
    const struct rig_host_bridge *bridge = rig_topology_host_bridge(t, b);
    struct rig_p2pdma decision;
    enum rig_status status = rig_p2pdma_decide(t, rules, below, below, &decision, err);
    if (status != RIG_OK)
        return status;
    const struct rig_bridge_answer *answer = &decision.bridge[0];
    out_format(o,
               "    \"host%d\" [shape=house, fillcolor=\"#ede7f6\", label=\"host bridge %04x:%02x",
               b, (unsigned)bridge->domain, bridge->bus);
    if (rig_fact_has(answer->vendor) && rig_fact_has(answer->device))
        out_format(o, "\\n%04x:%04x", (unsigned)answer->vendor.value,
                   (unsigned)answer->device.value);
    out_format(o, "\\n%s", listed_text(answer));
    if (rig_fact_has(bridge->numa_node))
        out_format(o, "\\nNUMA %u", (unsigned)bridge->numa_node.value);
    out_text(o, "\"]\n");
    rig_p2pdma_free(&decision);
    return RIG_OK;
}

/* Draws what hangs under host bridge b (-1: what has none) and returns how many functions. */
static int draw_below(struct out *o, const struct rig_topology *t, int b, const bool *shown,
                      const struct graph_marks *marks)
{
    int drawn = 0;
    for (int i = 0; i < rig_topology_count(t); i++) {
        const struct rig_function *f = rig_topology_function(t, i);
        if (!shown[i] || f->host_bridge != b)
            continue;
        drawn++;
        if (f->alias || f->gpu)
            endpoint_node(o, t, i, marks);
        else
            port_node(o, t, i);
        if (f->parent >= 0)
            link_edge(o, t, i);
        else if (b >= 0) {
            out_format(o, "    \"host%d\" -> ", b);
            graph_node(o, t, i);
            out_text(o, "\n");
        }
    }
    return drawn;
}

static int first_shown(const struct rig_topology *t, int b, const bool *shown)
{
    for (int i = 0; i < rig_topology_count(t); i++)
        if (shown[i] && rig_topology_function(t, i)->host_bridge == b)
            return i;
    return -1;
}

enum rig_status graph_tree(struct out *o, const struct rig_topology *t,
                           const struct rig_rules *rules, const struct graph_marks *marks,
                           struct rig_error *err)
{
    bool *shown = find_shown(t);
    if (!shown) {
        *err = (struct rig_error){.status = RIG_FAILED, .why = "out of memory"};
        return RIG_FAILED;
    }
    enum rig_status status = RIG_OK;
    for (int b = 0; status == RIG_OK && b < rig_topology_host_bridges(t); b++) {
        int first = first_shown(t, b, shown);
        if (first < 0)
            continue;
        out_format(o, "  subgraph cluster%d {\n    color=\"#b0bec5\"\n", b);
        status = host_node(o, t, rules, b, first, err);
        draw_below(o, t, b, shown, marks);
        out_text(o, "  }\n");
    }
    if (status == RIG_OK)
        draw_below(o, t, -1, shown, marks);
    free(shown);
    return status;
}
