#include "session.h"

void fault_run(const struct request *request, struct reply *reply)
{
    struct rig_session *s = session_enter(request, reply, RIG_SESSION_CHANGE, false);
    if (!s)
        return;
    if (rig_session_fault(s, request->argument[0], &reply->err) == RIG_OK) {
        reply->result = json_object();
        put(reply, reply->result, "fault", text_json(request->argument[0]));
    }
    session_leave(request, reply, s);
}

void fault_text(struct view *view, const json_t *result)
{
    out_escaped(view->out, member_text(result, "fault"));
    out_text(view->out, "\n");
}
