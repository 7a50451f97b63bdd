#include "session/session.h"

#include "base/json.h"
#include "gpu/save.h"
#include "machine/function.h"
#include "machine/twin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void session_warn(struct rig_session *s, const char *format, ...)
{
    if (s->warnings == WARNINGS_MAX)
        return;
    va_list list;
    va_start(list, format);
    char *text;
    if (vasprintf(&text, format, list) >= 0)
        s->warning[s->warnings++] = text;
    va_end(list);
}

const char *rig_session_warning(const struct rig_session *s, size_t i)
{
    return i < s->warnings ? s->warning[i] : NULL;
}

enum rig_status rig_session_left(const struct rig_session *s, struct rig_error *err)
{
    if (err && err->status == RIG_OK)
        *err = s->stays;
    return s->stays.status;
}

/* ---- signals: a transaction is over before one is heard */

static void block_signals(struct rig_session *s)
{
    sigset_t all;
    sigemptyset(&all);
    static const int waiting[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXFSZ};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(waiting); i++)
        sigaddset(&all, waiting[i]);
    s->blocked = pthread_sigmask(SIG_BLOCK, &all, &s->before) == 0;
}

/* A write beyond the limit on files raises SIGXFSZ and fails: the failure is told instead. */
static void let_signals(struct rig_session *s)
{
    if (!s->blocked)
        return;
    sigset_t waiting;
    struct timespec none = {0};
    sigemptyset(&waiting);
    sigaddset(&waiting, SIGXFSZ);
    while (sigtimedwait(&waiting, NULL, &none) == SIGXFSZ)
        continue;
    s->blocked = false;
    pthread_sigmask(SIG_SETMASK, &s->before, NULL);
}

/* ---- begin */

/* The directory of memory files, where the use is of it. Who only looks makes none. */
static enum rig_status open_memory(const struct rig_session *s, bool there, char **out_path,
                                   int *out_fd, struct rig_error *err)
{
    *out_path = NULL;
    *out_fd = -1;
    if (s->use != RIG_SESSION_CHANGE && !(s->use == RIG_SESSION_LOOK && there))
        return RIG_OK;
    enum rig_status status = place_memory(&s->place, out_path, out_fd, err);
    return status == RIG_OK ? place_check_memory(&s->place, *out_fd, err) : status;
}

/* The text goes as soon as it is read: what is made of it takes its place. */
static enum rig_status load(struct rig_session *s, char *take_text, size_t bytes,
                            struct rig_error *err)
{
    char *memory = NULL;
    int fd = -1;
    json_t *document = NULL;
    bool there = place_has_memory(&s->place);
    enum rig_status status = document_read(s, take_text, bytes, &document, err);
    free(take_text);
    if (status == RIG_OK)
        status = open_memory(s, there, &memory, &fd, err);
    if (status == RIG_OK)
        status = document_open(s, document, memory, err);
    else
        json_decref(document);
    if (status != RIG_OK && memory && !there) {
        session_drop(s);
        place_remove_memory(&s->place, NULL);
    }
    if (fd >= 0)
        close(fd);
    free(memory);
    return status;
}

static enum rig_status recover(struct rig_session *s, struct rig_error *err)
{
    char *lines;
    size_t bytes;
    enum rig_status status = place_read(&s->place, ".intent", &lines, &bytes, err);
    if (status != RIG_OK)
        return status;
    if (lines && bytes == strlen(lines))
        status = request_recover(s, lines, err);
    free(lines);
    return status;
}

/* What stays keeps the lock there, which tells the next command that there is something to remove.
 */
static void clean(struct rig_session *s)
{
    bool any;
    struct rig_error why = {.status = RIG_OK};
    s->left = place_clean(&s->place, &any, &why) != RIG_OK;
    if (s->left) {
        rig_fail(&s->stays, why.status, why.what,
                 "a command that was killed left it, and it cannot be removed: %s", why.why);
        rig_hint(&s->stays, "remove it, and recover removes the rest");
        session_warn(s,
                     "a command was killed as it opened or closed a session: what it left cannot "
                     "be removed: %s: %s",
                     why.what, why.why);
    } else if (any) {
        session_warn(s, "a command was killed as it opened or closed a session: what it left is "
                        "removed");
    }
}

static enum rig_status begin_file(struct rig_session *s, const char *path, struct rig_error *err)
{
    enum rig_status status = place_open(path, &s->place, err);
    if (status != RIG_OK || s->place.directory < 0)
        return status;
    /* Who only looks leaves nothing where there is no session. */
    if (s->use != RIG_SESSION_CHANGE && !place_exists(&s->place))
        return RIG_OK;
    /* The file is replaced as a whole, so that it can be read at any time. */
    bool glance = s->use == RIG_SESSION_GLANCE;
    if (!glance)
        status = place_lock(&s->place, err);
    if (status != RIG_OK)
        return status;
    block_signals(s);
    status = place_boot(s->boot, err);
    if (status != RIG_OK)
        return status;
    char *text;
    size_t bytes;
    status = place_read(&s->place, "", &text, &bytes, err);
    if (status == RIG_OK && !text && s->use == RIG_SESSION_CHANGE)
        clean(s);
    if (status != RIG_OK || !text)
        return status;
    status = load(s, text, bytes, err);
    if (glance)
        return status;
    if (status == RIG_OK)
        status = recover(s, err);
    if (status == RIG_OK)
        session_finish_releases(s);
    return status;
}

enum rig_status rig_session_begin(const char *path, enum rig_session_use use,
                                  struct rig_session **out_session, struct rig_error *err)
{
    struct rig_session *s = calloc(1, sizeof *s);
    if (!s)
        return rig_fail_memory(err);
    s->place.directory = s->place.lock = -1;
    s->use = use;
    s->next_file = FILES_START;
    enum rig_status status = path ? begin_file(s, path, err) : RIG_OK;
    if (status == RIG_OK)
        *out_session = s;
    else
        rig_session_end(s);
    return status;
}

void rig_session_turn(struct rig_session *s)
{
    if (s->machine)
        session_finish_releases(s);
}

bool rig_session_is_open(const struct rig_session *s)
{
    return s->machine != NULL;
}

/* ---- end */

static void forget(struct rig_session *s)
{
    files_drop(s);
    json_decref(s->capture);
    free(s->source);
    names_clear(&s->names);
    s->capture = NULL;
    s->source = NULL;
    s->last = 0;
    s->next_file = FILES_START;
}

void session_drop(struct rig_session *s)
{
    rig_gpus_free(s->gpus);
    if (s->machine)
        machine_detach(s->machine);
    s->gpus = NULL;
    s->machine = NULL;
    forget(s);
}

void rig_session_end(struct rig_session *take_session)
{
    struct rig_session *s = take_session;
    if (!s)
        return;
    if (s->machine && !s->place.path)
        rig_session_close(s, true, NULL);
    session_drop(s);
    if (s->place.lock >= 0 && !s->left && !place_exists(&s->place))
        place_remove(&s->place, ".lock", NULL);
    place_close(&s->place);
    let_signals(s);
    for (size_t i = 0; i < s->warnings; i++)
        free(s->warning[i]);
    free(s);
}

enum rig_status rig_session_commit(struct rig_session *s, struct rig_error *err)
{
    if (!s->place.path || s->use != RIG_SESSION_CHANGE || !s->changed || !s->machine)
        return RIG_OK;
    request_forget_names(s);
    char *text;
    enum rig_status status = document_text(s, &text, err);
    if (status != RIG_OK)
        return status;
    status = place_write(&s->place, text, strlen(text), err);
    free(text);
    if (status != RIG_OK)
        return status;
    s->generation++;
    s->changed = false;
    place_remove(&s->place, ".intent", NULL);
    return place_sync(&s->place, err);
}

/* ---- start, take, release, close */

/* The capture of t, as the state file has it. */
static json_t *capture_of(const struct rig_topology *t)
{
    char *text = NULL;
    size_t bytes = 0;
    if (rig_topology_capture(t, false, &text, &bytes, NULL) != RIG_OK)
        return NULL;
    json_error_t where;
    json_t *capture = json_whole(text, bytes, &where);
    free(text);
    return capture;
}

static enum rig_status open_twin(struct rig_session *s, const struct rig_topology *t,
                                 struct rig_error *err)
{
    char *memory = NULL;
    int fd = -1;
    enum rig_status status = RIG_OK;
    if (s->place.path && s->use != RIG_SESSION_TRY)
        status = place_memory(&s->place, &memory, &fd, err);
    if (status == RIG_OK)
        status = rig_twin_open(t, memory, &s->machine, err);
    if (fd >= 0)
        close(fd);
    free(memory);
    return status;
}

enum rig_status rig_session_start(struct rig_session *s, const struct rig_topology *t,
                                  const char *source, const struct rig_gpus_options *options,
                                  struct rig_error *err)
{
    if (s->machine)
        return rig_fail(err, RIG_INVALID, s->source, "a session of it is open");
    if (s->place.path && s->place.directory < 0)
        return rig_fail(err, RIG_REFUSED, s->place.path, "its directory does not exist");
    if (s->place.path && !json_is_utf8(source))
        return rig_fail(err, RIG_INVALID, source,
                        "its name is no UTF-8, as a state file's text is");
    /* Where somebody removed the lock of an earlier session, place_clean leaves its lines, which
       would count for this one. */
    enum rig_status status = s->place.lock >= 0 ? place_remove(&s->place, ".intent", err) : RIG_OK;
    if (status != RIG_OK)
        return status;
    s->capture = capture_of(t);
    s->source = strdup(source);
    status = s->capture && s->source ? RIG_OK : rig_fail_memory(err);
    if (status == RIG_OK)
        status = open_twin(s, t, err);
    if (status == RIG_OK)
        status = rig_gpus_create(s->machine, options, &s->gpus, err);
    if (status == RIG_OK) {
        s->changed = true;
        return RIG_OK;
    }
    session_drop(s);
    if (s->place.lock >= 0)
        s->left = place_remove_memory(&s->place, NULL) != RIG_OK;
    return status;
}

struct rig_machine *rig_session_machine(const struct rig_session *s)
{
    return s->machine;
}

struct rig_gpus *rig_session_gpus(const struct rig_session *s)
{
    return s->gpus;
}

const char *rig_session_source(const struct rig_session *s)
{
    return s->source;
}

char *rig_session_capture(const struct rig_session *s)
{
    return json_dumps(s->capture, JSON_COMPACT | JSON_SORT_KEYS);
}

static enum rig_status take(struct rig_session *s, const char *gpu,
                            const struct rig_memory_options *options, bool master,
                            struct rig_memory **out_memory, struct rig_error *err)
{
    struct rig_device *dev;
    enum rig_status status = rig_device_take(s->machine, gpu, &dev, err);
    if (status != RIG_OK)
        return status;
    status = rig_memory_create(s->gpus, dev, options, out_memory, err);
    if (status != RIG_OK) {
        rig_device_release(dev, NULL);
        return status;
    }
    if (master)
        status = rig_device_set_master(dev, true, err);
    if (status != RIG_OK)
        rig_memory_release(*out_memory, NULL);
    return status;
}

enum rig_status rig_session_take(struct rig_session *s, const char *gpu,
                                 const struct rig_memory_options *options, bool master,
                                 struct rig_memory **out_memory, struct rig_error *err)
{
    struct rig_memory *m;
    s->changed = true;
    twin_quiet(s->machine, true);
    enum rig_status status = take(s, gpu, options, master, &m, err);
    twin_quiet(s->machine, false);
    if (status == RIG_OK)
        *out_memory = m;
    return status;
}

enum rig_status rig_session_link(struct rig_session *s, unsigned fabric,
                                 const char *const *functions, int count,
                                 struct rig_link *out_links, struct rig_error *err)
{
    s->changed = true;
    return rig_gpus_link(s->gpus, fabric, functions, count, out_links, err);
}

enum rig_status rig_session_release(struct rig_session *s, struct rig_memory *m,
                                    struct rig_error *err)
{
    s->changed = true;
    twin_quiet(s->machine, true);
    enum rig_status status = rig_memory_release(m, err);
    twin_quiet(s->machine, false);
    return status;
}

/* RIG_REFUSED, naming it, where a client may still write memory it was given. The session's own
   GPUs master no more before anything of a reserved GPU goes back. */
static enum rig_status check_clients(struct rig_session *s, struct rig_error *err)
{
    const struct rig_topology *t = rig_machine_topology(s->machine);
    struct rig_region region = {.id = 0};
    while (rig_gpus_next_region(s->gpus, region.id, &region)) {
        struct rig_bdf client;
        for (size_t i = 0; rig_region_client(region, i, &client); i++) {
            int function = rig_topology_find_bdf(t, client);
            if (function < 0 || gpus_memory_of(s->gpus, function) ||
                !machine_masters(s->machine, function))
                continue;
            char name[RIG_BDF_MAX];
            rig_fail(err, RIG_REFUSED, rig_bdf_format(client, name),
                     "it was given memory of r%llu and still masters the bus",
                     (unsigned long long)region.id);
            rig_hint(err, "a driver would stop it; on a twin nothing does: close --force");
            return RIG_REFUSED;
        }
    }
    return RIG_OK;
}

static enum rig_status release_all(struct rig_session *s, struct rig_error *err)
{
    enum rig_status first = RIG_OK;
    for (size_t i = 0; i < rig_gpus_count(s->gpus); i++) {
        struct rig_memory_info info;
        struct rig_memory *m = rig_gpus_memory(s->gpus, i);
        rig_memory_info(m, &info);
        if (info.life == RIG_LIFE_STOPPED)
            continue;
        enum rig_status status = rig_session_release(s, m, first == RIG_OK ? err : NULL);
        first = first == RIG_OK ? status : first;
    }
    return first;
}

/* The file goes before all that stands beside it: while it stays, the session does. */
static enum rig_status remove_file(struct rig_session *s, struct rig_error *err)
{
    struct rig_error why = {.status = RIG_OK};
    if (place_remove(&s->place, "", &why) == RIG_OK)
        return RIG_OK;
    return rig_fail(err, RIG_FAILED, s->place.path,
                    "it cannot be removed, so the session is open: %s", why.why);
}

static enum rig_status remove_rest(struct rig_session *s, struct rig_error *err)
{
    struct rig_error why = {.status = RIG_OK};
    /* The lock that stays tells the next command that there is something to remove. */
    s->left = place_remove_rest(&s->place, &why) != RIG_OK;
    place_sync(&s->place, &why);
    if (why.status == RIG_OK)
        return RIG_OK;
    rig_fail(err, RIG_FAILED, why.what, "%s; the session is closed", why.why);
    if (s->left)
        rig_hint(err, "once it can be removed, recover does so");
    return RIG_FAILED;
}

enum rig_status rig_session_close(struct rig_session *s, bool force, struct rig_error *err)
{
    bool filed = s->place.path && s->use == RIG_SESSION_CHANGE;
    enum rig_status status = force ? RIG_OK : check_clients(s, err);
    if (status != RIG_OK)
        return status;
    status = release_all(s, force ? NULL : err);
    if (status != RIG_OK && !force) {
        rig_hint(err, "close --force ends the session all the same");
        return status;
    }
    status = filed ? remove_file(s, err) : RIG_OK;
    if (status != RIG_OK)
        return status;
    rig_gpus_free(s->gpus);
    s->gpus = NULL;
    twin_quiet(s->machine, true);
    status = rig_machine_close(s->machine, force ? NULL : err);
    s->machine = NULL;
    forget(s);
    s->changed = false;
    enum rig_status removed = filed ? remove_rest(s, err) : RIG_OK;
    return status == RIG_OK || force ? removed : status;
}
