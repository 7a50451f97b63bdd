/* A session's memories between its processes: what is restored goes on as it would have. */
#include "rigs.h"

#include "gpu/save.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)

/* A session: a machine in files, whose process may end at any time. */
struct session {
    struct rig_topology *t;
    char directory[64];
    struct rig_machine *machine;
    struct rig_gpus *gpus;
};

static void open_session(struct session *s)
{
    s->t = build_machine(RIG_SWITCH RIG_GPUS, "GenuineIntel:6");
    snprintf(s->directory, sizeof s->directory, "/tmp/rigmem-save-XXXXXX");
    assert_non_null(mkdtemp(s->directory));
    struct rig_error err = {.status = RIG_OK};
    assert_int_equal(rig_twin_open(s->t, s->directory, &s->machine, &err), RIG_OK);
    struct rig_gpus_options options = rig_space_options();
    assert_int_equal(rig_gpus_create(s->machine, &options, &s->gpus, &err), RIG_OK);
    for (int i = 0; i < 3; i++) {
        struct rig_device *dev;
        struct rig_memory *m;
        assert_int_equal(rig_device_take(s->machine, rig_gpu_names[i], &dev, &err), RIG_OK);
        assert_int_equal(rig_memory_create(s->gpus, dev, NULL, &m, &err), RIG_OK);
        assert_int_equal(rig_device_set_master(dev, true, &err), RIG_OK);
    }
}

static void close_session(struct session *s)
{
    rig_gpus_free(s->gpus);
    assert_int_equal(rig_machine_close(s->machine, NULL), RIG_OK);
    DIR *dir = opendir(s->directory);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir))
        unlinkat(dirfd(dir), e->d_name, 0);
    closedir(dir);
    rmdir(s->directory);
    rig_topology_free(s->t);
}

static json_t *save(struct session *s)
{
    json_t *state;
    assert_int_equal(gpus_save(s->gpus, &state, NULL), RIG_OK);
    return state;
}

/* Ends the process's part and takes it up again. */
static void next_process(struct session *s)
{
    struct rig_error err = {.status = RIG_OK};
    json_t *memories = save(s), *machine, *again;
    assert_int_equal(machine_save(s->machine, &machine, NULL), RIG_OK);
    rig_gpus_free(s->gpus);
    machine_detach(s->machine);
    if (twin_reopen(s->t, s->directory, machine, &s->machine, &err) != RIG_OK ||
        gpus_restore(s->machine, memories, &s->gpus, &err) != RIG_OK)
        fail_msg("%s: %s", err.what, err.why);
    again = save(s);
    if (!json_equal(memories, again))
        fail_msg("%s\n%s", json_dumps(memories, JSON_INDENT(1)), json_dumps(again, JSON_INDENT(1)));
    json_decref(memories);
    json_decref(machine);
    json_decref(again);
}

static struct rig_memory *memory_at(struct session *s, int gpu)
{
    return gpus_memory_of(s->gpus, function_at(s->t, rig_gpu_names[gpu] + 5));
}

static struct rig_region region_at(struct session *s, uint64_t id)
{
    struct rig_region region = {.memory = NULL};
    if (!gpus_region_named(s->gpus, id, &region))
        fail_msg("no region %d", (int)id);
    return region;
}

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
    struct rig_region of = region_at(s, id);
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
    struct rig_memory *m = memory_at(s, (int)draw(p, 3));
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
        status = rig_memory_map_peer(m, region_at(s, pick), &region, &err);
    } else if (what < 6) {
        twin_set_flush(s->machine, m->function, draw(p, 4) ? TWIN_FLUSH_OK : TWIN_FLUSH_NEVER);
        made = false;
    } else {
        struct rig_region old = region_at(s, pick);
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
        open_session(&s);
        for (int i = 0; i < STEPS; i++) {
            step(&s, &in_one);
            states[i] = save(&s);
        }
        close_session(&s);
        open_session(&s);
        for (int i = 0; i < STEPS; i++) {
            step(&s, &in_many);
            next_process(&s);
            json_t *now = save(&s);
            if (!json_equal(states[i], now))
                fail_msg("seed %d step %d\n%s\n%s", (int)seed, i,
                         json_dumps(states[i], JSON_INDENT(1)), json_dumps(now, JSON_INDENT(1)));
            json_decref(now);
            json_decref(states[i]);
        }
        close_session(&s);
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
    json_t *memories = save(s), *machine;
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
        rig_memory_alloc(memory_at(s, 0), RIG_KIND_GPU, MIB(3), false, &made_region, NULL), wanted);
}

static void alloc_host(struct session *s, enum rig_status wanted)
{
    assert_int_equal(
        rig_memory_alloc(memory_at(s, 0), RIG_KIND_HOST, MIB(3), false, &made_region, NULL),
        wanted);
}

static void map_first(struct session *s, enum rig_status wanted)
{
    assert_int_equal(rig_memory_map_peer(memory_at(s, 1), region_at(s, 1), &made_region, NULL),
                     wanted);
}

static void free_first(struct session *s, enum rig_status wanted)
{
    struct rig_region first = region_at(s, 1);
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
            open_session(&s);
            assert_int_equal(rig_memory_alloc(memory_at(&s, 0), (enum rig_kind)kind, KIB(8), false,
                                              &first, NULL),
                             RIG_OK);
            rig_gpu_address old = rig_region_address(first);
            kill_in(&s, requests[i]);
            /* What it wrote may be reached, so nothing is given out there. */
            for (int n = 0; n < 12; n++) {
                struct rig_memory *m = memory_at(&s, 0);
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
                assert_int_equal(rig_memory_map_peer(memory_at(&s, 1), region_at(&s, 1), &p, NULL),
                                 RIG_OK);
                assert_true(gpu_reads(&s, 1, rig_region_address(p)));
            }
            next_process(&s);
            for (int gpu = 0; gpu < 3; gpu++)
                assert_int_equal(rig_memory_release(memory_at(&s, gpu), NULL), RIG_OK);
            struct twin_audit audit;
            twin_audit(s.machine, &audit);
            assert_int_equal(audit.grants, 0);
            assert_int_equal(audit.pins, 0);
            close_session(&s);
        }
}

/* ---- a give-back that was cut short, and borrowed memory */

static void release(struct session *s, int gpu, enum rig_status wanted)
{
    assert_int_equal(rig_memory_release(memory_at(s, gpu), NULL), wanted);
}

static uint64_t alloc(struct session *s, int gpu, enum rig_kind kind, uint64_t bytes)
{
    struct rig_region region;
    struct rig_error err = {.status = RIG_OK};
    if (rig_memory_alloc(memory_at(s, gpu), kind, bytes, false, &region, &err) != RIG_OK)
        fail_msg("%s: %s", err.what, err.why);
    return region.id;
}

static uint64_t map_host(struct session *s, int gpu, rig_gpu_address at, uint64_t bytes)
{
    struct rig_region region;
    struct rig_error err = {.status = RIG_OK};
    if (rig_memory_map_host(memory_at(s, gpu), (void *)(uintptr_t)at, bytes, &region, &err) !=
        RIG_OK)
        fail_msg("%s: %s", err.what, err.why);
    return region.id;
}

static rig_gpu_address address_of(struct session *s, uint64_t id)
{
    return rig_region_address(region_at(s, id));
}

static void free_id(struct session *s, uint64_t id)
{
    struct rig_region region = region_at(s, id);
    assert_int_equal(rig_memory_free(region.memory, region, NULL), RIG_OK);
}

static struct twin_audit held(struct session *s)
{
    struct twin_audit audit;
    twin_audit(s->machine, &audit);
    return audit;
}

static void a_give_back_that_was_cut_short_goes_on_in_the_next_process(void **state)
{
    (void)state;
    /* Two views, a pin, an allocation; then the claim alone is left. */
    for (uint64_t cut = 1; cut <= 5; cut++) {
        struct session s;
        open_session(&s);
        rig_gpu_address h = address_of(&s, alloc(&s, 0, RIG_KIND_HOST, KIB(8)));
        map_host(&s, 0, h, KIB(8));
        uint64_t bar = alloc(&s, 0, RIG_KIND_BAR, KIB(8));
        twin_arm(s.machine, TWIN_FAULT_CUT, TWIN_STEP_ANY, cut);
        release(&s, 0, RIG_FAILED);
        uint64_t blocks = rig_held_blocks(s.gpus);
        assert_int_equal(blocks, cut < 5 ? 3 : 0);
        next_process(&s);
        assert_int_equal(rig_held_blocks(s.gpus), blocks);
        rig_gpu_address other = address_of(&s, alloc(&s, 1, RIG_KIND_HOST, KIB(8)));
        assert_true((other == h) == (cut == 5));
        free_id(&s, bar);
        next_process(&s);
        rig_gpus_finish_releases(s.gpus);
        assert_int_equal(rig_held_blocks(s.gpus), 1);
        assert_int_equal(held(&s).grants, 1);
        assert_int_equal(held(&s).pins, 0);
        next_process(&s);
        assert_int_equal(rig_held_blocks(s.gpus), 1);
        close_session(&s);
    }
}

/* Memory that was borrowed keeps its place in the process, also when it was freed: nothing else
   comes to lie there, in this process or the next, before the borrower frees it. */
static void borrowed_addresses_are_held_from_process_to_process(void **state)
{
    (void)state;
    for (int saves = 0; saves < 2; saves++) {
        struct session s;
        open_session(&s);
        uint64_t one = alloc(&s, 0, RIG_KIND_HOST, KIB(8));
        uint64_t two = alloc(&s, 0, RIG_KIND_HOST, KIB(8));
        rig_gpu_address at = address_of(&s, one);
        assert_true(address_of(&s, two) == at + KIB(8));
        /* Parts of both: of each block all is held. */
        uint64_t b = map_host(&s, 1, at + KIB(4) + 100, KIB(4) + 1);
        *(unsigned char *)(uintptr_t)(at + KIB(8)) = 0x77;
        assert_int_equal(rig_held_blocks(s.gpus), 3);
        free_id(&s, one);
        free_id(&s, two);
        if (saves)
            next_process(&s);
        assert_int_equal(rig_held_blocks(s.gpus), 3);
        assert_int_equal(held(&s).grants, 0);
        for (int i = 0; i < 4; i++) {
            rig_gpu_address other = address_of(&s, alloc(&s, i % 3, RIG_KIND_HOST, KIB(8)));
            assert_true(other != at && other != at + KIB(8));
        }
        /* The borrower still reaches the bytes. */
        uint8_t byte = 0;
        assert_int_equal(rig_twin_gpu_read(s.machine, rig_gpu_names[1],
                                           address_of(&s, b) + KIB(4) - 100, &byte, 1, NULL),
                         RIG_OK);
        assert_int_equal(byte, 0x77);
        if (saves)
            next_process(&s);
        free_id(&s, b);
        assert_true(address_of(&s, alloc(&s, 2, RIG_KIND_HOST, KIB(8))) == at);
        assert_true(address_of(&s, alloc(&s, 2, RIG_KIND_HOST, KIB(8))) == at + KIB(8));
        close_session(&s);
    }
}

static void a_borrower_holds_addresses_of_its_own_memory_and_of_its_own_borrowing(void **state)
{
    (void)state;
    struct session s;
    open_session(&s);
    uint64_t h = alloc(&s, 0, RIG_KIND_HOST, KIB(4));
    rig_gpu_address at = address_of(&s, h);
    uint64_t b = map_host(&s, 0, at, KIB(4)), c = map_host(&s, 0, at, 1);
    next_process(&s);
    free_id(&s, h);
    free_id(&s, b);
    next_process(&s);
    assert_true(address_of(&s, alloc(&s, 0, RIG_KIND_HOST, KIB(4))) != at);
    /* Its release gives the last one's back. */
    release(&s, 0, RIG_OK);
    next_process(&s);
    assert_int_equal(rig_held_blocks(s.gpus), 0);
    free_id(&s, c);
    assert_true(address_of(&s, alloc(&s, 1, RIG_KIND_HOST, KIB(4))) == at);
    close_session(&s);
}

static void addresses_with_nothing_at_them_cannot_be_borrowed(void **state)
{
    (void)state;
    struct session s;
    struct rig_region region;
    open_session(&s);
    uint64_t h = alloc(&s, 0, RIG_KIND_HOST, KIB(8)), g = alloc(&s, 0, RIG_KIND_GPU, KIB(8));
    rig_gpu_address at = address_of(&s, h), gpu = address_of(&s, g);
    const struct {
        rig_gpu_address at;
        uint64_t bytes;
    } empty[] = {
        {gpu, 1},                                /* addresses of GPU memory, which is not there */
        {gpu, KIB(8)},      {at, KIB(8) + 1},    /* beyond the end of what is there */
        {at - 1, 2},        {at + KIB(64), 1},   /* before it; where nothing ever was */
        {at, gpu - at + 1}, {at, KIB(64) << 20}, /* across all of it */
    };
    uint64_t blocks = rig_held_blocks(s.gpus);
    for (int process = 0; process < 2; process++) {
        for (size_t i = 0; i < RIG_ARRAY_LENGTH(empty); i++) {
            struct rig_error err = {.status = RIG_OK};
            assert_int_equal(rig_memory_map_host(memory_at(&s, 1), (void *)(uintptr_t)empty[i].at,
                                                 empty[i].bytes, &region, &err),
                             RIG_REFUSED);
            assert_non_null(strstr(err.why, "no pages at"));
            assert_int_equal(rig_held_blocks(s.gpus), blocks);
            assert_int_equal(held(&s).pins, 0);
        }
        next_process(&s);
    }
    free_id(&s, h);
    assert_int_equal(rig_memory_map_host(memory_at(&s, 1), (void *)(uintptr_t)at, 1, &region, NULL),
                     RIG_REFUSED);
    assert_int_equal(rig_held_blocks(s.gpus), blocks - 1);
    close_session(&s);
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
    open_session(&s);
    for (int i = 0; i < 30; i++)
        step(&s, &p);
    json_t *memories = save(&s), *machine;
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
    close_session(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_restored_goes_on_with_the_same_addresses_and_ids),
        cmocka_unit_test(requests_of_a_process_that_was_killed_leave_what_they_took),
        cmocka_unit_test(a_give_back_that_was_cut_short_goes_on_in_the_next_process),
        cmocka_unit_test(borrowed_addresses_are_held_from_process_to_process),
        cmocka_unit_test(a_borrower_holds_addresses_of_its_own_memory_and_of_its_own_borrowing),
        cmocka_unit_test(addresses_with_nothing_at_them_cannot_be_borrowed),
        cmocka_unit_test(a_state_that_breaks_a_rule_is_bad_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
