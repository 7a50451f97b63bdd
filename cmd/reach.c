#include "reach.h"

#include <stdlib.h>
#include <string.h>

static void question_free(void *held)
{
    struct reach_question *q = held;
    if (!q)
        return;
    rig_topology_free(q->t);
    rig_topology_free(q->before);
    free(q->from);
    free(q->to);
    free(q);
}

/* ---- which pairs */

static bool is_endpoint(const struct rig_function *f)
{
    return !rig_fact_has(f->header_type) || f->header_type.value == 0;
}

/* Clients without --all: GPUs, NICs and NVMe drives, which are the functions with an alias. */
static bool wanted(const struct rig_function *f, bool all, bool target)
{
    if (all)
        return is_endpoint(f);
    return f->gpu || (!target && f->alias);
}

/* GPUs come first, so that their rows and columns stand in one order; with --all bus order. */
static int select_functions(const struct rig_topology *t, bool all, bool target, int *out)
{
    int count = 0;
    for (int pass = all ? 1 : 0; pass < 2; pass++) {
        for (int i = 0; i < rig_topology_count(t); i++) {
            const struct rig_function *f = rig_topology_function(t, i);
            if (wanted(f, all, target) && (all || f->gpu == (pass == 0)))
                out[count++] = i;
        }
    }
    return count;
}

/* The one function that was named stands for the list. */
static bool name_function(struct reply *reply, const struct reach_question *q, const char *name,
                          int *list, int *count)
{
    int function = machine_function(reply, q->t, name);
    if (function < 0)
        return false;
    list[0] = function;
    *count = 1;
    return true;
}

static bool select_pairs(const struct request *request, struct reply *reply,
                         struct reach_question *q)
{
    size_t count = (size_t)rig_topology_count(q->t) + 1;
    q->from = calloc(count, sizeof *q->from);
    q->to = calloc(count, sizeof *q->to);
    if (!q->from || !q->to) {
        reply_fail(reply, RIG_FAILED, NULL, NULL, "out of memory");
        return false;
    }
    bool all = q->all = request_has(request, OPT_ALL);
    q->from_count = select_functions(q->t, all, false, q->from);
    q->to_count = select_functions(q->t, all, true, q->to);
    q->row = request->arguments == 1;
    q->pair = request->arguments == 2;
    if (request->arguments > 0 &&
        !name_function(reply, q, request->argument[0], q->from, &q->from_count))
        return false;
    return request->arguments < 2 ||
           name_function(reply, q, request->argument[1], q->to, &q->to_count);
}

const char *path_meaning(enum rig_path path)
{
    static const char *const meaning[] = {[RIG_PATH_UNKNOWN] = "not known",
                                          [RIG_PATH_SELF] = "itself",
                                          [RIG_PATH_PIX] = "at most one switch between",
                                          [RIG_PATH_PXB] = "several switches, no host bridge",
                                          [RIG_PATH_PHB] = "through one host bridge",
                                          [RIG_PATH_NODE] =
                                              "through two host bridges of one NUMA node",
                                          [RIG_PATH_SYS] = "across NUMA nodes"};
    return meaning[path];
}

/* The machines before and after what is tried, where the question is what it changes. */
static bool load_both(const struct request *request, struct reply *reply, struct reach_question *q)
{
    const char *ignored, *source = source_name(request);
    bool diff = request_has(request, OPT_DIFF);
    if (diff && !request_has_fact(request) && !request_has(request, OPT_RULES)) {
        reply_fail(reply, RIG_INVALID, "--diff",
                   "give what is to be tried: --assume, --iommu, --cpu, --kernel or --rules",
                   "there is nothing to compare with");
        return false;
    }
    if (diff ? !machine_load_both(request, reply, source, &q->before, &q->t)
             : !machine_load(request, reply, source, &q->t))
        return false;
    q->rules = machine_rules(request, reply, q->t, &q->rules_from);
    q->rules_before = diff ? rig_rules_default(q->before, &ignored) : NULL;
    if (diff && request_has(request, OPT_ASSUME))
        q->rules_before = q->rules;
    return q->rules != NULL;
}

/* ---- JSON */

static bool same_decision(uint8_t a, uint8_t b)
{
    return RIG_CELL_ANSWER(a) == RIG_CELL_ANSWER(b) && RIG_CELL_POSSIBLE(a) == RIG_CELL_POSSIBLE(b);
}

/* Number of q->t's function i in q->before: the same place, wherever --assume moved it. */
static int number_before(const struct reach_question *q, int i)
{
    return rig_topology_find_bdf(q->before, rig_topology_function(q->t, i)->bdf);
}

/* One cell of a machine's answers. */
static uint8_t one_cell(struct rig_reach_table *table, int from, int to)
{
    uint8_t cell;
    rig_reach_table_row(table, from, &to, 1, &cell, NULL);
    return cell;
}

/* Calls `each` for every pair of the question, with --diff for every pair that changes; `before`
   is the pair's answer before, or NULL. */
struct visit {
    struct view *view;
    struct reach_question *q;
    struct rig_error *err;
    struct rig_reach_table *now, *then;
    long pairs, visited;
    void (*each)(struct visit *visit, const json_t *pair);
};

/* Remedies are tried for so many pairs; of more, ask one by one. */
static bool few_pairs(const struct reach_question *q)
{
    return (long)q->from_count * q->to_count <= 512;
}

static enum rig_status visit_pair(struct visit *v, int from, int to)
{
    const struct reach_question *q = v->q;
    int from_before = -1, to_before = -1;
    v->pairs++;
    if (v->then) {
        from_before = number_before(q, from);
        to_before = number_before(q, to);
        if (same_decision(one_cell(v->now, from, to), one_cell(v->then, from_before, to_before)))
            return RIG_OK;
    }
    struct reply scratch = {0};
    json_t *pair = reach_pair_json(&scratch, q->t, q->rules, from, to, few_pairs(q), v->err);
    if (pair && v->then) {
        json_t *before = reach_pair_json(&scratch, q->before, q->rules_before, from_before,
                                         to_before, false, v->err);
        put(&scratch, pair, "before", before);
    }
    if (pair && !scratch.no_memory && v->err->status == RIG_OK)
        v->each(v, pair);
    else if (v->err->status == RIG_OK)
        *v->err = (struct rig_error){.status = RIG_FAILED, .why = "out of memory"};
    json_decref(pair);
    v->visited++;
    return v->err->status;
}

static enum rig_status visit_pairs(struct visit *v)
{
    const struct reach_question *q = v->q;
    enum rig_status status = RIG_OK;
    if (q->before)
        status = rig_reach_table_make(q->t, q->rules, &v->now, v->err);
    if (status == RIG_OK && q->before)
        status = rig_reach_table_make(q->before, q->rules_before, &v->then, v->err);
    for (int i = 0; status == RIG_OK && i < q->from_count; i++)
        for (int k = 0; status == RIG_OK && k < q->to_count; k++)
            if (q->pair || q->all || q->from[i] != q->to[k])
                status = visit_pair(v, q->from[i], q->to[k]);
    rig_reach_table_free(v->now);
    rig_reach_table_free(v->then);
    v->now = v->then = NULL;
    return status;
}

static void each_json(struct visit *v, const json_t *pair)
{
    if (v->visited > 0)
        out_text(v->view->out, ",");
    print_json_value(v->view, pair);
}

/* Pair after pair: all pairs of a large machine would not fit as one tree. */
static enum rig_status reach_json(struct view *view, void *held, struct rig_error *err)
{
    struct visit v = {.view = view, .q = held, .err = err, .each = each_json};
    out_text(view->out, "{\"pairs\":[");
    enum rig_status status = visit_pairs(&v);
    out_format(view->out, "],\"rules\":\"%s\",\"targets\":[", rig_rules_name(v.q->rules));
    int printed = 0;
    for (int k = 0; status == RIG_OK && k < v.q->to_count; k++) {
        if (!rig_topology_function(v.q->t, v.q->to[k])->gpu)
            continue;
        struct reply scratch = {0};
        json_t *target = reach_target_json(&scratch, v.q->t, v.q->to[k]);
        out_text(view->out, printed++ ? "," : "");
        print_json_value(view, target);
        json_decref(target);
    }
    out_text(view->out, "]}");
    return status;
}

/* ---- text */

void reach_rules_text(struct view *view, const struct reach_question *q)
{
    out_format(view->out, "rules of Linux %s", rig_rules_name(q->rules));
    if (q->rules_from && *q->rules_from) {
        out_text(view->out, " (");
        out_escaped(view->out, q->rules_from);
        out_text(view->out, ")");
    }
    struct rig_fact on = rig_topology_machine(q->t)->p2pdma;
    if (rig_fact_has(on) && on.value == 0)
        out_text(view->out, "; this kernel is built without p2pdma, so its own answer is no");
    out_text(view->out, "\n");
}

static void decision_text(struct view *view, const json_t *pair)
{
    const char *answer = member_text(pair, "answer");
    view_colored(view, answer_color(answer), answer);
    const char *verdict = member_text(json_object_get(pair, "p2pdma"), "verdict");
    out_format(view->out, " %s", *verdict ? verdict : "?");
    const char *gate = member_text(pair, "gate");
    if (*gate)
        out_format(view->out, " (%s)", gate);
}

static void each_change(struct visit *v, const json_t *pair)
{
    struct out *o = v->view->out;
    reach_names_text(v->view, v->q, pair);
    decision_text(v->view, json_object_get(pair, "before"));
    out_text(o, " => ");
    decision_text(v->view, pair);
    out_text(o, "\n");
    if (v->q->why)
        reach_pair_text(v->view, v->q, pair, true);
}

static enum rig_status changes_text(struct view *view, struct reach_question *q,
                                    struct rig_error *err)
{
    struct visit v = {.view = view, .q = q, .err = err, .each = each_change};
    enum rig_status status = visit_pairs(&v);
    out_format(view->out, "%ld of %ld pairs change\n", v.visited, v.pairs);
    struct rig_fact then = rig_topology_machine(q->before)->p2pdma;
    struct rig_fact now = rig_topology_machine(q->t)->p2pdma;
    if (rig_fact_has(now) && (!rig_fact_has(then) || then.value != now.value))
        out_text(view->out, now.value ? "the kernel has p2pdma: its own answers are its verdicts\n"
                                      : "the kernel has no p2pdma: its own answer is no for all\n");
    return status;
}

static void each_block(struct visit *v, const json_t *pair)
{
    if (v->visited > 0)
        out_text(v->view->out, "\n");
    reach_pair_text(v->view, v->q, pair, v->q->why);
}

static enum rig_status blocks_text(struct view *view, struct reach_question *q,
                                   struct rig_error *err)
{
    struct visit v = {.view = view, .q = q, .err = err, .each = each_block};
    return visit_pairs(&v);
}

static enum rig_status reach_text(struct view *view, void *held, struct rig_error *err)
{
    struct reach_question *q = held;
    if (q->before)
        return changes_text(view, q, err);
    if (q->pair) {
        rig_topology_name_functions(q->t);
        return blocks_text(view, q, err);
    }
    enum rig_status status = reach_matrix_text(view, q, err);
    if (status != RIG_OK || !q->why)
        return status;
    out_text(view->out, "\n");
    return blocks_text(view, q, err);
}

/* ---- the handler */

static void run_picture(const struct request *request, struct reply *reply,
                        struct reach_question *q)
{
    struct out graph;
    out_start(&graph, -1);
    rig_topology_name_functions(q->t);
    if (reach_graph(&graph, q, &reply->err) == RIG_OK)
        picture_reply(request, reply, &graph);
    out_end(&graph);
    question_free(q);
}

void reach_run(const struct request *request, struct reply *reply)
{
    struct reach_question *q = calloc(1, sizeof *q);
    if (!q) {
        reply_fail(reply, RIG_FAILED, NULL, NULL, "out of memory");
        return;
    }
    struct rig_reach reach = {0};
    q->why = request_has(request, OPT_WHY);
    if (!load_both(request, reply, q) || !select_pairs(request, reply, q) ||
        (q->pair &&
         rig_reach_pair(q->t, q->rules, q->from[0], q->to[0], &reach, &reply->err) != RIG_OK)) {
        question_free(q);
        return;
    }
    if (q->pair)
        reply->exit = reach.answer == RIG_ANSWER_YES  ? EXIT_YES
                      : reach.answer == RIG_ANSWER_NO ? EXIT_NO
                                                      : EXIT_UNDECIDED;
    if (q->pair)
        rig_reach_free(&reach);
    if (request_has(request, OPT_DOT) || request_has(request, OPT_OUTPUT)) {
        run_picture(request, reply, q);
        return;
    }
    reply->held = q;
    reply->free_held = question_free;
    reply->print_text = reach_text;
    reply->print_json = reach_json;
}

void reach_picture_text(struct view *view, const json_t *result)
{
    picture_text(view, result);
}
