#include "session/names.h"

#include <stdlib.h>
#include <string.h>

static int by_id(const void *a, const void *b)
{
    uint64_t x = ((const struct name *)a)->id, y = ((const struct name *)b)->id;
    return (x > y) - (x < y);
}

/* The id's entry, also a dropped one, or NULL. */
static struct name *find(const struct names *names, uint64_t id)
{
    struct name key = {.id = id};
    return names->count ? bsearch(&key, names->name, names->count, sizeof key, by_id) : NULL;
}

uint64_t names_find(const struct names *names, const char *text)
{
    return (uint64_t)json_integer_value(json_object_get(names->ids, text));
}

const char *names_of(const struct names *names, uint64_t id)
{
    const struct name *found = find(names, id);
    return found ? found->text : NULL;
}

static bool make_room(struct names *names, size_t count)
{
    if (count <= names->room)
        return true;
    size_t room = names->room * 2 < count ? count : names->room * 2;
    struct name *grown = reallocarray(names->name, room, sizeof *grown);
    if (!grown)
        return false;
    names->name = grown;
    names->room = room;
    return true;
}

/* Puts the name, whose text is a key, into its place in the array, which has room. */
static void enter(struct names *names, uint64_t id, const char *text)
{
    struct name *was = find(names, id); /* it had a name */
    size_t at = names->count;
    if (was) {
        was->text = text;
        names->dropped--;
        return;
    }
    for (; at > 0 && names->name[at - 1].id > id; at--)
        names->name[at] = names->name[at - 1];
    names->name[at] = (struct name){id, text};
    names->count++;
}

bool names_add(struct names *names, const char *text, uint64_t id)
{
    if (!names->ids)
        names->ids = json_object();
    if (!names->ids || !make_room(names, names->count + 1))
        return false;
    names_drop(names, names_find(names, text));
    names_drop(names, id);
    if (json_object_set_new(names->ids, text, json_integer((json_int_t)id)) != 0)
        return false;
    enter(names, id, json_object_iter_key(json_object_iter_at(names->ids, text)));
    return true;
}

/* Lets go of dropped entries where they are the most. */
static void compact(struct names *names)
{
    if (names->dropped * 2 <= names->count)
        return;
    size_t kept = 0;
    for (size_t i = 0; i < names->count; i++)
        if (names->name[i].text)
            names->name[kept++] = names->name[i];
    names->count = kept;
    names->dropped = 0;
}

void names_drop(struct names *names, uint64_t id)
{
    struct name *found = find(names, id);
    if (!found || !found->text)
        return;
    json_object_del(names->ids, found->text);
    found->text = NULL;
    names->dropped++;
    compact(names);
}

void names_each(const struct names *names, void (*each)(const struct name *name, void *context),
                void *context)
{
    for (size_t i = 0; i < names->count; i++)
        if (names->name[i].text)
            each(&names->name[i], context);
}

json_t *names_json(const struct names *names)
{
    return names->ids ? json_incref(names->ids) : json_object();
}

/* The entries of the object's members; false: one is no name. */
static bool load_entries(struct names *names, json_t *ids)
{
    bool ordered = true;
    const char *text;
    json_t *id;
    json_object_foreach(ids, text, id)
    {
        uint64_t number = (uint64_t)json_integer_value(id);
        if (strlen(text) >= NAME_BYTES || json_integer_value(id) <= 0)
            return false;
        ordered = ordered && (names->count == 0 || names->name[names->count - 1].id < number);
        names->name[names->count++] = (struct name){number, text};
    }
    if (!ordered)
        qsort(names->name, names->count, sizeof *names->name, by_id);
    for (size_t i = 1; i < names->count; i++)
        if (names->name[i - 1].id == names->name[i].id)
            return false;
    return true;
}

enum rig_status names_load(struct names *names, json_t *ids, size_t most)
{
    if (!json_is_object(ids) || json_object_size(ids) > most)
        return RIG_BAD_INPUT;
    if (!make_room(names, json_object_size(ids)))
        return RIG_FAILED;
    if (!load_entries(names, ids)) {
        names_clear(names);
        return RIG_BAD_INPUT;
    }
    names->ids = json_incref(ids);
    return RIG_OK;
}

void names_clear(struct names *names)
{
    json_decref(names->ids);
    free(names->name);
    *names = (struct names){0};
}
