#include "session.h"

#include <stdlib.h>

/* The client by its address where it is an alias; else as it was written. */
static const char *client_name(const struct rig_session *s, const char *name,
                               char text[RIG_BDF_MAX])
{
    const struct rig_topology *t = rig_machine_topology(rig_session_machine(s));
    int i = rig_topology_find(t, name);
    return i < 0 ? name : rig_bdf_format(rig_topology_function(t, i)->bdf, text);
}

void bus_run(const struct request *request, struct reply *reply)
{
    struct rig_bus_range *runs;
    size_t count;
    char text[RIG_BDF_MAX];
    struct rig_session *s = session_enter(request, reply, RIG_SESSION_CHANGE, false);
    if (!s)
        return;
    const char *client = client_name(s, request->argument[1], text);
    if (rig_session_bus(s, request->argument[0], client, &runs, &count, &reply->err) == RIG_OK) {
        json_t *list = json_array();
        for (size_t i = 0; i < count; i++) {
            json_t *run = json_object();
            put(reply, run, "address", address_json(runs[i].address));
            put(reply, run, "bytes", json_integer((json_int_t)runs[i].bytes));
            add(reply, list, run);
        }
        reply->result = json_object();
        put(reply, reply->result, "client", text_json(client));
        put(reply, reply->result, "runs", list);
        free(runs);
    }
    session_leave(request, reply, s);
}

void bus_text(struct view *view, const json_t *result)
{
    size_t i;
    json_t *run;
    json_array_foreach(json_object_get(result, "runs"), i, run)
        out_format(view->out, "%s+0x%llx\n", member_text(run, "address"),
                   (unsigned long long)member_number(run, "bytes"));
}
