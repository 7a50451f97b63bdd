#include "handlers.h"

#include <stdlib.h>
#include <string.h>

/* With -o the result is the file; else the capture itself: as text with its layout, in a JSON
   document as part of it. */
static void capture_result(const struct request *request, struct reply *reply, const char *text,
                           size_t bytes)
{
    const char *path = request_value(request, OPT_OUTPUT);
    reply->result = json_object();
    if (path && strcmp(path, "-") != 0) {
        if (file_write(path, text, bytes, request->settings.dry_run, &reply->err) != RIG_OK)
            return;
        put(reply, reply->result, "file", text_json(path));
        put(reply, reply->result, "bytes", json_integer((json_int_t)bytes));
    } else if (request->settings.json) {
        put(reply, reply->result, "capture", json_loadb(text, bytes, 0, NULL));
    } else {
        put(reply, reply->result, "text", json_stringn(text, bytes));
    }
}

void capture_run(const struct request *request, struct reply *reply)
{
    struct rig_topology *t;
    if (!machine_load(request, reply, source_name(request), &t))
        return;
    char *text = NULL;
    size_t bytes = 0;
    if (rig_topology_capture(t, request_has(request, OPT_REDACT), &text, &bytes, &reply->err) ==
        RIG_OK)
        capture_result(request, reply, text, bytes);
    free(text);
    rig_topology_free(t);
}

void capture_text(struct view *view, const json_t *result)
{
    out_text(view->out, member_text(result, "text"));
}
