#include "session/names.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

static int compare_text(const void *a, const void *b)
{
    return strcmp(((const struct name *)a)->text, ((const struct name *)b)->text);
}

static int compare_id(const void *a, const void *b)
{
    uint64_t x = ((const struct name *)a)->id, y = ((const struct name *)b)->id;
    return (x > y) - (x < y);
}

static struct name *find(void *const *tree, const struct name *key,
                         int (*compare)(const void *a, const void *b))
{
    void *node = tfind(key, tree, compare);
    return node ? *(struct name **)node : NULL;
}

static struct name *find_text(const struct names *names, const char *text)
{
    struct name key = {.id = 0};
    if (strlen(text) >= NAME_BYTES)
        return NULL;
    strcpy(key.text, text);
    return find(&names->by_text, &key, compare_text);
}

static struct name *find_id(const struct names *names, uint64_t id)
{
    struct name key = {.id = id};
    return find(&names->by_id, &key, compare_id);
}

uint64_t names_find(const struct names *names, const char *text)
{
    const struct name *found = find_text(names, text);
    return found ? found->id : 0;
}

const char *names_of(const struct names *names, uint64_t id)
{
    const struct name *found = find_id(names, id);
    return found ? found->text : NULL;
}

static void drop(struct names *names, struct name *take_name)
{
    tdelete(take_name, &names->by_text, compare_text);
    tdelete(take_name, &names->by_id, compare_id);
    free(take_name);
}

bool names_add(struct names *names, const char *text, uint64_t id)
{
    struct name *before = find_text(names, text);
    struct name *n = calloc(1, sizeof *n);
    if (!n)
        return false;
    if (before)
        drop(names, before);
    strcpy(n->text, text);
    n->id = id;
    if (!tsearch(n, &names->by_text, compare_text)) {
        free(n);
        return false;
    }
    if (!tsearch(n, &names->by_id, compare_id)) {
        tdelete(n, &names->by_text, compare_text);
        free(n);
        return false;
    }
    return true;
}

void names_drop(struct names *names, uint64_t id)
{
    struct name *found = find_id(names, id);
    if (found)
        drop(names, found);
}

struct walk {
    void (*each)(const struct name *name, void *context);
    void *context;
};

static void visit(const void *node, VISIT when, void *closure)
{
    const struct walk *w = closure;
    if (when == postorder || when == leaf)
        w->each(*(struct name *const *)node, w->context);
}

void names_each(const struct names *names, void (*each)(const struct name *name, void *context),
                void *context)
{
    struct walk w = {each, context};
    twalk_r(names->by_id, visit, &w);
}

static void keep(void *node)
{
    (void)node;
}

void names_clear(struct names *names)
{
    tdestroy(names->by_text, keep);
    tdestroy(names->by_id, free);
    *names = (struct names){NULL, NULL};
}
