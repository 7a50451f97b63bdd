/* A twin's opening and end, and its operations. */
#include "machine/twins.h"

#include "machine/function.h"

#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The seed of a twin that is opened without one. */
#define DEFAULT_SEED 1

/* The command register's bit that disables the legacy interrupt. */
#define COMMAND_INTX_OFF 0x400u
#define COMMAND_MASTER 0x4u

/* ---- building */

/* Links each function to its parent, children and root bus, in bus order. */
static void build_tree(struct twin *w)
{
    const struct rig_topology *t = w->machine.topology;
    for (int i = 0; i < w->count; i++)
        w->function[i].parent = w->function[i].first_child = w->function[i].next_sibling = -1;
    for (int i = 0; i < rig_topology_host_bridges(t); i++)
        w->root[i] = -1;
    for (int i = w->count - 1; i >= 0; i--) {
        struct twin_function *f = &w->function[i];
        const struct rig_function *facts = f->facts;
        f->parent = facts->parent;
        int *first = NULL;
        if (f->parent >= 0)
            first = &w->function[f->parent].first_child;
        else if (facts->host_bridge >= 0 && facts->parent_known.know != RIG_FACT_UNKNOWN)
            first = &w->root[facts->host_bridge];
        if (!first)
            continue;
        f->next_sibling = *first;
        *first = i;
    }
}

static enum rig_status build_gpu(struct twin *w, int function, struct rig_error *err)
{
    struct twin_function *f = &w->function[function];
    const struct rig_function *facts = f->facts;
    uint64_t bytes = 0;
    if (facts->gpu && rig_fact_has(facts->gpu_memory))
        bytes = facts->gpu_memory.value;
    else if (facts->gpu && facts->memory_bar >= 0 &&
             rig_fact_has(facts->bar[facts->memory_bar].size))
        bytes = facts->bar[facts->memory_bar].size.value;
    if (bytes == 0)
        return RIG_OK;
    f->gpu = calloc(1, sizeof *f->gpu);
    if (!f->gpu)
        return rig_fail_memory(err);
    char name[RIG_BDF_MAX], file[48];
    snprintf(file, sizeof file, "%s-memory", rig_bdf_format(facts->bdf, name));
    sparse_init(&f->gpu->memory, bytes, w->directory, file);
    f->gpu->format = rig_format_for((uint16_t)facts->vendor.value, (uint16_t)facts->device.value,
                                    (uint32_t)facts->class_code.value);
    if (!f->gpu->format)
        f->gpu->format = rig_format_named("plain", 0, 0);
    return RIG_OK;
}

/* A bridge above a BAR that the twin's firmware placed forwards it, whatever its windows were. */
static void open_windows(struct twin *w)
{
    for (int i = 0; i < w->count; i++) {
        bool placed = false;
        for (int k = 0; k < RIG_BAR_COUNT; k++)
            placed = placed || w->function[i].facts->bar[k].bus.from == twin_from_firmware;
        int depth = 0;
        for (int p = w->function[i].parent; placed && p >= 0 && depth < 256;
             p = w->function[p].parent, depth++)
            w->function[p].open_window = true;
    }
}

static enum rig_status build(struct twin *w, struct rig_error *err)
{
    const struct rig_topology *t = w->machine.topology;
    w->count = rig_topology_count(t);
    w->function = calloc((size_t)w->count + 1, sizeof *w->function);
    w->root = calloc((size_t)rig_topology_host_bridges(t) + 1, sizeof *w->root);
    if (!w->function || !w->root)
        return rig_fail_memory(err);
    enum rig_status status = RIG_OK;
    for (int i = 0; i < w->count && status == RIG_OK; i++) {
        struct twin_function *f = &w->function[i];
        f->facts = rig_topology_function(t, i);
        f->translated = fact_is(f->facts->iommu, RIG_IOMMU_TRANSLATE);
        status = build_gpu(w, i, err);
        if (status == RIG_OK)
            config_make(w, i);
    }
    if (status != RIG_OK)
        return status;
    build_tree(w);
    open_windows(w);
    return memory_init(w, err);
}

static void drop(struct twin *w)
{
    memory_drop(w);
    for (int i = 0; i < w->count && w->function; i++) {
        struct twin_function *f = &w->function[i];
        iommu_drop(&f->iommu);
        for (int k = 0; k < RIG_BAR_COUNT; k++)
            if (f->bar[k].memory) {
                sparse_drop(f->bar[k].memory);
                free(f->bar[k].memory);
            }
        if (f->gpu) {
            sparse_drop(&f->gpu->memory);
            free(f->gpu->cache);
            free(f->gpu);
        }
    }
    free(w->function);
    free(w->root);
    if (w->directory >= 0)
        close(w->directory);
    free(w->memory_path);
    machine_drop(&w->machine);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

/* ---- the directory */

/* The directory, or a file of it, cannot be used, as errno says. */
static enum rig_status refuse_path(const char *path, struct rig_error *err)
{
    if (errno == ENOMEM)
        return rig_fail_memory(err);
    return rig_fail(err, RIG_REFUSED, path, "%s", RIG_ERRNO(errno));
}

static enum rig_status open_directory(struct twin *w, const char *path, struct rig_error *err)
{
    w->directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w->directory < 0)
        return refuse_path(path, err);
    if (faccessat(w->directory, ".", W_OK | X_OK, 0) != 0)
        return refuse_path(path, err);
    char *whole = realpath(path, NULL);
    if (!whole)
        return refuse_path(path, err);
    bool named = asprintf(&w->memory_path, "%s/%s", whole, TWIN_SYSTEM_FILE) >= 0;
    free(whole);
    if (!named) {
        w->memory_path = NULL;
        return rig_fail_memory(err);
    }
    w->machine.memory_path = w->memory_path;
    return RIG_OK;
}

static bool ends_with(const char *name, const char *end)
{
    size_t a = strlen(name), b = strlen(end);
    return a >= b && strcmp(name + a - b, end) == 0;
}

bool twin_is_file(const char *name)
{
    if (strcmp(name, TWIN_SYSTEM_FILE) == 0)
        return true;
    const char *dash = strchr(name, '-');
    char bdf[RIG_BDF_MAX];
    struct rig_bdf parsed;
    if (!dash || (size_t)(dash - name) >= sizeof bdf)
        return false;
    memcpy(bdf, name, (size_t)(dash - name));
    bdf[dash - name] = '\0';
    return rig_bdf_parse(bdf, &parsed) &&
           (ends_with(name, "-memory") || (strlen(dash) == 5 && strncmp(dash, "-bar", 4) == 0));
}

/* A new twin's memory is zeros: what an earlier one left in the directory goes. */
static enum rig_status empty_directory(struct twin *w, const char *path, struct rig_error *err)
{
    int again = w->directory >= 0 ? dup(w->directory) : -1;
    DIR *dir = again >= 0 ? fdopendir(again) : NULL;
    if (!dir) {
        enum rig_status status = w->directory < 0 ? RIG_OK : refuse_path(path, err);
        if (again >= 0)
            close(again);
        return status;
    }
    enum rig_status status = RIG_OK;
    for (struct dirent *e = readdir(dir); e && status == RIG_OK; e = readdir(dir))
        if (twin_is_file(e->d_name) && unlinkat(w->directory, e->d_name, 0) != 0)
            status = refuse_path(e->d_name, err);
    closedir(dir);
    return status;
}

/* ---- opening */

static enum rig_status make(const struct rig_topology *t, const char *directory, uint64_t seed,
                            struct twin **out_twin, struct rig_error *err)
{
    struct rig_topology *own = NULL;
    enum rig_status status = rig_topology_copy(t, &own, err);
    if (status != RIG_OK)
        return status;
    struct twin *w = calloc(1, sizeof *w);
    if (!w) {
        rig_topology_free(own);
        return rig_fail_memory(err);
    }
    w->directory = w->system_file = -1;
    w->seed = seed;
    pthread_mutex_init(&w->lock, NULL);
    status = firmware_assign(own, &w->system_base, &w->system_bytes, err);
    if (status == RIG_OK) {
        uint64_t page = rig_fact_has(own->machine.page_size) ? own->machine.page_size.value : 4096;
        status = machine_init(&w->machine, &twin_ops, "twin", own, page, err);
    } else {
        rig_topology_free(own);
    }
    if (status == RIG_OK) {
        w->rules = rig_rules_default(w->machine.topology, NULL);
        w->machine.remote = fact_is(w->machine.topology->machine.remote, 1);
        status = directory ? open_directory(w, directory, err) : RIG_OK;
    }
    if (status == RIG_OK)
        status = build(w, err);
    if (status != RIG_OK) {
        drop(w);
        return status;
    }
    *out_twin = w;
    return RIG_OK;
}

enum rig_status twin_open(const struct rig_topology *t, const char *directory, uint64_t seed,
                          struct rig_machine **out_machine, struct rig_error *err)
{
    struct twin *w;
    enum rig_status status = make(t, directory, seed, &w, err);
    if (status != RIG_OK)
        return status;
    status = empty_directory(w, directory, err);
    if (status != RIG_OK) {
        drop(w);
        return status;
    }
    *out_machine = &w->machine;
    return RIG_OK;
}

enum rig_status rig_twin_open(const struct rig_topology *t, const char *directory,
                              struct rig_machine **out_machine, struct rig_error *err)
{
    return twin_open(t, directory, DEFAULT_SEED, out_machine, err);
}

enum rig_status twin_reopen(const struct rig_topology *t, const char *directory,
                            const json_t *state, struct rig_machine **out_machine,
                            struct rig_error *err)
{
    struct twin *w;
    enum rig_status status = make(t, directory, DEFAULT_SEED, &w, err);
    if (status != RIG_OK)
        return status;
    status = twin_load(w, json_object_get(state, "state"), err);
    if (status == RIG_OK)
        status = machine_restore(&w->machine, state, err);
    if (status != RIG_OK) {
        drop(w);
        return status;
    }
    *out_machine = &w->machine;
    return RIG_OK;
}

/* Makes *io_lost true where the directory has no such file of that size. */
static enum rig_status look_for(const struct twin *w, const char *name, uint64_t bytes,
                                bool *io_lost, struct rig_error *err)
{
    struct stat st;
    bool there = fstatat(w->directory, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (!there && errno != ENOENT)
        return rig_fail(err, RIG_FAILED, name, "%s", RIG_ERRNO(errno));
    *io_lost = *io_lost || !there || (uint64_t)st.st_size != bytes;
    return RIG_OK;
}

enum rig_status twin_lost_memory(struct rig_machine *m, bool *out_lost, struct rig_error *err)
{
    const struct twin *w = twin_of(m);
    enum rig_status status = RIG_OK;
    *out_lost = false;
    if (w->directory < 0)
        return RIG_OK;
    for (int i = 0; status == RIG_OK && i < w->count; i++) {
        const struct twin_function *f = &w->function[i];
        if (f->taken && f->gpu)
            status = look_for(w, f->gpu->memory.name, f->gpu->memory.bytes, out_lost, err);
    }
    if (status == RIG_OK && rig_ranges_blocks(w->pages) > 0)
        status = look_for(w, TWIN_SYSTEM_FILE, w->system_bytes, out_lost, err);
    return status;
}

bool twin_is(const struct rig_machine *m)
{
    return strcmp(m->kind, "twin") == 0;
}

/* ---- operations */

static void op_list(struct rig_machine *m, int function, struct rig_function_now *out_now)
{
    const struct twin_function *f = &twin_of(m)->function[function];
    *out_now = (struct rig_function_now){
        .bdf = f->facts->bdf,
        .addressing = f->translated ? RIG_IOMMU : RIG_PHYSICAL,
        .endpoint = !is_bridge(f->facts),
    };
}

static enum rig_status left_bus(const struct twin *w, int function, struct rig_error *err)
{
    char name[RIG_BDF_MAX];
    const struct rig_error *broken = machine_broken(&w->machine);
    if (broken)
        return rig_fail(err, RIG_FAILED, broken->what, "%s", broken->why);
    rig_bdf_format(w->function[function].facts->bdf, name);
    return rig_fail(err, RIG_FAILED, name,
                    w->failed ? "the machine failed" : "it left the bus: it reads all ones");
}

/* The beginning of every step on a function that must be there. */
static enum rig_status begin(struct twin *w, enum twin_step kind, int function,
                             struct rig_error *err)
{
    enum rig_status status = fault_step(w, kind, function, err);
    if (status == RIG_OK && is_gone(w, function))
        status = left_bus(w, function, err);
    return status;
}

static enum rig_status op_take(struct rig_machine *m, int function, struct rig_error *err)
{
    struct twin *w = twin_of(m);
    struct twin_function *f = &w->function[function];
    twin_lock(w);
    enum rig_status status = begin(w, TWIN_STEP_TAKE, function, err);
    if (status == RIG_OK) {
        uint32_t command = config_get(f, 4, 2);
        f->found_intx = (uint16_t)(command & COMMAND_INTX_OFF);
        config_put(w, function, 4, 2, (command | COMMAND_INTX_OFF) & ~COMMAND_MASTER);
        f->taken = true;
    }
    twin_unlock(w);
    return status;
}

static enum rig_status op_release(struct rig_machine *m, int function, struct rig_error *err)
{
    struct twin *w = twin_of(m);
    struct twin_function *f = &w->function[function];
    twin_lock(w);
    enum rig_status status = fault_step(w, TWIN_STEP_RELEASE, function, err);
    if (status == RIG_OK)
        status = memory_end_all(w, function, err);
    if (status == RIG_OK) {
        uint32_t command = config_get(f, 4, 2);
        config_put(w, function, 4, 2, (command & ~COMMAND_INTX_OFF) | f->found_intx);
        f->taken = false;
        f->views = 0;
    }
    twin_unlock(w);
    return status;
}

static uint32_t op_config_read(struct rig_machine *m, int function, unsigned offset, unsigned width)
{
    struct twin *w = twin_of(m);
    uint32_t ones = width == 4 ? UINT32_MAX : (UINT32_C(1) << 8 * width) - 1;
    twin_lock(w);
    uint32_t value = is_gone(w, function) ? ones : config_look(w, function, offset, width);
    twin_unlock(w);
    return value;
}

static void op_config_write(struct rig_machine *m, int function, unsigned offset, unsigned width,
                            uint32_t value)
{
    struct twin *w = twin_of(m);
    twin_lock(w);
    if (!is_gone(w, function))
        config_put(w, function, offset, width, value);
    twin_unlock(w);
}

static void op_bar(struct rig_machine *m, int function, int bar, struct rig_bar_now *out_bar)
{
    struct twin *w = twin_of(m);
    twin_lock(w);
    const struct twin_bar *b = &w->function[function].bar[bar];
    *out_bar = (struct rig_bar_now){
        .size = b->size,
        .assigned = b->assigned,
        .bus = b->base,
        .io = b->io,
        .prefetchable = b->prefetchable,
    };
    twin_unlock(w);
}

static enum rig_status op_map_bar(struct rig_machine *m, int function, int bar, uint64_t start,
                                  uint64_t bytes, bool combining, struct rig_view *out_view,
                                  struct rig_error *err)
{
    (void)combining; /* a twin's writes are all in order */
    struct twin *w = twin_of(m);
    twin_lock(w);
    enum rig_status status = begin(w, TWIN_STEP_MAP, function, err);
    if (status == RIG_OK) {
        *out_view = (struct rig_view){
            .bytes = bytes,
            .ops = &twin_view_ops,
            .machine = m,
            .function = function,
            .bar = bar,
            .start = start,
        };
        w->function[function].views++;
    }
    twin_unlock(w);
    return status;
}

static enum rig_status op_alloc(struct rig_machine *m, int function,
                                const struct rig_memory_request *request,
                                struct rig_grant *out_grant, struct rig_error *err)
{
    struct twin *w = twin_of(m);
    twin_lock(w);
    enum rig_status status = begin(w, TWIN_STEP_ALLOC, function, err);
    if (status == RIG_OK)
        status = memory_alloc(w, function, request, out_grant, err);
    twin_unlock(w);
    return status;
}

static enum rig_status op_pin(struct rig_machine *m, int function, void *start, uint64_t bytes,
                              unsigned bits, struct rig_grant *out_grant, struct rig_error *err)
{
    struct twin *w = twin_of(m);
    twin_lock(w);
    enum rig_status status = begin(w, TWIN_STEP_PIN, function, err);
    if (status == RIG_OK)
        status = memory_pin(w, function, (uint64_t)(uintptr_t)start, bytes, bits, out_grant, err);
    twin_unlock(w);
    return status;
}

static enum rig_status op_see(struct rig_machine *m, void *start, uint64_t bytes,
                              struct rig_error *err)
{
    struct twin *w = twin_of(m);
    twin_lock(w);
    enum rig_status status = memory_see(w, (uint64_t)(uintptr_t)start, bytes, err);
    twin_unlock(w);
    return status;
}

static enum rig_status op_give(struct rig_machine *m, int function, uint64_t id,
                               struct rig_error *err)
{
    struct twin *w = twin_of(m);
    twin_lock(w);
    const struct twin_grant *grant = grant_find(w, id);
    enum twin_step kind = grant && grant->pin ? TWIN_STEP_UNPIN : TWIN_STEP_FREE;
    enum rig_status status = fault_step(w, kind, function, err);
    if (status == RIG_OK)
        status = memory_end(w, id, err);
    twin_unlock(w);
    return status;
}

static enum rig_status op_reserve(struct rig_machine *m, void *start, uint64_t bytes,
                                  struct rig_error *err)
{
    struct twin *w = twin_of(m);
    twin_lock(w);
    enum rig_status status = fault_step(w, TWIN_STEP_RESERVE, -1, err);
    if (status == RIG_OK)
        status = memory_reserve(w, (uint64_t)(uintptr_t)start, bytes, err);
    twin_unlock(w);
    return status;
}

static enum rig_status op_reset(struct rig_machine *m, int function, struct rig_error *err)
{
    struct twin *w = twin_of(m);
    struct twin_function *f = &w->function[function];
    twin_lock(w);
    enum rig_status status = begin(w, TWIN_STEP_RESET, function, err);
    if (status == RIG_OK) {
        config_put(w, function, 4, 2, config_get(f, 4, 2) & ~COMMAND_MASTER);
        if (f->gpu) {
            engine_empty_cache(f->gpu);
            f->gpu->asked = 0;
            config_set(f, f->registers + TWIN_GPU_CONTROL, 4, 0);
        }
    }
    twin_unlock(w);
    return status;
}

static bool op_failed(struct rig_machine *m, int function)
{
    struct twin *w = twin_of(m);
    twin_lock(w);
    bool failed = function < 0 ? is_off(w) : is_gone(w, function);
    twin_unlock(w);
    return failed;
}

static enum rig_status op_save(struct rig_machine *m, json_t *out_state, struct rig_error *err)
{
    struct twin *w = twin_of(m);
    twin_lock(w);
    enum rig_status status = twin_save(w, out_state, err);
    twin_unlock(w);
    return status;
}

static void op_close(struct rig_machine *m)
{
    drop(twin_of(m));
}

const struct rig_machine_ops twin_ops = {
    .list = op_list,
    .take = op_take,
    .release = op_release,
    .config_read = op_config_read,
    .config_write = op_config_write,
    .bar = op_bar,
    .map_bar = op_map_bar,
    .alloc = op_alloc,
    .pin = op_pin,
    .see = op_see,
    .give = op_give,
    .reserve = op_reserve,
    .reset = op_reset,
    .failed = op_failed,
    .save = op_save,
    .close = op_close,
};
