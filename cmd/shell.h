/* What the shell's files share. */
#ifndef CMD_SHELL_H
#define CMD_SHELL_H

#include "session.h"

#include <sys/stat.h>

#define PROMPT_BYTES 80

/* A prompt, and the state file that it tells of as that was then: while the file is the same, so is
   the prompt. `of` counts where `looked`; all zeros: there was no file. */
struct prompt {
    char text[PROMPT_BYTES];
    bool looked;
    struct stat of;
};

/* shell_was_cancelled is true once for each SIGINT; shell_has_ended is true from a SIGTERM or
   SIGHUP on. */
bool shell_was_cancelled(void);
bool shell_has_ended(void);

/* shell_wait waits until standard input has something to read, or its end: true; or until a signal
   came, which no wait after it misses. */
bool shell_wait(void);

/* shell_prompt makes p->text the prompt of now, and returns it. p is zeros at first. It waits for
   nobody who uses the state file. */
const char *shell_prompt(struct cli *cli, struct prompt *p);

/* shell_readline reads lines of the terminal by readline and has `run` run each, until it says that
   it is done, or the end of input. *out_code: the latest line's. False: there is no readline. */
bool shell_readline(struct cli *cli, int (*run)(struct cli *cli, const char *text, bool *out_done),
                    int *out_code);

#endif
