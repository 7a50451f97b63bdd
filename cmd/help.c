/* Help, made from the command table, and a few topics. */
#include "handlers.h"

#include <stdio.h>
#include <string.h>

struct topic {
    const char *name;
    const char *summary;
    const char *text;
};

static const struct topic topics[] = {
    {"sources", "what -m takes",
     "live            this machine, by libpci and /sys\n"
     "live:ROOTDIR    a machine's files under ROOTDIR: sys/, proc/, boot/\n"
     "FILE            recognised by content: a capture (rigmem-machine(5)), lspci -v/-vv/-vvv\n"
     "                text, lspci -x to -xxxx hex, both together, lspci -t\n"
     "DIRECTORY       one that holds a machine's /sys\n"
     "-               standard input, any of the files above\n"
     "\n"
     "Best to send by mail: rigmem capture, or sudo lspci -D -vvv -nn -xxxx.\n"},
    {"facts", "how to give what a source lacks, or try what if",
     "--cpu AMD:25                     no lspci output shows the processor\n"
     "--kernel 6.1                     nor the kernel: its version chooses the rule set\n"
     "--iommu all=identity             none, identity or translate; a function or all\n"
     "--gpu FUNCTION                   a GPU that does not look like one\n"
     "--gpu-memory FUNCTION=24GiB      its memory, to compare with its BAR\n"
     "--assume acs=FUNCTION:0          its ACS control word, in hex\n"
     "--assume bar=FUNCTION:16GiB      its memory BAR, resized\n"
     "--assume parent=FUNCTION:PORT    moved, with all below it, under another port\n"
     "--assume p2pdma=off              a kernel without CONFIG_PCI_P2PDMA\n"
     "\n"
     "FUNCTION is 0000:03:00.0, 03:00.0, or an alias that `rigmem list` shows.\n"},
    {"exit", "exit codes",
     "0   done, or yes\n"
     "1   no: the answer to a question\n"
     "2   usage: nothing was changed\n"
     "3   refused: the machine says no\n"
     "4   no room\n"
     "5   an input file is bad\n"
     "6   unknown: the facts given do not decide\n"
     "7   the outside broke underneath: I/O error, full disk, closed pipe\n"
     "70  a fault of rigmem's own\n"},
    {"reasons", "what the words for gates mean",
     "self               a GPU maps its own memory already\n"
     "other-machine      the two are on different machines\n"
     "remote-machine     a machine reached through a transport carries no peer requests\n"
     "other-space        the GPUs' page tables share no address space\n"
     "link               a direct link joins the GPUs\n"
     "iommu-translates   an IOMMU translates the function's addresses\n"
     "bar-unassigned     the memory BAR has no address\n"
     "bar-small          the memory BAR shows less than all the memory\n"
     "bar-above-mask     the BAR lies above what the client can address\n"
     "same-bridge        a bridge above both turns requests around\n"
     "acs-redirect       a port on the path sends peer requests up instead (ACS)\n"
     "acs-unreadable     a port's ACS control was not readable\n"
     "cpu-amd-zen        the processor is AMD's from Zen on, which carries peer requests\n"
     "bridge-listed      Linux lists the host bridges as carrying peer requests\n"
     "bridge-unlisted    Linux does not list a host bridge\n"
     "bridge-same-only   Linux lists them for two functions under one host bridge only\n"
     "no-representative  the root bus has no function that Linux would look up\n"
     "p2pdma-off         the kernel is built without CONFIG_PCI_P2PDMA\n"},
};

#define TOPICS ((int)(sizeof topics / sizeof topics[0]))

const char *help_topic(int i)
{
    return i < TOPICS ? topics[i].name : NULL;
}

/* ---- the result */

static json_t *option_json(struct reply *reply, const struct option_row *row)
{
    json_t *o = json_object();
    char letter[] = {row->letter, '\0'};
    put(reply, o, "name", json_string(row->name));
    put(reply, o, "letter", row->letter ? json_string(letter) : json_null());
    put(reply, o, "value", text_json(row->value));
    put(reply, o, "default", text_json(row->fallback));
    put(reply, o, "choices", text_json(row->choices));
    put(reply, o, "repeats", json_boolean(row->repeats));
    put(reply, o, "help", json_string(row->help));
    return o;
}

static json_t *options_json(struct reply *reply, const struct option_row *rows, int count)
{
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        add(reply, list, option_json(reply, &rows[i]));
    return list;
}

static json_t *argument_json(struct reply *reply, const struct argument_row *row)
{
    json_t *o = json_object();
    put(reply, o, "name", json_string(row->name));
    put(reply, o, "help", json_string(row->help));
    put(reply, o, "choices", text_json(row->choices));
    put(reply, o, "optional", json_boolean(row->optional));
    put(reply, o, "repeats", json_boolean(row->repeats));
    return o;
}

static const char *const exit_meaning[] = {"done, or yes",
                                           "no",
                                           "usage: nothing was changed",
                                           "refused: the machine says no",
                                           "no room",
                                           "an input file is bad",
                                           "unknown: the facts given do not decide",
                                           "the outside broke underneath"};

#define EXITS ((int)(sizeof exit_meaning / sizeof exit_meaning[0]))

/* Bit n: exit code n may come of the command. */
static unsigned command_exits(const struct command_row *command)
{
    return command->exits | 1u << EXIT_USAGE | 1u << RIG_FAILED;
}

static json_t *exits_json(struct reply *reply, unsigned exits)
{
    json_t *list = json_array();
    for (int i = 0; i < EXITS; i++)
        if (exits >> i & 1u)
            add(reply, list, json_integer(i));
    return list;
}

static json_t *command_json(struct reply *reply, const struct command_row *command)
{
    json_t *o = json_object();
    struct out synopsis;
    out_start(&synopsis, -1);
    command_synopsis(&synopsis, command);
    out_bytes(&synopsis, "", 1);
    put(reply, o, "synopsis", text_json(synopsis.error ? NULL : synopsis.buffer));
    reply->no_memory |= out_end(&synopsis) != 0;
    put(reply, o, "name", json_string(command->name));
    put(reply, o, "group", json_string(command->group));
    put(reply, o, "summary", json_string(command->summary));
    put(reply, o, "about", json_string(command->about));
    put(reply, o, "options", options_json(reply, command->options, command->option_count));
    put(reply, o, "exits", exits_json(reply, command_exits(command)));
    put(reply, o, "machine", json_boolean(command->flags & COMMAND_MACHINE));
    json_t *arguments = json_array();
    for (int i = 0; i < command_arguments(command); i++)
        add(reply, arguments, argument_json(reply, &command->argument[i]));
    put(reply, o, "arguments", arguments);
    return o;
}

static json_t *named_json(struct reply *reply, const char *name, const char *summary)
{
    json_t *o = json_object();
    put(reply, o, "name", json_string(name));
    put(reply, o, "summary", json_string(summary));
    return o;
}

static void overview(struct reply *reply)
{
    int count;
    const struct command_row *rows = commands(&count);
    json_t *list = json_array(), *names = json_array();
    for (int i = 0; i < count; i++)
        if (!(rows[i].flags & COMMAND_HIDDEN))
            add(reply, list, command_json(reply, &rows[i]));
    for (int i = 0; i < TOPICS; i++)
        add(reply, names, named_json(reply, topics[i].name, topics[i].summary));
    put(reply, reply->result, "commands", list);
    put(reply, reply->result, "topics", names);
    const struct option_row *options = global_options(&count);
    put(reply, reply->result, "options", options_json(reply, options, count));
}

static const char *next_subject(int i, const void *context)
{
    (void)context;
    int count;
    const struct command_row *rows = commands(&count);
    for (int k = 0; k < count; k++)
        if (!(rows[k].flags & COMMAND_HIDDEN) && i-- == 0)
            return rows[k].name;
    return help_topic(i);
}

static const struct topic *topic_find(const char *name)
{
    for (int i = 0; i < TOPICS; i++)
        if (strcmp(topics[i].name, name) == 0)
            return &topics[i];
    return NULL;
}

static void document(struct reply *reply, const struct command_row *command,
                     const struct topic *about)
{
    reply->result = json_object();
    if (command) {
        put(reply, reply->result, "command", command_json(reply, command));
    } else if (about) {
        json_t *topic = named_json(reply, about->name, about->summary);
        put(reply, topic, "text", json_string(about->text));
        put(reply, reply->result, "topic", topic);
    } else {
        overview(reply);
    }
}

/* The tree is made for documents alone: text is drawn from the tables themselves. */
void help_run(const struct request *request, struct reply *reply)
{
    const char *name = request->arguments > 0 ? request->argument[0] : NULL;
    const struct command_row *command = name ? command_find(name) : NULL;
    const struct topic *topic = name ? topic_find(name) : NULL;
    if (!name || command || topic) {
        if (request->settings.json)
            document(reply, command, topic);
        return;
    }
    const char *near = suggest(name, next_subject, NULL);
    char hint[64];
    if (near)
        snprintf(hint, sizeof hint, "did you mean '%s'?", near);
    reply_fail(reply, RIG_INVALID, name, near ? hint : NULL, "no such command or topic");
}

/* ---- text */

static void print_options(struct out *o, const struct option_row *rows, int count)
{
    struct table *table = table_make(2, NULL, 0);
    for (const struct option_row *row = rows; row < rows + count; row++) {
        char letter[] = {'-', row->letter, ',', ' ', '\0'};
        table_format(table, "%s--%s%s%s", row->letter ? letter : "    ", row->name,
                     row->value ? " " : "", row->value ? row->value : "");
        table_format(table, "%s%s%s%s%s", row->help, row->fallback ? " (else " : "",
                     row->fallback ? row->fallback : "", row->fallback ? ")" : "",
                     row->repeats ? "; may be repeated" : "");
    }
    table_print(table, o, "  ");
}

/* Prints text in lines of at most 78 columns. */
static void print_paragraph(struct out *o, const char *text)
{
    size_t column = 0;
    while (*text) {
        size_t word = strcspn(text, " ");
        if (column > 0 && column + 1 + word > 78) {
            out_text(o, "\n");
            column = 0;
        }
        if (column > 0)
            out_text(o, " ");
        out_bytes(o, text, word);
        column += word + (column > 0);
        text += word + strspn(text + word, " ");
    }
    out_text(o, "\n");
}

static void print_command(struct out *o, const struct command_row *command)
{
    out_format(o, "rigmem %s: %s\n\n  rigmem [GLOBAL]... ", command->name, command->summary);
    command_synopsis(o, command);
    out_text(o, "\n\n");
    print_paragraph(o, command->about);
    int arguments = command_arguments(command);
    if (arguments > 0 || command->option_count > 0)
        out_text(o, "\n");
    struct table *table = table_make(2, NULL, 0);
    for (int i = 0; i < arguments; i++) {
        table_cell(table, command->argument[i].name);
        table_cell(table, command->argument[i].help);
    }
    table_print(table, o, "  ");
    print_options(o, command->options, command->option_count);
    out_text(o, "\nExit codes\n");
    table = table_make(2, NULL, 0);
    for (int code = 0; code < EXITS; code++) {
        if (!(command_exits(command) >> code & 1u))
            continue;
        table_format(table, "%d", code);
        table_cell(table, exit_meaning[code]);
    }
    table_print(table, o, "  ");
    bool page = !(command->flags & COMMAND_HIDDEN) && command->run != help_run &&
                command->run != version_run;
    out_format(o, "\nGlobal options: rigmem help. The whole: man rigmem%s%s.\n", page ? "-" : "",
               page ? command->name : "");
}

static void print_overview(struct out *o)
{
    int count;
    const struct command_row *rows = commands(&count);
    out_text(o, "rigmem [GLOBAL]... COMMAND [ARG]...\n\nCommands\n");
    struct table *table = table_make(2, NULL, 0);
    for (int i = 0; i < count; i++) {
        if (rows[i].flags & COMMAND_HIDDEN)
            continue;
        table_cell(table, rows[i].name);
        table_cell(table, rows[i].summary);
    }
    table_print(table, o, "  ");
    out_text(o, "\nGlobal options, before or after the command\n");
    const struct option_row *options = global_options(&count);
    print_options(o, options, count);
    out_text(o, "\nOne command: rigmem help COMMAND. Topics: rigmem help TOPIC\n");
    table = table_make(2, NULL, 0);
    for (int i = 0; i < TOPICS; i++) {
        table_cell(table, topics[i].name);
        table_cell(table, topics[i].summary);
    }
    table_print(table, o, "  ");
}

void help_text(struct view *view, const json_t *result)
{
    (void)result;
    const struct request *request = view->request;
    const char *name = request->arguments > 0 ? request->argument[0] : NULL;
    const struct command_row *command = name ? command_find(name) : NULL;
    if (command)
        print_command(view->out, command);
    else if (name)
        out_text(view->out, topic_find(name)->text);
    else
        print_overview(view->out);
}
