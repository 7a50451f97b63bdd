#include "session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A region that is called `name`, also one that was freed and is kept. */
static bool find_region(const struct rig_session *s, const char *name, struct rig_region *out)
{
    if (rig_session_region(s, name, out, NULL) == RIG_OK)
        return true;
    struct rig_region region = {.id = 0};
    while (rig_gpus_next_region(rig_session_gpus(s), region.id, &region)) {
        char id[24];
        snprintf(id, sizeof id, "r%" PRIu64, region.id);
        if (strcmp(id, name) == 0) {
            *out = region;
            return true;
        }
    }
    return false;
}

/* The latest memory of the GPU `name`, released or not; NULL: it is none. */
static struct rig_memory *find_gpu(const struct rig_session *s, const char *name)
{
    const struct rig_topology *t = rig_machine_topology(rig_session_machine(s));
    struct rig_memory *found = NULL;
    int number = rig_topology_find(t, name);
    for (size_t i = 0; i < rig_gpus_count(rig_session_gpus(s)); i++) {
        struct rig_memory_info info;
        struct rig_memory *m = rig_gpus_memory(rig_session_gpus(s), i);
        rig_memory_info(m, &info);
        if (info.number == number)
            found = m;
    }
    return found;
}

void show_run(const struct request *request, struct reply *reply)
{
    struct rig_session *s = session_enter(request, reply, RIG_SESSION_LOOK, false);
    if (!s)
        return;
    struct rig_memory *gpu = NULL;
    struct rig_region region;
    bool one = false;
    if (request->arguments > 0) {
        one = find_region(s, request->argument[0], &region);
        gpu = one ? NULL : find_gpu(s, request->argument[0]);
        if (!one && !gpu)
            reply_fail(reply, RIG_INVALID, request->argument[0], "rigmem show lists what there is",
                       "the session has no such GPU or region");
    }
    if (reply->err.status == RIG_OK)
        reply->result = session_json(request, reply, s, gpu, one ? &region : NULL);
    session_abandon(request, s);
}
