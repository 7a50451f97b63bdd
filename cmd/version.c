#include "handlers.h"

void version_run(const struct request *request, struct reply *reply)
{
    (void)request;
    reply->result = json_object();
    put(reply, reply->result, "version", json_string(RIG_VERSION));
    json_t *rules = json_array();
    for (int i = 0; i < rig_rules_count(); i++)
        add(reply, rules, json_string(rig_rules_name(rig_rules_at(i))));
    put(reply, reply->result, "rules", rules);
}

void version_text(struct view *view, const json_t *result)
{
    out_format(view->out, "rigmem %s\n", member_text(result, "version"));
    if (!view->request->settings.verbose)
        return;
    out_text(view->out, "rules of kernels from");
    size_t i;
    json_t *name;
    json_array_foreach(json_object_get(result, "rules"), i, name)
        out_format(view->out, " %s", json_string_value(name));
    out_text(view->out, "\n");
}
