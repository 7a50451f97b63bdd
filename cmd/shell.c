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
    reply_fail(reply, RIG_INVALID, "shell", NULL, "does not go into a shell or a script");
}

/* ---- the session in this process */

void cli_begin(struct cli *cli, const struct settings *settings)
{
    cli->defaults = *settings;
    cli->defaults.memory = &cli->session;
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

static void listen(bool interactive)
{
    struct sigaction action = {.sa_handler = note};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    if (!interactive)
        action.sa_handler = note;
    sigaction(SIGINT, &action, NULL);
}

/* Ends as the signal would have ended it. */
static void end_by(int signal_number)
{
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* ---- one line */

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
        const char *verb = line->word[0];
        if (line->count == 1 && (strcmp(verb, "exit") == 0 || strcmp(verb, "quit") == 0))
            *out_done = true;
        else if (strcmp(verb, "source") == 0)
            code = source_file(cli, line, out_done);
        else
            code = cli_run(cli, line->count, (const char *const *)line->word);
    }
    lines_free(&lines);
    return code;
}

/* ---- standard input that is no terminal */

/* Reads a line, without its newline, into *io_text. -1 at the end, or where a signal came. */
static ssize_t next_line(FILE *from, char **io_text, size_t *io_room)
{
    ssize_t bytes = getline(io_text, io_room, from);
    if (bytes > 0 && (*io_text)[bytes - 1] == '\n')
        (*io_text)[--bytes] = '\0';
    return bytes;
}

static int answer_lines(struct cli *cli)
{
    char *text = NULL;
    size_t room = 0;
    int code = 0;
    bool done = false;
    while (!done && !shell_has_ended() && !shell_was_cancelled()) {
        ssize_t bytes = next_line(stdin, &text, &room);
        if (bytes < 0)
            break;
        code = run_line(cli, text, (size_t)bytes, &done);
        out_flush(&cli->out);
    }
    free(text);
    return code;
}

/* ---- a terminal */

void shell_prompt(struct cli *cli, char *text, size_t bytes)
{
    const struct rig_session *s = cli->session;
    const char *machine = cli->defaults.machine ? cli->defaults.machine : "live";
    bool open = s && rig_session_is_open(s);
    if (open)
        machine = rig_session_source(s);
    const char *slash = strrchr(machine, '/');
    const char *kind = open ? " twin" : cli->defaults.state ? " on file" : "";
    struct out o;
    out_start(&o, -1);
    out_escaped(&o, slash && slash[1] ? slash + 1 : machine);
    out_bytes(&o, "", 1);
    snprintf(text, bytes, "rigmem %.40s%s> ", o.error ? "" : o.buffer, kind);
    out_end(&o);
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
    char *text = NULL;
    size_t room = 0;
    int code = 0;
    bool done = false;
    while (!done && !shell_has_ended()) {
        char prompt[80];
        shell_prompt(cli, prompt, sizeof prompt);
        out_text(&cli->out, prompt);
        out_flush(&cli->out);
        ssize_t bytes = next_line(stdin, &text, &room);
        if (bytes < 0 && shell_was_cancelled()) {
            clearerr(stdin);
            out_text(&cli->out, "\n");
            continue;
        }
        if (bytes < 0)
            break;
        code = terminal_line(cli, text, &done);
    }
    free(text);
    return code;
}

int shell_main(struct cli *cli, const struct request *request)
{
    bool interactive = isatty(STDIN_FILENO) != 0;
    int code;
    cli_begin(cli, &request->settings);
    listen(interactive);
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
