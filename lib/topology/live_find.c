#include "topology/live.h"

#include "topology/libpci.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 4096

void live_entries_free(struct live_entries *list)
{
    for (int i = 0; i < list->count; i++) {
        free(list->entry[i].path);
        free(list->entry[i].chain);
    }
    free(list->entry);
    *list = (struct live_entries){.entry = NULL};
}

/* `path` and `chain`, which may be NULL, are copied. */
static enum rig_status add_entry(struct live_entries *list, struct live_entry entry,
                                 const char *path, const char *chain, struct rig_error *err)
{
    if (list->count == TOPOLOGY_MAX_FUNCTIONS)
        return rig_fail(err, RIG_BAD_INPUT, NULL, "more than %d functions", TOPOLOGY_MAX_FUNCTIONS);
    if (list->count == list->capacity) {
        int capacity = list->capacity ? list->capacity * 2 : 64;
        struct live_entry *more = realloc(list->entry, (size_t)capacity * sizeof *more);
        if (!more)
            return rig_fail_memory(err);
        list->entry = more;
        list->capacity = capacity;
    }
    entry.path = strdup(path);
    entry.chain = chain ? strdup(chain) : NULL;
    list->entry[list->count++] = entry;
    if (!entry.path || (chain && !entry.chain))
        return rig_fail_memory(err);
    return RIG_OK;
}

/* "pci0000:3a", "pci10000:00": a host bridge's directory (drivers/pci/probe.c,
   pci_register_host_bridge). */
static bool host_bridge_name(const char *name, size_t bytes, struct rig_bdf *out)
{
    char text[RIG_BDF_MAX + 8];
    if (bytes < 10 || bytes > 14 || strncmp(name, "pci", 3) != 0)
        return false;
    snprintf(text, sizeof text, "%.*s:00.0", (int)bytes - 3, name + 3);
    return rig_bdf_parse(text, out);
}

static bool function_name(const char *name, size_t bytes, struct rig_bdf *out)
{
    char text[RIG_BDF_MAX];
    if (bytes >= sizeof text)
        return false;
    snprintf(text, sizeof text, "%.*s", (int)bytes, name);
    return bytes >= 12 && rig_bdf_parse(text, out);
}

bool live_place(const char *path, struct rig_bdf bdf, enum place *out_place,
                struct rig_bdf *out_parent)
{
    struct rig_bdf above = {0}, last = {0};
    int depth = -1; /* functions after the last host bridge; -1: none seen */
    for (const char *p = path; *p;) {
        size_t bytes = strcspn(p, "/");
        struct rig_bdf at;
        if (host_bridge_name(p, bytes, &at)) {
            depth = 0;
            last = at;
        } else if (depth >= 0 && function_name(p, bytes, &at)) {
            depth++;
            above = last;
            last = at;
        }
        p += bytes + strspn(p + bytes, "/");
    }
    if (depth < 1 || rig_bdf_compare(last, bdf) != 0)
        return false;
    *out_place = depth == 1 ? PLACE_ROOT : PLACE_UNDER;
    *out_parent = above;
    return true;
}

/* The directory that an entry of live->functions stands for. */
static void entry_path(const struct live *live, const char *name, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/%s", live->functions, name);
}

/* *out_placed counts the entries whose link tells their place. */
static enum rig_status add_listed(struct live *live, const char *name, struct live_entries *list,
                                  int *placed, struct rig_error *err)
{
    char path[PATH_BYTES], link[PATH_BYTES];
    struct live_entry entry = {.place = PLACE_BY_BUSES};
    if (!function_name(name, strlen(name), &entry.bdf))
        return RIG_OK;
    entry_path(live, name, path);
    bool told = sysfs_link(&live->fs, path, link, sizeof link) &&
                live_place(link, entry.bdf, &entry.place, &entry.parent);
    *placed += told;
    return add_entry(list, entry, path, told ? link : NULL, err);
}

static enum rig_status list_functions(struct live *live, struct live_entries *list, int *placed,
                                      struct rig_error *err)
{
    DIR *dir = sysfs_directory(&live->fs, live->functions, 0);
    if (!dir)
        return errno == ENOMEM ? rig_fail_memory(err) : RIG_OK;
    enum rig_status status = RIG_OK;
    for (struct dirent *d; status == RIG_OK && (d = readdir(dir)) != NULL;)
        status = add_listed(live, d->d_name, list, placed, err);
    closedir(dir);
    return status;
}

static enum rig_status list_this_machine(struct live *live, struct live_entries *list, int *placed,
                                         struct rig_error *err)
{
    struct rig_bdf bdf;
    enum rig_status status = RIG_OK;
    while (status == RIG_OK && libpci_next(live->pci, &bdf)) {
        char name[RIG_BDF_MAX];
        status = add_listed(live, rig_bdf_format(bdf, name), list, placed, err);
    }
    return status;
}

/* A walk of the device tree, for trees whose links were lost in copying. */
struct walk {
    struct live *live;
    struct live_entries *list;
    struct rig_error *err;
    char path[PATH_BYTES];
    size_t visited;
};

#define WALK_MAX_DIRECTORIES 1000000u

static enum rig_status walk_into(struct walk *w);

static enum rig_status walk_entry(struct walk *w, const char *name)
{
    struct rig_bdf bdf;
    size_t length = strlen(w->path), bytes = strlen(name);
    struct live_entry entry = {.place = PLACE_BY_BUSES};
    bool function = function_name(name, bytes, &bdf);
    bool inside = function || host_bridge_name(name, bytes, &bdf) || strcmp(name, "platform") == 0;
    if (!inside)
        return RIG_OK;
    if (length + bytes + 2 > sizeof w->path)
        return rig_fail(w->err, RIG_BAD_INPUT, w->path, "the device tree is too deep");
    snprintf(w->path + length, sizeof w->path - length, "/%s", name);
    enum rig_status status = RIG_OK;
    if (function) {
        entry.bdf = bdf;
        live_place(w->path, bdf, &entry.place, &entry.parent);
        status = add_entry(w->list, entry, w->path, w->path, w->err);
    }
    if (status == RIG_OK)
        status = walk_into(w);
    w->path[length] = '\0';
    return status;
}

/* Links are not followed: each directory is visited once. The path's room bounds the depth. */
static enum rig_status walk_into(struct walk *w)
{
    if (w->visited++ > WALK_MAX_DIRECTORIES)
        return rig_fail(w->err, RIG_BAD_INPUT, w->path, "the device tree is too large");
    DIR *dir = sysfs_directory(&w->live->fs, w->path, O_NOFOLLOW);
    if (!dir)
        return errno == ENOMEM ? rig_fail_memory(w->err) : RIG_OK;
    /* The names first, so that no directory stays open while those below it are read. */
    char(*names)[RIG_BDF_MAX] = NULL;
    size_t count = 0, room = 0;
    enum rig_status status = RIG_OK;
    for (struct dirent *d; (d = readdir(dir)) != NULL;) {
        if (strlen(d->d_name) >= RIG_BDF_MAX || d->d_name[0] == '.')
            continue;
        if (count == room) {
            room = room ? room * 2 : 32;
            void *more = realloc(names, room * sizeof *names);
            if (!more) {
                status = rig_fail_memory(w->err);
                break;
            }
            names = more;
        }
        strcpy(names[count++], d->d_name);
    }
    closedir(dir);
    for (size_t i = 0; status == RIG_OK && i < count; i++)
        status = walk_entry(w, names[i]);
    free(names);
    return status;
}

static enum rig_status walk_tree(struct live *live, struct live_entries *list,
                                 struct rig_error *err)
{
    struct walk *w = calloc(1, sizeof *w);
    if (!w)
        return rig_fail_memory(err);
    w->live = live;
    w->list = list;
    w->err = err;
    snprintf(w->path, sizeof w->path, "%s", live->tree);
    enum rig_status status = walk_into(w);
    free(w);
    return status;
}

static int by_place(const void *a, const void *b)
{
    return rig_bdf_compare(((const struct live_entry *)a)->bdf,
                           ((const struct live_entry *)b)->bdf);
}

static bool listed(const struct live_entries *list, int sorted, struct rig_bdf bdf)
{
    struct live_entry key = {.bdf = bdf};
    if (bsearch(&key, list->entry, (size_t)sorted, sizeof key, by_place))
        return true;
    for (int i = sorted; i < list->count; i++)
        if (rig_bdf_compare(list->entry[i].bdf, bdf) == 0)
            return true;
    return false;
}

/* Where the directory lies that a link's text leads to, "../../../devices/pci0000:00/…". */
static void tree_path(const struct live *live, const char *chain, char path[PATH_BYTES + 16])
{
    const char *below = strstr(chain, "devices/");
    snprintf(path, PATH_BYTES + 16, "%s/%s", live->tree,
             below ? below + strlen("devices/") : chain);
}

/* Adds the bridges that `chain` leads through and that the list lacks. */
static enum rig_status add_bridges(struct live *live, struct live_entries *list, int sorted,
                                   const char *chain, struct rig_error *err)
{
    enum rig_status status = RIG_OK;
    for (const char *p = chain; status == RIG_OK && *p;) {
        size_t bytes = strcspn(p, "/");
        struct live_entry entry = {.place = PLACE_BY_BUSES, .bridge = true};
        char upto[PATH_BYTES], path[PATH_BYTES + 16];
        snprintf(upto, sizeof upto, "%.*s", (int)(p - chain) + (int)bytes, chain);
        if (function_name(p, bytes, &entry.bdf) && !listed(list, sorted, entry.bdf) &&
            live_place(upto, entry.bdf, &entry.place, &entry.parent)) {
            tree_path(live, upto, path);
            status = add_entry(list, entry, path, upto, err);
        }
        p += bytes + strspn(p + bytes, "/");
    }
    return status;
}

/* A tree that was gathered in part names bridges in the paths of what is below them. */
static enum rig_status complete_chains(struct live *live, struct live_entries *list,
                                       struct rig_error *err)
{
    int sorted = list->count;
    if (sorted == 0)
        return RIG_OK;
    qsort(list->entry, (size_t)sorted, sizeof *list->entry, by_place);
    enum rig_status status = RIG_OK;
    for (int i = 0; status == RIG_OK && i < sorted; i++)
        if (list->entry[i].chain)
            status = add_bridges(live, list, sorted, list->entry[i].chain, err);
    live->t->whole = list->count == sorted;
    return status;
}

enum rig_status live_find(struct live *live, struct live_entries *out, struct rig_error *err)
{
    int placed = 0;
    struct live_entries list = {.entry = NULL}, walked = {.entry = NULL};
    enum rig_status status = live->pci ? list_this_machine(live, &list, &placed, err)
                                       : list_functions(live, &list, &placed, err);
    if (status == RIG_OK && !live->this_machine && (list.count == 0 || placed < list.count))
        status = walk_tree(live, &walked, err);
    /* Whichever knows more. */
    if (status == RIG_OK && walked.count >= list.count && walked.count > 0) {
        struct live_entries swap = list;
        list = walked;
        walked = swap;
    }
    live_entries_free(&walked);
    if (status == RIG_OK)
        status = complete_chains(live, &list, err);
    if (status != RIG_OK) {
        live_entries_free(&list);
        return status;
    }
    *out = list;
    return RIG_OK;
}
