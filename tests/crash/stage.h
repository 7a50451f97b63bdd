/* Where commands are run and go wrong: a directory with a machine, a session's state file, and the
   program's own command lines, each run by a child of the test. */
#ifndef RIG_CRASH_STAGE_H
#define RIG_CRASH_STAGE_H

#include "shim.h"

#include <sys/types.h>

/* Below the directory, which is the working directory: machine.json (rigs.h's RIG_SWITCH with three
   GPUs), iommu.json (two of them behind an IOMMU), data (a file of 64 KiB), script, and s/, where
   the state file is: STAGE_STATE. Everything in s/ is the session's. */
#define STAGE_STATE "s/state"

/* What is in the file `script` there. */
#define STAGE_SCRIPT "alloc gpu0 gpu 64K --name new\nmap-peer gpu1 new\nfree new"

/* stage_input is what commands read from standard input from now on: a copy of the text. */
void stage_input(const char *lines);

void stage_open(void);
void stage_close(void);

/* stage_machines makes the machines' GPUs ones of these ids: "10de:20b5", as stage_open does. */
void stage_machines(const char *ids);

/* The shim that commands run under. */
extern struct shim *stage_shim;

/* How a command ended. Texts live until the next one. */
struct stage_end {
    bool killed;
    int signal; /* that killed it */
    int code;
    const char *out, *err;
    long held;  /* blocks of memory not freed at the end */
    int files;  /* open files more than before */
    bool fired; /* what the plan names came */
};

/* stage_run runs a line of words, in a child, under the plan (NULL: nothing goes wrong). */
void stage_run(const char *line, const struct shim_plan *plan, struct stage_end *out_end);

/* stage_do runs each of some lines, ended by newlines; each must succeed. */
void stage_do(const char *lines);

/* stage_kill runs a line and kills it as it enters its n-th system call, whose number is *out_call,
   -1 where nobody knows. False: it ended before. */
bool stage_kill(const char *line, int n, long *out_call);

/* stage_start begins a line in a child and lets it run. */
pid_t stage_start(const char *line);

/* stage_state is the state file's text, "" where there is none; to be freed. */
char *stage_state(void);

/* stage_save remembers all that is in s/, stage_restore makes s/ that again. One at a time. */
void stage_save(void);
void stage_restore(void);

/* stage_has is true iff there is a file or directory of that name in s/. stage_count counts them.
 */
bool stage_has(const char *name);
int stage_count(void);

/* stage_empty removes what is in a directory. */
void stage_empty(const char *path);

/* stage_soak is by how much the tests are to be longer: 1, or RIGMEM_SOAK. */
int stage_soak(void);

/* stage_thin is by how much the tests are to have fewer points: 1, but under a sanitizer, which is
   there to watch memory. */
int stage_thin(void);

#endif
