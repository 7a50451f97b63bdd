/* A session's document and intent: any bytes are a session or refused with a reason, a session that
   was read works, and what a killed command had begun is taken up or is none of this session's. */
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* The document up to a zero byte, then the lines of the intent. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct rig_session *s;
    struct rig_error err;
    rig_error_clear(&err);
    if (rig_session_begin(NULL, RIG_SESSION_TRY, &s, NULL) != RIG_OK)
        return 0;
    const char *text = (const char *)data;
    const char *end = memchr(text, '\0', bytes);
    size_t length = end ? (size_t)(end - text) : bytes;
    char name[] = "fuzz";
    s->place.path = name;
    strcpy(s->boot, "this");
    json_t *document = NULL;
    enum rig_status status = document_read(s, text, length, &document, &err);
    if (status == RIG_OK)
        status = document_open(s, document, NULL, &err);
    if (status == RIG_OK && end) {
        char *lines = strndup(end + 1, bytes - length - 1);
        if (lines)
            request_recover(s, lines, NULL);
        free(lines);
    }
    if (status == RIG_OK) {
        struct rig_region region;
        char *again = NULL;
        session_finish_releases(s);
        rig_session_alloc(s, "gpu0", RIG_KIND_GPU, 8192, false, "new", &region, NULL);
        rig_session_map_peer(s, "gpu1", "new", NULL, &region, NULL);
        rig_session_free(s, "new", &region, NULL);
        if (document_text(s, &again, &err) != RIG_OK && err.status != RIG_FAILED)
            abort();
        free(again);
    } else if (!err.why[0] ||
               (status != RIG_BAD_INPUT && status != RIG_REFUSED && status != RIG_FAILED)) {
        abort();
    }
    s->place.path = NULL;
    session_drop(s);
    rig_session_end(s);
    return 0;
}
