#include "judge.h"

#include "gpu/vendor.h"
#include "fixture_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PAGE UINT64_C(4096)
#define PHYSICAL_BASE (UINT64_C(4) << 30)

void judge_wrong(struct judge *j, const char *format, ...)
{
    va_list arguments;
    if (j->failed)
        return;
    j->failed = true;
    va_start(arguments, format);
    vsnprintf(j->why, sizeof j->why, format, arguments);
    va_end(arguments);
}

static int now(const struct judge *j, int gpu)
{
    return j->model.now[gpu];
}

/* One that stopped in an earlier process has no device. */
static enum rig_life life_of(const struct judge *j, int life)
{
    return j->device[life] ? rig_device_life(j->device[life]) : RIG_LIFE_STOPPED;
}

static uint64_t pool_free(const struct judge *j, int life)
{
    struct rig_memory_info info;
    rig_memory_info(j->memory[life], &info);
    return info.free_bytes;
}

/* ---- places */

/* Where a bus address of the GPU leads. */
static uint64_t place_of_bus(struct judge *j, int gpu, rig_bus_address at)
{
    struct twin_route route;
    twin_route(j->machine, j->function[gpu], at, PAGE, &route);
    if (route.end == TWIN_END_SYSTEM)
        return model_page(0, route.address);
    if (route.end == TWIN_END_PROCESS)
        return model_page(MODEL_PROCESS, route.address);
    for (int i = 0; i < j->model.gpus && route.end == TWIN_END_BAR; i++)
        if (route.hop == j->function[i])
            return model_page(1 + (unsigned)i, route.address);
    return MODEL_NOWHERE;
}

static uint64_t place_of(struct judge *j, int gpu, rig_gpu_address at)
{
    struct twin_translation to;
    if (!twin_translate(j->machine, j->function[gpu], at, &to))
        return MODEL_NOWHERE;
    if (to.memory == RIG_MEMORY_SYSTEM && to.gpu < 0)
        return place_of_bus(j, gpu, to.address);
    for (int i = 0; i < j->model.gpus; i++)
        if (to.gpu == j->function[i])
            return model_page(1 + (unsigned)i, to.address);
    return MODEL_NOWHERE;
}

/* ---- faults */

static bool fired(struct judge *j)
{
    if (!j->armed || !twin_fired(j->machine))
        return false;
    j->armed = false;
    return true;
}

/* Whether a request ended as it may: `cut` is what fired meanwhile. */
static bool ended(struct judge *j, const char *what, int life, enum rig_status status, unsigned may,
                  enum twin_fault cut)
{
    may |= cut == TWIN_FAULT_CUT ? MODEL_SET(RIG_FAILED) : 0;
    may |= cut == TWIN_FAULT_REFUSE ? MODEL_SET(RIG_REFUSED) : 0;
    may |= cut == TWIN_FAULT_NO_ROOM ? MODEL_SET(RIG_NO_ROOM) : 0;
    if (!(may & MODEL_SET(status)))
        judge_wrong(j, "%s of life %d ended with %s; it may with the set 0x%x", what, life,
                    rig_status_name(status), may);
    j->said[status]++;
    if (j->loud)
        fprintf(stderr, "#    %s by life %d (gpu%d): %s%s\n", what, life,
                life < 0 ? -1 : j->model.life[life].gpu, rig_status_name(status),
                cut ? ", a fault came" : "");
    return status == RIG_OK && !j->failed;
}

static enum twin_fault what_fired(struct judge *j)
{
    return fired(j) ? j->fault : TWIN_FAULT_NONE;
}

/* ---- opening */

static void take(struct judge *j, int gpu, unsigned may)
{
    struct rig_error err = {.status = RIG_OK};
    struct rig_device *device;
    enum rig_status status = rig_device_take(j->machine, j->shape->name[gpu], &device, &err);
    if (!ended(j, "take", now(j, gpu), status, may, what_fired(j)))
        return;
    struct rig_memory_options options = {.format = j->shape->format[gpu]};
    if (j->shape->linked && gpu < 2)
        options.link = &j->link[gpu];
    struct rig_memory *memory;
    status = RIG_FAILED;
    for (int tries = 0; tries < 2 && status != RIG_OK; tries++) {
        rig_error_clear(&err);
        status = rig_memory_create(j->gpus, device, &options, &memory, &err);
        if (status != RIG_OK && !fired(j))
            break;
    }
    fired(j);
    if (status != RIG_OK) {
        judge_wrong(j, "create: %s: %s: %s", rig_status_name(status), err.what, err.why);
        return;
    }
    int life = model_take(&j->model, gpu, 0);
    j->device[life] = device;
    j->memory[life] = memory;
    j->model.life[life].pool = pool_free(j, life);
    if (rig_device_set_master(device, true, &err) != RIG_OK)
        judge_wrong(j, "set_master: %s", err.why);
}

static void describe(struct judge *j, int gpu)
{
    struct model_gpu *g = &j->model.gpu[gpu];
    const struct rig_format *f = j->shape->format[gpu]
                                     ? rig_format_named(j->shape->format[gpu], 0, 0)
                                     : twin_format(j->machine, j->function[gpu]);
    const struct rig_function *facts =
        rig_topology_function(j->machine->topology, j->function[gpu]);
    uint64_t boot, end;
    *g = j->shape->gpu[gpu];
    g->levels = f->level_count;
    for (int i = 0; i < gpu; i++)
        if (strcmp(j->walks[i]->vendor, f->vendor) == 0)
            g->space = j->model.gpu[i].space;
    g->space = g->space ? g->space : (unsigned)gpu + 1;
    g->bytes = facts->gpu_memory.value;
    g->window = facts->bar[facts->memory_bar].size.value;
    part_kept(f, g->bytes, &boot, &end);
    g->first = boot;
    g->end = g->bytes - end;
    j->walks[gpu] = f;
}

struct judge *judge_open(const struct judge_machine *shape, bool files)
{
    struct judge *j = calloc(1, sizeof *j);
    assert_non_null(j);
    j->shape = shape;
    j->model.gpus = shape->gpus;
    j->model.system = shape->system;
    struct rig_topology *t = build_machine(shape->text, shape->cpu);
    t->machine.memory_base = fact_known(PHYSICAL_BASE);
    t->machine.memory_bytes = fact_known(shape->system);
    struct rig_error err = {.status = RIG_OK};
    j->topology = t;
    if (files)
        strcpy(j->directory, "/tmp/rigmem-judge-XXXXXX");
    if (files && !mkdtemp(j->directory))
        fail_msg("no directory for a twin's files");
    if (rig_twin_open(t, files ? j->directory : NULL, &j->machine, &err) != RIG_OK)
        fail_msg("%s: %s", err.what, err.why);
    struct rig_gpus_options spaces = rig_space_options();
    if (shape->space)
        spaces.space_bytes = shape->space;
    assert_int_equal(rig_gpus_create(j->machine, &spaces, &j->gpus, NULL), RIG_OK);
    j->own = aligned_alloc(PAGE, 16 * PAGE);
    assert_non_null(j->own);
    if (shape->linked)
        assert_int_equal(rig_gpus_link(j->gpus, 1, shape->name, 2, j->link, NULL), RIG_OK);
    for (int i = 0; i < shape->gpus; i++) {
        j->model.now[i] = -1;
        j->function[i] = rig_topology_find(j->machine->topology, shape->name[i]);
        describe(j, i);
        take(j, i, MODEL_SET(RIG_OK));
    }
    return j;
}

/* ---- requests */

static struct model_room room(const struct judge *j, int life)
{
    struct twin_audit audit;
    twin_audit(j->machine, &audit);
    struct model_room due = model_due(&j->model, life);
    due.pool += pool_free(j, life);
    due.system += audit.free_bytes;
    return due;
}

/* After a request that began: what waited went back, or may have. */
static void swept(struct judge *j, int life, enum rig_status status)
{
    if (status != RIG_INVALID)
        model_sweep(&j->model, life, status == RIG_OK || status == RIG_NO_ROOM,
                    status == RIG_FAILED);
}

/* Enters a block whose region is new, with its pages, which must be nobody's. */
static int enter(struct judge *j, int gpu, enum model_kind kind, int under,
                 struct rig_region region)
{
    struct rig_pages pages;
    if (rig_region_pages(region, &pages, NULL) != RIG_OK) {
        judge_wrong(j, "a new region has no pages");
        return -1;
    }
    uint64_t bytes = 0, skip = pages.count > 0 ? pages.ranges[0].address % PAGE : 0;
    for (size_t i = 0; i < pages.count; i++)
        bytes += pages.ranges[i].bytes;
    bytes = (skip + bytes + PAGE - 1) & ~(PAGE - 1);
    int block = model_new_block(&j->model, now(j, gpu), kind, rig_region_address(region) - skip,
                                bytes, under, region);
    struct model_block *b = &j->model.block[block];
    b->known = false;
    uint64_t k = 0;
    for (size_t i = 0; i < pages.count; i++) {
        uint64_t at = pages.ranges[i].address & ~(PAGE - 1);
        for (; at < pages.ranges[i].address + pages.ranges[i].bytes; at += PAGE, k++)
            b->page[k] = pages.target == RIG_TARGET_GPU ? model_page(1 + (unsigned)gpu, at)
                                                        : place_of_bus(j, gpu, at);
    }
    if (k != bytes / PAGE)
        judge_wrong(j, "a region of %llu bytes has %llu pages", (unsigned long long)bytes,
                    (unsigned long long)k);
    for (k = 0; k < bytes / PAGE && kind != MODEL_LENT; k++) {
        int other;
        if (b->page[k] == MODEL_NOWHERE)
            judge_wrong(j, "page %llu of a new region is nowhere", (unsigned long long)k);
        if (model_holds(&j->model, b->page[k], &other) == MODEL_MUST)
            judge_wrong(j, "page 0x%llx is given out twice: it is block %d's",
                        (unsigned long long)b->page[k], other);
        model_handed_out(&j->model, b->page[k]);
    }
    for (k = 0; k < bytes / PAGE && kind == MODEL_LENT && under >= 0; k++) {
        const struct model_block *u = &j->model.block[under];
        bool found = false;
        for (uint64_t i = 0; i < u->bytes / PAGE; i++)
            found |= u->page[i] == b->page[k];
        if (!found)
            judge_wrong(j, "page 0x%llx that was borrowed is none of the lender's",
                        (unsigned long long)b->page[k]);
    }
    b->known = true;
    rig_pages_free(&pages);
    judge_tag(j, block, region);
    return j->model.regions - 1;
}

int judge_alloc(struct judge *j, int gpu, enum rig_kind kind, uint64_t bytes)
{
    int life = now(j, gpu);
    if (life < 0 || j->failed)
        return -1;
    struct rig_region region;
    unsigned may = model_may_alloc(&j->model, life, (enum model_kind)kind, bytes, room(j, life));
    enum rig_status status =
        rig_memory_alloc(j->memory[life], kind, bytes, bytes % 3 == 0, &region, NULL);
    enum twin_fault cut = what_fired(j);
    bool done = ended(j, "alloc", life, status, may, cut);
    swept(j, life, status);
    if (status == RIG_FAILED && cut)
        model_cut_block(&j->model, life, (enum model_kind)kind, bytes, -1);
    return done ? enter(j, gpu, (enum model_kind)kind, -1, region) : -1;
}

/* under: a region of host memory that the process sees, -1: the process's own memory. */
int judge_map_host(struct judge *j, int gpu, int under, uint64_t offset, uint64_t bytes)
{
    int life = now(j, gpu), lender = -1;
    struct rig_host host = {.memory = j->own, .bytes = 16 * PAGE};
    if (life < 0 || j->failed)
        return -1;
    if (under >= 0) {
        if (!rig_region_host(j->model.region[under].handle, &host))
            return -1;
        lender = j->model.map[j->model.region[under].map].block;
    }
    offset %= host.bytes;
    bytes = bytes > host.bytes - offset ? host.bytes - offset : bytes;
    struct rig_region region;
    unsigned may = model_may_map_host(&j->model, life, bytes, lender, room(j, life));
    enum rig_status status = rig_memory_map_host(
        j->memory[life], (const unsigned char *)host.memory + offset, bytes, &region, NULL);
    enum twin_fault cut = what_fired(j);
    bool done = ended(j, "map_host", life, status, may, cut);
    swept(j, life, status);
    if (status == RIG_FAILED && cut)
        model_cut_block(&j->model, life, MODEL_LENT, bytes + PAGE, lender);
    return done ? enter(j, gpu, MODEL_LENT, lender, region) : -1;
}

int judge_map_peer(struct judge *j, int gpu, int of)
{
    int life = now(j, gpu);
    if (life < 0 || of < 0 || j->failed)
        return -1;
    struct rig_region region;
    unsigned may = model_may_map_peer(&j->model, life, of, room(j, life));
    enum rig_status status =
        rig_memory_map_peer(j->memory[life], j->model.region[of].handle, &region, NULL);
    enum twin_fault cut = what_fired(j);
    bool done = ended(j, "map_peer", life, status, may, cut);
    swept(j, life, status);
    if (status == RIG_FAILED && cut)
        model_cut_map_peer(&j->model, life, of);
    if (!done)
        return -1;
    if (rig_region_address(region) != rig_region_address(j->model.region[of].handle))
        judge_wrong(j, "map_peer gave another address");
    model_map_peer(&j->model, life, of, region);
    return j->model.regions - 1;
}

void judge_free(struct judge *j, int gpu, int region)
{
    if (region < 0 || now(j, gpu) < 0 || j->failed)
        return;
    struct model_region *r = &j->model.region[region];
    int life = j->model.map[r->map].life;
    /* By its own memory, a released one's too; or by another's, which is misuse. */
    int by = j->model.life[life].gpu == gpu ? life : now(j, gpu);
    unsigned may = model_may_free(&j->model, by, region);
    bool gone = j->model.gpu[gpu].gone || j->model.failed;
    if (gone && (may & MODEL_SET(RIG_OK)))
        may |= MODEL_SET(RIG_FAILED);
    enum rig_status status = rig_memory_free(j->memory[by], r->handle, NULL);
    enum twin_fault cut = what_fired(j);
    ended(j, "free", by, status, may, cut);
    if (status == RIG_INVALID)
        return;
    bool confirmed = j->flush[gpu] == TWIN_FLUSH_OK && !gone;
    model_free(&j->model, region, confirmed, cut != TWIN_FAULT_NONE);
}

static void check_ranges(struct judge *j, int gpu, int region, const struct rig_bus_range *ranges,
                         size_t count)
{
    const struct model_block *b = &j->model.block[j->model.map[j->model.region[region].map].block];
    int client = rig_topology_find(j->machine->topology, NIC);
    uint64_t k = 0;
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].bytes % PAGE != 0 || ranges[i].address % PAGE != 0)
            judge_wrong(j, "bus gave a range that is no multiple of 4 KiB");
        for (uint64_t at = 0; at < ranges[i].bytes; at += PAGE, k++) {
            struct twin_route route;
            twin_route(j->machine, client, ranges[i].address + at, PAGE, &route);
            uint64_t page = MODEL_NOWHERE;
            if (route.end == TWIN_END_SYSTEM)
                page = model_page(0, route.address);
            if (route.end == TWIN_END_BAR && route.hop == j->function[gpu])
                page = model_page(1 + (unsigned)gpu, route.address);
            if (route.end != TWIN_END_MASTER_OFF && route.end != TWIN_END_GONE &&
                (k >= b->bytes / PAGE || page != b->page[k]))
                judge_wrong(j, "the client does not reach page %llu", (unsigned long long)k);
        }
    }
    if (k * PAGE != b->bytes)
        judge_wrong(j, "bus gave %llu pages", (unsigned long long)k);
}

void judge_bus(struct judge *j, int gpu, int region)
{
    int life = now(j, gpu);
    if (life < 0 || region < 0 || j->failed)
        return;
    struct rig_bus_range *ranges;
    size_t count;
    unsigned may = model_may_bus(&j->model, life, region);
    enum rig_status status =
        rig_memory_bus(j->memory[life], j->model.region[region].handle, NIC, &ranges, &count, NULL);
    if (!ended(j, "bus", life, status, may, what_fired(j)))
        return;
    check_ranges(j, gpu, region, ranges, count);
    for (size_t i = 0; i < count && j->grants < JUDGE_GRANTED; i++)
        j->granted[j->grants++] = (struct judge_granted){
            ranges[i].address, ranges[i].bytes, j->model.map[j->model.region[region].map].block};
    free(ranges);
    model_bus(&j->model, region);
}

void judge_release(struct judge *j, int gpu)
{
    int life = now(j, gpu);
    if (life < 0 || j->failed)
        return;
    bool gone = j->model.gpu[gpu].gone && !j->model.failed;
    enum model_tri kept = model_kept(&j->model, life);
    unsigned may = MODEL_SET(gone ? RIG_FAILED : RIG_OK);
    enum rig_life was = j->model.life[life].life;
    if (j->model.failed || was != RIG_LIFE_TAKEN)
        may |= MODEL_SET(RIG_FAILED) | MODEL_SET(RIG_OK);
    enum rig_status status = rig_memory_release(j->memory[life], NULL);
    enum twin_fault cut = what_fired(j);
    ended(j, "release", life, status, may, cut);
    enum rig_life seen = life_of(j, life);
    bool clean = cut == TWIN_FAULT_NONE && !gone && !j->model.failed && was == RIG_LIFE_TAKEN;
    if (clean && seen != RIG_LIFE_KEPT && seen != RIG_LIFE_STOPPED)
        judge_wrong(j, "life %d is %s after its release", life, rig_life_name(seen));
    if (kept == MODEL_MUST && seen == RIG_LIFE_STOPPED)
        judge_wrong(j, "life %d was given back while others reach its memory", life);
    if (clean && kept == MODEL_NO && seen == RIG_LIFE_KEPT)
        judge_wrong(j, "life %d stays taken for nobody", life);
    if (gone && was == RIG_LIFE_TAKEN && seen != RIG_LIFE_RELEASED)
        judge_wrong(j, "life %d, whose function is gone, is %s", life, rig_life_name(seen));
    model_release(&j->model, life, cut != TWIN_FAULT_NONE, seen);
}

void judge_take(struct judge *j, int gpu)
{
    if (!j->failed && j->model.lives < MODEL_LIVES)
        take(j, gpu, model_may_take(&j->model, gpu));
}

/* Looks at each GPU's latest life. */
static void look_at_lives(struct judge *j, bool finish)
{
    for (int gpu = 0; gpu < j->model.gpus && !j->failed; gpu++) {
        int life = now(j, gpu);
        enum rig_life seen = life < 0 ? RIG_LIFE_STOPPED : life_of(j, life);
        if (life < 0 || (seen == j->model.life[life].life && seen != RIG_LIFE_KEPT))
            continue;
        if (!model_may_live(&j->model, life, seen, finish))
            judge_wrong(j, "life %d is %s, in the model %s", life, rig_life_name(seen),
                        rig_life_name(j->model.life[life].life));
        if (seen == RIG_LIFE_STOPPED)
            model_stopped(&j->model, life);
        j->model.life[life].life = seen;
    }
}

void judge_finish(struct judge *j)
{
    if (j->failed)
        return;
    rig_gpus_finish_releases(j->gpus);
    bool cut = fired(j);
    /* One that ends may let another end. */
    for (int i = 0; i < j->model.gpus; i++)
        look_at_lives(j, !cut);
}

/* ---- what is no request */

void judge_touch(struct judge *j, int gpu, int region, uint64_t offset)
{
    const struct model_region *r = &j->model.region[region];
    const struct model_block *b = &j->model.block[j->model.map[r->map].block];
    uint8_t byte;
    rig_gpu_address at = b->address + offset % b->bytes;
    rig_twin_gpu_read(j->machine, j->shape->name[gpu], at, &byte, 1, NULL);
    j->touched[gpu][j->touches[gpu]++ % JUDGE_TOUCHED] = at & ~(PAGE - 1);
}

void judge_flush(struct judge *j, int gpu, enum twin_flush flush)
{
    j->flush[gpu] = flush;
    twin_set_flush(j->machine, j->function[gpu], flush);
}

void judge_arm(struct judge *j, enum twin_fault fault, enum twin_step kind, uint64_t n)
{
    j->armed = fault != TWIN_FAULT_NONE && n > 0;
    j->fault = fault;
    twin_arm(j->machine, fault, kind, n);
}

void judge_gone(struct judge *j, int gpu)
{
    twin_set_gone(j->machine, j->function[gpu]);
    j->model.gpu[gpu].gone = true;
}

void judge_fail_machine(struct judge *j)
{
    twin_set_failed(j->machine);
    j->model.failed = true;
}

/* ---- judging */

static void within(struct judge *j, const char *what, uint64_t seen, struct model_span span)
{
    if (seen < span.least || seen > span.most)
        judge_wrong(j, "%s: %llu, in the model %llu to %llu", what, (unsigned long long)seen,
                    (unsigned long long)span.least, (unsigned long long)span.most);
}

static void check_pool(struct judge *j, int life)
{
    const struct model_life *l = &j->model.life[life];
    if (l->life != RIG_LIFE_TAKEN)
        return;
    struct model_span span = model_pool(&j->model, life);
    span.most += model_tables(&j->model, life);
    within(j, "GPU memory held", l->pool - pool_free(j, life), span);
}

void judge_counts(struct judge *j)
{
    struct twin_audit audit;
    look_at_lives(j, false);
    twin_audit(j->machine, &audit);
    within(j, "allocations", audit.grants, model_grants(&j->model));
    within(j, "pins", audit.pins, model_pins(&j->model));
    within(j, "system memory held", j->model.system - audit.free_bytes, model_system(&j->model));
    within(j, "blocks of addresses", rig_held_blocks(j->gpus), model_addresses(&j->model));
    for (int gpu = 0; gpu < j->model.gpus; gpu++)
        if (now(j, gpu) >= 0)
            check_pool(j, now(j, gpu));
}

/* A page that the GPU's work reaches: for a map that may reach it, held, and by the twin's books
   too. *io_live counts those that a live map must reach. */
static void check_page(struct judge *j, int gpu, rig_gpu_address at, uint64_t *io_live)
{
    uint64_t page = place_of(j, gpu, at);
    int life = now(j, gpu), block;
    bool live;
    if (page == MODEL_NOWHERE)
        return;
    int map = model_reaches(&j->model, life, at, page, &live);
    if (map < 0)
        judge_wrong(j, "%s reaches page 0x%llx at 0x%llx, which it should not", j->shape->name[gpu],
                    (unsigned long long)page, (unsigned long long)at);
    else if (page >> 52 != MODEL_PROCESS && model_holds(&j->model, page, &block) == MODEL_NO &&
             j->model.block[j->model.map[map].block].known)
        judge_wrong(j, "%s reaches page 0x%llx at 0x%llx, which nobody holds", j->shape->name[gpu],
                    (unsigned long long)page, (unsigned long long)at);
    if (page >> 52 == 0 && !twin_page_held_for(j->machine, j->function[gpu], page << 12))
        judge_wrong(j, "%s reaches physical page 0x%llx, which is not held for it",
                    j->shape->name[gpu], (unsigned long long)page);
    *io_live += live;
}

bool judge_works(const struct judge *j, int gpu)
{
    int life = now(j, gpu);
    return life >= 0 && !j->model.failed && !j->model.gpu[gpu].gone &&
           j->model.life[life].life == RIG_LIFE_TAKEN;
}

static void walk(struct judge *j, int gpu, const struct rig_table *t, rig_gpu_address base,
                 uint64_t *io_live);

static void look_at_entry(struct judge *j, int gpu, const struct rig_table *t,
                          const uint64_t words[2], rig_gpu_address at, uint64_t *io_live)
{
    struct rig_entry e;
    rig_decode(j->walks[gpu], t, words, &e);
    for (int i = 0; e.kind == RIG_ENTRY_DIRECTORY && i < e.children; i++)
        walk(j, gpu, &e.child[i], at, io_live);
    for (uint64_t k = 0; e.kind == RIG_ENTRY_LEAF && k < UINT64_C(1) << t->shift; k += PAGE)
        check_page(j, gpu, at + k, io_live);
}

/* Every entry of the table, from its bytes. */
static void walk(struct judge *j, int gpu, const struct rig_table *t, rig_gpu_address base,
                 uint64_t *io_live)
{
    unsigned bytes = j->walks[gpu]->level[t->level].entry_bytes;
    for (uint64_t i = 0; i < UINT64_C(1) << t->index_bits && !j->failed; i++) {
        uint64_t words[2] = {0, 0};
        rig_gpu_address at = base + (i << t->shift);
        if (t->memory != RIG_MEMORY_OWN)
            judge_wrong(j, "a table lies in system memory");
        else if (twin_memory_read(j->machine, j->function[gpu],
                                  rig_entry_at(j->walks[gpu], t, at) -
                                      j->memory[now(j, gpu)]->own_base,
                                  words, bytes, NULL) != RIG_OK)
            judge_wrong(j, "an entry lies beyond the memory");
        else if ((words[0] | words[1]) != 0)
            look_at_entry(j, gpu, t, words, at, io_live);
    }
}

void judge_reach(struct judge *j)
{
    bool any_gone = false;
    for (int gpu = 0; gpu < j->model.gpus; gpu++)
        any_gone |= j->model.gpu[gpu].gone;
    for (int gpu = 0; gpu < j->model.gpus && !j->failed; gpu++) {
        uint64_t live = 0, pages = 0, none = 0;
        if (!judge_works(j, gpu))
            continue;
        int life = now(j, gpu);
        for (int i = 0; i < JUDGE_TOUCHED; i++)
            if (j->touched[gpu][i] != 0)
                check_page(j, gpu, j->touched[gpu][i], &none);
        struct rig_memory_info info;
        rig_memory_info(j->memory[life], &info);
        struct rig_table root =
            rig_root(j->walks[gpu], RIG_MEMORY_OWN, info.root + j->memory[life]->own_base);
        walk(j, gpu, &root, 0, &live);
        for (int i = 0; i < j->model.maps; i++) {
            const struct model_map *p = &j->model.map[i];
            if (p->life == life && p->state == MODEL_LIVE)
                pages += j->model.block[p->block].bytes / PAGE;
        }
        /* Memory of a GPU that is gone is reached by nobody. */
        if (live != pages && !any_gone)
            judge_wrong(j, "%s reaches %llu pages of its regions' %llu", j->shape->name[gpu],
                        (unsigned long long)live, (unsigned long long)pages);
    }
}

int judge_region(const struct judge *j, int gpu, enum rig_origin origin)
{
    for (int i = j->model.regions - 1; i >= 0; i--) {
        const struct model_region *r = &j->model.region[i];
        const struct model_map *p = &j->model.map[r->map];
        enum rig_origin is = r->original >= 0                              ? RIG_ORIGIN_PEER
                             : j->model.block[p->block].kind == MODEL_LENT ? RIG_ORIGIN_BORROWED
                                                                           : RIG_ORIGIN_ALLOCATED;
        if (r->out && is == origin && (gpu < 0 || j->model.life[p->life].gpu == gpu))
            return i;
    }
    return -1;
}

/* ---- the end */

static void release_all(struct judge *j)
{
    judge_arm(j, TWIN_FAULT_NONE, TWIN_STEP_ANY, 0);
    for (int round = 0; round < 3; round++) {
        for (int gpu = 0; gpu < j->model.gpus; gpu++) {
            judge_flush(j, gpu, TWIN_FLUSH_OK);
            if (now(j, gpu) >= 0 && j->model.life[now(j, gpu)].life != RIG_LIFE_STOPPED)
                judge_release(j, gpu);
        }
        judge_finish(j);
    }
}

static void nothing_is_left(struct judge *j)
{
    bool holds = false;
    for (int gpu = 0; gpu < j->model.gpus; gpu++)
        if (now(j, gpu) >= 0 && (j->model.life[now(j, gpu)].reserved || j->model.gpu[gpu].gone))
            holds = true;
    judge_counts(j);
    for (int gpu = 0; gpu < j->model.gpus && !holds; gpu++)
        if (now(j, gpu) >= 0 && life_of(j, now(j, gpu)) != RIG_LIFE_STOPPED)
            judge_wrong(j, "%s is not given back at the end", j->shape->name[gpu]);
    struct twin_audit audit;
    twin_audit(j->machine, &audit);
    if (!holds && (audit.grants || audit.pins || audit.taken || audit.views ||
                   audit.free_bytes != j->model.system || rig_held_blocks(j->gpus)))
        judge_wrong(j,
                    "at the end %llu allocations, %llu pins, %llu functions, %llu views are held",
                    (unsigned long long)audit.grants, (unsigned long long)audit.pins,
                    (unsigned long long)audit.taken, (unsigned long long)audit.views);
}

static bool close_all(struct judge *j, char *why)
{
    bool good = !j->failed;
    if (!good && j->loud)
        model_print(&j->model);
    memcpy(why, j->why, sizeof j->why);
    rig_topology_free(j->topology);
    if (j->directory[0])
        fixture_remove_path(j->directory);
    model_end(&j->model);
    free(j->own);
    free(j);
    return good;
}

bool judge_close(struct judge *j, char *why)
{
    if (!j->failed)
        release_all(j);
    if (!j->failed)
        nothing_is_left(j);
    rig_gpus_free(j->gpus);
    if (j->machine)
        rig_machine_close(j->machine, NULL);
    return close_all(j, why);
}

/* Nothing is left to ask of a machine that is closed but how that ended: well, unless a function
   could not be shown to master no more. */
bool judge_tear_down(struct judge *j, char *why)
{
    bool sure = true;
    for (int gpu = 0; gpu < j->model.gpus; gpu++)
        sure &= !j->model.gpu[gpu].gone || j->model.failed;
    if (j->machine)
        judge_arm(j, TWIN_FAULT_NONE, TWIN_STEP_ANY, 0);
    rig_gpus_free(j->gpus);
    enum rig_status status = j->machine ? rig_machine_close(j->machine, NULL) : RIG_OK;
    if (sure && status != RIG_OK)
        judge_wrong(j, "the machine's close: %s", rig_status_name(status));
    return close_all(j, why);
}
