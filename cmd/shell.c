/* The shell: command lines one by one, with a session of its own unless -s names one. */
#include "shell.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void shell_run(const struct request *request, struct reply *reply)
{
    (void)request;
    reply_fail(reply, RIG_INVALID, NULL, NULL, "does not go into a shell or a script");
}

/* ---- the session in this process */

void cli_begin(struct cli *cli, const struct request *own)
{
    cli->defaults = own->settings;
    cli->defaults.memory = &cli->session;
    cli->defaults.outer = own;
}

static long regions_out(const struct rig_session *s)
{
    long count = 0;
    struct rig_region region = {.id = 0};
    while (rig_session_is_open(s) &&
           rig_gpus_next_region(rig_session_gpus(s), region.id, &region)) {
        struct rig_region_info info;
        count += rig_region_info(region, &info, NULL) == RIG_OK && info.out;
    }
    return count;
}

void cli_end(struct cli *cli)
{
    long count = cli->session ? regions_out(cli->session) : 0;
    rig_session_end(cli->session);
    cli->session = NULL;
    if (count == 0)
        return;
    struct out errors;
    out_start(&errors, STDERR_FILENO);
    out_format(&errors, "rigmem: %ld region%s given back\n", count, count == 1 ? " was" : "s were");
    out_end(&errors);
}

/* ---- signals: a line is cancelled by one, the shell ended by the others */

static volatile sig_atomic_t cancelled, ended;

static void note(int signal_number)
{
    if (signal_number == SIGINT)
        cancelled = 1;
    else
        ended = signal_number;
}

bool shell_was_cancelled(void)
{
    bool was = cancelled != 0;
    cancelled = 0;
    return was;
}

bool shell_has_ended(void)
{
    return ended != 0;
}

static void listen(void)
{
    struct sigaction action = {.sa_handler = note};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

bool shell_wait(void)
{
    sigset_t held, before;
    sigemptyset(&held);
    sigaddset(&held, SIGINT);
    sigaddset(&held, SIGTERM);
    sigaddset(&held, SIGHUP);
    sigprocmask(SIG_BLOCK, &held, &before);
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    bool came = cancelled != 0 || ended != 0;
    /* what else fails is told by who reads */
    bool ready = !came && (ppoll(&input, 1, NULL, &before) >= 0 || errno != EINTR);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return ready;
}

/* Ends as the signal would have ended it. */
static void end_by(int signal_number)
{
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* ---- one line */

enum own {
    OWN_EXIT,
    OWN_QUIT,
    OWN_SOURCE,
    OWNS,
};

const char *shell_word(int i)
{
    static const char *const word[OWNS] = {"exit", "quit", "source"};
    return i < OWNS ? word[i] : NULL;
}

/* Which of the shell's own the line is; OWNS: none. */
static enum own own_of(const struct line *line)
{
    int i = 0;
    while (i < OWNS && strcmp(line->word[0], shell_word(i)) != 0)
        i++;
    return (enum own)i;
}

static int end(struct cli *cli, const struct line *line, bool *out_done)
{
    *out_done = line->count == 1;
    if (*out_done)
        return 0;
    struct request request = {.settings = cli->defaults};
    struct reply reply = {.warnings = json_array()};
    reply_fail(&reply, RIG_INVALID, line->word[0], NULL, "takes no argument");
    int code = cli_report(&cli->out, &request, &reply, NULL);
    reply_free(&reply);
    return code;
}

static int source_file(struct cli *cli, const struct line *line, bool *out_done)
{
    struct request request = {.settings = cli->defaults};
    struct reply reply = {.warnings = json_array()};
    char *text = NULL;
    size_t bytes = 0;
    int code;
    if (line->count != 2)
        reply_fail(&reply, RIG_INVALID, "source", NULL, "takes one file");
    if (reply.err.status == RIG_OK)
        script_read(line->word[1], &text, &bytes, &reply.err);
    if (reply.err.status == RIG_OK) {
        code = script_run(cli, line->word[1], text, bytes, out_done);
        *out_done = false;
    } else {
        code = cli_report(&cli->out, &request, &reply, NULL);
    }
    free(text);
    reply_free(&reply);
    return code;
}

/* Runs what a line holds. *out_done: it ends the shell. */
static int run_line(struct cli *cli, const char *text, size_t bytes, bool *out_done)
{
    struct lines lines = {0};
    struct rig_error err = {.status = RIG_OK};
    struct request request = {.settings = cli->defaults};
    int code = 0;
    if (lines_read("-", text, bytes, &lines, &err) != RIG_OK) {
        struct reply reply = {.err = err, .warnings = json_array()};
        code = cli_report(&cli->out, &request, &reply, NULL);
        reply_free(&reply);
        return code;
    }
    for (int i = 0; i < lines.count && !*out_done; i++) {
        const struct line *line = &lines.line[i];
        enum own own = own_of(line);
        if (own == OWN_SOURCE)
            code = source_file(cli, line, out_done);
        else if (own == OWNS)
            code = cli_run(cli, line->count, (const char *const *)line->word);
        else if (end(cli, line, out_done) != 0)
            code = RIG_INVALID;
    }
    lines_free(&lines);
    return code;
}

/* ---- lines of standard input */

/* What was read: the bytes from `from` up to `used` are not given out yet. */
struct input {
    char *text;
    size_t from, used, room;
    bool end;
    enum rig_status status; /* RIG_BAD_INPUT: a line is too long; RIG_FAILED: `error` says why */
    int error;
};

/* False: the end, or a line has no room. */
static bool read_more(struct input *in)
{
    if (in->from > 0)
        memmove(in->text, in->text + in->from, in->used - in->from);
    in->used -= in->from;
    in->from = 0;
    if (in->used == in->room) {
        in->status = lines_grow(&in->text, &in->room);
        in->error = ENOMEM;
        if (in->status != RIG_OK)
            return false;
    }
    ssize_t got = read(STDIN_FILENO, in->text + in->used, in->room - in->used);
    if (got < 0 && errno == EINTR)
        return true;
    if (got < 0) {
        in->status = RIG_FAILED;
        in->error = errno;
    }
    in->used += got > 0 ? (size_t)got : 0;
    return got > 0;
}

/* The next line, without its newline, until the next call; false: the end, or a signal came. */
static bool next_line(struct input *in, const char **out_text, size_t *out_bytes)
{
    size_t seen = 0;
    for (;;) {
        char *start = in->text + in->from;
        char *newline = in->used > in->from + seen
                            ? memchr(start + seen, '\n', in->used - in->from - seen)
                            : NULL;
        size_t bytes = newline ? (size_t)(newline - start) : in->used - in->from;
        if (newline || (in->end && bytes > 0 && in->status == RIG_OK)) {
            *out_text = start;
            *out_bytes = bytes;
            in->from += bytes + (newline != NULL);
            return true;
        }
        if (in->end)
            return false;
        seen = bytes;
        while (!shell_wait())
            if (cancelled != 0 || ended != 0)
                return false;
        in->end = !read_more(in);
    }
}

static int refuse_line(struct cli *cli, const struct input *in)
{
    struct request request = {.settings = cli->defaults};
    struct reply reply = {.warnings = json_array()};
    reply_fail(&reply, in->status, "-", NULL, "%s",
               in->status != RIG_FAILED ? "a line is longer than 16 MiB"
               : in->error == ENOMEM    ? "out of memory"
                                        : RIG_ERRNO(in->error));
    int code = cli_report(&cli->out, &request, &reply, NULL);
    reply_free(&reply);
    return code;
}

static int answer_lines(struct cli *cli)
{
    struct input in = {.status = RIG_OK};
    const char *text;
    size_t bytes;
    int code = 0;
    bool done = false;
    while (!done && !shell_has_ended() && cancelled == 0 && next_line(&in, &text, &bytes)) {
        code = run_line(cli, text, bytes, &done);
        out_flush(&cli->out);
    }
    free(in.text);
    return in.status == RIG_OK ? code : refuse_line(cli, &in);
}

/* ---- a terminal */

/* The machine of the session, of -m where s is NULL: none is open. */
static void write_prompt(struct prompt *p, const struct cli *cli, const struct rig_session *s,
                         bool file)
{
    const char *machine = s                       ? rig_session_source(s)
                          : cli->defaults.machine ? cli->defaults.machine
                                                  : "live";
    const char *slash = strrchr(machine, '/');
    struct out o;
    out_start(&o, -1);
    out_escaped(&o, slash && slash[1] ? slash + 1 : machine);
    out_bytes(&o, "", 1);
    snprintf(p->text, sizeof p->text, "rigmem %.40s%s%s> ", o.error ? "" : o.buffer,
             s ? " twin" : "", s && file ? " on file" : "");
    out_end(&o);
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Of a session on file: looks at it only where it changed since. */
static void prompt_on_file(struct prompt *p, struct cli *cli, const struct request *request)
{
    struct reply scratch = {.warnings = json_array()};
    struct stat now = {0};
    char text[4096];
    const char *path = session_path(request, &scratch, text, sizeof text);
    if (path && stat(path, &now) != 0)
        memset(&now, 0, sizeof now);
    if (!p->looked || !is_same_file(&p->of, &now)) {
        struct rig_session *s = NULL;
        if (now.st_ino != 0)
            s = session_enter(request, &scratch, RIG_SESSION_GLANCE, false);
        write_prompt(p, cli, s, true);
        if (s)
            session_abandon(request, s);
        p->of = now;
        p->looked = true;
    }
    reply_free(&scratch);
}

const char *shell_prompt(struct cli *cli, struct prompt *p)
{
    struct request request = {.settings = cli->defaults};
    bool open = cli->session && rig_session_is_open(cli->session);
    if (session_in_memory(&request))
        write_prompt(p, cli, open ? cli->session : NULL, false);
    else
        prompt_on_file(p, cli, &request);
    return p->text;
}

static int terminal_line(struct cli *cli, const char *text, bool *out_done)
{
    int code = run_line(cli, text, strlen(text), out_done);
    out_flush(&cli->out);
    return code;
}

/* Without readline: a prompt, and lines as the terminal edits them. */
static int plain_terminal(struct cli *cli)
{
    struct input in = {.status = RIG_OK};
    const char *text;
    size_t bytes;
    int code = 0;
    bool done = false;
    struct prompt prompt = {.looked = false};
    while (!done && !shell_has_ended()) {
        out_text(&cli->out, shell_prompt(cli, &prompt));
        out_flush(&cli->out);
        if (next_line(&in, &text, &bytes)) {
            code = run_line(cli, text, bytes, &done);
            out_flush(&cli->out);
        } else if (shell_was_cancelled()) {
            out_text(&cli->out, "\n");
        } else {
            break;
        }
    }
    free(in.text);
    return code;
}

int shell_main(struct cli *cli, const struct request *request)
{
    bool interactive = isatty(STDIN_FILENO) != 0;
    int code;
    cli_begin(cli, request);
    cli->defaults.shell = true;
    listen();
    if (!interactive)
        code = answer_lines(cli);
    else if (!shell_readline(cli, terminal_line, &code))
        code = plain_terminal(cli);
    cli_end(cli);
    if (ended != 0)
        end_by(ended);
    if (!interactive && cancelled != 0)
        end_by(SIGINT);
    return code;
}
