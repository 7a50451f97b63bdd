/* A twin's bad behaviour, on demand. */
#include "machine/twins.h"

#include "base/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool can(enum twin_step kind, enum twin_fault fault)
{
    static const bool refuses[TWIN_STEPS] = {
        [TWIN_STEP_TAKE] = true, [TWIN_STEP_MAP] = true,     [TWIN_STEP_ALLOC] = true,
        [TWIN_STEP_PIN] = true,  [TWIN_STEP_RESERVE] = true, [TWIN_STEP_RESET] = true,
    };
    if (fault == TWIN_FAULT_REFUSE)
        return refuses[kind];
    return fault == TWIN_FAULT_CUT || kind == TWIN_STEP_ALLOC || kind == TWIN_STEP_PIN;
}

enum rig_status fault_step(struct twin *w, enum twin_step kind, int function, struct rig_error *err)
{
    if (w->quiet)
        return RIG_OK;
    w->steps[kind]++;
    w->clock++;
    bool counts = w->fault_kind == TWIN_STEP_ANY || w->fault_kind == kind;
    if (w->fault == TWIN_FAULT_NONE || !counts || --w->fault_in > 0)
        return RIG_OK;
    enum twin_fault fault = w->fault;
    w->fault = TWIN_FAULT_NONE;
    if (!can(kind, fault))
        return RIG_OK;
    w->fault_fired = true;
    char name[RIG_BDF_MAX] = "machine";
    if (function >= 0)
        rig_bdf_format(w->function[function].facts->bdf, name);
    if (fault == TWIN_FAULT_CUT)
        return rig_fail(err, RIG_FAILED, name, "the request was cut short");
    if (fault == TWIN_FAULT_NO_ROOM)
        return rig_fail(err, RIG_NO_ROOM, name, "the machine has no room: a fault was asked for");
    rig_fail(err, RIG_REFUSED, name, "the machine refuses: a fault was asked for");
    rig_hint(err, "ask again: it was armed once");
    return RIG_REFUSED;
}

static void arm(struct twin *w, enum twin_fault fault, enum twin_step kind, uint64_t n)
{
    w->fault = n ? fault : TWIN_FAULT_NONE;
    w->fault_kind = kind;
    w->fault_in = n;
    w->fault_fired = false;
}

void twin_arm(struct rig_machine *m, enum twin_fault fault, enum twin_step kind, uint64_t n)
{
    struct twin *w = twin_of(m);
    twin_lock(w);
    arm(w, fault, kind, n);
    twin_unlock(w);
}

bool twin_fired(struct rig_machine *m)
{
    struct twin *w = twin_of(m);
    twin_lock(w);
    bool fired = w->fault_fired;
    twin_unlock(w);
    return fired;
}

void twin_set_flush(struct rig_machine *m, int gpu, enum twin_flush flush)
{
    struct twin *w = twin_of(m);
    twin_lock(w);
    if (w->function[gpu].gpu)
        w->function[gpu].gpu->flush = flush;
    twin_unlock(w);
}

static void leave(struct twin *w, int function, int depth)
{
    w->function[function].gone = true;
    for (int i = w->function[function].first_child; i >= 0 && depth < 256;
         i = w->function[i].next_sibling)
        leave(w, i, depth + 1);
}

void twin_set_gone(struct rig_machine *m, int function)
{
    struct twin *w = twin_of(m);
    twin_lock(w);
    leave(w, function, 0);
    twin_unlock(w);
}

void twin_set_failed(struct rig_machine *m)
{
    struct twin *w = twin_of(m);
    twin_lock(w);
    w->failed = true;
    twin_unlock(w);
}

uint64_t twin_steps(struct rig_machine *m, enum twin_step kind)
{
    struct twin *w = twin_of(m);
    twin_lock(w);
    uint64_t sum = 0;
    for (int i = 0; i < TWIN_STEPS; i++)
        sum += kind == TWIN_STEP_ANY || (int)kind == i ? w->steps[i] : 0;
    twin_unlock(w);
    return sum;
}

/* ---- by text */

static enum rig_status no_such_fault(const char *spec, struct rig_error *err)
{
    rig_fail(err, RIG_INVALID, spec, "no such fault");
    rig_hint(err,
             "[GPU:]flush=late|never|ok, gone=FUNCTION, failed, refuse=N, noroom=N, cut=N, ok");
    return RIG_INVALID;
}

static enum rig_status set_flushes(struct rig_machine *m, const char *spec, const char *how,
                                   struct rig_error *err)
{
    static const char *const name[] = {"ok", "late", "never"};
    struct twin *w = twin_of(m);
    const char *flush = strstr(spec, "flush=");
    int only = -1;
    if (flush != spec) {
        char gpu[64] = "";
        size_t bytes = (size_t)(flush - spec);
        if (bytes - 1 < sizeof gpu && spec[bytes - 1] == ':')
            memcpy(gpu, spec, bytes - 1);
        only = rig_topology_find(m->topology, gpu);
        if (only < 0 || !w->function[only].gpu)
            return rig_fail(err, RIG_INVALID, spec, "it names no GPU of the twin");
    }
    for (int k = 0; k < (int)RIG_ARRAY_LENGTH(name); k++) {
        if (strcmp(how, name[k]) != 0)
            continue;
        for (int i = 0; i < w->count; i++)
            if (only < 0 || only == i)
                twin_set_flush(m, i, (enum twin_flush)k);
        return RIG_OK;
    }
    return no_such_fault(spec, err);
}

static enum rig_status arm_by_text(struct rig_machine *m, const char *spec, struct rig_error *err)
{
    static const struct {
        const char *name;
        enum twin_fault fault;
    } kind[] = {
        {"refuse=", TWIN_FAULT_REFUSE}, {"noroom=", TWIN_FAULT_NO_ROOM}, {"cut=", TWIN_FAULT_CUT}};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(kind); i++) {
        size_t length = strlen(kind[i].name);
        if (strncmp(spec, kind[i].name, length) != 0)
            continue;
        const char *number = spec + length;
        size_t digits = strspn(number, "0123456789");
        errno = 0;
        unsigned long long n = strtoull(number, NULL, 10);
        if (digits == 0 || number[digits] != '\0' || errno != 0 || n == 0)
            return rig_fail(err, RIG_INVALID, spec, "the number of a step, from 1, is missing");
        twin_arm(m, kind[i].fault, TWIN_STEP_ANY, n);
        return RIG_OK;
    }
    return no_such_fault(spec, err);
}

enum rig_status rig_twin_fault(struct rig_machine *m, const char *spec, struct rig_error *err)
{
    if (!twin_is(m))
        return rig_fail(err, RIG_INVALID, spec, "only a twin has faults on demand");
    if (strcmp(spec, "ok") == 0) {
        twin_arm(m, TWIN_FAULT_NONE, TWIN_STEP_ANY, 0);
        return RIG_OK;
    }
    if (strcmp(spec, "failed") == 0) {
        twin_set_failed(m);
        return RIG_OK;
    }
    if (strncmp(spec, "gone=", 5) == 0) {
        int function = rig_topology_find(m->topology, spec + 5);
        if (function < 0)
            return rig_fail(err, RIG_INVALID, spec, "it names no function of the twin");
        twin_set_gone(m, function);
        return RIG_OK;
    }
    const char *flush = strstr(spec, "flush=");
    if (flush)
        return set_flushes(m, spec, flush + strlen("flush="), err);
    return arm_by_text(m, spec, err);
}

/* ---- its saved state */

json_t *fault_save(const struct twin *w)
{
    json_t *steps = json_array();
    bool whole = steps != NULL;
    for (int i = 0; i < TWIN_STEPS && whole; i++)
        whole = json_array_append_new(steps, json_integer((json_int_t)w->steps[i])) == 0;
    if (!whole) {
        json_decref(steps);
        return NULL;
    }
    return json_pack("{si si sI sb sb so}", "armed", (int)w->fault, "kind", (int)w->fault_kind,
                     "in", (json_int_t)w->fault_in, "fired", w->fault_fired, "failed", w->failed,
                     "steps", steps);
}

enum rig_status fault_load(struct twin *w, const json_t *state, struct rig_error *err)
{
    uint64_t armed, kind;
    bool whole = json_get_count(state, "armed", &armed) && armed <= TWIN_FAULT_CUT &&
                 json_get_count(state, "kind", &kind) && kind <= TWIN_STEP_ANY &&
                 json_get_count(state, "in", &w->fault_in) &&
                 json_get_bool(state, "fired", &w->fault_fired) &&
                 json_get_bool(state, "failed", &w->failed) &&
                 (armed == TWIN_FAULT_NONE || w->fault_in > 0);
    const json_t *steps = json_object_get(state, "steps");
    whole = whole && json_array_size(steps) == TWIN_STEPS;
    for (size_t i = 0; i < TWIN_STEPS && whole; i++) {
        const json_t *value = json_array_get(steps, i);
        whole = json_is_integer(value) && json_integer_value(value) >= 0;
        w->steps[i] = whole ? (uint64_t)json_integer_value(value) : 0;
    }
    if (!whole)
        return rig_fail(err, RIG_BAD_INPUT, "machine", "its faults are wrong");
    w->fault = (enum twin_fault)armed;
    w->fault_kind = (enum twin_step)kind;
    return RIG_OK;
}

void twin_quiet(struct rig_machine *m, bool on)
{
    struct twin *w = twin_of(m);
    twin_lock(w);
    w->quiet = on;
    twin_unlock(w);
}
