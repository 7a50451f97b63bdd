#include "session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINKED_MAX 256
#define LINK_NAME 64

/* What `open` has been told of links, and what it took, to be given back where it fails. */
struct opening {
    const struct request *request;
    struct reply *reply;
    struct rig_session *s;
    const struct rig_topology *t;
    bool started;
    struct rig_link *link; /* by function number */
    bool *linked;
    struct rig_memory **taken;
    int taken_count;
};

/* ---- the session */

/* The machine's source as any directory finds it again, in UTF-8: a state file holds no other text.
 */
static char *whole_source(const char *source)
{
    char *whole = realpath(source, NULL);
    if (!whole && errno == ENOMEM)
        return NULL;
    json_t *text = text_json(whole ? whole : source);
    free(whole);
    char *spelled = text ? strdup(json_string_value(text)) : NULL;
    json_decref(text);
    return spelled;
}

static bool start(struct opening *o)
{
    const char *source = source_name(o->request);
    if (strcmp(source, "live") == 0) {
        reply_fail(o->reply, RIG_REFUSED, "live",
                   "rigmem capture -o FILE, then rigmem open -m FILE: a twin of this machine",
                   "only twins can be opened: this machine's own functions are not driven");
        return false;
    }
    struct rig_topology *t;
    if (!machine_load(o->request, o->reply, source, &t))
        return false;
    char *whole = whole_source(source);
    if (!whole)
        reply_fail(o->reply, RIG_FAILED, NULL, NULL, "out of memory");
    o->started = whole && rig_session_start(o->s, t, whole, NULL, &o->reply->err) == RIG_OK;
    free(whole);
    rig_topology_free(t);
    return o->started;
}

/* ---- links: N:GPU,GPU */

static int read_link(char names[LINKED_MAX][LINK_NAME], const char *text)
{
    int count = 0;
    while (count < LINKED_MAX) {
        size_t length = strcspn(text, ",");
        if (length == 0 || length >= LINK_NAME)
            return 0;
        memcpy(names[count], text, length);
        names[count++][length] = '\0';
        if (!text[length])
            return count;
        text += length + 1;
    }
    return 0;
}

static bool link_some(struct opening *o, const char *value)
{
    char(*names)[LINK_NAME] = calloc(LINKED_MAX, sizeof *names);
    const char **list = calloc(LINKED_MAX, sizeof *list);
    struct rig_link *links = calloc(LINKED_MAX, sizeof *links);
    size_t digits = strspn(value, "0123456789");
    unsigned long fabric = strtoul(value, NULL, 10);
    int count = 0;
    if (!names || !list || !links)
        reply_fail(o->reply, RIG_FAILED, NULL, NULL, "out of memory");
    else if (digits == 0 || value[digits] != ':' || fabric > 255 ||
             (count = read_link(names, value + digits + 1)) == 0)
        reply_fail(o->reply, RIG_INVALID, "--link", "the form is --link N:GPU,GPU",
                   "'%s' does not read", value);
    for (int i = 0; i < count; i++)
        list[i] = names[i];
    bool linked = count > 0 && rig_session_link(o->s, (unsigned)fabric, list, count, links,
                                                &o->reply->err) == RIG_OK;
    for (int i = 0; linked && i < count; i++) {
        int function = rig_topology_find(o->t, list[i]);
        o->link[function] = links[i];
        o->linked[function] = true;
    }
    free(names);
    free(list);
    free(links);
    return linked;
}

static bool link_all(struct opening *o)
{
    for (int i = 0; i < o->request->givens; i++)
        if (o->request->given[i].option->id == OPT_LINK &&
            !link_some(o, o->request->given[i].value))
            return false;
    return true;
}

/* ---- GPUs */

static bool take(struct opening *o, int function, bool named)
{
    char name[RIG_BDF_MAX];
    rig_bdf_format(rig_topology_function(o->t, function)->bdf, name);
    struct rig_memory_options options = {
        .format = request_value(o->request, OPT_FORMAT),
        .bar = -1,
        .combining = request_has(o->request, OPT_COMBINE),
        .link = o->linked[function] ? &o->link[function] : NULL,
    };
    struct rig_error err = {.status = RIG_OK};
    struct rig_memory *m;
    enum rig_status status =
        rig_session_take(o->s, name, &options, request_has(o->request, OPT_MASTER), &m, &err);
    if (status == RIG_OK) {
        o->taken[o->taken_count++] = m;
        return true;
    }
    if (named || status != RIG_UNKNOWN) {
        o->reply->err = err;
        return false;
    }
    char text[1024];
    snprintf(text, sizeof text, "%s is not opened: %s", name, err.why);
    add(o->reply, o->reply->warnings, text_json(text));
    return true;
}

static bool take_named(struct opening *o)
{
    for (int i = 0; i < o->request->arguments; i++) {
        int function = machine_function(o->reply, o->t, o->request->argument[i]);
        if (function < 0 || !take(o, function, true))
            return false;
    }
    return true;
}

static bool may_have_memory(const struct rig_function *f)
{
    return f->gpu && (f->memory_bar >= 0 || f->bar[0].flags.know == RIG_FACT_UNKNOWN);
}

/* Every GPU with a memory BAR that the session does not have. */
static bool take_all(struct opening *o)
{
    int gpus = 0;
    for (int i = 0; i < rig_topology_count(o->t); i++) {
        const struct rig_function *f = rig_topology_function(o->t, i);
        char name[RIG_BDF_MAX];
        struct rig_memory *m;
        if (!may_have_memory(f))
            continue;
        gpus++;
        if (rig_session_gpu(o->s, rig_bdf_format(f->bdf, name), &m, NULL) != RIG_OK &&
            !take(o, i, false))
            return false;
    }
    if (gpus == 0)
        reply_fail(o->reply, RIG_REFUSED, rig_session_source(o->s),
                   "rigmem list shows its functions; --gpu FUNCTION names a GPU",
                   "the machine has no GPU with a memory BAR");
    else if (o->taken_count == 0 && o->started)
        reply_fail(o->reply, RIG_UNKNOWN, rig_session_source(o->s),
                   "rigmem open GPU says what is missing", "none of its GPUs can be opened");
    return o->reply->err.status == RIG_OK;
}

static bool open_all(struct opening *o)
{
    o->t = rig_machine_topology(rig_session_machine(o->s));
    size_t count = (size_t)rig_topology_count(o->t) + 1;
    o->link = calloc(count, sizeof *o->link);
    o->linked = calloc(count, sizeof *o->linked);
    o->taken = calloc(count + (size_t)o->request->arguments, sizeof(struct rig_memory *));
    if (!o->link || !o->linked || !o->taken)
        reply_fail(o->reply, RIG_FAILED, NULL, NULL, "out of memory");
    return o->taken && o->link && o->linked && link_all(o) &&
           (o->request->arguments > 0 ? take_named(o) : take_all(o));
}

void open_run(const struct request *request, struct reply *reply)
{
    struct opening o = {.request = request, .reply = reply};
    session_make_directories(request);
    o.s = session_enter(request, reply, RIG_SESSION_CHANGE, true);
    if (!o.s)
        return;
    bool opened = (rig_session_is_open(o.s) || start(&o)) && open_all(&o);
    if (opened) {
        reply->result = session_json(request, reply, o.s, NULL, NULL);
        session_leave(request, reply, o.s);
    } else {
        for (int i = 0; i < o.taken_count; i++)
            rig_session_release(o.s, o.taken[i], NULL);
        if (o.started)
            rig_session_close(o.s, true, NULL);
        session_abandon(request, o.s);
    }
    free(o.link);
    free(o.linked);
    free(o.taken);
}
