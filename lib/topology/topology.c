#include "topology/topology.h"

#include "topology/strings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A reader that meets a thousand odd lines says so a few times, not a thousand. */
#define MAX_WARNINGS 64

struct rig_topology *topology_new(enum rig_source source)
{
    struct rig_topology *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->machine.source = source;
    t->pool = string_pool_new(NULL);
    if (!t->pool) {
        free(t);
        return NULL;
    }
    return t;
}

void rig_topology_free(struct rig_topology *t)
{
    if (!t)
        return;
    for (int i = 0; i < t->warnings; i++)
        free(t->warning[i]);
    free(t->warning);
    free(t->node);
    free(t->host_bridge);
    string_pool_drop(t->pool);
    free(t);
}

static void *copy_of(const void *from, size_t bytes)
{
    void *to = malloc(bytes ? bytes : 1);
    if (to && bytes)
        memcpy(to, from, bytes);
    return to;
}

enum rig_status rig_topology_copy(const struct rig_topology *t, struct rig_topology **out_topology,
                                  struct rig_error *err)
{
    struct rig_topology *c = calloc(1, sizeof *c);
    if (!c)
        return rig_fail_memory(err);
    *c = *t;
    c->capacity = t->count;
    c->pool = string_pool_new(t->pool);
    c->node = copy_of(t->node, (size_t)t->count * sizeof *t->node);
    c->host_bridge = copy_of(t->host_bridge, (size_t)t->host_bridges * sizeof *t->host_bridge);
    c->warning = calloc((size_t)t->warnings + 1, sizeof *c->warning);
    c->warnings = 0;
    bool whole = c->pool && c->node && c->host_bridge && c->warning;
    for (int i = 0; whole && i < t->warnings; i++) {
        c->warning[i] = strdup(t->warning[i]);
        whole = c->warning[i] != NULL;
        c->warnings += whole;
    }
    if (!whole) {
        rig_topology_free(c);
        return rig_fail_memory(err);
    }
    *out_topology = c;
    return RIG_OK;
}

enum rig_status topology_add(struct rig_topology *t, struct rig_bdf bdf, struct node **out_node,
                             struct rig_error *err)
{
    if (t->count == TOPOLOGY_MAX_FUNCTIONS)
        return rig_fail(err, RIG_BAD_INPUT, NULL, "more than %d functions", TOPOLOGY_MAX_FUNCTIONS);
    if (t->count == t->capacity) {
        int capacity = t->capacity ? t->capacity * 2 : 64;
        struct node *node = realloc(t->node, (size_t)capacity * sizeof *node);
        if (!node)
            return rig_fail_memory(err);
        t->node = node;
        t->capacity = capacity;
    }
    struct node *n = &t->node[t->count++];
    memset(n, 0, sizeof *n);
    n->f.bdf = bdf;
    n->f.parent = n->f.host_bridge = n->f.physical = n->f.memory_bar = -1;
    *out_node = n;
    return RIG_OK;
}

const char *topology_intern(struct rig_topology *t, const char *text, size_t bytes)
{
    return string_pool_add(t->pool, text, bytes);
}

struct rig_text topology_text(struct rig_topology *t, const char *text)
{
    const char *kept = topology_intern(t, text, strlen(text));
    if (!kept)
        return (struct rig_text){.know = RIG_FACT_UNKNOWN};
    return (struct rig_text){.value = kept, .know = RIG_FACT_KNOWN};
}

void topology_warn(struct rig_topology *t, const char *format, ...)
{
    if (t->warnings == MAX_WARNINGS)
        return;
    char *text;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0)
        return;
    for (int i = 0; i < t->warnings; i++) {
        if (strcmp(t->warning[i], text) == 0) {
            free(text);
            return;
        }
    }
    char **grown = realloc(t->warning, ((size_t)t->warnings + 1) * sizeof *grown);
    if (!grown) {
        free(text);
        return;
    }
    t->warning = grown;
    t->warning[t->warnings++] = text;
}

int rig_topology_count(const struct rig_topology *t)
{
    return t->count;
}

const struct rig_function *rig_topology_function(const struct rig_topology *t, int i)
{
    return &t->node[i].f;
}

int rig_topology_host_bridges(const struct rig_topology *t)
{
    return t->host_bridges;
}

const struct rig_host_bridge *rig_topology_host_bridge(const struct rig_topology *t, int i)
{
    return &t->host_bridge[i];
}

const struct rig_machine_facts *rig_topology_machine(const struct rig_topology *t)
{
    return &t->machine;
}

int rig_topology_find_bdf(const struct rig_topology *t, struct rig_bdf bdf)
{
    int low = 0, high = t->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (rig_bdf_compare(t->node[middle].f.bdf, bdf) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->count && rig_bdf_compare(t->node[low].f.bdf, bdf) == 0 ? low : -1;
}

int rig_topology_find(const struct rig_topology *t, const char *name)
{
    struct rig_bdf bdf;
    if (rig_bdf_parse(name, &bdf))
        return rig_topology_find_bdf(t, bdf);
    for (int i = 0; i < t->count; i++)
        if (t->node[i].f.alias && strcmp(t->node[i].f.alias, name) == 0)
            return i;
    return -1;
}

int rig_topology_warnings(const struct rig_topology *t)
{
    return t->warnings;
}

const char *rig_topology_warning(const struct rig_topology *t, int i)
{
    return t->warning[i];
}
