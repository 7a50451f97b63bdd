#include "session.h"

#include <inttypes.h>
#include <stdio.h>

/* GPUs first by name, so that a wrong one releases none. */
static bool close_gpus(const struct request *request, struct reply *reply, struct rig_session *s)
{
    struct rig_memory *m;
    for (int i = 0; i < request->arguments; i++)
        if (rig_session_gpu(s, request->argument[i], &m, &reply->err) != RIG_OK)
            return false;
    for (int i = 0; i < request->arguments; i++)
        if (rig_session_gpu(s, request->argument[i], &m, &reply->err) != RIG_OK ||
            rig_session_release(s, m, &reply->err) != RIG_OK)
            return false;
    return true;
}

static long long regions_out(const struct rig_session *s)
{
    long long count = 0;
    struct rig_region region = {.id = 0};
    while (rig_gpus_next_region(rig_session_gpus(s), region.id, &region)) {
        struct rig_region_info info;
        if (rig_region_info(region, &info, NULL) == RIG_OK && info.out)
            count++;
    }
    return count;
}

void close_run(const struct request *request, struct reply *reply)
{
    struct rig_session *s = session_enter(request, reply, RIG_SESSION_CHANGE, false);
    if (!s)
        return;
    if (request->arguments > 0) {
        if (close_gpus(request, reply, s))
            reply->result = session_json(request, reply, s, NULL, NULL);
    } else {
        long long regions = regions_out(s);
        if (rig_session_close(s, request_has(request, OPT_FORCE), &reply->err) == RIG_OK) {
            reply->result = json_object();
            put(reply, reply->result, "closed", json_true());
            put(reply, reply->result, "regions", json_integer(regions));
        }
    }
    session_leave(request, reply, s);
}

void close_text(struct view *view, const json_t *result)
{
    if (!json_object_get(result, "closed")) {
        session_text(view, result);
        return;
    }
    long long regions = member_number(result, "regions");
    if (regions > 0)
        out_format(view->out, "closed; %lld region%s given back\n", regions,
                   regions == 1 ? " was" : "s were");
    else
        out_text(view->out, "closed\n");
}
