/* Under a table: the distinct reasons for pairs that are not reached, what was assumed and what is
   unknown. A small table is asked pair by pair; of a large one each row's distinct cells are asked
   once, so that the work stays in proportion to the rows. */
#include "reach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVERY_PAIR_MAX 4096L
#define SAMPLES_MAX 4096L
#define REASONS_MAX 24
#define PORTS_MAX 64
#define NOTES_MAX 256

/* Pairs that share a reason. Those under one common bridge whose path is redirected are one, and
   `port` gathers the functions that redirect; elsewhere `ports` is 0. */
struct reason {
    enum rig_gate_token gate;
    enum rig_answer answer;
    char why[512];
    int from, to; /* the first such pair */
    int common;
    int port[PORTS_MAX], ports;
    long pairs;
};

/* `counted` says that every pair was asked, so that the numbers of pairs mean something. */
struct reasons {
    const struct reach_question *q;
    struct reason reason[REASONS_MAX];
    int count;
    struct rig_note assumed[NOTES_MAX], unknown[NOTES_MAX];
    int assumed_count, unknown_count;
    long more;
    bool counted;
};

static void keep_notes(const struct rig_note *from, int count, struct rig_note *to, int *to_count)
{
    for (int i = 0; i < count; i++) {
        int k = 0;
        while (k < *to_count &&
               (strcmp(to[k].field, from[i].field) != 0 || strcmp(to[k].value, from[i].value) != 0))
            k++;
        if (k == *to_count && k < NOTES_MAX)
            to[(*to_count)++] = from[i];
    }
}

static const struct rig_gate *deciding_gate(const struct rig_reach *reach)
{
    for (int i = 0; i < reach->gate_count; i++)
        if ((int)reach->gates[i].gate == reach->gate)
            return &reach->gates[i];
    for (int i = 0; i < reach->gate_count; i++)
        if (reach->gates[i].decides && reach->gates[i].open != RIG_ANSWER_YES)
            return &reach->gates[i];
    return NULL;
}

static bool redirected(const struct rig_reach *reach)
{
    return reach->answer == RIG_ANSWER_NO && reach->gate == (int)RIG_GATE_ACS_REDIRECT;
}

static void keep_ports(struct reason *reason, const struct rig_p2pdma *p)
{
    for (int i = 0; i < p->redirecting_count; i++) {
        int k = 0;
        while (k < reason->ports && reason->port[k] != p->redirecting[i])
            k++;
        if (k == reason->ports && k < PORTS_MAX)
            reason->port[reason->ports++] = p->redirecting[i];
    }
}

static bool same_reason(const struct reason *known, const struct rig_reach *reach,
                        enum rig_gate_token gate, const char *why)
{
    if (known->gate != gate || known->answer != reach->answer)
        return false;
    if (redirected(reach))
        return known->common == reach->p2pdma.common;
    /* what leaves a pair open names the pair's functions: one example does */
    return reach->answer == RIG_ANSWER_UNKNOWN || strcmp(known->why, why) == 0;
}

static void keep_reason(struct reasons *r, const struct rig_reach *reach)
{
    const struct rig_gate *gate = deciding_gate(reach);
    if (!gate)
        return;
    const char *why = *reach->possibilities ? reach->possibilities : gate->why;
    int i = 0;
    while (i < r->count && !same_reason(&r->reason[i], reach, gate->gate, why))
        i++;
    if (i == REASONS_MAX) {
        r->more++;
        return;
    }
    struct reason *reason = &r->reason[i];
    if (i == r->count) {
        r->count++;
        *reason = (struct reason){.gate = gate->gate,
                                  .answer = reach->answer,
                                  .from = reach->from,
                                  .to = reach->to,
                                  .common = reach->p2pdma.common};
        snprintf(reason->why, sizeof reason->why, "%s", why);
    }
    reason->pairs++;
    if (redirected(reach))
        keep_ports(reason, &reach->p2pdma);
}

static enum rig_status ask(struct reasons *r, int from, int to, struct rig_error *err)
{
    struct rig_reach reach;
    enum rig_status status = rig_reach_pair(r->q->t, r->q->rules, from, to, &reach, err);
    if (status != RIG_OK)
        return status;
    keep_notes(reach.assumed, reach.assumed_count, r->assumed, &r->assumed_count);
    keep_notes(reach.unknown, reach.unknown_count, r->unknown, &r->unknown_count);
    if (reach.answer != RIG_ANSWER_YES)
        keep_reason(r, &reach);
    rig_reach_free(&reach);
    return RIG_OK;
}

static enum rig_status ask_every(struct reasons *r, struct rig_error *err)
{
    const struct reach_question *q = r->q;
    enum rig_status status = RIG_OK;
    for (int i = 0; status == RIG_OK && i < q->from_count; i++)
        for (int k = 0; status == RIG_OK && k < q->to_count; k++)
            if (q->from[i] != q->to[k])
                status = ask(r, q->from[i], q->to[k], err);
    return status;
}

/* Of some rows, spread over the table, the first pair of each distinct cell. */
static enum rig_status ask_some(struct reasons *r, struct rig_reach_table *table, uint8_t *cell,
                                struct rig_error *err)
{
    const struct reach_question *q = r->q;
    int step = q->from_count / 64 + 1;
    long asked = 0;
    enum rig_status status = RIG_OK;
    for (int i = 0; status == RIG_OK && i < q->from_count; i += step) {
        bool seen[256] = {false};
        rig_reach_table_row(table, q->from[i], q->to, q->to_count, cell, NULL);
        for (int k = 0; status == RIG_OK && k < q->to_count && asked < SAMPLES_MAX; k++) {
            if (seen[cell[k]] || q->from[i] == q->to[k])
                continue;
            seen[cell[k]] = true;
            asked++;
            status = ask(r, q->from[i], q->to[k], err);
        }
    }
    return status;
}

/* ---- printing */

static void print_ports(struct view *view, const struct reasons *r, const struct reason *reason)
{
    char text[RIG_BDF_MAX];
    struct out *o = view->out;
    out_text(o, "these send peer requests up to the root complex by ACS:");
    for (int i = 0; i < reason->ports; i++) {
        const struct rig_function *f = rig_topology_function(r->q->t, reason->port[i]);
        out_format(o, "%s %s", i ? "," : "", rig_bdf_format(f->bdf, text));
        if (rig_fact_has(f->acs_control))
            out_format(o, " 0x%04x", (unsigned)f->acs_control.value);
    }
}

static void print_reason(struct view *view, const struct reasons *r, const struct reason *reason)
{
    char from[RIG_BDF_MAX], to[RIG_BDF_MAX];
    struct out *o = view->out;
    out_text(o, "  ");
    const char *answer = answer_word(reason->answer);
    view_colored(view, answer_color(answer), rig_gate_name(reason->gate));
    out_format(o, ": %s -> %s", function_label(r->q->t, reason->from, from),
               function_label(r->q->t, reason->to, to));
    if (!r->counted)
        out_text(o, ", for example");
    else if (reason->pairs > 1)
        out_format(o, " and %ld more", reason->pairs - 1);
    out_text(o, ": ");
    if (reason->ports > 0 && reason->pairs > 1)
        print_ports(view, r, reason);
    else
        out_escaped(o, reason->why);
    out_text(o, "\n");
}

/* How many of the question's pairs have the answer, by a table of t. -1 when memory ran out. */
static long count_answers(const struct reach_question *q, const struct rig_topology *t,
                          enum rig_answer answer)
{
    struct rig_reach_table *table = NULL;
    uint8_t *cell = calloc((size_t)q->to_count + 1, 1);
    struct rig_error err = {.status = RIG_OK};
    long n = -1;
    if (cell && rig_reach_table_make(t, q->rules, &table, &err) == RIG_OK) {
        n = 0;
        for (int i = 0; i < q->from_count; i++) {
            rig_reach_table_row(table, q->from[i], q->to, q->to_count, cell, NULL);
            for (int k = 0; k < q->to_count; k++)
                n += q->from[i] != q->to[k] && RIG_CELL_ANSWER(cell[k]) == answer;
        }
    }
    rig_reach_table_free(table);
    free(cell);
    return n;
}

static struct rig_topology *without_redirects(const struct reasons *r, const struct reason *reason)
{
    struct rig_topology *t = NULL;
    struct rig_error err = {.status = RIG_OK};
    if (rig_topology_copy(r->q->t, &t, &err) != RIG_OK)
        return NULL;
    for (int i = 0; i < reason->ports; i++) {
        char text[RIG_BDF_MAX];
        const struct rig_function *f = rig_topology_function(t, reason->port[i]);
        uint16_t word = (uint16_t)(f->acs_control.value & ~(uint64_t)RIG_ACS_REDIRECTS);
        if (rig_topology_set_acs(t, rig_bdf_format(f->bdf, text), word, "a remedy", &err) !=
            RIG_OK) {
            rig_topology_free(t);
            return NULL;
        }
    }
    return t;
}

/* All ports of the reason cleared at once, tried on a copy: how many pairs that changes. */
static void print_ports_remedy(struct view *view, const struct reasons *r,
                               const struct reason *reason)
{
    struct rig_topology *t = without_redirects(r, reason);
    long no = t ? count_answers(r->q, r->q->t, RIG_ANSWER_NO) : -1;
    long no_then = t ? count_answers(r->q, t, RIG_ANSWER_NO) : -1;
    long yes = t ? count_answers(r->q, r->q->t, RIG_ANSWER_YES) : -1;
    long yes_then = t ? count_answers(r->q, t, RIG_ANSWER_YES) : -1;
    rig_topology_free(t);
    if (no < 0 || no_then < 0 || yes < 0 || yes_then < 0 || no_then >= no)
        return;
    struct out *o = view->out;
    char text[RIG_BDF_MAX];
    out_text(o, "    hint: boot with pci=disable_acs_redir=");
    for (int i = 0; i < reason->ports; i++)
        out_format(o, "%s%s", i ? ";" : "",
                   rig_bdf_format(rig_topology_function(r->q->t, reason->port[i])->bdf, text));
    out_text(o, ", or setpci -s FUNCTION ECAP_ACS+6.w=0:2c for each: ");
    if (yes_then - yes == no - no_then)
        out_format(o, "%ld more pair%s reached\n", no - no_then,
                   no - no_then == 1 ? " is" : "s are");
    else
        out_format(o, "%ld pairs are no longer blocked: %ld reached, %ld open\n", no - no_then,
                   yes_then - yes, no - no_then - (yes_then - yes));
    out_text(o, "    mind: isolation between IOMMU groups is lost, and groups stay until reboot\n");
}

/* What a setting would change of the reason's first pair. Moving cards is advice for a pair that
 * somebody asks about. */
static void print_remedy(struct view *view, const struct reasons *r, const struct reason *reason)
{
    struct rig_remedy steps[RIG_REMEDY_STEPS];
    struct rig_error err = {.status = RIG_OK};
    int count = 0;
    if (!r->counted || reason->answer != RIG_ANSWER_NO)
        return;
    if (reason->ports > 0) {
        print_ports_remedy(view, r, reason);
        return;
    }
    if (rig_reach_remedy(r->q->t, r->q->rules, reason->from, reason->to, steps, &count, &err) !=
            RIG_OK ||
        count == 0)
        return;
    for (int i = 0; i < count; i++)
        if (steps[i].kind == RIG_REMEDY_MOVE)
            return;
    struct out *o = view->out;
    for (int i = 0; i < count; i++) {
        out_format(o, "    %s: ", i ? "then" : "hint");
        out_escaped(o, steps[i].text);
        if (*steps[i].parameter)
            out_format(o, " (%s)", steps[i].parameter);
        out_text(o, "\n");
    }
    char from[RIG_BDF_MAX], to[RIG_BDF_MAX];
    out_format(o, "    leads to %s; rigmem reach %s %s tells how\n",
               answer_word(steps[count - 1].answer), function_label(r->q->t, reason->from, from),
               function_label(r->q->t, reason->to, to));
}

static void print_reasons(struct view *view, const struct reasons *r, enum rig_answer answer,
                          const char *title)
{
    bool any = false;
    for (int i = 0; i < r->count; i++) {
        if (r->reason[i].answer != answer)
            continue;
        if (!any)
            out_format(view->out, "\n%s\n", title);
        any = true;
        print_reason(view, r, &r->reason[i]);
        print_remedy(view, r, &r->reason[i]);
    }
}

/* How much of a field's name is its kind: "iommu" of "iommu 0000:03:00.0". */
static size_t kind_bytes(const char *field)
{
    const char *space = strrchr(field, ' ');
    struct rig_bdf bdf;
    return space && rig_bdf_parse(space + 1, &bdf) ? (size_t)(space - field) : strlen(field);
}

static bool same_kind(const struct rig_note *a, const struct rig_note *b)
{
    size_t bytes = kind_bytes(a->field);
    return bytes == kind_bytes(b->field) && strncmp(a->field, b->field, bytes) == 0 &&
           strcmp(a->value, b->value) == 0;
}

/* Prints note i and how many others of its kind there are, unless an earlier one told. */
static void print_note(struct view *view, const struct rig_note *notes, int count, int i,
                       const char *word)
{
    struct out *o = view->out;
    int more = 0;
    for (int k = 0; k < i; k++)
        if (same_kind(&notes[k], &notes[i]))
            return;
    for (int k = i + 1; k < count; k++)
        more += same_kind(&notes[k], &notes[i]);
    out_format(o, "%s ", word);
    out_escaped(o, notes[i].field);
    if (more > 0)
        out_format(o, " and %d more", more);
    if (*notes[i].value) {
        out_text(o, " = ");
        out_escaped(o, notes[i].value);
    }
    out_text(o, *notes[i].value ? " (" : ": ");
    out_escaped(o, notes[i].why);
    out_text(o, *notes[i].value ? ")\n" : "\n");
}

static void print_notes(struct view *view, const struct rig_note *notes, int count,
                        const char *word)
{
    if (count > 0)
        out_text(view->out, "\n");
    for (int i = 0; i < count; i++)
        print_note(view, notes, count, i, word);
}

enum rig_status reach_reasons_text(struct view *view, const struct reach_question *q,
                                   struct rig_reach_table *table, struct rig_error *err)
{
    struct reasons *r = calloc(1, sizeof *r);
    uint8_t *cell = calloc((size_t)q->to_count, 1);
    enum rig_status status = RIG_OK;
    if (!r || !cell) {
        *err = (struct rig_error){.status = RIG_FAILED, .why = "out of memory"};
        status = RIG_FAILED;
    } else {
        r->q = q;
        r->counted = (long)q->from_count * q->to_count <= EVERY_PAIR_MAX;
        status = r->counted ? ask_every(r, err) : ask_some(r, table, cell, err);
    }
    if (status == RIG_OK) {
        print_reasons(view, r, RIG_ANSWER_NO, "why not");
        print_reasons(view, r, RIG_ANSWER_UNKNOWN, "what is open");
        if (r->more > 0)
            out_format(view->out, "  and %ld pairs for other reasons: rigmem reach A B\n", r->more);
        print_notes(view, r->assumed, r->assumed_count, "assuming");
        print_notes(view, r->unknown, r->unknown_count, "unknown");
    }
    free(r);
    free(cell);
    return status;
}
