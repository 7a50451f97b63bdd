/* Requests on a session: names, the intent, faults, and what a killed process had begun. */
#include "session/session.h"

#include "base/json.h"
#include "gpu/save.h"
#include "machine/twin.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const verb_name[VERBS] = {
    [VERB_ALLOC] = "alloc",       [VERB_MAP_HOST] = "map-host", [VERB_MAP_FILE] = "map-file",
    [VERB_MAP_PEER] = "map-peer", [VERB_FREE] = "free",         [VERB_BUS] = "bus",
};

static enum rig_status not_open(struct rig_error *err)
{
    rig_fail(err, RIG_INVALID, NULL, "no session is open");
    rig_hint(err, "rigmem open -m FILE starts one");
    return RIG_INVALID;
}

/* ---- names */

static bool is_number(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text);
}

static enum rig_status check_name(const struct rig_session *s, const char *text,
                                  struct rig_error *err)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    if (!text)
        return RIG_OK;
    size_t length = strlen(text);
    if (length == 0 || length >= NAME_BYTES || strspn(text, allowed) != length ||
        !strchr(allowed, text[0]) || strchr("0123456789-.", text[0]))
        return rig_fail(err, RIG_INVALID, text,
                        "a name is a letter or _, then letters, digits, _ - and ., at most %d",
                        NAME_BYTES - 1);
    if (text[0] == 'r' && is_number(text + 1))
        return rig_fail(err, RIG_INVALID, text, "names of that form are ids");
    if (rig_topology_find(rig_machine_topology(s->machine), text) >= 0)
        return rig_fail(err, RIG_INVALID, text, "a function of the machine is called so");
    uint64_t other = names_find(&s->names, text);
    struct rig_region region;
    struct rig_region_info info;
    if (other && gpus_region_named(s->gpus, other, &region) &&
        rig_region_info(region, &info, NULL) == RIG_OK && info.out)
        return rig_fail(err, RIG_INVALID, text, "r%" PRIu64 " has this name", other);
    return RIG_OK;
}

const char *rig_session_region_name(const struct rig_session *s, uint64_t id)
{
    return names_of(&s->names, id);
}

/* Ids of names whose regions are gone. */
struct gone {
    const struct rig_session *s;
    uint64_t *id;
    size_t count, room;
};

static void note_gone(const struct name *name, void *context)
{
    struct gone *g = context;
    struct rig_region region;
    if (gpus_region_named(g->s->gpus, name->id, &region))
        return;
    if (g->count == g->room) {
        size_t room = g->room * 2 + 16;
        uint64_t *grown = realloc(g->id, room * sizeof *grown);
        if (!grown)
            return; /* it stays until the next time */
        g->id = grown;
        g->room = room;
    }
    g->id[g->count++] = name->id;
}

void request_forget_names(struct rig_session *s)
{
    struct gone g = {.s = s};
    names_each(&s->names, note_gone, &g);
    for (size_t i = 0; i < g.count; i++)
        names_drop(&s->names, g.id[i]);
    free(g.id);
}

static uint64_t id_of(const struct rig_session *s, const char *name)
{
    if (strcmp(name, "@last") == 0)
        return s->last;
    uint64_t given = names_find(&s->names, name);
    if (given)
        return given;
    if (name[0] != 'r' || !is_number(name + 1) || name[1] == '0' || strlen(name) > 19)
        return 0;
    return strtoull(name + 1, NULL, 10);
}

enum rig_status rig_session_region(const struct rig_session *s, const char *name,
                                   struct rig_region *out_region, struct rig_error *err)
{
    if (!s->gpus)
        return not_open(err);
    uint64_t id = id_of(s, name);
    struct rig_region region;
    struct rig_region_info info;
    if (id == 0 || !gpus_region_named(s->gpus, id, &region) ||
        rig_region_info(region, &info, NULL) != RIG_OK) {
        rig_fail(err, RIG_INVALID, name,
                 id ? "no such region: it was freed, or never was" : "no region is called so");
        rig_hint(err, "rigmem show lists the regions");
        return RIG_INVALID;
    }
    if (!info.out)
        return rig_fail(err, RIG_INVALID, name, "it was freed");
    *out_region = region;
    return RIG_OK;
}

enum rig_status rig_session_gpu(const struct rig_session *s, const char *name,
                                struct rig_memory **out_memory, struct rig_error *err)
{
    if (!s->gpus)
        return not_open(err);
    int function = rig_topology_find(rig_machine_topology(s->machine), name);
    if (function < 0) {
        rig_fail(err, RIG_INVALID, name, "no such function");
        rig_hint(err, "rigmem list shows the functions and their aliases");
        return RIG_INVALID;
    }
    struct rig_memory *m = gpus_memory_of(s->gpus, function);
    if (!m) {
        rig_fail(err, RIG_INVALID, name, "the session does not have this GPU");
        if (rig_topology_function(rig_machine_topology(s->machine), function)->memory_bar >= 0)
            rig_hint(err, "rigmem open %s takes it", name);
        return RIG_INVALID;
    }
    *out_memory = m;
    return RIG_OK;
}

/* ---- the intent: a line of JSON a request */

static json_t *intent_of(const struct rig_session *s, const struct request *r)
{
    return json_pack("{sI ss si si sI sb so sI ss? sI ss?}", "generation",
                     (json_int_t)s->generation, "verb", verb_name[r->verb], "gpu", r->gpu, "kind",
                     (int)r->kind, "bytes", (json_int_t)r->bytes, "uncached", r->uncached,
                     "address", json_hex(r->address), "offset", (json_int_t)r->offset, "path",
                     r->path, "id", (json_int_t)r->id, "client", r->client);
}

static enum rig_status write_intent(const struct rig_session *s, const struct request *r,
                                    uint64_t *out_before, struct rig_error *err)
{
    json_t *intent = intent_of(s, r);
    char *text = intent ? json_dumps(intent, JSON_COMPACT) : NULL;
    json_decref(intent);
    if (!text)
        return rig_fail_memory(err);
    size_t bytes = strlen(text);
    text[bytes] = '\n'; /* in place of the NUL: the line is written by its length */
    enum rig_status status = place_append(&s->place, text, bytes + 1, out_before, err);
    free(text);
    return status;
}

/* False: the line says nothing of this generation, or is not whole: nothing had begun; or,
 *out_lost, memory ran out. */
static bool read_intent(const struct rig_session *s, const json_t *j, struct request *r,
                        bool *out_lost)
{
    uint64_t generation, kind, gpu;
    const char *verb, *path = NULL, *client = NULL;
    if (!json_get_count(j, "generation", &generation) || generation != s->generation ||
        !json_get_text(j, "verb", &verb) || !json_get_count(j, "gpu", &gpu) || gpu > INT32_MAX ||
        !json_get_count(j, "kind", &kind) || kind > RIG_KIND_HOST ||
        !json_get_count(j, "bytes", &r->bytes) || !json_get_bool(j, "uncached", &r->uncached) ||
        !json_get_hex(j, "address", &r->address) || !json_get_count(j, "offset", &r->offset) ||
        !json_get_count(j, "id", &r->id))
        return false;
    r->gpu = (int)gpu;
    r->kind = (enum rig_kind)kind;
    json_get_text(j, "path", &path);
    json_get_text(j, "client", &client);
    int v = 0;
    while (v < VERBS && strcmp(verb_name[v], verb) != 0)
        v++;
    r->verb = (enum verb)v;
    r->path = path ? strdup(path) : NULL;
    r->client = client ? strdup(client) : NULL;
    *out_lost = (path && !r->path) || (client && !r->client);
    return !*out_lost && v < VERBS && (r->path || v != VERB_MAP_FILE) &&
           (r->client || v != VERB_BUS);
}

/* ---- running one */

/* What comes of a request. */
struct outcome {
    struct rig_region region;
    struct rig_bus_range *ranges;
    size_t count;
};

static enum rig_status run_file(struct rig_session *s, struct request *r, struct rig_memory *m,
                                struct outcome *out, struct rig_error *err)
{
    enum rig_status status = file_map(s, r, err);
    if (status != RIG_OK)
        return status;
    status = rig_memory_map_host(m, (void *)(uintptr_t)r->address, r->bytes, &out->region, err);
    if (status == RIG_OK)
        s->file[s->files - 1].id = out->region.id;
    else if (status != RIG_FAILED)
        file_unmap_last(s);
    return status;
}

static enum rig_status run(struct rig_session *s, struct request *r, struct outcome *out,
                           struct rig_error *err)
{
    struct rig_memory *m = gpus_memory_of(s->gpus, r->gpu);
    struct rig_region region = {.id = 0};
    if (r->id && !gpus_region_named(s->gpus, r->id, &region))
        return rig_fail(err, RIG_INVALID, NULL, "r%" PRIu64 " is gone", r->id);
    if (r->verb == VERB_FREE || r->verb == VERB_BUS)
        m = region.memory;
    if (!m)
        return rig_fail(err, RIG_INVALID, NULL, "the session does not have the GPU");
    switch (r->verb) {
    case VERB_ALLOC:
        return rig_memory_alloc(m, r->kind, r->bytes, r->uncached, &out->region, err);
    case VERB_MAP_HOST:
        return rig_memory_map_host(m, (void *)(uintptr_t)r->address, r->bytes, &out->region, err);
    case VERB_MAP_FILE:
        return run_file(s, r, m, out, err);
    case VERB_MAP_PEER:
        return rig_memory_map_peer(m, region, &out->region, err);
    case VERB_FREE:
        out->region = region;
        return rig_memory_free(m, region, err);
    default:
        return rig_memory_bus(m, region, r->client, &out->ranges, &out->count, err);
    }
}

/* Runs a request that is no misuse as far as names go. */
static enum rig_status perform(struct rig_session *s, struct request *r, struct outcome *out,
                               struct rig_error *err)
{
    uint64_t before = 0;
    bool intends = s->place.lock >= 0 && s->use == RIG_SESSION_CHANGE;
    enum rig_status status = intends ? write_intent(s, r, &before, err) : RIG_OK;
    if (status != RIG_OK)
        return status;
    status = run(s, r, out, err);
    if (status == RIG_INVALID) {
        if (intends)
            place_cut(&s->place, before);
        return status;
    }
    s->changed = true;
    rig_twin_fault(s->machine, "ok", NULL);
    return status;
}

static enum rig_status make_region(struct rig_session *s, struct request *r, const char *name,
                                   struct rig_region *out_region, struct rig_error *err)
{
    enum rig_status status = check_name(s, name, err);
    struct outcome out = {.ranges = NULL};
    if (status == RIG_OK)
        status = perform(s, r, &out, err);
    if (status != RIG_OK)
        return status;
    s->last = out.region.id;
    *out_region = out.region;
    if (name && !names_add(&s->names, name, out.region.id))
        return rig_fail_memory(err);
    return RIG_OK;
}

/* ---- the requests */

static enum rig_status of_gpu(const struct rig_session *s, const char *gpu, struct request *r,
                              struct rig_error *err)
{
    struct rig_memory *m;
    struct rig_memory_info info;
    enum rig_status status = rig_session_gpu(s, gpu, &m, err);
    if (status != RIG_OK)
        return status;
    rig_memory_info(m, &info);
    r->gpu = info.number;
    return RIG_OK;
}

enum rig_status rig_session_alloc(struct rig_session *s, const char *gpu, enum rig_kind kind,
                                  uint64_t bytes, bool uncached, const char *name,
                                  struct rig_region *out_region, struct rig_error *err)
{
    struct request r = {.verb = VERB_ALLOC, .kind = kind, .bytes = bytes, .uncached = uncached};
    enum rig_status status = of_gpu(s, gpu, &r, err);
    return status == RIG_OK ? make_region(s, &r, name, out_region, err) : status;
}

enum rig_status rig_session_map_peer(struct rig_session *s, const char *gpu, const char *region,
                                     const char *name, struct rig_region *out_region,
                                     struct rig_error *err)
{
    struct request r = {.verb = VERB_MAP_PEER};
    struct rig_region of;
    enum rig_status status = of_gpu(s, gpu, &r, err);
    if (status == RIG_OK)
        status = rig_session_region(s, region, &of, err);
    if (status != RIG_OK)
        return status;
    r.id = of.id;
    return make_region(s, &r, name, out_region, err);
}

/* What the process of the session sees: host regions' addresses are checked by the machine, which
   knows the pages; the rest are mapped files. */
static bool sees(const struct rig_session *s, uint64_t address, uint64_t bytes)
{
    for (size_t i = 0; i < s->files; i++) {
        const struct mapped_file *f = &s->file[i];
        if (f->there && address >= f->address && address - f->address < f->bytes)
            return f->bytes - (address - f->address) >= bytes;
    }
    for (size_t i = 0; i < rig_gpus_count(s->gpus); i++) {
        struct rig_memory_info info;
        rig_memory_info(rig_gpus_memory(s->gpus, i), &info);
        if (address >= info.space_base && address - info.space_base < info.space_bytes)
            return info.space_bytes - (address - info.space_base) >= bytes;
    }
    return false;
}

enum rig_status rig_session_map_host(struct rig_session *s, const char *gpu, uint64_t address,
                                     uint64_t bytes, const char *name,
                                     struct rig_region *out_region, struct rig_error *err)
{
    struct request r = {.verb = VERB_MAP_HOST, .address = address, .bytes = bytes};
    enum rig_status status = of_gpu(s, gpu, &r, err);
    if (status != RIG_OK)
        return status;
    if (bytes > 0 && !sees(s, address, bytes)) {
        rig_fail(err, RIG_REFUSED, NULL,
                 "0x%" PRIx64 "+0x%" PRIx64 " is neither in a host region nor in a mapped file",
                 address, bytes);
        rig_hint(err, "rigmem show lists the addresses; --file PATH maps a file");
        return RIG_REFUSED;
    }
    return make_region(s, &r, name, out_region, err);
}

enum rig_status rig_session_map_file(struct rig_session *s, const char *gpu, const char *path,
                                     uint64_t offset, uint64_t bytes, const char *name,
                                     struct rig_region *out_region, struct rig_error *err)
{
    struct request r = {.verb = VERB_MAP_FILE, .offset = offset, .bytes = bytes};
    enum rig_status status = of_gpu(s, gpu, &r, err);
    if (status == RIG_OK)
        status = file_check_name(s, path, err);
    if (status != RIG_OK)
        return status;
    r.path = strdup(path);
    status = r.path ? make_region(s, &r, name, out_region, err) : rig_fail_memory(err);
    free(r.path);
    return status;
}

enum rig_status rig_session_free(struct rig_session *s, const char *region,
                                 struct rig_region *out_region, struct rig_error *err)
{
    struct rig_region of;
    struct outcome out = {.ranges = NULL};
    enum rig_status status = rig_session_region(s, region, &of, err);
    if (status != RIG_OK)
        return status;
    struct request r = {.verb = VERB_FREE, .id = of.id};
    status = perform(s, &r, &out, err);
    if (status != RIG_INVALID)
        names_drop(&s->names, of.id);
    if (status == RIG_OK)
        *out_region = of;
    return status;
}

enum rig_status rig_session_bus(struct rig_session *s, const char *region, const char *client,
                                struct rig_bus_range **out_ranges, size_t *out_count,
                                struct rig_error *err)
{
    struct rig_region of;
    struct outcome out = {.ranges = NULL};
    enum rig_status status = rig_session_region(s, region, &of, err);
    if (status != RIG_OK)
        return status;
    if (!json_is_utf8(client))
        return rig_fail(err, RIG_REFUSED, client, "it is no bus address of a function");
    struct request r = {.verb = VERB_BUS, .id = of.id, .client = strdup(client)};
    status = r.client ? perform(s, &r, &out, err) : rig_fail_memory(err);
    free(r.client);
    if (status != RIG_OK)
        return status;
    *out_ranges = out.ranges;
    *out_count = out.count;
    return RIG_OK;
}

bool rig_session_region_place(const struct rig_session *s, struct rig_region region,
                              struct rig_host_place *out_place)
{
    struct rig_host host;
    if (!gpus_region_host(region, &host) || !host.memory)
        return false;
    uint64_t at = (uint64_t)(uintptr_t)host.memory;
    *out_place = (struct rig_host_place){at, host.bytes, host.path, host.offset};
    for (size_t i = 0; i < s->files; i++) {
        const struct mapped_file *f = &s->file[i];
        if (at >= f->address && at - f->address < f->bytes) {
            out_place->path = f->path;
            out_place->offset = f->offset + (at - f->address);
        }
    }
    return true;
}

enum rig_status rig_session_fault(struct rig_session *s, const char *spec, struct rig_error *err)
{
    if (!s->machine)
        return not_open(err);
    enum rig_status status = rig_twin_fault(s->machine, spec, err);
    if (status == RIG_OK)
        s->changed = true;
    return status;
}

/* ---- what a process before had begun */

void session_finish_releases(struct rig_session *s)
{
    twin_quiet(s->machine, true);
    rig_gpus_finish_releases(s->gpus);
    twin_quiet(s->machine, false);
}

/* Where this process's memory runs out the request is not taken up, and nothing may go on. */
static enum rig_status recover_one(struct rig_session *s, struct request *r, struct rig_error *err)
{
    struct rig_error local = {.status = RIG_OK};
    struct outcome out = {.ranges = NULL};
    char what[96];
    if (r->id)
        snprintf(what, sizeof what, "%s of r%" PRIu64, verb_name[r->verb], r->id);
    else
        snprintf(what, sizeof what, "%s of %" PRIu64 " bytes", verb_name[r->verb], r->bytes);
    twin_quiet(s->machine, true);
    gpus_suppose(s->gpus, true);
    enum rig_status status = run(s, r, &out, &local);
    gpus_suppose(s->gpus, false);
    rig_twin_fault(s->machine, "ok", NULL);
    twin_quiet(s->machine, false);
    free(out.ranges);
    if (rig_is_memory(&local))
        return rig_fail_memory(err);
    s->changed = true;
    if (status == RIG_FAILED)
        session_warn(s,
                     "a command was killed in %s: what it took stays taken until the GPU is closed",
                     what);
    else
        session_warn(s, "a command was killed in %s, before it had written anything", what);
    return RIG_OK;
}

enum rig_status request_recover(struct rig_session *s, const char *lines, struct rig_error *err)
{
    enum rig_status status = RIG_OK;
    while (*lines && status == RIG_OK) {
        size_t bytes = strcspn(lines, "\n");
        json_error_t where = {.line = 0};
        json_t *j = lines[bytes] ? json_whole(lines, bytes, &where) : NULL;
        struct request r = {.path = NULL};
        bool lost = !j && json_ran_out(&where);
        bool whole = j && read_intent(s, j, &r, &lost);
        if (lost)
            status = rig_fail_memory(err);
        else if (whole)
            status = recover_one(s, &r, err);
        free(r.path);
        free(r.client);
        json_decref(j);
        lines += bytes + (lines[bytes] == '\n');
    }
    return status;
}
