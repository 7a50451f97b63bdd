/* Sessions and commands on them, whatever a command can change. */
#ifndef RIG_CRASH_SCENES_H
#define RIG_CRASH_SCENES_H

#include "aftermath.h"

/* `before` are lines that set the stage; `line` is the command that things happen to, in which HOST
   stands for the address of the region called host. steps: lines
   that do the same one transaction each; NULL: it is one. */
struct scene {
    const char *before;
    const char *line;
    const char *steps;
};

#define STATES_MAX 8

/* What a scene leads to when nothing goes wrong: the state file before, after each transaction, and
   what was asked of the system. */
struct course {
    const struct scene *scene;
    char line[128]; /* with --json */
    char *state[STATES_MAX];
    int states;
    struct places places;
    long calls[SHIM_CALLS];
    char out[8192];
    long held;
    int files;
};

/* course_begin plays the scene; what was there before can be had again by stage_restore. course_end
   frees it. */
void course_begin(const struct scene *scene, struct course *c);
void course_end(struct course *c);

/* course_state is which of its states the state file has now, -1: none of them. */
int course_state(const struct course *c);

/* course_tell says what is wrong with how a command ended, the first dozen times. course_wrong is
   how often that was so since it was last asked. */
void course_tell(const char *label, const char *what, const struct stage_end *end);
int course_wrong(void);

/* course_left tells what a command left behind: blocks of memory, or open files. False: it was
   killed, which it tells, and nothing more can be said of it. */
bool course_left(const struct course *c, const struct stage_end *end, const char *label);

/* scenes change the state file; looks leave it as it is. */
extern const struct scene scenes[], looks[];
extern const int scene_count, look_count;

/* scene_set empties the stage and runs the lines before. */
void scene_set(const struct scene *scene);

#endif
