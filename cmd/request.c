#include "cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reading words: where it is and what went wrong first. */
struct reader {
    int count;
    const char *const *word;
    int at;
    struct request *request;
    struct rig_error *err;
};

static enum rig_status fail(struct rig_error *err, const char *what, const char *hint,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));

static enum rig_status fail(struct rig_error *err, const char *what, const char *hint,
                            const char *format, ...)
{
    if (err->status != RIG_OK)
        return err->status;
    err->status = RIG_INVALID;
    snprintf(err->what, sizeof err->what, "%s", what);
    va_list list;
    va_start(list, format);
    vsnprintf(err->why, sizeof err->why, format, list);
    va_end(list);
    if (hint)
        snprintf(err->hint, sizeof err->hint, "%s", hint);
    return RIG_INVALID;
}

/* `context`: whether the shell's own words are commands, too. */
static const char *next_command(int i, const void *context)
{
    const bool *shell = context;
    int count;
    const struct command_row *rows = commands(&count);
    for (int k = 0; k < count; k++)
        if (!(rows[k].flags & COMMAND_HIDDEN) && i-- == 0)
            return rows[k].name;
    return *shell ? shell_word(i) : NULL;
}

static const char *next_option(int i, const void *context)
{
    const struct option_row *row = command_option(context, i);
    return row ? row->name : NULL;
}

static enum rig_status fail_command(struct reader *r, const char *word)
{
    const char *near = suggest(word, next_command, &r->request->settings.shell);
    char hint[128];
    if (near)
        snprintf(hint, sizeof hint, "did you mean '%s'?", near);
    return fail(r->err, word, near ? hint : NULL, "no such command");
}

static bool belongs_to_command(const char *name)
{
    int count;
    const struct command_row *rows = commands(&count);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < rows[i].option_count; k++)
            if (strcmp(rows[i].options[k].name, name) == 0)
                return true;
    return false;
}

static enum rig_status fail_option(struct reader *r, const char *word, const char *name)
{
    if (!r->request->command && belongs_to_command(name))
        return fail(r->err, word, NULL, "stands after its command");
    const char *near = suggest(name, next_option, r->request->command);
    char hint[128];
    if (near)
        snprintf(hint, sizeof hint, "did you mean '--%s'?", near);
    return fail(r->err, word, near ? hint : NULL, "no such option");
}

/* A choice list "a|b|c" has the word? */
static bool has_choice(const char *choices, const char *word)
{
    size_t length = word ? strlen(word) : 0;
    while (choices && length > 0) {
        if (strncmp(choices, word, length) == 0 && strchr("|", choices[length]))
            return true;
        const char *bar = strchr(choices, '|');
        choices = bar ? bar + 1 : NULL;
    }
    return false;
}

static enum color_mode color_mode(const char *value)
{
    if (value && strcmp(value, "always") == 0)
        return COLOR_ALWAYS;
    return value && strcmp(value, "never") == 0 ? COLOR_NEVER : COLOR_AUTO;
}

static void apply_setting(struct settings *s, const struct option_row *row, const char *value)
{
    switch (row->id) {
    case OPT_MACHINE:
        s->machine = value;
        break;
    case OPT_STATE:
        s->state = value;
        break;
    case OPT_DRY_RUN:
        s->dry_run = true;
        break;
    case OPT_KEEP_GOING:
        s->keep_going = true;
        break;
    case OPT_JSON:
        s->json = true;
        break;
    case OPT_QUIET:
        s->quiet = true;
        break;
    case OPT_VERBOSE:
        s->verbose = true;
        break;
    case OPT_COLOR:
        s->color = color_mode(value);
        break;
    default:
        break;
    }
}

/* Takes the option with its value: `attached` if not NULL, else the next word. */
static enum rig_status take_option(struct reader *r, const struct option_row *row, const char *name,
                                   const char *attached)
{
    const char *value = NULL;
    if (!row->value) {
        if (attached)
            return fail(r->err, name, NULL, "takes no value");
    } else if (attached) {
        value = attached;
    } else if (r->at < r->count) {
        value = r->word[r->at++];
    } else {
        return fail(r->err, name, NULL, "needs a value: %s", row->value);
    }
    if (value && !*value)
        return fail(r->err, name, NULL, "its value is empty: %s", row->value);
    if (value && row->completer == COMPLETE_CHOICE && !has_choice(row->choices, value))
        return fail(r->err, name, NULL, "'%s' is none of %s", value, row->choices);
    struct request *request = r->request;
    request->given[request->givens++] =
        (struct given){.id = row->id, .option = row, .value = value};
    apply_setting(&request->settings, row, value);
    return RIG_OK;
}

static enum rig_status take_long(struct reader *r, const char *word)
{
    const char *name = word + 2;
    const char *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const struct option_row *row;
    for (int i = 0; (row = command_option(r->request->command, i)); i++) {
        if (strncmp(row->name, name, length) != 0 || row->name[length])
            continue;
        char dashed[64];
        snprintf(dashed, sizeof dashed, "--%s", row->name);
        return take_option(r, row, dashed, equals ? equals + 1 : NULL);
    }
    char bare[64];
    snprintf(bare, sizeof bare, "%.*s", length < 63 ? (int)length : 63, name);
    return fail_option(r, word, bare);
}

/* A word of letters: switches together, the last may take a value: -jq, -m FILE, -mFILE. */
static enum rig_status take_letters(struct reader *r, const char *word)
{
    for (const char *p = word + 1; *p; p++) {
        const struct option_row *row;
        for (int i = 0; (row = command_option(r->request->command, i)); i++)
            if (row->letter == *p)
                break;
        char dashed[8];
        snprintf(dashed, sizeof dashed, "-%c", *p);
        if (!row)
            return fail(r->err, word, NULL, "no such option");
        const char *attached = row->value && p[1] ? p + 1 : NULL;
        enum rig_status status = take_option(r, row, dashed, attached);
        if (status != RIG_OK || row->value)
            return status;
    }
    return RIG_OK;
}

static enum rig_status take_word(struct reader *r, const char *word)
{
    struct request *request = r->request;
    if (!request->command) {
        request->command = command_find(word);
        return request->command ? RIG_OK : fail_command(r, word);
    }
    request->argument[request->arguments++] = word;
    return RIG_OK;
}

static enum rig_status check_arguments(struct reader *r)
{
    struct request *request = r->request;
    const struct command_row *command = request->command;
    if (request_has(request, OPT_HELP) || request_has(request, OPT_VERSION))
        return RIG_OK;
    bool script = request_has(request, OPT_SCRIPT) || request_has(request, OPT_COMMANDS);
    if (script && (command || request->settings.memory))
        return fail(r->err, request_has(request, OPT_SCRIPT) ? "-f" : "-c", NULL,
                    "stands in place of a command");
    if (!command && !request->settings.memory)
        return RIG_OK;
    if (!command)
        return fail(r->err, "", "'rigmem help' lists the commands", "no command given");
    if ((command->flags & COMMAND_SHELL) && request->settings.memory)
        return fail(r->err, "", NULL, "does not go into a shell or a script");
    int most = command_arguments(command), least = 0;
    for (int i = 0; i < most; i++)
        least += !command->argument[i].optional;
    if (request->arguments < least)
        return fail(r->err, command->argument[request->arguments].name, NULL, "is missing");
    bool repeats = most > 0 && command->argument[most - 1].repeats;
    if (request->arguments > most && !repeats)
        return fail(r->err, request->argument[most], NULL, "one argument too many");
    for (int i = 0; i < request->arguments; i++) {
        const struct argument_row *row = &command->argument[i < most ? i : most - 1];
        if (row->completer == COMPLETE_CHOICE && !has_choice(row->choices, request->argument[i]))
            return fail(r->err, request->argument[i], NULL, "is none of %s", row->choices);
    }
    return RIG_OK;
}

static enum rig_status read_words(struct reader *r)
{
    bool words_only = false;
    enum rig_status first = RIG_OK;
    /* words after a wrong one are read too: they may ask for the error in JSON */
    while (r->at < r->count) {
        const char *word = r->word[r->at++];
        enum rig_status status = RIG_OK;
        if (words_only || word[0] != '-' || !word[1])
            status = take_word(r, word);
        else if (strcmp(word, "--") == 0)
            words_only = true;
        else
            status = word[1] == '-' ? take_long(r, word) : take_letters(r, word);
        if (first == RIG_OK)
            first = status;
    }
    return first != RIG_OK ? first : check_arguments(r);
}

enum rig_status request_parse(const struct settings *defaults, int count, const char *const *words,
                              struct request *out_request, struct rig_error *err)
{
    *out_request = (struct request){.settings = *defaults};
    /* every word can be one argument, and every letter of a word one option */
    size_t letters = 1;
    for (int i = 0; i < count; i++)
        letters += strlen(words[i]) + 1;
    out_request->argument = calloc((size_t)count + 1, sizeof *out_request->argument);
    out_request->given = calloc(letters, sizeof *out_request->given);
    if (!out_request->argument || !out_request->given) {
        for (int i = 0; i < count; i++)
            out_request->settings.json = out_request->settings.json ||
                                         strcmp(words[i], "-j") == 0 ||
                                         strcmp(words[i], "--json") == 0;
        err->status = RIG_FAILED;
        snprintf(err->why, sizeof err->why, "out of memory");
        return RIG_FAILED;
    }
    struct reader r = {.count = count, .word = words, .request = out_request, .err = err};
    return read_words(&r);
}

void request_free(struct request *request)
{
    free(request->argument);
    free(request->given);
    *request = (struct request){0};
}

bool request_has(const struct request *request, enum option_id id)
{
    for (int i = 0; i < request->givens; i++)
        if (request->given[i].id == id)
            return true;
    return false;
}

bool request_has_fact(const struct request *request)
{
    for (int i = 0; i < request->givens; i++)
        if (request->given[i].option->fact)
            return true;
    return false;
}

const char *request_value(const struct request *request, enum option_id id)
{
    for (int i = request->givens - 1; i >= 0; i--)
        if (request->given[i].id == id)
            return request->given[i].value;
    return NULL;
}
