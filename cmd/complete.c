/* What the last of some words may become: by the command table, and for functions by the machine
   that -m among the words names. It reads facts, takes nothing and writes nothing, and gives up
   silently after 180 ms. */
#include "session.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#define LARGEST_SOURCE ((off_t)8 * 1024 * 1024)

/* Where the words before the last have led. */
struct place {
    const struct command_row *command;
    const struct option_row *waiting; /* an option whose value comes next */
    int arguments;
    bool words_only; /* after -- */
    const char *machine, *state;
};

/* What is collected. `prefix` stands before each candidate: the part of the word that is fixed. */
struct offers {
    struct reply *reply;
    json_t *list;
    const char *word;
    char prefix[128];
    const char *source;     /* NULL: the session's machine, where there is one */
    struct request request; /* of the session */
    struct rig_topology *topology;
    bool loaded; /* the source was read, or not worth it */
    bool files;
};

static void offer(struct offers *o, const char *text, const char *tail, const char *what)
{
    char whole[256];
    int bytes = snprintf(whole, sizeof whole, "%s%s%s", o->prefix, text, tail);
    if (bytes < 0 || (size_t)bytes >= sizeof whole || strncmp(whole, o->word, strlen(o->word)) != 0)
        return;
    json_t *entry = json_object();
    put(o->reply, entry, "word", text_json(whole));
    put(o->reply, entry, "what", text_json(what ? what : ""));
    add(o->reply, o->list, entry);
}

/* The option that the first `length` bytes of --NAME name, or NULL. */
static const struct option_row *find_option(const struct place *at, const char *word, size_t length)
{
    const struct option_row *row;
    for (int i = 0; (row = command_option(at->command, i)); i++)
        if (strncmp(row->name, word + 2, length - 2) == 0 && !row->name[length - 2])
            return row;
    return NULL;
}

static const struct option_row *find_letter(const struct place *at, char letter)
{
    const struct option_row *row;
    for (int i = 0; (row = command_option(at->command, i)); i++)
        if (row->letter == letter)
            return row;
    return NULL;
}

static void note_value(struct place *at, const struct option_row *row, const char *value)
{
    if (row->id == OPT_MACHINE)
        at->machine = value;
    if (row->id == OPT_STATE)
        at->state = value;
}

/* The value of the first letter that takes one is the rest of the word, or the next word. */
static void pass_letters(struct place *at, const char *word)
{
    for (const char *p = word + 1; *p; p++) {
        const struct option_row *row = find_letter(at, *p);
        if (!row || !row->value)
            continue;
        if (p[1])
            note_value(at, row, p + 1);
        else
            at->waiting = row;
        return;
    }
}

static void pass_option(struct place *at, const char *word)
{
    if (word[1] != '-') {
        pass_letters(at, word);
        return;
    }
    const char *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    const struct option_row *row = find_option(at, word, length);
    if (!row || !row->value)
        return;
    if (equals)
        note_value(at, row, equals + 1);
    else
        at->waiting = row;
}

static void pass(struct place *at, const char *word)
{
    if (at->waiting) {
        note_value(at, at->waiting, word);
        at->waiting = NULL;
    } else if (!at->words_only && strcmp(word, "--") == 0) {
        at->words_only = true;
    } else if (!at->words_only && word[0] == '-' && word[1]) {
        pass_option(at, word);
    } else if (!at->command) {
        at->command = command_find(word);
    } else {
        at->arguments++;
    }
}

/* ---- functions of the machine */

static void give_up(int signal_number)
{
    (void)signal_number;
    _exit(0);
}

static void start_clock(void)
{
    struct sigaction action = {.sa_handler = give_up};
    struct itimerval limit = {.it_value = {.tv_usec = 180000}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &limit, NULL);
}

static bool quick_to_read(const char *source)
{
    struct stat st;
    if (strcmp(source, "-") == 0)
        return false;
    if (stat(source, &st) != 0)
        return strncmp(source, "live", 4) == 0;
    return S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && st.st_size <= LARGEST_SOURCE);
}

/* Reads the machine when its functions are first asked for. */
static void load(struct offers *o)
{
    struct rig_error ignored = {.status = RIG_OK};
    if (o->loaded)
        return;
    o->loaded = true;
    struct reply scratch = {0};
    if (!o->source && session_topology(&o->request, &scratch, RIG_SESSION_GLANCE, &o->topology))
        return;
    if (!o->source)
        o->source = source_name(&o->request);
    if (quick_to_read(o->source) && rig_topology_load(o->source, &o->topology, &ignored) != RIG_OK)
        o->topology = NULL;
}

enum which {
    FUNCTIONS,
    BRIDGES,
    GPUS,
};

static bool is_one(const struct rig_function *f, enum which which)
{
    bool bridge = rig_fact_has(f->header_type) && f->header_type.value == 1;
    return which == FUNCTIONS || (which == GPUS ? f->gpu : bridge);
}

static void offer_functions(struct offers *o, const char *tail, enum which which)
{
    char text[RIG_BDF_MAX];
    load(o);
    for (int i = 0; o->topology && i < rig_topology_count(o->topology); i++) {
        const struct rig_function *f = rig_topology_function(o->topology, i);
        if (!is_one(f, which))
            continue;
        if (f->alias)
            offer(o, f->alias, tail, f->name);
        rig_bdf_format(f->bdf, text);
        offer(o, text, tail, f->name);
        if (f->bdf.domain == 0 && o->word[0] && !strncmp(o->word, text + 5, strlen(o->word)))
            offer(o, text + 5, tail, f->name);
    }
}

static void offer_choices(struct offers *o, const char *choices)
{
    while (choices && *choices) {
        char word[32];
        size_t length = strcspn(choices, "|");
        snprintf(word, sizeof word, "%.*s", (int)length, choices);
        offer(o, word, "", "");
        choices += length + (choices[length] == '|');
    }
}

/* ---- regions of the session */

static void offer_regions(struct offers *o)
{
    struct reply scratch = {.warnings = json_array()};
    struct rig_session *s = session_enter(&o->request, &scratch, RIG_SESSION_GLANCE, false);
    struct rig_region region = {.id = 0};
    while (s && rig_gpus_next_region(rig_session_gpus(s), region.id, &region)) {
        struct rig_region_info info;
        if (rig_region_info(region, &info, NULL) != RIG_OK || !info.out)
            continue;
        char id[24], what[64], size[RIG_SIZE_MAX];
        snprintf(id, sizeof id, "r%llu", (unsigned long long)region.id);
        snprintf(what, sizeof what, "%s of %s memory", rig_size_format(info.bytes, size),
                 info.has_kind ? rig_kind_name(info.kind) : "borrowed");
        offer(o, id, "", what);
        const char *name = rig_session_region_name(s, region.id);
        if (name)
            offer(o, name, "", what);
    }
    if (s) {
        offer(o, "@last", "", "the latest region");
        session_abandon(&o->request, s);
    }
    reply_free(&scratch);
}

/* ---- values */

static void add_prefix(struct offers *o, const char *text, size_t bytes)
{
    size_t used = strlen(o->prefix);
    if (used + bytes < sizeof o->prefix) {
        memcpy(o->prefix + used, text, bytes);
        o->prefix[used + bytes] = '\0';
    }
}

/* The colon after FUNCTION, or NULL: an address holds a point before it, an alias no colon. */
static const char *function_end(const char *text)
{
    const char *point = strchr(text, '.'), *colon = strchr(text, ':');
    size_t hex = strspn(text, "0123456789abcdefABCDEF:");
    if (point)
        return strchr(point, ':');
    return colon && hex < (size_t)(colon - text) ? colon : NULL;
}

/* `value` is what stands after the fixed prefix: acs=FUNCTION:, parent=FUNCTION:PORT, ... */
static void offer_assumptions(struct offers *o, const char *value)
{
    static const char *const keys[] = {"acs=", "bar=", "parent="};
    for (size_t i = 0; i < 3; i++) {
        size_t length = strlen(keys[i]);
        if (strncmp(value, keys[i], length) != 0) {
            offer(o, keys[i], "", "");
            continue;
        }
        add_prefix(o, keys[i], length);
        const char *end = function_end(value + length);
        if (i == 2 && end) {
            add_prefix(o, value + length, (size_t)(end + 1 - value) - length);
            offer_functions(o, "", BRIDGES);
        } else {
            offer_functions(o, ":", FUNCTIONS);
        }
        return;
    }
    offer(o, "p2pdma=off", "", "");
    offer(o, "p2pdma=on", "", "");
}

static void offer_iommu(struct offers *o, const char *value)
{
    const char *equals = strchr(value, '=');
    if (!equals) {
        offer(o, "all", "=", "every function");
        offer_functions(o, "=", FUNCTIONS);
        return;
    }
    add_prefix(o, value, (size_t)(equals + 1 - value));
    offer_choices(o, "none|identity|translate");
}

/* [GPU:]flush=..., gone=FUNCTION and the others. */
static void offer_faults(struct offers *o, const char *value)
{
    static const char gone[] = "gone=", flushes[] = "flush=late|flush=never|flush=ok";
    const char *end = function_end(value);
    if (strncmp(value, gone, strlen(gone)) == 0) {
        add_prefix(o, gone, strlen(gone));
        offer_functions(o, "", FUNCTIONS);
    } else if (end) {
        add_prefix(o, value, (size_t)(end + 1 - value));
        offer_choices(o, flushes);
    } else {
        offer_choices(o, flushes);
        offer_choices(o, "gone=|failed|refuse=|noroom=|cut=|ok");
        offer_functions(o, ":", GPUS);
    }
}

/* N:GPU,GPU: the last of the GPUs. */
static void offer_linked(struct offers *o, const char *value)
{
    const char *comma = strrchr(value, ','), *start = comma ? comma : strchr(value, ':');
    if (!start)
        return;
    add_prefix(o, value, (size_t)(start + 1 - value));
    offer_functions(o, "", GPUS);
}

static void offer_rules(struct offers *o)
{
    for (int i = 0; i < rig_rules_count(); i++)
        offer(o, rig_rules_name(rig_rules_at(i)), "", "rule set");
}

static void offer_commands(struct offers *o, bool with_topics)
{
    int count;
    const struct command_row *rows = commands(&count);
    for (int i = 0; i < count; i++)
        if (!(rows[i].flags & COMMAND_HIDDEN))
            offer(o, rows[i].name, "", rows[i].summary);
    for (int i = 0; with_topics && help_topic(i); i++)
        offer(o, help_topic(i), "", "topic");
}

/* `value` is the part of the word that is the value; what stands before it is in o->prefix. */
static void offer_value(struct offers *o, enum completer completer, const char *choices,
                        const char *value)
{
    offer_choices(o, choices);
    switch (completer) {
    case COMPLETE_SOURCE:
        offer(o, "live", "", "this machine");
        o->files = true;
        break;
    case COMPLETE_FILE:
        o->files = true;
        break;
    case COMPLETE_FUNCTION:
        offer_functions(o, "", FUNCTIONS);
        break;
    case COMPLETE_REGION:
        offer_regions(o);
        break;
    case COMPLETE_PLACE:
        offer_regions(o);
        offer_functions(o, "", FUNCTIONS);
        break;
    case COMPLETE_FORMAT:
        offer_choices(o,
                      "amd-gfx9|amd-gfx10|amd-gfx11|amd-gfx12|nv-mmu-v2|nv-mmu-v3|intel-xe|plain");
        break;
    case COMPLETE_FAULT:
        offer_faults(o, value);
        break;
    case COMPLETE_LINK:
        offer_linked(o, value);
        break;
    case COMPLETE_MEMORY:
        offer_functions(o, "=", FUNCTIONS);
        break;
    case COMPLETE_IOMMU:
        offer_iommu(o, value);
        break;
    case COMPLETE_ASSUME:
        offer_assumptions(o, value);
        break;
    case COMPLETE_CPU:
        offer_choices(o, "AMD:23|AMD:25|AMD:26|Intel:6|Hygon:24");
        break;
    case COMPLETE_RULES:
        offer_rules(o);
        break;
    case COMPLETE_COMMAND:
        offer_commands(o, true);
        break;
    case COMPLETE_NOTHING:
    case COMPLETE_CHOICE:
    case COMPLETE_WORDS:
        break;
    }
}

static void offer_options(struct offers *o, const struct place *at)
{
    const struct option_row *row;
    add_prefix(o, "--", 2);
    for (int i = 0; (row = command_option(at->command, i)); i++)
        offer(o, row->name, "", row->help);
}

static void offer_all(struct offers *o, const struct place *at)
{
    const char *word = o->word;
    const char *equals = strchr(word, '=');
    if (at->waiting) {
        offer_value(o, at->waiting->completer, at->waiting->choices, word);
    } else if (!at->words_only && strncmp(word, "--", 2) == 0 && equals) {
        const struct option_row *row = find_option(at, word, (size_t)(equals - word));
        add_prefix(o, word, (size_t)(equals + 1 - word));
        if (row && row->value)
            offer_value(o, row->completer, row->choices, equals + 1);
    } else if (!at->words_only && word[0] == '-') {
        offer_options(o, at);
    } else if (!at->command) {
        offer_commands(o, false);
    } else {
        int last = command_arguments(at->command) - 1;
        const struct argument_row *row = NULL;
        if (at->arguments <= last)
            row = &at->command->argument[at->arguments];
        else if (last >= 0 && at->command->argument[last].repeats)
            row = &at->command->argument[last];
        if (row)
            offer_value(o, row->completer, row->choices, word);
    }
}

void complete_words(struct reply *reply, const struct settings *settings, int count,
                    const char *const *words)
{
    struct place at = {0};
    int last = count - 1;
    for (int i = 0; i < last; i++)
        pass(&at, words[i]);
    struct offers o = {.reply = reply, .list = json_array(), .word = ""};
    if (last >= 0)
        o.word = words[last];
    o.request.settings = *settings;
    if (at.state)
        o.request.settings.state = at.state;
    o.source = at.machine;
    offer_all(&o, &at);
    rig_topology_free(o.topology);
    reply->result = json_object();
    put(reply, reply->result, "candidates", o.list);
    put(reply, reply->result, "files", json_boolean(o.files));
}

void complete_run(const struct request *request, struct reply *reply)
{
    /* what goes on after it, a shell or a script, does not end by the clock */
    if (!request->settings.memory)
        start_clock();
    complete_words(reply, &request->settings, request->arguments, request->argument);
}

/* A line a candidate, with a tab and what it is; a line "<tab>file": file names too. */
void complete_text(struct view *view, const json_t *result)
{
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(result, "candidates"), i, entry)
    {
        out_escaped(view->out, member_text(entry, "word"));
        out_text(view->out, "\t");
        out_escaped(view->out, member_text(entry, "what"));
        out_text(view->out, "\n");
    }
    if (json_is_true(json_object_get(result, "files")))
        out_text(view->out, "\tfile\n");
}
