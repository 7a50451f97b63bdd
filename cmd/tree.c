/* Small things about jansson's trees. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void put(struct reply *reply, json_t *object, const char *key, json_t *take_value)
{
    if (json_object_set_new(object, key, take_value) != 0)
        reply->no_memory = true;
}

void add(struct reply *reply, json_t *array, json_t *take_value)
{
    if (json_array_append_new(array, take_value) != 0)
        reply->no_memory = true;
}

json_t *text_json(const char *text)
{
    if (!text)
        return json_null();
    json_t *value = json_string(text);
    if (value)
        return value;
    char *spelled = malloc(strlen(text) * 4 + 1);
    if (!spelled)
        return NULL;
    char *p = spelled;
    while (*text) {
        bool plain;
        size_t bytes = text_next(text, &plain);
        if (bytes == 1 && (unsigned char)*text >= 0x80)
            p += sprintf(p, "\\x%02x", (unsigned)(unsigned char)*text);
        else
            for (size_t i = 0; i < bytes; i++)
                *p++ = text[i];
        text += bytes;
    }
    *p = '\0';
    value = json_string(spelled);
    free(spelled);
    return value;
}

const char *member_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

long long member_number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}
