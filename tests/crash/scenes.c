#include "scenes.h"

#include "rigmem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* gpu0 has r1, which gpu1 maps too as r2, and r3 of system memory. */
#define BASE                                                                                       \
    "-q -m machine.json open gpu0 gpu1 --master\n"                                                 \
    "-q alloc gpu0 gpu 64K --name own\n"                                                           \
    "-q map-peer gpu1 own\n"                                                                       \
    "-q alloc gpu0 host 8K --name host\n"
#define MANY                                                                                       \
    BASE "-q alloc gpu0 bar 64K\n"                                                                 \
         "-q alloc gpu1 gpu 3M\n"                                                                  \
         "-q map-peer gpu1 host\n"                                                                 \
         "-q free r4\n"
#define IOMMU                                                                                      \
    "-q -m iommu.json open gpu0 gpu1 --master\n"                                                   \
    "-q alloc gpu0 host 8K\n"

const struct scene scenes[] = {
    {"", "-m machine.json open gpu0 gpu1 --master", NULL},
    {BASE, "open gpu2", NULL},
    {BASE, "open gpu2 --format plain", NULL},
    {BASE, "alloc gpu0 gpu 3M --name new", NULL},
    {BASE, "alloc gpu0 gpu 4K", NULL},
    {BASE, "alloc gpu1 bar 64K", NULL},
    {BASE, "alloc gpu1 host 16K", NULL},
    {MANY, "alloc gpu0 gpu 8M", NULL},
    {BASE, "map-host gpu1 HOST 4K", NULL},
    {IOMMU, "map-host gpu1 --file data --offset 100 9000", NULL},
    {IOMMU, "alloc gpu1 host 8K", NULL},
    {BASE, "map-peer gpu1 host", NULL},
    {MANY, "map-peer gpu0 r5", NULL},
    {BASE "-q map-peer gpu1 host\n", "map-peer gpu1 host", NULL},
    {BASE, "bus own 0000:06:00.0", NULL},
    {BASE, "bus host 0000:06:00.0", NULL},
    {BASE, "free own", NULL},
    {BASE, "free r2", NULL},
    {BASE, "free host", NULL},
    {BASE "-q free own\n", "free r2", NULL},
    {BASE "-q free own\n-q free r2\n", "alloc gpu0 gpu 64K", NULL},
    {BASE "-q bus own 0000:06:00.0\n", "free own", NULL},
    {IOMMU "-q map-host gpu1 --file data\n", "free @last", NULL},
    {BASE "-q fault gpu0:flush=never\n", "free own", NULL},
    {MANY, "free own host r5", "free own\nfree host\nfree r5"},
    {BASE, "-f script", STAGE_SCRIPT},
    {BASE, "poke own --data 00ff --by gpu0", NULL},
    {BASE, "poke host --data 00ff", NULL},
    {BASE, "peek own 0 4 --by gpu1", NULL},
    {BASE, "fault gpu0:flush=late", NULL},
    {BASE, "close gpu1", NULL},
    {BASE, "close gpu0", NULL},
    {BASE "-q close gpu0\n", "close gpu1", NULL},
    {BASE "-q close gpu1\n", "open gpu1 --master", NULL},
    {BASE "-q bus own 0000:06:00.0\n", "close gpu0", NULL},
    {IOMMU, "close gpu0", NULL},
    {BASE, "close", NULL},
    {MANY "-q bus own 0000:06:00.0\n", "close --force", NULL},
};
const int scene_count = sizeof scenes / sizeof scenes[0];

const struct scene looks[] = {
    {BASE, "show", NULL},
    {BASE, "show own", NULL},
    {BASE, "peek own 0 64", NULL},
    {BASE, "walk gpu0 0x300000000000", NULL},
    {BASE, "reach gpu0 gpu1", NULL},
    {BASE, "list", NULL},
    {BASE, "-n alloc gpu0 gpu 64K", NULL},
    {BASE, "-n free own", NULL},
    {BASE, "-n close", NULL},
    {BASE, "recover", NULL},
};
const int look_count = sizeof looks / sizeof looks[0];

void scene_set(const struct scene *scene)
{
    stage_empty("s");
    stage_do(scene->before);
}

static void add_state(struct course *c)
{
    assert_true(c->states < STATES_MAX);
    c->state[c->states++] = stage_state();
    places_add(&c->places);
}

static void make_line(const char *line, char *to, size_t room)
{
    const char *at = strstr(line, "HOST");
    struct rig_session *s;
    struct rig_region region;
    if (!at) {
        snprintf(to, room, "-j %s", line);
        return;
    }
    assert_int_equal(rig_session_begin(STAGE_STATE, RIG_SESSION_LOOK, &s, NULL), RIG_OK);
    assert_int_equal(rig_session_region(s, "host", &region, NULL), RIG_OK);
    snprintf(to, room, "-j %.*s0x%llx%s", (int)(at - line), line,
             (unsigned long long)rig_region_address(region), at + 4);
    rig_session_end(s);
}

void course_begin(const struct scene *scene, struct course *c)
{
    struct stage_end end;
    *c = (struct course){.scene = scene};
    scene_set(scene);
    make_line(scene->line, c->line, sizeof c->line);
    stage_save();
    add_state(c);
    for (const char *step = scene->steps; step; step = strchr(step, '\n')) {
        char line[128];
        step += *step == '\n';
        snprintf(line, sizeof line, "-q %.*s", (int)strcspn(step, "\n"), step);
        stage_do(line);
        add_state(c);
    }
    stage_restore();
    stage_run(c->line, NULL, &end);
    if (end.killed || (end.code > 1 && end.code != 6))
        fail_msg("%s: %d: %s", c->line, end.code, end.err);
    memcpy(c->calls, stage_shim->seen, sizeof c->calls);
    snprintf(c->out, sizeof c->out, "%s", end.out);
    c->held = end.held;
    c->files = end.files;
    add_state(c);
}

void course_end(struct course *c)
{
    for (int i = 0; i < c->states; i++)
        free(c->state[i]);
}

int course_state(const struct course *c)
{
    char *now = stage_state();
    int which = c->states - 1;
    while (which >= 0 && strcmp(now, c->state[which]) != 0)
        which--;
    free(now);
    return which;
}

/* ---- how a command ended */

#define TOLD_MAX 12

static int wrong;

void course_tell(const char *label, const char *what, const struct stage_end *end)
{
    if (wrong++ < TOLD_MAX)
        print_error("%s: %s: exit %d, signal %d\n  out: %.600s\n  err: %.300s\n", label, what,
                    end->code, end->signal, end->out, end->err);
}

int course_wrong(void)
{
    int told = wrong;
    wrong = 0;
    return told;
}

bool course_left(const struct course *c, const struct stage_end *end, const char *label)
{
    if (end->killed) {
        course_tell(label, "it was killed", end);
        return false;
    }
    if (end->held != c->held)
        course_tell(label, end->held > c->held ? "memory is lost" : "memory is freed twice", end);
    if (end->files != c->files)
        course_tell(label, "a file stays open", end);
    return true;
}
