#include "session.h"

/* What is to be borrowed. Shapes: bytes of a file, 0 for all from the offset on; or of the process.
 */
struct borrowed {
    const char *path;
    uint64_t address, offset, bytes;
};

static bool read_borrowed(const struct request *request, struct reply *reply, struct borrowed *b)
{
    int rest = request->arguments - 1;
    const char *offset = request_value(request, OPT_OFFSET);
    b->path = request_value(request, OPT_FILE);
    if (b->path) {
        if (rest > 1)
            reply_fail(reply, RIG_INVALID, request->argument[2], NULL,
                       "one argument too many beside --file");
        else if (rest == 1 && size_argument(reply, request->argument[1], &b->bytes) &&
                 b->bytes == 0)
            reply_fail(reply, RIG_INVALID, request->argument[1], NULL, "0 bytes of memory");
        else if (offset)
            size_argument(reply, offset, &b->offset);
    } else if (offset) {
        reply_fail(reply, RIG_INVALID, "--offset", NULL, "goes with --file");
    } else if (rest != 2) {
        reply_fail(reply, RIG_INVALID, rest == 0 ? "ADDRESS" : "SIZE", "or give --file PATH",
                   "is missing");
    } else if (address_argument(reply, request->argument[1], &b->address)) {
        size_argument(reply, request->argument[2], &b->bytes);
    }
    return reply->err.status == RIG_OK;
}

void map_host_run(const struct request *request, struct reply *reply)
{
    struct borrowed b = {.path = NULL};
    struct rig_region region;
    if (!read_borrowed(request, reply, &b))
        return;
    struct rig_session *s = session_enter(request, reply, RIG_SESSION_CHANGE, false);
    if (!s)
        return;
    const char *gpu = request->argument[0], *name = request_value(request, OPT_NAME);
    enum rig_status status =
        b.path ? rig_session_map_file(s, gpu, b.path, b.offset, b.bytes, name, &region, &reply->err)
               : rig_session_map_host(s, gpu, b.address, b.bytes, name, &region, &reply->err);
    if (status == RIG_OK)
        region_made(reply, s, region);
    session_leave(request, reply, s);
}
