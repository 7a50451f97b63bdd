/* The legend of a picture: only what stands in it. */
#include "graph.h"
#include "reach.h"

static void row(struct out *o, const char *sign, const char *meaning)
{
    out_format(o, "    <tr><td>%s</td><td align=\"left\" balign=\"left\">%s</td></tr>\n", sign,
               meaning);
}

static void rows_of_ports(struct out *o, const struct graph_seen *seen)
{
    if (seen->redirects)
        row(o, "<font color=\"" GRAPH_RED "\"><b>redirects</b></font>",
            "by ACS it sends peer requests up to the root complex,<br/>which carries them only "
            "where the CPU or Linux's list says so");
    if (seen->unread)
        row(o, "ACS ?", "not in the source: it may redirect");
    if (seen->stops)
        row(o, "<font color=\"" GRAPH_RED "\"><b>&#x2716; stops</b></font>",
            "the first thing in the way of so many pairs is here;<br/>a pair counts at each port "
            "or host bridge at fault");
}

static void rows_of_pairs(struct out *o, const struct graph_seen *seen)
{
    if (seen->arrows >> RIG_ANSWER_YES & 1u)
        row(o, "<font color=\"" GRAPH_GREEN "\"><b>&#x2192;</b></font>",
            "reaches the GPU's memory");
    if (seen->arrows >> RIG_ANSWER_NO & 1u)
        row(o, "<font color=\"" GRAPH_RED "\"><b>&#x21e2;</b></font>",
            "does not reach it; the table says why (rigmem help reasons)");
    if (seen->arrows >> RIG_ANSWER_UNKNOWN & 1u)
        row(o, "<font color=\"" GRAPH_ORANGE "\"><b>&#x21e2;</b></font>",
            "open: the source lacks what decides");
    if (seen->route)
        row(o, "coloured links", "the way of the requests");
    if (seen->groups)
        row(o, "one colour", "GPUs that reach each other and that answer all others alike");
}

static void rows_of_paths(struct out *o, const struct graph_seen *seen)
{
    for (enum rig_path p = RIG_PATH_PIX; p <= RIG_PATH_SYS; p++)
        if (seen->paths >> p & 1u)
            row(o, rig_path_name(p), path_meaning(p));
}

void graph_legend(struct out *o, const struct graph_seen *seen)
{
    out_text(o, "  legend [shape=plain, fillcolor=white, fontsize=10, label=<<table border=\"0\" "
                "cellborder=\"0\" cellspacing=\"0\" cellpadding=\"3\">\n"
                "    <tr><td colspan=\"2\" align=\"left\"><b>what it shows</b></td></tr>\n");
    row(o, "host bridge",
        "the ids of the function that stands for it, and whether Linux trusts it<br/>to pass peer "
        "requests on: by the CPU, or by its list of host bridges");
    rows_of_ports(o, seen);
    rows_of_pairs(o, seen);
    rows_of_paths(o, seen);
    if (seen->links)
        row(o, "8 GT/s x16",
            seen->slow ? "a link now, and what both ends could do; thick: x16 and more"
                       : "a link; thick: x16 and more");
    out_text(o, "  </table>>]\n");
}
