#include "session.h"

void map_peer_run(const struct request *request, struct reply *reply)
{
    struct rig_region region;
    struct rig_session *s = session_enter(request, reply, RIG_SESSION_CHANGE, false);
    if (!s)
        return;
    if (rig_session_map_peer(s, request->argument[0], request->argument[1],
                             request_value(request, OPT_NAME), &region, &reply->err) == RIG_OK)
        region_made(reply, s, region);
    session_leave(request, reply, s);
}
