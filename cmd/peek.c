#include "session.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_BYTES 64
/* More is for a program that maps the file. */
#define MOST_BYTES (UINT64_C(16) << 20)
#define LINE_BYTES 16

static char *hex_of(const unsigned char *data, size_t bytes)
{
    char *text = malloc(bytes * 2 + 1);
    for (size_t i = 0; text && i < bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", data[i]);
    if (text)
        text[bytes * 2] = '\0';
    return text;
}

static bool read_length(const struct request *request, struct reply *reply, int rest,
                        uint64_t there, uint64_t *out)
{
    *out = there < DEFAULT_BYTES ? there : DEFAULT_BYTES;
    if (there == 0) {
        reply_fail(reply, RIG_INVALID, request->argument[rest - 1], NULL, "is not within %s",
                   request->argument[0]);
        return false;
    }
    if (request->arguments > rest + 1) {
        reply_fail(reply, RIG_INVALID, request->argument[rest + 1], NULL, "one argument too many");
        return false;
    }
    if (request->arguments > rest && !size_argument(reply, request->argument[rest], out))
        return false;
    if (*out == 0 || *out > MOST_BYTES)
        reply_fail(reply, RIG_INVALID, "LENGTH", NULL, "is 1 byte to 16 MiB");
    return reply->err.status == RIG_OK;
}

static void peek_result(struct reply *reply, struct rig_session *s, const struct rig_access *a,
                        uint64_t bytes)
{
    unsigned char *data = malloc(bytes);
    char *hex = NULL;
    if (!data)
        reply_fail(reply, RIG_FAILED, NULL, NULL, "out of memory");
    else if (rig_session_read(s, a, data, bytes, &reply->err) == RIG_OK)
        hex = hex_of(data, bytes);
    if (hex) {
        uint64_t base = a->region.memory ? rig_region_address(a->region) : 0;
        reply->result = json_object();
        put(reply, reply->result, "address", address_json(base + a->at));
        put(reply, reply->result, "bytes", json_integer((json_int_t)bytes));
        put(reply, reply->result, "data", json_string(hex));
    }
    free(hex);
    free(data);
}

void peek_run(const struct request *request, struct reply *reply)
{
    /* a look by a device fills its translation cache; a dry one too, and forgets it */
    bool changes = request_has(request, OPT_BY) && !request->settings.dry_run;
    struct rig_session *s =
        session_enter(request, reply, changes ? RIG_SESSION_CHANGE : RIG_SESSION_LOOK, false);
    struct rig_access access;
    uint64_t there, bytes;
    int rest;
    if (!s)
        return;
    if (access_arguments(request, reply, s, &access, &rest, &there) &&
        read_length(request, reply, rest, there, &bytes))
        peek_result(reply, s, &access, bytes);
    session_leave(request, reply, s);
}

static unsigned digit(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a') + 10;
}

void peek_text(struct view *view, const json_t *result)
{
    const char *hex = member_text(result, "data");
    uint64_t at = strtoull(member_text(result, "address"), NULL, 16);
    size_t bytes = strlen(hex) / 2;
    for (size_t i = 0; i < bytes; i += LINE_BYTES) {
        size_t n = bytes - i < LINE_BYTES ? bytes - i : LINE_BYTES;
        char text[LINE_BYTES + 1] = "";
        out_format(view->out, "0x%012" PRIx64 " ", at + i);
        for (size_t k = 0; k < n; k++) {
            unsigned byte = digit(hex[2 * (i + k)]) << 4 | digit(hex[2 * (i + k) + 1]);
            out_format(view->out, " %02x", byte);
            text[k] = (char)(byte < 0x80 && isprint((int)byte) ? byte : '.');
        }
        out_spaces(view->out, 3 * (LINE_BYTES - n) + 2);
        out_format(view->out, "%s\n", text);
    }
}
