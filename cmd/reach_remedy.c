/* Remedies: what would change an answer, as JSON and as text. The library proves each on a copy of
 * the machine. */
#include "reach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *kind_word(enum rig_remedy_kind kind)
{
    static const char *const words[] = {"iommu", "bar", "acs", "kernel", "move"};
    return words[kind];
}

static json_t *lines_json(struct reply *reply, const char *text)
{
    json_t *list = json_array();
    while (*text) {
        size_t n = strcspn(text, "\n");
        char line[256];
        snprintf(line, sizeof line, "%.*s", (int)n, text);
        add(reply, list, text_json(line));
        text += n + (text[n] == '\n');
    }
    return list;
}

static json_t *step_json(struct reply *reply, const struct rig_remedy *step)
{
    json_t *o = json_object();
    const char *verdict = verdict_name(step->possible);
    put(reply, o, "kind", json_string(kind_word(step->kind)));
    put(reply, o, "text", text_json(step->text));
    put(reply, o, "commands", lines_json(reply, step->command));
    put(reply, o, "parameter", *step->parameter ? text_json(step->parameter) : json_null());
    put(reply, o, "warning", *step->warning ? text_json(step->warning) : json_null());
    put(reply, o, "answer", json_string(answer_word(step->answer)));
    put(reply, o, "verdict", text_json(verdict));
    return o;
}

static void append(char *text, size_t bytes, const char *before, const char *more)
{
    size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s%s", used ? before : "", more);
}

/* The steps as one sentence: what to do, by which parameter, and what it leads to. */
static json_t *hint_json(const struct rig_remedy *steps, int count)
{
    char text[4096] = "";
    if (count == 0)
        return json_null();
    for (int i = 0; i < count; i++) {
        append(text, sizeof text, ", then ", steps[i].text);
        if (*steps[i].parameter) {
            append(text, sizeof text, " (", steps[i].parameter);
            append(text, sizeof text, ")", "");
        }
    }
    const char *verdict = verdict_name(steps[count - 1].possible);
    append(text, sizeof text, ": then ", answer_word(steps[count - 1].answer));
    append(text, sizeof text, ", ", verdict ? verdict : "verdict open");
    return text_json(text);
}

enum rig_status reach_remedy_json(struct reply *reply, const struct rig_topology *t,
                                  const struct rig_rules *rules, int from, int to, json_t *pair,
                                  struct rig_error *err)
{
    struct rig_remedy steps[RIG_REMEDY_STEPS];
    int count = 0;
    enum rig_status status = rig_reach_remedy(t, rules, from, to, steps, &count, err);
    if (status != RIG_OK)
        return status;
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        add(reply, list, step_json(reply, &steps[i]));
    put(reply, pair, "hint", hint_json(steps, count));
    put(reply, pair, "remedy", list);
    return RIG_OK;
}

static void step_text(struct view *view, const json_t *step, const char *indent)
{
    struct out *o = view->out;
    out_escaped(o, member_text(step, "text"));
    out_text(o, "\n");
    size_t i;
    json_t *line;
    json_array_foreach(json_object_get(step, "commands"), i, line)
    {
        out_format(o, "%s    ", indent);
        out_escaped(o, json_string_value(line));
        out_text(o, "\n");
    }
    const char *parameter = member_text(step, "parameter");
    if (*parameter)
        out_format(o, "%s    kernel parameter: %s\n", indent, parameter);
    const char *warning = member_text(step, "warning");
    if (*warning) {
        out_format(o, "%s    mind: ", indent);
        out_escaped(o, warning);
        out_text(o, "\n");
    }
}

void reach_remedy_text(struct view *view, const json_t *remedy, const char *indent)
{
    struct out *o = view->out;
    size_t i, last = json_array_size(remedy);
    json_t *step;
    json_array_foreach(remedy, i, step)
    {
        out_format(o, "%s%s: ", indent, i ? "then" : "hint");
        step_text(view, step, indent);
    }
    if (last == 0)
        return;
    step = json_array_get(remedy, last - 1);
    const char *answer = member_text(step, "answer"), *verdict = member_text(step, "verdict");
    out_format(o, "%s    leads to ", indent);
    view_colored(view, answer_color(answer), answer);
    out_format(o, ", %s\n", *verdict ? verdict : "verdict open");
}

/* ---- the part of a GPU's memory that its BAR shows */

static json_t *number_or_null(struct rig_fact fact)
{
    return rig_fact_has(fact) ? json_integer((json_int_t)fact.value) : json_null();
}

static uint64_t largest_size(const struct rig_bar *bar)
{
    uint64_t sizes = rig_fact_has(bar->resizable) ? bar->resizable.value : 0;
    for (unsigned n = 44; n-- > 0;)
        if (sizes >> n & 1u)
            return UINT64_C(1) << (20 + n);
    return 0;
}

json_t *reach_target_json(struct reply *reply, const struct rig_topology *t, int i)
{
    const struct rig_function *f = rig_topology_function(t, i);
    const struct rig_bar *bar = f->memory_bar >= 0 ? &f->bar[f->memory_bar] : NULL;
    const struct rig_fact none = {.know = RIG_FACT_ABSENT};
    struct rig_fact size = bar ? bar->size : none;
    char text[RIG_BDF_MAX];
    json_t *o = json_object();
    put(reply, o, "function", json_string(rig_bdf_format(f->bdf, text)));
    put(reply, o, "memory", number_or_null(f->gpu_memory));
    put(reply, o, "bar", bar ? json_integer(f->memory_bar) : json_null());
    put(reply, o, "bar_bytes", number_or_null(size));
    put(reply, o, "covers",
        rig_fact_has(size) && rig_fact_has(f->gpu_memory)
            ? json_boolean(size.value >= f->gpu_memory.value)
            : json_null());
    uint64_t largest = bar ? largest_size(bar) : 0;
    put(reply, o, "resizable_to", largest ? json_integer((json_int_t)largest) : json_null());
    return o;
}

static void member_size(struct view *view, const json_t *o, const char *key)
{
    char text[RIG_SIZE_MAX];
    const json_t *value = json_object_get(o, key);
    if (json_is_integer(value))
        out_text(view->out, rig_size_format((uint64_t)json_integer_value(value), text));
    else
        out_text(view->out, "an unknown amount");
}

void reach_targets_text(struct view *view, const struct reach_question *q)
{
    struct out *o = view->out;
    bool any = false;
    for (int k = 0; k < q->to_count; k++) {
        if (!rig_topology_function(q->t, q->to[k])->gpu)
            continue;
        struct reply scratch = {0};
        json_t *target = reach_target_json(&scratch, q->t, q->to[k]);
        if (target && json_is_false(json_object_get(target, "covers"))) {
            char name[RIG_BDF_MAX];
            out_text(o,
                     any ? "" : "\nmemory that nobody reaches, since its BAR does not show it\n");
            any = true;
            out_format(o, "  %s: BAR %d is ", function_label(q->t, q->to[k], name),
                       (int)json_integer_value(json_object_get(target, "bar")));
            member_size(view, target, "bar_bytes");
            out_text(o, " of ");
            member_size(view, target, "memory");
            json_int_t largest = json_integer_value(json_object_get(target, "resizable_to"));
            if (largest > json_integer_value(json_object_get(target, "bar_bytes"))) {
                out_text(o, "; it can be resized to ");
                member_size(view, target, "resizable_to");
            }
            out_text(o, "\n");
        }
        json_decref(target);
    }
}
