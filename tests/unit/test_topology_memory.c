/* Memory that runs out anywhere in the topology room ends in a status, leaks nothing, and the next
   try succeeds. Every allocation of each action fails, for every k, once alone and once with all
   that follow; under sanitizers, which bring their own allocator, the actions run without failures.
 */
#include "builder.h"
#include "failing.h"
#include "fixture_tree.h"

#include "topology/libpci.h"
#include "topology/live.h"

#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

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

static enum rig_status written(const struct ground *g, bool redact)
{
    char *text;
    size_t bytes;
    enum rig_status status = rig_topology_capture(g->t, redact, &text, &bytes, NULL);
    if (status == RIG_OK)
        free(text);
    return status;
}

static enum rig_status capture(const struct ground *g)
{
    return written(g, true);
}

static enum rig_status capture_all(const struct ground *g)
{
    return written(g, false);
}

/* Facts given to a copy of the machine, by `give`. */
static enum rig_status change(const struct ground *g,
                              enum rig_status give(struct rig_topology *t, const char *function))
{
    struct rig_topology *t;
    long held = countdown;
    countdown = -1;
    assert_int_equal(rig_topology_copy(g->t, &t, NULL), RIG_OK);
    countdown = held;
    enum rig_status status = give(t, rig_topology_function(g->t, g->to)->alias);
    rig_topology_free(t);
    return status;
}

/* The vendor still fits where texts are kept; what it is assumed from does not. */
static enum rig_status give_cpu(struct rig_topology *t, const char *function)
{
    (void)function;
    char filling[16384 - 20];
    memset(filling, 'x', sizeof filling);
    long held = countdown;
    countdown = -1;
    assert_non_null(topology_intern(t, filling, sizeof filling));
    countdown = held;
    return rig_topology_set_cpu(t, "AMD", 25, "what lies on the table beside it", NULL);
}

static enum rig_status give_vendor(struct rig_topology *t, const char *function)
{
    (void)function;
    return rig_topology_set_cpu(t, "AMD", 25, NULL, NULL);
}

/* Where the reason finds no room, nothing is assumed. */
static enum rig_status guess_cpu(struct rig_topology *t, const char *function)
{
    (void)function;
    t->node[0].f.vendor = fact_known(0x1022);
    t->node[0].f.device = fact_known(0x1480);
    t->machine.cpu_vendor = (struct rig_text){.value = NULL};
    t->machine.cpu_family = fact_unknown(NULL);
    assume_cpu(t);
    assert_true(!rig_text_has(t->machine.cpu_vendor) || t->machine.cpu_vendor.from);
    return RIG_OK;
}

static enum rig_status give_kernel(struct rig_topology *t, const char *function)
{
    (void)function;
    return rig_topology_set_kernel(t, "6.12.1", NULL);
}

static enum rig_status give_p2pdma(struct rig_topology *t, const char *function)
{
    (void)function;
    return rig_topology_set_p2pdma(t, true, "a try", NULL);
}

static enum rig_status give_iommu(struct rig_topology *t, const char *function)
{
    enum rig_status status = rig_topology_set_iommu(t, function, RIG_IOMMU_NONE, "a try", NULL);
    if (status == RIG_OK)
        assert_int_equal(rig_topology_function(t, rig_topology_find(t, function))->iommu.know,
                         RIG_FACT_ASSUMED);
    return status;
}

static enum rig_status give_bar(struct rig_topology *t, const char *function)
{
    return rig_topology_set_bar(t, function, 1u << 30, "a try", NULL);
}

static enum rig_status give_acs(struct rig_topology *t, const char *function)
{
    int above = rig_topology_function(t, rig_topology_find(t, function))->parent;
    char bdf[RIG_BDF_MAX];
    rig_bdf_format(rig_topology_function(t, above)->bdf, bdf);
    t->node[above].f.acs_control = fact_unknown(NULL);
    return rig_topology_set_acs(t, bdf, 0, "a try", NULL);
}

static enum rig_status give_parent(struct rig_topology *t, const char *function)
{
    int above = rig_topology_function(t, rig_topology_find(t, function))->parent;
    char bdf[RIG_BDF_MAX];
    return rig_topology_set_parent(
        t, function, rig_bdf_format(rig_topology_function(t, above)->bdf, bdf), NULL, NULL);
}

/* Nothing is given: what follows from the facts is worked out again, with all texts anew. */
static enum rig_status give_nothing(struct rig_topology *t, const char *function)
{
    (void)function;
    for (int i = 0; i < t->count; i++)
        if (t->node[i].f.gpu)
            t->node[i].f.gpu_memory = fact_unknown(NULL);
    return topology_finish(t, "a copy", NULL);
}

static enum rig_status warn(struct rig_topology *t, const char *function)
{
    topology_warn(t, "%s is odd", function);
    topology_warn(t, "%s is odder", function);
    return RIG_OK;
}

#define CHANGE(name)                                                                               \
    static enum rig_status change_by_##name(const struct ground *g)                                \
    {                                                                                              \
        return change(g, name);                                                                    \
    }
CHANGE(give_cpu)
CHANGE(give_vendor)
CHANGE(guess_cpu)
CHANGE(give_kernel)
CHANGE(give_p2pdma)
CHANGE(give_iommu)
CHANGE(give_bar)
CHANGE(give_acs)
CHANGE(give_parent)
CHANGE(give_nothing)
CHANGE(warn)

/* A sum of distances that is not known has no distance. */
static enum rig_status distance(const struct ground *g)
{
    bool unknown;
    int far = rig_p2pdma_distance(g->t, rig_rules_for("6.1"), g->to, &g->from, 1, &unknown);
    assert_true(!tripped || (unknown && far == -1));
    return RIG_OK;
}

static void try_every(const char *name, action *act, const struct ground *g)
{
    long k = 0, most = CAN_FAIL ? 200000 : 1;
    assert_int_equal(act(g), RIG_OK);
    for (; k < most; k += 1 + k / 512) {
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
    }
    assert_true(k < most || !CAN_FAIL);
    assert_int_equal(act(g), RIG_OK);
}

/* Every action on the machine that a text gives, for requests of `from` to memory of `to`. */
static void every_action_on(const char *name, struct ground *g, const char *from, const char *to)
{
    struct rig_error err = {.status = RIG_OK};
    if (rig_topology_parse(name, g->text, g->bytes, &g->t, &err) != RIG_OK)
        fail_msg("%s: %s", name, err.why);
    g->from = rig_topology_find(g->t, from);
    g->to = rig_topology_find(g->t, to);
    assert_true(g->from >= 0 && g->to >= 0);
    static const struct {
        const char *name;
        action *act;
        bool for_gpus;
    } actions[] = {
        {"parse", parse, false},
        {"copy", copy, false},
        {"pair", pair, false},
        {"remedy", remedy, false},
        {"table", table, false},
        {"distance", distance, false},
        {"capture", capture, false},
        {"cpu", change_by_give_cpu, false},
        {"vendor", change_by_give_vendor, false},
        {"guess", change_by_guess_cpu, false},
        {"kernel", change_by_give_kernel, false},
        {"p2pdma", change_by_give_p2pdma, false},
        {"finish", change_by_give_nothing, false},
        {"warn", change_by_warn, false},
        {"iommu", change_by_give_iommu, true},
        {"bar", change_by_give_bar, true},
        {"acs", change_by_give_acs, true},
        {"parent", change_by_give_parent, true},
    };
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(actions); i++)
        for (int again = 0; again < (CAN_FAIL ? 2 : 1); again++) {
            for_good = again == 1;
            if (!actions[i].for_gpus || g->t->node[g->to].f.gpu)
                try_every(actions[i].name, actions[i].act, g);
        }
    rig_topology_free(g->t);
    free(g->text);
}

static void every_action(const char *path, const char *from, const char *to)
{
    struct ground g = {.text = NULL};
    g.text = text_of(path, &g.bytes);
    every_action_on(path, &g, from, to);
}

static void every_action_of(const char *machine, const char *cpu, const char *from, const char *to)
{
    struct ground g = {.text = NULL};
    struct rig_topology *t = build_machine(machine, cpu);
    assert_int_equal(rig_topology_capture(t, false, &g.text, &g.bytes, NULL), RIG_OK);
    rig_topology_free(t);
    every_action_on("a machine", &g, from, to);
}

#define GPU " ep id=1002:744c gpu=16384/16384 iommu=none\n"
#define CLIENT "00:00.0 host id=8086:4c43\n"

static void memory_that_runs_out_over_each_remedy_is_a_status(void **state)
{
    (void)state;
    /* Redirects are cleared for a shorter way, and where nothing else helps. */
    const char *redirects = CLIENT "00:01.0 rp 01-04\n01:00.0 up 02-04\n"
                                   "02:00.0 down 03-03 acs=001d\n02:01.0 down 04-04 acs=001d\n"
                                   "03:00.0" GPU "04:00.0" GPU;
    every_action_of(redirects, "AMD:25", "gpu0", "gpu1");
    every_action_of(redirects, "Intel:6", "gpu0", "gpu1");
    /* A newer kernel; a card is moved, under a port whose redirect is cleared. */
    every_action_of("00:00.0 host id=1d17:1003\n00:01.0 rp 01-01\n00:02.0 rp 02-02\n01:00.0" GPU
                    "02:00.0" GPU,
                    "Zhaoxin:7", "gpu0", "gpu1");
    every_action_of(CLIENT "00:01.0 rp 01-04\n01:00.0 up 02-04\n02:00.0 down 03-03\n"
                           "02:01.0 down 04-04 acs=0004\n03:00.0" GPU "00:02.0 rp 05-05\n"
                           "05:00.0" GPU,
                    "Intel:6", "gpu0", "gpu1");
}

/* The IOMMU first, then a move: each attempt runs out in turn. */
static void memory_that_runs_out_over_a_move_and_a_setting_is_a_status(void **state)
{
    (void)state;
    every_action_of(CLIENT "00:01.0 rp 01-04\n01:00.0 up 02-04\n02:00.0 down 03-03\n"
                           "02:01.0 down 04-04\n03:00.0" GPU "00:02.0 rp 05-05\n"
                           "05:00.0 ep id=1002:744c gpu=16384/16384 iommu=translate\n",
                    "Intel:6", "gpu0", "gpu1");
}

static enum rig_status look_up(const struct ground *g)
{
    struct ids_index *ids = ids_index_read(g->text);
    if (!ids)
        return RIG_FAILED;
    uint16_t vendor, device;
    bool shared;
    for (int again = 0; again < 2; again++)
        assert_true(ids_find_by_name(ids, "Maker Card", &vendor, &device, &shared));
    ids_index_close(ids);
    return RIG_OK;
}

static enum rig_status load(const struct ground *g)
{
    struct rig_topology *t;
    enum rig_status status = rig_topology_load(g->text, &t, NULL);
    if (status == RIG_OK)
        rig_topology_free(t);
    return status;
}

/* More functions than room is made for at first, by links that lead through bridges without links,
   or by directories alone. */
static void memory_that_runs_out_over_a_tree_is_a_status(void **state)
{
    (void)state;
    static const struct {
        int domains;
        bool links;
    } trees[] = {{1, true}, {1, false}, {36, true}, {36, false}};
    for (size_t k = 0; k < RIG_ARRAY_LENGTH(trees); k++) {
        struct fixture f;
        struct ground g = {.text = f.root};
        fixture_make(&f);
        fixture_file(&f, "sys/bus/pci/devices/README", "");
        for (int i = 0; i < trees[k].domains; i++) {
            char chain[64], path[128];
            snprintf(chain, sizeof chain, "pci%04x:00/%04x:00:01.0/%04x:02:00.0", i, i, i);
            if (trees[k].links)
                fixture_function(&f, chain);
            snprintf(path, sizeof path, "sys/devices/%s/driver", chain);
            fixture_link(&f, path, "../pcieport");
            fixture_put(&f, chain, "class", "0x060400\n");
            fixture_put(&f, chain, "max_link_speed", "8.0 GT/s\n");
        }
        fixture_file(&f, "proc/sys/kernel/osrelease", "6.1.0\n");
        fixture_file(&f, "boot/config-6.1.0", "#\nCONFIG_PCI=y\n");
        for (int again = 0; again < (CAN_FAIL ? 2 : 1); again++) {
            for_good = again == 1;
            try_every("tree", load, &g);
        }
        fixture_remove(&f);
    }
}

/* The list of this machine's functions, which libpci scans before. */
static enum rig_status find_here(long k, long *out_leaked)
{
    struct live here = {.this_machine = true,
                        .functions = "sys/bus/pci/devices",
                        .tree = "sys/devices",
                        .groups = "sys/kernel/iommu_groups",
                        .t = topology_new(RIG_SOURCE_LIVE)};
    assert_non_null(here.t);
    assert_int_equal(libpci_scan(&here.pci, NULL), RIG_OK);
    here.fs.root = open("/", O_RDONLY | O_DIRECTORY);
    long before = live;
    struct live_entries list;
    tripped = false;
    countdown = k;
    enum rig_status status = live_find(&here, &list, NULL);
    countdown = -1;
    if (status == RIG_OK)
        live_entries_free(&list);
    *out_leaked = live - before;
    libpci_close(here.pci);
    rig_topology_free(here.t);
    close(here.fs.root);
    return status;
}

static void memory_that_runs_out_over_this_machine_is_a_status(void **state)
{
    (void)state;
    if (!CAN_FAIL || access("/sys/bus/pci/devices", R_OK) != 0)
        return; /* a machine without PCI */
    struct rig_topology *t;
    countdown = 0;
    assert_int_equal(read_live("", &t, NULL), RIG_FAILED);
    countdown = -1;
    for_good = false;
    long k = 0;
    do {
        long leaked;
        enum rig_status status = find_here(k++, &leaked);
        assert_int_equal(status, tripped ? RIG_FAILED : RIG_OK);
        assert_int_equal(leaked, 0);
    } while (tripped);
    assert_true(k > 1);
}

static void memory_that_runs_out_over_files_is_a_status(void **state)
{
    (void)state;
    struct fixture f;
    char path[256];
    struct ground g = {.text = path};
    fixture_make(&f);
    fixture_file(&f, "pci.ids", "0001  Maker\n\t0002  Card\n");
    snprintf(path, sizeof path, "%s/pci.ids", f.root);
    for_good = false;
    try_every("ids", look_up, &g);
    snprintf(path, sizeof path, "tests/machines/server-8gpu.json");
    try_every("load", load, &g);
    /* libpci's own allocations are its own affair: the one before it is loaded. */
    if (CAN_FAIL) {
        struct libpci *pci;
        countdown = 0;
        assert_false(libpci_ids_path(path, sizeof path));
        countdown = 0;
        assert_int_equal(libpci_scan(&pci, NULL), RIG_FAILED);
        countdown = -1;
    }
    fixture_remove(&f);
}

/* Runs of cells that are kept, one after another: below two switches of 14 slots, one below the
 * other. */
static void memory_that_runs_out_over_a_wide_table_is_a_status(void **state)
{
    (void)state;
    char text[3000] = CLIENT "00:01.0 rp 01-2f\n01:00.0 up 02-2f\n";
    for (int i = 0; i < 14; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "02:%02x.0 down %02x-%02x\n%02x:00.0%s", i, i + 3,
                 i + 3, i + 3, i % 2 ? " ep\n" : GPU);
    }
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used,
             "02:1f.0 down 20-2f\n20:00.0 up 21-2f\n21:00.0 down 22-22\n22:00.0" GPU);
    for (int i = 1; i < 14; i++) {
        used = strlen(text);
        snprintf(text + used, sizeof text - used, "21:%02x.0 down\n", i);
    }
    every_action_of(text, "Intel:6", "0000:22:00.0", "gpu5");
    every_action_of(text, "Intel:6", "gpu0", "0000:22:00.0");
}

/* The row that functions of one switch share, with another such switch above it. */
static void memory_that_runs_out_over_rows_of_nested_switches_is_none(void **state)
{
    (void)state;
    char text[4000] = CLIENT "00:01.0 rp 01-40\n01:00.0 up 02-40\n";
    for (int i = 0; i < 14; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "02:%02x.0 down %02x-%02x\n%02x:00.0%s", i, i + 3,
                 i + 3, i + 3, GPU);
    }
    strcat(text, "02:1f.0 down 20-40\n20:00.0 up 21-40\n");
    for (int i = 0; i < 14; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "21:%02x.0 down %02x-%02x\n%02x:00.0%s", i,
                 i + 0x22, i + 0x22, i + 0x22, GPU);
    }
    struct ground g = {.t = build_machine(text, "Intel:6")};
    g.from = rig_topology_find(g.t, "22:00.0");
    for (int k = 0; k < 2; k++) {
        g.to = rig_topology_find(g.t, k ? "03:00.0" : "23:00.0");
        for_good = k == 1;
        try_every("nested table", table, &g);
    }
    rig_topology_free(g.t);
}

static void memory_that_runs_out_on_a_capture_is_a_status(void **state)
{
    (void)state;
    every_action("tests/machines/server-8gpu.json", "gpu2", "gpu5");
}

/* jansson's own allocations fail too: each of those that write, and all of those that read, for
   jansson 2.14 ends the program by an assertion where some of them fail alone. */
static void memory_that_jansson_lacks_is_a_status(void **state)
{
    (void)state;
    if (!CAN_FAIL)
        return;
    char text[18000];
    int n = snprintf(text, sizeof text,
                     "{\"format\":\"rigmem-machine\",\"version\":1,\"warnings\":[\"odd\"],"
                     "\"functions\":[{\"address\":\"03:00.0\",\"bars\":{\"0\":{\"flags\":"
                     "\"memory\",\"address\":\"0x80000000\",\"size\":\"1MiB\",\"resizable\":"
                     "[\"1MiB\",\"2MiB\"]}},\"name\":\"%017000d\"}]}",
                     0);
    assert_true(n > 0 && (size_t)n < sizeof text);
    struct ground g = {.text = text, .bytes = (size_t)n};
    assert_int_equal(rig_topology_parse("text", text, g.bytes, &g.t, NULL), RIG_OK);
    try_every("parse", parse, &g); /* jansson lacks none: the name has no room among the texts */
    json_set_alloc_funcs(malloc, free);
    for (int again = 0; again < 2; again++) {
        for_good = again == 1;
        try_every("capture", capture_all, &g);
    }
    tripped = false;
    countdown = 0;
    assert_int_equal(parse(&g), RIG_FAILED);
    countdown = -1;
    assert_true(tripped);
    for_good = false;
    rig_topology_free(g.t);
#if CAN_FAIL
    json_set_alloc_funcs(never_fails, free);
#endif
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

/* Everything that a text can hold: more root buses, drawn functions, blocks and lines of a log than
   room is made for at first, lines that are decoded, and the machine's facts. Names have ids, so
   that libpci, which ends the program where memory runs out, is not asked for any. */
static void memory_that_runs_out_on_a_text_of_everything_is_a_status(void **state)
{
    (void)state;
    size_t n = 0, room = (size_t)1 << 18;
    struct ground g = {.text = malloc(room)};
    assert_non_null(g.text);
    char *longest = malloc(20000); /* longer than what texts are kept in */
    assert_non_null(longest);
    memset(longest, 'x', 19999);
    longest[19999] = '\0';
    n += (size_t)snprintf(g.text + n, room - n,
                          "%.1000s&amp;\n%.3000s\xc2\xa0\n%.9000s=3D=\nx\nmodel name : %s\n",
                          longest, longest, longest, longest);
    for (int i = 0; i < 17; i++)
        n += (size_t)snprintf(
            g.text + n, room - n, "%s-[0000:%02x]-+-00.0%s\n%s\\-01.0\n",
            i == 0    ? "-+"
            : i == 16 ? " \\"
                      : " +",
            i * 8, i == 3 ? "  Intel Corporation 82Q35 Express DRAM Controller [8086:29b0]" : "",
            i == 16 ? "             " : " |           ");
    n += (size_t)snprintf(
        g.text + n, room - n,
        "\nvendor_id : GenuineIntel\ncpu family : 6\nLinux host 6.1.0 #1 SMP\n"
        "Command line: iommu=3Dpt pci=3Dnoacs&nbsp;quiet pci=3Ddisable_acs_redir=3D00:01.0,00:02.0=\n"
        " ro\nhost bridge 8086:4c43\n\n"
        "00:00.0 Host bridge: Intel Corporation 82Q35 Express DRAM&nbsp;Controller [8086:29b0]\n"
        "\tControl: I/O- Mem- BusMaster- SpecCycle- MemWINV- VGASnoop- ParErr-\n"
        "Stepping- SERR- %.1000s\n\tSubsystem: Intel Corporation %s\n"
        "\tKernel driver in use: y%s\n",
        longest, longest, longest);
    free(longest);
    for (int i = 0; i < 65; i++)
        n += (size_t)snprintf(g.text + n, room - n,
                              "%02x:%02x.0 3D controller [0302]: Made Up [1234:%04x]\n"
                              "\tControl: I/O-\n\n",
                              i / 30 * 8, i % 30 + 2, i);
    n += (size_t)snprintf(g.text + n, room - n,
                          "0001:00:01.0/01:00.0/02:00.0 PCI bridge: A\xc2\xa0"
                          "Caf\xe9 [1234:0001]\n"
                          "00: 34 12 01 00 07 00 10 00 a1 00 04 06 00 00 01 00\n"
                          "10: 00 00 00 00 00 00 00 00 02 03 03 00 00 00 00 00\n"
                          "20: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
                          "30: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n\n");
    for (int i = 0; i < 65; i++)
        n += (size_t)snprintf(g.text + n, room - n,
                              "pci 0000:%02x:%02x.0: reg 0x10: [mem 0x10000000-0x1fffffff]\n",
                              i / 30 * 8, i % 30 + 2);
    g.bytes = n;
    every_action_on("a text of everything", &g, "00:03.0", "08:02.0");
}

/* A place by a path comes where room for functions is full: with buses, and without. */
static void memory_that_runs_out_at_a_path_is_a_status(void **state)
{
    (void)state;
    static const char *const paths[] = {"0001:00:01.0/01:00.0 3D controller: A [1234:0001]\n",
                                        "0000:00:01.0/00.0 3D controller: A [1234:0001]\n"};
    for (size_t k = 0; k < RIG_ARRAY_LENGTH(paths); k++) {
        struct ground g = {.text = malloc(16384)};
        assert_non_null(g.text);
        g.bytes = (size_t)snprintf(
            g.text, 16384,
            "00:01.0 PCI bridge: A [1234:0002]\n\tBus: primary=00, secondary=01, subordinate=01\n");
        for (int i = 1; i < 64; i++)
            g.bytes += (size_t)snprintf(g.text + g.bytes, 16384 - g.bytes,
                                        "%02x:%02x.0 Serial controller: A [1234:0003]\n",
                                        i / 16 * 16, i % 16 + 2);
        g.bytes += (size_t)snprintf(g.text + g.bytes, 16384 - g.bytes, "%s", paths[k]);
        every_action_on(paths[k], &g, "00:03.0", "00:04.0");
    }
}

int main(void)
{
#if CAN_FAIL
    json_set_alloc_funcs(never_fails, free);
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_runs_out_on_a_capture_is_a_status),
        cmocka_unit_test(memory_that_jansson_lacks_is_a_status),
        cmocka_unit_test(memory_that_runs_out_on_a_text_is_a_status),
        cmocka_unit_test(memory_that_runs_out_on_a_dump_is_a_status),
        cmocka_unit_test(memory_that_runs_out_on_a_text_of_everything_is_a_status),
        cmocka_unit_test(memory_that_runs_out_at_a_path_is_a_status),
        cmocka_unit_test(memory_that_runs_out_over_each_remedy_is_a_status),
        cmocka_unit_test(memory_that_runs_out_over_a_wide_table_is_a_status),
        cmocka_unit_test(memory_that_runs_out_over_rows_of_nested_switches_is_none),
        cmocka_unit_test(memory_that_runs_out_over_a_move_and_a_setting_is_a_status),
        cmocka_unit_test(memory_that_runs_out_over_files_is_a_status),
        cmocka_unit_test(memory_that_runs_out_over_a_tree_is_a_status),
        cmocka_unit_test(memory_that_runs_out_over_this_machine_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
