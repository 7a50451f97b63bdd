/* The whole answer for one pair: every gate apart, what was assumed, what is missing. */
#include "topology/reach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *rig_gate_name(enum rig_gate_token gate)
{
    static const char *const names[RIG_GATE_COUNT] = {
        [RIG_GATE_SELF] = "self",
        [RIG_GATE_OTHER_MACHINE] = "other-machine",
        [RIG_GATE_REMOTE_MACHINE] = "remote-machine",
        [RIG_GATE_OTHER_SPACE] = "other-space",
        [RIG_GATE_LINK] = "link",
        [RIG_GATE_IOMMU_TRANSLATES] = "iommu-translates",
        [RIG_GATE_BAR_UNASSIGNED] = "bar-unassigned",
        [RIG_GATE_BAR_SMALL] = "bar-small",
        [RIG_GATE_BAR_ABOVE_MASK] = "bar-above-mask",
        [RIG_GATE_SAME_BRIDGE] = "same-bridge",
        [RIG_GATE_ACS_REDIRECT] = "acs-redirect",
        [RIG_GATE_ACS_UNREADABLE] = "acs-unreadable",
        [RIG_GATE_CPU_AMD_ZEN] = "cpu-amd-zen",
        [RIG_GATE_BRIDGE_LISTED] = "bridge-listed",
        [RIG_GATE_BRIDGE_UNLISTED] = "bridge-unlisted",
        [RIG_GATE_BRIDGE_SAME_ONLY] = "bridge-same-only",
        [RIG_GATE_NO_REPRESENTATIVE] = "no-representative",
        [RIG_GATE_P2PDMA_OFF] = "p2pdma-off",
    };
    return (unsigned)gate < RIG_GATE_COUNT ? names[gate] : "?";
}

/* Linux's word alone: yes, no, or left open. */
static enum rig_answer carried(unsigned possible)
{
    return answer_of(GATES_OPEN, possible);
}

static bool goes_up(const struct rig_reach *r)
{
    return r->p2pdma.common < 0 || !(r->p2pdma.possible & RIG_BUS_ADDR);
}

/* The slowest link among those that the functions from i up to `end` (not included; -1: all) have
   above them. Ports that look down share their link with what is below, so only those that look up
   count. */
static void weigh_links(const struct rig_topology *t, int i, int end, struct rig_reach *r,
                        bool *unknown)
{
    for (; i >= 0 && i != end; i = t->node[i].f.parent) {
        const struct rig_function *f = &t->node[i].f;
        bool looks_up = fact_is(f->pcie_type, RIG_PCIE_ENDPOINT) ||
                        fact_is(f->pcie_type, RIG_PCIE_LEGACY_ENDPOINT) ||
                        fact_is(f->pcie_type, RIG_PCIE_UPSTREAM_PORT) ||
                        fact_is(f->pcie_type, RIG_PCIE_TO_PCI_BRIDGE);
        *unknown |= f->pcie_type.know == RIG_FACT_UNKNOWN ||
                    (looks_up && !(rig_fact_has(f->link_speed) && rig_fact_has(f->link_width)));
        if (!looks_up || !rig_fact_has(f->link_speed) || !rig_fact_has(f->link_width))
            continue;
        uint64_t rate = f->link_speed.value * f->link_width.value;
        if (r->slowest >= 0 && rate >= r->slowest_speed.value * r->slowest_width.value)
            continue;
        r->slowest = i;
        r->slowest_speed = f->link_speed;
        r->slowest_width = f->link_width;
    }
}

static void find_slowest(const struct rig_topology *t, struct rig_reach *r)
{
    bool unknown = r->p2pdma.has_common == RIG_ANSWER_UNKNOWN;
    int end = goes_up(r) ? -1 : r->p2pdma.common;
    r->slowest = -1;
    r->slowest_speed = r->slowest_width = fact_absent();
    if (r->from == r->to)
        return;
    weigh_links(t, r->from, end, r, &unknown);
    weigh_links(t, r->to, end, r, &unknown);
    if (!unknown)
        return;
    r->slowest = -1;
    r->slowest_speed = r->slowest_width =
        fact_unknown("the source does not show every link of the path");
}

static void find_first_gate(struct rig_reach *r)
{
    r->gate = -1;
    if (r->answer == RIG_ANSWER_YES)
        return;
    enum rig_answer wanted = r->answer == RIG_ANSWER_NO ? RIG_ANSWER_NO : RIG_ANSWER_UNKNOWN;
    for (int i = 0; i < r->gate_count; i++) {
        if (r->gates[i].decides && r->gates[i].open == wanted) {
            r->gate = (int)r->gates[i].gate;
            return;
        }
    }
}

enum rig_status rig_reach_pair(const struct rig_topology *t, const struct rig_rules *rules,
                               int from, int to, struct rig_reach *out_reach, struct rig_error *err)
{
    struct rig_p2pdma decision;
    enum rig_status status = rig_p2pdma_decide(t, rules, to, from, &decision, err);
    if (status != RIG_OK)
        return status;
    struct rig_reach *r = out_reach;
    memset(r, 0, sizeof *r);
    r->from = from;
    r->to = to;
    r->p2pdma = decision;
    struct side side_from = side_of(t, from), side_to = side_of(t, to);
    enum gates gates = from == to ? gates_self(&side_to) : gates_static(&side_from, &side_to);
    r->answer = answer_of(gates, r->p2pdma.possible);
    r->kernel = fact_is(t->machine.p2pdma, 0) ? RIG_ANSWER_NO : carried(r->p2pdma.possible);
    r->path = path_of(t, &r->p2pdma, from, to);
    find_slowest(t, r);
    describe_gates(t, rules, &side_from, &side_to, r);
    find_first_gate(r);
    describe_facts(t, r);
    return RIG_OK;
}

void rig_reach_free(struct rig_reach *reach)
{
    rig_p2pdma_free(&reach->p2pdma);
}
