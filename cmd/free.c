#include "session.h"

#include <inttypes.h>
#include <stdio.h>

/* The id that a region has in results. */
static json_t *freed_json(uint64_t id)
{
    char text[24];
    snprintf(text, sizeof text, "r%" PRIu64, id);
    return json_string(text);
}

/* Names first: any that is wrong, or there twice, frees none. */
static bool check_all(const struct request *request, struct reply *reply, struct rig_session *s)
{
    for (int i = 0; i < request->arguments; i++) {
        struct rig_region a, b;
        if (rig_session_region(s, request->argument[i], &a, &reply->err) != RIG_OK)
            return false;
        for (int k = 0; k < i; k++) {
            if (rig_session_region(s, request->argument[k], &b, &reply->err) != RIG_OK)
                return false;
            if (a.id == b.id) {
                reply_fail(reply, RIG_INVALID, request->argument[i], NULL, "is there twice");
                return false;
            }
        }
    }
    return true;
}

static bool free_one(struct reply *reply, struct rig_session *s, const char *name, json_t *freed,
                     json_t *kept)
{
    struct rig_region region;
    struct rig_region_info info;
    if (rig_session_free(s, name, &region, &reply->err) != RIG_OK)
        return false;
    add(reply, freed, freed_json(region.id));
    if (rig_region_info(region, &info, NULL) == RIG_OK) {
        json_t *one = json_object();
        put(reply, one, "id", freed_json(region.id));
        put(reply, one, "why", text_json(info.kept));
        add(reply, kept, one);
    }
    return true;
}

/* @last is the latest region: freeing does not change which that is, and each region is a
   transaction of its own. */
void free_run(const struct request *request, struct reply *reply)
{
    json_t *freed = json_array(), *kept = json_array();
    struct rig_session *s = session_enter(request, reply, RIG_SESSION_CHANGE, false);
    bool going = s && check_all(request, reply, s);
    for (int i = 0; going && i < request->arguments; i++) {
        if (!s)
            s = session_enter(request, reply, RIG_SESSION_CHANGE, false);
        going = s && free_one(reply, s, request->argument[i], freed, kept);
        if (i + 1 < request->arguments && going && !request->settings.dry_run) {
            session_leave(request, reply, s);
            s = NULL;
            going = reply->err.status == RIG_OK;
        }
    }
    if (s)
        session_leave(request, reply, s);
    reply->result = json_object();
    put(reply, reply->result, "freed", freed);
    put(reply, reply->result, "kept", kept);
}

void free_text(struct view *view, const json_t *result)
{
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(result, "freed"), i, one)
        out_format(view->out, "freed %s\n", json_string_value(one));
    json_array_foreach(json_object_get(result, "kept"), i, one)
    {
        out_format(view->out, "%s is kept: ", member_text(one, "id"));
        out_escaped(view->out, member_text(one, "why"));
        out_text(view->out, "\n");
    }
}
