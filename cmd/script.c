/* Scripts: parsed whole, then run. */
#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum rig_status fail(struct rig_error *err, enum rig_status status, const char *what,
                            const char *why)
{
    err->status = status;
    snprintf(err->what, sizeof err->what, "%s", what);
    snprintf(err->why, sizeof err->why, "%s", why);
    err->why[0] = (char)tolower((unsigned char)err->why[0]);
    return status;
}

/* ---- reading */

static enum rig_status read_all(int fd, const char *name, char **out_text, size_t *out_bytes,
                                struct rig_error *err)
{
    char *text = NULL;
    size_t used = 0, room = 0;
    for (;;) {
        if (used == room) {
            enum rig_status status = lines_grow(&text, &room);
            if (status != RIG_OK) {
                free(text);
                return fail(err, status, name,
                            status == RIG_FAILED ? "out of memory" : "is larger than 16 MiB");
            }
        }
        ssize_t got = read(fd, text + used, room - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            free(text);
            return fail(err, errno == EISDIR ? RIG_REFUSED : RIG_FAILED, name, RIG_ERRNO(errno));
        }
        if (got == 0)
            break;
        used += (size_t)got;
    }
    *out_text = text;
    *out_bytes = used;
    return RIG_OK;
}

enum rig_status script_read(const char *path, char **out_text, size_t *out_bytes,
                            struct rig_error *err)
{
    if (strcmp(path, "-") == 0)
        return read_all(STDIN_FILENO, path, out_text, out_bytes, err);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail(err, RIG_REFUSED, path, RIG_ERRNO(errno));
    enum rig_status status = read_all(fd, path, out_text, out_bytes, err);
    close(fd);
    return status;
}

/* ---- running */

/* A script on its way. first: the exit code of the first failure, last: that of the latest line. */
struct running {
    struct cli *cli;
    const char *name;
    struct out *steps; /* where JSON steps are gathered; NULL: each line prints for itself */
    int first, last;
    struct rig_error err; /* of the first failure */
};

static const char *const *words_of(const struct line *line)
{
    return (const char *const *)line->word;
}

static bool is_failure(int code)
{
    return code != EXIT_YES && code != EXIT_NO && code != EXIT_UNDECIDED;
}

/* Prints what came of a line, or makes it a step. */
static void report_line(struct running *r, const struct line *line, const char *where,
                        struct request *request, struct reply *reply)
{
    struct out *steps = r->steps;
    size_t before = steps ? steps->used : 0;
    if (steps && before > 0)
        out_text(steps, ",");
    size_t begun = steps ? steps->used : 0;
    request->settings.json = !steps && request->settings.json;
    r->last = cli_report(steps ? steps : &r->cli->out, request, reply, steps ? line : NULL);
    if (steps && steps->used == begun)
        steps->used = before;
    bool failed = reply->err.status != RIG_OK;
    if (failed && r->err.status == RIG_OK) {
        r->err = reply->err;
        if (!*r->err.where)
            snprintf(r->err.where, sizeof r->err.where, "%.255s", where);
    }
    if (r->first == 0 && (failed || is_failure(r->last)))
        r->first = r->last;
}

/* Runs one line. `check`: only what can be said of it without running it. */
static void run_line(struct running *r, const struct line *line, bool check)
{
    struct request request;
    struct reply reply = {0};
    char where[320];
    snprintf(where, sizeof where, "%.300s:%d", r->name, line->number);
    struct settings settings = r->cli->defaults;
    settings.where = where;
    settings.shell = false;
    enum rig_status status =
        request_parse(&settings, line->count, words_of(line), &request, &reply.err);
    if (status == RIG_OK && !check) {
        cli_redirect(&request);
        cli_execute(&request, &reply);
    } else {
        reply.warnings = json_array();
    }
    if (!check || status != RIG_OK)
        report_line(r, line, where, &request, &reply);
    reply_free(&reply);
    request_free(&request);
}

/* A signal to end came and waits: a session in this process ends first. */
static bool is_told_to_end(void)
{
    sigset_t waiting;
    return sigpending(&waiting) == 0 &&
           (sigismember(&waiting, SIGINT) == 1 || sigismember(&waiting, SIGTERM) == 1 ||
            sigismember(&waiting, SIGHUP) == 1);
}

static void run_all(struct running *r, const struct lines *lines)
{
    bool keep = r->cli->defaults.keep_going;
    for (int i = 0; i < lines->count && r->first == 0; i++)
        run_line(r, &lines->line[i], true);
    if (r->first != 0)
        return;
    for (int i = 0; i < lines->count && (keep || r->first == 0) && !is_told_to_end(); i++)
        run_line(r, &lines->line[i], false);
}

/* The script's one document, in the order of its keys. */
static void print_document(struct running *r)
{
    struct out *o = &r->cli->out;
    struct reply reply = {.err = r->err};
    struct request request = {0};
    struct view view = {.out = o, .request = &request};
    out_text(o, "{\"command\":null,");
    if (r->err.status != RIG_OK)
        cli_print_error_member(&view, &reply);
    if (reply.err.status != r->err.status)
        r->first = (int)reply.err.status;
    out_format(o, "\"ok\":%s,\"schema\":\"rigmem/1\",\"steps\":[",
               r->err.status == RIG_OK ? "true" : "false");
    out_bytes(o, r->steps->buffer, r->steps->used);
    out_text(o, "],\"warnings\":[]}\n");
}

int script_run(struct cli *cli, const char *name, const char *text, size_t bytes, bool *out_stopped)
{
    struct running r = {.cli = cli, .name = name};
    struct request request = {.settings = cli->defaults};
    struct out steps;
    struct lines lines = {0};
    out_start(&steps, -1);
    if (cli->defaults.json)
        r.steps = &steps;
    if (lines_read(name, text, bytes, &lines, &r.err) == RIG_OK) {
        run_all(&r, &lines);
    } else {
        cli_print_error(&request, &r.err);
        r.first = (int)r.err.status;
    }
    if (r.steps) {
        print_document(&r);
        out_flush(&cli->out);
    }
    int error = out_end(&steps);
    lines_free(&lines);
    *out_stopped = r.first != 0;
    if (r.steps && cli->out.error)
        return cli_output_broke(&request, cli->out.error);
    if (error != 0 && r.first == 0)
        return RIG_FAILED;
    return r.first != 0 ? r.first : r.last;
}

/* ---- what the program's own command line asks for */

/* Signals to end wait while commands run, so that the session ends first; what came is heard after.
 */
static void hold_signals(int how, sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
    sigprocmask(how, set, NULL);
}

static int run_text(struct cli *cli, const struct request *request, const char *name,
                    const char *text, size_t bytes)
{
    sigset_t held;
    bool stopped;
    cli_begin(cli, request);
    hold_signals(SIG_BLOCK, &held);
    int code = script_run(cli, name, text, bytes, &stopped);
    cli_end(cli);
    sigprocmask(SIG_UNBLOCK, &held, NULL);
    return code;
}

int script_main(struct cli *cli, const struct request *request)
{
    const char *commands = request_value(request, OPT_COMMANDS);
    const char *path = request_value(request, OPT_SCRIPT);
    if (commands && path) {
        struct reply reply = {.warnings = json_array()};
        reply_fail(&reply, RIG_INVALID, "-c", NULL, "does not go with -f");
        int code = cli_report(&cli->out, request, &reply, NULL);
        reply_free(&reply);
        return code;
    }
    if (!commands && !path && isatty(STDIN_FILENO))
        return shell_main(cli, request);
    if (commands)
        return run_text(cli, request, "-c", commands, strlen(commands));
    struct reply reply = {.warnings = json_array()};
    char *text = NULL;
    size_t bytes = 0;
    path = path ? path : "-";
    int code;
    if (script_read(path, &text, &bytes, &reply.err) == RIG_OK)
        code = run_text(cli, request, path, text, bytes);
    else
        code = cli_report(&cli->out, request, &reply, NULL);
    free(text);
    reply_free(&reply);
    return code;
}
