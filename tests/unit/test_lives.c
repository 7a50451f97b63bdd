/* All short lives: every sequence of up to five of thirteen requests over two GPUs and a NIC,
   judged after each request by the reference model and by what the twin's GPUs reach. RIGMEM_SOAK:
   up to six.

   The sequences are the paths of a tree, walked by prefix: a request is made, and judged, after
   each prefix that leads to a state of its own. Where a request leads to a state that was met
   before, by another prefix or because it changed nothing, with as many requests ahead, the
   sequences that go on from here were judged from there; they are counted and not walked again.
   That two states are equal is looked at, not supposed: what machine and memories save
   (configuration space, grants, IOMMU, translation caches, holds, mappings, tables, allocators,
   every id) is the same text, but for the clock and the counts of operations, and so is all of the
   model; what the tables' bytes lead to is held to the model at each step. So each of the 13^n
   sequences of n requests is counted once, and the counts are asserted.

   Each life that is played ends by releasing all, after which nothing may be held. */
#include "judge.h"

#include "gpu/save.h"

#include <malloc.h>
#include <search.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LONGEST 6
#if defined(TEST_UNDER_ASAN) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LENGTH 4
#define LESS 1 /* each life takes ten times as long */
#else
#define LENGTH 5
#define LESS 0
#endif

/* gpu0 owns what gpu1 maps. A region is the latest one that is out of those that fit, else the
   latest that was freed, else one that never was. */
enum op {
    ALLOC,
    MAP_PEER,   /* of what gpu0 allocated or borrowed, for gpu1 */
    MAP_AGAIN,  /* of what gpu1's map_peer gave, for gpu1 */
    MAP_OWN,    /* of what gpu0 allocated or borrowed, for gpu0 */
    MAP_HOST,   /* of gpu0's system memory, else of the process's own, for gpu0 */
    OWNER_FREE, /* any region */
    PEER_FREE,
    OWNER_RELEASE,
    PEER_RELEASE,
    UNCONFIRMED, /* the flush of the next free is not confirmed */
    BUS,         /* of what gpu0 allocated, for the NIC */
    TAKE,        /* gpu0 if it was released, else gpu1 if that was, else gpu0 */
    FINISH,
    OPS
};

static const char *const op_names[OPS] = {
    "alloc",      "map_peer",  "map_peer again", "map_peer of its own", "map_host",
    "owner free", "peer free", "owner release",  "peer release",        "unconfirmed flush",
    "bus",        "take",      "finish"};

struct walk {
    const struct judge_machine *machine;
    enum rig_kind kind;
    int length;
    enum op path[LONGEST];
    uint64_t sequences[LONGEST + 1]; /* by length */
    uint64_t judged, known_again, replayed;
    void *known; /* states: a tree (search.h) of struct known */
};

#define GPUS "03:00.0 ep gpu=4/4\n04:00.0 ep gpu=4/4\n"
#define GPUS_IOMMU "03:00.0 ep gpu=4/4 iommu=translate\n04:00.0 ep gpu=4/4 iommu=translate\n"
#define NAMES                                                                                      \
    {                                                                                              \
        "0000:03:00.0", "0000:04:00.0"                                                             \
    }

static const struct judge_machine physical = {
    .text = RIG_SWITCH GPUS,
    .cpu = "GenuineIntel:6",
    .system = MIB(1),
    .gpus = 2,
    .space = UINT64_C(1) << 30,
    .name = NAMES,
    .gpu = {{.reach = {true, true}, .client_reaches = true},
            {.reach = {true, true}, .client_reaches = true}},
};

static const struct judge_machine translated = {
    .text = RIG_SWITCH GPUS_IOMMU,
    .cpu = "GenuineIntel:6",
    .system = MIB(1),
    .gpus = 2,
    .space = UINT64_C(1) << 30,
    .name = NAMES,
    .gpu = {{.translated = true}, {.translated = true}},
};

/* ---- a request */

/* The latest region of the GPU's with that origin, out, else freed; -1: there was none. */
static int latest(const struct judge *j, int gpu, bool peers, bool allocated_alone)
{
    int freed = -1;
    for (int i = j->model.regions - 1; i >= 0; i--) {
        const struct model_region *r = &j->model.region[i];
        const struct model_map *p = &j->model.map[r->map];
        bool lent = j->model.block[p->block].kind == MODEL_LENT;
        if (j->model.life[p->life].gpu != gpu || (r->original >= 0) != peers ||
            (lent && allocated_alone))
            continue;
        if (r->out)
            return i;
        freed = freed < 0 ? i : freed;
    }
    return freed;
}

static int latest_of_any(const struct judge *j, int gpu)
{
    int own = latest(j, gpu, false, false), peer = latest(j, gpu, true, false);
    bool own_out = own >= 0 && j->model.region[own].out;
    bool peer_out = peer >= 0 && j->model.region[peer].out;
    if (own_out == peer_out)
        return own > peer ? own : peer;
    return own_out ? own : peer;
}

static int system_memory(const struct judge *j)
{
    for (int i = j->model.regions - 1; i >= 0; i--) {
        const struct model_region *r = &j->model.region[i];
        const struct model_block *b = &j->model.block[j->model.map[r->map].block];
        if (r->out && r->original < 0 && b->kind == MODEL_HOST)
            return i;
    }
    return -1;
}

/* A region that never was is misuse. */
static void never_was(struct judge *j, int gpu, enum op op)
{
    struct rig_memory *m = j->memory[j->model.now[gpu]];
    struct rig_region none = {.memory = j->memory[j->model.now[0]], .id = 1000}, made;
    struct rig_bus_range *ranges;
    size_t count;
    enum rig_status status = op == BUS ? rig_memory_bus(m, none, NIC, &ranges, &count, NULL)
                             : op == OWNER_FREE || op == PEER_FREE
                                 ? rig_memory_free(m, none, NULL)
                                 : rig_memory_map_peer(m, none, &made, NULL);
    if (status != RIG_INVALID)
        fail_msg("%s of a region that never was: %s", op_names[op], rig_status_name(status));
}

static void map_peer(struct judge *j, int gpu, int of, enum op op)
{
    int made = of < 0 ? -1 : judge_map_peer(j, gpu, of);
    if (of < 0)
        never_was(j, gpu, op);
    if (made >= 0)
        judge_touch(j, gpu, made, 0);
}

/* The unconfirmed flush is that of the next free that asks for one. */
static void free_one(struct judge *j, int gpu, enum op op)
{
    int region = latest_of_any(j, gpu);
    uint64_t flushes = twin_steps(j->machine, TWIN_STEP_FLUSH);
    if (region < 0)
        never_was(j, gpu, op);
    else
        judge_free(j, gpu, region);
    for (int i = 0; i < 2 && twin_steps(j->machine, TWIN_STEP_FLUSH) > flushes; i++)
        judge_flush(j, i, TWIN_FLUSH_OK);
}

static void take(struct judge *j)
{
    bool owner = j->model.life[j->model.now[0]].life == RIG_LIFE_TAKEN;
    bool peer = j->model.life[j->model.now[1]].life == RIG_LIFE_TAKEN;
    judge_take(j, owner && !peer ? 1 : 0);
}

static void make_memory(struct judge *j, enum op op, enum rig_kind kind)
{
    int made = op == ALLOC ? judge_alloc(j, 0, kind, KIB(8))
                           : judge_map_host(j, 0, system_memory(j), 100, KIB(4));
    if (made >= 0)
        judge_touch(j, 0, made, 0);
}

static void act(struct judge *j, enum op op, enum rig_kind kind)
{
    int region;
    switch (op) {
    case ALLOC:
    case MAP_HOST:
        make_memory(j, op, kind);
        break;
    case MAP_PEER:
    case MAP_OWN:
        map_peer(j, op == MAP_PEER ? 1 : 0, latest(j, 0, false, false), op);
        break;
    case MAP_AGAIN:
        map_peer(j, 1, latest(j, 1, true, false), op);
        break;
    case OWNER_FREE:
    case PEER_FREE:
        free_one(j, op == OWNER_FREE ? 0 : 1, op);
        break;
    case OWNER_RELEASE:
    case PEER_RELEASE:
        judge_release(j, op == OWNER_RELEASE ? 0 : 1);
        break;
    case UNCONFIRMED:
        judge_flush(j, 0, TWIN_FLUSH_NEVER);
        judge_flush(j, 1, TWIN_FLUSH_NEVER);
        break;
    case BUS:
        region = latest(j, 0, false, true);
        if (region < 0)
            never_was(j, 0, op);
        else
            judge_bus(j, 0, region);
        break;
    case TAKE:
        take(j);
        break;
    default:
        judge_finish(j);
    }
}

/* ---- states */

static void no_clock(json_t *machine)
{
    json_t *twin = json_object_get(machine, "state");
    assert_int_equal(json_object_del(twin, "clock"), 0);
    assert_int_equal(json_object_del(json_object_get(twin, "faults"), "steps"), 0);
}

static void print_model(FILE *out, const struct judge *j)
{
    const struct model *m = &j->model;
    fprintf(out, "now %d %d flush %d %d\n", m->now[0], m->now[1], j->flush[0], j->flush[1]);
    for (int i = 0; i < m->lives; i++)
        fprintf(out, "life %d %d %d %d %d\n", m->life[i].gpu, m->life[i].life, m->life[i].reserved,
                m->life[i].dirty, (int)m->life[i].spread);
    for (int i = 0; i < m->blocks; i++) {
        const struct model_block *b = &m->block[i];
        fprintf(out, "block %d %d %d %d %d %d %llx", b->life, b->kind, b->known, b->reserved,
                b->stuck, b->under, (unsigned long long)b->address);
        for (uint64_t k = 0; k < b->bytes / KIB(4); k++)
            fprintf(out, " %llx", (unsigned long long)b->page[k]);
        fputc('\n', out);
    }
    for (int i = 0; i < m->maps; i++)
        fprintf(out, "map %d %d %d %d %d %d\n", m->map[i].life, m->map[i].block, m->map[i].state,
                m->map[i].held, m->map[i].lingers, m->map[i].regions);
    for (int i = 0; i < m->regions; i++)
        fprintf(out, "region %d %d %d %d\n", (int)m->region[i].handle.id, m->region[i].map,
                m->region[i].original, m->region[i].out);
}

/* All that the state is, as text. */
static char *text_of(struct judge *j)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    json_t *machine, *memories;
    assert_int_equal(machine_save(j->machine, &machine, NULL), RIG_OK);
    assert_int_equal(gpus_save(j->gpus, &memories, NULL), RIG_OK);
    no_clock(machine);
    print_model(out, j);
    json_dumpf(machine, out, JSON_COMPACT);
    json_dumpf(memories, out, JSON_COMPACT);
    json_decref(machine);
    json_decref(memories);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* A state that was walked on from, by so many requests at most. */
struct known {
    char *text;
    int ahead;
};

static int by_text(const void *a, const void *b)
{
    return strcmp(((const struct known *)a)->text, ((const struct known *)b)->text);
}

/* Whether all that can follow within `ahead` requests is walked from an equal state; takes the
 * text.
 */
static bool was_known(struct walk *w, char *take_text, int ahead)
{
    struct known key = {.text = take_text, .ahead = ahead};
    struct known **found = tfind(&key, &w->known, by_text);
    if (found) {
        bool known = (*found)->ahead >= ahead;
        (*found)->ahead = known ? (*found)->ahead : ahead;
        free(take_text);
        return known;
    }
    struct known *entered = malloc(sizeof *entered);
    assert_non_null(entered);
    *entered = key;
    assert_non_null(tsearch(entered, &w->known, by_text));
    return false;
}

static void drop_known(void *known)
{
    free(((struct known *)known)->text);
    free(known);
}

/* ---- the tree */

static void fail_at(const struct walk *w, int depth, const char *why)
{
    char path[LONGEST * 24] = "";
    for (int i = 0; i <= depth; i++) {
        strcat(path, i > 0 ? ", " : "");
        strcat(path, op_names[w->path[i]]);
    }
    fail_msg("%s memory: %s: %s", rig_kind_name(w->kind), path, why);
}

static void close_judge(const struct walk *w, struct judge *take_judge, int depth)
{
    char why[512];
    if (!judge_close(take_judge, why))
        fail_at(w, depth, why);
}

static struct judge *replay(struct walk *w, int depth)
{
    struct judge *j = judge_open(w->machine, false);
    for (int i = 0; i < depth; i++)
        act(j, w->path[i], w->kind);
    w->replayed++;
    return j;
}

static void judge(struct walk *w, struct judge *j, int depth)
{
    act(j, w->path[depth], w->kind);
    if (!j->failed)
        judge_counts(j);
    if (!j->failed)
        judge_reach(j);
    if (j->failed)
        close_judge(w, j, depth);
    w->judged++;
}

/* Every request after the prefix of `depth` requests, at whose end take_judge stands. */
static void explore(struct walk *w, int depth, struct judge *take_judge)
{
    struct judge *j = take_judge;
    char *before = text_of(j);
    for (int op = 0; op < OPS; op++) {
        if (!j)
            j = replay(w, depth);
        w->path[depth] = (enum op)op;
        judge(w, j, depth);
        w->sequences[depth + 1]++;
        char *after = text_of(j);
        bool same = strcmp(after, before) == 0;
        int ahead = w->length - depth - 1;
        if (ahead > 0 && was_known(w, after, ahead)) {
            w->known_again++;
            uint64_t many = 1;
            for (int length = depth + 2; length <= w->length; length++)
                w->sequences[length] += many *= OPS;
        } else if (ahead > 0) {
            explore(w, depth + 1, j);
            j = NULL;
        } else {
            free(after);
        }
        if (!same && j) {
            close_judge(w, j, depth);
            j = NULL;
        }
    }
    if (j)
        close_judge(w, j, depth);
    free(before);
}

static void every_life(const struct judge_machine *machine, enum rig_kind kind, int length)
{
    struct walk w = {.machine = machine, .kind = kind, .length = length};
    w.length += getenv("RIGMEM_SOAK") ? 1 : 0;
    struct judge *first = replay(&w, 0);
    assert_false(was_known(&w, text_of(first), w.length));
    explore(&w, 0, first);
    tdestroy(w.known, drop_known);
    uint64_t all = 1;
    for (int i = 1; i <= w.length; i++)
        assert_int_equal(w.sequences[i], all *= OPS);
    printf("# %llu sequences of %d; %llu requests judged, %llu led to a known state; %llu lives "
           "played\n",
           (unsigned long long)w.sequences[w.length], w.length, (unsigned long long)w.judged,
           (unsigned long long)w.known_again, (unsigned long long)w.replayed);
    /* Of a life in which nothing changes there would be nothing to see. */
    assert_true(w.replayed > w.judged / 4);
}

static void every_short_life_of_gpu_memory(void **state)
{
    (void)state;
    every_life(&physical, RIG_KIND_GPU, LENGTH);
}

static void every_short_life_of_system_memory(void **state)
{
    (void)state;
    every_life(&physical, RIG_KIND_HOST, LENGTH - LESS);
}

static void every_short_life_behind_an_iommu(void **state)
{
    (void)state;
    every_life(&translated, RIG_KIND_HOST, LENGTH - 1 - LESS);
}

int main(void)
{
    /* Else what each machine's firmware allocates and frees is zeroed by hand each time. */
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_short_life_of_gpu_memory),
        cmocka_unit_test(every_short_life_of_system_memory),
        cmocka_unit_test(every_short_life_behind_an_iommu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
