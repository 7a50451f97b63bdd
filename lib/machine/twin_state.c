/* A twin's saved state: what its files do not hold. */
#include "machine/twins.h"

#include "base/json.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The most functions a link joins. */
#define LINK_MAX 256

static enum rig_status bad(struct rig_error *err, const char *what)
{
    return rig_fail(err, RIG_BAD_INPUT, "machine", "%s is missing or wrong", what);
}

/* ---- saving */

/* The double words of configuration space that differ from what the facts made, [[offset, value]].
 */
static json_t *saved_config(struct twin *w, int function)
{
    struct twin_function *f = &w->function[function];
    struct twin_function now = *f;
    config_make(w, function);
    struct twin_function fresh = *f;
    *f = now;
    json_t *changed = json_array();
    for (unsigned at = 0; at < TWIN_CONFIG; at += 4) {
        uint32_t value = config_get(&now, at, 4);
        if (memcmp(&now.config[at], &fresh.config[at], 4) == 0)
            continue;
        json_t *one = json_pack("[i I]", (int)at, (json_int_t)value);
        if (json_array_append_new(changed, one) != 0) {
            json_decref(changed);
            return NULL;
        }
    }
    return changed;
}

static json_t *saved_gpu(const struct twin_gpu *gpu)
{
    return json_pack("{ss ss si si sI sb si so}", "format", gpu->format->name, "variant",
                     gpu->format->variant, "flush", (int)gpu->flush, "looks",
                     gpu->looks > INT_MAX ? -1 : (int)gpu->looks, "asked", (json_int_t)gpu->asked,
                     "linked", gpu->linked, "peer", (int)gpu->peer, "cache", engine_save(gpu));
}

static json_t *saved_function(struct twin *w, int i)
{
    struct twin_function *f = &w->function[i];
    char name[RIG_BDF_MAX];
    rig_bdf_format(f->facts->bdf, name);
    json_t *one =
        json_pack("{ss sb sb sb so}", "function", name, "gone", f->gone, "taken", f->taken,
                  "found_intx", f->found_intx != 0, "config", saved_config(w, i));
    if (one && f->gpu && json_object_set_new(one, "gpu", saved_gpu(f->gpu)) != 0) {
        json_decref(one);
        return NULL;
    }
    return one;
}

/* A function that is as its facts made it needs no entry. */
static bool is_fresh(struct twin *w, int i)
{
    const struct twin_function *f = &w->function[i];
    if (f->gone || f->taken || f->gpu)
        return false;
    json_t *config = saved_config(w, i);
    bool fresh = json_array_size(config) == 0;
    json_decref(config);
    return fresh;
}

enum rig_status twin_save(struct twin *w, json_t *out_state, struct rig_error *err)
{
    json_t *functions = json_array();
    bool whole = functions != NULL;
    for (int i = 0; i < w->count && whole; i++)
        if (!is_fresh(w, i))
            whole = json_array_append_new(functions, saved_function(w, i)) == 0;
    whole = json_object_set_new(out_state, "functions", functions) == 0 && whole;
    whole = json_object_set_new(out_state, "seed", json_hex(w->seed)) == 0 && whole;
    whole =
        json_object_set_new(out_state, "clock", json_integer((json_int_t)w->clock)) == 0 && whole;
    whole = json_object_set_new(out_state, "faults", fault_save(w)) == 0 && whole;
    if (!whole)
        return rig_fail_memory(err);
    return memory_save(w, out_state, err);
}

/* ---- loading */

static bool load_config(struct twin_function *f, const json_t *changed)
{
    size_t i;
    const json_t *one;
    if (!json_is_array(changed))
        return false;
    json_array_foreach(changed, i, one)
    {
        const json_t *at = json_array_get(one, 0), *value = json_array_get(one, 1);
        json_int_t offset = json_integer_value(at), word = json_integer_value(value);
        if (!json_is_integer(at) || !json_is_integer(value) || offset < 0 ||
            offset > (json_int_t)(TWIN_CONFIG - 4) || offset % 4 != 0 || word < 0 ||
            word > (json_int_t)UINT32_MAX)
            return false;
        config_set(f, (unsigned)offset, 4, (uint32_t)word);
    }
    config_follow(f);
    return true;
}

static const struct rig_format *format_by_name(const char *name, const char *variant)
{
    for (int i = 0; i < rig_format_count(); i++) {
        const struct rig_format *format = rig_format_at(i);
        if (strcmp(format->name, name) == 0 && strcmp(format->variant, variant) == 0)
            return format;
    }
    return NULL;
}

static enum rig_status load_gpu(struct twin *w, struct twin_gpu *gpu, const json_t *j,
                                struct rig_error *err)
{
    const char *name, *variant;
    uint64_t flush, asked, peer;
    const json_t *looks = json_object_get(j, "looks");
    if (!json_get_text(j, "format", &name) || !json_get_text(j, "variant", &variant) ||
        !json_get_count(j, "flush", &flush) || flush > TWIN_FLUSH_NEVER ||
        !json_get_count(j, "asked", &asked) || asked > UINT32_MAX || !json_is_integer(looks) ||
        json_integer_value(looks) < -1 || json_integer_value(looks) > INT_MAX ||
        !json_get_bool(j, "linked", &gpu->linked) || !json_get_count(j, "peer", &peer) ||
        peer >= LINK_MAX)
        return bad(err, "a GPU's state");
    gpu->format = format_by_name(name, variant);
    if (!gpu->format)
        return bad(err, "a GPU's format");
    gpu->flush = (enum twin_flush)flush;
    gpu->asked = (uint32_t)asked;
    gpu->looks = json_integer_value(looks) < 0 ? UINT_MAX : (unsigned)json_integer_value(looks);
    gpu->peer = (uint8_t)peer;
    return engine_load(w, gpu, json_object_get(j, "cache"), err);
}

static enum rig_status load_function(struct twin *w, const json_t *j, struct rig_error *err)
{
    struct rig_bdf bdf;
    bool intx;
    int i =
        json_get_bdf(j, "function", &bdf) ? rig_topology_find_bdf(w->machine.topology, bdf) : -1;
    if (i < 0)
        return bad(err, "a function of the twin");
    struct twin_function *f = &w->function[i];
    if (!json_get_bool(j, "gone", &f->gone) || !json_get_bool(j, "taken", &f->taken) ||
        !json_get_bool(j, "found_intx", &intx) || !load_config(f, json_object_get(j, "config")))
        return bad(err, "a function's registers");
    f->found_intx = intx ? 0x400 : 0;
    return f->gpu ? load_gpu(w, f->gpu, json_object_get(j, "gpu"), err) : RIG_OK;
}

/* The fabric of links, from the GPUs' own numbers. */
static enum rig_status load_links(struct twin *w, struct rig_error *err)
{
    int gpus[LINK_MAX], count = 0;
    for (int i = 0; i < LINK_MAX; i++)
        gpus[i] = -1;
    for (int i = 0; i < w->count; i++) {
        const struct twin_gpu *gpu = w->function[i].gpu;
        if (!gpu || !gpu->linked)
            continue;
        if (gpus[gpu->peer] >= 0)
            return bad(err, "a GPU's place in the fabric of links");
        gpus[gpu->peer] = i;
        count++;
    }
    for (int i = 0; i < count; i++)
        if (gpus[i] < 0)
            return bad(err, "a GPU's place in the fabric of links");
    if (count > 0)
        link_gpus(w, gpus, count);
    return RIG_OK;
}

enum rig_status twin_load(struct twin *w, const json_t *state, struct rig_error *err)
{
    if (!json_get_hex(state, "seed", &w->seed) || !json_get_count(state, "clock", &w->clock))
        return bad(err, "the twin's time");
    enum rig_status status = fault_load(w, json_object_get(state, "faults"), err);
    size_t i;
    const json_t *functions = NULL, *one;
    if (!json_get_list(state, "functions", &functions))
        return bad(err, "the twin's list of functions");
    json_array_foreach(functions, i, one)
    {
        if (status == RIG_OK)
            status = load_function(w, one, err);
    }
    if (status == RIG_OK)
        status = load_links(w, err);
    return status == RIG_OK ? memory_load(w, state, err) : status;
}
