/* Remedies. Each is tried on a copy of the topology; what leaves the answer at no is not advised.
 */
#include "topology/reach.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A remedy in the making: the copy with all steps so far applied. */
struct attempt {
    struct rig_topology *t;
    const struct rig_rules *rules;
    int from, to;
    struct rig_reach reach; /* of the copy as it is now */
    bool decided;
    struct rig_remedy *steps;
    int count;
};

static enum rig_status decide(struct attempt *a, struct rig_error *err)
{
    if (a->decided)
        rig_reach_free(&a->reach);
    a->decided = false;
    enum rig_status status = rig_reach_pair(a->t, a->rules, a->from, a->to, &a->reach, err);
    a->decided = status == RIG_OK;
    return status;
}

static void drop(struct attempt *a)
{
    if (a->decided)
        rig_reach_free(&a->reach);
    rig_topology_free(a->t);
    *a = (struct attempt){.t = NULL};
}

static struct rig_remedy *add_step(struct attempt *a, enum rig_remedy_kind kind)
{
    struct rig_remedy *s = &a->steps[a->count++];
    *s = (struct rig_remedy){.kind = kind};
    return s;
}

static enum rig_status end_step(struct attempt *a, struct rig_error *err)
{
    enum rig_status status = decide(a, err);
    if (status != RIG_OK)
        return status;
    a->steps[a->count - 1].answer = a->reach.answer;
    a->steps[a->count - 1].possible = a->reach.p2pdma.possible;
    return RIG_OK;
}

static const struct rig_function *function(const struct attempt *a, int i)
{
    return &a->t->node[i].f;
}

static void add_line(char *text, size_t bytes, const char *separator, const char *line)
{
    size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s%s", used ? separator : "", line);
}

static bool closed(const struct rig_reach *r, enum rig_gate_token token)
{
    bool is = false;
    for (int i = 0; i < r->gate_count; i++)
        is |= r->gates[i].gate == token && r->gates[i].decides && r->gates[i].open == RIG_ANSWER_NO;
    return is;
}

/* ---- steps */

static enum rig_status pass_iommu(struct attempt *a, struct rig_error *err)
{
    if (!closed(&a->reach, RIG_GATE_IOMMU_TRANSLATES))
        return RIG_OK;
    const int ends[] = {a->from, a->to};
    for (size_t k = 0; k < RIG_ARRAY_LENGTH(ends); k++) {
        struct node *n = &a->t->node[ends[k]];
        if (fact_is(n->f.iommu, RIG_IOMMU_TRANSLATE)) {
            n->f.iommu = fact_known(RIG_IOMMU_IDENTITY);
            n->iommu_derived = false;
        }
    }
    struct rig_remedy *s = add_step(a, RIG_REMEDY_IOMMU);
    snprintf(s->text, sizeof s->text,
             "boot with the IOMMU passing addresses through, or turn it off in firmware");
    /* iommu=pt is x86's (Linux: Documentation/admin-guide/kernel-parameters.txt) */
    bool other = a->t->machine.cpu_family.know == RIG_FACT_ABSENT;
    snprintf(s->parameter, sizeof s->parameter, other ? "iommu.passthrough=1" : "iommu=pt");
    snprintf(s->warning, sizeof s->warning,
             "devices can then write all of memory; ACS redirects stay as they are");
    return end_step(a, err);
}

/* The least size of the BAR, of those it can take, that reaches all of the GPU's memory, which is
 * known; 0 for none. */
static uint64_t size_that_covers(const struct rig_function *f)
{
    const struct rig_bar *bar = &f->bar[f->memory_bar];
    if (!rig_fact_has(bar->resizable))
        return 0;
    for (unsigned n = 0; n < 44; n++)
        if ((bar->resizable.value >> n & 1u) && (1ull << (20 + n)) >= f->gpu_memory.value)
            return 1ull << (20 + n);
    return 0;
}

static enum rig_status place_bar(struct attempt *a, struct rig_error *err)
{
    int i = a->to;
    if (!closed(&a->reach, RIG_GATE_BAR_UNASSIGNED) || function(a, i)->memory_bar < 0)
        return RIG_OK;
    struct rig_bar *bar = &a->t->node[i].f.bar[function(a, i)->memory_bar];
    bar->bus = bar->cpu = fact_assumed(1ull << 40, "a remedy");
    char name[48];
    struct rig_remedy *s = add_step(a, RIG_REMEDY_BAR);
    snprintf(s->text, sizeof s->text,
             "have firmware give BAR %d of %s an address (Above 4G Decoding), or boot so that "
             "Linux does",
             function(a, i)->memory_bar, short_name(a->t, i, name));
    snprintf(s->parameter, sizeof s->parameter, "pci=realloc");
    return end_step(a, err);
}

static enum rig_status resize_bar(struct attempt *a, struct rig_error *err)
{
    int i = a->to;
    if (!closed(&a->reach, RIG_GATE_BAR_SMALL))
        return RIG_OK;
    uint64_t size = size_that_covers(function(a, i));
    if (!size)
        return RIG_OK;
    int number = function(a, i)->memory_bar;
    a->t->node[i].f.bar[number].size = fact_assumed(size, "a remedy");
    char name[48], bdf[RIG_BDF_MAX], text[RIG_SIZE_MAX];
    struct rig_remedy *s = add_step(a, RIG_REMEDY_BAR);
    snprintf(s->text, sizeof s->text,
             "resize BAR %d of %s to %s, which it supports: Resizable BAR in firmware, or with its "
             "driver unbound",
             number, short_name(a->t, i, name), rig_size_format(size, text));
    snprintf(s->command, sizeof s->command, "echo %d > /sys/bus/pci/devices/%s/resource%d_resize",
             __builtin_ctzll(size >> 20), rig_bdf_format(function(a, i)->bdf, bdf), number);
    snprintf(s->warning, sizeof s->warning,
             "the bridges above need room for it; the kernel refuses where their windows are too "
             "small");
    return end_step(a, err);
}

static void clear_redirects(struct rig_topology *t, const struct rig_p2pdma *d,
                            struct rig_remedy *s)
{
    char line[80], bdf[RIG_BDF_MAX];
    for (int k = 0; k < d->redirecting_count; k++) {
        struct rig_function *f = &t->node[d->redirecting[k]].f;
        rig_bdf_format(f->bdf, bdf);
        snprintf(line, sizeof line, "setpci -s %s ECAP_ACS+6.w=0:2c", bdf);
        add_line(s->command, sizeof s->command, "\n", line);
        if (k == 0)
            snprintf(s->parameter, sizeof s->parameter, "pci=disable_acs_redir=%s", bdf);
        else
            add_line(s->parameter, sizeof s->parameter, ";", bdf);
        f->acs_control.value &= ~(uint64_t)RIG_ACS_REDIRECTS;
    }
}

static enum rig_status clear_acs(struct attempt *a, struct rig_error *err)
{
    const struct rig_p2pdma *d = &a->reach.p2pdma;
    if (d->has_common != RIG_ANSWER_YES || d->redirecting_count == 0 || d->redirecting_count > 16)
        return RIG_OK;
    int ports = d->redirecting_count;
    struct rig_remedy *s = add_step(a, RIG_REMEDY_ACS);
    clear_redirects(a->t, d, s);
    snprintf(s->text, sizeof s->text,
             "clear the ACS redirects of %d function%s, until the next boot by setpci or at every "
             "boot by one parameter",
             ports, ports == 1 ? "" : "s");
    snprintf(s->warning, sizeof s->warning,
             "isolation between the IOMMU groups below is lost, and the groups do not change until "
             "reboot");
    return end_step(a, err);
}

static enum rig_status newer_kernel(struct attempt *a, struct rig_error *err)
{
    if (a->reach.p2pdma.possible != RIG_NOT_SUPPORTED)
        return RIG_OK;
    bool newer = false;
    for (int i = 0; i < rig_rules_count(); i++) {
        const struct rig_rules *rules = rig_rules_at(i);
        if (newer) {
            struct attempt next = *a;
            next.rules = rules;
            next.decided = false;
            enum rig_status status = decide(&next, err);
            if (status != RIG_OK)
                return status;
            bool carried = !(next.reach.p2pdma.possible & RIG_NOT_SUPPORTED);
            rig_reach_free(&next.reach);
            if (carried) {
                struct rig_remedy *s = add_step(a, RIG_REMEDY_KERNEL);
                snprintf(s->text, sizeof s->text,
                         "run Linux %u.%u or later, whose list holds these host bridges",
                         rules->major, rules->minor);
                a->rules = rules;
                return end_step(a, err);
            }
        }
        newer |= rules == a->rules;
    }
    return RIG_OK;
}

/* ---- moving a card */

static bool is_port(const struct rig_function *f)
{
    return fact_is(f->pcie_type, RIG_PCIE_ROOT_PORT) ||
           fact_is(f->pcie_type, RIG_PCIE_DOWNSTREAM_PORT);
}

/* How many endpoints are below i that are no part of the device `of`, or of a sound or serial
 * function beside it. */
static int strangers_below(const struct rig_topology *t, int i, int of)
{
    int n = 0;
    for (int k = 0; k < t->count; k++) {
        const struct rig_function *f = &t->node[k].f;
        bool below = false;
        for (int up = f->parent; up >= 0 && !below; up = t->node[up].f.parent)
            below = up == i;
        if (below && k != of && !is_bridge(f) && f->alias)
            n++;
    }
    return n;
}

/* The topmost function of the card that function i is on: a switch that leads to it alone is taken
   to be on the card. -1 where it is on no card. */
static int card_of(const struct rig_topology *t, int i)
{
    int at = i;
    for (;;) {
        int port = t->node[at].f.parent;
        if (port < 0 || !is_port(&t->node[port].f))
            return -1;
        int above = t->node[port].f.parent;
        if (above < 0 || !fact_is(t->node[above].f.pcie_type, RIG_PCIE_UPSTREAM_PORT) ||
            strangers_below(t, above, i) > 0)
            return at;
        at = above;
    }
}

static bool has_below(const struct rig_topology *t, int port)
{
    for (int k = 0; k < t->count; k++)
        if (t->node[k].f.parent == port)
            return true;
    return false;
}

/* A move is one step, or two with the setting that it needs at its place. */
#define MOVING 2

/* Tries `card` under `port`. *out_count is how many steps help: the move, or the move and what can
   be set there; 0: neither does. */
static enum rig_status try_move(const struct attempt *a, const struct rig_topology *t, int card,
                                int port, struct rig_remedy steps[MOVING], int *out_count,
                                struct rig_error *err)
{
    struct attempt m = {.rules = a->rules, .from = a->from, .to = a->to, .steps = steps};
    char what[48], where[48], bdf[RIG_BDF_MAX], under[RIG_BDF_MAX];
    *out_count = 0;
    enum rig_status status = rig_topology_copy(a->t, &m.t, err);
    if (status != RIG_OK)
        return status;
    struct rig_error refused = {.status = RIG_OK};
    if (rig_topology_set_parent(m.t, rig_bdf_format(t->node[card].f.bdf, bdf),
                                rig_bdf_format(t->node[port].f.bdf, under), "a remedy",
                                &refused) != RIG_OK) {
        drop(&m);
        return refused.status == RIG_FAILED ? rig_fail_memory(err) : RIG_OK;
    }
    struct rig_remedy *s = add_step(&m, RIG_REMEDY_MOVE);
    snprintf(s->text, sizeof s->text, "move the card of %s to the slot under port %s%s",
             short_name(t, a->from == card || card_of(t, a->from) == card ? a->from : a->to, what),
             short_name(t, port, where),
             has_below(t, port) ? ", in exchange for what is there" : "");
    status = end_step(&m, err);
    if (status == RIG_OK && m.reach.answer == RIG_ANSWER_NO)
        status = clear_acs(&m, err);
    if (status == RIG_OK && m.reach.answer != RIG_ANSWER_NO)
        *out_count = m.count;
    drop(&m);
    return status;
}

/* Slots of one card that are tried: each costs a copy of the machine and a decision or two, and
   more slots than a machine of eight GPUs and their switches has are much like one another. */
#define MAX_TRIES 48

static bool is_above(const struct rig_topology *t, int i, int above)
{
    while (i >= 0 && i != above)
        i = t->node[i].f.parent;
    return i == above;
}

/* Can `card` go under `port`: a free slot, or, where `occupied` ones are tried, one that holds a
 * single other card. Not the port that either end is below. */
static bool fits(const struct attempt *a, const struct rig_topology *t, int card, int port,
                 bool occupied)
{
    return card >= 0 && is_port(&t->node[port].f) && has_below(t, port) == occupied &&
           !is_above(t, a->from, port) && !is_above(t, a->to, port) &&
           strangers_below(t, port, card) <= 1;
}

/* Makes steps the best of moving `card`, as far as *count steps are worse: a move that needs no
   setting is better than one that needs one, and among like ones the first port in bus order is. */
static enum rig_status move_card(const struct attempt *a, const struct rig_topology *t, int card,
                                 bool occupied, struct rig_remedy steps[MOVING], int *count,
                                 struct rig_error *err)
{
    int tries = 0;
    for (int port = 0; port < t->count && tries < MAX_TRIES && *count != 1; port++) {
        struct rig_remedy found[MOVING];
        int n;
        if (!fits(a, t, card, port, occupied))
            continue;
        tries++;
        enum rig_status status = try_move(a, t, card, port, found, &n, err);
        if (status != RIG_OK)
            return status;
        if (n == 1 || *count == 0) {
            memcpy(steps, found, (size_t)n * sizeof *steps);
            *count = n;
        }
    }
    return RIG_OK;
}

/* A free slot is better than an occupied one, whatever must be set. */
static enum rig_status move_a_card(struct attempt *a, const struct rig_topology *t, bool *out_done,
                                   struct rig_error *err)
{
    const int from = card_of(t, a->from), to = card_of(t, a->to);
    enum rig_status status = RIG_OK;
    int count = 0;
    for (int occupied = 0; status == RIG_OK && count == 0 && occupied < 2; occupied++) {
        struct rig_remedy *steps = a->steps + a->count;
        status = move_card(a, t, from, occupied, steps, &count, err);
        if (status == RIG_OK && to != from)
            status = move_card(a, t, to, occupied, steps, &count, err);
    }
    a->count += count;
    *out_done = count > 0;
    return status;
}

/* ---- the least list */

typedef enum rig_status step(struct attempt *, struct rig_error *);
static step *const settings[] = {pass_iommu, place_bar, resize_bar, clear_acs, newer_kernel};

/* The first so many go before a move. */
#define SETTINGS_OF_ENDS 3

static_assert(RIG_ARRAY_LENGTH(settings) <= RIG_REMEDY_STEPS, "a setting is one step");
static_assert(SETTINGS_OF_ENDS + MOVING <= RIG_REMEDY_STEPS, "and a move");

static enum rig_status begin(struct attempt *a, const struct rig_topology *t,
                             const struct rig_rules *rules, int from, int to,
                             struct rig_remedy *steps, struct rig_error *err)
{
    *a = (struct attempt){.rules = rules, .from = from, .to = to, .steps = steps};
    enum rig_status status = rig_topology_copy(t, &a->t, err);
    if (status == RIG_OK)
        status = decide(a, err);
    if (status != RIG_OK)
        drop(a);
    return status;
}

/* Applies the settings of `mask` until the answer is no longer no: what is left open then are facts
 * that the source lacks. */
static enum rig_status apply(struct attempt *a, unsigned mask, struct rig_error *err)
{
    enum rig_status status = RIG_OK;
    for (size_t k = 0; status == RIG_OK && k < RIG_ARRAY_LENGTH(settings); k++)
        if ((mask >> k & 1u) && a->reach.answer == RIG_ANSWER_NO)
            status = settings[k](a, err);
    return status;
}

static int bits_in(unsigned mask)
{
    return __builtin_popcount(mask);
}

/* Fewest settings first: a redirect need not be cleared where a newer kernel is enough, nor the
 * other way round. */
static enum rig_status by_settings(const struct rig_topology *t, const struct rig_rules *rules,
                                   int from, int to, struct rig_remedy *steps, int *out_count,
                                   struct rig_error *err)
{
    const unsigned all = (1u << RIG_ARRAY_LENGTH(settings)) - 1;
    struct attempt a;
    enum rig_status status = begin(&a, t, rules, from, to, steps, err);
    if (status != RIG_OK)
        return status;
    status = apply(&a, all, err);
    bool helps = status == RIG_OK && a.reach.answer != RIG_ANSWER_NO;
    drop(&a);
    for (int size = 1; helps && size <= (int)RIG_ARRAY_LENGTH(settings); size++) {
        for (unsigned mask = 1; mask <= all; mask++) {
            if (bits_in(mask) != size)
                continue;
            status = begin(&a, t, rules, from, to, steps, err);
            if (status != RIG_OK)
                return status;
            status = apply(&a, mask, err);
            bool done = status == RIG_OK && a.reach.answer != RIG_ANSWER_NO;
            *out_count = done ? a.count : 0;
            drop(&a);
            if (status != RIG_OK || done)
                return status;
        }
    }
    return status;
}

static enum rig_status by_moving(const struct rig_topology *t, const struct rig_rules *rules,
                                 int from, int to, struct rig_remedy *steps, int *out_count,
                                 struct rig_error *err)
{
    struct attempt a;
    enum rig_status status = begin(&a, t, rules, from, to, steps, err);
    if (status != RIG_OK)
        return status;
    bool done = false;
    for (size_t k = 0; status == RIG_OK && k < SETTINGS_OF_ENDS; k++)
        status = settings[k](&a, err);
    if (status == RIG_OK && a.reach.p2pdma.possible == RIG_NOT_SUPPORTED)
        status = move_a_card(&a, t, &done, err);
    *out_count = done ? a.count : 0;
    drop(&a);
    return status;
}

static enum rig_status shorten(const struct rig_topology *t, const struct rig_rules *rules,
                               int from, int to, struct rig_remedy *steps, int *out_count,
                               struct rig_error *err)
{
    struct attempt a;
    enum rig_status status = begin(&a, t, rules, from, to, steps, err);
    if (status != RIG_OK)
        return status;
    status = clear_acs(&a, err);
    bool shorter = status == RIG_OK && a.count && a.reach.p2pdma.possible == RIG_BUS_ADDR;
    *out_count = shorter ? a.count : 0;
    drop(&a);
    return status;
}

enum rig_status rig_reach_remedy(const struct rig_topology *t, const struct rig_rules *rules,
                                 int from, int to, struct rig_remedy out_steps[RIG_REMEDY_STEPS],
                                 int *out_count, struct rig_error *err)
{
    struct rig_reach *now = calloc(1, sizeof *now);
    if (!now)
        return rig_fail_memory(err);
    enum rig_status status = rig_reach_pair(t, rules, from, to, now, err);
    if (status != RIG_OK) {
        free(now);
        return status;
    }
    bool redirected = now->answer != RIG_ANSWER_NO && now->p2pdma.redirecting_count > 0;
    bool no = now->answer == RIG_ANSWER_NO && from != to;
    rig_reach_free(now);
    free(now);
    int count = 0;
    if (redirected)
        status = shorten(t, rules, from, to, out_steps, &count, err);
    if (no)
        status = by_settings(t, rules, from, to, out_steps, &count, err);
    if (no && status == RIG_OK && count == 0)
        status = by_moving(t, rules, from, to, out_steps, &count, err);
    if (status == RIG_OK)
        *out_count = count;
    return status;
}
