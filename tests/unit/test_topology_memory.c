/* Memory that runs out anywhere in the topology room ends in a status, leaks nothing, and the next
   try succeeds. Every allocation of each action fails once, for every k; under sanitizers, which
   bring their own allocator, the actions run without failures. */
#include "topology/topology.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAN_FAIL 0
static long countdown, live;
static bool tripped;
#else
#define CAN_FAIL 1
static long countdown = -1; /* the allocation that fails; counts down */
static long live;           /* allocations that are out */
static bool tripped;        /* one failed */

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void __libc_free(void *memory);
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */
static int fails(void)
{
    if (countdown < 0 || countdown-- != 0)
        return 0;
    tripped = true;
    return 1;
}

void *malloc(size_t bytes)
{
    void *p = fails() ? NULL : __libc_malloc(bytes);
    live += p != NULL;
    return p;
}

void *calloc(size_t count, size_t bytes)
{
    void *p = fails() ? NULL : __libc_calloc(count, bytes);
    live += p != NULL;
    return p;
}

void *realloc(void *old, size_t bytes)
{
    void *p = fails() ? NULL : __libc_realloc(old, bytes);
    live += p != NULL && !old;
    return p;
}

void free(void *memory)
{
    live -= memory != NULL;
    __libc_free(memory);
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

static void *never_fails(size_t bytes)
{
    void *p = __libc_malloc(bytes);
    live += p != NULL;
    return p;
}
#endif

static char *text_of(const char *path, size_t *out_bytes)
{
    FILE *f = fopen(path, "r");
    if (!f)
        fail_msg("no %s", path);
    char *text = malloc(4u << 20);
    assert_non_null(text);
    *out_bytes = fread(text, 1, 4u << 20, f);
    fclose(f);
    return text;
}

/* What an action works on: a text and the machine it gives. */
struct ground {
    char *text;
    size_t bytes;
    struct rig_topology *t;
    int from, to;
};

typedef enum rig_status action(const struct ground *g);

static enum rig_status parse(const struct ground *g)
{
    struct rig_topology *t;
    struct rig_error err = {.status = RIG_OK};
    enum rig_status status = rig_topology_parse("text", g->text, g->bytes, &t, &err);
    assert_int_equal(status, err.status);
    if (status == RIG_OK)
        rig_topology_free(t);
    return status;
}

static enum rig_status copy(const struct ground *g)
{
    struct rig_topology *t;
    enum rig_status status = rig_topology_copy(g->t, &t, NULL);
    if (status == RIG_OK)
        rig_topology_free(t);
    return status;
}

static enum rig_status pair(const struct ground *g)
{
    struct rig_reach r;
    enum rig_status status = rig_reach_pair(g->t, rig_rules_for("6.1"), g->from, g->to, &r, NULL);
    if (status == RIG_OK)
        rig_reach_free(&r);
    return status;
}

static enum rig_status remedy(const struct ground *g)
{
    struct rig_remedy steps[RIG_REMEDY_STEPS];
    int count;
    return rig_reach_remedy(g->t, rig_rules_for("6.1"), g->from, g->to, steps, &count, NULL);
}

/* A table does without what it would only keep: then it takes longer, and its rows are right all
 * the same. */
static enum rig_status table(const struct ground *g)
{
    struct rig_reach_table *made;
    enum rig_status status = rig_reach_table_make(g->t, rig_rules_for("6.1"), &made, NULL);
    if (status != RIG_OK)
        return status;
    uint8_t cell;
    rig_reach_table_row(made, g->from, &g->to, 1, &cell, NULL);
    struct rig_reach r;
    long held = countdown;
    countdown = -1;
    assert_int_equal(rig_reach_pair(g->t, rig_rules_for("6.1"), g->from, g->to, &r, NULL), RIG_OK);
    countdown = held;
    if (!tripped || RIG_CELL_PATH(cell) != RIG_PATH_UNKNOWN)
        assert_int_equal(RIG_CELL_ANSWER(cell), r.answer);
    rig_reach_free(&r);
    rig_reach_table_free(made);
    return RIG_OK;
}

static enum rig_status capture(const struct ground *g)
{
    char *text;
    size_t bytes;
    enum rig_status status = rig_topology_capture(g->t, true, &text, &bytes, NULL);
    if (status == RIG_OK)
        free(text);
    return status;
}

static enum rig_status change(const struct ground *g)
{
    struct rig_topology *t;
    long held = countdown;
    countdown = -1;
    assert_int_equal(rig_topology_copy(g->t, &t, NULL), RIG_OK);
    countdown = held;
    enum rig_status status = rig_topology_set_cpu(t, "AMD", 25, "a try", NULL);
    if (status == RIG_OK)
        status = rig_topology_set_kernel(t, "6.12.1", NULL);
    if (status == RIG_OK)
        status = rig_topology_set_iommu(t, "all", RIG_IOMMU_NONE, "a try", NULL);
    rig_topology_free(t);
    return status;
}

static void try_every(const char *name, action *act, const struct ground *g)
{
    long k = 0, most = CAN_FAIL ? 200000 : 1, step = 1;
    assert_int_equal(act(g), RIG_OK);
    for (; k < most; k += step) {
        long before = live;
        countdown = CAN_FAIL ? k : -1;
        tripped = false;
        enum rig_status status = act(g);
        countdown = -1;
        if (live != before)
            fail_msg("%s: allocation %ld failed: %ld are leaked", name, k, live - before);
        if (status != RIG_OK && status != RIG_FAILED)
            fail_msg("%s: allocation %ld failed: status %d", name, k, status);
        if (!tripped)
            break;
        step = 1 + k / 64; /* the first ones one by one, the many alike ones further apart */
    }
    assert_true(k < most || !CAN_FAIL);
    assert_int_equal(act(g), RIG_OK);
}

static void every_action(const char *path, const char *from, const char *to)
{
    struct ground g = {.text = NULL};
    g.text = text_of(path, &g.bytes);
    struct rig_error err = {.status = RIG_OK};
    if (rig_topology_parse(path, g.text, g.bytes, &g.t, &err) != RIG_OK)
        fail_msg("%s: %s", path, err.why);
    g.from = rig_topology_find(g.t, from);
    g.to = rig_topology_find(g.t, to);
    assert_true(g.from >= 0 && g.to >= 0);
    static const struct {
        const char *name;
        action *act;
    } actions[] = {{"parse", parse}, {"copy", copy},       {"pair", pair},    {"remedy", remedy},
                   {"table", table}, {"capture", capture}, {"change", change}};
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(actions); i++)
        try_every(actions[i].name, actions[i].act, &g);
    rig_topology_free(g.t);
    free(g.text);
}

static void memory_that_runs_out_on_a_capture_is_a_status(void **state)
{
    (void)state;
    every_action("tests/machines/server-8gpu.json", "gpu2", "gpu5");
}

static void memory_that_runs_out_on_a_text_is_a_status(void **state)
{
    (void)state;
    every_action("tests/machines/client-intel.txt", "gpu0", "gpu1");
}

static void memory_that_runs_out_on_a_dump_is_a_status(void **state)
{
    (void)state;
    every_action("tests/kernel-answers/switch-acs/machine.hex", "03:00.0", "05:00.0");
}

int main(void)
{
#if CAN_FAIL
    /* jansson 2.14 leaks, and calls it a syntax error, where some of its own allocations fail:
     * those are left alone. */
    json_set_alloc_funcs(never_fails, free);
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_runs_out_on_a_capture_is_a_status),
        cmocka_unit_test(memory_that_runs_out_on_a_text_is_a_status),
        cmocka_unit_test(memory_that_runs_out_on_a_dump_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
