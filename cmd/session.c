/* The session that a command is about: where it is, and its transaction. */
#include "session.h"

#include "heap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *given_state(const struct request *request)
{
    if (request->settings.state)
        return request->settings.state;
    const char *env = secure_getenv("RIGMEM_STATE");
    return env && *env ? env : NULL;
}

bool session_in_memory(const struct request *request)
{
    return request->settings.memory && !given_state(request);
}

static const char *default_state(char *text, size_t bytes)
{
    const char *base = secure_getenv("XDG_STATE_HOME"), *home = secure_getenv("HOME");
    int written = -1;
    if (geteuid() == 0)
        written = snprintf(text, bytes, "/run/rigmem/session.json");
    else if (base && base[0] == '/')
        written = snprintf(text, bytes, "%s/rigmem/session.json", base);
    else if (home && home[0] == '/')
        written = snprintf(text, bytes, "%s/.local/state/rigmem/session.json", home);
    return written > 0 && (size_t)written < bytes ? text : NULL;
}

const char *session_path(const struct request *request, struct reply *reply, char *text,
                         size_t bytes)
{
    if (session_in_memory(request))
        return NULL;
    const char *given = given_state(request);
    if (given)
        return given;
    const char *path = default_state(text, bytes);
    if (!path)
        reply_fail(reply, RIG_INVALID, "--state", "-s FILE names one",
                   "there is no place for a state file: neither HOME nor XDG_STATE_HOME is set");
    return path;
}

void session_make_directories(const struct request *request)
{
    char text[4096];
    if (request->settings.dry_run || session_in_memory(request) || given_state(request) ||
        !default_state(text, sizeof text))
        return;
    for (char *slash = strchr(text + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(text, 0700) != 0 && errno != EEXIST)
            return;
        *slash = '/';
    }
}

/* Cuts the default path at the first directory that a dry run does not make: what stands above it
   is checked, and nothing is there. */
static void cut_at_missing(char *path)
{
    struct stat st;
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (lstat(path, &st) != 0 && errno == ENOENT)
            return;
        *slash = '/';
    }
}

static void add_warnings(struct reply *reply, const struct rig_session *s)
{
    for (size_t i = 0; rig_session_warning(s, i); i++)
        add(reply, reply->warnings, text_json(rig_session_warning(s, i)));
}

/* ---- whose machine it is */

static bool same_source(const char *given, const char *session)
{
    char *whole = realpath(given, NULL);
    bool same = strcmp(given, session) == 0 || (whole && strcmp(whole, session) == 0);
    free(whole);
    return same;
}

/* The machine that -m and the facts describe is the session's. */
static bool check_machine(const struct request *request, struct reply *reply,
                          const struct rig_session *s)
{
    /* The script's or shell's own are said of a session of its own when that is opened. */
    const struct request *outer = session_in_memory(request) ? NULL : request->settings.outer;
    bool facts = request_has_fact(request) || (outer && request_has_fact(outer));
    const char *source = request_value(request, OPT_MACHINE);
    if (!source && outer)
        source = request_value(outer, OPT_MACHINE);
    if (!facts && (!source || same_source(source, rig_session_source(s))))
        return true;
    struct rig_topology *t;
    if (!machine_load(request, reply, source ? source : rig_session_source(s), &t))
        return false;
    char *mine = NULL;
    char *its = rig_session_capture(s);
    size_t bytes;
    json_t *a = NULL, *b = NULL;
    if (its && rig_topology_capture(t, false, &mine, &bytes, &reply->err) == RIG_OK) {
        a = json_loads(mine, 0, NULL);
        b = json_loads(its, 0, NULL);
    }
    bool same = a && b && json_equal(a, b);
    if (!same)
        reply_fail(reply, RIG_INVALID, source ? source : "facts",
                   "close the session first, or name another with -s",
                   "the session is of another machine: %s", rig_session_source(s));
    json_decref(a);
    json_decref(b);
    free(mine);
    free(its);
    rig_topology_free(t);
    return same;
}

/* ---- the transaction */

static struct rig_session *begin(const struct request *request, struct reply *reply,
                                 enum rig_session_use use)
{
    struct rig_session *s = NULL;
    if (session_in_memory(request)) {
        struct rig_session **slot = request->settings.memory;
        if (!*slot && rig_session_begin(NULL, RIG_SESSION_CHANGE, slot, &reply->err) != RIG_OK)
            return NULL;
        rig_session_turn(*slot);
        return *slot;
    }
    char text[4096];
    const char *path = session_path(request, reply, text, sizeof text);
    if (!path)
        return NULL;
    if (request->settings.dry_run && use == RIG_SESSION_CHANGE) {
        use = RIG_SESSION_TRY;
        if (path == text)
            cut_at_missing(text);
    }
    heap_expect(path);
    return rig_session_begin(path, use, &s, &reply->err) == RIG_OK ? s : NULL;
}

void session_missing(struct reply *reply)
{
    reply_fail(reply, RIG_INVALID, NULL, "rigmem open -m FILE starts one", "no session is open");
}

struct rig_session *session_enter(const struct request *request, struct reply *reply,
                                  enum rig_session_use use, bool may_start)
{
    struct rig_session *s = begin(request, reply, use);
    if (!s)
        return NULL;
    add_warnings(reply, s);
    if (!rig_session_is_open(s)) {
        if (may_start)
            return s;
        session_missing(reply);
    } else if (check_machine(request, reply, s)) {
        return s;
    }
    session_abandon(request, s);
    return NULL;
}

void session_abandon(const struct request *request, struct rig_session *s)
{
    if (!session_in_memory(request))
        rig_session_end(s);
}

void session_leave(const struct request *request, struct reply *reply, struct rig_session *s)
{
    struct rig_error err = {.status = RIG_OK};
    if (rig_session_commit(s, &err) != RIG_OK && reply->err.status == RIG_OK)
        reply->err = err;
    session_abandon(request, s);
}

/* ---- its machine, for the commands that look */

static bool take_as_opened(struct reply *reply, const struct rig_session *s, struct rig_topology *t)
{
    struct rig_gpus *gpus = rig_session_gpus(s);
    for (size_t i = 0; i < rig_gpus_count(gpus); i++) {
        struct rig_memory_info info;
        char name[RIG_BDF_MAX];
        rig_memory_info(rig_gpus_memory(gpus, i), &info);
        if (info.life == RIG_LIFE_STOPPED)
            continue;
        rig_bdf_format(info.function, name);
        if (rig_topology_set_gpu_memory(t, name, info.bytes, &reply->err) != RIG_OK ||
            rig_topology_set_tables(t, name, info.space, info.address_bits, &reply->err) !=
                RIG_OK ||
            (info.linked && rig_topology_link(t, name, info.link.fabric, &reply->err) != RIG_OK))
            return false;
    }
    return true;
}

static bool load_topology(const struct request *request, struct reply *reply,
                          const struct rig_session *s, struct rig_topology **out)
{
    (void)request;
    char *capture = rig_session_capture(s);
    struct rig_topology *t = NULL;
    if (!capture)
        reply_fail(reply, RIG_FAILED, NULL, NULL, "out of memory");
    bool whole = capture && rig_topology_parse(rig_session_source(s), capture, strlen(capture), &t,
                                               &reply->err) == RIG_OK;
    free(capture);
    if (whole && take_as_opened(reply, s, t)) {
        *out = t;
        return true;
    }
    rig_topology_free(t);
    return false;
}

bool session_topology(const struct request *request, struct reply *reply, enum rig_session_use use,
                      struct rig_topology **out)
{
    if (request_has(request, OPT_MACHINE) ||
        (!given_state(request) && !(request->settings.memory && *request->settings.memory)))
        return false;
    struct rig_session *s = begin(request, reply, use);
    if (!s)
        return false;
    bool there = rig_session_is_open(s) && load_topology(request, reply, s, out);
    session_abandon(request, s);
    return there;
}

/* ---- arguments */

bool size_argument(struct reply *reply, const char *text, uint64_t *out)
{
    return rig_size_parse(text, out, &reply->err) == RIG_OK;
}

bool address_argument(struct reply *reply, const char *text, uint64_t *out)
{
    struct rig_error err = {.status = RIG_OK};
    size_t length = strlen(text);
    bool plain = length > 0 && strspn(text, "0123456789abcdefABCDEFxX_") == length;
    if (plain && (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')))
        plain = rig_size_parse(text, out, &err) == RIG_OK;
    else if (plain)
        plain = strspn(text, "0123456789_") == length && rig_size_parse(text, out, &err) == RIG_OK;
    if (!plain)
        reply_fail(reply, RIG_INVALID, text, "the form is 0x200000000000", "is no address");
    return plain;
}

bool access_arguments(const struct request *request, struct reply *reply,
                      const struct rig_session *s, struct rig_access *out, int *out_rest,
                      uint64_t *out_bytes)
{
    const char *name = request->argument[0];
    const struct rig_topology *t = rig_machine_topology(rig_session_machine(s));
    uint64_t offset = 0;
    int rest = 1;
    *out = (struct rig_access){.by = request_value(request, OPT_BY)};
    *out_bytes = UINT64_MAX;
    if (rig_topology_find(t, name) >= 0) {
        out->gpu = name;
        if (request->arguments < 2) {
            reply_fail(reply, RIG_INVALID, "ADDRESS", NULL, "is missing after a GPU");
            return false;
        }
        if (!address_argument(reply, request->argument[rest++], &out->at))
            return false;
    } else if (rig_session_region(s, name, &out->region, &reply->err) != RIG_OK) {
        return false;
    }
    if (request->arguments > rest && !size_argument(reply, request->argument[rest++], &offset))
        return false;
    struct rig_region_info info;
    if (out->region.memory && rig_region_info(out->region, &info, &reply->err) == RIG_OK)
        *out_bytes = offset < info.bytes ? info.bytes - offset : 0;
    if (__builtin_add_overflow(out->at, offset, &out->at)) {
        reply_fail(reply, RIG_INVALID, name, NULL, "the offset ends beyond 64 bits");
        return false;
    }
    *out_rest = rest;
    return true;
}
