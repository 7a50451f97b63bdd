/* readline, loaded only where the shell runs on a terminal. It is driven by its callbacks, so that
   signals are heard between keys. */
#include "shell.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is used of readline, under its own names (readline/readline.h, readline/history.h). */
struct library {
    void *handle;
    void (*rl_callback_handler_install)(const char *prompt, void (*handler)(char *line));
    void (*rl_callback_read_char)(void);
    void (*rl_callback_handler_remove)(void);
    void (*rl_callback_sigcleanup)(void);
    void (*rl_check_signals)(void);
    void (*rl_free_line_state)(void);
    void (*rl_replace_line)(const char *text, int clear_undo);
    int (*rl_on_new_line)(void);
    void (*rl_redisplay)(void);
    char **(*rl_completion_matches)(const char *text, char *(*next)(const char *text, int state));
    void (*add_history)(const char *line);
    int (*read_history)(const char *path);
    int (*write_history)(const char *path);
    void (*stifle_history)(int most);
    char **rl_line_buffer;
    int *rl_catch_signals;
    int *rl_attempted_completion_over;
    int *rl_completion_append_character;
    const char **rl_readline_name;
    const char **rl_completer_word_break_characters;
    char **(**rl_attempted_completion_function)(const char *text, int start, int end);
};

/* readline's callbacks take no context. */
static struct shim {
    struct library library;
    struct cli *cli;
    int (*run)(struct cli *cli, const char *text, bool *out_done);
    struct prompt prompt;
    bool done;
    int code;
    json_t *candidates;
    size_t next;
} shim;

static bool load(struct library *l)
{
    static const struct {
        const char *name;
        size_t at;
    } symbol[] = {
#define SYMBOL(name) {#name, offsetof(struct library, name)}
        SYMBOL(rl_callback_handler_install),
        SYMBOL(rl_callback_read_char),
        SYMBOL(rl_callback_handler_remove),
        SYMBOL(rl_callback_sigcleanup),
        SYMBOL(rl_check_signals),
        SYMBOL(rl_free_line_state),
        SYMBOL(rl_replace_line),
        SYMBOL(rl_on_new_line),
        SYMBOL(rl_redisplay),
        SYMBOL(rl_completion_matches),
        SYMBOL(add_history),
        SYMBOL(read_history),
        SYMBOL(write_history),
        SYMBOL(stifle_history),
        SYMBOL(rl_line_buffer),
        SYMBOL(rl_catch_signals),
        SYMBOL(rl_attempted_completion_over),
        SYMBOL(rl_completion_append_character),
        SYMBOL(rl_readline_name),
        SYMBOL(rl_completer_word_break_characters),
        SYMBOL(rl_attempted_completion_function),
#undef SYMBOL
    };
    static const char *const names[] = {"libreadline.so.8", "libreadline.so"};
    for (size_t i = 0; i < 2 && !l->handle; i++)
        l->handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; l->handle && i < sizeof symbol / sizeof symbol[0]; i++) {
        void *found = dlsym(l->handle, symbol[i].name);
        if (!found) {
            dlclose(l->handle);
            l->handle = NULL;
            break;
        }
        memcpy((char *)l + symbol[i].at, &found, sizeof found);
    }
    return l->handle != NULL;
}

/* ---- history */

/* $XDG_STATE_HOME/rigmem/history, its directory made; false: there is no place. */
static bool history_path(char *text, size_t bytes)
{
    const char *base = secure_getenv("XDG_STATE_HOME"), *home = secure_getenv("HOME");
    int written = -1;
    if (base && base[0] == '/')
        written = snprintf(text, bytes, "%s/rigmem", base);
    else if (home && home[0] == '/')
        written = snprintf(text, bytes, "%s/.local/state/rigmem", home);
    if (written <= 0 || (size_t)written + sizeof "/history" > bytes)
        return false;
    for (char *slash = strchr(text + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash)
            *slash = '\0';
        bool made = mkdir(text, 0700) == 0 || errno == EEXIST;
        if (!slash)
            break;
        *slash = '/';
        if (!made)
            return false;
    }
    strcat(text, "/history");
    return true;
}

/* The file is the user's own and nobody else reads it; made if it is not there. */
static bool history_is_safe(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    bool safe = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
                st.st_nlink == 1 && fchmod(fd, 0600) == 0;
    if (fd >= 0)
        close(fd);
    return safe;
}

static void read_history_file(void)
{
    char path[4096];
    shim.library.stifle_history(1000);
    if (history_path(path, sizeof path) && history_is_safe(path))
        shim.library.read_history(path);
}

static void write_history_file(void)
{
    char path[4096];
    mode_t before = umask(077);
    if (history_path(path, sizeof path) && history_is_safe(path))
        shim.library.write_history(path);
    umask(before);
}

/* ---- completion */

static char *next_candidate(const char *text, int state)
{
    (void)text;
    if (state == 0)
        shim.next = 0;
    const json_t *one = json_array_get(shim.candidates, shim.next++);
    return one ? strdup(member_text(one, "word")) : NULL;
}

/* Words that only the shell knows, where a command is typed. */
static void offer_own(struct reply *reply, const char *text)
{
    json_t *candidates = json_object_get(reply->result, "candidates");
    for (int i = 0; candidates && shell_word(i); i++)
        if (strncmp(shell_word(i), text, strlen(text)) == 0)
            add(reply, candidates, json_pack("{ss}", "word", shell_word(i)));
}

/* Completes `text` behind `count` words; *out_files: by names of files. */
static void offer(struct reply *reply, const char **words, int count, const char *text,
                  bool *out_files)
{
    if (count > 0 && strcmp(words[0], "source") == 0) {
        *out_files = count == 1;
        return;
    }
    words[count] = text;
    complete_words(reply, &shim.cli->defaults, count + 1, words);
    *out_files = json_is_true(json_object_get(reply->result, "files"));
    if (count == 0)
        offer_own(reply, text);
}

/* readline's own completion of file names goes on where nothing of ours fits and files do. */
static char **complete(const char *text, int start, int end)
{
    struct lines lines = {0};
    struct rig_error ignored = {.status = RIG_OK};
    struct reply reply = {.warnings = json_array()};
    const char *buffer = *shim.library.rl_line_buffer;
    int from = start;
    while (from > 0 && buffer[from - 1] != ';')
        from--;
    (void)end;
    char **found = NULL;
    bool files = false;
    *shim.library.rl_attempted_completion_over = 1;
    if (lines_read("-", buffer + from, (size_t)(start - from), &lines, &ignored) == RIG_OK) {
        int count = lines.count > 0 ? lines.line[0].count : 0;
        const char **words = calloc((size_t)count + 1, sizeof *words);
        for (int i = 0; words && i < count; i++)
            words[i] = lines.line[0].word[i];
        if (words)
            offer(&reply, words, count, text, &files);
        free(words);
        lines_free(&lines);
    }
    shim.candidates = json_object_get(reply.result, "candidates");
    if (json_array_size(shim.candidates) > 0) {
        const char *first = member_text(json_array_get(shim.candidates, 0), "word");
        size_t length = strlen(first);
        bool open = json_array_size(shim.candidates) == 1 && length > 0 &&
                    (first[length - 1] == '=' || first[length - 1] == ':');
        *shim.library.rl_completion_append_character = open ? '\0' : ' ';
        found = shim.library.rl_completion_matches(text, next_candidate);
    } else if (files) {
        *shim.library.rl_attempted_completion_over = 0;
    }
    shim.candidates = NULL;
    reply_free(&reply);
    return found;
}

/* ---- lines */

static void install(void);

static void take_line(char *line)
{
    shim.library.rl_callback_handler_remove();
    if (!line) {
        shim.done = true;
        (void)!write(STDOUT_FILENO, "\n", 1);
        return;
    }
    if (line[strspn(line, " \t")] != '\0') {
        shim.library.add_history(line);
        shim.code = shim.run(shim.cli, line, &shim.done);
    }
    free(line);
    if (!shim.done)
        install();
}

static void install(void)
{
    const char *prompt = shell_prompt(shim.cli, &shim.prompt);
    shim.library.rl_callback_handler_install(prompt, take_line);
}

static void cancel_line(void)
{
    struct library *l = &shim.library;
    l->rl_free_line_state();
    l->rl_callback_sigcleanup();
    l->rl_replace_line("", 1);
    (void)!write(STDOUT_FILENO, "^C\n", 3);
    l->rl_on_new_line();
    l->rl_redisplay();
}

static void read_keys(void)
{
    while (!shim.done && !shell_has_ended()) {
        bool ready = shell_wait();
        if (shell_was_cancelled())
            cancel_line();
        else if (ready)
            shim.library.rl_callback_read_char();
        else
            shim.library.rl_check_signals(); /* the terminal's size */
    }
}

bool shell_readline(struct cli *cli, int (*run)(struct cli *cli, const char *text, bool *out_done),
                    int *out_code)
{
    if (!load(&shim.library))
        return false;
    struct library *l = &shim.library;
    shim.cli = cli;
    shim.run = run;
    shim.done = false;
    shim.code = 0;
    shim.prompt.looked = false;
    *l->rl_catch_signals = 0;
    *l->rl_readline_name = "rigmem";
    /* no colon: bus addresses are words */
    *l->rl_completer_word_break_characters = " \t\n;\"'";
    *l->rl_attempted_completion_function = complete;
    read_history_file();
    install();
    read_keys();
    if (!shim.done)
        l->rl_callback_handler_remove();
    write_history_file();
    *out_code = shim.code;
    return true;
}
