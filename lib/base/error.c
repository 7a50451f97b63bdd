#define RIG_DEFINES_FAIL
#include "base/base.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

void rig_error_clear(struct rig_error *err)
{
    if (err)
        memset(err, 0, sizeof *err);
}

const char *rig_status_name(enum rig_status status)
{
    switch (status) {
    case RIG_OK:
        return "ok";
    case RIG_INVALID:
        return "invalid";
    case RIG_REFUSED:
        return "refused";
    case RIG_NO_ROOM:
        return "no-room";
    case RIG_BAD_INPUT:
        return "bad-input";
    case RIG_UNKNOWN:
        return "unknown";
    case RIG_FAILED:
        return "failed";
    }
    return "failed";
}

const char *rig_errno_text(int error, char text[RIG_ERRNO_MAX])
{
    char room[RIG_ERRNO_MAX];
    snprintf(text, RIG_ERRNO_MAX, "%s", strerror_r(error, room, sizeof room));
    if (text[0] && !isupper((unsigned char)text[1]))
        text[0] = (char)tolower((unsigned char)text[0]);
    return text;
}

static bool takes(const struct rig_error *err)
{
    return err && err->status == RIG_OK;
}

enum rig_status rig_fail(struct rig_error *err, enum rig_status status, const char *what,
                         const char *format, ...)
{
    if (!takes(err))
        return status;
    err->status = status;
    snprintf(err->what, sizeof err->what, "%s", what ? what : "");
    va_list args;
    va_start(args, format);
    vsnprintf(err->why, sizeof err->why, format, args);
    va_end(args);
    return status;
}

enum rig_status rig_fail_at(struct rig_error *err, const char *file, size_t line, size_t column,
                            const char *format, ...)
{
    if (!takes(err))
        return RIG_BAD_INPUT;
    err->status = RIG_BAD_INPUT;
    snprintf(err->what, sizeof err->what, "%s", file);
    if (line == 0)
        snprintf(err->where, sizeof err->where, "%.250s", file);
    else if (column == 0)
        snprintf(err->where, sizeof err->where, "%.200s:%zu", file, line);
    else
        snprintf(err->where, sizeof err->where, "%.200s:%zu:%zu", file, line, column);
    va_list args;
    va_start(args, format);
    vsnprintf(err->why, sizeof err->why, format, args);
    va_end(args);
    return RIG_BAD_INPUT;
}

void rig_hint(struct rig_error *err, const char *format, ...)
{
    if (!err || err->status == RIG_OK || err->hint[0])
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(err->hint, sizeof err->hint, format, args);
    va_end(args);
}

static const char out_of_memory[] = "out of memory";

enum rig_status rig_fail_memory(struct rig_error *err)
{
    return rig_fail(err, RIG_FAILED, NULL, "%s", out_of_memory);
}

bool rig_is_memory(const struct rig_error *err)
{
    return err->status == RIG_FAILED && strcmp(err->why, out_of_memory) == 0;
}
