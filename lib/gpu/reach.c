/* Whose GPU memory a GPU reaches. */
#include "gpu/memories.h"

struct rig_reach_facts rig_memory_reach(const struct rig_memory *m)
{
    return (struct rig_reach_facts){
        .machine = (uint64_t)(uintptr_t)m->gpus->machine,
        .function = m->function,
        .remote = m->gpus->machine->remote,
        .addressing = m->addressing,
        .space = space_base(m->space),
        .linked = m->linked,
        .link = m->link,
        .memory_bytes = m->bytes,
        .bar_bytes = m->bar_bytes,
        .bar_assigned = m->bar_assigned,
    };
}

bool rig_reach_facts_equal(const struct rig_reach_facts *a, const struct rig_reach_facts *b)
{
    return a->machine == b->machine && a->function == b->function && a->remote == b->remote &&
           a->addressing == b->addressing && a->space == b->space && a->linked == b->linked &&
           a->link.fabric == b->link.fabric && a->link.place == b->link.place &&
           a->memory_bytes == b->memory_bytes && a->bar_bytes == b->bar_bytes &&
           a->bar_assigned == b->bar_assigned;
}

static bool are_linked(const struct rig_reach_facts *a, const struct rig_reach_facts *b)
{
    return a->linked && b->linked && a->link.fabric == b->link.fabric;
}

/* RIG_FAILED: memory ran out; it is not known. */
static enum rig_status bus_carries(const struct rig_topology *t, int client, int provider,
                                   bool *out_carries)
{
    struct rig_p2pdma d;
    *out_carries = false;
    enum rig_status status =
        rig_p2pdma_decide(t, rig_rules_default(t, NULL), provider, client, &d, NULL);
    if (status != RIG_OK)
        return status == RIG_FAILED ? RIG_FAILED : RIG_OK;
    *out_carries = (d.possible & RIG_NOT_SUPPORTED) == 0;
    rig_p2pdma_free(&d);
    return RIG_OK;
}

/* The first condition that is not met, as a gate; -1: all are. *out_status is RIG_FAILED where
   memory ran out over the last one. */
static int closed_gate(const struct rig_topology *t, const struct rig_reach_facts *by,
                       const struct rig_reach_facts *to, enum rig_status *out_status)
{
    *out_status = RIG_OK;
    if (by->machine != to->machine)
        return RIG_GATE_OTHER_MACHINE;
    if (by->function == to->function)
        return RIG_GATE_SELF;
    if (by->space != to->space)
        return RIG_GATE_OTHER_SPACE;
    if (are_linked(by, to))
        return -1;
    if (by->remote)
        return RIG_GATE_REMOTE_MACHINE;
    if (by->addressing == RIG_IOMMU || to->addressing == RIG_IOMMU)
        return RIG_GATE_IOMMU_TRANSLATES;
    if (!to->bar_assigned)
        return RIG_GATE_BAR_UNASSIGNED;
    if (to->bar_bytes < to->memory_bytes)
        return RIG_GATE_BAR_SMALL;
    /* Which function on the path refuses is told by rig_reach_pair. */
    bool carries;
    *out_status = bus_carries(t, by->function, to->function, &carries);
    return carries ? -1 : RIG_GATE_BRIDGE_UNLISTED;
}

bool rig_reaches(const struct rig_topology *t, const struct rig_reach_facts *by,
                 const struct rig_reach_facts *to)
{
    enum rig_status status;
    return closed_gate(t, by, to, &status) < 0;
}

/* ---- refusals */

static bool is_path_gate(int gate)
{
    return gate >= RIG_GATE_SAME_BRIDGE && gate <= RIG_GATE_NO_REPRESENTATIVE;
}

/* Says which function or rule keeps requests of `client` from m's GPU memory. */
static enum rig_status refuse_path(struct rig_machine *machine, int client,
                                   const struct rig_memory *m, struct rig_error *err)
{
    const struct rig_topology *t = machine->topology;
    char name[RIG_BDF_MAX], target[RIG_BDF_MAX];
    rig_bdf_format(rig_topology_function(t, client)->bdf, name);
    gpu_memory_name(m, target);
    struct rig_reach reach;
    const char *why = "the facts of the path are not known";
    if (rig_reach_pair(t, rig_rules_default(t, NULL), client, m->function, &reach, NULL) != RIG_OK)
        return rig_fail_memory(err);
    for (int i = 0; i < reach.gate_count; i++) {
        const struct rig_gate *gate = &reach.gates[i];
        if (gate->decides && gate->open != RIG_ANSWER_YES && is_path_gate((int)gate->gate)) {
            why = gate->why;
            break;
        }
    }
    rig_fail(err, RIG_REFUSED, name, "the bus does not carry its requests to %s: %s", target, why);
    rig_hint(err, "rigmem reach %s %s --why shows what is on the path, and what helps", name,
             target);
    rig_reach_free(&reach);
    return RIG_REFUSED;
}

static enum rig_status refuse_bar(const struct rig_memory *m, struct rig_error *err)
{
    char name[RIG_BDF_MAX], shown[RIG_SIZE_MAX], all[RIG_SIZE_MAX];
    gpu_memory_name(m, name);
    if (!m->bar_assigned) {
        rig_fail(err, RIG_REFUSED, name, "its memory BAR has no address");
        rig_hint(err, "the firmware or the kernel left no room for it");
        return RIG_REFUSED;
    }
    rig_fail(err, RIG_REFUSED, name, "its memory BAR shows %s of %s of memory",
             rig_size_format(m->bar_bytes, shown), rig_size_format(m->bytes, all));
    rig_hint(err, "make the BAR larger (Resizable BAR)");
    return RIG_REFUSED;
}

static enum rig_status refuse_iommu(const struct rig_memory *m, struct rig_error *err)
{
    char name[RIG_BDF_MAX];
    rig_fail(err, RIG_REFUSED, gpu_memory_name(m, name),
             "it is behind an IOMMU that translates its requests, and no link joins the two GPUs");
    rig_hint(err, "boot with iommu=pt, or with the IOMMU off");
    return RIG_REFUSED;
}

enum rig_status reach_refuse(struct rig_memory *by, struct rig_memory *to, struct rig_error *err)
{
    const struct rig_topology *t = by->gpus->machine->topology;
    struct rig_reach_facts a = rig_memory_reach(by), b = rig_memory_reach(to);
    char name[RIG_BDF_MAX], other[RIG_BDF_MAX];
    enum rig_status status;
    int gate = closed_gate(t, &a, &b, &status);
    if (status != RIG_OK)
        return rig_fail_memory(err);
    switch (gate) {
    case -1:
        return RIG_OK;
    case RIG_GATE_SELF:
        return rig_fail(err, RIG_REFUSED, gpu_memory_name(by, name),
                        "it is the GPU whose memory it is, taken again since");
    case RIG_GATE_REMOTE_MACHINE:
        return rig_fail(err, RIG_REFUSED, gpu_memory_name(by, name),
                        "its machine is reached through a transport, which carries no requests to "
                        "the memory of %s",
                        gpu_memory_name(to, other));
    case RIG_GATE_IOMMU_TRANSLATES:
        return refuse_iommu(by->addressing == RIG_IOMMU ? by : to, err);
    case RIG_GATE_BAR_UNASSIGNED:
    case RIG_GATE_BAR_SMALL:
        return refuse_bar(to, err);
    default:
        return refuse_path(by->gpus->machine, by->function, to, err);
    }
}

enum rig_status bus_refuse(struct rig_machine *machine, int client, struct rig_memory *m,
                           struct rig_error *err)
{
    char name[RIG_BDF_MAX];
    if (client == m->function)
        return rig_fail(err, RIG_REFUSED, gpu_memory_name(m, name),
                        "it is the GPU whose memory it is, which no bus carries to itself");
    if (!m->bar_assigned || m->bar_bytes < m->bytes)
        return refuse_bar(m, err);
    bool carries;
    if (bus_carries(machine->topology, client, m->function, &carries) != RIG_OK)
        return rig_fail_memory(err);
    return carries ? RIG_OK : refuse_path(machine, client, m, err);
}
