/* The state file's document: rigmem-state(5). */
#include "session/session.h"

#include "base/json.h"
#include "gpu/save.h"
#include "machine/function.h"
#include "machine/twin.h"
#include "topology/capture_scan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FORMAT "rigmem-state"
/* 2: mappings and tables are texts at the end, and the boot is told. */
#define VERSION 2
#define NAMES_MAX 1000000
#define BOOT "boot"

/* ---- writing */

static json_t *saved_files(const struct rig_session *s)
{
    json_t *all = json_array();
    bool whole = all != NULL;
    for (size_t i = 0; i < s->files && whole; i++) {
        const struct mapped_file *f = &s->file[i];
        json_t *one = json_pack("{so sI ss sI sI}", "address", json_hex(f->address), "bytes",
                                (json_int_t)f->bytes, "path", f->path, "offset",
                                (json_int_t)f->offset, "region", (json_int_t)f->id);
        whole = json_array_append_new(all, one) == 0;
    }
    if (whole)
        return all;
    json_decref(all);
    return NULL;
}

/* Texts that make up most of a document: a member of each object of a list, or of one object, of
   which a list stands at the document's end. In order. */
static const struct bulk {
    const char *key, *room, *list;
} bulk[] = {
    {"mappings", "gpus", "memories"},
    {"tables", "gpus", "memories"},
    {"holds", "machine", "functions"},
    {"grants", "machine", "state"},
};

/* The i-th object that has the member, or NULL. */
static json_t *bulk_owner(const json_t *all, const struct bulk *b, size_t i)
{
    json_t *owners = json_object_get(json_object_get(all, b->room), b->list);
    if (json_is_array(owners))
        return json_array_get(owners, i);
    return i == 0 ? owners : NULL;
}

static bool take_bulk(json_t *all, const struct bulk *b)
{
    json_t *texts = json_array(), *one;
    bool whole = json_object_set_new(all, b->key, texts) == 0;
    for (size_t i = 0; whole && (one = bulk_owner(all, b, i)); i++) {
        whole = json_array_append(texts, json_object_get(one, b->key)) == 0;
        json_object_del(one, b->key);
    }
    return whole;
}

static enum rig_status document(struct rig_session *s, json_t **out, struct rig_error *err)
{
    json_t *gpus = NULL, *machine = NULL;
    enum rig_status status = gpus_save(s->gpus, &gpus, err);
    if (status == RIG_OK)
        status = machine_save(s->machine, &machine, err);
    if (status != RIG_OK) {
        json_decref(gpus);
        return status;
    }
    json_t *all = json_pack("{ss si sI ss ss sO sI so so so so so}", "format", FORMAT, "version",
                            VERSION, "generation", (json_int_t)s->generation + 1, BOOT, s->boot,
                            "source", s->source, "capture", s->capture, "last", (json_int_t)s->last,
                            "names", names_json(&s->names), "files", saved_files(s), "next_file",
                            json_hex(s->next_file), "gpus", gpus, "machine", machine);
    bool whole = all != NULL;
    for (size_t i = 0; whole && i < RIG_ARRAY_LENGTH(bulk); i++)
        whole = take_bulk(all, &bulk[i]);
    if (!whole) {
        json_decref(all);
        return rig_fail_memory(err);
    }
    *out = all;
    return RIG_OK;
}

enum rig_status document_text(struct rig_session *s, char **out_text, struct rig_error *err)
{
    json_t *all = NULL;
    enum rig_status status = document(s, &all, err);
    if (status != RIG_OK)
        return status;
    size_t bytes;
    char *text = json_text(all, &bytes);
    json_decref(all);
    if (!text)
        return rig_fail_memory(err);
    if (bytes > PLACE_MAX) {
        free(text);
        return rig_fail(err, RIG_FAILED, s->place.path, "it would be larger than 64 MiB");
    }
    *out_text = text;
    return RIG_OK;
}

/* ---- reading */

static enum rig_status bad(const struct rig_session *s, const char *what, struct rig_error *err)
{
    return rig_fail(err, RIG_BAD_INPUT, s->place.path, "%s is missing or wrong", what);
}

static enum rig_status read_names(struct rig_session *s, json_t *all, struct rig_error *err)
{
    enum rig_status status = names_load(&s->names, all, NAMES_MAX);
    if (status == RIG_FAILED)
        return rig_fail_memory(err);
    return status == RIG_OK ? RIG_OK : bad(s, "names", err);
}

static bool is_place_for_file(const struct mapped_file *f)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end;
    return f->bytes > 0 && f->address >= FILES_START && rig_add(f->address, f->bytes, &end) &&
           end <= FILES_END && f->offset <= INT64_MAX - f->bytes && f->bytes <= INT64_MAX &&
           (f->address & (page - 1)) == (f->offset & (page - 1));
}

static enum rig_status read_files(struct rig_session *s, const json_t *all, struct rig_error *err)
{
    size_t count = json_array_size(all), i;
    const json_t *one;
    if (!json_is_array(all) || count > NAMES_MAX)
        return bad(s, "files", err);
    s->file = calloc(count + 1, sizeof *s->file);
    if (!s->file)
        return rig_fail_memory(err);
    json_array_foreach(all, i, one)
    {
        struct mapped_file *f = &s->file[i];
        const char *path;
        if (!json_get_hex(one, "address", &f->address) ||
            !json_get_count(one, "bytes", &f->bytes) || !json_get_text(one, "path", &path) ||
            !json_get_count(one, "offset", &f->offset) || !json_get_count(one, "region", &f->id) ||
            !is_place_for_file(f) ||
            (i > 0 && f->address < s->file[i - 1].address + s->file[i - 1].bytes))
            return bad(s, "a mapped file", err);
        f->path = strdup(path);
        if (!f->path)
            return rig_fail_memory(err);
        s->files++;
    }
    return RIG_OK;
}

static enum rig_status check_version(const struct rig_session *s, const json_t *all,
                                     struct rig_error *err)
{
    uint64_t version;
    if (!json_get_count(all, "version", &version) || version == 0)
        return bad(s, "version", err);
    if (version == VERSION)
        return RIG_OK;
    rig_fail(err, RIG_BAD_INPUT, s->place.path,
             "this session is of version %" PRIu64 "; this rigmem reads version %d", version,
             VERSION);
    rig_hint(err, "close it with the rigmem that opened it");
    return RIG_BAD_INPUT;
}

static enum rig_status read_head(struct rig_session *s, const json_t *all, struct rig_error *err)
{
    const char *format, *source, *boot;
    if (!json_get_text(all, "format", &format) || strcmp(format, FORMAT) != 0)
        return rig_fail(err, RIG_BAD_INPUT, s->place.path, "it is no session: format is not %s",
                        FORMAT);
    enum rig_status status = check_version(s, all, err);
    if (status != RIG_OK)
        return status;
    if (!json_get_count(all, "generation", &s->generation) || s->generation >= INT64_MAX)
        return bad(s, "generation", err);
    if (!json_get_text(all, BOOT, &boot) || strlen(boot) >= sizeof s->boot)
        return bad(s, BOOT, err);
    if (!json_get_text(all, "source", &source))
        return bad(s, "source", err);
    if (!json_get_count(all, "last", &s->last))
        return bad(s, "last", err);
    if (!json_get_hex(all, "next_file", &s->next_file) || s->next_file < FILES_START ||
        s->next_file > FILES_END)
        return bad(s, "next_file", err);
    s->source = strdup(source);
    return s->source ? RIG_OK : rig_fail_memory(err);
}

static enum rig_status read_topology(struct rig_session *s, const json_t *all,
                                     struct rig_topology **out, struct rig_error *err)
{
    json_t *capture = json_object_get(all, "capture");
    if (!json_is_object(capture))
        return bad(s, "capture", err);
    s->capture = json_incref(capture);
    struct rig_error local = {.status = RIG_OK};
    enum rig_status status = read_capture_object("capture", capture, out, &local);
    if (status == RIG_FAILED)
        return rig_fail_memory(err);
    if (status != RIG_OK)
        return rig_fail(err, RIG_BAD_INPUT, s->place.path, "its capture: %s", local.why);
    return RIG_OK;
}

/* What a room below says of its part, said of the file. */
static enum rig_status pass_on(const struct rig_session *s, const struct rig_error *local,
                               struct rig_error *err)
{
    if (local->status != RIG_BAD_INPUT) {
        if (err && err->status == RIG_OK)
            *err = *local;
        return local->status;
    }
    return rig_fail(err, RIG_BAD_INPUT, s->place.path, "%s: %s", local->what, local->why);
}

/* Gives each object its text back. */
static enum rig_status give_bulk(const struct rig_session *s, const json_t *all,
                                 const struct bulk *b, struct rig_error *err)
{
    const json_t *texts = json_object_get(all, b->key);
    json_t *one;
    size_t i = 0;
    for (; (one = bulk_owner(all, b, i)); i++) {
        json_t *text = json_array_get(texts, i);
        if (!text || !json_is_object(one))
            return bad(s, b->key, err);
        if (json_object_set(one, b->key, text) != 0)
            return rig_fail_memory(err);
    }
    return json_array_size(texts) == i ? RIG_OK : bad(s, b->key, err);
}

static enum rig_status read_machine(struct rig_session *s, const json_t *all, const char *memory,
                                    struct rig_error *err)
{
    struct rig_topology *t;
    enum rig_status status = RIG_OK;
    for (size_t i = 0; status == RIG_OK && i < RIG_ARRAY_LENGTH(bulk); i++)
        status = give_bulk(s, all, &bulk[i], err);
    if (status == RIG_OK)
        status = read_topology(s, all, &t, err);
    if (status != RIG_OK)
        return status;
    struct rig_error local = {.status = RIG_OK};
    status = twin_reopen(t, memory, json_object_get(all, "machine"), &s->machine, &local);
    rig_topology_free(t);
    if (status != RIG_OK)
        return pass_on(s, &local, err);
    files_again(s);
    const char *before = json_string_value(json_object_get(all, BOOT));
    bool known = before[0] && s->boot[0], same = strcmp(before, s->boot) == 0;
    bool lost = s->use == RIG_SESSION_LOOK;
    if (memory)
        status = twin_lost_memory(s->machine, &lost, &local);
    if (status != RIG_OK)
        return pass_on(s, &local, err);
    bool anew = !known || !same || lost;
    const json_t *gpus = json_object_get(all, "gpus");
    status = anew ? gpus_restore_anew(s->machine, gpus, &s->gpus, &local)
                  : gpus_restore(s->machine, gpus, &s->gpus, &local);
    if (status != RIG_OK)
        return pass_on(s, &local, err);
    if (lost && memory && s->use == RIG_SESSION_CHANGE)
        status = twin_make_memory(s->machine, &local);
    if (status != RIG_OK)
        return pass_on(s, &local, err);
    s->changed = s->changed || anew;
    /* Where no boot is ever told, every command would say so. */
    if (!same)
        session_warn(s, "%s: the GPUs' tables are written again, and what memory held may be lost",
                     known ? "the machine was started since"
                           : "nothing tells whether the machine was started since");
    else if (lost)
        session_warn(
            s,
            "%s.d: memory is missing: the GPUs' tables are written again, and what it held "
            "is lost",
            s->place.path);
    return RIG_OK;
}

enum rig_status document_read(const struct rig_session *s, const char *text, size_t bytes,
                              json_t **out_document, struct rig_error *err)
{
    json_error_t where;
    json_t *all = json_whole(text, bytes, &where);
    if (!all && json_ran_out(&where))
        return rig_fail_memory(err);
    if (!all)
        return rig_fail_at(err, s->place.path, where.line > 0 ? (size_t)where.line : 1,
                           where.column > 0 ? (size_t)where.column : 1, "%s", where.text);
    if (!json_is_object(all)) {
        json_decref(all);
        return rig_fail(err, RIG_BAD_INPUT, s->place.path, "it is no object");
    }
    *out_document = all;
    return RIG_OK;
}

enum rig_status document_open(struct rig_session *s, json_t *take_document, const char *memory,
                              struct rig_error *err)
{
    json_t *all = take_document;
    enum rig_status status = read_head(s, all, err);
    if (status == RIG_OK)
        status = read_names(s, json_object_get(all, "names"), err);
    if (status == RIG_OK)
        status = read_files(s, json_object_get(all, "files"), err);
    if (status == RIG_OK)
        status = read_machine(s, all, memory, err);
    json_decref(all);
    return status;
}
