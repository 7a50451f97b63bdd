#include "session.h"

/* The session's loading has found what killed commands left; the commit keeps it. A twin claims
   nothing outside its session, so that there is no claim whose session is gone. */
void recover_run(const struct request *request, struct reply *reply)
{
    struct rig_session *s = session_enter(request, reply, RIG_SESSION_CHANGE, true);
    if (!s)
        return;
    if (!rig_session_is_open(s) && !rig_session_warning(s, 0)) {
        session_missing(reply);
        session_abandon(request, s);
        return;
    }
    if (rig_session_left(s, &reply->err) != RIG_OK) {
        json_array_clear(reply->warnings); /* the error says the same */
        session_abandon(request, s);
        return;
    }
    json_t *found = json_array();
    for (size_t i = 0; rig_session_warning(s, i); i++)
        add(reply, found, text_json(rig_session_warning(s, i)));
    json_array_clear(reply->warnings);
    reply->result = json_object();
    put(reply, reply->result, "claims", json_array());
    put(reply, reply->result, "found", found);
    session_leave(request, reply, s);
}

void recover_text(struct view *view, const json_t *result)
{
    size_t i;
    json_t *line;
    const json_t *found = json_object_get(result, "found");
    json_array_foreach(found, i, line)
    {
        out_escaped(view->out, json_string_value(line));
        out_text(view->out, "\n");
    }
    if (json_array_size(found) == 0)
        out_text(view->out, "nothing was left behind\n");
}
