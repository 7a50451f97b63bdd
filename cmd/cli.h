/* The command line: one table of commands, what one command line asks for, and what came of it.

   A command line goes through four steps, each usable alone: request_parse reads words by the
   table; cli_execute calls the command's handler, which makes a result and prints nothing;
   cli_report prints the result as text or as the one JSON document; cli_run is the three together
   and returns the exit code. What lives from one command line to the next is in struct cli: a
   program that reads many lines keeps one and calls cli_run for each. */
#ifndef CMD_CLI_H
#define CMD_CLI_H

#include "out.h"
#include "rigmem.h"

#include <jansson.h>

/* Exit codes (rigmem(1), EXIT STATUS). Those of failures are enum rig_status's. */
enum cli_exit {
    EXIT_YES = 0,
    EXIT_NO = 1,
    EXIT_USAGE = RIG_INVALID,
    EXIT_UNDECIDED = RIG_UNKNOWN,
    EXIT_BUG = 70,
};

/* What completes a value or an argument. */
enum completer {
    COMPLETE_NOTHING,
    COMPLETE_FILE,
    COMPLETE_SOURCE,   /* live, or a file */
    COMPLETE_CHOICE,   /* one of `choices` */
    COMPLETE_FUNCTION, /* a function of the machine: address or alias */
    COMPLETE_IOMMU,    /* FUNCTION|all=none|identity|translate */
    COMPLETE_MEMORY,   /* FUNCTION=SIZE */
    COMPLETE_ASSUME,   /* acs=..., bar=..., parent=..., p2pdma=... */
    COMPLETE_CPU,
    COMPLETE_RULES,
    COMPLETE_REGION, /* a region of the session: id or name */
    COMPLETE_PLACE,  /* a region, or a GPU */
    COMPLETE_FORMAT, /* of page tables */
    COMPLETE_FAULT,
    COMPLETE_LINK,    /* N:GPU,GPU */
    COMPLETE_COMMAND, /* a command or a help topic */
    COMPLETE_WORDS,   /* what a shell hands over */
};

enum option_id {
    OPT_MACHINE,
    OPT_JSON,
    OPT_QUIET,
    OPT_VERBOSE,
    OPT_COLOR,
    OPT_HELP,
    OPT_VERSION,
    OPT_CPU,
    OPT_KERNEL,
    OPT_IOMMU,
    OPT_GPU,
    OPT_GPU_MEMORY,
    OPT_ASSUME,
    OPT_RULES,
    OPT_ALL,
    OPT_WHY,
    OPT_DIFF,
    OPT_DOT,
    OPT_OUTPUT,
    OPT_REDACT,
    OPT_STATE,
    OPT_DRY_RUN,
    OPT_KEEP_GOING,
    OPT_SCRIPT,
    OPT_COMMANDS,
    OPT_FORMAT,
    OPT_LINK,
    OPT_COMBINE,
    OPT_MASTER,
    OPT_FORCE,
    OPT_UNCACHED,
    OPT_NAME,
    OPT_FILE,
    OPT_OFFSET,
    OPT_BY,
    OPT_DATA,
    OPT_FILL,
    OPT_LENGTH,
};

/* One option: of all commands or of one. value: what its value is called, NULL for a switch. */
struct option_row {
    enum option_id id;
    const char *name; /* without the dashes */
    char letter;      /* 0: none */
    const char *value;
    const char *fallback; /* what holds when it is not given, or NULL */
    const char *help;
    enum completer completer;
    const char *choices; /* "a|b|c", or NULL */
    bool repeats;
    bool fact; /* it gives a fact of the machine */
};

struct argument_row {
    const char *name;
    const char *help;
    enum completer completer;
    const char *choices;
    bool optional;
    bool repeats;
};

#define ARGUMENTS_MAX 4

struct request;
struct reply;
struct view;

/* Bits of command_row.flags. */
#define COMMAND_MACHINE 1u /* works on the facts of a machine (-m and the fact options) */
#define COMMAND_HIDDEN 2u  /* for programs: help and completions do not list it */
#define COMMAND_SESSION 4u /* works on a session (-s) */
#define COMMAND_EITHER 8u  /* works on a session's machine where one is asked for */
#define COMMAND_SHELL 16u  /* reads command lines: shell_main runs it, not `run` */

/* One command. run makes reply->result (or an error) and prints nothing; text prints the result
   for people and is NULL where the result has its own printer (reply->print_text). */
struct command_row {
    const char *name;
    const char *group;
    const char *summary;
    const char *about; /* a paragraph for `help COMMAND` */
    void (*run)(const struct request *request, struct reply *reply);
    void (*text)(struct view *view, const json_t *result);
    struct argument_row argument[ARGUMENTS_MAX]; /* the first with a NULL name ends them */
    const struct option_row *options;
    int option_count;
    unsigned flags;
    unsigned exits; /* bit n: exit code n may come of it; 2 and 7 always may */
};

const struct command_row *commands(int *out_count);
const struct option_row *global_options(int *out_count);

/* command_find is the command of that name, or NULL. */
const struct command_row *command_find(const char *name);

/* command_option is option i of those the command takes, its own first and then the global ones;
   NULL past the last. A NULL command takes the global ones. */
const struct option_row *command_option(const struct command_row *command, int i);

/* command_arguments is how many arguments the row lists. */
int command_arguments(const struct command_row *command);

/* command_synopsis writes "reach [A [B]] [--all] ..." as the table has it. */
void command_synopsis(struct out *o, const struct command_row *command);

/* ---- what one command line asks for */

enum color_mode {
    COLOR_AUTO,
    COLOR_ALWAYS,
    COLOR_NEVER,
};

struct settings {
    const char *machine; /* a source; NULL: live */
    const char *state; /* -s; NULL: $RIGMEM_STATE, or the session in this process, or the default */
    bool json, quiet, verbose, dry_run, keep_going;
    enum color_mode color;
    struct rig_session **memory; /* the session in this process; NULL: a command line by itself */
    bool shell;                  /* a line of the shell: shell_word's words are commands, too */
    const char *where;           /* FILE:LINE of a script, or NULL */
    const struct request *outer; /* of a script or a shell: the program's own command line, whose
                                    facts hold for each line; else NULL */
};

struct given {
    enum option_id id;
    const struct option_row *option;
    const char *value; /* NULL for a switch */
};

/* Points into the words it was read from. */
struct request {
    const struct command_row *command;
    struct settings settings;
    const char **argument;
    int arguments;
    struct given *given; /* in the order given */
    int givens;
};

/* request_parse reads the words (without the program's name) by the table, on top of `defaults`.
   RIG_INVALID: an unknown command or option, a value missing or not one of the choices, too few or
   too many arguments; then as much of the request as could be read is there, so that an error is
   told in the form asked for. Free it in every case. */
enum rig_status request_parse(const struct settings *defaults, int count, const char *const *words,
                              struct request *out_request, struct rig_error *err);
void request_free(struct request *request);

/* request_has is true iff the option was given; request_value is its last value, or NULL. */
bool request_has(const struct request *request, enum option_id id);
/* request_has_fact is true iff an option that gives a fact of the machine was given. */
bool request_has_fact(const struct request *request);
const char *request_value(const struct request *request, enum option_id id);

/* suggest is the candidate nearest to `word` by typing errors, or NULL when none is near. The
   candidates come one by one from next(i), NULL after the last. */
const char *suggest(const char *word, const char *(*next)(int i, const void *context),
                    const void *context);

/* ---- what came of it */

/* Where and how a result is printed. */
struct view {
    struct out *out;
    const struct request *request;
    bool color;
};

/* A result or an error. `exit` is that of a result: 0, 1 or 6. Where a result is too large for a
   tree, `held` keeps what it is made from, and print_text and print_json write it (the latter the
   value of "result"); they return RIG_OK or what broke. */
struct reply {
    int exit;
    struct rig_error err; /* err.status is RIG_OK: there is a result */
    json_t *result;
    json_t *warnings;
    json_t *notes;  /* told with --verbose */
    bool no_memory; /* building the tree failed */
    void *held;
    enum rig_status (*print_text)(struct view *view, void *held, struct rig_error *err);
    enum rig_status (*print_json)(struct view *view, void *held, struct rig_error *err);
    void (*free_held)(void *held);
};

/* reply_fail makes the reply an error of the command line or the command: status, the thing, the
   reason, and a hint or NULL. */
void reply_fail(struct reply *reply, enum rig_status status, const char *what, const char *hint,
                const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Trees. put stores value under key and take ownership of it; add appends. A NULL value is memory
   that ran out, noted in the reply. */
void put(struct reply *reply, json_t *object, const char *key, json_t *take_value);
void add(struct reply *reply, json_t *array, json_t *take_value);

/* text_json is a JSON string of text (null for NULL); bytes that are no UTF-8 stand as \xNN. */
json_t *text_json(const char *text);

/* Short forms for printers. Missing members read as "", 0 or false. */
const char *member_text(const json_t *object, const char *key);
long long member_number(const json_t *object, const char *key);

/* print_json_value writes a tree the way documents have it. */
void print_json_value(struct view *view, const json_t *value);

/* ---- words of a command line, as sh quotes them */

/* One command: words and the line it begins at. Freed by lines_free. */
struct line {
    int number;
    int count;
    char **word;
};
struct lines {
    struct line *line;
    int count;
};

/* lines_read splits a text into commands. RIG_BAD_INPUT: a quote does not end, or a byte is none of
   a text; err->where says where. */
enum rig_status lines_read(const char *name, const char *text, size_t bytes,
                           struct lines *out_lines, struct rig_error *err);
void lines_free(struct lines *lines);

/* lines_grow gives a text that is being read more room. RIG_BAD_INPUT: it would be more than the 16
   MiB that a script, and a line, may have; RIG_FAILED: memory lacks. The text stays as it is then.
 */
enum rig_status lines_grow(char **text, size_t *room);

/* ---- running command lines */

/* What lives between command lines. */
struct cli {
    struct out out;
    struct settings defaults;    /* what each line starts from */
    struct rig_session *session; /* in this process, once defaults.memory points here; or NULL */
};

/* cli_run runs one command line, prints what came of it and returns its exit code. The program's
   own (defaults.memory is NULL) may be a script or the shell. */
int cli_run(struct cli *cli, int count, const char *const *words);

/* cli_begin begins command lines that share a session in this process, and what the program's own
   request set and gave; it stays until cli_end, which gives back what the session still has, and
   says so. */
void cli_begin(struct cli *cli, const struct request *own);
void cli_end(struct cli *cli);

/* script_main runs the script of -f or -c, or of standard input; shell_main reads command lines
   from a terminal, or from what else standard input is, one by one. They return the exit code. */
int script_main(struct cli *cli, const struct request *request);
int shell_main(struct cli *cli, const struct request *request);

/* shell_word is the i-th word that is a command in the shell alone, NULL past the last. */
const char *shell_word(int i);

/* script_run runs the commands of a text that `name` names in messages; *out_stopped: at a failure.
 */
int script_run(struct cli *cli, const char *name, const char *text, size_t bytes,
               bool *out_stopped);

/* script_read makes *out_text the file's text, to be freed. */
enum rig_status script_read(const char *path, char **out_text, size_t *out_bytes,
                            struct rig_error *err);

/* cli_execute runs a request that was read without error; reply is fresh. reply_free frees it. */
void cli_execute(const struct request *request, struct reply *reply);
void reply_free(struct reply *reply);

/* cli_report prints a reply: the result on out, errors and warnings on standard error. It returns
   the exit code. `step`, of a script in JSON: the reply is a member of the script's document. */
int cli_report(struct out *out, const struct request *request, struct reply *reply,
               const struct line *step);

/* cli_output_broke tells that standard output could not be written, and is the exit code of that.
 */
int cli_output_broke(const struct request *request, int error);

/* cli_print_error prints an error on standard error; error_json is one for a document. */
void cli_print_error(const struct request *request, const struct rig_error *err);
json_t *error_json(struct reply *reply);

/* cli_print_no_memory prints the document of a command for which memory ran out, without any. */
void cli_print_no_memory(struct out *out, const struct request *request);

/* cli_print_error_member prints "error" and its comma, without memory where there is none: then
   reply's error is that. */
void cli_print_error_member(struct view *view, struct reply *reply);

/* cli_redirect makes -h and -V the commands they stand for. */
void cli_redirect(struct request *request);

/* ---- the machine that a command is about */

/* machine_load makes *out_topology the machine of -m with the facts given by options, and notes its
   warnings in the reply. Facts of the program's own command line come before a line's; a session's
   machine has had them since it was opened. On failure reply holds the error. */
bool machine_load(const struct request *request, struct reply *reply, const char *source,
                  struct rig_topology **out_topology);

/* machine_load_both makes besides *out_before the machine without what is tried: without the facts
   of --assume, or, where there are none, without all that options give. */
bool machine_load_both(const struct request *request, struct reply *reply, const char *source,
                       struct rig_topology **out_before, struct rig_topology **out_topology);

/* machine_rules is the rule set of --rules, else the machine's. *out_from says why that one. NULL:
   reply holds the error. */
const struct rig_rules *machine_rules(const struct request *request, struct reply *reply,
                                      const struct rig_topology *t, const char **out_from);

/* machine_function is the number of the function named `name`, or -1 with the error in reply. */
int machine_function(struct reply *reply, const struct rig_topology *t, const char *name);

/* complete_words makes the candidates for the last of the words, as `complete` tells them, with the
   session of `settings`. */
void complete_words(struct reply *reply, const struct settings *settings, int count,
                    const char *const *words);

/* source_name is -m's source, "live" when none was given. */
const char *source_name(const struct request *request);

/* ---- what `list`, `topo`, `diff` say of a function */

/* function_json is everything known of function i, with "unknown" and "assumed" beside it. */
json_t *function_json(struct reply *reply, const struct rig_topology *t, int i);

/* machine_json is everything known of the machine as a whole. */
json_t *machine_json(struct reply *reply, const struct rig_topology *t);

/* class_word is a short word for a class code: "VGA", "ethernet", "NVMe", "bridge", ... */
const char *class_word(struct rig_fact class_code);

/* function_steps_up is how many steps lead up from function i to `above`, which is above it or i
   itself, or with -1 to past the topmost; -1 where it is not above. */
int function_steps_up(const struct rig_topology *t, int i, int above);

/* function_label is "gpu0" or, without an alias, the address, in text of RIG_BDF_MAX bytes. */
const char *function_label(const struct rig_topology *t, int i, char text[RIG_BDF_MAX]);

/* ---- files */

/* file_write makes `path` a file of the text, 0600, replacing what was there whole or not at all;
   `dry`: it is written beside its place and removed again. RIG_REFUSED: path is a link or no
   regular file, or may not be written. RIG_FAILED: writing broke. */
enum rig_status file_write(const char *path, const char *text, size_t bytes, bool dry,
                           struct rig_error *err);

/* A file that is being written beside its place, which it takes with file_commit unless `dry`. */
struct new_file {
    int fd;
    char *temporary;
    const char *path;
    bool dry;
};
enum rig_status file_begin(const char *path, bool dry, struct new_file *out_file,
                           struct rig_error *err);
enum rig_status file_commit(struct new_file *file, struct rig_error *err);
void file_abandon(struct new_file *file);

/* picture_kind is "dot", "svg", "png" or "pdf" by the path's ending, or NULL. */
const char *picture_kind(const char *path);

/* picture_write makes `path` the picture of a graph in graphviz's language, by graphviz's dot;
   `dry` as with file_write. */
enum rig_status picture_write(const char *path, const char *graph, size_t bytes, bool dry,
                              struct rig_error *err);

/* picture_reply makes the reply of a command that drew `graph`: the graph itself (--dot), or the
   file of -o. */
void picture_reply(const struct request *request, struct reply *reply, const struct out *graph);
/* picture_text prints the graph of such a reply; false when the reply is none. */
bool picture_text(struct view *view, const json_t *result);

/* host_bridge_json is what a decision says of a host bridge. */
json_t *host_bridge_json(struct reply *reply, const struct rig_topology *t,
                         const struct rig_bridge_answer *bridge);

/* ---- tables of text */

struct table;
/* table_make makes a table of `columns` columns; titles may be NULL. right: bit n makes column n
   right-aligned. NULL: memory ran out; the other calls allow it. */
struct table *table_make(int columns, const char *const *titles, unsigned right);
void table_cell(struct table *table, const char *text);
void table_format(struct table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* table_print prints it, each line after `indent`, and frees it. */
void table_print(struct table *take_table, struct out *o, const char *indent);

/* ---- colour: only the verdict and the hop at fault */
#define COLOR_GOOD "32"
#define COLOR_BAD "31"
#define COLOR_DOUBT "33"
/* view_colored prints text, escaped, in colour where the view has it. */
void view_colored(struct view *view, const char *color, const char *text);

#endif
