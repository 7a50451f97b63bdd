#include "topology/capture_scan.h"

#include "base/json.h"

#include <string.h>

/* A place in a text, for messages. */
struct place_in_text {
    size_t line, column;
};

static struct place_in_text place_of(const char *data, const char *at)
{
    struct place_in_text p = {1, 1};
    for (const char *c = data; c < at; c++) {
        p.column++;
        if (*c == '\n')
            p = (struct place_in_text){p.line + 1, 1};
    }
    return p;
}

/* The end of the string whose first quote is at *at. */
static const char *skip_string(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\' && at + 1 < end)
            at++;
    return at;
}

/* jansson builds every value it meets; so their number and depth are bounded before. */
static enum rig_status check_bounds(const char *name, const char *data, size_t bytes,
                                    struct rig_error *err)
{
    const char *end = data + bytes;
    size_t depth = 0, values = 1;
    for (const char *at = data; at < end; at++) {
        if (*at == '"') {
            at = skip_string(at, end);
            if (at == end)
                break;
        } else if (*at == '{' || *at == '[') {
            depth++;
            values++;
        } else if ((*at == '}' || *at == ']') && depth > 0)
            depth--;
        else if (*at == ',')
            values++;
        if (depth <= CAPTURE_MAX_DEPTH && values <= CAPTURE_MAX_VALUES)
            continue;
        struct place_in_text p = place_of(data, at);
        return rig_fail_at(err, name, p.line, p.column,
                           depth > CAPTURE_MAX_DEPTH ? "the JSON is nested deeper than %d levels"
                                                     : "the JSON holds more than %d values",
                           depth > CAPTURE_MAX_DEPTH ? CAPTURE_MAX_DEPTH : CAPTURE_MAX_VALUES);
    }
    return RIG_OK;
}

static enum rig_status refuse_syntax(const char *name, const json_error_t *error,
                                     struct rig_error *err)
{
    size_t line = error->line > 0 ? (size_t)error->line : 0;
    size_t column = error->column > 0 ? (size_t)error->column : 0;
    rig_fail_at(err, name, line, column, "%s", error->text);
    if (json_error_code(error) == json_error_numeric_overflow)
        rig_hint(err, "write a number above 63 bits as a hex string, \"0x…\"");
    else
        rig_hint(err, "rigmem-machine(5) describes the format; 'rigmem capture' writes it");
    return RIG_BAD_INPUT;
}

enum rig_status capture_scan(const char *name, const char *data, size_t bytes, json_t **out_root,
                             struct rig_error *err)
{
    if (bytes >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0) {
        data += 3; /* a byte order mark that an editor put there */
        bytes -= 3;
    }
    if (bytes > CAPTURE_MAX_BYTES)
        return rig_fail_at(err, name, 0, 0, "the JSON has more than %zu MiB",
                           CAPTURE_MAX_BYTES >> 20);
    enum rig_status status = check_bounds(name, data, bytes, err);
    if (status != RIG_OK)
        return status;
    json_error_t error;
    json_t *root = json_whole(data, bytes, &error);
    if (!root && json_ran_out(&error))
        return rig_fail_memory(err);
    if (!root)
        return refuse_syntax(name, &error, err);
    if (!json_is_object(root)) {
        json_decref(root);
        rig_fail_at(err, name, 1, 1, "a JSON list, where a capture is an object");
        rig_hint(err, "make a capture with 'rigmem capture'");
        return RIG_BAD_INPUT;
    }
    *out_root = root;
    return RIG_OK;
}

/* Documents that people hand over by mistake, by a key that each has at its top. */
static const struct {
    const char *key, *what;
} foreign[] = {
    {"schema", "the output of a rigmem command, which is for reading"},
    {"session", "a session's state file"},
    {"lshw", "lshw's"},
    {"blockdevices", "lsblk's"},
    {"lscpu", "lscpu's"},
    {"sysinfo", "a system report's"},
};

void capture_refuse_foreign(const char *name, json_t *root, struct rig_error *err)
{
    const char *format = json_string_value(json_object_get(root, "format"));
    if (format) {
        rig_fail_at(err, name, 0, 0, "JSON of the format \"%.60s\", not a capture", format);
    } else {
        const char *what = NULL;
        for (size_t i = 0; !what && i < RIG_ARRAY_LENGTH(foreign); i++)
            if (json_object_get(root, foreign[i].key))
                what = foreign[i].what;
        if (!what && json_object_get(root, "id") && json_object_get(root, "class"))
            what = "lshw's";
        rig_fail_at(err, name, 0, 0, "this JSON is %s, not a capture%s",
                    what ? what : "some other program's",
                    what ? "" : ": it has no \"format\": \"rigmem-machine\"");
    }
    rig_hint(err, "make a capture on the machine with 'rigmem capture -o FILE'");
}
