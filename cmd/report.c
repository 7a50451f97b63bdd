/* One command line from its words to its exit code, and how a reply is printed. */
#include "session.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void reply_fail(struct reply *reply, enum rig_status status, const char *what, const char *hint,
                const char *format, ...)
{
    struct rig_error *err = &reply->err;
    if (err->status != RIG_OK)
        return;
    err->status = status;
    snprintf(err->what, sizeof err->what, "%s", what ? what : "");
    va_list list;
    va_start(list, format);
    vsnprintf(err->why, sizeof err->why, format, list);
    va_end(list);
    snprintf(err->hint, sizeof err->hint, "%s", hint ? hint : "");
}

void reply_free(struct reply *reply)
{
    json_decref(reply->result);
    json_decref(reply->warnings);
    json_decref(reply->notes);
    if (reply->free_held)
        reply->free_held(reply->held);
    *reply = (struct reply){0};
}

void cli_execute(const struct request *request, struct reply *reply)
{
    reply->warnings = json_array();
    reply->notes = json_array();
    if (request->settings.dry_run && (request->command->flags & COMMAND_SESSION) &&
        session_in_memory(request))
        session_try(request, reply);
    else
        request->command->run(request, reply);
    if (reply->err.status == RIG_OK && (reply->no_memory || !reply->warnings || !reply->notes))
        reply_fail(reply, RIG_FAILED, NULL, NULL, "out of memory");
}

static const char *command_name(const struct request *request)
{
    return request->command ? request->command->name : NULL;
}

/* ---- errors and warnings on standard error */

static void flush_errors(struct out *errors)
{
    /* where standard error itself cannot be written there is nobody left to tell */
    (void)out_end(errors);
}

void cli_print_error(const struct request *request, const struct rig_error *err)
{
    struct out o;
    out_start(&o, STDERR_FILENO);
    out_text(&o, "rigmem: ");
    if (request->settings.where) {
        out_escaped(&o, request->settings.where);
        out_text(&o, ": ");
    }
    if (request->command)
        out_format(&o, "%s: ", request->command->name);
    const char *thing = *err->where ? err->where : err->what;
    if (*thing) {
        out_escaped(&o, thing);
        out_text(&o, ": ");
    }
    out_escaped(&o, err->why);
    out_text(&o, "\n");
    if (*err->hint) {
        out_text(&o, "hint: ");
        out_escaped(&o, err->hint);
        out_text(&o, "\n");
    }
    if (err->status == RIG_INVALID)
        out_format(&o, "see 'rigmem help%s%s'\n", request->command ? " " : "",
                   request->command ? request->command->name : "");
    flush_errors(&o);
}

static void print_lines(const json_t *lines, const char *before)
{
    struct out o;
    out_start(&o, STDERR_FILENO);
    size_t i;
    json_t *line;
    json_array_foreach(lines, i, line)
    {
        out_text(&o, before);
        out_escaped(&o, json_string_value(line));
        out_text(&o, "\n");
    }
    flush_errors(&o);
}

/* ---- the JSON document */

static int to_out(const char *data, size_t bytes, void *context)
{
    struct out *o = context;
    out_bytes(o, data, bytes);
    return o->error ? -1 : 0;
}

/* Everything outside ASCII is escaped, so that a document never disturbs a terminal. */
static void print_json(struct out *o, const json_t *value)
{
    size_t flags = JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII | JSON_ENCODE_ANY;
    if (json_dump_callback(value, to_out, o, flags) != 0 && !o->error)
        o->error = ENOMEM; /* a tree of ours has no other fault */
}

void print_json_value(struct view *view, const json_t *value)
{
    print_json(view->out, value);
}

static json_t *text_or_null(const char *text)
{
    return *text ? text_json(text) : json_null();
}

json_t *error_json(struct reply *reply)
{
    const struct rig_error *err = &reply->err;
    json_t *error = json_object();
    put(reply, error, "code", json_integer(err->status));
    put(reply, error, "kind", json_string(rig_status_name(err->status)));
    put(reply, error, "what", text_or_null(err->what));
    put(reply, error, "why", text_or_null(err->why));
    put(reply, error, "hint", text_or_null(err->hint));
    put(reply, error, "where", text_or_null(err->where));
    return error;
}

/* The members that say what came of it, `error` and from `ok` on, in the order of their keys. They
   are written by hand, since a result may be too large for a tree. */
static void print_error(struct out *o, struct reply *reply)
{
    if (reply->err.status == RIG_OK)
        return;
    out_text(o, "\"error\":");
    json_t *error = error_json(reply);
    print_json(o, error);
    json_decref(error);
    out_text(o, ",");
}

static enum rig_status print_outcome(struct view *view, struct reply *reply, struct rig_error *err)
{
    struct out *o = view->out;
    if (reply->err.status != RIG_OK) {
        out_text(o, "\"ok\":false");
        return RIG_OK;
    }
    out_text(o, "\"ok\":true,\"result\":");
    if (reply->print_json)
        return reply->print_json(view, reply->held, err);
    print_json(o, reply->result);
    return RIG_OK;
}

static enum rig_status print_document(struct view *view, struct reply *reply, struct rig_error *err)
{
    struct out *o = view->out;
    const char *name = command_name(view->request);
    out_text(o, "{\"command\":");
    out_format(o, name ? "\"%s\"," : "null,", name);
    print_error(o, reply);
    enum rig_status status = print_outcome(view, reply, err);
    out_text(o, ",\"schema\":\"rigmem/1\",\"warnings\":");
    print_json(o, reply->warnings);
    out_text(o, "}\n");
    return status;
}

/* "error" of a lack of memory, and its comma. */
#define NO_MEMORY                                                                                  \
    "\"error\":{\"code\":7,\"hint\":null,\"kind\":\"failed\",\"what\":null,\"where\":null,"        \
    "\"why\":\"out of memory\"},"

static void fail_by_memory(struct reply *reply)
{
    reply->err.status = RIG_OK;
    reply_fail(reply, RIG_FAILED, NULL, NULL, "out of memory");
    *reply->err.where = '\0';
}

void cli_print_no_memory(struct out *o, const struct request *request)
{
    const char *name = command_name(request);
    out_format(o, name ? "{\"command\":\"%s\"," : "{\"command\":null,", name);
    out_text(o, NO_MEMORY "\"ok\":false,\"schema\":\"rigmem/1\",\"warnings\":[]}\n");
}

void cli_print_error_member(struct view *view, struct reply *reply)
{
    struct out *o = view->out;
    const size_t used = o->used;
    const unsigned long long written = o->written;
    print_error(o, reply);
    if (o->error != ENOMEM || o->written != written)
        return;
    o->used = used;
    o->error = 0;
    fail_by_memory(reply);
    out_text(o, NO_MEMORY);
}

/* The one document. Where memory runs out as it is made, and none of it is written, it is that
   error's. */
static enum rig_status print_whole(struct view *view, struct reply *reply, struct rig_error *err)
{
    struct out *o = view->out;
    size_t used = o->used;
    unsigned long long written = o->written;
    enum rig_status status = reply->warnings ? print_document(view, reply, err) : RIG_FAILED;
    bool lost = !reply->warnings || o->error == ENOMEM;
    if (!lost || o->written != written)
        return status;
    o->used = used;
    o->error = 0;
    cli_print_no_memory(o, view->request);
    fail_by_memory(reply);
    return RIG_OK;
}

/* One member of a script's steps; the line and the words come where their keys' order has them.
   Where memory runs out as it is made there is none, and that is its error. */
static enum rig_status print_step(struct view *view, struct reply *reply, const struct line *step,
                                  struct rig_error *err)
{
    struct out *o = view->out;
    const size_t used = o->used;
    json_t *words = json_array();
    for (int i = 0; i < step->count; i++)
        add(reply, words, text_json(step->word[i]));
    out_text(o, "{\"argv\":");
    print_json(o, words);
    json_decref(words);
    out_text(o, ",");
    print_error(o, reply);
    out_format(o, "\"exit\":%d,\"line\":%d,",
               reply->err.status != RIG_OK ? (int)reply->err.status : reply->exit, step->number);
    enum rig_status status = print_outcome(view, reply, err);
    out_text(o, ",\"warnings\":");
    print_json(o, reply->warnings);
    out_text(o, "}");
    if (o->error == 0)
        return status;
    o->used = used;
    o->error = 0;
    fail_by_memory(reply);
    return RIG_OK;
}

/* ---- text */

static bool wants_color(const struct settings *settings, const struct out *o)
{
    const char *no = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    if (settings->color != COLOR_AUTO)
        return settings->color == COLOR_ALWAYS;
    return !(no && *no) && !(term && strcmp(term, "dumb") == 0) && o->fd >= 0 && isatty(o->fd);
}

void view_colored(struct view *view, const char *color, const char *text)
{
    if (view->color)
        out_format(view->out, "\033[%sm", color);
    out_escaped(view->out, text);
    if (view->color)
        out_text(view->out, "\033[0m");
}

static enum rig_status print_text(struct view *view, struct reply *reply, struct rig_error *err)
{
    if (reply->print_text)
        return reply->print_text(view, reply->held, err);
    view->request->command->text(view, reply->result);
    return RIG_OK;
}

/* ---- the end of a command line */

int cli_output_broke(const struct request *request, int error)
{
    struct rig_error err = {.status = RIG_FAILED};
    snprintf(err.what, sizeof err.what, "standard output");
    snprintf(err.why, sizeof err.why, "%s", RIG_ERRNO(error));
    err.why[0] = (char)tolower((unsigned char)err.why[0]);
    cli_print_error(request, &err);
    return RIG_FAILED;
}

int cli_report(struct out *out, const struct request *request, struct reply *reply,
               const struct line *step)
{
    bool json = request->settings.json;
    struct view view = {.out = out, .request = request};
    view.color = !json && wants_color(&request->settings, out);
    int code = reply->err.status != RIG_OK ? (int)reply->err.status : reply->exit;
    struct rig_error err = {.status = RIG_OK};
    if (request->settings.verbose)
        print_lines(reply->notes, "rigmem: ");
    if (!request->settings.quiet)
        print_lines(reply->warnings, "rigmem: warning: ");
    if (step)
        print_step(&view, reply, step, &err);
    else if (json)
        print_whole(&view, reply, &err);
    else if (reply->err.status == RIG_OK && !request->settings.quiet)
        print_text(&view, reply, &err);
    out_flush(out);
    if (reply->err.status != RIG_OK) {
        code = (int)reply->err.status;
        cli_print_error(request, &reply->err);
    }
    if (out->error)
        return cli_output_broke(request, out->error);
    if (err.status != RIG_OK) {
        cli_print_error(request, &err);
        return (int)err.status;
    }
    return code;
}

/* -h and -V stand for the commands help and version, whatever else the line holds. */
void cli_redirect(struct request *request)
{
    bool help = request_has(request, OPT_HELP);
    if (!help && !request_has(request, OPT_VERSION))
        return;
    request->arguments = 0;
    if (help && request->command)
        request->argument[request->arguments++] = request->command->name;
    request->command = command_find(help ? "help" : "version");
}

int cli_run(struct cli *cli, int count, const char *const *words)
{
    struct request request;
    struct reply reply = {0};
    int code;
    enum rig_status status = request_parse(&cli->defaults, count, words, &request, &reply.err);
    if (status == RIG_OK)
        cli_redirect(&request);
    if (status == RIG_OK && !request.command) {
        code = script_main(cli, &request);
    } else if (status == RIG_OK && (request.command->flags & COMMAND_SHELL)) {
        code = shell_main(cli, &request);
    } else {
        if (status == RIG_OK)
            cli_execute(&request, &reply);
        else
            reply.warnings = json_array();
        code = cli_report(&cli->out, &request, &reply, NULL);
    }
    reply_free(&reply);
    request_free(&request);
    return code;
}
