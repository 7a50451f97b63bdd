/* A session's memories between its processes: what is restored goes on as it would have. */
#include "sessions.h"

#include "gpu/save.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)

/* A number of requests, random by the seed; the ids of the regions that are out in `out`. */
struct play {
    uint64_t seed, out[256];
    size_t count;
};

static uint64_t draw(struct play *p, uint64_t below)
{
    p->seed = p->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (p->seed >> 33) % below;
}

/* A piece of what the process sees of the region, if it is system memory; else a map_peer of it. */
static enum rig_status borrow(struct session *s, struct play *p, struct rig_memory *m, uint64_t id,
                              struct rig_region *out_region, struct rig_error *err)
{
    struct rig_region of = session_region(s, id);
    struct rig_region_info info = rig_info(of);
    struct rig_host host;
    if (!rig_region_host(of, &host) || info.target != RIG_TARGET_SYSTEM)
        return rig_memory_map_peer(m, of, out_region, err);
    uint64_t skip = draw(p, host.bytes);
    return rig_memory_map_host(m, (const unsigned char *)host.memory + skip,
                               1 + draw(p, host.bytes - skip), out_region, err);
}

static void step(struct session *s, struct play *p)
{
    struct rig_error err = {.status = RIG_OK};
    struct rig_region region = {.memory = NULL};
    struct rig_memory *m = session_memory(s, (int)draw(p, 3));
    enum rig_status status = RIG_OK;
    uint64_t what = draw(p, 8), pick = p->count ? p->out[draw(p, p->count)] : 0;
    bool made = true;
    if (what < 3 || p->count == 0) {
        uint64_t bytes = draw(p, 4) ? KIB(4) << draw(p, 6) : MIB(8);
        status =
            rig_memory_alloc(m, (enum rig_kind)draw(p, 3), bytes, draw(p, 2) == 0, &region, &err);
    } else if (what < 4) {
        status = borrow(s, p, m, pick, &region, &err);
    } else if (what < 5) {
        status = rig_memory_map_peer(m, session_region(s, pick), &region, &err);
    } else if (what < 6) {
        twin_set_flush(s->machine, m->function, draw(p, 4) ? TWIN_FLUSH_OK : TWIN_FLUSH_NEVER);
        made = false;
    } else {
        struct rig_region old = session_region(s, pick);
        status = rig_memory_free(old.memory, old, &err);
        made = false;
        for (size_t i = 0; i < p->count; i++)
            if (p->out[i] == pick)
                p->out[i] = p->out[--p->count];
    }
    if (status != RIG_OK && status != RIG_NO_ROOM && status != RIG_INVALID)
        fail_msg("%s: %s: %s", rig_status_name(status), err.what, err.why);
    if (made && status == RIG_OK && p->count < 255)
        p->out[p->count++] = region.id;
}

static void what_is_restored_goes_on_with_the_same_addresses_and_ids(void **state)
{
    (void)state;
    enum { STEPS = 60 };
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct session s;
        struct play in_one = {.seed = seed}, in_many = {.seed = seed};
        json_t *states[STEPS];
        session_open(&s);
        for (int i = 0; i < STEPS; i++) {
            step(&s, &in_one);
            states[i] = session_save(&s);
        }
        session_close(&s);
        session_open(&s);
        for (int i = 0; i < STEPS; i++) {
            step(&s, &in_many);
            session_next(&s);
            json_t *now = session_save(&s);
            if (!json_equal(states[i], now))
                fail_msg("seed %d step %d\n%s\n%s", (int)seed, i,
                         json_dumps(states[i], JSON_INDENT(1)), json_dumps(now, JSON_INDENT(1)));
            json_decref(now);
            json_decref(states[i]);
        }
        session_close(&s);
    }
}

/* ---- a process that was killed */

/* A session's GPU work reads the byte, by cache or tables. */
static bool gpu_reads(struct session *s, int gpu, rig_gpu_address at)
{
    uint8_t byte;
    return rig_twin_gpu_read(s->machine, rig_gpu_names[gpu], at, &byte, 1, NULL) == RIG_OK;
}

/* The process did all of the request, and was killed before it saved: the state is the one from
   before. `request` is done there once for real, once supposed. */
static void kill_in(struct session *s, void (*request)(struct session *s, enum rig_status wanted))
{
    json_t *memories = session_save(s), *machine;
    assert_int_equal(machine_save(s->machine, &machine, NULL), RIG_OK);
    request(s, RIG_OK);
    rig_gpus_free(s->gpus);
    machine_detach(s->machine);
    assert_int_equal(twin_reopen(s->t, s->directory, machine, &s->machine, NULL), RIG_OK);
    assert_int_equal(gpus_restore(s->machine, memories, &s->gpus, NULL), RIG_OK);
    gpus_suppose(s->gpus, true);
    request(s, RIG_FAILED);
    gpus_suppose(s->gpus, false);
    json_decref(memories);
    json_decref(machine);
}

static struct rig_region made_region;

static void alloc_gpu(struct session *s, enum rig_status wanted)
{
    assert_int_equal(
        rig_memory_alloc(session_memory(s, 0), RIG_KIND_GPU, MIB(3), false, &made_region, NULL),
        wanted);
}

static void alloc_host(struct session *s, enum rig_status wanted)
{
    assert_int_equal(
        rig_memory_alloc(session_memory(s, 0), RIG_KIND_HOST, MIB(3), false, &made_region, NULL),
        wanted);
}

static void map_first(struct session *s, enum rig_status wanted)
{
    assert_int_equal(
        rig_memory_map_peer(session_memory(s, 1), session_region(s, 1), &made_region, NULL),
        wanted);
}

static void free_first(struct session *s, enum rig_status wanted)
{
    struct rig_region first = session_region(s, 1);
    assert_int_equal(rig_memory_free(first.memory, first, NULL), wanted);
}

/* No address that was given out is reached by a GPU that does not know of it. */
static void requests_of_a_process_that_was_killed_leave_what_they_took(void **state)
{
    (void)state;
    void (*const requests[])(struct session *, enum rig_status) = {alloc_gpu, alloc_host, map_first,
                                                                   free_first};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(requests); i++)
        for (int kind = RIG_KIND_GPU; kind <= RIG_KIND_HOST; kind++) {
            struct session s;
            struct rig_region first, other;
            session_open(&s);
            assert_int_equal(rig_memory_alloc(session_memory(&s, 0), (enum rig_kind)kind, KIB(8),
                                              false, &first, NULL),
                             RIG_OK);
            rig_gpu_address old = rig_region_address(first);
            kill_in(&s, requests[i]);
            /* What it wrote may be reached, so nothing is given out there. */
            for (int n = 0; n < 12; n++) {
                struct rig_memory *m = session_memory(&s, 0);
                assert_int_equal(rig_memory_alloc(m, (enum rig_kind)(n % 3), KIB(4) << (n % 4),
                                                  false, &other, NULL),
                                 RIG_OK);
                assert_true(gpu_reads(&s, 0, rig_region_address(other)));
                if (requests[i] == free_first)
                    assert_true(rig_region_address(other) != old);
            }
            if (requests[i] == map_first) {
                /* The next map_peer takes over what it left. */
                struct rig_region p;
                assert_int_equal(
                    rig_memory_map_peer(session_memory(&s, 1), session_region(&s, 1), &p, NULL),
                    RIG_OK);
                assert_true(gpu_reads(&s, 1, rig_region_address(p)));
            }
            session_next(&s);
            for (int gpu = 0; gpu < 3; gpu++)
                assert_int_equal(rig_memory_release(session_memory(&s, gpu), NULL), RIG_OK);
            struct twin_audit audit;
            twin_audit(s.machine, &audit);
            assert_int_equal(audit.grants, 0);
            assert_int_equal(audit.pins, 0);
            session_close(&s);
        }
}

/* ---- hostile states */

/* Every text and number of the state in turn is something else: bad input, or a state that can be
   gone on with and ended. */
static void spoil(json_t *j, size_t *at, size_t which, const char *text, json_int_t number)
{
    const char *key;
    json_t *value;
    size_t i;
    if (json_is_object(j)) {
        json_object_foreach(j, key, value)
        {
            spoil(value, at, which, text, number);
        }
    } else if (json_is_array(j)) {
        json_array_foreach(j, i, value)
        {
            spoil(value, at, which, text, number);
        }
    } else if ((*at)++ == which) {
        if (json_is_string(j))
            json_string_set(j, text);
        else if (json_is_integer(j))
            json_integer_set(j, number);
    }
}

static void a_state_that_breaks_a_rule_is_bad_input(void **state)
{
    (void)state;
    struct session s;
    struct play p = {.seed = 3};
    session_open(&s);
    for (int i = 0; i < 30; i++)
        step(&s, &p);
    json_t *memories = session_save(&s), *machine;
    assert_int_equal(machine_save(s.machine, &machine, NULL), RIG_OK);
    rig_gpus_free(s.gpus);
    machine_detach(s.machine);
    static const char *const texts[] = {"", "0x0", "9 L0 1 2", "0000:06:00.0", "zz"};
    static const json_int_t numbers[] = {-1, 0, INT64_MAX};
    size_t refused = 0, count = 0;
    for (size_t which = 0;; which++) {
        size_t at = 0;
        for (size_t k = 0; k < RIG_ARRAY_LENGTH(texts); k++) {
            json_t *spoiled = json_deep_copy(memories);
            at = 0;
            spoil(spoiled, &at, which, texts[k], numbers[k % 3]);
            if (at > which && !json_equal(spoiled, memories)) {
                struct rig_error err = {.status = RIG_OK};
                struct rig_gpus *g;
                assert_int_equal(twin_reopen(s.t, s.directory, machine, &s.machine, NULL), RIG_OK);
                enum rig_status status = gpus_restore(s.machine, spoiled, &g, &err);
                count++;
                refused += status == RIG_BAD_INPUT;
                assert_true(status == RIG_OK || status == RIG_BAD_INPUT);
                if (status == RIG_OK)
                    rig_gpus_free(g);
                machine_detach(s.machine);
            }
            json_decref(spoiled);
        }
        if (at <= which)
            break;
    }
    assert_true(refused * 10 > count * 8);
    assert_int_equal(twin_reopen(s.t, s.directory, machine, &s.machine, NULL), RIG_OK);
    assert_int_equal(gpus_restore(s.machine, memories, &s.gpus, NULL), RIG_OK);
    json_decref(memories);
    json_decref(machine);
    session_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_restored_goes_on_with_the_same_addresses_and_ids),
        cmocka_unit_test(requests_of_a_process_that_was_killed_leave_what_they_took),
        cmocka_unit_test(a_state_that_breaks_a_rule_is_bad_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
