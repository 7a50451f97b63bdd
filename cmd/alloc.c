#include "session.h"

#include <string.h>

static enum rig_kind kind_named(const char *name)
{
    if (strcmp(name, rig_kind_name(RIG_KIND_BAR)) == 0)
        return RIG_KIND_BAR;
    return strcmp(name, rig_kind_name(RIG_KIND_HOST)) == 0 ? RIG_KIND_HOST : RIG_KIND_GPU;
}

void alloc_run(const struct request *request, struct reply *reply)
{
    uint64_t bytes;
    struct rig_region region;
    if (!size_argument(reply, request->argument[2], &bytes))
        return;
    struct rig_session *s = session_enter(request, reply, RIG_SESSION_CHANGE, false);
    if (!s)
        return;
    if (rig_session_alloc(s, request->argument[0], kind_named(request->argument[1]), bytes,
                          request_has(request, OPT_UNCACHED), request_value(request, OPT_NAME),
                          &region, &reply->err) == RIG_OK)
        region_made(reply, s, region);
    session_leave(request, reply, s);
}
