/* Linux's decision for one pair, walked as the kernel walks it (drivers/pci/p2pdma.c,
   calc_map_type_and_dist), with facts that may be unknown. */
#include "topology/p2pdma.h"

#include <stdlib.h>

static const struct rig_function *at(const struct rig_topology *t, int i)
{
    return &t->node[i].f;
}

int chain_length(const struct rig_topology *t, int i)
{
    int n = 0;
    for (; i >= 0; i = at(t, i)->parent)
        n++;
    return n;
}

int chain_top(const struct rig_topology *t, int i)
{
    while (at(t, i)->parent >= 0)
        i = at(t, i)->parent;
    return i;
}

bool chain_is_whole(const struct rig_topology *t, int i)
{
    return at(t, chain_top(t, i))->parent_known.know != RIG_FACT_UNKNOWN;
}

static int common_of(const struct rig_topology *t, int a, int b)
{
    int above_a = chain_length(t, a), above_b = chain_length(t, b);
    while (a != b) {
        bool deeper = above_a >= above_b, as_deep = above_a == above_b;
        if (deeper) {
            a = at(t, a)->parent;
            above_a--;
        }
        if (!deeper || as_deep) {
            b = at(t, b)->parent;
            above_b--;
        }
    }
    return a;
}

/* False iff `bridge` is known not to have the function at `below`, of its domain, under it. */
static bool may_lead_to(const struct rig_function *bridge, struct rig_bdf below)
{
    if (bridge->header_type.know != RIG_FACT_UNKNOWN && !is_bridge(bridge))
        return false;
    if (!rig_fact_has(bridge->secondary) || !rig_fact_has(bridge->subordinate))
        return true;
    return bridge->secondary.value <= below.bus && below.bus <= bridge->subordinate.value;
}

enum rig_answer trees_may_join(const struct rig_topology *t, int top_a, int top_b)
{
    const struct rig_function *a = at(t, top_a), *b = at(t, top_b);
    bool whole_a = a->parent_known.know != RIG_FACT_UNKNOWN;
    bool whole_b = b->parent_known.know != RIG_FACT_UNKNOWN;
    if (a->bdf.domain != b->bdf.domain || (whole_a && whole_b))
        return RIG_ANSWER_NO;
    if (whole_a && !may_lead_to(a, b->bdf))
        return RIG_ANSWER_NO;
    if (whole_b && !may_lead_to(b, a->bdf))
        return RIG_ANSWER_NO;
    return RIG_ANSWER_UNKNOWN;
}

/* Collects, into lists with room for `room` numbers each, the functions from `i` up to `end` (-1:
 * to the top) that redirect or may. */
static void note_path(const struct rig_topology *t, int i, int end, bool with_end,
                      struct rig_p2pdma *d)
{
    for (; i >= 0; i = at(t, i)->parent) {
        if (i == end && !with_end)
            break;
        enum rig_answer redirects = function_redirects(at(t, i));
        if (redirects == RIG_ANSWER_YES)
            d->redirecting[d->redirecting_count++] = i;
        else if (redirects == RIG_ANSWER_UNKNOWN)
            d->unread[d->unread_count++] = i;
        if (i == end)
            break;
    }
}

/* With a bridge above both, what is on the path is known. Where the source does not show what is
   above, the path holds at least the whole of a chain that is cut, and the function itself of one
   that is whole. */
static void note_paths(const struct rig_topology *t, int provider, int client, struct rig_p2pdma *d)
{
    if (d->has_common == RIG_ANSWER_YES) {
        note_path(t, provider, d->common, true, d);
        note_path(t, client, d->common, false, d);
        return;
    }
    note_path(t, provider, chain_is_whole(t, provider) ? provider : -1, true, d);
    note_path(t, client, chain_is_whole(t, client) ? client : -1, true, d);
}

static enum rig_answer redirects_of(const struct rig_p2pdma *d)
{
    if (d->redirecting_count)
        return RIG_ANSWER_YES;
    if (d->unread_count || d->has_common == RIG_ANSWER_UNKNOWN)
        return RIG_ANSWER_UNKNOWN;
    return RIG_ANSWER_NO;
}

enum rig_status rig_p2pdma_decide(const struct rig_topology *t, const struct rig_rules *rules,
                                  int provider, int client, struct rig_p2pdma *out_decision,
                                  struct rig_error *err)
{
    if (provider < 0 || provider >= t->count || client < 0 || client >= t->count)
        return rig_fail(err, RIG_INVALID, NULL, "no such function number");
    struct rig_p2pdma d = {.distance = -1};
    int length_p = chain_length(t, provider), length_c = chain_length(t, client);
    size_t room = (size_t)length_p + (size_t)length_c;
    d.redirecting = calloc(room, sizeof *d.redirecting);
    d.unread = calloc(room, sizeof *d.unread);
    if (!d.redirecting || !d.unread) {
        rig_p2pdma_free(&d);
        return rig_fail_memory(err);
    }
    d.common = common_of(t, provider, client);
    d.has_common = d.common >= 0 ? RIG_ANSWER_YES
                                 : trees_may_join(t, chain_top(t, provider), chain_top(t, client));
    if (d.has_common != RIG_ANSWER_NO) {
        note_paths(t, provider, client, &d);
        d.redirects = redirects_of(&d);
    }
    if (d.common >= 0)
        d.distance = length_p + length_c - 2 * chain_length(t, d.common);
    else if (d.has_common == RIG_ANSWER_NO && chain_is_whole(t, provider) &&
             chain_is_whole(t, client))
        d.distance = length_p + length_c;
    d.cpu_zen = cpu_is_zen(t);
    ask_bridge(t, rules, at(t, provider)->host_bridge, &d.bridge[0]);
    ask_bridge(t, rules, at(t, client)->host_bridge, &d.bridge[1]);
    d.host_carries = host_carries(d.cpu_zen, &d.bridge[0], &d.bridge[1]);
    d.possible = verdicts(d.has_common, d.redirects, d.host_carries);
    *out_decision = d;
    return RIG_OK;
}

void rig_p2pdma_free(struct rig_p2pdma *decision)
{
    free(decision->redirecting);
    free(decision->unread);
    decision->redirecting = decision->unread = NULL;
}

int rig_p2pdma_distance(const struct rig_topology *t, const struct rig_rules *rules, int provider,
                        const int *clients, int count, bool *out_unknown)
{
    int sum = 0;
    bool unknown = false, refused = count == 0;
    for (int k = 0; k < count; k++) {
        struct rig_p2pdma d;
        if (rig_p2pdma_decide(t, rules, provider, clients[k], &d, NULL) != RIG_OK) {
            unknown = true;
            continue;
        }
        refused |= d.possible == RIG_NOT_SUPPORTED;
        unknown |=
            d.possible != RIG_NOT_SUPPORTED && ((d.possible & RIG_NOT_SUPPORTED) || d.distance < 0);
        sum += d.distance;
        rig_p2pdma_free(&d);
    }
    if (out_unknown)
        *out_unknown = unknown && !refused;
    return refused || unknown ? -1 : sum;
}

const char *rig_path_name(enum rig_path path)
{
    static const char *const names[] = {
        [RIG_PATH_UNKNOWN] = "?", [RIG_PATH_SELF] = "X",  [RIG_PATH_PIX] = "PIX",
        [RIG_PATH_PXB] = "PXB",   [RIG_PATH_PHB] = "PHB", [RIG_PATH_NODE] = "NODE",
        [RIG_PATH_SYS] = "SYS",
    };
    return (unsigned)path < RIG_ARRAY_LENGTH(names) ? names[path] : "?";
}

bool is_switch(const struct rig_function *f, int length)
{
    if (!is_bridge(f))
        return false;
    if (rig_fact_has(f->pcie_type))
        return f->pcie_type.value == RIG_PCIE_UPSTREAM_PORT ||
               f->pcie_type.value == RIG_PCIE_TO_PCI_BRIDGE ||
               f->pcie_type.value == RIG_PCI_TO_PCIE_BRIDGE;
    return f->pcie_type.know == RIG_FACT_ABSENT || length % 2 == 0;
}

/* How many switches there are from i, itself included, up to but without `end`, which is above it
 * or is it. */
static int switches_to(const struct rig_topology *t, int i, int end)
{
    int length = chain_length(t, i), n = 0;
    for (; i != end; i = at(t, i)->parent)
        n += is_switch(at(t, i), length--);
    return n;
}

enum rig_path path_by_bridges(const struct rig_topology *t, int a, int b)
{
    if (a < 0 || b < 0)
        return RIG_PATH_UNKNOWN;
    if (a == b)
        return RIG_PATH_PHB;
    struct rig_fact node_a = t->host_bridge[a].numa_node, node_b = t->host_bridge[b].numa_node;
    if (node_a.know == RIG_FACT_UNKNOWN || node_b.know == RIG_FACT_UNKNOWN)
        return RIG_PATH_UNKNOWN;
    if (node_a.know == RIG_FACT_ABSENT || node_b.know == RIG_FACT_ABSENT)
        return node_a.know == node_b.know ? RIG_PATH_NODE : RIG_PATH_UNKNOWN;
    return node_a.value == node_b.value ? RIG_PATH_NODE : RIG_PATH_SYS;
}

enum rig_path path_of(const struct rig_topology *t, const struct rig_p2pdma *d, int a, int b)
{
    if (a == b)
        return RIG_PATH_SELF;
    if (d->has_common == RIG_ANSWER_UNKNOWN)
        return RIG_PATH_UNKNOWN;
    if (d->has_common == RIG_ANSWER_NO)
        return path_by_bridges(t, at(t, a)->host_bridge, at(t, b)->host_bridge);
    int switches = switches_to(t, a, d->common) + switches_to(t, b, d->common) +
                   is_switch(at(t, d->common), chain_length(t, d->common));
    return switches <= 1 ? RIG_PATH_PIX : RIG_PATH_PXB;
}
