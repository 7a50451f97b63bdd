/* lspci's text answers as before whatever happened to it on its way: where nothing was lost the
   answer for every pair of functions is the same, and where something was lost it is the same or
   unknown, and never another one. Real machines' texts are tried where they lie beside the checkout
   ($RIGMEM_SHARED, else ../shared); without them the bundled ones are. */
#include "mangle.h"

#include "topology/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- answers */

/* What is known of a machine: the cells of all pairs of functions that are no bridges. */
struct answers {
    struct rig_topology *t;
    int *function;
    int count;
    uint8_t *cell; /* count x count, rows the senders */
};

static void free_answers(struct answers *a)
{
    rig_topology_free(a->t);
    free(a->function);
    free(a->cell);
    *a = (struct answers){.t = NULL};
}

/* Each IOMMU is set out of the way, so that most answers are definite. */
static void answer(struct answers *a)
{
    struct rig_error err = {.status = RIG_OK};
    struct rig_reach_table *table;
    const struct rig_rules *rules = rig_rules_at(rig_rules_count() - 1);
    assert_int_equal(rig_topology_set_iommu(a->t, "all", RIG_IOMMU_NONE, "the test", &err), RIG_OK);
    assert_int_equal(rig_reach_table_make(a->t, rules, &table, &err), RIG_OK);
    int n = rig_topology_count(a->t);
    a->function = calloc((size_t)n + 1, sizeof *a->function);
    for (int i = 0; i < n; i++)
        if (!is_bridge(rig_topology_function(a->t, i)))
            a->function[a->count++] = i;
    a->cell = calloc((size_t)a->count * (size_t)a->count + 1, 1);
    for (int i = 0; i < a->count; i++)
        rig_reach_table_row(table, a->function[i], a->function, a->count,
                            a->cell + (size_t)i * (size_t)a->count, NULL);
    rig_reach_table_free(table);
}

static bool read_text(const char *text, struct answers *out, struct rig_error *err)
{
    size_t n = strlen(text);
    char *data = malloc(n + 1);
    memcpy(data, text, n);
    *out = (struct answers){.t = NULL};
    rig_error_clear(err);
    bool read = rig_topology_parse("text", data, n, &out->t, err) == RIG_OK;
    free(data);
    if (read)
        answer(out);
    return read;
}

static const char *name_of(const struct answers *a, int i, char text[RIG_BDF_MAX])
{
    return rig_bdf_format(rig_topology_function(a->t, a->function[i])->bdf, text);
}

/* For each function of `was` its number among those of `is`, or -1. The caller frees it. */
static int *same_functions(const struct answers *was, const struct answers *is)
{
    int *map = calloc((size_t)was->count + 1, sizeof *map);
    for (int i = 0; i < was->count; i++) {
        char text[RIG_BDF_MAX];
        int found = rig_topology_find(is->t, name_of(was, i, text));
        map[i] = is->count - 1;
        while (map[i] >= 0 && is->function[map[i]] != found)
            map[i]--;
    }
    return map;
}

static bool fits(uint8_t old, uint8_t now, bool loses)
{
    bool same = RIG_CELL_ANSWER(old) == RIG_CELL_ANSWER(now);
    if (!loses)
        return same && RIG_CELL_POSSIBLE(old) == RIG_CELL_POSSIBLE(now);
    return (same || RIG_CELL_ANSWER(now) == RIG_ANSWER_UNKNOWN) &&
           (RIG_CELL_POSSIBLE(old) & ~RIG_CELL_POSSIBLE(now)) == 0;
}

/* How many pairs do not fit; the first is told. */
static int count_misfits(const char *what, const struct answers *was, const struct answers *is,
                         bool loses)
{
    static const char *const words[] = {"no", "yes", "unknown", "?"};
    int *map = same_functions(was, is), wrong = 0;
    for (int i = 0; i < was->count; i++)
        for (int k = 0; k < was->count; k++) {
            uint8_t old = was->cell[i * was->count + k];
            bool there = map[i] >= 0 && map[k] >= 0;
            uint8_t now = there ? is->cell[map[i] * is->count + map[k]] : 0;
            if (there ? fits(old, now, loses) : loses)
                continue;
            char from[RIG_BDF_MAX], to[RIG_BDF_MAX];
            if (wrong++ == 0)
                print_message("%s: %s -> %s was %s %u, is %s %u\n", what, name_of(was, i, from),
                              name_of(was, k, to), words[RIG_CELL_ANSWER(old)],
                              RIG_CELL_POSSIBLE(old), there ? words[RIG_CELL_ANSWER(now)] : "gone",
                              RIG_CELL_POSSIBLE(now));
        }
    free(map);
    return wrong;
}

/* The text could not be read, or answers other than `was` does. */
static bool differs(const char *what, const char *text, const struct answers *was, bool loses)
{
    struct answers is;
    struct rig_error err;
    if (!read_text(text, &is, &err)) {
        if (loses && err.status == RIG_BAD_INPUT)
            return false;
        print_message("%s: %s: %s\n", what, err.where, err.why);
        return true;
    }
    bool wrong = count_misfits(what, was, &is, loses) > 0;
    if (!loses && is.count != was->count) {
        print_message("%s: %d functions and not %d\n", what, is.count, was->count);
        wrong = true;
    }
    free_answers(&is);
    return wrong;
}

/* ---- texts */

static char *read_file(FILE *file)
{
    if (!file)
        return NULL;
    size_t room = 1 << 20;
    char *text = malloc(room);
    size_t n = fread(text, 1, room - 1, file);
    text[n] = '\0';
    return text;
}

static char *bundled(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "tests/machines/%s", name);
    FILE *file = fopen(path, "r");
    char *text = read_file(file);
    if (!text)
        fail_msg("%s is not there", path);
    fclose(file);
    return text;
}

/* What lspci makes of a bundled dump. */
static char *printed(const char *options)
{
    char command[160];
    snprintf(command, sizeof command, "lspci -F tests/machines/sriov.hex %s 2>/dev/null", options);
    FILE *pipe = popen(command, "r");
    char *text = read_file(pipe);
    if (pipe)
        pclose(pipe);
    if (!text || !*text)
        fail_msg("%s prints nothing", command);
    return text;
}

static char *shared_text(const char *path)
{
    const char *shared = getenv("RIGMEM_SHARED");
    char name[512];
    snprintf(name, sizeof name, "%s/cases/%s", shared ? shared : "../shared", path);
    FILE *file = fopen(name, "r");
    char *text = read_file(file);
    if (file)
        fclose(file);
    return text;
}

/* ---- attacks */

/* `cut` tells that a mailer has cut the text's lines, which more blank lines make worse. */
static int try(const char *name, const char *text, bool cut, const struct mangling *list,
               size_t count)
{
    struct answers was;
    struct rig_error err;
    int wrong = 0;
    if (!read_text(text, &was, &err))
        fail_msg("%s: %s: %s", name, err.where, err.why);
    for (size_t i = 0; i < count; i++) {
        char what[128];
        snprintf(what, sizeof what, "%s %s", name, list[i].name);
        char *mangled = mangle(&list[i], text);
        wrong += differs(what, mangled, &was, list[i].loses || (cut && strstr(what, "blank line")));
        free(mangled);
    }
    free_answers(&was);
    return wrong;
}

static int try_all(const char *name, const char *text, bool cut)
{
    size_t count;
    const struct mangling *list = mangle_list(&count);
    return try(name, text, cut, list, count);
}

static int try_text(const char *name, const char *text)
{
    size_t count;
    const struct mangling *list = mangle_text_list(&count);
    return try(name, text, false, list, count);
}

/* Each block left out, half of the blocks, an elision at each line of each block, and the text cut
   at every `step`-th line. */
static int try_pieces(const char *name, const char *text, unsigned step)
{
    struct answers was;
    struct rig_error err;
    int wrong = 0;
    char what[160], *piece;
    if (!read_text(text, &was, &err))
        fail_msg("%s: %s: %s", name, err.where, err.why);
    for (unsigned n = 1; n <= 8; n *= 2)
        for (unsigned i = 0; (piece = mangle_without_blocks(text, i, n, "")) != NULL; i++) {
            snprintf(what, sizeof what, "%s without %u blocks from %u", name, n, i);
            wrong += differs(what, piece, &was, true);
            free(piece);
            piece = mangle_without_blocks(text, i, n, "[...]\n\n");
            snprintf(what, sizeof what, "%s with %u blocks elided from %u", name, n, i);
            wrong += differs(what, piece, &was, true);
            free(piece);
        }
    for (unsigned i = 0; *text && i < 64; i++)
        for (unsigned from = 1; (piece = mangle_elided(text, i, from, 0)) != NULL; from += step) {
            snprintf(what, sizeof what, "%s, block %u elided from line %u", name, i, from);
            wrong += differs(what, piece, &was, true);
            free(piece);
            for (unsigned keep = 1; (piece = mangle_elided(text, i, from, keep)) != NULL;
                 keep += step) {
                snprintf(what, sizeof what, "%s, block %u elided from line %u but for %u", name, i,
                         from, keep);
                wrong += differs(what, piece, &was, true);
                free(piece);
            }
        }
    for (unsigned n = 1; (piece = mangle_cut(text, n, false)) != NULL; n += step) {
        snprintf(what, sizeof what, "%s, the first %u lines", name, n);
        wrong += differs(what, piece, &was, true);
        free(piece);
        piece = mangle_cut(text, n, true);
        snprintf(what, sizeof what, "%s, cut in line %u", name, n);
        wrong += differs(what, piece, &was, true);
        free(piece);
    }
    free_answers(&was);
    return wrong;
}

static const char *const texts[] = {"desktop-amd.txt", "client-intel.txt",
                                    "client-intel-unprivileged.txt", "conventional.txt"};

static void what_mailers_and_forums_do_to_text_changes_no_answer(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(texts); i++) {
        char *text = bundled(texts[i]);
        wrong += try_all(texts[i], text, false);
        free(text);
    }
    assert_int_equal(wrong, 0);
}

static void what_lspci_prints_otherwise_or_leaves_out_changes_no_definite_answer(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(texts); i++) {
        char *text = bundled(texts[i]);
        wrong += try_text(texts[i], text);
        free(text);
    }
    assert_int_equal(wrong, 0);
}

static void a_text_with_pieces_missing_gives_no_other_definite_answer(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(texts); i++) {
        char *text = bundled(texts[i]);
        wrong += try_pieces(texts[i], text, 7);
        free(text);
    }
    assert_int_equal(wrong, 0);
}

static void dumps_and_trees_go_through_the_same(void **state)
{
    (void)state;
    static const char *const options[] = {"-t",       "-tv", "-xxxx",    "-D -x",
                                          "-nn -xxx", "-vv", "-vvv -nn", "-PP -v -x"};
    int wrong = 0;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(options); i++) {
        char *text = printed(options[i]);
        wrong += try_all(options[i], text, false);
        free(text);
    }
    assert_int_equal(wrong, 0);
}

static void real_machines_texts_go_through_the_same(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "c01-p100x2-dual-broadwell/lspci-vvv.txt",
        "c04-mtca-pex8725-pex8748/lspci-vvvnn.txt",
        "c04-mtca-pex8725-pex8748/lspci-tv.txt",
        "c06-lucienne-apu-pn51/lspci-vvv.txt",
        "c07-picasso-pericom/lspci-vvv.txt",
        "c09-coffeelake-gtx1650/lspci-vvv.txt",
        "c11-n1sdp-plx8749/lspci-vvxxx.txt",
        "c13-asm1812-subset/lspci-vvv-switch-only.txt",
        "c14-tb3-dual-3090/lspci-v.txt",
        "c14-tb3-dual-3090/lspci-tv.txt",
        "c15-genoa-2s-rtx6000ada-x4/session.md",
        "c22-powermac-g5-agp/lspci-v.txt",
        "c24-rk3399-asm1184-gtx645/lspci-vxxx.txt",
        "c30-skylake-8-vector-engines-switch/lspci-Dnx.txt",
        "c32-dual-x58-two-root-buses/lspci-Dnx.txt",
        "c50-am4-2x3090-nonroot-tree/lspci-t.txt",
    };
    int wrong = 0;
    for (size_t i = 0; i < RIG_ARRAY_LENGTH(paths); i++) {
        char *text = shared_text(paths[i]);
        if (!text)
            continue;
        wrong += try_all(paths[i], text, strstr(paths[i], "c24-") != NULL);
        if (strstr(paths[i], "-v") && !strstr(paths[i], "-vx"))
            wrong += try_text(paths[i], text);
        free(text);
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_mailers_and_forums_do_to_text_changes_no_answer),
        cmocka_unit_test(what_lspci_prints_otherwise_or_leaves_out_changes_no_definite_answer),
        cmocka_unit_test(a_text_with_pieces_missing_gives_no_other_definite_answer),
        cmocka_unit_test(dumps_and_trees_go_through_the_same),
        cmocka_unit_test(real_machines_texts_go_through_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
