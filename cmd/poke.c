#include "session.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BYTES (UINT64_C(16) << 20)

static int digit(char c)
{
    const char *digits = "0123456789abcdef";
    const char *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + ('a' - 'A') : c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* --data HEX: pairs of digits, 0x before them or not, `_` and spaces between bytes. */
static unsigned char *read_data(struct reply *reply, const char *text, uint64_t *out_bytes)
{
    unsigned char *data = malloc(strlen(text) / 2 + 1);
    size_t bytes = 0;
    const char *p = text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? text + 2 : text;
    while (data && *p) {
        if (*p == '_' || *p == ' ') {
            p++;
            continue;
        }
        int high = digit(p[0]), low = high < 0 ? -1 : digit(p[1]);
        if (low < 0)
            break;
        data[bytes++] = (unsigned char)(high << 4 | low);
        p += 2;
    }
    if (!data)
        reply_fail(reply, RIG_FAILED, NULL, NULL, "out of memory");
    else if (*p || bytes == 0)
        reply_fail(reply, RIG_INVALID, "--data", "the form is --data 00ff1234",
                   "'%s' is no even number of hex digits", text);
    *out_bytes = bytes;
    return data;
}

static unsigned char *read_fill(const struct request *request, struct reply *reply,
                                uint64_t *out_bytes)
{
    const char *length = request_value(request, OPT_LENGTH),
               *fill = request_value(request, OPT_FILL);
    struct rig_error unread = {.status = RIG_OK};
    uint64_t byte = 0;
    if (!length)
        reply_fail(reply, RIG_INVALID, "--length", NULL, "goes with --fill, and is missing");
    else if (rig_size_parse(fill, &byte, &unread) != RIG_OK || byte > 255)
        reply_fail(reply, RIG_INVALID, "--fill", NULL, "'%s' is no byte: 0 to 255, or 0x00 to 0xff",
                   fill);
    if (reply->err.status != RIG_OK || !size_argument(reply, length, out_bytes))
        return NULL;
    if (*out_bytes == 0 || *out_bytes > MOST_BYTES) {
        reply_fail(reply, RIG_INVALID, "--length", NULL, "is 1 byte to 16 MiB");
        return NULL;
    }
    unsigned char *data = malloc(*out_bytes);
    if (data)
        memset(data, (int)byte, *out_bytes);
    else
        reply_fail(reply, RIG_FAILED, NULL, NULL, "out of memory");
    return data;
}

static unsigned char *read_bytes(const struct request *request, struct reply *reply,
                                 uint64_t *out_bytes)
{
    const char *data = request_value(request, OPT_DATA);
    if (data && request_has(request, OPT_FILL))
        reply_fail(reply, RIG_INVALID, "--fill", NULL, "does not go with --data");
    else if (data && request_has(request, OPT_LENGTH))
        reply_fail(reply, RIG_INVALID, "--length", NULL, "goes with --fill");
    else if (data)
        return read_data(reply, data, out_bytes);
    else if (request_has(request, OPT_FILL))
        return read_fill(request, reply, out_bytes);
    else
        reply_fail(reply, RIG_INVALID, "--data", "or --fill BYTE --length N", "is missing");
    return NULL;
}

/* A dry run reads what it would write, by the same way. */
static bool put_bytes(const struct request *request, struct reply *reply, struct rig_session *s,
                      const struct rig_access *access, unsigned char *data, uint64_t bytes)
{
    if (request->settings.dry_run)
        return rig_session_read(s, access, data, bytes, &reply->err) == RIG_OK;
    return rig_session_write(s, access, data, bytes, &reply->err) == RIG_OK;
}

void poke_run(const struct request *request, struct reply *reply)
{
    uint64_t bytes = 0, there;
    struct rig_access access;
    int rest;
    unsigned char *data = read_bytes(request, reply, &bytes);
    struct rig_session *s = NULL;
    if (reply->err.status == RIG_OK)
        s = session_enter(request, reply,
                          request->settings.dry_run ? RIG_SESSION_LOOK : RIG_SESSION_CHANGE, false);
    if (s && access_arguments(request, reply, s, &access, &rest, &there)) {
        if (request->arguments > rest)
            reply_fail(reply, RIG_INVALID, request->argument[rest], NULL, "one argument too many");
        else if (bytes > there)
            reply_fail(reply, RIG_INVALID, request->argument[0], NULL,
                       "%llu bytes end beyond the region", (unsigned long long)bytes);
        else if (put_bytes(request, reply, s, &access, data, bytes)) {
            uint64_t base = access.region.memory ? rig_region_address(access.region) : 0;
            reply->result = json_object();
            put(reply, reply->result, "address", address_json(base + access.at));
            put(reply, reply->result, "bytes", json_integer((json_int_t)bytes));
        }
    }
    if (s)
        session_leave(request, reply, s);
    free(data);
}

void poke_text(struct view *view, const json_t *result)
{
    long long bytes = member_number(result, "bytes");
    out_format(view->out, "%lld byte%s at %s\n", bytes, bytes == 1 ? "" : "s",
               member_text(result, "address"));
}
